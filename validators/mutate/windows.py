"""Mutants of the windows: those that the task opens, and what is left open, closed or retitled beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from contracts.schema import Effect
from validators.changes import Change, Row, Verb
from validators.mutate.golden import Flaw, Golden, Mutant
from validators.snapshot import State
from validators.values import shown
from validators.windows import WindowItem, WindowsState, cells

_UNOBSERVED = "(windows)"
"""Stands for windows that nobody observes."""
_DIALOG = "#32770"
"""The class of Windows' own dialogs."""


def mutants_of_windows(golden: Golden) -> Iterator[Mutant]:
    """Every mutant of windows but those in which effects as a whole are missing."""
    screens = {name: state for name, state in golden.after.items() if isinstance(state, WindowsState)}
    for name, state in screens.items():
        for entry, effect in golden.expected:
            if entry.change.observable == name and entry.change.verb in (Verb.OPENED, Verb.RETITLED):
                yield from _expected(golden, state, entry.change, effect)
        yield from _beside(golden, name, state)
    if not screens:
        left = WindowsState((WindowItem(1, 1, "PROGRAM.EXE", _DIALOG, "Hinweis", waiting=True),))
        yield Mutant(
            Flaw.WINDOW_OPEN, "a dialog “Hinweis” was left open, and nobody looks", {**golden.after, _UNOBSERVED: left},
            golden.returned, "no windows are observed: dialogs may be left open", "observe them: `screen: {windows: {}}`",
        )  # fmt: skip


def _place(state: WindowsState, row: Row, before: WindowsState | None) -> int | None:
    """The place of the window that a change tells of."""
    old = {(item.handle, item.process, item.title) for item in (before.items if before is not None else ())}
    found = [at for at, item in enumerate(state.items) if cells(item) == row]
    new = [at for at in found if (item := state.items[at]) and (item.handle, item.process, item.title) not in old]
    return next(iter([*new, *found]), None)


def _expected(golden: Golden, state: WindowsState, change: Change, effect: Effect) -> Iterator[Mutant]:
    before = golden.before.get(change.observable)
    at = _place(state, change.after or {}, before if isinstance(before, WindowsState) else None)
    if at is None:
        return
    item, label = state.items[at], f"{effect.verb} {effect.observable}"
    variants = {
        "title": replace(item, title=f"{item.title} - anders"),
        "class": replace(item, class_name=f"{item.class_name}2"),
        "program": replace(item, program="ANDERES.EXE"),
        "hung": replace(item, hung=not item.hung),
        "waiting": replace(item, waiting=not item.waiting),
    }
    for field, other in variants.items():
        if field in effect.fields or field in effect.where or field == "title":
            yield Mutant(
                Flaw.WINDOW_WRONG, f"{change.observable}: {field} of the window “{shown(item.title, 80)}” is wrong",
                golden.with_states({change.observable: WindowsState((*state.items[:at], other, *state.items[at + 1 :]))}),
                golden.returned, f"`{label}` accepts windows with another {field}", f"add `{field}: …` to its `where`",
                effect.fields.get(field),
            )  # fmt: skip
    if change.verb is Verb.OPENED:
        twin = replace(item, handle=_free_handle(state))
        yield Mutant(
            Flaw.WINDOW_OPEN, f"{change.observable}: the window “{shown(item.title, 80)}” was opened twice",
            golden.with_states({change.observable: WindowsState((*state.items, twin))}), golden.returned,
            f"`{label}` claims more windows than one", "leave `count` out, or say how many windows the task opens",
        )  # fmt: skip


def _free_handle(state: WindowsState) -> int:
    return max((item.handle for item in state.items), default=0) + 2


def _beside(golden: Golden, name: str, state: WindowsState) -> Iterator[Mutant]:
    if name in golden.contract.observe:
        hole = f"windows of {name} that the task is not about may be opened and closed"
        advice = f"narrow the effects and ignore rules of {name} to the windows that are meant"
    else:
        hole = f"{name} is not observed: windows may be left open"
        advice = f"observe it: `{name}: {{windows: {{}}}}`"
    expected = [entry.change.after for entry, _ in golden.expected if entry.change.observable == name]
    others = [item for item in state.items if cells(item) not in expected]
    owner = state.items[0] if state.items else WindowItem(0, 1, "PROGRAM.EXE", "", "")
    handle = _free_handle(state)
    variants: Mapping[str, WindowItem] = {
        "a dialog “Hinweis” of the program was left open": WindowItem(
            handle, owner.process, owner.program, _DIALOG, "Hinweis", waiting=True
        ),
        "a window of another program was left open": WindowItem(
            handle, owner.process + 4, "NOTEPAD.EXE", "Notepad", "Unbenannt"
        ),
    }
    for words, item in variants.items():
        after = golden.with_states({name: WindowsState((item, *state.items))})
        yield Mutant(Flaw.WINDOW_OPEN, f"{name}: {words}", after, golden.returned, hole, advice)
    for item in others:
        rest = WindowsState(tuple(other for other in state.items if other is not item))
        title = shown(item.title, 80) or f"(no title, class {shown(item.class_name, 80)})"
        yield Mutant(
            Flaw.WINDOW_GONE, f"{name}: the window “{title}” was closed", golden.with_states({name: rest}), golden.returned,
            hole, advice,
        )  # fmt: skip
        changed = replace(item, title=f"{item.title} (geändert)")
        items = tuple(changed if other is item else other for other in state.items)
        yield Mutant(
            Flaw.WINDOW_GONE, f"{name}: the window “{title}” has another title", golden.with_states({name: WindowsState(items)}),
            golden.returned, hole, advice,
        )  # fmt: skip


def reverted_windows(golden: Golden, changes: Iterable[Change]) -> dict[str, State]:
    """The windows as if some of the changes had not happened; only those that differ."""
    states: dict[str, State] = {}
    for change in changes:
        now, was = (
            states.get(change.observable, golden.after.get(change.observable)),
            golden.before.get(change.observable),
        )
        if not (isinstance(now, WindowsState) and isinstance(was, WindowsState)):
            continue
        items = list(now.items)
        if change.after is not None and (at := _place(now, change.after, was)) is not None:
            del items[at]
        if change.before is not None and (at := _place(was, change.before, None)) is not None:
            items.append(was.items[at])
        states[change.observable] = WindowsState(tuple(items))
    return states
