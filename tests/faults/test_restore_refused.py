"""The saved memory is refused: a clone starts from the disk of the same checkpoint and says why; nothing else is ever taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.machines.base import MachineError, Tag
from runner.machines.readiness import NONCE
from runner.machines.virt.hypervisor import HypervisorError
from tests.peers.fake_libvirt import FakeHost, machine_folders, pretend


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHost:
    return pretend(monkeypatch, tmp_path)


def refuse(call: str, arguments: dict[str, Any]) -> None:
    if call == "load_memory":
        raise HypervisorError("memory", "the saved memory was not taken over; QEMU says: internal-error")


def test_the_clone_starts_from_the_disk_and_says_why(host: FakeHost) -> None:
    checkpoint = host.checkpoint()
    assert checkpoint.why_cold is None
    host.hypervisor.on_call = refuse
    machine = checkpoint.clone(Tag("c", "r"))
    assert machine.why_cold is not None
    assert "was not taken over" in machine.why_cold
    assert any("was not taken over" in said for said in host.said)
    assert machine_folders() == [machine.id]  # nothing is left of the one that was refused
    assert list(host.hypervisor.domains) == [machine.id]
    assert "memory-backend-file" not in host.hypervisor.xml[machine.id]

    again = checkpoint.clone(Tag("c", "r2"))  # not tried anew each time
    assert host.hypervisor.calls.count("load_memory") == 1
    for made in (machine, again):
        made.discard()
    assert machine_folders() == []


def test_both_kinds_of_clone_lie_on_the_same_image_and_tell_their_layers_apart(host: FakeHost) -> None:
    checkpoint = host.checkpoint()
    warm = checkpoint.clone(Tag("c", "r"))
    host.hypervisor.on_call = refuse
    cold = checkpoint.clone(Tag("c", "r2"))
    assert warm.freshness.base == cold.freshness.base
    assert warm.freshness.layers != cold.freshness.layers
    for made in (warm, cold):
        made.discard()


def test_a_clone_that_fails_otherwise_is_no_reason_to_start_from_the_disk(host: FakeHost) -> None:
    def lose(call: str, arguments: dict[str, Any]) -> None:
        if call == "load_memory":
            raise HypervisorError("connection", "libvirt's process has ended")

    checkpoint = host.checkpoint()
    host.hypervisor.on_call = lose
    with pytest.raises(MachineError, match="could not be started"):
        checkpoint.clone(Tag("c", "r"))
    assert checkpoint.why_cold is None
    assert machine_folders() == []
    assert host.hypervisor.domains == {}


@pytest.mark.parametrize("refused", ["create", "save_memory"])
def test_a_host_that_cannot_save_a_memory_keeps_the_disk(host: FakeHost, refused: str) -> None:
    def refuse_to_save(call: str, arguments: dict[str, Any]) -> None:
        if call == refused and "memory-backend-file" in arguments.get("xml", "memory-backend-file"):
            raise HypervisorError("operation", "can't open backing store for guest RAM: Permission denied")

    host.hypervisor.on_call = refuse_to_save
    checkpoint = host.checkpoint()
    assert checkpoint.kept.kind == "disk"
    machine = checkpoint.clone(Tag("c", "r"))
    assert machine.why_cold is not None
    assert "Permission denied" in machine.why_cold
    assert any("Permission denied" in said for said in host.said)
    machine.discard()
    assert host.hypervisor.domains == {}


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"checkpoint": "disk"}, "asks for it"),
        ({"tpm": "true"}, "TPM"),
        ({"firmware": "uefi"}, "UEFI"),
    ],
)
def test_what_cannot_be_saved_with_its_memory_starts_from_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: dict[str, str], reason: str
) -> None:
    host = pretend(monkeypatch, tmp_path, **part)
    host.hypervisor.uefi = host.hypervisor.tpm = True
    checkpoint = host.checkpoint()
    machine = checkpoint.clone(Tag("c", "r"))
    assert machine.why_cold is not None
    assert reason in machine.why_cold
    assert "save_memory" not in host.hypervisor.calls
    machine.discard()


@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize("nonce", [b"another's", b"", None], ids=["another", "empty", "missing"])
def test_a_machine_that_is_not_in_its_checkpoints_state_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, nonce: bytes | None
) -> None:
    """As one that somebody used before, or that was made from something else: what is planted in it reads back all the same."""
    host = pretend(monkeypatch, tmp_path, checkpoint=kind)
    checkpoint = host.checkpoint()
    host.found_nonce = lambda planted: nonce
    with pytest.raises(MachineError, match="not in its checkpoint's state" if nonce is not None else "freshness"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []
    assert host.hypervisor.domains == {}


def test_each_clone_has_a_nonce_of_its_own_in_place_of_the_checkpoints(host: FakeHost) -> None:
    checkpoint = host.checkpoint()
    planted = host.guests[-1].node(str(NONCE)).data.decode()
    assert checkpoint.kept.nonce() == planted
    machines = [checkpoint.clone(Tag("c", f"r{number}")) for number in range(2)]
    assert len({planted, *(machine.freshness.nonce for machine in machines)}) == 3
    for machine, guest in zip(machines, host.guests[-2:], strict=True):
        assert guest.node(str(NONCE)).data.decode() == machine.freshness.nonce
        machine.discard()
