"""Hive files of two disks: which keys differ; what could not be compared is told and hides nothing else."""

from __future__ import annotations

import pytest

from runner.changed_keys import KeyChange
from runner.disk_registry import changed_keys
from runner.guests.base import Unreadable
from runner.offline.changes import DiskChange
from tests.peers.fake_guest import FakeGuest
from tests.peers.regf import Key, write

CONFIG = r"C:\Windows\System32\config"
USER = r"C:\Users\erika\NTUSER.DAT"


def disk(**hives: bytes) -> FakeGuest:
    guest = FakeGuest()
    guest.put(rf"{CONFIG}\SYSTEM", write(Key("SYSTEM")))
    for name, data in hives.items():
        guest.put(USER if name == "user" else rf"{CONFIG}\{name}", data)
    return guest


def written(path: str) -> DiskChange:
    return DiskChange("modified", path, what=("data", "times"))


def test_keys_of_hives_that_changed_are_compared_and_others_are_not_read() -> None:
    before = disk(user=write(Key("r", (), [Key("A", [("x", 1, b"1\0")]), Key("Gone")])), SAM=b"rubbish")
    after = disk(
        user=write(Key("r", (), [Key("A", [("x", 1, b"2\0")]), Key("New", [("", 4, b"1234")])])), SAM=b"rubbish"
    )
    found = changed_keys(before, after, [written(USER), written(r"C:\Users\erika\a.txt")], at_rest=True)
    assert found.changes == (
        KeyChange(r"HKCU\A", "modified", ("x",)), KeyChange(r"HKCU\Gone", "deleted"), KeyChange(r"HKCU\New", "created", ("",)),
    )  # fmt: skip
    assert (found.unread, found.how) == ((), "")


def test_the_current_control_set_has_its_usual_name() -> None:
    def system(start: bytes) -> bytes:
        select = Key("Select", [("Current", 4, b"\2\0\0\0")])
        sets = [Key(f"ControlSet00{number}", (), [Key("Services", [("Start", 4, start)])]) for number in (1, 2)]
        return write(Key("r", (), [*sets, select]))

    path = rf"{CONFIG}\SYSTEM"
    found = changed_keys(
        disk(SYSTEM=system(b"1\0\0\0")), disk(SYSTEM=system(b"2\0\0\0")), [written(path)], at_rest=True
    )
    assert {change.path for change in found.changes} == {
        r"HKLM\SYSTEM\ControlSet001\Services", r"HKLM\SYSTEM\CurrentControlSet\Services",
    }  # fmt: skip


@pytest.mark.parametrize("bad", [b"rubbish", write(Key("r"), sequences=(7, 6)), write(Key("r"))[:-4000]])
def test_a_hive_that_is_not_whole_is_told_and_hides_no_other(bad: bytes) -> None:
    good, other = write(Key("r")), write(Key("r", [("x", 1, b"")]))
    changes = [written(USER), written(rf"{CONFIG}\SOFTWARE")]
    for before, after in ((good, bad), (bad, good)):
        found = changed_keys(disk(user=before, SOFTWARE=good), disk(user=after, SOFTWARE=other), changes, at_rest=False)
        assert [change.path for change in found.changes] == [r"HKLM\SOFTWARE"]
        (unread,) = found.unread
        assert unread.startswith(r"HKCU (C:\Users\erika\NTUSER.DAT): ")
        assert "had not written yet" in found.how


def test_a_disk_without_hives_is_not_a_registry_without_changes() -> None:
    with pytest.raises(Unreadable, match="no hives"):
        changed_keys(FakeGuest(), FakeGuest(), [], at_rest=True)


def test_a_users_hive_that_is_new_is_told_as_new_keys() -> None:
    change = DiskChange("created", USER, what=("data",))
    found = changed_keys(disk(), disk(user=write(Key("r", (), [Key("A")]))), [change], at_rest=True)
    assert [(one.what, one.path) for one in found.changes] == [("created", "HKCU"), ("created", r"HKCU\A")]
