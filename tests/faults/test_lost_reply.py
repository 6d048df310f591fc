"""A reply of the guest agent that is lost after the command was carried out: nothing runs twice, nothing is taken for failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

import pytest

from runner.guests.base import GuestLost
from runner.guests.channel import ChannelTimeout
from runner.guests.qga import QgaGuest
from runner.machines.wine import WineCheckpoint
from tests.peers.guest_agent import Meddling, channel_to, content_of, exited, running_agent, wine_dialect
from tests.peers.rfb_server import wait_until

pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, checkpoint: WineCheckpoint
) -> Iterator[tuple[Meddling, QgaGuest, Path]]:
    folder = tmp_path_factory.mktemp("guest")
    with wine_dialect(folder, checkpoint.prefix) as dialect, running_agent(folder) as socket:
        channel = channel_to(socket)
        meddling = Meddling(channel)
        yield meddling, QgaGuest(meddling, dialect), Path(dialect.drive)
        channel.close()


def appending(name: str, status: int = 0) -> list[str]:
    """A program that leaves a line in a file each time it runs, writes something and exits."""
    return ["cmd", "/c", rf"echo once>>C:\{name}& echo done& exit {status}"]


def started(reply: object) -> bool:
    return isinstance(reply, dict) and "pid" in reply


@pytest.mark.parametrize(
    "lost",
    [
        ["guest-exec"],
        ["guest-exec-status"],
        ["guest-exec", "guest-exec-status"],
        ["guest-exec", "guest-exec"],
    ],
    ids="+".join,
)
def test_a_command_runs_once_and_its_outcome_is_learned(
    place: tuple[Meddling, QgaGuest, Path], lost: list[str]
) -> None:
    meddling, guest, drive = place
    name = "+".join(lost) + ".txt"
    for reply in lost:
        meddling.lose(reply, exited if reply == "guest-exec-status" else started)
    meddling.sent.clear()
    done = guest.run(appending(name, 5), timeout=60)
    assert (done.status, done.stdout) == (5, b"done\r\n")
    assert (drive / name).read_bytes() == b"once\r\n"
    assert meddling.sent.count("guest-exec") == 1 + len(lost), "no reply was lost"


def test_a_program_is_started_once(place: tuple[Meddling, QgaGuest, Path]) -> None:
    meddling, guest, drive = place
    meddling.lose("guest-exec", started)
    meddling.lose("guest-exec-status", exited)
    guest.start(appending("start.txt"))
    assert meddling.planned == []
    content_of(drive / "start.txt")
    guest.run(["cmd", "/c", "exit"], timeout=60)  # time for a second one, had there been one
    assert (drive / "start.txt").read_bytes() == b"once\r\n"


def test_a_file_is_written_whole(place: tuple[Meddling, QgaGuest, Path]) -> None:
    meddling, guest, drive = place
    content = bytes(range(256)) * 1000
    for lost in ("guest-file-open", "guest-file-write", "guest-file-write", "guest-file-close", "guest-exec"):
        meddling.lose(lost)
    meddling.lose("guest-exec-status", exited)
    guest.write(PureWindowsPath(r"C:\ganz.bin"), content)
    assert meddling.planned == []
    assert (drive / "ganz.bin").read_bytes() == content
    meddling.lose("guest-file-read")
    meddling.lose("guest-file-seek")
    assert guest.read(PureWindowsPath(r"C:\ganz.bin"), limit=len(content)) == content
    assert meddling.planned == []


def test_an_agent_that_falls_silent_is_a_lost_machine_and_the_command_still_ran_once(
    place: tuple[Meddling, QgaGuest, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling, guest, drive = place
    monkeypatch.setattr("runner.guests.qga._PING", 0.2)
    real = meddling.command
    silent: list[bool] = []

    def command(name: str, arguments: dict[str, object], timeout: float) -> object:
        if silent:
            raise ChannelTimeout("nobody there")
        reply = real(name, arguments, timeout)
        if name == "guest-exec":
            silent.append(True)
            raise ChannelTimeout("the reply was lost")
        return reply

    with monkeypatch.context() as patched:
        patched.setattr(meddling, "command", command)
        with pytest.raises(GuestLost, match="does not answer"):
            guest.run(appending("still.txt"), timeout=60)
    guest.run(["cmd", "/c", "exit"], timeout=60)
    file = drive / "still.txt"
    # Nobody waited for the command: it may go on a little.
    wait_until(lambda: file.is_file() and file.read_bytes().endswith(b"\n"))
    assert file.read_bytes() == b"once\r\n"
