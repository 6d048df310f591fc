"""Agents under supervision: whatever one does, the runner goes on, and what it says is cut to what can be kept."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agents import base
from runner.agents.base import (
    STATUSES,
    Agent,
    AgentInfrastructureError,
    AgentReport,
    AgentSpecError,
    AgentTask,
    Happening,
    plan,
)
from runner.agents.supervision import MAX_MESSAGE, MAX_RETURNED, MAX_TIMELINE, Supervised, checked, supervise
from runner.display.handshake import DisplayAddress
from runner.record import AgentRef, TimelineEntry
from runner.spellings import blot_value

LONG = 120.0
"""Seconds that no test should ever wait; only a broken one does."""


class Doing:
    """An agent made of a function."""

    name = "doing"

    def __init__(self, what: Callable[[AgentTask], Any]) -> None:
        self._what = what

    def run(self, task: AgentTask) -> AgentReport:
        report: AgentReport = self._what(task)
        return report


def task(seconds: float = LONG, **about: Any) -> AgentTask:
    made = AgentTask(
        contract="a.b", instruction="do", prompt="do it", parameters={}, response_schema=None,
        display=DisplayAddress("127.0.0.1", 1), timeout=seconds, deadline=time.monotonic() + seconds,
        folder=Path("nowhere"), windows=tuple, cancelled=threading.Event(),
    )  # fmt: skip
    return replace(made, **about)


def supervised(what: Callable[[AgentTask], Any], seconds: float = LONG) -> tuple[Supervised, int]:
    cuts: list[float] = []
    result = supervise(Doing(what), task(seconds), cut=lambda: cuts.append(time.monotonic()))
    return result, len(cuts)


# --- how it ends ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", STATUSES)
def test_a_report_is_passed_on(status: Any) -> None:
    report = AgentReport(status, {"a": [1, None]}, "done", {"tokens": 5}, (Happening(0.5, "clicked", b"png"),))
    result, cuts = supervised(lambda _: report)
    assert result.report == report
    assert (cuts, result.infrastructure, result.still_running) == (1, None, False)
    assert result.seconds >= 0


@pytest.mark.parametrize(
    "error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError(), RecursionError(), BaseException("x")]
)  # fmt: skip
def test_whatever_it_raises_is_its_own_error(error: BaseException) -> None:
    def crash(_: AgentTask) -> None:
        raise error

    result, cuts = supervised(crash)
    assert result.report.status == "error"
    assert type(error).__name__ in result.report.message
    assert (cuts, result.infrastructure, result.still_running) == (1, None, False)


def test_an_exception_that_cannot_even_be_shown() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def crash(_: AgentTask) -> None:
        raise Mute

    result, cuts = supervised(crash)
    assert (result.report.status, cuts) == ("error", 1)
    assert "Mute" in result.report.message


def test_endless_last_words_are_cut() -> None:
    def crash(_: AgentTask) -> None:
        raise ValueError("x" * 1_000_000)

    assert len(supervised(crash)[0].report.message) <= MAX_MESSAGE


def test_what_it_needs_being_out_is_not_its_failure() -> None:
    def out(_: AgentTask) -> None:
        raise AgentInfrastructureError("quota used up")

    result, cuts = supervised(out)
    assert (result.infrastructure, result.report.status, cuts) == ("quota used up", "error", 1)


def test_endless_words_about_an_outage_are_cut() -> None:
    def out(_: AgentTask) -> None:
        raise AgentInfrastructureError("x" * 1_000_000)

    result, _ = supervised(out)
    assert len(result.infrastructure or "") <= MAX_MESSAGE
    assert len(result.report.message) <= MAX_MESSAGE


def test_one_that_ends_when_it_is_cut_off_is_a_timeout() -> None:
    gone = threading.Event()

    def works(_: AgentTask) -> AgentReport:
        gone.wait(LONG)
        return AgentReport("success", timeline=(Happening(0, "typed"),), returned={"a": 1})

    result = supervise(Doing(works), task(0.05), cut=gone.set)
    assert (result.report.status, result.still_running, result.report.returned) == ("timeout", False, None)
    assert "still working after 0.05 s" in result.report.message
    assert result.report.timeline == (Happening(0, "typed"),)


def test_one_that_never_ends_is_cut_off_and_left() -> None:
    free = threading.Event()
    was_alive: list[bool] = []

    def hangs(_: AgentTask) -> AgentReport:
        free.wait(LONG)
        return AgentReport("success")

    def cut() -> None:
        was_alive.append(any(thread.name == "agent-a.b" for thread in threading.enumerate()))

    try:
        result = supervise(Doing(hangs), task(0.05), cut=cut)
        assert was_alive == [True], "it is cut off while it works, before anything is read"
        assert (result.report.status, result.still_running) == ("timeout", True)
        assert result.seconds < LONG
    finally:
        free.set()


def test_one_that_crashes_because_it_is_cut_off_is_a_timeout() -> None:
    gone = threading.Event()

    def works(_: AgentTask) -> AgentReport:
        gone.wait(LONG)
        raise ConnectionError("the display is gone")

    result = supervise(Doing(works), task(0.05), cut=gone.set)
    assert (result.report.status, result.still_running) == ("timeout", False)


def test_cancelling_stops_at_once() -> None:
    free = threading.Event()

    def cancels(given: AgentTask) -> AgentReport:
        given.cancelled.set()
        free.wait(LONG)
        return AgentReport("success")

    result = supervise(Doing(cancels), task(), cut=free.set)
    assert (result.report.status, result.report.message) == ("timeout", "cancelled")
    assert result.seconds < LONG


# --- what it says -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nonsense", [None, "success", {"status": "success"}, 5, AgentReport("done"), AgentReport(None), AgentReport(["success"])]  # type: ignore[arg-type]
)  # fmt: skip
def test_a_report_that_is_none(nonsense: Any) -> None:
    result, cuts = supervised(lambda _: nonsense)
    assert (result.report.status, result.report.returned, cuts) == ("error", None, 1)


@pytest.mark.parametrize(
    "returned",
    [object(), {1, 2}, b"bytes", float("nan"), {"x": float("inf")}, {(1, 2): 3}, 10**5000],
    ids=["object", "set", "bytes", "nan", "infinity", "tuple key", "endless number"],
)
def test_returned_values_that_are_no_json(returned: Any) -> None:
    report = checked(AgentReport("success", returned))
    assert (report.status, report.returned) == ("error", None)
    assert report.message.startswith("the agent returned what is no JSON")


def test_returned_values_in_a_circle() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert checked(AgentReport("success", circle)).status == "error"


def test_returned_values_that_are_too_large() -> None:
    assert checked(AgentReport("success", "x" * (MAX_RETURNED - 2))).status == "success"
    report = checked(AgentReport("success", "x" * MAX_RETURNED))
    assert (report.status, report.returned) == ("error", None)


def nested(depth: int) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [20, 150, 190, 230, 260, 400, 600, 900, 20_000])
def test_what_is_accepted_however_deep_can_be_kept_and_read_again(depth: int) -> None:
    report = checked(AgentReport("success", nested(depth)))
    if depth == 20:
        assert report.status == "success"
    if report.status == "error":
        return
    shown = blot_value(report.returned, ("secret",))
    kept = AgentRef(spec="x", name="x", prompt="expert", prompt_text="0" * 64, returned=shown).model_dump_json()
    assert AgentRef.model_validate_json(kept).returned == report.returned


def test_returned_values_are_a_copy() -> None:
    mine = {"number": "000104"}
    report = checked(AgentReport("success", mine))
    mine["number"] = "changed later"
    assert report.returned == {"number": "000104"}


@pytest.mark.parametrize("hidden", [("sesame",), ["sesame", ""], "sesame"])
def test_its_own_secrets_go_from_its_words_and_are_handed_on(hidden: Any) -> None:
    report = checked(AgentReport("success", {"a": "sesame"}, "open sesame", hidden=hidden))
    assert (report.returned, report.message, report.hidden) == ({"a": "sesame"}, "open •••", ("sesame",))


def test_secrets_that_cannot_be_told_spoil_the_report_and_do_not_slip_through() -> None:
    report = checked(AgentReport("success", message="open sesame", hidden=7))  # type: ignore[arg-type]
    assert (report.status, "sesame" in report.message) == ("error", False)


def test_tuples_are_lists_in_json() -> None:
    assert checked(AgentReport("success", (1, 2))).returned == [1, 2]


def test_a_message_is_cut() -> None:
    assert len(checked(AgentReport("failed", message="x" * (MAX_MESSAGE + 1))).message) == MAX_MESSAGE


def test_a_message_of_another_type_is_made_a_text() -> None:
    assert checked(AgentReport("failed", message=5)).message == "5"  # type: ignore[arg-type]


@pytest.mark.parametrize("usage", [None, 5, "abc", [1, 2], [("a", 1, 2)], {"big": 10**400}])
def test_usage_that_is_no_mapping_of_numbers_takes_nothing_down(usage: Any) -> None:
    result, _ = supervised(lambda _: AgentReport("failed", usage=usage))
    assert result.report.status in ("failed", "error")


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_usage_can_be_kept_and_read_again(number: float) -> None:
    usage = checked(AgentReport("failed", usage={"cost": number, "turns": 3})).usage
    kept = AgentRef(spec="x", name="x", prompt="expert", prompt_text="0" * 64, usage=dict(usage)).model_dump_json()
    assert AgentRef.model_validate_json(kept).usage["turns"] == 3


def test_names_in_usage_can_be_written() -> None:
    usage = checked(AgentReport("failed", usage={"lone \ud800": 1, "turns": 3})).usage
    kept = AgentRef(spec="x", name="x", prompt="expert", prompt_text="0" * 64, usage=dict(usage)).model_dump_json()
    assert '"turns":3' in kept


def test_usage_is_bounded_and_holds_numbers_only() -> None:
    usage: Mapping[str, Any] = {f"n{number}": number for number in range(1000)} | {"text": "x"}
    report = checked(AgentReport("failed", usage=usage))
    assert len(report.usage) <= 100
    assert checked(AgentReport("failed", usage={"text": "x", "n": 2})).usage == {"n": 2.0}  # type: ignore[dict-item]


@pytest.mark.parametrize("timeline", [None, 5, "text", ["text", 5, None], {"a": 1}])
def test_a_timeline_that_is_none(timeline: Any) -> None:
    assert checked(AgentReport("failed", timeline=timeline)).timeline == ()


def test_a_timeline_is_bounded() -> None:
    lines = tuple(Happening(0, f"{number}") for number in range(MAX_TIMELINE + 5))
    assert len(checked(AgentReport("failed", timeline=lines)).timeline) == MAX_TIMELINE


@pytest.mark.parametrize(
    "line",
    [
        Happening("soon", "text"),  # type: ignore[arg-type]
        Happening(float("nan"), "text"),
        Happening(None, "text"),  # type: ignore[arg-type]
        Happening(0, None),  # type: ignore[arg-type]
        Happening(0, "x", "no bytes"),  # type: ignore[arg-type]
    ],
)
def test_lines_of_a_timeline_that_are_nonsense_are_dropped_or_mended(line: Any) -> None:
    for kept in checked(AgentReport("failed", timeline=(line,))).timeline:
        assert isinstance(kept.text, str)
        assert kept.screenshot is None or isinstance(kept.screenshot, bytes)
        entry = TimelineEntry(t=float(kept.t), text=kept.text)
        assert TimelineEntry.model_validate_json(entry.model_dump_json()) == entry


def test_screenshots_are_bounded() -> None:
    picture = bytes(4 << 20)
    lines = tuple(Happening(0, "x", picture) for _ in range(50))
    kept = checked(AgentReport("failed", timeline=lines)).timeline
    assert sum(len(line.screenshot or b"") for line in kept) <= 100 << 20


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_every_json_value_comes_through(value: Any) -> None:
    report = checked(AgentReport("success", value))
    assert report.status == "success"
    assert report.returned == value
    json.dumps(report.returned)


# --- which agents there are -------------------------------------------------------------------------------------------


def test_the_agent_that_does_nothing() -> None:
    (planned,) = plan("noop")
    assert (planned.spec, planned.agent.name, planned.contract, planned.intended) == (
        "noop:failed", "noop failed", None, None,
    )  # fmt: skip
    assert isinstance(planned.agent, Agent)
    assert planned.agent.run(task()).status == "failed"


@pytest.mark.parametrize("status", STATUSES)
def test_it_can_report_anything(status: str) -> None:
    (planned,) = plan(f"noop:{status}")
    assert supervise(planned.agent, task(), cut=lambda: None).report.status == status


@pytest.mark.parametrize("spec", ["noop:done", "noop:SUCCESS", "noop: success"])
def test_a_status_that_there_is_not(spec: str) -> None:
    with pytest.raises(AgentSpecError, match="noop can report"):
        plan(spec)


@pytest.mark.parametrize("spec", ["", "none", "Noop", ":x", "legacy use"])
def test_an_agent_that_there_is_not(spec: str) -> None:
    with pytest.raises(
        AgentSpecError, match=r"unknown agent .*known: command, computer-use, human, legacy-use, noop, scripted"
    ):
        plan(spec)


class Entry:
    """An entry point that loads what it is told, or fails to."""

    name = "theirs"

    def __init__(self, made: Any) -> None:
        self._made = made

    def load(self) -> Any:
        if isinstance(self._made, BaseException):
            raise self._made
        return self._made


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    def install(made: Any) -> None:
        monkeypatch.setattr(base, "entry_points", lambda group: [Entry(made)] if group == "legacyproof.agents" else [])

    return install


def test_an_agent_from_a_plug_in(plug_in: Callable[[Any], None]) -> None:
    seen: list[str] = []

    def factory(argument: str) -> Doing:
        seen.append(argument)
        return Doing(lambda _: AgentReport("success"))

    plug_in(factory)
    (planned,) = plan("theirs:model=x:y")
    assert seen == ["model=x:y"]
    assert (planned.spec, planned.agent.name) == ("theirs:model=x:y", "doing")
    assert plan("theirs")[0].spec == "theirs"


def test_a_plug_in_is_named_among_the_known(plug_in: Callable[[Any], None]) -> None:
    plug_in(Doing)
    with pytest.raises(AgentSpecError, match="noop, scripted, theirs"):
        plan("others")


@pytest.mark.parametrize(
    "made",
    [
        lambda _argument: object(),
        lambda _argument: None,
        lambda _argument: SimpleNamespace(name="x"),
        lambda _argument: SimpleNamespace(name=None, run=5),
        lambda _argument: SimpleNamespace(name="x", run=lambda: None),
    ],
    ids=["object", "none", "no run", "wrong types", "wrong signature"],
)
def test_a_plug_in_that_makes_no_agent(plug_in: Callable[[Any], None], made: Any) -> None:
    plug_in(made)
    with pytest.raises(AgentSpecError, match="theirs"):
        plan("theirs")


@pytest.mark.parametrize(
    "error", [ImportError("no module named torch"), AttributeError("no Agent"), SyntaxError("bad")]
)
def test_a_plug_in_that_cannot_be_loaded(plug_in: Callable[[Any], None], error: Exception) -> None:
    plug_in(error)
    with pytest.raises(AgentSpecError, match="theirs"):
        plan("theirs")


@pytest.mark.parametrize("made", [5, lambda: None], ids=["not callable", "no argument"])
def test_a_plug_in_whose_factory_is_none(plug_in: Callable[[Any], None], made: Any) -> None:
    plug_in(made)
    with pytest.raises(AgentSpecError, match="theirs"):
        plan("theirs")


def test_a_plug_in_that_refuses_its_argument_is_heard(plug_in: Callable[[Any], None]) -> None:
    def factory(argument: str) -> Doing:
        raise AgentSpecError(f"no such model: {argument}")

    plug_in(factory)
    with pytest.raises(AgentSpecError, match=r"^no such model: x$"):
        plan("theirs:x")
