"""``legacyproof doctor``: what a run needs, and what is wrong with it."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from runner.commands.terminal import err, out, say
from runner.doctor.examination import examine
from runner.findings import Finding
from runner.machines.base import provider

_WORDS = {True: "ok", False: "NOT OK", None: "could not tell"}


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("doctor")(doctor)


def doctor(
    image: Annotated[str, typer.Option(help="The image to make a machine from.")] = "dentadesk",
    agent: Annotated[str, typer.Option(help="An agent to look at as well, e.g. legacy-use.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per finding and line.")] = False,
) -> None:
    """Looks at host, provider, image, one machine and an agent: status 0 all is well, 1 something is not."""
    found: list[Finding] = []
    with err.status("") as shown:
        for finding in examine(
            image, agent or None, folder=Path.cwd(), begun=shown.update, providers=partial(provider, say=say)
        ):
            found.append(finding)
            if as_json:
                print(json.dumps(asdict(finding), ensure_ascii=True), flush=True)  # noqa: T201
            else:
                _tell(finding)
    wrong = sum(finding.ok is False for finding in found)
    unknown = sum(finding.ok is None for finding in found)
    err.print(f"ok: {len(found) - wrong - unknown}, not ok: {wrong}, could not tell: {unknown}")
    raise typer.Exit(1 if wrong or unknown else 0)


def _tell(finding: Finding) -> None:
    out.print(f"{_WORDS[finding.ok]:<14}  {finding.name}: {finding.message}", soft_wrap=True)
    if finding.remedy:
        out.print(f"{'':<14}  → {finding.remedy}", soft_wrap=True)
