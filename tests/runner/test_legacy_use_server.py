"""The stand-in for legacy-use has the habits of the real server that were observed; other tests rest on them."""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.peers.legacy_use_server import CREDITS, KEY, NO_KEY, TENANT, LegacyUseServer, Model, Work
from tests.peers.rfb_server import FakeRfbServer, wait_until

DEFINITION = {
    "name": "x", "description": "", "parameters": [], "prompt": "Greet {{who}} at {now}", "prompt_cleanup": "",
    "response_example": {},
}  # fmt: skip


class Client:
    """Speaks HTTP with the stand-in, without the code under test."""

    def __init__(self, server: LegacyUseServer) -> None:
        self.server = server
        self.http = httpx.Client(
            base_url=f"{server.url}/api/", headers={"Host": TENANT, "X-API-Key": KEY}, trust_env=False
        )

    def __call__(self, method: str, path: str, body: Any = None, **about: Any) -> httpx.Response:
        return self.http.request(method, path, json=body, **about)

    def target(self, port: int = 1) -> str:
        body = {"name": "t", "type": "vnc", "host": "127.0.0.1", "port": port, "password": "p"}
        return str(self("POST", "targets/", body).json()["id"])

    def job(self, target: str, **parameters: str) -> str:
        return str(self("POST", f"targets/{target}/jobs/", {"api_name": "x", "parameters": parameters}).json()["id"])

    def status(self, job: str) -> str:
        return self.server.jobs[job].status


@pytest.fixture
def display() -> Iterator[FakeRfbServer]:
    with FakeRfbServer(size=(1024, 768)) as display:
        yield display


@pytest.fixture
def client() -> Iterator[Client]:
    with LegacyUseServer() as server:
        client = Client(server)
        assert client("POST", "api/definitions/import", {"api_definition": DEFINITION}).status_code == 200
        yield client
        client.http.close()


def test_slashes_hosts_and_keys_are_strict(client: Client) -> None:
    assert client("GET", "targets").status_code == 404
    assert client("GET", "definitions").status_code == 404
    stranger = client("GET", "targets/", headers={"Host": "other:8088"})
    assert (stranger.status_code, stranger.json()["error_type"]) == (403, "tenant_not_found")
    assert client("GET", "targets/", headers={"X-API-Key": "x"}).json() == {"detail": "Invalid API Key"}
    keyless = httpx.get(f"{client.server.url}/api/targets/", headers={"Host": TENANT}, trust_env=False)
    assert (keyless.status_code, keyless.json()) == (401, {"detail": "API key is missing"})
    assert httpx.get(f"{client.server.url}/api/openapi.json", trust_env=False).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("targets/", {"name": "t", "type": "vnc", "host": "h"}),
        ("targets/", {"name": "t", "type": "ssh", "host": "h", "password": ""}),
        ("api/definitions/import", {"api_definition": {**DEFINITION, "response_example": []}}),
        ("api/definitions/import", {"api_definition": {k: v for k, v in DEFINITION.items() if k != "prompt_cleanup"}}),
        ("targets/x/jobs/", {"api_name": "x", "parameters": {"n": 5}}),
        ("targets/x/jobs/", {"api_name": "x", "parameters": {"n": None}}),
    ],
)
def test_bodies_are_validated(client: Client, path: str, body: object) -> None:
    assert client("POST", path, body).status_code == 422


def test_a_job_is_pending_then_queued_and_lacks_what_it_was_not_given(client: Client) -> None:
    client.server.behaviour.workers = 0
    target = client.target()
    made = client("POST", f"targets/{target}/jobs/", {"api_name": "x"}).json()
    assert made["status"] == "pending"
    assert client("GET", f"targets/{target}/jobs/{made['id']}").json()["status"] == "queued"
    assert client("POST", f"targets/{target}/jobs/", {"api_name": "y"}).status_code == 400
    assert client("POST", f"targets/{uuid.uuid4()}/jobs/", {"api_name": "x"}).status_code == 404
    assert client("POST", "targets/nobody/jobs/", {"api_name": "x"}).status_code == 422
    assert (made["total_input_tokens"], made["total_output_tokens"]) == (None, None)
    there = client("GET", f"targets/{target}/jobs/{made['id']}").json()
    assert (there["total_input_tokens"], there["total_output_tokens"]) == (0, 0)
    assert there["duration_seconds"] >= 0


def test_parameters_are_filled_in_by_replacement_and_missing_ones_are_left(
    client: Client, display: FakeRfbServer
) -> None:
    prompts: list[str] = []

    def model(work: Work) -> None:
        prompts.append(work.prompt)
        work.extract({})

    client.server.model = model
    target = client.target(display.port)
    client.job(target)
    wait_until(lambda: len(prompts) == 1)
    client.job(target, who="Ada")
    wait_until(lambda: len(prompts) == 2)
    assert prompts[0].startswith("Greet {{who}} at 20")
    assert prompts[1].startswith("Greet Ada at 20")


def test_a_failed_job_blocks_its_target_until_it_is_resolved(client: Client, display: FakeRfbServer) -> None:
    client.server.model = lambda work: work.mismatch("odd")
    target = client.target(display.port)
    first = client.job(target)
    wait_until(lambda: client.status(first) == "paused")
    client.server.model = lambda work: work.extract({})
    second = client.job(target)
    time.sleep(0.1)
    assert client.status(second) == "queued"
    assert client("GET", f"targets/{target}").json()["queue_status"] == "paused"
    paused = [client("GET", f"targets/{target}/jobs/{first}").json() for _ in range(2)]
    assert paused[0]["result"] is None
    assert paused[0]["completed_at"] is not None
    assert paused[0]["duration_seconds"] < paused[1]["duration_seconds"]
    assert client("POST", f"targets/{target}/jobs/{first}/resolve/", {"by": "hand"}).json()["result"] == {"by": "hand"}
    wait_until(lambda: client.status(second) == "success")


def test_jobs_can_be_interrupted_cancelled_and_resumed_as_the_table_says(client: Client) -> None:
    client.server.behaviour.workers = 0
    target = client.target()

    def asked(status: str, action: str) -> tuple[int, str]:
        job = client.job(target)
        client.server.jobs[job].data["status"] = status
        return client("POST", f"targets/{target}/jobs/{job}/{action}/").status_code, client.status(job)

    assert asked("queued", "cancel") == (200, "canceled")
    assert asked("paused", "cancel") == (400, "paused")
    assert asked("queued", "interrupt") == (200, "error")
    for status in ("pending", "paused", "canceled"):
        assert asked(status, "interrupt") == (500, "error")
    for status in ("success", "error"):
        assert asked(status, "interrupt") == (400, status)
    assert asked("error", "resume") == (200, "queued")
    assert asked("queued", "resume") == (400, "queued")


def test_a_target_has_one_session_and_a_failed_one_leaves_a_row(client: Client, display: FakeRfbServer) -> None:
    target = client.target(display.port)
    made = client("POST", "sessions/", {"name": "s", "target_id": target})
    assert made.json()["container_status"]["health"]["healthy"] is True
    again = client("POST", "sessions/", {"name": "s2", "target_id": target})
    assert (again.status_code, again.json()["detail"]["existing_session"]["id"]) == (409, made.json()["id"])
    assert made.json()["state"] == "initializing"
    wait_until(lambda: client("GET", f"sessions/{made.json()['id']}").json()["state"] == "ready")
    client.server.behaviour.has_image = False
    other = client.target(display.port)
    failed = client("POST", "sessions/", {"name": "s3", "target_id": other})
    assert (failed.status_code, failed.text) == (500, "Internal Server Error")
    assert client("POST", "sessions/", {"name": "s4", "target_id": other}).status_code == 409


def test_an_unhealthy_session_pauses_the_job_after_a_while(client: Client) -> None:
    client.server.behaviour.health_timeout = 0.05
    job = client.job(client.target(port=1))
    wait_until(lambda: client.status(job) == "paused")
    assert client.server.jobs[job].data["error"].startswith("Timeout waiting for session to become ready: ")


def test_archived_targets_take_jobs_and_erased_ones_take_everything_with_them(
    client: Client, display: FakeRfbServer
) -> None:
    target = client.target(display.port)
    assert client("DELETE", f"targets/{target}").status_code == 200
    job = client.job(target)
    wait_until(lambda: client.status(job) == "success")
    (session,) = client.server.sessions.values()
    assert session["name"].startswith("Auto-created session for target ")
    assert client("DELETE", f"targets/{target}/hard").status_code == 200
    assert client("GET", f"targets/{target}/jobs/{job}").status_code == 404
    assert session.container is not None
    assert session.container.health()[0], "its container goes on"
    session.container.remove()


def test_an_import_over_an_archived_definition_leaves_it_archived(client: Client) -> None:
    client("DELETE", "api/definitions/x")
    client("POST", "api/definitions/import", {"api_definition": DEFINITION})
    assert client("GET", "api/definitions/x/metadata").json()["is_archived"] is True
    versions = client("GET", "api/definitions/x/versions").json()["versions"]
    assert [(version["version_number"], version["is_active"]) for version in versions] == [("2", True), ("1", False)]


def test_a_server_that_died_leaves_the_job_running_until_its_lease_is_over(
    client: Client, display: FakeRfbServer
) -> None:
    client.server.model = lambda work: work.fail("paused" if work.job.stopping.wait(20) else "error", None)
    job = client.job(client.target(display.port))
    wait_until(lambda: client.status(job) == "running")
    client.server.die()
    time.sleep(client.server.behaviour.lease)
    assert client.status(job) == "running"
    client.server.revive()
    wait_until(lambda: client.status(job) == "error")
    assert client.server.jobs[job].data["error"] == "Lease expired; worker likely terminated"


def test_logs_hold_screenshots_and_exchanges_keys(client: Client, display: FakeRfbServer) -> None:
    def model(work: Work) -> None:
        work.tool("computer", {"action": "screenshot"}, shot=True)
        work.extract({"n": 1})

    client.server.model = model
    target = client.target(display.port)
    job = client.job(target)
    wait_until(lambda: client.status(job) == "success")
    logs = client("GET", f"targets/{target}/jobs/{job}/logs/").json()
    assert {entry["log_type"] for entry in logs} == {"system", "message", "tool_use"}
    assert any(len(entry["content"].get("base64_image", "")) > 100 for entry in logs if entry["log_type"] == "tool_use")
    exchanges = client("GET", f"targets/{target}/jobs/{job}/http_exchanges/").json()
    request = exchanges[-1]["content"]["request"]
    assert request["headers"]["x-api-key"].startswith("sk-ant-")
    assert isinstance(request["body"], str)
    assert "base64_image" in request["body"]


# --- as it was seen to be with the adapter --------------------------------------------------------------------------------


def ended(client: Client, display: FakeRfbServer, model: Model) -> tuple[str, str]:
    """A job that has ended, and its target."""
    client.server.model = model
    target = client.target(display.port)
    job = client.job(target)
    wait_until(lambda: client.status(job) not in ("pending", "queued", "running"))
    return target, job


def lines(client: Client, target: str, job: str) -> list[str]:
    """The system's lines in a job's log."""
    log = client("GET", f"targets/{target}/jobs/{job}/logs/").json()
    told = [entry["content"] for entry in log if entry["log_type"] == "system"]
    return [line if isinstance(line, str) else line["message_type"] for line in told]


def test_the_fields_of_targets_sessions_and_jobs(client: Client, display: FakeRfbServer) -> None:
    stored = {
        "id", "name", "type", "host", "username", "password", "port", "vpn_config", "vpn_username", "vpn_password", "width", "height",
        "rdp_params", "created_at", "updated_at", "is_archived", "queue_status", "blocking_jobs", "has_blocking_jobs",
        "blocking_jobs_count", "has_active_session", "has_initializing_session",
    }  # fmt: skip
    target, job = ended(client, display, lambda work: work.mismatch("odd"))
    body = {"name": "t", "type": "vnc", "host": "127.0.0.1", "password": "p"}
    made = client("POST", "targets/", body).json()
    there = client("GET", f"targets/{target}").json()
    assert {*made} == {*there} == stored
    assert (made["queue_status"], made["blocking_jobs"], made["has_active_session"]) == (None, None, False)
    (blocking,) = there["blocking_jobs"]
    row = {
        "id", "target_id", "session_id", "api_name", "parameters", "status", "result", "error", "created_at", "updated_at",
        "completed_at", "api_definition_version_id", "total_input_tokens", "total_output_tokens",
    }  # fmt: skip
    assert {*blocking} == row | {"lease_owner", "lease_expires_at", "cancel_requested"}
    shown = client("GET", f"targets/{target}/jobs/{job}").json()
    assert {*shown} == row | {"api_exchanges", "duration_seconds"}
    (session,) = client("GET", "sessions/").json()
    assert {*session} == {
        "id", "name", "description", "target_id", "status", "state", "container_id", "container_ip", "created_at", "updated_at",
        "is_archived", "archive_reason", "last_job_time", "container_status",
    }  # fmt: skip
    assert session["last_job_time"] is None


def test_only_the_list_of_targets_knows_of_their_sessions(client: Client, display: FakeRfbServer) -> None:
    target = client.target(display.port)
    client("POST", "sessions/", {"name": "s", "target_id": target})
    (listed,) = client("GET", "targets/").json()
    assert listed["has_initializing_session"] is True
    assert client("GET", f"targets/{target}").json()["has_initializing_session"] is False


def test_the_log_has_its_order(client: Client, display: FakeRfbServer) -> None:
    begun = ["Job added to queue", "Queue picked up job", "Waiting for session to become ready before execution"]
    executing = ["Executing API with parameters: {}", "initial_prompt"]
    told = lines(client, *ended(client, display, lambda work: work.extract({})))
    assert told == [*begun, *executing, "Job completed with status: JobStatus.SUCCESS"]
    target, job = ended(client, display, lambda work: work.mismatch("odd"))
    assert lines(client, target, job) == [
        *begun, *executing, f"Target {target} queue will be paused due to job paused",
        "Job completed with status: JobStatus.PAUSED and reason: odd",
    ]  # fmt: skip


def test_an_interrupt_is_told_in_the_log_and_takes_effect_sooner_while_the_session_is_waited_for(
    client: Client, display: FakeRfbServer
) -> None:
    client.server.behaviour.interrupt_after = 60.0
    client.server.behaviour.health_after = client.server.behaviour.health_timeout = 60.0
    target = client.target(display.port)
    job = client.job(target)
    wait_until(lambda: client.status(job) == "running")
    assert client("POST", f"targets/{target}/jobs/{job}/interrupt/").status_code == 200
    wait_until(lambda: client.status(job) == "paused")
    told = lines(client, target, job)
    assert [line for line in told if "cancel" in line] == [
        "Job cancel requested by user",
        "Job execution was cancelled",
    ]


def test_the_health_of_a_container_is_told_with_its_reason(client: Client) -> None:
    target = client.target(port=1)
    session = client("POST", "sessions/", {"name": "s", "target_id": target}).json()
    health = session["container_status"]["health"]
    assert health["healthy"] is False
    assert health["reason"].startswith("Target container at 172.17.0.9 failed health check: ")
    assert health["timestamp"].endswith("+0000")
    assert re.fullmatch(r"[0-9T:.-]+", session["created_at"]), "without a zone"
    client.server.behaviour.health_timeout = 0.05
    job = client.job(target)
    wait_until(lambda: client.status(job) == "paused")
    error = client.server.jobs[job].data["error"]
    assert error.startswith(
        "Timeout waiting for session to become ready: Target container at 172.17.0.9 failed health check: "
    )


def test_cached_tokens_are_weighted_in_exchanges_and_totals(client: Client, display: FakeRfbServer) -> None:
    def model(work: Work) -> None:
        work.say("one")
        work.say("two")
        work.extract({})

    target, job = ended(client, display, model)
    exchanges = client("GET", f"targets/{target}/jobs/{job}/http_exchanges/").json()
    for exchange in (entry["content"] for entry in exchanges):
        usage = json.loads(exchange["response"]["body"])["usage"]
        assert (usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]) == (100, 200)
        assert (exchange["cache_creation_tokens"], exchange["cache_read_tokens"]) == (125, 20)
    shown = client("GET", f"targets/{target}/jobs/{job}").json()
    assert (shown["total_input_tokens"], shown["total_output_tokens"]) == (3435, 150)


def test_without_a_key_the_first_turn_fails_and_the_provider_is_not_available(
    client: Client, display: FakeRfbServer
) -> None:
    client.server.provider_credentials.clear()
    target, job = ended(client, display, lambda work: work.extract({}))
    shown = client("GET", f"targets/{target}/jobs/{job}").json()
    assert (shown["status"], shown["error"]) == ("error", NO_KEY)
    assert shown["error"].startswith('"Could not resolve authentication method. Expected ')
    providers = client("GET", "settings/providers").json()
    active = next(p for p in providers["providers"] if p["provider"] == providers["current_provider"])
    assert active["available"] is False
    assert client("GET", f"targets/{target}/jobs/{job}/http_exchanges/").json() == []


def test_used_up_credits_pause_and_other_refusals_fail(client: Client, display: FakeRfbServer) -> None:
    def outcome(status: int, body: Any) -> tuple[str, str]:
        target, job = ended(client, display, lambda work: work.refused(status, body))
        shown = client("GET", f"targets/{target}/jobs/{job}").json()
        return shown["status"], shown["error"]

    assert outcome(403, {"detail": CREDITS}) == ("paused", "Error code: 403 - {'detail': 'API Credits Exceeded'}")
    assert outcome(529, {"detail": "x"}) == ("error", "Error code: 529 - {'detail': 'x'}")
    assert outcome(502, "<html>") == ("error", "<html>"), "what is no JSON is taken as it is"


def test_results_of_tools_are_empty_texts_or_objects(client: Client, display: FakeRfbServer) -> None:
    def model(work: Work) -> None:
        work.tool("computer", {"action": "left_click"})
        work.result(error={"error": "coordinate is required", "output": None})
        work.extract({"n": 1})

    target, job = ended(client, display, model)
    log = client("GET", f"targets/{target}/jobs/{job}/logs/").json()
    results = [entry["content"] for entry in log if entry["log_type"] == "tool_use"]
    assert [(result["output"], result["error"]) for result in results[:2]] == [
        ("", ""), ("", {"error": "coordinate is required", "output": None}),
    ]  # fmt: skip
    assert results[2]["output"] == '{\n  "name": "x",\n  "result": {\n    "n": 1\n  }\n}'


def test_what_is_not_there_is_told_in_several_ways(client: Client) -> None:
    unknown = str(uuid.uuid4())
    assert client("GET", f"targets/{unknown}").status_code == 404
    assert client("GET", "targets/nobody").status_code == 422
    failed = client("POST", f"targets/{unknown}/unarchive")
    assert (failed.status_code, [*failed.json()]) == (500, ["detail"])
    assert client("GET", "api/definitions/x").json()["name"] == "x"
    client("DELETE", "api/definitions/x")
    assert client("GET", "api/definitions/x").status_code == 404


def test_an_archived_target_keeps_its_password(client: Client) -> None:
    target = client.target()
    client("DELETE", f"targets/{target}")
    (kept,) = client("GET", "targets/?include_archived=true").json()
    assert (kept["is_archived"], kept["password"]) == (True, "p")
    client("DELETE", f"targets/{target}/hard")
    assert client("GET", "targets/?include_archived=true").json() == []


def test_a_terminated_server_answers_no_more_and_lets_its_jobs_go_on(client: Client, display: FakeRfbServer) -> None:
    goes_on = threading.Event()
    client.server.model = lambda work: work.extract({}) if goes_on.wait(20) else None
    job = client.job(client.target(display.port))
    wait_until(lambda: client.status(job) == "running")
    client.server.terminate()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{client.server.url}/api/openapi.json", trust_env=False)
    goes_on.set()
    wait_until(lambda: client.status(job) == "success")
    client.server.revive()
    assert httpx.get(f"{client.server.url}/api/openapi.json", trust_env=False).status_code == 200
