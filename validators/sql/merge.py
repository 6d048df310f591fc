"""Finds the lines in which two tables differ: a comparison of memory where they are equal, and line by line where not.

Nothing is assumed of the order but that it is nearly the same on both sides, which makes it fast; rows in another order
cost time and memory, never correctness: every line that is not told to differ has a line of the same bytes on the other side.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any

from validators.sql.table import Buffer

_LARGEST = 1 << 18
_SMALLEST = 1 << 12
_AHEAD = 1 << 16
"""How many lines are looked at on either side to find where the two go on alike."""


class Unequal:
    """Where lines begin that differ: ``gone`` in the table before, ``new`` in the one after, in their order."""

    def __init__(self) -> None:
        self.gone: array[int] = array("Q")
        self.new: array[int] = array("Q")


def line_at(rows: Buffer, start: int) -> bytes:
    """The line that begins there, without its line feed."""
    end = rows.find(b"\n", start)
    return rows[start : end if end >= 0 else len(rows)]


def unequal_lines(before: Buffer, after: Buffer, key_of: Callable[[bytes], Any]) -> Unequal:
    """The lines that have no equal on the other side, each as often as it is missing there.

    Args:
        before: The lines before.
        after: The lines after.
        key_of: A line's key, by which the place is found again after a difference; need not be unique.
    """
    found = Unequal()
    if before is not after:
        for gone, new in _candidates(before, after, key_of):
            found.gone.extend(gone)
            found.new.extend(new)
        _cancel(before, after, found)
    return found


def _candidates(before: Buffer, after: Buffer, key_of: Callable[[bytes], Any]) -> Iterator[tuple[list[int], list[int]]]:
    p = q = 0
    size = _SMALLEST
    while p < len(before) or q < len(after):
        one, two = before[p : p + size], after[q : q + size]
        if one == two:
            step = one.rfind(b"\n") + 1
            if step == 0:  # a line longer than the block
                size *= 2
                continue
            p, q = p + step, q + step
            size = min(max(size, _SMALLEST) * 2, max(_LARGEST, size))
            continue
        start = one.rfind(b"\n", 0, _first_difference(one, two)) + 1
        p, q = p + start, q + start
        gone, new, p, q = _apart(before, p, after, q, key_of)
        size = _SMALLEST
        yield gone, new


def _first_difference(one: bytes, two: bytes) -> int:
    low, high = 0, min(len(one), len(two))  # equal before low; a difference, or an end, at or before high
    while low < high:
        middle = (low + high) // 2
        if one[low : middle + 1] == two[low : middle + 1]:
            low = middle + 1
        else:
            high = middle
    return low


def _apart(
    before: Buffer, p: int, after: Buffer, q: int, key_of: Callable[[bytes], Any]
) -> tuple[list[int], list[int], int, int]:
    """From two places that differ to where both have a row of the same key: the lines between, and the places there.

    The row of the same key belongs to the lines that differ if its bytes do.
    """
    starts: tuple[list[int], list[int]] = ([], [])
    seen: tuple[dict[Any, int], dict[Any, int]] = ({}, {})
    place = [p, q]
    rows = (before, after)
    while len(starts[0]) < _AHEAD and len(starts[1]) < _AHEAD:
        moved = False
        for side in (0, 1):
            if place[side] >= len(rows[side]):
                continue
            moved = True
            begin = place[side]
            line = line_at(rows[side], begin)
            place[side] = begin + len(line) + 1
            key = key_of(line)
            index = len(starts[side])
            starts[side].append(begin)
            seen[side].setdefault(key, index)
            other = seen[1 - side].get(key)
            if other is None:
                continue
            at = (index, other) if side == 0 else (other, index)
            gone, new = starts[0][: at[0]], starts[1][: at[1]]
            one, two = starts[0][at[0]], starts[1][at[1]]
            left, right = line_at(before, one), line_at(after, two)
            if left != right:
                gone.append(one)
                new.append(two)
                one, two = one + len(left) + 1, two + len(right) + 1
            return gone, new, one, two
        if not moved:
            break
    return starts[0], starts[1], place[0], place[1]


def _cancel(before: Buffer, after: Buffer, found: Unequal) -> None:
    """Takes out lines that are on both sides, only elsewhere."""
    if not found.gone or not found.new:
        return
    waiting: dict[int, list[int]] = {}
    for start in found.gone:
        waiting.setdefault(hash(line_at(before, start)), []).append(start)
    new: array[int] = array("Q")
    matched: set[int] = set()
    for start in found.new:
        line = line_at(after, start)
        equals = waiting.get(hash(line), [])
        for index in range(len(equals) - 1, -1, -1):
            if line_at(before, equals[index]) == line:
                matched.add(equals.pop(index))
                break
        else:
            new.append(start)
    if matched:
        found.gone = array("Q", (start for start in found.gone if start not in matched))
        found.new = new
