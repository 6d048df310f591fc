r"""Trees of a machine whose drive is an overlay: the upper layer tells what may differ, the rest is known.

What the sealed layers below hold of a tree is learnt once, from a reading in which every file was hashed, and remembered for all
machines that lie on the same layers. A later reading walks the upper layer and asks the guest about what has an entry there, and about
nothing else; an entry's content is read whatever its times say. So a tree costs what was done to it, not what it holds, and a program
that puts times back is found out without a sample.

Whatever does not fit (a name that Windows would not have, two spellings of one name, a file that came or went meanwhile, a fault in the
guest's answer) makes the caller list the whole tree as it does on any other machine.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PureWindowsPath

from contracts.globs import fold
from runner.guests.base import Guest, Unreadable
from runner.guests.probe import FileEntry, ProbeResult, RootEntry
from runner.machines.upper_layer import Entry, Layers
from validators.files import FileItem

MAX_ASKED = 2_000
"""How many entries are asked for one by one; where a program has touched more, listing the whole tree is the shorter way."""
_DRIVE, _LETTER, _TARGET = "drive_c", "dosdevices/c:", "../drive_c"
_KEPT = 16
"""How many trees are remembered."""
_AT_ONCE = 200
_NO_NAME = frozenset('\\/:*?"<>|')


@dataclass(frozen=True)
class Partly:
    """A tree of which most is known.

    Attributes:
        known: What is as the sealed layers hold it, hashes included.
        asked: What may not be, as the guest lists it now.
    """

    known: tuple[FileItem, ...]
    asked: tuple[FileEntry, ...]


@dataclass
class _Known:
    """What the sealed layers hold of one tree.

    Attributes:
        items: By path below the root.
        unknown: Paths that had an entry of the upper layer when the tree was learnt.
        hidden: Those of them below which nothing was seen either.
        links: Symbolic links and what is neither file nor folder: where they lead, anything may change.
        inside: The paths of items, and of the folders that lead to them, by the folder that holds them; empty: the root.
    """

    items: dict[str, FileItem]
    unknown: set[str]
    hidden: set[str]
    links: set[str]
    inside: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        for item in self.items:
            path = item
            while path:  # a folder with an entry of the upper layer is no item, and what lies in it may be
                parent = path.rpartition("\\")[0]
                if path in self.inside[parent]:
                    break
                self.inside[parent].add(path)
                path = parent

    def below(self, path: str) -> Iterator[str]:
        """The items below a path, and the folders that lead to them."""
        for child in self.inside.get(path, ()):
            yield child
            yield from self.below(child)


class _Odd(Exception):
    """The tree has to be listed whole."""


_known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class LayeredTree:
    """A tree of a machine on layers.

    Attributes:
        guest: The way into the machine.
        layers: What its drive is made of.
        root: The tree's folder, as the contract spells it.
        place: The same below the layers.
    """

    guest: Guest
    layers: Layers
    root: str
    place: str

    @classmethod
    def of(cls, guest: Guest, root: str) -> LayeredTree | None:
        """The tree at a Windows path; ``None`` where the layers cannot tell about it."""
        layers = getattr(guest, "layers", None)
        if not isinstance(layers, Layers):
            return None
        try:
            place = _place(layers, root)
        except Unreadable:
            return None
        return None if place is None else cls(guest, layers, root.rstrip("\\/"), place)

    @property
    def _key(self) -> tuple[str, str]:
        return self.layers.key, self.place

    def read(self) -> Partly | None:
        """What is known of the tree and what was asked; ``None``: it has to be listed whole.

        Raises:
            GuestLost: The machine is gone.
        """
        with _lock:
            known = _known.get(self._key)
            if known is not None:
                _known.move_to_end(self._key)
        if known is None:
            return None
        try:
            return self._read(known)
        except (_Odd, Unreadable):
            return None

    def learn(self, items: Iterable[FileItem]) -> None:
        """Remembers what of a whole listing the sealed layers hold.

        Args:
            items: All of the tree's entries, each file hashed since the layers were looked at first.
        """
        try:
            known = self._learnt(items)
        except (_Odd, Unreadable):
            return
        with _lock:
            _known[self._key] = known
            while len(_known) > _KEPT:
                _known.popitem(last=False)

    # --- learning ---

    def _learnt(self, items: Iterable[FileItem]) -> _Known:
        unknown, hidden, folders = set(), set(), {""}
        for entry, path in self._entries():
            if not path:
                continue
            unknown.add(path)
            if entry.kind == "dir":
                folders.add(path)
            if entry.hides or not self._is_folder_below(entry):
                hidden.add(path)
        links = {
            self._inside(entry.path)
            for layer in self.layers.lower
            for entry in Layers(layer, (), "").changed(self.place)
            if entry.kind in ("link", "other")
        }
        kept: dict[str, FileItem] = {}
        for item in items:
            parent = item.path.rpartition("\\")[0]
            if item.path in unknown or item.path in links or _is_below(item.path, hidden):
                continue
            # From a folder without an entry nothing ever went away. From another one, a file of the upper layer may have gone that
            # was still listed.
            if parent in folders and self._below(item) is None:
                raise _Odd
            kept[item.path] = item
        return _Known(kept, unknown, hidden, links)

    def _below(self, item: FileItem) -> Entry | None:
        found = self.layers.below(self._outside(item.path))
        wanted = {"file": "file", "dir": "dir"}.get(item.kind)
        return found if found is not None and found.kind == wanted else None

    def _is_folder_below(self, entry: Entry) -> bool:
        if entry.kind != "dir" or entry.opaque:
            return False
        return self._is_folder(self.layers.below(entry.path))

    @staticmethod
    def _is_folder(entry: Entry | None) -> bool:
        return entry is not None and entry.kind == "dir"

    # --- reading ---

    def _read(self, known: _Known) -> Partly:
        ask: list[str] = []
        listed: defaultdict[str, set[str]] = defaultdict(set)
        touched: set[str] = set()
        hidden: set[str] = set()
        gone: set[str] = set()
        under: str | None = None
        for count, (entry, path) in enumerate(self._entries()):
            if count > MAX_ASKED:
                raise _Odd
            if not path:
                continue
            if under is not None and path.startswith(under):
                continue  # below a folder that is listed whole
            under = None
            touched.add(path)
            if entry.hides or not self._is_folder_below(entry):
                hidden.add(path)
            if entry.kind == "whiteout":
                gone.add(path)
            elif entry.kind == "dir":
                listed[path.rpartition("\\")[0]].add(path)
                if path in hidden:
                    ask.append(path)
                    under = path + "\\"
            else:
                ask.append(path)
        for path in known.hidden:
            if not _is_below(path, hidden) and self._is_folder(self.layers.below(self._outside(path))):
                raise _Odd  # what it holds was never seen
        for path in known.links | known.unknown:
            below = None if path in touched or _is_below(path, hidden) else self.layers.below(self._outside(path))
            if below is None:
                continue
            touched.add(path)
            if self._is_folder(below):
                listed[path.rpartition("\\")[0]].add(path)
            else:
                ask.append(path)
        self._refuse_twins(known, touched, gone)
        sure = dict(known.items)
        for path in touched:
            sure.pop(path, None)
        for path in hidden:
            for inside in known.below(path):
                sure.pop(inside, None)
        if len(ask) > MAX_ASKED:
            raise _Odd
        asked = [*self._listed(listed, known, touched), *self._asked(ask, touched)]
        return Partly(tuple(sure.values()), tuple(asked))

    def _refuse_twins(self, known: _Known, touched: set[str], gone: set[str]) -> None:
        """Names that differ by case only: which of them a path means is not known here."""
        for parent in {path.rpartition("\\")[0] for path in touched}:
            names = {path for path in known.inside.get(parent, ()) if path not in touched}
            names |= {path for path in touched if path.rpartition("\\")[0] == parent and path not in gone}
            if len({fold(path) for path in names}) != len(names):
                raise _Odd

    def _listed(self, listed: dict[str, set[str]], known: _Known, touched: set[str]) -> Iterator[FileEntry]:
        """Folders with an entry of the upper layer, as the listings of those that hold them show them."""
        parents = sorted(listed)
        for answer, roots in self._probed(parents, "--flat"):
            left = set().union(*(listed[parent] for parent in roots))
            for entry in answer.files:
                parent = roots[entry.root]
                path = f"{parent}\\{entry.path}" if parent else entry.path
                if path in listed[parent]:
                    if entry.kind == "file":
                        raise _Odd
                    left.discard(path)
                    yield replace(entry, path=path)
                elif path not in touched and not _same(known.items.get(path), entry):
                    raise _Odd  # it came meanwhile, or something else is not as it should be
            if left:
                raise _Odd

    def _asked(self, ask: list[str], touched: set[str]) -> Iterator[FileEntry]:
        """Files by themselves, and folders that are in the upper layer only with all that they hold."""
        for answer, roots in self._probed(ask):
            if any(root.type not in ("file", "dir", "link") for root in answer.roots):
                raise _Odd  # it went away meanwhile
            for entry in answer.files:
                path = roots[entry.root]
                if entry.path:
                    path = f"{path}\\{entry.path}"
                elif path not in touched:
                    raise _Odd
                yield replace(entry, path=path)

    def _probed(self, paths: list[str], *options: str) -> Iterator[tuple[ProbeResult, list[str]]]:
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            full = [f"{self.root}\\{path}" if path else _folder(self.root) for path in some]
            answer = self.guest.probe("files", *options, "--streams", *full, timeout=120.0)
            if answer.faults or len(answer.roots) != len(some) or not all(map(_exists, answer.roots)):
                raise _Odd
            yield answer, some

    # --- paths ---

    def _entries(self) -> Iterator[tuple[Entry, str]]:
        """The upper layer's entries of the tree, and their paths below its root."""
        for above in _ways(self.place):
            entry = self.layers.at_upper(above)
            if entry is None:
                return
            if entry.hides:
                raise _Odd  # the layers below do not show through
        for entry in self.layers.changed(self.place):
            if entry.path == self.place:
                yield entry, ""
                continue
            if not _is_name(entry.path.rpartition("/")[2]):
                raise _Odd
            yield entry, self._inside(entry.path)

    def _inside(self, path: str) -> str:
        return path[len(self.place) + 1 :].replace("/", "\\")

    def _outside(self, path: str) -> str:
        return f"{self.place}/{path.replace(chr(92), '/')}"


def _exists(root: RootEntry) -> bool:
    return root.exists is True


def _folder(root: str) -> str:
    """A drive's own folder needs its separator."""
    return root + "\\" if root.endswith(":") else root


def _is_below(path: str, folders: set[str]) -> bool:
    """Whether a path is one of some paths, or lies below one."""
    while path:
        if path in folders:
            return True
        path = path.rpartition("\\")[0]
    return False


def _is_name(name: str) -> bool:
    """Whether Wine shows a name as it is: what Windows does not allow, or is no text, it shows otherwise."""
    return name.isprintable() and not _NO_NAME.intersection(name) and name == name.rstrip(". ")


def _same(item: FileItem | None, entry: FileEntry) -> bool:
    return item is not None and (item.kind, item.size, item.mtime, item.attributes, item.short) == (
        entry.kind, entry.size, entry.mtime, entry.attr, entry.short or "",
    )  # fmt: skip


def _ways(place: str) -> Iterator[str]:
    """A path below the layers and all above it, from the top."""
    parts = place.split("/")
    for depth in range(1, len(parts) + 1):
        yield "/".join(parts[:depth])


def _place(layers: Layers, root: str) -> str | None:
    """Where a Windows path lies below the layers; ``None`` where a link is on the way, or several names are meant."""
    path = PureWindowsPath(root)
    if path.drive.upper() != "C:" or not path.root or ".." in path.parts:
        return None
    letter = layers.at_upper(_LETTER) or layers.below(_LETTER)
    if letter is None or letter.kind != "link":
        return None
    if (layers.target_upper if layers.at_upper(_LETTER) else layers.target_below)(_LETTER) != _TARGET:
        return None
    place = _DRIVE
    for part in path.parts[1:]:
        wanted = fold(part)
        names = {name for name in (*layers.names_below(place), *layers.names_upper(place)) if fold(name) == wanted}
        if len(names) != 1:
            return None
        place = f"{place}/{names.pop()}"
        below = layers.below(place)
        if below is None or below.kind != "dir":
            return None
    return place
