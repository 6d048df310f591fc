"""A channel to a guest agent that listens on this computer: its own protocol over a UNIX socket."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from runner.guests.base import GuestLost
from runner.guests.channel import AgentError, ChannelTimeout

MAX_REPLY = 64 << 20
"""Bytes of the largest reply that is taken; QEMU's agent keeps 16 MiB of each output, a third more in base64."""
_DELIMITER = b"\xff"


class SocketChannel:
    """A channel (see :class:`runner.guests.channel.Channel`).

    After a reply that did not come the next command first brings both ends into step again (``guest-sync-delimited``), so that a
    late reply is never taken for another command's.
    """

    def __init__(self, path: Path) -> None:
        """Connects at the first command.

        Args:
            path: The socket.
        """
        self._path = path
        self._socket: socket.socket | None = None
        self._waiting = bytearray()
        self._in_step = False
        self._lock = threading.Lock()

    def command(self, name: str, arguments: Mapping[str, object], timeout: float) -> object:
        """See :meth:`Channel.command`."""
        with self._lock:
            deadline = time.monotonic() + timeout
            if self._socket is None:
                self._connect(deadline)
            if not self._in_step:
                self._synchronise(deadline)
            self._in_step = False
            self._send(_request(name, arguments), deadline)
            line = self._receive(b"\n", deadline)
            answer = _decoded(line)
            self._in_step = True
            return _returned(answer)

    def close(self) -> None:
        """Lets go of the socket; the next command connects again."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
        self._socket = None
        self._waiting.clear()
        self._in_step = False

    def _connect(self, deadline: float) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            connection.connect(str(self._path))
        except OSError as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ChannelTimeout("the guest agent's socket takes no connection in time") from None
            raise GuestLost(f"there is no guest agent at its socket: {error.strerror or error}") from None
        self._socket = connection

    def _synchronise(self, deadline: float) -> None:
        number = secrets.randbelow(1 << 31)
        # The delimiter makes the agent drop what it has of a command that was cut.
        self._send(_DELIMITER + _request("guest-sync-delimited", {"id": number}), deadline)
        while True:
            self._receive(_DELIMITER, deadline)
            with contextlib.suppress(ChannelTimeout):
                answer = _decoded(self._receive(b"\n", deadline))
                if answer.get("return") == number and type(answer.get("return")) is int:
                    return
            if time.monotonic() >= deadline:
                raise ChannelTimeout("the guest agent could not be brought into step")

    def _send(self, data: bytes, deadline: float) -> None:
        connection = self._socket
        assert connection is not None
        try:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            connection.sendall(data)
        except OSError as error:
            self.close()
            raise ChannelTimeout(f"the guest agent takes no commands: {error}") from None

    def _receive(self, end: bytes, deadline: float) -> bytes:
        """What comes before the end mark; what follows it is kept."""
        connection = self._socket
        assert connection is not None
        seen = 0
        while (found := self._waiting.find(end, seen)) < 0:
            seen = len(self._waiting)
            if seen > MAX_REPLY:
                self.close()
                raise ChannelTimeout(f"the guest agent's reply is larger than {MAX_REPLY} bytes")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelTimeout("the guest agent did not reply in time")
            try:
                connection.settimeout(left)
                chunk = connection.recv(1 << 16)
            except TimeoutError:
                raise ChannelTimeout("the guest agent did not reply in time") from None
            except OSError as error:
                self.close()
                raise ChannelTimeout(f"the connection to the guest agent broke: {error}") from None
            if not chunk:
                self.close()
                raise ChannelTimeout("the guest agent closed the connection without a reply")
            self._waiting += chunk
        part = bytes(self._waiting[:found])
        del self._waiting[: found + len(end)]
        return part


def _request(name: str, arguments: Mapping[str, object]) -> bytes:
    return json.dumps({"execute": name, "arguments": dict(arguments)}).encode("ascii") + b"\n"


def _decoded(line: bytes) -> dict[str, object]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise ChannelTimeout("the guest agent's reply is no JSON") from None
    if type(answer) is not dict:
        raise ChannelTimeout("the guest agent's reply is no JSON object")
    return answer


def _returned(answer: dict[str, object]) -> object:
    error = answer.get("error")
    if isinstance(error, dict):
        raise AgentError(str(error.get("class")), str(error.get("desc")))
    if "return" not in answer:
        raise ChannelTimeout("the guest agent's reply holds neither a result nor an error")
    return answer["return"]
