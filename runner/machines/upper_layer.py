"""An overlay's layers as they lie on the host: what the upper one holds, and what a path was in the lower ones.

A file that is written, made, removed or renamed on an overlay leaves an entry in its upper layer, and an entry never goes away
again without leaving another one (a file that was only in the upper layer may; then the folder that held it stays there). So what has
no entry, and lies below no entry that hides the lower layers, is what the sealed lower layers hold, whatever programs did to times.
The converse does not hold: a file opened for writing has an entry although nobody wrote to it.

Kernel documentation, "Overlay Filesystem": a removed name is a *whiteout*, a character device 0/0; a folder is *opaque* when what the
lower layers hold at its place is hidden. These layers are mounted so that there is nothing else (:func:`runner.machines.sandbox.Overlay.options`):
without ``index``, by which writing to one name of a file changes its other names too, without ``metacopy``, by which an entry lacks its
content, and without ``redirect_dir``, by which a folder holds what lies elsewhere in the lower layers. What is found of that kind all the
same is :class:`~runner.guests.base.Unreadable`, never guessed at.

Everything is read through open folders and no link is followed: the upper layer is what programs in the machine have made it.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner.guests.base import Unreadable

Kind = Literal["file", "dir", "link", "other", "whiteout"]

_STRANGE = ("redirect", "metacopy", "whiteout")
_ATTRIBUTES = "user.DOSATTRIB"
"""Where Wine keeps attributes that a mode has no place for."""
_ABSENT = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOENT)
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a layer.

    Attributes:
        path: Below the layer, with ``/``; empty: the layer's own folder.
        kind: What it is.
        opaque: A folder that hides what the layers below hold at its place.
        size: Bytes.
        mtime: Nanoseconds since 1970.
        mode: Permission bits.
        inode: Its number; a file that was renamed within the layer keeps it.
        attributes: What Wine noted of its DOS attributes, as bytes.
    """

    path: str
    kind: Kind
    opaque: bool
    size: int
    mtime: int
    mode: int
    inode: int
    attributes: bytes = b""

    @property
    def hides(self) -> bool:
        """Whether nothing below its path in lower layers is seen any more."""
        return self.kind != "dir" or self.opaque


@dataclass(frozen=True)
class Layers:
    """The layers of one machine's drive.

    Attributes:
        upper: The writable one.
        lower: The sealed ones, topmost first.
        key: What tells the lower ones, by their contents, from all others.
    """

    upper: Path
    lower: tuple[Path, ...]
    key: str

    def changed(self, below: str = "") -> Iterator[Entry]:
        """The upper layer's entries at a path and below it, each folder before what it holds; nothing, where it holds none.

        Raises:
            Unreadable: The layer holds what it should not, or cannot be read.
        """
        yield from _walk(self.upper, below)

    def at_upper(self, path: str) -> Entry | None:
        """The upper layer's entry of a path.

        Raises:
            Unreadable: As :meth:`changed`.
        """
        return _entry_at(self.upper, path)

    def below(self, path: str) -> Entry | None:
        """What the lower layers, taken together, hold at a path; ``None``: nothing.

        Raises:
            Unreadable: A layer holds what it should not, or cannot be read.
        """
        found = self._stacked(path)
        return found[0][1] if found else None

    def all_below(self, path: str) -> Iterator[Entry]:
        """What the lower layers hold below a path (not at it), each folder before what it holds; errors as :meth:`below`."""
        stack = self._stacked(path)
        if not stack or stack[0][1].kind != "dir":
            return
        names = sorted({name for layer, _ in stack for name in _names(layer, path)})
        for name in names:
            inside = f"{path}/{name}" if path else name
            entry = self.below(inside)
            if entry is not None:
                yield entry
                if entry.kind == "dir":
                    yield from self.all_below(inside)

    def names_below(self, path: str) -> list[str]:
        """The names that the lower layers hold in a folder, those hidden by a layer above among them; errors as :meth:`below`."""
        return sorted({name for layer, _ in self._stacked(path) for name in _names(layer, path)})

    def names_upper(self, path: str) -> list[str]:
        """The names that the upper layer holds in a folder; errors as :meth:`changed`."""
        return sorted(_names(self.upper, path))

    def target_below(self, path: str) -> str:
        """Where a symbolic link of the lower layers leads; errors as :meth:`below`."""
        return _target(self._stacked(path)[0][0], path)

    def target_upper(self, path: str) -> str:
        """Where a symbolic link of the upper layer leads; errors as :meth:`changed`."""
        return _target(self.upper, path)

    def hash_below(self, path: str) -> str:
        """SHA-256 of a file of the lower layers; errors as :meth:`below`."""
        return _hash(self._stacked(path)[0][0], path)

    def hash_upper(self, path: str) -> str:
        """SHA-256 of a file of the upper layer; errors as :meth:`changed`."""
        return _hash(self.upper, path)

    def _stacked(self, path: str) -> list[tuple[Path, Entry]]:
        """The layers that make up what the lower ones hold at a path: several for a folder, else one."""
        parts = [part for part in path.split("/") if part]
        found = [(layer, entry) for layer in self.lower if (entry := _entry_at(layer, "")) is not None]
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            inside: list[tuple[Path, Entry]] = []
            for layer, _ in found:
                entry = _entry_at(layer, here)
                if entry is None:
                    continue
                if entry.kind == "whiteout" or (entry.kind != "dir" and inside):
                    break
                inside.append((layer, entry))
                if entry.hides:
                    break
            found = inside
        return found


def _walk(layer: Path, below: str) -> Iterator[Entry]:
    parent, _, name = below.rpartition("/")
    with _folder(layer, parent) as folder:
        entry = _entry(folder, name or ".", below) if folder is not None else None
        if folder is not None and entry is not None:
            yield from _walk_from(folder, name or ".", entry)


def _walk_from(folder: int, name: str, entry: Entry) -> Iterator[Entry]:
    """An entry of an open folder, and what lies below it."""
    yield entry
    if entry.kind != "dir":
        return
    try:
        inside = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        return  # it went away meanwhile
    try:
        for child in sorted(os.listdir(inside)):
            found = _entry(inside, child, f"{entry.path}/{child}" if entry.path else child)
            if found is not None:
                yield from _walk_from(inside, child, found)
    finally:
        os.close(inside)


@contextlib.contextmanager
def _folder(layer: Path, path: str) -> Iterator[int | None]:
    """The folder of a layer at a path, open; ``None``: there is none (or a link, or a file)."""
    handles: list[int] = []
    try:
        handle: int | None = os.open(layer, _OPEN | os.O_DIRECTORY)
        handles.append(handle or 0)
        for part in path.split("/") if path else ():
            try:
                handle = os.open(part, _OPEN | os.O_DIRECTORY, dir_fd=handle)
            except (FileNotFoundError, NotADirectoryError):
                handle = None
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                handle = None
            if handle is None:
                break
            handles.append(handle)
            os.close(handles.pop(-2))
        yield handle
    except OSError as error:
        raise Unreadable(f"{path or 'a layer of the machine'}: {error.strerror}") from None
    finally:
        for open_one in handles:
            os.close(open_one)


def _names(layer: Path, path: str) -> list[str]:
    with _folder(layer, path) as folder:
        return os.listdir(folder) if folder is not None else []


def _entry_at(layer: Path, path: str) -> Entry | None:
    parent, _, name = path.rpartition("/")
    with _folder(layer, parent) as folder:
        return _entry(folder, name or ".", path) if folder is not None else None


def _entry(folder: int, name: str, path: str) -> Entry | None:
    """What an open folder holds under a name; ``None``: nothing."""
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    kind = _kind(info)
    opaque, noted = False, b""
    if kind in ("file", "dir"):
        prefix = "trusted.overlay." if os.geteuid() == 0 else "user.overlay."  # as the overlay is mounted
        present = _attributes(folder, name)
        for strange in _STRANGE:
            if prefix + strange in present:
                raise Unreadable(f"{path}: an overlay's `{strange}`, which this host should not make")
        if prefix + "opaque" in present:
            value = _attribute(folder, name, prefix + "opaque")
            if value != b"y":
                raise Unreadable(f"{path}: an overlay's `opaque` that is {value!r}")
            opaque = True
        if _ATTRIBUTES in present:
            noted = _attribute(folder, name, _ATTRIBUTES)
    mode = stat.S_IMODE(info.st_mode)
    return Entry(path, kind, opaque, info.st_size, info.st_mtime_ns, mode, info.st_ino, noted)


def _kind(info: os.stat_result) -> Kind:
    match stat.S_IFMT(info.st_mode):
        case stat.S_IFREG:
            return "file"
        case stat.S_IFDIR:
            return "dir"
        case stat.S_IFLNK:
            return "link"
        case stat.S_IFCHR if info.st_rdev == 0:
            return "whiteout"
        case _:
            return "other"


def _attributes(folder: int, name: str) -> list[str]:
    try:
        return os.listxattr(f"/proc/self/fd/{folder}/{name}", follow_symlinks=False)
    except OSError as error:
        if error.errno in _ABSENT:
            return []
        raise


def _attribute(folder: int, name: str, attribute: str) -> bytes:
    try:
        return os.getxattr(f"/proc/self/fd/{folder}/{name}", attribute, follow_symlinks=False)
    except OSError as error:
        if error.errno in _ABSENT:
            return b""
        raise


def _read(layer: Path, path: str, use: Callable[[int], str]) -> str:
    parent, _, name = path.rpartition("/")
    with _folder(layer, parent) as folder:
        if folder is None:
            raise Unreadable(f"{path}: it went away while it was read")
        handle = os.open(name, _OPEN, dir_fd=folder)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Unreadable(f"{path}: not a plain file any more")
            return use(handle)
        finally:
            os.close(handle)


def _hash(layer: Path, path: str) -> str:
    def digest(handle: int) -> str:
        with os.fdopen(os.dup(handle), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return _read(layer, path, digest)


def _target(layer: Path, path: str) -> str:
    parent, _, name = path.rpartition("/")
    with _folder(layer, parent) as folder:
        if folder is None:
            raise Unreadable(f"{path}: it went away while it was read")
        return os.readlink(name, dir_fd=folder)
