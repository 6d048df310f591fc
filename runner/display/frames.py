"""The film strip: pictures of the screen taken when it changes, bounded in number and size."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from PIL import Image, ImageChops

from runner.display.errors import DisplayError
from runner.display.handshake import DisplayAddress
from runner.display.rfb import Box, RfbClient

FrameReason = Literal["first", "changed", "resized", "cut", "last"]

_POLL_SECONDS: Final = 0.2
_SHOT_SECONDS: Final = 10.0
_LAST_SECONDS: Final = 2.0
_RECONNECTS: Final = 5
_RECONNECT_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture.

    Attributes:
        t: seconds since the recorder's start, the same clock as the input events.
        png: the picture as a PNG file.
        reason: ``first`` and ``last`` picture of the recording, ``changed`` or ``resized`` screen, ``cut``: the screen right
            after input was cut off.
    """

    t: float
    png: bytes
    reason: FrameReason


@dataclass(frozen=True)
class FrameSettings:
    """When a picture is taken and how many are kept.

    Attributes:
        interval: at least this many seconds lie between two pictures.
        min_changed: a picture is taken when more than this many pixels differ from the last one; a blinking caret stays below.
        max_frames: the most pictures kept; the first and the last always are, so at least 2.
        max_bytes: the most bytes of all PNG files together, as far as the first and the last allow.
    """

    interval: float = 0.25
    min_changed: int = 60
    max_frames: int = 240
    max_bytes: int = 64 * 1024 * 1024


class FrameStore:
    """Pictures in the order of their time. When there are too many, those go that lie closest to their neighbours.

    So what remains is spread over the whole recording. The first picture, the one at the cut, and the newest stay.
    """

    def __init__(self, settings: FrameSettings) -> None:
        self._settings = settings
        self._frames: list[Frame] = []
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, frame: Frame) -> None:
        """Takes a picture; its time is not before that of the last one."""
        with self._lock:
            self._frames.append(frame)
            self._bytes += len(frame.png)
            while len(self._frames) > self._settings.max_frames or self._bytes > self._settings.max_bytes:
                victim = self._victim()
                if victim is None:
                    break
                self._bytes -= len(self._frames.pop(victim).png)

    def all(self) -> list[Frame]:
        """The pictures kept so far."""
        with self._lock:
            return list(self._frames)

    def _victim(self) -> int | None:
        frames = self._frames
        candidates = [n for n in range(1, len(frames) - 1) if frames[n].reason != "cut" or len(frames) == 3]
        return min(candidates, key=lambda n: frames[n + 1].t - frames[n - 1].t, default=None)


def changed_pixels(before: Image.Image, after: Image.Image, box: Box | None = None) -> int:
    """How many pixels of two RGB images of the same size differ, within ``box`` if one is given."""
    if box is not None:
        before, after = before.crop(box), after.crop(box)
    red, green, blue = ImageChops.difference(before, after).split()
    worst = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return before.width * before.height - worst.histogram()[0]


class FrameWatcher:
    """Watches a display by a connection of its own and fills a :class:`FrameStore`.

    Taking, comparing and encoding pictures happens in the watcher's thread; Pillow and zlib let other threads run meanwhile.
    """

    def __init__(
        self,
        address: DisplayAddress,
        client: RfbClient,
        settings: FrameSettings,
        elapsed: Callable[[], float],
        on_lost: Callable[[str], None],
    ) -> None:
        """Begins to watch.

        Args:
            address: where to connect to again if the connection is lost.
            client: the connection to begin with; the watcher closes it.
            settings: when to take pictures.
            elapsed: the clock for their times.
            on_lost: called, once, when the connection is lost and a new one cannot be made.
        """
        self.store = FrameStore(settings)
        self._address = address
        self._client = client
        self._settings = settings
        self._elapsed = elapsed
        self._on_lost = on_lost
        self._stopping = False
        self._cut = False
        self._wake = threading.Event()
        self._shown: Image.Image | None = None  # the picture that was stored last
        self._dirty: Box | None = None  # where the screen may differ from it
        self._pending = False  # something has changed since the last comparison
        self._next = 0.0  # when the next picture may be taken
        self._thread = threading.Thread(target=self._run, name="frames", daemon=True)
        self._thread.start()

    def screenshot(self, timeout: float) -> Image.Image:
        """The screen as it is now. Raises what :meth:`RfbClient.screenshot` raises."""
        return self._client.screenshot(timeout)

    def take_cut(self) -> None:
        """Has a picture taken now, as the state in which input was cut off, if it differs from the last one."""
        self._cut = True
        self._wake.set()

    def stop(self) -> None:
        """Takes the last picture and ends. Safe to call twice."""
        self._stopping = True
        self._wake.set()
        self._thread.join(_STOP_SECONDS)
        self._client.close()

    def _run(self) -> None:
        for _ in range(_RECONNECTS + 1):
            try:
                self._watch()
                return
            except DisplayError as error:
                if self._stopping:
                    return
                reason = str(error)
            self._client.close()
            try:
                self._client = RfbClient.connect(self._address, timeout=_RECONNECT_SECONDS)
            except DisplayError as error:
                reason = f"{reason}; {error}"
                break
        self._on_lost(reason)

    def _watch(self) -> None:
        self._client.screenshot(_SHOT_SECONDS)
        while not self._stopping:
            damage = self._client.refresh(timeout=_POLL_SECONDS)
            self._note(damage)
            self._wake.clear()
            if self._cut:
                self._cut = False
                self._client.screenshot(_SHOT_SECONDS)
                self._take(0, "cut")
            elif self._pending and (wait := self._next - self._elapsed()) > 0:
                self._wake.wait(min(wait, self._settings.interval))
            elif self._pending:
                self._take(self._settings.min_changed, "changed")
        self._client.screenshot(_LAST_SECONDS)
        self._take(0, "last")

    def _note(self, damage: Box | None) -> None:
        if damage is not None:
            self._pending = True
            dirty = self._dirty or damage
            self._dirty = (
                min(dirty[0], damage[0]),
                min(dirty[1], damage[1]),
                max(dirty[2], damage[2]),
                max(dirty[3], damage[3]),
            )

    def _take(self, min_changed: int, reason: FrameReason) -> None:
        """Stores the screen if it differs enough from the picture stored last."""
        image, shown, box = self._client.image(), self._shown, self._dirty
        self._pending = False
        if shown is None:
            reason = "first"
        elif shown.size != image.size:
            reason = "resized"
        elif changed_pixels(shown, image, box if reason == "changed" else None) <= min_changed:
            self._next = self._elapsed() + self._settings.interval
            return  # the box stays, for small changes add up
        t = self._elapsed()
        self.store.add(Frame(t, _png(image), reason))
        self._shown, self._dirty, self._next = image, None, t + self._settings.interval


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()
