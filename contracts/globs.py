r"""Patterns for Windows paths and titles, and the folding of Windows names (CONTRACT.md section 3, "Paths and globs").

====================  =============================================================================================
``*``                 any characters within one folder
``**``                any characters, folders included; as a whole component (``a\**\b``) any number of folders, none too
``?``                 one character, no separator
``[abc]`` ``[a-z]``   one character of these; ``[!abc]`` one that is none of them
``[*] [?] [[]``       the characters ``*``, ``?`` and ``[`` themselves (:func:`escape` writes them)
====================  =============================================================================================

Case does not matter, ``\`` and ``/`` are the same, both sides are compared in Unicode normal form C. A pattern without a
separator matches the base name anywhere; one that begins with a separator is anchored at the root. Matching takes time
proportional to the path, whatever the pattern: the pattern is a non-deterministic automaton whose states are the bits of one
integer, and its steps are remembered.

Titles of windows have no folders: in their patterns ``*`` means any characters, and ``\`` and ``/`` are ordinary ones.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple

SEPARATOR = "\\"
MAX_LENGTH = 2_000
_MAX_PAIRS = 20_000
"""How many pairs of states are looked at when two patterns are compared."""
_MAX_STEPS = 4_096
"""Remembered steps per pattern; names come from the guest, so the memory is bounded and simply begun anew."""


class GlobError(ValueError):
    """The pattern cannot be used; the message says what to change."""


class _Upper(dict[int, str]):
    """Upper case one character at a time, as Windows folds names: only where lower case leads back again.

    So ``ß`` stays itself (it never becomes ``SS``), and neither ``ı`` nor ``ſ`` nor ``µ`` turns into another letter's capital.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        upper = char.upper()
        folded = upper if len(upper) == 1 and upper.lower() == char else char
        self[code] = folded
        return folded


_UPPER = _Upper()


def _upper(text: str) -> str:
    return text.upper() if text.isascii() else unicodedata.normalize("NFC", text).translate(_UPPER)


def fold(path: str) -> str:
    r"""The form in which two spellings of one Windows name are equal: NFC, upper case, ``\`` for ``/``."""
    return _upper(path).replace("/", SEPARATOR)


def escape(text: str) -> str:
    """The pattern that matches exactly ``text``: its wildcard characters are put in brackets."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


class _Kind(Enum):
    ONE = auto()
    """Awaits one character that it accepts."""
    LOOP = auto()
    """Accepts any number of characters, none too."""
    FOLDERS = auto()
    """Stands before a loop and a separator and lets both be left out: ``**`` as a whole component."""


class _Token(NamedTuple):
    accepts: Callable[[str], bool]
    kind: _Kind = _Kind.ONE


def _nothing(_char: str) -> bool:
    return False


def _any(_char: str) -> bool:
    return True


def _not_separator(char: str) -> bool:
    return char != SEPARATOR


def _literal(expected: str) -> Callable[[str], bool]:
    return lambda char: char == expected


def _class(body: str, within: Callable[[str], bool]) -> Callable[[str], bool]:
    negated = body.startswith("!")
    body = body[1:] if negated else body
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(body):
        if body[index + 1 : index + 2] == "-" and index + 2 < len(body):
            low, high = body[index], body[index + 2]
            if low > high:
                raise GlobError(f"the range `{low}-{high}` in brackets runs backwards")
            index += 3
        else:
            low = high = _upper(body[index])
            index += 1
        ranges.append((low, high))

    def accepts(char: str) -> bool:
        inside = any(low <= variant <= high for variant in (char, char.lower()) for low, high in ranges)
        return inside != negated and within(char)

    return accepts


def _class_end(pattern: str, start: int) -> int:
    """Index of the ``]`` that closes the class opened at ``start``; a ``]`` in first place is a member."""
    first = start + 2 if pattern.startswith("!", start + 1) else start + 1
    end = pattern.find("]", first + 1)
    if end < 0:
        raise GlobError("a `[` is not closed; the character itself is written `[[]`")
    return end


def _tokens(pattern: str, within: Callable[[str], bool]) -> list[_Token]:
    """The tokens of a component or title; ``within`` accepts what a single wildcard may stand for."""
    tokens: list[_Token] = []
    index = 0
    while index < len(pattern):
        match pattern[index]:
            case "*":
                end = index + len(pattern[index:]) - len(pattern[index:].lstrip("*"))
                tokens.append(_Token(within if end == index + 1 else _any, _Kind.LOOP))
                index = end
                continue
            case "?":
                tokens.append(_Token(within))
            case "[":
                end = _class_end(pattern, index)
                tokens.append(_Token(_class(pattern[index + 1 : end], within)))
                index = end
            case char:
                tokens.append(_Token(_literal(_upper(char))))
        index += 1
    return tokens


class _Automaton:
    """A row of tokens as automaton: bit *i* of a state says that token *i* is awaited, the last bit that all are done."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._accepts = [token.accepts for token in tokens]
        self._loops = sum(1 << i for i, token in enumerate(tokens) if token.kind is _Kind.LOOP)
        self._folders = sum(1 << i for i, token in enumerate(tokens) if token.kind is _Kind.FOLDERS)
        self._done = 1 << len(tokens)
        self._start = self._skip(1)
        self._masks: dict[str, int] = {}
        self._steps: dict[tuple[int, str], int] = {}

    def _skip(self, states: int) -> int:
        """Adds what is reached without a character: beyond loops, and into or beyond ``**`` with its separator."""
        folders = states & self._folders
        states |= folders << 1 | folders << 3
        return states | (states & self._loops) << 1

    def _step(self, states: int, char: str) -> int:
        if len(self._steps) >= _MAX_STEPS:
            self._steps.clear()
            self._masks.clear()
        if char not in self._masks:
            self._masks[char] = sum(1 << i for i, accepts in enumerate(self._accepts) if accepts(char))
        consumed = states & self._masks[char]
        after = self._skip((consumed & ~self._loops) << 1 | consumed & self._loops)
        self._steps[states, char] = after
        return after

    @property
    def start(self) -> int:
        """The states before the first character."""
        return self._start

    def after(self, states: int, char: str) -> int:
        """The states after one more character; 0: nothing can fit any more."""
        following = self._steps.get((states, char))
        return self._step(states, char) if following is None else following

    def accepts(self, states: int) -> bool:
        """Whether what was read fits."""
        return bool(states & self._done)

    def matches(self, folded: str) -> bool:
        """Whether the whole text fits."""
        states, steps = self._start, self._steps
        for char in folded:
            following = steps.get((states, char))
            states = self._step(states, char) if following is None else following
            if not states:
                return False
        return bool(states & self._done)


def _checked(pattern: str) -> str:
    if not pattern:
        raise GlobError("an empty pattern matches nothing")
    if len(pattern) > MAX_LENGTH:
        raise GlobError(f"the pattern is longer than {MAX_LENGTH} characters")
    return unicodedata.normalize("NFC", pattern)


def _components(pattern: str) -> list[str]:
    text = pattern.replace("/", SEPARATOR)
    if (text[:1].isalpha() and text[1:2] == ":") or text.startswith(2 * SEPARATOR):
        raise GlobError("a pattern is relative to the observable's root: leave out the drive or server")
    if text.endswith(SEPARATOR):
        raise GlobError(r"a pattern cannot end in a separator: `folder` is the folder, `folder\**` what is in it")
    parts: list[str] = [] if text.startswith(SEPARATOR) or SEPARATOR in text else ["**"]
    for part in filter(None, text.split(SEPARATOR)):
        if part in (".", ".."):
            raise GlobError("`.` and `..` never occur in the paths that are compared")
        if "[" in part and "]" not in part and "]" in text:
            raise GlobError("a separator cannot stand in brackets")
        if not (part == "**" and parts[-1:] == ["**"]):
            parts.append(part)
    return parts


@lru_cache(maxsize=1_024)
def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Makes a predicate on paths relative to an observable's root.

    Raises:
        GlobError: The pattern is empty, too long, absolute, ends in a separator, contains ``.`` or ``..`` as a component, or
            has brackets that are not closed or run backwards.
    """
    matches = _path_automaton(pattern).matches
    return lambda path: matches(fold(path))


@lru_cache(maxsize=1_024)
def _path_automaton(pattern: str) -> _Automaton:
    parts = _components(_checked(pattern))
    tokens: list[_Token] = []
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**" and not last:
            tokens.append(_Token(_nothing, _Kind.FOLDERS))
        tokens.extend(_tokens(part, _not_separator))
        if not last:
            tokens.append(_Token(_literal(SEPARATOR)))
    return _Automaton(tokens)


def overlap(wide: str, narrow: str) -> tuple[bool, bool] | None:
    """Compares the paths that two patterns fit, all of them: both automata are run side by side.

    Returns:
        Whether some path fits both, and whether some path fits ``narrow`` only; ``None`` if that takes too many steps.

    Raises:
        GlobError: As :func:`compile_glob`.
    """
    one, other = _path_automaton(wide), _path_automaton(narrow)
    # Of signs that no part of a pattern tells apart one is enough: those that occur, and their neighbours for ranges.
    near = {chr(max(1, ord(sign) + by)) for sign in fold(wide) + fold(narrow) for by in (-1, 0, 1)}
    signs = sorted({folded for sign in {*near, "Q", "\u4e00", SEPARATOR} if len(folded := fold(sign)) == 1})
    pending = [(one.start, other.start, True)]
    seen = set(pending)
    both = beyond = False
    while pending and not (both and beyond):
        states, others, is_new_part = pending.pop()
        if not is_new_part and other.accepts(others):
            both, beyond = both or one.accepts(states), beyond or not one.accepts(states)
        for sign in signs:
            if sign == SEPARATOR and is_new_part:
                continue  # names in a path are never empty
            after = one.after(states, sign), other.after(others, sign), sign == SEPARATOR
            if after[1] and after not in seen:
                if len(seen) >= _MAX_PAIRS:
                    return None
                seen.add(after)
                pending.append(after)
    return both, beyond


@lru_cache(maxsize=1_024)
def compile_title_glob(pattern: str) -> Callable[[str], bool]:
    """Makes a predicate on window titles: ``*`` any characters, ``?`` one, brackets as in paths; case does not matter.

    Raises:
        GlobError: The pattern is empty, too long, or has brackets that are not closed or run backwards.
    """
    matches = _Automaton(_tokens(_checked(pattern), _any)).matches
    return lambda title: matches(_upper(title))
