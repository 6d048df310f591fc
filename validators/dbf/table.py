"""One table as its files lie on disk: checked once, decoded only where somebody looks.

Buffers are sliced by copy and never exported, so a mapped file may be closed as soon as nobody asks for rows any more.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from validators.changes import Cell, CellState, Kind, Unreadable
from validators.dbf.codepages import ASCII, encoding
from validators.dbf.decode import (
    decoder,
    digits_content,
    memo_pointer,
    text_content,
    text_decoder,
    undecodable,
    untranslated,
)
from validators.dbf.layout import Dialect, Field, parse_layout
from validators.dbf.memo import BadMemo, Buffer, MemoFile, MemoKind
from validators.dbf.types import Form, kind_of, type_of, why_unread

BLOCK = 256 * 1024
"""Bytes looked at in one go."""
DELETED = 0x2A
_LONGEST_HEADER = 65_536
_END = 0x1A
_NO_MEMO = {b"\0\0\0\0", b"    ", b" " * 10, b"\0" * 10, b"0" * 10, b" " * 9 + b"0"}


@dataclass(frozen=True, slots=True)
class TableState:
    """The files of one table at one moment.

    Attributes:
        dbf: The table's bytes; ``None`` when it was seen that there is no such file.
        memo: The memo file's bytes; ``None`` when it was seen that there is none.
        memo_kind: The memo file's format, by its extension: ``.dbt`` or ``.fpt`` (also ``.dct``, ``.sct`` …).
        name: What the table is called in messages.
    """

    dbf: Buffer | None
    memo: Buffer | None
    memo_kind: MemoKind | None
    name: str


class RowView(Mapping[str, Cell]):
    """One row; its cells are decoded when they are asked for, and only once.

    The record's bytes are kept, memos are read from the memo file until :meth:`detach` was called. Pickles and copies as
    a plain ``dict``.
    """

    __slots__ = ("_cells", "_record", "_table")

    def __init__(self, table: Table, record: bytes) -> None:
        self._table = table
        self._record = record
        self._cells: dict[str, Cell] = {}

    def __getitem__(self, name: str) -> Cell:
        cell = self._cells.get(name)
        if cell is None:
            cell = self._cells[name] = self._table.cell(self._record, self._table.by_name[name])
        return cell

    def __iter__(self) -> Iterator[str]:
        return iter(self._table.by_name)

    def __len__(self) -> int:
        return len(self._table.by_name)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def detach(self) -> RowView:
        """Reads the row's memos now, so that the row outlives the files; returns the row."""
        for field in self._table.memo_fields:
            self[field.name]
        return self


class Table:
    """A readable table. Records count from 0 here; people and :class:`~validators.changes.Change` count from 1.

    Attributes:
        name: What the table is called in messages.
        version: Byte 0 of the header.
        dialect: Whose rules hold.
        fields: The fields that hold data, in order; Visual FoxPro's hidden ``_NullFlags`` is not among them.
        record_length: Bytes of one record, deletion flag included.
        header_length: Bytes before the first record.
        count: Records by the header's count.
        uncounted: Complete records beyond the count.
        encoding: Name of the encoding in use, ``""`` when neither contract nor header tells one.
        declared: Name of the encoding the header tells, ``""`` if none.
        memo: The memo file, if there is one.
        warnings: What was odd, for people.
    """

    def __init__(self, state: TableState, declared_encoding: str | None = None) -> None:
        if state.dbf is None:
            raise ValueError("there is no table to load")
        chosen = encoding(declared_encoding) if declared_encoding is not None else None
        self._data = state.dbf
        self.name = state.name
        self.size = len(state.dbf)
        self.head = bytes(state.dbf[: min(_LONGEST_HEADER, self.size)])
        layout = parse_layout(self.head, chosen)
        self.layout = layout
        self.version, self.dialect = layout.version, layout.dialect
        self.fields = layout.fields
        self.record_length, self.header_length = layout.record_length, layout.header_length
        self.count = layout.count
        self.uncounted = self._beyond_count()
        self.declared = layout.declared.name if layout.declared else ""
        used = chosen or layout.declared
        self.encoding = used.name if used else ""
        self.single_byte = used is None or used.single_byte
        self.by_name = {field.name: field for field in self.fields}
        types = {field.name: type_of(field, self.dialect) for field in self.fields}
        self._forms = {name: found.form for name, found in types.items() if found}
        self._memo_names = {name for name, found in types.items() if found and found.memo}
        self._varying_names = {name for name, found in types.items() if found and found.varying}
        self.memo_fields = tuple(field for field in self.fields if field.name in self._memo_names)
        measured = self.dialect in (Dialect.DBASE4, Dialect.DBASE7)
        self.memo: MemoFile | None = None
        if state.memo is not None and self.memo_fields:
            kind = state.memo_kind or ("fpt" if self.dialect in (Dialect.FOXPRO, Dialect.VFP) else "dbt")
            self.memo = MemoFile(state.memo, kind, measured=measured)
        self._text = text_decoder(used or ASCII, known=used is not None)
        elsewhere = self._memo_names | self._varying_names
        self._decoders = {
            field.name: decoder(field, self.dialect, self._text) for field in self.fields if field.name not in elsewhere
        }
        self._kinds = {field.name: kind_of(field, self.dialect) for field in self.fields}
        self._warnings = list(layout.warnings)
        self._warnings += [
            f"field {field.name} is of {why_unread(field, self.dialect)}: it is compared by its bytes only"
            for field in self.fields
            if types[field.name] is None
        ]
        if self.uncounted:
            self._warnings.append(
                f"{self.uncounted} complete records beyond the header's count of {self.count}: read too"
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was odd, for people."""
        return tuple(self._warnings)

    def __len__(self) -> int:
        """All records: counted and uncounted, live and deleted."""
        return self.count + self.uncounted

    def _beyond_count(self) -> int:
        """Checks count against length; returns how many complete records follow the last counted one."""
        end = self.header_length + self.count * self.record_length
        if end > self.size:
            there, rest = divmod(self.size - self.header_length, self.record_length)
            partial = " and a partial one" if rest else ""
            raise Unreadable(f"the header counts {self.count} records, the file has {there}{partial}")
        found = 0
        while end < self.size and self._data[end] in (0x20, DELETED):
            if end + self.record_length > self.size:
                raise Unreadable(f"the last record is partial: {self.size - end} of {self.record_length} bytes")
            found += 1
            end += self.record_length
        self.data_end = end
        return found

    # --- records ----------------------------------------------------------------------------------------------------

    def records(self, start: int, stop: int) -> bytes:
        """The bytes of some records that follow each other."""
        first = self.header_length
        return bytes(self._data[first + start * self.record_length : first + stop * self.record_length])

    def record(self, index: int) -> bytes:
        """The bytes of one record, deletion flag first."""
        at = self.header_length + index * self.record_length
        return bytes(self._data[at : at + self.record_length])

    def part(self, index: int, field: Field) -> bytes:
        """The bytes of one field of one record."""
        at = self.header_length + index * self.record_length + field.offset
        return bytes(self._data[at : at + field.length])

    def live(self, index: int) -> bool:
        """Whether a record is not marked as deleted; any flag other than ``*`` means live."""
        return self._data[self.header_length + index * self.record_length] != DELETED

    def tail(self) -> bytes:
        """What follows the last record: normally the end mark, at most one block of it."""
        return bytes(self._data[self.data_end : self.data_end + BLOCK])

    def view(self, index: int) -> RowView:
        """One row, decoded lazily."""
        return RowView(self, self.record(index))

    def row(self, index: int) -> dict[str, Cell]:
        """One row, decoded."""
        return dict(self.view(index))

    def views(self) -> Iterator[tuple[RowView, bool]]:
        """Every row with whether it is live."""
        per = max(1, BLOCK // self.record_length)
        for start in range(0, len(self), per):
            block = self.records(start, min(start + per, len(self)))
            for at in range(0, len(block), self.record_length):
                yield RowView(self, block[at : at + self.record_length]), block[at] != DELETED

    # --- cells ------------------------------------------------------------------------------------------------------

    def null_flags(self, record: bytes) -> bytes:
        """The bytes of the hidden field that tells null and true lengths."""
        where = self.layout.null_flags
        return record[where[0] : where[0] + where[1]] if where else b""

    def cell(self, record: bytes, field: Field) -> Cell:
        """One field of a record."""
        raw = record[field.offset : field.offset + field.length]
        if field.null_bit is not None and self._bit(record, field.null_bit):
            return Cell(self._kinds[field.name], None, CellState.NULL, raw)
        if field.name in self._memo_names:
            return self._memo_cell(raw, field)
        if field.name in self._varying_names:
            return self._varying(record, raw, field)
        return self._decoders[field.name](raw)

    def form(self, field: Field) -> Form | None:
        """How the bytes of a field are read; ``None`` where they are not."""
        return self._forms.get(field.name)

    def _bit(self, record: bytes, bit: int) -> bool:
        return bool(self.null_flags(record)[bit >> 3] >> (bit & 7) & 1)

    def _varying(self, record: bytes, raw: bytes, field: Field) -> Cell:
        """Types V and Q: with the length bit set, the field's last byte holds the length of the value before it."""
        kind = self._kinds[field.name]
        content = raw
        if field.length_bit is not None and raw and self._bit(record, field.length_bit):
            if raw[-1] >= len(raw):
                return undecodable(kind, raw, f"length {raw[-1]} in a field of {len(raw)} bytes")
            content = raw[: raw[-1]]
        return self._content(content, kind, field)

    def _content(self, content: bytes, kind: Kind, field: Field) -> Cell:
        if kind is Kind.BINARY:
            state = CellState.VALUE if content else CellState.BLANK
            return Cell(kind, content or None, state, content)
        if field.binary:
            return untranslated(content, content, kind)
        return self._text(content, kind, content)

    def _memo_cell(self, raw: bytes, field: Field) -> Cell:
        kind = self._kinds[field.name]
        try:
            content = self.memo_payload(raw)
        except BadMemo as error:
            return undecodable(kind, raw, str(error))
        return self._content(content, kind, field)

    def memo_payload(self, raw: bytes) -> bytes:
        """The memo that a field's bytes point to; empty when they point to none.

        Raises:
            BadMemo: The bytes are no pointer, lead nowhere, or there is no memo file.
        """
        try:
            pointer = memo_pointer(raw)
        except ValueError as error:
            raise BadMemo(str(error)) from None
        if pointer is None:
            return b""
        if self.memo is None:
            raise BadMemo("the memo file is missing")
        return self.memo.payload(pointer)

    def pointers(self) -> Iterator[tuple[int, bool, tuple[bytes, ...]]]:
        """Every record that points to memos: index, whether it is live, the bytes of its memo fields."""
        if not self.memo_fields:
            return
        for index, (flag, *raws) in enumerate(self.columns(self.memo_fields)):
            for raw in raws:
                if raw not in _NO_MEMO:
                    yield index, flag != b"*", tuple(raws)
                    break

    def needs_memo(self) -> bool:
        """Whether any live row points into the memo file."""
        return any(live and not all(map(_points_nowhere, raws)) for _, live, raws in self.pointers())

    def columns(self, fields: Sequence[Field]) -> Iterator[tuple[bytes, ...]]:
        """The deletion flag and the bytes of some fields, for every record in order.

        Args:
            fields: In the order of the table.
        """
        form, at = "<1s", 1
        for field in fields:
            form += f"{field.offset - at}x{field.length}s"
            at = field.offset + field.length
        cut = struct.Struct(form + f"{self.record_length - at}x")
        per = max(1, BLOCK // self.record_length)
        for start in range(0, len(self), per):
            yield from cut.iter_unpack(self.records(start, min(start + per, len(self))))


def _points_nowhere(raw: bytes) -> bool:
    try:
        return memo_pointer(raw) is None
    except ValueError:
        return False


def load_table(state: TableState, encoding: str | None = None) -> Table:
    """Checks a table's header and extent; its rows are decoded when they are asked for.

    Args:
        state: The table's files; ``state.dbf`` must be there.
        encoding: The encoding that the contract declares; it wins over the header's.

    Raises:
        Unreadable: Empty, cut off or zeroed file, unknown version, header that contradicts itself, fewer records than
            counted, partial last record.
        ContractFault: There is no such encoding.
    """
    try:
        return Table(state, encoding)
    except Unreadable as error:
        raise Unreadable(f"{state.name}: {error.reason}") from None


# --- comparing values as keys -----------------------------------------------------------------------------------------


def cell_key(cell: Cell) -> Hashable:
    """Equal for two cells exactly if :meth:`Cell.same_value` holds."""
    if cell.state is CellState.VALUE:
        return isinstance(cell.value, bool), cell.value
    return (cell.state, cell.raw) if cell.state is CellState.UNDECODABLE else cell.state


def _number_text(value: Decimal) -> bytes:
    text = format(value, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode("ascii")


class KeyReader:
    """Reads the key of a record as something hashable, without making cells where bytes will do.

    Two keys are equal exactly if all their cells have the same value; padding does not count in undecodable text either.
    """

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self.table = table
        self.names = tuple(names)
        self._fields = tuple(table.by_name[name] for name in names)
        self._ordered = tuple(sorted(set(self._fields), key=lambda field: field.offset))
        self._by_bytes = all(self._plain(field) for field in self._fields)
        self._read = tuple(self._part(field) for field in self._fields)
        self._places = tuple(1 + self._ordered.index(field) for field in self._fields)

    def _plain(self, field: Field) -> bool:
        """Whether the field's own bytes are enough to know its value."""
        form = self.table.form(field)
        return field.null_bit is None and (
            (form is Form.TEXT and self.table.single_byte and not field.binary) or form is Form.DIGITS
        )

    def _part(self, field: Field) -> Callable[[bytes], Hashable]:
        if self.table.form(field) is Form.TEXT:
            return text_content

        def of_number(raw: bytes) -> Hashable:
            digits = digits_content(raw)
            if digits.isdigit():
                return digits.lstrip(b"0") or b"0"
            cell = self.table.cell(b" " * field.offset + raw, field)
            return _number_text(cell.value) if isinstance(cell.value, Decimal) else cell_key(cell)

        return of_number

    def at(self, index: int) -> Hashable:
        """The key of one record."""
        if self._by_bytes:
            parts = [read(self.table.part(index, field)) for read, field in zip(self._read, self._fields, strict=True)]
            return parts[0] if len(parts) == 1 else tuple(parts)
        record = self.table.record(index)
        return tuple(cell_key(self.table.cell(record, field)) for field in self._fields)

    def live(self) -> Iterator[tuple[int, Hashable]]:
        """Index and key of every live record, in order."""
        if not self._by_bytes:
            for index in range(len(self.table)):
                if self.table.live(index):
                    yield index, self.at(index)
            return
        rows = enumerate(self.table.columns(self._ordered))
        if len(self._read) == 1:
            (read,) = self._read
            for index, (flag, raw) in rows:
                if flag != b"*":
                    yield index, read(raw)
            return
        for index, columns in rows:
            if columns[0] != b"*":
                yield (
                    index,
                    tuple(read(columns[place]) for read, place in zip(self._read, self._places, strict=True)),
                )

    def cells(self, index: int) -> list[Cell]:
        """The key's cells, for people."""
        record = self.table.record(index)
        return [self.table.cell(record, field) for field in self._fields]
