"""Key names of models: each vendor's own words, xdotool's, and what models make of them, as chords of the display."""

from __future__ import annotations

import re

from runner.display.keysyms import MODIFIERS, parse_chord

MAX_KEYS = 8
"""Keys of one chord."""
MAX_CHORDS = 10
MAX_NAME = 40

_OTHER = {
    "option": "alt",
    "opt": "alt",
    "command": "win",
    "control_left": "ctrl",
    "control_right": "Control_R",
    "left_shift": "shift",
    "meta": "win",
    "os": "win",
    "return": "Return",
    "page up": "Page_Up",
    "page down": "Page_Down",
    "page_up": "Page_Up",
    "page_down": "Page_Down",
    "backspace": "BackSpace",
    "caps_lock": "Caps_Lock",
    "uparrow": "Up",
    "downarrow": "Down",
    "leftarrow": "Left",
    "rightarrow": "Right",
}
"""Names of vendors and browsers that the display's own table does not know; in lower case. Meta is the Windows key there."""
_DASH = re.compile(r"(?i)(?<![a-z0-9_])(ctrl|control|alt|shift|win|cmd)-(?=.)")


class UnknownKey(ValueError):
    """No such key, or no such combination."""


def chords(given: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What to press, one chord after the other, and how the names had to be repaired.

    Args:
        given: ``"ctrl+s"``; xdotool's ``"ctrl+a Delete"`` (one after the other); or a list of keys that are pressed together.

    Returns:
        Chords for :func:`runner.display.keysyms.parse_chord`, and the names of the repairs.

    Raises:
        UnknownKey: A name that no key has, or too many.
    """
    if isinstance(given, list | tuple):
        if not given or len(given) > MAX_KEYS or not all(isinstance(name, str) for name in given):
            raise UnknownKey("a list of 1 to 8 key names is needed")
        # One element may already be a combination: ["ctrl+shift", "s"].
        names = [part for name in given for part in _parts(str(name))]
        if len(names) > 1 and not any(_is_modifier(name) for name in names):
            return tuple(_chord([name]) for name in names), ("keys_in_sequence",)
        return (_chord(names),), ()
    if not isinstance(given, str) or not given.strip():
        if given == " ":
            return ("space",), ()
        raise UnknownKey("the name of a key is needed")
    repairs = []
    whole = given.strip()
    spaced = re.sub(r"\s*\+\s+|\s+\+\s*", "+", whole)  # "ctrl + s"
    dashed = _DASH.sub(r"\1+", spaced)  # "Ctrl-S", as manuals write it
    if spaced != whole:
        repairs.append("key_spacing")
    if dashed != spaced:
        repairs.append("key_dash")
    pieces = [dashed] if dashed.lower() in _OTHER else dashed.split()
    if len(pieces) > MAX_CHORDS:
        raise UnknownKey(f"more than {MAX_CHORDS} key combinations at once")
    if len(pieces) > 1:
        repairs.append("keys_in_sequence")
    return tuple(_chord(_parts(piece)) for piece in pieces), tuple(repairs)


def _is_modifier(name: str) -> bool:
    try:
        return parse_chord(_known(name))[-1] in MODIFIERS
    except ValueError:
        return False


def _known(name: str) -> str:
    return "space" if name == " " else _OTHER.get(name.strip().lower(), name.strip())


def _parts(chord: str) -> list[str]:
    if len(chord) > MAX_NAME * 2:
        raise UnknownKey("a key's name is too long")
    if chord == "+":
        return ["+"]
    if chord.endswith("++"):
        return [*chord[:-2].split("+"), "+"]
    return chord.split("+")


def _chord(names: list[str]) -> str:
    if len(names) > MAX_KEYS:
        raise UnknownKey(f"more than {MAX_KEYS} keys together")
    chord = "+".join(_known(name) for name in names)
    try:
        keysyms = parse_chord(chord)
    except ValueError as error:
        raise UnknownKey(str(error)[:100]) from None
    if sum(keysym not in MODIFIERS for keysym in keysyms) > 1:
        raise UnknownKey(f"{chord[:60]!r} holds more than one key beside Ctrl, Alt, Shift and Win")
    return chord
