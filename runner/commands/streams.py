"""Standard output and standard error that can end nothing: what they cannot take is left out, and remembered.

Damage that a command has to live with: a stream that is closed from the beginning, a full disk behind it, a reader that has gone, a
terminal that hung up, and an encoding without the signs that are written.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO, cast

_FLAT = {
    "·": "-", "•": "*", "…": "...", "–": "-", "—": "-", "→": "->", "✓": "+", "✗": "x", "×": "x", "“": '"', "”": '"', "„": '"',
    "’": "'", "‘": "'", "⟨": "<", "⟩": ">",
}  # fmt: skip
"""Our own signs for encodings that do not have them; anything else is written as an escape."""
_HANDLER = "legacyproof"


def _flattened(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    plain = (_FLAT.get(sign) or sign.encode("ascii", "backslashreplace").decode("ascii") for sign in signs)
    return "".join(plain), error.end


codecs.register_error(_HANDLER, _flattened)


class Stream:
    """A text stream that takes everything; whatever else is asked of it, the stream behind it answers.

    Attributes:
        lost: Why something could not be written, the first time. Nothing is written after it: output with holes misleads.
        kept: Whether what is written stands in files as well, so that its loss is no failure of the command.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: Exception | None = None
        self.kept = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes a text as well as the stream can; gives its length whatever comes of it."""
        encoding = getattr(self._stream, "encoding", None)
        if encoding and not text.isascii():
            text = text.encode(encoding, _HANDLER).decode(encoding)
        self._bear(lambda: self._stream.write(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts one after the other."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Hands on what was written so far."""
        self._bear(self._stream.flush)

    @property
    def unwritten(self) -> str:
        """Why output is not whole; empty where it is, or where its reader has had enough of it."""
        if self.lost is None or getattr(self.lost, "errno", None) == errno.EPIPE:
            return ""
        return getattr(self.lost, "strerror", None) or str(self.lost)

    def _bear(self, action: Callable[[], object]) -> None:
        if self.lost is not None:
            return
        try:
            action()
        except (OSError, ValueError) as error:  # ValueError: the stream was closed
            self.lost = error
            # What is buffered would fail again when the interpreter ends, with a traceback and a status of its own.
            with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), self._stream.fileno())


def kept_in_files() -> None:
    """Says that all that matters of what is told on standard output stands in files as well."""
    if isinstance(sys.stdout, Stream):
        sys.stdout.kept = True


@contextlib.contextmanager
def bearing() -> Iterator[tuple[Stream, Stream]]:
    """Puts such streams in the place of standard output and standard error for the time of a command."""
    _hold_places()
    before = sys.stdout, sys.stderr
    out, err = (Stream(stream if stream is not None else _nothing()) for stream in before)
    sys.stdout, sys.stderr = cast("TextIO", out), cast("TextIO", err)
    try:
        yield out, err
    finally:
        out.flush()
        err.flush()
        sys.stdout, sys.stderr = before


def _hold_places() -> None:
    """Opens what is closed of the three standard descriptors.

    Else the next file that is opened gets its number, and with it whatever a library or a child process writes there.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gives the lowest number that is free: this one
            os.set_inheritable(number, True)


def _nothing() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8")
