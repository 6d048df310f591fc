"""What the server stores, and how it is told to act."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from tests.peers.legacy_use.container import Container

PROVIDER_KEY = "sk-ant-planted-provider-key-0123456789"
INTERRUPTED = "Job was interrupted by user"
BLOCKING = ("paused", "error")
TERMINAL = ("success", "error")

FaultKind = Literal["lost", "broken", "broken_after", "silent", "hung"]


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
    interrupt_waiting_after: float = 0.05  # 0.6 s: of a job that still waits for its session
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
    """One target or session, as the server stores it."""

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
    executing: bool = False
    """Its session was ready, and the model has begun."""
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

    def log(self, kind: str, content: Any) -> None:
        """Adds to its log."""
        self.logs.append(
            {"id": str(uuid.uuid4()), "job_id": self.id, "timestamp": now(), "log_type": kind, "content": content}
        )

    def tokens(self) -> tuple[int, int]:
        """The server's totals: with cached tokens as it has weighted them in each exchange, and zero for OpenAI's."""
        used = [exchange["content"] for exchange in self.exchanges]
        taken = sum(u["input_tokens"] + u["cache_creation_tokens"] + u["cache_read_tokens"] for u in used)
        return taken, sum(u["output_tokens"] for u in used)

    def row(self) -> dict[str, Any]:
        """As the database holds it, and as targets list the jobs that block them."""
        taken, given = self.tokens()
        return {name: value for name, value in self.data.items() if name != "api_exchanges"} | {
            "total_input_tokens": taken, "total_output_tokens": given, "lease_owner": None, "lease_expires_at": None,
            "cancel_requested": self.stopping.is_set(),
        }  # fmt: skip


class Ended(Exception):
    """The job's loop ends here, whatever the model would do next."""

    def __init__(self, status: str, error: str | None) -> None:
        self.status, self.error = status, error


def now(*, zone: bool = False) -> str:
    """The server's time, as it writes it: without a zone, only a container's health with one."""
    if zone:
        return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f+0000")
    return datetime.now().isoformat()  # noqa: DTZ005 - the habit that is reproduced


def query_flag(query: Mapping[str, str], name: str) -> bool:
    """A flag in a request's address."""
    return query.get(name) == "true"
