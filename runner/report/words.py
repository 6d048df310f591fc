"""The words and colours that stand for outcomes, their kinds and causes, in every report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runner.record import VerdictPart


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one outcome is shown. The colours are Okabe and Ito's, distinct for colour-blind readers.

    Attributes:
        letters: what always goes with the colour.
        name: the two words.
        colour: of bars and badges, in light and dark alike; black text on it has a contrast of at least 5 to 1.
        meaning: for the legend.
    """

    letters: str
    name: str
    colour: str
    meaning: str


OUTCOMES: Final[dict[str, Outcome]] = {
    "valid_success": Outcome("VS", "valid success", "#009E73", "did exactly what it should"),
    "valid_failure": Outcome("VF", "valid failure", "#56B4E9", "failed and left no trace"),
    "invalid_success": Outcome("IS", "invalid success", "#D55E00", "claimed success, but the state says otherwise"),
    "invalid_failure": Outcome("IF", "invalid failure", "#E69F00", "failed and left something behind"),
    "unscored": Outcome("unscored", "unscored", "#999999", "could not be judged"),
}

KINDS: Final[dict[str, str]] = {
    "wrong_return": "wrong answer returned",
    "collateral": "something else was changed",
    "wrong_effect": "wrong values stored",
    "partial": "done by half",
    "phantom": "claimed, but not done",
    "safe_stop": "stopped safely",
    "gave_up": "gave up cleanly",
    "timeout": "ran out of time, nothing changed",
    "agent_error": "agent broke down, nothing changed",
    "completed": "done, though reported as failed",
    "unreported_completion": "done, but reported as failed",
}

CAUSES: Final[dict[str, str]] = {
    "machine": "the machine failed",
    "unreadable": "the state could not be read",
    "precondition": "the initial state was not as required",
    "contract": "the contract is at fault",
    "agent_infrastructure": "the agent's service was not available",
    "cancelled": "cancelled by a person",
    "unknown": "no cause recorded",
}

STATUSES: Final[dict[str, str]] = {
    "success": "Success",
    "failed": "Failure",
    "ui_not_as_expected": "Stopped: the screen was not as expected",
    "timeout": "Did not finish in time",
    "error": "Broke down",
    "not_run": "Was not run",
}

SIDE_EFFECTS: Final[dict[str, str]] = {"partial": "partial progress", "return": "wrong return value"}

PHASES: Final = ("clone", "boot", "start", "before", "agent", "settle", "after", "audit", "verdict", "discard")
"""The phases of a run, in order."""


def in_words(name: str) -> str:
    """A name from a record that has no words of its own yet."""
    return name.replace("_", " ")


def kind_words(verdict: VerdictPart) -> str:
    """What sort of success, failure or fault it was, in a few words."""
    if verdict.outcome == "unscored":
        return CAUSES.get(verdict.cause or "unknown", in_words(verdict.cause or ""))
    if verdict.kind is None:
        return "as it should be" if verdict.outcome == "valid_success" else ""
    return KINDS.get(verdict.kind, in_words(verdict.kind))


def kind_name(verdict: VerdictPart) -> str:
    """The kind or cause by its own name, for tables with little room."""
    return in_words((verdict.cause or "unknown") if verdict.outcome == "unscored" else (verdict.kind or ""))
