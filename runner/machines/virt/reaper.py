"""Removing what dead runners left behind: machines' folders with their QEMU, domains with our tag, libvirt's own folders."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from runner.machines import folders
from runner.machines.base import Leftover, MachineError, Tag, home, is_locked, lock
from runner.machines.virt.hypervisor import EMBED, HypervisorError, hypervisor

PROVIDER = "libvirt"
_SECONDS = 30.0
_LOCK = "lock"
_USED = "connections.json"
"""Which daemons this home's machines ran under, so that domains are found whose folder is gone."""


def remember(uri: str) -> None:
    """Notes a connection whose machines outlive their runner, for :func:`leftovers`."""
    if uri == EMBED or uri in _remembered():
        return
    file = _libvirt() / _USED
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(sorted({*_remembered(), uri})) + "\n")
    written.rename(file)


def _remembered() -> list[str]:
    try:
        told = json.loads((_libvirt() / _USED).read_text())
    except (OSError, ValueError):
        return []
    return [uri for uri in told if isinstance(uri, str)] if isinstance(told, list) else []


def _libvirt() -> Path:
    return home() / "libvirt"


def leftovers() -> list[Leftover]:
    """Machines by their folders, libvirt's folders of dead runners, and domains with our tag that have no folder any more."""
    found = folders.leftovers(PROVIDER)
    names = {item.name for item in found}
    for root in sorted(_libvirt().glob("run-*")):
        if not is_locked(root / _LOCK):
            found.append(Leftover(root.name, "libvirt", root.name, _pid(root), alive=False, folder=root))
    for uri in _remembered():
        for domain in _tagged(uri):
            if domain["name"] not in names:
                alive = _runs(int(domain["runner"]))
                folder = home() / "machines" / str(domain["name"])
                with contextlib.suppress(ValueError):
                    tag = Tag(str(domain["campaign"]), str(domain["run"]))
                    found.append(
                        Leftover(
                            str(domain["name"]),
                            tag.campaign,
                            tag.run,
                            int(domain["runner"]),
                            alive=alive,
                            folder=folder,
                        )
                    )
    return found


def _pid(root: Path) -> int:
    try:
        return int((root / "runner.pid").read_text())
    except (OSError, ValueError):
        return 0


def _runs(pid: int) -> bool:
    return pid > 0 and Path(f"/proc/{pid}").exists()


def _tagged(uri: str) -> list[dict[str, Any]]:
    """A daemon that does not answer has nothing to tell: it must not keep anyone from cleaning up the rest."""
    try:
        told = hypervisor(uri).call("tagged", timeout=_SECONDS, again=True)
    except HypervisorError:
        return []
    return told if isinstance(told, list) else []


def reap(leftover: Leftover) -> None:
    """Removes what a dead runner left.

    Raises:
        MachineError: Its runner lives, or it could not be removed.
    """
    if not leftover.folder.is_dir():
        if leftover.alive:
            raise MachineError(f"{leftover.name} is in use by the runner {leftover.runner_pid}")
        _end_domains(
            [uri for uri in _remembered() for each in _tagged(uri) if each["name"] == leftover.name], leftover.name
        )
        return
    held = lock(leftover.folder / _LOCK)
    if held is None:
        raise MachineError(f"{leftover.name} is in use by the runner {leftover.runner_pid}")
    with held:
        told = folders.about(leftover.folder) or {}
        uri = str(told.get("uri", EMBED))
        if uri != EMBED:
            _end_domains([uri], leftover.name)
        folders.end_processes_of(leftover.folder)
        if folders.processes_of(leftover.folder):
            raise MachineError(f"processes of {leftover.name} could not be ended")
        if leftover.folder.parent == _libvirt():
            shutil.rmtree(leftover.folder, ignore_errors=True)
        else:
            folders.remove(leftover.folder)


def _end_domains(uris: list[str], name: str) -> None:
    for uri in uris:
        if any(each["name"] == name for each in _tagged(uri)):
            hypervisor(uri).call("destroy", timeout=_SECONDS, again=True, name=name)
