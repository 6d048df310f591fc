"""libvirt in a process of its own: a call that blocks for ever can be ended with it, and takes nothing down.

Started by :mod:`runner.machines.virt.hypervisor` as ``python -m runner.machines.virt.worker URI RUNNER FOLDER``: the connection's
token, and where its files lie (:class:`runner.machines.virt.lifetime.RunnerFiles`). Requests and answers are JSON, one a line, on
standard input and output; each request runs in a thread of its own, so one that hangs holds up no other. The first line says whether
the connection is open. When standard input ends, the runner is gone: the machines that it made are ended, and the worker too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from runner.machines.virt import memory
from runner.machines.virt.domain_xml import read_tag
from runner.machines.virt.lifetime import RunnerFiles

_PR_SET_CHILD_SUBREAPER = 36
_MAX_REQUEST = 64 << 20
_AGENT_SAYS = "unable to execute QEMU agent command"
_LAST_SECONDS = 20
"""How long ending the machines of a dead runner may take."""

try:
    import libvirt
    import libvirt_qemu
except ImportError:
    libvirt = libvirt_qemu = None


class Calls:
    """What can be asked of libvirt; every method is one request, its arguments are JSON."""

    def __init__(self, uri: str, runner: str, root: Path | None) -> None:
        self._uri = uri
        self._runner = runner
        self._root = root
        self._lock = threading.Lock()
        self._connection: Any = None

    # -- the connection -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Connects, if there is no living connection."""
        with self._lock:
            if self._connection is not None:
                if self._connection.isAlive():
                    return
                with contextlib.suppress(libvirt.libvirtError):
                    self._connection.close()
            self._connection = libvirt.open(self._uri)
            if self._root is None:
                with contextlib.suppress(libvirt.libvirtError):
                    self._connection.setKeepAlive(5, 3)

    def _domain(self, name: str) -> Any:
        return self._connection.lookupByName(name)

    def about(self) -> dict[str, Any]:
        """Versions, as libvirt counts them (major * 1,000,000 + minor * 1,000 + micro), and the host's name."""
        return {
            "libvirt": self._connection.getLibVersion(),
            "qemu": self._connection.getVersion(),
            "host": self._connection.getHostname(),
        }

    def capabilities(self, kind: str) -> str:
        """The XML that says what domains of a kind (``qemu``, ``kvm``) can have."""
        return str(self._connection.getDomainCapabilities(None, "x86_64", "q35", kind, 0))

    # -- domains --------------------------------------------------------------------------------------------------------

    def create(self, xml: str, paused: bool) -> dict[str, Any]:
        """Starts a domain that is gone for good once it is destroyed."""
        domain = self._connection.createXML(xml, libvirt.VIR_DOMAIN_START_PAUSED if paused else 0)
        pid = self._adopt(domain.name())
        return {"uuid": domain.UUIDString(), "pid": pid}

    def _adopt(self, name: str) -> int:
        """Sees to it that QEMU is reaped as soon as it ends; gives its process, 0 where libvirt runs elsewhere.

        libvirt waits, polling, until the process number is free, and an init that reaps late makes that seconds. QEMU is an orphan
        and so becomes the child of the nearest subreaper: this process. Only QEMU's own number is waited for, since libvirt waits
        for its other children itself.
        """
        if self._root is None:
            return 0
        try:
            pid = int((self._root / "run" / "qemu" / f"{name}.pid").read_text())
        except (OSError, ValueError):
            return 0

        def reap() -> None:
            with contextlib.suppress(OSError):
                os.waitpid(pid, 0)

        threading.Thread(target=reap, name=f"reap {name}", daemon=True).start()
        return pid

    def destroy(self, name: str) -> bool:
        """Ends a domain at once; ``False``: there is none of that name. Asking twice does no harm."""
        try:
            domain = self._domain(name)
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return False
            raise
        try:
            domain.destroy()
        except libvirt.libvirtError as error:
            if error.get_error_code() not in (libvirt.VIR_ERR_NO_DOMAIN, libvirt.VIR_ERR_OPERATION_INVALID):
                raise
        return True

    def state(self, name: str) -> str:
        """One of ``running``, ``paused``, ``off``, ``gone``, ``other``."""
        try:
            state, _ = self._domain(name).state()
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                return "gone"
            raise
        known = {
            libvirt.VIR_DOMAIN_RUNNING: "running",
            libvirt.VIR_DOMAIN_BLOCKED: "running",
            libvirt.VIR_DOMAIN_PAUSED: "paused",
            libvirt.VIR_DOMAIN_SHUTDOWN: "off",
            libvirt.VIR_DOMAIN_SHUTOFF: "off",
            libvirt.VIR_DOMAIN_CRASHED: "off",
        }
        return known.get(state, "other")

    def suspend(self, name: str) -> None:
        """Stops its virtual processors; QEMU flushes the disks."""
        domain = self._domain(name)
        if domain.state()[0] != libvirt.VIR_DOMAIN_PAUSED:
            domain.suspend()

    def resume(self, name: str) -> None:
        """Lets it go on."""
        domain = self._domain(name)
        if domain.state()[0] != libvirt.VIR_DOMAIN_RUNNING:
            domain.resume()

    def shutdown(self, name: str) -> None:
        """Asks its system to shut down, as if the power button had been pressed."""
        self._domain(name).shutdownFlags(libvirt.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN)

    def agent(self, name: str, command: str, seconds: int) -> Any:
        """One command of the QEMU guest agent."""
        return json.loads(libvirt_qemu.qemuAgentCommand(self._domain(name), command, seconds, 0))

    def display_port(self, name: str) -> int:
        """The TCP port of its screen."""
        root = ElementTree.fromstring(self._domain(name).XMLDesc(0))  # noqa: S314 - libvirt's own
        graphics = root.find("./devices/graphics")
        return int(graphics.get("port", "-1")) if graphics is not None else -1

    def tagged(self) -> list[dict[str, Any]]:
        """The name and the tag of every domain that carries our tag, of any runner."""
        found = []
        for domain in self._connection.listAllDomains(0):
            try:
                tag = read_tag(domain.XMLDesc(0))
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    continue  # it has just ended
                raise
            if tag is not None:
                found.append({"name": domain.name(), "tag": asdict(tag)})
        return found

    # -- memory ---------------------------------------------------------------------------------------------------------

    def _monitor(self, name: str) -> memory.Monitor:
        domain = self._domain(name)

        def ask(command: str, arguments: dict[str, Any] | None = None, file: int | None = None) -> Any:
            request = json.dumps({"execute": command, **({"arguments": arguments} if arguments else {})})
            if file is None:
                answer = json.loads(libvirt_qemu.qemuMonitorCommand(domain, request, 0))
            else:
                answer = json.loads(libvirt_qemu.qemuMonitorCommandWithFiles(domain, request, [file], 0)[0])
            if "error" in answer:
                raise memory.MemoryFault(f"{command}: {answer['error'].get('desc', answer['error'])}")
            return answer.get("return")

        return ask

    def save_memory(self, name: str, path: str, seconds: float) -> None:
        """Writes a stopped domain's devices to a file; its memory lies in the file that it maps."""
        memory.save(self._monitor(name), Path(path), time.monotonic() + seconds)

    def load_memory(self, name: str, path: str, seconds: float) -> None:
        """Gives a domain that waits for it the state of another."""
        memory.load(self._monitor(name), Path(path), time.monotonic() + seconds)

    # -- the end --------------------------------------------------------------------------------------------------------

    def last_will(self) -> None:
        """Ends every domain of the runner that is gone."""
        ending = []
        for found in self.tagged():
            if found["tag"]["runner"] == self._runner:
                thread = threading.Thread(target=self._end, args=(found["name"],), daemon=True)
                thread.start()
                ending.append(thread)
        for thread in ending:
            thread.join(_LAST_SECONDS)

    def _end(self, name: str) -> None:
        with contextlib.suppress(libvirt.libvirtError):
            self.destroy(name)


CALLS = frozenset(
    {
        "about", "agent", "capabilities", "create", "destroy", "display_port", "load_memory", "resume", "save_memory",
        "shutdown", "state", "suspend", "tagged",
    }
)  # fmt: skip
"""The requests that are answered."""


def _fault(error: BaseException) -> dict[str, Any]:
    """An error as the other side needs it: a kind to act on and words for people."""
    if libvirt is None or not isinstance(error, libvirt.libvirtError):
        kind = "memory" if isinstance(error, memory.MemoryFault) else "other"
        return {"kind": kind, "code": 0, "message": f"{error}" or type(error).__name__}
    code = error.get_error_code()
    text = str(error)
    kinds = {
        libvirt.VIR_ERR_NO_DOMAIN: "no_domain",
        libvirt.VIR_ERR_AGENT_UNRESPONSIVE: "agent_unresponsive",
        libvirt.VIR_ERR_AGENT_UNSYNCED: "agent_unresponsive",
        libvirt.VIR_ERR_NO_CONNECT: "connection",
        libvirt.VIR_ERR_INVALID_CONN: "connection",
        libvirt.VIR_ERR_RPC: "connection",
        libvirt.VIR_ERR_AUTH_FAILED: "permission",
        libvirt.VIR_ERR_ACCESS_DENIED: "permission",
    }
    kind = kinds.get(code, "operation")
    if kind == "operation" and ("end of file while reading" in text.lower() or "client socket is closed" in text):
        kind = "connection"
    elif kind == "operation" and _AGENT_SAYS in text:
        kind, text = "agent_refused", text.partition(_AGENT_SAYS)[2].partition(": ")[2]
    return {"kind": kind, "code": code, "message": text}


def _serve(calls: Calls, answer: Callable[[dict[str, Any]], None]) -> None:
    def work(request: dict[str, Any]) -> None:
        number = request.get("id")
        try:
            if request.get("call") not in CALLS:
                raise ValueError(f"there is no call {request.get('call')!r}")
            calls.open()
            result = getattr(calls, str(request["call"]))(**request.get("arguments", {}))
        except BaseException as error:
            answer({"id": number, "error": _fault(error)})
        else:
            answer({"id": number, "result": result})

    while line := sys.stdin.buffer.readline(_MAX_REQUEST):
        threading.Thread(target=work, args=(json.loads(line),), daemon=True).start()


def _run_events() -> None:
    while True:
        with contextlib.suppress(libvirt.libvirtError):
            libvirt.virEventRunDefaultImpl()


def main() -> None:
    """Serves until standard input ends."""
    uri, files = sys.argv[1], RunnerFiles(Path(sys.argv[3]), sys.argv[2])
    root = files.root
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the runner decides when we end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever libraries print must not get between the answers
    writing = threading.Lock()

    def answer(message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with writing, contextlib.suppress(BrokenPipeError):
            answers.write(data)
            answers.flush()

    if libvirt is None:
        answer({"failed": {"kind": "missing", "code": 0, "message": "libvirt-python is not installed"}})
        return
    libvirt.registerErrorHandler(lambda *_: None, None)
    libvirt.virEventRegisterDefaultImpl()
    threading.Thread(target=_run_events, daemon=True).start()
    calls = Calls(uri, files.token, root)
    try:
        calls.open()
        about = calls.about()
        calls.capabilities("qemu")
    except libvirt.libvirtError as error:
        answer({"failed": _fault(error)})
        return
    if root is not None:
        # Only now: libvirt has asked the QEMU programs what they can (the answers are cached), and would wait for those for
        # ever if their orphans came to us instead of to an init that reaps them.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    answer({"ready": about})
    _serve(calls, answer)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LAST_SECONDS + 5)
    with contextlib.suppress(Exception):
        calls.last_will()
    with contextlib.suppress(Exception):
        files.remove()
    os._exit(0)  # threads may hang in libvirt; that is why this process exists


if __name__ == "__main__":
    main()
