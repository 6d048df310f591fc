r"""Tabs in YAML: where they separate they mean what blanks mean; where they would indent they are refused, at the tab itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.document import parse
from contracts.load import ContractError

SCALARS = st.sampled_from(["x", "5", "two words", "'quoted # : - '", '"double"', "[1, {a: b}]", "{k: [v]}", "a:b", "~"])
NAMES = st.sampled_from(["a", "b", "'c d'", "e f", "g"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3), st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(NAMES, TREES, min_size=1, max_size=3)


def lines(tree: Any, gap: Callable[[], str], *, depth: int = 0, compact: bool = False) -> list[str]:
    """A tree in block style; ``gap`` gives what stands at each place where a separation is legal."""
    indent = "  " * depth
    if isinstance(tree, str):
        return [indent + tree]
    made = []
    items = tree.items() if isinstance(tree, dict) else ((None, item) for item in tree)
    for name, item in items:
        head = indent + ("-" if name is None else f"{name}{gap().strip(' ')}:")
        if isinstance(item, str):
            made.append(head + gap() + item)
        elif compact and name is None:
            inner = lines(item, gap, depth=depth + 1, compact=True)
            made += [head + " " + inner[0].lstrip(" "), *inner[1:]]
        else:
            made += [head, *lines(item, gap, depth=depth + 1, compact=compact)]
    return made


def refusal(text: str) -> str:
    try:
        parse(text, "c")
    except ContractError as error:
        return str(error.problems[0])
    return "nothing refused"


@given(DOCUMENTS, st.booleans(), st.data())
def test_a_tab_that_separates_means_what_a_blank_means(tree: Any, compact: bool, data: st.DataObject) -> None:
    gaps = st.text(" \t", min_size=1, max_size=3)
    plain = lines(tree, lambda: " ", compact=compact)
    tabbed = lines(tree, lambda: data.draw(gaps), compact=compact)
    endings = st.sampled_from(["", "\t", " \t", "\t# a comment", "\n\t", "\n  \t# a comment", "\n\t\t\n"])
    text = "".join(f"{line}{data.draw(endings)}\n" for line in tabbed)
    document = parse(text, "c")
    assert (document.data, document.problems, document.warnings) == (parse("\n".join(plain), "c").data, [], [])


@given(DOCUMENTS, st.booleans(), st.data())
def test_a_tab_that_would_indent_is_refused_where_it_stands(tree: Any, compact: bool, data: st.DataObject) -> None:
    written = lines(tree, lambda: " ", compact=compact)
    places = [
        (number, column) for number, line in enumerate(written) for column in range(len(line) - len(line.lstrip(" ")))
    ] + [(number, line.index("-") + 1) for number, line in enumerate(written) if _is_compact(line)]
    if not places:
        return
    number, column = data.draw(st.sampled_from(places))
    line = written[number]
    written[number] = line[:column] + "\t" + line[column + 1 :]
    expected = f"c:{number + 1}:{column + 1}: a tab stands in the indentation; indent with blanks"
    assert refusal("\n".join(written)) == expected


def _is_compact(line: str) -> bool:
    """Whether a list or mapping begins on the line of its ``-``; a text like ``a:b`` is none."""
    return re.match(r" *- (- |(a|b|'c d'|e f|g):( |$))", line) is not None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a:\t|\n  x\ty\n", "x\ty\n"), ("a: |\t\n  x\n", "x\n"), ("a: >-\t# c\n  x\n  y\n", "x y"), ("a: |2-\t\n   x\n", " x"),
        ("a: |-2\t\n   x\n", " x"), ("a: |+\t\n  x\n\n", "x\n\n"), ("a: x\n \ty\n", "x y"), ("a: x\t\n \n\t\n  y\n", "x\n\ny"),
        ("a:\n  \tx\n", "x"), ("a:\n \t'x'\t\n", "x"), ("a:\n \t[1,\n\t2]\t# c\n", [1, 2]), ("a: [x\ty]\n", ["x\ty"]),
        ("a: 'x\ty'\n", "x\ty"), ("? a\n:\tx\n", "x"), ("a: x\t", "x"), ("a: x\n\t", "x"), ("a: x\n\t# c", "x"),
        ("a: x\t\n...\t\n", "x"), ("a: x\r\n\t\r\n", "x"), ("a: b#\tc\t#d", "b#\tc"),
    ],
)  # fmt: skip
def test_tabs_around_and_within_texts(text: str, meant: Any) -> None:
    document = parse(text, "c")
    assert (document.data, document.problems) == ({"a": meant}, [])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a:\n\tb: 1", "2:1"), ("a:\n  b: 1\n\tc: 2", "3:1"), ("\ta: 1", "1:1"), ("a: x\n\ty", "2:1"), ("a: |\n\tx", "2:1"),
        ("a: >\n  x\n\ty", "3:1"), ("a:\n  -\tb: 1", "2:4"), ("a:\n  -\t- b", "2:4"), ("a:\n  -\t? b", "2:4"),
        ("a:\n \t b: 1", "2:2"), ("a:\n- b\n\t- c", "3:1"), ("a:\n  b: 1\n\tc: {{y}}", "3:1"), ("a:\r\n\tb: 1", "2:1"),
        ("? a\n:\tb: 1", "2:2"), ("a:\n  \t'b': 1", "2:3"), ("a:\n  \t[b]: 1", "2:3"),
    ],
)  # fmt: skip
def test_tabs_that_indent(text: str, place: str) -> None:
    assert refusal(text) == f"c:{place}: a tab stands in the indentation; indent with blanks"


def test_a_mapping_in_a_value_stays_refused_for_its_colon() -> None:
    assert refusal("a:\tb: c") == "c:1:5: `: ` stands inside an unquoted text; put the whole text in quotes"


@pytest.mark.parametrize("text", ["a: Erika\tMuster", "a: [x\ty]", "a: x\n  y\tz"])
def test_a_tab_inside_an_unquoted_text_is_warned_of_since_nobody_sees_it(text: str) -> None:
    (warning,) = parse(text, "c").warnings
    assert "a tab stands inside the unquoted text" in str(warning)
    assert "Muster" not in str(warning)
