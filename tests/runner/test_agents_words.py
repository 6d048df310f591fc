"""What agents say is kept without secrets, also where it is cut; what the agents' own doctors say names the remedy."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from runner.agents import noop, scripted
from runner.agents.base import AgentInfrastructureError, AgentReport, AgentTask, Happening
from runner.agents.supervision import MAX_LINE, MAX_MESSAGE, Supervised, checked, supervise
from tests.runner.test_agents_base import Doing, task

ROOT = Path(__file__).parents[2]
SECRET = "geheim-4711"


def test_a_secret_at_the_place_of_a_cut_leaves_no_beginning() -> None:
    for before in range(1, len(SECRET)):
        message = "x" * (MAX_MESSAGE - before) + SECRET
        line = Happening(0, "x" * (MAX_LINE - before) + SECRET)
        name = "x" * (100 - before) + SECRET
        report = checked(AgentReport("failed", message=message, timeline=(line,), usage={name: 1}), (SECRET,))
        for text in (report.message, report.timeline[0].text, *report.usage):
            assert SECRET[:4] not in text
            assert text.startswith("xxxx")


def test_returned_values_keep_theirs_to_be_judged() -> None:
    assert checked(AgentReport("success", {"pin": SECRET}), (SECRET,)).returned == {"pin": SECRET}


@pytest.mark.parametrize("error", [ValueError, AgentInfrastructureError])
def test_what_it_raises_is_kept_without_secrets(error: type[Exception]) -> None:
    def crash(_: AgentTask) -> Any:
        raise error(f"login with {SECRET} failed")

    result: Supervised = supervise(Doing(crash), task(secrets=(SECRET,)), cut=lambda: None)
    assert SECRET not in result.report.message
    assert SECRET not in (result.infrastructure or "")
    assert "•••" in result.report.message


def test_the_account_after_a_time_out_is_kept_without_secrets() -> None:
    gone = threading.Event()

    def works(_: AgentTask) -> AgentReport:
        gone.wait(60)
        return AgentReport("success", timeline=(Happening(0, f"typed {SECRET}"),))

    given = task(0.05, secrets=(SECRET,))
    result = supervise(Doing(works), given, cut=gone.set)
    assert [entry.text for entry in result.report.timeline] == ["typed •••"]
    assert time.monotonic() >= given.deadline


def test_the_doctors_of_agents_that_need_nothing() -> None:
    assert [finding.ok for finding in noop.doctor("")] == [True]
    assert "success" in noop.doctor("success")[0].message
    (wrong,) = noop.doctor("triumph")
    assert (wrong.ok, bool(wrong.remedy)) == (False, True)
    assert "triumph" in wrong.message


def test_the_doctor_of_scripts(tmp_path: Path) -> None:
    (well,) = scripted.doctor(str(ROOT / "recordings" / "dswin" / "open-dswin"))
    assert well.ok
    assert "dswin.open-dswin" in well.message
    (tmp_path / "bad.yaml").write_text("schema: 1\n")
    for argument in ("", str(tmp_path / "none.yaml"), str(tmp_path)):
        (wrong,) = scripted.doctor(argument)
        assert (wrong.ok, bool(wrong.remedy)) == (False, True)
