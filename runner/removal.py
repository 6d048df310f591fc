"""Removing a folder that somebody else has filled: whoever that was may have made it hard to remove, or dangerous.

Links are removed and not followed. What is mounted in the folder is somebody else's, and is detached, never entered. Rights that were
taken away, and the flags of ``chattr`` that keep files from being changed, are put right where the kernel allows it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import stat
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
"""``FS_IOC_GETFLAGS`` and ``FS_IOC_SETFLAGS`` of linux/fs.h, on 64-bit systems."""
_LOCKING = 0x10 | 0x20
"""``FS_IMMUTABLE_FL`` and ``FS_APPEND_FL``."""
_DETACH, _NO_FOLLOW = 2, 8
"""``MNT_DETACH`` and ``UMOUNT_NOFOLLOW`` of umount2(2)."""


class RemovalError(OSError):
    """A folder could not be removed, or not all of it; the message names what is left and why."""


def remove(folder: Path, *, last: Iterable[str] = ()) -> None:
    """Removes a folder; one that is not there is no matter.

    Args:
        folder: The folder.
        last: Names in it that are removed when everything else is gone, in this order: by them it is known what the folder is, also
            when its removal is cut short.

    Raises:
        RemovalError: Something is still there.
    """
    kept = list(last)
    if not folder.is_dir():
        return
    empty(folder, but=kept)
    try:
        for name in kept:
            (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # somebody else was as quick
            folder.rmdir()
    except OSError as error:
        raise RemovalError(f"{folder}: {error.strerror}") from None


def empty(folder: Path, *, but: Iterable[str] = ()) -> None:
    """Removes everything in a folder.

    Args:
        folder: The folder.
        but: Names in it that stay.

    Raises:
        RemovalError: Something is still there.
    """
    kept = set(but)
    _detach(folder)
    entries = _others(folder, kept)
    _remove_plainly(entries)
    if left := [entry for entry in entries if os.path.lexists(entry)] + _others(folder, kept):
        _loosen(folder)
        for entry in left:
            _loosen(entry)
        _remove_plainly(left)
    if left := _others(folder, kept):
        raise RemovalError(f"{left[0]}: {_why(left[0])}")


def _others(folder: Path, kept: set[str]) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder) if entry.name not in kept)
    except PermissionError:
        _loosen(folder, deep=False)
        return sorted(Path(entry.path) for entry in os.scandir(folder) if entry.name not in kept)


def _remove_plainly(entries: Iterable[Path]) -> None:
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()


def _why(entry: Path) -> str:
    """Why an entry is still there: what the first thing that cannot be removed says."""
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    except OSError as error:
        return f"{error.strerror} ({error.filename})"
    return "it came back"


# --- what keeps files from being removed ------------------------------------------------------------------------------


def _loosen(path: Path, *, deep: bool = True) -> None:
    """Takes away whatever keeps an entry, and with ``deep`` all that is in it, from being removed; as far as it can be."""
    with contextlib.suppress(OSError):
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind):
            _unlock(path)
            path.chmod(stat.S_IRWXU)
            if deep:
                for entry in os.scandir(path):
                    _loosen(Path(entry.path))
        elif stat.S_ISREG(kind):
            _unlock(path)


def _unlock(path: Path) -> None:
    """Takes away ``chattr``'s flags; a file system without them has none to take."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            (flags,) = struct.unpack("l", fcntl.ioctl(handle, _GET_FLAGS, struct.pack("l", 0)))
            if flags & _LOCKING:
                fcntl.ioctl(handle, _SET_FLAGS, struct.pack("l", flags & ~_LOCKING))
        finally:
            os.close(handle)


# --- mounts -----------------------------------------------------------------------------------------------------------


def mounts_in(folder: Path) -> list[Path]:
    """The places in a folder where something is mounted, the innermost first; the folder itself counts."""
    top = os.path.realpath(folder)
    found = [place for place in _mount_points() if place == top or place.startswith(f"{top}/")]
    return [Path(place) for place in reversed(found)]  # later mounts lie on earlier ones


def _mount_points() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        # Blanks and the like are written as octal numbers (proc(5)).
        yield os.fsdecode(line.split()[4].decode("latin-1").encode().decode("unicode_escape").encode("latin-1"))


def _detach(folder: Path) -> None:
    """Detaches what is mounted in a folder.

    Raises:
        RemovalError: It cannot be; nothing of it has been touched.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    for place in mounts_in(folder):
        if libc.umount2(os.fsencode(place), _DETACH | _NO_FOLLOW) != 0:
            why = os.strerror(ctypes.get_errno())
            raise RemovalError(f"{place}: something is mounted there, and cannot be unmounted ({why}); unmount it")
