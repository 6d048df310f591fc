"""The human agent: a conversation on a real terminal (a pseudo-terminal here), bounded by the run's time."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.agents import human
from runner.agents.base import AgentInfrastructureError, AgentReport, AgentSpecError, AgentTask, plan
from runner.agents.human import HumanAgent, Terminal, inputs, parsed, viewer_command
from runner.display.events import InputEvent
from runner.display.handshake import DisplayAddress

ROOT = Path(__file__).parents[2]
LONG = 60.0
SCHEMA = {
    "type": "object",
    "required": ["number", "count"],
    "properties": {
        "number": {"type": "string", "pattern": "^[0-9]{6}$"}, "count": {"type": "integer", "minimum": 1},
        "price": {"type": ["number", "null"]}, "done": {"type": "boolean"}, "items": {"type": "array"},
    },
}  # fmt: skip


class Person:
    """Somebody at a terminal: reads what is written there, and types."""

    def __init__(self) -> None:
        self.master, self._slave = pty.openpty()
        self.sink = os.fdopen(os.dup(self._slave), "w")
        self.terminal = Terminal(self._slave, self.sink)
        self.seen = ""

    def types(self, *lines: str) -> None:
        for line in lines:
            os.write(self.master, line.encode() + b"\n")

    def reads(self) -> str:
        while select.select([self.master], [], [], 0.2)[0]:
            self.seen += os.read(self.master, 65536).decode()
        return self.seen.replace("\r\n", "\n")

    def leaves(self) -> None:
        os.write(self.master, b"\x04")  # Ctrl-D


@pytest.fixture
def person() -> Iterator[Person]:
    made = Person()
    yield made
    made.sink.close()
    os.close(made.master)
    os.close(made._slave)


def task(seconds: float = LONG, **about: Any) -> AgentTask:
    made = AgentTask(
        contract="dswin.add", instruction="Register Muster with the PIN 4711-geheim", prompt="Step 1: type 4711-geheim",
        parameters={"name": "Muster", "pin": "4711-geheim", "tags": ["a", "b"]}, response_schema=None,
        display=DisplayAddress("127.0.0.1", 45678, "abcd1234"), timeout=seconds, deadline=time.monotonic() + seconds,
        folder=Path("nowhere"), windows=tuple, cancelled=threading.Event(), secrets=("4711-geheim",),
    )  # fmt: skip
    return replace(made, **about)


def said(person: Person, *lines: str, given: AgentTask | None = None, secrets: bool = False) -> AgentReport:
    person.types(*lines)
    return HumanAgent(terminal=person.terminal, secrets=secrets).run(given or task())


# --- what a person is told --------------------------------------------------------------------------------------------


def test_the_display_and_the_task_are_told(person: Person) -> None:
    said(person, "done")
    text = person.reads()
    for piece in ("dswin.add: you have 60 s", "127.0.0.1, port 45678, password abcd1234", "vncviewer 127.0.0.1::45678",
                  "Register Muster with", "Step 1: type", "name: Muster", "tags: a, b", "could not [why]"):  # fmt: skip
        assert piece in text
    assert "pin: •••  (`show` shows it)" in text
    assert "4711-geheim" not in text


def test_secrets_are_shown_when_they_are_asked_for(person: Person) -> None:
    said(person, "show", "done")
    assert "pin: 4711-geheim" in person.reads()


def test_secrets_are_shown_at_once_where_that_is_wanted(person: Person) -> None:
    said(person, "done", secrets=True)
    text = person.reads()
    assert "Register Muster with the PIN 4711-geheim" in text
    assert "`show`" not in text


def test_nothing_that_is_told_steers_the_terminal(person: Person) -> None:
    said(person, "done", given=task(instruction="\x1b]0;title\x07\x1b[2Jhello \u202e", prompt=""))
    assert "\x1b" not in person.reads()
    assert "\u202e" not in person.reads()


# --- what a person says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("done", "success", ""),
        ("DONE", "success", ""),
        ("could not", "failed", ""),
        ("could not find the patient", "failed", "find the patient"),
        ("screen a box is in the way", "ui_not_as_expected", "a box is in the way"),
    ],
)
def test_how_it_ended(person: Person, line: str, status: str, message: str) -> None:
    report = said(person, "", "what?", line)
    assert (report.status, report.message) == (status, message)
    assert "done                 you have done the task" in person.reads()


def test_values_are_asked_for_until_they_fit(person: Person) -> None:
    report = said(
        person, "done", "12", "000104", "many", "0", "3", "", "maybe", "yes", "[1", '["a"]', given=task(response_schema=SCHEMA)
    )  # fmt: skip
    assert report.status == "success"
    assert report.returned == {"number": "000104", "count": 3, "done": True, "items": ["a"]}
    text = person.reads()
    assert text.count("that does not fit") == 5
    assert "count (integer): " in text
    assert "price (number or null, may be left empty): " in text
    assert [entry.text for entry in report.timeline][:2] == ["said: done", "returned number"]


def test_a_single_value(person: Person) -> None:
    report = said(person, "done", "x", "7", given=task(response_schema={"type": "integer"}))
    assert report.returned == 7


def test_a_schema_that_is_none_leaves_the_judgement_to_the_verdict(person: Person) -> None:
    schema = {"properties": {"a": {"$ref": "http://nowhere.example/x"}}, "required": ["a"]}
    assert said(person, "done", "text", given=task(response_schema=schema)).returned == {"a": "text"}


@pytest.mark.parametrize(
    ("text", "kinds", "value"),
    [
        ("5", ["integer"], 5), ("5", ["string"], "5"), ("2,5", ["number"], 2.5), ("-1", ["number"], -1),
        ("no", ["boolean"], False), ("", ["null", "string"], None), ('{"a": 1}', ["object"], {"a": 1}),
        ("free", [], "free"), ("[1]", [], [1]), ("", ["string"], ""),
    ],
)  # fmt: skip
def test_what_is_typed_becomes_a_value(text: str, kinds: list[str], value: Any) -> None:
    found = parsed(text, kinds)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "kinds"), [("nan", ["number"]), ("inf", ["number"]), ("1.5", ["integer"]), ("[" * 100_000, ["array"])]
)
def test_what_is_no_such_value(text: str, kinds: list[str]) -> None:
    with pytest.raises(ValueError, match=r"JSON|wanted"):
        parsed(text, kinds)


# --- its time ---------------------------------------------------------------------------------------------------------


def test_the_time_ends_a_conversation(person: Person) -> None:
    report = said(person, given=task(0.4))
    assert (report.status, report.message) == ("timeout", "the time was over")
    assert "The time is over" in person.reads()


def test_the_time_also_ends_the_questions_for_values(person: Person) -> None:
    assert said(person, "done", given=task(0.6, response_schema=SCHEMA)).status == "timeout"


def test_cancelling_ends_it(person: Person) -> None:
    given = task()
    given.cancelled.set()
    assert said(person, given=given).status == "timeout"


def test_a_terminal_that_is_closed_is_a_failure(person: Person) -> None:
    person.leaves()
    assert said(person).status == "failed"


def test_only_one_run_has_the_terminal(person: Person) -> None:
    with human._terminal_in_use, pytest.raises(AgentInfrastructureError, match="--parallel 1"):
        said(person, "done")
    assert said(person, "done").status == "success"


# --- how much work it was ---------------------------------------------------------------------------------------------


def test_inputs_are_counted() -> None:
    events = [
        InputEvent(0, "key", 1, down=True, keysym=0x61), InputEvent(0, "key", 1, down=False, keysym=0x61),
        InputEvent(0, "key", 1, down=True, keysym=0xFFE1),  # Shift only modifies
        InputEvent(0, "key", 1, down=True, keysym=0, name="•"),
        InputEvent(0, "pointer", 1, x=1, y=1, buttons=0), InputEvent(0, "pointer", 1, x=1, y=1, buttons=1),
        InputEvent(0, "pointer", 1, x=5, y=1, buttons=1), InputEvent(0, "pointer", 1, x=5, y=1, buttons=0),
        InputEvent(0, "pointer", 1, x=5, y=1, buttons=4), InputEvent(0, "disconnected", 1),
    ]  # fmt: skip
    assert inputs(events) == {"keys": 2, "clicks": 2}


def test_time_and_inputs_are_reported(person: Person) -> None:
    events = [InputEvent(0, "key", 1, down=True, keysym=0x61)]
    usage = said(person, "done", given=task(events=lambda: events)).usage
    assert usage["keys"] == 1
    assert usage["clicks"] == 0
    assert 0 <= usage["seconds"] < LONG


# --- the viewer -------------------------------------------------------------------------------------------------------


def test_a_viewer_is_opened_with_the_password_and_closed(
    person: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "viewer"
    script.write_text(
        f'#!/bin/sh\necho "$@ $VNC_PASSWORD" > {tmp_path}/seen.new; mv {tmp_path}/seen.new {tmp_path}/seen; exec sleep 987\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("LEGACYPROOF_VIEWER", f"{script} --at {{host}} {{port}}")
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*args, **options))
        deadline = time.monotonic() + LONG
        while not (tmp_path / "seen").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        return started[-1]

    monkeypatch.setattr(human.subprocess, "Popen", start)  # type: ignore[attr-defined]
    person.types("done")
    assert HumanAgent(terminal=person.terminal, opens=True).run(task()).status == "success"
    assert (tmp_path / "seen").read_text() == "--at 127.0.0.1 45678 abcd1234\n"
    assert started[0].poll() is not None


def test_a_viewer_that_cannot_be_opened_is_told_and_no_hindrance(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEGACYPROOF_VIEWER", "no-such-viewer")
    person.types("done")
    assert HumanAgent(terminal=person.terminal, opens=True).run(task()).status == "success"
    assert "The viewer cannot be opened: there is no program 'no-such-viewer'" in person.reads()


def test_where_no_place_is_marked_the_address_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_VIEWER", "env A=1")
    assert viewer_command(DisplayAddress("10.0.0.5", 5999)) == ["env", "A=1", "10.0.0.5::5999"]
    monkeypatch.setenv("LEGACYPROOF_VIEWER", "env 'A")
    with pytest.raises(AgentSpecError, match="no command line"):
        viewer_command()


# --- which ------------------------------------------------------------------------------------------------------------


def test_without_a_terminal_it_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from runner.agents.base import plan; plan('human')"], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert "AgentSpecError: the human agent asks at the terminal, and standard input is none" in done.stderr


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(human, "_has_terminal", lambda: True)
    monkeypatch.setenv("LEGACYPROOF_VIEWER", "env")
    for argument in ("", "open", "secrets", "open,secrets"):
        planned = plan(f"human:{argument}" if argument else "human")[0]
        assert (planned.agent.name, getattr(planned.agent, "interactive", False)) == ("human", True)
    with pytest.raises(AgentSpecError, match="open and secrets; not fast"):
        plan("human:fast")
    monkeypatch.setenv("LEGACYPROOF_VIEWER", "no-such-viewer")
    with pytest.raises(AgentSpecError, match="no-such-viewer"):
        plan("human:open")


def test_the_doctor_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_VIEWER", "no-such-viewer")
    monkeypatch.setattr(human, "_has_terminal", lambda: False)
    assert [(finding.name, finding.ok) for finding in human.doctor("open")] == [
        ("agent: terminal", False),
        ("agent: viewer", False),
    ]
    assert [finding.ok for finding in human.doctor("")] == [False, None]
    assert all(finding.remedy for finding in human.doctor("open"))
    monkeypatch.setattr(human, "_has_terminal", lambda: True)
    monkeypatch.setenv("LEGACYPROOF_VIEWER", "env")
    assert [finding.ok for finding in human.doctor("open")] == [True, True]
    assert [finding.ok for finding in human.doctor("fast")] == [False]
    messages = [finding.message for finding in human.doctor("open,secrets")]
    assert messages == ["standard input is a terminal", "env 127.0.0.1::5900"]
