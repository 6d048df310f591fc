"""Reading a registry key of a live machine through the probe."""

from __future__ import annotations

import time
from collections.abc import Callable

from contracts.globs import compile_glob
from contracts.schema import RegistryKey
from runner.guests.base import Guest, Unreadable
from runner.guests.probe import FaultEntry, ProbeResult
from validators.registry import KeyItem, RegistryState, ValueItem, key_path, value_path

CHANGED = 0x20000001
"""The probe's own code for a key that changed while it was read (vm_images/probe/README.md)."""
SKIPPED = {"perflib": "performance counters, made up at each reading"}
"""The probe's reasons for leaving a key out, in words."""
_TIMEOUT = 120.0
_PAUSE = 0.05


def read_registry(guest: Guest, spec: RegistryKey, *, within: float) -> RegistryState:
    """Reads a key, everything below it, and their values.

    Args:
        guest: The way into the machine.
        spec: The key, and what below it does not matter.
        within: Seconds that keys are given to hold still while they are read.

    Raises:
        Unreadable: Something that is not ignored could not be read, or kept changing; or the answer contradicts itself.
        GuestLost: The machine is gone.
    """
    view = () if spec.view is None else ("--view", str(spec.view))
    deadline = time.monotonic() + within
    while True:
        answer = guest.probe("registry", *view, "--", spec.registry, timeout=_TIMEOUT)
        fault = _fault_that_matters(answer, spec)
        if fault is None:
            return _state(answer, spec)
        if fault.code != CHANGED or time.monotonic() >= deadline:
            raise Unreadable(f"{fault.path}: {fault.message} (code {fault.code}, while doing {fault.op})")
        time.sleep(_PAUSE)


def _state(answer: ProbeResult, spec: RegistryKey) -> RegistryState:
    root = answer.roots[0] if len(answer.roots) == 1 else None
    if root is None or root.exists is None:
        raise Unreadable(f"{spec.registry}: the probe could not tell whether it exists")
    if not root.exists:
        if answer.keys or answer.values:
            raise Unreadable(f"{spec.registry}: the probe tells of keys below one that is missing")
        return RegistryState(exists=False)
    if not answer.keys or answer.keys[0].path != root.path:
        raise Unreadable(f"{spec.registry}: the probe's answer does not hold the key itself")
    return RegistryState(
        True,
        tuple(KeyItem(_relative(key.path, root.path), key.mtime, key.volatile) for key in answer.keys),
        tuple(ValueItem(_relative(v.key, root.path), v.name, v.type, v.data) for v in answer.values),
        tuple(
            (_relative(skipped.path, root.path), SKIPPED.get(skipped.reason, skipped.reason))
            for skipped in answer.skipped
        ),
    )


def _relative(path: str, root: str) -> str:
    if path == root:
        return ""
    if not path.startswith(root + "\\"):
        raise Unreadable(f"{root}: the probe tells of {path[:200]}, which does not lie below it")
    return path[len(root) + 1 :]


def _fault_that_matters(answer: ProbeResult, spec: RegistryKey) -> FaultEntry | None:
    """The first fault that no ignore rule covers, those that last before those that may pass."""
    rules = [compile_glob(rule.path) for rule in spec.ignore]
    root = answer.roots[0].path if len(answer.roots) == 1 else spec.registry
    found = [fault for fault in answer.faults if not any(_covers(rule, fault, root) for rule in rules)]
    return min(found, key=lambda fault: fault.code == CHANGED, default=None)


def _covers(rule: Callable[[str], bool], fault: FaultEntry, root: str) -> bool:
    """Whether all that a fault hides is ignored: the values of its key and, unless only a value failed, what lies below."""
    if fault.path == root or not fault.path.startswith(root + "\\"):
        return False
    key = fault.path[len(root) + 1 :]
    hidden = [value_path(key, "_")]
    if fault.op != "value":
        hidden += [key_path(f"{key}\\_", root), key_path(f"{key}\\_\\_", root), value_path(f"{key}\\_", "_")]
    return all(map(rule, hidden))
