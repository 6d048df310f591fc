"""MariaDB and MySQL by PyMySQL, whose unbuffered cursor gives the rows of one statement as they come.

The ODBC driver of Debian 12 has no such cursor: it takes a whole result into memory before the first row. A session of this
module answers to the few calls of pyodbc's that :mod:`runner.sql.mariadb` makes. Every value comes as the server spelt it, a
text or bytes: PyMySQL's conversions are switched off.
"""

from __future__ import annotations

import importlib
from typing import Any

from runner.sql.sources import parse_connection

_KEYWORDS = {
    "server": "host", "servername": "host", "port": "port", "socket": "unix_socket", "database": "database", "db": "database",
    "uid": "user", "user": "user", "pwd": "password", "password": "password",
}  # fmt: skip
_WITHOUT_MEANING = ("driver", "description", "charset", "no_prompt", "tcpip", "app")
"""Keywords that change nothing here: the character set is always UTF-8."""
_CONNECT_SECONDS = 10
_WRITE_SECONDS = 600
"""How long the server waits for us to take rows, ``net_write_timeout``; its default of a minute is short for a busy disk."""


class NotStreamed(Exception):
    """The source cannot be read in this way; the message says why, without a secret."""


class Streamed:
    """A session."""

    def __init__(self, connection: str) -> None:
        """Connects.

        Args:
            connection: An ODBC connection string.

        Raises:
            NotStreamed: It says more than is known here, PyMySQL is missing, or the server did not let us in.
        """
        options = _options(connection)
        try:
            pymysql: Any = importlib.import_module("pymysql")
            converters: Any = importlib.import_module("pymysql.converters")
        except ImportError:
            raise NotStreamed("PyMySQL is not installed (extra sql)") from None
        try:
            self._session: Any = pymysql.connect(
                **options, charset="utf8mb4", connect_timeout=_CONNECT_SECONDS, autocommit=True,
                cursorclass=pymysql.cursors.SSCursor, conv=dict(converters.encoders),
            )  # fmt: skip
            self.execute(f"SET SESSION net_write_timeout = {_WRITE_SECONDS}")
        except (
            pymysql.Error,
            OSError,
            RuntimeError,
            ValueError,
        ) as error:  # RuntimeError: a package of its own is missing
            raise NotStreamed(f"PyMySQL could not connect: {error}") from None
        self.autocommit = True

    def cursor(self) -> _Cursor:
        """A cursor of one statement's result, which must be closed before the next."""
        return _Cursor(self._session.cursor())

    def execute(self, sql: str) -> None:
        """Executes a statement without a result."""
        with self._session.cursor() as cursor:
            cursor.execute(sql)

    def rollback(self) -> None:
        """Ends the transaction."""
        self._session.rollback()

    def close(self) -> None:
        """Ends the session."""
        self._session.close()


class _Cursor:
    """A cursor with pyodbc's way of parameters."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        self.fetchall, self.fetchmany, self.close = cursor.fetchall, cursor.fetchmany, cursor.close

    def execute(self, sql: str, *parameters: Any) -> _Cursor:
        if parameters:
            self._cursor.execute(sql.replace("%", "%%").replace("?", "%s"), parameters)
        else:
            self._cursor.execute(sql)
        return self


def _options(connection: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, value in parse_connection(connection):
        name = key.casefold()
        if not value or name in _WITHOUT_MEANING:
            continue
        if name not in _KEYWORDS:
            raise NotStreamed(f"the connection string's keyword {key} is left to the ODBC driver")
        options[_KEYWORDS[name]] = value
    if not {"host", "unix_socket"} & options.keys():
        raise NotStreamed("the connection string names no server of its own")
    if "port" in options:
        if not options["port"].isascii() or not options["port"].isdigit():
            raise NotStreamed("the connection string's port is no number")
        options["port"] = int(options["port"])
    return options
