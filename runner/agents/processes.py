"""Running a program of the user's so that it ends in time and nothing of it is left: see :mod:`runner.agents.keeper`."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from runner.agents.keeper import descendants

KEEPER = Path(__file__).with_name("keeper.py")
MARK = "LEGACYPROOF_MARK"
"""An environment variable by which processes are found that got away from their keeper."""
MAX_WRITTEN = 64 << 20
"""Bytes on standard output and standard error together after which a program is ended."""
KEPT_OUTPUT = 9 << 20
"""The last bytes of standard output that are kept: more than a report may have, so that a longer one is noticed."""
KEPT_ERRORS = 64 << 10
"""The last bytes of standard error that are kept."""
GRACE = 1.0
"""Seconds between asking a program to end (SIGTERM) and ending it."""
_PATIENCE = 13.0
"""Seconds after which a keeper that was asked to end everything is given up; longer than its own patience and the grace."""
_LOOK = 0.1

Why = Literal["itself", "time", "cancelled", "output", "lost", "not started"]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended.

    Attributes:
        why: By itself; because its time was over, the run cancelled, or it wrote too much; ``lost`` where its keeper was killed.
        code: Its exit status, negative for a signal; ``None`` where that is not known.
        output: The last bytes of its standard output.
        errors: The last bytes of its standard error.
        left: Processes that it left behind, which were ended.
        alive: Processes that could not be ended.
        reason: Why it was not started.
    """

    why: Why
    code: int | None = None
    output: bytes = b""
    errors: bytes = b""
    left: int = 0
    alive: int = 0
    reason: str = ""


class _Tail:
    """The last bytes of a stream."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.total = 0
        self._most = most

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self.data += data
        if len(self.data) > 2 * self._most:
            del self.data[: -self._most]

    def bytes(self) -> bytes:
        return bytes(self.data[-self._most :])


def run_kept(
    program: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    standard_input: Path,
    deadline: float,
    cancelled: threading.Event,
) -> Ended:
    """Runs a program to its end, and ends it and everything it started.

    Args:
        program: The program's path and its arguments.
        environment: All of its environment.
        folder: Its working directory.
        standard_input: A file that it reads on standard input; it is removed in the end, also when the runner is killed.
        deadline: A moment of ``time.monotonic()``.
        cancelled: Set to end it before.
    """
    mark = secrets.token_hex(16)
    with contextlib.ExitStack() as stack:
        lifeline, ours = _pipe(stack)
        status, theirs = _pipe(stack)
        with standard_input.open("rb") as source:
            keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), str(lifeline.fileno()), str(theirs.fileno()), str(GRACE),
                 str(standard_input), *program],
                stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder,
                env={**environment, MARK: mark}, pass_fds=(lifeline.fileno(), theirs.fileno()), start_new_session=True,
            )  # fmt: skip
        lifeline.close()
        theirs.close()
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        stack.enter_context(keeper.stdout)
        stack.enter_context(keeper.stderr)
        try:
            return _followed(keeper, ours, status, deadline, cancelled)
        finally:
            ours.close()
            try:
                keeper.wait(2.0)
            except subprocess.TimeoutExpired:
                end_with_keeper(keeper.pid)
                keeper.wait(2.0)
            _end_marked(mark)


def _pipe(stack: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return stack.enter_context(os.fdopen(reading, "rb", 0)), stack.enter_context(os.fdopen(writing, "wb", 0))


def _followed(
    keeper: subprocess.Popen[bytes], lifeline: IO[bytes], status: IO[bytes], deadline: float, cancelled: threading.Event
) -> Ended:
    assert keeper.stdout is not None
    assert keeper.stderr is not None
    output, errors, said = _Tail(KEPT_OUTPUT), _Tail(KEPT_ERRORS), _Tail(4096)
    why: Why = "itself"
    give_up = float("inf")
    with selectors.DefaultSelector() as selector:
        for stream, tail in ((keeper.stdout, output), (keeper.stderr, errors), (status, said)):
            selector.register(stream, selectors.EVENT_READ, tail)
        is_over = False
        while not is_over and time.monotonic() < give_up:
            reason = _reason_to_end(output.total + errors.total, deadline, cancelled)
            if reason is not None and why == "itself":
                why, give_up = reason, time.monotonic() + _PATIENCE
                lifeline.close()
            _wake(keeper.pid)
            for key, _ in selector.select(_LOOK):
                data = os.read(key.fd, 1 << 16)
                key.data.add(data)
                if not data:
                    selector.unregister(key.fileobj)
                    is_over = is_over or key.data is said  # the keeper is gone
            is_over = is_over or said.total > 0
        _drain(selector)
    return _ended(why, said.bytes(), output, errors)


def _reason_to_end(written: int, deadline: float, cancelled: threading.Event) -> Why | None:
    if cancelled.is_set():
        return "cancelled"
    if time.monotonic() >= deadline:
        return "time"
    return "output" if written > MAX_WRITTEN else None


def _drain(selector: selectors.BaseSelector) -> None:
    """Takes what was written before the end; pipes hold little, and nobody writes any more."""
    most = 64
    while selector.get_map() and most and (ready := selector.select(0)):
        most -= 1
        for key, _ in ready:
            data = os.read(key.fd, 1 << 16)
            key.data.add(data)
            if not data:
                selector.unregister(key.fileobj)


def _ended(why: Why, said: bytes, output: _Tail, errors: _Tail) -> Ended:
    written = (output.bytes(), errors.bytes())
    try:
        told = json.loads(said)
        if "failed" in told:
            return Ended("not started", None, *written, reason=str(told["failed"]))
        return Ended(why, told["code"], *written, left=told["left"], alive=told["alive"])
    except (ValueError, TypeError, KeyError):
        return Ended("lost" if why == "itself" else why, None, *written)


def _wake(pid: int) -> None:
    """Lets a keeper go on that was stopped: a program may do that to its parent, who then would neither end it nor tell of its end."""
    with contextlib.suppress(OSError, IndexError):
        if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"T", b"t"):
            os.kill(pid, signal.SIGCONT)


def end_with_keeper(pid: int) -> None:
    """Ends a keeper that does not do its work, after everything below it: as long as it lives, even stopped, nothing leaves it."""
    deadline = time.monotonic() + 5.0
    while (below := descendants(pid)) and time.monotonic() < deadline:
        for each in below:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.01)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def end_abandoned(folder: Path) -> int:
    """Ends the keepers of a dead runner, with their programs, that it left in a run's folder; how many there were.

    A keeper ends by itself when its runner does, but not one that its program has stopped.
    """
    wanted = os.fsencode(folder.absolute()) + b"/"
    found = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read(1 << 16).split(b"\0")
                if words[3:4] == [os.fsencode(KEEPER)] and words[7:8] and words[7].startswith(wanted):
                    end_with_keeper(int(name))
                    found += 1
    return found


def _end_marked(mark: str) -> None:
    """Ends processes that carry our mark and were not below the keeper any more, because it was killed."""
    deadline = time.monotonic() + 5.0
    while (found := list(_marked(mark))) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(pid)
                try:
                    if pid in set(_marked(mark, only=pid)):  # the number is still that of the process we mean
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                finally:
                    os.close(descriptor)
        time.sleep(0.01)


def _marked(mark: str, only: int | None = None) -> Iterator[int]:
    wanted = f"{MARK}={mark}".encode()
    for name in os.listdir("/proc") if only is None else [str(only)]:
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if wanted in file.read(1 << 20).split(b"\0"):
                    yield int(name)
