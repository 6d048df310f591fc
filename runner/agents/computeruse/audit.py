"""The execution audit: what became of every action that a model proposed. Kinds of trouble are counted apart and never mixed.

An action is counted in exactly one of *executed*, *malformed*, *out of bounds*, *refused* and *skipped*; *repaired* counts those
executed ones that had to be put right first, by repair. So five different weaknesses (wrong form, wrong place, forbidden, following a
failed one, sloppy but clear) are five numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from PIL import Image

from runner.agents.computeruse.actions import Action
from runner.agents.computeruse.hands import CARET
from runner.display.frames import changed_pixels

Fate = Literal["executed", "malformed", "out_of_bounds", "refused", "skipped"]

_COUNTED = (
    "actions", "executed", "malformed", "out_of_bounds", "refused", "skipped", "repaired", "loops", "unknown_tools",
    "extractions_rejected", "replies_cut", "replies_unusable", "requests_repeated", "safety_checks", "safety_acknowledged",
    "settings_dropped",
)  # fmt: skip
"""What is always told, also where it is nought: ``audit_actions`` and so on."""


@dataclass
class Audit:
    """The counts of one run.

    Attributes:
        counts: By name, without the prefix ``audit_``.
        repairs: By the repair's name.
    """

    counts: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)

    def action(self, fate: Fate, repairs: tuple[str, ...] = ()) -> None:
        """Counts one proposed action."""
        self.counts["actions"] += 1
        self.counts[fate] += 1
        if repairs:
            self.counts["repaired"] += 1
            self.repairs.update(repairs)

    def note(self, name: str) -> None:
        """Counts something else than an action's fate."""
        self.counts[name] += 1

    def usage(self) -> dict[str, float]:
        """The counts as an agent's report holds them."""
        told = {f"audit_{name}": float(self.counts[name]) for name in _COUNTED}
        return told | {f"audit_repair_{name}": float(count) for name, count in sorted(self.repairs.items())}


class LoopWatch:
    """Notices a model that repeats itself: the same action on the same screen, several times in a row.

    Screens are the same when they differ by no more than a blinking caret does.
    """

    def __init__(self, after: int) -> None:
        """Begins to watch; a loop is ``after`` equal actions in a row, and again each ``after`` more."""
        self._after = after
        self._last: tuple[Action, ...] = ()
        self._screen: Image.Image | None = None
        self._times = 0

    def repeated(self, actions: tuple[Action, ...], screen: Image.Image) -> bool:
        """Whether a loop is complete with these actions of one reply, which are to be done on this screen."""
        same = (
            bool(actions)
            and actions == self._last
            and self._screen is not None
            and self._screen.size == screen.size
            and changed_pixels(self._screen, screen) <= CARET
        )
        self._times = self._times + 1 if same else 1
        self._last, self._screen = actions, screen
        return bool(actions) and self._times >= self._after and self._times % self._after == 0
