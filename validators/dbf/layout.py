"""The header of a DBF table: dialect, field descriptors, where records lie. Everything in it is checked, nothing trusted.

Sources: the dBASE II, III, IV and 7 file format descriptions, Microsoft's "Table File Structure" of Visual FoxPro. The
place of a field in the record is the sum of the lengths before it: the displacement in the descriptor is left empty by
many programs. Records are stepped by the header's record length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from validators.changes import Unreadable
from validators.dbf.codepages import ASCII, Encoding, header_encoding


class Dialect(StrEnum):
    """Which program's rules the types and the memo file follow."""

    DBASE2 = "dBASE II"
    DBASE3 = "dBASE III"
    DBASE4 = "dBASE IV"
    DBASE7 = "dBASE 7"
    FOXPRO = "FoxPro 2"
    VFP = "Visual FoxPro"


_VERSIONS = {
    0x02: Dialect.DBASE2,
    **dict.fromkeys((0x03, 0x83, 0x13, 0x23, 0xFB), Dialect.DBASE3),
    **dict.fromkeys((0x05, 0x43, 0x63, 0x7B, 0x85, 0x87, 0x8B, 0x8E, 0xCB), Dialect.DBASE4),
    **dict.fromkeys((0x04, 0x8C), Dialect.DBASE7),
    **dict.fromkeys((0xF5, 0xE5), Dialect.FOXPRO),
    **dict.fromkeys((0x30, 0x31, 0x32), Dialect.VFP),
}
_SYSTEM, _NULLABLE, _BINARY = 0x01, 0x02, 0x04
_LARGEST_DBASE2_HEADER = 521


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    Attributes:
        name: The name in the header; a second field of the same name is called ``NAME#2``.
        type: The type's letter, e.g. ``C``.
        length: Bytes in the record.
        decimals: Digits after the point, where the type has such.
        offset: First byte in the record; byte 0 is the deletion flag.
        binary: Visual FoxPro's "no code page translation".
        nullable: Whether the descriptor allows null.
        null_bit: Number of its null bit in the hidden ``_NullFlags`` field, if it has one.
        length_bit: Number of its "last byte holds the length" bit there (types V and Q).
    """

    name: str
    type: str
    length: int
    decimals: int
    offset: int
    binary: bool = False
    nullable: bool = False
    null_bit: int | None = None
    length_bit: int | None = None

    @property
    def shape(self) -> tuple[str, int, int, bool, bool]:
        """What makes two fields of one name the same in structure."""
        return self.type, self.length, self.decimals, self.binary, self.nullable

    def describe(self) -> str:
        """The type for people: ``N(10,2)``, ``C(20) binary null``."""
        size = f"{self.length},{self.decimals}" if self.decimals else f"{self.length}"
        return f"{self.type}({size})" + (" binary" if self.binary else "") + (" null" if self.nullable else "")


@dataclass(frozen=True, slots=True)
class Layout:
    """What the header says, after checking.

    Attributes:
        version: Byte 0.
        dialect: Whose rules hold.
        count: Records by the header's count.
        header_length: Bytes before the first record.
        record_length: Bytes of a record, deletion flag included.
        fields: The fields that hold data, in order.
        null_flags: Offset and length of the hidden ``_NullFlags`` field in the record, if there is one.
        declared: The encoding the header tells, if any.
        descriptors: First byte, size and number of the field descriptors in the header.
        warnings: Oddities that were read around.
    """

    version: int
    dialect: Dialect
    count: int
    header_length: int
    record_length: int
    fields: tuple[Field, ...]
    null_flags: tuple[int, int] | None
    declared: Encoding | None
    descriptors: tuple[int, int, int]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Raw:
    """A descriptor as it stands in the file."""

    name: bytes
    type: str
    length: int
    decimals: int
    flags: int


def parse_layout(head: bytes, encoding: Encoding | None) -> Layout:
    """Reads a header.

    Args:
        head: The file's first bytes, at most 65,536.
        encoding: The declared encoding, for the fields' names; ``None``: as the header says.

    Raises:
        Unreadable: Empty, cut off, zeroed, of an unknown version, or a header that contradicts itself.
    """
    if not head:
        raise Unreadable("the file is empty (0 bytes)")
    if not any(head[:32]):
        raise Unreadable("the header is zeroed: the file is being created, or was damaged")
    dialect = _VERSIONS.get(head[0])
    if dialect is None:
        raise Unreadable(f"not a DBF table: unknown version byte 0x{head[0]:02x}")
    if dialect is Dialect.DBASE2:
        return _dbase2(head, encoding)
    if len(head) < 33:
        raise Unreadable(f"the header is cut off: {len(head)} bytes")
    count, header_length, record_length = struct.unpack_from("<IHH", head, 4)
    if record_length == 0:
        raise Unreadable("the header contradicts itself: record length 0")
    if header_length < 33:
        raise Unreadable(f"the header contradicts itself: header length {header_length}")
    if header_length > len(head):
        raise Unreadable(f"the header is cut off: {len(head)} of {header_length} bytes")
    declared = header_encoding(head[29], head[32:64] if dialect is Dialect.DBASE7 else b"")
    raws: list[_Raw] = []
    start, size = 32, 32
    if dialect is Dialect.DBASE7:
        start, size = 68, 48
        raws = _descriptors(head, header_length, start, size, _descriptor7)
        if not raws or 1 + sum(raw.length for raw in raws) != record_length:
            # Version 0x04 was also written by dBASE IV work-alikes, with the old short descriptors.
            start, size, dialect = 32, 32, Dialect.DBASE4
            declared = header_encoding(head[29])
    if size == 32:
        raws = _descriptors(head, header_length, start, size, _descriptor)
    fields, null_flags, warnings = _fields(raws, dialect, record_length, encoding or declared or ASCII)
    return Layout(
        head[0], dialect, count, header_length, record_length, fields, null_flags, declared, (start, size, len(raws)), warnings,
    )  # fmt: skip


def _dbase2(head: bytes, encoding: Encoding | None) -> Layout:
    """Of dBASE II: 8 bytes, then up to 32 descriptors of 16 bytes; records always begin at 521."""
    if len(head) < _LARGEST_DBASE2_HEADER:
        raise Unreadable(f"the header is cut off: {len(head)} of {_LARGEST_DBASE2_HEADER} bytes")
    count, record_length = struct.unpack_from("<H3xH", head, 1)
    if record_length == 0:
        raise Unreadable("the header contradicts itself: record length 0")
    raws = _descriptors(head, _LARGEST_DBASE2_HEADER, 8, 16, _descriptor2)
    fields, null_flags, warnings = _fields(raws, Dialect.DBASE2, record_length, encoding or ASCII)
    return Layout(
        head[0], Dialect.DBASE2, count, _LARGEST_DBASE2_HEADER, record_length, fields, null_flags, None, (8, 16, len(raws)),
        warnings,
    )  # fmt: skip


def _descriptor2(raw: bytes) -> _Raw:
    return _Raw(raw[:11], chr(raw[11]), raw[12], raw[15], 0)


def _descriptor(raw: bytes) -> _Raw:
    return _Raw(raw[:11], chr(raw[11]), raw[16], raw[17], raw[18])


def _descriptor7(raw: bytes) -> _Raw:
    return _Raw(raw[:32], chr(raw[32]), raw[33], raw[34], 0)


def _descriptors(head: bytes, end: int, start: int, size: int, read: Callable[[bytes], _Raw]) -> list[_Raw]:
    """Descriptors up to the end mark 0x0D; some programs end them with a zero byte, some not at all."""
    found = []
    for at in range(start, end - size + 1, size):
        if head[at] in (0x0D, 0x00):
            break
        found.append(read(head[at : at + size]))
    return found


def _lengths(raws: list[_Raw], dialect: Dialect, record_length: int) -> list[_Raw]:
    """Settles the length of long character fields: Clipper and FoxPro keep its high byte where decimals stand.

    Other programs leave rubbish there, so the high byte counts only where the record length says so.
    """
    plain = 1 + sum(raw.length for raw in raws)
    if plain == record_length or not any(raw.type == "C" and raw.decimals for raw in raws):
        return raws
    long = [replace(raw, length=raw.length + 256 * raw.decimals) if raw.type == "C" else raw for raw in raws]
    fits = 1 + sum(raw.length for raw in long) == record_length
    return long if fits and dialect is not Dialect.DBASE2 else raws


def _fields(
    raws: list[_Raw], dialect: Dialect, record_length: int, encoding: Encoding
) -> tuple[tuple[Field, ...], tuple[int, int] | None, tuple[str, ...]]:
    raws = _lengths(raws, dialect, record_length)
    used = 1 + sum(raw.length for raw in raws)
    if used > record_length:
        raise Unreadable(f"the header contradicts itself: fields need {used} bytes, a record has {record_length}")
    warnings = []
    if used < record_length:
        warnings.append(f"{record_length - used} bytes at the end of each record belong to no field")
    flags = dialect is Dialect.VFP
    fields: list[Field] = []
    names: dict[str, int] = {}
    null_flags: tuple[int, int] | None = None
    offset, bit = 1, 0
    for number, raw in enumerate(raws, 1):
        if flags and raw.type == "0" and raw.flags & _SYSTEM:
            null_flags = null_flags or (offset, raw.length)
            offset += raw.length
            continue
        name = _name(raw.name, encoding) or f"FIELD{number}"
        names[name] = names.get(name, 0) + 1
        if names[name] > 1:
            warnings.append(f"there are several fields named {name}: they are told apart as {name}, {name}#2 …")
            name = f"{name}#{names[name]}"
        varying = flags and raw.type in "VQ"
        nullable = flags and bool(raw.flags & _NULLABLE)
        # Visual FoxPro gives a field its length bit first, then its null bit.
        length_bit = bit if varying else None
        null_bit = bit + varying if nullable else None
        bit += varying + nullable
        decimals = 0 if raw.type == "C" else raw.decimals
        binary = flags and bool(raw.flags & _BINARY)
        fields.append(Field(name, raw.type, raw.length, decimals, offset, binary, nullable, null_bit, length_bit))
        offset += raw.length
    bits = 8 * null_flags[1] if null_flags else 0
    if bit > bits:
        if null_flags:
            warnings.append("the hidden _NullFlags field is too short for the fields' bits")
        fields = [_without_bits(field, bits) for field in fields]
    return tuple(fields), null_flags, tuple(dict.fromkeys(warnings))


def _without_bits(field: Field, bits: int) -> Field:
    """The field without the bits that the hidden field has no room for."""

    def kept(bit: int | None) -> int | None:
        return bit if bit is not None and bit < bits else None

    return replace(field, null_bit=kept(field.null_bit), length_bit=kept(field.length_bit))


def _name(raw: bytes, encoding: Encoding) -> str:
    raw = raw.split(b"\0")[0].strip()
    try:
        return encoding.decode(raw)
    except UnicodeError:
        return raw.decode("ascii", "backslashreplace")
