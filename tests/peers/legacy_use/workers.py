"""The server's workers: which job is begun when, what comes before its model, and how it ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from runner.guests.probe import WindowEntry
from tests.peers.legacy_use.container import Container
from tests.peers.legacy_use.rows import BLOCKING, INTERRUPTED, PROVIDER_KEY, Behaviour, Ended, Job, Row, now
from tests.peers.legacy_use.work import Model, Work


class Workers:
    """What is stored, and the workers' loop.

    Attributes:
        behaviour: How it acts.
        model: What its jobs do.
        windows: Lent by the test: the guest's list of windows, for scripts.
        provider_credentials: What the server has for each provider; without any for the active one no job comes to its first turn.
        over: Set when the test is over.
    """

    def __init__(self, model: Model, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.model = model
        self.windows: Callable[[], tuple[WindowEntry, ...]] = tuple
        self.targets: dict[str, Row] = {}
        self.sessions: dict[str, Row] = {}
        self.jobs: dict[str, Job] = {}
        self.definitions: dict[str, dict[str, Any]] = {}
        self.provider_credentials: dict[str, dict[str, str]] = {"anthropic": {"api_key": PROVIDER_KEY}}
        self.lock = threading.RLock()
        self.over = threading.Event()

    @property
    def is_up(self) -> bool:
        """Whether its process runs and takes on jobs."""
        raise NotImplementedError

    def work(self) -> None:
        """The loop; ends with the test."""
        while not self.over.wait(self.behaviour.pick_up):
            with self.lock:
                if self.is_up:
                    self._expire()
                    self._claim()

    def _expire(self) -> None:
        for job in self.jobs.values():
            if job.status == "running" and job.abandoned and time.monotonic() > job.lease_until:
                self.finish(job, "error", "Lease expired; worker likely terminated")

    def _claim(self) -> None:
        running = [job for job in self.jobs.values() if job.status == "running"]
        for job in sorted(self.jobs.values(), key=lambda job: job.created):
            target = job.data["target_id"]
            others = [other.status for other in self.jobs.values() if other.data["target_id"] == target]
            if (
                job.status == "queued"
                and len(running) < self.behaviour.workers
                and not {"running", *BLOCKING} & {*others}
            ):
                job.data["status"] = "running"
                job.lease_until = time.monotonic() + self.behaviour.lease
                job.log("system", "Queue picked up job")
                threading.Thread(target=self._execute, args=[job], daemon=True).start()
                return

    def _execute(self, job: Job) -> None:
        error: str | None
        try:
            work = self._begun(job)
            self.model(work)
            status, error, result = work.end()
        except Ended as ended:
            status, error, result = ended.status, ended.error, None
        except Exception as crash:
            job.log("error", f"Traceback (most recent call last):\n{type(crash).__name__}: {crash}")
            status, error, result = "error", str(crash), None
        with self.lock:
            if not job.abandoned:
                self.finish(job, status, error, result)

    def _begun(self, job: Job) -> Work:
        name = job.data["api_name"]
        definition = self.definitions.get(name)
        if definition is None or definition["is_archived"]:
            raise Ended("error", f"API '{name}' not found")
        active = next(version for version in definition["versions"] if version["is_active"])
        job.data["api_definition_version_id"] = active["id"]
        example = json.dumps({"name": name, "result": active["response_example"]})
        prompt = f"{active['prompt']}\nReturn results with the extraction tool: {example}\n{active['prompt_cleanup']}"
        for parameter, value in {**job.data["parameters"], "now": now()}.items():
            prompt = prompt.replace("{{" + parameter + "}}", str(value)).replace("{" + parameter + "}", str(value))
        container = self._ready_container(job)
        job.executing = True
        job.log("system", f"Executing API with parameters: {job.data['parameters']}")
        job.log("system", {"message_type": "initial_prompt", "prompt": prompt})
        return Work(self, job, container, prompt)

    def _ready_container(self, job: Job) -> Container | None:
        if job.data["session_id"] is None:
            return None
        job.log("system", "Waiting for session to become ready before execution")
        deadline = time.monotonic() + self.behaviour.health_timeout
        reason = "Container IP not yet available"
        while time.monotonic() < deadline:
            session = self.sessions.get(job.data["session_id"])
            if job.stopping.is_set() or job.abandoned:
                raise Ended("paused", INTERRUPTED)
            if session is None:
                raise Ended("paused", "Session not found")
            if session["state"] in ("destroying", "destroyed"):
                raise Ended("paused", f"Session is {session['state']}")
            if session.container is not None:
                healthy, reason = session.container.health()
                if healthy:
                    return session.container
            time.sleep(0.01)
        raise Ended("paused", f"Timeout waiting for session to become ready: {reason}")

    def interrupt(self, job: Job) -> None:
        """Begins to interrupt a running job; it goes on for a while."""
        job.log("system", "Job cancel requested by user")
        behaviour = self.behaviour
        after = behaviour.interrupt_after if job.executing else behaviour.interrupt_waiting_after
        timer = threading.Timer(after, self.interrupted, [job])
        timer.daemon = True
        timer.start()

    def interrupted(self, job: Job) -> None:
        """An interrupt takes effect: the loop is cancelled; what the container is doing just now it does to its end."""
        job.stopping.set()
        if not job.abandoned:
            if job.executing:
                job.log("system", "API execution was cancelled")
            job.log("system", "Job execution was cancelled")
            self.finish(job, "paused", INTERRUPTED)

    def finish(self, job: Job, status: str, error: str | None, result: Any = None) -> None:
        """Ends a running job."""
        with self.lock:
            if job.status != "running":
                return
            job.data |= {"status": status, "error": error, "result": result, "completed_at": now()}
            job.completed = time.monotonic()
            if status in BLOCKING:
                job.log("system", f"Target {job.data['target_id']} queue will be paused due to job {status}")
            reason = f" and reason: {error}" if error else ""
            job.log("system", f"Job completed with status: JobStatus.{status.upper()}{reason}")
