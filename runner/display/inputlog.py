"""The flight recorder's log: events in memory and, as they happen, as JSON lines in a file.

The first line tells when the recorder started, each following line is an :class:`~runner.display.events.InputEvent`, the last
one says that the log is complete and what was left out. A thread of its own writes, so that a slow disk does not delay input.

Everything is counted as it comes, whatever becomes of it; what is kept in memory is bounded (:mod:`runner.display.keeping`). What was
taken and is not among the kept events, for whatever reason, is told as such: it is not known, not absent.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from runner.display.events import InputEvent
from runner.display.keeping import Bounds, Moves
from runner.display.redaction import Redactor

MAX_TEXT: Final = 4096
"""The most characters of a clipboard text that are recorded."""

_QUEUE: Final = 10_000
_TICK_SECONDS: Final = 0.1
_FLUSH_SECONDS: Final = 10.0
_CLOSE: Final = object()
_COUNTED: Final = ("key", "pointer", "clipboard")


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was put in so far.

    Attributes:
        events: Those that are kept, in order.
        keys: How many keys were pressed, kept or not.
        pointer: How many pointer events there were, kept or not.
        not_kept: By kind (``key``, ``pointer``, ``clipboard``), how many are not among :attr:`events`; kinds that are whole are left out.
    """

    events: list[InputEvent] = field(default_factory=list)
    keys: int = 0
    pointer: int = 0
    not_kept: Mapping[str, int] = field(default_factory=dict)


class InputLog:
    """Takes events from any thread and stores them in order, secrets withheld.

    A file that can no longer be written does not stop the recording in memory; :attr:`error` tells, and counts stay right.
    """

    def __init__(
        self, path: Path, start: Mapping[str, object], redactor: Redactor, elapsed: Callable[[], float]
    ) -> None:
        """Creates the file, readable by its owner only, and begins.

        Args:
            path: the file; it must not exist, for evidence is never overwritten.
            start: the first line.
            redactor: decides what may be stored.
            elapsed: the clock of the events.

        Raises:
            OSError: the file exists or cannot be created.
        """
        self.error: str | None = None
        self._redactor = redactor
        self._elapsed = elapsed
        self._queue: queue.Queue[InputEvent | threading.Event | object] = queue.Queue(_QUEUE)
        self._moves = Moves()
        self._bounds = Bounds()
        self._events: list[InputEvent] = []
        self._taken: Counter[str] = Counter()
        self._pressed = 0
        self._counting = threading.Lock()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file: IO[str] = open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
        self._write([json.dumps({"record": "start", "version": 1, **start}, ensure_ascii=False)])
        self._thread = threading.Thread(target=self._run, name="input-log", daemon=True)
        self._thread.start()

    def record(self, event: InputEvent) -> None:
        """Takes an event. Waits if the disk is far behind: that is the back pressure on whoever sends input."""
        with self._counting:
            self._taken[event.kind] += 1
            self._pressed += event.kind == "key" and event.down is True
        self._queue.put(event)

    def clip(self, text: str) -> str:
        """A clipboard text as it may be recorded: secrets withheld, then cut to :data:`MAX_TEXT` characters."""
        return self._redactor.text(text)[:MAX_TEXT]

    @property
    def events(self) -> list[InputEvent]:
        """The events stored so far. With secrets, the last moments are missing until :meth:`flush`."""
        return list(self._events)

    def recorded(self) -> Recorded:
        """Events and counts; before :meth:`flush` the last moments are counted as not kept."""
        events = self.events
        with self._counting:
            taken, pressed = self._taken.copy(), self._pressed
        kept: Counter[str] = Counter()
        for event in events:
            kept[event.kind] += event.moves or 1
        missing = {kind: taken[kind] - kept[kind] for kind in _COUNTED if taken[kind] > kept[kind]}
        return Recorded(events, pressed, taken["pointer"], missing)

    def flush(self) -> None:
        """Stores everything recorded so far, because no input will follow, and waits (bounded) until it is on disk."""
        done = threading.Event()
        if not (self._asked(done) and done.wait(_FLUSH_SECONDS)):
            self._late()

    def close(self) -> None:
        """Flushes, writes the last line and closes the file. Safe to call twice."""
        if self._thread.is_alive():
            if self._asked(_CLOSE):
                self._thread.join(_FLUSH_SECONDS)
            if self._thread.is_alive():
                self._late()

    def _asked(self, token: object) -> bool:
        """Tells the thread something; whether it still takes anything."""
        try:
            self._queue.put(token, timeout=_FLUSH_SECONDS)
        except queue.Full:
            return False
        return True

    def _late(self) -> None:
        self.error = self.error or f"the input log was not written within {_FLUSH_SECONDS:g} s"

    def _run(self) -> None:
        closing = False
        while not closing:
            tokens: list[threading.Event] = []
            for item in self._take():
                if isinstance(item, InputEvent):
                    self._push(self._moves.take(item))
                elif isinstance(item, threading.Event):
                    tokens.append(item)
                else:
                    closing = True
            if tokens or closing:
                self._push(self._moves.flush())
                self._store(self._redactor.flush())
            else:
                self._push(self._moves.due(self._elapsed()))
                self._store(self._redactor.pop(self._elapsed()))
            if tokens or closing:
                self._sync()
            for token in tokens:
                token.set()
        missing = self.recorded().not_kept
        end = {"record": "end", "t": round(self._elapsed(), 4), "dropped": sum(missing.values()), "not_kept": missing}
        self._write([json.dumps(end)])
        self._sync()
        try:
            self._file.close()
        except OSError as error:
            self._failed(error)

    def _take(self) -> list[object]:
        """What has come, after waiting a moment for the first."""
        items: list[object] = []
        try:
            items.append(self._queue.get(timeout=_TICK_SECONDS))
            while len(items) < 1000:
                items.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return items

    def _push(self, events: list[InputEvent]) -> None:
        for event in events:
            self._redactor.push(event)

    def _store(self, events: list[InputEvent]) -> None:
        self._write([self._keep(kept) for event in events for kept in self._bounds.take(event)])

    def _keep(self, event: InputEvent) -> str:
        if event.text is not None and len(event.text) > MAX_TEXT:
            event = replace(event, text=event.text[:MAX_TEXT])
        self._events.append(event)
        return json.dumps(event.record(), ensure_ascii=False)

    def _write(self, lines: list[str]) -> None:
        if not lines or self.error is not None:
            return
        try:
            self._file.write("".join(line + "\n" for line in lines))
            self._file.flush()
        except OSError as error:
            self._failed(error)

    def _sync(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.error = self.error or f"the input log cannot be written: {error}"
