"""Editing tables byte by byte: in every dialect the result is readable, and another state only where it should be."""

from __future__ import annotations

import struct

import pytest

from tests.validators.dbf_files import Dbt, F, Fpt, Table
from validators.changes import CellState, Unreadable
from validators.dbf import TableState, load_table
from validators.mutate.dbf_rows import DbfRows
from validators.mutate.sql_rows import SqlRows
from validators.sql.form import Form
from validators.sql.table import Column, SqlState, row_of
from validators.sql.table import Shape as SqlShape

PLAIN = Table(
    [F("NR", "C", 4), F("NAME", "C", 10), F("N", "N", 6, 2), F("D", "D", 8), F("L", "L", 1), F("F", "F", 8, 3)],
    [b"0001" + b"M\x81ller".ljust(10) + b" 12.50" + b"20240301" + b"T" + b"   1.500",
     b"0002" + b"".ljust(10) + b"".ljust(6) + b"".ljust(8) + b" " + b"".ljust(8),
     b"0003" + b"Weber".ljust(10) + b"  9.99" + b"20231231" + b"F" + b"   0.001"],
    language=0x02,
)  # fmt: skip
OLDEST = Table(
    [field for field in PLAIN.fields if field.type in "CNL"],
    [row[:20] + row[28:29] for row in PLAIN.rows],
    version=0x02,
)
BINARY = Table(
    [F("I", "I", 4), F("B", "B", 8), F("Y", "Y", 8, 4), F("T", "T", 8), F("V", "V", 6)],
    [struct.pack("<i", 7) + struct.pack("<d", 2.5) + struct.pack("<q", 12500) + struct.pack("<ii", 2460000, 1000) + b"abcdef"],
    version=0x32,
)  # fmt: skip


def edited(state: TableState) -> DbfRows:
    return DbfRows(state, None)


def value(rows: DbfRows, at: int, name: str) -> object:
    table = load_table(rows.state())
    cell = table.row(at)[name]
    return cell.value if cell.state is CellState.VALUE else cell.state


@pytest.mark.parametrize("table", [PLAIN, BINARY, OLDEST, PLAIN.with_(version=0x8B)])
def test_every_field_gets_another_readable_value(table: Table) -> None:
    state = table.state()
    names = load_table(state).by_name
    for name in names:
        for at in range(len(table.rows)):
            rows = edited(state)
            assert rows.spoil(at, name), name
            now, was = load_table(rows.state()), load_table(state)
            assert now.row(at)[name].state is CellState.VALUE
            assert not now.row(at)[name].same_value(was.row(at)[name])
            others = [(row, field) for row in range(len(table.rows)) for field in names if (row, field) != (at, name)]
            assert all(now.row(row)[field] == was.row(row)[field] for row, field in others)


def test_values_go_wrong_by_little() -> None:
    rows = edited(PLAIN.state())
    for name in ("NAME", "N", "D", "L"):
        assert rows.spoil(0, name)
    assert [str(value(rows, 0, name)) for name in ("NAME", "N", "D", "L")] == ["Mülles", "12.51", "2024-02-29", "False"]


def test_clearing_leaves_a_blank_and_a_blank_alone() -> None:
    rows = edited(PLAIN.state())
    assert all(rows.clear(0, name) for name in ("NAME", "N", "D", "L", "F"))
    assert {value(rows, 0, name) for name in ("NAME", "N", "D", "L", "F")} == {CellState.BLANK}
    assert not any(rows.clear(1, name) for name in ("NAME", "N", "D", "L", "F"))


def test_rows_come_and_go_with_the_count() -> None:
    rows = edited(PLAIN.state())
    assert rows.double(0) == 3
    assert rows.flag(1)
    rows.remove(2)
    table = load_table(rows.state())
    assert (len(table), table.count, table.uncounted) == (3, 3, 0)
    assert [(str(table.row(at)["NR"].value), table.live(at)) for at in range(3)] == [
        ("0001", True), ("0002", False), ("0001", True),
    ]  # fmt: skip
    assert table.tail() == b"\x1a"


def test_a_number_is_spelt_as_the_one_there() -> None:
    rows = edited(PLAIN.with_(rows=[b"0001" + b"17".ljust(10) + b" 12.00" + b"20240301" + b"T" + b"   1.500"]).state())
    assert all(rows.number(0, name, 105) for name in ("NR", "NAME", "N"))
    assert [str(value(rows, 0, name)) for name in ("NR", "NAME", "N")] == ["0105", "105", "105.00"]
    assert not rows.number(0, "D", 5)
    assert not rows.number(0, "NR", 123456)


def test_a_null_becomes_a_value() -> None:
    fields = [F("A", "C", 4, flags=2), F("_NullFlags", "0", 1, flags=1)]
    rows = edited(Table(fields, [b"    \x01"], version=0x30).state())
    assert rows.spoil(0, "A")
    assert value(rows, 0, "A") == "X"


def fpt() -> TableState:
    memo = Fpt()
    first, second = memo.add("Erste Notiz, lang".encode("cp850")), memo.add(b"Zweite")
    table = Table([F("NR", "C", 2), F("TEXT", "M", 4)], [b"01" + first, b"02" + second, b"03" + bytes(4)], version=0x30)
    return table.with_(memo=memo.bytes(), kind="fpt").state()


def dbt(version: int) -> TableState:
    memo = Dbt(measured=version == 0x8B)
    first, second = memo.add("Erste Notiz, lang".encode("cp850")), memo.add(b"Zweite")
    fields = [F("NR", "C", 2), F("TEXT", "M", 10)]
    table = Table(fields, [b"01" + first, b"02" + second, b"03" + b" " * 10], version=version)
    return table.with_(memo=memo.bytes(), kind="dbt").state()


@pytest.mark.parametrize("state", [fpt(), dbt(0x83), dbt(0x8B)], ids=["fpt", "dbt III", "dbt IV"])
def test_memos_are_appended_and_read_back(state: TableState) -> None:
    rows = edited(state)
    assert rows.spoil(0, "TEXT")
    assert value(rows, 0, "TEXT") == "Erste Notiz, lanh"
    rows = edited(state)
    assert rows.cut(0, "TEXT")
    assert value(rows, 0, "TEXT") == "Erste No"
    rows = edited(state)
    assert rows.take(0, "TEXT", edited(state), 1)
    assert value(rows, 0, "TEXT") == "Zweite"
    assert value(rows, 1, "TEXT") == "Zweite"
    rows = edited(state)
    assert rows.clear(0, "TEXT")
    assert value(rows, 0, "TEXT") is CellState.BLANK
    assert not rows.clear(2, "TEXT")
    assert not rows.cut(2, "TEXT")
    assert rows.spoil(2, "TEXT")
    assert value(rows, 2, "TEXT") == "X"
    assert rows.state().memo != state.memo


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(Unreadable):
        edited(TableState(None, None, None, "T.DBF"))
    with pytest.raises(Unreadable):
        edited(TableState(b"\x03" * 40, None, None, "T.DBF"))


# --- SQL --------------------------------------------------------------------------------------------------------------

FORMS = {
    Form.TEXT: "Huber\tHans", Form.CHAR: "Huber  ", Form.NUMBER: "12.50", Form.BOOL: "t", Form.DATE: "2026-03-01",
    Form.TIME: "12:30:00", Form.DATETIME: "2026-03-01 12:30:00", Form.INSTANT: "2026-03-01 12:30:00+01",
    Form.BYTES: "\\xdeadbeef", Form.RAW_TEXT: "4142", Form.DYNAMIC: "i42",
}  # fmt: skip


def sql(order: tuple[str, ...] = ("id",)) -> SqlState:
    columns = [Column("id", "integer", False, Form.NUMBER), *(Column(f.name, f.value, True, f) for f in FORMS)]
    line = "\t".join(["1", *(text.replace("\\", "\\\\").replace("\t", "\\t") for text in FORMS.values())])
    empty = "\t".join(["2", *("\\N" for _ in FORMS)])
    return SqlState("t", True, tuple(columns), (), order, f"{line}\n{empty}\n".encode(), 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("at", [0, 1])
def test_every_sql_field_gets_another_readable_value(form: Form, at: int) -> None:
    state = sql()
    rows = SqlRows(state)
    assert rows.spoil(at, form.name)
    shape = SqlShape(state.columns)
    lines = rows.state().rows[:].split(b"\n")
    now, was = row_of(shape, lines[at]), rows.row(at)
    assert now[form.name].state is CellState.VALUE
    assert [name for name in now if not now[name].same_value(was[name])] == [form.name]


def test_sql_fields_are_cleared_to_null() -> None:
    rows = SqlRows(sql())
    assert rows.clear(0, "TEXT")
    assert not rows.clear(1, "TEXT")
    assert b"\\N" in rows.state().rows[:].split(b"\n")[0]


def test_sql_rows_keep_their_order_and_count() -> None:
    rows = SqlRows(sql())
    assert rows.double(0) == 1
    assert rows.number(1, "id", 7)
    assert rows.state().count == 3
    assert [line[:1] for line in rows.state().rows[:].split(b"\n")] == [b"1", b"7", b"2", b""]
    rows = SqlRows(sql(order=()))
    assert rows.number(0, "id", 7)
    assert [line[:1] for line in rows.state().rows[:].split(b"\n")] == [b"2", b"7", b""]
    assert not rows.flag(0)
    with pytest.raises(Unreadable):
        SqlRows(SqlState("t", False))
