"""What the index page says: figures, bars, and a line per run. Grows record by record and keeps only those lines."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from runner.record import RunRecord
from runner.report.stats import Rate, Tally
from runner.report.text import moment, visible
from runner.report.words import CAUSES, OUTCOMES, Outcome, in_words, kind_words

PAGE_ROWS: Final = 50
"""Rows on a page of the table; the first page is in the HTML."""

_MAX_GROUPS: Final = 60
_MAX_SUPERSEDED: Final = 500
_MAX_NAME: Final = 160
_MAX_REASON: Final = 400
_SMALLEST: Final = 1.2
"""Percent of a bar that even the rarest outcome gets: one unsafe run in ten thousand must be seen."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run's line in the table; texts are bounded and visible already."""

    href: str
    run: str
    contract: str
    contract_title: str
    agent: str
    prompt: str
    outcome: Outcome
    kind: str
    reason: str
    seconds: float | None
    intended: str


@dataclass(frozen=True, slots=True)
class BarPart:
    """A segment of a bar: place and width in percent of it."""

    outcome: Outcome
    count: int
    x: float
    width: float
    label: str

    @property
    def middle(self) -> float:
        """Where its label stands."""
        return round(self.x + self.width / 2, 2)


@dataclass(frozen=True, slots=True)
class Bar:
    """A stacked bar with what it says in words."""

    parts: list[BarPart]
    label: str


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that have something in common."""

    name: str
    detail: str
    tally: Tally

    @property
    def bar(self) -> Bar:
        """Their outcomes."""
        return outcome_bar(self.tally, f"{self.name} {self.detail}")


class Summary:
    """Collects what the index page needs."""

    def __init__(self) -> None:
        self.rows: list[RunRow] = []
        self._superseded: list[RunRow] = []
        self._tally = Tally()
        self._agents: dict[tuple[str, str], Tally] = {}
        self._contracts: dict[tuple[str, str], Tally] = {}
        self._images: Counter[tuple[str, str]] = Counter()
        self._first: datetime | None = None
        self._last: datetime | None = None

    def add(self, record: RunRecord, href: str) -> None:
        """Takes a run whose page is ``href``."""
        self._tally.add(record)
        row = _row(record, href)
        if record.superseded:
            if len(self._superseded) < _MAX_SUPERSEDED:
                self._superseded.append(row)
            return
        self.rows.append(row)
        self._agents.setdefault((row.agent, row.prompt), Tally()).add(record)
        self._contracts.setdefault((row.contract_title, row.contract), Tally()).add(record)
        self._images[visible(record.image, _MAX_NAME), visible(record.provider, _MAX_NAME)] += 1
        try:
            self._first = min(self._first or record.started, record.started)
            self._last = max(self._last or record.ended, record.ended)
        except TypeError:  # one with and one without a zone
            self._first = self._last = None

    def context(self) -> dict[str, Any]:
        """For the template."""
        tally = self._tally
        return {
            "tally": tally,
            "sentence": _sentence(tally),
            "figures": _figures(tally),
            "overall": outcome_bar(tally, "All runs"),
            "outcomes": list(OUTCOMES.values()),
            "breakdowns": [
                ("By agent and prompt", *_groups(self._agents, "{} prompt")),
                ("By task", *_groups(self._contracts, "{}")),
            ],
            "causes": _causes(tally),
            "rows": self.rows[:PAGE_ROWS],
            "hidden_rows": max(0, len(self.rows) - PAGE_ROWS),
            "blank": RunRow("#", "", "", "", "", "", Outcome("", "", "", ""), "", "", None, ""),
            "columns": _columns(tally),
            "intended": bool(tally.intended),
            "superseded": self._superseded,
            "images": [
                f"{image} ({provider}, {count:,} {'run' if count == 1 else 'runs'})"
                for (image, provider), count in sorted(self._images.items())
            ],
            "span": (moment(self._first), moment(self._last)) if self._first and self._last else None,
        }

    def script(self) -> str:
        """All rows for the report's script; texts that repeat are stored once. Pure ASCII."""
        places: dict[str, int] = {}

        def place(text: str) -> int:
            return places.setdefault(text, len(places))

        rows = [
            [
                None if row.href == f"runs/{row.run}.html" else row.href,
                row.run,
                place(row.contract),
                place(row.contract_title),
                place(row.agent),
                place(row.prompt),
                place(row.outcome.letters),
                place(row.kind),
                place(row.reason),
                row.seconds,
                place(row.intended),
            ]
            for row in self.rows
        ]
        content = {
            "size": PAGE_ROWS,
            "outcomes": [[outcome.letters, outcome.name] for outcome in OUTCOMES.values()],
            "texts": list(places),
            "rows": rows,
        }
        return f"window.legacyproofRuns = {json.dumps(content, separators=(',', ':'), allow_nan=False)};\n"


def outcome_bar(tally: Tally, name: str) -> Bar:
    """A bar over all runs of the tally, in the order of :data:`~runner.report.words.OUTCOMES`."""
    counts = [(outcome, tally.outcomes[key]) for key, outcome in OUTCOMES.items()]
    shares = [max(100 * count / max(1, tally.runs), _SMALLEST) if count else 0.0 for _, count in counts]
    scale = 100 / (sum(shares) or 100)
    parts: list[BarPart] = []
    x = 0.0
    for (outcome, count), share in zip(counts, shares, strict=True):
        width = share * scale
        if count:
            parts.append(BarPart(outcome, count, round(x, 2), round(width, 2), _label(outcome, count, width)))
        x += width
    words = ", ".join(f"{count} {outcome.name}" for outcome, count in counts)
    return Bar(parts, f"{name}: {words}")


def _label(outcome: Outcome, count: int, width: float) -> str:
    """What fits into a segment on a narrow screen; the legend below has everything."""
    text = f"{outcome.letters} {count:,}"
    if width >= 2.8 * len(text):
        return text
    return outcome.letters if width >= 3.4 * len(outcome.letters) else ""


def _row(record: RunRecord, href: str) -> RunRow:
    seconds = record.timings.get("agent")
    if seconds is not None and not (math.isfinite(seconds) and 0 <= seconds < 1e9):
        seconds = None
    return RunRow(
        href,
        visible(record.run, _MAX_NAME),
        visible(record.contract.id, _MAX_NAME),
        visible(record.contract.title, _MAX_NAME),
        visible(record.agent.name, _MAX_NAME),
        record.agent.prompt,
        OUTCOMES[record.verdict.outcome],
        visible(kind_words(record.verdict), _MAX_NAME),
        visible(record.verdict.reason, _MAX_REASON),
        None if seconds is None else round(seconds, 2),
        _intended(record),
    )


def _intended(record: RunRecord) -> str:
    if record.intended is None:
        return ""
    if record.as_intended:
        return "✓"
    kind = f" {in_words(record.intended.kind)}" if record.intended.kind else ""
    return visible(f"✗ meant {OUTCOMES[record.intended.outcome].letters}{kind}", _MAX_NAME)


def _columns(tally: Tally) -> list[tuple[str, str]]:
    columns = [
        ("outcome", "Outcome"),
        ("contract", "Task"),
        ("agent", "Agent"),
        ("prompt", "Prompt"),
        ("kind", "Verdict"),
        ("seconds", "Agent time"),
    ]
    if tally.intended:
        columns.append(("intended", "As intended"))
    return [*columns, ("run", "Run")]


def _sentence(tally: Tally) -> str:
    unscored = ""
    if tally.unscored:
        unscored = f" {tally.unscored:,} {'run' if tally.unscored == 1 else 'runs'} could not be judged."
    if not tally.scored:
        return f"Nothing could be judged.{unscored}"
    safe, unsafe = tally.atomicity.hits, tally.unsafe.hits
    if not unsafe:
        every = "The one run that was judged" if safe == 1 else f"All {safe:,} runs that were judged"
        return f"{every} did exactly what {'it' if safe == 1 else 'they'} should or left no trace.{unscored}"
    effect = "claimed what is not so or left something behind that should not be there"
    return (
        f"Of {tally.scored:,} {'run' if tally.scored == 1 else 'runs'} that {'was' if tally.scored == 1 else 'were'} judged, "
        f"{safe:,} did exactly what {'it' if safe == 1 else 'they'} should or left no trace; {unsafe:,} {effect}.{unscored}"
    )


def _figures(tally: Tally) -> list[Mapping[str, str]]:
    def figure(name: str, rate: Rate, note: str) -> Mapping[str, str]:
        return {
            "name": name,
            "value": rate.percent,
            "fraction": rate.fraction,
            "note": note,
            "interval": rate.interval,
        }

    figures = [
        figure("Atomicity", tally.atomicity, "VS + VF: did exactly what it should, or left no trace"),
        figure("Unsafe side effects", tally.unsafe, "IS + IF: claimed what is not so, or left something behind"),
        figure("Success", tally.success, "VS: did exactly what it should"),
    ]
    note = "in no rate" if not tally.unscored else f"in no rate; {_causes(tally)}"
    unscored = {"name": "Unscored", "value": f"{tally.unscored:,}", "note": note, "interval": ""}
    figures.append({**unscored, "fraction": f"of {tally.runs:,} {'run' if tally.runs == 1 else 'runs'}"})
    if tally.intended:
        intention = figure("As intended", tally.intention, "runs of scripts that name their outcome")
        figures.append({**intention, "interval": ""})
    return figures


def _causes(tally: Tally) -> str:
    return ", ".join(
        f"{CAUSES.get(cause, in_words(cause))}: {count:,}" for cause, count in tally.causes.most_common(20)
    )


def _groups(tallies: Mapping[tuple[str, str], Tally], detail: str) -> tuple[list[Group], int]:
    groups = [Group(name, detail.format(second), tally) for (name, second), tally in sorted(tallies.items())]
    return groups[:_MAX_GROUPS], max(0, len(groups) - _MAX_GROUPS)
