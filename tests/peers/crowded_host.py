"""A host full of other programs' System V objects, on which one machine is made, used and looked at.

Run in an IPC namespace of its own, where numbers begin at 0 as in a machine's:
``python -m tests.peers.crowded_host screens|pages|empty PICTURE``. There is shared memory under every small number, with known
contents and open to everybody, and semaphores and message queues beside: segments that hold a whole screen, which would be shown, or
no more than a page, which would end whoever draws from them. Prints what became of it as one JSON object, and leaves a picture of
the machine's screen.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from pathlib import Path

from contracts.schema import StartProgram
from runner.display.rfb import RfbClient
from runner.guests.windows import wait_for, wait_for_window, windows
from runner.machines.base import Tag
from runner.machines.images import find_image
from runner.machines.wine import WineMachine, WineProvider

SEGMENTS = 64
SIZES = {"screens": 1024 * 768 * 4, "pages": 4096}
_LARGE = 24
"""Segments, the first ones, that have the size; the others hold a page."""
NOTEPAD, TYPED = "Untitled - Notepad", "sees nothing of its host"
FOREIGN = b"\xff\x00\xff\x00"
"""What the segments hold: one magenta pixel after the other."""
_CREATE, _EVERYBODY = 0o1000, 0o666
_REMOVE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_libc.shmdt.argtypes = (ctypes.c_void_p,)


def fill(size_of_first: int) -> list[int]:
    """Makes the objects; the numbers of the shared memory."""
    numbers = []
    for key in range(1, SEGMENTS + 1):
        size = size_of_first if key <= _LARGE else 4096
        number = _libc.shmget(key, size, _CREATE | _EVERYBODY)
        assert number >= 0, ctypes.get_errno()
        address = _libc.shmat(number, None, 0)
        ctypes.memmove(address, FOREIGN * (size // len(FOREIGN)), size)
        _libc.shmdt(address)
        numbers.append(number)
        assert _libc.semget(key, 4, _CREATE | _EVERYBODY) >= 0
        assert _libc.msgget(key, _CREATE | _EVERYBODY) >= 0
    return numbers


def clear() -> None:
    """Removes the objects; none would go away by itself before the namespace does."""
    for row in table("shm"):
        _libc.shmctl(row["shmid"], _REMOVE, None)


def table(kind: str) -> list[dict[str, int]]:
    """What the kernel says of the objects of one kind (``shm``, ``sem``, ``msg``)."""
    head, *rows = Path("/proc/sysvipc", kind).read_text().splitlines()
    return [dict(zip(head.split(), map(int, row.split()), strict=True)) for row in rows]


def use(machine: WineMachine, picture: Path) -> list[str]:
    """Opens one window over the other, types, takes a picture; the titles of those that are there afterwards."""
    machine.start([StartProgram(program="dswin")])
    machine.guest.start([r"C:\windows\notepad.exe"])
    wait_for_window(machine.guest, NOTEPAD, timeout=60)
    with RfbClient.connect(machine.display) as screen:
        screen.type_text(TYPED)
        wait_for(machine.guest, lambda window: TYPED in [each.text for each in window.controls], "the text", 60)
        machine.ensure_alive()
        last = None
        deadline = time.monotonic() + 30
        while (now := screen.screenshot(timeout=30)) != last and time.monotonic() < deadline:
            last = now
            time.sleep(0.1)
        now.save(picture)
    return [seen.title for seen in windows(machine.guest) if seen.title]


def main(kind: str, picture: Path) -> None:
    """Fills the host, uses a machine, tells what was touched."""
    numbers = fill(SIZES[kind]) if kind in SIZES else []
    before = {kind: table(kind) for kind in ("shm", "sem", "msg")}
    try:
        checkpoint = WineProvider().prepare(find_image("dentadesk"), [], [], folder=Path.cwd())
        machine = checkpoint.clone(Tag("tests", "crowded"))
        try:
            titles = use(machine, picture)
        finally:
            machine.discard()
        touched = [kind for kind, rows in before.items() if table(kind) != rows]
        print(json.dumps({"numbers": numbers, "titles": titles, "touched": touched}))  # noqa: T201
    finally:
        clear()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
