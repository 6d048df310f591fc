"""The agent that does nothing: the base line, and the test of a contract's teeth."""

from __future__ import annotations

from typing import cast

from runner.agents.base import STATUSES, AgentReport, AgentSpecError, AgentTask, PlannedAgent, Status
from runner.findings import Finding


class NoopAgent:
    """Does nothing and reports a status: ``noop`` a failure, ``noop:success`` a success that never was."""

    def __init__(self, status: Status) -> None:
        self.name = f"noop {status}"
        self._status = status

    def run(self, task: AgentTask) -> AgentReport:
        """See :meth:`runner.agents.base.Agent.run`."""
        return AgentReport(self._status, message=f"did nothing about {task.contract}")


def plan_noop(argument: str) -> list[PlannedAgent]:
    """The agent for ``noop`` or ``noop:<status>``.

    Raises:
        AgentSpecError: There is no such status.
    """
    status = argument or "failed"
    if status not in STATUSES:
        raise AgentSpecError(f"noop can report {', '.join(STATUSES)}; not {status!r}")
    return [PlannedAgent(f"noop:{status}", NoopAgent(cast("Status", status)))]


def doctor(argument: str) -> list[Finding]:
    """Whether there is such a status; it needs nothing else."""
    try:
        return [
            Finding(
                "agent: status", True, f"it does nothing, and reports {plan_noop(argument)[0].spec.partition(':')[2]}"
            )
        ]
    except AgentSpecError as error:
        return [Finding("agent: status", False, str(error), "name one of these")]
