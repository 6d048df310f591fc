"""How the ledger grows: 100,000 changes against 100 effects, and half as many changes.

The changes are what a bad night looks like: rows inserted and updated in four tables, files of every sort, windows; most of
them explained by an allow rule, some expected, a few thousand by nobody.
"""

from __future__ import annotations

import gc
import time
from datetime import datetime
from decimal import Decimal
from typing import Any

from contracts.schema import Effects
from validators.changes import Cell, CellState, Change, Comparison, Kind, Verb
from validators.ledger import account
from validators.matchers import RunContext

CHANGES = 100_000
EFFECTS = 100
_TABLES = 4


def effects() -> Effects:
    """A hundred effects of every sort."""
    expect: list[dict[str, Any]] = []
    allow: list[dict[str, Any]] = []
    for number in range(40):
        fields = {"NAME": f"Muster {number}", "PATNR": {"regex": r"\d{6}"}, "BORN": "1964-08-12"}
        expect.append({"inserted": f"table{number % _TABLES}", "fields": fields, "count": {"min": 1, "max": 3}})
    for number in range(20):
        fields = {"LAST": {"is": "changed"}}
        allow.append({"updated": f"table{number % _TABLES}", "where": {"NAME": f"Zähler {number}"}, "fields": fields})
    for number in range(20):
        allow.append({"modified": "program", "path": f"LOGS\\part{number}\\**", "because": "logs of the program"})
    for number in range(10):
        allow.append({"created": "program", "path": f"*.TM{number}", "because": "scratch files"})
    for number in range(EFFECTS - 90):
        expect.append({"created": "program", "path": f"export{number}.txt", "fields": {"size": {"between": [1, 99]}}})
    because = [{**effect, "because": "housekeeping of the program"} for effect in allow]
    return Effects.model_validate({"expect": expect, "allow": because})


def changes(count: int) -> list[Change]:
    """So many changes, always the same."""
    made = []
    for number in range(count):
        table = f"table{number % _TABLES}"
        match number % 10:
            case 0 | 1 | 2:
                row = _row(f"Muster {number % 977}", f"{number:06}", number)
                made.append(Change(table, Verb.INSERTED, f"row {number}", number, after=row))
            case 3 | 4 | 5:
                before = _row(f"Zähler {number % 29}", "000001", 1)
                after = {**before, "LAST": Cell(Kind.NUMBER, Decimal(number))}
                made.append(Change(table, Verb.UPDATED, f"row {number}", number, before, after, changed=("LAST",)))
            case 6 | 7 | 8:
                path = f"LOGS\\part{number % 23}\\day{number}.log"
                made.append(Change("program", Verb.MODIFIED, path, number, _file(path), _file(path)))
            case _:
                path = f"TEMP\\scratch{number}.TM{number % 13}"
                made.append(Change("program", Verb.CREATED, path, number, after=_file(path)))
    return made


def _row(name: str, number: str, last: int) -> dict[str, Cell]:
    blank = Cell(Kind.TEXT, state=CellState.BLANK)
    return {
        "NAME": Cell(Kind.TEXT, name),
        "PATNR": Cell(Kind.TEXT, number),
        "BORN": Cell(Kind.DATE, datetime(1964, 8, 12).date()),  # noqa: DTZ001 - a date of the guest has no zone
        "LAST": Cell(Kind.NUMBER, Decimal(last % 2)),
        "STREET": blank,
        "CITY": blank,
        "PHONE": blank,
        "NOTE": blank,
    }


def _file(path: str) -> dict[str, Cell]:
    return {
        "path": Cell(Kind.VARTEXT, path),
        "size": Cell(Kind.NUMBER, Decimal(10)),
        "sha256": Cell(Kind.VARTEXT, "00"),
    }


def _seconds(count: int) -> float:
    comparison = Comparison("all", tuple(changes(count)))
    rules = effects()
    context = RunContext(datetime(2026, 11, 29, 9), datetime(2026, 11, 29, 10))  # noqa: DTZ001 - local to the guest
    best = float("inf")
    for _ in range(3):
        gc.collect()
        began = time.process_time()
        account(rules, [comparison], success=True, context=context)
        best = min(best, time.process_time() - began)
    return best


def measure(changes: int = CHANGES) -> dict[str, float]:
    """Processor seconds for the whole and for half of the changes (best of three), and their ratio."""
    half, whole = _seconds(changes // 2), _seconds(changes)
    return {"changes": changes, "effects": EFFECTS, "seconds": whole, "seconds_half": half, "ratio": whole / half}


if __name__ == "__main__":
    print({name: round(value, 3) for name, value in measure().items()})  # noqa: T201
