"""Commands for those who write contracts: ``new``, ``mutate``, ``calibrate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from contracts.lint import lint
from contracts.load import load_contract
from contracts.noise import ID as NOISE_ID
from contracts.writing import flow
from runner import mutate as mutating
from runner.agents.base import plan
from runner.calibrate import (
    CalibrationError,
    Measuring,
    measure,
    new_path,
    noise_table,
    rules_for,
    situations,
    write_list,
)
from runner.commands.loading import load, parameters_given
from runner.commands.terminal import Refused, err, out, say, told
from runner.delays import LONGEST_WATCHED, measure_delays
from runner.display.errors import DisplayError
from runner.guests.base import GuestLost
from runner.machines.base import MachineError, SetupError, provider
from runner.machines.images import find_image
from runner.new_contract import NewContractError, Options, author
from validators.changes import ContractFault


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("new")(new_command)
    app.command("mutate")(mutate_command)
    app.command()(calibrate)


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
        given=parameters_given(parameter or []), demonstration=demonstration, yes=yes,
    )  # fmt: skip
    try:
        written = author(options, out, lambda found: provider(found.manifest.provider, say))
    except ValidationError as error:
        raise Refused("; ".join(problem["msg"] for problem in error.errors())) from None
    except (NewContractError, ContractFault, SetupError) as error:
        raise Refused(str(error)) from None
    except (GuestLost, DisplayError) as error:
        raise MachineError(f"the machine is gone: {error}") from None
    for finding in lint(load_contract(written)):
        err.print(f"{finding.severity}: {finding!s}", soft_wrap=True)
    out.print(f"contract: {written}", soft_wrap=True)


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
    for item in load(contracts, parameters_given(parameter or [])):
        tried = mutating.try_contract(item, kept, parameters_given(parameter or []))
        sound = sound and tried.found.sound
        if as_json:
            print(json.dumps(mutating.as_data(tried), ensure_ascii=True), flush=True)  # noqa: T201
        else:
            told(mutating.told(tried, by_flaw=by_kind))
    raise typer.Exit(0 if sound else 1)


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
    good: Annotated[
        list[str] | None,
        typer.Option(
            help="An agent that does the contracts' tasks right: how late its last change comes is measured too."
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(help="The list's file; noise/<image>-<date>.yaml beside the manifest unless given.")
    ] = None,
) -> None:
    """Measures what changes on an image while nobody does anything, and proposes the narrowest rules that ignore it."""
    found = find_image(image)
    loaded = load(contracts, {}) if contracts else []
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
        makes = provider(found.manifest.provider, say)
        agents = [agent for spec in good or () for agent in plan(spec)]
        if agents and not any(agent.contract in (None, item.contract.id) for agent in agents for item in loaded):
            raise Refused("--good: name the contracts whose tasks the agent does")
        delays = measure_delays(
            loaded, agents, makes, watched=min(seconds, LONGEST_WATCHED), repetitions=repetitions, on_image=image,
            progress=lambda phase: err.print(phase, soft_wrap=True),
        )  # fmt: skip
        noise = measure(
            found, makes, wanted, Measuring(seconds, every, repetitions),
            name=target.stem, contracts=[item.contract for item in loaded],
            progress=lambda phase: err.print(phase, soft_wrap=True),
        )  # fmt: skip
        write_list(noise.model_copy(update={"delays": delays}), target)
    except ValidationError as error:
        raise Refused("; ".join(problem["msg"] for problem in error.errors())) from None
    except (CalibrationError, ContractFault, SetupError, OSError) as error:
        raise Refused(f"{image} cannot be calibrated: {error}") from None
    except GuestLost as error:
        raise MachineError(f"the machine is gone: {error}") from None
    out.print(noise_table(noise))
    for delay in delays:
        out.print(
            f"{delay.contract}: the last change of {delay.runs} good run{'s' * (delay.runs != 1)} came {delay.longest} s after the last "
            f"input at the latest; `quiet: {delay.quiet}s` is enough",
            soft_wrap=True,
        )  # fmt: skip
    for item in loaded:
        for where, rules in rules_for(item.contract, noise).items():
            out.print(f"{item.contract.id}, {where}:")
            out.print("\n".join(f"  - {flow(rule)}" for rule in rules), soft_wrap=True)
    out.print(f"noise list: {target}", soft_wrap=True)
