"""The content of an attribute: resident, or in runs of clusters, sparse and compressed ones included."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from runner.offline.ntfs import lznt1
from runner.offline.ntfs.geometry import Geometry
from runner.offline.ntfs.record import COMPRESSED, ENCRYPTED, Attribute
from runner.offline.ntfs.runs import SPARSE, Run, decode
from runner.offline.source import Source
from validators.changes import Unreadable

_CHUNK = 4 << 20


class Stream:
    """A content that can be read at any place.

    Attributes:
        name: Of the attribute; empty for a file's main content.
        size: Bytes.
        initialized: Bytes that were ever written; what follows reads as zeros.
        flags: Compressed, encrypted, sparse.
        unit: Clusters of a compression unit, or 0.
        value: The content, where it is resident.
        runs: Else where its clusters are, in order and without gaps.
    """

    __slots__ = ("_firsts", "_geometry", "_source", "flags", "initialized", "name", "runs", "size", "unit", "value")

    def __init__(
        self, parts: Sequence[Attribute], source: Source, geometry: Geometry, *, is_whole: bool = True
    ) -> None:
        """Puts an attribute together.

        Args:
            parts: Its parts, in any order.
            source: The volume.
            geometry: Of the volume.
            is_whole: They are all there; else :meth:`extend` adds the rest.

        Raises:
            Unreadable: They are not all there, or contradict each other.
        """
        if len(parts) > 1:
            parts = sorted(parts, key=lambda part: part.first)
        head = parts[0]
        self._source = source
        self._geometry = geometry
        self.name = head.name
        self.flags = head.flags
        self.value = head.value
        self.runs: list[Run] = []
        self._firsts: list[int] | None = None
        self.unit = 0
        if head.value is not None:
            if len(parts) > 1:
                raise Unreadable("a resident attribute comes twice")
            self.size = self.initialized = len(head.value)
            return
        self.size, self.initialized = head.size, head.initialized
        self.unit = 1 << head.unit if head.flags & COMPRESSED and head.unit else 0
        for part in parts:
            if part.value is not None:
                raise Unreadable("an attribute is resident and is not")
            self.extend(part)
        if is_whole:
            self.ensure_whole()

    def ensure_whole(self) -> None:
        """Makes sure that the run list maps the whole content.

        Raises:
            Unreadable: It does not.
        """
        if self.size > self._mapped() * self._geometry.cluster:
            raise Unreadable("a run list is shorter than its content")

    def extend(self, part: Attribute) -> None:
        """Takes in the next part of the run list.

        Raises:
            Unreadable: It does not follow what is there.
        """
        runs = decode(part.pairs, part.first, self._geometry.clusters)
        end = runs[-1].vcn + runs[-1].length if runs else part.first
        if part.first != self._mapped() or end != part.last + 1:
            raise Unreadable("the parts of a run list do not fit together")
        self.runs += runs
        self._firsts = None

    def _mapped(self) -> int:
        return self.runs[-1].vcn + self.runs[-1].length if self.runs else 0

    @property
    def is_resident(self) -> bool:
        """Whether it lies in the file's record."""
        return self.value is not None

    def read(self, offset: int, length: int) -> bytes:
        """Exactly that many bytes.

        Raises:
            Unreadable: They do not lie within the content, or it is encrypted or damaged.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise Unreadable(f"{length} bytes at {offset} do not lie within a content of {self.size}")
        if self.flags & ENCRYPTED:
            raise Unreadable("the content is encrypted (EFS)")
        if self.value is not None:
            return self.value[offset : offset + length]
        written = min(length, max(0, self.initialized - offset))
        data = self._unpacked(offset, written) if self.unit else b"".join(self._pieces(offset, written))
        return data + bytes(length - written)

    def chunks(self) -> Iterator[bytes]:
        """The whole content in pieces."""
        for offset in range(0, self.size, _CHUNK):
            yield self.read(offset, min(_CHUNK, self.size - offset))

    def at(self, vcn: int) -> tuple[int, int]:
        """Cluster of the volume (or :data:`SPARSE`) of one of the stream, and how many follow each other from there."""
        if self._firsts is None:
            self._firsts = [run.vcn for run in self.runs]
        place = bisect_right(self._firsts, vcn) - 1
        run = self.runs[place] if place >= 0 else Run(0, SPARSE, 0)
        left = run.vcn + run.length - vcn
        if left <= 0:
            raise Unreadable("a run list is shorter than its content")
        return (SPARSE if run.lcn == SPARSE else run.lcn + vcn - run.vcn), left

    def _pieces(self, offset: int, length: int) -> Iterator[bytes]:
        cluster = self._geometry.cluster
        while length:
            vcn, within = divmod(offset, cluster)
            lcn, left = self.at(vcn)
            count = min(length, left * cluster - within)
            yield bytes(count) if lcn == SPARSE else self._source.read(lcn * cluster + within, count)
            offset += count
            length -= count

    def _unpacked(self, offset: int, length: int) -> bytes:
        size = self.unit * self._geometry.cluster
        first = offset // size
        units = [self._unit(number) for number in range(first, -(-(offset + length) // size))]
        return b"".join(units)[offset - first * size :][:length]

    def _unit(self, number: int) -> bytes:
        """A compression unit: all of it kept (plain), none (zeros), or the first clusters (packed)."""
        cluster = self._geometry.cluster
        vcn = number * self.unit
        end = min(vcn + self.unit, self._mapped())
        kept = []
        was_sparse = False
        while vcn < end:
            lcn, left = self.at(vcn)
            count = min(left, end - vcn)
            if lcn == SPARSE:
                was_sparse = True
            elif was_sparse:
                raise Unreadable("a compressed stream is damaged: clusters follow a gap")
            else:
                kept.append(self._source.read(lcn * cluster, count * cluster))
            vcn += count
        data = b"".join(kept)
        size = self.unit * cluster
        if not was_sparse and len(data) == size:
            return data
        return lznt1.decompress(data, size) if data else bytes(size)
