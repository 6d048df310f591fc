"""The index of a directory ($I30): a B+ tree of names."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from runner.offline.ntfs.geometry import Geometry
from runner.offline.ntfs.record import FILE_NAME, FileName, file_name, mended, split
from runner.offline.ntfs.stream import Stream
from validators.changes import Unreadable

NAME = "$I30"
_MAX_DEPTH = 32
_SUB, _LAST = 1, 2
_ENTRY = struct.Struct("<QHHH")
_NODE = struct.Struct("<III")


class Entry(NamedTuple):
    """A name in a directory, and the file that it is of."""

    number: int
    sequence: int
    name: FileName


def entries(root: Stream, blocks: Stream | None, geometry: Geometry) -> Iterator[Entry]:
    """The names of a directory, in the order of its index; 8.3 aliases are names of their own.

    Args:
        root: ``$INDEX_ROOT``.
        blocks: ``$INDEX_ALLOCATION``, where there is one.
        geometry: Of the volume.

    Raises:
        Unreadable: The index is damaged.
    """
    value = root.value
    if value is None:  # always resident; a mapped one could claim any size
        raise Unreadable("a directory's index root is not resident")
    if len(value) < 32 or struct.unpack_from("<I", value)[0] != FILE_NAME:
        raise Unreadable("a directory's index is no index of names")
    size = struct.unpack_from("<I", value, 8)[0]
    if not (512 <= size <= 1 << 20 and size & (size - 1) == 0):
        raise Unreadable(f"a directory's index has blocks of {size} bytes")
    yield from _Tree(blocks, size, geometry).walk(value, 16, 0)


class _Tree:
    def __init__(self, blocks: Stream | None, size: int, geometry: Geometry) -> None:
        self._blocks = blocks
        self._size = size
        self._unit = geometry.cluster if size >= geometry.cluster else 512
        self._sector = geometry.sector
        self._seen: set[int] = set()

    def walk(self, data: bytes, start: int, depth: int) -> Iterator[Entry]:
        """The entries of a node and of what lies below it; ``start`` is where the node's header is."""
        first, used, _ = _NODE.unpack_from(data, start)
        at, end = start + first, start + used
        if end > len(data):
            raise Unreadable("a directory's index is damaged: a node is larger than its block")
        while at + 16 <= end:
            reference, length, key, flags = _ENTRY.unpack_from(data, at)
            if length < 16 or length % 8 or at + length > end or 16 + key + 8 * (flags & _SUB) > length:
                break
            if flags & _SUB:
                yield from self._below(struct.unpack_from("<Q", data, at + length - 8)[0], depth + 1)
            if flags & _LAST:
                return
            yield Entry(*split(reference), file_name(data[at + 16 : at + 16 + key]))
            at += length
        raise Unreadable("a directory's index is damaged: its entries do not end")

    def _below(self, vcn: int, depth: int) -> Iterator[Entry]:
        if self._blocks is None or vcn in self._seen or depth > _MAX_DEPTH:
            raise Unreadable("a directory's index is damaged: it leads in a circle or nowhere")
        self._seen.add(vcn)
        block = bytes(mended(self._blocks.read(vcn * self._unit, self._size), b"INDX", self._sector))
        if struct.unpack_from("<Q", block, 16)[0] != vcn:
            raise Unreadable("a directory's index is damaged: a block says that it is another one")
        yield from self.walk(block, 24, depth)
