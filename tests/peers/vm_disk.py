"""The disk of drive C of a pretended machine: a tiny NTFS volume with what its guest has written, put into a real qcow2 file."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tests.peers.ntfs import (
    DATA,
    Tiny,
    file_name,
    folder,
    mapped,
    name_key,
    record,
    resident,
    restart_page,
    root,
    simple,
    standard,
)

SAVED = "saved.txt"
"""A file of a program's."""
_MARKER_AT, _LOG_AT = 32, 64


def drive_c(marker: bytes = b"", saved: bytes = b"", *, left_clean: bool = True) -> bytes:
    """A volume.

    Args:
        marker: Content of the runner's marker; empty: there is none yet.
        saved: Content of :data:`SAVED`, at most a few hundred bytes.
        left_clean: Whether its journal says that nobody has it open.
    """
    log = restart_page(1, open_by_client=not left_clean)
    files = [(20, "legacyproof"), (22, SAVED)]
    inside = [(21, name_key(20, "flushed.txt"))] if marker else []
    return Tiny(
        {
            2: record(2, standard(), file_name(5, "$LogFile"), mapped(DATA, [(16, _LOG_AT)], 16 * 1024)),
            5: root(*files),
            20: record(20, standard(0x10), file_name(5, "legacyproof"), folder(inside), is_folder=True),
            21: record(21, standard(), file_name(20, "flushed.txt"), mapped(DATA, [(8, _MARKER_AT)], len(marker)))
            if marker else record(21, in_use=False),
            22: record(22, standard(), file_name(5, SAVED), resident(DATA, saved)),
        },
        {_MARKER_AT: marker, _LOG_AT: log + log},
    ).bytes()  # fmt: skip


def other_volume() -> bytes:
    """A volume that is not drive C."""
    return Tiny({5: root((20, "other.txt")), 20: simple(20, "other.txt")}).bytes()


def put(data: bytes, disk: Path, at: int = 0) -> None:
    """Writes bytes to a qcow2 disk."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        command = ["qemu-io", "-f", "qcow2", "-c", f"write -s {file.name} {at} {len(data)}", str(disk)]
        subprocess.run(command, check=True, timeout=60, capture_output=True)
