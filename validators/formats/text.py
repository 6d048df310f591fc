"""Contents as text, and the reasons why a value is not there."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from itertools import islice

from validators.changes import Cell, CellState, ContractFault, Kind
from validators.values import shown

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_NAMED = 8
"""Most names that a reason lists."""


class Absent(Exception):
    """There is no such value in the file, or not one alone: the reason in words."""


class NotText(Absent):
    """The bytes are no text of the encoding."""

    def __init__(self, encoding: str, raw: bytes) -> None:
        super().__init__(f"the content is not {encoding} text; declare its `encoding`")
        self.raw = raw[:256]


def decoded(content: bytes, encoding: str | None) -> str:
    """A content as text; without a declared encoding UTF-8, or what its mark says.

    Raises:
        NotText: It is not text of that encoding.
        ContractFault: There is no such encoding.
    """
    name = encoding or next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    name = "utf-8-sig" if name.lower().replace("_", "-") in ("utf-8", "utf8") else name
    try:
        text, _ = codecs.lookup(name).decode(content, "strict")
    except LookupError:
        raise ContractFault(f"unknown encoding: {shown(name, 40)}") from None
    except (UnicodeError, ValueError):
        raise NotText(encoding or name.removesuffix("-sig"), content) from None
    if not isinstance(text, str):
        raise ContractFault(f"{shown(name, 40)} is not an encoding of text")
    return text


def text_cell(text: str) -> Cell:
    """A text as a cell; an empty one is blank."""
    return Cell(Kind.VARTEXT, text) if text else Cell(Kind.VARTEXT, state=CellState.BLANK)


def named(names: Iterable[str]) -> str:
    """What is there instead, for the end of a reason: the first names, or nothing."""
    listed = [f"“{shown(name, 40)}”" for name in islice(names, _NAMED)]
    return f"; there: {', '.join(listed)}" if listed else ""
