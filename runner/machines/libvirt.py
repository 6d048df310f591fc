"""Virtual machines through libvirt: started once per contract, saved with their memory, cloned for each run.

Image (disks, sealed with their hash) → checkpoint (overlays in which the contract's set-up is done and its programs run, with the
memory as a file, sealed) → clone (new overlays, and the same memory mapped privately) → machine. Where a memory cannot be saved or
is refused, a clone is an overlay that starts from the disk, and says why; it is never made from anything else than the contract's
own checkpoint.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from contracts.schema import SetupStep, StartProgram
from runner.changed_keys import KeyChanges
from runner.disk_registry import changed_keys
from runner.display.errors import DisplayError
from runner.display.handshake import DisplayAddress
from runner.display.rfb import RfbClient
from runner.guests.base import GuestLost, Unreadable
from runner.guests.offline import OfflineGuest
from runner.guests.qga import QgaGuest
from runner.machines import folders
from runner.machines.base import DiskState, Freshness, Leftover, MachineError, Stop, Tag
from runner.machines.folders import MachineFolder
from runner.machines.images import Image
from runner.machines.readiness import await_windows, start_programs
from runner.machines.setup import SetUp
from runner.machines.virt import checkpoints, disk_state, overlays, preflight, reaper
from runner.machines.virt.blueprint import Blueprint, await_agent
from runner.machines.virt.checkpoints import Kept
from runner.machines.virt.disk_state import Freezer
from runner.machines.virt.domain_xml import Memory
from runner.machines.virt.hypervisor import HypervisorError, hypervisor
from runner.machines.virt.proof import prove_by_agent
from runner.machines.virt.running import MemoryRefused, NameTaken, RunningDomain
from runner.machines.vm_files import build, vm_files
from runner.offline.changes import DiskChange

_RESTORED_SECONDS = 60.0
"""How long the agent of a clone may take that goes on from a saved memory: it was answering when that was saved."""
_SCREEN_SECONDS = 30.0
_SHUTDOWN_SECONDS = 120.0
_NAME_TRIES = 3


def _say_nothing(_: str) -> None:
    pass


class LibvirtProvider:
    """Makes virtual machines (see :class:`runner.machines.base.MachineProvider`)."""

    def __init__(self, say: object = None) -> None:
        self._say: Callable[[str], None] = say if callable(say) else _say_nothing

    def prepare(
        self, image: Image, setup: Sequence[SetupStep], start: Sequence[StartProgram], *, folder: Path
    ) -> LibvirtCheckpoint:
        """See :meth:`MachineProvider.prepare`."""
        part = image.manifest.libvirt
        if part is None:
            raise MachineError(f"the image {image.manifest.name} does not say what its virtual machine is: `libvirt:`")
        connection = hypervisor(part.uri)
        host = preflight.inspect(connection, part)
        for warning in host.warnings:
            self._say(warning)
        files = build(image, self._say) if part.recipe is not None else vm_files(image)
        reaper.remember(part.uri)
        steps = SetUp.of(setup, folder)
        return LibvirtCheckpoint(Blueprint(image, part, files, connection, host, steps, tuple(start), self._say))

    def leftovers(self) -> list[Leftover]:
        """See :meth:`MachineProvider.leftovers`."""
        return reaper.leftovers()

    def reap(self, leftover: Leftover) -> None:
        """See :meth:`MachineProvider.reap`."""
        reaper.reap(leftover)


class LibvirtCheckpoint:
    """An image with one contract's set-up done (see :class:`runner.machines.base.Checkpoint`).

    Attributes:
        plan: What it was made from.
        kept: Where it is kept.
        why_cold: Why clones start from the disk; ``None``: they go on from the saved memory.
    """

    def __init__(self, plan: Blueprint) -> None:
        self.plan = plan
        self.why_cold = preflight.why_cold(plan.part, plan.host)
        self.kept = self._first()
        self.digest = self.kept.digest
        self._cold = self.kept if self.kept.kind == "disk" else None
        self._lock = threading.Lock()

    def _first(self) -> Kept:
        """With memory, where the host can save it."""
        if self.why_cold is None:
            try:
                return checkpoints.kept(self.plan, "memory")
            except MemoryRefused as error:
                self._go_cold(error)
        return checkpoints.kept(self.plan, "disk")

    def _go_cold(self, reason: MemoryRefused) -> None:
        self.why_cold = str(reason)
        self.plan.say(f"machines start from the disk: {reason}")

    def verify(self) -> None:
        """Checks that the image's disks and the checkpoint still are what was sealed.

        Raises:
            MachineError: One is missing or was changed.
        """
        if vm_files(self.plan.image) != self.plan.files:
            raise MachineError(
                f"the image {self.plan.image.manifest.name} is no longer what the checkpoint was made from"
            )
        self.kept.verify()

    def clone(self, tag: Tag) -> LibvirtMachine:
        """See :meth:`Checkpoint.clone`. A host that refuses the saved memory gets a start from the disk instead."""
        self.verify()
        if self.why_cold is None:
            try:
                return self._made(tag, self.kept)
            except MemoryRefused as error:
                self._go_cold(error)
        return self._made(tag, self._disk_only())

    def _disk_only(self) -> Kept:
        """The same set-up on the disk alone."""
        with self._lock:
            if self._cold is None:
                self._cold = checkpoints.kept(self.plan, "disk")
            self._cold.verify()
            return self._cold

    def _made(self, tag: Tag, kept: Kept) -> LibvirtMachine:
        for attempt in range(1, _NAME_TRIES + 1):
            machine = LibvirtMachine(self.plan, kept, tag, self.why_cold)
            try:
                machine.boot()
            except NameTaken:
                machine.forget()  # the domain of that name is somebody else's
                if attempt == _NAME_TRIES:
                    raise
            except BaseException:
                with contextlib.suppress(MachineError):  # what went wrong first is told; the folder stays listed
                    machine.discard()
                raise
            else:
                return machine
        raise AssertionError("unreachable")


class LibvirtMachine:
    """One virtual machine (see :class:`runner.machines.base.Machine`), whose disk can be read without its help.

    Attributes:
        folder: Where its files lie.
        why_cold: Why it was started from its disk; ``None``: it goes on from a saved memory.
    """

    def __init__(self, plan: Blueprint, kept: Kept, tag: Tag, why_cold: str | None) -> None:
        self.tag = tag
        self.timings: dict[str, float] = {}
        self.why_cold = why_cold
        self._plan = plan
        self._kept = kept
        self._place = MachineFolder(reaper.PROVIDER, tag, uri=plan.connection.uri)
        self.id = self._place.id
        self.folder = self._place.path
        self._running: RunningDomain | None = None
        self._guest: QgaGuest | None = None
        self._freshness: Freshness | None = None
        self._gone = False
        self._ended = ""
        """How it was ended for its disk to be read; empty: it runs."""
        self._markers: dict[str, bytes] = {}
        """What was written to its drives before it was shut down for that."""

    # -- what it is ------------------------------------------------------------------------------------------------------

    @property
    def guest(self) -> QgaGuest:
        """The way into it."""
        if self._guest is None:
            raise MachineError("the machine is not running")
        return self._guest

    @property
    def display(self) -> DisplayAddress:
        """Its screen and input."""
        return self._domain.display

    @property
    def freshness(self) -> Freshness:
        """The proof that it is fresh."""
        if self._freshness is None:
            raise MachineError("the machine is not running")
        return self._freshness

    @property
    def notes(self) -> tuple[str, ...]:
        """What the run's record should tell of how it was made."""
        cold = () if self.why_cold is None else (f"it started from its disk: {self.why_cold}",)
        return (*cold, *self._plan.host.warnings)

    @property
    def _domain(self) -> RunningDomain:
        if self._running is None:
            raise MachineError("the machine is not running")
        return self._running

    # -- its life --------------------------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Starts it and proves that it is fresh.

        Raises:
            MemoryRefused: It does not go on from the saved memory.
            NameTaken: There is such a domain already.
            MachineError: It does not start, or a proof fails.
        """
        begun = time.monotonic()
        plan, restored = self._plan, self._kept.kind == "memory"
        for file, _ in plan.disks(self.folder):
            overlays.clone(self._kept.templates / file.name, file)
        memory = Memory(self._kept.memory, shared=False, awaited=True) if restored else None
        domain = plan.domain(self.id, self.tag, disks=self.folder, memory=memory)
        saved = self._kept.devices if restored else None
        self._running = RunningDomain.start(plan.connection, domain, saved=saved)
        self.timings["clone"] = time.monotonic() - begun
        guest = plan.guest(self._running)
        limit = _RESTORED_SECONDS if restored else float(plan.part.boot_timeout)
        await_agent(guest, self._running, limit)
        try:
            if restored:
                guest.thaw()
                if (resident := self._kept.resident()) is not None:
                    guest.go_on(resident)
            guest.set_time(time.time_ns())
        except (Unreadable, GuestLost) as error:
            raise MachineError(f"the machine's clock could not be set: {error}") from None
        screen_limit = _SCREEN_SECONDS if restored else float(plan.part.boot_timeout)
        self._running.await_screen(plan.screen_size(), time.monotonic() + screen_limit)
        answered = prove_by_agent(plan.agent(self._running), plan.dialect, before=self._kept.nonce(), timeout=limit)
        self._guest = guest
        self._freshness = Freshness(
            base=plan.base(),
            layers=(self._kept.digest,),
            nonce=answered.nonce,
            boot=self._running.uuid,
            clock_offset=answered.clock_offset,
            utc_offset=answered.utc_offset,
            image=plan.files.fingerprint,
        )
        self.timings["boot"] = time.monotonic() - begun - self.timings["clone"]

    def start(self, programs: Sequence[StartProgram]) -> None:
        """See :meth:`Machine.start`. From a saved memory they run already: only their windows are made sure of."""
        begun = time.monotonic()
        if self._kept.kind == "memory":
            await_windows(self.guest, self._plan.image, programs)
        else:
            start_programs(self.guest, self._plan.image, programs)
        self.timings["start"] = time.monotonic() - begun

    def ensure_alive(self) -> None:
        """See :meth:`Machine.ensure_alive`."""
        state = self._domain.state()
        if state == "paused":
            raise MachineError(
                "it was stopped: QEMU does so when its disk cannot be written, as on a full disk of the host"
            )
        if state != "running":
            raise MachineError(f"it does not run any more: it is {state}")
        try:
            RfbClient.connect(self.display, timeout=10).close()
        except DisplayError as error:
            raise MachineError(f"its screen cannot be reached: {error}") from None

    def discard(self) -> None:
        """See :meth:`Machine.discard`."""
        if self._gone:
            return
        begun = time.monotonic()
        try:
            self._end()
            self._place.remove()
        except MachineError as error:
            self._place.quarantine(str(error))
            raise
        self._gone = True
        self.timings["discard"] = time.monotonic() - begun

    def _end(self) -> None:
        """Ends the domain, also one whose start was not answered, and QEMU itself, should libvirt have lost sight of it."""
        try:
            if self._running is not None:
                self._running.destroy()
            else:
                self._plan.connection.call("destroy", timeout=30.0, again=True, name=self.id)
        except HypervisorError:
            if not self._plan.connection.embedded:
                raise
        folders.end_processes_of(self.folder)

    def forget(self) -> None:
        """Removes its files and touches no domain.

        Raises:
            MachineError: They could not be removed.
        """
        self._gone = True
        self._place.remove()

    # -- its disk --------------------------------------------------------------------------------------------------------

    def disk_before(self) -> AbstractContextManager[DiskState]:
        """See :meth:`DiskReadable.disk_before`: its own disk, for its programs go on and write before the agent begins, too."""
        return self.disk_after("disk")

    @contextmanager
    def disk_after(self, how: Stop) -> Iterator[DiskState]:
        """See :meth:`DiskReadable.disk_after`."""
        plan, copies = self._plan, self.folder / "taken"
        drives = plan.drives(self.folder)
        disk_state.ensure_some(drives)
        without = tuple(disk.target for disk in plan.files.disks if not disk.drive)
        try:
            if how == "disk":
                copies.mkdir(exist_ok=True)
                markers = self._freezer().copy(drives, copies)
                drives, live, taken, left_clean = plan.drives(copies), self._guest, "frozen disk, suspended", False
            else:
                markers = self._stop(how, drives)
                # The driver that Wine's volumes have keeps no journal: what is there is all there is.
                live, taken, left_clean = None, self._ended, not plan.by_wine
            with disk_state.offline(
                drives, self._kept.starts(), by_wine=plan.by_wine, live=live, left_clean=left_clean
            ) as offline:
                disk_state.prove(offline, markers)
                yield DiskState(
                    offline, taken, lambda: self._changed(drives), tuple(drives), without,
                    lambda: self._changed_keys(offline, drives, at_rest=how == "shutdown"),
                )  # fmt: skip
        finally:
            for file in plan.drives(copies).values():
                file.unlink(missing_ok=True)

    def _freezer(self) -> Freezer:
        return Freezer(self.guest, self._plan.agent(self._domain), self._plan.dialect, self._domain)

    def _stop(self, how: Stop, drives: Iterable[str]) -> dict[str, bytes]:
        """Ends the machine so that its disk can be read; its folder stays. What was written to its drives last for that."""
        if self._ended:
            return self._markers
        if how == "shutdown":
            self._markers = self._freezer().mark(drives)
            self._domain.shut_down(timeout=_SHUTDOWN_SECONDS)
            self._ended = "after shut-down"
        else:
            self._domain.destroy()
            self._ended = "after power-off"
        return self._markers

    def _changed_keys(self, after: OfflineGuest, drives: dict[str, Path], *, at_rest: bool) -> KeyChanges:
        changed = self._changed(drives)
        states = self._plan.drives(self._kept.state)
        with disk_state.offline(states, self._kept.starts(), by_wine=self._plan.by_wine) as before:
            return changed_keys(before, after, changed, at_rest=at_rest)

    def _changed(self, drives: dict[str, Path]) -> tuple[DiskChange, ...]:
        before = self._plan.drives(self._kept.state)
        return disk_state.changed(
            before, drives, self._kept.starts(), by_wine=self._plan.by_wine, key=self._kept.digest
        )
