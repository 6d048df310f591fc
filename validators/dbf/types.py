"""Which types a dialect of DBF has, and of what lengths: the one table that reading goes by.

The same letter means different things to different programs (``B`` is a number in Visual FoxPro and a memo in dBASE; ``I`` has another
byte order in dBASE 7), so a value is read by its own dialect's rules or not at all. What is not in the table, or of a length that is not
valid there, is undecodable whatever its bytes are, blanks too.

Sources: the dBASE II, III PLUS, IV, 5 and 7 file format descriptions; Microsoft's "Table File Structure" of FoxPro 2.x and Visual
FoxPro 9. Decisions where they are silent:

* Version 0x03 is dBASE III's, and also what dBASE IV, FoxPro 2 and Clipper write for a table without memos, so it has their ``F``.
* Pointers into the memo file of four bytes (Visual FoxPro) or ten digits (all others) are told apart by their length, as Harbour and X#
  do: tables of one version with pointers of the other kind exist. ``W`` is Visual FoxPro 9's alone and only ever had four bytes.
* Character and numeric fields may have any length: limits differ between programs of one dialect, and longer ones are read as well.
  Those of no bytes at all are blank.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from validators.changes import Kind
from validators.dbf.layout import Dialect, Field


class Form(StrEnum):
    """How the bytes of a field are to be read."""

    TEXT = "text padded with blanks"
    DIGITS = "a number in digits"
    DAY = "a date in eight digits"
    LOGICAL = "one letter"
    MEMO_TEXT = "a pointer to text in the memo file"
    MEMO_BYTES = "a pointer to bytes in the memo file"
    INTEGER = "a little-endian integer"
    DOUBLE = "a little-endian double"
    CURRENCY = "a little-endian integer of ten thousandths"
    JULIAN = "a Julian day and milliseconds"
    VARTEXT = "text whose length stands in its last byte"
    VARBYTES = "bytes whose length stands in their last byte"
    SORTED_INTEGER = "a big-endian integer that sorts by its bytes"
    SORTED_DOUBLE = "a big-endian double that sorts by its bytes"
    TIMESTAMP = "milliseconds as a big-endian double"


@dataclass(frozen=True, slots=True)
class FieldType:
    """One type of one dialect.

    Attributes:
        form: How its bytes are read.
        kind: The sort of value it holds.
        lengths: Bytes that a field of it may have.
        has_blank: Whether it has a blank of its own; if not, zero is what blank means.
    """

    form: Form
    kind: Kind
    lengths: Container[int]
    has_blank: bool = True

    @property
    def memo(self) -> bool:
        """Whether a field holds a pointer into the memo file."""
        return self.form in (Form.MEMO_TEXT, Form.MEMO_BYTES)

    @property
    def varying(self) -> bool:
        """Whether a bit of the hidden flags says that the field's last byte is a length."""
        return self.form in (Form.VARTEXT, Form.VARBYTES)


_ANY = range(1 << 16)
_POINTER = frozenset({4, 10})
_C = FieldType(Form.TEXT, Kind.TEXT, _ANY)
_N = FieldType(Form.DIGITS, Kind.NUMBER, _ANY)
_D = FieldType(Form.DAY, Kind.DATE, frozenset({8}))
_L = FieldType(Form.LOGICAL, Kind.LOGICAL, frozenset({1}))
_M = FieldType(Form.MEMO_TEXT, Kind.VARTEXT, _POINTER)
_OBJECT = FieldType(Form.MEMO_BYTES, Kind.BINARY, _POINTER)


def _stored(form: Form, kind: Kind, length: int) -> FieldType:
    """A type that is stored as a program holds it in memory, and so has no blank of its own."""
    return FieldType(form, kind, frozenset({length}), has_blank=False)


_PLAIN = {"C": _C, "N": _N, "L": _L}
_DBASE3 = {**_PLAIN, "D": _D, "F": _N, "M": _M}
_DBASE4 = {**_DBASE3, "B": _OBJECT, "G": _OBJECT}
_FOXPRO = {**_DBASE3, "G": _OBJECT, "P": _OBJECT}
TYPES: Mapping[Dialect, Mapping[str, FieldType]] = MappingProxyType(
    {
        Dialect.DBASE2: _PLAIN,
        Dialect.DBASE3: _DBASE3,
        Dialect.DBASE4: _DBASE4,
        Dialect.DBASE7: {
            **_DBASE4,
            "I": _stored(Form.SORTED_INTEGER, Kind.NUMBER, 4),
            "+": _stored(Form.SORTED_INTEGER, Kind.NUMBER, 4),
            "O": _stored(Form.SORTED_DOUBLE, Kind.NUMBER, 8),
            "@": _stored(Form.TIMESTAMP, Kind.DATETIME, 8),
        },
        Dialect.FOXPRO: _FOXPRO,
        Dialect.VFP: {
            **_FOXPRO,
            "I": _stored(Form.INTEGER, Kind.NUMBER, 4),
            "B": _stored(Form.DOUBLE, Kind.NUMBER, 8),
            "Y": _stored(Form.CURRENCY, Kind.NUMBER, 8),
            "T": _stored(Form.JULIAN, Kind.DATETIME, 8),
            "V": FieldType(Form.VARTEXT, Kind.VARTEXT, _ANY),
            "Q": FieldType(Form.VARBYTES, Kind.BINARY, _ANY),
            "W": FieldType(Form.MEMO_BYTES, Kind.BINARY, frozenset({4})),
        },
    }
)
"""Letter to type, for every dialect."""


def type_of(field: Field, dialect: Dialect) -> FieldType | None:
    """The type of a field, or ``None`` where the dialect has no such type, or none of that length."""
    found = TYPES[dialect].get(field.type)
    return found if found is not None and field.length in found.lengths else None


def kind_of(field: Field, dialect: Dialect) -> Kind:
    """The sort of value a field holds; of a field that cannot be read, what its letter stands for, or bytes."""
    found = TYPES[dialect].get(field.type)
    return found.kind if found is not None else Kind.BINARY


def why_unread(field: Field, dialect: Dialect) -> str:
    """Why a field cannot be read, in words."""
    if field.type in TYPES[dialect]:
        return f"{field.type} of length {field.length}, which {dialect} does not have"
    return f"type {field.type!r}, which {dialect} does not have"
