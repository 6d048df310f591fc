"""Which characters the bytes of a table stand for: language-driver bytes, and two code pages Python does not know.

Sources: the language-driver list of the dBASE and Visual FoxPro documentation (byte 29 of the header); dBASE 7 names its
driver in the header instead (``DB437US0``). Kamenicky (KEYBCS2, Czech and Slovak DOS programs) and Mazovia (Polish DOS
programs) are code page 437 with letters replaced.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

from validators.changes import ContractFault

LANGUAGE_DRIVERS: dict[int, str] = {
    **dict.fromkeys((0x01, 0x09, 0x0B, 0x0D, 0x0F, 0x11, 0x15, 0x18, 0x19, 0x1B), "cp437"),
    **dict.fromkeys((0x02, 0x0A, 0x0E, 0x10, 0x12, 0x14, 0x16, 0x1A, 0x1D, 0x25, 0x37), "cp850"),
    **dict.fromkeys((0x03, 0x57, 0x58, 0x59), "cp1252"),
    **dict.fromkeys((0x08, 0x17, 0x66), "cp865"),
    **dict.fromkeys((0x1F, 0x22, 0x23, 0x40, 0x64, 0x87), "cp852"),
    **dict.fromkeys((0x13, 0x7B), "cp932"),
    **dict.fromkeys((0x1C, 0x6C), "cp863"),
    **dict.fromkeys((0x26, 0x65), "cp866"),
    **dict.fromkeys((0x4D, 0x7A), "cp936"),
    **dict.fromkeys((0x4E, 0x79), "cp949"),
    **dict.fromkeys((0x4F, 0x78), "cp950"),
    **dict.fromkeys((0x50, 0x7C), "cp874"),
    **dict.fromkeys((0x6A, 0x86), "cp737"),
    **dict.fromkeys((0x6B, 0x88), "cp857"),
    0x04: "mac_roman", 0x24: "cp860", 0x67: "cp861", 0x68: "kamenicky", 0x69: "mazovia", 0x7D: "cp1255", 0x7E: "cp1256",
    0x96: "mac_cyrillic", 0x97: "mac_latin2", 0x98: "mac_greek", 0xC8: "cp1250", 0xC9: "cp1251", 0xCA: "cp1254",
    0xCB: "cp1253", 0xCC: "cp1257", 0xF0: "utf-8",
}  # fmt: skip
"""Language-driver byte (header offset 29) to the encoding's name; a byte that is missing here says nothing."""

_CP437_TAIL = bytes(range(0xB0, 0x100)).decode("cp437")
_ASCII = bytes(range(0x80)).decode("ascii")
_KAMENICKY = _ASCII + "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼§«»" + _CP437_TAIL
_MAZOVIA_LETTERS = {
    0x86: "ą", 0x8D: "ć", 0x8F: "Ą", 0x90: "Ę", 0x91: "ę", 0x92: "ł", 0x95: "Ć", 0x98: "Ś", 0x9C: "Ł", 0x9E: "ś",
    0xA0: "Ź", 0xA1: "Ż", 0xA3: "Ó", 0xA4: "ń", 0xA5: "Ń", 0xA6: "ź", 0xA7: "ż",
}  # fmt: skip
_MAZOVIA = "".join(_MAZOVIA_LETTERS.get(byte, bytes([byte]).decode("cp437")) for byte in range(0x100))
_OWN = {"kamenicky": _KAMENICKY, "mazovia": _MAZOVIA}
_ALIASES = {"keybcs2": "kamenicky", "cp895": "kamenicky", "cp620": "mazovia", "cp667": "mazovia"}


@dataclass(frozen=True, slots=True)
class Encoding:
    """A way to turn bytes into text.

    Attributes:
        name: Normalised name, for comparing two encodings and for people.
        decode: Bytes to text; raises :class:`UnicodeError` for bytes that are no text of it.
        single_byte: Whether every character is one byte, so that equal texts have equal bytes.
    """

    name: str
    decode: Callable[[bytes], str]
    single_byte: bool


def _codec(name: str) -> Callable[[bytes], str]:
    def decode(raw: bytes) -> str:
        return raw.decode(name)

    return decode


def _table(table: str) -> Callable[[bytes], str]:
    def decode(raw: bytes) -> str:
        return codecs.charmap_decode(raw, "strict", table)[0]

    return decode


def _length(raw: bytes, name: str) -> int | None:
    try:
        return len(raw.decode(name))
    except UnicodeError:
        return None


def _is_single_byte(name: str) -> bool:
    high = range(0x80, 0x100)
    pairs = (_length(bytes([byte, byte]), name) for byte in high)
    return name == "ascii" or (
        all(length in (2, None) for length in pairs) and any(_length(bytes([byte]), name) == 1 for byte in high)
    )


ASCII = Encoding("ascii", _codec("ascii"), True)
"""What is used when nothing tells the encoding: everything beyond ASCII stays undecodable."""


def encoding(name: str) -> Encoding:
    """The encoding of that name: a Python codec, ``kamenicky`` or ``mazovia``.

    Raises:
        ContractFault: There is no such text encoding.
    """
    plain = name.strip().lower().replace("-", "_")
    plain = _ALIASES.get(plain, plain)
    if plain in _OWN:
        return Encoding(plain, _table(_OWN[plain]), True)
    try:
        info = codecs.lookup(name.strip())
        "".encode(info.name).decode(info.name)
    except (LookupError, ValueError, TypeError):
        raise ContractFault(
            f"encoding {name!r} is not known: use a Python codec's name such as cp850, or kamenicky, or mazovia"
        ) from None
    return Encoding(info.name, _codec(info.name), _is_single_byte(info.name))


def header_encoding(language_driver: int, driver_name: bytes = b"") -> Encoding | None:
    """The encoding that a header tells, or ``None`` when it tells none.

    Args:
        language_driver: Byte 29 of the header.
        driver_name: dBASE 7 only: the language driver's name, e.g. ``DB437US0`` or ``DBWINWE0``.
    """
    name = LANGUAGE_DRIVERS.get(language_driver)
    if name is None:
        driver = driver_name.split(b"\0")[0].decode("ascii", "replace").upper()
        if number := re.match(r"DB(\d{3,4})", driver):
            name = f"cp{number[1]}"
        elif driver.startswith("DBWIN") and driver[5:7] in ("US", "WE", "ES"):
            name = "cp1252"
    if name is None:
        return None
    try:
        return encoding(name)
    except ContractFault:
        return None
