"""What a model proposes is checked, bounded and put into pixels; nothing that it can send gets through unchecked or crashes us."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from runner.agents.computeruse.actions import (
    MAX_SECONDS,
    MAX_TEXT,
    Action,
    Checked,
    Malformed,
    Proposal,
    arguments_of,
    check,
    repeatable,
)
from runner.agents.computeruse.audit import Audit, LoopWatch
from runner.agents.computeruse.keys import UnknownKey, chords
from runner.agents.computeruse.providers import anthropic_words, gemini, openai
from runner.agents.computeruse.scrub import scrubbed
from runner.agents.computeruse.tools import extracted
from runner.agents.computeruse.view import OutOfBounds, View

PLAIN = View((1024, 768), (1024, 768))
SCALED = View.of((2048, 1536), longest=1024)
GRID = View((1024, 768), (1024, 768), 1000)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def checked(kind: str, view: View = PLAIN, **arguments: Any) -> Checked:
    return check(Proposal(kind, arguments), view)


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("view", "given", "pixel"),
    [
        (PLAIN, (0, 0), (0, 0)),
        (PLAIN, (1023, 767), (1023, 767)),
        (SCALED, (0, 0), (1, 1)),
        (SCALED, (512, 384), (1025, 769)),
        (SCALED, (1023, 767), (2047, 1535)),
        (GRID, (0, 0), (0, 0)),
        (GRID, (500, 500), (512, 384)),
        (GRID, (999, 999), (1022, 767)),
    ],
)
def test_a_place_is_put_into_pixels_of_the_screen(view: View, given: tuple[int, int], pixel: tuple[int, int]) -> None:
    assert checked("click", view, at=given).action.at == pixel


@pytest.mark.parametrize("place", [(1024.5, 5), (5, 770), (-1, 5), (5, -0.5), (99999, 99999)])
def test_a_place_off_the_screen_is_out_of_bounds_and_not_malformed(place: tuple[float, float]) -> None:
    with pytest.raises(OutOfBounds):
        checked("click", at=place)


def test_one_step_beyond_the_edge_is_the_edge_and_told_as_a_repair() -> None:
    assert checked("click", at=(1024, 768)) == Checked(Action("click", at=(1023, 767)), ("place_on_edge",))


@pytest.mark.parametrize("size", [(640, 480), (1024, 768), (1366, 768)])
def test_a_small_screen_is_seen_as_it_is(size: tuple[int, int]) -> None:
    assert View.of(size, longest=1366).seen == size


@pytest.mark.parametrize("size", [(1920, 1080), (3840, 2160), (1600, 1600), (5000, 100)])
def test_a_large_screen_is_scaled_down_in_proportion(size: tuple[int, int]) -> None:
    view = View.of(size, longest=1366)
    assert max(view.seen) <= 1366
    assert view.seen[0] * view.seen[1] <= 1_101_000
    assert view.seen[0] / view.seen[1] == pytest.approx(size[0] / size[1], rel=0.02)
    assert Image.open(io.BytesIO(view.picture(Image.new("RGB", size)).png)).size == view.seen


@given(x=st.integers(0, 1023), y=st.integers(0, 767))
def test_told_places_come_back_to_the_same_pixel(x: int, y: int) -> None:
    assert PLAIN.point(*PLAIN.told((x, y)))[0] == (x, y)


# --- repairs and refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "arguments", "action", "repairs"),
    [
        ("click", {"at": ["5", "6"]}, Action("click", at=(5, 6)), ("number_as_text",)),
        ("click", {"at": "[5, 6]"}, Action("click", at=(5, 6)), ("place_as_text",)),
        ("click", {"at": {"x": 5, "y": 6}}, Action("click", at=(5, 6)), ()),
        ("click", {"at": [5.4, 6]}, Action("click", at=(5, 6)), ("number_rounded",)),
        ("click", {}, Action("click"), ()),
        ("click", {"at": [1, 2], "button": "right", "count": 2, "held": "ctrl+shift"},
         Action("click", at=(1, 2), button=3, count=2, held="ctrl+shift"), ()),
        ("wait", {"seconds": 1e6}, Action("wait", seconds=MAX_SECONDS), ("duration_cut",)),
        ("scroll", {"direction": "Up", "amount": 500}, Action("scroll", scroll=(0, -100)), ("scroll_cut",)),
        ("scroll", {"direction": "right"}, Action("scroll", scroll=(3, 0)), ()),
        ("type", {"text": 104}, Action("type", text="104"), ("number_typed",)),
        ("type", {"text": "a\r\nb"}, Action("type", text="a\nb"), ()),
        ("key", {"keys": "Ctrl-S"}, Action("key", keys=("Ctrl+S",)), ("key_dash",)),
        ("key", {"keys": "ctrl + s"}, Action("key", keys=("ctrl+s",)), ("key_spacing",)),
        ("key", {"keys": "ctrl+a Delete"}, Action("key", keys=("ctrl+a", "Delete")), ("keys_in_sequence",)),
        ("key", {"keys": "Tab", "repeat": 900}, Action("key", keys=("Tab",), repeat=100), ("repeat_cut",)),
        ("drag", {"path": [[1, 2], [3, 4]]}, Action("drag", path=((1, 2), (3, 4))), ()),
    ],
)  # fmt: skip
def test_what_is_clear_is_repaired_and_each_repair_has_its_name(
    kind: str, arguments: dict[str, Any], action: Action, repairs: tuple[str, ...]
) -> None:
    assert checked(kind, **arguments) == Checked(action, repairs)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("teleport", {}), ("", {}), ("move", {}), ("click", {"at": []}), ("click", {"at": [1]}), ("click", {"at": [1, 2, 3]}),
        ("click", {"at": [True, 2]}), ("click", {"at": [float("nan"), 2]}), ("click", {"at": "there"}), ("click", {"at": 5}),
        ("click", {"button": "fourth"}), ("click", {"count": 4}), ("click", {"held": "hyperspace"}), ("type", {}),
        ("type", {"text": ""}), ("type", {"text": "x" * (MAX_TEXT + 1)}), ("type", {"text": "bell\a"}), ("type", {"text": ["a"]}),
        ("key", {}), ("key", {"keys": ""}), ("key", {"keys": "F99"}), ("key", {"keys": "ctrl+"}), ("key", {"keys": "a+b"}),
        ("key", {"keys": ["x"] * 9}), ("key", {"keys": [5]}), ("key", {"keys": "Tab", "repeat": 0}), ("wait", {"seconds": -1}),
        ("wait", {"seconds": "soon"}), ("scroll", {}), ("scroll", {"direction": "in"}), ("scroll", {"direction": "up", "amount": -1}),
        ("drag", {}), ("drag", {"path": [[1, 2]]}), ("drag", {"path": [[1, 2]] * 300}), ("hold_key", {"keys": "nokey"}),
    ],
)  # fmt: skip
def test_what_cannot_be_done_or_is_ambiguous_is_malformed(kind: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        checked(kind, **arguments)


def test_a_drag_may_begin_where_the_pointer_is() -> None:
    found = check(Proposal("drag", {"path": [None, [9, 9]]}), PLAIN, (4, 5))
    assert found.action.path == ((4, 5), (9, 9))


def test_arguments_that_mean_nothing_are_told() -> None:
    assert check(Proposal("screenshot", {}, ("mood",)), PLAIN).repairs == ("argument_ignored",)


def test_typed_text_is_shown_by_its_length_only() -> None:
    assert Action("type", text="geheim").shown() == "type 6 characters"


@pytest.mark.parametrize(
    ("given", "pressed"),
    [
        ("Return", ("Return",)), ("ENTER", ("ENTER",)), ("ctrl+s", ("ctrl+s",)), (["CTRL", "S"], ("CTRL+S",)), ("Page_Down", ("Page_Down",)),
        ("page down", ("Page_Down",)), ("cmd+r", ("cmd+r",)), ("Meta+R", ("win+R",)), ("Control+Shift+Tab", ("Control+Shift+Tab",)),
        (["ARROWDOWN"], ("ARROWDOWN",)), (["TAB", "TAB"], ("TAB", "TAB")), ("ctrl++", ("ctrl++",)), ("+", ("+",)), (" ", ("space",)),
        ("KP_Enter", ("KP_Enter",)), ("alt+F4", ("alt+F4",)), ("-", ("-",)), ("ctrl+-", ("ctrl+-",)),
    ],
)  # fmt: skip
def test_the_vendors_names_of_keys_are_known(given: object, pressed: tuple[str, ...]) -> None:
    assert chords(given)[0] == pressed


@given(st.text(max_size=60) | st.lists(st.text(max_size=10), max_size=10) | JSON)
def test_no_name_of_a_key_crashes(given: object) -> None:
    try:
        pressed, _ = chords(given)
    except UnknownKey:
        return
    assert pressed


@given(
    kind=st.sampled_from(["click", "move", "drag", "scroll", "key", "hold_key", "type", "wait", "mouse_up", "x"]),
    data=st.data(),
)
def test_no_arguments_crash_the_check(kind: str, data: st.DataObject) -> None:
    names = ("at", "path", "button", "count", "direction", "amount", "keys", "held", "text", "seconds", "repeat")
    arguments = {name: data.draw(JSON) for name in data.draw(st.lists(st.sampled_from(names), unique=True))}
    try:
        action = check(Proposal(kind, arguments), PLAIN).action
    except (Malformed, OutOfBounds):
        return
    for x, y in (*action.path, *((action.at,) if action.at else ())):
        assert 0 <= x < 1024
        assert 0 <= y < 768
    assert 0 <= action.seconds <= MAX_SECONDS
    assert len(action.text) <= MAX_TEXT


@settings(max_examples=60)
@given(name=st.text(max_size=20), arguments=st.dictionaries(st.text(max_size=10), JSON, max_size=5), data=st.data())
def test_no_vendors_words_crash_their_translation(name: str, arguments: dict[str, Any], data: st.DataObject) -> None:
    theirs = {
        "anthropic": ["scroll", "left_click_drag", "key", "wait"],
        "gemini": ["scroll_at", "type_text_at", "drag_and_drop", "wait", "click"],
        "openai": ["scroll", "drag", "keypress", "wait", "click"],
    }
    hostile = arguments | {
        key: data.draw(JSON)
        for key in (
            "x",
            "y",
            "coordinate",
            "magnitude",
            "magnitude_in_pixels",
            "scroll_x",
            "scroll_y",
            "ms",
            "keys",
            "path",
            "text",
        )
        if data.draw(st.booleans())
    }
    proposals = [
        anthropic_words.proposal(data.draw(st.sampled_from([name, *theirs["anthropic"]])), hostile),
        openai.proposal(hostile | {"type": data.draw(st.sampled_from([name, *theirs["openai"]]))}),
        *gemini.proposals(data.draw(st.sampled_from([name, *theirs["gemini"]])), hostile),
    ]
    for proposal in proposals:
        try:
            check(proposal, PLAIN)
        except (Malformed, OutOfBounds):
            continue


@pytest.mark.parametrize("size", [10**400, float("inf"), float("nan"), "far", [1], {"a": 1}, True, -250])
def test_no_distance_of_scrolling_crashes(size: object) -> None:
    for proposal in (
        openai.proposal({"type": "scroll", "x": 1, "y": 1, "scroll_x": 0, "scroll_y": size}),
        *gemini.proposals("scroll", {"x": 1, "y": 1, "direction": "down", "magnitude_in_pixels": size}),
    ):
        try:
            across, down = check(proposal, PLAIN).action.scroll
        except Malformed:
            continue
        assert (across, abs(down)) in ((0, 1), (0, 2))


@pytest.mark.parametrize(
    ("given", "arguments", "repairs"),
    [
        ({"a": 1}, {"a": 1}, ()), ("{}", {}, ()), ("", {}, ()), (None, {}, ()), ('{"a": 1}', {"a": 1}, ()),
        ('"{\\"a\\": 1}"', {"a": 1}, ("arguments_as_text",)),
    ],
)  # fmt: skip
def test_arguments_may_come_as_text(given: object, arguments: dict[str, Any], repairs: tuple[str, ...]) -> None:
    assert arguments_of(given) == (arguments, repairs)


@pytest.mark.parametrize("given", ["{", "[]", "5", [], 5, '"x"', "[" * 100_000, '{"a": NaN}'])
def test_arguments_that_are_no_object_are_malformed(given: object) -> None:
    with pytest.raises(Malformed):
        arguments_of(given)
    assert repeatable(given) == "{}"


@pytest.mark.parametrize("given", ['{"a":1}', '{ "a" : "\u00e4" }', "{}"])
def test_arguments_that_are_the_text_of_an_object_are_sent_back_as_they_are(given: str) -> None:
    assert repeatable(given) == given


@given(JSON | st.text() | JSON.map(json.dumps) | JSON.map(json.dumps).map(json.dumps))
def test_whatever_a_model_gave_as_arguments_a_strict_server_gets_an_object_back(given: Any) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    assert isinstance(json.loads(repeatable(given), parse_constant=refuse), dict)


# --- the vendors' words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "meant"),
    [
        ({"type": "click", "button": "wheel", "x": 1, "y": 2}, Action("click", at=(1, 2), button=2)),
        (
            {"type": "click", "button": "left", "x": 1, "y": 2, "keys": ["CTRL"]},
            Action("click", at=(1, 2), held="CTRL"),
        ),
        ({"type": "double_click", "x": 1, "y": 2}, Action("click", at=(1, 2), count=2)),
        ({"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}]}, Action("drag", path=((1, 2), (3, 4)))),
        (
            {"type": "scroll", "x": 1, "y": 2, "scroll_x": 0, "scroll_y": 250},
            Action("scroll", at=(1, 2), scroll=(0, 2)),
        ),
        (
            {"type": "scroll", "x": 1, "y": 2, "scroll_x": -100, "scroll_y": 0},
            Action("scroll", at=(1, 2), scroll=(-1, 0)),
        ),
        ({"type": "keypress", "keys": ["CTRL", "A"]}, Action("key", keys=("CTRL+A",))),
        ({"type": "move", "x": 1, "y": 2}, Action("move", at=(1, 2))),
        ({"type": "wait"}, Action("wait", seconds=1.0)),
        ({"type": "screenshot"}, Action("screenshot")),
    ],
)
def test_openais_actions_mean_what_its_documentation_says(action: dict[str, Any], meant: Action) -> None:
    assert check(openai.proposal(action), PLAIN) == Checked(meant, ())


@pytest.mark.parametrize(
    ("name", "arguments", "meant"),
    [
        ("left_click", {"coordinate": [1, 2], "text": "shift"}, Action("click", at=(1, 2), held="shift")),
        ("triple_click", {"coordinate": [1, 2]}, Action("click", at=(1, 2), count=3)),
        ("middle_click", {}, Action("click", button=2)),
        ("left_click_drag", {"start_coordinate": [1, 2], "coordinate": [3, 4]}, Action("drag", path=((1, 2), (3, 4)))),
        ("left_click_drag", {"coordinate": [3, 4]}, Action("drag", path=((7, 8), (3, 4)))),
        ("left_mouse_down", {}, Action("mouse_down")),
        (
            "scroll",
            {"coordinate": [1, 2], "scroll_direction": "down", "scroll_amount": 5},
            Action("scroll", at=(1, 2), scroll=(0, 5)),
        ),
        ("key", {"text": "Down", "repeat": 4}, Action("key", keys=("Down",), repeat=4)),
        ("hold_key", {"text": "shift", "duration": 2}, Action("hold_key", keys=("shift",), seconds=2.0)),
        ("mouse_move", {"coordinate": [1, 2]}, Action("move", at=(1, 2))),
        ("cursor_position", {}, Action("cursor_position")),
        ("wait", {"duration": 2}, Action("wait", seconds=2.0)),
    ],
)
def test_anthropics_actions_mean_what_its_documentation_says(
    name: str, arguments: dict[str, Any], meant: Action
) -> None:
    assert check(anthropic_words.proposal(name, arguments), PLAIN, (7, 8)) == Checked(meant, ())


@pytest.mark.parametrize(
    ("name", "arguments", "meant"),
    [
        ("click", {"x": 500, "y": 500, "intent": "open"}, [Action("click", at=(512, 384))]),
        ("right_click", {"x": 0, "y": 0}, [Action("click", at=(0, 0), button=3)]),
        ("type", {"text": "a", "press_enter": True}, [Action("type", text="a"), Action("key", keys=("Return",))]),
        ("type", {"text": "a"}, [Action("type", text="a")]),
        ("type_text_at", {"x": 0, "y": 0, "text": "a"}, [
            Action("click", at=(0, 0)), Action("key", keys=("ctrl+a",)), Action("key", keys=("BackSpace",)), Action("type", text="a"),
            Action("key", keys=("Return",)),
        ]),
        ("type_text_at", {"x": 0, "y": 0, "text": "a", "press_enter": False, "clear_before_typing": False},
         [Action("click", at=(0, 0)), Action("type", text="a")]),
        ("drag_and_drop", {"start_x": 0, "start_y": 0, "end_x": 500, "end_y": 500}, [Action("drag", path=((0, 0), (512, 384)))]),
        ("drag_and_drop", {"x": 0, "y": 0, "destination_x": 500, "destination_y": 500}, [Action("drag", path=((0, 0), (512, 384)))]),
        ("hotkey", {"keys": ["Control", "S"]}, [Action("key", keys=("Control+S",))]),
        ("key_combination", {"keys": "Control+S"}, [Action("key", keys=("Control+S",))]),
        ("press_key", {"key": "Enter"}, [Action("key", keys=("Enter",))]),
        ("key_down", {"key": "Shift"}, [Action("key_down", keys=("Shift",))]),
        ("scroll", {"x": 0, "y": 0, "direction": "down", "magnitude_in_pixels": 400}, [Action("scroll", at=(0, 0), scroll=(0, 4))]),
        ("wait_5_seconds", {}, [Action("wait", seconds=5.0)]),
        ("move", {"x": 0, "y": 0}, [Action("move", at=(0, 0))]),
    ],
)  # fmt: skip
def test_geminis_functions_mean_what_its_documentation_says(
    name: str, arguments: dict[str, Any], meant: list[Action]
) -> None:
    assert [check(proposal, GRID) for proposal in gemini.proposals(name, arguments)] == [
        Checked(one, ()) for one in meant
    ]


@pytest.mark.parametrize("name", ["click", "click_at", "double_click", "type_text_at", "drag_and_drop"])
def test_a_click_of_gemini_without_a_place_is_malformed(name: str) -> None:
    with pytest.raises(Malformed):
        check(gemini.proposals(name, {"text": "a"})[0], GRID)


# --- the audit --------------------------------------------------------------------------------------------------------


def test_kinds_of_trouble_are_counted_apart() -> None:
    audit = Audit()
    audit.action("executed")
    audit.action("executed", ("key_dash", "number_as_text"))
    audit.action("malformed")
    audit.action("out_of_bounds")
    audit.action("skipped")
    told = audit.usage()
    assert {name: count for name, count in told.items() if count} == {
        "audit_actions": 5, "audit_executed": 2, "audit_malformed": 1, "audit_out_of_bounds": 1, "audit_skipped": 1, "audit_repaired": 1,
        "audit_repair_key_dash": 1, "audit_repair_number_as_text": 1,
    }  # fmt: skip
    assert told["audit_refused"] == told["audit_loops"] == 0


def test_a_loop_is_the_same_action_on_the_same_screen() -> None:
    watch, screen = LoopWatch(3), Image.new("RGB", (50, 50))
    caret, other = screen.copy(), Image.new("RGB", (50, 50), "white")
    caret.paste((255, 255, 255), (5, 5, 6, 20))
    same = (Action("click", at=(1, 1)),)
    assert [watch.repeated(same, picture) for picture in (screen, caret, screen, screen, screen, caret)] == [
        False, False, True, False, False, True,
    ]  # fmt: skip
    assert not any(watch.repeated(same, picture) for picture in (screen, other) * 3)
    assert not any(watch.repeated((Action("click", at=(n, 1)),), screen) for n in range(6))
    assert not any(watch.repeated((), screen) for _ in range(6))


# --- what is returned and what is kept ----------------------------------------------------------------------------------


SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "string"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("arguments", "values", "wrapped"),
    [
        ({"data": {"n": "1"}}, {"n": "1"}, False),
        ({"n": "1"}, {"n": "1"}, True),
        ({"data": {"name": "task", "result": {"n": "1"}}}, {"n": "1"}, True),
    ],
)
def test_valid_values_are_taken(arguments: dict[str, Any], values: Any, wrapped: bool) -> None:
    assert extracted(arguments, SCHEMA) == (values, "", wrapped)


@pytest.mark.parametrize(
    "arguments", [{}, {"data": None}, {"data": {"n": 1}}, {"data": {}}, {"data": {"result": {"n": 1}}}, {"n": 1}]
)
def test_values_that_do_not_fit_are_told(arguments: dict[str, Any]) -> None:
    assert extracted(arguments, SCHEMA)[1]


def test_nothing_is_returned_where_nothing_is_asked_for() -> None:
    assert extracted({}, None) == (None, "", False)
    assert extracted({"data": {}}, None) == (None, "", False)


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abc***xyz", "key=AIzaSyA1234567890123", "Authorization: Bearer abcdef123456",
        "GET /v1?key=secretvalue1 failed", "my own key-XYZ-abcdef", "x" * 50 + " iVBORw0KGgo" + "A" * 400,
    ],
)  # fmt: skip
def test_keys_and_encoded_data_are_taken_out(text: str) -> None:
    told = scrubbed(text, ("key-XYZ-abcdef",))
    assert not any(
        part in told for part in ("abc***xyz", "AIzaSy", "abcdef123456", "secretvalue1", "XYZ-abc", "A" * 200)
    )
    assert len(told) <= 500


def test_a_secret_is_taken_out_of_a_providers_words_however_it_is_spelled() -> None:
    secret = 'geheim "4711"/ä'
    spelled = json.dumps({"error": json.dumps({"got": secret})})
    assert "4711" not in scrubbed(f"{secret} {spelled} {secret!r}", (secret,))
    assert "•••" in scrubbed(spelled, (secret,))


def test_a_secret_that_the_limit_cuts_through_leaves_no_beginning() -> None:
    assert scrubbed("x" * 95 + " geheim123", ("geheim123",), limit=100) == "x" * 95 + " •••"
