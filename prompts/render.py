"""Prompts: from structured steps to the text that an agent gets; the same steps always give the same text.

An expert's prompt is a YAML file: what a person who knows the program would tell a new colleague, one action per step, with the
screen that must be there before it and what to do if it is not. Its parameters are those of the contract.

The same steps are laid out in the way that the agent expects (:data:`Style`): as plain text, or with the words and tools that
legacy-use and the built-in loop give their models. What is said is the same; only how it is told differs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from contracts.document import parse
from contracts.load import LoadedContract, read_model
from contracts.parameters import as_text
from contracts.schema import Model, Text

FOLDER = Path(__file__).resolve().parent
_TOKEN = re.compile(r"\{\{\{\{|\}\}\}\}|\{\{([^{}\n]{0,200})\}\}|\{\{|\}\}")
_PUT_IN_BY_LEGACY_USE = re.compile(r"\{[A-Za-z_]\w*\}")
Condition = Literal["expert", "video", "instruction"]
Written = Literal["expert", "video"]
"""The conditions whose prompts are files."""
Style = Literal["plain", "legacy-use", "computer-use"]
"""How a prompt is laid out: in plain words, or with the tools of legacy-use or of the built-in loop."""
STYLES: tuple[Style, ...] = ("plain", "legacy-use", "computer-use")


class PromptError(Exception):
    """A prompt cannot be rendered: it is missing, for another contract, or names a parameter that there is not."""


def _day(value: str) -> str:
    try:
        date.fromisoformat(value)
    except ValueError:
        raise PydanticCustomError("day", "a day is written YYYY-MM-DD") from None
    return value


class Origin(Model):
    """Where a prompt comes from; ``legacyproof prompts check`` wants all of it."""

    kind: Written
    by: Text
    """Who or what wrote it."""
    date: Annotated[Text, AfterValidator(_day)] | None = None
    """The day on which it was written."""
    source: Text | None = None
    """What it was written from: the program, its manual, a recording."""


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


def prompt_folders(contract: Path | None, given: Path | None = None) -> tuple[Path, ...]:
    """Where a contract's prompts are looked for before the package's own: the folder given, then ``prompts`` beside it.

    Args:
        contract: The contract's file, if it has one.
        given: A folder that the user names.
    """
    beside = () if contract is None else (contract.parent / "prompts",)
    return (*(() if given is None else (given,)), *beside)


def find_prompt(contract: str, application: str, condition: Written, *, folders: Sequence[Path] = ()) -> Prompt:
    """The prompt of a condition for a contract.

    Args:
        contract: The contract's id, ``<application>.<task>``.
        application: The first part of the id.
        condition: Which prompt.
        folders: Where to look before the package's own, see :func:`prompt_folders`; the first one that has it wins.

    Raises:
        PromptError: There is none, or it is for another contract.
        contracts.load.ContractError: The file is not valid.
    """
    path = prompt_path(contract, application, condition, folders=folders)
    prompt = read_model(path, Prompt)
    if prompt.contract != contract:
        raise PromptError(f"{path.name} is the prompt of {prompt.contract}, not of {contract}")
    return prompt


def prompt_path(contract: str, application: str, condition: Written, *, folders: Sequence[Path] = ()) -> Path:
    """The file of a contract's prompt: ``<folder>/<condition>/<application>/<task>.yaml``, or without the application.

    Raises:
        PromptError: There is none.
    """
    task = contract.removeprefix(f"{application}.")
    for folder in (*folders, FOLDER):
        for path in (folder / condition / application / f"{task}.yaml", folder / condition / f"{task}.yaml"):
            if path.is_file():
                return path
    missing = (FOLDER / condition / application / f"{task}.yaml").relative_to(FOLDER.parent)
    elsewhere = f", and so is one in {', '.join(map(str, folders))}" if folders else ""
    raise PromptError(f"there is no {condition} prompt for {contract}: {missing} is missing{elsewhere}")


def instruction_template(loaded: LoadedContract) -> str:
    """The contract's bare instruction with its ``{{parameters}}`` not filled in: the prompt of the condition `instruction`."""
    data = parse(loaded.source, str(loaded.path or "contract")).data
    assert isinstance(data, dict)  # it was loaded from this source
    return str(data["instruction"])


def render(prompt: Prompt, values: Mapping[str, Any], *, style: Style = "plain") -> str:
    """The prompt as text, parameters put in.

    Raises:
        PromptError: The prompt names a parameter that there is not.
    """
    return _LAYOUTS[style](prompt, lambda text: fill(text.strip(), values))


def template(prompt: Prompt, *, style: Style = "plain") -> str:
    """The prompt as text, its ``{{parameters}}`` not put in, for agents that do so themselves.

    ``fill`` makes of it what :func:`render` gives. For legacy-use, which knows no way to write braces as such and also fills
    ``{name}`` in, braces that stand for themselves are written once.

    Raises:
        PromptError: Braces that stand for themselves would be taken for a parameter by legacy-use.
    """
    return _LAYOUTS[style](prompt, _for_legacy_use if style == "legacy-use" else str.strip)


def _for_legacy_use(text: str) -> str:
    def unescaped(token: re.Match[str]) -> str:
        return token[0][:2] if token[0] in ("{{{{", "}}}}") else token[0]

    text = text.strip()
    literal = _TOKEN.sub(lambda token: token[0][:2] if token[1] is None else "…", text)
    if taken := _PUT_IN_BY_LEGACY_USE.search(literal):
        raise PromptError(
            f"legacy-use would take `{taken[0]}` for a parameter, and has no way to write it as text: say it in other words"
        )
    return _TOKEN.sub(unescaped, text)


_Put = Callable[[str], str]
"""Makes the text of a part of a prompt: parameters put in, or left."""


def _plain(prompt: Prompt, put: _Put) -> str:
    parts = [put(prompt.introduction), ""]
    for number, step in enumerate(prompt.steps, 1):
        parts += [
            f"Step {number}: {put(step.title)}",
            f"  The screen shows: {put(step.expect)}",
            f"  Do this: {put(step.do)}",
            f"  If the screen is different: {put(step.otherwise)}",
            "",
        ]
    parts.append(f"At the end: {put(prompt.result)}")
    return "\n".join(parts) + "\n"


_LEGACY_USE_RULES = """\
Work through the steps in order: one step, one action, one tool call. Before each action compare the screen with the step's \
"Expected UI". If it differs, do what the step says under "If not", nothing else. Where a step tells you to report a failure, or \
that the screen is not as expected, use the tool `ui_not_as_expected` with what you see as the reasoning, and do nothing after it."""


def _legacy_use(prompt: Prompt, put: _Put) -> str:
    """The conventions of legacy-use: a summary, then per step the expected UI and one action, the extraction last."""
    steps = [
        f"Step {number}: {put(step.title)}\nExpected UI: {put(step.expect)}\nAction: {put(step.do)}\nIf not: {put(step.otherwise)}\n"
        for number, step in enumerate(prompt.steps, 1)
    ]
    steps.append(
        f"Step {len(steps) + 1}: Return the result\n"
        "Expected UI: The end of the task, as the action describes it.\n"
        f"Action: {put(prompt.result)} To report success and return what is asked for, use the tool `extraction`, once, and then end.\n"
        "If not: Use the tool `ui_not_as_expected`.\n"
    )
    return f"{put(prompt.introduction)}\n\n{_LEGACY_USE_RULES}\n\n" + "---\n\n".join(steps)


_COMPUTER_USE_RULES = """\
Rules:
- Take the steps in order and do one action at a time. After each action look at a new screenshot.
- Before each step compare the screen with what the step expects. If it is different, do what the step says for that case.
- To report a failure, or that the screen is not as expected, call `ui_not_as_expected` and say what you see. Then stop.
- To report success, call `extraction` once with the values that are asked for. Do this last, and only if everything is done."""


def _computer_use(prompt: Prompt, put: _Put) -> str:
    steps = "\n".join(
        f"{number}. {put(step.title)}\n"
        f"   Expected screen: {put(step.expect)}\n"
        f"   Action: {put(step.do)}\n"
        f"   If the screen is different: {put(step.otherwise)}"
        for number, step in enumerate(prompt.steps, 1)
    )
    return (
        f"{put(prompt.introduction)}\n\n{_COMPUTER_USE_RULES}\n\nSteps:\n{steps}\n"
        f"{len(prompt.steps) + 1}. Return the result\n   Action: {put(prompt.result)}\n"
    )


_LAYOUTS: dict[Style, Callable[[Prompt, _Put], str]] = {
    "plain": _plain, "legacy-use": _legacy_use, "computer-use": _computer_use,
}  # fmt: skip
