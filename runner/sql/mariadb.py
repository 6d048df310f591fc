"""MariaDB and MySQL.

Numbers, dates and times are spelt by the server (``0000-00-00`` stays what it is, a ``FLOAT`` is exact). Texts come as the
bytes of their UTF-8: as text the driver cuts them off at a NUL.

A table is read by one statement, whose rows are taken as they come (:mod:`runner.sql.streamed`). It is never asked for in pages:
what sorts behind a key is not what compares as greater (an ``ENUM`` sorts by its place and compares by its text), so pages
lose rows and repeat others. Where only ODBC can be used, the driver holds the whole result; a table that is too large for that
is unreadable. Tables of engines without transactions (MyISAM, Aria) have no view of one moment: they are read until two
readings in a row are equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from runner.sql.server import LOCK_SECONDS, CannotRead, FoundColumn, FoundTable, Server, best_keys, matching
from runner.sql.values import text_of
from validators.sql.form import Form

_NUMBERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "double", "float", "year", "bit")
_MOMENTS = {"date": Form.DATE, "time": Form.TIME, "datetime": Form.DATETIME, "timestamp": Form.INSTANT}
_BYTES = (
    "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring", "polygon",
    "multipoint", "multilinestring", "multipolygon", "geometrycollection", "geomcollection",
)  # fmt: skip
_TRANSACTIONAL = ("innodb", "rocksdb", "tokudb", "ndbcluster")
MOST_HELD = 1 << 30
"""The largest table, in bytes, that passes through the ODBC driver's memory."""
_WORTH_TELLING = 64 << 20
_EVERY_TEXT = ("utf8mb4", "utf8mb3", "utf8", "latin1")
"""Character sets all of whose bytes have a character in UTF-8; in others there are bytes that would become ``?``."""
_TEXTS = (Form.TEXT, Form.CHAR)
_SYSTEM = ("information_schema", "performance_schema", "mysql", "sys")


class MariaDb(Server):
    """A MariaDB or MySQL database."""

    product = "MariaDB"
    options: ClassVar[dict[str, str]] = {"CHARSET": "utf8mb4"}

    def __init__(self, connection: Any, not_streamed: str = "") -> None:
        """A session.

        Args:
            connection: Of pyodbc, or a :class:`runner.sql.streamed.Streamed` one.
            not_streamed: Why rows do not come one by one, in words; empty where they do.
        """
        super().__init__(connection)
        self._not_streamed = not_streamed

    @override
    def begin(self) -> None:
        self.connection.autocommit = True
        for statement in (
            "SET SESSION sql_mode = ''",
            "SET SESSION time_zone = '+00:00'",
            f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}",
            f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}",
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SET SESSION TRANSACTION READ ONLY",
        ):
            self.connection.execute(statement)
        settings = {str(row[0]): str(row[1]) for row in self.rows("SHOW VARIABLES LIKE 't%isolation'")}
        if "REPEATABLE-READ" not in settings.values():
            raise CannotRead(f"the session did not get one view of all tables ({', '.join(settings.values())})")
        ((self.version, self._database, self._me),) = self.rows("SELECT version(), database(), connection_id()")
        self.version = str(self.version)
        if self._database is None:
            raise CannotRead("the connection names no database: add `Database=…`")
        self.connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")

    @override
    def end(self) -> None:
        self.connection.execute("ROLLBACK")

    @override
    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    @override
    def find(self, wanted: str) -> FoundTable | None:
        tables = self.rows(
            "SELECT table_schema, table_name, table_type, engine, data_length FROM information_schema.tables"
        )
        names = [(str(row[0]), str(row[1])) for row in tables if str(row[0]).lower() not in _SYSTEM]
        found = matching(names, wanted, lambda schema: schema == self._database)
        if found is None:
            return None
        row = next(row for row in tables if (str(row[0]), str(row[1])) == found)
        table = FoundTable(*found, sql=f"{self.quoted(found[0])}.{self.quoted(found[1])}", size=int(row[4] or 0))
        engine = str(row[3] or "")
        if row[3] is not None and engine.lower() not in _TRANSACTIONAL:
            table.consistent = False
            table.notes.append(
                f"the engine {engine} has no transactions: read until two readings in a row were equal, not as of one moment"
            )
        elif row[3] is None:
            table.notes.append("a view: as of one moment only if the tables below it are")
        columns = self.rows(
            "SELECT column_name, column_type, data_type, is_nullable, extra, COALESCE(character_set_name, '') "
            "FROM information_schema.columns "
            "WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position", *found,
        )  # fmt: skip
        table.columns = [self._column(*map(str, row)) for row in columns]
        table.keys = self._keys(table)
        return table

    def _column(self, name: str, spelt: str, kind: str, nullable: str, extra: str, letters: str) -> FoundColumn:
        kind, extra = kind.lower(), extra.lower()
        quoted = self.quoted(name)
        expression = _text(quoted, letters) if letters else f"CAST({quoted} AS CHAR CHARACTER SET utf8mb4)"
        if kind == "bit":
            form = Form.BOOL if spelt.lower() == "bit(1)" else Form.NUMBER
            expression = f"CAST(CAST({quoted} AS UNSIGNED) AS CHAR CHARACTER SET utf8mb4)"
        elif kind in _NUMBERS:
            form = Form.NUMBER
            if kind == "float":  # by itself it is spelt in six digits, which is not the value
                expression = f"CAST(CAST({quoted} AS DOUBLE) AS CHAR CHARACTER SET utf8mb4)"
        elif kind in _MOMENTS:
            form = _MOMENTS[kind]
        elif kind in _BYTES:
            form, expression = Form.BYTES, quoted
        else:
            form = Form.CHAR if kind == "char" else Form.TEXT
        made = ""
        if "generated" in extra:
            made = "computed"
        elif "on update" in extra:
            made = "set on every update"
        return FoundColumn(name, spelt, nullable.upper() == "YES", form, expression, made)

    def _keys(self, table: FoundTable) -> list[tuple[tuple[str, ...], str]]:
        indexes: dict[str, list[tuple[str, bool]]] = {}
        for name, column, part in self.rows(
            "SELECT index_name, column_name, sub_part FROM information_schema.statistics "
            "WHERE table_schema = ? AND table_name = ? AND non_unique = 0 ORDER BY index_name, seq_in_index",
            table.schema, table.name,
        ):  # fmt: skip
            indexes.setdefault(str(name), []).append(("" if column is None else str(column), part is None))
        whole = {name: [column for column, _ in parts] for name, parts in indexes.items() if all(w for _, w in parts)}
        nullable = {column.name: column.nullable for column in table.columns}
        return best_keys(whole.pop("PRIMARY", []), whole, nullable)

    # --- rows -----------------------------------------------------------------------------------------------------------

    @override
    def select(self, table: FoundTable) -> str:
        return self._from(table, ", ".join(_as_bytes(column) for column in table.columns))

    def _from(self, table: FoundTable, what: str) -> str:
        # Without transactions a statement locks its table for as long as its rows are taken: the server keeps them instead.
        kept = "" if table.consistent else "SQL_BUFFER_RESULT "
        order = ", ".join(self.quoted(name) for name in table.order)
        return f"SELECT {kept}{what} FROM {table.sql}" + (f" ORDER BY {order}" if order else "")  # noqa: S608

    @override
    def blocks(self, table: FoundTable) -> Iterator[Sequence[Any]]:
        return self._stream(table, self.select(table))

    def lines(self, table: FoundTable) -> Generator[Sequence[Any]]:
        """The rows, some at a time, each joined to its line by the server; ``None`` is a line longer than it joins."""
        return self._stream(table, self._from(table, self.line_expression(table)))

    def _stream(self, table: FoundTable, sql: str) -> Generator[Sequence[Any]]:
        if self._not_streamed and table.size > MOST_HELD:
            raise CannotRead(
                f"{self._not_streamed}, and through the ODBC driver all of its {table.size >> 20} MiB would have to pass "
                f"through memory at once: name server or socket in the connection string and install PyMySQL (extra sql)"
            )
        if self._not_streamed and table.size > _WORTH_TELLING and self._not_streamed not in table.notes:
            table.notes.append(f"held in memory as a whole: {self._not_streamed}")
        return self.run(sql)

    @override
    def sample(self, table: FoundTable, rows: int) -> list[Any]:
        return self.rows(f"{self.select(table)} LIMIT {int(rows)}")

    @override
    def speller(self, table: FoundTable) -> Callable[[Any], Sequence[str | None]]:
        spell = [_decoded if column.form in _TEXTS else text_of for column in table.columns]
        return lambda row: [function(value) for function, value in zip(spell, row, strict=True)]

    def line_expression(self, table: FoundTable) -> str:
        """SQL that gives a row's whole line; NULL if a part is longer than the server joins."""
        tab, feed, backslash = "CHAR(9 USING utf8mb4)", "CHAR(10 USING utf8mb4)", "CHAR(92 USING utf8mb4)"
        parts = []
        for column in table.columns:
            text = f"HEX({column.expression})" if column.form is Form.BYTES else column.expression
            if column.form in _TEXTS:
                text = f"REPLACE({text}, {backslash}, CONCAT({backslash}, {backslash}))"
                text = f"REPLACE({text}, {tab}, CONCAT({backslash}, 't'))"
                text = f"REPLACE({text}, {feed}, CONCAT({backslash}, 'n'))"
            null = f"CONCAT({backslash}, 'N')"
            # IF, not IFNULL: a part that is too long is NULL too, and must make the line NULL.
            parts.append(f"IF({self.quoted(column.name)} IS NULL, {null}, {text})" if column.nullable else text)
        return f"CAST(CONCAT({f', {tab}, '.join(parts)}) AS BINARY)"

    # --- other sessions ---------------------------------------------------------------------------------------------------

    @override
    def open_transactions(self, tables: Sequence[FoundTable]) -> list[str]:
        if not tables:
            return []
        try:
            found = self.rows(
                "SELECT t.trx_mysql_thread_id, "
                # The server process's zone, whatever the session's is; without a word for it where it cannot be told.
                "COALESCE(CONCAT(CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), ' UTC'), t.trx_started), "
                "t.trx_rows_modified, p.user, p.host "
                "FROM information_schema.innodb_trx t "
                "LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id "
                "WHERE t.trx_mysql_thread_id NOT IN (0, ?) AND (p.db IS NULL OR p.db = ?) ORDER BY 1",
                int(self._me), self._database,
            )  # fmt: skip
        except Exception as error:
            if "1227" in str(error):
                return ["open transactions of other sessions cannot be seen: the user lacks the PROCESS privilege"]
            raise
        words = []
        for session, since, modified, user, host in found:
            who = f"session {session}" + (f" (user {user} at {host})" if user else "")
            if int(modified or 0):
                words.append(
                    f"{who}, in a transaction since {since}, has changed {modified} rows without having committed: "
                    f"what it did is not in this reading"
                )
            else:
                words.append(f"{who} is in an open transaction since {since}")
        return words

    @override
    def blockers(self, table: FoundTable) -> list[str]:
        sessions = self.rows(
            "SELECT id, user, host, command, time, COALESCE(state, '') FROM information_schema.processlist "
            "WHERE id <> ? AND (db = ? OR db IS NULL) AND command NOT IN ('Daemon', 'Binlog Dump') ORDER BY time DESC",
            int(self._me), self._database,
        )  # fmt: skip
        return [
            f"session {row[0]} (user {row[1]} at {row[2]}, {row[3]} {row[5]}".rstrip() + f", for {row[4]} s)"
            for row in sessions
        ]

    @override
    def is_locked(self, error: Exception) -> bool:
        return re.search(r"\(1205\b", str(error)) is not None  # pyodbc: (1205), PyMySQL: (1205, …)


def _text(quoted: str, letters: str) -> str:
    """SQL for a text in UTF-8; one with bytes that have no character there comes as its own bytes behind a byte FF.

    Such a value is no UTF-8, so it is read as undecodable; converted, each of those bytes would be the same ``?``.

    Args:
        quoted: The column.
        letters: Its character set, as the catalogue names it.
    """
    converted = f"CONVERT({quoted} USING utf8mb4)"
    if letters in _EVERY_TEXT:
        return converted
    back = f"CAST(CONVERT({converted} USING {letters}) AS BINARY) = CAST({quoted} AS BINARY)"
    return f"IF({back}, CAST({converted} AS BINARY), CONCAT(x'FF', CAST({quoted} AS BINARY)))"


def _as_bytes(column: FoundColumn) -> str:
    return f"CAST({column.expression} AS BINARY)" if column.form in _TEXTS else column.expression


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "surrogateescape")
