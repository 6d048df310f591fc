"""A probe that stays, in guests where starting one takes long: Wine on an emulated processor needs seconds for it.

QEMU's agent cannot talk to a running program, but it opens files, and on Linux a named pipe is one: requests are written into the
pipe that is the probe's input, and its output, a plain file, is read as it grows. Nothing depends on it: whenever something
is not as it should be, the resident probe is ended and the caller starts one for each request.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from runner.guests.agent import Agent, ReplyLost
from runner.guests.base import GuestLost, GuestNotFound, Unreadable
from runner.guests.channel import AgentError
from runner.guests.dialects import AgentCommand
from runner.guests.probe import AnswerSplitter, ProbeError

__all__ = ["ResidentProbe"]

_MOST_OUTPUT = 16 << 20
"""Bytes of output after which a new one is started: the file lies in the guest's memory."""
_FAILURES = 2
"""After so many a guest is spared further ones."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2
_ENDING = 5.0
_BUSY = 2.0
"""Seconds that another request is waited for."""
_LOOK = 1.0
"""Seconds of silence after which it is looked at whether it lives."""
_START = """
set -e
d=$1; shift
mkdir -p -- "$d"; rm -f -- "$d/in" "$d/out"; mkfifo -- "$d/in"; : >"$d/out"
"$@" <>"$d/in" >"$d/out" 2>/dev/null &
echo "started $!"
"""


@dataclass(frozen=True, slots=True)
class _Running:
    """Process, and the agent's handles of its pipe and its output."""

    pid: int
    entry: int
    output: int


class ResidentProbe:
    """The probe's ``serve`` mode in a Linux guest."""

    def __init__(self, agent: Agent, program: tuple[str, ...], folder: str) -> None:
        """Nothing is started yet.

        Args:
            agent: The guest's agent.
            program: What starts the probe, with its arguments.
            folder: The guest's folder for pipe and output; nobody else's.
        """
        self._agent = agent
        self._program = program
        self._folder = folder
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._read = 0
        self._splitter = AnswerSplitter()
        self._failures = 0

    def ask(self, line: bytes, request: str, deadline: float) -> bytes | None:
        """The answer to a request that may be made twice.

        Args:
            line: The request, as ``encode_request`` makes it.
            request: Its id.
            deadline: When to give up.

        Returns:
            The raw answer; ``None`` if this way is not to be had, and the request may or may not have been carried out.

        Raises:
            GuestLost: There is no agent.
        """
        # Another request may take long, such as a program's run: whoever will not wait has one started for himself.
        if not self._lock.acquire(timeout=max(0.0, min(_BUSY, deadline - time.monotonic()))):
            return None
        try:
            if self._failures >= _FAILURES:
                return None
            try:
                running = self._running or self._start(deadline)
                self._agent.send(running.entry, line, deadline=deadline)
                answer = self._wait(running.output, request, deadline)
            except (AgentError, GuestNotFound, ProbeError, ReplyLost, TimeoutError, Unreadable):
                self._failures += 1
                self._end()
                return None
            self._failures = 0
            if self._read > _MOST_OUTPUT:
                self._end()
            return answer
        finally:
            self._lock.release()

    def kept(self) -> dict[str, int | str] | None:
        """What the same guest, saved with its memory now and restored later, needs to go on with it; ``None``: none runs.

        The agent is restored with its open handles, and the probe with its place in their files.
        """
        with self._lock:
            running = self._running
            if running is None:
                return None
            return {
                "folder": self._folder, "pid": running.pid, "entry": running.entry, "output": running.output,
                "read": self._read,
            }  # fmt: skip

    def go_on(self, kept: Mapping[str, int | str]) -> None:
        """Goes on with the one that was running when the guest was saved; if it does not answer, another is started.

        Args:
            kept: What :meth:`kept` gave then.
        """
        with self._lock:
            self._folder = str(kept["folder"])
            self._running = _Running(int(kept["pid"]), int(kept["entry"]), int(kept["output"]))
            self._read = int(kept["read"])
            self._splitter = AnswerSplitter()

    def end(self) -> None:
        """Ends it, if it runs and as far as the agent answers."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            self._agent.close(running.entry)
            self._agent.close(running.output)
            self._kill(running.pid)

    def _kill(self, pid: int) -> None:
        command = AgentCommand("/bin/sh", ("-c", 'kill -9 "$1"; rm -rf -- "$2"', "sh", str(pid), self._folder))
        with contextlib.suppress(AgentError, ReplyLost, TimeoutError, Unreadable, GuestLost):
            self._agent.execute(command, deadline=time.monotonic() + _ENDING)

    def _start(self, deadline: float) -> _Running:
        command = AgentCommand("/bin/sh", ("-c", _START, "sh", self._folder, *self._program))
        done = self._agent.execute(command, deadline=deadline)
        word, _, pid = done.stdout.decode("ascii", "replace").strip().partition(" ")
        if done.status != 0 or word != "started" or not pid.isdecimal():
            raise Unreadable("the resident probe could not be started")
        try:
            # Reading as well, or opening would wait for a reader that is still on its way.
            entry = self._agent.open(f"{self._folder}/in", "r+", deadline=deadline)
            output = self._agent.open(f"{self._folder}/out", "rb", deadline=deadline)
        except BaseException:
            self._kill(int(pid))
            raise
        self._running = _Running(int(pid), entry, output)
        self._read = 0
        self._splitter = AnswerSplitter()
        return self._running

    def _wait(self, output: int, request: str, deadline: float) -> bytes:
        pause = _FIRST_PAUSE
        look = time.monotonic() + _LOOK
        while True:
            chunk = self._agent.read_on(output, self._read, deadline=deadline)
            self._read += len(chunk)
            for answer in self._splitter.feed(chunk):
                if _id_of(answer) == request:  # others are of requests that were given up
                    return answer
            if not chunk:
                if time.monotonic() > look:
                    self._check()
                    look = time.monotonic() + _LOOK
                if time.monotonic() + pause >= deadline:
                    raise TimeoutError("the resident probe did not answer in time")
                time.sleep(pause)
                pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _check(self) -> None:
        """Raises :class:`Unreadable` if the process has died: a dead one has no command line, not even as a zombie."""
        running = self._running
        assert running is not None
        deadline = time.monotonic() + _ENDING
        handle = self._agent.open(f"/proc/{running.pid}/cmdline", "rb", deadline=deadline)
        try:
            if not self._agent.read_on(handle, 0, deadline=deadline):
                raise Unreadable("the resident probe has died")
        finally:
            self._agent.close(handle)


def _id_of(answer: bytes) -> object:
    try:
        header = json.loads(answer[: answer.find(b"\n")])
    except (ValueError, RecursionError):
        raise Unreadable("the resident probe's answer has no header") from None
    return header.get("id") if isinstance(header, dict) else None
