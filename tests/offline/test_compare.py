"""Contents are compared where they can differ, at a cost that does not grow with what was never written."""

from __future__ import annotations

import pytest

from runner.offline.compare import Clusters, differing, same_content
from runner.offline.ntfs.geometry import Geometry
from runner.offline.ntfs.record import COMPRESSED, Attribute
from runner.offline.ntfs.stream import Stream
from runner.offline.source import Memory
from tests.peers.ntfs import CLUSTER, mapped

SHAPE = Geometry(512, CLUSTER, 1024, 64, 1, 0)
OLD = Memory(b"".join(bytes([number]) * CLUSTER for number in range(64)))


def stream(
    runs: list[tuple[int, int | None]], size: int, source: Memory = OLD, *, initialized: int = -1, flags: int = 0
) -> Stream:
    pairs = mapped(0x80, runs, size)[64:]
    last = sum(count for count, _ in runs) - 1
    initialized = size if initialized < 0 else initialized
    return Stream([Attribute(0x80, "", flags, 0, None, 0, last, size, initialized, 0, pairs)], source, SHAPE)


def changed_to(place: int, data: bytes) -> Memory:
    whole = bytearray(OLD.read(0, OLD.size))
    whole[place : place + len(data)] = data
    return Memory(bytes(whole))


def same(old: Stream, new: Stream, after: Memory = OLD) -> bool:
    return same_content(old, new, differing(OLD, after, [(0, OLD.size)], CLUSTER), CLUSTER, (OLD, after))


def test_only_what_changed_is_found() -> None:
    after = changed_to(5 * CLUSTER + 10, b"!")
    assert list(differing(OLD, after, [(0, OLD.size)], CLUSTER)) == [(5, 5)]
    assert list(differing(OLD, after, [(0, 4 * CLUSTER), (6 * CLUSTER, 100)], CLUSTER)) == []
    assert list(differing(OLD, after, [(5 * CLUSTER + 1000, 10), (5 * CLUSTER + 1020, 9)], CLUSTER)) == [(5, 5)]
    assert not same(stream([(4, 4)], 4000), stream([(4, 4)], 4000, after), after)
    assert same(stream([(4, 10)], 4000), stream([(4, 10)], 4000, after), after)


def test_what_lies_behind_the_end_does_not_count() -> None:
    after = changed_to(5 * CLUSTER + 900, b"!")
    assert same(stream([(2, 4)], CLUSTER + 900), stream([(2, 4)], CLUSTER + 900, after), after)
    assert not same(stream([(2, 4)], CLUSTER + 901), stream([(2, 4)], CLUSTER + 901, after), after)
    assert same(
        stream([(2, 4)], 2 * CLUSTER, initialized=CLUSTER + 900),
        stream([(2, 4)], 2 * CLUSTER, after, initialized=CLUSTER + 900),
        after,
    )


def test_a_content_that_was_moved_is_the_same_one() -> None:
    after = changed_to(40 * CLUSTER, OLD.read(4 * CLUSTER, 2 * CLUSTER))
    assert same(stream([(2, 4)], 2000), stream([(2, 40)], 2000, after), after)
    assert same(stream([(2, 4)], 2000), stream([(1, 40), (1, 5)], 2000, after), after)
    assert not same(stream([(2, 4)], 2000), stream([(1, 40), (1, 6)], 2000, after), after)
    assert not same(stream([(2, 4)], 2000), stream([(2, 4)], 2001))


def test_zeros_are_zeros_however_they_are_kept() -> None:
    assert same(stream([(1, 0), (1, None)], 2000), stream([(2, None)], 2000))
    assert not same(stream([(2, None)], 2000), stream([(1, None), (1, 7)], 2000))
    assert same(stream([(2, 0)], 2000, initialized=1000), stream([(2, 0)], 2000, initialized=0))
    assert not same(stream([(2, 0)], 2000, initialized=1000), stream([(2, 0)], 2000, initialized=2000))


def test_a_huge_gap_costs_nothing() -> None:
    gap, size = (1 << 30, None), 1 << 40
    assert same(stream([(1, 4), gap], size, initialized=1), stream([(1, 4), gap], size)) is False
    assert same(stream([(1, 4), gap], size, initialized=CLUSTER), stream([(1, 4), gap], size))
    assert not same(stream([(1, 4), gap], size, flags=COMPRESSED), stream([(1, 4), gap], size))


@pytest.mark.parametrize(("other", "left"), [([], 7), ([(0, 100)], 0), ([(3, 4), (11, 30)], 4), ([(5, 5)], 6)])
def test_sets_of_clusters(other: list[tuple[int, int]], left: int) -> None:
    some = Clusters([(2, 3), (4, 5), (5, 6), (10, 11)])
    assert list(some) == [(2, 6), (10, 11)]
    assert some.count() == 7
    assert some.without(Clusters(other)) == left
    assert list(some.within(6, 10)) == [(6, 6), (10, 10)]
