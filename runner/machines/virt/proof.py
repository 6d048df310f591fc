"""A clone's freshness proven through the guest agent alone: no program needs to be started in it, which is slow under emulation.

The checkpoint was proven through the probe when it was made (:func:`runner.machines.readiness.prove`), and its last nonce is kept with
it. A clone that holds this very nonce is in the checkpoint's state, and nobody has proven it before; the one that is planted then is
its own.
"""

from __future__ import annotations

import secrets
import time
from pathlib import PureWindowsPath

from runner.guests.agent import Agent, ReplyLost
from runner.guests.base import GuestLost, GuestNotFound, Unreadable
from runner.guests.channel import AgentError
from runner.guests.dialects import Dialect
from runner.machines.base import MachineError
from runner.machines.readiness import NONCE, Answered, clock_offset

_MAX_ZONE = 26 * 3600
"""Seconds between two zones on Earth at most."""


def prove_by_agent(agent: Agent, dialect: Dialect, *, before: str, timeout: float) -> Answered:
    """Finds the nonce that must be there, plants a new one in its place, reads it back, and measures the clock.

    Args:
        agent: The guest's agent.
        dialect: What kind of system it runs in.
        before: The nonce that was planted last in what the machine is made from.
        timeout: Seconds for all of it.

    Raises:
        MachineError: It holds another nonce, the new one does not read back, the clock is off, or the agent does not do what it is asked.
    """
    deadline = time.monotonic() + timeout
    nonce = secrets.token_hex(16)
    try:
        place = _native(dialect, NONCE)
        if agent.read_file(place, limit=1024, deadline=deadline) != before.encode():
            raise MachineError(
                "the machine is not in its checkpoint's state: the nonce in it is not the one that was planted there last"
            )
        agent.write_file(place, nonce.encode(), deadline=deadline)
        found = agent.read_file(place, limit=1024, deadline=deadline)
        asked = time.time()
        shown = agent.time(deadline=deadline) / 1e9
        answered = time.time()
        zone = _utc_offset(agent.call("guest-get-timezone", deadline=deadline))
    except (AgentError, ReplyLost, GuestLost, GuestNotFound, Unreadable) as error:
        raise MachineError(f"the machine's freshness could not be proven: {error}") from None
    if found != nonce.encode():
        raise MachineError("the nonce planted in this clone does not read back: the guest channel leads elsewhere")
    return Answered(nonce, clock_offset(shown, asked, answered), zone)


def _native(dialect: Dialect, path: PureWindowsPath) -> str:
    native = dialect.native(path)
    if native is None:
        raise Unreadable(f"the guest agent cannot reach {path}")
    return native


def _utc_offset(answer: object) -> int:
    """Local time minus UTC in seconds, of an answer to ``guest-get-timezone``."""
    offset = answer.get("offset") if isinstance(answer, dict) else None
    if type(offset) is not int or abs(offset) > _MAX_ZONE:
        raise Unreadable("the guest agent does not tell the guest's time zone")
    return offset
