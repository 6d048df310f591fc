"""The way into an embedded machine: files through the sandbox's station, everything else through the resident probe."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from itertools import count
from pathlib import PureWindowsPath

from runner.guests.base import Completed, GuestNotFound, Unreadable
from runner.guests.by_probe import read_by_probe
from runner.guests.probe import AnswerSplitter, ProbeResult, encode_request, parse
from runner.machines.sandbox import Sandbox
from runner.machines.upper_layer import Layers


class WineGuest:
    """A guest (see :class:`runner.guests.base.Guest`) inside a sandbox."""

    def __init__(self, sandbox: Sandbox, *, loader: str, probe: str, layers: Layers | None = None) -> None:
        """Takes the sandbox.

        Args:
            sandbox: Where the machine runs.
            loader: Wine's loader in it.
            probe: The probe's Windows path.
            layers: What the drive is made of, where it is an overlay: it tells what changed without the machine being asked.
        """
        self.layers = layers
        self._sandbox = sandbox
        self._loader = loader
        self._probe_path = probe
        self._resident: _Resident | None = None
        self._lock = threading.Lock()
        self._ids = count(1)
        self._warm: int | None = None
        self._started: list[socket.socket] = []
        """Control sockets of started programs: held open, since closing one would end its program."""

    def warm_up(self) -> None:
        """Makes Wine start its services, with a program that needs no screen and waits until the resident probe is there.

        Services end with the last ordinary program, so it must outlive its purpose.

        Raises:
            Unreadable: It could not be started.
            GuestLost: The sandbox is gone.
        """
        stdin, self._warm = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            argv = [self._loader, self._probe_path, "hash", "--list", "-"]
            self._started.append(self._sandbox.spawn(argv, stdin=stdin, stdout=null, stderr=null))
        finally:
            os.close(stdin)
            os.close(null)

    def _end_warm_up(self) -> None:
        if self._warm is not None:
            os.close(self._warm)
            self._warm = None

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        """See :meth:`Guest.probe`. The resident probe is started anew once when it has died; its commands only read."""
        with self._lock:
            deadline = time.monotonic() + timeout
            for attempt in (1, 2):
                if self._resident is None:
                    self._resident = _Resident(self._sandbox, [self._loader, self._probe_path, "serve"])
                request = f"q{next(self._ids)}"
                try:
                    answer = self._resident.ask([argv[0], "--id", request, *argv[1:]], deadline)
                except Unreadable:
                    self._resident.close()
                    self._resident = None
                    if attempt == 2 or time.monotonic() >= deadline:
                        raise
                else:
                    self._end_warm_up()
                    return parse(answer, expect_id=request)
            raise AssertionError("unreachable")

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        """See :meth:`Guest.read`."""
        try:
            opened = self._sandbox.open_file(str(path), timeout=timeout)
        except GuestNotFound:  # by this spelling; 8.3 names, and what is not there at all, are Wine's to tell
            return read_by_probe(lambda argv: self.probe(*argv, timeout=timeout), path, limit)
        with opened as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise Unreadable(f"{path} holds {size} bytes, more than the {limit} accepted")
            parts = []
            length = 0
            while chunk := file.read(min(1 << 22, limit + 1 - length)):
                parts.append(chunk)
                length += len(chunk)
                if length > limit:
                    raise Unreadable(f"{path} grew beyond {limit} bytes while it was read")
        if length < size:
            raise Unreadable(f"{path}: only {length} of {size} bytes could be read")
        return b"".join(parts)

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        """See :meth:`Guest.write`."""
        with self._sandbox.open_file(str(path), write=True, timeout=timeout) as file:
            left = memoryview(data)
            while left:
                left = left[file.write(left) or 0 :]
        if self.read(path, limit=len(data), timeout=timeout) != data:
            raise Unreadable(f"{path} does not read back as it was written")

    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        """See :meth:`Guest.run`."""
        return self._sandbox.run([self._loader, *argv], timeout=timeout, limit=limit)

    def start(self, argv: Sequence[str], *, cwd: PureWindowsPath | None = None) -> None:
        """See :meth:`Guest.start`."""
        null = os.open(os.devnull, os.O_RDWR)
        try:
            control = self._sandbox.spawn(
                [self._loader, *argv], stdin=null, stdout=null, stderr=null, cwd=str(cwd) if cwd else None
            )
        finally:
            os.close(null)
        self._started.append(control)

    def close(self) -> None:
        """Lets go of everything inside; the sandbox is ended by its owner."""
        self._end_warm_up()
        if self._resident is not None:
            self._resident.close()
            self._resident = None  # its handles' numbers may be others' by the time this is called again
        for control in self._started:
            control.close()


class _Resident:
    """The probe in its ``serve`` mode."""

    def __init__(self, sandbox: Sandbox, argv: Sequence[str]) -> None:
        stdin, self._write = os.pipe2(os.O_CLOEXEC)
        self._read, stdout = os.pipe2(os.O_CLOEXEC)
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            self._control = sandbox.spawn(argv, stdin=stdin, stdout=stdout, stderr=null)
        except BaseException:
            os.close(self._write)
            os.close(self._read)
            raise
        finally:
            for handle in (stdin, stdout, null):
                os.close(handle)
        os.set_blocking(self._read, False)

    def ask(self, argv: Sequence[str], deadline: float) -> bytes:
        """Sends one request and returns the raw answer up to its end record.

        Raises:
            Unreadable: The probe died, or the answer is late or too large; it is of no more use.
        """
        try:
            os.write(self._write, encode_request(argv))
        except OSError as error:
            raise Unreadable(f"the probe does not take requests: {error}") from None
        splitter = AnswerSplitter()
        with selectors.DefaultSelector() as selector:
            selector.register(self._read, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise Unreadable(f"the probe did not answer `{argv[0]}` in time")
                chunk = os.read(self._read, 1 << 18)
                if not chunk:
                    raise Unreadable(f"the probe ended before answering `{argv[0]}`")
                if answers := splitter.feed(chunk):
                    return answers[0]

    def close(self) -> None:
        """Ends it."""
        for handle in (self._write, self._read):
            with contextlib.suppress(OSError):
                os.close(handle)
        self._control.close()
