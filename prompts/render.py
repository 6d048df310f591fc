"""Prompts: from structured steps to the text that an agent gets; the same steps always give the same text.

An expert's prompt is a YAML file: what a person who knows the program would tell a new colleague, one action per step, with the
screen that must be there before it and what to do if it is not. Its parameters are those of the contract.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from contracts.load import read_model
from contracts.parameters import as_text
from contracts.schema import Model, Text

FOLDER = Path(__file__).resolve().parent
_TOKEN = re.compile(r"\{\{\{\{|\}\}\}\}|\{\{([^{}\n]{0,200})\}\}|\{\{|\}\}")
Condition = Literal["expert", "video", "instruction"]


class PromptError(Exception):
    """A prompt cannot be rendered: it is missing, for another contract, or names a parameter that there is not."""


class Origin(Model):
    """Where a prompt comes from."""

    kind: Literal["expert", "video"]
    by: Text
    """Who or what wrote it."""


class PromptStep(Model):
    """One action."""

    title: Text
    expect: Text
    """What the screen shows before it."""
    do: Text
    otherwise: Text = "Stop and report that the screen is not as expected."
    """What to do when the screen is another."""


class Prompt(Model):
    """A whole prompt."""

    schema_: Literal[1] = Field(alias="schema")
    contract: Text
    origin: Origin
    introduction: Text
    steps: list[PromptStep] = Field(min_length=1, max_length=200)
    result: Text
    """What to report at the end."""


def fill(text: str, values: Mapping[str, Any]) -> str:
    """The text with ``{{name}}`` replaced by its value, once; ``{{{{`` and ``}}}}`` stand for braces.

    Raises:
        PromptError: There is no such parameter, or braces stand around what is no name.
    """

    def value(token: re.Match[str]) -> str:
        if token[0] in ("{{{{", "}}}}"):
            return token[0][:2]
        name = token[1]
        if name is None:
            raise PromptError(f"`{token[0]}` is part of no `{{{{name}}}}`; the text itself is written `{token[0] * 2}`")
        if name not in values:
            there = ", ".join(sorted(values)) or "none"
            raise PromptError(f"there is no parameter `{name}`; there are: {there}")
        found = values[name]
        return ", ".join(found) if isinstance(found, list) else as_text(found)

    return _TOKEN.sub(value, text)


def find_prompt(contract: str, application: str, condition: Literal["expert", "video"]) -> Prompt:
    """The prompt of a condition for a contract: ``prompts/<condition>/<application>/<task>.yaml``.

    Args:
        contract: The contract's id, ``<application>.<task>``.
        application: The first part of the id.
        condition: Which prompt.

    Raises:
        PromptError: There is none, or it is for another contract.
        contracts.load.ContractError: The file is not valid.
    """
    task = contract.removeprefix(f"{application}.")
    path = FOLDER / condition / application / f"{task}.yaml"
    if not path.is_file():
        raise PromptError(
            f"there is no {condition} prompt for {contract}: {path.relative_to(FOLDER.parent)} is missing"
        )
    prompt = read_model(path, Prompt)
    if prompt.contract != contract:
        raise PromptError(f"{path.name} is the prompt of {prompt.contract}, not of {contract}")
    return prompt


def render(prompt: Prompt, values: Mapping[str, Any]) -> str:
    """The prompt as text, parameters put in."""
    parts = [fill(prompt.introduction.strip(), values), ""]
    for number, step in enumerate(prompt.steps, 1):
        parts += [
            f"Step {number}: {fill(step.title.strip(), values)}",
            f"  The screen shows: {fill(step.expect.strip(), values)}",
            f"  Do this: {fill(step.do.strip(), values)}",
            f"  If the screen is different: {fill(step.otherwise.strip(), values)}",
            "",
        ]
    parts.append(f"At the end: {fill(prompt.result.strip(), values)}")
    return "\n".join(parts) + "\n"
