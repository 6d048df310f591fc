"""What a run on the embedded machine costs beyond the agent's own time, phase by phase."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from pathlib import Path

from contracts.load import load_contract
from runner.agents.base import plan
from runner.campaign import run_all
from runner.machines.wine import WineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml"
SCRIPT = ROOT / "recordings/dswin/add-new-patient/golden.yaml"
PHASES = ("prepare", "clone", "boot", "start", "before", "settle", "after", "verdict", "discard", "rest")
RUNS, CAMPAIGN = 7, 24


def measure(runs: int = RUNS, campaign: int = CAMPAIGN) -> dict[str, float]:
    """Golden runs after a first one that builds the image: one at a time, and many in a campaign.

    Args:
        runs: How many alone; each value is their median.
        campaign: How many in a campaign in which one machine works at a time.

    Returns:
        Seconds: a value for each of :data:`PHASES` (``rest`` is recorder, evidence and record), ``overhead``: all of them,
        ``quiet``: what of it was waited because the state had to be quiet, ``agent``: the agent's own time, and ``campaign``: wall clock
        per run of the campaign beyond the agents' own time; and ``runs``, how many it had.
    """
    alone = [record for _ in range(runs + 1) for record in _made(1)[1]]
    shares = [_phases(record) for record in alone[1:]]
    seconds, records = _made(campaign)
    worked = sum(record.timings["agent_work"] for record in records)
    medians = {name: statistics.median(share[name] for share in shares) for name in shares[0]}
    return {**medians, "campaign": (seconds - worked) / campaign, "runs": campaign}


def _made(runs: int) -> tuple[float, list[RunRecord]]:
    """That many golden runs, one machine at work at a time; wall clock in seconds, and their records."""
    contract, agent = load_contract(CONTRACT), plan(f"scripted:{SCRIPT}")[0]
    wine = WineProvider()
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        records = run_all(
            [RunPlan(contract, agent, "expert", trial) for trial in range(runs)],
            Campaign.create(Path(folder), "bench"),
            lambda _: wine,
            parallel=1,
            reruns=0,
            cancelled=threading.Event(),
            progress=lambda _plan, _phase: None,
            finished=lambda _plan, _record: None,
        )
        seconds = time.monotonic() - begun
    failed = [
        f"{record.run}: {record.verdict.reason}" for record in records if record.verdict.outcome != "valid_success"
    ]
    assert not failed, failed
    return seconds, records


def _phases(record: RunRecord) -> dict[str, float]:
    whole = (record.ended - record.started).total_seconds()
    told = {name: record.timings.get(name, 0.0) for name in PHASES if name != "rest"}
    agent = record.timings["agent_work"]
    overhead = whole - agent
    quiet = 0.0 if record.stillness is None else record.stillness.waited
    return {**told, "rest": overhead - sum(told.values()), "overhead": overhead, "quiet": quiet, "agent": agent}
