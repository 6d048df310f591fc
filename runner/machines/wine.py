"""The embedded machine: a Wine drive as a disposable Windows computer, without hypervisor or network.

Base (built once per image, sealed) → layer (a contract's set-up, done once, sealed) → clone (an overlay, or a copy where overlays
do not work) → machine: its own namespaces, its own X server with VNC, its own wineserver. What belongs to a machine lies in
one folder that names its tag and is locked by the runner; when the lock is free, the runner is dead and the folder is a
leftover.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from contracts.schema import SetupStep, StartProgram
from runner.guests.base import GuestLost, Unreadable
from runner.guests.wine import WineGuest
from runner.machines import folders, sealing, wine_base, xserver
from runner.machines.base import DiskState, Freshness, Leftover, MachineError, Tag, home, is_locked, lock
from runner.machines.folders import MachineFolder
from runner.machines.images import Image
from runner.machines.readiness import prove, start_programs
from runner.machines.sandbox import Overlay, Sandbox, overlay_works
from runner.machines.setup import SetUp
from runner.machines.wine_disk import WineDisk, layers_of
from runner.machines.xserver import XServer

if TYPE_CHECKING:
    from runner.display.handshake import DisplayAddress

_PROVIDER = "wine"


def _say_nothing(_: str) -> None:
    pass


class WineProvider:
    """Makes embedded machines (see :class:`runner.machines.base.MachineProvider`)."""

    def __init__(self, say: object = None) -> None:
        self._say = say if callable(say) else _say_nothing

    def prepare(
        self,
        image: Image,
        setup: Sequence[SetupStep],
        start: Sequence[StartProgram],  # noqa: ARG002 - started in each clone
        *,
        folder: Path,
    ) -> WineCheckpoint:
        """See :meth:`MachineProvider.prepare`. Programs are started in each clone: the checkpoint holds no memory."""
        for needed in ("bwrap", "Xtigervnc", "unshare"):
            if shutil.which(needed) is None:
                raise MachineError(f"{needed} is not installed; `make setup` installs what is needed")
        key = wine_base.fingerprint(image)
        prefix, seal = wine_base.build(image, key, say=self._say)
        base = WineCheckpoint(image, key, prefix, seal.contents, ())
        return _with_setup(base, SetUp.of(setup, folder)) if setup else base

    def leftovers(self) -> list[Leftover]:
        """See :meth:`MachineProvider.leftovers`. Half-built images and checkpoints, of every provider, are told with them."""
        found = folders.leftovers(_PROVIDER)
        for folder in sorted(home().glob(f"*/*{sealing.UNFINISHED}")):
            if not is_locked(folder.with_suffix(".lock")):
                found.append(Leftover(folder.name, "cache", folder.parent.name, 0, alive=False, folder=folder))
        return found

    def reap(self, leftover: Leftover) -> None:
        """See :meth:`MachineProvider.reap`. Processes are found by the machine's own folder on their command lines."""
        building = leftover.folder.suffix == sealing.UNFINISHED
        held = lock(leftover.folder.with_suffix(".lock") if building else leftover.folder / "lock")
        if held is None:
            raise MachineError(f"{leftover.name} is in use by the runner {leftover.runner_pid}")
        with held:
            folders.end_processes_of(leftover.folder)
            folders.remove(leftover.folder)


_overlays_work: dict[Path, bool] = {}
"""Whether overlays work, by the home where it was tried."""


def _overlays() -> bool:
    """Whether machines lie on overlays; tried once in a machine's folder, which is a leftover like others if we die meanwhile."""
    choice = os.environ.get("LEGACYPROOF_CLONE", "auto")
    if choice not in {"auto", "overlay", "copy"}:
        raise MachineError(f"LEGACYPROOF_CLONE is {choice!r}; it can be auto, overlay or copy")
    if choice == "copy":
        return False
    if home() not in _overlays_work:
        place = MachineFolder(_PROVIDER, Tag("check", "overlay"))
        try:
            _overlays_work[home()] = overlay_works(place.path)
        finally:
            place.remove()
    works = _overlays_work[home()]
    if choice == "overlay" and not works:
        raise MachineError("LEGACYPROOF_CLONE=overlay, but this host cannot mount one there")
    return works


class WineCheckpoint:
    """A base with the layers of a contract's set-up (see :class:`runner.machines.base.Checkpoint`)."""

    def __init__(self, image: Image, key: str, prefix: Path, base: str, layers: tuple[tuple[Path, str], ...]) -> None:
        self.image = image
        self.key = key
        self.prefix = prefix
        self.base = base
        self.layers = layers
        self.digest = hashlib.sha256("\n".join([base, *(digest for _, digest in layers)]).encode()).hexdigest()

    def verify(self) -> None:
        """Checks that base and layers still are what was sealed.

        Raises:
            MachineError: One is missing or was changed.
        """
        if sealing.checked_seal(self.prefix, self.prefix.parent / "seal.json").contents != self.base:
            raise MachineError(f"{self.prefix} is no longer the base that this checkpoint was made from")
        for layer, digest in self.layers:
            if sealing.checked_seal(layer, layer.parent / "seal.json").contents != digest:
                raise MachineError(f"{layer} is no longer the set-up that this checkpoint was made from")

    def clone(self, tag: Tag) -> WineMachine:
        """See :meth:`Checkpoint.clone`."""
        self.verify()
        machine = WineMachine(self, tag)
        try:
            machine.boot()
        except BaseException:
            machine.discard()
            raise
        return machine


class WineMachine:
    """One embedded machine (see :class:`runner.machines.base.Machine`)."""

    def __init__(self, checkpoint: WineCheckpoint, tag: Tag) -> None:
        self.tag = tag
        self.timings: dict[str, float] = {}
        self._place = MachineFolder(_PROVIDER, tag)
        self.id = self._place.id
        self.folder = self._place.path
        self._checkpoint = checkpoint
        self._image = checkpoint.image
        self._sandbox: Sandbox | None = None
        self._screen: XServer | None = None
        self._guest: WineGuest | None = None
        self._disk: WineDisk | None = None
        self._freshness: Freshness | None = None

    @property
    def guest(self) -> WineGuest:
        """The way into it."""
        if self._guest is None:
            raise MachineError("the machine is not running")
        return self._guest

    @property
    def display(self) -> DisplayAddress:
        """Its screen and input."""
        if self._screen is None:
            raise MachineError("the machine is not running")
        return self._screen.address

    @property
    def freshness(self) -> Freshness:
        """The proof that it is fresh."""
        if self._freshness is None:
            raise MachineError("the machine is not running")
        return self._freshness

    def _lower(self) -> tuple[Path, ...]:
        return (*(layer for layer, _ in reversed(self._checkpoint.layers)), self._checkpoint.prefix)

    def _drive(self) -> Overlay | Path:
        layers = self._lower()
        if _overlays():
            paths = [self.folder / name for name in ("upper", "work", "drive")]
            for path in paths:
                path.mkdir()
            return Overlay(layers, *paths)
        drive = self.folder / "drive"
        # The set-up's layer holds a whole drive where clones are copies (see _with_setup).
        done = subprocess.run(
            ["cp", "-a", "--reflink=auto", layers[0], drive],
            capture_output=True, text=True, check=False, timeout=600, start_new_session=True,
        )  # fmt: skip
        if done.returncode != 0:
            raise MachineError(f"the drive could not be copied: {done.stderr.strip()[-500:]}")
        return drive

    def boot(self) -> None:
        """Starts it and proves that it is fresh.

        Raises:
            MachineError: It does not start, or a proof fails.
        """
        begun = time.monotonic()
        size = self._image.manifest.display
        self._screen = XServer(self.folder / "screen", size.width, size.height)
        drive = self._drive()
        self._sandbox = Sandbox.open(
            drive,
            environment=wine_base.with_screen(self._image, xserver.DISPLAY),
            binds={self._screen.folder: xserver.SEEN_AS},
            hostname="PRAXIS",
            log=self.folder / "sandbox.log",
        )
        layers = layers_of(drive)
        self._guest = WineGuest(self._sandbox, loader=str(wine_base.WINE), probe=wine_base.PROBE, layers=layers)
        self._disk = WineDisk(drive, self._lower()[0], self._sandbox, self._guest)
        # Wine comes after screen and keyboard: services of its own open windows, and a desktop that finds no screen yet, or one with
        # another keymap, stays as it is.
        self._screen.start(self._sandbox)
        self._guest.warm_up()
        self.timings["clone"] = time.monotonic() - begun
        answered = prove(self._guest)
        self._freshness = Freshness(
            base=self._checkpoint.base,
            layers=tuple(digest for _, digest in self._checkpoint.layers),
            nonce=answered.nonce,
            boot=self._sandbox.boot,
            clock_offset=answered.clock_offset,
            utc_offset=answered.utc_offset,
            image=self._checkpoint.key,
        )
        self.timings["boot"] = time.monotonic() - begun - self.timings["clone"]

    def start(self, programs: Sequence[StartProgram]) -> None:
        """See :meth:`Machine.start`."""
        begun = time.monotonic()
        start_programs(self.guest, self._image, programs)
        self.timings["start"] = time.monotonic() - begun

    def ensure_alive(self) -> None:
        """See :meth:`Machine.ensure_alive`."""
        if self._sandbox is None or not self._sandbox.alive:
            raise MachineError("its processes have ended")
        if self._screen is None or not self._screen.alive:
            raise MachineError("its screen has ended")

    def settle_to_disk(self) -> None:
        """Stops every Windows program and has the registry written; for set-up only.

        Raises:
            MachineError: It did not end in time.
        """
        assert self._sandbox is not None
        try:
            self._sandbox.run([str(wine_base.WINESERVER), "-k"], timeout=30)
            self._sandbox.run([str(wine_base.WINESERVER), "-w"], timeout=60)
        except (TimeoutError, Unreadable, GuestLost) as error:
            raise MachineError(f"the machine could not be shut down: {error}") from None

    def mark_disk(self) -> None:
        """See :meth:`DiskAudited.mark_disk`."""
        assert self._disk is not None
        self._disk.mark()

    def disk_since_mark(self) -> AbstractContextManager[DiskState]:
        """See :meth:`DiskAudited.disk_since_mark`."""
        assert self._disk is not None
        return self._disk.since_mark()

    def discard(self) -> None:
        """See :meth:`Machine.discard`."""
        begun = time.monotonic()
        if self._guest is not None:
            self._guest.close()
        if self._screen is not None:
            self._screen.close()
        if self._sandbox is not None:
            self._sandbox.kill()
        self._place.remove()
        self.timings["discard"] = time.monotonic() - begun


def _with_setup(base: WineCheckpoint, set_up: SetUp) -> WineCheckpoint:
    """The checkpoint above ``base`` with the steps done: from the cache, or made now on a machine of its own."""
    mode = "overlay" if _overlays() else "copy"
    digest = hashlib.sha256(f"{base.digest} {mode} {set_up.digest()}".encode()).hexdigest()[:32]

    def fill(layer: Path) -> None:
        machine = base.clone(Tag("set-up", digest))
        try:
            set_up.apply(machine.guest)
            machine.settle_to_disk()
            (machine.folder / ("upper" if mode == "overlay" else "drive")).rename(layer)
        finally:
            machine.discard()

    kept = home() / "checkpoints" / digest
    layer, seal = sealing.sealed(kept, "layer", fill, about={"base": base.digest})
    return WineCheckpoint(base.image, base.key, base.prefix, base.base, ((layer, seal.contents),))


if sys.platform != "linux":
    raise MachineError("the embedded machine needs Linux")
