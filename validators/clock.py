"""Times of day, and SQL's times beyond one: MariaDB's ``TIME`` is a span from -838:59:59 to 838:59:59, PostgreSQL's a day's end is 24:00:00.

Within a day a time is Python's ``time``; what that cannot hold is an :class:`OutOfDay`. Both are written ``[-]HH:MM[:SS[.f]]``
(MariaDB: TIME; PostgreSQL: 8.5.1.2), and where a server keeps one with the time, an offset follows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time

_DAY = 24 * 3600 * 1_000_000
_CLOCK = re.compile(r"(-?)(\d{2,3}):([0-5]\d)(?::([0-5]\d)(?:\.(\d+))?)?", re.ASCII)
_WITHIN = re.compile(r"\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}(?::\d{2}){0,2})?", re.ASCII)


@dataclass(frozen=True, order=True, slots=True)
class OutOfDay:
    """A time that no clock shows: negative, or 24 hours and more.

    Attributes:
        microseconds: Since midnight.
    """

    microseconds: int

    def __str__(self) -> str:
        seconds, fraction = divmod(abs(self.microseconds), 1_000_000)
        text = f"{'-' if self.microseconds < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{text}.{fraction:06}" if fraction else text

    isoformat = __str__


Clock = time | OutOfDay
"""A time, of a day or not."""


def clock_of(text: str) -> Clock:
    """The time that a text stands for, a fraction cut to microseconds.

    Args:
        text: ``14:30``, ``14:30:00.5``, ``14:30:00+02:00``, ``24:00:00``, ``-838:59:59``.

    Raises:
        ValueError: It stands for none.
    """
    if found := _CLOCK.fullmatch(text):
        sign, hours, minutes, seconds, fraction = found.groups()
        whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)
        since = whole * 1_000_000 + int((fraction or "0")[:6].ljust(6, "0"))
        since = -since if sign else since
        if not 0 <= since < _DAY:
            return OutOfDay(since)
        text = text.removeprefix("-")  # minus nothing
        return time.fromisoformat(text[1:] if len(hours) == 3 else text)
    if _WITHIN.fullmatch(text):
        return time.fromisoformat(text)
    raise ValueError(f"{text!r} is no time")


def comparable(moment: Clock) -> OutOfDay:
    """A time that can be compared with those beyond a day; an offset does not count."""
    if isinstance(moment, OutOfDay):
        return moment
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return OutOfDay(seconds * 1_000_000 + moment.microsecond)
