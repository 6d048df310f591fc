"""The registry observable: which differences of two readings are changes, and what effects can say about them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.schema import Effects, RegistryKey
from validators.changes import Cell, CellState, Comparison, Kind, Verb
from validators.ledger import Ledger, Status, account
from validators.matchers import RunContext
from validators.registry import MULTI_SZ, KeyItem, RegistryState, ValueItem, data_cell, diff_registry, type_name
from validators.snapshot import compare

ROOT = r"HKCU\Software\DSWin"
RUN = RunContext(datetime(2026, 11, 29, 8, tzinfo=UTC), datetime(2026, 11, 29, 9, tzinfo=UTC))


def sz(text: str) -> bytes:
    return (text + "\0").encode("utf-16-le")


def units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def state(*values: tuple[str, str, int, bytes], keys: tuple[KeyItem, ...] = ()) -> RegistryState:
    """A key with these values; the keys that hold them are there as well, all written at time 0."""
    named = {path for key, *_ in values for path in parents(key)} - {item.path for item in keys}
    return RegistryState(
        True, (*map(KeyItem, sorted({"", *named})), *keys), tuple(ValueItem(*value) for value in values)
    )


def parents(key: str) -> list[str]:
    parts = key.split("\\") if key else []
    return ["\\".join(parts[: n + 1]) for n in range(len(parts))]


def diff(before: RegistryState, after: RegistryState, *ignore: str) -> Comparison:
    spec = RegistryKey.model_validate({"registry": ROOT, "ignore": [{"path": p, "because": "noise"} for p in ignore]})
    return diff_registry(before, after, spec, observable="settings")


def told(comparison: Comparison) -> list[tuple[str, str]]:
    return [(change.verb.value, change.subject) for change in comparison.changes]


GONE = RegistryState(exists=False)
LEFT = ("Window", "Left", 1, sz("20"))


# --- data -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        (1, sz("Grüße \U0001f600"), "Grüße \U0001f600"),
        (2, sz(r"%TEMP%\x"), r"%TEMP%\x"),
        (4, b"\x01\x02\x00\x00", Decimal(513)),
        (5, b"\x00\x00\x02\x01", Decimal(513)),
        (11, b"\xff" * 8, Decimal(2**64 - 1)),
        (7, "a\0b c\0\0".encode("utf-16-le"), "a\nb c"),
        (3, b"\0\x01", b"\0\x01"),
        (0, b"\x01", b"\x01"),
        (6, b"ab", b"ab"),
        (0x1234, b"xyz", b"xyz"),
    ],
)
def test_values_of_every_type(kind: int, data: bytes, value: object) -> None:
    cell = data_cell(kind, data)
    assert (cell.state, cell.value, cell.raw) == (CellState.VALUE, value, data)


@pytest.mark.parametrize(("kind", "data"), [(1, b""), (1, b"\0\0"), (2, b""), (7, b""), (7, b"\0\0"), (7, b"\0" * 4), (3, b""), (0, b"")])  # fmt: skip
def test_empty_values_are_blank(kind: int, data: bytes) -> None:
    assert data_cell(kind, data).state is CellState.BLANK


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        (1, b"abc", "half a character"),
        (1, b"a", "half a character"),
        (2, units("ab") + b"c", "half a character"),
        (1, b"\x00\xd8\0\0", "surrogate"),
        (1, units("a\ud800"), "surrogate"),
        (1, units("\udc00\ud800\0"), "surrogate"),
        (7, units("a\0b\ud800\0\0"), "surrogate"),
        (7, units("a\nb\0\0"), "line breaks"),
        (7, b"a", "half a character"),
        (7, units("a\0") + b"b", "half a character"),
        (4, b"\x01", "REG_DWORD has 4"),
        (4, b"\x01" * 8, "REG_DWORD has 4"),
        (4, b"", "REG_DWORD has 4"),
        (5, b"", "REG_DWORD_BIG_ENDIAN has 4"),
        (11, b"\0" * 4, "REG_QWORD has 8"),
    ],
)
def test_broken_values_are_undecodable_and_keep_their_bytes(kind: int, data: bytes, why: str) -> None:
    cell = data_cell(kind, data)
    assert (cell.state, cell.raw) == (CellState.UNDECODABLE, data)
    assert why in cell.hint


SHAPES = [
    (1, "abc", ["abc", "abc\0", "abc\0\0\0", "abc\0xyz", "abc\0xyz\0", "abc\0\ud800", "abc\0x\0\0\n"]),
    (2, "%X%", ["%X%", "%X%\0", "%X%\0old\0"]),
    (1, "", ["", "\0", "\0\0", "\0old\0", "\0\udc00"]),
    (7, "a", ["a", "a\0", "a\0\0", "a\0\0\0"]),
    (7, "a\nb c", ["a\0b c", "a\0b c\0", "a\0b c\0\0", "a\0b c\0\0\0\0"]),
    (7, "", ["", "\0", "\0\0", "\0\0\0"]),
    (7, "a\n\nb", ["a\0\0b", "a\0\0b\0\0"]),
    (7, "\nb", ["\0b\0\0"]),
]


@pytest.mark.parametrize(("kind", "value", "forms"), SHAPES)
def test_strings_are_what_programs_get_however_they_are_stored(kind: int, value: str, forms: list[str]) -> None:
    """The terminator missing, doubled, halved, or with old bytes behind it."""
    stored = []
    for text in forms:
        ended = text.endswith("\0\0") if kind == MULTI_SZ else "\0" in text
        stored += [units(text) + half for half in (b"", b"\0", b"x")[: 3 if ended else 2]]
    for data in stored:
        cell = data_cell(kind, data)
        assert (cell.state, cell.value or "") == (CellState.VALUE if value else CellState.BLANK, value), data
        assert cell.raw == data
    first = stored[0]
    for data in stored[1:]:
        found = diff(state(("", "X", kind, first)), state(("", "X", kind, data)))
        assert not found.changes
        assert [(note.kind, note.count) for note in found.notes] == [("format", 1)]


@given(st.sampled_from([1, 2, 7]), st.binary(max_size=12), st.binary(max_size=12))
def test_a_difference_in_what_programs_get_is_a_change(kind: int, one: bytes, other: bytes) -> None:
    cells = data_cell(kind, one), data_cell(kind, other)
    found = diff(state(("", "X", kind, one)), state(("", "X", kind, other)))
    assert bool(found.changes) is not cells[0].same_value(cells[1])
    assert len(found.changes) + len(found.notes) == (one != other)


@given(st.integers(0, 2**32 - 1), st.binary(max_size=40))
def test_any_bytes_of_any_type_are_a_cell(kind: int, data: bytes) -> None:
    cell = data_cell(kind, data)
    assert cell.state in CellState
    assert type_name(kind)


# --- differences ----------------------------------------------------------------------------------------------------------


def test_nothing_changed() -> None:
    both = state(LEFT, ("", "", 1, sz("x")))
    comparison = diff(both, both)
    assert (comparison.changes, comparison.notes, comparison.warnings) == ((), (), ())


def test_a_key_with_its_values_is_one_change_each_in_order() -> None:
    after = state(LEFT, ("Window", "", 1, sz("x")), ("Window\\Sub", "A", 4, b"\0" * 4), ("", "B", 3, b""))
    assert told(diff(GONE, after)) == [
        ("created", ROOT),
        ("created", "@B"),
        ("created", "Window"),
        ("created", r"Window\@"),
        ("created", r"Window\@Left"),
        ("created", r"Window\Sub"),
        ("created", r"Window\Sub\@A"),
    ]
    assert [verb for verb, _ in told(diff(after, GONE))] == ["deleted"] * 7


def test_other_data_and_another_type_are_modifications() -> None:
    data = diff(state(LEFT), state(("Window", "Left", 1, sz("30")))).changes
    assert [(c.verb, c.subject, c.changed) for c in data] == [(Verb.MODIFIED, r"Window\@Left", ("data",))]
    kind = diff(state(LEFT), state(("Window", "Left", 2, sz("20")))).changes
    assert [(c.verb, c.changed) for c in kind] == [(Verb.MODIFIED, ("type",))]
    both = diff(state(LEFT), state(("Window", "Left", 4, b"\x14\0\0\0"))).changes
    assert [c.changed for c in both] == [("type", "data")]
    assert both[0].after is not None
    assert both[0].after["type"].value == "REG_DWORD"


def test_broken_strings_differ_by_their_bytes() -> None:
    broken = ("Window", "Left", 1, b"abc")
    assert not diff(state(broken), state(broken)).changes
    changed = diff(state(broken), state(("Window", "Left", 1, b"abd"))).changes
    assert [c.changed for c in changed] == [("data",)]
    assert changed[0].after is not None
    assert changed[0].after["hex"].value == "61 62 64"


def test_names_are_the_same_in_any_case_but_not_in_another_normal_form() -> None:
    comparison = diff(state(LEFT), state(("WINDOW", "LEFT", 1, sz("20"))))
    assert not comparison.changes
    assert [(note.kind, note.count) for note in comparison.notes] == [("spelling", 2)]
    changed = diff(state(("", "é", 1, sz("a"))), state(("", "e\u0301", 1, sz("a")))).changes
    assert [c.verb for c in changed] == [Verb.CREATED, Verb.DELETED]


def test_names_that_differ_in_case_only_are_told_apart() -> None:
    before = state(("A", "x", 4, b"\1\0\0\0"), ("a", "x", 4, b"\2\0\0\0"))
    assert not diff(before, before).changes
    swapped = state(("A", "x", 4, b"\2\0\0\0"), ("a", "x", 4, b"\1\0\0\0"))
    assert [c.verb for c in diff(before, swapped).changes] == [Verb.MODIFIED] * 2
    moved = diff(state(("A", "x", 3, b"1"), keys=(KeyItem("a"),)), state(("a", "x", 3, b"1"), keys=(KeyItem("A"),)))
    assert told(moved) == [("deleted", r"A\@x"), ("created", r"a\@x")]


def test_times_alone_are_a_note() -> None:
    before, after = state(LEFT, keys=(KeyItem("B", 1),)), state(LEFT, keys=(KeyItem("B", 2),))
    comparison = diff(before, after)
    assert not comparison.changes
    assert [(note.kind, note.count) for note in comparison.notes] == [("touched", 1)]
    told_by_its_value = diff(before, state(LEFT, ("B", "new", 3, b"x"), keys=(KeyItem("B", 2),)))
    assert not told_by_its_value.notes


def test_the_same_meaning_in_other_bytes_is_a_note() -> None:
    comparison = diff(state(("", "a", 1, b"")), state(("", "a", 1, b"\0\0")))
    assert not comparison.changes
    assert [note.kind for note in comparison.notes] == ["format"]


def test_volatile_keys_are_told() -> None:
    before = state()
    after = state(("Now", "a", 3, b"x"), keys=(KeyItem("Now", 0, True), KeyItem("Kept", 0, False)))
    changes = {c.subject: c for c in diff(before, after).changes}
    assert "volatile" in changes["Now"].how
    assert "volatile" in changes[r"Now\@a"].how
    assert not changes["Kept"].how
    turned = diff(state(keys=(KeyItem("K", 0, False),)), state(keys=(KeyItem("K", 0, True),))).changes
    assert [(c.verb, c.changed) for c in turned] == [(Verb.MODIFIED, ("volatile",))]
    assert not diff(state(keys=(KeyItem("K", 0, None),)), state(keys=(KeyItem("K", 0, True),))).changes


def test_skipped_keys_are_noted() -> None:
    both = replace(state(LEFT), skipped=(("Perflib", "performance counters"),))
    assert [note.text for note in diff(both, both).notes] == ["Perflib is never read: performance counters"]


def test_a_key_on_neither_side_is_a_warning() -> None:
    assert "neither before nor after" in diff(GONE, GONE).warnings[0]


def test_ignored_with_counts_and_a_separator_in_a_name_is_none() -> None:
    after = state(
        ("MRU", "a", 3, b""), ("MRU", "b", 3, b""), ("", "MRU\\c", 3, b""), ("", "MRU", 3, b""), ("", "x/MRU", 3, b"")
    )
    comparison = diff(state(), after, r"\MRU", r"MRU\**", "nothing")
    assert told(comparison) == [("created", "@MRU"), ("created", "@MRU⧵c"), ("created", "@x∕MRU")]
    assert [(i.rule, i.count) for i in comparison.ignored] == [(r"\MRU", 1), (r"MRU\**", 2), ("nothing", 0)]
    assert comparison.ignored[1].examples == (r"MRU\@a", r"MRU\@b")


# --- a random script of edits is found exactly ----------------------------------------------------------------------------

_KEYS = ["", "A", "A\\B", "Größe", "x/y"]
_NAMES = ["", "n", "Left", "a\\b", "@", "ß"]
_DATA = st.sampled_from([(1, sz("a")), (1, sz("b")), (4, b"\1\0\0\0"), (3, b"\xff"), (1, b"odd"), (7, b"\0\0")])
_VALUES = st.dictionaries(st.tuples(st.sampled_from(_KEYS), st.sampled_from(_NAMES)), _DATA, max_size=12)


@given(_VALUES, _VALUES, st.booleans())
def test_a_random_script_of_edits_is_found_exactly(
    before: dict[tuple[str, str], tuple[int, bytes]], after: dict[tuple[str, str], tuple[int, bytes]], upper: bool
) -> None:
    def made(values: dict[tuple[str, str], tuple[int, bytes]], *, shout: bool) -> RegistryState:
        return state(*((k.upper() if shout and "ß" not in k else k, n, *data) for (k, n), data in values.items()))

    def keys(values: dict[tuple[str, str], tuple[int, bytes]]) -> set[str]:
        return {"", *(path for key, _ in values for path in parents(key))}

    wanted: list[tuple[str | None, ...]] = [("created", "key", k, None) for k in keys(after) - keys(before)]
    wanted += [("deleted", "key", k, None) for k in keys(before) - keys(after)]
    wanted += [("created", "value", *names) for names in after.keys() - before.keys()]
    wanted += [("deleted", "value", *names) for names in before.keys() - after.keys()]
    wanted += [("modified", "value", *n) for n in after.keys() & before.keys() if after[n] != before[n]]
    found = diff(made(before, shout=False), made(after, shout=upper))
    seen = []
    for change in found.changes:
        row = change.after or change.before or {}
        key, name = str(row["key"].value or ""), row.get("name")
        spelt = next(k for k in _KEYS if k.upper() == key.upper())
        seen.append((change.verb.value, row["kind"].value, spelt, None if name is None else name.value or ""))
    assert sorted(map(repr, seen)) == sorted(map(repr, wanted))
    assert [c.position for c in found.changes] == list(range(1, len(found.changes) + 1))
    assert not diff(made(after, shout=False), made(after, shout=upper)).changes


# --- effects --------------------------------------------------------------------------------------------------------------


def judged(before: RegistryState, after: RegistryState, **effects: Any) -> Ledger:
    return account(Effects.model_validate(effects), [diff(before, after)], success=True, context=RUN)


def statuses(ledger: Ledger) -> list[str]:
    return [entry.status.value for entry in ledger.entries]


BEFORE, AFTER = state(LEFT), state(("Window", "Left", 1, sz("100")))


@pytest.mark.parametrize(
    "effect",
    [
        {"path": r"Window\@Left", "fields": {"data": "100"}},
        {"path": "@left", "fields": {"data": 100}},
        {"path": "Window\\*", "where": {"name": "Left"}, "fields": {"data": "100"}},
        {"where": {"key": "Window", "name": "Left", "data": "20"}, "fields": {"data": {"number": Decimal(100)}}},
        {"where": {"kind": "value"}, "fields": {"data": {"is": "changed"}, "type": {"is": "unchanged"}}},
        {"where": {"type": "REG_SZ"}},
    ],
)
def test_ways_to_expect_a_changed_value(effect: dict[str, Any]) -> None:
    ledger = judged(BEFORE, AFTER, expect=[{"modified": "settings", **effect}])
    assert statuses(ledger) == ["expected"]
    assert not ledger.missing


@pytest.mark.parametrize(
    "effect",
    [
        {"path": r"Window\Left"},  # a key of that name
        {"path": r"\@Left"},
        {"where": {"name": "left"}},  # cells are compared as spelt
        {"where": {"data": "100"}},  # `where` looks at the value before
        {"fields": {"data": "20"}},
        {"where": {"kind": "key"}},
    ],
)
def test_what_does_not_claim_it(effect: dict[str, Any]) -> None:
    assert statuses(judged(BEFORE, AFTER, expect=[{"modified": "settings", **effect}])) == ["unexplained"]


def test_another_type_is_not_explained_by_the_data_alone() -> None:
    after = state(("Window", "Left", 4, b"\x64\0\0\0"))
    effect = {"modified": "settings", "path": r"Window\@Left", "fields": {"data": 100}}
    ledger = judged(BEFORE, after, expect=[effect])
    assert statuses(ledger) == ["unexplained"]
    assert [m.field for m in ledger.near_misses[0].misfits] == ["type"]
    effect["fields"] = {"data": 100, "type": "REG_DWORD"}
    assert statuses(judged(BEFORE, after, expect=[effect])) == ["expected"]


def test_a_wrong_value_is_a_near_miss_and_deleted_ones_are_told_by_what_they_held() -> None:
    ledger = judged(BEFORE, AFTER, expect=[{"modified": "settings", "path": r"Window\@Left", "fields": {"data": "7"}}])
    assert [(m.field, m.expected, m.found, m.before) for m in ledger.near_misses[0].misfits] == [
        ("data", "7", "100", "20")
    ]
    gone = {"deleted": "settings", "path": "@Left", "fields": {"data": "20"}}
    assert statuses(judged(BEFORE, state(keys=(KeyItem("Window"),)), expect=[gone])) == ["expected"]


def test_binary_data_and_broken_strings_are_told_by_their_bytes() -> None:
    after = state(("", "b", 3, b"\x01\xff"), ("", "s", 1, b"abc"))
    effects = [{"created": "settings", "path": "@b", "fields": {"hex": "01 ff"}}]
    effects += [{"created": "settings", "path": "@s", "fields": {"hex": {"regex": "61 62 .."}, "type": "REG_SZ"}}]
    assert statuses(judged(state(), after, expect=effects)) == ["expected", "expected"]


def test_one_change_may_refer_to_another_and_the_observed_key_has_its_name() -> None:
    after = state(("", "a", 1, sz("7")), ("", "b", 1, sz("7")))
    effects = [
        {"created": "settings", "path": "DSWin", "name": "top"},
        {"created": "settings", "path": "@a", "name": "first"},
        {"created": "settings", "path": "@b", "fields": {"data": {"field": "first.data"}}},
    ]
    assert statuses(judged(GONE, after, expect=effects)) == ["expected"] * 3


def test_snapshots_compare_registry_states() -> None:
    spec = RegistryKey.model_validate({"registry": ROOT})
    (found,) = compare({"settings": spec}, {"settings": BEFORE}, {"settings": AFTER})
    assert told(found) == [("modified", r"Window\@Left")]
    assert Status.UNEXPLAINED in {entry.status for entry in judged(BEFORE, AFTER).entries}


def test_cells_show_blank_names() -> None:
    (change,) = diff(state(), state(("", "", 3, b""))).changes
    assert change.after is not None
    assert change.after["name"] == Cell(Kind.VARTEXT, state=CellState.BLANK)
    assert change.after["data"].state is CellState.BLANK
