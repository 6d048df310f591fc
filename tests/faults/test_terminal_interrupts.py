"""Ctrl+C on a terminal reaches every process of the foreground group: it means the runner, and ends nothing that the runner has started.

Where a machine's processes are in that group, they die at once, and a run that a person stopped looks like one whose machine failed.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.helpers import below

ROOT = Path(__file__).resolve().parents[2]
INSIDE_ANOTHER_CHILD = {"runner/sql/generic.py"}
"""Modules that run in a child of the runner which has a session already."""
RUNNER = """
import signal, sys
from pathlib import Path
from contracts.schema import StartProgram
from runner.display.rfb import RfbClient
from runner.guests.windows import windows
from runner.machines.base import Tag
from runner.machines.images import find_image
from runner.machines.wine import WineProvider

asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
machine = WineProvider().prepare(find_image("dentadesk"), [], [], folder=Path.cwd()).clone(Tag("tests", "interrupted"))
try:
    machine.start([StartProgram(program="dswin")])
    print("ready", flush=True)
    sys.stdin.readline()
    assert asked, "the runner itself was not asked"
    machine.ensure_alive()
    with RfbClient.connect(machine.display) as screen:
        screen.screenshot()
    print(*(window.title for window in windows(machine.guest) if window.title), flush=True)
finally:
    machine.discard()
"""


@pytest.mark.machine
@pytest.mark.usefixtures("checkpoint")
def test_a_machine_outlives_an_interrupt_of_the_runners_group() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as runner:
        try:
            assert runner.stdout is not None
            assert runner.stdout.readline() == "ready\n"
            machines = below(runner.pid)
            assert machines
            assert {os.getpgid(pid) for pid in machines} & {runner.pid} == set()
            assert {os.getsid(pid) for pid in machines} & {os.getsid(runner.pid)} == set()
            os.killpg(runner.pid, signal.SIGINT)
            time.sleep(0.3)
            titles, errors = runner.communicate("go on\n", timeout=60)
        finally:
            runner.kill()
    assert "DSWin - Patientenliste" in titles, errors
    assert runner.returncode == 0


def started() -> Iterator[tuple[str, int, set[str]]]:
    """Every place in the program where a process is started: file, line, names of its arguments."""
    for file in sorted((ROOT / "runner").rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name.startswith("runner/doctor/") or name in INSIDE_ANOTHER_CHILD:
            continue  # nobody's run hangs on what doctor asks for a moment
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "subprocess"
                and node.func.attr in {"run", "Popen", "call", "check_call", "check_output"}
            ):
                yield name, node.lineno, {keyword.arg for keyword in node.keywords if keyword.arg}


def test_whatever_the_runner_starts_is_in_a_session_of_its_own() -> None:
    places = list(started())
    assert len(places) > 8
    assert [(name, line) for name, line, arguments in places if "start_new_session" not in arguments] == []
