"""A display that does not come up: the wait for it ends in time, its reason is told, and nothing of it is left."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.display.rfb import RfbClient
from runner.machines.base import MachineError
from runner.machines.sandbox import Sandbox
from runner.machines.xserver import SEEN_AS, XServer

pytestmark = pytest.mark.machine
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp"}


@pytest.fixture
def server(tmp_path: Path) -> XServer:
    return XServer(tmp_path / "screen", 640, 480)


@pytest.fixture
def sandbox(tmp_path: Path, server: XServer) -> Iterator[Sandbox]:
    drive = tmp_path / "drive"
    drive.mkdir()
    made = Sandbox.open(
        drive, environment=ENVIRONMENT, binds={server.folder: SEEN_AS}, hostname="TEST", log=tmp_path / "sandbox.log"
    )
    yield made
    made.kill()


def instead(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Starts a shell script in place of the X server."""
    monkeypatch.setattr(XServer, "_command", lambda self: ["/bin/bash", "-c", script])


def descriptors() -> set[str]:
    """What this process has open, but for what lists it."""
    return {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(name)}


def _is_open(name: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{name}")


def until_ended(server: XServer) -> None:
    deadline = time.monotonic() + 20
    while server.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.alive


def test_it_serves_on_the_hosts_loopback_and_its_end_is_seen(server: XServer, sandbox: Sandbox) -> None:
    assert not server.alive
    server.start(sandbox)
    assert server.alive
    with RfbClient.connect(server.address) as screen:
        assert screen.size == (640, 480)
    sandbox.run(
        ["/bin/sh", "-c", 'for p in /proc/[0-9]*; do grep -q Xtigervnc $p/comm && kill -9 "${p#/proc/}"; done'],
        timeout=20,
    )
    until_ended(server)
    with socket.socket() as late:
        assert late.connect_ex((server.address.host, server.address.port)) != 0


def test_each_has_a_port_of_its_own_from_the_start(tmp_path: Path, server: XServer, sandbox: Sandbox) -> None:
    """No other program can take it between choosing and using: the socket that listens is the one that was handed in."""
    server.start(sandbox)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", server.address.port))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo hard to start >&2; exec sleep 60", "neither .* nor ended in time; it said: hard to start"),
        ("printf 0; exec sleep 60", "neither .* nor ended in time, without a word"),
        ("exec >&-; exec sleep 60", "neither .* nor ended in time, without a word"),
        ("echo no fonts >&2; exit 7", "ended with status 7; it said: no fonts"),
        ("exit 1", "ended with status 1, without a word"),
    ],
    ids=["silent", "half its number", "without the descriptor", "with a reason", "without a reason"],
)
def test_a_server_that_does_not_come_up_is_told_in_time(
    server: XServer, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    before = descriptors()
    instead(monkeypatch, script)
    with pytest.raises(MachineError, match=said):
        server.start(sandbox, timeout=2.0)
    server.close()
    server.close()  # twice is no mistake
    assert not server.alive
    assert descriptors() == before


def test_a_server_that_is_not_installed(server: XServer, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(XServer, "_command", lambda self: ["/nowhere/no-such-server"])
    with pytest.raises(MachineError, match="no-such-server could not be started"):
        server.start(sandbox)


def test_a_keyboard_that_cannot_be_set_is_told(server: XServer, sandbox: Sandbox) -> None:
    (server.folder / "xkb" / "keymap").write_text("xkb_keymap { nonsense };")
    with pytest.raises(MachineError, match=r"keyboard could not be set: .*not compiled"):
        server.start(sandbox)


def test_a_sandbox_that_is_gone(server: XServer, sandbox: Sandbox) -> None:
    sandbox.kill()
    with pytest.raises(MachineError, match="sandbox is gone"):
        server.start(sandbox)
    assert not server.alive
