"""The tools beside the computer, and what every model is told about its work."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from validators.returns import UnfitValue, bounded

EXTRACTION = "extraction"
MISMATCH = "ui_not_as_expected"

SYSTEM = """\
You operate one Windows program through screenshots, the mouse and the keyboard. Nobody can answer questions.
Do exactly the task and nothing else. Look at the newest screenshot before each action; every result shows the screen afterwards.
Prefer the keyboard where the task names keys. Check what you typed before you save.
If the screen is not what the task or its step expects, do not improvise: call the tool `ui_not_as_expected` and say why.
When, and only when, the task is done and you have seen that it is, call the tool `extraction` with the values asked for. It ends the
work: whatever is to be closed must be closed before. A reply without a tool call ends the work as a failure."""

_EXTRACTION_TEXT = "Reports that the whole task is done and returns the values asked for. Ends the work."
_MISMATCH_TEXT = "Reports that the screen is not as the task expects, so that it must not go on. Ends the work."


def extraction_schema(response_schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The JSON Schema of the arguments of ``extraction``: ``data`` is what the contract wants returned."""
    if response_schema is None:
        data: dict[str, Any] = {"type": "object", "description": "Nothing is asked for: leave it empty."}
        return {"type": "object", "properties": {"data": data}}
    return {"type": "object", "properties": {"data": copy.deepcopy(dict(response_schema))}, "required": ["data"]}


def mismatch_schema() -> dict[str, Any]:
    """The JSON Schema of the arguments of ``ui_not_as_expected``."""
    reasoning = {"type": "string", "description": "What was expected and what the screen shows instead."}
    return {"type": "object", "properties": {"reasoning": reasoning}, "required": ["reasoning"]}


def functions(response_schema: Mapping[str, Any] | None) -> list[tuple[str, str, dict[str, Any]]]:
    """The two tools: name, description, schema of the arguments."""
    return [
        (EXTRACTION, _EXTRACTION_TEXT, extraction_schema(response_schema)),
        (MISMATCH, _MISMATCH_TEXT, mismatch_schema()),
    ]


def extracted(arguments: Mapping[str, Any], response_schema: Mapping[str, Any] | None) -> tuple[Any, str, bool]:
    """The values of an ``extraction``, why they are not valid (empty: they are), and whether ``data`` had to be supplied.

    The wrapping ``{"name": …, "result": {…}}`` of legacy-use within ``data`` is taken off where the values are valid without it.
    """
    if response_schema is None:
        data = arguments.get("data")
        return (data or None), "", False
    if "data" in arguments:
        given, wrapped = arguments["data"], False
    else:
        given, wrapped = dict(arguments), True
    why = _misfit(given, response_schema)
    if why and isinstance(given, Mapping) and "result" in given and not _misfit(given["result"], response_schema):
        return given["result"], "", True
    return given, why, wrapped


def _misfit(value: Any, schema: Mapping[str, Any]) -> str:
    """What is wrong with a value; the judge looks again later, this is for the model."""
    try:
        value = bounded(value)
        validator = Draft202012Validator(schema, registry=Registry())  # an empty registry: nothing is fetched
        problems: Sequence[Any] = sorted(validator.iter_errors(value), key=lambda problem: str(problem.absolute_path))[
            :5
        ]
    except UnfitValue as error:
        return str(error)
    except (Unresolvable, RecursionError) as error:
        return f"it could not be checked: {str(error)[:200]}"
    return "; ".join(f"{'/'.join(map(str, p.absolute_path)) or 'data'}: {p.message[:200]}" for p in problems)
