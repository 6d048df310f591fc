"""What is wrong with a prompt's file, seen beside its contract: pure, so that an editor or a test can ask as well.

Whether a step is one action is told by its words: the imperative verbs of input, English and German, that begin a clause. Looking,
reading and waiting are no actions, since they change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from contracts.document import Document, Plain, parse
from contracts.load import LoadedContract, read_model
from contracts.parameters import as_text
from contracts.problems import ContractError, Loc, Problem, field_path
from contracts.schema import Parameter
from prompts.render import Prompt, PromptError, template

_REFERENCE = re.compile(r"\{\{\{\{|\}\}\}\}|\{\{([^{}\n]{0,200})\}\}|\{\{|\}\}")
_VERBS = (
    r"type|press|hold|click|double-click|right-click|drag|scroll|select|choose|enter|paste|pick|tick|untick"
    r"|tippe\w*|drück\w*|halte\w*|klick\w*|doppelklick\w*|zieh\w*|wähl\w*|gib|geben sie|füge\w*|blätter\w*"
)
_ACTION = re.compile(
    rf"(?:^|[.;:!?,]\s+|\b(?:and|then|or|und|dann|oder)\s+)(?:(?:and|then|und|dann)\s+)*(?P<verb>{_VERBS})\b", re.I
)
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_SHORTEST = 4
"""Characters of the shortest value that is looked for in a prompt's text."""


class Rule(NamedTuple):
    """One rule, with what to do where it is broken."""

    id: str
    fix: str


UNREADABLE = Rule("P01", "see the message")
CONTRACT = Rule("P02", "write the contract's id under `contract`, and name the contract's folder with --contracts")
UNKNOWN_PARAMETER = Rule("P03", "use a parameter of the contract, or declare it there")
UNUSED_PARAMETER = Rule("P04", "tell the agent the value, as {{name}}, in the step that needs it")
ONE_ACTION = Rule("P05", "make a step of each action, with the screen that must be there before it")
EXPECT = Rule("P06", "say under `expect` what the screen shows before the action")
RESULT = Rule("P07", "name every value of the contract's `returns` in `result`")
ORIGIN = Rule("P08", "write under `origin` who wrote the prompt (`by`), when (`date`) and from what (`source`)")
VALUE = Rule("P09", "write {{name}} in place of the value")
BRACES = Rule("P10", "say it in other words")
RULES = (
    UNREADABLE, CONTRACT, UNKNOWN_PARAMETER, UNUSED_PARAMETER, ONE_ACTION, EXPECT, RESULT, ORIGIN, VALUE, BRACES,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PromptFinding:
    """One place that a rule finds fault with."""

    rule: Rule
    problem: Problem

    def __str__(self) -> str:
        return f"{self.problem!s} [{self.rule.id}]"

    def as_dict(self) -> dict[str, Any]:
        """For machines."""
        problem = self.problem
        return {
            "rule": self.rule.id, "file": problem.file, "line": problem.line, "column": problem.column,
            "field": problem.field, "message": problem.message, "fix": problem.hint,
        }  # fmt: skip


def is_prompt(path: Path) -> bool:
    """Whether a YAML file is a prompt, also one with mistakes: it has steps and names a contract.

    Raises:
        contracts.load.ContractError: The file is no YAML that we read.
    """
    data = parse(path.read_bytes(), str(path)).data
    return isinstance(data, dict) and "steps" in data and "contract" in data and "effects" not in data


def check_prompt(path: Path, contracts: Mapping[str, LoadedContract]) -> list[PromptFinding]:
    """Everything that is wrong with a prompt.

    Args:
        path: Its file.
        contracts: The contracts that there are, by id.
    """
    try:
        prompt = read_model(path, Prompt)
        document = parse(path.read_bytes(), str(path))
    except ContractError as error:
        return [PromptFinding(UNREADABLE, problem) for problem in error.problems]
    found = _Checker(document, prompt)
    found.origin()
    found.steps()
    found.braces()
    loaded = contracts.get(prompt.contract)
    if loaded is None:
        there = ", ".join(sorted(contracts)[:20]) or "none"
        found.add(CONTRACT, ("contract",), f"there is no contract {prompt.contract!r}; there are: {there}")
    else:
        found.against(loaded)
    return sorted(found.findings, key=lambda finding: (finding.problem.line, finding.problem.column, finding.rule.id))


class _Checker:
    def __init__(self, document: Document, prompt: Prompt) -> None:
        self._document = document
        self._prompt = prompt
        self.findings: list[PromptFinding] = []

    def add(self, rule: Rule, loc: Loc, message: str) -> None:
        mark = self._document.value_mark(loc)
        self.findings.append(
            PromptFinding(
                rule, Problem(self._document.name, mark.line, mark.column, field_path(loc), message, rule.fix)
            )
        )

    def origin(self) -> None:
        for name in ("date", "source"):
            if getattr(self._prompt.origin, name) is None:
                self.add(ORIGIN, ("origin",), f"the origin says no `{name}`")

    def steps(self) -> None:
        for index, step in enumerate(self._prompt.steps):
            if not _LETTERS.search(step.expect):
                self.add(EXPECT, ("steps", index, "expect"), f"step {index + 1} does not say which screen it expects")
            # Not within what a parameter stands for, nor within what is typed or shown: texts in quotation marks.
            words = re.sub(r"\{\{\w+\}\}|\"[^\"]*\"|„[^“”]*[“”]", "…", step.do)
            actions = [match["verb"] for match in _ACTION.finditer(words)]
            if len(actions) > 1:
                said = ", ".join(f"`{action}`" for action in actions[:5])
                self.add(ONE_ACTION, ("steps", index, "do"), f"step {index + 1} is {len(actions)} actions: {said}")

    def braces(self) -> None:
        for style in ("plain", "legacy-use"):
            try:
                template(self._prompt, style=style)
            except PromptError as error:
                self.add(BRACES, ("steps",), str(error))

    def against(self, loaded: LoadedContract) -> None:
        """What only the contract tells: parameters, returned values, values written out."""
        contract = loaded.contract
        used: set[str] = set()
        for loc, text in self._texts():
            for token in _REFERENCE.finditer(text):
                if token[0] in ("{{{{", "}}}}"):
                    continue
                if token[1] in contract.parameters:
                    used.add(token[1])
                    continue
                there = ", ".join(sorted(contract.parameters)) or "none"
                self.add(UNKNOWN_PARAMETER, loc, f"`{token[0]}` is no parameter of {contract.id}; there are: {there}")
        for name in contract.parameters:
            if name not in used:
                self.add(UNUSED_PARAMETER, ("contract",), f"the parameter `{name}` of {contract.id} is used nowhere")
        for name in _keys(contract.returns.schema_ if contract.returns else None):
            if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", self._prompt.result):
                self.add(RESULT, ("result",), f"`result` does not ask for `{name}`, which {contract.id} wants returned")
        self._values(contract.parameters)

    def _values(self, parameters: Mapping[str, Any]) -> None:
        for name, declared in parameters.items():
            secret = isinstance(declared, Parameter) and declared.secret
            value = declared.value if isinstance(declared, Parameter) else declared
            for item in value if isinstance(value, list) else [value]:
                text = as_text(item)
                if len(text) < _SHORTEST or isinstance(item, bool):
                    continue
                what = f"the secret value of `{name}`" if secret else f"the value of `{name}`, {text!r},"
                for loc, where in self._texts():
                    if text in where:
                        self.add(VALUE, loc, f"{what} is written out")

    def _texts(self) -> Iterator[tuple[Loc, str]]:
        prompt = self._prompt
        yield ("introduction",), prompt.introduction
        for index, step in enumerate(prompt.steps):
            for name in ("title", "expect", "do", "otherwise"):
                if name in step.model_fields_set:
                    yield ("steps", index, name), getattr(step, name)
        yield ("result",), prompt.result


def _keys(schema: Plain | Mapping[str, Any]) -> Iterator[str]:
    """The names of all values that a JSON Schema speaks of, at any depth; schemas of contracts are bounded when they are read."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            yield str(name)
            yield from _keys(inner)
        yield from _keys(schema.get("items"))
