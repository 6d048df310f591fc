"""Whole runs by way of legacy-use: job → flight recorder → Win32 program → verdict, with everything that server can do to them.

The server is a stand-in whose models play this project's scripts; the display, the program and its data are real.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from contracts.load import load_contract, load_text
from runner.agents.base import AgentReport, AgentTask, PlannedAgent
from runner.agents.legacyuse.agent import LegacyUseAgent
from runner.agents.legacyuse.configuration import load
from runner.display.errors import DisplayError
from runner.display.rfb import RfbClient
from runner.lifecycle import Learnt, run_once
from runner.machines.wine import WineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.spellings import BLOT
from runner.store import Campaign
from tests.command_line import Call
from tests.peers.legacy_use_server import CREDITS, INTERRUPTED, KEY, PROVIDER_KEY, LegacyUseServer, Model, Work, plays
from tests.peers.rfb_server import wait_until
from tests.runner.legacy_use_helpers import RESULT, Clock, clock
from tests.secret_search import leaks_below

__all__ = ["clock"]

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]
ROOT = Path(__file__).resolve().parents[2]
CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/add-new-patient.yaml"
SCRIPTS = ROOT / "recordings/dswin/add-new-patient"
GOLDEN = SCRIPTS / "golden.yaml"
SECRET = 'geh"eim\\77'
"""A password that JSON, Python and base64 each spell in another way."""


@pytest.fixture
def server() -> Iterator[LegacyUseServer]:
    with LegacyUseServer(plays(GOLDEN)) as server:
        yield server


@pytest.fixture
def config(server: LegacyUseServer, tmp_path: Path) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(
        f"schema: 1\nurl: {server.url}\nlimits: {{poll: 50ms, outage: 500ms, queue: 1s, health: 30s, stop: 20s}}\n"
    )
    return path


class Lent(LegacyUseAgent):
    """The agent, whose run lends the guest's windows to the stand-in's scripts."""

    server: LegacyUseServer

    def run(self, task: AgentTask) -> AgentReport:
        self.server.windows = task.windows
        return super().run(task)


@pytest.fixture
def made(server: LegacyUseServer, config: Path, tmp_path: Path) -> Callable[..., RunRecord]:
    """Makes one run."""

    def make(model: Model | None = None) -> RunRecord:
        server.model = model or server.model
        text = CONTRACT.read_text().replace("timeout: 900s", "timeout: 120s")
        loaded = replace(load_text(text, name="changed.yaml"), path=load_contract(CONTRACT).path)
        agent = Lent(load(str(config), {"LEGACY_USE_API_KEY": KEY}))
        agent.server = server
        return run_once(
            RunPlan(loaded, PlannedAgent("legacy-use", agent), "expert"), Campaign.create(tmp_path, "runs"), WineProvider(),
            learnt=Learnt(), cancelled=Event(), progress=lambda _: None,
        )  # fmt: skip

    return make


def verdict(record: RunRecord) -> tuple[str, str | None]:
    return record.verdict.outcome, record.verdict.kind or record.verdict.cause


def rows_inserted(record: RunRecord) -> int:
    return sum(entry.observable == "patients" and entry.verb == "inserted" for entry in record.verdict.ledger)


# --- the four outcomes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("misdeeds/insurance-left-out.yaml", ("invalid_success", "partial")),
        ("misdeeds/discarded.yaml", ("valid_failure", "gave_up")),
        ("misdeeds/stopped-at-the-box.yaml", ("invalid_failure", "partial")),
    ],
)
def test_what_the_model_does_decides(made: Callable[..., RunRecord], script: str, expected: tuple[str, str]) -> None:
    record = made(plays(SCRIPTS / script))
    assert verdict(record) == expected
    assert record.recording.keys > 10


def test_a_good_run_on_a_servers_bad_day_is_one_valid_success(
    made: Callable[..., RunRecord], server: LegacyUseServer
) -> None:
    """Slow health, an internal error after the job was made, lost answers: one job, one patient."""
    server.behaviour.health_after = 1.0
    server.fault("POST", "targets/[^/]+/jobs/", "broken_after")
    server.fault("POST", "sessions/", "lost")
    server.fault("GET", "targets/[^/]+/jobs/[^/]+", "broken", 2)
    record = made()
    assert verdict(record) == ("valid_success", None)
    assert rows_inserted(record) == len(server.jobs) == server.count("POST", "targets/[^/]+/jobs/") == 1
    assert record.agent.usage["turns"] > 5


def test_a_done_task_that_the_model_calls_unexpected_is_a_false_failure(made: Callable[..., RunRecord]) -> None:
    def unsure(work: Work) -> None:
        work.mismatch("I cannot tell whether it was saved.")

    record = made(plays(GOLDEN, before_end=unsure))
    assert (record.agent.status, *verdict(record)) == (
        "ui_not_as_expected", "invalid_failure", "unreported_completion",
    )  # fmt: skip


def test_a_result_with_missing_keys_that_legacy_use_accepts_is_no_valid_success(made: Callable[..., RunRecord]) -> None:
    def empty(work: Work) -> None:
        work.extract({})
        raise_end(work)

    record = made(plays(GOLDEN, before_end=empty))
    assert (record.agent.status, *verdict(record)) == ("success", "invalid_success", "wrong_return")
    assert "lacks patient_number" in record.agent.message


def raise_end(work: Work) -> None:
    """Ends the job with what was extracted so far."""
    status, error, _ = work.end()
    work.server.finish(work.job, status, error, {})
    work.fail(status, error)


# --- interrupts -----------------------------------------------------------------------------------------------------------


def test_what_is_done_after_the_interrupt_is_seen_in_the_state(
    made: Callable[..., RunRecord], server: LegacyUseServer, clock: Clock
) -> None:
    """The model opens the form when it has been told to stop; the state is read only when it has really stopped."""
    server.behaviour.interrupt_after = 100.0

    def late(work: Work) -> None:
        clock.end_the_time()
        wait_until(lambda: server.count("POST", ".*/interrupt/"), 60)
        work.screen.press("F2")
        wait_until(lambda: any(window.title == "Neuer Patient" for window in server.windows()))
        server.interrupted(work.job)  # now it takes effect

    record = made(late)
    assert (record.agent.status, *verdict(record)) == ("timeout", "invalid_failure", "collateral")
    assert any(entry.observable == "screen" for entry in record.verdict.ledger)
    assert not record.faults


def test_a_model_that_never_stops_reaches_the_machine_no_more(made: Callable[..., RunRecord], clock: Clock) -> None:
    """It has a connection of its own, which does not end with its session, and knows the display's address and password."""
    cut = Event()

    def deaf(work: Work) -> None:
        with RfbClient.connect(work.address) as viewer:
            clock.end_the_time()
            if not is_cut_off(viewer, within=120):
                return
        try:
            RfbClient.connect(work.address, timeout=2).press("F2")
        except DisplayError:
            cut.set()

    def is_cut_off(viewer: RfbClient, within: float) -> bool:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            try:
                viewer.move(5, 5)
            except DisplayError:
                return True
            time.sleep(0.01)
        return False

    record = made(deaf)
    assert verdict(record) == ("valid_failure", "timeout")
    assert record.recording.pointer > 0
    assert cut.wait(130)
    assert record.recording.keys == 0


# --- what makes a run unscored, each after a change on the machine ------------------------------------------------------------


def opens_the_form(work: Work) -> None:
    work.screen.press("F2")
    wait_until(lambda: any(window.title == "Neuer Patient" for window in work.server.windows()))


def container_lost(work: Work) -> None:
    for session in work.server.sessions.values():
        if session.container is not None:
            session.container.remove()
    work.check()


def provider_out(work: Work) -> None:
    work.refused(529, {"type": "error", "error": {"type": "overloaded_error"}})


def provider_without_key(work: Work) -> None:
    work.server.provider_credentials.clear()
    work.say("anything")


def credits_used_up(work: Work) -> None:
    work.refused(403, {"detail": CREDITS})


def interrupted_by_somebody(work: Work) -> None:
    work.fail("paused", INTERRUPTED)


def server_dies(work: Work) -> None:
    assert isinstance(work.server, LegacyUseServer)
    work.server.die()
    work.job.stopping.wait(10)


@pytest.mark.parametrize(
    "disaster",
    [container_lost, provider_out, provider_without_key, credits_used_up, interrupted_by_somebody, server_dies],
)
def test_a_fault_of_what_the_agent_needs_is_never_its_own(made: Callable[..., RunRecord], disaster: Model) -> None:
    def model(work: Work) -> None:
        opens_the_form(work)
        disaster(work)

    record = made(model)
    assert verdict(record) == ("unscored", "agent_infrastructure")
    assert record.recording.keys == 1
    assert record.after is not None


def test_a_blocked_queue_is_unscored_and_the_machine_untouched(
    made: Callable[..., RunRecord], server: LegacyUseServer
) -> None:
    server.behaviour.workers = 0
    record = made()
    assert verdict(record) == ("unscored", "agent_infrastructure")
    assert "JOB_WORKERS" in record.verdict.reason
    assert record.recording.keys == record.recording.pointer == 0


# --- the command line, and what is kept ----------------------------------------------------------------------------------------


def test_the_command_line_and_no_secret_in_any_file(
    server: LegacyUseServer, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    def wait_for(title: str, *, gone: bool = False) -> None:
        wait_until(lambda: any(window.title == title for window in server.windows()) != gone)

    def run(self: LegacyUseAgent, task: AgentTask, original: Any = LegacyUseAgent.run) -> Any:
        server.windows = task.windows
        return original(self, task)

    def chatty(work: Work) -> None:
        work.screen.press("F2")
        wait_for("Neuer Patient")
        work.screen.type_text(SECRET)
        work.screen.press("Escape")
        wait_for("DSWin")
        work.screen.press("Return")  # discarded again
        wait_for("Neuer Patient", gone=True)
        work.say(
            f"The number is {SECRET}, as JSON {json.dumps(SECRET)}, as Python {SECRET!r}; keys {KEY} {PROVIDER_KEY}"
        )
        work.say("x" * 1990 + SECRET)
        work.say(base64.b64encode(f"user:{SECRET}:{KEY}".encode()).decode())

    def extract(self: Work, result: Any, original: Any = Work.extract) -> None:
        original(self, {**result, "seen": [KEY, PROVIDER_KEY]})

    monkeypatch.setattr(LegacyUseAgent, "run", run)
    monkeypatch.setattr(Work, "extract", extract)
    monkeypatch.setenv("LEGACY_USE_API_KEY", KEY)
    monkeypatch.setenv("REGION", RESULT["patient_number"])  # a setting that happens to be the right answer
    with config.open("a") as file:
        file.write(
            "provider: {name: anthropic, credentials: {api_key: {env: LEGACY_USE_API_KEY}, region: {env: REGION}}}\n"
        )
    server.behaviour.png_text = f"{KEY} {PROVIDER_KEY} {SECRET}"
    server.model = plays(GOLDEN, before_end=chatty)
    contract = tmp_path / "secret.yaml"
    text = CONTRACT.read_text().replace(
        "parameters:\n",
        "parameters:\n  password: {value: 'geh\"eim\\77', secret: true, unchecked: it opens the door}\n",
        1,
    )
    contract.write_text(text.replace("instruction: >\n", "instruction: >\n  The password is {{password}}.\n", 1))
    status, told, complaints = call(
        "run", contract, "--agent", f"legacy-use:{config}", "--prompt", "instruction", "--json", "--runs", tmp_path,
        "--name", "kept",
    )  # fmt: skip
    assert status == 0, complaints
    assert json.loads(told.splitlines()[0])["outcome"] == "valid_success"
    record = next(iter(Campaign(tmp_path / "kept").records()))
    assert record.agent.returned == {"patient_number": BLOT, "seen": [BLOT, BLOT]}, "blotted out once it was judged"
    assert sum(entry.screenshot is not None for entry in record.agent.timeline) == 1
    assert any("The number is •••" in entry.text for entry in record.agent.timeline)
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert len(files) > 10
    assert leaks_below(tmp_path / "kept", {"secret": SECRET, "key": KEY, "provider's key": PROVIDER_KEY}) == []
    (definition,) = server.definitions.values()
    assert SECRET not in json.dumps(definition), "what stays on the server for ever holds no secret"
