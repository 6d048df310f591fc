"""Comparing the bytes of two states of a table: which records differ, which memos differ, what differs between two rows."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from validators.changes import Cell, Unreadable
from validators.dbf.layout import Field
from validators.dbf.memo import BadMemo, Buffer, MemoFile
from validators.dbf.table import BLOCK, Table

_MEMO_PAGE = 512
_FEW = 8
_MOST_EDITS = 1000
_LOOK_AHEAD = 64
_MEMO_WORK_FACTOR = 16
_MEMO_WORK_FREE = 64 << 20


def unequal_records(old: Table, new: Table) -> array[int]:
    """Records, among those both states have, whose bytes differ. The record lengths must be equal."""
    length = old.record_length
    common = min(len(old), len(new))
    per = max(1, BLOCK // length)
    found = array("I")
    for start in range(0, common, per):
        stop = min(start + per, common)
        one, two = old.records(start, stop), new.records(start, stop)
        if one != two:
            _descend(one, two, length, start, found)
    return found


def _descend(one: bytes, two: bytes, length: int, start: int, found: array[int]) -> None:
    count = len(one) // length
    if count <= _FEW:
        for number in range(count):
            at = number * length
            if one[at : at + length] != two[at : at + length]:
                found.append(start + number)
        return
    half = count // 2
    cut = half * length
    if one[:cut] != two[:cut]:
        _descend(one[:cut], two[:cut], length, start, found)
    if one[cut:] != two[cut:]:
        _descend(one[cut:], two[cut:], length, start + half, found)


class Runs:
    """Stretches of records that are equal byte for byte, though at other record numbers."""

    def __init__(self) -> None:
        self._before, self._after, self._lengths = array("I"), array("I"), array("I")

    def add(self, before: int, after: int, length: int) -> None:
        """Appends a stretch."""
        self._before.append(before)
        self._after.append(after)
        self._lengths.append(length)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """First record before, first record after, number of records."""
        return zip(self._before, self._after, self._lengths, strict=True)

    @property
    def moved(self) -> int:
        """How many records lie at another number."""
        return sum(length for before, after, length in self if before != after)


def packed(old: Table, new: Table, start: int) -> tuple[array[int], array[int], Runs] | None:
    """Follows two states of which the later one lost records (PACK), so that the rest moved up.

    Args:
        old: The state before.
        new: The state after, of the same structure.
        start: The first record that differs.

    Returns:
        Records before and after that found no equal one, and the equal stretches; ``None`` when this is no PACK.
    """
    left_before, left_after, runs = array("I"), array("I"), Runs()
    before = after = start
    edits = 0
    while before < len(old) and after < len(new):
        length = _equal_run(old, before, new, after)
        if length:
            runs.add(before, after, length)
            before, after = before + length, after + length
            continue
        lost = _lost(old, before, new.record(after))
        left_before.extend(range(before, before + max(1, lost)))
        before += max(1, lost)
        if not lost:  # an edit, or the row was also deleted before and is gone
            if old.live(before - 1):
                left_after.append(after)
                after += 1
            edits += 1
            if edits > _MOST_EDITS and 2 * edits > before - start:
                return None
    left_before.extend(range(before, len(old)))
    left_after.extend(range(after, len(new)))
    return left_before, left_after, runs


def _lost(old: Table, before: int, record: bytes) -> int:
    """How many records from here on are gone, if ``record`` is among the next ones; 0 if it is not."""
    for at in range(before + 1, min(before + 1 + _LOOK_AHEAD, len(old))):
        if old.record(at) == record:
            return at - before
    return 0


def _equal_run(old: Table, before: int, new: Table, after: int) -> int:
    """How many records are equal from here on; looks further the longer it goes well."""
    most = min(len(old) - before, len(new) - after)
    per = max(1, BLOCK // old.record_length)
    done, step = 0, 1
    while done < most:
        step = min(step, most - done)
        at = before + done, after + done
        if old.records(at[0], at[0] + step) == new.records(at[1], at[1] + step):
            done += step
            step = min(2 * step, per)
        elif step == 1:
            break
        else:
            step //= 2
            per = max(1, step)  # the end of the run is near: never further than this again
    return done


def same_bytes(one: Buffer, two: Buffer) -> bool:
    """Whether two files are equal."""
    return len(one) == len(two) and all(
        bytes(one[at : at + BLOCK]) == bytes(two[at : at + BLOCK]) for at in range(0, len(one), BLOCK)
    )


class MemoComparison:
    """Which memos of two states are certainly equal, without reading them.

    Attributes:
        identical: The memo files are byte for byte equal, or there are none: equal pointers mean equal memos.
    """

    def __init__(self, old: Table, new: Table) -> None:
        self._old, self._new = old, new
        self._starts: list[int] = []
        self._ends: list[int] = []
        one, two = old.memo, new.memo
        if one is None or two is None:
            self.identical = one is two
        else:
            self.identical = (one.kind, one.block_size) == (two.kind, two.block_size) and same_bytes(one.data, two.data)
            if not self.identical:
                self._find_ranges(one, two)
        largest = max(memo.size for memo in (one, two) if memo) if one or two else 0
        self._work = _MEMO_WORK_FREE + _MEMO_WORK_FACTOR * largest

    def _find_ranges(self, one: MemoFile, two: MemoFile) -> None:
        """Ranges of bytes that differ, beyond the header; a byte beyond one file's end differs."""
        common = min(one.size, two.size)
        if (one.kind, one.block_size) != (two.kind, two.block_size):
            common = 0
        for at in range(0, common, BLOCK):
            left, right = bytes(one.data[at : at + BLOCK]), bytes(two.data[at : at + BLOCK])
            if left == right:
                continue
            for page in range(0, min(BLOCK, common - at), _MEMO_PAGE):
                if left[page : page + _MEMO_PAGE] != right[page : page + _MEMO_PAGE]:
                    self._add(at + page, at + page + _MEMO_PAGE)
        self._add(common, max(one.size, two.size) + 1)

    def _add(self, start: int, end: int) -> None:
        if self._ends and self._ends[-1] >= start:
            self._ends[-1] = end
        else:
            self._starts.append(start)
            self._ends.append(end)

    def equal(self, before: bytes, after: bytes) -> bool:
        """Whether the memos that two pointers lead to are equal; where they lead nowhere, whether the pointers are.

        Raises:
            Unreadable: So many memos overlap that the pointers cannot be true.
        """
        if before == after and (self.identical or self._untouched(before)):
            return True
        return self._payload(self._old, before) == self._payload(self._new, after)

    def _payload(self, table: Table, raw: bytes) -> tuple[bool, bytes]:
        try:
            payload = table.memo_payload(raw)
        except BadMemo:
            return False, raw
        self._work -= len(payload)
        if self._work < 0:
            raise Unreadable(f"{table.name}: the memo file contradicts itself: memos overlap many times over")
        return True, payload

    def _untouched(self, raw: bytes) -> bool:
        """Whether a pointer's memo lies in bytes that are equal in both files."""
        memo = self._old.memo
        if memo is None or self._new.memo is None or len(raw) not in (4, 10):
            return False
        digits = raw.strip(b" \0")
        if len(raw) == 10 and not digits.isdigit():
            return False
        pointer = int.from_bytes(raw, "little") if len(raw) == 4 else int(digits)
        try:
            start, _, end = memo.extent(pointer)
        except BadMemo:
            return False
        # One byte more than the payload: the end mark of a dBASE III memo.
        last = bisect_right(self._starts, end) - 1
        return last < 0 or self._ends[last] <= start

    def changed_rows(self) -> array[int]:
        """Records, among those both states have, with equal pointers to memos that differ."""
        found = array("I")
        if self.identical:
            return found
        common = min(len(self._old), len(self._new))
        fields = self._new.memo_fields
        for index, _, raws in self._old.pointers():
            if index >= common:
                break
            record: bytes | None = None
            for raw, field in zip(raws, fields, strict=True):
                if self._untouched(raw):
                    continue
                record = record or self._new.record(index)
                if not self.equal(raw, record[field.offset : field.offset + field.length]):
                    found.append(index)
                    break
        return found


@dataclass(frozen=True, slots=True)
class Delta:
    """What differs between two rows.

    Attributes:
        changed: Fields whose values differ, in the order of the table after.
        format_only: Fields whose bytes differ and whose values do not.
        slack: Whether bytes differ that belong to no field.
        relocated: Memo fields that point elsewhere, to an equal memo.
    """

    changed: tuple[str, ...] = ()
    format_only: tuple[str, ...] = ()
    slack: bool = False
    relocated: int = 0


_NO_DELTA = Delta()


@dataclass(frozen=True, slots=True)
class _Pair:
    """One field in both tables."""

    before: Field
    after: Field
    alike: bool
    """Equal bytes are equal values."""
    memo: bool
    flagged: bool
    """Its value depends on the hidden flags too."""


class RowComparison:
    """Compares rows of two states of a table, field by field, decoding only fields whose bytes differ.

    Attributes:
        old: The state before.
        new: The state after.
        names: The fields that both have.
    """

    def __init__(self, old: Table, new: Table, memos: MemoComparison) -> None:
        self.old, self.new, self._memos = old, new, memos
        self._pairs: list[_Pair] = []
        for after in new.fields:
            before = old.by_name.get(after.name)
            if before is not None:
                memo = before in old.memo_fields and after in new.memo_fields and before.binary == after.binary
                alike = before.shape == after.shape and old.dialect is new.dialect
                bits = (before.null_bit, after.null_bit, before.length_bit, after.length_bit)
                flagged = any(bit is not None for bit in bits)
                self._pairs.append(_Pair(before, after, alike, memo, flagged))
        self.names = tuple(pair.after.name for pair in self._pairs)
        self._has_memos = any(pair.memo for pair in self._pairs)
        self._same_layout = (
            all(pair.alike for pair in self._pairs)
            and old.record_length == new.record_length
            and len(self._pairs) == len(old.fields) == len(new.fields)
        )

    def rows(self, before: int, after: int) -> Delta:
        """What differs between a row before and a row after; the deletion flag is not looked at."""
        one, two = self.old.record(before), self.new.record(after)
        same = self._same_layout and one[1:] == two[1:]
        if same and (self._memos.identical or not self._has_memos):
            return _NO_DELTA
        flags_equal = self.old.null_flags(one) == self.new.null_flags(two)
        changed: list[str] = []
        format_only: list[str] = []
        relocated = 0
        bytes_equal = True
        for pair in self._pairs:
            left = one[pair.before.offset : pair.before.offset + pair.before.length]
            right = two[pair.after.offset : pair.after.offset + pair.after.length]
            if pair.memo and not pair.flagged:
                if not self._memos.equal(left, right):
                    changed.append(pair.after.name)
                elif left != right:
                    relocated += 1
                bytes_equal = bytes_equal and left == right
                continue
            if left == right and pair.alike and not pair.memo and (flags_equal or not pair.flagged):
                continue
            if not self.old.cell(one, pair.before).same_value(self.new.cell(two, pair.after)):
                changed.append(pair.after.name)
            elif left != right and not pair.memo:
                format_only.append(pair.after.name)
            bytes_equal = bytes_equal and left == right
        slack = self._same_layout and not same and bytes_equal and flags_equal
        return Delta(tuple(changed), tuple(format_only), slack, relocated)

    def cells(self, index: int, *, before: bool) -> Sequence[Cell]:
        """The cells of a row in the fields that both tables have."""
        table = self.old if before else self.new
        record = table.record(index)
        return [table.cell(record, pair.before if before else pair.after) for pair in self._pairs]
