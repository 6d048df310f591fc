"""What the machines of one checkpoint have in common: their disks, their hardware, the way into them."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contracts.schema import StartProgram
from runner.guests.agent import Agent
from runner.guests.base import GuestLost
from runner.guests.dialects import WINDOWS, WINE, Dialect
from runner.guests.qga import QgaGuest
from runner.machines.base import MachineError, Tag
from runner.machines.images import FOLDER, Image, LibvirtPart
from runner.machines.recipes import built
from runner.machines.setup import SetUp
from runner.machines.virt.domain_xml import Domain, DomainTag, Hardware, Memory, Screen
from runner.machines.virt.hypervisor import Hypervisor
from runner.machines.virt.lifetime import home_id
from runner.machines.virt.preflight import Host
from runner.machines.virt.running import AgentChannel, RunningDomain, new_password
from runner.machines.vm_files import VmFiles

_PROBES = {"windows": "build/i686/lpprobe.exe", "wine": "build/x86_64/lpprobe.exe"}
_PAUSE = 0.05


@dataclass(frozen=True)
class Blueprint:
    """Everything that a checkpoint and its clones are made from.

    Attributes:
        image: The image.
        part: What it says of its virtual machine.
        files: Its disks, checked.
        connection: Where machines run.
        host: What that can do.
        set_up: The contract's set-up.
        start: The programs that the contract wants running.
        say: Told what is being done, for a person who waits.
    """

    image: Image
    part: LibvirtPart
    files: VmFiles
    connection: Hypervisor
    host: Host
    set_up: SetUp
    start: tuple[StartProgram, ...]
    say: Callable[[str], None]

    def base(self) -> str:
        """One hash for all disks of the image."""
        told = "\n".join(f"{disk.target} {disk.sha256}" for disk in self.files.disks)
        return hashlib.sha256(told.encode()).hexdigest()

    def hardware(self) -> Hardware:
        """What the machines consist of."""
        return Hardware(
            accelerator=self.host.accelerator,
            machine=self.host.machine,
            cpus=self.part.cpus,
            memory=self.part.memory,
            firmware=self.part.firmware,
            tpm=self.part.tpm,
            windows=not self.by_wine,
            timezone=self.image.manifest.timezone,
            kernel=self.files.kernel,
            initrd=self.files.initrd,
            cmdline=self.files.cmdline or "",
        )

    def screen_size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        display = self.image.manifest.display
        return display.width, display.height

    def disks(self, folder: Path) -> tuple[tuple[Path, str], ...]:
        """The overlays in a folder, with the target of each."""
        return tuple((folder / f"{disk.target}.qcow2", disk.target) for disk in self.files.disks)

    def drives(self, folder: Path) -> dict[str, Path]:
        """The letters of the Windows drives, with the overlay in the folder that holds each."""
        return {disk.drive: folder / f"{disk.target}.qcow2" for disk in self.files.disks if disk.drive}

    def domain(self, name: str, tag: Tag, *, disks: Path, memory: Memory | None) -> Domain:
        """A machine whose overlays lie in ``disks``."""
        root = self.connection.root
        return Domain(
            name=name,
            tag=DomainTag(tag.campaign, tag.run, self.connection.runner, home_id()),
            hardware=self.hardware(),
            disks=self.disks(disks),
            screen=Screen(0, new_password(), str(self.files.keymap or "")),
            agent=None if root is None else root / f"{name}.agent",
            memory=memory,
        )

    @property
    def by_wine(self) -> bool:
        """Whether Wine, and not Windows, runs the programs."""
        return self.part.runs == "wine"

    @property
    def dialect(self) -> Dialect:
        """What kind of system the guest agent runs in."""
        return WINE if self.by_wine else WINDOWS

    def guest(self, domain: RunningDomain) -> QgaGuest:
        """The way into a running machine."""
        return QgaGuest(AgentChannel(self.connection, domain.name), self.dialect)

    def agent(self, domain: RunningDomain) -> Agent:
        """Its guest agent alone."""
        return Agent(AgentChannel(self.connection, domain.name))

    def probe(self) -> bytes:
        """The probe's program for what runs there.

        Raises:
            MachineError: It cannot be built.
        """
        return built(FOLDER / "probe", _PROBES[self.part.runs]).read_bytes()


def await_agent(guest: QgaGuest, domain: RunningDomain, timeout: float) -> None:
    """Waits until a machine's agent answers.

    Raises:
        MachineError: It does not in time, or the machine has ended.
    """
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(GuestLost):
            guest.ping(timeout=max(1.0, min(5.0, deadline - time.monotonic())))
            return
        state = domain.state()
        if state != "running":
            raise MachineError(f"{domain.name} is {state} instead of running while its guest agent was waited for")
        if time.monotonic() > deadline:
            raise MachineError(
                f"the guest agent of {domain.name} did not answer within {timeout:g} s: is it installed and started in the image?"
            )
        time.sleep(_PAUSE)
