"""One layer of a disk: a qcow2 file's own clusters, looked up in its tables, or a raw file.

The format is that of QEMU's ``docs/interop/qcow2.txt``. Only what is asked for is looked up: a table is read when a cluster that it
maps is, so a small read of a large disk costs little, and the clusters that an overlay holds are found by its own tables alone.
"""

from __future__ import annotations

import os
import struct
import sys
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from validators.changes import Unreadable

_MAGIC = b"QFI\xfb"
_HEADER = struct.Struct(">4sIQIIQIIQ")
_OFFSET_BITS = 0x00FF_FFFF_FFFF_FE00
_COMPRESSED = 1 << 62
_ZERO = 1
_MAX_L1 = 32 << 20
"""Bytes of the first table, as QEMU bounds it."""
_MAX_TABLES = 32 << 20
"""Bytes of second tables that are kept in memory."""
_BLOCK = 512
_NOTHING = bytes(_BLOCK)
_ENTRIES = struct.Struct(f">{_BLOCK // 8}Q")
_BACKING_FORMAT = 0xE279_2ACA
_DIRTY, _CORRUPT, _EXTERNAL, _COMPRESSION, _EXTENDED = 1, 2, 4, 8, 16
_REMEDY = "turn it into a plain image: qemu-img convert -O qcow2"


class Piece(NamedTuple):
    """Where a layer holds some bytes.

    Attributes:
        kind: ``data`` (in the file at ``place``), ``zero``, ``absent`` (a deeper layer holds them), ``packed`` (within the
            compressed cluster at ``place``, which takes ``packed`` bytes at most).
        place: Offset in the file.
        length: For how many bytes, from the offset that was asked for, this holds.
        packed: Bytes of a compressed cluster.
    """

    kind: str
    place: int
    length: int
    packed: int = 0


class Layer:
    """A file that holds all or some of a disk's bytes."""

    size: int
    """Of the disk, in bytes."""
    backing: tuple[str, str] | None = None
    """File and format of the layer below."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            stat = os.fstat(self._file)
        except OSError as error:
            raise Unreadable(f"the disk file {path.name} cannot be opened: {error.strerror}") from None
        self.identity = (stat.st_dev, stat.st_ino)
        self.size = stat.st_size

    def close(self) -> None:
        """Lets go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def find(self, offset: int) -> Piece:
        """Where the bytes from an offset on are; the offset lies within the disk."""
        raise NotImplementedError

    def allocated(self) -> Iterator[tuple[int, int]]:
        """Begin and length of all ranges that this file holds itself, in order."""
        raise NotImplementedError

    def pread(self, place: int, length: int) -> bytes:
        """Bytes of the file.

        Raises:
            Unreadable: It ends before.
        """
        try:
            data = os.pread(self._file, length, place)
            while len(data) < length:
                more = os.pread(self._file, length - len(data), place + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise Unreadable(f"{self.path.name}: {error.strerror}") from None
        if len(data) < length:
            raise Unreadable(f"{self.path.name} is cut: {length} bytes at {place} are not all there")
        return data


class RawLayer(Layer):
    """A raw image: its bytes are the disk's."""

    def find(self, offset: int) -> Piece:
        """See :meth:`Layer.find`."""
        return Piece("data", offset, self.size - offset)

    def allocated(self) -> Iterator[tuple[int, int]]:
        """See :meth:`Layer.allocated`."""
        yield 0, self.size


class Qcow2Layer(Layer):
    """A qcow2 file without the files below it.

    Raises:
        Unreadable: It is no qcow2 file, damaged, or uses what is not supported; the message says what.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        name = self.path.name
        header = self.pread(0, min(self.size, 4096))
        if len(header) < 72 or header[:4] != _MAGIC:
            raise Unreadable(f"{name} is no qcow2 file")
        _, version, backing, backing_length, bits, size, cipher, l1_length, l1_place = _HEADER.unpack_from(header)
        if version not in (2, 3) or not 9 <= bits <= 21:
            raise Unreadable(f"{name}: qcow2 version {version} with clusters of 2^{bits} bytes is not known")
        if cipher:
            raise Unreadable(f"{name} is encrypted; {_REMEDY}")
        length = 72
        self._zlib = True
        if version == 3:
            if len(header) < 104:
                raise Unreadable(f"{name} is cut within its header")
            features, length = struct.unpack_from(">Q", header, 72)[0], struct.unpack_from(">I", header, 100)[0]
            if features & _CORRUPT:
                raise Unreadable(f"{name} is marked as damaged: qemu-img check -r all")
            if features & ~(_DIRTY | _COMPRESSION):
                what = "keeps its data in another file" if features & _EXTERNAL else "uses what is not supported"
                raise Unreadable(f"{name} {what} (features {features:#x}); {_REMEDY}")
            self._zlib = not features & _COMPRESSION
        self.cluster = 1 << bits
        self._per_table = self.cluster // 8
        self._span = self.cluster * self._per_table
        self._file_size = self.size
        if size > 1 << 62 or l1_length * 8 > _MAX_L1:
            raise Unreadable(f"{name}: a disk of {size} bytes is too large")
        self.size = size
        self._packed_bits = 62 - (bits - 8)
        self._l1 = self._numbers(l1_place, l1_length * 8) if l1_length else array("Q")
        if len(self._l1) * self._span < size:
            raise Unreadable(f"{name}: its table does not cover the disk")
        self._tables: dict[int, array[int]] = {}
        if backing:
            self.backing = self._backing(header, length, backing, backing_length)

    def _backing(self, header: bytes, length: int, place: int, size: int) -> tuple[str, str]:
        """File and format of the layer below. The format must be told: a guest could pass a raw disk off as another."""
        if not 0 < size <= 1023 or place + size > self.cluster:
            raise Unreadable(f"{self.path.name}: the name of its backing file is damaged")
        file = os.fsdecode(self.pread(place, size))
        header = header if place <= len(header) else self.pread(0, place)
        at = length
        while at + 8 <= min(len(header), place):
            kind, used = struct.unpack_from(">II", header, at)
            if kind == 0:
                break
            if kind == _BACKING_FORMAT and at + 8 + used <= len(header):
                return file, header[at + 8 : at + 8 + used].decode("ascii", "replace")
            at += 8 + (used + 7) // 8 * 8
        raise Unreadable(
            f"{self.path.name} does not say of what format its backing file is: qemu-img rebase -u -F … -b … it"
        )

    def _numbers(self, place: int, length: int) -> array[int]:
        numbers = array("Q")
        numbers.frombytes(self.pread(place, length))
        if sys.byteorder == "little":
            numbers.byteswap()
        return numbers

    def find(self, offset: int) -> Piece:
        """See :meth:`Layer.find`."""
        outer, rest = divmod(offset, self._span)
        inner, within = divmod(rest, self.cluster)
        table = self._tables.get(outer)
        if table is None:
            place = self._l1[outer] & _OFFSET_BITS
            if not place:
                return Piece("absent", 0, min(self._span - rest, self.size - offset))
            if len(self._tables) * self.cluster >= _MAX_TABLES:
                self._tables.clear()
            table = self._tables[outer] = self._numbers(place, self.cluster)
        entry = table[inner]
        left = min(self.cluster - within, self.size - offset)
        if entry & _COMPRESSED:
            place = entry & ((1 << self._packed_bits) - 1)
            sectors = (entry & (_COMPRESSED - 1)) >> self._packed_bits
            return Piece("packed", place, left, (sectors + 1) * 512 - place % 512)
        if entry & _ZERO:
            return Piece("zero", 0, left)
        place = entry & _OFFSET_BITS
        if not place:
            return Piece("absent", 0, left)
        return Piece("data", place + within, left)

    def unpacked(self, piece: Piece) -> bytes:
        """A compressed cluster's content."""
        if not self._zlib:
            raise Unreadable(f"{self.path.name} is compressed with another method than zlib; {_REMEDY}")
        packed = self.pread(piece.place, min(piece.packed, self._file_size - piece.place))
        try:
            data = zlib.decompressobj(-12).decompress(packed, self.cluster)
        except zlib.error as error:
            raise Unreadable(f"{self.path.name}: a compressed cluster is damaged: {error}") from None
        if len(data) != self.cluster:
            raise Unreadable(f"{self.path.name}: a compressed cluster is cut")
        return data

    def allocated(self) -> Iterator[tuple[int, int]]:
        """See :meth:`Layer.allocated`. Costs the tables of this file, not the disk."""
        start = end = -1
        for outer, entry in enumerate(self._l1):
            place = entry & _OFFSET_BITS
            if not place:
                continue
            table = self.pread(place, self.cluster)
            for block in range(0, self.cluster, _BLOCK):
                if table[block : block + _BLOCK] == _NOTHING:
                    continue
                for inner, kept in enumerate(_ENTRIES.unpack_from(table, block), block // 8):
                    if not kept:
                        continue
                    begin = outer * self._span + inner * self.cluster
                    if begin != end:
                        if start >= 0:
                            yield start, min(end, self.size) - start
                        start = begin
                    end = begin + self.cluster
        if start >= 0:
            yield start, min(end, self.size) - start
