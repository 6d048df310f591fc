"""Times beyond a day, as SQL servers keep them: each has a literal, a place among the others, and a spelling that reads back."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.schema import Between, Not, Regex
from runner.calibrate import matcher_of
from validators.changes import CellState, Kind
from validators.clock import OutOfDay, clock_of, comparable
from validators.matchers import RunContext, Subject, hint, matches
from validators.sql.form import Form
from validators.sql.table import cell_of, key_value, same_value
from validators.values import as_literal, moment_of

_DAY = 86_400_000_000
_MOST = (839 * 3600) * 1_000_000 - 1
_NOW = datetime(2024, 7, 1, 12, tzinfo=UTC)


def holds(matcher: Any, text: str) -> bool:
    return matches(matcher, Subject(cell_of(Form.TIME, text.encode())), RunContext(_NOW, _NOW))


SPANS = st.integers(-_MOST, _MOST)


def spelt(microseconds: int) -> str:
    return str(OutOfDay(microseconds))


@given(SPANS)
def test_every_time_that_a_server_can_hold_reads_back_and_has_a_literal(microseconds: int) -> None:
    text = spelt(microseconds)
    value = clock_of(text)
    assert isinstance(value, time) == (0 <= microseconds < _DAY)
    assert comparable(value) == OutOfDay(microseconds)
    cell = cell_of(Form.TIME, text.encode())
    assert (cell.kind, cell.state, cell.value) == (Kind.TIME, CellState.VALUE, value)
    assert cell.display() == str(value)
    literal = as_literal(cell)
    assert isinstance(literal, str)
    assert moment_of(literal, Kind.TIME) == value
    assert holds(literal, text)
    assert holds(matcher_of(cell), text)


@given(SPANS, SPANS)
def test_a_literal_fits_its_own_time_only_and_bounds_are_in_order(one: int, other: int) -> None:
    assert holds(spelt(one), spelt(other)) is (one == other)
    low, high = sorted([one, other])
    assert holds(Between(between=(spelt(low), spelt(high))), spelt(one))
    assert holds(Between(between=(spelt(low), spelt(low))), spelt(high)) is (low == high)
    assert same_value(Form.TIME, spelt(one).encode(), spelt(other).encode()) is (one == other)


@pytest.mark.parametrize(
    ("literal", "text", "fits"),
    [
        ("-00:30:00", "-00:30:00", True),
        ("-00:30", "-00:30:00.000000", True),
        ("00:30:00", "-00:30:00", False),
        ("100:00:00", "100:00:00", True),
        ("24:00:00", "24:00:00", True),
        ("00:00:00", "24:00:00", False),
        ("00:00:00", "-00:00:00", True),
        ("009:30:00", "09:30:00", True),
        ("9:30:00", "09:30:00", False),
        ("26:60:00", "27:00:00", False),
        ("838:59:59.999999", "838:59:59.999999", True),
        ("12:00:00+02:00", "12:00:00+02", True),
        ("12:00:00", "12:00:00+02", False),
        ("100:00:00+02:00", "100:00:00", False),
        ("-", "-00:30:00", False),
    ],
)
def test_literals(literal: str, text: str, fits: bool) -> None:
    assert holds(literal, text) is fits
    assert holds(Not.model_validate({"not": literal}), text) is not fits


def test_what_else_can_be_said_of_such_a_time() -> None:
    assert holds(Regex(regex=r"-838:.*"), "-838:59:59")
    cell = cell_of(Form.TIME, b"-838:59:59")
    assert "-00:30:00" in hint("half an hour", cell)
    assert cell_of(Form.TIME, b"838:60:00").state is CellState.UNDECODABLE
    assert cell_of(Form.TIME, b"12:00:00+02").value == time(12, tzinfo=timezone(timedelta(hours=2)))


def test_a_time_with_another_offset_is_another_value() -> None:
    assert not same_value(Form.TIME, b"12:00:00+02", b"10:00:00+00")
    assert same_value(Form.TIME, b"12:00:00+02", b"12:00:00.0+02")
    assert same_value(Form.INSTANT, b"2024-01-01 12:00:00+02", b"2024-01-01 10:00:00+00")


SPELLINGS: dict[Form, list[bytes | None]] = {
    Form.NUMBER: [b"1", b"1.0", b"1.00", b"-0", b"0", b"1e0", b"NaN", b"Infinity", None],
    Form.CHAR: [b"a", b"a  ", b"", b"  ", b"A", None],
    Form.TEXT: [b"a", b"a ", b"", b"\xff", None],
    Form.TIME: [
        b"12:00:00",
        b"12:00:00.0",
        b"24:00:00",
        b"12:00:00.0000001",
        b"12:00:00+00",
        b"10:00:00-02",
        b"x",
        None,
    ],
    Form.INSTANT: [b"2024-01-01 12:00:00+02", b"2024-01-01 10:00:00+00", b"2024-01-01 10:00:00", b"infinity", None],
    Form.DYNAMIC: [b"i1", b"r1.0", b"t1", b"b31", b"x31", b"t", b"b", None],
    Form.BYTES: [b"00ff", b"\\x00FF", b"", None],
    Form.BOOL: [b"t", b"1", b"f", None],
    Form.UNREAD: [b"", b"a", None],
}


@pytest.mark.parametrize("form", SPELLINGS)
def test_a_key_is_recognised_exactly_where_its_value_is_the_same(form: Form) -> None:
    for one in SPELLINGS[form]:
        for other in SPELLINGS[form]:
            assert (key_value(form, one) == key_value(form, other)) is same_value(form, one, other), (one, other)
