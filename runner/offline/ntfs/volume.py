"""A volume: its master file table, files by number, and names."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import cached_property

from contracts.globs import fold as folded_without_table
from runner.offline.ntfs import directory, journal
from runner.offline.ntfs.geometry import BOOT_SIZE, geometry
from runner.offline.ntfs.record import (
    ATTRIBUTE_LIST,
    BITMAP,
    DATA,
    DOS,
    FILE_NAME,
    INDEX_ALLOCATION,
    INDEX_ROOT,
    REPARSE,
    STANDARD,
    Attribute,
    FileName,
    Record,
    Standard,
    file_name,
    listed,
    parse,
    reparse_target,
    standard,
)
from runner.offline.ntfs.stream import Stream
from runner.offline.source import Source
from validators.changes import Unreadable

MFT, LOG, ROOT, UPCASE = 0, 2, 5, 10
_MAX_LIST = 1 << 20
"""Bytes of an attribute list; Windows makes none above 256 KiB."""
_MAX_DEPTH = 512
_MAX_FOLDERS = 1_000
"""Folders whose names are kept in memory."""
_MAX_RECORDS = 2_000
"""Records, and files, that are kept in memory."""
_MAX_NAMES = 1 << 22
"""Names in one folder."""
_CHUNK = 1 << 20
_UPCASE_SIZE = 131_072

Key = tuple[int, str]
"""Type and name of an attribute."""


class File:
    """A file or directory, put together from all its records.

    Attributes:
        number: Of its base record.
        sequence: That one's sequence number.
        is_directory: It has an index of names.
        parts: Its attributes by type and name, except its names.
        names: All its names, 8.3 aliases included.
    """

    __slots__ = ("_standard", "_streams", "_volume", "is_directory", "names", "number", "parts", "sequence")

    def __init__(self, volume: Volume, record: Record, attributes: Sequence[Attribute]) -> None:
        self._volume = volume
        self.number = record.number
        self.sequence = record.sequence
        self.is_directory = record.is_directory
        self.names: list[FileName] = []
        self.parts: dict[Key, list[Attribute]] = {}
        self._streams: dict[Key, Stream] = {}
        self._standard: Standard | None = None
        for attribute in attributes:
            if attribute.kind == FILE_NAME:
                if attribute.value is None:
                    raise Unreadable(f"record {record.number}: a name that is not resident")
                self.names.append(file_name(attribute.value))
            elif attribute.kind != ATTRIBUTE_LIST:
                self.parts.setdefault((attribute.kind, attribute.name), []).append(attribute)

    def stream(self, kind: int, name: str = "") -> Stream | None:
        """An attribute's content; ``None``: it has none such.

        Raises:
            Unreadable: The attribute is damaged.
        """
        key = (kind, name)
        found = self._streams.get(key)
        if found is None and key in self.parts:
            found = self._streams[key] = self._volume.stream(self.parts[key])
        return found

    def all_streams(self) -> Iterator[Stream]:
        """The contents of all attributes."""
        for kind, name in self.parts:
            found = self.stream(kind, name)
            if found is not None:
                yield found

    @property
    def data(self) -> Stream | None:
        """The main content; directories have none."""
        return self.stream(DATA)

    @property
    def stream_names(self) -> list[str]:
        """Names of the alternate streams, sorted."""
        return sorted(name for kind, name in self.parts if kind == DATA and name)

    @property
    def standard(self) -> Standard:
        """Times, flags, security."""
        if self._standard is None:
            found = self.stream(STANDARD)
            if found is None or found.value is None:
                raise Unreadable(f"record {self.number} has no standard information")
            self._standard = standard(found.value)
        return self._standard

    @property
    def reparse(self) -> tuple[int, str] | None:
        """Tag of its reparse point and where that leads; ``None``: it is none."""
        found = self.stream(REPARSE)
        return None if found is None else reparse_target(found.read(0, min(found.size, 1 << 16)))

    @property
    def links(self) -> list[FileName]:
        """Its names without 8.3 aliases."""
        return [name for name in self.names if name.namespace != DOS]


class Volume:
    """An NTFS volume.

    Attributes:
        geometry: Sizes.
        mft: The master file table.
        by_wine: Its files are kept by Wine on ntfs-3g, not by Windows (see :mod:`runner.offline.attributes`).
    """

    def __init__(self, source: Source, *, by_wine: bool = False) -> None:
        """Reads what is needed to find files.

        Raises:
            Unreadable: It is no NTFS volume, or its master file table is damaged.
        """
        self._source = source
        self.by_wine = by_wine
        self.geometry = geometry(source.read(0, min(BOOT_SIZE, source.size)), source.size)
        self._folders: dict[int, _Folder] = {}
        self._records: dict[int, Record] = {}
        self._files: dict[int, File] = {}
        self._ways: dict[tuple[int, int], tuple[str, ...] | None] = {(ROOT, 0): ()}
        self.mft, self._mft_bitmap = self._table()

    # --- records ---

    def _table(self) -> tuple[Stream, Stream | None]:
        """The master file table, which tells where it lies itself.

        Where its run list takes several records, each lies in what the parts before it map.
        """
        place = self.geometry.mft * self.geometry.cluster
        head = parse(self._source.read(place, self.geometry.record), MFT, self.geometry)
        first = [part for part in head.attributes if part.kind == DATA and not part.name and part.first == 0]
        if not head.in_use or head.extends or len(first) != 1 or first[0].value is not None:
            raise Unreadable("the master file table does not tell where it lies")
        table = Stream(first, self._source, self.geometry, is_whole=False)
        bitmap = [part for part in head.attributes if part.kind == BITMAP]
        self.mft = table
        for record, part in self._listed_parts(head):
            if part.kind == DATA and not part.name and record:
                table.extend(part)
            elif part.kind == BITMAP and record:
                bitmap.append(part)
        table.ensure_whole()
        return table, self.stream(bitmap) if bitmap else None

    def _listed_parts(self, head: Record) -> Iterator[tuple[int, Attribute]]:
        """Number of the further record (0: none) and attribute of all that an attribute list names, in its order."""
        lists = [part for part in head.attributes if part.kind == ATTRIBUTE_LIST]
        if not lists:
            return
        content = self.stream(lists)
        if content.size > _MAX_LIST:
            raise Unreadable(f"record {head.number}: its attribute list takes {content.size} bytes")
        records = {head.number: head}
        for entry in listed(content.read(0, content.size)):
            record = records.get(entry.record)
            if record is None:
                record = records[entry.record] = self.record(entry.record)
                if not record.in_use or (record.base, record.base_sequence) != (head.number, head.sequence):
                    raise Unreadable(f"record {head.number}: record {entry.record} is not a part of it")
            if record.sequence != entry.sequence:
                raise Unreadable(f"record {head.number}: record {entry.record} was used anew")
            for part in record.attributes:
                if (part.kind, part.instance, part.first) == (entry.kind, entry.instance, entry.first):
                    yield 0 if record is head else entry.record, part
                    break
            else:
                raise Unreadable(f"record {head.number}: a part that its attribute list names is not there")

    @property
    def records(self) -> int:
        """How many records the table has room for."""
        return self.mft.size // self.geometry.record

    def raw(self, number: int, count: int = 1) -> bytes:
        """Records as they lie on the disk; fewer than ``count``, or none, where the table ends before."""
        count = max(0, min(count, self.records - number))
        return self.mft.read(number * self.geometry.record, count * self.geometry.record) if count else b""

    def record(self, number: int) -> Record:
        """A record.

        Raises:
            Unreadable: The table ends before, or the record is damaged.
        """
        block = self.raw(number)
        if not block:
            raise Unreadable(f"record {number} does not lie within the master file table")
        return parse(block, number, self.geometry)

    def used(self, number: int, block: bytes | None = None) -> Record | None:
        """A record that is in use; ``None``: it is free, then nothing in it need make sense.

        Raises:
            Unreadable: It is damaged.
        """
        record = self._records.get(number)
        if record is None:
            block = self.raw(number) if block is None else block
            if not block:
                return None
            try:
                record = parse(block, number, self.geometry)
            except Unreadable:
                if self._is_free(number):
                    return None
                raise
            if len(self._records) >= _MAX_RECORDS:
                self._records.clear()
            self._records[number] = record
        return record if record.in_use else None

    def _is_free(self, number: int) -> bool:
        bitmap = self._mft_bitmap
        if bitmap is None or number // 8 >= bitmap.size:
            return False
        return not bitmap.read(number // 8, 1)[0] >> number % 8 & 1

    def in_use(self) -> Iterator[Record]:
        """All records that are in use, in order; reads the whole table.

        Raises:
            Unreadable: One of them is damaged.
        """
        size = self.geometry.record
        for offset in range(0, self.records * size, _CHUNK):
            data = self.mft.read(offset, min(_CHUNK, self.records * size - offset))
            for at in range(0, len(data), size):
                # The flags lie before the first place that a fix-up changes.
                if data[at : at + 4] == b"FILE" and not data[at + 22] & 1:
                    continue
                record = self.used((offset + at) // size, data[at : at + size])
                if record is not None:
                    yield record

    def is_clean(self) -> bool:
        """Whether the volume was left clean (see :func:`runner.offline.ntfs.journal.is_clean`); not so while it is in use.

        Raises:
            Unreadable: Its journal is damaged or missing.
        """
        file = self.file(LOG)
        log = file.data if file is not None else None
        if log is None:
            raise Unreadable("the volume has no journal")
        return journal.is_clean(log, self.geometry.sector)

    # --- files ---

    def stream(self, parts: Sequence[Attribute]) -> Stream:
        """An attribute's content, from its parts."""
        return Stream(parts, self._source, self.geometry)

    def file(self, number: int, sequence: int | None = None) -> File | None:
        """A file by the number of its base record.

        Args:
            number: The record.
            sequence: Of the reference that leads to it.

        Returns:
            ``None``: no file has its base record there, or it is another one than was referred to.

        Raises:
            Unreadable: It is damaged.
        """
        found = self._files.get(number)
        if found is None:
            record = self.used(number)
            if record is None or record.extends:
                return None
            if len(self._files) >= _MAX_RECORDS:
                self._files.clear()
            found = self._files[number] = self.assembled(record)
        return found if sequence is None or found.sequence == sequence else None

    def assembled(self, record: Record) -> File:
        """A file from its base record."""
        if any(part.kind == ATTRIBUTE_LIST for part in record.attributes):
            return File(self, record, [part for _, part in self._listed_parts(record)])
        return File(self, record, record.attributes)

    # --- names ---

    def entries(self, folder: File) -> Iterator[directory.Entry]:
        """The names in a directory, in the order of its index.

        Raises:
            Unreadable: It is no directory, or its index is damaged.
        """
        root = folder.stream(INDEX_ROOT, directory.NAME)
        if root is None:
            raise Unreadable(f"record {folder.number} has no index of names")
        found = directory.entries(root, folder.stream(INDEX_ALLOCATION, directory.NAME), self.geometry)
        for count, entry in enumerate(found):
            if count > _MAX_NAMES:
                raise Unreadable(f"record {folder.number} has more than {_MAX_NAMES} names")
            yield entry

    def find(self, names: Sequence[str]) -> tuple[File, int] | None:
        r"""The file at a path; a name is looked up as it is, then without regard to case; 8.3 aliases count.

        Args:
            names: The components of the path below the root.

        Returns:
            The file and how many names lead to it: fewer than given where a reparse point lies on the way, which is not
            followed. ``None``: there is none.

        Raises:
            Unreadable: A directory on the way is damaged.
        """
        file = self.file(ROOT)
        if file is None or not file.is_directory:
            raise Unreadable("the volume has no root directory")
        for depth, name in enumerate(names):
            if file.reparse is not None:
                return file, depth
            if not file.is_directory:
                return None
            entry = self._folder(file).find(name)
            if entry is None:
                return None
            file = self.file(entry.number, entry.sequence)
            if file is None:
                raise Unreadable(f"{entry.name.name}: its directory names a file that is not there")
        return file, len(names)

    def _folder(self, file: File) -> _Folder:
        found = self._folders.get(file.number)
        if found is None:
            if len(self._folders) >= _MAX_FOLDERS:
                self._folders.clear()
            found = self._folders[file.number] = _Folder(self, file)
        return found

    def way(self, name: FileName) -> tuple[str, ...] | None:
        """The components of a path from the root to a name; ``None``: its directory is gone.

        Raises:
            Unreadable: The directories lead in a circle.
        """
        above = self._way(name.parent, name.parent_sequence)
        return None if above is None else (*above, name.name)

    def _way(self, number: int, sequence: int) -> tuple[str, ...] | None:
        pending: list[tuple[tuple[int, int], str]] = []
        key = (number, 0 if number == ROOT else sequence)
        seen: set[tuple[int, int]] = set()
        while key not in self._ways:
            if key in seen or len(seen) > _MAX_DEPTH:
                raise Unreadable(f"the directories above record {number} lead in a circle")
            seen.add(key)
            folder = self.file(*key)
            if folder is None or not folder.is_directory or not folder.links:
                self._ways[key] = None
                break
            link = folder.links[0]
            pending.append((key, link.name))
            key = (link.parent, 0 if link.parent == ROOT else link.parent_sequence)
        found = self._ways[key]
        for key, name in reversed(pending):
            found = self._ways[key] = None if found is None else (*found, name)
        return found

    @cached_property
    def _upper(self) -> dict[int, int]:
        """The volume's own table of capitals, where it differs from the identity; empty: it has none that can be read."""
        try:
            file = self.file(UPCASE)
            data = file.data if file is not None else None
            if data is None or data.size != _UPCASE_SIZE:
                return {}
            return {
                code: upper
                for code, (upper,) in enumerate(struct.iter_unpack("<H", data.read(0, data.size)))
                if code != upper
            }
        except Unreadable:
            return {}

    def fold(self, name: str) -> str:
        """The form in which two spellings of one name are equal on this volume."""
        if name.isascii():
            return name.upper()
        return name.translate(self._upper) if self._upper else folded_without_table(name)


class _Folder:
    """The names of one directory, for looking up."""

    def __init__(self, volume: Volume, file: File) -> None:
        self._volume = volume
        self._exact: dict[str, directory.Entry] = {}
        self._folded: dict[str, directory.Entry] = {}
        for entry in volume.entries(file):
            self._exact[entry.name.name] = entry
            self._folded.setdefault(volume.fold(entry.name.name), entry)

    def find(self, name: str) -> directory.Entry | None:
        return self._exact.get(name) or self._folded.get(self._volume.fold(name))
