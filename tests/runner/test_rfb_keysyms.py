"""Keys by name and by character, there and back."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from runner.display import keysyms


def test_every_character_survives_the_way_there_and_back() -> None:
    for code in range(0x20, sys.maxunicode + 1):
        character = chr(code)
        if unicodedata.category(character) not in ("Cc", "Cs"):
            assert keysyms.keysym_text(keysyms.character_keysym(character)) == character, hex(code)


@pytest.mark.parametrize(
    ("character", "keysym"),
    [
        ("a", 0x61), ("A", 0x41), ("ä", 0xE4), ("ß", 0xDF), ("ÿ", 0xFF), ("€", 0x20AC), ("ł", 0x1B3), ("Œ", 0x13BC),
        ("„", 0xAFE), ("あ", 0x1003042), ("😀", 0x101F600), ("\n", 0xFF0D), ("\r", 0xFF0D), ("\t", 0xFF09),
    ],
)  # fmt: skip
def test_characters_have_the_keysyms_of_x11(character: str, keysym: int) -> None:
    assert keysyms.character_keysym(character) == keysym


@pytest.mark.parametrize("character", ["", "ab", "\0", "\x1b", "\x9f", "\ud800"])
def test_what_no_key_types_is_refused(character: str) -> None:
    with pytest.raises(ValueError, match=r"no key|not one"):
        keysyms.character_keysym(character)


@pytest.mark.parametrize(
    ("name", "keysym"),
    [
        ("Return", 0xFF0D), ("Enter", 0xFF0D), ("ESC", 0xFF1B), ("PgDn", 0xFF56), ("Next", 0xFF56), ("ctrl", 0xFFE3),
        ("win", 0xFFEB), ("F1", 0xFFBE), ("f24", 0xFFD5), ("Left", 0xFF51), ("up", 0xFF52), ("Del", 0xFFFF), ("space", 0x20),
        ("adiaeresis", 0xE4), ("Adiaeresis", 0xC4), ("ssharp", 0xDF), ("ü", 0xFC), ("EuroSign", 0x20AC), ("KP_Add", 0xFFAB),
    ],
)  # fmt: skip
def test_names_and_aliases(name: str, keysym: int) -> None:
    assert keysyms.named_keysym(name) == keysym


@pytest.mark.parametrize("chord", ["", "ctrl+", "hyperspace", "ctrl+nothing", "+a", "ctrl++a"])
def test_unknown_keys_are_refused(chord: str) -> None:
    with pytest.raises(ValueError, match=r"key|character"):
        keysyms.parse_chord(chord)


@pytest.mark.parametrize(
    ("chord", "expected"),
    [
        ("ctrl+s", [0xFFE3, 0x73]), ("Ctrl+S", [0xFFE3, 0x73]), ("ctrl+shift+s", [0xFFE3, 0xFFE1, 0x73]), ("F10", [0xFFC7]),
        ("alt+F4", [0xFFE9, 0xFFC1]), ("+", [0xFFE1, 0x2B]), ("ctrl++", [0xFFE3, 0xFFE1, 0x2B]), ("A", [0xFFE1, 0x41]),
        ("ctrl+plus", [0xFFE3, 0xFFE1, 0x2B]), ("ctrl+KP_Add", [0xFFE3, 0xFFAB]), ("ctrl+alt+Del", [0xFFE3, 0xFFE9, 0xFFFF]),
    ],
)  # fmt: skip
def test_chords(chord: str, expected: list[int]) -> None:
    assert keysyms.parse_chord(chord) == expected


@pytest.mark.parametrize(
    ("keysym", "name"),
    [(0xFF0D, "Return"), (0x20, "space"), (0x41, "A"), (0xFF55, "Page_Up"), (0xFFB1, "KP_1"), (7, "0x7")],
)
def test_names_for_logs(keysym: int, name: str) -> None:
    assert keysyms.keysym_name(keysym) == name


def test_no_number_makes_the_names_fail() -> None:
    for keysym in [
        *range(0x3000),
        *range(0xFD00, 0x10100),
        0xFFFFFF,
        0x1000000,
        0x100D800,
        0x110FFFF,
        0x1110000,
        0xFFFFFFFF,
    ]:
        assert keysyms.keysym_name(keysym).encode()
