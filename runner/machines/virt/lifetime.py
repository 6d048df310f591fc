"""Whose a domain is, whether that runner lives, and where its sockets lie.

Several hosts or containers may share one libvirt daemon, and in each there may be a process of the same number: what tells runners
apart is random. Every connection has a token, every home an id, and both stand in the tag of each domain. In the home lies, for each
connection, a lock that is held as long as its runner lives (as in :mod:`runner.machines.folders`), and, where libvirt works without a
daemon, a link to the folder that this libvirt keeps its files in.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from runner.machines.base import MachineError, home, is_locked, lock

_PREFIX = "lp-"
_LINK = "run-"
_TOKEN = re.compile(r"[0-9a-f]{16}")


def new_token() -> str:
    """A random one."""
    return secrets.token_hex(8)


def is_token(text: str) -> bool:
    """Whether it is one: tokens become part of paths."""
    return _TOKEN.fullmatch(text) is not None


def libvirt_folder() -> Path:
    """Where this home keeps what belongs to connections."""
    folder = home() / "libvirt"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def home_id() -> str:
    """What tells this home from every other one; made when it is first asked for.

    Raises:
        MachineError: Its file does not hold one.
    """
    file = libvirt_folder() / "home-id"
    if not file.exists():
        written = file.with_suffix(f".{new_token()}")
        written.write_text(new_token())
        with contextlib.suppress(FileExistsError):
            file.hardlink_to(written)  # unlike renaming, it leaves the id of another process that was faster
        written.unlink()
    found = file.read_text(errors="replace").strip()
    if not is_token(found):
        raise MachineError(f"{file} does not hold the id of this home; remove it once no machine of this home runs")
    return found


@dataclass(frozen=True, slots=True)
class RunnerFiles:
    """What one connection of a runner has on this host.

    Attributes:
        folder: Of the home (:func:`libvirt_folder`).
        token: The connection's.
    """

    folder: Path
    token: str

    @classmethod
    def of_link(cls, link: Path) -> RunnerFiles:
        """Those whose :attr:`link` lies there."""
        return cls(link.parent, link.name.removeprefix(_LINK))

    @property
    def lock(self) -> Path:
        """Held as long as the runner lives."""
        return self.folder / f"{self.token}.lock"

    @property
    def link(self) -> Path:
        """Leads to :attr:`root`."""
        return self.folder / f"{_LINK}{self.token}"

    @property
    def alive(self) -> bool:
        """Whether the runner lives."""
        return self.lock.exists() and is_locked(self.lock)

    @property
    def pid(self) -> int:
        """The runner's process, for people; 0: not recorded."""
        try:
            return int(self.lock.read_text())
        except (OSError, ValueError):
            return 0

    @property
    def root(self) -> Path | None:
        """The folder of libvirt's driver; ``None``: there is none any more, or what the link leads to is not ours."""
        try:
            target = self.link.readlink()
            found = target.lstat()
        except OSError:
            return None
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and target.name.startswith(_PREFIX)
        return target if ours else None

    def enter(self) -> IO[str]:
        """Proves from now on that the runner lives, until the file is closed."""
        new = self.folder / f".{self.token}.new"  # nobody may find it before it is locked
        held = lock(new)
        if held is None:
            raise MachineError(f"{new} is in use")
        held.write(f"{os.getpid()}\n")
        held.flush()
        new.rename(self.lock)
        return held

    def make_root(self) -> Path:
        """A folder for libvirt's driver that is nobody else's, with the link to it.

        It does not lie in the home, whose path may be too long: the whole path of a socket may have 107 bytes. Nor does it lie in
        ``$XDG_RUNTIME_DIR``, which goes away when the user logs out, though the campaign may go on.
        """
        root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
        self.link.symlink_to(root)
        return root

    def remove(self) -> None:
        """Removes the driver's folder, then what leads to it; safe to call twice.

        Raises:
            MachineError: The folder could not be removed; the rest stays, so that it is found again.
        """
        if (root := self.root) is not None:
            shutil.rmtree(root, ignore_errors=True)
            if root.exists():
                raise MachineError(f"{root} could not be removed; `legacyproof machines reap` tries again")
        self.link.unlink(missing_ok=True)
        self.lock.unlink(missing_ok=True)


def known_runners() -> Iterator[RunnerFiles]:
    """Every connection that has something in this home, of living and of dead runners."""
    for file in sorted((home() / "libvirt").glob("*.lock")):
        if is_token(file.stem):
            yield RunnerFiles(file.parent, file.stem)
