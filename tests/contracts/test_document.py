r"""YAML: what a text means, and what is refused with which place and words."""

from decimal import Decimal
from typing import Any

import pytest

from contracts.document import MAX_BYTES, parse
from contracts.load import ContractError


def data(text: str | bytes) -> Any:
    document = parse(text, "c")
    assert document.problems == []
    return document.data


def refused(text: str | bytes) -> list[str]:
    try:
        document = parse(text, "c")
    except ContractError as error:
        return [str(problem) for problem in error.problems]
    return [str(problem) for problem in document.problems]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NO", "NO"), ("on", "on"), ("yes", "yes"), ("12:30:45", "12:30:45"), ("2026-11-29", "2026-11-29"),
        ("12.08.1964", "12.08.1964"), ("1_000", "1_000"), ("0b11", "0b11"), ("1,5", "1,5"), ("True", True),
        ("false", False), ("null", None), ("~", None), ("", None), ("5", 5), ("-5", -5), ("0", 0),
        ("12.50", Decimal("12.50")), (".5", Decimal(".5")), ("0.1", Decimal("0.1")), ("1e2", Decimal("1e2")),
        ("0x1F", 31), ("'0123'", "0123"), ('"5"', "5"), ("'null'", "null"), (r"'C:\DSWIN'", r"C:\DSWIN"),
        ("a:b", "a:b"), (">\n  x\n  y", "x y\n"), ("'é€\U0001f600'", "é€\U0001f600"),
        (r'"\ud83d\ude00"', "\U0001f600"),
    ],
)  # fmt: skip
def test_core_schema(written: str, meant: object) -> None:
    found = data(f"a: {written}\n")["a"]
    assert found == meant
    assert type(found) is type(meant)
    assert str(found) == str(meant)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 0123", "c:1:4: a: a number with a leading zero would lose it; quote it"),
        ("a: [1, -007]", "c:1:8: a[1]: a number with a leading zero"),
        ("a: .inf", "c:1:4: a: infinity and not-a-number"),
        ("a: .NaN", "c:1:4: a: infinity and not-a-number"),
        ("a: 1e999999999", "c:1:4: a: the number is too long"),
        ("a: 1" + "0" * 5_000, "c:1:4: a: the number is too long"),
        ("a: 1\nb: 2\na: 3", "c:3:1: a: `a` stands here twice, first in line 1"),
        ("a: {b: 1, b: 2}", "c:1:11: a.b: `b` stands here twice"),
        ("a: &x 1", "c:1:4: a: anchors (`&name`) are not used here"),
        ("a: *x", "c:1:4: a: an unquoted `*` begins an alias, and aliases are not used here; quote the text, such as '*.TMP'"),
        ("a: *.TMP", "c:1:4: a: an unquoted `*` begins an alias"),
        ("a: *", "c:1:4: an unquoted `*` begins an alias; quote the text"),
        ("*: a", "c:1:1: an unquoted `*` begins an alias"),
        ("a: !!str 5", "c:1:4: a: tags (`!name`) are not used here"),
        ("a: !x", "c:1:4: a: tags"),
        ("a:\n  <<: {b: 1}", "c:2:3: a[\"<<\"]: merge keys (`<<`) are not used here"),
        ("5: a", 'c:1:1: ["5"]: the key `5` is no text; quote it'),
        ("null: a", "c:1:1: null: the key `null` is no text"),
        (": a", 'c:1:1: [""]: an empty key'),
        ("? [a]\n: b", "c:1:3: a list or mapping cannot be a key"),
        ("%YAML 1.1\n---\na: 1", "c:1:1: directives"),
        ("a: 1\n---\nb: 2", "c:2:1: a second document begins here"),
        ("a: {{x}}", 'c:1:4: a: an unquoted `{{` is read as a mapping; quote the text: "{{name}}"'),
        ("a: {{x}} b", "c:1:4: a: an unquoted `{{`"),
        ("a: [{{x}}, {{y}}]", "c:1:5: a[0]: an unquoted `{{`"),
        ("a: {{x}}: {{y}}", "c:1:4: a: an unquoted `{{`"),
        ("- a", "c:1:1: the file must be a mapping"),
        ("", "c:1:1: the file is empty"),
        ("# nothing\n", "c:1:1: the file is empty"),
        ("a: @x", "c:1:4: a text cannot begin with `@` unless it is quoted"),
        ("a: %x", "c:1:4: a text cannot begin with `%` unless it is quoted"),
        ("a: `x`", "c:1:4: a text cannot begin with ``` unless it is quoted"),
        ("a:\n\tb: 1", "c:2:1: a tab stands in the indentation; indent with blanks"),
        ("a: b: c", "c:1:5: `: ` stands inside an unquoted text; put the whole text in quotes"),
        ('a: "C:\\DSWIN"', r"c:1:7: in double quotes a backslash begins an escape, and this is none; use single quotes for backslashes: 'C:\DSWIN'"),
        ('a: "\\UFFFFFFFF"', "c:1:2: an escape in double quotes is no character"),
        ('a: "\\ud800"', "c:1:4: a: the escape is half of a surrogate pair"),
        ("a:\n  - b\n c: 2", "c:3:2: the indentation does not fit"),
        ("a: 'x\nb: 2", "c:1:4: a quoted text is not closed"),
        ("a: 'x' y", "c:1:8: something follows after the value"),
        ("a: [1, 2\nb: 3", "c:1:4: a `[` is not closed"),
        ("a: {b: 1\n", "c:1:4: a `{` is not closed"),
        ("a: -", "c:1:4: a list cannot begin here"),
        ("a\nb: 1", "c:2:2: a `:` is not expected here; check the indentation, and the line before: it may lack its `:`"),
        ("a: x\x01", "c:1:5: a control character stands in the file"),
        (b"\xef\xbb\xbfa: 1\nb: \xe4", "c:2:4: the byte 0xE4 is not UTF-8; save the file as UTF-8"),
        (b"\xff\xfea\x00", "c:1:1: the file is UTF-16"),
        ("a: \ud800", "c:1:4: the text contains half of a surrogate pair"),
        ("a: " + "[" * 50, "c:1:43: lists and mappings are nested more than 40 deep"),
        ("a: [" + "x," * 50_000 + "]", "c:1:99999: the file has more than 50000 values"),
        (b"a" * (MAX_BYTES + 1), "c:1:1: the file is larger than 1 MiB"),
        ("a" * (MAX_BYTES + 1), "c:1:1: the file is larger than 1 MiB"),
    ],
)  # fmt: skip
def test_refused_with_place_and_words(text: str | bytes, expected: str) -> None:
    found = refused(text)
    assert found
    assert found[0].startswith(expected), found


def test_all_problems_that_leave_the_rest_readable_are_found_together() -> None:
    found = refused("a: 0123\nb: *x\nc: {{y}}\nd: 1\nd: 2\n")
    assert [line.split(": ")[0] for line in found] == ["c:1:4", "c:2:4", "c:3:4", "c:5:1"]


def test_an_anchor_bomb_stays_small() -> None:
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"k{i}: &k{i} [*a, *a, *a, *a, *a, *a, *a]\n" for i in range(1, 100))
    assert refused(text)[0].startswith("c:1:4: a: anchors")


def test_a_byte_order_mark_is_accepted_and_does_not_move_columns() -> None:
    document = parse(b"\xef\xbb\xbfa: 0123", "c")
    assert [(p.line, p.column) for p in document.problems] == [(1, 4)]


def test_positions_of_keys_and_values() -> None:
    document = parse("a:\n  b: [x, y]\n  'c d': |\n    z\n", "c")
    assert document.value_mark(("a", "b", 1))[:2] == (2, 10)
    assert document.key_mark(("a", "c d"))[:2] == (3, 3)
    assert document.value_mark(("a", "c d"))[:2] == (3, 10)
    assert document.value_mark(("a", "b", 7, "nowhere"))[:2] == (2, 6)


@pytest.mark.parametrize("text", ["a: +4930", "a: 0x1F", "a: 0o17", "a: 12E3"])
def test_numbers_that_may_be_texts_are_warned_of(text: str) -> None:
    (warning,) = parse(text, "c").warnings
    assert str(warning).startswith("c:1:4: a: this is read as the number")


def test_a_control_character_from_double_quotes_is_warned_of() -> None:
    (warning,) = parse(r'a: "\bword"', "c").warnings
    assert "single quotes" in warning.hint
