"""One run's own place on a legacy-use server: a fresh target, its session and its one job, and their removal.

The target is never used again: a job that ends badly blocks its target's queue for ever. What is created carries a name of ours.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from runner.agents.base import AgentInfrastructureError
from runner.agents.legacyuse.client import Refusal, Server, ServerOut, id_in, objects
from runner.agents.legacyuse.configuration import HEIGHT, WIDTH, Configuration
from runner.agents.legacyuse.definition import Definition
from runner.agents.legacyuse.ending import FINAL, WAITING, JobState
from runner.display.handshake import DisplayAddress

NAME = "legacyproof"
"""What the names of our targets begin with."""
IMAGE = "legacy-use-target:local"
"""The container image that a session needs on the server's host."""
_IS_THERE_AN_IMAGE = f"does Docker run on the server's host, and has it the image {IMAGE}?"
_LOOK = 1.0
"""Seconds between two looks at a session."""


class SessionFailed(AgentInfrastructureError):
    """The server could not start a session's container."""


@dataclass
class Workplace:
    """A target, a session and a job. Nothing is created before :meth:`open`; :meth:`close` removes whatever there is.

    Attributes:
        server: The server.
        configuration: How long to wait.
        over: Says why the run must come to its end; ``None``: it may go on.
        pause: Waits so many seconds, or until the run is cancelled.
        target: The target's id.
        session: The session's id.
        job: The job's id.
        started: When the job was posted, by ``time.monotonic()``.
        picked_up: When it was first seen to run.
        left: What could not be removed, in words.
    """

    server: Server
    configuration: Configuration
    over: Callable[[], str | None]
    pause: Callable[[float], object]
    target: str | None = None
    session: str | None = None
    job: str | None = None
    started: float | None = None
    picked_up: float | None = None
    left: list[str] = field(default_factory=list)
    _erase: bool = False

    # --- from nothing to a running job ---

    def open(self, display: DisplayAddress, about: str) -> None:
        """Makes the target and its session, and waits until the session's container is connected to the display.

        Args:
            display: The flight recorder, with its password.
            about: What the run is about, for the names.

        Raises:
            SessionFailed: The server could not start the container.
            AgentInfrastructureError: It did not come about for another reason.
            Refusal: The server does not accept what is asked for.
            ServerOut: No usable answer.
        """
        name = f"{NAME} {about[:80]} {secrets.token_hex(6)}"
        self._open_target(display, name)
        self._open_session(name)
        self._wait_for_health()

    def _open_target(self, display: DisplayAddress, name: str) -> None:
        settings = self.configuration.settings
        gateway = settings.target.gateway
        body: dict[str, Any] = {
            "name": name,
            "type": settings.target.type,
            "host": gateway.host if gateway else self.configuration.display_host,
            "port": gateway.port if gateway else display.port,
            "password": display.password or "",
            "width": WIDTH,
            "height": HEIGHT,
        }
        if gateway:
            body["username"] = gateway.username

        def made() -> str | None:
            found = objects(self.server.get("targets/"))
            return next((id_in(target) for target in found if target.get("name") == name), None)

        self.target = self._created("targets/", body, made)

    def _open_session(self, name: str) -> None:
        def made() -> str | None:
            # A creation that failed leaves a row without a container, to which jobs would attach themselves.
            found = [item for item in self._sessions() if item.get("name") == name and item.get("status") != "created"]
            return id_in(found[0]) if found else None

        try:
            self.session = self._created("sessions/", {"name": name, "target_id": self.target}, made)
        except ServerOut as error:
            raise SessionFailed(f"no session could be made: {error}; {_IS_THERE_AN_IMAGE}") from None
        except Refusal as refusal:
            if refusal.status != 409 or (there := made()) is None:
                raise
            self.session = there

    def _created(self, path: str, body: dict[str, Any], made: Callable[[], str | None]) -> str:
        """Creates something; after a lost answer it is looked for by its name, and not asked for again."""
        try:
            return id_in(self.server.post(path, body))
        except ServerOut as lost:
            try:
                there = made()
            except (ServerOut, Refusal):
                raise lost from None
            if there is None:
                raise
            return there

    def _sessions(self) -> list[dict[str, Any]]:
        found = objects(self.server.get("sessions/"))
        return [item for item in found if item.get("target_id") == self.target and not item.get("is_archived")]

    def _wait_for_health(self) -> None:
        patience = self.configuration.settings.limits.health
        deadline = time.monotonic() + patience
        while True:
            session = self.server.get(f"sessions/{self.session}")
            healthy, why = _health(session)
            if healthy:
                return
            if why in _HOPELESS:
                raise SessionFailed(f"the session {why}; {_IS_THERE_AN_IMAGE}")
            if time.monotonic() >= deadline:
                raise AgentInfrastructureError(
                    f"the session's container did not reach the display at {self.configuration.display_host} within {patience:g} s: {why}"
                )
            if (over := self.over()) is not None:
                raise AgentInfrastructureError(f"the session was not ready when {over}: {why}")
            self.pause(min(_LOOK, self.configuration.settings.limits.poll))

    def start(self, definition: Definition) -> None:
        """Posts the job, once. A job whose post was answered by nothing is looked for; it is never posted again.

        Raises:
            AgentInfrastructureError: It is not known whether there is a job, or there are several.
            Refusal: The server does not accept it.
        """
        self.started = time.monotonic()
        path = f"targets/{self.target}/jobs/"
        try:
            self.job = id_in(
                self.server.post(path, {"api_name": definition.name, "parameters": dict(definition.arguments)})
            )
        except ServerOut as lost:
            self._erase = True  # should it arrive later than we look, it must find no target
            self.job = self._lost_job(path, lost)
            self._erase = False

    def _lost_job(self, path: str, lost: ServerOut) -> str:
        deadline = time.monotonic() + self.configuration.settings.limits.outage
        while True:
            try:
                jobs = objects(self.server.get(path, limit=64 << 20))
            except ServerOut:
                jobs = []
            if len(jobs) == 1:
                return id_in(jobs[0])
            if jobs or time.monotonic() >= deadline or self.over() is not None:
                count = f"there are {len(jobs)} jobs" if jobs else "no job has appeared"
                raise AgentInfrastructureError(f"the answer to the job's creation was lost ({lost}), and {count}")
            self.pause(self.configuration.settings.limits.poll)

    # --- until it has stopped ---

    def follow(self) -> tuple[JobState, str | None]:
        """Waits until the job has ended, or asks it to stop when the run must come to its end.

        Returns:
            The job's last state, and why it was asked to stop, if it was.

        Raises:
            AgentInfrastructureError: The server is out, or no worker begins with the job.
        """
        limits = self.configuration.settings.limits
        queued_until = time.monotonic() + limits.queue
        while True:
            job = self._seen()
            if job.status in FINAL:
                return job, None
            if (over := self.over()) is not None:
                return self.stop(job), over
            if job.status not in WAITING:
                self.picked_up = self.picked_up or time.monotonic()
            elif time.monotonic() >= queued_until:
                why = self._why_waiting()
                self.stop(job)
                raise AgentInfrastructureError(
                    f"no worker of the server began with the job within {limits.queue:g} s: {why}"
                )
            self.pause(limits.poll)

    def state(self) -> JobState:
        """The job as it is now.

        Raises:
            Refusal: There is no such job any more.
            ServerOut: No usable answer.
        """
        answer = self.server.get(f"targets/{self.target}/jobs/{self.job}", limit=64 << 20)
        status = answer.get("status") if isinstance(answer, dict) else None
        if not isinstance(status, str):
            raise ServerOut("the server's answer is no job")
        error, version = answer.get("error"), answer.get("api_definition_version_id")
        return JobState(
            id=id_in(answer),
            status=status,
            error=error if isinstance(error, str) else None,
            result=answer.get("result"),
            version=version if isinstance(version, str) else None,
        )

    def _seen(self) -> JobState:
        """The job's state, through an outage of the server that is not too long."""
        deadline = time.monotonic() + self.configuration.settings.limits.outage
        while True:
            try:
                return self.state()
            except ServerOut as error:
                if time.monotonic() >= deadline or self.over() is not None:
                    raise AgentInfrastructureError(f"the server is out while a job runs: {error}") from None
            self.pause(self.configuration.settings.limits.poll)

    def stop(self, job: JobState) -> JobState:
        """Stops the job and waits until it has really stopped; if it does not, its session is removed.

        The server's answers are not trusted: it can answer with an error after it has changed the job. The job is read again.

        Args:
            job: Its state when it was looked at last.

        Returns:
            Its last state.
        """
        limits = self.configuration.settings.limits
        deadline = time.monotonic() + limits.stop
        asked: set[str] = set()
        while job.status not in FINAL and time.monotonic() < deadline:
            action = "cancel" if job.status in WAITING else "interrupt"
            if action not in asked and self._asked(action):
                asked.add(action)
            time.sleep(min(0.5, limits.poll))  # not `pause`, which a cancelled run cuts short
            with contextlib.suppress(ServerOut, Refusal):
                job = self.state()
        if job.status not in FINAL:
            self._remove_sessions()
        return job

    def _asked(self, action: str) -> bool:
        """Asks for the job's end; whether the server says that it has understood."""
        try:
            self.server.post(f"targets/{self.target}/jobs/{self.job}/{action}/", quick=True)
        except (ServerOut, Refusal):
            return False
        return True

    def _why_waiting(self) -> str:
        try:
            target = self.server.get(f"targets/{self.target}", limit=64 << 20)
        except (ServerOut, Refusal) as error:
            return str(error)
        if isinstance(target, dict) and target.get("queue_status") == "paused":
            return "the target's queue is paused by an earlier job"
        return "all of them are busy, or none is there (JOB_WORKERS must not be less than the machines at a time)"

    # --- away with it ---

    def close(self) -> None:
        """Stops what still runs and removes session and target; what cannot be removed is told in :attr:`left`."""
        if self.target is None:
            return
        if self.job is not None:
            try:
                job = self.state()
                if job.status not in FINAL:
                    self.stop(job)
            except (ServerOut, Refusal) as error:
                self.left.append(f"the job {self.job} ({error})")
        self._remove_sessions()
        erase = self._erase or self.configuration.settings.history == "erase"
        try:
            self.server.delete(f"targets/{self.target}{'/hard' if erase else ''}")
        except (ServerOut, Refusal) as error:
            self.left.append(f"the target {self.target} ({error})")
        self.target = None

    def _remove_sessions(self) -> None:
        """Removes every session of the target: also one that a failed creation has left, or the server has made by itself."""
        found = {self.session} if self.session else set()
        try:
            found |= {id_in(item) for item in self._sessions()}
        except (ServerOut, Refusal) as error:
            if not found:
                self.left.append(f"sessions of the target {self.target} ({error})")
        for session in found:
            try:
                self.server.delete(f"sessions/{session}")
            except (ServerOut, Refusal) as error:
                self.left.append(f"the session {session} ({error})")
        self.session = None


_HOPELESS = frozenset({"could not be started", "was removed", "is being removed", "was archived"})


def _health(session: Any) -> tuple[bool, str]:
    """Whether a session's container is connected, and if not, why."""
    if not isinstance(session, dict):
        raise ServerOut("the server's answer is no session")
    if session.get("is_archived"):
        return False, "was archived"
    if session.get("status") == "error":
        return False, "could not be started"
    if session.get("state") in ("destroying", "destroyed"):
        return False, "is being removed" if session["state"] == "destroying" else "was removed"
    status = session.get("container_status")
    health = status.get("health") if isinstance(status, dict) else None
    if not isinstance(health, dict):
        return False, "its container does not run yet"
    return health.get("healthy") is True, str(health.get("reason") or "it is not connected")[:300]
