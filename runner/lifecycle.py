"""The life of one run, top to bottom: contract → checkpoint → machine → snapshots → changes → ledger → verdict → record.

Whatever happens, a run ends with a record: faults of the house, the contract or a provider make it unscored, with their cause, and
never count against the agent.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from contracts.load import ContractError, LoadedContract
from contracts.schema import DbfTable, Evidence, Read, TaskContract
from prompts.render import (
    Condition,
    PromptError,
    Style,
    find_prompt,
    instruction_template,
    prompt_folders,
    render,
    template,
)
from prompts.response import example_of
from runner import capture
from runner.agents.base import AgentTask, Happening, PlannedAgent
from runner.agents.supervision import Supervised, supervise
from runner.blind_spots import audit, audit_of_machine
from runner.calibrate import check_noise, noise_folders
from runner.display.errors import DisplayError
from runner.display.events import typed_text
from runner.display.recorder import FlightRecorder
from runner.guests.base import GuestLost, Unreadable
from runner.guests.windows import windows
from runner.machines.base import DiskReadable, Freshness, Machine, MachineError, MachineProvider, SetupError, Tag
from runner.machines.images import ImageError, find_image
from runner.pictures import bare_png
from runner.reading import reading
from runner.record import (
    AgentRef,
    BlindSpots,
    ContractRef,
    Frame,
    Recording,
    RunRecord,
    SnapshotRef,
    StageSeen,
    TimelineEntry,
    TypedText,
    VerdictPart,
    Worked,
)
from runner.spellings import blot, blot_part, blot_value
from runner.store import Campaign
from runner.title_watch import TitleWatch
from runner.verdict_record import verdict_part
from validators.changes import Comparison, ContractFault
from validators.dbf import KeyIndex, TableState
from validators.files import TreeState
from validators.require import unmet
from validators.snapshot import Snapshot, compare
from validators.stages import stages_seen
from validators.verdict import Claim, UnscoredCause, Verdict, judge, unscored


@dataclass(frozen=True)
class RunPlan:
    """One run that is to be made: which agent on which contract under which prompt condition."""

    contract: LoadedContract
    agent: PlannedAgent
    condition: Condition
    trial: int = 1
    attempt: int = 1
    on_image: str | None = None
    """Another image than the contract's."""
    prompts: Path | None = None
    """A folder of prompts that is looked at before all others."""
    read: Read | None = None
    """Another way of reading the state than the contract's."""
    audit: bool = True
    """Whether the whole disk is looked at for changes outside of what the contract observes, where the machine allows it."""

    @property
    def image(self) -> str:
        """The name of the image that the machine is made from."""
        return self.on_image or self.contract.contract.image


@dataclass
class Learnt:
    """What the runs of a campaign learn once and share.

    Attributes:
        before: Before-snapshots by checkpoint and contract: later clones read only what differs.
        indexes: Keys of tables by the hash of their content.
    """

    before: dict[str, Snapshot] = field(default_factory=dict)
    indexes: dict[tuple[str, ...], KeyIndex] = field(default_factory=dict)

    def indexes_of(self, contract: TaskContract, before: Snapshot, kept: SnapshotRef) -> dict[str, KeyIndex]:
        """The key indexes of a before-snapshot's tables, made now where there is none yet.

        Raises:
            Unreadable: A table contradicts itself.
            ContractFault: A key does not exist or is not unique.
        """
        found = {}
        for name, spec in contract.observe.items():
            state = before.get(name)
            if isinstance(spec, DbfTable) and spec.key and isinstance(state, TableState) and state.dbf is not None:
                content = (str(kept.readings[name].blobs["dbf"]), str(spec.encoding), *spec.key)
                try:
                    found[name] = self.indexes.get(content) or KeyIndex.build(state, spec.key, spec.encoding)
                except Unreadable as error:
                    raise Unreadable(f"{name}: before the run: {error.reason}") from None
                except ContractFault as error:
                    raise ContractFault(f"{name}: {error.reason}") from None
                self.indexes[content] = found[name]
        return found


class _Precondition(Exception):
    """What the contract requires of the initial state does not hold."""


class _AgentInfrastructure(Exception):
    """What the agent needs was out."""


class _Cancelled(Exception):
    """A person stopped the run."""


@dataclass
class _Draft:
    """What is known of a run so far; a record can be made of it at any moment."""

    plan: RunPlan
    run: str
    provider: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    timings: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    freshness: Freshness | None = None
    notes: tuple[str, ...] = ()
    prompt: str = ""
    template: str = ""
    supervised: Supervised | None = None
    titles: frozenset[str] | None = None
    """Of the windows that were seen while the agent worked; ``None``: not looked for, or not to be listed."""
    worked: Worked | None = None
    before: SnapshotRef | None = None
    after: SnapshotRef | None = None
    recording: Recording = field(default_factory=Recording)
    comparisons: tuple[Comparison, ...] = ()
    blind_spots: BlindSpots | None = None

    @contextmanager
    def phase(self, name: str, progress: Callable[[str], None]) -> Iterator[None]:
        progress(name)
        begun = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.monotonic() - begun


def run_once(
    plan: RunPlan,
    campaign: Campaign,
    provider: MachineProvider,
    *,
    learnt: Learnt,
    cancelled: threading.Event,
    progress: Callable[[str], None],
) -> RunRecord:
    """Makes one run, from a fresh machine to its record.

    Args:
        plan: What to run.
        campaign: Where evidence and record are kept.
        provider: Makes the machine.
        learnt: What earlier runs of the campaign have learnt.
        cancelled: Set when a person wants to stop.
        progress: Told the phase that begins.

    Returns:
        The record, as it was stored.
    """
    contract = plan.contract.contract
    draft = _Draft(plan, _run_id(plan), "")
    scratch = campaign.begin(draft.run)
    try:
        verdict = _judged(draft, contract, campaign, provider, scratch, learnt, cancelled, progress)
    except _Cancelled:
        verdict = unscored(UnscoredCause.CANCELLED, "The run was cancelled by a person.")
    except _Precondition as error:
        verdict = unscored(UnscoredCause.PRECONDITION, f"The initial state is not as the contract requires: {error}.")
    except _AgentInfrastructure as error:
        verdict = unscored(UnscoredCause.AGENT_INFRASTRUCTURE, f"What the agent needs was out: {error}.")
    except (ContractFault, SetupError, PromptError, ContractError, ImageError) as error:
        verdict = unscored(UnscoredCause.CONTRACT, f"The contract cannot be applied: {error}.")
    except Unreadable as error:
        verdict = unscored(UnscoredCause.UNREADABLE, f"A state that the contract needs could not be read: {error}.")
    except (MachineError, GuestLost, DisplayError, OSError, subprocess.SubprocessError) as error:
        # A full disk or a process that does not end is the house's fault, too: a campaign goes on without this run.
        verdict = unscored(UnscoredCause.MACHINE, f"The machine failed: {error}.")
    record = _record(draft, campaign, verdict)
    campaign.finish(record, scratch)
    return record


def _judged(
    draft: _Draft,
    contract: TaskContract,
    campaign: Campaign,
    provider: MachineProvider,
    scratch: Path,
    learnt: Learnt,
    cancelled: threading.Event,
    progress: Callable[[str], None],
) -> Verdict:
    def go_on() -> None:
        if cancelled.is_set():
            raise _Cancelled

    go_on()
    draft.prompt, draft.template = _prompt(draft.plan)
    image = find_image(draft.plan.image)
    draft.provider = image.manifest.provider
    folder = draft.plan.contract.path.parent if draft.plan.contract.path else Path.cwd()
    with draft.phase("prepare", progress):
        initial = contract.initial_state
        checkpoint = provider.prepare(image, initial.setup, initial.start, folder=folder)
    with draft.phase("clone", progress):
        machine = checkpoint.clone(Tag(campaign.name, draft.run))
    try:
        go_on()
        draft.freshness = machine.freshness
        draft.notes = tuple(getattr(machine, "notes", ()))
        if unfounded := check_noise(contract, machine.freshness.image, folders=noise_folders(image, folder)):
            raise ContractFault("; ".join(unfounded))
        draft.timings |= machine.timings  # what the clone's time went into
        with draft.phase("start", progress):
            machine.start(contract.initial_state.start)
            still = capture.settle(machine.guest, contract.observe, within=contract.limits.settle)
        with draft.phase("before", progress):
            read = draft.plan.read or contract.read
            key = f"{checkpoint.digest} {contract.id} {read}"
            with reading(machine, read, contract.observe, at="before") as source:
                before = source.take(contract.observe, earlier=learnt.before.get(key))
            learnt.before.setdefault(key, before)
            draft.before = campaign.keep_snapshot(before, settled=still, how=source.how)
            indexes = learnt.indexes_of(contract, before, draft.before)
            _check_initial_state(contract, before, indexes, _guest_now(machine))
        go_on()
        started = _guest_now(machine)
        with draft.phase("agent", progress):
            draft.supervised = _let_work(draft, contract, machine, campaign, scratch, cancelled)
            draft.timings["agent_work"] = draft.supervised.seconds
            machine.ensure_alive()
        ended = _guest_now(machine)
        draft.worked = Worked(started=started, ended=ended)
        with draft.phase("settle", progress):
            settled = capture.settle(machine.guest, contract.observe, within=contract.limits.settle)
        with draft.phase("after", progress), reading(machine, read, contract.observe, at="after") as source:
            after = source.take(contract.observe, earlier=before, seed=draft.run)
            after = source.contents_of_changed(contract, before, after)
            draft.after = campaign.keep_snapshot(after, settled=settled, how=source.how)
            if source.disk is not None and draft.plan.audit:
                draft.blind_spots = audit(source.disk, contract.observe)
        if draft.blind_spots is None and draft.plan.audit and isinstance(machine, DiskReadable):
            with draft.phase("audit", progress):
                draft.blind_spots = audit_of_machine(machine, contract.observe)
    finally:
        with draft.phase("discard", progress):
            _discard(machine, draft)
    go_on()
    if draft.supervised.infrastructure is not None:
        raise _AgentInfrastructure(draft.supervised.infrastructure)
    report = draft.supervised.report
    with draft.phase("verdict", progress):
        draft.comparisons = compare(contract.observe, before, after, indexes=indexes)
        return judge(
            contract,
            draft.comparisons,
            claim=Claim(report.status),
            returned=report.returned,
            started=started,
            ended=ended,
            pictures=draft.plan.contract.pictures,
        )


def _check_initial_state(
    contract: TaskContract, before: Snapshot, indexes: Mapping[str, KeyIndex], now: datetime
) -> None:
    """Finds out before the agent begins whether the run can be judged at all.

    Comparing the state with itself finds every observable that is unreadable, and every key that is missing or not unique.
    """
    same = compare(contract.observe, before, before, indexes=indexes)
    problems = unmet(
        contract.initial_state.require,
        rows={c.observable: c.rows for c in same if c.rows is not None},
        files={
            name: [item.path for item in state.items] for name, state in before.items() if isinstance(state, TreeState)
        },
        now=now,
    )
    if problems:
        raise _Precondition("; ".join(problems))


def _let_work(
    draft: _Draft,
    contract: TaskContract,
    machine: Machine,
    campaign: Campaign,
    scratch: Path,
    cancelled: threading.Event,
) -> Supervised:
    """Lets the agent work on the machine through the flight recorder, and cuts it off."""
    log = scratch / "input.jsonl"
    agent = draft.plan.agent.agent
    recorder = FlightRecorder(
        machine.display,
        log_path=log,
        password=secrets.token_urlsafe(6)[:8],
        secrets=contract.secrets,
        listen_host=getattr(agent, "listen_host", "127.0.0.1"),
        listen_port=getattr(agent, "listen_port", 0),
    )
    folder = scratch / "agent"
    folder.mkdir()
    timeout = contract.limits.timeout
    watch = TitleWatch(machine.guest)
    try:
        address = recorder.start()
        task = AgentTask(
            contract=contract.id,
            instruction=contract.instruction,
            prompt=draft.prompt,
            parameters=contract.parameter_values,
            response_schema=contract.returns.schema_ if contract.returns else None,
            display=address,
            timeout=timeout,
            deadline=time.monotonic() + timeout,
            folder=folder,
            windows=lambda: watch.noted(windows(machine.guest)),
            cancelled=cancelled,
            prompt_template=draft.template,
            response_example=example_of(contract.returns.schema_ if contract.returns else None),
            secrets=contract.secrets,
            events=lambda: recorder.events,
        )
        with watch if _looks_for_windows(contract) else nullcontext():
            supervised = supervise(agent, task, cut=recorder.cut)
        draft.titles = watch.titles
    finally:
        recorder.stop()
        draft.recording = _recording(recorder, log, campaign)
    if recorder.upstream_lost is not None:
        raise MachineError(f"its display was lost: {recorder.upstream_lost}")
    if supervised.still_running:
        draft.faults.append("the agent did not stop at its deadline; it was cut off from the display")
    return supervised


def _looks_for_windows(contract: TaskContract) -> bool:
    return any(evidence.window is not None for evidence in contract.stages.values())


def _recording(recorder: FlightRecorder, log: Path, campaign: Campaign) -> Recording:
    events = recorder.events
    return Recording(
        events=campaign.keep(log.read_bytes()) if log.is_file() else None,
        keys=sum(event.kind == "key" and bool(event.down) for event in events),
        pointer=sum(event.kind == "pointer" for event in events),
        typed=[TypedText(start=start, end=end, text=text) for start, end, text in typed_text(events)],
        frames=[Frame(t=frame.t, image=campaign.keep(frame.png), reason=frame.reason) for frame in recorder.frames()],
    )


def _guest_now(machine: Machine) -> datetime:
    """The moment by the guest's clock, in the guest's zone."""
    fresh = machine.freshness
    zone = timezone(timedelta(seconds=fresh.utc_offset))
    return (datetime.now(UTC) + timedelta(seconds=fresh.clock_offset)).astimezone(zone)


def _discard(machine: Machine, draft: _Draft) -> None:
    try:
        machine.discard()
    except (MachineError, OSError, subprocess.SubprocessError) as error:
        draft.faults.append(f"the machine was not removed and is quarantined: {error}")


def _prompt(plan: RunPlan) -> tuple[str, str]:
    """The prompt as the agent gets it, and the same with its parameters not filled in."""
    loaded, contract = plan.contract, plan.contract.contract
    if plan.condition == "instruction":
        return contract.instruction, instruction_template(loaded)
    folders = prompt_folders(loaded.path, plan.prompts)
    prompt = find_prompt(contract.id, contract.id.partition(".")[0], plan.condition, folders=folders)
    style: Style = getattr(plan.agent.agent, "prompt_style", "plain")
    return render(prompt, contract.parameter_values, style=style), template(prompt, style=style)


def _run_id(plan: RunPlan) -> str:
    agent = re.sub(r"[^a-z0-9]+", "-", plan.agent.agent.name.lower()).strip("-")[:60] or "agent"
    return f"{plan.contract.contract.id}.{agent}.{plan.condition}.{plan.trial}-{secrets.token_hex(3)}"


def _record(draft: _Draft, campaign: Campaign, verdict: Verdict) -> RunRecord:
    loaded, contract = draft.plan.contract, draft.plan.contract.contract
    report = draft.supervised.report if draft.supervised else None
    hidden = contract.secrets
    # An agent's own secrets can be ordinary words: they are blotted out of what it says, and of nothing else.
    spoken = (*hidden, *(report.hidden if report else ()))
    shown = {
        name: blot_value(value if isinstance(value, _PLAIN) else str(value), hidden)
        for name, value in contract.parameter_values.items()
    }
    source = blot(loaded.source.decode("utf-8", "replace"), hidden).encode()
    return RunRecord(
        run=draft.run,
        campaign=campaign.name,
        trial=draft.plan.trial,
        attempt=draft.plan.attempt,
        contract=ContractRef(
            id=contract.id,
            title=blot(contract.title, hidden),
            sha256=loaded.sha256,
            source=campaign.keep(source),
            pictures={name: campaign.keep(data) for name, data in loaded.pictures.items()},
            parameters=shown,
            state_changing=contract.state_changing,
            application=blot(contract.application, hidden),
            domain=blot(contract.domain, hidden),
            instruction=blot(contract.instruction, hidden),
            goal=blot(contract.goal_state.summary, hidden),
        ),
        agent=AgentRef(
            spec=blot(draft.plan.agent.spec, hidden),
            name=blot(draft.plan.agent.agent.name, hidden),
            prompt=draft.plan.condition,
            prompt_text=campaign.keep(blot(draft.prompt, hidden).encode()),
            status=report.status if report else "not_run",
            message=blot(report.message, spoken) if report else "",
            returned=blot_value(report.returned, spoken) if report else None,
            usage=dict(report.usage) if report else {},
            timeline=[_entry(happening, spoken, campaign) for happening in (report.timeline if report else ())],
        ),
        image=draft.plan.image,
        provider=draft.provider or "none",
        freshness=draft.freshness.as_dict() if draft.freshness else None,
        machine_notes=list(draft.notes),
        started=draft.started,
        ended=datetime.now(UTC),
        worked=draft.worked,
        timings={name: round(seconds, 4) for name, seconds in draft.timings.items()},
        before=draft.before,
        after=draft.after,
        recording=draft.recording,
        blind_spots=draft.blind_spots and blot_part(draft.blind_spots, hidden),
        verdict=_judgement(blot_part(verdict_part(verdict, draft.comparisons), hidden), spoken),
        stages=_stages(draft, hidden) if report else [],
        intended=draft.plan.agent.intended,
        faults=[blot(fault, spoken) for fault in draft.faults],
    )


def _judgement(part: VerdictPart, spoken: tuple[str, ...]) -> VerdictPart:
    """The judgement, without an agent's own secrets in what it says of the returned values."""
    if not part.returns:
        return part
    returns = [blot_part(problem, spoken) for problem in part.returns]
    return part.model_copy(update={"returns": returns, "reason": blot(part.reason, spoken)})


_PLAIN = (str, bool, int, list)


def _stages(draft: _Draft, hidden: tuple[str, ...]) -> list[StageSeen]:
    """How far the run came. The log of typed keys shows a dot for each character of a secret, so that is what is looked for."""
    stages = {name: _dotted(evidence, hidden) for name, evidence in draft.plan.contract.contract.stages.items()}
    typed = [piece.text for piece in draft.recording.typed]
    found = stages_seen(stages, titles=draft.titles, typed=typed, comparisons=draft.comparisons)
    return [blot_part(StageSeen(name=stage.name, seen=stage.seen, evidence=stage.evidence), hidden) for stage in found]


def _dotted(evidence: Evidence, hidden: tuple[str, ...]) -> Evidence:
    typed = evidence.typed
    for secret in hidden if typed else ():
        typed = typed and typed.replace(secret, "•" * len(secret))
    return evidence.model_copy(update={"typed": typed})


def _entry(happening: Happening, hidden: tuple[str, ...], campaign: Campaign) -> TimelineEntry:
    picture = bare_png(happening.screenshot) if isinstance(happening.screenshot, bytes) else None
    return TimelineEntry(
        t=float(happening.t),
        text=blot(str(happening.text)[:2000], hidden),
        screenshot=campaign.keep(picture) if picture else None,
    )
