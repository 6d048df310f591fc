"""The guest agent does not answer after the restore, or the machine dies meanwhile: no machine, and nothing left of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.guests.base import GuestLost
from runner.machines import libvirt
from runner.machines.base import MachineError, Tag
from tests.peers.fake_libvirt import FakeVmGuest, machine_folders, pretend


class Mute(FakeVmGuest):
    answers = False


def test_silence_ends_at_a_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()
    monkeypatch.setattr(libvirt, "_RESTORED_SECONDS", 0.2)
    host.new_guest = Mute
    with pytest.raises(MachineError, match=r"guest agent of .* did not answer within"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []
    assert host.hypervisor.domains == {}


def test_a_machine_that_dies_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()

    class Dying(FakeVmGuest):
        def ping(self, *, timeout: float = 5.0) -> None:
            host.hypervisor.domains.clear()
            raise GuestLost("the guest agent does not answer")

    host.new_guest = Dying
    with pytest.raises(MachineError, match="is gone instead of running"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []


def test_an_agent_that_answers_pings_only_proves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Hollow(FakeVmGuest):
        def write_file(self, path: str, data: bytes, *, deadline: float) -> None:
            raise GuestLost("the guest agent does not answer (guest-file-open)")

    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()
    host.new_guest = Hollow
    with pytest.raises(MachineError, match="freshness could not be proven"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []
