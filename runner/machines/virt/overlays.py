"""Disks of machines: overlays over sealed files, and copies of them at one moment."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from runner.machines.base import MachineError
from runner.machines.room import cannot_write

_TOOL = "qemu-img"


def _run(argv: list[str], what: str, timeout: float) -> str:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", check=False, timeout=timeout, start_new_session=True
        )
    except FileNotFoundError:
        raise MachineError(f"{argv[0]} is not installed; `make setup-vm` installs what is needed") from None
    except subprocess.TimeoutExpired:
        raise MachineError(f"{what}: {argv[0]} did not end within {timeout:g} s") from None
    if done.returncode != 0:
        raise MachineError(f"{what}: {_in_words(done.stderr.strip()[-500:])}")
    return done.stdout


def _in_words(said: str) -> str:
    return f"the host's disk is full ({said})" if "No space left" in said else said


def virtual_size(file: Path) -> int:
    """The size of the disk that a qcow2 or raw file holds, in bytes.

    Raises:
        MachineError: It is missing or no disk.
    """
    told = _run([_TOOL, "info", "-U", "--output=json", str(file)], f"{file} cannot be used as a disk", 30)
    try:
        return int(json.loads(told)["virtual-size"])
    except (ValueError, KeyError, TypeError):
        raise MachineError(f"{file} cannot be used as a disk: qemu-img does not tell its size") from None


def create(path: Path, backing: Path, kind: str = "qcow2", *, will_be: Path | None = None) -> None:
    """Makes an overlay.

    Args:
        path: The new file.
        backing: The file below, which is never written to.
        kind: Its format: ``qcow2`` or ``raw``.
        will_be: Where that file will lie when the overlay is used, if it is about to be moved there.

    Raises:
        MachineError: It could not be made.
    """
    command = [_TOOL, "create", "-q", "-f", "qcow2", "-F", kind]
    if will_be is None:
        command += ["-b", str(backing), str(path)]
    else:  # unchecked, since the file is not there yet
        command += ["-u", "-b", str(will_be), str(path), str(virtual_size(backing))]
    _run(command, f"the overlay {path} could not be made", 60)


def clone(template: Path, path: Path) -> None:
    """Makes an overlay by copying an empty one: a qcow2 file of a few kB, without starting a program.

    Raises:
        MachineError: It could not be written; the message says so where the disk is full.
    """
    try:
        shutil.copyfile(template, path)
    except OSError as error:
        raise cannot_write(error, path) from None


def copy(source: Path, target: Path, *, timeout: float) -> None:
    """Copies an overlay, sharing its blocks where the file system can, and leaving its holes.

    Args:
        source: The overlay; nobody may write to it meanwhile.
        target: The new file.
        timeout: Seconds.

    Raises:
        MachineError: It could not be copied in time, or at all.
    """
    _run(
        ["cp", "--reflink=auto", "--sparse=always", str(source), str(target)], f"{source} could not be copied", timeout
    )
