"""SHA-256 of large files, calculated once: what was calculated is kept until the file system says that the file has changed.

A disk of a virtual machine holds gigabytes and is looked at before every run. The kernel sets a file's change time whenever
its contents or what is known about it change, and no program can put it back; a file with the same inode, size, modification
and change time is the one that was hashed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

from runner.machines.base import MachineError, home


def _state(path: Path) -> list[int]:
    info = path.stat()
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def _kept_at(state: list[int]) -> Path:
    return (
        home() / "hashes" / f"{state[0]}-{state[1]}.json"
    )  # by file system and inode, so that a renamed file is known


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal.

    Raises:
        MachineError: It cannot be read, or is written to meanwhile.
    """
    path = path.absolute()
    try:
        before = _state(path)
        kept_at = _kept_at(before)
        try:
            kept = json.loads(kept_at.read_text())
            if kept["state"] == before:
                return str(kept["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not hashed before, or not as this version writes it
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        after = _state(path)
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}") from None
    if before != after:
        raise MachineError(f"{path} was written to while it was read; nothing may write to an image's disk")
    _keep(kept_at, {"path": str(path), "state": after, "sha256": digest})
    return digest


def _keep(file: Path, what: dict[str, object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".new")
    with open(handle, "w", encoding="utf-8") as new:
        json.dump(what, new)
    Path(name).rename(file)
