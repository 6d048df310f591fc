"""A snapshot: the state of every observable at one moment, and how two of them become changes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ntpath import splitext

from contracts.schema import DbfTable, FileTree, Observable, RegistryKey, SqlTable, Windows
from validators.changes import Comparison, ContractFault, Unreadable, Verb
from validators.dbf import MEMO_EXTENSIONS, KeyIndex, TableState, diff_tables, is_owned, load_table
from validators.files import TreeState, diff_trees
from validators.registry import RegistryState, diff_registry
from validators.sql.diff import diff_sql
from validators.sql.table import SqlState
from validators.windows import WindowsState, diff_windows


@dataclass(frozen=True, slots=True)
class UnreadableState:
    """An observable that could not be read, with the reason."""

    reason: str


State = TableState | TreeState | WindowsState | RegistryState | SqlState | UnreadableState
Snapshot = Mapping[str, State]
"""Observable's name to its state."""


def compare(
    observe: Mapping[str, Observable],
    before: Snapshot,
    after: Snapshot,
    *,
    indexes: Mapping[str, KeyIndex] | None = None,
) -> tuple[Comparison, ...]:
    """Everything that happened between two snapshots, per observable in the contract's order.

    Args:
        observe: The contract's observables.
        before: The state before the run.
        after: The state after it.
        indexes: Keys of before-states that were indexed already, by observable; a large table's index is worth keeping.

    Raises:
        Unreadable: A state is missing, unreadable, or contradicts itself; the message names the observable.
        ContractFault: The contract does not fit the state.
    """
    tables = [
        (spec, _memo_read(spec, before.get(name), after.get(name)))
        for name, spec in observe.items()
        if isinstance(spec, DbfTable)
    ]

    def owned(path: str, verb: Verb) -> bool:
        # A table tells its rows: not attributes, and not a memo file that it does not read.
        extension = splitext(path)[1].lower()
        return verb is not Verb.ATTRIBUTES and any(
            is_owned(spec, path, verb) and (extension not in MEMO_EXTENSIONS or extension in memos)
            for spec, memos in tables
        )

    found = []
    for name, spec in observe.items():
        try:
            match spec, _state(before, name, "before"), _state(after, name, "after"):
                case DbfTable(), TableState() as was, TableState() as now:
                    found.append(diff_tables(was, now, spec, observable=name, index=(indexes or {}).get(name)))
                case FileTree(), TreeState() as was, TreeState() as now:
                    found.append(diff_trees(was, now, spec, observable=name, owned=owned))
                case Windows(), WindowsState() as was, WindowsState() as now:
                    found.append(diff_windows(was, now, spec, observable=name))
                case RegistryKey(), RegistryState() as was, RegistryState() as now:
                    found.append(diff_registry(was, now, spec, observable=name))
                case SqlTable(), SqlState() as was, SqlState() as now:
                    found.append(diff_sql(was, now, spec, observable=name))
                case _:
                    raise Unreadable("the snapshots are not of the kind that the contract observes")
        except Unreadable as error:
            raise Unreadable(f"{name}: {error.reason}") from None
        except ContractFault as error:
            raise ContractFault(f"{name}: {error.reason}") from None
    return tuple(found)


def _memo_read(spec: DbfTable, *states: State | None) -> set[str]:
    """Extensions of the memo files whose contents the table tells: those read with it, if it has memo fields at all."""
    found = set()
    for state in states:
        if isinstance(state, TableState) and state.dbf is not None and state.memo_kind is not None:
            with suppress(Unreadable, ContractFault):  # told where the table is compared
                if load_table(state, spec.encoding).memo_fields:
                    found.add(f".{state.memo_kind}")
    return found


def _state(snapshot: Snapshot, name: str, when: str) -> State:
    state = snapshot.get(name)
    if state is None:
        raise Unreadable(f"the snapshot {when} the run does not hold it")
    if isinstance(state, UnreadableState):
        raise Unreadable(f"{when} the run: {state.reason}")
    return state
