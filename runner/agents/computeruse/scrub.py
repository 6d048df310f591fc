"""Takes out of texts of providers what must not be kept: keys, and long runs of encoded data."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{120,}={0,2}")
_KEYS = re.compile(
    r"(?i)\b(?:sk|pk|rk|api|key)-[A-Za-z0-9_*.-]{6,}|\bAIza[A-Za-z0-9_-]{10,}"
    r"|(?<=bearer )[A-Za-z0-9._~+/*-]{6,}|(?<=[?&]key=)[^&\s\"']+"
)
"""What looks like a key of one of the vendors, also partly hidden as their error messages show it."""


def scrubbed(text: str, secrets: Iterable[str] = (), *, limit: int = 500) -> str:
    """The text without the given secrets, without anything that looks like a key or encoded data, and not longer than ``limit``."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= 4:
            text = text.replace(secret, "•••")
    text = _KEYS.sub("•••", text[:20_000])
    text = _ENCODED.sub("…", text)
    return " ".join(text.split())[:limit]
