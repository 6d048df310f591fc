"""A program as an agent that crashes, hangs, or leaves acting processes behind is a status of the run; nothing of it acts or stays."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from runner.agents.base import AgentReport, AgentTask
from runner.agents.command import plan_command
from runner.record import RunRecord
from runner.store import Campaign
from tests.faults.helpers import ROOT, run_agent
from tests.runner.test_command_agent import alive

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]


def run_program(source: str, folder: Path, timeout: str = "60s") -> tuple[RunRecord, Campaign]:
    script = folder / "program.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n{textwrap.dedent(source)}")

    def act(task: AgentTask) -> AgentReport:
        return plan_command(f"{sys.executable} {script}")[0].agent.run(task)

    record, campaign = run_agent(act, folder, timeout=timeout)
    assert not list(campaign.folder.rglob("task.json"))
    assert alive(str(script)) == []
    return record, campaign


def test_what_it_leaves_behind_can_no_longer_act(tmp_path: Path) -> None:
    """A daemon with a connection of its own, started by a program that ends at once, would open the form later."""
    seconds = f"5{os.getpid()}4"
    record, _ = run_program(
        f"""
        import json, os, subprocess, time
        from runner.display.handshake import DisplayAddress
        from runner.display.rfb import RfbClient
        display = json.load(sys.stdin)["display"]
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            screen = RfbClient.connect(DisplayAddress(display["host"], display["port"], display["password"]))
            subprocess.Popen(["sleep", "{seconds}"], env={{}})
            os.write(writing, b"x")
            while True:
                time.sleep(0.05)
                if os.getppid() == 1 or not os.path.exists(os.environ["LEGACYPROOF_TASK"]):
                    screen.press("F2")
        os.read(reading, 1)
        print('{{"status": "failed", "message": "gave up."}}')
        """,
        tmp_path,
    )
    assert (record.verdict.outcome, record.verdict.kind) == ("valid_failure", "gave_up")
    assert record.agent.message.startswith("gave up. It left ")
    assert record.recording.keys == 0
    assert alive(seconds) == []


def test_one_that_hangs_is_a_timeout(tmp_path: Path) -> None:
    record, _ = run_program("import time; time.sleep(600)", tmp_path, timeout="2s")
    assert (record.verdict.outcome, record.verdict.kind, record.agent.status) == ("valid_failure", "timeout", "timeout")
    assert not record.faults


def test_what_it_needs_being_out_is_unscored(tmp_path: Path) -> None:
    record, _ = run_program("sys.exit(75)", tmp_path)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "agent_infrastructure")
