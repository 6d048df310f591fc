"""File records: fix-ups, headers, attributes, and what the small attributes hold. Pure functions of bytes."""

from __future__ import annotations

import struct
from codecs import utf_16_le_decode
from collections.abc import Iterator
from typing import NamedTuple

from runner.offline.ntfs.geometry import Geometry
from validators.changes import Unreadable

STANDARD, ATTRIBUTE_LIST, FILE_NAME, OBJECT_ID, SECURITY, DATA = 0x10, 0x20, 0x30, 0x40, 0x50, 0x80
INDEX_ROOT, INDEX_ALLOCATION, BITMAP, REPARSE, EA_INFO, EA, LOGGED = 0x90, 0xA0, 0xB0, 0xC0, 0xD0, 0xE0, 0x100
COMPRESSED, ENCRYPTED, SPARSE_FLAG = 0x0001, 0x4000, 0x8000
POSIX, WIN32, DOS, WIN32_AND_DOS = 0, 1, 2, 3
"""Namespaces of names; a name of :data:`DOS` is the 8.3 alias of one of :data:`WIN32`."""
NUMBER_BITS = 48
"""A reference is a record's number in its low 48 bits and its sequence number above."""
_NUMBER = (1 << NUMBER_BITS) - 1
_IN_USE, _DIRECTORY = 1, 2
_END = 0xFFFF_FFFF
_END_MARK = _END.to_bytes(4, "little")
_HEADER = struct.Struct("<4sHHQHHHHIIQ")
_ATTRIBUTE = struct.Struct("<IIBBHHH")
_RESIDENT = struct.Struct("<IH")
_MAPPED = struct.Struct("<QqHB5xqqq")
_STANDARD = struct.Struct("<QQQQI")
_NAME = struct.Struct("<QQQQQQQIIBB")
_LISTED = struct.Struct("<IHBBQQH")
_U32 = struct.Struct("<I")


def split(reference: int) -> tuple[int, int]:
    """Number and sequence number of a reference."""
    return reference & _NUMBER, reference >> NUMBER_BITS


def mended(block: bytes, magic: bytes, sector: int) -> bytearray:
    """Undoes the update sequence of a record or index block, which proves that it was written whole.

    Args:
        block: The block as it lies on the disk.
        magic: What it must begin with.
        sector: The volume's sector size; the stride of the sequence is that, or 512.

    Raises:
        Unreadable: It begins with something else, or was not written whole.
    """
    if block[:4] != magic:
        raise Unreadable(f"{magic.decode()} block expected, {bytes(block[:4])!r} found")
    offset, count = struct.unpack_from("<HH", block, 4)
    size = len(block)
    stride = size // (count - 1) if count > 1 else 0
    if stride not in (512, sector) or stride * (count - 1) != size or offset % 2 or not 8 <= offset <= 510 - 2 * count:
        raise Unreadable("a block's update sequence cannot be where it is said to be")
    data = bytearray(block)
    mark = data[offset : offset + 2]
    for end in range(stride, size + 1, stride):
        offset += 2
        if data[end - 2 : end] != mark:
            raise Unreadable("a block was not written whole: its update sequence does not fit")
        data[end - 2 : end] = data[offset : offset + 2]
    return data


class Attribute(NamedTuple):
    """One attribute of a record, or a part of one that lies in several records.

    Attributes:
        kind: Its type.
        name: Its name; empty for most.
        flags: :data:`COMPRESSED` and the like.
        instance: Its number within the record.
        value: Its content, where it is resident.
        first: First cluster that the run list maps.
        last: Last one.
        size: Bytes of the whole content (first part only).
        initialized: Bytes of it that were ever written; the rest reads as zeros.
        unit: Power of two of the clusters in a compression unit.
        pairs: The encoded run list.
    """

    kind: int
    name: str
    flags: int
    instance: int
    value: bytes | None
    first: int = 0
    last: int = -1
    size: int = 0
    initialized: int = 0
    unit: int = 0
    pairs: bytes = b""


class Record(NamedTuple):
    """A file record.

    Attributes:
        number: Its place in the master file table.
        sequence: How often the place was used; a reference with another one means a file that is gone.
        in_use: It belongs to a file that exists.
        is_directory: It has an index of names.
        base: Number of the record that it extends, or 0.
        base_sequence: That one's sequence number.
        attributes: In the order of the record; empty if not in use.
    """

    number: int
    sequence: int
    in_use: bool
    is_directory: bool
    base: int
    base_sequence: int
    attributes: tuple[Attribute, ...]

    @property
    def extends(self) -> bool:
        """Whether it is a further record of another file."""
        return bool(self.base or self.base_sequence)


def parse(block: bytes, number: int, geometry: Geometry) -> Record:
    """Reads a record as it lies on the disk.

    Raises:
        Unreadable: It is no record, was not written whole, or contradicts itself.
    """
    data = mended(block, b"FILE", geometry.sector)
    _, fix_ups, _, _, sequence, _, start, flags, used, _, base = _HEADER.unpack_from(data)
    if fix_ups >= 0x30 and _U32.unpack_from(data, 0x2C)[0] != number & 0xFFFF_FFFF:
        raise Unreadable(f"record {number} says that it is another one")
    base_number, base_sequence = split(base)
    in_use = bool(flags & _IN_USE)
    if in_use and not (_HEADER.size <= start <= used <= len(data) and start % 8 == 0):
        raise Unreadable(f"record {number}: its attributes do not lie within it")
    found = _attributes(bytes(data), start, used, number) if in_use else []
    return Record(number, sequence, in_use, bool(flags & _DIRECTORY), base_number, base_sequence, tuple(found))


def _attributes(data: bytes, at: int, used: int, number: int) -> list[Attribute]:
    found: list[Attribute] = []
    last_place = len(data) - _ATTRIBUTE.size
    while at <= last_place:
        kind, length, is_mapped, name_length, name_at, flags, instance = _ATTRIBUTE.unpack_from(data, at)
        if kind == _END:
            return found
        if length < 24 or length % 8 or at + length > used:
            break
        name = ""
        if name_length:
            if name_at + 2 * name_length > length:
                break
            name = text(data[at + name_at : at + name_at + 2 * name_length])
        if not is_mapped:
            size, place = _RESIDENT.unpack_from(data, at + 16)
            if place + size > length:
                break
            found.append(Attribute(kind, name, flags, instance, data[at + place : at + place + size]))
        else:
            if length < 64:
                break
            first, last, pairs, unit, _, size, initialized = _MAPPED.unpack_from(data, at + 16)
            if pairs < 64 or pairs > length or not -1 <= last < 1 << 48 or first > last + 1 or unit > 16:
                break
            if first == 0 and not 0 <= initialized <= size:
                break
            pairs_there = data[at + pairs : at + length]
            found.append(
                Attribute(kind, name, flags, instance, None, first, last, size, initialized, unit, pairs_there)
            )
        at += length
    if data[at : at + 4] == _END_MARK:
        return found  # the last attribute fills the record
    raise Unreadable(f"record {number}: its attributes are damaged")


def text(data: bytes) -> str:
    """UTF-16 of the disk; names may hold surrogates without a partner."""
    return utf_16_le_decode(data, "surrogatepass", True)[0]


class Standard(NamedTuple):
    """What every file has. Times are FILETIMEs, ``changed`` is that of the record; ``security`` is an id or 0."""

    created: int
    modified: int
    changed: int
    accessed: int
    flags: int
    security: int


def standard(value: bytes) -> Standard:
    """Reads ``$STANDARD_INFORMATION``."""
    if len(value) < 48:
        raise Unreadable("standard information is cut")
    created, modified, changed, accessed, flags = _STANDARD.unpack_from(value)
    security = _U32.unpack_from(value, 52)[0] if len(value) >= 72 else 0
    return Standard(created, modified, changed, accessed, flags, security)


class FileName(NamedTuple):
    """One name of a file, in one directory."""

    parent: int
    parent_sequence: int
    name: str
    namespace: int


def file_name(value: bytes) -> FileName:
    """Reads ``$FILE_NAME``, which also is the key of a directory's entry."""
    if len(value) < _NAME.size:
        raise Unreadable("a file's name is cut")
    parent, *_, length, namespace = _NAME.unpack_from(value)
    if not length or _NAME.size + 2 * length > len(value) or namespace > WIN32_AND_DOS:
        raise Unreadable("a file's name is damaged")
    return FileName(*split(parent), text(value[_NAME.size : _NAME.size + 2 * length]), namespace)


class Listed(NamedTuple):
    """An entry of an attribute list: where a part of an attribute lies."""

    kind: int
    name: str
    first: int
    record: int
    sequence: int
    instance: int


def listed(value: bytes) -> Iterator[Listed]:
    """Reads an attribute list.

    Raises:
        Unreadable: An entry does not lie within it.
    """
    at = 0
    while at < len(value):
        if at + _LISTED.size > len(value):
            raise Unreadable("an attribute list is cut")
        kind, length, name_length, name_at, first, reference, instance = _LISTED.unpack_from(value, at)
        if length < _LISTED.size or at + length > len(value) or (name_length and name_at + 2 * name_length > length):
            raise Unreadable("an attribute list is damaged")
        name = text(value[at + name_at : at + name_at + 2 * name_length])
        yield Listed(kind, name, first, *split(reference), instance)
        at += length


def reparse_target(value: bytes) -> tuple[int, str]:
    """Tag of a reparse point, and where a junction or symbolic link leads (else empty; [MS-FSCC] 2.1.2)."""
    if len(value) < 8:
        raise Unreadable("a reparse point is cut")
    tag = _U32.unpack_from(value)[0]
    skip = {0xA000_0003: 16, 0xA000_000C: 20}.get(tag)
    if skip is None or len(value) < skip:
        return tag, ""
    begin, length, shown, shown_length = struct.unpack_from("<HHHH", value, 8)
    if shown_length:
        begin, length = shown, shown_length
    target = value[skip + begin : skip + begin + length]
    return tag, text(target[: len(target) // 2 * 2]).removeprefix("\\??\\")
