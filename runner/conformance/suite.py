"""Runs checks one after the other, each with a deadline, none able to take the others down."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from runner.conformance.checks import Check, Failed, NotApplicable, Outcome, Result
from runner.conformance.display_checks import DISPLAY
from runner.conformance.guest_desktop import GUEST_DESKTOP
from runner.conformance.guest_files import GUEST_FILES
from runner.conformance.guest_programs import GUEST_PROGRAMS
from runner.conformance.machine_checks import MACHINE
from runner.conformance.scene import Scene
from runner.worker import Hangs, Worker

What = Literal["machine", "guest"]
CHECKS: dict[What, tuple[Check, ...]] = {
    "machine": (*MACHINE.checks, *DISPLAY.checks),
    "guest": (*GUEST_FILES.checks, *GUEST_PROGRAMS.checks, *GUEST_DESKTOP.checks),
}
"""Every check, in the order in which they are run."""
PREPARING = 3600.0
"""Seconds until the first machine must be there; an image may have to be built for it."""
_CLEANING = 120.0


def chosen(what: What, pattern: str = "*", *, quick: bool = False) -> list[Check]:
    """The checks whose names fit a pattern such as ``read-*``; without the slow ones if it is to be quick."""
    return [check for check in CHECKS[what] if fnmatch.fnmatchcase(check.name, pattern) and not (quick and check.slow)]


def run(
    checks: Sequence[Check],
    scene: Callable[[], Scene],
    *,
    begun: Callable[[str], None] = lambda _: None,
    warned: Callable[[str], None] = lambda _: None,
) -> Iterator[Result]:
    """Runs checks and yields each result as soon as it is there. Every machine made for them is discarded at the end.

    A check that does not end by itself is given up; the machines that it had in its hands are then replaced.

    Args:
        checks: What to run.
        scene: Makes a scene; called again after a check had to be given up.
        begun: Told what is being done now.
        warned: Told what could not be cleaned up.
    """
    worker, place = Worker(), scene()
    try:
        begun("preparing a machine")
        worker.ended(lambda: place.first, PREPARING)  # whatever is wrong, each check tells it again
        for check in checks:
            begun(check.name)
            began = time.monotonic()
            error = worker.ended(lambda check=check, place=place: check.run(place), check.seconds)  # type: ignore[misc]
            yield _result(check, error, time.monotonic() - began)
            if isinstance(error, Hangs):
                spent, worker = worker, Worker()
                _close(place, worker, warned)
                spent.leave()
                place = scene()
    finally:
        begun("discarding the machines")
        _close(place, worker, warned)
        worker.leave()


def _result(check: Check, error: BaseException | None, seconds: float) -> Result:
    outcome: Outcome = "failed"
    detail = str(error)
    if error is None:
        outcome, detail = "passed", ""
    elif isinstance(error, NotApplicable):
        outcome = "not applicable"
    elif not isinstance(error, Failed | Hangs):
        detail = f"{type(error).__name__}: {error}"
    return Result(check, outcome, seconds, detail)


def _close(place: Scene, worker: Worker, warned: Callable[[str], None]) -> None:
    problems: list[str] = []
    if worker.ended(lambda: problems.extend(place.close()), _CLEANING) is not None:
        problems.append("machines could not be discarded in time; `legacyproof machines list` shows what is left")
    for problem in problems:
        warned(problem)
