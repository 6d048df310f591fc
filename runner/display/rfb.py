"""An RFB client: look at a machine's screen, press its keys, move its pointer (RFC 6143).

It asks for Raw and CopyRect only: the display is on the same host or a fast network, and every decoder less is one less
that reads hostile bytes.
"""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final

from PIL import Image

from runner.display.errors import DisplayAuthError, DisplayClosed, DisplayError, DisplayProtocolError, DisplayTimeout
from runner.display.handshake import DisplayAddress, check_size, open_session
from runner.display.keysyms import SHIFT, character_keysym, needs_shift, parse_chord
from runner.display.messages import (
    COPY_RECT,
    DESKTOP_SIZE,
    RAW,
    KeyEvent,
    PointerEvent,
    SetEncodings,
    SetPixelFormat,
    UpdateRequest,
)
from runner.display.wire import Stream, deadline_in

__all__ = [
    "Box",
    "DisplayAddress",
    "DisplayAuthError",
    "DisplayClosed",
    "DisplayError",
    "DisplayProtocolError",
    "DisplayTimeout",
    "RfbClient",
]

Box = tuple[int, int, int, int]
"""An area in pixels: left, top, right, bottom; the last two lie outside of it."""

MAX_SERVER_CUT_TEXT: Final = 16 * 1024 * 1024
_MAX_PIXELS_PER_UPDATE: Final = 64 * 1024 * 1024
_MESSAGE_SECONDS: Final = 10.0
"""How long the rest of a message may take once it has begun."""

_DRAIN_SECONDS: Final = 0.5
"""How long updates that follow each other without a pause are taken over in one go."""

# 32 bits, depth 24, little-endian, true colour: in memory blue, green, red, unused.
_PIXEL_FORMAT: Final = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)


class RfbClient:
    """A connection to a display. Every operation ends at its deadline.

    Methods may be called from several threads; keys of one :meth:`press` or :meth:`type_text` are never mixed with those of
    another. After a :class:`DisplayProtocolError`, :class:`DisplayClosed` or a :class:`DisplayTimeout` that came in the
    middle of a message the connection is over, and every later call raises :class:`DisplayClosed`.
    """

    def __init__(self, stream: Stream, size: tuple[int, int], name: str) -> None:
        """Takes over a connection whose handshake is done; use :meth:`connect`."""
        self._stream = stream
        self._name = name
        self._image = Image.new("RGB", size)
        self._missing = Image.new("1", size, 1)  # the pixels not received since the last full request
        self._damage: Box | None = None
        self._update_due = False  # an update was requested and has not come yet
        self._pointer = (0, 0)
        self._closed = False
        self._broken: str | None = None
        self._read_lock = threading.RLock()  # the incoming stream and the picture
        self._wait_lock = threading.Lock()  # waiting for something to read, without holding the above
        self._write_lock = threading.Lock()  # one message at a time
        self._input_lock = threading.RLock()  # one action at a time

    @classmethod
    def connect(cls, address: DisplayAddress, *, timeout: float = 10.0, shared: bool = True) -> RfbClient:
        """Connects and authenticates.

        Args:
            address: where the display listens, and its password.
            timeout: seconds for everything together.
            shared: False asks the server to end all other connections.

        Raises:
            DisplayAuthError: the password is wrong or missing, or no security type is common to both.
            DisplayProtocolError: the peer is no RFB server, or its screen is too large.
            DisplayTimeout: no answer in time.
            DisplayClosed: nobody listens there, or the server hung up.
        """
        deadline = deadline_in(timeout)
        stream = Stream.connect(address.host, address.port, deadline)
        try:
            init = open_session(stream, address.password, deadline, shared=shared)
            stream.write(SetPixelFormat(_PIXEL_FORMAT).encode(), deadline)
            stream.write(SetEncodings((COPY_RECT, RAW, DESKTOP_SIZE)).encode(), deadline)
        except BaseException:
            stream.close()
            raise
        return cls(stream, (init.width, init.height), init.name)

    def __enter__(self) -> RfbClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection. Calls in other threads end with :class:`DisplayClosed`. Safe to call twice."""
        self._closed = True
        self._stream.wake()
        with self._read_lock, self._wait_lock, self._write_lock:
            self._stream.close()

    @property
    def name(self) -> str:
        """What the server calls its desktop."""
        return self._name

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the screen in pixels, as last announced by the server."""
        return self._image.size

    # -- the screen -----------------------------------------------------------------------------------------------------

    def screenshot(self, timeout: float = 10.0) -> Image.Image:
        """The screen as it is now, as an RGB image.

        Asks for everything and waits until every pixel has come, also when the screen changes its size meanwhile.

        Args:
            timeout: seconds.

        Raises:
            DisplayTimeout: not all of it came in time.
            DisplayProtocolError: the server sent nonsense.
            DisplayClosed: the connection is over.
        """
        deadline = deadline_in(timeout)
        if not self._read_lock.acquire(timeout=timeout):
            raise DisplayTimeout("another thread is still waiting for the display")
        try:
            while self._readable(0.0):  # what was under way before we asked is not an answer
                self._read_message(deadline)
                _check(deadline)
            self._expect_all()
            self._request(deadline, incremental=False)
            while self._missing.getbbox() is not None:
                if not self._update_due:  # a resize only, or a server that sends its screen in pieces
                    self._request(deadline, incremental=False)
                if not self._readable(deadline - time.monotonic()):
                    raise DisplayTimeout("the display did not send its whole screen in time")
                self._read_message(deadline)
            return self._image.copy()
        finally:
            self._read_lock.release()

    def refresh(self, incremental: bool = True, timeout: float = 10.0) -> Box | None:
        """Waits for the screen to change and takes the changes over.

        Args:
            incremental: False fetches the whole screen, like :meth:`screenshot`.
            timeout: seconds; 0 takes over what has come already.

        Returns:
            The smallest box around everything that changed since the last call, or None if nothing did until the time-out.

        Raises:
            DisplayTimeout: a message began and did not end, or (not incremental) the screen did not come in time.
            DisplayProtocolError: the server sent nonsense.
            DisplayClosed: the connection is over.
        """
        if not incremental:
            self.screenshot(timeout)
        deadline = deadline_in(timeout)
        while True:
            with self._read_lock:
                enough = max(deadline, deadline_in(_DRAIN_SECONDS))  # a server that never pauses must not hold us
                while self._readable(0.0) and time.monotonic() < enough:
                    self._read_message(deadline_in(_MESSAGE_SECONDS))
                damage, self._damage = self._damage, None
                if not self._update_due:
                    self._request(deadline_in(_MESSAGE_SECONDS), incremental=True)
            remaining = deadline - time.monotonic()
            if damage is not None or remaining <= 0:
                return damage
            with self._wait_lock:
                self._readable(remaining)

    def image(self) -> Image.Image:
        """A copy of the screen as far as it is known from the updates read so far, without asking the server."""
        with self._read_lock:
            return self._image.copy()

    # -- keys and pointer -----------------------------------------------------------------------------------------------

    def key(self, keysym: int, down: bool) -> None:
        """Presses or releases one key.

        Raises:
            DisplayTimeout: the server takes no input.
            DisplayClosed: the connection is over.
        """
        self._send(KeyEvent(down, keysym).encode())

    def press(self, chord: str) -> None:
        """Presses a key or several together and releases them in reverse order.

        Args:
            chord: names joined by ``+``: ``"ctrl+s"``, ``"F10"``, ``"Return"``, ``"alt+F4"``. See
                :func:`runner.display.keysyms.parse_chord`.

        Raises:
            ValueError: no such key; nothing was pressed.
            DisplayTimeout, DisplayClosed: as for :meth:`key`.
        """
        self._strike(parse_chord(chord))

    def type_text(self, text: str, interval: float = 0.01) -> None:
        """Types text as on a US keyboard: Shift is pressed for the characters that need it there.

        Args:
            text: newlines become Return, tabs Tab.
            interval: seconds between two characters.

        Raises:
            ValueError: a character that no key types; nothing was typed.
            DisplayTimeout, DisplayClosed: as for :meth:`key`.
        """
        strokes = [
            [SHIFT, character_keysym(character)] if needs_shift(character) else [character_keysym(character)]
            for character in text.replace("\r\n", "\n")
        ]
        with self._input_lock:
            for number, stroke in enumerate(strokes):
                if number and interval:
                    time.sleep(interval)
                self._strike(stroke)

    def move(self, x: int, y: int, buttons: int = 0) -> None:
        """Moves the pointer, with the given buttons held (bit 0 is the left one).

        Raises:
            ValueError: the place cannot be said in the protocol (0 to 65535).
            DisplayTimeout, DisplayClosed: as for :meth:`key`.
        """
        if not (0 <= x <= 0xFFFF and 0 <= y <= 0xFFFF and 0 <= buttons <= 0xFF):
            raise ValueError(f"no such place or buttons: {x}, {y}, {buttons}")
        with self._input_lock:
            self._send(PointerEvent(buttons, x, y).encode())
            self._pointer = (x, y)

    def click(self, x: int, y: int, button: int = 1, double: bool = False, interval: float = 0.03) -> None:
        """Clicks.

        Args:
            x: pixels from the left.
            y: pixels from the top.
            button: 1 left, 2 middle, 3 right.
            double: click twice.
            interval: seconds the button is held, and between two clicks.

        Raises:
            ValueError: no such place or button.
            DisplayTimeout, DisplayClosed: as for :meth:`key`.
        """
        with self._input_lock:
            self.move(x, y)
            for number in range(2 if double else 1):
                if number:
                    time.sleep(interval)
                with self._held(button):
                    time.sleep(interval)

    def drag(
        self, start: tuple[int, int], end: tuple[int, int], button: int = 1, steps: int = 10, interval: float = 0.02
    ) -> None:
        """Presses a button at ``start``, moves in ``steps`` steps to ``end`` and releases it there.

        Raises:
            ValueError: no such place or button.
            DisplayTimeout, DisplayClosed: as for :meth:`key`.
        """
        with self._input_lock:
            self.move(*start)
            with self._held(button) as mask:
                for step in range(1, max(1, steps) + 1):
                    time.sleep(interval)
                    x, y = (a + (b - a) * step // max(1, steps) for a, b in zip(start, end, strict=True))
                    self.move(x, y, mask)

    def scroll(self, x: int, y: int, clicks: int, horizontal: bool = False, interval: float = 0.02) -> None:
        """Turns the wheel.

        Args:
            x: pixels from the left.
            y: pixels from the top.
            clicks: how far; positive is down (or to the right), negative up (or to the left).
            horizontal: turn the sideways wheel.
            interval: seconds between two clicks.

        Raises:
            ValueError: no such place.
            DisplayTimeout, DisplayClosed: as for :meth:`key`.
        """
        button = (6 if horizontal else 4) + (clicks > 0)
        with self._input_lock:
            self.move(x, y)
            for number in range(abs(clicks)):
                if number:
                    time.sleep(interval)
                with self._held(button):
                    pass

    def cut_text(self, text: bytes) -> None:
        """Gives the server a clipboard text, Latin-1 by the RFC.

        Raises:
            DisplayTimeout, DisplayClosed: as for :meth:`key`.
        """
        self._send(struct.pack(">BxxxI", 6, len(text)) + text)

    def _strike(self, keysyms: list[int]) -> None:
        with self._input_lock, contextlib.ExitStack() as releases:
            for keysym in keysyms:
                releases.callback(
                    self.key, keysym, False
                )  # before the press: a press that failed half-way may have arrived
                self.key(keysym, True)

    @contextlib.contextmanager
    def _held(self, button: int) -> Iterator[int]:
        if not 1 <= button <= 8:
            raise ValueError(f"no such button: {button}")
        mask = 1 << (button - 1)
        try:
            self.move(*self._pointer, mask)
            yield mask
        finally:
            self.move(*self._pointer)

    # -- messages -------------------------------------------------------------------------------------------------------

    def _send(self, message: bytes, deadline: float | None = None) -> None:
        with self._write_lock, self._usable():
            self._stream.write(message, deadline or deadline_in(_MESSAGE_SECONDS))

    def _request(self, deadline: float, *, incremental: bool) -> None:
        width, height = self._image.size
        self._send(UpdateRequest(incremental, 0, 0, width, height).encode(), deadline)
        self._update_due = True

    def _readable(self, timeout: float) -> bool:
        with self._usable():
            return self._stream.readable(timeout)

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        """Raises if the connection is over, and remembers it when it ends."""
        if self._closed or self._broken is not None:
            raise DisplayClosed(self._broken or "the connection is closed")
        try:
            yield
        except DisplayError as error:
            self._broken = str(error)
            if self._closed:
                raise DisplayClosed("the connection is closed") from error
            raise

    def _expect_all(self) -> None:
        self._missing = Image.new("1", self._image.size, 1)

    def _read_message(self, deadline: float) -> None:
        """Reads one server message (section 7.6), which has begun to arrive."""
        with self._usable():
            match self._stream.read_u8(deadline):
                case 0:
                    self._read_update(deadline)
                case 1:  # colour map: never for a true-colour client, but harmless
                    (count,) = struct.unpack(">xxxH", self._stream.read_exactly(5, deadline))
                    self._stream.skip(count * 6, deadline)
                case 2:  # bell
                    pass
                case 3:  # the server's clipboard
                    (length,) = struct.unpack(">xxxI", self._stream.read_exactly(7, deadline))
                    if length > MAX_SERVER_CUT_TEXT:
                        raise DisplayProtocolError(f"a clipboard text of {length} bytes is longer than accepted")
                    self._stream.skip(length, deadline)
                case other:
                    raise DisplayProtocolError(f"unknown server message type {other}")

    def _read_update(self, deadline: float) -> None:
        (count,) = struct.unpack(">xH", self._stream.read_exactly(3, deadline))
        self._update_due = False
        pixels = 0
        for _ in range(count):
            x, y, width, height, encoding = struct.unpack(">HHHHi", self._stream.read_exactly(12, deadline))
            if encoding == DESKTOP_SIZE:
                check_size(width, height)
                self._resize(width, height)
                continue
            pixels += width * height
            if pixels > _MAX_PIXELS_PER_UPDATE:
                raise DisplayProtocolError("an update of more pixels than accepted")
            if x + width > self._image.width or y + height > self._image.height:
                raise DisplayProtocolError("a rectangle lies outside of the screen")
            self._read_rectangle((x, y, x + width, y + height), encoding, deadline)

    def _read_rectangle(self, box: Box, encoding: int, deadline: float) -> None:
        left, top, right, bottom = box
        width, height = right - left, bottom - top
        if encoding == RAW:
            data = self._stream.read_exactly(width * height * 4, deadline)
            if data:
                self._image.paste(Image.frombytes("RGB", (width, height), data, "raw", "BGRX"), (left, top))
                self._missing.paste(0, box)
        elif encoding == COPY_RECT:
            x, y = struct.unpack(">HH", self._stream.read_exactly(4, deadline))
            if x + width > self._image.width or y + height > self._image.height:
                raise DisplayProtocolError("a rectangle is copied from outside of the screen")
            if width and height:
                source = (x, y, x + width, y + height)
                self._image.paste(self._image.crop(source), (left, top))
                self._missing.paste(self._missing.crop(source), (left, top))
        else:
            raise DisplayProtocolError(f"encoding {encoding} was not asked for")
        if width and height:
            self._damage = _around(self._damage, box)

    def _resize(self, width: int, height: int) -> None:
        """Takes over a new size (section 7.8.2). What was on the screen is kept where it was, as servers assume."""
        old = self._image
        self._image = Image.new("RGB", (width, height))
        self._image.paste(old, (0, 0))
        self._expect_all()
        self._damage = (0, 0, width, height)


def _around(first: Box | None, second: Box) -> Box:
    if first is None:
        return second
    return min(first[0], second[0]), min(first[1], second[1]), max(first[2], second[2]), max(first[3], second[3])


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise DisplayTimeout("the display sends without end")
