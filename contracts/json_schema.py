"""The contract's JSON Schema for editors, made from the models.

It is what an editor can tell while a contract is written: names, types, choices, and the docstrings as help. It knows what the
models do not see because it is done before: a parameter may stand for any value (``"{{name}}"``), and null is no value.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from typing_extensions import override

from contracts.schema import VERBS, TaskContract

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = {
    "type": "string",
    "pattern": r"^\{\{[a-z][a-z0-9_]*\}\}$",
    "description": "A parameter whose value has the type that is needed here.",
}
_TEXT_WITH_REFERENCE = {
    "type": "string",
    "pattern": r"\{\{[a-z][a-z0-9_]*\}\}",
    "description": "A text that contains parameters.",
}
_WITHOUT_REFERENCES = frozenset({"schema", "id", "image", "parameters"})
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_REASON = {"anyOf": [{"required": ["because"]}, {"required": ["noise"]}]}


class _Generator(GenerateJsonSchema):
    """Pydantic's generator with our three differences: decimals are numbers, null is no value, unions need no tag."""

    @override
    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return {"type": "number"}

    @override
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    @override
    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = self.generate_inner(schema["schema"])
        default = schema.get("default")
        return found | {"default": default} if isinstance(default, bool | int | str) else found

    @override
    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        members = [self.generate_inner(choice) for choice in schema["choices"].values()]
        scalars = [
            member["type"] for member in members if member.keys() == {"type"} and isinstance(member["type"], str)
        ]
        if len(scalars) == len(members):
            return {"type": sorted({"number" if kind == "integer" else kind for kind in scalars})}
        return {"anyOf": members}

    @override
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a contract file, as plain data."""
    matcher: dict[str, Any] = {}
    generated = _clean(TaskContract.model_json_schema(by_alias=True, schema_generator=_Generator), matcher)
    plain = generated.pop("$defs")
    plain["Matcher"] = matcher
    definitions = {name: item if name == "Parameter" else _with_references(item) for name, item in plain.items()}
    definitions["reference"] = _REFERENCE
    definitions["textWithReference"] = _TEXT_WITH_REFERENCE
    contract = _with_references(generated)
    for name in _WITHOUT_REFERENCES:
        contract["properties"][name] = generated["properties"][name]
    _add_rules(definitions)
    return {
        "$schema": _DIALECT,
        "$comment": "Printed by `legacyproof schema`; made from the models, not to be edited.",
        **contract,
        "title": "legacyproof task contract",
        "$defs": dict(sorted(definitions.items())),
    }


def text() -> str:
    """The JSON Schema as the checked-in file has it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def _add_rules(definitions: dict[str, Any]) -> None:
    """What the models say in code, where an editor can say it too."""
    definitions["Effect"]["oneOf"] = [{"required": [verb]} for verb in VERBS]
    definitions["Evidence"]["oneOf"] = [{"required": [key]} for key in ("window", "typed", "changed")]
    definitions["CopyIn"]["oneOf"] = [{"required": [key]} for key in ("copy", "text")]
    definitions["IgnoredPath"] |= _REASON
    definitions["IgnoredWindow"] |= _REASON
    definitions["IgnoredColumn"] |= _REASON
    allow = definitions["Effects"]["properties"]["allow"]
    allow["items"] = {"allOf": [allow["items"], _REASON]}
    start = definitions["InitialState"]["properties"]["start"]
    start["items"] = {"anyOf": [{"type": "string", "description": "A program of the image."}, start["items"]]}
    definitions["Returns"]["properties"]["schema"] = {
        "type": "object",
        "description": "What the returned object looks like (JSON Schema 2020-12).",
    }


def _clean(node: Any, matcher: dict[str, Any]) -> Any:
    """Puts the generator's output into the form that editors understand best; takes out what a matcher is, once."""
    if isinstance(node, list):
        return [_clean(item, matcher) for item in node]
    if not isinstance(node, dict):
        return node
    found = {_BOUNDS.get(key, key): _clean(value, matcher) for key, value in node.items()}
    if isinstance(found.get("description"), str):
        found["description"] = _plain_words(found["description"])
    if "patternProperties" in found:  # a wrong name is a mistake, not another property
        ((pattern, values),) = found.pop("patternProperties").items()
        found["additionalProperties"] = values
        found["propertyNames"] = found.get("propertyNames", {}) | {"pattern": pattern}
    choices = found.get("anyOf", ())
    if {"$ref": "#/$defs/FieldOf"} in choices and {"$ref": "#/$defs/Is"} in choices:
        matcher["anyOf"] = found.pop("anyOf")
        matcher["description"] = "A bare value (a literal), or a mapping that says what it is."
        found["$ref"] = "#/$defs/Matcher"
    return found


def _has_other_type(schema: dict[str, Any]) -> bool:
    """Whether the schema refuses the text ``{{name}}``, and a parameter's value may be what it wants."""
    kind = schema.get("type")
    if kind == "array":  # a parameter may be a list of texts
        items = schema.get("items", {})
        return bool(items.get("type") == "string" or items == {"$ref": "#/$defs/Matcher"})
    return kind in ("boolean", "integer", "number") or "const" in schema or (kind == "string" and "enum" in schema)


def _plain_words(docstring: str) -> str:
    return re.sub(r"(?::\w+:)?`{1,2}([^`]+)`{1,2}", r"`\1`", docstring)


def _with_references(node: Any) -> Any:
    """Lets a parameter stand wherever the schema wants something that the text ``{{name}}`` is not."""
    if isinstance(node, list):
        return [_with_references(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: value if key in ("propertyNames", "default", "required", "enum") else _with_references(value)
             for key, value in node.items()}  # fmt: skip
    kind = found.get("type")
    if kind == "string" and "pattern" in found:
        alternative = "textWithReference"
    elif _has_other_type(found):
        alternative = "reference"
    else:
        return found
    outside = {key: found.pop(key) for key in ("description", "default") if key in found}
    return outside | {"anyOf": [found, {"$ref": f"#/$defs/{alternative}"}]}
