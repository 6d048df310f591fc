"""``legacyproof lint`` and ``schema``: what contracts look like, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from contracts.json_schema import json_schema
from contracts.lint import Finding, Known, not_loaded, reference
from contracts.load import ContractError, LoadedContract, load_contract
from runner.commands.loading import contract_files, linted, parameters_given, tell_noise
from runner.commands.terminal import Refused, err, say
from runner.guests.base import GuestLost
from runner.inspect_image import known_of
from runner.machines.base import MachineError, SetupError, provider
from runner.machines.images import find_image


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("lint")(lint_command)
    app.command()(schema)


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
    files = contract_files(contracts or [])
    overrides = parameters_given(parameter or [])
    findings: list[Finding] = []
    broken = False
    for file in files:
        try:
            loaded = load_contract(file, parameters=overrides)
            tell_noise(loaded)
            found = linted(loaded, _known(loaded) if image else None)
        except ContractError as error:
            broken = True
            found = not_loaded(error)
        findings += found
        for finding in found:
            print(json.dumps(finding.as_dict()) if as_json else finding, flush=True)  # noqa: T201 - one whole line each
    errors = sum(finding.severity == "error" for finding in findings)
    err.print(f"contracts: {len(files)}, errors: {errors}, warnings: {len(findings) - errors}")
    raise typer.Exit(2 if broken else 1 if errors else 0)


def _known(loaded: LoadedContract) -> Known:
    """What a contract's image looks like when a run begins."""
    contract = loaded.contract
    found = find_image(contract.image)
    folder = loaded.path.parent if loaded.path else Path.cwd()
    try:
        checkpoint = provider(found.manifest.provider, say).prepare(
            found, contract.initial_state.setup, contract.initial_state.start, folder=folder
        )
        return known_of(contract, checkpoint)
    except SetupError as error:
        raise Refused(f"{loaded.path}: the initial state cannot be set up: {error}") from None
    except GuestLost as error:
        raise MachineError(f"the machine was lost while it was read: {error}") from None


def schema() -> None:
    """Prints the JSON Schema of task contracts, for editors."""
    print(json.dumps(json_schema(), indent=2, ensure_ascii=False))  # noqa: T201 - for machines: no wrapping, no colours
