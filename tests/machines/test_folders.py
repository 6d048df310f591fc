"""Machines' folders: locked by a living runner, told apart by provider, quarantined when they cannot be removed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner.machines import folders
from runner.machines.base import Tag
from runner.machines.folders import MachineFolder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path))


def test_a_folder_tells_its_tag_and_is_alive_while_it_is_held() -> None:
    place = MachineFolder("wine", Tag("c", "r"), more="x")
    (left,) = folders.leftovers("wine")
    assert (left.name, left.campaign, left.run, left.alive, left.folder) == (place.id, "c", "r", True, place.path)
    assert folders.leftovers("libvirt") == []
    place.note(late=1)
    about = folders.about(place.path)
    assert about is not None
    assert (about["more"], about["late"]) == ("x", 1)
    place.remove()
    place.remove()
    assert folders.leftovers("wine") == []


def test_a_quarantined_folder_stays_and_is_no_longer_held() -> None:
    place = MachineFolder("libvirt", Tag("c", "r"))
    place.quarantine("it does not end")
    (left,) = folders.leftovers("libvirt")
    assert not left.alive
    assert json.loads((place.path / "machine.json").read_text())["quarantined"] == "it does not end"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"{", b'{"tag": "other"}', b'{"tag": "legacyproof"}', b"\xff"]
)
def test_what_does_not_say_that_it_is_ours_is_not_listed(content: bytes) -> None:
    folder = folders.machines() / "wine-000000000000"
    folder.mkdir()
    (folder / "machine.json").write_bytes(content)
    assert folders.leftovers("wine") == []


def test_processes_are_known_by_the_folder_on_their_command_line(tmp_path: Path) -> None:
    script = "import sys, time; time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "machine" / "disk")])
    try:
        deadline = time.monotonic() + 20
        while folders.processes_of(tmp_path / "machine") != [process.pid] and time.monotonic() < deadline:
            time.sleep(0.02)
        assert folders.processes_of(tmp_path / "machine") == [process.pid]
        assert folders.processes_of(tmp_path / "other") == []
        folders.end_processes_of(tmp_path / "machine")
        assert process.wait(20) == -9
    finally:
        process.kill()
        process.wait(20)
