"""A clone's clock stands where its checkpoint was saved: it is set and measured, and a machine whose clock stays wrong is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.machines.base import MachineError, Tag
from runner.machines.readiness import MAX_CLOCK_OFFSET, clock_offset
from tests.peers.fake_libvirt import FakeVmGuest, machine_folders, pretend

DAY = 86_400


def asleep(*, settable: bool) -> FakeVmGuest:
    guest = FakeVmGuest()
    guest.offset, guest.settable = -DAY, settable
    return guest


def test_a_clock_that_stood_still_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()
    host.new_guest = lambda: asleep(settable=True)
    machine = checkpoint.clone(Tag("c", "r"))
    assert abs(machine.freshness.clock_offset) < 5
    machine.discard()


def test_a_clock_that_stays_wrong_makes_no_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()
    host.new_guest = lambda: asleep(settable=False)
    with pytest.raises(MachineError, match=r"clock is -8\d{4}\.\d s off"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []
    assert host.hypervisor.domains == {}


@pytest.mark.parametrize(
    ("shown", "offset"),
    [(100.0, 0.0), (130.0, 0.0), (103.2, 0.0), (99.5, -0.5), (131.0004, 1.0), (95.0, -5.0), (135.0, 5.0)],
)
def test_only_what_lies_outside_of_a_slow_answer_is_an_offset(shown: float, offset: float) -> None:
    assert clock_offset(shown, asked=100.0, answered=130.0) == offset


@pytest.mark.parametrize("shown", [100 - MAX_CLOCK_OFFSET - 0.1, 130 + MAX_CLOCK_OFFSET + 0.1, 0.0, 1e12])
def test_beyond_the_limit_there_is_no_machine(shown: float) -> None:
    with pytest.raises(MachineError, match="s off"):
        clock_offset(shown, asked=100.0, answered=130.0)
