"""Making checkpoints: the image's machine started once, the contract's set-up done in it, its state kept and sealed.

Two kinds: with memory (clones go on from the very moment), and of the disk alone (clones start from it). Each lies in the cache
under a hash of all that goes into it, and one that is half made is never used.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from contracts.schema import StartProgram
from runner.guests.base import GuestLost, Unreadable
from runner.guests.qga import QgaGuest, install_probe
from runner.machines import sealing
from runner.machines.base import MachineError, Tag, home
from runner.machines.readiness import prove, start_programs
from runner.machines.virt import disk_state, overlays
from runner.machines.virt.blueprint import Blueprint, await_agent
from runner.machines.virt.disk_state import Freezer
from runner.machines.virt.domain_xml import Memory
from runner.machines.virt.proof import prove_by_agent
from runner.machines.virt.running import RunningDomain

Kind = Literal["memory", "disk"]
_RECIPE = 3
"""Raised whenever checkpoints are made differently."""
_SHUTDOWN_SECONDS = 180.0
_STATE = "state"
_TEMPLATES = "clone"
_RESIDENT = "resident.json"
_STARTS = "starts.json"
_NONCE = "nonce"


@dataclass(frozen=True)
class Kept:
    """A checkpoint in the cache.

    Attributes:
        state: Its sealed folder.
        digest: SHA-256 of that folder's contents.
        kind: What it holds.
    """

    state: Path
    digest: str
    kind: Kind

    @property
    def templates(self) -> Path:
        """Empty overlays over its disks, for clones to copy."""
        return self.state / _TEMPLATES

    @property
    def memory(self) -> Path:
        """The machine's memory."""
        return self.state / "memory"

    @property
    def devices(self) -> Path:
        """The state of everything else."""
        return self.state / "devices"

    def resident(self) -> dict[str, int | str] | None:
        """What stays in the guest of a clone (see :meth:`runner.guests.qga.QgaGuest.kept`); ``None``: nothing."""
        found: dict[str, int | str] | None = json.loads((self.state / _RESIDENT).read_text())
        return found

    def nonce(self) -> str:
        """What was planted last in the machine: its clones hold it until something of their own is."""
        return (self.state / _NONCE).read_text()

    def starts(self) -> dict[str, int]:
        """Byte of its disk at which the volume of each drive begins (see :func:`runner.machines.virt.disk_state.located`)."""
        found: dict[str, int] = json.loads((self.state / _STARTS).read_text())
        return found

    def verify(self) -> None:
        """Checks that it still is what was sealed.

        Raises:
            MachineError: It is missing or was changed; it is never answered by another one.
        """
        if sealing.checked_seal(self.state, self.state.parent / "seal.json").contents != self.digest:
            raise MachineError(f"{self.state} is no longer the checkpoint that was made")


def kept(plan: Blueprint, kind: Kind) -> Kept:
    """The checkpoint: from the cache, or made now.

    Raises:
        MachineError: The machine does not start, or the checkpoint in the cache is damaged.
        SetupError: A set-up step failed.
    """
    folder = home() / "checkpoints" / _key(plan, kind)[:32]
    fill = _with_memory if kind == "memory" else _of_disk
    about = {"image": plan.image.manifest.name, "base": plan.base(), "kind": kind, "versions": plan.host.versions}
    state, seal = sealing.sealed(folder, _STATE, _filling(plan, fill, folder / _STATE), about=about)
    return Kept(state, seal.contents, kind)


def _key(plan: Blueprint, kind: Kind) -> str:
    """All that goes into a checkpoint. Where the disks lie counts too, since its overlays name their place."""
    told: dict[str, object] = {
        "recipe": _RECIPE,
        "kind": kind,
        "image": plan.files.fingerprint,
        "disks": [[disk.target, disk.sha256, str(disk.path)] for disk in plan.files.disks],
        "home": str(home()),
        "set-up": plan.set_up.digest(),
        "hardware": {name: str(value) for name, value in asdict(plan.hardware()).items()},
        "screen": [plan.screen_size(), str(plan.files.keymap)],
        "versions": plan.host.versions,
        "probe": hashlib.sha256(plan.probe()).hexdigest(),
    }
    if kind == "memory":
        told["start"] = [program.model_dump(mode="json", by_alias=True) for program in plan.start]
        told["manifest"] = plan.image.fingerprint()
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _filling(plan: Blueprint, fill: Callable[[Blueprint, Path], None], final: Path) -> Callable[[Path], None]:
    def run(state: Path) -> None:
        state.mkdir()
        for disk in plan.files.disks:
            overlays.create(state / f"{disk.target}.qcow2", disk.path, disk.format)
        try:
            fill(plan, state)
        except (Unreadable, GuestLost) as error:
            raise MachineError(f"the image {plan.image.manifest.name} is not usable: {error}") from None
        (state / _TEMPLATES).mkdir()
        for file, _ in plan.disks(state):
            file.chmod(0o444)
            overlays.create(state / _TEMPLATES / file.name, file, will_be=final / file.name)

    return run


def _with_memory(plan: Blueprint, state: Path) -> None:
    memory = Memory(state / "memory", shared=True, awaited=False)
    with _set_up(plan, state, memory) as (running, guest):
        start_programs(guest, plan.image, _patiently(plan))
        (state / _RESIDENT).write_text(json.dumps(guest.kept()))
        # Clones go on in this very moment: frozen, so that disks and memory agree, and thawed first of all.
        markers = Freezer(guest, plan.agent(running), plan.dialect, running).freeze(plan.drives(state))
        running.save_memory(state / "devices")
    _note_starts(plan, state, markers)


def _patiently(plan: Blueprint) -> list[StartProgram]:
    """The programs to start, given as long as the machine itself gets: right after its first start all is slow."""
    least = float(plan.part.boot_timeout)
    return [wanted.model_copy(update={"timeout": max(wanted.timeout, least)}) for wanted in plan.start]


def _of_disk(plan: Blueprint, state: Path) -> None:
    with _set_up(plan, state, None) as (running, guest):
        markers = Freezer(guest, plan.agent(running), plan.dialect, running).mark(plan.drives(state))
        running.shut_down(timeout=_SHUTDOWN_SECONDS)
    _note_starts(plan, state, markers)


def _note_starts(plan: Blueprint, state: Path, markers: dict[str, bytes]) -> None:
    """Finds the drives on the checkpoint's disks, which proves that all is there, too."""
    starts = disk_state.located(plan.drives(state), markers, by_wine=plan.by_wine)
    (state / _STARTS).write_text(json.dumps(starts))


@contextmanager
def _set_up(plan: Blueprint, state: Path, memory: Memory | None) -> Iterator[tuple[RunningDomain, QgaGuest]]:
    """A machine that writes to the checkpoint's own overlays, with the contract's set-up done; ended at last."""
    name, timeout = plan.image.manifest.name, float(plan.part.boot_timeout)
    plan.say(f"starting {name} for the contract's set-up (once)")
    tag = Tag("checkpoint", state.parent.name.partition(".")[0])
    domain = plan.domain(f"libvirt-{secrets.token_hex(6)}", tag, disks=state, memory=memory)
    running = RunningDomain.start(plan.connection, domain)
    try:
        guest = plan.guest(running)
        await_agent(guest, running, timeout)
        guest.set_time(time.time_ns())
        # Before any program: one that starts ahead of the desktop may get one of its own.
        running.await_screen(plan.screen_size(), time.monotonic() + timeout)
        install_probe(guest, plan.probe(), timeout=timeout)
        shown = prove(guest, timeout=timeout)
        told = prove_by_agent(plan.agent(running), plan.dialect, before=shown.nonce, timeout=timeout)
        if told.utc_offset != shown.utc_offset:
            raise MachineError(
                f"the image {name} is not usable: its guest agent's time zone is {told.utc_offset // 60} minutes from UTC, that of "
                f"its Windows {shown.utc_offset // 60}"
            )
        (state / _NONCE).write_text(told.nonce)
        plan.set_up.apply(guest)
        yield running, guest
    finally:
        running.destroy()
