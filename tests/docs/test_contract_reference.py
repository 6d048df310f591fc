"""The reference of contracts keeps its promises: its examples load, and every word that contracts know is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from contracts.lint import lint
from contracts.load import LoadedContract, load_text
from contracts.schema import CONTENT_KEYS, MATCHER_KEYS, OBSERVABLE_KEYS, REGISTRY_FIELDS, VERBS
from validators.verdict import Claim, Kind, SideEffect, UnscoredCause

REFERENCE = (Path(__file__).resolve().parents[2] / "docs" / "contract.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", REFERENCE, re.MULTILINE | re.DOTALL)
WHOLE = [block for block in BLOCKS if block.startswith("schema: 1")]
FRAGMENTS = [block for block in BLOCKS if not block.startswith("schema: 1")]

HEAD = """\
schema: 1
id: reference.fragment
title: A fragment of the reference
application: Practice
domain: test
state_changing: true
image: dentadesk
instruction: Do it.
goal_state: {summary: It is done.}
"""
PARTS = {
    "initial_state": "summary: The program is there.",
    "observe": r"""patients: {dbf: 'C:\PRACTICE\DATA\PATIENT.DBF', key: [PATNR]}
counters: {dbf: 'C:\PRACTICE\DATA\COUNTER.DBF', key: [NAME]}
program: {files: 'C:\PRACTICE'}
settings: {registry: 'HKCU\Software\Practice'}
screen: {windows: {}}""",
    "effects": "expect: [{inserted: patients, name: new_patient, fields: {PATNR: {generated: next}}}]",
    "returns": "schema: {type: object, properties: {patient_number: {type: string}}}",
}
"""What stands in the skeleton where a fragment is about something else."""
PICTURES = {"expected.png": b""}


def load(parts: Mapping[str, str]) -> LoadedContract:
    """Puts parts of a contract into the skeleton and loads it."""
    sections = [
        f"{name}:\n" + re.sub(r"^", "  ", text, flags=re.MULTILINE) for name, text in {**PARTS, **parts}.items()
    ]
    return load_text(HEAD + "\n".join(sections) + "\n", name="reference", pictures=PICTURES)


def load_fragment(block: str) -> LoadedContract:
    """Loads a fragment; its first line says what of a contract it is."""
    first, _, rest = block.partition("\n")
    kind = first.removeprefix("# ")
    if kind == "content":
        content = re.sub(r"^", "      ", rest, flags=re.MULTILINE)
        return load({"effects": f"expect:\n  - created: program\n    content:\n{content}"})
    assert kind in PARTS, f"a block of the reference does not say what it is: {first!r}"
    if kind == "initial_state":
        rest = f"{PARTS[kind]}\n{rest}"
    alone = {"effects": "{}"} if kind == "observe" else {}
    return load(alone | {kind: rest})


def matcher_examples() -> list[str]:
    table = REFERENCE.partition("\n## Matchers\n")[2].partition("\n**Literals**")[0]
    return re.findall(r"^\| `(.+?)` \|", table, re.MULTILINE)


def mentioned(word: str) -> bool:
    """Whether the reference has the word as code: alone, or as a key, a value or a part of an example."""
    code = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", REFERENCE, flags=re.MULTILINE | re.DOTALL))
    return any(re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text) for text in [*code, *BLOCKS])


def test_there_is_a_whole_contract() -> None:
    assert WHOLE


@pytest.mark.parametrize("block", WHOLE)
def test_whole_contracts_load_and_lint_finds_nothing(block: str) -> None:
    loaded = load_text(block, name="reference")
    assert loaded.warnings == ()
    assert [str(finding) for finding in lint(loaded)] == []


@pytest.mark.parametrize("block", FRAGMENTS, ids=lambda block: block.partition("\n")[0].removeprefix("# "))
def test_fragments_load_in_a_contract(block: str) -> None:
    load_fragment(block)


def test_every_kind_of_fragment_is_there() -> None:
    kinds = {block.partition("\n")[0] for block in FRAGMENTS}
    assert kinds == {"# effects", "# observe", "# returns", "# content", "# initial_state"}


@pytest.mark.parametrize("example", matcher_examples())
def test_examples_of_matchers_load(example: str) -> None:
    effects = (
        "expect:\n  - {inserted: patients, name: new_patient}\n"
        f"  - updated: counters\n    fields:\n      LAST: {example}"
    )
    load({"effects": effects})


def test_every_matcher_has_an_example() -> None:
    keys = {key for example in matcher_examples() for key in re.findall(r"^\{(\w+):", example)}
    assert keys == {*MATCHER_KEYS}


@pytest.mark.parametrize("word", sorted({*MATCHER_KEYS, *CONTENT_KEYS, *OBSERVABLE_KEYS, *REGISTRY_FIELDS, *VERBS}))
def test_every_word_of_contracts_is_explained(word: str) -> None:
    assert mentioned(word)


@pytest.mark.parametrize("word", [str(word) for words in (Kind, UnscoredCause, SideEffect, Claim) for word in words])
def test_every_word_of_verdicts_is_explained(word: str) -> None:
    assert mentioned(word)


def test_verbs_stand_beside_their_observable() -> None:
    contract = load({"observe": PARTS["observe"] + "\norders: {sql: shop, table: orders}", "effects": "{}"}).contract
    told = {
        key: {*re.findall(r"`(\w+)`", verbs)}
        for key, verbs in re.findall(
            r"^\| `(dbf|sql|files|registry|windows)` \|[^|]*\|([^|\n]*)\|$", REFERENCE, re.MULTILINE
        )
    }
    kinds = {"patients": "dbf", "orders": "sql", "program": "files", "settings": "registry", "screen": "windows"}
    assert told == {kind: {*contract.observe[name].verbs} for name, kind in kinds.items()}


def test_links_lead_to_headings() -> None:
    headings = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", REFERENCE, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    links = re.findall(r"\]\(#([^)]+)\)", REFERENCE)
    assert links
    assert {*links} <= anchors
