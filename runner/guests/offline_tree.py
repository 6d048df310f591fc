"""Files and trees of a volume, told in the records of the native probe."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from runner.guests.base import GuestNotFound, Unreadable
from runner.guests.probe import FaultEntry, FileEntry, ProbeError, RootEntry, StreamEntry
from runner.offline.attributes import REPARSE_POINT, SYSTEM, attributes, streams
from runner.offline.ntfs.record import DATA, DOS
from runner.offline.ntfs.stream import Stream
from runner.offline.ntfs.volume import ROOT, File, Volume

NOT_FOUND = 2
_CORRUPT = 1392
"""Codes of Windows: the file is not there; it is damaged and cannot be read."""
_BOUND, _USAGE = 0x2000_0002, 0x2000_0003
"""Codes of the probe's own."""
_LONGEST_PATH = 32_766
_OWN_RECORDS = 16
"""Records of the file system's own files, which lie in the root directory and which no program lists."""
_SYMLINK = 0xA000_000C
_INTERIX, _INTERIX_SIZE = b"IntxLNK\1", 8192
"""How ntfs-3g keeps symbolic links: a system file whose content begins so."""
_STORAGE = frozenset({0x8000_0013, 0x8000_0007, 0x8000_0017, *(0x9000_001A | n << 12 for n in range(16))})
"""Reparse points that are a file's way of being stored, not links: deduplicated, single-instance, compressed, cloud files."""
_RECALLED = 0x0044_1000
"""Attributes of files that are not on the disk: offline, and the two that recall."""
_SWITCHES = {"--hash", "--streams", "--exact", "--listing", "--flat"}
_NUMBERS = {
    "--max-entries": (200_000, 5_000_000),
    "--max-depth": (64, 256),
    "--max-read": (16 << 30, 1 << 40),
    "--max-bytes": (1 << 30, 8 << 30),
    "--view": (0, 64),
}
"""Default and largest value, as in ``vm_images/probe/README.md``."""

FileKind = Literal["file", "dir", "link"]


class Mistake(Unreadable):
    """A fault with a code of its own.

    Attributes:
        code: Of Windows.
    """

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Options:
    """A request of the probe."""

    paths: tuple[str, ...]
    switches: frozenset[str]
    numbers: dict[str, int]


def options(arguments: Sequence[str]) -> Options:
    """Reads a request's arguments, the command left out.

    Raises:
        ProbeError: One is not known, or a value beyond its bound.
    """
    paths: list[str] = []
    switches: set[str] = set()
    numbers = {name: default for name, (default, _) in _NUMBERS.items()}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            paths += rest
        elif argument in _SWITCHES:
            switches.add(argument)
        elif argument in _NUMBERS:
            value = next(rest, "")
            if not value.isascii() or not value.isdigit() or int(value[:20]) > _NUMBERS[argument][1]:
                raise ProbeError(f"wrong value for {argument}", status="error", code=_USAGE)
            numbers[argument] = int(value)
        elif argument.startswith("--"):
            raise ProbeError(f"unknown option {argument}", status="error", code=_USAGE)
        else:
            paths.append(argument)
    return Options(tuple(paths), frozenset(switches), numbers)


@dataclass(slots=True)
class Answer:
    """What has been found so far, within the bounds of the request.

    Attributes:
        options: The request.
        deadline: By ``time.monotonic``.
        roots: See :class:`~runner.guests.probe.ProbeResult`, as for the others.
        files: The entries.
        faults: What could not be read.
    """

    options: Options
    deadline: float
    roots: list[RootEntry] = field(default_factory=list)
    files: list[FileEntry] = field(default_factory=list)
    faults: list[FaultEntry] = field(default_factory=list)
    _read: int = 0

    def add(self, entry: FileEntry | FaultEntry) -> None:
        """Takes an entry, or what could not be read.

        Raises:
            Unreadable: There are more than the request allows, or time ran out.
        """
        if isinstance(entry, FileEntry):
            self.files.append(entry)
        else:
            self.faults.append(entry)
        if len(self.roots) + len(self.files) + len(self.faults) > self.options.numbers["--max-entries"]:
            raise _truncated("max-entries")
        in_time(self.deadline)

    def fault(self, path: str, op: str, error: Exception, root: int) -> None:
        """Takes something that could not be read."""
        code = error.code if isinstance(error, Mistake) else NOT_FOUND if isinstance(error, GuestNotFound) else _CORRUPT
        self.add(FaultEntry(path, op, code, str(error), root))

    def hash(self, content: Stream) -> str:
        """SHA-256 of a content.

        Raises:
            Unreadable: It cannot be read, is more than the request allows, or time ran out.
        """
        self._read += content.size
        if self._read > self.options.numbers["--max-read"]:
            raise _truncated("max-read of content")
        digest = hashlib.sha256()
        for chunk in in_pieces(content, self.deadline):
            digest.update(chunk)
        return digest.hexdigest()


def _truncated(what: str) -> ProbeError:
    return ProbeError(f"the answer is not whole: {what} reached", status="truncated", code=_BOUND)


def in_time(deadline: float) -> None:
    """Makes sure that a request does not take longer than it may.

    Raises:
        Unreadable: It does.
    """
    if time.monotonic() > deadline:
        raise ProbeError("the disk could not be read in time")


def in_pieces(content: Stream, deadline: float) -> Iterator[bytes]:
    """A content in pieces, in time."""
    for chunk in content.chunks():
        in_time(deadline)
        yield chunk


# --- one file ---


def kind_of(volume: Volume, file: File) -> tuple[FileKind, int]:
    """What the probe would call it, and its reparse tag or 0."""
    reparse = file.reparse
    if reparse is not None:
        is_storage = reparse[0] in _STORAGE and not file.is_directory and not file.standard.flags & _RECALLED
        return ("file" if is_storage else "link"), reparse[0]
    if file.is_directory:
        return "dir", 0
    if volume.by_wine and file.standard.flags & SYSTEM and file.data is not None:
        data = file.data
        if len(_INTERIX) < data.size <= _INTERIX_SIZE and data.read(0, len(_INTERIX)) == _INTERIX:
            return "link", _SYMLINK
    return "file", 0


def content_of(volume: Volume, file: File, name: str = "") -> Stream:
    """A file's content, or that of an alternate stream.

    Raises:
        GuestNotFound: It has no such stream.
        Unreadable: It is no plain file, or its content is kept in a way that is not read.
    """
    if name:
        for known in streams(file, by_wine=volume.by_wine):
            found = file.stream(DATA, known) if volume.fold(known) == volume.fold(name) else None
            if found is not None:
                return found
        raise GuestNotFound(f"no stream {name}")
    kind, tag = kind_of(volume, file)
    if kind != "file":
        raise Mistake(f"it is no plain file but a {kind}", 0x2000_0004)
    if tag:
        raise Unreadable(f"its content is kept by Windows in a way that is not read from a disk (tag {tag:#x})")
    if file.data is None:
        raise Unreadable("it has no content: its record is damaged")
    return file.data


def entry_of(
    volume: Volume, file: File, root: int, path: str, shown: str, short: str | None, answer: Answer
) -> FileEntry:
    """A file's record, with hashes and streams as the request wants them.

    Args:
        volume: Its volume.
        file: The file.
        root: Index of the root below which it was found.
        path: As the record tells it.
        shown: Absolute, for faults.
        short: The 8.3 name, where it differs.
        answer: What faults of its content are added to.

    Raises:
        Unreadable: Its record is damaged.
    """
    kind, tag = kind_of(volume, file)
    times = file.standard
    attr = attributes(file, by_wine=volume.by_wine) | (REPARSE_POINT if kind == "link" else 0)
    digest = None
    if kind == "file" and "--hash" in answer.options.switches:
        digest = _hash_or_fault(volume, file, root, shown, answer)
    found: tuple[StreamEntry, ...] | None = None
    if kind != "link" and "--streams" in answer.options.switches:
        found = tuple(_stream(file, name, answer) for name in streams(file, by_wine=volume.by_wine))
    size = file.data.size if kind != "dir" and file.data is not None else 0
    return FileEntry(
        kind, root, path, size, times.modified, times.created, attr, digest, found, short, tag or None,
    )  # fmt: skip


def _hash_or_fault(volume: Volume, file: File, root: int, shown: str, answer: Answer) -> str | None:
    try:
        return answer.hash(content_of(volume, file))
    except ProbeError:
        raise
    except Unreadable as error:
        answer.fault(shown, "hash", error, root)
        return None


def _stream(file: File, name: str, answer: Answer) -> StreamEntry:
    content = file.stream(DATA, name)
    assert content is not None
    digest = None
    if "--hash" in answer.options.switches:
        try:
            digest = answer.hash(content)
        except ProbeError:
            raise
        except Unreadable:
            digest = None  # as the probe: null, and the file's own record stands
    return StreamEntry(f":{name}:$DATA", content.size, digest)


# --- a tree ---


def walk(volume: Volume, file: File, root: int, top: str, answer: Answer) -> None:
    """Adds everything below a directory, in the order of its index, each directory before what lies in it.

    Args:
        volume: The volume.
        file: The directory.
        root: Its index among the roots.
        top: Its absolute path.
        answer: What the entries are added to; what cannot be read becomes a fault.

    Raises:
        Unreadable: A bound was reached, or directories lie within themselves.
    """
    _Walk(volume, root, top.rstrip("\\"), answer).folder(file, "", 1, frozenset({file.number}))


@dataclass(frozen=True, slots=True)
class _Walk:
    volume: Volume
    root: int
    top: str
    answer: Answer

    def folder(self, file: File, path: str, depth: int, above: frozenset[int]) -> None:
        """Everything below a directory; ``above`` are the records of it and its parents."""
        try:
            entries = list(self.volume.entries(file))
        except Unreadable as error:
            self.answer.fault(f"{self.top}\\{path}".rstrip("\\"), "list", error, self.root)
            return
        shorts = {entry.number: entry.name.name for entry in entries if entry.name.namespace == DOS}
        for entry in entries:
            name = entry.name.name
            if entry.name.namespace == DOS or (file.number == ROOT and entry.number < _OWN_RECORDS):
                continue
            if depth > self.answer.options.numbers["--max-depth"]:
                raise _truncated("max-depth")
            below = f"{path}\\{name}" if path else name
            shown = f"{self.top}\\{below}"
            try:
                child = self._child(entry.number, entry.sequence, name, shown)
                short = shorts.get(entry.number, name)
                found = entry_of(
                    self.volume, child, self.root, below, shown, short if short != name else None, self.answer
                )
            except ProbeError:
                raise
            except Unreadable as error:
                self.answer.fault(shown, "stat", error, self.root)
                continue
            self.answer.add(found)
            if found.kind == "dir" and "--flat" not in self.answer.options.switches:
                if child.number in above:
                    raise Unreadable(f"{shown} leads back to a folder above it: the volume is damaged")
                self.folder(child, below, depth + 1, above | {child.number})

    def _child(self, number: int, sequence: int, name: str, shown: str) -> File:
        if "\\" in name or "/" in name or "\0" in name or name in {".", ".."}:
            raise Unreadable(f"{name!r} is no name of a file")
        if len(shown) > _LONGEST_PATH:
            raise Mistake("the path is too long", 206)
        child = self.volume.file(number, sequence)
        if child is None:
            raise Unreadable("its directory names a file that is not there")
        return child
