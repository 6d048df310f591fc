"""Plain data to YAML that :mod:`contracts.document` reads back the same, whatever the texts hold.

Everything is written in flow style on one line: whoever writes a file lays out its blocks and comments himself and puts values in
by :func:`flow`. A text stands bare only where nothing can take it for something else; with characters that YAML cannot hold it
stands in double quotes, escaped. Half a surrogate pair, which no file can hold, becomes U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from contracts.document import NotANumber, number

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[. -][A-Za-z0-9_]+)*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Bare words that this or another YAML reader takes for something else than a text."""
_LONGEST_BARE = 120
_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0",
}  # fmt: skip


def scalar(text: str) -> str:
    """A text as YAML, quoted where it must be."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if len(text) <= _LONGEST_BARE and _BARE.fullmatch(text) and text.lower() not in _WORDS and not _is_number(text):
        return text
    if all(char.isprintable() for char in text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _is_number(text: str) -> bool:
    try:
        return number(text) is not None
    except NotANumber:
        return True


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def flow(value: Any) -> str:
    """Plain data on one line: mappings in braces, lists in brackets.

    Args:
        value: Texts, whole and decimal numbers, truth values, dates (written as ISO texts), and lists and mappings of these.

    Raises:
        TypeError: Something else, such as ``None``, which a contract cannot hold.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            return f"{value:f}"
        case str():
            return scalar(value)
        case datetime() | date():
            return scalar(value.isoformat())
        case Mapping():
            return "{" + ", ".join(f"{scalar(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(flow(item) for item in value) + "]"
        case _:
            raise TypeError(f"{type(value).__name__} has no place in these files")


def comment(text: str) -> str:
    """A text for a comment line: on one line, without characters that would end it or cannot be seen."""
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(char if char.isprintable() else "·" for char in text)
