"""``legacyproof run``: agents on contracts, each on a fresh machine; the outcomes, and a report."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from traceback import format_exception
from typing import Annotated, Any, cast, get_args

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from contracts.load import LoadedContract
from contracts.schema import Read
from prompts.render import Condition, PromptError, find_prompt, prompt_folders
from runner.agents.base import PlannedAgent, plan
from runner.campaign import run_all
from runner.commands.loading import lint_before, load, parameters_given
from runner.commands.streams import kept_in_files
from runner.commands.terminal import Refused, err, out, say
from runner.host_disk import Unwritable
from runner.machines.base import MachineProvider, provider
from runner.machines.images import find_image
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.report.html import ReportError, write_report
from runner.report.tables import outcome_table
from runner.spellings import blot
from runner.store import Campaign, StoreError

_LISTED = 20
"""Records that could not be stored that are named one by one."""


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(run)


def run(
    contracts: Annotated[list[Path], typer.Argument(help="Contract files, or folders of them.")],
    agent: Annotated[
        list[str],
        typer.Option(
            "--agent",
            help="legacy-use, computer-use:<provider>/<model>, command:<program>, human, scripted:<file or folder>, noop, or a plug-in's.",
        ),
    ],
    prompt: Annotated[
        str, typer.Option(help="Prompt condition: expert or instruction; the expert's where there is one unless given.")
    ] = "",
    trials: Annotated[int, typer.Option(min=1, max=10_000, help="Repetitions of each run.")] = 1,
    parallel: Annotated[
        int,
        typer.Option(
            min=0,
            max=256,
            help="Machines that work at a time; 0: as the host allows. Each may leave one behind that is only waited for.",
        ),
    ] = 0,
    reruns: Annotated[int, typer.Option(min=0, max=10, help="Reruns after faults of machine or provider.")] = 1,
    parameter: Annotated[
        list[str] | None, typer.Option("--param", help="name=value; overrides the contract's.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder for campaigns.")] = Path("runs"),
    name: Annotated[str, typer.Option(help="The campaign's name; the date and time unless given.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per run and line on standard output.")
    ] = False,
    intended: Annotated[
        bool, typer.Option("--as-intended", help="Succeed when every run is what its script says it must be.")
    ] = False,
    image: Annotated[str, typer.Option("--image", help="Run on this image instead of the contracts' own.")] = "",
    read: Annotated[
        str, typer.Option(help="Read files and tables in this way instead: live, disk, shutdown or power_off.")
    ] = "",
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Look at the whole disk, where the machine allows it.")
    ] = True,
    prompts: Annotated[
        Path | None, typer.Option("--prompts", help="A folder of prompts, <condition>/<task>.yaml, looked at first.")
    ] = None,
    no_lint: Annotated[
        bool, typer.Option("--no-lint", help="Run contracts although lint finds errors in them.")
    ] = False,
) -> None:
    """Runs agents on contracts, each on a fresh machine, and judges what they did."""
    if prompt not in ("", "expert", "instruction"):
        raise Refused(f"--prompt is {prompt!r}; it can be expert or instruction")
    if read not in ("", *get_args(Read)):
        raise Refused(f"--read is {read!r}; it can be {', '.join(get_args(Read))}")
    loaded = load(contracts, parameters_given(parameter or []))
    lint_before(loaded, go_on=no_lint)
    plans = [
        replace(each, on_image=image or None, read=cast("Read", read) if read else None, audit=audit, prompts=prompts)
        for each in _plans(loaded, agent, prompt, trials, prompts)
    ]
    providers = {name: provider(find_image(name).manifest.provider, say) for name in {each.image for each in plans}}
    alone = any(getattr(each.agent.agent, "interactive", False) for each in plans)
    campaign = Campaign.create(runs, name or _new_name(runs))
    _warn_of_leftovers(providers.values())

    cancelled = threading.Event()
    with _stop_on_signals(cancelled), campaign.held():
        at_once = 1 if alone else parallel or _machines_at_once()
        records = _make(plans, campaign, providers, at_once, reruns, cancelled, as_json=as_json, silent=alone)
        whole = _tell_unstored(campaign, planned=len(plans), made=len(records))
        report = _report(campaign)
    kept_in_files()
    if not as_json:
        out.print(outcome_table(records))
    if report is not None:
        err.print(f"report: {report}", soft_wrap=True)
    status = (_intended_status if intended else _status)(records, planned=len(plans))
    raise typer.Exit(status if whole and report is not None else 3)


def _tell_unstored(campaign: Campaign, *, planned: int, made: int) -> bool:
    """Says which runs the host had no room for; whether there are none."""
    if campaign.stopped is not None:
        err.print(f"{campaign.stopped}\nruns that were not made for want of room: {planned - made}", soft_wrap=True)
    unstored = campaign.unstored
    for record in unstored[:_LISTED]:
        err.print(
            f"{record.run}: {_brief(record)}: its record could not be written, nothing but this line keeps it",
            soft_wrap=True,
        )
    if len(unstored) > _LISTED:
        err.print(f"… and {len(unstored) - _LISTED} more records could not be written")
    return campaign.stopped is None and not unstored


def _report(campaign: Campaign) -> Path | None:
    """Writes the report; ``None`` where that cannot be done, which is told."""
    try:
        return write_report(
            campaign.records(), campaign.blob, campaign.folder / "report",
            title=campaign.name, generated=datetime.now(UTC),
        )  # fmt: skip
    except (Unwritable, ReportError, StoreError) as error:
        err.print(
            f"there is no report: {error}\n`legacyproof report {campaign.folder}` writes it later", soft_wrap=True
        )
        return None


def _plans(
    loaded: Sequence[LoadedContract], specs: Sequence[str], prompt: str, trials: int, prompts: Path | None
) -> list[RunPlan]:
    agents: list[PlannedAgent] = []
    for spec in specs:
        meant = plan(spec)
        if not any(agent.contract in (None, item.contract.id) for agent in meant for item in loaded):
            wanted = ", ".join(sorted({str(agent.contract) for agent in meant}))
            there = ", ".join(item.contract.id for item in loaded)
            raise Refused(f"--agent {spec} is for {wanted}; the contracts are {there}")
        agents += meant
    return [
        RunPlan(contract, agent, _condition(contract, prompt, prompts), trial)
        for contract in loaded
        for agent in agents
        if agent.contract in (None, contract.contract.id)
        for trial in range(1, trials + 1)
    ]


def _condition(item: LoadedContract, wanted: str, prompts: Path | None) -> Condition:
    """The prompt condition of a contract's runs: the one wanted, else the expert's prompt where there is one."""
    if wanted == "instruction":
        return "instruction"
    try:
        folders = prompt_folders(item.path, prompts)
        find_prompt(item.contract.id, item.contract.id.partition(".")[0], "expert", folders=folders)
    except PromptError:
        if wanted:
            raise
        return "instruction"
    return "expert"


def _new_name(runs: Path) -> str:
    now = datetime.now(UTC).astimezone().strftime("%Y-%m-%d-%H%M%S")
    names = (now if number == 1 else f"{now}-{number}" for number in itertools.count(1))
    return next(name for name in names if not (runs / name).exists())


def _make(
    plans: Sequence[RunPlan],
    campaign: Campaign,
    providers: dict[str, MachineProvider],
    parallel: int,
    reruns: int,
    cancelled: threading.Event,
    *,
    as_json: bool,
    silent: bool,
) -> list[RunRecord]:
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), console=err, transient=True,
        disable=silent or not err.is_terminal,
    ) as bar:  # fmt: skip
        total = bar.add_task(f"{campaign.name}: 0 of {len(plans)} runs", total=len(plans))
        rows: dict[int, Any] = {}
        done = 0

        def progress(plan: RunPlan, phase: str) -> None:
            text = f"{plan.contract.contract.id} · {plan.agent.agent.name} · {phase}"
            if id(plan) not in rows:
                rows[id(plan)] = bar.add_task(text, total=None)
            bar.update(rows[id(plan)], description=text)

        def finished(plan: RunPlan, record: RunRecord) -> None:
            nonlocal done
            if id(plan) in rows:
                bar.remove_task(rows.pop(id(plan)))
            done += not record.superseded
            bar.update(total, completed=done, description=f"{campaign.name}: {done} of {len(plans)} runs")
            if as_json:
                print(json.dumps(_line(record, campaign), ensure_ascii=True), flush=True)  # noqa: T201
            elif not err.is_terminal:
                err.print(_brief(record), soft_wrap=True)

        refused: dict[str, list[str]] = {}
        failures: list[str] = []

        def broken(plan: RunPlan, error: Exception) -> None:
            which = f"{plan.contract.contract.id} · {plan.agent.agent.name} · trial {plan.trial}"
            where = blot("".join(format_exception(error)).rstrip(), plan.contract.contract.secrets)
            failures.append(f"{which}: the runner failed, and there is no record of this run\n{where}")

        records = run_all(
            plans, campaign, lambda image: providers[image], parallel=min(parallel, len(plans)), reruns=reruns,
            cancelled=cancelled, progress=progress, finished=finished,
            left_out=lambda plan, why: refused.setdefault(f"{plan.agent.spec}: {why}", []).append(plan.contract.contract.id),
            broken=broken,
        )  # fmt: skip
    for failure in failures:
        err.print(failure, soft_wrap=True)
    for why, others in refused.items():
        err.print(f"runs not begun: {len(others)}; {why}", soft_wrap=True)
    return records


def _line(record: RunRecord, campaign: Campaign) -> dict[str, Any]:
    return {
        "run": record.run,
        "contract": record.contract.id,
        "agent": record.agent.spec,
        "prompt": record.agent.prompt,
        "trial": record.trial,
        "attempt": record.attempt,
        "superseded": record.superseded,
        "outcome": record.verdict.outcome,
        "kind": record.verdict.kind,
        "cause": record.verdict.cause,
        "reason": record.verdict.reason,
        "as_intended": record.as_intended,
        "seconds": round((record.ended - record.started).total_seconds(), 3),
        "record": str(campaign.folder / record.run / "record.json"),
    }


def _brief(record: RunRecord) -> str:
    verdict = record.verdict
    what = " ".join(part for part in (verdict.outcome.replace("_", " "), verdict.kind or verdict.cause) if part)
    return f"{record.contract.id} · {record.agent.name}: {what}"


@contextlib.contextmanager
def _stop_on_signals(cancelled: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM ask the runs to end in order, however often they come: the machines are removed and the report is written."""

    def ask(number: int, _frame: object) -> None:
        if cancelled.is_set():
            err.print("still removing machines; what is finished is kept")
            return
        cancelled.set()
        err.print(f"stopping ({signal.Signals(number).name}): machines are being removed; what is finished is kept")

    old = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _status(records: Sequence[RunRecord], *, planned: int) -> int:
    outcomes = [record.verdict.outcome for record in records]
    if not any(outcome != "unscored" for outcome in outcomes):
        return 3
    return 0 if len(outcomes) == planned and all(outcome == "valid_success" for outcome in outcomes) else 1


def _intended_status(records: Sequence[RunRecord], *, planned: int) -> int:
    stray = [record for record in records if record.as_intended is False]
    for record in stray:
        wanted = record.intended
        assert wanted is not None
        err.print(
            f"{record.run}: {record.verdict.outcome} {record.verdict.kind or record.verdict.cause or ''}, but its script "
            f"says {wanted.outcome} {wanted.kind or ''}: {record.verdict.reason}",
            soft_wrap=True,
        )  # fmt: skip
    said = [record for record in records if record.as_intended is not None]
    err.print(f"{len(said) - len(stray)} of {len(said)} runs are what their scripts say they must be")
    return 0 if said and not stray and len(records) == planned else 1


def _machines_at_once() -> int:
    return max(1, min(8, len(os.sched_getaffinity(0))))


def _warn_of_leftovers(providers: Any) -> None:
    left = [item for each in providers for item in each.leftovers() if not item.alive]
    if left:
        err.print(f"dead runners left {len(left)} machines behind; `legacyproof machines reap` removes them")
