"""The assignment against a search through every possible one."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validators.assignment import Places, assign


def best_by_search(accepting: list[tuple[int, ...]], places: list[Places]) -> list[int | None]:
    """The wanted assignment, found by trying all of them."""
    best: tuple[tuple[object, ...], tuple[int | None, ...]] | None = None
    for chosen in itertools.product(*[(*rules, None) for rules in accepting]):
        counts = [chosen.count(rule) for rule in range(len(places))]
        if any(p.capacity is not None and n > p.capacity for n, p in zip(counts, places, strict=True)):
            continue
        filled = sum(min(n, p.required) for n, p in zip(counts, places, strict=True))
        ranks = tuple(len(places) if rule is None else rule for rule in chosen)
        score = (-filled, chosen.count(None), ranks)
        if best is None or score < best[0]:
            best = (score, chosen)
    assert best is not None
    return list(best[1])


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[Places]]:
    rules = draw(st.integers(1, 4))
    places = []
    for _ in range(rules):
        capacity = draw(st.one_of(st.none(), st.integers(0, 3)))
        required = draw(st.integers(0, 3 if capacity is None else capacity))
        places.append(Places(required, capacity))
    subsets = st.sets(st.integers(0, rules - 1)).map(lambda found: tuple(sorted(found)))
    return draw(st.lists(subsets, max_size=6)), places


@settings(max_examples=1500, deadline=None)
@given(problems())
def test_finds_what_an_exhaustive_search_finds(problem: tuple[list[tuple[int, ...]], list[Places]]) -> None:
    assert assign(*problem) == best_by_search(*problem)


def test_many_small_problems_with_single_places() -> None:
    dice = random.Random(7)
    for _ in range(1500):
        rules = dice.randint(1, 4)
        places = [Places(*dice.choice([(1, 1), (1, 1), (0, 1), (1, 2), (0, None), (1, None)])) for _ in range(rules)]
        accepting = [tuple(r for r in range(rules) if dice.random() < 0.5) for _ in range(dice.randint(0, 6))]
        assert assign(accepting, places) == best_by_search(accepting, places), (accepting, places)


@pytest.mark.parametrize(
    ("accepting", "places", "expected"),
    [
        ([], [], []),
        ([()], [], [None]),
        ([(0,), (0,)], [Places(1, 1)], [0, None]),
        ([(0, 1), (0,)], [Places(1, 1), Places(1, 1)], [1, 0]),
        ([(0, 1), (0, 1)], [Places(1, 1), Places(0, None)], [0, 1]),
        ([(1,), (0, 1)], [Places(0, None), Places(1, 1)], [1, 0]),
        ([(0, 1)] * 3, [Places(1, None), Places(1, 1)], [0, 0, 1]),
    ],
)
def test_examples(accepting: list[tuple[int, ...]], places: list[Places], expected: list[int | None]) -> None:
    assert assign(accepting, places) == expected


def test_crowds_are_quick() -> None:
    dice = random.Random(1)
    places = [Places(1, 1) for _ in range(100)] + [Places(0, 50_000), Places(0, None)]
    accepting = [tuple(sorted({*dice.sample(range(100), 3), 100, *([101] if n % 2 else [])})) for n in range(100_000)]
    began = time.perf_counter()
    result = assign(accepting, places)
    assert time.perf_counter() - began < 60
    assert sorted(rule for rule in result if rule is not None and rule < 100) == list(range(100))
    assert sum(rule == 100 for rule in result) == 50_000
