"""The embedded machine's screen: Xtigervnc, inside the machine's own sandbox, serving RFB on a loopback port with a password.

A screen and the programs on it tell each other names: of shared memory, of sockets, of processes. Such a name means something else in
another namespace, where another program may own it; so the server lives where its programs live. Nothing of the host reaches
it but one listening socket, which the runner opens and hands in: a socket stays in the network that it was made in.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import shutil
import socket
import time
from pathlib import Path

from runner.display.handshake import DisplayAddress, answer_challenge, password_bytes
from runner.guests.base import GuestLost, Unreadable
from runner.machines.base import MachineError
from runner.machines.sandbox import Sandbox

_KEYMAP = Path(__file__).resolve().parent.parent.parent / "vm_images" / "wine" / "xkb"
_FIXED_KEY = "\x17Rk\x06#NX\x07"
"""The constant with which every VNC server hides the password in its file (no secret, and no protection)."""
SEEN_AS = "/screen"
"""Where the sandbox shows a screen's folder, read-only."""
DISPLAY = ":0"


class XServer:
    """One X server: made before its sandbox, started in it by :meth:`start`; it ends with the sandbox."""

    def __init__(self, folder: Path, width: int, height: int) -> None:
        """Prepares it.

        Args:
            folder: A new folder for its files, which its sandbox has to show as :data:`SEEN_AS`.
            width: Screen width in pixels.
            height: Screen height in pixels.
        """
        self.folder = folder
        self._size = f"{width}x{height}"
        self._password = secrets.token_urlsafe(6)[:8]
        self._log = folder.with_name(f"{folder.name}.log")
        self._control: socket.socket | None = None
        self._port = 0
        folder.mkdir(parents=True)
        shutil.copytree(_KEYMAP, folder / "xkb")
        password = folder / "password"
        password.touch(0o600)
        password.write_bytes(answer_challenge(_FIXED_KEY, password_bytes(self._password)))

    @property
    def alive(self) -> bool:
        """Whether it has been started and still runs."""
        if self._control is None:
            return False
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            return not selector.select(0)  # the station says when it has ended, and nothing else

    @property
    def address(self) -> DisplayAddress:
        """Where it serves RFB."""
        return DisplayAddress("127.0.0.1", self._port, self._password)

    def start(self, sandbox: Sandbox, timeout: float = 20.0) -> None:
        """Starts it and waits until clients can connect and its keyboard is set.

        Args:
            sandbox: Where it shall run.
            timeout: Seconds.

        Raises:
            MachineError: It did not start; the message holds what it said.
        """
        deadline = time.monotonic() + timeout
        ready, number = os.pipe2(os.O_CLOEXEC)
        try:
            with socket.create_server(("127.0.0.1", 0)) as listening, self._log.open("ab") as log:
                self._port = listening.getsockname()[1]
                self._control = sandbox.spawn(
                    self._command(), stdin=listening.fileno(), stdout=number, stderr=log.fileno()
                )
            os.close(number)
            number = -1
            if not _listens(ready, deadline):
                raise MachineError(f"the X server did not start: {self._why(deadline)}")
            done = sandbox.run(
                ["/usr/bin/xkbcomp", "-w0", f"-I{SEEN_AS}/xkb", f"{SEEN_AS}/xkb/keymap", DISPLAY],
                timeout=max(1.0, deadline - time.monotonic()),
            )
            if done.status != 0:
                said = done.stderr.decode(errors="replace").strip()[-500:]
                raise MachineError(f"the display's keyboard could not be set: {said}")
        except (Unreadable, GuestLost, TimeoutError) as error:
            raise MachineError(f"the X server did not start: {error}") from None
        finally:
            for handle in (ready, number):
                if handle >= 0:
                    os.close(handle)

    def _command(self) -> list[str]:
        return [
            "/usr/bin/Xtigervnc", DISPLAY, "-displayfd", "1", "-nolisten", "tcp", "-nolisten", "local", "-noreset",
            "-geometry", self._size, "-depth", "24", "-SecurityTypes", "VncAuth", "-PasswordFile", f"{SEEN_AS}/password",
            "-AlwaysShared", "-AcceptSetDesktopSize=0", "-BlacklistThreshold=1000000", "-desktop", "legacyproof",
            # The listening socket is its standard input. Last, since from then on it writes no complaints.
            "-inetd",
        ]  # fmt: skip

    def _why(self, deadline: float) -> str:
        """What is known of a server that did not start."""
        said = self._log.read_bytes()[-1500:].decode(errors="replace").strip()
        assert self._control is not None
        self._control.settimeout(max(0.1, deadline - time.monotonic()))
        ended = "it neither wrote its display's number nor ended in time"
        with contextlib.suppress(OSError, ValueError, KeyError):
            ended = f"it ended with status {json.loads(self._control.recv(1000))['status']}"
        return f"{ended}; it said: {said}" if said else f"{ended}, without a word"

    def close(self) -> None:
        """Ends it; safe to call twice, and not needed where its sandbox is ended."""
        if self._control is not None:
            self._control.close()
            self._control = None


def _listens(ready: int, deadline: float) -> bool:
    """Waits for its display's number and a newline, which it writes once all its sockets listen."""
    with selectors.DefaultSelector() as selector:
        selector.register(ready, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0 and selector.select(left):
            said = os.read(ready, 64)
            if said.endswith(b"\n"):
                return True
            if not said:
                break
    return False
