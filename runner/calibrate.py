"""Measuring noise: idle control machines, what changes on them by itself, and the dated list of it.

A machine is brought to the state in which a contract's runs begin and then left alone; every so often it is looked at, and each look
is compared with the one before, so that what comes and goes is seen as well as what stays. What a contract already ignores is looked
at all the same: a rule that was measured once can be measured again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path, PureWindowsPath
from typing import Any

from rich.table import Table
from rich.text import Text

from contracts.noise import (
    FOLDER,
    NoiseError,
    NoiseList,
    NoiseRun,
    Watched,
    cited,
    is_founded,
    list_text,
    new_id,
    place_of,
    read_list,
)
from contracts.noise_rules import Sighting, propose
from contracts.schema import (
    DbfTable,
    FileTree,
    Observable,
    RegistryKey,
    SetupStep,
    SqlTable,
    StartProgram,
    TaskContract,
    Windows,
)
from contracts.writing import comment, flow
from runner import capture
from runner.machines.base import Checkpoint, MachineProvider, Tag
from runner.machines.images import Image
from runner.stillness import Watcher, wait_until_quiet
from validators.changes import Cell, CellState, Change, Unreadable, Verb
from validators.clock import OutOfDay
from validators.snapshot import Snapshot, UnreadableState, compare

MOST_ENTRIES = 500
"""Entries that a list holds; beyond them it says how many there were."""
_SETTLE = 10.0
"""Seconds that a machine without a contract is given to become still after its programs were started."""
_READABLE_WITHIN = 10.0
"""Seconds within which the first look must have read everything."""


class CalibrationError(Exception):
    """Noise cannot be measured as asked: nothing to look at, or the state never became readable."""


@dataclass(frozen=True)
class Situation:
    """A state in which machines are watched: an image, or one with a contract's set-up and programs.

    Attributes:
        setup: Set-up steps.
        folder: Where files named by them lie.
        start: Programs that run meanwhile.
        observe: What is looked at, by a name of its own.
        settle: Seconds to become still before the first look.
        contracts: Ids of the contracts that begin like this.
    """

    setup: Sequence[SetupStep]
    folder: Path
    start: Sequence[StartProgram]
    observe: Mapping[str, Observable]
    settle: float = _SETTLE
    contracts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measuring:
    """How it is measured: how long, how often, on how many machines."""

    seconds: float
    every: float
    repetitions: int


@dataclass
class _Watch:
    """What the looks at one machine have seen."""

    looks: int = 0
    changes: int = 0
    sightings: list[Sighting] = field(default_factory=list)
    unreadable: dict[str, None] = field(default_factory=dict)


def situations(
    contracts: Sequence[tuple[TaskContract, Path]],
    image: Image,
    *,
    watch: Sequence[str] = (),
    registry: Sequence[str] = (),
) -> list[Situation]:
    """What is to be watched: each different initial state of the contracts once, or the image with its programs running.

    Args:
        contracts: Contracts of the image, each with its folder.
        image: The image.
        watch: Without contracts: folders; none: those of the image's programs. With contracts: further ones.
        registry: Keys to look at as well.

    Raises:
        CalibrationError: A contract is of another image, or there is nothing to look at.
        pydantic.ValidationError: A folder or key is not written as one.
    """
    others = [contract.id for contract, _ in contracts if contract.image != image.manifest.name]
    if others:
        raise CalibrationError(f"{', '.join(others)}: the image there is another than {image.manifest.name}")
    named: list[Observable] = [FileTree(files=folder) for folder in watch]
    named += [RegistryKey(registry=key) for key in registry]
    if not contracts:
        programs = image.manifest.programs
        if not watch:
            homes = dict.fromkeys(item.to or str(PureWindowsPath(item.start).parent) for item in programs.values())
            named += [FileTree(files=folder) for folder in homes]
        named.append(Windows.model_validate({"windows": {}}))
        start = [StartProgram(program=name) for name in programs]
        return [Situation((), image.folder, start, _distinct(named))]
    groups: dict[tuple[str, ...], list[tuple[TaskContract, Path]]] = {}
    for contract, folder in contracts:
        state = contract.initial_state
        steps = [step.model_dump_json() for step in [*state.setup, *state.start]]
        groups.setdefault((str(folder) if state.setup else "", *steps), []).append((contract, folder))
    return [
        Situation(
            setup=group[0][0].initial_state.setup,
            folder=group[0][1],
            start=group[0][0].initial_state.start,
            observe=_distinct([*(spec for one, _ in group for spec in one.observe.values()), *named]),
            settle=max(one.limits.settle_within for one, _ in group),
            contracts=tuple(one.id for one, _ in group),
        )
        for group in groups.values()
    ]


def _distinct(specs: Sequence[Observable]) -> dict[str, Observable]:
    """Each thing once, the first that names it, and nothing of it ignored."""
    found: dict[tuple[str, str], Observable] = {}
    for spec in specs:
        kind, root = place_of(spec)
        found.setdefault((kind, (root or "").rstrip("\\/").casefold()), _in_full(spec))
    return {f"{kind}_{number}": spec for number, ((kind, _), spec) in enumerate(found.items(), 1)}


def _in_full(spec: Observable) -> Observable:
    match spec:
        case Windows():
            return Windows.model_validate({"windows": {}})
        case FileTree() | RegistryKey() | SqlTable():
            return spec.model_copy(update={"ignore": []})
        case _:
            return spec


def measure(
    image: Image,
    provider: MachineProvider,
    wanted: Sequence[Situation],
    measuring: Measuring,
    *,
    name: str,
    contracts: Sequence[TaskContract] = (),
    progress: Callable[[str], None] = lambda _: None,
) -> NoiseList:
    """Watches idle machines and makes the list.

    Args:
        image: The image.
        provider: Makes its machines.
        wanted: What is watched; each on as many machines as there are repetitions.
        measuring: How.
        name: The list's id.
        contracts: No rule is proposed that covers what one of these expects or forbids.
        progress: Told what is being done.

    Raises:
        CalibrationError: The first look at a machine could not read everything.
        ContractFault: A contract does not fit the state, such as a key that is not unique.
        MachineError, SetupError: As for any run.
        GuestLost: A machine is gone.
    """
    taken = datetime.now(UTC).astimezone()
    sightings: list[Sighting] = []
    runs: list[NoiseRun] = []
    hashes: set[str] = set()
    for situation in wanted:
        progress("the machine is being prepared")
        checkpoint = provider.prepare(image, situation.setup, situation.start, folder=situation.folder)
        for repetition in range(1, measuring.repetitions + 1):
            number = len(runs) + 1
            progress(f"control machine {repetition} of {measuring.repetitions}")
            base, run, seen = _watch(checkpoint, situation, measuring, number, name)
            hashes.add(base)
            runs.append(run)
            sightings += seen
    if len(hashes) != 1:
        raise CalibrationError("the image was changed while it was measured: do it again")
    entries = propose(sightings, contracts)
    places = dict.fromkeys(place_of(spec) for situation in wanted for spec in situation.observe.values())
    return NoiseList(
        schema=1,
        id=name,
        image=image.manifest.name,
        image_hash=hashes.pop(),
        taken=taken.isoformat(timespec="seconds"),
        seconds=_rounded(measuring.seconds),
        every=_rounded(measuring.every),
        repetitions=measuring.repetitions,
        watched=[Watched(kind=kind, root=root) for kind, root in places],
        runs=runs,
        entries=entries[:MOST_ENTRIES],
        left_out=max(0, len(entries) - MOST_ENTRIES),
    )


def _rounded(seconds: float) -> Decimal:
    return Decimal(f"{seconds:.3f}").normalize() + 0


def _watch(
    checkpoint: Checkpoint, situation: Situation, measuring: Measuring, number: int, name: str
) -> tuple[str, NoiseRun, list[Sighting]]:
    """One control machine from its start to its end."""
    begun = datetime.now(UTC).astimezone()
    machine = checkpoint.clone(Tag("calibrate", f"{name}.{number}"))
    try:
        machine.start(situation.start)
        wait_until_quiet(Watcher(machine.guest, situation.observe), quiet=0.0, within=situation.settle)
        watch = _Watch()
        last = _first_look(lambda: capture.take(machine.guest, situation.observe))
        start = time.monotonic()
        # Counted, not summed up: sums of such numbers round differently from one moment to the next.
        looks = math.ceil(round(measuring.seconds / measuring.every, 6))
        for nth in range(1, looks + 1):
            due = start + min(nth * measuring.every, measuring.seconds)
            time.sleep(max(0.0, due - time.monotonic()))
            now = capture.take(machine.guest, situation.observe, earlier=last, seed=f"{name} {number} {watch.looks}")
            last = _look(watch, situation.observe, last, now, run=number, after=time.monotonic() - start)
        machine.ensure_alive()
        fresh = machine.freshness
    finally:
        machine.discard()
    run = NoiseRun(
        machine=machine.id,
        boot=fresh.boot,
        started=begun.isoformat(timespec="seconds"),
        contracts=list(situation.contracts),
        looks=watch.looks,
        changes=watch.changes,
        unreadable=list(watch.unreadable)[:20],
    )
    return fresh.image, run, watch.sightings


def _first_look(take: Callable[[], Snapshot]) -> Snapshot:
    deadline = time.monotonic() + _READABLE_WITHIN
    while True:
        snapshot = take()
        missing = [f"{name}: {state.reason}" for name, state in snapshot.items() if isinstance(state, UnreadableState)]
        if not missing:
            return snapshot
        if time.monotonic() >= deadline:
            raise CalibrationError(f"what is to be watched could not be read: {'; '.join(missing)}")


def _look(
    watch: _Watch, observe: Mapping[str, Observable], last: Snapshot, now: Snapshot, *, run: int, after: float
) -> Snapshot:
    """Compares one look with the one before; returns what the next is compared with.

    What could not be read counts as it was: the next look that can read it sees what happened meanwhile.
    """
    watch.looks += 1
    for name, state in now.items():
        if isinstance(state, UnreadableState):
            watch.unreadable[f"{_named(observe[name])}: {state.reason}"[:500]] = None
    whole = {name: last[name] if isinstance(state, UnreadableState) else state for name, state in now.items()}
    try:
        found = compare(observe, last, whole)
    except Unreadable as error:
        watch.unreadable[error.reason[:500]] = None
        return last
    for comparison in found:
        watch.changes += len(comparison.changes)
        spec = observe[comparison.observable]
        watch.sightings += [item for change in comparison.changes for item in sightings_of(change, spec, run, after)]
    return whole


def _named(spec: Observable) -> str:
    kind, root = place_of(spec)
    return root or kind


def sightings_of(change: Change, spec: Observable, run: int, after: float) -> Iterator[Sighting]:
    """A change as the proposing of rules sees it."""
    kind, root = place_of(spec)
    verb = str(change.verb)
    match kind:
        case "windows":
            # An ignored window is one in both states: a title that changes is told by the old and the new one.
            for row in (change.before, change.after):
                if row is not None:
                    title, *rest = ("" if row[name].value is None else str(row[name].value) for name in _OF_WINDOWS)
                    yield Sighting(
                        kind, root, title, verb, run, after, about=dict(zip(_OF_WINDOWS[1:], rest, strict=True))
                    )
        case "files" | "registry":
            old = ""
            if change.verb is Verb.RENAMED and change.before is not None:
                old = str(change.before["path"].value)
            yield Sighting(kind, root, change.subject, verb, run, after, old)
        case _:
            assert isinstance(spec, DbfTable | SqlTable)
            row = change.after if change.before is None else change.before
            key = {name: matcher_of(row[name]) for name in spec.key if row is not None and name in row}
            told = list(change.after) if change.verb is Verb.INSERTED and change.after is not None else change.changed
            fields = {name: matcher_of(change.after[name]) for name in told} if change.after is not None else {}
            about = key if all(value is not None for value in key.values()) else {}
            yield Sighting(kind, root, change.subject, verb, run, after, about=about, fields=fields)


_OF_WINDOWS = ("title", "class", "program")


def matcher_of(cell: Cell) -> Any:
    """What a contract says for a field that holds this: a literal or ``{is: …}``; ``None`` where nothing can say it."""
    match cell.state:
        case CellState.NULL:
            return {"is": "null"}
        case CellState.BLANK:
            return {"is": "blank"}
        case CellState.UNDECODABLE:
            return None
    match cell.value:
        case datetime() as moment:
            return moment.isoformat()
        case date() | clock_time() | OutOfDay() as moment:
            return moment.isoformat()
        case bool() | Decimal() | str() as value:
            return value.rstrip(" ") if isinstance(value, str) and cell.kind == "text" else value
        case _:
            return None


# --- lists at run time -----------------------------------------------------------------------------------------------


def noise_folders(image: Image, beside: Path) -> tuple[Path, ...]:
    """Where a contract's noise lists are looked for: beside the contract, then beside the image's manifest."""
    return beside / FOLDER, image.folder / FOLDER


def check_noise(contract: TaskContract, base: str | None, *, folders: Sequence[Path]) -> list[str]:
    """What is wrong with the noise lists that a contract names; nothing if all of them hold.

    Args:
        contract: The contract.
        base: The hash of the image as it is now (:attr:`Freshness.image`); ``None`` leaves staleness aside.
        folders: Where lists lie.
    """
    problems: dict[str, None] = {}
    lists: dict[str, NoiseList | None] = {}
    for citation in cited(contract):
        name = citation.noise
        if name not in lists:
            try:
                lists[name] = read_list(name, folders)
            except NoiseError as error:
                lists[name] = None
                problems[f"{citation.where}: {error}"] = None
        noise = lists[name]
        if noise is None:
            continue
        if noise.image != contract.image:
            problems[f"the noise list `{name}` was measured on {noise.image}, not on {contract.image}"] = None
        elif base is not None and noise.image_hash != base:
            problems[
                f"the noise list `{name}` is stale: the image has changed since {noise.taken}; calibrate again"
            ] = None
        elif not is_founded(citation, contract, noise):
            problems[f"{citation.where}: the noise list `{name}` has no rule as wide as this one"] = None
    return list(problems)


def lists_used(contract: TaskContract, *, folders: Sequence[Path]) -> list[str]:
    """The noise lists that a contract rests on, one line each, for a linter."""
    lines = []
    for name in dict.fromkeys(citation.noise for citation in cited(contract)):
        try:
            noise = read_list(name, folders)
        except NoiseError:
            continue
        rules = sum(citation.noise == name for citation in cited(contract))
        lines.append(
            f"{contract.id}: {rules} rule{'s' * (rules != 1)} by noise list {name}, measured on {noise.image} {noise.taken}: "
            f"{noise.repetitions} × {noise.seconds} s, image hash {noise.image_hash[:12]}"
        )  # fmt: skip
    return lines


def rules_for(contract: TaskContract, noise: NoiseList) -> dict[str, list[dict[str, Any]]]:
    """The list's rules as they are written into a contract: by observable, under ``ignore`` or ``allow``.

    Returns:
        ``{"program.ignore": [{"path": …, "noise": …}], "allow": [{"updated": …, …}]}``; only what the contract observes.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in noise.entries:
        if entry.rule is None:
            continue
        for name, spec in contract.observe.items():
            kind, root = place_of(spec)
            if kind != entry.kind or (root or "").casefold() != (entry.root or "").casefold():
                continue
            if isinstance(spec, DbfTable | SqlTable):
                where, rule = "allow", {entry.verb: name, **entry.rule.plain}
            else:
                where, rule = f"{name}.ignore", entry.rule.plain
            rule = {**rule, "noise": noise.id}
            if rule not in found.setdefault(where, []):
                found[where].append(rule)
    return found


def new_path(image: Image) -> Path:
    """Where today's list of an image is written: beside its manifest, under a name that is not taken."""
    folder = image.folder / FOLDER
    return folder / f"{new_id(image.manifest.name, datetime.now(UTC).astimezone(), folder)}.yaml"


def write_list(noise: NoiseList, path: Path) -> None:
    """Writes a list; one that is there already is never overwritten.

    Raises:
        FileExistsError: There is a file of that name.
        OSError: It cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8") as file:
        file.write(list_text(noise))


def noise_table(noise: NoiseList) -> Table:
    """The list for a terminal: what changed, how often, when, and the rule or why there is none."""
    table = Table(title=f"{noise.image}: {noise.repetitions} × {noise.seconds} s left alone", title_justify="left")
    for heading in ("what", "changed", "runs", "looks", "first after", "rule"):
        table.add_column(heading, overflow="fold")
    for entry in noise.entries:
        what = entry.subject if entry.names == 1 else f"{entry.subject} and {entry.names - 1} more"
        rule = flow(entry.rule.plain) if entry.rule is not None else f"none: {entry.no_rule}"
        count = f"{entry.runs} of {len(noise.runs)}"
        where = f"{entry.root} · {what}" if entry.root else what
        shown = (where, entry.verb, count, str(entry.times), f"{entry.first} s", rule)
        table.add_row(*(Text(comment(text)) for text in shown))
    if not noise.entries:
        table.add_row("nothing changed")
    return table
