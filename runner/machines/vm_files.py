"""The disks of a virtual machine: found and checked before every use, and built where the manifest names a recipe.

Nothing is made from a disk whose contents are not exactly those recorded: in the manifest for disks that their owner made, in
``image.json`` beside the disks for those that a recipe built.

A recipe is a folder with ``guest.json``, which says what comes out of it (see :class:`_Outcome`), and ``steps/``, shell scripts
that are run in the order of their names, in the folder that is being filled. A step that has ended well is not run again when a
later one fails. Where the guest runs Wine, its Windows drive is made before the first step and lies in ``prefix``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictInt, StringConstraints, ValidationError

from contracts.schema import Model
from runner.machines import wine_base
from runner.machines.base import MachineError, home, lock
from runner.machines.file_hash import sha256
from runner.machines.images import FOLDER, Image, LibvirtPart, sources
from runner.machines.room import writing

RECIPE = 1
"""Raised whenever this module builds images differently."""
DISPLAY = ":0"
"""The X display of a guest that runs Wine."""
_STEP_TIMEOUT = 1800.0
_BUILD_TIMEOUT = 3600.0
"""Seconds that one waits for somebody else who builds the same image."""
_SAY_EVERY = 20.0
_TAIL = 1500
"""How much of a failed step's output goes into the message."""

FileName = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$", max_length=100)]
Sha256 = Annotated[str, StringConstraints(strict=True, pattern=r"^[0-9a-f]{64}$")]


class _BuiltDisk(Model):
    file: FileName
    target: Annotated[str, StringConstraints(strict=True, pattern=r"^vd[a-h]$")]
    drive: Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Z]$")] | None = None


class _Outcome(Model):
    """What a recipe makes (``guest.json``): file names in the folder that its steps fill."""

    disks: Annotated[list[_BuiltDisk], Field(min_length=1, max_length=8)]
    kernel: FileName | None = None
    """Started directly, where the disks hold no boot loader."""
    initrd: FileName | None = None
    cmdline: Annotated[str, StringConstraints(strict=True, max_length=500)] = ""
    keymap: FileName | None = None
    """For QEMU's VNC server: which key carries which character in this guest."""

    def files(self) -> list[str]:
        """The names of all files, the disks first."""
        single = [name for name in (self.kernel, self.initrd, self.keymap) if name is not None]
        return [*(disk.file for disk in self.disks), *single]


class _SealedFile(Model):
    size: Annotated[StrictInt, Field(ge=0)]
    sha256: Sha256


class _Record(Model):
    """``image.json``: what was built, from what, and the hash of each file."""

    schema_: Literal[1] = Field(alias="schema")
    image: str
    fingerprint: Sha256
    outcome: _Outcome
    files: dict[FileName, _SealedFile]


@dataclass(frozen=True, slots=True)
class VmDisk:
    """A disk, never written to.

    Attributes:
        path: Its file.
        sha256: Of the whole file, checked.
        target: Its place in the machine: ``vda``, ``vdb``, …
        drive: Letter of the Windows drive that lies on it, where it can be read offline.
        format: The file's format.
    """

    path: Path
    sha256: str
    target: str
    drive: str | None
    format: Literal["qcow2", "raw"] = "qcow2"


@dataclass(frozen=True, slots=True)
class VmFiles:
    """What a virtual machine is made from.

    Attributes:
        disks: The one it starts from first.
        kernel: Started directly with ``initrd`` and ``cmdline``; none: the firmware starts from the first disk.
        initrd: The kernel's memory disk.
        cmdline: The kernel's options.
        fingerprint: Hash of the manifest and of all sources: the same on every host.
        keymap: File for QEMU's VNC server; none: its own.
    """

    disks: tuple[VmDisk, ...]
    kernel: Path | None
    initrd: Path | None
    cmdline: str
    fingerprint: str
    keymap: Path | None = None


def fingerprint(image: Image) -> str:
    """Hash of the manifest, its recipe, its programs and the probe."""
    probe = hashlib.sha256()
    for file in sources(FOLDER / "probe"):
        probe.update(file.name.encode() + b"\0" + file.read_bytes())
    wine = wine_base.RECIPE if _part(image).runs == "wine" else 0
    return image.fingerprint(f"vm {RECIPE}, wine {wine}", probe.hexdigest())


def built_at(image: Image, key: str) -> Path:
    """Where the image of that fingerprint lies, built or not."""
    return home() / "images" / f"{image.manifest.name}-{key[:16]}"


def vm_files(image: Image) -> VmFiles:
    """The image's disks, after checking that each is exactly what is recorded.

    Raises:
        MachineError: One is missing or was altered, or the image is not built; the message says which and what to do. It is
            never answered by another disk.
    """
    return _built(image) if _part(image).recipe is not None else _given(image)


def _part(image: Image) -> LibvirtPart:
    part = image.manifest.libvirt
    if part is None:
        raise MachineError(
            f"{image.path}: the image {image.manifest.name} is no virtual machine (`libvirt:` is missing)"
        )
    return part


def _given(image: Image) -> VmFiles:
    """Disks that their owner made."""
    disks = []
    for index, disk in enumerate(_part(image).disks):
        path = image.folder / Path(disk.file).expanduser()
        if not path.is_file():
            raise MachineError(f"{path} is missing: {image.path} names it as a disk of {image.manifest.name}")
        kind = _format(path)
        found = sha256(path)
        if found != disk.sha256:
            raise MachineError(
                f"{path} was altered: its SHA-256 is {found}, {image.path} says {disk.sha256}; put the disk back, or enter "
                "the new hash if it was changed on purpose"
            )
        disks.append(VmDisk(path, found, f"vd{'abcdefgh'[index]}", disk.drive, kind))
    return VmFiles(tuple(disks), None, None, "", fingerprint(image))


def _format(path: Path) -> Literal["qcow2", "raw"]:
    """The format, by the file's first bytes (QEMU, docs/interop/qcow2.txt).

    Raises:
        MachineError: It is neither qcow2 nor raw, or does not hold the whole disk.
    """
    try:
        with path.open("rb") as file:
            head = file.read(80)
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}") from None
    convert = f"`qemu-img convert -O qcow2 {path.name} whole.qcow2` makes one that can be used"
    if head[:4] == b"QFI\xfb":
        if int.from_bytes(head[8:16], "big"):
            raise MachineError(
                f"{path} holds only what differs from another file, whose contents nobody checks; {convert}"
            )
        if int.from_bytes(head[4:8], "big") >= 3 and head[79] & 4:  # incompatible feature: external data file
            raise MachineError(f"{path} keeps its contents in another file, which nobody checks; {convert}")
        return "qcow2"
    if head[:4] in {b"KDMV", b"QED\0"} or head[:8] in {b"vhdxfile", b"conectix"} or head[64:68] == b"\x7f\x10\xda\xbe":
        raise MachineError(f"{path} is neither a qcow2 nor a raw disk; {convert}")
    return "raw"


def _built(image: Image) -> VmFiles:
    """Disks that a recipe built."""
    name = image.manifest.name
    key = fingerprint(image)
    folder = built_at(image, key)
    again = f"`legacyproof image build {name}`"
    try:
        record = _Record.model_validate_json((folder / "image.json").read_bytes())
    except FileNotFoundError:
        older = any(other.is_dir() for other in folder.parent.glob(f"{name}-*") if other.suffix != _UNFINISHED)
        why = "was built from other sources than these" if older else "is not built"
        raise MachineError(f"the image {name} {why}: run {again}") from None
    except (OSError, ValidationError) as error:
        raise MachineError(f"{folder / 'image.json'} cannot be read ({error}); {again} builds the image anew") from None
    if record.fingerprint != key or record.files.keys() != set(record.outcome.files()):
        raise MachineError(f"{folder / 'image.json'} was altered; {again} builds the image anew")
    for file, sealed in record.files.items():
        path = folder / file
        if not path.is_file():
            raise MachineError(f"{path} is missing; {again} builds the image anew")
        if path.stat().st_size != sealed.size or sha256(path) != sealed.sha256:
            raise MachineError(f"{path} was altered after it was sealed; {again} builds the image anew")
    made = record.outcome

    def at(file: str | None) -> Path | None:
        return folder / file if file is not None else None

    disks = [VmDisk(folder / d.file, record.files[d.file].sha256, d.target, d.drive) for d in made.disks]
    return VmFiles(tuple(disks), at(made.kernel), at(made.initrd), made.cmdline, key, at(made.keymap))


_UNFINISHED = ".building"
"""Suffix of the folder in which an image is built; it is kept when a step fails, so that the next attempt goes on there."""


def build(image: Image, say: Callable[[str], None]) -> VmFiles:
    """Builds the image from its recipe, unless it is there already and intact.

    Args:
        image: The image.
        say: Told what is being done, for a person who waits.

    Raises:
        MachineError: A step failed, or it cannot be written there; what the steps before it made is kept for the next attempt.
    """
    part = _part(image)
    name = image.manifest.name
    if part.recipe is None:
        raise MachineError(f"{image.path} names disks that are there already: there is nothing to build")
    key = fingerprint(image)
    folder = built_at(image, key)
    with writing(folder), _alone(folder.with_name(f"{folder.name}.lock"), name, say):
        if (folder / "image.json").exists():
            try:
                return _built(image)
            except MachineError as error:
                say(str(error))
                _set_aside(folder)
        recipe = image.folder / part.recipe
        work = folder.with_name(f"{folder.name}{_UNFINISHED}")
        work.mkdir(parents=True, exist_ok=True)
        outcome = _outcome(recipe)
        _run_steps(image, recipe, work, say)
        _seal(image, key, outcome, work)
        work.rename(folder)
        return _built(image)


@contextmanager
def _alone(path: Path, name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Keeps two builds of an image from meeting; the lock goes away with its holder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _BUILD_TIMEOUT
    held = lock(path)
    if held is None:
        say(f"another process is building {name}; waiting for it")
    while held is None:
        if time.monotonic() > deadline:
            raise MachineError(f"another process has been building {name} for too long ({path} is locked)")
        time.sleep(0.2)
        held = lock(path)
    with held:
        yield


def _set_aside(folder: Path) -> None:
    """Removes an image that cannot be used; a machine that still runs from it keeps its open files."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise MachineError(f"{folder} cannot be removed; remove it by hand")


def _outcome(recipe: Path) -> _Outcome:
    try:
        return _Outcome.model_validate_json((recipe / "guest.json").read_bytes())
    except (OSError, ValidationError) as error:
        raise MachineError(f"{recipe / 'guest.json'} does not say what the recipe makes: {error}") from None


def _run_steps(image: Image, recipe: Path, work: Path, say: Callable[[str], None]) -> None:
    scripts = sorted((recipe / "steps").glob("*.sh"))
    if not scripts:
        raise MachineError(f"{recipe / 'steps'} holds no script")
    steps: list[tuple[str, str, Callable[[], None]]] = []
    if _part(image).runs == "wine":
        steps.append(("prefix", "the Windows drive with its programs", partial(_make_prefix, image, work)))
    for script in scripts:
        title = script.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        steps.append((script.stem, title, partial(_run_script, image, recipe, script, work, say)))
    for number, (step, title, run) in enumerate(steps, 1):
        done = work / f"{step}.done"
        if done.exists():
            say(f"{image.manifest.name}, step {number} of {len(steps)}: {title}: done before")
            continue
        say(f"{image.manifest.name}, step {number} of {len(steps)}: {title}")
        run()
        done.touch()


def _make_prefix(image: Image, work: Path) -> None:
    shutil.rmtree(work / "prefix", ignore_errors=True)
    try:
        wine_base.fill_prefix(work / "prefix", image)
    except TimeoutError as error:
        raise MachineError(f"the image {image.manifest.name} could not be built: {error}") from None


def _environment(image: Image, recipe: Path, work: Path) -> dict[str, str]:
    """What a step is told."""
    size = image.manifest.display
    told = {
        "RECIPE": str(recipe),
        "WIDTH": str(size.width),
        "HEIGHT": str(size.height),
        "TIMEZONE": image.manifest.timezone,
        "PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin",
    }
    if _part(image).runs == "wine":
        lines = [
            f"export {key}={shlex.quote(value)}\n"
            for key, value in (wine_base.environment(image) | {"DISPLAY": DISPLAY}).items()
        ]
        (work / "environment").write_text("".join(lines))
    kept = {key: os.environ[key] for key in ("HOME", "TMPDIR", "http_proxy", "https_proxy") if key in os.environ}
    return kept | told | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def _run_script(image: Image, recipe: Path, script: Path, work: Path, say: Callable[[str], None]) -> None:
    log = work / f"{script.stem}.log"
    begun = time.monotonic()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                ["sh", "-eu", str(script)],
                cwd=work,
                env=_environment(image, recipe, work),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise MachineError(f"{script} could not be run: {error}") from None
        try:
            while True:
                try:
                    status = process.wait(timeout=_SAY_EVERY)
                    break
                except subprocess.TimeoutExpired:
                    passed = time.monotonic() - begun
                    if passed > _STEP_TIMEOUT:
                        raise MachineError(f"{script.name} did not end in {_STEP_TIMEOUT:.0f} s; see {log}") from None
                    say(f"  … {passed:.0f} s")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=20)
    if status != 0:
        said = log.read_bytes()[-_TAIL:].decode(errors="replace").strip()
        raise MachineError(
            f"the image {image.manifest.name} could not be built: {script.name} ended with status {status}: {said}\n"
            f"All that it said is in {log}. The steps before it are kept: the next attempt goes on here."
        )


def _seal(image: Image, key: str, outcome: _Outcome, work: Path) -> None:
    """Records the hash of each file, makes them read-only, and removes what only the building needed."""
    wanted = outcome.files()
    files = {}
    for name in wanted:
        path = work / name
        if not path.is_file():
            raise MachineError(f"the recipe of {image.manifest.name} did not make {name}; remove {work} and try again")
        path.chmod(0o444)
        files[name] = {"size": path.stat().st_size, "sha256": sha256(path)}
    record = {
        "schema": 1,
        "image": image.manifest.name,
        "fingerprint": key,
        "outcome": outcome.model_dump(exclude_none=True),
        "files": files,
    }
    for path in work.iterdir():
        if path.name not in wanted and path.suffix != ".log":
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    (work / "image.json").write_text(json.dumps(record, indent=1) + "\n")


if sys.platform != "linux":
    raise MachineError("virtual machines are made on Linux")
