"""What a program leaves in its folder is made hard to remove: it goes; where it cannot, the run stands and `machines list` tells."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner import removal
from runner.agents.base import AgentReport, AgentTask
from runner.agents.command import plan_command
from runner.display.handshake import DisplayAddress
from runner.store import Campaign
from tests.command_line import Call
from tests.peers.rfb_server import FakeRfbServer
from tests.runner.test_store import record

IMMUTABLE = """
    import subprocess
    open("kept", "w").close()
    os.makedirs("deep/er")
    for path in ("kept", "deep/er"):
        subprocess.run(["chattr", "+i", path], check=True)
"""
MOUNTED = """
    import subprocess
    os.mkdir("mounted")
    subprocess.run(["mount", "--bind", {dear!r}, "mounted"], check=True)
"""


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    return Campaign.create(tmp_path / "runs", "hard")


@pytest.fixture
def dear(tmp_path: Path) -> Iterator[Path]:
    """A folder of somebody else's."""
    folder = tmp_path / "dear"
    folder.mkdir()
    (folder / "file").write_text("x")
    yield folder
    for place in removal.mounts_in(tmp_path):
        subprocess.run(["umount", "-l", place], check=False)


def run_program(source: str, campaign: Campaign) -> AgentReport:
    """One run of a program as an agent in a campaign's folder, without a machine, to its record."""
    with FakeRfbServer(password=b"vncpass1", size=(320, 200)) as server, campaign.held():
        scratch = campaign.begin("r1")
        folder = scratch / "agent"
        folder.mkdir()
        body = textwrap.dedent(source)
        script = campaign.folder.parent / "program.py"
        script.write_text(
            f"import os, sys\ntry:\n{textwrap.indent(body, '    ')}\nexcept Exception:\n    sys.exit(9)\n"
            'print(\'{"status": "failed", "message": "gave up."}\')\n'
        )
        task = AgentTask(
            contract="a.b", instruction="do", prompt="do", parameters={}, response_schema=None,
            display=DisplayAddress("127.0.0.1", server.port, "vncpass1"), timeout=60, deadline=time.monotonic() + 60,
            folder=folder, windows=tuple, cancelled=threading.Event(),
        )  # fmt: skip
        report = plan_command(f"{sys.executable} {script}")[0].agent.run(task)
        if "status 9" in report.message:
            pytest.skip("files cannot be locked, or nothing mounted, here")
        campaign.finish(record("r1", campaign="hard"), scratch)
    return report


@pytest.mark.parametrize("source", [IMMUTABLE, MOUNTED], ids=["immutable files", "a mount"])
def test_it_goes_and_what_is_others_stays(source: str, campaign: Campaign, dear: Path, call: Call) -> None:
    report = run_program(source.replace("{dear!r}", repr(str(dear))), campaign)
    assert (report.status, report.message) == ("failed", "gave up.")
    assert (dear / "file").read_text() == "x"
    assert sorted(os.listdir(campaign.folder)) == ["blobs", "r1"]
    assert "nothing is there" in call("machines", "list")[1]


def test_where_it_cannot_go_the_run_stands_and_the_rest_is_named_until_it_is_reaped(
    campaign: Campaign, dear: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Library:
        def umount2(self, *_: Any) -> int:
            return -1

    with monkeypatch.context() as held:
        held.setattr(ctypes, "CDLL", lambda *_, **__: Library())
        report = run_program(MOUNTED.format(dear=str(dear)), campaign)
        assert report.status == "failed"
        assert "gave up. What it left in its folder cannot be removed: " in report.message
        assert "something is mounted there" in report.message
        assert [one.run for one in campaign.records()] == ["r1"]

        assert "left behind" in call("machines", "list")[1]
        status, _, err = call("machines", "reap")
        assert status == 1
        assert "something is mounted there" in " ".join(err.split())
        assert "left behind" in call("machines", "list")[1]  # a failed attempt loses nothing
        assert (dear / "file").read_text() == "x"

    assert call("machines", "reap")[0] == 0
    assert sorted(os.listdir(campaign.folder)) == ["blobs", "r1"]
    assert (dear / "file").read_text() == "x"
    assert "nothing is there" in call("machines", "list")[1]
