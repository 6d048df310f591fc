"""The flight recorder's log: events in memory and, as they happen, as JSON lines in a file.

The first line tells when the recorder started, each following line is an :class:`~runner.display.events.InputEvent`, the last
one says that the log is complete and what was left out. A thread of its own writes, so that a slow disk does not delay input.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from runner.display.events import InputEvent
from runner.display.redaction import Redactor

MAX_RECORDS: Final = 100_000
"""The most key, pointer, clipboard and connection events recorded."""

MAX_BYTES: Final = 64 * 1024 * 1024
MAX_TEXT: Final = 4096
"""The most characters of a clipboard text that are recorded."""

_QUEUE: Final = 10_000
_TICK_SECONDS: Final = 0.1
_FLUSH_SECONDS: Final = 10.0
_ALWAYS: Final = ("cut", "upstream_lost")
_CLOSE: Final = object()


class InputLog:
    """Takes events from any thread and stores them in order, secrets withheld.

    A file that can no longer be written does not stop the recording in memory; :attr:`error` tells.
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
        self._events: list[InputEvent] = []
        self._bytes = 0
        self._dropped = 0
        self._full = False
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file: IO[str] = open(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n")  # noqa: SIM115
        self._write([json.dumps({"record": "start", "version": 1, **start}, ensure_ascii=False)])
        self._thread = threading.Thread(target=self._run, name="input-log", daemon=True)
        self._thread.start()

    def record(self, event: InputEvent) -> None:
        """Takes an event. Waits if the disk is far behind: that is the back pressure on whoever sends input."""
        self._queue.put(event)

    def clip(self, text: str) -> str:
        """A clipboard text as it may be recorded: secrets withheld, then cut to :data:`MAX_TEXT` characters."""
        return self._redactor.text(text)[:MAX_TEXT]

    @property
    def events(self) -> list[InputEvent]:
        """The events stored so far. With secrets, the last moments are missing until :meth:`flush`."""
        return list(self._events)

    def flush(self) -> None:
        """Stores everything recorded so far, because no input will follow, and waits (bounded) until it is on disk."""
        done = threading.Event()
        self._queue.put(done)
        done.wait(_FLUSH_SECONDS)

    def close(self) -> None:
        """Flushes, writes the last line and closes the file. Safe to call twice."""
        if self._thread.is_alive():
            self._queue.put(_CLOSE)
            self._thread.join(_FLUSH_SECONDS)

    def _run(self) -> None:
        closing = False
        while not closing:
            tokens: list[threading.Event] = []
            for item in self._take():
                if isinstance(item, InputEvent):
                    self._redactor.push(item)
                elif isinstance(item, threading.Event):
                    tokens.append(item)
                else:
                    closing = True
            self._store(self._redactor.flush() if tokens or closing else self._redactor.pop(self._elapsed()))
            if tokens or closing:
                self._sync()
            for token in tokens:
                token.set()
        end = {"record": "end", "t": round(self._elapsed(), 4), "dropped": self._dropped}
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

    def _store(self, events: list[InputEvent]) -> None:
        lines: list[str] = []
        for event in events:
            if self._full and event.kind not in _ALWAYS:
                self._dropped += 1
                continue
            if not self._full and (len(self._events) >= MAX_RECORDS or self._bytes >= MAX_BYTES):
                self._full = True
                lines.append(self._keep(InputEvent(event.t, "log_full")))
                if event.kind not in _ALWAYS:
                    self._dropped += 1
                    continue
            lines.append(self._keep(event))
        self._write(lines)

    def _keep(self, event: InputEvent) -> str:
        if event.text is not None and len(event.text) > MAX_TEXT:
            event = replace(event, text=event.text[:MAX_TEXT])
        line = json.dumps(event.record(), ensure_ascii=False)
        self._bytes += len(line)
        self._events.append(event)
        return line

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
