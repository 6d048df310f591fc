"""Saving and loading a machine's state, with its memory mapped from one file that all clones share.

QEMU's migration with the capability ``x-ignore-shared`` leaves out memory that lies in a file: what is written is the state of the
devices (a few MB), and a clone maps the file privately instead of reading it. The commands are those of QEMU's monitor; libvirt
hands them through.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Protocol

_PAUSE = 0.01
_FILE = "legacyproof-state"
_MAPPED = {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}


class MemoryFault(Exception):
    """QEMU could not save or load a state."""


class Monitor(Protocol):
    """One command of QEMU's monitor, and its answer."""

    def __call__(self, command: str, arguments: dict[str, Any] | None = None, file: int | None = None) -> Any:
        """Asks.

        Args:
            command: Its name.
            arguments: Its arguments.
            file: A file descriptor that goes with it.

        Raises:
            MemoryFault: QEMU refuses.
        """


def save(monitor: Monitor, path: Path, deadline: float) -> None:
    """Writes the state of a stopped machine.

    Args:
        monitor: Its monitor.
        path: A new file.
        deadline: On the monotonic clock.

    Raises:
        MemoryFault: It could not be saved in time, or at all.
    """
    monitor("migrate-set-capabilities", _MAPPED)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        monitor("getfd", {"fdname": _FILE}, handle)
    finally:
        os.close(handle)
    monitor("migrate", {"uri": f"fd:{_FILE}"})
    while True:
        told = monitor("query-migrate")
        status = told.get("status")
        if status == "completed":
            return
        if status in ("failed", "cancelled"):
            raise MemoryFault(f"the memory could not be saved: {told.get('error-desc', status)}")
        if time.monotonic() > deadline:
            raise MemoryFault(f"the memory was not saved in time; QEMU says: {status}")
        time.sleep(_PAUSE)


def load(monitor: Monitor, path: Path, deadline: float) -> None:
    """Gives a machine that was started to wait for it (``-incoming defer``) the saved state; it stays stopped.

    Args:
        monitor: Its monitor.
        path: What :func:`save` wrote.
        deadline: On the monotonic clock.

    Raises:
        MemoryFault: QEMU refuses the state, or does not take it over in time.
    """
    monitor("migrate-set-capabilities", _MAPPED)
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        monitor("getfd", {"fdname": _FILE}, handle)
    finally:
        os.close(handle)
    monitor("migrate-incoming", {"uri": f"fd:{_FILE}"})
    while True:
        status = monitor("query-status").get("status")
        if status != "inmigrate":
            break
        if time.monotonic() > deadline:
            raise MemoryFault("the saved memory was not taken over in time")
        time.sleep(_PAUSE)
    if status not in ("paused", "prelaunch", "postmigrate", "running"):
        raise MemoryFault(f"the saved memory was not taken over; QEMU says: {status}")
