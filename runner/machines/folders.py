"""A machine's folder: it names the machine's tag and is locked as long as its runner lives.

When the lock is free, the runner is dead and the folder is a leftover. The kernel lets go of a lock with its holder, whatever
becomes of that; a process number could belong to somebody else by now.

A folder's life begins and ends with nothing in it but its lock, and with nothing at all; what a runner leaves that is killed then has no
description, but still a name and a lock as only ours have.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from runner import removal
from runner.machines.base import Leftover, MachineError, Tag, home, is_locked, lock

_NAME = re.compile(r"[a-z]+-[0-9a-f]{12}")
_ABOUT = "machine.json"
_LOCK = "lock"
_MAX_ABOUT = 1 << 20


def machines() -> Path:
    """Where machines lie."""
    folder = home() / "machines"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class MachineFolder:
    """The folder of one machine.

    Attributes:
        id: The machine's name, random.
        path: Where it lies.
    """

    def __init__(self, provider: str, tag: Tag, **more: Any) -> None:
        """Makes it.

        Args:
            provider: Whose machine it is.
            tag: The machine's.
            more: What else is to be known of it by who cleans up.
        """
        self.id = f"{provider}-{secrets.token_hex(6)}"
        self.path = machines() / self.id
        self._about = {
            "tag": "legacyproof", "provider": provider, "campaign": tag.campaign, "run": tag.run, "runner": os.getpid(), **more,
        }  # fmt: skip
        with _between_states(fcntl.LOCK_SH):
            self.path.mkdir()
            held = lock(self.path / _LOCK)
            if held is None:
                raise MachineError(f"{self.path} is in use")
            self._held: IO[str] = held
            self._write()

    def note(self, **more: Any) -> None:
        """Adds to what is known of the machine."""
        self._about |= more
        self._write()

    def _write(self) -> None:
        written = self.path / f"{_ABOUT}.new"
        written.write_text(json.dumps(self._about) + "\n")
        written.rename(self.path / _ABOUT)

    def remove(self) -> None:
        """Removes it; safe to call twice.

        Raises:
            MachineError: Something could not be removed; it is a leftover now.
        """
        try:
            if self.path.exists():
                remove(self.path)
        finally:
            self._held.close()

    def quarantine(self, reason: str) -> None:
        """Leaves it to ``machines reap``, with the reason."""
        with contextlib.suppress(OSError):
            self.note(quarantined=reason)
        self._held.close()


@contextlib.contextmanager
def _between_states(how: int) -> Iterator[None]:
    """Holds the lock under which a folder gets its lock and description, and loses them: shared (``LOCK_SH``) by those who do so.

    Whoever has it alone (``LOCK_EX``) sees a folder without them only where its runner is dead.
    """
    with (home() / "machines.lock").open("a") as file:
        fcntl.flock(file, how)
        yield


def about(folder: Path) -> dict[str, Any] | None:
    """What a folder says of its machine; ``None``: it is not ours."""
    try:
        with (folder / _ABOUT).open("rb") as file:
            told = json.loads(file.read(_MAX_ABOUT))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and told.get("tag") == "legacyproof" else None


def leftovers(provider: str) -> list[Leftover]:
    """The folders of a provider's machines, of living and of dead runners."""
    if not (home() / "machines").is_dir():
        return []
    found = []
    # Alone, since a folder that is being removed loses its description and its lock one after the other.
    with _between_states(fcntl.LOCK_EX):
        for folder in sorted((home() / "machines").glob(f"{provider}-*")):
            told = about(folder)
            if told is None and not _is_undescribed(folder):
                continue
            told = told or {"campaign": "", "run": "", "runner": 0}
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                found.append(
                    Leftover(
                        folder.name, str(told["campaign"]), str(told["run"]), int(told["runner"]),
                        alive=(folder / _LOCK).exists() and is_locked(folder / _LOCK), folder=folder,
                    )
                )  # fmt: skip
    return found


def _is_undescribed(folder: Path) -> bool:
    """Whether it is one whose runner was killed before it had a description, or when it had none any more.

    Ours are known by their name and by the lock in them, an empty file; one without anything in it is nobody's loss.
    """
    return (
        _NAME.fullmatch(folder.name) is not None
        and folder.is_dir()
        and not folder.is_symlink()
        and _has_only_a_lock(folder)
    )


def _has_only_a_lock(folder: Path) -> bool:
    """Whether a folder has no description, but our lock, or nothing at all."""
    try:
        there = {entry.name: entry for entry in os.scandir(folder)}
        if not there:
            return True
        lock_file = there.get(_LOCK)
        return (
            _ABOUT not in there
            and lock_file is not None
            and lock_file.is_file(follow_symlinks=False)
            and lock_file.stat(follow_symlinks=False).st_size == 0
        )
    except OSError:
        return False


def processes_of(folder: Path) -> list[int]:
    """Processes whose command line names the folder: only ours do, since its name is random."""
    wanted = os.fsencode(folder)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def end_processes_of(folder: Path, *, timeout: float = 10.0) -> None:
    """Ends every process whose command line names the folder, and waits until they are gone.

    Raises:
        MachineError: One does not end.
    """
    foreign = ""
    for pid in processes_of(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:  # a daemon's QEMU, which may be about to end
            foreign = "; another user's must be ended by that user or by root"
    deadline = time.monotonic() + timeout
    while left := processes_of(folder):
        if time.monotonic() > deadline:
            raise MachineError(f"processes of {folder.name} could not be ended: {', '.join(map(str, left))}{foreign}")
        time.sleep(0.02)


def remove(folder: Path) -> None:
    """Removes a folder, its description and its lock last.

    Raises:
        MachineError: It could not be removed.
    """
    try:
        removal.empty(folder, but=(_ABOUT, _LOCK))
        with _between_states(fcntl.LOCK_SH):
            removal.remove(folder, last=(_ABOUT, _LOCK))
    except OSError as error:
        raise MachineError(
            f"{folder} could not be removed ({error}); `legacyproof machines reap` tries again"
        ) from None
