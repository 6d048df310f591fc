"""Which characters that are typed through a display arrive as something else.

Each character is typed on a line of its own with an ``a`` behind it. So lost and doubled ones cannot shift the rest, and a dead
key shows, which waits for the next letter to make another one of it.
"""

from __future__ import annotations

import codecs
import difflib
import string
from collections import Counter
from collections.abc import Mapping, Sequence

from runner.findings import Finding

SIGNS = string.ascii_lowercase + string.ascii_uppercase + string.digits + string.punctuation
"""What every program needs: the characters of ASCII."""
LETTERS = "äöüÄÖÜßéÉèàçñ€§°"
"""What German and other western names, sums and laws need."""
_OF_WESTERN_EUROPE = 1252
_PROBE = "a"
_SHOWN = 12
_LAYOUTS: Mapping[str, Mapping[str, str]] = {
    "the guest has a German layout, the display types for a US one": {"y": "z", "z": "y", "-": "ß"},
    "the guest has a US layout, the display types for a German one": {"y": "z", "z": "y", "ß": "-"},
    "guest and display differ between German and US layout": {"y": "z", "z": "y"},
    "the guest has a French layout, the display types for another one": {"q": "a", "w": "z"},
}
"""What a few characters arrive as, first fit first."""


def others(code_page: int) -> str:
    """The other printable characters of a Windows code page: neither ASCII nor among :data:`LETTERS`.

    Args:
        code_page: Its number. Of one whose characters are up to four bytes long, those of one byte are taken; of UTF-8 and of what is
            not known, those of Western Europe.
    """
    try:
        decode = codecs.lookup(f"cp{code_page}").decode
    except LookupError:
        return others(_OF_WESTERN_EUROPE)
    found = [decode(bytes([byte]), "ignore")[0] for byte in range(0x80, 0x100)]
    return "".join(c for c in found if c and c.isprintable() and c not in LETTERS) or others(_OF_WESTERN_EUROPE)


def typed(characters: str) -> str:
    """What is to be typed."""
    return "\n".join(character + _PROBE for character in characters)


def arrived(characters: str, text: str) -> dict[str, str]:
    """The characters that did not arrive as they are, each with what arrived in its place (empty: nothing).

    Args:
        characters: Those that were typed by :func:`typed`.
        text: What the program holds.
    """
    wanted = [character + _PROBE for character in characters]
    lines = text.split("\n")
    if len(lines) != len(wanted):
        lines = _aligned(wanted, lines)
    # On another layout the `a` is another letter as well, everywhere.
    ends = Counter(line[-1:] for line in lines if line)
    probe = ends.most_common(1)[0][0] if ends else _PROBE
    wrong = {}
    for character, line in zip(characters, lines, strict=True):
        got = line[: -len(probe)] if line.endswith(probe) else line
        if got != character:
            wrong[character] = got
    return wrong


def _aligned(wanted: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Lines in the places of those that they match best; a place without one is empty."""
    placed = [""] * len(wanted)
    for kind, from_, to, start, end in difflib.SequenceMatcher(None, wanted, lines, autojunk=False).get_opcodes():
        if kind in ("equal", "replace"):
            for offset in range(min(to - from_, end - start)):
                placed[from_ + offset] = lines[start + offset]
    return placed


def told(name: str, characters: str, wrong: Mapping[str, str]) -> Finding:
    """The finding."""
    if not wrong:
        return Finding(name, True, f"all {len(characters)} characters that were typed arrive: {_sample(characters)}")
    shown = ", ".join(
        f"{character} arrives as {got!r}" if got else f"{character} does not arrive"
        for character, got in list(wrong.items())[:_SHOWN]
    )
    more = f", and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    return Finding(
        name, False, f"of {len(characters)} characters {len(wrong)} do not arrive: {shown}{more}", _remedy(wrong)
    )


def told_of_others(name: str, characters: str, wrong: Mapping[str, str]) -> Finding:
    """The finding on characters that a keyboard need not have: that some are missing is no fault, but has to be known."""
    if not wrong:
        return told(name, characters, wrong)
    lost = [character for character, got in wrong.items() if not got]
    changed = [f"{character} as {got!r}" for character, got in wrong.items() if got]
    parts = [f"{what}: {' '.join(those)}" for what, those in (("do not arrive", lost), ("arrive", changed)) if those]
    return Finding(
        name,
        True,
        f"of {len(characters)} characters {len(wrong)} cannot be typed; {'; '.join(parts)}",
        f"let contracts do without these, or: {_remedy(wrong)}",
    )


def _sample(characters: str) -> str:
    return characters if len(characters) <= 20 else f"{characters[:3]}…{characters[-12:]}"


def _remedy(wrong: Mapping[str, str]) -> str:
    for guess, signs in _LAYOUTS.items():
        if all(wrong.get(character) == got for character, got in signs.items()):
            return f"{guess}: give both the same (in Windows: language settings, keyboard; in libvirt: `keymap` of the screen)"
    if all(len(got) == 1 and not got.isascii() for got in wrong.values()) and set(wrong) <= set("^`~'\"´"):
        return "these are dead keys in the guest: take a layout without dead keys"
    if not any(wrong.values()):
        return (
            "no key of the guest's layout types these: take a layout that has them (for umlauts a German one, for both guest and "
            "display), or let contracts do without them"
        )
    return (
        "give guest and display the same keyboard layout (in Windows: language settings, keyboard; in libvirt: `keymap` of the "
        "screen), and switch off what corrects or completes what is typed"
    )
