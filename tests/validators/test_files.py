"""Two listings of a tree to changes: what counts, what is a note, what is nobody's to say."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from contracts.schema import DbfTable, FileTree
from validators.changes import Change, Comparison, Unreadable, Verb
from validators.dbf import is_owned
from validators.files import FileItem, Sample, TreeState, cells, diff_trees

ARCHIVE, READONLY, HIDDEN, SYSTEM, COMPRESSED, NOT_INDEXED = 0x20, 0x1, 0x2, 0x4, 0x800, 0x2000
ABSENT = TreeState(False)
UNREAD = object()
"""Content of a file that could not be read."""


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def item(path: str, data: bytes | object = b"text", **about: Any) -> FileItem:
    content = data if isinstance(data, bytes) else None
    entry = FileItem(path, "file", len(content or b""), 1, ARCHIVE, None if content is None else sha(content))
    return replace(entry, **about)


def folder(path: str, **about: Any) -> FileItem:
    return replace(FileItem(path, "dir", 0, 1, 0x10), **about)


def link(path: str, **about: Any) -> FileItem:
    return replace(FileItem(path, "link", 0, 1, 0x410), **about)


def tree(*items: FileItem, **about: Any) -> TreeState:
    return TreeState(True, items, **about)


def spec(*ignore: str, root: str = r"C:\D") -> FileTree:
    rules = [{"path": pattern, "because": f"noise of {pattern}"} for pattern in ignore]
    return FileTree.model_validate({"files": root, "ignore": rules})


def diff(before: TreeState, after: TreeState, *ignore: str, tables: tuple[DbfTable, ...] = ()) -> Comparison:
    def owned(path: str, verb: Verb) -> bool:
        return any(is_owned(table, path, verb) for table in tables)

    return diff_trees(before, after, spec(*ignore), observable="t", owned=owned)


def told(found: Comparison) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(change.verb.value, change.subject, change.changed) for change in found.changes]


def brief(found: Comparison) -> list[str]:
    return [f"{change.verb.value} {change.subject}" for change in found.changes]


def notes(found: Comparison) -> dict[str, int]:
    return {note.kind: note.count for note in found.notes}


TABLE = DbfTable.model_validate({"dbf": r"C:\D\DATA\PATIENT.DBF"})

# --- the five verbs ---------------------------------------------------------------------------------------------------


def test_a_tree_is_equal_to_itself_in_any_order() -> None:
    items = [item("a"), item(r"b\c", b""), folder("b"), link("l")]
    found = diff(tree(*items), tree(*reversed(items)))
    assert (found.changes, found.notes, found.warnings) == ((), (), ())
    assert found.identity == "by path"


def test_new_file() -> None:
    found = diff(tree(), tree(item(r"LOG\a.txt", b"abc"), contents={r"LOG\a.txt": b"abc"}))
    assert told(found) == [("created", r"LOG\a.txt", ())]
    change = found.changes[0]
    assert change.before is None
    assert change.after is not None
    assert (change.after["size"].value, change.after["sha256"].value) == (3, sha(b"abc"))
    assert (change.content, change.content_missing) == (b"abc", "")


def test_deleted_file() -> None:
    found = diff(tree(item("a")), tree())
    assert told(found) == [("deleted", "a", ())]
    change = found.changes[0]
    assert (change.after, change.content, change.content_missing) == (None, None, "")


def test_new_content_of_the_same_size() -> None:
    found = diff(tree(item("a", b"one")), tree(item("a", b"two")))
    assert told(found) == [("modified", "a", ("sha256",))]


def test_new_content_with_the_time_put_back_is_seen() -> None:
    found = diff(tree(item("a", b"one", mtime=7)), tree(item("a", b"two", mtime=7)))
    assert brief(found) == ["modified a"]


def test_new_content_of_another_size() -> None:
    found = diff(tree(item("a", b"one")), tree(item("a", b"three")))
    assert told(found) == [("modified", "a", ("size", "sha256"))]


def test_content_that_was_not_kept_says_why() -> None:
    after = tree(item("a", b"two"), item("b", b"1"), missing={"a": "larger than 16 MiB"})
    found = diff(tree(item("a", b"one")), after)
    assert [change.content_missing for change in found.changes] == ["larger than 16 MiB", "b: its content was not kept"]


def test_renamed_by_content() -> None:
    found = diff(tree(item("old", b"unique")), tree(item(r"sub\new", b"unique")))
    assert told(found) == [("renamed", r"sub\new", ("path",))]
    change = found.changes[0]
    assert change.before is not None
    assert change.before["path"].value == "old"


def test_rename_with_another_content_is_a_deletion_and_a_creation() -> None:
    assert brief(diff(tree(item("a", b"1")), tree(item("b", b"2")))) == ["deleted a", "created b"]


def test_empty_files_are_never_renamed() -> None:
    assert brief(diff(tree(item("a", b"")), tree(item("b", b"")))) == ["deleted a", "created b"]


def test_equal_contents_are_not_paired() -> None:
    found = diff(tree(item("a", b"x"), item("b", b"x")), tree(item("c", b"x"), item("d", b"x")))
    assert brief(found) == ["deleted a", "deleted b", "created c", "created d"]
    found = diff(tree(item("a", b"x"), item("b", b"x")), tree(item("c", b"x")))
    assert brief(found) == ["deleted a", "deleted b", "created c"]


def test_swapped_contents_are_two_modifications() -> None:
    found = diff(tree(item("a", b"1"), item("b", b"2")), tree(item("a", b"2"), item("b", b"1")))
    assert brief(found) == ["modified a", "modified b"]


def test_a_moved_folder_is_told_by_all_that_it_holds() -> None:
    found = diff(tree(folder("a"), item(r"a\f", b"1")), tree(folder("b"), item(r"b\f", b"1")))
    assert brief(found) == ["deleted a", "created b", r"renamed b\f"]
    assert [change.how for change in found.changes] == ["folder", "folder", ""]


def test_case_only_rename() -> None:
    assert told(diff(tree(item("Brief.txt")), tree(item("BRIEF.TXT")))) == [("renamed", "BRIEF.TXT", ("path",))]


def test_case_only_rename_of_an_empty_file_and_a_folder() -> None:
    found = diff(tree(item("a", b""), folder("d")), tree(item("A", b""), folder("D")))
    assert brief(found) == ["renamed A", "renamed D"]


def test_case_only_rename_with_a_new_content_is_not_only_a_rename() -> None:
    assert brief(diff(tree(item("a", b"1")), tree(item("A", b"2")))) != ["renamed A"]


def test_positions_count_from_one_in_the_order_of_names() -> None:
    found = diff(tree(), tree(item("b"), item("A", b"1"), item("C", b"2")))
    assert [(change.position, change.subject) for change in found.changes] == [(1, "A"), (2, "b"), (3, "C")]


# --- kinds, attributes, streams, times --------------------------------------------------------------------------------


def test_file_that_became_a_folder() -> None:
    found = diff(tree(item("a")), tree(folder("a")))
    assert told(found) == [("modified", "a", ("kind",))]


def test_folder_that_became_a_link() -> None:
    assert told(diff(tree(folder("a")), tree(link("a")))) == [("modified", "a", ("kind",))]


def test_links_and_folders_come_and_go() -> None:
    found = diff(tree(link("l"), folder("d")), tree(link("m"), folder("e")))
    assert brief(found) == ["deleted d", "created e", "deleted l", "created m"]


@pytest.mark.parametrize("bit", [READONLY, HIDDEN, SYSTEM])
@pytest.mark.parametrize("make", [item, folder, link])
def test_attributes_that_count(make: Any, bit: int) -> None:
    was = make("a")
    found = diff(tree(was), tree(replace(was, attributes=was.attributes | bit)))
    assert told(found) == [("attributes", "a", ("attributes",))]
    back = diff(tree(replace(was, attributes=was.attributes | bit)), tree(was))
    assert told(back) == [("attributes", "a", ("attributes",))]


@pytest.mark.parametrize("bits", [0, ARCHIVE | COMPRESSED, ARCHIVE | NOT_INDEXED])
def test_archive_bit_and_housekeeping_are_no_change(bits: int) -> None:
    found = diff(tree(item("a")), tree(item("a", attributes=bits)))
    assert (found.changes, found.notes) == ((), ())


def test_attributes_are_named() -> None:
    assert cells(item("a", attributes=READONLY | SYSTEM | ARCHIVE))["attributes"].value == "read-only, system"


def test_a_modification_tells_of_attributes_too() -> None:
    found = diff(tree(item("a", b"1")), tree(item("a", b"2", attributes=ARCHIVE | HIDDEN)))
    assert [change.verb for change in found.changes] == [Verb.MODIFIED, Verb.ATTRIBUTES]


def test_touched_files_are_counted_in_a_note() -> None:
    before = tree(item("a"), item("b"), item("c"), folder("d"))
    after = tree(item("a", mtime=2), item("b", mtime=3), item("c"), folder("d", mtime=9))
    found = diff(before, after)
    assert found.changes == ()
    assert notes(found) == {"touched": 2}


def test_times_of_folders_are_nothing() -> None:
    found = diff(tree(folder("d")), tree(folder("d", mtime=5)))
    assert (found.changes, found.notes) == ((), ())


def test_a_link_that_was_made_anew_is_told() -> None:
    found = diff(tree(link("l")), tree(link("l", mtime=2)))
    assert found.changes or found.notes, "where it leads is not known, but that it was written is"


@pytest.mark.parametrize(
    ("was", "now"),
    [((), ((":s:$DATA", 3),)), (((":s:$DATA", 3),), ()), (((":s:$DATA", 3),), ((":s:$DATA", 4),))],
)
def test_streams_are_content(was: tuple[tuple[str, int], ...], now: tuple[tuple[str, int], ...]) -> None:
    found = diff(tree(item("a", streams=was)), tree(item("a", streams=now)))
    assert told(found) == [("modified", "a", ("streams",))]


def test_streams_of_folders_count() -> None:
    found = diff(tree(folder("d")), tree(folder("d", streams=((":s:$DATA", 3),))))
    assert told(found) == [("modified", "d", ("streams",))]


def test_a_rename_tells_what_else_happened() -> None:
    found = diff(tree(item("a", b"1")), tree(item("b", b"1", attributes=HIDDEN, streams=((":s:$DATA", 3),))))
    assert told(found) == [
        ("renamed", "b", ("path",)),
        ("modified", "b", ("streams",)),
        ("attributes", "b", ("attributes",)),
    ]


def test_a_rename_by_case_with_a_new_content_is_the_same_file_modified() -> None:
    assert brief(diff(tree(item("a.txt", b"1")), tree(item("A.TXT", b"2")))) == ["renamed A.TXT", "modified A.TXT"]


def test_streams_of_the_same_sizes_are_compared_by_their_hash() -> None:
    was = item("a", streams=((":s:$DATA", 3),), streams_sha256="1")
    assert told(diff(tree(was), tree(replace(was, mtime=2, streams_sha256="2")))) == [("modified", "a", ("streams",))]
    unread = diff(tree(was), tree(replace(was, mtime=2, streams_sha256="")))
    assert unread.changes == ()
    assert "not compared" in unread.warnings[0]


def test_a_rename_does_not_hide_a_new_stream() -> None:
    found = diff(tree(item("a", b"1")), tree(item("b", b"1", streams=((":s:$DATA", 3),))))
    assert found.changes
    assert brief(found) != ["renamed b"] or "streams" in found.changes[0].changed


# --- content that could not be read -----------------------------------------------------------------------------------


def test_unread_twice_and_otherwise_equal_is_no_change() -> None:
    assert diff(tree(item("a", UNREAD)), tree(item("a", UNREAD))).changes == ()


@pytest.mark.parametrize(("was", "now"), [(UNREAD, b"1"), (b"1", UNREAD), (UNREAD, UNREAD)])
def test_unread_content_decides_when_the_file_was_written(was: Any, now: Any) -> None:
    before, after = item("a", was, size=1), item("a", now, size=1, mtime=2)
    with pytest.raises(Unreadable, match=r"^a: "):
        diff(tree(before), tree(after))


def test_unread_content_of_an_ignored_file_does_not_matter() -> None:
    before, after = tree(item(r"t\a.TMP", UNREAD)), tree(item(r"t\a.TMP", UNREAD, mtime=2))
    found = diff(before, after, "*.TMP")
    assert (found.changes, found.ignored[0].count) == ((), 1)


def test_unread_content_of_an_owned_file_does_not_matter() -> None:
    path = r"DATA\PATIENT.DBF"
    before, after = tree(item(path, UNREAD)), tree(item(path, UNREAD, mtime=2))
    assert diff(before, after, tables=(TABLE,)).changes == ()


def test_unread_content_of_a_file_that_came_or_went_is_not_needed() -> None:
    assert brief(diff(tree(item("a", UNREAD)), tree(item("b", UNREAD)))) == ["deleted a", "created b"]


def test_a_file_that_grew_is_modified_whether_or_not_it_can_be_read() -> None:
    found = diff(tree(item("APP.LOG", UNREAD, size=10)), tree(item("APP.LOG", UNREAD, size=20, mtime=2)))
    assert brief(found) == ["modified APP.LOG"]


def test_a_rename_by_case_of_a_file_that_cannot_be_read_is_not_taken_for_the_same_content() -> None:
    before, after = tree(item("a", UNREAD, size=1)), tree(item("A", UNREAD, size=2, mtime=2))
    try:
        found = diff(before, after)
    except Unreadable:
        return
    assert brief(found) != ["renamed A"]


# --- the tree as a whole ----------------------------------------------------------------------------------------------


def test_tree_that_was_not_there() -> None:
    assert brief(diff(ABSENT, tree(folder("d"), item(r"d\a")))) == ["created d", r"created d\a"]


def test_tree_that_is_gone() -> None:
    assert brief(diff(tree(folder("d"), item(r"d\a")), ABSENT)) == ["deleted d", r"deleted d\a"]


def test_no_tree_before_and_after_is_no_change() -> None:
    assert diff(ABSENT, ABSENT).changes == ()


@pytest.mark.parametrize(("before", "after"), [(ABSENT, tree()), (tree(), ABSENT)])
def test_an_empty_root_that_comes_or_goes_is_told(before: TreeState, after: TreeState) -> None:
    found = diff(before, after)
    assert found.changes or found.notes or found.warnings


# --- names ------------------------------------------------------------------------------------------------------------

NFC, NFD = unicodedata.normalize("NFC", "Müller.txt"), unicodedata.normalize("NFD", "Müller.txt")


def test_names_in_two_normal_forms_are_two_files_with_a_warning() -> None:
    state = tree(item(NFC, b"1"), item(NFD, b"2"))
    found = diff(tree(item(NFC, b"1")), state)
    assert [change.subject for change in found.changes] == [NFD]
    assert len(found.warnings) == 1
    assert "different Unicode forms" in found.warnings[0]
    assert diff(state, state).changes == ()


def test_another_normal_form_alone_is_a_rename() -> None:
    assert told(diff(tree(item(NFC)), tree(item(NFD)))) == [("renamed", NFD, ("path",))]


def test_two_normal_forms_that_become_one_name() -> None:
    found = diff(tree(item(NFC, b"1"), item(NFD, b"1")), tree(item(NFC.upper(), b"1")))
    gone = {str(change.before["path"].value) for change in found.changes if change.before is not None}
    assert gone == {NFC, NFD}


def test_one_name_that_becomes_two_normal_forms() -> None:
    found = diff(tree(item(NFC.upper(), b"1")), tree(item(NFC, b"1"), item(NFD, b"1")))
    assert {change.subject for change in found.changes} >= {NFC, NFD}


def test_lone_surrogates_in_names() -> None:
    found = diff(tree(), tree(item("a\ud800.txt")))
    assert brief(found) == ["created a\ud800.txt"]


# --- what is ignored --------------------------------------------------------------------------------------------------


def test_ignored_changes_are_counted_by_rule_with_examples() -> None:
    after = tree(*(item(rf"w\{number}.TMP", b"%d" % number) for number in range(8)), item("a.bak", b"b"), item("c"))
    found = diff(tree(), after, "*.TMP", "*.bak", "*.never")
    assert brief(found) == ["created c"]
    assert [(rule.rule, rule.count) for rule in found.ignored] == [("*.TMP", 8), ("*.bak", 1), ("*.never", 0)]
    assert found.ignored[0].because == "noise of *.TMP"
    assert len(found.ignored[0].examples) == 5


def test_a_change_is_counted_by_the_first_rule_only() -> None:
    found = diff(tree(), tree(item("a.TMP")), "*.TMP", "a.*")
    assert [rule.count for rule in found.ignored] == [1, 0]


def test_unchanged_files_are_not_counted_as_ignored() -> None:
    found = diff(tree(item("a.TMP")), tree(item("a.TMP")), "*.TMP")
    assert found.ignored[0].count == 0


def test_a_rename_is_ignored_only_if_both_names_are() -> None:
    assert brief(diff(tree(item("data", b"1")), tree(item("x.TMP", b"1")), "*.TMP")) == ["renamed x.TMP"]
    assert brief(diff(tree(item("x.TMP", b"1")), tree(item("data", b"1")), "*.TMP")) == ["renamed data"]
    assert brief(diff(tree(item("x.TMP", b"1")), tree(item("y.TMP", b"1")), "*.TMP")) == []


def test_a_rule_written_with_a_short_name_is_told() -> None:
    entry = item(r"Sicherungskopien\Protokoll 1.log", short="PROTOK~1.LOG")
    state = tree(folder("Sicherungskopien", short="SICHER~1"), entry)
    for pattern in ("PROTOK~1.LOG", r"SICHER~1\**", r"SICHER~1\PROTOK~1.LOG", r"Sicherungskopien\PROTOK~?.LOG"):
        found = diff(tree(), state, pattern)
        assert len(found.changes) == 2, pattern
        assert "short name" in found.warnings[0]
    assert diff(tree(), state, "*~1.BAK", r"Sicherungskopien\**").warnings == ()


@pytest.mark.parametrize(
    "path",
    ["AUX.txt", r"con\nul", "trailing. ", "x" * 255, "\\".join(["folder" * 30] * 60), "CON", "a\u202etxt.exe", "COM¹"],
)
def test_reserved_odd_and_very_long_names(path: str) -> None:
    assert brief(diff(tree(), tree(item(path)))) == [f"created {path}"]
    assert brief(diff(tree(item(path, b"1")), tree(item(path, b"2")), "*.ignored")) == [f"modified {path}"]
    assert brief(diff(tree(item(path)), tree())) == [f"deleted {path}"]


# --- the sampled check ------------------------------------------------------------------------------------------------


def test_a_sample_without_a_difference_is_a_note() -> None:
    found = diff(tree(item("a")), tree(item("a"), sample=Sample(3, 900)))
    assert [(note.kind, note.count) for note in found.notes] == [("sampled", 3)]
    assert "900" in found.notes[0].text
    assert found.warnings == ()


def test_a_sample_with_a_difference_is_a_warning_beside_the_change() -> None:
    found = diff(tree(item("a", b"1")), tree(item("a", b"2"), sample=Sample(3, 900, ("a",))))
    assert brief(found) == ["modified a"]
    assert "`verify: full`" in found.warnings[0]
    assert found.notes == ()


# --- what belongs to tables -------------------------------------------------------------------------------------------


def test_modified_table_memo_and_index_belong_to_the_table() -> None:
    paths = [r"DATA\PATIENT.DBF", r"data\patient.dbt", r"DATA\PATIENT.CDX"]
    before, after = tree(*(item(p, b"1") for p in paths)), tree(*(item(p, b"2") for p in paths))
    assert brief(diff(before, after, tables=(TABLE,))) == []
    assert len(brief(diff(before, after))) == 3


def test_a_new_or_deleted_index_is_a_change_to_the_files() -> None:
    index = item(r"DATA\PATIENT.CDX", b"1")
    assert brief(diff(tree(), tree(index), tables=(TABLE,))) == [r"created DATA\PATIENT.CDX"]
    assert brief(diff(tree(index), tree(), tables=(TABLE,))) == [r"deleted DATA\PATIENT.CDX"]


def test_other_files_of_the_folder_are_nobodys() -> None:
    before, after = tree(item(r"DATA\OTHER.DBF", b"1")), tree(item(r"DATA\OTHER.DBF", b"2"))
    assert brief(diff(before, after, tables=(TABLE,))) == [r"modified DATA\OTHER.DBF"]


def test_a_table_renamed_away_shows_the_new_name() -> None:
    found = diff(tree(item(r"DATA\PATIENT.DBF", b"1")), tree(item(r"DATA\COPY.DBF", b"1")), tables=(TABLE,))
    assert any(change.subject == r"DATA\COPY.DBF" for change in found.changes)


def test_a_file_renamed_into_a_table_shows_that_the_file_is_gone() -> None:
    found = diff(tree(item(r"DATA\OTHER.DBF", b"1")), tree(item(r"DATA\PATIENT.DBF", b"1")), tables=(TABLE,))
    names = {change.subject for change in found.changes}
    names |= {str(change.before["path"].value) for change in found.changes if change.before is not None}
    assert r"DATA\OTHER.DBF" in names


def test_ownership_holds_for_a_root_with_a_trailing_separator() -> None:
    seen: list[str] = []

    def owned(path: str, _verb: Verb) -> bool:
        seen.append(path)
        return False

    diff_trees(tree(), tree(item("A")), spec(root="C:\\"), observable="t", owned=owned)
    assert seen == [r"C:\A"]


# --- properties -------------------------------------------------------------------------------------------------------

NAMES = ["a", "B.txt", "c.TMP", r"d\e", r"d\F.dat", "g", NFC, NFD, NFC.upper(), "A", r"D\E"]
CONTENTS = [b"", b"1", b"2", b"3", b"longer"]
EXTRA = [ARCHIVE, 0, ARCHIVE | HIDDEN, READONLY]


@st.composite
def trees(draw: st.DrawFn) -> TreeState:
    """A tree in which no two names differ in case alone, as NTFS has it."""
    items: dict[str, FileItem] = {}
    for path in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        kind = draw(st.sampled_from(["file", "file", "file", "dir", "link"]))
        about = {"attributes": draw(st.sampled_from(EXTRA)), "mtime": draw(st.integers(1, 3))}
        if kind == "file":
            entry = item(path, draw(st.sampled_from(CONTENTS)), **about)
        else:
            entry = folder(path, **about) if kind == "dir" else link(path, **about)
        items.setdefault(path.upper(), entry)
    return tree(*items.values())


def as_seen(entry: FileItem) -> tuple[object, ...]:
    """What of an entry is a change when it differs."""
    return entry.path, entry.kind, entry.size, entry.sha256 or "", entry.attributes & (READONLY | HIDDEN | SYSTEM)


def told_of(row: Mapping[str, Any]) -> tuple[object, ...]:
    named = {"read-only": READONLY, "hidden": HIDDEN, "system": SYSTEM}
    bits = sum(named[name] for name in str(row["attributes"].value).split(", ") if name)
    return row["path"].value, row["kind"].value, row["size"].value, row["sha256"].value, bits


def replayed(before: TreeState, changes: tuple[Change, ...]) -> dict[str, tuple[object, ...]]:
    """The tree that the changes lead to. One file may make several changes, which must agree on it before and after."""
    state = {entry.path: as_seen(entry) for entry in before.items}
    was = {(str(change.before["path"].value), told_of(change.before)) for change in changes if change.before}
    now = {(str(change.after["path"].value), told_of(change.after)) for change in changes if change.after}
    for path, entry in was:
        assert state.pop(path) == entry
    for path, entry in now:
        assert path not in state
        state[path] = entry
    return state


@given(trees(), trees())
@example(tree(item(NFC, b"1"), item(NFD, b"1")), tree(item(NFC.upper(), b"1")))
def test_the_changes_lead_from_the_one_tree_to_the_other(before: TreeState, after: TreeState) -> None:
    found = diff(before, after)
    assert replayed(before, found.changes) == {entry.path: as_seen(entry) for entry in after.items}


@given(trees(), st.randoms())
def test_an_equal_tree_never_differs(state: TreeState, random: Any) -> None:
    again = list(state.items)
    random.shuffle(again)
    found = diff(state, tree(*again))
    assert (found.changes, found.notes) == ((), ())


@given(trees(), st.data())
def test_another_content_is_never_no_change(state: TreeState, data: st.DataObject) -> None:
    files = [entry for entry in state.items if entry.kind == "file"]
    if not files:
        return
    chosen = data.draw(st.sampled_from(files))
    content = data.draw(st.binary(max_size=8).filter(lambda content: sha(content) != chosen.sha256))
    mtime = data.draw(st.integers(0, 3))
    written = replace(chosen, size=len(content), sha256=sha(content), mtime=mtime)
    after = tree(*(written if entry is chosen else entry for entry in state.items))
    found = diff(state, after)
    assert brief(found) == [f"modified {chosen.path}"]


@st.composite
def edits(draw: st.DrawFn) -> tuple[TreeState, TreeState, list[str]]:
    """A tree of distinct contents, the tree after at most one edit to each file, and what was done."""
    names = draw(st.lists(st.integers(0, 99), unique=True, max_size=12))
    before, after, done = [], [], []
    for number in names:
        entry = item(f"f{number:02}", b"content %d" % number)
        edit = draw(st.sampled_from(["none", "touch", "create", "modify", "delete", "rename", "attributes"]))
        if edit != "create":
            before.append(entry)
        match edit:
            case "none" | "touch" | "create":
                after.append(replace(entry, mtime=2 if edit == "touch" else entry.mtime))
            case "modify":
                after.append(item(entry.path, b"new %d" % number, mtime=draw(st.sampled_from([1, 2]))))
            case "rename":
                after.append(replace(entry, path=f"renamed{number:02}"))
            case "attributes":
                after.append(replace(entry, attributes=entry.attributes | HIDDEN))
        words = {
            "create": f"created {entry.path}",
            "modify": f"modified {entry.path}",
            "delete": f"deleted {entry.path}",
            "rename": f"renamed renamed{number:02}",
            "attributes": f"attributes {entry.path}",
        }
        if edit in words:
            done.append(words[edit])
    return tree(*before), tree(*draw(st.permutations(after))), done


@given(edits())
def test_every_edit_is_found_and_nothing_else(script: tuple[TreeState, TreeState, list[str]]) -> None:
    before, after, done = script
    assert sorted(brief(diff(before, after))) == sorted(done)
