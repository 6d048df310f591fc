"""What can go wrong between us and a display."""

from __future__ import annotations


class DisplayError(Exception):
    """A display could not be used. Each subclass says what that means for the caller."""


class DisplayAuthError(DisplayError):
    """The display was reached, but it refused us, or asks for a way of authentication we do not speak.

    Trying again with the same password is useless.
    """


class DisplayProtocolError(DisplayError):
    """The peer sent something that RFC 6143 does not allow, or more than we accept.

    The connection is lost with it: there is no way to find the start of the next message.
    """


class DisplayTimeout(DisplayError):
    """The display did not answer within the deadline. The machine may be slow, or stuck."""


class DisplayClosed(DisplayError):
    """The connection is over: refused, ended by the peer, or closed by ourselves."""
