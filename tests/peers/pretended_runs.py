"""``legacyproof`` in a process of its own, with runs that need no machine: each keeps evidence, does something to the host, and is scored.

``python -m tests.peers.pretended_runs PLAN ARGUMENTS…``: the plan is JSON, ``{"evidence": bytes of each run, "before": {number of a
run, from 1: shell command before its evidence is kept}, "after": {…: before its record is finished}}``. Everything else, from the
command line to the store and the report, is the program's own.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

from runner import campaign as campaigns
from runner import cli
from runner.plan import RunPlan
from runner.record import AgentRef, ContractRef, RunRecord, VerdictPart
from runner.store import Campaign


class Pretended:
    """Makes runs in the place of :func:`runner.lifecycle.run_once`, and treats the host's refusals as it does."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._numbers = itertools.count(1)

    def __call__(self, plan: RunPlan, campaign: Campaign, _provider: object, **_named: object) -> RunRecord:
        number = next(self._numbers)
        run = f"run-{number}"
        scratch = campaign.begin(run)
        started = datetime.now(UTC)
        try:
            self._do("before", number)
            for _ in range(self._plan.get("pieces", 1)):
                campaign.keep(os.urandom(self._plan.get("evidence", 10)))
            campaign.ensure_room(scratch)
            verdict = VerdictPart(outcome="valid_success", reason="Exactly what was asked for happened.")
        except OSError as error:
            verdict = VerdictPart(outcome="unscored", cause="machine", reason=f"The machine failed: {error}.")
        self._do("after", number)
        loaded, contract = plan.contract, plan.contract.contract
        record = RunRecord(
            run=run, campaign=campaign.name, trial=plan.trial, attempt=plan.attempt,
            contract=ContractRef(
                id=contract.id, title=contract.title, sha256=loaded.sha256, source=campaign.owe(loaded.source), parameters={},
                state_changing=True, application="a", domain="d", instruction=contract.instruction, goal="done",
            ),
            agent=AgentRef(
                spec=plan.agent.spec, name=plan.agent.agent.name, prompt=plan.condition,
                prompt_text=campaign.owe(f"Prompt of {run}: zwölf – 12".encode()),
            ),
            image=contract.image, provider="wine", started=started, ended=datetime.now(UTC), verdict=verdict,
        )  # fmt: skip
        campaign.finish(record, scratch)
        return record

    def _do(self, when: str, number: int) -> None:
        command = self._plan.get(when, {}).get(str(number))
        if command:
            subprocess.run(["sh", "-c", command], check=False, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    """Runs the command line on the rest of the arguments."""
    plan = json.loads(sys.argv[1])
    vars(campaigns)["run_once"] = Pretended(plan)
    sys.argv = ["legacyproof", *sys.argv[2:]]
    cli.main()


if __name__ == "__main__":
    main()
