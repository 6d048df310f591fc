"""The flight recorder's input log (:mod:`runner.display.inputlog`), read defensively and told in rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_ROWS: Final = 500
_MAX_LINE: Final = 64 * 1024

_BUTTONS: Final = ("left", "middle", "right", "wheel up", "wheel down", "wheel left", "wheel right", "back")
_EVENTS: Final = {
    "connected": "client connected",
    "authentication_failed": "wrong password",
    "refused": "client turned away",
    "disconnected": "client gone",
    "cut": "input cut off",
    "upstream_lost": "display lost",
    "log_full": "log full",
}


@dataclass(frozen=True, slots=True)
class InputRow:
    """One row of the table: seconds since the recorder's start, what happened, and with what."""

    t: float
    what: str
    detail: str


@dataclass(slots=True)
class InputTable:
    """What can be shown of an input log.

    Attributes:
        rows: the first :data:`MAX_ROWS`.
        more: later lines of the log that are not shown.
        unreadable: lines among those looked at that are no events.
        dropped: events the recorder counted without keeping them.
        complete: whether the log has its last line.
    """

    rows: list[InputRow] = field(default_factory=list)
    more: int = 0
    unreadable: int = 0
    dropped: int = 0
    complete: bool = False


def read_inputs(data: bytes, limit: int = MAX_ROWS) -> InputTable:
    """The log as a table. Movements of the pointer in between become one row, as do a key's press and release."""
    table = InputTable()
    lines = data.split(b"\n")
    _read_end(lines, table)
    pending: _Pending | None = None
    for number, line in enumerate(lines):
        if not line.strip():
            continue
        entry = _parse(line)
        if entry is None:
            table.unreadable += 1
            continue
        if "record" in entry:
            continue
        if pending is None or not pending.takes(entry):
            if pending is not None:
                table.rows.append(pending.row())
            if len(table.rows) >= limit:
                table.more = sum(1 for rest in lines[number:] if rest.strip()) - table.complete
                return table
            pending = _Pending(entry, pending)
    if pending is not None:
        table.rows.append(pending.row())
    return table


def _read_end(lines: list[bytes], table: InputTable) -> None:
    last = next((line for line in reversed(lines) if line.strip()), b"")
    entry = _parse(last)
    if entry is not None and entry.get("record") == "end":
        table.complete = True
        table.dropped = max(0, _whole(entry.get("dropped")) or 0)


class _Pending:
    """A row that the events to come may still join."""

    def __init__(self, entry: Mapping[str, Any], before: _Pending | None) -> None:
        self.entry = entry
        self.kind = entry.get("kind")
        self.buttons = _whole(entry.get("buttons")) or 0
        held: int = before.held if before is not None else 0
        self.held: int = self.buttons if self.kind == "pointer" else held
        self.pressed = self.held & ~held
        self.freed = held & ~self.held
        self.moves = _moves(entry)
        self.released = False

    def takes(self, entry: Mapping[str, Any]) -> bool:
        """Joins the event to this row if it belongs to it."""
        if self.kind != entry.get("kind") or self.entry.get("client") != entry.get("client"):
            return False
        if self.kind == "pointer" and not self.pressed and not self.freed:
            if (_whole(entry.get("buttons")) or 0) != self.buttons:
                return False
            self.entry, self.moves = entry, self.moves + _moves(entry)
            return True
        if self.kind == "key" and self.entry.get("down") is True and entry.get("down") is False and not self.released:
            self.released = entry.get("name") == self.entry.get("name")
            return self.released
        return False

    def row(self) -> InputRow:
        t = self.entry.get("t")
        seconds = float(t) if isinstance(t, int | float) and not isinstance(t, bool) and abs(t) < 1e12 else -1.0
        return InputRow(seconds, *self._words())

    def _words(self) -> tuple[str, str]:
        entry = self.entry
        if self.kind == "key":
            name = _text(entry.get("name"))
            if self.released:
                return "key", name
            return ("key down" if entry.get("down") is True else "key up"), name
        if self.kind == "pointer":
            place = f"at {_whole(entry.get('x'))}, {_whole(entry.get('y'))}"
            if self.pressed:
                return "pointer down", f"{_buttons(self.pressed)} {place}"
            if self.freed:
                return "pointer up", f"{_buttons(self.freed)} {place}"
            return "pointer moved", f"to {place[3:]}" + (f" ({self.moves} movements)" if self.moves > 1 else "")
        if self.kind == "clipboard":
            return "clipboard offered", _text(entry.get("text"))
        kind = _text(self.kind)
        if kind == "log_full":
            return _EVENTS[kind], _text(entry.get("reason")) or "later events are only counted"
        return _EVENTS.get(kind, kind.replace("_", " ")), _text(entry.get("reason"))


def _parse(line: bytes) -> Mapping[str, Any] | None:
    if len(line) > _MAX_LINE:
        return None
    try:
        entry = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else None


def _moves(entry: Mapping[str, Any]) -> int:
    """How many movements an event of the pointer stands for."""
    return max(1, _whole(entry.get("moves")) or 1)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _buttons(mask: int) -> str:
    return " and ".join(_button_names(mask)) or "button"


def _button_names(mask: int) -> Iterator[str]:
    return (name for bit, name in enumerate(_BUTTONS) if mask >> bit & 1)
