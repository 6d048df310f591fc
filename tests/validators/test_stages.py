"""How far a run came: seen, not seen, and not to be looked for are three answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from contracts.schema import Evidence
from validators.changes import Change, Comparison, Verb
from validators.stages import Stage, stages_seen


def stages(**specs: Mapping[str, Any]) -> dict[str, Evidence]:
    return TypeAdapter(dict[str, Evidence]).validate_python(specs)


CONTRACT = stages(
    navigation={"window": {"title": "Neuer Patient*"}}, interaction={"typed": "12345"}, commit={"changed": "patients"}
)
CHANGED = Comparison("patients", (Change("patients", Verb.INSERTED, "1", 0),))


def answers(**about: Any) -> list[bool | None]:
    known: dict[str, Any] = {"titles": None, "typed": [], "comparisons": []}
    return [stage.seen for stage in stages_seen(CONTRACT, **(known | about))]


def test_a_run_that_came_past_every_stage() -> None:
    found = stages_seen(
        CONTRACT, titles={"Other", "neuer Patient (1)"}, typed=["a⇥123", "45[F10]"], comparisons=[CHANGED]
    )
    assert found == (
        Stage("navigation", True, "the window “Neuer Patient*”"),
        Stage("interaction", True, "“12345” typed"),
        Stage("commit", True, "a change of patients"),
    )


def test_a_run_that_came_nowhere() -> None:
    assert answers(titles=[], comparisons=[Comparison("patients"), Comparison("screen")]) == [False, False, False]


def test_what_could_not_be_looked_for_is_not_known() -> None:
    assert answers() == [None, False, None]
    assert answers(titles=None, comparisons=[Comparison("screen")])[2] is None


def test_what_was_typed_in_part_can_be_seen_and_not_be_missed() -> None:
    assert answers(typed=["a12345"], typed_is_whole=False)[1] is True
    assert answers(typed=["1234"], typed_is_whole=False)[1] is None
    assert answers(typed=[], typed_is_whole=False)[1] is None


@pytest.mark.parametrize("typed", [["1234"], ["12⇥345"], ["1234", "⌫5"]])
def test_another_text_is_not_the_text(typed: list[str]) -> None:
    assert answers(typed=typed)[1] is False


def test_hostile_texts_are_made_harmless() -> None:
    (stage,) = stages_seen(stages(x={"typed": "a\nb\u202e"}), titles=None, typed=[], comparisons=[])
    assert stage.evidence == "“a⏎b�” typed"
