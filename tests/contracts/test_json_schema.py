"""The JSON Schema for editors agrees with the models, and the checked-in copy is current."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import contracts
from contracts.document import parse
from contracts.json_schema import json_schema, text
from tests.contracts.helpers import EXAMPLE, edited
from tests.contracts.test_load import _EVERYTHING

_VALIDATOR = Draft202012Validator(json_schema())


def _as_editors_see_it(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_editors_see_it(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_editors_see_it(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


def errors(contract: str) -> list[Any]:
    return list(_VALIDATOR.iter_errors(_as_editors_see_it(parse(contract, "c").data)))


def test_it_is_a_json_schema() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_the_copy_is_current() -> None:
    copy = Path(contracts.__file__).parent / "contract.schema.json"
    assert copy.read_text(encoding="utf-8") == text(), "write contracts/contract.schema.json anew: legacyproof schema"


def test_the_editor_settings_name_the_copy() -> None:
    root = Path(contracts.__file__).parent.parent
    settings = json.loads((root / ".vscode" / "settings.json").read_text(encoding="utf-8"))
    assert settings["yaml.schemas"] == {"./contracts/contract.schema.json": "contracts/catalog/**/*.yaml"}


@pytest.mark.parametrize(
    "contract",
    [
        EXAMPLE,
        _EVERYTHING,
        edited(("state_changing: true", 'state_changing: "{{changing}}"')),
        edited(("count: 0}", 'count: "{{count}}"}')),
        edited(("{generated: next}", '{one_of: "{{list}}"}')),
        edited(("{generated: next}", '{number: "{{n}}", tolerance: 0.5}')),
        edited(("timeout: 900s", 'timeout: "{{n}}s"')),
        edited(("'C:\\DSWIN'", "'{{root}}\\DSWIN'")),
        edited(("updated: counters", 'updated: "{{table}}"')),
        edited(("start: [dswin]", "start: [{program: dswin, window: {regex: 'DS.*'}}]")),
    ],
)
def test_valid_contracts_validate(contract: str) -> None:
    assert errors(contract) == []


@pytest.mark.parametrize(
    "change",
    [
        ("inserted: patients", "insertd: patients"),
        ("- inserted: patients", "- inserted: patients\n      updated: patients"),
        ("title: Add New Patient\n", ""),
        ("schema: 1", "schema: 2"),
        ("schema: 1", 'schema: "{{one}}"'),
        ("id: dswin.add-new-patient", 'id: "{{id}}"'),
        ("state_changing: true", "state_changing: yes"),
        ("{generated: next}", "{genrated: next}"),
        ("{generated: next}", "{generated: nxt}"),
        ("{generated: next}", "null"),
        ("{generated: next}", "[a]"),
        ("{generated: next}", "{number: twelve}"),
        ("{generated: next}", "{number: 1, tolerance: -1}"),
        ("key: [PATNR]", "key: PATNR"),
        ("'C:\\DSWIN'", "DSWIN"),
        ("{windows: {}}", "{window: {}}"),
        ("last_name: Muster", "Last: Muster"),
        ("      because: the program's own log\n", ""),
        (", because: scratch files}", "}"),
        ("timeout: 900s", "timeout: 900"),
        ("timeout: 900s", "timeout: 900 seconds"),
        ("{window: {title: 'New patient*'}}", "{}"),
        ("setup: []", "setup: [{to: 'C:\\x'}]"),
    ],
)
def test_typical_mistakes_do_not_validate(change: tuple[str, str]) -> None:
    assert errors(edited(change))


def test_models_and_fields_are_described() -> None:
    schema = json_schema()
    without = {"reference", "Matcher"}
    assert [name for name, item in schema["$defs"].items() if name not in without and not item.get("description")] == []
    assert "relative to the tree's root" in schema["$defs"]["Effect"]["properties"]["path"]["description"]
    assert ":attr:" not in text()
