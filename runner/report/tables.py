"""Outcomes on the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from runner.record import RunRecord
from runner.report.stats import Tally, tally
from runner.report.text import duration, visible
from runner.report.words import CAUSES, OUTCOMES, in_words, kind_name

_MAX_REASON: Final = 120
_MAX_NAME: Final = 60


def outcome_table(records: Iterable[RunRecord]) -> Table:
    """A line per run, readable at 100 columns and without colour; superseded attempts are only counted.

    Texts of records are data: they carry no markup and no control characters to the terminal.
    """
    runs = list(records)
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), caption_justify="left", caption_style="none"
    )
    table.add_column("Contract", overflow="fold", max_width=18)
    table.add_column("Agent", overflow="fold", max_width=14)
    table.add_column("Prompt", no_wrap=True)
    table.add_column("Outcome", no_wrap=True)
    table.add_column("Kind", overflow="fold", max_width=12)
    table.add_column("Reason", overflow="fold", max_width=72)
    table.add_column("Time", justify="right", no_wrap=True)
    for record in runs:
        if record.superseded:
            continue
        outcome = OUTCOMES[record.verdict.outcome]
        table.add_row(
            Text(_broken(_shortened(visible(record.contract.id), _MAX_NAME))),
            _cell(record.agent.name),
            Text(record.agent.prompt),
            Text(outcome.letters, style=f"bold {outcome.colour}"),
            _cell(kind_name(record.verdict)),
            Text(_shortened(visible(record.verdict.reason), _MAX_REASON)),
            Text(duration(record.timings.get("agent"))),
        )
    table.caption = Text(_summary(tally(runs)), style="bold")
    return table


def summary_line(records: Iterable[RunRecord]) -> str:
    """All counts in one line: ``8 runs: VS 5 · VF 2 · IS 1 · IF 0 · unscored 0 — atomicity 7/8 (87.5 %)``."""
    return _summary(tally(records))


def _summary(counts: Tally) -> str:
    outcomes = " · ".join(f"{outcome.letters} {counts.outcomes[key]:,}" for key, outcome in OUTCOMES.items())
    parts = [f"{counts.runs:,} {'run' if counts.runs == 1 else 'runs'}: {outcomes}"]
    if counts.causes:
        causes = (f"{CAUSES.get(cause, in_words(cause))} {count:,}" for cause, count in counts.causes.most_common(10))
        parts[0] += f" ({visible(', '.join(causes))})"
    parts.append(
        f"atomicity {counts.atomicity.fraction} ({counts.atomicity.percent})" if counts.scored else "none scored"
    )
    if counts.intended:
        parts.append(f"as intended {counts.intention.fraction}")
    if counts.superseded:
        parts.append(f"superseded {counts.superseded:,}")
    return " — ".join(parts)


def _cell(text: str) -> Text:
    return Text(_shortened(visible(text), _MAX_NAME))


def _broken(name: str) -> str:
    """A contract's id in two lines if it is long: the suite, and the task."""
    suite, dot, task = name.rpartition(".")
    return f"{suite}{dot}\n{task}" if dot and len(name) > 16 else name


def _shortened(text: str, limit: int) -> str:
    """The text, cut after a whole word if there is one."""
    if len(text) <= limit:
        return text
    head = text[: limit - 2]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head else head} …"
