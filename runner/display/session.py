"""One client of the flight recorder, and its own connection to the machine.

Two threads per client: one reads what the client says, understands it, and passes it on message by message; the other carries
the screen back, byte by byte as it comes. Each waits until its peer has taken what it passes on, so nothing piles up here.
"""

from __future__ import annotations

import contextlib
import threading
from socket import socket
from typing import Final, Protocol

from runner.display.errors import DisplayError, DisplayProtocolError
from runner.display.events import EventKind, InputEvent
from runner.display.handshake import DisplayAddress, Reception, open_session
from runner.display.keysyms import keysym_name
from runner.display.messages import ClientMessage, ClientMessageParser, CutText, KeyEvent, PointerEvent, SetEncodings
from runner.display.wire import CHUNK, Stream, deadline_in

MAX_HELD_KEYS: Final = 256
"""The most keys a client may hold down at the same time."""

_HANDSHAKE_SECONDS: Final = 10.0
_INPUT_SECONDS: Final = 30.0
"""How long the machine's display may refuse to take an input event before it counts as lost."""
_RELEASE_SECONDS: Final = 5.0
_END_SECONDS: Final = 10.0
"""How long the machine's display may take to end a connection that we have ended."""


class SessionHost(Protocol):
    """What a session needs from the recorder it belongs to. All may be called from any thread."""

    @property
    def upstream(self) -> DisplayAddress:
        """The machine's display."""

    @property
    def password(self) -> str:
        """What clients authenticate with."""

    @property
    def is_cutting(self) -> bool:
        """Whether input is (being) cut off."""

    def elapsed(self) -> float:
        """Seconds since the recorder's start."""

    def admit(self, event: InputEvent) -> bool:
        """Sees an input event before it is passed on, and says whether it may be; if so, it is recorded."""

    def note(self, event: InputEvent) -> None:
        """Records an event that needs nobody's leave."""

    def clip(self, text: str) -> str:
        """A clipboard text as it may be recorded."""

    def upstream_failed(self, reason: str) -> None:
        """A connection to the machine's display broke, or could not be made."""

    def ended(self, session: Session) -> None:
        """The session is over, its sockets are closed."""


class Session:
    """A client from its first byte to its last. :attr:`confirmed` is meaningful once the session is over."""

    def __init__(self, host: SessionHost, number: int, connection: socket) -> None:
        self.number = number
        self.confirmed = True
        """Whether the machine's display has certainly read everything this client sent: it ended its side after we ours."""
        self._host = host
        self._client = Stream(connection)
        self._upstream: Stream | None = None
        self._has_begun = False  # the handshakes are done
        self._upstream_usable = False
        self._upstream_over = threading.Event()
        self._held_keys: dict[int, None] = {}  # in the order they were pressed
        self._buttons = 0
        self._place = (0, 0)
        self._failure: str | None = None
        self._screen = threading.Thread(target=self._carry_screen, name=f"display-screen-{number}", daemon=True)
        self._thread = threading.Thread(target=self._run, name=f"display-client-{number}", daemon=True)

    def start(self) -> None:
        """Begins to serve the client."""
        self._thread.start()

    def end(self) -> None:
        """Makes the session end soon; called once the host says that input is being cut off."""
        self._client.wake()
        if self._upstream is not None and not self._has_begun:
            self._upstream.wake()

    def join(self, timeout: float) -> bool:
        """Waits until the session is over; whether it is."""
        self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """Breaks the connection to a machine that no longer answers. What it has already been sent cannot be called back."""
        self.confirmed = False
        if self._upstream is not None:
            self._upstream.abort()

    # -- the client's thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            upstream = self._let_in()
            if upstream is not None:
                self._note("connected")
                reason = "an error in the recorder"
                try:
                    reason = self._serve(upstream)
                finally:
                    self._finish(upstream)
                    self._note("disconnected", reason)
            if self._failure is not None:
                self._host.upstream_failed(self._failure)
        finally:
            self._client.close()
            if self._upstream is not None:
                self._upstream.close()
            self._host.ended(self)

    def _let_in(self) -> Stream | None:
        """Authenticates the client and connects to the machine for it; None if either fails."""
        reception = Reception(self._client, _HANDSHAKE_SECONDS)
        try:
            if not reception.authenticate(self._host.password):
                self._note("authentication_failed")
                reception.refuse("authentication failed")
                return None
        except DisplayError as error:
            self._note("refused", str(error))
            return None
        address, deadline = self._host.upstream, deadline_in(_HANDSHAKE_SECONDS)
        try:
            self._upstream = Stream.connect(address.host, address.port, deadline)
            init = open_session(self._upstream, address.password, deadline, shared=True)
        except DisplayError as error:
            self._failure = f"the machine's display cannot be used: {error}"
            self._note("refused", self._failure)
            with contextlib.suppress(DisplayError):
                reception.refuse("the machine's display cannot be used")
            return None
        try:
            reception.accept(init)
        except DisplayError as error:
            self._note("refused", str(error))
            return None
        self._has_begun = self._upstream_usable = True
        return self._upstream

    def _serve(self, upstream: Stream) -> str:
        """Carries both directions until one ends; why it did."""
        self._screen.start()
        try:
            reason = self._carry_input(upstream)
        except DisplayProtocolError as error:
            return f"malformed: {error}"
        if self._host.is_cutting:
            return "input was cut off"
        if self._upstream_over.is_set():
            reason = "the machine's display ended the connection"
        if self._upstream_over.is_set() or not self._upstream_usable:
            self._failure = reason
        return reason

    def _carry_input(self, upstream: Stream) -> str:
        parser = ClientMessageParser()
        while True:
            try:
                data = self._client.read_some(CHUNK, None)
            except DisplayError as error:
                return str(error)
            if not data:
                return "the client ended the connection"
            for message in parser.feed(data):
                allowed = self._pass(message)
                if allowed is None:
                    continue
                try:
                    upstream.write(allowed.encode(), deadline_in(_INPUT_SECONDS))
                except DisplayError as error:
                    self._upstream_usable = False  # a part of the message may have been sent
                    return f"the machine's display takes no input: {error}"

    def _pass(self, message: ClientMessage) -> ClientMessage | None:
        """What of a message may go to the machine. Every message of every client comes through here.

        Raises:
            DisplayProtocolError: the client holds more keys than anybody has fingers for.
        """
        if self._host.is_cutting:
            return None
        match message:
            case SetEncodings():
                return message.only_safe()
            case KeyEvent(down=True) if len(self._held_keys) >= MAX_HELD_KEYS and message.keysym not in self._held_keys:
                raise DisplayProtocolError(f"more than {MAX_HELD_KEYS} keys are held down")
            case KeyEvent() | PointerEvent() | CutText():
                if not self._host.admit(self._event(message)):
                    return None
                self._hold(message)
        return message

    def _event(self, message: KeyEvent | PointerEvent | CutText, *, released: bool = False) -> InputEvent:
        t, number = self._host.elapsed(), self.number
        match message:
            case KeyEvent(down=down, keysym=keysym):
                return InputEvent(
                    t, "key", number, down=down, keysym=keysym, name=keysym_name(keysym), released=released
                )
            case PointerEvent(buttons=buttons, x=x, y=y):
                return InputEvent(t, "pointer", number, x=x, y=y, buttons=buttons, released=released)
            case CutText(text=text):
                return InputEvent(
                    t, "clipboard", number, text=self._host.clip(text.decode("latin-1")), length=len(text)
                )

    def _hold(self, message: KeyEvent | PointerEvent | CutText) -> None:
        """Remembers what will have to be released."""
        match message:
            case KeyEvent(down=True, keysym=keysym):
                self._held_keys[keysym] = None
            case KeyEvent(keysym=keysym):
                self._held_keys.pop(keysym, None)
            case PointerEvent(buttons=buttons, x=x, y=y):
                self._buttons, self._place = buttons, (x, y)

    def _finish(self, upstream: Stream) -> None:
        """Lets go what the client held, and makes sure that the machine has read everything.

        The machine's display ends its side of the connection only after it has read up to where we ended ours. That is the
        one acknowledgement of input that the protocol has.
        """
        self._client.wake()
        self._release(upstream)
        upstream.end_output()
        self._screen.join(_END_SECONDS)
        if self._screen.is_alive():
            self.abandon()
            self._screen.join(_END_SECONDS)

    def _release(self, upstream: Stream) -> None:
        messages: list[KeyEvent | PointerEvent] = [KeyEvent(False, keysym) for keysym in reversed(self._held_keys)]
        if self._buttons:
            messages.append(PointerEvent(0, *self._place))
        deadline = deadline_in(_RELEASE_SECONDS)
        for message in messages:
            if not self._upstream_usable or self._upstream_over.is_set():
                return
            try:
                upstream.write(message.encode(), deadline)
            except DisplayError:
                self._upstream_usable = False
                return
            self._host.note(self._event(message, released=True))

    def _note(self, kind: EventKind, reason: str | None = None) -> None:
        self._host.note(InputEvent(self._host.elapsed(), kind, self.number, reason=reason))

    # -- the screen's thread --------------------------------------------------------------------------------------------

    def _carry_screen(self) -> None:
        """Passes the screen on untouched. When the client is gone it reads on, to the end of the machine's side."""
        upstream = self._upstream
        if upstream is None:
            return
        is_listening = True
        with contextlib.suppress(DisplayError):
            while data := upstream.read_some(CHUNK, None):
                if is_listening:
                    try:
                        self._client.write(data, None)
                    except DisplayError:
                        is_listening = False
                        self._client.wake()
        self._upstream_over.set()
        self._client.wake()
