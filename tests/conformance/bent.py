"""Machines and guests that are sound but for one thing: what a check must find.

Each passes everything on to a real one and bends what its name says. They prove that the suite's checks can fail, and that they do
for the fault that is theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

from runner.display.rfb import DisplayAddress
from runner.guests.base import Completed, Guest, GuestNotFound
from runner.guests.probe import ProbeResult
from runner.machines.base import Checkpoint, Freshness, Leftover, Machine, Tag


class Passing:
    """A guest (see :class:`runner.guests.base.Guest`) that passes everything on."""

    def __init__(self, inner: Guest) -> None:
        self.inner = inner

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        return self.inner.probe(*argv, timeout=timeout)

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        return self.inner.read(path, limit=limit, timeout=timeout)

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        self.inner.write(path, data, timeout=timeout)

    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        return self.inner.run(argv, timeout=timeout, limit=limit)

    def start(self, argv: Sequence[str], *, cwd: PureWindowsPath | None = None) -> None:
        self.inner.start(argv, cwd=cwd)


class SwallowsOutput(Passing):
    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        return Completed(super().run(argv, timeout=timeout, limit=limit).status, b"", b"")


class MixesStreams(Passing):
    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        done = super().run(argv, timeout=timeout, limit=limit)
        return Completed(done.status, done.stdout + done.stderr, b"")


class AlwaysEndsWell(Passing):
    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        return replace(super().run(argv, timeout=timeout, limit=limit), status=0)


class LosesHighBits(Passing):
    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        done = super().run(argv, timeout=timeout, limit=limit)
        asked = argv[-1].removeprefix("exit ")
        return replace(done, status=int(asked) & 0xFF) if asked.isdigit() else done


class LetsChildrenLive(Passing):
    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        if "ping" not in argv[-1]:
            return super().run(argv, timeout=timeout, limit=limit)
        self.inner.start(argv)
        time.sleep(timeout)
        raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s")


class IgnoresLimits(Passing):
    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        return super().run(argv, timeout=timeout)

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        return super().read(path, limit=1 << 30, timeout=timeout)


class TouchesTimes(Passing):
    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        data = super().read(path, limit=limit, timeout=timeout)
        self.inner.write(path, data)
        return data


class TextMode(Passing):
    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        return super().read(path, limit=limit, timeout=timeout).replace(b"\r\n", b"\n").partition(b"\x1a")[0]


class EmptyForMissing(Passing):
    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        try:
            return super().read(path, limit=limit, timeout=timeout)
        except GuestNotFound:
            return b""


class AnsiPaths(Passing):
    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        return super().read(self._ansi(path), limit=limit, timeout=timeout)

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        super().write(self._ansi(path), data, timeout=timeout)

    @staticmethod
    def _ansi(path: PureWindowsPath) -> PureWindowsPath:
        return PureWindowsPath(str(path).encode("cp1252", "replace").decode("cp1252").replace("?", "_"))


class KeepsEnds(Passing):
    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        try:
            old = self.inner.read(path, limit=1 << 30)
        except GuestNotFound:
            old = b""
        super().write(path, data + old[len(data) :], timeout=timeout)


class ServiceSession(Passing):
    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        answer = super().probe(*argv, timeout=timeout)
        return replace(answer, header=replace(answer.header, session=0, screen="service"))


class WrongClock(Passing):
    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        answer = super().probe(*argv, timeout=timeout)
        return replace(answer, header=replace(answer.header, time=answer.header.time + 600_000_000, tz_bias_min=0))


class ForgetsFiles(Passing):
    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        answer = super().probe(*argv, timeout=timeout)
        return replace(answer, files=answer.files[:50])


class BentMachine:
    """A machine (see :class:`runner.machines.base.Machine`) that passes everything on to another; discarding it does nothing."""

    def __init__(self, inner: Machine, tag: Tag, guest: Callable[[Guest], Guest] = Passing) -> None:
        self.inner = inner
        self.id = inner.id
        self.tag = tag
        self.timings = inner.timings
        self._guest = guest(inner.guest)

    @property
    def guest(self) -> Guest:
        return self._guest

    @property
    def display(self) -> DisplayAddress:
        return self.inner.display

    @property
    def freshness(self) -> Freshness:
        return self.inner.freshness

    def start(self, programs: Sequence[Any]) -> None:
        self.inner.start(programs)

    def ensure_alive(self) -> None:
        self.inner.ensure_alive()

    def discard(self) -> None:
        pass


class OneForAll:
    """A provider whose clones are all the same machine, seen through a bent guest; nothing is ever listed or discarded."""

    digest = "0" * 64

    def __init__(self, machine: Machine, guest: Callable[[Guest], Guest] = Passing) -> None:
        self._machine = machine
        self._guest = guest

    def prepare(self, image: object, setup: object, start: object, *, folder: Path) -> Checkpoint:
        return self

    def clone(self, tag: Tag) -> Machine:
        return BentMachine(self._machine, tag, self._guest)

    def leftovers(self) -> Sequence[Leftover]:
        return ()

    def reap(self, leftover: Leftover) -> None:
        pass
