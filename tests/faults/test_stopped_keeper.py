"""A program that stops the process which keeps its processes together (SIGSTOP): it is ended all the same, and nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from runner.agents import processes
from runner.agents.processes import KEEPER, Ended, run_kept
from tests.command_line import Call
from tests.runner.test_command_agent import alive, wait_for

ROOT = Path(__file__).resolve().parents[2]
STOP = "import os, signal, subprocess, sys, time\nkeeper = os.getppid()\nos.kill(keeper, signal.SIGSTOP)\n"
HIDDEN = 'subprocess.Popen(["sleep", "{seconds}"], env={{}}, start_new_session=True)\n'
"""A child that carries no mark of ours and has left its session."""


def kept(source: str, folder: Path, seconds: float = 60.0) -> Ended:
    script = folder / "program.py"
    script.write_text(source)
    task = folder / "task.json"
    task.write_text("{}")
    return run_kept(
        [sys.executable, str(script)],
        environment={"PATH": os.environ["PATH"]},
        folder=folder,
        standard_input=task,
        deadline=time.monotonic() + seconds,
        cancelled=threading.Event(),
    )


def test_a_keeper_that_was_stopped_goes_on_and_tells_the_end(tmp_path: Path) -> None:
    seconds = f"7{os.getpid()}1"
    ended = kept(STOP + HIDDEN.format(seconds=seconds) + "print('done')\nsys.exit(3)\n", tmp_path)
    assert (ended.why, ended.code, ended.output.strip(), ended.left, ended.alive) == ("itself", 3, b"done", 1, 0)
    assert alive(seconds) == []
    assert not (tmp_path / "task.json").exists()


def test_one_that_is_stopped_again_and_again_is_ended_with_everything_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PATIENCE", 0.5)
    seconds = f"7{os.getpid()}2"
    again = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: os.kill(keeper, signal.SIGSTOP)\n"
    ended = kept(STOP + HIDDEN.format(seconds=seconds) + again, tmp_path, seconds=1.0)
    assert ended.why == "time"
    assert alive(seconds) == []
    assert alive(str(tmp_path / "program.py")) == []


RUNNER = """
import sys, threading, time
from pathlib import Path
from runner.agents.processes import run_kept
from runner.store import Campaign

campaign = Campaign.create(Path(sys.argv[1]), "stopped")
with campaign.held():
    folder = campaign.begin("r1") / "agent"
    folder.mkdir()
    task = folder / "task.json"
    task.write_text("{}")
    run_kept(
        [sys.executable, sys.argv[2]], environment={}, folder=folder, standard_input=task,
        deadline=time.monotonic() + 600, cancelled=threading.Event(),
    )
"""


def test_after_a_killed_runner_it_is_named_with_its_campaign_and_reaped(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    seconds, others = f"7{os.getpid()}3", f"7{os.getpid()}4"
    stranger = subprocess.Popen(["sleep", others])
    script = tmp_path / "program.py"
    script.write_text(STOP + HIDDEN.format(seconds=seconds) + "while True: os.kill(keeper, signal.SIGSTOP)\n")
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, str(tmp_path / "runs"), str(script)], cwd=ROOT)
    try:
        wait_for(lambda: alive(seconds))
        runner.send_signal(signal.SIGSTOP)  # so that it wakes nobody any more
        (keeper,) = [pid for pid in alive(str(KEEPER)) if pid in alive(str(tmp_path / "runs"))]
        wait_for(lambda: Path(f"/proc/{keeper}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        runner.kill()
        runner.wait(20)
        assert alive(seconds)  # nobody is left to end it

        listed = call("machines", "list")[1]
        assert "stopped" in listed
        assert "left behind" in listed
        status, _, err = call("machines", "reap")
        assert (status, err) == (0, "")
        assert alive(seconds) == []
        assert alive(str(tmp_path / "runs")) == []
        assert [path.name for path in (tmp_path / "runs" / "stopped").iterdir()] == ["blobs"]
        assert "nothing is there" in call("machines", "list")[1]
        assert stranger.poll() is None
    finally:
        for process in (runner, stranger):
            process.kill()
            process.wait(20)
        for pid in (*alive(seconds), *alive(str(tmp_path / "runs"))):
            os.kill(pid, signal.SIGKILL)
