"""A contract that does not fit the machine it finds is noticed before the agent begins, and never counted against it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.agents.base import AgentReport, AgentTask
from tests.faults.helpers import run_agent

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]


def never(task: AgentTask) -> AgentReport:
    raise AssertionError("the agent must not begin")


@pytest.mark.parametrize(
    ("old", "new", "cause", "why"),
    [
        ("count: 0}", "count: 3}", "precondition", "3 rows"),
        ("title: DSWin - Patientenliste}, count: 1", "title: Another program}, count: 1", "precondition", "1 window"),
        ("key: [PATNR]", "key: [ORT]", "contract", "not unique"),
        ("key: [PATNR]", "key: [PATNO]", "contract", "PATNO"),
        ("DATA\\KATALOG.DBF", "DSWIN.LOG", "unreadable", "catalogue"),
        ("start: [dswin]", "start: [word]", "contract", "word"),
        ("start: [dswin]", "start: [{program: dswin, window: Nothing, timeout: 2s}]", "machine", "Nothing"),
        ("image: dentadesk", "image: spaceship", "contract", "spaceship"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_found_before_the_agent_begins(tmp_path: Path, old: str, new: str, cause: str, why: str) -> None:
    record, _ = run_agent(never, tmp_path, change=lambda text: text.replace(old, new, 1))
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", cause), record.verdict.reason
    assert why in record.verdict.reason
    assert record.agent.status == "not_run"
