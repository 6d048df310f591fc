"""The machines that checks look at: made when the first check asks for them, shared by all, discarded at the end."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any, TypeVar

from contracts.schema import SetupStep, StartProgram
from runner.conformance import host
from runner.conformance.checks import Failed
from runner.conformance.props import cmd, open_notepad, system
from runner.display.rfb import DisplayAddress
from runner.guests.base import Guest, Unreadable
from runner.machines.base import Checkpoint, Leftover, Machine, MachineError, MachineProvider, Tag
from runner.machines.images import Image

T = TypeVar("T")
FOLDER = PureWindowsPath(r"C:\legacyproof-check")
"""Where checks put their files."""
REGISTRY_KEY = r"HKCU\Software\LegacyproofCheck"
_CODE = (".exe", ".dll")
"""Files that may be running, and then cannot be written to."""


@dataclass(frozen=True)
class Birth:
    """What a clone was like before anybody touched it.

    Attributes:
        files: Of the image's programs: path to size and content hash (``None`` where it could not be read).
        windows: Titles of the visible windows.
        processes: Names of the processes, each as often as it ran, in order of their names.
    """

    files: dict[str, tuple[int, str | None]]
    windows: frozenset[str]
    processes: tuple[str, ...]


@dataclass(frozen=True)
class Clone:
    """A machine and what it was like at first."""

    machine: Machine
    birth: Birth


@dataclass(frozen=True)
class Departed:
    """A machine that was discarded, and what belonged to it while it lived.

    Attributes:
        machine: The machine.
        display: Where its screen was.
        listed: How it was listed.
        processes: Processes of this host that belonged to it.
    """

    machine: Machine
    display: DisplayAddress
    listed: tuple[Leftover, ...]
    processes: tuple[int, ...]


@dataclass(frozen=True)
class Dead:
    """A machine that broke while it was in use; ``how`` says by what."""

    machine: Machine
    how: str


class Scene:
    """Everything that checks may use. What could not be made once is not tried again: each asker gets the same reason."""

    def __init__(self, provider: MachineProvider, image: Image, *, folder: Path) -> None:
        """Makes nothing yet.

        Args:
            provider: Whose machines are checked.
            image: What they are made from.
            folder: Where files of set-up steps would lie; nothing is written to it.
        """
        self.provider = provider
        self.image = image
        self.campaign = f"conformance-{secrets.token_hex(4)}"
        self._folder = folder
        self._kept: dict[str, Any] = {}
        self._made: list[Machine] = []
        self._lock = threading.Lock()
        self._closed = False

    # --- preparing ---------------------------------------------------------------------------------------------------

    @property
    def programs(self) -> list[StartProgram]:
        """The image's first program that has a window, as a contract would name it; none if there is none."""
        return [StartProgram(program=name) for name, program in self.image.manifest.programs.items() if program.window][
            :1
        ]

    def prepare(self, setup: Sequence[SetupStep] = ()) -> Checkpoint:
        """Prepares the image, with set-up steps or as it is."""
        return self.provider.prepare(self.image, list(setup), self.programs, folder=self._folder)

    @property
    def checkpoint(self) -> Checkpoint:
        """The image without any set-up."""
        return self._once("checkpoint", self.prepare)

    def clone(self, run: str, checkpoint: Checkpoint | None = None) -> Machine:
        """Makes a machine that is discarded with the scene at the latest.

        Raises:
            MachineError: It could not be made.
        """
        made = (checkpoint or self.checkpoint).clone(Tag(self.campaign, run))
        with self._lock:
            if not self._closed:
                self._made.append(made)
                return made
        made.discard()
        raise MachineError("the check that asked for this machine was given up")

    # --- the machines ------------------------------------------------------------------------------------------------

    @property
    def first(self) -> Clone:
        """The machine that most checks look at."""
        return self._once("first", lambda: self._born("first"))

    @property
    def second(self) -> Clone:
        """Another one, which lives at the same time and is left alone."""
        return self._once("second", lambda: self._born("second"))

    @property
    def later(self) -> Clone:
        """One that was made after the first had been spoilt."""
        return self._once("later", self._make_later)

    @property
    def departed(self) -> Departed:
        """One that was discarded."""
        return self._once("departed", self._make_departed)

    @property
    def dead(self) -> Dead:
        """One whose processes were killed from outside."""
        return self._once("dead", self._make_dead)

    @property
    def machine(self) -> Machine:
        """The first machine."""
        return self.first.machine

    @property
    def guest(self) -> Guest:
        """Its guest."""
        return self.machine.guest

    def spoil(self) -> None:
        """Writes all over the first machine: program files, a system folder, the registry, a window left open."""
        self._once("spoilt", self._spoil)

    def folder(self, check: str) -> PureWindowsPath:
        """A check's own folder in the machine."""
        return FOLDER / check

    def leftovers(self, run: str) -> tuple[Leftover, ...]:
        """What is listed of one of the scene's machines."""
        return tuple(item for item in self.provider.leftovers() if (item.campaign, item.run) == (self.campaign, run))

    def close(self) -> list[str]:
        """Discards every machine; returns what could not be discarded, in words."""
        with self._lock:
            self._closed = True
            made, self._made = self._made, []
        problems = []
        for machine in made:
            try:
                machine.discard()
            except Exception as error:  # whatever the provider under test does
                problems.append(f"{machine.id} could not be discarded: {error}")
        return problems

    # --- how they are made -------------------------------------------------------------------------------------------

    def _once(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._kept:
            try:
                self._kept[name] = make()
            except Exception as error:
                self._kept[name] = error
        kept = self._kept[name]
        if isinstance(kept, Failed):
            raise kept
        if isinstance(kept, Exception):
            raise Failed(f"{_WORDS[name]}: {type(kept).__name__}: {kept}") from kept
        result: T = kept
        return result

    def _born(self, run: str) -> Clone:
        machine = self.clone(run)
        return Clone(machine, self._birth(machine.guest))

    def _birth(self, guest: Guest) -> Birth:
        roots = sorted({program.to for program in self.image.manifest.programs.values() if program.to})
        files = guest.probe("files", "--hash", *roots, timeout=60).files if roots else ()
        return Birth(
            {
                f"{roots[entry.root]}\\{entry.path}": (entry.size, entry.sha256)
                for entry in files
                if entry.kind == "file"
            },
            frozenset(window.title for window in guest.probe("windows").windows if window.visible),
            tuple(sorted(process.name.casefold() for process in guest.probe("processes").processes)),
        )

    def _spoil(self) -> bool:
        guest = self.guest
        there = [
            path for path in sorted(self.first.birth.files) if " " not in path and not path.lower().endswith(_CODE)
        ]
        overwritten = next((path for path in there if _overwrite(guest, path)), None)
        for path in [path for path in there if path != overwritten][:1]:
            cmd(guest, "del", "/f", "/q", path)
        folder = PureWindowsPath(there[0]).parent if there else FOLDER
        for new in (folder / "check-new.txt", FOLDER / "spoilt.txt", PureWindowsPath(r"C:\windows\check-new.dll")):
            guest.write(new, b"new")
        value = [system("reg.exe"), "add", REGISTRY_KEY, "/v", "Spoilt", "/d", "yes", "/f"]
        if guest.run(value, timeout=60).status != 0:
            raise Failed("reg.exe could not write a value into the user's registry")
        open_notepad(guest, FOLDER / "left-open.txt")
        return True

    def _make_later(self) -> Clone:
        self.spoil()
        return self._born("later")

    def _make_departed(self) -> Departed:
        machine = self.clone("departed")
        listed = self.leftovers("departed")
        words = [machine.id, *(str(item.folder) for item in listed)]
        departed = Departed(machine, machine.display, listed, tuple(host.processes_naming(words)))
        machine.discard()
        return departed

    def _make_dead(self) -> Dead:
        machine = self.clone("dead")
        words = [machine.id, *(str(item.folder) for item in self.leftovers("dead"))]
        if killed := host.kill_naming(words):
            return Dead(machine, f"{killed} processes of it were killed on this host")
        with contextlib.suppress(Exception):  # it may be gone before it can answer
            machine.guest.run([system("shutdown.exe"), "/s", "/f", "/t", "0"], timeout=30)
        return Dead(machine, "it was told from inside to shut down, since no process of this host belongs to it")


def _overwrite(guest: Guest, path: str) -> bool:
    """Writes over a program's file, unless the program has it in use."""
    try:
        guest.write(PureWindowsPath(path), b"overwritten by a check")
    except Unreadable:
        return False
    return True


_WORDS = {
    "checkpoint": "the image could not be prepared",
    "first": "no machine could be made",
    "second": "no second machine could be made",
    "later": "no machine could be made after the first had been written to",
    "departed": "a machine could not be made and discarded",
    "dead": "no machine could be made",
    "spoilt": "the first machine could not be written to",
}
