"""The boot sector: sizes and places that everything else is told by."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from validators.changes import Unreadable

BOOT_SIZE = 512
_MAX_UNIT = 2 << 20


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes in bytes, places in clusters.

    Attributes:
        sector: 512 to 4096.
        cluster: 512 to 2 MiB.
        record: Of a file record, 512 bytes to 64 KiB.
        clusters: How many the volume has.
        mft: Where the master file table begins.
        serial: Of the volume.
    """

    sector: int
    cluster: int
    record: int
    clusters: int
    mft: int
    serial: int


def geometry(boot: bytes, size: int) -> Geometry:
    """Reads a boot sector.

    Args:
        boot: The first 512 bytes of the volume.
        size: Bytes of the partition, which must hold the volume.

    Raises:
        Unreadable: It is no NTFS boot sector, or what it says cannot be.
    """
    if len(boot) < BOOT_SIZE or boot[3:11] != b"NTFS    ":
        raise Unreadable("no NTFS volume: its boot sector does not say so")
    sector, per_cluster = struct.unpack_from("<HB", boot, 11)
    sectors, mft = struct.unpack_from("<QQ", boot, 40)
    record_code, serial = struct.unpack_from("<b", boot, 64)[0], struct.unpack_from("<Q", boot, 72)[0]
    cluster = sector * (per_cluster if per_cluster <= 128 else 1 << min(256 - per_cluster, 31))
    record = record_code * cluster if record_code > 0 else 1 << min(-record_code, 31)
    if not (_is_power(sector, 512, 4096) and _is_power(cluster, sector, _MAX_UNIT) and _is_power(record, 512, 1 << 16)):
        raise Unreadable(
            f"an NTFS boot sector with sectors of {sector}, clusters of {cluster}, records of {record} bytes"
        )
    clusters = sectors * sector // cluster
    if not 0 < sectors * sector <= size or not 0 < mft < clusters:
        raise Unreadable(f"the NTFS boot sector tells of {sectors} sectors in a partition of {size} bytes")
    return Geometry(sector, cluster, record, clusters, mft, serial)


def _is_power(value: int, low: int, high: int) -> bool:
    return low <= value <= high and value & (value - 1) == 0
