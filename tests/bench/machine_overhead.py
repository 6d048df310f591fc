"""What a run on the embedded machine costs beyond the agent's own time, phase by phase."""

from __future__ import annotations

import statistics
import tempfile
import threading
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


def measure(runs: int = 7) -> dict[str, float]:
    """Median seconds of each phase over golden runs, one at a time, after a first one that builds the image.

    Returns:
        A value for each of :data:`PHASES` (``rest`` is recorder, evidence and record), ``overhead``: all of them, and ``agent``.
    """
    contract, agent = load_contract(CONTRACT), plan(f"scripted:{SCRIPT}")[0]
    wine = WineProvider()
    with tempfile.TemporaryDirectory() as folder:
        records = run_all(
            [RunPlan(contract, agent, "expert", trial) for trial in range(runs + 1)],
            Campaign.create(Path(folder), "bench"),
            lambda _: wine,
            parallel=1,
            reruns=0,
            cancelled=threading.Event(),
            progress=lambda _plan, _phase: None,
            finished=lambda _plan, _record: None,
        )
    assert all(record.verdict.outcome == "valid_success" for record in records)
    shares = [_phases(record) for record in records[1:]]
    return {name: statistics.median(share[name] for share in shares) for name in shares[0]}


def _phases(record: RunRecord) -> dict[str, float]:
    whole = (record.ended - record.started).total_seconds()
    told = {name: record.timings.get(name, 0.0) for name in PHASES if name != "rest"}
    agent = record.timings["agent_work"]
    overhead = whole - agent
    return {**told, "rest": overhead - sum(told.values()), "overhead": overhead, "agent": agent}
