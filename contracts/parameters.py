"""Parameters: their values, overrides from outside, and the replacement of ``{{name}}`` (CONTRACT.md section 1).

References are replaced once; what a value contains is never looked at again. In a pattern the value is escaped, so that it
stands for exactly itself. ``{{{{`` and ``}}}}`` are the texts ``{{`` and ``}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from contracts.document import Document, Mark, NotANumber, Plain, number
from contracts.globs import escape as escape_glob
from contracts.problems import Loc, did_you_mean, quoted, shown
from contracts.schema import Syntax
from contracts.shape import Shape

Value = str | int | Decimal | bool | list[str]
Override = str | int | Decimal | bool | Sequence[str]
"""A value from outside; texts are converted to the type that the contract declares."""

FIXED = frozenset({"schema", "id", "image", "parameters"})
"""Top-level fields in which nothing is replaced."""
MAX_TEXT = 20_000

_TOKEN = re.compile(r"\{\{\{\{|\}\}\}\}|\{\{([^{}\n]{0,200})\}\}|\{\{|\}\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def literal(text: str) -> str:
    """Writes a text so that substitution gives it back unchanged."""
    return re.sub(r"\{\{|\}\}", lambda braces: braces[0] * 2, text)


@dataclass
class Parameters:
    """The declared parameters with their values.

    Attributes:
        values: By name; ``None`` for a parameter whose declaration cannot be read, which is reported elsewhere.
        secret: Names of those that may not appear in any output.
        usable: False if ``parameters`` itself is no mapping, so that nothing can be said about names.
    """

    values: dict[str, Value | None] = field(default_factory=dict)
    secret: set[str] = field(default_factory=set)
    usable: bool = True

    def secret_texts(self) -> list[str]:
        """The texts that may not appear in any output, longest first."""
        found: set[str] = set()
        for name in self.secret:
            value = self.values.get(name)
            found.update(as_text(item) for item in (value if isinstance(value, list) else [value]) if item is not None)
        return sorted(filter(None, found), key=len, reverse=True)


def read_parameters(document: Document, overrides: Mapping[str, Override]) -> Parameters:
    """Takes the parameters from the document and puts the overrides into it.

    Problems are reported in the document: an override of a parameter that is not declared, or that does not fit its type.
    """
    declared = document.data.get("parameters", {}) if isinstance(document.data, dict) else {}
    found = Parameters(usable=isinstance(declared, dict))
    if not isinstance(declared, dict):
        return found
    for name, entry in declared.items():
        described = isinstance(entry, dict)
        if described and entry.get("secret") not in (None, False):
            found.secret.add(name)
        found.values[name] = _value(entry.get("value") if described else entry)
    for name, override in overrides.items():
        if name not in declared:
            document.report(
                ("parameters", name),
                f"a value is given for `{shown(name)}`, which is no parameter of the contract",
                did_you_mean(name, list(declared)),
                mark=document.key_mark(("parameters",)),
            )
            continue
        loc: Loc = ("parameters", name, "value") if isinstance(declared[name], dict) else ("parameters", name)
        was = found.values[name]
        if was is None:
            continue
        value, expected = _converted(override, was)
        if value is None:
            document.report(loc, f"the value given for `{name}` does not fit", f"the contract declares {expected}")
            continue
        found.values[name] = value
        if isinstance(declared[name], dict):
            declared[name]["value"] = value
        else:
            declared[name] = value
    return found


def _value(raw: Any) -> Value | None:
    if isinstance(raw, str | int | Decimal):
        return raw
    if isinstance(raw, list) and all(isinstance(item, str) for item in raw):
        return raw
    return None


def _converted(given: object, declared: Value) -> tuple[Value | None, str]:
    """The override as a value of the declared type, or ``None`` and what is declared."""
    match declared:
        case bool():
            words = {"true": True, "false": False}
            return given if isinstance(given, bool) else words.get(str(given).strip().lower()), "`true` or `false`"
        case int() | Decimal():
            return _number(given), "a number"
        case str():
            return given if isinstance(given, str) and _is_text(
                given
            ) else None, f"a text of at most {MAX_TEXT} characters"
        case _:
            return _list(given), 'a list of texts, such as ["a", "b"]'


def _is_text(text: str) -> bool:
    return len(text) <= MAX_TEXT and not any("\ud800" <= char <= "\udfff" for char in text)


def _number(given: object) -> int | Decimal | None:
    if isinstance(given, bool):
        return None
    if isinstance(given, int | Decimal | float):
        given = str(given)
    try:
        return number(given.strip()) if isinstance(given, str) else None
    except NotANumber:
        return None


def _list(given: object) -> list[str] | None:
    if isinstance(given, str):
        try:
            given = json.loads(given) if len(given) <= MAX_TEXT else None
        except (ValueError, RecursionError):
            return None
    if not isinstance(given, list | tuple) or not all(isinstance(item, str) and _is_text(item) for item in given):
        return None
    return list(given)


def as_text(value: str | int | Decimal | bool) -> str:
    """A parameter's value as it stands in a longer text: ``true``, ``12.50``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else str(value)


@dataclass
class Substitution:
    """The result of putting the values in.

    Attributes:
        data: The document's tree with every reference replaced.
        uses: For each parameter, where it is referred to.
        secret: Places whose value contains a secret.
    """

    data: Plain
    uses: dict[str, list[Loc]]
    secret: set[Loc]


def substitute(document: Document, parameters: Parameters, root: Shape) -> Substitution:
    """Replaces the references in a document; what is wrong with them is reported there.

    Args:
        document: The parsed file.
        parameters: The values.
        root: The expected shape of the whole, which tells where patterns stand.
    """
    return _Substituter(document, parameters).run(root)


class _Substituter:
    def __init__(self, document: Document, parameters: Parameters) -> None:
        self._document = document
        self._parameters = parameters
        self._result = Substitution(None, {name: [] for name in parameters.values}, set())

    def run(self, root: Shape) -> Substitution:
        data = self._document.data
        assert isinstance(data, dict)  # parse() gives nothing else
        self._result.data = {
            key: value if key in FIXED else self._replaced(value, (key,), root.child(key))
            for key, value in data.items()
        }
        return self._result

    def _replaced(self, value: Plain, loc: Loc, shape: Shape | None) -> Plain:
        chosen = shape.chosen(value) if shape is not None else None
        if isinstance(value, dict):
            for key in value:
                if "{{" in key:
                    self._document.report(
                        (*loc, key),
                        "a name cannot contain `{{`",
                        "parameters stand in values only",
                        mark=self._document.key_mark((*loc, key)),
                    )
            return {k: self._replaced(v, (*loc, k), chosen.child(k) if chosen else None) for k, v in value.items()}
        if isinstance(value, list):
            return [self._replaced(v, (*loc, i), chosen.child(i) if chosen else None) for i, v in enumerate(value)]
        if isinstance(value, str) and ("{{" in value or "}}" in value):
            return self._text(value, loc, self._syntax(loc, chosen))
        return value

    @staticmethod
    def _syntax(loc: Loc, shape: Shape | None) -> Syntax | None:
        if shape is not None and shape.syntax is not None:
            return shape.syntax
        # The JSON Schema of `returns` is free data to the models; its one pattern is the keyword of that name.
        return Syntax.REGEX if loc[:2] == ("returns", "schema") and loc[-1] == "pattern" else None

    def _text(self, text: str, loc: Loc, syntax: Syntax | None) -> Plain:
        whole = _TOKEN.fullmatch(text)
        if whole is not None and whole[1] is not None and syntax is None:
            found = self._value(whole, loc)
            return text if found is None else found
        parts: list[str] = []
        end = 0
        for token in _TOKEN.finditer(text):
            parts.append(text[end : token.start()])
            end = token.end()
            parts.append(self._part(token, text, loc, syntax))
        return "".join([*parts, text[end:]])

    def _part(self, token: re.Match[str], text: str, loc: Loc, syntax: Syntax | None) -> str:
        if token[0] in ("{{{{", "}}}}"):
            return token[0][:2]
        if token[1] is None:
            what = "is not followed by a name and `}}`" if token[0] == "{{" else "has no `{{name` before it"
            self._report(loc, token, f"`{token[0]}` {what}", f"the text itself is written `{token[0] * 2}`")
            return token[0]
        value = self._value(token, loc)
        if value is None:
            return token[0]
        if isinstance(value, list):
            self._report(
                loc,
                token,
                f"`{token[1]}` is a list and cannot stand within a text",
                'alone it can: "{{name}}" gives the list',
            )
            return token[0]
        return self._escaped(as_text(value), token, text, loc, syntax)

    def _escaped(self, value: str, token: re.Match[str], text: str, loc: Loc, syntax: Syntax | None) -> str:
        before, after = text[: token.start()], text[token.end() :]
        if syntax is Syntax.REGEX:
            if (len(before) - len(before.rstrip("\\"))) % 2:
                self._report(
                    loc,
                    token,
                    "a backslash stands before the parameter",
                    r"the value is escaped already; `\\` is a backslash",
                )
            return re.escape(value)
        if syntax is Syntax.GLOB:
            if not value and before.endswith("*") and after.startswith("*"):
                self._report(loc, token, f"`{token[1]}` is empty and would join two `*`", "give it a value")
            return escape_glob(value)
        return value

    def _value(self, token: re.Match[str], loc: Loc) -> Value | None:
        """The value of the parameter that a token names; ``None`` after a problem."""
        name = token[1]
        if name in self._parameters.values:
            self._result.uses[name].append(loc)
            if name in self._parameters.secret:
                self._result.secret.add(loc)
            return self._parameters.values[name]
        if self._parameters.usable:
            stripped = name.strip()
            if stripped in self._parameters.values:
                hint = f"write `{{{{{stripped}}}}}` without blanks"
            elif _NAME.fullmatch(stripped) is None:
                hint = "names are lower-case letters, digits and `_`; the texts `{{` and `}}` are written `{{{{` and `}}}}`"
            else:
                hint = did_you_mean(stripped, list(self._parameters.values)) or "declare it under `parameters`"
            self._report(loc, token, f"there is no parameter {quoted([name])}", hint)
        return None

    def _report(self, loc: Loc, token: re.Match[str], message: str, hint: str) -> None:
        """Reports at the very reference, where the file shows the text as it was read."""
        mark = self._document.value_mark(loc)
        offset = self._document.text.find(token[0], mark.start, mark.end)
        if offset >= 0:
            source = self._document.text
            line = source.count("\n", mark.start, offset) + mark.line
            start = source.rfind("\n", 0, offset) + 1
            mark = Mark(line, offset - start + 1, offset, offset + len(token[0]))
        self._document.report(loc, message, hint, mark=mark)
