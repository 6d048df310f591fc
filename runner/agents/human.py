"""The human agent: a person does the task, under the same contract and through the same flight recorder as every other agent.

The reference that agents are compared with: success, time and number of inputs. The person gets the display's address and the task on
the terminal, works with a VNC viewer, and says there how it ended; values to return are asked for one by one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TextIO

from jsonschema import Draft202012Validator
from referencing import Registry

from runner.agents.base import (
    AgentInfrastructureError,
    AgentReport,
    AgentSpecError,
    AgentTask,
    Happening,
    PlannedAgent,
)
from runner.display.events import InputEvent
from runner.display.handshake import DisplayAddress
from runner.display.keysyms import MODIFIERS
from runner.findings import Finding
from runner.spellings import BLOT, blot

VIEWER_VARIABLE = "LEGACYPROOF_VIEWER"
"""A command that opens a display; ``{host}`` and ``{port}`` stand for the address, which is appended where they are missing."""
_OPTIONS = ("open", "secrets")
_LOOK = 0.2
_MAX_LINE = 100_000
_HELP = """\
  done                 you have done the task; you are asked for what it returns
  could not [why]      you have not, and stop
  screen [what]        the screen is not as the task says, and you stop
  show                 shows the secret values
  help                 this list"""

_LEFT_OUT = object()

_terminal_in_use = threading.Lock()


class _OutOfTime(Exception):
    """The time is over, or the run was cancelled."""


class _Closed(Exception):
    """The terminal gives no more lines."""


class Terminal:
    """Asks a person for lines, without waiting for longer than there is time."""

    def __init__(self, source: int | None = None, sink: TextIO | None = None) -> None:
        """Makes one.

        Args:
            source: A descriptor to read lines from; standard input unless given.
            sink: Where to write; standard error unless given, since standard output belongs to the program's results.
        """
        self._source = source
        self._sink = sink
        self._read = b""

    def say(self, text: str = "") -> None:
        """Writes a text; what would steer the terminal is left out."""
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        sink = self._sink or sys.stderr
        sink.write("".join(char if char in "\n\t" or char.isprintable() else "\ufffd" for char in text))
        sink.flush()

    def ask(self, question: str, is_over: Callable[[], bool]) -> str:
        """Asks for one line.

        Raises:
            _OutOfTime: ``is_over`` before the line was there.
            _Closed: There are no more lines.
        """
        self._write(question)
        source = sys.stdin.fileno() if self._source is None else self._source
        while b"\n" not in self._read:
            if is_over():
                self.say()
                raise _OutOfTime
            if not select.select([source], [], [], _LOOK)[0]:
                continue
            try:
                data = os.read(source, 4096)
            except OSError:  # a terminal whose other end is gone
                data = b""
            if not data or len(self._read) > _MAX_LINE:
                raise _Closed
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode("utf-8", "replace").strip()


class HumanAgent:
    """Lets a person do the task (see :class:`runner.agents.base.Agent`)."""

    interactive = True
    """It needs the terminal for itself: one run at a time, and nothing that moves on the screen meanwhile."""

    def __init__(self, *, opens: bool = False, secrets: bool = False, terminal: Terminal | None = None) -> None:
        """Makes one.

        Args:
            opens: Open the display in a viewer.
            secrets: Show secret values at once.
            terminal: Where the person is; standard input and standard error unless given.
        """
        self.name = "human"
        self._opens = opens
        self._secrets = secrets
        self._terminal = terminal or Terminal()

    def run(self, task: AgentTask) -> AgentReport:
        """See :meth:`runner.agents.base.Agent.run`."""
        if not _terminal_in_use.acquire(blocking=False):
            raise AgentInfrastructureError("another run has the terminal; use --parallel 1")
        try:
            with _viewer(task.display, self._terminal) if self._opens else contextlib.nullcontext():
                return _Conversation(task, self._terminal).report(secrets=self._secrets)
        finally:
            _terminal_in_use.release()


class _Conversation:
    def __init__(self, task: AgentTask, terminal: Terminal) -> None:
        self._task = task
        self._terminal = terminal
        self._begun = time.monotonic()
        self._timeline: list[Happening] = []

    def report(self, *, secrets: bool) -> AgentReport:
        """Tells the task, waits for the person's word, and makes the report of it."""
        self._tell(secrets=secrets)
        try:
            return self._ended()
        except _OutOfTime:
            self._terminal.say("The time is over: the display is closed.")
            return self._made("timeout", None, "the time was over")
        except _Closed:
            return self._made("failed", None, "the terminal was closed")

    def _ended(self) -> AgentReport:
        while True:
            said = self._terminal.ask("> ", self._is_over)
            word, _, rest = said.partition(" ")
            match word.casefold():
                case "done":
                    self._note("said: done")
                    taken = self._usage()  # answering questions is no part of the work
                    return self._made("success", self._returned(), "", taken)
                case "could" if rest.casefold().startswith("not"):
                    return self._made("failed", None, rest[3:].strip())
                case "screen":
                    return self._made("ui_not_as_expected", None, rest)
                case "show":
                    self._show(secrets=True)
                case "":
                    continue
                case _:
                    self._terminal.say(_HELP)

    def _is_over(self) -> bool:
        return self._task.cancelled.is_set() or time.monotonic() >= self._task.deadline

    def _note(self, text: str) -> None:
        self._timeline.append(Happening(time.monotonic() - self._begun, text))

    def _made(self, status: Any, returned: Any, message: str, usage: Mapping[str, float] | None = None) -> AgentReport:
        return AgentReport(status, returned, message, usage or self._usage(), tuple(self._timeline))

    def _usage(self) -> dict[str, float]:
        return {"seconds": round(time.monotonic() - self._begun, 1), **inputs(self._task.events())}

    # --- telling ---

    def _tell(self, *, secrets: bool) -> None:
        task, say = self._task, self._terminal.say
        hidden = () if secrets else task.secrets
        address = task.display
        say(f"\n=== {task.contract}: you have {_minutes(task.timeout)} ===\n")
        say(
            f"The display, for a VNC viewer: {address.host}, port {address.port}, password {address.password or '(none)'}"
        )
        say(f"  vncviewer {address.host}::{address.port}\n")
        say(f"The task:\n{_indented(blot(task.instruction.strip(), hidden))}\n")
        self._show(secrets=secrets)
        if task.prompt.strip() != task.instruction.strip():
            say(f"What the prompt says:\n{_indented(blot(task.prompt.strip(), hidden))}\n")
        say(f"When it is over, write here:\n{_HELP}")

    def _show(self, *, secrets: bool) -> None:
        if self._task.parameters:
            self._terminal.say("Its values:")
        for name, value in self._task.parameters.items():
            text = (", ".join(value) if isinstance(value, list) else str(value)).replace("\r\n", "\n")
            shown = text if secrets else blot(text, self._task.secrets)
            shown = shown.replace("\n", "\n    ")
            self._terminal.say(f"  {name}: {shown}{'  (`show` shows it)' if BLOT in shown and not secrets else ''}")
        self._terminal.say()

    # --- asking ---

    def _returned(self) -> Any:
        schema = self._task.response_schema
        if schema is None:
            return None
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            return self._value("what is returned", schema, required=True)
        required = schema.get("required", ())
        asked = {
            str(name): self._value(str(name), about if isinstance(about, Mapping) else {}, required=name in required)
            for name, about in properties.items()
        }
        return {name: value for name, value in asked.items() if value is not _LEFT_OUT}

    def _value(self, name: str, schema: Mapping[str, Any], *, required: bool) -> Any:
        """One value, asked for until it is what the schema wants, or left out."""
        kinds = _types(schema)
        what = " or ".join(kinds) or "any value"
        note = "" if required else ", may be left empty"
        while True:
            text = self._terminal.ask(f"{name} ({what}{note}): ", self._is_over)
            if not text and not required:
                return _LEFT_OUT
            try:
                value = parsed(text, kinds)
                problem = next(iter(_problems(schema, value)), "")
            except ValueError as error:
                problem = str(error)
            if not problem:
                self._note(f"returned {name}")
                return value
            self._terminal.say(f"  that does not fit: {problem}")


def parsed(text: str, kinds: Iterable[str]) -> Any:
    """What a person typed, as a value of one of the JSON types, tried in the order number, truth value, text, other JSON.

    Raises:
        ValueError: It is none; the message is for the person.
    """
    kinds = tuple(kinds)
    if "null" in kinds and text in ("", "null"):
        return None
    with contextlib.suppress(ValueError):
        if "integer" in kinds or "number" in kinds:
            return int(text)
    with contextlib.suppress(ValueError):
        if (
            "number" in kinds and (value := float(text.replace(",", "."))) - value == 0
        ):  # neither infinite nor not a number
            return value
    if "boolean" in kinds and text.casefold() in ("true", "yes", "false", "no"):
        return text.casefold() in ("true", "yes")
    if "string" in kinds:
        return text
    if not kinds or {"array", "object"} & set(kinds):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            if not kinds:
                return text
            raise ValueError("write it as JSON") from None
    raise ValueError(f"a value of the type {' or '.join(kinds)} is wanted")


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(str(kind) for kind in kinds) if isinstance(kinds, list) else ()


def _problems(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    """What the schema has against a value, one sentence each; nothing is fetched for it."""
    try:
        for error in Draft202012Validator(dict(schema), registry=Registry()).iter_errors(value):
            yield error.message[:300]
    except (
        Exception
    ):  # the schema itself is at fault, in one of many ways: the verdict says so, the person cannot help it
        return


def inputs(events: Iterable[InputEvent]) -> dict[str, float]:
    """How much was put in: keys pressed, those that only modify others left aside, and pointer buttons pressed."""
    keys = clicks = 0
    held: dict[int, int] = {}
    for event in events:
        if event.kind == "key":
            keys += bool(event.down) and event.keysym not in MODIFIERS
        elif event.kind == "pointer":
            buttons = event.buttons or 0
            clicks += (buttons & ~held.get(event.client, 0)).bit_count()
            held[event.client] = buttons
    return {"keys": keys, "clicks": clicks}


def _minutes(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:g} min"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


# --- the viewer -------------------------------------------------------------------------------------------------------


def viewer_command(address: DisplayAddress | None = None) -> list[str]:
    """The command that opens a display: ``$LEGACYPROOF_VIEWER``, else ``xdg-open`` with a ``vnc:`` address.

    Raises:
        AgentSpecError: There is no such program, or the variable is no command line.
    """
    host, port = (address.host, address.port) if address else ("127.0.0.1", 5900)
    given = os.environ.get(VIEWER_VARIABLE, "")
    if given.strip():
        try:
            words = shlex.split(given)
        except ValueError as error:
            raise AgentSpecError(f"${VIEWER_VARIABLE} is no command line: {error}") from None
        filled = [word.replace("{host}", host).replace("{port}", str(port)) for word in words]
        command = filled if filled != words else [*words, f"{host}::{port}"]
    else:
        command = ["xdg-open", f"vnc://{host}:{port}"]
    if shutil.which(command[0]) is None:
        raise AgentSpecError(f"there is no program {command[0]!r}; set ${VIEWER_VARIABLE}, e.g. to `vncviewer`")
    return command


@contextlib.contextmanager
def _viewer(address: DisplayAddress, terminal: Terminal) -> Iterator[None]:
    """Opens the display, and closes a viewer that is still open in the end. TigerVNC's takes the password from the environment."""
    environment = os.environ | ({"VNC_PASSWORD": address.password} if address.password else {})
    try:
        process = subprocess.Popen(
            viewer_command(address), env=environment, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except (AgentSpecError, OSError) as error:
        terminal.say(f"The viewer cannot be opened: {error}")
        yield
        return
    try:
        yield
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(2.0)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(2.0)


# --- which ------------------------------------------------------------------------------------------------------------


def plan_human(argument: str) -> list[PlannedAgent]:
    """The agent for ``human``, ``human:open`` (opens a viewer), ``human:secrets`` (shows secret values), or both with a comma.

    Raises:
        AgentSpecError: There is no such option, no viewer, or nobody at the terminal.
    """
    options = _options(argument)
    if not _has_terminal():
        raise AgentSpecError("the human agent asks at the terminal, and standard input is none")
    if "open" in options:
        viewer_command()
    spec = f"human:{argument}" if argument else "human"
    return [PlannedAgent(spec, HumanAgent(opens="open" in options, secrets="secrets" in options))]


def _options(argument: str) -> set[str]:
    options = {part.strip() for part in argument.split(",") if part.strip()}
    if unknown := options - set(_OPTIONS):
        raise AgentSpecError(f"human can be given {' and '.join(_OPTIONS)}; not {', '.join(sorted(unknown))}")
    return options


def _has_terminal() -> bool:
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):  # closed, or none at all
        return False


def doctor(argument: str) -> list[Finding]:
    """Whether a person can be asked, and the display be opened."""
    try:
        options = _options(argument)
    except AgentSpecError as error:
        return [Finding("agent: options", False, str(error), "human, human:open or human:open,secrets")]
    found = []
    if _has_terminal():
        found.append(Finding("agent: terminal", True, "standard input is a terminal"))
    else:
        found.append(
            Finding("agent: terminal", False, "standard input is no terminal", "start it at a terminal, not in a pipe")
        )
    try:
        found.append(Finding("agent: viewer", True, shlex.join(viewer_command())))
    except AgentSpecError as error:
        needed = "open" in options
        remedy = f"install a VNC viewer and set ${VIEWER_VARIABLE}" + ("" if needed else ", or open any viewer by hand")
        found.append(Finding("agent: viewer", False if needed else None, str(error), remedy))
    return found
