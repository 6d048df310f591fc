"""The files of the audit: those that changed and that no observable looks at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING

from contracts.globs import compile_glob
from contracts.schema import DbfTable, FileTree, Observable
from runner.guests.base import is_below
from runner.own_files import is_ours
from runner.record import BlindSpots, DiskFile
from validators.changes import Verb
from validators.dbf import is_owned

if TYPE_CHECKING:
    from runner.offline.changes import DiskChange

MAX_LISTED = 500
"""How many files outside of the observables are listed; all are counted."""


def sort_changes(changed: Iterable[DiskChange], observe: Mapping[str, Observable], *, how: str) -> BlindSpots:
    r"""Tells apart what is observed, what is the system's own book-keeping, and what nothing looks at.

    The runner's own files are left out; folders whose times follow from a change within them, too.

    Args:
        changed: What differs between checkpoint and machine.
        observe: The contract's observables. What an ``ignore`` rule takes out of sight is not observed.
        how: How the state got to the disk.
    """
    observed = system = 0
    outside: list[DiskFile] = []
    for change in changed:
        if all(map(is_ours, _places(change))) or change.noise == "directory":
            continue
        if change.noise:
            system += 1
        elif all(any(_looks_at(spec, place, change) for spec in observe.values()) for place in _places(change)):
            observed += 1
        else:
            outside.append(
                DiskFile(
                    path=change.path, kind=change.kind, what=list(change.what), old_path=change.old_path or None,
                    size=change.size, stream=change.stream or None,
                )
            )  # fmt: skip
    outside.sort(key=lambda file: (file.path.casefold(), file.stream or ""))
    left_out = max(0, len(outside) - MAX_LISTED)
    return BlindSpots(how=how, observed=observed, system=system, files=outside[:MAX_LISTED], left_out=left_out)


def _places(change: DiskChange) -> list[PureWindowsPath]:
    """Where it is and where it was: what moves from elsewhere into sight is lost elsewhere."""
    return [PureWindowsPath(place) for place in (change.path, change.old_path) if place]


def _looks_at(spec: Observable, path: PureWindowsPath, change: DiskChange) -> bool:
    if isinstance(spec, DbfTable):  # its rows, and whether it is there
        return (
            is_owned(spec, str(path), Verb.MODIFIED)
            and not change.stream
            and set(change.what) <= {"data", "name", "times"}
        )
    if not isinstance(spec, FileTree):
        return False
    root = PureWindowsPath(spec.files)
    if not is_below(path, [root]):
        return False
    inside = str(path.relative_to(root))
    return not any(compile_glob(rule.path)(inside) for rule in spec.ignore)
