"""Whole runs on a machine, with the program's data in an SQL server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.load import load_text
from runner.agents.base import AgentReport, AgentTask
from runner.record import RunRecord
from runner.store import Campaign
from tests.faults.helpers import run_agent
from tests.peers.sql_servers import PASSWORD, SqlServer
from validators.snapshot import compare

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]

CONTRACT = """
schema: 1
id: practice.change-phone
title: Change a telephone number
application: Practice
domain: dental
state_changing: true
image: dentadesk
instruction: Change the telephone number of patient 2 to 0711-1.
parameters: {phone: "0711-1"}
initial_state:
  summary: The patient is there.
  require:
    - {rows: patients, where: {id: 2}, count: 1}
goal_state: {summary: The number is changed and one line is in the log.}
observe:
  patients: {sql: practice, table: patients, ignore: [{column: touched, because: set by every update}]}
  log: {sql: practice, table: log}
effects:
  expect:
    - updated: patients
      where: {id: 2}
      fields: {phone: "{{phone}}"}
      name: change
    - inserted: log
      fields: {id: {generated: next}, patient: {field: change.id}, text: {regex: "phone .*"}, at: {time: run}}
limits: {timeout: 60s, settle: 2s}
"""


@pytest.fixture(autouse=True)
def tables(server: SqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_SQL_PRACTICE", server.odbc)
    moment = "timestamp(3) NULL" if "MariaDB" in server.odbc else "timestamptz(3)"
    server.run(
        "DROP TABLE IF EXISTS patients", "DROP TABLE IF EXISTS log",
        "CREATE TABLE patients (id int PRIMARY KEY, name varchar(40), phone varchar(20), touched int)",
        f"CREATE TABLE log (id int PRIMARY KEY, patient int, text varchar(40), at {moment})",
        "INSERT INTO patients VALUES (1, 'Muster', '0711-9', 0), (2, 'Größe', NULL, 0)",
        "INSERT INTO log VALUES (7, 1, 'born', NULL)",
    )  # fmt: skip


def run(
    server: SqlServer, folder: Path, *statements: str, claim: str = "success", commit: bool = True
) -> tuple[RunRecord, Campaign, Callable[[], None]]:
    sessions: list[Any] = []

    def act(_: AgentTask) -> AgentReport:
        session = server.connect()
        for statement in statements:
            session.cursor().execute(statement)
        if commit:
            session.commit()
            session.close()
        else:
            sessions.append(session)
        return AgentReport(claim)  # type: ignore[arg-type]

    record, campaign = run_agent(act, folder, change=lambda _: CONTRACT)

    def end() -> None:
        for session in sessions:
            session.rollback()
            session.close()

    return record, campaign, end


GOOD = (
    "UPDATE patients SET phone = '0711-1', touched = touched + 1 WHERE id = 2",
    "INSERT INTO log VALUES (8, 2, 'phone changed', CURRENT_TIMESTAMP)",
)


def test_exactly_the_right_rows_are_a_valid_success(server: SqlServer, tmp_path: Path) -> None:
    record, campaign, _ = run(server, tmp_path, *GOOD)
    verdict = record.verdict
    assert verdict.outcome == "valid_success", verdict.reason
    assert verdict.identities == {"patients": "key id (primary key)", "log": "key id (primary key)"}
    assert [(entry.observable, entry.rule, entry.count) for entry in verdict.ignored] == [
        ("patients", "column touched", 1)
    ]
    # What the verdict rests on is in the evidence, and no password is.
    assert record.before is not None
    assert record.after is not None
    contract = load_text(CONTRACT, name="c").contract
    again = compare(contract.observe, campaign.snapshot(record.before), campaign.snapshot(record.after))
    assert [(c.verb.value, c.subject) for comparison in again for c in comparison.changes] == [
        ("updated", "id=2"), ("inserted", "id=8"),
    ]  # fmt: skip
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or PASSWORD.encode() not in path.read_bytes()
        assert path.is_dir() or server.odbc.encode() not in path.read_bytes()


def test_a_row_too_many_is_an_invalid_success(server: SqlServer, tmp_path: Path) -> None:
    record, _, _ = run(server, tmp_path, *GOOD, "UPDATE patients SET name = 'x' WHERE id = 1")
    assert (record.verdict.outcome, record.verdict.kind) == ("invalid_success", "collateral"), record.verdict.reason
    (entry,) = [entry for entry in record.verdict.ledger if entry.status == "unexplained"]
    assert [(field.field, field.before, field.after) for field in entry.fields if field.changed] == [
        ("name", "Muster", "x")
    ]


def test_what_was_not_committed_is_a_phantom_with_its_reason(server: SqlServer, tmp_path: Path) -> None:
    record, _, end = run(server, tmp_path, *GOOD, commit=False)
    end()
    assert (record.verdict.outcome, record.verdict.kind) == ("invalid_success", "phantom"), record.verdict.reason
    assert any("without having committed" in text for text in record.verdict.warnings)


def test_a_source_that_cannot_be_read_makes_the_run_unscored(
    server: SqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEGACYPROOF_SQL_PRACTICE")
    record, _, _ = run(server, tmp_path)
    assert (record.verdict.outcome, record.verdict.cause, record.agent.status) == ("unscored", "unreadable", "not_run")
    assert "LEGACYPROOF_SQL_PRACTICE" in record.verdict.reason
