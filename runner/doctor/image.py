"""Image and provider: found, valid, built, and still what was sealed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contracts.load import ContractError
from runner.findings import Finding
from runner.machines.base import MachineError, MachineProvider, home
from runner.machines.images import Image, ImageError, find_image


def image_of(name: str) -> tuple[Image | None, Finding]:
    """The image of that name, and what is to be said of its manifest."""
    try:
        found = find_image(name)
    except ImageError as error:
        return None, Finding(
            "image: manifest", False, str(error), "name another one, or set LEGACYPROOF_IMAGES to its folder"
        )
    except ContractError as error:
        return None, Finding("image: manifest", False, str(error), "correct the manifest at the place named")
    return found, Finding("image: manifest", True, f"{found.path}, for the provider {found.manifest.provider}")


def provider_of(image: Image, make: Callable[[str], MachineProvider]) -> tuple[MachineProvider | None, Finding]:
    """The image's machine provider, and whether it can be used."""
    name = image.manifest.provider
    try:
        made = make(name)
    except MachineError as error:
        return None, Finding(
            "provider", False, str(error), "install the plug-in, or correct `provider:` in the manifest"
        )
    except ImportError as error:
        return None, Finding("provider", False, f"{name} cannot be loaded: {error}", _extra(name))
    return made, Finding("provider", True, f"{name} is there")


def preflight(image: Image, provider: MachineProvider) -> list[Finding]:
    """What the provider itself finds out before it makes anything.

    A plug-in that wants to be asked has a method ``preflight(image) -> list[Finding]``.
    """
    if image.manifest.libvirt is not None:
        return _libvirt(image)
    own = getattr(provider, "preflight", None)
    return _checked(own(image)) if callable(own) else []


def _libvirt(image: Image) -> list[Finding]:
    from runner.machines.virt.hypervisor import hypervisor  # noqa: PLC0415 - libvirt is optional
    from runner.machines.virt.preflight import inspect  # noqa: PLC0415

    part = image.manifest.libvirt
    assert part is not None
    try:
        host = inspect(hypervisor(part.uri), part)
    except MachineError as error:
        return [Finding("provider: libvirt", False, str(error), "do what the message says, and ask again")]
    said = f"{part.uri}: {host.versions}, machine type {host.machine}"
    found = [Finding("provider: libvirt", True, said)]
    if host.accelerator == "kvm":
        found.append(Finding("host: KVM", True, "machines use it"))
    found += [
        # Slow is not wrong: runs are judged as well, but they take their time.
        Finding("host: KVM" if host.accelerator != "kvm" else "provider: warning", True, warning)
        for warning in host.warnings
    ]
    return found


def built(image: Image) -> Finding:
    """Whether the image's disks are there, and still what they were when they were sealed."""
    name = "image: built"
    try:
        if image.manifest.provider == "wine":
            return _built_wine(name, image)
        if image.manifest.libvirt is not None:
            from runner.machines.vm_files import vm_files  # noqa: PLC0415 - only for virtual machines

            files = vm_files(image)
            return Finding(name, True, f"{len(files.disks)} disks with the recorded hashes")
    except MachineError as error:
        return Finding(
            name, False, str(error), "do what the message says; `legacyproof image build` builds images of a recipe"
        )
    return Finding(name, True, "the provider looks after it")


def _built_wine(name: str, image: Image) -> Finding:
    from runner.machines import sealing, wine_base  # noqa: PLC0415 - refuses to be loaded elsewhere than on Linux

    folder = home() / "images" / wine_base.fingerprint(image)[:32]
    if not folder.is_dir():
        return Finding(name, True, "not yet; it is built when the first machine is made, in about 20 seconds")
    try:
        seal = sealing.checked_seal(folder / "prefix", folder / "seal.json")
    except MachineError as error:
        return Finding(name, False, str(error), f"remove {folder}; it is built again by itself")
    return Finding(name, True, f"{folder} holds what was sealed ({seal.contents[:12]}…)")


def _checked(given: Any) -> list[Finding]:
    """A plug-in's findings; anything else is one finding that says so."""
    if isinstance(given, list) and all(isinstance(item, Finding) for item in given):
        return given
    remedy = "its `preflight(image)` must give a list of findings"
    return [Finding("provider: preflight", None, "the plug-in's preflight gives no list of findings", remedy)]


def _extra(name: str) -> str:
    return f"pip install 'legacyproof[{name}]'"
