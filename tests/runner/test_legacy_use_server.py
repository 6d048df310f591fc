"""The stand-in for legacy-use has the habits of the real server that were observed; other tests rest on them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.peers.legacy_use_server import KEY, TENANT, LegacyUseServer, Work
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
    assert client("POST", "targets/nobody/jobs/", {"api_name": "x"}).status_code == 404


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
