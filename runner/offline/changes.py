r"""What changed on a disk between two moments: the whole of it, at a cost that grows with the changes and not with the disk.

The later disk is an overlay that lies on the earlier one. So only what the overlay's files hold can differ, and of that only the
clusters that really do are looked at:

1. clusters of the master file table tell which file records differ; a file in several records counts as one;
2. other clusters belong to a file by the run lists of the records that changed, or else by those of the earlier disk, for a file
   that was written in place need not have changed its record (:mod:`runner.offline.owners`);
3. each file found is read at both moments and compared: names, content, alternate streams, attributes, times. A content is compared
   only where its clusters changed or lie elsewhere now.

What the file system does for itself is told apart as *noise*. A renamed directory is one change; its files, whose paths it changed,
are not told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from runner.offline.attributes import attributes, keeps_attributes
from runner.offline.compare import Clusters, differing, same_content, segments
from runner.offline.disk import Disk
from runner.offline.ntfs.record import (
    DATA,
    DOS,
    EA,
    EA_INFO,
    LOGGED,
    OBJECT_ID,
    REPARSE,
    SECURITY,
    FileName,
    Record,
)
from runner.offline.ntfs.runs import SPARSE
from runner.offline.ntfs.volume import File, Volume
from runner.offline.owners import DiskOwners, Owners
from runner.offline.partitions import Partition, partitions
from runner.offline.source import Slice
from validators.changes import Unreadable

What = Literal["name", "data", "stream", "attributes", "times"]
Noise = Literal["", "file system", "directory", "paging", "free space", "access time"]

_HOUSEKEEPING = frozenset({0, 1, 2, 3, 6, 9, 11})
"""``$MFT``, ``$MFTMirr``, ``$LogFile``, ``$Volume``, ``$Bitmap``, ``$Secure``, ``$Extend``; the other system files never change."""
_RESERVED = range(12, 16)
_GUARDING = frozenset({SECURITY, EA_INFO, EA, OBJECT_ID, LOGGED})
_PAGING = frozenset({"PAGEFILE.SYS", "SWAPFILE.SYS", "HIBERFIL.SYS"})
_ARCHIVE = 0x20
_UNIT = 4096


@dataclass(frozen=True, slots=True)
class DiskChange:
    r"""One change on a disk.

    Attributes:
        kind: What happened to the path. A file that was deleted and made anew under its name is ``modified``.
        path: Where the file is now, or was if it is gone: ``C:\Data\A.DBF``. A place on the disk that is no file has a name in
            parentheses: ``(partition 1)``, ``(partition table)``, ``C:\(free space)``.
        old_path: Where it was, if somewhere else.
        size: Bytes of the content, or of the stream, now (before, if it is gone); of a place that is no file, how many changed.
        stream: Name of the alternate stream that changed; empty: the file itself.
        what: In what it differs. ``attributes`` includes who may do what with it; ``data`` includes where a link leads.
        noise: Why nobody did this: what the file system, or the system, does for itself; empty for all else.
        is_directory: It is a directory.
    """

    kind: Literal["created", "deleted", "modified", "renamed"]
    path: str
    old_path: str = ""
    size: int = 0
    stream: str = ""
    what: tuple[What, ...] = ()
    noise: Noise = ""
    is_directory: bool = False


def changed_files(
    before: Disk,
    after: Disk,
    *,
    drive: str = "C:",
    start: int | None = None,
    by_wine: bool = False,
    owners: DiskOwners | None = None,
) -> tuple[DiskChange, ...]:
    """Everything that changed on a disk, sorted by path; what is noise comes last.

    Args:
        before: The disk as it was, such as a checkpoint's.
        after: The disk as it is, which lies on ``before``; flushed and at rest.
        drive: Letter of the NTFS volume that begins at ``start``; others are told by their partition.
        start: A byte of the disk; ``None``: where its only NTFS volume begins, and if it has several, none has a letter.
        by_wine: The volumes are kept by Wine on ntfs-3g.
        owners: Kept with ``before`` (:meth:`DiskOwners.kept`); without them its whole master file table is read.

    Raises:
        Unreadable: A disk is damaged, or the two cannot be compared; never a shorter list.
    """
    ranges = after.allocated_above(before)
    if not ranges:
        return ()
    parts = partitions(after)
    if after.size != before.size or parts != partitions(before):
        raise Unreadable("the disk has other partitions than before: what changed cannot be told by files")
    owners = DiskOwners.of(before) if owners is None else owners
    begins = [part.start for part in parts if part.ntfs]
    if start is None and len(begins) == 1:
        start = begins[0]
    found: list[DiskChange] = []
    for name, begin, size, part in _regions(parts, after.size):
        inside = _inside(ranges, begin, size)
        if not inside:
            continue
        sources = Slice(before, begin, size), Slice(after, begin, size)
        if part is None or not part.ntfs:
            found += _place(differing(*sources, inside, _UNIT).count(), name, _UNIT)
        else:
            volumes = Volume(sources[0], by_wine=by_wine), Volume(sources[1], by_wine=by_wine)
            root = drive if begin == start else name
            found += _Comparison(volumes, sources, inside, owners.at(begin), root).changes()
    return tuple(sorted(found, key=lambda one: (bool(one.noise), one.path.casefold(), one.path, one.stream)))


def _regions(parts: Iterable[Partition], size: int) -> Iterator[tuple[str, int, int, Partition | None]]:
    """Name, begin and size of each partition and of what lies between them."""
    end = 0
    for part in sorted(parts, key=lambda part: part.start):
        if part.start > end:
            yield "(outside of partitions)", end, part.start - end, None
        yield f"(partition {part.number})", part.start, part.size, part
        end = part.start + part.size
    if end < size:
        yield "(outside of partitions)", end, size - end, None


def _inside(ranges: Iterable[tuple[int, int]], start: int, size: int) -> list[tuple[int, int]]:
    """The parts of ranges of a disk that lie in a region, told from its begin."""
    cut = ((max(begin, start), min(begin + length, start + size)) for begin, length in ranges)
    return [(begin - start, end - begin) for begin, end in cut if begin < end]


def _place(count: int, name: str, unit: int, noise: Noise = "") -> list[DiskChange]:
    return [DiskChange("modified", name, size=count * unit, what=("data",), noise=noise)] if count else []


class _Pair(NamedTuple):
    """A file then and now; ``None``: it was or is not there."""

    before: File | None
    after: File | None


class _Comparison:
    """One volume at two moments."""

    def __init__(
        self,
        volumes: tuple[Volume, Volume],
        sources: tuple[Slice, Slice],
        ranges: list[tuple[int, int]],
        owners: Owners,
        root: str,
    ) -> None:
        self._before, self._after = volumes
        if self._before.geometry != self._after.geometry:
            raise Unreadable(f"{root} was formatted anew")
        self._sources = sources
        self._owners = owners
        self._root = root
        self._cluster = self._after.geometry.cluster
        self._changed = differing(*sources, ranges, self._cluster)

    def changes(self) -> list[DiskChange]:
        """See :func:`changed_files`."""
        numbers = self._files_of_records()
        pairs = {number: _Pair(self._before.file(number), self._after.file(number)) for number in numbers}
        owned = self._owned(pairs.values())
        for first, last in self._changed:
            for begin, end, number in self._owners.overlapping(first, last - first + 1):
                owned.append((begin, end))
                if number not in pairs:
                    pairs[number] = _Pair(self._before.file(number), self._after.file(number))
                    if pairs[number].before is None:
                        raise Unreadable("the index of clusters is not that of the disk")
        free = self._changed.without(Clusters(sorted(owned)))
        told = (change for number in sorted(pairs) for change in self._of_file(number, pairs[number]))
        found = [self._with_noise(change) for change in self._paired(told)]
        return found + _place(free, f"{self._root}\\(free space)", self._cluster, "free space")

    # --- which files ---

    def _files_of_records(self) -> set[int]:
        """Numbers of the files of which a record differs."""
        found = set()
        for number, old, new in self._changed_records():
            for volume, block in ((self._before, old), (self._after, new)):
                record = volume.used(number, block) if block else None
                if record is not None:
                    found.add(_base(record))
        return found

    def _changed_records(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Numbers of the records that differ, and both of their forms; empty where the table did not reach so far."""
        size = self._after.geometry.record
        for first, last in self._changed_table():
            start = first * self._cluster // size
            end = ((last + 1) * self._cluster - 1) // size + 1
            old, new = self._before.raw(start, end - start), self._after.raw(start, end - start)
            for at in range(0, max(len(old), len(new)), size):
                one, two = old[at : at + size], new[at : at + size]
                if one != two:
                    yield start + at // size, one, two

    def _changed_table(self) -> Clusters:
        """The clusters of the master file table, by their place in it, which differ or lie elsewhere now."""
        parts = [
            (run.vcn + first - run.lcn, run.vcn + last - run.lcn)
            for volume in (self._before, self._after)
            for run in volume.mft.runs
            for first, last in self._changed.within(run.lcn, run.lcn + run.length - 1)
        ]
        moved = segments(self._before.mft, self._after.mft)
        parts += [(vcn, vcn + count - 1) for vcn, count, old, new in moved if old != new]
        return Clusters(sorted(parts))

    def _owned(self, pairs: Iterable[_Pair]) -> list[tuple[int, int]]:
        """First and last cluster of every run of the files as they are now."""
        return [
            (run.lcn, run.lcn + run.length - 1)
            for pair in pairs
            if pair.after is not None
            for stream in pair.after.all_streams()
            for run in stream.runs
            if run.lcn != SPARSE
        ]

    # --- what happened to a file ---

    def _of_file(self, number: int, pair: _Pair) -> Iterator[DiskChange | _Half]:
        old, new = pair
        if number in _HOUSEKEEPING or number in _RESERVED:
            kept, volume = (old, self._before) if new is None else (new, self._after)
            if kept is not None:
                for path in self._paths(volume, kept):
                    yield DiskChange("modified", path, size=_size(kept), what=("data",), noise="file system")
        elif old is not None and new is not None and old.sequence == new.sequence:
            yield from self._of_same(old, new)
        else:
            if old is not None:
                yield from (_Half("deleted", path, old) for path in self._paths(self._before, old))
            if new is not None:
                yield from (_Half("created", path, new) for path in self._paths(self._after, new))

    def _of_same(self, old: File, new: File) -> Iterator[DiskChange | _Half]:
        """What happened to a file that is still the same one."""
        was, now = _links(old), _links(new)
        gone = [link for key, link in was.items() if key not in now]
        fresh = [link for key, link in now.items() if key not in was]
        kept = [link for key, link in now.items() if key in was]
        what = self._differences(old, new)
        if len(gone) == len(fresh) == 1:
            path, before = self._path(self._after, fresh[0]), self._path(self._before, gone[0])
            yield DiskChange("renamed", path, before, _size(new), "", ("name", *what), "", new.is_directory)
            yield from self._of_streams(old, new, path, ())
        else:
            yield from (_Half("deleted", self._path(self._before, link), old) for link in gone)
            yield from (_Half("created", self._path(self._after, link), new) for link in fresh)
        if not gone and not fresh and _aliases(old) != _aliases(new):
            what = ("name", *what)
        for link in kept:
            yield from self._modified(old, new, what, self._path(self._after, link), self._path(self._before, link))

    def _modified(self, old: File, new: File, what: tuple[What, ...], path: str, before: str) -> Iterator[DiskChange]:
        """What is told of a file below a path that it had and has."""
        only_times = set(what) <= {"times"}
        streams = list(self._of_streams(old, new, path, what if only_times else ()))
        yield from streams
        noise: Noise = ""
        if new.is_directory and only_times:
            noise = "directory"  # its index changed, or nothing but its times, which say the same
        elif not what and old.standard != new.standard:
            noise, what = "access time", ("times",)
        if what or noise == "directory":
            if streams and only_times:
                return  # writing to a stream sets the file's times: told with the stream
            moved = before if before != path else ""
            yield DiskChange("modified", path, moved, _size(new), "", what, noise, new.is_directory)

    def _of_streams(self, old: File, new: File, path: str, times: tuple[What, ...]) -> Iterator[DiskChange]:
        for name in sorted({*old.stream_names, *new.stream_names}):
            if not self._same(old, new, DATA, name) and not keeps_attributes(name, by_wine=self._after.by_wine):
                stream = new.stream(DATA, name) or old.stream(DATA, name)
                size = stream.size if stream is not None else 0
                yield DiskChange("modified", path, "", size, name, ("stream", *times), "", new.is_directory)

    def _differences(self, old: File, new: File) -> tuple[What, ...]:
        found: list[What] = []
        was, now = old.standard, new.standard
        if not (self._same(old, new, DATA) and self._same(old, new, REPARSE)):
            found.append("data")
        by_wine = self._after.by_wine
        flags = attributes(old, by_wine=by_wine) ^ attributes(new, by_wine=by_wine)
        if (
            flags & ~_ARCHIVE
            or was.security != now.security
            or not all(self._same(old, new, kind, name) for kind, name in _guarding(old) | _guarding(new))
        ):
            found.append("attributes")
        if (was.created, was.modified) != (now.created, now.modified):
            found.append("times")
        return tuple(found)

    def _same(self, old: File, new: File, kind: int, name: str = "") -> bool:
        one, two = old.stream(kind, name), new.stream(kind, name)
        if one is None or two is None:
            return one is two
        return same_content(one, two, self._changed, self._cluster, self._sources)

    def _paired(self, found: Iterable[DiskChange | _Half]) -> Iterator[DiskChange]:
        """Puts a file that is gone and a new one of its name together: programs save by writing anew and renaming."""
        gone: dict[str, _Half] = {}
        made: dict[str, _Half] = {}
        for change in found:
            if isinstance(change, DiskChange):
                yield change
            else:
                (gone if change.kind == "deleted" else made)[self._after.fold(change.path)] = change
        for key in sorted(gone.keys() | made.keys()):
            old, new = gone.get(key), made.get(key)
            if old is not None and new is not None and old.file.is_directory is new.file.is_directory:
                yield from self._modified(old.file, new.file, self._differences(old.file, new.file), new.path, old.path)
            else:
                yield from (half.change() for half in (old, new) if half is not None)

    # --- paths ---

    def _paths(self, volume: Volume, file: File) -> list[str]:
        return [self._path(volume, link) for link in file.links]

    def _path(self, volume: Volume, link: FileName) -> str:
        way = volume.way(link)
        if way == (".",):
            way = ("",)  # the root directory's own name
        return "\\".join((self._root, *(("(lost)", link.name) if way is None else way)))

    def _with_noise(self, change: DiskChange) -> DiskChange:
        """Tells what the file system and the system keep for themselves, by its place."""
        inside = self._after.fold(change.path[len(self._root) + 1 :])
        if inside.startswith("$EXTEND\\"):
            return replace(change, noise="file system")
        return replace(change, noise="paging") if inside in _PAGING else change


class _Half(NamedTuple):
    """A path that a file came to or went from."""

    kind: Literal["created", "deleted"]
    path: str
    file: File

    def change(self) -> DiskChange:
        file = self.file
        return DiskChange(self.kind, self.path, size=_size(file), what=("name",), is_directory=file.is_directory)


def _base(record: Record) -> int:
    return record.base if record.extends else record.number


def _size(file: File) -> int:
    return file.data.size if file.data is not None else 0


def _links(file: File) -> dict[tuple[int, int, str], FileName]:
    return {(link.parent, link.parent_sequence, link.name): link for link in file.links}


def _aliases(file: File) -> set[tuple[int, str]]:
    return {(name.parent, name.name) for name in file.names if name.namespace == DOS}


def _guarding(file: File) -> set[tuple[int, str]]:
    """The attributes of a file that tell who may do what with it, or what programs noted of it."""
    return {key for key in file.parts if key[0] in _GUARDING}
