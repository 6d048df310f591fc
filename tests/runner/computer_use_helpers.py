"""The four providers' stand-ins under one roof, and a run of the agent against one of them on a fake display."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.agents.base import AgentReport, AgentTask
from runner.agents.computer_use import ComputerUseAgent
from runner.agents.computeruse.prices import load_prices
from runner.agents.computeruse.settings import Settings
from runner.display.handshake import DisplayAddress
from tests.peers.model_servers.anthropic import AnthropicServer
from tests.peers.model_servers.base import KEY, Act, Expected, Model, ModelServer, Seen, act
from tests.peers.model_servers.compatible import CompatibleServer
from tests.peers.model_servers.gemini import GeminiServer
from tests.peers.model_servers.openai import OpenAIServer
from tests.peers.rfb_server import FakeRfbServer

SERVERS: Mapping[str, type[ModelServer]] = {
    "anthropic": AnthropicServer,
    "openai": OpenAIServer,
    "gemini": GeminiServer,
    "compatible": CompatibleServer,
}
MODELS = {"anthropic": "claude-opus-5", "openai": "gpt-5.5", "gemini": "gemini-3.5-flash", "compatible": "kimi-k2.5"}
PROVIDERS = tuple(SERVERS)
SIZE = (320, 240)
RETURNS = {"type": "object", "required": ["number"], "properties": {"number": {"type": "string"}}}
PRICES = load_prices()
KEY_VARIABLE = "TEST_MODEL_KEY"


@dataclass
class Ran:
    """What came of a run."""

    report: AgentReport
    server: ModelServer
    screen: FakeRfbServer

    @property
    def told(self) -> str:
        """The whole account as text."""
        return "\n".join(entry.text for entry in self.report.timeline)

    @property
    def inputs(self) -> list[tuple[object, ...]]:
        """What reached the display, without pointer events that repeat the place and buttons before."""
        return self.screen.inputs


def scripted(*replies: list[Act] | Act) -> Model:
    """A model that gives these replies, one after the other; after the last one it reports success."""
    waiting = [reply if isinstance(reply, list) else [reply] for reply in replies]
    done = [act("extraction", data={"number": "104"})]

    def model(seen: Seen) -> list[Act]:
        return waiting.pop(0) if waiting else done

    return model


@contextmanager
def serving(provider: str, model: Model, **about: Any) -> Iterator[ModelServer]:
    """A stand-in for a provider."""
    expected = Expected(about.pop("name", MODELS[provider]), **({"size": SIZE, "returns": RETURNS} | about))
    with SERVERS[provider](model, expected) as server:
        yield server


def settings_for(provider: str, server: ModelServer, **about: Any) -> Settings:
    """Settings that lead to a stand-in, without any wait beyond need."""
    base: dict[str, Any] = {
        "provider": provider, "model": server.expected.model, "base_url": server.url, "key_variable": KEY_VARIABLE, "quiet": "10ms",
        "settle": "100ms", "retry_wait": "10ms", "request_timeout": "30s",
    }  # fmt: skip
    return Settings.model_validate(base | about)


def task_for(port: int, seconds: float = 60.0, **about: Any) -> AgentTask:
    """A task on a fake display."""
    given: dict[str, Any] = {
        "contract": "a.b", "instruction": "do it", "prompt": "Do it now.", "parameters": {}, "response_schema": RETURNS,
        "display": DisplayAddress("127.0.0.1", port), "timeout": seconds, "deadline": time.monotonic() + seconds,
        "folder": Path("nowhere"), "windows": tuple, "cancelled": threading.Event(),
    }  # fmt: skip
    return AgentTask(**(given | about))


def run_model(
    provider: str,
    model: Model,
    *,
    seconds: float = 60.0,
    task: Mapping[str, Any] | None = None,
    expected: Mapping[str, Any] | None = None,
    prepare: Callable[[ModelServer], None] = lambda _: None,
    screen: FakeRfbServer | None = None,
    **settings: Any,
) -> Ran:
    """Runs the agent against a stand-in on a fake display; complaints of the stand-in fail the test.

    Args:
        provider: Whose.
        model: What the scripted model does.
        seconds: The agent's time.
        task: Changes to the task.
        expected: Changes to what requests must hold.
        prepare: Called with the server before the run.
        screen: The display, if it is not to be an empty one.
        settings: Changes to the settings.
    """
    with serving(provider, model, **dict(expected or {})) as server, screen or FakeRfbServer(size=SIZE) as display:
        prepare(server)
        agent = ComputerUseAgent(settings_for(provider, server, **settings), PRICES)
        try:
            report = agent.run(task_for(display.port, seconds, **dict(task or {})))
        finally:
            assert server.complaints == []
        assert KEY not in repr(report)
        return Ran(report, server, display)
