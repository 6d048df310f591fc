"""Where runs are kept: evidence once and unchanged, records whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.record import AgentRef, ContractRef, Intended, RunRecord, SnapshotRef, TimelineEntry, VerdictPart
from runner.store import MARK, Campaign, StoreError, abandoned, sweep
from validators.dbf import TableState
from validators.files import FileItem, TreeState
from validators.snapshot import Snapshot, UnreadableState
from validators.windows import WindowItem, WindowsState

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    return Campaign.create(tmp_path / "runs", "demo")


def record(run: str = "r1", **about: Any) -> RunRecord:
    parts: dict[str, Any] = {
        "run": run,
        "campaign": "demo",
        "contract": ContractRef(
            id="a.b", title="t", sha256="0" * 64, source="1" * 64, parameters={"name": "Muster", "n": 5},
            state_changing=True, application="a", domain="d", instruction="do", goal="done",
        ),
        "agent": AgentRef(spec="noop", name="noop failed", prompt="expert", prompt_text="2" * 64),
        "image": "dentadesk", "provider": "wine", "started": NOW, "ended": NOW + timedelta(seconds=3),
        "verdict": VerdictPart(outcome="valid_failure", kind="gave_up", reason="Nothing changed."),
    }  # fmt: skip
    return RunRecord(**(parts | about))


def finish(campaign: Campaign, one: RunRecord) -> Path:
    return campaign.finish(one, campaign.begin(one.run))


# --- campaigns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "a\\b", "/abs", ".hidden", "a b", "ä", "a\n", "x" * 201, "-x"])  # fmt: skip
def test_names_that_are_no_folder_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="campaign's name"):
        Campaign.create(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["demo", "2026-11-29-120000", "a..b", "0", "x" * 200])
def test_a_campaign_is_made_or_gone_on_with(tmp_path: Path, name: str) -> None:
    first = Campaign.create(tmp_path, name)
    blob = first.keep(b"data")
    again = Campaign.create(tmp_path, name)
    assert (again.name, again.blob(blob)) == (name, b"data")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(StoreError, match="cannot be written"):
        Campaign.create(tmp_path / "runs", "demo")


# --- evidence ---------------------------------------------------------------------------------------------------------


def blobs(campaign: Campaign) -> list[Path]:
    return [path for path in (campaign.folder / "blobs").rglob("*") if path.is_file()]


@given(st.binary(max_size=200))
def test_evidence_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    kept = Campaign.create(tmp_path_factory.getbasetemp(), "property")
    assert kept.blob(kept.keep(data)) == data


def test_equal_evidence_is_kept_once(campaign: Campaign) -> None:
    names = {campaign.keep(b"the same") for _ in range(5)}
    assert len(names) == 1
    assert len(blobs(campaign)) == 1


def test_evidence_may_be_kept_by_many_at_once(campaign: Campaign) -> None:
    barrier = threading.Barrier(8)
    names: list[str] = []

    def keep() -> None:
        barrier.wait(20)
        names.append(campaign.keep(b"x" * 100_000))

    threads = [threading.Thread(target=keep) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(names) == 8
    assert len(blobs(campaign)) == 1
    assert campaign.blob(names[0]) == b"x" * 100_000


@pytest.mark.parametrize("data", [b"", b"truth", b"truthx"])
def test_changed_evidence_is_refused(campaign: Campaign, data: bytes) -> None:
    name = campaign.keep(b"true")
    blobs(campaign)[0].write_bytes(data)
    with pytest.raises(StoreError, match="was changed"):
        campaign.blob(name)


def test_missing_evidence_is_refused(campaign: Campaign) -> None:
    name = campaign.keep(b"true")
    blobs(campaign)[0].unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        campaign.blob(name)


@pytest.mark.parametrize("name", ["", "..", "../../etc/passwd", "0" * 63, "0" * 65, "A" * 64, "0" * 63 + "/", "0" * 64 + "\n"])  # fmt: skip
def test_only_hashes_name_evidence(campaign: Campaign, name: str) -> None:
    with pytest.raises(StoreError, match="no name of evidence"):
        campaign.blob(name)


def test_damaged_evidence_is_written_anew_when_it_comes_again(campaign: Campaign) -> None:
    name = campaign.keep(b"true")
    blobs(campaign)[0].write_bytes(b"")
    campaign.keep(b"true")
    assert campaign.blob(name) == b"true"


# --- records ----------------------------------------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was(campaign: Campaign) -> None:
    one = record(
        agent=AgentRef(
            spec="scripted:x.yaml", name="scripted x", prompt="expert", prompt_text="2" * 64, status="success",
            message="done \u2022 \u202e", returned={"n": "000104", "list": [1, None, True, 1.5]}, usage={"tokens": 3.0},
            timeline=[TimelineEntry(t=0.5, text="press F2", screenshot="3" * 64)],
        ),
        freshness={"base": "4" * 64, "layers": []}, timings={"clone": 0.25},
        intended=Intended(outcome="valid_failure"), faults=["the machine was not removed"],
    )  # fmt: skip
    path = finish(campaign, one)
    assert path == campaign.folder / "r1" / "record.json"
    assert list(campaign.records()) == [one]
    assert json.loads(path.read_text(encoding="utf-8"))["version"] == 1


def test_finishing_leaves_nothing_but_the_record(campaign: Campaign) -> None:
    scratch = campaign.begin("r1")
    (scratch / "agent").mkdir()
    (scratch / "agent" / "notes").write_text("private")
    campaign.finish(record(), scratch)
    assert sorted(path.name for path in campaign.folder.iterdir()) == ["blobs", "r1"]
    assert [path.name for path in (campaign.folder / "r1").iterdir()] == ["record.json"]


def test_records_come_in_the_order_in_which_the_runs_began(campaign: Campaign) -> None:
    for run, minutes in (("c", 1), ("a", 2), ("b", 1)):
        finish(campaign, record(run, started=NOW + timedelta(minutes=minutes)))
    assert [one.run for one in campaign.records()] == ["b", "c", "a"]


def test_an_unfinished_run_is_no_record(campaign: Campaign) -> None:
    finish(campaign, record("done"))
    scratch = campaign.begin("cut-short")
    assert (scratch / MARK).is_file()
    (scratch / "finished").mkdir()
    (scratch / "finished" / "record.json").write_text(record("cut-short").model_dump_json())
    assert [one.run for one in campaign.records()] == ["done"]


def test_nothing_that_lies_in_an_unfinished_folder_is_a_record(campaign: Campaign) -> None:
    scratch = campaign.begin("cut-short")
    (scratch / "record.json").write_text(record("forged").model_dump_json())
    assert list(campaign.records()) == []


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": 1}', "\ufeff", "null"])
def test_a_damaged_record_is_told_with_its_place(campaign: Campaign, text: str) -> None:
    path = finish(campaign, record())
    path.write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=r"r1.record\.json cannot be read"):
        campaign.records()


def test_fields_that_are_not_known_are_accepted(campaign: Campaign) -> None:
    path = finish(campaign, record())
    data = json.loads(path.read_text()) | {"later": {"invention": 1}}
    data["agent"]["mood"] = "good"
    path.write_text(json.dumps(data))
    assert list(campaign.records()) == [record()]


def test_a_record_of_a_later_version_is_not_read_as_one_of_ours(campaign: Campaign) -> None:
    path = finish(campaign, record())
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(StoreError):
        list(campaign.records())


def test_replacing_a_record(campaign: Campaign) -> None:
    finish(campaign, record())
    campaign.replace(record(superseded=True))
    (one,) = campaign.records()
    assert one.superseded
    assert [path.name for path in (campaign.folder / "r1").iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, None),
        (Intended(outcome="valid_failure"), True),
        (Intended(outcome="valid_failure", kind="gave_up"), True),
        (Intended(outcome="valid_failure", kind="timeout"), False),
        (Intended(outcome="valid_success"), False),
    ],
)
def test_whether_a_run_is_as_intended(wanted: Intended | None, expected: bool | None) -> None:
    assert record(intended=wanted).as_intended is expected


# --- snapshots --------------------------------------------------------------------------------------------------------

ITEMS = (
    FileItem(r"a\b.txt", "file", 3, 133, 0x20, "a" * 64, ((":zone:$DATA", 26),)),
    FileItem("dir", "dir", 0, 133, 0x10),
    FileItem("link", "link", 0, 133, 0x410),
    FileItem("lone \ud800 surrogate \udc00", "file", 1, 1, 0x20, None),
)
WINDOWS = WindowsState(
    (WindowItem(1, 2, "APP.EXE", "App", "\ud83d [bold] <b>", hung=True), WindowItem(3, 4, "", "", ""))
)


def round_trip(campaign: Campaign, snapshot: Snapshot) -> Snapshot:
    kept = campaign.keep_snapshot(snapshot, settled=True)
    stored = record(before=kept)
    finish(campaign, stored)
    (read,) = campaign.records()
    assert read.before is not None
    return campaign.snapshot(read.before)


@pytest.mark.parametrize(
    "state",
    [
        TableState(b"\x03table", None, None, "T.DBF"),
        TableState(b"\x30table", b"memo", "fpt", "T.DBF"),
        TableState(b"", b"", "dbt", "T.DBF"),
        TableState(None, None, None, "T.DBF"),
        TreeState(True, ITEMS, {}, {}),
        TreeState(True, (), {}, {}),
        TreeState(False, (), {}, {}),
        TreeState(True, ITEMS, {r"a\b.txt": b"abc", "empty": b""}, {"dir": "too large"}),
        WINDOWS,
        WindowsState(),
        UnreadableState("the probe died: \u201cno end\u201d"),
    ],
)
def test_a_state_comes_back_as_it_was(campaign: Campaign, state: Any) -> None:
    assert round_trip(campaign, {"x": state}) == {"x": state}


def test_contents_that_were_not_looked_for_come_back_as_none_kept(campaign: Campaign) -> None:
    state = round_trip(campaign, {"x": TreeState(True, ITEMS)})["x"]
    assert isinstance(state, TreeState)
    assert (state.items, not state.contents, not state.missing) == (ITEMS, True, True)


@pytest.mark.parametrize(
    "state",
    [
        TreeState(True, ITEMS, {"lone \ud800": b"abc"}, {}),
        TreeState(True, ITEMS, {}, {"lone \ud800": "too large"}),
        TreeState(True, ITEMS, {}, {"x": "lone \ud800: too large"}),
    ],
)
def test_lone_surrogates_in_names_of_kept_contents(campaign: Campaign, state: TreeState) -> None:
    back = round_trip(campaign, {"x": state})["x"]
    assert isinstance(back, TreeState)
    assert (back.items, back.contents) == (state.items, state.contents)
    assert set(back.missing or {}) == set(state.missing or {})


def test_a_reason_with_a_lone_surrogate_can_be_kept(campaign: Campaign) -> None:
    back = round_trip(campaign, {"x": UnreadableState("C:\\D\\\ud800: access denied")})["x"]
    assert isinstance(back, UnreadableState)
    assert "access denied" in back.reason


def test_equal_snapshots_take_the_room_of_one(campaign: Campaign) -> None:
    snapshot: Snapshot = {
        "t": TableState(b"\x03" * 1000, None, None, "T.DBF"),
        "w": WINDOWS,
        "d": TreeState(True, ITEMS),
    }
    campaign.keep_snapshot(snapshot, settled=True)
    count = len(blobs(campaign))
    campaign.keep_snapshot(snapshot, settled=False)
    assert len(blobs(campaign)) == count == 3


def kept(campaign: Campaign) -> SnapshotRef:
    return campaign.keep_snapshot(
        {"d": TreeState(True, ITEMS), "t": TableState(b"\x03", None, None, "T")}, settled=True
    )


def test_a_snapshot_whose_evidence_is_gone_is_refused(campaign: Campaign) -> None:
    reference = kept(campaign)
    for path in blobs(campaign):
        path.unlink()
    with pytest.raises(StoreError):
        campaign.snapshot(reference)


@pytest.mark.parametrize("other", [b'{"not": "a listing"}', b"\x03 a table", b"[[1]]", b"[" * 100_000, b"null"])
@pytest.mark.parametrize("kind", ["files", "windows"])
def test_a_snapshot_that_names_other_evidence_is_refused(campaign: Campaign, other: bytes, kind: str) -> None:
    reference = kept(campaign)
    reading = reference.readings["d"].model_copy(update={"blobs": {"items": campaign.keep(other)}, "kind": kind})
    with pytest.raises(StoreError):
        campaign.snapshot(reference.model_copy(update={"readings": {"d": reading}}))


def test_a_reading_of_a_tree_without_its_listing_is_refused(campaign: Campaign) -> None:
    reference = kept(campaign)
    reading = reference.readings["d"].model_copy(update={"blobs": {}})
    with pytest.raises(StoreError):
        campaign.snapshot(reference.model_copy(update={"readings": {"d": reading}}))


# --- what dead runners leave ------------------------------------------------------------------------------------------


def dead_note(campaign: Campaign, name: str = "dead") -> None:
    """Registers the campaign as a runner does that has died since."""
    register = Path(os.environ["LEGACYPROOF_HOME"]) / "campaigns"
    register.mkdir(parents=True, exist_ok=True)
    (register / f"{name}.json").write_text(json.dumps({"campaign": str(campaign.folder), "runner": 4_000_000}))


def test_a_campaign_in_work_is_listed_and_left_alone(campaign: Campaign) -> None:
    with campaign.held():
        scratch = campaign.begin("r1")
        (item,) = abandoned()
        assert (item.campaign, item.runner_pid, item.alive) == ("demo", os.getpid(), True)
        with pytest.raises(StoreError, match="in use"):
            sweep(item)
        assert scratch.is_dir()
        campaign.finish(record(), scratch)
    assert abandoned() == []


def test_a_folder_that_was_never_finished_stays_listed_when_its_runner_has_ended(campaign: Campaign) -> None:
    with campaign.held():
        scratch = campaign.begin("r1")
    (item,) = abandoned()
    assert not item.alive
    sweep(item)
    assert (abandoned(), scratch.exists()) == ([], False)


def test_what_a_dead_runner_left_unfinished_goes_and_what_is_finished_stays(campaign: Campaign) -> None:
    finish(campaign, record("done"))
    evidence = campaign.keep(b"data")
    campaign.begin("cut-short")
    strange = campaign.folder / ".not-ours.unfinished"
    strange.mkdir()
    half = campaign.folder / "blobs" / evidence[:2] / f".{evidence}.0123"
    half.write_bytes(b"da")
    dead_note(campaign)
    (item,) = abandoned()
    assert not item.alive
    sweep(item)
    assert sorted(path.name for path in campaign.folder.iterdir()) == [".not-ours.unfinished", "blobs", "done"]
    assert campaign.blob(evidence) == b"data"
    assert not half.exists()
    assert abandoned() == []


def test_sweeping_after_a_dead_runner_leaves_what_a_living_one_makes(campaign: Campaign) -> None:
    dead_note(campaign)
    with campaign.held():
        scratch = campaign.begin("still-running")
        (dead,) = [item for item in abandoned() if not item.alive]
        with contextlib.suppress(StoreError):
            sweep(dead)
        assert scratch.is_dir()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"campaign": 5}', '{"campaign": "/nowhere", "runner": "x"}'])
def test_a_damaged_note_is_listed_and_goes(campaign: Campaign, text: str) -> None:
    dead_note(campaign)
    (note,) = (Path(os.environ["LEGACYPROOF_HOME"]) / "campaigns").iterdir()
    note.write_text(text)
    scratch = campaign.begin("r1")
    (item,) = abandoned()
    sweep(item)
    assert abandoned() == []
    assert scratch.is_dir()
