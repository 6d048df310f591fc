"""What holds on every server: one moment for all tables, keys, long values, names, open transactions, no password in sight."""

from __future__ import annotations

import string
import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.sql.child import connect_source
from runner.sql.snapshot import read_tables
from tests.peers.sql_servers import PASSWORD, SqlServer
from tests.sql.helpers import MARIADB_BY_ODBC, Way, attempt, diff, edit, read, source, spec, told, values
from validators.changes import ContractFault
from validators.snapshot import UnreadableState
from validators.sql.table import SqlState

WAYS = ["never", "always"]


def quote(server: SqlServer, name: str) -> str:
    sign = "`" if "MariaDB" in server.odbc else '"'
    return sign + name.replace(sign, sign * 2) + sign


@pytest.mark.parametrize("fast", WAYS)
def test_two_tables_are_seen_as_of_one_moment(server: SqlServer, fast: Way) -> None:
    """A writer moves money between two tables; whatever moment is seen, the sum is the same."""
    server.run(
        "DROP TABLE IF EXISTS heads", "DROP TABLE IF EXISTS positions", "CREATE TABLE heads (id int PRIMARY KEY, n int)",
        "CREATE TABLE positions (id int PRIMARY KEY, n int)",
    )  # fmt: skip
    server.run(*(f"INSERT INTO {t} VALUES ({i}, 50)" for t in ("heads", "positions") for i in range(40)))
    stop = threading.Event()

    def write() -> None:
        session = server.connect()
        cursor = session.cursor()
        while not stop.is_set():
            cursor.execute("UPDATE heads SET n = n - 1")
            cursor.execute("UPDATE positions SET n = n + 1")
            session.commit()
        session.close()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            found = attempt(server, "heads", "positions", "heads", fast=fast)
            sums = [sum(int(row["n"]) for row in values(state)) for state in found if isinstance(state, SqlState)]
            assert len(sums) == 3
            assert (sums[0] + sums[1], sums[2]) == (4000, sums[0])
    finally:
        stop.set()
        writer.join()


def test_an_open_transaction_is_a_finding_and_its_rows_are_not_seen(server: SqlServer) -> None:
    server.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    before = read(server, "t")
    assert before.findings == ()
    program = server.connect()
    program.cursor().execute("UPDATE t SET v = 2")
    began = time.monotonic()
    after = read(server, "t")
    assert time.monotonic() - began < 4  # it does not wait for the program
    program.rollback()
    program.close()
    (finding,) = after.findings
    assert "without having committed" in finding
    found = diff(before, after)
    assert (told(found), found.warnings) == ([], (f"after: {finding}",))


def test_keys_come_from_the_contract_then_the_catalogue_then_content(server: SqlServer) -> None:
    server.run(
        "DROP TABLE IF EXISTS k", "CREATE TABLE k (b int NOT NULL, a int NOT NULL, v varchar(20))",
        "INSERT INTO k VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 1, 'y'), (2, 1, 'y')",
    )  # fmt: skip
    bag = read(server, "k")
    assert (bag.keys, bag.order) == ((), ())
    server.run("UPDATE k SET v = 'z' WHERE a = 1 AND b = 1")
    found = diff(bag, read(server, "k"))
    assert (found.identity, sorted(verb for verb, _, _ in told(found))) == ("by content", ["deleted", "inserted"])
    with pytest.raises(ContractFault, match="not unique"):
        diff(bag, bag, key=["b", "a"])
    server.run("DELETE FROM k", "INSERT INTO k VALUES (1, 1, 'x'), (1, 2, 'y'), (2, 1, 'y')")
    server.run("CREATE UNIQUE INDEX wide ON k (a, b)")
    before = read(server, "k")
    assert before.order == ("a", "b")
    server.run("UPDATE k SET v = 'new' WHERE a = 2 AND b = 1")
    found = diff(before, read(server, "k"))
    assert (found.identity, told(found)) == ("key a, b (unique index wide)", [("updated", "a=2, b=1", ("v",))])
    server.run("ALTER TABLE k ADD PRIMARY KEY (b, a)")
    assert read(server, "k").order == ("b", "a")
    with pytest.raises(ContractFault, match="no column A; did you mean a"):
        diff(before, before, key=["A"])


def test_a_key_that_becomes_ambiguous_is_a_finding(server: SqlServer) -> None:
    server.run("DROP TABLE IF EXISTS k", "CREATE TABLE k (n int, v int)", "INSERT INTO k VALUES (1, 1), (2, 2), (3, 3)")
    before = read(server, "k")
    server.run("INSERT INTO k VALUES (1, 9)", "UPDATE k SET n = 3, v = 7 WHERE n = 2")
    found = diff(before, read(server, "k"), key=["n"])
    assert sorted(told(found)) == [("deleted", "n=2", ()), ("inserted", "n=1", ()), ("inserted", "n=3", ())]
    assert any("not unique after the run" in text for text in found.warnings)


@pytest.mark.parametrize("fast", WAYS)
def test_long_values_are_compared_in_full(server: SqlServer, fast: Way) -> None:
    long, blob = ("longtext", "longblob") if "MariaDB" in server.odbc else ("text", "bytea")
    server.run("DROP TABLE IF EXISTS long_", f"CREATE TABLE long_ (id int PRIMARY KEY, t {long}, b {blob})")
    letters = "REPEAT('ü', 100000)"
    octets = "REPEAT('z', 300000)" if "MariaDB" in server.odbc else "decode(repeat('7a', 300000), 'hex')"
    server.run(f"INSERT INTO long_ VALUES (1, {letters}, {octets}), (2, {letters}, {octets})")
    before = read(server, "long_", fast=fast)
    assert [len(row["t"]) for row in values(before)] == [100_000, 100_000]
    server.run("UPDATE long_ SET t = CONCAT(SUBSTRING(t, 1, 99999), 'x') WHERE id = 1")
    tail = (
        "CONCAT(SUBSTRING(b, 1, 299999), 'y')"
        if "MariaDB" in server.odbc
        else r"substring(b, 1, 299999) || '\x79'::bytea"
    )
    server.run(f"UPDATE long_ SET b = {tail} WHERE id = 2")
    found = diff(before, read(server, "long_", fast=fast))
    assert told(found) == [("updated", "id=1", ("t",)), ("updated", "id=2", ("b",))]
    assert edit(found.changes[0], "t")[1] == "ü" * 99_999 + "x"
    assert edit(found.changes[1], "b")[1] == b"z" * 299_999 + b"y"


NAMES = [
    "Order Details", 'a"b', "a`b", "a'b", "a]b", "Größe", "select", "x; DROP TABLE victim; --", "a?b", "a{fn b}", "a%b", "a.b",
    "a\\b", "{call x}", "-- x", "/* x */",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fast", WAYS)
def test_names_are_names_whatever_they_hold(server: SqlServer, name: str, fast: Way) -> None:
    table, column, other = (quote(server, text) for text in (name, f"{name} key", f"{name} value"))
    server.run(
        "DROP TABLE IF EXISTS victim", "CREATE TABLE victim (id int PRIMARY KEY)", f"DROP TABLE IF EXISTS {table}",
        f"CREATE TABLE {table} ({column} int, {other} varchar(20), PRIMARY KEY ({column}))",
        f"INSERT INTO {table} VALUES (1, 'x')",
    )  # fmt: skip
    state = read(server, name, fast=fast)
    assert [list(row) for row in values(state)] == [[f"{name} key", f"{name} value"]]
    assert read(server, "victim").exists
    server.run(f"DROP TABLE {table}")
    assert not read(server, name).exists


@pytest.mark.parametrize(
    "name", ["t'; DROP TABLE t; --", 't" ; DELETE FROM t --', "pg_catalog.pg_authid;", "*", "", " "]
)
def test_a_contract_s_text_never_becomes_sql(server: SqlServer, name: str) -> None:
    server.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    assert not read(server, name).exists
    assert read(server, "t").count == 1


def test_reading_can_write_nothing(server: SqlServer) -> None:
    """The session is read-only whatever the user may do."""
    server.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (id int PRIMARY KEY)")
    mine = server.odbc.replace("UID=reader", "UID=postgres")
    ways = [mine]
    if "MariaDB" in server.odbc:
        mine = f"DRIVER={{MariaDB Unicode}};SOCKET={server.folder / 'socket'};Database=practice;UID=clerk;PWD=x"
        ways = [mine, mine + MARIADB_BY_ODBC]
    for way in ways:
        session, _ = connect_source({"kind": "odbc", "target": way})
        session.begin()
        assert session.find("t") is not None
        with pytest.raises(Exception, match=r"(?i)read[- ]only"):  # of whichever driver
            session.connection.execute("INSERT INTO t VALUES (1)")
        session.connection.close()
    assert server.run("SELECT COUNT(*) FROM t")[0][0] == 0


def test_the_structure_s_change_and_the_rows_changes_are_told_apart(server: SqlServer) -> None:
    server.run(
        "DROP TABLE IF EXISTS s",
        "CREATE TABLE s (id int PRIMARY KEY, v varchar(9))",
        "INSERT INTO s VALUES (1, 'a'), (2, 'b')",
    )
    before = read(server, "s")
    server.run("ALTER TABLE s ADD extra int", "UPDATE s SET v = 'c', extra = 7 WHERE id = 2")
    found = diff(before, read(server, "s"))
    assert told(found) == [("restructured", before.name, ("extra",)), ("updated", "id=2", ("v",))]
    server.run("DROP TABLE s")
    gone = read(server, "s")
    assert [verb for verb, _, _ in told(diff(before, gone))] == ["dropped", "deleted", "deleted"]
    assert [verb for verb, _, _ in told(diff(gone, before))] == ["created", "inserted", "inserted"]
    found = diff(gone, gone)
    assert (found.changes, "neither before nor after" in found.warnings[0]) == ((), True)


def test_no_password_in_any_message(server: SqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (
        server.odbc.replace(PASSWORD[:3], "wrong"), server.odbc.replace("UID=reader", "UID=stranger"),
        server.odbc.replace(str(server.folder), "/nowhere"), server.odbc.replace("Unicode}", "Missing}"),
        server.odbc.replace("Database=p", "Database=missing_p"),
    ):  # fmt: skip
        (state,) = attempt(text, "t")
        assert isinstance(state, UnreadableState)
        secret = source(text).secrets[0]
        assert secret not in state.reason
        assert text not in state.reason
        assert "the SQL source practice" in state.reason
    monkeypatch.setenv("LEGACYPROOF_SQL_PRACTICE", server.odbc)
    states = read_tables({"a": spec("t"), "b": spec("missing")})
    assert PASSWORD not in repr(states)
    assert PASSWORD not in repr(source(server))


VALUES = st.none() | st.text(string.ascii_letters + "äß\t\n\\'\"NULL 😀", max_size=8)
EDITS = st.lists(st.tuples(st.sampled_from(["insert", "update", "delete"]), st.integers(0, 30), VALUES), max_size=12)


@pytest.mark.usefixtures("here")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS)
def test_random_edits_are_found_exactly(server: SqlServer, edits: list[tuple[str, int, str | None]]) -> None:
    server.run("DROP TABLE IF EXISTS r", "CREATE TABLE r (id int PRIMARY KEY, v varchar(20), w int)")
    model: dict[int, str | None] = {}
    session = server.connect()
    cursor = session.cursor()
    marks = "?, ?" if "MariaDB" in server.odbc else "%s, %s"
    mark = marks[0] if marks[0] == "?" else "%s"
    for number in range(0, 30, 2):
        model[number] = f"row {number}"
        cursor.execute(f"INSERT INTO r VALUES ({marks}, 0)", (number, model[number]))
    session.commit()
    before, old = read(server, "r"), dict(model)
    for verb, number, value in edits:
        if verb == "insert" and number not in model:
            cursor.execute(f"INSERT INTO r VALUES ({marks}, 0)", (number, value))
            model[number] = value
        elif verb == "update" and number in model:
            cursor.execute(f"UPDATE r SET v = {mark} WHERE id = {mark}", (value, number))
            model[number] = value
        elif verb == "delete":
            cursor.execute(f"DELETE FROM r WHERE id = {mark}", (number,))
            model.pop(number, None)
    session.commit()
    session.close()
    expected: set[tuple[Any, ...]] = {("deleted", f"id={n}") for n in old.keys() - model.keys()}
    expected |= {("inserted", f"id={n}") for n in model.keys() - old.keys()}
    expected |= {("updated", f"id={n}") for n in old.keys() & model.keys() if old[n] != model[n]}
    found = diff(before, read(server, "r", fast="always"))
    assert {(verb, subject) for verb, subject, _ in told(found)} == expected
    assert len(found.changes) == len(expected)
