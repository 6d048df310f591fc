"""No secret planted in configuration, prompt, environment, contract, messages or pictures is in any file that is kept of a run.

What a program itself stores is evidence: where a secret was saved to the machine's tables, the snapshots of those tables hold it, and
nothing else; a bundle exported with redaction holds it nowhere. What a screen shows in its pixels is not looked for here.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import textwrap
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from contracts.load import LoadedContract, load_contract
from runner.agents.base import AgentInfrastructureError, AgentReport, AgentTask, Happening, PlannedAgent, plan
from runner.bundle import export
from runner.display.rfb import RfbClient
from runner.lifecycle import Learnt, run_once
from runner.machines.wine import WineProvider
from runner.plan import RunPlan
from runner.record import RunRecord
from runner.rejudge import runs_at
from runner.report.html import write_report
from runner.store import Campaign
from tests.faults.helpers import CONTRACT, ROOT, Acting
from tests.secret_search import leaks_below

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("checkpoint")]

NUMBER = "Qz7+Üx/K9w"
"""A secret parameter: typed into a form that is left open, and put into whatever an agent says."""
NAME = "Geheimrätin"
"""Another one: it becomes part of a window's title."""
KEY = 'sk-Env"/+ß-93x'
"""What the command agent gets from the environment."""
SECRETS = {"parameter": NUMBER, "name": NAME, "environment": KEY}


def contract(folder: Path, **secrets: str) -> LoadedContract:
    """The New Patient contract with secret parameters, and a prompt beside it that uses them."""
    text = CONTRACT.read_text(encoding="utf-8").replace("timeout: 900s", "timeout: 60s")
    for old, name in (('insurance_number: "1234567890"', "insurance_number"), ("last_name: Muster", "last_name")):
        assert old in text
        text = text.replace(f"  {old}\n", f"  {name}: {{value: {json.dumps(secrets[name])}, secret: true}}\n")
    (folder / "new.yaml").write_text(text, encoding="utf-8")
    prompts = folder / "prompts" / "expert"
    prompts.mkdir(parents=True, exist_ok=True)
    prompt = (ROOT / "prompts/expert/dswin/add-new-patient.yaml").read_text(encoding="utf-8")
    (prompts / "add-new-patient.yaml").write_text(prompt, encoding="utf-8")
    return load_contract(folder / "new.yaml")


@dataclass
class Ran:
    campaign: Campaign
    record: RunRecord

    def leaks(self, *, but: tuple[str, ...] = ()) -> list[str]:
        """Secrets in the campaign's folder, its report included; ``but``: evidence that may hold them."""
        write_report(self.campaign.records(), self.campaign.blob, self.campaign.folder / "report",
                     title="secrets", generated=datetime.now(UTC))  # fmt: skip
        evidence = [self.campaign.folder / "blobs" / name[:2] / name for name in but]
        return leaks_below(self.campaign.folder, SECRETS, but=evidence)


def run(folder: Path, loaded: LoadedContract, agent: PlannedAgent) -> Ran:
    campaign = Campaign.create(folder, "secrets")
    record = run_once(
        RunPlan(loaded, agent, "expert"), campaign, WineProvider(), learnt=Learnt(), cancelled=threading.Event(),
        progress=lambda _: None,
    )  # fmt: skip
    assert not list(campaign.folder.glob(".*")), "nothing unfinished stays"
    return Ran(campaign, record)


def forms(*secrets: str) -> list[str]:
    """Texts that programs write, with secrets in them."""
    found = []
    for secret in secrets:
        header = base64.b64encode(f"user:{secret}".encode()).decode()
        found += [
            f"logged in with {secret}", json.dumps({"key": secret}), repr(secret), f"https://x/?k={urllib.parse.quote(secret)}&b",
            f"https://x/?k={urllib.parse.quote_plus(secret)}", f"Authorization: Basic {header}", f"{secret.encode().hex()}",
            base64.urlsafe_b64encode(f"?{secret}?".encode()).decode(),
        ]  # fmt: skip
    return found


def picture(text: str) -> bytes:
    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", text)
    about.add_text("Software", text, zip=True)
    buffer = io.BytesIO()
    Image.new("RGB", (64, 48), (1, 2, 3)).save(buffer, "PNG", pnginfo=about)
    return buffer.getvalue()


def type_into_the_form(task: AgentTask) -> None:
    """Leaves the form open, with the secret in a field."""
    with RfbClient.connect(task.display) as screen:
        screen.press("F2")
        threading.Event().wait(1.0)
        screen.type_text(f"{task.parameters['last_name']}\t{task.parameters['insurance_number']}")
        threading.Event().wait(0.5)


def everything(task: AgentTask) -> AgentReport:
    type_into_the_form(task)
    said = forms(NUMBER, NAME)
    return AgentReport(
        "failed",
        returned={"patient_number": said, NUMBER: {"deep": [NAME, *said]}},
        message="; ".join(said),
        usage={f"tokens of {NUMBER}": 3},
        timeline=tuple(Happening(float(number), text, picture(text)) for number, text in enumerate(said)),
    )


def crash(task: AgentTask) -> AgentReport:
    raise ValueError("; ".join(forms(NUMBER, NAME)))


def out(task: AgentTask) -> AgentReport:
    raise AgentInfrastructureError("; ".join(forms(NUMBER, NAME)))


def long_words(task: AgentTask) -> AgentReport:
    """Texts that are cut somewhere: a secret at the very place must not leave its beginning."""
    long = [Happening(0, "x" * (2000 - cut) + NUMBER) for cut in range(1, 10)]
    return AgentReport("failed", message="x" * 19_995 + NUMBER, timeline=tuple(long))


@pytest.mark.parametrize("act", [everything, crash, out], ids=lambda act: str(act.__name__))
def test_what_an_agent_says_and_types(tmp_path: Path, act: Callable[[AgentTask], Any]) -> None:
    loaded = contract(tmp_path, insurance_number=NUMBER, last_name=NAME)
    ran = run(tmp_path / "runs", loaded, PlannedAgent("acting", Acting(act)))
    assert ran.record.agent.prompt == "expert"
    assert ran.record.agent.status == ("failed" if act is everything else "error")
    assert ran.leaks() == []


def test_secrets_that_are_cut_leave_no_beginning(tmp_path: Path) -> None:
    loaded = contract(tmp_path, insurance_number=NUMBER, last_name=NAME)
    record = run(tmp_path / "runs", loaded, PlannedAgent("acting", Acting(long_words))).record
    assert NUMBER[:4] not in record.agent.message
    assert [entry.t for entry in record.agent.timeline if NUMBER[:4] in entry.text] == []


PROGRAM = """
    import base64, json, os, sys, urllib.parse
    task = json.load(sys.stdin)
    key, number = os.environ["PROVIDER_KEY"], task["parameters"]["insurance_number"]
    assert number in task["prompt"]
    said = [key, number, json.dumps([key, number]), repr(key), urllib.parse.quote(key + number),
            base64.b64encode(f"a{key}:{number}".encode()).decode(), (key + number).encode().hex()]
    print(*said, file=sys.stderr)
    open("shot.png", "wb").write(base64.b64decode(%r))
    open("notes.txt", "w").write(json.dumps(task))
    print(json.dumps({"status": "failed", "message": " ".join(said), "returned": {key: said}, "usage": {key: 1},
                      "timeline": [{"t": 0, "text": text, "screenshot": "shot.png"} for text in said]}))
    sys.exit(0)
"""


@pytest.mark.parametrize(
    "ending", ["sys.exit(0)", "os.remove(os.environ['LEGACYPROOF_TASK']); print('}'); raise ValueError(key + number)"]
)
def test_what_a_program_is_given_and_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    loaded = contract(tmp_path, insurance_number=NUMBER, last_name=NAME)
    monkeypatch.setenv("PROVIDER_KEY", KEY)
    source = textwrap.dedent(PROGRAM % base64.b64encode(picture(f"{KEY} {NUMBER}")).decode()).replace(
        "sys.exit(0)", ending
    )
    (tmp_path / "program.py").write_text(source)
    described = tmp_path / "mine.yaml"
    described.write_text(f"schema: 1\nprogram: ['{sys.executable}', program.py]\nenvironment: [PROVIDER_KEY]\n")
    ran = run(tmp_path / "runs", loaded, plan(f"command:{described}")[0])
    assert ran.record.agent.status == ("failed" if ending == "sys.exit(0)" else "error"), ran.record.agent.message
    assert "•••" in ran.record.agent.message
    assert ran.leaks() == []


SCRIPT = """\
schema: 1
contract: dswin.add-new-patient
title: Saves
intended: {outcome: valid_success}
steps:
"""


def test_what_is_saved_on_the_machine(tmp_path: Path) -> None:
    """The golden way with secret values: the tables hold them afterwards, and so does their evidence, but no exported bundle."""
    loaded = contract(tmp_path, insurance_number="87654321QZ", last_name="Verborgen")
    golden = ROOT / "recordings/dswin/add-new-patient/golden.yaml"
    ran = run(tmp_path / "runs", loaded, replace(plan(f"scripted:{golden}")[0], intended=None))
    assert ran.record.verdict.outcome == "valid_success", ran.record.verdict.reason
    secrets = {"number": "87654321QZ", "name": "Verborgen"}
    assert ran.record.after is not None
    evidence = {
        name for reading in ran.record.after.readings.values() if reading.kind in ("dbf", "files")
        for name in reading.blobs.values() if name is not None
    }  # fmt: skip
    listed = [
        blob for reading in ran.record.after.readings.values() if reading.kind == "files"
        for _, blob in json.loads(ran.campaign.blob(str(reading.blobs["items"]))).get("contents", [])
    ]  # fmt: skip
    write_report(
        ran.campaign.records(),
        ran.campaign.blob,
        ran.campaign.folder / "report",
        title="x",
        generated=datetime.now(UTC),
    )
    kept = [ran.campaign.folder / "blobs" / name[:2] / name for name in [*evidence, *listed]]
    assert leaks_below(ran.campaign.folder, secrets, but=kept) == []
    assert leaks_below(ran.campaign.folder, secrets), "the tables' evidence holds them, or this test looks at nothing"
    for target in (tmp_path / "bundle", tmp_path / "bundle.zip"):
        export(runs_at(ran.campaign.folder), target, secrets=list(secrets.values()))
    assert leaks_below(tmp_path / "bundle", secrets) == []
    (tmp_path / "only").mkdir()
    (tmp_path / "bundle.zip").rename(tmp_path / "only" / "bundle.zip")
    assert leaks_below(tmp_path / "only", secrets) == []
