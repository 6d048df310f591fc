"""Parameters: values, overrides, and what their replacement may and may not do."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.globs import compile_glob, fold
from contracts.load import ContractError, LoadedContract, load_text
from contracts.parameters import literal
from tests.contracts.helpers import EXAMPLE, edited, place, problems

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def contract(
    value: str, *, parameters: str = "", given_values: dict[str, Any] | None = None, field: str = "VERSNR"
) -> LoadedContract:
    """The example with one field's matcher and further parameters as written."""
    text = edited(
        (f'        {field}: "{{{{insurance_number}}}}"', f"        {field}: {value}"),
        ("parameters:\n", f"parameters:\n{parameters}"),
    )
    return load_text(text, name="c", parameters=given_values or {})


def matcher(loaded: LoadedContract, field: str = "VERSNR") -> Any:
    return loaded.contract.effects.expect[0].fields[field]


@pytest.mark.parametrize(
    ("parameters", "value", "expected"),
    [
        ("  n: 5\n", '"{{n}}"', 5),
        ("  n: 12.50\n", '"{{n}}"', Decimal("12.50")),
        ("  n: true\n", '"{{n}}"', True),
        ("  n: '5'\n", '"{{n}}"', "5"),
        ("  n: 5\n", '"a{{n}}b{{n}}"', "a5b5"),
        ("  n: 1e2\n", '"{{n}} "', "100 "),
        ("  n: false\n", '"is {{n}}"', "is false"),
        ("  n: {value: geheim, secret: true}\n", '"{{n}}"', "geheim"),
        ("  n: x\n", '"{{{{n}}}}"', "{{n}}"),
        ("  n: x\n", '"{{{{{{n}}}}}}"', "{{x}}"),
        ("  n: x\n", '"{n} {{n}}}}}}"', "{n} x}}"),
        ("  n: '{{insurance_number}}'\n", '"{{n}}"', "{{insurance_number}}"),
        ("  n: '{{{{'\n", '"{{n}}+"', "{{{{+"),
    ],
)
def test_replacement(parameters: str, value: str, expected: object) -> None:
    found = matcher(contract(value, parameters=parameters))
    assert found == expected
    assert type(found) is type(expected)


def test_a_list_stands_alone() -> None:
    loaded = contract('{one_of: "{{many}}"}', parameters="  many: [a, b]\n")
    assert matcher(loaded).one_of == ["a", "b"]


def test_nothing_is_replaced_in_schema_id_image_and_parameters() -> None:
    text = edited(("id: dswin.add-new-patient", 'id: "{{last_name}}"'), ("first_name: Erika", 'first_name: "{{x}}"'))
    assert problems(text) == [
        place(text, '"{{last_name}}"')
        + "id: the text `{{last_name}}` is no identifier; lower-case letters and digits, "
        "with single `.` or `-` between them, such as `dswin.add-new-patient`"
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"{{insurance_numbr}}"', "there is no parameter `insurance_numbr`; did you mean `insurance_number`?"),
        ('"a {{nothing_like_it}}"', "there is no parameter `nothing_like_it`; possible here: "),
        (
            '"{{ insurance_number }}"',
            "there is no parameter ` insurance_number `; write `{{insurance_number}}` without blanks",
        ),
        ('"{{Insurance}}"', "there is no parameter `Insurance`; names are lower-case letters"),
        ('"{{}}"', "there is no parameter ``; names are"),
        ('"a {{ b"', "`{{` is not followed by a name and `}}`; the text itself is written `{{{{`"),
        ('"a }} b"', "`}}` has no `{{name` before it; the text itself is written `}}}}`"),
        ('"x{{many}}"', "`many` is a list and cannot stand within a text"),
        (r"{regex: '\{{first_name}}'}", "a backslash stands before the parameter"),
        ('{"{{first_name}}": a}', "a name cannot contain `{{`; parameters stand in values only"),
    ],
)
def test_wrong_references(value: str, message: str) -> None:
    text = edited(
        ('VERSNR: "{{insurance_number}}"', f"VERSNR: {value}"), ("parameters:\n", "parameters:\n  many: [a, b]\n")
    )
    (found,) = problems(text)
    # A reference is pointed at itself, a key and a stray brace likewise.
    part = re.search(r"\"\{\{first_name\}\}\": a|\{\{[^}]*\}\}|\{\{|\}\}", value)
    assert part is not None
    at = place(text, part[0], "VERSNR: " + value)
    assert found.startswith(at + "effects.expect[0].fields.VERSNR")
    assert message in found


def test_a_reference_in_a_later_line_of_a_text_is_pointed_at() -> None:
    text = edited(("  summary: Exactly", "  summary: >\n   a text\n   with {{nam}} in it\n   Exactly"))
    assert problems(text)[0].startswith(place(text, "{{nam}}") + "goal_state.summary: there is no parameter `nam`")


@pytest.mark.parametrize(
    ("declared", "given_value", "expected"),
    [
        ("'x'", "0123", "0123"),
        ("5", "17", 17),
        ("5", " 12.50 ", Decimal("12.50")),
        ("5.0", 3, 3),
        ("true", "False", False),
        ("{value: geheim, secret: true}", "yyyy", "yyyy"),
    ],
)
def test_overrides(declared: str, given_value: Any, expected: object) -> None:
    loaded = contract('"{{n}}"', parameters=f"  n: {declared}\n", given_values={"n": given_value})
    assert matcher(loaded) == expected
    assert type(matcher(loaded)) is type(expected)
    assert loaded.contract.parameter_values["n"] == expected
    assert loaded.contract.secrets == (("yyyy",) if "secret" in declared else ())


def test_a_list_is_given_as_json() -> None:
    for value in ('["a", "ö"]', ["a", "ö"], ("a", "ö")):
        loaded = contract('{one_of: "{{n}}"}', parameters="  n: [x]\n", given_values={"n": value})
        assert loaded.contract.parameter_values["n"] == ["a", "ö"]


@pytest.mark.parametrize(
    ("declared", "given_value", "expected"),
    [
        ("5", "0123", "declares a number"),
        ("5", "x", "declares a number"),
        ("5", "1e999999999", "declares a number"),
        ("5", True, "declares a number"),
        ("true", "yes", "declares `true` or `false`"),
        ("[a]", "a, b", "declares a list of texts"),
        ("[a]", "[1]", "declares a list of texts"),
        ("[a]", "[" * 5_000, "declares a list of texts"),
        ("x", 5, "declares a text"),
        ("x", "y" * 20_001, "declares a text"),
        ("x", "\ud800", "declares a text"),
    ],
)
def test_overrides_that_do_not_fit(declared: str, given_value: object, expected: str) -> None:
    text = edited(("parameters:\n", f"parameters:\n  n: {declared}\n"))
    (found,) = problems(text, n=given_value)
    assert found.startswith(place(text, declared, "  n: ") + "parameters.n: the value given for `n` does not fit; ")
    assert expected in found


def test_an_override_of_an_undeclared_parameter() -> None:
    assert problems(EXAMPLE, last_nam="x") == [
        "11:1: parameters.last_nam: a value is given for `last_nam`, which is no parameter of the contract; "
        "did you mean `last_name`?"
    ]


def test_uses_are_known() -> None:
    loaded = load_text(EXAMPLE, name="c")
    assert loaded.parameter_uses["birth_date"] == (("effects", "expect", 0, "fields", "GEBDAT"),)
    assert len(loaded.parameter_uses["insurance_number"]) == 2


def test_a_value_is_escaped_in_every_pattern() -> None:
    text = edited(
        ("path: '*.TMP'", "path: 'x-{{last_name}}-*'"),
        ("path: 'DSWIN.LOG'", "path: '{{last_name}}.LOG'"),
        ("title: 'New patient*'", "title: '{{last_name}}*'"),
        ('VERSNR: "{{insurance_number}}"', "VERSNR: {regex: '{{last_name}}[0-9]+'}"),
        ("{patient_number: {type: string}}", "{patient_number: {type: string, pattern: '^{{last_name}}$'}}"),
        ('typed: "{{insurance_number}}"', 'typed: "{{last_name}}"'),
    )
    loaded = load_text(text, name="c", parameters={"last_name": "a*[b].c"}).contract
    assert loaded.observe["program"].ignore[0].path == "x-a[*][[]b].c-*"  # type: ignore[union-attr]
    assert loaded.effects.allow[0].path == "a[*][[]b].c.LOG"
    assert loaded.stages["navigation"].window.title == "a[*][[]b].c*"  # type: ignore[union-attr]
    assert loaded.effects.expect[0].fields["VERSNR"].regex == r"a\*\[b\]\.c[0-9]+"  # type: ignore[union-attr]
    assert loaded.returns is not None
    assert loaded.returns.schema_["properties"]["patient_number"]["pattern"] == r"^a\*\[b\]\.c$"
    assert loaded.stages["interaction"].typed == "a*[b].c"


def test_a_field_called_like_a_pattern_is_none() -> None:
    text = edited(('VERSNR: "{{insurance_number}}"', 'regex: "{{last_name}}"'))
    loaded = load_text(text, name="c", parameters={"last_name": "a.b"})
    assert matcher(loaded, "regex") == "a.b"


def test_an_empty_value_does_not_join_stars() -> None:
    text = edited(("path: 'DSWIN.LOG'", "path: '*{{last_name}}*'"))
    (found,) = problems(text, last_name="")
    assert "`last_name` is empty and would join two `*`" in found


@given(_TEXTS)
def test_a_value_is_never_expanded_again(value: str) -> None:
    assert matcher(contract('"{{first_name}}"', given_values={"first_name": value})) == value
    assert matcher(contract('"<{{first_name}}>"', given_values={"first_name": value})) == f"<{value}>"


@given(_TEXTS)
def test_literal_braces_come_back(value: str) -> None:
    assert matcher(contract(json.dumps(literal(value)))) == value


@given(_TEXTS.filter(bool), _TEXTS)
def test_a_regex_made_from_a_value_matches_exactly_it(value: str, other: str) -> None:
    expression = matcher(contract("{regex: '{{first_name}}'}", given_values={"first_name": value})).regex
    assert re.fullmatch(expression, value)
    assert (re.fullmatch(expression, other) is not None) == (value == other)


_NAMES = st.text(st.characters(exclude_characters='\\/:"<>|', exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


@given(_NAMES.filter(lambda name: name not in (".", "..")), _NAMES)
def test_a_glob_made_from_a_value_matches_exactly_it(value: str, other: str) -> None:
    text = edited(("path: 'DSWIN.LOG'", "path: '{{first_name}}'"))
    pattern = load_text(text, name="c", parameters={"first_name": value}).contract.effects.allow[0].path
    assert pattern is not None
    assert compile_glob(pattern)(value)
    assert compile_glob(pattern)(other) == (fold(value) == fold(other))


@pytest.mark.parametrize(
    "change",
    [
        ('VERSNR: "{{insurance_number}}"', 'VERSNR: {boolean: "{{pin}}"}'),
        ('VERSNR: "{{insurance_number}}"', 'VERSNR: {is: "{{pin}}"}'),
        ("updated: counters", 'updated: "{{pin}}"'),
        ("updated: counters", 'updated: "x{{pin}}"'),
        ("encoding: cp850", 'encoding: "{{pin}}"'),
        ("field: new_patient.PATNR}}\n  allow", 'field: "{{pin}}.X"}}\n  allow'),
        ("secret: true}", "secret: true, valeu: 1}"),
        ("value: geheim77", "value: [geheim77, 1]"),
        ("'C:\\DSWIN\\DATA\\PATIENT.DBF'", '"{{pin}}"'),
    ],
)
def test_a_secret_never_stands_in_a_message(change: tuple[str, str]) -> None:
    text = edited(("parameters:\n", "parameters:\n  pin: {value: geheim77, secret: true}\n"), change)
    with pytest.raises(ContractError) as caught:
        load_text(text, name="c")
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("value", ["7", "true", "1.5", "abc", "''", "[geheim, ab]", "4711"])
def test_what_cannot_be_kept_secret_is_refused(value: str) -> None:
    text = edited(("parameters:\n", f"parameters:\n  pin: {{value: {value}, secret: true}}\n"))
    assert any("a secret is a text of at least 4 characters" in problem for problem in problems(text))
