"""SQLite: values carry their own type, and what a driver would make equal stays different."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.sql.helpers import attempt, diff, edit, read, rows, told, values
from validators.changes import CellState, Kind
from validators.snapshot import UnreadableState
from validators.sql.table import Key

BLANK, NULL = CellState.BLANK, CellState.NULL


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "practice # 100%.db"


def run(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as session:
        for statement in statements:
            session.execute(statement)
    session.close()


def source(path: Path) -> str:
    return f"sqlite:{path}"


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        ("integer", "'abc'", "abc"),
        ("date", "'not a date'", "not a date"),
        ("numeric", "'12.50x'", "12.50x"),
        ("integer", "9223372036854775807", Decimal(9223372036854775807)),
        ("real", "0.1", Decimal("0.1")),
        ("real", "9e999", Decimal("Infinity")),
        ("text", "''", BLANK),
        ("text", "NULL", NULL),
        ("text", "'a' || char(0) || 'b' || char(9) || char(10) || '\\N'", "a\0b\t\n\\N"),
        ("text", "CAST(x'4dfc' AS text)", b"M\xfc"),
        ("text", "x'4dfc'", b"M\xfc"),
        ("blob", "zeroblob(3)", b"\0\0\0"),
        ("char(5)", "'a  '", "a  "),
    ],
)
def test_values_arrive_as_they_are(database: Path, kind: str, literal: str, value: Any) -> None:
    run(database, f"CREATE TABLE v (v {kind})", f"INSERT INTO v VALUES ({literal})")
    assert values(read(source(database), "v")) == [{"v": value}]


def test_different_garbage_is_a_change_and_another_type_of_the_same_number_is_format(database: Path) -> None:
    run(
        database,
        "CREATE TABLE v (id integer PRIMARY KEY, v integer, n)",
        "INSERT INTO v VALUES (1, 'abc', 1), (2, 5, 2)",
    )
    before = read(source(database), "v")
    run(database, "UPDATE v SET v = 'abd' WHERE id = 1", "UPDATE v SET n = 2.0 WHERE id = 2")
    found = diff(before, read(source(database), "v"))
    assert told(found) == [("updated", "id=1", ("v",))]
    assert edit(found.changes[0], "v") == ("abc", "abd")
    assert [(note.kind, note.count) for note in found.notes] == [("format", 1)]
    assert [cell.kind for cell in rows(before)[0].values()] == [Kind.NUMBER, Kind.VARTEXT, Kind.NUMBER]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("table", "keys"),
    [
        ("(id integer PRIMARY KEY, v)", [Key(("id",), "primary key")]),
        ("(a text PRIMARY KEY, v)", []),  # may hold NULL
        ("(a text NOT NULL, b int NOT NULL, PRIMARY KEY (b, a))", [Key(("b", "a"), "primary key")]),
        ("(a text, b int, PRIMARY KEY (b, a)) WITHOUT ROWID", [Key(("b", "a"), "primary key")]),
        ("(a int NOT NULL UNIQUE, b int UNIQUE)", [Key(("a",), "unique index sqlite_autoindex_v_1")]),
    ],
)
def test_keys(database: Path, table: str, keys: list[Key]) -> None:
    run(database, f"CREATE TABLE v {table}")
    assert read(source(database), "v").keys == tuple(keys)


def test_null_in_a_primary_key_does_not_merge_rows(database: Path) -> None:
    run(database, "CREATE TABLE v (a text PRIMARY KEY, v int)", "INSERT INTO v VALUES (NULL, 1), (NULL, 2)")
    before = read(source(database), "v")
    run(database, "UPDATE v SET v = 3 WHERE v = 2")
    assert sorted(verb for verb, _, _ in told(diff(before, read(source(database), "v")))) == ["deleted", "inserted"]


def test_a_vacuum_changes_nothing(database: Path) -> None:
    run(
        database,
        "CREATE TABLE v (v)",
        *(f"INSERT INTO v VALUES ({n})" for n in range(50)),
        "DELETE FROM v WHERE v < 20",
    )
    before = read(source(database), "v")
    with sqlite3.connect(database, isolation_level=None) as session:
        session.execute("VACUUM")
    session.close()
    assert told(diff(before, read(source(database), "v"))) == []


WRITER = """
import sqlite3, sys
session = sqlite3.connect(sys.argv[1], isolation_level=None)
session.execute("BEGIN IMMEDIATE" if sys.argv[2] == "open" else "BEGIN EXCLUSIVE")
session.execute("UPDATE v SET v = 2")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_a_writer_in_its_transaction_is_a_finding(database: Path, journal: str) -> None:
    run(
        database,
        "CREATE TABLE v (id integer PRIMARY KEY, v int)",
        "INSERT INTO v VALUES (1, 1)",
        f"PRAGMA journal_mode = {journal}",
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, database, "open"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        state = read(source(database), "v")
        assert [row["v"] for row in values(state)] == [Decimal(1)]
        assert state.findings == (
            f"process {writer.pid} is in a write transaction: what it did is not in this reading",
        )
    finally:
        writer.communicate(timeout=20)


def test_a_writer_that_locks_readers_out_makes_it_unreadable(database: Path) -> None:
    run(database, "CREATE TABLE v (id integer PRIMARY KEY, v int)", "INSERT INTO v VALUES (1, 1)")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, database, "closed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        (state,) = attempt(source(database), "v")
        assert isinstance(state, UnreadableState)
        assert "locked" in state.reason
        assert str(writer.pid) in state.reason
    finally:
        writer.communicate(timeout=20)


def test_the_file_is_not_touched(database: Path) -> None:
    run(database, "CREATE TABLE v (v)", "INSERT INTO v VALUES (1)")
    before = (database.read_bytes(), database.stat().st_mtime_ns, os.listdir(database.parent))
    database.chmod(stat.S_IRUSR)
    assert read(source(database), "v").count == 1
    assert (database.read_bytes(), database.stat().st_mtime_ns, os.listdir(database.parent)) == before


def test_what_is_no_database_is_unreadable(tmp_path: Path) -> None:
    (state,) = attempt(source(tmp_path / "none.db"), "v")
    assert isinstance(state, UnreadableState)
    (tmp_path / "text.db").write_text("not a database at all " * 100)
    (state,) = attempt(source(tmp_path / "text.db"), "v")
    assert isinstance(state, UnreadableState)
    assert "not a database" in state.reason


def test_views_and_computed_columns(database: Path) -> None:
    run(database, "CREATE TABLE v (id integer PRIMARY KEY, v int, w int AS (v * 2) STORED)", "INSERT INTO v VALUES (1, 2)",
        "CREATE VIEW seen AS SELECT w FROM v")  # fmt: skip
    state = read(source(database), "V")
    assert [(column.name, column.made_by_server) for column in state.columns] == [
        ("id", ""),
        ("v", ""),
        ("w", "computed"),
    ]
    assert values(read(source(database), "main.seen")) == [{"w": Decimal(4)}]


@pytest.mark.parametrize(
    ("module", "columns"),
    [
        ("fts5(title, body)", ["title", "body"]),
        ("fts4(title, body)", ["title", "body"]),
        ("rtree(id, x0, x1)", ["id", "x0", "x1"]),
    ],
)
def test_a_virtual_table_has_the_columns_that_a_new_row_fills(database: Path, module: str, columns: list[str]) -> None:
    """Hidden columns (``rank``, the table's own name) are parameters of a search."""
    run(database, f"CREATE VIRTUAL TABLE v USING {module}")
    before = read(source(database), "v")
    assert [column.name for column in before.columns] == columns
    run(database, f"INSERT INTO v VALUES ({', '.join('1' for _ in columns)})")
    (change,) = diff(before, read(source(database), "v")).changes
    assert change.after is not None
    assert [name for name, cell in change.after.items() if cell.value in (Decimal(1), "1")] == columns
    assert list(change.after) == columns
