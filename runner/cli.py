"""The command line: ``legacyproof``.

Exit status: 0 every run is a valid success · 1 some run is not · 2 usage or contract error · 3 nothing could be scored.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from contracts.json_schema import json_schema
from contracts.lint import Finding, Known, lint, not_loaded, reference
from contracts.load import ContractError, LoadedContract, load_contract
from contracts.noise import ID as NOISE_ID
from contracts.writing import flow
from prompts.render import Condition, PromptError, find_prompt
from runner import mutate as mutating
from runner import rejudge as rejudging
from runner.agents.base import AgentSpecError, PlannedAgent, plan
from runner.bundle import Bundle, BundleError, export, opened, verify
from runner.calibrate import (
    CalibrationError,
    Measuring,
    check_noise,
    lists_used,
    measure,
    new_path,
    noise_folders,
    noise_table,
    rules_for,
    situations,
    write_list,
)
from runner.campaign import run_all
from runner.display.errors import DisplayError
from runner.explain import explain
from runner.guests.base import GuestLost
from runner.inspect_image import known_of
from runner.lifecycle import RunPlan
from runner.machines.base import Leftover, MachineError, MachineProvider, SetupError, provider
from runner.machines.images import ImageError, find_image
from runner.new_contract import NewContractError, Options, author
from runner.record import RunRecord
from runner.report.html import ReportError, write_report
from runner.report.tables import outcome_table
from runner.store import Campaign, StoreError, abandoned, sweep
from validators.changes import ContractFault

app = typer.Typer(
    name="legacyproof",
    help="Atomicity test runner for GUI agents on Windows: did the agent do exactly what it should, or leave no trace?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
machines_app = typer.Typer(
    help="Machines that are there: in use, or left behind by a dead runner.", no_args_is_help=True
)
app.add_typer(machines_app, name="machines")

_NARROW = 100
_out = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else _NARROW)
_err = Console(stderr=True, highlight=False, markup=False, emoji=False)


class Refused(Exception):
    """A user's mistake: told in words, exit status 2."""


@app.command()
def run(
    contracts: Annotated[list[Path], typer.Argument(help="Contract files, or folders of them.")],
    agent: Annotated[
        list[str], typer.Option("--agent", help="scripted:<file or folder>, noop[:status], or a plug-in's.")
    ],
    prompt: Annotated[
        str, typer.Option(help="Prompt condition: expert or instruction; the expert's where there is one unless given.")
    ] = "",
    trials: Annotated[int, typer.Option(min=1, max=10_000, help="Repetitions of each run.")] = 1,
    parallel: Annotated[int, typer.Option(min=0, max=256, help="Machines at a time; 0: as the host allows.")] = 0,
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
    no_lint: Annotated[
        bool, typer.Option("--no-lint", help="Run contracts although lint finds errors in them.")
    ] = False,
) -> None:
    """Runs agents on contracts, each on a fresh machine, and judges what they did."""
    if prompt not in ("", "expert", "instruction"):
        raise Refused(f"--prompt is {prompt!r}; it can be expert or instruction")
    loaded = _load(contracts, _overrides(parameter or []))
    _lint_before(loaded, go_on=no_lint)
    plans = _plans(loaded, agent, prompt, trials)
    providers = {item.contract.image: provider(find_image(item.contract.image).manifest.provider) for item in loaded}
    campaign = Campaign.create(runs, name or _new_name(runs))
    _warn_of_leftovers(providers.values())

    cancelled = threading.Event()
    with campaign.held():
        records = _make(plans, campaign, providers, parallel or _machines_at_once(), reruns, cancelled, as_json=as_json)
    if not as_json:
        _out.print(outcome_table(records))
    report = write_report(
        campaign.records(), campaign.blob, campaign.folder / "report",
        title=campaign.name, generated=datetime.now(UTC),
    )  # fmt: skip
    _err.print(f"report: {report}", soft_wrap=True)
    if intended:
        raise typer.Exit(_intended_status(records, planned=len(plans)))
    raise typer.Exit(_status(records, planned=len(plans)))


@app.command("lint")
def lint_command(
    contracts: Annotated[list[Path] | None, typer.Argument(help="Contract files, or folders of them.")] = None,
    image: Annotated[
        bool, typer.Option("--image", help="Compare with the image too: makes a machine per contract, reads it once.")
    ] = False,
    parameter: Annotated[
        list[str] | None, typer.Option("--param", help="name=value; overrides the contract's.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding and line.")] = False,
    rules: Annotated[bool, typer.Option("--rules", help="Print the reference of all rules, in Markdown.")] = False,
) -> None:
    """Says what is wrong with contracts: status 0 clean or only warnings, 1 errors, 2 a contract cannot be loaded."""
    if rules:
        print(reference(), end="")  # noqa: T201 - for a file: no wrapping, no colours
        raise typer.Exit(0)
    files = _contract_files(contracts or [])
    overrides = _overrides(parameter or [])
    findings: list[Finding] = []
    broken = False
    for file in files:
        try:
            loaded = load_contract(file, parameters=overrides)
            _tell_noise(loaded)
            found = lint(loaded, _known(loaded) if image else None)
        except ContractError as error:
            broken = True
            found = not_loaded(error)
        findings += found
        for finding in found:
            print(json.dumps(finding.as_dict()) if as_json else finding, flush=True)  # noqa: T201 - one whole line each
    errors = sum(finding.severity == "error" for finding in findings)
    _err.print(f"contracts: {len(files)}, errors: {errors}, warnings: {len(findings) - errors}")
    raise typer.Exit(2 if broken else 1 if errors else 0)


def _known(loaded: LoadedContract) -> Known:
    """What a contract's image looks like when a run begins."""
    contract = loaded.contract
    found = find_image(contract.image)
    folder = loaded.path.parent if loaded.path else Path.cwd()
    try:
        checkpoint = provider(found.manifest.provider).prepare(found, contract.initial_state.setup, folder=folder)
        return known_of(contract, checkpoint)
    except SetupError as error:
        raise Refused(f"{loaded.path}: the initial state cannot be set up: {error}") from None
    except GuestLost as error:
        raise MachineError(f"the machine was lost while it was read: {error}") from None


def _lint_before(loaded: Sequence[LoadedContract], *, go_on: bool) -> None:
    """Lint as a step before runs: warnings are told, errors refuse them."""
    told = [finding for item in loaded for finding in lint(item) if finding.problem not in item.warnings]
    errors = [str(finding) for finding in told if finding.severity == "error"]
    for finding in told:
        if finding.severity == "warning" or go_on:
            _err.print(f"{finding.severity}: {finding!s}", soft_wrap=True)
    if errors and go_on:
        _err.print(f"warning: --no-lint: running although lint finds errors: {len(errors)}")
    elif errors:
        raise Refused("\n".join(errors))


@app.command()
def schema() -> None:
    """Prints the JSON Schema of task contracts, for editors."""
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))  # noqa: T201 - for machines: no wrapping, no colours


@app.command()
def report(campaign: Annotated[Path, typer.Argument(help="A campaign's folder, e.g. runs/demo.")]) -> None:
    """Writes a campaign's report again from its records."""
    if not (campaign / "blobs").is_dir():
        raise Refused(f"{campaign} is no campaign's folder")
    kept = Campaign(campaign)
    path = write_report(kept.records(), kept.blob, campaign / "report", title=kept.name, generated=datetime.now(UTC))
    _out.print(f"report: {path}", soft_wrap=True)


@app.command("mutate")
def mutate_command(
    contracts: Annotated[list[Path], typer.Argument(help="Contract files, or folders of them.")],
    run: Annotated[
        Path | None, typer.Option("--run", help="A good run: its record, its folder, or a campaign that holds it.")
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder for campaigns; the newest good run there is taken.")] = Path(
        "runs"
    ),
    parameter: Annotated[
        list[str] | None, typer.Option("--param", help="name=value; for values the record does not keep.")
    ] = None,
    by_kind: Annotated[bool, typer.Option("--by-kind", help="Also how many bad states of each kind.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per contract and line.")] = False,
) -> None:
    """Tries whether contracts can fail: makes bad states from a recorded good run, and each must be rejected."""
    kept = mutating.runs_for(run, runs)
    sound = True
    for item in _load(contracts, _overrides(parameter or [])):
        tried = mutating.try_contract(item, kept, _overrides(parameter or []))
        sound = sound and tried.found.sound
        if as_json:
            print(json.dumps(mutating.as_data(tried), ensure_ascii=True), flush=True)  # noqa: T201
        else:
            _lines(mutating.told(tried, by_flaw=by_kind))
    raise typer.Exit(0 if sound else 1)


@app.command("rejudge")
def rejudge_command(
    runs: Annotated[Path, typer.Argument(help="A campaign, a folder of campaigns, one run, or a bundle.")],
    contract: Annotated[
        Path | None, typer.Option("--contract", help="Judge by this contract, or by those of this folder, instead.")
    ] = None,
    parameter: Annotated[
        list[str] | None, typer.Option("--param", help="name=value; for values the record does not keep.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per run and line.")] = False,
) -> None:
    """Judges stored runs again from their evidence alone, and lists what changed and which rule did it."""
    files = None if contract is None else _by_id([contract])
    with opened(runs) as folder:
        found = list(rejudging.rejudge(rejudging.runs_at(folder), files, _overrides(parameter or [])))
    for again in found:
        if as_json:
            print(json.dumps(rejudging.as_data(again), ensure_ascii=True))  # noqa: T201
        else:
            _lines(rejudging.told(again))
    _err.print(rejudging.summary(found), soft_wrap=True)
    if not any(again.verdict for again in found):
        raise typer.Exit(3)
    raise typer.Exit(1 if any(again.changes or again.damaged for again in found) else 0)


@app.command("export")
def export_command(
    runs: Annotated[Path, typer.Argument(help="A campaign, or one run of it.")],
    target: Annotated[Path, typer.Argument(help="The bundle: a new folder, or a new file that ends in .zip.")],
    run: Annotated[list[str] | None, typer.Option("--run", help="Only this run (may be repeated).")] = None,
    screens: Annotated[
        bool, typer.Option("--screens/--no-screens", help="With pictures of the screen or without.")
    ] = True,
    redact: Annotated[
        Path | None, typer.Option("--redact", help="A contract whose secret values are blotted out of all evidence.")
    ] = None,
) -> None:
    """Writes runs and everything their verdicts rest on as one bundle, with the SHA-256 of every file."""
    kept = rejudging.runs_at(runs)
    unknown = set(run or ()) - {item.record.run for item in kept}
    if unknown:
        raise Refused(f"there is no run {', '.join(sorted(unknown))} at {runs}")
    secrets = () if redact is None else load_contract(redact).contract.secrets
    if redact is not None and not secrets:
        raise Refused(f"{redact} has no secret values (`secret: true`)")
    chosen = [item for item in kept if not run or item.record.run in run]
    _tell_bundle(target, export(chosen, target, screens=screens, secrets=secrets))


@app.command("verify")
def verify_command(bundle: Annotated[Path, typer.Argument(help="A bundle: a folder, or a .zip file.")]) -> None:
    """Proves that a bundle is what it was when it was exported; names what was changed, added or is missing."""
    if not bundle.exists():
        raise Refused(f"there is no bundle at {bundle}")
    try:
        _tell_bundle(bundle, verify(bundle))
    except BundleError as error:
        _err.print(f"{bundle} is not what it was:\n{error}", soft_wrap=True)
        raise typer.Exit(1) from None


@app.command("explain")
def explain_command(run: Annotated[Path, typer.Argument(help="A run's folder or record.")]) -> None:
    """Tells in plain words why a run got its outcome, and what to write if what it did is legitimate."""
    found = rejudging.runs_at(run)
    if len(found) > 1:
        names = "\n".join(f"  {item.campaign.folder / item.record.run}" for item in found[:20])
        raise Refused(f"{run} holds {len(found)} runs; name one of them:\n{names}")
    _lines(explain(found[0].record))


def _lines(lines: Iterable[str]) -> None:
    for line in lines:
        _out.print(line, soft_wrap=True)


def _by_id(paths: Sequence[Path]) -> dict[str, Path]:
    """Contract files by the ids of the contracts."""
    return {item.contract.id: item.path for item in _load(paths, {}) if item.path is not None}


def _tell_bundle(path: Path, bundle: Bundle) -> None:
    redacted = f"; without {', '.join(bundle.redacted)}" if bundle.redacted else ""
    _out.print(
        f"{path}: {len(bundle.runs)} runs in {bundle.files} files, {bundle.size:,} bytes{redacted}\nseal: {bundle.seal}",
        soft_wrap=True,
    )  # fmt: skip


@app.command()
def calibrate(
    image: Annotated[str, typer.Argument(help="The image, e.g. dentadesk.")],
    contracts: Annotated[
        list[Path] | None, typer.Argument(help="Contracts: their set-up, programs and observables are used.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="How long each machine is left alone.")] = 60,
    repetitions: Annotated[int, typer.Option(min=1, max=100, help="On how many machines, one after the other.")] = 3,
    every: Annotated[float, typer.Option(min=0.2, max=3600, help="Seconds between two looks.")] = 1,
    watch: Annotated[
        list[str] | None, typer.Option(help="A folder to watch; without contracts the programs' unless given.")
    ] = None,
    registry: Annotated[list[str] | None, typer.Option(help="A registry key to watch.")] = None,
    write: Annotated[
        Path | None, typer.Option(help="The list's file; noise/<image>-<date>.yaml beside the manifest unless given.")
    ] = None,
) -> None:
    """Measures what changes on an image while nobody does anything, and proposes the narrowest rules that ignore it."""
    found = find_image(image)
    loaded = _load(contracts, {}) if contracts else []
    target = write or new_path(found)
    if not NOISE_ID.fullmatch(target.stem) or target.suffix != ".yaml":
        raise Refused(f"{target.name}: a list's file bears its id, such as {image}-2026-11-29.yaml")
    if target.exists():
        raise Refused(f"{target} is there already, and measured lists are not overwritten")
    try:
        wanted = situations(
            [(item.contract, item.path.parent if item.path else Path.cwd()) for item in loaded],
            found, watch=watch or (), registry=registry or (),
        )  # fmt: skip
        noise = measure(
            found, provider(found.manifest.provider), wanted, Measuring(seconds, every, repetitions),
            name=target.stem, contracts=[item.contract for item in loaded],
            progress=lambda phase: _err.print(phase, soft_wrap=True),
        )  # fmt: skip
        write_list(noise, target)
    except ValidationError as error:
        raise Refused("; ".join(problem["msg"] for problem in error.errors())) from None
    except (CalibrationError, ContractFault, SetupError, OSError) as error:
        raise Refused(f"{image} cannot be calibrated: {error}") from None
    except GuestLost as error:
        raise MachineError(f"the machine is gone: {error}") from None
    _out.print(noise_table(noise))
    for item in loaded:
        for where, rules in rules_for(item.contract, noise).items():
            _out.print(f"{item.contract.id}, {where}:")
            _out.print("\n".join(f"  - {flow(rule)}" for rule in rules), soft_wrap=True)
    _out.print(f"noise list: {target}", soft_wrap=True)


@app.command("new")
def new_command(
    path: Annotated[Path | None, typer.Argument(help="The contract's file; <id>.yaml unless given.")] = None,
    image: Annotated[str, typer.Option(help="The image, e.g. dentadesk.")] = "",
    ident: Annotated[str, typer.Option("--id", help="The contract's id, e.g. dswin.add-new-patient.")] = "",
    title: Annotated[str, typer.Option(help="The task in a few words.")] = "",
    program: Annotated[str, typer.Option(help="The program of the image.")] = "",
    application: Annotated[str, typer.Option(help="The program's name for people.")] = "",
    domain: Annotated[str, typer.Option(help="The field it is used in, e.g. dental/healthcare.")] = "",
    instruction: Annotated[str, typer.Option(help="What the agent is told, parameters as {{name}}.")] = "",
    table: Annotated[
        list[str] | None, typer.Option(help="A table to observe; all below the folders unless given.")
    ] = None,
    files: Annotated[list[str] | None, typer.Option(help="A folder to observe; the program's unless given.")] = None,
    parameter: Annotated[list[str] | None, typer.Option("--param", help="name=value; a parameter of the task.")] = None,
    demonstration: Annotated[Path | None, typer.Option(help="A script that does the task, in place of you.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Ask nothing: options and defaults; nobody but a script does it.")
    ] = False,
) -> None:
    """Drafts a contract: looks at the image, lets you do the task once, and writes what changed as expected effects."""
    options = Options(
        path=path, image=image, id=ident, title=title, program=program, application=application, domain=domain,
        instruction=instruction, tables=tuple(table or ()), files=tuple(files or ()),
        given=_overrides(parameter or []), demonstration=demonstration, yes=yes,
    )  # fmt: skip
    try:
        written = author(options, _out, lambda found: provider(found.manifest.provider))
    except ValidationError as error:
        raise Refused("; ".join(problem["msg"] for problem in error.errors())) from None
    except (NewContractError, ContractFault, SetupError) as error:
        raise Refused(str(error)) from None
    except (GuestLost, DisplayError) as error:
        raise MachineError(f"the machine is gone: {error}") from None
    for finding in lint(load_contract(written)):
        _err.print(f"{finding.severity}: {finding!s}", soft_wrap=True)
    _out.print(f"contract: {written}", soft_wrap=True)


@machines_app.command("list")
def machines_list() -> None:
    """Lists the machines and campaigns that are there, and which of them a dead runner left behind."""
    table = Table("what", "campaign", "run", "runner", "state")
    found = _leftovers()
    for item, _ in found:
        state = "in use" if item.alive else "left behind"
        table.add_row(item.name, item.campaign, item.run, str(item.runner_pid or ""), state)
    _out.print(table if found else "nothing is there")


@machines_app.command("reap")
def machines_reap() -> None:
    """Removes what dead runners left behind: only what carries our tag, never what is in use."""
    failed = False
    for item, remove in _leftovers():
        if item.alive:
            _out.print(f"{item.name} {item.campaign}: in use by the runner {item.runner_pid}, left alone")
            continue
        try:
            remove(item)
            _out.print(f"{item.name} {item.campaign}: removed")
        except (MachineError, StoreError, OSError) as error:
            failed = True
            _err.print(f"{item.name}: {error!s}")
    raise typer.Exit(1 if failed else 0)


def _leftovers() -> list[tuple[Leftover, Callable[[Leftover], None]]]:
    wine = provider("wine")
    return [*((item, wine.reap) for item in wine.leftovers()), *((item, sweep) for item in abandoned())]


def _contract_files(paths: Sequence[Path]) -> list[Path]:
    if not paths:
        raise Refused("name a contract, or a folder of contracts")
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.rglob("*.yaml"))
        elif path.is_file():
            files.append(path)
        else:
            raise Refused(f"there is no contract at {path}")
    if not files:
        raise Refused(f"there are no contracts (*.yaml) in {', '.join(map(str, paths))}")
    return files


def _load(paths: Sequence[Path], overrides: dict[str, str]) -> list[LoadedContract]:
    loaded, problems = [], []
    for file in _contract_files(paths):
        try:
            loaded.append(load_contract(file, parameters=overrides))
        except ContractError as error:
            problems.append(str(error))
    if problems:
        raise Refused("\n".join(problems))
    seen: dict[str, LoadedContract] = {}
    for item in loaded:
        other = seen.setdefault(item.contract.id, item)
        if other is not item:
            raise Refused(f"{item.path} and {other.path} have the same id {item.contract.id!r}")
        for warning in item.warnings:
            _err.print(f"warning: {warning!s}", soft_wrap=True)
        _tell_noise(item)
    return loaded


def _tell_noise(item: LoadedContract) -> None:
    """Says which noise lists a contract rests on, and what of them does not hold; whether they are stale the run tells."""
    with contextlib.suppress(ImageError, ContractError):
        folders = noise_folders(find_image(item.contract.image), item.path.parent if item.path else Path.cwd())
        for line in lists_used(item.contract, folders=folders):
            _err.print(line, soft_wrap=True)
        for problem in check_noise(item.contract, None, folders=folders):
            _err.print(f"warning: {item.path}: {problem}", soft_wrap=True)


def _overrides(given: Sequence[str]) -> dict[str, str]:
    overrides = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise Refused(f"--param {item!r}: write name=value")
        overrides[key] = value
    return overrides


def _plans(loaded: Sequence[LoadedContract], specs: Sequence[str], prompt: str, trials: int) -> list[RunPlan]:
    agents: list[PlannedAgent] = []
    for spec in specs:
        meant = plan(spec)
        if not any(agent.contract in (None, item.contract.id) for agent in meant for item in loaded):
            wanted = ", ".join(sorted({str(agent.contract) for agent in meant}))
            there = ", ".join(item.contract.id for item in loaded)
            raise Refused(f"--agent {spec} is for {wanted}; the contracts are {there}")
        agents += meant
    return [
        RunPlan(contract, agent, _condition(contract, prompt), trial)
        for contract in loaded
        for agent in agents
        if agent.contract in (None, contract.contract.id)
        for trial in range(1, trials + 1)
    ]


def _condition(item: LoadedContract, wanted: str) -> Condition:
    """The prompt condition of a contract's runs: the one wanted, else the expert's prompt where there is one."""
    if wanted == "instruction":
        return "instruction"
    try:
        find_prompt(item.contract.id, item.contract.id.partition(".")[0], "expert")
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
) -> list[RunRecord]:
    with _stop_on_signals(cancelled), Progress(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), console=_err, transient=True,
        disable=not _err.is_terminal,
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
            elif not _err.is_terminal:
                _err.print(_brief(record), soft_wrap=True)

        return run_all(
            plans, campaign, lambda image: providers[image], parallel=min(parallel, len(plans)), reruns=reruns,
            cancelled=cancelled, progress=progress, finished=finished,
        )  # fmt: skip


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
    """Ctrl-C and SIGTERM ask the runs to end in order; a second one is the ordinary interruption."""

    def ask(number: int, _frame: object) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt
        cancelled.set()
        _err.print(f"stopping ({signal.Signals(number).name}): machines are being removed; what is finished is kept")

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
        _err.print(
            f"{record.run}: {record.verdict.outcome} {record.verdict.kind or record.verdict.cause or ''}, but its script "
            f"says {wanted.outcome} {wanted.kind or ''}: {record.verdict.reason}",
            soft_wrap=True,
        )  # fmt: skip
    said = [record for record in records if record.as_intended is not None]
    _err.print(f"{len(said) - len(stray)} of {len(said)} runs are what their scripts say they must be")
    return 0 if said and not stray and len(records) == planned else 1


def _machines_at_once() -> int:
    return max(1, min(8, len(os.sched_getaffinity(0))))


def _warn_of_leftovers(providers: Any) -> None:
    left = [item for each in providers for item in each.leftovers() if not item.alive]
    if left:
        _err.print(f"dead runners left {len(left)} machines behind; `legacyproof machines reap` removes them")


def _refuse(message: str) -> NoReturn:
    _err.print(message, soft_wrap=True)
    sys.exit(2)


def main() -> None:
    """The entry point: users' mistakes are told in words, with status 2."""
    try:
        app()
    except (
        Refused, ContractError, AgentSpecError, StoreError, ImageError, PromptError, ReportError, BundleError,
        mutating.NoGoldenRun,
    ) as error:  # fmt: skip
        _refuse(str(error))
    except MachineError as error:
        _err.print(str(error), soft_wrap=True)
        sys.exit(3)
