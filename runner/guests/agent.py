"""QEMU's guest agent, call by call: deadlines, what may be sent again, and replies that are believed only when they make sense.

What may be sent again and why:

* Asking changes nothing: ``guest-ping``, ``guest-fsfreeze-status``, ``guest-get-time``, ``guest-file-seek`` to a place, and
  ``guest-exec-status`` while the program runs.
* ``guest-file-read`` and ``guest-file-write`` move the file's position, so they are repeated behind a seek to where they began.
* ``guest-file-open`` may leave a handle behind that nobody knows; it harms nobody, since what is opened is our own or on Linux.
* ``guest-exec`` is never sent again here: the program may be running. The agent forgets a program once it has reported its end,
  so the output is lost with that one reply as well (:class:`ReplyLost`). Who runs something that may run twice, or that
  recognises its second time, asks anew.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from runner.guests.base import GuestLost, GuestNotFound, Unreadable
from runner.guests.channel import AgentError, Channel, ChannelTimeout
from runner.guests.dialects import AgentCommand

__all__ = ["READ_CHUNK", "WRITE_CHUNK", "Agent", "Ended", "ReplyLost"]

READ_CHUNK = 1 << 20
"""Bytes of one read; libvirt's own messages end at 4 MiB, and more at once is not faster."""
WRITE_CHUNK = 1 << 16
"""Bytes of one write; from 256 KiB on QEMU's agent loses its footing."""
_ATTEMPTS = 3
_PATIENCE = 10.0
"""Seconds that one reply is waited for where no other time is given."""
_CLOSING = 5.0
"""Seconds for closing a handle, even when the call's own time is over."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5
"""Seconds between two questions whether a program has ended."""


class ReplyLost(Exception):
    """The reply to something that may have happened did not come, or a program's end was reported to nobody."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that the agent started and that has ended.

    Attributes:
        status: Exit status, or minus the signal that ended it.
        stdout: What it wrote.
        stderr: The same for standard error.
        cut: The agent kept only a part of either.
    """

    status: int
    stdout: bytes
    stderr: bytes
    cut: bool


class _Reply:
    """A reply's members with strict types; what does not fit is :class:`Unreadable`."""

    def __init__(self, name: str, value: object) -> None:
        self._name = name
        if type(value) is not dict:
            raise self._senseless("is no object")
        self._members: dict[str, object] = value

    def _senseless(self, what: str) -> Unreadable:
        return Unreadable(f"the guest agent's reply to {self._name} {what}")

    def integer(self, member: str) -> int:
        value = self._members.get(member)
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            raise self._senseless(f"has no number {member!r}")
        return value

    def optional_integer(self, member: str) -> int | None:
        return self.integer(member) if member in self._members else None

    def flag(self, member: str) -> bool:
        value = self._members.get(member, False)
        if type(value) is not bool:
            raise self._senseless(f"has no flag {member!r}")
        return value

    def data(self, member: str) -> bytes:
        value = self._members.get(member, "")
        if type(value) is not str:
            raise self._senseless(f"has no text {member!r}")
        try:
            return base64.b64decode(value.encode("ascii"), validate=True)
        except (binascii.Error, UnicodeEncodeError):
            raise self._senseless(f"has no base64 in {member!r}") from None


class Agent:
    """The agent of one machine. Deadlines are times of :func:`time.monotonic`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def call(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        deadline: float,
        repeat: bool = True,
        patience: float = _PATIENCE,
    ) -> object:
        """One command, sent again a few times if that changes nothing.

        Args:
            name: The command.
            arguments: Its arguments.
            deadline: When to give up.
            repeat: Whether it may be carried out more than once.
            patience: Seconds for one reply.

        Raises:
            AgentError: The agent refused.
            ReplyLost: No reply came.
            GuestLost: There is no agent.
        """
        last: ChannelTimeout | None = None
        for _ in range(_ATTEMPTS if repeat else 1):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            with self._lock:
                try:
                    return self._channel.command(name, arguments or {}, min(left, patience))
                except ChannelTimeout as error:
                    last = error
        raise ReplyLost(f"{name}: {last or 'its time was over'}")

    def answers(self, *, within: float) -> bool:
        """Whether the agent replies to a ping."""
        try:
            self.call("guest-ping", deadline=time.monotonic() + within, patience=within)
        except (ReplyLost, GuestLost, AgentError):
            return False
        return True

    # ---- programs ------------------------------------------------------------------------------------------------------

    def execute(self, command: AgentCommand, *, data: bytes = b"", deadline: float) -> Ended:
        """Runs a program to its end; when time is over it is left alone.

        Args:
            command: The program.
            data: Its standard input.
            deadline: When to give up.

        Raises:
            AgentError: It could not be started.
            ReplyLost: Whether it was started, or how it ended, is not known.
            TimeoutError: It has not ended in time.
            Unreadable: A reply makes no sense.
            GuestLost: There is no agent.
        """
        arguments: dict[str, object] = {
            "path": command.path,
            "arg": list(command.arguments),
            "capture-output": True,
        }
        if data:
            arguments["input-data"] = base64.b64encode(data).decode("ascii")
        started = self.call("guest-exec", arguments, deadline=deadline, repeat=False)
        pid = _Reply("guest-exec", started).integer("pid")
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = self.call("guest-exec-status", {"pid": pid}, deadline=deadline)
            except AgentError as error:  # it was reported before, or the agent has been started anew
                raise ReplyLost(f"the end of program {pid} was not seen: {error.reason}") from None
            status = _Reply("guest-exec-status", answer)
            if status.flag("exited"):
                break
            if time.monotonic() + pause >= deadline:
                raise TimeoutError(f"{command.path} did not end in time")
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
        code, signal = status.optional_integer("exitcode"), status.optional_integer("signal")
        if code is None and signal is None:
            raise Unreadable("the guest agent's reply to guest-exec-status tells no exit status")
        return Ended(
            code if code is not None else -(signal or 0),
            status.data("out-data"),
            status.data("err-data"),
            status.flag("out-truncated") or status.flag("err-truncated"),
        )

    # ---- files ---------------------------------------------------------------------------------------------------------

    def read_file(self, path: str, *, limit: int, deadline: float) -> bytes:
        """A file's content, in chunks.

        Args:
            path: As the agent's system spells it.
            limit: The largest size accepted.
            deadline: When to give up.

        Raises:
            GuestNotFound: A Linux agent says that there is none.
            Unreadable: It is too large, no plain file, or not as long as it said.
            AgentError: It could not be opened or read.
            ReplyLost: Replies did not come.
            GuestLost: There is no agent.
        """
        try:
            handle = self.open(path, "rb", deadline=deadline)
        except AgentError as error:
            # Of Linux only: Windows says it in the language of the machine, and is not asked here.
            # At the end: a path that stands before it may hold any words.
            if error.reason.endswith(("No such file or directory", "Not a directory")):
                raise GuestNotFound(path) from None
            raise
        try:
            # A pipe or a device has no end to go to: the agent says so.
            size = self._seek(handle, 0, "end", deadline)
            if size > limit:
                raise Unreadable(f"{path} holds {size} bytes, more than the {limit} accepted")
            self._seek(handle, 0, "set", deadline)
            content = bytearray()
            while len(content) < size:
                chunk = self._read(handle, len(content), min(READ_CHUNK, size - len(content)), deadline)
                if not chunk:
                    raise Unreadable(f"{path}: only {len(content)} of {size} bytes could be read")
                content += chunk
        finally:
            self.close(handle)
        return bytes(content)

    def write_file(self, path: str, data: bytes, *, deadline: float) -> None:
        """Writes a file of our own, in chunks; that it arrived whole is for the caller to check.

        Raises:
            AgentError: It could not be opened or written.
            Unreadable: The agent wrote less than it was given.
            ReplyLost: Replies did not come.
            GuestLost: There is no agent.
        """
        handle = self.open(path, "wb", deadline=deadline)
        try:
            for offset in range(0, len(data), WRITE_CHUNK):
                self._write(handle, offset, data[offset : offset + WRITE_CHUNK], deadline)
            self.call("guest-file-flush", {"handle": handle}, deadline=deadline)
        finally:
            self.close(handle)

    def open(self, path: str, mode: str, *, deadline: float) -> int:
        """A handle of a file; errors as for :meth:`call`, and :class:`Unreadable` for a senseless reply."""
        reply = self.call("guest-file-open", {"path": path, "mode": mode}, deadline=deadline)
        return _Reply("guest-file-open", {"handle": reply}).integer("handle")

    def close(self, handle: int) -> None:
        """Closes it whatever happened before, with time of its own. "Not found" is the answer to the second try."""
        with contextlib.suppress(AgentError, ReplyLost, GuestLost):
            self.call("guest-file-close", {"handle": handle}, deadline=time.monotonic() + _CLOSING)

    def send(self, handle: int, data: bytes, *, deadline: float) -> None:
        """Writes into a pipe; never twice, since a pipe takes nothing back.

        Raises:
            AgentError: It could not be written.
            Unreadable: The agent wrote less than it was given.
            ReplyLost: Whether it was written is not known.
            GuestLost: There is no agent.
        """
        for start in range(0, len(data), WRITE_CHUNK):
            chunk = data[start : start + WRITE_CHUNK]
            arguments = {"handle": handle, "buf-b64": base64.b64encode(chunk).decode("ascii")}
            reply = self.call("guest-file-write", arguments, deadline=deadline, repeat=False)
            if _Reply("guest-file-write", reply).integer("count") != len(chunk):
                raise Unreadable("the guest agent wrote less than it was given")
        self.call("guest-file-flush", {"handle": handle}, deadline=deadline)

    def read_on(self, handle: int, offset: int, *, deadline: float) -> bytes:
        """What a growing file holds from an offset on, which is where the last reading ended; empty if there is no more yet.

        Raises: as :meth:`read_file` for an open file.
        """
        return self._read(handle, offset, READ_CHUNK, deadline)

    def _seek(self, handle: int, offset: int, whence: str, deadline: float) -> int:
        arguments = {"handle": handle, "offset": offset, "whence": whence}
        reply = _Reply("guest-file-seek", self.call("guest-file-seek", arguments, deadline=deadline))
        position = reply.integer("position")
        if position < 0 or (whence == "set" and position != offset):
            raise Unreadable("the guest agent's reply to guest-file-seek tells of another place")
        return position

    def _read(self, handle: int, offset: int, count: int, deadline: float) -> bytes:
        arguments = {"handle": handle, "count": count}
        reply = _Reply("guest-file-read", self._at(handle, offset, "guest-file-read", arguments, deadline))
        chunk = reply.data("buf-b64")
        if reply.integer("count") != len(chunk) or len(chunk) > count:
            raise Unreadable("the guest agent's reply to guest-file-read is not as long as it says")
        return chunk

    def _write(self, handle: int, offset: int, chunk: bytes, deadline: float) -> None:
        arguments = {"handle": handle, "buf-b64": base64.b64encode(chunk).decode("ascii")}
        reply = _Reply("guest-file-write", self._at(handle, offset, "guest-file-write", arguments, deadline))
        if reply.integer("count") != len(chunk):
            raise Unreadable("the guest agent wrote less than it was given")

    def _at(self, handle: int, offset: int, name: str, arguments: Mapping[str, object], deadline: float) -> object:
        """A command that moves the file's position: behind a lost reply it begins at its own place again."""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._seek(handle, offset, "set", deadline)
            try:
                return self.call(name, arguments, deadline=deadline, repeat=False)
            except ReplyLost:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    # ---- the machine's file systems and clock --------------------------------------------------------------------------

    def freeze(self, *, deadline: float) -> int:
        """Flushes and freezes the file systems; how many.

        Raises:
            AgentError: The agent could not.
            Unreadable: None was frozen, or that it was is not known.
            ReplyLost: Replies did not come.
            GuestLost: There is no agent.
        """
        patience = max(_PATIENCE, deadline - time.monotonic())
        try:
            reply = self.call("guest-fsfreeze-freeze", deadline=deadline, repeat=False, patience=patience)
        except ReplyLost:
            if self.frozen(deadline=time.monotonic() + _CLOSING):
                return 1  # at least
            raise
        count = _Reply("guest-fsfreeze-freeze", {"count": reply}).integer("count")
        if count < 1 or not self.frozen(deadline=time.monotonic() + _CLOSING):
            raise Unreadable("the guest agent froze no file system")
        return count

    def frozen(self, *, deadline: float) -> bool:
        """Whether the agent says that file systems are frozen; errors as for :meth:`call`."""
        return self.call("guest-fsfreeze-status", deadline=deadline) == "frozen"

    def thaw(self, *, deadline: float) -> int:
        """Thaws them; how many were still frozen, at least one if a reply was lost and they are thawed now.

        Raises:
            AgentError: The agent could not.
            ReplyLost: Replies did not come: they may still be frozen.
            GuestLost: There is no agent.
        """
        for _ in range(_ATTEMPTS):
            try:
                reply = self.call("guest-fsfreeze-thaw", deadline=deadline, repeat=False)
            except ReplyLost:
                if not self.frozen(deadline=deadline):
                    return 1
            else:
                return _Reply("guest-fsfreeze-thaw", {"count": reply}).integer("count")
        raise ReplyLost("guest-fsfreeze-thaw: the file systems may still be frozen")

    def time(self, *, deadline: float) -> int:
        """The guest's clock, in nanoseconds since 1970; errors as for :meth:`call`."""
        return _Reply("guest-get-time", {"time": self.call("guest-get-time", deadline=deadline)}).integer("time")

    def set_time(self, now: int, *, deadline: float) -> None:
        """Sets the guest's clock.

        Args:
            now: Nanoseconds since 1970; it is taken to be true at the moment of this call.
            deadline: When to give up.

        Raises:
            AgentError: The agent could not, and the clock shows another time.
            ReplyLost: Replies did not come.
            GuestLost: There is no agent.
        """
        called = time.monotonic_ns()

        def true() -> int:
            return now + time.monotonic_ns() - called

        for attempt in range(_ATTEMPTS):
            try:
                self.call("guest-set-time", {"time": true()}, deadline=deadline, repeat=False)
            except ReplyLost:
                if attempt == _ATTEMPTS - 1:
                    raise
            except AgentError:
                # The system's clock is set first; only handing it to the machine's own may have failed, which nobody reads.
                if abs(self.time(deadline=deadline) - true()) > 2_000_000_000:
                    raise
                return
            else:
                return
