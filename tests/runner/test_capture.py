"""Reading a machine's state through its guest: stable, incremental, and never "nothing there" for "could not read"."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter

from contracts.schema import DbfTable, FileTree, Observable, TaskContract, Windows, WindowScope
from runner import capture, capture_trees
from runner.guests.base import Guest, GuestLost
from runner.guests.probe import FaultEntry
from tests.contracts.helpers import EXAMPLE
from tests.peers.fake_guest import HEADER, FakeGuest, window
from tests.validators.dbf_files import F, Table
from validators.changes import Comparison, Unreadable
from validators.dbf import TableState
from validators.files import Sample, TreeState, diff_trees
from validators.snapshot import Snapshot, State, UnreadableState, compare
from validators.windows import WindowsState

TABLE = DbfTable.model_validate({"dbf": r"C:\D\T.DBF"})
TREE = FileTree.model_validate({"files": r"C:\D"})
UNSAMPLED = FileTree.model_validate({"files": r"C:\D", "sample": 0})
OBSERVE: dict[str, Observable] = {"table": TABLE, "disk": TREE}
WITH_WINDOWS: dict[str, Observable] = {**OBSERVE, "screen": Windows(windows=WindowScope())}
DBF = b"\x03" + b"the rest"
OTHER = b"\x03" + b"another"


def observe(**specs: Mapping[str, Any]) -> dict[str, Observable]:
    return TypeAdapter(dict[str, Observable]).validate_python(specs)


def tree(state: State) -> TreeState:
    assert isinstance(state, TreeState), state
    return state


def reason(state: State) -> str:
    assert isinstance(state, UnreadableState), state
    return state.reason


def difference(before: TreeState, after: TreeState) -> Comparison:
    return diff_trees(before, after, TREE, observable="disk", owned=lambda _path, _verb: False)


def changed_between(before: State, after: State) -> list[str]:
    return [f"{change.verb} {change.subject}" for change in difference(tree(before), tree(after)).changes]


@pytest.fixture
def guest() -> FakeGuest:
    fake = FakeGuest([window("Patients")])
    fake.put(r"C:\D\T.DBF", DBF)
    fake.put(r"C:\D\SUB\a.txt", b"one")
    fake.put(r"C:\D\APP.LOG", b"started")
    return fake


def test_the_fake_is_a_guest(guest: FakeGuest) -> None:
    assert isinstance(guest, Guest)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_table_at_rest_is_read_twice(guest: FakeGuest) -> None:
    state = capture.read_table(guest, TABLE)
    assert state == TableState(DBF, None, None, "T.DBF")
    assert guest.reads[r"C:\D\T.DBF"] == 2


def test_a_table_that_comes_to_rest_is_taken_as_it_is_then(guest: FakeGuest) -> None:
    contents = [DBF + b"1", DBF + b"22", DBF + b"333"]

    def write(path: str) -> None:
        if contents and path.endswith(".DBF"):
            guest.put(path, contents.pop(0))

    guest.on_read = write
    assert capture.read_table(guest, TABLE).dbf == DBF + b"333"


def test_a_table_that_is_written_all_the_time_is_unreadable(guest: FakeGuest) -> None:
    def write(path: str) -> None:
        if path.endswith(".DBF"):
            guest.put(path, guest.node(path).data + b"x", keep_time=True)

    guest.on_read = write
    with pytest.raises(Unreadable, match="being written"):
        capture.read_table(guest, TABLE, within=0.1)


def test_a_memo_that_is_written_all_the_time_makes_the_table_unreadable(guest: FakeGuest) -> None:
    guest.put(r"C:\D\T.DBF", b"\x83")
    guest.put(r"C:\D\T.DBT", b"memo")

    def write(path: str) -> None:
        if path.endswith(".dbt"):
            guest.put(path, guest.node(path).data + b"x")

    guest.on_read = write
    with pytest.raises(Unreadable, match="being written"):
        capture.read_table(guest, TABLE, within=0.1)


def test_an_absent_table_is_positively_absent() -> None:
    fake = FakeGuest()
    fake.put(r"C:\D\T.FPT", b"stray")
    assert capture.read_table(fake, TABLE) == TableState(None, None, None, "T.DBF")


def test_a_table_that_vanishes_between_two_readings_is_not_taken_half(guest: FakeGuest) -> None:
    def vanish(_path: str) -> None:
        if guest.reads[r"C:\D\T.DBF"] == 2:
            guest.remove(r"C:\D\T.DBF")

    guest.on_read = vanish
    assert capture.read_table(guest, TABLE).dbf is None
    assert guest.reads[r"C:\D\T.DBF"] == 3


def test_a_locked_table_is_unreadable_not_absent(guest: FakeGuest) -> None:
    guest.lock(r"C:\D\T.DBF")
    assert "access denied" in reason(capture.take(guest, {"t": TABLE})["t"])


def test_a_locked_memo_is_unreadable_not_absent(guest: FakeGuest) -> None:
    guest.put(r"C:\D\T.DBF", b"\x83")
    guest.put(r"C:\D\T.DBT", b"memo")
    guest.lock(r"C:\D\T.DBT")
    assert "access denied" in reason(capture.take(guest, {"t": TABLE})["t"])


def test_a_table_larger_than_accepted_is_unreadable(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "MAX_TABLE", 4)
    assert "more than the 4 accepted" in reason(capture.take(guest, {"t": TABLE})["t"])


@pytest.mark.parametrize(
    ("version", "files", "kind"),
    [
        (b"\x83", ("DBT",), "dbt"),
        (b"\x83", ("DBT", "FPT"), "dbt"),
        (b"\x8b", ("DBT", "FPT"), "dbt"),
        (b"\x30", ("FPT",), "fpt"),
        (b"\x30", ("DBT", "FPT"), "fpt"),
        (b"\x30", ("DBT",), None),
        (b"\xf5", ("DBT", "FPT"), "fpt"),
        (b"\xf5", ("DBT",), None),
        (b"\x31", ("FPT",), "fpt"),
        (b"\x32", ("DBT", "FPT"), "fpt"),
        (b"\x03", (), None),
        (b"\x83", (), None),
    ],
)
def test_the_memo_file_is_chosen_by_the_version_byte(version: bytes, files: tuple[str, ...], kind: str | None) -> None:
    fake = FakeGuest()
    fake.put(r"C:\D\T.DBF", version + b"rest")
    for extension in files:
        fake.put(rf"C:\D\T.{extension}", extension.encode())
    state = capture.read_table(fake, TABLE)
    assert state.memo_kind == kind
    assert state.memo == (kind.upper().encode() if kind else None)


# --- trees ------------------------------------------------------------------------------------------------------------


def test_a_tree_is_listed_and_hashed(guest: FakeGuest) -> None:
    guest.node(r"C:\D\APP.LOG").streams = ((":zone:$DATA", 26),)
    state = capture_trees.read_tree(guest, TREE, None)
    assert state.exists
    found = {item.path: (item.kind, item.size, item.sha256, item.streams) for item in state.items}
    assert found == {
        "T.DBF": ("file", len(DBF), hashlib.sha256(DBF).hexdigest(), ()),
        "SUB": ("dir", 0, None, ()),
        r"SUB\a.txt": ("file", 3, hashlib.sha256(b"one").hexdigest(), ()),
        "APP.LOG": ("file", 7, hashlib.sha256(b"started").hexdigest(), ((":zone:$DATA", 26),)),
    }
    assert guest.probes == [
        ("files", "--streams", r"C:\D"), ("files", "--hash", "--streams", r"C:\D\APP.LOG"),
    ]  # fmt: skip


def test_the_runners_own_files_are_not_listed_but_what_others_put_beside_them_is(guest: FakeGuest) -> None:
    for name in (r"nonce.txt", r"runs\0a1b.done", r"LPPROBE.EXE", r"notes.txt", r"runs\list.txt", r"sub\nonce.txt"):
        guest.put(rf"C:\legacyproof\{name}", b"x")
    guest.put(r"C:\D\legacyproof\nonce.txt", b"x")
    specs = observe(ours={"files": r"C:\legacyproof"}, elsewhere={"files": r"C:\D\legacyproof"})
    states = capture.take(guest, specs)
    found = {
        name: sorted(item.path for item in tree(state).items if item.kind == "file") for name, state in states.items()
    }
    assert found["ours"] == [r"notes.txt", r"runs\list.txt", r"sub\nonce.txt"]
    assert found["elsewhere"] == ["nonce.txt"]


def test_an_absent_tree_is_positively_absent() -> None:
    assert capture_trees.read_tree(FakeGuest(), TREE, None) == TreeState(exists=False)


def test_a_root_of_which_nothing_is_known_is_unreadable(guest: FakeGuest) -> None:
    guest.uncertain.add(r"C:\D")
    guest.faults.append(FaultEntry(r"C:\D", "stat", 5, "access denied"))
    assert r"C:\D" in reason(capture.take(guest, {"disk": TREE})["disk"])


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_root_that_is_no_folder_is_not_an_empty_folder(kind: str) -> None:
    fake = FakeGuest()
    if kind == "file":
        fake.put(r"C:\D", b"data")
    else:
        fake.link(r"C:\D")
    state = capture.take(fake, {"disk": TREE})["disk"]
    assert isinstance(state, UnreadableState) or tree(state).items


@pytest.mark.parametrize("op", ["stat", "list", "open", "decode"])
def test_a_fault_in_the_listing_makes_the_tree_unreadable(guest: FakeGuest, op: str) -> None:
    guest.faults.append(FaultEntry(r"C:\D\SUB", op, 5, "access denied"))
    assert reason(capture.take(guest, {"disk": TREE})["disk"]).startswith(r"C:\D\SUB: access denied (code 5")


@pytest.mark.parametrize(
    ("pattern", "path"),
    [("*.TMP", r"C:\D\SUB\x.TMP"), (r"SUB\**", r"C:\D\SUB\x.txt"), (r"SUB\*.TMP", r"C:\D\SUB\x.TMP"), ("SUB", r"C:\D\SUB")],
)  # fmt: skip
def test_a_fault_of_an_ignored_path_does_not_matter(guest: FakeGuest, pattern: str, path: str) -> None:
    guest.faults.append(FaultEntry(path, "stat", 5, "access denied"))
    spec = observe(disk={"files": r"C:\D", "ignore": [{"path": pattern, "because": "scratch"}]})
    assert tree(capture.take(guest, spec)["disk"]).exists


def test_a_fault_of_another_path_matters_although_some_are_ignored(guest: FakeGuest) -> None:
    guest.faults += [
        FaultEntry(r"C:\D\x.TMP", "stat", 5, "access denied"), FaultEntry(r"C:\D\y.DAT", "stat", 5, "gone"),
    ]  # fmt: skip
    spec = observe(disk={"files": r"C:\D", "ignore": [{"path": "*.TMP", "because": "scratch"}]})
    assert "y.DAT" in reason(capture.take(guest, spec)["disk"])


def test_a_torn_listing_is_unreadable_and_the_others_are_read(guest: FakeGuest) -> None:
    guest.torn = 1
    states = capture.take(guest, {"disk": TREE, "table": TABLE})
    assert "no end record" in reason(states["disk"])
    assert isinstance(states["table"], TableState)


def test_a_listing_that_does_not_come_in_time_is_unreadable(guest: FakeGuest) -> None:
    guest.answers_after = 10_000
    assert "no answer" in reason(capture.take(guest, {"disk": TREE})["disk"])


def test_a_lost_machine_is_lost(guest: FakeGuest) -> None:
    guest.lost = True
    for spec in (TABLE, TREE):
        with pytest.raises(GuestLost):
            capture.take(guest, {"x": spec})
    with pytest.raises(GuestLost):
        capture.take(guest, OBSERVE, contents=False)


def test_a_file_that_cannot_be_read_does_not_make_the_tree_unreadable(guest: FakeGuest) -> None:
    guest.lock(r"C:\D\APP.LOG")
    before = capture.take(guest, {"disk": TREE})["disk"]
    assert [item.path for item in tree(before).items if item.kind == "file" and item.sha256 is None] == ["APP.LOG"]
    assert changed_between(before, capture.take(guest, {"disk": TREE})["disk"]) == []


def test_a_locked_file_that_was_written_decides(guest: FakeGuest) -> None:
    guest.lock(r"C:\D\APP.LOG")
    before = capture.take(guest, {"disk": TREE})["disk"]
    guest.put(r"C:\D\APP.LOG", b"stopped")
    after = capture.take(guest, {"disk": TREE})["disk"]
    with pytest.raises(Unreadable, match=r"APP\.LOG"):
        difference(tree(before), tree(after))


def test_a_file_that_goes_away_between_listing_and_reading_is_not_taken_for_unchanged(guest: FakeGuest) -> None:
    before = capture.take(guest, {"disk": TREE})["disk"]
    path = r"C:\D\SUB\a.txt"

    def vanish(read: str) -> None:
        if read == path:
            guest.remove(path)

    guest.on_read = vanish
    after = capture.take(guest, {"disk": TREE}, earlier={"disk": before})["disk"]
    assert isinstance(after, UnreadableState) or changed_between(before, after) == [r"deleted SUB\a.txt"]


def test_a_file_that_changes_between_listing_and_reading_is_modified(guest: FakeGuest) -> None:
    before = capture.take(guest, {"disk": TREE})["disk"]

    def write(read: str) -> None:
        if read.endswith("a.txt"):
            guest.put(read, b"two", keep_time=True)

    guest.on_read = write
    after = capture.take(guest, {"disk": TREE}, earlier={"disk": before})["disk"]
    assert changed_between(before, after) == [r"modified SUB\a.txt"]


def test_links_are_listed_and_never_read(guest: FakeGuest) -> None:
    guest.link(r"C:\D\OUT")
    guest.put(r"C:\D\OUT\inside.txt", b"elsewhere")
    state = tree(capture.take(guest, {"disk": TREE})["disk"])
    assert {item.path for item in state.items if item.kind == "link"} == {"OUT"}
    assert not any("inside" in path for path in guest.reads)


# --- incremental reading ----------------------------------------------------------------------------------------------


def test_a_small_tree_is_hashed_whole_so_that_a_time_put_back_is_seen(guest: FakeGuest) -> None:
    before = capture.take(guest, {"disk": TREE})["disk"]
    guest.put(r"C:\D\SUB\a.txt", b"two", keep_time=True)
    after = capture.take(guest, {"disk": TREE}, earlier={"disk": before})["disk"]
    assert changed_between(before, after) == [r"modified SUB\a.txt"]


def test_of_a_large_tree_only_what_differs_is_read(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_trees, "HASH_ALL", 4)
    before = capture.take(guest, {"disk": UNSAMPLED})["disk"]
    assert sum(guest.reads.values()) == 3
    guest.reads.clear()
    guest.put(r"C:\D\SUB\a.txt", b"two")
    guest.put(r"C:\D\new.txt", b"new")
    after = capture.take(guest, {"disk": UNSAMPLED}, earlier={"disk": before})["disk"]
    assert dict(guest.reads) == {r"C:\D\SUB\A.TXT": 1, r"C:\D\NEW.TXT": 1}
    assert changed_between(before, after) == ["created new.txt", r"modified SUB\a.txt"]
    assert all(item.sha256 for item in tree(after).items if item.kind == "file")


def test_the_size_of_a_tree_decides_not_the_number_of_files(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    total = len(DBF) + len(b"one") + len(b"started")
    before = capture.take(guest, {"disk": UNSAMPLED})["disk"]
    for limit, expected in ((total, 3), (total - 1, 0)):
        monkeypatch.setattr(capture_trees, "HASH_ALL", limit)
        guest.reads.clear()
        capture.take(guest, {"disk": UNSAMPLED}, earlier={"disk": before})
        assert sum(guest.reads.values()) == expected


def test_what_could_not_be_hashed_earlier_is_tried_again(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_trees, "HASH_ALL", 0)
    guest.lock(r"C:\D\APP.LOG")
    before = capture.take(guest, {"disk": UNSAMPLED})["disk"]
    guest.unlock(r"C:\D\APP.LOG")
    guest.reads.clear()
    after = capture.take(guest, {"disk": UNSAMPLED}, earlier={"disk": before})["disk"]
    assert dict(guest.reads) == {r"C:\D\APP.LOG": 1}
    assert all(item.sha256 for item in tree(after).items if item.kind == "file")


def large(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch, files: int = 300) -> FakeGuest:
    """A tree beyond the size that is hashed whole."""
    monkeypatch.setattr(capture_trees, "HASH_ALL", 4)
    for number in range(files):
        guest.put(rf"C:\D\MANY\{number:03}.txt", b"content %d" % number)
    return guest


def sampled(share: float, **about: Any) -> dict[str, Observable]:
    return observe(disk={"files": r"C:\D", "sample": Decimal(str(share)), **about})


def test_a_share_of_what_looks_unchanged_is_read_and_told(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    large(guest, monkeypatch)
    spec = sampled(0.1)
    before = capture.take(guest, spec)
    assert tree(before["disk"]).sample is None
    guest.reads.clear()
    after = capture.take(guest, spec, earlier=before, seed="run 1")
    assert sum(guest.reads.values()) == 31  # a tenth of 303, rounded up
    assert tree(after["disk"]).sample == Sample(31, 303)
    (found,) = compare(spec, before, after)
    assert (found.changes, found.warnings) == ((), ())
    assert [(note.kind, note.count) for note in found.notes] == [("sampled", 31)]


def test_samples_depend_on_the_seed_alone(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    large(guest, monkeypatch)
    before = capture.take(guest, sampled(0.1))

    def picked(seed: str) -> set[str]:
        guest.reads.clear()
        capture.take(guest, sampled(0.1), earlier=before, seed=seed)
        return set(guest.reads)

    assert picked("a") == picked("a")
    assert picked("a") != picked("b")


def test_a_time_put_back_that_the_sample_meets_makes_the_whole_tree_be_read(
    guest: FakeGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    large(guest, monkeypatch)
    spec = sampled(0.5)
    before = capture.take(guest, spec)
    changed = {f"{number:03}.txt" for number in range(0, 300, 3)}
    for name in changed:
        guest.put(rf"C:\D\MANY\{name}", guest.node(rf"C:\D\MANY\{name}").data[::-1], keep_time=True)
    after = capture.take(guest, spec, earlier=before, seed="any")
    (found,) = compare(spec, before, after)
    assert {change.subject for change in found.changes} >= {rf"MANY\{name}" for name in changed if name > "010.txt"}
    assert "`verify: full`" in found.warnings[0]


def test_a_time_put_back_is_always_seen_with_a_full_check(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    large(guest, monkeypatch)
    spec = sampled(0, verify="full")
    before = capture.take(guest, spec)
    guest.put(r"C:\D\MANY\007.txt", b"CONTENT 7", keep_time=True)
    after = capture.take(guest, spec, earlier=before)
    assert changed_between(before["disk"], after["disk"]) == [r"modified MANY\007.txt"]
    assert tree(after["disk"]).sample is None


def test_samples_are_bounded(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    large(guest, monkeypatch)
    before = capture.take(guest, sampled(1))
    guest.reads.clear()
    monkeypatch.setattr(capture_trees, "SAMPLE_FILES", 5)
    capture.take(guest, sampled(1), earlier=before)
    assert sum(guest.reads.values()) == 5
    guest.reads.clear()
    monkeypatch.setattr(capture_trees, "SAMPLE_BYTES", 25)
    capture.take(guest, sampled(1), earlier=before)
    assert 0 < sum(guest.reads.values()) <= 3


def test_a_sampled_file_that_cannot_be_read_is_no_difference(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    large(guest, monkeypatch)
    before = capture.take(guest, sampled(1))
    guest.lock(r"C:\D\MANY\007.txt")
    after = tree(capture.take(guest, sampled(1), earlier=before)["disk"])
    assert after.sample == Sample(302, 303)
    assert changed_between(before["disk"], after) == []


def test_what_did_not_change_is_the_same_item(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    large(guest, monkeypatch)
    before = tree(capture.take(guest, sampled(0))["disk"])
    after = tree(capture.take(guest, sampled(0), earlier={"disk": before})["disk"])
    old = {item.path: item for item in before.items}
    assert all(item is old[item.path] for item in after.items if item.kind == "file")


@pytest.mark.parametrize("earlier", [UnreadableState("it was down"), TreeState(exists=False), WindowsState()])
def test_an_earlier_state_of_no_use_is_not_used(
    guest: FakeGuest, earlier: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_trees, "HASH_ALL", 0)
    state = tree(capture.take(guest, {"disk": TREE}, earlier={"disk": earlier})["disk"])
    assert all(item.sha256 for item in state.items if item.kind == "file")


# --- windows ----------------------------------------------------------------------------------------------------------

SCREEN = observe(screen={"windows": {}})


def test_visible_windows_are_taken(guest: FakeGuest) -> None:
    dialog = window("Sure?", hwnd=3, owner=0x20000, modal=True, exe=None, class_name="#32770")
    guest.windows += [dialog, window("hidden", hwnd=4, visible=False), window("tool", hwnd=5, modal=True)]
    state = capture.take(guest, SCREEN)["screen"]
    assert isinstance(state, WindowsState)
    assert [(item.title, item.program, item.waiting) for item in state.items] == [
        ("Patients", "APP.EXE", False), ("Sure?", "", True), ("tool", "APP.EXE", False),
    ]  # fmt: skip


def test_no_visible_window_is_an_empty_screen() -> None:
    assert capture.take(FakeGuest(), SCREEN)["screen"] == WindowsState()


@pytest.mark.parametrize(
    "where",
    [
        {"session": 0},
        {"desktop": None},
        {"input_desktop": None},
        {"input_desktop": "Winlogon"},
        {"desktop": "Service-0x0-3e7$"},
    ],
)
def test_a_probe_that_does_not_see_the_screen_is_unreadable(guest: FakeGuest, where: dict[str, Any]) -> None:
    guest.header = replace(HEADER, **where)
    assert "does not see" in reason(capture.take(guest, SCREEN)["screen"])


def test_a_listing_without_any_window_is_unreadable() -> None:
    assert "no window at all" in reason(capture.take(FakeGuest(blind=True), SCREEN)["screen"])


# --- contents of what changed -----------------------------------------------------------------------------------------


def contract(**effects: Any) -> TaskContract:
    return TaskContract.model_validate(
        {
            "schema": 1, "id": "a.b", "title": "t", "application": "a", "domain": "d", "state_changing": True,
            "image": "i", "instruction": "do", "initial_state": {"summary": "s"}, "goal_state": {"summary": "g"},
            "observe": {"table": {"dbf": r"C:\D\T.DBF"}, "disk": {"files": r"C:\D"}}, "effects": effects,
        }
    )  # fmt: skip


def with_contents(guest: FakeGuest, before: Snapshot, **effects: Any) -> TreeState:
    after = capture.take(guest, OBSERVE, earlier=before)
    return tree(capture.contents_of_changed(guest, contract(**effects), before, after)["disk"])


def test_contents_of_new_and_changed_files_are_kept(guest: FakeGuest) -> None:
    before = capture.take(guest, OBSERVE)
    guest.put(r"C:\D\APP.LOG", b"changed")
    guest.put(r"C:\D\NEW.TXT", b"new")
    guest.put(r"C:\D\T.DBF", OTHER)
    state = with_contents(guest, before)
    assert state.contents == {"APP.LOG": b"changed", "NEW.TXT": b"new"}
    assert state.missing == {}


def test_the_kept_contents_reach_the_changes(guest: FakeGuest) -> None:
    before = capture.take(guest, {"disk": TREE})
    guest.put(r"C:\D\NEW.TXT", b"new")
    after = {"disk": with_contents(guest, before)}
    (found,) = compare({"disk": TREE}, before, after)
    assert [change.content for change in found.changes] == [b"new"]


def test_contents_are_bounded_in_size(guest: FakeGuest, monkeypatch: pytest.MonkeyPatch) -> None:
    before = capture.take(guest, OBSERVE)
    monkeypatch.setattr(capture, "MAX_CONTENT", 4)
    guest.put(r"C:\D\BIG.TXT", b"12345")
    guest.put(r"C:\D\FIT.TXT", b"1234")
    state = with_contents(guest, before)
    assert state.contents == {"FIT.TXT": b"1234"}
    assert state.missing is not None
    assert "more than the 4 accepted" in state.missing["BIG.TXT"]


def test_contents_are_bounded_in_number_and_those_an_effect_looks_at_come_first(
    guest: FakeGuest, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = capture.take(guest, OBSERVE)
    monkeypatch.setattr(capture, "MAX_CONTENTS", 2)
    for name in ("A.TXT", "B.TXT", "C.TXT", "Z.OUT"):
        guest.put(rf"C:\D\{name}", b"new")
    expect = [{"created": "disk", "path": "*.OUT", "content": {"text": "new"}}]
    state = with_contents(guest, before, expect=expect)
    assert set(state.contents or {}) == {"Z.OUT", "A.TXT"}
    assert state.missing == dict.fromkeys(("B.TXT", "C.TXT"), "more than 2 files changed")


def test_a_file_that_a_returned_value_comes_from_is_kept_unchanged_or_not(guest: FakeGuest) -> None:
    before = capture.take(guest, OBSERVE)
    guest.put(r"C:\D\NEW.TXT", b"new")
    wanted = {"file": "disk", "path": "*.LOG", "value": "text"}
    about = contract().model_dump(by_alias=True, exclude_none=True) | {
        "returns": {"schema": {}, "expect": {"log": {"sum": [1, {**wanted, "as": "number"}]}}}
    }
    asked = TaskContract.model_validate(about)
    after = capture.take(guest, OBSERVE, earlier=before)
    state = tree(capture.contents_of_changed(guest, asked, before, after)["disk"])
    assert state.contents == {"NEW.TXT": b"new", "APP.LOG": b"started"}


def test_a_file_that_changes_again_keeps_no_content(guest: FakeGuest) -> None:
    before = capture.take(guest, OBSERVE)
    guest.put(r"C:\D\NEW.TXT", b"new")
    after = capture.take(guest, OBSERVE)
    guest.put(r"C:\D\NEW.TXT", b"newer")
    state = tree(capture.contents_of_changed(guest, contract(), before, after)["disk"])
    assert state.contents == {}
    assert "changed again" in (state.missing or {})["NEW.TXT"]


@pytest.mark.parametrize("how", ["lock", "remove"])
def test_a_content_that_cannot_be_read_any_more_says_why(guest: FakeGuest, how: str) -> None:
    before = capture.take(guest, OBSERVE)
    guest.put(r"C:\D\NEW.TXT", b"new")
    after = capture.take(guest, OBSERVE)
    getattr(guest, how)(r"C:\D\NEW.TXT")
    state = tree(capture.contents_of_changed(guest, contract(), before, after)["disk"])
    assert "NEW.TXT" in (state.missing or {})["NEW.TXT"]


def test_an_unreadable_tree_stays_unreadable(guest: FakeGuest) -> None:
    before = capture.take(guest, OBSERVE)
    after = {**before, "disk": UnreadableState("torn")}
    assert capture.contents_of_changed(guest, contract(), before, after)["disk"] == UnreadableState("torn")


def test_without_a_readable_before_every_file_is_new(guest: FakeGuest) -> None:
    after = capture.take(guest, OBSERVE)
    before = {"disk": UnreadableState("torn")}
    state = tree(capture.contents_of_changed(guest, contract(), before, after)["disk"])
    assert set(state.contents or {}) == {"APP.LOG", r"SUB\a.txt"}


# --- all together -----------------------------------------------------------------------------------------------------


def test_two_snapshots_of_a_still_machine_are_equal(guest: FakeGuest) -> None:
    guest.put(r"C:\D\T.DBF", Table([F("NR", "C", 3)], [b"001"]).dbf())
    specs = OBSERVE | SCREEN
    before = capture.take(guest, specs)
    after = capture.take(guest, specs, earlier=before)
    assert [one.changes for one in compare(specs, before, after)] == [(), (), ()]


def test_reading_writes_nothing(guest: FakeGuest) -> None:
    was = {path: replace(guest.node(path)) for path in (r"C:\D\T.DBF", r"C:\D\APP.LOG")}
    capture.take(guest, OBSERVE)
    capture.take(guest, OBSERVE, contents=False)
    assert {path: guest.node(path) for path in was} == was


def test_the_example_contract_can_be_read() -> None:
    from contracts.load import load_text

    loaded = load_text(EXAMPLE, name="example").contract
    fake = FakeGuest([window("DSWin - Patientenliste")])
    table = Table([F("PATNR", "C", 6), F("NAME", "C", 10)], [b"000001Muster    "]).dbf()
    for name in ("PATIENT.DBF", "COUNTER.DBF"):
        fake.put(rf"C:\DSWIN\DATA\{name}", table)
    states = capture.take(fake, loaded.observe)
    assert not [state for state in states.values() if isinstance(state, UnreadableState)]
