"""The main job as a newcomer sees it: the whole demo suite through the command line, and its report in a real browser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from runner.machines.base import home
from runner.machines.folders import processes_of
from runner.machines.wine import WineCheckpoint
from runner.store import Campaign
from validators.snapshot import compare

pytestmark = [pytest.mark.machine, pytest.mark.timeout(1200)]
ROOT = Path(__file__).resolve().parents[2]
SUITE = "contracts/catalog/legacyworld/dswin"


def legacyproof(*argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from runner.cli import main; main()", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1100, check=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, checkpoint: WineCheckpoint) -> tuple[Path, list[dict[str, Any]]]:
    """The demo's campaign folder and the lines that it printed."""
    runs = tmp_path_factory.mktemp("runs")
    done = legacyproof(
        "run", SUITE, "--agent", "scripted:recordings/dswin", "--as-intended", "--json", "--runs", str(runs), "--name", "demo"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return runs / "demo", [json.loads(line) for line in done.stdout.splitlines()]


def test_every_script_is_classified_as_intended(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    _, lines = demo
    scripts = list((ROOT / "recordings/dswin").rglob("*.yaml"))
    assert len(lines) == len(scripts) >= 40
    assert all(line["as_intended"] for line in lines)
    assert {line["outcome"] for line in lines} == {
        "valid_success", "invalid_success", "valid_failure", "invalid_failure",
    }  # fmt: skip
    assert Counter(line["outcome"] for line in lines)["valid_success"] == 6


def test_each_line_has_what_a_machine_needs(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    for line in demo[1]:
        assert {"run", "contract", "agent", "prompt", "outcome", "kind", "cause", "record"} <= line.keys()
        assert json.loads(Path(line["record"]).read_text())["run"] == line["run"]


def test_the_papers_case_is_told_field_by_field(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    line = next(line for line in demo[1] if line["agent"].endswith("wrong-number.yaml"))
    assert (line["outcome"], line["kind"]) == ("invalid_success", "wrong_effect")
    misfits = [
        (misfit["field"], misfit["expected"], misfit["found"])
        for missing in json.loads(Path(line["record"]).read_text())["verdict"]["missing"]
        for misfit in missing["misfits"]
    ]
    assert ("VERSNR", "1234567890", "4212505") in misfits


def test_the_golden_run_alone_prints_one_valid_success(tmp_path: Path, checkpoint: WineCheckpoint) -> None:
    done = legacyproof(
        "run", f"{SUITE}/add-new-patient.yaml", "--agent", "scripted:recordings/dswin/add-new-patient/golden.yaml",
        "--json", "--runs", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["outcome"] for line in done.stdout.splitlines()] == ["valid_success"]


def test_how_far_each_run_came_is_told(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    records = list(Campaign(demo[0]).records())
    assert all(record.stages for record in records)
    done = [stage for record in records if record.verdict.outcome == "valid_success" for stage in record.stages]
    assert len(done) >= 15
    assert [stage for stage in done if not stage.seen] == []
    for record in records:
        commit = [stage.seen for stage in record.stages if stage.evidence.startswith("a change of")]
        if record.verdict.outcome == "valid_failure":
            assert commit in ([], [False])


def test_equal_states_are_stored_once(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    records = list(Campaign(demo[0]).records())
    catalogues = {r.before.readings["catalogue"].blobs["dbf"] for r in records if r.before is not None}
    assert len(catalogues) == 1


def test_stored_evidence_alone_gives_the_same_changes(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    from contracts.load import load_text

    campaign = Campaign(demo[0])
    for record in campaign.records():
        assert record.before is not None
        assert record.after is not None
        contract = load_text(campaign.blob(record.contract.source), name="stored").contract
        found = compare(contract.observe, campaign.snapshot(record.before), campaign.snapshot(record.after))
        told = sorted((entry.observable, entry.verb, entry.subject) for entry in record.verdict.ledger)
        assert sorted((c.observable, str(c.verb), c.subject) for one in found for c in one.changes) == told


def test_what_was_typed_can_be_read_in_the_record(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    golden = next(r for r in Campaign(demo[0]).records() if r.run.startswith("dswin.add-new-patient.scripted-golden"))
    typed = "".join(piece.text for piece in golden.recording.typed)
    for text in ("Muster", "Erika", "12.08.1964", "1234567890"):
        assert text in typed
    assert len(golden.recording.frames) >= 3


def test_the_report_opens_from_disk_without_network(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        asked: list[str] = []
        errors: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((demo[0] / "report" / "index.html").as_uri())
        text = page.inner_text("body")
        for letters in ("VS", "VF", "IS", "IF"):
            assert letters in text
        wrong = next(line["run"] for line in demo[1] if line["agent"].endswith("wrong-number.yaml"))
        page.goto((demo[0] / "report" / "runs" / f"{wrong}.html").as_uri())
        text = page.inner_text("body")
        assert "4212505" in text
        assert "1234567890" in text
        browser.close()
    assert not errors
    assert all(url.startswith("file:") for url in asked)


def test_nothing_of_the_machines_is_left(demo: tuple[Path, list[dict[str, Any]]]) -> None:
    assert list((home() / "machines").iterdir()) == []
    assert processes_of(home() / "machines") == []
