"""Calibrating on the embedded machine: a program that writes by itself is found out, excused by the list, and nothing else is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from contracts.load import read_model
from contracts.noise import NoiseList
from runner.machines.wine import WineCheckpoint

pytestmark = pytest.mark.machine
ROOT = Path(__file__).resolve().parents[2]
CONTRACT = r"""
schema: 1
id: dswin.wait
title: Wait
application: DSWin
domain: dental/healthcare
state_changing: false
image: dentadesk
instruction: Wait a moment and report success.
initial_state:
  summary: The program is open and rewrites a file of its own every second.
  setup:
    - {text: "[Praxis]\r\nName=Zahnarztpraxis\r\n[Noise]\r\nHeartbeat=1\r\n", encoding: cp1252, to: 'C:\DSWIN\DSWIN.INI'}
  start: [dswin]
goal_state: {summary: As before.}
observe:
  program:
    files: 'C:\DSWIN'
    ignore: []
"""
WAITS = "  - pause: 1500ms\n"
CLOSES = "  - pause: 1500ms\n  - press: alt+F4\n  - wait: {window: DSWin - Patientenliste, gone: true}\n"


def legacyproof(*argv: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from runner.cli import main; main()", *map(str, argv)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)


def script(folder: Path, name: str, steps: str) -> Path:
    path = folder / f"{name}.yaml"
    outcome = "{outcome: valid_success}"
    path.write_text(
        f"schema: 1\ncontract: dswin.wait\ntitle: {name}\nintended: {outcome}\nsteps:\n{steps}  - report: success\n"
    )
    return path


def outcome(contract: Path, agent: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    done = legacyproof("run", contract, "--agent", f"scripted:{agent}", "--json", "--runs", contract.parent / "runs")
    line = json.loads(done.stdout)
    return line, json.loads(Path(line["record"]).read_text())["verdict"]


def test_a_measured_heartbeat_is_excused_and_a_misdeed_in_its_folder_is_not(
    tmp_path: Path, checkpoint: WineCheckpoint
) -> None:
    contract = tmp_path / "wait.yaml"
    contract.write_text(CONTRACT)
    waits, closes = script(tmp_path, "waits", WAITS), script(tmp_path, "closes", CLOSES)
    target = tmp_path / "noise" / "dentadesk-2026-11-29.yaml"
    asked = ("calibrate", "dentadesk", contract, "--seconds", 3, "--repetitions", 2, "--write", target)

    line, verdict = outcome(contract, waits)
    assert line["outcome"] == "invalid_success", "without a list the heartbeat is what nothing explains"
    assert [entry["subject"] for entry in verdict["ledger"]] == ["HEARTBEAT.DAT"]

    measured = legacyproof(*asked)
    assert measured.returncode == 0, measured.stderr
    noise = read_model(target, NoiseList)
    assert noise.image_hash == checkpoint.key
    assert len({run.boot for run in noise.runs}) == 2
    assert {(entry.subject, entry.verb, entry.runs) for entry in noise.entries} >= {("HEARTBEAT.DAT", "modified", 2)}
    assert {entry.subject for entry in noise.entries} == {"HEARTBEAT.DAT"}
    assert all(entry.rule is not None and entry.rule.plain == {"path": "\\HEARTBEAT.DAT"} for entry in noise.entries)
    rule = "{path: '\\HEARTBEAT.DAT', noise: dentadesk-2026-11-29}"
    assert f"- {rule}" in measured.stdout

    again = legacyproof(*asked)
    assert again.returncode == 2
    assert "not overwritten" in again.stderr

    contract.write_text(CONTRACT.replace("ignore: []", f"ignore: [{rule}]"))
    line, verdict = outcome(contract, waits)
    assert line["outcome"] == "valid_success", line["reason"]
    assert [(i["rule"], i["because"]) for i in verdict["ignored"]] == [
        ("\\HEARTBEAT.DAT", "noise list dentadesk-2026-11-29")
    ]
    line, verdict = outcome(contract, closes)
    assert line["outcome"] == "invalid_success"
    assert [entry["subject"] for entry in verdict["ledger"]] == ["DSWIN.LCK", "DSWIN.LOG"]

    target.write_text(target.read_text().replace(checkpoint.key, "f" * 64))
    line, _ = outcome(contract, waits)
    assert (line["outcome"], line["cause"]) == ("unscored", "contract")
    assert "calibrate again" in line["reason"]
