"""Access databases that nobody here wrote; only collected where ``LEGACYPROOF_CORPUS`` names the folder that holds them."""

from __future__ import annotations

import csv
import io
import os
import subprocess
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.sql.helpers import attempt, diff, read, values
from validators.snapshot import UnreadableState
from validators.sql.table import Key

_ROOT = os.environ.get("LEGACYPROOF_CORPUS", "")
FOLDER = Path(_ROOT) / "access"
if not _ROOT or not FOLDER.is_dir():
    pytest.skip("LEGACYPROOF_CORPUS names no folder of real databases", allow_module_level=True)

NORTHWIND = f"access:{FOLDER / 'nwind.mdb'}"


def exported(path: Path, table: str) -> list[dict[str, str]]:
    """What mdbtools' own exporter says."""
    command = ["mdb-export", "-D", "%Y-%m-%d %H:%M:%S", "-T", "%Y-%m-%d %H:%M:%S", "-b", "strip", str(path), table]
    out = subprocess.run(command, check=True, capture_output=True, timeout=60)
    return list(csv.DictReader(io.StringIO(out.stdout.decode("utf-8", "replace"), newline="")))


def test_orders() -> None:
    state = read(NORTHWIND, "orders")
    assert (state.name, state.count, state.keys) == ("Orders", 830, (Key(("OrderID",), "primary key"),))
    first = values(state)[0]
    assert (first["OrderDate"], first["Freight"]) == (datetime(1994, 8, 4), Decimal("32.38"))  # noqa: DTZ001
    assert {row["ShipCity"] for row in values(state)} >= {"Münster", "Århus", "São Paulo"}
    assert diff(state, state).changes == ()


def test_a_composite_key_in_a_name_with_a_blank_and_numbers_of_single_precision() -> None:
    state = read(NORTHWIND, "Order Details")
    assert state.keys == (Key(("OrderID", "ProductID"), "primary key"),)
    mine = sorted((int(row["OrderID"]), int(row["ProductID"]), row["Discount"]) for row in values(state))
    theirs = sorted(
        (int(row["OrderID"]), int(row["ProductID"]), Decimal(str(round(float(row["Discount"]), 6))))
        for row in exported(FOLDER / "nwind.mdb", "Order Details")
    )
    assert mine == theirs


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_table_has_the_rows_and_texts_that_the_exporter_has(path: Path) -> None:
    listed = subprocess.run(["mdb-tables", "-1", str(path)], check=True, capture_output=True, timeout=60, text=True)
    for table in listed.stdout.splitlines():
        (state,) = attempt(f"access:{path}", table)
        if isinstance(state, UnreadableState):
            pytest.fail(f"{table}: {state.reason}")
        theirs = exported(path, table)
        assert state.count == len(theirs), table
        mine = sorted(str(next(iter(row.values()))) for row in values(state))
        assert len(set(mine)) >= len({next(iter(row.values())) for row in theirs}) - 1, table


def test_dates_that_mdbtools_cannot_read_are_a_finding() -> None:
    state = read(f"access:{FOLDER / 'DateTestDatabase.mdb'}", "DateTest")
    assert [row["DateCol"] for row in values(state)][1] == b"1900-01-00 00:00:00"
    assert "mdbtools cannot read" in state.findings[0]


def test_what_is_no_access_database_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "x.mdb").write_bytes(b"no database" * 1000)
    for path in (tmp_path / "x.mdb", tmp_path / "none.mdb"):
        (state,) = attempt(f"access:{path}", "t")
        assert isinstance(state, UnreadableState), path
