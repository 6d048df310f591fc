"""What changed on the disk is told apart by whether the contract looks at it; the audit itself spoils no verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pydantic import TypeAdapter

from contracts.schema import Observable
from runner.blind_spots import MAX_LISTED, audit_of_machine, sort_changes
from runner.guests.base import GuestLost, Unreadable
from runner.machines.base import DiskState, MachineError, Stop
from runner.offline.changes import DiskChange
from runner.record import BlindSpots

OBSERVE = TypeAdapter(dict[str, Observable]).validate_python(
    {
        "patients": {"dbf": r"C:\DSWIN\DATA\PATIENT.DBF", "key": ["PATNR"], "encoding": "cp850"},
        "reports": {"files": r"C:\BERICHTE", "ignore": [{"path": "*.TMP", "because": "scratch files"}]},
        "screen": {"windows": {}},
    }
)


def sorted_out(*changes: DiskChange) -> BlindSpots:
    return sort_changes(changes, OBSERVE, how="frozen")


def modified(path: str, **more: object) -> DiskChange:
    return DiskChange("modified", path, what=("data",), size=1, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [r"C:\DSWIN\DATA\PATIENT.DBF", r"c:\dswin\data\patient.dbf", r"C:\DSWIN\DATA\PATIENT.DBT", r"C:\Berichte\a\b.pdf"],
)
def test_what_is_observed_is_counted_and_not_listed(path: str) -> None:
    found = sorted_out(modified(path))
    assert (found.observed, found.files) == (1, [])


@pytest.mark.parametrize(
    "path", [r"C:\DSWIN\DATA\KASSE.DBF", r"C:\BERICHTE2\a.pdf", r"C:\BERICHTE\x.TMP", r"D:\BERICHTE\a"]
)
def test_what_is_not_observed_is_listed(path: str) -> None:
    found = sorted_out(modified(path))
    assert (found.observed, [file.path for file in found.files]) == (0, [path])


def test_the_systems_books_are_counted_apart() -> None:
    found = sorted_out(modified(r"C:\$MFT", noise="file system"), modified(r"C:\pagefile.sys", noise="file system"))
    assert (found.system, found.files) == (2, [])


def test_the_runners_own_files_and_the_times_of_folders_are_left_out() -> None:
    folder = DiskChange("modified", r"C:\WINDOWS", what=("times",), noise="directory", is_directory=True)
    found = sorted_out(modified(r"C:\legacyproof\nonce.txt"), folder)
    assert found == BlindSpots(how="frozen")


def test_a_folder_that_was_made_is_listed() -> None:
    found = sorted_out(DiskChange("created", r"C:\NEU", is_directory=True))
    assert [file.path for file in found.files] == [r"C:\NEU"]


def test_a_file_moved_out_of_sight_is_listed_with_where_it_was() -> None:
    found = sorted_out(DiskChange("renamed", r"C:\TEMP\a.pdf", r"C:\BERICHTE\a.pdf", 5, what=("name",)))
    assert [(file.path, file.old_path) for file in found.files] == [(r"C:\TEMP\a.pdf", r"C:\BERICHTE\a.pdf")]


def test_a_long_list_is_cut_and_counted() -> None:
    found = sorted_out(*(modified(rf"C:\x\{number}") for number in range(MAX_LISTED + 3)))
    assert (len(found.files), found.left_out) == (MAX_LISTED, 3)


class Machine:
    """A machine whose disk gives what it is told."""

    def __init__(self, given: tuple[DiskChange, ...] | Exception, *, late: bool = False) -> None:
        self.given = given
        self.late = late

    def _changed(self) -> tuple[DiskChange, ...]:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given

    @contextmanager
    def disk_after(self, how: Stop) -> Iterator[DiskState]:
        if isinstance(self.given, Exception) and not self.late:
            raise self.given
        yield DiskState(None, "frozen", self._changed)  # type: ignore[arg-type]

    disk_before = disk_after


def test_a_machine_is_audited() -> None:
    found = audit_of_machine(Machine((modified(r"C:\x"),)), OBSERVE)  # type: ignore[arg-type]
    assert ([file.path for file in found.files], found.how, found.unreadable) == ([r"C:\x"], "frozen", None)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", [Unreadable("bad magic"), MachineError("gone"), GuestLost("gone"), OSError("full")])
def test_a_disk_that_cannot_be_looked_at_is_told_and_never_raised(error: Exception, late: bool) -> None:
    found = audit_of_machine(Machine(error, late=late), OBSERVE)  # type: ignore[arg-type]
    assert found.unreadable == str(error)
    assert not found.files
