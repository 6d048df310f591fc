"""The legacy-use agent against a stand-in server: one job per run whatever happens, each state by its cause, nothing left."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.agents.base import Agent, AgentInfrastructureError, AgentSpecError, plan
from runner.agents.legacyuse.client import Server
from runner.agents.supervision import Supervised, checked, supervise
from runner.display.handshake import DisplayAddress
from runner.spellings import BLOT, blot_value
from tests.peers.legacy_use_server import CREDITS, INTERRUPTED, KEY, PROVIDER_KEY, FaultKind, Work
from tests.peers.rfb_server import FakeRfbServer, wait_until
from tests.runner.legacy_use_helpers import (
    EXAMPLE,
    LONG,
    PASSWORD,
    RESULT,
    Bench,
    Clock,
    bench,
    clock,
    configuration,
    task,
)
from tests.secret_search import leaks_in

__all__ = ["bench", "clock"]

SECRET = 'ge"heim\\7'
JOBS = "targets/[^/]+/jobs/"


def out(bench: Bench, **about: object) -> str:
    """What the agent says when what it needs is out."""
    with pytest.raises(AgentInfrastructureError) as caught:
        bench.run(**about)
    return str(caught.value)


# --- a run as it should be --------------------------------------------------------------------------------------------


def test_a_run_makes_its_own_target_at_the_recorder_and_one_job(bench: Bench) -> None:
    prompts: list[str] = []

    def model(work: Work) -> None:
        prompts.append(work.prompt)
        work.extract(RESULT)

    bench.server.model = model
    report = bench.run()
    assert (report.status, report.returned, report.message) == ("success", RESULT, "")
    (target,) = bench.server.targets.values()
    about = {name: target[name] for name in ("type", "host", "port", "password", "width", "height")}
    assert about == {
        "type": "vnc", "host": "127.0.0.1", "port": bench.display.port, "password": PASSWORD, "width": 1024, "height": 768,
    }  # fmt: skip
    assert target["name"].startswith("legacyproof dswin.add-new-patient ")
    (job,) = bench.server.jobs.values()
    assert job.data["parameters"] == {"first_name": "Erika", "last_name": "Muster", "number": "42"}
    assert prompts[0].startswith("Register Erika Muster; the number is 42.\n")
    assert bench.server.count("POST", "sessions/") == 1
    bench.assert_tidy()


def test_the_definition_is_imported_once_and_its_version_told(bench: Bench) -> None:
    bench.more = "prompt_cleanup: Close the form of {{last_name}}.\n"
    reports = [bench.run() for _ in range(3)]
    assert bench.server.count("POST", "api/definitions/import") == 1
    ((name, definition),) = bench.server.definitions.items()
    (version,) = definition["versions"]
    assert version["prompt"] == "Register {{first_name}} {{last_name}}; the number is {{number}}."
    assert (version["prompt_cleanup"], version["response_example"]) == ("Close the form of {{last_name}}.", EXAMPLE)
    assert [parameter["name"] for parameter in version["parameters"]] == ["first_name", "last_name", "number"]
    assert all(f"definition {name}, version 1, {version['id']}" in report.timeline[0].text for report in reports)


def test_another_campaign_with_the_same_prompt_makes_no_other_version(bench: Bench) -> None:
    bench.run()
    bench.made = None
    bench.run()
    assert bench.server.count("POST", "api/definitions/import") == 1


def test_another_prompt_is_another_definition(bench: Bench) -> None:
    bench.run()
    bench.run(prompt="Register Erika Muster.", prompt_template="Register {{first_name}} {{last_name}}.")
    assert [len(definition["versions"]) for definition in bench.server.definitions.values()] == [1, 1]


def test_runs_at_the_same_time_share_the_definition(bench: Bench) -> None:
    agent = bench.agent
    statuses: list[str] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(agent.run(task(bench.address)).status)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == ["success", "success"]
    assert bench.server.count("POST", "api/definitions/import") == 1


def test_an_archived_definition_is_taken_out_of_the_archive(bench: Bench) -> None:
    bench.run()
    for definition in bench.server.definitions.values():
        definition["is_archived"] = True
    bench.made = None
    assert bench.run().status == "success"


def test_a_definition_that_the_server_has_lost_is_imported_for_the_next_run(bench: Bench) -> None:
    bench.run()
    bench.server.definitions.clear()
    assert "not found" in out(bench)
    assert bench.run().status == "success"


def test_a_definition_that_somebody_changes_meanwhile_makes_the_run_unscored(bench: Bench) -> None:
    def changed(work: Work) -> None:
        work.job.data["api_definition_version_id"] = "00000000-0000-0000-0000-000000000000"
        work.extract(RESULT)

    bench.server.model = changed
    assert "changed the definition" in out(bench)


def test_the_same_definition_imported_again_by_another_campaign_is_the_same(bench: Bench) -> None:
    def again(work: Work) -> None:
        (definition,) = bench.server.definitions.values()
        version = {**definition["versions"][0], "id": "11111111-0000-0000-0000-000000000000", "version_number": "2"}
        definition["versions"].append(version)
        work.job.data["api_definition_version_id"] = version["id"]
        work.extract(RESULT)

    bench.server.model = again
    assert bench.run().status == "success"


def test_tokens_turns_and_durations_are_counted_by_us(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.tool("computer", {"action": "screenshot"}, shot=True)
        work.turn({"type": "tool_use", "name": "computer", "input": {"action": "left_click", "coordinate": [1, 2]}})
        work.result(error="coordinate is required")
        work.extract(RESULT)

    bench.server.model = model
    report = bench.run()
    counted = {name: report.usage[name] for name in ("turns", "input_tokens", "output_tokens", "cache_read_tokens")}
    assert counted == {"turns": 3, "input_tokens": 3000, "output_tokens": 150, "cache_read_tokens": 600}
    assert (report.usage["tool_calls"], report.usage["tool_failures"], report.usage["missing_keys"]) == (3, 1, 0)
    assert report.usage["job_seconds"] >= report.usage["queue_seconds"] >= 0
    assert report.usage["session_seconds"] > 0


def test_tokens_of_openai_are_counted_although_the_servers_totals_stay_zero(bench: Bench) -> None:
    bench.server.behaviour.provider = "openai"
    bench.server.provider_credentials["openai"] = {"api_key": PROVIDER_KEY}
    assert bench.run().usage["input_tokens"] == 900


def test_the_film_strip_has_the_models_screenshots(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.tool("computer", {"action": "screenshot"}, shot=True)
        work.extract(RESULT)

    bench.server.model = model
    report = bench.run()
    shots = [line.screenshot for line in report.timeline if line.screenshot is not None]
    assert len(shots) == 1
    assert shots[0].startswith(b"\x89PNG")
    assert [line.text for line in report.timeline if line.text == "screenshot"]
    assert [line.t for line in report.timeline] == sorted(line.t for line in report.timeline)


def test_values_that_are_no_object_are_wrapped_for_the_server_and_unwrapped(bench: Bench) -> None:
    bench.server.model = lambda work: work.extract({"value": ["a", "b"]})
    assert bench.run(response_example=["text"]).returned == ["a", "b"]


def test_a_returned_value_named_error_does_not_fail_the_job(bench: Bench) -> None:
    bench.server.model = lambda work: work.extract({"value": {"error": "none"}})
    report = bench.run(response_example={"error": "text"})
    assert (report.status, report.returned) == ("success", {"error": "none"})


@pytest.mark.parametrize(
    ("result", "lacking"),
    [
        (RESULT, []),
        ({"patient_number": "1", "address": {}}, ["address.town"]),
        ({"address": "Ulm"}, ["patient_number", "address"]),
        ({}, ["patient_number"]),
    ],
)
def test_a_success_that_lacks_required_values_is_told(bench: Bench, result: Any, lacking: list[str]) -> None:
    address = {"type": "object", "required": ["town"], "properties": {"town": {"type": "string"}}}
    schema = {
        "type": "object",
        "required": ["patient_number"],
        "properties": {"patient_number": {"type": "string"}, "address": address},
    }
    bench.server.model = lambda work: work.extract(result)
    report = bench.run(response_schema=schema)
    assert (report.status, report.returned, report.usage["missing_keys"]) == ("success", result, len(lacking))
    assert report.message == (f"legacy-use accepted a result that lacks {', '.join(lacking)}" if lacking else "")


def test_history_is_erased_if_that_is_asked_for(bench: Bench) -> None:
    bench.more = "history: erase\n"
    assert bench.run().status == "success"
    assert not bench.server.targets
    assert not bench.server.jobs


def test_the_provider_is_set_once_with_its_credentials(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "openai.key").write_text("sk-planted-openai-key-123456\n")
    bench.more = "provider: {name: openai, credentials: {api_key: {file: openai.key}}}\n"
    reports = [bench.run(), bench.run()]
    assert bench.server.provider_credentials["openai"] == {"api_key": "sk-planted-openai-key-123456"}
    assert bench.server.count("POST", "settings/providers") == 1
    assert "openai (gpt-5)" in reports[0].timeline[0].text


def test_another_provider_than_the_configured_one_is_a_fault_of_the_house(bench: Bench) -> None:
    bench.more = "provider: {name: openai}\n"
    assert "active provider is anthropic, not openai" in out(bench)
    assert not bench.server.targets


def test_a_gateway_is_what_an_rdp_target_points_at(bench: Bench) -> None:
    bench.more = (
        f"display: {{port: {bench.display.port}}}\n"
        "target: {type: rdp, gateway: {host: 127.0.0.1, port: 3390, username: gate}}\n"
    )
    bench.limits["health"] = "100ms"  # nobody passes RDP on here
    out(bench)
    (target,) = bench.server.targets.values()
    about = tuple(target[name] for name in ("type", "host", "port", "username", "password"))
    assert about == ("rdp", "127.0.0.1", 3390, "gate", PASSWORD)


# --- lost answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lost", "broken_after"])
def test_a_lost_answer_to_the_jobs_creation_starts_no_second_job(bench: Bench, kind: FaultKind) -> None:
    bench.server.fault("POST", JOBS, kind)
    assert bench.run().status == "success"
    assert bench.server.count("POST", JOBS) == 1
    assert len(bench.server.jobs) == 1


@pytest.mark.parametrize("kind", ["silent", "broken"])
def test_a_creation_that_never_arrived_is_not_tried_again(bench: Bench, kind: FaultKind) -> None:
    bench.limits["outage"] = "100ms"
    bench.server.fault("POST", JOBS, kind)
    assert "no job has appeared" in out(bench)
    assert bench.server.count("POST", JOBS) == 1
    assert not bench.server.targets, "one that arrives later must find no target"


@pytest.mark.parametrize("kind", ["lost", "broken_after"])
@pytest.mark.parametrize("path", ["targets/", "sessions/", "api/definitions/import"])
def test_other_lost_answers_are_made_good_by_looking(bench: Bench, path: str, kind: FaultKind) -> None:
    bench.server.fault("POST", path, kind)
    assert bench.run().status == "success"
    assert bench.server.count("POST", path) == 1
    bench.assert_tidy()


@pytest.mark.parametrize("path", ["targets/[^/]+/jobs/[^/]+", "targets/[^/]+/jobs/[^/]+/logs/", "sessions/[^/]+"])
@pytest.mark.parametrize("kind", ["broken", "silent"])
def test_reading_is_tried_again(bench: Bench, path: str, kind: FaultKind) -> None:
    bench.server.fault("GET", path, kind, 2)
    assert bench.run().status == "success"


def test_an_answer_that_does_not_come_is_not_waited_for_for_long(bench: Bench) -> None:
    bench.limits["answer"] = "200ms"
    bench.server.fault("GET", "targets/[^/]+/jobs/[^/]+", "hung", 2)
    assert bench.run().status == "success"


def test_a_server_that_hangs_is_a_fault_of_the_house(bench: Bench) -> None:
    bench.limits |= {"answer": "100ms", "outage": "300ms"}
    bench.server.fault("GET", "targets/[^/]+/jobs/[^/]+", "hung", 99)
    assert "no answer in time" in out(bench)


def test_removing_is_tried_again(bench: Bench) -> None:
    bench.server.fault("DELETE", "sessions/[^/]+", "lost")
    bench.server.fault("DELETE", "targets/[^/]+", "broken")
    assert bench.run().message == ""
    bench.assert_tidy()


def test_what_could_not_be_removed_is_told(bench: Bench) -> None:
    bench.server.fault("DELETE", "sessions/[^/]+", "broken", 99)
    report = bench.run()
    assert report.status == "success"
    assert f"left on the server: the session {next(iter(bench.server.sessions))}" in report.message


def test_a_target_that_appears_late_is_found_and_removed(bench: Bench) -> None:
    """Its creation was answered by nothing; it holds the display's password."""
    looks: list[str] = []

    def before(method: str, path: str) -> None:
        if (method, path) == ("GET", "targets/"):
            looks.append(path)
            for target in bench.server.targets.values():
                target.data["is_archived"] = len(looks) < 3  # not listed yet

    bench.server.fault("POST", "targets/", "lost")
    bench.server.before = before
    assert bench.run().status == "success"
    assert (len(looks), bench.server.count("POST", "targets/")) == (3, 1)
    bench.assert_tidy()


@pytest.mark.parametrize("list_answers", [True, False])
def test_a_target_that_is_perhaps_there_is_told(bench: Bench, list_answers: bool) -> None:
    bench.limits["outage"] = "100ms"
    bench.server.fault("POST", "targets/", "silent")
    if not list_answers:
        bench.server.fault("GET", "targets/", "broken", 99)
    assert "left on the server: perhaps the target legacyproof dswin.add-new-patient " in out(bench)
    assert bench.server.count("POST", "targets/") == 1


def test_a_target_that_was_never_asked_for_is_not_told(bench: Bench) -> None:
    bench.run()  # after which nothing is asked before the target
    bench.server.die()
    said = out(bench)
    assert said.startswith("POST /api/targets/: cannot connect")
    assert "left on the server" not in said


# --- sessions ---------------------------------------------------------------------------------------------------------


def test_the_job_waits_for_a_container_that_is_slow(bench: Bench) -> None:
    bench.server.behaviour.health_after = 0.4
    bench.server.behaviour.health_timeout = 0.05  # a job that did not wait would be paused
    assert bench.run().status == "success"


def test_a_container_that_is_too_slow_is_a_fault_of_the_house(bench: Bench) -> None:
    bench.server.behaviour.health_after = 60.0
    bench.limits["health"] = "100ms"
    assert "did not reach the display" in out(bench)
    assert not bench.server.jobs
    bench.assert_tidy()


def test_without_the_docker_image_no_job_is_made_and_the_orphan_removed(bench: Bench) -> None:
    bench.server.behaviour.has_image = False
    bench.limits["health"] = "100ms"
    said = out(bench)
    assert "container" in said or "500" in said
    assert not bench.server.jobs
    bench.assert_tidy()
    assert len(bench.server.sessions) == 1


def test_a_session_that_could_not_be_started_is_told_at_once(bench: Bench) -> None:
    bench.server.behaviour.has_docker_network = False
    assert "legacy-use-target:local" in out(bench)
    bench.assert_tidy()


def test_a_display_out_of_the_containers_reach_is_a_fault_of_the_house(bench: Bench) -> None:
    bench.limits["health"] = "100ms"
    bench.more = "display: {host: 127.0.0.2}\n"
    said = out(bench)
    assert "did not reach the display at 127.0.0.2" in said
    assert not bench.server.jobs
    bench.assert_tidy()


def test_a_screen_of_another_size_is_refused_before_anything_is_made(bench: Bench, tmp_path: Path) -> None:
    small = FakeRfbServer(size=(800, 600), password=PASSWORD.encode())
    with small, pytest.raises(AgentInfrastructureError, match="800x600"):
        bench.agent.run(task(DisplayAddress("127.0.0.1", small.port, PASSWORD)))
    assert not bench.server.targets


# --- the end of the time ----------------------------------------------------------------------------------------------


def stuck(work: Work) -> None:
    """Acts until it is told to stop."""
    while True:
        work.check()
        work.screen.press("a")
        time.sleep(0.01)


@pytest.fixture
def overdue(bench: Bench, clock: Clock) -> Bench:
    """A bench whose model is still acting when its time is over."""

    def model(work: Work) -> None:
        clock.end_the_time()
        stuck(work)

    bench.server.model = model
    return bench


def test_its_time_ends_early_enough_to_stop_the_job(bench: Bench) -> None:
    bench.server.model = stuck
    bench.limits["reserve"] = "1h"  # of which no more than a quarter of the time is taken
    given = task(bench.address, seconds=8.0)
    report = bench.agent.run(given)
    assert report.status == "timeout"
    assert time.monotonic() < given.deadline


def test_at_the_end_of_its_time_the_job_is_interrupted_and_has_stopped(overdue: Bench) -> None:
    overdue.server.behaviour.interrupt_after = 0.3
    report = overdue.run()
    assert (report.status, report.returned) == ("timeout", None)
    (job,) = overdue.server.jobs.values()
    assert (job.status, job.data["error"]) == ("paused", INTERRUPTED)
    quiet = len(overdue.display.inputs)
    assert quiet > 0
    time.sleep(0.2)
    assert len(overdue.display.inputs) == quiet
    assert overdue.server.count("POST", f"{JOBS}[^/]+/interrupt/") == 1
    overdue.assert_tidy()


def test_what_the_container_still_does_after_the_interrupt_ends_with_its_session(bench: Bench, clock: Clock) -> None:
    ended = threading.Event()

    def deaf(work: Work) -> None:
        clock.end_the_time()
        try:
            while True:  # as an action that goes on although the loop was cancelled
                work.screen.press("a")
                time.sleep(0.01)
        finally:
            ended.set()

    bench.server.model = deaf
    assert bench.run().status == "timeout"
    assert ended.wait(20), "its viewer must be gone when the agent reports"


def test_a_job_that_ends_while_it_is_being_interrupted_counts_as_it_ended(bench: Bench, clock: Clock) -> None:
    def late(work: Work) -> None:
        clock.end_the_time()
        wait_until(lambda: bench.server.count("POST", f"{JOBS}[^/]+/interrupt/"), 60)
        work.extract(RESULT)

    bench.server.model = late
    bench.server.behaviour.interrupt_after = 15.0
    report = bench.run()
    assert (report.status, report.returned) == ("success", RESULT)


@pytest.mark.parametrize("kind", ["lost", "broken_after", "broken", "silent"])
def test_an_interrupt_without_a_usable_answer_is_checked_and_repeated(overdue: Bench, kind: FaultKind) -> None:
    overdue.server.fault("POST", f"{JOBS}[^/]+/interrupt/", kind)
    assert overdue.run().status == "timeout"
    overdue.assert_tidy()


def test_a_job_that_does_not_stop_loses_its_session(overdue: Bench) -> None:
    overdue.server.behaviour.interrupt_after = 30.0
    overdue.limits["stop"] = "200ms"
    report = overdue.run()
    assert report.status == "timeout"
    assert all(session["is_archived"] for session in overdue.server.sessions.values())


def test_a_job_that_does_not_stop_leaves_time_for_tidying_up(overdue: Bench) -> None:
    overdue.server.behaviour.interrupt_after = 100.0
    overdue.limits["stop"] = "100s"
    given = task(overdue.address, seconds=6.0)
    report = overdue.agent.run(given)
    assert (report.status, time.monotonic() < given.deadline) == ("timeout", True)
    assert "left on the server" not in report.message
    assert all(row["is_archived"] for row in [*overdue.server.sessions.values(), *overdue.server.targets.values()])


def test_what_could_only_be_removed_later_is_not_told_as_left(overdue: Bench) -> None:
    overdue.server.behaviour.interrupt_after = 100.0
    overdue.limits["stop"] = "200ms"
    overdue.server.fault("DELETE", "sessions/[^/]+", "broken", 3)
    report = overdue.run()
    assert (report.status, overdue.server.count("DELETE", "sessions/[^/]+")) == ("timeout", 4)
    assert "left on the server" not in report.message


def test_a_cancelled_run_stops_the_job_and_tidies_up(bench: Bench) -> None:
    cancelled = threading.Event()

    def model(work: Work) -> None:
        cancelled.set()
        stuck(work)

    bench.server.model = model
    report = bench.run(cancelled=cancelled)
    assert report.status == "timeout"
    assert "cancelled" in report.message
    bench.assert_tidy()


# --- the queue --------------------------------------------------------------------------------------------------------


def test_a_job_that_no_worker_takes_is_cancelled_and_not_counted(bench: Bench) -> None:
    bench.server.behaviour.workers = 0
    bench.limits["queue"] = "150ms"
    assert "JOB_WORKERS" in out(bench)
    (job,) = bench.server.jobs.values()
    assert job.status == "canceled"
    bench.assert_tidy()


def test_a_blocked_queue_is_told_as_such(bench: Bench) -> None:
    def block(work: Work) -> None:
        raise AssertionError("no job must run")

    bench.server.model = block
    bench.limits["queue"] = "150ms"
    original = bench.server._claim
    bench.server._claim = lambda: None  # type: ignore[method-assign]

    def blocked() -> None:
        for job in list(bench.server.jobs.values()):
            if len(bench.server.jobs) == 1:
                other = replace(job, data={**job.data, "id": "blocker", "status": "error"})
                bench.server.jobs["blocker"] = other
        original()

    bench.server._claim = blocked  # type: ignore[method-assign]
    assert "queue is paused by an earlier job" in out(bench)


def test_the_time_that_ends_while_the_job_waits_is_no_failure_of_the_agent(bench: Bench, clock: Clock) -> None:
    def before(method: str, path: str) -> None:
        if (method, path.rpartition("/jobs/")[2]) == ("POST", ""):
            clock.end_the_time()

    bench.server.behaviour.workers = 0
    bench.server.before = before
    assert "waiting for a worker" in out(bench)
    bench.assert_tidy()


def test_a_job_that_a_worker_begins_with_at_the_last_moment_goes_on(bench: Bench) -> None:
    """Its model acts on the machine: the run has to be judged, by what the model does in its own time."""

    looks: list[str] = []

    def before(method: str, path: str) -> None:
        if path.endswith("/cancel/"):
            looks.clear()
            bench.server.behaviour.workers = 1
            wait_until(lambda: next(iter(bench.server.jobs.values())).status == "running", 60)
        looks.append(path)

    def model(work: Work) -> None:
        while len(looks) < 4:  # after the cancel it is seen to run
            work.check()
            time.sleep(0.01)
        work.extract(RESULT)

    bench.server.model = model
    bench.server.behaviour.workers = 0
    bench.server.before = before
    bench.limits["queue"] = "50ms"
    report = bench.run()
    assert (report.status, report.returned) == ("success", RESULT)
    assert bench.server.count("POST", f"{JOBS}[^/]+/interrupt/") == 0
    bench.assert_tidy()


# --- why a job is paused, or ends with an error --------------------------------------------------------------------------


def test_an_unexpected_screen_is_the_agents_safe_stop(bench: Bench) -> None:
    bench.server.model = lambda work: work.mismatch("There is a box that I do not know.")
    report = bench.run()
    assert (report.status, report.message) == ("ui_not_as_expected", "There is a box that I do not know.")


def test_a_machine_that_gets_lost_is_a_fault_of_the_house(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.tool("computer", {"action": "screenshot"}, shot=True)
        bench.display.close()
        work.tool("computer", {"action": "screenshot"}, shot=True)

    bench.server.model = model
    assert "failed health check" in out(bench)


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        ("paused", "Timeout waiting for session to become ready: 503", "Timeout waiting"),
        ("paused", "Could not retrieve container_ip for session x", "container_ip"),
        ("paused", "Session is destroying", "destroying"),
        ("paused", "Session not found", "not found"),
        ("paused", INTERRUPTED, "somebody else"),
        ("error", f"Error code: 401 - {{'error': 'invalid x-api-key {PROVIDER_KEY}'}}", "Error code: 401"),
        ("error", "Error code: 529 - overloaded", "529"),
        ("error", "Connection error.", "Connection error"),
        ("error", None, "waited"),
        ("canceled", None, "cancelled"),
    ],
)
def test_what_the_agent_needs_is_out(bench: Bench, status: str, error: str | None, words: str) -> None:
    bench.server.model = lambda work: work.fail(status, error)
    said = out(bench)
    assert words in said
    assert PROVIDER_KEY not in said
    bench.assert_tidy()


def test_used_up_credits_stop_the_campaign(bench: Bench) -> None:
    bench.server.model = lambda work: work.fail("paused", "API Credits Exceeded")
    assert "credits" in out(bench)
    assert "no further job" in out(bench)
    assert len(bench.server.jobs) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [("Job was automatically terminated: exceeded token limit", "error"), ("list index out of range", "error")],
)
def test_an_error_of_the_agent_is_its_own(bench: Bench, error: str, status: str) -> None:
    def model(work: Work) -> None:
        work.say("I begin.")
        work.fail("error", error)

    bench.server.model = model
    assert bench.run().status == status


# --- the model provider -------------------------------------------------------------------------------------------------


def test_without_a_provider_key_nothing_counts_and_no_further_job_is_begun(bench: Bench) -> None:
    bench.server.provider_credentials.clear()
    with pytest.raises(AgentInfrastructureError, match="Could not resolve authentication method") as caught:
        bench.run()
    assert caught.value.lasting
    with pytest.raises(
        AgentInfrastructureError, match="no further job is begun: the model provider does not accept"
    ) as again:
        bench.run()
    assert again.value.lasting
    assert (len(bench.server.jobs), len(bench.server.targets)) == (1, 1)
    bench.assert_tidy()


USED_UP = {"detail": {"error": CREDITS, "proxy": "legacy-use"}}
DENIED = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
POOR = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
}
SPENT = {
    "error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
}
BUSY = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
LONG_TALK = {
    "type": "error",
    "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000"},
}
PAGE = "<html><head><title>502 Bad Gateway</title></head></html>"


@pytest.mark.parametrize("turns", [0, 2], ids=["at-once", "after-turns"])
@pytest.mark.parametrize(
    ("status", "body", "lasting"),
    [
        (403, USED_UP, True), (402, {"error": {"type": "billing_error"}}, True), (400, POOR, True), (429, SPENT, True),
        (401, DENIED, True), (403, {"error": {"type": "permission_error"}}, True), (403, "<html>Forbidden</html>", False),
        (429, {"error": {"type": "rate_limit_error"}}, False), (500, {"error": {"type": "api_error"}}, False), (529, BUSY, False),
        (502, PAGE, False), (503, "", False), (400, {"error": {"type": "invalid_request_error", "message": "odd"}}, False),
    ],
)  # fmt: skip
def test_what_the_provider_answers_is_not_the_agents_failure(
    bench: Bench, status: int, body: Any, lasting: bool, turns: int
) -> None:
    def model(work: Work) -> None:
        for _ in range(turns):
            work.tool("computer", {"action": "screenshot"})
        work.refused(status, body)

    bench.server.model = model
    with pytest.raises(AgentInfrastructureError, match="the model provider") as caught:
        bench.run()
    assert caught.value.lasting is lasting
    bench.server.model = lambda work: work.extract(RESULT)
    if lasting:
        assert "no further job is begun" in out(bench)
        assert len(bench.server.jobs) == 1
    else:
        assert bench.run().status == "success"
    bench.assert_tidy()


@pytest.mark.parametrize("turns", [0, 2])
@pytest.mark.parametrize(
    ("error", "exception"), [("Connection error.", "anthropic.APIConnectionError"), ("", "httpx.ReadTimeout"), ("odd", "openai.APITimeoutError")]
)  # fmt: skip
def test_a_provider_out_of_reach_is_not_the_agents_failure(
    bench: Bench, error: str, exception: str, turns: int
) -> None:
    def model(work: Work) -> None:
        for _ in range(turns):
            work.tool("computer", {"action": "screenshot"})
        work.unreached(error, exception)

    bench.server.model = model
    assert "cannot be reached" in out(bench)


def test_a_provider_that_answers_when_it_is_asked_again_has_done_nothing(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.answers(529, BUSY)
        work.say("I cannot do this.")

    bench.server.model = model
    assert bench.run().status == "failed"


def test_a_conversation_too_long_for_the_model_is_the_agents_own(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.say("I begin.")
        work.refused(400, LONG_TALK)

    bench.server.model = model
    assert bench.run().status == "failed"


def test_a_tenant_or_key_that_the_server_does_not_know_stays_so(bench: Bench) -> None:
    bench.server.behaviour.tenant_active = False
    with pytest.raises(AgentInfrastructureError) as caught:
        bench.run()
    assert caught.value.lasting
    assert supervised(bench, LONG).lasting, "the runner learns of it"


def test_weighted_and_raw_cache_tokens_are_told_apart(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.say("kept whole")
        work.keeps_answers = False
        work.extract(RESULT)

    bench.server.model = model
    report = bench.run()
    counted = {name: number for name, number in report.usage.items() if "cache" in name}
    assert counted == {
        "cache_write_tokens": 100, "cache_read_tokens": 200, "cache_write_tokens_weighted": 125, "cache_read_tokens_weighted": 20,
    }  # fmt: skip
    assert (report.usage["turns"], report.usage["input_tokens"], report.usage["output_tokens"]) == (2, 2000, 100)


def test_ending_without_an_extraction_is_giving_up(bench: Bench) -> None:
    bench.server.model = lambda work: work.say("I am done.")
    assert bench.run().status == "failed"


def test_returning_an_error_is_giving_up(bench: Bench) -> None:
    bench.server.model = lambda work: work.extract({"error": "not_there", "error_description": "No such patient."})
    report = bench.run()
    assert (report.status, report.message) == ("failed", "No such patient.")


def test_a_pause_whose_log_cannot_be_read_is_not_counted(bench: Bench) -> None:
    bench.server.model = lambda work: work.mismatch("odd")
    bench.server.fault("GET", f"{JOBS}[^/]+/logs/", "broken", 99)
    assert "could not be read" in out(bench)


def test_a_success_counts_although_its_log_cannot_be_read(bench: Bench) -> None:
    bench.server.fault("GET", f"{JOBS}[^/]+/(logs|http_exchanges)/", "broken", 99)
    report = bench.run()
    assert report.status == "success"
    assert "logs could not be read" in report.message
    assert "turns" not in report.usage


# --- the server dies ----------------------------------------------------------------------------------------------------


def test_a_server_that_dies_while_a_job_runs_is_a_fault_of_the_house(bench: Bench) -> None:
    def model(work: Work) -> None:
        bench.server.die()
        work.job.stopping.wait(10)

    bench.server.model = model
    bench.limits["outage"] = "200ms"
    said = out(bench)
    assert "the server is out while a job runs" in said
    assert "left on the server" in said


def hang(bench: Bench, path: str = ".*") -> None:
    """From now on requests get no answer."""
    for method in ("GET", "POST", "DELETE"):
        bench.server.fault(method, path, "hung", 999)


def supervised(bench: Bench, seconds: float) -> Supervised:
    return supervise(bench.agent, task(bench.address, seconds=seconds), cut=lambda: None)


def test_a_server_that_falls_silent_late_in_a_run_is_no_time_out_of_the_agent(bench: Bench) -> None:
    def model(work: Work) -> None:
        hang(bench)
        work.job.stopping.wait(LONG)

    bench.server.model = model
    result = supervised(bench, 4.0)
    assert result.infrastructure is not None
    assert "the server is out while a job runs" in result.infrastructure
    assert not result.still_running


@pytest.mark.parametrize("path", [f"{JOBS}[^/]+/(logs|http_exchanges)/", ".*"])
def test_a_job_that_has_ended_well_counts_although_the_server_falls_silent(bench: Bench, path: str) -> None:
    """What is read of its account, and what is tidied up, must not last until its time is over."""

    def before(method: str, asked: str) -> None:
        if asked.endswith("/logs/") and not bench.server.faults:
            hang(bench, path)

    bench.server.before = before
    result = supervised(bench, 4.0)
    assert (result.report.status, result.report.returned, result.infrastructure) == ("success", RESULT, None)
    assert "logs could not be read" in result.report.message
    assert ("left on the server" in result.report.message) == (path == ".*")


def test_from_a_silent_server_nothing_more_is_asked(bench: Bench) -> None:
    def model(work: Work) -> None:
        hang(bench)
        work.job.stopping.wait(LONG)

    bench.server.model = model
    bench.limits |= {"answer": "100ms", "outage": "100ms"}
    said = out(bench)
    (job, session, target) = (*bench.server.jobs, *bench.server.sessions, *bench.server.targets)
    assert f"left on the server: the job {job} (GET " in said
    silent = "(not tried, since the server does not answer)"
    assert f"the session {session} {silent}, the target {target} {silent}" in said
    assert bench.server.count("DELETE", ".*") == 0


def test_a_server_that_only_refuses_is_asked_on(bench: Bench) -> None:
    bench.server.fault("GET", "sessions/", "broken", 99)
    bench.server.fault("DELETE", "sessions/[^/]+", "broken", 99)
    report = bench.run()
    assert report.status == "success"
    assert "left on the server: the session" in report.message
    assert all(target["is_archived"] for target in bench.server.targets.values())


def test_a_server_that_comes_back_gives_the_job_up_and_is_waited_for(bench: Bench) -> None:
    def model(work: Work) -> None:
        bench.server.die()
        threading.Timer(0.3, bench.server.revive).start()
        work.job.stopping.wait(10)

    bench.server.model = model
    bench.server.behaviour.lease = 0.5
    assert "Lease expired" in out(bench)
    bench.assert_tidy()


def test_a_server_that_is_not_there_is_a_fault_of_the_house(bench: Bench) -> None:
    bench.server.die()
    assert "cannot connect" in out(bench)


def test_nonsense_from_the_server_is_a_fault_of_the_house(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.job.data["status"] = {"not": "a status"}

    bench.server.model = model
    bench.limits["outage"] = "100ms"
    assert "no job" in out(bench)


# --- refusals -------------------------------------------------------------------------------------------------------------


def test_a_prompt_that_the_server_would_garble_is_not_handed_over(bench: Bench) -> None:
    said = out(bench, prompt="Type {last_name} for Erika Muster 42.", prompt_template="Type {last_name} for {{first_name}} {{last_name}} {{number}}.")  # fmt: skip
    assert "another text" in said
    assert not bench.server.targets


def test_a_value_that_would_be_filled_in_again_is_not_handed_over(bench: Bench) -> None:
    values = {"first_name": "{last_name}", "last_name": "Muster"}
    said = out(bench, prompt="{last_name} Muster", prompt_template="{{first_name}} {{last_name}}", parameters=values)
    assert "another text" in said


def test_braces_of_the_prompt_itself_reach_the_server_as_meant(bench: Bench) -> None:
    bench.run(prompt="Type {{x}} for Muster.", prompt_template="Type {{{{x}}}} for {{last_name}}.")
    (definition,) = bench.server.definitions.values()
    assert definition["versions"][0]["prompt"] == "Type {{x}} for {{last_name}}."


def test_a_template_laid_out_for_this_server_is_taken_as_it_is(bench: Bench) -> None:
    bench.run(prompt="Type {{x}} for Muster.", prompt_template="Type {{x}} for {{last_name}}.")
    (definition,) = bench.server.definitions.values()
    assert definition["versions"][0]["prompt"] == "Type {{x}} for {{last_name}}."


def test_secrets_of_the_contract_are_kept_out_of_all_but_the_returned_values(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.say(f"The number is {json.dumps(SECRET)}")
        work.extract({"patient_number": SECRET, "address": {"town": SECRET}})

    bench.server.model = model
    report = bench.run(secrets=(SECRET,))
    assert report.returned["patient_number"] == SECRET
    told = "".join(line.text for line in report.timeline)
    assert "The number is" in told
    assert SECRET not in told
    assert json.dumps(SECRET)[1:-1] not in told


def test_keys_are_named_to_be_hidden_once_the_run_was_judged(bench: Bench) -> None:
    def model(work: Work) -> None:
        work.say(f"keys: {KEY} {PROVIDER_KEY}")
        work.extract({**RESULT, "seen": [KEY, PROVIDER_KEY]})

    bench.server.model = model
    report = bench.run(secrets=(SECRET,))
    assert report.returned["seen"] == [KEY, PROVIDER_KEY], "what is judged is what the model has returned"
    assert {KEY, PROVIDER_KEY, PASSWORD} <= {*report.hidden}
    assert SECRET not in report.hidden, "the runner knows the contract's secrets"
    kept = json.dumps(
        [report.message, [line.text for line in report.timeline], blot_value(report.returned, report.hidden)]
    )
    assert leaks_in(kept.encode(), {"key": KEY, "provider's key": PROVIDER_KEY, "password": PASSWORD}) == []


def test_ordinary_words_among_the_settings_and_headers_may_be_right_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"allergies": "none", "validity": "global"}
    (bench.folder / "region").write_text("global")
    (bench.folder / "key").write_text("sk-planted-key")
    bench.more = "provider: {name: anthropic, credentials: {api_key: {file: key}, region: {file: region}}}\n"
    monkeypatch.setattr("tests.peers.legacy_use.work.PROVIDER_KEY", "none")
    bench.server.model = lambda work: work.extract(answer)
    report = checked(bench.run())
    assert (report.status, report.returned) == ("success", answer)
    assert blot_value(report.returned, report.hidden) == {"allergies": "none", "validity": BLOT}


def test_a_prompt_without_a_template_is_imported_as_it_is(bench: Bench) -> None:
    bench.run(prompt_template="")
    (definition,) = bench.server.definitions.values()
    assert definition["versions"][0]["prompt"] == "Register Erika Muster; the number is 42."
    assert definition["versions"][0]["parameters"] == []


def test_parameters_of_the_clean_up_are_given_to_the_job(bench: Bench) -> None:
    bench.more = "prompt_cleanup: Close the form of {{last_name}}.\n"
    bench.run(prompt="Do it.", prompt_template="Do it.")
    (job,) = bench.server.jobs.values()
    assert job.data["parameters"] == {"last_name": "Muster"}


def test_a_wrong_key_is_told(bench: Bench, tmp_path: Path) -> None:
    from runner.agents.legacyuse.agent import LegacyUseAgent

    wrong = replace(configuration(bench.server, tmp_path), api_key="wrong-key-1234")
    with pytest.raises(AgentInfrastructureError, match=r"401.*Invalid API Key"):
        LegacyUseAgent(wrong).run(task(bench.address))


def test_no_more_than_a_bounded_answer_is_taken(bench: Bench, tmp_path: Path) -> None:
    from runner.agents.legacyuse.client import ServerOut

    with Server(configuration(bench.server, tmp_path)) as server, pytest.raises(ServerOut, match="more than 10 bytes"):
        server.get("settings/providers", limit=10)


def test_the_specification_names_the_agent(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration(bench.server, tmp_path)
    path = tmp_path / "legacy-use.yaml"
    monkeypatch.setenv("LEGACY_USE_API_KEY", "k")
    (planned,) = plan(f"legacy-use:{path}")
    assert isinstance(planned.agent, Agent)
    assert (planned.spec, planned.agent.name) == (f"legacy-use:{path}", "legacy-use")
    assert planned.agent.listen_host == "127.0.0.1"  # type: ignore[attr-defined]


def test_an_address_that_is_none_of_this_hosts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACY_USE_API_KEY", "k")
    path = tmp_path / "odd.yaml"
    path.write_text("schema: 1\ndisplay: {listen: 192.0.2.1}\n")
    with pytest.raises(AgentSpecError, match=r"cannot listen on 192\.0\.2\.1.*Docker bridge"):
        plan(f"legacy-use:{path}")
