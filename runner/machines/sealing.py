"""Folders of the cache that are filled once, sealed, and never written again: bases, set-ups, checkpoints.

A seal records a hash of all contents and a hash of what the file system says about each file (inode, size, times); the second is
checked before every clone. The kernel sets a file's change time and no program can put it back, so an equal second hash means
that the contents are still those of the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.machines.base import MachineError, home
from runner.machines.room import cannot_write, is_about, writing

UNFINISHED = ".unfinished"
"""Suffix of folders that are being filled; under a free lock they are leftovers."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a sealed folder holds: ``contents`` for the record, ``stat`` for the quick check."""

    contents: str
    stat: str


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result, Path]]:
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *files]):
            path = Path(parent, name)
            yield str(path.relative_to(folder)), path.lstat(), path


def stat_hash(folder: Path) -> str:
    """Hash of what the file system says about every entry: kind, size, inode, modification and change time."""
    digest = hashlib.sha256()
    for name, info, _ in _entries(folder):
        digest.update(
            f"{name}\0{info.st_mode}\0{info.st_size}\0{info.st_ino}\0{info.st_mtime_ns}\0{info.st_ctime_ns}\n".encode()
        )
    return digest.hexdigest()


def contents_hash(folder: Path) -> str:
    """Hash of every entry's name, kind and content."""
    digest = hashlib.sha256()
    for name, info, path in _entries(folder):
        digest.update(f"{name}\0{stat.S_IFMT(info.st_mode)}\0".encode())
        if stat.S_ISLNK(info.st_mode):
            digest.update(str(path.readlink()).encode())
        elif stat.S_ISREG(info.st_mode):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        elif stat.S_ISCHR(info.st_mode):  # a whiteout of an overlay layer
            digest.update(str(info.st_rdev).encode())
    return digest.hexdigest()


def seal(folder: Path, seal_file: Path, *, about: Mapping[str, str]) -> Seal:
    """Records what the folder holds now."""
    made = Seal(contents_hash(folder), stat_hash(folder))
    written = seal_file.with_suffix(".new")
    written.write_text(json.dumps({"contents": made.contents, "stat": made.stat, **about}, indent=1) + "\n")
    written.rename(seal_file)
    return made


def checked_seal(folder: Path, seal_file: Path) -> Seal:
    """The seal, after checking that the folder still is what was sealed.

    Raises:
        MachineError: The folder or its seal is missing, or the contents differ; never answered by another base.
    """
    try:
        recorded = json.loads(seal_file.read_text())
        made = Seal(str(recorded.pop("contents")), str(recorded.pop("stat")))
    except (OSError, ValueError, KeyError) as error:
        raise MachineError(
            f"{folder}: its seal cannot be read ({error}); remove the folder to have it built again"
        ) from None
    if not folder.is_dir():
        raise MachineError(f"{folder} is missing; remove {seal_file.parent} to have it built again")
    if stat_hash(folder) != made.stat:
        # A copied or restored cache has other inodes and times; only the contents decide.
        if contents_hash(folder) != made.contents:
            raise MachineError(
                f"{folder} was changed after it was sealed; remove {seal_file.parent} to have it built again"
            )
        return seal(folder, seal_file, about=recorded)
    return made


_locks: dict[Path, threading.Lock] = {}
_locks_lock = threading.Lock()


def _within(path: Path) -> threading.Lock:
    """The lock between this process's own threads, who need not be told that they wait for each other."""
    with _locks_lock:
        return _locks.setdefault(path, threading.Lock())


@contextmanager
def locked(path: Path, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Holds a lock between processes; it goes away with its holder, whatever becomes of it.

    Args:
        path: The file that is locked.
        waiting: Called once where another process holds it, before that one is waited for.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _within(path), path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is not None:
                waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sealed(
    folder: Path,
    part: str,
    fill: Callable[[Path], None],
    *,
    about: Mapping[str, str],
    waiting: Callable[[], None] | None = None,
) -> tuple[Path, Seal]:
    """A folder of the cache: filled and sealed by the first who asks for it, checked for everyone.

    Args:
        folder: Its place in the cache.
        part: Name of the sealed folder within.
        fill: Makes that folder; whatever it leaves is removed if it fails.
        about: What the seal says beside the hashes.
        waiting: Called once where another runner is at it, before that one is waited for.

    Raises:
        MachineError: What is there is damaged, or it cannot be written there; the message says why and what to do.
    """
    try:
        with locked(folder.with_suffix(".lock"), waiting):
            if not folder.is_dir():
                _filled(folder, part, fill, about)
            return folder / part, checked_seal(folder / part, folder / "seal.json")
    except OSError as error:
        if is_about(error, home()):
            raise cannot_write(error, folder) from error
        raise


def _filled(folder: Path, part: str, fill: Callable[[Path], None], about: Mapping[str, str]) -> None:
    unfinished = folder.with_suffix(UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        with writing(unfinished):
            fill(unfinished / part)
            seal(unfinished / part, unfinished / "seal.json", about=about)
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
