"""Where runs are kept: one folder per campaign, one record per run, evidence by content hash.

``runs/<campaign>/blobs/ab/abcd…`` holds each piece of evidence once, named by its SHA-256, so that the thousand equal
before-states of a campaign take the room of one. ``runs/<campaign>/<run>/record.json`` is written last, by renaming a whole
folder into place: a run that was cut short leaves an unfinished folder, marked as ours, and never half a record.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from mmap import mmap
from pathlib import Path

from pydantic import ValidationError

from runner.machines.base import Leftover, home, is_locked, lock
from runner.record import VERSION, RunRecord, SnapshotRef
from runner.states import keep_state, load_state
from validators.snapshot import Snapshot, State

MARK = ".legacyproof-unfinished"
"""Stands in the folder of a run that is not finished; what `machines reap` removes must hold it."""
_UNFINISHED = ".unfinished"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class StoreError(Exception):
    """A campaign folder cannot be used, or evidence is missing or not what its name says."""


class Campaign:
    """One campaign's folder; safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._blobs = folder / "blobs"
        self._lock = threading.Lock()

    @classmethod
    def create(cls, parent: Path, name: str) -> Campaign:
        """Makes a campaign's folder, or goes on with the one there is.

        Raises:
            StoreError: The name cannot be one of a folder, or the folder cannot be written.
        """
        if not _NAME.fullmatch(name):
            raise StoreError(
                f"{name!r} cannot be a campaign's name: letters, digits, dots, dashes and underscores only"
            )
        campaign = cls(parent / name)
        try:
            campaign._blobs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{parent / name} cannot be written: {error.strerror}") from None
        return campaign

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.folder.name

    @contextmanager
    def held(self) -> Iterator[None]:
        """Says in our home folder, under a lock, that this process works on the campaign: what it leaves can be found."""
        register = home() / "campaigns"
        register.mkdir(parents=True, exist_ok=True)
        note = register / f"{secrets.token_hex(6)}.json"
        with note.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps({"campaign": str(self.folder.absolute()), "runner": os.getpid()}))
            file.flush()
            try:
                yield
            finally:
                note.unlink()

    # --- evidence ---

    def keep(self, data: bytes | mmap) -> str:
        """Stores a piece of evidence and returns its name."""
        name = hashlib.sha256(data).hexdigest()
        path = self._blobs / name[:2] / name
        # One of another length was damaged: a write that the host did not finish. Its content is checked when it is read.
        if not path.exists() or path.stat().st_size != len(data):
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{name}.{secrets.token_hex(4)}")
            unfinished.write_bytes(data)
            unfinished.rename(path)
        return name

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
        """Makes the unfinished folder of a run."""
        folder = self.folder / f".{run}{_UNFINISHED}"
        folder.mkdir()
        (folder / MARK).touch()
        return folder

    def finish(self, record: RunRecord, scratch: Path) -> Path:
        """Puts a run's record in place.

        Args:
            record: The record.
            scratch: The folder that :meth:`begin` made; whatever else it holds goes away.

        Returns:
            The record's path.
        """
        kept = scratch / "finished"
        kept.mkdir()
        with (kept / "record.json").open("w", encoding="utf-8") as file:
            file.write(record.model_dump_json(indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        target = self.folder / record.run
        kept.rename(target)
        shutil.rmtree(scratch, ignore_errors=True)
        return target / "record.json"

    def replace(self, record: RunRecord) -> None:
        """Writes a record that is there again, e.g. marked as superseded."""
        path = self.folder / record.run / "record.json"
        unfinished = path.with_suffix(".new")
        unfinished.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        unfinished.rename(path)

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
            for unfinished in folder.glob(f".*{_UNFINISHED}"):
                if (unfinished / MARK).is_file():
                    shutil.rmtree(unfinished)
            for half in (folder / "blobs").glob("??/.*"):
                half.unlink()
            for report in folder.glob(".report.*"):
                shutil.rmtree(report)
        note.unlink()


def _in_use(folder: Path, but: Path) -> bool:
    """Whether a living runner works on the campaign in that folder."""
    for note in (home() / "campaigns").glob("*.json"):
        if note != but and is_locked(note):
            with suppress(OSError, ValueError, KeyError, TypeError):
                if Path(json.loads(note.read_text())["campaign"]) == folder:
                    return True
    return False
