"""The README keeps its promises: its first contract works as printed, and its words match the program."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def files_of_the_tutorial() -> dict[str, str]:
    blocks = re.findall(r"^```yaml\n(# (my/\S+)\n.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return {name: text for text, name in blocks}


def run(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from runner.cli import main; main()", "run", "my/save-note.yaml", "--json", *argv],
        cwd=folder, env={**os.environ, "LEGACYPROOF_IMAGES": "my", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "my").mkdir()
    written = files_of_the_tutorial()
    assert set(written) == {"my/desk.yaml", "my/save-note.yaml", "my/golden.yaml"}
    for name, text in written.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.machine
def test_the_first_contract_is_fulfilled_by_its_script(tutorial: Path) -> None:
    done = run(tutorial, "--agent", "scripted:my/golden.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["outcome"] == "valid_success"


@pytest.mark.machine
def test_the_first_contract_catches_what_the_tutorial_says_it_does(tutorial: Path) -> None:
    golden = (tutorial / "my/golden.yaml").read_text()
    other_text = golden.replace("- type: '{{text}}'", "- type: 'Zaehler 4711'")
    over_the_old = golden.replace(r"C:\NOTES\{{name}}", r"C:\NOTES\old.txt").replace(
        "wait: {window: zaehler.txt - Notepad}", "wait: {window: {regex: '.*'}}"
    )
    dialog_open = golden.replace("  - type: 'C:\\NOTES\\{{name}}'\n  - press: Return\n", "").replace(
        "wait: {window: zaehler.txt - Notepad}", "wait: {window: Save As}"
    )
    assert len({golden, other_text, over_the_old, dialog_open}) == 4
    for name, text in (("other-text", other_text), ("over-the-old", over_the_old), ("dialog-open", dialog_open)):
        (tutorial / f"my/{name}.yaml").write_text(text.replace("valid_success", "invalid_success"))
    done = run(tutorial, *(f"--agent=scripted:my/{n}.yaml" for n in ("other-text", "over-the-old", "dialog-open")))
    outcomes = [json.loads(line)["outcome"] for line in done.stdout.splitlines()]
    assert outcomes == ["invalid_success"] * 3, done.stdout
    done = run(tutorial, "--agent", "noop", "--agent", "noop:success")
    assert sorted(json.loads(line)["outcome"] for line in done.stdout.splitlines()) == [
        "invalid_success",
        "valid_failure",
    ]


@pytest.mark.machine
def test_a_contract_written_from_a_demonstration_judges_runs(tmp_path: Path) -> None:
    block = next(
        b for b in re.findall(r"^```console\n(.*?)^```$", README, re.MULTILINE | re.DOTALL) if "legacyproof new" in b
    )
    new, judged = (shlex.split(line)[2:] for line in block.replace("\\\n", "").splitlines())
    (tmp_path / "recordings").symlink_to(ROOT / "recordings")
    (tmp_path / "my").mkdir()
    main = [sys.executable, "-c", "from runner.cli import main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*main, *new], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    done = subprocess.run(
        [*main, *judged, "--json"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    outcomes = {
        json.loads(line)["agent"].rpartition("/")[2]: json.loads(line)["outcome"] for line in done.stdout.splitlines()
    }
    assert outcomes.pop("golden.yaml") == "valid_success", done.stdout + done.stderr
    assert len(outcomes) == 8
    assert outcomes["wrong-number.yaml"] == "invalid_success"
    assert "valid_success" not in outcomes.values()


def test_commands_that_the_readme_names_exist() -> None:
    said = set(re.findall(r"^\$ (?:\.venv/bin/)?legacyproof (machines \w+|\w+)", README, re.MULTILINE))
    assert {"run", "lint", "calibrate", "new", "report", "schema", "machines list", "machines reap"} <= said
    for command in said:
        done = subprocess.run(
            [sys.executable, "-c", "from runner.cli import main; main()", *command.split(), "--help"],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for document in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / document).read_text()):
            assert target.startswith("http") or (ROOT / target).exists(), f"{document}: {target}"
