"""Random and hostile tables: nothing is missed, nothing is made up, nothing but the two exceptions comes out."""

from __future__ import annotations

import contextlib
import datetime
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import dbf as dbf_library
import dbfread
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.validators.dbf_files import DELETED, LIVE, Dbt, F, Fpt, Table, diff, spec
from validators.changes import CellState, ContractFault, Unreadable, Verb
from validators.dbf import KeyIndex, TableState, diff_tables, load_table
from validators.dbf.index import HashIndex, join
from validators.dbf.table import cell_key

FIELDS = [
    F("K", "C", 2), F("N", "N", 3, 1), F("D", "D", 8), F("L", "L", 1), F("V", "V", 3, flags=2), F("M", "M", 4),
    F("_NullFlags", "0", 1, flags=5),
]  # fmt: skip
TEXTS = [b"", b"a", b"note", b"x" * 100]
_memo = Fpt()
POINTERS = [bytes(4), *(_memo.add(text) for text in TEXTS[1:]), _memo.add(b"note"), b"\xff\xff\0\0"]
MEMO = _memo.bytes()
_edited = bytearray(MEMO)
_edited[MEMO.index(b"note")] = ord(b"N")
EDITED = bytes(_edited)


def record(key: int) -> st.SearchStrategy[bytes]:
    parts = st.tuples(
        st.sampled_from([b"1.0", b"  1", b"1  ", b"***", b"   ", b"-.0", b"  0"]),
        st.sampled_from([b"20240101", b"00000000", b" " * 8, b"2024xx01"]),
        st.sampled_from([b"T", b"j", b"F", b" ", b"?", b"\0"]),
        st.sampled_from([b"ab\x02", b"abc", b"ab\x01", b"   "]),
        st.sampled_from(POINTERS),
        st.sampled_from([b"\0", b"\1", b"\2", b"\3"]),
    )
    return parts.map(lambda values: b"%02d" % key + b"".join(values))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    keys = draw(st.lists(st.integers(0, 12), unique=True, max_size=8))
    rows = [draw(record(key)) for key in keys]
    flags = [draw(st.sampled_from([LIVE, LIVE, DELETED])) for _ in keys]
    return Table(FIELDS, rows, flags, version=0x32, memo=MEMO)


@st.composite
def changed(draw: st.DrawFn, before: Table) -> Table:
    """What a program may do to a table: edit, flag, append, drop, sort, pack, copy rows, edit memos in place."""
    rows = list(zip(before.rows, before.flags or (), strict=True))
    memo = before.memo
    for _ in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(["edit", "flag", "append", "drop", "sort", "pack", "copy", "memo", "swap"])):
            case "edit" if rows:
                at = draw(st.integers(0, len(rows) - 1))
                rows[at] = draw(record(draw(st.integers(0, 14)))), rows[at][1]
            case "flag" if rows:
                at = draw(st.integers(0, len(rows) - 1))
                rows[at] = rows[at][0], DELETED if rows[at][1] == LIVE else LIVE
            case "append":
                rows.append((draw(record(draw(st.integers(0, 20)))), draw(st.sampled_from([LIVE, DELETED]))))
            case "drop" if rows:
                rows.pop(draw(st.integers(0, len(rows) - 1)))
            case "sort":
                rows.sort()
            case "pack":
                rows = [row for row in rows if row[1] == LIVE]
            case "copy" if rows:
                rows.append(draw(st.sampled_from(rows)))
            case "memo":
                memo = EDITED
            case "swap" if len(rows) > 1:
                rows[0], rows[-1] = rows[-1], rows[0]
            case _:
                pass
    return before.with_(rows=[row for row, _ in rows], flags=[flag for _, flag in rows], memo=memo)


def contents(table: Table, *, live: bool) -> Counter[Any]:
    loaded = load_table(table.state())
    return Counter(
        tuple((name, cell_key(cell)) for name, cell in row.items())
        for row, is_live in loaded.views()
        if is_live is live
    )


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from([(), ("K",), ("N", "K")]))
def test_changes_account_for_every_difference(data: st.DataObject, key: tuple[str, ...]) -> None:
    """Taking the changes' rows from the live rows before gives exactly the live rows after."""
    before = data.draw(tables())
    after = data.draw(changed(before))
    found = diff(before, after, *key)
    live = contents(before, live=True)
    for change in found.changes:
        out = change.before if change.verb in (Verb.UPDATED, Verb.DELETED) else None
        into = change.after if change.verb in (Verb.UPDATED, Verb.INSERTED, Verb.UNDELETED) else None
        if out is not None:
            live[tuple((name, cell_key(cell)) for name, cell in out.items())] -= 1
        if into is not None:
            live[tuple((name, cell_key(cell)) for name, cell in into.items())] += 1
        if change.verb is Verb.UPDATED:
            assert change.changed
            assert change.before is not None
            assert change.after is not None
            for name in change.before:
                assert change.before[name].same_value(change.after[name]) == (name not in change.changed)
    assert {row: count for row, count in live.items() if count} == dict(contents(after, live=True))


@settings(max_examples=200, deadline=None)
@given(tables(), st.sampled_from([(), ("K",)]))
def test_a_table_equals_itself(table: Table, key: tuple[str, ...]) -> None:
    found = diff(table, table, *key)
    assert (found.changes, found.notes) == ((), ())


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_purged_and_deleted_rows(data: st.DataObject) -> None:
    """Deleted rows are purged, undeleted or still there; no verb is used on a row in the wrong state."""
    before = data.draw(tables())
    after = data.draw(changed(before))
    one, two = load_table(before.state()), load_table(after.state())
    for change in diff(before, after, "K").changes:
        was = change.position - 1
        if change.verb in (Verb.DELETED, Verb.PURGED):
            assert one.live(was) is (change.verb is Verb.DELETED)
        else:
            assert two.live(was)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_block_comparison_finds_what_a_loop_finds(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 3000))
    edits = data.draw(st.sets(st.integers(0, max(0, count - 1)), max_size=20)) if count else set()
    rows = [b"%06d" % number for number in range(count)]
    before = Table([F("K", "C", 6), F("X", "C", 200)], rows)
    after = before.with_(rows=[row + b"!" if number in edits else row for number, row in enumerate(rows)])
    assert [change.position - 1 for change in diff(before, after, "K").changes] == sorted(edits)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 5), max_size=30))
def test_join_groups_by_key(left: list[int], right: list[int]) -> None:
    groups = join(range(len(left)), range(len(right)), left.__getitem__, right.__getitem__)
    found = {left[ones[0]]: (ones, twos) for ones, twos in groups}
    expected = {
        key: ([at for at, one in enumerate(left) if one == key], [at for at, two in enumerate(right) if two == key])
        for key in set(left) & set(right)
    }
    assert found == expected


def test_colliding_hashes_are_told_apart() -> None:
    class Same(str):
        __slots__ = ()

        def __hash__(self) -> int:
            return 7

    keys = [Same(name) for name in ("a", "b", "c", "b")]
    index = HashIndex(enumerate(keys), 3)
    assert list(index.find(Same("b"))) == [0, 1, 2, 3]
    assert list(index.repeated()) == [[0, 1, 2, 3]]
    groups = sorted(join(range(4), range(4), keys.__getitem__, keys.__getitem__))
    assert groups == [([0], [0]), ([1, 3], [1, 3]), ([2], [2])]


def test_many_keys() -> None:
    count = 70_000
    before = Table([F("K", "N", 8)], [b"%8d" % (number * 7919 % 999_983) for number in range(count)])
    index = KeyIndex.build(before.state(), ["K"])
    moved = before.with_(rows=[*before.rows[1:], before.rows[0]])
    found = diff_tables(before.state(), moved.state(), spec("K"), observable="t", index=index)
    assert not found.changes
    with pytest.raises(ContractFault, match=r"K=7919 \(records 2, 70001\)"):
        KeyIndex.build(before.with_(rows=[*before.rows, before.rows[1]]).state(), ["K"])


# --- hostile bytes ----------------------------------------------------------------------------------------------------

SEEDS = [
    Table(FIELDS, [b"011.020240101Tab\x02" + POINTERS[2] + b"\1"] * 3, version=0x32, memo=MEMO),
    Table(
        [F("A", "C", 5), F("M", "M", 10)],
        [b"abcde         1"] * 3,
        version=0x83,
        memo=Dbt().bytes() + b"memo\x1a",
        kind="dbt",
    ),
    Table([F("A", "+", 4), F("T", "@", 8)], [bytes(12)] * 2, version=0x8C, driver=b"DB437US0"),
    Table([F("A", "C", 5), F("N", "N", 5)], [b"abcde 1.50"] * 2, version=0x02),
    Table([F("B", "B", 8), F("I", "I", 4), F("Y", "Y", 8), F("T", "T", 8)], [bytes(range(28))] * 3, version=0x30),
]


def exercise(state: TableState, other: TableState) -> None:
    with contextlib.suppress(Unreadable, ContractFault):
        table = load_table(state, None)
        for row, _ in table.views():
            for cell in row.values():
                cell.display()
    for key in ([], ["A"], ["K"]):
        for pair in ((state, other), (other, state), (state, state)):
            with contextlib.suppress(Unreadable, ContractFault):
                found = diff_tables(*pair, spec(*key), observable="t")
                if pair[0] is pair[1]:
                    assert not found.changes
                [dict(change.before or {}) for change in found.changes]


@settings(max_examples=400, deadline=2000, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutated_tables(data: st.DataObject) -> None:
    seed = data.draw(st.sampled_from(SEEDS))
    files = [bytearray(seed.dbf()), bytearray(seed.memo or b"")]
    for _ in range(data.draw(st.integers(1, 6))):
        target = data.draw(st.sampled_from([files[0], files[0], files[1]]))
        if not target:
            continue
        at = data.draw(st.one_of(st.integers(0, min(120, len(target) - 1)), st.integers(0, len(target) - 1)))
        match data.draw(st.sampled_from(["set", "cut", "add", "wide"])):
            case "set":
                target[at] = data.draw(st.sampled_from([0, 1, 0x0D, 0x1A, 0x20, 0x2A, 0x30, 0x7F, 0x80, 0xFF]))
            case "wide":
                target[at : at + 4] = data.draw(st.sampled_from([bytes(4), b"\xff" * 4, b"\xff\xff\0\0"]))
            case "cut":
                del target[at:]
            case _:
                target += data.draw(st.binary(max_size=40))
    exercise(TableState(bytes(files[0]), bytes(files[1]) if seed.memo else None, seed.kind, "X"), seed.state())  # type: ignore[arg-type]


@settings(max_examples=300, deadline=2000)
@given(
    st.sampled_from([0x02, 0x03, 0x04, 0x30, 0x32, 0x83, 0x8B, 0x8C, 0xF5]),
    st.binary(max_size=700),
    st.binary(max_size=700),
)
def test_arbitrary_bytes(version: int, data: bytes, memo: bytes) -> None:
    exercise(TableState(data, memo, "fpt", "X"), SEEDS[0].state())
    exercise(TableState(bytes([version]) + data, memo, "dbt", "X"), SEEDS[1].state())


# --- other readers as oracles -----------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="cp1252", exclude_categories=["Cc", "Cs"]), max_size=8)
VALUES = st.tuples(
    TEXT.map(str.strip),  # the writer cuts blanks in front
    st.one_of(st.none(), st.decimals(-9999, 99999, places=2)),
    st.one_of(st.none(), st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))),
    st.one_of(st.none(), st.booleans()),
    TEXT,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(VALUES, max_size=8), st.sampled_from(["db3", "vfp"]))
def test_agrees_with_dbf_and_dbfread(rows: list[tuple[Any, ...]], kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.dbf"
        table = dbf_library.Table(str(path), "A C(8); B N(8,2); C D; D L; E M", dbf_type=kind, codepage="cp1252")
        with table.open(dbf_library.READ_WRITE):
            for row in rows:
                table.append(row)
            table._meta.mfd.flush()  # the library leaves the memo file's last bytes in its buffer
        # The library starts a year with blanks below 1000, where the format has zeros.
        memo = path.with_suffix(".fpt" if kind == "vfp" else ".dbt")
        state = TableState(path.read_bytes(), memo.read_bytes(), "fpt" if kind == "vfp" else "dbt", "T")
        loaded = load_table(state)
        assert loaded.encoding == "cp1252"
        ours = [loaded.row(at) for at in range(len(loaded))]
        with table.open(dbf_library.READ_ONLY):
            theirs = [tuple(record) for record in table]
        # dbfread takes the blanks of an empty Visual FoxPro memo for a pointer.
        read = list(dbfread.DBF(str(path))) if kind == "db3" else [{**row, "E": None} for row in _without_memos(path)]
    for mine, other, third, put in zip(ours, read, theirs, rows, strict=True):
        assert (mine["A"].value or "") == put[0].rstrip() == other["A"].rstrip() == third[0].rstrip()
        assert mine["B"].value == (None if put[1] is None else Decimal(put[1]).quantize(Decimal("0.01")))
        if put[2] is None or put[2].year >= 1000:
            assert mine["C"].value == put[2] == other["C"]
        assert mine["D"].value == put[3] == other["D"]
        # Both libraries cut what follows a memo's last character; ours keeps every byte.
        assert str(mine["E"].value or "").rstrip() == put[4].rstrip() == (third[4] or "").rstrip()
        assert kind == "vfp" or (other["E"] or "").rstrip() == put[4].rstrip()
        assert (mine["E"].state is CellState.BLANK) == (not mine["E"].raw)


def _without_memos(path: Path) -> list[dict[str, Any]]:
    path.with_suffix(".fpt").unlink()
    return list(dbfread.DBF(str(path), ignore_missing_memofile=True))
