"""The way into a machine: one protocol for every guest channel.

A guest reads and writes files, lists trees and windows, and runs programs. Each call has a deadline. What could not be read
is :class:`Unreadable`, never an empty answer; a machine that does not answer at all is :class:`GuestLost`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from validators.changes import Unreadable

if TYPE_CHECKING:
    from runner.guests.probe import ProbeResult


__all__ = ["Completed", "Guest", "GuestLost", "GuestNotFound", "Unreadable", "is_below"]


class GuestLost(Exception):
    """The guest channel is gone: the machine died or does not answer (unscored: machine)."""


class GuestNotFound(Exception):
    """The file is not there; told apart from "could not be read" by a positive answer of the guest."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that has ended in the guest.

    Attributes:
        status: Its exit status.
        stdout: What it wrote, as bytes in the program's own encoding.
        stderr: The same for standard error.
    """

    status: int
    stdout: bytes
    stderr: bytes


@runtime_checkable
class Guest(Protocol):
    """What the runner needs of a guest channel."""

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        """Runs one command of the native probe and returns its verified result.

        Args:
            argv: The command and its arguments, e.g. ``"windows", "--children"``.
            timeout: Seconds.

        Raises:
            Unreadable: The answer is incomplete, contradictory or late.
            GuestLost: The channel is gone.
        """

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        """Reads a file with shared access, without touching its times or attributes.

        Args:
            path: Absolute path in the guest; case does not matter.
            limit: The largest size in bytes that is accepted.
            timeout: Seconds.

        Raises:
            GuestNotFound: The guest says that there is no such file.
            Unreadable: It is there but larger than ``limit``, not a plain file, or could not be read whole.
            GuestLost: The channel is gone.
        """

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        """Writes a file, making its folders; for set-up only, never during a run.

        Raises:
            Unreadable: It could not be written or does not read back the same.
            GuestLost: The channel is gone.
        """

    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        """Runs a program to its end; it is ended with its children when time runs out.

        Args:
            argv: Program (absolute guest path) and arguments.
            timeout: Seconds.
            limit: Bytes kept of each output stream.

        Raises:
            TimeoutError: It did not end in time.
            GuestLost: The channel is gone.
        """

    def start(self, argv: Sequence[str], *, cwd: PureWindowsPath | None = None) -> None:
        """Starts a program on the interactive desktop and does not wait for it.

        Raises:
            Unreadable: It could not be started.
            GuestLost: The channel is gone.
        """


def is_below(path: PureWindowsPath, roots: Iterable[PureWindowsPath]) -> bool:
    """Whether a path is one of the roots or lies below one, by Windows' rules (no case)."""
    return any(path == root or root in path.parents for root in roots)
