"""Input that is not kept is not known: counts stay exact, a stage that it could show is open, and a log that fails is told."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.agents.base import AgentReport, AgentTask
from runner.display import inputlog
from runner.display.keeping import BOUNDS, Bounds
from runner.display.rfb import RfbClient
from tests.faults.helpers import run_agent

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]
NUMBER = "1234567890"


def typing(text: str) -> Callable[[AgentTask], AgentReport]:
    """An agent that moves, types a text into the list, and gives up."""

    def act(task: AgentTask) -> AgentReport:
        with RfbClient.connect(task.display) as screen:
            for place in range(30):
                screen.move(place, 5)
            screen.type_text(text, interval=0)
            screen.refresh(incremental=False)  # what answers has read what was sent before
        return AgentReport("failed")

    return act


@pytest.mark.parametrize(("keys", "seen"), [(1_000, True), (2 * len(NUMBER), True), (5, None)])
def test_what_may_have_been_typed_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int, seen: bool | None
) -> None:
    monkeypatch.setattr(inputlog, "Bounds", lambda: Bounds({**BOUNDS, "key": keys}))
    record, _ = run_agent(typing(NUMBER), tmp_path)
    stages = {stage.name: stage.seen for stage in record.stages}
    assert stages["interaction"] is seen
    assert record.recording.keys == len(NUMBER)
    assert record.recording.typed_is_whole is (seen is True)


def test_a_log_that_cannot_be_written_ends_no_run_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = inputlog.InputLog._write

    def full(self: inputlog.InputLog, lines: list[str]) -> None:
        if any('"kind": "key"' in line for line in lines):
            self._failed(OSError(errno.ENOSPC, "No space left on device"))
        written(self, lines)

    monkeypatch.setattr(inputlog.InputLog, "_write", full)
    record, _ = run_agent(typing(NUMBER), tmp_path)
    assert record.verdict.outcome != "unscored"
    assert (record.recording.keys, record.recording.typed_is_whole) == (len(NUMBER), True)
    assert "No space left on device" in record.recording.fault
    assert record.recording.fault in record.faults
