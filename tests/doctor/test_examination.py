"""The examination goes on whatever goes wrong: each fault is one finding, with what to do, and never a traceback."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from runner.agents import base
from runner.commands import doctor as command
from runner.doctor import examination, host
from runner.doctor import image as looking
from runner.doctor import machine as machine_looks
from runner.findings import Finding
from runner.machines import sealing, wine_base
from runner.machines.base import Leftover, MachineError, provider
from runner.machines.images import Image

PLUG_IN_IMAGE = """\
schema: 1
name: mine
provider: mine
summary: An image of a plug-in's provider.
"""


class Provider:
    """A plug-in's provider that cannot make machines; what it finds out before is given."""

    def __init__(self, preflight: object = None) -> None:
        self._preflight = preflight

    def prepare(self, image: object, setup: object, start: object, *, folder: Path) -> Any:
        raise MachineError("the base disk is missing")

    def leftovers(self) -> Sequence[Leftover]:
        return ()

    def reap(self, leftover: Leftover) -> None:
        pass

    def preflight(self, image: Image) -> object:
        if isinstance(self._preflight, Exception):
            raise self._preflight
        return self._preflight


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LEGACYPROOF_IMAGES", str(tmp_path))
    (tmp_path / "mine.yaml").write_text(PLUG_IN_IMAGE)


def examined(name: str, agent: str | None = None, made: Provider | None = None) -> dict[str, Finding]:
    providers = (lambda _: made) if made is not None else provider
    found = list(examination.examine(name, agent, folder=Path.cwd(), providers=providers))
    assert len({finding.name for finding in found}) == len(found)
    assert all(finding.remedy for finding in found if finding.ok is not True)
    return {finding.name: finding for finding in found}


def test_an_unknown_image_names_those_there_are_and_the_host_is_looked_at_all_the_same() -> None:
    found = examined("nowhere", "noop")
    assert found["image: manifest"].ok is False
    assert "dentadesk" in found["image: manifest"].message
    assert found["host: disk"].ok is True
    assert found["agent: status"].ok is True
    assert "machine" not in found


def test_a_manifest_that_is_not_valid_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(PLUG_IN_IMAGE.replace("name: mine", "name: broken\ncolour: red"))
    found = examined("broken")
    assert found["image: manifest"].ok is False
    assert "broken.yaml:3" in found["image: manifest"].message


def test_an_unknown_provider_names_those_there_are() -> None:
    found = examined("mine")
    assert found["provider"].ok is False
    assert "wine" in found["provider"].message


def test_a_machine_that_cannot_be_made_is_told_with_the_reason() -> None:
    found = examined("mine", made=Provider([]))
    assert found["machine"].ok is False
    assert found["machine"].message == "the base disk is missing"
    assert not any(name.startswith(("guest", "display", "keyboard")) for name in found)


def test_a_providers_own_findings_are_among_them() -> None:
    own = Finding("provider: licence", False, "it has run out", "renew it")
    assert examined("mine", made=Provider([own]))["provider: licence"] == own


@pytest.mark.parametrize("preflight", [ValueError("a bug"), "all fine", [1]])
def test_a_preflight_that_breaks_or_says_nothing_of_use_could_not_tell(preflight: object) -> None:
    finding = examined("mine", made=Provider(preflight))["provider: preflight"]
    assert finding.ok is None


def test_a_look_that_breaks_could_not_tell_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Finding:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(host, "memory", broken)
    monkeypatch.setattr(host, "looks", lambda _: [("host: memory", host.memory), ("host: disk", host.disk)])
    found = examined("mine", made=Provider([]))
    assert found["host: memory"].ok is None
    assert "ZeroDivisionError: a bug" in found["host: memory"].message
    assert found["host: disk"].ok is True


def test_a_look_that_hangs_could_not_tell_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hangs() -> Finding:
        released.wait(60)
        return Finding("host: memory", True, "late")

    monkeypatch.setattr(examination, "_QUICK", 0.2)
    monkeypatch.setattr(host, "looks", lambda _: [("host: memory", hangs), ("host: disk", host.disk)])
    try:
        found = examined("mine", made=Provider([]))
    finally:
        released.set()
    assert found["host: memory"].ok is None
    assert "did not end within" in found["host: memory"].message
    assert found["host: disk"].ok is True


class OneMachine(Provider):
    """A provider of one machine, which ends with the thread that made it."""

    id = "doctor-1"
    timings: Mapping[str, float] = {}

    def __init__(self) -> None:
        super().__init__([])
        self.discarded: list[bool] = []
        self._maker: threading.Thread | None = None

    def prepare(self, image: object, setup: object, start: object, *, folder: Path) -> Any:
        return self

    def clone(self, tag: object) -> OneMachine:
        self._maker = threading.current_thread()
        return self

    def discard(self) -> None:
        """Notes whether the machine was still there."""
        assert self._maker is not None
        self._maker.join(0.3)  # a thread that is let go of ends at once
        self.discarded.append(self._maker.is_alive())


def test_a_machine_that_hung_in_a_look_is_discarded_whole_and_not_looked_at_any_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released, looked = threading.Event(), threading.Event()

    def hangs() -> Finding:
        released.wait(60)
        return Finding("guest: channel", True, "late")

    def other() -> Finding:
        looked.set()
        return Finding("guest: session", True, "it was looked at")

    def looks(_machine: object, _image: Image) -> Iterator[machine_looks.Look]:
        yield "guest: clock", lambda: Finding("guest: clock", True, "right")
        yield "guest: channel", hangs
        yield "guest: session", other

    def begun(name: str) -> None:
        if name == "machine: discarded":
            released.set()  # the look that was given up comes back just now

    made = OneMachine()
    monkeypatch.setattr(examination, "_TYPING", 1.0)
    monkeypatch.setattr(machine_looks, "looks", looks)
    try:
        found = list(examination.examine("mine", folder=Path.cwd(), providers=lambda _: made, begun=begun))
    finally:
        released.set()
    about = {item.name: item for item in found if item.name.partition(":")[0] in {"machine", "guest"}}
    assert {name: item.ok for name, item in about.items()} == {
        "machine": True, "guest: clock": True, "guest: channel": None, "machine: other looks": None, "machine: discarded": True,
    }  # fmt: skip
    assert "not looked at any further" in about["machine: other looks"].message
    assert not looked.is_set()
    assert made.discarded == [True]


def test_hashing_a_large_disk_may_take_as_long_as_making_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: Image) -> Finding:
        time.sleep(0.5)
        return Finding("image: built", True, "1 disk with the recorded hash")

    monkeypatch.setattr(examination, "_TYPING", 0.2)
    monkeypatch.setattr(looking, "built", slow)
    assert examined("mine", made=Provider([]))["image: built"].ok is True


def test_an_image_that_was_altered_after_it_was_sealed(
    image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wine_base, "fingerprint", lambda _: "f" * 64)
    assert looking.built(image).ok is True  # it is built when it is needed
    assert "not yet" in looking.built(image).message
    folder = tmp_path / "home" / "images" / ("f" * 32)
    (folder / "prefix").mkdir(parents=True)
    (folder / "prefix" / "system.dat").write_text("as it was")
    sealing.seal(folder / "prefix", folder / "seal.json", about={})
    assert "what was sealed" in looking.built(image).message
    (folder / "prefix" / "system.dat").write_text("altered!!")
    finding = looking.built(image)
    assert finding.ok is False
    assert "changed after it was sealed" in finding.message
    assert str(folder) in finding.remedy


# --- agents -----------------------------------------------------------------------------------------------------------


class Plugged:
    """An agent of a plug-in."""

    name = "plugged"

    def __init__(self, argument: str) -> None:
        self.argument = argument

    def run(self, task: object) -> None:
        """Never called here."""


class Point:
    """An entry point of that name."""

    def __init__(self, loaded: object) -> None:
        self.name = "plugged"
        self._loaded = loaded

    def load(self) -> object:
        return self._loaded


def plugged(monkeypatch: pytest.MonkeyPatch, doctor: Callable[[str], object] | None) -> dict[str, Finding]:
    kind = type("Plugged", (Plugged,), {} if doctor is None else {"doctor": staticmethod(doctor)})
    monkeypatch.setattr("runner.agents.base.entry_points", lambda group: [Point(kind)])
    return {name: found for name, found in examined("mine", "plugged:x", Provider([])).items() if "agent" in name}


@pytest.mark.parametrize("name", base.OF_THE_HOUSE)
def test_every_agent_of_the_house_can_be_had_and_asked(name: str) -> None:
    assert callable(base._factory(name))
    assert callable(base._doctor(name))


def test_an_unknown_agent_names_those_there_are() -> None:
    finding = examined("nowhere", "nobody:x")["agent"]
    assert finding.ok is False
    assert "legacy-use" in finding.message


def test_a_plug_in_is_asked_with_its_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plugged(monkeypatch, lambda argument: [Finding("agent: key", False, f"no key for {argument}", "set one")])
    assert found == {"agent: key": Finding("agent: key", False, "no key for x", "set one")}


def test_a_plug_in_without_a_doctor_is_tried_as_far_as_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plugged(monkeypatch, None)
    assert found["agent"].ok is True
    assert "says nothing" in found["agent"].message


def _raises(_: str) -> list[Finding]:
    raise RuntimeError("a bug")


@pytest.mark.parametrize("doctor", [_raises, lambda _: None, lambda _: [], lambda _: ["fine"]])
def test_a_plug_ins_doctor_that_is_broken_could_not_tell(
    monkeypatch: pytest.MonkeyPatch, doctor: Callable[[str], object]
) -> None:
    assert plugged(monkeypatch, doctor)["agent"].ok is None


# --- the command ------------------------------------------------------------------------------------------------------


def called(monkeypatch: pytest.MonkeyPatch, found: Sequence[Finding], *arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    command.add_to(app)
    app.command("other")(lambda: None)  # an application of one command would have no names of commands
    monkeypatch.setattr(command, "examine", lambda *_, **__: iter(found))
    done = CliRunner().invoke(app, ["doctor", *arguments])
    return done.exit_code, done.stdout


GOOD = Finding("host: disk", True, "53 GiB are free")
BAD = Finding("display: size", False, "800 x 600", "set the resolution")
UNKNOWN = Finding("agent", None, "could not be told: it hangs", "ask again")


def test_the_status_says_whether_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, [GOOD])[0] == 0
    assert called(monkeypatch, [GOOD, BAD])[0] == 1
    assert called(monkeypatch, [GOOD, UNKNOWN])[0] == 1
    assert called(monkeypatch, [GOOD], "--no-such-option")[0] == 2


def test_each_finding_is_told_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = called(monkeypatch, [GOOD, BAD, UNKNOWN])
    lines = [" ".join(line.split()) for line in told.splitlines()]
    assert lines[:5] == [
        "ok host: disk: 53 GiB are free",
        "NOT OK display: size: 800 x 600",
        "→ set the resolution",
        "could not tell agent: could not be told: it hangs",
        "→ ask again",
    ]


def test_findings_as_json_are_one_object_per_line(monkeypatch: pytest.MonkeyPatch) -> None:
    _, told = called(monkeypatch, [GOOD, BAD], "--json")
    found = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert [item["ok"] for item in found] == [True, False]
    assert found[1] == {"name": "display: size", "ok": False, "message": "800 x 600", "remedy": "set the resolution"}
