"""What can be said of two rules without a run: whether one holds of whatever the other holds of, of a part of it, or of none.

The answer is *not known* where the form of the rules does not tell: two regular expressions, a value that only the run brings.
Some things are taken for granted that contracts mean by their words: an effect that names a field of an updated row expects
that it changes, and what a program generates, returns or dates is not empty.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import Enum, auto
from typing import Any

from contracts.globs import overlap
from contracts.lint_rules.base import accepts_all, fits, is_literal, plain, same
from contracts.schema import (
    AllOf,
    Between,
    Boolean,
    DateToday,
    FieldOf,
    FileText,
    Generated,
    Is,
    Not,
    NumberNear,
    OneOf,
    Regex,
    Returned,
    TextLike,
    TimeRun,
)

_DECIMAL = re.compile(r"\s*[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})\s*", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}.*|\d{2}:\d{2}.*", re.ASCII | re.DOTALL)
_TRUE = frozenset({"true", "1", "t", "y", "yes", "j", "ja"})
_FALSE = frozenset({"false", "0", "f", "n", "no", "nein"})
_STATES = {"blank": {"blank"}, "null": {"null"}, "empty": {"blank", "null", "zero"}}
_FILLED = (DateToday, TimeRun, Generated, Returned, FieldOf)
"""Matchers of values that only a run brings, and that are not empty."""


class Overlap(Enum):
    """What one rule has to do with what another one holds of."""

    WHOLE = auto()
    """It holds of all of it."""
    PART = auto()
    """It holds of some of it."""
    NONE = auto()
    UNKNOWN = auto()


def together(parts: Iterable[Overlap]) -> Overlap:
    """Of rules that hold where every part of them does."""
    found = set(parts)
    for answer in (Overlap.NONE, Overlap.UNKNOWN, Overlap.PART):
        if answer in found:
            return answer
    return Overlap.WHOLE


def either(parts: Iterable[Overlap]) -> Overlap:
    """Of a rule that holds where one of its parts does."""
    found = set(parts)
    for answer in (Overlap.WHOLE, Overlap.PART, Overlap.UNKNOWN):
        if answer in found:
            return answer
    return Overlap.NONE


def of_paths(wide: str | None, narrow: str | None) -> Overlap:
    """Of patterns for paths; ``None`` fits every path."""
    if wide is None:
        return Overlap.WHOLE
    if narrow is None:
        return Overlap.PART
    found = overlap(wide, narrow)
    if found is None:
        return Overlap.UNKNOWN
    both, beyond = found
    return Overlap.NONE if not both else Overlap.PART if beyond else Overlap.WHOLE


def of_contents(wide: Iterable[object], narrow: Iterable[object]) -> Overlap:
    """Of rules about a file's content, of which each must hold."""
    known = list(narrow)
    return together(_of_content(rule, known) for rule in wide)


def _of_content(rule: object, known: list[object]) -> Overlap:
    if accepts_all(rule) or rule in known:
        return Overlap.WHOLE
    # Whatever one of the known rules rules out cannot be there.
    answers = [of_matchers(*texts) for other in known if (texts := _texts(rule, other)) is not None]
    return next((answer for answer in answers if answer is not Overlap.UNKNOWN), Overlap.UNKNOWN)


def _texts(one: Any, other: Any) -> tuple[object, object] | None:
    """The matchers over the same text that two rules are about."""
    if isinstance(one, FileText) and isinstance(other, FileText):
        alike = (one.encoding, one.normalise) == (other.encoding, other.normalise)
        return (one.text, other.text) if alike else None
    if is_literal(one) or isinstance(one, Regex | OneOf):
        return (one, other) if is_literal(other) or isinstance(other, Regex | OneOf) else None
    return None


def of_fields(wide: Mapping[str, object], narrow: Mapping[str, object]) -> Overlap:
    """Of the values of fields; of a field that ``narrow`` does not name nobody knows what it holds."""
    return together(
        Overlap.WHOLE if accepts_all(matcher) else of_matchers(matcher, narrow[name]) if name in narrow else Overlap.UNKNOWN
        for name, matcher in wide.items()
    )  # fmt: skip


def of_matchers(wide: Any, narrow: Any) -> Overlap:
    """Of two matchers over one value."""
    wide, narrow = plain(wide), plain(narrow)
    if accepts_all(wide) or same(wide, narrow):
        return Overlap.WHOLE
    if accepts_all(narrow):
        return Overlap.PART
    if isinstance(narrow, OneOf):
        return _of_all(of_matchers(wide, part) for part in narrow.one_of)
    if isinstance(wide, OneOf):
        return either(of_matchers(part, narrow) for part in wide.one_of)
    if isinstance(wide, AllOf):
        return _narrowed(of_matchers(part, narrow) for part in wide.all_of)
    if isinstance(narrow, AllOf):
        found = {of_matchers(wide, part) for part in narrow.all_of}
        return next((answer for answer in (Overlap.NONE, Overlap.WHOLE) if answer in found), Overlap.UNKNOWN)
    if isinstance(wide, Not):
        opposite = {Overlap.WHOLE: Overlap.NONE, Overlap.NONE: Overlap.WHOLE}
        return opposite.get(of_matchers(wide.not_, narrow), Overlap.UNKNOWN)
    if isinstance(narrow, Not):
        opposite = {Overlap.WHOLE: Overlap.NONE, Overlap.NONE: Overlap.PART}
        return opposite.get(of_matchers(narrow.not_, wide), Overlap.UNKNOWN)
    return _of_simple(wide, narrow)


def _of_all(parts: Iterable[Overlap]) -> Overlap:
    """With what holds where one of several does: all of them must be covered."""
    found = set(parts)
    if found <= {Overlap.WHOLE} or found <= {Overlap.NONE}:
        return found.pop()
    return Overlap.PART if found & {Overlap.WHOLE, Overlap.PART} else Overlap.UNKNOWN


def _narrowed(parts: Iterable[Overlap]) -> Overlap:
    """Of what holds where all of several do: two parts of something need have nothing in common."""
    found = list(parts)
    answer = together(found)
    return Overlap.UNKNOWN if answer is Overlap.PART and found.count(Overlap.PART) > 1 else answer


def _of_simple(wide: Any, narrow: Any) -> Overlap:
    if isinstance(wide, Is) or isinstance(narrow, Is):
        return _of_states(wide, narrow)
    if is_literal(narrow):
        return _known(_holds(wide, narrow), Overlap.WHOLE)
    if is_literal(wide):
        return _known(_holds(narrow, wide), Overlap.PART)
    one, other = _interval(wide), _interval(narrow)
    if one is not None and other is not None:
        (low, high), (least, most) = one, other
        if type(low) is not type(least):
            return Overlap.UNKNOWN
        if high < least or most < low:
            return Overlap.NONE
        return Overlap.WHOLE if low <= least and most <= high else Overlap.PART
    if isinstance(wide, Boolean) and isinstance(narrow, Boolean):
        return Overlap.NONE  # not the same
    return Overlap.UNKNOWN


def _known(holds: bool | None, then: Overlap) -> Overlap:
    return Overlap.UNKNOWN if holds is None else then if holds else Overlap.NONE


def _of_states(wide: Any, narrow: Any) -> Overlap:
    """Where one of the two says what state a field is in."""
    states = [matcher.is_ if isinstance(matcher, Is) else "" for matcher in (wide, narrow)]
    if "unchanged" in states:
        return Overlap.NONE  # the other one names what it changes to
    if "changed" in states:
        return Overlap.WHOLE if states[0] == "changed" else Overlap.PART if is_literal(wide) else Overlap.UNKNOWN
    if all(states):
        one, other = _STATES[states[0]], _STATES[states[1]]
        return Overlap.WHOLE if one >= other else Overlap.PART if one & other else Overlap.NONE
    value, whole = (narrow, Overlap.WHOLE) if states[0] else (wide, Overlap.PART)
    if isinstance(value, _FILLED):
        return Overlap.NONE
    return _known(_is_empty(value, states[0] or states[1]), whole)


def _is_empty(matcher: Any, state: str) -> bool | None:
    """Whether what a matcher holds of is in a state: blank, null or empty."""
    if is_literal(matcher):
        value = plain(matcher)
        if value == "" and isinstance(value, str):
            return state != "null"
        if value in ("00000000", 0, False):
            return None if state == "blank" else state == "empty"
        return False
    if any(_holds(matcher, value) is not False for value in ("", "0", Decimal(0))):
        return None
    return False


def _number(value: object) -> Decimal | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return Decimal(value.strip()) if _DECIMAL.fullmatch(value) else None
    return Decimal(value) if isinstance(value, int | Decimal) else None


def _interval(matcher: Any) -> tuple[Any, Any] | None:
    if isinstance(matcher, NumberNear):
        by = matcher.tolerance or (matcher.relative or Decimal(0)) * abs(matcher.number)
        return matcher.number - by, matcher.number + by
    if isinstance(matcher, Between):
        low, high = matcher.between
        return (low, high) if isinstance(low, str) else (Decimal(low), Decimal(high))
    return None


def _holds(matcher: Any, literal: Any) -> bool | None:
    """Whether a matcher holds of a value that is written so, in whatever kind of field; ``None`` if that depends."""
    literal, matcher = plain(literal), plain(matcher)
    if is_literal(matcher):
        return _equal(matcher, literal)
    answer = _HOLDS.get(type(matcher))
    return None if answer is None else answer(matcher, literal)


def _equal(one: Any, other: Any) -> bool | None:
    if type(one) is type(other) and one == other:
        return True
    numbers = _number(one), _number(other)
    if None not in numbers and numbers[0] == numbers[1]:
        return None  # in a numeric field, not in one of text
    texts = isinstance(one, str) and isinstance(other, str)
    return None if texts and one.rstrip(" ") == other.rstrip(" ") else False


def _regex(matcher: Regex, literal: Any) -> bool | None:
    answers = {fits(matcher.regex, spelling) for spelling in _spellings(literal)}
    return answers.pop() if len(answers) == 1 else None


def _spellings(literal: Any) -> list[str]:
    """How a field may spell a value that is written so: numbers with other decimals, dates with a time."""
    if isinstance(literal, bool):
        return ["true" if literal else "false"]
    text = str(literal)
    found = [text, text.rstrip(" ")]
    if (number := _number(literal)) is not None:
        scaled = [number.quantize(Decimal(1).scaleb(-places)) for places in range(5) if number.adjusted() < 20]
        found += [format(other, "f") for other in scaled if other == number]
        found.append(format(number.normalize(), "f"))
    if _MOMENT.fullmatch(text):
        found += [f"{text} 00:00:00", f"{text}:00", text.replace("T", " ")]
    return found


def _within(matcher: Any, literal: Any) -> bool | None:
    ends = _interval(matcher)
    if ends is None:
        return None
    value = literal if isinstance(ends[0], str) else _number(literal)
    if value is None:
        return False
    return bool(ends[0] <= value <= ends[1]) if type(value) is type(ends[0]) else None


def _text_like(matcher: TextLike, literal: Any) -> bool | None:
    if not isinstance(literal, str):
        return False
    alike = _normal(matcher.text, matcher.normalise) == _normal(literal, matcher.normalise)
    return alike or (None if "html" in matcher.normalise else False)


def _normal(text: str, how: Iterable[str]) -> str:
    text = unicodedata.normalize("NFKC", text) if "unicode" in how else text
    text = text.casefold() if "case" in how else text
    return " ".join(text.split()) if "whitespace" in how else text


def _boolean(matcher: Boolean, literal: Any) -> bool:
    return str(literal).strip().casefold() in (_TRUE if matcher.boolean else _FALSE)


def _dated(_: object, literal: Any) -> bool | None:
    return None if isinstance(literal, str) and _MOMENT.fullmatch(literal.strip()) else False


_HOLDS: dict[type, Callable[[Any, Any], bool | None]] = {
    Regex: _regex,
    NumberNear: _within,
    Between: _within,
    TextLike: _text_like,
    Boolean: _boolean,
    DateToday: _dated,
    TimeRun: _dated,
}
