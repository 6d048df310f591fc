"""``legacyproof conformance``: proves a machine provider or a guest fit for judging agents by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from contracts.load import ContractError
from runner.commands.terminal import Refused, err, out, say, told
from runner.conformance import told as telling
from runner.conformance.scene import Scene
from runner.conformance.suite import CHECKS, What, chosen, run
from runner.machines.base import MachineError, MachineProvider, provider
from runner.machines.images import Image, available, find_image

Name = Annotated[str, typer.Argument(help="The machine provider: wine, libvirt, or a plug-in.")]
ImageName = Annotated[
    str, typer.Option("--image", help="What to make machines from; the provider's first unless given.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Without the checks that take long.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per check and line.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print the results as a table in Markdown.")]
Pattern = Annotated[str, typer.Option("--check", help="Only the checks whose names fit, e.g. 'read-*'.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    conformance = typer.Typer(
        help="Proves a machine provider or a guest fit for judging agents: 0 all passed, 1 some failed.",
        no_args_is_help=True,
    )
    conformance.command("machine")(machine)
    conformance.command("guest")(guest)
    conformance.command("checks")(checks)
    app.add_typer(conformance, name="conformance")


def machine(
    name: Name,
    image: ImageName = "",
    quick: Quick = False,
    as_json: AsJson = False,
    markdown: Markdown = False,
    check: Pattern = "*",
) -> None:
    """Checks a provider's machines and their displays: fresh, separate, gone without a trace."""
    _run("machine", name, image, check, quick=quick, as_json=as_json, markdown=markdown)


def guest(
    name: Name,
    image: ImageName = "",
    quick: Quick = False,
    as_json: AsJson = False,
    markdown: Markdown = False,
    check: Pattern = "*",
) -> None:
    """Checks the guest of a provider's machine: files, programs, windows, registry and clock."""
    _run("guest", name, image, check, quick=quick, as_json=as_json, markdown=markdown)


def checks() -> None:
    """Prints what every check proves, in Markdown."""
    for what, found in CHECKS.items():
        print(f"### `conformance {what}`\n\n{telling.reference(found)}")  # noqa: T201 - for a file: no wrapping


def _run(what: What, name: str, image: str, pattern: str, *, quick: bool, as_json: bool, markdown: bool) -> None:
    if as_json and markdown:
        raise Refused("--json and --markdown are two forms of the same; give one")
    wanted = chosen(what, pattern, quick=quick)
    if not wanted:
        raise Refused(f"no check of a {what} fits {pattern!r}; `legacyproof conformance checks` lists them")
    made, found = _provider(name), _image(name, image)
    results = []
    with err.status("") as shown:
        for result in run(
            wanted,
            lambda: Scene(made, found, folder=Path.cwd()),
            begun=shown.update if err.is_terminal else err.print,
            warned=lambda problem: err.print(f"warning: {problem}", soft_wrap=True),
        ):
            results.append(result)
            if as_json:
                print(json.dumps(telling.as_data(result), ensure_ascii=True), flush=True)  # noqa: T201
    if markdown:
        print(telling.markdown(results), end="")  # noqa: T201
    elif not as_json:
        out.print(telling.table(results))
        told(telling.explained(results))
    err.print(f"{name}, {what}, image {found.manifest.name}: {telling.summary(results)}", soft_wrap=True)
    raise typer.Exit(1 if any(result.outcome == "failed" for result in results) else 0)


def _provider(name: str) -> MachineProvider:
    try:
        return provider(name, say)
    except MachineError as error:
        raise Refused(str(error)) from None


def _image(name: str, image: str) -> Image:
    """The image asked for, or the first of the provider's that is valid; those that are not are told.

    Raises:
        Refused: It is another provider's, or there is none.
    """
    if image:
        found = find_image(image)
        if found.manifest.provider != name:
            raise Refused(f"the image {image} is for the provider {found.manifest.provider}, not for {name}")
        return found
    for there in available():
        try:
            found = find_image(there)
        except ContractError as error:
            err.print(f"warning: the image {there} is left out: {error}", soft_wrap=True)
            continue
        if found.manifest.provider == name:
            return found
    raise Refused(f"there is no image for the provider {name}; name one with --image")
