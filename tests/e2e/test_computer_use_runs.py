"""Each of the six DSWin contracts is done on the real program by each provider's stand-in, through the vendor's real SDK.

The stand-ins' scripted models are told where things are by the guest (see ``tests/peers/model_servers/golden.py``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from contracts.load import load_contract
from runner.agents.base import AgentReport, AgentTask, PlannedAgent
from runner.agents.computer_use import ComputerUseAgent
from runner.lifecycle import Learnt, run_once
from runner.machines.wine import WineCheckpoint, WineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.store import Campaign
from tests.peers.model_servers.base import KEY, Expected, ModelServer
from tests.peers.model_servers.golden import GoldenModel
from tests.runner.computer_use_helpers import KEY_VARIABLE, MODELS, PRICES, PROVIDERS, SERVERS, settings_for
from tests.secret_search import leaks_below

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / "contracts/catalog/legacyworld/dswin"
TASKS = sorted(path.parent.name for path in (ROOT / "recordings/dswin").glob("*/golden.yaml"))


class Sighted:
    """The agent, with the side channel of its stand-in opened: only the task knows how to list the machine's windows."""

    def __init__(self, agent: ComputerUseAgent, open_eyes: Callable[[AgentTask], None]) -> None:
        self.name = agent.name
        self.agent = agent
        self.open_eyes = open_eyes

    def run(self, task: AgentTask) -> AgentReport:
        self.open_eyes(task)
        return self.agent.run(task)


@dataclass(frozen=True)
class Made:
    """One run."""

    record: RunRecord
    server: ModelServer


def run_on_machine(provider: str, task: str, campaign: Campaign, learnt: Learnt) -> Made:
    loaded = load_contract(CONTRACTS / f"{task}.yaml")
    contract = loaded.contract
    script = ROOT / f"recordings/dswin/{task}/golden.yaml"
    expected = Expected(MODELS[provider], returns=contract.returns.schema_ if contract.returns else None)
    with SERVERS[provider](lambda _: [], expected) as server:

        def open_eyes(given: AgentTask) -> None:
            # Gemini's model does one thing per reply, the others several where nothing has to be looked at in between.
            batch = 1 if provider == "gemini" else 4
            server.model = GoldenModel(script, contract.parameter_values, given.windows, batch=batch)

        settings = settings_for(provider, server, settle="300ms", quiet="30ms")
        agent = Sighted(ComputerUseAgent(settings, PRICES), open_eyes)
        record = run_once(
            RunPlan(loaded, PlannedAgent(f"computer-use:{provider}/x", agent), "expert"),
            campaign,
            WineProvider(),
            learnt=learnt,
            cancelled=threading.Event(),
            progress=lambda _: None,
        )
        return Made(record, server)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign.create(tmp_path_factory.mktemp("runs"), "computer-use")


@pytest.fixture(scope="module")
def runs(campaign: Campaign, checkpoint: WineCheckpoint) -> Mapping[tuple[str, str], Made]:
    """All runs, two machines at a time; the key stands in the environment only meanwhile."""
    learnt = Learnt()
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setenv(KEY_VARIABLE, KEY)
        waiting = {
            (task, provider): pool.submit(run_on_machine, provider, task, campaign, learnt)
            for task in TASKS
            for provider in PROVIDERS
        }
        return {which: future.result() for which, future in waiting.items()}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("task", TASKS)
def test_the_contract_is_done_by_the_providers_stand_in(
    task: str, provider: str, runs: Mapping[tuple[str, str], Made]
) -> None:
    record, server = runs[task, provider].record, runs[task, provider].server
    assert server.complaints == []
    assert (record.verdict.outcome, record.verdict.cause) == ("valid_success", None), record.agent.message
    usage = record.agent.usage
    assert usage["turns"] == server.requests >= 3
    assert usage["audit_executed"] == usage["audit_actions"] >= 2
    assert all(usage[f"audit_{name}"] == 0 for name in ("malformed", "out_of_bounds", "refused", "skipped", "loops"))
    assert usage["cost_usd"] > 0
    assert usage["tokens_in"] == 320 * usage["turns"]


def test_all_were_done(runs: Mapping[tuple[str, str], Made]) -> None:
    assert len(runs) == len({made.record.run for made in runs.values()}) == 24


def test_the_key_is_nowhere_in_the_campaigns_folder(campaign: Campaign, runs: Mapping[tuple[str, str], Made]) -> None:
    files = [path for path in campaign.folder.rglob("*") if path.is_file()]
    assert len(files) > 50
    assert leaks_below(campaign.folder, {"key": KEY}) == []


def test_no_picture_or_request_stands_in_a_record_as_text(runs: Mapping[tuple[str, str], Made]) -> None:
    for made in runs.values():
        text = made.record.model_dump_json()
        assert "iVBORw0KGgo" not in text
        assert "data:image" not in text
