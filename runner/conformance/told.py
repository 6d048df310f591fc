"""What the suite says: a table for the terminal, Markdown for documents, plain data for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table

from runner.conformance.checks import Check, Result


def table(results: Sequence[Result]) -> Table:
    """One row per check."""
    made = Table("check", "result", "seconds")
    made.columns[2].justify = "right"
    for result in results:
        made.add_row(result.check.name, result.outcome, f"{result.seconds:.2f}")
    return made


def explained(results: Iterable[Result]) -> list[str]:
    """For each check that failed or does not apply: what was seen, and of failures what they mean and what to do."""
    lines = []
    for result in results:
        if result.outcome == "failed":
            lines += [
                f"{result.check.name}: {result.detail}",
                f"  should hold: {result.check.proves}",
                f"  what it means: {result.check.means}",
                f"  what to do: {result.check.remedy}",
            ]
        elif result.outcome == "not applicable":
            lines.append(f"{result.check.name}: not applicable: {result.detail}")
    return lines


def summary(results: Iterable[Result]) -> str:
    """How many came to what."""
    counts = Counter(result.outcome for result in results)
    return ", ".join(f"{outcome}: {counts[outcome]}" for outcome in ("passed", "failed", "not applicable"))


def as_data(result: Result) -> dict[str, Any]:
    """One result as plain data."""
    check = result.check
    return {
        "check": check.name,
        "result": result.outcome,
        "seconds": round(result.seconds, 3),
        "detail": result.detail,
        "proves": check.proves,
        "means": check.means,
        "remedy": check.remedy,
    }


def markdown(results: Iterable[Result]) -> str:
    """The results as a table in Markdown."""
    rows = [
        f"| `{result.check.name}` | {result.outcome} | {result.seconds:.2f} | {_cell(result.detail)} |"
        for result in results
    ]
    return "\n".join(["| check | result | seconds | seen |", "|---|---|---:|---|", *rows, ""])


def reference(checks: Iterable[Check]) -> str:
    """What the checks prove, as a table in Markdown."""
    rows = [
        f"| `{check.name}`{' (slow)' if check.slow else ''} | {_cell(check.proves)} | {_cell(check.means)} | "
        f"{_cell(check.remedy)} |"
        for check in checks
    ]
    head = ["| check | what it proves | what a failure means | what to do |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
