"""One neutral action for all vendors: what a model proposes is hostile until it has been checked, bounded, and put into pixels."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from runner.agents.computeruse.keys import UnknownKey, chords
from runner.agents.computeruse.view import Point, View
from runner.display.keysyms import character_keysym

Kind = Literal[
    "screenshot", "cursor_position", "move", "click", "drag", "mouse_down", "mouse_up", "scroll", "key", "key_down",
    "key_up", "hold_key", "type", "wait",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)

MAX_TEXT = 4_000
"""Characters of one typing action."""
MAX_SECONDS = 100.0
"""The longest wait and hold, as legacy-use has it; longer ones are cut."""
MAX_REPEAT = 100
MAX_SCROLL = 100
MAX_PATH = 200
BUTTONS = {"left": 1, "middle": 2, "wheel": 2, "right": 3, "back": 8, "forward": 9}
_PIXELS_PER_CLICK = 100
_DIRECTIONS = ("up", "down", "left", "right")


class Malformed(Exception):
    """An action that is none: an unknown one, one without what it needs, or with what cannot be done."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An action as a model proposes it, in neutral words but unchecked.

    Attributes:
        kind: What to do; one of :data:`KINDS`, or the model's own word if it is none.
        arguments: ``at``, ``path`` (its first place may be ``None``: where the pointer is), ``button``, ``count``, ``direction``, ``amount``, ``keys``, ``held``, ``text``,
            ``seconds``, ``repeat``; each as the model gave it, places in its own coordinates.
        ignored: Arguments of the model that mean nothing here.
    """

    kind: str
    arguments: Mapping[str, Any]
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """A checked action, in pixels of the screen.

    Attributes:
        kind: What to do.
        at: Where; ``None``: where the pointer is.
        path: The places of a drag, at least two.
        button: The mouse button by its number in the protocol: 1 left, 2 middle, 3 right, 8 back.
        count: How many clicks.
        scroll: Wheel clicks to the right and down; negative: left and up.
        keys: Chords to press one after the other.
        held: A chord to hold meanwhile; empty: none.
        text: What to type.
        seconds: How long to wait or hold.
        repeat: How often to press the keys.
    """

    kind: Kind
    at: Point | None = None
    path: tuple[Point, ...] = ()
    button: int = 1
    count: int = 1
    scroll: tuple[int, int] = (0, 0)
    keys: tuple[str, ...] = ()
    held: str = ""
    text: str = ""
    seconds: float = 0.0
    repeat: int = 1

    def shown(self) -> str:
        """For people; typed text only by its length, for it may be part of a secret."""
        place = f" at {self.at[0]}, {self.at[1]}" if self.at else ""
        held = f" with {self.held} held" if self.held else ""
        match self.kind:
            case "click":
                button = {1: "", 2: "middle ", 3: "right ", 8: "back "}.get(self.button, "")
                times = {1: "", 2: "double ", 3: "triple "}.get(self.count, "")
                return f"{times}{button}click{place}{held}"
            case "drag":
                return f"drag from {self.path[0]} to {self.path[-1]}{held}"
            case "scroll":
                return f"scroll by {self.scroll[0]}, {self.scroll[1]}{place}{held}"
            case "key" | "key_down" | "key_up":
                often = f" {self.repeat} times" if self.repeat > 1 else ""
                return f"{self.kind.replace('_', ' ')} {' '.join(self.keys)}{often}"
            case "hold_key":
                return f"hold {' '.join(self.keys)} for {self.seconds:g} s"
            case "type":
                return f"type {len(self.text)} characters"
            case "wait":
                return f"wait {self.seconds:g} s"
            case _:
                return f"{self.kind.replace('_', ' ')}{place}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked action, and what had to be put right for it: the names of the repairs."""

    action: Action
    repairs: tuple[str, ...]


def check(proposal: Proposal, view: View, pointer: Point = (0, 0)) -> Checked:
    """Checks an action, bounds it, and puts its places into pixels.

    What a person would read the same way is repaired, and each repair has a name; what is ambiguous is not guessed.

    Args:
        proposal: What the model wants.
        view: How its places lie on the screen.
        pointer: Where the pointer is: a drag may begin there.

    Raises:
        Malformed: It is no action, or one that cannot be done.
        runner.agents.computeruse.view.OutOfBounds: A place of it is not on the screen.
    """
    reader = _Reader(proposal.arguments, view, pointer)
    if proposal.ignored:
        reader.repairs.append("argument_ignored")
    match proposal.kind:
        case "screenshot" | "cursor_position":
            action = Action(proposal.kind)
        case "move":
            action = Action("move", at=reader.place("at", needed=True), held=reader.held())
        case "click":
            action = Action(
                "click", at=reader.place("at"), button=reader.button(), count=reader.count(), held=reader.held()
            )
        case "mouse_down" | "mouse_up":
            action = Action(proposal.kind, at=reader.place("at"), button=reader.button())
        case "drag":
            action = Action("drag", path=reader.path(), button=reader.button(), held=reader.held())
        case "scroll":
            action = Action("scroll", at=reader.place("at"), scroll=reader.scroll(), held=reader.held())
        case "key" | "key_down" | "key_up":
            repeat = reader.whole("repeat", 1, 1, MAX_REPEAT, "repeat_cut")
            action = Action(proposal.kind, keys=reader.keys(), repeat=repeat)
        case "hold_key":
            action = Action("hold_key", keys=reader.keys(), seconds=reader.seconds(1.0))
        case "type":
            action = Action("type", text=reader.text())
        case "wait":
            action = Action("wait", seconds=reader.seconds(1.0))
        case _:
            raise Malformed(f"there is no action {proposal.kind[:40]!r}; there are: {', '.join(KINDS)}")
    return Checked(action, tuple(dict.fromkeys(reader.repairs)))


def arguments_of(given: object) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The arguments of a call as an object, and repairs; function tools give them as JSON text, some models twice over.

    Raises:
        Malformed: They are no object.
    """
    value, repairs = given, []
    for attempt in range(2):
        if not isinstance(value, str):
            break
        if attempt:
            repairs.append("arguments_as_text")
        try:
            value = json.loads(value or "{}", parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise Malformed("its arguments are no JSON") from None
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise Malformed(f"its arguments must be an object, not {type(value).__name__}")
    return {str(key): item for key, item in value.items()}, tuple(repairs)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def repeatable(given: object) -> str:
    """The arguments of a function call as they may be sent back: unchanged where they are the JSON text of an object.

    Others are mended, or ``{}`` where they are broken: some servers refuse every later request whose history holds such a call, and
    what the *model* did wrong would look like an outage.
    """
    try:
        arguments, _ = arguments_of(given)
        mended = json.dumps(arguments, allow_nan=False)
    except (Malformed, ValueError):
        return "{}"
    return given if isinstance(given, str) and given.lstrip().startswith("{") else mended


def wheel_clicks(pixels: object) -> object:
    """How many clicks of the wheel stand for so many pixels, as vendors count; what is no number is left for the check to refuse."""
    try:
        return max(1, round(abs(float(pixels)) / _PIXELS_PER_CLICK)) if pixels else 0  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None if pixels is None else str(type(pixels))


_TWO_NUMBERS = re.compile(r"\s*[\[(]?\s*(-?\d{1,6}(?:\.\d{1,6})?)\s*[,;\s]\s*(-?\d{1,6}(?:\.\d{1,6})?)\s*[\])]?\s*")
_NUMBER = re.compile(r"\s*-?\d{1,6}(?:\.\d{1,6})?\s*")


class _Reader:
    """Takes arguments out of what a model gave, and keeps the names of the repairs."""

    def __init__(self, arguments: Mapping[str, Any], view: View, pointer: Point) -> None:
        self._arguments = arguments
        self._view = view
        self._pointer = pointer
        self.repairs: list[str] = []

    def place(self, name: str, *, needed: bool = False) -> Point | None:
        given = self._arguments.get(name)
        if given is None:
            if needed:
                raise Malformed("it needs a place")
            return None
        return self._place(given)

    def path(self) -> tuple[Point, ...]:
        given = self._arguments.get("path")
        if not isinstance(given, Sequence) or isinstance(given, str) or not 2 <= len(given) <= MAX_PATH:
            raise Malformed(f"a drag needs 2 to {MAX_PATH} places")
        return tuple(self._pointer if place is None and not n else self._place(place) for n, place in enumerate(given))

    def button(self) -> int:
        given = self._arguments.get("button", "left")
        if not isinstance(given, str) or given.lower() not in BUTTONS:
            raise Malformed(f"there is no such mouse button; there are: {', '.join(BUTTONS)}")
        number = BUTTONS[given.lower()]
        if number > 8:
            raise Malformed("the display has no forward button")
        return number

    def count(self) -> int:
        count = self._arguments.get("count", 1)
        if count not in (1, 2, 3):
            raise Malformed("a click is a single, a double or a triple one")
        return int(count)

    def scroll(self) -> tuple[int, int]:
        direction = self._arguments.get("direction")
        if not isinstance(direction, str) or direction.lower() not in _DIRECTIONS:
            raise Malformed("the direction of scrolling must be up, down, left or right")
        amount = self.whole("amount", 3, 0, MAX_SCROLL, "scroll_cut")
        across, down = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[direction.lower()]
        return across * amount, down * amount

    def keys(self) -> tuple[str, ...]:
        try:
            pressed, repairs = chords(self._arguments.get("keys"))
        except UnknownKey as error:
            raise Malformed(str(error)) from None
        self.repairs += repairs
        return pressed

    def held(self) -> str:
        given = self._arguments.get("held")
        if given is None or given in ("", []):
            return ""
        try:
            pressed, repairs = chords(given)
        except UnknownKey as error:
            raise Malformed(str(error)) from None
        if len(pressed) != 1:
            raise Malformed("only one key combination can be held")
        self.repairs += repairs
        return pressed[0]

    def text(self) -> str:
        given = self._arguments.get("text")
        if isinstance(given, int | float) and not isinstance(given, bool):
            self.repairs.append("number_typed")
            given = str(given)
        if not isinstance(given, str) or not given:
            raise Malformed("there is nothing to type")
        if len(given) > MAX_TEXT:
            raise Malformed(f"at most {MAX_TEXT} characters can be typed at once, not {len(given)}")
        given = given.replace("\r\n", "\n")
        for character in set(given):
            try:
                character_keysym(character)
            except ValueError:
                raise Malformed(f"no key types the character U+{ord(character):04X}") from None
        return given

    def seconds(self, default: float) -> float:
        given = self._number(self._arguments.get("seconds", default), "the duration")
        if given < 0:
            raise Malformed("the duration is negative")
        if given > MAX_SECONDS:
            self.repairs.append("duration_cut")
        return min(given, MAX_SECONDS)

    def whole(self, name: str, default: int, least: int, most: int, cut: str) -> int:
        given = self._number(self._arguments.get(name, default), name)
        number = round(given)
        if number != given:
            self.repairs.append("number_rounded")
        if number < least:
            raise Malformed(f"{name} must be at least {least}")
        if number > most:
            self.repairs.append(cut)
        return min(number, most)

    def _place(self, given: object) -> Point:
        if isinstance(given, str):
            match = _TWO_NUMBERS.fullmatch(given[:100])
            if match is None:
                raise Malformed("a place is two numbers")
            self.repairs.append("place_as_text")
            given = [float(match[1]), float(match[2])]
        if isinstance(given, Mapping):
            given = [given.get("x"), given.get("y")]
        if not isinstance(given, Sequence) or len(given) != 2:
            raise Malformed("a place is two numbers")
        x, y = (self._number(number, "a coordinate") for number in given)
        point, moved = self._view.point(x, y)
        if moved:
            self.repairs.append("place_on_edge")
        if x != int(x) or y != int(y):
            self.repairs.append("number_rounded")
        return point

    def _number(self, given: object, what: str) -> float:
        if isinstance(given, str) and _NUMBER.fullmatch(given[:40]):
            self.repairs.append("number_as_text")
            return float(given)
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise Malformed(f"{what} must be a number")
        try:
            number = float(given)
        except OverflowError:
            raise Malformed(f"{what} is no usable number") from None
        if not math.isfinite(number):
            raise Malformed(f"{what} is no usable number")
        return number
