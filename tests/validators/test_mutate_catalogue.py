"""The whole catalogue on recorded runs of the real program: no contract of the suite accepts a bad state."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.bundle import export, verify
from runner.machines.wine import WineCheckpoint
from runner.rejudge import rejudge, runs_at

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
SUITE = "contracts/catalog/legacyworld/dswin"


def legacyproof(*argv: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from runner.cli import main; main()", *map(str, argv)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, checkpoint: WineCheckpoint) -> Path:
    """A folder of campaigns: the six good runs, and the misdeeds of one task."""
    runs = tmp_path_factory.mktemp("runs")
    scripts = [
        *ROOT.glob("recordings/dswin/*/golden.yaml"),
        *ROOT.glob("recordings/dswin/add-new-patient/misdeeds/*.yaml"),
    ]
    agents = [part for script in sorted(scripts) for part in ("--agent", f"scripted:{script.relative_to(ROOT)}")]
    done = legacyproof("run", SUITE, *agents, "--as-intended", "--runs", runs, "--name", "recorded")
    assert done.returncode == 0, done.stderr
    return runs


def test_every_contract_of_the_suite_rejects_every_bad_state(recorded: Path) -> None:
    done = legacyproof("mutate", SUITE, "--runs", recorded, "--json")
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(data["contract"], data["survivors"], data["faults"]) for data in found] == [
        (data["contract"], [], []) for data in found
    ]
    assert len(found) == len(list((ROOT / SUITE).glob("*.yaml"))) == 6
    assert all(data["mutants"] == data["rejected"] >= 40 for data in found)
    assert all(data["idle"] == {"success": "IS", "failure": "VF"} for data in found)


def test_stored_evidence_gives_the_same_verdicts(recorded: Path) -> None:
    found = list(rejudge(runs_at(recorded), None))
    assert len(found) >= 12
    assert [
        (again.kept.record.run, again.changes, again.why_not) for again in found if again.changes or again.why_not
    ] == []
    assert all(again.verdict == again.kept.record.verdict for again in found)


def test_a_bundle_of_them_is_whole_elsewhere(recorded: Path, tmp_path: Path) -> None:
    made = export(runs_at(recorded), tmp_path / "bundle.zip")
    assert verify((tmp_path / "bundle.zip").rename(tmp_path / "moved.zip")) == made
    done = legacyproof("rejudge", tmp_path / "moved.zip")
    assert (done.returncode, done.stdout) == (0, "")
