"""What the tests of the display layer share: a client that sends raw bytes, and a real TigerVNC server."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.display.rfb import DisplayAddress
from tests.peers.rfb_server import mirrored_des

KEY_OF_PASSWORD_FILES = bytes([23, 82, 107, 6, 35, 78, 88, 7])
"""VNC password files are "encrypted" with this; it has been in the source code of every VNC since 1999."""


def key(keysym: int, down: bool = True) -> bytes:
    return struct.pack(">BBxxI", 4, down, keysym)


def pointer(buttons: int, x: int, y: int) -> bytes:
    return struct.pack(">BBHH", 5, buttons, x, y)


def cut_text(text: bytes) -> bytes:
    return struct.pack(">BxxxI", 6, len(text)) + text


class RawClient:
    """An RFB client that does as it is told; its handshake is written apart from the code under test."""

    def __init__(self, address: DisplayAddress, version: bytes = b"RFB 003.008\n", byte_by_byte: bool = False) -> None:
        self.sock = socket.create_connection((address.host, address.port), 10)
        self.sock.settimeout(10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.byte_by_byte = byte_by_byte
        assert self.read(12) == b"RFB 003.008\n"
        self.send(version)
        minor = int(version[8:11])
        if minor < 7:
            assert self.read(4) == b"\0\0\0\2"
        else:
            assert self.read(2) == b"\1\2"
            self.send(b"\2")
        self.send(mirrored_des((address.password or "").encode("latin-1"), self.read(16)))
        self.result = struct.unpack(">I", self.read(4))[0]
        self.reason = b""
        if self.result and minor >= 8:
            self.reason = self.read(struct.unpack(">I", self.read(4))[0])
        if not self.result:
            self.send(b"\0")  # not shared: the recorder must not pass that on
            self.init = self.read(24)
            self.name = self.read(struct.unpack(">I", self.init[20:])[0])

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        if self.byte_by_byte:
            for byte in data:
                self.sock.sendall(bytes([byte]))
        else:
            self.sock.sendall(data)

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            if not chunk:
                raise EOFError(f"{len(data)} of {count} bytes")
            data += chunk
        return data

    def is_closed(self) -> bool:
        """Waits for the other side to end the connection."""
        try:
            while self.sock.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


@contextlib.contextmanager
def tigervnc(folder: Path, password: str, geometry: str = "1024x768") -> Iterator[tuple[DisplayAddress, str]]:
    """A real X server with VNC authentication; its address and its X display."""
    password_file = folder / "vnc-password"
    password_file.write_bytes(mirrored_des(KEY_OF_PASSWORD_FILES, password.encode("latin-1").ljust(8, b"\0")))
    for _ in range(5):  # somebody else may take the port in between
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = ["Xtigervnc", "-rfbport", str(port), "-localhost", "-SecurityTypes", "VncAuth"]
        command += ["-PasswordFile", str(password_file), "-geometry", geometry, "-depth", "24", "-nolisten", "tcp"]
        process, display = _start(command)
        try:
            if display:
                yield DisplayAddress("127.0.0.1", port, password), f":{display}"
                return
        finally:
            process.terminate()
            process.wait(20)
    pytest.fail("Xtigervnc does not start")


def _start(command: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    """Starts an X server on a display of its own choice and waits until it says which."""
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [*command, "-displayfd", str(writing)], pass_fds=[writing], stderr=subprocess.DEVNULL
        )
    finally:
        os.close(writing)
    try:
        display = b""
        while not display.endswith(b"\n"):  # it writes the newline by itself, and dies if nobody is there to read it
            ready, _, _ = select.select([reading], [], [], 30)
            chunk = os.read(reading, 16) if ready else b""
            if not chunk:
                return process, ""
            display += chunk
        return process, display.decode().strip()
    finally:
        os.close(reading)
