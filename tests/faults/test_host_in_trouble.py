"""The host itself fails: a full disk, a process that does not end. The run is unscored, and the campaign goes on."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.agents.base import AgentReport, AgentTask
from runner.machines.wine import WineCheckpoint, WineProvider
from tests.faults.helpers import run_agent


def never(task: AgentTask) -> AgentReport:
    raise AssertionError("the agent must not begin")


@pytest.mark.parametrize(
    "trouble",
    [OSError(28, "No space left on device"), subprocess.TimeoutExpired(["Xtigervnc"], 20)],
    ids=["disk", "process"],
)
def test_trouble_of_the_host_is_unscored_and_recorded(tmp_path: Path, trouble: Exception) -> None:
    class Troubled(WineProvider):
        def prepare(self, *_args: Any, **_named: Any) -> WineCheckpoint:
            raise trouble

    record, _ = run_agent(never, tmp_path, provider=Troubled())
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "machine")
    assert record.agent.status == "not_run"
