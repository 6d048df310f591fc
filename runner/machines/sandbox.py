"""A machine's processes in namespaces of their own: bubblewrap, an overlay mount, and the station inside.

Nothing of the host is visible inside but ``/usr`` and a few files of ``/etc`` (read-only) and the machine's own drive; there is
no network. The processes hang on the runner's life three times over: the sandbox asks the kernel to be killed with its parent,
its process namespace ends with its first process, and the station ends when the runner's socket closes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from runner.guests.base import Completed, GuestLost, GuestNotFound, Unreadable
from runner.machines.base import MachineError

STATION = Path(__file__).resolve().parent.parent.parent / "vm_images" / "wine" / "station.py"
PYTHON = "/usr/bin/python3"
"""The system's interpreter: the only one visible inside."""
SAME_PLACES = ("/usr/bin/setarch", "--addr-no-randomize")
"""Every program's memory lies at the same places each time. Wine's loader has a fixed address, and wants the shared user data of Windows at
another one above it, 0x7ffe0000; Linux puts a program's heap by chance, newer kernels anywhere within a gigabyte above the loader
(seen on 6.18). About once in some thousands of starts it lies there, and the program ends with status 1 without a word."""
_SYSTEM = (
    "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
    "--symlink", "usr/bin", "/bin", "--symlink", "usr/sbin", "/sbin",
    "--ro-bind-try", "/etc/alternatives", "/etc/alternatives", "--ro-bind-try", "/etc/fonts", "/etc/fonts",
    "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache",
    "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run",
    "--perms", "1777", "--dir", "/tmp/.X11-unix",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Overlay:
    """A drive made of read-only layers (topmost first) and one writable folder; mounted only inside the sandbox."""

    lower: tuple[Path, ...]
    upper: Path
    work: Path
    mount_point: Path

    def options(self) -> str:
        """The mount options; characters that the kernel would take for separators are escaped.

        What the host's kernel may switch on by itself is switched off: every machine behaves the same, and what has no entry in the upper
        layer is what the lower ones hold (see :mod:`runner.machines.upper_layer`).
        """
        quoted = [str(p).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,") for p in self.lower]
        upper, work = (str(p).replace("\\", "\\\\").replace(",", "\\,") for p in (self.upper, self.work))
        extra = "" if os.geteuid() == 0 else ",userxattr"
        plain = "index=off,metacopy=off,redirect_dir=nofollow"
        return f"lowerdir={':'.join(quoted)},upperdir={upper},workdir={work},{plain}{extra}"


def _namespaces() -> list[str]:
    own_user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *own_user, "--mount", "--propagation", "private", "--"]


def overlay_works(folder: Path) -> bool:
    """Whether an overlay can be mounted on this host with its writable part in ``folder``."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="overlay-check-") as scratch:
        paths = [Path(scratch) / name for name in ("lower", "upper", "work", "merged")]
        for path in paths:
            path.mkdir()
        overlay = Overlay((paths[0],), paths[1], paths[2], paths[3])
        command = [*_namespaces(), "mount", "-t", "overlay", "legacyproof", "-o", overlay.options(), str(paths[3])]
        done = subprocess.run(command, capture_output=True, check=False, timeout=20, start_new_session=True)
        with contextlib.suppress(OSError):
            (paths[2] / "work").chmod(0o700)
        return done.returncode == 0


class Sandbox:
    """A running sandbox; made by :meth:`open`, ended by :meth:`kill`."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, boot: str, first: int | None) -> None:
        self.boot = boot
        """What tells this start from every other: its process namespace and a random number drawn inside."""
        self._process = process
        self._first = first
        """A handle on the first process of its namespace, which ends when no other one is left in it; ``None``: closed."""
        self._channel = channel
        self._sending = threading.Lock()

    @classmethod
    def open(
        cls,
        drive: Overlay | Path,
        *,
        environment: Mapping[str, str],
        binds: Mapping[Path, str],
        hostname: str,
        log: Path,
        timeout: float = 20.0,
    ) -> Sandbox:
        """Starts a sandbox and waits for its station.

        Args:
            drive: What is bound to ``/prefix``: an overlay to mount, or a folder used as it is.
            environment: The whole environment of the programs inside.
            binds: Host paths shown inside, read-only: host path to path inside.
            hostname: The computer's name inside.
            log: Where the sandbox's own complaints are written.
            timeout: Seconds until the station must answer.

        Raises:
            MachineError: It did not start; the message holds the end of the log.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        source = drive.mount_point if isinstance(drive, Overlay) else drive
        told, tells = os.pipe2(os.O_CLOEXEC)
        command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--hostname", hostname, *_SYSTEM]
        command += ["--info-fd", str(tells)]
        command += ["--bind", str(source), "/prefix", "--ro-bind", str(STATION), "/station.py"]
        for outside, inside in binds.items():
            command += ["--ro-bind", str(outside), inside]
        command += ["--clearenv"]
        for name, value in environment.items():
            command += ["--setenv", name, value]
        command += ["--chdir", "/prefix", "--", *SAME_PLACES, PYTHON, "-I", "/station.py", str(theirs.fileno())]
        if isinstance(drive, Overlay):
            mount = 'mount -t overlay legacyproof -o "noatime,$1" "$2" && shift 2 && exec "$@"'
            command = [*_namespaces(), "sh", "-c", mount, "sh", drive.options(), str(drive.mount_point), *command]
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                pass_fds=(theirs.fileno(), tells),
                start_new_session=True,  # Ctrl+C on the runner's terminal means the runner, who ends its machines in order
            )
        theirs.close()
        os.close(tells)
        ours.settimeout(timeout)
        try:
            ready = ours.recv(1000)
            first = _first_process(told) if ready else None
        except (TimeoutError, OSError, ValueError, KeyError):
            ready, first = b"", None
        finally:
            os.close(told)
        if not ready:
            process.kill()
            process.wait()
            ours.close()
            said = log.read_bytes()[-2000:].decode(errors="replace").strip()
            raise MachineError(f"the sandbox did not start: {said or 'it said nothing'}")
        return cls(process, ours, str(json.loads(ready)["boot"]), first)

    @property
    def pid(self) -> int:
        """The host's number of the sandbox's outermost process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether its processes still run."""
        return self._process.poll() is None

    def _ask(self, request: Mapping[str, Any], *handles: int) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with self._sending:
                socket.send_fds(self._channel, [json.dumps(request).encode()], [theirs.fileno(), *handles])
        except OSError as error:
            ours.close()
            raise GuestLost(f"the machine's sandbox is gone: {error}") from None
        finally:
            theirs.close()
        return ours

    @staticmethod
    def _answer(control: socket.socket, deadline: float) -> tuple[dict[str, Any], list[int]]:
        control.settimeout(max(0.001, deadline - time.monotonic()))
        packet, handles, _, _ = socket.recv_fds(control, 1 << 16, 2)
        if not packet:
            raise GuestLost("the machine's sandbox is gone")
        answer = json.loads(packet)
        return answer, list(handles)

    def open_file(self, path: str, *, write: bool = False, timeout: float = 10.0) -> IO[bytes]:
        """Opens a guest file; reading leaves its times alone.

        Raises:
            GuestNotFound: There is no such file.
            Unreadable: It cannot be opened, or is no plain file.
            GuestLost: The sandbox is gone.
        """
        with self._ask({"op": "open", "path": path, "write": write}) as control:
            try:
                answer, handles = self._answer(control, time.monotonic() + timeout)
            except TimeoutError:
                raise Unreadable(f"{path}: no answer within {timeout:g} s") from None
        if answer.get("ok") and len(handles) == 1:
            return os.fdopen(handles[0], "wb" if write else "rb", buffering=0)
        for handle in handles:
            os.close(handle)
        if answer.get("error") == "not found":
            raise GuestNotFound(path)
        raise Unreadable(f"{path}: {answer.get('error')}")

    def spawn(
        self, argv: Sequence[str], *, stdin: int, stdout: int, stderr: int, cwd: str | None = None
    ) -> socket.socket:
        """Starts a program; its control socket is returned: closing it kills the program.

        Raises:
            Unreadable: It could not be started.
            GuestLost: The sandbox is gone.
        """
        control = self._ask({"op": "run", "argv": list(argv), "cwd": cwd}, stdin, stdout, stderr)
        try:
            answer, _ = self._answer(control, time.monotonic() + 10)
        except TimeoutError:
            control.close()
            raise GuestLost("the machine's sandbox does not answer") from None
        if "pid" not in answer:
            control.close()
            raise Unreadable(f"{argv[0]} could not be started: {answer.get('error')}")
        return control

    def run(
        self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20, stdin: bytes = b"", cwd: str | None = None
    ) -> Completed:
        """Runs a program to its end.

        Args:
            argv: Program and arguments, as seen inside.
            timeout: Seconds; then it is killed with its children.
            limit: Bytes kept of each stream; more is read and thrown away.
            stdin: What it reads.
            cwd: Windows path of its folder.

        Raises:
            TimeoutError: It did not end in time.
            Unreadable: It could not be started.
            GuestLost: The sandbox is gone.
        """
        deadline = time.monotonic() + timeout
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        err_read, err_write = os.pipe2(os.O_CLOEXEC)
        kept: dict[int, bytearray] = {out_read: bytearray(), err_read: bytearray()}
        with tempfile.TemporaryFile() as given, contextlib.ExitStack() as stack:
            stack.callback(os.close, out_read)
            stack.callback(os.close, err_read)
            given.write(stdin)
            given.seek(0)
            try:
                control = self.spawn(argv, stdin=given.fileno(), stdout=out_write, stderr=err_write, cwd=cwd)
            finally:
                os.close(out_write)
                os.close(err_write)
            with control, selectors.DefaultSelector() as selector:
                for stream in (out_read, err_read, control.fileno()):
                    selector.register(stream, selectors.EVENT_READ)
                status: int | None = None
                # A child that outlives the program may hold the pipes open: after the end only what is there is read.
                while status is None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s")
                    for key, _ in selector.select(left):
                        if key.fd == control.fileno():
                            answer, _ = self._answer(control, deadline)
                            status = int(answer["status"])
                        elif not self._take(key.fd, kept[key.fd], limit):
                            selector.unregister(key.fd)
                for stream, buffer in kept.items():
                    os.set_blocking(stream, False)
                    while self._take(stream, buffer, limit):
                        pass
        return Completed(status, bytes(kept[out_read]), bytes(kept[err_read]))

    @staticmethod
    def _take(stream: int, buffer: bytearray, limit: int) -> bool:
        try:
            chunk = os.read(stream, 1 << 16)
        except BlockingIOError:
            return False
        buffer += chunk[: max(0, limit - len(buffer))]
        return bool(chunk)

    def kill(self) -> None:
        """Ends every process inside and waits until they are gone; safe to call twice."""
        self._channel.close()
        self._process.kill()
        self._process.wait(timeout=20)
        if self._first is not None:
            # The outermost process ends at once, those inside one after the other.
            select.select([self._first], [], [], 20)
            os.close(self._first)
            self._first = None


def _first_process(told: int) -> int:
    """A handle on the first process inside, which bubblewrap tells of.

    Raises:
        OSError, ValueError, KeyError: It did not, or the process has ended.
    """
    said = b""
    while chunk := os.read(told, 4096):
        said += chunk
        if said.rstrip().endswith(b"}"):
            break
    return os.pidfd_open(int(json.loads(said)["child-pid"]))
