"""What checks use inside a machine: cmd.exe, notepad.exe and the probe, which Windows and Wine both have."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import PureWindowsPath
from typing import TypeVar

from runner.conformance.checks import Failed
from runner.display.rfb import RfbClient
from runner.guests.base import Completed, Guest, GuestNotFound, Unreadable
from runner.guests.probe import WindowEntry
from runner.guests.windows import wait_for

T = TypeVar("T")
NOTEPAD = r"C:\windows\notepad.exe"
_SYSTEM = PureWindowsPath(r"C:\windows\system32")
_BOM = b"\xff\xfe"
"""An empty text in UTF-16: an editor keeps the encoding of what it opened, so every character can be saved."""
_PAUSE = 0.05
_UNTIL_SAVED = 60.0
"""Seconds: keys wait in line where a machine is slow, and the last of them saves."""
_UNTIL_WHOLE = 3.0
"""Seconds until what was saved can be read whole."""


def system(name: str) -> str:
    """Path of one of Windows' own programs."""
    return str(_SYSTEM / name)


def cmd(guest: Guest, *words: str, timeout: float = 60.0, limit: int = 1 << 20) -> Completed:
    """Runs a command line of cmd.exe to its end. No word may hold a quote or, unless it is a switch, a blank."""
    return guest.run([system("cmd.exe"), "/c", " ".join(words)], timeout=timeout, limit=limit)


def until(ask: Callable[[], T | None], otherwise: str, seconds: float = 20.0) -> T:
    """Asks until the answer is true, and returns it.

    Raises:
        Failed: It was not in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = ask()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise Failed(otherwise)
        time.sleep(_PAUSE)


def open_notepad(guest: Guest, file: PureWindowsPath) -> WindowEntry:
    """Opens a new, empty text in notepad.exe and waits for its window.

    The window is known by the file's name in its title, whatever the language and version of Windows.

    Raises:
        Failed: It did not appear.
    """
    guest.write(file, _BOM)
    guest.start([NOTEPAD, str(file)])
    try:
        return wait_for(guest, lambda window: file.stem in window.title, f"an editor's window with {file.name}", 30)
    except TimeoutError as error:
        raise Failed(str(error)) from None


def end(guest: Guest, pid: int) -> None:
    """Ends a program that a check has left; what is gone already is no matter."""
    with contextlib.suppress(TimeoutError, Unreadable):
        guest.run([system("taskkill.exe"), "/F", "/PID", str(pid)], timeout=30)


@contextlib.contextmanager
def notepad(guest: Guest, file: PureWindowsPath) -> Iterator[WindowEntry]:
    """An editor's window that is closed at the end (see :func:`open_notepad`)."""
    window = open_notepad(guest, file)
    try:
        yield window
    finally:
        end(guest, window.pid)


def seen(guest: Guest, window: WindowEntry) -> WindowEntry | None:
    """The same window as it is now; ``None`` if it is no longer shown."""
    return next((w for w in guest.probe("windows").windows if w.hwnd == window.hwnd and w.visible), None)


def focus(guest: Guest, screen: RfbClient, window: WindowEntry) -> None:
    """Brings a window to the front by a click into its middle, where it is not in front already.

    Raises:
        Failed: It does not come.
    """

    def in_front() -> bool:
        now = seen(guest, window)
        return now is not None and now.foreground

    if not in_front():
        left, top, right, bottom = window.rect
        screen.click((left + right) // 2, (top + bottom) // 2)
        until(in_front, f"a click into the window {window.title!r} does not bring it to the front")


def saved(guest: Guest, file: PureWindowsPath, fits: Callable[[str], bool]) -> str:
    """The text in an editor's file once it fits, or, if it never does, as it stands a while after it was saved.

    Raises:
        Failed: Nothing was saved.
    """
    text = ""
    deadline = time.monotonic() + _UNTIL_SAVED
    while time.monotonic() < deadline:
        with contextlib.suppress(Unreadable, GuestNotFound, UnicodeDecodeError):  # it is being written at this moment
            now = decoded(guest.read(file, limit=1 << 20))
            if now and not text:
                deadline = time.monotonic() + _UNTIL_WHOLE
            text = now or text
        if text and fits(text):
            return text
        time.sleep(_PAUSE)
    if not text:
        raise Failed(f"nothing that was typed is in {file.name} after Ctrl+S")
    return text


def decoded(data: bytes) -> str:
    """An editor's text, lines ended by a newline."""
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return data.decode(encoding).replace("\r\n", "\n")


def type_and_save(guest: Guest, screen: RfbClient, file: PureWindowsPath, window: WindowEntry, text: str) -> str:
    """Types into an editor through the display, saves, and returns what the guest then reads in the file.

    Raises:
        Failed: Nothing arrived.
    """
    focus(guest, screen, window)
    screen.type_text(text)
    screen.press("ctrl+s")
    return saved(guest, file, lambda got: got == text)
