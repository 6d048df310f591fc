"""Claims of effects that refer to each other: against a search through every assignment, and within bounds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.validators.test_ledger import Spec, claims, effects, inserted, judged, updated
from validators import claiming
from validators.changes import Change, ContractFault

# --- against a search through every assignment ----------------------------------------------------------------------------

Claimed = dict[str, Change]


def _holds(matcher: Any, value: str, claimed: Claimed) -> bool:
    match matcher:
        case str():
            return value == matcher
        case {"field": reference}:
            name, _, field = reference.partition(".")
            return name in claimed and value == _value(claimed[name], field)
        case {"not": inner}:
            return not _holds(inner, value, claimed)
        case {"one_of": parts}:
            return any(_holds(part, value, claimed) for part in parts)
        case {"all_of": parts}:
            return all(_holds(part, value, claimed) for part in parts)
        case _:
            return True


def _value(change: Change, field: str) -> str:
    assert change.after is not None
    return str(change.after[field].value or "")


def _places(spec: Spec, *, expected: bool) -> tuple[int, float]:
    count = spec.get("count", 1 if expected else {})
    if isinstance(count, int):
        count = {"min": count, "max": count}
    return (count.get("min", 0) if expected else 0), count.get("max", float("inf"))


def _assignments(rules: Sequence[tuple[Spec, bool]], changes: Sequence[Change]) -> Iterator[tuple[int, ...]]:
    """Every assignment that contradicts itself nowhere: for each change a rule's number, the last one for no rule."""
    here = [
        [n for n, (spec, _) in enumerate(rules) if spec["inserted"] == change.observable] + [len(rules)]
        for change in changes
    ]
    for chosen in itertools.product(*here):
        if any(chosen.count(n) > _places(spec, expected=e)[1] for n, (spec, e) in enumerate(rules)):
            continue
        claimed = {
            rules[n][0]["name"]: change
            for n, change in zip(chosen, changes, strict=True)
            if n < len(rules) and "name" in rules[n][0]
        }
        if all(
            n == len(rules)
            or all(_holds(m, _value(change, field), claimed) for field, m in rules[n][0]["fields"].items())
            for n, change in zip(chosen, changes, strict=True)
        ):
            yield chosen


def best_by_search(expect: Sequence[Spec], allow: Sequence[Spec], changes: Sequence[Change]) -> dict[int, str]:
    """The claims wanted, by position, found by trying every assignment."""
    rules = [(spec, True) for spec in expect] + [(spec, False) for spec in allow]
    required = [_places(spec, expected=expected)[0] for spec, expected in rules]

    def score(chosen: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        filled = sum(min(chosen.count(n), needed) for n, needed in enumerate(required))
        return -filled, chosen.count(len(rules)), chosen

    best = min(_assignments(rules, changes), key=score)
    names = [*(f"expect{n}" for n in range(len(expect))), *(f"allow{n}" for n in range(len(allow))), "-"]
    return {change.position: names[n] for change, n in zip(changes, best, strict=True)}


_VALUES = st.sampled_from(["a", "b", "c", ""])
_TABLES = st.sampled_from(["t", "u", "v"])
_LITERALS = st.lists(_VALUES, min_size=1, max_size=3, unique=True).map(lambda values: {"one_of": values})
_ANYTHING = st.just({"is": "any", "because": "whatever"})


def _matcher(names: Sequence[str]) -> st.SearchStrategy[Any]:
    if not names:
        return _LITERALS | _ANYTHING
    reference = st.builds("{}.{}".format, st.sampled_from(names), st.sampled_from("AB")).map(lambda f: {"field": f})
    return (
        reference
        | reference
        | _LITERALS
        | _ANYTHING
        | reference.map(lambda found: {"not": found})
        | st.tuples(_VALUES | reference, reference).map(lambda found: {"one_of": list(found)})
        | st.tuples(_LITERALS, reference).map(lambda found: {"all_of": list(found)})
    )


@st.composite
def _problems(draw: st.DrawFn) -> tuple[list[Spec], list[Spec], list[Change]]:
    expect: list[Spec] = []
    names: list[str] = []
    for number in range(draw(st.integers(1, 4))):
        spec: Spec = {"inserted": draw(_TABLES), "fields": {f: draw(_matcher(names)) for f in "AB"}}
        if draw(st.booleans()) or not number:
            spec["name"] = f"n{number}"
            names.append(spec["name"])
        elif draw(st.booleans()):
            spec["count"] = draw(st.sampled_from([2, {"min": 0, "max": 1}, {"min": 1, "max": 2}, {"min": 1}]))
        expect.append(spec)
    allow: list[Spec] = []
    for _ in range(draw(st.integers(0, 2))):
        spec = {"inserted": draw(_TABLES), "fields": {f: draw(_matcher(names)) for f in "AB"}}
        if draw(st.booleans()):
            spec["count"] = 1
        allow.append(spec)
    rows = draw(st.lists(st.tuples(_TABLES, _VALUES, _VALUES), max_size=6))
    # Record order is by table first; the order of effects must not follow that of references.
    changes = [inserted(n, table, A=a, B=b) for n, (table, a, b) in enumerate(sorted(rows))]
    return draw(st.permutations(expect)), allow, changes


@settings(max_examples=600, deadline=None)
@given(_problems(), st.randoms())
def test_the_best_assignment_is_found_whatever_refers_to_what(
    problem: tuple[list[Spec], list[Spec], list[Change]], dice: random.Random
) -> None:
    expect, allow, changes = problem
    rules = effects(expect, allow)
    shuffled = changes[:]
    dice.shuffle(shuffled)
    assert claims(judged(rules, *shuffled)) == best_by_search(expect, allow, changes)


# --- the choice that lets others claim ------------------------------------------------------------------------------------

NEW: Spec = {"inserted": "patients", "name": "new", "fields": {"NAME": "Muster", "NR": {"regex": r"\d+"}}}
FOLLOWS: Spec = {"updated": "counters", "where": {"NAME": "P"}, "fields": {"LAST": {"field": "new.NR"}}}
TWICE = {"inserted": "patients", "fields": {"NAME": "Muster", "NR": {"regex": r"\d+"}}}


@pytest.mark.parametrize("followed", [5, 6])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_rows_that_fit_the_one_that_the_counter_follows_is_meant(followed: int, order: tuple[int, int]) -> None:
    both = [NEW, FOLLOWS]
    ledger = judged(
        effects([both[n] for n in order], [TWICE]),
        inserted(5, NAME="Muster", NR="5"),
        inserted(6, NAME="Muster", NR="6"),
        updated(1, {"NAME": "P", "LAST": 4}, "counters", LAST=followed),
    )
    assert not ledger.missing
    assert not ledger.beyond
    assert ledger.claimed["new"].position == followed


def test_an_effect_referred_to_that_competes_with_others_for_its_row() -> None:
    """Of two rows that mean the same, one is needed elsewhere: something must be left, and it is told once."""
    other = {"inserted": "patients", "fields": {"NAME": "Muster", "NR": "5"}}
    rules = effects([NEW, other, {**FOLLOWS, "fields": {"LAST": {"not": {"field": "new.NR"}}}}])
    ledger = judged(rules, inserted(5, NAME="Muster", NR="5"), updated(1, {"NAME": "P", "LAST": 4}, "counters", LAST=5))
    assert claims(ledger) == {5: "expect1", 1: "expect2"}


def test_a_chain_of_references_is_followed_to_its_end() -> None:
    names = [f"link{n}" for n in range(6)]
    chain: list[Spec] = [
        {
            "inserted": f"table{n}",
            "name": name,
            "fields": {"NR": {"field": f"{names[n - 1]}.NR"} if n else {"regex": r"\d"}},
        }
        for n, name in enumerate(names)
    ]
    # Every table but the last has all of the numbers: only the last one tells which are meant.
    rows = [inserted(n, f"table{t}", NR=str(n)) for t in range(5) for n in range(4)]
    allow = [{"inserted": f"table{t}", "fields": {"NR": {"regex": r"\d"}}} for t in range(5)]
    ledger = judged(effects(chain, allow), *rows, inserted(9, "table5", NR="3"))
    assert not ledger.missing
    assert not ledger.beyond
    assert {ledger.claimed[name].position for name in names[:5]} == {3}


# --- bounds ---------------------------------------------------------------------------------------------------------------


def test_an_agent_that_enters_the_same_again_and_again_is_judged() -> None:
    """Each of many rows fits and has its entry in a log; the counter follows the last one."""
    count = 1_500
    log = {"inserted": "log", "fields": {"NR": {"field": "new.NR"}}}
    rows = [inserted(n, NAME="Muster", NR=f"{n}") for n in range(count)]
    entries = [inserted(n, "log", NR=f"{n}") for n in range(count)]
    counter = updated(1, {"NAME": "P", "LAST": 0}, "counters", LAST=count - 1)
    ledger = judged(effects([NEW, FOLLOWS, log]), *rows, *entries, counter)
    assert not ledger.missing
    assert ledger.claimed["new"].position == count - 1
    assert len(ledger.beyond) == 2 * (count - 1)


def test_what_cannot_be_found_out_within_the_bound_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a wrong verdict in silence: beyond the bound the contract is at fault, and is told what to change."""
    rules = effects([NEW, {**FOLLOWS, "fields": {"LAST": {"not": {"field": "new.NR"}}}}], [TWICE])
    changes = [inserted(n, NAME="Muster", NR=f"{n}") for n in range(100)]
    counters = [updated(n, {"NAME": "P", "LAST": 0}, "counters", LAST=n) for n in range(1, 100)]
    assert not judged(rules, *changes, *counters).missing
    monkeypatch.setattr(claiming, "MOST_WORK", 2_000)
    with pytest.raises(ContractFault, match=r"`new`.*too many ways.*tell the changes apart"):
        judged(rules, *changes, *counters)
