"""What an agent is to the runner: it gets a task and a display, and reports.

It is never trusted, and never waited for longer than its deadline.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from runner.display.events import InputEvent
from runner.display.handshake import DisplayAddress
from runner.findings import Finding
from runner.guests.probe import WindowEntry
from runner.record import Intended

Status = Literal["success", "failed", "ui_not_as_expected", "timeout", "error"]
STATUSES = ("success", "failed", "ui_not_as_expected", "timeout", "error")


OF_THE_HOUSE: Mapping[str, tuple[str, str]] = {
    "scripted": ("runner.agents.scripted", "plan_scripts"),
    "noop": ("runner.agents.noop", "plan_noop"),
    "command": ("runner.agents.command", "plan_command"),
    "human": ("runner.agents.human", "plan_human"),
    "legacy-use": ("runner.agents.legacy_use", "plan_legacy_use"),
    "computer-use": ("runner.agents.computer_use", "plan_computer_use"),
}
"""The agents that need no plug-in: the module of each, loaded only when it is used, and the function in it that plans."""


class AgentInfrastructureError(Exception):
    """What the agent needs is out: provider, quota, server (unscored: agent_infrastructure; rerun up to a limit).

    Attributes:
        lasting: It stays out until somebody acts, as without a key or credit: to try again is in vain.
    """

    def __init__(self, message: str = "", *, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


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
        prompt_template: The prompt with its ``{{parameters}}`` not filled in, for agents that fill them in themselves.
        response_example: An example of what must be returned, made from the schema; ``None`` if nothing must.
        secrets: Texts that must not be shown or stored: the values of secret parameters.
        events: What was put in so far, by the flight recorder; for the human agent, which tells how much work it was.
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
    prompt_template: str = ""
    response_example: Any = None
    secrets: tuple[str, ...] = ()
    events: Callable[[], Sequence[InputEvent]] = tuple


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What an agent says of its work.

    Attributes:
        status: ``success``, or one of the ways not to succeed.
        returned: The values it returns; JSON.
        message: Its own words.
        usage: Counts it keeps: tokens, turns, cost.
        timeline: Its account of what it did.
        hidden: Secrets of its own, such as a provider's key, which are blotted out of what is kept of its words, once the run was judged.
    """

    status: Status
    returned: Any = None
    message: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    timeline: tuple[Happening, ...] = ()
    hidden: tuple[str, ...] = ()


@runtime_checkable
class Agent(Protocol):
    """Something that operates a program through a display.

    An agent may also have: ``prompt_style``, the layout of its prompt (:data:`prompts.render.Style`; plain unless given);
    ``listen_host`` and ``listen_port``, where the flight recorder listens for it (this computer alone, any free port, unless given);
    ``interactive``, true if it needs the terminal for itself.
    """

    name: str
    """What tables show."""

    def run(self, task: AgentTask) -> AgentReport:
        """Does the task.

        Raises:
            AgentInfrastructureError: What it needs is out; anything else that it raises counts as its status ``error``.
        """


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


def doctor_of(spec: str) -> list[Finding]:
    """What an agent says about what it needs; a plug-in does so by an attribute ``doctor(argument) -> list[Finding]``."""
    name, _, argument = spec.partition(":")
    try:
        ask = _doctor(name)
        found = ask(argument) if callable(ask) else [_planned(spec)]
    except AgentSpecError as error:
        return [Finding("agent", False, str(error), "correct what stands behind --agent, or install the plug-in")]
    if not (isinstance(found, list) and found and all(isinstance(item, Finding) for item in found)):
        remedy = "its `doctor` must give a list of findings"
        return [Finding("agent", None, f"the agent {name} gives no findings", remedy)]
    return found


def _doctor(name: str) -> object:
    """An agent's own doctor, ``None`` where it has none."""
    if name in OF_THE_HOUSE:
        return getattr(import_module(OF_THE_HOUSE[name][0]), "doctor", None)
    _factory(name)  # says which agents there are, if there is none of that name
    points = {point.name: point for point in entry_points(group="legacyproof.agents")}
    return getattr(points[name].load(), "doctor", None)


def _planned(spec: str) -> Finding:
    names = ", ".join(item.agent.name for item in plan(spec))
    return Finding("agent", True, f"{names}; it says nothing about what it needs")


def _factory(name: str) -> AgentFactory:
    if name in OF_THE_HOUSE:
        module, planning = OF_THE_HOUSE[name]
        factory: AgentFactory = getattr(import_module(module), planning)
        return factory
    found = {point.name: point for point in entry_points(group="legacyproof.agents")}
    if name not in found:
        known = ", ".join(sorted({*OF_THE_HOUSE, *found}))
        raise AgentSpecError(f"unknown agent {name!r}; known: {known}")

    def made(argument: str) -> list[PlannedAgent]:
        try:
            agent = found[name].load()(argument)
        except AgentSpecError:
            raise
        except Exception as error:
            raise AgentSpecError(f"the plug-in {name!r} cannot be used: {type(error).__name__}: {error}") from error
        if not (isinstance(agent, Agent) and isinstance(agent.name, str) and takes(agent.run, 1)):
            raise AgentSpecError(f"the plug-in {name!r} is no agent: it needs a text `name` and a method `run(task)`")
        return [PlannedAgent(f"{name}:{argument}" if argument else name, agent)]

    return made


def takes(function: object, count: int) -> bool:
    """Whether something can be called with so many arguments by position."""
    if not callable(function):
        return False
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError):
        return False
    return True
