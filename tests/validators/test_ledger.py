"""The account: claiming, missing, near misses, failures, final states, files."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.schema import Effects
from validators.changes import Cell, CellState, Change, Comparison, ContractFault, Kind, Row, Rows, Unreadable, Verb
from validators.ledger import Ledger, Status, account
from validators.matchers import RunContext

RUN = RunContext(datetime(2026, 11, 29, 9), datetime(2026, 11, 29, 10))  # noqa: DTZ001 - local to the guest
BLANK = Cell(Kind.TEXT, state=CellState.BLANK)
Spec = dict[str, Any]


class Table:
    """Rows in memory."""

    def __init__(self, before: Iterable[Row] = (), after: Iterable[Row] = (), deleted: Iterable[Row] = ()) -> None:
        self._before = [*((row, True) for row in before), *((row, False) for row in deleted)]
        self._after = [(row, True) for row in after]

    def before(self) -> Iterable[tuple[Row, bool]]:
        return iter(self._before)

    def after(self) -> Iterable[tuple[Row, bool]]:
        return iter(self._after)


def cell(value: Any) -> Cell:
    if isinstance(value, Cell):
        return value
    if isinstance(value, bool):
        return Cell(Kind.LOGICAL, value)
    if isinstance(value, int | Decimal):
        return Cell(Kind.NUMBER, Decimal(value))
    if isinstance(value, date):
        return Cell(Kind.DATE, value)
    return Cell(Kind.TEXT, value) if value else BLANK


def row(**fields: Any) -> dict[str, Cell]:
    return {name: cell(value) for name, value in fields.items()}


def inserted(position: int, observable: str = "patients", **fields: Any) -> Change:
    return Change(observable, Verb.INSERTED, f"row {position}", position, after=row(**fields))


def updated(position: int, before: dict[str, Any], observable: str = "patients", **fields: Any) -> Change:
    old = row(**before)
    new = {**old, **row(**fields)}
    changed = tuple(name for name in new if not new[name].same_value(old[name]))
    return Change(observable, Verb.UPDATED, f"row {position}", position, old, new, changed)


def deleted(position: int, observable: str = "patients", **fields: Any) -> Change:
    return Change(observable, Verb.DELETED, f"row {position}", position, before=row(**fields))


def of_file(verb: Verb, path: str, content: bytes | None = b"", *, old: str = "", missing: str = "") -> Change:
    size = Cell(Kind.NUMBER, Decimal(len(content or b"")), has_blank=False)
    after = {"path": Cell(Kind.VARTEXT, path), "size": size}
    before = {"path": Cell(Kind.VARTEXT, old or path), "size": size}
    return Change(
        "program", verb, path, 1, None if verb is Verb.CREATED else before, None if verb is Verb.DELETED else after,
        content=content, content_missing=missing,
    )  # fmt: skip


def effects(
    expect: Sequence[Spec] = (), allow: Sequence[Spec] = (), forbid: Sequence[Spec] = ()
) -> Effects:  # fmt: skip
    reasoned = [{"because": "said so", **effect} for effect in allow]
    return Effects.model_validate({"expect": list(expect), "allow": reasoned, "forbid": list(forbid)})


def judged(
    rules: Effects, *changes: Change, success: bool = True, rows: dict[str, Rows] | None = None, run: RunContext = RUN
) -> Ledger:
    tables = rows or {}
    names = sorted({change.observable for change in changes} | set(tables))
    comparisons = [
        Comparison(name, tuple(c for c in changes if c.observable == name), rows=tables.get(name)) for name in names
    ]
    return account(rules, comparisons, success=success, context=run)


def statuses(ledger: Ledger) -> list[str]:
    return [entry.status.value for entry in ledger.entries]


def claims(ledger: Ledger) -> dict[int, str]:
    """Position of each change to the effect that claims it."""
    found = {}
    for entry in ledger.entries:
        ref = entry.effect or entry.part_of_task
        found[entry.change.position] = f"{ref.list}{ref.index}" if ref is not None else "-"
    return found


PATIENT: Spec = {
    "inserted": "patients",
    "fields": {"NAME": "Muster", "VORNAME": "Erika", "GEBDAT": "1964-08-12", "VERSNR": "1234567890"},
    "name": "new_patient",
}
RIGHT: dict[str, Any] = {
    "NAME": "Muster", "VORNAME": "Erika", "GEBDAT": date(1964, 8, 12), "VERSNR": "1234567890", "NOTE": "",
}  # fmt: skip


# --- claiming -------------------------------------------------------------------------------------------------------


def test_the_right_row_is_claimed() -> None:
    ledger = judged(effects([PATIENT]), inserted(7, **RIGHT))
    assert statuses(ledger) == ["expected"]
    assert not ledger.missing
    assert not ledger.beyond
    assert ledger.filled == 1
    assert ledger.credit == 1
    assert ledger.claimed["new_patient"].position == 7


def test_fields_are_total() -> None:
    ledger = judged(effects([PATIENT]), inserted(7, **RIGHT | {"NOTE": "x"}))
    assert statuses(ledger) == ["unexplained"]
    assert [misfit.field for misfit in ledger.near_misses[0].misfits] == ["NOTE"]
    anything = {**PATIENT, "fields": {**PATIENT["fields"], "*": {"is": "any", "because": "notes"}}}
    assert statuses(judged(effects([anything]), inserted(7, **RIGHT | {"NOTE": "x"}))) == ["expected"]


def test_an_update_may_change_the_named_fields_only() -> None:
    rule = {"updated": "patients", "where": {"NAME": "Muster"}, "fields": {"CITY": "Bonn"}}
    before = {"NAME": "Muster", "CITY": "Köln", "ZIP": "50667"}
    assert statuses(judged(effects([rule]), updated(1, before, CITY="Bonn"))) == ["expected"]
    ledger = judged(effects([rule]), updated(1, before, CITY="Bonn", ZIP="53111"))
    assert statuses(ledger) == ["unexplained"]
    misfit = ledger.near_misses[0].misfits[0]
    assert (misfit.field, misfit.expected, misfit.found, misfit.before) == (
        "ZIP", "unchanged (50667)", "53111", "50667",
    )  # fmt: skip


def test_where_looks_at_the_values_before() -> None:
    rule = {"updated": "patients", "where": {"NAME": "Alt"}, "fields": {"NAME": "Neu"}}
    assert statuses(judged(effects([rule]), updated(1, {"NAME": "Alt"}, NAME="Neu"))) == ["expected"]
    rule = {"deleted": "patients", "where": {"NAME": "Alt"}}
    assert statuses(judged(effects([rule]), deleted(1, NAME="Alt"), deleted(2, NAME="Neu"))) == [
        "expected",
        "unexplained",
    ]


def test_format_only_changes_count_where_the_comparison_says_so() -> None:
    rule = {"updated": "patients", "fields": {"A": {"is": "changed"}}}
    change = Change("patients", Verb.UPDATED, "x", 1, row(A="a", B=1), row(A="b", B=1), ("A", "B"))
    assert [m.field for m in judged(effects([rule]), change).near_misses[0].misfits] == ["B"]


def test_two_similar_effects_never_steal_each_others_row() -> None:
    loose = {"inserted": "patients", "fields": {"NAME": {"regex": ".+"}}}
    strict = {"inserted": "patients", "fields": {"NAME": "Muster"}}
    for order in ([loose, strict], [strict, loose]):
        for rows in (("Muster", "Other"), ("Other", "Muster")):
            ledger = judged(effects(order), *(inserted(n, NAME=name) for n, name in enumerate(rows, 1)))
            assert statuses(ledger) == ["expected", "expected"]


def test_an_allow_rule_does_not_steal_either() -> None:
    rules = effects(
        [{"inserted": "patients", "fields": {"NAME": "B"}}], [{"inserted": "patients", "fields": {"NAME": "B"}}]
    )
    ledger = judged(rules, inserted(1, NAME="B"), inserted(2, NAME="B"))
    assert claims(ledger) == {1: "expect0", 2: "allow0"}


def test_forbid_comes_first() -> None:
    rules = effects(
        [PATIENT], [{"inserted": "patients"}], [{"inserted": "patients", "where": {"VERSNR": "1234567890"}}]
    )
    ledger = judged(rules, inserted(1, **RIGHT))
    assert statuses(ledger) == ["forbidden"]
    assert [slots.missing for slots in ledger.missing] == [1]
    assert not ledger.near_misses


def test_forbid_looks_at_other_fields_only_if_it_says_so() -> None:
    change = updated(1, {"NAME": "A", "VERSNR": "1", "CITY": ""}, VERSNR="2", CITY="x")
    rule: Spec = {"updated": "patients", "fields": {"VERSNR": {"is": "changed"}}}
    assert statuses(judged(effects(forbid=[rule]), change)) == ["forbidden"]
    rule = {"updated": "patients", "fields": {"VERSNR": {"is": "changed"}, "*": {"is": "unchanged"}}}
    assert statuses(judged(effects(forbid=[rule]), change)) == ["unexplained"]


def test_counts() -> None:
    rule: Spec = {"inserted": "patients", "fields": {"NAME": "A"}}
    rows = [inserted(n, NAME="A") for n in range(1, 5)]
    assert claims(judged(effects([rule]), *rows)) == {1: "expect0", 2: "-", 3: "-", 4: "-"}
    assert judged(effects([{**rule, "count": 5}]), *rows).missing[0].missing == 1
    ledger = judged(effects([{**rule, "count": {"min": 1, "max": 2}}]), *rows)
    assert claims(ledger) == {1: "expect0", 2: "expect0", 3: "-", 4: "-"}
    assert not judged(effects([{**rule, "count": {"min": 1}}]), *rows).beyond
    assert claims(judged(effects(allow=[{**rule, "count": 1}]), *rows)) == {1: "allow0", 2: "-", 3: "-", 4: "-"}
    assert not judged(effects(allow=[{**rule, "count": {"min": 9}}])).missing
    assert statuses(judged(effects([{**rule, "count": 0}]), rows[0])) == ["unexplained"]


def test_when() -> None:
    rule = {"inserted": "patients", "fields": {"NAME": "A"}}
    rules = effects([{**rule, "when": "success"}], [{**rule, "when": "failure"}])
    assert claims(judged(rules, inserted(1, NAME="A"))) == {1: "expect0"}
    assert claims(judged(rules, inserted(1, NAME="A"), success=False)) == {1: "allow0"}
    assert judged(rules).missing
    assert not judged(rules, success=False).missing


def test_effects_that_refer_to_others() -> None:
    rules = effects(
        [
            {"updated": "counters", "where": {"NAME": "P"}, "fields": {"LAST": {"field": "new.NR"}}, "name": "count"},
            {"inserted": "log", "fields": {"NR": {"field": "count.LAST"}}},
            {"inserted": "patients", "fields": {"NR": {"generated": "next"}}, "name": "new"},
        ],
        [
            {"updated": "counters", "fields": {"LAST": {"is": "changed"}}},
            {"inserted": "log", "fields": {"NR": {"is": "changed"}}},
        ],
    )
    rows: dict[str, Rows] = {"patients": Table([row(NR="000104")])}
    chain = [
        inserted(5, NR="000105"),
        updated(1, {"NAME": "P", "LAST": 104}, "counters", LAST=105),
        inserted(9, "log", NR=105),
    ]
    ledger = judged(rules, *chain, rows=rows)
    assert claims(ledger) == {5: "expect2", 1: "expect0", 9: "expect1"}
    assert set(ledger.claimed) == {"new", "count"}
    wrong = updated(1, {"NAME": "P", "LAST": 104}, "counters", LAST=106)
    ledger = judged(rules, chain[0], wrong, chain[2], rows=rows)
    assert claims(ledger) == {5: "expect2", 1: "allow0", 9: "allow1"}
    assert [slots.effect.index for slots in ledger.missing] == [0, 1]


def test_references_in_a_circle_are_refused() -> None:
    circle = [
        {"inserted": "a", "fields": {"X": {"field": "two.X"}}, "name": "one"},
        {"inserted": "b", "fields": {"X": {"not": {"field": "one.X"}}}, "name": "two"},
    ]
    with pytest.raises(ContractFault, match="circle"):
        judged(effects(circle), inserted(1, "a", X="1"))


def test_references_need_a_single_change() -> None:
    rules = effects(
        [
            {"inserted": "a", "name": "one", "count": 2, "fields": {"X": "1"}},
            {"inserted": "b", "fields": {"X": {"field": "one.X"}}},
        ]
    )
    with pytest.raises(ContractFault, match="count: 1"):
        judged(rules, inserted(1, "a", X="1"))


def test_a_forbidden_effect_cannot_refer() -> None:
    with pytest.raises(ContractFault, match="forbidden"):
        judged(effects(forbid=[{"inserted": "a", "where": {"X": {"field": "one.X"}}}]))


def test_generated_next_for_two_rows() -> None:
    rule = {"inserted": "patients", "fields": {"NR": {"generated": "next"}}, "count": 2}
    rows: dict[str, Rows] = {"patients": Table([row(NR="000100")], deleted=[row(NR="000104")])}
    ledger = judged(effects([rule]), inserted(5, NR="000105"), inserted(6, NR="000106"), rows=rows)
    assert statuses(ledger) == ["expected", "expected"]
    for numbers in (("000105", "000105"), ("000105", "000107"), ("000105", "106"), ("000101", "000105")):
        ledger = judged(effects([rule]), inserted(5, NR=numbers[0]), inserted(6, NR=numbers[1]), rows=rows)
        assert statuses(ledger).count("expected") == 1, numbers
    # A program that reuses the place of a deleted record still counts on.
    ledger = judged(effects([rule]), inserted(2, NR="000106"), inserted(6, NR="000105"), rows=rows)
    assert statuses(ledger) == ["expected", "expected"]


def test_an_unknown_field_is_the_contracts_fault() -> None:
    rules = effects([{"inserted": "patients", "fields": {"NAMEE": "x"}}])
    with pytest.raises(ContractFault, match=r"NAMEE.*NAME"):
        judged(rules, rows={"patients": Table([row(NAME="a")])})
    assert judged(rules, rows={"patients": Table()}).missing


# --- the assignment against a search through all ------------------------------------------------------------------------


def _by_search(expect: list[Spec], allow: list[Spec], changes: list[Change]) -> tuple[int, int]:
    """Best numbers of filled required slots and of changes left over."""
    rules = [(spec, True) for spec in expect] + [(spec, False) for spec in allow]
    best = (0, -len(changes))

    def capacity(spec: Spec, expected: bool) -> tuple[int, float]:
        count = spec.get("count", 1 if expected else None)
        if count is None:
            return 0, float("inf")
        if isinstance(count, dict):
            return (count.get("min", 0) if expected else 0), count.get("max", float("inf"))
        return (count if expected else 0), count

    def fits(spec: Spec, change: Change) -> bool:
        assert change.after is not None
        return all(str(change.after[name].value) in wanted["one_of"] for name, wanted in spec["fields"].items())

    def search(place: int, counts: list[int]) -> None:
        nonlocal best
        if place == len(changes):
            filled = sum(min(n, capacity(s, e)[0]) for n, (s, e) in zip(counts, rules, strict=True))
            best = max(best, (filled, sum(counts) - len(changes)))
            return
        search(place + 1, counts)
        for number, (spec, expected) in enumerate(rules):
            if counts[number] < capacity(spec, expected)[1] and fits(spec, changes[place]):
                counts[number] += 1
                search(place + 1, counts)
                counts[number] -= 1

    search(0, [0] * len(rules))
    return best[0], -best[1]


_values = st.sampled_from("abc")
_counts = st.one_of(
    st.none(), st.integers(0, 2), st.sampled_from([{"min": 1, "max": 2}, {"min": 0, "max": 1}, {"min": 1}])
)  # fmt: skip


@st.composite
def _rule(draw: st.DrawFn) -> Spec:
    wanted = st.lists(_values, min_size=1, max_size=3, unique=True)
    rule: Spec = {"inserted": "t", "fields": {"A": {"one_of": draw(wanted)}, "B": {"one_of": draw(wanted)}}}
    count = draw(_counts)
    return rule if count is None else {**rule, "count": count}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(_rule(), max_size=3), st.lists(_rule(), max_size=2), st.lists(st.tuples(_values, _values), max_size=5), st.randoms()
)  # fmt: skip
def test_claiming_is_best_and_does_not_depend_on_order(
    expect: list[Spec], allow: list[Spec], rows: list[tuple[str, str]], dice: random.Random
) -> None:
    changes = [inserted(n, "t", A=a, B=b) for n, (a, b) in enumerate(rows)]
    rules = effects(expect, allow)
    ledger = judged(rules, *changes)
    filled = sum(slots.required - slots.missing for slots in ledger.slots)
    assert (filled, len(ledger.with_status(Status.UNEXPLAINED))) == _by_search(expect, allow, changes)
    shuffled = changes[:]
    dice.shuffle(shuffled)
    assert judged(rules, *shuffled) == ledger
    failed = judged(rules, *changes, success=False)
    assert judged(rules, *shuffled, success=False) == failed
    assert not failed.with_status(Status.EXPECTED)


def test_equal_places_and_repeated_changes_are_told_apart() -> None:
    one, two = inserted(1, NAME="A"), replace(inserted(1, NAME="B"))
    rules = effects([{"inserted": "patients", "fields": {"NAME": {"one_of": ["A", "B"]}}}])
    assert judged(rules, one, two) == judged(rules, two, one)
    assert statuses(judged(rules, one, one)) == ["expected", "unexplained"]


# --- near misses ------------------------------------------------------------------------------------------------------


def test_a_wrong_insurance_number_is_a_near_miss() -> None:
    ledger = judged(effects([PATIENT]), inserted(7, **RIGHT | {"VERSNR": "4212505"}))
    assert statuses(ledger) == ["unexplained"]
    near = ledger.near_misses[0]
    misfit = near.misfits[0]
    assert len(near.misfits) == 1
    assert (misfit.field, misfit.expected, misfit.found) == ("VERSNR", "1234567890", "4212505")
    assert not near.half_finished


def test_a_half_finished_row() -> None:
    near = judged(
        effects([PATIENT]), inserted(7, **RIGHT | {"VERSNR": "", "GEBDAT": Cell(Kind.DATE, state=CellState.BLANK)})
    )
    assert near.near_misses[0].half_finished
    assert [misfit.field for misfit in near.near_misses[0].misfits] == ["GEBDAT", "VERSNR"]


@pytest.mark.parametrize(
    ("verb", "before", "after", "half_finished"),
    [
        ("inserted", None, "", True),
        ("updated", "", "", True),
        ("updated", "0221 4711", "", False),  # emptied
        ("undeleted", "0221 4711", "", False),
        ("undeleted", "", "", True),
    ],
)
@pytest.mark.parametrize("empty", ["", None, 0, False, "00000000"])
def test_only_what_was_never_filled_is_half_finished(
    verb: str, before: str | None, after: str, half_finished: bool, empty: Any
) -> None:
    """A field that was emptied holds a wrong value, whatever emptiness looks like."""
    nothing = Cell(Kind.TEXT, state=CellState.NULL) if empty is None else cell(empty)
    old = None if before is None else row(NAME="Muster", CITY="", PHONE=before or nothing)
    new = {**(old or {}), **row(NAME="Muster", CITY="Bonn", PHONE=after or nothing)}
    changed = tuple(n for n in new if old is None or not new[n].same_value(old[n]))
    change = Change("patients", Verb(verb), "row 1", 1, old, new, changed)
    rule = {
        verb: "patients",
        "where": {"NAME": "Muster"},
        "fields": {"NAME": "Muster", "CITY": "Bonn", "PHONE": "0228 1"},
    }
    near = judged(effects([rule]), change).near_misses
    assert [(n.misfits[0].field, n.half_finished) for n in near] == [("PHONE", half_finished)]


@pytest.mark.parametrize(("before", "half_finished"), [(0, True), (5, False)])
def test_a_file_that_was_emptied_is_not_half_finished(before: int, half_finished: bool) -> None:
    change = of_file(Verb.MODIFIED, "out.txt", b"")
    assert change.before is not None
    emptied = replace(change, before={**change.before, "size": Cell(Kind.NUMBER, Decimal(before), has_blank=False)})
    rule = {"modified": "program", "path": "out.txt", "content": "right"}
    assert judged(effects([rule]), emptied).near_misses[0].half_finished is half_finished


def test_less_than_half_is_no_near_miss() -> None:
    row_of_three_errors = inserted(7, **RIGHT | {"VERSNR": "1", "VORNAME": "Max", "NAME": "X"})
    assert not judged(effects([PATIENT]), row_of_three_errors).near_misses
    two = inserted(7, **RIGHT | {"VERSNR": "1", "VORNAME": "Max"})
    assert len(judged(effects([PATIENT]), two).near_misses[0].misfits) == 2


def test_the_nearest_and_then_the_earliest_is_the_near_miss() -> None:
    far = inserted(1, **RIGHT | {"VERSNR": "1", "VORNAME": "Max"})
    first = inserted(2, **RIGHT | {"VERSNR": "1"})
    second = inserted(3, **RIGHT | {"VERSNR": "2"})
    for order in ((far, first, second), (second, first, far)):
        assert [near.change.position for near in judged(effects([PATIENT]), *order).near_misses] == [2]
    twice = judged(effects([{**PATIENT, "count": 2}]), far, first, second)
    assert [near.change.position for near in twice.near_misses] == [2, 3]
    twice = judged(effects([{**PATIENT, "count": 3}]), far, first, second)
    assert [near.change.position for near in twice.near_misses] == [2, 3, 1]


def test_where_must_hold_of_a_near_miss() -> None:
    rule = {"updated": "patients", "where": {"NAME": "Muster"}, "fields": {"CITY": "Bonn", "ZIP": "53111"}}
    ledger = judged(effects([rule]), updated(1, {"NAME": "Other", "CITY": "", "ZIP": ""}, CITY="Bonn", ZIP="5"))
    assert not ledger.near_misses
    ledger = judged(effects([rule]), updated(1, {"NAME": "Muster", "CITY": "", "ZIP": ""}, CITY="Bonn", ZIP="5"))
    assert [misfit.field for misfit in ledger.near_misses[0].misfits] == ["ZIP"]


def test_a_hint_for_a_date_and_for_bytes() -> None:
    rule = {"inserted": "patients", "fields": {"NAME": "Muster", "BORN": "12.08.1964"}}
    near = judged(effects([rule]), inserted(1, NAME="Muster", BORN=date(1964, 8, 12))).near_misses[0]
    assert near.misfits[0].hint == "dates are written 1964-08-12"
    strange = Cell(Kind.TEXT, state=CellState.UNDECODABLE, raw=b"\x81", hint="declare encoding")
    rule = {"inserted": "patients", "fields": {"NAME": "Müller", "CITY": "Bonn"}}
    near = judged(effects([rule]), inserted(1, NAME=strange, CITY="Bonn")).near_misses[0]
    assert near.misfits[0].hint == "declare encoding"
    assert not near.half_finished


def test_updated_instead_of_inserted() -> None:
    before = {"NAME": "Alt", "VORNAME": "Erika", "GEBDAT": date(1964, 8, 12), "VERSNR": "1", "NOTE": ""}
    ledger = judged(effects([PATIENT]), updated(3, before, NAME="Muster", VERSNR="1234567890"))
    assert [hint.text for hint in ledger.hints] == ["row 3 was updated instead of inserted"]
    ledger = judged(effects([{"deleted": "patients", "where": {"NR": "5"}}]), updated(3, {"NR": "5", "X": "a"}, X="b"))
    assert [hint.text for hint in ledger.hints] == ["row 3 was updated instead of deleted"]
    assert not judged(
        effects([{"deleted": "patients", "where": {"NR": "6"}}]), updated(3, {"NR": "5", "X": "a"}, X="b")
    ).hints


# --- consequences ---------------------------------------------------------------------------------------------------------

NUMBERED: Spec = {**PATIENT, "fields": {**PATIENT["fields"], "NR": {"regex": r"\d+"}}}
COUNTER: Spec = {
    "updated": "counters", "name": "count", "where": {"NAME": "P"}, "fields": {"LAST": {"field": "new_patient.NR"}},
}  # fmt: skip
LOGGED: Spec = {"inserted": "log", "fields": {"NR": {"field": "count.LAST"}}}
WRONG = inserted(105, **RIGHT | {"NR": "105", "VERSNR": "4212505"})
COUNTED = updated(1, {"NAME": "P", "LAST": 104}, "counters", LAST=105)


def causes(ledger: Ledger) -> tuple[dict[str, str], dict[str, str]]:
    """What has a cause, and which: the changes by observable and place, the effects that are missing by their words."""
    changes = {
        f"{e.change.observable} {e.change.position}": e.cause.name for e in ledger.entries if e.cause is not None
    }
    return changes, {slots.effect.label: slots.cause.name for slots in ledger.missing if slots.cause is not None}


@pytest.mark.parametrize("success", [True, False])
def test_a_chain_that_follows_a_near_miss_has_one_cause(success: bool) -> None:
    ledger = judged(
        effects([LOGGED, COUNTER, NUMBERED]), WRONG, COUNTED, inserted(3, "log", NR=105), inserted(4, "log", NR=99),
        success=success,
    )  # fmt: skip
    assert [near.effect.name for near in ledger.near_misses] == ["new_patient"]
    assert causes(ledger) == (
        {"counters 1": "new_patient", "log 3": "new_patient"},
        {"updated counters (count)": "new_patient", "inserted log": "new_patient"},
    )
    assert len(ledger.missing) == 3
    assert len(ledger.beyond) == 4
    assert ledger.filled == 0


def test_an_allowed_change_that_follows_a_near_miss_is_its_consequence() -> None:
    follows = {"inserted": "log", "fields": {"NR": {"field": "new_patient.NR"}}, "count": 1}
    ledger = judged(effects([NUMBERED], [follows]), WRONG, inserted(3, "log", NR=105), inserted(4, "log", NR=105))
    assert statuses(ledger).count("unexplained") == 3
    assert causes(ledger) == ({"log 3": "new_patient"}, {})


def test_an_effect_of_which_only_a_part_follows_is_missing_by_itself() -> None:
    two = {"inserted": "log", "fields": {"NR": {"field": "new_patient.NR"}}, "count": 2}
    ledger = judged(effects([NUMBERED, two]), WRONG, inserted(3, "log", NR=105))
    assert causes(ledger) == ({"log 3": "new_patient"}, {})
    assert [slots.missing for slots in ledger.missing] == [1, 2]


def test_what_follows_a_near_miss_with_a_field_wrong_is_a_near_miss_of_its_own() -> None:
    other = updated(1, {"NAME": "P", "LAST": 104, "DAY": "1"}, "counters", LAST=105, DAY="2")
    ledger = judged(effects([NUMBERED, COUNTER]), WRONG, other)
    assert causes(ledger) == ({}, {})
    assert [[misfit.field for misfit in near.misfits] for near in ledger.near_misses] == [["VERSNR"], ["DAY"]]


def test_where_nothing_came_close_nothing_follows() -> None:
    ledger = judged(effects([NUMBERED, COUNTER]), COUNTED)
    assert causes(ledger) == ({}, {})
    assert not ledger.near_misses


def test_a_reference_to_what_was_claimed_is_no_consequence() -> None:
    right = inserted(105, **RIGHT | {"NR": "105"})
    wrong = updated(1, {"NAME": "P", "LAST": 104}, "counters", LAST=106)
    ledger = judged(effects([NUMBERED, COUNTER, LOGGED]), right, wrong, inserted(3, "log", NR=106))
    assert [near.effect.name for near in ledger.near_misses] == ["count"]
    assert causes(ledger) == ({"log 3": "count"}, {"inserted log": "count"})


# --- after a reported failure --------------------------------------------------------------------------------------------


def test_after_a_failure_expectations_explain_nothing() -> None:
    rules = effects([PATIENT], [{"inserted": "log", "fields": {"*": {"is": "any", "because": "log"}}}])
    ledger = judged(rules, inserted(1, **RIGHT), inserted(2, "log", X="x"), success=False)
    by_observable = {entry.change.observable: entry for entry in ledger.entries}
    assert by_observable["patients"].status is Status.UNEXPLAINED
    assert by_observable["patients"].part_of_task is not None
    assert by_observable["log"].status is Status.ALLOWED
    assert not ledger.beyond
    assert not ledger.missing
    assert ledger.filled == 1
    more = judged(rules, inserted(1, **RIGHT), inserted(2, **RIGHT), success=False)
    assert [entry.change.position for entry in more.beyond] == [2]


def test_after_a_failure_near_misses_are_found_too() -> None:
    ledger = judged(effects([PATIENT]), inserted(1, **RIGHT | {"VERSNR": "4212505"}), success=False)
    assert [near.misfits[0].field for near in ledger.near_misses] == ["VERSNR"]
    assert ledger.missing


# --- windows ----------------------------------------------------------------------------------------------------------


def window(title: str, program: str = "dswin.exe", hung: bool = False) -> dict[str, Cell]:
    named = {"title": title, "class": "TForm", "program": program}
    return {name: Cell(Kind.VARTEXT, value) for name, value in named.items()} | {"hung": Cell(Kind.LOGICAL, hung)}


def test_windows_count_for_their_named_fields_only() -> None:
    rules = effects(
        [{"opened": "screen", "fields": {"title": "New patient"}}, {"closed": "screen", "where": {"title": "List"}}],
        [{"retitled": "screen", "where": {"title": "A"}, "fields": {"title": {"regex": "A .*"}}}],
    )
    changes = [
        Change("screen", Verb.OPENED, "New patient", 1, after=window("New patient", hung=True)),
        Change("screen", Verb.CLOSED, "List", 2, before=window("List")),
        Change("screen", Verb.RETITLED, "A 1", 3, window("A"), window("A 1"), ("title",)),
        Change("screen", Verb.RETITLED, "B 1", 4, window("B"), window("B 1"), ("title",)),
    ]
    assert claims(judged(rules, *changes)) == {1: "expect0", 2: "expect1", 3: "allow0", 4: "-"}


@pytest.mark.parametrize(
    ("effect", "windows", "missing"),
    [
        ({"present": "screen", "where": {"title": "List"}}, ["List"], 0),
        ({"present": "screen", "fields": {"title": "List"}}, ["List", "List"], 0),
        ({"present": "screen", "where": {"title": "List"}}, ["Error"], 1),
        ({"present": "screen", "where": {"title": "List"}, "count": 1}, ["List", "List"], 1),
        ({"present": "screen", "where": {"title": "List"}, "count": 2}, ["List", "List"], 0),
        ({"present": "screen", "where": {"title": "List"}, "count": {"min": 2}}, ["List"], 1),
        ({"present": "screen", "where": {"title": "List"}, "count": {"max": 1}}, [], 0),
        ({"absent": "screen", "where": {"title": "Error"}}, ["List"], 0),
        ({"absent": "screen", "where": {"title": "Error"}}, ["Error", "List"], 1),
        ({"absent": "screen", "where": {"title": "Error"}, "when": "failure"}, ["Error", "List"], 0),
    ],
)
def test_final_states(effect: Spec, windows: list[str], missing: int) -> None:
    ledger = judged(effects([effect]), rows={"screen": Table(after=[window(title) for title in windows])})
    assert sum(slots.missing for slots in ledger.missing) == missing
    assert ledger.filled == 0
    assert not ledger.near_misses
    if missing and windows:
        assert ledger.missing[0].seen[0] == windows[0]
        assert ledger.credit < 1


def test_final_states_need_windows_that_were_read() -> None:
    with pytest.raises(Unreadable, match="screen"):
        judged(effects([{"absent": "screen", "where": {"title": "Error"}}]))
    with pytest.raises(ContractFault, match="final state"):
        judged(effects(forbid=[{"present": "screen", "where": {"title": "Error"}}]))


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "change", "fits"),
    [
        ({"created": "program", "path": "*.txt"}, of_file(Verb.CREATED, r"OUT\A.TXT"), True),
        ({"created": "program", "path": r"out\*.txt"}, of_file(Verb.CREATED, r"OUT\A.TXT"), True),
        ({"created": "program", "path": r"out\*.txt"}, of_file(Verb.CREATED, r"OUT\B\A.TXT"), False),
        ({"created": "program", "path": r"out\**"}, of_file(Verb.CREATED, r"OUT\B\A.TXT"), True),
        ({"created": "program", "path": r"\a.txt"}, of_file(Verb.CREATED, r"A.TXT"), True),
        ({"created": "program", "path": r"\a.txt"}, of_file(Verb.CREATED, r"OUT\A.TXT"), False),
        ({"created": "program", "path": r"**\b\*"}, of_file(Verb.CREATED, r"OUT\B\A.TXT"), True),
        ({"created": "program", "path": "[ab].txt"}, of_file(Verb.CREATED, "B.txt"), True),
        ({"created": "program", "path": "a[.]txt"}, of_file(Verb.CREATED, "a.txt"), True),
        ({"created": "program", "path": "äöü.txt"}, of_file(Verb.CREATED, "ÄÖÜ.TXT"), True),
        ({"created": "program"}, of_file(Verb.CREATED, "x"), True),
        ({"modified": "program", "path": "x"}, of_file(Verb.CREATED, "x"), False),
        ({"renamed": "program", "path": "new", "from": "ol?"}, of_file(Verb.RENAMED, "new", old="OLD"), True),
        ({"renamed": "program", "path": "new", "from": "ole"}, of_file(Verb.RENAMED, "new", old="OLD"), False),
        ({"created": "program", "content": "héllo"}, of_file(Verb.CREATED, "x", "héllo".encode()), True),
        ({"created": "program", "content": "héllo"}, of_file(Verb.CREATED, "x", b"\xef\xbb\xbf" + "héllo".encode()), True),
        ({"created": "program", "content": "héllo"}, of_file(Verb.CREATED, "x", "héllo".encode("cp850")), False),
        ({"created": "program", "content": {"text": "héllo", "encoding": "cp850"}}, of_file(Verb.CREATED, "x", "héllo".encode("cp850")), True),
        ({"created": "program", "content": {"text": "a b", "normalise": ["whitespace"]}}, of_file(Verb.CREATED, "x", b"a\r\n b\n"), True),
        ({"created": "program", "content": {"text": {"regex": "a b"}, "normalise": ["whitespace"]}}, of_file(Verb.CREATED, "x", b"a\r\n b"), True),
        ({"created": "program", "content": {"regex": r"a\r\n"}}, of_file(Verb.CREATED, "x", b"a\r\n"), True),
        ({"created": "program", "content": {"is": "empty"}}, of_file(Verb.CREATED, "x", b""), True),
        ({"created": "program", "content": {"size": 3}}, of_file(Verb.CREATED, "x", b"abc"), True),
        ({"created": "program", "content": {"size": {"between": [4, 9]}}}, of_file(Verb.CREATED, "x", b"abc"), False),
        ({"created": "program", "content": {"sha256": "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"}}, of_file(Verb.CREATED, "x", b"abc"), True),
        ({"created": "program", "content": {"sha256": "0" * 64}}, of_file(Verb.CREATED, "x", b"abc"), False),
        ({"deleted": "program", "path": "x"}, of_file(Verb.DELETED, "x", None), True),
    ],
)  # fmt: skip
def test_files(effect: Spec, change: Change, fits: bool) -> None:
    assert statuses(judged(effects([effect]), change)) == ["expected" if fits else "unexplained"]
    assert statuses(judged(effects(forbid=[effect]), change)) == ["forbidden" if fits else "unexplained"]


def test_content_that_was_not_kept_is_unreadable_only_if_it_is_needed() -> None:
    lost = of_file(Verb.CREATED, "x", None, missing="larger than 16 MiB")
    with pytest.raises(Unreadable, match="larger than 16 MiB"):
        judged(effects([{"created": "program", "path": "x", "content": "a"}]), lost)
    assert statuses(judged(effects([{"created": "program", "path": "y", "content": "a"}]), lost)) == ["unexplained"]
    assert statuses(judged(effects([{"created": "program", "path": "x"}]), lost)) == ["expected"]


def test_wrong_content_in_the_right_place_is_a_near_miss() -> None:
    rule = {"created": "program", "path": "out.txt", "content": "right"}
    near = judged(effects([rule]), of_file(Verb.CREATED, "out.txt", b"wrong")).near_misses[0]
    assert (near.misfits[0].field, near.misfits[0].expected, near.misfits[0].found) == ("content", "right", "wrong")
    assert not near.half_finished
    assert judged(effects([rule]), of_file(Verb.CREATED, "out.txt", b"")).near_misses[0].half_finished
    hashed = {"created": "program", "path": "out.txt", "content": {"sha256": "0" * 64}}
    near = judged(effects([hashed]), of_file(Verb.CREATED, "out.txt", b"wrong")).near_misses[0]
    assert near.misfits[0].found.startswith("SHA-256 ")
    sized = {"created": "program", "path": "out.txt", "content": {"size": 9}}
    assert judged(effects([sized]), of_file(Verb.CREATED, "out.txt", b"wrong")).near_misses[0].misfits[0].found == "5"


def test_an_unknown_encoding_is_the_contracts_fault() -> None:
    rule = {"created": "program", "content": {"text": "a", "encoding": "klingon"}}
    with pytest.raises(ContractFault, match="klingon"):
        judged(effects([rule]), of_file(Verb.CREATED, "x", b"a"))


def test_credit_is_by_weight() -> None:
    rules = effects(
        [
            {"inserted": "a", "fields": {"X": "1"}, "weight": 3},
            {"inserted": "b", "fields": {"X": "1"}, "count": 2},
        ]
    )
    assert judged(rules, inserted(1, "a", X="1")).credit == Decimal("0.75")
    assert judged(rules, inserted(1, "a", X="1"), inserted(1, "b", X="1")).credit == Decimal("0.875")
    assert judged(effects()).credit == 1
