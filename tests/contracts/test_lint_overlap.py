"""Whether rules cover what is expected: the form's answer against real values and paths, and what lint makes of it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from contracts.globs import GlobError, compile_glob, overlap
from contracts.lint_rules.examples import BASE, composed
from contracts.lint_rules.overlap import Overlap, of_matchers
from contracts.schema import Matcher
from tests.contracts.test_lint import ANY, ROW, effects, found
from validators.changes import Cell, CellState, Kind
from validators.matchers import RunContext, Subject, matches

ADAPTER: TypeAdapter[Any] = TypeAdapter(Matcher)
RUN = RunContext(datetime(2026, 11, 29, 9), datetime(2026, 11, 29, 10))  # noqa: DTZ001 - local to the guest

# --- against real values ----------------------------------------------------------------------------------------------------


def _cells() -> list[Cell]:
    texts = [
        "a",
        "b",
        "A",
        "ab",
        "a b",
        "a  b",
        "7",
        "07",
        "7.0",
        "-1",
        "12",
        "2026-11-29",
        "1964-08-12",
        "true",
        "n",
        "<b>a</b>",
    ]
    numbers = ["0", "7", "-1", "12", "6.5", "7.00"]
    return [
        *(Cell(Kind.TEXT, text) for text in texts),
        *(Cell(Kind.VARTEXT, text) for text in [*texts, "a "]),
        *(Cell(Kind.NUMBER, Decimal(number)) for number in numbers),
        *(Cell(kind, state=state) for kind in (Kind.TEXT, Kind.NUMBER, Kind.DATE) for state in (CellState.BLANK, CellState.NULL)),
        Cell(Kind.DATE, date(2026, 11, 29)), Cell(Kind.DATE, date(1964, 8, 12)), Cell(Kind.LOGICAL, True), Cell(Kind.LOGICAL, False),
        Cell(Kind.TEXT, "00000000"),
    ]  # fmt: skip


_VALUES = st.sampled_from(
    ["a", "b", "ab", "a b", "7", "07", "12", "", "2026-11-29", "1964-08-12", "true", 7, -1, 0, True, Decimal("6.5")]
)
_SIMPLE = st.one_of(
    _VALUES,
    _VALUES,
    st.sampled_from(["a", ".+", "[ab]+", r"\d+", r"\d{4}-\d\d-\d\d", "(a|b)?", "."]).map(lambda regex: {"regex": regex}),
    st.tuples(st.integers(-2, 8), st.integers(0, 6)).map(lambda ends: {"between": [ends[0], sum(ends)]}),
    st.sampled_from([("a", "b"), ("2026-01-01", "2026-12-31"), ("1964-01-01", "2026-06-01"), ("7", "8")]).map(lambda e: {"between": list(e)}),
    st.tuples(st.integers(-1, 12), st.integers(0, 6)).map(lambda near: {"number": near[0], "tolerance": near[1]}),
    st.sampled_from([["case"], ["whitespace"], ["case", "whitespace"], ["html"], []]).flatmap(
        lambda how: st.sampled_from(["a", "A", "a  b"]).map(lambda text: {"text": text, "normalise": how})
    ),
    st.booleans().map(lambda value: {"boolean": value}),
    st.sampled_from(["empty", "blank", "null"]).map(lambda state: {"is": state}),
    st.just({"date": "today"}),
    st.just({"is": "any", "because": "whatever"}),
)  # fmt: skip
_MATCHERS = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"one_of": parts}),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"all_of": parts}),
        inner.map(lambda part: {"not": part}),
    ),
    max_leaves=4,
)


@settings(max_examples=2_500, deadline=None)
@given(_MATCHERS, _MATCHERS)
def test_no_value_contradicts_what_is_said_of_two_matchers(one: Any, other: Any) -> None:
    wide, narrow = ADAPTER.validate_python(one), ADAPTER.validate_python(other)
    said = of_matchers(wide, narrow)
    for cell in _cells():
        held, also = matches(narrow, Subject(cell), RUN), matches(wide, Subject(cell), RUN)
        if said is Overlap.WHOLE:
            assert also or not held, (cell, said)
        elif said is Overlap.NONE:
            assert not (also and held), (cell, said)


@pytest.mark.parametrize(
    ("wide", "narrow", "said"),
    [
        ("a", "a", Overlap.WHOLE),
        ("a", "b", Overlap.NONE),
        ("07", 7, Overlap.UNKNOWN),
        ({"one_of": ["a", "b"]}, "a", Overlap.WHOLE),
        ("a", {"one_of": ["a", "b"]}, Overlap.PART),
        ({"one_of": ["a", "b"]}, {"one_of": ["b", "a"]}, Overlap.WHOLE),
        ({"one_of": ["c", "d"]}, {"one_of": ["a", "b"]}, Overlap.NONE),
        ({"regex": "[ab]+"}, "abba", Overlap.WHOLE),
        ({"regex": "[ab]+"}, "c", Overlap.NONE),
        ("abba", {"regex": "[ab]+"}, Overlap.PART),
        ({"regex": "[ab]+"}, {"one_of": ["a", "c"]}, Overlap.PART),
        ({"regex": "[ab]+"}, {"regex": "[bc]+"}, Overlap.UNKNOWN),
        ({"between": [1, 9]}, 5, Overlap.WHOLE),
        ({"between": [1, 9]}, {"between": [2, 3]}, Overlap.WHOLE),
        ({"between": [1, 9]}, {"between": [9, 12]}, Overlap.PART),
        ({"between": [1, 9]}, {"number": 12, "tolerance": 2}, Overlap.NONE),
        ({"between": ["2026-01-01", "2026-12-31"]}, "2026-11-29", Overlap.WHOLE),
        ({"between": ["2026-01-01", "2026-12-31"]}, {"date": "today"}, Overlap.UNKNOWN),
        ({"not": "a"}, "b", Overlap.WHOLE),
        ({"not": "a"}, "a", Overlap.NONE),
        ({"is": "changed"}, "a", Overlap.WHOLE),
        ({"is": "unchanged"}, "a", Overlap.NONE),
        ({"is": "empty"}, {"is": "blank"}, Overlap.WHOLE),
        ({"is": "empty"}, {"generated": "next"}, Overlap.NONE),
        ({"field": "x.A"}, {"field": "x.A"}, Overlap.WHOLE),
        ({"field": "x.A"}, "a", Overlap.UNKNOWN),
    ],
)  # fmt: skip
def test_what_is_said_of_two_matchers(wide: Any, narrow: Any, said: Overlap) -> None:
    assert of_matchers(ADAPTER.validate_python(wide), ADAPTER.validate_python(narrow)) is said


_PATHS = [r"A", r"A.TXT", r"B.TXT", r"OUT\A.TXT", r"OUT\B\A.TXT", r"OUT\A", r"Q\Q", r"AB", r"-", r"A-B.C"]


@settings(max_examples=800, deadline=None)
@given(st.text("ab*?[]!\\-.c", min_size=1, max_size=8), st.text("ab*?[]!\\-.c", min_size=1, max_size=8), st.lists(st.text("abc-.\\Q", min_size=1, max_size=7)))  # fmt: skip
def test_no_path_contradicts_what_is_said_of_two_patterns(one: str, other: str, paths: list[str]) -> None:
    try:
        wide, narrow = compile_glob(one), compile_glob(other)
    except GlobError:
        return
    said = overlap(one, other)
    assert said is not None
    real = [path for path in paths if all(path.split("\\"))]
    for path in [*_PATHS, *real]:
        assert said[0] or not (wide(path) and narrow(path)), path
        assert said[1] or not narrow(path) or wide(path), path


# --- what lint makes of it --------------------------------------------------------------------------------------------------

NAMED = "{inserted: customers, fields: {NR: '{{number}}', NAME: %s}}"
PLACES = {
    "allow": "  allow:\n    - {inserted: customers, fields: {NR: '{{number}}', NAME: %s}, because: x y z}\n",
    "forbid": "  forbid:\n    - {inserted: customers, fields: {NAME: %s}}\n",
}


@pytest.mark.parametrize("which", PLACES)
@pytest.mark.parametrize(
    ("expected", "other", "rule"),
    [
        ("Huber", "Huber", "covers-expected"),
        ("Huber", "{one_of: [Huber, Maier]}", "covers-expected"),
        ("{one_of: [Huber, Maier]}", "Maier", "covers-expected"),
        ("Huber", "{regex: 'H.*'}", "covers-expected"),
        ("{regex: 'H.*'}", "Huber", "covers-expected"),
        ("5", "{between: [1, 9]}", "covers-expected"),
        ("{between: [5, 12]}", "{between: [1, 9]}", "covers-expected"),
        ("Huber", "{not: Maier}", "covers-expected"),
        ("{regex: 'H.*'}", "{regex: '.*r'}", "may-cover-expected"),
        ("{date: today}", "{between: ['2026-01-01', '2026-12-31']}", "may-cover-expected"),
        ("Huber", "Maier", ""),
        ("Huber", "{one_of: [Maier, Kern]}", ""),
        ("Huber", "{regex: 'M.*'}", ""),
        ("{between: [10, 12]}", "{between: [1, 9]}", ""),
        ("Huber", "{not: Huber}", ""),
        ("Huber", "{is: empty}", ""),
    ],
)
def test_whatever_says_so_what_is_expected_may_be_neither_allowed_nor_forbidden(
    which: str, expected: str, other: str, rule: str
) -> None:
    told = found(effects(NAMED % expected, more=PLACES[which] % other))
    assert [name for name in told if name.endswith("cover-expected") or name == "covers-expected"] == [rule] * bool(
        rule
    )


@pytest.mark.parametrize(
    ("forbidden", "rule"),
    [
        ("{inserted: customers}", "covers-expected"),
        (f"{{inserted: customers, fields: {{'*': {ANY}}}}}", "covers-expected"),
        ("{inserted: customers, where: {NAME: '{{name}}'}}", "covers-expected"),
        ("{inserted: customers, where: {NAME: Maier}}", ""),
        ("{inserted: customers, where: {BORN: {not: {is: empty}}}}", ""),  # it is expected to be empty
        ("{updated: customers}", ""),
        ("{deleted: customers}", ""),
    ],
)  # fmt: skip
def test_what_is_forbidden_fills_no_expectation(forbidden: str, rule: str) -> None:
    told = found(effects(ROW, more=f"  forbid:\n    - {forbidden}\n"))
    assert [name for name in told if name != "unspoken-observable"] == [rule] * bool(rule)


COUNTER = "{updated: customers, where: {NR: '1'}, fields: {NAME: {field: new.NAME}}}"


@pytest.mark.parametrize(
    ("allowed", "rule"),
    [
        ("{updated: customers, where: {NR: '1'}, fields: {NAME: {is: changed}}, because: x y z}", "covers-expected"),
        ("{updated: customers, fields: {NAME: {is: changed}}, because: x y z}", "covers-expected"),
        ("{updated: customers, where: {NR: '2'}, fields: {NAME: {is: changed}}, because: x y z}", ""),
        ("{updated: customers, where: {NR: '1'}, fields: {SEEN: {date: today}}, because: x y z}", ""),
        ("{updated: customers, where: {BORN: '1964-08-12'}, fields: {NAME: {is: changed}}, because: x y z}", "may-cover-expected"),
    ],
)  # fmt: skip
def test_an_allowance_of_an_update_is_judged_by_what_it_leaves_unchanged(allowed: str, rule: str) -> None:
    new = "{inserted: customers, name: new, fields: {NR: '{{number}}', NAME: '{{name}}'}}"
    told = found(effects(new, COUNTER, more=f"  allow:\n    - {allowed}\n"))
    assert told == [rule] * bool(rule)


@pytest.mark.parametrize(
    ("ignored", "path", "rule"),
    [
        (r"OUT\*", r"OUT\new.txt", "covers-expected"),
        (r"OUT\new*", r"OUT\*.txt", "covers-expected"),
        (r"OUT\*.tmp", r"OUT\*.txt", ""),
        (r"OUT\[!~]*", r"OUT\~*.txt", ""),
    ],
)
def test_an_ignored_path_that_covers_a_part_is_an_error(ignored: str, path: str, rule: str) -> None:
    tree = f"disk: {{files: 'C:\\SHOP', ignore: [{{path: '{ignored}', because: x y z}}]}}"
    told = found(effects(ROW, f"{{created: disk, path: '{path}', content: {{text: Huber}}}}", observe=tree))
    assert told == [rule] * bool(rule)


def test_what_cannot_be_decided_is_a_warning() -> None:
    by_class = "screen: {windows: {ignore: [{title: {regex: 'Cust.*'}, class: Tip, because: x y z}]}}"
    shown = "{opened: screen, where: {title: Customer 7}}"
    assert "may-cover-expected" in found(effects(ROW, shown, observe=by_class))
    assert "may-cover-expected" not in found(effects(ROW, shown.replace("Customer 7", "Order 7"), observe=by_class))


# --- nothing required, keys, values that confirm each other, existence ---------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "told"),
    [(["{min: 0}"], True), (["{min: 0}", "{max: 3}"], True), (["{min: 0}", "1"], False), (["{min: 1, max: 2}"], False)],
)
def test_one_expected_change_at_least_must_be_needed(counts: list[str], told: bool) -> None:
    lines = [
        f"{{inserted: customers, count: {count}, fields: {{NR: '{n}', NAME: x}}}}" for n, count in enumerate(counts)
    ]
    window = "{present: screen, where: {title: Customers}}"
    assert ("nothing-required" in found(effects(*lines, window))) == told


@pytest.mark.parametrize(
    ("key", "told"), [("key: []", 1), ("key: [NR, NR]", 1), ("key: [NR, NAME]", 0), ("encoding: cp850", 0)]
)
def test_a_key_names_something_and_each_field_once(key: str, told: int) -> None:
    text = BASE.replace("key: [NR]", key)
    assert found(text).count("bad-key") == told


RETURNS = (
    "returns:\n  schema: {type: object, properties: {nr: {type: string%s}, other: {type: string}}}\n  expect: {%s}\n"
)


@pytest.mark.parametrize(
    ("fields", "schema", "expect", "told"),
    [
        ("NR: {returned: nr}", "", "", 1),
        ("NR: {returned: nr}", "", "nr: {field: c.NR}", 1),
        ("NR: {one_of: [{returned: nr}, {returned: other}]}", "", "nr: {field: c.NR}", 1),
        ("NR: {returned: nr}", "", "nr: {row: customers, where: {NAME: '{{name}}'}, field: NR}", 1),
        ("NR: {returned: nr}", "", "nr: {sum: [{field: c.NR}, 0]}", 1),
        ("NR: {returned: nr}", "", "nr: {field: c.CITY}", 1),
        ("NR: {returned: nr}, BORN: {returned: other}", "", "nr: {field: c.BORN}, other: {field: c.NR}", 2),
        ("NR: {returned: nr}", ", enum: [a, b]", "", 0),
        ("NR: {returned: nr}", "", "nr: '7'", 0),
        ("NR: {returned: nr}", "", r"nr: {regex: 'R\d+'}", 0),
        (r"NR: {all_of: [{returned: nr}, {regex: 'R\d+'}]}", "", "nr: {field: c.NR}", 0),
        ("NR: {generated: next}", "", "nr: {field: c.NR}", 0),
        ("NR: '1', BORN: {returned: nr}", "", "nr: {field: c.NR}", 0),
    ],
)
def test_values_that_only_confirm_each_other_are_an_error(fields: str, schema: str, expect: str, told: int) -> None:
    row = f"{{inserted: customers, name: c, fields: {{{fields}, NAME: '{{{{name}}}}', CITY: {{returned: nr}}}}}}"
    row = row if "c.CITY" in expect else row.replace(", CITY: {returned: nr}", "")
    text = effects(row) + RETURNS % (schema, expect)
    expected = told + ("c.CITY" in expect)
    assert found(text).count("confirm-each-other") == expected


def test_rows_that_returned_values_are_looked_up_in_must_stand_too() -> None:
    lookups = "nr: {row: customers, where: {NAME: {returned: other}}, field: NR}, other: %s"
    itself = lookups % "{row: customers, where: {NR: {returned: nr}}, field: NAME}"
    assert found(composed(RETURNS % ("", itself))).count("confirm-each-other") == 2
    assert "confirm-each-other" not in found(composed(RETURNS % ("", lookups % "'{{name}}'")))
    chosen = effects(
        "{updated: customers, where: {NR: {returned: nr}}, fields: {NAME: '{{name}}', BORN: '{{number}}'}}"
    )
    assert "confirm-each-other" in found(chosen + RETURNS % ("", ""))


@pytest.mark.parametrize(
    ("effect", "told"),
    [
        (f"{{inserted: customers, fields: {{NAME: {{not: {{is: 'null'}}}}, '*': {ANY}}}}}", True),
        (f"{{inserted: customers, fields: {{NAME: {{not: {{is: blank}}}}, '*': {ANY}}}}}", False),
        ("{deleted: customers, where: {NR: {not: {is: 'null'}}}}", True),
        ("{created: disk, path: 'a.json', content: {json: $.a, is: {not: {is: 'null'}}}}", True),
    ],
)
def test_that_a_value_is_not_null_tests_existence_only(effect: str, told: bool) -> None:
    assert ("existence-only" in found(effects(effect))) == told
