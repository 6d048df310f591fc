r"""What changed in a registry between two moments, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from validators.registry import RegistryState, folded_name

What = Literal["created", "deleted", "modified"]


@dataclass(frozen=True, slots=True)
class KeyChange:
    r"""One key that changed.

    Attributes:
        path: Its full name, with the root's short name: ``HKCU\Software\DSWin``.
        what: Whether it is new, gone, or has other values.
        values: Names of its values that are new, gone or others, sorted; empty: the default value.
    """

    path: str
    what: What
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyChanges:
    """What changed in a machine's registry.

    Attributes:
        changes: The keys that changed.
        unread: Parts that could not be compared, each with the reason.
        how: What people have to know of how it was read; empty: nothing.
    """

    changes: tuple[KeyChange, ...]
    unread: tuple[str, ...] = ()
    how: str = ""


def changed_values(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
    """Names of values that are in one of two keys only, or differ; without case, as the later key spells them."""
    old = {folded_name(name): (name, value) for name, value in before.items()}
    new = {folded_name(name): (name, value) for name, value in after.items()}
    differ = (key for key in old.keys() | new.keys() if old.get(key, (None, None))[1] != new.get(key, (None, None))[1])
    return tuple(sorted((new.get(key) or old[key])[0] for key in differ))


def compare_states(before: RegistryState, after: RegistryState, root: str) -> Iterator[KeyChange]:
    """What differs between two readings of one key and all below it.

    Args:
        before: The earlier one.
        after: The later one.
        root: The key's full name.
    """
    old, new = _by_key(before), _by_key(after)
    for folded in sorted(old.keys() | new.keys()):
        was, now = old.get(folded), new.get(folded)
        values = changed_values(was[1] if was else {}, now[1] if now else {})
        if was is None or now is None or values:
            path = (now or was or ("", {}))[0]
            what: What = "created" if was is None else "deleted" if now is None else "modified"
            yield KeyChange(f"{root}\\{path}" if path else root, what, values)


def _by_key(state: RegistryState) -> dict[str, tuple[str, dict[str, object]]]:
    if not state.exists:
        return {}
    found: dict[str, tuple[str, dict[str, object]]] = {folded_name(key.path): (key.path, {}) for key in state.keys}
    for value in state.values:
        found[folded_name(value.key)][1][value.name] = (value.type, value.data)
    return found
