"""A real Win32 program that stores its record some time after the agent has reported: what a run makes of it.

The program is ``tests/peers/late_writer``. Delays are the program's; how long the runs may wait is far more, so that a loaded host
changes nothing.
"""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts.load import load_contract
from runner.agents.base import plan
from runner.campaign import run_all
from runner.machines.wine import WineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign
from tests.validators.dbf_files import F, Table
from validators.dbf import TableState

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
SOURCE = Path(__file__).resolve().parents[1] / "peers" / "late_writer" / "late.c"

WAYS = [("timer", 300), ("timer", 1000), ("timer", 2500), ("process", 1000), ("box", 1000)]
RESTLESS, PAIRS = ("restless", 1000), ("pairs", 40)
IMAGE = """
schema: 1
name: late
provider: wine
summary: A desk with a program that stores late.
programs:
  late: {files: late, to: 'C:\\LATE', start: 'C:\\LATE\\LATE.EXE'}
""" + "".join(
    f"""
  {way}{delay}: {{start: 'C:\\LATE\\LATE.EXE', arguments: [{way}, "{delay}"], window: Late}}"""
    for way, delay in (*WAYS, RESTLESS, PAIRS)
)
CONTRACT = """
schema: 1
id: late.NAME
title: Store a record
application: Late
domain: tests
state_changing: true
image: late
instruction: Press the button.
initial_state:
  summary: There is one record.
  start: [NAME]
goal_state: {summary: There is one more.}
observe:
  patients: {dbf: 'C:\\LATE\\PATIENT.DBF', key: [NR], encoding: cp850}
  counters: {dbf: 'C:\\LATE\\COUNTER.DBF', encoding: cp850}
  program: {files: 'C:\\LATE'}
  screen: {windows: {}}
effects:
  expect:
    - {inserted: patients, fields: {NR: '0002'}}
    - {updated: counters, fields: {NR: '0002'}}
LIMITS
"""
SCRIPT = """
schema: 1
contract: late.NAME
title: A click, and a report at once
intended: {outcome: valid_success}
steps:
  - wait: {window: Late, control: {id: 1}}
  - click: {window: Late, control: {id: 1}}
  - report: STATUS
"""


@dataclass(frozen=True)
class Made:
    """The runs of all ways, made in one campaign: while one machine is waited for, the next one works."""

    campaign: Campaign
    records: dict[str, RunRecord]

    def of(self, way: str, delay: int, status: str = "success") -> RunRecord:
        return self.records[f"late.{way}{delay} {status}"]


def _plan(folder: Path, way: str, delay: int, status: str, limits: str) -> RunPlan:
    """A run in which the program is asked to store its record, and the agent reports at once."""
    name = f"{way}{delay}"
    contract, script = folder / f"{name}.yaml", folder / f"{name}-{status}.yaml"
    contract.write_text(CONTRACT.replace("NAME", name).replace("LIMITS", f"limits: {{timeout: 60s, {limits}}}"))
    script.write_text(SCRIPT.replace("NAME", name).replace("STATUS", status))
    (agent,) = plan(f"scripted:{script}")
    return RunPlan(load_contract(contract), agent, "instruction")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("late")
    place = folder / "images" / "late"
    place.mkdir(parents=True)
    subprocess.run(
        ["x86_64-w64-mingw32-gcc", "-Os", "-Wall", "-Wextra", "-Werror", "-mwindows", "-static", "-s", SOURCE, "-o", place / "LATE.EXE"],
        check=True, timeout=120,
    )  # fmt: skip
    for table in ("PATIENT.DBF", "COUNTER.DBF"):
        (place / table).write_bytes(Table([F("NR", "C", 4)], [b"0001"]).dbf())
    (folder / "images" / "late.yaml").write_text(IMAGE)
    # A process that starts, and a timer, take far longer on a loaded host than they say; so does what is waited for here.
    waiting = "quiet: 8s, settle: 40s"
    plans = [_plan(folder, way, delay, "success", waiting) for way, delay in WAYS]
    plans += [_plan(folder, way, delay, "failed", waiting) for way, delay in (("timer", 2500), ("process", 1000))]
    plans += [_plan(folder, *RESTLESS, "success", "quiet: 3s, settle: 5s")]
    plans += [_plan(folder, *PAIRS, "success", "quiet: 500ms, settle: 1s")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LEGACYPROOF_IMAGES", str(folder / "images"))
        campaign = Campaign.create(folder, "runs")
        records = run_all(
            plans, campaign, lambda _: WineProvider(), parallel=2, reruns=1, cancelled=threading.Event(),
            progress=lambda *_: None, finished=lambda *_: None,
        )  # fmt: skip
    return Made(campaign, {f"{record.contract.id} {record.agent.status}": record for record in records})


@pytest.mark.parametrize(("way", "delay"), WAYS)
def test_a_record_stored_after_the_report_is_a_success_all_the_same(made: Made, way: str, delay: int) -> None:
    record = made.of(way, delay)
    assert record.verdict.outcome == "valid_success", record.verdict.reason
    assert record.stillness is not None
    assert record.stillness.reached


@pytest.mark.parametrize(("way", "delay"), [("timer", 2500), ("process", 1000)])
def test_a_record_stored_after_a_reported_failure_is_no_valid_failure(made: Made, way: str, delay: int) -> None:
    record = made.of(way, delay, "failed")
    assert (record.verdict.outcome, record.verdict.kind) == ("invalid_failure", "unreported_completion")


def test_a_program_that_never_rests_is_judged_as_it_is_and_that_is_told(made: Made) -> None:
    record = made.of(*RESTLESS)
    assert record.stillness is not None
    assert record.after is not None
    assert record.verdict.outcome in {"invalid_success", "unscored"}
    if record.verdict.outcome == "invalid_success":  # the counter was still for the moment of the reading
        assert not record.after.settled
    assert not record.stillness.reached


def test_tables_that_are_written_together_are_never_read_apart(made: Made) -> None:
    """While a hundred records are stored, the time to settle ends: what is read must be of one moment, or unreadable."""
    record = made.of(*PAIRS)
    if record.verdict.outcome == "unscored":
        assert record.verdict.cause == "unreadable"
        return
    assert record.after is not None
    state = made.campaign.snapshot(record.after)
    patients, counters = state["patients"], state["counters"]
    assert isinstance(patients, TableState)
    assert isinstance(counters, TableState)
    assert patients.dbf is not None
    assert counters.dbf is not None
    count = int.from_bytes(bytes(patients.dbf[4:8]), "little")
    assert bytes(counters.dbf[-5:-1]) in {b"%04d" % count, b"%04d" % (count - 1)}
