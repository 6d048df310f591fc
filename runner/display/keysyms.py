"""Names, keysyms and characters: what to send for a key, and what a key that was sent means.

A keysym is the X Window System's number for what a key *means*, not for where it lies (RFC 6143 section 7.5.4). The numbers
are those of X11's ``keysymdef.h``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final

UNICODE_BIT: Final = 0x01000000
"""A keysym at or above this is this plus a Unicode code point."""

SHIFT: Final = 0xFFE1

# X11 name -> keysym, for keys that type no character. Where two names share a number the first is the one for logs.
_KEYS: Final[dict[str, int]] = {
    "BackSpace": 0xFF08, "Tab": 0xFF09, "Linefeed": 0xFF0A, "Clear": 0xFF0B, "Return": 0xFF0D, "Pause": 0xFF13,
    "Scroll_Lock": 0xFF14, "Sys_Req": 0xFF15, "Escape": 0xFF1B, "Multi_key": 0xFF20, "Delete": 0xFFFF,
    "Home": 0xFF50, "Left": 0xFF51, "Up": 0xFF52, "Right": 0xFF53, "Down": 0xFF54, "Page_Up": 0xFF55, "Prior": 0xFF55,
    "Page_Down": 0xFF56, "Next": 0xFF56, "End": 0xFF57, "Begin": 0xFF58,
    "Select": 0xFF60, "Print": 0xFF61, "Execute": 0xFF62, "Insert": 0xFF63, "Undo": 0xFF65, "Redo": 0xFF66, "Menu": 0xFF67,
    "Find": 0xFF68, "Cancel": 0xFF69, "Help": 0xFF6A, "Break": 0xFF6B, "Mode_switch": 0xFF7E, "Num_Lock": 0xFF7F,
    "KP_Tab": 0xFF89, "KP_Enter": 0xFF8D, "KP_F1": 0xFF91, "KP_F2": 0xFF92, "KP_F3": 0xFF93, "KP_F4": 0xFF94,
    "KP_Home": 0xFF95, "KP_Left": 0xFF96, "KP_Up": 0xFF97, "KP_Right": 0xFF98, "KP_Down": 0xFF99,
    "KP_Page_Up": 0xFF9A, "KP_Prior": 0xFF9A, "KP_Page_Down": 0xFF9B, "KP_Next": 0xFF9B, "KP_End": 0xFF9C,
    "KP_Begin": 0xFF9D, "KP_Insert": 0xFF9E, "KP_Delete": 0xFF9F,
    **{f"F{number}": 0xFFBD + number for number in range(1, 36)},
    "Shift_L": SHIFT, "Shift_R": 0xFFE2, "Control_L": 0xFFE3, "Control_R": 0xFFE4, "Caps_Lock": 0xFFE5,
    "Shift_Lock": 0xFFE6, "Meta_L": 0xFFE7, "Meta_R": 0xFFE8, "Alt_L": 0xFFE9, "Alt_R": 0xFFEA,
    "Super_L": 0xFFEB, "Super_R": 0xFFEC, "Hyper_L": 0xFFED, "Hyper_R": 0xFFEE,
    "ISO_Level3_Shift": 0xFE03, "ISO_Left_Tab": 0xFE20,
    "dead_grave": 0xFE50, "dead_acute": 0xFE51, "dead_circumflex": 0xFE52, "dead_tilde": 0xFE53, "dead_macron": 0xFE54,
    "dead_breve": 0xFE55, "dead_abovedot": 0xFE56, "dead_diaeresis": 0xFE57, "dead_abovering": 0xFE58,
    "dead_doubleacute": 0xFE59, "dead_caron": 0xFE5A, "dead_cedilla": 0xFE5B, "dead_ogonek": 0xFE5C,
}  # fmt: skip

# Keys of the number pad that type a character.
_KEYPAD: Final[dict[int, str]] = {
    0xFF80: " ", 0xFFBD: "=", 0xFFAA: "*", 0xFFAB: "+", 0xFFAC: ",", 0xFFAD: "-", 0xFFAE: ".", 0xFFAF: "/",
    **{0xFFB0 + digit: str(digit) for digit in range(10)},
}  # fmt: skip
_KEYPAD_NAMES: Final[dict[str, int]] = {
    "KP_Space": 0xFF80, "KP_Equal": 0xFFBD, "KP_Multiply": 0xFFAA, "KP_Add": 0xFFAB, "KP_Separator": 0xFFAC,
    "KP_Subtract": 0xFFAD, "KP_Decimal": 0xFFAE, "KP_Divide": 0xFFAF,
    **{f"KP_{digit}": 0xFFB0 + digit for digit in range(10)},
}  # fmt: skip

# X11 names of characters that are not their own name.
_CHARACTERS: Final[dict[str, str]] = {
    "space": " ", "exclam": "!", "quotedbl": '"', "numbersign": "#", "dollar": "$", "percent": "%", "ampersand": "&",
    "apostrophe": "'", "parenleft": "(", "parenright": ")", "asterisk": "*", "plus": "+", "comma": ",", "minus": "-",
    "period": ".", "slash": "/", "colon": ":", "semicolon": ";", "less": "<", "equal": "=", "greater": ">", "question": "?",
    "at": "@", "bracketleft": "[", "backslash": "\\", "bracketright": "]", "asciicircum": "^", "underscore": "_",
    "grave": "`", "braceleft": "{", "bar": "|", "braceright": "}", "asciitilde": "~", "nobreakspace": "\xa0",
    "section": "§", "degree": "°", "mu": "µ", "twosuperior": "²", "threesuperior": "³", "acute": "´",
    "adiaeresis": "ä", "odiaeresis": "ö", "udiaeresis": "ü", "Adiaeresis": "Ä", "Odiaeresis": "Ö", "Udiaeresis": "Ü",
    "ssharp": "ß", "EuroSign": "€",
}  # fmt: skip

# The usual other names, in lower case; they are looked up without regard to case.
_ALIASES: Final[dict[str, str]] = {
    "enter": "Return", "ret": "Return", "esc": "Escape", "del": "Delete", "ins": "Insert", "bksp": "BackSpace",
    "bs": "BackSpace", "pgup": "Page_Up", "pageup": "Page_Up", "pgdn": "Page_Down", "pgdown": "Page_Down",
    "pagedown": "Page_Down", "ctrl": "Control_L", "control": "Control_L", "strg": "Control_L", "rctrl": "Control_R",
    "alt": "Alt_L", "ralt": "Alt_R", "altgr": "ISO_Level3_Shift", "shift": "Shift_L", "rshift": "Shift_R", "win": "Super_L",
    "windows": "Super_L", "super": "Super_L", "cmd": "Super_L", "meta": "Meta_L", "apps": "Menu", "contextmenu": "Menu",
    "capslock": "Caps_Lock", "numlock": "Num_Lock", "scrolllock": "Scroll_Lock", "printscreen": "Print", "prtsc": "Print",
    "spacebar": "space", "arrowleft": "Left", "arrowright": "Right", "arrowup": "Up", "arrowdown": "Down",
}  # fmt: skip

MODIFIERS: Final[dict[int, str]] = {
    0xFFE3: "ctrl", 0xFFE4: "ctrl", 0xFFE9: "alt", 0xFFEA: "alt", 0xFFE7: "alt", 0xFFE8: "alt",
    0xFFE1: "shift", 0xFFE2: "shift", 0xFFEB: "win", 0xFFEC: "win", 0xFE03: "altgr", 0xFF7E: "altgr",
}  # fmt: skip
"""Keysym -> short name of the keys that change what others mean (Meta counts as Alt, as on a PC keyboard)."""

_SHIFTED: Final = frozenset('~!@#$%^&*()_+{}|:"<>?')


def _legacy() -> dict[str, int]:
    """Characters whose keysym is older than Unicode.

    "If a key has both a Unicode and a legacy encoding, clients should send the legacy encoding" (RFC 6143 section 7.5.4).
    The legacy numbers of Latin-2, -3 and -4 are the bytes of ISO 8859-2, -3 and -4 after 1, 2 and 3.
    """
    table: dict[str, int] = {}
    for high, codec in ((3, "iso8859_4"), (2, "iso8859_3"), (1, "iso8859_2")):  # a later one takes precedence
        for byte in range(0xA0, 0x100):
            character = bytes([byte]).decode(codec, "ignore")
            if ord(character or "\0") > 0xFF and (
                unicodedata.category(character).startswith("L") or character in "˘˙˛˝"
            ):
                table[character] = high << 8 | byte
    table |= {"€": 0x20AC, "ƒ": 0x8F6, "‰": 0xAD5}
    table.update(zip("ŒœŸ", (0x13BC, 0x13BD, 0x13BE), strict=True))
    table.update(zip("—–…‘’“”‚„•™†‡", _PUBLISHING, strict=True))
    return table


_PUBLISHING: Final = (
    0xAA9, 0xAAA, 0xAAE, 0xAD0, 0xAD1, 0xAD2, 0xAD3, 0xAFD, 0xAFE, 0xAE6, 0xAC9, 0xAF1, 0xAF2,
)  # fmt: skip
_LEGACY: Final = _legacy()
_LEGACY_TEXT: Final = {keysym: character for character, keysym in _LEGACY.items()}

_NAMES: Final[dict[str, int]] = {
    **_KEYS,
    **_KEYPAD_NAMES,
    **{name: _LEGACY.get(character, ord(character)) for name, character in _CHARACTERS.items()},
}
_NAMES_ANY_CASE: Final[dict[str, int]] = {
    **{name.lower(): keysym for name, keysym in reversed(_NAMES.items())},
    **{alias: _NAMES[name] for alias, name in _ALIASES.items()},
}
_NAME_OF: Final[dict[int, str]] = {
    keysym: name for name, keysym in reversed([*_KEYS.items(), *_KEYPAD_NAMES.items(), ("space", 0x20)])
}


def character_keysym(character: str) -> int:
    """The keysym that types ``character``.

    Latin-1 is its own code point, a character with a legacy keysym has that one, everything else is the code point with
    the Unicode bit set. Newline is Return, tab is Tab.

    Raises:
        ValueError: no key types it: another control character, half of a surrogate pair, or not one character.
    """
    if len(character) != 1:
        raise ValueError(f"{character!r} is not one character")
    if character in "\r\n":
        return _KEYS["Return"]
    if character == "\t":
        return _KEYS["Tab"]
    if unicodedata.category(character) in ("Cc", "Cs"):
        raise ValueError(f"no key types {character!r}")
    code = ord(character)
    if code <= 0xFF:
        return code
    return _LEGACY.get(character, UNICODE_BIT + code)


def keysym_text(keysym: int) -> str | None:
    """The character that a keysym types, or None if it types none. The number pad is taken as with Num Lock."""
    if 0x20 <= keysym <= 0x7E or 0xA0 <= keysym <= 0xFF:
        return chr(keysym)
    if UNICODE_BIT < keysym <= UNICODE_BIT + 0x10FFFF:
        character = chr(keysym - UNICODE_BIT)
        return None if unicodedata.category(character) in ("Cc", "Cs") else character
    return _KEYPAD.get(keysym) or _LEGACY_TEXT.get(keysym)


def keysym_name(keysym: int) -> str:
    """How a keysym is called in logs: the character it types, else its X11 name, else its number."""
    return _NAME_OF.get(keysym) or keysym_text(keysym) or f"0x{keysym:X}"


def named_keysym(name: str) -> int:
    """The keysym of a key by its X11 name, a usual other name (without regard to case), or the character it types.

    Raises:
        ValueError: no such key.
    """
    if len(name) == 1:
        return character_keysym(name)
    keysym = _NAMES.get(name) or _NAMES_ANY_CASE.get(name.lower())
    if keysym is None:
        raise ValueError(f"unknown key {name!r}")
    return keysym


def needs_shift(character: str) -> bool:
    """Whether a US keyboard needs Shift for ``character``; upper case letters of all alphabets count.

    Many servers look for the key and not for its meaning: without Shift ``!`` arrives as ``1``.
    """
    return character in _SHIFTED or (character.isupper() and character.lower() != character)


def parse_chord(chord: str) -> list[int]:
    """The keysyms of ``"ctrl+s"``, ``"F10"`` or ``"ctrl++"``, in the order in which to press them.

    A letter together with other keys is taken as its key, so that ``Ctrl+S`` is Ctrl with the S key and not with Shift. A
    character that needs Shift gets it in front, unless the chord holds it.

    Raises:
        ValueError: the chord is empty or names an unknown key.
    """
    if chord.endswith("++") and len(chord) > 2:
        names = [*chord[:-2].split("+"), "+"]
    else:
        names = [chord] if chord == "+" else chord.split("+")
    if len(names) > 1:
        names = [name.lower() if len(name) == 1 and len(name.lower()) == 1 else name for name in names]
    keysyms = [named_keysym(name) for name in names]
    character = None if keysyms[-1] in _KEYPAD else keysym_text(keysyms[-1])
    if character is not None and needs_shift(character) and not is_held("shift", keysyms):
        keysyms.insert(-1, SHIFT)
    return keysyms


def is_held(modifier: str, keysyms: Iterable[int]) -> bool:
    """Whether one of the keysyms is the modifier with this short name (see :data:`MODIFIERS`)."""
    return any(MODIFIERS.get(keysym) == modifier for keysym in keysyms)
