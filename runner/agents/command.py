"""The command agent: any program of the user's, told its task in JSON, answering in JSON (``docs/agents/command.md``).

``command:PROGRAM [ARGUMENT…]`` names it on the command line, ``command:FILE.yaml`` describes it in a file. It works in a private
folder with a small environment; what it needs beyond is named in the file, secrets by their names. When it is over, nothing of it is
left: no process, no file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from contracts.load import ContractError, read_model
from contracts.schema import Duration, Model, Text
from prompts.render import Style
from runner.agents.base import (
    AgentInfrastructureError,
    AgentReport,
    AgentSpecError,
    AgentTask,
    Happening,
    PlannedAgent,
)
from runner.agents.exchange import BadReport, Report, find_report, parse_report, task_document
from runner.agents.processes import MAX_WRITTEN, Ended, run_kept
from runner.display.errors import DisplayError
from runner.display.rfb import RfbClient
from runner.findings import Finding
from runner.removal import empty
from runner.spellings import BLOT, blot

TASK_FILE, REPORT_FILE = "task.json", "report.json"
TASK_VARIABLE, REPORT_VARIABLE = "LEGACYPROOF_TASK", "LEGACYPROOF_REPORT"
OUT = 75
"""The exit status that says, without a report, that what the program needs is out (``EX_TEMPFAIL`` of sysexits.h)."""
_SHORTEST_SECRET = 4
_LAST_WORDS = 2_000
_LOOKS_SECRET = re.compile(r"(?:key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)

Variable = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]


class CommandFile(Model):
    """A program, described in a file."""

    schema_: Literal[1] = Field(alias="schema")
    name: Text | None = None
    """What tables show."""
    program: list[Text] = Field(min_length=1, max_length=200)
    """The program and its arguments; names of files beside this one are found wherever the program works."""
    environment: list[Variable] = Field(default_factory=list, max_length=100)
    """Variables of the runner's environment that it gets; their values are kept out of all that is stored."""
    set: dict[Variable, Annotated[str, StringConstraints(strict=True, max_length=20_000)]] = Field(default_factory=dict)
    """Variables with values that may be seen by everybody."""
    time_limit: Duration | None = None
    """Its time, where that is shorter than the contract's."""
    prompt_style: Style = "plain"

    @model_validator(mode="after")
    def _no_secrets(self) -> Self:
        for name in self.set:
            if name in (TASK_VARIABLE, REPORT_VARIABLE):
                raise PydanticCustomError("set", "`{name}` is set by the runner", {"name": name})
            if _LOOKS_SECRET.search(name):
                raise PydanticCustomError(
                    "set",
                    "`{name}` looks like a secret, which does not belong in a file: name it under `environment`",
                    {"name": name},
                )
        return self


@dataclass
class CommandAgent:
    """Runs one program (see :class:`runner.agents.base.Agent`).

    Attributes:
        name: What tables show.
        program: The program's path and its arguments.
        environment: All of its environment but for the two variables that name its task and its report.
        hidden: Texts that must not be stored.
        time_limit: Its time in seconds, where that is shorter than the contract's.
        prompt_style: The layout of its prompt.
    """

    name: str
    program: tuple[str, ...]
    environment: Mapping[str, str]
    hidden: tuple[str, ...] = ()
    time_limit: float | None = None
    prompt_style: Style = "plain"

    def run(self, task: AgentTask) -> AgentReport:
        """See :meth:`runner.agents.base.Agent.run`."""
        task.folder.chmod(0o700)
        file, answer = task.folder / TASK_FILE, task.folder / REPORT_FILE
        limit = self.time_limit or task.timeout
        deadline = min(task.deadline, time.monotonic() + limit)
        try:
            _write_private(file, json.dumps(task_document(task, _size_of(task)), ensure_ascii=False))
            ended = run_kept(
                self.program,
                environment={**self.environment, TASK_VARIABLE: str(file), REPORT_VARIABLE: str(answer)},
                folder=task.folder,
                standard_input=file,
                deadline=deadline,
                cancelled=task.cancelled,
            )
            hidden = (*self.hidden, *filter(None, [task.display.password]))
            report, trouble = _answer(ended, answer, task, hidden)
            words, limit = _last_words(ended, hidden), min(limit, task.timeout)
            judged = replace(_judged(ended, report, blot(trouble, hidden), words, limit), hidden=hidden)
        finally:
            left = _emptied(task.folder)
        return replace(judged, message=f"{judged.message} {left}".strip()) if left else judged


def _size_of(task: AgentTask) -> tuple[int, int]:
    try:
        with RfbClient.connect(task.display) as screen:
            return screen.size
    except DisplayError as error:
        raise AgentInfrastructureError(f"the display cannot be reached: {error}") from None


def _write_private(file: Path, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as opened:
        opened.write(text)


def _answer(ended: Ended, file: Path, task: AgentTask, hidden: tuple[str, ...]) -> tuple[Report | None, str]:
    """The program's report, its words without secrets; or why there is none."""
    if ended.why in ("output", "not started"):
        return None, ""
    # After a time-out the account is still worth having, but nobody waits long for it any more.
    until = task.deadline if ended.why == "itself" else time.monotonic() + 0.3
    try:
        text = find_report(file, ended.output)
        if text is None:
            return None, ""
        return _without(parse_report(text, task.folder, until=until), hidden), ""
    except BadReport as error:
        return None, str(error)


def _without(report: Report, hidden: tuple[str, ...]) -> Report:
    """The report, its words without the secrets that the program got from us.

    What it returns is judged as it is, since the value of a variable may be a word of a right answer; the runner blots it out of
    what is kept afterwards.
    """
    timeline = tuple(Happening(entry.t, blot(entry.text, hidden), entry.screenshot) for entry in report.timeline)
    usage = {blot(str(name), hidden): value for name, value in report.usage.items()}
    return replace(report, message=blot(report.message, hidden), usage=usage, timeline=timeline)


def _judged(ended: Ended, report: Report | None, trouble: str, words: str, limit: float) -> AgentReport:
    """What a program's end and its report mean together.

    Raises:
        AgentInfrastructureError: What it needs is out.
    """
    note = f" It left {ended.left} processes behind, which were ended." if ended.left else ""
    timeline = report.timeline if report else ()
    usage = report.usage if report else {}

    def fault(what: str) -> AgentReport:
        said = f" Its last words: {words}" if words else ""
        return AgentReport("error", message=f"{what}.{note}{said}", usage=usage, timeline=timeline)

    if ended.why == "not started":
        raise AgentInfrastructureError(f"the program cannot be run: {ended.reason}")
    if ended.alive:
        return fault(f"{ended.alive} of its processes could not be ended")
    if ended.why in ("time", "cancelled"):
        message = "cancelled" if ended.why == "cancelled" else f"the program was still working after {limit:g} s"
        return AgentReport("timeout", message=f"{message}.{note}", usage=usage, timeline=timeline)
    if ended.why == "output":
        return fault(f"the program wrote more than {MAX_WRITTEN >> 20} MiB and was ended")
    if ended.why == "lost":
        return fault("the program killed the process that keeps its processes together")
    if report is None and ended.code == OUT:
        raise AgentInfrastructureError(words or f"the program ended with status {OUT}: what it needs is out")
    end = _how(ended.code)
    if report is None:
        why = f"its report cannot be used: {trouble}" if trouble else "it gave no report"
        return fault(f"the program ended {end}, and {why}")
    if report.status == "infrastructure":
        raise AgentInfrastructureError(report.message or "the program says that what it needs is out")
    if report.status == "success" and ended.code != 0:
        return fault(f"the program reported success, but ended {end}")
    return AgentReport(report.status, report.returned, f"{report.message}{note}".strip(), usage, timeline)


def _how(code: int | None) -> str:
    if code is None:
        return "in an unknown way"
    return f"with status {code}" if code >= 0 else f"by signal {-code}"


def _last_words(ended: Ended, hidden: tuple[str, ...]) -> str:
    return blot(ended.errors.decode("utf-8", "replace"), hidden).strip()[-_LAST_WORDS:]


def _emptied(folder: Path) -> str:
    """Removes what the program has left in its folder; what is to be said where that is not possible."""
    try:
        empty(folder)
    except OSError as error:
        return f"What it left in its folder cannot be removed: {error}."
    return ""


# --- which program ----------------------------------------------------------------------------------------------------


def plan_command(argument: str) -> list[PlannedAgent]:
    """The agent for ``command:FILE.yaml`` or ``command:PROGRAM [ARGUMENT…]``.

    Raises:
        AgentSpecError: There is no such program, the file is not valid, or a variable is not set.
    """
    file, folder = _described(argument)
    missing = [name for name in file.environment if name not in os.environ]
    if missing:
        raise AgentSpecError(
            f"the environment has no {', '.join(missing)}, which {argument} names; set it before the run"
        )
    program, secrets = _resolved(file.program, folder), _secret_arguments(file.program)
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": os.environ.get("HOME", "/"),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        **file.set,
        **{name: os.environ[name] for name in file.environment},
    }
    hidden = {*secrets, *(os.environ[name] for name in file.environment)}
    agent = CommandAgent(
        name=file.name or f"command {_short_name(program)}",
        program=program,
        environment=environment,
        hidden=tuple(sorted(text for text in hidden if len(text) >= _SHORTEST_SECRET)),
        time_limit=file.time_limit,
        prompt_style=file.prompt_style,
    )
    spec = argument
    for secret in secrets:
        spec = spec.replace(secret, BLOT)
    return [PlannedAgent(f"command:{spec}", agent)]


def _described(argument: str) -> tuple[CommandFile, Path]:
    """The program and the folder from which its relative names are meant."""
    if not argument.strip():
        raise AgentSpecError("say which program: command:PROGRAM [ARGUMENT…], or command:FILE.yaml that describes it")
    if argument.endswith((".yaml", ".yml")) and len(shlex_split(argument)) == 1:
        path = Path(argument)
        if not path.is_file():
            raise AgentSpecError(f"there is no file {argument} that describes a program")
        try:
            return read_model(path, CommandFile), path.absolute().parent
        except ContractError as error:
            raise AgentSpecError(str(error)) from None
    return CommandFile(schema=1, program=shlex_split(argument)), Path.cwd()


def shlex_split(argument: str) -> list[str]:
    """The words of a command line as a shell would take them.

    Raises:
        AgentSpecError: A quotation mark is not closed.
    """
    try:
        return shlex.split(argument)
    except ValueError as error:
        raise AgentSpecError(f"the command line {argument!r} cannot be split into words: {error}") from None


def _resolved(program: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The program's full path, and the full paths of arguments that name files: it works in another folder.

    Raises:
        AgentSpecError: There is no such program.
    """
    first = program[0]
    path = shutil.which(os.path.abspath(folder / first)) if "/" in first else shutil.which(first)
    if path is None:
        where = f"in {folder}" if "/" in first else "on the PATH"
        raise AgentSpecError(
            f"there is no program {first!r} {where} that can be run; give its path, or make it executable"
        )
    # Links stay: an interpreter tells by its own path which environment it belongs to.
    return (os.path.abspath(path), *(_named_file(argument, folder) for argument in program[1:]))


def _named_file(argument: str, folder: Path) -> str:
    if argument in ("", ".", "..") or "\0" in argument or len(argument) > 4096:
        return argument
    try:
        return str((folder / argument).absolute()) if (folder / argument).is_file() else argument
    except OSError:
        return argument


def _secret_arguments(program: Sequence[str]) -> list[str]:
    """Values of arguments whose names say that they are secret: ``--api-key=VALUE``, ``--token VALUE``."""
    found = []
    for argument, following in zip(program, [*program[1:], ""], strict=True):
        name, equals, value = argument.partition("=")
        if name.startswith("-") and _LOOKS_SECRET.search(name):
            found.append(value if equals else following)
    return [text for text in found if len(text) >= _SHORTEST_SECRET]


def _short_name(program: Sequence[str]) -> str:
    """The script's name where an interpreter is given one, else the program's."""
    script = next((argument for argument in program[1:] if os.path.isabs(argument) and os.path.isfile(argument)), None)
    return Path(script or program[0]).name


def doctor(argument: str) -> list[Finding]:
    """Whether the program can be run, and what it misses."""
    findings = [_kept_together()]
    try:
        file, folder = _described(argument)
    except AgentSpecError as error:
        return [*findings, Finding("agent: description", False, str(error), "see docs/agents/command.md")]
    findings.append(Finding("agent: description", True, "it can be read"))
    try:
        path = _resolved(file.program, folder)[0]
        findings.append(Finding("agent: program", True, path))
    except AgentSpecError as error:
        findings.append(Finding("agent: program", False, str(error), "install it, or correct its path"))
    for name in file.environment:
        is_set = name in os.environ
        remedy = "" if is_set else f"export {name}=… before the run"
        findings.append(Finding("agent: environment", is_set, f"{name} is {'set' if is_set else 'not set'}", remedy))
    return findings


def _kept_together() -> Finding:
    if sys.platform == "linux" and os.path.isdir("/proc/self"):
        return Finding("agent: processes", True, "what the program leaves behind can be found and ended")
    return Finding(
        "agent: processes",
        False,
        "what the program leaves behind cannot be found here",
        "run legacyproof on Linux with /proc",
    )
