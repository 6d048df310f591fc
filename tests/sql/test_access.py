"""Access: what mdbtools cannot read is undecodable and told, never blank or rubbish; the other columns are read."""

from __future__ import annotations

import lzma
import os
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from runner.sql import access
from runner.sql.access import Access
from runner.sql.server import CannotRead, FoundColumn, FoundTable
from tests.sql.helpers import attempt, diff, read, rows, told, values
from validators.changes import Cell, CellState
from validators.snapshot import UnreadableState
from validators.sql.form import Form
from validators.sql.table import cell_of
from validators.values import is_empty

_HERE = Path(__file__).parent / "access"


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., str]:
    """A source: one of the databases, its bytes changed."""

    def make(name: str, change: Callable[[bytes], bytes] = bytes) -> str:
        path = tmp_path / f"{name}.accdb"
        path.write_bytes(change(lzma.decompress((_HERE / f"{name}.accdb.xz").read_bytes())))
        return f"access:{path}"

    return make


CASES: list[tuple[str, str, dict[str, list[Any]], set[str]]] = [
    (
        "calculated", "Table1",
        {"FirstName": ["Bruce", "Bart", "John", "Test"], "Salary": [Decimal(1000000), Decimal(-1), Decimal(0), Decimal(100)],
         "Popularity": [Decimal("50.325"), Decimal("-36.2222"), Decimal("0.0123"), Decimal("102030405060.654321")]},
        {"LastFirst", "LastFirstLen", "MonthlySalary", "IsRich", "AllNames", "WeeklySalary", "SalaryTest", "BoolTest",
         "DecimalTest", "FloatTest", "BigNumTest"},
    ),
    ("extended_date", "Table1", {"Field1": [f"row{n}" for n in range(1, 10)]}, {"DateExt", "DateNormalCalc"}),
    (
        "several_values", "Table1", {"memo-data": [CellState.NULL, "row2-memo", "row3-memo", "row4-memo"]},
        {"VersionHistory_F5F8918F-0A3F-4DA9-AE71-184EE5012880", "multi-value-data", "attach-data"},
    ),
    ("unknown_types", "Test", {"ID": [Decimal(1), Decimal(2), Decimal(3)]}, {"UnknownVar", "UnknownFix", "UnknownComplex"}),
    ("binary", "Test", {}, {"BinAsc", "BinDsc"}),
]  # fmt: skip


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("name", "table", "known", "unread"), CASES, ids=[case[0] for case in CASES])
def test_columns_that_mdbtools_cannot_read_are_told_and_the_others_read(
    database: Callable[..., str], name: str, table: str, known: dict[str, list[Any]], unread: set[str]
) -> None:
    state = read(database(name), table)
    for column, expected in known.items():
        assert [row[column] for row in values(state)] == expected
    assert {column.name for column in state.columns if column.form is Form.UNREAD} == unread
    for row in rows(state):
        assert {c for c, cell in row.items() if not _is_read(cell)} - {"DateNormal"} <= unread
        assert not any(is_empty(row[column]) for column in unread if row[column].state is not CellState.NULL)
    for column in unread:
        assert any(column in text and "not known" in text for text in state.findings)
    assert diff(state, state).changes == ()
    assert any("not known" in text for text in diff(state, state).warnings)


def _is_read(cell: Cell) -> bool:
    return cell.state is not CellState.UNDECODABLE


def test_a_change_beside_a_column_that_is_not_read_is_found(database: Callable[..., str]) -> None:
    before = read(database("calculated"), "Table1")
    wide = [name.encode("utf-16-le") for name in ("Gotham", "Metrop")]
    narrow = [b"\xff\xfeGotham", b"\xff\xfeMetrop"]
    after = read(database("calculated", lambda data: data.replace(*narrow).replace(*wide)), "Table1")
    assert told(diff(before, after)) == [("updated", "ID=1", ("City",))]


def test_bytes_are_cut_off_at_the_first_zero_and_compared_as_far_as_they_came(database: Callable[..., str]) -> None:
    def with_zero(data: bytes) -> bytes:
        return data.replace(b"Some much longer text", b"Some\0much longer text")

    before, after = read(database("binary"), "Test"), read(database("binary", with_zero), "Test")
    assert told(diff(before, after, key=["ID"])) == [("updated", "ID=203", ("BinAsc", "BinDsc"))]
    (cell,) = [row["BinAsc"] for row in rows(after) if row["ID"].value == 203]
    assert (cell.state, cell.raw) == (CellState.UNDECODABLE, b"Some")


@pytest.mark.usefixtures("here")
def test_a_linked_table_is_unreadable_and_not_absent(database: Callable[..., str]) -> None:
    (state,) = attempt(database("linked"), "table2")
    assert isinstance(state, UnreadableState)
    assert "linked table" in state.reason
    assert read(database("linked"), "Table1").exists
    assert not read(database("linked"), "Table3").exists


def test_without_the_programs_that_tell_columns_apart_nothing_is_read(
    database: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (state,) = attempt(database("calculated"), "Table1")
    assert isinstance(state, UnreadableState)
    assert "install mdbtools" in state.reason


class _FakeDriver:
    """A driver that complains on standard error, as mdbtools does."""

    def __init__(self, complaint: str) -> None:
        self.complaint = complaint
        self.converters: dict[int, Any] = {}

    def add_output_converter(self, kind: int, converter: Any) -> None:
        self.converters[kind] = converter

    def cursor(self) -> _FakeDriver:
        return self

    def close(self) -> None:
        return

    def execute(self, _: str) -> None:
        os.write(2, self.complaint.encode())

    def fetchmany(self, _: int) -> list[Any]:
        return [("",)]


def test_what_mdbtools_complains_of_makes_a_table_unreadable() -> None:
    """It gives a blank for a memo that it cannot find, and says so on standard error only."""
    for complaint in ("Warning: incorrect memo length\n", "Unhandled memo field flags = 20\n"):
        driver = _FakeDriver(complaint)
        with pytest.raises(CannotRead, match=complaint.strip()):
            list(Access(driver, Path("x.mdb")).run("SELECT"))
    driver = _FakeDriver("Unknown type for column x: 20\n")
    assert list(Access(driver, Path("x.mdb")).run("SELECT")) == [[("",)]]


@pytest.mark.parametrize(
    ("struct_", "text"),
    [
        (struct.pack("<hHH", 2024, 2, 29), "2024-02-29"),  # SQL_DATE_STRUCT: its column's format is Short Date
        (struct.pack("<hHHHHHI", 2024, 2, 29, 13, 5, 0, 0), "2024-02-29 13:05:00"),
        (struct.pack("<hHHHHHI", 1899, 12, 30, 0, 0, 0, 0), "1899-12-30 00:00:00"),
        (None, None),
    ],
)
def test_moments(struct_: bytes | None, text: str | None) -> None:
    driver = _FakeDriver("")
    Access(driver, Path("x.mdb"))
    assert driver.converters[93](struct_) == text


def test_a_date_whose_time_is_not_given_is_a_date(monkeypatch: pytest.MonkeyPatch) -> None:
    table = FoundTable("", "T", '"T"', [FoundColumn(n, "DATETIME", True, Form.DATETIME, f'"{n}"') for n in ("a", "b")])
    said = "name: a\n\tColumnWidth: 1\n\tFormat: Short Date\n\nname: b\n\tFormat: General Date\n"
    monkeypatch.setattr(Access, "_told", lambda *_: said)
    Access(_FakeDriver(""), Path("x.mdb")).look_closer(table)
    assert [column.form for column in table.columns] == [Form.DATE, Form.DATETIME]
    assert "the day only" in table.findings[0]


@pytest.mark.parametrize("text", ["x" * 16_383, "ü" * 8_191, "漢" * 5_461, "😀" * 4_095])
def test_a_text_as_long_as_the_driver_keeps_is_undecodable(text: str) -> None:
    """The longest that can have come whole, and the shortest that may have been cut off, within four bytes of each other."""
    column = FoundColumn("m", "MEMO", True, Form.TEXT, '"m"')
    table = FoundTable("", "T", '"T"', [column])
    spell = Access(_FakeDriver(""), Path("x.mdb")).spelling(table, column)
    assert (spell("short"), spell(None), table.findings) == ("short", None, [])
    spelt = spell(text)
    assert spelt is not None
    assert len(text.encode()) >= access._MEMO_BYTES
    assert cell_of(Form.TEXT, spelt.encode("utf-8", "surrogateescape")).state is CellState.UNDECODABLE
    assert len(table.findings) == 1
