r"""Wine's registry as it lies in text files, ``system.reg``, ``user.reg`` and ``userdef.reg``: what changed in it, and when.

The format is that of ``server/registry.c`` in Wine: a section for each key that has values or no subkeys, with the time when the
key was written last; volatile keys are never saved. The server writes the files when it ends, and else every half minute, so only
after its end do they hold the registry whole.

Most of it is the same text before and after, and only sections that differ are taken apart.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from runner.changed_keys import KeyChange, changed_values
from runner.guests.base import Unreadable

FILES = {"system.reg": "HKLM", "user.reg": "HKCU", "userdef.reg": r"HKU\.Default"}
"""The files in a Wine drive, and the key that each holds."""
MAX_HIVE = 256 << 20
"""The largest of them that is read, in bytes."""
_HEADER = "WINE REGISTRY Version 2\n"
_SECTION = re.compile(r"(?P<path>(?:[^\\\]]|\\.)*)\](?: \d+)?(?:\n(?P<body>.*))?", re.DOTALL)
_VALUE = re.compile(r'(?:@|"(?P<name>(?:[^"\\]|\\.)*)")=(?P<data>.*)', re.DOTALL)
_TIME = re.compile(r"#time=([0-9a-f]{1,16})")
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{1,4})|([0-7]{1,3})|(.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CONTINUED = re.compile(r"\\\n +")


@dataclass(frozen=True, slots=True)
class _Section:
    time: int
    """FILETIME of the last writing; 0 where it is not told."""
    values: dict[str, object]
    """What stands behind each name's equals sign."""


def changed_keys(before: bytes, after: bytes, root: str, *, since: int) -> Iterator[KeyChange]:
    r"""The keys of a hive that changed after a moment.

    A key whose time is earlier was changed before that moment, and is left out. Times of deleted keys, and of keys that have only
    subkeys, are not kept: they are told whenever it was, unless the key that held them is older.

    Args:
        before: The hive's file as it was at the checkpoint.
        after: The file now, of a server that has ended.
        root: The key that it holds.
        since: The moment, in 100 ns since 1601-01-01 UTC.

    Raises:
        Unreadable: One of them is no such file, or is cut.
    """
    old, new = _Hive.of(before, root), _Hive.of(after, root)
    was, now = old.differing(new), new.differing(old)
    for path in sorted(was.keys() | now.keys()):
        older, newer = was.get(path), now.get(path)
        if newer is not None and newer.time and newer.time < since:
            continue
        values = changed_values(older.values if older else {}, newer.values if newer else {})
        full = f"{root}\\{_plain(path)}"
        if older is None and not old.has_below(path):
            yield KeyChange(full, "created", values)
        elif newer is None and not new.has_below(path):
            if (
                not 0 < new.time_of(path.rpartition("\\\\")[0]) < since
            ):  # deleting sets the time of the key that held it
                yield KeyChange(full, "deleted", values)
        elif values:
            yield KeyChange(full, "modified", values)


@dataclass(frozen=True, slots=True)
class _Hive:
    """A file as the texts of its sections, sorted."""

    root: str
    sections: list[str]

    @classmethod
    def of(cls, data: bytes, root: str) -> _Hive:
        try:
            text = data.decode("ascii")
        except UnicodeDecodeError:
            raise Unreadable(f"the registry file of {root} is none of Wine's: it is not ASCII") from None
        if not text.startswith(_HEADER) or not text.endswith("\n"):
            raise Unreadable(f"the registry file of {root} is none of Wine's, or is cut")
        # Each section is ended by an empty line; the last one's is what the file ends with.
        return cls(root, sorted(part.rstrip("\n") for part in text.split("\n[")[1:]))

    def differing(self, other: _Hive) -> dict[str, _Section]:
        """The sections that the other one does not hold the same, by path as it stands in the file."""
        found = {}
        for text in set(self.sections).difference(other.sections):
            path, section = _taken_apart(text, self.root)
            if path in found:
                raise Unreadable(f"the registry file of {self.root} holds [{path[:100]}] twice")
            found[path] = section
        return found

    def has_below(self, path: str) -> bool:
        """Whether a key lies below a path: then its key is there, too, section or not."""
        return self._at(f"{path}\\\\") is not None

    def time_of(self, path: str) -> int:
        """When a key was written last; 0: it has no section."""
        text = self._at(f"{path}]")
        return _taken_apart(text, self.root)[1].time if text is not None else 0

    def _at(self, begin: str) -> str | None:
        at = bisect_left(self.sections, begin)
        return self.sections[at] if at < len(self.sections) and self.sections[at].startswith(begin) else None


def _taken_apart(text: str, root: str) -> tuple[str, _Section]:
    section = _SECTION.fullmatch(text)
    if section is None:
        raise Unreadable(f"the registry file of {root} is damaged near [{text[:100]}")
    time = 0
    values: dict[str, object] = {}
    for line in _CONTINUED.sub("", section["body"] or "").split("\n"):
        if stamp := _TIME.fullmatch(line):
            time = int(stamp[1], 16)
        elif line.startswith("#"):
            values[line.partition("=")[0]] = line  # a class, or that the key is a link
        elif line:
            value = _VALUE.fullmatch(line)
            if value is None:
                raise Unreadable(f"the registry file of {root} is damaged near {line[:100]}")
            values[_plain(value["name"] or "")] = value["data"]
    return section["path"], _Section(time, values)


def _plain(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        hexadecimal, octal, letter = found.groups()
        if hexadecimal:
            return chr(int(hexadecimal, 16))
        return chr(int(octal, 8)) if octal else _LETTERS.get(letter, letter)

    # What is escaped are halves of pairs.
    return _ESCAPED.sub(character, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
