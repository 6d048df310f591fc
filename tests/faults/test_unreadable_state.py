"""What could not be read after the agent is a third value: the run is unscored, whatever the agent says."""

from __future__ import annotations

import threading
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest

from runner.agents.base import AgentReport, AgentTask
from runner.guests.base import Guest
from runner.machines.base import Tag
from runner.machines.wine import WineCheckpoint, WineMachine, WineProvider
from tests.faults.helpers import run_agent

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]
TABLE = PureWindowsPath(r"C:\DSWIN\DATA\PATIENT.DBF")


class Watched(WineProvider):
    """Wine's provider that keeps hold of the machine, so that a test can reach into it."""

    machine: WineMachine | None = None

    def prepare(self, *args: Any, **kwargs: Any) -> WineCheckpoint:
        made = super().prepare(*args, **kwargs)
        clone = made.clone

        def watched(tag: Tag) -> WineMachine:
            self.machine = clone(tag)
            return self.machine

        made.clone = watched  # type: ignore[method-assign]
        return made

    @property
    def guest(self) -> Guest:
        assert self.machine is not None
        return self.machine.guest


def damage(provider: Watched, change: Any) -> Any:
    def work(task: AgentTask) -> AgentReport:
        guest = provider.guest
        data = guest.read(TABLE, limit=1 << 20)
        guest.write(TABLE, change(data))
        return AgentReport("success", returned={"patient_number": "000104"})

    return work


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("cut in mid-record", lambda data: data[:-100]),
        ("emptied", lambda data: b""),
        ("header zeroed", lambda data: bytes(32) + data[32:]),
        ("more rows counted than there are", lambda data: data[:4] + (9_999).to_bytes(4, "little") + data[8:]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_damaged_table_is_unreadable(tmp_path: Path, name: str, change: Any) -> None:
    provider = Watched()
    record, _ = run_agent(damage(provider, change), tmp_path, provider=provider)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "unreadable"), record.verdict.reason
    assert "patients" in record.verdict.reason


def test_a_table_that_is_written_all_the_time_is_unreadable(tmp_path: Path) -> None:
    provider = Watched()
    over = threading.Event()
    writers: list[threading.Thread] = []

    def write_on(guest: Guest, data: bytes) -> None:
        number = 0
        while not over.is_set():
            number += 1
            try:
                guest.write(TABLE, data[:40] + bytes([number % 256]) + data[41:])
            except Exception:  # two who write at once disturb each other; the machine ends at last
                continue

    def work(task: AgentTask) -> AgentReport:
        data = provider.guest.read(TABLE, limit=1 << 20)
        writers.append(threading.Thread(target=write_on, args=(provider.guest, data)))
        writers[0].start()
        return AgentReport("failed")

    try:
        record, _ = run_agent(
            work, tmp_path, provider=provider, change=lambda t: t.replace("timeout: 60s", "timeout: 60s, settle: 1s")
        )
    finally:
        over.set()
        writers[0].join(30)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "unreadable"), record.verdict.reason


def test_a_table_removed_is_no_unreadable_one(tmp_path: Path) -> None:
    provider = Watched()

    def work(task: AgentTask) -> AgentReport:
        assert provider.machine is not None
        assert provider.machine._sandbox is not None
        provider.machine._sandbox.run(["/bin/rm", "/prefix/drive_c/DSWIN/DATA/KATALOG.DBF"], timeout=10)
        return AgentReport("failed")

    record, _ = run_agent(work, tmp_path, provider=provider)
    assert (record.verdict.outcome, record.verdict.kind) == ("invalid_failure", "collateral"), record.verdict.reason
    assert "dropped" in {entry.verb for entry in record.verdict.ledger}
