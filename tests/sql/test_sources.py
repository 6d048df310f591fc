"""Sources: where a name in a contract leads, and that secrets stay there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sql.sources import SourceError, build_connection, find_source, parse_connection, with_options


def found(text: str) -> object:
    return find_source("practice", {"LEGACYPROOF_SQL_PRACTICE": text})


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("DSN=x", [("DSN", "x")]),
        (" Driver = {Some Driver} ; PWD={a;b}}c};UID=u;", [("Driver", "Some Driver"), ("PWD", "a;b}c"), ("UID", "u")]),
        ("DSN=x;PWD=a=b", [("DSN", "x"), ("PWD", "a=b")]),
        ("DSN=x;;PWD=", [("DSN", "x"), ("PWD", "")]),
    ],
)
def test_connection_strings(text: str, pairs: list[tuple[str, str]]) -> None:
    assert parse_connection(text) == pairs


@given(
    st.lists(
        st.tuples(st.from_regex(r"[A-Za-z_]{1,9}", fullmatch=True), st.text(max_size=12).map(str.strip)), max_size=4
    )
)
def test_what_is_built_is_parsed_again(pairs: list[tuple[str, str]]) -> None:
    assert parse_connection(build_connection(pairs)) == pairs


def test_options_replace_what_is_there_whatever_its_case() -> None:
    assert with_options("DSN=x;boolsaschar=1;PWD={a;}", {"BoolsAsChar": "0"}) == "DSN=x;PWD={a;};BoolsAsChar=0"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "LEGACYPROOF_SQL_PRACTICE"),
        ("topsecret", "connection string"),
        ("PWD=topsecret;UID=x", "DRIVER or DSN"),
        ("file:/nowhere/topsecret.txt", "cannot be read"),
        ("access:/x/topsecret;{}.mdb", "braces"),
    ],
)
def test_what_cannot_be_used_is_said_without_a_secret(text: str, why: str) -> None:
    with pytest.raises(SourceError, match=why) as caught:
        found(text)
    assert "topsecret" not in str(caught.value)


def test_a_file_holds_the_connection_string(tmp_path: Path) -> None:
    file = tmp_path / "source.txt"
    file.write_text("\ufeffDSN=x;PWD=hush\n", encoding="utf-8")
    source = find_source("practice", {"LEGACYPROOF_SQL_PRACTICE": f"file:{file}"})
    assert (source.kind, source.target) == ("odbc", "DSN=x;PWD=hush")
    file.write_text(f"file:{file}")
    with pytest.raises(SourceError, match="another"):
        found(f"file:{file}")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SourceError, match="UTF-8"):
        found(f"file:{file}")


def test_secrets_are_taken_out_in_every_spelling() -> None:
    source = find_source("practice", {"LEGACYPROOF_SQL_PRACTICE": "DRIVER={D};UID=anna;PWD={a}}b};AccessToken=tok"})
    text = "login anna with a}b or {a}}b} or tok failed: DRIVER={D};UID=anna;PWD={a}}b};AccessToken=tok"
    assert source.redacted(text) == "login anna with ••• or ••• or ••• failed: •••"
    assert "tok" not in repr(source)
