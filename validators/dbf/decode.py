"""From the bytes of one field to a :class:`~validators.changes.Cell`. No bytes raise: what is no value is *undecodable*.

Decisions where formats are silent, or programs disagree:

* Blanks and zero bytes pad alike in ``C``, ``N``, ``F`` and ``D``; a field of padding only is blank, so are the date ``00000000`` and the
  ``L`` of a record that a program filled with zero bytes (the bytes stay in ``raw``, and going from one to the other is a
  format-only difference).
* A ``C`` field whose first byte is NUL is blank: programs written in C empty a field so, and what stood there before stays behind
  the NUL, unseen. Fields without code page translation are exempt, since they may hold any bytes. A NUL further on is a
  character like others: whether a program stops there is its own affair. A number or date behind a NUL is undecodable: some programs
  see the digits and others nothing.
* A number of which only the point stands there is blank (dBASE II fills an empty field so).
* ``N`` and ``F``: digits with sign, point and an exponent of at most three digits, as FoxPro writes when a number does not
  fit otherwise. A decimal comma counts where exactly the field's decimals follow it (else it may separate thousands).
  ``***`` is the overflow mark: undecodable, and so different from blank.
* A DateTime of Visual FoxPro (``T``) is rounded to the nearest second, half a second up, at the day's end into the next day. Visual FoxPro
  computes with days as a double, cuts the milliseconds off when it stores (so that of whole seconds many end in .999: truncating the
  double gives exactly those that real files hold) and shows and compares parts of moments in rounded seconds; X# reads its
  tables so too. The milliseconds stay in ``raw``: a format-only difference.
* Times of a day past 23:59:59.999 and day 0 with a time are undecodable: programs disagree about them.
* Text whose code page is unknown is undecodable as soon as it goes beyond ASCII.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal

from validators.changes import Cell, CellState, Kind
from validators.dbf.codepages import Encoding
from validators.dbf.layout import Dialect, Field
from validators.dbf.types import TYPES, Form, kind_of, type_of, why_unread

NO_ENCODING_HINT = "declare encoding"
PADDING = b" \0"
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?")
_COMMA = re.compile(rb"[+-]?\d+,(\d+)")
_TRUE, _FALSE = frozenset(b"TtYyJj"), frozenset(b"FfNn")
_JULIAN_OF_ORDINAL_ZERO = 1_721_425
"""Julian day number of the day before 0001-01-01."""
_DAY_MS = 86_400_000
_SIGN = 1 << 63

Decoder = Callable[[bytes], Cell]


def memo_pointer(raw: bytes) -> int | None:
    """The block a memo field points to, ``None`` when it points to none.

    Raises:
        ValueError: The bytes are no pointer.
    """
    if len(raw) == 4:
        return None if raw == b"    " else int.from_bytes(raw, "little") or None
    digits = raw.strip(PADDING)
    if digits and not digits.isdigit():
        raise ValueError("not a memo pointer")
    return int(digits or b"0") or None


def undecodable(kind: Kind, raw: bytes, hint: str, *, has_blank: bool = True) -> Cell:
    """A value of no use but to be compared by its bytes."""
    return Cell(kind, None, CellState.UNDECODABLE, raw, has_blank, hint)


def text_decoder(encoding: Encoding, *, known: bool) -> Callable[[bytes, Kind, bytes], Cell]:
    """A function from text bytes, kind and raw bytes to a cell; ``known`` False adds the hint to declare the encoding."""
    hint = f"no text in {encoding.name}" if known else NO_ENCODING_HINT

    def decode(text: bytes, kind: Kind, raw: bytes) -> Cell:
        if not text:
            return Cell(kind, None, CellState.BLANK, raw)
        try:
            return Cell(kind, encoding.decode(text), CellState.VALUE, raw)
        except UnicodeError:
            return undecodable(kind, raw, hint)

    return decode


def untranslated(content: bytes, raw: bytes, kind: Kind) -> Cell:
    """A field that no code page applies to: text while it is ASCII, else bytes."""
    if not content:
        return Cell(kind, None, CellState.BLANK, raw)
    if content.isascii() and b"\0" not in content:
        return Cell(kind, content.decode("ascii"), CellState.VALUE, raw)
    return Cell(Kind.BINARY, content, CellState.VALUE, raw)


def decoder(field: Field, dialect: Dialect, text: Callable[[bytes, Kind, bytes], Cell]) -> Decoder:
    """The decoder for a field that is neither a memo nor of varying length.

    Args:
        field: The field.
        dialect: Whose rules hold (:data:`~validators.dbf.types.TYPES`); where it has no such type, every value is undecodable.
        text: As :func:`text_decoder` gives.
    """
    found = type_of(field, dialect)
    if found is None:
        letter = TYPES[dialect].get(field.type)
        kind, has_blank, why = kind_of(field, dialect), letter is None or letter.has_blank, why_unread(field, dialect)
        return lambda raw: undecodable(kind, raw, why, has_blank=has_blank)
    match found.form:
        case Form.TEXT if field.binary:
            return lambda raw: untranslated(raw.rstrip(PADDING), raw, Kind.TEXT)
        case Form.TEXT:
            return lambda raw: text(text_content(raw), Kind.TEXT, raw)
        case Form.DIGITS:
            return lambda raw: number(raw, field.decimals)
        case form:
            return _FIXED[form]


def text_content(raw: bytes) -> bytes:
    """The bytes of a ``C`` field that count: none where the first is a NUL, else all before the padding."""
    return b"" if raw[:1] == b"\0" else raw.rstrip(PADDING)


def digits_content(raw: bytes) -> bytes:
    """The bytes of an ``N`` or ``F`` field that count."""
    return raw.rstrip(PADDING).lstrip(b" ")


def number(raw: bytes, decimals: int) -> Cell:
    """An ``N`` or ``F`` field, exactly."""
    digits = digits_content(raw)
    if digits in (b"", b"."):
        return Cell(Kind.NUMBER, None, CellState.BLANK, raw)
    if not _NUMBER.fullmatch(digits):
        comma = _COMMA.fullmatch(digits)
        if not comma or len(comma[1]) != decimals:
            return undecodable(Kind.NUMBER, raw, "overflow" if digits.startswith(b"*") else "not a number")
        digits = digits.replace(b",", b".")
    value = Decimal(digits.decode("ascii"))
    return Cell(Kind.NUMBER, value if value else value.copy_abs(), CellState.VALUE, raw)


def _date(raw: bytes) -> Cell:
    if not raw.strip(PADDING) or raw == b"00000000":
        return Cell(Kind.DATE, None, CellState.BLANK, raw)
    if raw.isdigit():
        try:
            return Cell(Kind.DATE, date(int(raw[:4]), int(raw[4:6]), int(raw[6:])), CellState.VALUE, raw)
        except ValueError:
            pass
    return undecodable(Kind.DATE, raw, "not a date")


def _logical(raw: bytes) -> Cell:
    if raw in (b" ", b"?", b"\0"):
        return Cell(Kind.LOGICAL, None, CellState.BLANK, raw)
    if raw[0] in _TRUE or raw[0] in _FALSE:
        return Cell(Kind.LOGICAL, raw[0] in _TRUE, CellState.VALUE, raw)
    return undecodable(Kind.LOGICAL, raw, "not a logical value")


def _numeric(value: Decimal, raw: bytes) -> Cell:
    return Cell(Kind.NUMBER, value, CellState.VALUE, raw, has_blank=False)


def _nothing(kind: Kind, raw: bytes) -> Cell:
    return Cell(kind, None, CellState.BLANK, raw, has_blank=False)


def _integer(raw: bytes) -> Cell:
    return _numeric(Decimal(int.from_bytes(raw, "little", signed=True)), raw)


def _integer_big(raw: bytes) -> Cell:
    """Of dBASE 7: big-endian, sign bit turned over so that it sorts; all zero bytes mean that nothing was entered."""
    if not any(raw):
        return _nothing(Kind.NUMBER, raw)
    return _numeric(Decimal(int.from_bytes(raw, "big") - (1 << 31)), raw)


def _from_double(value: float, raw: bytes) -> Cell:
    if value - value != 0:  # infinite, or not a number
        return undecodable(Kind.NUMBER, raw, "not a finite number", has_blank=False)
    return _numeric(Decimal(repr(value)) if value else Decimal(0), raw)


def _double(raw: bytes) -> Cell:
    return _from_double(struct.unpack("<d", raw)[0], raw)


def _double_big(raw: bytes) -> Cell:
    """Of dBASE 7: big-endian; the sign bit of positive numbers is set, all bits of negative ones are turned over."""
    if not any(raw):
        return _nothing(Kind.NUMBER, raw)
    bits = int.from_bytes(raw, "big")
    bits = bits ^ _SIGN if bits & _SIGN else bits ^ ((1 << 64) - 1)
    return _from_double(struct.unpack(">d", bits.to_bytes(8, "big"))[0], raw)


def _currency(raw: bytes) -> Cell:
    return _numeric(Decimal(int.from_bytes(raw, "little", signed=True)).scaleb(-4), raw)


def _moment(ordinal: int, milliseconds: int, raw: bytes, *, step: int = 1) -> Cell:
    """A moment, rounded to a multiple of ``step`` milliseconds."""
    if 1 <= ordinal <= date.max.toordinal() and 0 <= milliseconds < _DAY_MS:
        rounded = (milliseconds + step // 2) // step * step
        with suppress(OverflowError):  # the last half second of the year 9999
            value = datetime.fromordinal(ordinal) + timedelta(milliseconds=rounded)
            return Cell(Kind.DATETIME, value, CellState.VALUE, raw, has_blank=False)
    return undecodable(Kind.DATETIME, raw, "not a moment", has_blank=False)


def _datetime(raw: bytes) -> Cell:
    """Visual FoxPro: Julian day number and milliseconds of the day, both little-endian; read to the whole second."""
    if not raw.strip(b"\0") or not raw.strip(b" "):
        return _nothing(Kind.DATETIME, raw)
    day, milliseconds = struct.unpack("<ii", raw)
    return _moment(day - _JULIAN_OF_ORDINAL_ZERO, milliseconds, raw, step=1000)


def _timestamp(raw: bytes) -> Cell:
    """Of dBASE 7: milliseconds since the day before 0001-01-01 as a big-endian double; the sign bit may be set."""
    if not any(raw):
        return _nothing(Kind.DATETIME, raw)
    bits = int.from_bytes(raw, "big") & (_SIGN - 1)
    value = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    if not 0 <= value < 4e14:
        return undecodable(Kind.DATETIME, raw, "not a moment", has_blank=False)
    ordinal, milliseconds = divmod(round(value), _DAY_MS)
    return _moment(ordinal, milliseconds, raw)


_FIXED: dict[Form, Decoder] = {
    Form.DAY: _date,
    Form.LOGICAL: _logical,
    Form.INTEGER: _integer,
    Form.DOUBLE: _double,
    Form.CURRENCY: _currency,
    Form.JULIAN: _datetime,
    Form.SORTED_INTEGER: _integer_big,
    Form.SORTED_DOUBLE: _double_big,
    Form.TIMESTAMP: _timestamp,
}
"""Forms that need nothing but the bytes."""
