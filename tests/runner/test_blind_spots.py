"""What changed on the disk is told apart by whether the contract looks at it; the audit itself spoils no verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pydantic import TypeAdapter

from contracts.schema import Observable
from runner.blind_spots.audit import audit_of_machine
from runner.blind_spots.files import MAX_LISTED, sort_changes
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


@pytest.mark.parametrize(
    "name", ["lpprobe.exe", "NONCE.TXT", "flushed.txt", "answer-3.jsonl", "put-00ff.part", r"runs\00ff.claim", "runs"]
)
def test_the_runners_own_files_are_left_out(name: str) -> None:
    assert sorted_out(modified(rf"C:\legacyproof\{name}"), modified(rf"D:\LegacyProof\{name}")) == BlindSpots(
        how="frozen"
    )


@pytest.mark.parametrize("name", ["evil.exe", r"sub\nonce.txt", "nonce.txt.bak", r"runs\x.exe", "answer-1.jsonl.exe"])
def test_what_others_put_beside_them_is_listed(name: str) -> None:
    assert [file.path for file in sorted_out(modified(rf"C:\legacyproof\{name}")).files] == [rf"C:\legacyproof\{name}"]


def test_the_times_of_folders_are_left_out() -> None:
    found = sorted_out(DiskChange("modified", r"C:\WINDOWS", what=("times",), noise="directory", is_directory=True))
    assert found == BlindSpots(how="frozen")


def test_a_folder_that_was_made_is_listed() -> None:
    found = sorted_out(DiskChange("created", r"C:\NEU", is_directory=True))
    assert [file.path for file in found.files] == [r"C:\NEU"]


def test_a_file_moved_out_of_sight_is_listed_with_where_it_was() -> None:
    found = sorted_out(DiskChange("renamed", r"C:\TEMP\a.pdf", r"C:\BERICHTE\a.pdf", 5, what=("name",)))
    assert [(file.path, file.old_path) for file in found.files] == [(r"C:\TEMP\a.pdf", r"C:\BERICHTE\a.pdf")]


def test_a_file_moved_into_sight_is_listed_since_it_is_lost_elsewhere() -> None:
    found = sorted_out(DiskChange("renamed", r"C:\BERICHTE\a.pdf", r"C:\Geheim\a.pdf", 5, what=("name",)))
    assert [(file.path, file.old_path) for file in found.files] == [(r"C:\BERICHTE\a.pdf", r"C:\Geheim\a.pdf")]


def test_a_file_moved_among_the_runners_own_is_listed() -> None:
    found = sorted_out(DiskChange("renamed", r"C:\legacyproof\nonce.txt", r"C:\Geheim\a.pdf", 5, what=("name",)))
    assert len(found.files) == 1


@pytest.mark.parametrize(
    ("what", "stream"), [(("stream",), "zone"), (("attributes",), ""), (("data", "attributes"), "")]
)
def test_what_rows_do_not_show_of_a_table_is_listed(what: tuple[str, ...], stream: str) -> None:
    path = r"C:\DSWIN\DATA\PATIENT.DBF"
    change = DiskChange("modified", path, what=what, stream=stream)  # type: ignore[arg-type]
    assert [file.path for file in sorted_out(change).files] == [path]


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
        yield DiskState(None, "frozen", self._changed, ("C",), ("vda",))  # type: ignore[arg-type]

    disk_before = disk_after


def audited(machine: Machine) -> BlindSpots:
    found = audit_of_machine(machine, OBSERVE)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_machine_is_audited() -> None:
    found = audited(Machine((modified(r"C:\x"),)))
    assert ([file.path for file in found.files], found.how, found.unreadable) == ([r"C:\x"], "frozen", None)
    assert (found.drives, found.left_out_disks) == (["C"], ["vda"])


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", [Unreadable("bad magic"), MachineError("gone"), GuestLost("gone"), OSError("full")])
def test_a_disk_that_cannot_be_looked_at_is_told_and_never_raised(error: Exception, late: bool) -> None:
    found = audited(Machine(error, late=late))
    assert found.unreadable == str(error)
    assert not found.files
