"""Reading the state of a machine through its guest: from a contract's observables to a snapshot.

Nothing here changes anything in the guest. A table is taken when two readings of it in a row are equal; a tree's files are
hashed only where something in the listing differs from an earlier snapshot, unless the tree is small enough to hash it all or the
contract wants it (``verify: full``). Of the files that look unchanged a share is picked by chance and read all the same, so that a
program that puts times back is found out; then everything is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PureWindowsPath

from contracts.globs import compile_glob, fold
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
from runner.guests.base import Guest, GuestNotFound, Unreadable
from runner.guests.probe import FileEntry, ProbeResult
from runner.guests.registry import read_registry
from runner.guests.timed import Deadline, TimedGuest
from runner.own_files import is_ours
from runner.sql.snapshot import read_tables
from validators.changes import Verb
from validators.dbf import MemoKind, TableState, is_owned
from validators.files import FileItem, Sample, TreeState
from validators.snapshot import Snapshot, State, UnreadableState
from validators.windows import WindowItem, WindowsState

MAX_TABLE = 2 << 30
"""The largest table or memo file that is read, in bytes (the format itself ends at 2 GiB for most programs)."""
MAX_CONTENT = 16 << 20
"""The largest file whose content is kept as evidence, in bytes."""
MAX_CONTENTS = 200
"""How many changed files' contents are kept."""
HASH_ALL = 32 << 20
"""A tree up to this many bytes is hashed whole each time, so that a program that puts a file's time back is still seen."""
SAMPLE_FILES = 1_000
"""How many files that look unchanged are read at most to be sure of it."""
SAMPLE_BYTES = 64 << 20
"""How many bytes of them."""
_ROOTS_AT_ONCE = 100
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


def read_tree(guest: Guest, spec: FileTree, earlier: TreeState | None, *, seed: str = "") -> TreeState:
    """Lists a tree and hashes what may have changed, and a sample of the rest.

    Args:
        guest: The way into the machine.
        spec: The observable.
        earlier: The tree as it was, with the hashes that are still good where nothing in the listing differs.
        seed: What the sample is picked by.

    Raises:
        Unreadable: The listing is not whole, or a file went away while it was read.
        GuestLost: The machine is gone.
    """
    listing = guest.probe("files", "--streams", spec.files, timeout=120.0)
    if not _root_exists(listing, spec):
        return TreeState(exists=False)
    entries = _entries(listing, spec)
    whole = spec.verify == "full" or sum(entry.size for entry in entries) <= HASH_ALL
    known = {item.path: item for item in earlier.items} if earlier is not None and not whole else {}
    items = [_item(entry, known.get(entry.path)) for entry in entries]
    try:
        looked, sample = _sample(guest, spec, items, seed) if known else ({}, None)
        if sample is not None and sample.differed:
            items = [_item(entry, None) for entry in entries]
        hashes = looked | _hash(guest, spec.files, _unhashed(items, looked))
        streams = _hash_streams(guest, spec.files, [item.path for item in items if item.streams and not item.sha256])
    except GuestNotFound as error:
        raise Unreadable(f"{error} went away while the tree was read") from None
    done = (
        item
        if item.kind != "file" or item.sha256
        else replace(item, sha256=hashes.get(item.path), streams_sha256=streams.get(item.path, ""))
        for item in items
    )
    return TreeState(True, tuple(done), sample=sample)


def list_tree(guest: Guest, spec: FileTree) -> TreeState:
    """A tree without the contents of its files.

    Raises:
        Unreadable: The listing is not whole.
        GuestLost: The machine is gone.
    """
    listing = guest.probe("files", spec.files, timeout=120.0)
    if not _root_exists(listing, spec):
        return TreeState(exists=False)
    return TreeState(True, tuple(_item(entry, None) for entry in _entries(listing, spec)))


def _entries(listing: ProbeResult, spec: FileTree) -> list[FileEntry]:
    return [entry for entry in listing.files if entry.path and not is_ours(PureWindowsPath(spec.files, entry.path))]


def _item(entry: FileEntry, was: FileItem | None) -> FileItem:
    """An entry, with its hashes where the earlier one looks the same; then it is the earlier item itself."""
    streams = tuple((stream.name, stream.size) for stream in entry.streams) if entry.streams else ()
    if (
        was is not None
        and was.sha256 is not None
        and not entry.listed  # the listing of a file that is open may lag behind
        and (was.size, was.mtime, was.attributes, was.kind, was.streams, was.short)
        == (entry.size, entry.mtime, entry.attr, entry.kind, streams, entry.short or "")
    ):
        return was
    return FileItem(entry.path, entry.kind, entry.size, entry.mtime, entry.attr, None, streams, entry.short or "")


def _unhashed(items: Iterable[FileItem], looked: Mapping[str, str]) -> Iterator[str]:
    return (item.path for item in items if item.kind == "file" and not item.sha256 and item.path not in looked)


def _sample(guest: Guest, spec: FileTree, items: Sequence[FileItem], seed: str) -> tuple[dict[str, str], Sample | None]:
    """Reads some of the files whose hashes were taken over.

    Returns:
        Their hashes as they are now, and what they show; ``None`` if no file was taken over or none is to be read.
    """
    taken_over = sorted((item for item in items if item.sha256), key=lambda item: item.path)
    count = min(SAMPLE_FILES, math.ceil(len(taken_over) * spec.sample))
    if not count:
        return {}, None
    chosen = []
    left = SAMPLE_BYTES
    for item in random.Random(f"{seed}\0{spec.files}").sample(taken_over, count):  # noqa: S311 - picks files, keeps no secret
        if item.size <= left:
            chosen.append(item)
            left -= item.size
    now = _hash(guest, spec.files, (item.path for item in chosen))
    differed = tuple(sorted(item.path for item in chosen if now.get(item.path, item.sha256) != item.sha256))
    return now, Sample(len(now), len(taken_over), differed)


def _hash_streams(guest: Guest, root: str, paths: Sequence[str]) -> dict[str, str]:
    """One hash over all alternate streams of each of those files whose streams can be read."""
    hashes: dict[str, str] = {}
    for start in range(0, len(paths), _ROOTS_AT_ONCE):
        some = paths[start : start + _ROOTS_AT_ONCE]
        with contextlib.suppress(Unreadable, ValueError):  # compared by name and size then, with a warning
            answer = guest.probe("files", "--hash", "--streams", *(f"{root}\\{path}" for path in some), timeout=120.0)
            for entry in answer.files:
                streams = [(stream.name, stream.size, stream.sha256) for stream in entry.streams or ()]
                if not entry.path and streams and all(known for _, _, known in streams):
                    hashes[some[entry.root]] = hashlib.sha256(repr(sorted(streams)).encode()).hexdigest()
    return hashes


def _root_exists(listing: ProbeResult, spec: FileTree) -> bool:
    found = listing.roots[0] if len(listing.roots) == 1 else None
    if found is None or found.exists is None:
        why = f": {listing.faults[0].message}" if listing.faults else ""
        raise Unreadable(f"{spec.files}: the probe could not tell whether it exists{why}")
    if found.exists and found.type != "dir":
        raise Unreadable(f"{spec.files} is a {found.type}, not a folder")
    ignored = [compile_glob(rule.path) for rule in spec.ignore]
    for fault in listing.faults:
        inside = _relative(fault.path, spec.files)
        if inside is None or not any(fits(inside) for fits in ignored):
            raise Unreadable(f"{fault.path or spec.files}: {fault.message} (code {fault.code}, while doing {fault.op})")
    return found.exists


def _relative(path: str, root: str) -> str | None:
    """The path below the root; ``None`` for the root itself and for what lies elsewhere."""
    start = fold(root).rstrip("\\") + "\\"
    return path[len(start) :] if fold(path).startswith(start) and len(path) > len(start) else None


def _hash(guest: Guest, root: str, paths: Iterable[str]) -> dict[str, str]:
    """SHA-256 of those files that can be read, by path relative to the root."""
    hashes = {}
    for path in paths:
        # One file that cannot be read does not make the tree unreadable: whether it matters, the comparison decides.
        with contextlib.suppress(Unreadable):
            hashes[path] = hashlib.sha256(guest.read(PureWindowsPath(root, path), limit=MAX_TABLE)).hexdigest()
    return hashes


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
