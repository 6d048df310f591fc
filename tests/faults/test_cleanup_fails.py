"""A machine that cannot be removed is quarantined: listed with its tag until ``machines reap`` removes it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.machines.base import MachineError, Tag
from runner.machines.virt import reaper
from runner.machines.virt.hypervisor import HypervisorError
from tests.peers.fake_libvirt import FakeHost, machine_folders, pretend


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHost:
    made = pretend(monkeypatch, tmp_path, uri="qemu:///system")
    made.hypervisor.uri, made.hypervisor.embedded = "qemu:///system", False
    monkeypatch.setattr(reaper, "hypervisor", lambda uri: made.hypervisor)
    return made


def stuck(call: str, arguments: dict[str, Any]) -> None:
    if call == "destroy":
        raise HypervisorError("operation", "Failed to terminate process 4711 with SIGKILL: Device or resource busy")


def test_it_is_quarantined_listed_and_reaped(host: FakeHost) -> None:
    machine = host.checkpoint().clone(Tag("campaign-1", "run-1"))
    host.hypervisor.on_call = stuck
    with pytest.raises(MachineError, match="Failed to terminate"):
        machine.discard()
    (left,) = host.provider().leftovers()
    assert (left.name, left.campaign, left.run, left.alive) == (machine.id, "campaign-1", "run-1", False)
    assert "Failed to terminate" in json.loads((left.folder / "machine.json").read_text())["quarantined"]
    with pytest.raises(MachineError):
        host.provider().reap(left)
    assert machine_folders() == [machine.id]  # a failed attempt loses nothing

    host.hypervisor.on_call = lambda call, arguments: None
    host.provider().reap(left)
    assert host.provider().leftovers() == []
    assert host.hypervisor.domains == {}


def test_a_start_that_fails_is_told_even_if_its_cleanup_fails_too(host: FakeHost) -> None:
    def broken(call: str, arguments: dict[str, Any]) -> None:
        stuck(call, arguments)
        if call == "create":
            raise HypervisorError(
                "operation", "internal error: process exited while connecting to monitor: out of memory"
            )

    checkpoint = host.checkpoint()
    checkpoint.why_cold = "so that the error is not taken for a refused memory"
    checkpoint._cold = checkpoint.kept
    host.hypervisor.on_call = broken
    with pytest.raises(MachineError, match="out of memory"):
        checkpoint.clone(Tag("c", "r"))
    assert [left.alive for left in host.provider().leftovers()] == [False]


def test_a_living_machine_is_not_reaped(host: FakeHost) -> None:
    machine = host.checkpoint().clone(Tag("c", "r"))
    (left,) = host.provider().leftovers()
    assert left.alive
    with pytest.raises(MachineError, match="in use by the runner"):
        host.provider().reap(left)
    machine.discard()


def test_a_tagged_domain_without_a_folder_is_found_and_removed(host: FakeHost) -> None:
    machine = host.checkpoint().clone(Tag("c", "r"))
    xml = host.hypervisor.xml[machine.id]
    machine.discard()
    host.hypervisor.domains |= {machine.id: "running", "strangers": "running"}
    host.hypervisor.xml |= {machine.id: xml, "strangers": "<domain/>"}
    (left,) = [each for each in host.provider().leftovers() if each.name == machine.id]
    assert not left.alive
    host.provider().reap(left)
    assert host.hypervisor.domains == {"strangers": "running"}
