"""What the tests of the legacy-use agent share: a server, a display without a machine, a configuration and a task."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.agents.base import AgentReport, AgentTask
from runner.agents.legacyuse.agent import LegacyUseAgent
from runner.agents.legacyuse.configuration import Configuration, load
from runner.display.handshake import DisplayAddress
from tests.peers.legacy_use_server import KEY, LegacyUseServer
from tests.peers.rfb_server import FakeRfbServer

PASSWORD = "recorder"
LONG = 60.0
"""Seconds that no test waits for unless something is broken."""
TEMPLATE = "Register {{first_name}} {{last_name}}; the number is {{number}}."
PARAMETERS = {"first_name": "Erika", "last_name": "Muster", "number": 42}
EXAMPLE = {"patient_number": "000000", "address": {"town": "text"}}
RESULT: dict[str, Any] = {"patient_number": "000104", "address": {"town": "Ulm"}}

LIMITS = """\
limits:
  health: {health}
  queue: {queue}
  stop: {stop}
  reserve: {reserve}
  outage: {outage}
  answer: {answer}
  poll: 20ms
"""
SOON: dict[str, str] = {
    "health": "20s",
    "queue": "20s",
    "stop": "20s",
    "reserve": "20s",
    "outage": "20s",
    "answer": "20s",
}
"""Patience that only a broken test uses up; a test that is about one of them shortens it."""


def configuration(server: LegacyUseServer, folder: Path, more: str = "", **limits: str) -> Configuration:
    """A configuration for the stand-in, with its key in the environment."""
    path = folder / "legacy-use.yaml"
    path.write_text(f"schema: 1\nurl: {server.url}\n{more}{LIMITS.format(**{**SOON, **limits})}")
    return load(str(path), {"LEGACY_USE_API_KEY": KEY})


def task(display: DisplayAddress, *, seconds: float = LONG, **about: Any) -> AgentTask:
    """A task whose prompt is made from a template."""
    given: dict[str, Any] = {
        "contract": "dswin.add-new-patient",
        "instruction": "Register a patient.",
        "prompt": "Register Erika Muster; the number is 42.",
        "parameters": PARAMETERS,
        "response_schema": None,
        "display": display,
        "timeout": seconds,
        "deadline": time.monotonic() + seconds,
        "folder": Path("nowhere"),
        "windows": tuple,
        "cancelled": threading.Event(),
        "prompt_template": TEMPLATE,
        "response_example": EXAMPLE,
    }
    return AgentTask(**{**given, **about})


@dataclass
class Clock:
    """What the agent takes for the time: a model can end the agent's time at the moment that a test is about."""

    shift: float = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.shift

    def end_the_time(self) -> None:
        """From now on every deadline is over."""
        self.shift = 1_000_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock by which the agent's own time ends."""
    made = Clock()
    monkeypatch.setattr("runner.agents.legacyuse.agent.time", made)
    return made


@dataclass
class Bench:
    """A server, a display and an agent.

    Attributes:
        server: The stand-in.
        display: What is connected to.
        folder: For files.
        limits: The agent's patience.
        more: More lines for the configuration.
    """

    server: LegacyUseServer
    display: FakeRfbServer
    folder: Path
    limits: dict[str, str] = field(default_factory=dict)
    more: str = ""
    made: LegacyUseAgent | None = None

    @property
    def address(self) -> DisplayAddress:
        return DisplayAddress("127.0.0.1", self.display.port, PASSWORD)

    @property
    def agent(self) -> LegacyUseAgent:
        """The agent, made once as in a campaign."""
        if self.made is None:
            self.made = LegacyUseAgent(configuration(self.server, self.folder, self.more, **self.limits))
        return self.made

    def run(self, **about: Any) -> AgentReport:
        """One run."""
        return self.agent.run(task(self.address, **about))

    def assert_tidy(self) -> None:
        """Nothing that works is left on the server."""
        assert all(target["is_archived"] for target in self.server.targets.values())
        assert all(session["is_archived"] for session in self.server.sessions.values())
        assert not [job.data for job in self.server.jobs.values() if job.status in ("running", "queued", "pending")]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A bench whose jobs succeed at once."""
    display = FakeRfbServer(size=(1024, 768), password=PASSWORD.encode())
    with display, LegacyUseServer(lambda work: work.extract(RESULT)) as server:
        yield Bench(server, display, tmp_path)
