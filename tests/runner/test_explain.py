"""Explanations: why a run got its outcome, and an entry to allow what it did that works when it is pasted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.document import parse
from contracts.load import load_text
from contracts.writing import flow
from runner.bundle import export
from runner.explain import BECAUSE, allow_entry, explain
from runner.record import FieldChange, LedgerEntry, Misfit, Missing
from runner.rejudge import Kept, judged, runs_at
from runner.store import Campaign
from tests.command_line import Call
from tests.runner.stored_runs import campaign_in, store, stored, text_of, without
from tests.validators.mutate_runs import golden, with_fields, with_row
from tests.validators.test_mutate import SMALL, _small
from validators.dbf import TableState
from validators.files import FileItem, TreeState
from validators.mutate import mutants
from validators.snapshot import State
from validators.windows import WindowItem, WindowsState


def words(kept: Kept) -> str:
    return "\n".join(explain(kept.record))


def pasted(kept: Kept, text: str) -> str:
    """The contract's text with the suggested entries under ``allow``."""
    lines = words(kept).splitlines()
    at = lines.index("  allow:")
    entries = [line for line in lines[at + 1 :] if line.startswith("    - {")]
    assert entries
    if "\n  allow:\n" in text:
        return text.replace("\n  allow:\n", "\n  allow:\n" + "".join(f"{entry}\n" for entry in entries))
    return text.replace("effects:\n", "effects:\n  allow:\n" + "".join(f"{entry}\n" for entry in entries)).replace(
        "effects: {}                     # not even the log: looking at a patient leaves no trace\n",
        "effects:\n  allow:\n" + "".join(f"{entry}\n" for entry in entries),
    )


def allows(kept: Kept, text: str) -> None:
    """Checks that the entries load, and that each unexplained change is allowed by them."""
    loaded = load_text(pasted(kept, text), name="pasted")
    verdict = judged(kept, loaded)
    was = {(e.observable, e.verb, e.subject) for e in kept.record.verdict.ledger if e.status == "unexplained"}
    now = {(e.observable, e.verb, e.subject): e.status for e in verdict.ledger}
    assert was
    assert {about: now[about] for about in was} == dict.fromkeys(was, "allowed")


def unexpected(folder: Path, **states: State) -> Kept:
    run = golden("add-new-patient")
    return stored(Campaign.create(folder, "c"), "add-new-patient", "run", after=run.with_states(states))


# --- what is told -----------------------------------------------------------------------------------------------------


def test_a_wrong_value_is_told_beside_what_was_expected(tmp_path: Path) -> None:
    campaign = campaign_in(tmp_path)
    told = words(next(k for k in runs_at(campaign.folder) if k.record.run.endswith("wrong")))
    for text in (
        "invalid success (IS)", "kind: wrong effect", "It reported success", "It returned {'patient_number': '000104'}",
        "✗ inserted patients (new_patient)", "closest: PATNR=000104 — 1 field does not fit",
        "VERSNR: expected 1234567890, found 4212505", "it is the expectation that has to be changed",
        "DSWIN.LOG was modified — the program's own log",
    ):  # fmt: skip
        assert text in told


def test_what_follows_from_a_near_miss_is_told_under_it_alone(tmp_path: Path) -> None:
    campaign = campaign_in(tmp_path)
    told = words(next(k for k in runs_at(campaign.folder) if k.record.run.endswith("wrong")))
    for text in (
        "↳ expected, and missing: updated counters", "↳ counters: NAME=PATIENT was updated",
        "↳ the returned patient_number is “000104” instead of",
    ):  # fmt: skip
        assert text in told
    assert told.count("✗") == 2
    assert "What is wrong with the returned values" not in told
    # To allow the row, whoever decides so must allow what follows from it as well.
    assert told.count("- {") == 2


def test_a_date_of_zeros_can_be_allowed(tmp_path: Path) -> None:
    state = golden("add-new-patient").after["patients"]
    assert isinstance(state, TableState)
    data = bytearray(state.dbf or b"")
    record = data.index(b"19570611")
    data[record : record + 8] = b"00000000"
    kept = unexpected(tmp_path, patients=replace(state, dbf=bytes(data)))
    assert "→ 00000000" in words(kept)
    allows(kept, text_of("add-new-patient"))


def test_what_came_what_else_changed_and_what_to_write(tmp_path: Path) -> None:
    campaign = campaign_in(tmp_path)
    told = words(next(k for k in runs_at(campaign.folder) if k.record.run.endswith("beside")))
    for text in (
        "✓ patients: PATNR=000104 was inserted, as `new_patient` says", "✓ counters: NAME=PATIENT was updated\n",
        "✗ patients: PATNR=000007 was updated", "BEMERK:", "→ versehentlich",
        "No rule of the contract that still waits for a change speaks of “updated patients”.",
        "- {updated: patients, where: {PATNR: '000007'}, fields: {BEMERK: versehentlich}, because: " + BECAUSE + "}",
    ):  # fmt: skip
        assert text in told


def test_a_run_that_left_no_trace_needs_no_advice(tmp_path: Path) -> None:
    campaign = campaign_in(tmp_path)
    told = words(next(k for k in runs_at(campaign.folder) if k.record.run.endswith("idle")))
    assert "valid failure (VF)" in told
    assert "What the task asks for, and was not done" in told
    assert "nothing came close to it" in told
    assert "allow:" not in told


def test_a_forbidden_change_is_not_offered_to_be_allowed(tmp_path: Path) -> None:
    def forbid(text: str) -> str:
        return text.replace("  allow:\n", "  forbid:\n    - updated: patients\n      because: never\n  allow:\n")

    run = golden("add-new-patient", forbid)
    after = run.with_states({"patients": with_fields(run.after["patients"], "patients", 7, {"BEMERK": "x"})})
    told = words(stored(Campaign.create(tmp_path, "c"), "add-new-patient", "run", change=forbid, after=after))
    assert "It is forbidden by `updated patients` (never); that comes first, `allow` does not help." in told
    assert "  allow:" not in told


def test_the_record_alone_is_enough(tmp_path: Path) -> None:
    kept = unexpected(
        tmp_path, patients=with_fields(golden("add-new-patient").after["patients"], "patients", 7, {"PLZ": "1"})
    )
    before = words(kept)
    for path in (kept.campaign.folder / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    assert words(Kept(kept.campaign, runs_at(kept.campaign.folder)[0].record)) == before


# --- what to write works ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"BEMERK": "versehentlich"}, {"BEMERK": "{{last_name}} }} {{"}, {"BEMERK": "- [x]: # 'a' \"b\" \\n"}, {"BEMERK": "true"},
        {"AKTIV": False}, {"AKTIV": None}, {"GEBDAT": date(2001, 2, 3)}, {"GEBDAT": None}, {"SALDO": -5}, {"BEMERK": "(blank)"},
        {"BEMERK": "1E+3"}, {"NAME": "Größe*?[x]", "PLZ": "00001"}, {"BEMERK": "Zeile\r\nzwei"}, {"PATNR": "900000"},
    ],
)  # fmt: skip
def test_an_updated_row_can_be_allowed(tmp_path: Path, values: Mapping[str, Any]) -> None:
    state = with_fields(golden("add-new-patient").after["patients"], "patients", 7, values)
    allows(unexpected(tmp_path, patients=state), text_of("add-new-patient"))


def test_rows_inserted_and_deleted_can_be_allowed(tmp_path: Path) -> None:
    after = golden("add-new-patient").after
    row = {"LNR": "000151", "PATNR": "000042", "ANZAHL": 1, "STATUS": "O"}
    memo = with_row(after["notes"], "notes", {"DOKNR": "000041", "PATNR": "000042"}, "Eine\r\nsehr lange Notiz " * 60)
    kept = unexpected(tmp_path, treatments=with_row(after["treatments"], "treatments", row), notes=memo)
    allows(kept, text_of("add-new-patient"))
    told = words(kept)
    assert "{inserted: treatments, where: {LNR: '000151'}" in told
    assert "TEXT: {is: any, because: 'the record does not hold this value whole" in told


HOSTILE = ["a b.TXT", "x[1].TXT", "{{y}}.TXT", "'q'.TXT", "Zahn#1: ä.TXT", "DATA\\sub[a]\\%TEMP%.TXT"]


@pytest.mark.parametrize("path", HOSTILE)
def test_files_of_any_name_can_be_allowed(tmp_path: Path, path: str) -> None:
    tree = golden("add-new-patient").after["program"]
    assert isinstance(tree, TreeState)
    items = [item for item in tree.items if item.path != "DSWIN.INI"]
    items.append(FileItem(path, "file", 1, 1, 0x20, "a" * 64))
    kept = unexpected(tmp_path, program=TreeState(True, tuple(items), tree.contents, {}))
    allows(kept, text_of("add-new-patient"))


@pytest.mark.parametrize("title", ["Hinweis", "", "a'b: {{x}}", "true", "x" * 600, "zwei\nZeilen \x1b[31m", "*?[a]"])
def test_windows_of_any_title_can_be_allowed(tmp_path: Path, title: str) -> None:
    screen = golden("add-new-patient").after["screen"]
    assert isinstance(screen, WindowsState)
    window = WindowItem(9, 9, "X.EXE", "#32770", title)
    allows(unexpected(tmp_path, screen=WindowsState((*screen.items, window))), text_of("add-new-patient"))
    renamed = WindowsState(
        tuple(WindowItem(w.handle, w.process, w.program, w.class_name, title + "!") for w in screen.items)
    )
    allows(unexpected(tmp_path / "2", screen=renamed), text_of("add-new-patient"))


def test_whatever_mutants_do_can_be_allowed(tmp_path: Path) -> None:
    """Every change that a bad state brings, in tables, files, windows, the registry and SQL."""
    for number, (run, text) in enumerate(((golden("look-up-patient"), text_of("look-up-patient")), (_small(), SMALL))):
        campaign = Campaign.create(tmp_path / str(number), "c")
        for mutant in mutants(run):
            if mutant.returned != run.returned:
                continue
            kept = store(
                campaign,
                run,
                text,
                f"run.{mutant.flaw.name.lower()}.{len(list(campaign.folder.iterdir()))}",
                after=mutant.after,
            )
            if any(entry.status == "unexplained" for entry in kept.record.verdict.ledger):
                allows(kept, text)


_HARD = st.text(st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    [
        "(blank)",
        "(null)",
        "true",
        "…",
        "a…",
        "�",
        "(3 bytes: 61 62 63)",
        "{{",
        "}}",
        "a: b",
        "# x",
        "1E+9",
        "-",
        "'",
        '"',
        "\u202e",
    ]
)


@settings(max_examples=300, deadline=None)
@given(subject=_HARD, fields=st.dictionaries(st.sampled_from(["A", "B b", "Ä"]), st.tuples(_HARD, _HARD), min_size=1), verb=st.sampled_from(
    ["inserted", "updated", "deleted", "undeleted", "purged", "created", "modified", "renamed", "opened", "closed", "retitled"]
), identity=st.sampled_from(["key A", "key A, B b", "by position", "by path", "by name", "by handle and process", ""]))  # fmt: skip
def test_entries_are_yaml_that_reads_back_the_same(
    subject: str, fields: dict[str, tuple[str, str]], verb: str, identity: str
) -> None:
    changes = [FieldChange(field=name, before=old, after=new) for name, (old, new) in fields.items()]
    entry = LedgerEntry(observable="things", verb=verb, subject=subject, status="unexplained", fields=changes)
    data = allow_entry(entry, {"things": identity})
    document = parse(f"effects: {flow({'allow': [data]})}\n", "pasted")
    assert not document.problems
    assert document.data == {"effects": {"allow": [data]}}


# --- hostile texts ----------------------------------------------------------------------------------------------------


def test_nothing_hostile_reaches_the_terminal(tmp_path: Path) -> None:
    bad = "\x1b]0;owned\x07\x1b[2J\u202eevil\r\nSecond line"
    kept = runs_at(campaign_in(tmp_path).folder)[-1]
    entry = LedgerEntry(
        observable="screen", verb="opened", subject=bad, status="unexplained", how=bad,
        fields=[FieldChange(field=bad, before=bad, after=bad)],
    )  # fmt: skip
    missing = Missing(
        effect=bad, observable="screen", verb="opened", near_miss=bad, hint=bad,
        misfits=[Misfit(field=bad, expected=bad, found=bad, before=bad)],
    )  # fmt: skip
    verdict = kept.record.verdict.model_copy(
        update={"ledger": [entry] * 50, "missing": [missing], "reason": bad, "warnings": [bad]}
    )
    agent = kept.record.agent.model_copy(update={"message": bad, "returned": {bad: bad}})
    told = words(without(kept, verdict=verdict, agent=agent, faults=[bad]))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", told)
    assert "… and 10 more" in told


def test_the_command_explains_one_run(tmp_path: Path, call: Call) -> None:
    campaign = campaign_in(tmp_path)
    run = campaign.folder / "dswin.add-new-patient.beside"
    for path in (run, run / "record.json"):
        status, out, _ = call("explain", path)
        assert status == 0
        assert out.rstrip("\n") == words(runs_at(run)[0])


def test_the_command_explains_several_runs_campaigns_and_bundles_each_run_once(tmp_path: Path, call: Call) -> None:
    campaign = campaign_in(tmp_path / "runs")
    found = runs_at(campaign.folder)
    some = [campaign.folder / found[number].record.run for number in (4, 1, 4)]
    status, out, _ = call("explain", *some)
    assert (status, out) == (0, "\n\n".join(words(found[number]) for number in (4, 1)) + "\n")
    everything = "\n\n".join(map(words, found)) + "\n"
    export(found, tmp_path / "bundle.zip")
    for paths in ([campaign.folder], [campaign.folder, some[0]], [tmp_path / "runs"], [tmp_path / "bundle.zip"]):
        assert call("explain", *paths)[:2] == (0, everything)


def test_superseded_attempts_are_explained_where_they_are_named(tmp_path: Path, call: Call) -> None:
    campaign = campaign_in(tmp_path)
    first, *others = runs_at(campaign.folder)
    old = first.record.model_copy(update={"superseded": True})
    campaign.replace(old)
    status, out, err = call("explain", campaign.folder)
    assert (status, out) == (0, "\n\n".join(map(words, others)) + "\n")
    assert "superseded attempts that are not told of: 1" in err
    status, out, err = call("explain", campaign.folder / old.run)
    assert (status, out.splitlines()[0], err) == (0, old.run, "")


def test_what_cannot_be_explained_is_told_before_anything_is(tmp_path: Path, call: Call) -> None:
    campaign = campaign_in(tmp_path)
    status, out, err = call("explain")
    assert (status, out) == (2, "")
    assert "name a run or a campaign" in err
    assert "Usage" not in err
    (tmp_path / "no.zip").write_bytes(b"no archive")
    for path in (tmp_path / "nowhere", tmp_path / "no.zip"):
        status, out, err = call("explain", campaign.folder, path)
        assert (status, out) == (2, "")
        assert err.strip()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["x" * 119 + "!", "a_" * 59 + "ü", "1.2" * 39 + "?"])
def test_a_long_text_that_is_almost_a_bare_word_takes_no_time(text: str) -> None:
    assert flow({"a": text}) == "{a: '" + text + "'}"
