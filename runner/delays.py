"""How late a program's last change comes: good runs watched for long after their last input, and the quiet time that follows from it.

A contract's ``limits.quiet`` must be longer than what its program needs to store what it was asked for. Nobody knows that beforehand:
it is measured with an agent that does the task right, on the machines that it will be done on.
"""

from __future__ import annotations

import math
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from contracts.load import LoadedContract
from contracts.noise import Delay, NoiseError, NoiseList, read_list
from runner.agents.base import PlannedAgent
from runner.calibrate import CalibrationError
from runner.lifecycle import Learnt, run_once
from runner.machines.base import MachineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign

MARGIN = 2
"""The proposed quiet time in terms of the longest delay seen: other hosts are slower."""
LEAST = 1.0
"""Seconds that are proposed at least."""
LONGEST_WATCHED = 30.0
"""Seconds that a good run is watched after its last change at most."""
_STEP = 0.5


def measure_delays(
    contracts: Sequence[LoadedContract],
    agents: Sequence[PlannedAgent],
    provider: MachineProvider,
    *,
    watched: float,
    repetitions: int,
    on_image: str,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Delay]:
    """Makes good runs and watches each for a while after its agent has ended.

    Args:
        contracts: The contracts.
        agents: Agents that do these tasks right, such as golden scripts.
        provider: Makes the machines.
        watched: Seconds that nothing may change until a run counts as over.
        repetitions: How often each run is made.
        on_image: The image.
        progress: Told what is being done.

    Returns:
        For each contract that an agent is for, the longest delay, rounded up, and the quiet time that follows.

    Raises:
        CalibrationError: A run was no valid success, had no input, or never came to rest.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="legacyproof-delays-") as folder:
        campaign = Campaign.create(Path(folder), "good-runs")
        for loaded in contracts:
            limits = loaded.contract.limits.model_copy(update={"quiet": watched, "settle": 4 * watched})
            patient = replace(loaded, contract=loaded.contract.model_copy(update={"limits": limits}))
            delays = []
            for agent in agents:
                if agent.contract not in (None, loaded.contract.id):
                    continue
                for trial in range(1, repetitions + 1):
                    progress(f"{loaded.contract.id}: good run {trial} of {repetitions} by {agent.agent.name}")
                    plan = RunPlan(patient, agent, "instruction", trial, on_image=on_image, audit=False)
                    record = run_once(
                        plan, campaign, provider, learnt=Learnt(), cancelled=threading.Event(), progress=lambda _: None
                    )
                    delays.append(_delay(record))
            if delays:
                found.append(delay_of(loaded.contract.id, delays))
    return found


def _delay(record: RunRecord) -> float:
    verdict, still = record.verdict, record.stillness
    if verdict.outcome != "valid_success":
        raise CalibrationError(
            f"{record.contract.id}: {record.agent.name} made no good run, but one that is {verdict.outcome.replace('_', ' ')}: "
            f"{verdict.reason}"
        )
    if still is None or still.delay is None:
        raise CalibrationError(
            f"{record.contract.id}: {record.agent.name} gave no input, so no delay after it is known"
        )
    if not still.reached:
        raise CalibrationError(
            f"{record.contract.id}: the state never came to rest after a good run: see what `calibrate` lists as changing by "
            f"itself, and ignore it"
        )
    return still.delay


def delay_of(contract: str, delays: Sequence[float]) -> Delay:
    """The delays of a contract's good runs in short."""
    longest = math.ceil(max(delays) * 100) / 100
    quiet = max(LEAST, math.ceil(MARGIN * longest / _STEP) * _STEP)
    return Delay(contract=contract, runs=len(delays), longest=_exact(longest), quiet=_exact(quiet))


def _exact(seconds: float) -> Decimal:
    return Decimal(f"{seconds:.2f}").normalize() + 0


def proposed_quiet(contract: str, image: str, *, folders: Sequence[Path]) -> float | None:
    """The longest quiet time, in seconds, that any measurement on the image proposes for a contract; ``None``: there is none.

    Args:
        contract: The contract's id.
        image: The image that it is run on.
        folders: Where lists lie; one that cannot be used says nothing.
    """
    proposals = [
        float(delay.quiet)
        for noise in _lists(folders)
        if noise.image == image
        for delay in noise.delays
        if delay.contract == contract
    ]
    return max(proposals, default=None)


def _lists(folders: Sequence[Path]) -> list[NoiseList]:
    found = []
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            try:
                found.append(read_list(path.stem, [folder]))
            except NoiseError:
                continue
    return found
