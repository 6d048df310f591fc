"""Keys of every type that sorts: over many blocks each row is read once, and random edits are found, those and no others.

What sorts behind a key need not compare as greater (a MariaDB ``ENUM``), need not be spelt differently (``-0``), and may be equal
to what is spelt differently (collations, ``1.0`` and ``1.00``): every such type is a key here, alone or with a number beside it.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.sql import server
from tests.peers.sql_servers import SqlServer
from tests.sql.helpers import MARIADB_BY_ODBC, Way, attempt, diff, values
from validators.changes import Comparison
from validators.sql.table import SqlState

BLOCK = 7
"""Rows fetched at once here, so that there are many blocks."""
COPIES = 6
"""How often a value that is no key by itself is there."""

Run = Callable[..., object]
Case = tuple[str, Sequence[str]]
"""A column's type, and literals that are different keys to the server."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch, here: None) -> None:
    monkeypatch.setattr(server, "BLOCK", BLOCK)


def read_once(source: SqlServer | str, way: Way) -> SqlState:
    (state,) = attempt(source, "keys_", fast=way)
    assert isinstance(state, SqlState), state
    return state


def numbers(found: Comparison) -> set[tuple[str, int]]:
    told = set()
    for change in found.changes:
        row = change.after if change.after is not None else change.before
        assert row is not None
        told.add((change.verb.value, int(row["n"].value)))  # type: ignore[arg-type]
    assert len(told) == len(found.changes)
    return told


def random_edits(run: Run, source: SqlServer | str, way: Way, rows: Sequence[str], *, seed: str) -> Comparison:
    """Inserts most of the rows, reads, edits at random, reads again, and holds the difference against what was done.

    Args:
        run: Runs statements.
        source: Where the table ``keys_ (k, n, v)`` is.
        way: How it is read.
        rows: The literals of the keys, the number of each row being its place.
        seed: Makes it repeatable.
    """
    choice = random.Random(seed)
    everything = list(enumerate(rows))
    choice.shuffle(everything)
    part = max(1, len(rows) // 5)
    held_out, there = everything[:part], everything[part:]

    def insert(new: Sequence[tuple[int, str]]) -> str:
        return "INSERT INTO keys_ (k, n, v) VALUES " + ", ".join(f"({key}, {number}, 0)" for number, key in new)

    run(insert(there))
    before = read_once(source, way)
    assert sorted(int(row["n"]) for row in values(before)) == sorted(number for number, _ in there)
    numbers_there = [number for number, _ in there]
    updated = set(choice.sample(numbers_there, min(part, len(there))))
    deleted = set(choice.sample(sorted(set(numbers_there) - updated), min(part, len(there) - len(updated))))
    run(
        f"UPDATE keys_ SET v = v + 1 WHERE n IN ({', '.join(map(str, updated))})",
        f"DELETE FROM keys_ WHERE n IN ({', '.join(map(str, [*deleted, -1]))})",
        insert(held_out),
    )
    after = read_once(source, way)
    found = diff(before, after, table="keys_")
    inserted = {number for number, _ in held_out}
    expected = {("inserted", number) for number in inserted} | {("deleted", number) for number in deleted}
    if found.identity == "by content":
        expected |= {(verb, number) for number in updated for verb in ("inserted", "deleted")}
    else:
        expected |= {("updated", number) for number in updated}
    assert numbers(found) == expected
    return found


def shapes(kind: str, literals: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """The column as a key by itself, and as the first part of one."""
    return [
        (f"(k {kind} NOT NULL, n int NOT NULL, v int, PRIMARY KEY (k))", literals),
        (f"(k {kind} NOT NULL, n int NOT NULL, v int, PRIMARY KEY (k, n))", [*literals] * COPIES),
    ]


def texts(*plain: str) -> list[str]:
    return [f"'{text}'" for text in plain]


WORDS = texts(
    "", "a", "B", "c", "Z", "zz", "Öl", "ß1", "10", "9", "-1", "a-b", "ab", "Größe", "漢字", "~", "_", "x y", "é"
)
DATES = texts("1000-01-01", "1582-10-15", "1969-12-31", "1970-01-01", "2000-02-29", "2024-07-01", "9999-12-31")

MARIADB: list[Case] = [
    ("enum('zeta','Alpha','beta','10','9')", texts("zeta", "Alpha", "beta", "10", "9")),
    ("set('z','a','m','10')", texts("", "z", "a", "z,a", "m", "z,m", "a,m", "10", "z,10")),
    ("bit(9)", [str(number) for number in (0, 1, 255, 256, 511)]),
    ("tinyint", [str(number) for number in range(-128, 128, 17)]),
    ("bigint", ["-9223372036854775808", "-1", "0", "1", "9223372036854775807"]),
    ("bigint unsigned", ["0", "1", "9223372036854775807", "9223372036854775808", "9223372036854775809", "18446744073709551615"]),
    ("decimal(38,10)", ["-1234567890123456789012345678.0000000001", "-0.5", "0", "0.0000000001", "1.10", "9999999999999999999999999999"]),
    ("float", ["-3.4e38", "-1.5", "0", "0.1", "16777217", "3.4e38"]),
    ("double", ["-1e308", "-1.5", "-0e0", "5e-324", "0.1", "0.1e0 + 0.2e0", "0.3", "1e308"]),
    ("date", [*DATES, "'0000-00-00'", "'2024-00-00'"]),
    ("datetime(6)", ["'2024-01-01 00:00:00.000001'", "'2024-01-01 00:00:00.000002'", "'0000-00-00 00:00:00'", "'9999-12-31'"]),
    ("timestamp(6)", ["'1971-01-01 00:00:00.000001'", "'2024-10-27 00:30:00'", "'2024-10-27 01:30:00.5'", "'0000-00-00 00:00:00'"]),
    ("time(6)", texts("-838:59:59", "-00:00:00.000001", "00:00:00", "09:00:00", "10:00:00", "100:00:00", "838:59:59")),
    ("year", ["1901", "1970", "2024", "2155"]),
    ("char(9) COLLATE utf8mb4_general_ci", WORDS),
    ("varchar(9) COLLATE utf8mb4_german2_ci", WORDS),
    ("varchar(9) COLLATE utf8mb4_unicode_520_ci", WORDS),
    ("varchar(9) COLLATE utf8mb4_bin", [*WORDS, "'A'", "'b'"]),
    ("varchar(9) COLLATE utf8mb4_nopad_bin", [*WORDS, "'a '", "'a  '", "' a'", "'A'"]),
    ("varchar(9) COLLATE utf8mb4_general_nopad_ci", [*WORDS, "'a '", "'a  '", "' a'"]),
    ("varchar(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci", texts("", "a", "Ä", "z", "Ö", "10", "9")),
    ("varchar(9) CHARACTER SET cp1250", ["_cp1250 x'81'", "_cp1250 x'83'", "_cp1250 x'3F'", "_cp1250 x'8A41'", "_cp1250 x'5A'"]),
    ("varbinary(9)", ["''", "x'00'", "x'0000'", "x'0001'", "x'09'", "x'0A'", "x'41'", "x'61'", "x'5C4E'", "x'FF'"]),
    ("binary(2)", ["x'0000'", "x'0001'", "x'4100'", "x'4120'", "x'FFFF'"]),
    ("uuid", texts("00000000-0000-0000-0000-000000000000", "f0000000-0000-1000-8000-000000000001", "10000000-0000-1000-8000-0000000000ff")),
    ("inet6", texts("::", "::1", "2001:db8::1", "ff02::1", "::ffff:1.2.3.4")),
]  # fmt: skip

POSTGRES: list[Case] = [
    ("smallint", [str(number) for number in (-32768, -1, 0, 1, 32767)]),
    ("bigint", ["-9223372036854775808", "-1", "0", "9", "10", "9223372036854775807"]),
    ("numeric", ["'-Infinity'", "-1.50", "0", "0.000000000000000000001", "1.10", "1e100", "'Infinity'", "'NaN'"]),
    ("float8", ["'-Infinity'", "-1e308", "'-0'::float8", "5e-324", "0.1", "0.1::float8 + 0.2::float8", "0.3", "'Infinity'", "'NaN'"]),
    ("float4", ["'-Infinity'", "-1.5", "0", "0.1", "16777216", "'NaN'"]),
    ("boolean", ["false", "true"]),
    ('text COLLATE "C"', [*WORDS, "'A'", "'b'", "'a '"]),
    ('text COLLATE "und-x-icu"', [*WORDS, "'A'", "'b'", "'a '"]),
    ("text COLLATE no_case", WORDS),
    ("citext", WORDS),
    ("varchar(9)", [*WORDS, "'a '", "' a'", "E'a\\tb'", "E'\\\\N'", "E'a\\nb'"]),
    ("char(9)", WORDS),
    ("name", WORDS),
    ('"char"', texts("", "a", "B", "~")),
    ("bytea", [r"'\x'", r"'\x00'", r"'\x0001'", r"'\x09'", r"'\x5c4e'", r"'\xff'"]),
    ("date", [*DATES, "'infinity'", "'-infinity'", "'0044-03-15 BC'"]),
    ("time", texts("00:00:00", "09:00:00.000001", "10:00", "23:59:59.999999", "24:00:00")),
    ("timetz", texts("12:00:00+00", "12:00:00+02", "10:00:00+00", "12:00:00-05:30", "24:00:00+00")),
    ("timestamp", texts("-infinity", "0001-01-01 BC", "2024-01-01", "2024-01-01 00:00:00.000001", "infinity")),
    ("timestamptz", texts("-infinity", "2024-10-27 00:30:00+00", "2024-10-27 02:30:00+01", "infinity")),
    ("interval", texts("-1 day", "0", "1 hour", "1 day", "1 mon", "1 year 2 mons -3 days 04:05:06.789")),
    ("uuid", texts("00000000-0000-0000-0000-000000000000", "f0000000-0000-1000-8000-000000000001", "10000000-0000-1000-8000-0000000000ff")),
    ("inet", texts("10.0.0.1", "10.0.0.1/8", "9.0.0.1", "::1", "2001:db8::1")),
    ("cidr", texts("10.0.0.0/8", "10.0.0.0/24", "9.0.0.0/8")),
    ("macaddr", texts("08:00:2b:01:02:03", "ff:00:2b:01:02:03")),
    ("int[]", texts("{}", "{1}", "{1,NULL}", "{10}", "{9}", "{{1,2},{3,4}}")),
    ("text[]", ["'{}'", "'{a}'", "'{B}'", "ARRAY[E'a\\tb']", "ARRAY['']", "'{NULL}'"]),
    ("pair", ["ROW(1, 'a')", "ROW(1, 'B')", "ROW(9, NULL)", "ROW(10, '')", "ROW(NULL, NULL)"]),
    ("mood", texts("zeta", "Alpha", "beta")),
    ("positive", ["1", "1.50", "10", "9"]),
    ("bit(3)", ["B'000'", "B'101'", "B'111'"]),
    ("varbit", ["B'1'", "B'10'", "B'011'"]),
    ("money", ["-1.5", "0", "9", "10"]),
    ("oid", ["0", "1", "4294967295"]),
    ("jsonb", texts("1", "1.0e1", '"a"', "[1, 2]", "{}", "null")),
    ("tsvector", texts("", "a b", "b")),
    ("int4range", texts("empty", "[1,2)", "(,)", "[9,10)")),
]  # fmt: skip

SQLITE: list[Case] = [
    ("INTEGER", ["-9223372036854775808", "-1", "0", "9", "10", "9223372036854775807"]),
    ("TEXT", [*WORDS, "'A'", "'b'", "'a '"]),
    ("TEXT COLLATE NOCASE", [*WORDS, "'a '"]),
    ("TEXT COLLATE RTRIM", [*WORDS, "'A'", "' a'"]),
    ("REAL", ["-9e999", "-1.5", "-0.0", "5e-324", "0.1", "0.1 + 0.2", "0.3", "1e308", "9e999"]),
    ("BLOB", ["x''", "x'00'", "x'0001'", "x'09'", "x'5C4E'", "x'FF'"]),
    ("", ["1", "1.5", "'1'", "'a'", "x'61'", "x'31'", "-1", "9e999", "''", "x''"]),
    ("NUMERIC", ["1", "1.5", "'a'", "x'61'", "10", "9"]),
]


@pytest.fixture(scope="module")
def postgres_types(postgres: SqlServer) -> SqlServer:
    postgres.run(
        "CREATE EXTENSION citext", "CREATE COLLATION no_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TYPE pair AS (a int, b text)", "CREATE TYPE mood AS ENUM ('zeta', 'Alpha', 'beta')",
        "CREATE DOMAIN positive AS numeric CHECK (value > 0)",
    )  # fmt: skip
    return postgres


@pytest.mark.parametrize("way", ["never", "always"])
@pytest.mark.parametrize("case", POSTGRES, ids=lambda case: str(case[0]))
def test_postgres(postgres_types: SqlServer, case: Case, way: Way) -> None:
    for table, rows in shapes(*case):
        postgres_types.run("DROP TABLE IF EXISTS keys_", f"CREATE TABLE keys_ {table}")
        found = random_edits(postgres_types.run, postgres_types, way, rows, seed=table)
        assert "primary key" in found.identity


@pytest.mark.parametrize("way", ["never", "always"])
@pytest.mark.parametrize("by", ["streamed", "odbc"])
@pytest.mark.parametrize("case", MARIADB, ids=lambda case: str(case[0]))
def test_mariadb(mariadb: SqlServer, case: Case, by: str, way: Way) -> None:
    source = mariadb if by == "streamed" else mariadb.odbc + MARIADB_BY_ODBC

    def run(*statements: str) -> None:
        mariadb.run("SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'", "SET time_zone = '+00:00'", *statements)

    for table, rows in shapes(*case):
        run("DROP TABLE IF EXISTS keys_", f"CREATE TABLE keys_ {table}")
        found = random_edits(run, source, way, rows, seed=table)
        assert "primary key" in found.identity


@pytest.mark.parametrize("case", SQLITE, ids=lambda case: str(case[0]))
@pytest.mark.parametrize("end", ["", " WITHOUT ROWID"])
def test_sqlite(tmp_path: Path, case: Case, end: str) -> None:
    for number, (table, rows) in enumerate(shapes(*case)):
        path = tmp_path / f"{number}.db"
        run = sqlite(path)
        run(f"CREATE TABLE keys_ {table}{end}")
        found = random_edits(run, f"sqlite:{path}", "never", rows, seed=table)
        assert "primary key" in found.identity


def sqlite(path: Path) -> Run:
    def run(*statements: str) -> None:
        with sqlite3.connect(path) as session:
            for statement in statements:
                session.execute(statement)
        session.close()

    return run


NULLS = ["NULL", "NULL", "NULL", "1", "2", "3", "10", "9", "-1", "0"]
UNPROVEN: dict[str, list[tuple[str, str]]] = {
    "postgres": [
        ("(k int, n int, v int, UNIQUE (k))", ""),
        ("(k int, n int, v int, UNIQUE NULLS NOT DISTINCT (k, n))", ""),
        ("(k int, n int, v int)", "CREATE UNIQUE INDEX one ON keys_ ((k + 1))"),
        ("(k int, n int NOT NULL, v int)", "CREATE UNIQUE INDEX one ON keys_ (n) WHERE k > 0"),
    ],
    "mariadb": [
        ("(k int, n int, v int, UNIQUE (k))", ""),
        ("(k varchar(9), n int, v int, UNIQUE (k(1), n))", ""),
        ("(k int, n int, v int, w int AS (k + 1) PERSISTENT, UNIQUE (w))", ""),
    ],
    "sqlite": [
        ("(k int PRIMARY KEY, n int, v int)", ""),
        ("(k INTEGER PRIMARY KEY DESC, n int, v int)", ""),
        ("(k int, n int, v int, UNIQUE (k))", ""),
        ("(k int, n int, v int)", "CREATE UNIQUE INDEX one ON keys_ (k + 1)"),
        ("(k int, n int NOT NULL, v int)", "CREATE UNIQUE INDEX one ON keys_ (n) WHERE k > 0"),
    ],
}


@pytest.mark.parametrize(
    ("engine", "table", "index"), [(engine, *case) for engine, cases in UNPROVEN.items() for case in cases]
)
def test_what_may_hold_null_twice_or_is_unique_in_part_is_no_key(
    engine: str, table: str, index: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if engine == "sqlite":
        run, source = sqlite(tmp_path / "k.db"), f"sqlite:{tmp_path / 'k.db'}"
    else:
        source = request.getfixturevalue(engine)
        run = source.run
        run("DROP TABLE IF EXISTS keys_")
    run(f"CREATE TABLE keys_ {table}", *([index] if index else []))
    found = random_edits(run, source, "always", NULLS, seed=table)
    assert found.identity == "by content"


def test_a_key_that_descends_or_is_a_long_text(mariadb: SqlServer) -> None:
    for table in (
        "(k enum('z','a','m') NOT NULL, n int NOT NULL, v int, PRIMARY KEY (k DESC, n))",
        "(k longtext NOT NULL, n int NOT NULL, v int, UNIQUE (k))",
    ):
        mariadb.run("DROP TABLE IF EXISTS keys_", f"CREATE TABLE keys_ {table}")
        rows: list[Any] = [f"CONCAT(REPEAT('x', 3000), '{number}')" for number in range(40)]
        if "enum" in table:
            rows = texts("z", "a", "m") * 12
        assert "key" in random_edits(mariadb.run, mariadb, "always", rows, seed=table).identity


def test_an_enum_in_the_key_of_a_table_of_many_rows(mariadb: SqlServer) -> None:
    """As a program has it: 45,000 rows, a key that sorts by the enumeration's places."""
    mariadb.run(
        "DROP TABLE IF EXISTS keys_",
        "CREATE TABLE keys_ (k enum('zeta','Alpha','beta') NOT NULL, n int NOT NULL, v int, PRIMARY KEY (k, n))",
        "INSERT INTO keys_ SELECT 1 + seq % 3, seq, 0 FROM seq_1_to_45000",
    )
    for way in ("never", "always"):
        before = read_once(mariadb, way)
        mariadb.run("UPDATE keys_ SET v = v + 1 WHERE n IN (1, 2, 3, 22500, 44999, 45000)")
        found = diff(before, read_once(mariadb, way), table="keys_")
        assert numbers(found) == {("updated", n) for n in (1, 2, 3, 22500, 44999, 45000)}
