"""A stand-in for the program ``ssh``: the other host is this one.

It forwards the port that ``-L`` names and, as the real one does, takes no connection before; runs the command (``cat``) with the
standard input and output; notes its arguments; and ends when the command ends. It does not prove that the real ``ssh`` understands
its arguments, that it asks nobody for a password, or that a forwarded port is protected on its way.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTES = "FAKE_SSH_NOTES"
"""Environment variable: the file to which each call's arguments are added, NUL between them."""
REFUSES = "FAKE_SSH_REFUSES"
"""Environment variable: what it says before it ends with an error."""
STALLS = "FAKE_SSH_STALLS"
"""Environment variable: set where it never gets there."""


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Puts it on the path; gives the file with what it was called with."""
    program = folder / "ssh"
    program.write_text(f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' -m tests.peers.fake_ssh \"$@\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(NOTES, str(folder / "notes"))
    return folder / "notes"


def calls(notes: Path) -> list[list[str]]:
    """The arguments of each call so far."""
    return [line.split("\0") for line in notes.read_text().splitlines()] if notes.exists() else []


def _copy(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def _forward(listening: socket.socket, target: tuple[str, int]) -> None:
    while True:
        here, _ = listening.accept()
        there = socket.create_connection(target)
        for pair in ((here, there), (there, here)):
            threading.Thread(target=_copy, args=pair, daemon=True).start()


def main() -> int:
    """Does what its arguments say."""
    with Path(os.environ[NOTES]).open("a") as notes:
        notes.write("\0".join(sys.argv[1:]) + "\n")
    if said := os.environ.get(REFUSES):
        sys.stderr.write(f"{said}\n")
        return 255
    host, port, target, target_port = sys.argv[sys.argv.index("-L") + 1].split(":")
    try:
        listening = socket.create_server((host, int(port)))
    except OSError:
        sys.stderr.write(f"bind [{host}]:{port}: Address already in use\n")
        return 255
    if os.environ.get(STALLS):
        threading.Event().wait(60)
    threading.Thread(target=_forward, args=(listening, (target, int(target_port))), daemon=True).start()
    os.write(1, b"Welcome!\n")  # as a shell's start-up file may say
    while data := os.read(0, 65536):
        os.write(1, data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
