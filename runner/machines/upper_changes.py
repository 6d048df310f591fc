r"""What changed on an overlay's drive since a moment: every entry of the upper layer, compared with what was there before it.

What was there is the upper layer's entry at that moment, which :class:`Mark` remembers with its content's hash, or else what the sealed
layers hold. An entry alone is no change: a file opened for writing has one, although nobody wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from runner.machines.upper_layer import Entry, Layers
from runner.offline.changes import DiskChange, What

_DRIVE = "drive_c"
_LETTERS = "dosdevices"
_OWN = frozenset({"system.reg", "user.reg", "userdef.reg", ".update-timestamp", "wineserver"})
"""Wine's own files beside the drive: the registry, which is compared by keys, and book-keeping."""
_BEING_SAVED = re.compile(r"reg[0-9a-f]{4,8}\.tmp")
_WRITABLE = 0o222
_MOST_HASHED = 256 << 20
"""Bytes that are hashed for one mark; what is more counts as changed when its size or times do."""


@dataclass(frozen=True, slots=True)
class _Was:
    """One place as it was: its entry, and the hash of a file's content (empty: not known) or a link's target."""

    entry: Entry
    content: str = ""


class Mark:
    """The state of a machine's drive at one moment.

    Attributes:
        layers: What the drive is made of.
    """

    def __init__(self, layers: Layers) -> None:
        """Remembers the state as it is now.

        Raises:
            Unreadable: The upper layer cannot be read.
        """
        self.layers = layers
        self._was: dict[str, _Was] = {}
        left = _MOST_HASHED
        for entry in layers.changed():
            content = ""
            if entry.kind == "link":
                content = layers.target_upper(entry.path)
            elif entry.kind == "file" and entry.size <= left and entry.path not in _OWN:
                left -= entry.size
                content = layers.hash_upper(entry.path)
            self._was[entry.path] = _Was(entry, content)

    def changes(self) -> tuple[DiskChange, ...]:
        """What differs now, sorted by path.

        Raises:
            Unreadable: A layer cannot be read, or holds what it should not.
        """
        now = {entry.path: entry for entry in self.layers.changed() if entry.path}
        found: dict[str, DiskChange] = {}
        for path, entry in now.items():
            was = self._before(path)
            if entry.kind != "whiteout":
                if (change := self._of_entry(entry, was)) is not None:
                    found[path] = change
            elif was is not None:
                found[path] = _gone(was.entry)
            if was is not None and was.entry.kind == "dir" and entry.hides:
                found |= {inside.path: _gone(inside) for inside in self._inside_before(path) if inside.path not in now}
        # An entry of the mark goes away without another one in its place only where the lower layers hold nothing there.
        gone = (was.entry for path, was in self._was.items() if path and path not in now)
        found |= {entry.path: _gone(entry) for entry in gone if entry.kind != "whiteout"}
        for path in [path for path in found if _is_own(path)]:
            del found[path]
        return tuple(sorted(self._paired(found), key=_order))

    # --- what was there ---

    def _before(self, path: str) -> _Was | None:
        """What was at a path; ``None``: nothing, or it was hidden."""
        if (marked := self._was.get(path)) is not None:
            return None if marked.entry.kind == "whiteout" else marked
        for parent in PurePosixPath(path).parents:
            above = self._was.get(str(parent))
            if above is not None and above.entry.hides:
                return None
        below = self.layers.below(path)
        return None if below is None else _Was(below)

    def _inside_before(self, path: str) -> Iterator[Entry]:
        """What was below a folder."""
        start = f"{path}/"
        for inside, was in self._was.items():
            if inside.startswith(start) and was.entry.kind != "whiteout":
                yield was.entry
        if not any((above := self._was.get(str(parent))) is not None and above.entry.hides
                   for parent in (PurePosixPath(path), *PurePosixPath(path).parents)):  # fmt: skip
            for entry in self.layers.all_below(path):
                if entry.path not in self._was and self._before(entry.path) is not None:
                    yield entry

    def _content_before(self, was: _Was) -> str:
        if was.content or was.entry.path in self._was:
            return was.content
        if was.entry.kind == "link":
            return self.layers.target_below(was.entry.path)
        return self.layers.hash_below(was.entry.path)

    # --- what happened ---

    def _of_entry(self, entry: Entry, was: _Was | None) -> DiskChange | None:
        folder = entry.kind == "dir"
        path, size = _windows(entry.path), _size(entry)
        if was is None:
            return DiskChange("created", path, size=size, what=("data",), is_directory=folder)
        what = self._differences(entry, was)
        if not what:
            return None
        only_times = folder and was.entry.kind == "dir" and what == ("times",)
        return DiskChange(
            "modified", path, size=size, what=what, noise="directory" if only_times else "", is_directory=folder
        )

    def _differences(self, entry: Entry, was: _Was) -> tuple[What, ...]:
        found: list[What] = []
        old = was.entry
        if old.kind != entry.kind or not self._same_content(entry, was):
            found.append("data")
        if (old.mode ^ entry.mode) & _WRITABLE or old.attributes != entry.attributes:
            found.append("attributes")
        if old.mtime != entry.mtime:
            found.append("times")
        return tuple(found)

    def _same_content(self, entry: Entry, was: _Was) -> bool:
        if entry.kind == "link":
            return self.layers.target_upper(entry.path) == self._content_before(was)
        if entry.kind != "file":
            return True
        if entry.size != was.entry.size:
            return False
        content = self._content_before(was)
        if not content:  # too large to have been hashed
            return (entry.mtime, entry.inode) == (was.entry.mtime, was.entry.inode)
        return self.layers.hash_upper(entry.path) == content

    # --- renaming ---

    def _paired(self, found: dict[str, DiskChange]) -> Iterator[DiskChange]:
        """The same with a file that is gone and one that is new told as one that was renamed, where nothing else could be meant."""
        sides = [
            {path: one for path, one in found.items() if one.kind == kind and one.size and not one.is_directory}
            for kind in ("deleted", "created")
        ]
        sizes = {one.size for one in sides[0].values()} & {one.size for one in sides[1].values()}
        contents: dict[str, tuple[list[str], list[str]]] = {}
        for side, ones in enumerate(sides):
            for path, one in ones.items():
                if one.size in sizes and (content := self._content(path, after=side == 1)):
                    contents.setdefault(content, ([], []))[side].append(path)
        pairs = {new[0]: old[0] for old, new in contents.values() if len(old) == len(new) == 1}
        moved = set(pairs.values())
        for path, one in found.items():
            if path in pairs:
                yield DiskChange("renamed", one.path, found[pairs[path]].path, one.size, what=("name",))
            elif path not in moved:
                yield one

    def _content(self, path: str, *, after: bool) -> str:
        if after:
            entry = self.layers.at_upper(path)
            return self.layers.hash_upper(path) if entry is not None and entry.kind == "file" else ""
        was = self._before(path)
        return self._content_before(was) if was is not None and was.entry.kind == "file" else ""


def _gone(entry: Entry) -> DiskChange:
    return DiskChange("deleted", _windows(entry.path), size=_size(entry), is_directory=entry.kind == "dir")


def _size(entry: Entry) -> int:
    return entry.size if entry.kind == "file" else 0


def _windows(path: str) -> str:
    r"""A place as people know it: ``C:\A\B.TXT``; what lies beside the drive has no such name."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    top, _, below = text.partition("/")
    below = below.replace("/", "\\")
    if top == _DRIVE:
        return f"C:\\{below}"
    if top == _LETTERS and below:
        return f"(drive letter) {below.upper()}"
    return f"(beside the drive) {text}"


def _is_own(path: str) -> bool:
    return path in {*_OWN, _DRIVE, _LETTERS} or _BEING_SAVED.fullmatch(path) is not None


def _order(change: DiskChange) -> tuple[bool, str, str]:
    return bool(change.noise), change.path.casefold(), change.path
