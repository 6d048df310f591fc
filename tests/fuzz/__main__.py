"""``make fuzz``: ten million cases over the readers of hostile bytes; the record is printed and written to ``fuzz.json``.

``CASES=…`` changes the number. Cases are shared among the processors; each target gets its share by the time that a case takes,
at least a hundredth.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.engine import Outcome, run
from tests.fuzz.targets import run_named, targets

CHUNK = 20_000
_TRIAL = 300


def shares(cases: int) -> dict[str, int]:
    """How many cases each target gets: inversely to the time of a case."""
    speed = {target.name: _TRIAL / max(run(target, _TRIAL, 0).seconds, 1e-6) for target in targets()}
    whole = sum(speed.values())
    return {name: max(cases // 100, round(cases * value / whole)) for name, value in speed.items()}


def main() -> None:
    """Runs it; status 1 when something was found."""
    cases = int(os.environ.get("CASES", "10000000"))
    plan = shares(cases)
    jobs = [(name, min(CHUNK, share - done), done) for name, share in plan.items() for done in range(0, share, CHUNK)]
    total = {name: Outcome(name) for name in plan}
    console = Console()
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for found in pool.map(run_named, *zip(*jobs, strict=True)):
            sum_ = total[found.target]
            sum_.cases += found.cases
            sum_.refused += found.refused
            sum_.seconds += found.seconds
            sum_.slowest = max(sum_.slowest, found.slowest)
            sum_.memory_mib = max(sum_.memory_mib, found.memory_mib)
            sum_.findings += found.findings
            if not sys.stdout.isatty():
                console.print(f"{found.target}: {sum_.cases:,} of {plan[found.target]:,}", markup=False)
            for finding in found.findings:
                console.print(f"{found.target}: {finding[:500]}", markup=False, soft_wrap=True)
    table = Table("target", "cases", "refused", "processor s", "slowest case s", "memory MiB", "findings")
    for item in total.values():
        table.add_row(
            item.target, f"{item.cases:,}", f"{item.refused:,}", f"{item.seconds:,.0f}", f"{item.slowest:.2f}",
            f"{item.memory_mib:.0f}", str(len(item.findings)),
        )  # fmt: skip
    console.print(table)
    record = {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "targets": [asdict(item) for item in total.values()],
    }
    Path("fuzz.json").write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(1 if any(item.findings for item in total.values()) else 0)


if __name__ == "__main__":
    main()
