"""Bytes on a socket: reads and writes with deadlines, and the one way to encode what RFB needs.

Every operation ends at a deadline (a value of ``time.monotonic()``), whatever the peer does. Sockets are non-blocking and
waited for with ``poll``, so that a reader and a writer may use the same connection from two threads.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from typing import Final

from runner.display.errors import DisplayClosed, DisplayTimeout

CHUNK: Final = 65536
"""The most bytes taken from a socket at once."""


def deadline_in(seconds: float) -> float:
    """The moment that is ``seconds`` from now, on the clock every deadline in this package is measured with."""
    return time.monotonic() + seconds


class Stream:
    """One TCP connection whose every operation ends at a deadline.

    One thread may read while another writes. :meth:`wake` may be called from any thread; :meth:`close` only when no other
    thread can be inside an operation, since the descriptor's number may be given away at once.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        sock.setblocking(False)
        # Input events are a few bytes each; Nagle's algorithm would hold them back for a delayed acknowledgement.
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @classmethod
    def connect(cls, host: str, port: int, deadline: float) -> Stream:
        """Connects to ``host:port``.

        Raises:
            DisplayClosed: nobody listens there, or the name does not resolve.
            DisplayTimeout: no answer before the deadline.
        """
        timeout = deadline - time.monotonic()
        if timeout <= 0:
            raise DisplayTimeout(f"no time left to connect to {host}:{port}")
        try:
            return cls(socket.create_connection((host, port), timeout))
        except TimeoutError as error:
            raise DisplayTimeout(f"{host}:{port} does not answer") from error
        except (OSError, OverflowError, UnicodeError) as error:
            raise DisplayClosed(f"cannot connect to {host}:{port}: {error}") from error

    def read_some(self, limit: int, deadline: float | None) -> bytes:
        """At least one and at most ``limit`` bytes, or ``b""`` when the peer has ended its side.

        Args:
            limit: the most bytes to take.
            deadline: None waits until there is something, or until :meth:`wake`.

        Raises:
            DisplayTimeout: nothing came before the deadline.
            DisplayClosed: the connection broke.
        """
        while True:
            try:
                return self._sock.recv(limit)
            except BlockingIOError:
                self._wait(select.POLLIN, deadline)
            except OSError as error:
                raise DisplayClosed(f"connection lost: {error}") from error

    def read_exactly(self, count: int, deadline: float) -> bytes:
        """Exactly ``count`` bytes. The caller has bounded ``count``.

        Raises:
            DisplayTimeout: they did not all come before the deadline.
            DisplayClosed: the connection ended before they were there.
        """
        data = bytearray()
        while len(data) < count:
            chunk = self.read_some(min(count - len(data), CHUNK * 4), deadline)
            if not chunk:
                raise DisplayClosed("the peer ended the connection")
            data += chunk
        return bytes(data)

    def skip(self, count: int, deadline: float) -> None:
        """Reads ``count`` bytes and forgets them. Raises what :meth:`read_exactly` raises."""
        while count:
            count -= len(self.read_exactly(min(count, CHUNK), deadline))

    def read_u8(self, deadline: float) -> int:
        """One unsigned byte."""
        return self.read_exactly(1, deadline)[0]

    def read_u32(self, deadline: float) -> int:
        """One big-endian unsigned 32-bit number."""
        return int(struct.unpack(">I", self.read_exactly(4, deadline))[0])

    def write(self, data: bytes, deadline: float | None) -> None:
        """All of ``data``, in order.

        Args:
            data: what to send. After an error part of it may have been sent: the connection is then of no use.
            deadline: None waits as long as the peer takes; that is the back pressure between two connections.

        Raises:
            DisplayTimeout: the peer did not take it before the deadline.
            DisplayClosed: the connection broke.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[self._sock.send(view) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, deadline)
            except OSError as error:
                raise DisplayClosed(f"connection lost: {error}") from error

    def readable(self, timeout: float) -> bool:
        """Whether bytes (or the end of the connection) can be read within ``timeout`` seconds.

        Raises:
            DisplayClosed: the connection was closed by us.
        """
        return self._poll(select.POLLIN, timeout)

    def end_output(self) -> None:
        """Tells the peer that nothing more will come, after everything written so far. Reading goes on."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    def wake(self) -> None:
        """Ends both directions, so that every thread waiting on this connection returns. The descriptor stays ours."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def abort(self) -> None:
        """Like :meth:`wake`, and throws away what was written but not yet sent once the connection is closed."""
        with contextlib.suppress(OSError):
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wake()

    def close(self) -> None:
        """Gives the descriptor back. Safe to call twice."""
        with contextlib.suppress(OSError):
            self._sock.close()

    def _wait(self, event: int, deadline: float | None) -> None:
        if deadline is None:
            self._poll(event, None)
            return
        timeout = deadline - time.monotonic()
        if timeout <= 0 or not self._poll(event, timeout):
            raise DisplayTimeout(
                "the peer does not answer" if event == select.POLLIN else "the peer takes no more data"
            )

    def _poll(self, event: int, timeout: float | None) -> bool:
        descriptor = self._sock.fileno()
        if descriptor < 0:
            raise DisplayClosed("the connection is closed")
        poll = select.poll()  # not select(): its descriptors end at 1023
        poll.register(descriptor, event)
        return bool(poll.poll(None if timeout is None else max(0.0, timeout) * 1000))
