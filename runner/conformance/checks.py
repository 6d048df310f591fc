"""What a check is, and what it can come to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from runner.conformance.scene import Scene

E = TypeVar("E", bound=BaseException)
Outcome = Literal["passed", "failed", "not applicable"]


class Failed(Exception):
    """What a check proves does not hold; the message says what was seen."""


class NotApplicable(Exception):
    """What a check is about does not exist there; the message says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One named check.

    Attributes:
        name: Its name: the part that is looked at, then the property.
        proves: What holds when it passes.
        means: What it would do to verdicts if this did not hold.
        remedy: What to do when it fails.
        run: Does it; raises :class:`Failed` or :class:`NotApplicable`, any other exception counts as a failure as well.
        slow: Left out of a quick pass.
        seconds: When it is given up; a bound for what hangs, not a measure of speed.
    """

    name: str
    proves: str
    means: str
    remedy: str
    run: Callable[[Scene], None]
    slow: bool = False
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Result:
    """What a check came to.

    Attributes:
        check: The check.
        outcome: How it ended.
        seconds: How long it took, machines that it made included.
        detail: What was seen, or why it does not apply; empty when it passed.
    """

    check: Check
    outcome: Outcome
    seconds: float
    detail: str = ""


class Collection:
    """Checks in the order in which they are run."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    def check(
        self, name: str, *, proves: str, means: str, remedy: str, slow: bool = False, seconds: float = 120.0
    ) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
        """Takes a function into the collection as the check of that name."""

        def take(function: Callable[[Scene], None]) -> Callable[[Scene], None]:
            self.checks.append(Check(name, proves, means, remedy, function, slow, seconds))
            return function

        return take


def expect(holds: object, otherwise: str) -> None:
    """Fails the check unless something holds.

    Raises:
        Failed: It does not.
    """
    if not holds:
        raise Failed(otherwise)


def expect_raised(kind: type[E] | tuple[type[E], ...], act: Callable[[], object], what: str) -> E:
    """Fails the check unless an action raises one of the exceptions; returns what was raised.

    Raises:
        Failed: It raised another one, or none.
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    wanted = " or ".join(item.__name__ for item in kinds)
    try:
        got = act()
    except kinds as error:
        return error
    except Exception as error:
        raise Failed(f"{what}: {type(error).__name__} instead of {wanted}: {error}") from error
    raise Failed(f"{what}: no {wanted}, but {_shown(got)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
