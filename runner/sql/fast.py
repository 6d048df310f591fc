"""Faster ways to the same lines, used only where they are proven to give the same bytes as the ordinary way.

* PostgreSQL: ``COPY`` through psycopg, in the very snapshot that the ODBC session reads (``pg_export_snapshot``).
* MariaDB and MySQL: the server joins a row's values itself, so that one value per row goes through the driver.

Whoever uses them reads the first rows of the same table, in the same snapshot, in the ordinary way as well and compares the
lines byte by byte; and counts all of them. If anything differs, or the library or a keyword is missing, the table is read in the
ordinary way and a note says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO, Protocol

from runner.sql.mariadb import MariaDb
from runner.sql.postgres import SETTINGS, Postgres
from runner.sql.server import FoundTable, Server
from runner.sql.sources import parse_connection

PROOF = 1_000
"""How many rows are read in both ways."""
WORTH_IT = 20_000
"""Tables with fewer rows are read in the ordinary way: there is nothing to gain."""
_LIBPQ = {
    "server": "host", "servername": "host", "port": "port", "database": "dbname", "uid": "user", "username": "user",
    "pwd": "password", "password": "password", "sslmode": "sslmode",
}  # fmt: skip


class NotFaster(Exception):
    """The faster way is not there for this table; the message says why."""


class Fast(Protocol):
    """A faster way to a table's lines."""

    def write(self, table: FoundTable, out: BinaryIO) -> int:
        """Writes every line and returns how many there are.

        Raises:
            NotFaster: It cannot be done; what was written is to be thrown away.
        """

    def close(self) -> None:
        """Ends what was opened."""


def fast_way(server: Server, connection: str) -> Fast | None:
    """The faster way for this server, or ``None``.

    Args:
        server: The session, its view already opened.
        connection: Its ODBC connection string.

    Raises:
        NotFaster: There would be one, but it cannot be used here.
    """
    if isinstance(server, Postgres):
        return _Copy(server, connection)
    return _ServerLines(server) if isinstance(server, MariaDb) else None


class _Copy:
    """``COPY`` in a second session that sees the first one's snapshot."""

    def __init__(self, server: Postgres, connection: str) -> None:
        try:
            import psycopg  # noqa: PLC0415
        except ImportError:
            raise NotFaster("psycopg is not installed (extra sql)") from None
        self._errors: Any = psycopg.Error
        self._server = server
        given = {key.casefold(): value for key, value in parse_connection(connection)}
        if not {"server", "servername"} & given.keys():
            raise NotFaster("the connection string names no server of its own (DSN)")
        options = {_LIBPQ[key]: value for key, value in given.items() if key in _LIBPQ and value}
        (snapshot,) = server.rows("SELECT pg_catalog.pg_export_snapshot()")[0]
        try:
            self._session = psycopg.connect(**options, connect_timeout=10, client_encoding="UTF8", autocommit=True)  # type: ignore[arg-type]
            for name, value in SETTINGS.items():
                self._session.execute("SELECT set_config(%s, %s, false)", (name, value))
            self._session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self._session.execute(f"SET TRANSACTION SNAPSHOT '{_name(str(snapshot))}'".encode())
        except psycopg.Error as error:
            raise NotFaster(f"a second session failed: {error}") from None

    def write(self, table: FoundTable, out: BinaryIO) -> int:
        sql = f"COPY ({self._server.copied(table)}) TO STDOUT"
        try:
            with self._session.cursor() as cursor:
                with cursor.copy(sql.encode()) as lines:
                    write = out.write
                    for line in lines:
                        write(line)
                return int(cursor.rowcount)
        except self._errors as error:
            raise NotFaster(f"COPY failed: {error}") from None

    def close(self) -> None:
        self._session.close()


def _name(snapshot: str) -> str:
    if not snapshot.replace("-", "").isalnum():
        raise NotFaster("the server's name for its snapshot is not one that is known")
    return snapshot


class _ServerLines:
    """Lines joined by the server."""

    def __init__(self, server: MariaDb) -> None:
        self._server = server

    def write(self, table: FoundTable, out: BinaryIO) -> int:
        count = 0
        for block in self._lines(table):
            out.write(b"\n".join(block) + b"\n")
            count += len(block)
        return count

    def _lines(self, table: FoundTable) -> Iterator[list[bytes]]:
        with closing(self._server.lines(table)) as blocks:
            for block in blocks:
                lines = [row[0] for row in block]
                if None in lines:  # longer than the server joins (max_allowed_packet)
                    raise NotFaster("a row is longer than the server joins")
                yield lines

    def close(self) -> None:
        return
