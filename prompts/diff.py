"""What differs between two prompts for the same task, step by step, for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from prompts.render import Prompt, PromptStep

_WORD = re.compile(r"\{\{\w+\}\}|\w+")
_RELATED = 0.25
"""How alike two steps must be to be told as one that was changed; a share of their words."""
_FIELDS = ("title", "expect", "do", "otherwise")


def differences(first: Prompt, second: Prompt) -> list[str]:
    """Lines that tell the differences; none where both say the same.

    Steps are brought together in order, so that a step that one prompt lacks does not make all later ones differ. Origins do not
    count as differences.
    """
    lines = [*_changed("introduction", first.introduction, second.introduction, "")]
    counts = {"=": 0, "~": 0, "-": 0, "+": 0}
    for left, right in _aligned(first.steps, second.steps):
        if left is None or right is None:
            mark, number = ("-", left) if left is not None else ("+", right)
            assert number is not None
            step = (first if right is None else second).steps[number]
            lines.append(f"{mark} step {number + 1}: {_one_line(step.title)}")
            lines += [f"    {mark} {name}: {_one_line(getattr(step, name))}" for name in _FIELDS[1:]]
        else:
            one, other = first.steps[left], second.steps[right]
            changed = [
                line for name in _FIELDS for line in _changed(name, getattr(one, name), getattr(other, name), "    ")
            ]
            mark = "~" if changed else "="
            if changed:
                where = str(left + 1) if left == right else f"{left + 1}, there {right + 1}"
                lines += [f"~ step {where}: {_one_line(one.title)}", *changed]
        counts[mark] += 1
    lines += _changed("result", first.result, second.result, "")
    if not lines:
        return []
    return [
        *lines,
        f"steps: {counts['=']} the same, {counts['~']} changed, {counts['-']} only in the first, {counts['+']} only in the second",
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _changed(name: str, first: str, second: str, indent: str) -> Iterator[str]:
    old, new = _one_line(first), _one_line(second)
    if old != new:
        yield f"{indent}{name}:"
        yield f"{indent}  - {_marked(old, new)}"
        yield f"{indent}  + {_marked(new, old)}"


def _marked(text: str, other: str) -> str:
    """The text with the words in brackets that the other one has not."""
    words, theirs = text.split(" "), other.split(" ")
    parts: list[str] = []
    for kind, start, end, _, _ in SequenceMatcher(None, words, theirs, autojunk=False).get_opcodes():
        if start < end:
            piece = " ".join(words[start:end])
            parts.append(piece if kind == "equal" else f"[{piece}]")
    return " ".join(parts)


def _aligned(first: list[PromptStep], second: list[PromptStep]) -> list[tuple[int | None, int | None]]:
    """Pairs of steps in order, of the greatest likeness together; ``None`` where one has no counterpart."""
    left, right = [_words(step) for step in first], [_words(step) for step in second]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            paired = _likeness(left[i], right[j]) + best[i + 1][j + 1]
            best[i][j] = max(best[i + 1][j], best[i][j + 1], paired)
    pairs: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        both = i < len(left) and j < len(right)
        likeness = _likeness(left[i], right[j]) if both else 0.0
        if both and likeness and best[i][j] == likeness + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif i < len(left) and (j == len(right) or best[i][j] == best[i + 1][j]):
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    return pairs


def _words(step: PromptStep) -> frozenset[str]:
    """What a step is told by: its title and its action; the screens of neighbouring steps are alike."""
    return frozenset(word.casefold() for word in _WORD.findall(f"{step.title} {step.do}"))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of common words, 0 where it is too small to speak of one step."""
    share = len(one & other) / len(one | other) if one | other else 1.0
    return share if share >= _RELATED else 0.0
