"""A machine's disk, read-only: a chain of qcow2 overlays down to its base, or a raw file.

Bytes are read where the files hold them (:mod:`runner.offline.qcow2`): nothing is copied, mounted or exported, and no program of
QEMU's is needed. The chain must not be written to meanwhile: it belongs to a machine that is off, or is a frozen copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal

from runner.offline.qcow2 import Layer, Qcow2Layer, RawLayer
from validators.changes import Unreadable

_MAX_LAYERS = 64
_ZEROS, _PACKED = -1, -2
"""Places that are none: nothing is kept there, or a compressed cluster."""
Format = Literal["qcow2", "raw"]


class Disk:
    """The bytes of a disk, as the machine sees them. Use it as a context manager, or close it.

    Attributes:
        size: Bytes.
    """

    def __init__(self, layers: list[Layer]) -> None:
        self._layers = layers
        self._size = layers[0].size
        self._unpacked: tuple[int, int, bytes] = (-1, -1, b"")

    @property
    def size(self) -> int:
        """Bytes."""
        return self._size

    def __enter__(self) -> Disk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the files; safe to call twice."""
        for layer in self._layers:
            layer.close()

    def read(self, offset: int, length: int) -> bytes:
        """Exactly that many bytes.

        Raises:
            Unreadable: They do not lie within the disk, or a file of it is damaged.
        """
        if offset < 0 or length < 0 or offset + length > self._size:
            raise Unreadable(f"{length} bytes at {offset} do not lie within the disk of {self._size}")
        parts = []
        end = offset + length
        depth, place, count = self._piece(offset, length)
        while offset + count < end:
            next_depth, next_place, more = self._piece(offset + count, end - offset - count)
            if next_depth == depth and place >= 0 and next_place == place + count:
                count += more  # clusters that follow each other in one file are read at once
                continue
            parts.append(self._bytes(depth, place, offset, count))
            offset += count
            depth, place, count = next_depth, next_place, more
        parts.append(self._bytes(depth, place, offset, count))
        return b"".join(parts)

    def _piece(self, offset: int, length: int) -> tuple[int, int, int]:
        """Depth of the file, place in it, and how many bytes lie there, at most ``length``."""
        for depth, layer in enumerate(self._layers):
            if offset >= layer.size:
                break  # an overlay that is larger than what lies below holds zeros there
            piece = layer.find(offset)
            length = min(length, piece.length)
            if piece.kind == "data":
                return depth, piece.place, length
            if piece.kind == "zero":
                break
            if piece.kind == "packed":
                return depth, _PACKED, length
        return 0, _ZEROS, length

    def _bytes(self, depth: int, place: int, offset: int, length: int) -> bytes:
        if place == _ZEROS:
            return bytes(length)
        layer = self._layers[depth]
        if place >= 0:
            return layer.pread(place, length)
        assert isinstance(layer, Qcow2Layer)
        start = offset // layer.cluster * layer.cluster
        if self._unpacked[:2] != (depth, start):
            self._unpacked = (depth, start, layer.unpacked(layer.find(start)))
        return self._unpacked[2][offset - start : offset - start + length]

    def allocated_above(self, below: Disk) -> list[tuple[int, int]]:
        """Begin and length of the ranges that this disk's files above another disk hold, in order.

        Args:
            below: A disk whose chain is the lower part of this one's, such as the checkpoint that a clone was made from.

        Raises:
            Unreadable: This disk does not sit on that one.
        """
        lowest = below._layers[0].identity
        depth = next((i for i, layer in enumerate(self._layers) if layer.identity == lowest), None)
        if depth is None:
            raise Unreadable(
                f"{self._layers[0].path.name} does not sit on {below._layers[0].path.name}: what changed cannot be told apart"
            )
        ranges = sorted(found for layer in self._layers[:depth] for found in layer.allocated())
        return list(_merged(ranges))


def _merged(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    start = end = -1
    for begin, length in ranges:
        if begin > end:
            if start >= 0:
                yield start, end - start
            start, end = begin, begin + length
        else:
            end = max(end, begin + length)
    if start >= 0:
        yield start, end - start


def open_disk(path: Path, kind: Format = "qcow2") -> Disk:
    """Opens a disk and the files below it.

    Args:
        path: The uppermost file.
        kind: Its format; it is never guessed from the content, which a guest could make up.

    Raises:
        Unreadable: A file of the chain is missing, damaged, encrypted or of another format; the message says which.
    """
    layers: list[Layer] = []
    try:
        while True:
            if any(layer.path == path for layer in layers) or len(layers) >= _MAX_LAYERS:
                raise Unreadable(f"{path.name}: the chain of backing files has no end")
            layers.append(Qcow2Layer(path) if kind == "qcow2" else RawLayer(path))
            if layers[-1].backing is None:
                return Disk(layers)
            path, kind = _below(path, *layers[-1].backing)
    except BaseException:
        for layer in layers:
            layer.close()
        raise


def _below(path: Path, name: str, kind: str) -> tuple[Path, Format]:
    if name.startswith("json:") or "://" in name:
        raise Unreadable(f"{path.name} lies on {name[:100]!r}, which is no file")
    match kind:
        case "qcow2" | "raw":
            return path.parent / name.removeprefix("file:"), kind
        case _:
            raise Unreadable(f"{path.name} lies on a file of format {kind!r}, which is not read")
