"""The DSWin suite as written: contracts, expert prompts and scripts fit together. No machine is started."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from contracts.load import LoadedContract, load_contract, read_model
from contracts.schema import DbfTable, FileTree, Windows
from prompts.render import fill, find_prompt, render
from runner.agents.scripted import Script

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / "contracts" / "catalog" / "legacyworld" / "dswin"
RECORDINGS = ROOT / "recordings" / "dswin"
TASKS = {
    "add-billing-code": True,
    "add-new-patient": True,
    "add-patient-documentation": True,
    "look-up-patient": False,
    "open-dswin": False,
    "update-patient-phone": True,
}
"""The tasks, and whether they change the state."""
TABLES = {
    "patients": r"C:\DSWIN\DATA\PATIENT.DBF",
    "counters": r"C:\DSWIN\DATA\COUNTER.DBF",
    "treatments": r"C:\DSWIN\DATA\LEISTUNG.DBF",
    "notes": r"C:\DSWIN\DATA\DOKU.DBF",
    "catalogue": r"C:\DSWIN\DATA\KATALOG.DBF",
}
KINDS = {
    "valid_failure": {"safe_stop", "gave_up"},
    "invalid_success": {"wrong_return", "collateral", "wrong_effect", "partial", "phantom"},
    "invalid_failure": {"unreported_completion", "collateral", "wrong_effect", "partial"},
}
"""Every kind of each outcome that a script can bring about; time-outs and crashes of an agent are not for scripts."""
SCRIPTS = sorted(RECORDINGS.rglob("*.yaml"))

tasks = pytest.mark.parametrize("task", TASKS)
scripts = pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(RECORDINGS)))


def _contract(task: str) -> LoadedContract:
    return load_contract(CONTRACTS / f"{task}.yaml")


def _misdeeds(task: str) -> list[Path]:
    return sorted((RECORDINGS / task / "misdeeds").glob("*.yaml"))


def _texts(value: Any) -> Iterator[str]:
    """Every text in nested data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def test_the_suite_is_complete() -> None:
    assert {path.stem for path in CONTRACTS.glob("*.yaml")} == set(TASKS)
    assert {path.name for path in RECORDINGS.iterdir() if path.is_dir()} == set(TASKS)
    assert {path.stem for path in (ROOT / "prompts" / "expert" / "dswin").glob("*.yaml")} == set(TASKS)


@tasks
def test_the_contract_is_as_the_table_says(task: str) -> None:
    loaded = _contract(task)
    assert loaded.warnings == ()
    contract = loaded.contract
    assert contract.id == f"dswin.{task}"
    assert (contract.state_changing, contract.externally_verified) == (TASKS[task], True)
    assert contract.initial_state.require
    assert contract.stages


@tasks
def test_everything_is_observed_and_nothing_ignored(task: str) -> None:
    observe = dict(_contract(task).contract.observe)
    for name, path in TABLES.items():
        table = observe.pop(name)
        assert isinstance(table, DbfTable)
        assert (table.dbf, table.encoding, bool(table.key), table.owns) == (path, "cp850", True, [])
    program, screen = observe.pop("program"), observe.pop("screen")
    assert isinstance(program, FileTree)
    assert (program.files, program.ignore) == (r"C:\DSWIN", [])
    assert isinstance(screen, Windows)
    assert screen.windows.ignore == []
    assert observe == {}


@tasks
def test_only_the_programs_own_files_are_allowed_and_with_a_reason(task: str) -> None:
    for effect in _contract(task).contract.effects.allow:
        assert effect.observable == "program"
        assert effect.path in ("DSWIN.LOG", "DSWIN.LCK")
        assert effect.because


@tasks
def test_expected_effects_speak_of_tables_where_the_task_changes_the_state(task: str) -> None:
    contract = _contract(task).contract
    of_tables = [effect.observable in TABLES for effect in contract.effects.expect]
    if contract.state_changing:
        assert of_tables
        assert all(of_tables)
    else:
        assert not any(of_tables)


@tasks
def test_the_prompt_tells_every_parameter(task: str) -> None:
    contract = _contract(task).contract
    text = render(find_prompt(contract.id, "dswin", "expert"), contract.parameter_values)
    for name, value in contract.parameter_values.items():
        assert str(value) in text, name
    assert "{{" not in text


@tasks
def test_there_is_one_good_way_and_several_bad_ones(task: str) -> None:
    golden = read_model(RECORDINGS / task / "golden.yaml", Script)
    assert (golden.contract, golden.intended.outcome) == (f"dswin.{task}", "valid_success")
    misdeeds = [read_model(path, Script) for path in _misdeeds(task)]
    assert len(misdeeds) >= 3
    assert all(script.contract == golden.contract for script in misdeeds)
    assert len({script.title for script in misdeeds}) == len(misdeeds)


@scripts
def test_the_script_can_be_played(path: Path) -> None:
    script = read_model(path, Script)
    values = _contract(script.contract.removeprefix("dswin.")).contract.parameter_values
    for step in script.steps:
        for text in _texts(step.model_dump(by_alias=True, exclude_none=True)):
            fill(text, values)  # raises if there is no such parameter
        if step.type is not None and not isinstance(step.type, str):
            date.fromisoformat(fill(step.type.date, values))
    assert [step.report is not None for step in script.steps] == [False] * (len(script.steps) - 1) + [True]


def test_the_misdeeds_cover_every_kind() -> None:
    found: dict[str, set[str | None]] = {}
    for task in TASKS:
        for path in _misdeeds(task):
            intended = read_model(path, Script).intended
            found.setdefault(intended.outcome, set()).add(intended.kind)
    assert found == KINDS
