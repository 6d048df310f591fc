"""Writes registry hives (format ``regf``), sound ones and such as no Windows would write.

It proves what the reader makes of the format's parts (each kind of list, inline data, data in pieces, names in both encodings).
It does not prove that Windows writes them so: it follows the same description as the reader does. Hives of another hand are
made with hivexsh in the tests.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import xor

BASE, BIN_HEADER, SEGMENT = 0x1000, 0x20, 16_344
NONE = 0xFFFF_FFFF


@dataclass
class Key:
    """A key with its values (name, type, bytes) and the keys below it."""

    name: str
    values: Sequence[tuple[str, int, bytes]] = ()
    keys: Sequence[Key] = ()
    mtime: int = 0
    flags: int = 0


@dataclass
class Writer:
    """Puts cells one after another; offsets are those of the format.

    Attributes:
        lists: The kind of lists of keys: ``lf``, ``lh``, ``li``, or ``ri`` for lists of two keys each under an index root.
        minor: The format's minor version; from 4 on large data lie in pieces.
    """

    lists: str = "lh"
    minor: int = 5
    cells: bytearray = field(default_factory=bytearray)
    security: int = field(init=False)

    def __post_init__(self) -> None:
        """One security record, the first cell, is that of all keys."""
        first, descriptor = BIN_HEADER, struct.pack("<BBHIIII", 1, 0, 0x8000, 0, 0, 0, 0)
        self.security = self.cell(struct.pack("<2sHIIII", b"sk", 0, first, first, 1, len(descriptor)) + descriptor)

    def cell(self, content: bytes) -> int:
        """A cell in use; gives its offset."""
        offset = BIN_HEADER + len(self.cells)
        size = -(-(len(content) + 4) // 8) * 8
        self.cells += struct.pack("<i", -size) + content.ljust(size - 4, b"\0")
        return offset

    def key(self, key: Key, parent: int = NONE, *, root: bool = False) -> int:
        """A key with all that belongs to it."""
        below = [self.key(child) for child in key.keys]
        values = [self.value(*value) for value in key.values]
        listed = self.list_of(below) if below else NONE
        value_list = self.cell(struct.pack(f"<{len(values)}I", *values)) if values else NONE
        name, is_latin = encoded(key.name)
        flags = key.flags | (0x20 if is_latin else 0) | (0x0C if root else 0)
        return self.cell(
            struct.pack(
                "<2sHQIIIIIIIIII20xHH", b"nk", flags, key.mtime, 0, parent, len(below), 0, listed, NONE, len(values),
                value_list, self.security, NONE, len(name), 0,
            )
            + name
        )  # fmt: skip

    def list_of(self, keys: Sequence[int]) -> int:
        """A list of keys."""
        if self.lists == "ri":
            parts = [self.cell(struct.pack(f"<2sH{len(p)}I", b"li", len(p), *p)) for p in pairs(keys)]
            return self.cell(struct.pack(f"<2sH{len(parts)}I", b"ri", len(parts), *parts))
        if self.lists == "li":
            return self.cell(struct.pack(f"<2sH{len(keys)}I", b"li", len(keys), *keys))
        entries = b"".join(struct.pack("<II", key, 0) for key in keys)
        return self.cell(struct.pack("<2sH", self.lists.encode(), len(keys)) + entries)

    def value(self, name: str, kind: int, data: bytes) -> int:
        """A value; up to four bytes stand in it."""
        if len(data) <= 4:
            size, where = len(data) | 0x8000_0000, int.from_bytes(data.ljust(4, b"\xee"), "little")
        elif len(data) > SEGMENT and self.minor > 3:
            parts = [self.cell(data[at : at + SEGMENT]) for at in range(0, len(data), SEGMENT)]
            listed = self.cell(struct.pack(f"<{len(parts)}I", *parts))
            size, where = len(data), self.cell(struct.pack("<2sHI", b"db", len(parts), listed))
        else:
            size, where = len(data), self.cell(data)
        raw, is_latin = encoded(name)
        return self.cell(struct.pack("<2sHIIIHH", b"vk", len(raw), size, where, kind, int(is_latin), 0) + raw)

    def file(self, root: int, *, sequences: tuple[int, int] = (7, 7)) -> bytes:
        """The whole hive."""
        size = -(-(BIN_HEADER + len(self.cells)) // 4096) * 4096
        rest = size - BIN_HEADER - len(self.cells)
        free = struct.pack("<i", rest) + bytes(rest - 4) if rest else b""
        header = struct.pack("<4sIIQIIIIIII64s", b"regf", *sequences, 0, 1, self.minor, 0, 1, root, size, 1, b"").ljust(
            508, b"\0"
        )
        return with_checksum(header.ljust(BASE, b"\0") + struct.pack("<4sII20x", b"hbin", 0, size) + self.cells + free)


def pairs(items: Sequence[int]) -> list[Sequence[int]]:
    """The items, two by two."""
    return [items[at : at + 2] for at in range(0, len(items), 2)]


def encoded(name: str) -> tuple[bytes, bool]:
    """A name as stored, and whether it is one byte a character."""
    try:
        return name.encode("latin-1"), True
    except UnicodeEncodeError:
        return name.encode("utf-16-le", "surrogatepass"), False


def with_checksum(hive: bytes) -> bytes:
    """The hive with its header's checksum put right."""
    total = reduce(xor, struct.unpack("<127I", hive[:508]))
    total = {0: 1, NONE: NONE - 1}.get(total, total)
    return hive[:508] + struct.pack("<I", total) + hive[512:]


def write(root: Key, *, lists: str = "lh", minor: int = 5, sequences: tuple[int, int] = (7, 7)) -> bytes:
    """A sound hive."""
    writer = Writer(lists, minor)
    return writer.file(writer.key(root, root=True), sequences=sequences)
