"""``legacyproof new``: looks at an image, lets somebody do the task once, and writes the first draft of its contract.

The person (or a script) works on a disposable machine through the flight recorder, so that typed texts are known; what changed
between two snapshots becomes the draft (:mod:`runner.contract_draft`).
"""

from __future__ import annotations

import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path, PureWindowsPath
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contracts.load import load_text
from contracts.schema import DbfTable, FileTree, Limits, Observable, StartProgram, TaskContract, Windows
from contracts.writing import comment
from runner import capture
from runner.agents.base import AgentTask, PlannedAgent, plan
from runner.agents.supervision import supervise
from runner.contract_draft import (
    UNSPECIFIED,
    Answers,
    Demonstration,
    FoundTable,
    describe_table,
    draft,
    names_for,
    slug,
    typed_parts,
)
from runner.display.events import typed_text
from runner.display.handshake import DisplayAddress
from runner.display.recorder import FlightRecorder
from runner.guests.base import Guest
from runner.guests.windows import windows
from runner.machines.base import Machine, MachineProvider, Tag
from runner.machines.images import Image, find_image
from runner.stillness import Watcher, wait_until_quiet
from validators.changes import Unreadable
from validators.snapshot import UnreadableState, compare

MOST_TABLES = 60
"""Tables that are looked at; a program with more names those that matter by ``--table``."""
_LIMITS = Limits()
"""A draft is drawn from a state that is as final as that of a run with the usual limits."""
_DEMONSTRATION = 900.0
"""Seconds that a script may take."""


class NewContractError(Exception):
    """The draft cannot be made: the demonstration failed, or the state could not be read."""


@dataclass(frozen=True)
class Look:
    """What is looked at.

    Attributes:
        program: The program that is started, as the image names it.
        tables: Paths of tables; empty: all below the folders.
        files: Folders to watch.
    """

    program: str
    tables: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """What was found: the tables, and what happened while the task was done, if anybody did it."""

    tables: tuple[FoundTable, ...]
    seen: Demonstration | None


Perform = Callable[[Machine, DisplayAddress], Mapping[str, Any]]
"""Does the task at a display, and says what it returned."""


def folders_of(image: Image, program: str) -> tuple[str, ...]:
    """The folders that a program of the image works in, as far as the image says."""
    about = image.manifest.programs[program]
    return (about.to or str(PureWindowsPath(about.start).parent),)


def look(
    image: Image,
    provider: MachineProvider,
    wanted: Look,
    *,
    perform: Perform | None,
    given: Mapping[str, str],
    surveyed: Callable[[Sequence[FoundTable]], None] = lambda _: None,
) -> Found:
    """Starts a machine with the program, reads its tables, and lets the task be done once.

    Args:
        image: The image.
        provider: Makes its machines.
        wanted: What is looked at.
        perform: Does the task; ``None``: nobody does.
        given: Parameters that the author named.
        surveyed: Told the tables before the task is done.

    Raises:
        NewContractError: The demonstration failed, or a state could not be read.
        ContractFault: The tables do not fit what was found out about them.
        MachineError, SetupError, GuestLost, DisplayError: As for any run.
    """
    start = [StartProgram(program=wanted.program)]
    checkpoint = provider.prepare(image, [], start, folder=image.folder)
    machine = checkpoint.clone(Tag("new", f"look-{secrets.token_hex(3)}"))
    try:
        machine.start(start)
        tables = survey(machine.guest, wanted)
        surveyed(tables)
        if perform is None:
            return Found(tables, None)
        return Found(tables, _demonstrated(machine, wanted, tables, perform, given))
    except Unreadable as error:
        raise NewContractError(f"the state could not be read: {error.reason}") from None
    finally:
        machine.discard()


def survey(guest: Guest, wanted: Look) -> tuple[FoundTable, ...]:
    """Finds and describes the tables.

    Raises:
        NewContractError: There are too many.
        Unreadable: The folders could not be listed.
        GuestLost: The machine is gone.
    """
    paths = wanted.tables
    if not paths:
        listing = guest.probe("files", *wanted.files, timeout=120.0).files if wanted.files else ()
        paths = tuple(
            f"{wanted.files[entry.root].rstrip(chr(92))}\\{entry.path}"
            for entry in sorted(listing, key=lambda entry: (entry.root, entry.path.casefold()))
            if entry.kind == "file" and entry.path.lower().endswith(".dbf")
        )
    if len(paths) > MOST_TABLES:
        raise NewContractError(f"there are {len(paths)} tables: name those that the task may touch by --table")
    found = []
    for path in paths:
        try:
            state = capture.read_table(guest, DbfTable(dbf=path))
        except (Unreadable, ValueError) as error:
            found.append(FoundTable(path, fault=str(error).partition("\n")[0]))
        else:
            found.append(describe_table(path, state) if state.dbf is not None else FoundTable(path, fault="not there"))
    return tuple(found)


def _demonstrated(
    machine: Machine, wanted: Look, tables: Sequence[FoundTable], perform: Perform, given: Mapping[str, str]
) -> Demonstration:
    observe = _observables(wanted, tables)
    watcher = Watcher(machine.guest, observe)
    wait_until_quiet(watcher, quiet=0.0, within=_LIMITS.settle_within)
    before = capture.take(machine.guest, observe)
    with tempfile.TemporaryDirectory(prefix="legacyproof-new-") as scratch:
        recorder = FlightRecorder(
            machine.display, log_path=Path(scratch) / "input.jsonl", password=secrets.token_urlsafe(6)[:8]
        )
        try:
            returned = perform(machine, recorder.start())
        finally:
            recorder.stop()
        typed = typed_parts(text for _, _, text in typed_text(recorder.events))
    machine.ensure_alive()
    wait_until_quiet(watcher, quiet=_LIMITS.quiet, within=_LIMITS.settle_within)
    after = capture.take(machine.guest, observe, earlier=before)
    for name, state in [*before.items(), *after.items()]:
        if isinstance(state, UnreadableState):
            raise NewContractError(f"{name} could not be read: {state.reason}")
    after = capture.contents_of_changed(machine.guest, _as_task(observe), before, after)
    return Demonstration(compare(observe, before, after), typed, given, returned, _today(machine))


def _observables(wanted: Look, tables: Sequence[FoundTable]) -> dict[str, Observable]:
    usable = [table for table in tables if not table.fault]
    names = names_for([table.path for table in usable], wanted.files)
    observe: dict[str, Observable] = {
        names[table.path]: DbfTable(dbf=table.path, key=list(table.key), encoding=table.encoding or None)
        for table in usable
    }
    observe |= {names[folder]: FileTree(files=folder) for folder in wanted.files}
    return observe | {"screen": Windows.model_validate({"windows": {}})}


def _as_task(observe: Mapping[str, Observable]) -> TaskContract:
    """The observables as a contract that expects nothing, for those who ask for a whole one."""
    said = dict.fromkeys(("title", "application", "domain", "instruction"), "-")
    about = {"schema": 1, "id": "new", "image": "new", "state_changing": False, "goal_state": {"summary": "-"}}
    return TaskContract.model_validate(said | about | {"initial_state": {"summary": "-"}, "observe": dict(observe)})


def _today(machine: Machine) -> date:
    fresh = machine.freshness
    return (datetime.now(UTC) + timedelta(seconds=fresh.clock_offset + fresh.utc_offset)).date()


def script_performer(script: PlannedAgent, given: Mapping[str, str]) -> Perform:
    """Lets a script do the task.

    The performer raises :class:`NewContractError` when the script does not report a success.
    """

    def perform(machine: Machine, display: DisplayAddress) -> Mapping[str, Any]:
        with tempfile.TemporaryDirectory(prefix="legacyproof-new-") as folder:
            task = AgentTask(
                contract=script.contract or "",
                instruction="",
                prompt="",
                parameters=given,
                response_schema=None,
                display=display,
                timeout=_DEMONSTRATION,
                deadline=time.monotonic() + _DEMONSTRATION,
                folder=Path(folder),
                windows=lambda: windows(machine.guest),
                cancelled=threading.Event(),
            )
            # The recorder is stopped when the performer returns: nothing has to be cut off.
            done = supervise(script.agent, task, cut=lambda: None)
        if done.infrastructure is not None or done.report.status != "success":
            why = done.infrastructure or done.report.message or done.report.status
            raise NewContractError(f"the demonstration did not succeed: {why}")
        return done.report.returned if isinstance(done.report.returned, dict) else {}

    return perform


def tables_table(tables: Sequence[FoundTable]) -> Table:
    """What was found of the tables, for a terminal."""
    shown = Table(title="tables", title_justify="left")
    for heading in ("table", "rows", "key", "code page", "fields"):
        shown.add_column(heading, overflow="fold")
    for table in tables:
        fields = table.fault or ", ".join(f"{name} {kind}" for name, kind in table.fields)
        cells = (table.path, str(table.rows), ", ".join(table.key) or "?", table.encoding or "?", fields)
        shown.add_row(*(Text(comment(cell)) for cell in cells))
    if not tables:
        shown.add_row("none")
    return shown


def changes_table(seen: Demonstration) -> Table:
    """What changed while the task was done, for a terminal."""
    shown = Table(title="changed meanwhile", title_justify="left")
    for heading in ("where", "what", "which", "fields"):
        shown.add_column(heading, overflow="fold")
    for comparison in seen.comparisons:
        for change in comparison.changes:
            cells = (comparison.observable, str(change.verb), change.subject, ", ".join(change.changed))
            shown.add_row(*(Text(comment(cell)) for cell in cells))
    if not shown.row_count:
        shown.add_row("nothing")
    return shown


def write_draft(text: str, path: Path) -> None:
    """Writes the draft; a file that is there is never overwritten.

    Raises:
        NewContractError: There is a file of that name, or it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise NewContractError(f"{path} cannot be written: {error.strerror}") from None


# --- the dialogue ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Options:
    """What was said on the command line; what is empty is asked for, or has its default.

    Attributes:
        path: The contract's file; empty: its id beside where one stands.
        image: The image.
        id: The contract's id.
        title: Its title.
        program: The program of the image.
        application: The program's name for people.
        domain: The field it is used in.
        instruction: What the agent is told.
        tables: Paths of tables; empty: all below the folders.
        files: Folders to watch; empty: those of the program.
        given: Parameters by name.
        demonstration: A script that does the task.
        watch: Whether a person may do it; only looked at where there is no script.
        yes: Ask nothing.
    """

    path: Path | None = None
    image: str = ""
    id: str = ""
    title: str = ""
    program: str = ""
    application: str = ""
    domain: str = ""
    instruction: str = ""
    tables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    demonstration: Path | None = None
    watch: bool = True
    yes: bool = False


def author(options: Options, out: Console, make: Callable[[Image], MachineProvider]) -> Path:
    """Leads through the making of a contract, and writes it.

    Args:
        options: What is known already.
        out: Where tables and questions are shown.
        make: Gives the provider of an image's machines.

    Returns:
        The contract's file, which loads.

    Raises:
        NewContractError: Something said cannot be used, or the demonstration failed.
        ImageError, ContractError, AgentSpecError: Image or script are not there or not valid.
        ContractFault, MachineError, SetupError, GuestLost, DisplayError: As :func:`look`.
    """

    def ask(question: str, given: str, default: str = "") -> str:
        if given or (options.yes and default):
            return given or default
        if options.yes:
            raise NewContractError(f"{question}: say it by an option, since --yes asks nothing")
        return str(typer.prompt(question, default=default or None))

    image = find_image(ask("Which image", options.image))
    program = ask("Which program of it", options.program, next(iter(image.manifest.programs), ""))
    if program not in image.manifest.programs:
        there = ", ".join(image.manifest.programs) or "none"
        raise NewContractError(f"the image {image.manifest.name} has no program {program!r}; it has: {there}")
    title = ask("What is the task, in a few words", options.title)
    contract = ask("The contract's id", options.id, f"{slug(program)}.{slug(title) or 'task'}")
    path = options.path or Path(f"{contract}.yaml")
    if path.exists():
        raise NewContractError(f"{path} is there already, and is not overwritten")
    files = options.files or folders_of(image, program)
    if options.demonstration is not None:
        perform: Perform | None = script_performer(plan(f"scripted:{options.demonstration}")[0], options.given)
    else:
        watch = options.watch and not options.yes
        perform = _person(out) if watch and typer.confirm("Will you do the task once now", default=True) else None
    wanted = Look(program, options.tables, files)
    out.print("a machine is being started", soft_wrap=True)
    found = look(
        image, make(image), wanted,
        perform=perform, given=options.given, surveyed=lambda tables: out.print(tables_table(tables)),
    )  # fmt: skip
    if found.seen is not None:
        out.print(changes_table(found.seen))
    window = image.manifest.programs[program].window or ""
    answers = Answers(
        id=contract,
        title=title,
        application=ask("The program's name, for people", options.application, program),
        domain=ask("The field it is used in", options.domain, UNSPECIFIED),
        image=image.manifest.name,
        program=program,
        window=window,
        instruction=options.instruction,
        files=files,
    )
    text = draft(answers, found.tables, found.seen)
    load_text(text, name=str(path))  # what is written can be used, whatever was answered
    write_draft(text, path)
    return path


def _person(out: Console) -> Perform:
    """Lets a person at a VNC viewer do the task."""

    def perform(_machine: Machine, display: DisplayAddress) -> Mapping[str, Any]:
        out.print(
            f"Connect a VNC viewer to {display} (password {display.password}) and do the task once.", soft_wrap=True
        )
        typer.prompt("Press Enter when it is done", default="", show_default=False)
        return {}

    return perform
