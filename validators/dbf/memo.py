"""Memo files: DBT of dBASE III, IV and 7, FPT of FoxPro. Pointers and lengths are untrusted, every read is bounded.

Sources: the dBASE file format descriptions, Microsoft's "Memo File Structure". The kind of a DBT block is told by the block
itself (dBASE IV begins it with ``FF FF 08 00``), because tables of version 0x03 with memos of either kind exist.
"""

from __future__ import annotations

import mmap
import struct
from typing import Literal

Buffer = bytes | memoryview | mmap.mmap
"""Bytes of a file, in memory or mapped; sliced by copy, so that a map can be closed at any time."""

MemoKind = Literal["dbt", "fpt"]
LONGEST_UNMEASURED = 1 << 20
"""Most bytes searched for the end mark of a dBASE III memo, whose length is stored nowhere (its editor's limit is 64 KiB)."""
_IV_MARK = b"\xff\xff\x08\x00"


class BadMemo(Exception):
    """A pointer that leads to no memo; the argument says why."""


class MemoFile:
    """The payloads of one memo file.

    Args:
        data: The file's bytes.
        kind: Its format.
        measured: Whether DBT blocks may begin with their length (dBASE IV and later); their block size is then the header's.
    """

    def __init__(self, data: Buffer, kind: MemoKind, *, measured: bool) -> None:
        self.data = data
        self.kind = kind
        self.size = len(data)
        self._measured = measured
        head = bytes(data[:24])
        self.block_size = 512
        if kind == "fpt":
            # SET BLOCKSIZE TO 0 means blocks of one byte; form and report files store the 0 itself.
            self.block_size = (struct.unpack_from(">H", head, 6)[0] or 1) if len(head) >= 8 else 0
        elif measured and len(head) >= 22:
            self.block_size = struct.unpack_from("<H", head, 20)[0] or 512

    @property
    def first_payload(self) -> int:
        """The offset below which no memo can lie."""
        return max(self.block_size, 8)

    def extent(self, pointer: int) -> tuple[int, int, int]:
        """Where a memo lies: first byte of its block, first byte of its payload, end of the payload.

        Raises:
            BadMemo: The pointer leads to the header, past the end, or to a block that contradicts itself.
        """
        if self.block_size == 0:
            raise BadMemo("the memo file is cut off before its header's end")
        start = pointer * self.block_size
        if start < self.first_payload:
            raise BadMemo(f"memo pointer {pointer} leads into the memo file's header")
        if start + 8 > self.size and (self.kind == "fpt" or start >= self.size):
            raise BadMemo(f"memo pointer {pointer} leads past the end of the memo file")
        head = bytes(self.data[start : start + 8])
        if self.kind == "fpt":
            length = struct.unpack_from(">I", head, 4)[0]
            return self._checked(pointer, start, start + 8, start + 8 + length)
        if len(head) == 8 and (head[:4] == _IV_MARK or self._looks_measured(head, start)):
            length = struct.unpack_from("<I", head, 4)[0]  # it counts its own 8 bytes
            return self._checked(pointer, start, start + 8, start + length)
        return start, start, self._end_mark(pointer, start)

    def payload(self, pointer: int) -> bytes:
        """The bytes of a memo.

        Raises:
            BadMemo: As :meth:`extent`.
        """
        _, first, end = self.extent(pointer)
        return bytes(self.data[first:end])

    def _looks_measured(self, head: bytes, start: int) -> bool:
        """Lotus Approach stores the length as dBASE IV does, without its mark."""
        if not self._measured:
            return False
        mark, length = struct.unpack("<II", head)
        return mark in (0, 0xFFFFFFFF) and 8 <= length <= self.size - start

    def _checked(self, pointer: int, start: int, first: int, end: int) -> tuple[int, int, int]:
        if end < first:
            raise BadMemo(f"memo {pointer} says it is shorter than its own header")
        if end > self.size:
            raise BadMemo(f"memo {pointer} says it is longer than the memo file")
        return start, first, end

    def _end_mark(self, pointer: int, start: int) -> int:
        limit = min(self.size, start + LONGEST_UNMEASURED)
        at = start
        step = 512
        while at < limit:
            chunk = bytes(self.data[at : min(at + step, limit)])
            found = chunk.find(b"\x1a")
            if found >= 0:
                return at + found
            at += len(chunk)
            step = min(step * 4, 1 << 16)
        raise BadMemo(f"memo {pointer} has no end mark")
