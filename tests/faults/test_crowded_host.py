"""A host on which other programs own shared memory, semaphores, queues and sockets: a machine meets none of them.

A machine's programs tell its screen numbers of shared memory. Where the screen takes them for numbers of the host, it shows other
programs' memory or ends windows; a database server on the host is enough for that.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from runner.machines.base import Tag
from runner.machines.wine import WineCheckpoint, WineMachine
from tests.peers import crowded_host

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]
ROOT = Path(__file__).resolve().parents[2]
MAGENTA = (255, 0, 255)
CARET = 60
"""Pixels that differ while a caret blinks."""


def on_host(kind: str, picture: Path) -> dict[str, list[Any]]:
    """Uses a machine on a host that is crowded or empty: what was seen, and a picture of the screen."""
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    done = subprocess.run(
        ["unshare", *own_user, "--ipc", "--", sys.executable, "-m", "tests.peers.crowded_host", kind, str(picture)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told: dict[str, list[Any]] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("kind", crowded_host.SIZES)
def test_numbers_that_are_others_on_the_host_are_never_taken_for_them(kind: str, tmp_path: Path) -> None:
    crowded = on_host(kind, tmp_path / "crowded.png")
    assert crowded["numbers"] == list(range(crowded_host.SEGMENTS))
    # Nobody attached, not even for a moment: the kernel notes the last time and process.
    assert crowded["touched"] == []
    assert {"DSWin - Patientenliste", crowded_host.NOTEPAD} <= set(crowded["titles"])

    empty = on_host("empty", tmp_path / "empty.png")
    assert empty["titles"] == crowded["titles"]
    seen, wanted = (Image.open(tmp_path / f"{kind}.png").convert("RGB") for kind in ("crowded", "empty"))
    assert MAGENTA not in {colour for _, colour in seen.getcolors(1 << 24) or ()}
    differing = ImageChops.difference(seen, wanted).convert("L").point(lambda level: 1 if level else 0)
    assert differing.histogram()[1] <= CARET


@pytest.fixture(scope="module")
def machine(checkpoint: WineCheckpoint) -> Iterator[WineMachine]:
    made = checkpoint.clone(Tag("tests", "crowded"))
    yield made
    made.discard()


def namespaces(machine: WineMachine, program: str) -> dict[str, str]:
    """The namespaces of one program inside, by kind."""
    assert machine._sandbox is not None
    look = (
        'for p in /proc/[0-9]*; do grep -aqs "$0" $p/cmdline && [ $p != /proc/$$ ] && '
        "for n in cgroup ipc mnt net pid user uts; do readlink $p/ns/$n; done && exit; done"
    )
    done = machine._sandbox.run(["/bin/sh", "-c", look, program], timeout=20)
    assert done.status == 0, done.stderr
    return dict(line.split(":") for line in done.stdout.decode().split())


def test_screen_and_programs_share_every_name_with_each_other_and_none_with_the_host(machine: WineMachine) -> None:
    kinds = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
    screen, probe = namespaces(machine, "Xtigervnc"), namespaces(machine, "lpprobe.exe")
    host = dict(os.readlink(f"/proc/self/ns/{kind}").split(":") for kind in kinds)
    assert sorted(screen) == sorted(kinds)
    assert screen == probe
    # A user namespace of its own is not needed, and not made, where the runner is root.
    assert {kind for kind in kinds if screen[kind] == host[kind]} <= {"user"}


def test_sockets_and_memory_files_with_usual_names_are_not_found(machine: WineMachine) -> None:
    assert machine._sandbox is not None
    marker = Path("/dev/shm") / f"legacyproof-test-{os.getpid()}"
    marker.write_bytes(b"host")
    try:
        with socket.socket(socket.AF_UNIX) as neighbour:
            neighbour.bind(f"\0legacyproof-test-{os.getpid()}")
            neighbour.listen()
            look = (
                "import os, socket\n"
                f"print(os.path.exists({str(marker)!r}), os.path.exists('/run/dbus'), os.path.exists('/tmp/.X11-unix/X1'))\n"
                f"print(socket.socket(socket.AF_UNIX).connect_ex('\\0legacyproof-test-{os.getpid()}') != 0)\n"
            )
            done = machine._sandbox.run(["/usr/bin/python3", "-c", look], timeout=20)
    finally:
        marker.unlink()
    assert done.stdout.decode().split() == ["False", "False", "False", "True"], done.stderr
