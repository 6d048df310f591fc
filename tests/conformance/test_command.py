"""``legacyproof conformance``: the status says what came out, and mistakes are told in words before a machine is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from runner.commands import conformance as command
from runner.commands import terminal
from runner.commands.terminal import Refused
from runner.conformance.checks import Outcome, Result
from runner.conformance.suite import CHECKS
from runner.machines.base import MachineError

IMAGE = """\
schema: 1
name: mine
provider: mine
summary: An image of a plug-in's provider.
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_IMAGES", str(tmp_path))
    (tmp_path / "mine.yaml").write_text(IMAGE)


def call(monkeypatch: pytest.MonkeyPatch, outcomes: Sequence[Outcome], *arguments: str) -> tuple[int, str, list[Any]]:
    """Status, standard output, and what the suite was asked to run, the results given."""
    asked: list[Any] = []

    def run(checks: Sequence[Any], scene: Any, **_: object) -> Any:
        asked.extend([*checks, scene().image.manifest.name])
        for check, outcome in zip(checks, outcomes, strict=False):
            yield Result(check, outcome, 1.25, "" if outcome == "passed" else "seen: 3")

    app = typer.Typer()
    command.add_to(app)
    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "provider", lambda name, say: object())
    done = CliRunner().invoke(app, ["conformance", *arguments])
    if isinstance(done.exception, Refused | MachineError):
        raise done.exception
    return done.exit_code, done.stdout, asked


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [(["passed"], 0), (["passed", "not applicable"], 0), (["passed", "failed"], 1)],
)
def test_the_status_says_whether_all_passed(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome], status: int
) -> None:
    assert call(monkeypatch, outcomes, "guest", "mine")[0] == status
    assert call(monkeypatch, outcomes, "machine", "mine", "--json")[0] == status


def test_a_failure_is_told_with_what_it_means_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    _, told, _ = call(monkeypatch, ["failed"], "guest", "mine", "--check", "read-missing")
    check = CHECKS["guest"][0]
    assert check.name == "read-missing"
    for text in ("failed", "1.25", "seen: 3", check.proves, check.means, check.remedy):
        assert text in told


def test_results_as_json_and_as_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    _, told, _ = call(monkeypatch, ["failed", "passed"], "guest", "mine", "--json")
    found = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert [item["result"] for item in found] == ["failed", "passed"]
    assert found[0]["detail"] == "seen: 3"
    _, told, _ = call(monkeypatch, ["failed", "passed"], "guest", "mine", "--markdown")
    assert "| `read-missing` | failed | 1.25 | seen: 3 |" in told


def test_checks_are_chosen_by_pattern_and_the_slow_ones_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = call(monkeypatch, [], "guest", "mine", "--check", "read-l*", "--quick")[2]
    assert [getattr(item, "name", item) for item in asked] == ["read-limit", "read-locked", "mine"]


def test_the_image_is_the_providers_first_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, [], "machine", "wine")[2][-1] == "dentadesk"
    assert call(monkeypatch, [], "machine", "mine")[2][-1] == "mine"


def test_contracts_and_broken_images_do_not_keep_the_provider_from_its_first_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "a-contract.yaml").write_text("schema: 1\nid: a.b\n")
    (tmp_path / "a-script.yaml").write_text("steps: []\n")
    assert call(monkeypatch, [], "machine", "mine")[2][-1] == "mine"
    (tmp_path / "broken.yaml").write_text(IMAGE.replace("name: mine", "name: broken\ncolour: red"))
    said: list[str] = []
    monkeypatch.setattr(terminal.err, "print", lambda text, **_: said.append(text))
    assert call(monkeypatch, [], "machine", "mine")[2][-1] == "mine"
    warnings = [text for text in said if text.startswith("warning")]
    assert len(warnings) == 1
    assert "broken.yaml:3" in warnings[0]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("guest", "mine", "--check", "no such"), "no check of a guest fits 'no such'"),
        (("machine", "mine", "--image", "dentadesk"), "is for the provider wine, not for mine"),
        (("machine", "other"), "there is no image for the provider other"),
        (("machine", "mine", "--json", "--markdown"), "give one"),
    ],
)
def test_mistakes_are_told_in_words(monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(Refused, match=why):
        call(monkeypatch, [], *arguments)


def test_an_unknown_provider_is_the_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    command.add_to(app)
    done = CliRunner().invoke(app, ["conformance", "machine", "nobody"])
    assert isinstance(done.exception, Refused)
    assert "known: libvirt, wine" in str(done.exception)


def test_the_reference_of_all_checks_can_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    status, told, _ = call(monkeypatch, [], "checks")
    assert status == 0
    assert all(f"| `{check.name}`" in told for checks in CHECKS.values() for check in checks)
