"""Processes of this host that belong to a machine: told by its id or folder, which are random, on their command lines."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path


def processes_naming(words: Iterable[str]) -> list[int]:
    """The processes whose command line holds one of the words; never this one or those above it.

    Args:
        words: Texts that nothing else bears, such as a machine's id.
    """
    wanted = [os.fsencode(word) for word in words if len(word) >= 8]
    spared = _own()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in spared:
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes()
                if any(word in line for word in wanted):
                    found.append(int(entry.name))
    return found


def kill_naming(words: Iterable[str]) -> int:
    """Kills those processes, as a crash would; returns how many there were.

    Those of another user are left alone and not counted.
    """
    killed = 0
    for pid in processes_naming(words):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def _own() -> set[int]:
    pids, pid = set(), os.getpid()
    while pid > 0 and pid not in pids:
        pids.add(pid)
        try:
            # The program's name stands in brackets and may hold anything; the parent is the second field after it.
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return pids
