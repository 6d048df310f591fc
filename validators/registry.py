r"""The registry observable: two readings of one key, with everything below it, to changes.

Keys and values are changes of their own: a key that appears with two values is three changes. Names are the same whatever their
case, as Windows compares them. The path of a change is what effects and ignore rules match: a key's is relative to the observed
key (``Window\Main``), a value's is ``Key\@Name`` (``Window\Main\@Left``, the default value ``Window\Main\@``), and the observed key's
own is its full name. The ``@`` keeps values apart from keys of the same name; a ``\`` or ``/`` *within* a name, which would be
taken for a separator, stands there as ``⧵`` or ``∕`` (any single wildcard fits it; ``where: {key: …, name: …}`` has the true name).

Texts are what programs get that ask Windows for them:

* ``REG_SZ`` and ``REG_EXPAND_SZ`` end at their first NUL. The terminator may be missing (``RegGetValue`` adds it), be half of one, or have old
  bytes behind it that nobody sees.
* ``REG_MULTI_SZ`` is its strings, as ``reg query``, ``regedit`` and .NET show them: the NULs at the end may be missing, one, or many, and an
  empty string inside is one (``PendingFileRenameOperations`` has such), although programs that walk the list in C stop there.

The bytes are kept: where only they differ, it is a difference of format. Bytes that no function makes a value of (a string that ends with
half a character or holds half a surrogate pair, a ``REG_DWORD`` of three bytes) are undecodable and equal only to the same
bytes. Times of keys are no change: a key that was written again without a difference is a note.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeVar

from contracts.globs import compile_glob
from contracts.schema import RegistryKey
from validators.changes import Cell, CellState, Change, Comparison, Ignored, Kind, Note, Row, Verb

SZ, EXPAND_SZ, DWORD, DWORD_BIG_ENDIAN, MULTI_SZ, QWORD = 1, 2, 4, 5, 7, 11
TYPES = (
    "REG_NONE", "REG_SZ", "REG_EXPAND_SZ", "REG_BINARY", "REG_DWORD", "REG_DWORD_BIG_ENDIAN", "REG_LINK", "REG_MULTI_SZ",
    "REG_RESOURCE_LIST", "REG_FULL_RESOURCE_DESCRIPTOR", "REG_RESOURCE_REQUIREMENTS_LIST", "REG_QWORD",
)  # fmt: skip
"""Names of the types by number, as Windows' ``winnt.h`` has them; others are shown as ``0x1234``."""
_EXAMPLES = 5
_IN_NAMES = str.maketrans({"\\": "⧵", "/": "∕"})
_VOLATILE = "in a volatile key: gone when the machine starts again"


@dataclass(frozen=True, slots=True)
class KeyItem:
    r"""A key.

    Attributes:
        path: Relative to the observed key, with ``\``; the observed key's own is empty.
        mtime: When it was last written, in 100 ns since 1601-01-01 UTC.
        volatile: Whether it is kept in memory only; ``None`` where the system does not tell.
    """

    path: str
    mtime: int = 0
    volatile: bool | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What tells it from other keys."""
        return (self.path,)


@dataclass(frozen=True, slots=True)
class ValueItem:
    """A value: its key's path, its name (empty: the default value), its type number and its bytes as stored."""

    key: str
    name: str
    type: int
    data: bytes

    @property
    def names(self) -> tuple[str, ...]:
        """What tells it from other values."""
        return self.key, self.name


@dataclass(frozen=True, slots=True)
class RegistryState:
    """One key and what is below it at one moment.

    Attributes:
        exists: Whether the key is there; positively known.
        keys: It and the keys below it, in any order.
        values: Their values, in any order.
        skipped: Keys that are never read, each with the reason; what is below them is not known.
    """

    exists: bool
    keys: tuple[KeyItem, ...] = ()
    values: tuple[ValueItem, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


def key_path(key: str, root: str) -> str:
    r"""A key's path as effects see it.

    Args:
        key: Relative to the observed key.
        root: The observed key's full name.
    """
    return key.replace("/", "∕") if key else root.replace("/", "∕")


def value_path(key: str, name: str) -> str:
    r"""A value's path as effects see it: ``Key\@Name``."""
    return (key.replace("/", "∕") + "\\" if key else "") + "@" + name.translate(_IN_NAMES)


def type_name(number: int) -> str:
    """``REG_SZ`` and the like; the number in hexadecimal for a type that has no name."""
    return TYPES[number] if number < len(TYPES) else f"{number:#x}"


def data_cell(kind: int, data: bytes) -> Cell:
    """A value's data as a field.

    Strings are text, ``REG_MULTI_SZ`` its strings joined by line breaks, ``REG_DWORD`` (either byte order) and ``REG_QWORD``
    numbers, everything else bytes. A string of no bytes at all is an empty one: that is how programs read it.
    """
    match kind:
        case _ if kind in (SZ, EXPAND_SZ):
            return _string(data)
        case _ if kind == MULTI_SZ:
            return _strings(data)
        case _ if kind in (DWORD, DWORD_BIG_ENDIAN, QWORD):
            size = 8 if kind == QWORD else 4
            if len(data) != size:
                return _broken(Kind.NUMBER, data, f"{len(data)} bytes, and {type_name(kind)} has {size}")
            number = int.from_bytes(data, "big" if kind == DWORD_BIG_ENDIAN else "little")
            return Cell(Kind.NUMBER, Decimal(number), raw=data, has_blank=False)
        case _ if not data:
            return Cell(Kind.BINARY, state=CellState.BLANK)
        case _:
            return Cell(Kind.BINARY, data, raw=data)


def _broken(kind: Kind, data: bytes, why: str) -> Cell:
    return Cell(kind, state=CellState.UNDECODABLE, raw=data, hint=why)


def _text(text: str, data: bytes) -> Cell:
    return Cell(Kind.VARTEXT, text, raw=data) if text else Cell(Kind.VARTEXT, state=CellState.BLANK, raw=data)


_LONE = re.compile("[\ud800-\udfff]")


def _halves(data: bytes) -> tuple[str, bytes]:
    """The UTF-16 units as text, halves of surrogate pairs as they are, and the last byte where their number is odd."""
    whole = len(data) - len(data) % 2
    return data[:whole].decode("utf-16-le", "surrogatepass"), data[whole:]


def _string(data: bytes) -> Cell:
    text, rest = _halves(data)
    value, terminator, _ = text.partition("\0")
    if not terminator and any(rest):
        return _broken(Kind.VARTEXT, data, "a string that ends with half a character")
    if _LONE.search(value):
        return _broken(Kind.VARTEXT, data, "a string with half a surrogate pair")
    return _text(value, data)


def _strings(data: bytes) -> Cell:
    text, rest = _halves(data)
    if any(rest) and not text.endswith("\0\0"):
        return _broken(Kind.VARTEXT, data, "a list of strings that ends with half a character")
    text = text.rstrip("\0")
    if _LONE.search(text):
        return _broken(Kind.VARTEXT, data, "a list of strings with half a surrogate pair")
    if "\n" in text or "\r" in text:
        return _broken(Kind.VARTEXT, data, "a list of strings that hold line breaks themselves")
    return _text(text.replace("\0", "\n"), data)


# --- identity -------------------------------------------------------------------------------------------------------------


def folded_name(name: str) -> str:
    """The form in which two spellings of one name are equal; unlike with files, Unicode's normal form counts."""
    if name.isascii():
        return name.upper()
    return "".join(upper if (upper := char.upper()).lower() == char and len(upper) == 1 else char for char in name)


_Names = tuple[str, ...]
_Item = TypeVar("_Item", KeyItem, ValueItem)


class _Identity:
    """Tells what is the same key or value on both sides: names without case, unless two on one side differ in nothing else."""

    def __init__(self, *states: RegistryState) -> None:
        self._spelt: set[_Names] = set()
        for state in states:
            for items in (state.keys, state.values):  # keys first: a value's identity depends on its key's
                counts = Counter(map(self._names, items))
                self._spelt.update(names for names, count in counts.items() if count > 1)

    def _names(self, item: KeyItem | ValueItem) -> _Names:
        key, *rest = item.names
        folded = folded_name(key)
        return (key if (folded,) in self._spelt else folded, *map(folded_name, rest))

    def of(self, items: Iterable[_Item]) -> dict[_Names, _Item]:
        """The items by what is the same on both sides."""
        return {item.names if (names := self._names(item)) in self._spelt else names: item for item in items}


# --- changes --------------------------------------------------------------------------------------------------------------


def diff_registry(before: RegistryState, after: RegistryState, spec: RegistryKey, *, observable: str) -> Comparison:
    """What happened to a key, the keys below it and their values.

    Args:
        before: The key before the run.
        after: The key after it.
        spec: The observable, with what it ignores.
        observable: Its name in the contract.
    """
    found = _Differences(before, after, spec, observable)
    found.compare_keys()
    found.compare_values()
    shown, ignored = _without_ignored(found.in_order(), spec)
    changes = tuple(replace(change, position=position) for position, change in enumerate(shown, 1))
    nowhere = f"{spec.registry} is there neither before nor after the run: is the name right?"
    warnings = () if before.exists or after.exists else (nowhere,)
    return Comparison(observable, changes, found.notes(), warnings, ignored, "by name")


class _Differences:
    """The changes and notes, as they are found."""

    def __init__(self, before: RegistryState, after: RegistryState, spec: RegistryKey, observable: str) -> None:
        self._before, self._after = before, after
        self._same = _Identity(before, after)
        self._root = spec.registry
        self._observable = observable
        self._found: list[tuple[list[str], str, Change]] = []
        self._volatile = {folded_name(key.path) for state in (before, after) for key in state.keys if key.volatile}
        self._rewritten: set[str] = set()
        self._changed_keys: set[str] = set()
        self._format_only = 0
        self._respelt = 0

    def compare_keys(self) -> None:
        """Keys that appeared, went away, or became volatile or lasting."""
        old, new = self._same.of(self._before.keys), self._same.of(self._after.keys)
        for names in old.keys() | new.keys():
            was, now = old.get(names), new.get(names)
            changed: tuple[str, ...] = ()
            if was is not None and now is not None:
                self._respelt += was.path != now.path
                if was.mtime != now.mtime:
                    self._rewritten.add(folded_name(now.path))
                if None in (was.volatile, now.volatile) or was.volatile == now.volatile:
                    continue
                changed = ("volatile",)
            folded = folded_name((now or was or KeyItem("")).path)
            self._changed_keys |= {folded, folded.rpartition("\\")[0]}  # the key above was written as well
            self._add(folded, "", _key_cells(was, self._root), _key_cells(now, self._root), changed)

    def compare_values(self) -> None:
        """Values that appeared, went away, or have another type or other data."""
        old, new = self._same.of(self._before.values), self._same.of(self._after.values)
        for names in old.keys() | new.keys():
            was, now = old.get(names), new.get(names)
            changed: tuple[str, ...] = ()
            if was is not None and now is not None:
                self._respelt += was.name != now.name
                if (was.type, was.data) == (now.type, now.data):
                    continue
                changed = _altered(was, now)
                if not changed:
                    self._format_only += 1
                    continue
            folded = folded_name((now or was or ValueItem("", "", 0, b"")).key)
            self._changed_keys.add(folded)
            self._add(folded, folded_name(f"@{names[1]}"), _value_cells(was), _value_cells(now), changed)

    def _add(self, key: str, name: str, was: Row | None, now: Row | None, changed: tuple[str, ...]) -> None:
        verb = Verb.CREATED if was is None else Verb.DELETED if now is None else Verb.MODIFIED
        subject = str(((now or was) or {})["path"].value)
        how = _VOLATILE if key in self._volatile else ""
        change = Change(self._observable, verb, subject, 0, was, now, changed, how)
        self._found.append((key.split("\\"), name, change))

    def in_order(self) -> list[Change]:
        """The changes, each key followed by its values and the keys below it."""
        return [entry[2] for entry in sorted(self._found, key=lambda entry: (*entry[:2], entry[2].subject))]

    def notes(self) -> tuple[Note, ...]:
        """What was seen that is no change."""
        touched = self._rewritten - self._changed_keys
        counted = (
            ("touched", "keys written again without a difference", len(touched)),
            ("format", "values written in other bytes that mean the same", self._format_only),
            ("spelling", "names spelt in other case", self._respelt),
        )
        skipped = dict(self._before.skipped) | dict(self._after.skipped)
        return (
            *(Note(kind, text, count) for kind, text, count in counted if count),
            *(Note("skipped", f"{path} is never read: {why}") for path, why in sorted(skipped.items())),
        )


def _altered(was: ValueItem, now: ValueItem) -> tuple[str, ...]:
    old, new = data_cell(was.type, was.data), data_cell(now.type, now.data)
    same = old.kind is new.kind and old.same_value(new)
    return (("type",) if was.type != now.type else ()) + (() if same else ("data",))


def _key_cells(item: KeyItem | None, root: str) -> Row | None:
    if item is None:
        return None
    row = {
        "path": Cell(Kind.VARTEXT, key_path(item.path, root)),
        "kind": Cell(Kind.VARTEXT, "key"),
        "key": _name_cell(item.path),
    }
    if item.volatile is not None:
        row["volatile"] = Cell(Kind.LOGICAL, item.volatile)
    return row


def _value_cells(item: ValueItem | None) -> Row | None:
    if item is None:
        return None
    data = data_cell(item.type, item.data)
    row = {
        "path": Cell(Kind.VARTEXT, value_path(item.key, item.name)),
        "kind": Cell(Kind.VARTEXT, "value"),
        "key": _name_cell(item.key),
        "name": _name_cell(item.name),
        "type": Cell(Kind.VARTEXT, type_name(item.type)),
        "data": data,
    }
    if data.kind is Kind.BINARY or data.state is CellState.UNDECODABLE:
        row["hex"] = _name_cell(item.data.hex(" "))  # bytes have no literal of their own
    return row


def _name_cell(text: str) -> Cell:
    return Cell(Kind.VARTEXT, text) if text else Cell(Kind.VARTEXT, state=CellState.BLANK)


def _without_ignored(changes: list[Change], spec: RegistryKey) -> tuple[list[Change], tuple[Ignored, ...]]:
    rules = [(rule, compile_glob(rule.path)) for rule in spec.ignore]
    hits: list[list[str]] = [[] for _ in rules]
    shown = []
    for change in changes:
        for hit, (_, fits) in zip(hits, rules, strict=True):
            if fits(change.subject):
                hit.append(change.subject)
                break
        else:
            shown.append(change)
    ignored = tuple(
        Ignored(rule.path, rule.reason, len(hit), tuple(hit[:_EXAMPLES]))
        for (rule, _), hit in zip(rules, hits, strict=True)
    )
    return shown, ignored
