"""Takes out of texts of providers what must not be kept: secrets, keys that nobody has told us, and long runs of encoded data."""

from __future__ import annotations

import re
from collections.abc import Iterable

from runner.agents.vendor_keys import KEYS
from runner.spellings import BLOT, blot

_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{120,}={0,2}")
_LOOKED_AT = 20_000
"""Characters of a text that are looked at: what is kept of it is far shorter."""


def scrubbed(text: str, secrets: Iterable[str] = (), *, limit: int = 500) -> str:
    """The text without the given secrets, without anything that looks like a key or encoded data, and not longer than ``limit``."""
    text = KEYS.sub(BLOT, blot(text, secrets)[:_LOOKED_AT])
    text = _ENCODED.sub("…", text)
    return " ".join(text.split())[:limit]
