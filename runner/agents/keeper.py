"""Keeps the processes of one program together, so that none outlives it: a small program of its own, run with ``python -I -S``.

It becomes the parent of every process that loses its own below it (``PR_SET_CHILD_SUBREAPER``, prctl(2)), however often the program
forks and whatever session it moves to, starts the program, and waits for its end or for the runner's: the runner holds the other
end of a pipe, the lifeline, which also closes when the runner is killed. Then it ends whatever is left below it and says on another
pipe how the program ended.

Usage: ``keeper.py LIFELINE STATUS GRACE REMOVE PROGRAM [ARGUMENT…]``: two file descriptors, the seconds between asking and killing,
and a file that is removed in the end whatever happens (the task, which holds secrets).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 10.0
"""Seconds after which processes that cannot be ended are given up."""


def main(lifeline: int, status: int, grace: float, remove: str, program: list[str]) -> None:
    """Runs the program and tells its end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stay)  # the runner decides when it is over; a handler, unlike ignoring, is not inherited
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        _tell(status, {"failed": f"processes cannot be kept together: {os.strerror(ctypes.get_errno())}"})
        return
    try:
        started = subprocess.Popen(program, start_new_session=True)  # without our two pipes, which it closes
    except OSError as error:
        _remove(remove)
        _tell(status, {"failed": f"it cannot be started: {error.strerror}"})
        return
    for descriptor in (
        0,
        1,
        2,
    ):  # they are the program's: the runner sees their end when the program and its like are gone
        os.close(descriptor)
    is_asked = _wait(started.pid, lifeline)
    if is_asked:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGTERM)
        _wait(started.pid, None, grace)
    code = started.poll()
    left, alive = _end_all(but=0 if code is not None else started.pid)
    if code is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = started.wait(PATIENCE)
    _remove(remove)
    _tell(status, {"code": code, "left": left, "alive": alive})


def _stay(_number: int, _frame: object) -> None:
    """Does not end."""


def _wait(pid: int, lifeline: int | None, seconds: float | None = None) -> bool:
    """Waits for a child's end; true if the runner asked for the end, or is gone."""
    watched = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        if lifeline is not None:
            poll.register(lifeline, select.POLLIN | select.POLLHUP)
        ready = {descriptor for descriptor, _ in poll.poll(None if seconds is None else seconds * 1000)}
        return bool(ready) and watched not in ready
    finally:
        os.close(watched)


def _end_all(but: int) -> tuple[int, int]:
    """Ends everything below this process; gives how many were left behind by the program, and how many would not end."""
    seen: set[int] = set()
    deadline = time.monotonic() + PATIENCE
    while True:
        below = descendants(os.getpid())
        seen |= below
        for pid in below:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reap(but)
        if not below or time.monotonic() > deadline:
            return len(seen - {but}), len(descendants(os.getpid()))
        time.sleep(0.01)


def descendants(of: int) -> set[int]:
    """Every living process below one."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    parents[int(name)] = int(parent)
    found: set[int] = set()
    level = {of}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level} - found
        found |= level
    return found


def _reap(but: int) -> None:
    """Takes note of ended children, but of the program itself, whose status is asked for elsewhere."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == but:
                return
            os.waitpid(ended.si_pid, os.WNOHANG)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def _tell(status: int, what: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(what).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5:])
