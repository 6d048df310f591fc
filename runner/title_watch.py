"""Which windows were seen while an agent worked: evidence of how far it came."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from types import TracebackType

from runner.capture import read_windows
from runner.guests.base import Guest, GuestLost, Unreadable
from runner.guests.probe import WindowEntry

MAX_TITLES = 2_000
MAX_TITLE = 1_000
"""Characters of the longest title that is kept."""
_JOIN_SECONDS = 30.0
"""For the look that is being made at the end and the last one."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
_REST = 4
"""Between two looks it waits this many times as long as a look takes, so that a slow machine is not kept busy by it."""


class TitleWatch:
    """Lists the visible windows' titles again and again, in a thread of its own, for the length of a block."""

    def __init__(self, guest: Guest) -> None:
        """Begins with the block."""
        self._guest = guest
        self._over = threading.Event()
        self._titles: set[str] = set()
        self._has_looked = False
        self._noting = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="title watch", daemon=True)

    @property
    def titles(self) -> frozenset[str] | None:
        """What was seen so far; ``None``: the windows could not be listed even once."""
        with self._noting:
            return frozenset(self._titles) if self._has_looked else None

    def noted(self, windows: tuple[WindowEntry, ...]) -> tuple[WindowEntry, ...]:
        """The windows that somebody else has just listed, after taking their titles down."""
        self._note(window.title for window in windows)
        return windows

    def __enter__(self) -> TitleWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(_JOIN_SECONDS)

    def _watch(self) -> None:
        with contextlib.suppress(GuestLost):  # whoever needs the machine finds out
            is_last = False
            while not is_last:
                is_last = self._over.is_set()  # one look is made after the end: what the agent leaves counts
                began = time.monotonic()
                with contextlib.suppress(Unreadable):
                    self._look()
                took = time.monotonic() - began
                self._over.wait(min(max(_SHORTEST_PAUSE, _REST * took), _LONGEST_PAUSE))

    def _note(self, titles: Iterable[str]) -> None:
        with self._noting:
            self._has_looked = True
            new = sorted({title[:MAX_TITLE] for title in titles if title} - self._titles)
            self._titles.update(new[: MAX_TITLES - len(self._titles)])

    def _look(self) -> None:
        self._note(window.title for window in read_windows(self._guest).items)
