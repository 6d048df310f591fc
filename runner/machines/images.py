"""Images: the manifests in ``vm_images/`` that say what a base machine is made of, and their fingerprint."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictInt, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from contracts.document import MAX_BYTES, parse
from contracts.load import ContractError, Problem, read_model
from contracts.schema import Model, Name, Text, WindowsPath

FOLDER = Path(__file__).resolve().parent.parent.parent / "vm_images"
"""The images of the house; ``$LEGACYPROOF_IMAGES`` names further folders, looked at first."""

RelativePath = Annotated[
    str,
    StringConstraints(
        strict=True, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*$", max_length=500
    ),
]


class DisplaySize(Model):
    """The screen, in pixels."""

    width: Annotated[StrictInt, Field(ge=640, le=4096)] = 1024
    height: Annotated[StrictInt, Field(ge=480, le=4096)] = 768


class Program(Model):
    """A program that the image holds, and how it is started."""

    files: RelativePath | None = None
    """A folder beside the manifest whose contents are put in place as they are: a program with its data."""
    recipe: RelativePath | None = None
    """A folder beside the manifest with a ``Makefile`` that builds it and, if need be, a ``seed.py`` that writes its data."""
    executable: RelativePath | None = None
    """What the recipe builds, relative to its folder."""
    to: WindowsPath | None = None
    """Where files, executable and data are put."""
    start: WindowsPath
    arguments: list[Text] = Field(default_factory=list)
    window: Text | None = None
    """Title of the window that shows it is ready; none: it counts as ready once started."""

    @model_validator(mode="after")
    def _has_a_place(self) -> Self:
        if (self.files or self.recipe) and self.to is None:
            raise PydanticCustomError("to", "say where in the guest it is put: `to: 'C:\\…'`")
        if self.recipe and self.executable is None:
            raise PydanticCustomError("executable", "say what the recipe builds: `executable: build/…`")
        return self


class DiskFile(Model):
    """A disk of a virtual machine that its owner made."""

    file: Text
    """Path of the qcow2 or raw file, absolute or relative to the manifest. It is never written to."""
    sha256: Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{64}$")]
    """Of the whole file; a machine is made from nothing else."""
    drive: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Z]$")] | None = None
    """Letter of the Windows drive that lies on it; none: it is not read offline."""


class LibvirtPart(Model):
    """How a virtual machine is made and reached."""

    uri: Text = "qemu:///embed"
    """Where it runs: ``qemu:///embed`` (no daemon is needed), ``qemu:///system``, or a remote connection."""
    recipe: RelativePath | None = None
    """A folder beside the manifest that ``legacyproof image build`` builds the disks from."""
    disks: list[DiskFile] = Field(default_factory=list, max_length=8)
    """Disks that are there already, the first to start from."""
    cpus: Annotated[StrictInt, Field(ge=1, le=64)] = 2
    memory: Annotated[StrictInt, Field(ge=128, le=1 << 20)] = 4096
    """MiB."""
    firmware: Literal["bios", "uefi"] = "bios"
    tpm: StrictBool = False
    guest: Literal["qga"] = "qga"
    """The way into it: the QEMU guest agent."""
    runs: Literal["windows", "wine"] = "windows"
    """What runs its Windows programs: Windows, or Wine on a small Linux."""
    checkpoint: Literal["memory", "disk"] = "memory"
    """Whether clones go on from a saved memory or start from the disk each time."""
    boot_timeout: Annotated[StrictInt, Field(ge=10, le=3600)] = 600
    """Seconds that a start may take until the guest answers."""

    @model_validator(mode="after")
    def _has_disks(self) -> Self:
        if (self.recipe is None) == (not self.disks):
            raise PydanticCustomError("disks", "give either `recipe:` or `disks:`")
        return self


class ImageManifest(Model):
    """What a base machine is made of."""

    schema_: Literal[1] = Field(alias="schema")
    name: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$", max_length=100)]
    provider: Name
    summary: Text
    display: DisplaySize = DisplaySize()
    timezone: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_+/-]{1,60}$")] = "Europe/Berlin"
    programs: dict[Name, Program] = Field(default_factory=dict)
    libvirt: LibvirtPart | None = None

    @model_validator(mode="after")
    def _says_what_its_provider_needs(self) -> Self:
        if (self.provider == "libvirt") != (self.libvirt is not None):
            raise PydanticCustomError("libvirt", "`provider: libvirt` and the part `libvirt:` go together")
        return self


@dataclass(frozen=True, slots=True)
class Image:
    """A manifest and where it lies."""

    manifest: ImageManifest
    path: Path

    @property
    def folder(self) -> Path:
        """The folder that the manifest's relative paths start from."""
        return self.path.parent

    def fingerprint(self, *extra: str) -> str:
        """SHA-256, in hexadecimal, of the manifest, of every source file that it names, and of ``extra``.

        What a recipe builds (folders named ``build``) does not count, only what it is built from.
        """
        digest = hashlib.sha256()
        programs = self.manifest.programs.values()
        named = [folder for program in programs for folder in (program.files, program.recipe)]
        named.append(self.manifest.libvirt.recipe if self.manifest.libvirt else None)
        folders = sorted({folder for folder in named if folder})
        for file in [self.path, *(file for folder in folders for file in sources(self.folder / folder))]:
            digest.update(f"{file.relative_to(self.folder)}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        for text in extra:
            digest.update(f"\0{text}".encode())
        return digest.hexdigest()


def sources(folder: Path) -> list[Path]:
    """The files a recipe folder consists of, in a fixed order, without what it builds."""
    return sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not {"build", "__pycache__"} & set(file.relative_to(folder).parts)
    )


class ImageError(LookupError):
    """There is no image of that name."""


def find_image(name: str) -> Image:
    """The image of that name.

    Raises:
        ImageError: There is no such manifest; the message lists those there are.
        contracts.load.ContractError: The manifest is not valid.
    """
    path = _files().get(name)
    if path is None:
        raise ImageError(f"there is no image {name!r}; there are: {', '.join(sorted(available())) or 'none'}")
    manifest = read_model(path, ImageManifest)
    if manifest.name != name:
        why = f"the file {path.name} holds an image of another name, {manifest.name!r}"
        raise ContractError((Problem(str(path), 1, 1, "name", why, "an image's file bears its name"),))
    return Image(manifest, path)


def available() -> list[str]:
    """Names of the images that there are, in the order in which they are looked for; each can be given to :func:`find_image`.

    Contracts and scripts may lie in the same folders: a file counts as an image if it says ``provider:`` at its top level, even
    where something else in it is wrong.
    """
    return [name for name, path in _files().items() if _is_meant_as_image(path)]


def _files() -> dict[str, Path]:
    """Every file that could be an image, by the image's name; the folder that is looked at first has it."""
    folders = [Path(part) for part in os.environ.get("LEGACYPROOF_IMAGES", "").split(os.pathsep) if part] + [FOLDER]
    found: dict[str, Path] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("*.yaml")) if path.is_file()):
        found.setdefault(path.stem, path)
    return found


def _is_meant_as_image(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            source = file.read(MAX_BYTES + 1)
    except OSError:
        return True  # it cannot be told; whoever reads it says what is wrong with it
    try:
        data = parse(source, str(path)).data
    except ContractError:
        return re.search(rb"^provider\s*:", source, re.MULTILINE) is not None
    return isinstance(data, dict) and "provider" in data
