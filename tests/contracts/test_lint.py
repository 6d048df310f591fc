"""Lint: every rule is tripped by its example and by nothing in the catalogue, and its messages say what to change."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.lint import RULES, Known, KnownTable, Rule, lint, not_loaded, reference
from contracts.lint_rules.base import accepts_all, matches_everything
from contracts.lint_rules.examples import BASE, EXAMPLES, KNOWN, composed
from contracts.lint_rules.loading import ODD_VALUE
from contracts.lint_rules.paths import covers, examples, is_broad
from contracts.load import ContractError, load_contract, load_text
from contracts.schema import Is, Not, OneOf, Regex
from tests.contracts.helpers import EXAMPLE

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = sorted((ROOT / "contracts/catalog").rglob("*.yaml"))
RULE_IDS = [rule.id for rule in RULES]


def found(text: str, known: Known | None = None) -> list[str]:
    """The ids of the rules that a contract trips; it loads."""
    return [finding.rule.id for finding in lint(load_text(text, name="c"), known)]


def messages(text: str, known: Known | None = None) -> list[str]:
    """What is told of a contract, without the file's name."""
    try:
        return [str(finding).removeprefix("c:") for finding in lint(load_text(text, name="c"), known)]
    except ContractError as error:
        return [str(finding).removeprefix("c:") for finding in not_loaded(error)]


def effects(*lines: str, observe: str = "", more: str = "") -> str:
    """The base with other expected effects, and with one more thing observed, or observed otherwise."""
    observed = BASE[BASE.index("observe:") : BASE.index("effects:")]
    if observe:
        name = observe.partition(":")[0]
        kept = [line for line in observed.splitlines() if not line.startswith(f"  {name}:")]
        observed = "\n".join([*kept, f"  {observe}", ""])
    return composed(observed + "effects:\n  expect:\n" + "".join(f"    - {line}\n" for line in lines) + more)


# --- the rules as a whole ---------------------------------------------------------------------------------------------------


def test_each_rule_has_an_example_and_no_id_is_used_twice() -> None:
    assert len(set(RULE_IDS)) == len(RULE_IDS)
    assert set(EXAMPLES) == set(RULE_IDS)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.check or rule is ODD_VALUE], ids=lambda rule: rule.id)
def test_its_example_trips_a_rule_and_no_other(rule: Rule) -> None:
    example = EXAMPLES[rule.id]
    (told,) = lint(load_text(composed(example.trips), name="c"), example.known, measured_quiet=example.measured_quiet)
    assert (told.rule, told.severity) == (rule, rule.severity)
    assert told.message
    assert told.fix
    assert f"[{rule.severity}: {rule.id}]" in str(told)


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if not rule.check and rule is not ODD_VALUE], ids=lambda rule: rule.id
)
def test_an_example_that_cannot_be_loaded_is_told_on_loading(rule: Rule) -> None:
    with pytest.raises(ContractError) as caught:
        load_text(composed(EXAMPLES[rule.id].trips), name="c")
    (told,) = not_loaded(caught.value)
    assert told.severity == rule.severity == "error"
    assert told.fix


@pytest.mark.parametrize("rule_id", RULE_IDS)
def test_the_mended_example_is_free_of_findings(rule_id: str) -> None:
    example = EXAMPLES[rule_id]
    assert messages(composed(example.fixed)) == []
    if example.known is not None:
        assert messages(composed(example.fixed), KNOWN) == []


def test_the_base_of_the_examples_is_free_of_findings() -> None:
    assert messages(BASE) == []
    assert messages(EXAMPLE) == []


@pytest.mark.parametrize("path", CATALOGUE, ids=lambda path: path.stem)
def test_the_catalogue_is_free_of_errors_and_warnings(path: Path) -> None:
    assert [str(finding) for finding in lint(load_contract(path))] == []


def test_the_reference_in_the_docs_is_current() -> None:
    written = (ROOT / "docs/lint.md").read_text(encoding="utf-8")
    assert written == reference(), "write it anew: legacyproof lint --rules > docs/lint.md"
    assert unicodedata.normalize("NFC", written) != written  # the example of normal forms is whole


# --- ten mistakes that people make ------------------------------------------------------------------------------------------

TEN = {
    "wrong indent": (BASE.replace("      fields: {NR", "     fields: {NR"), "the indentation does not fit"),
    "unknown observable": (composed(EXAMPLES["unknown-observable"].trips), "did you mean `customers`?"),
    "a date written 12.08.1964": (composed(EXAMPLES["date-not-iso"].trips), "write it as `1964-08-12`"),
    "leading zero": (composed(EXAMPLES["cannot-load"].trips), "quote it if it is a text, else leave the zero out"),
    "unquoted star": (
        BASE.replace("NAME: '{{name}}'}", "NAME: '{{name}}', *: {is: empty}}"),
        "quote the text, such as '*.TMP'",
    ),
    "misspelt word": (BASE.replace("fields:", "feilds:"), "did you mean `fields`?"),
    "misspelt field of the table": (composed(EXAMPLES["unknown-field"].trips), "did you mean `NAME`?"),
    "key that is not unique": (composed(EXAMPLES["key-not-unique"].trips), "add the fields that make it unique"),
    "path with forward slashes": (composed(EXAMPLES["forward-slash"].trips), r"Windows' own spelling is `\`"),
    "glob that matches nothing": (
        composed(EXAMPLES["matches-nothing"].trips),
        "correct the pattern; it is relative to",
    ),
    "umlaut in another normal form": (
        composed(EXAMPLES["normal-form"].trips),
        "save the file in Unicode normal form C",
    ),
}


@pytest.mark.parametrize("mistake", TEN)
def test_each_common_mistake_is_told_with_its_place_and_what_to_change(mistake: str) -> None:
    text, change = TEN[mistake]
    known = EXAMPLES["key-not-unique"].known if mistake == "key that is not unique" else KNOWN
    told = messages(text, known)
    assert any(change in line for line in told), told
    assert all(int(line.split(":")[0]) > 1 for line in told)


def test_a_wrong_indent_names_the_line() -> None:
    (line,) = messages(TEN["wrong indent"][0])
    assert line.startswith("19:")


# --- effects ----------------------------------------------------------------------------------------------------------------

ANY = "{is: any, because: whatever it is}"
REGISTRY = r"settings: {registry: 'HKCU\Software\Shop'}"


@pytest.mark.parametrize(
    ("effect", "observe"),
    [
        (f"{{inserted: customers, fields: {{'*': {ANY}}}}}", ""),
        (f"{{inserted: customers, fields: {{NAME: {ANY}, '*': {ANY}}}}}", ""),
        (f"{{inserted: customers, where: {{NR: '1'}}, fields: {{NR: {ANY}, '*': {ANY}}}}}", ""),
        (f"{{updated: customers, where: {{NR: '1'}}, fields: {{NAME: {{is: unchanged}}, '*': {ANY}}}}}", ""),
        (f"{{updated: customers, where: {{NR: '1'}}, fields: {{NAME: {{one_of: [a, {ANY}]}}, '*': {ANY}}}}}", ""),
        ("{deleted: customers}", ""),
        (f"{{deleted: customers, where: {{NR: {ANY}}}}}", ""),
        ("{created: disk, path: 'a.txt'}", ""),
        ("{modified: disk, path: 'a.txt'}", ""),
        (f"{{created: disk, path: 'a.txt', content: {ANY}}}", ""),
        (f"{{created: disk, path: 'a.json', content: {{json: $.a, is: {ANY}}}}}", ""),
        (f"{{created: disk, path: 'a.csv', content: {{csv: {{row: 1, column: 1}}, is: {ANY}}}}}", ""),
        ("{created: disk, path: 'a.pdf', content: {pdf: {}}}", ""),
        ("{created: disk, path: 'a.png', content: {image: {}}}", ""),
        ("{deleted: disk}", ""),
        ("{opened: screen}", ""),
        ("{present: screen}", ""),
        ("{retitled: screen, where: {title: a}}", ""),
        (r"{created: settings, path: 'Window\@Left'}", REGISTRY),
        (r"{modified: settings, path: 'Window\@Left'}", REGISTRY),
        ("{deleted: settings}", REGISTRY),
    ],
)
def test_an_effect_that_tests_existence_only_is_an_error(effect: str, observe: str) -> None:
    assert "existence-only" in found(effects(effect, observe=observe))


@pytest.mark.parametrize(
    ("effect", "observe"),
    [
        (f"{{inserted: customers, fields: {{NAME: Huber, '*': {ANY}}}}}", ""),
        ("{inserted: customers}", ""),  # a row of nothing but empty fields
        (f"{{updated: customers, where: {{NR: '1'}}, fields: {{NAME: Huber, '*': {ANY}}}}}", ""),
        ("{deleted: customers, where: {NR: '1'}}", ""),
        ("{undeleted: customers, where: {NR: '1'}}", ""),
        ("{created: customers}", ""),
        ("{created: disk, path: 'OUT'}", ""),  # a folder has no content
        ("{created: disk, path: 'a.txt', content: {size: {between: [1, 100]}}}", ""),
        ("{created: disk, path: 'a.pdf', content: {pdf: {pages: 1}}}", ""),
        ("{created: disk, path: 'a.png', content: {image: {format: PNG}}}", ""),
        ("{renamed: disk, from: 'a.txt', path: 'b.txt'}", ""),
        ("{deleted: disk, path: 'a.txt'}", ""),
        ("{opened: screen, where: {title: Customer}}", ""),
        ("{absent: screen}", ""),
        ("{retitled: screen, where: {title: a}, fields: {title: b}}", ""),
        (r"{created: settings, path: 'Window', where: {kind: key}}", REGISTRY),
        (r"{created: settings, path: 'Window\@Left', fields: {data: 10}}", REGISTRY),
        (r"{deleted: settings, path: 'Window\@Left'}", REGISTRY),
    ],
)
def test_an_effect_that_tests_something_is_not(effect: str, observe: str) -> None:
    assert "existence-only" not in found(effects(effect, observe=observe))


def test_a_created_folder_is_told_from_a_file_by_what_lies_in_it() -> None:
    folder = "{created: disk, path: '2026.11'}"
    inside = r"{created: disk, path: '2026.11\a.txt', content: {text: a}}"
    assert "existence-only" in found(effects(folder))
    assert "existence-only" not in found(effects(folder, inside))


def test_a_field_of_the_state_afterwards_may_repeat_what_selected_by_a_pattern() -> None:
    pattern = "{regex: 'Doc.+'}"
    again = f"{{retitled: screen, where: {{title: {pattern}}}, fields: {{title: {pattern}}}}}"
    assert "repeats-where" not in found(effects(again))
    selected = "{opened: screen, where: {title: a}, fields: {title: a, class: b}}"
    assert found(effects(selected)).count("repeats-where") == 1
    kept = "{updated: customers, where: {NR: '1', NAME: a}, fields: {NAME: a, BORN: '1964-08-12'}}"
    assert "repeats-where" in found(effects(kept))
    held = f"{{updated: customers, where: {{NR: '1', NAME: a}}, fields: {{NAME: a, BORN: '1964-08-12', '*': {ANY}}}}}"
    assert "repeats-where" not in found(effects(held))


def test_a_returned_value_that_is_looked_up_by_itself_is_an_error() -> None:
    returns = "returns:\n  schema: {type: object, properties: {nr: {type: string}}}\n  expect:\n    nr: %s\n"
    itself = "{row: customers, where: {NR: {returned: nr}}, field: NR}"
    assert found(composed(returns % itself)) == ["repeats-where"]
    assert found(composed(returns % "{row: customers, where: {NAME: '{{name}}'}, field: NR}")) == []


def test_an_update_without_a_change_never_fits() -> None:
    assert "never-fits" in found(effects("{updated: customers, where: {NR: '1'}}"))
    assert "never-fits" in found(effects("{updated: customers, where: {NR: '1'}, fields: {NAME: {is: unchanged}}}"))
    assert "never-fits" not in found(effects("{updated: customers, where: {NR: '1'}, fields: {NAME: {is: changed}}}"))
    assert "never-fits" not in found(effects(f"{{updated: customers, where: {{NR: '1'}}, fields: {{NAME: {ANY}}}}}"))


ROW = "{inserted: customers, fields: {NR: '{{number}}', NAME: '{{name}}'}}"


@pytest.mark.parametrize(
    ("allowed", "covers_it"),
    [
        (f"{{inserted: customers, fields: {{'*': {ANY}}}, because: x y z}}", True),
        (f"{{inserted: customers, where: {{NAME: '{{{{name}}}}'}}, fields: {{'*': {ANY}}}, because: x y z}}", True),
        (f"{{inserted: customers, where: {{NAME: Maier}}, fields: {{'*': {ANY}}}, because: x y z}}", False),
        (f"{{inserted: customers, when: failure, fields: {{'*': {ANY}}}, because: x y z}}", False),
        (f"{{updated: customers, fields: {{'*': {ANY}}}, because: x y z}}", False),
        ("{inserted: customers, because: x y z}", False),  # a row of nothing but empty fields
    ],
)
def test_an_allowance_that_covers_an_expected_effect_is_an_error(allowed: str, covers_it: bool) -> None:
    text = effects(ROW, more=f"  allow:\n    - {allowed}\n")
    assert ("covers-expected" in found(text)) == covers_it


def test_an_allowed_path_that_covers_an_expected_file_is_an_error() -> None:
    made = r"{created: disk, path: 'OUT\new.txt', content: {text: Huber}}"
    allow = "  allow:\n    - {created: disk, path: '%s', because: x y z}\n"
    assert "covers-expected" in found(effects(ROW, made, more=allow % r"OUT\*.txt"))
    assert "covers-expected" not in found(effects(ROW, made, more=allow % r"OUT\*.log"))
    other = "  allow:\n    - {created: disk, path: 'OUT\\*.txt', content: {text: Maier}, because: x y z}\n"
    assert "covers-expected" not in found(effects(ROW, made, more=other))


def test_an_ignored_window_that_is_expected_is_an_error() -> None:
    shown = "{opened: screen, where: {title: Customer 7}}"
    screen = "screen: {windows: {ignore: [{title: %s, because: x y z}]}}"
    for matcher, hidden in (("Customer 7", True), ("{regex: 'Cust.*'}", True), ("{regex: 'Ord.*'}", False)):
        assert ("covers-expected" in found(effects(shown, observe=screen % matcher))) == hidden
    by_class = "screen: {windows: {ignore: [{title: {regex: 'Cust.*'}, class: Tip, because: x y z}]}}"
    assert "covers-expected" not in found(effects(shown, observe=by_class))


def test_a_tables_own_file_cannot_be_expected_of_the_tree() -> None:
    own = "{modified: disk, path: '%s', content: {size: 1}}"
    assert "covers-expected" in found(effects(ROW, own % "CUSTOMER.DBF"))
    assert "covers-expected" in found(effects(ROW, own % r"\customer.fpt"))
    assert "covers-expected" not in found(effects(ROW, own % "OTHER.DBF"))


def test_an_ignored_column_that_is_spoken_of_is_an_error() -> None:
    table = "customers: {sql: shop, table: CUSTOMERS, ignore: [{column: %s, because: x y z}]}"
    assert "covers-expected" in found(effects(ROW, observe=table % "NAME"))
    assert "covers-expected" not in found(effects(ROW, observe=table % "ROWVERSION"))


def test_updates_of_an_sql_table_need_a_key_that_is_known_to_be_missing() -> None:
    text = effects(
        "{updated: customers, where: {NR: '{{number}}'}, fields: {NAME: '{{name}}'}}",
        observe="customers: {sql: shop, table: CUSTOMERS}",
    )
    fields = {"NR": "text", "NAME": "text"}
    assert "no-identity" not in found(text)
    assert "no-identity" in found(text, Known(tables={"customers": KnownTable(fields)}))
    assert "no-identity" not in found(text, Known(tables={"customers": KnownTable(fields, ("NR",))}))


@pytest.mark.parametrize(
    ("piece", "broad"),
    [
        ("{modified: disk, because: x y z}", True),
        ("{modified: disk, path: '**', because: x y z}", True),
        (r"{modified: disk, path: '*\*', because: x y z}", False),
        ("{modified: disk, path: 'SHOP.LOG', because: x y z}", False),
        ("{opened: screen, because: x y z}", True),
        ("{opened: screen, where: {title: Tip}, because: x y z}", False),
        ("{deleted: customers, because: x y z}", True),
        ("{restructured: customers, because: x y z}", False),
    ],
)
def test_an_allowance_that_nothing_narrows_is_a_warning(piece: str, broad: bool) -> None:
    assert ("broad-pattern" in found(effects(ROW, more=f"  allow:\n    - {piece}\n"))) == broad


def test_a_stage_that_every_window_shows_is_a_warning() -> None:
    assert found(composed("stages: {commit: {window: {title: '*'}}}\n")) == ["broad-pattern"]


# --- the contract as a whole ------------------------------------------------------------------------------------------------


def test_a_parameter_is_checked_where_a_rule_looks_at_it() -> None:
    told = "instruction: Add the customer {{name}} with the number {{number}} on {{desk}}.\n"
    given_ = "parameters: {number: '0007', name: Huber, desk: A}\n"
    assert found(composed(told + given_)) == ["unchecked-parameter"]
    typed = "stages: {commit: {typed: '{{desk}}'}}\n"
    assert found(composed(told + given_ + typed)) == ["unchecked-parameter"]
    setup = "initial_state:\n  summary: All is well.\n  setup:\n    - {text: '{{desk}}', to: 'C:\\SHOP\\desk.txt'}\n"
    assert found(composed(told + given_ + setup)) == []


@pytest.mark.parametrize(
    ("require", "effect", "contradicts"),
    [
        ("{rows: customers, where: {NR: '1'}, count: 0}", "{deleted: customers, where: {NR: '1'}}", True),
        ("{rows: customers, where: {NR: '1'}, count: 0}", "{deleted: customers, where: {NR: '1', NAME: a}}", True),
        ("{rows: customers, where: {NR: '1', NAME: a}, count: 0}", "{deleted: customers, where: {NR: '1'}}", False),
        ("{rows: customers, where: {NR: '1'}, count: 1}", "{deleted: customers, where: {NR: '1'}, count: 2}", True),
        ("{rows: customers, where: {NR: '1'}, count: {min: 1}}", "{deleted: customers, where: {NR: '1'}}", False),
        ("{rows: customers, where: {NR: '1'}, count: 0}", "{undeleted: customers, where: {NR: '1'}}", False),
        ("{files: disk, path: '*.txt', count: 0}", r"{deleted: disk, path: 'OUT\a.txt'}", True),
        (r"{files: disk, path: 'OUT\a.txt'}", r"{created: disk, path: 'out\A.txt', content: {text: a}}", True),
        ("{files: disk, path: 'a.txt'}", r"{created: disk, path: 'OUT\a.txt', content: {text: a}}", False),
        ("{windows: screen, where: {title: a}, count: 0}", "{closed: screen, where: {title: a}}", True),
        ("{windows: screen, where: {title: a}, count: 0}", "{opened: screen, where: {title: a}}", False),
        ("{rows: customers, where: {NR: '1'}}", "{inserted: customers, fields: {NR: '2', NAME: a}}", False),
    ],
)
def test_a_requirement_may_not_rule_out_what_is_expected(require: str, effect: str, contradicts: bool) -> None:
    state = f"initial_state:\n  summary: All is well.\n  require:\n    - {require}\n"
    text = composed(state + f"effects:\n  expect:\n    - {effect}\n")
    assert ("require-contradicts" in found(text)) == contradicts


def test_what_lies_beside_the_tasks_data_may_be_watched_without_a_word() -> None:
    observe = "observe:\n  customers: {dbf: 'C:\\SHOP\\DATA\\CUSTOMER.DBF', key: [NR]}\n  more: "
    for other in (r"{files: 'C:\SHOP'}", r"{dbf: 'C:\SHOP\OLD\ORDERS.DBF'}", r"{registry: 'HKCU\Software\Shop'}"):
        assert found(composed(observe + other + "\n")) == []
    for other in (r"{files: 'D:\LETTERS'}", r"{registry: 'HKCU\Software\Letters'}", "{sql: letters, table: A}"):
        assert found(composed(observe + other + "\n")) == ["unspoken-observable"]


# --- texts ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["Hu\u00adber", "Huber\u200b", "Huber\u00a0A", "Stra\u03b2e", "\u041dUBER", "\u041e\u0421\u0410"]
)
def test_characters_that_are_easily_mistaken_are_a_warning(name: str) -> None:
    told = lint(load_text(composed(f"parameters: {{number: '0007', name: '{name}'}}\n"), name="c"))
    assert [finding.rule.id for finding in told] == ["look-alike"]
    assert "U+" in told[0].message


@pytest.mark.parametrize("name", ["Müller-Größe", "Иванов Осип", "Ωμέγα", "naïve café", "10 €", "5 µm"])
def test_ordinary_texts_in_any_script_are_not(name: str) -> None:
    assert found(composed(f"parameters: {{number: '0007', name: '{name}'}}\n")) == []


def test_names_of_fields_are_looked_at_too() -> None:
    assert "look-alike" in found(effects("{inserted: customers, fields: {NR: '{{number}}', N\u0410ME: '{{name}}'}}"))


def test_words_for_people_are_not_looked_at() -> None:
    assert found(composed("goal_state: {summary: One new\u00a0customer.}\n")) == []


def test_a_secret_is_never_told() -> None:
    secret = "13.09.1971"
    text = composed(
        f"parameters: {{number: '0007', name: {{value: {secret}, secret: true}}}}\n"
        "observe:\n  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}\n  disk: {files: 'C:\\SHOP'}\n"
        "effects:\n  expect:\n"
        "    - {inserted: customers, fields: {NR: '{{number}}', NAME: '{{name}}'}}\n"
        "    - {deleted: disk, path: '{{name}}'}\n"
    )
    told = messages(
        text, Known(tables={"customers": KnownTable({"NR": "text", "NAME": "date"})}, listings={"disk": ()})
    )
    assert len(told) == 2
    assert all(secret not in line and "1971-09-13" not in line for line in told)


def test_dates_are_judged_by_what_the_field_holds() -> None:
    def known(kind: str) -> Known:
        return Known(tables={"customers": KnownTable({"NR": "text", "NAME": "text", "BORN": kind})})

    def text(value: str) -> str:
        return effects(
            f"{{inserted: customers, fields: {{NR: '{{{{number}}}}', NAME: '{{{{name}}}}', BORN: {value}}}}}"
        )

    assert found(text("12.08.1964"), known("text")) == []
    for value in ("12.08.1964", "08/12/1964", "'19640812'", "1964-02-30", "{one_of: [1964-08-12, 12.08.64]}"):
        assert found(text(value), known("date")) == ["date-not-iso"], value
    assert found(text("{between: [01.01.1964, 1964-12-31]}"), known("date")) == ["date-not-iso"]
    assert found(text("1964-08-12 14:30"), known("datetime")) == []
    assert found(text("14.30"), known("time")) == []  # a number
    assert found(text("14h30"), known("time")) == ["date-not-iso"]
    for beyond in ("26:30:00", "-00:30:00", "-838:59:59", "100:00:00.5", "24:00:00", "14:30:00+02:00"):
        assert found(text(beyond), known("time")) == []
    for wrong in ("26:60:00", "-00:30:60", "1000:00:00", "-"):
        assert found(text(wrong), known("time")) == ["date-not-iso"]
    assert found(text("{date: today}"), known("date")) == []


# --- with an image ----------------------------------------------------------------------------------------------------------


def test_fields_are_looked_for_wherever_they_are_named() -> None:
    text = r"""
initial_state:
  summary: All is well.
  require:
    - {rows: customers, where: {NRR: '1'}, count: 0}
    - {windows: screen, where: {titel: Customers}}
observe:
  customers: {dbf: 'C:\SHOP\CUSTOMER.DBF', key: [NUMBER]}
  screen: {windows: {}}
effects:
  expect:
    - {inserted: customers, name: customer, fields: {NR: '{{number}}', name: '{{name}}'}}
    - {updated: customers, where: {NR: '1'}, fields: {NAME: {field: customer.NAMEN}}}
returns:
  schema: {type: object}
  expect:
    born: {row: customers, where: {NRS: '1'}, field: BORNE}
"""
    places = [
        finding.problem.field
        for finding in lint(load_text(composed(text.lstrip()), name="c"), KNOWN)
        if finding.rule.id == "unknown-field"
    ]
    assert sorted(places) == sorted([
        "initial_state.require[0].where.NRR", "initial_state.require[1].where.titel", "observe.customers.key[0]",
        "effects.expect[0].fields.name", "effects.expect[1].fields.NAME.field", "returns.expect.born.where.NRS",
        "returns.expect.born.field",
    ])  # fmt: skip


def test_what_must_be_there_before_is_looked_for() -> None:
    for effect, idle in (
        ("{deleted: disk, path: 'gone.txt'}", True),
        ("{deleted: disk, path: 'list.txt'}", False),
        (r"{renamed: disk, from: 'gone.txt', path: 'OUT\b.txt'}", True),
        (r"{renamed: disk, from: 'list.txt', path: 'OUT\b.txt'}", False),
        (r"{created: disk, path: 'gone.txt', content: {text: a}}", False),
    ):
        assert ("matches-nothing" in found(effects(ROW, effect), KNOWN)) == idle, effect


def test_what_is_created_need_not_be_there() -> None:
    absent = Known(absent=frozenset({"disk"}))
    assert found(BASE, absent) == ["not-there"]
    assert found(effects(ROW, "{created: disk, path: 'a.txt', content: {text: a}}"), absent) == []


# --- robustness -------------------------------------------------------------------------------------------------------------


def test_patterns_cover_patterns() -> None:
    assert covers("*.txt", r"OUT\a.txt")
    assert covers(r"OUT\**", r"OUT\*\a[bc]?.txt")
    assert covers("**", r"**\a")
    assert not covers(r"OUT\*.txt", "*.txt")
    assert not covers("a*", "*")
    assert is_broad("*")
    assert is_broad(r"**\*")
    assert not is_broad(r"OUT\**")


@given(st.text("ab*?[]!\\-.", min_size=1, max_size=12))
def test_examples_of_a_pattern_fit_it_or_say_nothing(pattern: str) -> None:
    from contracts.globs import GlobError, compile_glob

    try:
        fits = compile_glob(pattern)
    except GlobError:
        return
    found_ = examples(pattern)
    assert found_
    assert all(map(fits, found_)) or not any(map(fits, found_))


def test_matchers_that_accept_everything_are_known_by_their_form() -> None:
    anything = Is.model_validate({"is": "any", "because": "whatever"})
    assert accepts_all(anything)
    assert accepts_all(Regex(regex=r"(?s).*"))
    assert accepts_all(OneOf(one_of=["a", anything]))
    assert accepts_all(Not.model_validate({"not": Not.model_validate({"not": anything})}))
    assert not accepts_all(Not.model_validate({"not": anything}))
    assert not accepts_all("*")
    assert not matches_everything(".+")
    assert not matches_everything(r"(a*)*b")


_FIELD = st.sampled_from(["NR", "NAME", "BORN", "title", "path", "kind", "data", "*", "F\u200b"])
_MATCHER = st.recursive(
    st.sampled_from([
        "1", "", "12.08.1964", "Mu\u0308ller", "a/b", "'{{name}}'", "true", "12.5", "{is: empty}", "{is: unchanged}", ANY,
        "{regex: '.*'}", "{regex: '[a-z]{1,3}'}", "{between: [1, 2]}", "{number: 1, tolerance: 0.1}", "{date: today}",
        "{generated: next}", "{field: first.NR}", "{returned: it}", "{text: a, normalise: [case]}", "{boolean: true}",
    ]).map(lambda text: text or "''"),
    lambda inner: st.builds("{{one_of: [{}, {}]}}".format, inner, inner) | st.builds("{{not: {}}}".format, inner),
    max_leaves=4,
)  # fmt: skip
_FIELDS = st.dictionaries(_FIELD, _MATCHER, max_size=3).map(
    lambda fields: "{" + ", ".join(f"'{name}': {matcher}" for name, matcher in fields.items()) + "}"
)
_PATH = st.sampled_from(["'*'", "'**'", "'a.txt'", "'OUT/**'", r"'OUT\*.[ab]'", r"'\x'", "'{{name}}'"])
_VERB = st.sampled_from([
    "inserted: customers", "updated: customers", "deleted: customers", "undeleted: customers", "created: disk",
    "modified: disk", "renamed: disk", "deleted: disk", "opened: screen", "retitled: screen", "present: screen",
    "absent: screen", "modified: settings", "created: settings", "restructured: customers",
])  # fmt: skip


@st.composite
def _effect(draw: st.DrawFn) -> str:
    verb = draw(_VERB)
    parts = [verb, "because: noise"]
    if "disk" in verb or "settings" in verb:
        parts += [f"path: {draw(_PATH)}"] if draw(st.booleans()) else []
        if "disk" in verb and not verb.startswith("deleted") and draw(st.booleans()):
            parts.append(f"content: {draw(_MATCHER)}")
    if "disk" not in verb and "restructured" not in verb:
        parts += [f"where: {draw(_FIELDS)}"] if draw(st.booleans()) else []
        parts += [f"fields: {draw(_FIELDS)}"] if draw(st.booleans()) else []
    return "{" + ", ".join(parts) + "}"


@st.composite
def _contract(draw: st.DrawFn) -> str:
    lines = "".join(
        f"  {which}:\n" + "".join(f"    - {line}\n" for line in draw(st.lists(_effect(), min_size=1, max_size=3)))
        for which in ("expect", "allow")
    )
    key = draw(st.sampled_from(["[]", "[NR]", "[NR, NAME]"]))
    ignored = draw(st.lists(_PATH, max_size=2))
    rules = ", ".join(f"{{path: {path}, because: noise}}" for path in ignored)
    first = "    - {inserted: customers, name: first, fields: {NR: {generated: next}}}\n"
    require = draw(st.lists(_FIELDS, max_size=2))
    return composed(
        f"parameters: {{number: '0007', name: {draw(st.sampled_from(['Huber', '12.08.1964', 'a*b']))}}}\n"
        "initial_state:\n  summary: All is well.\n  require:\n"
        + "".join(f"    - {{rows: customers, where: {where}, count: 0}}\n" for where in require)
        + "    - {windows: screen}\n"
        f"observe:\n  customers: {{dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: {key}}}\n"
        f"  disk: {{files: 'C:\\SHOP', ignore: [{rules}]}}\n  screen: {{windows: {{}}}}\n  {REGISTRY}\n"
        "returns: {schema: {type: object, properties: {it: {type: string}}}}\n"
        "effects:\n" + lines.replace("  expect:\n", "  expect:\n" + first, 1)
    )


@given(_contract(), st.sampled_from([None, KNOWN]))
@settings(max_examples=150, deadline=None)
def test_lint_never_raises_on_a_contract_that_loads(text: str, known: Known | None) -> None:
    try:
        loaded = load_text(text, name="c")
    except ContractError:
        return
    told = lint(loaded, known)
    assert all(finding.message and finding.fix and finding.problem.line >= 1 for finding in told)
    assert told == lint(loaded, known)
