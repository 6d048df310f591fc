"""Real tables that nobody here wrote; only collected where ``LEGACYPROOF_CORPUS`` names the folder that holds them."""

from __future__ import annotations

import os
import re
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.validators.dbf_files import spec
from validators.changes import CellState, Kind, Unreadable
from validators.dbf import Table, TableState, diff_tables, load_table

_ROOT = os.environ.get("LEGACYPROOF_CORPUS", "")
FOLDER = Path(_ROOT) / "dbf"
if not _ROOT or not FOLDER.is_dir():
    pytest.skip("LEGACYPROOF_CORPUS names no folder of real tables", allow_module_level=True)

TABLES = sorted(
    path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix.lower() in (".dbf", ".dbc")
)
ENCODINGS = {"dbase_83.dbf": "cp1252", "dbase_f5.dbf": "cp850"}
MEMOS = {".dbt": "dbt", ".fpt": "fpt", ".dct": "fpt"}


@cache
def state(name: str) -> TableState:
    path = FOLDER / name
    memos = [other for other in path.parent.iterdir() if other.stem == path.stem and other.suffix.lower() in MEMOS]
    memo = memos[0] if memos else None
    kind = MEMOS[memo.suffix.lower()] if memo else None
    return TableState(path.read_bytes(), memo.read_bytes() if memo else None, kind, path.name)  # type: ignore[arg-type]


def load(name: str) -> Table:
    return load_table(state(name), ENCODINGS.get(name))


@pytest.mark.parametrize("name", TABLES)
def test_every_value_of_every_table(name: str) -> None:
    """All records read whole; what stays undecodable has its reason."""
    table = load(name)
    assert table.uncounted == 0
    assert not any("does not have" in warning for warning in table.warnings)  # each type is one of its dialect
    without_memo = table.memo is None
    for row, _ in table.views():
        assert len(row) == len(table.fields)
        for field, cell in row.items():
            assert cell.state is not CellState.UNDECODABLE or (without_memo and cell.hint == "the memo file is missing"), (
                field, cell,
            )  # fmt: skip
            assert not isinstance(cell.value, datetime) or cell.value.microsecond == 0


@pytest.mark.parametrize("name", TABLES)
def test_a_table_equals_itself(name: str) -> None:
    found = diff_tables(state(name), state(name), spec(), observable="t")
    assert (found.changes, found.notes) == ((), ())


@pytest.mark.parametrize("name", [name for name in TABLES if (FOLDER / f"{Path(name).stem}_summary.txt").exists()])
def test_summaries(name: str) -> None:
    summary = (FOLDER / f"{Path(name).stem}_summary.txt").read_text()
    table = load(name)
    assert int(re.search(r"Records: (\d+)", summary)[1]) == len(table)  # type: ignore[index]
    assert int(re.search(r"Type: \((\w+)\)", summary)[1], 16) == table.version  # type: ignore[index]
    if encoding := re.search(r"Encoding: (\S+)", summary):
        assert encoding[1] == table.encoding
    fields = re.findall(r"^(\S+) +([A-Z0]) +(\d+) +(\d+)\s*$", summary, re.MULTILINE)
    expected = [
        (name, kind, int(length), int(decimals)) for name, kind, length, decimals in fields if name != "_NullFlags"
    ]
    found = [(field.name.split("#")[0], field.type, field.length, field.decimals) for field in table.fields]
    if table.version == 0x02:  # the library behind the summaries does not read dBASE II's decimals
        found = [(*field[:3], 0) for field in found]
    assert found == expected


@pytest.mark.parametrize(("name", "number"), [("dbase_83", 0), ("dbase_83", 9), ("dbase_83_missing_memo", 0)])
def test_records_of_dbase_3(name: str, number: int) -> None:
    expected = YAML(typ="safe").load((FOLDER / f"{name}_record_{number}.yml").read_text())
    row = list(load(f"{name}.dbf").row(number).values())
    for cell, value in zip(row, expected, strict=True):
        if value is None:
            assert cell.hint == "the memo file is missing"
        elif isinstance(value, bool) or cell.kind is not Kind.NUMBER:
            assert cell.value == value
        else:
            assert cell.value == Decimal(str(value))


@pytest.mark.parametrize(
    ("name", "number", "field", "value"),
    [
        ("dbase_02.dbf", 0, "PAYRATE", Decimal(6)), ("dbase_02.dbf", 0, "LAST", "Stegman"), ("dbase_03.dbf", 0, "Date_Visit", date(2005, 7, 12)),
        ("dbase_03.dbf", 0, "Point_ID#2", Decimal(401)), ("dbase_03_cyrillic.dbf", 0, "ШАР", "Номер"), ("dbase_03_cyrillic.dbf", 1, "ПЛОЩА", Decimal("99.99")),
        ("cp1251.dbf", 0, "NAME", "амбулаторно-поликлиническое"), ("dbase_30.dbf", 0, "CLASSES", "Domestic Life\r\nWeddings\r\n"),
        ("dbase_31.dbf", 0, "UNITPRICE", Decimal(18)), ("dbase_31.dbf", 0, "DISCONTINU", False), ("dbase_32.dbf", 0, "NAME", "Bad Meets Evil"),
        ("dbase_8b.dbf", 0, "MEMO", "First memo\r\n"), ("dbase_8b.dbf", 0, "FLOAT", Decimal("1.23456789012346")), ("dbase_8c.dbf", 0, "ID", Decimal(1)),
        ("dbase_8c.dbf", 0, "Length CM", Decimal(100)), ("dbase_8c.dbf", 1, "Name", "Giant Maori Wrasse"), ("dbase_f5.dbf", 0, "COMN", "baix penedès"),
        ("foxprodb/calls.dbf", 0, "CALL_DATE", datetime.fromisoformat("1994-11-21 13:35:39")), ("mazovia.dbf", 0, "A2", "English"),
    ],
)  # fmt: skip
def test_known_values(name: str, number: int, field: str, value: object) -> None:
    assert load(name).row(number)[field].value == value


@pytest.mark.parametrize("name", ["FOXPRO-DB-TEST.DCT", "FOXPRO-DB-TEST.DCX", "calls.CDX", "calls.FPT"])
def test_other_files_are_no_tables(name: str) -> None:
    with pytest.raises(Unreadable):
        load_table(TableState((FOLDER / "foxprodb" / name).read_bytes(), None, None, name))


@pytest.mark.parametrize("name", TABLES)
def test_one_byte_of_a_record_is_one_change(name: str) -> None:
    """Flipping the deletion flag of a record is told as that, in a table of any kind."""
    before = load(name)
    if not len(before) or not before.live(0):
        pytest.skip("no live first record")
    data = bytearray(state(name).dbf or b"")
    data[before.header_length] = ord("*")
    after = TableState(bytes(data), state(name).memo, state(name).memo_kind, name)
    found = diff_tables(state(name), after, spec(encoding=ENCODINGS.get(name)), observable="t")
    assert [(change.verb, change.position) for change in found.changes] == [("deleted", 1)]
