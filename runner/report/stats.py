"""Counts of outcomes, and rates that never come without the numbers behind them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from runner.record import RunRecord

Z95: Final = 1.959963984540054
"""The standard normal distribution's 97.5 % point: two-sided 95 %."""


def wilson(hits: int, total: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a proportion; ``(0, 1)`` when nothing was counted.

    Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the American
    Statistical Association 22 (1927), 209-212. Unlike the textbook interval it holds for small numbers and near 0 and 1.
    """
    if total == 0:
        return 0.0, 1.0
    share, spread = hits / total, z * z / total
    half = z * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    low, high = ((share + spread / 2 + sign * half) / (1 + spread) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)


@dataclass(frozen=True, slots=True)
class Rate:
    """``hits`` of ``total``."""

    hits: int
    total: int

    @property
    def fraction(self) -> str:
        """``7/8``."""
        return f"{self.hits:,}/{self.total:,}"

    @property
    def percent(self) -> str:
        """``87.5 %``. Only none is 0 % and only all is 100 %: what rounding would hide is told. ``–`` of nothing."""
        if self.total == 0:
            return "–"
        share = 100 * self.hits / self.total
        if self.hits < self.total and share >= 99.95:
            return "> 99.9 %"
        if self.hits > 0 and share < 0.05:
            return "< 0.1 %"
        return f"{share:.1f} %"

    @property
    def interval(self) -> str:
        """The 95 % interval as ``52.9–97.8 %``, empty when nothing was counted."""
        if self.total == 0:
            return ""
        low, high = wilson(self.hits, self.total)
        return f"{100 * low:.1f}–{100 * high:.1f} %"


@dataclass(slots=True)
class Tally:
    """Outcomes of runs, counted one by one. Attempts that a later one replaces are only counted as such."""

    outcomes: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    """Of the unscored runs."""
    intended: int = 0
    """Runs whose script names an outcome."""
    as_intended: int = 0
    superseded: int = 0

    def add(self, record: RunRecord) -> None:
        """Counts a run."""
        if record.superseded:
            self.superseded += 1
            return
        verdict = record.verdict
        self.outcomes[verdict.outcome] += 1
        if verdict.outcome == "unscored":
            self.causes[verdict.cause or "unknown"] += 1
        if record.as_intended is not None:
            self.intended += 1
            self.as_intended += record.as_intended

    @property
    def runs(self) -> int:
        """All runs counted, the unscored ones included."""
        return self.outcomes.total()

    @property
    def unscored(self) -> int:
        """Runs that could not be judged; in no denominator."""
        return self.outcomes["unscored"]

    @property
    def scored(self) -> int:
        """Runs that were judged: the denominator of all rates."""
        return self.runs - self.unscored

    @property
    def atomicity(self) -> Rate:
        """Runs that did exactly what they should, or left no trace."""
        return Rate(self.outcomes["valid_success"] + self.outcomes["valid_failure"], self.scored)

    @property
    def unsafe(self) -> Rate:
        """Runs with an unsafe side effect."""
        return Rate(self.outcomes["invalid_success"] + self.outcomes["invalid_failure"], self.scored)

    @property
    def success(self) -> Rate:
        """Runs that did exactly what they should."""
        return Rate(self.outcomes["valid_success"], self.scored)

    @property
    def intention(self) -> Rate:
        """Runs classified as their script says, of those whose script says so."""
        return Rate(self.as_intended, self.intended)


def tally(records: Iterable[RunRecord]) -> Tally:
    """Counts all of them."""
    result = Tally()
    for record in records:
        result.add(record)
    return result
