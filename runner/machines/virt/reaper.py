"""Removing what dead runners left behind: machines' folders with their QEMU, domains of this home, libvirt's own folders."""

from __future__ import annotations

import contextlib
import json
import os
import re

from runner.machines import folders
from runner.machines.base import Leftover, MachineError, home, lock
from runner.machines.virt.domain_xml import DomainTag
from runner.machines.virt.hypervisor import EMBED, HypervisorError, hypervisor
from runner.machines.virt.lifetime import RunnerFiles, home_id, known_runners, libvirt_folder

PROVIDER = "libvirt"
_SECONDS = 30.0
_LOCK = "lock"
_NAME = re.compile(r"libvirt-[0-9a-f]{12}")
"""Of a machine, as :class:`runner.machines.folders.MachineFolder` chooses it; a domain's becomes part of a path."""
_USED = "connections.json"
"""Which daemons this home's machines ran under, so that domains are found whose folder is gone."""


def remember(uri: str) -> None:
    """Notes a connection whose machines outlive their runner, for :func:`leftovers`."""
    if uri == EMBED or uri in _remembered():
        return
    file = libvirt_folder() / _USED
    written = file.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(sorted({*_remembered(), uri})) + "\n")
    written.rename(file)


def _remembered() -> list[str]:
    try:
        told = json.loads((home() / "libvirt" / _USED).read_text())
    except (OSError, ValueError):
        return []
    return [uri for uri in told if isinstance(uri, str)] if isinstance(told, list) else []


def leftovers() -> list[Leftover]:
    """Machines by their folders, what dead runners' connections left, and domains of this home that have no folder any more."""
    found = folders.leftovers(PROVIDER)
    names = {item.name for item in found}
    for files in known_runners():
        if not files.alive:
            name = files.link.name
            found.append(Leftover(name, "libvirt", name, files.pid, alive=False, folder=files.link))
    for uri in _remembered():
        # A daemon that does not answer has nothing to tell: it must not keep anyone from seeing the rest.
        with contextlib.suppress(HypervisorError):
            found += [_without_folder(name, tag) for name, tag in _domains(uri).items() if name not in names]
    return found


def _without_folder(name: str, tag: DomainTag) -> Leftover:
    files = RunnerFiles(libvirt_folder(), tag.runner)
    return Leftover(name, tag.campaign, tag.run, files.pid, alive=files.alive, folder=folders.machines() / name)


def _domains(uri: str) -> dict[str, DomainTag]:
    """The domains of this home, by their names. The same daemon may have those of other homes: they are not ours to end.

    Raises:
        HypervisorError: The daemon does not tell, which does not mean that there are none.
    """
    told = hypervisor(uri).call("tagged", timeout=_SECONDS, again=True)
    mine = home_id()
    tags = {str(each["name"]): DomainTag(**each["tag"]) for each in told}
    return {name: tag for name, tag in tags.items() if tag.home == mine and _NAME.fullmatch(name)}


def reap(leftover: Leftover) -> None:
    """Removes what a dead runner left.

    Raises:
        MachineError: Its runner lives, it could not be removed, or a daemon does not say whether its domain still runs.
    """
    if leftover.folder.parent == libvirt_folder():
        _reap_connection(leftover)
    elif leftover.folder.is_dir():
        _reap_machine(leftover)
    else:
        _reap_domain(leftover)


def _in_use(leftover: Leftover) -> MachineError:
    return MachineError(f"{leftover.name} is in use by the runner {leftover.runner_pid}")


def _reap_connection(leftover: Leftover) -> None:
    files = RunnerFiles.of_link(leftover.folder)
    held = lock(files.lock)
    if held is None:
        raise _in_use(leftover)
    with held:
        if (root := files.root) is not None:
            folders.end_processes_of(root)
        files.remove()


def _reap_machine(leftover: Leftover) -> None:
    held = lock(leftover.folder / _LOCK)
    if held is None:
        raise _in_use(leftover)
    with held:
        uri = str((folders.about(leftover.folder) or {}).get("uri", EMBED))
        if uri != EMBED and leftover.name in _domains(uri):
            _end(uri, leftover.name)
        folders.end_processes_of(leftover.folder)
        folders.remove(leftover.folder)


def _reap_domain(leftover: Leftover) -> None:
    """Ends it wherever it is; one daemon that does not answer is no obstacle if another one has it."""
    silent: HypervisorError | None = None
    for uri in _remembered():
        try:
            tag = _domains(uri).get(leftover.name)
        except HypervisorError as error:
            silent = error
            continue
        if tag is not None:
            if RunnerFiles(libvirt_folder(), tag.runner).alive:
                raise _in_use(leftover)
            _end(uri, leftover.name)
            return
    if silent is not None:
        raise silent


def _end(uri: str, name: str) -> None:
    hypervisor(uri).call("destroy", timeout=_SECONDS, again=True, name=name)
