"""Editing the rows of a recorded table: what every kind of table can do, and how a value becomes another one."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from validators.changes import Cell, Row
from validators.snapshot import State

_SETS = (string.digits, string.ascii_uppercase, string.ascii_lowercase)


Bad = Callable[[Cell], bool]
"""Whether a value is a bad one."""


def anything(_: Cell) -> bool:
    """Every other value is bad."""
    return True


class RowEditor(Protocol):
    """An editable copy of a table's state. Rows are told by their place, from 0; edits that do nothing answer False."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields, in order."""

    def live(self) -> Iterator[int]:
        """Places of the rows that are not deleted, in order."""

    def row(self, at: int) -> Mapping[str, Cell]:
        """A row as it was before any edit."""

    def find(self, row: Row, hint: int) -> int | None:
        """The place of the row that equals ``row``; ``hint`` is looked at first."""

    def spoil(self, at: int, name: str, bad: Bad = anything) -> bool:
        """Puts another readable and bad value into a field: a mistyped sign, a number off by one, the day before."""

    def clear(self, at: int, name: str) -> bool:
        """Empties a field."""

    def cut(self, at: int, name: str) -> bool:
        """Cuts off the second half of a text that lies outside the row."""

    def take(self, at: int, name: str, other: RowEditor, other_at: int, bad: Bad = anything) -> bool:
        """Puts the value of a row of another state of the same table into a field, if it is a bad one."""

    def number(self, at: int, name: str, value: int) -> bool:
        """Writes a whole number, spelt as the number there."""

    def remove(self, at: int) -> None:
        """Takes a row out; the places of those behind it change."""

    def flag(self, at: int) -> bool:
        """Marks a row as deleted; False where there is no such mark."""

    def double(self, at: int) -> int:
        """Adds a copy of a row; returns its place, which is good until rows are removed."""

    def state(self) -> State:
        """The state with the edits."""


def mistyped(text: bytes) -> Iterator[bytes]:
    """The text with one letter or digit replaced by the next of its kind, the last one first."""
    for at in range(len(text) - 1, -1, -1):
        sign = chr(text[at])
        for signs in _SETS:
            if sign in signs:
                other = signs[(signs.index(sign) + 1) % len(signs)]
                yield text[:at] + other.encode("ascii") + text[at + 1 :]


def flipped(raw: bytes) -> Iterator[bytes]:
    """The bytes with the lowest bit of one of them turned over."""
    for at in range(len(raw)):
        yield raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def same_row(one: Row, other: Row) -> bool:
    """Whether two rows hold the same values."""
    return one.keys() == other.keys() and all(cell.same_value(other[name]) for name, cell in one.items())
