"""A real QEMU guest agent on this computer, behind which a Wine drive plays the guest's; and a channel that misbehaves.

The agent is the program that runs in virtual machines. Here it may do nothing that would touch this computer itself: freezing,
setting the clock and shutting down are blocked. What it starts runs under Wine in a drive of the test's own.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from runner.guests.channel import Channel, ChannelTimeout
from runner.guests.dialects import WineDialect
from runner.machines.sandbox import SAME_PLACES
from runner.machines.wine_base import WINE, WINESERVER
from tests.peers.socket_channel import SocketChannel

AGENT = "qemu-ga"
BLOCKED = ["set-time", "fsfreeze-freeze", "fsfreeze-freeze-list", "fsfreeze-thaw", "fstrim", "shutdown", "suspend-disk"]
BLOCKED += ["suspend-ram", "suspend-hybrid", "set-user-password", "ssh-add-authorized-keys", "set-vcpus"]


@contextmanager
def running_agent(folder: Path) -> Iterator[Path]:
    """The agent, listening on the socket that is given, until the block ends."""
    program = shutil.which(AGENT) or "/usr/sbin/qemu-ga"
    socket = folder / "agent.sock"
    log = folder / "agent.log"
    blocked = ",".join(f"guest-{name}" for name in BLOCKED)
    options = ["-m", "unix-listen", "-p", str(socket), "-t", str(folder), "-f", str(folder / "pid"), "-b", blocked]
    process = subprocess.Popen([program, *options, "-l", str(log)], stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, "the agent does not listen"
            time.sleep(0.01)
        yield socket
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def wine_dialect(folder: Path, base: Path, *, resident: bool = False) -> Iterator[WineDialect]:
    """A copy of an image's Wine drive, as the agent of a Linux guest reaches it.

    Args:
        folder: Where the copy and Wine's home go.
        base: The image's prefix.
        resident: Whether a probe may stay.
    """
    prefix = folder / "prefix"
    subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(prefix)], check=True, timeout=120)
    home = folder / "home"
    home.mkdir()
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "USER": "praxis",
        "WINEPREFIX": str(prefix),
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "winemenubuilder.exe,mscoree,mshtml=d",
        "LANG": "C.UTF-8",
    }
    given = (f"{name}={value}" for name, value in environment.items())
    launcher = ("/usr/bin/env", "-i", *given, *SAME_PLACES, str(WINE))
    # One program that stays: Wine's server and services end with the last.
    stays = subprocess.Popen(
        [*SAME_PLACES, str(WINE), r"C:\legacyproof\lpprobe.exe", "hash", "--list", "-"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield WineDialect(
            drive=str(prefix / "drive_c"), launcher=launcher, scratch=str(folder / "run") if resident else None
        )
    finally:
        assert stays.stdin
        stays.stdin.close()
        subprocess.run([str(WINESERVER), "-k"], env=environment, timeout=60, check=False)
        stays.kill()
        stays.wait(10)


class Meddling:
    """A channel to a real agent whose replies can be lost.

    Attributes:
        sent: Names of the commands that the agent was given, in order.
        planned: Replies that are still to be lost.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.planned: list[Callable[[str, object], bool]] = []
        self.sent: list[str] = []

    def lose(self, name: str, fits: Callable[[object], bool] = lambda reply: True) -> None:
        """Loses the next reply of this name that fits; the command has been carried out by then."""
        self.planned.append(lambda sent, reply: sent == name and fits(reply))

    def command(self, name: str, arguments: Mapping[str, object], timeout: float) -> object:
        """See :meth:`Channel.command`."""
        self.sent.append(name)
        reply = self._channel.command(name, arguments, timeout)
        for lost in self.planned:
            if lost(name, reply):
                self.planned.remove(lost)
                raise ChannelTimeout("the reply was lost")
        return reply


def content_of(path: Path, *, within: float = 60) -> bytes:
    """What a program that was only started leaves in a file, as soon as there is a whole line."""
    deadline = time.monotonic() + within
    while not (path.exists() and path.read_bytes().endswith(b"\n")):
        assert time.monotonic() < deadline, f"nothing came to be in {path.name}"
        time.sleep(0.05)
    return path.read_bytes()


def exited(reply: object) -> bool:
    """Whether a reply to guest-exec-status tells of an end."""
    return isinstance(reply, dict) and reply.get("exited") is True


def channel_to(socket: Path) -> SocketChannel:
    """A channel to the agent at the socket."""
    return SocketChannel(socket)
