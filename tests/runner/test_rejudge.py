"""Judging stored runs again: the same verdicts from evidence alone; another contract changes exactly what it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.rejudge import Kept, NotJudged, agents_time, contract_of, judged, rejudge, runs_at
from runner.store import Campaign, StoreError
from tests.command_line import Call
from tests.runner.stored_runs import campaign_in, store, stored, text_of, with_state, without
from tests.validators.mutate_runs import ENDED, STARTED, golden, with_fields
from validators.snapshot import UnreadableState

NEW_PATIENT = "dswin.add-new-patient"


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return campaign_in(tmp_path_factory.mktemp("runs"))


def by_name(campaign: Campaign) -> dict[str, Kept]:
    return {kept.record.run.rpartition(".")[2]: kept for kept in runs_at(campaign.folder)}


# --- the same contract ------------------------------------------------------------------------------------------------


def test_every_verdict_is_the_same_again(campaign: Campaign) -> None:
    found = list(rejudge(runs_at(campaign.folder), None))
    assert len(found) == 6
    assert [again.changes for again in found] == [()] * 6
    assert all(again.verdict == again.kept.record.verdict for again in found)
    assert {again.kept.record.verdict.outcome for again in found} == {
        "valid_success",
        "invalid_success",
        "valid_failure",
    }


def test_runs_are_found_by_whatever_leads_to_them(campaign: Campaign) -> None:
    run = campaign.folder / f"{NEW_PATIENT}.wrong"
    assert [kept.record.run for kept in runs_at(run / "record.json")] == [run.name]
    assert [kept.record.run for kept in runs_at(run)] == [run.name]
    assert len(runs_at(campaign.folder.parent)) == len(runs_at(campaign.folder)) == 6


def test_a_path_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there are no runs"):
        runs_at(tmp_path)
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(StoreError, match="cannot be read"):
        runs_at(tmp_path)


def test_dates_are_judged_by_the_guests_clock_of_then(campaign: Campaign) -> None:
    kept = by_name(campaign)["idle"]
    assert agents_time(kept.record) == (STARTED, ENDED)
    about = {"utc_offset": 3600, "clock_offset": 86_400.0}
    older = without(kept, worked=None, freshness=about).record
    assert older.before is not None
    first, last = agents_time(older)
    assert (first - older.before.taken).total_seconds() == 86_400
    assert first.utcoffset() == last.utcoffset() == STARTED.utcoffset()


def test_evidence_that_was_changed_is_told_and_not_judged(tmp_path: Path) -> None:
    kept = stored(Campaign.create(tmp_path, "c"), "add-new-patient", "run")
    assert kept.record.after is not None
    name = str(kept.record.after.readings["patients"].blobs["dbf"])
    path = kept.campaign.folder / "blobs" / name[:2] / name
    path.write_bytes(path.read_bytes().replace(b"Muster", b"Master"))
    (again,) = rejudge([kept], None)
    assert again.verdict is None
    assert again.damaged
    assert "was changed" in again.why_not


# --- another contract -------------------------------------------------------------------------------------------------


def changed(folder: Path, old: str, new: str) -> dict[str, Path]:
    text = text_of("add-new-patient")
    assert text.count(old) == 1
    path = folder / "changed.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return {NEW_PATIENT: path}


def test_a_loosened_contract_flips_exactly_what_it_loosens(campaign: Campaign, tmp_path: Path) -> None:
    files = changed(tmp_path, 'VERSNR: "{{insurance_number}}"', "VERSNR: {regex: '\\d+'}")
    text = files[NEW_PATIENT].read_text(encoding="utf-8")
    files[NEW_PATIENT].write_text(text.replace('"1234567890"', '{value: "1234567890", unchecked: not any more}'))
    found = {again.kept.record.run.rpartition(".")[2]: again for again in rejudge(runs_at(campaign.folder), files)}
    assert found.keys() == {"good", "wrong", "beside", "idle"}  # those of this contract alone
    assert [name for name, again in found.items() if again.changes] == ["wrong"]
    changes = found["wrong"].changes
    assert changes[0] == "invalid success wrong_effect → valid success"
    assert "patients inserted PATNR=000104: unexplained → expected by `inserted patients (new_patient)`" in changes
    assert "expected `inserted patients (new_patient)`: missing (VERSNR does not fit) → there" in changes


def test_an_allowed_change_is_told_with_its_reason(campaign: Campaign, tmp_path: Path) -> None:
    rule = "  allow:\n    - updated: patients\n      fields: {BEMERK: versehentlich}\n      because: a colleague writes remarks\n"
    found = list(rejudge(runs_at(campaign.folder), changed(tmp_path, "  allow:\n", rule)))
    flipped = [again for again in found if again.changes]
    assert [again.kept.record.run for again in flipped] == [f"{NEW_PATIENT}.beside"]
    assert flipped[0].changes == (
        "invalid success collateral → valid success",
        "patients updated PATNR=000007: unexplained → allowed by `updated patients` (a colleague writes remarks)",
    )


def test_a_stricter_contract_fails_what_it_forbids(campaign: Campaign, tmp_path: Path) -> None:
    rule = "  forbid:\n    - modified: program\n      path: 'DSWIN.LOG'\n  allow:\n"
    found = [
        again for again in rejudge(runs_at(campaign.folder), changed(tmp_path, "  allow:\n", rule)) if again.changes
    ]
    assert {again.kept.record.run.rpartition(".")[2] for again in found} == {"good", "wrong", "beside"}
    good = next(again for again in found if again.kept.record.run.endswith("good"))
    assert good.changes[0] == "valid success → invalid success collateral"
    assert good.changes[1].startswith("program modified DSWIN.LOG: allowed by `modified program`")


def test_parameters_are_those_of_the_run(tmp_path: Path) -> None:
    def other(text: str) -> str:
        return text.replace("insurer: BARMER", "insurer: AOK")

    run = golden("add-new-patient", other)
    after = with_state(run, patients=with_fields(run.after["patients"], "patients", 104, {"KASSE": "AOK"}))
    campaign = Campaign.create(tmp_path, "c")
    kept = stored(campaign, "add-new-patient", "run", change=other, after=after)
    assert kept.record.verdict.outcome == "valid_success"
    plain = tmp_path / "plain.yaml"
    plain.write_text(text_of("add-new-patient"), encoding="utf-8")
    assert contract_of(kept, plain).contract.parameter_values["insurer"] == "AOK"
    assert judged(kept, contract_of(kept, plain)) == kept.record.verdict


# --- what cannot be judged again --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"before": None}, "before there was a state"),
        ({"after": None}, "was not let in"),
    ],
)
def test_runs_that_ended_early_are_left_alone(campaign: Campaign, changes: dict[str, Any], why: str) -> None:
    kept = without(by_name(campaign)["idle"], **changes)
    with pytest.raises(NotJudged, match=why):
        judged(kept, contract_of(kept))


def test_faults_of_the_house_stay_faults(campaign: Campaign) -> None:
    kept = by_name(campaign)["idle"]
    verdict = kept.record.verdict.model_copy(update={"outcome": "unscored", "cause": "machine"})
    kept = without(kept, verdict=verdict)
    with pytest.raises(NotJudged, match="no contract changes"):
        judged(kept, contract_of(kept))


def test_an_unmet_precondition_is_found_again(campaign: Campaign) -> None:
    kept = by_name(campaign)["idle"]
    good = by_name(campaign)["wrong"]  # its state after has the patient
    done = without(kept, before=good.record.after, after=None)
    verdict = judged(done, contract_of(done))
    assert (verdict.outcome, verdict.cause) == ("unscored", "precondition")
    assert "required before the run: no rows of patients" in verdict.reason


def test_an_unreadable_state_is_unscored_again(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path, "c")
    run = golden("add-new-patient")
    kept = stored(campaign, "add-new-patient", "run")
    after = campaign.keep_snapshot({**run.after, "notes": UnreadableState("it was locked")}, settled=True)
    verdict = judged(without(kept, after=after), contract_of(kept))
    assert (verdict.outcome, verdict.cause) == ("unscored", "unreadable")
    assert verdict.reason == "A state that the contract needs could not be read: notes: after the run: it was locked."


def _secret(text: str) -> str:
    return text.replace('insurance_number: "1234567890"', 'insurance_number: {value: "1234567890", secret: true}')


def test_secret_values_must_be_given_anew(tmp_path: Path) -> None:
    campaign = Campaign.create(tmp_path, "c")
    kept = store(campaign, golden("add-new-patient", _secret), text_of("add-new-patient", _secret), "run")
    assert "1234567890" not in (campaign.folder / "run" / "record.json").read_text(encoding="utf-8")
    (again,) = rejudge([kept], None)
    assert "secret values" in again.why_not
    file = tmp_path / "contract.yaml"
    file.write_text(text_of("add-new-patient", _secret), encoding="utf-8")
    (again,) = rejudge([kept], {NEW_PATIENT: file})
    assert again.verdict == kept.record.verdict


# --- the command line -------------------------------------------------------------------------------------------------


def test_the_command_says_that_nothing_changed(call: Call, campaign: Campaign) -> None:
    status, out, err = call("rejudge", campaign.folder)
    assert (status, out) == (0, "")
    assert "6 runs judged again: 6 as before, 0 differ" in err


def test_the_command_lists_what_changed(call: Call, campaign: Campaign, tmp_path: Path) -> None:
    rule = "  allow:\n    - updated: patients\n      fields: {BEMERK: versehentlich}\n      because: a remark\n"
    files = changed(tmp_path, "  allow:\n", rule)
    status, out, err = call("rejudge", campaign.folder, "--contract", files[NEW_PATIENT])
    assert status == 1
    assert out.splitlines()[:2] == [f"{NEW_PATIENT}.beside:", "  invalid success collateral → valid success"]
    assert "4 runs judged again: 3 as before, 1 differ" in err
    status, out, _ = call("rejudge", campaign.folder, "--contract", files[NEW_PATIENT], "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (status, sum(bool(line["changes"]) for line in lines), len(lines)) == (1, 1, 4)


def test_a_campaign_that_is_none_is_refused(call: Call, tmp_path: Path) -> None:
    status, out, err = call("rejudge", tmp_path)
    assert (status, out) == (2, "")
    assert "there are no runs" in err


def test_mutants_are_made_from_the_newest_good_run(call: Call, campaign: Campaign, tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(text_of("add-billing-code"), encoding="utf-8")
    status, out, _ = call("mutate", contract, "--runs", campaign.folder.parent, "--by-kind")
    assert status == 0
    assert "dswin.add-billing-code: " in out
    assert "bad states rejected (100 %)" in out
    assert "row twice" in out
    assert "not looked at by decision: allowed: modified program (the program's own log)" in out
    text = text_of("add-billing-code").replace("STATUS: O", "STATUS: {regex: '.'}")
    contract.write_text(text, encoding="utf-8")
    status, out, _ = call("mutate", contract, "--run", campaign.folder / "dswin.add-billing-code.good")
    assert status == 1
    assert "hole: the rule of `inserted treatments (treatment)` for STATUS accepts other values" in out
    status, out, _ = call("mutate", contract, "--run", campaign.folder, "--json")
    data = json.loads(out)
    assert (status, data["mutants"] - data["rejected"]) == (1, len(data["survivors"]))


def test_without_a_good_run_the_command_says_how_to_make_one(call: Call, campaign: Campaign, tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(text_of("look-up-patient"), encoding="utf-8")
    for where in (campaign.folder.parent, tmp_path / "nowhere"):
        status, out, err = call("mutate", contract, "--runs", where)
        assert (status, out) == (2, "")
        assert f"legacyproof run {contract} --agent scripted:…/golden.yaml" in err


def test_a_good_run_of_another_contract_text_is_refused(call: Call, campaign: Campaign, tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(text_of("add-billing-code").replace("STATUS: O", "STATUS: B"), encoding="utf-8")
    status, _, err = call("mutate", contract, "--run", campaign.folder)
    assert status == 2
    assert "is no good run for this contract: The agent reported success, but the treatment’s STATUS is O" in err
