"""The checks are named and explained, and the document tells of each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from runner.conformance.suite import CHECKS, chosen
from runner.conformance.told import reference

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs/conformance.md").read_text(encoding="utf-8")


def test_names_are_unique_and_every_check_says_what_it_proves_and_what_to_do() -> None:
    every = [check for checks in CHECKS.values() for check in checks]
    assert len({check.name for check in every}) == len(every) >= 60
    for check in every:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", check.name)
        for text in (check.proves, check.means, check.remedy):
            assert not text[0].isspace(), check.name
            assert text.endswith("."), check.name


def test_the_document_lists_the_checks_as_they_are() -> None:
    for what, checks in CHECKS.items():
        wanted = f"### `conformance {what}`\n\n{reference(checks)}"
        assert wanted in DOCUMENT, "write its tables anew: legacyproof conformance checks"


@pytest.mark.parametrize("what", CHECKS)
def test_tables_of_results_hold_every_check_once(what: str) -> None:
    tables = re.findall(rf"^### Results: \w+, {what}\n(.*?)(?=^#|\Z)", DOCUMENT, re.MULTILINE | re.DOTALL)
    assert tables
    for table in tables:
        assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == [c.name for c in CHECKS[what]]  # type: ignore[index]


def test_a_quick_pass_leaves_out_the_slow_ones_and_a_pattern_chooses() -> None:
    assert {check.name for check in CHECKS["guest"]} - {check.name for check in chosen("guest", quick=True)} == {
        "read-large"
    }
    assert [check.name for check in chosen("guest", "registry-*")] == ["registry-values", "registry-missing"]
    assert chosen("guest", "no such") == []
