"""Returned values: schema, strict types, expectations, hostile input."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from contracts.schema import Returns
from validators.changes import Cell, CellState, Change, ContractFault, Kind, Row, Verb
from validators.matchers import RunContext
from validators.returns import UnfitValue, bounded, check_returns


class Table:
    def __init__(self, rows: Iterable[tuple[Row, bool]]) -> None:
        self._rows = list(rows)

    def before(self) -> Iterable[tuple[Row, bool]]:
        return iter(())

    def after(self) -> Iterable[tuple[Row, bool]]:
        return iter(self._rows)


def text(value: str) -> Cell:
    return Cell(Kind.TEXT, value)


PATIENTS = Table(
    [
        ({"NR": text("000104"), "NAME": text("Alt"), "SUM": Cell(Kind.NUMBER, Decimal("12.50"))}, True),
        ({"NR": text("000105"), "NAME": text("Muster"), "SUM": Cell(Kind.NUMBER, Decimal(5))}, True),
        ({"NR": text("000106"), "NAME": text("Weg"), "SUM": Cell(Kind.NUMBER, Decimal(5))}, False),
    ]
)
NEW = Change(
    "patients", Verb.INSERTED, "x", 1,
    after={
        "NR": text("000105  "), "SUM": Cell(Kind.NUMBER, Decimal(5)), "BORN": Cell(Kind.DATE, date(1964, 8, 12)),
        "OK": Cell(Kind.LOGICAL, True), "NOTE": Cell(Kind.TEXT, state=CellState.BLANK), "X": Cell(Kind.TEXT, state=CellState.NULL),
    },
)  # fmt: skip
RUN = RunContext(
    datetime(2026, 11, 29, 9), datetime(2026, 11, 29, 10), claimed={"new": NEW}, rows={"patients": PATIENTS}  # noqa: DTZ001
)  # fmt: skip


def check(returned: Any, expect: dict[str, Any] | None = None, schema: Any = None) -> list[str]:
    returns = Returns.model_validate(
        {"schema": schema if schema is not None else {"type": "object"}, "expect": expect or {}}
    )
    verdict = check_returns(returns, returned, RUN)
    assert verdict.valid is not bool(verdict.problems)
    assert all(len(p.message) < 1_000 and "\n" not in p.message for p in verdict.problems)
    return [f"{problem.path}: {problem.message}" for problem in verdict.problems]


def test_no_rule_accepts_anything() -> None:
    assert check_returns(None, {"a": object()}, RUN).valid


@pytest.mark.parametrize(
    ("schema", "returned", "words"),
    [
        ({"type": "object"}, {}, None),
        ({"type": "object"}, None, "null instead of an object"),
        ({"type": "object"}, [], "a list instead of an object"),
        ({"required": ["n"]}, {}, "n: n was not returned"),
        ({"required": ["n"], "type": "object"}, {"n": None, "more": 1}, None),
        ({"additionalProperties": False}, {"more": 1}, "additionalProperties"),
        ({"properties": {"n": {"type": "string"}}}, {"n": 104}, "n: the returned n is 104 instead of a string"),
        ({"properties": {"n": {"type": "integer"}}}, {"n": "104"}, "n: the returned n is “104” instead of an integer"),
        ({"properties": {"n": {"type": "integer"}}}, {"n": True}, "true instead of an integer"),
        ({"properties": {"n": {"type": ["string", "null"]}}}, {"n": 1}, "string or null"),
        ({"properties": {"n": {"minimum": Decimal("0.5")}}}, {"n": 0.4}, "minimum"),
        ({"properties": {"n": {"multipleOf": Decimal("0.5")}}}, {"n": Decimal("1.5")}, None),
        ({"properties": {"n": {"pattern": "^[0-9]+$"}}}, {"n": "12"}, None),
        ({"properties": {"n": {"pattern": "^[0-9]+$"}}}, {"n": "12a"}, "pattern"),
        ({"properties": {"n": {"items": {"type": "integer"}}}}, {"n": [1, "a"]}, "n[1]: the returned n[1]"),
        ({"properties": {"d": {"format": "date"}}}, {"d": "no date"}, None),
        ({"properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "string"}}}, {"n": 1}, "instead of a string"),
        ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False}, {"x1": "a"}, None),
        ({"properties": {"n": {"oneOf": [{"type": "string"}, {"type": "null"}]}}}, {"n": 1}, "oneOf"),
    ],
)  # fmt: skip
def test_schema(schema: dict[str, Any], returned: Any, words: str | None) -> None:
    problems = check(returned, schema=schema)
    if words is None:
        assert problems == []
    else:
        assert any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("rule", "value", "words"),
    [
        ("104", "104", None),
        ("104", 104, "instead of 104"),
        (104, "104", "instead of 104"),
        ({"regex": r"\d+"}, "x", r"/\d+/"),
        ({"field": "new.NR"}, "000105", None),
        ({"field": "new.NR"}, "000105  ", "blanks at its end count"),
        ({"field": "new.NR"}, " 000105", "“ 000105” instead of"),
        ({"field": "new.NOTE"}, " ", "blanks at its end count"),
        ({"row": "patients", "where": {"NR": "000105"}, "field": "NAME"}, "Muster ", "blanks at its end count"),
        ({"field": "new.NR"}, "105", "“105” instead of the NR of new (000105"),
        ({"field": "new.NR"}, 105, "105 instead of"),
        ({"field": "new.SUM"}, 5, None),
        ({"field": "new.SUM"}, 5.0, None),
        ({"field": "new.SUM"}, "5", "of another JSON type"),
        ({"field": "new.BORN"}, "1964-08-12", None),
        ({"field": "new.BORN"}, "12.08.1964", "1964-08-12"),
        ({"field": "new.OK"}, True, None),
        ({"field": "new.OK"}, "true", "true"),
        ({"field": "new.NOTE"}, "", None),
        ({"field": "new.X"}, None, None),
        ({"field": "new.X"}, "", "null"),
        ({"field": "gone.NR"}, "000105", "no such change"),
        ({"row": "patients", "where": {"NAME": "Muster"}, "field": "NR"}, "000105", None),
        ({"row": "patients", "where": {"NAME": "Muster"}, "field": "NR"}, "000104", "instead of 000105"),
        ({"row": "patients", "where": {"NAME": "Alt"}, "field": "SUM"}, 12.5, None),
        ({"row": "patients", "where": {"NAME": "Alt"}, "field": "SUM"}, "12.50", "another JSON type"),
        ({"row": "patients", "where": {"NAME": "Weg"}, "field": "NR"}, "000106", "no row in patients fits"),
        (
            {"row": "patients", "where": {"NR": {"regex": "0.*"}}, "field": "NR"},
            "000105",
            "several rows in patients fit",
        ),
        ({"row": "patients", "where": {"NR": {"field": "new.NR"}}, "field": "NAME"}, "Muster", None),
    ],
)
def test_expectations(rule: Any, value: Any, words: str | None) -> None:
    problems = check({"v": value}, {"v": rule})
    if words is None:
        assert problems == []
    else:
        assert len(problems) == 1
        assert words in problems[0]


def test_a_missing_value_is_told_once() -> None:
    assert check({}, {"n": "1"}, {"required": ["n"]}) == ["n: n was not returned"]
    assert check({}, {"n": "1"}) == ["n: n was not returned"]
    assert check(5, {"n": "1"}, {}) == [": no object was returned"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "text"},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#"},
        {"properties": {"n": {"pattern": "("}}},
    ],
)
def test_faulty_schemas_are_the_contracts_fault(schema: Any) -> None:
    with pytest.raises(ContractFault):
        check({"n": "a"}, schema=schema)


def test_patterns_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("validators.values.REGEX_SECONDS", 0.2)
    slow = "^((a|aa|aaa)+(b|))+[cd]$"
    schemas: list[dict[str, Any]] = [{"properties": {"n": {"pattern": slow}}}, {"patternProperties": {slow: {}}}]
    for schema in schemas:
        with pytest.raises(ContractFault, match="does not come to an end"):
            check({"n": "a" * 60, "a" * 60: 1}, schema=schema)


def test_rules_that_cannot_be_applied() -> None:
    for rule in (
        {"row": "patients", "where": {"NAMEE": "x"}, "field": "NR"},
        {"row": "patients", "where": {}, "field": "XX"},
        {"row": "screen", "where": {}, "field": "XX"},
        {"field": "new.XX"},
    ):
        with pytest.raises(ContractFault):
            check({"v": "x"}, {"v": rule})


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(5_000),
        [1] * 20_000,
        "x" * 200_000,
        [10**5_000],
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("1E+99999"),
        {1: 2},
        {"a": object()},
        b"x",
    ],
)
def test_hostile_values_are_refused(value: Any) -> None:
    with pytest.raises(UnfitValue):
        bounded(value)
    assert len(check({"v": value}, {"v": "x"})) == 1


def test_plain_values_pass() -> None:
    value = {"a": [1, 2.5, Decimal("1.10"), "x", None, True, {"b": []}]}
    assert bounded(value) == value
