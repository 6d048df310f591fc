"""A volume that Wine keeps: the disk shows the same state that the probe shows while the machine runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import cast

import pytest

from contracts.schema import FileTree
from runner import capture_trees
from runner.guests.base import Guest
from runner.guests.offline import OfflineGuest
from runner.guests.probe import ProbeResult
from runner.offline.disk import open_disk
from runner.offline.ntfs.volume import Volume
from tests.offline import volumes
from tests.runner.test_probe_native import Machine, machine  # noqa: F401 - a fixture
from validators.files import FileItem, TreeState

pytestmark = pytest.mark.machine

TREE = FileTree(files="N:\\tree")


@dataclass
class Live:
    """The probe under Wine as a guest."""

    machine: Machine
    drive: Path

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        return self.machine.probe(*argv)

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        return self.drive.joinpath(*path.parts[1:]).read_bytes()


def test_the_disk_shows_what_the_probe_shows(machine: Machine, tmp_path: Path) -> None:  # noqa: F811
    image = tmp_path / "v"
    volumes.format_volume(image, 32 << 20)
    with volumes.mounted(image, tmp_path / "m", "permissions,streams_interface=xattr,windows_names") as drive:
        (machine.prefix / "dosdevices" / "n:").symlink_to(drive)
        top = drive / "tree"
        (top / "Data" / "deep").mkdir(parents=True)
        (top / "Data" / "PATIENT.DBF").write_bytes(os.urandom(70_000))
        (top / "Data" / "deep" / "x.txt").write_bytes(b"x")
        (top / "Grüße an alle.txt").write_bytes(b"small")
        (top / ("n" * 250)).write_bytes(b"long")
        (top / "empty").touch()
        for name in ("hidden.txt", "system.txt", "both.txt", "readonly.txt"):
            (top / name).write_bytes(name.encode())
        batch = "attrib +h hidden.txt&attrib +s system.txt&attrib +h both.txt&attrib +s both.txt&attrib +r readonly.txt"
        assert machine.wine("cmd", "/c", f"n:&cd \\tree&{batch}").returncode == 0
        os.utime(top / "empty", ns=(10**18, 10**18 + 123_456_700))
        live = capture_trees.read_tree(cast(Guest, Live(machine, drive)), TREE, None)
    with open_disk(image, "raw") as disk:
        offline = capture_trees.read_tree(OfflineGuest({"N": Volume(disk, by_wine=True)}), TREE, None)
    assert {item.path: item for item in comparable(live)} == {item.path: item for item in comparable(offline)}
    attributes = {item.path: item.attributes for item in offline.items}
    assert (attributes["hidden.txt"], attributes["both.txt"], attributes["readonly.txt"]) == (0x22, 0x26, 0x21)
    assert len(offline.items) == 11


def comparable(state: TreeState) -> list[FileItem]:
    """Its entries without the 8.3 names, which Wine makes up and does not keep."""
    return [replace(item, short="") for item in state.items]
