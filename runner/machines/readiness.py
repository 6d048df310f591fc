"""When a machine may be used: its freshness proven through its own guest, its programs there.

The same for every provider: what is proven does not depend on how the machine was made.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath

from contracts.schema import StartProgram
from runner.guests.base import Guest, GuestLost, GuestNotFound, Unreadable
from runner.guests.windows import wait_for_window
from runner.machines.base import MachineError, SetupError
from runner.machines.images import Image, Program

NONCE = PureWindowsPath(r"C:\legacyproof\nonce.txt")
MAX_CLOCK_OFFSET = 5.0
"""Seconds between guest and host beyond which a machine is not used: its dates would be wrong."""
_FILETIME_EPOCH = 11_644_473_600
"""Seconds from 1601, where Windows' clock begins, to 1970."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a machine has proven of itself.

    Attributes:
        nonce: A random text planted in it and read back.
        clock_offset: Guest clock minus host clock, in seconds: the least that fits what was seen.
        utc_offset: The guest's zone: local time minus UTC, in seconds.
    """

    nonce: str
    clock_offset: float
    utc_offset: int


def prove(guest: Guest, *, timeout: float = 60.0) -> Answered:
    """Plants a nonce, reads it back through the probe, and measures the clock.

    Args:
        guest: The way into the machine.
        timeout: Seconds for the first answer; a machine that was just started may be slow.

    Raises:
        MachineError: The nonce does not read back, the clock is off, or the guest does not answer.
    """
    nonce = secrets.token_hex(16)
    try:
        guest.write(NONCE, nonce.encode(), timeout=timeout)
        asked = time.time()
        answer = guest.probe("read", str(NONCE), timeout=timeout)
        answered = time.time()
    except (Unreadable, GuestNotFound, GuestLost) as error:
        raise MachineError(f"the machine's freshness could not be proven: {error}") from None
    if answer.data != nonce.encode():
        raise MachineError("the nonce planted in this clone does not read back: the guest channel leads elsewhere")
    shown = answer.header.time / 10_000_000 - _FILETIME_EPOCH
    return Answered(nonce, clock_offset(shown, asked, answered), -answer.header.tz_bias_min * 60)


def clock_offset(shown: float, asked: float, answered: float) -> float:
    """Guest clock minus host clock, in seconds, to the millisecond: the least that fits what was seen.

    Args:
        shown: What the guest's clock showed, in seconds since 1970.
        asked: What the host's showed before.
        answered: What the host's showed after.

    Raises:
        MachineError: It is more than :data:`MAX_CLOCK_OFFSET`.
    """
    # It was read at some moment of the call, which is long where a machine is slow: only what lies outside of it is an offset.
    offset = shown - min(max(shown, asked), answered)
    if abs(offset) > MAX_CLOCK_OFFSET:
        raise MachineError(f"the machine's clock is {offset:.1f} s off")
    return round(offset, 3)


def program_of(image: Image, wanted: StartProgram) -> Program:
    """The image's program that a contract wants to be started.

    Raises:
        SetupError: The image knows no such program.
    """
    program = image.manifest.programs.get(wanted.program)
    if program is None:
        there = ", ".join(sorted(image.manifest.programs)) or "none"
        raise SetupError(f"the image {image.manifest.name} has no program {wanted.program!r}; it has: {there}")
    return program


def start_programs(guest: Guest, image: Image, programs: Sequence[StartProgram]) -> None:
    """Starts programs one after the other and waits for the window of each.

    Raises:
        SetupError: The image knows no such program.
        MachineError: It could not be started, or its window did not appear in time.
    """
    for wanted in programs:
        program = program_of(image, wanted)
        try:
            guest.start([program.start, *program.arguments], cwd=PureWindowsPath(program.start).parent)
        except (Unreadable, GuestLost) as error:
            raise MachineError(f"{wanted.program} did not start: {error}") from None
        await_windows(guest, image, [wanted])


def await_windows(guest: Guest, image: Image, programs: Sequence[StartProgram]) -> None:
    """Waits for the windows of programs that have been started.

    Raises:
        SetupError: The image knows no such program.
        MachineError: A window did not appear in time.
    """
    for wanted in programs:
        program = program_of(image, wanted)
        window = wanted.window if wanted.window is not None else program.window
        try:
            if window is not None:
                wait_for_window(guest, window, timeout=wanted.timeout)
        except (Unreadable, GuestLost, TimeoutError) as error:
            raise MachineError(f"{wanted.program} did not start: {error}") from None
