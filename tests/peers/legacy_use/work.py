"""A job from inside: what a model gets of the server, and models that play this project's scripts."""

from __future__ import annotations

import base64
import io
import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from contracts.load import read_model
from runner.agents.base import AgentTask
from runner.agents.scripted import Script, ScriptedAgent
from runner.display.handshake import DisplayAddress
from runner.display.rfb import RfbClient
from tests.peers.legacy_use.container import Container
from tests.peers.legacy_use.rows import INTERRUPTED, PROVIDER_KEY, Ended, Job, now

if TYPE_CHECKING:
    from tests.peers.legacy_use.workers import Workers

NO_KEY = (
    '"Could not resolve authentication method. Expected either api_key or auth_token to be set. Or for one of the `X-Api-Key` or '
    '`Authorization` headers to be explicitly omitted"'
)
"""What becomes of the first turn of a job for whose provider the server has no key; the quotation marks belong to it."""
CREDITS = "API Credits Exceeded"
_USAGE = {
    "input_tokens": 1000, "output_tokens": 50, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 200,
}  # fmt: skip
_USAGE_OF_OPENAI = {"prompt_tokens": 900, "completion_tokens": 40}


class Work:
    """What a model gets: the prompt as the server makes it, the display, and its tools.

    Attributes:
        keeps_answers: Whether the bodies of the provider's answers stand in the exchanges.
    """

    def __init__(self, server: Workers, job: Job, container: Container | None, prompt: str) -> None:
        self.server, self.job, self.prompt = server, job, prompt
        self.parameters: dict[str, Any] = dict(job.data["parameters"])
        self.keeps_answers = True
        self._container = container
        self._extracted: dict[str, Any] | None = None

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
            raise Ended("paused", INTERRUPTED)
        if self._container is None:
            raise Ended("paused", "Health check prerequisites not met (session_id missing).")
        healthy, reason = self._container.health()
        if not healthy:
            raise Ended("paused", reason)

    def turn(self, *blocks: dict[str, Any]) -> None:
        """One exchange with the provider, whose answer holds these blocks."""
        if self.server.behaviour.provider not in self.server.provider_credentials:
            self.crash("TypeError", NO_KEY)
        of_openai = self.server.behaviour.provider == "openai"
        usage = _USAGE_OF_OPENAI if of_openai else _USAGE
        self._exchange(
            {"status_code": 200, "body": json.dumps({"content": list(blocks), "usage": usage}) if self.keeps_answers else None},
            {"input_tokens": usage.get("input_tokens", 0), "output_tokens": usage.get("output_tokens", 0),
             "cache_creation_tokens": int(1.25 * usage.get("cache_creation_input_tokens", 0)),
             "cache_read_tokens": usage.get("cache_read_input_tokens", 0) // 10},
        )  # fmt: skip
        for block in blocks:
            self.job.log("message", block)

    def _exchange(self, response: dict[str, Any] | None, about: dict[str, Any]) -> None:
        key = PROVIDER_KEY
        conversation = [{"role": "user", "content": self.prompt}, *[entry["content"] for entry in self.job.logs]]
        content: dict[str, Any] = {
            "timestamp": now(),
            "request": {"method": "POST", "url": "https://api.anthropic.com/v1/messages",
                        "headers": {"x-api-key": key, "authorization": f"Bearer {key}"},
                        "body_size": 1, "body": json.dumps({"messages": conversation}, default=str)},
            "input_tokens": 0, "output_tokens": 0, "cache_creation_tokens": 0, "cache_read_tokens": 0,
        }  # fmt: skip
        if response is not None:
            content["response"] = {"headers": {}, "body_size": len(response["body"] or ""), **response}
        self.job.exchanges.append({
            "id": str(uuid.uuid4()), "job_id": self.job.id, "timestamp": now(), "log_type": "http_exchange",
            "content": content | about,
        })  # fmt: skip

    def answers(self, status: int, body: dict[str, Any] | str) -> None:
        """An answer of the provider that is none of the model's: logged; the client may ask again."""
        self._exchange({"status_code": status, "body": body if isinstance(body, str) else json.dumps(body)}, {})

    def refused(self, status: int, body: dict[str, Any] | str) -> NoReturn:
        """The provider's last answer is an error, of which the client makes words of its own; a body that is no JSON it takes as it is."""
        self.answers(status, body)
        words = body if isinstance(body, str) else f"Error code: {status} - {body}"
        if status == 403 and CREDITS in words:
            raise Ended("paused", words)
        self.crash("anthropic.APIStatusError", words)

    def unreached(self, error: str, exception: str = "anthropic.APIConnectionError") -> NoReturn:
        """The provider cannot be reached."""
        self._exchange(None, {"error": {"type": "ConnectError", "message": "[Errno 111] Connection refused"}})
        self.crash(exception, error)

    def crash(self, exception: str, error: str) -> NoReturn:
        """An exception ends the loop."""
        self.job.log(
            "error", f'Traceback (most recent call last):\n  File "loop.py", line 1, in run\n{exception}: {error}'
        )
        raise Ended("error", error)

    def say(self, text: str) -> None:
        """A turn with words."""
        self.turn({"type": "text", "text": text})

    def tool(self, name: str, given: dict[str, Any], *, output: str = "", shot: bool = False) -> None:
        """A turn with one tool, checked before it is used; what it does has to be done by the model's function."""
        self.turn(_tool_use(name, given))
        self.check()
        self.result(output=output, shot=shot)

    def result(self, *, output: str = "", error: str | dict[str, Any] = "", shot: bool = False) -> None:
        """A tool's result in the log; what a container has answered with a status of 400 is an object."""
        content: dict[str, Any] = {"tool_id": str(uuid.uuid4()), "output": output, "error": error, "has_image": shot}
        if shot:
            content["base64_image"] = self._shot()
        self.job.log("tool_use", content)

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
        self.tool("extraction", {"data": data}, output=json.dumps(data, indent=2))
        self._extracted = data["result"] if isinstance(data, dict) and "result" in data else data

    def mismatch(self, reasoning: str) -> None:
        """The tool that ends the job at once."""
        self.turn(_tool_use("ui_not_as_expected", {"reasoning": reasoning}))
        self.check()
        raise Ended("paused", reasoning)

    def fail(self, status: str, error: str | None) -> None:
        """Ends the job as the server's loop does for reasons of its own."""
        raise Ended(status, error)

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
