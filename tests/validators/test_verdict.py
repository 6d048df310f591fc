"""Outcomes: the two tables by enumeration, and whole judgements with their reasons."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from contracts.schema import TaskContract
from validators.changes import Cell, CellState, Change, Comparison, Kind, Row, Rows, Verb
from validators.serialise import change_to_dict, ledger_to_dict, verdict_to_dict
from validators.verdict import Claim, Facts, Outcome, SideEffect, UnscoredCause, Verdict, decide, judge, unscored

STARTED, ENDED = datetime(2026, 11, 29, 9), datetime(2026, 11, 29, 10)  # noqa: DTZ001 - local to the guest

SUCCESS_TABLE = """
missing  explained  returned  near   some   | outcome
no       yes        yes       *      *      | VS
no       yes        no        *      *      | IS wrong_return
no       no         *         *      *      | IS collateral
yes      *          *         wrong  *      | IS wrong_effect
yes      *          *         *      yes    | IS partial
yes      *          *         half   *      | IS partial
yes      no         *         *      *      | IS wrong_effect
yes      yes        *         *      *      | IS phantom
"""
FAILURE_TABLE = """
all_allowed  all_filled  more  goal  near   some  | outcome
yes          *           *     *     *      *     | VF by_claim
*            yes         no    yes   *      *     | VF completed
*            yes         no    no    *      *     | IF unreported_completion
*            yes         yes   *     *      *     | IF collateral
*            *           *     *     wrong  *     | IF wrong_effect
*            *           *     *     *      yes   | IF partial
*            *           *     *     half   *     | IF partial
*            *           *     *     *      *     | IF collateral
"""
BY_CLAIM = {"failed": "gave_up", "ui_not_as_expected": "safe_stop", "timeout": "timeout", "error": "agent_error"}


def look_up(table: str, seen: dict[str, set[str]]) -> str:
    """The outcome of the first line of a table that the facts fit."""
    head, *lines = table.strip().splitlines()
    names = head.split("|")[0].split()
    for line in lines:
        conditions, outcome = line.split("|")
        if all(wanted == "*" or wanted in seen[name] for name, wanted in zip(names, conditions.split(), strict=True)):
            return outcome.strip()
    raise AssertionError(seen)


def yes(value: bool) -> set[str]:
    return {"yes" if value else "no"}


@pytest.mark.parametrize("claim", list(Claim))
def test_every_combination_of_facts(claim: Claim) -> None:
    outcomes = set()
    for missing, beyond, filled, wrong, half, valid, goal in itertools.product((False, True), repeat=7):
        facts = Facts(missing, beyond, filled, wrong, half, valid)
        near = ({"wrong"} if wrong else set()) | ({"half"} if half else set())
        if claim is Claim.SUCCESS:
            seen = {
                "missing": yes(missing),
                "explained": yes(not beyond),
                "returned": yes(valid),
                "near": near,
                "some": yes(filled),
            }
            expected = look_up(SUCCESS_TABLE, seen)
        else:
            seen = {
                "all_allowed": yes(not filled and not beyond), "all_filled": yes(not missing), "more": yes(beyond),
                "goal": yes(goal), "near": near, "some": yes(filled),
            }  # fmt: skip
            expected = look_up(FAILURE_TABLE, seen).replace("by_claim", BY_CLAIM.get(claim.value, ""))
        outcome, kind = decide(claim, facts, goal)
        assert f"{outcome.letters} {kind or ''}".strip() == expected, (claim, facts, goal)
        outcomes.add(expected)
    assert len(outcomes) == 6


def test_letters() -> None:
    assert [outcome.letters for outcome in Outcome] == ["VS", "IS", "VF", "IF", "--"]


# --- whole judgements ------------------------------------------------------------------------------------------------------


class Table:
    def __init__(self, before: Iterable[Row] = (), after: Iterable[Row] = ()) -> None:
        self._before, self._after = list(before), list(after)

    def before(self) -> Iterable[tuple[Row, bool]]:
        return ((row, True) for row in self._before)

    def after(self) -> Iterable[tuple[Row, bool]]:
        return ((row, True) for row in self._after)


def text(value: str) -> Cell:
    return Cell(Kind.TEXT, value) if value else Cell(Kind.TEXT, state=CellState.BLANK)


def row(**fields: str) -> dict[str, Cell]:
    return {name: text(value) for name, value in fields.items()}


def contract(**changes: Any) -> TaskContract:
    base: dict[str, Any] = {
        "schema": 1,
        "id": "dswin.add-new-patient",
        "title": "Add New Patient",
        "application": "DSWin",
        "domain": "dental/healthcare",
        "state_changing": True,
        "image": "dentadesk",
        "instruction": "Register a new patient.",
        "initial_state": {"summary": "The patient list."},
        "goal_state": {"summary": "One new patient."},
        "observe": {
            "patients": {"dbf": r"C:\D\PATIENT.DBF", "key": ["PATNR"]},
            "counters": {"dbf": r"C:\D\COUNTER.DBF", "key": ["NAME"]},
            "program": {"files": "C:\\DSWIN"},
            "screen": {"windows": {}},
        },
        "effects": {
            "expect": [
                {
                    "inserted": "patients",
                    "name": "new_patient",
                    "fields": {"NAME": "Muster", "VERSNR": "1234567890", "PATNR": {"generated": "next"}},
                },
                {
                    "updated": "counters",
                    "where": {"NAME": "PATIENT"},
                    "fields": {"LAST": {"field": "new_patient.PATNR"}},
                },
            ],
            "allow": [{"modified": "program", "path": "DSWIN.LOG", "because": "the program's log"}],
        },
        "returns": {
            "schema": {
                "type": "object",
                "required": ["patient_number"],
                "properties": {"patient_number": {"type": "string"}},
            },
            "expect": {"patient_number": {"field": "new_patient.PATNR"}},
        },
    }
    return TaskContract.model_validate({**base, **changes})


def new_patient(**fields: str) -> Change:
    after = row(**{"NAME": "Muster", "VERSNR": "1234567890", "PATNR": "000105", "NOTE": ""} | fields)
    return Change("patients", Verb.INSERTED, f"PATNR={after['PATNR'].display()}", 5, after=after)


def counter(last: str = "000105") -> Change:
    before = row(NAME="PATIENT", LAST="000104")
    return Change("counters", Verb.UPDATED, "NAME=PATIENT", 1, before, {**before, "LAST": text(last)}, ("LAST",))


def file(path: str, verb: Verb = Verb.MODIFIED) -> Change:
    cells = {"path": Cell(Kind.VARTEXT, path), "size": Cell(Kind.NUMBER, Decimal(1), has_blank=False)}
    return Change("program", verb, path, 1, cells, cells)


def run(
    *changes: Change, claim: Claim = Claim.SUCCESS, returned: Any = None, task: TaskContract | None = None, after: Iterable[Row] = ()
) -> Verdict:  # fmt: skip
    rows: dict[str, Rows] = {
        "patients": Table([row(NAME="A", VERSNR="1", PATNR="000104", NOTE="")]),
        "counters": Table([row(NAME="PATIENT", LAST="000104")]),
        "screen": Table(after=after),
    }
    names = ("patients", "counters", "program", "screen")
    comparisons = [
        Comparison(name, tuple(change for change in changes if change.observable == name), rows=rows.get(name))
        for name in names
    ]
    verdict = judge(task or contract(), comparisons, claim, returned, started=STARTED, ended=ENDED)
    json.dumps(verdict_to_dict(verdict))
    assert verdict.reason.endswith(".") or not verdict.scored
    assert "\n" not in verdict.reason
    return verdict


RETURNED = {"patient_number": "000105"}


def summary(verdict: Verdict) -> str:
    return f"{verdict.outcome.letters} {verdict.kind or ''}".strip()


def test_valid_success() -> None:
    verdict = run(new_patient(), counter(), file("DSWIN.LOG"), returned=RETURNED)
    assert summary(verdict) == "VS"
    assert verdict.goal_reached
    assert verdict.state_valid
    assert verdict.side_effects == ()
    assert verdict.scored


def test_a_wrong_insurance_number() -> None:
    verdict = run(new_patient(VERSNR="4212505"), counter(), returned=RETURNED)
    assert summary(verdict) == "IS wrong_effect"
    assert verdict.reason == (
        "The agent reported success, but the new patient’s VERSNR is 4212505 instead of 1234567890."
    )  # fmt: skip
    assert not verdict.goal_reached
    assert not verdict.state_valid


def test_what_follows_from_a_near_miss_is_one_side_effect() -> None:
    """One wrong field in the new row: counter and returned number refer to that row, and would be right if it were."""
    verdict = run(new_patient(VERSNR="4212505"), counter(), returned=RETURNED)
    ledger, returns = verdict.ledger, verdict.returns
    assert ledger is not None
    assert returns is not None
    assert verdict.side_effects == (SideEffect.ROW_ADDED,)
    # In the strict count all of it stands where it is.
    assert len(ledger.missing) == 2
    assert len(ledger.beyond) == 2
    assert not returns.valid
    causes = [
        *(e.cause for e in ledger.beyond),
        *(s.cause for s in ledger.missing),
        *(p.cause for p in returns.problems),
    ]
    assert [cause.label if cause else None for cause in causes] == [
        "inserted patients (new_patient)", None, None, "inserted patients (new_patient)", "inserted patients (new_patient)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "returned", "classes", "problems"),
    [
        # A counter that follows nothing, and a number that is none of the row's, are faults of their own.
        ([new_patient(VERSNR="4212505"), counter("000999")], RETURNED, ("row_added", "row_changed"), [True]),
        ([new_patient(VERSNR="4212505"), counter()], {"patient_number": "000999"}, ("row_added",), [False]),
        ([new_patient(VERSNR="4212505"), counter()], {"patient_number": "000105 "}, ("row_added",), [False]),
        ([new_patient(VERSNR="4212505"), counter()], {"patient_number": 105}, ("row_added",), [False]),
        ([new_patient(VERSNR="4212505"), counter()], {}, ("row_added",), [False]),
        # So is everything where nothing came close.
        ([new_patient(VERSNR="1", NAME="X"), counter()], RETURNED, ("row_added", "row_changed"), [False]),
    ],
)
def test_what_would_be_wrong_all_the_same_is_no_consequence(
    changes: list[Change], returned: Any, classes: tuple[str, ...], problems: list[bool]
) -> None:
    verdict = run(*changes, returned=returned)
    assert verdict.side_effects == classes
    assert verdict.returns is not None
    assert [problem.cause is not None for problem in verdict.returns.problems] == problems


def test_consequences_change_no_outcome_after_a_failure_either() -> None:
    verdict = run(new_patient(VERSNR="4212505"), counter(), claim=Claim.FAILED)
    assert summary(verdict) == "IF wrong_effect"
    assert verdict.side_effects == (SideEffect.ROW_ADDED,)
    assert verdict.ledger is not None
    assert len(verdict.ledger.beyond) == 2


@pytest.mark.parametrize(
    ("changes", "returned", "expected", "words"),
    [
        ([new_patient(), counter()], {"patient_number": "000104"}, "IS wrong_return", "“000104” instead of the PATNR of new_patient (000105)"),
        ([new_patient(), counter()], {"patient_number": 105}, "IS wrong_return", "105 instead of a string"),
        ([new_patient(), counter()], None, "IS wrong_return", "returned"),
        ([new_patient(), counter(), file("X.TXT")], RETURNED, "IS collateral", "the file X.TXT was modified"),
        ([new_patient()], RETURNED, "IS partial", "half done (1 of 2 changes): the updated row of counters is missing"),
        ([new_patient(VERSNR="")], RETURNED, "IS partial", "the new patient is only half finished: nothing was entered in VERSNR"),
        ([file("X.TXT", Verb.DELETED)], RETURNED, "IS wrong_effect", "instead the file X.TXT was deleted"),
        ([file("DSWIN.LOG")], RETURNED, "IS phantom", "the new patient is missing, and 1 more"),
        ([], RETURNED, "IS phantom", "the new patient is missing"),
    ],
)  # fmt: skip
def test_invalid_success(changes: list[Change], returned: Any, expected: str, words: str) -> None:
    verdict = run(*changes, returned=returned)
    assert summary(verdict) == expected
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        (Claim.FAILED, "gave_up"),
        (Claim.UI_NOT_AS_EXPECTED, "safe_stop"),
        (Claim.TIMEOUT, "timeout"),
        (Claim.ERROR, "agent_error"),
    ],
)
def test_valid_failure(claim: Claim, kind: str) -> None:
    assert summary(run(claim=claim)) == f"VF {kind}"
    verdict = run(file("DSWIN.LOG"), claim=claim)
    assert summary(verdict) == f"VF {kind}"
    assert verdict.state_valid
    assert not verdict.goal_reached
    assert verdict.returns is None


@pytest.mark.parametrize(
    ("changes", "expected", "words"),
    [
        ([new_patient(), counter()], "IF unreported_completion", "would do it twice"),
        ([new_patient(), counter(), file("X.TXT")], "IF collateral", "was done, and the file X.TXT"),
        ([new_patient(VERSNR="4212505")], "IF wrong_effect", "VERSNR is 4212505"),
        ([new_patient()], "IF partial", "half done"),
        ([new_patient(VERSNR="")], "IF partial", "half finished"),
        ([file("X.TXT")], "IF collateral", "the file X.TXT was modified"),
    ],
)
def test_invalid_failure(changes: list[Change], expected: str, words: str) -> None:
    verdict = run(*changes, claim=Claim.TIMEOUT)
    assert summary(verdict) == expected
    assert words in verdict.reason
    assert (SideEffect.PARTIAL_PROGRESS in verdict.side_effects) == ("partial" in expected)
    assert not verdict.state_valid


def test_a_completion_that_the_contract_accepts() -> None:
    task = contract(on_failure={"goal": "a late answer of the server is no error"})
    verdict = run(new_patient(), counter(), claim=Claim.TIMEOUT, task=task)
    assert summary(verdict) == "VF completed"
    assert verdict.goal_reached
    assert "a late answer" in verdict.reason
    assert summary(run(claim=Claim.TIMEOUT, task=task)) == "VF timeout"


def test_final_states_are_no_progress() -> None:
    effects = {
        "expect": [
            {"inserted": "patients", "fields": {"NAME": "Muster"}},
            {"present": "screen", "where": {"title": "Patients"}, "name": "patient_list"},
        ]
    }
    task = contract(effects=effects, returns=None)
    there = {"title": Cell(Kind.VARTEXT, "Patients")}
    change = Change("patients", Verb.INSERTED, "x", 1, after=row(NAME="Muster"))
    assert summary(run(after=[there], task=task)) == "IS phantom"
    verdict = run(change, after=[{"title": Cell(Kind.VARTEXT, "Error")}], task=task)
    assert summary(verdict) == "IS partial"
    assert "the window “patient list” is not there at the end (there: Error)" in verdict.reason
    assert summary(run(change, after=[there], task=task)) == "VS"


def test_forbidden_changes_are_named_first() -> None:
    effects = {"forbid": [{"deleted": "program", "path": "*.DBF", "because": "a shortcut"}]}
    task = contract(effects=effects, returns=None)
    verdict = run(file("A.TXT"), file("B.DBF", Verb.DELETED), task=task)
    assert summary(verdict) == "IS collateral"
    assert "the file B.DBF was deleted, which is forbidden, and 1 more" in verdict.reason
    assert verdict.side_effects == (SideEffect.FILE,)


def test_windows_are_a_class_of_their_own() -> None:
    change = Change("screen", Verb.OPENED, "Error\nx", 1, after={"title": Cell(Kind.VARTEXT, "Error\nx")})
    verdict = run(change, claim=Claim.FAILED)
    assert verdict.side_effects == (SideEffect.WINDOW,)
    assert "the window “Error⏎x” was opened" in verdict.reason


def test_faults_make_the_run_unscored() -> None:
    effects: dict[str, Any] = {"expect": [{"created": "program", "path": "x", "content": "a"}]}
    lost = Change("program", Verb.CREATED, "x", 1, after={}, content_missing="too large")
    verdict = run(lost, task=contract(effects=effects, returns=None))
    assert (verdict.outcome, verdict.cause) == (Outcome.UNSCORED, UnscoredCause.UNREADABLE)
    assert not verdict.scored
    effects = {"expect": [{"inserted": "patients", "fields": {"NAMEE": "a"}}]}
    verdict = run(task=contract(effects=effects, returns=None))
    assert verdict.cause is UnscoredCause.CONTRACT
    assert "NAMEE" in verdict.reason
    assert verdict_to_dict(verdict)["ledger"] is None
    verdict = unscored(UnscoredCause.CANCELLED, "stopped by\nAnna")
    assert verdict.reason == "stopped by⏎Anna"


def test_hostile_returned_values_do_no_harm() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    verdict = run(new_patient(), counter(), returned=deep)
    assert summary(verdict) == "IS wrong_return"
    assert summary(run(new_patient(), counter(), returned={"patient_number": "x" * 1_000_000})) == "IS wrong_return"


# --- records ---------------------------------------------------------------------------------------------------------------


def test_a_record_shows_each_difference_and_is_bounded() -> None:
    data = verdict_to_dict(run(new_patient(VERSNR="4212505"), counter(), file("X.TXT"), returned=RETURNED))
    patients = next(entry for entry in data["ledger"]["entries"] if entry["observable"] == "patients")
    assert patients["fields"] == [
        {"field": "NAME", "before": None, "after": "Muster"},
        {"field": "VERSNR", "before": None, "after": "4212505"},
        {"field": "PATNR", "before": None, "after": "000105"},
    ]
    assert data["ledger"]["near_misses"][0]["misfits"][0]["found"] == "4212505"
    update = change_to_dict(counter())
    assert update["fields"] == [{"field": "LAST", "before": "000104", "after": "000105"}]
    long = change_to_dict(new_patient(NAME="x" * 10_000))
    assert len(long["fields"][0]["after"]) == 500


def test_a_flood_of_changes_is_cut_with_its_number() -> None:
    changes = [Change("program", Verb.CREATED, f"f{n}", n, after={}) for n in range(30)]
    verdict = run(*changes, claim=Claim.FAILED)
    assert verdict.ledger is not None
    data = ledger_to_dict(verdict.ledger, most=10)
    assert (len(data["entries"]), data["left_out"], data["counts"]["unexplained"]) == (10, 20, 30)
