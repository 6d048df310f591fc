"""From the bytes of one field to a :class:`~validators.changes.Cell`. No bytes raise: what is no value is *undecodable*.

Decisions where formats are silent, or programs disagree:

* Blanks and zero bytes pad alike in ``C``, ``N``, ``F`` and ``D``; a field of padding only is blank, so is the date
  ``00000000`` (its bytes stay in ``raw``, and going from one to the other is a format-only difference).
* A number of which only the point stands there is blank (dBASE II fills an empty field so).
* ``N`` and ``F``: digits with sign, point and an exponent of at most three digits, as FoxPro writes when a number does not
  fit otherwise. A decimal comma counts where exactly the field's decimals follow it (else it may separate thousands).
  ``***`` is the overflow mark: undecodable, and so different from blank.
* Times of a day past 23:59:59.999 and day 0 with a time are undecodable, never moved to another day.
* Text whose code page is unknown is undecodable as soon as it goes beyond ASCII.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal

from validators.changes import Cell, CellState, Kind
from validators.dbf.codepages import Encoding
from validators.dbf.layout import Dialect, Field

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


def memo_field(field: Field, dialect: Dialect) -> bool:
    """Whether the field holds a pointer into the memo file; ``B`` is a memo in dBASE and a number in Visual FoxPro."""
    if field.type in "MGPW":
        return True
    return field.type == "B" and dialect is not Dialect.VFP and field.length != 8


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


def kind_of(field: Field, dialect: Dialect) -> Kind:
    """The sort of value a field holds."""
    if field.type == "B":
        return Kind.BINARY if memo_field(field, dialect) else Kind.NUMBER
    kinds = {
        "C": Kind.TEXT, "V": Kind.VARTEXT, "M": Kind.VARTEXT, "N": Kind.NUMBER, "F": Kind.NUMBER, "I": Kind.NUMBER,
        "+": Kind.NUMBER, "O": Kind.NUMBER, "Y": Kind.NUMBER, "D": Kind.DATE, "T": Kind.DATETIME, "@": Kind.DATETIME,
        "L": Kind.LOGICAL,
    }  # fmt: skip
    return kinds.get(field.type, Kind.BINARY)


def decoder(field: Field, dialect: Dialect, text: Callable[[bytes, Kind, bytes], Cell]) -> Decoder:
    """The decoder for a field that is neither a memo nor of varying length.

    Args:
        field: The field.
        dialect: Whose rules hold: dBASE 7 stores numbers in the other byte order.
        text: As :func:`text_decoder` gives.
    """
    big = dialect is Dialect.DBASE7
    if field.type == "C":
        if field.binary:
            return lambda raw: untranslated(raw.rstrip(PADDING), raw, Kind.TEXT)
        return lambda raw: text(raw.rstrip(PADDING), Kind.TEXT, raw)
    if field.type in "NF":
        return lambda raw: number(raw, field.decimals)
    fixed: dict[str, tuple[int, Decoder]] = {
        "I": (4, _integer_big if big else _integer),
        "+": (4, _integer_big if big else _integer),
        "B": (8, _double),
        "O": (8, _double_big if big else _double),
        "Y": (8, _currency),
        "T": (8, _datetime),
        "@": (8, _timestamp if big else _datetime),
        "D": (8, _date),
        "L": (1, _logical),
    }
    if field.type in fixed:
        length, decode = fixed[field.type]
        if field.length == length:
            return decode
        kind, blank = kind_of(field, dialect), field.type in "DL"
        return lambda raw: undecodable(kind, raw, f"{field.type} of length {len(raw)}", has_blank=blank)
    return _unknown


def number(raw: bytes, decimals: int) -> Cell:
    """An ``N`` or ``F`` field, exactly."""
    digits = raw.strip(PADDING)
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
    if raw in (b" ", b"?"):
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


def _moment(ordinal: int, milliseconds: int, raw: bytes) -> Cell:
    if 1 <= ordinal <= date.max.toordinal() and 0 <= milliseconds < _DAY_MS:
        value = datetime.fromordinal(ordinal) + timedelta(milliseconds=milliseconds)
        return Cell(Kind.DATETIME, value, CellState.VALUE, raw, has_blank=False)
    return undecodable(Kind.DATETIME, raw, "not a moment", has_blank=False)


def _datetime(raw: bytes) -> Cell:
    """Visual FoxPro: Julian day number and milliseconds of the day, both little-endian."""
    if not raw.strip(b"\0") or not raw.strip(b" "):
        return _nothing(Kind.DATETIME, raw)
    day, milliseconds = struct.unpack("<ii", raw)
    return _moment(day - _JULIAN_OF_ORDINAL_ZERO, milliseconds, raw)


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


def _unknown(raw: bytes) -> Cell:
    if not raw.strip(PADDING):
        return Cell(Kind.BINARY, None, CellState.BLANK, raw)
    return Cell(Kind.BINARY, raw, CellState.VALUE, raw)
