"""The life of one run, top to bottom: contract → checkpoint → machine → snapshots → changes → ledger → verdict → record.

Whatever happens, a run ends with a record: faults of the house, the contract or a provider make it unscored, with their cause, and
never count against the agent.
"""

from __future__ import annotations

import secrets
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from contracts.load import ContractError
from contracts.schema import DbfTable, TaskContract
from prompts.render import (
    PromptError,
    Style,
    find_prompt,
    instruction_template,
    prompt_folders,
    render,
    template,
)
from prompts.response import example_of
from runner.agents.base import AgentTask
from runner.agents.supervision import Supervised, supervise
from runner.blind_spots.audit import audit, audit_of_machine, begin
from runner.calibrate import check_noise, noise_folders
from runner.display.errors import DisplayError
from runner.display.recorder import FlightRecorder
from runner.draft import Draft, last_input, new_run_id, record_of
from runner.guests.base import GuestLost, Unreadable
from runner.guests.windows import windows
from runner.host_disk import in_words
from runner.machines.base import Machine, MachineError, MachineProvider, SetupError, Tag
from runner.machines.images import ImageError, find_image
from runner.plan import RunPlan
from runner.record import RunRecord, SnapshotRef, Stillness, Worked
from runner.recording import recording_of
from runner.stillness import Watcher, at_one_moment, wait_until_quiet
from runner.store import Campaign
from runner.title_watch import TitleWatch
from validators.changes import ContractFault
from validators.dbf import KeyIndex, TableState
from validators.files import TreeState
from validators.require import unmet
from validators.snapshot import Snapshot, compare
from validators.verdict import Claim, UnscoredCause, Verdict, judge, unscored


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


_TRACEBACK = 8_000
"""Characters of a traceback that a record keeps: its end tells most."""


class _Precondition(Exception):
    """What the contract requires of the initial state does not hold."""


class _AgentInfrastructure(Exception):
    """What the agent needs was out."""


class _Cancelled(Exception):
    """A person stopped the run."""


def run_once(
    plan: RunPlan,
    campaign: Campaign,
    provider: MachineProvider,
    *,
    learnt: Learnt,
    cancelled: threading.Event,
    progress: Callable[[str], None],
    left_alone: Callable[[], None] = lambda: None,
) -> RunRecord:
    """Makes one run, from a fresh machine to its record.

    Args:
        plan: What to run.
        campaign: Where evidence and record are kept.
        provider: Makes the machine.
        learnt: What earlier runs of the campaign have learnt.
        cancelled: Set when a person wants to stop.
        progress: Told the phase that begins.
        left_alone: Called when the agent has been cut off: from here on the machine only has to be quiet for a while.

    Returns:
        The record, as it was stored.
    """
    draft = Draft(plan, new_run_id(plan), "")
    scratch = campaign.begin(draft.run)
    try:
        verdict = _judged(draft, campaign, provider, scratch, learnt, cancelled, progress, left_alone)
    except Exception as error:  # whatever it is, it ends this run and no other
        verdict = _why_unscored(error, draft, cancelled=cancelled.is_set())
    try:
        record = record_of(draft, campaign, verdict)
    except Exception as error:
        verdict = _why_unscored(error, draft, cancelled=cancelled.is_set())
        bare = Draft(plan, draft.run, draft.provider, started=draft.started, faults=draft.faults)
        record = record_of(bare, campaign, verdict)
    campaign.finish(record, scratch)
    return record


def _why_unscored(error: Exception, draft: Draft, *, cancelled: bool) -> Verdict:
    """What a run that ended with an error is: a fault of whom, in words."""
    # A person's interruption comes first: it reaches machines and agents as well, which then fail in ways of their own.
    if cancelled or isinstance(error, _Cancelled):
        return unscored(UnscoredCause.CANCELLED, "The run was cancelled by a person.")
    match error:
        case _Precondition():
            return unscored(UnscoredCause.PRECONDITION, f"The initial state is not as the contract requires: {error}.")
        case _AgentInfrastructure():
            return unscored(UnscoredCause.AGENT_INFRASTRUCTURE, f"What the agent needs was out: {error}.")
        case ContractFault() | SetupError() | PromptError() | ContractError() | ImageError():
            return unscored(UnscoredCause.CONTRACT, f"The contract cannot be applied: {error}.")
        case Unreadable():
            return unscored(UnscoredCause.UNREADABLE, f"A state that the contract needs could not be read: {error}.")
        case MachineError() | GuestLost() | DisplayError() | OSError() | subprocess.SubprocessError():
            # A full disk or a process that does not end is the house's fault, too: a campaign goes on without this run.
            return unscored(UnscoredCause.MACHINE, f"The machine failed: {in_words(error)}.")
    draft.faults.append("".join(traceback.format_exception(error))[-_TRACEBACK:])
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    return unscored(
        UnscoredCause.MACHINE, f"The runner failed in a way that nobody foresaw: {what}; the run's faults tell where."
    )


def _judged(
    draft: Draft,
    campaign: Campaign,
    provider: MachineProvider,
    scratch: Path,
    learnt: Learnt,
    cancelled: threading.Event,
    progress: Callable[[str], None],
    left_alone: Callable[[], None],
) -> Verdict:
    def go_on() -> None:
        if cancelled.is_set():
            raise _Cancelled

    go_on()
    contract = draft.plan.contract.contract
    limits = contract.limits
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
        watcher = Watcher(machine.guest, contract.observe)
        with draft.phase("start", progress):
            machine.start(contract.initial_state.start)
            until = time.monotonic() + limits.settle_within
            still = wait_until_quiet(watcher, quiet=0.0, within=limits.settle_within)
        with draft.phase("before", progress):
            read = draft.plan.read or contract.read
            key = f"{checkpoint.digest} {contract.id} {read}"
            with at_one_moment(
                machine, read, contract.observe, watcher,
                at="before", earlier=learnt.before.get(key), until=until, within=limits.snapshot,
            ) as taken:  # fmt: skip
                before = taken.snapshot
            learnt.before.setdefault(key, before)
            draft.before = campaign.keep_snapshot(before, settled=still.quiet, how=taken.source.how)
            indexes = learnt.indexes_of(contract, before, draft.before)
            _check_initial_state(contract, before, indexes, _guest_now(machine))
            if draft.plan.audit:
                begin(machine)
        go_on()
        started = _guest_now(machine)
        with draft.phase("agent", progress):
            draft.supervised = _let_work(draft, contract, machine, campaign, scratch, cancelled)
            draft.timings["agent_work"] = draft.supervised.seconds
            machine.ensure_alive()
        go_on()
        left_alone()
        with draft.phase("settle", progress):
            until = time.monotonic() + limits.settle_within
            still = wait_until_quiet(watcher, quiet=limits.quiet, within=limits.settle_within)
            draft.stillness = Stillness(
                asked=limits.quiet,
                reached=still.quiet,
                waited=still.waited,
                last_change=still.last_change,
                since_input=None if draft.last_input is None else until - limits.settle_within - draft.last_input,
            )
        with draft.phase("after", progress), at_one_moment(
            machine, read, contract.observe, watcher,
            at="after", earlier=before, until=until, within=limits.snapshot, seed=draft.run,
        ) as taken:  # fmt: skip
            ended = _guest_now(machine)  # what a program stores late bears its own time, and is of this run
            draft.worked = Worked(started=started, ended=ended)
            after = taken.source.contents_of_changed(contract, before, taken.snapshot)
            draft.after = campaign.keep_snapshot(after, settled=still.quiet, how=taken.source.how)
            if taken.source.disk is not None and draft.plan.audit:
                draft.blind_spots = audit(taken.source.disk, contract.observe)
        if draft.blind_spots is None and draft.plan.audit:
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
    draft: Draft,
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
        draft.last_input = last_input(recorder)
        draft.recording = recording_of(recorder, log, campaign)
        if draft.recording.fault:
            draft.faults.append(draft.recording.fault)
    campaign.ensure_room(scratch)
    if recorder.upstream_lost is not None:
        raise MachineError(f"its display was lost: {recorder.upstream_lost}")
    if supervised.still_running:
        draft.faults.append("the agent did not stop at its deadline; it was cut off from the display")
    return supervised


def _looks_for_windows(contract: TaskContract) -> bool:
    return any(evidence.window is not None for evidence in contract.stages.values())


def _guest_now(machine: Machine) -> datetime:
    """The moment by the guest's clock, in the guest's zone."""
    fresh = machine.freshness
    zone = timezone(timedelta(seconds=fresh.utc_offset))
    return (datetime.now(UTC) + timedelta(seconds=fresh.clock_offset)).astimezone(zone)


def _discard(machine: Machine, draft: Draft) -> None:
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
