"""Many runs: several machines at a time, reruns after faults of the house, an orderly stop.

A machine that its agent has left only has to be quiet for some seconds: meanwhile the next run begins. So there are up to twice as many
machines as work at a time. What lies outside of the machines, such as a database server, is shared by them all: runs that look at
the same source come one after the other, or each would find the others' rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from contracts.schema import SqlTable
from runner.host_disk import Unwritable
from runner.lifecycle import Learnt, run_once
from runner.machines.base import MachineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign

RERUN_CAUSES = ("machine", "agent_infrastructure")
"""Causes of an unscored run after which it is made again."""


def run_all(
    plans: Sequence[RunPlan],
    campaign: Campaign,
    provider: Callable[[str], MachineProvider],
    *,
    parallel: int,
    reruns: int,
    cancelled: threading.Event,
    progress: Callable[[RunPlan, str], None],
    finished: Callable[[RunPlan, RunRecord], None],
    left_out: Callable[[RunPlan, str], None] = lambda _plan, _why: None,
    broken: Callable[[RunPlan, Exception], None] = lambda _plan, _error: None,
) -> list[RunRecord]:
    """Makes every run of a campaign.

    Args:
        plans: The runs.
        campaign: Where they are kept.
        provider: Gives the machine provider of an image's contract, by image name.
        parallel: How many machines at a time.
        reruns: How often a run is made again after a fault of the house.
        cancelled: Set (also from a signal handler's thread) to stop: runs that work are ended and cleaned up, others not begun.
        progress: Told when a run enters a phase; called from several threads.
        finished: Told of each finished run; called from several threads, one at a time.
        left_out: Told of each run that is not begun because what its agent needs is out for good, and why.
        broken: Told of each run in which the runner itself failed where no record could hold it, and how. The others go on.

    Returns:
        The last record of every plan that has one, in the order of the plans. Where the host has no room for more runs,
        the others are not begun.
    """
    learnt = Learnt()
    telling = threading.Lock()
    out_for_good: dict[str, str] = {}
    turns = _Turns(plans, parallel, cancelled)

    def make(turn: _Turn) -> None:
        """One attempt at one run; another one, where it is to be made, waits for its turn."""
        again = False
        try:
            if cancelled.is_set():
                return
            if turn.record is None and (why := out_for_good.get(turn.plan.agent.spec)):
                with telling:
                    left_out(turn.plan, why)
                return
            turn.attempt += 1
            try:
                record = run_once(
                    replace(turn.plan, attempt=turn.attempt),
                    campaign,
                    provider(turn.plan.image),
                    learnt=learnt,
                    cancelled=cancelled,
                    progress=lambda phase: progress(turn.plan, phase),
                    left_alone=lambda: turns.left_alone(turn),
                )
            except Unwritable:  # no room for another run: `Campaign.stopped` says why
                return
            except Exception as error:  # what even the run's last resort did not hold ends this run and no other
                with telling:
                    broken(turn.plan, error)
                return
            if record.lasting:
                out_for_good.setdefault(turn.plan.agent.spec, record.verdict.reason)
            again = (
                record.verdict.cause in RERUN_CAUSES
                and turn.attempt <= reruns
                and not record.lasting
                and not cancelled.is_set()
            )
            if again:
                record = record.model_copy(update={"superseded": True})
                campaign.replace(record)
            turn.record = record
            with telling:
                finished(turn.plan, record)
        finally:
            turns.over(turn, again=again)

    made: list[tuple[_Turn, Future[None]]] = []
    with ThreadPoolExecutor(max_workers=2 * parallel, thread_name_prefix="run") as pool:
        while (turn := turns.next()) is not None:
            made.append((turn, pool.submit(make, turn)))
    for _, future in made:
        future.result()
    last = sorted({turn.number: turn for turn, _ in made}.items())
    return [record for _, turn in last if (record := _counting(turn.record, campaign)) is not None]


def _counting(record: RunRecord | None, campaign: Campaign) -> RunRecord | None:
    """The record of the last attempt that was made: no other replaces it, although it may have been marked so."""
    if record is None or not record.superseded:
        return record
    counted = record.model_copy(update={"superseded": False})
    campaign.replace(counted)
    return counted


@dataclass
class _Turn:
    """A run that waits, is made, or waits to be made again.

    Attributes:
        number: The plan's place in the campaign.
        plan: What to run.
        attempt: How many attempts were begun.
        record: Of the last attempt that was finished.
        at_work: Whether it takes one of the places of machines that work.
    """

    number: int
    plan: RunPlan
    attempt: int = 0
    record: RunRecord | None = None
    at_work: bool = False

    @property
    def sources(self) -> set[str]:
        """The SQL sources that it looks at; they are the same for all machines."""
        return {spec.sql for spec in self.plan.contract.contract.observe.values() if isinstance(spec, SqlTable)}


class _Turns:
    """Whose turn it is: a run begins when a place is free and nobody else looks at its sources, the earlier ones first."""

    def __init__(self, plans: Sequence[RunPlan], parallel: int, cancelled: threading.Event) -> None:
        self._waiting = [_Turn(number, plan) for number, plan in enumerate(plans)]
        self._made: list[_Turn] = []
        self._parallel = parallel
        self._cancelled = cancelled
        self._changed = threading.Condition()

    def next(self) -> _Turn | None:
        """Waits for a run that can begin; ``None``: there is none left, or no other is to begin."""
        with self._changed:
            while self._waiting or self._made:
                if self._cancelled.is_set():
                    return None
                turn = self._ready()
                if turn is not None:
                    self._waiting.remove(turn)
                    self._made.append(turn)
                    turn.at_work = True
                    return turn
                self._changed.wait()
            return None

    def _ready(self) -> _Turn | None:
        if sum(turn.at_work for turn in self._made) >= self._parallel or len(self._made) >= 2 * self._parallel:
            return None
        taken = set().union(*(turn.sources for turn in self._made))
        return next((turn for turn in self._waiting if taken.isdisjoint(turn.sources)), None)

    def left_alone(self, turn: _Turn) -> None:
        """A run's machine only has to be quiet from now on."""
        with self._changed:
            turn.at_work = False
            self._changed.notify_all()

    def over(self, turn: _Turn, *, again: bool) -> None:
        """A run has ended; one that is to be made again comes before those that were never begun."""
        with self._changed:
            self._made.remove(turn)
            if again:
                self._waiting.insert(0, turn)
            self._changed.notify_all()
