"""What a machine and a maker of machines are; the errors by meaning; how providers are found."""

from __future__ import annotations

import fcntl
import inspect
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from contracts.schema import SetupStep, StartProgram
    from runner.changed_keys import KeyChanges
    from runner.display.rfb import DisplayAddress
    from runner.guests.base import Guest
    from runner.machines.images import Image
    from runner.offline.changes import DiskChange

Stop = Literal["disk", "shutdown", "power_off"]
"""What happens to a machine so that its disk can be read: frozen for a moment, shut down, or switched off."""


class MachineError(Exception):
    """A machine could not be made, or broke: a fault of the house, never of the agent (unscored: machine)."""


class SetupError(Exception):
    """The contract's set-up cannot be done on the image (unscored: contract)."""


@dataclass(frozen=True, slots=True)
class Tag:
    """Whose a machine is; everything a machine consists of carries it, and only tagged things are ever cleaned up."""

    campaign: str
    run: str

    def __post_init__(self) -> None:
        for value in (self.campaign, self.run):
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", value):
                raise ValueError(f"not fit for a tag: {value!r}")


@dataclass(frozen=True, slots=True)
class Freshness:
    """The proof that a machine is new: made once it can be used, kept in the run record.

    Attributes:
        base: SHA-256 of the sealed base the machine was made from, as checked when it was made.
        layers: SHA-256 of each layer above the base (the contract's set-up), bottom first.
        nonce: A random text planted in this clone and read back through the guest.
        boot: What tells this start from every other one.
        clock_offset: Guest clock minus host clock, in seconds.
        utc_offset: The guest's zone: local time minus UTC, in seconds.
        image: What the base is built from, as a hash that is the same on every host; ``base`` itself differs from build to
            build where installers write the time.
    """

    base: str
    layers: tuple[str, ...]
    nonce: str
    boot: str
    clock_offset: float
    utc_offset: int
    image: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain data for the run record."""
        return asdict(self) | {"layers": list(self.layers)}


@runtime_checkable
class Machine(Protocol):
    """One fresh, disposable Windows computer.

    It may also have ``notes``, texts about how it was made that belong into the run's record.
    """

    id: str
    tag: Tag
    timings: dict[str, float]

    @property
    def guest(self) -> Guest:
        """The way into it."""

    @property
    def display(self) -> DisplayAddress:
        """Its screen and input."""

    @property
    def freshness(self) -> Freshness:
        """The proof that it is fresh."""

    def start(self, programs: Sequence[StartProgram]) -> None:
        """Starts programs, where the checkpoint did not hold them running, and waits for their windows.

        Raises:
            SetupError: The image knows no such program.
            MachineError: A window did not appear in time.
        """

    def ensure_alive(self) -> None:
        """Makes sure that it still runs, its screen included.

        Raises:
            MachineError: It does not.
        """

    def discard(self) -> None:
        """Removes it with everything that belongs to it; safe to call twice.

        Raises:
            MachineError: Something could not be removed; it stays listed for ``machines reap``.
        """


@dataclass(frozen=True)
class DiskState:
    """A machine's state on its disk, to be read without its help.

    Attributes:
        guest: Reads it; what a disk cannot show, such as windows, it takes from the living machine where there is one.
        taken: How the state got to the disk, in words.
        changed: Gives every file of the whole disk that differs from the checkpoint: the blind-spot audit's answer; raises
            :class:`~runner.guests.base.Unreadable` where the disk cannot be understood.
        drives: The letters of the drives that can be read.
        left_out: Disks of the machine that cannot, because nobody says which drive they hold.
        registry: Gives every key of the registry that differs; raises :class:`~runner.guests.base.Unreadable` where it cannot be
            told. It is asked last, for it may end the machine. ``None``: nobody can tell.
        unseen: Names what lies outside of what can be compared, in words.
        compared_with: The state since which changes count, in words.
    """

    guest: Guest
    taken: str
    changed: Callable[[], tuple[DiskChange, ...]]
    drives: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    registry: Callable[[], KeyChanges] | None = None
    unseen: Callable[[], tuple[str, ...]] = tuple
    compared_with: str = "the checkpoint"


@runtime_checkable
class DiskAudited(Protocol):
    """A machine that tells what changed on its whole disk since a moment, although its state is not read from there."""

    def mark_disk(self) -> None:
        """Makes this moment the one since which changes count: the agent is about to begin.

        Raises:
            Unreadable: The disk cannot be looked at.
        """

    def disk_since_mark(self) -> AbstractContextManager[DiskState]:
        """What changed since; the machine is of no other use afterwards."""


@runtime_checkable
class DiskReadable(Protocol):
    """A machine whose disk can be read without the guest's help."""

    def disk_before(self) -> AbstractContextManager[DiskState]:
        """The state before the agent begins.

        Raises:
            Unreadable: It cannot be proven that the disk holds it.
            MachineError: The machine is broken.
        """

    def disk_after(self, how: Stop) -> AbstractContextManager[DiskState]:
        """The state now, as it lies on the disk.

        Args:
            how: Whether the machine is frozen for a moment and goes on (``disk``), or is ended for it.

        Raises:
            Unreadable: It cannot be proven that the disk holds it.
            MachineError: The machine is broken.
        """


@runtime_checkable
class Checkpoint(Protocol):
    """An image with one contract's set-up done; clones start from it."""

    digest: str

    def clone(self, tag: Tag) -> Machine:
        """Makes a fresh machine.

        Raises:
            MachineError: It could not be made, or its freshness not proven.
        """


@runtime_checkable
class MachineProvider(Protocol):
    """Makes machines of one kind."""

    def prepare(
        self, image: Image, setup: Sequence[SetupStep], start: Sequence[StartProgram], *, folder: Path
    ) -> Checkpoint:
        """Brings an image to the state in which a contract's runs begin; cached by content.

        Args:
            image: The image.
            setup: The contract's set-up steps.
            start: The programs that run when the agent begins. A provider whose checkpoint holds memory starts them now;
                :meth:`Machine.start` then only makes sure of them.
            folder: Where files named by the steps lie (the contract's folder).

        Raises:
            MachineError: The image cannot be built or is damaged.
            SetupError: A step failed.
        """

    def leftovers(self) -> Sequence[Leftover]:
        """What dead runners left behind, and what living ones use, by our tag."""

    def reap(self, leftover: Leftover) -> None:
        """Removes one leftover of a dead runner.

        Raises:
            MachineError: It could not be removed.
        """


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something of ours that is there: in use by a living runner, or left by a dead one.

    Attributes:
        name: The machine's id, or what else it is.
        campaign: Of its tag.
        run: Of its tag.
        runner_pid: The process that made it; 0 where that is not recorded.
        alive: Whether that process still holds its lock.
        folder: Where it lies.
    """

    name: str
    campaign: str
    run: str
    runner_pid: int
    alive: bool
    folder: Path


def lock(path: Path) -> IO[str] | None:
    """Takes a lock that lasts as long as its holder lives; ``None``: another process holds it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def is_locked(path: Path) -> bool:
    """Whether another process, a living one, holds the lock."""
    held = lock(path)
    if held is None:
        return True
    held.close()
    return False


class HomeError(ValueError):
    """``LEGACYPROOF_HOME`` names something that is no folder: a user's mistake."""


def home() -> Path:
    """Where images, checkpoints and machines are kept: ``$LEGACYPROOF_HOME`` or the user's cache folder.

    Raises:
        HomeError: The variable names something else than a folder; one that is not there yet will be made.
    """
    configured = os.environ.get("LEGACYPROOF_HOME")
    if configured:
        folder = Path(configured).absolute()
        if not folder.is_dir() and os.path.lexists(folder):
            raise HomeError(f"LEGACYPROOF_HOME is {configured!r}, which is no folder: name one, or leave it out")
        return folder
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "legacyproof"


OF_THE_HOUSE = ("wine", "libvirt")
"""The machine providers that need no plug-in."""


def provider(name: str, say: Callable[[str], None] | None = None) -> MachineProvider:
    """The machine provider of that name: one of the house, or a plug-in (entry point group ``legacyproof.machines``).

    Args:
        name: The provider's.
        say: Told by those of the house what a person waits for, such as an image that is built.

    Raises:
        MachineError: There is none, or the plug-in does not have the methods of a provider.
    """
    if name == "wine":
        from runner.machines.wine import WineProvider  # noqa: PLC0415 - loaded only when used

        return WineProvider(say)
    if name == "libvirt":
        from runner.machines.libvirt import LibvirtProvider  # noqa: PLC0415

        return LibvirtProvider(say)
    found = {point.name: point for point in entry_points(group="legacyproof.machines")}
    if name not in found:
        known = ", ".join(sorted({*OF_THE_HOUSE, *found}))
        raise MachineError(f"unknown machine provider {name!r}; known: {known}")
    try:
        made = found[name].load()()
    except Exception as error:
        raise MachineError(f"the plug-in {name!r} cannot be used: {type(error).__name__}: {error}") from error
    if not isinstance(made, MachineProvider):
        raise MachineError(f"the plug-in {name!r} is no machine provider: prepare, leftovers and reap are needed")
    try:
        inspect.signature(made.prepare).bind(None, [], [], folder=None)
        inspect.signature(made.leftovers).bind()
        inspect.signature(made.reap).bind(None)
    except (TypeError, ValueError) as error:
        raise MachineError(f"the plug-in {name!r} is no machine provider: {error}") from None
    return made
