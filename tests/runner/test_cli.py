"""The command line: mistakes are told in words with their place, and the exit status says what came out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contracts.json_schema import json_schema
from contracts.load import load_text
from runner import campaign as campaigns
from runner import cli
from runner.agents.base import PlannedAgent
from runner.agents.noop import NoopAgent
from runner.campaign import run_all
from runner.commands import run
from runner.machines.base import MachineError
from runner.plan import RunPlan
from runner.record import AgentRef, ContractRef, RunRecord, VerdictPart
from runner.store import Campaign
from tests.command_line import Call
from tests.contracts.helpers import EXAMPLE, edited

ID = "dswin.add-new-patient"
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SCRIPT = """\
schema: 1
contract: {contract}
title: A demo
intended: {{outcome: valid_success}}
steps:
  - report: success
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing outside the test's own folder is read or written."""
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LEGACYPROOF_IMAGES", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "contract.yaml"
    path.write_text(EXAMPLE, encoding="utf-8")
    return path


def refused(call: Call, *arguments: object) -> str:
    """What a mistake is answered with, on standard error and with status 2, and nothing is made."""
    status, out, err = call("run", *arguments)
    assert (status, out) == (2, "")
    assert err.strip()
    assert "Traceback" not in err
    assert not list(Path("runs").glob("*"))
    return err


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_a_contract_that_is_not_there(call: Call) -> None:
    assert "there is no contract at none.yaml" in refused(call, "none.yaml", "--agent", "noop")


def test_a_folder_without_contracts(call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no contracts" in refused(call, "empty", "--agent", "noop")


def test_an_invalid_contract_is_told_with_its_places(call: Call, tmp_path: Path) -> None:
    text = edited(("title:", "titel:"), ("key: [PATNR]", "key: PATNR"))
    (tmp_path / "bad.yaml").write_text(text)
    err = refused(call, "bad.yaml", "--agent", "noop")
    assert "bad.yaml:3:1: " in err
    line = next(number for number, content in enumerate(text.splitlines(), 1) if "key: PATNR" in content)
    assert f"bad.yaml:{line}:" in err


def test_every_invalid_contract_of_a_folder_is_told(call: Call, tmp_path: Path) -> None:
    (tmp_path / "c" / "sub").mkdir(parents=True)
    (tmp_path / "c" / "a.yaml").write_text("schema: 2")
    (tmp_path / "c" / "sub" / "b.yaml").write_text("a: [")
    err = refused(call, "c", "--agent", "noop")
    assert "a.yaml:1:" in err
    assert "b.yaml:1:" in err


@pytest.mark.parametrize("line", [100, 1234])
def test_places_are_told_in_digits_whatever_the_line(call: Call, tmp_path: Path, line: int) -> None:
    (tmp_path / "bad.yaml").write_text("\n" * (line - 1) + "schema: 2\n")
    assert f"bad.yaml:{line}:" in refused(call, "bad.yaml", "--agent", "noop")


def test_markup_in_names_is_told_as_it_is(call: Call, tmp_path: Path) -> None:
    assert "[bold]x[/bold]:smile:.yaml" in refused(call, "[bold]x[/bold]:smile:.yaml", "--agent", "noop")


def test_a_contract_that_is_no_text(call: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_bytes(b"\xff\x00\xfe")
    assert "bad.yaml:" in refused(call, "bad.yaml", "--agent", "noop")


def test_two_contracts_with_one_id(call: Call, tmp_path: Path, contract: Path) -> None:
    (tmp_path / "copy.yaml").write_text(EXAMPLE)
    err = refused(call, contract, "copy.yaml", "--agent", "noop")
    assert "copy.yaml" in err
    assert f"have the same id '{ID}'" in err


def test_an_unknown_agent(call: Call, contract: Path) -> None:
    assert "unknown agent 'nop'; known: command, computer-use, human, legacy-use, noop, scripted" in refused(
        call, contract, "--agent", "nop"
    )


def test_an_agent_that_is_not_given(call: Call, contract: Path) -> None:
    assert "--agent" in refused(call, contract)


def test_an_invalid_script_is_told_with_its_place(call: Call, tmp_path: Path, contract: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCRIPT.format(contract=ID).replace("success\n", "sucess\n"))
    assert "s.yaml:6:" in refused(call, contract, "--agent", "scripted:s.yaml")


def test_a_script_for_another_contract(call: Call, tmp_path: Path, contract: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCRIPT.format(contract="dswin.other"))
    err = refused(call, contract, "--agent", "scripted:s.yaml")
    assert "--agent scripted:s.yaml is for dswin.other; the contracts are dswin.add-new-patient" in err


def test_a_script_for_another_contract_is_not_dropped_because_another_agent_fits(
    call: Call, tmp_path: Path, contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "run_all", lambda *_args, **_named: [])
    (tmp_path / "s.yaml").write_text(SCRIPT.format(contract="dswin.other"))
    _, _, err = call("run", contract, "--agent", "scripted:s.yaml", "--agent", "noop")
    assert "dswin.other" in err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("last_name", "write name=value"),
        ("=x", "write name=value"),
        ("", "write name=value"),
        ("lastname=x", "lastname"),
        ("last_name=" + "x" * 30_000, "does not fit"),
    ],
)
def test_a_parameter_that_is_wrong(call: Call, contract: Path, given: str, words: str) -> None:
    assert words in refused(call, contract, "--agent", "noop", "--param", given)


def test_a_prompt_condition_that_there_is_not(call: Call, contract: Path) -> None:
    err = refused(call, contract, "--agent", "noop", "--prompt", "novice")
    assert "'novice'; it can be expert or instruction" in err


@pytest.mark.parametrize("name", ["../up", "..", "/tmp/x", "a b", ".x", "a/b"])
def test_a_campaign_name_that_climbs(call: Call, contract: Path, name: str, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    assert "campaign's name" in refused(call, contract, "--agent", "noop", "--name", name)
    assert set(tmp_path.rglob("*")) == before


def test_a_folder_for_campaigns_that_cannot_be_written(call: Call, contract: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(call, contract, "--agent", "noop", "--runs", "file")


def test_an_image_that_there_is_not(call: Call, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(edited(("image: dentadesk", "image: nodesk")))
    assert "there is no image 'nodesk'" in refused(call, "c.yaml", "--agent", "noop")


@pytest.mark.parametrize("option", [("--trials", "0"), ("--parallel", "-1"), ("--reruns", "99"), ("--trials", "many")])
def test_numbers_out_of_bounds(call: Call, contract: Path, option: tuple[str, str]) -> None:
    assert option[0] in refused(call, contract, "--agent", "noop", *option)


def test_an_unknown_option_or_command(call: Call, contract: Path) -> None:
    refused(call, contract, "--agent", "noop", "--no-such-option")
    assert call("no-such-command")[0] == 2


def test_a_mistake_of_ours_is_not_told_as_one_of_the_user(contract: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object, **_named: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(run, "run_all", broken)
    monkeypatch.setattr(sys, "argv", ["legacyproof", "run", str(contract), "--agent", "noop"])
    with pytest.raises(KeyError):
        cli.main()


# --- what is planned --------------------------------------------------------------------------------------------------


def record(plan: RunPlan, number: int, verdict: VerdictPart, **about: Any) -> RunRecord:
    contract = plan.contract.contract
    return RunRecord(
        run=f"run-{number}", campaign="demo", trial=plan.trial,
        contract=ContractRef(
            id=contract.id, title=contract.title, sha256=plan.contract.sha256, source="1" * 64, parameters={},
            state_changing=True, application="a", domain="d", instruction=contract.instruction, goal="done",
        ),
        agent=AgentRef(
            spec=plan.agent.spec, name=plan.agent.agent.name, prompt=plan.condition, prompt_text="2" * 64
        ),
        image=contract.image, provider="wine", started=NOW, ended=NOW + timedelta(seconds=3), verdict=verdict,
        intended=plan.agent.intended, **about,
    )  # fmt: skip


def verdict(outcome: Any, kind: str | None = None, cause: str | None = None) -> VerdictPart:
    return VerdictPart(outcome=outcome, kind=kind, cause=cause, reason="So it is [bold]said[/].")


VS, VF, IS = verdict("valid_success"), verdict("valid_failure", "gave_up"), verdict("invalid_success", "phantom")
UNSCORED = verdict("unscored", cause="machine")


class Runs:
    """Stands in for the runs: gives the outcomes that it is told, in turn, and notes what was planned."""

    def __init__(self, *outcomes: VerdictPart) -> None:
        self.outcomes = outcomes
        self.plans: list[RunPlan] = []
        self.options: dict[str, Any] = {}
        self.during: Callable[[], None] = lambda: None

    def __call__(
        self, plans: Sequence[RunPlan], campaign: Campaign, _provider: object, **options: Any
    ) -> list[RunRecord]:
        self.plans, self.options = list(plans), options
        records = []
        for number, (plan, outcome) in enumerate(zip(plans, self.outcomes, strict=False)):
            options["progress"](plan, "agent")
            self.during()
            one = record(plan, number, outcome)
            evidence = campaign.keep(b"text")
            contract = one.contract.model_copy(update={"source": evidence})
            agent = one.agent.model_copy(update={"prompt_text": evidence})
            one = one.model_copy(update={"contract": contract, "agent": agent})
            campaign.finish(one, campaign.begin(one.run))
            options["finished"](plan, one)
            records.append(one)
        return records


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Runs]:
    def install(*outcomes: VerdictPart) -> Runs:
        fake = Runs(*outcomes)
        monkeypatch.setattr(run, "run_all", fake)
        return fake

    return install


def test_every_agent_is_run_on_every_contract_so_often(
    call: Call, runs: Callable[..., Runs], contract: Path, tmp_path: Path
) -> None:
    (tmp_path / "second.yaml").write_text(edited((f"id: {ID}", "id: dswin.second")))
    fake = runs(*[VS] * 8)
    status, _, _ = call(
        "run", contract, "second.yaml", "--agent", "noop", "--agent", "noop:success", "--trials", "2", "--name", "n"
    )
    assert status == 0
    assert [(p.contract.contract.id, p.agent.spec, p.trial, p.condition) for p in fake.plans] == [
        (contract_id, agent, trial, condition)
        for contract_id, condition in ((ID, "expert"), ("dswin.second", "instruction"))
        for agent in ("noop:failed", "noop:success")
        for trial in (1, 2)
    ]


def test_a_script_is_run_on_its_own_contract_only(
    call: Call, runs: Callable[..., Runs], contract: Path, tmp_path: Path
) -> None:
    (tmp_path / "second.yaml").write_text(edited((f"id: {ID}", "id: dswin.second")))
    for number, name in enumerate((ID, "dswin.second", "dswin.third")):
        (tmp_path / "scripts").mkdir(exist_ok=True)
        (tmp_path / "scripts" / f"{number}.yaml").write_text(SCRIPT.format(contract=name))
    fake = runs(VS, VS)
    call("run", contract, "second.yaml", "--agent", "scripted:scripts", "--prompt", "instruction")
    assert [(plan.contract.contract.id, Path(plan.agent.spec).name) for plan in fake.plans] == [
        (ID, "0.yaml"), ("dswin.second", "1.yaml"),
    ]  # fmt: skip
    assert {plan.condition for plan in fake.plans} == {"instruction"}


def test_parameters_are_overridden(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    fake = runs(VS)
    call("run", contract, "--agent", "noop", "--param", "last_name=A=B", "--param", "first_name=")
    values = fake.plans[0].contract.contract.parameter_values
    assert (values["last_name"], values["first_name"]) == ("A=B", "")


def test_how_many_machines_and_reruns(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    fake = runs(VS)
    call("run", contract, "--agent", "noop", "--parallel", "5", "--reruns", "3", "--name", "one")
    assert (fake.options["parallel"], fake.options["reruns"]) == (1, 3), "never more machines than runs"
    call("run", contract, "--agent", "noop", "--trials", "50", "--name", "many")
    assert 1 <= fake.options["parallel"] <= 8


# --- what comes out ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([VS, VS], 0), ([VS, VF], 1), ([IS, IS], 1), ([VS, UNSCORED], 1), ([UNSCORED, UNSCORED], 3), ([VS], 1), ([], 3),
        ([UNSCORED, IS], 1),
    ],
)  # fmt: skip
def test_the_exit_status_of_two_runs(
    call: Call, runs: Callable[..., Runs], contract: Path, outcomes: list[VerdictPart], status: int
) -> None:
    runs(*outcomes)
    assert call("run", contract, "--agent", "noop", "--trials", "2")[0] == status


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [([VS, VS], 0), ([VS, VF], 1), ([VS, UNSCORED], 1), ([UNSCORED, UNSCORED], 1), ([], 1)],
)
def test_the_exit_status_of_two_runs_as_intended(
    call: Call, runs: Callable[..., Runs], contract: Path, tmp_path: Path, outcomes: list[VerdictPart], status: int
) -> None:
    (tmp_path / "s.yaml").write_text(SCRIPT.format(contract=ID))
    runs(*outcomes)
    arguments = ("run", contract, "--agent", "scripted:s.yaml", "--trials", "2", "--as-intended")
    assert call(*arguments)[0] == status


def test_runs_that_were_never_made_are_not_as_intended(
    call: Call, runs: Callable[..., Runs], contract: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(SCRIPT.format(contract=ID))
    runs(VS)
    arguments = ("run", contract, "--agent", "scripted:s.yaml", "--trials", "2", "--as-intended")
    assert call(*arguments)[0] != 0


def test_runs_that_are_not_as_intended_are_named(
    call: Call, runs: Callable[..., Runs], contract: Path, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(SCRIPT.format(contract=ID))
    runs(VS, IS)
    _, _, err = call("run", contract, "--agent", "scripted:s.yaml", "--trials", "2", "--as-intended")
    assert "run-1: invalid_success phantom, but its script says valid_success" in err
    assert "So it is [bold]said[/]." in err
    assert "1 of 2 runs are what their scripts say they must be" in err


def test_one_json_object_for_each_run_and_nothing_else(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    runs(VS, UNSCORED)
    _, out, _ = call("run", contract, "--agent", "noop", "--trials", "2", "--json", "--name", "demo")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["run"], line["outcome"], line["cause"], line["seconds"]) for line in lines] == [
        ("run-0", "valid_success", None, 3.0), ("run-1", "unscored", "machine", 3.0),
    ]  # fmt: skip
    for line in lines:
        assert RunRecord.model_validate_json(Path(line["record"]).read_text()).run == line["run"]


def test_a_report_is_written_and_named(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    runs(VS)
    _, out, err = call("run", contract, "--agent", "noop", "--name", "demo")
    assert out.strip()
    path = Path(err.split("report: ")[1].strip())
    assert path.is_file()
    assert path.is_relative_to(Path("runs/demo")) or path.is_relative_to(Path("runs/demo").absolute())


def test_the_place_of_the_report_is_told_as_it_is(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    runs(VS)
    _, _, err = call("run", contract, "--agent", "noop", "--name", "demo", "--runs", "[x] :100: [red]runs")
    assert "[x] :100: [red]runs" in err


def test_machine_faults_are_told_with_status_3(call: Call, contract: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise MachineError("unknown machine provider [x]")

    monkeypatch.setattr(run, "provider", broken)
    status, _, err = call("run", contract, "--agent", "noop")
    assert status == 3
    assert "unknown machine provider [x]" in err
    assert "Traceback" not in err


def test_a_run_without_a_record_costs_no_report_and_tells_no_secret(
    call: Call, contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "Wei\u00dfdorn-4711"
    contract.write_text(
        edited(('insurance_number: "1234567890"', f"insurance_number: {{value: {secret}, secret: true}}")), "utf-8"
    )

    def breaks(plan: RunPlan, _campaign: Campaign, _provider: object, **_named: object) -> Any:
        raise LookupError(f"trial {plan.trial}: the record of {secret} is lost")

    monkeypatch.setattr(campaigns, "run_once", breaks)
    status, _, err = call("run", contract, "--agent", "noop:failed", "--trials", 2, "--name", "c")
    assert status == 3, "no run was scored"
    assert err.count("the runner failed, and there is no record of this run") == 2
    assert "LookupError: trial 2" in err
    assert secret not in err
    assert Path("runs/c/report/index.html").exists()


def test_ctrl_c_asks_the_runs_to_stop(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    fake = runs(VS)
    fake.during = lambda: os.kill(os.getpid(), signal.SIGINT)
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    status, _, err = call("run", contract, "--agent", "noop", "--trials", "2")
    assert fake.options["cancelled"].is_set()
    assert "stopping (SIGINT)" in err
    assert status == 1
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


# --- reports, schema, machines ----------------------------------------------------------------------------------------


def test_a_report_can_be_written_again(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    runs(VS)
    call("run", contract, "--agent", "noop", "--name", "demo")
    status, out, _ = call("report", "runs/demo")
    assert status == 0
    assert Path("".join(out.split("report: ")[1].split())).is_file()


def test_a_report_of_nothing(call: Call, tmp_path: Path) -> None:
    status, out, err = call("report", "runs/none")
    assert (status, out) == (2, "")
    assert "runs/none is no campaign's folder" in err


def test_a_folder_that_is_no_campaign_is_not_written_into(call: Call, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    assert call("report", "photos")[0] == 2
    assert list((tmp_path / "photos").iterdir()) == []


def test_a_report_of_a_damaged_record(call: Call, runs: Callable[..., Runs], contract: Path) -> None:
    runs(VS)
    call("run", contract, "--agent", "noop", "--name", "demo")
    Path("runs/demo/run-0/record.json").write_text("{")
    status, _, err = call("report", "runs/demo")
    assert status == 2
    assert "record.json cannot be read" in err
    assert "Traceback" not in err


def test_the_schema_is_json(call: Call) -> None:
    status, out, err = call("schema")
    assert (status, err) == (0, "")
    assert json.loads(out) == json_schema()


def test_no_machines(call: Call, tmp_path: Path) -> None:
    status, out, _ = call("machines", "list")
    assert (status, out.strip()) == (0, "nothing is there")
    assert call("machines", "reap")[0] == 0
    assert not (tmp_path / "home").exists(), "looking makes nothing"


def test_what_a_dead_runner_left_is_listed_and_removed(call: Call, tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path / "runs", "demo")
    unfinished = campaign.begin("cut-short")
    notes = tmp_path / "home" / "campaigns"
    notes.mkdir(parents=True)
    (notes / "dead.json").write_text(json.dumps({"campaign": str(campaign.folder), "runner": 4_000_000}))
    status, out, _ = call("machines", "list")
    assert status == 0
    assert "demo" in out
    assert "left behind" in out
    with campaign.held():
        status, out, _ = call("machines", "reap")
        assert "left alone" in out
    assert call("machines", "reap")[0] == 0
    assert not unfinished.exists()


def test_the_command_as_it_is_installed(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("legacyproof")
    (tmp_path / "bad.yaml").write_text("schema: 2\n")
    done = subprocess.run(
        [command, "run", "bad.yaml", "--agent", "noop"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "bad.yaml:1:" in done.stderr
    assert "Traceback" not in done.stderr


# --- many runs --------------------------------------------------------------------------------------------------------


class Plans:
    """Runs made of a function that says how each attempt ends."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.campaign = Campaign.create(tmp_path / "runs", "demo")
        self.cancelled = threading.Event()
        self.told: list[tuple[int, int, bool]] = []
        self.left_out: list[tuple[int, str]] = []
        self.broken: list[tuple[int, str]] = []
        self.lasting = False
        self.most = self.now = self.made = 0
        self.outcome: Callable[[RunPlan], VerdictPart] = lambda _plan: VS
        self.during: Callable[[RunPlan], None] = lambda _plan: None
        self.example = EXAMPLE
        self._lock = threading.Lock()
        self._thread = threading.local()
        monkeypatch.setattr(campaigns, "run_once", self._run_once)

    def _run_once(
        self, plan: RunPlan, campaign: Campaign, _provider: object, *, left_alone: Callable[[], None], **_named: object
    ) -> RunRecord:
        self._thread.left_alone = left_alone
        with self._lock:
            self.now += 1
            self.made += 1
            number = self.made
            self.most = max(self.most, self.now)
        self.during(plan)
        one = record(plan, number, self.outcome(plan), attempt=plan.attempt).model_copy(
            update={"lasting": self.lasting}
        )
        campaign.finish(one, campaign.begin(one.run))
        with self._lock:
            self.now -= 1
        return one

    def left_alone(self) -> None:
        """What a run says when its agent has been cut off; to be called by :attr:`during`."""
        self._thread.left_alone()

    def rest(self, _plan: RunPlan) -> None:
        """A run whose machine is left alone at once and then waited for."""
        self.left_alone()
        time.sleep(0.02)

    def make(self, count: int, *, parallel: int = 1, reruns: int = 0) -> list[RunRecord]:
        loaded = load_text(self.example, name="c")
        agent = PlannedAgent("noop", NoopAgent("failed"))
        return run_all(
            [RunPlan(loaded, agent, "expert", trial) for trial in range(1, count + 1)], self.campaign,
            lambda _image: None,  # type: ignore[arg-type,return-value]
            parallel=parallel, reruns=reruns, cancelled=self.cancelled, progress=lambda _plan, _phase: None,
            finished=lambda plan, one: self.told.append((plan.trial, one.attempt, one.superseded)),
            left_out=lambda plan, why: self.left_out.append((plan.trial, why)),
            broken=lambda plan, error: self.broken.append((plan.trial, str(error))),
        )  # fmt: skip

    def stored(self) -> list[tuple[int, int, bool]]:
        return sorted((one.trial, one.attempt, one.superseded) for one in self.campaign.records())


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plans:
    return Plans(tmp_path, monkeypatch)


def test_records_come_in_the_order_of_the_plans(plans: Plans) -> None:
    barrier = threading.Barrier(4)
    plans.during = lambda _plan: (barrier.wait(60), None)[1]
    assert [one.trial for one in plans.make(4, parallel=4)] == [1, 2, 3, 4]
    assert plans.most == 4


def test_no_more_machines_work_at_a_time_than_asked_for(plans: Plans) -> None:
    plans.make(12, parallel=3)
    assert plans.most <= 3


def test_the_next_run_begins_while_a_machine_is_only_waited_for(plans: Plans) -> None:
    """The first run does not end before the second has begun, although only one machine may work."""
    second = threading.Event()

    def during(plan: RunPlan) -> None:
        if plan.trial == 1:
            plans.left_alone()
            assert second.wait(60)
        else:
            second.set()

    plans.during = during
    assert [one.trial for one in plans.make(2, parallel=1)] == [1, 2]


def test_machines_that_are_waited_for_are_bounded_too(plans: Plans) -> None:
    plans.during = plans.rest
    plans.make(20, parallel=2)
    assert plans.most <= 4


def test_runs_that_look_at_the_same_source_come_one_after_the_other(plans: Plans) -> None:
    """A database server outside of the machines is the same for all: each would find the others' rows."""
    plans.during = plans.rest
    plans.example = EXAMPLE.replace("screen:", "invoices: {sql: practice, table: invoices}\n  screen:", 1)
    assert "sql: practice" in plans.example
    plans.make(6, parallel=3)
    assert plans.most == 1


def test_reruns_of_runs_on_one_source_do_not_wait_for_each_other_for_ever(plans: Plans) -> None:
    plans.example = EXAMPLE.replace("screen:", "invoices: {sql: practice, table: invoices}\n  screen:", 1)
    plans.outcome = lambda plan: VS if plan.attempt == 3 else UNSCORED
    assert len(plans.make(6, parallel=2, reruns=2)) == 6


@pytest.mark.parametrize("cause", ["machine", "agent_infrastructure"])
def test_faults_of_the_house_are_made_again_and_stay_on_record(plans: Plans, cause: str) -> None:
    plans.outcome = lambda plan: VS if plan.attempt == 2 else verdict("unscored", cause=cause)
    (one,) = plans.make(1, reruns=3)
    assert (one.attempt, one.verdict.outcome, one.superseded) == (2, "valid_success", False)
    assert plans.stored() == sorted(plans.told) == [(1, 1, True), (1, 2, False)]


def test_reruns_are_bounded(plans: Plans) -> None:
    plans.outcome = lambda _plan: UNSCORED
    (one,) = plans.make(1, reruns=2)
    assert (one.attempt, one.superseded) == (3, False)
    assert plans.stored() == [(1, 1, True), (1, 2, True), (1, 3, False)]


@pytest.mark.parametrize("cause", ["unreadable", "precondition", "contract", "cancelled", None])
def test_nothing_else_is_made_again(plans: Plans, cause: str | None) -> None:
    plans.outcome = lambda _plan: IS if cause is None else verdict("unscored", cause=cause)
    plans.make(1, reruns=3)
    assert plans.stored() == [(1, 1, False)]


def test_what_waiting_does_not_mend_is_not_tried_again_and_ends_the_agents_runs(plans: Plans) -> None:
    plans.outcome = lambda _plan: verdict("unscored", cause="agent_infrastructure")
    plans.lasting = True
    records = plans.make(5, reruns=3)
    assert [(one.trial, one.attempt, one.superseded) for one in records] == [(1, 1, False)]
    assert [trial for trial, _ in plans.left_out] == [2, 3, 4, 5]
    assert all("So it is" in why for _, why in plans.left_out)


def test_an_outage_that_may_pass_ends_no_other_run(plans: Plans) -> None:
    plans.outcome = lambda plan: VS if plan.trial > 1 else verdict("unscored", cause="agent_infrastructure")
    assert [one.trial for one in plans.make(3)] == [1, 2, 3]
    assert plans.left_out == []


def test_cancelling_ends_what_has_not_begun(plans: Plans) -> None:
    plans.during = lambda plan: plans.cancelled.set() if plan.trial == 2 else None
    assert [one.trial for one in plans.make(5)] == [1, 2]


def test_cancelling_between_two_attempts_leaves_a_record_that_counts(plans: Plans) -> None:
    plans.outcome = lambda _plan: UNSCORED
    told = plans.told.append

    class Cancelling(list[tuple[int, int, bool]]):
        def append(self, item: tuple[int, int, bool]) -> None:
            told(item)
            plans.cancelled.set()

    plans.told = Cancelling()
    records = plans.make(1, reruns=3)
    assert [one.superseded for one in records] == [False], "the last attempt is superseded by none"
    assert any(not superseded for _, _, superseded in plans.stored())


def test_a_run_that_breaks_does_not_take_the_others_along(plans: Plans) -> None:
    def breaks(plan: RunPlan) -> None:
        if plan.trial == 1:
            raise OSError("no space left on device")

    plans.during = breaks
    assert [one.trial for one in plans.make(3)] == [2, 3]
    assert [trial for trial, _, _ in plans.stored()] == [2, 3]
    assert plans.broken == [(1, "no space left on device")]
