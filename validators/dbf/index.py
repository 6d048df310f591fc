"""Finding equal records among millions in little memory: hashes with positions in one sorted array, 8 bytes a record.

A hash only ever proposes: every match is confirmed on the keys themselves, which are read again from the table.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NoReturn

from validators.changes import ContractFault
from validators.dbf.table import KeyReader, Table, TableState, load_table

KeyOf = Callable[[int], Hashable]
_WORD = (1 << 64) - 1
_SORTED_AT_ONCE = 1 << 14
_NAMED_DUPLICATES = 3


class HashIndex:
    """Positions by the hash of their keys.

    Args:
        keys: Position and key of every record.
        bits: How many bits a position needs; the rest of a word holds the hash's upper part.
    """

    def __init__(self, keys: Iterable[tuple[int, Hashable]], bits: int) -> None:
        self.bits = bits
        upper = _WORD ^ ((1 << bits) - 1)
        self.words = _sorted(array("Q", (hash(key) & upper | position for position, key in keys)))

    def find(self, key: Hashable) -> Iterator[int]:
        """Positions whose key may be ``key``."""
        low = (1 << self.bits) - 1
        prefix = hash(key) & (_WORD ^ low)
        for at in range(bisect_left(self.words, prefix), len(self.words)):
            word = self.words[at]
            if word & ~low != prefix:
                return
            yield word & low

    def groups(self) -> Iterator[tuple[int, list[int]]]:
        """Upper hash part and positions, in the order of hashes, then positions."""
        low = (1 << self.bits) - 1
        current, positions = -1, list[int]()
        for word in self.words:
            if word >> self.bits != current:
                if positions:
                    yield current, positions
                current, positions = word >> self.bits, []
            positions.append(word & low)
        if positions:
            yield current, positions

    def repeated(self) -> Iterator[list[int]]:
        """Positions that share an upper hash part with others."""
        shift = self.bits
        words = self.words
        previous = -1
        for at, (one, two) in enumerate(zip(words, islice(words, 1, None), strict=False)):
            if one >> shift == two >> shift != previous:
                previous = one >> shift
                yield list(self._run(at))

    def _run(self, start: int) -> Iterator[int]:
        low = (1 << self.bits) - 1
        for at in range(start, len(self.words)):
            if self.words[at] >> self.bits != self.words[start] >> self.bits:
                return
            yield self.words[at] & low


def _sorted(words: array[int]) -> array[int]:
    """Sorted in buckets by the upper byte: small sorts are faster, and Python makes an object of every number it sorts."""
    if len(words) <= _SORTED_AT_ONCE:
        return array("Q", sorted(words))
    buckets = [array("Q") for _ in range(256)]
    for word in words:
        buckets[word >> 56].append(word)
    done = array("Q")
    for bucket in buckets:
        done.extend(sorted(bucket))
    return done


def join(
    left: Sequence[int], right: Sequence[int], left_key: KeyOf, right_key: KeyOf
) -> Iterator[tuple[list[int], list[int]]]:
    """Groups of positions with equal keys that occur on both sides, each side in ascending order."""
    if not left or not right:
        return
    bits = max(left[-1], right[-1]).bit_length()
    one = HashIndex(((at, left_key(at)) for at in left), bits).groups()
    two = HashIndex(((at, right_key(at)) for at in right), bits).groups()
    a, b = next(one, None), next(two, None)
    while a is not None and b is not None:
        if a[0] < b[0]:
            a = next(one, None)
        elif a[0] > b[0]:
            b = next(two, None)
        else:
            yield from _same(a[1], b[1], left_key, right_key)
            a, b = next(one, None), next(two, None)


def _same(
    left: list[int], right: list[int], left_key: KeyOf, right_key: KeyOf
) -> Iterator[tuple[list[int], list[int]]]:
    groups: dict[Hashable, tuple[list[int], list[int]]] = {}
    for at in left:
        groups.setdefault(left_key(at), ([], []))[0].append(at)
    for at in right:
        groups.setdefault(right_key(at), ([], []))[1].append(at)
    yield from (group for group in groups.values() if group[0] and group[1])


class KeyIndex:
    """The declared key of every live row of one state, known to be unique; made once, used for any number of comparisons.

    It is only good in the process that made it (hashes of texts differ between processes) and only for the same bytes.
    """

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        check_key(table, names)
        self.names = tuple(names)
        self.fits = (len(table), table.header_length, table.record_length, table.encoding)
        reader = KeyReader(table, names)
        self._index = HashIndex(reader.live(), max(1, len(table).bit_length()))
        _check_unique(self._index, reader, table.name)

    @classmethod
    def build(cls, state: TableState, key: Sequence[str], encoding: str | None = None) -> KeyIndex:
        """Indexes a state.

        Args:
            state: The table's files before the run.
            key: The contract's key fields.
            encoding: The contract's encoding.

        Raises:
            Unreadable: As :func:`~validators.dbf.table.load_table`.
            ContractFault: A field does not exist, or two live rows have the same key.
        """
        return cls(load_table(state, encoding), key)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KeyIndex is only good in the process that made it")

    def find(self, key: Hashable, reader: KeyReader) -> int | None:
        """Position of the live row with that key.

        Args:
            key: As a :class:`KeyReader` gives it.
            reader: A reader of the indexed state.
        """
        return next((at for at in self._index.find(key) if reader.at(at) == key), None)


def check_key(table: Table, names: Sequence[str]) -> None:
    """Checks that the key's fields exist.

    Raises:
        ContractFault: One does not; its nearest names are told.
    """
    for name in names:
        if name not in table.by_name:
            known = list(table.by_name)
            near = [other for other in known if other.casefold() == name.casefold()] or _near(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"its fields are {', '.join(known[:40])}"
            raise ContractFault(f"{table.name}: there is no key field {name!r}; {hint}")


def _near(name: str, known: list[str]) -> list[str]:
    import difflib  # noqa: PLC0415 - only for a message

    by_folded = {other.casefold(): other for other in known}
    return [by_folded[match] for match in difflib.get_close_matches(name.casefold(), by_folded, n=3)]


def key_text(reader: KeyReader, index: int) -> str:
    """A row's key for people: ``PATNR=000104``."""
    cells = zip(reader.names, reader.cells(index), strict=True)
    return ", ".join(f"{name}={cell.display(80)}" for name, cell in cells)


def _check_unique(index: HashIndex, reader: KeyReader, table: str) -> None:
    examples: list[str] = []
    count = 0
    for positions in index.repeated():
        groups: dict[Hashable, list[int]] = {}
        for at in positions:
            groups.setdefault(reader.at(at), []).append(at)
        for same in groups.values():
            if len(same) > 1:
                count += 1
                if len(examples) < _NAMED_DUPLICATES:
                    shown = ", ".join(str(at + 1) for at in same[:5]) + (" …" if len(same) > 5 else "")
                    examples.append(f"{key_text(reader, same[0])} (records {shown})")
    if count:
        more = f" and {count - len(examples)} more" if count > len(examples) else ""
        raise ContractFault(
            f"{table}: the key {', '.join(reader.names)} is not unique among live rows: {'; '.join(examples)}{more}"
        )
