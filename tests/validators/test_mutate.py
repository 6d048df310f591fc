"""Bad states made from good runs: each is really another state, readable, and rejected; loosened contracts show where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from contracts.load import load_text
from tests.validators.mutate_runs import ENDED, STARTED, TASKS, golden, with_fields
from validators.dbf import TableState
from validators.files import FileItem, TreeState
from validators.mutate import Flaw, Golden, NotGolden, assess, mutants
from validators.registry import DWORD, SZ, KeyItem, RegistryState, ValueItem
from validators.snapshot import State, compare
from validators.sql.form import Form
from validators.sql.table import Column, Key, SqlState
from validators.verdict import Outcome
from validators.windows import WindowItem, WindowsState

Change = Callable[[str], str]


def replaced(old: str, new: str) -> Change:
    def change(text: str) -> str:
        assert text.count(old) == 1, text
        return text.replace(old, new)

    return change


def holes(task: str, change: Change) -> set[str]:
    """What is named as a hole when a contract is changed."""
    return {survivor.mutant.hole for survivor in assess(golden(task, change)).survivors}


# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_every_bad_state_is_rejected(task: str) -> None:
    found = assess(golden(task))
    assert [survivor.mutant.description for survivor in found.survivors] == []
    assert found.rejected == found.total >= 40
    assert found.sound


@pytest.mark.parametrize("task", TASKS)
def test_an_idle_agent_is_judged_by_what_it_says(task: str) -> None:
    found = assess(golden(task))
    assert found.idle_success.outcome is Outcome.INVALID_SUCCESS
    assert found.idle_failure.outcome is Outcome.VALID_FAILURE


@pytest.mark.parametrize("task", TASKS)
def test_each_mutant_is_readable_and_another_state(task: str) -> None:
    run = golden(task)
    for mutant in mutants(run):
        found = compare(run.contract.observe, run.after, mutant.after)
        assert any(comparison.changes for comparison in found) or mutant.returned != run.returned, mutant.description


def test_every_kind_of_bad_state_is_made() -> None:
    made: set[Flaw] = set()
    for task in TASKS:
        made |= {mutant.flaw for mutant in mutants(golden(task))}
    made |= {mutant.flaw for mutant in mutants(_small())}
    assert made == set(Flaw)


def test_mutants_are_the_same_each_time_and_each_once() -> None:
    first, second = ([(m.flaw, m.description) for m in mutants(golden("add-billing-code"))] for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first)


def test_the_state_of_the_run_itself_is_not_touched() -> None:
    run, again = golden("add-patient-documentation"), golden("add-patient-documentation")
    assert len(list(mutants(run))) > 50
    assert (run.before, run.after) == (again.before, again.after)


def test_a_table_that_changes_is_another_file_in_the_tree_as_well() -> None:
    run = golden("add-new-patient")
    for mutant in mutants(run):
        tree = mutant.after["program"]
        assert isinstance(tree, TreeState)
        hashes = {item.path: item.sha256 for item in tree.items}
        was = {item.path: item.sha256 for item in _tree(run.after["program"]).items}
        changed = mutant.after["patients"] != run.after["patients"]
        assert (hashes.get("DATA\\PATIENT.DBF") != was["DATA\\PATIENT.DBF"]) == changed, mutant.description


def _tree(state: State) -> TreeState:
    assert isinstance(state, TreeState)
    return state


# --- contracts with a hole --------------------------------------------------------------------------------------------


def test_a_loosened_star_is_named_with_its_fields() -> None:
    change = replaced('"*": {is: empty}', '"*": {is: any, because: the rest does not matter}')
    found = assess(golden("add-new-patient", change))
    named = {s.mutant.hole for s in found.survivors}
    assert named == {
        f'`"*"` of `inserted patients (new_patient)` lets {field} be anything'
        for field in ("GESCHLECHT", "STRASSE", "PLZ", "ORT", "TELEFON", "BEMERK", "SALDO", "GEAENDERT")
    }
    assert all('`"*": {is: empty}`' in s.mutant.advice for s in found.survivors)


def test_a_loosened_star_of_an_update_is_named() -> None:
    change = replaced('"*": {is: unchanged}', '"*": {is: any, because: the rest does not matter}')
    named = holes("update-patient-phone", change)
    assert '`"*"` of `updated patients` lets STRASSE be anything' in named
    assert all(hole.startswith(('`"*"` of `updated patients`', "`updated patients` selects by")) for hole in named)


def test_a_key_left_out_of_where_is_named_with_what_to_add() -> None:
    change = replaced('where: {PATNR: "{{patient_number}}"}\n      fields: {SALDO', "fields: {SALDO")
    found = assess(golden("add-billing-code", change))
    assert {s.mutant.flaw for s in found.survivors} == {Flaw.WRONG_KEY}
    assert {s.mutant.hole for s in found.survivors} == {
        "`where` of `updated patients` fits other rows than the right one"
    }
    assert all("{PATNR: 000042}" in s.mutant.advice for s in found.survivors)


def test_the_other_patient_of_that_name_is_tried() -> None:
    change = replaced(', GEBDAT: "{{birth_date}}"}\n      fields', "}\n      fields")
    found = assess(golden("update-patient-phone", change))
    assert [s.mutant.description for s in found.survivors if s.mutant.flaw is Flaw.WRONG_KEY] == [
        "patients: PATNR=000012 was changed instead of PATNR=000058"
    ]


@pytest.mark.parametrize(("key", "rule"), [("LNR", "{regex: '\\d+'}"), ("LNR", "{generated: unique}")])
def test_a_key_that_may_be_any_number_is_named(key: str, rule: str) -> None:
    named = holes("add-billing-code", replaced(f"{key}: {{generated: next}}", f"{key}: {rule}"))
    assert f"the rule of `inserted treatments (treatment)` for {key} accepts another key" in named


@pytest.mark.parametrize(
    ("task", "observable", "hole"),
    [
        ("add-new-patient", "screen", "screen is not observed: windows may be left open"),
        ("look-up-patient", "screen", "screen is not observed: windows may be left open"),
    ],
)
def test_windows_that_are_not_observed_are_named(task: str, observable: str, hole: str) -> None:
    assert holes(task, _without(observable)) == {hole}


def test_files_that_are_not_observed_are_named() -> None:
    change = _without("program")
    allow = "  allow:\n    - modified: program\n      path: 'DSWIN.LOG'\n      because: the program's own log\n"
    named = holes("add-new-patient", lambda text: replaced(allow, "")(change(text)))
    assert named == {"program is not observed: files there may come, change and go"}


def test_a_table_that_is_not_observed_is_still_a_file() -> None:
    assert holes("add-new-patient", _without("notes")) == set()  # the tree of the program sees its file change


def test_a_table_that_nobody_observes_is_named() -> None:
    allow = "  allow:\n    - modified: program\n      path: 'DSWIN.LOG'\n      because: the program's own log\n"
    named = holes("add-new-patient", lambda text: replaced(allow, "")(_without("program")(_without("notes")(text))))
    assert "notes is not observed: what happens to its rows is not seen" in named


def test_what_was_never_recorded_is_named_too() -> None:
    run = golden("add-new-patient", _without("screen"))
    less = {name: state for name, state in run.after.items() if name != "screen"}
    found = assess(replace(run, after=less))
    assert {s.mutant.hole for s in found.survivors} == {"no windows are observed: dialogs may be left open"}


def _without(observable: str) -> Change:
    """Takes an observable and what is required of it out of a contract."""

    def change(text: str) -> str:
        lines = [
            line
            for line in text.splitlines(keepends=True)
            if not line.startswith(f"  {observable}: ") and f"rows: {observable}," not in line
            and f"windows: {observable}," not in line
        ]  # fmt: skip
        return "".join(lines)

    return change


def test_an_effect_that_need_not_happen_is_named() -> None:
    change = replaced("- updated: counters\n", "- updated: counters\n      count: {min: 0}\n")
    named = holes("add-new-patient", change)
    assert "`updated counters` is not needed for success" in named


def test_a_returned_value_that_nobody_checks_is_named() -> None:
    rule = 'telephone: {row: patients, where: {NAME: "{{last_name}}", VORNAME: "{{first_name}}"}, field: TELEFON}\n'
    named = holes("look-up-patient", replaced(f"    {rule}", ""))
    assert named == {"nothing says what the returned telephone must be"}


def test_success_without_any_effect_is_a_fault() -> None:
    run = golden("look-up-patient", replaced("state_changing: false", "state_changing: true"))
    found = assess(replace(run, contract=run.contract.model_copy(update={"returns": None})))
    assert not found.sound
    assert "does nothing and reports success gets VS instead of IS" in found.faults[0]


# --- decisions --------------------------------------------------------------------------------------------------------


def test_what_is_allowed_is_no_hole_but_is_listed() -> None:
    found = assess(golden("add-new-patient"))
    assert [(d.rule, d.because, d.mutants) for d in found.decided] == [
        ("allowed: modified program", "the program's own log", 1)
    ]


def test_what_is_ignored_is_no_hole_but_is_listed() -> None:
    ignore = "{files: 'C:\\DSWIN', ignore: [{path: 'DSWIN.INI', because: a matter of taste}]}"
    found = assess(golden("look-up-patient", replaced("{files: 'C:\\DSWIN'}", ignore)))
    assert found.sound
    assert ("ignored in program", "a matter of taste", 3) in [(d.rule, d.because, d.mutants) for d in found.decided]


def test_a_named_field_of_any_value_is_a_decision() -> None:
    any_value = "STATUS: {is: any, because: the practice sets it later}"
    found = assess(golden("add-billing-code", replaced("STATUS: O", any_value)))
    assert found.sound
    rule = "any value: STATUS of inserted treatments (treatment)"
    assert (rule, "the practice sets it later", 2) in [(d.rule, d.because, d.mutants) for d in found.decided]


def test_what_is_allowed_does_not_excuse_what_is_not() -> None:
    """A row that another effect lets change does not make a decision of a field that is not looked at."""
    any_value = "fields: {'*': {is: any, because: not ours}}"
    allow = f"  allow:\n    - updated: catalogue\n      {any_value}\n      because: prices are kept elsewhere\n"
    found = assess(golden("add-new-patient", replaced("  allow:\n", allow)))
    assert found.sound
    assert ("allowed: updated catalogue", "prices are kept elsewhere", 1) in [
        (d.rule, d.because, d.mutants) for d in found.decided
    ]


# --- runs that are not good -------------------------------------------------------------------------------------------


def test_a_run_that_the_contract_rejects_is_refused() -> None:
    run = golden("add-new-patient")
    patients = with_fields(run.after["patients"], "patients", 104, {"VERSNR": "9"})
    with pytest.raises(NotGolden, match="VERSNR is 9 instead of 1234567890"):
        assess(replace(run, after={**run.after, "patients": patients}))


def test_a_state_that_cannot_be_read_is_refused() -> None:
    run = golden("add-new-patient")
    cut = TableState(b"\x03", None, None, "PATIENT.DBF")
    with pytest.raises(NotGolden, match="cannot be judged"):
        assess(replace(run, after={**run.after, "patients": cut}))


# --- kinds of observables that the suite has not ----------------------------------------------------------------------

SMALL = """\
schema: 1
id: small.task
title: Everything at once
application: none
domain: test
state_changing: true
image: none
instruction: do it
initial_state: {summary: as it is}
goal_state: {summary: done}
observe:
  settings: {registry: 'HKCU\\Software\\Small'}
  visits: {sql: practice, table: visits, key: [id]}
  folder: {files: 'C:\\SMALL'}
  screen: {windows: {}}
effects:
  expect:
    - modified: settings
      path: '@Size'
      fields: {data: 5}
    - created: settings
      path: 'User\\@Name'
      fields: {type: REG_SZ, data: Huber}
    - inserted: visits
      name: visit
      fields: {id: {generated: next}, patient: Huber, done: true, day: '2026-11-29', fee: 12.50, note: erste Zeile}
    - updated: visits
      where: {id: 2}
      fields: {patient: Meier}
    - created: folder
      path: 'OUT.TXT'
      content: Befund
    - deleted: folder
      path: 'OLD.TXT'
    - opened: screen
      where: {title: Befund}
      fields: {class: Edit, program: A.EXE, hung: false, waiting: false}
    - closed: screen
      where: {title: Start}
"""


def _text(value: str) -> bytes:
    return value.encode("utf-16-le") + b"\0\0"


def _visits(*lines: bytes) -> SqlState:
    columns = (
        Column("id", "integer", False, Form.NUMBER), Column("patient", "text", False, Form.TEXT),
        Column("done", "boolean", True, Form.BOOL), Column("day", "date", True, Form.DATE),
        Column("fee", "numeric(10,2)", True, Form.NUMBER), Column("note", "text", True, Form.TEXT),
    )  # fmt: skip
    rows = b"".join(line + b"\n" for line in lines)
    return SqlState("visits", True, columns, (Key(("id",), "primary key"),), ("id",), rows, len(lines), "test")


def _small(change: Change = lambda text: text) -> Golden:
    old = FileItem("OLD.TXT", "file", 3, 1, 0x20, "0" * 64)
    new = FileItem("OUT.TXT", "file", 6, 2, 0x20, "1" * 64)
    other = FileItem("KEPT.TXT", "file", 4, 2, 0x20, "2" * 64)
    start, keep, result = (
        WindowItem(2, 1, "A.EXE", "Main", "Start"), WindowItem(4, 2, "B.EXE", "Main", "Andere"),
        WindowItem(6, 1, "A.EXE", "Edit", "Befund"),
    )  # fmt: skip
    size = ValueItem("", "Size", DWORD, b"\4\0\0\0")
    colour, name = ValueItem("", "Colour", SZ, _text("blau")), ValueItem("User", "Name", SZ, _text("Huber"))
    keys = (KeyItem(""), KeyItem("User"))
    one, two = b"1\tAlt\tt\t2026-01-01\t1.00\t\\N", b"2\tMaier\tf\t2026-01-02\t2.00\tzwei"
    three = b"3\tHuber\tt\t2026-11-29\t12.50\terste Zeile"
    before: dict[str, State] = {
        "settings": RegistryState(True, keys, (size, colour)), "visits": _visits(one, two),
        "folder": TreeState(True, (old, other), {}, {}), "screen": WindowsState((start, keep)),
    }  # fmt: skip
    after: dict[str, State] = {
        "settings": RegistryState(True, keys, (replace(size, data=b"\5\0\0\0"), colour, name)),
        "visits": _visits(one, two.replace(b"Maier", b"Meier"), three),
        "folder": TreeState(True, (other, new), {"OUT.TXT": b"Befund"}, {}), "screen": WindowsState((result, keep)),
    }  # fmt: skip
    return Golden(load_text(change(SMALL), name="small").contract, before, after, None, STARTED, ENDED)


def test_registry_sql_files_and_windows_have_mutants_too() -> None:
    found = assess(_small())
    assert [(s.mutant.description, s.verdict.reason) for s in found.survivors] == []
    assert found.total > 70
    for flaw in (
        Flaw.REGISTRY,
        Flaw.REGISTRY_WRONG,
        Flaw.FILE_WRONG,
        Flaw.WINDOW_WRONG,
        Flaw.ROW_TWICE,
        Flaw.WRONG_KEY,
    ):
        assert found.made[flaw] >= 2, flaw


@pytest.mark.parametrize(
    ("old", "new", "hole"),
    [
        ("      fields: {data: 5}\n", "", "`modified settings` says too little about what @Size holds"),
        ("      content: Befund\n", "", "`created folder` says too little about what OUT.TXT holds"),
        (", program: A.EXE", "", None),
        (
            "fee: 12.50, ",
            "fee: {between: [10, 20]}, ",
            "the rule of `inserted visits (visit)` for fee accepts other values",
        ),
        ("path: 'OUT.TXT'", "path: '*.TXT'", "`path` of `created folder` fits other names"),
        ("{title: Befund}", "{class: Edit}", "`opened screen` accepts windows with another title"),
    ],
)
def test_their_holes_are_named(old: str, new: str, hole: str | None) -> None:
    found = {s.mutant.hole for s in assess(_small(replaced(old, new))).survivors}
    assert found == ({hole} if hole else set())


def test_mutants_of_returned_values_keep_to_json() -> None:
    run = golden("look-up-patient")
    values: Any = {"a": 1, "b": 2.5, "c": True, "d": None, "e": [1], "f": "2026-03-01", "g": "", "h": "0042"}
    found = [m.returned for m in mutants(replace(run, returned=values)) if m.flaw is Flaw.RETURN_WRONG]
    assert {**values, "f": "2026-02-28"} in found
    assert {**values, "h": 42} in found
    assert {**values, "c": False} in found
    assert None in found
    assert all(other != values for other in found)
