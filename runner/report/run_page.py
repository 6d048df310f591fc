"""What a run's page says, taken from its record and bounded."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from runner.record import (
    FieldChange,
    LedgerEntry,
    Missing,
    Reading,
    ReturnProblem,
    RunRecord,
    SnapshotRef,
    VerdictPart,
)
from runner.report.evidence import Blob, MissingEvidence, Picture, Pictures, Texts, fetch
from runner.report.inputs import InputTable, read_inputs
from runner.report.text import clock, duration, moment, plain
from runner.report.words import OUTCOMES, PHASES, SIDE_EFFECTS, STATUSES, in_words, kind_words

LIMIT: Final = 200
"""The most entries of a list; the rest is counted."""

_MAX_FRAMES: Final = 500
_MAX_FACTS: Final = 100

_AGREEMENT: Final = {
    "valid_success": "The state confirms it: everything is as it should be.",
    "invalid_success": "The state contradicts it: the reported success is not what is there.",
    "valid_failure": "The state is clean: the failure left no trace.",
    "invalid_failure": "The state is not clean: the failure left something behind.",
    "unscored": "The state does not tell: the run could not be judged.",
}

_GROUPS: Final = {
    "forbidden": "the contract names them as forbidden",
    "unexplained": "no rule of the contract accounts for them",
    "expected": "the contract asks for them",
    "allowed": "the contract permits them",
}


@dataclass(frozen=True, slots=True)
class FieldLine:
    """A field before and after, and what was expected of it if that is not what it holds."""

    change: FieldChange
    expected: str | None = None

    @property
    def stands_out(self) -> bool:
        """Whether the line is to be noticed; all fields of a row that came or went are new or gone anyway."""
        change = self.change
        return self.expected is not None or (change.changed and None not in (change.before, change.after))


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of the ledger, its fields parted in those that changed and the others."""

    observable: str
    verb: str
    subject: str
    how: str
    effect: str
    """The effect's own name: its verb and observable are those of the change."""
    because: str
    part_of_task: bool
    closest_to: str
    """The expectation that it nearly fills, in words."""
    cause: str | None
    changed: list[FieldLine]
    same: list[FieldLine]
    more: int


@dataclass(frozen=True, slots=True)
class Gap:
    """An expectation that nothing fills, with what only follows from the change that came closest to it."""

    missing: Missing
    changes: list[Entry]
    expectations: list[Missing]
    returned: list[ReturnProblem]
    more: int

    @property
    def consequences(self) -> int:
        """How much follows from it."""
        return len(self.changes) + len(self.expectations) + len(self.returned) + self.more


@dataclass(frozen=True, slots=True)
class EntryGroup:
    """The changes of one status."""

    status: str
    meaning: str
    count: int
    folded: int
    """How many of them are shown under their cause."""
    entries: list[Entry]
    more: int


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture with its time: the picture's files, or why there is none, or None where none is meant to be."""

    at: str
    shown: Picture | str | None
    reason: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotLine:
    """An observable in both snapshots."""

    name: str
    kind: str
    before: str
    after: str
    identity: str


def run_context(record: RunRecord, blob: Blob, pictures: Pictures) -> dict[str, Any]:
    """What the page's template asks for; pictures are written on the way."""
    verdict = record.verdict
    frames = record.recording.frames
    timeline = record.agent.timeline
    gaps = _gaps(verdict)
    folded = {gap.missing.effect for gap in gaps}
    return {
        "record": record,
        "verdict": verdict,
        "limit": LIMIT,
        "outcome": OUTCOMES[verdict.outcome],
        "kind": kind_words(verdict),
        "intended": _intended(record),
        "status": STATUSES[record.agent.status],
        "returned": _facts(record.agent.returned),
        "agreement": _AGREEMENT[verdict.outcome],
        "checks": [
            ("Goal reached", verdict.goal_reached),
            ("State valid", verdict.state_valid),
            ("Returned values valid", verdict.returns_valid),
        ],
        "side_effects": ", ".join(SIDE_EFFECTS.get(name, in_words(name)) for name in verdict.side_effects[:LIMIT]),
        "counts": _counts(verdict),
        "gaps": gaps,
        "gaps_more": len(_causes(verdict)) - len(gaps),
        "returns": [problem for problem in verdict.returns if problem.cause not in folded],
        "groups": _groups(verdict, folded),
        "frames": [Shot(clock(frame.t), pictures.add(frame.image), frame.reason) for frame in frames[:_MAX_FRAMES]],
        "frames_more": max(0, len(frames) - _MAX_FRAMES),
        "inputs": _inputs(record, blob),
        "timeline": [
            Shot(clock(entry.t), pictures.add(entry.screenshot) if entry.screenshot else None, text=entry.text)
            for entry in timeline[:LIMIT]
        ],
        "timeline_more": max(0, len(timeline) - LIMIT),
        "phases": _phases(record.timings),
        "warnings": _warnings(record),
        "restless": _restless(record),
        "usage": [(name, f"{number:,.10g}") for name, number in list(record.agent.usage.items())[:_MAX_FACTS]],
        "freshness": None if record.freshness is None else _facts(record.freshness),
        "snapshots": _snapshots(record),
        "spots": record.blind_spots,
        "taken": _taken(record),
    }


def contract_context(record: RunRecord, texts: Texts) -> dict[str, Any]:
    """What the template of the contract's section asks for; texts are written on the way."""
    contract, agent = record.contract, record.agent
    return {
        "contract": contract,
        "agent": agent,
        "parameters": _facts(contract.parameters),
        "contract_page": texts.add(contract.source, f"Contract {contract.id}"),
        "prompt_page": texts.add(agent.prompt_text, f"Prompt for {contract.title}: {agent.prompt}"),
    }


def _intended(record: RunRecord) -> str:
    if record.intended is None:
        return ""
    kind = f", {in_words(record.intended.kind)}" if record.intended.kind else ""
    return f"{OUTCOMES[record.intended.outcome].letters}{kind}"


def _counts(verdict: VerdictPart) -> str:
    counts = dict.fromkeys(_GROUPS, 0)
    for entry in verdict.ledger:
        counts[entry.status] += 1
    total, missing = len(verdict.ledger), len(verdict.missing)
    changes = f"{total:,} {'change' if total == 1 else 'changes'}"
    parts = ", ".join(f"{counts[status]:,} {status}" for status in ("expected", "allowed", "unexplained", "forbidden"))
    unfilled = "is 1 expectation" if missing == 1 else f"are {missing:,} expectations"
    return (
        f"{changes}{': ' + parts if total else ''}. There {unfilled if missing else 'is no expectation'} that nothing fills."
        + _following(verdict)
    )


def _following(verdict: VerdictPart) -> str:
    """How much of what is counted only follows from something else."""
    counts = (
        (sum(entry.cause is not None for entry in verdict.ledger), "change", "changes"),
        (sum(gap.cause is not None for gap in verdict.missing), "expectation", "expectations"),
        (sum(problem.cause is not None for problem in verdict.returns), "returned value", "returned values"),
    )
    told = [f"{count:,} {one if count == 1 else many}" for count, one, many in counts if count]
    if not told:
        return ""
    listed = " and ".join(filter(None, (", ".join(told[:-1]), told[-1])))
    return f" Of all this, {listed} only follow from what came closest, and would be right if it were: told there, and counted."


def _causes(verdict: VerdictPart) -> list[Missing]:
    """The expectations that are missing by themselves."""
    there = {gap.effect for gap in verdict.missing if gap.cause is None}
    return [gap for gap in verdict.missing if gap.cause not in there]


def _gaps(verdict: VerdictPart) -> list[Gap]:
    gaps = []
    for gap in _causes(verdict)[:LIMIT]:
        changes = [entry for entry in verdict.ledger if entry.cause == gap.effect]
        expectations = [other for other in verdict.missing if other.cause == gap.effect]
        returned = [problem for problem in verdict.returns if problem.cause == gap.effect]
        more = sum(max(0, len(found) - LIMIT) for found in (changes, expectations, returned))
        shown = [_entry(entry, {}) for entry in changes[:LIMIT]]
        gaps.append(Gap(gap, shown, expectations[:LIMIT], returned[:LIMIT], more))
    return gaps


def _groups(verdict: VerdictPart, folded: Collection[str]) -> list[EntryGroup]:
    nearest = {(gap.observable, gap.near_miss): gap for gap in verdict.missing[:LIMIT] if gap.near_miss}
    groups = []
    for status, meaning in _GROUPS.items():
        entries = [entry for entry in verdict.ledger if entry.status == status]
        if entries:
            listed = [entry for entry in entries if entry.cause not in folded]
            shown = [_entry(entry, nearest) for entry in listed[:LIMIT]]
            count, more = len(entries), len(listed) - len(shown)
            groups.append(EntryGroup(status, meaning, count, count - len(listed), shown, more))
    return groups


def _entry(entry: LedgerEntry, nearest: Mapping[tuple[str, str], Missing]) -> Entry:
    """The entry, with what was expected instead where it came closest to filling an expectation."""
    near = nearest.get((entry.observable, entry.subject)) if entry.status == "unexplained" else None
    expected = {misfit.field: misfit.expected for misfit in near.misfits[:LIMIT]} if near is not None else {}
    changed = [change for change in entry.fields if change.changed or change.field in expected]
    same = [change for change in entry.fields if not change.changed and change.field not in expected]
    return Entry(
        entry.observable,
        entry.verb,
        entry.subject,
        entry.how,
        entry.effect_name,
        entry.because,
        entry.part_of_task,
        (near.effect_name or near.effect) if near is not None else "",
        entry.cause,
        [FieldLine(change, expected.get(change.field)) for change in changed[:LIMIT]],
        [FieldLine(change) for change in same[:LIMIT]],
        max(0, len(changed) - LIMIT) + max(0, len(same) - LIMIT),
    )


def _facts(value: Any) -> list[tuple[str, str]]:
    """A JSON object as names and values; any other value has no name; None is no facts."""
    if value is None:
        return []
    if not isinstance(value, Mapping):
        return [("value", plain(value))]
    facts = [(str(name), plain(item)) for name, item in list(value.items())[:_MAX_FACTS]]
    if len(value) > _MAX_FACTS:
        facts.append(("…", f"{len(value) - _MAX_FACTS:,} more"))
    return facts


def _inputs(record: RunRecord, blob: Blob) -> InputTable | str | None:
    if record.recording.events is None:
        return None
    try:
        return read_inputs(fetch(blob, record.recording.events))
    except MissingEvidence as error:
        return str(error)


def _phases(timings: Mapping[str, float]) -> list[tuple[str, str, float]]:
    """Name, time in words and share of the longest in percent."""
    known = [name for name in PHASES if name in timings]
    names = [*known, *(name for name in list(timings)[:50] if name not in PHASES)]
    longest = max((timings[name] for name in names if math.isfinite(timings[name])), default=0.0)
    return [(name, duration(timings[name]), _share(timings[name], longest)) for name in names]


def _share(value: float, longest: float) -> float:
    if longest <= 0 or not math.isfinite(value):
        return 0.0
    return round(min(100.0, max(0.4, 100 * value / longest)), 1)


def _warnings(record: RunRecord) -> list[str]:
    warnings = list(record.verdict.warnings)
    if record.before is not None and not record.before.settled:
        warnings.append("The state was still changing when the snapshot before the agent's work was taken.")
    return warnings


def _restless(record: RunRecord) -> str:
    """What the page says at once where the state was judged before it was final; empty: it was final."""
    if record.after is None or record.after.settled:
        return ""
    still = record.stillness
    if still is None:
        return "The state was still changing when it was read: what came later is not in this verdict."
    seen = f", and the last change was seen after {still.last_change:.1f} s" if still.last_change is not None else ""
    return (
        f"The state was still changing when it was read: it was to be quiet for {still.asked:g} s and was not within "
        f"{still.waited:.0f} s{seen}. What came later is not in this verdict."
    )


def _snapshots(record: RunRecord) -> list[SnapshotLine]:
    before = record.before.readings if record.before else {}
    after = record.after.readings if record.after else {}
    identities = record.verdict.identities
    lines = []
    for name in list({**before, **after})[:LIMIT]:
        first, last = before.get(name), after.get(name)
        reading = last or first
        kind = reading.kind if reading else ""
        lines.append(SnapshotLine(name, kind, _reading(first), _reading(last), identities.get(name, "")))
    return lines


def _reading(reading: Reading | None) -> str:
    if reading is None:
        return "not taken"
    if reading.unreadable is not None:
        return f"unreadable: {reading.unreadable}"
    return ", ".join(f"{role} {sha256[:16] if sha256 else 'absent'}" for role, sha256 in reading.blobs.items())


def _taken(record: RunRecord) -> str:
    return f"Before: {_when(record.before)} After: {_when(record.after)}"


def _when(snapshot: SnapshotRef | None) -> str:
    if snapshot is None:
        return "not taken."
    return f"{moment(snapshot.taken)}{f', {snapshot.how}' if snapshot.how else ''}."
