"""A domain that runs: starting it from nothing or from a saved memory, reaching its guest agent, ending it."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from runner.display.errors import DisplayError
from runner.display.handshake import DisplayAddress
from runner.display.rfb import RfbClient
from runner.guests.base import GuestLost
from runner.guests.channel import AgentError, ChannelTimeout
from runner.machines.base import MachineError
from runner.machines.virt.domain_xml import Domain, xml_of
from runner.machines.virt.hypervisor import Hypervisor, HypervisorError
from runner.machines.virt.tunnel import Tunnel, by_ssh, free_port

_PORT_TRIES = 8
_START_SECONDS = 120.0
_QUICK_SECONDS = 30.0
_AGENT_GRACE = 10.0
"""Seconds that libvirt gets beyond a guest agent's own time before it counts as hanging."""
_PAUSE = 0.05
_LONGEST_PAUSE = 2.0
_DARK_SHARE = 0.9
"""A screen is not painted yet while this share of it is black: what a text console at start-up leaves."""


class MemoryRefused(MachineError):
    """The host cannot map a machine's memory from a file, save it, or go on from it."""


class NameTaken(MachineError):
    """There is a domain of that name already, and it is not ours to end."""


def new_password() -> str:
    """A random one for VNC, which uses eight characters."""
    return secrets.token_urlsafe(6)[:8]


class RunningDomain:
    """A domain that was started.

    Attributes:
        name: Its name.
        uuid: New with every start.
        display: Its screen, on this host: that of a machine elsewhere is brought here.
    """

    def __init__(self, hypervisor: Hypervisor, domain: Domain) -> None:
        """Use :meth:`start`."""
        self._hypervisor = hypervisor
        self.name = domain.name
        self.uuid = domain.uuid
        self.display = DisplayAddress("127.0.0.1", domain.screen.port, domain.screen.password)
        self._tunnel: Tunnel | None = None

    @classmethod
    def start(cls, hypervisor: Hypervisor, domain: Domain, *, saved: Path | None = None) -> RunningDomain:
        """Starts a domain.

        Args:
            hypervisor: Where.
            domain: What; UUID and, on this host, the screen's port are chosen here.
            saved: The state it goes on from; its memory is a file then (``domain.memory``).

        Raises:
            MemoryRefused: Its memory cannot be a file, or it does not go on from the saved state; nothing is left of it.
            NameTaken: There is such a domain.
            MachineError: It could not be started; nothing is left of it.
        """
        local = not by_ssh(hypervisor.uri)
        for attempt in range(_PORT_TRIES):
            screen = replace(domain.screen, port=free_port() if local else 0)
            made = replace(domain, screen=screen, uuid=str(uuid.uuid4()))
            try:
                hypervisor.call("create", timeout=_START_SECONDS, xml=xml_of(made), paused=saved is not None)
                break
            except HypervisorError as error:
                said = str(error).lower()
                if "address already in use" in said and attempt + 1 < _PORT_TRIES:
                    continue  # another program took the port between choosing and using it
                if "already exists" in said or "already active" in said or "already defined" in said:
                    raise NameTaken(f"there is another domain named {domain.name}: {error}") from None
                if error.kind in ("late", "connection"):
                    _end_quietly(hypervisor, made.name)
                    raise MachineError(f"{made.name} could not be started: {error}") from None
                if made.memory is not None:
                    raise MemoryRefused(
                        f"{made.name} could not be started with its memory in a file: {error}"
                    ) from None
                raise MachineError(f"{made.name} could not be started: {error}") from None
        running = cls(hypervisor, made)
        try:
            if saved is not None:
                running._load(saved)
            if not local:
                running._bring_screen_here()
        except BaseException:
            _end_quietly(hypervisor, made.name)
            raise
        return running

    def _load(self, saved: Path) -> None:
        try:
            self._hypervisor.call(
                "load_memory", timeout=_START_SECONDS, name=self.name, path=str(saved), seconds=_START_SECONDS - 10
            )
            self.resume()
        except HypervisorError as error:
            if error.kind in ("late", "connection"):
                raise MachineError(f"{self.name} could not be started: {error}") from None
            raise MemoryRefused(f"{self.name} does not go on from its saved memory: {error}") from None

    def _bring_screen_here(self) -> None:
        port = int(self._hypervisor.call("display_port", timeout=_QUICK_SECONDS, again=True, name=self.name))
        self._tunnel = Tunnel(self._hypervisor.uri, port)
        self.display = replace(self.display, port=self._tunnel.port)

    # -- its state ------------------------------------------------------------------------------------------------------

    def state(self) -> str:
        """``running``, ``paused``, ``off``, ``gone`` or ``other``.

        Raises:
            HypervisorError: libvirt does not tell.
        """
        return str(self._hypervisor.call("state", timeout=_QUICK_SECONDS, again=True, name=self.name))

    def suspend(self) -> None:
        """Stops its processors; QEMU writes out what it holds of the disks.

        Raises:
            HypervisorError: It could not be stopped.
        """
        self._hypervisor.call("suspend", timeout=_QUICK_SECONDS, again=True, name=self.name)

    def resume(self) -> None:
        """Lets it go on.

        Raises:
            HypervisorError: It does not.
        """
        self._hypervisor.call("resume", timeout=_QUICK_SECONDS, again=True, name=self.name)

    def save_memory(self, path: Path, *, timeout: float = 120.0) -> None:
        """Writes the state of its devices while it is suspended.

        Raises:
            MemoryRefused: It could not be saved.
            HypervisorError: libvirt is gone.
        """
        try:
            self._hypervisor.call("save_memory", timeout=timeout + 10, name=self.name, path=str(path), seconds=timeout)
        except HypervisorError as error:
            if error.kind in ("late", "connection"):
                raise
            raise MemoryRefused(f"the memory of {self.name} could not be saved: {error}") from None

    def shut_down(self, *, timeout: float) -> None:
        """Asks its system to shut down, and waits until it is off.

        Raises:
            MachineError: It is not off in time.
        """
        deadline = time.monotonic() + timeout
        self._hypervisor.call("shutdown", timeout=_QUICK_SECONDS, again=True, name=self.name)
        self.await_off(deadline)

    def await_off(self, deadline: float) -> None:
        """Waits until it is off.

        Raises:
            MachineError: It is not off at the deadline.
        """
        while self.state() not in ("off", "gone"):
            if time.monotonic() > deadline:
                raise MachineError(f"{self.name} did not shut down in time")
            time.sleep(_PAUSE)

    def destroy(self) -> None:
        """Ends it at once and makes sure that it is gone; safe to call twice.

        Raises:
            HypervisorError: It could not be ended.
        """
        if self._tunnel is not None:
            self._tunnel.close()
        self._hypervisor.call("destroy", timeout=_QUICK_SECONDS, again=True, name=self.name)
        state = self.state()
        if state not in ("gone", "off"):
            raise HypervisorError("operation", f"{self.name} was ended, but libvirt says that it is {state}")

    # -- its screen -----------------------------------------------------------------------------------------------------

    def await_screen(self, size: tuple[int, int], deadline: float) -> None:
        """Waits until the screen has its size and something is painted on it.

        A window may be there long before its pixels are, and the console of a starting system is black but for some text.

        Raises:
            MachineError: It is not painted in time.
        """
        seen = "it could not be reached"
        pause = _PAUSE
        while True:
            try:
                with RfbClient.connect(
                    self.display, timeout=max(1.0, min(10.0, deadline - time.monotonic()))
                ) as client:
                    picture = client.screenshot(timeout=max(1.0, min(10.0, deadline - time.monotonic())))
                black = picture.convert("L").histogram()[0] / (picture.width * picture.height)
                if picture.size == size and black < _DARK_SHARE:
                    return
                seen = f"it shows {picture.width} × {picture.height} pixels, {black:.0%} of them black"
            except DisplayError as error:
                seen = str(error)
            if time.monotonic() > deadline:
                raise MachineError(f"the screen of {self.name} was not painted ({size[0]} × {size[1]}) in time: {seen}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)  # each picture costs the machine time that it needs to get there


def _end_quietly(hypervisor: Hypervisor, name: str) -> None:
    with contextlib.suppress(HypervisorError):
        hypervisor.call("destroy", timeout=_QUICK_SECONDS, again=True, name=name)


class AgentChannel:
    """Commands of the QEMU guest agent through libvirt (see :class:`runner.guests.channel.Channel`)."""

    def __init__(self, hypervisor: Hypervisor, name: str) -> None:
        self._hypervisor = hypervisor
        self._name = name

    def command(self, name: str, arguments: Mapping[str, object], timeout: float) -> object:
        """See :meth:`runner.guests.channel.Channel.command`."""
        request = json.dumps({"execute": name, **({"arguments": dict(arguments)} if arguments else {})})
        seconds = max(1, round(timeout))
        try:
            answer = self._hypervisor.call(
                "agent", timeout=seconds + _AGENT_GRACE, name=self._name, command=request, seconds=seconds
            )
        except HypervisorError as error:
            if error.kind == "agent_refused":
                raise AgentError("GenericError", str(error)) from None
            if error.kind in ("agent_unresponsive", "late", "connection"):
                raise ChannelTimeout(f"the guest agent did not answer {name}: {error}") from None
            raise GuestLost(f"the guest agent cannot be reached: {error}") from None
        if not isinstance(answer, dict) or "return" not in answer:
            raise ChannelTimeout(f"the guest agent's reply to {name} holds no result")
        return answer["return"]
