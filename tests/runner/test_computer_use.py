"""The loop of the computer-use agent against the vendors' stand-ins: what reaches the display, how runs end, what is counted."""

from __future__ import annotations

import threading
import time
from typing import Any

import httpx
import httpx2
import pytest
from PIL import Image

from runner.agents.base import AgentInfrastructureError, AgentReport
from runner.agents.computer_use import ComputerUseAgent
from runner.agents.supervision import supervise
from runner.display.keysyms import parse_chord
from tests.peers.model_servers.base import KEY, Act, Seen, act
from tests.peers.rfb_server import FakeRfbServer
from tests.runner.computer_use_helpers import (
    KEY_VARIABLE,
    PRICES,
    PROVIDERS,
    SIZE,
    Ran,
    run_model,
    scripted,
    serving,
    settings_for,
    task_for,
)

EACH = pytest.mark.parametrize("provider", PROVIDERS)
DONE = act("extraction", data={"number": "104"})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)


def audit(ran: Ran) -> dict[str, float]:
    """What the audit counted, without noughts."""
    return {
        name.removeprefix("audit_"): count
        for name, count in ran.report.usage.items()
        if name.startswith("audit_") and count
    }


def keys(ran: Ran) -> list[tuple[bool, int]]:
    return [(bool(event[1]), int(str(event[2]))) for event in ran.inputs if event[0] == "key"]


def clicks(ran: Ran) -> list[tuple[int, int, int]]:
    """Where which buttons went down: mask, x, y."""
    found, before = [], 0
    for event in ran.inputs:
        if event[0] == "pointer":
            mask, x, y = (int(str(part)) for part in event[1:])
            if mask & ~before:
                found.append((mask & ~before, x, y))
            before = mask
    return found


def outage(run: Any) -> str:
    with pytest.raises(AgentInfrastructureError) as caught:
        run()
    assert KEY not in str(caught.value)
    return str(caught.value)


# --- what is done ------------------------------------------------------------------------------------------------------


@EACH
def test_what_the_model_wants_reaches_the_display(provider: str) -> None:
    ran = run_model(
        provider,
        scripted(
            act("click", x=10, y=20),
            [act("click", x=30, y=40, count=2), act("type", text="Hi")],
            act("key", keys="ctrl+s"),
            act("click", x=50, y=60, button="right"),
            act("screenshot"),
        ),
    )
    assert ran.report.status == "success"
    assert ran.report.returned == {"number": "104"}
    found = [(mask, round(x, -1), round(y, -1)) for mask, x, y in clicks(ran)]  # Gemini's grid is coarser than pixels
    assert found == [(1, 10, 20), (1, 30, 40), (1, 30, 40), (4, 50, 60)]
    control, letter = parse_chord("ctrl+s")
    typed = [keysym for down, keysym in keys(ran) if down]
    assert typed[-4:] == [ord("H"), ord("i"), control, letter]
    assert audit(ran) == {"actions": 6, "executed": 6}
    assert ran.report.usage["turns"] == ran.server.requests == 6


@EACH
def test_a_request_shows_the_newest_pictures_only(provider: str) -> None:
    shown: list[int] = []

    def model(seen: Seen) -> list[Act]:
        shown.append(len(seen.pictures))
        return [act("click", x=10 + seen.number, y=5)] if seen.number < 6 else [DONE]

    ran = run_model(provider, model, images=2, expected={"images": 2})
    assert ran.report.status == "success"
    assert shown == [1, 2, 2, 2, 2, 2, 2]


@EACH
def test_the_model_sees_the_screen_after_its_actions(provider: str) -> None:
    screen, corners = FakeRfbServer(size=SIZE), []

    def model(seen: Seen) -> list[Act]:
        corners.append(seen.pictures[-1].getpixel((0, 0)))
        screen.draw(Image.new("RGB", SIZE, (40 * seen.number + 40, 0, 0)))
        return [act("key", keys="Tab")] if seen.number < 2 else [DONE]

    run_model(provider, model, screen=screen)
    assert corners == [(0, 0, 0), (40, 0, 0), (80, 0, 0)]


@EACH
def test_a_large_screen_is_seen_smaller_and_clicks_still_land(provider: str) -> None:
    ran = run_model(
        provider,
        scripted(act("click", x=400, y=300)),
        screen=FakeRfbServer(size=(1600, 1200)),
        longest_edge=800,
        expected={"size": (800, 600)},
    )
    ((_, x, y),) = clicks(ran)
    assert abs(x - 801) <= 2
    assert abs(y - 601) <= 2


def test_what_is_held_is_let_go_at_the_end() -> None:
    ran = run_model(
        "gemini",
        scripted(
            act("call", name="key_down", arguments={"key": "Shift"}),
            act("call", name="mouse_down", arguments={"x": 500, "y": 500}),
        ),
    )
    shift = parse_chord("shift")[0]
    assert keys(ran) == [(True, shift), (False, shift)]
    assert ran.inputs[-1] == ("pointer", 0, 160, 120)


def test_what_the_model_types_stands_nowhere_in_its_account() -> None:
    ran = run_model("anthropic", scripted(act("type", text="geheim123")))
    assert "geheim" not in ran.told
    assert "type 9 characters" in ran.told


@EACH
def test_secrets_of_the_task_are_taken_out_of_the_models_words(provider: str) -> None:
    ran = run_model(
        provider,
        scripted([act("say", text="I shall type geheim123."), act("key", keys="Tab")]),
        task={"secrets": ("geheim123",)},
    )
    assert "I shall type •••." in ran.told
    assert "geheim" not in ran.told


# --- what is not right --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["anthropic", "compatible"])
@pytest.mark.parametrize(
    ("wrong", "fate"),
    [
        (act("teleport"), "malformed"),
        (act("left_click", coordinate="there"), "malformed"),
        (act("key", keys="NoSuchKey"), "malformed"),
        (act("click", x=5000, y=5), "out_of_bounds"),
    ],
)
def test_a_wrong_action_is_told_to_the_model_and_counted(provider: str, wrong: Act, fate: str) -> None:
    ran = run_model(provider, scripted(wrong))
    assert ran.report.status == "success"
    assert audit(ran) == {"actions": 1, fate: 1}
    assert ran.inputs == []
    assert "The action failed" in str(ran.server.bodies[1])


@EACH
def test_after_a_failed_action_nothing_more_of_the_reply_is_done(provider: str) -> None:
    ran = run_model(
        provider, scripted([act("click", x=9, y=9), act("key", keys="NoSuchKey"), act("type", text="no"), DONE])
    )
    assert ran.report.status == "success"
    assert audit(ran) == {"actions": 3, "executed": 1, "malformed": 1, "skipped": 1}
    assert len(clicks(ran)) == 1
    assert keys(ran) == []
    assert ran.server.requests == 2  # the report in the failed reply did not count


def test_skipped_actions_are_told_in_the_words_that_the_toolset_prescribes() -> None:
    ran = run_model("anthropic", scripted([act("teleport"), act("screenshot")]))
    results = ran.server.bodies[1]["messages"][2]["content"]
    assert [result.get("is_error") for result in results] == [True, True]
    assert results[1]["content"][0]["text"] == "Not executed: an earlier computer action in this turn failed."


def test_a_repaired_action_is_done_and_its_repair_counted() -> None:
    ran = run_model("compatible", scripted(act("left_click", coordinate="[12, 34]"), act("key", keys="ctrl + s")))
    assert clicks(ran) == [(1, 12, 34)]
    assert audit(ran) == {
        "actions": 2,
        "executed": 2,
        "repaired": 2,
        "repair_place_as_text": 1,
        "repair_key_spacing": 1,
    }


@EACH
def test_a_tool_that_there_is_not_is_told_and_counted(provider: str) -> None:
    ran = run_model(provider, scripted(act("call", name="format_disk", arguments={})))
    assert ran.report.status == "success"
    assert audit(ran) == {"unknown_tools": 1}


@pytest.mark.parametrize("provider", ["openai", "compatible"])
@pytest.mark.parametrize("arguments", ["{broken", '{"data": {"num', "[1]", "", '{"data": NaN}', '"text"'])
def test_arguments_that_are_no_json_are_told_and_do_not_spoil_the_conversation(provider: str, arguments: str) -> None:
    """The stand-ins refuse a history with broken arguments, as some servers do: it would look like an outage."""
    broken = act("call", name="extraction", arguments=arguments)
    ran = run_model(provider, scripted(broken, act("click", x=5, y=5), broken))
    assert ran.report.status == "success"
    assert ran.server.requests == 4
    assert len(clicks(ran)) == 1


def test_a_call_that_is_cut_off_does_not_spoil_the_conversation() -> None:
    servers: list[Any] = []

    def model(seen: Seen) -> list[Act]:
        if seen.number:
            return [DONE]
        function = {"name": "computer", "arguments": '{"action": "left_cl'}
        message = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        }
        servers[0]._sent.append(message)
        return [act("raw", body=servers[0].completion(message, "length"))]

    ran = run_model("compatible", model, prepare=servers.append)
    assert ran.report.status == "success"
    assert audit(ran)["replies_cut"] == 1


@EACH
def test_a_loop_is_counted_but_does_not_end_the_run_by_itself(provider: str) -> None:
    ran = run_model(provider, scripted(*[act("click", x=10, y=10)] * 7))
    assert ran.report.status == "success"
    assert audit(ran) == {"actions": 7, "executed": 7, "loops": 2}


def test_a_run_can_be_ended_at_a_loop() -> None:
    ran = run_model("anthropic", scripted(*[act("click", x=10, y=10)] * 9), stop_at_loops=1)
    assert ran.report.status == "failed"
    assert "repeated itself" in ran.report.message
    assert audit(ran)["executed"] == 3


def test_the_same_action_on_a_changed_screen_is_no_loop() -> None:
    screen = FakeRfbServer(size=SIZE)

    def model(seen: Seen) -> list[Act]:
        screen.draw(Image.new("RGB", SIZE, (20 * seen.number + 20, 0, 0)))
        return [act("key", keys="Tab")] if seen.number < 6 else [DONE]

    assert audit(run_model("openai", model, screen=screen)) == {"actions": 6, "executed": 6}


# --- how it ends --------------------------------------------------------------------------------------------------------


@EACH
def test_values_that_do_not_fit_are_sent_back_and_may_be_put_right(provider: str) -> None:
    ran = run_model(provider, scripted(act("extraction", data={"number": 104})))
    assert ran.report.status == "success"
    assert ran.report.returned == {"number": "104"}
    assert audit(ran) == {"extractions_rejected": 1}


@EACH
def test_a_contract_that_returns_nothing_is_reported_with_nothing(provider: str) -> None:
    ran = run_model(
        provider, scripted(act("extraction", data={})), task={"response_schema": None}, expected={"returns": None}
    )
    assert (ran.report.status, ran.report.returned) == ("success", None)


@EACH
def test_a_screen_that_is_not_as_expected_ends_the_run_as_that(provider: str) -> None:
    ran = run_model(provider, scripted([act("click", x=5, y=5), act("mismatch", reasoning="a strange box")]))
    assert (ran.report.status, ran.report.message) == ("ui_not_as_expected", "a strange box")
    assert len(clicks(ran)) == 1


@EACH
def test_words_without_a_report_are_a_failure(provider: str) -> None:
    ran = run_model(provider, scripted(act("say", text="I am done, I think.")))
    assert ran.report.status == "failed"
    assert "I am done, I think." in ran.report.message


@EACH
def test_too_many_replies_are_a_timeout(provider: str) -> None:
    ran = run_model(provider, lambda seen: [act("click", x=5 + seen.number, y=5)], turns=3)
    assert ran.report.status == "timeout"
    assert ran.report.usage["turns"] == ran.server.requests == 3


@EACH
def test_a_model_that_is_still_thinking_at_the_deadline_is_a_timeout(provider: str) -> None:
    until = threading.Event()
    try:
        ran = run_model(provider, scripted(act("click", x=5, y=5), act("hang", until=until)), seconds=1.5)
    finally:
        until.set()
    assert ran.report.status == "timeout"
    assert ran.report.usage["turns"] == 1


def test_the_settings_may_give_less_time_than_the_contract() -> None:
    ran = run_model("anthropic", lambda seen: [act("wait", seconds=50)], timeout="500ms")
    assert ran.report.status == "timeout"


def test_a_person_can_stop_a_run() -> None:
    cancelled = threading.Event()

    def model(seen: Seen) -> list[Act]:
        cancelled.set()
        return [act("wait", seconds=90)]

    assert run_model("anthropic", model, task={"cancelled": cancelled}).report.status == "timeout"


def test_a_display_that_is_lost_is_no_failure_of_the_agent() -> None:
    screen = FakeRfbServer(size=SIZE)

    def model(seen: Seen) -> list[Act]:
        screen.close()
        return [act("click", x=5, y=5)]

    assert "display was lost" in outage(lambda: run_model("anthropic", model, screen=screen))


def no_display(**about: Any) -> AgentReport:
    """A run whose display is not there."""
    with FakeRfbServer(size=SIZE) as screen:
        port = screen.port
    with serving("anthropic", scripted()) as server:
        return ComputerUseAgent(settings_for("anthropic", server), PRICES).run(task_for(port, **about))


def test_a_display_that_is_not_there_is_no_failure_of_the_agent() -> None:
    assert "display cannot be reached" in outage(no_display)


def test_a_display_that_the_runner_has_cut_is_no_outage() -> None:
    stopped = threading.Event()
    stopped.set()
    assert no_display(cancelled=stopped).status == "timeout"
    assert no_display(deadline=time.monotonic()).status == "timeout"


def refusal(provider: str) -> tuple[Act, ...]:
    match provider:
        case "anthropic":
            body: dict[str, Any] = {"content": [], "stop_reason": "refusal", "id": "m", "type": "message", "role": "assistant",
                                    "model": "x", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        case "openai":
            part = {"type": "refusal", "refusal": "I cannot do that"}
            item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
            body = {
                "id": "r",
                "object": "response",
                "status": "completed",
                "output": [item],
                "usage": None,
                "error": None,
            }
        case "gemini":
            body = {"candidates": [{"finishReason": "SAFETY", "index": 0}]}
        case _:
            message = {"role": "assistant", "content": "", "refusal": "I cannot do that"}
            body = {
                "id": "c",
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
    return (act("raw", body=body),)


@EACH
def test_a_refusal_is_the_agents_failure(provider: str) -> None:
    ran = run_model(provider, scripted(*refusal(provider)))
    assert ran.report.status == "failed"
    assert "refused" in ran.report.message


def test_a_blocked_prompt_is_a_refusal() -> None:
    ran = run_model("gemini", scripted(act("raw", body={"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})))
    assert ran.report.status == "failed"


@pytest.mark.parametrize(
    ("provider", "status", "words"),
    [
        ("openai", 400, "Your request was rejected by our safety system (invalid_prompt)"),
        ("compatible", 400, "context_length_exceeded: maximum context length is 4096 tokens"),
        ("anthropic", 400, "prompt is too long: 210000 tokens > 200000 maximum"),
    ],
)
def test_content_that_is_declined_or_too_long_is_the_agents_failure(provider: str, status: int, words: str) -> None:
    ran = run_model(provider, scripted(act("http", status=status, body=words)))
    assert ran.report.status == "failed"
    assert ran.server.requests == 1


def cut(provider: str) -> Act:
    match provider:
        case "anthropic":
            text = [{"type": "text", "text": "Let me think"}]
            body: dict[str, Any] = {"content": text, "stop_reason": "max_tokens", "id": "m", "type": "message", "role": "assistant",
                                    "model": "x", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        case "openai":
            body = {"id": "r", "object": "response", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
                    "output": [], "usage": None, "error": None}  # fmt: skip
        case "gemini":
            body = {"candidates": [{"finishReason": "MAX_TOKENS", "index": 0}]}
        case _:
            message = {"role": "assistant", "content": "Let me think"}
            body = {
                "id": "c",
                "object": "chat.completion",
                "choices": [{"index": 0, "message": message, "finish_reason": "length"}],
            }
    return act("raw", body=body)


@EACH
def test_replies_that_are_cut_off_end_the_run_after_a_while(provider: str) -> None:
    def lenient(server: Any) -> None:  # the raw replies are not in the stand-in's own book
        server.read = lambda body, headers: []

    ran = run_model(provider, scripted(*[cut(provider)] * 3), prepare=lenient)
    assert ran.report.status == "failed"
    assert audit(ran)["replies_cut"] == 3
    assert "cut off" in str(ran.server.bodies[1])


def test_an_empty_reply_is_answered_with_a_nudge() -> None:
    def lenient(server: Any) -> None:
        server.read = lambda body, headers: []

    ran = run_model(
        "gemini",
        scripted(act("raw", body={"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]})),
        prepare=lenient,
    )
    assert ran.report.status == "success"
    assert audit(ran) == {"replies_unusable": 1}
    assert ran.report.usage["replies_without_usage"] == 1
    assert "cost_usd" not in ran.report.usage


# --- outages ------------------------------------------------------------------------------------------------------------


@EACH
def test_a_request_without_an_answer_is_sent_again_but_its_action_is_done_once(provider: str) -> None:
    ran = run_model(
        provider,
        scripted(
            act("http", status=503),
            act("click", x=10, y=20),
            act("drop"),
            act("http", status=429, headers={"retry-after": "0"}),
            act("http", status=529),
        ),
    )
    assert ran.report.status == "success"
    assert len(clicks(ran)) == 1
    assert audit(ran) == {"actions": 1, "executed": 1, "requests_repeated": 4}
    assert ran.server.requests == 6
    assert ran.server.bodies[2] == ran.server.bodies[3] == ran.server.bodies[4]


@EACH
@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_outage_that_does_not_pass_is_no_failure_of_the_agent(provider: str, status: int) -> None:
    seen: list[int] = []

    def model(asked: Seen) -> list[Act]:
        seen.append(asked.number)
        return [act("http", status=status)]

    told = outage(lambda: run_model(provider, model, retries=2))
    assert len(seen) == 3
    assert f"HTTP {status}" in told


@EACH
def test_an_outage_at_the_deadline_is_no_timeout_of_the_agent(provider: str) -> None:
    told = outage(
        lambda: run_model(provider, lambda _: [act("http", status=503)], seconds=2.0, retries=20, retry_wait="200ms")
    )
    assert "HTTP 503" in told


@EACH
@pytest.mark.parametrize(
    ("status", "words", "remedy"),
    [
        (401, "Incorrect API key provided: {key}", f"check the key in {KEY_VARIABLE}"),
        (403, "permission denied", f"check the key in {KEY_VARIABLE}"),
        (429, "You exceeded your current quota, please check your plan and billing details", "out of credit"),
        (402, "payment required", "out of credit"),
        (404, "model: no-such-model", "check the model's name"),
        (400, "tools.0: unexpected value", "does not understand the request"),
    ],
)
def test_what_does_not_pass_is_not_asked_again(provider: str, status: int, words: str, remedy: str) -> None:
    seen: list[int] = []

    def model(asked: Seen) -> list[Act]:
        seen.append(asked.number)
        return [act("http", status=status, body=words.format(key=KEY))]

    told = outage(lambda: run_model(provider, model))
    assert seen == [0]
    assert remedy in told


@EACH
def test_a_server_that_is_not_there_is_an_outage(provider: str) -> None:
    with serving(provider, scripted()) as server:
        settings = settings_for(provider, server, retries=1)
    with FakeRfbServer(size=SIZE) as screen:
        told = outage(lambda: ComputerUseAgent(settings, PRICES).run(task_for(screen.port)))
    assert "cannot be reached" in told


@EACH
def test_a_connection_that_is_not_made_in_time_is_an_outage(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDKs call it the same as an answer that does not come, which at the deadline is the model's own slowness."""

    def silent(library: Any) -> Any:
        def send(*_: object) -> None:
            raise library.ConnectTimeout("timed out")

        return send

    for library in (httpx, httpx2):
        monkeypatch.setattr(library.HTTPTransport, "handle_request", silent(library))
    assert "cannot be reached" in outage(lambda: run_model(provider, scripted(), seconds=10, retries=0))


NO_REPLY = {
    "a page": act("page", text="<!DOCTYPE html><title>Log in to the guest network</title>", content_type="text/html"),
    "a page as json": act("page", text="<html></html>", content_type="application/json"),
    "half an answer": act("page", text='{"cho', content_type="application/json"),
    "an error": act("raw", body={"error": {"code": 502, "message": "bad gateway"}}),
    "an error in words": act("raw", body={"type": "error", "error": "overloaded"}),
    "nothing": act("raw", body={}),
    "null": act("raw", body=None),
    "a list": act("raw", body=[]),
    "a number": act("raw", body=7),
    "numbers": act("raw", body={"content": 7, "output": 7, "status": "completed", "choices": 7, "candidates": 7}),
    "another form": act("raw", body={
        "content": ["x"], "output": [7], "status": "completed", "choices": [{"message": "x"}], "candidates": [{"content": "x"}],
    }),
}  # fmt: skip


@EACH
@pytest.mark.parametrize("answer", NO_REPLY)
def test_an_answer_that_is_no_reply_is_an_outage(provider: str, answer: str) -> None:
    seen: list[int] = []

    def model(asked: Seen) -> list[Act]:
        seen.append(asked.number)
        return [NO_REPLY[answer]]

    told = outage(lambda: run_model(provider, model, retries=1))
    assert seen == [0, 1]
    assert "cannot be reached" in told


@pytest.mark.parametrize("status", ["queued", "failed", "cancelled", None])
def test_a_response_that_is_none_yet_is_an_outage(status: str | None) -> None:
    body: dict[str, Any] = {"object": "response", "status": status, "output": [], "error": None}
    assert "HTTP 200, but no reply" in outage(lambda: run_model("openai", lambda _: [act("raw", body=body)], retries=0))


@pytest.mark.parametrize("provider", ["anthropic", "openai", "compatible"])
def test_a_gateways_error_within_an_answer_means_what_its_status_means(provider: str) -> None:
    refused = act("raw", body={"error": {"code": 401, "message": f"no such key {KEY}"}})
    assert f"check the key in {KEY_VARIABLE}" in outage(lambda: run_model(provider, lambda _: [refused]))


@EACH
def test_empty_replies_are_the_agents_failure(provider: str) -> None:
    def lenient(server: Any) -> None:
        server.read = lambda body, headers: []

    body = {
        "type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
        "status": "completed", "output": [], "error": None, "candidates": [{"finishReason": "STOP", "index": 0}],
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ""}}],
    }  # fmt: skip
    if provider != "anthropic":
        del body["usage"]
    ran = run_model(provider, lambda _: [act("raw", body=body)], prepare=lenient)
    assert ran.report.status == "failed"
    assert audit(ran) == {"replies_unusable": 3}


@EACH
def test_the_supervisor_takes_an_outage_as_unscored(provider: str) -> None:
    with serving(provider, lambda _: [act("http", status=401)]) as server, FakeRfbServer(size=SIZE) as screen:
        agent = ComputerUseAgent(settings_for(provider, server), PRICES)
        result = supervise(agent, task_for(screen.port), cut=lambda: None)
    assert result.infrastructure is not None
    assert KEY not in result.infrastructure


def test_the_supervisor_takes_a_lost_display_as_unscored() -> None:
    screen = FakeRfbServer(size=SIZE)

    def model(seen: Seen) -> list[Act]:
        screen.close()
        return [act("click", x=5, y=5)]

    with serving("anthropic", model) as server, screen:
        agent = ComputerUseAgent(settings_for("anthropic", server), PRICES)
        result = supervise(agent, task_for(screen.port), cut=lambda: None)
    assert result.infrastructure is not None


def test_an_sdk_that_cannot_be_set_up_is_no_failure_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:9")
    assert "ALL_PROXY" in outage(lambda: run_model("openai", scripted()))


def test_a_key_that_is_gone_when_the_run_begins_is_no_failure_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    assert KEY_VARIABLE in outage(lambda: run_model("anthropic", scripted()))


@EACH
def test_a_model_that_takes_no_temperature_is_asked_without(provider: str) -> None:
    def model(seen: Seen) -> list[Act]:
        if seen.number == 0:
            return [act("http", status=400, body="`temperature` is deprecated for this model.")]
        return [act("click", x=5, y=5)] if seen.number == 1 else [DONE]

    def any_temperature(server: Any) -> None:
        original = server.model

        def model(seen: Seen) -> list[Act]:
            server.expected.temperature = None
            return list(original(seen))

        server.model = model

    ran = run_model(provider, model, prepare=any_temperature)
    assert ran.report.status == "success"
    assert audit(ran)["settings_dropped"] == 1
    assert "temperature" not in ran.report.usage
    assert "takes no temperature" in ran.told


@EACH
def test_no_temperature_need_be_sent(provider: str) -> None:
    ran = run_model(provider, scripted(), temperature="default", expected={"temperature": None})
    assert ran.report.status == "success"
    assert "temperature" not in ran.report.usage


# --- safety -------------------------------------------------------------------------------------------------------------

CHECKS = [{"id": "cu_sc_1", "code": "malicious_instructions", "message": "The screen tells the model what to do."}]
RISKY = {
    "openai": act("click", x=5, y=5, safety=CHECKS),
    "gemini": act("click", x=5, y=5, safety_decision={"decision": "require_confirmation", "explanation": "It saves."}),
}


@pytest.mark.parametrize("provider", RISKY)
def test_a_safety_check_ends_the_run_unless_it_may_be_confirmed(provider: str) -> None:
    ran = run_model(provider, scripted(RISKY[provider]))
    assert ran.report.status == "failed"
    assert "safety check" in ran.report.message
    assert ran.inputs == []
    assert audit(ran) == {"actions": 1, "refused": 1, "safety_checks": 1}


@pytest.mark.parametrize("provider", RISKY)
def test_a_safety_check_can_be_confirmed_and_is_noted(provider: str) -> None:
    ran = run_model(provider, scripted(RISKY[provider]), acknowledge=True)
    assert ran.report.status == "success"
    assert len(clicks(ran)) == 1
    assert audit(ran) == {"actions": 1, "executed": 1, "safety_checks": 1, "safety_acknowledged": 1}
    assert "acknowledged" in ran.told


# --- versions of the vendors' tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("claude-opus-4-6", "computer_20251124"),
        ("claude-sonnet-4-6", "computer_20251124"),
        ("claude-opus-4-5-20251101", "computer_20251124"),
        ("claude-haiku-4-5", "computer_20250124"),
        ("claude-sonnet-4-20250514", "computer_20250124"),
        ("claude-opus-4-8", "computer_toolset_20260801"),
        ("claude-haiku-5-5", "computer_toolset_20260801"),
        ("claude-something-new", "computer_toolset_20260801"),
    ],
)
def test_anthropics_models_get_the_tool_that_they_are_made_for(model: str, version: str) -> None:
    from runner.agents.computeruse.providers.anthropic import tool_version

    assert tool_version(model) == version


@pytest.mark.parametrize(
    ("provider", "model", "change"),
    [
        ("anthropic", "claude-opus-4-6", {"version": "computer_20251124"}),
        ("anthropic", "claude-haiku-4-5", {"version": "computer_20250124", "thinks": False}),
        ("openai", "computer-use-preview-2025-03-11", {"tool": "computer_use_preview"}),
        ("gemini", "gemini-2.5-computer-use-preview-10-2025", {"environment": "BROWSER"}),
    ],
)
def test_older_versions_of_the_tools_are_spoken(provider: str, model: str, change: dict[str, Any]) -> None:
    def older(server: Any) -> None:
        for name, value in change.items():
            setattr(server, name, value)

    ran = run_model(
        provider,
        scripted(
            act("click", x=10, y=20), act("type", text="a"), act("key", keys="ctrl+s"), act("click", x=9, y=9, count=2)
        ),
        prepare=older,
        expected={"name": model},
    )
    assert ran.report.status == "success"
    assert len(clicks(ran)) == 3
    assert ran.report.usage["cost_usd"] > 0


def test_a_browsers_functions_mean_nothing_on_a_desktop() -> None:
    ran = run_model("gemini", scripted(act("call", name="navigate", arguments={"url": "https://example.org"})))
    assert audit(ran) == {"unknown_tools": 1}
    assert ran.inputs == []


# --- usage --------------------------------------------------------------------------------------------------------------


@EACH
def test_tokens_turns_knobs_and_cost_are_told(provider: str) -> None:
    usage = run_model(provider, scripted(act("click", x=5, y=5))).report.usage
    assert (usage["turns"], usage["tokens_in"], usage["tokens_out"], usage["tokens_cached"]) == (2, 640, 100, 400)
    assert (usage["temperature"], usage["max_tokens"]) == (0, 4096)
    assert 0 < usage["cost_usd"] < 0.1


def test_a_model_without_a_price_has_no_cost_and_that_is_said() -> None:
    ran = run_model("compatible", scripted(), expected={"name": "my-own-model"})
    assert "cost_usd" not in ran.report.usage
    assert "no cost" in ran.told


@EACH
def test_other_knobs_are_sent_and_told(provider: str) -> None:
    ran = run_model(
        provider, scripted(), temperature=0.5, max_tokens=1000, expected={"temperature": 0.5, "max_tokens": 1000}
    )
    assert (ran.report.usage["temperature"], ran.report.usage["max_tokens"]) == (0.5, 1000)


def test_a_report_is_made_before_the_supervisor_would_give_up() -> None:
    model = lambda seen: [act("click", x=5 + seen.number % 300, y=5)]  # noqa: E731
    with serving("compatible", model) as server, FakeRfbServer(size=SIZE) as screen:
        agent = ComputerUseAgent(settings_for("compatible", server), PRICES)
        result = supervise(agent, task_for(screen.port, 2.0), cut=lambda: None)
    assert result.report.status == "timeout"
    assert result.report.usage["turns"] >= 1
    assert not result.still_running
