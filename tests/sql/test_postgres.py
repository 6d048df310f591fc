"""PostgreSQL: every value that trips a driver, and what its catalogue and locks tell."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from tests.peers import sql_servers
from tests.peers.sql_servers import SqlServer
from tests.sql.helpers import Way, attempt, diff, edit, read, told, values
from validators.changes import CellState, Kind
from validators.clock import OutOfDay
from validators.snapshot import UnreadableState
from validators.sql.form import Form

BLANK, NULL = CellState.BLANK, CellState.NULL


def cell(server: SqlServer, kind: str, literal: str) -> Any:
    if kind == "pair_":
        server.run("DROP TYPE IF EXISTS pair_ CASCADE", "CREATE TYPE pair_ AS (a int, b text)")
    server.run("DROP TABLE IF EXISTS v", f"CREATE TABLE v (v {kind})", f"INSERT INTO v VALUES ({literal})")
    ordinary = values(read(server, "v"))
    server.run("ALTER TABLE v ADD id int PRIMARY KEY DEFAULT 1")
    assert [row["v"] for row in values(read(server, "v", fast="always"))] == [row["v"] for row in ordinary]
    return ordinary[0]["v"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        ("int", "-2147483648", Decimal(-2147483648)),
        ("bigint", "9223372036854775807", Decimal(9223372036854775807)),
        ("numeric(30,4)", "12345678901234567890123456.7891", Decimal("12345678901234567890123456.7891")),
        ("numeric", "'NaN'", b"NaN"),
        ("float8", "0.1", Decimal("0.1")),
        ("float8", "1.0000000000000002", Decimal("1.0000000000000002")),
        ("float8", "'NaN'", b"NaN"),
        ("float8", "'-Infinity'", Decimal("-Infinity")),
        ("float4", "0.1", Decimal("0.1")),
        ("money", "12.5", Decimal("12.50")),
        ("boolean", "true", True),
        ("boolean", "false", False),
        ("char(5)", "'ab'", "ab   "),
        ("char(5)", "'  '", BLANK),
        ("varchar(9)", "'ab '", "ab "),
        ("text", "''", BLANK),
        ("text", "NULL", NULL),
        ("text", r"E'\\N'", "\\N"),
        ("text", r"E'a\tb\nc\\d\re\bf\fg\x0bh'", "a\tb\nc\\d\re\bf\fg\vh"),
        ("text", "'Größe 😀 漢字'", "Größe 😀 漢字"),
        ("date", "'2024-02-29'", date(2024, 2, 29)),
        ("date", "'infinity'", b"infinity"),
        ("date", "'0044-03-15 BC'", b"0044-03-15 BC"),
        ("time", "'24:00:00'", OutOfDay(86_400_000_000)),
        ("timetz", "'12:00:00+02'", time(12, tzinfo=timezone(timedelta(hours=2)))),
        ("pair_", "ROW(NULL, NULL)", "(,)"),
        ("pair_", "NULL", NULL),
        ("time", "'12:34:56.789'", time(12, 34, 56, 789000)),
        ("timestamp", "'2024-01-02 03:04:05.678901'", datetime(2024, 1, 2, 3, 4, 5, 678901)),  # noqa: DTZ001
        ("timestamp", "'-infinity'", b"-infinity"),
        ("timestamptz", "'2024-07-01 12:00:00+02'", datetime(2024, 7, 1, 10, 0, tzinfo=UTC)),
        ("bytea", r"'\x00ff5c'", b"\x00\xff\\"),
        ("bytea", "''", BLANK),
        ("json", """'{"b": 1,   "a": 2}'""", '{"b": 1,   "a": 2}'),
        ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("int[]", "'{1,2,NULL}'", "{1,2,NULL}"),
        ("interval", "'1 day 2 hours'", "1 day 02:00:00"),
    ],
)
def test_values_arrive_as_they_are(postgres: SqlServer, kind: str, literal: str, value: Any) -> None:
    assert cell(postgres, kind, literal) == value


@pytest.mark.usefixtures("here")
def test_values_that_drivers_make_equal_are_told_apart(postgres: SqlServer) -> None:
    """A date and infinity's stand-in, a year before Christ, two zones, a tenth of a microsecond's neighbour."""
    pairs = [
        ("timestamp", "'infinity'", "'9999-12-31 23:59:59'"),
        ("date", "'0001-01-01'", "'0001-01-01 BC'"),
        ("timestamptz", "'2024-01-01 12:00:00+00'", "'2024-01-01 12:00:00+01'"),
        ("timetz", "'12:00:00+02'", "'10:00:00+00'"),
        ("float8", "0.1", "0.10000000000000002"),
        ("text", "''", "NULL"),
        ("text", "'a'", "'A'"),
        ("text", "'a'", "'a '"),
        ("json", "'[1, 2]'", "'[1,2]'"),
    ]
    for kind, one, other in pairs:
        postgres.run("DROP TABLE IF EXISTS v", f"CREATE TABLE v (id int PRIMARY KEY, v {kind})")
        postgres.run(
            f"INSERT INTO v VALUES (1, {one}), (2, 'same'::text::{kind})"
            if kind == "text"
            else f"INSERT INTO v VALUES (1, {one})"
        )
        before = read(postgres, "v")
        postgres.run(f"UPDATE v SET v = {other} WHERE id = 1")
        assert told(diff(before, read(postgres, "v"))) == [("updated", "id=1", ("v",))], (kind, one)


def test_nan_equals_nan_and_scale_is_only_format(postgres: SqlServer) -> None:
    postgres.run("DROP TABLE IF EXISTS v", "CREATE TABLE v (id int PRIMARY KEY, n numeric, f float8)")
    postgres.run("INSERT INTO v VALUES (1, 'NaN', 'NaN'), (2, 1.10, 1)")
    before = read(postgres, "v")
    postgres.run("UPDATE v SET n = 'NaN', f = 'NaN' WHERE id = 1", "UPDATE v SET n = 1.1000 WHERE id = 2")
    after = read(postgres, "v")
    found = diff(before, after)
    assert (told(found), [(note.kind, note.count) for note in found.notes]) == ([], [("format", 1)])
    assert told(diff(before, after, strict_format=True)) == [("updated", "id=2", ("n",))]


def test_columns_and_kinds(postgres: SqlServer) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS k", "DROP DOMAIN IF EXISTS outer_ CASCADE", "DROP DOMAIN IF EXISTS inner_ CASCADE",
        "CREATE DOMAIN inner_ AS numeric(8,2)", "CREATE DOMAIN outer_ AS inner_",
        "CREATE TABLE k (a int NOT NULL, b char(3), c varchar(20), d outer_, e int GENERATED ALWAYS AS (a * 2) STORED)",
        "INSERT INTO k VALUES (3, 'x', 'y', 1.5)",
    )  # fmt: skip
    state = read(postgres, "public.k")
    assert [(c.name, c.nullable, c.form, c.made_by_server) for c in state.columns] == [
        ("a", False, Form.NUMBER, ""), ("b", True, Form.CHAR, ""), ("c", True, Form.TEXT, ""),
        ("d", True, Form.NUMBER, ""), ("e", True, Form.NUMBER, "computed"),
    ]  # fmt: skip
    (change,) = diff(state, state).changes or (None,)
    assert change is None
    postgres.run("UPDATE k SET a = 4")
    found = diff(state, read(postgres, "k"), key=["b"])
    assert told(found) == [("updated", "b=x  ", ("a", "e"))]
    assert edit(found.changes[0], "e") == (Decimal(6), Decimal(8))
    assert any("e is computed" in text for text in found.warnings)
    assert found.changes[0].after is not None
    assert found.changes[0].after["b"].kind is Kind.TEXT


def test_a_view_and_a_partitioned_table_are_read_and_a_parent_has_no_key(postgres: SqlServer) -> None:
    postgres.run(
        "DROP VIEW IF EXISTS w", "DROP TABLE IF EXISTS parent CASCADE", "DROP TABLE IF EXISTS parts",
        "CREATE TABLE parent (id int PRIMARY KEY)", "CREATE TABLE child () INHERITS (parent)",
        "INSERT INTO parent VALUES (1)", "INSERT INTO child VALUES (1)", "CREATE VIEW w AS SELECT * FROM parent",
        "CREATE TABLE parts (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10)", "INSERT INTO parts VALUES (1)",
    )  # fmt: skip
    assert (read(postgres, "parent").count, read(postgres, "parent").keys) == (2, ())
    assert read(postgres, "w").count == 2
    assert (read(postgres, "parts").count, read(postgres, "parts").order) == (1, ("id",))


def test_rows_hidden_by_a_policy_are_an_error(postgres: SqlServer) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS p", "CREATE TABLE p (id int)", "INSERT INTO p VALUES (1)",
        "ALTER TABLE p ENABLE ROW LEVEL SECURITY",
    )  # fmt: skip
    (state,) = attempt(postgres, "p")
    assert isinstance(state, UnreadableState)
    assert "row-level security" in state.reason


def test_the_reader_may_not_read_the_table(postgres: SqlServer) -> None:
    postgres.run("DROP TABLE IF EXISTS hidden", "CREATE TABLE hidden (id int)", "CREATE ROLE nobody LOGIN")
    (state,) = attempt(postgres.odbc.replace("UID=reader", "UID=nobody"), "hidden")
    assert isinstance(state, UnreadableState)
    assert "permission denied" in state.reason


@pytest.mark.parametrize("fast", ["never", "always"])
def test_an_exclusive_lock_is_reported_with_its_holder(postgres: SqlServer, fast: Way) -> None:
    postgres.run("DROP TABLE IF EXISTS locked", "CREATE TABLE locked (id int PRIMARY KEY)")
    with postgres.connect() as program:
        program.execute("SET application_name = 'dswin'")
        program.execute("LOCK TABLE locked IN ACCESS EXCLUSIVE MODE")
        (state,) = attempt(postgres, "locked", fast=fast)
        assert isinstance(state, UnreadableState)
        assert "locked by another session" in state.reason
        assert "program dswin" in state.reason
        program.rollback()


def test_the_fast_way_is_taken_and_gives_the_same_bytes(postgres: SqlServer) -> None:
    postgres.run(
        "DROP TABLE IF EXISTS big",
        "CREATE TABLE big AS SELECT i AS id, E'a\\tb\\\\' || i AS t, i * 0.1::float8 AS f, i % 2 = 0 AS b, now() AS n, "
        "CASE WHEN i % 3 = 0 THEN NULL ELSE 'x'::char(4) END AS c, decode(md5(i::text), 'hex') AS h "
        "FROM generate_series(1, 25000) i",
        "ALTER TABLE big ADD PRIMARY KEY (id)",
    )
    fast, slow = read(postgres, "big", fast="auto"), read(postgres, "big")
    assert (fast.notes, fast.count) == ((), 25000)
    assert bytes(fast.rows) == bytes(slow.rows)


def test_without_a_server_of_its_own_in_the_connection_string_the_ordinary_way_is_taken(
    postgres: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.run("DROP TABLE IF EXISTS one", "CREATE TABLE one (id int PRIMARY KEY)", "INSERT INTO one VALUES (1)")
    ini = postgres.folder / "odbc.ini"
    ini.write_text(
        f"[here]\nDriver=PostgreSQL Unicode\nServername={postgres.folder}\nDatabase=postgres\nUsername=postgres\n"
    )
    monkeypatch.setenv("ODBCINI", str(ini))
    state = read("DSN=here", "one", fast="always")
    assert state.count == 1
    assert "DSN" in state.notes[0]


def test_a_database_without_an_encoding() -> None:
    """SQL_ASCII: bytes that are no UTF-8 are kept, and equal only to themselves."""
    with sql_servers.postgres("SQL_ASCII") as server:
        server.run(
            "CREATE TABLE v (id int PRIMARY KEY, t text)", r"INSERT INTO v VALUES (1, E'M\374ller'), (2, 'Meier\')"
        )
        state = read(server, "v")
        assert [row["t"] for row in values(state)] == [b"M\xfcller", "Meier\\"]
        server.run(r"UPDATE v SET t = E'M\366ller' WHERE id = 1")
        assert told(diff(state, read(server, "v"))) == [("updated", "id=1", ("t",))]
