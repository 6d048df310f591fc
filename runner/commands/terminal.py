"""What every command says to a person: standard output for results, standard error for what happens meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console

_NARROW = 100
out = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout and sys.stdout.isatty() else _NARROW)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)


class Refused(Exception):
    """A user's mistake: told in words, exit status 2."""


def say(line: str) -> None:
    """Tells somebody who waits what is being done; for :func:`runner.machines.base.provider` among others."""
    err.print(line, soft_wrap=True)


def told(lines: Iterable[str]) -> None:
    """Prints lines as they are, without wrapping."""
    for line in lines:
        out.print(line, soft_wrap=True)
