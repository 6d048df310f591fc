"""When the state of a machine is final, and that a reading of it is of one moment (CONTRACT.md section 7).

What happens after an agent was cut off was caused before: an autosave, a background job, a row that is stored when a box has closed. So
the machine is looked at until nothing that the contract accounts for has changed for a while. A look is a snapshot without the
contents of file trees, and whether two looks differ is decided by the same comparison that judges runs: what a contract
ignores, and what is a note to it, disturbs no quiet.

A snapshot takes a while, and a machine does not stand still for it. It is of one moment if the looks before and after it are the same:
then what was read first still held when the last was read. Where they are not, because something that is no change to the
contract never rests, two whole snapshots in a row prove it in the same way.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from contracts.schema import Observable, Read
from runner import capture
from runner.guests.base import Guest, Unreadable
from runner.guests.timed import Deadline
from runner.machines.base import Machine
from runner.reading import Source, reading
from validators.changes import ContractFault
from validators.snapshot import Snapshot, UnreadableState, compare

PAUSE = 0.15
"""Seconds between two looks; more where looks take long, so that looking costs the machine no more than half of its time."""
ATTEMPTS = 3
"""How often a snapshot is tried at least, also when the time for becoming quiet is over."""


@dataclass(frozen=True, slots=True)
class Stillness:
    """How a machine came to rest.

    Attributes:
        quiet: Whether nothing changed for as long as was asked.
        last_change: Seconds from the beginning to the look that saw the last change; ``None``: no look saw any.
        waited: Seconds in all.
    """

    quiet: bool
    last_change: float | None
    waited: float


class Watcher:
    """Looks at what a contract observes on one machine."""

    def __init__(self, guest: Guest, observe: Mapping[str, Observable]) -> None:
        self._guest = guest
        self._observe = observe
        self._last: Snapshot | None = None

    def look(self, deadline: Deadline) -> bool:
        """Takes a look.

        Args:
            deadline: When it must have been taken.

        Returns:
            Whether everything could be read and is as it was at the look before.

        Raises:
            GuestLost: The machine is gone.
        """
        was = self._last
        now = capture.take(self._guest, self._observe, contents=False, deadline=deadline)
        self._last = now
        return was is not None and same(self._observe, was, now)


def same(observe: Mapping[str, Observable], one: Snapshot, other: Snapshot) -> bool:
    """Whether two readings in a row show no change that the contract accounts for.

    What is unreadable is the same as nothing, not even as itself: nobody knows what happens there.
    """
    if any(isinstance(snapshot[name], UnreadableState) for snapshot in (one, other) for name in observe):
        return False
    if all(one[name] == other[name] for name in observe):
        return True
    try:
        return not any(comparison.changes for comparison in compare(observe, one, other))
    except (Unreadable, ContractFault):
        # Such as a file of the same size that was written anew: what it holds a look does not know.
        return False


def wait_until_quiet(watcher: Watcher, *, quiet: float, within: float, pause: float = PAUSE) -> Stillness:
    """Waits until nothing has changed for a while.

    Args:
        watcher: Looks at the machine.
        quiet: Seconds without a change; 0: two looks in a row that are the same.
        within: Seconds; when they are over, the state is what it is.
        pause: Seconds between two looks, at least.

    Raises:
        GuestLost: The machine is gone.
    """
    begun = time.monotonic()
    deadline = Deadline(begun + within, f"the {within:g} s for becoming quiet are over")
    last_change: float | None = None
    since = begun
    looks = 0
    while True:
        asked = time.monotonic()
        still = watcher.look(deadline)
        answered = time.monotonic()
        looks += 1
        if not still:
            if looks > 1:
                last_change = answered - begun
            since = answered
        elif asked - since >= quiet:
            return Stillness(True, last_change, answered - begun)
        if answered >= deadline.at:
            return Stillness(False, last_change, answered - begun)
        due = answered + max(pause, answered - asked)
        if still:
            due = min(due, max(since + quiet, answered))  # the moment at which it is known
        time.sleep(max(0.0, min(due, deadline.at) - time.monotonic()))


@dataclass(frozen=True)
class Taken:
    """A snapshot that was taken, while what it was read from is still open.

    Attributes:
        source: What it was read from.
        snapshot: It.
    """

    source: Source
    snapshot: Snapshot


@contextmanager
def at_one_moment(
    machine: Machine,
    read: Read,
    observe: Mapping[str, Observable],
    watcher: Watcher,
    *,
    at: Literal["before", "after"],
    earlier: Snapshot | None,
    until: float,
    within: float,
    seed: str = "",
) -> Iterator[Taken]:
    """A snapshot that is proven to be of one moment.

    Args:
        machine: The machine.
        read: How files and tables are read.
        observe: The contract's observables.
        watcher: Has just looked at the machine.
        at: Before the agent begins, or when it can no longer act.
        earlier: An earlier snapshot of the machine or its checkpoint.
        until: Until when it is tried again, by :func:`time.monotonic`.
        within: Seconds for all attempts together.
        seed: What samples of large trees are picked by.

    Raises:
        Unreadable: The state was never the same before and after a reading, or it cannot be proven that the disk holds it.
        SetupError, GuestLost, MachineError: See :func:`runner.reading.reading`.
    """
    deadline = Deadline.after(within, f"the {within:g} s for reading a snapshot are over (`limits.snapshot`)")
    last: Snapshot | None = None
    attempt = 0
    while True:
        attempt += 1
        with reading(machine, read, observe, at=at, deadline=deadline) as source:
            deadline = source.deadline
            snapshot = source.take(observe, earlier=last or earlier, seed=f"{seed} {attempt}")
            # A machine that was ended for the reading cannot change any more.
            proven = source.ended or watcher.look(deadline) or (last is not None and same(observe, last, snapshot))
            given_up = deadline.over or (attempt >= ATTEMPTS and time.monotonic() >= until)
            if proven or (given_up and _is_unreadable(snapshot)):
                yield Taken(source, snapshot)
                return
        if given_up:
            raise Unreadable(_never_still(observe, last, snapshot, attempt))
        last = snapshot


def _is_unreadable(snapshot: Snapshot) -> bool:
    """Whether there is something that no reading could show; what it was is told in the state itself."""
    return any(isinstance(state, UnreadableState) for state in snapshot.values())


def _never_still(observe: Mapping[str, Observable], last: Snapshot | None, snapshot: Snapshot, attempts: int) -> str:
    moved = [name for name, spec in observe.items() if last and not same({name: spec}, last, snapshot)]
    what = ", ".join(moved) or "what is observed"
    return f"{what}: changed while it was read, in each of {attempts} attempts, so no reading is of one moment"
