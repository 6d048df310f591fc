"""The flight recorder: an RFB proxy between any agent and the machine's display.

It records every input event before the machine gets it, keeps a film strip of the screen, and can cut input off for good.
Each client authenticates with the recorder's own password and gets its own connection to the machine; what the machine
answers goes back untouched. The client's side is understood completely: only the six messages of RFC 6143 pass, and
encodings that could switch others on are filtered out (:mod:`runner.display.messages`).
"""

from __future__ import annotations

import contextlib
import datetime
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from PIL import Image

from runner.display.errors import DisplayClosed, DisplayError
from runner.display.events import EventKind, InputEvent, typed_text
from runner.display.frames import Frame, FrameSettings, FrameWatcher
from runner.display.handshake import MAX_PASSWORD, DisplayAddress
from runner.display.inputlog import InputLog, Recorded
from runner.display.redaction import Redactor
from runner.display.rfb import RfbClient
from runner.display.session import Session

__all__ = ["FlightRecorder", "Frame", "FrameSettings", "Gate", "InputEvent", "typed_text"]

MAX_CLIENTS: Final = 16
"""The most clients at a time, those that have not authenticated yet included."""

_PROBE_SECONDS: Final = 5.0
_CUT_SECONDS: Final = 30.0

Gate = Callable[[InputEvent], bool]
"""Sees a key, pointer or clipboard event before it is recorded and passed on; false drops it. It may wait, and holds up only
the client the event came from; it must return when input is cut off."""


class FlightRecorder:
    """Stands between agents and one machine's display, from :meth:`start` to :meth:`stop`.

    Attributes:
        upstream: the machine's display.
        password: what clients must know.
    """

    def __init__(
        self,
        upstream: DisplayAddress,
        *,
        log_path: Path,
        password: str,
        listen_host: str = "127.0.0.1",
        listen_port: int = 0,
        frames: FrameSettings = FrameSettings(),  # noqa: B008 - immutable
        secrets: Sequence[str] = (),
        gate: Gate | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes a recorder; nothing happens before :meth:`start`.

        Args:
            upstream: the machine's display.
            log_path: the JSONL file to create; see :mod:`runner.display.inputlog`.
            password: what clients must know, 1 to 8 Latin-1 characters; VNC authentication ignores what is longer.
            listen_host: the address to listen on.
            listen_port: the port to listen on; 0: any that is free.
            frames: when to take pictures of the screen and how many to keep.
            secrets: texts that must not be stored when they are typed; see :mod:`runner.display.redaction`.
            gate: sees every input event first.
            now: a monotonic clock, in seconds.

        Raises:
            ValueError: the password is empty, too long, or not Latin-1.
        """
        if not 1 <= len(password) <= MAX_PASSWORD or any(ord(character) > 0xFF for character in password):
            raise ValueError(f"the password of a display has 1 to {MAX_PASSWORD} Latin-1 characters")
        self.upstream = upstream
        self.password = password
        self._log_path = log_path
        self._listen_at = (listen_host, listen_port)
        self._settings = frames
        self._redactor = Redactor(secrets)
        self._gate = gate
        self._now = now
        self._began = 0.0
        self._log: InputLog | None = None
        self._watcher: FrameWatcher | None = None
        self._listener: socket.socket | None = None
        self._acceptor = threading.Thread(target=self._accept, name="display-listener", daemon=True)
        self._sessions: dict[int, Session] = {}
        self._clients = 0
        self._cutting = threading.Event()
        self._upstream_lost: str | None = None
        self._state_lock = threading.Lock()  # sessions, cutting, upstream_lost
        self._probe_lock = threading.Lock()  # one look at the machine's display at a time
        self._cut_lock = threading.Lock()  # one cut or stop at a time
        self._was_cut = False

    def __enter__(self) -> FlightRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- what the runner does with it -----------------------------------------------------------------------------------

    def start(self, timeout: float = 10.0) -> DisplayAddress:
        """Connects to the machine's display, begins to record, and listens on a free port.

        Args:
            timeout: seconds for reaching the machine's display.

        Returns:
            Where agents connect, with the password.

        Raises:
            DisplayError: the machine's display cannot be used; the subclass says why.
            OSError: the log cannot be created, or the address cannot be listened on.
            RuntimeError: the recorder was started before.
        """
        if self._log is not None or self._cutting.is_set():
            raise RuntimeError("a flight recorder is started once")
        client = RfbClient.connect(self.upstream, timeout=timeout)
        try:
            self._listener = socket.create_server(self._listen_at, backlog=MAX_CLIENTS)
            self._began = self._now()
            began = {"began": datetime.datetime.now(datetime.UTC).isoformat(), "upstream": str(self.upstream)}
            self._log = InputLog(self._log_path, began, self._redactor, self.elapsed)
        except BaseException:
            client.close()
            if self._listener is not None:
                self._listener.close()
            raise
        self._watcher = FrameWatcher(self.upstream, client, self._settings, self.elapsed, self._lost)
        self._acceptor.start()
        host, port = self._listener.getsockname()[:2]
        return DisplayAddress(host, port, self.password)

    def cut(self) -> None:
        """Cuts input off: when this returns, nothing a client sent reaches the machine any more, and nothing ever will.

        Clients are disconnected and new ones are not let in; keys and buttons they held are released. The machine's display
        has confirmed that it has read everything sent before. If it does not do so within a bounded time, that is recorded as
        :attr:`upstream_lost`, since then nobody knows what the machine will still act upon. Pictures are still taken. Safe to
        call again, from any thread but a gate's.
        """
        with self._cut_lock:
            if self._was_cut:
                return
            with self._state_lock:
                self._cutting.set()
                sessions = list(self._sessions.values())
            self._stop_listening()
            for session in sessions:
                session.end()
            deadline = time.monotonic() + _CUT_SECONDS
            for session in sessions:
                if not session.join(deadline - time.monotonic()):
                    session.abandon()
                    self._lost(f"client {session.number} could not be cut off in time")
            self._was_cut = True
            if self._log is not None and self._watcher is not None:
                self.note(InputEvent(self.elapsed(), "cut"))
                self._log.flush()
                self._watcher.take_cut()

    def stop(self) -> None:
        """Cuts input off, takes the last picture, completes the log and ends all threads. Safe to call again."""
        self.cut()
        if self._watcher is not None:
            self._watcher.stop()
        if self._log is not None:
            self._log.close()

    @property
    def events(self) -> list[InputEvent]:
        """What was recorded so far (bounded). With secrets, the last moments are missing until input is cut off."""
        return [] if self._log is None else self._log.events

    def recorded(self) -> Recorded:
        """What was put in so far, with exact counts; what is not kept is told. To be asked after :meth:`cut`."""
        return Recorded() if self._log is None else self._log.recorded()

    @property
    def log_error(self) -> str | None:
        """Why the log file is not complete, or None."""
        return None if self._log is None else self._log.error

    @property
    def upstream_lost(self) -> str | None:
        """Why the machine's display must be given up, or None as long as it works. Then the run cannot be scored."""
        return self._upstream_lost

    def frames(self) -> list[Frame]:
        """The pictures kept so far, in order. The last one is there after :meth:`stop`."""
        return [] if self._watcher is None else self._watcher.store.all()

    def screenshot(self, timeout: float = 10.0) -> Image.Image:
        """The machine's screen as it is now.

        Raises:
            DisplayTimeout: it did not come in time.
            DisplayClosed: the recorder is not running, or the machine's display is gone.
            DisplayProtocolError: the display sent nonsense.
        """
        if self._watcher is None:
            raise DisplayClosed("the flight recorder is not running")
        return self._watcher.screenshot(timeout)

    # -- what its sessions need (SessionHost) ---------------------------------------------------------------------------

    @property
    def is_cutting(self) -> bool:
        """Whether input is being, or has been, cut off."""
        return self._cutting.is_set()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._now() - self._began

    def admit(self, event: InputEvent) -> bool:
        """The one place where an input event is decided upon: the gate, then the cut; what passes is recorded first."""
        if self._gate is not None:
            if not self._gate(event):
                return False
            event = replace(event, t=self.elapsed())
        if self.is_cutting:
            return False
        self.note(event)
        return True

    def note(self, event: InputEvent) -> None:
        """Records an event."""
        if self._log is not None:
            self._log.record(event)

    def clip(self, text: str) -> str:
        """A clipboard text as it may be recorded."""
        return "" if self._log is None else self._log.clip(text)

    def upstream_failed(self, reason: str) -> None:
        """Finds out whether the display is gone or only one connection to it."""
        with self._probe_lock:
            if self.is_cutting or self._upstream_lost is not None:
                return
            try:
                RfbClient.connect(self.upstream, timeout=_PROBE_SECONDS).close()
            except DisplayError as error:
                self._lost(f"{reason}; {error}")

    def ended(self, session: Session) -> None:
        """Forgets a session that is over."""
        with self._state_lock:
            self._sessions.pop(session.number, None)
        if not session.confirmed:
            self._lost(f"the machine's display did not confirm the input of client {session.number}")

    # -- its own --------------------------------------------------------------------------------------------------------

    def _lost(self, reason: str) -> None:
        with self._state_lock:
            if self._upstream_lost is not None:
                return
            self._upstream_lost = reason
        self._say("upstream_lost", reason)

    def _say(self, kind: EventKind, reason: str, client: int = 0) -> None:
        self.note(InputEvent(self.elapsed(), kind, client, reason=reason))

    def _accept(self) -> None:
        listener = self._listener
        if listener is None:
            return
        while not self.is_cutting:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self.is_cutting:
                    return
                time.sleep(0.05)  # out of descriptors, or the client is gone again
                continue
            self._admit_client(connection)

    def _admit_client(self, connection: socket.socket) -> None:
        with self._state_lock:
            self._clients += 1
            number = self._clients
            if not self.is_cutting and len(self._sessions) < MAX_CLIENTS:
                session = Session(self, number, connection)
                self._sessions[number] = session
                session.start()
                return
        connection.close()
        self._say("refused", "input was cut off" if self.is_cutting else "too many clients", number)

    def _stop_listening(self) -> None:
        if self._listener is None:
            return
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        if self._acceptor.is_alive():
            self._acceptor.join()
        self._listener.close()
