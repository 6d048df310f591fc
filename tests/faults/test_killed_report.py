"""A process that is killed while it writes a report, or begins a run: what is left is named with its campaign, and reaped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runner.store import MARK, Campaign
from tests.command_line import Call
from tests.runner.test_store import finish, record

ROOT = Path(__file__).resolve().parents[2]
DYING = """
import os, signal, sys
steps, what, part = int(sys.argv[1]), *sys.argv[2:]
events = {"os.mkdir", "os.rename"}

def step(event, arguments):
    global steps
    if event in events and part in str(arguments[0]) and "campaigns" not in str(arguments[0]):
        if steps == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        steps -= 1

sys.addaudithook(step)
"""
REPORT = DYING + "from runner.cli import main; sys.argv[1:] = ['report', what]; main()\n"
BEGIN = DYING + (
    "from pathlib import Path\nfrom runner.store import Campaign\ncampaign = Campaign(Path(what))\n"
    "with campaign.held():\n    campaign.begin('r2')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
)


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    made = Campaign.create(tmp_path / "runs", "demo")
    one = record()
    contract = one.contract.model_copy(update={"source": made.keep(b"schema: 1\n")})
    agent = one.agent.model_copy(update={"prompt_text": made.keep(b"do")})
    finish(made, one.model_copy(update={"contract": contract, "agent": agent}))
    return made


def killed(program: str, steps: int, campaign: Campaign, part: str) -> list[str]:
    """The hidden names in the campaign's folder after the program was killed before its n-th step."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(steps), str(campaign.folder), part],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    return [name for name in os.listdir(campaign.folder) if name.startswith(".")]


def is_named_and_reaped(campaign: Campaign, call: Call) -> None:
    assert campaign.name in call("machines", "list")[1]
    assert "left behind" in call("machines", "list")[1]
    assert call("machines", "reap")[0] == 0
    assert [name for name in os.listdir(campaign.folder) if name.startswith(".")] == []
    assert "nothing is there" in call("machines", "list")[1]
    assert [one.run for one in campaign.records()] == ["r1"]


@pytest.mark.parametrize("steps", range(1, 5))
def test_a_report_that_is_half_written(campaign: Campaign, call: Call, steps: int) -> None:
    left = killed(REPORT, steps, campaign, ".report.")
    assert left
    assert all(name.startswith(".report.") for name in left)
    is_named_and_reaped(campaign, call)
    assert call("report", str(campaign.folder))[0] == 0
    assert (campaign.folder / "report" / "index.html").is_file()


@pytest.mark.parametrize("steps", [1, 100], ids=["before it has its name", "right after"])
def test_a_run_that_has_only_begun(campaign: Campaign, call: Call, steps: int) -> None:
    (left,) = killed(BEGIN, steps, campaign, ".begun")
    assert {path.name for path in (campaign.folder / left).iterdir()} == {MARK, "room"}
    is_named_and_reaped(campaign, call)


def test_what_has_another_name_or_more_in_it_is_left_alone(campaign: Campaign, call: Call) -> None:
    for name, file in ((".0123456789ab.begun", "mine"), (".mine.begun", MARK)):
        (campaign.folder / name).mkdir()
        (campaign.folder / name / file).touch()
    killed(BEGIN, 100, campaign, ".begun")
    assert call("machines", "reap")[0] == 0
    assert sorted(name for name in os.listdir(campaign.folder) if name.startswith(".")) == [
        ".0123456789ab.begun",
        ".mine.begun",
    ]
