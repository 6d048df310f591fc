"""Running an agent so that whatever it does ends in a report: crash, hang, nonsense, or acting beyond its time."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runner.agents.base import STATUSES, Agent, AgentInfrastructureError, AgentReport, AgentTask, Happening
from runner.spellings import blot

MAX_MESSAGE = 20_000
"""Characters of an agent's message that are kept."""
MAX_TIMELINE = 2_000
"""Lines of an agent's account that are kept."""
MAX_LINE = 2_000
_LOOKED_AT = 1 << 20
"""Characters of a text that are searched for secrets before it is cut; far more than are kept."""
MAX_SCREENSHOTS = 64 << 20
"""Bytes of an agent's own screenshots that are kept, together."""
MAX_RETURNED = 1 << 20
"""Bytes of JSON that an agent may return."""
MAX_DEPTH = 64
"""How deep returned values may be nested."""


@dataclass(frozen=True, slots=True)
class Supervised:
    """How an agent's run ended.

    Attributes:
        report: Its report, or the status that stands for the lack of one.
        seconds: How long it worked.
        infrastructure: Why it must not be counted, if what it needs was out.
        still_running: It did not stop at its deadline; it has been cut off from the display.
        lasting: What it needs stays out until somebody acts: to make the run again is in vain.
    """

    report: AgentReport
    seconds: float
    infrastructure: str | None = None
    still_running: bool = False
    lasting: bool = False


def supervise(agent: Agent, task: AgentTask, *, cut: Callable[[], None]) -> Supervised:
    """Runs an agent to its end or deadline and cuts it off from the display, whatever it does.

    Args:
        agent: The agent.
        task: Its task.
        cut: Ends its access to the display; after that no input reaches the machine.
    """
    outcome: list[AgentReport | BaseException] = []

    def work() -> None:
        try:
            outcome.append(agent.run(task))
        except BaseException as error:  # whatever an agent does must not take the runner down
            outcome.append(error)

    begun = time.monotonic()
    thread = threading.Thread(target=work, name=f"agent-{task.contract}", daemon=True)
    thread.start()
    while thread.is_alive() and time.monotonic() < task.deadline and not task.cancelled.is_set():
        thread.join(min(0.2, max(0.01, task.deadline - time.monotonic())))
    cut()
    seconds = time.monotonic() - begun
    if not outcome:
        why = "cancelled" if task.cancelled.is_set() else f"the agent was still working after {task.timeout:g} s"
        thread.join(2.0)  # without a display most agents end now; one that does not is left to itself, harmless
        if outcome and isinstance(late := outcome[0], AgentInfrastructureError):
            return _out(late, seconds, task.secrets)
        timeline = outcome[0].timeline if outcome and isinstance(outcome[0], AgentReport) else ()
        report = AgentReport("timeout", message=why, timeline=_checked_timeline(timeline, task.secrets))
        return Supervised(report, seconds, still_running=thread.is_alive())
    result, hidden = outcome[0], task.secrets
    if isinstance(result, AgentInfrastructureError):
        return _out(result, seconds, hidden)
    if isinstance(result, BaseException):
        return Supervised(_error(f"the agent crashed: {type(result).__name__}: {_words(result, hidden)}"), seconds)
    return Supervised(checked(result, hidden), seconds)


def checked(report: object, hidden: tuple[str, ...] = ()) -> AgentReport:
    """The report with everything that is not what it should be cut, dropped, or turned into the status ``error``.

    Secrets are blotted out of its words before these are cut, since the beginning of one would not be recognised afterwards. The
    returned values keep theirs: they are judged first.
    """
    try:
        if not isinstance(report, AgentReport) or report.status not in STATUSES:
            return _error(f"the agent's report is none: {_words(report, hidden)[:500]}")
        try:
            text = json.dumps(report.returned, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            return _error(f"the agent returned what is no JSON: {_words(error, hidden)[:500]}")
        returned = json.loads(text)
        # Plug-ins are not checked by anybody: whoever gives one text means that one, not its letters.
        told = [report.hidden] if isinstance(report.hidden, str) else report.hidden
        own = tuple(text for text in map(str, told) if text)
        hidden = (*hidden, *own)
        if len(text) > MAX_RETURNED:
            return _error(f"the agent returned {len(text)} bytes, more than {MAX_RETURNED}")
        if _deeper_than(returned, MAX_DEPTH):
            return _error(f"the agent returned values nested more than {MAX_DEPTH} deep")
        usage, timeline = _checked_usage(report.usage, hidden), _checked_timeline(report.timeline, hidden)
        return AgentReport(report.status, returned, _words(report.message, hidden), usage, timeline, own)
    except Exception as error:  # a report can be any object, and fail at any touch
        return _error(f"the agent's report cannot be read: {type(error).__name__}: {_words(error, hidden)[:500]}")


def _out(error: AgentInfrastructureError, seconds: float, hidden: tuple[str, ...]) -> Supervised:
    words = _words(error, hidden)
    # A plug-in's own subclass need not have called the initialiser.
    return Supervised(_error(words), seconds, infrastructure=words, lasting=getattr(error, "lasting", False) is True)


def _error(message: str) -> AgentReport:
    return AgentReport("error", message=message[:MAX_MESSAGE])


def _words(thing: object, hidden: tuple[str, ...]) -> str:
    """A text of anything, without secrets, bounded; also of what cannot be shown."""
    try:
        return blot(str(thing)[:_LOOKED_AT], hidden)[:MAX_MESSAGE]
    except Exception:
        return f"({type(thing).__name__} that cannot be shown)"


def _deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            item
            for entry in level
            if isinstance(entry, dict | list)
            for item in (entry.values() if isinstance(entry, dict) else entry)
        ]
        if not level:
            return False
    return True


def _checked_usage(usage: object, hidden: tuple[str, ...]) -> dict[str, float]:
    if not isinstance(usage, Mapping):
        return {}
    kept = {}
    for name, value in list(usage.items())[:100]:
        try:
            number = float(value) if isinstance(value, int | float) else math.nan
        except OverflowError:
            continue
        if math.isfinite(number):
            kept[_words(name, hidden)[:100]] = number
    return kept


def _checked_timeline(timeline: object, hidden: tuple[str, ...]) -> tuple[Happening, ...]:
    if not isinstance(timeline, tuple | list):
        return ()
    kept = []
    room = MAX_SCREENSHOTS
    for entry in timeline[:MAX_TIMELINE]:
        if not isinstance(entry, Happening):
            continue
        t = entry.t if isinstance(entry.t, int | float) and math.isfinite(entry.t) else 0.0
        picture = entry.screenshot if isinstance(entry.screenshot, bytes) and len(entry.screenshot) <= room else None
        room -= len(picture or b"")
        kept.append(Happening(float(t), _words(entry.text, hidden)[:MAX_LINE], picture))
    return tuple(kept)
