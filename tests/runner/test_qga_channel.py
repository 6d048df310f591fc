"""The agent's protocol over a socket: replies that are late, cut, garbage or too large are never taken for an answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.guests.base import GuestLost
from runner.guests.channel import AgentError, ChannelTimeout
from tests.peers import socket_channel
from tests.peers.socket_channel import SocketChannel

Serve = Callable[[socket.socket, dict[str, object]], None]


class Stand:
    """An agent that does what a function does with each command it gets; synchronising it does by itself."""

    def __init__(self, path: Path, serve: Serve) -> None:
        self.path = path
        self.commands: list[str] = []
        self._serve = serve
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as lines:
                for line in lines:
                    command = json.loads(line.lstrip(b"\xff"))
                    self.commands.append(command["execute"])
                    try:
                        if command["execute"] == "guest-sync-delimited":
                            connection.sendall(b'\xff{"return": %d}\n' % command["arguments"]["id"])
                        else:
                            self._serve(connection, command)
                    except OSError:
                        break

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Callable[[Serve], tuple[Stand, SocketChannel]]]:
    made: list[tuple[Stand, SocketChannel]] = []

    def make(serve: Serve) -> tuple[Stand, SocketChannel]:
        here = Stand(tmp_path / f"s{len(made)}", serve)
        made.append((here, SocketChannel(here.path)))
        return made[-1]

    yield make
    for here, way in made:
        way.close()
        here.close()


def say(connection: socket.socket, data: bytes) -> None:
    connection.sendall(data)


def test_a_reply_and_a_refusal(stand: Callable[[Serve], tuple[Stand, SocketChannel]]) -> None:
    def serve(connection: socket.socket, command: dict[str, object]) -> None:
        ok = command["execute"] == "guest-ping"
        say(connection, b'{"return": {}}\n' if ok else b'{"error": {"class": "CommandNotFound", "desc": "no such"}}\n')

    here, way = stand(serve)
    assert way.command("guest-ping", {}, 5) == {}
    with pytest.raises(AgentError) as caught:
        way.command("guest-x", {}, 5)
    assert (caught.value.kind, caught.value.reason) == ("CommandNotFound", "no such")
    assert way.command("guest-ping", {}, 5) == {}
    assert here.commands == ["guest-sync-delimited", "guest-ping", "guest-x", "guest-ping"], "in step all the time"


def test_a_late_reply_is_not_taken_for_another_commands(stand: Callable[[Serve], tuple[Stand, SocketChannel]]) -> None:
    late = threading.Event()

    def serve(connection: socket.socket, command: dict[str, object]) -> None:
        if command["execute"] == "guest-slow":
            late.wait(10)
        say(connection, json.dumps({"return": command["execute"]}).encode() + b"\n")

    here, way = stand(serve)
    with pytest.raises(ChannelTimeout):
        way.command("guest-slow", {}, 0.1)
    late.set()
    assert way.command("guest-quick", {}, 10) == "guest-quick"
    assert here.commands.count("guest-sync-delimited") == 2


@pytest.mark.parametrize(
    "reply",
    [
        b"garbage\n",
        b"[1]\n",
        b'{"event": 1}\n',
        b'{"return": ',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"error": "x"}\n',
    ],
    ids=lambda reply: repr(reply[:12]),
)
def test_garbage_is_no_reply_and_the_next_command_is_answered(
    stand: Callable[[Serve], tuple[Stand, SocketChannel]], reply: bytes
) -> None:
    replies = [reply]

    def serve(connection: socket.socket, command: dict[str, object]) -> None:
        say(connection, replies.pop() if replies else b'\n{"return": 1}\n'[1:])

    _, way = stand(serve)
    with pytest.raises(ChannelTimeout):
        way.command("guest-x", {}, 0.3)
    assert way.command("guest-y", {}, 10) == 1


def test_a_reply_that_never_ends_is_bounded(
    stand: Callable[[Serve], tuple[Stand, SocketChannel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_channel, "MAX_REPLY", 100_000)
    _, way = stand(lambda connection, _: say(connection, b"x" * 2_000_000))
    with pytest.raises(ChannelTimeout, match="larger than 100000"):
        way.command("guest-x", {}, 10)


def test_a_connection_that_breaks_loses_the_reply_and_is_made_anew(
    stand: Callable[[Serve], tuple[Stand, SocketChannel]],
) -> None:
    breaks = [True]

    def serve(connection: socket.socket, command: dict[str, object]) -> None:
        if breaks:
            breaks.pop()
            say(connection, b'{"ret')
            connection.shutdown(socket.SHUT_RDWR)
            raise OSError
        say(connection, b'{"return": 7}\n')

    _, way = stand(serve)
    with pytest.raises(ChannelTimeout, match="closed the connection"):
        way.command("guest-x", {}, 10)
    assert way.command("guest-x", {}, 10) == 7


def test_without_an_agent_the_machine_is_lost(tmp_path: Path) -> None:
    with pytest.raises(GuestLost):
        SocketChannel(tmp_path / "none").command("guest-ping", {}, 1)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "dead"))
    dead.close()
    with pytest.raises(GuestLost):
        SocketChannel(tmp_path / "dead").command("guest-ping", {}, 1)


def test_arguments_of_any_text_are_plain_ascii_on_the_way(
    stand: Callable[[Serve], tuple[Stand, SocketChannel]],
) -> None:
    seen: list[object] = []

    def serve(connection: socket.socket, command: dict[str, object]) -> None:
        seen.append(command["arguments"])
        say(connection, b'{"return": 0}\n')

    _, way = stand(serve)
    way.command("guest-x", {"path": 'C:\\Größe "x" \ud800 \U0001f600\n'}, 5)
    assert seen == [{"path": 'C:\\Größe "x" \ud800 \U0001f600\n'}]
