"""Why nothing can be written where images and machines are kept: in words, with the place and what to do about it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.host_disk import FULL, HOME, unwritable
from runner.machines.base import MachineError, home

_TRIAL = 16 << 20
"""Bytes. Programs fail in ways of their own a little before a file system is full to the last byte."""
_REAPS = "`legacyproof machines reap` removes what killed runners left"


def cannot_write(error: OSError, path: Path) -> MachineError:
    """An error of the host's file system as one of the machine.

    Args:
        error: What it answered; the path that it names itself is told, if there is one.
        path: What was to be written.
    """
    at = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
    told = str(unwritable(error, at, HOME))
    return MachineError(f"{told}; {_REAPS}" if error.errno in FULL else told)


def is_about(error: OSError, folder: Path) -> bool:
    """Whether an error tells that something could not be written in a folder, and not that something else was missing."""
    if isinstance(error.filename, str | bytes):
        return folder in (Path(os.fsdecode(error.filename)), *Path(os.fsdecode(error.filename)).parents)
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Around what fills a folder of the home: tells a failure as what it is, where nothing can be written.

    Programs that find the disk full say so in words of their own, or fail in ways that do not look like it.

    Raises:
        MachineError: In place of any other error, where nothing can be written; the message says why and what to do.
    """
    try:
        yield
    except Exception as error:
        if (why := no_room(folder)) is not None:
            raise why from error
        if isinstance(error, OSError) and is_about(error, home()):
            raise cannot_write(error, folder) from error
        raise


def no_room(folder: Path) -> MachineError | None:
    """Whether 16 MiB can be written in a folder; if not, why.

    Quotas, file systems that have become read-only and defective disks are seen as well, since it is tried.

    Args:
        folder: It need not be there: then the nearest one above it is tried, which is where it would be made.
    """
    there = next(place for place in (folder, *folder.parents) if place.is_dir())
    try:
        with tempfile.TemporaryFile(dir=there) as trial:
            os.posix_fallocate(trial.fileno(), 0, _TRIAL)
    except OSError as error:
        return cannot_write(OSError(error.errno, error.strerror), folder)
    return None
