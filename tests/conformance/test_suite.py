"""The suite itself: a check that hangs or breaks takes no other down, and machines are discarded whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.conformance.checks import Check, Failed, NotApplicable, expect_raised
from runner.conformance.host import kill_naming, processes_naming
from runner.conformance.props import until
from runner.conformance.scene import Scene
from runner.conformance.suite import run
from runner.conformance.told import as_data, explained, markdown
from runner.guests.base import GuestNotFound, Unreadable
from runner.machines.base import MachineError, Tag
from tests.peers.fake_guest import FakeGuest


class FakeMachine:
    """As much of a machine as the suite itself needs."""

    def __init__(self, tag: Tag) -> None:
        self.id = f"fake-{id(self)}"
        self.tag = tag
        self.guest = FakeGuest()
        self.discarded = 0

    def discard(self) -> None:
        self.discarded += 1
        if self.tag.run == "stuck":
            raise MachineError("it cannot be removed")


class FakeScene(Scene):
    """A scene over such machines."""

    def __init__(self, made: list[FakeMachine]) -> None:
        super().__init__(None, None, folder=Path.cwd())  # type: ignore[arg-type]
        self._fakes = made

    def clone(self, run: str, checkpoint: object = None) -> Any:
        machine = FakeMachine(Tag(self.campaign, run))
        self._fakes.append(machine)
        self._made.append(machine)  # type: ignore[arg-type]
        return machine

    def _born(self, run: str) -> Any:
        return self.clone(run)


def check(name: str, act: Callable[[Scene], object], seconds: float = 30.0) -> Check:
    def run_it(scene: Scene) -> None:
        act(scene)

    return Check(name, "It holds.", "It would not.", "Make it so.", run_it, seconds=seconds)


def raising(error: BaseException) -> Callable[[Scene], object]:
    def act(_: Scene) -> None:
        raise error

    return act


def test_each_end_of_a_check_is_told_apart() -> None:
    made: list[FakeMachine] = []
    checks = [
        check("holds", lambda _: None),
        check("does-not", raising(Failed("seen: 3"))),
        check("cannot", raising(NotApplicable("there is none"))),
        check("breaks", raising(RuntimeError("a bug"))),
        check("holds-again", lambda _: None),
    ]
    results = list(run(checks, lambda: FakeScene(made)))
    assert [(result.check.name, result.outcome, result.detail) for result in results] == [
        ("holds", "passed", ""),
        ("does-not", "failed", "seen: 3"),
        ("cannot", "not applicable", "there is none"),
        ("breaks", "failed", "RuntimeError: a bug"),
        ("holds-again", "passed", ""),
    ]
    assert [machine.discarded for machine in made] == [1]


def test_a_check_that_hangs_is_given_up_and_its_machines_replaced() -> None:
    made: list[FakeMachine] = []
    released = threading.Event()
    seen: list[object] = []

    def hang(scene: Scene) -> None:
        seen.append(scene.first)
        released.wait(60)

    def go_on(scene: Scene) -> None:
        seen.append(scene.first)

    checks = [check("hangs", hang, seconds=0.2), check("goes-on", go_on)]
    try:
        results = list(run(checks, lambda: FakeScene(made)))
    finally:
        released.set()
    assert [result.outcome for result in results] == ["failed", "passed"]
    assert "did not end within 0.2 s" in results[0].detail
    assert seen[0] is not seen[1]
    assert [machine.discarded for machine in made] == [1, 1]


def test_machines_are_discarded_when_the_one_who_asked_stops_listening() -> None:
    made: list[FakeMachine] = []
    results = run([check("one", lambda _: None), check("two", lambda _: None)], lambda: FakeScene(made))
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert [machine.discarded for machine in made] == [1]


def test_what_cannot_be_discarded_is_said() -> None:
    made: list[FakeMachine] = []
    said: list[str] = []
    list(run([check("sticks", lambda scene: scene.clone("stuck"))], lambda: FakeScene(made), warned=said.append))
    assert len(said) == 1
    assert "it cannot be removed" in said[0]


def test_another_error_than_the_one_wanted_is_a_failure() -> None:
    def unreadable() -> None:
        raise Unreadable("no")

    with pytest.raises(Failed, match="Unreadable instead of GuestNotFound"):
        expect_raised(GuestNotFound, unreadable, "a file")
    with pytest.raises(Failed, match="no GuestNotFound, but b''"):
        expect_raised(GuestNotFound, lambda: b"", "a file")
    assert str(expect_raised((GuestNotFound, Unreadable), unreadable, "a file")) == "no"


def test_results_are_told_in_words_in_markdown_and_as_data() -> None:
    checks = [check("a|b", raising(Failed("x | y\nz"))), check("cannot", raising(NotApplicable("none")))]
    results = list(run(checks, lambda: FakeScene([])))
    assert explained(results) == [
        "a|b: x | y\nz", "  should hold: It holds.", "  what it means: It would not.", "  what to do: Make it so.",
        "cannot: not applicable: none",
    ]  # fmt: skip
    assert markdown(results).splitlines()[2].endswith(r"| x \| y z |")
    assert as_data(results[0])["result"] == "failed"


def test_processes_are_found_by_a_name_that_only_they_bear() -> None:
    import subprocess
    import sys

    mark = f"mark-{id(object())}-of-a-test"
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", mark])
    try:
        # A program that has just been started shows its command line a moment later.
        assert until(lambda: processes_naming([mark]), "it is not found") == [process.pid]
        assert processes_naming(["short"]) == []
        assert kill_naming([mark]) == 1
        assert process.wait(20) == -9
        assert processes_naming([mark]) == []
    finally:
        process.kill()
        process.wait()
