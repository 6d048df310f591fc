"""What a check of the surroundings says: fine, wrong, or not to be told; with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer of ``legacyproof doctor``, also given by agents and providers about themselves.

    Attributes:
        name: What was looked at, in a few words, e.g. ``agent: server``.
        ok: Whether it is in order; ``None`` where that could not be told.
        message: What was found, for people.
        remedy: What to do, where something is to be done.
    """

    name: str
    ok: bool | None
    message: str
    remedy: str = ""
