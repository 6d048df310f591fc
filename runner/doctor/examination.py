"""The whole examination, one finding after the other; nothing that goes wrong in one ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from runner.agents.base import doctor_of
from runner.doctor import host, image, machine
from runner.findings import Finding
from runner.machines.base import Machine, MachineError, MachineProvider, provider
from runner.worker import Hangs, Worker

_QUICK = 60.0
_TYPING = 180.0
_MAKING = 3600.0
"""Seconds until a machine must be there, for which an image may have to be built, and until large disks are hashed."""
_GIVEN_UP = "it was not looked at any further: what hangs may still have the machine in its hands"


def examine(
    image_name: str,
    agent: str | None = None,
    *,
    folder: Path,
    providers: Callable[[str], MachineProvider] = provider,
    begun: Callable[[str], None] = lambda _: None,
) -> Iterator[Finding]:
    """Looks at everything that a run on an image needs.

    Args:
        image_name: The image.
        agent: Specification of the agent to look at as well.
        folder: Where files of set-up steps would lie.
        providers: How a provider is had by its name.
        begun: Told what is being looked at now.
    """
    care = _Care(begun)
    try:
        yield from _surroundings(image_name, folder, providers, care)
        if agent is not None:
            yield from care.many("agent", lambda: doctor_of(agent), _TYPING)
    finally:
        care.leave()


def _surroundings(
    image_name: str, folder: Path, providers: Callable[[str], MachineProvider], care: _Care
) -> Iterator[Finding]:
    found, finding = image.image_of(image_name)
    for name, look in host.looks(found.manifest.provider if found else ""):
        yield care.one(name, look, _QUICK)
    yield finding
    if found is None:
        return
    made, finding = image.provider_of(found, providers)
    yield finding
    if made is None:
        return
    chosen, maker = found, made
    yield from care.many("provider: preflight", lambda: image.preflight(chosen, maker), _TYPING)
    built = care.one("image: built", lambda: image.built(chosen), _MAKING)
    yield built
    if built.ok is False:
        yield Finding(
            "machine", None, "none was made, since the image is not in order", "see to the image, and ask again"
        )
        return
    there: list[Machine] = []

    def make() -> Finding:
        one, said = machine.make(chosen, maker, folder)
        there.extend([one] if one is not None else [])
        return said

    try:
        yield care.one("machine", make, _MAKING)
        for one in there:
            for name, look in machine.looks(one, chosen):
                yield care.one(name, look, _TYPING)
                if care.hung:
                    yield Finding("machine: other looks", None, _GIVEN_UP, "see to what stands above, and ask again")
                    break
    finally:
        for one in there:
            gone = care.one("machine: discarded", lambda one=one: _discard(one), _TYPING)  # type: ignore[misc]
    if there:
        yield gone


def _discard(one: Machine) -> Finding:
    try:
        one.discard()
    except MachineError as error:
        return Finding("machine: discarded", False, str(error), "`legacyproof machines reap` tries again")
    return Finding("machine: discarded", True, "nothing is left of it")


class _Care:
    """Turns whatever happens into findings.

    Attributes:
        hung: Whether the last look did not end in time.
    """

    def __init__(self, begun: Callable[[str], None]) -> None:
        self.hung = False
        self._begun = begun
        self._worker = Worker()
        self._spent: list[Worker] = []

    def one(self, name: str, look: Callable[[], Finding], seconds: float) -> Finding:
        return self.many(name, lambda: [look()], seconds)[0]

    def many(self, name: str, look: Callable[[], list[Finding]], seconds: float) -> list[Finding]:
        found: list[Finding] = []
        self._begun(name)
        error = self._worker.ended(lambda: found.extend(look()), seconds)
        self.hung = isinstance(error, Hangs)
        if error is None:
            return found
        if self.hung:
            # Not left yet: the machine that it started may end with it, and is to be discarded first.
            self._spent.append(self._worker)
            self._worker = Worker()
            why = str(error)
        else:
            why = f"{type(error).__name__}: {error}"
        return [Finding(name, None, f"could not be told: {why}", "see to what stands above, and ask again")]

    def leave(self) -> None:
        for worker in (*self._spent, self._worker):
            worker.leave()
