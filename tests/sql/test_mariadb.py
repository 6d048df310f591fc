"""MariaDB: every value that trips a driver, and what its catalogue and locks tell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

import runner.sql.mariadb
from tests.peers import sql_servers
from tests.peers.sql_servers import SqlServer
from tests.sql.helpers import MARIADB_BY_ODBC, Way, attempt, diff, read, rows, source, told, values
from validators.changes import CellState, Kind
from validators.clock import OutOfDay
from validators.snapshot import UnreadableState
from validators.sql.form import Form
from validators.sql.table import Key
from validators.values import is_empty

BLANK, NULL = CellState.BLANK, CellState.NULL
WAYS: tuple[Way, ...] = ("never", "always")


def odbc(server: SqlServer) -> str:
    """The same server, through the ODBC driver."""
    return server.odbc + MARIADB_BY_ODBC


@pytest.mark.usefixtures("here")
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
        ("time", "'-838:59:59'", OutOfDay(-(838 * 3600 + 59 * 60 + 59) * 1_000_000)),
        ("time(6)", "'24:00:00.000001'", OutOfDay(86_400_000_001)),
        ("varchar(9) character set cp1250", "_cp1250 x'E86E'", "čn"),
        ("varchar(9) character set cp1250", "_cp1250 x'C381'", b"\xff\xc3\x81"),
        ("text character set greek", "_greek x'FF'", b"\xff\xff"),
        ("varchar(9) character set sjis", "'漢字\\\\'", "漢字\\"),
        ("enum('a','ž') character set cp1250", "'ž'", "ž"),
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
    slow = read(mariadb, "v")
    assert [row["v"] for row in values(slow)] == [value]
    for other in (read(mariadb, "v", fast="always"), *(read(odbc(mariadb), "v", fast=way) for way in WAYS)):
        assert (bytes(other.rows), other.notes) == (bytes(slow.rows), ())


@pytest.mark.usefixtures("here")
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
        ("varchar(9) character set cp1250", "_cp1250 x'81'", "_cp1250 x'83'"),
        ("varchar(9) character set cp1250", "_cp1250 x'81'", "'?'"),
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


@pytest.mark.parametrize("way", WAYS)
def test_a_composite_text_key_loses_and_repeats_nothing(mariadb: SqlServer, way: Way) -> None:
    """Many blocks, a collation in which order is not that of bytes, names that must be quoted."""
    mariadb.run(
        "DROP TABLE IF EXISTS pages",
        "CREATE TABLE pages (`a?``b` varchar(20) COLLATE utf8mb4_german2_ci, n decimal(8,2), t longtext, PRIMARY KEY (`a?``b`, n))",
        "INSERT INTO pages SELECT CONCAT(IF(seq % 2, 'Ä', 'z'), seq % 700), seq / 4, NULL FROM seq_1_to_45000",
    )
    for reached in (mariadb, odbc(mariadb)):
        state = read(reached, "pages", fast=way)
        assert (state.count, len(set(bytes(state.rows).splitlines()))) == (45000, 45000)


@pytest.mark.usefixtures("here")
def test_rows_are_taken_as_they_come_or_the_table_must_be_small(
    mariadb: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without PyMySQL, or with what only the driver understands, a table that memory cannot hold is not read."""
    mariadb.run(
        "DROP TABLE IF EXISTS wide", "CREATE TABLE wide (id int PRIMARY KEY, t longtext)",
        "INSERT INTO wide SELECT seq, REPEAT('x', 1000) FROM seq_1_to_3000", "ANALYZE TABLE wide",
    )  # fmt: skip
    monkeypatch.setattr(runner.sql.mariadb, "_WORTH_TELLING", 1 << 20)
    assert read(mariadb, "wide").notes == ()
    assert "held in memory as a whole" in read(odbc(mariadb), "wide").notes[0]
    monkeypatch.setattr(runner.sql.mariadb, "MOST_HELD", 1 << 20)
    assert read(mariadb, "wide").count == 3000
    (state,) = attempt(odbc(mariadb), "wide")
    assert isinstance(state, UnreadableState)
    assert "SSLVERIFY" in state.reason
    monkeypatch.setitem(sys.modules, "pymysql", None)
    (state,) = attempt(mariadb, "wide")
    assert isinstance(state, UnreadableState)
    assert "install PyMySQL" in state.reason


def test_a_stream_takes_no_more_memory_than_its_rows(mariadb: SqlServer) -> None:
    """64 MiB of rows, the reading process a part of it; through the driver they all stand in memory."""
    mariadb.run(
        "DROP TABLE IF EXISTS wide", "CREATE TABLE wide (id int PRIMARY KEY, t longtext)",
        "INSERT INTO wide SELECT seq, REPEAT('x', 20000) FROM seq_1_to_3300",
    )  # fmt: skip
    peaks = [peak_of_reading(source, "wide") for source in (mariadb, odbc(mariadb))]
    assert peaks[1] - peaks[0] > 30 << 20, peaks


# Of the program's own memory: the largest size that a process is accounted for counts what it was forked from, too.
PEAK = """
import json, sys
from pathlib import Path
from runner.sql import child
child._answer(json.loads(sys.stdin.read()))
(line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
print(int(line.split()[1]) * 1024)
"""


def peak_of_reading(server: SqlServer | str, table: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "kind": "odbc",
            "target": source(server).target,
            "tables": [table],
            "folder": folder,
            "fast": "never",
            "stable_within": 1,
        }
        out = subprocess.run(
            [sys.executable, "-c", PEAK], input=json.dumps(job).encode(), capture_output=True, check=True, timeout=120
        )
    return int(out.stdout)


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


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Pacific/Auckland", "UTC"])
def test_since_when_a_transaction_is_open_is_told_in_utc_wherever_the_server_is(zone: str) -> None:
    """``trx_started`` is in the zone of the server's process, whatever the session's is."""
    with sql_servers.mariadb(zone) as server:
        server.run("CREATE TABLE one (id int PRIMARY KEY)", "INSERT INTO one VALUES (1)")
        program = server.connect()
        program.cursor().execute("SELECT * FROM one FOR UPDATE")
        (finding,) = read(server, "one").findings
        program.rollback()
        program.close()
    found = re.search(r"since (\S+ \S+) UTC$", finding)
    assert found is not None, finding
    told_at = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
    assert abs(datetime.now(UTC) - told_at) < timedelta(minutes=10)
