"""A short run of the fuzzer in every test run; the long one is ``make fuzz``."""

from __future__ import annotations

import pytest

from tests.fuzz.engine import Target, run
from tests.fuzz.targets import targets


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_hostile_bytes_are_read_or_refused(target: Target) -> None:
    for seed in target.seeds:
        target.read(seed)  # the seeds themselves are valid
    for bad in target.bad:
        with pytest.raises(target.expected):
            target.read(bad)
    assert run(target, 3_000, seed=1).findings == []


def test_the_fuzzer_finds_what_it_should() -> None:
    def crash(data: bytes) -> None:
        if data[:1] != b"a":
            raise ZeroDivisionError

    assert "ZeroDivisionError" in run(Target("crash", [b"abc"], crash, (ValueError,)), 2_000, seed=1).findings[0]


def test_the_same_seed_gives_the_same_cases() -> None:
    seen: list[list[bytes]] = [[], []]
    for kept in seen:
        run(Target("same", [b"abcdefgh", b"xyz"], kept.append, ()), 200, seed=7)
    assert seen[0] == seen[1]
    assert len(set(seen[0])) > 100
