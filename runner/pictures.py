"""Pictures as they may be kept: their pixels, and nothing else that a file may carry along."""

from __future__ import annotations

import struct

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PIXELS = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
"""The chunks that say what the picture looks like (PNG specification, section 5.6); others hold texts, times, places, profiles."""


def bare_png(data: bytes) -> bytes | None:
    """A PNG without everything that is not needed to show it; ``None`` if the bytes are no whole PNG.

    The pixels are not unpacked, so that this costs next to nothing.
    """
    if not data.startswith(_SIGNATURE):
        return None
    kept = [_SIGNATURE]
    at = len(_SIGNATURE)
    while at + 12 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        end = at + 12 + length
        if end > len(data):
            return None
        if kind in _PIXELS:
            kept.append(data[at:end])
        if kind == b"IEND":
            return b"".join(kept)
        at = end
    return None
