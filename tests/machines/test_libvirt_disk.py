"""A machine's disk read without its help: what was not proven to be on it is unreadable, and the machine goes on whatever happens."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest

from runner.guests.base import GuestLost, GuestNotFound, Unreadable
from runner.guests.dialects import WINE
from runner.machines.base import MachineError, Tag
from runner.machines.libvirt import LibvirtMachine
from runner.machines.virt import disk_state, overlays
from runner.machines.virt.disk_state import Freezer
from runner.machines.virt.hypervisor import HypervisorError
from runner.own_files import is_ours
from tests.peers.fake_libvirt import FakeHost, FakeVmGuest, pretend
from tests.peers.vm_disk import SAVED, drive_c, other_volume, put

FILE = PureWindowsPath(f"C:\\{SAVED}")
Pretended = Callable[..., tuple[FakeHost, LibvirtMachine, FakeVmGuest]]


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pretended:
    """Gives a host, a clone on it, and what runs in the clone; what is given by name is said of the image."""

    def made(**part: Any) -> tuple[FakeHost, LibvirtMachine, FakeVmGuest]:
        host = pretend(monkeypatch, tmp_path, **part)
        machine = host.checkpoint().clone(Tag("c", "r"))
        return host, machine, host.guests[-1]

    return made


def taken(machine: LibvirtMachine) -> list[Path]:
    return list((machine.folder / "taken").iterdir())


# --- frozen, copied, thawed ---


def test_the_state_before_the_agent_is_that_of_the_clone_and_not_of_the_checkpoint(pretended: Pretended) -> None:
    """A program that runs in the saved memory goes on and saves; that is not the agent's doing."""
    _, machine, guest = pretended()
    assert machine.why_cold is None
    guest.saved = b"written by a timer, before the agent began"
    with machine.disk_before() as disk:
        assert disk.guest.read(FILE, limit=100) == guest.saved
        changes = [change for change in disk.changed() if not change.noise]
    assert {change.path for change in changes if not is_ours(PureWindowsPath(change.path))} == {str(FILE)}
    assert taken(machine) == []


def test_what_can_be_read_and_what_cannot_is_told(pretended: Pretended) -> None:
    host, machine, guest = pretended()
    with machine.disk_after("disk") as disk:
        assert (disk.drives, disk.left_out) == (("C",), ("vda",))
        assert disk.taken == "frozen disk, suspended"
        with pytest.raises(Unreadable, match="the drive D: is on none of the disks"):
            disk.guest.read(PureWindowsPath(r"D:\x"), limit=1)
    assert not guest.frozen
    assert host.hypervisor.domains[machine.id] == "running"


@pytest.mark.parametrize("how", ["disk", "shutdown", "power_off"])
def test_without_a_drive_that_has_a_letter_nothing_is_read_and_the_machine_is_left_alone(
    pretended: Pretended, how: Any
) -> None:
    host, machine, _ = pretended(drive="")
    before = list(host.hypervisor.calls)
    with pytest.raises(Unreadable, match="no disk of the image says which drive it holds"), machine.disk_after(how):
        pass
    assert host.hypervisor.calls == before
    assert host.hypervisor.domains[machine.id] == "running"
    with pytest.raises(Unreadable, match="which drive"), disk_state.offline({}, {}, by_wine=True):
        pass
    with pytest.raises(Unreadable, match="which drive"):
        disk_state.changed({}, {}, {}, by_wine=True, key="k")


def test_a_machine_that_could_not_be_stopped_is_thawed(pretended: Pretended) -> None:
    host, machine, guest = pretended()

    def refuse(call: str, arguments: dict[str, Any]) -> None:
        if call == "suspend":
            assert guest.frozen
            raise HypervisorError("late", "libvirt did not answer `suspend`")

    host.hypervisor.on_call = refuse
    with pytest.raises(HypervisorError, match="suspend"), machine.disk_after("disk"):
        pass
    assert not guest.frozen
    with pytest.raises(HypervisorError, match="suspend"):
        Freezer(machine.guest, guest, WINE, machine._domain).freeze(["C"])  # type: ignore[arg-type]
    assert not guest.frozen
    assert host.hypervisor.domains[machine.id] == "running"


def test_a_machine_whose_disk_could_not_be_copied_is_thawed_and_goes_on(
    pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, machine, guest = pretended()

    def fail(source: Path, target: Path, *, timeout: float) -> None:
        assert guest.frozen
        assert host.hypervisor.domains[machine.id] == "paused"
        target.write_bytes(b"the first part")
        raise MachineError("the host's disk is full")

    monkeypatch.setattr(overlays, "copy", fail)
    with pytest.raises(MachineError, match="disk is full"), machine.disk_after("disk"):
        pass
    assert not guest.frozen
    assert host.hypervisor.domains[machine.id] == "running"
    assert taken(machine) == []


def test_its_clock_is_set_after_it_stood_still(pretended: Pretended) -> None:
    host, machine, guest = pretended()

    def sleep(call: str, arguments: dict[str, Any]) -> None:
        if call == "resume":
            guest.offset -= 90

    host.hypervisor.on_call = sleep
    with machine.disk_after("disk"):
        assert abs(guest.offset) < 5


@pytest.mark.parametrize("lost", ["thaw", "set_time"])
def test_a_machine_that_does_not_thaw_or_whose_clock_stays_wrong_is_broken(
    pretended: Pretended, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    _, machine, guest = pretended()

    def silent(*_: Any, **__: Any) -> int:
        raise GuestLost("the guest agent does not answer")

    monkeypatch.setattr(guest, lost, silent)
    why = {"thaw": "stay frozen", "set_time": "clock could not be set"}[lost]
    with pytest.raises(MachineError, match=why), machine.disk_after("disk"):
        pass


def test_a_disk_that_may_have_been_copied_after_the_freeze_is_unreadable(
    pretended: Pretended, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, machine, guest = pretended()
    monkeypatch.setattr(guest, "thaw", lambda **_: 0)  # Windows ends a freeze by itself
    with pytest.raises(Unreadable, match="by itself"), machine.disk_after("disk"):
        pass


# --- proven ---


@pytest.mark.parametrize("how", ["disk", "shutdown"])
def test_what_was_written_last_must_be_on_the_disk(pretended: Pretended, how: Any) -> None:
    _, machine, guest = pretended()
    guest.flushes = False
    with pytest.raises(Unreadable, match="not on the disk that was taken"), machine.disk_after(how):
        pass


def test_after_a_shut_down_everything_is_there(pretended: Pretended) -> None:
    host, machine, guest = pretended()
    guest.saved = b"kept in memory until the end"
    with machine.disk_after("shutdown") as disk:
        assert disk.taken == "after shut-down"
        assert disk.guest.read(FILE, limit=100) == guest.saved
    assert machine.id not in host.hypervisor.domains
    with machine.disk_after("shutdown") as again:  # it is off already
        assert again.guest.read(FILE, limit=100) == guest.saved


@pytest.mark.parametrize("how", ["shutdown", "power_off"])
def test_a_volume_of_windows_that_was_not_left_clean_is_unreadable(pretended: Pretended, how: Any) -> None:
    _, machine, guest = pretended(runs="windows")
    guest.left_clean = False
    guest.saved = b"x"
    guest.flush()
    with pytest.raises(Unreadable, match="C: was not left clean"), machine.disk_after(how):
        pass


def test_a_volume_that_was_left_clean_is_read_and_one_in_use_is_no_reason_while_it_is_frozen(
    pretended: Pretended,
) -> None:
    _, machine, guest = pretended(runs="windows")
    guest.left_clean = False  # as every volume in use
    guest.saved = b"1"
    with machine.disk_after("disk") as disk:
        assert disk.guest.read(FILE, limit=100) == b"1"
    guest.left_clean = True
    with machine.disk_after("shutdown") as disk:
        assert disk.guest.read(FILE, limit=100) == b"1"


def test_a_volume_of_wines_keeps_no_journal(pretended: Pretended) -> None:
    _, machine, guest = pretended()
    guest.left_clean = False
    guest.saved = b"1"
    guest.flush()
    with machine.disk_after("power_off") as disk:
        assert disk.taken == "after power-off"
        assert disk.guest.read(FILE, limit=100) == b"1"


def test_a_checkpoint_without_what_was_written_last_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Forgetful(FakeVmGuest):
        flushes = False

    for kind in ("memory", "disk"):
        (tmp_path / kind).mkdir()
        host = pretend(monkeypatch, tmp_path / kind, checkpoint=kind)
        host.new_guest = Forgetful
        with pytest.raises(MachineError, match=r"C: last is on no volume of vdb\.qcow2"):
            host.checkpoint()


# --- several volumes on one disk ---

SMALL, LARGE = 1 << 20, 2 << 20
"""Where the two partitions begin; the first is the smaller one."""


def two_volumes(folder: Path, small: bytes, large: bytes) -> Path:
    disk = folder / "disk.raw"
    with disk.open("wb") as file:
        file.truncate(8 << 20)
    table = f"label: dos\nstart={SMALL >> 9}, size=1024, type=7\nstart={LARGE >> 9}, size=8192, type=7\n"
    subprocess.run(["sfdisk", "-q", str(disk)], input=table, text=True, check=True, timeout=60)
    made = folder / "vda.qcow2"
    subprocess.run(["qemu-img", "convert", "-O", "qcow2", "-f", "raw", str(disk), str(made)], check=True, timeout=60)
    put(small, made, SMALL)
    put(large, made, LARGE)
    return made


MARKER = b"m" * 8192


def test_a_drive_is_found_by_its_marker_and_not_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "state").mkdir(parents=True)
    drives = {"C": two_volumes(tmp_path / "checkpoint" / "state", drive_c(MARKER, b"before"), other_volume())}
    starts = disk_state.located(drives, {"C": MARKER}, by_wine=False)
    assert starts == {"C": SMALL}
    with disk_state.offline(drives, starts, by_wine=False) as guest:
        disk_state.prove(guest, {"C": MARKER})
        assert guest.read(FILE, limit=100) == b"before"
        with pytest.raises(GuestNotFound):
            guest.read(PureWindowsPath(r"C:\other.txt"), limit=100)

    overlays.create(tmp_path / "vda.qcow2", drives["C"])
    put(drive_c(MARKER, b"after!"), tmp_path / "vda.qcow2", SMALL)
    put(other_volume().replace(b"content", b"changed"), tmp_path / "vda.qcow2", LARGE)
    found = disk_state.changed(drives, {"C": tmp_path / "vda.qcow2"}, starts, by_wine=False, key="k")
    assert {change.path for change in found if not change.noise} == {str(FILE), r"(partition 2)\other.txt"}


def test_a_damaged_volume_beside_it_is_no_reason_and_alone_it_is_named(tmp_path: Path) -> None:
    damaged = other_volume()[:512].ljust(98304, b"\0")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    beside = {"C": two_volumes(tmp_path / "a", damaged, drive_c(MARKER))}
    assert disk_state.located(beside, {"C": MARKER}, by_wine=False) == {"C": LARGE}
    with disk_state.offline(beside, {"C": LARGE}, by_wine=False) as guest:
        disk_state.prove(guest, {"C": MARKER})
    alone = {"C": two_volumes(tmp_path / "b", damaged, bytes(512))}
    with pytest.raises(Unreadable, match="FILE block expected"):
        disk_state.located(alone, {"C": MARKER}, by_wine=False)


def test_a_drive_that_no_longer_lies_where_it_did_is_unreadable(tmp_path: Path) -> None:
    drives = {"C": two_volumes(tmp_path, drive_c(MARKER), other_volume())}
    with (
        pytest.raises(Unreadable, match="no longer holds the drive C: where it did"),
        disk_state.offline(drives, {"C": SMALL + 512}, by_wine=False),
    ):
        pass
    put(bytes(512), drives["C"], SMALL)
    put(bytes(512), drives["C"], LARGE)
    with pytest.raises(Unreadable, match="holds no NTFS volume"):
        disk_state.located(drives, {"C": MARKER}, by_wine=False)


def test_a_letter_given_to_the_wrong_disk_is_told(tmp_path: Path) -> None:
    drives = {"C": two_volumes(tmp_path, other_volume(), other_volume())}
    with pytest.raises(Unreadable, match="`drive:` in the image's manifest gives the wrong letter"):
        disk_state.located(drives, {"C": MARKER}, by_wine=False)
