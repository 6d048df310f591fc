r"""The lines in which rows are kept: fields parted by tabs, in the text form of PostgreSQL's ``COPY``.

``\N`` alone is NULL; a backslash, a tab and a line feed within a value are written ``\\``, ``\t`` and ``\n`` (PostgreSQL also
writes ``\b``, ``\f``, ``\v`` and ``\r``). Lines are UTF-8 and end with a line feed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

NULL = "\\N"


class Form(StrEnum):
    """How a column's values are spelt; decides what they are read as."""

    TEXT = "text"
    CHAR = "char"
    """Text of fixed width: trailing blanks do not count."""
    NUMBER = "number"
    """An exact decimal, ``1.5e+300``, ``NaN``, ``Infinity``."""
    BOOL = "bool"
    """``t`` or ``f``, ``1`` or ``0``."""
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"
    """Date and time without a zone."""
    INSTANT = "instant"
    """Date and time of one moment: with an offset, or in UTC."""
    BYTES = "bytes"
    """Hexadecimal, with or without ``\\x`` or ``0x`` before it."""
    RAW_TEXT = "rawtext"
    """Text of unknown encoding, in hexadecimal."""
    DYNAMIC = "dynamic"
    """SQLite: each value says what it is by its first letter: ``i`` and ``r`` numbers, ``t`` text, ``b`` bytes in
    hexadecimal, ``x`` the bytes of a text that is not UTF-8."""
    UNREAD = "unread"
    """A type that the reader cannot read, or not whole: what it gave, if anything, is no value and only compared."""


_NEEDED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n"})
_COPY = str.maketrans(
    {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\r": "\\r"}
)  # fmt: skip
_SPECIAL = re.compile(r"[\\\n\b\f\v\r]")
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANING = {b"t": b"\t", b"n": b"\n", b"b": b"\b", b"f": b"\f", b"v": b"\v", b"r": b"\r"}


def line_writer(columns: int, *, as_copy: bool) -> Callable[[Sequence[str | None]], str]:
    """A function that writes one row, without the line feed at its end.

    Args:
        columns: How many values a row has.
        as_copy: Whether to escape everything that ``COPY`` escapes.
    """
    table = _COPY if as_copy else _NEEDED
    tabs = columns - 1

    def write(values: Sequence[str | None]) -> str:
        text = "\t".join(["" if value is None else value for value in values])
        if text.count("\t") == tabs and _SPECIAL.search(text) is None:
            return text if None not in values else "\t".join([NULL if value is None else value for value in values])
        return "\t".join([NULL if value is None else value.translate(table) for value in values])

    return write


def fields_of(line: bytes) -> list[bytes | None]:
    """The values of a line as they are spelt; ``None`` is NULL."""
    parts: list[bytes | None] = [*line.split(b"\t")]
    if b"\\" in line:
        for index, part in enumerate(parts):
            if part is not None and b"\\" in part:
                parts[index] = unescaped(part)
    return parts


def unescaped(part: bytes) -> bytes | None:
    """One field of a line as its value is spelt; ``None`` is NULL."""
    if part == b"\\N":
        return None
    return _ESCAPED.sub(lambda found: _MEANING.get(found[1], found[1]), part) if b"\\" in part else part


def key_reader(places: Sequence[int]) -> Callable[[bytes], Any]:
    """A function that reads a line's key: the fields at these places, or the line itself when there are none."""
    if not places:
        return lambda line: line
    if len(places) == 1:
        (place,) = places
        if place == 0:
            return lambda line: line.partition(b"\t")[0]
        return lambda line: line.split(b"\t", place + 1)[place]
    most = max(places) + 1

    def read(line: bytes) -> tuple[bytes, ...]:
        parts = line.split(b"\t", most)
        return tuple([parts[place] for place in places])

    return read
