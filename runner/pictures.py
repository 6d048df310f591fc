"""Pictures as they may be kept: their pixels, and nothing else that a file may carry along."""

from __future__ import annotations

import io
import struct
import zlib

from PIL import Image

MAX_PIXELS = 4096 * 4096
"""Of a picture of somebody else's that is unpacked."""
_NO_PICTURE = (
    ValueError, OSError, SyntaxError, EOFError, struct.error, zlib.error,
    Image.DecompressionBombError, Image.DecompressionBombWarning,
)  # fmt: skip
"""What Pillow raises for bytes that are none, or more than it thinks fit."""
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


def redrawn(data: bytes, *formats: str) -> bytes:
    """The picture as a PNG made anew of its pixels: texts, profiles and whatever else the file holds are gone.

    Args:
        data: The picture's file.
        formats: What it may be, by Pillow's names, such as ``PNG``.

    Raises:
        ValueError: It is none that can be read, or too large; the argument says what "the picture …" is or has.
    """
    try:
        with Image.open(io.BytesIO(data), formats=formats) as image:
            is_bearable = image.width * image.height <= MAX_PIXELS
            converted = image.convert("RGB") if is_bearable else None
    except _NO_PICTURE as error:
        raise ValueError(f"is no {' or '.join(formats)} picture: {error}") from None
    if converted is None:
        raise ValueError(f"has more than {MAX_PIXELS} pixels")
    bare = Image.frombytes("RGB", converted.size, converted.tobytes())
    buffer = io.BytesIO()
    bare.save(buffer, "PNG")
    return buffer.getvalue()
