"""Where runs are kept: one folder per campaign, one record per run, evidence by content hash.

``runs/<campaign>/blobs/ab/abcd…`` holds each piece of evidence once, named by its SHA-256, so that the thousand equal
before-states of a campaign take the room of one. ``runs/<campaign>/<run>/record.json`` is written last, by renaming a whole
folder into place: a run that was cut short leaves an unfinished folder, marked as ours, and never half a record.

A run begins only where there is room for its record, which is set aside. A record that cannot be written all the same is held in
memory and written as soon as there is room; until then no other run begins.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from mmap import mmap
from pathlib import Path

from pydantic import ValidationError

from runner.agents.processes import end_abandoned
from runner.host_disk import CAMPAIGNS, FULL, HOME, Unwritable, unwritable
from runner.machines.base import Leftover, home, is_locked, lock
from runner.record import VERSION, RunRecord, SnapshotRef
from runner.removal import RemovalError, remove
from runner.states import keep_state, load_state
from validators.snapshot import Snapshot, State

MARK = ".legacyproof-unfinished"
"""Stands in the folder of a run that is not finished; what `machines reap` removes must hold it."""
_UNFINISHED = ".unfinished"
_SET_ASIDE = "room"
_ROOM = 1 << 20
"""Bytes that are set aside for the record of each run that works."""
_PROBE = 1 << 16
_AGAIN = 5.0
"""Seconds after which a run that waits for room looks for it again, unless another one ends before."""
_BEGUN = ".begun"
_BEGUN_NAME = re.compile(rf"\.[0-9a-f]{{12}}{re.escape(_BEGUN)}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class StoreError(Exception):
    """A campaign folder cannot be used, or evidence is missing or not what its name says."""


class Campaign:
    """One campaign's folder; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "blobs"
        self._room = threading.Condition(threading.RLock())
        self._begun: set[Path] = set()
        self._at_work: set[Path] = set()
        self._owed: dict[str, bytes] = {}
        """Evidence of records that wait to be written."""
        self._waiting: dict[str, RunRecord] = {}
        self.stopped: Unwritable | None = None
        """Why no more runs can begin; ``None``: they can."""

    @classmethod
    def create(cls, parent: Path, name: str) -> Campaign:
        """Makes a campaign's folder, or goes on with the one there is.

        Raises:
            StoreError: The name cannot be one of a folder, or the place is none that can be written to.
            Unwritable: There is no room.
        """
        if not _NAME.fullmatch(name):
            raise StoreError(
                f"{name!r} cannot be a campaign's name: letters, digits, dots, dashes and underscores only"
            )
        campaign = cls(parent / name)
        try:
            campaign._blobs.mkdir(parents=True, exist_ok=True)
            with _tried(campaign._blobs / f".{secrets.token_hex(4)}") as probe:
                _set_aside(probe)  # a folder that is there may lie on a disk that takes nothing
        except OSError as error:
            trouble = unwritable(error, campaign.folder, CAMPAIGNS, needed=_ROOM)
            raise (StoreError(str(trouble)) if trouble.status == 2 else trouble) from None
        return campaign

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.folder.name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Says in our home folder, under a lock, that this process works on the campaign: what it leaves can be found.

        Raises:
            Unwritable: The home folder takes no note.
        """
        with at_work(self.folder) as note:
            try:
                yield
            finally:
                # What could not be removed stays listed, as what a dead runner has left.
                note.keep = note.keep or any(folder.exists() for folder in self._begun)

    # --- evidence ---

    def keep(self, data: bytes | mmap) -> str:
        """Stores a piece of evidence and returns its name.

        Raises:
            Unwritable: It cannot be stored.
        """
        name = hashlib.sha256(data).hexdigest()
        try:
            self._keep(name, data)
        except OSError as error:
            raise unwritable(error, self._blobs, CAMPAIGNS, needed=len(data)) from None
        return name

    def owe(self, data: bytes) -> str:
        """Stores what belongs to a record that is about to be finished; what cannot be stored now is stored with the record."""
        name = hashlib.sha256(data).hexdigest()
        try:
            self._keep(name, data)
        except OSError:
            with self._room:
                self._owed[name] = data
        return name

    def _keep(self, name: str, data: bytes | mmap) -> None:
        path = self._blobs / name[:2] / name
        # One of another length was damaged: a write that the host did not finish. Its content is checked when it is read.
        if not path.exists() or path.stat().st_size != len(data):
            path.parent.mkdir(parents=True, exist_ok=True)
            with _tried(path.with_name(f".{name}.{secrets.token_hex(4)}")) as unfinished:
                unfinished.write_bytes(data)
                unfinished.rename(path)

    def blob(self, sha256: str) -> bytes:
        """A piece of evidence by its name.

        Raises:
            StoreError: It is missing, or not what its name says.
        """
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise StoreError(f"{sha256!r} is no name of evidence")
        try:
            data = (self._blobs / sha256[:2] / sha256).read_bytes()
        except OSError as error:
            raise StoreError(f"evidence {sha256[:12]}… cannot be read: {error.strerror}") from None
        if hashlib.sha256(data).hexdigest() != sha256:
            raise StoreError(f"evidence {sha256[:12]}… was changed")
        return data

    # --- runs ---

    def begin(self, run: str) -> Path:
        """Makes the unfinished folder of a run, with room for its record set aside.

        Where there is none, runs that work may leave some when they end: that is waited for.

        Raises:
            Unwritable: There is no room, and nothing works that could leave some. No other run can begin then.
        """
        folder = self._scratch(run)
        begun = self.folder / f".{secrets.token_hex(6)}{_BEGUN}"
        with self._room:
            while self.stopped is None:
                try:
                    self._settle()
                    begun.mkdir()
                    (begun / MARK).touch()
                    _set_aside(begun / _SET_ASIDE)
                    begun.rename(folder)  # never without its mark
                except OSError as error:
                    shutil.rmtree(begun, ignore_errors=True)
                    if self._at_work and error.errno in FULL:
                        self._room.wait(_AGAIN)
                        continue
                    self.stopped = unwritable(error, self.folder, CAMPAIGNS, needed=_ROOM)
                    break
                self._begun.add(folder)
                self._at_work.add(folder)
                return folder
            raise self.stopped

    def ensure_room(self, scratch: Path) -> None:
        """Makes sure that what works in the folder of a run can write there: who cannot is not to be blamed for what is missing.

        Args:
            scratch: The folder that :meth:`begin` made.

        Raises:
            Unwritable: Nothing can be written there now.
        """
        try:
            with _tried(scratch / ".probe") as probe:
                probe.write_bytes(bytes(_PROBE))
        except OSError as error:
            raise unwritable(error, self.folder, CAMPAIGNS, needed=_PROBE) from None

    def finish(self, record: RunRecord, scratch: Path) -> Path:
        """Puts a run's record in place, or sees to it that this is done as soon as there is room: see :attr:`unstored`.

        Args:
            record: The record.
            scratch: The folder that :meth:`begin` made; whatever else it holds goes away.

        Returns:
            The record's path. Where that folder cannot be removed, it stays, marked, and `machines list` tells of the campaign.
        """
        with self._room:
            self._at_work.discard(scratch)
            self._waiting[record.run] = record
            with suppress(OSError):
                self._settle()
            with suppress(RemovalError):
                remove(scratch, last=[MARK])
            with suppress(OSError):  # that has made some room
                self._settle()
            self._room.notify_all()
        return self.folder / record.run / "record.json"

    def replace(self, record: RunRecord) -> None:
        """Writes a record that is there again, e.g. marked as superseded; what holds for :meth:`finish` holds for it."""
        with self._room:
            self._waiting[record.run] = record
            with suppress(OSError):
                self._settle()

    @property
    def unstored(self) -> tuple[RunRecord, ...]:
        """The records that could not be written so far, or not as they are now."""
        with self._room:
            with suppress(OSError):
                self._settle()
            return tuple(self._waiting.values())

    def _settle(self) -> None:
        """Writes what waits to be written.

        Raises:
            OSError: There is no room for it; what is half written is removed.
        """
        for run, record in list(self._waiting.items()):
            scratch = self._scratch(run)
            with suppress(OSError):
                (scratch / _SET_ASIDE).unlink()
            for name, data in list(self._owed.items()):
                self._keep(name, data)
                del self._owed[name]
            if (self.folder / run / "record.json").is_file():
                with _tried(self.folder / run / "record.new") as unfinished:
                    _write(record, unfinished)
                    unfinished.rename(self.folder / run / "record.json")
            else:
                self._put_in_place(record, scratch)
            del self._waiting[run]

    def _put_in_place(self, record: RunRecord, scratch: Path) -> None:
        scratch.mkdir(exist_ok=True)
        (scratch / MARK).touch()
        kept = scratch / "finished"
        try:
            kept.mkdir()
            _write(record, kept / "record.json")
            kept.rename(self.folder / record.run)
        except OSError:
            shutil.rmtree(kept, ignore_errors=True)
            raise
        with suppress(RemovalError):
            remove(scratch, last=[MARK])

    def _scratch(self, run: str) -> Path:
        return self.folder / f".{run}{_UNFINISHED}"

    def records(self) -> Iterator[RunRecord]:
        """Every finished run, in the order in which they began.

        Raises:
            StoreError: A record cannot be read.
        """
        found = []
        for path in sorted(self.folder.glob("[!.]*/record.json")):
            try:
                record = RunRecord.model_validate_json(path.read_bytes())
                if record.version > VERSION:
                    raise StoreError(
                        f"{path} was written by a later version ({record.version}); this one reads {VERSION}"
                    )
                found.append(record)
            except (OSError, ValidationError) as error:
                raise StoreError(f"{path} cannot be read: {error}") from None
        return iter(sorted(found, key=lambda record: (record.started, record.run)))

    # --- snapshots ---

    def keep_snapshot(self, snapshot: Snapshot, *, settled: bool, how: str = "") -> SnapshotRef:
        """Stores a snapshot as evidence.

        Args:
            snapshot: The states.
            settled: Whether the machine was still when it was taken.
            how: The way it was read, where it was not live through the guest.
        """
        return SnapshotRef(
            taken=datetime.now(UTC),
            settled=settled,
            how=how,
            readings={name: keep_state(state, self.keep) for name, state in snapshot.items()},
        )

    def snapshot(self, kept: SnapshotRef) -> dict[str, State]:
        """A snapshot from its evidence.

        Raises:
            StoreError: Evidence is missing or damaged.
        """
        try:
            return {name: load_state(reading, self.blob) for name, reading in kept.readings.items()}
        except ValueError as error:
            raise StoreError(f"the evidence of a snapshot cannot be read: {error}") from None


def _write(record: RunRecord, path: Path) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(record.model_dump_json(indent=1) + "\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _tried(path: Path) -> Iterator[Path]:
    """A file that is made whole and put to its place, or not at all: what is left of it at the end goes away."""
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink()


def _set_aside(path: Path) -> None:
    with path.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, _ROOM)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            file.write(bytes(_ROOM))  # a file system that cannot set aside


@dataclass
class Note:
    """Says in our home folder that a process works on a campaign.

    Attributes:
        keep: Whether it stays, since something is left that has to be found.
    """

    keep: bool = False


@contextmanager
def at_work(folder: Path) -> Iterator[Note]:
    """Says in our home folder, under a lock, that this process works on a campaign's folder: what it leaves can be found.

    Raises:
        Unwritable: The home folder takes no note.
    """
    register = home() / "campaigns"
    file = register / f"{secrets.token_hex(6)}.json"
    told = Note()
    with ExitStack() as stack:
        try:
            register.mkdir(parents=True, exist_ok=True)
            opened = stack.enter_context(
                file.open("ab", buffering=0)
            )  # closing it has nothing to write that could fail
            fcntl.flock(opened, fcntl.LOCK_EX)
            opened.write(json.dumps({"campaign": str(folder.absolute()), "runner": os.getpid()}).encode())
        except OSError as error:
            with suppress(OSError):
                file.unlink()
            raise unwritable(error, register, HOME) from None
        try:
            yield told
        finally:
            if not told.keep:
                with suppress(OSError):
                    file.unlink()


def abandoned() -> list[Leftover]:
    """Campaigns that a runner works on, or that a dead one did not close."""
    found = []
    for note in sorted((home() / "campaigns").glob("*.json")):
        try:
            about = json.loads(note.read_text())
            folder, runner = Path(about["campaign"]), int(about["runner"])
        except (OSError, ValueError, KeyError, TypeError):
            folder, runner = note, 0
        found.append(Leftover("campaign", folder.name, note.name, runner, is_locked(note), note))
    return found


def sweep(leftover: Leftover) -> None:
    """Removes what a dead runner left unfinished in a campaign: only folders that hold our mark, and half-written evidence."""
    note = leftover.folder
    held = lock(note)
    if held is None:
        raise StoreError(f"the campaign {leftover.campaign} is in use by the runner {leftover.runner_pid}")
    with held:
        try:
            folder = Path(json.loads(note.read_text())["campaign"])
        except (OSError, ValueError, KeyError, TypeError):
            folder = None
        if folder is not None and _in_use(folder, note):
            raise StoreError(f"another runner works on the campaign {folder.name}; reap again when it is done")
        if folder is not None:
            try:
                for unfinished in folder.glob(f".*{_UNFINISHED}"):
                    if (unfinished / MARK).is_file():
                        end_abandoned(unfinished)
                        remove(unfinished, last=[MARK])
                for begun in folder.glob(f".*{_BEGUN}"):
                    if _BEGUN_NAME.fullmatch(begun.name) and {each.name for each in begun.iterdir()} <= {
                        MARK,
                        _SET_ASIDE,
                    }:
                        remove(begun, last=[MARK])
                for half in (folder / "blobs").glob("??/.*"):
                    half.unlink()
                for report in folder.glob(".report.*"):
                    remove(report)
            except OSError as error:
                raise StoreError(f"the campaign {folder.name} cannot be cleaned up: {error}") from None
        note.unlink()


def _in_use(folder: Path, but: Path) -> bool:
    """Whether a living runner works on the campaign in that folder."""
    for note in (home() / "campaigns").glob("*.json"):
        if note != but and is_locked(note):
            with suppress(OSError, ValueError, KeyError, TypeError):
                if Path(json.loads(note.read_text())["campaign"]) == folder:
                    return True
    return False
