r"""A machine's state on its disk: frozen and copied, or left behind by a machine that was ended; and the proof that it is there.

What a program has saved need not be on the disk: systems write late, and freezing alone does not reach every file system. So a
marker is written just before, and looked for in what was taken. A disk on which it is not found whole tells nothing.
"""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from runner.guests.agent import Agent, ReplyLost
from runner.guests.base import Guest, GuestLost, GuestNotFound, Unreadable
from runner.guests.channel import AgentError
from runner.guests.dialects import Dialect
from runner.guests.offline import OfflineGuest
from runner.guests.qga import QgaGuest
from runner.machines.base import MachineError
from runner.machines.virt import overlays
from runner.machines.virt.running import RunningDomain
from runner.offline.changes import DiskChange, changed_files
from runner.offline.disk import open_disk
from runner.offline.owners import DiskOwners, ntfs_volumes

OURS = "legacyproof"
"""The folder on every drive that only the runner writes to."""
_MARKER_REPEATS = 128
"""Makes the marker 8 KiB long: more than fits into a file's record, so that its clusters are proven to be there too."""
_MARK_SECONDS = 60.0
_SUSPENDED_SECONDS = 300.0


def marker_path(drive: str) -> PureWindowsPath:
    """Where the marker of a drive lies."""
    return PureWindowsPath(f"{drive}:\\{OURS}\\flushed.txt")


@dataclass(frozen=True)
class Freezer:
    """Stops a machine for a moment with everything on its disk that its programs have saved.

    Attributes:
        guest: The way into it.
        agent: Its guest agent alone.
        dialect: What kind of system that runs in.
        running: The machine.
    """

    guest: QgaGuest
    agent: Agent
    dialect: Dialect
    running: RunningDomain

    def freeze(self, drives: Iterable[str]) -> dict[str, bytes]:
        """Marks the drives, has the guest flush and freeze them, and stops the machine.

        Returns:
            The markers, for :func:`prove`.

        Raises:
            Unreadable: The guest cannot flush; it goes on.
            GuestLost: The guest does not answer.
            MachineError: The machine could not be stopped.
        """
        markers = self._mark(drives)
        self.guest.freeze()
        try:
            self.running.suspend()
        except BaseException:
            self.thaw()
            raise
        return markers

    def thaw(self) -> None:
        """Lets the machine go on and thaws its file systems.

        Raises:
            MachineError: It does not go on.
        """
        self.running.resume()
        try:
            self.guest.thaw()
        except (Unreadable, GuestLost) as error:
            raise MachineError(f"the machine's file systems stay frozen: {error}") from None

    def copy(self, files: Mapping[str, Path], folder: Path) -> dict[str, bytes]:
        """Copies the overlays as they are at one moment; the machine goes on afterwards, whatever happens.

        Args:
            files: The overlays that hold its drives, by the drives' letters.
            folder: Where the copies are put, under the same names.

        Returns:
            The markers, for :func:`prove`.

        Raises:
            Unreadable: The guest cannot flush.
            GuestLost: The guest does not answer.
            MachineError: The overlays could not be copied, or the machine does not go on.
        """
        markers = self.freeze(files)
        try:
            for file in files.values():
                overlays.copy(file, folder / file.name, timeout=_SUSPENDED_SECONDS)
        finally:
            self.thaw()
        return markers

    def _mark(self, drives: Iterable[str]) -> dict[str, bytes]:
        """Writes a new marker to every drive, as programs write: flushed by nobody, or it would prove nothing of theirs."""
        markers = {drive: secrets.token_hex(32).encode() * _MARKER_REPEATS for drive in drives}
        deadline = time.monotonic() + _MARK_SECONDS
        try:
            for drive, marker in markers.items():
                self._write(marker_path(drive), marker, deadline)
        except (AgentError, ReplyLost, TimeoutError) as error:
            raise Unreadable(f"the disk could not be marked before it was taken: {error}") from None
        return markers

    def _write(self, path: PureWindowsPath, data: bytes, deadline: float) -> None:
        native = self.dialect.native(path)
        if native is None:
            raise Unreadable(f"the guest agent cannot reach {path}")
        self.agent.execute(self.dialect.folder(path.parent), deadline=deadline)
        handle = self.agent.open(native, "wb", deadline=deadline)
        try:
            text = base64.b64encode(data).decode()
            self.agent.call("guest-file-write", {"handle": handle, "buf-b64": text}, deadline=deadline, repeat=False)
        finally:
            self.agent.close(handle)


@contextmanager
def offline(drives: Mapping[str, Path], *, by_wine: bool, live: Guest | None = None) -> Iterator[OfflineGuest]:
    """A guest that reads drives from their disks, open for the block's time.

    Args:
        drives: The disk that holds each drive, by its letter: its largest NTFS volume is the drive.
        by_wine: Whether Wine keeps the volumes.
        live: Another way into the machine, for what a disk does not show.

    Raises:
        Unreadable: A disk is missing or damaged, or holds no NTFS volume.
    """
    with ExitStack() as opened:
        volumes = {}
        for drive, file in drives.items():
            found = ntfs_volumes(opened.enter_context(open_disk(file)), by_wine=by_wine)
            if not found:
                raise Unreadable(f"{file.name}, which should hold the drive {drive}:, holds no NTFS volume")
            _, volumes[drive] = max(found, key=lambda each: each[0].size)
        yield OfflineGuest(volumes, live)


def prove(drives: Mapping[str, Path], markers: Mapping[str, bytes], *, by_wine: bool) -> None:
    """Looks for the markers on disks that were taken.

    Raises:
        Unreadable: One is not there, or not whole: what was written last is not on the disk.
    """
    with offline(drives, by_wine=by_wine) as guest:
        for drive, marker in markers.items():
            try:
                found = guest.read(marker_path(drive), limit=2 * len(marker))
            except GuestNotFound:
                found = b""
            if found != marker:
                raise Unreadable(
                    f"what was written to {drive}: last is not on the disk that was taken: the guest's flush does not reach it"
                )


def changed(
    before: Mapping[str, Path], after: Mapping[str, Path], *, by_wine: bool, key: str
) -> tuple[DiskChange, ...]:
    """Every file of the drives that differs, but for the runner's own.

    Args:
        before: The checkpoint's disks. What owns which of their clusters is kept beside their folder.
        after: The disks taken.
        by_wine: Whether Wine keeps the volumes.
        key: What tells the checkpoint from every other one.

    Raises:
        Unreadable: A disk cannot be understood.
    """
    found: list[DiskChange] = []
    for drive, file in after.items():
        with open_disk(before[drive]) as old, open_disk(file) as new:
            owners = DiskOwners.kept(old, before[drive].parent.parent / f"owners-{drive}", key)
            found += changed_files(old, new, drive=f"{drive}:", by_wine=by_wine, owners=owners)
    return tuple(change for change in found if not _is_ours(change.path))


def _is_ours(path: str) -> bool:
    parts = PureWindowsPath(path).parts
    return len(parts) > 1 and parts[1].lower() == OURS
