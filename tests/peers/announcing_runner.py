"""A runner in a process of its own that says which phase begins, so that a test can kill it there.

It is the real thing: the same lifecycle, machine and store as the command line's, with another progress display.

Usage: ``announcing_runner.py CONTRACT SCRIPT RUNS NAME``.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from contracts.load import load_contract
from runner.agents.base import plan
from runner.campaign import run_all
from runner.machines.base import provider
from runner.plan import RunPlan
from runner.store import Campaign


def main() -> None:
    contract, script, runs, name = sys.argv[1:5]
    campaign = Campaign.create(Path(runs), name)
    plans = [RunPlan(load_contract(Path(contract)), plan(f"scripted:{script}")[0], "expert")]
    wine = provider("wine")
    with campaign.held():
        run_all(
            plans,
            campaign,
            lambda _: wine,
            parallel=1,
            reruns=0,
            cancelled=threading.Event(),
            progress=lambda _, phase: print(phase, flush=True),  # noqa: T201
            finished=lambda _, record: print(f"finished {record.verdict.outcome}", flush=True),  # noqa: T201
        )


if __name__ == "__main__":
    main()
