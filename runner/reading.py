"""Where a snapshot is read from: live through the guest, or from the machine's disk without its help.

Windows, registry and databases are read live either way: windows are not on a disk, and the registry reaches it late.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from contracts.schema import DbfTable, FileTree, Observable, Read, TaskContract
from runner import capture
from runner.guests.base import Guest
from runner.guests.timed import Deadline, TimedGuest
from runner.machines.base import DiskReadable, DiskState, Machine, SetupError
from validators.snapshot import Snapshot


@dataclass(frozen=True)
class Source:
    """What one snapshot is read from.

    Attributes:
        guest: Reads files and tables.
        live: What was read through the living guest before the disk was taken.
        deadline: When the snapshot must have been taken.
        disk: The disk, where it is read.
        ended: Whether the machine was ended for it: nothing changes any more, and nothing can be asked of it.
    """

    guest: Guest
    live: Snapshot
    deadline: Deadline
    disk: DiskState | None = None
    ended: bool = False

    @property
    def how(self) -> str:
        """The way it is read, in words; empty: live."""
        return self.disk.taken if self.disk is not None else ""

    def take(self, observe: Mapping[str, Observable], *, earlier: Snapshot | None = None, seed: str = "") -> Snapshot:
        """Reads every observable (see :func:`runner.capture.take`)."""
        wanted = {name: spec for name, spec in observe.items() if name not in self.live}
        taken = {**self.live, **capture.take(self.guest, wanted, earlier=earlier, seed=seed, deadline=self.deadline)}
        return {name: taken[name] for name in observe}

    def contents_of_changed(self, contract: TaskContract, before: Snapshot, after: Snapshot) -> Snapshot:
        """Adds the contents of changed files (see :func:`runner.capture.contents_of_changed`)."""
        return capture.contents_of_changed(TimedGuest(self.guest, self.deadline), contract, before, after)


@contextmanager
def reading(
    machine: Machine,
    read: Read,
    observe: Mapping[str, Observable],
    *,
    at: Literal["before", "after"],
    deadline: Deadline,
) -> Iterator[Source]:
    """What a snapshot is read from, for as long as it takes.

    Args:
        machine: The machine.
        read: The way that the contract or the command line asks for.
        observe: The contract's observables.
        at: Before the agent begins, or when it can no longer act.
        deadline: When the snapshot must have been taken.

    Raises:
        SetupError: The machine's disk cannot be read.
        Unreadable: It cannot be proven that the disk holds the state.
        GuestLost: The machine is gone.
        MachineError: The machine is broken.
    """
    if read == "live":
        yield Source(machine.guest, {}, deadline)
        return
    if not isinstance(machine, DiskReadable):
        raise SetupError(
            f"the machines of this image cannot be read from their disk (`read: {read}`); use `read: live`"
        )
    # What only the living machine shows comes first: afterwards it may be off.
    shown = {name: spec for name, spec in observe.items() if not isinstance(spec, DbfTable | FileTree)}
    live = capture.take(machine.guest, shown, deadline=deadline)
    begun = time.monotonic()
    with machine.disk_before() if at == "before" else machine.disk_after(read) as disk:
        # Shutting down or copying a disk is no reading, and has deadlines of its own.
        deadline = deadline.later(time.monotonic() - begun)
        yield Source(disk.guest, live, deadline, disk, ended=at == "after" and read != "disk")
