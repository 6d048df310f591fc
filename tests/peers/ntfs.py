"""Tiny NTFS volumes made byte by byte, for what ntfs-3g cannot be made to write: split tables, circles, damage.

They hold what the reader looks at and nothing else (no journal, no security); Windows would not mount them. That the reader also
reads real volumes, other tests prove.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

CLUSTER, RECORD, CLUSTERS = 1024, 1024, 96
MFT_AT = 4
STANDARD, LIST, NAME, DATA, INDEX_ROOT = 0x10, 0x20, 0x30, 0x80, 0x90


def resident(kind: int, value: bytes, *, name: str = "", instance: int = 0, flags: int = 0) -> bytes:
    """A resident attribute."""
    title = name.encode("utf-16-le")
    place = -(-(24 + len(title)) // 8) * 8
    length = -(-(place + len(value)) // 8) * 8
    head = struct.pack("<IIBBHHHIHH", kind, length, 0, len(name), 24, flags, instance, len(value), place, 0)
    return (head + title).ljust(place, b"\0") + value.ljust(length - place, b"\0")


def mapped(
    kind: int, runs: Sequence[tuple[int, int | None]], size: int, *, first: int = 0, name: str = "", instance: int = 0,
    flags: int = 0, unit: int = 0,
) -> bytes:  # fmt: skip
    """A non-resident attribute; runs are (clusters, place), place ``None`` for a gap."""
    title = name.encode("utf-16-le")
    pairs = b""
    last = 0
    for count, place in runs:
        if place is None:
            pairs += b"\x04" + struct.pack("<i", count)
        else:
            pairs += b"\x44" + struct.pack("<ii", count, place - last)
            last = place
    clusters = sum(count for count, _ in runs)
    start = -(-(64 + len(title)) // 8) * 8
    length = -(-(start + len(pairs) + 1) // 8) * 8
    head = struct.pack("<IIBBHHH", kind, length, 1, len(name), 64, flags, instance)
    head += struct.pack("<QqHB5xqqq", first, first + clusters - 1, start, unit, clusters * CLUSTER, size, size)
    return (head + title).ljust(start, b"\0") + pairs.ljust(length - start, b"\0")


def standard(flags: int = 0x20, time: int = 1) -> bytes:
    """``$STANDARD_INFORMATION``."""
    return resident(STANDARD, struct.pack("<QQQQI12x", time, time, time, time, flags))


def name_key(parent: int, name: str, *, sequence: int = 1, namespace: int = 0) -> bytes:
    """A name, as in ``$FILE_NAME`` and in indexes."""
    head = struct.pack("<QQQQQQQIIBB", parent | sequence << 48, 1, 1, 1, 1, 0, 0, 0, 0, len(name), namespace)
    return head + name.encode("utf-16-le")


def file_name(parent: int, name: str, **about: int) -> bytes:
    """``$FILE_NAME``."""
    return resident(NAME, name_key(parent, name, **about))


def folder(entries: list[tuple[int, bytes]]) -> bytes:
    """A directory's index that fits into its root: record numbers and names."""
    body = b""
    for number, key in entries:
        length = -(-(16 + len(key)) // 8) * 8
        body += struct.pack("<QHHHH", number | 1 << 48, length, len(key), 0, 0) + key.ljust(length - 16, b"\0")
    body += struct.pack("<QHHHH", 0, 16, 0, 2, 0)
    node = struct.pack("<IIII", 16, 16 + len(body), 16 + len(body), 0)
    return resident(INDEX_ROOT, struct.pack("<IIIB3x", NAME, 1, 1024, 1) + node + body, name="$I30")


def listed(kind: int, first: int, number: int, instance: int) -> bytes:
    """An entry of an attribute list."""
    return struct.pack("<IHBBQQH", kind, 32, 0, 26, first, number | 1 << 48, instance).ljust(32, b"\0")


def record(
    number: int, *attributes: bytes, is_folder: bool = False, in_use: bool = True, base: int | None = None
) -> bytes:
    """A file record, with its update sequence."""
    body = b"".join(attributes) + b"\xff\xff\xff\xff" + bytes(4)
    flags = in_use | is_folder << 1
    reference = 0 if base is None else base | 1 << 48
    head = struct.pack(
        "<4sHHQHHHHIIQHHI", b"FILE", 48, 3, 0, 1, 1, 56, flags, 56 + len(body), RECORD, reference, 9, 0, number
    )
    data = bytearray(head.ljust(56, b"\0") + body)
    assert len(data) <= RECORD, f"record {number} is too long"
    data += bytes(RECORD - len(data))
    return seal(data)


def seal(data: bytearray) -> bytes:
    """Puts an update sequence in, as when a record is written."""
    data[48:50] = b"\x07\0"
    data[50:52], data[52:54] = data[510:512], data[1022:1024]
    data[510:512] = data[1022:1024] = b"\x07\0"
    return bytes(data)


def resealed(data: bytes, like: bytes) -> bytes:
    """A changed volume whose records have update sequences that fit, where their headers are those of another volume."""
    changed = bytearray(data)
    for at in range(MFT_AT * CLUSTER, min(len(data), 32 * CLUSTER) - RECORD + 1, RECORD):
        if changed[at : at + 8] == like[at : at + 8] and changed[at : at + RECORD] != like[at : at + RECORD]:
            changed[at + 48 : at + 50] = changed[at + 510 : at + 512] = changed[at + 1022 : at + 1024] = b"\x07\0"
    return bytes(changed)


def restart_page(
    lsn: int, *, open_by_client: bool = False, flags: int = 0, magic: bytes = b"RSTR", checked: int = 0, size: int = 4096,
    area: int = 64, log_size: int = 16384,
) -> bytes:  # fmt: skip
    """A restart page of a journal with one client, with its update sequence."""
    count = size // 512 + 1
    page = bytearray(size)
    struct.pack_into("<4sHHQIIHHH", page, 0, magic, 30, count, checked, size, 4096, area, 1, 1)
    free, used = (0xFFFF, 0) if open_by_client else (0, 0xFFFF)
    bits = 67 - log_size.bit_length()
    place = area if 48 <= area < size - 208 else 64
    struct.pack_into("<QHHHHIHHqIHH", page, place, lsn, 1, free, used, flags, bits, 208, 48, log_size, 0, 48, 64)
    struct.pack_into("<QQHHH6xI", page, place + 48, lsn, lsn, 0xFFFF, 0xFFFF, 0, 8)
    page[place + 80 : place + 88] = "NTFS".encode("utf-16-le")
    page[30:32] = b"\x07\0"
    for number in range(1, count):
        end = number * 512
        page[30 + 2 * number : 32 + 2 * number], page[end - 2 : end] = page[end - 2 : end], b"\x07\0"
    return bytes(page)


@dataclass
class Tiny:
    """A volume: records by number, clusters by place; the table lies in clusters 4 to 31 unless ``mft`` says otherwise.

    Attributes:
        records: Those in use, and damaged ones; the table's others are free.
        clusters: Contents.
        mft: The table's own record.
        parts: First record, count and first cluster of each part of the table.
    """

    records: dict[int, bytes] = field(default_factory=dict)
    clusters: dict[int, bytes] = field(default_factory=dict)
    mft: bytes = b""
    parts: tuple[tuple[int, int, int], ...] = ((0, 28, MFT_AT),)

    def bytes(self) -> bytes:
        """All of it."""
        data = bytearray(CLUSTERS * CLUSTER)
        boot = bytearray(512)
        boot[3:11] = b"NTFS    "
        struct.pack_into("<HB", boot, 11, 512, CLUSTER // 512)
        struct.pack_into("<QQQ", boot, 40, CLUSTERS * CLUSTER // 512, MFT_AT, 2)
        struct.pack_into("<bxxxbxxxQ", boot, 64, 1, 1, 77)
        data[:512] = boot
        mft = self.mft or record(0, standard(), file_name(5, "$MFT"), mapped(DATA, [(28, MFT_AT)], 28 * RECORD))
        for first, count, place in self.parts:
            for number in range(first, first + count):
                content = self.records.get(number, record(number, in_use=False)) if number else mft
                at = (place + number - first) * CLUSTER
                data[at : at + len(content)] = content
        for place, content in self.clusters.items():
            data[place * CLUSTER : place * CLUSTER + len(content)] = content
        return bytes(data)


def root(*entries: tuple[int, str]) -> bytes:
    """The root directory with these files."""
    keys = [(number, name_key(5, name)) for number, name in entries]
    return record(5, standard(0x10), file_name(5, "."), folder(keys), is_folder=True)


def simple(number: int, name: str, data: bytes = b"content", *, parent: int = 5) -> bytes:
    """A file that lies in its record."""
    return record(number, standard(), file_name(parent, name), resident(DATA, data))
