"""Editing DBF tables and their memo files byte by byte, as a careful program would write them.

Sources: as for :mod:`validators.dbf.layout` and :mod:`validators.dbf.memo`. A memo is never overwritten: a new one is appended and
the field pointed to it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from datetime import date, timedelta

from validators.changes import Cell, CellState, ContractFault, Row, Unreadable
from validators.dbf import Dialect, Field, TableState, load_table
from validators.mutate.rows import Bad, RowEditor, anything, flipped, mistyped, same_row
from validators.values import series_number

_NULL_POINTER = {4: b"\0\0\0\0"}
_PADDING = b" \0"
_END = b"\x1a"
_IV_MARK = b"\xff\xff\x08\x00"
_SOME_DAY = b"20010203"


class DbfRows(RowEditor):
    """An editable copy of a table.

    Args:
        state: The table; its file is there.
        encoding: The encoding that the contract declares.

    Raises:
        Unreadable: The table contradicts itself.
        ContractFault: There is no such encoding.
    """

    def __init__(self, state: TableState, encoding: str | None) -> None:
        if state.dbf is None:
            raise Unreadable(f"{state.name}: there is no such table")
        self._state = state
        self._encoding = encoding
        self._table = load_table(state, encoding)
        self._data = bytearray(state.dbf)
        self._memo = None if state.memo is None else bytearray(state.memo)
        self._count = len(self._table)
        self._memo_names = frozenset(field.name for field in self._table.memo_fields)

    @property
    def names(self) -> tuple[str, ...]:
        """See :class:`RowEditor`."""
        return tuple(self._table.by_name)

    def live(self) -> Iterator[int]:
        """See :class:`RowEditor`."""
        return (at for at in range(len(self._table)) if self._table.live(at))

    def row(self, at: int) -> Mapping[str, Cell]:
        """See :class:`RowEditor`."""
        return self._table.view(at)

    def find(self, row: Row, hint: int) -> int | None:
        """See :class:`RowEditor`."""
        places = [hint] if 0 <= hint < len(self._table) else []
        return next((at for at in (*places, *range(len(self._table))) if same_row(row, self.row(at))), None)

    def state(self) -> TableState:
        """See :class:`RowEditor`."""
        memo = None if self._memo is None else bytes(self._memo)
        return TableState(bytes(self._data), memo, self._state.memo_kind, self._state.name)

    # --- records ---

    def _start(self, at: int) -> int:
        return self._table.header_length + at * self._table.record_length

    def record(self, at: int) -> bytes:
        """A record's bytes as they are now."""
        return bytes(self._data[self._start(at) : self._start(at + 1)])

    def remove(self, at: int) -> None:
        """See :class:`RowEditor`."""
        del self._data[self._start(at) : self._start(at + 1)]
        self._set_count(self._count - 1)

    def flag(self, at: int) -> bool:
        """See :class:`RowEditor`."""
        self._data[self._start(at)] = ord("*")
        return True

    def double(self, at: int) -> int:
        """See :class:`RowEditor`."""
        end = self._start(self._count)
        self._data[end:end] = self.record(at)
        self._set_count(self._count + 1)
        return self._count - 1

    def _set_count(self, count: int) -> None:
        self._count = count
        if self._table.dialect is Dialect.DBASE2:
            struct.pack_into("<H", self._data, 1, count)
        else:
            struct.pack_into("<I", self._data, 4, count)

    # --- fields ---

    def _raw(self, at: int, field: Field) -> bytes:
        return self.record(at)[field.offset : field.offset + field.length]

    def _put(self, at: int, field: Field, raw: bytes) -> None:
        start = self._start(at) + field.offset
        self._data[start : start + field.length] = raw

    def _try(
        self, at: int, name: str, raws: Iterator[bytes], wanted: CellState | None, bad: Bad = anything
    ) -> bool:  # fmt: skip
        """Writes the first of some bytes that are another value, in the state wanted; restores the field if there is none."""
        field = self._table.by_name[name]
        was = self.record(at)
        old = self._table.cell(was, field)
        self._unset_null(at, field)
        for raw in raws:
            if len(raw) != field.length:
                continue
            self._put(at, field, raw)
            now = self._table.cell(self.record(at), field)
            if (
                now.state is (wanted or now.state)
                and now.state is not CellState.UNDECODABLE
                and not now.same_value(old)
                and bad(now)
            ):
                return True
        self._data[self._start(at) : self._start(at + 1)] = was
        return False

    def _unset_null(self, at: int, field: Field) -> None:
        where = self._table.layout.null_flags
        if field.null_bit is not None and where is not None:
            self._data[self._start(at) + where[0] + (field.null_bit >> 3)] &= 0xFF ^ (1 << (field.null_bit & 7))

    def spoil(self, at: int, name: str, bad: Bad = anything) -> bool:
        """See :class:`RowEditor`."""
        if name in self._memo_names:
            payload = self._payload(at, name)
            return any(self._write_memo(at, name, text, bad) for text in (*mistyped(payload), payload + b"X"))
        field = self._table.by_name[name]
        return self._try(at, name, _others(field, self._raw(at, field)), CellState.VALUE, bad)

    def clear(self, at: int, name: str) -> bool:
        """See :class:`RowEditor`."""
        field = self._table.by_name[name]
        if name in self._memo_names:
            if not self._payload(at, name):
                return False
            self._put(at, field, _NULL_POINTER.get(field.length, b" " * field.length))
            return True
        blank = b" " * field.length if field.type in "CNFDLV" else bytes(field.length)
        return self._try(at, name, iter([blank]), None)

    def cut(self, at: int, name: str) -> bool:
        """See :class:`RowEditor`."""
        if name not in self._memo_names:
            return False
        payload = self._payload(at, name)
        halves = (payload[:end] for end in range(len(payload) // 2, 0, -1))
        return any(self._write_memo(at, name, half) for half in halves)

    def take(self, at: int, name: str, other: RowEditor, other_at: int, bad: Bad = anything) -> bool:
        """See :class:`RowEditor`."""
        if not isinstance(other, DbfRows) or name not in other._table.by_name:
            return False
        if name in self._memo_names:
            payload = other._payload(other_at, name)
            return bool(payload) and self._write_memo(at, name, payload, bad)
        raw = other._raw(other_at, other._table.by_name[name])
        return self._try(at, name, iter([raw]), None, bad)

    def number(self, at: int, name: str, value: int) -> bool:
        """See :class:`RowEditor`."""
        field = self._table.by_name[name]
        cell = self._table.cell(self.record(at), field)
        if series_number(cell) is None or value < 0:
            return False
        if field.type in "NF":
            digits = f"{value}.{'0' * field.decimals}" if field.decimals else str(value)
            return self._try(at, name, iter([digits.encode().rjust(field.length)]), CellState.VALUE)
        if field.type == "I":
            order = "big" if self._table.dialect is Dialect.DBASE7 else "little"
            offset = 1 << 31 if order == "big" else 0
            raw = (value + offset).to_bytes(4, "big") if offset else value.to_bytes(4, "little")
            return self._try(at, name, iter([raw]), CellState.VALUE)
        text = self._raw(at, field).rstrip(_PADDING)
        digits = str(value).zfill(len(text.lstrip())).rjust(len(text))
        return self._try(at, name, iter([digits.encode().ljust(field.length)]), CellState.VALUE)

    # --- memos ---

    def _payload(self, at: int, name: str) -> bytes:
        """What a memo field of the unedited table holds; of a row added since, of the row that it was copied from."""
        field = self._table.by_name[name]
        cell = self._table.cell(self.record(at), field)
        return cell.raw if cell.state is CellState.VALUE else b""

    def _write_memo(self, at: int, name: str, payload: bytes, bad: Bad = anything) -> bool:
        """Appends a memo and points the field to it, if it is another and bad text than the one there and can be read."""
        field, memo = self._table.by_name[name], self._memo
        if memo is None or self._table.memo is None or payload == self._payload(at, name):
            return False
        size = self._table.memo.block_size
        kept = bytes(self._data), bytes(memo)
        memo.extend(bytes(-len(memo) % size))
        pointer = len(memo) // size
        memo.extend(self._block(payload))
        memo.extend(bytes(-len(memo) % size))
        form = ">I" if self._table.memo.kind == "fpt" else "<I"
        struct.pack_into(form, memo, 0, len(memo) // size)
        raw = pointer.to_bytes(4, "little") if field.length == 4 else str(pointer).encode().rjust(field.length)
        self._put(at, field, raw)
        if len(raw) == field.length and self._is_written(at, name, payload, bad):
            return True
        self._data[:], memo[:] = kept
        return False

    def _block(self, payload: bytes) -> bytes:
        assert self._table.memo is not None
        if self._table.memo.kind == "fpt":
            return struct.pack(">II", 1, len(payload)) + payload
        if self._table.dialect in (Dialect.DBASE4, Dialect.DBASE7):
            return _IV_MARK + struct.pack("<I", len(payload) + 8) + payload
        return payload + _END * 2

    def _is_written(self, at: int, name: str, payload: bytes, bad: Bad) -> bool:
        try:
            table = load_table(self.state(), self._encoding)
        except (Unreadable, ContractFault):
            return False
        cell = table.cell(table.record(at), table.by_name[name])
        return cell.state is CellState.VALUE and cell.raw == payload and bad(cell)


def _others(field: Field, raw: bytes) -> Iterator[bytes]:
    """Bytes that may be another value of a field."""
    text = raw.rstrip(_PADDING)
    match field.type:
        case "C" | "V":
            yield from mistyped(raw) if field.type == "C" else mistyped(raw[:-1])
            yield b"X".ljust(field.length)
            yield b"X".ljust(field.length - 1) + b"\x01"  # a length in the last byte (Visual FoxPro)
            yield from (raw[:-1][:at] + raw[-1:] for at in range(len(raw) - 1))
        case "N" | "F":
            yield from (other + raw[len(other) :] for other in mistyped(text))
            yield b"1".rjust(field.length)
        case "D":
            yield _day_before(raw)
            yield _SOME_DAY
        case "L":
            yield from (b"T", b"F")
        case _:
            yield from flipped(raw)


def _day_before(raw: bytes) -> bytes:
    try:
        day = date(int(raw[:4]), int(raw[4:6]), int(raw[6:])) - timedelta(days=1)
    except (ValueError, OverflowError):
        return _SOME_DAY
    return f"{day.year:04}{day.month:02}{day.day:02}".encode("ascii")
