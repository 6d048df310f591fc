"""Waiting for windows: what start-up and scripted agents have in common."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from contracts.schema import Matcher, Regex
from runner.guests.base import Guest, Unreadable
from runner.guests.probe import WindowEntry

_PAUSE = 0.03


def windows(guest: Guest, *, timeout: float = 10.0) -> tuple[WindowEntry, ...]:
    """The visible top-level windows with their controls, topmost first.

    Raises:
        Unreadable: They could not be listed.
        GuestLost: The channel is gone.
    """
    found = guest.probe("windows", "--children", timeout=timeout).windows
    return tuple(window for window in found if window.visible)


def title_fits(title: str, wanted: Matcher) -> bool:
    """Whether a window's title is the text, or matches the ``{regex: …}``."""
    if isinstance(wanted, Regex):
        return re.fullmatch(wanted.regex, title) is not None
    return title == str(wanted)


def wait_for_window(guest: Guest, wanted: Matcher, *, timeout: float) -> WindowEntry:
    """Waits until a visible window has the title.

    Raises:
        TimeoutError: None had; the message lists the titles there were.
        Unreadable: The windows could not be listed.
        GuestLost: The channel is gone.
    """
    return wait_for(guest, lambda window: title_fits(window.title, wanted), f"a window titled {wanted!r}", timeout)


def wait_for(guest: Guest, fits: Callable[[WindowEntry], bool], what: str, timeout: float) -> WindowEntry:
    """Waits until a visible window fits; errors as in :func:`wait_for_window`."""
    deadline = time.monotonic() + timeout
    while True:
        there = windows(guest, timeout=max(1.0, deadline - time.monotonic()))
        for window in there:
            if fits(window):
                return window
        if time.monotonic() >= deadline:
            titles = ", ".join(repr(window.title[:80]) for window in there if window.title) or "no window"
            raise TimeoutError(f"{what} did not appear within {timeout:g} s; there were: {titles}")
        time.sleep(_PAUSE)


__all__ = ["Unreadable", "title_fits", "wait_for", "wait_for_window", "windows"]
