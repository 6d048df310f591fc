"""The catalogue of mutants: what can be bad about the state after a run."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence

from validators.changes import Change
from validators.dbf import TableState
from validators.files import TreeState
from validators.mutate.golden import Flaw, Golden, Mutant
from validators.mutate.registry import mutants_of_registry, reverted_registry
from validators.mutate.returned import mutants_of_returned
from validators.mutate.tables import mutants_of_tables, reverted_tables
from validators.mutate.trees import mutants_of_trees, reverted_trees
from validators.mutate.windows import mutants_of_windows, reverted_windows
from validators.snapshot import Snapshot, State
from validators.sql.table import SqlState
from validators.values import shown


def mutants(golden: Golden) -> Iterator[Mutant]:
    """Every mutant of a good run, each once; none means the same as the run itself.

    Raises:
        Unreadable: A recorded state contradicts itself.
        ContractFault: The contract does not fit the states.
    """
    seen: set[Hashable] = {_fingerprint(golden, golden.after, golden.returned)}
    for mutant in _all(golden):
        fingerprint = _fingerprint(golden, mutant.after, mutant.returned)
        if fingerprint not in seen:
            seen.add(fingerprint)
            yield mutant


def _all(golden: Golden) -> Iterator[Mutant]:
    yield from _missing(golden)
    yield from mutants_of_tables(golden)
    yield from mutants_of_trees(golden)
    yield from mutants_of_windows(golden)
    yield from mutants_of_registry(golden)
    yield from mutants_of_returned(golden)


def _missing(golden: Golden) -> Iterator[Mutant]:
    """States in which expected effects did not happen: all, half, or one of them."""
    changes = [entry.change for entry, _ in golden.expected]
    if not changes:
        return
    yield Mutant(
        Flaw.NOTHING, "nothing was done, and everything looks as before", _reverted(golden, changes), golden.returned,
        "success needs no effect at all", "write what the task brings about under `expect`",
    )  # fmt: skip
    for entry, effect in golden.expected:
        label = f"{effect.verb} {effect.observable}" + (f" ({effect.name})" if effect.name else "")
        yield Mutant(
            Flaw.ROW_MISSING, f"{entry.change.observable}: {shown(entry.change.subject)} was not {entry.change.verb}",
            _reverted(golden, [entry.change]), golden.returned, f"`{label}` is not needed for success",
            "put it under `expect`, without `count: {min: 0}`",
        )  # fmt: skip
    half = len(changes) // 2
    for part, which in ((changes[:half], "first"), (changes[half:], "second")) if half else ():
        yield Mutant(
            Flaw.HALF, f"the {which} half of the effects did not happen", _reverted(golden, part), golden.returned,
            "half of the effects are enough for success", "write every effect of the task under `expect`",
        )  # fmt: skip


def _reverted(golden: Golden, changes: Sequence[Change]) -> Snapshot:
    states: dict[str, State] = {}
    for revert in (reverted_tables, reverted_windows, reverted_registry):
        states |= revert(golden, changes)
    after = golden.with_states(states)
    # A tree lists the tables' files as they are now; what the trees themselves take back comes on top.
    trees = {name: state for name, state in reverted_trees(golden, changes).items() if name not in states}
    return {**after, **{name: _merged(after[name], golden.after[name], tree) for name, tree in trees.items()}}


def _merged(listed: State, was: State, reverted: State) -> State:
    """A tree with the entries that tables changed, and those that were taken back."""
    if not (isinstance(listed, TreeState) and isinstance(was, TreeState) and isinstance(reverted, TreeState)):
        return reverted
    old = {item.path: item for item in was.items}
    tables = {item.path: item for item in listed.items if old.get(item.path) != item}
    items = tuple(tables.get(item.path, item) for item in reverted.items)
    return TreeState(reverted.exists, items, reverted.contents, reverted.missing, reverted.sample)


def _fingerprint(golden: Golden, after: Snapshot, returned: object) -> Hashable:
    changed = tuple((name, _of(state)) for name, state in sorted(after.items()) if state is not golden.after.get(name))
    return changed, repr(returned)


def _of(state: State) -> Hashable:
    """Something that is equal for equal states and small."""
    match state:
        case TableState():
            return tuple(None if data is None else hashlib.sha256(data).digest() for data in (state.dbf, state.memo))
        case SqlState():
            return hashlib.sha256(state.rows).digest()
        case TreeState():
            return frozenset((item.path, item.size, item.attributes, item.sha256) for item in state.items)
        case _:
            return repr(state)
