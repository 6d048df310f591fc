"""Keeping secrets out of what is stored about the keyboard.

A secret is only recognised when its last character has been typed, so every event is held back for a moment
(:data:`HOLD_SECONDS`) before it may be stored; a crash loses no more than that moment. When it is over and what was typed
last is the beginning of a secret, it is withheld as well: somebody may be typing slowly. Two characters (of a short secret:
less than half of it) are not enough for that, or every text that ends with the first letter of a password would look odd.

Recognised is text as the machine gets it: keys of all clients together, chords and pointer left aside, with the last
character taken back by BackSpace. Not recognised: text inserted by other means than keys and the clipboard, corrections
made with the arrow keys, and of course what can be read on the screen. Which of the withheld keys had Shift pressed stays
visible.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from runner.display.events import BACK_SPACE, REDACTED, InputEvent, Keyboard

HOLD_SECONDS: Final = 1.5
MAX_HELD: Final = 20_000
"""The most events held back; beyond, the oldest are let go early. A pointer's movements are joined before, and count for few of them."""


class _Held:
    """An event that is not stored yet. A key's release shares the fate of its press."""

    __slots__ = ("character", "event", "press", "secret")

    def __init__(self, event: InputEvent, press: _Held | None = None) -> None:
        self.event = event
        self.press = press
        self.character = ""
        self.secret = False

    def result(self) -> InputEvent:
        if self.secret or (self.press is not None and self.press.secret):
            return replace(self.event, keysym=0, name=REDACTED)
        return self.event


class Redactor:
    """Holds events back until it is known whether they are part of a secret. Without secrets it holds nothing."""

    def __init__(self, secrets: Iterable[str] = (), hold: float = HOLD_SECONDS) -> None:
        """Makes a redactor.

        Args:
            secrets: texts that must not be stored; empty ones are left out. Newline is Return, tab is Tab.
            hold: seconds an event is held back.
        """
        normal = {secret.replace("\r\n", "\n").replace("\r", "\n") for secret in secrets}
        self._secrets = sorted(normal - {""}, key=len, reverse=True)
        self._longest = max(map(len, self._secrets), default=0)
        self._hold = hold
        self._held: deque[_Held] = deque()
        self._typed: list[_Held] = []  # the last characters typed; no more than the longest secret has
        self._presses: dict[int, _Held] = {}
        self._keyboard = Keyboard()

    def push(self, event: InputEvent) -> None:
        """Takes the next event, in order."""
        item = _Held(event)
        self._held.append(item)
        if not self._secrets or event.kind != "key":
            return
        keysym = event.keysym or 0
        if not event.down:
            item.press = self._presses.pop(keysym, None)
        if self._keyboard.feed(event) or not event.down:
            return
        if keysym == BACK_SPACE:
            del self._typed[-1:]
            return
        self._presses[keysym] = item
        character = self._keyboard.typed_character(keysym)
        if character is not None:
            item.character = character
            self._typed = [*self._typed[-self._longest + 1 :], item] if self._longest > 1 else [item]
            self._mark()

    def pop(self, now: float) -> list[InputEvent]:
        """The events that may be stored at ``now`` (seconds on the events' clock), in order, secrets withheld."""
        ready: list[InputEvent] = []
        if self._held and self._is_due(self._held[0], now):
            self._mark_beginning(now)
        while self._held and self._is_due(self._held[0], now):
            ready.append(self._held.popleft().result())
        return ready

    def flush(self) -> list[InputEvent]:
        """All events still held, because nothing will come after them."""
        self._mark_beginning(float("inf"))
        ready = [item.result() for item in self._held]
        self._held.clear()
        return ready

    def text(self, text: str) -> str:
        """``text`` with every secret in it replaced, also where UTF-8 was read as Latin-1."""
        for secret in self._secrets:
            for spelling in (secret, secret.encode("utf-8", "replace").decode("latin-1")):
                text = text.replace(spelling, REDACTED)
        return text

    def _is_due(self, item: _Held, now: float) -> bool:
        return not self._secrets or now - item.event.t >= self._hold or len(self._held) > MAX_HELD

    def _mark(self) -> None:
        """Marks the secret that ends with the character typed last."""
        typed = "".join(item.character for item in self._typed)
        for secret in self._secrets:
            if typed.endswith(secret):
                for item in self._typed[-len(secret) :]:
                    item.secret = True
                return  # the longest of those that fit; shorter ones lie within

    def _mark_beginning(self, now: float) -> None:
        """Marks what was typed last, as far as it cannot wait, if it is a substantial beginning of a secret."""
        typed = "".join(item.character for item in self._typed)
        for secret in self._secrets:
            enough = min(3, (len(secret) + 1) // 2)
            for count in range(min(len(secret) - 1, len(typed)), enough - 1, -1):
                if typed.endswith(secret[:count]):
                    for item in self._typed[-count:]:
                        item.secret = item.secret or self._is_due(item, now)
                    break
