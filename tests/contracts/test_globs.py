"""Patterns for Windows paths and titles."""

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.globs import GlobError, compile_glob, compile_title_glob, escape, fold


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.TMP", ["a.tmp", r"SUB\b.Tmp", "sub/c.TMP", ".tmp"], ["a.tmpx", r"a.tmp\b", "tmp"]),
        ("DSWIN.LOG", ["dswin.log", r"a\b\DSWIN.log"], ["xdswin.log", "dswin.log.1", r"dswin.log\x"]),
        (r"\DSWIN.LOG", ["dswin.log"], [r"a\dswin.log"]),
        (r"DATA\*.DBF", [r"data\p.dbf", "data/p.dbf"], [r"data\x\p.dbf", "p.dbf", r"x\data\p.dbf"]),
        ("DATA/*.DBF", [r"DATA\P.DBF"], [r"DATA\X\P.DBF"]),
        (r"DATA\**", [r"data\a", r"data\a\b.c"], ["data", r"xdata\a"]),
        ("**", ["a", r"a\b"], []),
        (r"**\p.dbf", ["p.dbf", r"a\p.dbf", r"a\b\p.dbf"], ["ap.dbf", r"a\xp.dbf"]),
        (r"a\**\b", [r"a\b", r"a\x\b", r"a\x\y\b"], [r"a\xb", "ab", r"a\b\c"]),
        (r"**\**\q", ["q", r"a\b\q"], ["aq"]),
        (r"x\a**b", [r"x\ab", r"x\a\y\b"], [r"y\ab"]),
        ("a?c", ["abc", r"x\aéc"], ["ac", "abbc", r"a\c"]),
        ("[a-c]1", ["A1", "b1"], ["d1"]),
        ("[!a]1", ["b1"], ["a1", "A1", r"\1"]),
        ("[]]", ["]"], ["["]),
        ("[[]x[]]", ["[x]"], ["x"]),
        (r"a\\b", [r"a\b"], [r"a\x\b"]),
        ("MÜLLER.DOC", ["müller.doc", "mu\u0308ller.doc"], ["muller.doc"]),
        ("straße", ["STRAßE"], ["STRASSE"]),
        ("fıle", ["fıle"], ["file", "FILE"]),
        ("*\U0001f600*", ["a\U0001f600b"], ["ab"]),
    ],
)
def test_matching(pattern: str, yes: list[str], no: list[str]) -> None:
    matches = compile_glob(pattern)
    assert [path for path in yes if not matches(path)] == []
    assert [path for path in no if matches(path)] == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "empty"),
        ("x" * 2_001, "longer"),
        (r"C:\DSWIN\*.TMP", "relative"),
        (r"\\server\share", "relative"),
        ("logs\\", r"`folder\**`"),
        (r"..\x", "`..`"),
        ("a[b", "`[[]`"),
        ("[", "`[[]`"),
        ("[!]", "`[[]`"),
        (r"[a\b]", "separator"),
        ("[z-a]", "backwards"),
    ],
)
def test_unusable_patterns_say_why(pattern: str, why: str) -> None:
    with pytest.raises(GlobError, match=re.escape(why)):
        compile_glob(pattern)


def test_title_patterns_know_no_folders() -> None:
    assert compile_title_glob("new patient*")(r"New Patient - C:\DATA/x")
    assert compile_title_glob(r"*C:\DATA?x")(r"New - c:\data/x")
    assert not compile_title_glob(r"a\b")("a/b")
    assert compile_title_glob("[*]*")("* changed")


def test_matching_takes_linear_time() -> None:
    matches = compile_glob("*a" * 30 + "*b")
    started = time.perf_counter()
    assert not matches("a" * 100_000)
    assert compile_glob(r"**\*a" * 20 + "b") is not None
    assert not compile_glob("**\\" + "a**" * 30 + "b")("a" * 50_000)
    assert time.perf_counter() - started < 2


def _reference(pattern: str) -> re.Pattern[str]:
    """The same patterns as a backtracking regular expression, for short texts."""
    parts = [part for part in pattern.split("\\") if part]
    if "\\" not in pattern:
        parts = ["**", *parts]
    expression = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**" and not last:
            expression += r"(?:.*\\)?"
            continue
        pieces = re.split(r"(\*\*+|\*|\?)", part)
        words = {"*": r"[^\\]*", "?": r"[^\\]"}
        expression += "".join(
            words.get(piece, ".*" if piece.startswith("**") else re.escape(piece.upper())) for piece in pieces
        )
        expression += "" if last else r"\\"
    return re.compile(expression, re.DOTALL)


@given(st.text("ab*?\\", min_size=1, max_size=9), st.text("ab\\", max_size=9))
def test_agrees_with_a_regular_expression(pattern: str, path: str) -> None:
    try:
        matches = compile_glob(pattern)
    except GlobError:
        return
    assert matches(path) == bool(_reference(pattern).fullmatch(path.upper()))


_NAME = st.text(st.characters(exclude_characters='\\/:"<>|', exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


@given(_NAME.filter(lambda name: name not in (".", "..")), _NAME)
def test_an_escaped_name_matches_itself_and_nothing_else(name: str, other: str) -> None:
    matches = compile_glob(escape(name))
    assert matches(name)
    assert matches(f"folder\\{name}")
    assert matches(unicodedata.normalize("NFD", name))
    assert matches(other) == (fold(other) == fold(name))
    assert compile_title_glob(escape(name))(name)


@given(st.text(max_size=40), st.text(max_size=40))
def test_never_fails_otherwise(pattern: str, path: str) -> None:
    for compile_pattern in (compile_glob, compile_title_glob):
        try:
            compile_pattern(pattern)(path)
        except GlobError as error:
            assert str(error)  # noqa: PT017
