"""What was typed, told from the events; and what of it may be stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.display.events import InputEvent, typed_text
from runner.display.keysyms import character_keysym, keysym_name, named_keysym, needs_shift
from runner.display.redaction import HOLD_SECONDS, Redactor


class Script:
    """Builds events; time passes by the given step with each."""

    def __init__(self, step: float = 0.01) -> None:
        self.events: list[InputEvent] = []
        self.t = 0.0
        self.step = step

    def key(self, keysym: int, down: bool, client: int = 1) -> None:
        self.t += self.step
        self.events.append(InputEvent(self.t, "key", client, down=down, keysym=keysym, name=keysym_name(keysym)))

    def press(self, *names: str) -> Script:
        keysyms = [named_keysym(name) for name in names]
        for keysym in keysyms:
            self.key(keysym, True)
        for keysym in reversed(keysyms):
            self.key(keysym, False)
        return self

    def type(self, text: str, shift: bool = True) -> Script:
        for character in text:
            keysym = character_keysym(character)
            held = [named_keysym("Shift_L")] if shift and needs_shift(character) else []
            for key in (*held, keysym):
                self.key(key, True)
            for key in (keysym, *held):
                self.key(key, False)
        return self

    def click(self, client: int = 1) -> Script:
        for buttons in (1, 0):
            self.t += self.step
            self.events.append(InputEvent(self.t, "pointer", client, x=1, y=1, buttons=buttons))
        return self

    def wait(self, seconds: float) -> Script:
        self.t += seconds
        return self


def told(events: Iterable[InputEvent]) -> str:
    return "|".join(text for _, _, text in typed_text(events))


@pytest.mark.parametrize("shift", [True, False])
def test_shifted_keysyms_with_and_without_shift(shift: bool) -> None:
    assert told(Script().type("Erika Müller-Ärmel!\n", shift).events) == "Erika Müller-Ärmel!⏎"


@pytest.mark.parametrize(
    ("chord", "text"),
    [
        (["ctrl", "s"], "[ctrl+s]"), (["ctrl", "shift", "S"], "[ctrl+shift+s]"), (["shift", "ctrl", "s"], "[ctrl+shift+s]"),
        (["alt", "F4"], "[alt+F4]"), (["F10"], "[F10]"), (["shift", "F10"], "[shift+F10]"), (["BackSpace"], "⌫"),
        (["ctrl", "BackSpace"], "[ctrl+BackSpace]"), (["Tab"], "⇥"), (["shift", "Tab"], "[shift+Tab]"),
        (["shift", "ISO_Left_Tab"], "[shift+Tab]"), (["ctrl", "alt", "Delete"], "[ctrl+alt+Delete]"), (["alt"], "[alt]"),
        (["win"], "[win]"), (["ctrl"], ""), (["shift"], ""), (["win", "r"], "[win+r]"), (["ctrl", "Return"], "[ctrl+Return]"),
        (["ctrl", "alt", "@"], "@"), (["altgr", "€"], "€"), (["ctrl", "alt", "t"], "[ctrl+alt+t]"), (["KP_7"], "7"),
        (["KP_Enter"], "⏎"), (["ctrl", "shift", "!"], "[ctrl+!]"), (["Escape"], "[Escape]"), (["ctrl", "space"], "[ctrl+space]"),
        (["Caps_Lock"], "[Caps_Lock]"), (["alt", "d"], "[alt+d]"),
    ],
)  # fmt: skip
def test_keys_and_chords(chord: list[str], text: str) -> None:
    assert told(Script().press(*chord).events) == text


def test_pieces_end_with_a_click_and_with_a_pause() -> None:
    script = Script().type("one").click().type("two").wait(3).type("three")
    assert told(script.events) == "one|two|three"
    assert told(Script().type("one").wait(1.5).type("two").events) == "onetwo"
    (start, end, text), *_ = typed_text(script.events)
    assert (round(start, 2), round(end, 2), text) == (0.01, 0.05, "one")


def test_repeated_keys_and_one_keyboard_for_all_clients() -> None:
    script = Script()
    for down in (True, True, True, False):
        script.key(0x61, down)
    script.key(0xFFE3, True, client=2)
    script.type("s")
    assert told(script.events) == "aaa[ctrl+s]"


def test_a_released_modifier_no_longer_counts() -> None:
    script = Script()
    script.key(0xFFE3, True)
    script.events.append(InputEvent(script.t, "key", 1, down=False, keysym=0xFFE3, name="Control_L", released=True))
    assert told(script.type("s").events) == "s"


@given(st.lists(st.tuples(st.integers(0, 0xFFFFFFFF) | st.integers(0xFE00, 0xFFFF), st.booleans()), max_size=30))
def test_any_keys_can_be_told(keys: list[tuple[int, bool]]) -> None:
    script = Script()
    for keysym, down in keys:
        script.key(keysym, down)
    assert isinstance(told(script.events).encode(), bytes)


# -- redaction ------------------------------------------------------------------------------------------------------------


def redacted(events: list[InputEvent], *secrets: str, gaps: Iterator[float] | None = None) -> list[InputEvent]:
    redactor = Redactor(secrets)
    stored: list[InputEvent] = []
    for event in events:
        stored += redactor.pop(event.t)
        redactor.push(event)
    return stored + redactor.flush()


def leaks(events: list[InputEvent]) -> str:
    """Every character that key presses *and releases* show."""
    return "".join(event.name or "" for event in events if event.name and len(event.name) == 1)


def test_a_secret_is_withheld_and_nothing_else() -> None:
    stored = redacted(Script().type("user\thunter2\nhunters").events, "hunter2")
    assert told(stored) == "user⇥•••••••⏎hunters"
    assert [event.t for event in stored] == sorted(event.t for event in stored)
    assert all(event.keysym == 0 for event in stored if event.name == "•")


def test_key_releases_do_not_give_it_away() -> None:
    script = Script(0.2)  # slow enough for releases to come after their presses were stored
    for key in "abc":
        script.key(ord(key), True)
    script.wait(5)
    for key in "abc":
        script.key(ord(key), False)
    assert set(leaks(redacted(script.events, "abc"))) == {"•"}


@pytest.mark.parametrize("step", [0.001, 0.3])
def test_corrections_chords_and_clicks_do_not_hide_it(step: float) -> None:
    script = Script(step / 3).type("hux").press("BackSpace").type("nt").press("ctrl", "a").click().type("er2")
    assert "2" not in leaks(redacted(script.events, "hunter2"))
    assert "t" not in leaks(redacted(script.events, "hunter2"))


def test_slow_typing_shows_no_more_than_the_first_characters() -> None:
    script = Script()
    for character in "hunter2":
        script.type(character).wait(4)
    shown = [event.name for event in redacted(script.events, "hunter2") if event.down]
    assert shown == ["h", "u", "•", "•", "•", "•", "•"]


def test_an_unfinished_secret_is_withheld_too() -> None:
    assert told(redacted(Script().type("hunter").events, "hunter2")) == "••••••"
    assert told(redacted(Script().type("so eh").events, "hunter2")) == "so eh"


def test_keypad_and_overlapping_secrets() -> None:
    script = Script()
    for name in ("KP_1", "KP_2", "KP_3", "KP_4"):
        script.press(name)
    assert told(redacted(script.events, "1234")) == "••••"
    assert told(redacted(Script().type("xabcabcdx").events, "abc", "abcd", "bcab")) == "x•••••••x"


def test_without_secrets_nothing_is_held_back() -> None:
    redactor = Redactor(["", ""])
    for event in Script().type("a").events:
        redactor.push(event)
        assert redactor.pop(event.t) == [event]


SECRETS = st.lists(st.text("abAB1!", min_size=1, max_size=6), min_size=1, max_size=3)


@given(secrets=SECRETS, around=st.lists(st.text("abAB1! \n", max_size=8), min_size=2, max_size=4), shift=st.booleans())
def test_secrets_typed_in_a_moment_never_come_out(secrets: list[str], around: list[str], shift: bool) -> None:
    text = around[0] + "".join(secrets[n % len(secrets)] + piece for n, piece in enumerate(around[1:]))
    stored = redacted(Script(0.0001).type(text, shift).events, *secrets)
    shown = "".join("•" if event.is_redacted else character for event, character in zip(
        [event for event in stored if event.down and not (event.name or "").startswith("Shift")], text, strict=True))  # fmt: skip
    assert len(stored) == len(Script().type(text, shift).events)
    for secret in secrets:
        assert secret not in shown
    for n, character in enumerate(text):
        if not any(
            n - start < len(secret) for secret in secrets for start in range(n + 1) if text.startswith(secret, start)
        ):
            is_tail = any(
                text.endswith(secret[:count]) and n >= len(text) - count
                for secret in secrets
                for count in range(len(secret))
            )
            assert shown[n] == character or is_tail


@given(secrets=SECRETS, pieces=st.lists(st.tuples(st.text("abAB1!", max_size=6), st.floats(0, 3)), max_size=6))
def test_events_keep_their_order_and_are_never_late(secrets: list[str], pieces: list[tuple[str, float]]) -> None:
    script = Script()
    for text, gap in pieces:
        script.type(text).wait(gap)
    redactor, stored = Redactor(secrets), 0
    for number, event in enumerate(script.events):
        redactor.push(event)
        for out in redactor.pop(event.t):
            assert out.t == script.events[stored].t
            assert event.t - out.t >= HOLD_SECONDS
            stored += 1
        due = sum(event.t - earlier.t >= HOLD_SECONDS for earlier in script.events[: number + 1])
        assert stored == due
    assert stored + len(redactor.flush()) == len(script.events)
