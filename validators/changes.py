"""The words in which snapshots, differences and judgement speak with each other: plain data, no I/O.

An observable's module turns two snapshots into a :class:`Comparison`: its changes (what an effect must account for), its
notes (what is listed but never a violation) and, where rows exist, a :class:`Rows` view that matchers may ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from validators.clock import Clock


class Unreadable(Exception):
    """A state that could not be read, or not read whole: the third value beside "there" and "not there".

    Whoever catches it makes the run unscored (cause ``unreadable``); it never counts as an empty or missing state.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ContractFault(Exception):
    """The contract cannot be applied to the state that was found, e.g. its key is not unique (unscored: contract)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Kind(StrEnum):
    """What sort of value a field holds; decides how a literal is compared with it (CONTRACT.md section 2)."""

    TEXT = "text"
    """Fixed-width text (DBF ``C``, SQL ``CHAR``): trailing blanks do not count."""
    VARTEXT = "vartext"
    """Text of its own length (DBF ``V``, memo, SQL ``VARCHAR``, window titles): every character counts."""
    NUMBER = "number"
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"
    LOGICAL = "logical"
    BINARY = "binary"


class CellState(StrEnum):
    """Which of the four things a field can hold is there."""

    VALUE = "value"
    BLANK = "blank"
    """Nothing was entered: spaces, ``?`` in a logical field, an empty text or memo."""
    NULL = "null"
    UNDECODABLE = "undecodable"
    """Bytes that are no value of the field's type; equal only to the same bytes."""


Value = str | Decimal | bool | bytes | date | Clock | datetime | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One field's content as it was read.

    Attributes:
        kind: The sort of value.
        value: The decoded value; ``None`` unless ``state`` is VALUE.
        state: Value, blank, null or undecodable.
        raw: The bytes on disk where there are such (for memos: the memo's payload); what format-only differences and
            undecodable values are told by.
        has_blank: False for types that have no blank of their own (DBF ``I B Y T @ + O``, SQL numbers): there zero is
            what ``{is: blank}`` means.
        hint: Why a value could not be decoded and what to do, e.g. "declare encoding".
    """

    kind: Kind
    value: Value = None
    state: CellState = CellState.VALUE
    raw: bytes = b""
    has_blank: bool = True
    hint: str = ""

    def same_value(self, other: Cell) -> bool:
        """Whether both hold the same value, whatever the bytes; undecodable cells only by the same bytes."""
        if self.state is not other.state:
            return False
        if self.state is CellState.UNDECODABLE:
            return self.raw == other.raw
        return self.value == other.value and isinstance(self.value, bool) == isinstance(other.value, bool)

    @property
    def is_zero_date(self) -> bool:
        """A date field (DBF ``D``) of eight zeros: nobody filled it, and yet it is not blank, which has spaces."""
        return self.kind is Kind.DATE and self.has_blank and self.raw == b"00000000"

    def display(self, limit: int = 200) -> str:
        """The cell for a person's eyes, bounded to ``limit`` characters; not for comparison."""
        match self.state:
            case CellState.BLANK:
                text = "00000000" if self.is_zero_date else "(blank)"
            case CellState.NULL:
                text = "(null)"
            case CellState.UNDECODABLE:
                text = f"(undecodable: {self.raw[:limit].hex(' ')})"
            case _ if isinstance(self.value, bytes):
                text = f"({len(self.value)} bytes: {self.value[:limit].hex(' ')})"
            case _ if isinstance(self.value, bool):
                text = "true" if self.value else "false"
            case _ if isinstance(self.value, datetime):
                text = self.value.isoformat(" ")
            case _:
                text = str(self.value)
        return text if len(text) <= limit else text[: limit - 1] + "…"


Row = Mapping[str, Cell]


class Verb(StrEnum):
    """Every kind of change an effect can speak of (CONTRACT.md section 3)."""

    INSERTED = "inserted"
    UPDATED = "updated"
    DELETED = "deleted"
    UNDELETED = "undeleted"
    PURGED = "purged"
    CREATED = "created"
    DROPPED = "dropped"
    RESTRUCTURED = "restructured"
    MODIFIED = "modified"
    RENAMED = "renamed"
    ATTRIBUTES = "attributes"
    OPENED = "opened"
    CLOSED = "closed"
    RETITLED = "retitled"
    PRESENT = "present"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Change:
    """One atomic difference between two snapshots.

    Attributes:
        observable: The observable's name in the contract.
        verb: What happened.
        subject: What it happened to, for people: ``PATNR=000104``, ``DSWIN.LOG``, a window title. Hostile text.
        position: Record number (from 1), or the entry's place in its listing; ties are broken by it, so that the
            ledger does not depend on input order.
        before: The row, file attributes or window before; ``None`` when it was not there.
        after: The same afterwards.
        changed: Names of the fields that differ in value, in the table's order.
        how: How it came about where that matters ("by deletion flag", "by PACK", "by position").
        content: Files only: the content afterwards, or ``None`` when it was not kept (too large, or not readable).
        content_missing: Why ``content`` is ``None`` although the file exists afterwards.
    """

    observable: str
    verb: Verb
    subject: str
    position: int
    before: Row | None = None
    after: Row | None = None
    changed: tuple[str, ...] = ()
    how: str = ""
    content: bytes | None = None
    content_missing: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something seen that is no change: housekeeping, format-only differences, moved rows. Never a violation."""

    kind: str
    text: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Ignored:
    """What one ignore rule of the contract took out of sight: listed with its count in every report."""

    rule: str
    because: str
    count: int
    examples: tuple[str, ...] = ()


class Rows(Protocol):
    """What matchers and returned-value rules may ask about the rows of an observable (tables and windows)."""

    def before(self) -> Iterable[tuple[Row, bool]]:
        """Every row before the run, with whether it was live (not deleted)."""

    def after(self) -> Iterable[tuple[Row, bool]]:
        """Every row after the run, with whether it is live."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file after the run, as rules about its content see it.

    Attributes:
        name: Observable and path, for messages.
        path: Relative to the tree's root.
        kind: ``file``, or what it is instead: ``dir`` or ``link``.
        size: Bytes, as a cell; ``None`` where only the content tells.
        sha256: Hash as taken with the snapshot, or empty.
        data: The content; ``None`` when it was not kept.
        missing: Why it was not.
    """

    name: str
    path: str
    kind: str
    size: Cell | None
    sha256: str
    data: bytes | None
    missing: str = ""

    @property
    def content(self) -> bytes:
        """The content.

        Raises:
            Unreadable: It was not kept.
        """
        if self.data is None:
            raise Unreadable(f"{self.name}: {self.missing or 'its content was not kept'}")
        return self.data


class Files(Protocol):
    """What returned-value rules may ask about the files of a tree."""

    def after(self, fits: Callable[[str], bool]) -> Iterable[KeptFile]:
        """The files (no folders, no links) after the run whose path fits."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What happened to one observable between the two snapshots."""

    observable: str
    changes: tuple[Change, ...] = ()
    notes: tuple[Note, ...] = ()
    warnings: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    identity: str = ""
    """How rows were recognised, and how sure that is: ``key PATNR``, ``by position``, ``by content``."""
    rows: Rows | None = field(default=None, compare=False)
    files: Files | None = field(default=None, compare=False)
