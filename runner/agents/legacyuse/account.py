"""A job's own account: its log as a timeline with screenshots, and what it used, counted from its exchanges with the model.

The server's own totals weigh cached tokens, are zero for some providers and grow after the end; so nothing of them is taken. What it
has counted of a single exchange stands in where the provider's answer was not kept whole; the cached tokens among it are weighted too, and
are told apart from the provider's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runner.agents.base import Happening
from runner.agents.legacyuse.client import objects
from runner.agents.legacyuse.redaction import Redactor
from runner.pictures import redrawn

MAX_ENTRIES = 10_000
MAX_LINE = 2_000
"""Characters of one line; the runner keeps no more."""
MAX_DEPTH = 8
MAX_PICTURE = 16 << 20
"""Bytes of one screenshot."""
_SECRET_HEADERS = frozenset(
    {"x-api-key", "authorization", "api-key", "x-goog-api-key", "x-amz-security-token", "cookie"}
)
_SHORTEST_KEY = 8
"""Characters; what is shorter, as in ``Authorization: Bearer none``, is no key, and would be found in honest answers."""
_UNTOLD = ("Executing API with parameters",)
"""Lines that only repeat what the job was given."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a job's log.

    Attributes:
        t: Seconds since the log's first entry.
        kind: ``system``, ``message``, ``tool_use`` or ``error``.
        content: Text, or an object.
    """

    t: float
    kind: str
    content: Any


def entries(answer: Any) -> list[LogEntry]:
    """A job's log.

    Raises:
        ServerOut: It is no list.
    """
    found: list[LogEntry] = []
    began: datetime | None = None
    t = 0.0
    for item in objects(answer, MAX_ENTRIES):
        moment = _moment(item.get("timestamp"))
        if moment is not None:
            began = began or moment
            t = max(t, (moment - began).total_seconds())
        found.append(LogEntry(t, str(item.get("log_type"))[:40], item.get("content")))
    return found


def _moment(text: Any) -> datetime | None:
    """The server's timestamps have no zone; only their distances are used."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None) if isinstance(text, str) else None
    except ValueError:
        return None


def timeline(log: Sequence[LogEntry], began: float, redactor: Redactor) -> list[Happening]:
    """The log as lines for people, with the screenshots.

    Args:
        log: The job's log.
        began: When the log began, in seconds since the agent began.
        redactor: Makes each line fit to be kept.
    """
    lines = []
    for entry in log:
        text, shot = _line(entry)
        if text or shot is not None:
            lines.append(Happening(began + entry.t, redactor.text(text, MAX_LINE), shot))
    return lines


def _line(entry: LogEntry) -> tuple[str, bytes | None]:
    content = entry.content
    match entry.kind:
        case "message" if isinstance(content, dict) and content.get("type") == "tool_use":
            asked = content.get("input")
            asked = dict(asked) if isinstance(asked, dict) else {"input": asked}
            action = asked.pop("action", None)
            name = str(content.get("name"))
            return f"{action if name == 'computer' and isinstance(action, str) else name} {words(asked)}".rstrip(
                " "
            ), None
        case "message" if isinstance(content, dict):
            return f"says: {words(content.get('text', content.get('thinking', '')))}", None
        case "tool_use" if isinstance(content, dict):
            shot = _picture(content.get("base64_image"))
            if content.get("error"):
                return f"the tool failed: {words(content['error'])}", shot
            output = words(content.get("output") or "")
            return (f"the tool answers: {output}" if output else "screen" if shot is not None else ""), shot
        case "system" if isinstance(content, str) and not content.startswith(_UNTOLD):
            return content, None
        case "error":
            return f"an error in the server: {words(content)[-500:]}", None
        case _:
            return "", None


def _picture(encoded: object) -> bytes | None:
    """A screenshot of the server, pixels only; ``None`` if it is no picture of a bearable size."""
    if not isinstance(encoded, str) or len(encoded) > MAX_PICTURE * 4 // 3 + 4:
        return None
    try:
        return redrawn(base64.b64decode(encoded, validate=True), "PNG")
    except ValueError:  # also what base64 raises
        return None


def words(value: Any, depth: int = 0) -> str:
    """JSON data in plain words; texts as they are, so that what is looked for in them is found."""
    if depth > MAX_DEPTH:
        return "…"
    match value:
        case str():
            return value
        case Mapping():
            return ", ".join(f"{key}: {words(item, depth + 1)}" for key, item in value.items())
        case list():
            return f"[{', '.join(words(item, depth + 1) for item in value)}]"
        case _:
            return json.dumps(value)


def usage(exchanges: Sequence[Mapping[str, Any]], log: Sequence[LogEntry]) -> dict[str, float]:
    """Turns, tokens and tool calls of a job.

    Args:
        exchanges: The contents of the exchanges with the model's provider, see :func:`contents`.
        log: The job's log.

    Returns:
        Counts by name. ``cache_write_tokens`` and ``cache_read_tokens`` are the provider's raw ones; where an answer was not kept whole,
        what the server has made of them, 1.25 and 0.1 of the raw ones rounded down, is in ``cache_write_tokens_weighted`` and
        ``cache_read_tokens_weighted``, never in both.
    """
    counted: dict[str, float] = {"turns": 0, "input_tokens": 0, "output_tokens": 0}
    for content in exchanges:
        used = _used(content)
        if used is None:
            continue
        counted["turns"] += 1
        for name, names in _TOKENS.items():
            number = next((used[key] for key in names if _is_count(used.get(key))), 0)
            if number or name in counted:
                counted[name] = counted.get(name, 0) + number
    counted["tool_calls"] = sum(
        entry.kind == "message" and isinstance(entry.content, dict) and entry.content.get("type") == "tool_use"
        for entry in log
    )
    counted["tool_failures"] = sum(
        entry.kind == "tool_use" and isinstance(entry.content, dict) and bool(entry.content.get("error"))
        for entry in log
    )
    return counted


_TOKENS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "cache_write_tokens": ("cache_creation_input_tokens",),
    "cache_read_tokens": ("cache_read_input_tokens",),
    "cache_write_tokens_weighted": ("cache_creation_tokens",),
    "cache_read_tokens_weighted": ("cache_read_tokens",),
}
"""What is called what it counts by Anthropic and OpenAI, and by the server itself for an exchange."""
_COUNTED_BY_THE_SERVER = ("input_tokens", "output_tokens", "cache_creation_tokens", "cache_read_tokens")


def provider_keys(exchanges: Sequence[Mapping[str, Any]]) -> set[str]:
    """The keys with which the server authenticates to the provider; it shows them in clear text."""
    keys: set[str] = set()
    for content in exchanges:
        request = content.get("request")
        headers = request.get("headers") if isinstance(request, dict) else None
        for name, value in (headers or {}).items() if isinstance(headers, dict) else ():
            if str(name).lower() in _SECRET_HEADERS and isinstance(value, str):
                keys |= {value, *value.split()[-1:]}
    return {key for key in keys if len(key) >= _SHORTEST_KEY}


def contents(exchanges: Any) -> list[dict[str, Any]]:
    """What was exchanged with the model's provider, the last one last.

    Raises:
        ServerOut: The exchanges are no list.
    """
    found = [item.get("content") for item in objects(exchanges, MAX_ENTRIES)]
    return [content for content in found if isinstance(content, dict)]


def _used(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the provider says was used by one exchange; ``None``: the exchange had no answer."""
    response = content.get("response")
    if not isinstance(response, dict) or not _is_count(response.get("status_code")) or response["status_code"] >= 400:
        return None
    body = response.get("body")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            body = None
    used = body.get("usage") if isinstance(body, dict) else None
    if isinstance(used, dict):
        return used
    # An answer that was not kept whole: what the server itself has counted of it, under the names that it has there.
    return {name: content.get(name) for name in _COUNTED_BY_THE_SERVER}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12
