"""How late a program's last change comes: what is proposed, and what lint makes of it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from contracts.lint import lint
from contracts.load import load_text
from contracts.noise import Delay, NoiseList, list_text, read_list
from runner import delays
from runner.agents.base import PlannedAgent
from runner.agents.noop import NoopAgent
from runner.calibrate import CalibrationError
from runner.delays import delay_of, measure_delays, proposed_quiet
from runner.plan import RunPlan
from runner.record import Stillness
from tests.contracts.helpers import EXAMPLE


def noise(name: str, *found: Delay, image: str = "dentadesk") -> NoiseList:
    return NoiseList.model_validate(
        {
            "schema": 1, "id": name, "image": image, "image_hash": "0" * 64, "taken": datetime.now(UTC).isoformat(),
            "seconds": Decimal(60), "every": Decimal(1), "repetitions": 1, "watched": [], "runs": [], "entries": [],
            "delays": list(found),
        }
    )  # fmt: skip


def test_the_quiet_time_is_twice_the_longest_delay_in_half_seconds() -> None:
    assert delay_of("a", [0.2, 1.301, 0.9]) == Delay(contract="a", runs=3, longest=Decimal("1.31"), quiet=Decimal(3))
    assert delay_of("a", [0.01]).quiet == 1
    assert delay_of("a", [2.0]).quiet == 4


def test_delays_survive_being_written_and_read(tmp_path: Path) -> None:
    made = noise("n", delay_of("dswin.add-new-patient", [1.23]), delay_of("dswin.other", [4]))
    (tmp_path / "n.yaml").write_text(list_text(made))
    assert read_list("n", [tmp_path]).delays == made.delays


def test_lists_of_before_delays_were_measured_still_load(tmp_path: Path) -> None:
    text = list_text(noise("n"))
    assert "delays" not in text
    (tmp_path / "n.yaml").write_text(text)
    assert read_list("n", [tmp_path]).delays == []


def test_the_longest_proposal_of_the_image_counts(tmp_path: Path) -> None:
    for name, seconds, image in (("one", 1.0, "desk"), ("two", 2.0, "desk"), ("three", 9.0, "another")):
        (tmp_path / f"{name}.yaml").write_text(list_text(noise(name, delay_of("a.b", [seconds]), image=image)))
    (tmp_path / "broken.yaml").write_text("schema: 7")
    assert proposed_quiet("a.b", "desk", folders=[tmp_path, tmp_path / "missing"]) == 4.0
    assert proposed_quiet("a.c", "desk", folders=[tmp_path]) is None


@pytest.mark.parametrize(("quiet", "found"), [("3s", True), ("4s", False), ("10s", False)])
def test_lint_warns_of_a_quiet_time_that_is_shorter_than_what_was_measured(quiet: str, found: bool) -> None:
    text = EXAMPLE.replace("limits: {timeout: 900s}", f"limits: {{timeout: 900s, quiet: {quiet}}}")
    assert f"quiet: {quiet}" in text
    told = [item.rule.id for item in lint(load_text(text, name="c"), measured_quiet=4.0)]
    assert ("quiet-too-short" in told) is found
    assert "quiet-too-short" not in [item.rule.id for item in lint(load_text(text, name="c"))]


def test_lint_warns_of_the_usual_quiet_time_as_well() -> None:
    assert "quiet-too-short" in [item.rule.id for item in lint(load_text(EXAMPLE, name="c"), measured_quiet=4.0)]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs that end as a test says, without a machine."""

    def measure(outcome: str = "valid_success", **still: Any) -> list[Delay]:
        from tests.runner.test_cli import record, verdict

        seen: list[float] = []

        def run_once(plan: RunPlan, *_: object, **__: object) -> object:
            limits = plan.contract.contract.limits
            seen.append(limits.quiet)
            rest = {"asked": 3.0, "reached": True, "waited": 3.5, "last_change": 0.5, "since_input": 0.25, **still}
            made = record(plan, len(seen), verdict(outcome))
            return made.model_copy(update={"stillness": Stillness(**rest)})

        monkeypatch.setattr(delays, "run_once", run_once)
        agent = PlannedAgent("noop", NoopAgent("success"))
        made = measure_delays(
            [load_text(EXAMPLE, name="c")], [agent], None,  # type: ignore[arg-type]
            watched=7.0, repetitions=2, on_image="dentadesk",
        )  # fmt: skip
        assert seen == [7.0, 7.0], "the runs are watched for as long as was asked"
        return made

    return measure


def test_the_delay_is_counted_from_the_last_input_to_the_last_change(measured: Any) -> None:
    (found,) = measured()
    assert (found.runs, found.longest, found.quiet) == (2, Decimal("0.75"), Decimal("1.5"))


def test_a_change_that_no_look_saw_came_before_the_first_look(measured: Any) -> None:
    (found,) = measured(last_change=None)
    assert found.longest == Decimal("0.25")


@pytest.mark.parametrize(
    ("outcome", "still", "why"),
    [
        ("invalid_success", {}, "no good run"),
        ("valid_success", {"reached": False}, "never came to rest"),
        ("valid_success", {"since_input": None}, "gave no input"),
    ],
)
def test_only_good_runs_that_come_to_rest_say_something(
    measured: Any, outcome: str, still: dict[str, Any], why: str
) -> None:
    with pytest.raises(CalibrationError, match=why):
        measured(outcome, **still)
