"""Every character of the code pages that western and central European programs use can be typed on the embedded machine."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from itertools import count
from pathlib import PureWindowsPath

import pytest

from contracts.schema import StartProgram
from runner.conformance.props import focus, notepad
from runner.display import keysyms
from runner.display.rfb import RfbClient
from runner.guests.windows import windows
from runner.machines.base import Tag
from runner.machines.wine import WineCheckpoint, WineMachine

pytestmark = pytest.mark.machine
PAGES = ("cp1252", "cp1250", "iso8859_2")
_numbers = count(1)


def beyond_ascii(page: str) -> str:
    """Everything printable beyond ASCII in a code page, the no-break space and the soft hyphen as well."""
    found = (bytes([byte]).decode(page, "ignore") for byte in range(0x80, 0x100))
    return "".join(character for character in found if character and ord(character) >= 0xA0)


ALL = "".join(sorted({character for page in PAGES for character in beyond_ascii(page)}))


@pytest.fixture(scope="module")
def machine(checkpoint: WineCheckpoint) -> Iterator[WineMachine]:
    made = checkpoint.clone(Tag("tests", "keyboard"))
    yield made
    made.discard()


def held(machine: WineMachine, text: str, act: object) -> str:
    """What an editor holds after keys were typed into it: once it is ``text``, or as it is after a while."""
    assert callable(act)
    file = PureWindowsPath(rf"C:\legacyproof\typed-{next(_numbers)}.txt")
    with notepad(machine.guest, file) as window, RfbClient.connect(machine.display) as screen:
        focus(machine.guest, screen, window)
        act(screen)
        deadline = time.monotonic() + 60
        while True:
            seen = next(w for w in windows(machine.guest) if w.hwnd == window.hwnd)
            got = next(c.text or "" for c in seen.controls if c.class_name == "Edit").replace("\r\n", "\n")
            if got == text or time.monotonic() > deadline:
                return got
            time.sleep(0.1)


def test_the_pages_are_whole() -> None:
    assert [len(beyond_ascii(page)) for page in PAGES] == [123, 123, 96]
    assert len(ALL) == 176
    assert set("ëËłŁőŰ€…–\xa0\xad") <= set(ALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_character_arrives_at_the_programs(machine: WineMachine, page: str) -> None:
    text = "\n".join(f"{character}a" for character in beyond_ascii(page))
    assert held(machine, text, lambda screen: screen.type_text(text)) == text


def test_characters_by_their_unicode_numbers_arrive_as_well(machine: WineMachine) -> None:
    def act(screen: RfbClient) -> None:
        for character in ALL:
            for down in (True, False):
                screen.key(keysyms.UNICODE_BIT + ord(character), down)
            screen.type_text(" ")

    text = "".join(f"{character} " for character in ALL)
    assert held(machine, text, act) == text


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_characters_typed_without_a_pause_arrive_in_their_order(machine: WineMachine, seed: int) -> None:
    chosen = random.Random(seed)
    text = "".join(chosen.choice(ALL) if chosen.random() < 0.5 else chosen.choice("abcXYZ019 ,;!") for _ in range(400))
    assert held(machine, text, lambda screen: screen.type_text(text, 0)) == text


def test_caps_lock_changes_no_character_that_is_named(machine: WineMachine) -> None:
    def act(screen: RfbClient) -> None:
        screen.press("Caps_Lock")
        screen.type_text(text)
        screen.press("Caps_Lock")

    text = "ëËłŁ€§ßäÄ…"
    assert held(machine, text, act) == text


def test_characters_of_other_scripts_arrive_while_there_are_keys_to_spare(machine: WineMachine) -> None:
    text = "Ωμέγα Жук"
    assert held(machine, text, lambda screen: screen.type_text(text)) == text


def test_programs_that_are_not_unicode_get_the_bytes_of_their_code_page(machine: WineMachine) -> None:
    machine.start([StartProgram(program="dswin")])
    text = "Noël Çelik"
    with RfbClient.connect(machine.display) as screen:
        screen.type_text(text)
        deadline = time.monotonic() + 60
        while text not in (typed := [c.text for w in windows(machine.guest) for c in w.controls]):
            assert time.monotonic() < deadline, typed
            time.sleep(0.1)
