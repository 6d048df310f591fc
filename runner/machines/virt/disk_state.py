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
from runner.offline.disk import Disk, open_disk
from runner.offline.ntfs.volume import Volume
from runner.offline.owners import DiskOwners
from runner.offline.partitions import Partition, partitions
from runner.offline.source import Slice
from runner.own_files import FOLDER

_MARKER_REPEATS = 128
"""Makes the marker 8 KiB long: more than fits into a file's record, so that its clusters are proven to be there too."""
_MARK_SECONDS = 60.0
_SUSPENDED_SECONDS = 300.0


def marker_path(drive: str) -> PureWindowsPath:
    """Where the marker of a drive lies."""
    return PureWindowsPath(f"{drive}:\\{FOLDER}\\flushed.txt")


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
            MachineError: The machine could not be stopped, or does not go on.
        """
        markers = self.mark(drives)
        self.guest.freeze()
        try:
            self.running.suspend()
        except BaseException:
            self.thaw()
            raise
        return markers

    def thaw(self) -> bool:
        """Lets the machine go on, thaws its file systems, and sets its clock, which stood still meanwhile.

        Returns:
            Whether they were still frozen: Windows ends a freeze by itself after ten seconds.

        Raises:
            MachineError: It does not go on, its file systems stay frozen, or its clock stays wrong.
        """
        self.running.resume()
        try:
            count = self.guest.thaw()
        except (Unreadable, GuestLost) as error:
            raise MachineError(f"the machine's file systems stay frozen: {error}") from None
        try:
            self.guest.set_time(time.time_ns())
        except (Unreadable, GuestLost) as error:
            raise MachineError(f"the machine's clock could not be set after it stood still: {error}") from None
        return count > 0

    def copy(self, files: Mapping[str, Path], folder: Path) -> dict[str, bytes]:
        """Copies the overlays as they are at one moment; the machine goes on afterwards, whatever happens.

        Args:
            files: The overlays that hold its drives, by the drives' letters.
            folder: Where the copies are put, under the same names.

        Returns:
            The markers, for :func:`prove`.

        Raises:
            Unreadable: The guest cannot flush, or did not stay frozen.
            GuestLost: The guest does not answer.
            MachineError: The overlays could not be copied, or the machine does not go on.
        """
        markers = self.freeze(files)
        try:
            for file in files.values():
                overlays.copy(file, folder / file.name, timeout=_SUSPENDED_SECONDS)
        except BaseException:
            self.thaw()
            raise
        if not self.thaw():
            raise Unreadable("the guest thawed its file systems by itself, maybe before its disk was copied")
        return markers

    def mark(self, drives: Iterable[str]) -> dict[str, bytes]:
        """Writes a new marker to every drive, as programs write: flushed by nobody, or it would prove nothing of theirs.

        Returns:
            The markers, for :func:`prove`.

        Raises:
            Unreadable: The guest cannot write it.
            GuestLost: The guest does not answer.
        """
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


def ensure_some(drives: Mapping[str, Path]) -> None:
    """Makes sure that there is a drive to read: an image need not say which of its disks is which.

    Raises:
        Unreadable: There is none.
    """
    if not drives:
        raise Unreadable("no disk of the image says which drive it holds: `drive:`")


@contextmanager
def offline(
    drives: Mapping[str, Path],
    starts: Mapping[str, int],
    *,
    by_wine: bool,
    live: Guest | None = None,
    left_clean: bool = False,
) -> Iterator[OfflineGuest]:
    """A guest that reads drives from their disks, open for the block's time.

    Args:
        drives: The disk that holds each drive, by its letter.
        starts: Byte of that disk at which the drive's volume begins (see :func:`located`).
        by_wine: Whether Wine keeps the volumes.
        live: Another way into the machine, for what a disk does not show.
        left_clean: Whether the machine is off, so that its volumes must have been left clean: their journals are not replayed.

    Raises:
        Unreadable: There is no drive, a disk is missing or damaged, a volume is not where it was, or was not left clean.
    """
    ensure_some(drives)
    with ExitStack() as opened:
        volumes = {}
        for drive, file in drives.items():
            disk = opened.enter_context(open_disk(file))
            part = next((part for part in _ntfs(disk, drive, file) if part.start == starts[drive]), None)
            if part is None:
                raise Unreadable(f"{file.name} no longer holds the drive {drive}: where it did")
            volumes[drive] = _volume(disk, part, by_wine=by_wine)
            if left_clean and not volumes[drive].is_clean():
                raise Unreadable(
                    f"the volume of {drive}: was not left clean: its journal holds what its files do not show"
                )
        yield OfflineGuest(volumes, live)


def located(drives: Mapping[str, Path], markers: Mapping[str, bytes], *, by_wine: bool) -> dict[str, int]:
    """Where the drives begin on disks that were taken: the volumes that hold their markers, whatever else lies beside them.

    Args:
        drives: The disk that holds each drive, by its letter.
        markers: What was written to each last.
        by_wine: Whether Wine keeps the volumes.

    Returns:
        For each drive, the byte of its disk at which its volume begins.

    Raises:
        Unreadable: A disk is damaged or holds no NTFS volume, or a marker is on none of them.
    """
    return {drive: _found(drive, file, markers[drive], by_wine=by_wine) for drive, file in drives.items()}


def prove(guest: OfflineGuest, markers: Mapping[str, bytes]) -> None:
    """Looks for the markers on disks that were taken.

    Raises:
        Unreadable: One is not there, or not whole: what was written last is not on the disk.
    """
    for drive, marker in markers.items():
        if not _holds(guest, drive, marker):
            raise Unreadable(
                f"what was written to {drive}: last is not on the disk that was taken: the guest's flush does not reach it"
            )


def changed(
    before: Mapping[str, Path], after: Mapping[str, Path], starts: Mapping[str, int], *, by_wine: bool, key: str
) -> tuple[DiskChange, ...]:
    """Every file of the drives that differs, the runner's own among them.

    Args:
        before: The checkpoint's disks. What owns which of their clusters is kept beside their folder.
        after: The disks taken.
        starts: Byte of its disk at which each drive's volume begins.
        by_wine: Whether Wine keeps the volumes.
        key: What tells the checkpoint from every other one.

    Raises:
        Unreadable: There is no drive, or a disk cannot be understood.
    """
    ensure_some(after)
    found: list[DiskChange] = []
    for drive, file in after.items():
        with open_disk(before[drive]) as old, open_disk(file) as new:
            owners = DiskOwners.kept(old, before[drive].parent.parent / f"owners-{drive}", key)
            found += changed_files(old, new, drive=f"{drive}:", start=starts[drive], by_wine=by_wine, owners=owners)
    return tuple(found)


def _ntfs(disk: Disk, drive: str, file: Path) -> list[Partition]:
    found = [part for part in partitions(disk) if part.ntfs]
    if not found:
        raise Unreadable(f"{file.name}, which should hold the drive {drive}:, holds no NTFS volume")
    return found


def _volume(disk: Disk, part: Partition, *, by_wine: bool) -> Volume:
    return Volume(Slice(disk, part.start, part.size), by_wine=by_wine)


def _found(drive: str, file: Path, marker: bytes, *, by_wine: bool) -> int:
    damaged = None
    with open_disk(file) as disk:
        for part in _ntfs(disk, drive, file):
            try:
                if _holds(OfflineGuest({drive: _volume(disk, part, by_wine=by_wine)}), drive, marker):
                    return part.start
            except Unreadable as error:  # the marker may be on another volume
                damaged = error
    raise damaged or Unreadable(
        f"what was written to {drive}: last is on no volume of {file.name}: either the guest's flush does not reach it, or "
        "`drive:` in the image's manifest gives the wrong letter"
    )


def _holds(guest: OfflineGuest, drive: str, marker: bytes) -> bool:
    try:
        return guest.read(marker_path(drive), limit=2 * len(marker)) == marker
    except GuestNotFound:
        return False
