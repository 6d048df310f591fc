"""What changed on an overlay is found in its upper layer, exactly: as a comparison of everything would find it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from runner.guests.base import Unreadable
from runner.machines.sandbox import Overlay, _namespaces, overlay_works
from runner.machines.upper_changes import Mark
from runner.machines.upper_layer import Layers
from tests.machines.edits import EDIT, EDITS, FILES

SERVE = """
import hashlib, io, json, os, stat, subprocess, sys
top = sys.argv[1]
def look():
    found = {}
    for parent, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(parent, name)
            info = os.lstat(path)
            kind, content = stat.S_IFMT(info.st_mode), ""
            if stat.S_ISREG(info.st_mode):
                content = hashlib.sha256(open(path, "rb").read()).hexdigest()
            elif stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            try:
                noted = os.getxattr(path, "user.DOSATTRIB", follow_symlinks=False).decode()
            except OSError:
                noted = ""
            found[os.path.relpath(path, top)] = [kind, content, info.st_mode & 0o222, noted, info.st_mtime_ns]
    return found
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked == "look":
        print(json.dumps(look()), flush=True)
    else:
        done = subprocess.run([sys.executable, "-c", sys.argv[2], top + "/drive_c", json.dumps(asked)])
        print(json.dumps(done.returncode), flush=True)
"""

Look = dict[str, list[Any]]


class World:
    """An overlay in a mount namespace of its own, in which edits are made."""

    def __init__(self, folder: Path) -> None:
        paths = [folder / name for name in ("setup", "base", "upper", "work", "merged")]
        for path in paths:
            path.mkdir(parents=True)
        self.setup, self.base, self.upper, work, self.merged = paths
        drive = self.base / "drive_c"
        for name, text in FILES.items():
            place = drive / name.replace("\\", "/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        # The set-up's layer hides and changes what the base holds.
        (self.setup / "drive_c" / "Sub").mkdir(parents=True)
        (self.setup / "drive_c" / "Sub" / "c.txt").write_text("three, set up")
        os.mknod(self.setup / "drive_c" / "Other", 0o20000, 0)
        overlay = Overlay((self.setup, self.base), self.upper, work, self.merged)
        self.layers = Layers(self.upper, overlay.lower, "test")
        mount = 'mount -t overlay test -o "$1" "$2" && shift 2 && exec "$@"'
        python = ["/usr/bin/python3", "-c", SERVE, str(self.merged), EDIT]
        self._process = subprocess.Popen(
            [*_namespaces(), "sh", "-c", mount, "sh", overlay.options(), str(self.merged), *python],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._answer() == "ready"

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _ask(self, what: object) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def edit(self, *edits: tuple[str, str, str]) -> None:
        assert self._ask(edits) == 0

    def look(self) -> Look:
        found: Look = self._ask("look")
        return found

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert overlay_works(tmp_path)
    return tmp_path


@pytest.fixture
def world(folder: Path) -> Iterator[World]:
    made = World(folder / "world")
    yield made
    made.close()


def windows(path: str) -> str:
    return "C:" + path.removeprefix("drive_c").replace("/", "\\")


def by_comparing_all(before: Look, after: Look) -> dict[str, tuple[str, set[str]]]:
    found: dict[str, tuple[str, set[str]]] = {}
    for path in (before.keys() | after.keys()) - {"drive_c"}:
        was, now = before.get(path), after.get(path)
        if was is None or now is None:
            found[windows(path)] = ("created" if was is None else "deleted", set())
        elif was != now:
            what = {"data"} if was[:2] != now[:2] else set()
            what |= {"attributes"} if was[2:4] != now[2:4] else set()
            what |= {"times"} if was[4] != now[4] else set()
            found[windows(path)] = ("modified", what)
    return found


def told(mark: Mark) -> dict[str, tuple[str, set[str]]]:
    """What is told, a renamed file taken for one that is gone and one that is new."""
    found: dict[str, tuple[str, set[str]]] = {}
    for change in mark.changes():
        assert change.path not in found
        if change.kind == "renamed":
            found[change.old_path], found[change.path] = ("deleted", set()), ("created", set())
        else:
            found[change.path] = (change.kind, set(change.what) if change.kind == "modified" else set())
    return found


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(EDITS, EDITS)
def test_any_edits_are_told_as_a_comparison_of_everything_tells_them(
    folder: Path, first: list[tuple[str, str, str]], second: list[tuple[str, str, str]]
) -> None:
    world = World(folder / "world")
    try:
        world.edit(*first)
        before, mark = world.look(), Mark(world.layers)
        assert mark.changes() == ()
        world.edit(*second)
        assert told(mark) == by_comparing_all(before, world.look())
    finally:
        world.close()
        (folder / "world" / "work" / "work").chmod(0o700)
        shutil.rmtree(folder / "world")


def test_a_file_opened_for_writing_but_not_written_is_no_change(world: World) -> None:
    mark = Mark(world.layers)
    world.edit(("open", "B.bin", ""))
    assert (world.upper / "drive_c" / "B.bin").exists()
    assert mark.changes() == ()


def test_a_change_that_puts_the_time_back_is_told(world: World) -> None:
    mark = Mark(world.layers)
    world.edit(("sneak", "a.txt", ""))
    (change,) = mark.changes()
    assert (change.kind, change.path, change.what) == ("modified", r"C:\a.txt", ("data",))


def test_a_renamed_file_is_one_change(world: World) -> None:
    mark = Mark(world.layers)
    world.edit(("rename", "B.bin", "Sub/n.txt"))
    renamed = [change for change in mark.changes() if not change.noise]
    assert [(one.kind, one.path, one.old_path) for one in renamed] == [("renamed", r"C:\Sub\n.txt", r"C:\B.bin")]


def test_what_was_done_before_the_agent_began_is_not_its_doing(world: World) -> None:
    world.edit(("append", "a.txt", ""), ("write", "New", "x"))
    mark = Mark(world.layers)
    world.edit(("append", "Sub/c.txt", ""), ("remove", "New", ""))
    assert [(one.kind, one.path) for one in mark.changes() if not one.noise] == [
        ("deleted", r"C:\New"), ("modified", r"C:\Sub\c.txt"),
    ]  # fmt: skip


def test_what_lies_beside_the_drive_is_told_and_the_registry_is_not(world: World) -> None:
    mark = Mark(world.layers)
    world.edit(("mkdir", "../dosdevices", ""), ("symlink", "x", "../dosdevices/d:"), ("write", "../system.reg", "x"))
    world.edit(("write", "../reg1a2b.tmp", "x"), ("write", "../notes", "x"))
    assert [change.path for change in mark.changes() if not change.noise] == [
        "(beside the drive) notes",
        "(drive letter) D:",
    ]


@pytest.mark.parametrize("name", ["metacopy", "redirect", "whiteout", "opaque"])
def test_what_an_overlay_of_this_kind_should_not_hold_is_unreadable(folder: Path, name: str) -> None:
    upper, lower = folder / "u", folder / "l"
    (upper / "drive_c" / "x").mkdir(parents=True)
    lower.mkdir()
    prefix = "trusted" if os.geteuid() == 0 else "user"
    os.setxattr(upper / "drive_c" / "x", f"{prefix}.overlay.{name}", b"x")
    with pytest.raises(Unreadable, match=name):
        list(Layers(upper, (lower,), "k").changed())


def test_links_in_the_upper_layer_lead_nowhere(folder: Path) -> None:
    upper, outside = folder / "u", folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text("host")
    upper.mkdir()
    (upper / "drive_c").symlink_to(outside)
    layers = Layers(upper, (upper,), "k")
    assert [(entry.path, entry.kind) for entry in layers.changed()] == [("", "dir"), ("drive_c", "link")]
    assert layers.at_upper("drive_c/secret") is None
    assert list(layers.changed("drive_c/secret")) == []
    assert layers.below("drive_c/secret") is None
    with pytest.raises(Unreadable):
        layers.hash_upper("drive_c/secret")
