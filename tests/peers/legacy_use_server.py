"""A stand-in for a legacy-use server (version 1.2.0), with its session containers and a scripted model.

It follows the facts that were observed on the real server: paths with their prefix and strict trailing slashes, tenants told by the
Host header, bodies of errors, the states of sessions and jobs with what moves them, one running job per target, the workers'
limit, the queue that a failed job blocks for ever, the interrupt that takes effect late and the one that answers 500 after it
has changed the job, results only at the end, growing durations, logs and exchanges with screenshots and keys in clear text, and
definitions with versions. Times are short, and can be changed. A session's container connects to its target's address by VNC,
and a job's model is a function or a script of this project that acts on the machine through that address: so whole runs can be
made, with real changes on a real program.

It proves that the agent copes with these habits, in the order and with the words in which they were observed. It does not prove
that a real server, its Docker image, its viewer (clipping, keyboard layouts, reconnecting) or a model behaves like this: there is
no model, no container and no RDP. A script knows where controls are because the test lends it the guest's list of windows
(``windows``), which no real server has.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from pydantic import BaseModel, ConfigDict, StrictStr, ValidationError

from contracts.load import read_model
from runner.agents.base import AgentTask
from runner.agents.scripted import Script, ScriptedAgent
from runner.display.errors import DisplayError
from runner.display.handshake import DisplayAddress
from runner.display.rfb import RfbClient
from runner.guests.probe import WindowEntry

TENANT = "tenant-default.local.legacy-use.com"
KEY = "tenant-key-0123456789abcdef"
PROVIDER_KEY = "sk-ant-planted-provider-key-0123456789"
INTERRUPTED = "Job was interrupted by user"
BLOCKING = ("paused", "error")
TERMINAL = ("success", "error")

TargetType = Literal[
    "rdp", "vnc", "teamviewer", "vnc+tailscale", "vnc+wireguard", "rdp_wireguard", "rdp+tailscale", "rdp+openvpn"
]


FaultKind = Literal["lost", "broken", "broken_after", "silent", "hung"]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class TargetCreate(_Body):
    name: str
    type: TargetType
    host: str
    password: str
    username: str | None = None
    port: int | None = None
    vpn_config: str | None = None
    width: int = 1024
    height: int = 768
    rdp_params: str | None = None


class SessionCreate(_Body):
    name: str
    target_id: str
    description: str | None = None


class JobCreate(_Body):
    api_name: str
    parameters: dict[StrictStr, StrictStr | list[Any]] = {}


class Parameter(_Body):
    name: str
    type: str
    description: str
    default: str | list[Any] | None = None


class Definition(_Body):
    name: str
    description: str
    parameters: list[Parameter]
    prompt: str
    prompt_cleanup: str
    response_example: dict[str, Any]


class Import(_Body):
    api_definition: Definition


class ProviderUpdate(_Body):
    provider: str
    credentials: dict[str, str]


@dataclass
class Behaviour:
    """How the server acts; everything may be changed while it runs. The times of the real one stand behind."""

    prefix: str = "/api"
    workers: int = 2
    pick_up: float = 0.01  # 0 to 3 s
    health_after: float = 0.0  # as long as the container needs
    health_timeout: float = 0.5  # 90 s
    ready_after: float = 0.1  # up to 30 s: the monitor's period
    interrupt_after: float = 0.1  # 2 to 4 s
    lease: float = 0.3  # 60 s
    has_image: bool = True
    has_docker_network: bool = True
    """False: containers are never told an address."""
    tenant_active: bool = True
    provider: str = "anthropic"
    png_text: str = ""
    """Stands in the screenshots' metadata."""


@dataclass
class Fault:
    """What goes wrong with the next requests that fit: ``lost`` does it and answers nothing, ``broken`` answers 500 and does
    nothing, ``broken_after`` does it and answers 500, ``silent`` does nothing and hangs up, ``hung`` does nothing and does not
    even hang up."""

    method: str
    path: str
    kind: FaultKind
    times: int = 1


@dataclass
class Row:
    """One target, session or version, as the server stores it."""

    data: dict[str, Any]
    container: Container | None = None
    created: float = field(default_factory=time.monotonic)

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


@dataclass
class Job:
    """One job."""

    data: dict[str, Any]
    logs: list[dict[str, Any]] = field(default_factory=list)
    exchanges: list[dict[str, Any]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    lease_until: float = 0.0
    abandoned: bool = False
    created: float = field(default_factory=time.monotonic)
    completed: float | None = None

    @property
    def status(self) -> str:
        return str(self.data["status"])

    @property
    def id(self) -> str:
        return str(self.data["id"])


class _Ended(Exception):
    """The job's loop ends here, whatever the model would do next."""

    def __init__(self, status: str, error: str | None) -> None:
        self.status, self.error = status, error


class Container:
    """A session's container: a viewer connected to the target."""

    def __init__(self, target: Row, healthy_from: float) -> None:
        self.address = DisplayAddress(target["host"], target["port"] or 5900, target["password"])
        self._from = healthy_from
        self._client: RfbClient | None = None
        self._lock = threading.Lock()
        self._removed = False

    def health(self) -> tuple[bool, str]:
        """As its ``/health``: whether the viewer's connection stands; the viewer connects again and again."""
        with self._lock:
            if self._removed:
                return False, "Request Error [Errno 113] No route to host"
            if time.monotonic() < self._from:
                return False, "Remote screen sharing solution is not running (vnc)"
            try:
                if self._client is None:
                    self._client = RfbClient.connect(self.address, timeout=2)
                self._client.refresh(timeout=0)
            except DisplayError:
                self._client = None
                return False, "Remote screen sharing solution is not running (vnc)"
            return True, "ok"

    @property
    def screen(self) -> RfbClient:
        """The viewer's connection."""
        assert self._client is not None
        return self._client

    def remove(self) -> None:
        """Stops it."""
        with self._lock:
            self._removed = True
            if self._client is not None:
                self._client.close()


class Work:
    """What a model gets: the prompt as the server makes it, the display, and its tools."""

    def __init__(self, server: LegacyUseServer, job: Job, container: Container | None, prompt: str) -> None:
        self.server, self.job, self.prompt = server, job, prompt
        self.parameters: dict[str, Any] = dict(job.data["parameters"])
        self._container = container
        self._extracted: dict[str, Any] | None = None
        self._turn = 0

    @property
    def address(self) -> DisplayAddress:
        assert self._container is not None
        return self._container.address

    @property
    def screen(self) -> RfbClient:
        assert self._container is not None
        return self._container.screen

    def check(self) -> None:
        """What comes before each tool: the interrupt, and the container's health."""
        if self.job.stopping.is_set() or self.job.abandoned:
            raise _Ended("paused", INTERRUPTED)
        if self._container is None:
            raise _Ended("paused", "Health check prerequisites not met (session_id missing).")
        healthy, _ = self._container.health()
        if not healthy:
            raise _Ended("paused", "Target container at 172.17.0.9 failed health check. Status: 503")

    def turn(self, *blocks: dict[str, Any], status: int = 200, error: str = "") -> None:
        """One exchange with the provider, whose answer holds these blocks."""
        self._turn += 1
        key = PROVIDER_KEY
        if self.server.behaviour.provider == "openai":
            usage = {"prompt_tokens": 900, "completion_tokens": 40}
        else:
            usage = {"input_tokens": 1000, "output_tokens": 50, "cache_creation_input_tokens": 100,
                     "cache_read_input_tokens": 200}  # fmt: skip
        conversation = [{"role": "user", "content": self.prompt}, *[entry["content"] for entry in self.job.logs]]
        body = json.dumps({"content": list(blocks), "usage": usage}) if status == 200 else json.dumps({"error": error})
        self.job.exchanges.append({
            "id": str(uuid.uuid4()), "job_id": self.job.id, "timestamp": _now(), "log_type": "http_exchange",
            "content": {
                "timestamp": _now(),
                "request": {"method": "POST", "url": "https://api.anthropic.com/v1/messages",
                            "headers": {"x-api-key": key, "authorization": f"Bearer {key}"},
                            "body_size": 1, "body": json.dumps({"messages": conversation}, default=str)},
                "response": {"status_code": status, "headers": {}, "body": body, "body_size": len(body)},
                "input_tokens": usage.get("input_tokens", 0), "output_tokens": usage.get("output_tokens", 0),
                "cache_creation_tokens": usage.get("cache_creation_input_tokens", 0),
                "cache_read_tokens": usage.get("cache_read_input_tokens", 0),
            },
        })  # fmt: skip
        for block in blocks:
            self.server.log(self.job, "message", block)

    def say(self, text: str) -> None:
        """A turn with words."""
        self.turn({"type": "text", "text": text})

    def tool(self, name: str, given: dict[str, Any], *, output: str | None = None, shot: bool = False) -> None:
        """A turn with one tool, checked before it is used; what it does has to be done by the model's function."""
        self.turn(_tool_use(name, given))
        self.check()
        self.result(output=output, shot=shot)

    def result(self, *, output: str | None = None, error: str | None = None, shot: bool = False) -> None:
        """A tool's result in the log."""
        content: dict[str, Any] = {"tool_id": str(uuid.uuid4()), "output": output, "error": error, "has_image": shot}
        if shot:
            content["base64_image"] = self._shot()
        self.server.log(self.job, "tool_use", content)

    def _shot(self) -> str:
        image = self.screen.screenshot()
        notes = PngInfo()
        if self.server.behaviour.png_text:
            notes.add_text("Comment", self.server.behaviour.png_text, zip=True)
        buffer = io.BytesIO()
        Image.frombytes("RGB", image.size, image.tobytes()).save(buffer, "PNG", pnginfo=notes)
        return base64.b64encode(buffer.getvalue()).decode()

    def extract(self, result: Any, *, bare: bool = False) -> None:
        """The extraction tool; the last one wins."""
        data = result if bare else {"name": self.job.data["api_name"], "result": result}
        self.tool("extraction", {"data": data}, output="extracted")
        self._extracted = data["result"] if isinstance(data, dict) and "result" in data else data

    def mismatch(self, reasoning: str) -> None:
        """The tool that ends the job at once."""
        self.turn(_tool_use("ui_not_as_expected", {"reasoning": reasoning}))
        self.check()
        raise _Ended("paused", reasoning)

    def fail(self, status: str, error: str | None) -> None:
        """Ends the job as the server's loop does for reasons of its own."""
        raise _Ended(status, error)

    def end(self) -> tuple[str, str | None, Any]:
        """What the server makes of it when the model ends its turn."""
        if self._extracted is None:
            return "error", "Model ended its turn without providing any extractions", None
        found = self._extracted
        if isinstance(found, dict) and found.get("error"):
            return "error", str(found.get("error_description") or found["error"]), None
        return "success", None, found


def _tool_use(name: str, given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:12]}", "name": name, "input": given}


Model = Callable[[Work], None]


def plays(script: Path, *, before_end: Model | None = None) -> Model:
    """A model that does what a script of this project does, and says what it says in legacy-use's way.

    Args:
        script: The script; its report decides what the model says at its end.
        before_end: Done after the script's acts and before the model says anything.
    """
    steps = read_model(script, Script)

    def model(work: Work) -> None:
        work.tool("computer", {"action": "screenshot"}, shot=True)
        task = AgentTask(
            contract=steps.contract, instruction="", prompt=work.prompt, parameters=work.parameters, response_schema=None,
            display=work.address, timeout=60.0, deadline=time.monotonic() + 60.0, folder=script.parent,
            windows=work.server.windows, cancelled=work.job.stopping,
        )  # fmt: skip
        report = ScriptedAgent(steps, "model").run(task)
        for line in report.timeline:
            action, _, rest = line.text.partition(" ")
            work.turn(_tool_use("computer", {"action": action, "text": rest}))
            work.result(output="done")
        work.check()
        if before_end is not None:
            before_end(work)
        match report.status:
            case "success":
                work.extract(report.returned or {})
            case "ui_not_as_expected":
                work.mismatch(report.message)
            case _:
                work.say(report.message)

    return model


class LegacyUseServer:
    """The server, listening on 127.0.0.1.

    Attributes:
        behaviour: How it acts.
        model: What its jobs do.
        windows: Lent by the test: the guest's list of windows, for scripts.
        requests: Every request that came in, as method and path without prefix.
        faults: What goes wrong next.
        before: Called with method and path of each request before it is answered.
        over: Set when the test is over.
    """

    def __init__(self, model: Model = lambda work: work.extract({}), **behaviour: Any) -> None:
        self.behaviour = Behaviour(**behaviour)
        self.model = model
        self.windows: Callable[[], tuple[WindowEntry, ...]] = tuple
        self.requests: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.targets: dict[str, Row] = {}
        self.sessions: dict[str, Row] = {}
        self.jobs: dict[str, Job] = {}
        self.definitions: dict[str, dict[str, Any]] = {}
        self.provider_credentials: dict[str, dict[str, str]] = {"anthropic": {"api_key": PROVIDER_KEY}}
        self.lock = threading.RLock()
        self.over = threading.Event()
        self._http: ThreadingHTTPServer | None = None
        self.port = 0
        self.revive()
        threading.Thread(target=self._work, daemon=True).start()

    def __enter__(self) -> LegacyUseServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for job in self.jobs.values():
            job.abandoned = True
            job.stopping.set()
        for session in self.sessions.values():
            if session.container is not None:
                session.container.remove()
        self._close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- its life ---

    def die(self) -> None:
        """Ends the server's process: nothing listens, nothing acts; what it has stored stays."""
        with self.lock:
            for job in self.jobs.values():
                if job.status == "running":
                    job.abandoned = True
                    job.stopping.set()
        self._close()

    def revive(self) -> None:
        """Starts the process again, on the same port."""
        server = self

        class Handler(_Handler):
            peer = server

        self._http = _Listener(("127.0.0.1", self.port), Handler)
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=[0.02], daemon=True).start()

    def _close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            # From a thread of its own: also a model, on whose behalf a request may wait, can end the server.
            threading.Thread(target=http.shutdown, daemon=True).start()
            http.server_close()

    def fault(self, method: str, path: str, kind: FaultKind, times: int = 1) -> None:
        """Has the next requests go wrong."""
        self.faults.append(Fault(method, path, kind, times))

    def count(self, method: str, path: str) -> int:
        """How many requests there were whose path fits a regular expression as a whole."""
        return sum(one == method and re.fullmatch(path, other) is not None for one, other in self.requests)

    # --- workers ---

    def _work(self) -> None:
        while not self.over.wait(self.behaviour.pick_up):
            with self.lock:
                if self._http is not None:
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
                self.log(job, "system", "Queue picked up job")
                threading.Thread(target=self._execute, args=[job], daemon=True).start()
                return

    def _execute(self, job: Job) -> None:
        error: str | None
        try:
            work = self._begun(job)
            self.model(work)
            status, error, result = work.end()
        except _Ended as ended:
            status, error, result = ended.status, ended.error, None
        except Exception as crash:
            self.log(job, "error", f"Traceback: {crash!r}")
            status, error, result = "error", str(crash), None
        with self.lock:
            if not job.abandoned:
                self.finish(job, status, error, result)

    def _begun(self, job: Job) -> Work:
        name = job.data["api_name"]
        definition = self.definitions.get(name)
        if definition is None or definition["is_archived"]:
            raise _Ended("error", f"API '{name}' not found")
        active = next(version for version in definition["versions"] if version["is_active"])
        job.data["api_definition_version_id"] = active["id"]
        example = json.dumps({"name": name, "result": active["response_example"]})
        prompt = f"{active['prompt']}\nReturn results with the extraction tool: {example}\n{active['prompt_cleanup']}"
        for parameter, value in {**job.data["parameters"], "now": _now()}.items():
            prompt = prompt.replace("{{" + parameter + "}}", str(value)).replace("{" + parameter + "}", str(value))
        self.log(job, "system", f"Executing API with parameters: {job.data['parameters']}")
        self.log(job, "system", {"message_type": "initial_prompt", "prompt": prompt})
        container = self._ready_container(job)
        return Work(self, job, container, prompt)

    def _ready_container(self, job: Job) -> Container | None:
        if job.data["session_id"] is None:
            return None
        self.log(job, "system", "Waiting for session to become ready before execution")
        deadline = time.monotonic() + self.behaviour.health_timeout
        reason = "Container IP not yet available"
        while time.monotonic() < deadline:
            session = self.sessions.get(job.data["session_id"])
            if job.stopping.is_set() or job.abandoned:
                raise _Ended("paused", INTERRUPTED)
            if session is None:
                raise _Ended("paused", "Session not found")
            if session["state"] in ("destroying", "destroyed"):
                raise _Ended("paused", f"Session is {session['state']}")
            if session.container is not None:
                healthy, reason = session.container.health()
                if healthy:
                    return session.container
            time.sleep(0.01)
        raise _Ended("paused", f"Timeout waiting for session to become ready: {reason}")

    def finish(self, job: Job, status: str, error: str | None, result: Any = None) -> None:
        """Ends a running job."""
        with self.lock:
            if job.status != "running":
                return
            job.data |= {"status": status, "error": error, "result": result, "completed_at": _now()}
            job.completed = time.monotonic()
            self.log(job, "system", f"Job completed with status: JobStatus.{status.upper()}")

    def log(self, job: Job, kind: str, content: Any) -> None:
        """Adds to a job's log."""
        job.logs.append(
            {"id": str(uuid.uuid4()), "job_id": job.id, "timestamp": _now(), "log_type": kind, "content": content}
        )

    # --- requests ---

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, str]:
        """Does what a request asks for, and gives status and body as they are at this moment."""
        for wanted, pattern, function in _ROUTES:
            match = re.fullmatch(pattern, path)
            if match is not None and wanted == method:
                with self.lock:
                    status, answer = function(self, query, body, *map(unquote, match.groups()))
                    return status, json.dumps(answer)
        return 404, json.dumps({"detail": "Not Found"})

    def _list_targets(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        everything = query.get("include_archived") == "true"
        return 200, [self._target_view(t) for t in self.targets.values() if everything or not t["is_archived"]]

    def _target_view(self, target: Row) -> dict[str, Any]:
        jobs = [job for job in self.jobs.values() if job.data["target_id"] == target["id"]]
        blocking = [job.data for job in jobs if job.status in BLOCKING]
        return target.data | {
            "queue_status": "paused" if blocking else "running", "blocking_jobs": blocking,
            "has_blocking_jobs": bool(blocking), "blocking_jobs_count": len(blocking),
            "has_active_session": False, "has_initializing_session": False,
        }  # fmt: skip

    def _create_target(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        data = TargetCreate.model_validate(body).model_dump()
        data |= {"id": str(uuid.uuid4()), "created_at": _now(), "updated_at": _now(), "is_archived": False}
        self.targets[data["id"]] = Row(data)
        return 200, data | {"queue_status": None, "blocking_jobs": None}

    def _get_target(self, query: dict[str, str], body: Any, target: str) -> tuple[int, Any]:
        row = self.targets.get(target)
        return (200, self._target_view(row)) if row else (404, {"detail": "Target not found"})

    def _archive_target(self, query: dict[str, str], body: Any, target: str) -> tuple[int, Any]:
        row = self.targets.get(target)
        if row is None:
            return 404, {"detail": "Target not found"}
        row.data["is_archived"] = True  # its sessions, and jobs still to come, go on
        return 200, {"message": "Target archived"}

    def _erase_target(self, query: dict[str, str], body: Any, target: str) -> tuple[int, Any]:
        if self.targets.pop(target, None) is None:
            return 404, {"detail": "Target not found"}
        # Containers are not stopped: they leak.
        self.sessions = {k: s for k, s in self.sessions.items() if s["target_id"] != target}
        self.jobs = {k: j for k, j in self.jobs.items() if j.data["target_id"] != target}
        return 200, {"message": "Target permanently deleted"}

    def _list_sessions(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        everything = query.get("include_archived") == "true"
        return 200, [self._session_view(s) for s in self.sessions.values() if everything or not s["is_archived"]]

    def _session_view(self, session: Row) -> dict[str, Any]:
        status: dict[str, Any] | None = None
        if session["state"] in ("destroying", "destroyed"):
            status = {"id": session["container_id"], "state": {"Status": "unavailable"}}
        elif session.container is not None:
            healthy, reason = session.container.health()
            seen_by_monitor = time.monotonic() - session.created > self.behaviour.ready_after
            if healthy and seen_by_monitor and session["state"] == "initializing":
                session.data["state"] = "ready"
            status = {
                "id": session["container_id"], "image": "legacy-use-target:local",
                "state": {"Status": "running", "Running": True}, "network_settings": {},
                "health": {"healthy": healthy, "reason": reason, "timestamp": _now()},
            }  # fmt: skip
        return session.data | {"container_status": status}

    def _create_session(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        given = SessionCreate.model_validate(body)
        target = self.targets.get(given.target_id)
        if target is None:
            return 404, {"detail": "Target not found"}
        there = [s for s in self.sessions.values() if s["target_id"] == given.target_id and not s["is_archived"]]
        if there:
            about = {name: there[0][name] for name in ("id", "name", "state", "status", "created_at")}
            message = "An active session already exists for this target"
            return 409, {"detail": {"message": message, "existing_session": about}}
        session = self._new_session(given.name, target)
        if session.container is None:
            return 500, None  # the row stays
        return 200, self._session_view(session)

    def _new_session(self, name: str, target: Row) -> Row:
        data = {
            "id": str(uuid.uuid4()), "name": name, "description": None, "target_id": target["id"], "status": "created",
            "state": "initializing", "container_id": None, "container_ip": None, "created_at": _now(), "updated_at": _now(),
            "is_archived": False, "archive_reason": None, "last_job_time": None,
        }  # fmt: skip
        session = self.sessions[data["id"]] = Row(data)
        if self.behaviour.has_image:
            data |= {"status": "running", "container_id": uuid.uuid4().hex, "container_ip": "172.17.0.9"}
            session.container = Container(target, time.monotonic() + self.behaviour.health_after)
            if not self.behaviour.has_docker_network:
                data |= {"status": "error", "container_ip": None}
        return session

    def _get_session(self, query: dict[str, str], body: Any, session: str) -> tuple[int, Any]:
        row = self.sessions.get(session)
        return (200, self._session_view(row)) if row else (404, {"detail": "Session not found"})

    def _delete_session(self, query: dict[str, str], body: Any, session: str) -> tuple[int, Any]:
        row = self.sessions.get(session)
        if row is None:
            return 404, {"detail": "Session not found"}
        row.data |= {"state": "destroying", "is_archived": True, "archive_reason": "user-initiated"}
        if row.container is not None:
            row.container.remove()
        return 200, {"message": "Session archived successfully"}

    def _create_job(self, query: dict[str, str], body: Any, target: str) -> tuple[int, Any]:
        given = JobCreate.model_validate(body)
        row = self.targets.get(target)
        if row is None:
            return 404, {"detail": "Target not found"}
        definition = self.definitions.get(given.api_name)
        if definition is None or definition["is_archived"]:
            return 400, {"detail": f"API definition '{given.api_name}' not found"}
        there = [s for s in self.sessions.values() if s["target_id"] == target and not s["is_archived"]]
        session: Row | None = (
            there[0] if there else self._new_session(f"Auto-created session for target {target[:8]}", row)
        )
        if not there and session is not None and session.container is None:
            session = None  # that it failed is told to nobody
        active = next(version for version in definition["versions"] if version["is_active"])
        data = {
            "id": str(uuid.uuid4()), "target_id": target, "session_id": session["id"] if session else None,
            "api_name": given.api_name, "parameters": given.parameters, "status": "pending", "result": None, "error": None,
            "created_at": _now(), "updated_at": _now(), "completed_at": None, "api_exchanges": [],
            "api_definition_version_id": active["id"],
        }  # fmt: skip
        job = self.jobs[data["id"]] = Job(data)
        view = self._job_view(job)
        data["status"] = "queued"
        self.log(job, "system", "Job added to queue")
        return 200, view

    def _job_view(self, job: Job) -> dict[str, Any]:
        used = [exchange["content"] for exchange in job.exchanges]
        duration = None
        if job.status == "paused":
            duration = time.monotonic() - job.created  # it keeps growing
        elif job.completed is not None:
            duration = job.completed - job.created
        return job.data | {
            "total_input_tokens": sum(
                u["input_tokens"] + int(1.25 * u["cache_creation_tokens"]) + u["cache_read_tokens"] // 10 for u in used
            ),
            "total_output_tokens": sum(u["output_tokens"] for u in used),
            "duration_seconds": duration,
        }  # fmt: skip

    def _list_jobs(self, query: dict[str, str], body: Any, target: str) -> tuple[int, Any]:
        found = [job for job in self.jobs.values() if job.data["target_id"] == target]
        return 200, [self._job_view(job) for job in reversed(found)][: int(query.get("limit", 10))]

    def _job(self, target: str, job: str) -> Job | None:
        found = self.jobs.get(job)
        return found if found is not None and found.data["target_id"] == target else None

    def _get_job(self, query: dict[str, str], body: Any, target: str, job: str) -> tuple[int, Any]:
        found = self._job(target, job)
        return (200, self._job_view(found)) if found else (404, {"detail": "Job not found"})

    def _get_logs(self, query: dict[str, str], body: Any, target: str, job: str) -> tuple[int, Any]:
        found = self._job(target, job)
        return (200, list(found.logs)) if found else (404, {"detail": "Job not found"})

    def _get_exchanges(self, query: dict[str, str], body: Any, target: str, job: str) -> tuple[int, Any]:
        found = self._job(target, job)
        return (200, list(found.exchanges)) if found else (404, {"detail": "Job not found"})

    def _cancel(self, query: dict[str, str], body: Any, target: str, job: str) -> tuple[int, Any]:
        found = self._job(target, job)
        if found is None:
            return 404, {"detail": "Job not found"}
        if found.status not in ("pending", "queued"):
            detail = f"Job {job} cannot be canceled. Only pending or queued jobs can be canceled."
            return 400, {"detail": detail}
        found.data["status"] = "canceled"
        return 200, {"message": f"Job {job} canceled successfully."}

    def _interrupt(self, query: dict[str, str], body: Any, target: str, job: str) -> tuple[int, Any]:
        found = self._job(target, job)
        if found is None:
            return 404, {"detail": "Job not found"}
        if found.status in TERMINAL:
            return 400, {"detail": f"Job {job} is already in a terminal state"}
        if found.status != "running":
            crashes = found.status != "queued"
            found.data["status"] = "error"
            return (500, None) if crashes else (200, {"message": f"Job {job} interrupt requested."})
        timer = threading.Timer(self.behaviour.interrupt_after, self.interrupted, [found])
        timer.daemon = True
        timer.start()
        return 200, {"message": f"Job {job} interrupt requested."}

    def interrupted(self, job: Job) -> None:
        """An interrupt takes effect: the loop is cancelled; what the container is doing just now it does to its end."""
        job.stopping.set()
        if not job.abandoned:
            self.finish(job, "paused", INTERRUPTED)

    def _resume(self, query: dict[str, str], body: Any, target: str, job: str) -> tuple[int, Any]:
        found = self._job(target, job)
        if found is None:
            return 404, {"detail": "Job not found"}
        if found.status not in BLOCKING:
            return 400, {"detail": f"Job {job} cannot be resumed from state {found.status}"}
        found.stopping.clear()
        found.data |= {"status": "queued", "error": None}
        return 200, self._job_view(found)

    def _resolve(self, query: dict[str, str], body: Any, target: str, job: str) -> tuple[int, Any]:
        found = self._job(target, job)
        if found is None:
            return 404, {"detail": "Job not found"}
        if found.status not in BLOCKING:
            return 400, {"detail": f"Cannot resolve job in status {found.status}"}
        found.data |= {"status": "success", "result": body}
        return 200, found.data | {"lease_owner": None, "lease_expires_at": None}

    # --- definitions and settings ---

    def _import(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        given = Import.model_validate(body).api_definition
        known = self.definitions.get(given.name)
        message = f"Created new API '{given.name}'"
        if known is None:
            known = self.definitions[given.name] = {
                "id": str(uuid.uuid4()), "name": given.name, "description": given.description, "is_archived": False,
                "created_at": _now(), "updated_at": _now(), "versions": [],
            }  # fmt: skip
        else:  # an archived one stays archived
            message = f"Updated existing API '{given.name}' with new version {len(known['versions']) + 1}"
        for version in known["versions"]:
            version["is_active"] = False
        content = given.model_dump(include={"parameters", "prompt", "prompt_cleanup", "response_example"})
        known["versions"].append(
            {"id": str(uuid.uuid4()), "version_number": str(len(known["versions"]) + 1), **content, "created_at": _now(),
             "is_active": True}
        )  # fmt: skip
        return 200, {"status": "success", "message": message, "name": given.name}

    def _list_definitions(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        return 200, [{"name": name} for name, known in self.definitions.items() if not known["is_archived"]]

    def _metadata(self, query: dict[str, str], body: Any, name: str) -> tuple[int, Any]:
        known = self.definitions.get(name)
        if known is None:
            return 404, {"detail": f"API definition '{name}' not found"}
        return 200, {key: value for key, value in known.items() if key != "versions"}

    def _versions(self, query: dict[str, str], body: Any, name: str) -> tuple[int, Any]:
        known = self.definitions.get(name)
        if known is None:
            return 404, {"detail": f"API definition '{name}' not found"}
        return 200, {"versions": list(reversed(known["versions"]))}

    def _archive_definition(self, query: dict[str, str], body: Any, name: str) -> tuple[int, Any]:
        self.definitions[name]["is_archived"] = True
        return 200, {"status": "success", "message": "archived"}

    def _unarchive_definition(self, query: dict[str, str], body: Any, name: str) -> tuple[int, Any]:
        self.definitions[name]["is_archived"] = False
        return 200, {"status": "success", "message": "unarchived"}

    def _providers(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        models = {"anthropic": "claude-sonnet-4-20250514", "openai": "gpt-5"}
        return 200, {"current_provider": self.behaviour.provider, "providers": [
            {"provider": name, "name": name.title(), "default_model": model, "available": name in self.provider_credentials,
             "description": "", "credentials": {"api_key": "****6789"}} for name, model in models.items()
        ]}  # fmt: skip

    def _set_provider(self, query: dict[str, str], body: Any) -> tuple[int, Any]:
        given = ProviderUpdate.model_validate(body)
        if given.provider not in ("anthropic", "openai") or "api_key" not in given.credentials:
            return 400, {"detail": "unknown provider or missing credential"}
        self.provider_credentials[given.provider] = given.credentials
        self.behaviour.provider = given.provider
        return 200, {"status": "success", "message": f"{given.provider} is active"}


_ROUTES: list[tuple[str, str, Callable[..., tuple[int, Any]]]] = [
    ("GET", "targets/", LegacyUseServer._list_targets),
    ("POST", "targets/", LegacyUseServer._create_target),
    ("GET", "targets/([^/]+)", LegacyUseServer._get_target),
    ("DELETE", "targets/([^/]+)", LegacyUseServer._archive_target),
    ("DELETE", "targets/([^/]+)/hard", LegacyUseServer._erase_target),
    ("GET", "sessions/", LegacyUseServer._list_sessions),
    ("POST", "sessions/", LegacyUseServer._create_session),
    ("GET", "sessions/([^/]+)", LegacyUseServer._get_session),
    ("DELETE", "sessions/([^/]+)", LegacyUseServer._delete_session),
    ("POST", "targets/([^/]+)/jobs/", LegacyUseServer._create_job),
    ("GET", "targets/([^/]+)/jobs/", LegacyUseServer._list_jobs),
    ("GET", "targets/([^/]+)/jobs/([^/]+)", LegacyUseServer._get_job),
    ("GET", "targets/([^/]+)/jobs/([^/]+)/logs/", LegacyUseServer._get_logs),
    ("GET", "targets/([^/]+)/jobs/([^/]+)/http_exchanges/", LegacyUseServer._get_exchanges),
    ("POST", "targets/([^/]+)/jobs/([^/]+)/cancel/", LegacyUseServer._cancel),
    ("POST", "targets/([^/]+)/jobs/([^/]+)/interrupt/", LegacyUseServer._interrupt),
    ("POST", "targets/([^/]+)/jobs/([^/]+)/resume/", LegacyUseServer._resume),
    ("POST", "targets/([^/]+)/jobs/([^/]+)/resolve/", LegacyUseServer._resolve),
    ("POST", "api/definitions/import", LegacyUseServer._import),
    ("GET", "api/definitions", LegacyUseServer._list_definitions),
    ("GET", "api/definitions/([^/]+)/metadata", LegacyUseServer._metadata),
    ("GET", "api/definitions/([^/]+)/versions", LegacyUseServer._versions),
    ("DELETE", "api/definitions/([^/]+)", LegacyUseServer._archive_definition),
    ("POST", "api/definitions/([^/]+)/unarchive", LegacyUseServer._unarchive_definition),
    ("GET", "settings/providers", LegacyUseServer._providers),
    ("POST", "settings/providers", LegacyUseServer._set_provider),
]


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    peer: LegacyUseServer

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        parts = urlsplit(self.path)
        prefix = f"{self.peer.behaviour.prefix}/"
        path = parts.path.removeprefix(prefix) if parts.path.startswith(prefix) else ""
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if refused := self._refused(path, query):
            self._send(refused[0], json.dumps(refused[1]))
            return
        self.peer.requests.append((self.command, path))
        self.peer.before(self.command, path)
        fault = self._fault(path)
        if fault == "hung":
            self.peer.over.wait(20)
        if fault in ("silent", "hung"):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if fault == "broken":
            self._send(500, "")
            return
        try:
            status, body = self.peer.answer(self.command, path, query, json.loads(raw) if raw else None)
        except ValidationError as error:
            status, body = 422, json.dumps({"detail": json.loads(error.json(include_url=False))})
        except ValueError:
            status, body = (
                422,
                json.dumps({"detail": [{"type": "json_invalid", "loc": ["body"], "msg": "JSON decode error"}]}),
            )
        if fault == "lost":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self._send(500 if fault == "broken_after" else status, body)

    do_GET = do_POST = do_DELETE = do_PUT = _handle  # noqa: N815 - names of the library

    def _refused(self, path: str, query: dict[str, str]) -> tuple[int, Any] | None:
        if self.command == "GET" and path == "openapi.json":
            return 200, {"openapi": "3.1.0", "info": {"title": "AI API Gateway"}}
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if host != TENANT:
            message = f"No tenant found for host: {host}"
            return 403, {"detail": "Tenant not found", "error_type": "tenant_not_found", "message": message}
        if not self.peer.behaviour.tenant_active:
            return 403, {
                "detail": "Tenant is inactive",
                "error_type": "tenant_inactive",
                "message": "Tenant is inactive",
            }
        key = self.headers.get("X-API-Key") or query.get("api_key")
        if key is None:
            return 401, {"detail": "API key is missing"}
        return None if key == KEY else (401, {"detail": "Invalid API Key"})

    def _fault(self, path: str) -> str | None:
        for fault in self.peer.faults:
            if fault.times > 0 and fault.method == self.command and re.fullmatch(fault.path, path):
                fault.times -= 1
                return fault.kind
        return None

    def _send(self, status: int, body: str) -> None:
        data = b"Internal Server Error" if status == 500 else body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if status == 500 else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)
        if status == 500:
            self.close_connection = True  # uvicorn drops the connection without having said so


def _now() -> str:
    """The server's time, as it writes it: without a zone."""
    return datetime.now().isoformat()  # noqa: DTZ005 - the habit that is reproduced
