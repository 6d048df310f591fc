"""A guest's clock against the host's."""

from __future__ import annotations

import time

from runner.guests.base import Guest

MAX_OFFSET = 5.0
"""Seconds between guest and host beyond which dates are not to be trusted."""
_FILETIME_EPOCH = 11_644_473_600
"""Seconds from 1601, where Windows' clock begins, to 1970."""


def now(guest: Guest) -> float:
    """The guest's clock, in seconds since 1970."""
    return guest.probe("version").header.time / 10_000_000 - _FILETIME_EPOCH


def offset(guest: Guest) -> float:
    """Guest clock minus host clock, in seconds; right to half the time that the answer took."""
    before = time.time()
    there = now(guest)
    return there - (before + time.time()) / 2


def utc_offset(guest: Guest) -> int:
    """The guest's zone: local time minus UTC, in seconds."""
    return -guest.probe("version").header.tz_bias_min * 60
