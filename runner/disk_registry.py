"""What changed in the registry of a machine whose disk is read: its hive files then and now, as they lie there.

Only hives whose files differ are read. A hive that was not written out whole, as the hives of a running Windows are most of the time, is
told not to have been compared, and so is one that is damaged; the others are told all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PureWindowsPath

from contracts.globs import fold
from runner.changed_keys import KeyChange, KeyChanges, compare_states
from runner.guests.base import Guest, GuestNotFound, Unreadable
from runner.hives import read_hive
from runner.offline.changes import DiskChange
from validators.registry import RegistryState, folded_name

MAX_HIVE = 256 << 20
"""The largest hive that is compared, in bytes."""
_CONFIG = r"C:\Windows\System32\config"
_OF_THE_MACHINE = {
    fold(rf"{_CONFIG}\{name}"): root
    for name, root in (
        ("SOFTWARE", r"HKLM\SOFTWARE"), ("SYSTEM", r"HKLM\SYSTEM"), ("SAM", r"HKLM\SAM"), ("SECURITY", r"HKLM\SECURITY"),
        ("DEFAULT", r"HKU\.DEFAULT"),
    )
}  # fmt: skip
_OF_A_USER = {
    fold("NTUSER.DAT"): "HKCU",
    fold(r"AppData\Local\Microsoft\Windows\UsrClass.dat"): r"HKCU\Software\Classes",
}
_PROFILES = fold("C:\\Users\\")


def changed_keys(before: Guest, after: Guest, changed: Iterable[DiskChange], *, at_rest: bool) -> KeyChanges:
    """The keys that differ.

    Args:
        before: Reads the earlier disk.
        after: Reads the later one.
        changed: What differs between them.
        at_rest: Whether the machine was shut down, so that its system has written everything.

    Raises:
        Unreadable: The disk holds no registry.
    """
    if after.probe("files", rf"{_CONFIG}\SYSTEM").roots[0].exists is not True:
        raise Unreadable("its disks hold no hives, so this machine keeps its registry elsewhere (Wine does)")
    found: list[KeyChange] = []
    unread: list[str] = []
    for path, root in sorted(_hives(changed)):
        try:
            found += _compared(_state(before, path, root, "before"), _state(after, path, root, "after"), root)
        except Unreadable as error:
            unread.append(f"{root} ({path}): {error.reason}")
    how = "" if at_rest else "as its hives lay on the disk: what the system had not written yet is not in them"
    return KeyChanges(tuple(found), tuple(unread), how)


def _hives(changed: Iterable[DiskChange]) -> Iterator[tuple[str, str]]:
    """Paths of the hives whose files changed, and the keys that they hold."""
    for change in changed:
        folded = fold(change.path)
        root = _OF_THE_MACHINE.get(folded)
        if root is None and folded.startswith(_PROFILES):
            root = _OF_A_USER.get(folded[len(_PROFILES) :].partition("\\")[2])
        if root is not None and not change.stream and {"data", "name"} & {*change.what}:
            yield change.path, root


def _state(guest: Guest, path: str, root: str, when: str) -> RegistryState:
    try:
        state = read_hive(guest.read(PureWindowsPath(path), limit=MAX_HIVE, timeout=120.0), root)
    except GuestNotFound:
        return RegistryState(exists=False)
    except Unreadable as error:
        raise Unreadable(f"{when}: {error.reason}") from None
    return state


def _compared(before: RegistryState, after: RegistryState, root: str) -> Iterator[KeyChange]:
    """What differs, the current control set by its usual name."""
    current = _control_set(after) if root.endswith("SYSTEM") else None
    for change in compare_states(before, after, root):
        start, _, rest = change.path[len(root) + 1 :].partition("\\")
        if current is not None and folded_name(start) == current:
            yield replace(change, path=rf"{root}\CurrentControlSet{chr(92) if rest else ''}{rest}")
        else:
            yield change


def _control_set(state: RegistryState) -> str | None:
    for value in state.values:
        if folded_name(value.key) == "SELECT" and folded_name(value.name) == "CURRENT" and len(value.data) == 4:
            return f"CONTROLSET{int.from_bytes(value.data, 'little'):03d}"
    return None
