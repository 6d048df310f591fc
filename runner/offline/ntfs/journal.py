"""The journal (``$LogFile``): whether a volume was left clean, so that its files show all that was done to them.

The journal is not replayed. On a volume that was not left clean, records may be older than what the journal knows of them, or agree
with each other only once it is replayed. The layout and the rule are those of ntfs-3g (``logfile.h``, ``ntfs_is_logfile_clean``).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from runner.offline.ntfs.record import mended
from runner.offline.ntfs.stream import Stream
from validators.changes import Unreadable

_RESTART = (b"RSTR", b"CHKD")
"""What a restart page begins with; the second is left by a checking program."""
_HEADER = struct.Struct("<4sHHQIIH")
_AREA = struct.Struct("<QHHHH")
_PAGE = 4096
"""Bytes of a restart page, where the first one does not tell."""
_MAX_SIZE = 4 << 30
"""Bytes of the largest journal that Windows makes."""
_NO_CLIENT, _LEFT_CLEAN = 0xFFFF, 0x0002
_EMPTY = b"\xff"


class _Restart(NamedTuple):
    """A restart page.

    Attributes:
        lsn: How new it is.
        size: Bytes of the page.
        clean: Nobody has the journal open, or who has it wrote everything out.
    """

    lsn: int
    size: int
    clean: bool


def is_clean(log: Stream, sector: int) -> bool:
    """Whether nothing stands in a journal that the volume's files do not show.

    The newer of its two restart pages decides. A journal without any, all of 0xFF, was emptied on a clean volume: mkntfs and
    ntfs-3g leave it so.

    Args:
        log: The journal's content.
        sector: Bytes of the volume's sectors.

    Raises:
        Unreadable: It is damaged, or no journal.
    """
    if not 2 * _PAGE <= log.size <= _MAX_SIZE:
        raise Unreadable(f"the volume's journal takes {log.size} bytes")
    first = _restart(log, 0, sector)
    second = _restart(log, _PAGE if first is None else first.size, sector)
    found = [page for page in (first, second) if page is not None]
    if found:
        return max(found, key=lambda page: page.lsn).clean
    if all(chunk.count(_EMPTY) == len(chunk) for chunk in log.chunks()):
        return True
    raise Unreadable("the volume's journal has no restart page")


def _restart(log: Stream, place: int, sector: int) -> _Restart | None:
    """The restart page at a place; ``None``: there is none."""
    if place + _HEADER.size > log.size:
        return None
    magic, _, _, checked, size, _, area = _HEADER.unpack(log.read(place, _HEADER.size))
    if magic not in _RESTART:
        return None
    if not 512 <= size <= 1 << 16 or size & (size - 1) or place + size > log.size:
        raise Unreadable(f"the volume's journal is damaged: a restart page of {size} bytes")
    page = mended(log.read(place, size), magic, sector)
    if area < _HEADER.size or area % 8 or area + _AREA.size > size:
        raise Unreadable("the volume's journal is damaged: a restart area does not lie within its page")
    written, _, _, client, flags = _AREA.unpack_from(page, area)
    return _Restart(checked if magic == b"CHKD" else written, size, client == _NO_CLIENT or bool(flags & _LEFT_CLEAN))
