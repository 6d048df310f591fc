"""A guest agent in memory that follows QEMU's habits and, where a test says so, loses replies, lies, or talks nonsense.

It keeps files with positions and handles, forgets a program once its end was reported, and starts the probe as a function of the
request. What it proves is the client's behaviour; that QEMU's agent has these habits is shown by the tests with the real one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.guests.channel import AgentError, ChannelTimeout
from tests.runner.test_probe_protocol import dump, end, header

Probe = Callable[[list[str]], tuple[int, bytes]]
"""From the request's strings to exit status and standard output."""


def spoken(request: list[str], *records: dict[str, Any], **in_header: Any) -> bytes:
    """A whole answer of the probe to a request, with its id."""
    body = b"".join(map(dump, records))
    number = request[request.index("--id") + 1]
    return header(request[0], id=number, **in_header) + body + end(body, id=number)


def refused(request: list[str], code: int, message: str = "no") -> bytes:
    """The probe's answer that the command failed."""
    number = request[request.index("--id") + 1]
    return header(request[0], id=number) + end(b"", id=number, status="error", error={"code": code, "message": message})


@dataclass
class Handle:
    """An open file."""

    path: str
    position: int = 0


@dataclass
class FakeAgent:
    """A channel (see :class:`runner.guests.channel.Channel`).

    Attributes:
        probe: What the probe answers.
        files: Contents by native path.
        script: For the next commands of a name, in order: ``lose`` (carry it out, lose the reply), ``drop`` (lose the command),
            an exception to raise, or a value to reply instead.
        sent: Names and arguments of all commands.
        open: Handles that are open now.
        frozen: File systems that are frozen.
        ran: Requests that the probe was given, and other programs' arguments.
    """

    probe: Probe = lambda request: (0, spoken(request))
    files: dict[str, bytes] = field(default_factory=dict)
    script: dict[str, list[object]] = field(default_factory=dict)
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    open: dict[int, Handle] = field(default_factory=dict)
    ended: dict[int, dict[str, Any]] = field(default_factory=dict)
    frozen: int = 0
    clock: int = 0
    ran: list[list[str]] = field(default_factory=list)
    other: Callable[[str, list[str]], tuple[int, bytes]] = lambda path, arguments: (127, b"")
    _next: int = 1000

    def names(self) -> list[str]:
        """The commands sent."""
        return [name for name, _ in self.sent]

    def command(self, name: str, arguments: Mapping[str, object], timeout: float) -> object:
        """See :meth:`Channel.command`."""
        assert timeout > 0
        self.sent.append((name, json.loads(json.dumps(dict(arguments)))))
        planned = self.script.get(name, [])
        plan = planned.pop(0) if planned else None
        if plan == "drop":
            raise ChannelTimeout("lost on the way there")
        if isinstance(plan, BaseException):
            raise plan
        if plan is not None and plan != "lose":
            return plan
        reply = getattr(self, "_" + name.removeprefix("guest-").replace("-", "_"))(dict(arguments))
        if plan == "lose":
            raise ChannelTimeout("lost on the way back")
        return reply

    def _number(self) -> int:
        self._next += 1
        return self._next

    def _ping(self, about: dict[str, Any]) -> object:
        return {}

    def _exec(self, about: dict[str, Any]) -> object:
        arguments = about["arg"]
        if "ask" in arguments:
            request = json.loads(base64.b64decode(about["input-data"]))
            self.ran.append(request)
            status, out = self.probe(request)
        else:
            self.ran.append([about["path"], *arguments])
            status, out = self.other(about["path"], arguments)
        pid = self._number()
        self.ended[pid] = {"exited": True, "exitcode": status, "out-data": base64.b64encode(out).decode()}
        return {"pid": pid}

    def _exec_status(self, about: dict[str, Any]) -> object:
        if about["pid"] not in self.ended:
            raise AgentError("GenericError", "Invalid parameter 'pid'")
        return self.ended.pop(about["pid"])

    def _handle(self, about: dict[str, Any]) -> Handle:
        if about["handle"] not in self.open:
            raise AgentError("GenericError", f"handle '{about['handle']}' has not been found")
        return self.open[about["handle"]]

    def _file_open(self, about: dict[str, Any]) -> object:
        if "w" in about["mode"]:
            self.files[about["path"]] = b""
        elif about["path"] not in self.files:
            raise AgentError("GenericError", f"failed to open file '{about['path']}': No such file or directory")
        number = self._number()
        self.open[number] = Handle(about["path"])
        return number

    def _file_close(self, about: dict[str, Any]) -> object:
        self._handle(about)
        del self.open[about["handle"]]
        return {}

    def _file_flush(self, about: dict[str, Any]) -> object:
        self._handle(about)
        return {}

    def _file_seek(self, about: dict[str, Any]) -> object:
        handle = self._handle(about)
        handle.position = about["offset"] + (len(self.files[handle.path]) if about["whence"] == "end" else 0)
        return {"position": handle.position, "eof": False}

    def _file_read(self, about: dict[str, Any]) -> object:
        handle = self._handle(about)
        chunk = self.files[handle.path][handle.position : handle.position + about["count"]]
        handle.position += len(chunk)
        return {"count": len(chunk), "buf-b64": base64.b64encode(chunk).decode(), "eof": not chunk}

    def _file_write(self, about: dict[str, Any]) -> object:
        handle, chunk = self._handle(about), base64.b64decode(about["buf-b64"])
        old = self.files[handle.path].ljust(handle.position, b"\0")
        self.files[handle.path] = old[: handle.position] + chunk + old[handle.position + len(chunk) :]
        handle.position += len(chunk)
        return {"count": len(chunk), "eof": False}

    def _fsfreeze_status(self, about: dict[str, Any]) -> object:
        return "frozen" if self.frozen else "thawed"

    def _fsfreeze_freeze(self, about: dict[str, Any]) -> object:
        self.frozen = 2
        return 2

    def _fsfreeze_thaw(self, about: dict[str, Any]) -> object:
        was, self.frozen = self.frozen, 0
        return was

    def _get_time(self, about: dict[str, Any]) -> object:
        return self.clock

    def _set_time(self, about: dict[str, Any]) -> object:
        self.clock = about["time"]
        return {}
