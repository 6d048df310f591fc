"""Every trap of the format, one value at a time: what is it, and does it stay apart from what it is not."""

from __future__ import annotations

import struct
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.validators.dbf_files import DELETED, LIVE, Dbt, F, Fpt, Table, diff, noted, told
from validators.changes import Cell, CellState, ContractFault, Kind, Unreadable
from validators.dbf import TableState, load_table

V, B, U, N = CellState.VALUE, CellState.BLANK, CellState.UNDECODABLE, CellState.NULL


def cell(item: F, raw: bytes, encoding: str | None = None, **table: object) -> Cell:
    made = Table([item], [raw], **table)  # type: ignore[arg-type]
    return load_table(made.state(), encoding).row(0)[item.name]


def seen(one: Cell) -> tuple[CellState, object]:
    return one.state, one.value


NUMBERS = [
    (b"******", 6, 0, U, None), (b"   .  ", 6, 2, B, None), (b"  -   ", 6, 0, U, None), (b" 1 2  ", 6, 0, U, None),
    (b"\0\0\0\0\0\0", 6, 0, B, None), (b"      ", 6, 0, B, None), (b"60.00\0\0", 7, 2, V, "60.00"), (b"  1,50", 6, 2, V, "1.50"),
    (b" 1,500", 6, 2, U, None), (b"1,5,00", 6, 2, U, None), (b"1_000 ", 6, 0, U, None), (b"   1e3", 6, 0, V, "1000"),
    (b"1.E+3 ", 6, 0, V, "1000"), (b"1E9999", 6, 0, U, None), (b"   nan", 6, 0, U, None), (b"   inf", 6, 0, U, None),
    (b"12345678901234.5678", 19, 4, V, "12345678901234.5678"), (b"-0.000", 6, 3, V, "0"), (b"  1.50", 6, 2, V, "1.50"),
    (b"1.5   ", 6, 2, V, "1.5"), (b"+5    ", 6, 0, V, "5"), (b"   .5 ", 6, 1, V, ".5"), (b"    F ", 6, 0, U, None),
    (b"b'0.0'", 6, 1, U, None), ("٣٤".encode(), 4, 0, U, None), (b"\t 1   ", 6, 0, U, None),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "length", "decimals", "state", "value"), NUMBERS)
@pytest.mark.parametrize("letter", "NF")
def test_numbers(letter: str, raw: bytes, length: int, decimals: int, state: CellState, value: str | None) -> None:
    found = cell(F("X", letter, length, decimals), raw)
    assert seen(found) == (state, None if value is None else Decimal(value))
    assert (found.kind, found.raw, found.has_blank) == (Kind.NUMBER, raw, True)
    assert not str(found.value).startswith("-0")


def test_long_numbers_keep_every_digit() -> None:
    assert not cell(F("X", "N", 20, 4), b" 12345678901234.5678").same_value(
        cell(F("X", "N", 20, 4), b" 12345678901234.5679")
    )


@pytest.mark.parametrize(
    ("raw", "state", "value"),
    [
        (b"20240229", V, date(2024, 2, 29)), (b"00000000", B, None), (b"        ", B, None), (bytes(8), B, None),
        (b"20240230", U, None), (b"2024-1-1", U, None), (b"2024 1 1", U, None), (b"********", U, None), (b"24/01/20", U, None),
        (b"00010101", V, date(1, 1, 1)), (b"99991231", V, date(9999, 12, 31)),
    ],
)  # fmt: skip
def test_dates(raw: bytes, state: CellState, value: date | None) -> None:
    found = cell(F("X", "D", 8), raw)
    assert seen(found) == (state, value)
    assert found.raw == raw


@pytest.mark.parametrize("raw", [bytes([byte]) for byte in range(256)])
def test_logical(raw: bytes) -> None:
    found = cell(F("X", "L", 1), raw)
    if raw in b" ?\0":
        assert seen(found) == (B, None)
    elif raw in b"TtYyJj":
        assert seen(found) == (V, True)
    elif raw in b"FfNn":
        assert seen(found) == (V, False)
    else:
        assert seen(found) == (U, None)


def test_text_padding() -> None:
    field = F("X", "C", 6)
    assert cell(field, b"a\0b\0 \0").value == "a\0b"
    assert cell(field, b"  a   ").value == "  a"
    assert cell(field, bytes(6)).state is cell(field, b" " * 6).state is B
    both = Table([field], [b"abc\0\0\0"]), Table([field], [b"abc   "])
    assert not diff(*both).changes
    assert noted(diff(*both)) == {"format": 1}


@pytest.mark.parametrize(
    ("language", "encoding", "raw", "value"),
    [
        (0x03, None, b"M\xfcller", "Müller"), (0x02, None, b"M\x81ller", "Müller"), (0x01, None, b"M\x81ller", "Müller"),
        (0x1F, None, b"\x9f", "č"), (0xC8, None, b"\xe8", "č"), (0x26, None, b"\x80", "А"), (0x68, None, b"\x87\xa8", "čš"),
        (0x69, None, b"\x92\xa2d\xa6", "łódź"), (0x03, "cp850", b"\x81", "ü"), (0x00, "cp850", b"\x81", "ü"),
        (0x00, "kamenicky", b"\x80", "Č"), (0x00, "Mazovia", b"\x95", "Ć"), (0x7B, None, "日本".encode("cp932"), "日本"),
        (0xF0, None, "Ш".encode(), "Ш"), (0x00, None, b"plain", "plain"),
    ],
)  # fmt: skip
def test_code_pages(language: int, encoding: str | None, raw: bytes, value: str) -> None:
    assert cell(F("X"), raw, encoding, language=language).value == value


def test_bytes_outside_the_code_page() -> None:
    unknown = cell(F("X"), b"\x81", language=0)
    assert (unknown.state, unknown.hint, unknown.raw) == (U, "declare encoding", b"\x81".ljust(10))
    undefined = cell(F("X"), b"\x81", language=3)
    assert (undefined.state, undefined.hint) == (U, "no text in cp1252")
    assert not unknown.same_value(cell(F("X"), b"\x82", language=0))
    rows = [b"good", b"b\x81d", b"fine"]
    table = load_table(Table([F("X")], rows, language=0).state())
    assert [table.row(at)["X"].state for at in range(3)] == [V, U, V]


def test_kamenicky_and_mazovia_are_cp437_with_letters() -> None:
    for byte in (*range(1, 0x80), *range(0xB0, 0x100)):
        raw = bytes([byte]) + b"."
        for name in ("kamenicky", "mazovia"):
            assert cell(F("X", "C", 2), raw, name).value == raw.decode("cp437")


@pytest.mark.parametrize("name", ["nonsense", "base64", "rot13", "undefined"])
def test_unknown_encoding_is_a_fault_of_the_contract(name: str) -> None:
    with pytest.raises(ContractFault, match="encoding"):
        load_table(Table([F("X")], [b"a"]).state(), name)


VFP: dict[str, Any] = {"version": 0x30}


@pytest.mark.parametrize(
    ("letter", "raw", "state", "value"),
    [
        ("I", struct.pack("<i", -5), V, Decimal(-5)), ("I", bytes(4), V, Decimal(0)),
        ("B", struct.pack("<d", 0.1), V, Decimal("0.1")), ("B", struct.pack("<d", -0.0), V, Decimal(0)),
        ("B", struct.pack("<d", float("nan")), U, None), ("B", struct.pack("<d", float("-inf")), U, None),
        ("Y", struct.pack("<q", -12345), V, Decimal("-1.2345")), ("Y", struct.pack("<q", 2**63 - 1), V, Decimal("922337203685477.5807")),
        ("T", struct.pack("<ii", 2451545, 43_200_000), V, datetime.fromisoformat("2000-01-01 12:00")), ("T", bytes(8), B, None), ("T", b" " * 8, B, None),
        ("T", struct.pack("<ii", 2451545, 86_400_000), U, None), ("T", struct.pack("<ii", 0, 5), U, None),
        ("T", struct.pack("<ii", -1, -1), U, None), ("T", struct.pack("<ii", 2**31 - 1, 0), U, None),
        ("T", struct.pack("<ii", 2451545, 999), V, datetime.fromisoformat("2000-01-01 00:00:01")),
    ],
)  # fmt: skip
def test_visual_foxpro_types(letter: str, raw: bytes, state: CellState, value: object) -> None:
    found = cell(F("X", letter, len(raw)), raw, **VFP)
    assert seen(found) == (state, value)
    assert not found.has_blank


@pytest.mark.parametrize(
    ("letter", "raw", "state", "value"),
    [
        ("I", b"\x80\0\0\x05", V, Decimal(5)), ("I", b"\x7f\xff\xff\xfb", V, Decimal(-5)), ("+", b"\x80\0\0\0", V, Decimal(0)),
        ("+", bytes(4), B, None), ("O", bytes.fromhex("bff8000000000000"), V, Decimal("1.5")),
        ("O", bytes.fromhex("4007ffffffffffff"), V, Decimal("-1.5")), ("O", bytes(8), B, None), ("@", bytes(8), B, None),
        ("@", struct.pack(">d", date(2024, 2, 29).toordinal() * 86_400_000 + 3_600_000), V, datetime.fromisoformat("2024-02-29 01:00")),
        ("@", b"\xff" * 8, U, None),
    ],
)  # fmt: skip
def test_dbase_7_types(letter: str, raw: bytes, state: CellState, value: object) -> None:
    found = cell(F("A longer name", letter, len(raw)), raw, version=0x04, driver=b"DB437US0", language=0)
    assert seen(found) == (state, value)
    assert not found.has_blank


def test_dbase_7_header_and_driver_name() -> None:
    table = load_table(
        Table(
            [F("Länge", "C", 4)], [b"\x81"], version=0x8C, driver=b"DB850DE0", language=0, padding=b"\0\x10" * 30
        ).state()
    )
    assert (table.dialect, table.encoding, table.row(0)["Länge"].value) == ("dBASE 7", "cp850", "ü")


def test_version_4_with_short_descriptors() -> None:
    table = load_table(Table([F("A", "N", 4)], [b"  12"], version=0x04).state())
    assert (table.dialect, table.row(0)["A"].value) == ("dBASE IV", Decimal(12))


def test_dbase_2() -> None:
    table = load_table(
        Table(
            [F("A:B", "C", 3), F("N", "N", 4, 1)], [b"abc 1.5"], version=0x02, tail=b"\x1a".ljust(300, b"\x1a")
        ).state()
    )
    assert (table.dialect, table.header_length) == ("dBASE II", 521)
    assert {name: one.value for name, one in table.row(0).items()} == {"A:B": "abc", "N": Decimal("1.5")}


def test_null_and_blank_are_different() -> None:
    fields = [F("A", "C", 3, flags=2), F("B", "N", 3), F("C", "I", 4, flags=2), F("_NullFlags", "0", 1, flags=5)]
    made = Table(fields, [b"     1\0\0\0\0\x01", b"     1\0\0\0\0\0", b"     1\0\0\0\0\x02"], version=0x30)
    table = load_table(made.state())
    assert [[one.state for one in table.row(at).values()] for at in range(3)] == [[N, V, V], [B, V, V], [B, V, N]]
    assert list(table.row(0)) == ["A", "B", "C"]
    change = diff(made, made.with_(rows=[made.rows[1], made.rows[1], made.rows[2]])).changes
    assert [one.changed for one in change] == [("A",)]


def test_varying_length() -> None:
    fields = [F("V", "V", 6), F("W", "V", 4, flags=2), F("Q", "Q", 4, flags=4), F("_NullFlags", "0", 1, flags=5)]
    # bits: V length 0, W length 1, W null 2, Q length 3
    rows = [
        b"abc\0\0\x03" b"xyz\x02" b"\x00\x01\x02\x03" b"\x03", b"abcd  " b"    " b"\xff\0\0\x01" b"\x0c",
        b"abc\0\0\x00" b"    " b"\0\0\0\0" b"\x09", b"abc\0\0\x07" b"    " b"\0\0\0\0" b"\x09",
    ]  # fmt: skip
    table = load_table(Table(fields, rows, version=0x32).state())
    found = [table.row(at) for at in range(4)]
    assert (found[0]["V"].value, found[0]["W"].value, found[0]["Q"].value) == ("abc", "xy", b"\0\x01\x02\x03")
    assert (found[1]["V"].value, found[1]["W"].state, found[1]["Q"].value) == ("abcd  ", N, b"\xff")
    assert (found[2]["V"].state, found[2]["W"].value, found[2]["Q"].state) == (B, "    ", B)
    assert found[3]["V"].state is U
    garbage = Table(fields, [rows[0]], version=0x32), Table(fields, [b"abcZZ\x03" + rows[0][6:]], version=0x32)
    assert not diff(*garbage).changes


def test_b_is_a_number_or_a_memo() -> None:
    memo = Dbt(measured=True)
    pointer = memo.add(b"\x01\x02")
    found = cell(F("X", "B", 10), pointer, version=0x8B, memo=memo.bytes(), kind="dbt")
    assert (found.kind, found.value) == (Kind.BINARY, b"\x01\x02")
    assert cell(F("X", "B", 8), struct.pack("<d", 2.5), **VFP).value == Decimal("2.5")


def test_unknown_type_is_compared_as_bytes() -> None:
    for raw in (b"\x01\x02\x03\x04", b"    "):
        found = cell(F("X", "7", 4), raw)
        assert (found.kind, found.state, found.raw) == (Kind.BINARY, U, raw)
        assert "dBASE III does not have" in found.hint


def test_binary_text() -> None:
    assert cell(F("X", "C", 4, flags=4), b"ab", **VFP).value == "ab"
    binary = cell(F("X", "C", 4, flags=4), b"\xff\x01", **VFP)
    assert (binary.kind, binary.value) == (Kind.BINARY, b"\xff\x01")


# --- memos ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [0, 1, 33, 64, 512, 1024])
def test_foxpro_memo_block_sizes(block: int) -> None:
    memo = Fpt(block)
    memo.add(b"first")
    pointer = memo.add(b"M\xfcller\r\n")
    found = cell(F("X", "M", 4), pointer, memo=memo.bytes(), **VFP)
    assert (found.kind, found.value, found.raw) == (Kind.VARTEXT, "Müller\r\n", b"M\xfcller\r\n")


@pytest.mark.parametrize("block", [512, 1024, 4096])
@pytest.mark.parametrize("mark", [b"\xff\xff\x08\x00", bytes(4)])
def test_measured_memos(block: int, mark: bytes) -> None:
    memo = Dbt(block, measured=True, mark=mark)
    memo.add(b"x" * 5000)
    pointer = memo.add(b"text\x1awith mark")
    assert cell(F("X", "M", 10), pointer, memo=memo.bytes(), kind="dbt", version=0x8B).value == "text\x1awith mark"


@pytest.mark.parametrize("version", [0x83, 0x03])
@pytest.mark.parametrize("measured", [False, True])
def test_memos_of_plain_tables(version: int, measured: bool) -> None:
    memo = Dbt(measured=measured)
    pointer = memo.add(b"long " * 300)
    assert cell(F("X", "M", 10), pointer, memo=memo.bytes(), kind="dbt", version=version).value == "long " * 300


@pytest.mark.parametrize("raw", [b" " * 10, b"         0", bytes(10)])
def test_no_memo(raw: bytes) -> None:
    assert cell(F("X", "M", 10), raw, memo=Dbt().bytes(), kind="dbt").state is B
    assert cell(F("X", "M", 10), raw).state is B


@pytest.mark.parametrize(
    ("block", "pointer", "hint"),
    [
        (512, 9999, "past the end"),
        (512, 2**32 - 1, "past the end"),
        (512, 2, "longer than the memo file"),
        (4, 1, "header"),
    ],
)
def test_wrong_memo_pointers(block: int, pointer: int, hint: str) -> None:
    memo = Fpt(512)
    memo.add(b"ok")
    data = bytearray(memo.bytes() + struct.pack(">II", 1, 2**32 - 1))
    struct.pack_into(">H", data, 6, block)
    found = cell(F("X", "M", 4), struct.pack("<I", pointer), memo=bytes(data), **VFP)
    assert found.state is U
    assert hint in found.hint


def test_memo_without_end_mark_and_broken_lengths() -> None:
    data = Dbt().bytes() + b"no end"
    assert cell(F("X", "M", 10), b"         1", memo=data, kind="dbt").hint == "memo 1 has no end mark"
    short = bytearray(512) + b"\xff\xff\x08\x00" + struct.pack("<I", 3) + bytes(100)
    assert "shorter" in cell(F("X", "M", 10), b"         1", memo=bytes(short), kind="dbt").hint
    assert cell(F("X", "M", 10), b"       abc", memo=data, kind="dbt").hint == "not a memo pointer"
    assert "cut off" in cell(F("X", "M", 4), b"\x01\0\0\0", memo=b"\0\0", **VFP).hint


def test_two_rows_may_share_a_memo() -> None:
    memo = Fpt()
    pointer = memo.add(b"shared")
    table = load_table(Table([F("X", "M", 4)], [pointer, pointer], version=0x30, memo=memo.bytes()).state())
    assert [table.row(at)["X"].value for at in range(2)] == ["shared", "shared"]


# --- headers, counts, records -----------------------------------------------------------------------------------------


def test_fields_are_stepped_by_length_not_by_displacement() -> None:
    fields = [F("A", "C", 2, displacement=77), F("B", "C", 2, displacement=3)]
    assert [one.value for one in load_table(Table(fields, [b"abcd"]).state()).row(0).values()] == ["ab", "cd"]


def test_fields_of_one_name_are_kept_apart() -> None:
    table = load_table(Table([F("A", "C", 1), F("A", "C", 1), F("A", "C", 1)], [b"xyz"]).state())
    assert {name: one.value for name, one in table.row(0).items()} == {"A": "x", "A#2": "y", "A#3": "z"}
    assert "several fields named A" in table.warnings[0]


def test_record_longer_than_its_fields() -> None:
    made = Table([F("A", "C", 2)], [b"abXX", b"cdYY"], record_length=5)
    table = load_table(made.state())
    assert [table.row(at)["A"].value for at in range(2)] == ["ab", "cd"]
    assert "2 bytes at the end of each record" in table.warnings[0]
    found = diff(made, made.with_(rows=[b"abXX", b"cdZZ"]))
    assert not found.changes
    assert noted(found) == {"slack": 1}


def test_long_character_fields_and_rubbish_in_their_place() -> None:
    long = Table([F("A", "C", 300 & 255, decimals=1), F("B", "N", 5, 2)], [b"x" * 300 + b" 1.50"], record_length=306)
    table = load_table(long.state())
    assert (table.fields[0].length, table.row(0)["B"].value) == (300, Decimal("1.50"))
    dirty = load_table(Table([F("A", "C", 3, decimals=2), F("B", "C", 1)], [b"abcd"]).state())
    assert [one.value for one in dirty.row(0).values()] == ["abc", "d"]


@pytest.mark.parametrize("terminator", [b"\r", b"", b"\0", b"\r\0", b"\r" + bytes(263)])
def test_header_ends(terminator: bytes) -> None:
    table = load_table(Table([F("A", "C", 2)], [b"ab"], terminator=terminator).state())
    assert [one.value for one in table.row(0).values()] == ["ab"]


def test_table_without_fields() -> None:
    table = load_table(Table([], [b"", b""]).state())
    assert (len(table), table.row(0)) == (2, {})


@pytest.mark.parametrize("tail", [b"", b"\x1a", b"\0", b"\x1a\x1a\0\0", b"\x1a row after the end mark"])
def test_file_ends(tail: bytes) -> None:
    assert len(load_table(Table([F("A", "C", 2)], [b"ab"], tail=tail).state())) == 1


def test_odd_deletion_flags_hide_nothing() -> None:
    flags = [LIVE, b"\0", b"-", b"\x1a", DELETED, LIVE]
    table = load_table(Table([F("A", "C", 1)], [b"a", b"b", b"c", b"d", b"e", b"f"], flags).state())
    assert [table.live(at) for at in range(6)] == [True, True, True, True, False, True]
    assert "".join(str(row["A"].value) for row, _ in table.views()) == "abcdef"


def test_uncounted_records_are_read() -> None:
    table = load_table(Table([F("A", "C", 1)], [b"a", b"b", b"c"], [LIVE, LIVE, DELETED], count=1).state())
    assert (table.count, table.uncounted, len(table)) == (1, 2, 3)
    assert "2 complete records beyond" in table.warnings[0]


def _bytes(**changes: object) -> bytes:
    return Table([F("A", "C", 4)], [b"abcd", b"efgh"], **changes).dbf()  # type: ignore[arg-type]


UNREADABLE = {
    "empty": (b"", "0 bytes"),
    "one byte": (b"\x03", "cut off"),
    "zeroed header": (bytes(32) + _bytes()[32:], "zeroed"),
    "all zero": (bytes(500), "zeroed"),
    "not a table": (b"MZ" + _bytes(), "version"),
    "fewer than counted": (_bytes(count=9), "counts 9 records, the file has 2"),
    "cut in a counted record": (_bytes()[:-3], "counts 2 records, the file has 1 and a partial"),
    "partial last record": (_bytes(tail=b" ab"), "partial"),
    "record length 0": (_bytes()[:10] + b"\0\0" + _bytes()[12:], "record length 0"),
    "record too short": (_bytes()[:10] + b"\x04\0" + _bytes()[12:], "fields need 5"),
    "header length 0": (_bytes()[:8] + b"\0\0" + _bytes()[10:], "header length 0"),
    "header length 32": (_bytes()[:8] + b"\x20\0" + _bytes()[10:], "header length 32"),
    "header beyond the file": (_bytes()[:8] + b"\xff\xff" + _bytes()[10:], "cut off"),
    "dBASE II cut off": (b"\x02\0\0\0\0\0\x05\0" + bytes(100), "cut off"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable(name: str) -> None:
    data, reason = UNREADABLE[name]
    with pytest.raises(Unreadable, match=reason) as caught:
        load_table(TableState(data, None, None, "P.DBF"))
    assert caught.value.reason.startswith("P.DBF: ")


def test_what_is_no_value_is_still_a_change() -> None:
    blank = Table([F("A", "N", 6), F("B", "L", 1)], [b"       ", b"     5?"])
    assert told(diff(blank, blank.with_(rows=[b"****** ", b"     5X"]))) == [
        ("updated", "record 1", ("A",)),
        ("updated", "record 2", ("B",)),
    ]
