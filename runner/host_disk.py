"""Files of ours that this computer does not take: which, why, how much room there is, and what to do about it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from runner.machines.base import home

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_ROOM = FULL | {errno.EROFS}
"""Errors that say of a file system that it takes nothing, whatever is written."""
_OF_THE_PLACE = frozenset({
    errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP,
})  # fmt: skip
"""What lies in the choice of the place, and not in the state of the computer."""

_NOT_YOURS = "this user may not write there"
_WHY = {
    errno.ENOSPC: "the host's disk is full",
    errno.EDQUOT: "the host's disk is full for this user, whose quota is used up",
    errno.EROFS: "the host's file system is read-only",
    errno.EACCES: _NOT_YOURS,
    errno.EPERM: _NOT_YOURS,
}
"""What errors of a file system mean."""

CAMPAIGNS = "name another folder for campaigns with --runs"
HOME = "set LEGACYPROOF_HOME to a folder elsewhere"


class Unwritable(OSError):
    """A file of ours cannot be written; as text it names file, reason and remedy.

    Attributes:
        status: The exit status it leads to: 2 where another place has to be named, 3 where the computer is at fault.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(number, message)
        self.status = 2 if number in _OF_THE_PLACE else 3

    def __str__(self) -> str:
        return str(self.strerror)


def unwritable(error: OSError, path: Path, remedy: str, *, needed: int = 0) -> Unwritable:
    """An error of the file system in words.

    Args:
        error: What the system said; one that is in words already is passed on.
        path: What could not be written.
        remedy: What to do instead of making room, such as :data:`CAMPAIGNS` or :data:`HOME`.
        needed: The bytes that were to be written, where that is known.
    """
    if isinstance(error, Unwritable):
        return error
    number = error.errno or errno.EIO
    why = _WHY.get(number) or error.strerror or str(error) or type(error).__name__
    place = _mount_of(path)
    if number in FULL:
        wants = f", {_size(needed)} are needed" if needed else ""
        why += f" ({_room(place)}{wants})"
        remedy = f"free some room there, or {remedy}"
    elif number == errno.EROFS:
        why += f" ({place} is mounted so)"
    return Unwritable(number, f"{path} cannot be written: {why}; {remedy}")


def in_words(error: Exception) -> str:
    """An error that came up while a run was made; where our home folder takes nothing, with the remedy."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return str(unwritable(error, Path(error.filename) if isinstance(error.filename, str) else home(), HOME))
    return str(error)


def _mount_of(path: Path) -> Path:
    """Where the file system of a path is mounted; the path need not be there."""
    place = path.absolute()
    while place != place.parent and not (os.path.lexists(place) and os.path.ismount(place)):
        place = place.parent
    return place


def _room(place: Path) -> str:
    try:
        state = os.statvfs(place)
    except OSError:
        return f"the file system at {place}"
    if state.f_files and not state.f_favail:
        return f"the file system at {place} takes no more files"
    return f"the file system at {place} has {_size(state.f_bavail * state.f_frsize)} left"


def _size(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count = -(-count // 1024)
    return f"{count:,} {unit}"
