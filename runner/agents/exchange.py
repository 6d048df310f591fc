"""What a program of the user's is told, and what it answers: two JSON documents, each with the number of its version.

The answer is hostile: it is bounded, files that it names must be plain files within the program's own folder, and pictures are
made anew from their pixels, so that nothing else that a picture's file may hold is kept.
"""

from __future__ import annotations

import json
import math
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from runner.agents.base import STATUSES, AgentTask, Happening, Status
from runner.agents.supervision import MAX_TIMELINE
from runner.pictures import redrawn

VERSION = 1
MAX_REPORT = 8 << 20
"""Bytes of the longest report."""
MAX_PICTURE = 32 << 20
"""Bytes of the largest picture's file."""
MAX_PICTURES = 200
Told = Status | Literal["infrastructure"]


class BadReport(Exception):
    """A report is none; the argument says why."""


@dataclass(frozen=True, slots=True)
class Report:
    """A program's answer.

    Attributes:
        status: One of an agent's statuses, or ``infrastructure``: what the program needs is out.
        returned: The values returned.
        message: Its own words.
        usage: Its counts, not checked yet.
        timeline: Its account, pictures read.
    """

    status: Told
    returned: Any
    message: str
    usage: Mapping[str, Any]
    timeline: tuple[Happening, ...]


def task_document(task: AgentTask, size: tuple[int, int]) -> dict[str, Any]:
    """The task as JSON, with its secrets: the program has to type them."""
    left = max(0.0, task.deadline - time.monotonic())
    return {
        "legacyproof_task": VERSION,
        "contract": task.contract,
        "prompt": task.prompt,
        "instruction": task.instruction,
        "parameters": {name: _plain(value) for name, value in task.parameters.items()},
        "response_schema": task.response_schema,
        "response_example": task.response_example,
        "display": {
            "protocol": "rfb",
            "host": task.display.host,
            "port": task.display.port,
            "password": task.display.password,
            "width": size[0],
            "height": size[1],
        },
        "timeout": round(left, 3),
        "deadline": (datetime.now(UTC) + timedelta(seconds=left)).isoformat(timespec="milliseconds"),
    }


def _plain(value: Any) -> Any:
    """A parameter's value in JSON; a decimal number as the text that the contract has, since a float would change its digits."""
    return format(value, "f") if isinstance(value, Decimal) else value


def find_report(file: Path, output: bytes) -> bytes | None:
    """The report: the file that the program was told, else all of its output, else the last line of it; ``None``: there is none.

    Raises:
        BadReport: It wrote a report that is too long, or something else than a plain file.
    """
    written = _read(file, MAX_REPORT)
    if written is not None:
        return written
    text = output.strip()
    if not text:
        return None
    if text.startswith(b"{") and len(text) <= MAX_REPORT and _parses(text):
        return text
    return text.rpartition(b"\n")[2][: MAX_REPORT + 1]


def _parses(text: bytes) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def parse_report(text: bytes, folder: Path, *, until: float) -> Report:
    """A report from its JSON.

    Args:
        text: The JSON.
        folder: The program's folder, where its pictures are.
        until: A moment of ``time.monotonic()`` after which no more pictures are read.

    Raises:
        BadReport: It is no report, or names a file that is not in the folder.
    """
    if len(text) > MAX_REPORT:
        raise BadReport(f"it has more than {MAX_REPORT >> 20} MiB")
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadReport(f"it is no JSON: {str(error)[:200]}") from None
    if not isinstance(data, dict):
        raise BadReport("it is no JSON object")
    known = {*STATUSES, "infrastructure"}
    status = data.get("status")
    if not isinstance(status, str) or status not in known:
        raise BadReport(f"its `status` is {str(status)[:100]!r}; it can be {', '.join([*STATUSES, 'infrastructure'])}")
    message, usage, timeline = data.get("message", ""), data.get("usage", {}), data.get("timeline", [])
    for name, value, kind in (("message", message, str), ("usage", usage, dict), ("timeline", timeline, list)):
        if not isinstance(value, kind):
            raise BadReport(f"its `{name}` is no {'text' if kind is str else 'object' if kind is dict else 'list'}")
    return Report(cast("Told", status), data.get("returned"), message, usage, _timeline(timeline, folder, until))


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _timeline(entries: list[Any], folder: Path, until: float) -> tuple[Happening, ...]:
    happenings = []
    pictures = 0
    for entry in entries[:MAX_TIMELINE]:
        if not isinstance(entry, dict) or not isinstance(entry.get("text", ""), str):
            raise BadReport("an entry of its `timeline` is no object with a `text`")
        t = entry.get("t", 0.0)
        t = float(t) if isinstance(t, int | float) and abs(t) < 1e9 and math.isfinite(t) else 0.0
        picture = None
        if (name := entry.get("screenshot")) is not None:
            if not isinstance(name, str):
                raise BadReport("a `screenshot` in its `timeline` is no file's name")
            if pictures < MAX_PICTURES and time.monotonic() < until:
                picture = _picture(folder, name)
                pictures += 1
        happenings.append(Happening(t, entry.get("text", ""), picture))
    return tuple(happenings)


def _picture(folder: Path, name: str) -> bytes:
    """A picture of the program's, as a PNG that holds nothing but the pixels."""
    shown = name[:100]
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise BadReport(f"the screenshot {shown!r} is not within the program's folder")
    data = _read_below(folder, path, MAX_PICTURE)
    if data is None:
        raise BadReport(f"there is no screenshot {shown!r}")
    try:
        return redrawn(data, "PNG", "JPEG")
    except ValueError as error:
        raise BadReport(f"the screenshot {shown!r} {error}") from None


def _read_below(folder: Path, path: PurePosixPath, most: int) -> bytes | None:
    """A file below a folder, reached without following any link."""
    opened = [os.open(folder, os.O_RDONLY | os.O_DIRECTORY)]
    try:
        for part in path.parts[:-1]:
            opened.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=opened[-1]))
        return _read(Path(path.name), most, within=opened[-1])
    except OSError:
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _read(file: Path, most: int, within: int | None = None) -> bytes | None:
    """A plain file's content; ``None`` where there is none of that name.

    Raises:
        BadReport: It is something else, or too long.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=within)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadReport(f"{file.name!r} cannot be read: {error.strerror}") from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise BadReport(f"{file.name!r} is no plain file")
        if about.st_size > most:
            raise BadReport(f"{file.name!r} has more than {most >> 20} MiB")
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            return opened.read(most)
    finally:
        os.close(descriptor)
