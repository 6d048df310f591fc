"""Virtual machines for real: QEMU under libvirt, a Debian with Wine inside, clones that go on from one saved memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PureWindowsPath

import pytest

from contracts.schema import StartProgram
from runner.display.rfb import DisplayAuthError, DisplayError, RfbClient
from runner.guests.base import GuestNotFound, Unreadable
from runner.guests.qga import QgaGuest
from runner.guests.windows import windows
from runner.machines import sealing
from runner.machines.base import DiskReadable, DiskState, MachineError, Tag
from runner.machines.folders import processes_of
from runner.machines.libvirt import LibvirtCheckpoint, LibvirtMachine, LibvirtProvider
from runner.machines.readiness import prove
from runner.own_files import is_ours

pytestmark = [pytest.mark.vm, pytest.mark.timeout(900)]
DSWIN = StartProgram.model_validate({"program": "dswin", "timeout": "120s"})
PATIENTS = PureWindowsPath(r"C:\DSWIN\DATA\PATIENT.DBF")
SLOW = 120.0
"""Seconds for one answer of an emulated machine on a busy host."""


@pytest.fixture(scope="module")
def machine(vm_checkpoint: LibvirtCheckpoint) -> Iterator[LibvirtMachine]:
    made = vm_checkpoint.clone(Tag("tests", "machine"))
    yield made
    made.discard()


def theirs(disk: DiskState) -> set[tuple[str, str]]:
    """Kind and path of every file that somebody changed, but for the runner."""
    found = {(change.kind, change.path) for change in disk.changed() if not change.noise}
    return {(kind, path) for kind, path in found if not is_ours(PureWindowsPath(path))}


def test_freshness_is_proven_by_hashes_nonce_boot_and_clock(
    machine: LibvirtMachine, vm_checkpoint: LibvirtCheckpoint
) -> None:
    fresh = machine.freshness
    assert machine.why_cold is None
    assert fresh.base == vm_checkpoint.plan.base()
    assert fresh.layers == (vm_checkpoint.digest,)
    assert fresh.image == vm_checkpoint.plan.files.fingerprint
    assert len(fresh.nonce) == 32
    assert abs(fresh.clock_offset) < 5
    assert fresh.utc_offset in (3600, 7200)  # Europe/Berlin
    assert machine.guest.read(PureWindowsPath(r"C:\legacyproof\nonce.txt"), limit=100) == fresh.nonce.encode()


def test_the_programs_run_in_the_saved_memory_and_are_on_the_screen(machine: LibvirtMachine) -> None:
    before = {each.pid for each in machine.guest.probe("processes", timeout=SLOW).processes}
    machine.start([DSWIN])
    assert "DSWin - Patientenliste" in {window.title for window in windows(machine.guest, timeout=SLOW)}
    after = {
        each.pid
        for each in machine.guest.probe("processes", timeout=SLOW).processes
        if each.name.upper() == "DSWIN.EXE"
    }
    assert after
    assert after <= before  # it was there, not started now
    with RfbClient.connect(machine.display) as client:
        assert client.screenshot().size == (1024, 768)


def test_the_display_wants_its_password(machine: LibvirtMachine) -> None:
    with pytest.raises(DisplayAuthError):
        RfbClient.connect(replace(machine.display, password="wrong")).close()


def test_what_was_just_written_is_found_on_the_disk_and_nothing_else_changed(machine: LibvirtMachine) -> None:
    assert isinstance(machine, DiskReadable)
    with machine.disk_before() as before:
        table = before.guest.read(PATIENTS, limit=1 << 20)
        assert theirs(before) == set()
    assert table == machine.guest.read(PATIENTS, limit=1 << 20)

    new, text = PureWindowsPath(r"C:\DSWIN\Übergabe\größe.txt"), "Größe 1,80 m".encode() * 1000
    machine.guest.write(new, text, timeout=SLOW)
    with machine.disk_after("disk") as disk:
        assert disk.taken == "frozen disk, suspended"
        assert (disk.drives, disk.left_out) == (("C",), ("vda",))
        assert disk.guest.read(new, limit=1 << 20) == text
        assert disk.guest.read(PATIENTS, limit=1 << 20) == table
        assert theirs(disk) == {("created", str(new.parent)), ("created", str(new))}
    assert list((machine.folder / "taken").iterdir()) == []
    machine.ensure_alive()
    assert machine.guest.read(new, limit=1 << 20) == text  # it goes on


def test_a_freeze_that_flushes_nothing_makes_the_disk_unreadable_and_the_machine_goes_on(
    machine: LibvirtMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a guest whose freezing does not reach drive C: it says that it is frozen, and nothing is written out."""
    monkeypatch.setattr(QgaGuest, "freeze", lambda self, timeout=60.0: 1)
    monkeypatch.setattr(QgaGuest, "thaw", lambda self, timeout=30.0: 1)
    with pytest.raises(Unreadable, match="not on the disk that was taken"), machine.disk_after("disk"):
        pass
    monkeypatch.undo()
    machine.ensure_alive()
    with machine.disk_after("disk") as disk:
        assert disk.guest.read(PATIENTS, limit=1 << 20)


def test_libvirt_killed_in_mid_run_is_healed(machine: LibvirtMachine, vm_checkpoint: LibvirtCheckpoint) -> None:
    connection = vm_checkpoint.plan.connection
    before = connection.worker_pid
    os.kill(before, signal.SIGKILL)
    assert machine.guest.probe("version", timeout=SLOW).header.computer
    machine.ensure_alive()
    assert connection.worker_pid != before


def test_a_clock_that_is_wrong_is_found(machine: LibvirtMachine) -> None:
    machine.guest.set_time(time.time_ns() - 86_400 * 1_000_000_000)
    try:
        with pytest.raises(MachineError, match="clock is -86"):
            prove(machine.guest, timeout=SLOW)
    finally:
        machine.guest.set_time(time.time_ns())
    assert abs(prove(machine.guest, timeout=SLOW).clock_offset) < 5


def test_two_machines_do_not_see_each_other_and_discard_leaves_nothing(
    machine: LibvirtMachine, vm_checkpoint: LibvirtCheckpoint
) -> None:
    other = vm_checkpoint.clone(Tag("tests", "other"))
    try:
        assert other.freshness.boot != machine.freshness.boot
        assert other.freshness.nonce != machine.freshness.nonce
        assert other.display.port != machine.display.port
        assert other.display.password != machine.display.password
        mine = PureWindowsPath(r"C:\DSWIN\only-here.txt")
        machine.guest.write(mine, b"mine", timeout=SLOW)
        with pytest.raises(GuestNotFound):
            other.guest.read(mine, limit=10, timeout=SLOW)
        assert [left.alive for left in LibvirtProvider().leftovers() if left.name == other.id] == [True]

        theirs = PureWindowsPath(r"C:\DSWIN\theirs.txt")
        other.guest.write(theirs, b"theirs", timeout=SLOW)
        with other.disk_after("shutdown") as disk:
            assert disk.taken == "after shut-down"
            assert disk.guest.read(theirs, limit=10) == b"theirs"
            assert str(theirs) in {change.path for change in disk.changed()}
            with pytest.raises(Unreadable, match="while the machine runs"):
                windows(disk.guest)
    finally:
        other.discard()
        other.discard()  # twice is no mistake
    assert not other.folder.exists()
    assert processes_of(other.folder) == []
    with pytest.raises(DisplayError):  # the port may be another's by now, but nobody answers to this password
        RfbClient.connect(other.display, timeout=2).close()
    assert vm_checkpoint.plan.connection.call("state", timeout=20, name=other.id) == "gone"
    machine.ensure_alive()


def test_image_and_checkpoint_are_unchanged_after_all_that(
    machine: LibvirtMachine, vm_checkpoint: LibvirtCheckpoint
) -> None:
    with machine.disk_after("power_off") as disk:
        assert disk.taken == "after power-off"
        assert disk.guest.read(PATIENTS, limit=1 << 20)
    with pytest.raises(MachineError, match="does not run any more"):
        machine.ensure_alive()
    assert sealing.contents_hash(vm_checkpoint.kept.state) == vm_checkpoint.digest
    vm_checkpoint.verify()
