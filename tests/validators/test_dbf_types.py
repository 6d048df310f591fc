"""A type is read by its own dialect's rules or not at all: every letter, in every dialect, of every length."""

from __future__ import annotations

import string
import struct
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.validators.dbf_files import F, Fpt, Table, diff, noted, told
from validators.changes import Cell, CellState, Kind
from validators.dbf import load_table
from validators.dbf.table import KeyReader

LETTERS = string.digits + string.ascii_letters + string.punctuation
ANY, POINTER = range(256), (4, 10)
PLAIN: dict[str, Iterable[int]] = {"C": ANY, "N": ANY, "L": (1,)}
DBASE3: dict[str, Iterable[int]] = {**PLAIN, "D": (8,), "F": ANY, "M": POINTER}
DIALECTS: dict[str, tuple[dict[str, Any], dict[str, Iterable[int]]]] = {
    "dBASE II": ({"version": 0x02}, PLAIN),
    "dBASE III": ({"version": 0x83}, DBASE3),
    "dBASE IV": ({"version": 0x8B}, {**DBASE3, "B": POINTER, "G": POINTER}),
    "dBASE 7": (
        {"version": 0x8C, "driver": b"DB437US0"},
        {**DBASE3, "B": POINTER, "G": POINTER, "I": (4,), "+": (4,), "O": (8,), "@": (8,)},
    ),
    "FoxPro 2": ({"version": 0xF5}, {**DBASE3, "G": POINTER, "P": POINTER}),
    "Visual FoxPro": (
        {"version": 0x30},
        {
            **DBASE3, "G": POINTER, "P": POINTER, "I": (4,), "B": (8,), "Y": (8,), "T": (8,), "V": ANY, "Q": ANY, "W": (4,),
        },
    ),
}  # fmt: skip
"""What the format descriptions give each dialect, written down apart from the program's own table."""
JULIAN = 1_721_425


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("letter", LETTERS)
def test_what_a_dialect_does_not_have_is_undecodable(name: str, letter: str) -> None:
    version, types = DIALECTS[name]
    valid = types.get(letter, ())
    for length in range(256):
        rows = [bytes(length), b" " * length, b"\x01" * length, bytes(range(length))]
        table = load_table(
            Table([F("K", "C", 3), F("X", letter, length)], [b"abc" + row for row in rows], **version).state()
        )
        assert table.dialect == name
        cells = [table.row(at)["X"] for at in range(4)]
        if length in valid:
            assert cells[0].state is not CellState.UNDECODABLE, (letter, length)
            assert not table.warnings
            continue
        for one, row in zip(cells, rows, strict=True):
            assert (one.state, one.value, one.raw) == (CellState.UNDECODABLE, None, row), (letter, length)
            assert name in one.hint
        assert not table.memo_fields
        (warning,) = table.warnings
        assert "field X" in warning
        assert name in warning
    assert table.row(0)["K"].value == "abc"  # the other fields stay usable


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_has_the_types_of_its_format_description(name: str) -> None:
    """Each of them gives a value of its kind."""
    version, types = DIALECTS[name]
    samples = {
        "C": b"a", "N": b"1", "F": b"1", "L": b"T", "D": b"20240229", "V": b"ab", "Q": b"ab", "+": b"\x80\0\0\1", "O": b"\xbf\xf8" + bytes(6),
        "@": struct.pack(">d", 700_000 * 86_400_000), "I": b"\x80\0\0\1", "Y": b"\1" + bytes(7), "T": struct.pack("<ii", 2451545, 0),
        "B": struct.pack("<d", 1.5),
    }  # fmt: skip
    kinds = {
        "C": Kind.TEXT, "V": Kind.VARTEXT, "Q": Kind.BINARY, "D": Kind.DATE, "T": Kind.DATETIME, "@": Kind.DATETIME, "L": Kind.LOGICAL,
    }  # fmt: skip
    pointers = {letter for letter, lengths in types.items() if lengths is POINTER} | ({"W"} & types.keys())
    for letter in types.keys() - pointers:
        raw = samples[letter]
        found = load_table(Table([F("X", letter, len(raw))], [raw], **version).state()).row(0)["X"]
        assert (found.state, found.kind) == (CellState.VALUE, kinds.get(letter, Kind.NUMBER)), letter
    for letter in pointers:
        memo = Fpt()
        pointer = memo.add(b"note")
        table = Table([F("X", letter, 4)], [pointer], memo=memo.bytes(), **version)
        found = load_table(table.state()).row(0)["X"]
        assert found.value == ("note" if letter == "M" else b"note"), letter


@pytest.mark.parametrize(
    ("version", "letter", "raw"),
    [(0xF5, "O", b"Ungerade"), (0x30, "O", b"Ungerade"), (0x30, "W", b"\1" + b" " * 63), (0x03, "T", struct.pack("<ii", 2451545, 0)), (0x8B, "B", struct.pack("<d", 1.5))],
)  # fmt: skip
def test_another_dialects_rules_are_never_applied(version: int, letter: str, raw: bytes) -> None:
    before = Table([F("X", letter, len(raw))], [raw], version=version, memo=Fpt().bytes())
    one = load_table(before.state()).row(0)["X"]
    assert (one.state, one.raw) == (CellState.UNDECODABLE, raw)
    after = before.with_(rows=[raw[:-1] + b"!"])
    assert told(diff(before, after)) == [("updated", "record 1", ("X",))]
    assert not diff(before, before).changes


# --- DateTime of Visual FoxPro ----------------------------------------------------------------------------------------


def moment(day: date, milliseconds: int) -> Cell:
    raw = struct.pack("<ii", day.toordinal() + JULIAN, milliseconds)
    return load_table(Table([F("T", "T", 8)], [raw], version=0x30).state()).row(0)["T"]


@given(st.dates(), st.integers(0, 86_399))
def test_whole_seconds_are_read_whatever_a_double_of_days_left_of_them(day: date, second: int) -> None:
    """Visual FoxPro keeps days as a double and cuts the milliseconds off when it stores."""
    stored = day.toordinal() + JULIAN
    milliseconds = int((stored + second / 86_400 - stored) * 86_400_000)
    found = moment(day, milliseconds)
    assert found.value == datetime.combine(day, datetime.min.time()) + timedelta(seconds=second)
    assert found.raw == struct.pack("<ii", stored, milliseconds)


@pytest.mark.parametrize(
    ("day", "milliseconds", "shown"),
    [
        (date(2024, 2, 28), 59_999, "2024-02-28 00:01:00"),
        (date(2024, 2, 28), 86_399_999, "2024-02-29 00:00:00"),
        (date(2024, 12, 31), 86_399_500, "2025-01-01 00:00:00"),
        (date(2024, 12, 31), 86_399_499, "2024-12-31 23:59:59"),
        (date(2024, 1, 1), 499, "2024-01-01 00:00:00"),
        (date(2024, 1, 1), 500, "2024-01-01 00:00:01"),
        (date(9999, 12, 31), 86_399_499, "9999-12-31 23:59:59"),
        (date(9999, 12, 31), 86_399_500, None),
        (date(2024, 1, 1), 86_400_000, None),
        (date(2024, 1, 1), -1, None),
    ],
)
def test_moments_are_read_to_the_second_that_programs_show(day: date, milliseconds: int, shown: str | None) -> None:
    found = moment(day, milliseconds)
    assert found.value == (None if shown is None else datetime.fromisoformat(shown))
    assert found.state is (CellState.UNDECODABLE if shown is None else CellState.VALUE)


def test_a_hidden_millisecond_is_a_difference_of_format_only() -> None:
    rows = [struct.pack("<ii", 2451545, 59_999), struct.pack("<ii", 2451545, 60_000)]
    before, after = (Table([F("T", "T", 8), F("K", "C", 1)], [row + b"a"], version=0x30) for row in rows)
    for key in ((), ("K",), ("T",)):
        found = diff(before, after, *key)
        assert (found.changes, noted(found)) == ((), {"format": 1})
    (change,) = diff(before, after, "K", strict_format=True).changes
    assert (change.changed, change.how) == (("T",), "format only")
    other = before.with_(rows=[struct.pack("<ii", 2451545, 60_500) + b"a"])
    assert told(diff(before, other, "K")) == [("updated", "K=a", ("T",))]


# --- NULs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letter", "raw", "state", "value"),
    [
        ("C", b"\0uber ", CellState.BLANK, None), ("C", b"\0\0\0\0\0x", CellState.BLANK, None), ("C", b"\0\x81", CellState.BLANK, None),
        ("C", b"Hu\0er ", CellState.VALUE, "Hu\0er"), ("C", b" \0x", CellState.VALUE, " \0x"), ("C", b"ab\0\0", CellState.VALUE, "ab"),
        ("N", b"\0\0\0\0", CellState.BLANK, None), ("N", b" \0 \0", CellState.BLANK, None), ("N", b"12\0\0", CellState.VALUE, 12),
        ("N", b"\0 12", CellState.UNDECODABLE, None), ("N", b" \x0012", CellState.UNDECODABLE, None), ("F", b"1\x002.", CellState.UNDECODABLE, None),
        ("D", bytes(8), CellState.BLANK, None), ("D", b"\x000240101", CellState.UNDECODABLE, None), ("D", b"2024\0\0\0\0", CellState.UNDECODABLE, None),
        ("L", b"\0", CellState.BLANK, None),
    ],
)  # fmt: skip
def test_nuls(letter: str, raw: bytes, state: CellState, value: object) -> None:
    found = load_table(Table([F("X", letter, len(raw))], [raw], language=0).state()).row(0)["X"]
    assert (found.state, found.value, found.raw) == (state, value, raw)


def test_what_stands_behind_a_first_nul_is_a_difference_of_format_only() -> None:
    before, after, blank = (Table([F("X", "C", 6)], [row]) for row in (b"\0uber ", b"\0eier ", b"      "))
    for one, other in ((before, after), (before, blank), (blank, after)):
        assert (diff(one, other).changes, noted(diff(one, other))) == ((), {"format": 1})
    assert told(diff(before, Table([F("X", "C", 6)], [b"Huber "]))) == [("updated", "record 1", ("X",))]


def test_bytes_without_a_code_page_may_begin_with_a_nul() -> None:
    found = load_table(Table([F("X", "C", 4, flags=4)], [b"\0\x01\0\x02"], version=0x30).state()).row(0)["X"]
    assert (found.kind, found.value) == (Kind.BINARY, b"\0\x01\0\x02")


RAW = st.lists(st.sampled_from([b"\0", b" ", b"0", b"1", b".", b",", b"-", b"x"]), min_size=4, max_size=4).map(b"".join)


@given(st.sampled_from("CNF"), st.sampled_from([0x02, 0x03, 0x30]), RAW, RAW)
def test_keys_are_equal_exactly_if_their_values_are(letter: str, version: int, one: bytes, other: bytes) -> None:
    table = load_table(Table([F("X", letter, 4, 1)], [one, other], version=version).state())
    reader = KeyReader(table, ["X"])
    same = table.row(0)["X"].same_value(table.row(1)["X"])
    assert (reader.at(0) == reader.at(1)) is same
    assert [key for _, key in reader.live()] == [reader.at(0), reader.at(1)]
