"""The runner's end of libvirt: every call has a deadline, and none can hang a run.

libvirt works in a process of its own (:mod:`runner.machines.virt.worker`). When an answer is late, that process is ended and a new
one started, which finds the running machines again; calls that may be made twice are made again once. ``qemu:///embed`` needs no
daemon: the worker holds the driver itself, in a folder that belongs to this connection.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import pwd
import queue
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from runner.machines.base import MachineError, home
from runner.machines.virt.lifetime import RunnerFiles, libvirt_folder, new_token

EMBED = "qemu:///embed"
_START_SECONDS = 90.0
"""How long connecting may take; the first time libvirt asks every QEMU program what it can."""
_MAX_ANSWER = 64 << 20
_PACKAGE_ROOT = Path(__file__).resolve().parents[3]


class HypervisorError(MachineError):
    """libvirt refused something or is not there.

    Attributes:
        kind: ``late`` (no answer in time), ``connection`` (libvirt is gone), ``missing`` (libvirt-python is not installed),
            ``permission``, ``no_domain``, ``agent_unresponsive``, ``agent_refused`` (the guest agent answered with an error),
            ``memory``, ``operation`` or ``other``.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


_LOST = ("late", "connection")


class _Worker:
    """One process with a connection to libvirt."""

    def __init__(self, uri: str, files: RunnerFiles, log: Path) -> None:
        self._ids = count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._dead = False
        paths = os.pathsep.join(filter(None, [str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH", "")]))
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "runner.machines.virt.worker", uri, files.token, str(files.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": paths},
            )  # fmt: skip
        self._first: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        try:
            first = self._first.get(timeout=_START_SECONDS)
        except queue.Empty:
            self.kill()
            raise HypervisorError("late", f"libvirt ({uri}) did not answer within {_START_SECONDS:g} s") from None
        if "ready" not in first:
            self.kill()
            failed = first.get("failed", {})
            raise HypervisorError(
                str(failed.get("kind", "connection")), str(failed.get("message", "its process ended"))
            )
        self.about: dict[str, Any] = first["ready"]

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        stream = self._process.stdout
        waiting_for_first = True
        with contextlib.suppress(OSError, ValueError):
            while line := stream.readline(_MAX_ANSWER):
                message = json.loads(line)
                if waiting_for_first:
                    self._first.put(message)
                    waiting_for_first = False
                    continue
                with self._lock:
                    answered = self._waiting.pop(message.get("id"), None)
                if answered is not None:
                    answered.put(message)
        gone = {"error": {"kind": "connection", "message": "libvirt's process has ended"}}
        self._first.put({"failed": gone["error"]})
        with self._lock:
            self._dead = True
            left, self._waiting = self._waiting, {}
        for answered in left.values():
            answered.put(gone)

    def ask(self, call: str, arguments: dict[str, Any], timeout: float) -> Any:
        number = next(self._ids)
        answered: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        request = json.dumps({"id": number, "call": call, "arguments": arguments}).encode() + b"\n"
        try:
            with self._lock:
                if self._dead:
                    raise OSError("it has ended")
                self._waiting[number] = answered
                assert self._process.stdin is not None
                self._process.stdin.write(request)
                self._process.stdin.flush()
        except (OSError, ValueError) as error:
            raise HypervisorError("connection", f"libvirt's process takes no requests: {error}") from None
        try:
            answer = answered.get(timeout=timeout)
        except queue.Empty:
            with self._lock:
                self._waiting.pop(number, None)
            raise HypervisorError("late", f"libvirt did not answer `{call}` within {timeout:g} s") from None
        if "error" in answer:
            raise HypervisorError(str(answer["error"].get("kind", "other")), str(answer["error"].get("message", "")))
        return answer.get("result")

    def kill(self) -> None:
        """Ends it at once; what it was asked is answered with an error."""
        self._process.kill()
        self._process.wait(timeout=30)

    def close(self, timeout: float) -> None:
        """Lets it end in order: it ends the machines that are still there."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._lock:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()


class Hypervisor:
    """A connection to libvirt that comes back by itself.

    Attributes:
        uri: Where it leads.
        embedded: Whether libvirt's driver works inside the worker.
        runner: The connection's token: what its domains are known by.
    """

    def __init__(self, uri: str) -> None:
        """Connects when it is first used.

        Args:
            uri: libvirt's, such as ``qemu:///embed`` or ``qemu:///system``.
        """
        self.uri = uri
        self.embedded = uri == EMBED
        self.runner = new_token()
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._files: RunnerFiles | None = None
        self._held: IO[str] | None = None

    def call(self, call: str, /, *, timeout: float, again: bool = False, **arguments: Any) -> Any:
        """Makes one call.

        Args:
            call: One of :data:`runner.machines.virt.worker.CALLS`.
            timeout: Seconds, once connected.
            again: Whether it may be made twice: it is, once, when libvirt was lost.
            arguments: Of the call.

        Raises:
            HypervisorError: It failed; ``kind`` says how.
        """
        for last in (False, True) if again else (True,):
            worker = self._living()
            try:
                return worker.ask(call, arguments, timeout)
            except HypervisorError as error:
                if error.kind in _LOST:
                    self._drop(worker)
                if last or error.kind not in _LOST:
                    raise
        raise AssertionError("unreachable")

    @property
    def about(self) -> dict[str, Any]:
        """Versions of libvirt and QEMU, and the host's name.

        Raises:
            HypervisorError: There is no connection.
        """
        return self._living().about

    @property
    def worker_pid(self) -> int:
        """The process that libvirt works in now.

        Raises:
            HypervisorError: There is no connection.
        """
        return self._living().pid

    @property
    def root(self) -> Path | None:
        """Where libvirt's driver and the machines have their sockets: a short path; ``None``: that is the daemon's affair."""
        with self._lock:
            return self._entered().root

    def _entered(self) -> RunnerFiles:
        if self._files is None:
            files = RunnerFiles(libvirt_folder(), self.runner)
            held = files.enter()
            try:
                if self.embedded:
                    _furnish(files.make_root(), files.folder)
            except BaseException:
                with contextlib.suppress(MachineError):
                    files.remove()
                held.close()
                raise
            self._files, self._held = files, held
        if self.embedded and self._files.root is None:
            raise HypervisorError(
                "other",
                f"the folder of libvirt's sockets was removed: {self._files.link} leads nowhere; start the command again",
            )
        return self._files

    def _living(self) -> _Worker:
        with self._lock:
            if self._worker is None:
                files = self._entered()
                root = files.root
                uri = self.uri if root is None else f"{self.uri}?root={quote(str(root))}"
                self._worker = _Worker(uri, files, (root or files.folder) / "worker.log")
            return self._worker

    def _drop(self, worker: _Worker) -> None:
        with self._lock:
            if self._worker is worker:
                self._worker = None
            worker.kill()

    def close(self, timeout: float = 15.0) -> None:
        """Ends the connection, and machines that were not discarded; safe to call twice."""
        with self._lock:
            if self._worker is not None:
                self._worker.close(timeout)
                self._worker = None
            if self._files is not None:
                with contextlib.suppress(MachineError):  # it is listed as a leftover then
                    self._files.remove()
                self._files = None
            if self._held is not None:
                self._held.close()
                self._held = None


def _furnish(root: Path, folder: Path) -> None:
    """Puts into the driver's folder what it needs to find."""
    (root / "etc").mkdir()
    (root / "etc" / "qemu.conf").write_text(_configuration())
    cache = folder / "cache"  # what each QEMU program can takes libvirt seconds to find out: kept for all
    cache.mkdir(exist_ok=True)
    (root / "cache").symlink_to(cache)


def _configuration() -> str:
    """The driver's settings: QEMU runs as we do, without the daemon's confinement, which needs a system of its own set up."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    return (
        'security_driver = "none"\n'
        f'user = "{user}"\n'
        'group = "+' + str(os.getegid()) + '"\n'
        "dynamic_ownership = 0\nremember_owner = 0\ncgroup_controllers = [ ]\nnamespaces = [ ]\nseccomp_sandbox = 0\n"
        'stdio_handler = "file"\n'
    )


_known: dict[tuple[str, Path], Hypervisor] = {}
_known_lock = threading.Lock()


def hypervisor(uri: str) -> Hypervisor:
    """The connection of this process to a URI; one for all its machines."""
    with _known_lock:
        key = (uri, home())
        if key not in _known:
            if not _known:
                atexit.register(_close_all)
            _known[key] = Hypervisor(uri)
        return _known[key]


def _close_all() -> None:
    deadline = time.monotonic() + 20
    for each in list(_known.values()):
        each.close(max(1.0, deadline - time.monotonic()))
