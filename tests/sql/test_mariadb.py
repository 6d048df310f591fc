"""MariaDB: every value that trips a driver, and what its catalogue and locks tell."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from tests.peers.sql_servers import SqlServer
from tests.sql.helpers import Way, attempt, diff, read, rows, told, values
from validators.changes import CellState, Kind
from validators.snapshot import UnreadableState
from validators.sql.form import Form
from validators.sql.table import Key
from validators.values import is_empty

BLANK, NULL = CellState.BLANK, CellState.NULL


@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        ("int", "-2147483648", Decimal(-2147483648)),
        ("bigint unsigned", "18446744073709551615", Decimal(18446744073709551615)),
        ("int(6) zerofill", "12", Decimal(12)),
        (
            "decimal(38,10)",
            "1234567890123456789012345678.0123456789",
            Decimal("1234567890123456789012345678.0123456789"),
        ),
        ("double", "0.1", Decimal("0.1")),
        ("double", "1.0000000000000002", Decimal("1.0000000000000002")),
        ("float", "0.1", Decimal("0.10000000149011612")),
        ("float", "16777217", Decimal(16777216)),
        ("bit(1)", "b'1'", True),
        ("bit(3)", "b'101'", Decimal(5)),
        ("boolean", "true", Decimal(1)),
        ("char(5)", "'a  '", "a"),
        ("varchar(9)", "'a '", "a "),
        ("text", "''", BLANK),
        ("text", "NULL", NULL),
        ("text", r"'\\N'", "\\N"),
        ("text", r"'a\tb\nc\\d\re\0f'", "a\tb\nc\\d\re\0f"),
        ("text", "'Größe 😀 漢字'", "Größe 😀 漢字"),
        ("varchar(20) character set latin1", "'Größe'", "Größe"),
        ("date", "'0000-00-00'", BLANK),
        ("date", "NULL", NULL),
        ("date", "'2024-00-00'", b"2024-00-00"),
        ("datetime", "'0000-00-00 00:00:00'", BLANK),
        ("datetime(6)", "'2024-01-02 03:04:05.678901'", datetime(2024, 1, 2, 3, 4, 5, 678901)),  # noqa: DTZ001
        ("timestamp null", "'2024-01-02 03:04:05'", datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("date", "'2024-02-29'", date(2024, 2, 29)),
        ("time", "'12:34:56'", time(12, 34, 56)),
        ("time", "'-838:59:59'", b"-838:59:59"),
        ("year", "2024", Decimal(2024)),
        ("varbinary(9)", "x'00ff5c'", b"\x00\xff\\"),
        ("blob", "''", BLANK),
        ("enum('a','b')", "'b'", "b"),
        ("json", """'{"b": 1,   "a": 2}'""", '{"b": 1,   "a": 2}'),
        ("uuid", "'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
        ("point", "point(1,2)", bytes.fromhex("000000000101000000000000000000F03F0000000000000040")),
    ],
)
def test_values_arrive_as_they_are(mariadb: SqlServer, kind: str, literal: str, value: Any) -> None:
    mariadb.run(
        "SET sql_mode = ''", "SET time_zone = '+00:00'", "DROP TABLE IF EXISTS v",
        f"CREATE TABLE v (id int PRIMARY KEY, v {kind})", f"INSERT INTO v VALUES (1, {literal})",
    )  # fmt: skip
    slow, fast = read(mariadb, "v"), read(mariadb, "v", fast="always")
    assert [row["v"] for row in values(slow)] == [value]
    assert (bytes(fast.rows), fast.notes) == (bytes(slow.rows), ())


def test_values_that_drivers_or_collations_make_equal_are_told_apart(mariadb: SqlServer) -> None:
    pairs = [
        ("date", "'0000-00-00'", "NULL"),
        ("varchar(9)", "'a'", "'A'"),
        ("varchar(9)", "'a'", "'a '"),
        ("varchar(9)", "'a'", "'ä'"),
        ("float", "0.1", "0.10000001"),
        ("text", "''", "NULL"),
        ("bit(3)", "b'001'", "b'011'"),
        ("time(6)", "'100:00:00.000001'", "'100:00:00.000002'"),
    ]
    for kind, one, other in pairs:
        mariadb.run("SET sql_mode = ''", "DROP TABLE IF EXISTS v", f"CREATE TABLE v (id int PRIMARY KEY, v {kind})",
                    f"INSERT INTO v VALUES (1, {one})")  # fmt: skip
        before = read(mariadb, "v")
        mariadb.run("SET sql_mode = ''", f"UPDATE v SET v = {other}")
        assert told(diff(before, read(mariadb, "v"))) == [("updated", "id=1", ("v",))], (kind, one)


def test_a_zero_date_is_what_a_program_leaves_in_a_field_nobody_filled(mariadb: SqlServer) -> None:
    mariadb.run(
        "SET sql_mode = ''", "DROP TABLE IF EXISTS v", "CREATE TABLE v (v date)", "INSERT INTO v VALUES ('0000-00-00')"
    )
    ((cell,),) = [row.values() for row in rows(read(mariadb, "v"))]
    assert (cell.kind, is_empty(cell)) == (Kind.DATE, True)


def test_columns_that_change_by_themselves(mariadb: SqlServer) -> None:
    mariadb.run(
        "DROP TABLE IF EXISTS k",
        "CREATE TABLE k (id int PRIMARY KEY, v int, w int AS (v * 2) STORED, "
        "seen timestamp(6) NOT NULL DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6))",
        "INSERT INTO k (id, v) VALUES (1, 1), (2, 2)",
    )
    before = read(mariadb, "k")
    assert [(c.name, c.form, c.made_by_server) for c in before.columns] == [
        ("id", Form.NUMBER, ""), ("v", Form.NUMBER, ""), ("w", Form.NUMBER, "computed"),
        ("seen", Form.INSTANT, "set on every update"),
    ]  # fmt: skip
    mariadb.run("UPDATE k SET v = 5 WHERE id = 1")
    after = read(mariadb, "k")
    found = diff(before, after)
    assert told(found) == [("updated", "id=1", ("v", "w", "seen"))]
    assert any("seen is set on every update" in text for text in found.warnings)
    ignore = [{"column": "seen", "because": "every update sets it"}, {"column": "w", "because": "computed"}]
    found = diff(before, after, ignore=ignore)
    assert told(found) == [("updated", "id=1", ("v",))]
    assert found.changes[0].after is not None
    assert list(found.changes[0].after) == ["id", "v"]
    assert [(item.rule, item.count, item.examples) for item in found.ignored] == [
        ("column seen", 1, ("id=1",)), ("column w", 1, ("id=1",)),
    ]  # fmt: skip
    assert found.warnings == ()


def test_keys_in_the_order_of_the_index(mariadb: SqlServer) -> None:
    mariadb.run(
        "DROP TABLE IF EXISTS k", "CREATE TABLE k (b int, a int, c varchar(9) NOT NULL, d int NOT NULL, e int, "
        "PRIMARY KEY (a, b), UNIQUE one (c), UNIQUE maybe (e), UNIQUE prefix (c(3)), UNIQUE two (d, c))",
    )  # fmt: skip
    assert read(mariadb, "k").keys == (
        Key(("a", "b"), "primary key"), Key(("c",), "unique index one"), Key(("d", "c"), "unique index two"),
    )  # fmt: skip


@pytest.mark.parametrize("way", ["never", "always"])
def test_pages_by_a_composite_text_key_lose_and_repeat_nothing(
    mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    """More rows than a page, a collation in which order is not that of bytes, names that must be quoted."""
    mariadb.run(
        "DROP TABLE IF EXISTS pages",
        "CREATE TABLE pages (`a?``b` varchar(20) COLLATE utf8mb4_german2_ci, n decimal(8,2), t longtext, PRIMARY KEY (`a?``b`, n))",
        "INSERT INTO pages SELECT CONCAT(IF(seq % 2, 'Ä', 'z'), seq % 700), seq / 4, NULL FROM seq_1_to_45000",
        "ANALYZE TABLE pages",
    )
    state = read(mariadb, "pages", fast=way)
    assert (state.count, len(set(bytes(state.rows).splitlines()))) == (45000, 45000)


def test_a_row_longer_than_the_server_joins_is_read_in_the_ordinary_way(mariadb: SqlServer) -> None:
    (limit,) = mariadb.run("SELECT @@max_allowed_packet")[0]
    mariadb.run(
        "DROP TABLE IF EXISTS huge", "CREATE TABLE huge (id int PRIMARY KEY, b longblob)",
        f"INSERT INTO huge VALUES (1, REPEAT('x', {int(limit) * 3 // 5})), (2, NULL)",
    )  # fmt: skip
    state = read(mariadb, "huge", fast="always")
    assert "longer than the server joins" in state.notes[0]
    assert [row["b"] for row in values(state)] == [b"x" * (int(limit) * 3 // 5), NULL]


def test_tables_without_transactions_are_read_until_they_are_still(mariadb: SqlServer) -> None:
    mariadb.run(
        "DROP TABLE IF EXISTS old", "CREATE TABLE old (id int PRIMARY KEY) ENGINE=MyISAM", "INSERT INTO old VALUES (1)"
    )
    state = read(mariadb, "old")
    assert (state.count, "MyISAM" in state.notes[0]) == (1, True)


def test_a_metadata_lock_is_reported(mariadb: SqlServer) -> None:
    mariadb.run("DROP TABLE IF EXISTS locked", "CREATE TABLE locked (id int PRIMARY KEY)")
    program = mariadb.connect()
    program.execute("LOCK TABLES locked WRITE")
    (state,) = attempt(mariadb, "locked")
    program.execute("UNLOCK TABLES")
    program.close()
    assert isinstance(state, UnreadableState)
    assert "locked by another session" in state.reason
    assert "user clerk" in state.reason


def test_without_the_privilege_open_transactions_are_told_to_be_unseen(mariadb: SqlServer) -> None:
    mariadb.run("DROP TABLE IF EXISTS one", "CREATE TABLE one (id int PRIMARY KEY)")
    state = read(
        f"DRIVER={{MariaDB Unicode}};SOCKET={mariadb.folder / 'socket'};Database=practice;UID=clerk;PWD=x", "one"
    )
    assert "PROCESS privilege" in state.findings[0]
