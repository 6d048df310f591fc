"""The machine or its display dies while the agent works: unscored, cause machine, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from runner.agents.base import AgentReport, AgentTask
from runner.machines.base import home
from runner.machines.folders import processes_of
from tests.faults.helpers import below, run_agent

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]


def kill_processes(part: bytes) -> None:
    """Kills those processes of the machine whose command line holds a text."""
    machine = processes_of(home() / "machines")
    for pid in {*machine, *(each for one in machine for each in below(one))}:
        with contextlib.suppress(OSError):  # it has ended with another one
            if part in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("part", [b"station.py", b"Xtigervnc"])
def test_lost_while_the_agent_works(tmp_path: Path, part: bytes) -> None:
    def work(task: AgentTask) -> AgentReport:
        kill_processes(part)
        return AgentReport("success", returned={"patient_number": "000104"})

    record, _ = run_agent(work, tmp_path)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "machine"), record.verdict.reason
    assert not list((home() / "machines").iterdir())
    assert processes_of(home() / "machines") == []


def test_the_probe_killed_by_a_program_is_started_again(tmp_path: Path) -> None:
    def work(task: AgentTask) -> AgentReport:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"lpprobe.exe" in command and b"serve" in command:
                    os.kill(int(entry.name), signal.SIGKILL)
        return AgentReport("failed")

    record, _ = run_agent(work, tmp_path)
    assert (record.verdict.outcome, record.verdict.kind) == ("valid_failure", "gave_up"), record.verdict.reason
