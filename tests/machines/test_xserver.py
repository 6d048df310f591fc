"""A display that does not come up: the wait for it ends in time, and nothing of it is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runner.machines.base import MachineError
from runner.machines.xserver import XServer


def instead(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> XServer:
    """A display whose program is a shell script; ``$ready`` is the descriptor for its number."""
    tools = folder / "tools"
    tools.mkdir()
    find = 'while [ "$1" != -displayfd ]; do shift; done; ready=$2\n'
    (tools / "bwrap").write_text(f"#!/bin/bash\n{find}{script}\n")
    (tools / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return XServer(folder / "display", 640, 480)


def descriptors() -> set[str]:
    """What this process has open, but for what lists it."""
    return {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)}


def _is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


@pytest.mark.parametrize(
    "script",
    [
        "exec sleep 60",
        'printf 0 >&"$ready"; exec sleep 60',
        'eval "exec $ready>&-"; exec sleep 60',
    ],
    ids=["silent", "half its number", "without the descriptor"],
)
def test_a_server_that_neither_writes_nor_ends_is_ended_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    before = descriptors()
    server = instead(tmp_path, monkeypatch, f"echo hard to start; {script}")
    with pytest.raises(MachineError, match="hard to start"):
        server.wait(1.0)
    assert not server.alive
    assert descriptors() == before


def test_a_server_that_ends_is_started_anew_on_another_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = instead(tmp_path, monkeypatch, "echo the port is taken; exit 1")
    with pytest.raises(MachineError, match="the port is taken"):
        server.wait(60.0)
    assert (tmp_path / "display" / "log").read_text().count("taken") == 8
    assert not server.alive


def test_a_server_that_nobody_waited_for_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    server = instead(tmp_path, monkeypatch, "exec sleep 60")
    server.kill()
    server.kill()  # twice is no mistake
    assert not server.alive
    assert descriptors() == before
