"""The embedded machine, for real: Wine, namespaces, X server, probe."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PureWindowsPath

import pytest

from contracts.schema import CopyIn, RunProgram, SetupStep, StartProgram
from runner.display.handshake import DisplayAddress
from runner.display.rfb import DisplayAuthError, DisplayError, RfbClient
from runner.guests.base import GuestNotFound, Unreadable
from runner.guests.windows import wait_for_window, windows
from runner.machines import folders, sealing
from runner.machines.base import MachineError, SetupError, Tag, home
from runner.machines.images import Image
from runner.machines.wine import WineCheckpoint, WineMachine, WineProvider
from tests.faults.helpers import below

pytestmark = pytest.mark.machine
DSWIN = StartProgram(program="dswin")


@pytest.fixture(scope="module")
def machine(checkpoint: WineCheckpoint) -> Iterator[WineMachine]:
    made = checkpoint.clone(Tag("tests", "machine"))
    yield made
    made.discard()


def on_host(machine: WineMachine, path: str) -> Path:
    """A guest file's place in the clone's writable folder, as the host sees it."""
    return machine.folder / "upper" / "drive_c" / path


def inside(machine: WineMachine, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs a native program in the sandbox: more than any Windows program could do by itself."""
    assert machine._sandbox is not None
    done = machine._sandbox.run(list(argv), timeout=20)
    return subprocess.CompletedProcess(argv, done.status, done.stdout.decode(), done.stderr.decode())


def test_freshness_is_proven_by_seal_nonce_boot_and_clock(machine: WineMachine, checkpoint: WineCheckpoint) -> None:
    fresh = machine.freshness
    assert fresh.base == checkpoint.base
    assert len(fresh.nonce) == 32
    assert abs(fresh.clock_offset) < 5
    assert fresh.utc_offset in (3600, 7200)  # Europe/Berlin
    assert machine.guest.read(PureWindowsPath(r"C:\legacyproof\nonce.txt"), limit=100) == fresh.nonce.encode()


def test_two_machines_side_by_side_do_not_meet(machine: WineMachine, checkpoint: WineCheckpoint) -> None:
    other = checkpoint.clone(Tag("tests", "other"))
    try:
        assert other.freshness.boot != machine.freshness.boot
        assert other.freshness.nonce != machine.freshness.nonce
        assert other.display.port != machine.display.port
        path = PureWindowsPath(r"C:\DSWIN\only-here.txt")
        machine.guest.write(path, b"mine")
        with pytest.raises(GuestNotFound):
            other.guest.read(path, limit=10)
        other.start([DSWIN])
        assert "DSWin - Patientenliste" not in {window.title for window in windows(machine.guest)}
    finally:
        other.discard()


def test_the_base_is_unchanged_after_a_machine_has_written_everywhere(checkpoint: WineCheckpoint) -> None:
    before = sealing.contents_hash(checkpoint.prefix)
    made = checkpoint.clone(Tag("tests", "writer"))
    try:
        made.guest.write(PureWindowsPath(r"C:\DSWIN\DATA\PATIENT.DBF"), b"gone")
        made.guest.write(PureWindowsPath(r"C:\windows\system32\new.dll"), b"new")
        made.settle_to_disk()
    finally:
        made.discard()
    assert sealing.contents_hash(checkpoint.prefix) == before


def test_a_changed_base_is_an_error_and_never_used(checkpoint: WineCheckpoint, image: Image) -> None:
    victim = checkpoint.prefix / "drive_c" / "DSWIN" / "DSWIN.INI"
    original, times = victim.read_bytes(), victim.stat()
    victim.write_bytes(original.replace(b"0", b"1", 1))
    os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))  # put the time back: the change is still seen
    try:
        with pytest.raises(MachineError, match="changed after it was sealed"):
            checkpoint.clone(Tag("tests", "tampered"))
    finally:
        victim.write_bytes(original)
        os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
    made = checkpoint.clone(Tag("tests", "restored"))  # same contents: sealed again
    made.discard()


def test_a_missing_base_is_an_error_and_no_other_is_taken(checkpoint: WineCheckpoint) -> None:
    aside = checkpoint.prefix.with_name("aside")
    checkpoint.prefix.rename(aside)
    try:
        with pytest.raises(MachineError, match="missing"):
            checkpoint.clone(Tag("tests", "missing"))
    finally:
        aside.rename(checkpoint.prefix)


def test_programs_see_no_other_drive_no_network_and_no_host_files(machine: WineMachine, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("host")
    seen = machine.guest.probe("files", "--max-depth", "1", "Z:\\", "D:\\")
    assert [root.exists for root in seen.roots] == [None, None]
    assert {fault.message for fault in seen.faults} == {"there is no such drive"}
    assert inside(machine, "/bin/sh", "-c", f"cat {tmp_path}/secret.txt").returncode != 0
    assert inside(machine, "/bin/sh", "-c", f"ls {home()}").returncode != 0
    assert inside(machine, "/bin/sh", "-c", "cat /proc/net/dev").stdout.count("\n") <= 3  # two headings and `lo`
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        assert inside(machine, "/usr/bin/python3", "-c", reach).returncode != 0


def test_no_heap_comes_to_lie_where_windows_programs_need_another_memory(machine: WineMachine) -> None:
    """Left to chance it does once in some thousands of starts, and the program ends without a word."""
    every = 'for p in /proc/[0-9]*; do grep -qs /wine64 $p/maps && grep -Fs "[heap]" $p/maps; done'
    heaps = [line.partition("-")[0] for line in inside(machine, "/bin/sh", "-c", every).stdout.splitlines()]
    assert len(heaps) >= 4, "Wine's services and the probe"
    assert len({*heaps}) == 1, "none is left to chance"
    assert int(heaps[0], 16) < 0x7FFE0000 - (32 << 20)


def test_links_made_inside_do_not_lead_the_runner_to_host_files(machine: WineMachine, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("host")
    made = inside(machine, "/bin/ln", "-s", str(tmp_path / "secret.txt"), "/prefix/drive_c/DSWIN/link.txt")
    assert made.returncode == 0
    with pytest.raises((Unreadable, GuestNotFound)):
        machine.guest.read(PureWindowsPath(r"C:\DSWIN\link.txt"), limit=100)
    inside(machine, "/bin/mkfifo", "/prefix/drive_c/DSWIN/pipe")
    with pytest.raises(Unreadable, match="plain file"):
        machine.guest.read(PureWindowsPath(r"C:\DSWIN\pipe"), limit=100)
    inside(machine, "/bin/rm", "/prefix/drive_c/DSWIN/link.txt", "/prefix/drive_c/DSWIN/pipe")


@pytest.mark.parametrize("path", [r"C:\DSWIN\..\..\x", r"D:\x", r"\\server\share\x", "relative"])
def test_paths_that_climb_or_leave_the_drive_are_refused(machine: WineMachine, path: str) -> None:
    with pytest.raises(Unreadable):
        machine.guest.read(PureWindowsPath(path), limit=100)


def test_files_are_found_whatever_the_case_and_written_files_read_back(machine: WineMachine) -> None:
    data = bytes(range(256)) * 40
    machine.guest.write(PureWindowsPath("C:\\dswin\\Übung\\Größe ß.bin"), data)
    assert machine.guest.read(PureWindowsPath("c:\\DSWIN\\übung\\größe ß.BIN"), limit=20_000) == data
    with pytest.raises(Unreadable, match="more than"):
        machine.guest.read(PureWindowsPath("c:\\DSWIN\\übung\\größe ß.BIN"), limit=100)


def test_a_name_that_is_another_letter_by_letter_is_another_file(machine: WineMachine) -> None:
    sharp, doubled = PureWindowsPath("C:\\DSWIN\\Maße.dbf"), PureWindowsPath(r"C:\DSWIN\MASSE.DBF")
    machine.guest.write(sharp, b"with one letter")
    with pytest.raises(GuestNotFound):
        machine.guest.read(doubled, limit=100)
    machine.guest.write(doubled, b"with two")
    assert machine.guest.read(sharp, limit=100) == b"with one letter"
    assert machine.guest.read(PureWindowsPath("C:\\dswin\\MAßE.DBF"), limit=100) == b"with one letter"


def test_which_of_two_names_is_meant_wine_decides_and_neither_is_written(machine: WineMachine) -> None:
    folder = "/prefix/drive_c/DSWIN/zwei"
    make = f"mkdir {folder}; printf a > {folder}/Wahl.txt; printf b > {folder}/WAHL.TXT"
    assert inside(machine, "/bin/sh", "-c", make).returncode == 0
    path = PureWindowsPath(r"C:\DSWIN\zwei\wahl.txt")
    assert machine.guest.read(path, limit=10) == machine.guest.probe("read", str(path)).data
    with pytest.raises(Unreadable, match="any of 2 names"):
        machine.guest.write(path, b"c")
    look = f"cat {folder}/Wahl.txt {folder}/WAHL.TXT; ls {folder} | wc -l"
    assert inside(machine, "/bin/sh", "-c", look).stdout == "ab2\n"


def test_a_program_that_does_not_end_is_killed_with_its_children(machine: WineMachine) -> None:
    assert machine._sandbox is not None
    with pytest.raises(TimeoutError):
        machine._sandbox.run(["/bin/sh", "-c", "sleep 4711 & sleep 4712"], timeout=0.5)
    deadline = time.monotonic() + 10
    while "sleep 471" in inside(machine, "/bin/sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout.replace(
        "sleep 471&", ""
    ):
        assert time.monotonic() < deadline, "the children live on"
        time.sleep(0.1)


def test_the_display_wants_its_password(machine: WineMachine) -> None:
    address = machine.display
    with pytest.raises(DisplayAuthError):
        RfbClient.connect(DisplayAddress(address.host, address.port, "wrong"))
    with RfbClient.connect(address) as client:
        assert client.size == (1024, 768)


def test_typed_umlauts_and_symbols_reach_the_program(machine: WineMachine) -> None:
    machine.guest.start([r"C:\windows\notepad.exe"])
    wait_for_window(machine.guest, "Untitled - Notepad", timeout=30)
    text = "Müller, Jürgen: Größe 1,80 m? 100 % [a@b.de] {x} ~#'\"\\ 20 € ÄÖÜß é"
    with RfbClient.connect(machine.display) as client:
        client.type_text(text)
        deadline = time.monotonic() + 20
        while True:
            edit = next(c for w in windows(machine.guest) for c in w.controls if c.class_name == "Edit")
            if edit.text == text or time.monotonic() > deadline:
                break
            time.sleep(0.05)
    assert edit.text == text


def test_set_up_is_done_once_and_its_clones_hold_it(image: Image, tmp_path: Path) -> None:
    (tmp_path / "given.txt").write_bytes(b"given")
    setup: list[SetupStep] = [
        CopyIn(copy="given.txt", to=r"C:\DSWIN\IMPORT\given.txt"),
        CopyIn(text="Größe", encoding="cp850", to=r"C:\DSWIN\IMPORT\text.txt"),
        RunProgram(run=[r"C:\windows\system32\cmd.exe", "/c", "echo ran> C:\\DSWIN\\IMPORT\\ran.txt"]),
    ]
    provider = WineProvider()
    checkpoint = provider.prepare(image, setup, [], folder=tmp_path)
    assert provider.prepare(image, setup, [], folder=tmp_path).digest == checkpoint.digest
    made = checkpoint.clone(Tag("tests", "set-up"))
    try:
        read = {
            n: made.guest.read(PureWindowsPath(rf"C:\DSWIN\IMPORT\{n}.txt"), limit=100)
            for n in ("given", "text", "ran")
        }
        assert read == {"given": b"given", "text": "Größe".encode("cp850"), "ran": b"ran\r\n"}
        assert made.freshness.layers == tuple(digest for _, digest in checkpoint.layers)
        assert made.guest.read(PureWindowsPath(r"C:\DSWIN\DATA\KATALOG.DBF"), limit=100_000)[:1] == b"\x03"
    finally:
        made.discard()


def test_failing_set_up_is_the_contracts_fault_and_leaves_nothing(image: Image, tmp_path: Path) -> None:
    provider = WineProvider()
    for step, why in (
        (RunProgram(run=[r"C:\windows\system32\cmd.exe", "/c", "exit 3"]), "status 3"),
        (CopyIn(copy="../outside.txt", to=r"C:\x.txt"), "no file within"),
    ):
        with pytest.raises(SetupError, match=why):
            provider.prepare(image, [step], [], folder=tmp_path)
    assert not list((home() / "checkpoints").glob("*.unfinished"))
    assert not [item for item in provider.leftovers() if item.campaign == "set-up"]


def test_an_unknown_program_names_those_there_are(machine: WineMachine) -> None:
    with pytest.raises(SetupError, match="dswin"):
        machine.start([StartProgram(program="word")])


def runs(pid: int) -> bool:
    """Whether there is such a process; one that has ended and only waits for its parent has no command line any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_discard_leaves_no_process_no_folder_and_no_port(checkpoint: WineCheckpoint) -> None:
    made = checkpoint.clone(Tag("tests", "discard"))
    made.start([DSWIN])
    address, folder = made.display, made.folder
    machine = {pid for outermost in folders.processes_of(folder) for pid in (outermost, *below(outermost))}
    assert len(machine) > 5
    made.discard()
    made.discard()  # twice is no mistake
    assert not folder.exists()
    assert [pid for pid in machine if runs(pid)] == []
    assert folders.processes_of(folder) == []
    with pytest.raises(DisplayError):  # the port may be another's by now, but nobody answers to this password
        RfbClient.connect(address, timeout=2).close()
    assert str(folder) not in Path("/proc/mounts").read_text()


def test_clones_by_copy_work_where_overlays_do_not(
    checkpoint: WineCheckpoint, image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LEGACYPROOF_CLONE", "copy")
    setup = [CopyIn(text="x", to=r"C:\DSWIN\by-copy.txt")]
    made = WineProvider().prepare(image, setup, [], folder=tmp_path).clone(Tag("tests", "copy"))
    try:
        assert made.guest.read(PureWindowsPath(r"C:\DSWIN\by-copy.txt"), limit=10) == b"x"
        made.start([DSWIN])
    finally:
        made.discard()
    assert not (checkpoint.prefix / "drive_c" / "DSWIN" / "by-copy.txt").exists()


def test_four_machines_at_once(checkpoint: WineCheckpoint) -> None:
    def one(number: int) -> str:
        made = checkpoint.clone(Tag("tests", f"four-{number}"))
        try:
            made.start([DSWIN])
            return made.freshness.nonce
        finally:
            made.discard()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(one, range(4)))) == 4
