"""Access through mdbtools, and servers that have no module of their own: what ODBC's catalogue functions tell, and no more.

Nothing is known of a view of one moment, so tables are read until two readings in a row are equal, and values are what the
driver makes of them. mdbtools reads the file; what a program holds in its buffers is not seen.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from typing_extensions import override

from runner.sql.server import CannotRead, FoundColumn, FoundTable, Server, best_keys, matching
from runner.sql.values import text_of
from validators.sql.form import Form

_SQL_DBMS_NAME, _SQL_DBMS_VER, _SQL_QUOTE = 17, 18, 29
_SQL_TIMESTAMP = 93
_UNREAD = (
    "there are dates that mdbtools cannot read (before 1900, or far in the future) and gives as 1900-01-00: whether such a date "
    "became another such date cannot be told"
)
_FORMS = {
    **dict.fromkeys((1, -8), Form.CHAR),
    **dict.fromkeys((2, 3, 4, 5, 6, 7, 8, -5, -6), Form.NUMBER),
    -7: Form.BOOL,
    **dict.fromkeys((9, 91), Form.DATE),
    **dict.fromkeys((10, 92, -154), Form.TIME),
    **dict.fromkeys((11, 93), Form.DATETIME),
    -155: Form.INSTANT,
    **dict.fromkeys((-2, -3, -4), Form.BYTES),
}
"""ODBC's type numbers."""


class Generic(Server):
    """Any ODBC data source."""

    product = "ODBC"
    ordered = False
    tells_null = True
    """Whether the driver knows which columns may hold NULL."""

    @override
    def begin(self) -> None:
        driver = self.connection
        self.product_name = str(driver.getinfo(_SQL_DBMS_NAME))
        self.version = str(driver.getinfo(_SQL_DBMS_VER))
        quote = str(driver.getinfo(_SQL_QUOTE)).strip()
        self._quote = quote or None

    @override
    def end(self) -> None:
        return

    @override
    def quoted(self, name: str) -> str:
        if self._quote is None:
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                return name
            raise CannotRead(f"the driver knows no quotes, and {name!r} cannot be named without")
        if self._quote in name:
            raise CannotRead(f"{name!r} holds the driver's own quotation mark")
        return f"{self._quote}{name}{self._quote}"

    @override
    def find(self, wanted: str) -> FoundTable | None:
        cursor = self.connection.cursor()
        tables = [
            (str(row[1] or ""), str(row[2])) for row in cursor.tables() if str(row[3]).upper() in ("TABLE", "VIEW")
        ]
        found = matching(tables, wanted, lambda _: True)
        if found is None:
            return None
        table = FoundTable(*found, sql=self.quoted(found[1]), consistent=False)
        if found[0]:
            table.sql = f"{self.quoted(found[0])}.{table.sql}"
        for row in self._columns(found[1]):
            name, number, spelt, size, nullable = str(row[3]), int(row[4]), str(row[5]), row[6], row[10]
            form = self.form(number, spelt)
            described = spelt if size is None else f"{spelt}({size})"
            can_be_null = nullable != 0 or not self.tells_null
            table.columns.append(FoundColumn(name, described, can_be_null, form, self.quoted(name)))
        if not table.columns:
            raise CannotRead(f"the driver lists no columns of {found[1]!r}")
        table.keys = self.keys(table)
        table.notes.append(f"{self.product_name}: read until two readings in a row were equal, not as of one moment")
        return table

    def _columns(self, name: str) -> list[Any]:
        # The name is a pattern for some drivers; others take it as it is. Rows of other tables are thrown away.
        rows = list(self.connection.cursor().columns(table=name))
        return [row for row in rows if str(row[2]) == name]

    def form(self, number: int, spelt: str) -> Form:  # noqa: ARG002
        """How a column's values are spelt, by ODBC's number of its type."""
        return _FORMS.get(number, Form.TEXT)

    def keys(self, table: FoundTable) -> list[tuple[tuple[str, ...], str]]:
        """The keys that the driver tells; none if it tells none."""
        nullable = {column.name: column.nullable for column in table.columns}
        primary: list[tuple[int, str]] = []
        unique: dict[str, list[tuple[int, str]]] = {}
        for call in (self._primary, self._unique):
            try:
                call(table.name, primary, unique)
            except Exception as error:
                if not _is_unsupported(error):
                    raise
        return best_keys(
            [name for _, name in sorted(primary)],
            {index: [name for _, name in sorted(columns)] for index, columns in unique.items()},
            nullable,
        )

    def _primary(self, name: str, primary: list[tuple[int, str]], _: dict[str, list[tuple[int, str]]]) -> None:
        primary += [(int(row[4]), str(row[3])) for row in self.connection.cursor().primaryKeys(name)]

    def _unique(self, name: str, _: list[tuple[int, str]], unique: dict[str, list[tuple[int, str]]]) -> None:
        for row in self.connection.cursor().statistics(name, unique=True):
            if row[5] is not None and row[8] is not None:
                unique.setdefault(str(row[5]), []).append((int(row[7]), str(row[8])))

    @override
    def select(self, table: FoundTable) -> str:
        # Not ordered: what the driver would sort by is not known. The lines are sorted when they are kept.
        return f"SELECT {', '.join(column.expression for column in table.columns)} FROM {table.sql}"  # noqa: S608

    @override
    def speller(self, table: FoundTable) -> Callable[[Any], Sequence[str | None]]:
        return lambda row: [text_of(value) for value in row]

    @override
    def open_transactions(self, tables: Sequence[FoundTable]) -> list[str]:
        return []

    @override
    def blockers(self, table: FoundTable) -> list[str]:
        return []


def _is_unsupported(error: Exception) -> bool:
    return bool(error.args) and str(error.args[0]) in ("IM001", "HYC00", "HY000")


class Access(Generic):
    """An Access database, through mdbtools."""

    product = "Access"
    tells_null = False  # it says "not null" of every column

    def __init__(self, connection: Any, path: Path) -> None:
        super().__init__(connection)
        self._path = path
        connection.add_output_converter(_SQL_TIMESTAMP, self._moment)

    def _moment(self, data: bytes | None) -> str | None:
        """A date and time from ODBC's ``SQL_TIMESTAMP_STRUCT``: one that is none would end the reading in pyodbc."""
        if data is None:
            return None
        year, month, day, hour, minute, second, fraction = struct.unpack("<hHHHHHI", data[:16])
        if day == 0 and _UNREAD not in self.findings:
            self.findings.append(_UNREAD)
        text = f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
        return f"{text}.{fraction:09}".rstrip("0") if fraction else text

    @override
    def begin(self) -> None:
        self.product_name, self.version, self._quote = "Access (mdbtools)", "", '"'

    @override
    def speller(self, table: FoundTable) -> Callable[[Any], Sequence[str | None]]:
        spell = [_single if column.type == "FLOAT" else text_of for column in table.columns]
        return lambda row: [function(value) for function, value in zip(spell, row, strict=True)]

    @override
    def count(self, table: FoundTable) -> int:
        return len(self.rows(f"SELECT {table.columns[0].expression} FROM {table.sql}"))  # noqa: S608

    @override
    def keys(self, table: FoundTable) -> list[tuple[tuple[str, ...], str]]:
        """Primary keys as ``mdb-schema`` prints them: the driver has no call for it."""
        program = shutil.which("mdb-schema")
        if program is None:
            return []
        found = subprocess.run(
            [program, "-T", table.name, str(self._path), "postgres"],
            capture_output=True, timeout=30, check=False, text=True, errors="replace",
        )  # fmt: skip
        primary = re.search(r"PRIMARY KEY \((.*)\);", found.stdout)
        if found.returncode or primary is None:
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
