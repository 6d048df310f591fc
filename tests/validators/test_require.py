"""Preconditions against the state before the run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import pytest
from pydantic import TypeAdapter

from contracts.schema import Requirement
from validators.changes import Cell, ContractFault, Kind, Row, Unreadable
from validators.require import unmet

ADAPTER: TypeAdapter[Any] = TypeAdapter(list[Requirement])
NOW = datetime(2026, 11, 29, 9)  # noqa: DTZ001 - local to the guest


class Table:
    def __init__(self, rows: Iterable[tuple[Row, bool]]) -> None:
        self._rows = list(rows)

    def before(self) -> Iterable[tuple[Row, bool]]:
        return iter(self._rows)

    def after(self) -> Iterable[tuple[Row, bool]]:
        raise AssertionError("the state after the run is not known yet")


def row(**fields: str) -> Row:
    return {name: Cell(Kind.TEXT, value) for name, value in fields.items()}


ROWS = {
    "patients": Table([(row(NAME="Muster"), True), (row(NAME="Muster"), False), (row(NAME="Alt"), True)]),
    "screen": Table([(row(title="Patients"), True)]),
}
FILES = {"program": [r"DATA\PATIENT.DBF", r"DATA\PATIENT.CDX", "DSWIN.EXE"]}


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ({"rows": "patients", "where": {"NAME": "Muster"}}, None),
        (
            {"rows": "patients", "where": {"NAME": "Muster"}, "count": 0},
            "no rows of patients with NAME Muster; found: 1",
        ),
        ({"rows": "patients", "count": 2}, None),
        ({"rows": "patients", "count": {"min": 3}}, "at least 3 rows of patients; found: 2"),
        ({"rows": "patients", "count": {"min": 0, "max": 1}}, "0 to 1 rows"),
        ({"windows": "screen", "where": {"title": {"regex": "Pat.*"}}}, None),
        ({"windows": "screen", "where": {"title": "Error"}}, "1 window with title Error; found: 0"),
        ({"files": "program", "path": "dswin.exe"}, None),
        ({"files": "program", "path": r"data\*", "count": 2}, None),
        ({"files": "program", "path": "*.LCK"}, "1 file *.LCK in program; found: 0"),
    ],
)
def test_requirements(requirement: dict[str, Any], problem: str | None) -> None:
    found = unmet(ADAPTER.validate_python([requirement]), rows=ROWS, files=FILES, now=NOW)
    if problem is None:
        assert found == []
    else:
        assert len(found) == 1
        assert problem in found[0]


def test_what_was_not_read_is_unreadable() -> None:
    for requirement in ({"rows": "other"}, {"files": "other", "path": "x"}, {"windows": "other"}):
        with pytest.raises(Unreadable, match="other"):
            unmet(ADAPTER.validate_python([requirement]), rows=ROWS, files=FILES, now=NOW)


def test_an_unknown_field_is_the_contracts_fault() -> None:
    with pytest.raises(ContractFault, match="NAMEE"):
        unmet(ADAPTER.validate_python([{"rows": "patients", "where": {"NAMEE": "x"}}]), rows=ROWS, files=FILES, now=NOW)
