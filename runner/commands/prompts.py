"""``legacyproof prompts``: prompts as their agents get them, what differs between two, and what is wrong with them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

import contracts as contracts_package
from contracts.load import ContractError, LoadedContract, load_contract, read_model
from prompts.check import check_prompt, is_prompt
from prompts.diff import differences
from prompts.render import (
    STYLES,
    Prompt,
    PromptError,
    Written,
    find_prompt,
    instruction_template,
    prompt_folders,
    prompt_path,
    render,
    template,
)
from runner.commands.loading import parameters_given
from runner.commands.terminal import Refused, err, told
from runner.spellings import blot

CATALOGUE = Path(contracts_package.__file__).parent / "catalog"

_Folder = Annotated[
    Path | None,
    typer.Option("--prompts", help="A folder of prompts, <condition>/<task>.yaml, looked at before all others."),
]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(
        help="Prompts: how agents get them, what differs, what is wrong with them.", no_args_is_help=True
    )
    group.command("render")(render_command)
    group.command("diff")(diff_command)
    group.command("check")(check_command)
    app.add_typer(group, name="prompts")


def render_command(
    contract: Annotated[Path, typer.Argument(help="A contract.")],
    prompt: Annotated[str, typer.Option(help="Prompt condition: expert, video or instruction.")] = "expert",
    style: Annotated[str, typer.Option(help=f"The layout: {', '.join(STYLES)}.")] = "plain",
    prompts: _Folder = None,
    unfilled: Annotated[bool, typer.Option("--template", help="Leave {{parameters}} as they are.")] = False,
    secrets: Annotated[bool, typer.Option("--secrets", help="Show secret values.")] = False,
    parameter: Annotated[
        list[str] | None, typer.Option("--param", help="name=value; overrides the contract's.")
    ] = None,
) -> None:
    """Prints the prompt that an agent gets for a contract; secret values as ••• unless asked for."""
    if style not in STYLES:
        raise Refused(f"--style is {style!r}; it can be {', '.join(STYLES)}")
    loaded = load_contract(contract, parameters=parameters_given(parameter or []))
    if prompt == "instruction":
        text = instruction_template(loaded) if unfilled else loaded.contract.instruction
    else:
        found = _prompt_of(loaded, prompt, prompts)
        text = (
            template(found, style=style) if unfilled else render(found, loaded.contract.parameter_values, style=style)
        )
    print(text if secrets else blot(text, loaded.contract.secrets), end="" if text.endswith("\n") else "\n")  # noqa: T201


def diff_command(
    first: Annotated[Path, typer.Argument(help="A prompt, or a contract, whose own prompt is then meant.")],
    second: Annotated[Path, typer.Argument(help="Another prompt for the same contract.")],
    prompt: Annotated[
        str, typer.Option(help="The prompt condition that is meant where a contract is named.")
    ] = "expert",
    prompts: _Folder = None,
) -> None:
    """Tells step by step what differs between two prompts for the same contract: status 0 nothing, 1 something."""
    one, other = (_named(path, prompt, prompts) for path in (first, second))
    if one.contract != other.contract:
        raise Refused(
            f"{first} is for {one.contract}, {second} for {other.contract}: two prompts for one contract are compared"
        )
    lines = differences(one, other)
    told(lines or ["both say the same"])
    raise typer.Exit(1 if lines else 0)


def check_command(
    paths: Annotated[
        list[Path], typer.Argument(help="Prompts, contracts (their prompts are meant), or folders of them.")
    ],
    contracts: Annotated[
        list[Path] | None,
        typer.Option("--contracts", help="Where the prompts' contracts are, beside the usual places."),
    ] = None,
    prompts: _Folder = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding and line.")] = False,
) -> None:
    """Says what is wrong with prompts: status 0 nothing, 2 something."""
    files = _prompt_files(paths, prompts)
    known = _contracts([*paths, *(contracts or [])], files)
    findings = [finding for file in files for finding in check_prompt(file, known)]
    for finding in findings:
        print(json.dumps(finding.as_dict()) if as_json else finding, flush=True)  # noqa: T201 - one whole line each
    err.print(f"prompts: {len(files)}, findings: {len(findings)}")
    raise typer.Exit(2 if findings else 0)


def _prompt_of(loaded: LoadedContract, condition: str, folder: Path | None) -> Prompt:
    if condition not in get_args(Written):
        raise Refused(f"--prompt is {condition!r}; it can be expert, video or instruction")
    ident = loaded.contract.id
    return find_prompt(
        ident, ident.partition(".")[0], cast("Written", condition), folders=prompt_folders(loaded.path, folder)
    )


def _named(path: Path, condition: str, folder: Path | None) -> Prompt:
    if not path.is_file():
        raise Refused(f"there is no file {path}")
    return read_model(path, Prompt) if is_prompt(path) else _prompt_of(load_contract(path), condition, folder)


def _yaml(paths: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.rglob("*.yaml"))
        elif path.is_file():
            files.append(path)
        else:
            raise Refused(f"there is no file or folder {path}")
    return files


def _prompt_files(paths: Sequence[Path], folder: Path | None) -> list[Path]:
    """The prompts that are named, directly or by their contracts, each once."""
    found: dict[Path, Path] = {}
    for file in _yaml(paths):
        if is_prompt(file):
            found.setdefault(file.resolve(), file)
            continue
        try:
            loaded = load_contract(file)
        except ContractError:
            if file in paths:
                raise
            continue  # another kind of file in the folder
        ident = loaded.contract.id
        for condition in get_args(Written):
            with contextlib.suppress(PromptError):  # it need not have one of each condition
                path = prompt_path(
                    ident, ident.partition(".")[0], condition, folders=prompt_folders(loaded.path, folder)
                )
                found.setdefault(path.resolve(), path)
    if not found:
        raise Refused(f"there are no prompts in {', '.join(map(str, paths))}")
    return list(found.values())


def _contracts(named: Sequence[Path], prompt_files: Sequence[Path]) -> dict[str, LoadedContract]:
    """The contracts that prompts may be for: those named, those beside the prompts' folders, and the catalogue's."""
    beside = [parent.parent for file in prompt_files for parent in file.absolute().parents if parent.name == "prompts"]
    known: dict[str, LoadedContract] = {}
    for file in (
        _yaml([path for path in named if path.exists()])
        + [file for folder in dict.fromkeys(beside) for file in sorted(folder.glob("*.yaml"))]
        + sorted(CATALOGUE.rglob("*.yaml"))
    ):
        try:
            loaded = load_contract(file)
        except ContractError:
            continue  # prompts, scripts and the like; a contract with mistakes is for `legacyproof lint`
        known.setdefault(loaded.contract.id, loaded)
    return known
