"""``legacyproof machines``: what is there, and what a dead runner left behind."""

from __future__ import annotations

from collections.abc import Callable

import typer
from rich.table import Table

from runner.commands.terminal import err, out
from runner.machines.base import OF_THE_HOUSE, Leftover, MachineError, provider
from runner.store import StoreError, abandoned, sweep


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    machines = typer.Typer(
        help="Machines that are there: in use, or left behind by a dead runner.", no_args_is_help=True
    )
    machines.command("list")(machines_list)
    machines.command("reap")(machines_reap)
    app.add_typer(machines, name="machines")


def machines_list() -> None:
    """Lists the machines and campaigns that are there, and which of them a dead runner left behind."""
    table = Table("what", "campaign", "run", "runner", "state")
    found = _leftovers()
    for item, _ in found:
        state = "in use" if item.alive else "left behind"
        table.add_row(item.name, item.campaign, item.run, str(item.runner_pid or ""), state)
    out.print(table if found else "nothing is there")


def machines_reap() -> None:
    """Removes what dead runners left behind: only what carries our tag, never what is in use."""
    failed = False
    for item, remove in _leftovers():
        if item.alive:
            out.print(f"{item.name} {item.campaign}: in use by the runner {item.runner_pid}, left alone")
            continue
        try:
            remove(item)
            out.print(f"{item.name} {item.campaign}: removed")
        except (MachineError, StoreError, OSError) as error:
            failed = True
            err.print(f"{item.name}: {error!s}")
    raise typer.Exit(1 if failed else 0)


def _leftovers() -> list[tuple[Leftover, Callable[[Leftover], None]]]:
    ours = [provider(name) for name in OF_THE_HOUSE]
    return [
        *((item, each.reap) for each in ours for item in each.leftovers()),
        *((item, sweep) for item in abandoned()),
    ]
