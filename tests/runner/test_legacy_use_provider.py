"""Whose fault an error of a job is: the words of the providers' own clients, the last exchange, the exception in the log."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import anthropic
import openai
import pytest
from google.auth import exceptions as google
from hypothesis import given
from hypothesis import strategies as st

from runner.agents.legacyuse.account import LogEntry
from runner.agents.legacyuse.provider import OUT_OF_CREDITS, Trouble, last_trouble, trouble_of

MESSAGES: Any = [{"role": "user", "content": "x"}]
QUOTA, DENIED = Trouble("quota", lasting=True), Trouble("auth", lasting=True)
OUT, SLOW = Trouble("unavailable"), Trouble("rate")


@contextmanager
def endpoint(status: int, body: str) -> Iterator[str]:
    """A provider that answers every request in the same way; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if body.startswith("{") else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def by_anthropic(url: str, key: str | None = "k") -> None:
    client = anthropic.Anthropic(api_key=key, base_url=url, max_retries=0, timeout=20)
    client.messages.create(model="m", max_tokens=1, messages=MESSAGES)


def by_openai(url: str, key: str | None = "k") -> None:
    client = openai.OpenAI(api_key=key, base_url=url, max_retries=0, timeout=20)
    client.chat.completions.create(model="m", messages=MESSAGES)


CLIENTS = [by_anthropic, by_openai]


def raised(client: Callable[..., None], *about: Any) -> str:
    """What becomes of a job when its provider's client raises."""
    try:
        client(*about)
    except Exception as error:
        return str(error)
    raise AssertionError("the client has not noticed")


def error(kind: str, message: str = "x") -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}})


ANSWERS = [
    (401, error("authentication_error", "invalid x-api-key"), DENIED),
    (403, error("permission_error"), DENIED),
    (403, json.dumps({"detail": OUT_OF_CREDITS}), QUOTA),
    (402, error("billing_error"), QUOTA),
    (400, error("invalid_request_error", "Your credit balance is too low to access the API"), QUOTA),
    (429, json.dumps({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}), QUOTA),
    (429, error("rate_limit_error"), SLOW),
    (500, error("api_error"), OUT),
    (504, error("timeout_error"), OUT),
    (529, error("overloaded_error"), OUT),
    (404, error("not_found_error", "model: m"), Trouble("model")),
    (400, error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), Trouble("limit")),
    (400, error("invalid_request_error", "content_policy"), Trouble("refused")),
    (400, error("invalid_request_error"), Trouble("request")),
]


@pytest.mark.parametrize(("status", "body", "trouble"), ANSWERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_clients_make_of_a_providers_answer(
    client: Callable[..., None], status: int, body: str, trouble: Trouble
) -> None:
    with endpoint(status, body) as url:
        said = raised(client, url)
    exchange = {"response": {"status_code": status, "body": body}}
    assert trouble_of(said, [exchange], None) == trouble
    alone = trouble_of(said, None, None)
    assert alone is not None
    assert alone.is_the_agents == trouble.is_the_agents, "by the words alone"
    assert alone == trouble or client is by_openai, "whose words hold a part of the body only"
    assert last_trouble([exchange]) == trouble, "by the exchange alone"
    assert last_trouble([{"response": {"status_code": status, "body": json.loads(body)}}]) == trouble


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(502, OUT), (503, OUT), (403, Trouble("auth")), (401, DENIED), (429, SLOW)],
)
@pytest.mark.parametrize("client", CLIENTS)
def test_pages_of_what_stands_between_are_told_by_the_exchange(
    client: Callable[..., None], status: int, trouble: Trouble
) -> None:
    page = "<html><h1>no</h1></html>"
    with endpoint(status, page) as url:
        said = raised(client, url)
    assert trouble_of(said, [{"response": {"status_code": status, "body": page}}], None) == trouble


@pytest.mark.parametrize("client", CLIENTS)
def test_a_provider_out_of_reach(client: Callable[..., None]) -> None:
    assert trouble_of(raised(client, "http://127.0.0.1:1"), None, None) == OUT


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_without_a_key(client: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert trouble_of(raised(client, "http://127.0.0.1:1", None), None, None) == DENIED


WORDS = [
    ('"Could not resolve authentication method. Expected either api_key or auth_token to be set."', DENIED),
    ("The api_key client option must be set either by passing api_key to the client", DENIED),
    ("could not resolve credentials from session", DENIED),
    ("Unable to locate credentials", DENIED),
    ("Partial credentials found in env, missing: AWS_SECRET_ACCESS_KEY", DENIED),
    ("You must specify a region.", DENIED),
    ("Your default credentials were not found. To set up Application Default Credentials, see", DENIED),
    ("No region was given. The client should be instantiated with the `region` argument", DENIED),
    ("No project_id was given and it could not be resolved from credentials.", DENIED),
    ("An error occurred (ExpiredTokenException) when calling the InvokeEndpoint operation: expired", DENIED),
    ("An error occurred (AccessDeniedException) when calling the InvokeEndpoint operation: no", DENIED),
    ("An error occurred (ThrottlingException) when calling the InvokeEndpoint operation: slow", OUT),
    ("An error occurred (ModelError) when calling the InvokeEndpoint operation (reached max retries: 4): 500", OUT),
    ('Could not connect to the endpoint URL: "https://runtime.sagemaker.eu-central-1.amazonaws.com/"', OUT),
    ('Read timeout on endpoint URL: "https://runtime.sagemaker.eu-central-1.amazonaws.com/"', OUT),
    ("Request timed out.", OUT),
    ("All connection attempts failed", OUT),
    (OUT_OF_CREDITS, QUOTA),
]


@pytest.mark.parametrize(("said", "trouble"), WORDS)
def test_words_of_clients_that_are_not_here(said: str, trouble: Trouble) -> None:
    assert trouble_of(said, [], []) == trouble


def crash(exception: str, message: str) -> LogEntry:
    return LogEntry(
        1.0, "error", f'Traceback (most recent call last):\n  File "x.py", line 1, in y\n{exception}: {message}\n'
    )


@pytest.mark.parametrize(
    ("exception", "trouble"),
    [
        ("anthropic.AuthenticationError", DENIED), ("openai.PermissionDeniedError", DENIED), ("anthropic.APITimeoutError", OUT),
        ("botocore.exceptions.NoCredentialsError", DENIED), ("botocore.errorfactory.ModelNotReadyException", OUT),
        (f"{google.__name__}.{google.DefaultCredentialsError.__name__}", DENIED),
        (f"{google.__name__}.{google.TransportError.__name__}", OUT), ("httpx.ReadTimeout", OUT),
        ("KeyError", None), ("myanthropic.Error", None),
    ],
)  # fmt: skip
def test_the_exception_in_the_log_tells_where_the_words_do_not(exception: str, trouble: Trouble | None) -> None:
    spoken = LogEntry(0.0, "message", {"type": "text"})
    assert trouble_of("odd", [], [spoken, crash(exception, "odd")]) == trouble
    assert trouble_of("odd", [], [crash(exception, "odd"), spoken]) is None, "the model has spoken since"


FINE = {"response": {"status_code": 200, "body": "{}"}}
FAILED = {"response": {"status_code": 503, "body": ""}}
LOST = {"error": {"type": "ConnectTimeout", "message": "timed out"}}


def test_only_the_last_exchange_tells() -> None:
    assert last_trouble([FAILED, FINE]) is None
    assert last_trouble([FINE, FAILED]) == last_trouble([FINE, LOST]) == OUT
    assert last_trouble([]) is last_trouble(None) is None


@pytest.mark.parametrize("said", ["odd", "list index out of range", "The box says: Error code: 500", "Error codes: 500", "Error code: 999"])  # fmt: skip
def test_words_of_nobody_we_know_are_no_fault_of_the_provider(said: str) -> None:
    assert trouble_of(said, [FINE], [crash("ValueError", said)]) is None


@given(st.text(max_size=50), st.text(max_size=50), st.integers(), st.text(max_size=50))
def test_anything_is_borne(said: str, body: str, status: int, line: str) -> None:
    trouble_of(said, [{"response": {"status_code": status, "body": body}, "error": body}], [LogEntry(0, "error", line)])


def test_long_words_are_searched_in_bounded_time() -> None:
    for text in ("Error code: 500 - " + "x" * 5_000_000, "An error occurred (" * 300_000, "openai." * 700_000):
        trouble_of(text, [{"response": {"status_code": 400, "body": text}}], [LogEntry(0, "error", text)])
