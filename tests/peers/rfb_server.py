"""A stand-in for a machine's display: an RFB server in this process that can misbehave on purpose.

It proves that our client and proxy follow RFC 6143 as *this file* reads it, in the order of bytes and in what happens when a
server is slow, silent, gone, or lies about lengths. Its parser and its DES are written apart from the code under test. It
does not prove that real servers behave like this (TigerVNC is tested beside it; QEMU, VMware and RealVNC are not), it offers
Raw rectangles only, and it has no keyboard: that a key has the wanted effect on Windows is not its subject.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from PIL import Image

FIXED = {0: 20, 2: 4, 3: 10, 4: 8, 5: 6, 6: 8}


def mirrored_des(password: bytes, data: bytes) -> bytes:
    """VNC's DES: the bits of every key byte in reverse order."""
    key = bytes(sum(((byte >> bit) & 1) << (7 - bit) for bit in range(8)) for byte in password[:8].ljust(8, b"\0"))
    encryptor = Cipher(TripleDES(key * 3), modes.ECB()).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def wait_until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Fails if the condition does not come true; the time-out only bounds a broken run."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the awaited did not happen"
        time.sleep(0.005)


@dataclass(frozen=True)
class Received:
    """A message as it came in: when (``time.perf_counter``), on which connection, and its bytes."""

    t: float
    connection: int
    data: bytes

    @property
    def input(self) -> tuple[object, ...] | None:
        """The message as a tuple if it is input, e.g. ``("key", True, 97)``."""
        match self.data[0]:
            case 4:
                down, keysym = struct.unpack(">BxxI", self.data[1:])
                return "key", bool(down), keysym
            case 5:
                return ("pointer", *struct.unpack(">BHH", self.data[1:]))
            case 6:
                return "cut", self.data[8:]
            case _:
                return None


@dataclass
class Behaviour:
    """How the server acts. Everything may be changed while it runs."""

    password: bytes | None = None
    version: bytes = b"RFB 003.008\n"
    security: bytes | None = None
    """Security types offered; None: what fits the password."""
    size: tuple[int, int] = (64, 48)
    name: bytes = b"fake"
    fragment: bool = False
    """Send one byte at a time."""
    script: bytes | None = None
    """Send this instead of everything else, then listen."""
    after_init: bytes = b""
    """Send this right after the handshake."""
    resize_first: tuple[int, int] | None = None
    """Answer the first update request with nothing but this new size."""
    stalled: threading.Event = field(default_factory=threading.Event)
    """While set, nothing is read after the handshake."""
    hang_open: bool = False
    """Do not close when the client ends its side."""


class FakeRfbServer:
    """Listens on 127.0.0.1 and records what it is told."""

    def __init__(self, **behaviour: object) -> None:
        self.behaviour = Behaviour(**behaviour)  # type: ignore[arg-type]
        self.received: list[Received] = []
        self.image = Image.new("RGB", self.behaviour.size)
        self.accepted = 0
        self.refused = 0
        self._lock = threading.RLock()
        self._connections: dict[int, _Connection] = {}
        self._listener: socket.socket | None = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def __enter__(self) -> FakeRfbServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def inputs(self) -> list[tuple[object, ...]]:
        """Input messages of all connections in the order of their arrival."""
        return [message.input for message in list(self.received) if message.input is not None]

    @property
    def encodings(self) -> list[tuple[int, ...]]:
        """What each SetEncodings message asked for."""
        return [struct.unpack(f">{(len(m.data) - 4) // 4}i", m.data[4:]) for m in list(self.received) if m.data[0] == 2]

    @property
    def open_connections(self) -> int:
        """Connections that are past their handshake and not over."""
        with self._lock:
            return sum(connection.is_ready for connection in self._connections.values())

    def draw(self, image: Image.Image) -> None:
        """Shows another picture, of the same or another size, and tells those who asked for changes."""
        with self._lock:
            self.image = image
            connections = list(self._connections.values())
        for connection in connections:
            connection.is_stale = True
            connection.offer()

    def send(self, data: bytes) -> None:
        """Sends bytes on every connection."""
        with self._lock:
            connections = [connection for connection in self._connections.values() if connection.is_ready]
        for connection in connections:
            connection.send(data)

    def drop(self) -> None:
        """Ends all connections."""
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            connection.shut()

    def close(self) -> None:
        """Ends the server."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.behaviour.stalled.clear()
        self.behaviour.hang_open = False
        self.drop()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.accepted += 1
                connection = _Connection(self, self.accepted, sock)
                self._connections[self.accepted] = connection
            threading.Thread(target=connection.run, daemon=True).start()

    def _gone(self, number: int) -> None:
        with self._lock:
            self._connections.pop(number, None)


class _Connection:
    def __init__(self, server: FakeRfbServer, number: int, sock: socket.socket) -> None:
        self.server = server
        self.number = number
        self.sock = sock
        self.is_ready = False
        self.lock = threading.RLock()
        self.wants_update = False
        self.is_stale = False
        self.size = server.image.size
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def run(self) -> None:
        try:
            if self._handshake():
                self.is_ready = True
                self._serve()
        except (OSError, EOFError):
            pass
        while self.server.behaviour.hang_open:
            time.sleep(0.01)
        self.is_ready = False
        self.server._gone(self.number)
        self.sock.close()

    def shut(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def send(self, data: bytes) -> None:
        with self.lock, contextlib.suppress(OSError):
            if self.server.behaviour.fragment:
                for byte in data:
                    self.sock.sendall(bytes([byte]))
            else:
                self.sock.sendall(data)

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def _handshake(self) -> bool:
        how = self.server.behaviour
        if how.script is not None:
            self.send(how.script)
            while self.sock.recv(65536):
                pass
            return False
        self.send(how.version)
        minor = int(self.read(12)[8:11])
        offered = how.security if how.security is not None else b"\x01" if how.password is None else b"\x02"
        if minor == 3:
            chosen = offered[0]
            self.send(struct.pack(">I", chosen))
        else:
            self.send(bytes([len(offered)]) + offered)
            chosen = self.read(1)[0]
        if chosen == 2:
            challenge = os.urandom(16)
            self.send(challenge)
            if self.read(16) != mirrored_des(how.password or b"", challenge):
                self.server.refused += 1
                self.send(struct.pack(">I", 1) + (struct.pack(">I", 5) + b"wrong" if minor >= 8 else b""))
                return False
        if chosen == 2 or minor >= 8:
            self.send(struct.pack(">I", 0))
        self.read(1)
        pixel_format = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
        size = struct.pack(">HH", *self.server.image.size)
        self.send(size + pixel_format + struct.pack(">I", len(how.name)) + how.name + how.after_init)
        return True

    def _serve(self) -> None:
        while True:
            while self.server.behaviour.stalled.is_set():
                time.sleep(0.005)
            head = self.read(1)
            head += self.read(FIXED[head[0]] - 1)
            if head[0] == 2:
                head += self.read(4 * struct.unpack(">H", head[2:4])[0])
            elif head[0] == 6:
                head += self.read(struct.unpack(">I", head[4:8])[0])
            self.server.received.append(Received(time.perf_counter(), self.number, head))
            if head[0] == 3:
                with self.lock:
                    self.wants_update = True
                    if not head[1] or self.is_stale:
                        self.offer()

    def offer(self) -> None:
        with self.lock:
            if not self.wants_update:
                return
            self.wants_update = self.is_stale = False
            how, image = self.server.behaviour, self.server.image
            if how.resize_first is not None:
                self.size, how.resize_first = how.resize_first, None
                self.server.image = image.resize(self.size)
                self.send(struct.pack(">BxHHHHHi", 0, 1, 0, 0, *self.size, -223))
                return
            rectangles = b""
            count = 1
            if image.size != self.size:
                self.size = image.size
                rectangles = struct.pack(">HHHHi", 0, 0, *image.size, -223)
                count = 2
            pixels = image.convert("RGBX").tobytes("raw", "BGRX")
            self.send(struct.pack(">BxH", 0, count) + rectangles + struct.pack(">HHHHi", 0, 0, *image.size, 0) + pixels)
