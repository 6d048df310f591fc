"""How an RFB connection begins, from both ends (RFC 6143 section 7.1 to 7.3).

A *server* here is the machine's display; towards an agent the flight recorder itself is the server.
"""

from __future__ import annotations

import hmac
import os
import re
import struct
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes

from runner.display.errors import DisplayAuthError, DisplayError, DisplayProtocolError
from runner.display.wire import Stream, deadline_in

MAX_TEXT: Final = 65536
"""The longest name or reason accepted, in bytes; the RFC sets no limit."""

MAX_FRAMEBUFFER_BYTES: Final = 64 * 1024 * 1024
"""The largest framebuffer accepted, at four bytes per pixel (4096 x 4096)."""

MAX_PASSWORD: Final = 8
"""VNC authentication uses the first eight bytes of a password and ignores the rest (RFC 6143 section 7.2.2)."""

_NO_SECURITY: Final = 1
_VNC_AUTHENTICATION: Final = 2
_CHALLENGE_BYTES: Final = 16
_VERSION = re.compile(rb"RFB (\d{3})\.(\d{3})\n")


@dataclass(frozen=True)
class DisplayAddress:
    """Where a display listens.

    Attributes:
        host: name or address.
        port: TCP port.
        password: for VNC authentication; only its first eight bytes count. None: the display asks for none.
    """

    host: str
    port: int
    password: str | None = None

    def __repr__(self) -> str:
        """Without the password, so that it reaches neither logs nor tracebacks."""
        shown = "" if self.password is None else ", password=…"
        return f"DisplayAddress({self.host!r}, {self.port}{shown})"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class ServerInit:
    """What a server says about its screen (RFC 6143 section 7.3.2), with the bytes it said it in."""

    width: int
    height: int
    name: str
    raw: bytes


def check_size(width: int, height: int) -> None:
    """Refuses a screen that is empty or larger than we accept.

    Raises:
        DisplayProtocolError: it is.
    """
    if width == 0 or height == 0:
        raise DisplayProtocolError(f"a screen of {width}x{height} pixels is empty")
    if width * height * 4 > MAX_FRAMEBUFFER_BYTES:
        raise DisplayProtocolError(f"a screen of {width}x{height} pixels is larger than accepted")


def password_bytes(password: str) -> bytes:
    """The eight bytes of a password that count.

    Raises:
        DisplayAuthError: it holds a character that has no Latin-1 byte; servers would disagree about it.
    """
    try:
        return password.encode("latin-1")[:MAX_PASSWORD].ljust(MAX_PASSWORD, b"\0")
    except UnicodeEncodeError as error:
        raise DisplayAuthError("a VNC password may only hold Latin-1 characters") from error


def answer_challenge(password: str, challenge: bytes) -> bytes:
    """The answer to a VNC authentication challenge: DES, each byte of the key with its bits reversed.

    The reversal is in no standard but in every implementation (RFC 6143 section 7.2.2, erratum 4951).
    Triple DES with three times the same key is DES.
    """
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in password_bytes(password))
    encryptor = Cipher(TripleDES(key * 3), modes.ECB()).encryptor()  # noqa: S305 - the protocol leaves no choice
    return encryptor.update(challenge) + encryptor.finalize()


def open_session(stream: Stream, password: str | None, deadline: float, *, shared: bool = True) -> ServerInit:
    """Begins a session as a client; speaks to servers of RFB 3.3, 3.7 and 3.8.

    Args:
        stream: a fresh connection to the server.
        password: for VNC authentication. It is used if the server offers that, even where it would let us in without.
        deadline: when to give up.
        shared: False asks the server to throw out everybody else.

    Raises:
        DisplayAuthError: wrong password, no password, or no common security type.
        DisplayProtocolError: the server does not speak RFB.
        DisplayTimeout: it did not answer in time.
        DisplayClosed: it hung up.
    """
    match = _VERSION.fullmatch(stream.read_exactly(12, deadline))
    if match is None:
        raise DisplayProtocolError("the peer does not speak RFB")
    minor = _understood(int(match[1]), int(match[2]))
    stream.write(b"RFB 003.%03d\n" % minor, deadline)
    security = _choose_security(stream, minor, password, deadline)
    if security == _VNC_AUTHENTICATION:
        if password is None:
            raise DisplayAuthError("the display asks for a password")
        stream.write(answer_challenge(password, stream.read_exactly(_CHALLENGE_BYTES, deadline)), deadline)
    if (security == _VNC_AUTHENTICATION or minor >= 8) and stream.read_u32(deadline) != 0:
        reason = _read_text(stream, deadline) if minor >= 8 else "wrong password?"
        raise DisplayAuthError(f"the display refused us: {reason}")
    stream.write(b"\x01" if shared else b"\x00", deadline)
    head = stream.read_exactly(24, deadline)
    width, height = struct.unpack(">HH", head[:4])
    check_size(width, height)
    (length,) = struct.unpack(">I", head[20:24])
    if length > MAX_TEXT:
        raise DisplayProtocolError(f"a desktop name of {length} bytes is longer than accepted")
    name = stream.read_exactly(length, deadline)
    return ServerInit(width, height, name.decode("utf-8", "replace"), head + name)


class Reception:
    """A client being let in, by VNC authentication with our own password. Towards it we are the server.

    The answer is a step of its own (:meth:`accept` or :meth:`refuse`), so that a client can be told that the machine behind
    us is gone while it is still listening for reasons.
    """

    def __init__(self, stream: Stream, timeout: float) -> None:
        """Begins with a fresh connection; each of the steps may take ``timeout`` seconds."""
        self._stream = stream
        self._timeout = timeout
        self._minor = 8

    def authenticate(self, password: str) -> bool:
        """Whether the client knows the password.

        Raises:
            DisplayProtocolError: it does not speak RFB, or chose a security type that was not offered.
            DisplayTimeout: it did not answer in time.
            DisplayClosed: it hung up.
        """
        stream, deadline = self._stream, deadline_in(self._timeout)
        stream.write(b"RFB 003.008\n", deadline)
        match = _VERSION.fullmatch(stream.read_exactly(12, deadline))
        if match is None or int(match[1]) != 3:
            raise DisplayProtocolError("the client does not speak RFB 3")
        self._minor = _understood(3, int(match[2]))
        if self._minor == 3:
            stream.write(struct.pack(">I", _VNC_AUTHENTICATION), deadline)
        else:
            stream.write(bytes([1, _VNC_AUTHENTICATION]), deadline)
            if stream.read_u8(deadline) != _VNC_AUTHENTICATION:
                raise DisplayProtocolError("the client chose a security type that was not offered")
        challenge = os.urandom(_CHALLENGE_BYTES)
        stream.write(challenge, deadline)
        answer = stream.read_exactly(_CHALLENGE_BYTES, deadline)
        return hmac.compare_digest(answer, answer_challenge(password, challenge))

    def accept(self, init: ServerInit) -> None:
        """Lets the client in. Its wish to be alone (RFC 6143 section 7.3.1) is read and not followed."""
        deadline = deadline_in(self._timeout)
        self._stream.write(struct.pack(">I", 0), deadline)
        self._stream.read_u8(deadline)
        self._stream.write(init.raw, deadline)

    def refuse(self, reason: str) -> None:
        """Tells the client why not, as far as its version of the protocol can."""
        message = struct.pack(">I", 1)
        if self._minor >= 8:
            text = reason.encode()
            message += struct.pack(">I", len(text)) + text
        self._stream.write(message, deadline_in(self._timeout))


def _understood(major: int, minor: int) -> int:
    """The minor version of RFB 3 that both sides understand; unknown ones below 3.7 are to be taken as 3.3 (7.1.1)."""
    if major > 3 or (major == 3 and minor >= 8):
        return 8
    return 7 if (major, minor) == (3, 7) else 3


def _choose_security(stream: Stream, minor: int, password: str | None, deadline: float) -> int:
    if minor == 3:
        chosen = stream.read_u32(deadline)
        if chosen == 0:
            raise _refusal(stream, deadline)
        if chosen not in (_NO_SECURITY, _VNC_AUTHENTICATION):
            raise DisplayAuthError(f"the display demands security type {chosen}, which is not supported")
        return chosen
    offered = stream.read_exactly(stream.read_u8(deadline), deadline)
    if not offered:
        raise _refusal(stream, deadline)
    preferred = (_VNC_AUTHENTICATION, _NO_SECURITY) if password is not None else (_NO_SECURITY, _VNC_AUTHENTICATION)
    for chosen in preferred:
        if chosen in offered:
            stream.write(bytes([chosen]), deadline)
            return chosen
    raise DisplayAuthError(f"the display offers only security types {sorted(set(offered))}, none of which is supported")


def _refusal(stream: Stream, deadline: float) -> DisplayError:
    return DisplayAuthError(f"the display refuses connections: {_read_text(stream, deadline)}")


def _read_text(stream: Stream, deadline: float) -> str:
    length = stream.read_u32(deadline)
    if length > MAX_TEXT:
        raise DisplayProtocolError(f"a reason of {length} bytes is longer than accepted")
    return stream.read_exactly(length, deadline).decode("utf-8", "replace")
