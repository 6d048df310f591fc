"""Run lists ("mapping pairs"): which clusters of the volume a stream's clusters are."""

from __future__ import annotations

from typing import NamedTuple

from validators.changes import Unreadable

SPARSE = -1
_MAX_CLUSTER = 1 << 48


class Run(NamedTuple):
    """Clusters of a stream that follow each other on the volume.

    Attributes:
        vcn: The first one's number within the stream.
        lcn: Its number on the volume, or :data:`SPARSE`: not kept, it reads as zeros.
        length: How many.
    """

    vcn: int
    lcn: int
    length: int


def decode(data: bytes, vcn: int, clusters: int) -> list[Run]:
    """Decodes the run list of one attribute.

    Args:
        data: The mapping pairs, ended by a zero byte.
        vcn: The first cluster that they map.
        clusters: How many the volume has; no run may lie beyond.

    Raises:
        Unreadable: They are not ended, or lead out of the volume.
    """
    runs: list[Run] = []
    at = 0
    lcn = 0
    size = len(data)
    from_bytes = int.from_bytes
    while at < size:
        head = data[at]
        if not head:
            return runs
        middle = at + 1 + (head & 15)
        end = middle + (head >> 4)
        if end > size or head & 15 > 8 or head >> 4 > 8:
            break
        count = from_bytes(data[at + 1 : middle], "little", signed=True)
        if count <= 0 or vcn + count > _MAX_CLUSTER:
            break
        if middle == end:
            runs.append(Run(vcn, SPARSE, count))
        else:
            lcn += from_bytes(data[middle:end], "little", signed=True)
            if lcn < 0 or lcn + count > clusters:
                raise Unreadable("a run list leads out of the volume")
            runs.append(Run(vcn, lcn, count))
        vcn += count
        at = end
    raise Unreadable("a run list is damaged")
