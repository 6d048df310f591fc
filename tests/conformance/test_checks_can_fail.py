"""Every kind of fault makes the checks fail that are about it, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.conformance import guest_programs, machine_checks, props
from runner.conformance.scene import Scene
from runner.conformance.suite import What, chosen, run
from runner.guests.base import Guest
from runner.machines.base import Leftover, Machine, MachineError, MachineProvider, Tag
from runner.machines.images import Image
from runner.machines.wine import WineCheckpoint, WineMachine, WineProvider
from tests.conformance import bent

pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def machine(checkpoint: WineCheckpoint) -> Iterator[WineMachine]:
    made = checkpoint.clone(Tag("tests", "bent"))
    yield made
    made.discard()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What never comes is waited for no longer than needed to see that it does not."""

    def until(ask: Callable[[], Any], otherwise: str, seconds: float = 20.0) -> Any:
        return props.until(ask, otherwise, min(seconds, 3.0))

    for module in (guest_programs, machine_checks):
        monkeypatch.setattr(module, "until", until)


def outcomes(what: What, provider: MachineProvider, image: Image, patterns: str) -> dict[str, str]:
    """What the checks come to whose names fit one of the patterns."""
    wanted = [check for pattern in patterns.split() for check in chosen(what, pattern, quick=True)]
    results = list(run(wanted, lambda: Scene(provider, image, folder=Path.cwd())))
    assert all(result.detail for result in results if result.outcome == "failed")
    return {result.check.name: result.outcome for result in results}


def failed(found: dict[str, str]) -> set[str]:
    return {name for name, outcome in found.items() if outcome == "failed"}


@pytest.mark.parametrize(
    ("guest", "patterns", "wanted"),
    [
        (bent.SwallowsOutput, "run-st* run-folder run-output-*", "run-streams run-folder run-output-large run-output-limit"),
        (bent.MixesStreams, "run-st* run-output-*", "run-streams run-output-large"),
        (bent.AlwaysEndsWell, "run-st* run-missing", "run-status run-status-not-zero run-status-large run-missing"),
        (bent.LosesHighBits, "run-st*", "run-status-not-zero"),
        (bent.LetsChildrenLive, "run-timeout*", "run-timeout-kills"),
        (bent.IgnoresLimits, "read-limit read-binary run-output-*", "read-limit run-output-limit"),
        (bent.TouchesTimes, "read-binary read-case read-limit read-no-trace list-*", "read-no-trace"),
        (bent.TextMode, "read-binary read-case read-limit read-empty list-*", "read-binary"),
        (bent.EmptyForMissing, "read-missing read-folder read-limit read-empty", "read-missing"),
        (bent.AnsiPaths, "path-umlauts path-signs path-long read-case", "path-umlauts"),
        (bent.KeepsEnds, "write-again read-binary read-empty", "write-again"),
        (bent.ServiceSession, "probe-* start-window", "probe-session start-window"),
        (bent.WrongClock, "clock-*", "clock-offset clock-zone"),
        (bent.ForgetsFiles, "list-*", "list-complete"),
    ],
)  # fmt: skip
def test_a_guest_with_one_fault_fails_the_checks_of_it(
    machine: WineMachine, image: Image, guest: Callable[[Guest], Guest], patterns: str, wanted: str
) -> None:
    found = outcomes("guest", bent.OneForAll(machine, guest), image, patterns)
    assert failed(found) == set(wanted.split())
    assert len(found) > len(failed(found)) or guest is bent.AlwaysEndsWell


def test_clones_that_are_one_machine_see_each_other(image: Image, checkpoint: WineCheckpoint) -> None:
    spoilt = checkpoint.clone(Tag("tests", "one-for-all"))
    try:
        found = outcomes("machine", bent.OneForAll(spoilt), image, "clones-* later-* machine-listed machine-alive")
    finally:
        spoilt.discard()
    passed = {name for name, outcome in found.items() if outcome == "passed"}
    assert passed == {"clones-clocks", "later-base", "machine-alive"}


class LeavesThings(WineProvider):
    """Its machine is not removed when it is discarded."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[Machine] = []

    def prepare(self, *given: Any, **named: Any) -> Any:
        checkpoint = super().prepare(*given, **named)
        clone = checkpoint.clone

        def bent_clone(tag: Tag) -> Machine:
            made = clone(tag)
            if tag.run != "departed":
                return made
            self.left.append(made)
            return bent.BentMachine(made, tag)

        checkpoint.clone = bent_clone  # type: ignore[method-assign, assignment]
        return checkpoint


def test_a_discard_that_removes_nothing_is_found_by_every_trace(image: Image) -> None:
    provider = LeavesThings()
    patterns = "discard-list discard-folder discard-processes discard-display discard-guest machine-listed"
    try:
        found = outcomes("machine", provider, image, patterns)
    finally:
        for machine in provider.left:
            machine.discard()
    assert failed(found) == {*patterns.split()} - {"machine-listed"}


class LooseDisplay(bent.BentMachine):
    """A machine whose screen is another's: of another size, blank, and open to everybody."""

    def __init__(self, inner: Machine, tag: Tag, port: int) -> None:
        super().__init__(inner, tag)
        self._port = port

    @property
    def display(self) -> Any:
        return type(self.inner.display)("127.0.0.1", self._port, None)


def test_a_display_that_is_blank_small_and_open_is_found(machine: WineMachine, image: Image) -> None:
    from tests.peers.rfb_server import FakeRfbServer

    class Provider(bent.OneForAll):
        def clone(self, tag: Tag) -> Machine:
            return LooseDisplay(machine, tag, server.port)

    with FakeRfbServer() as server:
        found = outcomes(
            "machine", Provider(machine), image, "display-size display-frame display-password display-viewers"
        )
    assert failed(found) == {"display-size", "display-frame", "display-password"}


class NoMachines:
    """A provider that cannot make any."""

    def prepare(self, image: object, setup: object, start: object, *, folder: Path) -> Any:
        raise MachineError("the disk is missing")

    def leftovers(self) -> tuple[Leftover, ...]:
        return ()

    def reap(self, leftover: Leftover) -> None:
        pass


def test_without_any_machine_every_check_fails_with_the_reason(image: Image) -> None:
    results = list(run(chosen("guest"), lambda: Scene(NoMachines(), image, folder=Path.cwd())))
    assert {result.outcome for result in results} == {"failed"}
    assert all("the disk is missing" in result.detail for result in results)
