"""Reading values: what a cell, a text or a JSON value stands for when a matcher looks at it (CONTRACT.md section 2)."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

import regex

from validators.changes import Cell, CellState, ContractFault, Kind
from validators.clock import Clock, clock_of

REGEX_LIMIT = 1 << 20
"""Longest text, in characters, that a regular expression is tried on."""
REGEX_SECONDS = 2.0
"""How long one regular expression may work on one value before the contract is called faulty."""

MOMENTS = (Kind.DATE, Kind.TIME, Kind.DATETIME)
"""Kinds of fields that hold dates and times."""
_FIXED, _VARYING = Kind.TEXT, Kind.VARTEXT
_ZERO_DATE = "00000000"
_DECIMAL = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})", re.ASCII)
_DIGITS = re.compile(r"\d{1,40}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME = re.compile(r"-?\d{2,3}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?", re.ASCII)
_DATETIME = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?(?:Z|[+-]\d{2}:\d{2})?)", re.ASCII)
_TAG = re.compile(r"<(?:!--.*?--|/?[A-Za-z][^<>]{0,1000})>", re.DOTALL)


def is_empty(cell: Cell) -> bool:
    """``{is: empty}``: blank, NULL, zero, false or ``00000000``."""
    if cell.state is CellState.BLANK or cell.state is CellState.NULL:
        return True
    value = cell.value
    if cell.state is CellState.UNDECODABLE:
        return cell.kind in MOMENTS and cell.raw == _ZERO_DATE.encode()
    match cell.kind:
        case Kind.TEXT | Kind.VARTEXT:
            text = str(value)
            return text in ("", _ZERO_DATE) or (cell.kind is Kind.TEXT and not text.strip(" "))
        case Kind.NUMBER:
            return isinstance(value, Decimal) and value == 0
        case Kind.LOGICAL:
            return value is False
        case Kind.BINARY:
            return isinstance(value, bytes) and not value.strip(b"\0")
        case _:
            return False


def is_blank(cell: Cell) -> bool:
    """``{is: blank}``: nothing entered; zero for types that have no blank; never NULL, nor a date of zeros in a DBF."""
    if cell.state is not CellState.VALUE:
        return cell.state is CellState.BLANK and not cell.is_zero_date
    if is_text(cell):
        return cell.value == "" or (cell.kind is Kind.TEXT and not str(cell.value).strip(" "))
    return not cell.has_blank and is_empty(cell)


@lru_cache(maxsize=4096)
def number_of(text: str) -> Decimal | None:
    """The number a plain decimal text stands for (surrounding blanks allowed), or ``None``."""
    text = text.strip(" ")
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


@lru_cache(maxsize=4096)
def moment_of(text: str, kind: Kind) -> date | Clock | datetime | None:
    """The date, time or date-and-time an ISO text stands for in a field of that kind, or ``None``."""
    try:
        if kind is Kind.DATE:
            return date.fromisoformat(text) if _DATE.fullmatch(text) else None
        if kind is Kind.TIME:
            return clock_of(text) if _TIME.fullmatch(text) else None
        if _DATE.fullmatch(text):
            return datetime.combine(date.fromisoformat(text), time())
        parts = _DATETIME.fullmatch(text)
        return datetime.fromisoformat(f"{parts[1]}T{parts[2]}") if parts else None
    except ValueError:
        return None


def cell_of_json(value: Any) -> Cell:
    """A JSON value as a cell; lists and objects hold no single value and count as undecodable."""
    if value is None:
        return Cell(Kind.VARTEXT, state=CellState.NULL)
    if isinstance(value, bool):
        return Cell(Kind.LOGICAL, value)
    if isinstance(value, str):
        return Cell(Kind.VARTEXT, value) if value else Cell(Kind.VARTEXT, state=CellState.BLANK)
    if isinstance(value, int | Decimal):
        return Cell(Kind.NUMBER, Decimal(value), has_blank=False)
    if isinstance(value, float):
        return Cell(Kind.NUMBER, Decimal(repr(value)), has_blank=False)
    return Cell(Kind.BINARY, state=CellState.UNDECODABLE, hint="a list or an object is no single value")


def series_number(cell: Cell) -> int | None:
    """The whole number a cell holds, for ``{generated: next}``: digits only in text, blanks around them allowed."""
    if cell.state is not CellState.VALUE:
        return None
    if isinstance(cell.value, Decimal):
        value = cell.value
        return (
            int(value) if value.is_finite() and value.adjusted() < 40 and value == value.to_integral_value() else None
        )
    if is_text(cell):
        text = str(cell.value).strip(" ")
        return int(text) if _DIGITS.fullmatch(text) else None
    return None


def safe_fullmatch(pattern: str, text: str) -> bool:
    """Whether the whole text matches, within :data:`REGEX_SECONDS`.

    Raises:
        ContractFault: The pattern needs too long, or is none.
    """
    return _within_time(pattern, lambda compiled: compiled.fullmatch(text, timeout=REGEX_SECONDS))


def safe_search(pattern: str, text: str) -> bool:
    """Like :func:`safe_fullmatch`, anywhere in the text (as JSON Schema's ``pattern`` asks)."""
    return _within_time(pattern, lambda compiled: compiled.search(text, timeout=REGEX_SECONDS))


def _within_time(pattern: str, attempt: Callable[[regex.Pattern[str]], object]) -> bool:
    try:
        return attempt(_compiled(pattern)) is not None
    except TimeoutError:
        raise ContractFault(
            f"the regular expression /{shown(pattern, 80)}/ does not come to an end within {REGEX_SECONDS:g} s; "
            "write it without repetitions inside repetitions"
        ) from None
    except regex.error as error:
        raise ContractFault(f"/{shown(pattern, 80)}/ is not a regular expression: {error}") from None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> regex.Pattern[str]:
    return regex.compile(pattern)


def normalised(text: str, normalisations: Sequence[str]) -> str:
    """The text after the named normalisations, always applied in the same order.

    ``html``: tags and comments removed, character references resolved; ``unicode``: NFKC; ``case``: case folded;
    ``whitespace``: runs of white space become one blank, none at the ends.
    """
    if "html" in normalisations:
        text = html.unescape(_TAG.sub(" " if "whitespace" in normalisations else "", text))
    if "unicode" in normalisations:
        text = unicodedata.normalize("NFKC", text)
    if "case" in normalisations:
        text = text.casefold()
        if "unicode" in normalisations:
            text = unicodedata.normalize("NFKC", text)
    return " ".join(text.split()) if "whitespace" in normalisations else text


def is_text(cell: Cell) -> bool:
    """Whether the cell is of a text field."""
    # Compared by identity: enumeration members hash slowly, and this is asked for every cell.
    return cell.kind is _FIXED or cell.kind is _VARYING


def text_of(cell: Cell) -> str | None:
    """The text of a text field, as it counts; ``None`` for other fields and for NULL."""
    if not is_text(cell) or cell.state is CellState.NULL or cell.state is CellState.UNDECODABLE:
        return None
    if cell.state is CellState.BLANK:
        return ""
    text = str(cell.value)
    return text.rstrip(" ") if cell.kind is _FIXED else text


def spelled(cell: Cell, *, strict: bool) -> str | None:
    """What a regular expression looks at: text as it counts, numbers in full, dates and times in ISO form."""
    if strict or is_text(cell):
        return text_of(cell)
    literal = as_literal(cell)
    if isinstance(literal, bool):
        return "true" if literal else "false"
    if isinstance(literal, Decimal):
        return format(literal, "f") if literal.is_finite() and abs(literal.adjusted()) < 400 else None
    return None if literal is None else str(literal)


def as_literal(cell: Cell) -> bool | Decimal | str | None:
    """The literal that would be written for the cell's value."""
    if is_text(cell):
        return text_of(cell)
    value = cell.value if cell.state is CellState.VALUE else None
    if isinstance(value, bool | Decimal):
        return value
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date | Clock) else None


def number_in(cell: Cell, *, strict: bool) -> Decimal | None:
    """A finite number: of a numeric field, or spelt in a text field."""
    if cell.state is not CellState.VALUE:
        return None
    if isinstance(cell.value, Decimal):
        return cell.value if cell.value.is_finite() else None
    return number_of(cell.value) if isinstance(cell.value, str) and not strict else None


def moment_in(cell: Cell) -> datetime | time | None:
    """The time, or date and time, of a field that has one, or spelt in ISO form in a text field."""
    if cell.state is not CellState.VALUE:
        return None
    if isinstance(cell.value, datetime | time):
        return cell.value
    if isinstance(cell.value, str):
        text = cell.value.strip()
        clock = moment_of(text, Kind.TIME)
        if isinstance(clock, time):
            return clock
        moment = moment_of(text, Kind.DATETIME) if not _DATE.fullmatch(text) else None
        return moment if isinstance(moment, datetime) else None
    return None


def in_utc(moment: date | Clock | datetime | None) -> date | Clock | datetime | None:
    """A date-and-time without a zone as one in UTC; anything else as it is."""
    return moment.replace(tzinfo=UTC) if isinstance(moment, datetime) and moment.tzinfo is None else moment


def day_in(cell: Cell) -> date | None:
    """The day of a date field, or spelt in ISO form in a text field."""
    if cell.state is not CellState.VALUE:
        return None
    value = moment_of(cell.value.strip(), Kind.DATETIME) if isinstance(cell.value, str) else cell.value
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else None


def shown(text: str, limit: int = 120) -> str:
    """A hostile text on one line: bounded, line breaks as ``⏎``, other control and direction characters as ``�``."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    cut = cut.replace("\r\n", "⏎").replace("\n", "⏎")
    return "".join("�" if unicodedata.category(sign)[0] == "C" else sign for sign in cut)
