"""A machine's folder: it names the machine's tag and is locked as long as its runner lives.

When the lock is free, the runner is dead and the folder is a leftover. The kernel lets go of a lock with its holder, whatever
becomes of that; a process number could belong to somebody else by now.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import time
from pathlib import Path
from typing import IO, Any

from runner.machines.base import Leftover, MachineError, Tag, home, is_locked, lock

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
        self.path.mkdir()
        held = lock(self.path / _LOCK)
        if held is None:
            raise MachineError(f"{self.path} is in use")
        self._held: IO[str] = held
        self._about = {
            "tag": "legacyproof", "provider": provider, "campaign": tag.campaign, "run": tag.run, "runner": os.getpid(), **more,
        }  # fmt: skip
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
    found = []
    for folder in sorted((home() / "machines").glob(f"{provider}-*")):
        told = about(folder)
        if told is None:
            continue
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            found.append(
                Leftover(
                    folder.name, str(told["campaign"]), str(told["run"]), int(told["runner"]),
                    alive=is_locked(folder / _LOCK), folder=folder,
                )
            )  # fmt: skip
    return found


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
    """Removes a folder; an overlay's own work folder is not readable for those who are not root, until told so.

    Raises:
        MachineError: It could not be removed.
    """
    with contextlib.suppress(OSError):
        (folder / "work" / "work").chmod(0o700)
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise MachineError(
            f"{folder} could not be removed ({error}); `legacyproof machines reap` tries again"
        ) from None
