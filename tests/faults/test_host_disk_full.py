"""The host's disk is full: told as such, before a clone starts or while it runs; the machine is of no more use."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.machines.base import MachineError, Tag
from tests.peers.fake_libvirt import machine_folders, pretend


def test_a_clone_whose_overlay_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()

    def full(source: Any, target: Any, **more: Any) -> None:
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfile", full)
        with pytest.raises(MachineError, match="host's disk is full"):
            checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []
    assert host.hypervisor.domains == {}
    checkpoint.clone(Tag("c", "r2")).discard()  # once there is space again


def test_a_machine_that_qemu_stops_for_want_of_space_is_not_alive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = pretend(monkeypatch, tmp_path)
    machine = host.checkpoint().clone(Tag("c", "r"))
    host.hypervisor.domains[machine.id] = "paused"
    with pytest.raises(MachineError, match="full disk of the host"):
        machine.ensure_alive()
    machine.discard()
