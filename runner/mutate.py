"""Whether contracts can fail: bad states made from recorded good runs, and what to add where a contract accepts one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.load import LoadedContract
from runner.rejudge import Kept, NotJudged, contract_of, golden_of, newest_success, runs_at
from runner.store import StoreError
from validators.mutate import Assessment, Flaw, NotGolden, assess
from validators.values import shown

_SHOWN = 400


class NoGoldenRun(Exception):
    """There is no good run to make mutants from; the argument says how to make one."""


@dataclass(frozen=True)
class Tried:
    """One contract, tried.

    Attributes:
        contract: Its id.
        run: The run that the mutants were made from.
        found: What came out.
        seconds: How long it took.
    """

    contract: str
    run: str
    found: Assessment
    seconds: float


def try_contract(
    loaded: LoadedContract, runs: Sequence[Kept], overrides: Mapping[str, str] | None = None
) -> Tried:  # fmt: skip
    """Tries one contract on mutants of its newest good run.

    Args:
        loaded: The contract, from a file.
        runs: Where a good run is looked for.
        overrides: Values for parameters.

    Raises:
        NoGoldenRun: There is none, or this contract does not accept it.
        StoreError: The run's evidence is missing or damaged.
    """
    name = loaded.contract.id
    kept = newest_success(runs, name)
    if kept is None:
        raise NoGoldenRun(
            f"{name}: there is no recorded run that was a valid success. Make one, with a script of yours:\n"
            f"  legacyproof run {loaded.path} --agent scripted:…/golden.yaml"
        )
    begun = time.monotonic()
    try:
        found = assess(golden_of(kept, contract_of(kept, loaded.path, overrides)))
    except (NotGolden, NotJudged) as error:
        raise NoGoldenRun(f"{name}: the run {kept.record.run} is no good run for this contract: {error}") from None
    return Tried(name, kept.record.run, found, time.monotonic() - begun)


def runs_for(run: Path | None, folder: Path) -> list[Kept]:
    """The runs among which good ones are looked for: those that were named, else all of a folder's campaigns."""
    if run is not None:
        return runs_at(run)
    try:
        return runs_at(folder)
    except StoreError:
        if folder.is_dir() and any(folder.glob("*/*/record.json")):
            raise
        return []


def told(tried: Tried, *, by_flaw: bool) -> Iterator[str]:
    """The outcome in lines, for people.

    Args:
        tried: What was tried.
        by_flaw: Also the number of mutants of each kind.
    """
    found = tried.found
    rate = 100 * found.rejected / found.total if found.total else 100.0
    mark = "100 %" if found.rejected == found.total else f"{min(rate, 99.9):.1f} %"
    yield f"{tried.contract}: {found.rejected} of {found.total} bad states rejected ({mark}) in {tried.seconds:.1f} s"
    if by_flaw:
        for flaw in Flaw:
            if found.made.get(flaw):
                yield f"  {flaw.value:32} {found.killed.get(flaw, 0)} of {found.made[flaw]}"
    yield from (f"  ✗ {fault}" for fault in found.faults)
    for (hole, advice), survivors in _by_hole(found).items():
        first, count = survivors[0], len(survivors)
        more = f" (and {count - 1} more)" if count > 1 else ""
        yield f"  ✗ accepted: {shown(first.mutant.description, _SHOWN)}{more}"
        if first.verdict.cause is not None:
            yield f"    it could not be judged, which is no rejection: {shown(first.verdict.reason, _SHOWN)}"
        yield f"    hole: {shown(hole, _SHOWN)}"
        yield f"    add:  {shown(advice, _SHOWN)}"
    for decided in found.decided:
        many = f"{decided.mutants} bad states fall" if decided.mutants > 1 else "1 bad state falls"
        here = f": {many} under it" if decided.mutants else ""
        yield f"  not looked at by decision: {shown(decided.rule, 120)} ({shown(decided.because, 120)}){here}"


def _by_hole(found: Assessment) -> dict[tuple[str, str], list[Any]]:
    holes: dict[tuple[str, str], list[Any]] = {}
    for survivor in found.survivors:
        holes.setdefault((survivor.mutant.hole, survivor.mutant.advice), []).append(survivor)
    return holes


def as_data(tried: Tried) -> dict[str, Any]:
    """The outcome as JSON data."""
    found = tried.found
    return {
        "contract": tried.contract,
        "run": tried.run,
        "mutants": found.total,
        "rejected": found.rejected,
        "seconds": round(tried.seconds, 3),
        "by_flaw": {flaw.value: [found.killed.get(flaw, 0), made] for flaw, made in found.made.items()},
        "survivors": [
            {"flaw": s.mutant.flaw.value, "description": s.mutant.description, "hole": s.mutant.hole,
             "advice": s.mutant.advice, "outcome": s.verdict.outcome.value}
            for s in found.survivors
        ],
        "by_decision": [{"rule": d.rule, "because": d.because, "mutants": d.mutants} for d in found.decided],
        "idle": {"success": found.idle_success.outcome.letters, "failure": found.idle_failure.outcome.letters},
        "faults": list(found.faults),
    }  # fmt: skip
