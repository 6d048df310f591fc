r"""The station: the one process of ours inside a machine's sandbox; it starts programs and opens files on request.

It runs under the system's Python with the standard library alone, as the first program of the sandbox, and is told what to do
over one socket that it inherits. Every request comes with a control socket of its own, over which it is answered; when
the other side closes that socket, the program started for it is killed. When the main socket closes, the runner is gone:
the station ends, and the sandbox's process namespace with it.

Requests are JSON objects, one per packet:

``{"op": "run", "argv": […], "cwd": "C:\\…" | null}`` with file descriptors ``control, stdin, stdout, stderr``.
    Answers ``{"pid": n}`` at once and ``{"status": n}`` when the program has ended.
``{"op": "open", "path": "C:\\…", "write": false}`` with ``control``.
    Answers ``{"ok": true}`` with an open descriptor, or ``{"error": "not found" | …}``. Paths are resolved here, inside the
    sandbox, without regard to case: whatever links a guest program has made, they cannot lead out of it.
"""

import array
import contextlib
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
from typing import Any

PREFIX = "/prefix"
LIMIT = 1 << 16


class _Missing(Exception):
    """There is no such name, or several that differ by case only: which of them is meant, Windows decides."""


def _fold(name: str) -> str:
    """A name with its case taken away as Windows does it: letter by letter, and only where lower case leads back again.

    ``ß`` stays itself, since ``Maße`` and ``MASSE`` are two files; Unicode's normal forms are two names as well.
    """
    letters = ((letter, letter.upper()) for letter in name)
    return "".join(upper if len(upper) == 1 and upper.lower() == letter else letter for letter, upper in letters)


def _resolve(path: str, *, make: bool) -> str:
    """The path below ``drive_c`` that a Windows path means; matches names without case.

    Args:
        path: A Windows path.
        make: Whether folders on the way are made, and the last name may be new.

    Raises:
        _Missing: A component does not exist, or which one is meant is Windows' to tell.
        ValueError: It is no absolute path on drive C, climbs, or, with ``make``, may mean several files.
    """
    parts = path.replace("/", "\\").split("\\")
    if parts[0].lower() != "c:":
        raise ValueError("only drive C exists")
    here = os.path.join(PREFIX, "drive_c")
    for index, part in enumerate(parts[1:]):
        if part in ("", "."):
            continue
        if part == ".." or "\0" in part:
            raise ValueError("not a plain path")
        candidate = os.path.join(here, part)
        if not os.path.lexists(candidate):
            folded = _fold(part)
            try:
                found = [name for name in os.listdir(here) if _fold(name) == folded]
            except FileNotFoundError:
                found = []
            if len(found) == 1:
                candidate = os.path.join(here, found[0])
            elif not make:
                raise _Missing(part)
            elif found:
                raise ValueError(f"{part} may mean any of {len(found)} names that differ by case only")
            elif index < len(parts) - 2:
                os.mkdir(candidate)
        here = candidate
    return here


def _open(request: dict[str, Any], control: socket.socket) -> None:
    write = bool(request.get("write"))
    try:
        path = _resolve(str(request["path"]), make=write)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC if write else os.O_RDONLY | os.O_NONBLOCK
        handle = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except (_Missing, FileNotFoundError):
        _answer(control, {"error": "not found"})
        return
    except (OSError, ValueError) as error:
        _answer(control, {"error": str(error)[:500]})
        return
    try:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            payload = json.dumps({"ok": True}).encode()
            control.sendmsg([payload], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [handle]))])
        else:
            _answer(control, {"error": "not a plain file"})
    finally:
        os.close(handle)


def _home() -> str:
    """Where programs start unless told: on drive C, since what lies outside of it has no Windows name."""
    drive = os.path.join(PREFIX, "drive_c")
    return drive if os.path.isdir(drive) else PREFIX  # while the drive is being built


def _run(request: dict[str, Any], control: socket.socket, streams: list[int]) -> None:
    try:
        cwd = _resolve(request["cwd"], make=False) if request.get("cwd") else _home()
        process = subprocess.Popen(
            [str(word) for word in request["argv"]],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError, _Missing) as error:
        _answer(control, {"error": f"{type(error).__name__}: {error}"[:500]})
        return
    finally:
        for handle in streams:
            os.close(handle)
    _answer(control, {"pid": process.pid})
    ended = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([ended, control.fileno()], [], [])
        if ended not in ready:  # the other side has lost interest: end the program and what it started
            os.killpg(process.pid, signal.SIGKILL)
        _answer(control, {"status": process.wait()})
    finally:
        os.close(ended)


def _answer(control: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it any more
        control.send(json.dumps(message).encode())


def _serve(packet: bytes, handles: list[int]) -> None:
    with socket.socket(fileno=handles[0]) as control:
        request = json.loads(packet)
        if request["op"] == "run" and len(handles) == 4:
            _run(request, control, handles[1:])
        elif request["op"] == "open":
            _open(request, control)
        else:
            _answer(control, {"error": "unknown request"})


def main() -> None:
    """Serves requests until the runner's side of the socket is closed."""
    with socket.socket(fileno=int(sys.argv[1])) as main_socket:
        with open("/proc/sys/kernel/random/uuid") as source:
            boot = f"{os.stat('/proc/self/ns/pid').st_ino}-{source.read().strip()}"
        main_socket.send(json.dumps({"boot": boot}).encode())
        while True:
            packet, handles, _, _ = socket.recv_fds(main_socket, LIMIT, 8)
            if not packet:
                return
            for handle in handles:
                os.set_inheritable(handle, False)
            threading.Thread(target=_serve, args=(packet, list(handles)), daemon=True).start()


if __name__ == "__main__":
    main()
    os._exit(0)
