"""Access through mdbtools (1.0): its ODBC driver for rows, ``mdb-schema`` for keys, ``mdb-prop`` for what a column is.

What the driver cannot read it gives as blank or as rubbish, without a word. So only types are asked for that were held against
what Access stores; the others are *unread*:

* read: Yes/No, Byte, Integer, Long Integer, Single, Double, Currency, Decimal, Date/Time from 1899-12-30 to about the year
  4637, Short Text, Long Text up to 16 KiB, OLE Object, Replication ID;
* cut off: Binary at its first byte 0, Long Text at 16 KiB;
* of a Date/Time shown as *Short Date* only the day is given;
* not at all: calculated columns, Date/Time Extended, Large Number, attachments and columns of several values (their values lie
  in hidden tables), and types yet to come.

mdbtools reads the file; what a program holds in its buffers is not seen.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from typing_extensions import override

from runner.sql.generic import NOT_ASKED_FOR, Generic
from runner.sql.server import CannotRead, FoundColumn, FoundTable
from runner.sql.values import text_of
from validators.sql.form import Form

_SQL_TIMESTAMP = 93
_UNREAD_DATES = (
    "there are dates that mdbtools cannot read (before 1900, or far in the future) and gives as 1900-01-00: whether such a date "
    "became another such date cannot be told"
)
_FORMS = {
    "BOOL": Form.BOOL,
    **dict.fromkeys(("BYTE", "INT", "LONGINT", "FLOAT", "DOUBLE", "MONEY", "NUMERIC"), Form.NUMBER),
    "DATETIME": Form.DATETIME,
    **dict.fromkeys(("TEXT", "MEMO", "REPID"), Form.TEXT),
    "OLE": Form.BYTES,
}
"""What the driver reads, by its own names of types."""
_MEMO_BYTES = 16384 - 4
"""The shortest Long Text, in bytes of UTF-8, that may have been cut off: the driver keeps 16,383 (MDB_BIND_SIZE), less part of a character."""
_CUT = "\udcff"
"""Behind a text that may have been cut off: a byte that makes it no text."""
_LINKED = (4, 6)
"""Types in MSysObjects of tables whose rows lie in another database (ODBC, Access)."""


class Access(Generic):
    """An Access database, through mdbtools."""

    product = "Access"
    tells_null = False  # it says "not null" of every column

    def __init__(self, connection: Any, path: Path) -> None:
        super().__init__(connection)
        self._path = path
        connection.add_output_converter(_SQL_TIMESTAMP, self._moment)

    def _moment(self, data: bytes | None) -> str | None:
        """A date and time from ODBC's ``SQL_TIMESTAMP_STRUCT``, or a date from its ``SQL_DATE_STRUCT``.

        One that is none would end the reading in pyodbc.
        """
        if data is None:
            return None
        year, month, day = struct.unpack("<hHH", data[:6])
        if day == 0 and _UNREAD_DATES not in self.findings:
            self.findings.append(_UNREAD_DATES)
        text = f"{year:04}-{month:02}-{day:02}"
        if len(data) < 16:
            return text
        hour, minute, second, fraction = struct.unpack("<HHHI", data[6:16])
        text = f"{text} {hour:02}:{minute:02}:{second:02}"
        return f"{text}.{fraction:09}".rstrip("0") if fraction else text

    @override
    def begin(self) -> None:
        self.product_name, self.version, self._quote = "Access (mdbtools)", "", '"'

    @override
    def find(self, wanted: str) -> FoundTable | None:
        with self._listening():
            found = super().find(wanted)
            if found is None:
                self._refuse_linked(wanted)
        return found

    def _refuse_linked(self, wanted: str) -> None:
        """A table that only leads to another database is in no list of tables, and is not absent."""
        for name, kind in self.rows('SELECT "Name", "Type" FROM "MSysObjects"'):
            if kind in _LINKED and str(name).casefold() == wanted.casefold():
                raise CannotRead(f"{name!r} is a linked table: make the database that holds its rows a source")

    @override
    def form(self, number: int, spelt: str) -> Form:
        return _FORMS.get(spelt, Form.UNREAD)

    @override
    def look_closer(self, table: FoundTable) -> None:
        calculated, days = self._properties(table.name)
        for place, column in enumerate(table.columns):
            if column.name in calculated:
                table.columns[place] = replace(
                    column, form=Form.UNREAD, expression=NOT_ASKED_FOR, made_by_server="computed"
                )
            elif column.type in ("BINARY", "COMPLEX"):  # what there is of it is compared
                table.columns[place] = replace(column, expression=self.quoted(column.name))
            elif column.type == "DATETIME" and column.name in days:
                table.columns[place] = replace(column, form=Form.DATE)
                told = f"{table.name}: of {column.name} mdbtools gives the day only, its format is Short Date"
                table.findings.append(told)

    def _properties(self, table: str) -> tuple[set[str], set[str]]:
        """Names of columns that are calculated, and of those whose format is *Short Date*.

        Raises:
            CannotRead: They cannot be told.
        """
        calculated: set[str] = set()
        days: set[str] = set()
        name = ""
        for line in self._told("mdb-prop", str(self._path), table).splitlines():
            if line.startswith("name: "):
                name = line.removeprefix("name: ")
            elif line.startswith("\tExpression: "):
                calculated.add(name)
            elif line == "\tFormat: Short Date":
                days.add(name)
        return calculated, days

    @staticmethod
    def _told(*command: str) -> str:
        """What one of mdbtools' programs says; nothing where it has nothing to say.

        Raises:
            CannotRead: It is not there, or comes to no end.
        """
        program = shutil.which(command[0])
        if program is None:
            raise CannotRead(f"{command[0]} is missing, without which columns cannot be told apart: install mdbtools")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                capture_output=True, timeout=30, check=False, text=True, errors="replace", start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CannotRead(f"{command[0]} came to no end") from None
        if done.returncode < 0:
            raise CannotRead(f"{command[0]} was ended by signal {-done.returncode}")
        return "" if done.returncode else done.stdout

    @override
    def run(self, sql: str) -> Generator[Sequence[Any]]:
        with self._listening():
            yield from super().run(sql)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Hears what mdbtools writes to standard error: that is all it says of a value that it could not read.

        Raises:
            CannotRead: It complained, but of a type, which is known.
        """
        with tempfile.TemporaryFile() as heard:
            ours = os.dup(2)
            os.dup2(heard.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(ours, 2)
                os.close(ours)
            heard.seek(0)
            lines = heard.read(1 << 16).decode("utf-8", "replace").splitlines()
        complaints = [line for line in lines if line.strip() and not line.startswith("Unknown type for column")]
        if complaints:
            raise CannotRead(f"mdbtools says: {complaints[0][:200]}")

    @override
    def spelling(self, table: FoundTable, column: FoundColumn) -> Callable[[Any], str | None]:
        if column.type == "FLOAT":
            return _single
        if column.type != "MEMO":
            return text_of
        finding = (
            f"{table.name}: mdbtools' driver cuts off texts at 16 KiB, and there are such in {column.name}: whether their "
            f"rest changed is not known"
        )

        def memo(value: Any) -> str | None:
            text = text_of(value)
            if text is None or len(text.encode("utf-8", "surrogatepass")) < _MEMO_BYTES:
                return text
            if finding not in table.findings:
                table.findings.append(finding)
            return text + _CUT

        return memo

    @override
    def count(self, table: FoundTable) -> int:
        asked = next(column.expression for column in table.columns if column.expression != NOT_ASKED_FOR)
        return len(self.rows(f"SELECT {asked} FROM {table.sql}"))  # noqa: S608

    @override
    def keys(self, table: FoundTable) -> list[tuple[tuple[str, ...], str]]:
        """Primary keys as ``mdb-schema`` prints them: the driver has no call for it."""
        primary = re.search(
            r"PRIMARY KEY \((.*)\);", self._told("mdb-schema", "-T", table.name, str(self._path), "postgres")
        )
        if primary is None:
            return []
        names = {column.name.casefold(): column.name for column in table.columns}
        key = [names.get(part.strip().strip('"').casefold(), "") for part in primary[1].split(",")]
        return [(tuple(key), "primary key")] if all(key) else []


def _single(value: float | None) -> str | None:
    """A number of single precision, in the fewest digits that give it back.

    The driver writes its four bytes into the place for eight; the other four hold whatever was there.
    """
    if value is None:
        return None
    (number,) = struct.unpack("<f", struct.pack("<d", value)[:4])
    for digits in range(6, 10):
        text = f"{number:.{digits}g}"
        with suppress(OverflowError):
            if struct.pack("<f", float(text)) == struct.pack("<f", number):
                return text
    return repr(number)
