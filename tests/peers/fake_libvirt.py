"""A stand-in for libvirt and for the system inside its machines, both in memory.

It proves what the provider makes of libvirt's answers and of a guest's: what it starts, cleans up and tells when something is
refused, late, taken or broken. Disks are real qcow2 files, checked by the real code; checkpoints are really kept and sealed. It does
not prove that libvirt, QEMU or a guest behave so: the tests marked ``vm`` do.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PureWindowsPath
from typing import Any
from xml.etree import ElementTree

import pytest

from runner.guests.base import GuestLost
from runner.guests.probe import ProbeResult
from runner.machines import libvirt
from runner.machines.base import home
from runner.machines.images import Image, find_image
from runner.machines.libvirt import LibvirtCheckpoint, LibvirtProvider
from runner.machines.readiness import NONCE
from runner.machines.virt import checkpoints
from runner.machines.virt.blueprint import Blueprint
from runner.machines.virt.domain_xml import read_tag
from runner.machines.virt.hypervisor import EMBED, HypervisorError
from runner.machines.virt.running import RunningDomain
from tests.peers import vm_disk
from tests.peers.fake_guest import HEADER, FakeGuest

CAPABILITIES = """<domainCapabilities><machine>pc-q35-7.2</machine><vcpu max='8'/>
<os supported='yes'><enum name='firmware'>{firmware}</enum></os>
<devices><graphics supported='yes'><enum name='type'><value>vnc</value></enum></graphics>
<tpm supported='{tpm}'><enum name='backendModel'><value>emulator</value></enum></tpm></devices></domainCapabilities>"""
_FILETIME_EPOCH = 11_644_473_600


@dataclass
class FakeHypervisor:
    """Domains in memory (see :class:`runner.machines.virt.hypervisor.Hypervisor`).

    Attributes:
        domains: The state of each domain, by its name.
        xml: What each was made from.
        on_call: Called with the call and its arguments before it is carried out; may raise.
        calls: Every call.
        uefi: Whether the host has UEFI firmware.
        tpm: Whether it can emulate a TPM.
        runner: The connection's token; no lock proves that it lives.
        root: Where sockets lie; nothing is made there.
        display_port: Where every screen listens that chose its port itself.
        systems: What runs in each domain, and is told of its shut-down.
    """

    uri: str = EMBED
    embedded: bool = True
    runner: str = "00000000000000aa"
    root: Path | None = None
    display_port: int = 0
    systems: dict[str, FakeVmGuest] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)
    xml: dict[str, str] = field(default_factory=dict)
    on_call: Callable[[str, dict[str, Any]], None] = lambda _call, _arguments: None
    calls: list[str] = field(default_factory=list)
    uefi: bool = False
    tpm: bool = False
    about: dict[str, Any] = field(default_factory=lambda: {"libvirt": 9_000_000, "qemu": 7_002_022, "host": "fake"})

    def call(self, call: str, /, *, timeout: float, again: bool = False, **arguments: Any) -> Any:
        """See :meth:`Hypervisor.call`."""
        self.calls.append(call)
        self.on_call(call, arguments)
        name = str(arguments.get("name", ""))
        match call:
            case "capabilities":
                firmware = "<value>efi</value>" if self.uefi else ""
                return CAPABILITIES.format(firmware=firmware, tpm="yes" if self.tpm else "no")
            case "create":
                return self._create(arguments["xml"], paused=arguments["paused"])
            case "destroy":
                return self.domains.pop(name, None) is not None
            case "state":
                return self.domains.get(name, "gone")
            case "tagged":
                tags = {name: read_tag(xml) for name, xml in self.xml.items() if name in self.domains}
                return [{"name": name, "tag": asdict(tag)} for name, tag in tags.items() if tag is not None]
        if name not in self.domains:
            raise HypervisorError("no_domain", f"Domain not found: {name}")
        match call:
            case "suspend":
                self.domains[name] = "paused"
            case "resume":
                self.domains[name] = "running"
            case "shutdown":
                if name in self.systems:
                    self.systems[name].flush()
                del self.domains[name]
            case "display_port":
                return self.display_port
            case "save_memory":
                Path(arguments["path"]).write_bytes(b"devices")
            case "load_memory":
                assert Path(arguments["path"]).read_bytes() == b"devices"
            case _:
                raise AssertionError(f"the fake does not know {call}")
        return None

    def _create(self, xml: str, *, paused: bool) -> dict[str, Any]:
        root = ElementTree.fromstring(xml)
        name = root.findtext("name", "")
        if name in self.domains:
            raise HypervisorError("operation", f"operation failed: domain '{name}' already exists with uuid 1")
        for disk in root.findall("./devices/disk/source"):
            assert Path(disk.get("file", "")).is_file()
        self.domains[name] = "paused" if paused else "running"
        self.xml[name] = xml
        return {"uuid": root.findtext("uuid"), "pid": 0}


class FakeVmGuest(FakeGuest):
    """A guest with an agent and a clock.

    Attributes:
        offset: Guest clock minus host clock, in seconds.
        settable: Whether setting the clock has an effect.
        answers: Whether the agent answers.
        frozen: Whether the file systems are.
        disk: The qcow2 file that holds its drive C.
        marker: The file that was written last through a handle; on the disk once it is flushed.
        saved: What a program has saved (see :mod:`tests.peers.vm_disk`); on the disk once it is flushed.
        flushes: Whether flushing has an effect.
        left_clean: Whether the volume's journal is.
    """

    offset = 0.0
    settable = True
    answers = True
    frozen = False
    disk: Path | None = None
    marker = b""
    saved = b""
    flushes = True
    left_clean = True

    def flush(self) -> None:
        """Writes everything to the disk, as a system does that is frozen or shut down."""
        if self.flushes and self.disk is not None:
            vm_disk.put(vm_disk.drive_c(self.marker, self.saved, left_clean=self.left_clean), self.disk)

    def ping(self, *, timeout: float = 5.0) -> None:
        """See :meth:`runner.guests.qga.QgaGuest.ping`."""
        if not self.answers:
            raise GuestLost("the guest agent does not answer")

    def freeze(self, *, timeout: float = 60.0) -> int:
        """See :meth:`runner.guests.qga.QgaGuest.freeze`."""
        self.flush()
        self.frozen = True
        return 2

    def thaw(self, *, timeout: float = 30.0) -> int:
        """See :meth:`runner.guests.qga.QgaGuest.thaw`."""
        self.frozen = False
        return 2

    def set_time(self, now: int, *, timeout: float = 15.0) -> None:
        """See :meth:`runner.guests.qga.QgaGuest.set_time`."""
        if self.settable:
            self.offset = now / 1e9 - time.time()

    def kept(self) -> None:
        """See :meth:`runner.guests.qga.QgaGuest.kept`."""

    def write_file(self, path: str, data: bytes, *, deadline: float) -> None:
        """See :meth:`runner.guests.agent.Agent.write_file`."""
        self.put(_of_windows(path), data)

    def read_file(self, path: str, *, limit: int, deadline: float) -> bytes:
        """See :meth:`runner.guests.agent.Agent.read_file`."""
        return self.read(PureWindowsPath(_of_windows(path)), limit=limit)

    def time(self, *, deadline: float) -> int:
        """See :meth:`runner.guests.agent.Agent.time`."""
        return int((time.time() + self.offset) * 1e9)

    def call(self, name: str, arguments: object = None, *, deadline: float, repeat: bool = True) -> object:
        """See :meth:`runner.guests.agent.Agent.call`."""
        if name == "guest-file-write":
            assert isinstance(arguments, dict)
            self.marker = base64.b64decode(arguments["buf-b64"])
            return {"count": len(self.marker)}
        return {"guest-get-timezone": {"zone": "UTC", "offset": 0}}[name]

    def execute(self, command: object, *, deadline: float) -> None:
        """See :meth:`runner.guests.agent.Agent.execute`."""

    def open(self, path: str, mode: str, *, deadline: float) -> int:
        """See :meth:`runner.guests.agent.Agent.open`."""
        return 1000

    def close(self, handle: int = 0) -> None:
        """See :meth:`runner.guests.agent.Agent.close`."""

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        """See :meth:`runner.guests.base.Guest.probe`; also answers ``read`` and ``version``."""
        filetime = int((time.time() + self.offset + _FILETIME_EPOCH) * 10_000_000)
        header = replace(HEADER, command=argv[0], time=filetime)
        if argv[0] == "version":
            return ProbeResult(header, 0, "", 0)
        if argv[0] == "read":
            return ProbeResult(header, 0, "", 0, data=self.read(PureWindowsPath(argv[1]), limit=1 << 20))
        return super().probe(*argv, timeout=timeout)


def _of_windows(path: str) -> str:
    """What Windows programs call a place that the agent of a Linux guest names."""
    below = path.removeprefix("/mnt/c/")
    return path if below == path else "C:\\" + below.replace("/", "\\")


@dataclass
class FakeHost:
    """Everything that a test with pretended machines needs.

    Attributes:
        hypervisor: Their libvirt.
        guests: The guest of each machine that was started, in order.
        new_guest: Makes the guest of the next one.
        image: A small image with two disks.
        said: What the provider told.
        found_nonce: The nonce that a clone holds at first, made of what was planted last in its checkpoint; ``None``: none.
    """

    hypervisor: FakeHypervisor
    image: Image
    guests: list[FakeVmGuest] = field(default_factory=list)
    new_guest: Callable[[], FakeVmGuest] = FakeVmGuest
    said: list[str] = field(default_factory=list)
    found_nonce: Callable[[bytes], bytes | None] = lambda planted: planted
    _gold: FakeVmGuest | None = None

    def guest_of(self, domain: RunningDomain) -> FakeVmGuest:
        """The guest of a machine that was just started: the checkpoint's own, or a clone's."""
        made = self.new_guest()
        self.guests.append(made)
        self.hypervisor.systems[domain.name] = made
        xml = self.hypervisor.xml[domain.name]
        made.disk = Path(ElementTree.fromstring(xml).findall("./devices/disk/source")[-1].get("file", ""))
        tag = read_tag(xml)
        if tag is not None and tag.campaign == "checkpoint":
            self._gold = made
        elif self._gold is not None:
            nonce = self.found_nonce(self._gold.node(str(NONCE)).data)
            if nonce is not None:
                made.put(str(NONCE), nonce)
        return made

    def provider(self) -> LibvirtProvider:
        """A provider that works with it."""
        return LibvirtProvider(self.said.append)

    def checkpoint(self) -> LibvirtCheckpoint:
        """The image's checkpoint."""
        return self.provider().prepare(self.image, [], [], folder=self.image.folder)


def image_with_disks(folder: Path, **part: Any) -> Image:
    """An image of two small disks, the second one drive C, that are there already; ``part`` adds to what it says of its machine."""
    for name in ("system", "data"):
        file = folder / f"{name}.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(file), "1M"], check=True, timeout=60)
    vm_disk.put(vm_disk.drive_c(), folder / "data.qcow2")
    part = {"cpus": 1, "memory": 128, "runs": "wine", "boot_timeout": 10} | part
    drive = part.pop("drive", "C")
    told = "".join(f"  {name}: {value}\n" for name, value in part.items())
    disks = "".join(
        f"  - file: {folder}/{name}.qcow2\n    sha256: {hashlib.sha256((folder / f'{name}.qcow2').read_bytes()).hexdigest()}\n{more}"
        for name, more in (("system", ""), ("data", f"    drive: {drive}\n" if drive else ""))
    )
    (folder / "small.yaml").write_text(
        f"schema: 1\nname: small\nprovider: libvirt\nsummary: Two disks.\nlibvirt:\n{told}  disks:\n{disks}"
    )
    return find_image("small")


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, **part: Any) -> FakeHost:
    """Makes the provider of this process work with a fake host, in a home of its own."""
    monkeypatch.setenv("LEGACYPROOF_HOME", str(folder / "home"))
    monkeypatch.setenv("LEGACYPROOF_IMAGES", str(folder))
    host = FakeHost(FakeHypervisor(), image_with_disks(folder, **part))

    monkeypatch.setattr(libvirt, "hypervisor", lambda uri: host.hypervisor)
    monkeypatch.setattr(Blueprint, "guest", lambda plan, domain: host.guest_of(domain))
    monkeypatch.setattr(Blueprint, "agent", lambda plan, domain: host.guests[-1])
    monkeypatch.setattr(Blueprint, "probe", lambda plan: b"probe")
    monkeypatch.setattr(checkpoints, "install_probe", lambda guest, program, timeout: None)
    monkeypatch.setattr(RunningDomain, "await_screen", lambda self, size, deadline: None)
    return host


def machine_folders() -> list[str]:
    """The names of the machines' folders in this home."""
    return sorted(folder.name for folder in (home() / "machines").glob("*"))
