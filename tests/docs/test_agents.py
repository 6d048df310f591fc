"""The agents' documents keep their promises: the program and the package that they print run as printed, on a real machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from runner.agents.exchange import task_document
from runner.machines.wine import WineCheckpoint
from runner.store import Campaign
from tests.runner.test_agents_base import task

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "agents"
CONTRACT = "contracts/catalog/legacyworld/dswin/add-patient-documentation.yaml"


def code(document: str, language: str) -> str:
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / document).read_text(), re.MULTILINE | re.DOTALL)
    return str(blocks[0])


def legacyproof(folder: Path, agent: str, environment: Mapping[str, str]) -> tuple[dict[str, Any], Campaign]:
    done = subprocess.run(
        [sys.executable, "-c", "from runner.cli import main; main()", "run", str(ROOT / CONTRACT), "--agent", agent,
         "--json", "--runs", str(folder / "runs"), "--name", "docs"],
        cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), Campaign(folder / "runs" / "docs")


@pytest.mark.machine
def test_the_program_that_is_printed_does_its_task(tmp_path: Path, checkpoint: WineCheckpoint) -> None:
    source = code("command.md", "python")
    assert len(source.splitlines()) <= 24
    (tmp_path / "note.py").write_text(source)
    # As on the command line, but that the modules are found also where legacyproof is not installed.
    described = f"schema: 1\nprogram: ['{sys.executable}', note.py]\nset: {{PYTHONPATH: '{ROOT}'}}\n"
    (tmp_path / "note.yaml").write_text(described)
    line, campaign = legacyproof(tmp_path, "command:note.yaml", {"PYTHONPATH": str(ROOT)})
    assert line["outcome"] == "valid_success", line["reason"]
    (record,) = campaign.records()
    assert record.agent.name == "command note.py"
    assert record.agent.message == "typed the note"
    assert [entry.text for entry in record.agent.timeline][:2] == ["type Öztürk, Ayse", "press F6"]
    assert not list(campaign.folder.rglob("task.json"))


@pytest.mark.machine
def test_the_package_that_is_printed_is_an_agent(tmp_path: Path, checkpoint: WineCheckpoint) -> None:
    """Installed as pip would: the module and a folder of metadata on the path, the entry point found by importlib.metadata."""
    source, project = code("your-own.md", "python"), code("your-own.md", "toml")
    assert len(source.splitlines()) + len(project.splitlines()) < 40
    about = tomllib.loads(project)["project"]
    place = tmp_path / "site"
    info = place / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir(parents=True)
    ((group, entries),) = about["entry-points"].items()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    (info / "entry_points.txt").write_text(
        f"[{group}]\n" + "".join(f"{name} = {what}\n" for name, what in entries.items())
    )
    (place / "legacyproof_blind.py").write_text(source)
    line, campaign = legacyproof(tmp_path, "blind:1", {"PYTHONPATH": os.pathsep.join([str(place), str(ROOT)])})
    assert line["outcome"] == "valid_success", line["reason"]
    assert (line["agent"], next(iter(campaign.records())).agent.name) == ("blind:1", "blind 1")


def test_every_field_of_the_task_is_documented() -> None:
    text = (DOCS / "command.md").read_text()
    documented = set(
        re.findall(r"^\| `(\w+)` \|", text.partition("## The task")[2].partition("## The report")[0], re.MULTILINE)
    )
    assert documented == set(task_document(task(), (1024, 768)))
