"""Secrets are blotted out of what is kept, however they are spelled, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.record import IgnoredEntry, LedgerEntry, Misfit, Missing, NoteEntry, VerdictPart
from runner.spellings import blot, blot_part, blot_value


def test_secrets_are_blotted_out_the_longest_first() -> None:
    assert blot("pass passport", ("pass", "passport")) == "••• •••"
    assert blot("nothing here", ("",)) == "nothing here"


def test_lone_surrogates_are_written_out() -> None:
    assert blot("a\ud800b", ()) == "a\\ud800b"


def test_secrets_are_blotted_out_everywhere_in_a_value() -> None:
    value = {"s3cret": ["x s3cret", {"deep": ("s3cret", None, 1.5, True)}]}
    assert blot_value(value, ("s3cret",)) == {"•••": ["x •••", {"deep": ["•••", None, 1.5, True]}]}


@pytest.mark.parametrize("value", [4711, {"pin": 4711}, [4711]])
def test_a_secret_number_is_blotted_out_too(value: Any) -> None:
    assert "4711" not in json.dumps(blot_value(value, ("4711",)))


@given(
    st.recursive(
        st.text() | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_what_is_blotted_can_be_written_and_holds_no_secret_text(value: Any) -> None:
    text = json.dumps(blot_value(value, ("abc", "s")), ensure_ascii=False)
    text.encode()
    assert "s" not in text


@pytest.mark.parametrize("secret", ['a"b\\c', "Käse 4711", "x\ny/z"])
def test_a_secret_in_json_within_json_is_found(secret: str) -> None:
    inner = json.dumps({"p": secret})
    for text in (inner, json.dumps(inner), json.dumps({"body": inner}, ensure_ascii=False)):
        assert "•••" in blot(text, (secret,))
        assert json.dumps(secret)[1:-1] not in blot(text, (secret,))


FULL = VerdictPart(
    outcome="valid_success", kind="collateral", cause=None, reason="success at last", side_effects=["file"],
    ledger=[LedgerEntry(observable="files", verb="created", subject="x success y", status="expected")],
    missing=[Missing(effect="e", observable="o", verb="created", misfits=[Misfit(field="F", expected="success", found="1234")])],
    notes=[NoteEntry(observable="o", kind="k", text="success", count=1234)],
    ignored=[IgnoredEntry(observable="o", rule="r", because="b", count=1234, examples=["success.txt"])],
    warnings=["warnings of success"], identities={"success": "by key"},
)  # fmt: skip


@pytest.mark.parametrize(
    "secret",
    ["valid_success", "success", "created", "expected", "collateral", "file", "1234", "warnings", "reason", "ledger"],
)
def test_whatever_a_secret_is_the_verdict_stays_a_verdict(secret: str) -> None:
    found = blot_part(FULL, (secret,))
    assert VerdictPart.model_validate(found.model_dump()) == found
    assert (found.outcome, found.kind, found.side_effects) == (FULL.outcome, FULL.kind, FULL.side_effects)
    assert [(e.verb, e.status) for e in found.ledger] == [("created", "expected")]
    assert [entry.count for entry in found.ignored] == [1234]
    assert set(found.model_dump()) == set(FULL.model_dump())


def test_free_texts_of_a_verdict_lose_their_secrets() -> None:
    found = blot_part(FULL, ("success",))
    texts = [
        found.reason, found.ledger[0].subject, found.missing[0].misfits[0].expected, found.notes[0].text,
        found.ignored[0].examples[0], found.warnings[0], *found.identities,
    ]  # fmt: skip
    assert all("•••" in text and "success" not in text for text in texts)
