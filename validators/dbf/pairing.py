"""Which row after the run is which row before it (CONTRACT.md section 3, "Identity of rows").

By the declared key; without one by record number, as long as structure, count and order allow it; else by content, as a
multiset. Deletion-flag bytes never take part in recognising a row.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence

from validators.dbf.compare import RowComparison, Runs
from validators.dbf.index import KeyIndex, KeyOf, join, key_text
from validators.dbf.table import KeyReader, Table, cell_key

_NAMED_DUPLICATES = 3


class Pairing:
    """The outcome: rows recognised on both sides, rows that are gone, rows that are new.

    Rows that are certainly equal (same place, same bytes, same memos) are in none of the lists.

    Attributes:
        identity: By what rows were recognised.
        before, after: Positions of the recognised rows, pair by pair.
        gone: Positions before of rows with no counterpart.
        new: Positions after of rows with no counterpart.
        runs: Rows that are equal byte for byte at other record numbers; they are in none of the lists either.
        warnings: Findings about the identity, e.g. duplicates after.
    """

    def __init__(self, identity: str, runs: Runs | None = None) -> None:
        self.identity = identity
        self.runs = runs or Runs()
        self.before = array("I")
        self.after = array("I")
        self.gone: Sequence[int] = array("I")
        self.new: Sequence[int] = array("I")
        self.warnings: list[str] = []

    def add(self, before: int, after: int) -> None:
        """Records that two rows are the same."""
        self.before.append(before)
        self.after.append(after)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.before, self.after, strict=True)


class _Leftovers:
    """Rows of both sides that are not paired yet, live and deleted ones apart."""

    def __init__(self, old: Table, new: Table, before: Sequence[int], after: Sequence[int], pairing: Pairing) -> None:
        self._used_before, self._used_after = bytearray(len(old)), bytearray(len(new))
        self._pairing = pairing
        self.moved = pairing.runs.moved > 0
        self.live_before = array("I", (at for at in before if old.live(at)))
        self.dead_before = array("I", (at for at in before if not old.live(at)))
        self.live_after = array("I", (at for at in after if new.live(at)))
        self.dead_after = array("I", (at for at in after if not new.live(at)))

    def pair(self, before: int, after: int) -> None:
        """Takes two rows out as the same."""
        self._used_before[before] = self._used_after[after] = 1
        self.moved = self.moved or before != after
        self._pairing.add(before, after)

    def sweep(self) -> None:
        """Forgets the rows that were paired."""
        for side, used in (("before", self._used_before), ("after", self._used_after)):
            for life in ("live", "dead"):
                name = f"{life}_{side}"
                setattr(self, name, array("I", (at for at in getattr(self, name) if not used[at])))

    def by(self, left: Sequence[int], right: Sequence[int], left_key: KeyOf, right_key: KeyOf) -> None:
        """Pairs rows with equal keys: those with the same record number first, then in order."""
        for lefts, rights in join(left, right, left_key, right_key):
            same = set(lefts) & set(rights) if len(lefts) > 1 or len(rights) > 1 else set[int]()
            for at in sorted(same):
                self.pair(at, at)
            rest = ([at for at in side if at not in same] for side in (lefts, rights))
            for before, after in zip(*rest, strict=False):
                self.pair(before, after)
        self.sweep()

    def by_place(self, left: Sequence[int], right: Sequence[int], allowed: Callable[[int], bool] | None = None) -> None:
        """Pairs rows with the same record number."""
        there = bytearray(max(len(self._used_before), len(self._used_after)))
        for at in right:
            there[at] = 1
        for at in left:
            if there[at] and (allowed is None or allowed(at)):
                self.pair(at, at)
        self.sweep()

    def finish(self) -> Pairing:
        """What is left is gone, or new."""
        self._pairing.gone = sorted([*self.live_before, *self.dead_before])
        self._pairing.new = sorted([*self.live_after, *self.dead_after])
        return self._pairing


def _content(table: Table) -> KeyOf:
    """The bytes of a record without its deletion flag."""
    return lambda index: table.record(index)[1:]


def _values(comparison: RowComparison, *, before: bool) -> KeyOf:
    """The values of a record's common fields: equal for rows that differ in format only."""

    def values(index: int) -> Hashable:
        return tuple(map(cell_key, comparison.cells(index, before=before)))

    return values


def by_key(
    comparison: RowComparison, index: KeyIndex, before: Sequence[int], after: Sequence[int], runs: Runs | None = None
) -> Pairing:
    """Pairs rows by the declared key.

    Args:
        comparison: Compares rows of the two states; both have the key's fields.
        index: The key of every live row before.
        before: Rows before that are not certainly equal to the row in the same place after.
        after: The same for the rows after.
        runs: Rows that were found equal at other record numbers.
    """
    old, new = comparison.old, comparison.new
    left = _Leftovers(old, new, before, after, Pairing(f"key {', '.join(index.names)}", runs))
    reader, reader_after = KeyReader(old, index.names), KeyReader(new, index.names)
    ambiguous: set[int] = set()
    for (row,), rows in join(left.live_before, left.live_after, reader.at, reader_after.at):
        if len(rows) == 1:
            left.pair(row, rows[0])
            continue
        # The key became ambiguous: only an equal row is surely the same one.
        equal = next((at for at in rows if not comparison.rows(row, at).changed), None)
        if equal is None:
            ambiguous.add(row)
        else:
            left.pair(row, equal)
    left.sweep()
    left.by(left.dead_before, left.dead_after, _content(old), _content(new))
    left.by(left.live_before, left.dead_after, reader.at, reader_after.at)
    left.by(left.dead_before, left.live_after, reader.at, reader_after.at)
    if not left.moved and len(old) <= len(new):
        # Nothing was re-sorted: a live row in the same place, its old key gone and its new key new, had its key edited.
        left.by_place(
            left.live_before,
            left.live_after,
            lambda at: at not in ambiguous and index.find(reader_after.at(at), reader) is None,
        )
        left.by_place(left.live_before, left.dead_after)  # overwritten and deleted
    left.by(left.dead_before, left.dead_after, reader.at, reader_after.at)
    left.by_place(left.dead_before, left.dead_after)
    pairing = left.finish()
    pairing.warnings.extend(_duplicates(new, reader, reader_after, index, pairing))
    return pairing


def _duplicates(
    new: Table, reader: KeyReader, reader_after: KeyReader, index: KeyIndex, pairing: Pairing
) -> Iterator[str]:
    """Tells of live rows after whose key another live row has too; only new rows can be such."""
    rows = [at for at in pairing.new if new.live(at)]
    if not rows:
        return
    now = array("L", range(len(reader.table)))
    for before, after, length in pairing.runs:
        now[before : before + length] = array("L", range(after, after + length))
    for before, after in pairing:
        now[before] = after
    for before in pairing.gone:
        now[before] = len(new)
    seen: set[Hashable] = set()
    duplicates: list[int] = []
    for at in rows:
        key = reader_after.at(at)
        known = index.find(key, reader)
        other = len(new) if known is None else now[known]
        if key in seen or (other < len(new) and new.live(other) and reader_after.at(other) == key):
            duplicates.append(at)
        seen.add(key)
    if duplicates:
        shown = [f"{key_text(reader_after, at)} (record {at + 1})" for at in duplicates[:_NAMED_DUPLICATES]]
        more = f" and {len(duplicates) - len(shown)} more" if len(duplicates) > len(shown) else ""
        yield f"the key is not unique any more after the run: {'; '.join(shown)}{more}"


def by_position(old: Table, new: Table, unequal: Sequence[int]) -> Pairing | None:
    """Pairs rows by record number, or returns ``None`` when records vanished or most of the unequal ones just moved."""
    if len(new) < len(old):
        return None
    after = array("I", unequal)
    after.extend(range(len(old), len(new)))
    moved = 0
    for lefts, rights in join(array("I", unequal), after, old.record, new.record):
        in_place = len(set(lefts) & set(rights))  # only a memo differs there
        moved += min(len(lefts), len(rights)) - in_place
    if moved * 2 > len(unequal):
        return None
    pairing = Pairing("by position")
    pairing.before = array("I", unequal)
    pairing.after = array("I", unequal)
    pairing.new = range(len(old), len(new))
    return pairing


def by_content(
    comparison: RowComparison, before: Sequence[int], after: Sequence[int], runs: Runs | None = None, *, by_bytes: bool
) -> Pairing:
    """Pairs rows of equal content.

    Args:
        comparison: Compares rows of the two states.
        before: Rows before that are not certainly equal to the row in the same place after.
        after: The same for the rows after.
        runs: Rows that were found equal at other record numbers.
        by_bytes: Whether equal bytes mean equal content (same structure, no memos that differ).
    """
    old, new = comparison.old, comparison.new
    left = _Leftovers(old, new, before, after, Pairing("by content", runs))
    values, values_after = _values(comparison, before=True), _values(comparison, before=False)
    if by_bytes:
        left.by(left.live_before, left.live_after, _content(old), _content(new))
        left.by(left.dead_before, left.dead_after, _content(old), _content(new))
    left.by(left.live_before, left.live_after, values, values_after)
    left.by(left.dead_before, left.dead_after, values, values_after)
    left.by(left.live_before, left.dead_after, values, values_after)
    left.by(left.dead_before, left.live_after, values, values_after)
    left.by_place(left.dead_before, left.dead_after)
    return left.finish()
