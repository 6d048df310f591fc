"""The example of what an agent must return has the schema's shape and gives nothing away."""

from __future__ import annotations

import jsonschema
import pytest

from contracts.load import load_contract
from prompts.response import example_of
from tests.command_line import ROOT

SUITE = sorted((ROOT / "contracts/catalog").rglob("*.yaml"))


@pytest.mark.parametrize("path", SUITE, ids=lambda path: path.stem)
def test_it_names_every_key_that_is_required(path: object) -> None:
    returns = load_contract(path).contract.returns  # type: ignore[arg-type]
    if returns is None:
        assert example_of(None) is None
    else:
        assert set(returns.schema_.get("required", [])) <= set(example_of(returns.schema_))


def test_types_are_shown() -> None:
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "sum": {"type": "number"},
            "some": {"type": "array", "items": {"type": "integer"}},
            "maybe": {"type": ["null", "boolean"]},
            "inner": {"properties": {"x": {}}},
        },
    }
    found = example_of(schema)
    assert found == {"text": "...", "sum": 0.0, "some": [0], "maybe": True, "inner": {"x": "..."}}
    jsonschema.validate(found, schema)


def test_what_could_be_the_answer_is_not_shown() -> None:
    schema = {"type": "object", "properties": {"a": {"const": "secret"}, "b": {"type": "string", "enum": ["x", "y"]}}}
    assert example_of(schema) == {"a": "...", "b": "..."}


@pytest.mark.parametrize("schema", [True, {"type": 5}, {"properties": 5}, {"type": []}, {"type": "array"}])
def test_an_odd_schema_is_no_error(schema: object) -> None:
    assert example_of({"type": "object", "properties": {"a": schema}})


def test_a_schema_that_nests_without_end_is_cut() -> None:
    schema: dict[str, object] = {"type": "object"}
    schema["properties"] = {"a": schema}
    assert str(example_of(schema)).count("a") < 20
