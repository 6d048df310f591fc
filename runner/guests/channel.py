"""Ways to the QEMU guest agent: what a channel promises.

A channel carries one agent command at a time. It tells three ends apart: the agent's answer, the agent's refusal
(:class:`AgentError`), and no usable answer (:class:`ChannelTimeout`), after which the command may or may not have been carried
out. Whether it may be sent again only its sender knows, so a channel never does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

__all__ = ["AgentError", "Channel", "ChannelTimeout"]


class AgentError(Exception):
    """The agent carried the command out and says that it failed, or refused it.

    Attributes:
        kind: The error's class, such as ``GenericError`` or ``CommandNotFound``.
        reason: What the agent says about it; bounded, in the guest's language.
    """

    def __init__(self, kind: str, reason: str) -> None:
        self.kind = kind[:100]
        # Its end says what was wrong; what it says it of, such as a long path, stands before.
        self.reason = reason if len(reason) <= 1000 else f"{reason[:500]} … {reason[-500:]}"
        super().__init__(f"the guest agent says: {self.reason}")


class ChannelTimeout(Exception):
    """No usable reply: none in time, the connection broke, or it was garbage. The command may have been carried out."""


class Channel(Protocol):
    """One agent command at a time."""

    def command(self, name: str, arguments: Mapping[str, object], timeout: float) -> object:
        """Has the agent carry out a command.

        Args:
            name: Such as ``guest-file-open``.
            arguments: As the agent's schema defines them.
            timeout: Seconds for the reply.

        Returns:
            The reply's ``return`` member, as JSON decodes it; nothing in it has been checked.

        Raises:
            AgentError: The agent refused, or failed.
            ChannelTimeout: No usable reply came.
            GuestLost: There is no agent any more: the machine is gone.
        """
