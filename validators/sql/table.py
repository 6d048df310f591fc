"""A table's state, and its rows as cells, decoded when they are looked at."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from mmap import mmap

from validators.changes import Cell, CellState, Kind
from validators.clock import Clock, clock_of
from validators.sql.form import Form, fields_of, unescaped

Buffer = bytes | mmap
"""Rows in memory, or in a file that is mapped."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column as the catalogue describes it.

    Attributes:
        name: Its name.
        type: Its type in the server's words, e.g. ``numeric(10,2)``.
        nullable: Whether it may hold NULL.
        form: How its values are spelt in the rows.
        made_by_server: Why its values change without the program: ``row version``, ``computed``, ``set on every update``;
            empty for an ordinary column.
    """

    name: str
    type: str
    nullable: bool
    form: Form
    made_by_server: str = ""

    def describe(self) -> str:
        """Name-independent words for reports."""
        null = "" if self.nullable else " not null"
        return f"{self.type}{null}" + (f" ({self.made_by_server})" if self.made_by_server else "")


@dataclass(frozen=True, slots=True)
class Key:
    """Columns that the server itself keeps unique and not null."""

    columns: tuple[str, ...]
    origin: str
    """``primary key``, or ``unique index`` with its name."""


@dataclass(frozen=True, slots=True)
class SqlState:
    """One table at one moment.

    Attributes:
        name: The table's name as the catalogue has it; as the contract names it where there is none.
        exists: False when the whole catalogue was seen and the table is not in it; then everything else is empty.
        columns: Its columns, in the table's order.
        keys: Keys that the catalogue guarantees, best first.
        order: The columns that the rows are sorted by, in the server's order; empty: by the bytes of their lines.
        rows: The lines (see :mod:`validators.sql.form`).
        count: How many there are.
        server: The server's product and version.
        findings: What was seen beside the rows and matters: open transactions, locks, no consistent snapshot.
        notes: How it was read, where that is not the usual way.
    """

    name: str
    exists: bool
    columns: tuple[Column, ...] = ()
    keys: tuple[Key, ...] = ()
    order: tuple[str, ...] = ()
    rows: Buffer = b""
    count: int = 0
    server: str = ""
    findings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


# --- values ---------------------------------------------------------------------------------------------------------------

_ZERO_MOMENT = re.compile(r"0000-00-00(?: 00:00:00(?:\.0+)?)?")
_BC = "neither a date nor a time that can be compared with one; equal only to the same text"


def _undecodable(kind: Kind, text: bytes, hint: str) -> Cell:
    return Cell(kind, None, CellState.UNDECODABLE, text, has_blank=False, hint=hint)


def _text(kind: Kind, text: bytes) -> Cell:
    try:
        value = text.decode()
    except UnicodeDecodeError:
        return Cell(kind, None, CellState.UNDECODABLE, text, hint="the text is not UTF-8")
    if not value or (kind is Kind.TEXT and not value.strip(" ")):
        return Cell(kind, None, CellState.BLANK, text)
    return Cell(kind, value, raw=text)


def _number(text: bytes) -> Cell:
    try:
        value = Decimal(text.decode())
    except (InvalidOperation, ValueError):
        return _undecodable(Kind.NUMBER, text, "not a number")
    if value.is_nan():  # equal to itself by its spelling, which Decimal's NaN is not
        return _undecodable(Kind.NUMBER, text, "not a number: NaN")
    return Cell(Kind.NUMBER, value, raw=text, has_blank=False)


def _bool(text: bytes) -> Cell:
    value = {b"t": True, b"f": False, b"1": True, b"0": False}.get(text)
    if value is None:
        return _undecodable(Kind.LOGICAL, text, "neither true nor false")
    return Cell(Kind.LOGICAL, value, raw=text, has_blank=False)


def _moment(kind: Kind, parse: Callable[[str], date | Clock | datetime]) -> Callable[[bytes], Cell]:
    def decode(text: bytes) -> Cell:
        try:
            spelt = text.decode("ascii")
            if _ZERO_MOMENT.fullmatch(spelt):  # MariaDB's date of a field that nobody filled; not NULL
                return Cell(kind, None, CellState.BLANK, text, has_blank=False)
            return Cell(kind, parse(spelt), raw=text, has_blank=False)
        except ValueError:
            return _undecodable(kind, text, _BC)

    return decode


def _instant(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


def _from_hex(text: bytes) -> bytes:
    digits = text[2:] if text[:2] in (b"\\x", b"0x", b"0X") else text
    return bytes.fromhex(digits.decode("ascii"))


def _bytes(text: bytes) -> Cell:
    try:
        value = _from_hex(text)
    except ValueError:
        return _undecodable(Kind.BINARY, text, "not hexadecimal")
    if not value:
        return Cell(Kind.BINARY, None, CellState.BLANK, text, has_blank=False)
    return Cell(Kind.BINARY, value, raw=text, has_blank=False)


def _raw_text(text: bytes) -> Cell:
    try:
        return _text(Kind.VARTEXT, _from_hex(text))
    except ValueError:
        return _undecodable(Kind.VARTEXT, text, "not hexadecimal")


def _unread(text: bytes) -> Cell:
    return _undecodable(Kind.BINARY, text, "the reader of this database cannot read the column's type")


def _dynamic(text: bytes) -> Cell:
    match text[:1]:
        case b"i" | b"r":
            return _number(text[1:])
        case b"b":
            return _bytes(text[1:])
        case b"x":
            return _raw_text(text[1:])
        case _:
            return _text(Kind.VARTEXT, text[1:])


_DECODERS: dict[Form, tuple[Kind, Callable[[bytes], Cell]]] = {
    Form.TEXT: (Kind.VARTEXT, lambda text: _text(Kind.VARTEXT, text)),
    Form.CHAR: (Kind.TEXT, lambda text: _text(Kind.TEXT, text)),
    Form.NUMBER: (Kind.NUMBER, _number),
    Form.BOOL: (Kind.LOGICAL, _bool),
    Form.DATE: (Kind.DATE, _moment(Kind.DATE, date.fromisoformat)),
    Form.TIME: (Kind.TIME, _moment(Kind.TIME, clock_of)),
    Form.DATETIME: (Kind.DATETIME, _moment(Kind.DATETIME, datetime.fromisoformat)),
    Form.INSTANT: (Kind.DATETIME, _moment(Kind.DATETIME, _instant)),
    Form.BYTES: (Kind.BINARY, _bytes),
    Form.RAW_TEXT: (Kind.VARTEXT, _raw_text),
    Form.DYNAMIC: (Kind.VARTEXT, _dynamic),
    Form.UNREAD: (Kind.BINARY, _unread),
}
_FINE = re.compile(rb"\.\d{6}(\d+)")
"""A fraction finer than a microsecond, which Python's times do not hold."""


def cell_of(form: Form, text: bytes | None) -> Cell:
    """A value's cell; never an exception: what is no value of the form is undecodable."""
    kind, decode = _DECODERS[form]
    if text is None:
        return Cell(kind, None, CellState.NULL, has_blank=form in (Form.TEXT, Form.CHAR, Form.RAW_TEXT, Form.DYNAMIC))
    return decode(text)


def same_value(form: Form, one: bytes | None, other: bytes | None) -> bool:
    """Whether two spellings stand for the same value (``1.10`` and ``1.1``, blanks at the end of ``CHAR``)."""
    if one == other:
        return True
    if one is None or other is None or form in (Form.TEXT, Form.RAW_TEXT):
        return False
    left, right = cell_of(form, one), cell_of(form, other)
    if left.kind is Kind.TEXT and left.state is right.state is CellState.VALUE:
        return str(left.value).rstrip(" ") == str(right.value).rstrip(" ")
    if left.kind is not right.kind or not left.same_value(right):
        return False
    return left.kind not in (Kind.TIME, Kind.DATETIME) or _beyond(left, one) == _beyond(right, other)


def key_value(form: Form, text: bytes | None) -> Hashable:
    """What a key's value is recognised by: equal for two spellings exactly where :func:`same_value` holds of them."""
    if text is None or form in (Form.TEXT, Form.RAW_TEXT):
        return text
    cell = cell_of(form, text)
    if cell.state is CellState.UNDECODABLE:
        return cell.kind, text
    if cell.kind is Kind.TEXT:
        return str(cell.value or "").rstrip(" ")
    more = _beyond(cell, text) if cell.kind in (Kind.TIME, Kind.DATETIME) else None
    return cell.kind, cell.state, cell.value, more


def _beyond(cell: Cell, text: bytes) -> tuple[bytes, object]:
    """What a time says beyond what Python's equality looks at: a fraction finer than a microsecond, a time's own offset."""
    found = _FINE.search(text)
    # Two dates-and-times with different offsets may be one moment; a time of day with another offset is another value.
    offset = cell.value.utcoffset() if isinstance(cell.value, time) else None
    return (found[1].rstrip(b"0") if found else b""), offset


# --- rows -----------------------------------------------------------------------------------------------------------------


class Shape:
    """The columns of a state as rows need them: which are looked at, and where they stand."""

    def __init__(self, columns: Sequence[Column], hidden: frozenset[str] = frozenset()) -> None:
        self.columns = tuple(columns)
        self.place = {column.name: index for index, column in enumerate(columns)}
        self.visible = {column.name: index for index, column in enumerate(columns) if column.name not in hidden}


class LazyRow(Mapping[str, Cell]):
    """One row of a table; a field is decoded when it is asked for."""

    __slots__ = ("_fields", "_shape")

    def __init__(self, shape: Shape, line: bytes) -> None:
        self._shape = shape
        self._fields = line.split(b"\t")

    def __getitem__(self, name: str) -> Cell:
        index = self._shape.visible[name]
        return cell_of(self._shape.columns[index].form, unescaped(self._fields[index]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._shape.visible)

    def __len__(self) -> int:
        return len(self._shape.visible)


def row_of(shape: Shape, line: bytes) -> dict[str, Cell]:
    """A row decoded whole."""
    fields = fields_of(line)
    return {name: cell_of(shape.columns[index].form, fields[index]) for name, index in shape.visible.items()}


def lines_of(rows: Buffer, block: int = 1 << 20) -> Iterator[bytes]:
    """Every line, without its line feed, in order."""
    rest = b""
    for start in range(0, len(rows), block):
        *lines, rest = (rest + rows[start : start + block]).split(b"\n")
        yield from lines
