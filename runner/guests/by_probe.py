"""Reading a file through the probe: Windows itself decides what a name stands for, and what is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PureWindowsPath

from runner.guests.base import GuestNotFound, Unreadable
from runner.guests.probe import ProbeError, ProbeResult

_NOT_FOUND = {2, 3}
"""Windows' codes for a file and for a folder that is not there; for a drive that is not there the probe has one of its own."""


def read_by_probe(ask: Callable[[Sequence[str]], ProbeResult], path: PureWindowsPath, limit: int) -> bytes:
    """A file's content.

    Args:
        ask: Asks the probe a command.
        path: The file, by any name that Windows knows it by.
        limit: Bytes accepted.

    Raises:
        GuestNotFound: Windows says that there is no such file.
        Unreadable: It could not be read, or is too large.
    """
    try:
        return ask(["read", "--max-bytes", str(limit), "--", str(path)]).data
    except ProbeError as error:
        if error.status == "error" and error.code in _NOT_FOUND:
            raise GuestNotFound(str(path)) from None
        if error.status == "truncated":
            raise Unreadable(f"{path} holds more than the {limit} bytes accepted") from None
        raise Unreadable(f"{path}: {error.reason}") from None
