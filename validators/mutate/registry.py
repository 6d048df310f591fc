"""Mutants of the registry: the entries that the task writes, and entries added, changed or removed beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from contracts.schema import Effect
from validators.changes import Change
from validators.mutate.golden import Flaw, Golden, Mutant
from validators.mutate.rows import flipped
from validators.registry import (
    DWORD,
    EXPAND_SZ,
    MULTI_SZ,
    SZ,
    KeyItem,
    RegistryState,
    ValueItem,
    data_cell,
    key_path,
    value_path,
)
from validators.snapshot import State
from validators.values import shown

_NEW = "Neu"
_MOST_VALUES = 40
_TEXTS = frozenset({SZ, EXPAND_SZ, MULTI_SZ})
_EMPTY = b"\0\0"
"""A string of no characters, with its terminator."""


def mutants_of_registry(golden: Golden) -> Iterator[Mutant]:
    """Every mutant of registry keys but those in which effects as a whole are missing."""
    for name, state in golden.after.items():
        if isinstance(state, RegistryState) and state.exists:
            for entry, effect in golden.expected:
                if entry.change.observable == name and entry.change.after is not None:
                    yield from _expected(golden, state, entry.change, effect)
            yield from _beside(golden, name, state)


def _with(
    golden: Golden, name: str, state: RegistryState, old: ValueItem | None, new: ValueItem | None
) -> dict[str, State]:
    values = [item for item in state.values if item is not old]
    if new is not None:
        values.append(new)
    return golden.with_states({name: replace(state, values=tuple(values))})


def _others(golden: Golden, item: ValueItem) -> Iterator[tuple[str, ValueItem]]:
    """The value with other data, none, or another type; each readable and another value."""
    now = data_cell(item.type, item.data)
    for data in flipped(item.data):
        cell = data_cell(item.type, data)
        if cell.state is now.state and not cell.same_value(now) and not golden.is_as_right(now, cell):
            yield "holds other data", replace(item, data=data)
            break
    if item.type in _TEXTS and item.data.strip(b"\0"):
        yield "is empty", replace(item, data=_EMPTY)
    other = (SZ, _EMPTY) if item.type == DWORD else (DWORD, b"\1\0\0\0")
    yield "has another type", replace(item, type=other[0], data=other[1])


def _expected(golden: Golden, state: RegistryState, change: Change, effect: Effect) -> Iterator[Mutant]:
    label = f"{effect.verb} {effect.observable}"
    for item in state.values:
        if value_path(item.key, item.name) == change.subject:
            for words, other in _others(golden, item):
                yield Mutant(
                    Flaw.REGISTRY_WRONG, f"{change.observable}: {shown(change.subject, 80)} {words}",
                    _with(golden, change.observable, state, item, other), golden.returned,
                    f"`{label}` says too little about what {shown(change.subject, 80)} holds",
                    "add `fields: {type: …, data: …}`",
                    effect.fields.get("type" if words == "has another type" else "data"),
                )  # fmt: skip


def _beside(golden: Golden, name: str, state: RegistryState) -> Iterator[Mutant]:
    if name in golden.contract.observe:
        hole = f"entries of {name} that the task is not about may come, change and go"
        advice = f"narrow the effects and ignore rules of {name} to the entries that are meant"
    else:
        hole = f"{name} is not observed: entries of the registry there may come, change and go"
        advice = f"observe it: `{name}: {{registry: '…'}}`"

    def made(words: str, after: dict[str, State]) -> Mutant:
        return Mutant(Flaw.REGISTRY, f"{name}: {words}", after, golden.returned, hole, advice)

    value = ValueItem("", _NEW, DWORD, b"\1\0\0\0")
    if all((item.key, item.name) != ("", _NEW) for item in state.values):
        yield made(f"a value {_NEW} was added", _with(golden, name, state, None, value))
    if all(key.path != _NEW for key in state.keys):
        keys = (*state.keys, KeyItem(_NEW))
        yield made(f"a key {_NEW} was added", golden.with_states({name: replace(state, keys=keys)}))
    meant = {entry.change.subject for entry, _ in golden.expected if entry.change.observable == name}
    values = [item for item in state.values if value_path(item.key, item.name) not in meant]
    for item in sorted(values, key=lambda item: item.names)[:_MOST_VALUES]:
        path = shown(value_path(item.key, item.name), 80)
        for words, other in _others(golden, item):
            yield made(f"{path} {words}", _with(golden, name, state, item, other))
        yield made(f"{path} was removed", _with(golden, name, state, item, None))


def reverted_registry(golden: Golden, changes: Iterable[Change]) -> dict[str, State]:
    """The keys as if some of the changes had not happened; only those that differ."""
    states: dict[str, State] = {}
    for change in changes:
        now, was = (
            states.get(change.observable, golden.after.get(change.observable)),
            golden.before.get(change.observable),
        )
        if not (isinstance(now, RegistryState) and isinstance(was, RegistryState)):
            continue
        root = str(getattr(golden.contract.observe.get(change.observable), "registry", ""))

        def kept(items: Iterable[KeyItem | ValueItem], subject: str, root: str) -> list[KeyItem | ValueItem]:
            return [item for item in items if _subject(item, root) != subject]

        def again(items: Iterable[KeyItem | ValueItem], subject: str, root: str) -> list[KeyItem | ValueItem]:
            return [item for item in items if _subject(item, root) == subject]

        subject = change.subject
        old = str(change.before["path"].value) if change.before is not None else None
        both = [*kept((*now.keys, *now.values), subject, root)]
        both += again((*was.keys, *was.values), old, root) if old is not None else []
        states[change.observable] = replace(
            now,
            keys=tuple(item for item in both if isinstance(item, KeyItem)),
            values=tuple(item for item in both if isinstance(item, ValueItem)),
        )
    return states


def _subject(item: KeyItem | ValueItem, root: str) -> str:
    return key_path(item.path, root) if isinstance(item, KeyItem) else value_path(item.key, item.name)
