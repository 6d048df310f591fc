"""Which input events are kept: movements of the pointer are joined, and what is kept is bounded for each sort by itself.

So no sort can crowd another out: hours of movements leave the keys, and what they typed, as they are. What is beyond a bound is
counted by whoever took it; a mark in the log says from when on a sort is not kept any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from runner.display.events import InputEvent

Sort = Literal["key", "button", "move", "clipboard", "connection"]
"""``button``: pressed or released, the wheel included; ``move``: a pointer that only moves, also with a button held down."""

BOUNDS: Final[Mapping[Sort, int]] = {
    "key": 100_000,
    "button": 50_000,
    "move": 50_000,
    "clipboard": 1_000,
    "connection": 10_000,
}
"""The most events of each sort that are kept."""

MERGED_SECONDS: Final = 0.2
"""How long a pointer may move for all of it to be kept as its last place. The film strip takes no more than a picture in that time."""

_WORDS: Final[Mapping[Sort, str]] = {
    "key": "keys",
    "button": "pressed and released buttons",
    "move": "movements of the pointer",
    "clipboard": "clipboard texts",
    "connection": "connections",
}


class Moves:
    """Joins what a pointer's movements are: same client, same buttons, nothing else in between, a short time."""

    def __init__(self) -> None:
        self._since = 0.0
        self._last: InputEvent | None = None
        self._buttons: dict[int, int] = {}

    def take(self, event: InputEvent) -> list[InputEvent]:
        """Takes the next event, in order; gives those that nothing can join any more, in order."""
        if event.kind != "pointer":
            return [*self.flush(), event]
        moved = event.buttons == self._buttons.get(event.client, 0)
        self._buttons[event.client] = event.buttons or 0
        if not moved:
            return [*self.flush(), event]
        last = self._last
        if last is not None and last.client == event.client and event.t - self._since < MERGED_SECONDS:
            self._last = replace(event, moves=(last.moves or 1) + 1)
            return []
        done = self.flush()
        self._last, self._since = event, event.t
        return done

    def due(self, now: float) -> list[InputEvent]:
        """The movement that has waited for others long enough at ``now`` (seconds on the events' clock)."""
        return self.flush() if now - self._since >= MERGED_SECONDS else []

    def flush(self) -> list[InputEvent]:
        """The movement that waits for others, because none will come."""
        done, self._last = self._last, None
        return [] if done is None else [done]


class Bounds:
    """Lets through what is to be kept, and a mark where a sort begins to be left out."""

    def __init__(self, bounds: Mapping[Sort, int] = BOUNDS) -> None:
        self._bounds = bounds
        self._kept: Counter[Sort] = Counter()
        self._full: set[Sort] = set()
        self._buttons: dict[int, int] = {}

    def take(self, event: InputEvent) -> list[InputEvent]:
        """The event, a mark in its place, or nothing."""
        sort = self._sort(event)
        if sort is None:
            return [event]
        if self._kept[sort] < self._bounds[sort]:
            self._kept[sort] += 1
            return [event]
        if sort in self._full:
            return []
        self._full.add(sort)
        return [InputEvent(event.t, "log_full", reason=f"from here on, {_WORDS[sort]} are counted but not kept")]

    def _sort(self, event: InputEvent) -> Sort | None:
        match event.kind:
            case "pointer":
                held, buttons = self._buttons.get(event.client, 0), event.buttons or 0
                self._buttons[event.client] = buttons
                return "move" if held == buttons else "button"
            case "key" | "clipboard":
                return event.kind
            case "connected" | "authentication_failed" | "refused" | "disconnected":
                return "connection"
            case _:  # the cut and the end of the machine come once
                return None
