"""What a host can do, found out before anything is started; what is wrong is said in plain words, with the remedy."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit
from xml.etree import ElementTree

from runner.machines.base import MachineError
from runner.machines.images import LibvirtPart
from runner.machines.virt.hypervisor import Hypervisor, HypervisorError
from runner.machines.virt.tunnel import by_ssh

_SECONDS = 60.0
_CONFIGURED = "LEGACYPROOF_KVM"
_SLOW = (
    "no usable KVM: the machine is emulated, which is some ten times slower; where KVM is known to work, "
    f"set {_CONFIGURED}=yes"
)


@dataclass(frozen=True)
class Host:
    """What machines run on.

    Attributes:
        accelerator: ``kvm``, or ``qemu``: emulation.
        machine: The machine type, with its version.
        versions: Of libvirt and QEMU, as a text.
        remote: Whether it is another host.
        warnings: What a person should know.
    """

    accelerator: Literal["kvm", "qemu"]
    machine: str
    versions: str
    remote: bool = False
    warnings: tuple[str, ...] = field(default=())


def inspect(hypervisor: Hypervisor, part: LibvirtPart) -> Host:
    """Connects and finds out whether the image's machines can run there.

    Args:
        hypervisor: The connection.
        part: What the image asks for.

    Raises:
        MachineError: They cannot; the message says why and what to do.
    """
    remote = is_remote(hypervisor.uri)
    if remote and not by_ssh(hypervisor.uri):
        raise MachineError(
            f"{hypervisor.uri}: another host is reached through SSH only, since screens are not encrypted; write "
            "`uri: qemu+ssh://user@host/system`"
        )
    try:
        about = hypervisor.about
        accelerator = _accelerator(hypervisor)
        capabilities = hypervisor.call("capabilities", timeout=_SECONDS, again=True, kind=accelerator)
    except HypervisorError as error:
        raise MachineError(in_words(hypervisor.uri, error)) from None
    root = ElementTree.fromstring(capabilities)  # noqa: S314 - libvirt's own
    _check_features(root, part)
    return Host(
        accelerator=accelerator,
        machine=root.findtext("machine", ""),
        versions=f"libvirt {_version(about['libvirt'])}, QEMU {_version(about['qemu'])}",
        remote=remote,
        warnings=() if accelerator == "kvm" else (_SLOW,),
    )


def is_remote(uri: str) -> bool:
    """Whether a URI leads to another host; through SSH even ``localhost`` may, by a forwarded port."""
    return by_ssh(uri) or urlsplit(uri).hostname not in (None, "", "localhost", "127.0.0.1", "::1")


def in_words(uri: str, error: HypervisorError) -> str:
    """Why there is no connection, and what to do."""
    if error.kind == "missing":
        return "libvirt-python is not installed: pip install 'legacyproof[libvirt]' (it needs libvirt's headers, Debian: libvirt-dev)"
    said = str(error)
    refused = "permission denied" in said.lower() or "authentication" in said.lower() or error.kind == "permission"
    if refused:
        return (
            f"no permission to use {uri} ({said}); add your user to the group `libvirt` and log in again, "
            "or use qemu:///embed, which needs no daemon"
        )
    if "No such file" in said or "Connection refused" in said:
        return f"libvirt does not run at {uri} ({said}); start libvirtd (or virtqemud), or use qemu:///embed"
    if "Cannot find suitable emulator" in said or "binary" in said.lower():
        return f"QEMU is not installed ({said}); Debian: qemu-system-x86"
    return f"libvirt cannot be used at {uri}: {said}"


def _version(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def _accelerator(hypervisor: Hypervisor) -> Literal["kvm", "qemu"]:
    """Whether KVM is used. A device that opens proves nothing: in a host that is a virtual machine itself, guests may hang."""
    wanted = os.environ.get(_CONFIGURED, "auto")
    if wanted not in ("auto", "yes", "no"):
        raise MachineError(f"{_CONFIGURED} is {wanted!r}; it can be auto, yes or no")
    if wanted == "no" or (wanted == "auto" and not is_remote(hypervisor.uri) and _in_a_virtual_machine()):
        return "qemu"
    try:
        hypervisor.call("capabilities", timeout=_SECONDS, again=True, kind="kvm")
    except HypervisorError as error:
        if error.kind in ("late", "connection"):
            raise
        if wanted == "yes":
            raise MachineError(
                f"{_CONFIGURED}=yes, but the host offers no KVM ({error}); switch on virtualisation in its firmware, load the "
                "module kvm_intel or kvm_amd, and see that /dev/kvm may be opened"
            ) from None
        return "qemu"
    return "kvm"


def _in_a_virtual_machine(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    try:
        with cpuinfo.open() as lines:
            return any(line.startswith("flags") and " hypervisor" in line for line in lines)
    except OSError:
        return True


def _check_features(root: ElementTree.Element, part: LibvirtPart) -> None:
    if part.firmware == "uefi" and "efi" not in _values(root, "./os/enum[@name='firmware']"):
        raise MachineError("the image needs UEFI, which this host's QEMU does not have; Debian: install ovmf")
    tpm = root.find("./devices/tpm")
    if part.tpm and (tpm is None or tpm.get("supported") != "yes" or "emulator" not in _values(tpm, "./enum")):
        raise MachineError(
            "the image needs a TPM, which this host cannot emulate; Debian: install swtpm and swtpm-tools"
        )
    if "vnc" not in _values(root, "./devices/graphics/enum[@name='type']"):
        raise MachineError("this host's QEMU has no VNC server, through which the machine's screen is reached")
    most = root.find("vcpu")
    if most is not None and part.cpus > int(most.get("max", "1")):
        raise MachineError(
            f"the image asks for {part.cpus} processors; this host gives a machine at most {most.get('max')}"
        )


def _values(root: ElementTree.Element, path: str) -> set[str]:
    return {value.text or "" for found in root.findall(path) for value in found.findall("value")}


def why_cold(part: LibvirtPart, host: Host) -> str | None:
    """Why clones cannot go on from a saved memory; ``None``: they can."""
    if part.checkpoint == "disk":
        return "the image asks for it (`checkpoint: disk`)"
    if part.tpm:
        return "the state of a TPM cannot be saved with the memory"
    if part.firmware == "uefi":
        return "the variables of UEFI are not saved with the memory"
    if host.remote:
        return "the machine runs on another host, where the saved memory cannot be mapped"
    return None
