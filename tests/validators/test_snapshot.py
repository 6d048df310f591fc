"""Two snapshots to changes: every observable in the contract's order, what is missing or unreadable is never "no change"."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from contracts.schema import Observable
from tests.validators.dbf_files import Dbt, F, Table
from validators.changes import Comparison, ContractFault, Unreadable
from validators.dbf import TableState
from validators.files import FileItem, TreeState
from validators.snapshot import Snapshot, State, UnreadableState, compare
from validators.windows import WindowItem, WindowsState

OBSERVE = {
    "screen": {"windows": {}},
    "patients": {"dbf": r"C:\D\T.DBF", "key": ["NR"]},
    "disk": {"files": r"C:\D"},
}
TABLE = Table([F("NR", "C", 3), F("NAME", "C", 5)], [b"001Muste", b"002Frau "])
SCREEN = WindowsState((WindowItem(1, 2, "APP.EXE", "App", "Patients"),))


def file(path: str, data: bytes) -> FileItem:
    return FileItem(path, "file", len(data), 1, 0x20, hashlib.sha256(data).hexdigest())


def disk(**files: bytes) -> TreeState:
    return TreeState(True, tuple(file(name.replace("_", "."), data) for name, data in files.items()))


BEFORE: Snapshot = {
    "screen": SCREEN,
    "patients": TABLE.state(),
    "disk": disk(T_DBF=TABLE.dbf(), APP_LOG=b"one"),
}


def found(before: Mapping[str, State], after: Mapping[str, State], observe: Any = OBSERVE) -> tuple[Comparison, ...]:
    return compare(TypeAdapter(dict[str, Observable]).validate_python(observe), before, after)


def told(comparisons: tuple[Comparison, ...]) -> list[str]:
    return [f"{one.observable}: {change.verb} {change.subject}" for one in comparisons for change in one.changes]


def test_equal_snapshots_differ_in_nothing() -> None:
    comparisons = found(BEFORE, dict(BEFORE))
    assert told(comparisons) == []
    assert [one.observable for one in comparisons] == ["screen", "patients", "disk"]


def test_every_kind_of_change_is_told_under_its_observable() -> None:
    after: Snapshot = {
        "screen": WindowsState(()),
        "patients": TABLE.with_(rows=[b"001Muste"]).state(),
        "disk": disk(T_DBF=TABLE.with_(rows=[b"001Muste"]).dbf(), APP_LOG=b"two"),
    }
    assert told(found(BEFORE, after)) == [
        "screen: closed Patients", "patients: deleted NR=002", "disk: modified APP.LOG",
    ]  # fmt: skip


def test_a_table_that_is_not_observed_is_told_as_a_file() -> None:
    observe = {"disk": OBSERVE["disk"]}
    after = {"disk": disk(T_DBF=b"other", APP_LOG=b"one")}
    assert told(found(BEFORE, after, observe)) == ["disk: modified T.DBF"]


@pytest.mark.parametrize("name", list(OBSERVE))
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_unreadable_state_is_unreadable_and_names_the_observable(name: str, when: str) -> None:
    broken = {**BEFORE, name: UnreadableState("the probe died")}
    pair = (broken, BEFORE) if when == "before" else (BEFORE, broken)
    with pytest.raises(Unreadable, match=f"^{name}: {when} the run: the probe died$"):
        found(*pair)


@pytest.mark.parametrize("name", list(OBSERVE))
def test_a_state_that_is_not_in_the_snapshot_is_unreadable(name: str) -> None:
    partial = {key: value for key, value in BEFORE.items() if key != name}
    with pytest.raises(Unreadable, match=f"^{name}: "):
        found(BEFORE, partial)
    with pytest.raises(Unreadable, match=f"^{name}: "):
        found(partial, BEFORE)


def test_a_state_of_another_kind_is_unreadable() -> None:
    with pytest.raises(Unreadable, match=r"^screen: "):
        found(BEFORE, {**BEFORE, "screen": BEFORE["disk"]})


def test_what_does_not_fit_the_contract_names_the_observable() -> None:
    observe = {"patients": {"dbf": r"C:\D\T.DBF", "key": ["NO_SUCH"]}}
    with pytest.raises(ContractFault, match=r"^patients: "):
        found(BEFORE, BEFORE, observe)


def test_a_table_that_cannot_be_decoded_names_the_observable() -> None:
    torn = TableState(TABLE.dbf()[:20], None, None, "T.DBF")
    with pytest.raises(Unreadable, match=r"^patients: "):
        found(BEFORE, {**BEFORE, "patients": torn})


# --- between the table and the tree nothing falls through -------------------------------------------------------------

MEMO = Dbt()
POINTER = MEMO.add(b"a memo")
WITH_MEMO = Table(
    [F("NR", "C", 3), F("NOTE", "M", 10)], [b"001" + POINTER], version=0x83, memo=MEMO.bytes(), kind="dbt"
)


def test_a_file_of_the_other_memo_kind_that_appears_is_told_by_the_tree() -> None:
    before = {**BEFORE, "patients": WITH_MEMO.state(), "disk": disk(T_DBF=WITH_MEMO.dbf(), T_DBT=MEMO.bytes())}
    after = {**before, "disk": disk(T_DBF=WITH_MEMO.dbf(), T_DBT=MEMO.bytes(), T_FPT=b"hidden here")}
    assert told(found(before, after)) == ["disk: created T.FPT"]


def test_a_memo_file_beside_a_table_without_memos_is_told_by_somebody() -> None:
    state = TABLE.state()
    stray = TableState(state.dbf, b"hidden here", "dbt", state.name)
    after = {**BEFORE, "patients": stray, "disk": disk(T_DBF=TABLE.dbf(), APP_LOG=b"one", T_DBT=b"hidden here")}
    comparisons = found(BEFORE, after)
    assert told(comparisons) or any(one.warnings or one.notes for one in comparisons)


def test_a_memo_file_that_the_table_does_not_read_is_told_by_the_tree() -> None:
    state = WITH_MEMO.with_(version=0xE5, memo=None).state()
    before = {**BEFORE, "patients": state, "disk": disk(T_DBF=WITH_MEMO.dbf(), T_SMT=b"a memo")}
    after = {**before, "disk": disk(T_DBF=WITH_MEMO.dbf(), T_SMT=b"another")}
    assert told(found(before, after)) == ["disk: modified T.SMT"]


def test_attributes_of_a_table_are_told_by_the_tree() -> None:
    plain = file("T.DBF", TABLE.dbf())
    hidden = FileItem("T.DBF", "file", plain.size, 1, 0x22, plain.sha256)
    observe = {key: OBSERVE[key] for key in ("patients", "disk")}
    before: Snapshot = {"patients": TABLE.state(), "disk": TreeState(True, (plain,))}
    after: Snapshot = {"patients": TABLE.state(), "disk": TreeState(True, (hidden,))}
    assert told(found(before, after, observe)) == ["disk: attributes T.DBF"]
