"""What differs between guests behind the same agent: real Windows, and Linux whose Windows programs run under Wine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Protocol

__all__ = ["WINDOWS", "WINE", "AgentCommand", "Dialect", "WindowsDialect", "WineDialect"]


@dataclass(frozen=True, slots=True)
class AgentCommand:
    """A program as the agent starts it: its path in the agent's own system, and its arguments."""

    path: str
    arguments: tuple[str, ...]


class Dialect(Protocol):
    """How the agent's system names files and starts Windows programs."""

    @property
    def opens_files(self) -> bool:
        """Whether the agent may open files that programs have open.

        QEMU's agent on Windows shares what it opens for reading only: it cannot open a table that a program writes to, and keeps
        programs from opening what it reads. There it may open nothing but files of our own, and the probe reads the others.
        """

    def native(self, path: PureWindowsPath) -> str | None:
        """A Windows path as the agent's system spells it, letters' case as given; ``None`` if the agent cannot reach it."""

    def program(self, argv: Sequence[str]) -> AgentCommand:
        """How a Windows program is started."""

    def folder(self, path: PureWindowsPath) -> AgentCommand:
        """Makes a folder and those above it; that it is there already is no error."""

    def resident(self, argv: Sequence[str]) -> tuple[tuple[str, ...], str] | None:
        """What starts a Windows program that stays, and the folder for its pipe; ``None`` where none can or need."""

    def digest(self, file: str) -> AgentCommand | None:
        """Writes the file's SHA-256 in hex, then a blank; ``None`` where the agent does not open files."""


@dataclass(frozen=True)
class WindowsDialect:
    """Windows itself, its agent a service."""

    @property
    def opens_files(self) -> bool:
        """See :class:`Dialect`."""
        return False

    def native(self, path: PureWindowsPath) -> str | None:
        """See :class:`Dialect`."""
        return str(path)

    def program(self, argv: Sequence[str]) -> AgentCommand:
        """See :class:`Dialect`. The agent's own quoting is simple, so arguments should be: the rest goes by standard input."""
        return AgentCommand(argv[0], tuple(argv[1:]))

    def folder(self, path: PureWindowsPath) -> AgentCommand:
        """See :class:`Dialect`."""
        return AgentCommand("cmd.exe", ("/d", "/c", "if", "not", "exist", f"{path}\\", "mkdir", str(path)))

    def resident(self, argv: Sequence[str]) -> tuple[tuple[str, ...], str] | None:  # noqa: ARG002 - the protocol's
        """See :class:`Dialect`. Windows starts programs fast."""
        return None

    def digest(self, file: str) -> AgentCommand | None:  # noqa: ARG002 - the protocol's
        """See :class:`Dialect`."""
        return None


@dataclass(frozen=True)
class WineDialect:
    """Linux; Windows programs run under Wine, drive C: is a folder.

    Attributes:
        drive: That folder, absolute.
        launcher: Program and first arguments that start a Windows program whose path and arguments follow, with the environment
            that Wine and its programs need.
        scratch: A folder of the Linux system, in memory, in which a resident probe may have its pipe; ``None``: none stays.
    """

    drive: str = "/mnt/c"
    launcher: tuple[str, ...] = ("/legacyproof/windows",)
    scratch: str | None = None

    @property
    def opens_files(self) -> bool:
        """See :class:`Dialect`."""
        return True

    def native(self, path: PureWindowsPath) -> str | None:
        """See :class:`Dialect`."""
        if (
            path.drive.lower() != "c:"
            or not path.root
            or ".." in path.parts
            or any("/" in part for part in path.parts[1:])
        ):
            return None
        return str(PurePosixPath(self.drive, *path.parts[1:]))

    def program(self, argv: Sequence[str]) -> AgentCommand:
        """See :class:`Dialect`.

        Wine hands its standard error on to whatever its program starts, and the agent calls a program ended only when nobody
        holds its outputs any more: hence the detour.
        """
        return AgentCommand("/bin/sh", ("-c", 'exec "$@" 2>/dev/null', "sh", *self.launcher, *argv))

    def folder(self, path: PureWindowsPath) -> AgentCommand:
        """See :class:`Dialect`."""
        return AgentCommand("/bin/mkdir", ("-p", "--", self.native(path) or ""))

    def resident(self, argv: Sequence[str]) -> tuple[tuple[str, ...], str] | None:
        """See :class:`Dialect`."""
        return None if self.scratch is None else ((*self.launcher, *argv), self.scratch)

    def digest(self, file: str) -> AgentCommand | None:
        """See :class:`Dialect`."""
        return AgentCommand("/usr/bin/sha256sum", ("-z", "--", file))


WINDOWS = WindowsDialect()
"""Windows."""
WINE = WineDialect(scratch="/run/legacyproof")
"""The Linux guest of ``vm_images/debian-wine``."""
