"""One run's own place on a legacy-use server: a fresh target, its session and its one job, and their removal.

The target is never used again: a job that ends badly blocks its target's queue for ever. What is created carries a name of ours.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from runner.agents.base import AgentInfrastructureError
from runner.agents.legacyuse.client import NoAnswer, NotSent, Refusal, Server, ServerOut, id_in, objects
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
_STOPPING = 5 / 6
"""The share of the time that is left that stopping a job may take: if it does not stop, its session has to be removed."""


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
        left: What could not be removed, or perhaps is there, in words.
        erase: The target is to be removed with all that belongs to it, the display's password included, whatever the settings say of
            its history: the server's ordinary removal archives it.
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
    erase: bool = False
    _is_silent: bool = False
    """The server has stopped answering while we tidied up."""

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

        try:
            self.target = self._created("targets/", body, made, self.configuration.settings.limits.outage)
        except ServerOut as lost:
            if not isinstance(lost, NotSent):
                self.left.append(f"perhaps the target {name}")
            raise

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

    def _created(self, path: str, body: dict[str, Any], made: Callable[[], str | None], patience: float = 0.0) -> str:
        """Creates something; after a lost answer it is looked for, at least once and so many seconds long, never asked for again."""
        try:
            return id_in(self.server.post(path, body))
        except NotSent:
            raise
        except ServerOut as lost:
            deadline = time.monotonic() + patience
            while True:
                with contextlib.suppress(ServerOut, Refusal):
                    if (there := made()) is not None:
                        return there
                if time.monotonic() >= deadline or self.over() is not None:
                    raise lost from None
                self.pause(self.configuration.settings.limits.poll)

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
            was, self.erase = self.erase, True  # should it arrive later than we look, it must find no target
            self.job = self._lost_job(path, lost)
            self.erase = was

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
                job = self._asked_to_end(job, lambda status: status not in WAITING)
                if job.status in ("canceled", *WAITING):
                    raise AgentInfrastructureError(
                        f"no worker of the server began with the job within {limits.queue:g} s: {why}"
                    )
                continue  # a worker has begun in the last moment: what it does counts
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
        job = self._asked_to_end(job, lambda status: status in FINAL)
        if job.status not in FINAL:
            self._remove_sessions()
        return job

    def _asked_to_end(self, job: JobState, enough: Callable[[str], bool]) -> JobState:
        """The job after it was cancelled, or interrupted, until its status is enough or the time for that is over."""
        limits = self.configuration.settings.limits
        now = time.monotonic()
        deadline = now + min(limits.stop, (self.server.until - now) * _STOPPING)
        asked: set[str] = set()
        while not enough(job.status) and time.monotonic() < deadline:
            action = "cancel" if job.status in WAITING else "interrupt"
            if action not in asked and self._asked(action):
                asked.add(action)
            time.sleep(min(0.5, limits.poll))  # not `pause`, which a cancelled run cuts short
            with contextlib.suppress(ServerOut, Refusal):
                job = self.state()
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
        """Stops what still runs and removes session and target; what cannot be removed is told in :attr:`left`.

        Once the server has stopped answering, nothing more is asked of it: every further request would only wait as well.
        """
        if self.target is None:
            return
        self.left.clear()  # what could not be removed in haste is tried once more
        self._is_silent = False
        if self.job is not None and self.session is not None:  # one whose session is gone can do nothing any more
            self._tried(self._end_job, f"the job {self.job}")
        self._remove_sessions()
        erase = self.erase or self.configuration.settings.history == "erase"
        path = f"targets/{self.target}{'/hard' if erase else ''}"
        self._tried(lambda: self.server.delete(path), f"the target {self.target}")
        self.target = None

    def _end_job(self) -> None:
        job = self.state()
        if job.status not in FINAL:
            self.stop(job)

    def _remove_sessions(self) -> None:
        """Removes every session of the target: also one that a failed creation has left, or the server has made by itself."""
        found = {self.session} if self.session else set()
        about = "" if found else f"sessions of the target {self.target}"
        self._tried(lambda: found.update(id_in(item) for item in self._sessions()), about)
        for session in found:
            is_gone = self._tried(partial(self.server.delete, f"sessions/{session}"), f"the session {session}")
            if is_gone and session == self.session:
                self.session = None

    def _tried(self, step: Callable[[], object], about: str) -> bool:
        """Takes a step of the tidying up unless the server is silent; what it is about, if anything, is told as left if it fails."""
        why = "not tried, since the server does not answer"
        if not self._is_silent:
            try:
                step()
                return True
            except (ServerOut, Refusal) as error:
                self._is_silent = isinstance(error, NoAnswer)
                why = str(error)
        if about:
            self.left.append(f"{about} ({why})")
        return False


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
