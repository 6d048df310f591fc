"""Outcomes on the terminal."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable
from typing import Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from runner.record import RunRecord
from runner.report.stats import Tally, tally
from runner.report.text import duration, visible
from runner.report.words import CAUSES, OUTCOMES, in_words, kind_name

_CLAIM: Final = re.compile(r"^The agent [^,.]{1,80}, (?:and|but) ")
_MAX_REASON: Final = 160
_MAX_NAME: Final = 60


def outcome_table(records: Iterable[RunRecord]) -> Group:
    """A line per run under its contract, readable at 100 columns and without colour; superseded attempts are only counted.

    Texts of records are data: they carry no markup and no control characters to the terminal.
    """
    runs = list(records)
    counted = [record for record in runs if not record.superseded]
    prompts = {record.agent.prompt for record in counted}
    parts: list[Text | Table] = []
    for (name, title), members in itertools.groupby(counted, lambda one: (one.contract.id, one.contract.title)):
        heading = Text(_shortened(visible(title), _MAX_NAME), style="bold")
        parts += [
            heading.append(f"  {_shortened(visible(name), _MAX_NAME)}", style="not bold dim"),
            _rows(members, prompts),
        ]
    return Group(*parts, Text(_summary(tally(runs)), style="bold"))


def _rows(records: Iterable[RunRecord], prompts: Collection[str]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2), expand=True, collapse_padding=True)
    table.add_column("Outcome", overflow="fold", width=22)
    table.add_column("Agent", overflow="fold", width=26)
    table.add_column("Why", overflow="fold", ratio=1)
    table.add_column("Time", justify="right", no_wrap=True, width=7)
    for record in records:
        agent = record.agent.name if len(prompts) == 1 else f"{record.agent.name}, {record.agent.prompt}"
        table.add_row(
            _outcome(record),
            _cell(agent.removeprefix("scripted ")),
            Text(_shortened(_why(visible(record.verdict.reason)), _MAX_REASON)),
            Text(duration(record.timings.get("agent"))),
        )
    table.add_row()
    return table


def _why(reason: str) -> str:
    """The reason without the clause that repeats the agent's claim, which the outcome's first letters tell."""
    rest = _CLAIM.sub("", reason)
    return rest[:1].upper() + rest[1:]


def _outcome(record: RunRecord) -> Text:
    outcome = OUTCOMES[record.verdict.outcome]
    text = Text(outcome.letters, style=f"bold {outcome.colour}")
    kind = _shortened(visible(kind_name(record.verdict)), _MAX_NAME)
    return text.append(f" {kind}", style="not bold default") if kind else text


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


def _shortened(text: str, limit: int) -> str:
    """The text, cut after a whole word if there is one."""
    if len(text) <= limit:
        return text
    head = text[: limit - 2]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head else head} …"
