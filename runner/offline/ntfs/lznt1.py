"""LZNT1, the compression of NTFS streams ([MS-XCA] section 2.5)."""

from __future__ import annotations

from validators.changes import Unreadable

_CHUNK = 4096


def decompress(data: bytes, size: int) -> bytes:
    """Unpacks a compression unit.

    Args:
        data: Its clusters; what follows the end mark is not looked at.
        size: Bytes of the whole unit; what is not said is zeros.

    Raises:
        Unreadable: A reference leads out of what was unpacked, or the data are cut.
    """
    out = bytearray()
    at = 0
    while len(out) < size and at + 2 <= len(data):
        head = data[at] | data[at + 1] << 8
        if not head:
            break
        at += 2
        end = at + (head & 0xFFF) + 1
        if end > len(data) or (head >> 12) & 7 != 3:
            raise Unreadable("a compressed stream is damaged: no chunk begins where one should")
        if head & 0x8000:
            _chunk(data, at, end, out)
        else:
            out += data[at:end]
        if end < len(data) and len(out) % _CHUNK:
            out += bytes(-len(out) % _CHUNK)  # a chunk stands for 4 KiB; only the last may say less
        at = end
    return bytes(out[:size]) + bytes(max(0, size - len(out)))


def _chunk(data: bytes, at: int, end: int, out: bytearray) -> None:
    start = len(out)
    while at < end:
        flags = data[at]
        at += 1
        for bit in range(8):
            if at >= end:
                break
            if not flags >> bit & 1:
                out.append(data[at])
                at += 1
                continue
            if at + 2 > end:
                raise Unreadable("a compressed stream is cut")
            pair = data[at] | data[at + 1] << 8
            at += 2
            # The further a chunk is unpacked, the more bits tell the distance and the fewer the length.
            done = len(out) - start
            bits = max(4, (done - 1).bit_length()) if done > 0 else 4
            distance = (pair >> (16 - bits)) + 1
            length = (pair & ((1 << (16 - bits)) - 1)) + 3
            if distance > done or done + length > _CHUNK:
                raise Unreadable("a compressed stream is damaged: it refers to what was not unpacked")
            for _ in range(length):
                out.append(out[-distance])
    if len(out) - start > _CHUNK:
        raise Unreadable("a compressed stream is damaged: a chunk is too long")
