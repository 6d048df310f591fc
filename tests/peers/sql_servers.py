"""Real database servers for the tests: each with its own data in a temporary folder, reached by a socket in it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pyodbc

PASSWORD = "geh}eim;1"
"""Holds what a connection string must quote."""


@dataclass
class SqlServer:
    """A server that is running.

    Attributes:
        odbc: A connection string for the database that tests use, for a user with this password.
        folder: Its folder.
        run: Runs statements as an administrator, each in a transaction of its own.
        connect: A session of the program under test, without autocommit.
    """

    odbc: str
    folder: Path
    run: Callable[..., list[tuple[Any, ...]]]
    connect: Callable[[], Any]


def _as_user(name: str) -> dict[str, Any]:
    """Servers refuse to run as root."""
    if os.geteuid() != 0:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@contextmanager
def _folder(owner: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="lp-sql-"))
    try:
        folder.chmod(0o755)
        if os.geteuid() == 0:
            entry = pwd.getpwnam(owner)
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(command: list[str], log: Path, user: dict[str, Any], ready: Callable[[], object]) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd="/", start_new_session=True, **user)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                ready()
                break
            except (psycopg.Error, pyodbc.Error):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(log.read_text(errors="replace")[-2000:]) from None
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


@contextmanager
def postgres(encoding: str = "UTF8") -> Iterator[SqlServer]:
    """A PostgreSQL server."""
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    user = _as_user("postgres")
    with _folder("postgres") as folder:
        data = folder / "data"
        subprocess.run(
            [str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "--no-sync", "-E", encoding,
             "--locale=C.UTF-8" if encoding == "UTF8" else "--locale=C"],
            check=True, capture_output=True, timeout=120, cwd="/", **user,
        )  # fmt: skip

        def connect(name: str = "postgres", autocommit: bool = False) -> psycopg.Connection[Any]:
            return psycopg.connect(host=str(folder), user=name, dbname="postgres", autocommit=autocommit)

        def run(*statements: str) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = []
            with connect(autocommit=True) as session:
                for statement in statements:
                    cursor = session.execute(statement.encode())
                    rows = cursor.fetchall() if cursor.description else []
            return rows

        command = [
            str(programs / "postgres"), "-D", str(data), "-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}",
            "-c", "fsync=off", "-c", "max_connections=20", "-c", "autovacuum=off",
        ]  # fmt: skip
        access = data / "pg_hba.conf"
        access.write_text("local all reader scram-sha-256\nlocal all all trust\n")
        with _running(command, folder / "log", user, connect):
            run(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'", "GRANT pg_read_all_data, pg_monitor TO reader")
            quoted = "{" + PASSWORD.replace("}", "}}") + "}"
            odbc = f"DRIVER={{PostgreSQL Unicode}};Server={folder};Database=postgres;UID=reader;PWD={quoted}"
            yield SqlServer(odbc, folder, run, connect)


@contextmanager
def mariadb(zone: str = "") -> Iterator[SqlServer]:
    """A MariaDB server, its process in a time zone."""
    user = _as_user("mysql")
    with _folder("mysql") as folder:
        data, socket = folder / "data", folder / "socket"
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal",
             "--skip-test-db", "--skip-name-resolve"],
            check=True, capture_output=True, timeout=120, cwd="/", **user,
        )  # fmt: skip

        def connect(name: str = "root", password: str = "", autocommit: bool = False) -> Any:
            return pyodbc.connect(
                f"DRIVER={{MariaDB Unicode}};SOCKET={socket};Database={'mysql' if name == 'root' else 'practice'};"
                f"UID={name};PWD={password};CHARSET=utf8mb4",
                autocommit=autocommit,
            )

        def run(*statements: str) -> list[tuple[Any, ...]]:
            session = connect(autocommit=True)
            session.execute("CREATE DATABASE IF NOT EXISTS practice CHARACTER SET utf8mb4")
            session.execute("USE practice")
            rows: list[tuple[Any, ...]] = []
            for statement in statements:
                cursor = session.execute(statement)
                rows = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            session.close()
            return rows

        command = [
            "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", f"--pid-file={folder / 'pid'}",
        ]  # fmt: skip
        if zone:
            user["env"] = {**os.environ, "TZ": zone}
        with _running(command, folder / "log", user, connect):
            run(
                f"CREATE USER reader IDENTIFIED BY '{PASSWORD}'",
                "GRANT SELECT, PROCESS ON *.* TO reader",
                "CREATE USER clerk IDENTIFIED BY 'x'",
                "GRANT ALL ON practice.* TO clerk",
            )
            quoted = "{" + PASSWORD.replace("}", "}}") + "}"
            odbc = f"DRIVER={{MariaDB Unicode}};SOCKET={socket};Database=practice;UID=reader;PWD={quoted}"
            yield SqlServer(odbc, folder, run, lambda: connect("clerk", "x"))
