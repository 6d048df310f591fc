"""Changed keys are told apart by whether the contract looks at them, grouped, and marked where they change by themselves."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from pydantic import TypeAdapter

from contracts.schema import Observable
from runner.blind_spots.audit import audit, audit_of_machine, begin
from runner.blind_spots.keys import MAX_EXAMPLES, MAX_GROUPS, sort_keys, volatile
from runner.changed_keys import KeyChange, KeyChanges
from runner.guests.base import Unreadable
from runner.machines.base import DiskState
from runner.record import BlindSpots, RegistrySpots


def observed(*specs: dict[str, Any]) -> dict[str, Observable]:
    return TypeAdapter(dict[str, Observable]).validate_python(
        {f"k{number}": spec for number, spec in enumerate(specs)} | {"screen": {"windows": {}}}
    )


def outside(spots: RegistrySpots) -> list[tuple[str, str]]:
    return [(group.key, example) for group in spots.groups for example in group.examples]


@pytest.mark.parametrize(
    ("root", "view", "key"),
    [
        (r"HKCU\Software\DSWin", None, r"HKCU\software\dswin\Window"),
        (r"HKCU\Software\DSWin", None, r"HKCU\Software\DSWin"),
        (r"HKLM\Software\DSWin", 32, r"HKLM\Software\Wow6432Node\DSWin"),
        (r"HKLM\Software\DSWin", 64, r"HKLM\SOFTWARE\DSWin"),
        (r"HKCR\.dsw", None, r"HKLM\Software\Classes\.dsw\shell"),
        (r"HKCR\.dsw", None, r"HKCU\Software\Classes\.dsw"),
        (r"HKU\S-1-5-21-0-0-0-1000\Software\X", None, r"HKCU\Software\X"),
        (r"HKCC\Software", None, r"HKLM\System\CurrentControlSet\Hardware Profiles\Current\Software\a"),
    ],
)
def test_what_is_observed_is_counted_and_not_listed(root: str, view: int | None, key: str) -> None:
    spec = {"registry": root} | ({"view": view} if view else {})
    found = sort_keys([KeyChange(key, "modified", ("x",))], observed(spec))
    assert (found.observed, found.groups) == (1, [])


@pytest.mark.parametrize("key", [r"HKCU\Software\DSWin2", r"HKCU\Software", r"HKLM\Software\DSWin"])
def test_what_is_not_observed_is_listed(key: str) -> None:
    found = sort_keys([KeyChange(key, "created", ())], observed({"registry": r"HKCU\Software\DSWin"}))
    assert (found.observed, outside(found)) == (0, [(key, "created")])


def test_what_an_ignore_rule_takes_out_of_sight_is_not_observed() -> None:
    spec = {"registry": r"HKCU\Software\DSWin", "ignore": [{"path": r"Window\@*", "because": "places"}]}
    keys = [KeyChange(r"HKCU\Software\DSWin\Window", "modified", values) for values in (("Left",), ("Left", "Top"))]
    keys.append(KeyChange(r"HKCU\Software\DSWin\Doctor", "modified", ("Left",)))
    keys.append(KeyChange(r"HKCU\Software\DSWin\Window", "created", ()))
    found = sort_keys(keys, observed(spec))
    assert (found.observed, sum(group.keys for group in found.groups)) == (2, 2)


def test_keys_lie_together_and_what_changes_by_itself_comes_last() -> None:
    keys = [
        KeyChange(r"HKCU\Software\Microsoft\Windows\CurrentVersion\Explorer\UserAssist\{1}\Count", "modified", ("a",))
    ]
    keys += [KeyChange(rf"HKCU\Software\Praxis\{number:03}", "created", ("v", "")) for number in range(100)]
    keys += [KeyChange(r"HKLM\Software\Praxis", "deleted")]
    found = sort_keys(keys, {})
    assert [(group.key, group.keys, bool(group.volatile)) for group in found.groups] == [
        (r"HKCU\Software\Praxis", 100, False),
        (r"HKLM\Software\Praxis", 1, False),
        (r"HKCU\Software\Microsoft\Windows\CurrentVersion\Explorer", 1, True),
    ]
    assert len(found.groups[0].examples) == MAX_EXAMPLES
    assert found.groups[0].examples[0] == "created 000: v, (default)"


def test_groups_that_are_too_many_are_counted() -> None:
    found = sort_keys([KeyChange(rf"HKLM\A{number}\x\y", "created") for number in range(MAX_GROUPS + 7)], {})
    assert (len(found.groups), found.left_out) == (MAX_GROUPS, 7)


@pytest.mark.parametrize(
    ("key", "is_volatile"),
    [
        (r"HKCU\Software\Microsoft\Windows\CurrentVersion\Explorer\RunMRU", True),
        (r"HKCU\Software\Praxis\OpenDialogMRU", True),
        (r"HKCU\Software\Praxis\Recent File List", True),
        (r"HKLM\System\CurrentControlSet\Enum\USB\x", True),
        (r"HKLM\SYSTEM\ControlSet001\Services\bam\State\UserSettings\S-1", True),
        (r"HKCU\Volatile Environment", True),
        (r"HKCU\Software\Praxis", False),
        (r"HKCU\Software\Praxis\Doctors", False),
        (r"HKLM\System\CurrentControlSet\Services\Praxis", False),
        (r"HKLM\Software\Microsoft\Windows\CurrentVersion\Run", False),
    ],
)
def test_known_places_are_volatile_and_others_are_not(key: str, is_volatile: bool) -> None:
    assert bool(volatile(key)) is is_volatile


class Whole:
    """A machine that tells what changed since its mark."""

    def __init__(self, disk: DiskState) -> None:
        self.disk = disk
        self.marked = 0

    def mark_disk(self) -> None:
        self.marked += 1
        raise Unreadable("full")

    def disk_since_mark(self) -> Any:
        return nullcontext(self.disk)


def failing() -> Any:
    raise Unreadable("no mark")


def test_a_mark_that_fails_spoils_nothing_and_files_that_cannot_be_compared_do_not_hide_the_registry() -> None:
    disk = DiskState(None, "h", failing, registry=lambda: KeyChanges((KeyChange(r"HKCU\X", "created"),)))  # type: ignore[arg-type]
    machine = Whole(disk)
    begin(machine)  # type: ignore[arg-type]
    found = audit_of_machine(machine, {})  # type: ignore[arg-type]
    assert machine.marked == 1
    assert found is not None
    assert (found.unreadable, found.registry and outside(found.registry)) == ("no mark", [(r"HKCU\X", "created")])


def test_a_registry_that_cannot_be_compared_does_not_hide_the_files() -> None:
    disk = DiskState(None, "h", tuple, ("C",), registry=failing)  # type: ignore[arg-type]
    assert audit(disk, {}) == BlindSpots(how="h", drives=["C"], registry=RegistrySpots(unreadable="no mark"))


def test_a_machine_of_another_kind_is_not_looked_at() -> None:
    begin(object())  # type: ignore[arg-type]
    assert audit_of_machine(object(), {}) is None  # type: ignore[arg-type]


def test_records_without_a_registry_are_read() -> None:
    old = {"how": "frozen", "drives": ["C"], "observed": 1}
    assert BlindSpots.model_validate(old).registry is None
