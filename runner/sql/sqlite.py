"""SQLite, by the standard library: a driver would turn what does not fit a column's declared type into NULL or a number.

Each value carries its own type. Reading holds a shared lock for as long as it takes; the file is opened read-only.
"""

from __future__ import annotations

import fcntl
import sqlite3
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from runner.sql.server import LOCK_SECONDS, CannotRead, FoundColumn, FoundTable, Server, best_keys, matching
from validators.sql.form import Form

_RESERVED = 0x40000001
"""The byte of the database file that a writer holds (sqlite.org/fileformat2: locking page)."""
_WAL_WRITER = 120
"""The byte of the ``-shm`` file that a writer holds in WAL mode (sqlite.org/walformat)."""
_HIDDEN = 1
"""What ``pragma_table_xinfo`` says of a virtual table's hidden column: a parameter or a result of a search, never part of a row."""


def writer_of(path: Path) -> int | None:
    """The process that is in a write transaction, or ``None``. To be asked before this process opens the database.

    Closing a file gives up every lock that a process has on it, so afterwards this would take SQLite's own away.
    """
    for name, byte in ((path, _RESERVED), (Path(f"{path}-shm"), _WAL_WRITER)):
        try:
            with name.open("rb") as file:
                asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, byte, 1, 0)
                kind, _, _, _, holder = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))
        except OSError:
            continue
        if kind != fcntl.F_UNLCK:
            return int(holder)
    return None


def _text(data: bytes) -> str:
    try:
        return "t" + data.decode()
    except UnicodeDecodeError:
        return "x" + data.hex()


class Sqlite(Server):
    """An SQLite database."""

    product = "SQLite"

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise CannotRead(f"there is no SQLite database {path.name}")
        self._writer = writer_of(path)
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro", uri=True, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.text_factory = _text
        super().__init__(connection)

    @override
    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        def plain(value: Any) -> Any:
            return value[1:] if isinstance(value, str) else value

        return [tuple(map(plain, row)) for row in super().rows(sql, parameters)]

    @override
    def begin(self) -> None:
        self.version = sqlite3.sqlite_version
        self.connection.execute("PRAGMA query_only = 1")
        self.connection.execute("BEGIN")
        try:
            self.rows("SELECT COUNT(*) FROM sqlite_master")  # the first reading fixes the view
        except sqlite3.OperationalError as error:
            if not self.is_locked(error):
                raise
            by = f" by process {self._writer}, which is in a write transaction" if self._writer is not None else ""
            raise CannotRead(f"the database is locked{by}") from None

    @override
    def end(self) -> None:
        self.connection.execute("ROLLBACK")

    @override
    def find(self, wanted: str) -> FoundTable | None:
        names = [
            ("main", str(row[0])) for row in self.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        ]
        found = matching(names, wanted, lambda _: True)
        if found is None:
            return None
        table = FoundTable(*found, sql=f"{self.quoted('main')}.{self.quoted(found[1])}")
        primary: dict[int, str] = {}
        for name, spelt, not_null, place, hidden in self.rows(
            'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?)', table.name
        ):
            if hidden == _HIDDEN:
                continue
            made = "computed" if hidden in (2, 3) else ""
            table.columns.append(FoundColumn(name, spelt or "", not not_null, Form.DYNAMIC, self.quoted(name), made))
            if place:
                primary[place] = name
        key = [primary[place] for place in sorted(primary)]
        nullable = {column.name: column.nullable for column in table.columns}
        (without_rowid,) = self.rows("SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'", table.name)[0]
        indexes = self.rows('SELECT name, origin, "unique", partial FROM pragma_index_list(?)', table.name)
        # Only an alias of the rowid has no index of its own; the other primary keys of tables with one may hold NULL.
        if key and (without_rowid or "pk" not in [origin for _, origin, _, _ in indexes]):
            nullable |= dict.fromkeys(key, False)
        unique = {
            name: [column for (column,) in self.rows("SELECT name FROM pragma_index_info(?)", name)]
            for name, origin, is_unique, partial in indexes
            if is_unique and not partial and origin != "pk"
        }
        whole = {name: columns for name, columns in unique.items() if None not in columns}
        table.keys = best_keys(key, whole, nullable)
        return table

    @override
    def speller(self, table: FoundTable) -> Callable[[Any], Sequence[str | None]]:
        return lambda row: [_spelt(value) for value in row]

    @override
    def open_transactions(self, tables: Sequence[FoundTable]) -> list[str]:
        if self._writer is None or not tables:
            return []
        return [f"process {self._writer} is in a write transaction: what it did is not in this reading"]

    @override
    def blockers(self, table: FoundTable) -> list[str]:
        return [f"process {self._writer} is in a write transaction"] if self._writer is not None else []

    @override
    def is_locked(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorname.startswith(
            ("SQLITE_BUSY", "SQLITE_LOCKED")
        )


def _spelt(value: Any) -> str | None:
    match value:
        case None:
            return None
        case str():
            return value
        case int():
            return f"i{value}"
        case float():
            return f"r{value!r}"
        case _:
            return "b" + bytes(value).hex()
