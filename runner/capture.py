"""Reading the state of a machine through its guest: from a contract's observables to a snapshot.

Nothing here changes anything in the guest. A table is taken when two readings of it in a row are equal; how a tree is read stands in
:mod:`runner.capture_trees`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PureWindowsPath

from contracts.globs import compile_glob
from contracts.schema import (
    Computed,
    DbfTable,
    Effect,
    FileTree,
    FileValue,
    Observable,
    RegistryKey,
    SqlTable,
    TaskContract,
    Windows,
)
from runner.capture_trees import list_tree, read_tree
from runner.guests.base import Guest, GuestNotFound, Unreadable
from runner.guests.registry import read_registry
from runner.guests.timed import Deadline, TimedGuest
from runner.sql.snapshot import read_tables
from validators.changes import Verb
from validators.dbf import MemoKind, TableState, is_owned
from validators.files import TreeState
from validators.snapshot import Snapshot, State, UnreadableState
from validators.windows import WindowItem, WindowsState

MAX_TABLE = 2 << 30
"""The largest table or memo file that is read, in bytes (the format itself ends at 2 GiB for most programs)."""
MAX_CONTENT = 16 << 20
"""The largest file whose content is kept as evidence, in bytes."""
MAX_CONTENTS = 200
"""How many changed files' contents are kept."""
_FOXPRO = {b"\x30", b"\x31", b"\x32", b"\xf5", b"\xfb"}
STABLE_WITHIN = 5.0
"""Seconds that a table is given to be equal in two readings in a row."""


def take(
    guest: Guest,
    observe: Mapping[str, Observable],
    *,
    earlier: Snapshot | None = None,
    seed: str = "",
    contents: bool = True,
    deadline: Deadline | None = None,
) -> Snapshot:
    """Reads every observable.

    Args:
        guest: The way into the machine.
        observe: The contract's observables.
        earlier: A snapshot of the same machine, or of the checkpoint that it was cloned from.
        seed: What the samples of large trees are picked by, such as the run's name: nobody in the guest knows it.
        contents: Whether files of trees are read and tables twice; without them it is a look that only the next look can confirm.
        deadline: When everything must have been read; what is left then is unreadable.

    Returns:
        A state for each observable; what could not be read is an :class:`UnreadableState`.

    Raises:
        GuestLost: The machine is gone.
    """
    states: dict[str, State] = {}
    guest = guest if deadline is None else TimedGuest(guest, deadline)
    for name, spec in observe.items():
        if isinstance(spec, SqlTable):
            continue  # read below, all tables of a source together
        try:
            states[name] = _read(guest, spec, (earlier or {}).get(name), seed) if contents else _look_at(guest, spec)
        except Unreadable as error:
            states[name] = UnreadableState(error.reason)
    tables = {name: spec for name, spec in observe.items() if isinstance(spec, SqlTable)}
    return states | read_tables(tables, deadline=deadline)


def _look_at(guest: Guest, spec: DbfTable | FileTree | Windows | RegistryKey) -> State:
    match spec:
        case DbfTable():
            return _read_once(guest, spec)
        case FileTree():
            return list_tree(guest, spec)
        case _:
            return _read(guest, spec, None, "")


def _read(guest: Guest, spec: DbfTable | FileTree | Windows | RegistryKey, earlier: State | None, seed: str) -> State:
    match spec:
        case DbfTable():
            return read_table(guest, spec)
        case FileTree():
            return read_tree(guest, spec, earlier if isinstance(earlier, TreeState) else None, seed=seed)
        case Windows():
            return read_windows(guest)
        case RegistryKey():
            return read_registry(guest, spec, within=STABLE_WITHIN)


def read_table(guest: Guest, spec: DbfTable, *, within: float = STABLE_WITHIN) -> TableState:
    """Reads a table and its memo file until two readings in a row are equal.

    Raises:
        Unreadable: It kept changing for ``within`` seconds, or cannot be read.
        GuestLost: The machine is gone.
    """
    deadline = time.monotonic() + within
    last = _read_once(guest, spec)
    while True:
        time.sleep(0.01)
        now = _read_once(guest, spec)
        if (now.dbf, now.memo) == (last.dbf, last.memo):
            return now
        if time.monotonic() >= deadline:
            raise Unreadable(f"{spec.dbf} was being written: no two readings in a row were equal within {within:g} s")
        last = now


def _read_once(guest: Guest, spec: DbfTable) -> TableState:
    path = PureWindowsPath(spec.dbf)
    table = _read_or_none(guest, path)
    for kind in _memo_kinds(table) if table is not None else ():
        memo = _read_or_none(guest, path.with_suffix(f".{kind}"))
        if memo is not None:
            return TableState(table, memo, kind, path.name)
    return TableState(table, None, None, path.name)


def _memo_kinds(table: bytes) -> tuple[MemoKind, ...]:
    """Extensions of the memo file that goes with a table, by its version byte; a stray file of the other kind is not it."""
    return ("fpt",) if table[:1] in _FOXPRO else ("dbt", "fpt")


def _read_or_none(guest: Guest, path: PureWindowsPath) -> bytes | None:
    try:
        return guest.read(path, limit=MAX_TABLE)
    except GuestNotFound:
        return None


def read_windows(guest: Guest) -> WindowsState:
    """The visible top-level windows.

    Raises:
        Unreadable: They could not be listed, or the probe does not see the user's desktop.
        GuestLost: The machine is gone.
    """
    answer = guest.probe("windows", timeout=15.0)
    if answer.header.blindness is not None:
        raise Unreadable(answer.header.blindness)
    if not answer.windows:  # a desktop always has some, if only hidden ones: without a display Wine lists none
        raise Unreadable("the probe listed no window at all, not even the desktop's own")
    return WindowsState(
        tuple(
            WindowItem(
                window.hwnd, window.pid, window.exe or "", window.class_name, window.title, window.hung,
                window.modal and window.owner != 0,
            )
            for window in answer.windows
            if window.visible
        )
    )  # fmt: skip


def contents_of_changed(guest: Guest, contract: TaskContract, before: Snapshot, after: Snapshot) -> Snapshot:
    """The after-snapshot with the contents of files that are new or changed, as evidence and for effects that look at them.

    Files that an effect's ``content`` or a returned value's ``file`` speaks of come first, the latter whether changed or not;
    files of observed tables are evidence already.

    Raises:
        GuestLost: The machine is gone.
    """
    tables = [spec for spec in contract.observe.values() if isinstance(spec, DbfTable)]
    effects = [*contract.effects.expect, *contract.effects.allow, *contract.effects.forbid]
    result = dict(after)
    for name, spec in contract.observe.items():
        was, now = before.get(name), after.get(name)
        if not (isinstance(spec, FileTree) and isinstance(now, TreeState)):
            continue
        old = {item.path: item for item in was.items} if isinstance(was, TreeState) else {}
        returned = _returned(contract, name)
        changed = [
            item
            for item in now.items
            if item.kind == "file"
            and (
                item.path not in old or old[item.path].sha256 != item.sha256 or any(fit(item.path) for fit in returned)
            )
            and not any(is_owned(table, f"{spec.files}\\{item.path}", Verb.MODIFIED) for table in tables)
        ]
        fits = [compile_glob(effect.path) for effect in effects if _looks_inside(effect, name) and effect.path]
        fits += returned
        changed.sort(key=lambda item: (not any(fit(item.path) for fit in fits), item.path))
        contents: dict[str, bytes] = {}
        missing: dict[str, str] = {}
        for number, item in enumerate(changed):
            if number >= MAX_CONTENTS:
                missing[item.path] = f"more than {MAX_CONTENTS} files changed"
                continue
            try:
                data = guest.read(PureWindowsPath(spec.files, item.path), limit=MAX_CONTENT)
            except (Unreadable, GuestNotFound) as error:
                missing[item.path] = str(error)
                continue
            if hashlib.sha256(data).hexdigest() == item.sha256:
                contents[item.path] = data
            else:
                missing[item.path] = f"{item.path}: it changed again after the snapshot"
        result[name] = replace(now, contents=contents, missing=missing)
    return result


def _returned(contract: TaskContract, tree: str) -> list[Callable[[str], bool]]:
    """Patterns of the files of a tree from which returned values are expected."""
    pending: list[object] = list(contract.returns.expect.values()) if contract.returns is not None else []
    found = []
    while pending:
        rule = pending.pop()
        if isinstance(rule, Computed):
            pending += rule.terms
        elif isinstance(rule, FileValue) and rule.file == tree:
            found.append(compile_glob(rule.path))
    return found


def _looks_inside(effect: Effect, observable: str) -> bool:
    return effect.content is not None and effect.observable == observable
