"""Overlays and copies of disks: made from nothing else than what is named, and errors in plain words."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path

import pytest

from runner.machines.base import MachineError
from runner.machines.room import cannot_write
from runner.machines.virt import overlays


def disk(path: Path, size: str = "8M", kind: str = "qcow2") -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", kind, str(path), size], check=True, timeout=60)
    return path


def write(path: Path, pattern: int) -> None:
    command = ["qemu-io", "-f", "qcow2", "-c", f"write -P {pattern} 1M 64k", str(path)]
    subprocess.run(command, check=True, timeout=60, capture_output=True)


def about(path: Path) -> dict[str, object]:
    told = subprocess.run(["qemu-img", "info", "--output=json", str(path)], check=True, timeout=60, capture_output=True)
    found: dict[str, object] = json.loads(told.stdout)
    return found


@pytest.mark.parametrize("kind", ["qcow2", "raw"])
def test_an_overlay_lies_on_the_disk_that_is_named(tmp_path: Path, kind: str) -> None:
    base = disk(tmp_path / "base", kind=kind)
    overlays.create(tmp_path / "overlay", base, kind)
    told = about(tmp_path / "overlay")
    assert (told["full-backing-filename"], told["backing-filename-format"]) == (str(base), kind)
    assert told["virtual-size"] == 8 << 20


def test_a_template_names_the_place_where_its_base_will_lie(tmp_path: Path) -> None:
    (tmp_path / "unfinished").mkdir()
    base = disk(tmp_path / "unfinished" / "vda.qcow2")
    overlays.create(tmp_path / "template", base, will_be=tmp_path / "kept" / "vda.qcow2")
    (tmp_path / "unfinished").rename(tmp_path / "kept")
    overlays.clone(tmp_path / "template", tmp_path / "clone.qcow2")
    assert about(tmp_path / "clone.qcow2")["full-backing-filename"] == str(tmp_path / "kept" / "vda.qcow2")
    kept = (tmp_path / "kept" / "vda.qcow2").read_bytes()
    write(tmp_path / "clone.qcow2", 7)
    assert (tmp_path / "kept" / "vda.qcow2").read_bytes() == kept


def test_a_copy_holds_the_same_and_lives_by_itself(tmp_path: Path) -> None:
    base = disk(tmp_path / "base")
    overlays.create(tmp_path / "overlay", base)
    write(tmp_path / "overlay", 1)
    overlays.copy(tmp_path / "overlay", tmp_path / "copy", timeout=60)
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "overlay").read_bytes()
    taken = (tmp_path / "copy").read_bytes()
    write(tmp_path / "overlay", 2)
    assert (tmp_path / "copy").read_bytes() == taken


def test_a_missing_base_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="nowhere"):
        overlays.create(tmp_path / "overlay", tmp_path / "nowhere.qcow2")
    with pytest.raises(MachineError, match="could not be copied"):
        overlays.copy(tmp_path / "nowhere", tmp_path / "copy", timeout=60)
    with pytest.raises(MachineError, match="cannot be used as a disk"):
        overlays.virtual_size(tmp_path / "nowhere")


def test_a_full_disk_is_called_that(tmp_path: Path) -> None:
    full = cannot_write(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert "the host's disk is full" in str(full)
    assert "full" not in str(cannot_write(OSError(errno.EACCES, "Permission denied"), Path("x")))
