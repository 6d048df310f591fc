"""Makes DBF tables and memo files byte by byte, the wrong ones too, which no library would write."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from contracts.schema import DbfTable
from validators.changes import Comparison
from validators.dbf import TableState, diff_tables

LIVE, DELETED = b" ", b"*"


@dataclass(frozen=True)
class F:
    """A field descriptor."""

    name: str
    type: str = "C"
    length: int = 10
    decimals: int = 0
    flags: int = 0
    displacement: int = 0
    counter: int = 0


@dataclass(frozen=True)
class Table:
    """A table to be written; rows are the bytes of each record without the deletion flag."""

    fields: Sequence[F]
    rows: Sequence[bytes] = ()
    flags: Sequence[bytes] | None = None
    version: int = 0x03
    language: int = 0x03
    count: int | None = None
    record_length: int | None = None
    date: bytes = b"\x7c\x01\x02"
    terminator: bytes = b"\r"
    padding: bytes = b""
    tail: bytes = b"\x1a"
    header_flags: int = 0
    names: str = "cp850"
    memo: bytes | None = None
    kind: str = "fpt"
    driver: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of a record, deletion flag included."""
        return self.record_length or 1 + sum(item.length for item in self.fields)

    def header(self) -> bytes:
        """The bytes before the first record."""
        count = len(self.rows) if self.count is None else self.count
        if self.version == 0x02:
            head = struct.pack("<BH3sH", 2, count, self.date, self.size)
            for item in self.fields:
                head += struct.pack("<11scBHB", item.name.encode(), item.type.encode(), item.length, 0, item.decimals)
            return (head + b"\r").ljust(521, b"\0")
        seven = bool(self.driver)
        start = 68 if seven else 32
        described = b"".join(self.descriptor(item, seven=seven) for item in self.fields)
        length = start + len(described) + len(self.terminator) + len(self.padding)
        head = struct.pack("<B3sIHH", self.version, self.date, count, length, self.size)
        head = head.ljust(28, b"\0") + bytes([self.header_flags, self.language, 0, 0])
        if seven:
            head += self.driver.ljust(32, b"\0") + bytes(4)
        return head + described + self.terminator + self.padding

    def descriptor(self, item: F, *, seven: bool) -> bytes:
        """One field descriptor."""
        name = item.name.encode(self.names)
        if seven:
            return struct.pack("<32scBB5xI4x", name, item.type.encode(), item.length, item.decimals, item.counter)
        described = struct.pack(
            "<11scIBBBIB", name, item.type.encode(), item.displacement, item.length & 255, item.decimals, item.flags,
            item.counter, 0,
        )  # fmt: skip
        return described.ljust(32, b"\0")

    def dbf(self) -> bytes:
        """The file."""
        flags = self.flags or [LIVE] * len(self.rows)
        records = (flag + row.ljust(self.size - 1) for flag, row in zip(flags, self.rows, strict=True))
        return self.header() + b"".join(records) + self.tail

    def state(self) -> TableState:
        """The files of the table."""
        return TableState(self.dbf(), self.memo, self.kind, "T.DBF")  # type: ignore[arg-type]

    def with_(self, **changes: object) -> Self:
        """The same table with something else in it."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def delete(self, *indexes: int) -> Self:
        """The same table with records marked as deleted."""
        flags = list(self.flags or [LIVE] * len(self.rows))
        for index in indexes:
            flags[index] = DELETED
        return replace(self, flags=flags)

    def pack(self) -> Self:
        """The same table without its deleted records."""
        flags = self.flags or [LIVE] * len(self.rows)
        return replace(
            self, rows=[row for row, flag in zip(self.rows, flags, strict=True) if flag != DELETED], flags=None
        )


@dataclass
class Fpt:
    """A FoxPro memo file in the making."""

    block: int = 64
    data: bytearray = field(default_factory=lambda: bytearray(512))

    def add(self, text: bytes, kind: int = 1) -> bytes:
        """Appends a memo; returns its 4-byte pointer."""
        step = self.block or 1
        self.data.extend(bytes(-len(self.data) % step))
        at = len(self.data) // step
        self.data += struct.pack(">II", kind, len(text)) + text
        return struct.pack("<I", at)

    def bytes(self) -> bytes:
        """The file."""
        data = self.data + bytes(-len(self.data) % (self.block or 1))
        struct.pack_into(">IHH", data, 0, len(data) // (self.block or 1), 0, self.block)
        return bytes(data)


@dataclass
class Dbt:
    """A dBASE III or IV memo file in the making."""

    block: int = 512
    measured: bool = False
    mark: bytes = b"\xff\xff\x08\x00"
    data: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.data = self.data or bytearray(self.block)

    def add(self, text: bytes) -> bytes:
        """Appends a memo; returns its 10-digit pointer."""
        at = len(self.data) // self.block
        block = self.mark + struct.pack("<I", len(text) + 8) + text if self.measured else text + b"\x1a\x1a"
        self.data += block + bytes(-len(block) % self.block)
        return b"%10d" % at

    def bytes(self) -> bytes:
        """The file."""
        data = bytearray(self.data)
        struct.pack_into("<I", data, 0, len(data) // self.block)
        if self.measured:
            struct.pack_into("<H", data, 20, self.block)
        return bytes(data)


def spec(*key: str, **settings: object) -> DbfTable:
    """What a contract says about the table."""
    return DbfTable.model_validate({"dbf": r"C:\D\T.DBF", "key": list(key), **settings})


def diff(before: Table | None, after: Table | None, *key: str, **settings: object) -> Comparison:
    """The differences between two tables."""
    absent = TableState(None, None, None, "T.DBF")
    one, two = (table.state() if table else absent for table in (before, after))
    return diff_tables(one, two, spec(*key, **settings), observable="t")


def told(comparison: Comparison) -> list[tuple[str, str, tuple[str, ...]]]:
    """Verb, subject and changed fields of every change."""
    return [(change.verb.value, change.subject, change.changed) for change in comparison.changes]


def noted(comparison: Comparison) -> dict[str, int]:
    """How often each kind of note was made."""
    counts: dict[str, int] = {}
    for note in comparison.notes:
        counts[note.kind] = counts.get(note.kind, 0) + note.count
    return counts
