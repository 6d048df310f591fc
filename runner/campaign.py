"""Many runs: several machines at a time, reruns after faults of the house, an orderly stop.

A machine that its agent has left only has to be quiet for some seconds: meanwhile the next run begins. So there are up to twice as many
machines as work at a time. What lies outside of the machines, such as a database server, is shared by them all: runs that look at
the same source come one after the other, or each would find the others' rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import replace
from typing import Self

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

    Returns:
        The last record of every plan that was begun, in the order of the plans. Where the host has no room for more runs,
        the others are not begun.
    """
    learnt = Learnt()
    telling = threading.Lock()
    out_for_good: dict[str, str] = {}
    at_work = threading.BoundedSemaphore(parallel)
    sources = {name: threading.Lock() for plan in plans for name in _sources(plan)}

    def one(plan: RunPlan, first: _Place) -> RunRecord | None:
        kept: RunRecord | None = None
        for attempt in range(1, reruns + 2):
            # The place comes first and the sources second, for every run: nobody waits for somebody who waits for him.
            with first if attempt == 1 else _Place(at_work) as place, ExitStack() as held:
                for name in _sources(plan):
                    held.enter_context(sources[name])
                if cancelled.is_set():
                    return _last(kept, campaign)
                if kept is None and (why := out_for_good.get(plan.agent.spec)):
                    with telling:
                        left_out(plan, why)
                    return None
                try:
                    record = run_once(
                        replace(plan, attempt=attempt),
                        campaign,
                        provider(plan.image),
                        learnt=learnt,
                        cancelled=cancelled,
                        progress=lambda phase, plan=plan: progress(plan, phase),  # type: ignore[misc]
                        left_alone=place.leave,
                    )
                except Unwritable:  # no room for another run: `Campaign.stopped` says why
                    return _last(kept, campaign)
            if record.lasting:
                out_for_good.setdefault(plan.agent.spec, record.verdict.reason)
            again = (
                record.verdict.cause in RERUN_CAUSES
                and attempt <= reruns
                and not record.lasting
                and not cancelled.is_set()
            )
            if again:
                record = record.model_copy(update={"superseded": True})
                campaign.replace(record)
            with telling:
                finished(plan, record)
            kept = record
            if not again or cancelled.is_set():
                break
        return _last(kept, campaign)

    futures: list[Future[RunRecord | None]] = []
    with ThreadPoolExecutor(max_workers=2 * parallel, thread_name_prefix="run") as pool:
        for plan in plans:
            place = _Place(at_work)  # waited for here, so that runs begin in the order of the plans
            if cancelled.is_set():
                place.leave()
                break
            futures.append(pool.submit(one, plan, place))
        wait(futures)
    return [record for future in futures if (record := future.result()) is not None]


def _sources(plan: RunPlan) -> list[str]:
    """The SQL sources that a run looks at; they are the same for all machines."""
    observed = plan.contract.contract.observe.values()
    return sorted({spec.sql for spec in observed if isinstance(spec, SqlTable)})


class _Place:
    """One of the places for machines at work: waited for when made, given back when the machine is left alone, or at the end."""

    def __init__(self, places: threading.Semaphore) -> None:
        self._places = places
        self._places.acquire()
        self._held = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Gives the place back; safe to call again."""
        if self._held:
            self._held = False
            self._places.release()


def _last(record: RunRecord | None, campaign: Campaign) -> RunRecord | None:
    """The record of the last attempt that was made: no other replaces it, although it may have been marked so."""
    if record is None or not record.superseded:
        return record
    counted = record.model_copy(update={"superseded": False})
    campaign.replace(counted)
    return counted
