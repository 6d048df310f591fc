"""Many runs: several machines at a time, reruns after faults of the house, an orderly stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace

from runner.lifecycle import Learnt, RunPlan, run_once
from runner.machines.base import MachineProvider
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

    Returns:
        The last record of every plan that was begun, in the order of the plans.
    """
    learnt = Learnt()
    telling = threading.Lock()

    def one(plan: RunPlan) -> RunRecord | None:
        for attempt in range(1, reruns + 2):
            if cancelled.is_set():
                return None
            tried = replace(plan, attempt=attempt)
            record = run_once(
                tried,
                campaign,
                provider(plan.image),
                learnt=learnt,
                cancelled=cancelled,
                progress=lambda phase, plan=plan: progress(plan, phase),  # type: ignore[misc]
            )
            again = record.verdict.cause in RERUN_CAUSES and attempt <= reruns and not cancelled.is_set()
            if again:
                record = record.model_copy(update={"superseded": True})
                campaign.replace(record)
            with telling:
                finished(plan, record)
            if again and cancelled.is_set():  # no other attempt will come: this one counts after all
                record = record.model_copy(update={"superseded": False})
                campaign.replace(record)
                again = False
            if not again:
                return record
        return None

    with ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="run") as pool:
        futures: list[Future[RunRecord | None]] = [pool.submit(one, plan) for plan in plans]
        try:
            wait(futures)
        except KeyboardInterrupt:
            cancelled.set()
            wait(futures)
    return [record for future in futures if (record := future.result()) is not None]
