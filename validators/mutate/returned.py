"""Mutants of what the agent returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from contracts.schema import Is, Matcher, Model
from validators.mutate.golden import Flaw, Golden, Mutant
from validators.mutate.rows import mistyped
from validators.values import cell_of_json, shown


def mutants_of_returned(golden: Golden) -> Iterator[Mutant]:
    """Every value wrong, missing and of another type; nothing returned at all."""
    returns, returned = golden.contract.returns, golden.returned
    if returns is None:
        return  # then nothing that an agent returns is looked at, which is what leaving `returns` out says

    def made(words: str, value: Any, hole: str, advice: str, rule: Matcher | None = None) -> Mutant:
        return Mutant(Flaw.RETURN_WRONG, words, golden.after, value, hole, advice, rule)

    if returned is not None:
        required = "the contract accepts it when nothing is returned"
        yield made("nothing is returned", None, required, "list the values under `required` and `expect` of `returns`")
    if not isinstance(returned, Mapping):
        return
    for name, value in returned.items():
        rule = returns.expect.get(name)
        where = shown(str(name), 80)
        hole = (
            f"nothing says what the returned {where} must be"
            if rule is None
            else f"the rule for the returned {where} accepts other values"
        )
        advice = f"add `{where}` to `expect` of `returns`: a field of a change or a row"
        matcher = rule if isinstance(rule, Is) or not isinstance(rule, Model) else None
        for words, other in _others(golden, value):
            yield made(f"the returned {where} is {words}", {**returned, name: other}, hole, advice, matcher)
        rest = {key: other for key, other in returned.items() if key != name}
        yield made(
            f"{where} is not returned",
            rest,
            f"the returned {where} may be left out",
            f"list `{where}` under `required`",
        )


def _others(golden: Golden, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case bool():
            yield "the opposite", not value
        case int() | float() | Decimal():
            yield "off by one", value + 1
            yield "a text instead of a number", str(value)
        case str():
            yield from _other_texts(golden, value)
        case None:
            yield "a text instead of nothing", "X"
        case _:
            yield "something else", "X"
    if value is not None:
        yield "null", None


def _other_texts(golden: Golden, text: str) -> Iterator[tuple[str, Any]]:
    for words, other in (
        *_other_days(text),
        *(("mistyped", typed) for typed in _mistyped(text)),
        ("another text", "X"),
    ):
        if other != text and not golden.is_as_right(cell_of_json(text), cell_of_json(other)):
            yield words, other
            break
    if text:
        yield "empty", ""
    if text.isdigit() and text.isascii():
        yield "a number instead of a text", int(text)


def _other_days(text: str) -> Iterator[tuple[str, str]]:
    try:
        yield "the day before", (date.fromisoformat(text) - timedelta(days=1)).isoformat()
        yield "another day", "2001-02-03"
    except (ValueError, OverflowError):
        return


def _mistyped(text: str) -> Iterator[str]:
    return (other.decode("utf-8", "replace") for other in mistyped(text.encode("utf-8", "replace")))
