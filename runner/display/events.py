"""What the flight recorder saw, as plain data, and the text that was typed, reconstructed from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from runner.display.keysyms import MODIFIERS, keysym_name, keysym_text, needs_shift

EventKind = Literal[
    "connected",  # a client got in
    "authentication_failed",  # a client with the wrong password
    "refused",  # a client that was turned away for another reason
    "disconnected",  # a client is gone
    "key",
    "pointer",
    "clipboard",  # the client offered a clipboard text to the machine
    "cut",  # from here on no input reaches the machine
    "upstream_lost",  # the machine's display is gone
    "log_full",  # from here on events of one sort are counted but not kept
]

REDACTED: Final = "•"
"""Stands for a character that belongs to a secret."""


@dataclass(frozen=True, slots=True)
class InputEvent:
    """One thing a client did, or that happened to it.

    Attributes:
        t: seconds since the recorder's start, on a monotonic clock.
        kind: what happened; it decides which of the other fields are set.
        client: number of the connection, from 1 on; 0 is the recorder itself.
        down: key: pressed or released.
        keysym: key: X11 keysym; 0 if redacted.
        name: key: the character it types or its X11 name; :data:`REDACTED` if redacted.
        x: pointer: pixels from the left.
        y: pointer: pixels from the top.
        buttons: pointer: bit mask of the held buttons, bit 0 is the left one, bits 3 and 4 are the wheel up and down.
        text: clipboard: what was offered, cut to a bound, secrets redacted.
        length: clipboard: bytes of the whole text.
        reason: why a client was turned away or is gone, why the display is lost, what is not kept any more.
        moves: pointer: how many movements it stands for, where it is more than one; the place is the last of them.
        released: the recorder itself let the key or the buttons go, because the client left while holding them.
    """

    t: float
    kind: EventKind
    client: int = 0
    down: bool | None = None
    keysym: int | None = None
    name: str | None = None
    x: int | None = None
    y: int | None = None
    buttons: int | None = None
    text: str | None = None
    length: int | None = None
    reason: str | None = None
    moves: int | None = None
    released: bool = False

    @property
    def is_redacted(self) -> bool:
        """Whether the event is a key whose meaning was withheld."""
        return self.kind == "key" and self.name == REDACTED and self.keysym == 0

    def record(self) -> dict[str, object]:
        """The event as a JSON object; fields that do not apply are left out."""
        record: dict[str, object] = {"t": round(self.t, 4), "kind": self.kind, "client": self.client}
        for name in ("down", "keysym", "name", "x", "y", "buttons", "text", "length", "reason", "moves"):
            value = getattr(self, name)
            if value is not None:
                record[name] = value
        if self.released:
            record["released"] = True
        return record


class Keyboard:
    """Which modifier keys are down, over all clients: the machine sees one keyboard."""

    def __init__(self) -> None:
        self._down: dict[int, str] = {}

    def feed(self, event: InputEvent) -> bool:
        """Takes note of a key event; true if the key is a modifier."""
        modifier = MODIFIERS.get(event.keysym or 0)
        if modifier is None:
            return False
        if event.down:
            self._down[event.keysym or 0] = modifier
        else:
            self._down.pop(event.keysym or 0, None)
        return True

    @property
    def held(self) -> set[str]:
        """Short names of the modifiers that are down."""
        return set(self._down.values())

    def typed_character(self, keysym: int) -> str | None:
        """The character that pressing this key types now, or None if it types none or is part of a chord.

        The keysym alone says which character, Shift or not ("the shift state should only be used as a hint", RFC 6143
        section 7.5.4). Ctrl and Alt together are how Windows spells AltGr: with them only letters, digits and the space
        are chords, so that a German ``@`` is text.
        """
        if keysym in _TEXT_KEYS:
            character: str | None = _TEXT_KEYS[keysym]
        else:
            character = keysym_text(keysym)
        held = self.held - {"shift", "altgr"}
        if character is None or not held:
            return character
        is_alt_gr = (
            held == {"ctrl", "alt"} and not (character.isascii() and character.isalnum()) and not character.isspace()
        )
        return character if is_alt_gr else None


_RETURN: Final = (0xFF0D, 0xFF8D)
_TEXT_KEYS: Final = {0xFF0D: "\n", 0xFF8D: "\n", 0xFF09: "\t", 0xFF89: "\t", 0xFF0A: "\n"}
BACK_SPACE: Final = 0xFF08
_SYMBOLS: Final = {"\n": "⏎", "\t": "⇥"}
_ORDER: Final = ("ctrl", "alt", "altgr", "shift", "win")


def typed_text(events: Iterable[InputEvent], *, pause: float = 2.0) -> list[tuple[float, float, str]]:
    """The text that was typed, as a reader would tell it.

    Characters stand for themselves, Return is ``⏎``, Tab ``⇥``, BackSpace ``⌫``; other keys and chords are ``[F10]``,
    ``[ctrl+s]``, ``[shift+Tab]``; Alt or Windows pressed alone is ``[alt]``, ``[win]``. Redacted characters are ``•``. It
    makes no difference whether a client sends explicit Shift for a shifted keysym. All clients are read as one keyboard,
    because that is what the machine has.

    Args:
        events: in the order they happened.
        pause: seconds without a key after which a new piece begins; pressing a pointer button begins one, too.

    Returns:
        Pieces ``(start, end, text)`` with the times of their first and last key press, in seconds.
    """
    pieces: list[tuple[float, float, str]] = []
    keyboard = Keyboard()
    lone: int | None = None  # a modifier that was pressed and nothing since
    buttons: dict[int, int] = {}
    fresh = True

    def append(t: float, text: str) -> None:
        nonlocal fresh
        if fresh or t - pieces[-1][1] > pause:
            pieces.append((t, t, text))
        else:
            start, _, before = pieces[-1]
            pieces[-1] = (start, t, before + text)
        fresh = False

    for event in events:
        if event.kind == "pointer":
            pressed = (event.buttons or 0) & ~buttons.get(event.client, 0)
            buttons[event.client] = event.buttons or 0
            if pressed:
                fresh, lone = True, None
        elif event.kind == "key":
            keysym = event.keysym or 0
            if event.is_redacted:
                lone = None
                if event.down:
                    append(event.t, REDACTED)
            elif keyboard.feed(event):
                if event.down:
                    lone = keysym
                elif lone == keysym and not event.released and MODIFIERS[keysym] in ("alt", "win"):
                    append(event.t, f"[{MODIFIERS[keysym]}]")
            elif event.down:
                lone = None
                append(event.t, _shown(keyboard, keysym))
    return pieces


def _shown(keyboard: Keyboard, keysym: int) -> str:
    character = keyboard.typed_character(keysym)
    held = keyboard.held
    if character is not None and not (character in _SYMBOLS and "shift" in held):
        return _SYMBOLS.get(character, character)
    if keysym == BACK_SPACE and not held:
        return "⌫"
    name = keysym_name(keysym)
    if keysym == 0xFE20:  # ISO_Left_Tab is what X11 makes of Shift and Tab
        name, held = "Tab", held | {"shift"}
    if len(name) == 1:
        if needs_shift(name) and not name.isalpha():
            held = held - {"shift"}  # the character says it already
        name = name.lower() if len(name.lower()) == 1 else name
    return f"[{'+'.join([modifier for modifier in _ORDER if modifier in held] + [name])}]"
