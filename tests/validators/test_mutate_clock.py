"""Bad states of runs whose clock matters: each is bad for the very run that it is made from, around midnight too."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.load import load_text
from tests.validators.mutate_runs import STARTED, golden
from validators.mutate import Flaw, Golden, assess
from validators.mutate.golden import Mutant
from validators.mutate.returned import mutants_of_returned
from validators.mutate.sql_rows import SqlRows
from validators.snapshot import State
from validators.sql.form import Form
from validators.sql.table import Column, Key, SqlState
from validators.values import cell_of_json

MIDNIGHT = STARTED.replace(hour=0, minute=0, second=0)
"""At the beginning of the day on which the recorded runs were made."""
AROUND = {
    "into the day": (MIDNIGHT - timedelta(seconds=20), MIDNIGHT + timedelta(seconds=10)),
    "out of the day": (MIDNIGHT + timedelta(hours=23, minutes=59, seconds=50), MIDNIGHT + timedelta(days=1, seconds=10)),
    "over several days": (MIDNIGHT - timedelta(days=2), MIDNIGHT + timedelta(days=2)),
}  # fmt: skip


@pytest.mark.parametrize("when", AROUND)
@pytest.mark.parametrize("task", ["add-new-patient", "update-patient-phone"])
def test_a_run_around_midnight_shows_no_hole(task: str, when: str) -> None:
    """Yesterday's date may stand in a row of such a run by right; another wrong date is found instead."""
    started, ended = AROUND[when]
    found = assess(replace(golden(task), started=started, ended=ended))
    assert [survivor.mutant.description for survivor in found.survivors] == []
    assert found.sound
    assert found.made[Flaw.FIELD_WRONG] == assess(golden(task)).made[Flaw.FIELD_WRONG]


# --- whatever keeps a date or time -------------------------------------------------------------------------------------

COLUMNS = {
    "day": (Form.DATE, "%Y-%m-%d", "{date: today}"), "clock": (Form.TIME, "%H:%M:%S", "{time: run}"),
    "at": (Form.DATETIME, "%Y-%m-%d %H:%M:%S", "{time: run}"), "at_day": (Form.DATETIME, "%Y-%m-%d %H:%M:%S", "{date: today}"),
    "text_day": (Form.TEXT, "%Y-%m-%d", "{date: today}"), "text_clock": (Form.TEXT, "%H:%M:%S", "{time: run}"),
    "minute": (Form.TEXT, "%H:%M", "{time: run}"), "text_at": (Form.TEXT, "%Y-%m-%dT%H:%M", "{time: run}"),
}  # fmt: skip
CONTRACT = r"""schema: 1
id: small.visit
title: A visit
application: Small
domain: test
state_changing: true
image: none
instruction: Enter a visit.
initial_state: {summary: Nothing.}
goal_state: {summary: One visit.}
observe: {visits: {sql: shop, table: visits, key: [id]}}
effects:
  expect:
    - inserted: visits
      fields: {id: 2, %s}
returns:
  schema: {type: object, required: [%s]}
  expect: {%s}
"""


def visit(started: datetime, ended: datetime, at: datetime) -> Golden:
    """A run that stored and returned the moment ``at`` in every form, beside a row of its beginning."""
    rules = ", ".join(f"{name}: {rule}" for name, (_, _, rule) in COLUMNS.items())
    columns = (
        Column("id", "integer", False, Form.NUMBER),
        *(Column(name, "", True, form) for name, (form, _, _) in COLUMNS.items()),
    )

    def line(number: int, moment: datetime) -> bytes:
        return "\t".join([str(number), *(f"{moment:{spelt}}" for _, spelt, _ in COLUMNS.values())]).encode() + b"\n"

    def table(*lines: bytes) -> SqlState:
        return SqlState(
            "visits", True, columns, (Key(("id",), "primary key"),), ("id",), b"".join(lines), len(lines), "test"
        )

    first, second = line(1, started), line(2, at)
    contract = load_text(CONTRACT % (rules, ", ".join(COLUMNS), rules), name="small").contract
    before: dict[str, State] = {"visits": table(first)}
    returned = {name: f"{at:{spelt}}" for name, (_, spelt, _) in COLUMNS.items()}
    return Golden(contract, before, {"visits": table(first, second)}, returned, started, ended)


_MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)).map(lambda moment: moment.replace(microsecond=0))  # noqa: DTZ001
_SHORT = st.integers(0, 200).map(lambda seconds: timedelta(seconds=seconds))
_LONG = st.integers(0, 3 * 86_400).map(lambda seconds: timedelta(seconds=seconds))


@settings(max_examples=60, deadline=None)
@given(_MOMENTS, _SHORT | _LONG, st.floats(0, 1))
def test_whenever_a_run_is_made_no_right_value_is_called_wrong(
    started: datetime, length: timedelta, share: float
) -> None:
    at = started + timedelta(seconds=int(length.total_seconds() * share))
    run = visit(started, started + length, at)
    ours = {"visits"}
    found = assess(run)
    wrong = [survivor.mutant for survivor in found.survivors if not _beside(survivor.mutant, ours)]
    assert [mutant.description for mutant in wrong] == []
    # And there is a wrong value of each form, but where the run is so long that every time of the day is right.
    told = [mutant.description for mutant in mutants_of_returned(run)]
    assert all(any(f"the returned {name} is {words}" in text for words in ("the day", "another", "mistyped") for text in told)
               for name in COLUMNS)  # fmt: skip


def _beside(mutant: Mutant, ours: set[str]) -> bool:
    """Whether it is about what the contract does not observe: there is no tree and no screen in it."""
    return mutant.description.partition(":")[0] not in ours and "returned" not in mutant.description


def test_times_of_day_are_judged_by_the_run_not_by_the_hour() -> None:
    """The other time that is tried lies within a run that is made at that hour."""
    for hour, minute, second in ((1, 2, 3), (2, 3, 4), (13, 14, 15)):
        at = STARTED.replace(tzinfo=None, hour=hour, minute=minute, second=second)
        run = visit(at - timedelta(minutes=1), at + timedelta(minutes=1), at - timedelta(seconds=30))
        state = run.after["visits"]
        assert isinstance(state, SqlState)
        edit = SqlRows(state)
        was = edit.row(1)["clock"]
        assert edit.spoil(1, "clock", lambda now: not run.is_as_right(was, now))  # noqa: B023 - called at once
        now = edit.state()
        assert not run.is_as_right(was, SqlRows(now).row(1)["clock"])


def test_a_text_that_says_a_date_of_the_run_is_as_right() -> None:
    run = replace(golden("add-new-patient"), started=AROUND["into the day"][0], ended=AROUND["into the day"][1])
    today, yesterday = f"{MIDNIGHT:%Y-%m-%d}", f"{MIDNIGHT - timedelta(days=1):%Y-%m-%d}"
    assert run.is_as_right(cell_of_json(today), cell_of_json(yesterday))
    assert not run.is_as_right(cell_of_json(today), cell_of_json("2001-02-03"))
    assert not run.is_as_right(cell_of_json("1964-08-12"), cell_of_json(yesterday))
