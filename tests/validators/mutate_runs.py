"""Good runs of the dental program as they would be recorded, built from its first data without a machine."""

from __future__ import annotations

import functools
import hashlib
import struct
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from contracts.load import load_text
from validators.dbf import TableState
from validators.files import FileItem, TreeState
from validators.mutate import Golden
from validators.snapshot import State
from validators.windows import WindowItem, WindowsState
from vm_images.apps.dswin import seed

SUITE = Path(__file__).resolve().parents[2] / "contracts/catalog/legacyworld/dswin"
STARTED = datetime(2026, 11, 29, 12, 0, tzinfo=timezone(timedelta(hours=1)))
ENDED = STARTED + timedelta(seconds=20)
TODAY = STARTED.date()
_TABLES = {
    "patients": "PATIENT",
    "counters": "COUNTER",
    "treatments": "LEISTUNG",
    "notes": "DOKU",
    "catalogue": "KATALOG",
}
_COLUMNS: Mapping[str, Sequence[seed.Column]] = {
    "patients": seed.PATIENT, "counters": seed.COUNTER, "treatments": seed.LEISTUNG, "notes": seed.DOKU,
    "catalogue": seed.KATALOG,
}  # fmt: skip
_TIME = 134_000_000_000_000_000
MAIN = WindowItem(65658, 244, "DSWIN.EXE", "DSWinMain", "DSWin - Patientenliste")
TRAY = WindowItem(131120, 180, "explorer.exe", "Shell_TrayWnd", "")


@functools.cache
def first_data() -> dict[str, State]:
    """The state before every task: tables, files and windows."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        seed.write_seed(root)
        (root / "DSWIN.EXE").write_bytes(b"MZ program")
        (root / "DSWIN.LCK").write_bytes(b"user 2026-11-29 12:00:00\r\n")
        (root / "DSWIN.LOG").write_bytes(b"2026-11-29 12:00:00 Programmstart\r\n")
        state: dict[str, State] = {}
        for name, stem in _TABLES.items():
            memo = root / "DATA" / f"{stem}.DBT"
            kept = memo.read_bytes() if memo.exists() else None
            state[name] = TableState(
                (root / "DATA" / f"{stem}.DBF").read_bytes(), kept, "dbt" if kept else None, f"{stem}.DBF"
            )
        items = [_item(root, path) for path in sorted(root.rglob("*"))]
    return {**state, "program": TreeState(True, tuple(items), {}, {}), "screen": WindowsState((MAIN, TRAY))}


def _item(root: Path, path: Path) -> FileItem:
    name = str(path.relative_to(root)).replace("/", "\\")
    if path.is_dir():
        return FileItem(name, "dir", 0, _TIME, 0x10)
    data = path.read_bytes()
    return FileItem(name, "file", len(data), _TIME, 0x20, hashlib.sha256(data).hexdigest())


def with_row(table: State, name: str, row: Mapping[str, Any], memo: str = "") -> TableState:
    """A table with one row more, written as the program does."""
    assert isinstance(table, TableState)
    data = bytearray(table.dbf or b"")
    kept = table.memo
    if memo:
        assert kept is not None
        pointer = len(kept) // 512
        raw = memo.encode("cp850") + b"\x1a\x1a"
        kept = bytes(kept) + raw.ljust(-(-len(raw) // 512) * 512, b"\0")
        kept = struct.pack("<I", len(kept) // 512) + kept[4:]
        row = {**row, "TEXT": str(pointer).rjust(10)}
    record = b" " + b"".join(seed._cell(column, row.get(column.name)) for column in _COLUMNS[name])
    count = struct.unpack_from("<I", data, 4)[0]
    struct.pack_into("<I", data, 4, count + 1)
    data[-1:] = record + b"\x1a"
    return replace(table, dbf=bytes(data), memo=kept)


def with_fields(table: State, name: str, number: int, values: Mapping[str, Any]) -> TableState:
    """A table with other values in the record of a number."""
    assert isinstance(table, TableState)
    data = bytearray(table.dbf or b"")
    header, length = struct.unpack_from("<HH", data, 8)
    at = header + (number - 1) * length + 1
    for column in _COLUMNS[name]:
        if column.name in values:
            data[at : at + column.width] = seed._cell(column, values[column.name])
        at += column.width
    return replace(table, dbf=bytes(data))


def _written(before: Mapping[str, State], after: dict[str, State]) -> dict[str, State]:
    """The state with the tree listing the tables and the log as they are now."""
    tree = after["program"]
    assert isinstance(tree, TreeState)
    data = {f"DATA\\{stem}.DBF": _bytes(after[name], "dbf") for name, stem in _TABLES.items()}
    data |= {"DATA\\DOKU.DBT": _bytes(after["notes"], "memo")}
    changed = after != dict(before)
    log = b"2026-11-29 12:00:00 Programmstart\r\n2026-11-29 12:00:09 gespeichert\r\n"
    if changed:
        data["DSWIN.LOG"] = log
    items = tuple(
        item
        if item.path not in data
        else replace(item, size=len(data[item.path]), sha256=hashlib.sha256(data[item.path]).hexdigest())
        for item in tree.items
    )
    contents = {"DSWIN.LOG": log} if changed else {}
    return {**after, "program": replace(tree, items=items, contents=contents)}


def _bytes(state: State, role: str) -> bytes:
    return bytes(getattr(state, role))


def golden(task: str, change: Callable[[str], str] = lambda text: text) -> Golden:
    """A good run of one of the suite's contracts.

    Args:
        task: The contract's file, without its extension.
        change: Changes the contract's text.
    """
    before = dict(first_data())
    after = dict(before)
    returned: Any = None
    match task:
        case "add-new-patient":
            after["patients"] = with_row(
                after["patients"], "patients",
                {"PATNR": "000104", "NAME": "Muster", "VORNAME": "Erika", "GEBDAT": date(1964, 8, 12), "KASSE": "BARMER",
                 "VERSNR": "1234567890", "AKTIV": True, "ANGELEGT": TODAY},
            )  # fmt: skip
            after["counters"] = with_fields(after["counters"], "counters", 1, {"LAST": 104})
            returned = {"patient_number": "000104"}
        case "add-billing-code":
            after["treatments"] = with_row(
                after["treatments"], "treatments",
                {"LNR": "000151", "PATNR": "000042", "DATUM": TODAY, "ZAHN": "36", "ZIFFER": "2060", "ANZAHL": 2,
                 "FAKTOR": Decimal("2.30"), "BETRAG": Decimal("136.34"), "STATUS": "O"},
            )  # fmt: skip
            after["counters"] = with_fields(after["counters"], "counters", 2, {"LAST": 151})
            after["patients"] = with_fields(after["patients"], "patients", 42, {"SALDO": Decimal("200.72")})
        case "add-patient-documentation":
            text = (
                "Füllung 36 od gelegt, Kofferdam.\r\nPatientin über Überempfindlichkeit aufgeklärt.\r\n"
                "Kontrolle: größerer Aufbau nötig?"
            )
            row = {"DOKNR": "000041", "PATNR": "000023", "DATUM": TODAY, "KUERZEL": "MÜ"}
            after["notes"] = with_row(after["notes"], "notes", row, text)
            after["counters"] = with_fields(after["counters"], "counters", 3, {"LAST": 41})
        case "update-patient-phone":
            values = {"TELEFON": "0221 4710733", "GEAENDERT": TODAY}
            after["patients"] = with_fields(after["patients"], "patients", 58, values)
        case "look-up-patient":
            returned = {
                "patient_number": "000042", "birth_date": "1957-06-11", "telephone": "040 66969137",
                "insurance_number": "E783105495",
            }  # fmt: skip
        case _:
            raise ValueError(task)
    text = change((SUITE / f"{task}.yaml").read_text(encoding="utf-8"))
    contract = load_text(text, name=f"{task}.yaml").contract
    return Golden(contract, before, _written(before, after), returned, STARTED, ENDED)


TASKS = ("add-new-patient", "add-billing-code", "add-patient-documentation", "update-patient-phone", "look-up-patient")
"""The tasks that :func:`golden` knows."""
