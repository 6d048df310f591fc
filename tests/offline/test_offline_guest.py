"""The offline guest: trees, tables, streams and registry keys of a volume as a run's snapshot wants them, and what it refuses."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PureWindowsPath

import pytest

from contracts.schema import DbfTable, FileTree, RegistryKey
from contracts.schema import Windows as WindowsSpec
from runner import capture, capture_trees
from runner.guests.base import Guest, GuestNotFound, Unreadable
from runner.guests.offline import OfflineGuest
from runner.guests.probe import ProbeError
from runner.offline.disk import open_disk
from runner.offline.ntfs.volume import Volume
from runner.offline.source import Memory
from tests.offline import volumes
from tests.offline.test_changes import junction
from tests.peers.fake_guest import FakeGuest, window
from tests.peers.ntfs import Tiny, file_name, folder, name_key, record, root, simple, standard
from tests.peers.regf import Key, write
from validators.files import FileItem, TreeState
from validators.registry import RegistryState
from validators.snapshot import UnreadableState

TIME = 10**18
FILETIME = 116_444_736_000_000_000 + TIME // 100
SOFTWARE = Key("root", keys=[
    Key("DSWin", [("Version", 1, "4\0".encode("utf-16-le"))], [Key("Window")]),
    Key("Microsoft", keys=[Key("Windows NT", keys=[Key("CurrentVersion", keys=[Key("ProfileList", keys=[
        Key("S-1-5-21-1-2-3-1000", [("ProfileImagePath", 2, "%SystemDrive%\\Users\\praxis\0".encode("utf-16-le"))]),
    ])])])]),
])  # fmt: skip
NTUSER = Key("root", keys=[Key("Software", keys=[Key("DSWin", [("Left", 4, b"\5\0\0\0")])])])


def fill(top: Path) -> None:
    (top / "DSWIN" / "DATA").mkdir(parents=True)
    (top / "DSWIN" / "DATA" / "PATIENT.DBF").write_bytes(b"\x03" + b"table" * 100)
    (top / "DSWIN" / "Grüße an alle.txt").write_bytes("Grüße".encode())
    (top / "DSWIN" / "large.bin").write_bytes(os.urandom(100_000))
    (top / "DSWIN" / "empty").touch()
    Path(f"{top / 'DSWIN' / 'empty'}:zone").write_bytes(b"[Zone]")
    (top / "DSWIN" / "hidden.txt").write_bytes(b"h")
    os.setxattr(top / "DSWIN" / "hidden.txt", "system.ntfs_attrib", (0x22).to_bytes(4, "little"))
    os.setxattr(top / "DSWIN" / "Grüße an alle.txt", "system.ntfs_dos_name", b"GRUSSE~1.TXT")
    config = top / "Windows" / "System32" / "config"
    config.mkdir(parents=True)
    (config / "SOFTWARE").write_bytes(write(SOFTWARE))
    for name in ("Default", "praxis"):
        (top / "Users" / name).mkdir(parents=True)
        (top / "Users" / name / "NTUSER.DAT").write_bytes(write(NTUSER))
    for path in (top / "DSWIN").rglob("*"):
        if path.is_file():
            os.utime(path, ns=(TIME, TIME))
    (top / "DSWIN" / "old").mkdir()
    os.setxattr(top / "DSWIN" / "old", "system.ntfs_reparse_data", junction(r"C:\Archive"))


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Volume]:
    scratch = tmp_path_factory.mktemp("guest")
    volumes.format_volume(scratch / "v", 32 << 20)
    with volumes.mounted(scratch / "v", scratch / "m") as top:
        fill(top)
    with open_disk(scratch / "v", "raw") as disk:
        yield Volume(disk)


@pytest.fixture
def guest(volume: Volume) -> OfflineGuest:
    return OfflineGuest({"C:": volume})


def test_it_is_a_guest(guest: OfflineGuest) -> None:
    assert isinstance(guest, Guest)


def test_a_snapshot_is_taken_from_the_disk(guest: OfflineGuest, volume: Volume) -> None:
    found = volume.find(["DSWIN", "large.bin"])
    assert found is not None
    assert found[0].data is not None
    large = found[0].data.read(0, 100_000)
    states = capture.take(
        guest,
        {
            "table": DbfTable(dbf=r"c:\dswin\data\patient.dbf", key=["NR"], encoding="cp850"),
            "none": DbfTable(dbf=r"C:\DSWIN\DATA\NONE.DBF", key=["NR"], encoding="cp850"),
            "tree": FileTree(files=r"C:\DSWIN"),
            "gone": FileTree(files=r"C:\NONE\below"),
            "other drive": FileTree(files=r"D:\X"),
            "table there": DbfTable(dbf=r"D:\X.DBF", key=["NR"], encoding="cp850"),
            "machine": RegistryKey(registry=r"HKLM\SOFTWARE\DSWin"),
            "user": RegistryKey(registry=r"HKCU\Software\DSWin"),
            "by id": RegistryKey(registry=r"HKU\S-1-5-21-1-2-3-1000\Software\DSWin"),
            "no key": RegistryKey(registry=r"HKCU\Software\None"),
            "windows": WindowsSpec.model_validate({"windows": {}}),
        },
    )
    table, none, tree, user = states["table"], states["none"], states["tree"], states["user"]
    assert table.dbf == b"\x03" + b"table" * 100  # type: ignore[union-attr]
    assert none.dbf is None  # type: ignore[union-attr]
    assert isinstance(tree, TreeState)
    times = {item.path: item.mtime for item in tree.items if item.kind != "file"}
    contents = {"": b"", "h": b"h", "g": "Grüße".encode(), "l": large, "p": b"\x03" + b"table" * 100}
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    zone = hashlib.sha256(repr([(":zone:$DATA", 6, hashlib.sha256(b"[Zone]").hexdigest())]).encode()).hexdigest()
    assert {item.path: item for item in tree.items} == {
        item.path: item
        for item in (
            FileItem("DATA", "dir", 0, times["DATA"], 0x30),
            FileItem(r"DATA\PATIENT.DBF", "file", 501, FILETIME, 0x20, sums["p"]),
            FileItem("empty", "file", 0, FILETIME, 0x20, sums[""], ((":zone:$DATA", 6),), "", zone),
            FileItem("Grüße an alle.txt", "file", 7, FILETIME, 0x20, sums["g"], (), "GRUSSE~1.TXT"),
            FileItem("hidden.txt", "file", 1, FILETIME, 0x22, sums["h"]),
            FileItem("large.bin", "file", 100_000, FILETIME, 0x20, sums["l"]),
            FileItem("old", "link", 0, times["old"], 0x430),
        )
    }
    assert states["gone"] == TreeState(exists=False)
    for name in ("other drive", "table there"):
        other = states[name]
        assert isinstance(other, UnreadableState)
        assert "the drive D: is on none of the disks" in other.reason
    assert isinstance(user, RegistryState)
    assert [(value.name, value.data) for value in user.values] == [("Left", b"\5\0\0\0")]
    assert states["by id"] == user
    machine = states["machine"]
    assert isinstance(machine, RegistryState)
    assert [key.path for key in machine.keys] == ["", "Window"]
    assert states["no key"] == RegistryState(exists=False)
    assert isinstance(states["windows"], UnreadableState)
    assert "does not show windows" in states["windows"].reason


def test_trees_are_listed_in_the_order_and_words_of_the_probe(guest: OfflineGuest) -> None:
    answer = guest.probe("files", "--streams", "C:\\DSWIN\\", r"\\?\C:\DSWIN\empty", r"C:\DSWIN\OLD")
    assert [(root.path, root.exists, root.type) for root in answer.roots] == [
        ("C:\\DSWIN\\", True, "dir"), (r"C:\DSWIN\empty", True, "file"), (r"C:\DSWIN\OLD", True, "link"),
    ]  # fmt: skip
    assert [entry.path for entry in answer.files if entry.root == 0] == [
        "DATA", r"DATA\PATIENT.DBF", "empty", "Grüße an alle.txt", "hidden.txt", "large.bin", "old",
    ]  # fmt: skip
    link = answer.files[-1]
    assert (link.path, link.kind, link.tag, link.streams) == ("", "link", 0xA0000003, None)
    assert answer.files[-2].streams is not None
    assert answer.files[-2].streams[0].name == ":zone:$DATA"
    assert answer.count == len(answer.roots) + len(answer.files)
    top = guest.probe("files", "C:\\")
    assert {entry.path for entry in top.files if "\\" not in entry.path} == {"DSWIN", "Users", "Windows"}


def test_hashes_and_contents(guest: OfflineGuest) -> None:
    answer = guest.probe("hash", r"C:\DSWIN\hidden.txt", r"C:\DSWIN\none", r"C:\DSWIN", r"x")
    assert [(entry.path, entry.root, entry.sha256) for entry in answer.files] == [
        (r"C:\DSWIN\hidden.txt", 0, hashlib.sha256(b"h").hexdigest())
    ]
    assert [(fault.root, fault.code) for fault in answer.faults] == [(1, 2), (2, 0x20000004), (3, 123)]
    read = guest.probe("read", r"C:\DSWIN\empty:zone")
    assert (read.data, read.files[0].size) == (b"[Zone]", 6)
    with pytest.raises(ProbeError) as caught:
        guest.probe("read", r"C:\none")
    assert caught.value.code == 2


def test_reading_tells_missing_from_unreadable(guest: OfflineGuest) -> None:
    assert guest.read(PureWindowsPath(r"C:\dswin\GRÜẞE AN ALLE.TXT".replace("ẞ", "ß")), limit=7) == "Grüße".encode()
    assert guest.read(PureWindowsPath(r"C:\DSWIN\grusse~1.txt"), limit=100) == "Grüße".encode()
    for path in (r"C:\none", r"C:\DSWIN\none\x", r"C:\DSWIN\hidden.txt\x", r"C:\DSWIN\empty:none"):
        with pytest.raises(GuestNotFound):
            guest.read(PureWindowsPath(path), limit=100)
    for path, why in (
        (r"C:\DSWIN", "no plain file"), (r"C:\DSWIN\large.bin", "more than the 100"), (r"C:\DSWIN\old", "a link"),
        (r"C:\DSWIN\old\x", r"link to C:\\Archive"), (r"DSWIN\x", "no absolute path"), (r"\\server\share\x", "no absolute path"),
        (r"C:\a*", "no absolute path"), (r"D:\x", "the drive D: is on none of the disks"),
    ):  # fmt: skip
        with pytest.raises(Unreadable, match=why):
            guest.read(PureWindowsPath(path), limit=100)
    with pytest.raises(Unreadable, match="in time"):
        guest.read(PureWindowsPath(r"C:\DSWIN\large.bin"), limit=1 << 20, timeout=-1)


def test_a_tree_below_a_link_is_unreadable_not_missing(guest: OfflineGuest) -> None:
    answer = guest.probe("files", r"C:\DSWIN\old\x")
    assert answer.roots[0].exists is None
    assert "Archive" in answer.faults[0].message


def test_a_flat_listing_holds_a_folders_own_entries(guest: OfflineGuest) -> None:
    whole, flat = guest.probe("files", "C:\\"), guest.probe("files", "--flat", "C:\\")
    assert flat.files == tuple(entry for entry in whole.files if "\\" not in entry.path)
    assert len(flat.files) < len(whole.files)


def test_bounds_of_a_request_hold(guest: OfflineGuest) -> None:
    for option in (["--max-entries", "3"], ["--max-depth", "1"], ["--hash", "--max-read", "10"]):
        with pytest.raises(ProbeError) as caught:
            guest.probe("files", *option, "C:\\")
        assert caught.value.status == "truncated"
    for wrong in (["--max-depth", "257"], ["--max-depth"], ["--what"], ["--max-depth", "-1"]):
        with pytest.raises(ProbeError):
            guest.probe("files", *wrong, "C:\\")
    with pytest.raises(ProbeError, match="in time"):
        guest.probe("files", "C:\\", timeout=-1)
    with pytest.raises(ProbeError):
        guest.probe("dance")


def test_nothing_can_be_done_to_a_disk(guest: OfflineGuest) -> None:
    with pytest.raises(Unreadable, match="never changed"):
        guest.write(PureWindowsPath(r"C:\x"), b"")
    with pytest.raises(Unreadable, match="cannot be run"):
        guest.run(["x"], timeout=1)
    with pytest.raises(Unreadable, match="cannot be started"):
        guest.start(["x"])


def test_windows_are_asked_of_the_living_machine(volume: Volume) -> None:
    live = FakeGuest()
    live.windows = [window("Patients")]
    guest = OfflineGuest({"C": volume}, live)
    assert [entry.title for entry in guest.probe("windows").windows if entry.visible] == ["Patients"]


def test_whose_registry_is_not_guessed(volume: Volume, tmp_path: Path) -> None:
    volumes.format_volume(tmp_path / "v", 16 << 20)
    with volumes.mounted(tmp_path / "v", tmp_path / "m") as top:
        for name in ("anna", "bert"):
            (top / "Users" / name).mkdir(parents=True)
            (top / "Users" / name / "NTUSER.DAT").write_bytes(write(replace(NTUSER)))
    with open_disk(tmp_path / "v", "raw") as disk:
        several = Volume(disk)
        with pytest.raises(Unreadable, match="anna, bert"):
            OfflineGuest({"C": several}).probe("registry", "--", r"HKCU\Software\DSWin")
        assert OfflineGuest({"C": several}, user="Bert").probe("registry", "--", r"HKCU\Software\DSWin").values
        with pytest.raises(Unreadable, match=r"has no C:\\Windows\\System32\\config\\SOFTWARE.*Wine"):
            OfflineGuest({"C": several}).probe("registry", "--view", "64", "--", r"HKLM\SOFTWARE\DSWin")
    with pytest.raises(Unreadable, match="no profile of carla"):
        OfflineGuest({"C": volume}, user="carla").probe("registry", "--", r"HKCU\Software\DSWin")


def test_damage_is_a_fault_and_makes_the_tree_unreadable() -> None:
    torn = bytearray(simple(21, "torn"))
    torn[1023] ^= 1
    top = root((20, "good"), (21, "torn"), (22, "gone"), (23, "..\\evil"))
    tiny = Tiny({5: top, 20: simple(20, "good"), 21: bytes(torn), 23: simple(23, "x")})
    guest = OfflineGuest({"C": Volume(Memory(tiny.bytes()))})
    answer = guest.probe("files", "C:\\")
    assert [entry.path for entry in answer.files] == ["good"]
    assert [(fault.path, fault.code) for fault in answer.faults] == [
        ("C:\\torn", 1392), ("C:\\gone", 1392), ("C:\\..\\evil", 1392),
    ]  # fmt: skip
    with pytest.raises(Unreadable, match="torn"):
        capture_trees.read_tree(guest, FileTree(files="C:\\"), None)


def test_a_folder_that_lies_in_itself_is_refused() -> None:
    one = record(20, standard(0x10), file_name(5, "one"), folder([(21, name_key(20, "two"))]), is_folder=True)
    two = record(21, standard(0x10), file_name(20, "two"), folder([(20, name_key(21, "one"))]), is_folder=True)
    guest = OfflineGuest({"C": Volume(Memory(Tiny({5: root((20, "one")), 20: one, 21: two}).bytes()))})
    with pytest.raises(Unreadable, match="leads back"):
        guest.probe("files", "C:\\one")
