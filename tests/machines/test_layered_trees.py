"""A tree of which the upper layer tells what changed is read exactly as one that is listed and hashed whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from contracts.schema import CopyIn, FileTree, SetupStep
from runner import layered_trees
from runner.capture_trees import read_tree
from runner.guests.base import Guest
from runner.guests.probe import ProbeResult
from runner.layered_trees import LayeredTree
from runner.machines.base import Tag
from runner.machines.images import Image
from runner.machines.wine import WineCheckpoint, WineMachine, WineProvider
from tests.machines.edits import EDITS, FILES, VERBS, command
from validators.files import TreeState

pytestmark = pytest.mark.machine

TREES = 8 + 24 + len(VERBS)
numbers = count()


class Whole:
    """The same guest without its layers: the way of every other machine."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self.read, self.write, self.run, self.start = guest.read, guest.write, guest.run, guest.start

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        return self._guest.probe(*argv, timeout=timeout)


@pytest.fixture(scope="module")
def prepared(image: Image) -> WineCheckpoint:
    steps: list[SetupStep] = [
        CopyIn.model_validate({"text": text, "to": rf"C:\T{number}\{path}"})
        for number in range(TREES)
        for path, text in FILES.items()
    ]
    return WineProvider().prepare(image, steps, [], folder=Path.cwd())


@pytest.fixture(scope="module")
def machines(prepared: WineCheckpoint) -> Iterator[list[WineMachine]]:
    made = [prepared.clone(Tag("tests", f"layered-{number}")) for number in range(2)]
    yield made
    for machine in made:
        machine.discard()


@pytest.fixture
def machine(prepared: WineCheckpoint) -> Iterator[WineMachine]:
    """One that nobody has edited: a name that Windows would not have, left by others, makes its whole drive be listed."""
    made = prepared.clone(Tag("tests", "layered-alone"))
    yield made
    made.discard()


def edit(machine: WineMachine, tree: str, *edits: tuple[str, str, str]) -> None:
    assert machine._sandbox is not None
    done = machine._sandbox.run(command(f"/prefix/drive_c/{tree}", *edits), timeout=60)
    assert done.status == 0, done.stderr.decode()


def both(machine: WineMachine, tree: str, **about: Any) -> TreeState:
    """The tree as the layers tell it, which is that of a whole reading."""
    spec = FileTree.model_validate({"files": rf"C:\{tree}", **about})
    told = read_tree(machine.guest, spec, None)
    whole = read_tree(Whole(machine.guest), spec, None)
    assert set(told.items) ^ set(whole.items) == set()
    assert in_order(told) == in_order(whole)
    return told


def in_order(tree: TreeState) -> TreeState:
    return replace(tree, items=tuple(sorted(tree.items, key=lambda item: item.path)))


@contextmanager
def forgotten() -> Iterator[None]:
    """Nothing has been learnt yet."""
    kept = dict(layered_trees._known)
    layered_trees._known.clear()
    yield
    layered_trees._known.update(kept)


def is_told(machine: WineMachine, tree: str) -> bool:
    layered = LayeredTree.of(machine.guest, rf"C:\{tree}")
    return layered is not None and layered.read() is not None


@settings(max_examples=24, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(EDITS, EDITS, EDITS)
def test_any_edits_give_what_a_whole_reading_gives(
    machines: list[WineMachine],
    first: list[tuple[str, str, str]],
    second: list[tuple[str, str, str]],
    third: list[tuple[str, str, str]],
) -> None:
    tree = f"T{8 + next(numbers) % 24}"
    edited, other = machines
    edit(edited, tree, *first)
    both(edited, tree)  # learnt while there are edits already
    edit(edited, tree, *second)
    both(edited, tree)
    both(other, tree)  # where these edits were not made, or others
    edit(other, tree, *third)
    both(other, tree)
    both(edited, tree)


@pytest.mark.parametrize("verb", VERBS)
def test_each_kind_of_edit_is_told_without_listing_the_tree(machines: list[WineMachine], verb: str) -> None:
    tree = f"T{32 + VERBS.index(verb)}"
    machine = machines[0]
    both(machine, tree)
    edit(machine, tree, (verb, "Sub/c.txt", "Sub/z.txt"), (verb, "Other", "Anders"), (verb, "a.txt", "z.txt"))
    assert is_told(machine, tree)
    both(machine, tree)


def test_only_what_was_touched_is_asked_and_read(machines: list[WineMachine], monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machines[1]
    both(machine, "T1")
    edit(machine, "T1", ("sneak", "Sub/Deep/d.txt", "a.txt"))
    asked: list[tuple[str, ...]] = []
    reads: list[str] = []
    probe, read = machine.guest.probe, machine.guest.read

    def spied_probe(*argv: str, timeout: float = 30.0) -> ProbeResult:
        asked.append(argv)
        return probe(*argv, timeout=timeout)

    def spied_read(path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        reads.append(str(path))
        return read(path, limit=limit, timeout=timeout)

    monkeypatch.setattr(machine.guest, "probe", spied_probe)
    monkeypatch.setattr(machine.guest, "read", spied_read)
    read_tree(machine.guest, FileTree.model_validate({"files": r"c:\t1", "verify": "full"}), None)
    assert reads == [r"c:\t1\Sub\Deep\d.txt"]
    assert asked == [
        ("files", "--flat", "--streams", r"c:\t1", r"c:\t1\Sub"),
        ("files", "--streams", r"c:\t1\Sub\Deep\d.txt"),
    ]


@pytest.mark.parametrize("name", ["x:y", "tab\there", "end.", "end ", "\udcff"])
def test_names_that_windows_would_not_have_make_the_whole_tree_be_listed(
    machines: list[WineMachine], name: str
) -> None:
    machine = machines[0]
    both(machine, "T2")
    edit(machine, "T2", ("write", name, "a.txt"))
    assert not is_told(machine, "T2")
    both(machine, "T2")
    edit(machine, "T2", ("remove", name, "a.txt"))
    assert is_told(machine, "T2")


def test_two_spellings_of_a_name_make_the_whole_tree_be_listed(machines: list[WineMachine]) -> None:
    machine = machines[0]
    both(machine, "T3")
    edit(machine, "T3", ("write", "SUB", "a.txt"))
    assert not is_told(machine, "T3")
    both(machine, "T3")


def test_a_tree_whose_folder_was_removed_is_positively_absent(machines: list[WineMachine]) -> None:
    machine = machines[0]
    both(machine, "T4")
    edit(machine, "T4", ("remove", "", "a.txt"))
    assert both(machine, "T4") == TreeState(exists=False)
    edit(machine, "T4", ("mkdir", "Sub/Deep", "a.txt"))
    assert {item.path for item in both(machine, "T4").items} == {"Sub", r"Sub\Deep"}


@pytest.mark.parametrize("verb", ["write", "symlink", "mkdir"])
def test_what_stands_in_a_folders_place_hides_what_it_held(machines: list[WineMachine], verb: str) -> None:
    tree = {"write": "T6", "symlink": "T7", "mkdir": "T1"}[verb]
    edited, other = machines
    both(other, tree)
    edit(edited, tree, ("remove", "Sub", ""))
    edit(edited, tree, ("symlink", "a.txt", "Sub") if verb == "symlink" else (verb, "Sub", "x"))
    assert is_told(edited, tree)
    assert not any(item.path.startswith("Sub\\") for item in both(edited, tree).items)


def test_what_was_learnt_where_a_folder_was_hidden_says_nothing_of_what_it_holds(machines: list[WineMachine]) -> None:
    hidden, touched = machines
    edit(hidden, "T7", ("again", "Sub/Deep", ""))
    edit(touched, "T7", ("touch", "Sub/Deep", ""))
    with forgotten():
        both(hidden, "T7")  # learnt here
        assert r"Sub\Deep\d.txt" in {item.path for item in both(touched, "T7").items}


def test_a_whole_drive_is_read_so_as_well(machine: WineMachine) -> None:
    spec = FileTree.model_validate({"files": "C:\\", "ignore": [{"path": r"windows\**", "because": "the system"}]})
    edit(machine, "users", ("write", "praxis/Documents/Brief.txt", "a.txt"))
    layered = LayeredTree.of(machine.guest, "C:\\")
    assert layered is not None
    # A whole drive is never quite still: what comes or goes meanwhile makes a reading the ordinary one, or the two different.
    for _ in range(40):
        read_tree(machine.guest, spec, None)
        if layered.read() is None:
            continue
        told, whole = (read_tree(guest, spec, None) for guest in (machine.guest, Whole(machine.guest)))
        if in_order(told) == in_order(whole):
            break
    else:
        raise AssertionError("a whole drive was never read by its layers, or never so as it is")
    assert r"users\praxis\Documents\Brief.txt" in {item.path for item in told.items}


def test_another_drive_letter_for_the_drive_is_not_trusted(machines: list[WineMachine]) -> None:
    machine = machines[1]
    both(machine, "T5")
    assert LayeredTree.of(machine.guest, r"D:\T5") is None
    assert LayeredTree.of(machine.guest, r"C:\T5\..\T5") is None
    assert LayeredTree.of(machine.guest, r"\\server\T5") is None
