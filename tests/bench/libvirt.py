"""Virtual machines: a clone that goes on from the saved memory against a cold start of the same image, and several clones at once.

Both are measured to the same point: the guest proven by nonce and clock, the screen painted, the program's window there.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from contracts.schema import StartProgram
from runner.machines.base import Tag
from runner.machines.folders import processes_of
from runner.machines.images import find_image
from runner.machines.libvirt import LibvirtCheckpoint, LibvirtMachine, LibvirtProvider

PROGRAMS = [StartProgram.model_validate({"program": "dswin", "timeout": "300s"})]
AT_ONCE = (1, 2, 4)
REPETITIONS = 3


def measure(repetitions: int = REPETITIONS) -> dict[str, float]:
    """Medians over some repetitions; the cold start is measured once, since it takes long.

    Returns:
        ``cold``: seconds from nothing to ready; ``ready_N``: the same for N clones at once, until the last is; ``running_N``: of it
        until the last one's processors run; ``pss_N``: MiB per clone by then (shared pages counted in parts); ``discard``: seconds.
    """
    image = find_image("debian-wine")
    checkpoint = LibvirtProvider().prepare(image, [], PROGRAMS, folder=Path.cwd())
    cold = LibvirtCheckpoint(checkpoint.plan)
    cold.why_cold = "it is measured"
    cold._disk_only()  # making the checkpoint is not part of a start
    found = {}
    seconds, machines = _ready(cold, 1)
    found["cold"] = seconds
    _discard(machines)
    discards: list[float] = []
    for count in AT_ONCE:
        rounds = []
        for _ in range(repetitions):
            seconds, machines = _ready(checkpoint, count)
            running = max(machine.timings["clone"] for machine in machines)
            rounds.append((seconds, running, statistics.fmean(_pss(machine) for machine in machines)))
            _discard(machines)
            discards += [machine.timings["discard"] for machine in machines]
        for name, values in zip(("ready", "running", "pss"), zip(*rounds, strict=True), strict=True):
            found[f"{name}_{count}"] = statistics.median(values)
    found["discard"] = statistics.median(discards)
    return found


def _ready(checkpoint: LibvirtCheckpoint, count: int) -> tuple[float, list[LibvirtMachine]]:
    def one(number: int) -> LibvirtMachine:
        machine = checkpoint.clone(Tag("bench", f"clone-{number}"))
        machine.start(PROGRAMS)
        return machine

    begun = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        machines = list(pool.map(one, range(count)))
    return time.monotonic() - begun, machines


def _discard(machines: Sequence[LibvirtMachine]) -> None:
    with ThreadPoolExecutor(len(machines)) as pool:
        list(pool.map(LibvirtMachine.discard, machines))


def _pss(machine: LibvirtMachine) -> float:
    """MiB of memory that the machine's QEMU takes, pages that it shares with others counted in parts."""
    total = 0
    for pid in processes_of(machine.folder):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024
