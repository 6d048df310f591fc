"""Errors that nobody foresaw, anywhere in a run: it ends unscored with a record that tells where, and no other run ends with it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from contracts.load import load_contract
from runner import draft, lifecycle
from runner.agents.base import PlannedAgent
from runner.agents.noop import NoopAgent
from runner.campaign import run_all
from runner.machines.base import MachineError
from runner.machines.wine import WineCheckpoint, WineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign
from runner.verdict_record import verdict_part
from tests.faults.helpers import CONTRACT, run_agent

SECRET = "Wei\u00dfdorn-Pa\u00dfwort"


class Odd(Exception):
    """An error of a class that nobody has heard of."""


class Breaking(WineProvider):
    """A provider in whose preparation something breaks."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def prepare(self, *_args: Any, **_named: Any) -> WineCheckpoint:
        raise self.error


def never(_task: object) -> Any:
    raise AssertionError("the agent must not begin")


@pytest.mark.parametrize(
    "error",
    [Odd("a plug-in's"), RuntimeError(), KeyError("x"), RecursionError("deep"), MemoryError(), AssertionError()],
)
def test_it_is_unscored_and_the_record_tells_where(tmp_path: Path, error: Exception) -> None:
    record, campaign = run_agent(never, tmp_path, provider=Breaking(error))
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "machine")
    assert type(error).__name__ in record.verdict.reason
    (told,) = [fault for fault in record.faults if "Traceback" in fault]
    assert "in prepare" in told
    assert [one.run for one in campaign.records()] == [record.run]


def test_secrets_are_blotted_out_of_tracebacks(tmp_path: Path) -> None:
    def secret(text: str) -> str:
        return text.replace("insurer: BARMER", f"insurer: {{value: {SECRET}, secret: true}}")

    assert SECRET in secret(CONTRACT.read_text())
    record, _ = run_agent(never, tmp_path, provider=Breaking(Odd(f"login with {SECRET} failed")), change=secret)
    assert SECRET not in record.model_dump_json()


@pytest.mark.machine
def test_an_error_while_judging_loses_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: WineCheckpoint
) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise Odd("two threads at once")

    monkeypatch.setattr(lifecycle, "judge", broken)
    record, _ = run_agent(NoopAgent("failed").run, tmp_path)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "machine")
    assert record.after is not None, "what was read is kept, and can be judged again"


def test_a_record_that_cannot_be_made_is_made_of_what_is_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = verdict_part
    calls = iter([True])

    def once(*args: Any) -> Any:
        if next(calls, False):
            raise Odd("a verdict that no record holds")
        return made(*args)

    monkeypatch.setattr(draft, "verdict_part", once)
    record, campaign = run_agent(never, tmp_path, provider=Breaking(MachineError("out of order")))
    assert "a verdict that no record holds" in record.verdict.reason
    assert [one.run for one in campaign.records()] == [record.run]


def test_the_other_runs_of_the_campaign_are_made(tmp_path: Path) -> None:
    loaded = load_contract(CONTRACT)
    agent = PlannedAgent("noop", NoopAgent("failed"))
    told: list[RunRecord] = []
    records = run_all(
        [RunPlan(loaded, agent, "instruction", trial) for trial in (1, 2, 3)], Campaign.create(tmp_path, "c"),
        lambda _image: Breaking(Odd("again")), parallel=2, reruns=0, cancelled=threading.Event(),
        progress=lambda *_: None, finished=lambda _plan, record: told.append(record),
    )  # fmt: skip
    assert [record.verdict.cause for record in records] == ["machine"] * 3
    assert len(told) == 3


@pytest.mark.parametrize("error", [MachineError("its processes ended"), OSError(5, "gone"), Odd("?")])
def test_what_fails_because_a_person_stopped_it_was_cancelled(tmp_path: Path, error: Exception) -> None:
    """An interruption on a terminal reaches every process of the group: machines and agents fail before anybody asks why."""
    cancelled = threading.Event()

    class Stopped(WineProvider):
        def prepare(self, *_args: Any, **_named: Any) -> WineCheckpoint:
            cancelled.set()
            raise error

    record, _ = run_agent(never, tmp_path, provider=Stopped(), cancelled=cancelled)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "cancelled")
