"""Which file owns which clusters of a sealed disk: made once, kept beside the disk, looked up by bisection.

A cluster that was written in place, by a program that puts the file's times back or through mapped memory, need not change the
file's record. To name the file without reading the whole master file table each time, the run lists of the checkpoint's disk are
sorted by cluster once, and kept in a file that is bound to the disk's hash. Reading a whole table costs tens of microseconds for
each of its records; loading the kept index, next to nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from runner.offline.disk import Disk
from runner.offline.ntfs.runs import SPARSE, decode
from runner.offline.ntfs.volume import Volume
from runner.offline.partitions import Partition, partitions
from runner.offline.source import Slice
from validators.changes import Unreadable

_MAGIC = "legacyproof owners of clusters 1"
_MAX_HEADER = 64 << 10


class Owners:
    """Owners of the clusters of one volume: three columns, sorted by cluster, without overlaps."""

    def __init__(self, first: Sequence[int], last: Sequence[int], number: Sequence[int]) -> None:
        """Takes the columns.

        Args:
            first: First cluster of each run.
            last: Last one.
            number: Base record of the file.
        """
        self.columns = (first, last, number)

    @classmethod
    def of(cls, volume: Volume) -> Owners:
        """Reads a volume's whole master file table.

        Raises:
            Unreadable: A record is damaged, or two files share a cluster.
        """
        clusters = volume.geometry.clusters
        found = []
        for record in volume.in_use():
            number = record.base if record.extends else record.number
            for part in record.attributes:
                if part.value is None:
                    found += [
                        (run.lcn, run.lcn + run.length - 1, number)
                        for run in decode(part.pairs, part.first, clusters)
                        if run.lcn != SPARSE
                    ]
        found.sort()
        columns = array("Q"), array("Q"), array("Q")
        end = -1
        for first, last, number in found:
            if first <= end:
                raise Unreadable(f"the files with the records {columns[2][-1]} and {number} share clusters")
            end = last
            for column, value in zip(columns, (first, last, number), strict=True):
                column.append(value)
        return cls(*columns)

    def overlapping(self, lcn: int, count: int) -> Iterator[tuple[int, int, int]]:
        """First and last cluster and owner of each run that shares clusters with a range."""
        first, last, number = self.columns
        place = bisect_left(last, lcn)
        end = bisect_right(first, lcn + count - 1)
        for at in range(place, end):
            yield first[at], last[at], number[at]


class DiskOwners:
    """Owners of the clusters of every NTFS volume of a disk."""

    def __init__(self, volumes: dict[int, Owners]) -> None:
        self._volumes = volumes

    @classmethod
    def of(cls, disk: Disk) -> DiskOwners:
        """Reads a disk; the cost grows with the number of its files.

        Raises:
            Unreadable: A volume of it is damaged.
        """
        return cls({part.start: Owners.of(volume) for part, volume in ntfs_volumes(disk)})

    @classmethod
    def kept(cls, disk: Disk, file: Path, key: str) -> DiskOwners:
        """Those of a file that was kept for this disk; made and kept if it is not there, of another disk, or damaged.

        Args:
            disk: The sealed disk.
            file: Where they are kept.
            key: What tells the disk from every other one: its hash.

        Raises:
            Unreadable: A volume of the disk is damaged, or the file cannot be written.
        """
        found = cls._loaded(file, key)
        if found is None:
            found = cls.of(disk)
            found._keep(file, key)
        return found

    def at(self, start: int) -> Owners:
        """Those of the volume that begins at that byte of the disk.

        Raises:
            Unreadable: There is none: they are those of another disk.
        """
        if start not in self._volumes:
            raise Unreadable("the index of clusters is not that of the disk")
        return self._volumes[start]

    def _keep(self, file: Path, key: str) -> None:
        parts = []
        volumes = {}
        for start, owners in self._volumes.items():
            volumes[str(start)] = len(owners.columns[0])
            parts += [bytes(memoryview(array("Q", column))) for column in owners.columns]
        body = b"".join(parts)
        head = {"is": _MAGIC, "key": key, "order": sys.byteorder, "volumes": volumes, "crc": zlib.crc32(body)}
        line = json.dumps(head).encode()
        line += b" " * (-(len(line) + 1) % 8) + b"\n"
        try:
            handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.name)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(line + body)
                os.replace(name, file)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise
        except OSError as error:
            raise Unreadable(f"the index of clusters cannot be kept in {file.parent.name}: {error.strerror}") from None

    @classmethod
    def _loaded(cls, file: Path, key: str) -> DiskOwners | None:
        try:
            data = memoryview(file.read_bytes())
            end = bytes(data[:_MAX_HEADER]).index(b"\n") + 1
            head = json.loads(bytes(data[:end]))
            body = data[end:]
            if (head["is"], head["key"], head["order"]) != (_MAGIC, key, sys.byteorder) or head["crc"] != zlib.crc32(
                body
            ):
                return None
            numbers = body.cast("Q")
            volumes = {}
            at = 0
            for start, count in head["volumes"].items():
                columns = [numbers[at + i * count : at + (i + 1) * count] for i in range(3)]
                volumes[int(start)] = Owners(*columns)
                at += 3 * count
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return cls(volumes) if at == len(numbers) else None


def ntfs_volumes(disk: Disk, *, by_wine: bool = False) -> list[tuple[Partition, Volume]]:
    """The NTFS volumes of a disk with their partitions, in the order of the partition table.

    Raises:
        Unreadable: The partition table or a volume is damaged.
    """
    return [
        (part, Volume(Slice(disk, part.start, part.size), by_wine=by_wine)) for part in partitions(disk) if part.ntfs
    ]
