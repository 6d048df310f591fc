"""The command line: ``legacyproof``.

Exit status: 0 every run is a valid success · 1 some run is not · 2 usage or contract error · 3 nothing could be scored, or this
computer failed: no room for a record or the report.

What happens to standard output and standard error ends no command. A reader that has gone has had enough, a stream that is closed
is not wanted: neither changes the status. Where output that is all that a command makes cannot be written (a full disk), the status
is 3 instead of 0. `run` keeps the status that its outcomes have: they stand in the records and the report.
"""

from __future__ import annotations

import sys

import typer

from contracts.load import ContractError
from prompts.render import PromptError
from runner.agents.base import AgentSpecError
from runner.bundle import BundleError
from runner.commands import authoring, conformance, doctor, evidence, image, lint, machines, prompts, run
from runner.commands.streams import bearing
from runner.commands.terminal import Refused, err
from runner.host_disk import NO_ROOM, Unwritable, in_words
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
    """The entry point: users' mistakes are told in words, with status 2, faults of this computer with status 3."""
    with bearing() as (standard_output, _):
        status = _status()
        standard_output.flush()
        if unwritten := standard_output.unwritten:
            err.print(f"standard output cannot be written: {unwritten}", soft_wrap=True)
            status = 3 if status == 0 and not standard_output.kept else status
    sys.exit(status)


def _status() -> int:
    """Runs the command; its exit status."""
    try:
        app()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except (
        Refused, ContractError, AgentSpecError, StoreError, ImageError, PromptError, ReportError, BundleError, NoGoldenRun, HomeError,
    ) as error:  # fmt: skip
        err.print(str(error), soft_wrap=True)
        return 2
    except MachineError as error:
        err.print(str(error), soft_wrap=True)
        return 3
    except Unwritable as error:
        err.print(str(error), soft_wrap=True)
        return error.status
    except OSError as error:
        if error.errno not in NO_ROOM:  # anything else is a mistake of ours
            raise
        err.print(in_words(error), soft_wrap=True)
        return 3
    return 0
