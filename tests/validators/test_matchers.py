"""Every matcher, by table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from contracts.schema import Matcher
from validators.changes import Cell, CellState, Change, ContractFault, Kind, Row, Verb
from validators.matchers import RunContext, Subject, cell_key, describe, equal_keys, equals, hint, literal_keys, matches
from validators.values import REGEX_LIMIT, cell_of_json, shown

ADAPTER: TypeAdapter[Any] = TypeAdapter(Matcher)
STARTED = datetime(2026, 11, 29, 23, 58, 10, 700_000)  # noqa: DTZ001 - local to the guest
ENDED = datetime(2026, 11, 30, 0, 3, 5, 100_000)  # noqa: DTZ001 - local to the guest
RUN = RunContext(STARTED, ENDED)
DAY_RUN = RunContext(STARTED.replace(hour=9, minute=0, second=5), STARTED.replace(hour=9, minute=10, second=0))


def m(value: Any) -> Any:
    return ADAPTER.validate_python(value)


def text(value: str) -> Cell:
    return Cell(Kind.TEXT, value) if value.strip(" ") else Cell(Kind.TEXT, state=CellState.BLANK)


def var(value: str) -> Cell:
    return Cell(Kind.VARTEXT, value) if value else Cell(Kind.VARTEXT, state=CellState.BLANK)


def num(value: str | int, *, has_blank: bool = True) -> Cell:
    return Cell(Kind.NUMBER, Decimal(value), has_blank=has_blank)


def blank(kind: Kind) -> Cell:
    return Cell(kind, state=CellState.BLANK)


def null(kind: Kind = Kind.TEXT) -> Cell:
    return Cell(kind, state=CellState.NULL)


def broken(kind: Kind = Kind.TEXT, raw: bytes = b"\x81\x8d") -> Cell:
    return Cell(kind, state=CellState.UNDECODABLE, raw=raw, hint="declare encoding")


def day(value: str) -> Cell:
    return Cell(Kind.DATE, date.fromisoformat(value))


def moment(value: str) -> Cell:
    return Cell(Kind.DATETIME, datetime.fromisoformat(value))


def clock(value: str) -> Cell:
    return Cell(Kind.TIME, time.fromisoformat(value))


def flag(value: bool) -> Cell:
    return Cell(Kind.LOGICAL, value)


ZEROS = Cell(Kind.DATE, None, CellState.BLANK, b"00000000")
"""A date field of a DBF that a program has filled with zeros."""


@dataclass
class Table:
    """Rows in memory."""

    old: list[tuple[Row, bool]] = field(default_factory=list)
    new: list[tuple[Row, bool]] = field(default_factory=list)

    def before(self) -> Iterable[tuple[Row, bool]]:
        return iter(self.old)

    def after(self) -> Iterable[tuple[Row, bool]]:
        return iter(self.new)


def holds(matcher: Any, cell: Cell | None, context: RunContext = RUN, **around: Any) -> bool:
    parsed = m(matcher)
    held = matches(parsed, Subject(cell, **around), context)
    assert describe(parsed)
    keys = literal_keys(parsed)
    if held and keys is not None and cell is not None:
        assert cell_key(cell) in keys
    return held


@pytest.mark.parametrize(
    ("matcher", "cell", "expected"),
    [
        # numbers: exact decimals, numeric texts
        (104, num("104"), True),
        (104, num("104.00"), True),
        ("104", num("104"), True),
        ("104.0", num("104"), True),
        (" 104 ", num("104"), True),
        ("1e2", num("100"), False),
        ("1_0", num("10"), False),
        ("+5", num("5"), True),
        (Decimal("0.1"), num("0.1"), True),
        (Decimal("12345678901234.5678"), num("12345678901234.5679"), False),
        (Decimal("0.10000000000000000001"), num("0.1"), False),
        (True, num("1"), False),
        ("", num("0"), False),
        ("", blank(Kind.NUMBER), False),
        (0, blank(Kind.NUMBER), False),
        (0, num("NaN"), False),
        # dates and times: ISO only
        ("1964-08-12", day("1964-08-12"), True),
        ("12.08.1964", day("1964-08-12"), False),
        ("19640812", day("1964-08-12"), False),
        ("1964-8-12", day("1964-08-12"), False),
        ("1964-02-30", day("1964-03-01"), False),
        (19640812, day("1964-08-12"), False),
        ("1964-08-12", moment("1964-08-12T00:00:00"), True),
        ("1964-08-12", moment("1964-08-12T07:00:00"), False),
        ("1964-08-12 07:00", moment("1964-08-12T07:00:00"), True),
        ("1964-08-12T07:00:00", moment("1964-08-12T07:00:00"), True),
        ("1964-08-12T07:00:00Z", moment("1964-08-12T08:00:00+01:00"), True),
        ("1964-08-12T07:00:00Z", moment("1964-08-12T07:00:00"), False),
        ("07:00", clock("07:00:00"), True),
        ("07:00:01", clock("07:00:00"), False),
        ("25:00", clock("07:00:00"), False),
        # text: character by character; trailing blanks count for VARTEXT only
        ("Muster", text("Muster"), True),
        ("Muster", text("Muster   "), True),
        ("Muster  ", text("Muster"), True),
        ("Muster", text(" Muster"), False),
        ("Muster", text("muster"), False),
        ("Muster", var("Muster "), False),
        ("Muster ", var("Muster "), True),
        ("Müller", text("Mu\u0308ller"), False),
        ("104", text("104"), True),
        (104, text("104"), True),
        (104, text("000104"), False),
        ("104", text("000104"), False),
        (True, text("true"), False),
        ("", text("   "), True),
        ("", var(""), True),
        ("", null(), False),
        ("", null(Kind.VARTEXT), False),
        (" ", var(""), False),
        # logical
        (True, flag(True), True),
        (False, flag(True), False),
        ("T", flag(True), False),
        (1, flag(True), False),
        ("ab", Cell(Kind.BINARY, b"ab"), False),
        # blank, empty, null
        ({"is": "blank"}, text("  "), True),
        ({"is": "blank"}, var(""), True),
        ({"is": "blank"}, var(" "), False),
        ({"is": "blank"}, text("x"), False),
        ({"is": "blank"}, blank(Kind.LOGICAL), True),
        ({"is": "blank"}, flag(False), False),
        ({"is": "blank"}, num(0), False),
        ({"is": "blank"}, num(0, has_blank=False), True),
        ({"is": "blank"}, num(1, has_blank=False), False),
        ({"is": "blank"}, null(), False),
        ({"between": ["2026-01-01", "2026-12-31"]}, flag(True), False),
        ({"between": ["2026-01-01", "2026-12-31"]}, Cell(Kind.BINARY, b"2026-11-29"), False),
        ({"is": "blank"}, ZEROS, False),
        ({"not": {"is": "blank"}}, ZEROS, True),
        ({"is": "empty"}, ZEROS, True),
        ({"is": "null"}, ZEROS, False),
        ({"is": "blank"}, Cell(Kind.DATE, None, CellState.BLANK, b"        "), True),
        ({"is": "blank"}, Cell(Kind.DATE, None, CellState.BLANK, b"0000-00-00", has_blank=False), True),
        ({"is": "blank"}, Cell(Kind.DATETIME, None, CellState.BLANK, bytes(8), has_blank=False), True),
        ({"is": "empty"}, null(), True),
        ({"is": "empty"}, num("0.00"), True),
        ({"is": "empty"}, num("0.01"), False),
        ({"is": "empty"}, flag(False), True),
        ({"is": "empty"}, flag(True), False),
        ({"is": "empty"}, text("00000000"), True),
        ({"is": "empty"}, text("0"), False),
        ({"is": "empty"}, broken(Kind.DATE, b"00000000"), True),
        ({"is": "empty"}, broken(Kind.TEXT, b"00000000"), False),
        ({"is": "empty"}, Cell(Kind.BINARY, b"\0\0\0"), True),
        ({"is": "empty"}, Cell(Kind.BINARY, b"\0\1"), False),
        ({"is": "empty"}, day("1964-08-12"), False),
        ({"is": "empty"}, clock("00:00:00"), False),
        ({"is": "null"}, null(), True),
        ({"is": "null"}, text(""), False),
        # regex: the whole value
        ({"regex": r"\d{3}"}, text("104"), True),
        ({"regex": r"\d{3}"}, text("1045"), False),
        ({"regex": r"\d{3}"}, text("104  "), True),
        ({"regex": r"\d{3}"}, var("104 "), False),
        ({"regex": r"\d{3}"}, num(104), True),
        ({"regex": r"1964-.*"}, day("1964-08-12"), True),
        ({"regex": r"a\nb"}, var("a\nb"), True),
        ({"regex": r"^$"}, text(""), True),
        ({"regex": r".*x?"}, blank(Kind.DATE), False),
        ({"regex": r"true"}, flag(True), True),
        # combinations
        ({"one_of": ["a", "b"]}, text("b"), True),
        ({"one_of": ["a", {"is": "blank"}]}, text(""), True),
        ({"one_of": ["a", "b"]}, text("c"), False),
        ({"not": "a"}, text("b"), True),
        ({"not": "a"}, null(), True),
        ({"not": {"is": "null"}}, null(), False),
        ({"all_of": [{"regex": "a.*"}, {"not": "ab"}]}, text("ac"), True),
        ({"all_of": [{"regex": "a.*"}, {"not": "ab"}]}, text("ab"), False),
        # number with tolerance
        ({"number": Decimal("12.5"), "tolerance": Decimal("0.01")}, num("12.51"), True),
        ({"number": Decimal("12.5"), "tolerance": Decimal("0.01")}, num("12.49"), True),
        ({"number": Decimal("12.5"), "tolerance": Decimal("0.01")}, num("12.5100000000000000000000000000001"), False),
        ({"number": -100, "relative": Decimal("0.1")}, num("-110"), True),
        ({"number": -100, "relative": Decimal("0.1")}, num("-110.01"), False),
        ({"number": 5}, num(5), True),
        ({"number": 5}, text("5.0"), True),
        ({"number": 5}, text("five"), False),
        ({"number": 5}, num("NaN"), False),
        ({"number": 5, "tolerance": 9}, num("Infinity"), False),
        ({"number": 0}, blank(Kind.NUMBER), False),
        # between
        ({"between": [1, 3]}, num(3), True),
        ({"between": [1, 3]}, num("3.01"), False),
        ({"between": ["1", "3"]}, num(2), True),
        ({"between": [1, 3]}, text("2"), True),
        ({"between": ["a", "c"]}, text("c"), True),
        ({"between": ["a", "c"]}, text("ca"), False),
        ({"between": ["1964-01-01", "1964-12-31"]}, day("1964-12-31"), True),
        ({"between": ["1964-01-01", "1964-12-31"]}, day("1965-01-01"), False),
        ({"between": ["1964-01-01", "1964-12-31"]}, moment("1964-12-31T23:59:59"), True),
        ({"between": ["1964-01-01 00:00", "1964-12-31 12:00"]}, moment("1964-12-31T23:59:59"), False),
        ({"between": ["08:00", "09:00"]}, clock("08:30:00"), True),
        ({"between": ["a", "b"]}, day("1964-12-31"), False),
        ({"between": [1, 3]}, null(Kind.NUMBER), False),
        ({"between": [1, 3]}, day("1964-12-31"), False),
        # normalised text
        ({"text": "a  b", "normalise": ["whitespace"]}, var(" a\t\r\n b "), True),
        ({"text": "Straße", "normalise": ["case"]}, var("STRASSE"), True),
        ({"text": "Müller & Sohn", "normalise": ["html"]}, var("<b>M&uuml;ller</b> &amp; Sohn<!-- x -->"), True),
        ({"text": "ﬁx", "normalise": ["unicode"]}, var("fix"), True),
        ({"text": "Mu\u0308ller", "normalise": ["unicode", "case"]}, var("MÜLLER"), True),
        ({"text": "a b"}, var("a  b"), False),
        ({"text": "5"}, num(5), False),
        # boolean words
        *[({"boolean": True}, text(word), True) for word in ("true", "1", "T", "y", "Yes", "J", "JA")],
        *[({"boolean": False}, text(word), True) for word in ("false", "0", "F", "n", "No", "nein")],
        ({"boolean": True}, text("no"), False),
        ({"boolean": True}, text("maybe"), False),
        ({"boolean": False}, text("maybe"), False),
        ({"boolean": True}, num(1), True),
        ({"boolean": False}, num(0), True),
        ({"boolean": True}, num(2), False),
        ({"boolean": True}, flag(True), True),
        ({"boolean": False}, blank(Kind.LOGICAL), False),
        # the run
        ({"date": "today"}, day("2026-11-29"), True),
        ({"date": "today"}, day("2026-11-30"), True),
        ({"date": "today"}, day("2026-12-01"), False),
        ({"date": "today"}, moment("2026-11-30T22:00:00"), True),
        ({"date": "today"}, text("2026-11-29"), True),
        ({"date": "today"}, text("29.11.2026"), False),
        ({"time": "run"}, moment("2026-11-29T23:58:10"), True),
        ({"time": "run"}, moment("2026-11-29T23:58:09"), False),
        ({"time": "run"}, moment("2026-11-30T00:03:05.900"), True),
        ({"time": "run"}, moment("2026-11-30T00:03:06"), False),
        ({"time": "run"}, clock("23:59:00"), True),
        ({"time": "run"}, clock("00:01:00"), True),
        ({"time": "run"}, clock("12:00:00"), False),
        ({"time": "run"}, text("23:58"), True),
        ({"time": "run"}, text("23:57"), False),
        ({"time": "run"}, text("2026-11-29"), False),
        ({"time": "run"}, blank(Kind.TIME), False),
        # what nobody can say anything about
        *[
            (matcher, broken(), False)
            for matcher in (
                "x", "", {"is": "blank"}, {"is": "empty"}, {"is": "null"}, {"not": "x"}, {"not": {"is": "blank"}},
                {"not": {"not": "x"}}, {"one_of": ["x", {"not": "x"}]}, {"regex": ".*?"}, {"boolean": True},
                {"text": ""}, {"between": ["", "z"]}, {"all_of": [{"is": "any", "because": "any"}, {"not": "x"}]},
            )
        ],
        ({"is": "any", "because": "a clock"}, broken(), True),
        ({"one_of": ["x", {"is": "any", "because": "a clock"}]}, broken(), True),
        ({"is": "any", "because": "a clock"}, None, True),
        ("x", None, False),
        ({"not": "x"}, None, False),
    ],
)  # fmt: skip
def test_matchers(matcher: Any, cell: Cell | None, expected: bool) -> None:
    assert holds(matcher, cell) is expected


@pytest.mark.parametrize(
    ("before", "after", "changed", "unchanged"),
    [
        (text("a"), text("a"), None, True),
        (text("a"), text("b"), None, False),
        (num("1.50"), num("1.5"), None, True),
        (num("1.50"), num("1.5"), True, False),
        (broken(), broken(), None, True),
        (broken(), broken(raw=b"\x82"), None, False),
        (blank(Kind.TEXT), null(), None, False),
        (None, text("a"), None, False),
        (None, None, None, True),
    ],
)
def test_changed(before: Cell | None, after: Cell | None, changed: bool | None, unchanged: bool) -> None:
    around: dict[str, Any] = {"before": before, "after": after, "changed": changed}
    assert holds({"is": "unchanged"}, after, **around) is unchanged
    assert holds({"is": "changed"}, after, **around) is not unchanged
    assert holds({"not": {"is": "unchanged"}}, after, **around) is not unchanged


def test_time_within_one_day_and_over_several() -> None:
    assert holds({"time": "run"}, clock("09:00:05"), DAY_RUN)
    assert holds({"time": "run"}, clock("09:10:00"), DAY_RUN)
    assert not holds({"time": "run"}, clock("09:00:04"), DAY_RUN)
    assert not holds({"time": "run"}, clock("09:10:01"), DAY_RUN)
    assert holds({"time": "run"}, clock("03:00:00"), RunContext(STARTED, STARTED + timedelta(days=2)))


def test_a_zone_of_the_guest() -> None:
    zone = timezone(timedelta(hours=1))
    run = RunContext(STARTED.replace(tzinfo=zone), ENDED.replace(tzinfo=zone))
    assert holds({"time": "run"}, moment("2026-11-29T23:59:00"), run)
    assert holds({"time": "run"}, moment("2026-11-29T22:59:00+00:00"), run)
    assert not holds({"time": "run"}, moment("2026-11-29T23:59:00+00:00"), run)
    assert holds({"date": "today"}, day("2026-11-30"), run)


def _numbers(*cells: Cell | None, live: bool = True) -> Table:
    return Table(old=[({} if cell is None else {"NR": cell}, live) for cell in cells])


@pytest.mark.parametrize(
    ("table", "cell", "ordinal", "expected"),
    [
        (_numbers(text("000104"), text("000099")), text("000105"), 1, True),
        (_numbers(text("000104")), text("105"), 1, False),
        (_numbers(text("000104")), text("000106"), 1, False),
        (_numbers(text("000104")), text("000106"), 2, True),
        (_numbers(text("000104"), live=False), text("000105"), 1, True),
        (_numbers(text("104")), text("105"), 1, True),
        (_numbers(text("999")), text("1000"), 1, True),
        (_numbers(text("000999")), text("001000"), 1, True),
        (_numbers(text("   104")), text("   105"), 1, True),
        (_numbers(text("   104")), text("105"), 1, False),
        (_numbers(text("TEST"), text("7"), null(), broken(), None), text("8"), 1, True),
        (_numbers(num(104), num("7.5")), num(105), 1, True),
        (_numbers(num(104)), num("105.5"), 1, False),
        (_numbers(num(104), num("1E+30")), num(105), 1, False),
        (_numbers(num(104), num("1E+300")), num(105), 1, True),
        (_numbers(), num(1), 1, True),
        (_numbers(), text("0001"), 1, True),
        (_numbers(text("7")), text(""), 1, False),
        (_numbers(text("7")), null(), 1, False),
    ],
)
def test_generated_next(table: Table, cell: Cell, ordinal: int, expected: bool) -> None:
    run = RunContext(STARTED, ENDED, rows={"patients": table})
    around: dict[str, Any] = {"observable": "patients", "field": "NR", "ordinal": ordinal}
    assert holds({"generated": "next"}, cell, run, **around) is expected


def test_generated_next_in_words() -> None:
    run = RunContext(STARTED, ENDED, rows={"patients": _numbers(text("000104"))})
    subject = Subject(None, observable="patients", field="NR", ordinal=2)
    assert describe(m({"generated": "next"}), subject, run) == "the next number (000106)"


def test_generated_unique() -> None:
    rows: list[tuple[Row, bool]] = [
        ({"NR": text("a")}, True),
        ({"NR": text("b")}, True),
        ({"NR": text("b ")}, True),
        ({"NR": text("a")}, False),
        ({"NR": num("NaN")}, True),
        ({"NR": broken()}, True),
    ]
    run = RunContext(STARTED, ENDED, rows={"patients": Table(new=rows)})
    around: dict[str, Any] = {"observable": "patients", "field": "NR"}
    assert holds({"generated": "unique"}, text("a"), run, **around)
    assert not holds({"generated": "unique"}, text("b"), run, **around)
    assert not holds({"generated": "unique"}, text(""), run, **around)


def test_generated_needs_rows() -> None:
    with pytest.raises(ContractFault, match="no rows"):
        holds({"generated": "next"}, num(1), observable="screen", field="x")


@pytest.mark.parametrize(
    ("returned", "cell", "expected"),
    [
        ("104", text("104"), True),
        ("104", num(104), True),
        (104, num(104), True),
        (104.5, num("104.5"), True),
        (0.1, num("0.1"), True),
        (Decimal("104.5"), num("104.5"), True),
        (True, flag(True), True),
        (True, num(1), False),
        ("1964-08-12", day("1964-08-12"), True),
        (None, null(), True),
        (None, text(""), False),
        ("", text(" "), True),
        (["104"], text("104"), False),
        ({"a": 1}, text("104"), False),
    ],
)
def test_returned(returned: Any, cell: Cell, expected: bool) -> None:
    run = RunContext(STARTED, ENDED, returned={"number": returned})
    assert holds({"returned": "number"}, cell, run) is expected


def test_returned_nothing() -> None:
    assert not holds({"returned": "number"}, text(""), RUN)
    assert describe(m({"returned": "number"}), None, RUN) == "the returned number (nothing returned)"


@pytest.mark.parametrize(
    ("claimed", "cell", "expected"),
    [
        (text("000105"), num(105), True),
        (num(105), text("105"), True),
        (num(105), text("000105"), False),
        (text("a  "), var("a"), True),
        (day("1964-08-12"), day("1964-08-12"), True),
        (day("1964-08-12"), text("1964-08-12"), True),
        (null(), null(), True),
        (null(), text(""), False),
        (blank(Kind.DATE), blank(Kind.DATE), True),
        (blank(Kind.TEXT), var(""), True),
        (blank(Kind.NUMBER), num(0), False),
        (broken(), broken(), False),
        (flag(True), flag(True), True),
        (moment("2026-11-29T10:00:00"), text("2026-11-29 10:00:00"), True),
    ],
)
def test_field_of_another_effect(claimed: Cell, cell: Cell, expected: bool) -> None:
    change = Change("patients", Verb.INSERTED, "x", 1, after={"NR": claimed})
    run = RUN.with_claimed({"new": change})
    assert holds({"field": "new.NR"}, cell, run) is expected


_CELLS = st.sampled_from([
    text(""), text("105"), text("000105"), text("105  "), var(" 105"), var(""), text("1964-08-12"), text("10:00:00"), text("true"),
    num(105), num("105.00"), num("0"), num(0, has_blank=False), blank(Kind.NUMBER), day("1964-08-12"), blank(Kind.DATE), ZEROS,
    moment("1964-08-12T00:00:00"), moment("1964-08-12T00:00:00+00:00"), moment("1964-08-12T02:00:00+02:00"), clock("10:00:00"),
    flag(True), flag(False), null(), null(Kind.NUMBER), broken(), broken(Kind.NUMBER), Cell(Kind.BINARY, b"105"),
    text("1964-08-12 02:00:00+02:00"), text("1964-08-12T00:00"),
])  # fmt: skip


@settings(max_examples=900, deadline=None)
@given(_CELLS, _CELLS)
def test_what_equals_a_referred_field_is_found_by_its_keys(wanted: Cell, cell: Cell) -> None:
    """Claims of effects that refer to others look their candidates up, and must not overlook one."""
    if equals(wanted, cell, Subject(cell), RUN):
        assert cell_key(cell) in equal_keys(wanted)


def test_field_of_what_is_gone_and_of_nothing() -> None:
    gone = Change("patients", Verb.DELETED, "x", 1, before={"NR": text("7")})
    assert holds({"field": "old.NR"}, text("7"), RUN.with_claimed({"old": gone}))
    assert not holds({"field": "old.NR"}, text("7"), RUN)
    assert describe(m({"field": "old.NR"}), None, RUN) == "the NR of old (no such change)"
    assert describe(m({"field": "old.NR"}), None, RUN.with_claimed({"old": gone})) == "the NR of old (7)"
    with pytest.raises(ContractFault, match="no field XX"):
        holds({"field": "old.XX"}, text("7"), RUN.with_claimed({"old": gone}))


@pytest.mark.parametrize(
    ("matcher", "value", "expected"),
    [
        ("104", "104", True),
        ("104", 104, False),
        (104, "104", False),
        (104, 104, True),
        (104, 104.0, True),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        ({"number": 104, "tolerance": 1}, 105, True),
        ({"number": 104, "tolerance": 1}, "105", False),
        ({"between": ["1", "3"]}, 2, False),
        ({"regex": r"\d+"}, "12", True),
        ({"regex": r"\d+"}, 12, False),
        ({"is": "null"}, None, True),
        ({"is": "blank"}, "", True),
        ({"is": "blank"}, 0, True),
        ({"date": "today"}, "2026-11-29", True),
        ({"boolean": True}, "ja", True),
        ("1964-08-12", "1964-08-12", True),
    ],
)
def test_json_values_are_strict(matcher: Any, value: Any, expected: bool) -> None:
    assert holds(matcher, cell_of_json(value), strict=True) is expected


def test_a_regular_expression_that_does_not_end_is_the_contracts_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("validators.values.REGEX_SECONDS", 0.2)
    with pytest.raises(ContractFault, match="does not come to an end"):
        holds({"regex": r"((a|aa|aaa)+(b|))+[cd]"}, var("a" * 60))


def test_a_very_long_value_is_not_tried() -> None:
    cell = var("x" * (REGEX_LIMIT + 1))
    assert not holds({"regex": "x+"}, cell)
    assert "not tried" in hint(m({"regex": "x+"}), cell)


@pytest.mark.parametrize(
    ("matcher", "cell", "words"),
    [
        ("12.08.1964", day("1964-08-12"), "dates are written 1964-08-12"),
        ("x", day("1964-08-12"), "dates are written 1964-08-12"),
        ("8 Uhr", clock("08:00:00"), "times are written"),
        ("12.08.1964", moment("1964-08-12T00:00:00"), "dates with a time"),
        ("1,5", num("1.5"), "numbers are written"),
        ("T", flag(True), "without quotes"),
        (True, text("T"), "boolean"),
        (104, text("000104"), "quote it"),
        ("x", broken(), "declare encoding"),
        ("x", text("y"), ""),
        ("1964-08-13", day("1964-08-12"), ""),
        ("x", None, ""),
    ],
)
def test_hints(matcher: Any, cell: Cell | None, words: str) -> None:
    found = hint(m(matcher), cell)
    assert words in found if words else found == ""


@pytest.mark.parametrize(
    ("matcher", "words"),
    [
        ("1234567890", "1234567890"),
        ("", "“”"),
        (" x", "“ x”"),
        (True, "true"),
        (Decimal("1.50"), "1.50"),
        ({"is": "empty"}, "empty"),
        ({"is": "null"}, "NULL"),
        ({"is": "any", "because": "a clock"}, "anything"),
        ({"regex": r"\d+"}, r"/\d+/"),
        ({"one_of": ["a", "b"]}, "one of a, b"),
        ({"not": "a"}, "not a"),
        ({"all_of": ["a", {"is": "changed"}]}, "a and changed"),
        ({"number": 5, "tolerance": 1}, "5 ± 1"),
        ({"number": 5, "relative": Decimal("0.1")}, "5 ± 0.1 of it"),
        ({"between": [1, 3]}, "between 1 and 3"),
        ({"date": "today"}, "a date of the run"),
        ({"time": "run"}, "a time within the run"),
        ({"text": "a", "normalise": ["case"]}, "a (case normalised)"),
        ({"boolean": False}, "false or no"),
        ({"generated": "next"}, "the next number"),
        ({"generated": "unique"}, "a value no other row has"),
        ({"returned": "x"}, "the returned x"),
        ({"field": "new.NR"}, "the NR of new"),
    ],
)
def test_words(matcher: Any, words: str) -> None:
    assert describe(m(matcher)) == words


def test_words_of_the_run() -> None:
    assert describe(m({"date": "today"}), None, DAY_RUN) == "a date of the run (2026-11-29)"
    assert describe(m({"date": "today"}), None, RUN) == "a date of the run (2026-11-29 to 2026-11-30)"
    assert describe(m({"time": "run"}), None, DAY_RUN) == "a time within the run (09:00:05 to 09:10:00)"


def test_hostile_text_stays_on_one_line() -> None:
    assert shown("a\r\nb\x1b[31m\u202ex") == "a⏎b�[31m�x"
    assert len(shown("x" * 1000, 50)) == 50
