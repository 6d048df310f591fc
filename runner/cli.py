"""The command line: ``legacyproof``.

Exit status: 0 every run is a valid success · 1 some run is not · 2 usage or contract error · 3 nothing could be scored.
"""

from __future__ import annotations

import sys

import typer

from contracts.load import ContractError
from prompts.render import PromptError
from runner.agents.base import AgentSpecError
from runner.bundle import BundleError
from runner.commands import authoring, conformance, doctor, evidence, image, lint, machines, prompts, run
from runner.commands.terminal import Refused, err
from runner.machines.base import HomeError, MachineError
from runner.machines.images import ImageError
from runner.mutate import NoGoldenRun
from runner.report.html import ReportError
from runner.store import StoreError

app = typer.Typer(
    name="legacyproof",
    help="Atomicity test runner for GUI agents on Windows: did the agent do exactly what it should, or leave no trace?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for commands in (run, lint, evidence, authoring, doctor, machines, image, prompts, conformance):
    commands.add_to(app)


def main() -> None:
    """The entry point: users' mistakes are told in words, with status 2."""
    try:
        app()
    except (
        Refused, ContractError, AgentSpecError, StoreError, ImageError, PromptError, ReportError, BundleError, NoGoldenRun, HomeError,
    ) as error:  # fmt: skip
        err.print(str(error), soft_wrap=True)
        sys.exit(2)
    except MachineError as error:
        err.print(str(error), soft_wrap=True)
        sys.exit(3)
