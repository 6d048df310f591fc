r"""Tabs as YAML 1.2 has them: they may separate, and may not indent.

``key:<tab>value``, a tab after ``-``, before a comment, at the end of a line, on a blank line or within a text is legal (productions
``s-white``, ``s-separate-in-line`` and ``l-comment`` of YAML 1.2.2); indentation (``s-indent``) is blanks alone, which holds for the
compact mapping or list after ``-<tab>`` as well. The library's scanner takes tabs within ``{…}`` and ``[…]`` only; this one takes the
others where a tab cannot be mistaken for indentation, and stops at the tab itself where it can.
"""

from __future__ import annotations

import re
from typing import Any

from ruamel.yaml.error import MarkedYAMLError, StringMark
from ruamel.yaml.scanner import Scanner

_BLANK = " \t"
_BREAK = "\r\n\x85\u2028\u2029"
_END = _BREAK + "\0"
_INDICATORS = re.compile(r"(?:[+-]?[1-9]?|[1-9][+-])\t")
"""What follows on ``|`` or ``>``, with a tab after it."""


class TabIndents(MarkedYAMLError):
    """A tab stands where indentation belongs; the mark is the tab's."""


class SeparatingTabs(Scanner):
    """The library's scanner, which also takes tabs that separate.

    A tab takes away the permission to begin a block mapping or list on its line: what would be one is indented by the tab.
    """

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self._tab: StringMark | None = None
        """The tab that took the permission away."""

    def scan_to_next_token(self) -> Any:
        """Goes on to the next token, over blanks, line breaks, comments, and tabs that are none of a line's indentation."""
        super().scan_to_next_token()
        while not self.flow_level and self.reader.peek() == "\t":
            indents = self._column_of_line()
            if indents is not None and indents <= self.indent and not self._only_blanks_follow():
                raise self._refused(self.reader.get_mark())
            if self.allow_simple_key:
                self.allow_simple_key = False
                self._tab = self.reader.get_mark()
            self._skip_blanks()
            super().scan_to_next_token()
        return None

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> Any:  # noqa: ARG002 - as the library calls it
        """Blanks, tabs and line breaks after a part of a plain text, as the text goes on: folded where a line ended."""
        before = self._skip_blanks()
        if self.reader.peek() not in _BREAK:
            return [before] if before else []
        first, breaks = self.scan_line_break(), []
        self.allow_simple_key = True
        while not self._document_ends():
            if self._only_blanks_follow():
                self._skip_blanks()
                if self.reader.peek() == "\0":
                    break
                if self.reader.peek() not in _BREAK:  # a comment
                    return []
                breaks.append(self.scan_line_break())
                continue
            while self.reader.peek() == " ":
                self.reader.forward()
            if self.flow_level or self.reader.column >= indent:
                self._skip_blanks()
            return [*([first] if first != "\n" else [] if breaks else [" "]), *breaks]
        return []

    def scan_block_scalar_indicators(self, start_mark: Any) -> Any:
        """What ``|`` or ``>`` says of the end and the indentation of its text."""
        indicators = _INDICATORS.match(self.reader.prefix(3))
        if indicators is None:
            return super().scan_block_scalar_indicators(start_mark)
        self.reader.forward(len(indicators[0]) - 1)
        signs = indicators[0]
        keeps = {"+": True, "-": False}
        digit = next((int(sign) for sign in signs if sign.isdigit()), None)
        return next((keeps[sign] for sign in signs if sign in keeps), None), digit

    def scan_block_scalar_ignored_line(self, start_mark: Any) -> Any:
        """The rest of the line of ``|`` or ``>``."""
        self._skip_blanks()
        return super().scan_block_scalar_ignored_line(start_mark)

    def fetch_block_entry(self) -> None:
        """A ``-``."""
        self._refuse_after_tab()
        super().fetch_block_entry()

    def fetch_key(self) -> None:
        """A ``?``."""
        self._refuse_after_tab()
        super().fetch_key()

    def fetch_value(self) -> None:
        """A ``:``; what stands before it is a key, unless that may not begin there."""
        if self.flow_level not in self.possible_simple_keys:
            self._refuse_after_tab()
        super().fetch_value()

    def _refuse_after_tab(self) -> None:
        is_cause = self._tab is not None and self._tab.line == self.reader.line
        if is_cause and not self.flow_level and not self.allow_simple_key:
            raise self._refused(self._tab)

    def _refused(self, mark: StringMark | None) -> TabIndents:
        return TabIndents(problem="a tab stands in the indentation", problem_mark=mark)

    def _column_of_line(self) -> int | None:
        """How many blanks the line begins with, if only they stand before the reader; else ``None``."""
        column: int = self.reader.column
        start = self.reader.pointer - column
        return column if not self.reader.buffer[start : self.reader.pointer].strip(" ") else None

    def _only_blanks_follow(self) -> bool:
        """Whether nothing but blanks, tabs and perhaps a comment stands on the rest of the line."""
        length = 0
        while self.reader.peek(length) in _BLANK:
            length += 1
        return self.reader.peek(length) in _END + "#"

    def _skip_blanks(self) -> str:
        length = 0
        while self.reader.peek(length) in _BLANK:
            length += 1
        found: str = self.reader.prefix(length)
        self.reader.forward(length)
        return found

    def _document_ends(self) -> bool:
        return self.reader.prefix(3) in ("---", "...") and self.reader.peek(3) in _BLANK + _END
