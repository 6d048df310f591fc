"""A disk of the image or the checkpoint is missing or altered: an error that names it, never another disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.machines.base import MachineError, Tag
from tests.peers.fake_libvirt import FakeHost, machine_folders, pretend


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHost:
    return pretend(monkeypatch, tmp_path)


def test_an_altered_disk_is_found_before_each_clone(host: FakeHost, tmp_path: Path) -> None:
    checkpoint = host.checkpoint()
    disk = tmp_path / "system.qcow2"
    content = disk.read_bytes()
    disk.write_bytes(content[:-1] + b"\x01")
    with pytest.raises(MachineError, match=r"system\.qcow2 was altered"):
        checkpoint.clone(Tag("c", "r"))
    with pytest.raises(MachineError, match=r"system\.qcow2 was altered"):
        host.checkpoint()
    disk.write_bytes(content)  # the same contents are the same disk
    checkpoint.clone(Tag("c", "r2")).discard()


def test_a_missing_disk_is_named(host: FakeHost, tmp_path: Path) -> None:
    checkpoint = host.checkpoint()
    (tmp_path / "data.qcow2").unlink()
    with pytest.raises(MachineError, match=r"data\.qcow2 is missing"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []


@pytest.mark.parametrize("name", ["vdb.qcow2", "devices"])
def test_an_altered_checkpoint_is_not_used(host: FakeHost, name: str) -> None:
    checkpoint = host.checkpoint()
    file = checkpoint.kept.state / name
    file.chmod(0o644)
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(MachineError, match="changed after it was sealed"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []


def test_a_missing_checkpoint_is_not_replaced_in_mid_campaign(host: FakeHost) -> None:
    checkpoint = host.checkpoint()
    checkpoint.kept.state.rename(checkpoint.kept.state.with_name("aside"))
    with pytest.raises(MachineError, match="missing"):
        checkpoint.clone(Tag("c", "r"))


def test_a_checkpoint_that_is_half_made_is_never_used(host: FakeHost) -> None:
    def fail(call: str, arguments: object) -> None:
        if call == "save_memory":
            raise OSError(28, "No space left on device")

    host.hypervisor.on_call = fail
    with pytest.raises(MachineError, match="disk is full"):
        host.checkpoint()
    assert host.hypervisor.domains == {}
    host.hypervisor.on_call = lambda call, arguments: None
    checkpoint = host.checkpoint()
    assert host.hypervisor.calls.count("save_memory") == 2  # made anew, not found
    checkpoint.clone(Tag("c", "r")).discard()
