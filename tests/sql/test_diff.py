"""Comparing two tables without a server: the merge is exact whatever the order, and equal rows cost little."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sql.helpers import diff, rows, told
from validators.changes import CellState, ContractFault
from validators.matchers import RunContext, Subject, matches
from validators.sql.form import Form, fields_of, key_reader, line_writer
from validators.sql.merge import line_at, unequal_lines
from validators.sql.table import Column, Key, SqlState, cell_of, lines_of, same_value

COLUMNS = (
    Column("id", "int", False, Form.NUMBER),
    Column("name", "text", True, Form.TEXT),
    Column("n", "numeric", True, Form.NUMBER),
)


def state(
    *values: tuple[str | None, ...], keys: tuple[Key, ...] = (Key(("id",), "primary key"),), **more: Any
) -> SqlState:
    columns = more.pop("columns", COLUMNS)
    write = line_writer(len(columns), as_copy=False)
    lines = [write(row) for row in values]
    order = keys[0].columns if keys else ()
    if not order:
        lines.sort()
    data = "".join(f"{line}\n" for line in lines).encode()
    return SqlState("t", True, columns, keys, order, data, len(lines), **more)


TEXTS = (
    st.none() | st.text(st.characters(codec="utf-8"), max_size=6) | st.sampled_from(["\\N", "\\", "\t", "\n", "N", ""])
)


@given(st.lists(TEXTS, min_size=1, max_size=5), st.booleans())
def test_lines_give_back_what_was_written(values: list[str | None], as_copy: bool) -> None:
    line = line_writer(len(values), as_copy=as_copy)(values).encode()
    assert b"\n" not in line
    assert fields_of(line) == [None if value is None else value.encode() for value in values]


LINES = st.lists(st.sampled_from([b"a", b"b", b"", b"cc", b"d" * 5000, b"e\tf", b"g"]), max_size=30)


@given(LINES, LINES)
def test_the_merge_is_exact_for_lines_in_any_order(one: list[bytes], two: list[bytes]) -> None:
    before, after = (b"".join(line + b"\n" for line in lines) for lines in (one, two))
    found = unequal_lines(before, after, lambda line: line[:1])
    gone = Counter(line_at(before, start) for start in found.gone)
    new = Counter(line_at(after, start) for start in found.new)
    assert (gone, new) == (Counter(one) - Counter(two), Counter(two) - Counter(one))


@pytest.mark.parametrize("count", [1, 3000])
def test_a_block_of_rows_that_came_or_went_is_passed_over(count: int) -> None:
    every = [b"%d\tx" % number for number in range(10_000)]
    short = every[:5000] + every[5000 + count :]
    one, two = (b"".join(line + b"\n" for line in lines) for lines in (every, short))
    read: list[bytes] = []

    def key(line: bytes) -> bytes:
        read.append(line)
        return line.partition(b"\t")[0]

    assert (len(unequal_lines(one, two, key).gone), len(unequal_lines(two, one, key).new)) == (count, count)
    assert len(read) <= 4 * (count + 1)


def test_inserted_updated_deleted() -> None:
    before = state(("1", "a", "1"), ("2", "b", None), ("3", None, "3"), ("10", "x", "0"))
    after = state(("1", "a", "1.0"), ("2", "B", None), ("4", "", "3"), ("10", "x", "0"))
    found = diff(before, after)
    assert sorted(told(found)) == [("deleted", "id=3", ()), ("inserted", "id=4", ()), ("updated", "id=2", ("name",))]
    assert [(note.kind, note.count) for note in found.notes] == [("format", 1)]
    assert found.identity == "key id (primary key)"
    assert found.rows is not None
    assert [row["id"].value for row, live in found.rows.before() if live] == [1, 2, 3, 10]
    assert [row["name"].state for row, _ in found.rows.after()] == [
        CellState.VALUE, CellState.VALUE, CellState.BLANK, CellState.VALUE,
    ]  # fmt: skip


def test_a_contract_s_key_is_used_whatever_the_order_on_the_server() -> None:
    before = state(("1", "a", "1"), ("2", "b", "2"))
    after = state(("2", "a", "1"), ("3", "b", "9"))
    assert told(diff(before, after, key=["name"])) == [
        ("updated", "name=a", ("id",)),
        ("updated", "name=b", ("id", "n")),
    ]


def test_without_a_key_rows_are_a_multiset() -> None:
    before = state(("1", "a", "1"), ("1", "a", "1"), ("2", "b", "2"), keys=())
    after = state(("1", "a", "1"), ("2", "b", "2"), ("2", "b", "2"), keys=())
    found = diff(before, after)
    assert sorted(verb for verb, _, _ in told(found)) == ["deleted", "inserted"]
    assert found.identity == "by content"
    ignored = diff(
        before,
        state(("7", "a", "1"), ("8", "a", "1"), ("9", "b", "2"), keys=()),
        ignore=[{"column": "id", "because": "a number"}],
    )
    assert (told(ignored), ignored.ignored[0].count) == ([], 3)


def test_columns_in_another_order_and_of_another_type() -> None:
    before = state(("1", "a", "1"))
    after = state(("a", "1", "1"), columns=(COLUMNS[1], COLUMNS[0], COLUMNS[2]))
    found = diff(before, after)
    assert [(c.verb.value, c.how) for c in found.changes] == [("restructured", "order of columns")]
    wider = (COLUMNS[0], Column("name", "varchar(99)", True, Form.TEXT), COLUMNS[2])
    found = diff(before, state(("1", "b", "1"), columns=wider))
    assert told(found) == [("restructured", "t", ("name",)), ("updated", "id=1", ("name",))]
    keyless = diff(before, state(("a", "1"), columns=COLUMNS[1:], keys=()))
    assert keyless.identity == "by content"
    assert "the key column id is gone" in keyless.warnings[0]
    assert told(keyless)[1:] == []


def test_columns_that_do_not_exist() -> None:
    before = state(("1", "a", "1"))
    with pytest.raises(ContractFault, match="did you mean name"):
        diff(before, before, key=["nam"])
    with pytest.raises(ContractFault, match="`ignore`"):
        diff(before, before, ignore=[{"column": "seen", "because": "no reason"}])


@pytest.mark.parametrize(
    ("form", "one", "other", "same"),
    [
        (Form.NUMBER, b"1.10", b"1.1", True),
        (Form.NUMBER, b"1e2", b"100", True),
        (Form.NUMBER, b"NaN", b"nan", False),
        (Form.NUMBER, b"0.1", b"0.10000000149011612", False),
        (Form.CHAR, b"a  ", b"a", True),
        (Form.CHAR, b"  ", b"", True),
        (Form.TEXT, b"a ", b"a", False),
        (Form.TEXT, b"", None, False),
        (Form.DATETIME, b"2024-01-01 10:00:00.500000", b"2024-01-01 10:00:00.5", True),
        (Form.DATETIME, b"2024-01-01 10:00:00.1234567", b"2024-01-01 10:00:00.1234568", False),
        (Form.INSTANT, b"2024-01-01 10:00:00+00", b"2024-01-01 11:00:00+01", True),
        (Form.BYTES, rb"\x00ff", b"00FF", True),
        (Form.BOOL, b"t", b"1", True),
        (Form.DYNAMIC, b"i1", b"r1.0", True),
        (Form.DYNAMIC, b"i1", b"t1", False),
        (Form.DATE, b"infinity", b"9999-12-31", False),
    ],
)
def test_spellings_of_one_value(form: Form, one: bytes, other: bytes | None, same: bool) -> None:
    assert same_value(form, one, other) is same
    assert same_value(form, other, one) is same


@given(st.sampled_from(list(Form)), st.binary(max_size=12))
def test_whatever_bytes_a_value_has_it_is_a_cell(form: Form, text: bytes) -> None:
    cell = cell_of(form, text)
    assert cell.same_value(cell)
    assert cell.display()


@pytest.mark.parametrize(
    ("literal", "holds"),
    [("2024-07-01 10:00:00", True), ("2024-07-01 12:00:00+02:00", True), ("2024-07-01 12:00:00", False)],
)
def test_a_moment_with_a_zone_equals_the_literal_in_utc(literal: str, holds: bool) -> None:
    cell = cell_of(Form.INSTANT, b"2024-07-01 12:00:00+02")
    now = datetime(2024, 7, 1, tzinfo=UTC)
    assert matches(literal, Subject(cell), RunContext(now, now)) is holds


def test_lines_end_where_they_end() -> None:
    data = b"a\tb\n" * 700_000
    assert sum(1 for _ in lines_of(data)) == 700_000
    assert key_reader([1])(b"a\tb\tc") == b"b"
    assert key_reader([2, 0])(b"a\tb\tc") == (b"c", b"a")
    assert rows(state(("1", "x", "2")))[0]["n"].value == Decimal(2)


def test_a_key_that_is_only_spelt_differently_is_the_same_row() -> None:
    """A server's ``1.0`` and ``1.00``, or the blanks of its ``CHAR``, are one key."""
    columns = (Column("k", "numeric", False, Form.NUMBER), Column("v", "text", True, Form.TEXT))
    keys = (Key(("k",), "primary key"),)
    before = state(("1.0", "a"), ("2.5", "b"), ("3", "c"), columns=columns, keys=keys)
    after = state(("1.00", "a"), ("2.50", "B"), ("4", "c"), columns=columns, keys=keys)
    found = diff(before, after)
    assert sorted(told(found)) == [("deleted", "k=3", ()), ("inserted", "k=4", ()), ("updated", "k=2.5", ("v",))]
    assert [(note.kind, note.count) for note in found.notes] == [("format", 1)]
    twice = state(("1.00", "a"), ("1.000", "a"), columns=columns, keys=())
    assert sorted(verb for verb, _, _ in told(diff(before, twice, key=["k"]))) == ["deleted"] * 3 + ["inserted"] * 2
