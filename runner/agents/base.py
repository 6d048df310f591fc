"""What an agent is to the runner: it gets a task and a display, and reports.

It is never trusted, and never waited for longer than its deadline.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from runner.display.handshake import DisplayAddress
from runner.guests.probe import WindowEntry
from runner.record import Intended

Status = Literal["success", "failed", "ui_not_as_expected", "timeout", "error"]
STATUSES = ("success", "failed", "ui_not_as_expected", "timeout", "error")
MAX_MESSAGE = 20_000
"""Characters of an agent's message that are kept."""
MAX_TIMELINE = 2_000
MAX_RETURNED = 1 << 20
"""Bytes of JSON that an agent may return."""


class AgentInfrastructureError(Exception):
    """What the agent needs is out: provider, quota, server (unscored: agent_infrastructure; rerun up to a limit)."""


class AgentSpecError(Exception):
    """The agent asked for does not exist or is not fit for the task: the user's mistake."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of an agent's own account.

    Attributes:
        t: Seconds since the agent began.
        text: What it did or noticed.
        screenshot: PNG, if it kept one.
    """

    t: float
    text: str
    screenshot: bytes | None = None


@dataclass(frozen=True)
class AgentTask:
    """What an agent is given.

    Attributes:
        contract: The contract's id.
        instruction: The bare instruction, parameters put in.
        prompt: The rendered prompt of the chosen condition.
        parameters: The contract's parameters, secrets included: the agent has to type them.
        response_schema: JSON Schema of what it must return, or ``None``.
        display: Where the machine's screen and input are: the flight recorder.
        timeout: Seconds that it may work.
        deadline: The same as a moment of ``time.monotonic()``.
        folder: A private folder for its files.
        windows: Lists the visible windows and their controls through the guest. For the scripted agent, which needs to
            know where a control is; an agent under test must look at the screen.
        cancelled: Set when the person at the terminal wants to stop.
    """

    contract: str
    instruction: str
    prompt: str
    parameters: Mapping[str, Any]
    response_schema: Mapping[str, Any] | None
    display: DisplayAddress
    timeout: float
    deadline: float
    folder: Path
    windows: Callable[[], tuple[WindowEntry, ...]]
    cancelled: threading.Event


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What an agent says of its work.

    Attributes:
        status: ``success``, or one of the ways not to succeed.
        returned: The values it returns; JSON.
        message: Its own words.
        usage: Counts it keeps: tokens, turns, cost.
        timeline: Its account of what it did.
    """

    status: Status
    returned: Any = None
    message: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    timeline: tuple[Happening, ...] = ()


@runtime_checkable
class Agent(Protocol):
    """Something that operates a program through a display."""

    name: str
    """What tables show."""

    def run(self, task: AgentTask) -> AgentReport:
        """Does the task.

        Raises:
            AgentInfrastructureError: What it needs is out; anything else that it raises counts as its status ``error``.
        """


@dataclass(frozen=True, slots=True)
class Supervised:
    """How an agent's run ended.

    Attributes:
        report: Its report, or the status that stands for the lack of one.
        seconds: How long it worked.
        infrastructure: Why it must not be counted, if what it needs was out.
        still_running: It did not stop at its deadline; it has been cut off from the display.
    """

    report: AgentReport
    seconds: float
    infrastructure: str | None = None
    still_running: bool = False


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
        timeline = outcome[0].timeline if outcome and isinstance(outcome[0], AgentReport) else ()
        report = AgentReport("timeout", message=why, timeline=_checked_timeline(timeline))
        return Supervised(report, seconds, still_running=thread.is_alive())
    result = outcome[0]
    if isinstance(result, AgentInfrastructureError):
        return Supervised(AgentReport("error", message=str(result)), seconds, infrastructure=str(result))
    if isinstance(result, BaseException):
        said = f"the agent crashed: {type(result).__name__}: {result}"
        return Supervised(AgentReport("error", message=said[:MAX_MESSAGE]), seconds)
    return Supervised(checked(result), seconds)


def checked(report: object) -> AgentReport:
    """The report with everything that is not what it should be cut, dropped, or turned into the status ``error``."""
    if not isinstance(report, AgentReport) or report.status not in STATUSES:
        return AgentReport("error", message=f"the agent's report is none: {str(report)[:500]}")
    try:
        returned, size = _plain(report.returned)
    except (TypeError, ValueError, RecursionError) as error:
        return AgentReport("error", message=f"the agent returned what is no JSON: {str(error)[:500]}")
    if size > MAX_RETURNED:
        return AgentReport("error", message=f"the agent returned {size} bytes, more than {MAX_RETURNED}")
    usage = {
        str(name)[:100]: float(value)
        for name, value in list(dict(report.usage).items())[:100]
        if isinstance(value, int | float)
    }
    return AgentReport(
        report.status, returned, str(report.message)[:MAX_MESSAGE], usage, _checked_timeline(report.timeline)
    )


def _plain(value: Any) -> tuple[Any, int]:
    text = json.dumps(value, allow_nan=False)
    return json.loads(text), len(text)


def _checked_timeline(timeline: object) -> tuple[Happening, ...]:
    if not isinstance(timeline, tuple | list):
        return ()
    return tuple(entry for entry in timeline[:MAX_TIMELINE] if isinstance(entry, Happening))


AgentFactory = Callable[[str], "list[PlannedAgent]"]


@dataclass(frozen=True)
class PlannedAgent:
    """An agent that a specification names, and what is known of it before it runs.

    Attributes:
        spec: The specification that names exactly this one.
        agent: The agent.
        contract: The only contract that it is for; ``None``: any.
        intended: What its runs must be classified as, where its author says so.
    """

    spec: str
    agent: Agent
    contract: str | None = None
    intended: Intended | None = None


def plan(spec: str) -> list[PlannedAgent]:
    """The agents that ``name`` or ``name:argument`` stands for; more than one where the argument is a folder of scripts.

    Raises:
        AgentSpecError: There is no such agent, or the argument is not fit.
    """
    name, _, argument = spec.partition(":")
    factory = _factory(name)
    return factory(argument)


def _factory(name: str) -> AgentFactory:
    if name == "scripted":
        from runner.agents.scripted import plan_scripts  # noqa: PLC0415 - loaded only when used

        return plan_scripts
    if name == "noop":
        from runner.agents.noop import plan_noop  # noqa: PLC0415

        return plan_noop
    found = {point.name: point for point in entry_points(group="legacyproof.agents")}
    if name not in found:
        known = ", ".join(sorted({"scripted", "noop", *found}))
        raise AgentSpecError(f"unknown agent {name!r}; known: {known}")
    factory = found[name].load()

    def made(argument: str) -> list[PlannedAgent]:
        agent = factory(argument)
        if not isinstance(agent, Agent):
            raise AgentSpecError(f"plug-in {name!r} is no agent: it needs a `name` and a method `run(task)`")
        return [PlannedAgent(f"{name}:{argument}" if argument else name, agent)]

    return made
