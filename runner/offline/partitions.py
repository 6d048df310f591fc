"""The partitions of a disk: GPT (UEFI specification, chapter 5), MBR with logical ones, or a volume without a table."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from runner.offline.source import Source
from validators.changes import Unreadable

_MAX_ENTRIES = 1024
_MAX_LOGICAL = 128
_EXTENDED = {0x05, 0x0F, 0x85}
_PROTECTIVE = 0xEE
_UNUSED = bytes(16)


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a disk.

    Attributes:
        number: From 1, in the order of the table; 0 for a disk without one.
        start: Byte where it begins.
        size: Bytes.
        ntfs: Whether its boot sector says that it holds an NTFS volume. Types in tables are not looked at.
    """

    number: int
    start: int
    size: int
    ntfs: bool


def partitions(disk: Source) -> tuple[Partition, ...]:
    """The partitions that a disk's table names, in the order of the table; none where it has no table.

    Raises:
        Unreadable: The table is damaged, or contradicts itself.
    """
    if disk.size < 1024:
        raise Unreadable(f"a disk of {disk.size} bytes holds no volume")
    first = disk.read(0, 512)
    if first[3:11] == b"NTFS    ":
        return (Partition(0, 0, disk.size, True),)
    if first[510:] != b"\x55\xaa":
        return ()
    entries = [struct.unpack_from("<4xB3xII", first, 446 + 16 * i) for i in range(4)]
    if any(kind == _PROTECTIVE for kind, _, _ in entries):
        return _checked(disk, _gpt(disk))
    found = [
        (number, start * 512, count * 512) for number, (kind, start, count) in enumerate(entries, 1) if kind and count
    ]
    extended = [start for kind, start, count in entries if kind in _EXTENDED and count]
    found = [item for item in found if entries[item[0] - 1][0] not in _EXTENDED]
    if extended:
        found += _logical(disk, extended[0])
    return _checked(disk, found)


def _logical(disk: Source, base: int) -> list[tuple[int, int, int]]:
    found: list[tuple[int, int, int]] = []
    at = base
    seen: set[int] = set()
    while at not in seen and len(found) < _MAX_LOGICAL:
        seen.add(at)
        sector = disk.read(at * 512, 512)
        if sector[510:] != b"\x55\xaa":
            raise Unreadable("the table of logical partitions is damaged")
        kind, start, count = struct.unpack_from("<4xB3xII", sector, 446)
        if kind and count:
            found.append((5 + len(found), (at + start) * 512, count * 512))
        kind, start, count = struct.unpack_from("<4xB3xII", sector, 462)
        if kind not in _EXTENDED or not count:
            return found
        at = base + start
    raise Unreadable("the table of logical partitions has no end")


def _gpt(disk: Source) -> list[tuple[int, int, int]]:
    for sector in (512, 4096):
        for lba in (1, disk.size // sector - 1):
            found = _gpt_at(disk, sector, lba)
            if found is not None:
                return found
    raise Unreadable("the disk's GUID partition table and its copy are damaged")


def _gpt_at(disk: Source, sector: int, lba: int) -> list[tuple[int, int, int]] | None:
    """The entries of one table, or ``None`` if it is none or its checksums are wrong."""
    if lba < 1 or (lba + 1) * sector > disk.size:
        return None
    header = disk.read(lba * sector, 512)
    size, crc = struct.unpack_from("<II", header, 12)
    if header[:8] != b"EFI PART" or not 92 <= size <= 512:
        return None
    if zlib.crc32(header[:16] + bytes(4) + header[20:size]) != crc:
        return None
    own, entries, count, width, table_crc = struct.unpack_from("<Q40xQIII", header, 24)
    if own != lba or not 128 <= width <= 4096 or count > _MAX_ENTRIES or entries * sector + count * width > disk.size:
        return None
    table = disk.read(entries * sector, count * width)
    if zlib.crc32(table) != table_crc:
        return None
    found = []
    for number in range(count):
        at = number * width
        if table[at : at + 16] != _UNUSED:
            first, last = struct.unpack_from("<QQ", table, at + 32)
            found.append((number + 1, first * sector, (last + 1 - first) * sector))
    return found


def _checked(disk: Source, found: list[tuple[int, int, int]]) -> tuple[Partition, ...]:
    result: list[Partition] = []
    end = 0
    for number, start, size in sorted(found, key=lambda item: item[1]):
        if size <= 0 or start < max(end, 512) or start + size > disk.size:
            raise Unreadable(f"partition {number} overlaps another one or does not lie within the disk")
        end = start + size
        is_ntfs = size >= 512 and disk.read(start, 11)[3:] == b"NTFS    "
        result.append(Partition(number, start, size, is_ntfs))
    return tuple(sorted(result, key=lambda item: item.number))
