"""What a contract's image looks like when a run begins, as the plain data that lint compares a contract with.

A machine is made, started and read once, exactly as before a run, and removed again; nothing is kept.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from contracts.lint_rules.base import Known, KnownTable
from contracts.schema import DbfTable, Observable, SqlTable, TaskContract
from runner import capture
from runner.machines.base import Checkpoint, Tag
from runner.stillness import Watcher, wait_until_quiet
from validators.changes import ContractFault, Unreadable
from validators.dbf import TableState, load_table
from validators.dbf.types import kind_of
from validators.files import TreeState
from validators.registry import RegistryState, key_path, value_path
from validators.snapshot import Snapshot, State, UnreadableState, compare
from validators.sql.form import Form
from validators.sql.table import SqlState, cell_of

CAMPAIGN = "lint"
"""What machines made for this are tagged with."""


def known_of(contract: TaskContract, checkpoint: Checkpoint) -> Known:
    """Makes a machine, reads the contract's observables once, and removes the machine.

    Args:
        contract: The contract.
        checkpoint: Its image with its set-up done.

    Raises:
        MachineError: The machine could not be made or broke.
        SetupError: A program that is to be started is unknown.
        GuestLost: The machine is gone.
    """
    return known_from(contract.observe, snapshot_of(contract, checkpoint))


def snapshot_of(contract: TaskContract, checkpoint: Checkpoint) -> Snapshot:
    """The state in which a run of the contract begins; raises as :func:`known_of`."""
    machine = checkpoint.clone(Tag(CAMPAIGN, f"{contract.id}-{secrets.token_hex(3)}"))
    try:
        machine.start(contract.initial_state.start)
        wait_until_quiet(Watcher(machine.guest, contract.observe), quiet=0.0, within=contract.limits.settle_within)
        return capture.take(machine.guest, contract.observe)
    finally:
        machine.discard()


def known_from(observe: Mapping[str, Observable], snapshot: Snapshot) -> Known:
    """A snapshot as plain data.

    Args:
        observe: The contract's observables.
        snapshot: Their states; one that is missing is left out.
    """
    tables: dict[str, KnownTable] = {}
    listings: dict[str, tuple[str, ...]] = {}
    absent: set[str] = set()
    unreadable: dict[str, str] = {}
    for name, spec in observe.items():
        match snapshot.get(name):
            case UnreadableState() as state:
                unreadable[name] = state.reason
            case TableState(dbf=None) | TreeState(exists=False) | RegistryState(exists=False) | SqlState(exists=False):
                absent.add(name)
            case (TableState() | SqlState()) as state if isinstance(spec, DbfTable | SqlTable):
                try:
                    tables[name] = _table(spec, state)
                except Unreadable as error:
                    unreadable[name] = error.reason
            case TreeState() as state:
                listings[name] = tuple(item.path for item in state.items)
            case RegistryState() as state:
                root = getattr(spec, "registry", "")
                keys = (key_path(key.path, root) for key in state.keys)
                listings[name] = (*keys, *(value_path(value.key, value.name) for value in state.values))
            case _:
                pass
    return Known(tables, listings, frozenset(absent), unreadable)


def _table(spec: DbfTable | SqlTable, state: TableState | SqlState) -> KnownTable:
    """A table that is there.

    Raises:
        Unreadable: It contradicts itself.
    """
    if isinstance(state, TableState):
        table = load_table(state, spec.encoding if isinstance(spec, DbfTable) else None)
        fields = {field.name: str(kind_of(field, table.dialect)) for field in table.fields}
        key: tuple[str, ...] = ()
    else:
        # A value of an SQLite column tells its own kind: nothing can be said of the column.
        fields = {c.name: "" if c.form is Form.DYNAMIC else str(cell_of(c.form, None).kind) for c in state.columns}
        key = state.keys[0].columns if state.keys else ()
    return KnownTable(fields, key, _fault(spec, state) if set(spec.key) <= fields.keys() else "")


def _fault(spec: DbfTable | SqlTable, state: State) -> str:
    """Why the declared key cannot be applied: comparing a state with itself finds that, as before every run."""
    if not spec.key:
        return ""
    plain = spec.model_copy(update={"ignore": []}) if isinstance(spec, SqlTable) else spec
    try:
        compare({"it": plain}, {"it": state}, {"it": state})
    except ContractFault as error:
        return error.reason.removeprefix("it: ")
    except Unreadable as error:
        raise Unreadable(error.reason.removeprefix("it: ")) from None
    return ""
