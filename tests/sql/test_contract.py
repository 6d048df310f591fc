"""SQL tables in contracts: what the models and checks refuse, and what they let through."""

from __future__ import annotations

import pytest
from jsonschema import Draft202012Validator

from contracts.document import parse
from contracts.json_schema import json_schema
from contracts.load import ContractError, load_text
from contracts.schema import SqlTable
from tests.sql.test_runs import CONTRACT


def test_a_contract_with_sql_tables_loads() -> None:
    contract = load_text(CONTRACT, name="c").contract
    table = contract.observe["patients"]
    assert isinstance(table, SqlTable)
    assert (table.sql, table.table, table.key, table.ignore[0].column) == ("practice", "patients", [], "touched")
    assert list(Draft202012Validator(json_schema()).iter_errors(parse(CONTRACT, "c").data)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- inserted: log", "- purged: log", "is an SQL table, which cannot be `purged`"),
        ("- inserted: log", "- modified: log", "is an SQL table, which cannot be `modified`"),
        ("table: log}", "table: patients}", "`patients` is the same table"),
        ("touched, because: set by every update", "touched", "because"),
        (
            "table: patients, ignore",
            "table: patients, key: [id, touched], ignore",
            "is in the key and cannot be ignored",
        ),
        ("table: patients, ignore", "table: patients, key: [id, id], ignore", "named twice"),
        ("sql: practice, table: log", "sql: 'DRIVER={x};PWD=y', table: log", "sql"),
        ("table: log}", "table: log, encoding: cp850}", "encoding"),
        ("sql: practice, table: log", "sql: practice, tabel: log", "tabel"),
    ],
)
def test_what_is_refused(old: str, new: str, message: str) -> None:
    assert old in CONTRACT
    with pytest.raises(ContractError) as caught:
        load_text(CONTRACT.replace(old, new, 1), name="c")
    assert message in str(caught.value)
