"""Keeping secrets out of what a legacy-use server tells about a job before any of it is kept.

The server returns passwords and the provider's keys in clear text, and repeats a job's parameters in the spellings of JSON and
Python. They are blotted out in every spelling, and before a text is cut, so that no half of one is left.
"""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import warnings
import zlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from PIL import Image

BLOT = "•••"
MAX_PIXELS = 4096 * 4096
MAX_PICTURE = 16 << 20
"""Bytes of one screenshot."""
_NO_PICTURE = (ValueError, OSError, SyntaxError, EOFError, struct.error, zlib.error)
"""What Pillow raises for bytes that are none."""
_LEAST_BASE64 = 6
"""Characters; what is shorter would be found in ordinary words."""
_KEYS = re.compile(
    r"sk-[A-Za-z0-9_-]{12,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{16,}"
)
"""The keys of Anthropic and OpenAI, AWS, and Google; bearer tokens."""


class Redactor:
    """Knows secrets, and makes texts fit to be kept."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Makes a redactor for some secrets."""
        self._spellings: set[str] = set()
        self.hide(*secrets)

    def hide(self, *secrets: str) -> None:
        """Adds secrets."""
        for secret in filter(None, secrets):
            self._spellings |= spellings(secret)

    def text(self, text: str, limit: int) -> str:
        """A text without secrets, at most ``limit`` characters long."""
        for spelling in sorted(self._spellings, key=len, reverse=True):
            text = text.replace(spelling, BLOT)
        text = _KEYS.sub(BLOT, text)
        return text if len(text) <= limit else text[: limit - 1] + "…"

    def data(self, value: Any, limit: int = 100_000) -> Any:
        """JSON data without secrets."""
        match value:
            case str():
                return self.text(value, limit)
            case dict():
                return {self.text(str(key), limit): self.data(item, limit) for key, item in value.items()}
            case list():
                return [self.data(item, limit) for item in value]
            case _:
                return value


def spellings(text: str) -> set[str]:
    """A text as it may stand in JSON, in Python's output, in a URL, and somewhere in base64."""
    found = {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(text, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        quote(text, safe=""),
    }
    data = text.encode("utf-8", "surrogatepass")
    for before in range(3):  # the text can begin at each of the three bytes that four characters stand for
        encoded = base64.b64encode(bytes(before) + data).decode()
        ambiguous = (0, 3, 2)[(len(data) + before) % 3]  # padding, and a character that the next byte has a part in
        core = encoded[(0, 2, 3)[before] : len(encoded) - ambiguous]
        if len(core) >= _LEAST_BASE64:
            found |= {core, core.replace("+", "-").replace("/", "_")}
    return found


def picture(encoded: object) -> bytes | None:
    """A screenshot of the server as a PNG of ours: pixels only, nothing that a file can carry beside them.

    Args:
        encoded: Base64.

    Returns:
        The PNG, or ``None`` if it is no picture of a bearable size.
    """
    if not isinstance(encoded, str) or len(encoded) > MAX_PICTURE * 4 // 3 + 4:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(base64.b64decode(encoded, validate=True)), formats=["PNG"])
            if image.width * image.height > MAX_PIXELS:
                return None
            pixels = Image.frombytes("RGB", image.size, image.convert("RGB").tobytes())
    except (*_NO_PICTURE, Image.DecompressionBombError, Image.DecompressionBombWarning):
        return None
    kept = io.BytesIO()
    pixels.save(kept, "PNG")
    return kept.getvalue()
