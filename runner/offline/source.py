"""What bytes are read from: a disk, a part of one, or a file held in memory."""

from __future__ import annotations

from typing import Protocol

from validators.changes import Unreadable


class Source(Protocol):
    """A fixed number of bytes that can be read at any place."""

    @property
    def size(self) -> int:
        """Bytes."""

    def read(self, offset: int, length: int) -> bytes:
        """Exactly that many bytes.

        Raises:
            Unreadable: They do not lie within the source, or cannot be read.
        """


class Memory:
    """Bytes in memory as a source."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """See :class:`Source`."""
        return len(self._data)

    def read(self, offset: int, length: int) -> bytes:
        """See :class:`Source`."""
        if offset < 0 or length < 0 or offset + length > len(self._data):
            raise Unreadable(f"{length} bytes at {offset} do not lie within {len(self._data)}")
        return self._data[offset : offset + length]


class Slice:
    """A part of another source, such as a partition."""

    def __init__(self, source: Source, start: int, size: int) -> None:
        if start < 0 or size < 0 or start + size > source.size:
            raise Unreadable(f"{size} bytes at {start} do not lie within the disk of {source.size}")
        self._source = source
        self._start = start
        self._size = size

    @property
    def size(self) -> int:
        """See :class:`Source`."""
        return self._size

    def read(self, offset: int, length: int) -> bytes:
        """See :class:`Source`."""
        if offset < 0 or length < 0 or offset + length > self._size:
            raise Unreadable(f"{length} bytes at {offset} do not lie within the volume of {self._size}")
        return self._source.read(self._start + offset, length)
