"""Two lists of windows to changes: opened, closed, retitled; what is ignored; hostile titles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.schema import Windows
from validators.changes import CellState, Comparison, ContractFault
from validators.windows import WindowItem, WindowsState, cells, diff_windows

BASE = WindowItem(1, 100, "APP.EXE", "App", "Patients")


def window(**about: Any) -> WindowItem:
    return replace(BASE, **about)


def state(*items: WindowItem) -> WindowsState:
    return WindowsState(items)


def diff(before: WindowsState, after: WindowsState, *ignore: dict[str, Any]) -> Comparison:
    rules = [{"because": "not ours", **rule} for rule in ignore]
    spec = Windows.model_validate({"windows": {"ignore": rules}})
    return diff_windows(before, after, spec, observable="screen")


def told(found: Comparison) -> list[tuple[str, str]]:
    return [(change.verb.value, change.subject) for change in found.changes]


# --- what happened ----------------------------------------------------------------------------------------------------


def test_the_same_windows_in_another_order_are_no_change() -> None:
    other = window(handle=2, title="Log")
    found = diff(state(BASE, other), state(other, BASE))
    assert (found.changes, found.notes, found.ignored) == ((), (), ())
    assert found.identity == "by handle and process"


def test_opened_and_closed() -> None:
    found = diff(state(BASE), state(window(handle=2, title="New patient")))
    assert told(found) == [("opened", "New patient"), ("closed", "Patients")]
    opened, closed = found.changes
    assert (opened.before, closed.after) == (None, None)
    assert opened.after is not None
    assert opened.after["program"].value == "APP.EXE"


def test_retitled() -> None:
    found = diff(state(BASE), state(window(title="Patients *")))
    assert told(found) == [("retitled", "Patients *")]
    change = found.changes[0]
    assert change.changed == ("title",)
    assert change.before is not None
    assert change.before["title"].value == "Patients"


def test_same_handle_of_another_process_is_another_window() -> None:
    found = diff(state(BASE), state(window(process=101)))
    assert sorted(told(found)) == [("closed", "Patients"), ("opened", "Patients")]


def test_same_title_of_another_window_is_another_window() -> None:
    assert sorted(told(diff(state(BASE), state(window(handle=9))))) == [("closed", "Patients"), ("opened", "Patients")]


def test_a_window_that_hangs_is_no_change_but_can_be_asked_for() -> None:
    found = diff(state(BASE), state(window(hung=True)))
    assert found.changes == ()
    assert found.rows is not None
    assert [row["hung"].value for row, live in found.rows.after() if live] == [True]


def test_a_new_dialog_that_waits_says_so() -> None:
    found = diff(state(BASE), state(BASE, window(handle=2, title="Really?", waiting=True)))
    assert [change.how for change in found.changes] == ["a dialog that waits for an answer"]
    assert found.changes[0].after is not None
    assert found.changes[0].after["waiting"].value is True


def test_a_closed_dialog_does_not_wait_any_more() -> None:
    found = diff(state(window(waiting=True)), state())
    assert [(change.verb.value, change.how) for change in found.changes] == [("closed", "")]


def test_positions_follow_the_title_and_do_not_depend_on_the_order_of_the_listing() -> None:
    windows = [window(handle=number, title=title) for number, title in enumerate("cab", 1)]
    one, two = diff(state(), state(*windows)), diff(state(), state(*reversed(windows)))
    assert one.changes == two.changes
    assert [(change.position, change.subject) for change in one.changes] == [(1, "a"), (2, "b"), (3, "c")]


def test_rows_hold_what_can_be_seen() -> None:
    found = diff(state(BASE), state(window(title="")))
    assert found.rows is not None
    assert [row["title"].value for row, _ in found.rows.before()] == ["Patients"]
    assert [row["title"].state for row, _ in found.rows.after()] == [CellState.BLANK]


# --- ignore rules -----------------------------------------------------------------------------------------------------


def test_ignored_windows_are_counted_and_not_seen() -> None:
    tip = window(handle=2, title="Tip of the day", class_name="Tip")
    found = diff(state(BASE), state(BASE, tip), {"class": "Tip"}, {"program": "OTHER.EXE"})
    assert found.changes == ()
    assert [(rule.count, rule.because, rule.examples) for rule in found.ignored] == [
        (1, "not ours", ("Tip of the day",)), (0, "not ours", ()),
    ]  # fmt: skip
    assert found.rows is not None
    assert [row["title"].value for row, _ in found.rows.after()] == ["Patients"]


def test_every_named_property_must_match() -> None:
    rule = {"class": "App", "title": {"regex": "Tip.*"}}
    found = diff(state(), state(window(title="Tip 1"), window(handle=2, title="Patients")), rule)
    assert told(found) == [("opened", "Patients")]


def test_an_ignored_window_that_was_there_before_and_after_counts_once() -> None:
    tip = window(handle=2, title="Tip")
    found = diff(state(tip), state(tip), {"title": "Tip"})
    assert found.ignored[0].count == 1


def test_ignored_windows_with_the_same_title_all_count() -> None:
    tips = [window(handle=number, title="", class_name="tooltips_class32") for number in (2, 3, 4)]
    found = diff(state(), state(*tips), {"class": "tooltips_class32"})
    assert found.ignored[0].count == 3


def test_examples_are_few() -> None:
    many = [window(handle=number, title=f"Tip {number}") for number in range(1, 30)]
    found = diff(state(), state(*many), {"title": {"regex": "Tip.*"}})
    assert (found.ignored[0].count, len(found.ignored[0].examples)) == (29, 5)


def test_a_rule_names_what_it_ignores() -> None:
    found = diff(state(), state(), {"title": "Tip", "program": "APP.EXE"})
    assert "title Tip" in found.ignored[0].rule
    assert "program APP.EXE" in found.ignored[0].rule


def test_a_rule_for_titles_does_not_hide_a_window_without_one() -> None:
    assert told(diff(state(), state(window(title="")), {"title": {"regex": ".+"}})) == [
        ("opened", "(no title, class App)")
    ]


def test_a_rule_that_cannot_be_applied_is_a_fault_of_the_contract() -> None:
    with pytest.raises(ContractFault):
        diff(state(), state(BASE), {"title": {"generated": "next"}})


# --- titles are data --------------------------------------------------------------------------------------------------

HOSTILE = ["", ".*", "*", "Tip[", "{{last_name}}", "[bold]x[/]", "a\nb", "\ud800", "e\u0301", "\u202etxt", "x" * 40_000]


@pytest.mark.parametrize("title", HOSTILE)
def test_hostile_titles_are_taken_as_they_are(title: str) -> None:
    opened = diff(state(), state(window(title=title)))
    assert [change.verb.value for change in opened.changes] == ["opened"]
    assert opened.changes[0].subject == (title or "(no title, class App)")
    assert diff(state(window(title=title)), state(window(title=title))).changes == ()
    assert len(diff(state(window(title="t")), state(window(title=title))).changes) == 1


@pytest.mark.parametrize("title", [".*", "*", "P*"])
def test_a_literal_in_a_rule_is_no_pattern(title: str) -> None:
    assert told(diff(state(), state(BASE), {"title": title})) == [("opened", "Patients")]


def test_cells_of_a_nameless_window_are_blank() -> None:
    row = cells(WindowItem(1, 2, "", "", ""))
    assert {name: cell.state for name, cell in row.items() if name in ("title", "class", "program")} == dict.fromkeys(
        ("title", "class", "program"), CellState.BLANK
    )


# --- properties -------------------------------------------------------------------------------------------------------

WINDOWS = st.builds(
    WindowItem,
    handle=st.integers(1, 6),
    process=st.integers(1, 2),
    program=st.just("APP.EXE"),
    class_name=st.sampled_from(["App", "Tip"]),
    title=st.sampled_from(["", "a", "b"]),
)
STATES = st.lists(WINDOWS, unique_by=lambda item: (item.handle, item.process)).map(lambda items: state(*items))


@given(STATES)
def test_an_equal_screen_never_differs(screen: WindowsState) -> None:
    assert diff(screen, WindowsState(screen.items[::-1])).changes == ()


@given(STATES, STATES)
def test_every_window_that_differs_is_told_once(before: WindowsState, after: WindowsState) -> None:
    old = {(item.handle, item.process): item for item in before.items}
    new = {(item.handle, item.process): item for item in after.items}
    expected = len(old.keys() ^ new.keys()) + sum(old[key].title != new[key].title for key in old.keys() & new.keys())
    found = diff(before, after)
    assert len(found.changes) == expected
    assert [change.position for change in found.changes] == list(range(1, expected + 1))


@given(STATES, STATES)
def test_what_is_not_ignored_is_told_as_without_the_rule(before: WindowsState, after: WindowsState) -> None:
    kept = [state(*(item for item in one.items if item.class_name != "Tip")) for one in (before, after)]
    with_rule, without = diff(before, after, {"class": "Tip"}), diff(kept[0], kept[1])
    assert with_rule.changes == without.changes
