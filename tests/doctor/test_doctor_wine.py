"""On the embedded machine all is well, and each thing that can be wrong with a machine is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.display.rfb import RfbClient
from runner.doctor import machine as looking
from runner.doctor.examination import examine
from runner.findings import Finding
from runner.guests.base import Guest
from runner.machines.base import Tag
from runner.machines.images import DisplaySize, Image
from runner.machines.wine import WineCheckpoint, WineMachine, WineProvider
from tests.conformance import bent

pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def machine(checkpoint: WineCheckpoint) -> Iterator[WineMachine]:
    made = checkpoint.clone(Tag("tests", "doctor"))
    yield made
    made.discard()


def look(name: str, machine: Any, image: Image) -> Finding:
    finding = dict(looking.looks(machine, image))[name]()
    assert finding.name == name
    assert finding.remedy or finding.ok
    return finding


def test_all_is_well_with_the_embedded_machine_and_nothing_is_left_of_it() -> None:
    found = list(examine("dentadesk", "noop", folder=Path.cwd()))
    assert [finding for finding in found if finding.ok is not True] == []
    assert {"host", "image", "provider", "machine", "guest", "display", "keyboard", "agent"} == {
        finding.name.partition(":")[0] for finding in found
    }
    assert not [item for item in WineProvider().leftovers() if item.campaign == "doctor"]


@pytest.mark.parametrize(
    ("guest", "name", "said"),
    [
        (bent.AlwaysEndsWell, "guest: channel", "said to have ended with 0"),
        (bent.EmptyForMissing, "guest: channel", None),
        (bent.ServiceSession, "guest: session", "session 0"),
        (bent.WrongClock, "guest: clock", "60.0 s off"),
        (bent.WrongClock, "guest: time zone", "+0 h from UTC, but"),
    ],
)
def test_a_guest_with_a_fault(
    machine: WineMachine, image: Image, guest: Callable[[Guest], Guest], name: str, said: str | None
) -> None:
    finding = look(name, bent.BentMachine(machine, machine.tag, guest), image)
    assert finding.ok is (said is None)
    assert said is None or said in finding.message


def test_a_screen_of_another_size_than_the_manifest_says(machine: WineMachine, image: Image) -> None:
    other = Image(image.manifest.model_copy(update={"display": DisplaySize(width=800, height=600)}), image.path)
    finding = look("display: size", machine, other)
    assert finding.ok is False
    assert finding.message == "1024 x 768, but the manifest says 800 x 600"


def test_a_blank_screen(machine: WineMachine, image: Image) -> None:
    from tests.peers.rfb_server import FakeRfbServer

    class Blank(bent.BentMachine):
        @property
        def display(self) -> Any:
            return type(machine.display)("127.0.0.1", server.port, None)

    with FakeRfbServer() as server:
        assert look("display: picture", Blank(machine, machine.tag), image).ok is False


def test_a_keyboard_of_another_layout(machine: WineMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    typing = RfbClient.type_text
    german = str.maketrans("yzYZ", "zyZY")

    def on_another_layout(screen: RfbClient, text: str, interval: float = 0.01) -> None:
        typing(screen, text.translate(german), interval)

    monkeypatch.setattr(RfbClient, "type_text", on_another_layout)
    finding = looking.typing(machine, "keyboard", "wxyzWXYZ-1")
    assert finding.ok is False
    assert "y arrives as 'z'" in finding.message
    assert "German and US layout" in finding.remedy
