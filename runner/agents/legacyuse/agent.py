"""The agent itself: from a task to a report, by way of one job on a legacy-use server."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from prompts.render import Style
from runner.agents.base import AgentInfrastructureError, AgentReport, AgentSpecError, AgentTask, Happening
from runner.agents.legacyuse import account
from runner.agents.legacyuse.client import MAX_ACCOUNT, Refusal, Server, ServerOut, objects
from runner.agents.legacyuse.configuration import HEIGHT, WIDTH, Configuration
from runner.agents.legacyuse.definition import Definition, Definitions, definition_of, is_version_of
from runner.agents.legacyuse.ending import Ending, Evidence, JobState, ending_of
from runner.agents.legacyuse.redaction import Redactor
from runner.agents.legacyuse.workplace import Workplace
from runner.display.errors import DisplayError
from runner.display.rfb import RfbClient

MAX_MESSAGE = 10_000
_FOR_TIDYING, _TO_SPARE = 1 / 4, 1 / 8
"""Shares of the reserve that are still left when tidying up begins and ends, also if the server is silent: a report that comes after
the runner's deadline counts no more."""


def check_listening(configuration: Configuration) -> None:
    """Finds out before any machine is made whether the flight recorder can listen where it has to.

    Raises:
        AgentSpecError: It cannot.
    """
    display = configuration.settings.display
    try:
        socket.create_server((display.listen, display.port)).close()
    except OSError as error:
        where = f"{display.listen}{f':{display.port}' if display.port else ''}"
        raise AgentSpecError(
            f"legacy-use: the flight recorder cannot listen on {where}: {error.strerror or error}; `display.listen` must be an "
            "address of this host, e.g. that of the Docker bridge (`ip addr show docker0`)"
        ) from None


class LegacyUseAgent:
    """Lets a legacy-use server do the task (see :class:`runner.agents.base.Agent`); fit for several runs at a time.

    Attributes:
        name: What tables show.
        prompt_style: How its prompts are laid out.
        listen_host: Where the flight recorder has to listen so that the session's container can reach it.
        listen_port: Likewise; 0: any free port.
    """

    prompt_style: Style = "legacy-use"

    def __init__(self, configuration: Configuration) -> None:
        """Makes an agent; asks nothing of the server yet."""
        self.name = f"legacy-use {configuration.label}".strip()
        self.listen_host = configuration.settings.display.listen
        self.listen_port = configuration.settings.display.port
        self._configuration = configuration
        self._definitions = Definitions()
        self._lock = threading.Lock()
        self._provider: Provider | None = None
        self._in_vain: str | None = None

    def run(self, task: AgentTask) -> AgentReport:
        """See :meth:`runner.agents.base.Agent.run`."""
        if self._in_vain is not None:
            raise AgentInfrastructureError(f"no further job is begun: {self._in_vain}", lasting=True)
        with Server(self._configuration) as server:
            run = _Run(self._configuration, server, task)
            try:
                ending = run.carry_out(self._provider_of(server), self._definitions)
            except (ServerOut, Refusal, AgentInfrastructureError) as error:
                ending = Ending(None, str(error), lasting=isinstance(error, Refusal) and error.lasting)
            finally:
                run.close()
        if ending.lasting:
            self._in_vain = run.cleaned(ending.message)
        if ending.status is None:
            raise AgentInfrastructureError(run.message(ending), lasting=ending.lasting)
        return run.report(ending)

    def _provider_of(self, server: Server) -> Provider:
        with self._lock:
            if self._provider is None:
                self._provider = chosen_provider(server, self._configuration)
            return self._provider


@dataclass(frozen=True, slots=True)
class Provider:
    """A model provider, as the server shows it.

    Attributes:
        name: The server's name for it.
        model: The model that it is asked for.
        available: Whether the server has what it needs to use it; ``None``: it does not say.
    """

    name: str
    model: str
    available: bool | None


def chosen_provider(server: Server, configuration: Configuration) -> Provider:
    """Has the server use the configured provider, and says which one it uses, with its model.

    Raises:
        AgentInfrastructureError: It uses another one.
        Refusal: The server does not accept it.
        ServerOut: No usable answer.
    """
    wanted = configuration.settings.provider
    if wanted is not None and configuration.credentials:
        body = {"provider": wanted.name, "credentials": dict(configuration.credentials)}
        server.post("settings/providers", body)
    active = active_provider(server)
    if wanted is not None and active.name != wanted.name:
        raise AgentInfrastructureError(
            f"the server's active provider is {active.name}, not {wanted.name} as configured"
        )
    return active


def active_provider(server: Server) -> Provider:
    """The server's active provider.

    Raises:
        Refusal: The server does not say.
        ServerOut: No usable answer.
    """
    answer = server.get("settings/providers")
    if not isinstance(answer, dict):
        raise ServerOut("the server's answer is no list of providers")
    current = str(answer.get("current_provider"))[:100]
    known = next((p for p in objects(answer.get("providers")) if p.get("provider") == current), {})
    available = known.get("available")
    model = str(known.get("default_model", "unknown model"))[:200]
    return Provider(current, model, available if isinstance(available, bool) else None)


class _Run:
    """One job, from nothing to its end."""

    def __init__(self, configuration: Configuration, server: Server, task: AgentTask) -> None:
        self._configuration = configuration
        self._server = server
        self._task = task
        own = (*configuration.secrets, task.display.password or "")
        self._hidden = frozenset(filter(None, own))
        self._secrets = Redactor((*own, *task.secrets))
        self._began = time.monotonic()
        # The job has to be stopped and its account to be read before the runner ends the agent's time.
        self._reserve = min(configuration.settings.limits.reserve, task.timeout / 4)
        self._deadline = task.deadline - self._reserve
        server.until = task.deadline - self._reserve * _FOR_TIDYING
        self._timeline: list[Happening] = []
        self._usage: dict[str, float] = {}
        self._notes: list[str] = []
        self._returned: Any = None
        self._place = Workplace(server, configuration, self._over, task.cancelled.wait)

    def carry_out(self, provider: Provider, definitions: Definitions) -> Ending:
        """Does it all but tidying up.

        Raises:
            AgentInfrastructureError: What is needed is out.
            Refusal: The server said no.
            ServerOut: No usable answer.
        """
        task, place = self._task, self._place
        _check_display(task, self._configuration)
        definition = definition_of(task, self._configuration.settings.prompt_cleanup)
        version = definitions.ensure(self._server, definition)
        about = f"{provider.name} ({provider.model}){', not available' if provider.available is False else ''}"
        self._say(f"{about}; definition {definition.name}, version {version.number}, {version.id}")
        place.open(task.display, task.contract)
        self._usage["session_seconds"] = self._elapsed()
        self._say(f"target {place.target}, session {place.session}: its container is connected to the display")
        try:
            place.start(definition)
        except Refusal:
            definitions.forget(definition)  # the server may have lost it; the next run imports it anew
            raise
        self._say(f"job {place.job}")
        job, stopped = place.follow()
        known = self._account(job, stopped, available=provider.available)
        if job.version not in (None, version.id) and not is_version_of(self._server, definition, job.version):
            return Ending(None, "somebody has changed the definition: the job used another version than was imported")
        ending = ending_of(job, known, stopped=stopped)
        if ending.status == "success":
            self._take_result(job, definition)
        return ending

    def _account(self, job: JobState, stopped: str | None, *, available: bool | None) -> Evidence:
        """Reads the job's account."""
        posted = (self._place.started or self._began) - self._began
        self._usage["job_seconds"] = self._elapsed() - posted
        if self._place.picked_up is not None:
            self._usage["queue_seconds"] = self._place.picked_up - self._began - posted
        log = self._read("logs", account.entries)
        exchanges = self._read("http_exchanges", account.contents)
        if exchanges is not None:
            keys = account.provider_keys(exchanges)
            self._hidden |= keys
            self._secrets.hide(keys)
            self._usage |= account.usage(exchanges, log or [])
        if log is not None:
            self._timeline += account.timeline(log, posted, self._secrets)
        self._say(f"the job is {job.status}" + (f", asked to stop because {stopped}" if stopped else ""))
        return Evidence(log, exchanges, available)

    def _take_result(self, job: JobState, definition: Definition) -> None:
        # Secrets stay in it until it has been judged, since they may be words of a right answer; the runner keeps them out of the record.
        self._returned = definition.returned(job.result)
        lacking = definition.lacking(job.result)
        self._usage["missing_keys"] = len(lacking)
        if lacking:
            self._notes.append(f"legacy-use accepted a result that lacks {', '.join(lacking)[:500]}")

    def _read(self, what: str, taken: Any) -> Any:
        """A part of the job's account; ``None`` and a note if it cannot be read."""
        path = f"targets/{self._place.target}/jobs/{self._place.job}/{what}/"
        try:
            return taken(objects(self._server.get(path, limit=MAX_ACCOUNT), account.MAX_ENTRIES))
        except (ServerOut, Refusal) as error:
            self._notes.append(f"the job's {what} could not be read: {error}")
            return None

    def close(self) -> None:
        """Removes what is on the server; never raises what the server does to it."""
        self._server.until = self._task.deadline - self._reserve * _TO_SPARE
        self._place.close()

    def message(self, ending: Ending) -> str:
        """What is said of an ending, with the notes and what could not be removed, without secrets."""
        notes = list(self._notes)
        if self._place.left:
            notes.append(f"left on the server: {', '.join(self._place.left)}")
        return self.cleaned("; ".join(part for part in (ending.message, *notes) if part))

    def cleaned(self, text: str) -> str:
        """A text without secrets."""
        return self._secrets.text(text, MAX_MESSAGE)

    def report(self, ending: Ending) -> AgentReport:
        """The report; secrets are only in what was returned, and our own are named for the runner to blot them out of that."""
        assert ending.status is not None
        lines = sorted(self._timeline, key=lambda line: line.t)  # the server's and ours
        hidden = tuple(sorted(self._hidden))
        return AgentReport(ending.status, self._returned, self.message(ending), self._usage, tuple(lines), hidden)

    def _over(self) -> str | None:
        if self._task.cancelled.is_set():
            return "the run was cancelled"
        return "the agent's time was over" if time.monotonic() >= self._deadline else None

    def _elapsed(self) -> float:
        return time.monotonic() - self._began

    def _say(self, text: str) -> None:
        self._timeline.append(Happening(self._elapsed(), self._secrets.text(text, account.MAX_LINE)))


def _check_display(task: AgentTask, configuration: Configuration) -> None:
    """Finds out whether legacy-use's clicks can hit, before anything is paid for.

    Raises:
        AgentInfrastructureError: The screen has another size, or the recorder is not where a gateway expects it.
    """
    port = configuration.settings.display.port
    if port and task.display.port != port:
        raise AgentInfrastructureError(
            f"the flight recorder listens on port {task.display.port}, not on {port} as configured"
        )
    try:
        with RfbClient.connect(task.display) as screen:
            width, height = screen.size
    except DisplayError as error:
        raise AgentInfrastructureError(f"the flight recorder at {task.display} cannot be reached: {error}") from None
    if (width, height) != (WIDTH, HEIGHT):
        raise AgentInfrastructureError(
            f"the machine's screen has {width}x{height} pixels; legacy-use's clicks hit at {WIDTH}x{HEIGHT} only: "
            "give the image that display size"
        )
