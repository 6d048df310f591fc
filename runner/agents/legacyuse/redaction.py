"""Keeping secrets out of what a legacy-use server tells about a job before any of it is kept.

The server returns passwords and the provider's keys in clear text, and repeats a job's parameters in the spellings of JSON and
Python. They are blotted out in every spelling, and before a text is cut, so that no half of one is left.
"""

from __future__ import annotations

from collections.abc import Iterable

from runner.agents.vendor_keys import KEYS
from runner.spellings import BLOT, blot


class Redactor:
    """Knows secrets, and makes texts fit to be kept."""

    def __init__(self, secrets: Iterable[str]) -> None:
        """Makes a redactor for some secrets."""
        self._secrets = frozenset(filter(None, secrets))

    def hide(self, secrets: Iterable[str]) -> None:
        """Adds secrets."""
        self._secrets |= frozenset(filter(None, secrets))

    def text(self, text: str, limit: int) -> str:
        """A text without secrets and without what looks like a vendor's key, at most ``limit`` characters long."""
        text = KEYS.sub(BLOT, blot(text, self._secrets))
        return text if len(text) <= limit else text[: limit - 1] + "…"
