"""A whole run on a real virtual machine: agent by VNC through the flight recorder, state live and from the disk, the disk audited."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest

from contracts.load import load_contract
from contracts.schema import Read
from runner.agents.base import AgentReport, AgentTask, PlannedAgent, plan
from runner.lifecycle import Learnt, run_once
from runner.machines.base import Tag
from runner.machines.libvirt import LibvirtCheckpoint, LibvirtMachine, LibvirtProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign
from tests.command_line import ROOT
from tests.faults.helpers import Acting
from tests.peers.regf import Key, write

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900), pytest.mark.usefixtures("vm_checkpoint")]
CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml"
GOLDEN = ROOT / "recordings/dswin/add-new-patient/golden.yaml"
ELSEWHERE = PureWindowsPath(r"C:\Export\Patienten für Ärzte.csv")
CONFIG = PureWindowsPath(r"C:\Windows\System32\config")
HIVES = {
    CONFIG / "SYSTEM": write(Key("r", (), [Key("Select", [("Current", 4, b"\1\0\0\0")]), Key("ControlSet001")])),
    CONFIG / "SOFTWARE": write(Key("r", (), [Key("Verlag", [("Pfad", 1, "C:\\Praxis\0".encode("utf-16-le"))])])),
}
"""Registry files as Windows has them, which this machine's Wine does not look at: they show the way from a disk to changed keys."""


class Watched(LibvirtProvider):
    """Gives the test the machine that a run is made on."""

    machine: LibvirtMachine

    def prepare(self, *args: Any, **named: Any) -> LibvirtCheckpoint:
        made = super().prepare(*args, **named)
        clone = made.clone

        def watched(tag: Tag) -> LibvirtMachine:
            self.machine = clone(tag)
            return self.machine

        made.clone = watched  # type: ignore[method-assign]
        return made


def run(folder: Path, read: Read, act: Callable[[Watched, AgentTask], AgentReport]) -> RunRecord:
    provider = Watched()
    agent = PlannedAgent("acting", Acting(lambda task: act(provider, task)))
    return run_once(
        RunPlan(load_contract(CONTRACT), agent, "instruction", on_image="debian-wine", read=read),
        Campaign.create(folder, read),
        provider,
        learnt=Learnt(),
        cancelled=threading.Event(),
        progress=lambda _: None,
    )


def by_script(task: AgentTask) -> AgentReport:
    (golden,) = plan(f"scripted:{GOLDEN}")
    return golden.agent.run(task)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRecord]:
    """The same task done twice: its state read live, while a file is written where the contract does not look; and from the disk."""

    def beside(provider: Watched, task: AgentTask) -> AgentReport:
        for path, data in {ELSEWHERE: b"Muster;Erika\r\n", **HIVES}.items():
            provider.machine.guest.write(path, data, timeout=120)
        return by_script(task)

    folder = tmp_path_factory.mktemp("runs")
    return {"live": run(folder, "live", beside), "disk": run(folder, "disk", lambda _, task: by_script(task))}


@pytest.mark.parametrize("read", ["live", "disk"])
def test_the_new_patient_is_a_valid_success(records: dict[str, RunRecord], read: str) -> None:
    record = records[read]
    assert record.verdict.outcome == "valid_success", record.verdict.reason
    assert (record.image, record.provider) == ("debian-wine", "libvirt")
    assert record.faults == []
    assert record.freshness is not None
    assert record.recording.keys > 40
    assert any("emulated" in note for note in record.machine_notes)


def test_live_and_from_the_disk_the_changes_are_the_same(records: dict[str, RunRecord]) -> None:
    live, disk = records["live"], records["disk"]
    assert [replaced(entry) for entry in live.verdict.ledger] == [replaced(entry) for entry in disk.verdict.ledger]
    assert len(live.verdict.ledger) >= 3
    assert live.after is not None
    assert disk.after is not None
    assert disk.before is not None
    assert (live.after.how, disk.after.how) == ("", "frozen disk, suspended")
    assert disk.before.how == "frozen disk, suspended"


def replaced(entry: Any) -> Any:
    """An entry without what differs from run to run: the text of the program's own log, by its time and size."""
    return entry.model_copy(update={"how": "", "fields": []}) if entry.observable == "program" else entry


def test_the_audit_names_the_file_that_nothing_observes(records: dict[str, RunRecord]) -> None:
    found = records["live"].blind_spots
    assert found is not None
    assert found.unreadable is None
    written = {ELSEWHERE.parent, ELSEWHERE, CONFIG, *HIVES}
    assert {(file.kind, file.path.casefold()) for file in found.files} == {
        ("created", str(path).casefold()) for path in written
    }
    assert found.observed >= 2


def test_the_audit_reads_the_registry_from_the_disk(records: dict[str, RunRecord]) -> None:
    found = records["live"].blind_spots
    assert found is not None
    assert found.registry is not None
    assert found.registry.unreadable is None
    assert found.registry.unread == []
    assert {(group.key, group.created) for group in found.registry.groups} >= {
        (r"HKLM\SOFTWARE\Verlag", 1), (r"HKLM\SYSTEM\CurrentControlSet", 1),
    }  # fmt: skip


def test_a_disk_without_hives_is_told_and_no_registry_without_changes(records: dict[str, RunRecord]) -> None:
    found = records["disk"].blind_spots
    assert found is not None
    assert found.registry is not None
    assert "no hives" in str(found.registry.unreadable)


def test_without_such_a_file_the_audit_names_none(records: dict[str, RunRecord]) -> None:
    found = records["disk"].blind_spots
    assert found is not None
    assert found.unreadable is None
    assert [(file.kind, file.path) for file in found.files] == []
    assert found.observed >= 2
