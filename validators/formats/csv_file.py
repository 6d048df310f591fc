"""One cell of a CSV file.

* A first line ``sep=;`` names the delimiter and is no row, as Excel reads it; it wins over the contract's ``delimiter``.
* A field may be as long as the content, which is bounded where it is read. The limit of Python's reader holds for the whole process,
  whose other parts (plug-ins, a test suite that this runs in) rely on it, so this module has an instance of the reader to itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec, module_from_spec
from io import StringIO
from typing import Any

from contracts.schema import CsvPlace
from validators.changes import Cell
from validators.formats.text import Absent, decoded, named, text_cell
from validators.matchers import RunContext, Subject, matches
from validators.values import shown

_SEP = re.compile(r"sep=([^\"\r\n\0])(?:\r\n|\r|\n|\Z)", re.IGNORECASE)
_LARGEST_LIMIT = (1 << 31) - 1
"""What fits a C ``long`` on every platform; more than any content that is kept."""
_SEVERAL = 2
"""As many hits are enough to know that a place is not one."""


def _own_reader() -> Any:
    """A second instance of the standard library's reader, with a limit of its own."""
    spec = find_spec("_csv")
    if spec is None or spec.loader is None:
        raise ImportError("Python's CSV reader is missing")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.field_size_limit(_LARGEST_LIMIT)
    return module


_CSV = _own_reader()


def csv_value(place: CsvPlace, content: bytes, context: RunContext) -> Cell:
    """The cell at a place.

    Raises:
        Absent: There is none, no row alone fits, or the content is no CSV.
        ContractFault: A row is selected by a rule that cannot be applied, or the declared encoding does not exist.
    """
    text = decoded(content, place.encoding)
    told = _SEP.match(text)
    delimiter = told[1] if told else place.delimiter
    reader = _CSV.reader(StringIO(text[told.end() if told else 0 :], newline=""), delimiter=delimiter, strict=True)
    try:
        rows: Iterator[list[str]] = filter(None, reader)
        header = next(rows, None) if place.header else []
        if header is None:
            raise Absent("the content has no line that names the columns")
        columns = _Columns(header, delimiter)
        column = columns.number(place.column)
        row = _row(place, columns, rows, context)
    except _CSV.Error as error:
        raise Absent(f"line {reader.line_num + bool(told)} is no CSV ({shown(str(error), 80)})") from None
    if column >= len(row):
        raise Absent(f"the row has {len(row)} columns, none of number {column + 1}")
    return text_cell(row[column])


def _row(place: CsvPlace, columns: _Columns, rows: Iterator[list[str]], context: RunContext) -> list[str]:
    if isinstance(place.row, int):
        for number, row in enumerate(rows, 1):
            if number == place.row:
                return row
        raise Absent(f"there is no row {place.row}")
    wanted = [(columns.number(name), matcher) for name, matcher in place.row.items()]
    found = []
    for row in rows:
        if all(at < len(row) and matches(matcher, Subject(text_cell(row[at])), context) for at, matcher in wanted):
            found.append(row)
            if len(found) == _SEVERAL:
                raise Absent("several rows fit")
    if not found:
        raise Absent("no row fits")
    return found[0]


class _Columns:
    """The names of the columns, and how the lines were cut."""

    def __init__(self, header: list[str], delimiter: str) -> None:
        self._header = header
        self._delimiter = delimiter

    def number(self, column: str | int) -> int:
        """The place of a column, from 0; a number counts from 1."""
        if isinstance(column, int):
            return column - 1
        count = self._header.count(column)
        if count == 1:
            return self._header.index(column)
        if count:
            raise Absent(f"{count} columns are named “{shown(column, 60)}”")
        advice = ""
        if len(self._header) == 1 and (other := next((sign for sign in ";,\t|" if sign in self._header[0]), None)):
            advice = f"; the lines hold `{shown(other)}`: declare `delimiter`" if other != self._delimiter else ""
        raise Absent(f"there is no column “{shown(column, 60)}”{advice or named(self._header)}")
