"""A verdict as the run record tells it: the ledger in words, expectations beside what came closest to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runner.record import (
    FieldChange,
    IgnoredEntry,
    LedgerEntry,
    Misfit,
    Missing,
    NoteEntry,
    ReturnProblem,
    VerdictPart,
)
from validators.changes import Comparison
from validators.serialise import verdict_to_dict
from validators.verdict import Verdict

_MOST_IGNORED = 200


def verdict_part(verdict: Verdict, comparisons: Sequence[Comparison]) -> VerdictPart:
    """The record's part about the judgement.

    Args:
        verdict: The judgement.
        comparisons: What happened to each observable; empty when nothing could be compared.
    """
    data = verdict_to_dict(verdict)
    ledger = data["ledger"] or {"entries": [], "slots": [], "near_misses": [], "hints": [], "left_out": 0}
    returns = data["returns"]
    warnings = [f"{c.observable}: {text}" for c in comparisons for text in c.warnings]
    if ledger["left_out"]:
        warnings.append(f"{ledger['left_out']} more changes are not listed here; the snapshots hold them")
    return VerdictPart(
        outcome=data["outcome"],
        kind=data["kind"],
        cause=data["cause"],
        reason=data["reason"],
        goal_reached=data["goal_reached"],
        state_valid=data["state_valid"],
        returns_valid=returns["valid"] if returns else None,
        side_effects=data["side_effects"],
        ledger=[_entry(entry) for entry in ledger["entries"]],
        missing=[_missing(slots, ledger) for slots in ledger["slots"] if slots["missing"]],
        returns=[_problem(problem) for problem in returns["problems"]] if returns else [],
        notes=[NoteEntry(observable=c.observable, kind=n.kind, text=n.text, count=n.count) for c in comparisons for n in c.notes],
        warnings=warnings,
        ignored=[
            IgnoredEntry(
                observable=c.observable, rule=i.rule, because=i.because, count=i.count, examples=list(i.examples)
            )
            for c in comparisons
            for i in c.ignored
        ][:_MOST_IGNORED],
        identities={c.observable: c.identity for c in comparisons if c.identity},
    )  # fmt: skip


def _entry(entry: dict[str, Any]) -> LedgerEntry:
    effect = entry.get("effect")
    return LedgerEntry(
        observable=entry["observable"],
        verb=entry["verb"],
        subject=entry["subject"],
        how=entry["how"],
        status=entry["status"],
        effect=_words(effect),
        because=(effect["because"] or "") if effect else "",
        part_of_task="part_of_task" in entry,
        cause=_words(entry.get("cause")),
        fields=[FieldChange(**field) for field in entry["fields"]],
    )


def _missing(slots: dict[str, Any], ledger: dict[str, Any]) -> Missing:
    effect = slots["effect"]
    near = next((miss for miss in ledger["near_misses"] if miss["effect"] == effect), None)
    hints = [hint["text"] for hint in ledger["hints"] if hint["effect"] == effect]
    verb, _, observable = effect["label"].partition(" ")
    return Missing(
        effect=effect["label"],
        observable=near["observable"] if near else observable.split(" ")[0],
        verb=verb,
        count=slots["missing"],
        near_miss=near["subject"] if near else None,
        misfits=[
            Misfit(field=m["field"], expected=m["expected"], found=m["found"], before=m["before"] or None)
            for m in (near["misfits"] if near else [])
        ],
        half_finished=bool(near and near["half_finished"]),
        hint="; ".join(hints),
        cause=_words(slots["cause"]),
    )


def _problem(problem: dict[str, Any]) -> ReturnProblem:
    return ReturnProblem(**{**problem, "cause": _words(problem["cause"])})


def _words(effect: dict[str, Any] | None) -> str | None:
    return effect["label"] if effect else None
