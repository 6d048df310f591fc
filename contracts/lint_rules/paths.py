r"""What can be said of path patterns without a file: whether one covers another, and whether it covers nearly everything."""

from __future__ import annotations

from contracts.globs import SEPARATOR, compile_glob, fold

_FILLERS = ("", "Q7", "ZK.X", "W2", "0 1")
_FOLDERS = ("", "Q7\\", "Q7\\W2\\")
_NAMES = ("B.DBF", "READ ME.TXT", "~x.tmp", "q-7.2026-11-29.log")


def is_exact(pattern: str) -> bool:
    """Whether it names one path: it has a separator, and no wildcard."""
    folded = fold(pattern)
    return SEPARATOR in folded and not has_wildcard(folded)


def has_wildcard(pattern: str) -> bool:
    """Whether it contains a wildcard."""
    return any(sign in pattern for sign in "*?[")


def covers(wide: str, narrow: str) -> bool:
    """Whether every path that ``narrow`` fits is fitted by ``wide`` too, as far as examples of its paths tell."""
    wider = compile_glob(wide)
    return all(map(wider, examples(narrow)))


def is_broad(pattern: str) -> bool:
    """Whether it fits whatever lies in the root, or whatever lies below it."""
    matches = compile_glob(pattern)
    return all(map(matches, _NAMES)) or all(matches(f"Q7\\{name}") and matches(f"Q7\\W2\\{name}") for name in _NAMES)


def examples(pattern: str) -> list[str]:
    """Paths that a pattern fits."""
    text = fold(pattern)
    anchored = SEPARATOR in text
    text = text.removeprefix(SEPARATOR)
    found = []
    for number, filler in enumerate(_FILLERS):
        body = _filled(text, number, filler)
        found += [body] if anchored else [folder + body for folder in _FOLDERS]
    matches = compile_glob(pattern)
    return [path for path in found if matches(path)] or found


def _filled(text: str, number: int, filler: str) -> str:
    """The pattern with its wildcards replaced."""
    parts: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if text.startswith("**\\", at) and (at == 0 or text[at - 1] == SEPARATOR):
            parts.append(_FOLDERS[number % len(_FOLDERS)])
            at += 3
        elif text.startswith("**", at):
            parts.append(("Q7", "Q7\\W2", "Q7\\W2\\ZK.X")[number % 3])
            at += 2
        elif sign == "*":
            parts.append(filler)
            at += 1
        elif sign == "?":
            parts.append("QZ07"[number % 4])
            at += 1
        elif sign == "[":
            end = text.find("]", at + (3 if text.startswith("!", at + 1) else 2))
            inside = text[at + 1 : end]
            parts.append("§" if inside.startswith("!") else inside[:1])
            at = end + 1
        else:
            parts.append(sign)
            at += 1
    return "".join(parts)
