"""Commands over stored runs: ``report``, ``rejudge``, ``explain``, ``export``, ``verify``."""

from __future__ import annotations

import json
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from contracts.load import load_contract
from runner import rejudge as rejudging
from runner.bundle import Bundle, BundleError, export, opened, verify
from runner.commands.loading import by_id, parameters_given
from runner.commands.terminal import Refused, err, out, told
from runner.explain import explain
from runner.report.html import write_report
from runner.store import Campaign


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command()(report)
    app.command("rejudge")(rejudge_command)
    app.command("export")(export_command)
    app.command("verify")(verify_command)
    app.command("explain")(explain_command)


def report(campaign: Annotated[Path, typer.Argument(help="A campaign's folder, e.g. runs/demo.")]) -> None:
    """Writes a campaign's report again from its records."""
    if not (campaign / "blobs").is_dir():
        raise Refused(f"{campaign} is no campaign's folder")
    kept = Campaign(campaign)
    path = write_report(kept.records(), kept.blob, campaign / "report", title=kept.name, generated=datetime.now(UTC))
    out.print(f"report: {path}", soft_wrap=True)


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
    files = None if contract is None else by_id([contract])
    with opened(runs) as folder:
        found = list(rejudging.rejudge(rejudging.runs_at(folder), files, parameters_given(parameter or [])))
    for again in found:
        if as_json:
            print(json.dumps(rejudging.as_data(again), ensure_ascii=True))  # noqa: T201
        else:
            told(rejudging.told(again))
    err.print(rejudging.summary(found), soft_wrap=True)
    if not any(again.verdict for again in found):
        raise typer.Exit(3)
    raise typer.Exit(1 if any(again.changes or again.damaged for again in found) else 0)


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


def verify_command(bundle: Annotated[Path, typer.Argument(help="A bundle: a folder, or a .zip file.")]) -> None:
    """Proves that a bundle is what it was when it was exported; names what was changed, added or is missing."""
    if not bundle.exists():
        raise Refused(f"there is no bundle at {bundle}")
    try:
        _tell_bundle(bundle, verify(bundle))
    except BundleError as error:
        err.print(f"{bundle} is not what it was:\n{error}", soft_wrap=True)
        raise typer.Exit(1) from None


def explain_command(
    runs: Annotated[list[Path] | None, typer.Argument(help="Runs, campaigns, or bundles.")] = None,
) -> None:
    """Tells in plain words why runs got their outcomes, and what to write if what they did is legitimate."""
    if not runs:
        raise Refused("name a run or a campaign, e.g. runs/NAME/RUN or runs/NAME; several may be named")
    with ExitStack() as stack:
        named = [rejudging.runs_at(stack.enter_context(opened(path))) for path in runs]
    # Of many the attempts that a later one replaces are left out, unless they are named themselves.
    chosen = [one for found in named for one in found if len(found) == 1 or not one.record.superseded]
    told_of: set[Path] = set()
    for one in chosen:
        place = (one.campaign.folder / one.record.run).absolute()
        if place in told_of:
            continue
        told([""] if told_of else [])
        told(explain(one.record))
        told_of.add(place)
    left_out = sum(map(len, named)) - len(chosen)
    if left_out:
        err.print(f"superseded attempts that are not told of: {left_out}; name them to read about them")


def _tell_bundle(path: Path, bundle: Bundle) -> None:
    redacted = f"; without {', '.join(bundle.redacted)}" if bundle.redacted else ""
    out.print(
        f"{path}: {len(bundle.runs)} runs in {bundle.files} files, {bundle.size:,} bytes{redacted}\nseal: {bundle.seal}",
        soft_wrap=True,
    )  # fmt: skip
