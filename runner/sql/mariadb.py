"""MariaDB and MySQL.

Numbers, dates and times are spelt by the server (``0000-00-00`` stays what it is, a ``FLOAT`` is exact). Texts come as the
bytes of their UTF-8: as text the driver cuts them off at a NUL. The driver holds each result in memory, so rows are read in pages by the key; without a key the whole table passes
through memory. Tables of engines without transactions (MyISAM, Aria) have no view of one moment: they are read until two
readings in a row are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
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
_PAGE_BYTES = 16 << 20
_PAGE_ROWS = 20_000
_PAGEABLE = (Form.NUMBER, Form.TEXT, Form.CHAR, Form.DATE, Form.DATETIME)
_NOT_EXACT = ("float", "double", "time", "timestamp")
"""Types of key columns by whose values the next page cannot be asked for exactly."""
_TEXTS = (Form.TEXT, Form.CHAR)
_SYSTEM = ("information_schema", "performance_schema", "mysql", "sys")


class MariaDb(Server):
    """A MariaDB or MySQL database."""

    product = "MariaDB"
    options: ClassVar[dict[str, str]] = {"CHARSET": "utf8mb4"}

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
            "SELECT table_schema, table_name, table_type, engine, avg_row_length FROM information_schema.tables"
        )
        names = [(str(row[0]), str(row[1])) for row in tables if str(row[0]).lower() not in _SYSTEM]
        found = matching(names, wanted, lambda schema: schema == self._database)
        if found is None:
            return None
        row = next(row for row in tables if (str(row[0]), str(row[1])) == found)
        table = FoundTable(*found, sql=f"{self.quoted(found[0])}.{self.quoted(found[1])}", row_length=int(row[4] or 0))
        engine = str(row[3] or "")
        if row[3] is not None and engine.lower() not in _TRANSACTIONAL:
            table.consistent = False
            table.notes.append(
                f"the engine {engine} has no transactions: read until two readings in a row were equal, not as of one moment"
            )
        elif row[3] is None:
            table.notes.append("a view: as of one moment only if the tables below it are")
        columns = self.rows(
            "SELECT column_name, column_type, data_type, is_nullable, extra FROM information_schema.columns "
            "WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position", *found,
        )  # fmt: skip
        table.columns = [self._column(*map(str, row)) for row in columns]
        table.keys = self._keys(table)
        return table

    def _column(self, name: str, spelt: str, kind: str, nullable: str, extra: str) -> FoundColumn:
        kind, extra = kind.lower(), extra.lower()
        quoted = self.quoted(name)
        expression = f"CAST({quoted} AS CHAR CHARACTER SET utf8mb4)"
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
        elif kind == "char":
            form, expression = Form.CHAR, f"CONVERT({quoted} USING utf8mb4)"
        else:
            form = Form.TEXT
            if kind in ("varchar", "tinytext", "text", "mediumtext", "longtext"):
                expression = f"CONVERT({quoted} USING utf8mb4)"
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
        what = ", ".join(_as_bytes(column) for column in table.columns)
        order = ", ".join(self.quoted(name) for name in table.order)
        return f"SELECT {what} FROM {table.sql}" + (f" ORDER BY {order}" if order else "")  # noqa: S608

    @override
    def blocks(self, table: FoundTable) -> Iterator[Sequence[Any]]:
        return self.pages(table, ", ".join(_as_bytes(column) for column in table.columns), self.speller(table))

    def pages(self, table: FoundTable, what: str, values: Callable[[Any], Sequence[Any]]) -> Iterator[Sequence[Any]]:
        """The rows in pages by the key, so that the driver holds one page and not the table.

        Args:
            table: The table.
            what: What is selected.
            values: Gives the values of all columns, spelt, from a row of what is selected.
        """
        places = {column.name: index for index, column in enumerate(table.columns)}
        key = [table.columns[places[name]] for name in table.order]
        order = ", ".join(self.quoted(column.name) for column in key)
        start = f"SELECT {what} FROM {table.sql}"  # noqa: S608
        if not key:
            yield from self.run(start)
            return
        if any(column.form not in _PAGEABLE or column.type.startswith(_NOT_EXACT) for column in key):
            yield from self.run(f"{start} ORDER BY {order}")
            return
        size = max(50, min(_PAGE_ROWS, _PAGE_BYTES // max(table.row_length, 1)))
        where = ""
        last: list[Any] = []
        while True:
            page = list(self._flat(self.run(f"{start}{where} ORDER BY {order} LIMIT {size}", *last)))
            if page:
                yield page
            if len(page) < size:
                return
            end = values(page[-1])
            last, where = self._after(key, [str(end[places[column.name]]) for column in key])

    @staticmethod
    def _flat(blocks: Iterator[Sequence[Any]]) -> Iterator[Any]:
        for block in blocks:
            yield from block

    def _after(self, key: Sequence[FoundColumn], texts: list[str]) -> tuple[list[Any], str]:
        """The condition for rows behind a key: ``a > ? OR (a = ? AND b > ?)``, which indexes can serve."""
        values: list[Any] = [_bindable(column, text) for column, text in zip(key, texts, strict=True)]
        parts, bound = [], []
        for index, column in enumerate(key):
            equal = [f"{self.quoted(other.name)} = ?" for other in key[:index]]
            parts.append("(" + " AND ".join([*equal, f"{self.quoted(column.name)} > ?"]) + ")")
            bound += [*values[:index], values[index]]
        return bound, " WHERE " + " OR ".join(parts)

    @override
    def sample(self, table: FoundTable, rows: int) -> list[Any]:
        return list(self._flat(self.run(f"{self.select(table)} LIMIT {int(rows)}")))

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
                "SELECT t.trx_mysql_thread_id, CAST(t.trx_started AS CHAR), t.trx_rows_modified, p.user, p.host "
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
                    f"{who}, in a transaction since {since} UTC, has changed {modified} rows without having committed: "
                    f"what it did is not in this reading"
                )
            else:
                words.append(f"{who} is in an open transaction since {since} UTC")
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
        return "(1205)" in str(error)


def _as_bytes(column: FoundColumn) -> str:
    return f"CAST({column.expression} AS BINARY)" if column.form in _TEXTS else column.expression


def _decoded(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode("utf-8", "surrogateescape")


def _bindable(column: FoundColumn, text: str) -> Any:
    if column.form is not Form.NUMBER:
        return text
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)
