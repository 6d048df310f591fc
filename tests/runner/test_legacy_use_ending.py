"""What the end of a legacy-use job means: the words of the server, the model's words, and who has stopped it."""

from __future__ import annotations

from typing import Any

import pytest

from runner.agents.legacyuse.account import LogEntry
from runner.agents.legacyuse.ending import INTERRUPTED, Ending, Evidence, JobState, ending_of
from runner.agents.legacyuse.provider import OUT_OF_CREDITS

OVER = "the agent's time was over"


def said(name: str, **given: object) -> LogEntry:
    return LogEntry(1.0, "message", {"type": "tool_use", "name": name, "input": given})


CLICK = said("computer", action="left_click")
SYSTEM = LogEntry(2.0, "system", "Job completed with status: JobStatus.PAUSED")


def mismatch(reasoning: str) -> list[LogEntry]:
    return [CLICK, said("ui_not_as_expected", reasoning=reasoning), SYSTEM]


OVERLOADED = {"response": {"status_code": 529, "body": '{"error": {"type": "overloaded_error"}}'}}
ANSWERED = {"response": {"status_code": 200, "body": "{}"}}


def ended(job: JobState, log: list[LogEntry] | None, stopped: str | None = None, **known: Any) -> Ending:
    return ending_of(job, Evidence(log, **known), stopped=stopped)


def status(job: JobState, log: list[LogEntry] | None, stopped: str | None = None, **known: Any) -> str | None:
    return ended(job, log, stopped, **known).status


def paused(error: str | None) -> JobState:
    return JobState("paused", error)


def failed(error: str | None) -> JobState:
    return JobState("error", error)


INFRASTRUCTURE = [
    "Timeout waiting for session to become ready: x",
    "Target container at 172.17.0.9 failed health check. Status: 503",
    "Could not retrieve container_ip for session x",
    "Health check prerequisites not met (session_id missing).",
    "Session is destroyed",
    "Session not found",
    INTERRUPTED,
    OUT_OF_CREDITS,
    f"Error code: 403 - {{'error': '{OUT_OF_CREDITS}'}}",
]


@pytest.mark.parametrize("error", INFRASTRUCTURE)
def test_a_pause_by_the_server_is_not_counted(error: str) -> None:
    assert status(paused(error), [CLICK, SYSTEM]) is None


@pytest.mark.parametrize("error", INFRASTRUCTURE)
def test_a_model_that_says_the_servers_words_has_stopped_itself(error: str) -> None:
    assert status(paused(error), mismatch(error)) == "ui_not_as_expected"


@pytest.mark.parametrize("error", INFRASTRUCTURE[:6])
def test_a_machine_lost_before_the_models_stop_took_effect_is_not_counted(error: str) -> None:
    assert status(paused(error), mismatch("an odd box")) is None


def test_only_credits_stop_the_campaign() -> None:
    assert [e for e in INFRASTRUCTURE if ended(paused(e), []).lasting] == INFRASTRUCTURE[-2:]


@pytest.mark.parametrize("error", [INTERRUPTED, "Target container at 172.17.0.9 failed health check. Status: 503"])
def test_a_pause_that_we_have_asked_for_is_the_end_of_the_time(error: str) -> None:
    assert status(paused(error), [CLICK], OVER) == "timeout"


def test_a_model_that_stops_itself_while_we_interrupt_has_stopped_itself() -> None:
    assert status(paused("odd"), mismatch("odd"), OVER) == "ui_not_as_expected"


def test_a_mismatch_is_told_by_the_last_message_only() -> None:
    assert status(paused("something new"), [*mismatch("odd"), CLICK]) is None


def test_without_the_log_only_our_own_interrupt_is_certain() -> None:
    assert status(paused("odd"), None) is None
    assert status(paused("odd"), None, OVER) is None
    assert status(paused(INTERRUPTED), None, OVER) == "timeout"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("Model ended its turn without providing any extractions", "failed"),
        ("Job was automatically terminated: exceeded token limit", "error"),
        ("Lease expired; worker likely terminated", None),
        ("Error code: 500 - {'type': 'error'}", None),
        ("Connection error.", None),
        ("Request timed out.", None),
        ("API 'legacyproof.x' not found", None),
        (None, None),
        ("(psycopg2.OperationalError) server closed the connection unexpectedly", None),
        ("QueuePool limit of size 5 overflow 4 reached, connection timed out, timeout 30.00", None),
    ],
)
def test_an_error_counts_if_it_is_the_agents(error: str | None, expected: str | None) -> None:
    assert status(failed(error), [CLICK]) == expected
    assert status(failed(error), None) == expected


ODD = "'NoneType' object is not subscriptable"


def test_an_error_that_nothing_explains_counts_if_the_model_has_spoken_and_its_account_could_be_read() -> None:
    assert status(failed(ODD), [CLICK, SYSTEM]) == "error"
    assert status(failed(ODD), [CLICK], exchanges=[OVERLOADED, ANSWERED]) == "error"
    assert status(failed(ODD), [CLICK], OVER) == "timeout"
    assert status(failed(ODD), None) is None
    assert status(failed(ODD), [CLICK], exchanges=None) is None
    assert status(failed(ODD), [SYSTEM]) is None
    assert status(failed(ODD), [CLICK], exchanges=[ANSWERED, OVERLOADED]) is None


@pytest.mark.parametrize(("available", "lasting"), [(False, True), (True, False), (None, False)])
def test_a_provider_that_the_server_calls_unavailable_stays_so(available: bool | None, lasting: bool) -> None:
    ending = ended(failed(ODD), [SYSTEM], available=available)
    assert (ending.status, ending.lasting) == (None, lasting)
    assert ended(failed(ODD), [CLICK], available=available).status == "error", "it has answered all the same"


@pytest.mark.parametrize("job", [paused(INTERRUPTED), JobState("running")])
def test_a_time_that_ends_while_the_provider_fails_is_not_the_agents(job: JobState) -> None:
    assert status(job, [CLICK], OVER, exchanges=[ANSWERED, OVERLOADED]) is None
    assert status(job, None, OVER, exchanges=[ANSWERED, OVERLOADED]) is None
    assert status(job, [CLICK], OVER, exchanges=[OVERLOADED, ANSWERED]) == "timeout"


def test_an_error_that_the_model_returns_is_its_own_word() -> None:
    log = [said("extraction", data={"name": "x", "result": {"error": "Error code: 500"}}), SYSTEM]
    assert status(failed("Error code: 500"), log) == "failed"
    assert status(failed("Error code: 500 - overloaded"), log) is None
    assert status(failed("Error code: 500"), None) is None


def test_an_extraction_without_a_result_part_is_read_whole() -> None:
    log = [said("extraction", data={"error": True, "error_description": "no such patient"})]
    assert status(failed("no such patient"), log) == "failed"


@pytest.mark.parametrize(
    "content",
    [None, "text", {}, {"name": "extraction"}, {"name": "extraction", "input": []}, {"name": "ui_not_as_expected"}],
)
def test_logs_of_any_form_are_borne(content: object) -> None:
    log = [LogEntry(0.0, "message", content)]
    assert status(failed("boom"), log) == "error"
    assert status(paused("boom"), log) in (None, "ui_not_as_expected")


def test_a_job_that_somebody_else_cancels_is_not_counted() -> None:
    assert status(JobState("canceled"), []) is None
    assert status(JobState("canceled"), [], OVER) is None


def test_a_job_that_never_stops_is_the_end_of_the_time() -> None:
    assert status(JobState("running"), [], OVER) == "timeout"
    assert status(JobState("sleeping"), []) is None
