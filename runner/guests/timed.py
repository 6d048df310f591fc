"""A guest of whom everything together is asked within one deadline.

A channel that hangs lets every call run into its own time-out; of many calls one after the other that makes minutes. Here the first
one that hangs uses the time up, and those after it are refused at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PureWindowsPath

from runner.guests.base import Completed, Guest, Unreadable
from runner.guests.probe import ProbeResult


@dataclass(frozen=True, slots=True)
class Deadline:
    """When something has to be done.

    Attributes:
        at: The moment, by :func:`time.monotonic`.
        what: What is said when it is over, such as ``the 120 s for reading a snapshot are over``.
    """

    at: float
    what: str

    @classmethod
    def after(cls, seconds: float, what: str) -> Deadline:
        """The deadline that many seconds from now."""
        return cls(time.monotonic() + seconds, what)

    def later(self, seconds: float) -> Deadline:
        """The same, put off by the time that something else took."""
        return replace(self, at=self.at + seconds)

    @property
    def over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at

    def left(self, most: float = float("inf")) -> float:
        """The seconds that are left, ``most`` at the most.

        Raises:
            Unreadable: There are none.
        """
        left = self.at - time.monotonic()
        if left <= 0:
            raise Unreadable(self.what)
        return min(left, most)


class TimedGuest:
    """A guest (see :class:`runner.guests.base.Guest`) whose calls share a deadline; late ones are :class:`Unreadable`."""

    def __init__(self, guest: Guest, deadline: Deadline) -> None:
        self._guest = guest
        self._deadline = deadline
        self.layers = getattr(guest, "layers", None)
        """What the guest's drive is made of, where it can tell (:mod:`runner.layered_trees`)."""

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        """See :meth:`Guest.probe`."""
        return self._guest.probe(*argv, timeout=self._deadline.left(timeout))

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        """See :meth:`Guest.read`."""
        return self._guest.read(path, limit=limit, timeout=self._deadline.left(timeout))

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        """See :meth:`Guest.write`."""
        self._guest.write(path, data, timeout=self._deadline.left(timeout))

    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        """See :meth:`Guest.run`."""
        return self._guest.run(argv, timeout=self._deadline.left(timeout), limit=limit)

    def start(self, argv: Sequence[str], *, cwd: PureWindowsPath | None = None) -> None:
        """See :meth:`Guest.start`."""
        self._deadline.left()
        self._guest.start(argv, cwd=cwd)
