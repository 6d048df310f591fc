"""The windows observable: two lists of the visible top-level windows to changes.

A window is the same by handle and process. Titles and texts are data: they come from the program, and are never patterns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from contracts.schema import IgnoredWindow, Matcher, Windows
from validators.changes import Cell, CellState, Change, Comparison, Ignored, Kind, Row, Verb
from validators.matchers import RunContext, Subject, matches

_EXAMPLES = 5
_NO_RUN = RunContext(datetime.min, datetime.max)  # noqa: DTZ901 - of all time
"""Ignore rules look at one window alone; nothing in them depends on the run."""


@dataclass(frozen=True, slots=True)
class WindowItem:
    """One visible top-level window.

    Attributes:
        handle: Its handle.
        process: Its process's number.
        program: The process's executable, without folder.
        class_name: Its window class.
        title: Its title.
        hung: Whether it did not answer.
        waiting: Whether it is a modal dialog that holds up the window that owns it.
    """

    handle: int
    process: int
    program: str
    class_name: str
    title: str
    hung: bool = False
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class WindowsState:
    """The visible windows at one moment, topmost first."""

    items: tuple[WindowItem, ...] = ()


def cells(item: WindowItem) -> dict[str, Cell]:
    """A window as fields, as effects and reports see it."""
    return {
        "title": _text(item.title),
        "class": _text(item.class_name),
        "program": _text(item.program),
        "hung": Cell(Kind.LOGICAL, item.hung),
        "waiting": Cell(Kind.LOGICAL, item.waiting),
    }


def _text(value: str) -> Cell:
    return Cell(Kind.VARTEXT, value) if value else Cell(Kind.VARTEXT, None, CellState.BLANK)


class _WindowRows:
    def __init__(self, before: WindowsState, after: WindowsState) -> None:
        self._before = before
        self._after = after

    def before(self) -> Iterable[tuple[Row, bool]]:
        return ((cells(item), True) for item in self._before.items)

    def after(self) -> Iterable[tuple[Row, bool]]:
        return ((cells(item), True) for item in self._after.items)


def diff_windows(before: WindowsState, after: WindowsState, spec: Windows, *, observable: str) -> Comparison:
    """Which windows were opened, closed or retitled.

    Args:
        before: The windows before the run.
        after: Those after it.
        spec: The observable, with what it ignores.
        observable: Its name in the contract.
    """
    rules = spec.windows.ignore
    hits: list[dict[tuple[int, int], str]] = [{} for _ in rules]
    old = {(item.handle, item.process): item for item in _seen(before, rules, hits)}
    new = {(item.handle, item.process): item for item in _seen(after, rules, hits)}
    found: list[tuple[Verb, WindowItem | None, WindowItem | None]] = []
    for key, was in old.items():
        now = new.get(key)
        if now is None:
            found.append((Verb.CLOSED, was, None))
        elif was.title != now.title:
            found.append((Verb.RETITLED, was, now))
    found += [(Verb.OPENED, None, now) for key, now in new.items() if key not in old]
    found.sort(key=lambda entry: _place(entry[2] or entry[1]))
    changes = tuple(
        Change(
            observable,
            verb,
            _subject(now or was),
            position,
            None if was is None else cells(was),
            None if now is None else cells(now),
            ("title",) if verb is Verb.RETITLED else (),
            "a dialog that waits for an answer" if now is not None and now.waiting else "",
        )
        for position, (verb, was, now) in enumerate(found, 1)
    )
    ignored = tuple(
        Ignored(_in_words(rule), rule.reason, len(hit), tuple(dict.fromkeys(hit.values()))[:_EXAMPLES])
        for rule, hit in zip(rules, hits, strict=True)
    )
    rows = _WindowRows(WindowsState(tuple(old.values())), WindowsState(tuple(new.values())))
    warnings = tuple(_still(item, before=old.get(key)) for key, item in new.items() if item.hung or item.waiting)
    return Comparison(observable, changes, (), tuple(filter(None, warnings)), ignored, "by handle and process", rows)


def _still(item: WindowItem, before: WindowItem | None) -> str:
    """What a person should know of a window after the run although it is no change."""
    if item.hung:
        return f"the window “{_subject(item)}” does not answer"
    return f"the dialog “{_subject(item)}” waits for an answer, as before the run" if before is not None else ""


def _seen(state: WindowsState, rules: list[IgnoredWindow], hits: list[dict[tuple[int, int], str]]) -> list[WindowItem]:
    shown = []
    for item in state.items:
        row = cells(item)
        for rule, hit in zip(rules, hits, strict=True):
            wanted = {"title": rule.title, "class": rule.class_, "program": rule.program}
            if all(matcher is None or _fits(matcher, row[name], name) for name, matcher in wanted.items()):
                hit[item.handle, item.process] = item.title
                break
        else:
            shown.append(item)
    return shown


def _fits(matcher: Matcher, cell: Cell, name: str) -> bool:
    return matches(matcher, Subject(cell, field=name), _NO_RUN)


def _place(item: WindowItem | None) -> tuple[str, str, int]:
    assert item is not None
    return (item.title, item.class_name, item.handle)


def _subject(item: WindowItem | None) -> str:
    assert item is not None
    return item.title or f"(no title, class {item.class_name})"


def _in_words(rule: IgnoredWindow) -> str:
    named = {"title": rule.title, "class": rule.class_, "program": rule.program}
    return ", ".join(f"{name} {matcher}" for name, matcher in named.items() if matcher is not None)
