"""An agent that crashes, hangs, talks nonsense or goes on acting is a status of the run, never a crash of the runner."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from runner.agents.base import AgentInfrastructureError, AgentReport, AgentTask
from runner.display.errors import DisplayError
from runner.display.rfb import RfbClient
from runner.machines.wine import WineCheckpoint
from tests.faults.helpers import run_agent

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]


def test_a_crash_is_an_agent_error(tmp_path: Path) -> None:
    def crash(task: AgentTask) -> AgentReport:
        raise ZeroDivisionError("<script>alert(1)</script>")

    record, _ = run_agent(crash, tmp_path)
    assert (record.verdict.outcome, record.verdict.kind) == ("valid_failure", "agent_error")
    assert "ZeroDivisionError" in record.agent.message


def test_leaving_the_interpreter_is_an_agent_error(tmp_path: Path) -> None:
    def leave(task: AgentTask) -> AgentReport:
        raise SystemExit(0)

    record, _ = run_agent(leave, tmp_path)
    assert (record.verdict.outcome, record.verdict.kind) == ("valid_failure", "agent_error")


@pytest.mark.parametrize("nonsense", [None, "done", {"status": "success"}, AgentReport("triumph")])  # type: ignore[arg-type]
def test_a_report_that_is_none_is_an_agent_error(tmp_path: Path, nonsense: object) -> None:
    record, _ = run_agent(lambda _: nonsense, tmp_path)
    assert (record.verdict.outcome, record.verdict.kind) == ("valid_failure", "agent_error")


def test_a_hanging_agent_times_out_and_can_no_longer_act(tmp_path: Path) -> None:
    refused = threading.Event()
    go_on = threading.Event()

    def hang(task: AgentTask) -> AgentReport:
        client = RfbClient.connect(task.display)
        while not go_on.is_set():  # far beyond the deadline it opens the form, if it still can
            time.sleep(0.01)
            if time.monotonic() > task.deadline + 0.5:
                try:
                    client.press("F2")
                    RfbClient.connect(task.display, timeout=2)
                except DisplayError:
                    refused.set()
                    break
        go_on.wait(30)
        return AgentReport("success")

    record, _ = run_agent(hang, tmp_path, timeout="2s")
    go_on.set()
    assert refused.wait(10)
    assert (record.verdict.outcome, record.verdict.kind) == ("valid_failure", "timeout")
    assert record.agent.status == "timeout"
    assert any("did not stop" in fault for fault in record.faults)
    assert record.recording.keys == 0


def test_a_button_held_at_the_end_is_released_before_the_state_is_read(tmp_path: Path) -> None:
    def hold(task: AgentTask) -> AgentReport:
        client = RfbClient.connect(task.display)
        client.move(500, 300, buttons=1)
        return AgentReport("failed", message="gave up with the button down")

    record, _ = run_agent(hold, tmp_path)
    assert (record.verdict.outcome, record.verdict.kind) == ("valid_failure", "gave_up")


def test_an_outage_of_what_the_agent_needs_is_unscored(tmp_path: Path) -> None:
    def out(task: AgentTask) -> AgentReport:
        raise AgentInfrastructureError("quota exhausted")

    record, _ = run_agent(out, tmp_path)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "agent_infrastructure")


def test_a_cancelled_run_is_unscored_and_its_machine_removed(tmp_path: Path) -> None:
    cancelled = threading.Event()

    def work(task: AgentTask) -> AgentReport:
        cancelled.set()
        time.sleep(30)
        return AgentReport("success")

    record, _ = run_agent(work, tmp_path, cancelled=cancelled)
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "cancelled")


def test_hostile_texts_and_returned_values_are_kept_as_texts(tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>\u202e\udc80\0"

    def say(task: AgentTask) -> AgentReport:
        return AgentReport("failed", returned={evil: [evil]}, message=evil)

    record, campaign = run_agent(say, tmp_path)
    assert record.verdict.outcome == "valid_failure"
    assert "<img" in next(iter(campaign.records())).agent.message


def test_the_agent_gets_what_it_was_promised(tmp_path: Path, checkpoint: WineCheckpoint) -> None:
    seen: list[AgentTask] = []

    def look(task: AgentTask) -> AgentReport:
        seen.append(task)
        with RfbClient.connect(task.display) as client:
            assert client.size == (1024, 768)
        return AgentReport("failed")

    run_agent(look, tmp_path)
    task = seen[0]
    assert task.parameters["insurance_number"] == "1234567890"
    assert "Erika Muster" in task.instruction
    assert task.response_schema is not None
    assert task.display.host == "127.0.0.1"


def test_a_late_fault_of_its_surroundings_is_no_timeout_of_the_agent(tmp_path: Path) -> None:
    def give_up_late(task: AgentTask) -> AgentReport:
        time.sleep(max(0.0, task.deadline - time.monotonic()) + 0.3)
        raise AgentInfrastructureError("the model's server is gone")

    record, _ = run_agent(give_up_late, tmp_path, timeout="2s")
    assert (record.verdict.outcome, record.verdict.cause) == ("unscored", "agent_infrastructure")
    assert "server is gone" in record.verdict.reason


def test_its_own_secrets_are_judged_as_they_are_and_kept_nowhere_in_its_words(tmp_path: Path) -> None:
    def expecting(text: str) -> str:
        return text.replace("{patient_number: {field: new_patient.PATNR}}", "{patient_number: Erika}")

    def answer(task: AgentTask) -> AgentReport:
        return AgentReport("success", {"patient_number": "Erika"}, "it is Erika", hidden=("Erika",))

    record, campaign = run_agent(answer, tmp_path, change=expecting)
    assert (record.verdict.outcome, record.verdict.kind) == ("invalid_success", "phantom")
    assert record.verdict.returns_valid is True
    assert (record.agent.returned, record.agent.message) == ({"patient_number": "•••"}, "it is •••")
    assert "first_name: Erika" in campaign.blob(record.contract.source).decode()
    assert record.contract.parameters["first_name"] == "Erika"
