"""Reading a table of a test server, and saying what changed in it."""

from __future__ import annotations

from typing import Any, Literal

from contracts.schema import SqlTable
from runner.sql.snapshot import read_source
from runner.sql.sources import Source, find_source
from tests.peers.sql_servers import SqlServer
from validators.changes import Cell, CellState, Change, Comparison
from validators.snapshot import UnreadableState
from validators.sql.diff import diff_sql
from validators.sql.table import Shape, SqlState, lines_of, row_of

Way = Literal["auto", "always", "never"]
MARIADB_BY_ODBC = ";SSLVERIFY=0"
"""What in a connection string leaves MariaDB to the ODBC driver."""


def source(server: SqlServer | str) -> Source:
    text = server if isinstance(server, str) else server.odbc
    return find_source("practice", {"LEGACYPROOF_SQL_PRACTICE": text})


def attempt(
    server: SqlServer | str, *tables: str, fast: Way = "never", **more: Any
) -> list[SqlState | UnreadableState]:
    return read_source(source(server), list(tables), fast=fast, within=120, **more)


def read(server: SqlServer | str, table: str, *, fast: Way = "never", **more: Any) -> SqlState:
    (state,) = attempt(server, table, fast=fast, **more)
    assert isinstance(state, SqlState), state
    return state


def spec(table: str = "t", **more: Any) -> SqlTable:
    return SqlTable.model_validate({"sql": "practice", "table": table, **more})


def diff(before: SqlState, after: SqlState, **more: Any) -> Comparison:
    return diff_sql(before, after, spec(**more), observable="rows")


def rows(state: SqlState) -> list[dict[str, Cell]]:
    shape = Shape(state.columns)
    return [row_of(shape, line) for line in lines_of(state.rows)]


def values(state: SqlState) -> list[dict[str, Any]]:
    return [{name: plain(cell) for name, cell in row.items()} for row in rows(state)]


def plain(cell: Cell) -> Any:
    if cell.state is CellState.UNDECODABLE:
        return cell.raw
    return cell.state if cell.state is not CellState.VALUE else cell.value


def told(found: Comparison) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(change.verb.value, change.subject, change.changed) for change in found.changes]


def edit(change: Change, field: str) -> tuple[Any, Any]:
    assert change.before is not None
    assert change.after is not None
    return plain(change.before[field]), plain(change.after[field])
