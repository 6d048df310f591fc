r"""The registry of the embedded machine, live: values as ``reg`` writes them, views, and a whole run judged by its changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest

from contracts.schema import RegistryKey
from runner import capture
from runner.agents.base import AgentReport, AgentTask
from runner.guests.base import Guest
from runner.machines.base import Tag
from runner.machines.wine import WineCheckpoint, WineMachine
from runner.record import RunRecord
from tests.faults.helpers import run_agent
from tests.faults.test_unreadable_state import Watched
from validators.changes import CellState
from validators.registry import RegistryState, ValueItem
from validators.snapshot import compare

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]
REG = r"C:\windows\system32\reg.exe"


def reg(guest: Guest, *words: str) -> None:
    done = guest.run([REG, *words], timeout=60)
    assert done.status == 0, done


@pytest.fixture(scope="module")
def machine(checkpoint: WineCheckpoint) -> Iterator[WineMachine]:
    made = checkpoint.clone(Tag("tests", "registry"))
    yield made
    made.discard()


def observed(key: str, **about: Any) -> dict[str, RegistryKey]:
    return {"key": RegistryKey.model_validate({"registry": key, **about})}


def state(machine: WineMachine, key: str, **about: Any) -> RegistryState:
    found = capture.take(machine.guest, observed(key, **about))["key"]
    assert isinstance(found, RegistryState), found
    return found


def test_values_of_every_type(machine: WineMachine) -> None:
    before = state(machine, r"HKCU\Software\LP Live")
    assert before == RegistryState(exists=False)
    wanted = {
        ("", "", 1, "Standard\0".encode("utf-16-le")),
        ("", "text", 1, "Grüße €\0".encode("utf-16-le")),
        ("", "expand", 2, "%TEMP%\\x\0".encode("utf-16-le")),
        ("", "binary", 3, b"\xaa\xbb\xcc"),
        ("", "dword", 4, b"\x01\x02\x03\x04"),
        ("", "big", 5, b"\x01\x02\x03\x04"),
        ("", "multi", 7, "a\0b\0\0".encode("utf-16-le")),
        ("", "qword", 11, bytes(range(8))),
        ("", "none", 0, b"\x01"),
        ("", "rest", 1, "a\0b\0".encode("utf-16-le")),
        ("", "broken", 1, b"\x00\xd8\0\0"),
        ("", "own", 0x1234, b"xyz"),
        ("Unter Schlüssel\\tief", "ß \\ /", 3, b"x"),
    }
    lines = ["Windows Registry Editor Version 5.00", ""]
    for key, name, kind, data in sorted(wanted):
        quoted = '"' + name.replace("\\", "\\\\") + '"' if name else "@"
        lines += ["[" + "\\".join(filter(None, [r"HKEY_CURRENT_USER\Software\LP Live", key])) + "]"]
        lines += [f"{quoted}=hex({kind:x}):" + ",".join(f"{byte:02x}" for byte in data)]
    machine.guest.write(PureWindowsPath(r"C:\lp-live.reg"), "\r\n".join([*lines, ""]).encode("utf-16"))
    reg(machine.guest, "import", r"C:\lp-live.reg")
    after = state(machine, r"HKEY_CURRENT_USER\Software\LP Live")
    assert set(after.values) == {ValueItem(*value) for value in wanted}
    assert [key.path for key in after.keys] == ["", "Unter Schlüssel", "Unter Schlüssel\\tief"]
    (found,) = compare(observed(r"HKCU\Software\LP Live"), {"key": before}, {"key": after})
    assert len(found.changes) == len(wanted) + 3
    assert {change.verb.value for change in found.changes} == {"created"}
    (broken,) = [change.after for change in found.changes if change.subject == "@broken"]
    assert broken is not None
    assert broken["data"].state is CellState.UNDECODABLE
    (rest,) = [change.after for change in found.changes if change.subject == "@rest"]
    assert rest is not None
    assert (rest["data"].value, rest["data"].raw) == ("a", "a\0b\0".encode("utf-16-le"))
    subjects = [change.subject for change in found.changes]
    assert subjects[0] == r"HKCU\Software\LP Live"
    assert subjects[-1] == "Unter Schlüssel\\tief\\@ß ⧵ ∕"


def test_views(machine: WineMachine) -> None:
    reg(machine.guest, "add", r"HKLM\Software\LP View", "/v", "x", "/d", "64", "/reg:64")
    reg(machine.guest, "add", r"HKLM\Software\Wow6432Node\LP View", "/v", "x", "/d", "32", "/reg:64")
    for view, text in ((64, "64"), (32, "32"), (None, "64")):
        (value,) = state(machine, r"HKLM\Software\LP View", view=view).values
        assert value.data == f"{text}\0".encode("utf-16-le")


def test_performance_counters_are_left_out_with_a_note(machine: WineMachine) -> None:
    key = r"HKLM\Software\Microsoft\Windows NT\CurrentVersion"
    both = state(machine, key)
    (found,) = compare(observed(key), {"key": both}, {"key": both})
    assert [note.kind for note in found.notes] == ["skipped"]
    assert "Perflib" in found.notes[0].text


# --- a whole run ----------------------------------------------------------------------------------------------------------

SETTINGS = r"HKCU\Software\DSWin"


def settings_task(text: str) -> str:
    """The New Patient contract turned into one whose goal is a setting in the registry."""
    head, _, rest = text.partition("effects:\n")
    _, _, stages = rest.partition("stages:\n")
    effect = (
        "effects:\n  expect:\n"
        "    - modified: settings\n      path: 'Window\\@Left'\n      fields: {data: '100'}\n"
        "  allow:\n    - modified: program\n      path: 'DSWIN.LOG'\n      because: the program's own log\n"
        "stages:\n"
    )
    add = rf"{{run: ['{REG}', add, '{SETTINGS}\Window', /v, Left, /d, '20', /f]}}"
    head = head.replace("  start: [dswin]\n", f"  setup: [{add}]\n  start: [dswin]\n")
    return head.replace("observe:\n", f"observe:\n  settings: {{registry: '{SETTINGS}'}}\n") + effect + stages


def run(folder: Path, *commands: tuple[str, ...]) -> RunRecord:
    provider = Watched()

    def work(task: AgentTask) -> AgentReport:
        for command in commands:
            reg(provider.guest, *command)
        return AgentReport("success")

    record, campaign = run_agent(work, folder, provider=provider, change=settings_task)
    assert record.after is not None
    assert isinstance(campaign.snapshot(record.after)["settings"], RegistryState)
    return record


LEFT = ("add", rf"{SETTINGS}\Window", "/v", "Left", "/d", "100", "/f")


def test_the_expected_setting_is_a_valid_success(tmp_path: Path) -> None:
    record = run(tmp_path, LEFT)
    assert record.verdict.outcome == "valid_success", record.verdict
    (entry,) = [entry for entry in record.verdict.ledger if entry.observable == "settings"]
    assert (entry.status, entry.subject) == ("expected", r"Window\@Left")
    assert [(f.field, f.before, f.after) for f in entry.fields] == [("data", "20", "100")]


@pytest.mark.parametrize(
    ("commands", "kind", "words"),
    [
        ([LEFT, ("add", rf"{SETTINGS}\Window", "/v", "Top", "/d", "1", "/f")], "collateral", r"registry value Window\@Top was created"),
        ([LEFT, ("add", rf"{SETTINGS}\New", "/f")], "collateral", "registry key New was created"),
        ([(*LEFT[:5], "7", "/f")], "wrong_effect", "Left"),
        ([("delete", rf"{SETTINGS}\Window", "/f")], "wrong_effect", ""),
        ([], "phantom", ""),
    ],
)  # fmt: skip
def test_anything_else_is_an_invalid_success(
    tmp_path: Path, commands: list[tuple[str, ...]], kind: str, words: str
) -> None:
    record = run(tmp_path, *commands)
    assert (record.verdict.outcome, record.verdict.kind) == ("invalid_success", kind), record.verdict.reason
    assert words in record.verdict.reason
    assert ("registry" in record.verdict.side_effects) == (kind != "phantom")
