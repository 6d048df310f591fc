"""Reaching the screen of a machine on another host: through SSH, as the connection to its libvirt goes.

QEMU's screen listens on its own host only. VNC has no encryption, and its password of eight characters can be guessed from what a
listener sees, while whatever a contract types passes through it.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import tempfile
import threading
from typing import IO
from urllib.parse import parse_qs, unquote, urlsplit

from runner.machines.base import MachineError

_SECONDS = 60.0
_TRIES = 3
_READY = b"ready\n"
_MAX_LINE = 4096
_OPTIONS = (
    "BatchMode=yes", "ExitOnForwardFailure=yes", "ConnectTimeout=20", "ServerAliveInterval=15", "LogLevel=ERROR",
    "ControlMaster=no", "ControlPath=none",  # else another SSH holds the tunnel, which does not end with ours
)  # fmt: skip


def by_ssh(uri: str) -> bool:
    """Whether a libvirt URI leads to its host through SSH."""
    parts = urlsplit(uri)
    return parts.scheme.endswith("+ssh") and bool(parts.hostname)


def ssh_arguments(uri: str) -> list[str]:
    """What the program ``ssh`` needs to know to get where ``qemu+ssh://[user@]host[:port]/…[?keyfile=…]`` leads."""
    parts = urlsplit(uri)
    user = f"{unquote(parts.username)}@" if parts.username else ""
    port = ["-p", str(parts.port)] if parts.port else []
    key = [argument for file in parse_qs(parts.query).get("keyfile", [])[:1] for argument in ("-i", file)]
    return [*port, *key, "--", f"{user}{parts.hostname}"]


def free_port() -> int:
    """A TCP port of this host that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Tunnel:
    """A port of this host that leads to one of another; it ends with :meth:`close`, or with this process.

    Attributes:
        port: The port on 127.0.0.1.
    """

    def __init__(self, uri: str, remote_port: int, *, timeout: float = _SECONDS) -> None:
        """Opens it.

        Args:
            uri: libvirt's, with ``ssh`` as its transport.
            remote_port: The port on the other host's 127.0.0.1.
            timeout: Seconds until it must be open.

        Raises:
            MachineError: SSH is not installed, or does not get there.
        """
        for attempt in range(1, _TRIES + 1):
            self.port = free_port()
            with tempfile.TemporaryFile() as errors:
                self._process = _ssh(uri, f"127.0.0.1:{self.port}:127.0.0.1:{remote_port}", errors)
                if _echoes(self._process, timeout):
                    return
                self.close()
                errors.seek(0)
                said = errors.read(_MAX_LINE).decode(errors="replace").strip()
            if "in use" not in said or attempt == _TRIES:  # another program may take the port before SSH does
                break
        raise MachineError(
            f"the screen of the machine cannot be reached through SSH ({uri}): {said or f'no answer within {timeout:g} s'}; "
            "`ssh` must get there without asking anything, and may forward ports"
        )

    def close(self) -> None:
        """Ends it; safe to call twice."""
        self._process.kill()
        self._process.wait(timeout=30)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def _ssh(uri: str, forward: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    options = [argument for option in _OPTIONS for argument in ("-o", option)]
    # The other host runs `cat`: what it gives back proves that the tunnel stands, and it ends, and SSH with it, when nobody holds
    # its input any more, however this process ends.
    command = ["ssh", "-T", *options, "-L", forward, *ssh_arguments(uri), "cat"]
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    except FileNotFoundError:
        raise MachineError("ssh is not installed; Debian: openssh-client") from None


def _echoes(process: subprocess.Popen[bytes], timeout: float) -> bool:
    """Whether what is written comes back in time; the other host's shell may say something first."""
    assert process.stdin is not None
    assert process.stdout is not None
    output = process.stdout
    answered: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := output.readline(_MAX_LINE):
                if line == _READY:
                    answered.put(True)
                    return
        answered.put(False)

    try:
        process.stdin.write(_READY)
        process.stdin.flush()
    except OSError:
        return False
    threading.Thread(target=read, name="tunnel", daemon=True).start()
    try:
        return answered.get(timeout=timeout)
    except queue.Empty:
        return False
