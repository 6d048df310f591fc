"""What every server must be asked, and the words for what it answers.

One class for each kind of server knows its catalogue, its way of a consistent and read-only view, and how it spells a value
exactly. Names in SQL are only ever those that the catalogue listed, quoted in the server's way; a contract's text is compared
with them and never becomes part of a statement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from validators.sql.form import Form

LOCK_SECONDS = 5
"""How long a reading waits for a lock of the program before it says who holds it."""
BLOCK = 2000
"""Rows fetched at once."""


class CannotRead(Exception):
    """A source or table cannot be read; the message says why and, where known, what to do."""


class Locked(Exception):
    """The server gave up waiting for a lock."""


@dataclass(frozen=True)
class FoundColumn:
    """One column, with the SQL by which the server spells its values exactly."""

    name: str
    type: str
    nullable: bool
    form: Form
    expression: str
    """SQL whose value is the exact text, or a value that :meth:`Server.text` spells."""
    made_by_server: str = ""


@dataclass
class FoundTable:
    """One table as the catalogue has it.

    Attributes:
        schema: Its schema, or empty.
        name: Its name.
        sql: Its quoted name.
        columns: Its columns, in their order.
        keys: Columns that the server keeps unique and not null, with where that is known from; best first.
        handle: What the server knows it by (an object number).
        consistent: Whether all tables are seen as of one moment.
        notes: What is worth telling about it.
        findings: What could not be read of it.
        size: How many bytes its rows have, about; 0 where that is not known.
    """

    schema: str
    name: str
    sql: str
    columns: list[FoundColumn] = field(default_factory=list)
    keys: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    handle: Any = None
    consistent: bool = True
    notes: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    size: int = 0

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that rows are read in the order of; empty when there is no key."""
        return self.keys[0][0] if self.keys else ()


def matching(names: Sequence[tuple[str, str]], wanted: str, default: Callable[[str], bool]) -> tuple[str, str] | None:
    """The schema and name of the table that a contract means, or ``None``: compared exactly, then without case.

    Args:
        names: Schema and name of every table in the catalogue.
        wanted: The contract's text: a name, or schema and name joined by a dot.
        default: Whether a schema is one in which names alone are looked for.

    Raises:
        CannotRead: More than one table is meant.
    """

    def fits(schema: str, name: str, same: Callable[[str], str]) -> bool:
        return same(wanted) == same(f"{schema}.{name}") or (same(wanted) == same(name) and default(schema))

    for same in (lambda text: text, str.casefold):
        found = [(schema, name) for schema, name in names if fits(schema, name, same)]
        if len(found) > 1:
            listed = ", ".join(f"{schema}.{name}" if schema else name for schema, name in found[:5])
            raise CannotRead(f"{wanted!r} may be any of the tables {listed}: write schema and name")
        if found:
            return found[0]
    return None


def best_keys(
    primary: Sequence[str], unique: Mapping[str, Sequence[str]], nullable: Mapping[str, bool]
) -> list[tuple[tuple[str, ...], str]]:
    """Keys, best first: the primary key, then unique indexes by size, all without columns that may be NULL."""
    found = []
    if primary and not any(nullable.get(name, True) for name in primary):
        found.append((tuple(primary), "primary key"))
    for index, columns in sorted(unique.items(), key=lambda item: (len(item[1]), item[0])):
        if (
            columns
            and tuple(columns) not in [key for key, _ in found]
            and not any(nullable.get(n, True) for n in columns)
        ):
            found.append((tuple(columns), f"unique index {index}"))
    return found


class Server(ABC):
    """One connection, seen as its kind of server."""

    product: ClassVar[str]
    as_copy: ClassVar[bool] = False
    """Whether lines are escaped as PostgreSQL's ``COPY`` does."""
    ordered: ClassVar[bool] = True
    """Whether rows come in the order of the key; if not, their lines are sorted."""
    options: ClassVar[Mapping[str, str]] = {}
    """Driver options that must hold for values to arrive as they are."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.version = ""
        self.notes: list[str] = []
        self.findings: list[str] = []

    @abstractmethod
    def begin(self) -> None:
        """Opens the read-only view in which everything is read.

        Raises:
            CannotRead: The server does not give one.
        """

    @abstractmethod
    def find(self, wanted: str) -> FoundTable | None:
        """The table that a contract means, or ``None`` when the whole catalogue was seen and it is not there."""

    @abstractmethod
    def open_transactions(self, tables: Sequence[FoundTable]) -> list[str]:
        """Open transactions of other sessions that concern these tables, in words."""

    @abstractmethod
    def blockers(self, table: FoundTable) -> list[str]:
        """After :class:`Locked`: who holds the table, in words."""

    def end(self) -> None:
        """Ends the view; nothing was changed."""
        self.connection.rollback()

    def is_locked(self, error: Exception) -> bool:  # noqa: ARG002
        """Whether an error of the driver means that a lock was waited for in vain."""
        return False

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        """Every row of a small query."""
        cursor = self.connection.cursor()
        try:
            return list(cursor.execute(sql, *parameters).fetchall())
        finally:
            cursor.close()

    def count(self, table: FoundTable) -> int:
        """How many rows the table has in this view."""
        return int(self.rows(f"SELECT COUNT(*) FROM {table.sql}")[0][0])  # noqa: S608

    def quoted(self, name: str) -> str:
        """A name of the catalogue as an identifier."""
        return '"' + name.replace('"', '""') + '"'

    def select(self, table: FoundTable) -> str:
        """The statement that reads every row, in the order of the key where there is one."""
        what = ", ".join(column.expression for column in table.columns)
        order = ", ".join(self.quoted(name) for name in table.order)
        return f"SELECT {what} FROM {table.sql}" + (f" ORDER BY {order}" if order else "")  # noqa: S608

    def blocks(self, table: FoundTable) -> Iterator[Sequence[Any]]:
        """The rows, some at a time, never all of them in memory."""
        return self.run(self.select(table))

    def run(self, sql: str) -> Generator[Sequence[Any]]:
        """The rows of a query, some at a time."""
        cursor = self.connection.cursor()
        try:
            cursor.execute(sql)
            while block := cursor.fetchmany(BLOCK):
                yield block
                if len(block) < BLOCK:  # mdbtools begins anew when it is asked once more
                    return
        finally:
            cursor.close()

    def speller(self, table: FoundTable) -> Callable[[Any], Sequence[str | None]]:  # noqa: ARG002
        """A function that makes texts of a row's values; by default the server did already."""
        return tuple

    def sample(self, table: FoundTable, rows: int) -> list[Any]:
        """The first rows, to prove a faster way by."""
        found: list[Any] = []
        blocks = self.blocks(table)
        for block in blocks:
            found.extend(block)
            if len(found) >= rows:
                break
        blocks.close()  # type: ignore[attr-defined]
        return found[:rows]
