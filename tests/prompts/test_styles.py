"""The layouts of prompts: fixed texts, the same words in each, and templates that come to the same when they are filled in."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.load import LoadedContract, load_contract
from prompts.render import (
    STYLES,
    Origin,
    Prompt,
    PromptError,
    PromptStep,
    Style,
    fill,
    find_prompt,
    instruction_template,
    prompt_folders,
    render,
    template,
)

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
CONTRACTS = sorted((ROOT / "contracts" / "catalog" / "legacyworld" / "dswin").glob("*.yaml"))


def house(path: Path) -> tuple[LoadedContract, Prompt]:
    loaded = load_contract(path)
    return loaded, find_prompt(loaded.contract.id, "dswin", "expert")


def made(**about: Any) -> Prompt:
    given = {
        "schema": 1, "contract": "app.task", "origin": Origin(kind="expert", by="tests"), "introduction": "Do {{a}}.",
        "steps": [PromptStep(title="One", expect="A screen.", do="Press {{b}}.")], "result": "Report success.",
    }  # fmt: skip
    return Prompt.model_validate(given | about)


# --- fixed texts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    "path",
    [path for path in CONTRACTS if path.stem in ("add-new-patient", "add-patient-documentation")],
    ids=lambda path: path.stem,
)
def test_renderings_are_what_they_were(path: Path, style: Style) -> None:
    """A changed text is another condition of an experiment. ``LEGACYPROOF_GOLDEN=write`` takes new texts over."""
    loaded, prompt = house(path)
    text = render(prompt, loaded.contract.parameter_values, style=style)
    golden = GOLDEN / f"{path.stem}.{style}.txt"
    if os.environ.get("LEGACYPROOF_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8", newline="")
    assert golden.read_bytes().decode("utf-8") == text


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.stem)
def test_each_layout_says_the_same(path: Path, style: Style) -> None:
    loaded, prompt = house(path)
    values = loaded.contract.parameter_values
    text = render(prompt, values, style=style)
    at = 0
    for step in prompt.steps:
        for piece in (step.title, step.expect, step.do, step.otherwise):
            at = text.index(fill(piece.strip(), values), at)
    assert text.index(fill(prompt.result.strip(), values), at) > at, "the result comes last"
    assert render(prompt, values, style=style) == text


def test_the_conventions_of_legacy_use() -> None:
    text = render(made(), {"a": "this", "b": "F1"}, style="legacy-use")
    assert text.startswith("Do this.\n\n")
    assert "`ui_not_as_expected`" in text
    step, last = re.split(r"^---\n\n", text, flags=re.MULTILINE)
    assert re.search(r"^Step 1: One\nExpected UI: A screen\.\nAction: Press F1\.\nIf not: ", step, re.MULTILINE)
    assert re.match(r"Step 2: Return the result\nExpected UI: .*\nAction: Report success\. .*`extraction`", last)


def test_the_built_in_loop_names_its_tools() -> None:
    text = render(made(), {"a": "this", "b": "F1"}, style="computer-use")
    assert "`extraction`" in text
    assert "`ui_not_as_expected`" in text
    assert "`" not in render(made(), {"a": "this", "b": "F1"})


# --- templates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.stem)
def test_a_template_filled_in_is_the_prompt(path: Path) -> None:
    loaded, prompt = house(path)
    values = loaded.contract.parameter_values
    for style in ("plain", "computer-use"):
        assert fill(template(prompt, style=style), values) == render(prompt, values, style=style)
    text = template(prompt, style="legacy-use")
    for name, value in values.items():  # as legacy-use does it: plain replacement
        text = text.replace("{{" + name + "}}", str(value))
    assert text == render(prompt, values, style="legacy-use")


def test_braces_as_text_in_a_template() -> None:
    prompt = made(introduction="Type {{{{ and }}}} and {{a}}; { } is nothing.")
    assert "Type {{ and }} and {{a}}; { } is nothing." in template(prompt, style="legacy-use")
    assert "Type {{{{ and }}}} and {{a}}" in template(prompt)
    assert fill(template(prompt), {"a": "x", "b": "y"}) == render(prompt, {"a": "x", "b": "y"})


@pytest.mark.parametrize("text", ["Type {name}.", "Type {{{{name}}}}.", "Type {now}."])
def test_what_legacy_use_would_take_for_a_parameter(text: str) -> None:
    with pytest.raises(PromptError, match="legacy-use would take"):
        template(made(introduction=text), style="legacy-use")
    assert template(made(introduction=text))


PIECES = st.lists(
    st.sampled_from(["{{a}}", "{{b}}", "{{{{", "}}}}", "{", "}", " text ", "a", "\n", "ß"]), max_size=8
).map("".join)


@given(PIECES, st.text(max_size=5))
def test_every_template_filled_in_is_the_prompt(text: str, value: str) -> None:
    prompt = made(introduction=f"x{text}x")
    values = {"a": value, "b": "2"}
    try:
        rendered = render(prompt, values)
    except PromptError:
        return
    assert fill(template(prompt), values) == rendered


@pytest.mark.parametrize("path", CONTRACTS, ids=lambda path: path.stem)
def test_the_bare_instruction_as_a_template(path: Path) -> None:
    loaded = load_contract(path)
    text = instruction_template(loaded)
    assert fill(text, loaded.contract.parameter_values) == loaded.contract.instruction
    assert "{{" in text or not loaded.contract.parameters


# --- where prompts are ------------------------------------------------------------------------------------------------


def write(folder: Path, name: str, introduction: str, contract: str = "dswin.add-new-patient") -> None:
    path = folder / "expert" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"schema: 1\ncontract: {contract}\norigin: {{kind: expert, by: me}}\nintroduction: {introduction}\n"
        "steps: [{title: One, expect: A screen., do: Press F1.}]\nresult: Report success.\n"
    )


def test_the_users_own_prompts_go_before_the_houses(tmp_path: Path) -> None:
    def found() -> str:
        folders = prompt_folders(tmp_path / "mine.yaml", tmp_path / "given")
        return find_prompt("dswin.add-new-patient", "dswin", "expert", folders=folders).introduction

    assert found().startswith("You operate DSWin"), "the house's, as long as there is no other"
    write(tmp_path / "prompts", "add-new-patient.yaml", "beside")
    assert found() == "beside"
    write(tmp_path / "prompts", "dswin/add-new-patient.yaml", "beside with application")
    assert found() == "beside with application"
    write(tmp_path / "given", "add-new-patient.yaml", "given")
    assert found() == "given"


def test_a_users_prompt_for_another_contract_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "prompts", "add-new-patient.yaml", "x", contract="other.add-new-patient")
    with pytest.raises(PromptError, match=r"is the prompt of other.add-new-patient"):
        find_prompt("dswin.add-new-patient", "dswin", "expert", folders=prompt_folders(tmp_path / "c.yaml"))


def test_where_there_is_none_all_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(PromptError) as caught:
        find_prompt("app.task", "app", "expert", folders=prompt_folders(tmp_path / "c.yaml"))
    assert str(tmp_path / "prompts") in str(caught.value)
    assert prompt_folders(None) == ()
