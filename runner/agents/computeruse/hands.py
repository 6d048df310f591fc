"""Carries out checked actions on the display, and lets go of everything at the end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from PIL import Image

from runner.agents.computeruse.actions import Action
from runner.agents.computeruse.view import Point
from runner.display.errors import DisplayError
from runner.display.keysyms import parse_chord
from runner.display.rfb import RfbClient

CARET = 60
"""Pixels: an area up to this is a blinking caret, not a change (as in the film strip)."""
_BETWEEN = 0.03


class OutOfTime(Exception):
    """The time was over, or a person stopped the run."""


class Hands:
    """The keyboard and the mouse of one run, with what is held down. Actions are done once and never repeated.

    Raises:
        DisplayError: From any action: the display is lost.
    """

    def __init__(self, screen: RfbClient, deadline: float, cancelled: threading.Event) -> None:
        """Takes over a connection.

        Args:
            screen: The display.
            deadline: A moment of ``time.monotonic()`` after which nothing is begun.
            cancelled: Set when a person stops the run.
        """
        self._screen = screen
        self._deadline = deadline
        self._cancelled = cancelled
        self._at: Point = (0, 0)
        self._buttons = 0
        self._down: list[int] = []

    @property
    def pointer(self) -> Point:
        """Where the pointer is, as far as we put it there."""
        return self._at

    def do(self, action: Action) -> None:
        """Carries out one action; ``screenshot`` and ``cursor_position`` do nothing.

        Raises:
            OutOfTime: The time was over before or during a wait.
        """
        self.ensure_time()
        match action.kind:
            case "move":
                self._move(action.at or self._at)
            case "click":
                self._click(action)
            case "drag":
                self._drag(action)
            case "mouse_down" | "mouse_up":
                if action.at is not None:
                    self._move(action.at)
                bit = 1 << (action.button - 1)
                self._buttons = self._buttons | bit if action.kind == "mouse_down" else self._buttons & ~bit
                self._move(self._at)
            case "scroll":
                self._scroll(action)
            case "key":
                for number in range(action.repeat):
                    if number:
                        self.pause(_BETWEEN)
                    for chord in action.keys:
                        self._screen.press(chord)
            case "key_down" | "key_up":
                self._hold_or_release(action)
            case "hold_key":
                with self._held(" ".join(action.keys)):
                    self.pause(action.seconds)
            case "type":
                self._screen.type_text(action.text)
            case "wait":
                self.pause(action.seconds)
            case "screenshot" | "cursor_position":
                pass

    def look(self, *, quiet: float, within: float) -> Image.Image:
        """The screen once it has been quiet for so many seconds, or as it is when ``within`` seconds are over."""
        end = min(time.monotonic() + within, self._deadline)
        self._screen.refresh(timeout=0.0)
        while time.monotonic() < end:
            began = time.monotonic()
            box = self._screen.refresh(timeout=min(quiet, max(0.0, end - began)))
            if box is None:
                break
            if (box[2] - box[0]) * (box[3] - box[1]) <= CARET and time.monotonic() - began >= quiet:
                break
        return self._screen.screenshot()

    def ensure_time(self) -> None:
        """Raises :class:`OutOfTime` when nothing may be begun any more."""
        if time.monotonic() >= self._deadline or self._cancelled.is_set():
            raise OutOfTime

    def pause(self, seconds: float) -> None:
        """Waits, but not beyond the deadline.

        Raises:
            OutOfTime: The deadline came, or the run was stopped.
        """
        self._cancelled.wait(min(seconds, max(0.0, self._deadline - time.monotonic())))
        self.ensure_time()

    def let_go(self) -> None:
        """Releases every key and button that is still held; a display that is gone has none."""
        with contextlib.suppress(DisplayError):
            for keysym in reversed(self._down):
                self._screen.key(keysym, False)
            if self._buttons:
                self._screen.move(*self._at, 0)
        self._down, self._buttons = [], 0

    def _move(self, at: Point) -> None:
        self._at = at
        self._screen.move(*at, self._buttons)

    def _click(self, action: Action) -> None:
        at = action.at or self._at
        bit = 1 << (action.button - 1)
        with self._held(action.held):
            self._move(at)
            for number in range(action.count):
                if number:
                    time.sleep(_BETWEEN)
                self._screen.move(*at, self._buttons | bit)
                time.sleep(_BETWEEN)
                self._screen.move(*at, self._buttons & ~bit)

    def _drag(self, action: Action) -> None:
        with self._held(action.held):
            if len(action.path) == 2:
                self._screen.drag(action.path[0], action.path[1], action.button)
            else:
                self._drag_along(action)
        self._at = action.path[-1]

    def _drag_along(self, action: Action) -> None:
        bit = 1 << (action.button - 1)
        self._screen.move(*action.path[0])
        try:
            for place in action.path:
                self._screen.move(*place, bit)
                time.sleep(_BETWEEN)
        finally:
            self._screen.move(*action.path[-1])

    def _scroll(self, action: Action) -> None:
        at = action.at or self._at
        across, down = action.scroll
        with self._held(action.held):
            self._move(at)
            if down:
                self._screen.scroll(*at, down)
            if across:
                self._screen.scroll(*at, across, horizontal=True)

    def _hold_or_release(self, action: Action) -> None:
        for keysym in (keysym for chord in action.keys for keysym in parse_chord(chord)):
            down = action.kind == "key_down"
            self._screen.key(keysym, down)
            if down:
                self._down.append(keysym)
            elif keysym in self._down:
                self._down.remove(keysym)

    @contextlib.contextmanager
    def _held(self, chord: str) -> Iterator[None]:
        keysyms = [keysym for part in chord.split() for keysym in parse_chord(part)]
        with contextlib.ExitStack() as releases:
            for keysym in keysyms:
                releases.callback(self._screen.key, keysym, False)
                self._screen.key(keysym, True)
            yield
