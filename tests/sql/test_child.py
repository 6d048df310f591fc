"""The reading process: it can hang, die or babble without harm; sorting has bounded memory; SQL Server's words."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from runner.sql import child, snapshot
from runner.sql.generic import Generic
from runner.sql.server import CannotRead, matching
from runner.sql.sqlserver import SqlServer
from tests.sql.helpers import read, source
from validators.snapshot import UnreadableState
from validators.sql.form import Form


@pytest.fixture
def database(tmp_path: Path) -> str:
    with sqlite3.connect(tmp_path / "a.db") as session:
        session.execute("CREATE TABLE v (id integer PRIMARY KEY, v text)")
        session.executemany("INSERT INTO v VALUES (?, ?)", [(n, f"row {n}") for n in range(1000)])
    session.close()
    return f"sqlite:{tmp_path / 'a.db'}"


@pytest.fixture
def acting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets another program stand for the reading process."""
    command: list[str] = []
    real = subprocess.run

    def run(args: list[str], **more: Any) -> Any:
        assert not any(key.startswith("LEGACYPROOF_SQL_") for key in more["env"])
        assert len(args) == 3  # the job, with the password in it, is no argument that others can see
        return real(command or args, **more)

    monkeypatch.setenv("LEGACYPROOF_SQL_OTHER", "secret")
    monkeypatch.setattr(subprocess, "run", run)
    return command


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("kill -ABRT $$", "signal 6"),
        ("exit 3", "status 3"),
        ("echo hello", "without an answer"),
        ("printf '%s{}' 'legacyproof-sql-answer '", "cannot be used"),
        ("printf '%s[]' 'legacyproof-sql-answer '", "no answer"),
        ("printf '%s{\"tables\": []}' 'legacyproof-sql-answer '", "cannot be used"),
        ("printf '%snonsense' 'legacyproof-sql-answer '", "no answer"),
        ("sleep 60", "within"),
    ],
)
def test_a_reading_process_that_fails_costs_a_reading(database: str, acting: list[str], program: str, why: str) -> None:
    acting += ["sh", "-c", program]
    began = time.monotonic()
    (state,) = snapshot.read_source(source(database), ["v"], within=1)
    assert isinstance(state, UnreadableState)
    assert why in state.reason
    assert time.monotonic() - began < 10


def test_the_rows_outlive_their_file(
    database: str, acting: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    state = read(database, "v")
    assert (state.count, bytes(state.rows[:10])) == (1000, b"i0\ttrow 0\ni"[:10])
    assert [name for name in os.listdir(tmp_path) if name.startswith("legacyproof")] == []


ASKER = """
import sys
from runner.sql.snapshot import read_source
from runner.sql.sources import Source
read_source(Source("practice", "sqlite", sys.argv[1]), ["v"])
"""


def test_when_the_runner_dies_the_reading_process_goes_and_leaves_nothing(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as session:
        session.execute("CREATE TABLE v (v text)")
        session.executemany("INSERT INTO v VALUES (?)", [("x" * 100,)] * 300_000)
    session.close()
    folder = tmp_path / "temporary"
    folder.mkdir()
    asker = subprocess.Popen(
        [sys.executable, "-c", ASKER, str(tmp_path / "a.db")], env={**os.environ, "TMPDIR": str(folder)}
    )
    deadline = time.monotonic() + 20
    while not any(path.stat().st_size for path in folder.glob("*/*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    assert asker.poll() is None
    asker.kill()
    asker.wait()
    while list(folder.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(folder.iterdir()) == []


def test_a_source_without_one_moment_must_be_still(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = [({"n": 1}, ["a"], False), ({"n": 2}, ["b"], False), ({"n": 3}, ["b"], False)]
    monkeypatch.setattr(child, "_reading", lambda *_: answers.pop(0))
    assert child._answer({"stable_within": 5, "folder": str(tmp_path)}) == {"n": 3}
    numbers = iter(range(1000))
    monkeypatch.setattr(child, "_reading", lambda *_: ({}, [str(next(numbers))], False))
    with pytest.raises(CannotRead, match="no two readings"):
        child._answer({"stable_within": 0.1, "folder": str(tmp_path)})


def test_rows_that_do_not_all_arrive_make_the_table_unreadable(
    database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from runner.sql.sqlite import Sqlite

    monkeypatch.setattr(Sqlite, "count", lambda *_: 1001)
    with pytest.raises(CannotRead, match="1000 rows arrived, and the server counts 1001"):
        child._answer(
            {"kind": "sqlite", "target": database.removeprefix("sqlite:"), "tables": ["v"], "folder": str(tmp_path),
             "fast": "never", "stable_within": 1},
        )  # fmt: skip


def test_sorting_in_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(child, "_SORT_BYTES", 2000)
    lines = [f"{random.random()}ä\\n" for _ in range(2000)]
    with (tmp_path / "out").open("wb") as out:
        assert child._write_sorted(iter([lines[n : n + 100] for n in range(0, 2000, 100)]), out) == 2000
    assert (tmp_path / "out").read_bytes().splitlines() == sorted(line.encode() for line in lines)
    assert os.listdir(tmp_path) == ["out"]


def test_which_table_a_contract_means() -> None:
    names = [
        ("public", "Orders"),
        ("public", "orders"),
        ("archive", "orders"),
        ("public", "a.b"),
        ("a", "b"),
        ("a", "C"),
    ]

    def found(wanted: str) -> tuple[str, str] | None:
        return matching(names, wanted, lambda schema: schema == "public")

    assert found("orders") == ("public", "orders")
    assert found("Orders") == ("public", "Orders")
    assert found("archive.orders") == ("archive", "orders")
    assert found("ARCHIVE.ORDERS") == ("archive", "orders")
    assert found("A.c") == ("a", "C")
    assert found("c") is None
    for ambiguous in ("ORDERS", "a.b"):
        with pytest.raises(CannotRead, match="may be any of"):
            found(ambiguous)


class _FakeSqlServer:
    """Answers the catalogue's questions as the documentation says."""

    autocommit = True

    def __init__(self, snapshot_state: int) -> None:
        self.state = snapshot_state
        self.said: list[str] = []
        self._rows: list[tuple[Any, ...]] = []

    def cursor(self) -> _FakeSqlServer:
        return self

    def close(self) -> None:
        return

    def execute(self, sql: str, *_: Any) -> _FakeSqlServer:
        self.said.append(sql)
        for sign, rows in (
            ("sys.databases", [("16.0.1000", self.state)]),
            ("sys.objects", [(7, "dbo", "Pat]ient", "dbo")]),
            ("sys.columns c JOIN sys.types", [
                ("id", "int", 4, 10, 0, False, False, 0), ("Na]me", "nvarchar", 60, 0, 0, True, False, 0),
                ("ver", "timestamp", 8, 0, 0, False, False, 0), ("sum", "money", 8, 19, 4, True, True, 0),
            ]),
            ("sys.indexes", [("pk", True, "id"), ("one", False, "Na]me")]),
            ("dm_tran_session", [(55, "dswin", "anna", "2024-01-01")]),
            ("dm_tran_locks", [(55, "dswin", "anna")]),
        ):  # fmt: skip
            if sign in sql:
                self._rows = rows
                return self
        self._rows = []
        return self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


def test_sql_server_without_snapshot_isolation_is_refused_in_words() -> None:
    with pytest.raises(CannotRead, match="ALLOW_SNAPSHOT_ISOLATION"):
        SqlServer(_FakeSqlServer(0)).begin()


def test_sql_server_s_statements() -> None:
    fake = _FakeSqlServer(1)
    server = SqlServer(fake)
    server.begin()
    assert "SET TRANSACTION ISOLATION LEVEL SNAPSHOT" in fake.said
    assert fake.autocommit is False
    table = server.find("patIENT".replace("patI", "Pat]i"))
    assert table is not None
    assert table.keys == [(("id",), "primary key")]
    assert [(c.name, c.made_by_server) for c in table.columns][2:] == [("ver", "row version"), ("sum", "computed")]
    assert server.select(table) == (
        "SELECT CONVERT(varchar(60), [id]), CONVERT(nvarchar(max), [Na]]me]), CONVERT(varchar(40), CONVERT(varbinary(8), [ver]), 2), "
        "CONVERT(varchar(60), [sum], 2) FROM [dbo].[Pat]]ient] ORDER BY [id]"
    )
    assert "without having committed" in server.open_transactions([table])[0]
    assert "dswin" in server.blockers(table)[0]
    assert server.is_locked(Exception("42000", "[42000] Lock request time out period exceeded. (1222)"))


def job(database: str, folder: Path) -> dict[str, Any]:
    return {
        "kind": "sqlite", "target": database.removeprefix("sqlite:"), "tables": ["v"], "folder": str(folder),
        "fast": "never", "stable_within": 1,
    }  # fmt: skip


@pytest.mark.parametrize("ordered", [True, False])
def test_a_row_that_comes_twice_while_another_is_lost_makes_the_table_unreadable(
    database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ordered: bool
) -> None:
    """Their number is right; each must be there once all the same."""
    from runner.sql.sqlite import Sqlite

    real = Sqlite.blocks

    def blocks(self: Sqlite, table: Any) -> Any:
        for block in real(self, table):
            yield [*block[:500], block[499], *block[501:]]

    assert child.answer(job(database, tmp_path))["tables"][0]["count"] == 1000
    monkeypatch.setattr(Sqlite, "ordered", ordered)
    monkeypatch.setattr(Sqlite, "blocks", blocks)
    assert "there twice" in child.answer(job(database, tmp_path))["error"]


@pytest.mark.parametrize("code", [0xDCFF, 0xDC80, 0xD800, 0xDC7F, 0xE4, 0x1F600])
def test_bytes_that_are_no_text_are_kept_as_they_came(code: int) -> None:
    sign = chr(code)
    expected = bytes([code - 0xDC00]) if 0xDC80 <= code <= 0xDCFF else sign.encode("utf-8", "surrogatepass")
    assert child._encoded([f"a{sign}b", sign]) == b"a" + expected + b"b\n" + expected + b"\n"
    assert child._encoded([]) == b""


class _FakeOdbc:
    """A data source whose driver numbers one type as ODBC does not."""

    def cursor(self) -> _FakeOdbc:
        return self

    def close(self) -> None:
        return

    def tables(self) -> list[tuple[Any, ...]]:
        return [(None, None, "t", "TABLE")]

    def columns(self, table: str) -> list[tuple[Any, ...]]:
        kinds = [("id", 4, "INTEGER"), ("strange", 9999, "HYPERCUBE"), ("name", -9, "NVARCHAR")]
        return [(None, None, "t", name, number, kind, None, None, None, None, 0) for name, number, kind in kinds]

    def primaryKeys(self, _: str) -> list[tuple[Any, ...]]:  # noqa: N802 - pyodbc's name
        return [(None, None, "t", "id", 1)]

    def statistics(self, _: str, unique: bool) -> list[tuple[Any, ...]]:
        return [(None, None, "t", 0, None, "one", 3, 1, "strange")]

    def getinfo(self, number: int) -> str:
        return '"' if number == 29 else "Peculiar"


def test_a_type_that_odbc_does_not_number_is_not_asked_for() -> None:
    server = Generic(_FakeOdbc())
    server.begin()
    table = server.find("t")
    assert table is not None
    assert server.select(table) == 'SELECT "id", "name" FROM "t"'
    assert server.speller(table)((7, "x")) == ["7", "", "x"]
    assert [column.form for column in table.columns] == [Form.NUMBER, Form.UNREAD, Form.TEXT]
    assert table.keys == [(("id",), "primary key")]
    assert "strange (HYPERCUBE)" in table.findings[0]
