"""A runner that is killed while it makes or removes a machine's folder: whatever is left is named by `machines list`, and reaped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.machines import folders
from runner.machines.base import Tag
from runner.machines.folders import MachineFolder
from runner.machines.wine import WineProvider
from tests.command_line import Call

ROOT = Path(__file__).resolve().parents[2]
RUNNER = """
import os, signal, sys
from pathlib import Path
from runner.machines.base import Tag
from runner.machines.folders import MachineFolder

steps = int(sys.argv[1])

def step(event, arguments):
    global steps
    if event in ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "shutil.rmtree", "fcntl.flock") or (
        event == "open" and "machines/" in str(arguments[0])
    ):
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1

sys.addaudithook(step)
place = MachineFolder(sys.argv[2], Tag("c", "r"))
(place.path / "upper" / "deep").mkdir(parents=True)
(place.path / "disk").write_text("x")
place.remove()
print("ended")
"""
"""Makes, fills and removes a folder, and is killed by itself before the n-th thing that it does to the disk."""


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_killed_at_any_step_of_a_folders_life(tmp_path: Path, call: Call) -> None:
    seen_states = set()
    for steps in range(100):
        done = subprocess.run(
            [sys.executable, "-c", RUNNER, str(steps), "wine"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        machines = tmp_path / "home" / "machines"
        left = [folder.name for folder in machines.iterdir()] if machines.is_dir() else []
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        for name in left:
            seen_states.add(frozenset(path.name for path in (machines / name).iterdir()))
        listed = call("machines", "list")[1]
        assert all(name in listed for name in left), f"after {steps} steps {left} is not named"
        assert call("machines", "reap")[0] == 0
        assert not machines.is_dir() or list(machines.iterdir()) == [], f"after {steps} steps {left} is not reaped"
    assert done.stdout == "ended\n"
    assert left == []
    # The states that have no description were among them.
    assert {frozenset(), frozenset({"lock"})} <= seen_states


@pytest.mark.parametrize("provider", ["wine", "libvirt"])
@pytest.mark.parametrize("there", [(), ("lock",), ("lock", "machine.json.new"), ("lock", "upper")])
def test_each_provider_names_and_reaps_what_has_no_description(
    provider: str, there: tuple[str, ...], call: Call
) -> None:
    folder = folders.machines() / f"{provider}-0123456789ab"
    folder.mkdir()
    for name in there:
        (folder / name).touch()
    assert call("machines", "list")[1].count(folder.name) == 1
    assert call("machines", "reap")[0] == 0
    assert not folder.exists()


@pytest.mark.parametrize(
    "fill",
    [
        lambda folder: (folder / "holiday.jpg").write_bytes(b"x"),
        lambda folder: (folder / "lock").write_bytes(b"somebody's"),
        lambda folder: (folder / "lock").mkdir(),
        lambda folder: ((folder / "lock").touch(), (folder / "machine.json").write_text('{"tag": "other"}')),
        lambda folder: (folder / "lock").symlink_to("/dev/null"),
    ],
    ids=["other things", "a lock with something in it", "a folder", "another's description", "a link"],
)
@pytest.mark.parametrize("provider", ["wine", "libvirt"])
def test_what_only_bears_such_a_name_is_left_alone(provider: str, fill: object, call: Call) -> None:
    folder = folders.machines() / f"{provider}-0123456789ab"
    folder.mkdir()
    assert callable(fill)
    fill(folder)
    before = sorted(os.listdir(folder))
    assert folder.name not in call("machines", "list")[1]
    assert call("machines", "reap")[0] == 0
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    "name", ["wine-0123456789a", "wine-0123456789abc", "wine-0123456789aX", "wine", "other-0123456789ab"]
)
def test_an_empty_folder_of_another_name_is_left_alone(name: str, call: Call) -> None:
    folder = folders.machines() / name
    folder.mkdir()
    assert call("machines", "reap")[0] == 0
    assert folder.is_dir()


def test_a_folder_that_is_being_made_by_a_living_runner_is_never_taken_for_a_leftover(tmp_path: Path) -> None:
    """The makers go through all states as fast as they can, while another process lists and reaps as fast as it can."""
    making = (
        "from runner.machines.base import Tag; from runner.machines.folders import MachineFolder\n"
        "for _ in range(300): MachineFolder('wine', Tag('c', 'r')).remove()\n"
    )
    maker = subprocess.Popen([sys.executable, "-c", making], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    provider = WineProvider()
    looked = 0
    while maker.poll() is None:
        for item in provider.leftovers():
            assert item.alive, f"{item.name} was taken for a leftover"
        looked += 1
    assert maker.stderr is not None
    assert maker.returncode == 0, maker.stderr.read()
    assert looked


def test_a_folder_in_use_is_not_reaped_though_it_lost_its_description(call: Call) -> None:
    place = MachineFolder("wine", Tag("c", "r"))
    (place.path / "machine.json").unlink()
    (left,) = folders.leftovers("wine")
    assert left.alive
    call("machines", "reap")
    assert place.path.is_dir()
    place.remove()
