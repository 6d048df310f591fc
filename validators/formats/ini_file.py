"""One value of an INI file, as Windows' ``GetPrivateProfileString`` reads it.

The rules are those that Wine's function was seen to follow, and the tests ask it:

* Lines end with CR, LF or both. Blanks around a line, a name and a value do not count; blanks are the six of ASCII and Ctrl+Z, the end mark
  of DOS (``contracts.places.INI_BLANKS``). A no-break space is a character like others.
* A line that begins with ``[`` and has a ``]`` is a section's header: the name lies between the first and the *last* bracket. What stands
  before the first header belongs to the section without a name.
* Of sections of one name only the first is looked at, of keys of one name in it only the first, even when it stands without ``=``: then
  the key has no value, whatever follows.
* A name and a value end at a NUL.
* One pair of equal quotes, single or double, around a value is not part of it.
* Names are equal whatever their case.

Where Wine and Windows differ:

* Wine folds the case of ASCII letters only, Windows that of all letters; here it is Windows' way.
* Windows does not know the mark of UTF-8 and takes it for three characters, Wine and many programs skip it; here it is skipped.
* Without a mark both read the machine's ANSI code page; here a contract declares it, and UTF-8 is the default.
* Windows maps some files' sections to the registry (``IniFileMapping``); this is what stands in the file.
"""

from __future__ import annotations

import codecs

from contracts.places import INI_BLANKS, ini_place
from contracts.schema import IniAt
from validators.formats.text import Absent, decoded, named
from validators.registry import folded_name
from validators.values import shown


def ini_value(place: IniAt, content: bytes) -> str:
    """The value at a place.

    Raises:
        Absent: There is no such section, key or value.
        ContractFault: The declared encoding does not exist.
    """
    section, key = ini_place(place.ini)
    # The profile functions know no UTF-32: its mark in little-endian is that of UTF-16 before a NUL.
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = decoded(content, place.encoding or ("utf-16" if marked else None))
    keys = _first_section(text, folded_name(section))
    if keys is None:
        raise Absent(f"there is no section [{shown(section, 60)}]")
    wanted = folded_name(key)
    found = next((pair for pair in keys if folded_name(pair[0]) == wanted), None)
    if found is None:
        names = (name for name, _ in keys if name and not name.startswith(";"))
        raise Absent(f"[{shown(section, 60)}] has no key {shown(key, 60)}{named(names)}")
    _, value = found
    if value is None:
        raise Absent(f"[{shown(section, 60)}] has the key {shown(key, 60)} without `=`, so that it has no value")
    return _unquoted(value)


def _first_section(text: str, wanted: str) -> list[tuple[str, str | None]] | None:
    """Names and values, in order, of the first section of a name; ``None`` where there is none."""
    keys: list[tuple[str, str | None]] | None = None if wanted else []
    for line in text.replace("\r", "\n").split("\n"):
        line = line.strip(INI_BLANKS)  # noqa: PLW2901 - what stands on it
        if line.startswith("[") and "]" in line:
            if keys is not None:
                break
            keys = [] if folded_name(_name(line[1 : line.rindex("]")])) == wanted else None
        elif line and keys is not None:
            name, equals, value = line.partition("=")
            keys.append((_name(name), value.strip(INI_BLANKS).partition("\0")[0] if equals else None))
    return keys


def _name(text: str) -> str:
    return text.strip(INI_BLANKS).partition("\0")[0]


def _unquoted(value: str) -> str:
    quoted = len(value) >= len("''") and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value
