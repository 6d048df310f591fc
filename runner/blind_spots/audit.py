"""The audit of one machine, files and registry; what cannot be looked at is told as such and spoils no verdict."""

from __future__ import annotations

from collections.abc import Mapping

from contracts.schema import Observable
from runner.blind_spots.files import sort_changes
from runner.blind_spots.keys import sort_keys
from runner.guests.base import GuestLost, Unreadable
from runner.machines.base import DiskAudited, DiskReadable, DiskState, Machine, MachineError
from runner.record import BlindSpots, RegistrySpots

_TROUBLE = (Unreadable, MachineError, GuestLost, OSError)


def begin(machine: Machine) -> None:
    """Makes this moment, in which the agent is about to begin, the one since which changes count, where the machine can tell.

    One that can be read from its disk is compared with its checkpoint. That the disk cannot be looked at is told by the audit.
    """
    if isinstance(machine, DiskAudited):
        try:
            machine.mark_disk()
        except _TROUBLE:
            return


def audit_of_machine(machine: Machine, observe: Mapping[str, Observable]) -> BlindSpots | None:
    """Looks at the disk of a machine that was read live, and that is of no use afterwards.

    Returns:
        ``None``: machines of its kind cannot be looked at as a whole.
    """
    try:
        if isinstance(machine, DiskAudited):
            with machine.disk_since_mark() as disk:
                return audit(disk, observe)
        if isinstance(machine, DiskReadable):
            with machine.disk_after("disk") as disk:
                return audit(disk, observe)
    except _TROUBLE as error:
        return BlindSpots(unreadable=str(error))
    return None


def audit(disk: DiskState, observe: Mapping[str, Observable]) -> BlindSpots:
    """Sorts what changed on a disk and in its registry."""
    try:
        found = sort_changes(disk.changed(), observe, how=disk.taken).model_copy(
            update={
                "drives": list(disk.drives),
                "left_out_disks": list(disk.left_out),
                "unseen": list(disk.unseen()),
                "compared_with": disk.compared_with,
            }
        )
    except (Unreadable, OSError) as error:
        found = BlindSpots(how=disk.taken, unreadable=str(error))
    return found.model_copy(update={"registry": _registry(disk, observe)})


def _registry(disk: DiskState, observe: Mapping[str, Observable]) -> RegistrySpots | None:
    if disk.registry is None:
        return None
    try:
        found = disk.registry()
        return sort_keys(found.changes, observe).model_copy(update={"unread": list(found.unread), "how": found.how})
    except (Unreadable, OSError) as error:
        return RegistrySpots(unreadable=str(error))
