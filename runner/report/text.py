"""Values as people may see them: bounded, and with nothing invisible in them.

Window titles, table values, file names and what an agent says come from a machine nobody trusts. Escaping markup is the
template's business; here a text loses the means to look like another one.
"""

from __future__ import annotations

import json
import math
import unicodedata
from datetime import UTC, datetime
from typing import Any, Final

LIMIT: Final = 2_000
"""The most characters of a single value."""

LONG_LIMIT: Final = 20_000
"""The most characters of a text with lines: a message, a prompt."""

_BLANK_LETTERS: Final = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and symbols without ink."""

_MAX_MARKS: Final = 4
"""Marks stacked on one letter; with more of them a text can be painted over its neighbours."""


def visible(text: str, limit: int = LIMIT, *, multiline: bool = False) -> str:
    """The text with every character visible, cut to ``limit`` characters.

    Control characters become their pictures (``␀``). Whatever else has no ink, or changes the direction of what follows,
    becomes ``⟨U+202E⟩``: format characters, lone surrogates, unassigned ones, every space but the common one.

    Args:
        text: anything, also texts that are no Unicode (lone surrogates).
        limit: the most characters of ``text`` that are looked at; the length of a cut text is told.
        multiline: keep line ends and tabs.
    """
    head = text[:limit]
    if not (head.isascii() and head.isprintable()):
        head = _spelled_out(head.replace("\r\n", "\n") if multiline else head, "\n\t" if multiline else "")
    return head if len(text) <= limit else f"{head}… ({len(text):,} characters in all)"


def _spelled_out(text: str, kept: str) -> str:
    shown: list[str] = []
    marks = 0
    for character in text:
        if character < "\u0300" and character.isprintable():  # letters of most of Europe
            shown.append(character)
            marks = 0
            continue
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        if character in kept:
            shown.append(character)
        elif ord(character) < 0x20:
            shown.append(chr(0x2400 + ord(character)))
        elif character == "\x7f":
            shown.append("␡")
        elif character.isprintable() and marks <= _MAX_MARKS and not _is_inkless(character):
            shown.append(character)
        else:
            shown.append(f"⟨U+{ord(character):04X}⟩")
    return "".join(shown)


def _is_inkless(character: str) -> bool:
    code = ord(character)
    is_selector = 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF or 0x180B <= code <= 0x180F
    return is_selector or code == 0x34F or character in _BLANK_LETTERS


def plain(value: Any) -> str:
    """A JSON value on one line: texts as they are, everything else as JSON. Not yet :func:`visible`."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return "(a value that cannot be shown)"


def duration(seconds: float | None) -> str:
    """A time span as people say it: ``40 ms``, ``4.2 s``, ``42 s``, ``3 min 12 s``, ``1 h 05 min``; ``–`` if unknown."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return "–"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 89.5:
        return f"{seconds:.0f} s"
    if seconds < 3599.5:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes:02} min"


def clock(seconds: float) -> str:
    """A point on a recording's clock: ``0:07.3``; ``–`` if it is none."""
    if not math.isfinite(seconds) or not 0 <= seconds < 1e9:
        return "–"
    minutes, tenths = divmod(round(seconds * 10), 600)
    return f"{minutes}:{tenths / 10:04.1f}"


def moment(when: datetime) -> str:
    """A date with time, in UTC where the zone is known."""
    if when.tzinfo is None:
        return when.isoformat(" ", "seconds")
    try:
        return when.astimezone(UTC).isoformat(" ", "seconds")[:19] + " UTC"
    except OverflowError:
        return when.isoformat(" ", "seconds")
