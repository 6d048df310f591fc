"""Loading a contract whole: the example, messages that say what to change, and input that nobody meant well."""

import hashlib
import os
import random
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from contracts.load import ContractError, load_contract, load_text, read_model
from contracts.problems import MAX_PROBLEMS
from contracts.schema import IgnoredPath, Is, Model, TaskContract
from tests.contracts.helpers import EXAMPLE, edited, place, problems


def test_the_example_of_the_design(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(EXAMPLE, encoding="utf-8")
    loaded = load_contract(path)
    assert loaded.path == path
    assert loaded.source == EXAMPLE.encode()
    assert loaded.sha256 == hashlib.sha256(EXAMPLE.encode()).hexdigest()
    assert loaded.warnings == ()
    contract = loaded.contract
    assert contract.id == "dswin.add-new-patient"
    assert contract.initial_state.start[0].program == "dswin"
    assert contract.effects.expect[0].fields["NAME"] == "Muster"
    assert contract.stages["interaction"].typed == "1234567890"
    assert contract.limits.timeout == 900
    assert (
        str(loaded.problem(("effects", "expect", 1), "odd", "change it"))
        == f"{path}:41:7: effects.expect[1]: odd; change it"
    )


def test_no_number_is_a_float() -> None:
    text = edited(('VERSNR: "{{insurance_number}}"', "VERSNR: {number: 0.1, tolerance: 0.2}\n        X: 0.3"))
    fields = load_text(text, name="c").contract.effects.expect[0].fields
    assert fields["VERSNR"].number == Decimal("0.1")  # type: ignore[union-attr]
    assert fields["VERSNR"].tolerance == Decimal("0.2")  # type: ignore[union-attr]
    assert fields["X"] == Decimal("0.3")


_LOG = "path: 'DSWIN.LOG'"


@pytest.mark.parametrize(
    ("change", "at", "words"),
    [
        # names
        (("inserted: patients", "insertd: patients"), "insertd", "effects.expect[0].insertd: unknown field `insertd`; did you mean `inserted`?"),
        (("title: Add", "titel: Add"), "titel", "titel: unknown field `titel`; did you mean `title`?"),
        (("title: Add New Patient\n", ""), "schema", "title: `title` is missing"),
        (("summary: The program", "summry: The program"), "summry", "initial_state.summry: unknown field `summry`; did you mean `summary`?"),
        (("{dbf: 'C:\\DSWIN\\DATA\\PATIENT.DBF'", "{dfb: 'C:\\DSWIN\\DATA\\PATIENT.DBF'"), "{dfb", "observe.patients: one of `dbf`, `files`, `windows`, `registry`, `sql` is needed here; did you mean `dbf`?"),
        (("last_name: Muster", "last_name: Muster\n  Last: x"), "Last:", "parameters.Last: the text `Last` is no name; names are lower-case letters"),
        # matchers
        (("{generated: next}", "{genrated: next}"), "genrated", "effects.expect[0].fields.PATNR.genrated: unknown matcher `genrated`; did you mean `generated`?"),
        (("{generated: next}", "{not: {not: {regx: a}}}"), "regx", "effects.expect[0].fields.PATNR.not.not.regx: unknown matcher `regx`; did you mean `regex`?"),
        (("{generated: next}", "{not: {not: {regex: a}, bogus: 1}}"), "bogus", "effects.expect[0].fields.PATNR.not.bogus: unknown field `bogus`"),
        (("{generated: next}", "{generated: nxt}"), "nxt", "effects.expect[0].fields.PATNR.generated: one of `next`, `unique` is needed, found the text `nxt`; did you mean `next`?"),
        (("{generated: next}", "[a, b]"), "[a, b]", "effects.expect[0].fields.PATNR: a list is no matcher; several values that are right: `{one_of: [a, b]}`"),
        (("{generated: next}", "{regex: a, text: b}"), "text: b", "effects.expect[0].fields.PATNR.text: a matcher says one thing: here are `regex` and `text`; combine them"),
        (("{generated: next}", "{regex: '(a'}"), "'(a'", "effects.expect[0].fields.PATNR.regex: not a regular expression: missing )"),
        (("{generated: next}", "{is: any}"), "{is: any}", "effects.expect[0].fields.PATNR: `{is: any}` accepts everything: say `because: …` beside it"),
        (("{generated: next}", "null"), "null", "effects.expect[0].fields.PATNR: no value stands here; a field that is NULL is written `{is: null}`, an empty one `{is: empty}`"),
        (("{generated: next}", ""), "PATNR: \n", "effects.expect[0].fields.PATNR: no value stands here"),
        (("{generated: next}", "{field: NAME}"), "NAME}", "effects.expect[0].fields.PATNR.field: the text `NAME` is no reference; write `effect_name.FIELD`"),
        (("{generated: next}", "{between: [2, 1]}"), "{between", "effects.expect[0].fields.PATNR: the first end is above the second"),
        (("{generated: next}", "{between: [1]}"), "[1]}", "effects.expect[0].fields.PATNR.between[1]: an entry is missing"),
        (("{generated: next}", "{number: '12.5'}"), "'12.5'", "effects.expect[0].fields.PATNR.number: a number is needed, found the text `12.5`; write it without quotes"),
        (("{generated: next}", "{boolean: ja}"), "ja}", "effects.expect[0].fields.PATNR.boolean: `true` or `false` is needed, found the text `ja`"),
        # types
        (("state_changing: true", "state_changing: yes"), "yes", "state_changing: `true` or `false` is needed, found the text `yes`"),
        (("state_changing: true", "state_changing: 'true'"), "'true'", "state_changing: `true` or `false` is needed, found the text `true`; write it without quotes"),
        (("application: DSWin", "application: 5"), "5\n", "application: a text is needed, found the number 5; quote it"),
        (("key: [PATNR]", "key: PATNR"), "PATNR, enc", "observe.patients.key: a list is needed, found the text `PATNR`; write `[a, b]`"),
        (("where: {NAME: PATIENT}", "where: PATIENT"), "PATIENT\n", "effects.expect[1].where: a mapping is needed, found the text `PATIENT`"),
        (("count: 0}", "count: '0'}"), "'0'", "initial_state.require[0].count: a whole number is needed, found the text `0`; write it without quotes"),
        (("count: 0}", "count: {max: -1}}"), "-1", "initial_state.require[0].count.max: the number -1 is out of range; at least 0"),
        (("schema: 1", "schema: 2"), "2", "schema: this must be `1`, found the number 2"),
        (("schema: 1", "schema: true"), "true", "schema: this must be the number `1`"),
        (("on_failure: unchanged", "on_failure: gaol"), "gaol", "on_failure: one of `unchanged`, `goal` is needed, found the text `gaol`; did you mean `goal`?"),
        (("on_failure: unchanged", "on_failure: {goal: x}"), "x}", "on_failure.goal: the text `x` is too short; at least 3 characters"),
        (("timeout: 900s", "timeout: 900"), "900}", "limits.timeout: a duration with its unit is needed, such as `900s`"),
        (("setup: []", "setup:"), "setup:", "initial_state.setup: no value stands here; give it a value or leave it out"),
        (("start: [dswin]", "start: [DSWin]"), "DSWin]", "initial_state.start[0]: the text `DSWin` is no name"),
        (("setup: []", "setup: [{copy: x}]"), "{copy: x}", "initial_state.setup[0].to: `to` is missing"),
        (("setup: []", "setup: [{cpy: x}]"), "{cpy: x}", "initial_state.setup[0]: one of `copy` or `text` with `to`, `run` is needed here"),
        (("observe:\n", "observe:\n  x: C:\\DSWIN\n"), "C:\\DSWIN\n", "observe.x: a mapping is needed, found the text `C:\\DSWIN`; write `{dbf: 'C:\\DATA\\TABLE.DBF'}`"),
        # paths and patterns
        (("'C:\\DSWIN'", "'DSWIN'"), "'DSWIN'", "observe.program.files: the text `DSWIN` is no absolute Windows path; begin with the drive"),
        (("'C:\\DSWIN'", '"C:\\temp"'), '"C:\\temp"', "in double quotes `\\t`, `\\n` and the like are control characters: use single quotes"),
        (("'C:\\DSWIN'", "'C:\\DSWIN\\..\\X'"), "'C:\\DSWIN\\..", "observe.program.files: a path is written without `.` and `..`"),
        (("'C:\\DSWIN'", "'C:\\DSWIN\\*.DBF'"), "'C:\\DSWIN\\*", "observe.program.files: a Windows path cannot contain `*`"),
        ((_LOG, "path: 'C:\\DSWIN\\DSWIN.LOG'"), "'C:\\DSWIN\\DSWIN.LOG'", "effects.allow[0].path: a pattern is relative to the observable's root"),
        ((_LOG, "path: 'LOGS\\'"), "'LOGS\\'", "effects.allow[0].path: a pattern cannot end in a separator"),
        ((_LOG, "path: '[a.LOG'"), "'[a.LOG'", "effects.allow[0].path: a `[` is not closed"),
        ((", because: scratch files}", "}"), "{path: '*.TMP'", "observe.program.ignore[0]: an ignore rule needs `because: …`"),
        (("{window: {title: 'New patient*'}}", "{window: {title: a}, typed: b}"), "{window: {title: a}", "stages.navigation: a stage needs exactly one of"),
        (("- inserted: patients", "- inserted: patients\n      updated: patients"), "inserted: patients", "effects.expect[0]: an effect needs exactly one verb with its observable, such as `inserted: patients`; found: `inserted`, `updated`"),
    ],
)  # fmt: skip
def test_one_mistake_one_message_with_its_place(change: tuple[str, str], at: str, words: str) -> None:
    text = edited(change)
    (found,) = problems(text)
    start = place(text, at, change[1] if at in change[1] else "")
    assert found.startswith(start), (found, start)
    assert words in found


def test_ten_common_mistakes_together_give_ten_messages() -> None:
    text = edited(
        ("schema: 1", "schema: '1'"),
        ("state_changing: true", "state_changing: yes"),
        ("first_name: Erika", "first_name: *erika"),
        ('birth_date: "1964-08-12"', "birth_date: 0812"),
        ("start: [dswin]", "start: dswin"),
        ("'C:\\DSWIN\\DATA\\PATIENT.DBF'", "PATIENT.DBF"),
        ("- inserted: patients", "- insert: patients"),
        ('NAME: "{{last_name}}"\n', 'NAME: "{{lastname}}"\n'),
        ("{date: today}", "{dat: today}"),
        ("timeout: 900s", "timeout: 15"),
    )
    found = problems(text)
    assert len(found) == 10, found
    assert [line.split(": ")[1] for line in found] == [
        "schema", "state_changing", "parameters.first_name", "parameters.birth_date", "initial_state.start",
        "observe.patients.dbf", "effects.expect[0].insert", "effects.expect[0].fields.NAME",
        "effects.expect[0].fields.ANGELEGT.dat", "limits.timeout",
    ]  # fmt: skip
    assert all(";" in line or "must be" in line or "needed" in line for line in found), found


def test_problems_are_bounded() -> None:
    text = edited(("observe:\n", "observe:\n" + "".join(f"  x{i}: {{fils: a}}\n" for i in range(100))))
    with pytest.raises(ContractError) as caught:
        load_text(text, name="c")
    assert len(caught.value.problems) == MAX_PROBLEMS
    assert str(caught.value).splitlines()[-1] == f"… and {100 - MAX_PROBLEMS} more"


def test_hostile_names_stay_on_one_line() -> None:
    (found,) = problems(edited(("title: Add", '"x\\n\\e[31m\\u202e' + "y" * 500 + '": 1\ntitle: Add')))
    assert found.isprintable()
    assert len(found) < 300


@pytest.mark.parametrize("make", ["folder", "missing", "pipe", "zero"])
def test_what_cannot_be_read_is_a_problem(tmp_path: Path, make: str) -> None:
    path = {"folder": tmp_path, "zero": Path("/dev/zero")}.get(make, tmp_path / "c.yaml")
    if make == "pipe":
        os.mkfifo(path)
    with pytest.raises(ContractError, match=r":1:1: the file cannot be read: "):
        load_contract(path)


def test_warnings_have_places() -> None:
    text = edited(('VERSNR: "{{insurance_number}}"', "VERSNR: +4930123"))
    (warning,) = load_text(text, name="c").warnings
    assert str(warning).removeprefix("c:").startswith(place(text, "+4930123") + "effects.expect[0].fields.VERSNR: ")


class _Other(Model):
    name: str
    rules: list[IgnoredPath] = Field(default_factory=list)


def test_other_models_are_read_by_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("name: '{{x}}'\nrules: [{path: a, because: why not}]\n", encoding="utf-8")
    assert read_model(path, _Other).name == "{{x}}"
    path.write_text("nam: a\nrules: [{path: a}]\n", encoding="utf-8")
    with pytest.raises(ContractError) as caught:
        read_model(path, _Other)
    assert [(p.line, p.column, p.field) for p in caught.value.problems] == [(1, 1, "nam"), (2, 9, "rules[0]")]
    path.write_text("name:\n", encoding="utf-8")
    with pytest.raises(ContractError, match="no value stands here"):
        read_model(path, _Other)


_EVERYTHING = edited(
    (
        "  expect:\n",
        "  expect:\n"
        "    - {updated: patients, where: {A: {between: [1, 2.5]}}, fields: {B: {not: {text: x, normalise: [case]}},"
        " C: {one_of: [a, 1, 1.50, true, {is: any, because: free text}]}, D: {number: 1, relative: 0.1}}, count: {min: 2},"
        " weight: 0.5, when: success}\n"
        "    - {created: program, path: a, content: {text: {regex: a}, encoding: cp850}}\n"
        "    - {modified: program, path: b, content: {sha256: '" + "Ab" * 32 + "'}}\n"
        "    - {renamed: program, from: c, path: d, content: {size: {between: [1, 9]}}}\n",
    ),
    ("on_failure: unchanged", "on_failure: {goal: it is enough}"),
    ("parameters:\n", "parameters:\n  pin: {value: geheim, secret: true, unchecked: typed only}\n  list: [a, b]\n"),
    ("setup: []", "setup: [{text: x, to: 'C:\\x'}, {run: ['C:\\a.exe'], timeout: 5s}]"),
)


@pytest.mark.parametrize("text", [EXAMPLE, _EVERYTHING])
def test_dumping_and_validating_gives_the_same(text: str) -> None:
    contract = load_text(text, name="c").contract
    dumped = contract.model_dump(mode="python", by_alias=True, exclude_defaults=True)
    assert TaskContract.model_validate(dumped) == contract
    assert TaskContract.model_validate(contract.model_dump(by_alias=True, exclude_none=True)) == contract


def _never_anything_else(text: str | bytes) -> None:
    try:
        loaded = load_text(text, name="c")
    except ContractError as error:
        assert error.problems  # noqa: PT017
        assert all(str(problem).isprintable() for problem in error.problems)  # noqa: PT017
    else:
        assert isinstance(loaded.contract, BaseModel)


@given(st.binary(max_size=300) | st.text(max_size=300))
def test_arbitrary_input(text: str | bytes) -> None:
    _never_anything_else(text)


_PIECES = [
    "{{", "}}", "{{x}}", "{{last_name}}", "'", '"', "\t", ": ", "- ", "[", "]", "{", "}", "*", "&a", "!", "|", ">", "%", "@",
    "#", "\n", "\n  ", "\\", '"\\x00"', '"\\ud800"', "null", "0123", "1e99999", "? ", "<<: ", "---\n", "...\n", "\u2028", "\x85",
    "\ufeff", "true", "5", "1.5", "{is: any}", "{field: new_patient.PATNR}", "{returned: patient_number}", "{generated: next}",
    "count: 0\n", "%YAML 1.1\n", "$ref: '#'", "{regex: '(a'}", "[a, b]", "\x00", "\u202e",
]  # fmt: skip


@settings(max_examples=400, deadline=3_000)
@given(st.integers(0, 2**32), st.integers(1, 6), st.booleans())
def test_mutated_contracts(seed: int, changes: int, as_bytes: bool) -> None:
    choose = random.Random(seed)
    text = choose.choice([EXAMPLE, _EVERYTHING])
    for _ in range(changes):
        at = choose.randrange(len(text) + 1)
        lines = text.splitlines(keepends=True)
        match choose.randrange(4):
            case 0:
                text = text[:at] + choose.choice(_PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + choose.randrange(1, 12) :]
            case 2:
                lines.insert(choose.randrange(len(lines) + 1), choose.choice(lines) if lines else "x")
                text = "".join(lines)
            case _:
                text = "".join(line for line in lines if choose.random() > 0.03)
    _never_anything_else(text.encode("utf-8", "surrogatepass") if as_bytes else text)


def test_large_and_deep_input_is_refused_in_time() -> None:
    nested = "(" * 900 + ")" * 900
    for text in (
        "[" * 500_000,
        "{" * 500_000,
        "- " * 500_000,
        "a: &a [x]\n" + "".join(f"k{i}: &k{i} [*a, *a]\n" for i in range(2_000)),
        edited(("{generated: next}", f"{{regex: '{nested}'}}")),
        edited(("{generated: next}", "{regex: 'a{99999999999999999999}'}")),
    ):
        with pytest.raises(ContractError):
            load_text(text, name="c")


def test_the_word_null_is_a_matcher_and_an_empty_one_is_a_mistake() -> None:
    contract = load_text(edited(("{generated: next}", "{is: null}")), name="c.yaml").contract
    assert contract.effects.expect[0].fields["PATNR"] == Is.model_validate({"is": "null"})
    with pytest.raises(ContractError, match="no value stands here"):
        load_text(edited(("{generated: next}", "{is: }")), name="c.yaml")
