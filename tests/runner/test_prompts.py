"""Prompts: parameters put in once, one text for one prompt, and files that are refused with their line."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.load import ContractError, load_contract, load_text
from prompts import render as prompts
from prompts.render import Prompt, PromptError, fill, find_prompt, render

ROOT = Path(__file__).parents[2]
TEXT = """\
schema: 1
contract: app.add-patient
origin: {kind: expert, by: tests}
introduction: Register {{name}}.
steps:
  - title: Open the form
    expect: The list.
    do: Press F2.
  - title: Enter the name
    expect: The form.
    do: >
      Type {{name}} and
      press Tab.
    otherwise: Press Esc.
result: Report success.
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "prompts"
    (made / "expert" / "app").mkdir(parents=True)
    (made / "expert" / "app" / "add-patient.yaml").write_text(TEXT)
    monkeypatch.setattr(prompts, "FOLDER", made)
    return made


def found(contract: str = "app.add-patient") -> Prompt:
    return find_prompt(contract, contract.partition(".")[0], "expert")


# --- putting parameters in --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{name}}", "Muster"),
        ("<{{name}}{{name}}>", "<MusterMuster>"),
        ("{{list}}", "a, b"),
        ("{{number}}", "104"),
        ("{{{{name}}}}", "{{name}}"),
        ("{name} {{{{", "{name} {{"),
        ("{{trap}}", "{{name}}"),
        ("no token", "no token"),
        ("", ""),
    ],
)
def test_parameters_are_put_in_once(text: str, expected: str) -> None:
    values = {"name": "Muster", "list": ["a", "b"], "number": 104, "trap": "{{name}}"}
    assert fill(text, values) == expected


def test_a_parameter_that_there_is_not() -> None:
    with pytest.raises(PromptError, match="there is no parameter `nam`; there are: last, name"):
        fill("{{nam}}", {"name": "x", "last": "y"})
    with pytest.raises(PromptError, match="there are: none"):
        fill("{{name}}", {})


@pytest.mark.parametrize("text", ["{{Name}}", "{{ name }}", "{{na-me}}", "{{name}", "{{1}}"])
def test_what_was_meant_as_a_parameter_is_never_passed_on(text: str) -> None:
    with pytest.raises(PromptError):
        fill(text, {"name": "x"})


@pytest.mark.parametrize(
    "value", [True, False, Decimal("1E+2"), Decimal("0.10"), Decimal("1E-9"), 104, "text"], ids=repr
)
def test_values_are_spelled_as_in_the_contract(value: Any) -> None:
    contract = (ROOT / "tests" / "contracts" / "new_patient.yaml").read_text(encoding="utf-8")
    written = value if not isinstance(value, bool) else str(value).lower()
    contract = contract.replace("parameters:\n", f"parameters:\n  it: {{value: {written}, unchecked: only spelled}}\n")
    contract = contract.replace("Register a new patient with", "Register {{it}} with")
    instruction = load_text(contract, name="c").contract.instruction
    assert fill("Register {{it}} with", {"it": value}) == " ".join(instruction.split()[:3])


@given(st.text(), st.text())
def test_a_value_is_never_looked_at_again(before: str, value: str) -> None:
    before = before.replace("{", "").replace("}", "")
    assert fill(before + "{{name}}", {"name": value}) == before + value


# --- rendering --------------------------------------------------------------------------------------------------------


def test_a_prompt_as_text(folder: Path) -> None:
    assert render(found(), {"name": "Muster"}) == (
        "Register Muster.\n"
        "\n"
        "Step 1: Open the form\n"
        "  The screen shows: The list.\n"
        "  Do this: Press F2.\n"
        "  If the screen is different: Stop and report that the screen is not as expected.\n"
        "\n"
        "Step 2: Enter the name\n"
        "  The screen shows: The form.\n"
        "  Do this: Type Muster and press Tab.\n"
        "  If the screen is different: Press Esc.\n"
        "\n"
        "At the end: Report success.\n"
    )


def test_a_value_with_blanks_at_its_ends_keeps_them(folder: Path) -> None:
    assert "Type  Muster  and" in render(found(), {"name": " Muster "})


def test_a_prompt_with_a_parameter_that_there_is_not(folder: Path) -> None:
    with pytest.raises(PromptError, match="`name`"):
        render(found(), {})


# --- finding ----------------------------------------------------------------------------------------------------------


def test_a_prompt_that_there_is_not(folder: Path) -> None:
    with pytest.raises(PromptError, match=r"no expert prompt for app.other: prompts.expert.app.other.yaml is missing"):
        found("app.other")
    with pytest.raises(PromptError, match="no video prompt"):
        find_prompt("app.add-patient", "app", "video")


def test_the_prompt_of_another_contract(folder: Path) -> None:
    (folder / "expert" / "app" / "other.yaml").write_text(TEXT)
    with pytest.raises(PromptError, match=r"other.yaml is the prompt of app.add-patient, not of app.other"):
        found("app.other")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("schema: 1", "schema: 3", 1),
        ("kind: expert", "kind: guess", 3),
        ("introduction: Register {{name}}.", "intro: x", 4),
        ("    do: Press F2.\n", "", 6),
        ("    do: Press F2.", "    do: 5", 8),
        ("result: Report success.", "result:", 15),
    ],
)
def test_a_prompt_that_is_wrong_is_told_with_its_line(folder: Path, old: str, new: str, line: int) -> None:
    assert old in TEXT
    (folder / "expert" / "app" / "add-patient.yaml").write_text(TEXT.replace(old, new))
    with pytest.raises(ContractError) as caught:
        found()
    assert f"add-patient.yaml:{line}:" in str(caught.value)


def test_the_prompts_of_the_house_fit_their_contracts() -> None:
    contracts = [load_contract(path).contract for path in sorted((ROOT / "contracts" / "catalog").rglob("*.yaml"))]
    assert contracts
    for contract in contracts:
        text = render(found(contract.id), contract.parameter_values)
        assert not re.search(r"\{\{|\}\}", text)
        for value in contract.parameter_values.values():
            assert not isinstance(value, str) or value in text, f"{contract.id} does not tell {value!r}"
