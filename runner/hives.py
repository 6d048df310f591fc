r"""Reading the registry offline, from the hive files of a machine that is off (format ``regf``), with python-registry.

A hive is named by what it holds: ``HKLM\SOFTWARE`` lies in ``SOFTWARE``, ``HKCU`` in the user's ``NTUSER.DAT``
(:func:`place_of` tells the file and the key in it). The format is that of M. Suhanov, "Windows registry file format
specification". python-registry reads headers and records; which of them may be followed is decided here, since a hive comes
from a machine that an agent had in its hands: every cell lies within the file, belongs to one record only and is large enough for
what it is said to hold. Whatever does not add up is :class:`Unreadable`, never a shorter result.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from validators.changes import Unreadable
from validators.registry import KeyItem, RegistryState, ValueItem, folded_name

_BASE = 0x1000
"""Size of the header block; cells are told by their distance from its end."""
_MAX_DEPTH = 512
"""The deepest tree that Windows makes ("Registry element size limits")."""
_MAX_PATH = 32_767
_MAX_PATHS = 256 << 20
"""Characters of all paths together; a small hive with long names in deep trees would fill the memory otherwise."""
_SEGMENT = 16_344
"""Bytes of a large value in one of its cells."""
_INLINE = 0x8000_0000
"""Set in a value's length when the data stand in place of their offset."""
_NONE = 0xFFFF_FFFF
_VOLATILE, _LINK, _NAME_IS_LATIN = 0x0001, 0x0010, 0x0020
_PERFLIB = r"\WINDOWS NT\CURRENTVERSION\PERFLIB"
_CONFIG = "Windows\\System32\\config\\"
_MACHINE = frozenset({"SOFTWARE", "SYSTEM", "SAM", "SECURITY", "COMPONENTS"})
_USERS = {
    ".DEFAULT": f"{_CONFIG}DEFAULT",
    "S-1-5-18": f"{_CONFIG}DEFAULT",
    "S-1-5-19": r"Windows\ServiceProfiles\LocalService\NTUSER.DAT",
    "S-1-5-20": r"Windows\ServiceProfiles\NetworkService\NTUSER.DAT",
}
_SHARED = ("MICROSOFT", "CLASSES", "POLICIES", "CLIENTS", "REGISTEREDAPPLICATIONS")
"""Parts of ``HKLM\\SOFTWARE`` of which 32-bit and 64-bit programs share some keys ("Registry keys affected by WOW64")."""
_WHICH_SHARED = "which of its keys 32-bit and 64-bit programs share differs; observe the 64-bit view"


@dataclass(frozen=True, slots=True)
class HivePlace:
    r"""Where a key lies on a disk.

    Attributes:
        file: The hive's file; below the system's drive, or (``NTUSER.DAT``, ``UsrClass.dat``) of the user's profile.
        key: The key within the hive; empty for all of it.
        control_set: The key lies below ``CurrentControlSet``, which the hive's ``Select`` tells.
    """

    file: str
    key: str
    control_set: bool = False


def place_of(root: str, view: Literal[32, 64] | None = None) -> HivePlace:
    r"""Where an observed key lies on the disk of a 64-bit system.

    Args:
        root: Its full name, such as ``HKLM\SOFTWARE\DSWin``, with the root's short name.
        view: As ``view`` of the observable.

    Raises:
        Unreadable: It lies in no hive, or in several; the message says which to observe instead.
    """
    short, *names = root.split("\\")
    folded = [folded_name(name) for name in names]
    match short, folded:
        case ("HKLM", ["SOFTWARE"]) | ("HKCU", ["SOFTWARE", "CLASSES", *_]) if view == 32:
            raise Unreadable(f"{root}: {_WHICH_SHARED}")
        case "HKCU", ["SOFTWARE", "CLASSES", *_]:
            return HivePlace(r"AppData\Local\Microsoft\Windows\UsrClass.dat", "\\".join(names[2:]))
        case "HKCU", _:
            return HivePlace("NTUSER.DAT", "\\".join(names))
        case "HKU", [user, *_] if user in _USERS:
            return HivePlace(_USERS[user], "\\".join(names[1:]))
        case "HKU", [user, *_] if user.endswith("_CLASSES"):
            return HivePlace(r"AppData\Local\Microsoft\Windows\UsrClass.dat", "\\".join(names[1:]))
        case "HKU", [_, *_]:
            return place_of("\\".join(["HKCU", *names[1:]]), view)
        case "HKLM", ["SYSTEM", "CURRENTCONTROLSET", *_]:
            return HivePlace(f"{_CONFIG}SYSTEM", "\\".join(names[2:]), control_set=True)
        case "HKLM", ["SOFTWARE", vendor, *_] if view == 32:
            if vendor in _SHARED:
                raise Unreadable(f"{root}: {_WHICH_SHARED}")
            return HivePlace(f"{_CONFIG}SOFTWARE", "\\".join(["WOW6432Node", *names[1:]]))
        case "HKLM", [hive, *_] if hive in _MACHINE:
            return HivePlace(_CONFIG + hive, "\\".join(names[1:]))
        case "HKCC", _:
            key = "\\".join(["Hardware Profiles", "Current", *names])
            raise Unreadable(f"{root} is a link: observe HKLM\\SYSTEM\\CurrentControlSet\\{key}")
        case "HKCR", _:
            raise Unreadable(
                f"{root} is merged from two hives: observe HKLM\\SOFTWARE\\Classes or HKCU\\Software\\Classes"
            )
        case _:
            raise Unreadable(
                f"{root} lies in no hive, or in several; observe a key such as HKLM\\SOFTWARE\\… or HKCU\\…"
            )


def read_hive(data: bytes, root: str, *, view: Literal[32, 64] | None = None) -> RegistryState:
    r"""Reads a key and everything below it from the hive that holds it.

    Args:
        data: The whole hive file.
        root: The observed key's full name, as in the contract; :func:`place_of` tells which file holds it.
        view: As ``view`` of the observable.

    Returns:
        What the probe tells of the same key on the running machine, except for keys that are kept in memory only.

    Raises:
        Unreadable: The hive is no hive, cut, damaged, of an unknown version or was not written out whole; the key lies in no
            single hive; or python-registry (extra ``registry``) is not installed.
    """
    place = place_of(root, view)
    try:
        from Registry import RegistryParse  # noqa: PLC0415 - an extra: only who reads hives needs it
    except ImportError:
        raise Unreadable("reading hives needs python-registry: install legacyproof[registry]") from None
    try:
        return _Hive(data, RegistryParse).read(place, root)
    except (RegistryParse.RegistryException, struct.error, ValueError, OverflowError) as error:
        raise Unreadable(f"{root}: the hive is damaged: {error}") from None


class _Hive:
    """One hive. Cells are told by their place in the file."""

    def __init__(self, data: bytes, library: Any) -> None:
        self._data = data
        self._library = library
        self._used: set[int] = set()
        """Cells of the keys and values read so far: in a sound hive one way leads to each."""
        self._left = len(data)
        """How many bytes names and data may still take: in a sound hive they do not share any."""
        if len(data) < _BASE:
            raise Unreadable(f"no hive: it holds {len(data)} bytes, less than a header")
        self._header = header = library.REGFBlock(data, 0, None)
        if header.calculate_checksum() != header.checksum():
            raise Unreadable("the hive's header is damaged: its checksum is wrong")
        if not header.validate_sequence_numbers():
            raise Unreadable(
                "the hive was not written out whole, and its transaction logs (.LOG1, .LOG2) are not applied: shut the "
                "machine down cleanly, or read the registry while it runs"
            )
        if not header.is_primary_file() or header.major_version() != 1 or not 3 <= header.minor_version() <= 6:
            raise Unreadable(f"no hive of a known version: {header.major_version()}.{header.minor_version()}")
        self._end = _BASE + header.hbins_size()
        if self._end > len(data):
            raise Unreadable(f"the hive is cut: {len(data)} bytes of {self._end}")
        self._first = library.HBINBlock(data, _BASE, header)
        self._has_segments = header.minor_version() > 3

    def read(self, place: HivePlace, root: str) -> RegistryState:
        """The state of a key."""
        top = self._key(self._header.unpack_dword(0x24))
        names = [name for name in place.key.split("\\") if name]
        if place.control_set:
            names = [self._control_set(top), *names]
        key = self._descend(top, names)
        if key is None:
            return RegistryState(exists=False)
        return self._tree(key, root)

    # --- finding ---

    def _descend(self, key: Any, names: list[str]) -> Any | None:
        for name in names:
            wanted = folded_name(name)
            found = [child for child in self._children(key) if folded_name(self._key_name(child)) == wanted]
            if len(found) > 1:
                raise ValueError(f"two keys are named {name!r}")
            if not found:
                return None
            key = found[0]
            if key.unpack_word(0x2) & _LINK:
                raise Unreadable(f"{name} is a link to another key: observe that one")
        self._used.clear()  # what was passed on the way may come again
        self._left = len(self._data)
        return key

    def _control_set(self, top: Any) -> str:
        select = self._descend(top, ["Select"])
        current = (
            next((v for v in self._values(select, "") if folded_name(v.name) == "CURRENT"), None) if select else None
        )
        if current is None or current.type != 4 or len(current.data) != 4:
            raise ValueError("Select does not tell the current control set")
        return f"ControlSet{int.from_bytes(current.data, 'little'):03d}"

    # --- walking ---

    def _tree(self, top: Any, root: str) -> RegistryState:
        keys: list[KeyItem] = []
        values: list[ValueItem] = []
        skipped: list[tuple[str, str]] = []
        pending = [(top, "", 0)]
        in_paths = 0
        self._take(top)
        while pending:
            key, path, depth = pending.pop()
            if depth > _MAX_DEPTH:
                raise ValueError(f"keys lie more than {_MAX_DEPTH} deep")
            flags = key.unpack_word(0x2)
            keys.append(KeyItem(path, key.unpack_qword(0x4), bool(flags & _VOLATILE)))
            values += self._values(key, path)
            seen: set[str] = set()
            below = []
            for child in self._children(key) if not flags & _LINK else ():
                name = self._key_name(child)
                if name in seen:
                    raise ValueError(f"two keys are named {name!r}")
                seen.add(name)
                inside = f"{path}\\{name}" if path else name
                in_paths += len(inside)
                if len(inside) > _MAX_PATH or in_paths > _MAX_PATHS:
                    raise ValueError("the paths of its keys are too long")
                if folded_name(f"{root}\\{inside}").endswith(_PERFLIB):  # as the probe does
                    skipped.append((inside, "performance counters, made up at each reading"))
                else:
                    below.append((child, inside, depth + 1))
            pending += reversed(below)
        return RegistryState(True, tuple(keys), tuple(values), tuple(skipped))

    def _take(self, record: Any) -> None:
        """Notes that a record was reached; a second way to it is a circle, or makes more of a hive than it holds."""
        if record.offset() in self._used:
            raise ValueError(f"two ways lead to the cell at {record.offset():#x}")
        self._used.add(record.offset())

    def _children(self, key: Any) -> Iterator[Any]:
        count = found = key.subkey_number()
        for offset in self._listed(key.unpack_dword(0x1C)) if count else ():
            child = self._key(offset)
            self._take(child)
            found -= 1
            yield child
        if found:
            raise ValueError(f"the lists of a key do not hold the {count} keys that it counts")

    def _listed(self, offset: int) -> Iterator[int]:
        """Offsets of keys in a list, or in the lists of an index root; those hold no further index roots."""
        kind, start, count = self._list(offset)
        if kind != b"ri":
            yield from self._entries(kind, start, count)
            return
        taken = set()
        for part in self._entries(b"li", start, count):
            kind, start, length = self._list(part)
            if kind == b"ri" or part in taken:
                raise ValueError("lists of keys lead in a circle")
            taken.add(part)
            yield from self._entries(kind, start, length)

    def _list(self, offset: int) -> tuple[bytes, int, int]:
        start, room = self._cell(offset, 4)
        kind, count = struct.unpack_from("<2sH", self._data, start)
        width = {b"lf": 8, b"lh": 8, b"li": 4, b"ri": 4}.get(kind)
        if width is None or 4 + width * count > room:
            raise ValueError(f"no list of keys at {start:#x}")
        return kind, start + 4, count

    def _entries(self, kind: bytes, start: int, count: int) -> Iterator[int]:
        step = 8 if kind in (b"lf", b"lh") else 4
        for place in range(start, start + step * count, step):
            yield struct.unpack_from("<I", self._data, place)[0]

    def _values(self, key: Any, path: str) -> Iterator[ValueItem]:
        count = key.values_number()
        if not count:
            return
        start, room = self._cell(key.unpack_dword(0x28), 0)
        if 4 * count > room:
            raise ValueError(f"{count} values do not fit into the list at {start:#x}")
        seen: set[str] = set()
        for (offset,) in struct.iter_unpack("<I", self._data[start : start + 4 * count]):
            place, room = self._cell(offset, 0x14)
            value = self._library.VKRecord(self._data, place, self._first)
            self._take(value)
            size = value.unpack_word(0x2)
            if 0x14 + size > room:
                raise ValueError(f"the name of the value at {place:#x} does not fit into its cell")
            name = _name(self._bytes(place + 0x14, size), is_latin=value.has_ascii_name())
            if name in seen:
                raise ValueError(f"two values are named {name!r}")
            seen.add(name)
            # python-registry's raw_data() takes some types' lengths for granted and cuts short data otherwise.
            yield ValueItem(path, name, value.unpack_dword(0xC), self._value_data(value))

    def _value_data(self, value: Any) -> bytes:
        length, where = value.unpack_dword(0x4), value.unpack_dword(0x8)
        if length & _INLINE:
            length -= _INLINE
            if length > 4:
                raise ValueError(f"{length} bytes of data in the place of four")
            return bytes(value.unpack_binary(0x8, length))
        if not length:
            return b""
        if length > self._end:
            raise ValueError(f"a value of {length} bytes in a hive of {self._end}")
        if self._has_segments and length > _SEGMENT:
            return self._large(where, length)
        return self._held(where, length)

    def _large(self, offset: int, length: int) -> bytes:
        start, _ = self._cell(offset, 8)
        record = self._library.DBRecord(self._data, start, self._first)
        count = record.unpack_word(0x2)
        if count != -(-length // _SEGMENT):
            raise ValueError(f"{length} bytes of data in {count} pieces")
        places, _ = self._cell(record.unpack_dword(0x4), 4 * count)
        parts = []
        for (part,) in struct.iter_unpack("<I", self._data[places : places + 4 * count]):
            parts.append(self._held(part, min(_SEGMENT, length)))
            length -= len(parts[-1])
        return b"".join(parts)

    def _held(self, offset: int, length: int) -> bytes:
        """The first bytes that a cell holds."""
        start, _ = self._cell(offset, length)
        return self._bytes(start, length)

    def _bytes(self, start: int, length: int) -> bytes:
        self._left -= length
        if self._left < 0:
            raise ValueError("its names and values are larger than the hive")
        return self._data[start : start + length]

    # --- cells ---

    def _key(self, offset: int) -> Any:
        start, room = self._cell(offset, 0x4C)
        key = self._library.NKRecord(self._data, start, self._first)
        if 0x4C + key.unpack_word(0x48) > room:
            raise ValueError(f"the name of the key at {start:#x} does not fit into its cell")
        return key

    def _key_name(self, key: Any) -> str:
        data = self._bytes(key.offset() + 0x4C, key.unpack_word(0x48))
        name = _name(data, is_latin=bool(key.unpack_word(0x2) & _NAME_IS_LATIN))
        if not name or "\\" in name:
            raise ValueError(f"{name!r} is no name of a key")
        return name

    def _cell(self, offset: int, least: int) -> tuple[int, int]:
        """Begin and size of a cell's content; the cell is in use, within the hive and holds at least ``least`` bytes."""
        if offset == _NONE or offset % 8 or offset < 0x20 or _BASE + offset + 4 > self._end:
            raise ValueError(f"{offset:#x} is no place of a cell")
        cell = self._library.HBINCell(self._data, _BASE + offset, self._first)
        size = cell.size()
        if cell.is_free() or size < 8 or _BASE + offset + size > self._end:
            raise ValueError(f"the cell at {offset:#x} is free, or reaches beyond the hive")
        if size - 4 < least:
            raise ValueError(f"the cell at {offset:#x} holds {size - 4} bytes, and {least} are needed")
        return cell.data_offset(), size - 4


def _name(data: bytes, *, is_latin: bool) -> str:
    # "Compressed" names hold the low byte of each UTF-16 unit: Latin-1, not the code page 1252.
    return data.decode("latin-1") if is_latin else data.decode("utf-16-le", "surrogatepass")
