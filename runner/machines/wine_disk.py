"""An embedded machine's drive and registry as a whole: what changed in them since the agent began, read without the guest's help.

The files are compared by the overlay's upper layer at any time. The registry is kept in the memory of Wine's server, which writes it
when it ends; so it is compared last, by a machine that is to be discarded.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.changed_keys import KeyChange, KeyChanges
from runner.guests.base import GuestLost, Unreadable
from runner.guests.wine import WineGuest
from runner.machines import wine_base
from runner.machines.base import DiskState, MachineError
from runner.machines.sandbox import Overlay, Sandbox
from runner.machines.upper_changes import Mark
from runner.machines.upper_layer import Layers
from runner.offline.changes import DiskChange
from runner.wine_hives import FILES, MAX_HIVE, changed_keys

_COPIES = (
    "the machines are copies here, not overlays (LEGACYPROOF_CLONE=copy, or a host that cannot mount one), so nothing tells what changed "
    "on the drive"
)
_ENDING = 20.0
"""Seconds that Wine's server is given to write the registry and end."""
_FILETIME = 116_444_736_000_000_000
"""1970-01-01 as FILETIME."""
_LETTER = re.compile(r"[a-z]:", re.IGNORECASE)
_UNSAVED = re.compile(r"reg[0-9a-f]{4,8}\.tmp")


def layers_of(drive: Overlay | Path) -> Layers | None:
    """What a machine's drive is made of; ``None`` where it is a copy.

    Raises:
        MachineError: A seal of the layers cannot be read.
    """
    if not isinstance(drive, Overlay):
        return None
    digest = hashlib.sha256()
    for layer in drive.lower:
        try:
            # The seal tells contents, times and inodes: the same key never stands for layers that look different.
            digest.update(f"{layer}\0".encode() + (layer.parent / "seal.json").read_bytes() + b"\0")
        except OSError as error:
            raise MachineError(f"the seal of {layer} cannot be read: {error.strerror}") from None
    return Layers(drive.upper, drive.lower, digest.hexdigest())


class WineDisk:
    """The drive and registry of one machine."""

    def __init__(self, drive: Overlay | Path, before: Path, sandbox: Sandbox, guest: WineGuest) -> None:
        """Takes the machine's parts.

        Args:
            drive: Its drive.
            before: The drive of the checkpoint, or the topmost layer of it.
            sandbox: Where it runs.
            guest: The way into it.
        """
        self._layers = guest.layers
        self._before = self._layers.lower if self._layers is not None else (before,)
        self._after = drive.upper if isinstance(drive, Overlay) else drive
        self._sandbox = sandbox
        self._guest = guest
        self._mark: Mark | None = None
        self._since = 0

    def mark(self) -> None:
        """See :meth:`runner.machines.base.DiskAudited.mark_disk`."""
        self._since = time.time_ns() // 100 + _FILETIME
        self._mark = Mark(self._layers) if self._layers is not None else None

    @contextmanager
    def since_mark(self) -> Iterator[DiskState]:
        """See :meth:`runner.machines.base.DiskAudited.disk_since_mark`."""
        yield DiskState(
            self._guest,
            "by the overlay on which it lies",
            self._changed,
            drives=("C",),
            registry=self._registry,
            unseen=self._unseen,
            compared_with="the moment when the agent began",
        )

    def _changed(self) -> tuple[DiskChange, ...]:
        if self._layers is None:
            raise Unreadable(_COPIES)
        if self._mark is None:
            raise Unreadable("the drive was not looked at when the agent began")
        return self._mark.changes()

    def _unseen(self) -> tuple[str, ...]:
        """Drives that lead elsewhere, and links out of the drive: what lies there is not on the overlay."""
        if self._layers is None:
            return ()
        layers = self._layers
        names = {*layers.names_upper("dosdevices"), *layers.names_below("dosdevices")}
        others = sorted(name.upper() for name in names if _LETTER.fullmatch(name) and name.lower() != "c:")
        return tuple(f"the drive {letter}, which leads out of the machine's own disk" for letter in others)

    def _registry(self) -> KeyChanges:
        """The keys that changed. Ends the machine's programs."""
        try:
            ended = self._sandbox.run([str(wine_base.WINESERVER), "-k15"], timeout=_ENDING)
            waited = self._sandbox.run([str(wine_base.WINESERVER), "-w"], timeout=_ENDING)
        except (TimeoutError, GuestLost) as error:
            raise Unreadable(f"the machine's registry was not written out: {error}") from None
        if ended.status or waited.status:
            raise Unreadable("the machine's registry was not written out: Wine's server had ended before")
        if any(_UNSAVED.fullmatch(name) for name in os.listdir(self._after)):
            raise Unreadable("the machine's registry was not written out whole")
        found: list[KeyChange] = []
        for name, root in FILES.items():
            before = next((data for layer in self._before if (data := _read(layer / name)) is not None), None)
            after = _read(self._after / name) or before  # not written: nothing in it changed
            if before is None or after is None:
                raise Unreadable(f"there is no {name}")
            if before != after:
                found += changed_keys(before, after, root, since=self._since)
        return KeyChanges(tuple(found))


def _read(file: Path) -> bytes | None:
    """A file of a drive, never by a link; ``None``: it is not there."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{file.name} cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as opened:
        data = opened.read(MAX_HIVE + 1)
    if len(data) > MAX_HIVE:
        raise Unreadable(f"{file.name} holds more than {MAX_HIVE} bytes")
    return data
