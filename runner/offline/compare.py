"""Which clusters of a volume differ between two moments, and whether a content does."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from runner.offline.ntfs.record import COMPRESSED, ENCRYPTED
from runner.offline.ntfs.runs import SPARSE
from runner.offline.ntfs.stream import Stream
from runner.offline.source import Source

_CHUNK = 1 << 20
_MOST_READ = 1 << 30
"""Bytes of a content that is compared whole, where its clusters cannot be: when it was packed or unpacked."""


class Clusters:
    """A set of clusters, as ranges in order that do not touch each other."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Takes first and last cluster of each range, in order; they may overlap or touch."""
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        for first, last in ranges:
            if self.lasts and first <= self.lasts[-1] + 1:
                self.lasts[-1] = max(self.lasts[-1], last)
            else:
                self.firsts.append(first)
                self.lasts.append(last)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.firsts, self.lasts, strict=True)

    def within(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The parts of it that lie in a range."""
        for at in range(bisect_left(self.lasts, first), bisect_right(self.firsts, last)):
            yield max(first, self.firsts[at]), min(last, self.lasts[at])

    def count(self) -> int:
        """How many clusters."""
        return sum(last - first + 1 for first, last in self)

    def without(self, other: Clusters) -> int:
        """How many of its clusters are not in another set."""
        shared = sum(last - first + 1 for mine in self for first, last in other.within(*mine))
        return self.count() - shared


def differing(before: Source, after: Source, ranges: Iterable[tuple[int, int]], unit: int) -> Clusters:
    """The units of two sources that are not the same.

    Args:
        before: One.
        after: The other, of the same size.
        ranges: Begin and length of what is compared, in order.
        unit: Bytes of a unit, a power of two.
    """
    found: list[tuple[int, int]] = []
    done = 0
    for start, length in ranges:
        begin = max(done, start // unit * unit)
        done = end = min(after.size, -(-(start + length) // unit) * unit)
        for offset in range(begin, end, _CHUNK):
            count = min(_CHUNK, end - offset)
            old, new = before.read(offset, count), after.read(offset, count)
            if old == new:
                continue
            for at in range(0, count, unit):
                if new[at : at + unit] != old[at : at + unit]:
                    found.append(((offset + at) // unit, (offset + at) // unit))
    return Clusters(found)


def segments(before: Stream, after: Stream) -> Iterator[tuple[int, int, int, int]]:
    """First cluster and count of each part of a content that lies together at both moments, and where.

    Only what both have is told; a place is :data:`SPARSE` where nothing is kept.
    """
    vcn = 0
    end = min(_end(before), _end(after))
    while vcn < end:
        old, left = before.at(vcn)
        new, room = after.at(vcn)
        count = min(left, room, end - vcn)
        yield vcn, count, old, new
        vcn += count


def _end(stream: Stream) -> int:
    return stream.runs[-1].vcn + stream.runs[-1].length if stream.runs else 0


def same_content(
    before: Stream, after: Stream, changed: Clusters, cluster: int, volumes: tuple[Source, Source]
) -> bool:
    """Whether a content is the same at both moments, at a cost that grows with the clusters that changed or moved.

    Of compressed and encrypted contents the clusters are compared, not what they mean.

    Args:
        before: The content then.
        after: The content now.
        changed: Clusters of the volume that differ.
        cluster: Bytes of a cluster.
        volumes: The volume then and now.
    """
    if before.size != after.size:
        return False
    if before.value is not None and after.value is not None:
        return before.value == after.value
    if before.is_resident is not after.is_resident or (before.flags ^ after.flags) & COMPRESSED:
        if (before.flags | after.flags) & ENCRYPTED or before.size > _MOST_READ:
            return False  # more cannot be said at a bounded cost
        return all(one == two for one, two in zip(before.chunks(), after.chunks(), strict=True))
    # Packed clusters have no place in the content of their own, so all of them count.
    ends = [_end(stream) * cluster if stream.unit else stream.initialized for stream in (before, after)]
    low, high = min(ends), max(ends)
    for vcn, count, old, new in segments(before, after):
        if old == new == SPARSE:
            continue
        parts = [(vcn, vcn + count - 1)]
        if old == new:
            parts = [(vcn + first - old, vcn + last - old) for first, last in changed.within(old, old + count - 1)]
            if low < high:  # the same clusters read as zeros at one moment and as what they hold at the other
                parts += Clusters([(vcn, vcn + count - 1)]).within(low // cluster, (high - 1) // cluster)
        for first, last in parts:
            for offset in range(first * cluster, min((last + 1) * cluster, high), _CHUNK):
                length = min(_CHUNK, (last + 1) * cluster - offset, high - offset)
                one, two = (
                    bytes(length)
                    if place == SPARSE
                    else _written(volume, place * cluster + offset - vcn * cluster, length, end - offset)
                    for place, volume, end in zip((old, new), volumes, ends, strict=True)
                )
                if one != two:
                    return False
    return True


def _written(volume: Source, place: int, length: int, left: int) -> bytes:
    """Bytes of a volume, of which only so many were ever written; the others read as zeros."""
    there = max(0, min(length, left))
    return volume.read(place, there) + bytes(length - there)
