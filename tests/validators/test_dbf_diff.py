"""Two states to changes: who is who, what counts as a change, what is only a note."""

from __future__ import annotations

import copy
import pickle
import struct
from decimal import Decimal

import pytest

from tests.validators.dbf_files import DELETED, LIVE, Dbt, F, Fpt, Table, diff, noted, spec, told
from validators.changes import CellState, ContractFault, Unreadable, Verb
from validators.dbf import KeyIndex, TableState, diff_tables, is_owned

FIELDS = [F("NR", "C", 3), F("NAME", "C", 5), F("SUM", "N", 6, 2)]


def row(number: int, name: str = "x", total: str = "  1.00") -> bytes:
    return b"%03d" % number + name.encode().ljust(5) + total.encode()


def table(*rows: bytes, **settings: object) -> Table:
    return Table(FIELDS, rows, **settings)  # type: ignore[arg-type]


BASE = table(*(row(number, "abcdefgh"[number]) for number in range(1, 7)))


def replaced(base: Table, **rows: bytes) -> Table:
    new = list(base.rows)
    for name, content in rows.items():
        new[int(name[1:])] = content
    return base.with_(rows=new)


# --- by key -----------------------------------------------------------------------------------------------------------


def test_equal_tables() -> None:
    for key in ((), ("NR",), ("NR", "NAME")):
        found = diff(BASE, BASE, *key)
        assert (found.changes, found.notes, found.warnings) == ((), (), ())


def test_update_insert_delete_by_key() -> None:
    after = replaced(BASE, _1=row(2, "new", "  9.99")).delete(3)
    after = after.with_(rows=[*after.rows, row(7, "seven")], flags=[*after.flags, LIVE])  # type: ignore[misc]
    found = diff(BASE, after, "NR")
    assert found.identity == "key NR"
    assert told(found) == [
        ("updated", "NR=002", ("NAME", "SUM")), ("deleted", "NR=004", ()), ("inserted", "NR=007", ()),
    ]  # fmt: skip
    update, delete, insert = found.changes
    assert [one.position for one in found.changes] == [2, 4, 7]
    assert update.before is not None
    assert update.after is not None
    assert (update.before["NAME"].value, update.after["SUM"].value) == ("c", Decimal("9.99"))
    assert (delete.how, delete.after) == ("by deletion flag", None)
    assert (insert.before, insert.how) == (None, "")
    assert dict(insert.after or {})["NAME"].value == "seven"


def test_pack_of_one_deleted_record() -> None:
    before = BASE.delete(2)
    found = diff(before, before.pack(), "NR")
    assert told(found) == [("purged", "NR=003", ())]
    assert found.changes[0].how == "by PACK"
    assert noted(found) == {"moved": 3}
    assert told(diff(before, before.pack())) == [("purged", "record 3", ())]


def test_delete_and_pack() -> None:
    found = diff(BASE, BASE.delete(2).pack(), "NR")
    assert told(found) == [("deleted", "NR=003", ())]
    assert found.changes[0].how == "by PACK"


def test_sorted_anew() -> None:
    after = BASE.with_(rows=[*reversed(BASE.rows)])
    found = diff(BASE, after, "NR")
    assert (found.changes, noted(found)) == ((), {"moved": 6})
    plain = diff(BASE, after)
    assert (plain.changes, plain.identity, noted(plain)) == ((), "by content", {"moved": 6})


def test_sorted_anew_with_an_edit() -> None:
    after = BASE.with_(rows=[*reversed([*BASE.rows[:-1], row(6, "edit")])])
    assert told(diff(BASE, after, "NR")) == [("updated", "NR=006", ("NAME",))]
    assert told(diff(BASE, after)) == [("inserted", "record 1", ()), ("deleted", "record 6", ())]


@pytest.mark.parametrize("key", [(), ("NR",)])
def test_pack_of_many_with_edits_and_appends(key: tuple[str, ...]) -> None:
    rows = [row(number, chr(97 + number % 26)) for number in range(400)]
    before = table(*rows).delete(*range(0, 400, 7))
    after = before.pack()
    after = after.with_(
        rows=[*after.rows[:99], row(int(after.rows[99][:3]), "edit"), *after.rows[100:], row(900, "new")]
    )
    found = diff(before, after, *key)
    verbs = [one.verb for one in found.changes]
    assert verbs.count(Verb.PURGED) == 58
    assert sorted(verb for verb in verbs if verb is not Verb.PURGED) == (
        ["inserted", "updated"] if key else ["deleted", "inserted", "inserted"]
    )
    assert noted(found)["moved"] == 342 - (0 if key else 1)


def test_duplicate_of_a_row_that_moved_up() -> None:
    before = BASE.delete(0)
    after = before.pack()
    found = diff(before, after.with_(rows=[*after.rows[:4], row(3, "twin")]), "NR")
    assert ("inserted", "NR=003", ()) in told(found)
    assert found.warnings == ("the key is not unique any more after the run: NR=003 (record 5)",)


def test_undeleted() -> None:
    before = BASE.delete(2)
    for key in ((), ("NR",)):
        found = diff(before, BASE, *key)
        assert [(one.verb, one.changed, one.before is None) for one in found.changes] == [(Verb.UNDELETED, (), False)]
    changed = diff(before, replaced(BASE, _2=row(3, "z")), "NR")
    assert told(changed) == [("undeleted", "NR=003", ("NAME",))]


def test_undeleted_after_moving() -> None:
    before = BASE.delete(0, 3)
    after = Table(FIELDS, [row for at, row in enumerate(BASE.rows) if at != 0])
    assert told(diff(before, after, "NR")) == [("purged", "NR=001", ()), ("undeleted", "NR=004", ())]


def test_key_edited_in_place() -> None:
    found = diff(BASE, replaced(BASE, _2=row(9, "d")), "NR")
    assert told(found) == [("updated", "NR=003", ("NR",))]


def test_key_is_not_edited_in_place_when_rows_moved() -> None:
    after = BASE.with_(rows=[row(9, "zz"), *(BASE.rows[at] for at in (2, 1, 3, 4, 5))])
    assert sorted(told(diff(BASE, after, "NR"))) == [("deleted", "NR=001", ()), ("inserted", "NR=009", ())]


def test_keys_swapped_are_two_updates() -> None:
    after = replaced(BASE, _0=row(2, "b"), _1=row(1, "c"))
    assert told(diff(BASE, after, "NR")) == [("updated", "NR=002", ("NAME",)), ("updated", "NR=001", ("NAME",))]


def test_duplicates_after() -> None:
    added = BASE.with_(rows=[*BASE.rows, row(3, "other")])
    found = diff(BASE, added, "NR")
    assert told(found) == [("inserted", "NR=003", ())]
    assert found.warnings == ("the key is not unique any more after the run: NR=003 (record 7)",)
    exact = diff(BASE, BASE.with_(rows=[*BASE.rows, BASE.rows[2]]), "NR")
    assert told(exact) == [("inserted", "NR=003", ())]
    # The equal one is paired, wherever it lies.
    moved = diff(
        BASE,
        replaced(BASE, _2=row(3, "other")).with_(rows=[*replaced(BASE, _2=row(3, "other")).rows, BASE.rows[2]]),
        "NR",
    )
    assert told(moved) == [("inserted", "NR=003", ())]
    assert moved.changes[0].position == 3


def test_key_changed_into_another_rows_key() -> None:
    found = diff(BASE, replaced(BASE, _2=row(5, "d")), "NR")
    assert sorted(told(found)) == [("deleted", "NR=003", ()), ("inserted", "NR=005", ())]
    assert "not unique any more" in found.warnings[0]


def test_ambiguous_after_with_no_equal_row() -> None:
    after = replaced(BASE, _2=row(3, "one"))
    after = after.with_(rows=[*after.rows, row(3, "two")])
    assert sorted(told(diff(BASE, after, "NR"))) == [
        ("deleted", "NR=003", ()), ("inserted", "NR=003", ()), ("inserted", "NR=003", ()),
    ]  # fmt: skip


def test_duplicate_key_before() -> None:
    twice = BASE.with_(rows=[*BASE.rows, row(3), row(3)])
    with pytest.raises(ContractFault, match=r"T\.DBF: the key NR is not unique .*NR=003 \(records 3, 7, 8\)$"):
        diff(twice, twice, "NR")
    assert not diff(twice.delete(6, 7), twice.delete(6, 7), "NR").changes


@pytest.mark.parametrize(
    ("fields", "rows"),
    [
        ([F("K", "N", 5, 1)], [b"  1.5", b"1.5  "]), ([F("K", "N", 5)], [b"   12", b"00012"]), ([F("K", "N", 5)], [b"     ", b"\0\0\0\0\0"]),
        ([F("K", "C", 5)], [b"ab   ", b"ab\0\0\0"]), ([F("K", "D", 8)], [b"00000000", b"        "]), ([F("K", "L", 1)], [b"T", b"J"]),
    ],
)  # fmt: skip
def test_keys_are_compared_by_value(fields: list[F], rows: list[bytes]) -> None:
    with pytest.raises(ContractFault, match="not unique"):
        diff(Table(fields, rows), Table(fields, rows), "K")


def test_keys_of_several_fields_in_any_order() -> None:
    fields = [F("A", "C", 2), F("B", "N", 2), F("C", "C", 2)]
    before = Table(fields, [b"aa 1xx", b"aa 2xx", b"bb 1xx"])
    found = diff(before, before.with_(rows=[b"aa 1xx", b"aa 2yy", b"bb 1xx"]), "B", "A")
    assert told(found) == [("updated", "B=2, A=aa", ("C",))]
    with pytest.raises(ContractFault, match="not unique"):
        diff(before, before, "A")
    with pytest.raises(ContractFault, match="not unique"):
        diff(before, before, "C", "C")


def test_unknown_key_field() -> None:
    with pytest.raises(ContractFault, match="no key field 'nr'; did you mean NR"):
        diff(BASE, BASE, "nr")
    with pytest.raises(ContractFault, match="its fields are NR, NAME, SUM"):
        diff(BASE, BASE, "QQQQQQ")


def test_key_index_is_reusable_and_checked() -> None:
    index = KeyIndex.build(BASE.state(), ["NR"])
    for after, verbs in ((BASE.delete(1), ["deleted"]), (replaced(BASE, _0=row(8)), ["updated"])):
        found = diff_tables(BASE.state(), after.state(), spec("NR"), observable="t", index=index)
        assert [one.verb for one in found.changes] == verbs
    with pytest.raises(ValueError, match="another state"):
        diff_tables(
            BASE.pack().with_(rows=BASE.rows[1:]).state(), BASE.state(), spec("NR"), observable="t", index=index
        )
    with pytest.raises(ValueError, match="another state"):
        diff_tables(BASE.state(), BASE.state(), spec("NAME"), observable="t", index=index)
    with pytest.raises(TypeError, match="process"):
        pickle.dumps(index)


def test_a_record_taken_for_another_row() -> None:
    before = BASE.delete(2)
    after = replaced(BASE, _2=row(9, "new"))
    found = diff(before, after, "NR")
    assert sorted(told(found)) == [("inserted", "NR=009", ()), ("purged", "NR=003", ())]
    assert {one.how for one in found.changes} == {"by reuse of the record", "in a reused record"}
    assert told(diff(before, after)) == [("undeleted", "record 3", ("NR", "NAME"))]


def test_a_row_wiped_and_deleted() -> None:
    found = diff(BASE, replaced(BASE, _2=b" " * 14).delete(2), "NR")
    assert told(found) == [("deleted", "NR=003", ())]
    assert found.changes[0].how == "by deletion flag; overwritten in NR, NAME, SUM"


def test_deleted_and_inserted_again() -> None:
    deleted = BASE.delete(2)
    after = deleted.with_(rows=[*BASE.rows, row(3, "again")], flags=[*(deleted.flags or ()), LIVE])
    found = diff(BASE, after, "NR")
    assert told(found) == [("updated", "NR=003", ("NAME",))]
    assert noted(found) == {"moved": 1, "appended-deleted": 1}


# --- by position and content ------------------------------------------------------------------------------------------


def test_by_position() -> None:
    after = replaced(BASE, _1=row(2, "new"))
    after = after.with_(rows=[*after.rows, row(7)])
    found = diff(BASE, after)
    assert (found.identity, told(found)) == (
        "by position",
        [("updated", "record 2", ("NAME",)), ("inserted", "record 7", ())],
    )
    assert found.changes[0].how == "by position"


def test_every_row_edited_is_still_by_position() -> None:
    after = BASE.with_(rows=[row(number, "all", "  2.00") for number in range(1, 7)])
    found = diff(BASE, after)
    assert [one.verb for one in found.changes] == [Verb.UPDATED] * 6


def test_row_inserted_in_the_middle() -> None:
    rows = list(BASE.rows)
    found = diff(BASE, BASE.with_(rows=[*rows[:2], row(9), *rows[2:]]))
    assert (found.identity, told(found)) == ("by content", [("inserted", "record 3", ())])


def test_fewer_records_go_by_content() -> None:
    found = diff(BASE, BASE.with_(rows=[BASE.rows[0], row(2, "edit"), *BASE.rows[3:]]))
    assert found.identity == "by content"
    assert sorted(told(found)) == [
        ("deleted", "record 2", ()),
        ("deleted", "record 3", ()),
        ("inserted", "record 2", ()),
    ]


def test_equal_rows_are_counted() -> None:
    same = table(*[row(1)] * 5)
    found = diff(same, same.with_(rows=same.rows[:3]))
    assert [one.verb for one in found.changes] == [Verb.DELETED] * 2
    assert told(diff(same, same.delete(4)))[0][0] == "deleted"


def test_deleted_rows_by_content() -> None:
    before = BASE.delete(0)
    found = diff(before, Table(FIELDS, [BASE.rows[2], BASE.rows[1], *BASE.rows[3:]], [LIVE, DELETED, *[LIVE] * 3]))
    assert sorted(told(found)) == [("deleted", "record 2", ()), ("purged", "record 1", ())]


# --- notes ------------------------------------------------------------------------------------------------------------


def test_header_date_and_flags_are_notes() -> None:
    found = diff(BASE, BASE.with_(date=b"\x7e\x0c\x1f", header_flags=1), "NR")
    assert (found.changes, noted(found)) == ((), {"header-date": 1, "flags": 1})


def test_language_driver_is_a_note() -> None:
    base = replaced(BASE, _0=b"001M\xfcll   1.00")
    found = diff(base, base.with_(language=0))
    assert (found.changes, noted(found)) == ((), {"encoding": 1})


def test_declared_encoding_differs_from_header() -> None:
    found = diff(BASE, BASE, encoding="cp850")
    assert {note.text for note in found.notes} == {
        "the header before the run says cp1252, the contract cp850", "the header after the run says cp1252, the contract cp850",
    }  # fmt: skip
    assert not diff(BASE, BASE, encoding="windows-1252").notes


def test_autoincrement_counter() -> None:
    fields = [F("ID", "I", 4, flags=12, counter=7)]
    before = Table(fields, [struct.pack("<i", 6)], version=0x31)
    after = before.with_(fields=[F("ID", "I", 4, flags=12, counter=8)])
    assert noted(diff(before, after)) == {"autoincrement": 1}
    seven = Table([F("ID", "+", 4, counter=7)], [b"\x80\0\0\6"], version=0x04, driver=b"DB437US0")
    assert noted(diff(seven, seven.with_(fields=[F("ID", "+", 4, counter=8)]))) == {"autoincrement": 1}


def test_slack() -> None:
    assert noted(diff(BASE.with_(padding=bytes(30)), BASE.with_(padding=b"x" * 30))) == {"slack": 1}
    assert noted(diff(BASE, BASE.with_(tail=b"\x1arubbish"))) == {"slack": 1}
    assert not diff(BASE, BASE.with_(tail=b"")).changes


def test_edits_inside_deleted_rows() -> None:
    before = BASE.delete(2)
    for key in ((), ("NR",)):
        found = diff(before, replaced(before, _2=row(8, "edit")), *key)
        assert (found.changes, noted(found)) == ((), {"deleted-edit": 1})


def test_row_appended_as_deleted() -> None:
    after = BASE.with_(rows=[*BASE.rows, row(7)], flags=[*[LIVE] * 6, DELETED])
    for key in ((), ("NR",)):
        found = diff(BASE, after, *key)
        assert (found.changes, noted(found)) == ((), {"appended-deleted": 1})


def test_format_only() -> None:
    after = replaced(BASE, _0=row(1, "b", "1.0   "), _1=row(2, "new", " 1.0  "))
    found = diff(BASE, after, "NR")
    assert (told(found), noted(found)) == ([("updated", "NR=002", ("NAME",))], {"format": 1})
    for key in ((), ("NR",)):
        strict = diff(BASE, after, *key, strict_format=True)
        assert [(one.changed, one.how) for one in strict.changes] == [
            (("SUM",), "format only"), (("NAME", "SUM"), "" if key else "by position"),
        ]  # fmt: skip


def test_odd_deletion_flag_is_format() -> None:
    found = diff(BASE, BASE.with_(flags=[b"\0", *[LIVE] * 5]))
    assert (found.changes, noted(found)) == ((), {"format": 1})


def test_stale_count_then_counted() -> None:
    found = diff(BASE.with_(count=3), BASE)
    assert (found.changes, noted(found)) == ((), {"count": 1})
    assert "3 complete records beyond" in found.warnings[0]
    assert told(diff(BASE, BASE.with_(rows=[*BASE.rows, row(7)], count=6), "NR")) == [("inserted", "NR=007", ())]


def test_fewer_than_counted_is_unreadable_on_either_side() -> None:
    for pair in ((BASE, BASE.with_(count=7)), (BASE.with_(count=7), BASE)):
        with pytest.raises(Unreadable, match="counts 7 records"):
            diff(*pair, "NR")


# --- memos ------------------------------------------------------------------------------------------------------------


def memo_table(*texts: bytes, block: int = 64) -> Table:
    memo = Fpt(block)
    rows = [b"%03d" % number + (memo.add(text) if text else bytes(4)) for number, text in enumerate(texts)]
    return Table([F("NR", "C", 3), F("NOTE", "M", 4)], rows, version=0x30, memo=memo.bytes())


def test_memo_edited_in_place() -> None:
    before, after = memo_table(b"one", b"two", b"three"), memo_table(b"one", b"TWO", b"three")
    assert before.dbf() == after.dbf()
    for key in ((), ("NR",)):
        found = diff(before, after, *key)
        assert [one.changed for one in found.changes] == [("NOTE",)]
        change = found.changes[0]
        assert change.before is not None
        assert change.after is not None
        assert (change.before["NOTE"].value, change.after["NOTE"].value) == ("two", "TWO")


def test_memo_saved_again_unchanged() -> None:
    before = memo_table(b"one", b"two")
    memo = Fpt(64, bytearray(before.memo or b""))
    after = before.with_(rows=[b"000" + memo.add(b"one"), before.rows[1]], memo=memo.bytes())
    for key in ((), ("NR",)):
        found = diff(before, after, *key)
        assert (found.changes, noted(found)) == ((), {"memo-moved": 1})


def test_memo_file_rewritten_with_another_block_size() -> None:
    texts = [b"text %d" % number * number for number in range(40)]
    for key in ((), ("NR",)):
        found = diff(memo_table(*texts), memo_table(*texts, block=512), *key)
        assert (found.changes, noted(found)) == ((), {"memo-moved": 39})
    changed = diff(memo_table(*texts), memo_table(*texts[:-1], b"new", block=512), "NR")
    assert told(changed) == [("updated", "NR=039", ("NOTE",))]


def test_memo_appended_for_one_row() -> None:
    before = memo_table(b"one", b"", b"x" * 2000)
    memo = Fpt(64, bytearray(before.memo or b""))
    after = before.with_(rows=[before.rows[0], b"001" + memo.add(b"new"), before.rows[2]], memo=memo.bytes())
    assert told(diff(before, after, "NR")) == [("updated", "NR=001", ("NOTE",))]
    assert told(diff(after, before, "NR")) == [("updated", "NR=001", ("NOTE",))]


def test_memos_in_moved_rows() -> None:
    before, after = memo_table(b"one", b"two", b"three"), memo_table(b"one", b"TWO", b"three")
    after = after.with_(rows=[*reversed(after.rows)])
    assert told(diff(before, after, "NR")) == [("updated", "NR=001", ("NOTE",))]
    plain = diff(before, after)
    assert plain.identity == "by content"
    assert sorted(one.verb for one in plain.changes) == ["deleted", "inserted"]


def test_end_mark_of_a_memo_moved() -> None:
    def made(text: bytes) -> Table:
        memo = Dbt()
        pointer = memo.add(text)
        return Table([F("NOTE", "M", 10)], [pointer], version=0x83, memo=memo.bytes(), kind="dbt")

    long = b"a" * 511 + b"b"
    assert told(diff(made(long), made(long + b"c"))) == [("updated", "record 1", ("NOTE",))]
    assert told(diff(made(b"abc"), made(b"ab"))) == [("updated", "record 1", ("NOTE",))]


def test_rubbish_behind_a_memo_is_nothing() -> None:
    before = memo_table(b"one", b"two")
    data = bytearray(before.memo or b"")
    data[512 + 8 + 3 : 512 + 20] = b"x" * 9
    assert not diff(before, before.with_(memo=bytes(data))).changes


def test_memo_file_missing() -> None:
    table = memo_table(b"one", b"two")
    none = table.with_(memo=None)
    for pair in ((table, none), (none, table)):
        with pytest.raises(Unreadable, match="memo file is missing"):
            diff(*pair, "NR")
    both = diff(none, none, "NR")
    assert (both.changes, both.warnings) == (
        (),
        ("the memo file is missing: memos are told apart by their pointers only",),
    )
    edited = diff(none, none.with_(rows=[b"000\x63\0\0\0", none.rows[1]]), "NR")
    assert [(one.changed, (one.after or {})["NOTE"].state) for one in edited.changes] == [
        (("NOTE",), CellState.UNDECODABLE)
    ]


def test_memo_file_appears_for_rows_that_need_none() -> None:
    bare = Table([F("NR", "C", 3), F("NOTE", "M", 4)], [b"000\0\0\0\0"], version=0x30)
    found = diff(bare, bare.with_(memo=Fpt().bytes()))
    assert (found.changes, noted(found)) == ((), {"memo-file": 1})
    with_memo = memo_table(b"", b"text")
    assert told(diff(bare, with_memo, "NR")) == [("inserted", "NR=001", ())]


def test_overlapping_memos_are_bounded() -> None:
    memo = bytearray(512) + struct.pack(">II", 1, 3 << 20) + bytes(3 << 20)
    struct.pack_into(">H", memo, 6, 64)
    rows = [b"%03d" % number + struct.pack("<I", 8) for number in range(400)]
    before = Table([F("NR", "C", 3), F("NOTE", "M", 4)], rows, version=0x30, memo=bytes(memo))
    with pytest.raises(Unreadable, match="overlap"):
        diff(before, before.with_(memo=bytes(memo[:-1]) + b"x"))


# --- the table itself -------------------------------------------------------------------------------------------------


def test_created_and_dropped() -> None:
    assert diff(None, None, "NR").changes == ()
    created = diff(None, BASE.delete(5), "NR")
    assert told(created)[:2] == [("created", "T.DBF", ()), ("inserted", "NR=001", ())]
    assert len(created.changes) == 6
    assert noted(created) == {"deleted-rows": 1}
    dropped = diff(BASE, None, "NR")
    assert [one.verb for one in dropped.changes] == [Verb.DROPPED, *[Verb.DELETED] * 6]
    assert dropped.changes[1].how == "with the table"
    assert [len(list(view)) for view in (dropped.rows.before(), dropped.rows.after())] == [6, 0]  # type: ignore[union-attr]


def test_restructured() -> None:
    fields = [F("NR", "C", 3), F("NAME", "C", 8), F("EXTRA", "L", 1)]
    rows = [b"%03d" % number + b"abcdefgh"[number : number + 1].ljust(8) + b" " for number in range(1, 7)]
    found = diff(BASE, Table(fields, rows), "NR")
    assert told(found) == [("restructured", "T.DBF", ("NAME", "SUM", "EXTRA"))]
    change = found.changes[0]
    assert change.before is not None
    assert change.after is not None
    assert (change.before["NAME"].value, change.after["NAME"].value, change.before["SUM"].value) == (
        "C(5)",
        "C(8)",
        "N(6,2)",
    )
    rows[2] = b"003edit    T"
    assert told(diff(BASE, Table(fields, rows), "NR"))[1:] == [("updated", "NR=003", ("NAME",))]
    assert diff(BASE, Table(fields, rows)).changes[0].verb == Verb.RESTRUCTURED
    assert sorted(one.verb for one in diff(BASE, Table(fields, rows)).changes[1:]) == ["deleted", "inserted"]


def test_restructured_without_the_key() -> None:
    found = diff(
        BASE, Table([F("NAME", "C", 5)], [b"abcdefgh"[number : number + 1].ljust(5) for number in range(1, 7)]), "NR"
    )
    assert (told(found)[0][0], len(found.changes), found.identity) == ("restructured", 1, "by content")
    assert "a key field is gone: rows are recognised by content" in found.warnings


def test_header_longer_with_the_same_structure() -> None:
    found = diff(BASE, BASE.with_(padding=bytes(263)))
    assert (found.changes, noted(found)) == ((), {"slack": 1})


# --- the rows view ----------------------------------------------------------------------------------------------------


def test_rows_view() -> None:
    found = diff(BASE.delete(5), BASE, "NR")
    assert found.rows is not None
    before = [(one["NR"].value, live) for one, live in found.rows.before()]
    assert before == [(f"{number:03}", number != 6) for number in range(1, 7)]
    assert [live for _, live in found.rows.after()] == [True] * 6


def test_rows_of_changes_outlive_the_files() -> None:
    memo = memo_table(b"one", b"two")
    data = {"before": memoryview(bytearray(memo.dbf())), "memo": memoryview(bytearray(memo.memo or b""))}
    before = TableState(data["before"], data["memo"], "fpt", "T")
    after = TableState(memo.delete(1).dbf(), memo.memo, "fpt", "T")
    (change,) = diff_tables(before, after, spec("NR"), observable="t").changes
    for view in data.values():
        view.release()
    assert change.before is not None
    assert change.before["NOTE"].value == "two"
    plain = pickle.loads(pickle.dumps(change))
    assert type(plain.before) is dict
    assert plain == change == copy.deepcopy(change)


# --- owned files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "verb", "owned"),
    [
        (r"C:\D\T.DBF", Verb.DELETED, True), (r"c:\d\t.dbf", Verb.CREATED, True), ("C:/D/T.dbt", Verb.CREATED, True),
        (r"C:\D\T.FPT", Verb.MODIFIED, True), (r"C:\D\t.Cdx", Verb.MODIFIED, True), (r"C:\D\T.CDX", Verb.CREATED, False),
        (r"C:\D\T.NTX", Verb.DELETED, False), (r"C:\D\T1.NTX", Verb.MODIFIED, False), (r"C:\D\TNAME.NTX", Verb.MODIFIED, True),
        (r"C:\D\IDX\A.NDX", Verb.MODIFIED, True), (r"C:\D\IDX\A.NDX", Verb.DELETED, False), (r"C:\E\T.DBF", Verb.MODIFIED, False),
        (r"C:\D\SUB\T.DBF", Verb.MODIFIED, False), (r"C:\D\T.DBF.BAK", Verb.MODIFIED, False), (r"C:\DD\T.CDX", Verb.MODIFIED, False),
        (r"C:\D\T.DBF", Verb.ATTRIBUTES, True), (r"C:\D\X\..\T.MDX", Verb.MODIFIED, True),
    ],
)  # fmt: skip
def test_owned_files(path: str, verb: Verb, owned: bool) -> None:
    assert is_owned(spec(owns=["TNAME.NTX", r"IDX\*.NDX"]), path, verb) is owned
