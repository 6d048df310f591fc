"""What a virtual machine consists of, as libvirt's domain XML; and our tag in it.

The same function writes the XML of a checkpoint's machine and of its clones, so both have the same devices at the same addresses:
a saved state fits no other.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from runner.machines.base import Tag
from runner.machines.virt.lifetime import is_token

NAMESPACE = "urn:legacyproof:machine:1"
"""Of the element in a domain's metadata that makes it ours."""
_QEMU = "http://libvirt.org/schemas/domain/qemu/1.0"
_MEMORY = "legacyproof-memory"
_BUSES = {"vd": "virtio", "sd": "sata", "hd": "ide"}

ElementTree.register_namespace("lp", NAMESPACE)
ElementTree.register_namespace("qemu", _QEMU)


@dataclass(frozen=True, slots=True)
class DomainTag:
    """Whose a domain is.

    Attributes:
        campaign: See :class:`runner.machines.base.Tag`.
        run: See there.
        runner: The token of the connection that made it (:mod:`runner.machines.virt.lifetime`).
        home: The id of that runner's home.

    Raises:
        ValueError: One is not fit for it: what a domain says of itself may have been written by anyone.
    """

    campaign: str
    run: str
    runner: str
    home: str

    def __post_init__(self) -> None:
        Tag(self.campaign, self.run)
        if not (is_token(self.runner) and is_token(self.home)):
            raise ValueError(f"no tokens: {self.runner!r}, {self.home!r}")


@dataclass(frozen=True, slots=True)
class Screen:
    """A domain's screen, reached from its own host only: VNC's password is short, and what it shows is not encrypted.

    Attributes:
        port: TCP port; 0: libvirt chooses one.
        password: For VNC authentication.
        keymap: A keymap of QEMU's, by name or file; empty: QEMU's default.
    """

    port: int
    password: str
    keymap: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """A file that is a domain's memory.

    Attributes:
        file: Where it lies.
        shared: Whether what the domain writes reaches the file: only while the checkpoint is made.
        awaited: Whether the domain waits for a saved state.
    """

    file: Path
    shared: bool
    awaited: bool


@dataclass(frozen=True, slots=True)
class Hardware:
    """What every domain of one checkpoint has in common.

    Attributes:
        accelerator: ``kvm``, or ``qemu``: emulation.
        machine: QEMU's machine type with its version, such as ``pc-q35-7.2``.
        cpus: Virtual processors.
        memory: MiB.
        firmware: ``bios`` or ``uefi``.
        tpm: Whether there is a TPM 2.0.
        windows: Whether Windows runs on it (its clock shows local time, its devices are those Windows has drivers for).
        timezone: The guest's, for ``windows``.
        kernel: A Linux kernel that is started directly.
        initrd: Its memory disk.
        cmdline: Its command line.
    """

    accelerator: Literal["kvm", "qemu"]
    machine: str
    cpus: int
    memory: int
    firmware: Literal["bios", "uefi"] = "bios"
    tpm: bool = False
    windows: bool = True
    timezone: str = "Europe/Berlin"
    kernel: Path | None = None
    initrd: Path | None = None
    cmdline: str = ""


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain.

    Attributes:
        name: Its name.
        tag: Whose it is.
        hardware: What it is made of.
        disks: File and target (``vda``, ``sda``, …) of each disk; the files are qcow2 and are written to.
        screen: Its screen.
        agent: The socket of its guest agent's channel; ``None``: where libvirt puts it.
        memory: The file that is its memory; ``None``: ordinary memory.
        uuid: New for each.
    """

    name: str
    tag: DomainTag
    hardware: Hardware
    disks: tuple[tuple[Path, str], ...]
    screen: Screen
    agent: Path | None = None
    memory: Memory | None = None
    uuid: str = ""


def _add(parent: ElementTree.Element, tag: str, text: str | None = None, /, **attributes: str) -> ElementTree.Element:
    made = ElementTree.SubElement(parent, tag, attributes)
    made.text = text
    return made


def xml_of(domain: Domain) -> str:
    """The domain's XML."""
    hardware = domain.hardware
    root = ElementTree.Element("domain", {"type": hardware.accelerator})
    _add(root, "name", domain.name)
    if domain.uuid:
        _add(root, "uuid", domain.uuid)
    ElementTree.SubElement(_add(root, "metadata"), f"{{{NAMESPACE}}}machine", asdict(domain.tag))
    _add(root, "memory", str(hardware.memory), unit="MiB")
    _add(root, "vcpu", str(hardware.cpus))
    _system(root, hardware)
    _processor(root, hardware)
    _clock(root, hardware)
    _add(root, "on_poweroff", "destroy")
    _add(root, "on_reboot", "restart")
    _add(root, "on_crash", "destroy")
    _devices(root, domain)
    if domain.memory is not None:
        _map_memory(root, domain.memory, hardware.memory)
    return ElementTree.tostring(root, encoding="unicode")


def _system(root: ElementTree.Element, hardware: Hardware) -> None:
    attributes = {"firmware": "efi"} if hardware.firmware == "uefi" else {}
    system = _add(root, "os", **attributes)
    _add(system, "type", "hvm", arch="x86_64", machine=hardware.machine)
    if hardware.kernel is not None:
        _add(system, "kernel", str(hardware.kernel))
        if hardware.initrd is not None:
            _add(system, "initrd", str(hardware.initrd))
        _add(system, "cmdline", hardware.cmdline)
    else:
        _add(system, "boot", dev="hd")


def _processor(root: ElementTree.Element, hardware: Hardware) -> None:
    features = _add(root, "features")
    _add(features, "acpi")
    _add(features, "apic")
    if hardware.windows and hardware.accelerator == "kvm":
        hyperv = _add(features, "hyperv", mode="custom")
        _add(hyperv, "relaxed", state="on")
        _add(hyperv, "vapic", state="on")
        _add(hyperv, "spinlocks", state="on", retries="8191")
    if hardware.accelerator == "kvm":
        _add(root, "cpu", mode="host-passthrough", check="none", migratable="on")
        return
    cpu = _add(root, "cpu", mode="maximum", check="none", migratable="off")
    # QEMU 7.2's emulation reads the stack of an `iretq` as the kernel would; SMAP forbids that, and Wine's processes die of it.
    _add(cpu, "feature", policy="disable", name="smap")


def _clock(root: ElementTree.Element, hardware: Hardware) -> None:
    if hardware.windows:
        clock = _add(root, "clock", offset="timezone", timezone=hardware.timezone)
        _add(clock, "timer", name="rtc", tickpolicy="catchup")
        if hardware.accelerator == "kvm":
            _add(clock, "timer", name="hypervclock", present="yes")
    else:
        _add(root, "clock", offset="utc")


def _devices(root: ElementTree.Element, domain: Domain) -> None:
    hardware = domain.hardware
    devices = _add(root, "devices")
    for file, target in domain.disks:
        disk = _add(devices, "disk", type="file", device="disk")
        # What a disposable machine wrote need not survive the host; a flush of the guest's still reaches the file.
        _add(disk, "driver", name="qemu", type="qcow2", cache="unsafe", discard="unmap")
        _add(disk, "source", file=str(file))
        _add(disk, "target", dev=target, bus=_BUSES.get(target[:2], "virtio"))
    _add(devices, "controller", type="usb", model="qemu-xhci" if hardware.windows else "none")
    channel = _add(devices, "channel", type="unix")
    if domain.agent is not None:
        _add(channel, "source", mode="bind", path=str(domain.agent))
    _add(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
    if hardware.windows:
        _add(devices, "input", type="tablet", bus="usb")
    else:
        _add(devices, "input", type="tablet", bus="virtio")
        _add(devices, "input", type="keyboard", bus="virtio")
    screen = domain.screen
    chosen = {"port": str(screen.port), "autoport": "no"} if screen.port else {"autoport": "yes"}
    keymap = {"keymap": screen.keymap} if screen.keymap else {}
    _add(
        devices, "graphics", type="vnc", listen="127.0.0.1", passwd=screen.password, sharePolicy="force-shared",
        **chosen, **keymap,
    )  # fmt: skip
    _add(_add(devices, "video"), "model", type="vga", vram="16384")
    if hardware.tpm:
        _add(_add(devices, "tpm", model="tpm-crb"), "backend", type="emulator", version="2.0")
    _add(devices, "memballoon", model="none")


def _map_memory(root: ElementTree.Element, memory: Memory, mebibytes: int) -> None:
    backend = {
        "qom-type": "memory-backend-file",
        "id": _MEMORY,
        "size": mebibytes << 20,
        "mem-path": str(memory.file),
        "share": memory.shared,
    }
    arguments = ["-object", json.dumps(backend), "-machine", f"memory-backend={_MEMORY}"]
    if memory.awaited:
        arguments += ["-incoming", "defer"]
    line = ElementTree.SubElement(root, f"{{{_QEMU}}}commandline")
    for argument in arguments:
        ElementTree.SubElement(line, f"{{{_QEMU}}}arg", {"value": argument})


def read_tag(xml: str) -> DomainTag | None:
    """The tag in a domain's XML; ``None``: it is not ours.

    Args:
        xml: As libvirt gives it.
    """
    try:
        found = ElementTree.fromstring(xml).find(f"./metadata/{{{NAMESPACE}}}machine")  # noqa: S314 - libvirt's own
        return None if found is None else DomainTag(**found.attrib)
    except (ElementTree.ParseError, TypeError, ValueError):
        return None
