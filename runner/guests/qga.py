r"""The way into a virtual machine by QEMU's guest agent and the probe that lies in the machine.

The agent itself does little: it starts the probe, moves files of our own, freezes file systems and sets the clock. Everything
else is the probe's work, which is started for one request (``lpprobe ask``) and gets it as JSON on its standard input: no command
line needs to be quoted for the agent, and code pages do not matter. Where starting it takes long, one stays
(:mod:`runner.guests.resident`). An answer that is too large for the agent's reply lies in a
file beside the probe and is fetched in chunks.

**A lost reply never runs a program twice.** The agent reports the end of a program once and then forgets it, so either of two
replies may be lost with everything that it said. Reading commands of the probe are simply asked again. The two that run
something carry a token: the probe that is first to claim the token's file runs the program and keeps how it ended beside the
claim; every other one with the same token waits for that and tells it again. So these may be asked again as well.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import PureWindowsPath

from runner.guests.agent import READ_CHUNK, Agent, Ended, ReplyLost
from runner.guests.base import Completed, GuestLost, GuestNotFound, Unreadable
from runner.guests.by_probe import read_by_probe
from runner.guests.channel import AgentError, Channel, ChannelTimeout
from runner.guests.dialects import WINDOWS, WINE, AgentCommand, Dialect
from runner.guests.probe import ProbeError, ProbeLimits, ProbeResult, encode_request, parse, spilled
from runner.guests.resident import ResidentProbe

__all__ = [
    "PROBE",
    "WINDOWS",
    "WINE",
    "AgentError",
    "Channel",
    "ChannelTimeout",
    "Dialect",
    "QgaGuest",
    "install_probe",
]

PROBE = PureWindowsPath(r"C:\legacyproof\lpprobe.exe")
"""Where the probe lies in a guest."""
_ASKED = 3
"""How often the probe is asked the same before its silence is believed."""
_SPILLS = 8
"""Files that large answers take turns in."""
_PING = 5.0
_RUN_GRACE = 30.0
"""Seconds that the probe is given beyond a program's own time, to end it and to tell."""
_START = 60.0
_MOST_OUTPUT = 16 << 20


class QgaGuest:
    """A guest (see :class:`runner.guests.base.Guest`) behind QEMU's guest agent."""

    def __init__(self, channel: Channel, dialect: Dialect, *, probe: PureWindowsPath = PROBE) -> None:
        """Nothing is asked yet.

        Args:
            channel: The way to the agent.
            dialect: What kind of system it runs in.
            probe: Where the probe lies or will be put (:func:`install_probe`); its folder is ours.
        """
        self._agent = Agent(channel)
        self._dialect = dialect
        self._probe = probe
        self._numbers = count(1)
        self._run = secrets.token_hex(4)
        stays = dialect.resident([str(probe), "serve"])
        self._resident = ResidentProbe(self._agent, stays[0], f"{stays[1]}/{self._run}") if stays else None

    # ---- the Guest protocol --------------------------------------------------------------------------------------------

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        """See :meth:`Guest.probe`. Only commands that read may be given."""
        if argv[0] in {"run", "start", "put"}:
            raise ValueError(f"`{argv[0]}` acts; it has a method of its own")
        with self._answering(timeout) as deadline:
            return self._ask(argv, deadline)

    def read(self, path: PureWindowsPath, *, limit: int, timeout: float = 30.0) -> bytes:
        """See :meth:`Guest.read`. The content is that of one moment: its SHA-256 was taken a second time in the guest."""
        with self._answering(timeout) as deadline:
            native = self._dialect.native(path) if self._dialect.opens_files else None
            if native is None:
                return self._read_by_probe(path, limit, deadline)
            try:
                return self._read_natively(native, limit, deadline)
            except (
                GuestNotFound
            ):  # by this spelling; cases, 8.3 names and what is not there at all are the probe's to tell
                return self._read_by_probe(path, limit, deadline)

    def write(self, path: PureWindowsPath, data: bytes, *, timeout: float = 30.0) -> None:
        """See :meth:`Guest.write`. It is sent beside the probe, which puts it in its place if it arrived whole."""
        digest = hashlib.sha256(data).hexdigest()
        sent = self._probe.with_name(f"put-{secrets.token_hex(8)}.part")
        with self._answering(timeout) as deadline:
            self._agent.write_file(self._own(sent), data, deadline=deadline)
            result = self._ask(["put", "--sha256", digest, "--", str(sent), str(path)], deadline)
        for fault in result.faults:
            raise Unreadable(f"{path} could not be written: {fault.message} (code {fault.code})")
        if [(file.size, file.sha256) for file in result.files] != [(len(data), digest)]:
            raise Unreadable(f"{path} does not read back as it was written")

    def run(self, argv: Sequence[str], *, timeout: float, limit: int = 1 << 20) -> Completed:
        """See :meth:`Guest.run`. It runs in the user's session, with an administrator's full rights if the user has them.

        Raises:
            Unreadable: It could not be started, or how it ended could not be learned.
        """
        request = ["run", "--token", secrets.token_hex(16), "--wait-ms", str(max(1, int(timeout * 1000)))]
        request += ["--limit", str(min(limit, _MOST_OUTPUT)), "--", *argv]
        with self._answering(timeout + _RUN_GRACE) as deadline:
            result = self._ask(request, deadline)
        assert result.ran is not None
        if result.ran.timed_out:
            raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s")
        return Completed(result.ran.status, result.stdout, result.stderr)

    def start(self, argv: Sequence[str], *, cwd: PureWindowsPath | None = None) -> None:
        """See :meth:`Guest.start`. It has the rights that it would have by the user's own click."""
        request = ["start", "--token", secrets.token_hex(16)]
        if cwd is not None:
            request += ["--cwd", str(cwd)]
        with self._answering(_START) as deadline:
            self._ask([*request, "--", *argv], deadline)

    # ---- beyond the protocol -------------------------------------------------------------------------------------------

    def ping(self, *, timeout: float = 5.0) -> None:
        """Whether the agent replies; that the guest works only a real operation shows.

        Raises:
            GuestLost: It does not.
        """
        if not self._agent.answers(within=timeout):
            raise GuestLost("the guest agent does not answer")

    def freeze(self, *, timeout: float = 60.0) -> int:
        """Flushes and freezes the guest's file systems; how many. Until :meth:`thaw` the agent does nothing else.

        Raises:
            Unreadable: They could not be frozen; they are thawed again.
            GuestLost: The agent does not answer.
        """
        try:
            with self._answering(timeout) as deadline:
                return self._agent.freeze(deadline=deadline)
        except (Unreadable, GuestLost):
            with suppress(Unreadable, GuestLost):
                self.thaw()
            raise

    def thaw(self, *, timeout: float = 30.0) -> int:
        """Thaws them; how many were frozen. 0: they were not any more, as when Windows ends a freeze after ten seconds.

        Raises:
            Unreadable: The agent could not.
            GuestLost: The agent does not answer: the machine may stay frozen.
        """
        with self._answering(timeout) as deadline:
            return self._agent.thaw(deadline=deadline)

    def set_time(self, now: int, *, timeout: float = 15.0) -> None:
        """Sets the guest's clock.

        Args:
            now: Nanoseconds since 1970, UTC, true at the moment of the call.
            timeout: Seconds.

        Raises:
            Unreadable: The clock could not be set.
            GuestLost: The agent does not answer.
        """
        with self._answering(timeout) as deadline:
            self._agent.set_time(now, deadline=deadline)

    def kept(self) -> dict[str, int | str] | None:
        """What a clone of this machine, saved with its memory now, needs for :meth:`go_on`; ``None``: nothing."""
        return self._resident.kept() if self._resident is not None else None

    def go_on(self, kept: Mapping[str, int | str]) -> None:
        """Spares a clone the start of what stays in the guest: it was running when the memory was saved.

        Args:
            kept: What :meth:`kept` gave then.
        """
        if self._resident is not None:
            self._resident.go_on(kept)

    # ---- asking the probe ----------------------------------------------------------------------------------------------

    @contextmanager
    def _answering(self, timeout: float) -> Iterator[float]:
        """The call's deadline; what goes wrong within becomes what the Guest protocol knows.

        A silence is the guest's end only if a ping is not answered either: a machine may just be slow.
        """
        try:
            yield time.monotonic() + timeout
        except AgentError as error:
            raise Unreadable(str(error)) from None
        except (ReplyLost, TimeoutError) as error:
            if not self._agent.answers(within=_PING):
                raise GuestLost(f"the guest agent does not answer ({error})") from None
            raise Unreadable(f"no answer in time: {error}") from None

    def _ask(self, argv: Sequence[str], deadline: float) -> ProbeResult:
        """Asks the probe, again if the answer was lost or is none; every request reads or carries a token."""
        for attempt in range(1, _ASKED + 1):
            number = next(self._numbers)
            request = f"{self._run}-{number}"
            try:
                line = encode_request([argv[0], "--id", request, *argv[1:]])
            except ValueError as error:
                raise Unreadable(f"`{argv[0]}` cannot be asked of the probe: {error}") from None
            try:
                if self._resident is not None:
                    answer = self._resident.ask(line, request, deadline)
                    if answer is not None:
                        return parse(answer, expect_id=request)
                spill = self._probe.with_name(f"answer-{number % _SPILLS}.jsonl")
                command = self._dialect.program([str(self._probe), "ask", str(spill)])
                ended = self._agent.execute(command, data=line, deadline=deadline)
                return self._answer(ended, str(spill), request, deadline)
            except (ReplyLost, ProbeError) as error:
                final = isinstance(error, ProbeError) and error.status is not None  # the probe's own, whole answer
                if final or attempt == _ASKED or time.monotonic() >= deadline:
                    raise
        raise AssertionError("unreachable")

    def _answer(self, ended: Ended, spill: str, request: str, deadline: float) -> ProbeResult:
        data = ended.stdout
        try:
            if ended.cut:
                raise ProbeError("the guest agent kept only a part of the answer")
            if (note := spilled(data)) is not None:
                if note.path != spill:
                    raise ProbeError("the probe tells of another file than was asked for")
                data = self._agent.read_file(self._own(PureWindowsPath(spill)), limit=note.bytes, deadline=deadline)
                if hashlib.sha256(data).hexdigest() != note.sha256:
                    raise ProbeError("the probe's answer did not arrive as it was written")
            result = parse(data, expect_id=request, limits=ProbeLimits())
            if ended.status != 0:
                raise ProbeError("the probe answered and failed")
        except ProbeError as error:
            if error.status is not None or ended.status == 0:
                raise
            said = ended.stderr[:200].decode("utf-8", "replace").strip()
            raise ProbeError(f"{error.reason}; the probe ended with status {ended.status} {said}".rstrip()) from None
        except GuestNotFound:
            raise ProbeError("the probe's answer is not where it says") from None
        return result

    def close(self) -> None:
        """Ends what stays in the guest; the machine is its owner's."""
        if self._resident is not None:
            with suppress(GuestLost):
                self._resident.end()

    def _own(self, path: PureWindowsPath) -> str:
        """A file beside the probe, as the agent spells it."""
        native = self._dialect.native(path)
        if native is None:
            raise Unreadable(f"the guest agent cannot reach {path}")
        return native

    # ---- reading files -------------------------------------------------------------------------------------------------

    def _read_by_probe(self, path: PureWindowsPath, limit: int, deadline: float) -> bytes:
        return read_by_probe(lambda argv: self._ask(argv, deadline), path, limit)

    def _read_natively(self, native: str, limit: int, deadline: float) -> bytes:
        """By the agent, and a second time: small files whole, of large ones the hash."""
        content = self._agent.read_file(native, limit=limit, deadline=deadline)
        digest = hashlib.sha256(content).hexdigest()
        command = self._dialect.digest(native)
        if len(content) <= READ_CHUNK or command is None:
            same = self._agent.read_file(native, limit=limit, deadline=deadline) == content
        else:
            done = self._look(command, deadline)
            same = done.status == 0 and done.stdout[:65] == digest.encode() + b" "
        if not same:
            raise Unreadable(f"{native} changed while it was read")
        return content

    def _look(self, command: AgentCommand, deadline: float) -> Ended:
        """Runs a program of the agent's own system that only reads, once more if its answer was lost."""
        try:
            return self._agent.execute(command, deadline=deadline)
        except ReplyLost:
            return self._agent.execute(command, deadline=deadline)


def install_probe(guest: QgaGuest, program: bytes, *, timeout: float = 120.0) -> None:
    """Puts the probe into a guest, unless it is there already, and proves that it is this one and runs.

    Args:
        guest: The guest; only its agent is needed.
        program: The probe's contents: on Windows the i686 build, under Wine the one of Wine's own kind.
        timeout: Seconds.

    Raises:
        Unreadable: It could not be written, does not read back, or does not run.
        GuestLost: The agent does not answer.
    """
    digest = hashlib.sha256(program).hexdigest()
    with guest._answering(timeout) as deadline:
        native = guest._own(guest._probe)
        if not _is_there(guest, native, program, deadline):
            made = guest._look(guest._dialect.folder(guest._probe.parent), deadline)
            if made.status != 0:
                raise Unreadable(f"{guest._probe.parent} could not be made in the guest (status {made.status})")
            guest._agent.write_file(native, program, deadline=deadline)
            if not _is_there(guest, native, program, deadline):
                raise Unreadable(f"{guest._probe} does not read back as it was written")
        found = guest._ask(["hash", "--", str(guest._probe)], deadline)
    if [file.sha256 for file in found.files] != [digest]:
        raise Unreadable(f"{guest._probe} says that it is another program than was put there")


def _is_there(guest: QgaGuest, native: str, program: bytes, deadline: float) -> bool:
    try:
        return guest._agent.read_file(native, limit=16 << 20, deadline=deadline) == program
    except (AgentError, GuestNotFound):
        return False
