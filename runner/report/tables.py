"""Outcomes on the terminal."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from runner.record import RunRecord
from runner.report.stats import Tally, tally
from runner.report.text import duration, visible
from runner.report.words import CAUSES, OUTCOMES, in_words, kind_name

_CLAIM: Final = re.compile(r"^The agent [^,.]{1,80}, (?:and|but) ")
_MAX_REASON: Final = 160
_MAX_NAME: Final = 60
_BESIDE: Final = 95
"""Columns from which on the reason stands beside outcome and agent; below it has lines of its own."""


def outcome_table(records: Iterable[RunRecord]) -> Group:
    """Every run under its contract with outcome, agent, reason and time, at any width and without colour.

    Superseded attempts are only counted. Texts of records are data: they carry no markup and no control characters to the terminal.
    """
    runs = list(records)
    counted = [record for record in runs if not record.superseded]
    prompts = {record.agent.prompt for record in counted}
    parts: list[RenderableType] = []
    for (name, title), members in itertools.groupby(counted, lambda one: (one.contract.id, one.contract.title)):
        heading = Text(_shortened(visible(title), _MAX_NAME), style="bold", overflow="fold")
        parts += [
            heading.append(f"  {_shortened(visible(name), _MAX_NAME)}", style="not bold dim"),
            _Rows([_row(record, prompts) for record in members]),
        ]
    return Group(*parts, Text(_summary(tally(runs)), style="bold"))


@dataclass(frozen=True)
class _Row:
    """What the table says of a run."""

    outcome: Text
    agent: Text
    why: Text
    time: Text


@dataclass(frozen=True)
class _Rows:
    """The runs of a contract: a line each where there is room, else the reason below."""

    rows: Sequence[_Row]

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        if options.max_width >= _BESIDE:
            yield self._beside()
            return
        for row in self.rows:
            head = Text(" · ", overflow="fold").join(part for part in (row.outcome, row.agent, row.time) if part)
            yield Padding(head, (0, 0, 0, 2))
            yield Padding(row.why, (0, 0, 0, 4))
        yield ""

    def _beside(self) -> Table:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2), expand=True, collapse_padding=True)
        table.add_column("Outcome", overflow="fold", width=22)
        table.add_column("Agent", overflow="fold", width=26)
        table.add_column("Why", overflow="fold", ratio=1)
        table.add_column("Time", justify="right", no_wrap=True, width=7)
        for row in self.rows:
            table.add_row(row.outcome, row.agent, row.why, row.time)
        table.add_row()
        return table


def _row(record: RunRecord, prompts: Collection[str]) -> _Row:
    agent = record.agent.name if len(prompts) == 1 else f"{record.agent.name}, {record.agent.prompt}"
    return _Row(
        _outcome(record),
        _cell(agent.removeprefix("scripted ")),
        Text(_shortened(_why(visible(record.verdict.reason)), _MAX_REASON), overflow="fold"),
        Text(duration(record.timings.get("agent"))),
    )


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
    return Text(_shortened(visible(text), _MAX_NAME), overflow="fold")


def _shortened(text: str, limit: int) -> str:
    """The text, cut after a whole word if there is one."""
    if len(text) <= limit:
        return text
    head = text[: limit - 2]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head else head} …"
