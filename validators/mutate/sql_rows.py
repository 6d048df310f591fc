"""Editing the kept rows of SQL tables: lines of text, parted by tabs (:mod:`validators.sql.form`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta

from validators.changes import Cell, CellState, Row, Unreadable
from validators.mutate.rows import Bad, RowEditor, anything, flipped, mistyped, same_row
from validators.sql.form import Form, fields_of
from validators.sql.table import Column, Shape, SqlState, cell_of, row_of
from validators.values import series_number

_DATED = frozenset({Form.DATE, Form.DATETIME, Form.INSTANT})
_TEXTS = frozenset({Form.TEXT, Form.CHAR})


class SqlRows(RowEditor):
    """An editable copy of a table.

    Args:
        state: The table, which exists.

    Raises:
        Unreadable: It does not exist.
    """

    def __init__(self, state: SqlState) -> None:
        if not state.exists:
            raise Unreadable(f"{state.name}: there is no such table")
        self._state = state
        self._shape = Shape(state.columns)
        self._read = bytes(state.rows).split(b"\n")[:-1]
        self._lines: list[bytes] = list(self._read)

    @property
    def names(self) -> tuple[str, ...]:
        """See :class:`RowEditor`."""
        return tuple(self._shape.place)

    def live(self) -> Iterator[int]:
        """See :class:`RowEditor`."""
        return iter(range(len(self._read)))

    def row(self, at: int) -> Mapping[str, Cell]:
        """See :class:`RowEditor`."""
        return row_of(self._shape, self._read[at])

    def find(self, row: Row, hint: int) -> int | None:
        """See :class:`RowEditor`."""
        places = [hint] if 0 <= hint < len(self._read) else []

        def visible(at: int) -> Row:
            return {name: cell for name, cell in self.row(at).items() if name in row}  # without ignored columns

        return next((at for at in (*places, *self.live()) if same_row(row, visible(at))), None)

    def state(self) -> SqlState:
        """See :class:`RowEditor`."""
        lines = self._lines if self._state.order else sorted(self._lines)
        return replace(self._state, rows=b"".join(line + b"\n" for line in lines), count=len(lines))

    # --- rows and fields ---

    def remove(self, at: int) -> None:
        """See :class:`RowEditor`."""
        del self._lines[at]

    def flag(self, at: int) -> bool:  # noqa: ARG002 - rows of SQL tables have no such mark
        """See :class:`RowEditor`."""
        return False

    def double(self, at: int) -> int:
        """See :class:`RowEditor`."""
        self._lines.insert(at + 1, self._lines[at])
        return at + 1

    def _column(self, name: str) -> Column:
        return self._state.columns[self._shape.place[name]]

    def _text(self, at: int, name: str) -> bytes | None:
        return fields_of(self._lines[at])[self._shape.place[name]]

    def _put(self, at: int, name: str, text: bytes | None) -> None:
        fields = self._lines[at].split(b"\t")
        fields[self._shape.place[name]] = b"\\N" if text is None else _escaped(text)
        self._lines[at] = b"\t".join(fields)

    def _try(self, at: int, name: str, texts: Iterator[bytes | None], bad: Bad = anything) -> bool:
        form, old = self._column(name).form, self._text(at, name)
        was = cell_of(form, old)
        for text in texts:
            now = cell_of(form, text)
            if now.state is not CellState.UNDECODABLE and not now.same_value(was) and bad(now):
                self._put(at, name, text)
                return True
        return False

    def spoil(self, at: int, name: str, bad: Bad = anything) -> bool:
        """See :class:`RowEditor`."""
        return self._try(at, name, _others(self._column(name).form, self._text(at, name) or b""), bad)

    def clear(self, at: int, name: str) -> bool:
        """See :class:`RowEditor`."""
        column = self._column(name)
        if column.nullable:
            return self._try(at, name, iter([None]))
        return self._try(at, name, iter([b"" if column.form in _TEXTS else b"0"]))

    def cut(self, at: int, name: str) -> bool:
        """See :class:`RowEditor`."""
        text = (self._text(at, name) or b"").decode("utf-8", "replace")
        if self._column(name).form is not Form.TEXT or len(text) < 2:
            return False
        return self._try(at, name, iter([text[: len(text) // 2].encode()]))

    def take(self, at: int, name: str, other: RowEditor, other_at: int, bad: Bad = anything) -> bool:
        """See :class:`RowEditor`."""
        if not isinstance(other, SqlRows) or name not in other._shape.place:
            return False
        return self._try(at, name, iter([other._text(other_at, name)]), bad)

    def number(self, at: int, name: str, value: int) -> bool:
        """See :class:`RowEditor`."""
        form, text = self._column(name).form, self._text(at, name)
        if series_number(cell_of(form, text)) is None or text is None:
            return False
        spelt = str(value).encode()
        if form in _TEXTS:
            return self._try(at, name, iter([spelt.zfill(len(text.strip()))]))
        return self._try(at, name, iter([text[:1] + spelt if form is Form.DYNAMIC else spelt]))


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n")


def _others(form: Form, text: bytes) -> Iterator[bytes | None]:
    """Spellings that may be another value of a form."""
    match form:
        case Form.BOOL:
            yield from (b"t", b"f")
        case _ if form in _DATED:
            yield _day_before(text)
            yield b"2001-02-03" if form is Form.DATE else b"2001-02-03 04:05:06"
        case Form.UNREAD:
            return  # what it is worth is not known
        case Form.TIME:
            yield from (b"01:02:03", b"02:03:04", b"13:14:15")
        case Form.BYTES | Form.RAW_TEXT:
            yield from mistyped(text)
            yield from flipped(text)
            yield b"58"
        case Form.DYNAMIC:
            yield from (text[:1] + other for other in mistyped(text[1:]))
            yield b"tX"
        case Form.NUMBER:
            yield from mistyped(text)
            yield b"1"
        case _:
            yield from mistyped(text)
            yield b"X"


def _day_before(text: bytes) -> bytes:
    try:
        day = date.fromisoformat(text[:10].decode("ascii")) - timedelta(days=1)
        datetime.fromisoformat(text.decode("ascii"))
    except (ValueError, OverflowError):
        return b"2001-02-03"
    return day.isoformat().encode("ascii") + text[10:]
