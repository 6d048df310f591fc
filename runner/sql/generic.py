"""Servers that have no module of their own: what ODBC's catalogue functions tell, and no more.

Nothing is known of a view of one moment, so tables are read until two readings in a row are equal, and values are what the
driver makes of them. A column of a type that ODBC does not number is not asked for: pyodbc would end the reading at it, or a
driver would make something of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import override

from runner.sql.server import CannotRead, FoundColumn, FoundTable, Server, best_keys, matching
from runner.sql.values import text_of
from validators.sql.form import Form

_SQL_DBMS_NAME, _SQL_DBMS_VER, _SQL_QUOTE = 17, 18, 29
_FORMS = {
    **dict.fromkeys((12, -1, -9, -10), Form.TEXT),
    -11: Form.TEXT,
    **dict.fromkeys((1, -8), Form.CHAR),
    **dict.fromkeys((2, 3, 4, 5, 6, 7, 8, -5, -6), Form.NUMBER),
    -7: Form.BOOL,
    **dict.fromkeys((9, 91), Form.DATE),
    **dict.fromkeys((10, 92, -154), Form.TIME),
    **dict.fromkeys((11, 93), Form.DATETIME),
    -155: Form.INSTANT,
    **dict.fromkeys((-2, -3, -4), Form.BYTES),
}
"""ODBC's type numbers, as pyodbc can read them."""


NOT_ASKED_FOR = ""
"""The expression of a column whose values the driver is not asked for; they are kept as empty texts."""


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
            name, number, spelt, size, nullable = str(row[3]), int(row[4]), str(row[5] or "unknown"), row[6], row[10]
            form = self.form(number, spelt)
            described = spelt if size is None else f"{spelt}({size})"
            can_be_null = nullable != 0 or not self.tells_null
            expression = NOT_ASKED_FOR if form is Form.UNREAD else self.quoted(name)
            table.columns.append(FoundColumn(name, described, can_be_null, form, expression))
        if not table.columns:
            raise CannotRead(f"the driver lists no columns of {found[1]!r}")
        self.look_closer(table)
        if all(column.expression == NOT_ASKED_FOR for column in table.columns):
            raise CannotRead(f"none of the columns of {found[1]!r} can be read")
        unread = {c.name: c.made_by_server or c.type for c in table.columns if c.form is Form.UNREAD}
        table.keys = [key for key in self.keys(table) if not unread.keys() & set(key[0])]
        if unread:
            listed = ", ".join(f"{name} ({kind})" for name, kind in unread.items())
            table.findings.append(
                f"{found[1]}: {self.product_name} cannot read these columns, and what changed in them is not known: {listed}"
            )
        table.notes.append(f"{self.product_name}: read until two readings in a row were equal, not as of one moment")
        return table

    def _columns(self, name: str) -> list[Any]:
        # The name is a pattern for some drivers; others take it as it is. Rows of other tables are thrown away.
        rows = list(self.connection.cursor().columns(table=name))
        return [row for row in rows if str(row[2]) == name]

    def form(self, number: int, spelt: str) -> Form:  # noqa: ARG002
        """How a column's values are spelt, by ODBC's number of its type."""
        return _FORMS.get(number, Form.UNREAD)

    def look_closer(self, table: FoundTable) -> None:
        """What more is known of a table's columns than the catalogue function tells."""

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
        asked = [column.expression for column in table.columns if column.expression != NOT_ASKED_FOR]
        return f"SELECT {', '.join(asked)} FROM {table.sql}"  # noqa: S608

    @override
    def speller(self, table: FoundTable) -> Callable[[Any], Sequence[str | None]]:
        spell = [None if c.expression == NOT_ASKED_FOR else self.spelling(table, c) for c in table.columns]

        def spelt(row: Any) -> list[str | None]:
            values = iter(row)
            return ["" if function is None else function(next(values)) for function in spell]

        return spelt

    def spelling(self, table: FoundTable, column: FoundColumn) -> Callable[[Any], str | None]:  # noqa: ARG002
        """A function that makes a text of a column's values."""
        return text_of

    @override
    def open_transactions(self, tables: Sequence[FoundTable]) -> list[str]:
        return []

    @override
    def blockers(self, table: FoundTable) -> list[str]:
        return []


def _is_unsupported(error: Exception) -> bool:
    return bool(error.args) and str(error.args[0]) in ("IM001", "HYC00", "HY000")
