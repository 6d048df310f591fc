"""A person at a terminal does a task: the program under a pseudo-terminal, and somebody with a VNC client who reads and types."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.display.handshake import DisplayAddress
from runner.display.rfb import RfbClient
from runner.machines.wine import WineCheckpoint
from runner.store import Campaign

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-patient-documentation.yaml"
LONG = 200.0


def read_until(master: int, pattern: str, seen: str) -> str:
    deadline = time.monotonic() + LONG
    while not re.search(pattern, seen):
        assert time.monotonic() < deadline, seen
        if select.select([master], [], [], 0.5)[0]:
            seen += os.read(master, 65536).decode("utf-8", "replace")
    return seen


@pytest.mark.machine
def test_a_person_does_the_task(tmp_path: Path, checkpoint: WineCheckpoint) -> None:
    master, slave = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", "from runner.cli import main; main()", "run", str(CONTRACT), "--agent", "human", "--prompt",
         "instruction", "--json", "--runs", str(tmp_path), "--name", "person"],
        cwd=ROOT, stdin=slave, stderr=slave, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        seen = read_until(master, r"could not \[why\][\s\S]*> ", "")
        assert "Its values:" in seen
        assert "last_name: Öztürk" in seen
        host, port, password = re.search(r"viewer: (\S+), port (\d+), password (\S+)", seen).groups()  # type: ignore[union-attr]
        with RfbClient.connect(DisplayAddress(host, int(port), password)) as screen:
            for action, text in [
                ("type", "Öztürk, Ayse"), ("press", "F6"), ("type", "MÜ"), ("press", "Tab"),
                ("type", re.search(r"text: (Füllung[\s\S]*?nötig\?)", seen)[1].replace("\r", "").replace("\n    ", "\n")),  # type: ignore[index]
                ("press", "F10"),
            ]:  # fmt: skip
                time.sleep(1)
                while screen.refresh(timeout=0.3):
                    pass
                screen.type_text(text) if action == "type" else screen.press(text)
            time.sleep(2)
        os.write(master, b"done\n")
        assert run.stdout is not None
        output = run.stdout.read().decode()
        assert run.wait(LONG) == 0, read_until(master, r"report", seen)
    finally:
        run.kill()
        os.close(master)
        os.close(slave)
    (line,) = [json.loads(text) for text in output.splitlines()]
    assert (line["outcome"], line["agent"]) == ("valid_success", "human")
    (record,) = Campaign(tmp_path / "person").records()
    assert record.agent.usage["keys"] > 100
    assert record.agent.usage["clicks"] == 0
    assert record.agent.usage["seconds"] > 1
