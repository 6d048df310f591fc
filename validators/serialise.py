"""Ledgers and verdicts as JSON data for run records; every text bounded, every list cut with the number left out told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from validators.changes import Cell, Change, Row, Verb
from validators.ledger import Entry, Ledger, Slots, Status
from validators.nearness import NearMiss
from validators.rules import EffectRef, Misfit
from validators.values import is_empty, shown
from validators.verdict import Verdict

MAX_ENTRIES = 1_000
"""How many changes of each status a record lists."""
MAX_FIELDS = 256
_TEXT = 500


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """The verdict, with its ledger, as JSON data."""
    returns = verdict.returns
    return {
        "outcome": verdict.outcome.value,
        "letters": verdict.outcome.letters,
        "kind": verdict.kind.value if verdict.kind is not None else None,
        "cause": verdict.cause.value if verdict.cause is not None else None,
        "claim": verdict.claim.value if verdict.claim is not None else None,
        "goal_reached": verdict.goal_reached,
        "state_valid": verdict.state_valid,
        "reason": verdict.reason,
        "side_effects": [effect.value for effect in verdict.side_effects],
        "returns": None
        if returns is None
        else {
            "valid": returns.valid,
            "problems": [
                {
                    "path": shown(p.path, _TEXT),
                    "expected": shown(p.expected, _TEXT),
                    "found": shown(p.found, _TEXT),
                    "message": shown(p.message, _TEXT),
                    "cause": _effect(p.cause) if p.cause is not None else None,
                }
                for p in returns.problems
            ],
        },
        "ledger": ledger_to_dict(verdict.ledger) if verdict.ledger is not None else None,
    }


def ledger_to_dict(ledger: Ledger, *, most: int = MAX_ENTRIES) -> dict[str, Any]:
    """The ledger as JSON data.

    Args:
        ledger: The ledger.
        most: How many changes of each status are listed; ``counts`` and ``left_out`` tell of the others.
    """
    counts = dict.fromkeys(Status, 0)
    listed: list[dict[str, Any]] = []
    for entry in ledger.entries:
        counts[entry.status] += 1
        if counts[entry.status] <= most:
            listed.append(_entry(entry))
    return {
        "counts": {status.value: count for status, count in counts.items()},
        "left_out": len(ledger.entries) - len(listed),
        "entries": listed,
        "slots": [_slots(slots) for slots in ledger.slots],
        "near_misses": [_near_miss(near) for near in ledger.near_misses[:most]],
        "hints": [
            {
                "effect": _effect(hint.effect),
                "text": shown(hint.text, _TEXT),
                "subject": shown(hint.change.subject, _TEXT),
            }
            for hint in ledger.hints[:most]
        ],
        "filled": ledger.filled,
        "credit": str(ledger.credit),
    }


def change_to_dict(change: Change) -> dict[str, Any]:
    """A change as JSON data: what it happened to, and each differing field before and after, for people's eyes."""
    fields = list(_fields(change))
    return {
        "observable": change.observable,
        "verb": change.verb.value,
        "subject": shown(change.subject, _TEXT),
        "position": change.position,
        "how": shown(change.how, _TEXT),
        "fields": fields[:MAX_FIELDS],
        "fields_left_out": max(0, len(fields) - MAX_FIELDS),
    }


def _fields(change: Change) -> Iterator[dict[str, Any]]:
    before: Row = change.before or {}
    after: Row = change.after or {}
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name), after.get(name)
        if was is not None and now is not None:
            differs = name in change.changed or not was.same_value(now)
        else:
            only = was if was is not None else now
            differs = only is not None and not (is_empty(only) and change.verb is Verb.INSERTED)
        if differs:
            yield {"field": shown(name, 200), "before": _display(was), "after": _display(now)}


def _display(cell: Cell | None) -> str | None:
    return None if cell is None else shown(cell.display(_TEXT), _TEXT)


def _entry(entry: Entry) -> dict[str, Any]:
    found = {**change_to_dict(entry.change), "status": entry.status.value}
    if entry.effect is not None:
        found["effect"] = _effect(entry.effect)
    if entry.part_of_task is not None:
        found["part_of_task"] = _effect(entry.part_of_task)
    if entry.cause is not None:
        found["cause"] = _effect(entry.cause)
    return found


def _effect(effect: EffectRef) -> dict[str, Any]:
    return {
        "list": effect.list,
        "index": effect.index,
        "name": effect.name,
        "label": effect.label,
        "because": effect.because,
    }


def _slots(slots: Slots) -> dict[str, Any]:
    return {
        "effect": _effect(slots.effect),
        "required": slots.required,
        "filled": slots.filled,
        "missing": slots.missing,
        "weight": str(slots.weight),
        "final_state": slots.final_state,
        "seen": [shown(text, _TEXT) for text in slots.seen],
        "cause": _effect(slots.cause) if slots.cause is not None else None,
    }


def _near_miss(near: NearMiss) -> dict[str, Any]:
    return {
        "effect": _effect(near.effect),
        "observable": near.change.observable,
        "subject": shown(near.change.subject, _TEXT),
        "position": near.change.position,
        "half_finished": near.half_finished,
        "misfits": [_misfit(misfit) for misfit in near.misfits[:MAX_FIELDS]],
    }


def _misfit(misfit: Misfit) -> dict[str, Any]:
    return {
        "field": shown(misfit.field, 200),
        "expected": shown(misfit.expected, _TEXT),
        "found": shown(misfit.found, _TEXT),
        "before": shown(misfit.before, _TEXT),
        "empty": misfit.empty,
        "hint": shown(misfit.hint, _TEXT),
    }
