"""Returned values that stand in files or are computed, tolerance, and content rules and final windows in whole verdicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.schema import Returns, TaskContract
from tests.validators.test_files import folder, item, spec
from validators.changes import Cell, Change, ContractFault, Kind, Row, Verb
from validators.files import TreeState, diff_trees
from validators.matchers import RunContext
from validators.returns import check_returns
from validators.snapshot import Snapshot, UnreadableState, compare
from validators.verdict import Claim, Outcome, Verdict, judge
from validators.verdict import Kind as VerdictKind
from validators.windows import WindowItem, WindowsState

STARTED = datetime(2026, 11, 29, 9)  # noqa: DTZ001
FILES = {
    r"OUT\list.csv": b"Nr;Sum\r\n1;12.50\r\n2;3.25\r\n",
    r"OUT\list.json": b'{"sum": 15.75, "rows": 2, "by": "Huber", "text": "15.75"}',
    "APP.INI": b"[Last]\nNumber=000104\n",
    "note.txt": b"\xef\xbb\xbfdone",
    "latin.txt": "größe".encode("cp1252"),
}
TREE = TreeState(True, (*(item(path, data) for path, data in FILES.items()), folder("OUT")), FILES)


class Table:
    def __init__(self, *rows: Row) -> None:
        self._rows = rows

    def before(self) -> Iterable[tuple[Row, bool]]:
        return iter(())

    def after(self) -> Iterable[tuple[Row, bool]]:
        return ((row, True) for row in self._rows)


ITEM = {"NR": Cell(Kind.TEXT, "1 "), "PRICE": Cell(Kind.NUMBER, Decimal("12.50")), "TEXT": Cell(Kind.TEXT, " 3.25 ")}
NEW = Change("items", Verb.INSERTED, "x", 1, after={**ITEM, "NAME": Cell(Kind.TEXT, "Huber")})


def run(tree: TreeState = TREE) -> RunContext:
    found = diff_trees(tree, tree, spec(), observable="disk", owned=lambda _path, _verb: False)
    assert found.files is not None
    return RunContext(
        STARTED, STARTED + timedelta(hours=1), {"count": 2}, {"new": NEW}, {"items": Table(ITEM)}, {"disk": found.files}
    )


def problems(rule: Any, value: Any, context: RunContext | None = None) -> list[str]:
    returns = Returns.model_validate({"schema": {}, "expect": {"v": rule}})
    return [problem.message for problem in check_returns(returns, {"v": value}, context or run()).problems]


def in_file(path: str, value: Any, **about: Any) -> dict[str, Any]:
    return {"file": "disk", "path": path, "value": value, **about}


# --- from files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        (in_file("*.json", {"json": "$.sum"}), 15.75, "15.75"),
        (in_file("*.json", {"json": "$.by"}), "Huber", "Hubert"),
        (in_file(r"OUT\*.csv", {"csv": {"row": {"Nr": "1"}, "column": "Sum", "delimiter": ";"}}), "12.50", 12.5),
        (in_file("*.csv", {"csv": {"row": 1, "column": 2, "delimiter": ";"}}, **{"as": "number"}), 12.5, "12.50"),
        (in_file("app.ini", {"ini": "last/number"}), "000104", 104),
        (in_file("app.ini", "size"), 21, 20),
        (in_file("note.*", "text"), "done", "done "),
        (in_file(r"OUT\*.csv", "name"), "list.csv", "LIST.CSV"),
        (in_file("note.txt", "sha256"), item("x", FILES["note.txt"]).sha256, "0"),
    ],
)
def test_values_from_files(rule: Any, right: Any, wrong: Any) -> None:
    assert problems(rule, right) == []
    assert len(problems(rule, wrong)) == 1


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (in_file("*.xml", "text"), "no file fits *.xml in disk"),
        (in_file("*.txt", "text"), "several files fit *.txt in disk"),
        (in_file("OUT", "name"), "no file fits"),
        (in_file("*.json", {"json": "$.x"}), "$ has no key “x”"),
        (in_file("*.json", {"json": "$.by"}, **{"as": "number"}), "holds no number there, but Huber"),
        (in_file("latin.txt", "text"), "declare its `encoding`"),
    ],
)
def test_a_value_that_no_file_holds_makes_nothing_right(rule: Any, why: str) -> None:
    for value in (None, "", 0, "x"):
        (message,) = problems(rule, value)
        assert "cannot be right" in message
        assert why in message


def test_a_tree_that_nobody_read_is_a_fault() -> None:
    with pytest.raises(ContractFault, match="`disk` has no files"):
        problems(in_file("x", "text"), "x", replace(run(), files={}))


# --- computed ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        ({"sum": [{"field": "new.PRICE"}, {"field": "new.TEXT"}]}, Decimal("15.75"), 15.76),
        ({"difference": [{"row": "items", "where": {"NR": "1"}, "field": "PRICE"}, 2, Decimal("0.5")]}, 10, "10"),
        ({"product": [{"returned": "count"}, Decimal("1.5")]}, 3, 3.1),
        ({"sum": [in_file("*.json", {"json": "$.sum"}), {"product": [2, 3]}]}, Decimal("21.75"), 21),
        ({"product": [Decimal("0.19"), Decimal("12.50")], "decimals": 2}, 2.38, 2.375),
        ({"product": [Decimal("-0.19"), Decimal("12.50")], "decimals": 2}, -2.38, -2.37),
        ({"sum": [Decimal("0.1"), Decimal("0.2")]}, 0.3, 0.30000000000000004),
        ({"sum": [10], "tolerance": Decimal("0.5")}, 10.5, 10.51),
    ],
)
def test_computed_values(rule: Any, right: Any, wrong: Any) -> None:
    assert problems(rule, right) == []
    assert len(problems(rule, wrong)) == 1


def test_a_difference_is_told_with_its_terms() -> None:
    (message,) = problems({"sum": [{"field": "new.PRICE"}, {"product": [2, 3]}]}, 1)
    assert message == "the returned v is 1 instead of 18.50 (PRICE of new + (2 × 3))"


@pytest.mark.parametrize(
    ("term", "why"),
    [
        ({"field": "new.NAME"}, "Huber (NAME of new) is no number"),
        ({"returned": "nothing"}, "nothing was not returned"),
        ({"row": "items", "where": {"NR": "9"}, "field": "PRICE"}, "no row in items fits"),
        (in_file("*.txt", "size"), "several files fit"),
    ],
)
def test_a_term_without_a_number_makes_nothing_right(term: Any, why: str) -> None:
    (message,) = problems({"sum": [1, term]}, 1)
    assert why in message


def test_numbers_without_end_are_bounded() -> None:
    huge = Decimal("9e399")
    rule: Any = {"product": [huge] * 3}
    (message,) = problems(rule, 1)
    assert "digits" in message
    assert problems({"sum": [Decimal("1e400"), Decimal("1e-400")]}, 1)


@given(st.lists(st.decimals(-(10**9), 10**9, places=3), min_size=1, max_size=8))
def test_sums_are_exact(numbers: list[Decimal]) -> None:
    assert problems({"sum": numbers}, sum(numbers)) == []
    assert len(problems({"sum": numbers}, sum(numbers) + Decimal("0.001"))) == 1


def test_tolerance_by_a_matcher() -> None:
    assert problems({"number": Decimal("12.5"), "tolerance": Decimal("0.1")}, 12.6) == []
    assert len(problems({"number": Decimal("12.5"), "tolerance": Decimal("0.1")}, "12.5")) == 1
    assert problems({"number": 200, "relative": Decimal("0.01")}, 202) == []
    assert problems({"text": "Huber Karl", "normalise": ["whitespace", "case"]}, " huber\nKARL") == []


# --- whole verdicts ---------------------------------------------------------------------------------------------------


def contract(effects: Any, returns: Any = None) -> TaskContract:
    about = {
        "schema": 1, "id": "a.b", "title": "t", "application": "a", "domain": "d", "state_changing": True, "image": "i",
        "instruction": "do", "initial_state": {"summary": "s"}, "goal_state": {"summary": "g"},
        "observe": {"disk": {"files": r"C:\D"}, "screen": {"windows": {}}}, "effects": effects,
    }  # fmt: skip
    return TaskContract.model_validate(about | ({"returns": returns} if returns else {}))


def verdict(task: TaskContract, before: Snapshot, after: Snapshot, returned: Any = None) -> Verdict:
    return judge(
        task, compare(task.observe, before, after), Claim.SUCCESS, returned, started=STARTED,
        ended=STARTED + timedelta(hours=1),
    )  # fmt: skip


VIEWER = WindowItem(1, 100, "VIEW.EXE", "Viewer", "Viewer")


def state(*windows: WindowItem, **files: bytes) -> dict[str, Any]:
    contents = {name.replace("_", "."): data for name, data in files.items()}
    tree = TreeState(True, tuple(item(name, data) for name, data in contents.items()), contents)
    return {"disk": tree, "screen": WindowsState(windows)}


EXPORT = {
    "expect": [
        {
            "created": "disk", "name": "export", "path": "x.json",
            "content": [{"json": "$.sum", "is": 3}, {"size": {"between": [1, 100]}}, {"json": "$.by", "is": "Huber"}],
        }
    ]
}  # fmt: skip


def test_every_rule_of_a_list_must_hold_and_what_misfits_is_a_near_miss() -> None:
    task = contract(EXPORT)
    good = verdict(task, state(), state(x_json=b'{"sum": 3, "by": "Huber"}'))
    assert good.outcome is Outcome.VALID_SUCCESS
    bad = verdict(task, state(), state(x_json=b'{"sum": 4, "by": "Huber"}'))
    assert (bad.outcome, bad.kind) == (Outcome.INVALID_SUCCESS, VerdictKind.WRONG_EFFECT)
    assert "content is $.sum: 4 instead of $.sum: 3" in bad.reason
    assert bad.ledger is not None
    (near,) = bad.ledger.near_misses
    assert [(misfit.field, misfit.expected, misfit.found) for misfit in near.misfits] == [
        ("content", "$.sum: 3", "$.sum: 4")
    ]
    broken = verdict(task, state(), state(x_json=b"no json"))
    assert (broken.outcome, broken.kind) == (Outcome.INVALID_SUCCESS, VerdictKind.WRONG_EFFECT)
    assert "no JSON" in broken.reason


def test_a_folder_in_place_of_the_file_is_no_reading_fault() -> None:
    made: Snapshot = {"disk": TreeState(True, (folder("x.json"),)), "screen": WindowsState()}
    found = verdict(contract(EXPORT), state(), made)
    assert (found.outcome, found.kind) == (Outcome.INVALID_SUCCESS, VerdictKind.WRONG_EFFECT)
    assert "a folder" in found.reason


def test_an_empty_file_is_a_half_finished_one() -> None:
    found = verdict(contract(EXPORT), state(), state(x_json=b""))
    assert found.kind is VerdictKind.PARTIAL


def test_a_returned_value_is_compared_with_the_file_that_was_made() -> None:
    returns = {"schema": {"type": "object"}, "expect": {"sum": in_file("x.json", {"json": "sum"})}}
    task = contract(EXPORT, returns)
    after = state(x_json=b'{"sum": 3, "by": "Huber"}')
    assert verdict(task, state(), after, {"sum": 3}).outcome is Outcome.VALID_SUCCESS
    wrong = verdict(task, state(), after, {"sum": 4})
    assert wrong.kind is VerdictKind.WRONG_RETURN
    assert "4 instead of 3" in wrong.reason


OPEN = {"expect": [{"present": "screen", "name": "viewer", "where": {"title": "Viewer"}, "fields": {"hung": False}}]}


def test_a_window_that_must_be_there_and_answer() -> None:
    task = contract(OPEN)
    there = state(VIEWER)
    assert verdict(task, there, there).outcome is Outcome.VALID_SUCCESS
    hung = state(replace(VIEWER, hung=True))
    found = verdict(task, there, hung)
    assert found.outcome is Outcome.INVALID_SUCCESS
    assert "viewer" in found.reason
    warnings = [text for one in compare(task.observe, there, hung) for text in one.warnings]
    assert warnings == ["the window “Viewer” does not answer"]
    gone = verdict(task, there, state())
    assert gone.outcome is Outcome.INVALID_SUCCESS


def test_a_dialog_left_open_is_told_and_can_be_asked_for() -> None:
    dialog = WindowItem(2, 100, "VIEW.EXE", "#32770", "Save?", waiting=True)
    task = contract({"expect": [*OPEN["expect"], {"absent": "screen", "where": {"waiting": True}}]})
    before, after = state(VIEWER), state(VIEWER, dialog)
    assert verdict(task, before, before).outcome is Outcome.VALID_SUCCESS
    found = verdict(task, before, after)
    assert found.outcome is Outcome.INVALID_SUCCESS
    assert "Save?" in found.reason
    assert found.ledger is not None
    assert [entry.change.how for entry in found.ledger.entries] == ["a dialog that waits for an answer"]
    both = [text for one in compare(task.observe, after, after) for text in one.warnings]
    assert both == ["the dialog “Save?” waits for an answer, as before the run"]


def test_windows_that_the_probe_did_not_see_are_unreadable_not_closed() -> None:
    task = contract(OPEN)
    unseen = state() | {"screen": UnreadableState("the probe ran in session 0")}
    with pytest.raises(Exception, match="session 0"):
        verdict(task, state(VIEWER), unseen)
