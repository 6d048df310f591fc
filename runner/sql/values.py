"""Spelling the values that a driver made, where the server cannot be asked for the text itself."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


def text_of(value: Any) -> str | None:
    """A driver's value as exact text; ``None`` is NULL. What is not known is spelt as Python does."""
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "t" if value else "f"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f") if value.is_finite() else str(value)
        case float():
            return repr(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex().upper()
        case datetime():
            return value.isoformat(" ")
        case date() | time():
            return value.isoformat()
        case UUID():
            return str(value).upper()
        case _:
            return str(value)
