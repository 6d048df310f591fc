"""Runs one agent, made on the spot, on a real machine and gives the record."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from contracts.load import load_contract, load_text
from runner.agents.base import AgentReport, AgentTask, PlannedAgent
from runner.lifecycle import Learnt, run_once
from runner.machines.base import MachineProvider
from runner.machines.wine import WineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign

ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml"


@dataclass
class Acting:
    """An agent that does what a function does."""

    act: Callable[[AgentTask], Any]
    name: str = "acting"

    def run(self, task: AgentTask) -> AgentReport:
        result: AgentReport = self.act(task)
        return result


def run_agent(
    act: Callable[[AgentTask], Any],
    folder: Path,
    *,
    change: Callable[[str], str] = lambda text: text,
    timeout: str = "60s",
    provider: MachineProvider | None = None,
    cancelled: threading.Event | None = None,
) -> tuple[RunRecord, Campaign]:
    """One run of the New Patient contract.

    Args:
        act: What the agent does and reports.
        folder: Where the campaign is kept.
        change: Changes the contract's text before it is loaded.
        timeout: The agent's time.
        provider: Another provider than Wine's.
        cancelled: Set to cancel the run.
    """
    text = change(CONTRACT.read_text().replace("timeout: 900s", f"timeout: {timeout}"))
    loaded = replace(load_text(text, name="changed.yaml"), path=load_contract(CONTRACT).path)
    campaign = Campaign.create(folder, "faults")
    record = run_once(
        RunPlan(loaded, PlannedAgent("acting", Acting(act)), "instruction"),
        campaign,
        provider or WineProvider(),
        learnt=Learnt(),
        cancelled=cancelled or threading.Event(),
        progress=lambda _: None,
    )
    assert [r.run for r in campaign.records()] == [record.run]
    assert not list(campaign.folder.glob(".*"))
    return record, campaign


def below(pid: int) -> set[int]:
    """Every living process that descends from one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found: set[int] = set()
    level = {pid}
    while level := {child for child, parent in parents.items() if parent in level}:
        found |= level
    return found
