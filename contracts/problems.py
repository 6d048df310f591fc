"""What is wrong with a contract: problems with file, line and column, and the error that carries them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from typing import NamedTuple

Loc = tuple[str | int, ...]
"""Where a value stands in the document: keys and list indices from the top."""

MAX_PROBLEMS = 50
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def field_path(loc: Loc) -> str:
    """A location in words: ``effects.expect[0].fields["*"]``."""
    parts: list[str] = []
    for item in loc:
        if isinstance(item, int):
            parts.append(f"[{item}]")
        elif _PLAIN_KEY.fullmatch(item):
            parts.append(f".{item}" if parts else item)
        else:
            parts.append(f'["{shown(item)}"]')
    return "".join(parts)


def shown(text: str, limit: int = 60) -> str:
    """A text of the file for a message: on one line, without control or invisible characters, at most ``limit`` long."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in short)


def quoted(names: Iterable[str]) -> str:
    """Names in backticks, separated by commas."""
    return ", ".join(f"`{shown(name)}`" for name in names)


def _common_start(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def did_you_mean(found: str, names: Sequence[str], *, most: int = 10) -> str:
    """A hint for a misspelt name: the nearest of ``names``, else all of them if they are few, else nothing."""
    lowered: dict[str, str] = {}
    for name in names:
        lowered.setdefault(name.lower(), name)
    wanted = found[:200].lower()
    if near := set(get_close_matches(wanted, list(lowered), n=50, cutoff=0.6)):
        # Among equally near ones the beginning decides, then the order of the names.
        ratio = {name: SequenceMatcher(None, name, wanted).ratio() for name in near}
        best = max(filter(near.__contains__, lowered), key=lambda name: (ratio[name], _common_start(name, wanted)))
        return f"did you mean `{shown(lowered[best])}`?"
    if 0 < len(names) <= most:
        return f"possible here: {quoted(names)}"
    return ""


class Finding(NamedTuple):
    """One problem before it has a position in a file.

    Attributes:
        loc: The place in the document.
        message: What is wrong.
        hint: What to do about it; may be empty.
        on_key: The key is meant, not its value.
    """

    loc: Loc
    message: str
    hint: str = ""
    on_key: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that has to be changed (or, as a warning, looked at).

    Attributes:
        file: The file's name as it was given.
        line: Line, from 1.
        column: Column in characters, from 1.
        field: The place in the document, such as ``effects.expect[0].inserted``; empty for a syntax error.
        message: What is wrong.
        hint: What to do about it; may be empty.
    """

    file: str
    line: int
    column: int
    field: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{shown(self.file, 1_000)}:{self.line}:{self.column}: "
        return (
            where + (f"{self.field}: " if self.field else "") + self.message + (f"; {self.hint}" if self.hint else "")
        )


class ContractError(Exception):
    """A contract (or another YAML file of ours) cannot be used as it is written.

    Attributes:
        problems: What is wrong, in the order of the file; at most :data:`MAX_PROBLEMS`.
        omitted: How many more there are.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        ordered = sorted(problems, key=lambda problem: (problem.line, problem.column, problem.field))
        self.problems = tuple(ordered[:MAX_PROBLEMS])
        self.omitted = max(0, len(ordered) - MAX_PROBLEMS)
        super().__init__(self.problems)

    def __str__(self) -> str:
        lines = [str(problem) for problem in self.problems]
        if self.omitted:
            lines.append(f"… and {self.omitted} more")
        return "\n".join(lines)
