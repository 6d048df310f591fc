"""The embedded machine's screen: Xtigervnc, on a private ``/tmp``, serving RFB on a loopback port with a password.

Every machine's X server is display 0: its socket lies in the machine's own folder, so displays cannot collide, and nothing
stays behind in the host's ``/tmp`` however it ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shutil
import socket
import struct
import subprocess
import time
from pathlib import Path

from runner.display.handshake import DisplayAddress, answer_challenge, password_bytes
from runner.machines.base import MachineError

_KEYMAP = Path(__file__).resolve().parent.parent.parent / "vm_images" / "wine" / "xkb"
_FIXED_KEY = "\x17Rk\x06#NX\x07"
"""The constant with which every VNC server hides the password in its file (no secret, and no protection)."""
_COOKIE_FAMILY_ANY = 0xFFFF
_PORT_TRIES = 8


def _cookie_file(path: Path) -> None:
    """Writes an Xauthority file whose one random cookie fits every display (format: Xau(3))."""
    fields = (b"", b"", b"MIT-MAGIC-COOKIE-1", secrets.token_bytes(16))
    path.write_bytes(
        struct.pack(">H", _COOKIE_FAMILY_ANY) + b"".join(struct.pack(">H", len(field)) + field for field in fields)
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class XServer:
    """One running X server."""

    def __init__(self, folder: Path, width: int, height: int) -> None:
        """Starts it; :meth:`wait` tells when it can be used.

        Args:
            folder: A new folder for its sockets and files: its ``/tmp``.
            width: Screen width in pixels.
            height: Screen height in pixels.
        """
        self._folder = folder
        self._size = f"{width}x{height}"
        self._password = secrets.token_urlsafe(6)[:8]
        self._ready: int | None = None
        (folder / ".X11-unix").mkdir(parents=True)
        (folder / ".X11-unix").chmod(0o1777)
        shutil.copytree(_KEYMAP, folder / "xkb")
        _cookie_file(self.cookie)
        (folder / "password").write_bytes(answer_challenge(_FIXED_KEY, password_bytes(self._password)))
        for file in (self.cookie, folder / "password"):
            file.chmod(0o600)
        self._launch()

    @property
    def cookie(self) -> Path:
        """The Xauthority file that its clients need."""
        return self._folder / "cookie"

    @property
    def sockets(self) -> Path:
        """The folder with its UNIX socket; shown to clients as ``/tmp/.X11-unix``."""
        return self._folder / ".X11-unix"

    @property
    def pid(self) -> int:
        """The host's number of its outermost process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    @property
    def address(self) -> DisplayAddress:
        """Where it serves RFB."""
        return DisplayAddress("127.0.0.1", self._port, self._password)

    def _launch(self) -> None:
        self._port = _free_port()
        self._ready, write_end = os.pipe2(os.O_CLOEXEC)
        command = [
            *self._inside("--unshare-pid", "--proc", "/proc"), "Xtigervnc", ":0", "-displayfd", str(write_end), "-nolisten", "tcp", "-nolisten", "local", "-noreset",
            "-auth", "/tmp/cookie", "-geometry", self._size, "-depth", "24", "-localhost", "-UseIPv6=0",
            "-rfbport", str(self._port), "-SecurityTypes", "VncAuth", "-PasswordFile", "/tmp/password",
            "-AlwaysShared", "-AcceptSetDesktopSize=0", "-BlacklistThreshold=1000000", "-desktop", "legacyproof",
        ]  # fmt: skip
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(write_end,)
            )
        os.close(write_end)

    def _inside(self, *more: str) -> list[str]:
        """The command prefix that gives a program the machine's folder as its ``/tmp``."""
        return [
            "bwrap", "--dev-bind", "/", "/", "--bind", str(self._folder), "/tmp", "--die-with-parent", "--new-session",
            *more, "--",
        ]  # fmt: skip

    def _load_keymap(self) -> None:
        """Gives the display keys for umlauts and accented letters (why: see the symbols file)."""
        command = [*self._inside("--setenv", "XAUTHORITY", "/tmp/cookie"), "xkbcomp", "-w0", "-I/tmp/xkb"]
        try:
            done = subprocess.run(
                [*command, "/tmp/xkb/keymap", ":0"], capture_output=True, text=True, check=False, timeout=20
            )
        except subprocess.TimeoutExpired:
            raise MachineError("the display's keyboard could not be set in time") from None
        if done.returncode != 0:
            raise MachineError(f"the display's keyboard could not be set: {done.stderr.strip()[-500:]}")

    def wait(self, timeout: float = 20.0) -> None:
        """Waits until clients can connect.

        Args:
            timeout: Seconds.

        Raises:
            MachineError: It did not start, and has been ended; the message holds the end of its log.
        """
        deadline = time.monotonic() + timeout
        for attempt in range(_PORT_TRIES):
            if attempt:
                self._launch()  # another program may have taken the port between choosing and using it
            if self._listens(deadline):
                self._load_keymap()
                return
            with contextlib.suppress(subprocess.TimeoutExpired):  # its log is to be whole
                self._process.wait(timeout=max(0.1, deadline - time.monotonic()))
            self.kill()
            if time.monotonic() > deadline:
                break
        said = (self._folder / "log").read_bytes()[-1500:].decode(errors="replace").strip()
        raise MachineError(f"the X server did not start: {said or 'it said nothing'}")

    def _listens(self, deadline: float) -> bool:
        """Waits for its display's number and a newline, which it writes once all its sockets listen; asked once a launch."""
        assert self._ready is not None
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._ready, selectors.EVENT_READ)
                while (left := deadline - time.monotonic()) > 0 and selector.select(left):
                    said = os.read(self._ready, 64)
                    if said.endswith(b"\n"):
                        return True
                    if not said:
                        break
        finally:
            self._let_go()
        return False

    def _let_go(self) -> None:
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None

    def kill(self) -> None:
        """Ends it; safe to call twice."""
        self._let_go()
        self._process.kill()
        self._process.wait(timeout=20)
