"""What a client may say after the handshake (RFC 6143 section 7.5), taken apart without any I/O.

The flight recorder must understand every byte that goes to the machine, so it accepts the six messages of the RFC and
nothing else. Extensions that add client messages are kept from being switched on by :data:`SAFE_ENCODINGS`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from runner.display.errors import DisplayProtocolError

MAX_CUT_TEXT: Final = 1024 * 1024
"""The longest clipboard text accepted from a client, in bytes."""

MAX_ENCODINGS: Final = 1024
"""The most encodings accepted in one message; real clients send about thirty."""

RAW: Final = 0
COPY_RECT: Final = 1
DESKTOP_SIZE: Final = -223

SAFE_ENCODINGS: Final = frozenset(
    {
        RAW,
        COPY_RECT,
        2,  # RRE
        4,  # CoRRE
        5,  # Hextile
        6,  # zlib
        7,  # Tight
        16,  # ZRLE
        DESKTOP_SIZE,
        -224,  # LastRect
        -239,  # Cursor
        -240,  # XCursor
        *range(-32, -22),  # JPEG quality
        *range(-256, -246),  # compression level
    }
)
"""Encodings that only change what the *server* sends.

Left out are those by which a client asks for messages of its own, or for other meanings of the known ones: fence (-312),
continuous updates (-313), extended clipboard (0xC0A1E5CE), QEMU extended key events (-258) and relative pointer (-257),
ExtendedDesktopSize (-308), xvp (-309), extended mouse buttons (-316), GII (-305). Whatever is unknown is left out too.
"""


@dataclass(frozen=True)
class SetPixelFormat:
    """7.5.1; ``pixel_format`` is the 16 bytes of section 7.4."""

    pixel_format: bytes

    def encode(self) -> bytes:
        """The message as sent on the wire."""
        return b"\0\0\0\0" + self.pixel_format


@dataclass(frozen=True)
class SetEncodings:
    """7.5.2; the client's order of preference."""

    encodings: tuple[int, ...]

    def encode(self) -> bytes:
        """The message as sent on the wire."""
        return struct.pack(f">BxH{len(self.encodings)}i", 2, len(self.encodings), *self.encodings)

    def only_safe(self) -> SetEncodings:
        """The same wish without the encodings that are not in :data:`SAFE_ENCODINGS`."""
        return SetEncodings(tuple(encoding for encoding in self.encodings if encoding in SAFE_ENCODINGS))


@dataclass(frozen=True)
class UpdateRequest:
    """7.5.3; an area in pixels."""

    incremental: bool
    x: int
    y: int
    width: int
    height: int

    def encode(self) -> bytes:
        """The message as sent on the wire."""
        return struct.pack(">BBHHHH", 3, self.incremental, self.x, self.y, self.width, self.height)


@dataclass(frozen=True)
class KeyEvent:
    """7.5.4; ``keysym`` as in the X Window System."""

    down: bool
    keysym: int

    def encode(self) -> bytes:
        """The message as sent on the wire."""
        return struct.pack(">BBxxI", 4, self.down, self.keysym)


@dataclass(frozen=True)
class PointerEvent:
    """7.5.5; bit 0 of ``buttons`` is the left button, 3 and 4 are the wheel up and down."""

    buttons: int
    x: int
    y: int

    def encode(self) -> bytes:
        """The message as sent on the wire."""
        return struct.pack(">BBHH", 5, self.buttons, self.x, self.y)


@dataclass(frozen=True)
class CutText:
    """7.5.6; the client's clipboard, Latin-1 by the RFC, though some clients send UTF-8."""

    text: bytes

    def encode(self) -> bytes:
        """The message as sent on the wire."""
        return struct.pack(">BxxxI", 6, len(self.text)) + self.text


ClientMessage = SetPixelFormat | SetEncodings | UpdateRequest | KeyEvent | PointerEvent | CutText

# Message type -> length of its fixed part, type byte included.
_FIXED: Final = {0: 20, 2: 4, 3: 10, 4: 8, 5: 6, 6: 8}
_LONGEST_FIXED: Final = max(_FIXED.values())


class ClientMessageParser:
    """Cuts a client's bytes into messages, however they are fragmented.

    Holds no more than one incomplete message, thus at most :data:`MAX_CUT_TEXT` bytes and a little.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[ClientMessage]:
        """The messages that ``data`` completes, one by one; those before a fault come before its error.

        Raises:
            DisplayProtocolError: an unknown message, or a length beyond what we accept. The parser is of no use afterwards.
        """
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while start < len(buffer):
                length = _length(bytes(buffer[start : start + _LONGEST_FIXED]))
                if length is None or start + length > len(buffer):
                    break
                message = _decode(bytes(buffer[start : start + length]))
                start += length
                yield message
        finally:
            del buffer[:start]

    @property
    def pending(self) -> int:
        """How many bytes of an incomplete message are held."""
        return len(self._buffer)


def _length(head: bytes) -> int | None:
    """How long the message at ``head`` is, or None as long as that cannot be told."""
    fixed = _FIXED.get(head[0])
    if fixed is None:
        raise DisplayProtocolError(f"unknown client message type {head[0]}")
    if len(head) < fixed:
        return None
    if head[0] == 2:
        (count,) = struct.unpack(">H", head[2:4])
        if count > MAX_ENCODINGS:
            raise DisplayProtocolError(f"{count} encodings are more than accepted")
        return fixed + 4 * int(count)
    if head[0] == 6:
        (length,) = struct.unpack(">I", head[4:8])
        if length > MAX_CUT_TEXT:  # as a signed number this is how an extended clipboard message looks
            raise DisplayProtocolError(f"a clipboard text of {length} bytes is longer than accepted")
        return fixed + int(length)
    return fixed


def _decode(data: bytes) -> ClientMessage:
    match data[0]:
        case 0:
            return SetPixelFormat(_checked_format(data[4:]))
        case 2:
            return SetEncodings(struct.unpack(f">{(len(data) - 4) // 4}i", data[4:]))
        case 3:
            incremental, x, y, width, height = struct.unpack(">BHHHH", data[1:])
            return UpdateRequest(bool(incremental), x, y, width, height)
        case 4:
            down, keysym = struct.unpack(">BxxI", data[1:])
            return KeyEvent(bool(down), keysym)
        case 5:
            return PointerEvent(*struct.unpack(">BHH", data[1:]))
        case _:
            return CutText(data[8:])


def _checked_format(pixel_format: bytes) -> bytes:
    """Refuses formats that no server can mean well with (section 7.4); not every server checks them itself."""
    bits, depth, _, true_colour, red, green, blue, *shifts = struct.unpack(">BBBBHHHBBB", pixel_format[:13])
    if bits not in (8, 16, 32) or not 0 < depth <= bits:
        raise DisplayProtocolError(f"a pixel format of {bits} bits and depth {depth} is not allowed")
    if true_colour and (0 in (red, green, blue) or any(shift >= bits for shift in shifts)):
        raise DisplayProtocolError("a pixel format with an empty or misplaced colour is not allowed")
    return pixel_format
