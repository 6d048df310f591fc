"""A small mutation fuzzer for readers of hostile bytes: many cases, a time bound on each, a memory bound on all.

A *target* reads bytes and may raise only what it says. Everything else is a finding: another exception, a case that takes longer
than :data:`SLOW` seconds, or a process that needs more memory than :data:`MEMORY` beyond what it began with. A finding names the
input, so that it can be made a test.
"""

from __future__ import annotations

import random
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType

SLOW = 5.0
"""Seconds after which a case counts as a hang."""
MEMORY = 512 << 20
"""Bytes that a run may need beyond what its process had at the start."""
MAX_FINDINGS = 20
_INTERESTING = (0, 1, 0x7F, 0x80, 0xFF, 0x1A, 0x0D, 0x20, 0x2A)
_WORDS = tuple(n.to_bytes(4, "little") for n in (0, 1, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0000))


@dataclass(frozen=True)
class Target:
    """A reader under test.

    Attributes:
        name: What tables show.
        seeds: Valid inputs.
        read: Reads an input; raises only ``expected``.
        expected: The exceptions that mean "refused".
        bad: Known bad inputs, which are refused.
    """

    name: str
    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    expected: tuple[type[Exception], ...]
    bad: Sequence[bytes] = ()


@dataclass
class Outcome:
    """What a run found."""

    target: str
    cases: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    memory_mib: float = 0.0
    findings: list[str] = field(default_factory=list)


class _Hang(BaseException):
    pass


def _alarm(_number: int, _frame: FrameType | None) -> None:
    raise _Hang


def mutated(seed: bytes, other: bytes, rng: random.Random) -> bytes:
    """A changed copy: a few bytes, whole words, cuts, repeats, or a part of another seed."""
    data = bytearray(seed)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 | 1 if place < len(data):
                data[place] = rng.choice(_INTERESTING) if rng.random() < 0.5 else rng.randrange(256)
            case 2 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 3:
                data[place : place + 4] = rng.choice(_WORDS)
            case 4:
                del data[place : place + rng.choice((1, 2, 32, 512))]
            case 5:
                data[place:place] = rng.randbytes(rng.choice((1, 4, 33)))
            case 6:
                begin = rng.randrange(len(other) + 1)
                data[place:place] = other[begin : begin + rng.choice((8, 64, 512))]
            case _:
                del data[rng.choice((place, len(data) // 2)) :]
    return bytes(data)


def run(target: Target, cases: int, seed: int) -> Outcome:
    """Reads so many mutated inputs; the same seed gives the same inputs. Works in the main thread of a process only."""
    rng = random.Random(f"{target.name} {seed}")
    outcome = Outcome(target.name)
    seeds = [*target.seeds, *target.bad]
    began = time.process_time()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    old = signal.signal(signal.SIGPROF, _alarm)
    try:
        for number in range(cases):
            data = mutated(rng.choice(seeds), rng.choice(seeds), rng)
            start = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, SLOW)  # of the processor: others use the machine as well
            try:
                target.read(data)
            except target.expected:
                outcome.refused += 1
            except _Hang:
                outcome.findings.append(f"case {number}: longer than {SLOW:g} s: {data.hex()}")
            except Exception as error:  # whatever it is, it should not have come
                outcome.findings.append(f"case {number}: {type(error).__name__}: {error}: {data.hex()}")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            outcome.slowest = max(outcome.slowest, time.process_time() - start)
            outcome.cases += 1
            if len(outcome.findings) >= MAX_FINDINGS:
                break
    finally:
        signal.signal(signal.SIGPROF, old)
    outcome.seconds = time.process_time() - began
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * 1024
    outcome.memory_mib = used / 2**20
    if used > MEMORY:
        outcome.findings.append(f"{used >> 20} MiB of memory, more than {MEMORY >> 20}")
    return outcome
