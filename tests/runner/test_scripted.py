"""The scripted agent: scripts are checked before they run, and act only through the display."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from contracts.schema import Regex
from runner.agents.base import AgentReport, AgentSpecError, AgentTask, plan
from runner.agents.supervision import supervise
from runner.display.handshake import DisplayAddress
from runner.guests.base import GuestLost, Unreadable
from runner.guests.probe import WindowEntry
from runner.guests.windows import title_fits, wait_for_window, windows
from tests.peers.fake_guest import FakeGuest, control, window
from tests.peers.rfb_server import FakeRfbServer, wait_until

LONG = 120.0
"""Seconds that no test should ever wait."""
HEAD = """\
schema: 1
contract: dswin.demo
title: A demo
intended: {outcome: valid_success}
steps:
"""
PARAMETERS = {"last_name": "Muster", "birth_date": "1964-08-12", "tags": ["a", "b"]}


def script(tmp_path: Path, *steps: str, head: str = HEAD, name: str = "demo.yaml") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "".join(f"  - {step}\n" for step in steps), encoding="utf-8")
    return path


def refused(path: Path) -> str:
    with pytest.raises(AgentSpecError) as caught:
        plan(f"scripted:{path}")
    return str(caught.value)


# --- scripts that are refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("pres: F2", "pres"),
        ("{press: F2, type: x}", "exactly one of"),
        ("{}", "exactly one of"),
        ("press: 5", "press"),
        ("wait: {windw: x}", "windw"),
        ("wait: {window: x, control: {}}", "needs `text`, `id` or `class`"),
        ("wait: {window: x, timeout: 5}", "duration"),
        ("wait: {window: x, timeout: 0s}", "0"),
        ("click: {}", "give either"),
        ("click: {at: [1, 2], window: x, control: {id: 1}}", "give either"),
        ("click: {window: x}", "give either"),
        ("click: {at: [1]}", "at"),
        ("click: {at: [1, two]}", "at"),
        ("type: {date: '2026-01-01'}", "`as`"),
        ("type: 5", "type"),
        ("read: {window: x, control: {id: 1}}", "`as`"),
        ("report: done", "success"),
        ("report: timeout", "success"),
        ("pause: 5", "duration"),
        ("wait: {window: {regex: '('}}", "regular expression"),
        ("press: ''", ""),
        ("wait:", "no value"),
    ],
)
def test_a_step_that_is_wrong_is_told_with_its_line(tmp_path: Path, step: str, words: str) -> None:
    message = refused(script(tmp_path, "pause: 1s", step, "report: success"))
    assert f"{tmp_path / 'demo.yaml'}:7:" in message
    assert words in message


@pytest.mark.parametrize(
    "step",
    ["press: F99", "press: ctrl+", "read: {window: x, control: {id: 1}, as: n, regex: '('}"],
)
def test_a_step_that_could_never_be_done_is_refused_before_it_runs(tmp_path: Path, step: str) -> None:
    assert ":7:" in refused(script(tmp_path, "pause: 1s", step, "report: success"))


@pytest.mark.parametrize(
    "matcher",
    ["{one_of: [a, b]}", "{not: a}", "{is: empty}", "{text: a, normalise: [case]}", "{returned: n}", "true"],
)
def test_a_matcher_that_windows_do_not_know_is_refused_before_it_runs(tmp_path: Path, matcher: str) -> None:
    assert ":6:" in refused(script(tmp_path, f"wait: {{window: {matcher}}}", "report: success"))


@pytest.mark.parametrize(
    ("head", "place"),
    [
        (HEAD.replace("schema: 1", "schema: 2"), ":1:"),
        (HEAD.replace("valid_success", "success"), ":4:"),
        (HEAD.replace("title: A demo", "titel: A demo"), ":3:"),
        ("steps: [\n", ":"),
        ("", ":"),
        ("- a\n- b\n#", ":"),
    ],
)
def test_a_head_that_is_wrong_is_told_with_its_line(tmp_path: Path, head: str, place: str) -> None:
    assert place in refused(script(tmp_path, "report: success", head=head))


def test_every_problem_is_told(tmp_path: Path) -> None:
    message = refused(script(tmp_path, "pres: F2", "clik: {}"))
    assert ":6:" in message
    assert ":7:" in message


def test_a_script_without_steps_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(HEAD.replace("steps:", "steps: []"))
    assert ":5:" in refused(path)


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no script" in refused(tmp_path / "none.yaml")
    assert "there is no script" in refused(tmp_path)
    with pytest.raises(AgentSpecError, match="say which script"):
        plan("scripted")


def test_a_script_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_bytes(b"\xff\xfe\x00schema")
    assert str(path) in refused(path)


# --- scripts that are planned -----------------------------------------------------------------------------------------


def test_a_script_names_its_contract_and_what_must_come_out(tmp_path: Path) -> None:
    head = HEAD.replace("{outcome: valid_success}", "{outcome: invalid_success, kind: phantom}")
    path = script(tmp_path, "report: success", head=head, name="wrong-number.yaml")
    (planned,) = plan(f"scripted:{path}")
    assert (planned.spec, planned.agent.name, planned.contract) == (
        f"scripted:{path}", "scripted wrong-number", "dswin.demo",
    )  # fmt: skip
    assert planned.intended is not None
    assert (planned.intended.outcome, planned.intended.kind) == ("invalid_success", "phantom")


def test_a_folder_stands_for_all_its_scripts(tmp_path: Path) -> None:
    for name in ("b.yaml", "sub/a.yaml", "a.yaml"):
        script(tmp_path, "report: success", name=name)
    (tmp_path / "notes.txt").write_text("no script")
    planned = plan(f"scripted:{tmp_path}")
    assert [one.spec for one in planned] == [
        f"scripted:{tmp_path / name}" for name in ("a.yaml", "b.yaml", "sub/a.yaml")
    ]


def test_one_bad_script_in_a_folder_is_told(tmp_path: Path) -> None:
    script(tmp_path, "report: success", name="a.yaml")
    script(tmp_path, "report: sucess", name="b.yaml")
    assert "b.yaml:6:" in refused(tmp_path)


def test_the_scripts_of_the_house_can_be_played() -> None:
    recordings = Path(__file__).parents[2] / "recordings"
    assert plan(f"scripted:{recordings}")


# --- playing ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[FakeRfbServer]:
    with FakeRfbServer(size=(320, 240)) as fake:
        yield fake


class Screen:
    """What the guest says is on the screen; may change with every look."""

    def __init__(self, *shown: WindowEntry) -> None:
        self.shown = shown
        self.looks = 0
        self.on_look: Callable[[int], None] = lambda _number: None

    def __call__(self) -> tuple[WindowEntry, ...]:
        self.looks += 1
        self.on_look(self.looks)
        return self.shown


def task(server: FakeRfbServer, screen: Callable[[], tuple[WindowEntry, ...]], seconds: float = LONG) -> AgentTask:
    return AgentTask(
        contract="dswin.demo", instruction="do", prompt="do it", parameters=PARAMETERS, response_schema=None,
        display=DisplayAddress("127.0.0.1", server.port), timeout=seconds, deadline=time.monotonic() + seconds,
        folder=Path("nowhere"), windows=screen, cancelled=threading.Event(),
    )  # fmt: skip


@pytest.fixture
def play(tmp_path: Path, server: FakeRfbServer) -> Callable[..., AgentReport]:
    """Plays steps on the fake display with the given screen."""

    def run(*steps: str, screen: Screen | None = None, seconds: float = LONG, **about: Any) -> AgentReport:
        (planned,) = plan(f"scripted:{script(tmp_path, *steps)}")
        given = replace(task(server, screen or Screen(window("Main")), seconds), **about)
        return planned.agent.run(given)

    return run


Play = Callable[..., AgentReport]


def typed(server: FakeRfbServer) -> str:
    """The characters of the keys that went down."""
    keys = [message for message in server.inputs if message[0] == "key" and message[1]]
    return "".join(chr(int(str(key[2]))) if int(str(key[2])) < 0x100 else f"<{int(str(key[2])):x}>" for key in keys)


def test_keys_are_pressed_and_released(play: Play, server: FakeRfbServer) -> None:
    assert play("press: ctrl+s", "report: success").status == "success"
    wait_until(lambda: len(server.inputs) == 4)
    assert server.inputs == [("key", True, 0xFFE3), ("key", True, 0x73), ("key", False, 0x73), ("key", False, 0xFFE3)]


def test_text_is_typed_with_parameters_put_in(play: Play, server: FakeRfbServer) -> None:
    play('type: "<{{last_name}}> {{{{x}}}} {{tags}}"', "report: success")
    expected = "<Muster> {{x}} a, b"
    wait_until(lambda: len([m for m in server.inputs if m[0] == "key" and m[2] != 0xFFE1]) == 2 * len(expected))
    assert typed(server).replace("<ffe1>", "") == expected


@pytest.mark.parametrize(
    ("form", "expected"),
    [("%d.%m.%Y", "12.08.1964"), ("%d%m%y", "120864"), ("%Y-%m-%d", "1964-08-12"), ("am %d.", "am 12.")],
)
def test_a_date_is_typed_in_its_form(play: Play, server: FakeRfbServer, form: str, expected: str) -> None:
    play(f'type: {{date: "{{{{birth_date}}}}", as: "{form}"}}', "report: success")
    wait_until(lambda: len(server.inputs) == 2 * len(expected))
    assert typed(server) == expected


def test_a_point_is_clicked(play: Play, server: FakeRfbServer) -> None:
    play("click: {at: [10, 20]}", "report: success")
    wait_until(lambda: len(server.inputs) == 3)
    assert server.inputs == [("pointer", 0, 10, 20), ("pointer", 1, 10, 20), ("pointer", 0, 10, 20)]


def test_a_double_click(play: Play, server: FakeRfbServer) -> None:
    play("click: {at: [10, 20], double: true}", "report: success")
    wait_until(lambda: len(server.inputs) == 5)
    assert [message[1] for message in server.inputs] == [0, 1, 0, 1, 0]


def test_a_control_is_clicked_in_its_middle(play: Play, server: FakeRfbServer) -> None:
    button = control("OK", class_name="Button", rect=(100, 40, 181, 64))
    play(
        "click: {window: Main, control: {text: OK}}",
        "report: success",
        screen=Screen(window("Main", controls=(button,))),
    )
    wait_until(lambda: len(server.inputs) == 3)
    assert server.inputs[1] == ("pointer", 1, 140, 52)


@pytest.mark.parametrize("rect", [(-32000, -32000, -31840, -31972), (70_000, 0, 70_010, 10), (500, 400, 600, 420)])
def test_a_control_that_is_not_on_the_screen_is_not_as_expected(play: Play, rect: tuple[int, int, int, int]) -> None:
    screen = Screen(window("Main", controls=(control("OK", rect=rect),)))
    report = play("click: {window: Main, control: {text: OK}, timeout: 10ms}", "report: success", screen=screen)
    assert report.status == "ui_not_as_expected"


def test_only_what_was_asked_reaches_the_display(play: Play, server: FakeRfbServer) -> None:
    screen = Screen(window("Main", controls=(control("7"),)))
    play("wait: {window: Main}", "read: {window: Main, control: {id: 1}, as: n}", "report: success", screen=screen)
    assert server.inputs == []


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_waiting_for_a_window_that_comes(play: Play) -> None:
    screen = Screen()

    def appear(number: int) -> None:
        if number == 3:
            screen.shown = (window("New patient"),)

    screen.on_look = appear
    assert play("wait: {window: New patient, timeout: 60s}", "report: success", screen=screen).status == "success"
    assert screen.looks == 3


def test_waiting_for_a_control_that_comes(play: Play) -> None:
    screen = Screen(window("Form"))

    def appear(number: int) -> None:
        if number == 2:
            screen.shown = (window("Form", controls=(control(None, id=1001),)),)

    screen.on_look = appear
    steps = ("wait: {window: Form, control: {id: 1001}, timeout: 60s}", "report: success")
    assert play(*steps, screen=screen).status == "success"


def test_waiting_until_a_window_is_gone(play: Play) -> None:
    screen = Screen(window("Main"), window("Box"))

    def vanish(number: int) -> None:
        if number == 2:
            screen.shown = (window("Main"),)

    screen.on_look = vanish
    assert play("wait: {window: Box, gone: true, timeout: 60s}", "report: success", screen=screen).status == "success"


def test_waiting_until_a_control_is_gone_leaves_its_window(play: Play) -> None:
    screen = Screen(window("Main", controls=(control("Busy", class_name="Static"),)))

    def vanish(number: int) -> None:
        if number == 2:
            screen.shown = (window("Main"),)

    screen.on_look = vanish
    steps = ("wait: {window: Main, control: {text: Busy}, gone: true, timeout: 60s}", "report: success")
    assert play(*steps, screen=screen).status == "success"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("wait: {window: Other, timeout: 50ms}", "window 'Other' did not appear"),
        ("wait: {window: Main, gone: true, timeout: 50ms}", "window 'Main' is still there"),
        ("wait: {window: {regex: 'Oth.*'}, timeout: 50ms}", "window /Oth.*/ did not appear"),
        ("wait: {window: Main, control: {id: 7}, timeout: 50ms}", "window 'Main' with control 7 did not appear"),
        ("wait: {window: '{{last_name}}', timeout: 50ms}", "window 'Muster' did not appear"),
        ("click: {window: Main, control: {text: OK}, timeout: 50ms}", "control 'OK' did not appear"),
        ("read: {window: Main, control: {class: Edit}, as: n, timeout: 50ms}", "control Edit did not appear"),
    ],
)
def test_a_screen_that_is_not_as_expected_ends_the_script(
    play: Play, server: FakeRfbServer, step: str, words: str
) -> None:
    server.draw(Image.new("RGB", (64, 48), "red"))
    report = play("pause: 1ms", step, "press: F2", "report: success")
    assert report.status == "ui_not_as_expected"
    assert report.message.startswith("step 2: ")
    assert words in report.message
    assert server.inputs == [], "nothing is done after that"
    last = report.timeline[-1]
    assert last.text == report.message
    assert last.screenshot is not None
    picture = Image.open(io.BytesIO(last.screenshot))
    assert (picture.size, picture.convert("RGB").getpixel((1, 1))) == ((64, 48), (255, 0, 0))


def test_a_hidden_control_is_not_there(play: Play) -> None:
    screen = Screen(window("Main", controls=(control("OK", visible=False),)))
    report = play("wait: {window: Main, control: {text: OK}, timeout: 20ms}", "report: success", screen=screen)
    assert report.status == "ui_not_as_expected"


# --- which window, which control --------------------------------------------------------------------------------------


def finds(play: Play, reference: str, *controls: Any, title: str = "Main", wanted: str = "Main") -> bool:
    screen = Screen(window(title, controls=controls))
    step = f"wait: {{window: {wanted}, control: {reference}, timeout: 1ms}}"
    return play(step, "report: success", screen=screen).status == "success"


@pytest.mark.parametrize(
    ("caption", "text"),
    [
        ("&Save", "Save"), ("Sa&ve", "Save"), ("Save && close", "Save & close"), ("&Save && close", "Save & close"),
        ("Save", "Save"), ("R&&D &off", "R&D off"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["Button", "Static"])
def test_mnemonics_are_not_seen(play: Play, kind: str, caption: str, text: str) -> None:
    assert finds(play, f"{{text: {text!r}}}", control(caption, class_name=kind))


@pytest.mark.parametrize("kind", ["Edit", "ListBox"])
@pytest.mark.parametrize("text", ["Müller & Söhne", "R&D", "A && B"])
def test_ampersands_in_what_was_typed_are_text(play: Play, kind: str, text: str) -> None:
    assert finds(play, f"{{text: {text!r}}}", control(text, class_name=kind))


def test_everything_that_is_given_must_hold(play: Play) -> None:
    box = control("OK", id=1, class_name="Button")
    assert finds(play, "{text: OK, id: 1, class: button}", box)
    assert not finds(play, "{text: OK, id: 2, class: Button}", box)
    assert not finds(play, "{text: OK, id: 1, class: Edit}", box)
    assert not finds(play, "{text: Ok, id: 1}", box)


def test_a_control_by_pattern(play: Play) -> None:
    assert finds(play, "{text: {regex: 'Patient Nr. \\d+.*'}}", control("Patient Nr. 000104 wurde angelegt.", id=5))
    assert not finds(play, "{text: {regex: 'Nr'}}", control("Patient Nr.")), "the whole text must match"


def test_a_text_that_cannot_be_read_is_no_text(play: Play) -> None:
    assert not finds(play, "{text: x}", control(None))
    assert finds(play, "{id: 1}", control(None))


@pytest.mark.parametrize("title", ["", ".*", "[x", "\ud800", "M\nain", "x" * 40_000])
def test_hostile_titles_are_no_patterns(play: Play, title: str) -> None:
    assert not finds(play, "{id: 1}", control("x"), title=title)
    assert not finds(play, "{id: 1}", control("x"), title=title, wanted="{regex: 'Ma?in'}")


def test_a_control_in_the_second_window_of_that_title(play: Play) -> None:
    screen = Screen(window("Box"), window("Box", hwnd=2, controls=(control("OK"),)))
    step = "wait: {window: Box, control: {text: OK}, timeout: 1ms}"
    assert play(step, "report: success", screen=screen).status == "success"


# --- reading and reporting --------------------------------------------------------------------------------------------

BOX = window("Box", controls=(control("Patient Nr. 000104 wurde angelegt.", class_name="Static"),))


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        (", regex: '\\d{6}'", "000104"),
        (", regex: 'Nr\\. (\\d+) (\\w+)'", "000104"),
        ("", "Patient Nr. 000104 wurde angelegt."),
    ],
)
def test_a_text_that_was_read_is_returned(play: Play, regex: str, expected: str) -> None:
    step = f"read: {{window: Box, control: {{class: Static}}, as: number{regex}}}"
    report = play(step, "report: success", screen=Screen(BOX))
    assert (report.status, report.returned) == ("success", {"number": expected})


def test_a_text_without_what_is_looked_for_is_not_as_expected(play: Play) -> None:
    step = "read: {window: Box, control: {class: Static}, as: number, regex: '[A-Z]{9}'}"
    report = play(step, "report: success", screen=Screen(BOX))
    assert (report.status, report.returned) == ("ui_not_as_expected", None)
    assert report.timeline[-1].screenshot is not None


def test_a_group_that_took_no_part_is_an_empty_text(play: Play) -> None:
    step = "read: {window: Box, control: {class: Static}, as: number, regex: 'Patient( X)?'}"
    assert play(step, "report: success", screen=Screen(BOX)).returned == {"number": ""}


def test_returned_values_are_filled_and_join_what_was_read(play: Play) -> None:
    read = "read: {window: Box, control: {class: Static}, as: number, regex: '\\d{6}'}"
    report = play(
        read,
        "report: {status: success, message: 'registered {{last_name}}', returns: {name: '{{last_name}}', count: 1}}",
        screen=Screen(BOX),
    )
    assert report.returned == {"number": "000104", "name": "Muster", "count": 1}
    assert report.message == "registered Muster"


def test_returned_values_are_filled_at_any_depth(play: Play) -> None:
    report = play("report: {status: success, returns: {patient: {names: ['{{last_name}}']}}}")
    assert report.returned == {"patient": {"names": ["Muster"]}}


@pytest.mark.parametrize("status", ["success", "failed", "ui_not_as_expected"])
def test_a_script_reports_what_it_says(play: Play, status: str) -> None:
    report = play(f"report: {status}", "press: F2")
    assert (report.status, report.returned) == (status, None)


def test_a_script_without_a_report_has_failed(play: Play) -> None:
    assert play("pause: 1ms").status == "failed"


def test_the_timeline_tells_what_was_done(play: Play, server: FakeRfbServer) -> None:
    report = play("wait: {window: Main}", "press: F2", "type: abc", "click: {at: [1, 2]}", "report: success")
    assert [line.text for line in report.timeline] == [
        "wait for window 'Main'", "press F2", "type abc", "click at 1, 2",
    ]  # fmt: skip
    assert all(line.screenshot is None for line in report.timeline)
    assert [line.t for line in report.timeline] == sorted(line.t for line in report.timeline)


# --- its end ----------------------------------------------------------------------------------------------------------


def test_nothing_is_done_after_the_deadline(play: Play, server: FakeRfbServer) -> None:
    report = play("press: F2", "report: success", seconds=-1)
    assert (report.status, report.message) == ("timeout", "stopped before step 1")
    assert server.inputs == []


def test_a_pause_does_not_outlast_the_deadline(play: Play) -> None:
    begun = time.monotonic()
    report = play("pause: 600s", "report: success", seconds=0.2)
    assert report.status == "timeout"
    assert time.monotonic() - begun < LONG


def test_waiting_does_not_outlast_the_deadline_and_that_is_a_timeout(play: Play) -> None:
    begun = time.monotonic()
    report = play("wait: {window: Other, timeout: 600s}", "report: success", seconds=0.2)
    assert time.monotonic() - begun < LONG
    assert report.status == "timeout"


def test_a_cancelled_script_stops(play: Play, server: FakeRfbServer) -> None:
    cancelled = threading.Event()
    cancelled.set()
    assert play("press: F2", "report: success", cancelled=cancelled).status == "timeout"
    assert server.inputs == []


def test_a_cancelled_script_stops_in_the_middle_of_waiting(play: Play) -> None:
    cancelled = threading.Event()
    screen = Screen()
    screen.on_look = lambda _number: cancelled.set()
    begun = time.monotonic()
    report = play("wait: {window: Other, timeout: 600s}", "report: success", screen=screen, cancelled=cancelled)
    assert report.status != "success"
    assert time.monotonic() - begun < LONG


@pytest.mark.parametrize("error", [Unreadable("torn"), GuestLost("gone")])
def test_a_machine_that_cannot_be_asked_is_no_failure_of_the_agent(
    tmp_path: Path, server: FakeRfbServer, error: Exception
) -> None:
    def broken() -> tuple[WindowEntry, ...]:
        raise error

    (planned,) = plan(f"scripted:{script(tmp_path, 'wait: {window: Main}', 'report: success')}")
    try:
        result = supervise(planned.agent, task(server, broken), cut=lambda: None)
    except type(error):
        return
    assert result.infrastructure is not None


def test_a_parameter_that_there_is_not_is_told(tmp_path: Path, server: FakeRfbServer) -> None:
    path = script(tmp_path, 'type: "{{no_such}}"', "report: success")
    (planned,) = plan(f"scripted:{path}")
    result = supervise(planned.agent, task(server, Screen()), cut=lambda: None)
    assert result.report.status == "error"
    assert "no_such" in result.report.message


def test_a_display_that_ends_in_the_middle_is_an_error(tmp_path: Path, server: FakeRfbServer) -> None:
    screen = Screen(window("Main"))
    screen.on_look = lambda _number: server.drop()
    (planned,) = plan(f"scripted:{script(tmp_path, 'wait: {window: Other, timeout: 100ms}', 'report: success')}")
    result = supervise(planned.agent, task(server, screen), cut=lambda: None)
    assert result.report.status != "success"


# --- waiting for windows at the start of a run ------------------------------------------------------------------------


def test_only_visible_windows_are_listed_with_their_controls() -> None:
    guest = FakeGuest([window("Main", controls=(control("OK"),)), window("hidden", visible=False)])
    (found,) = windows(guest)
    assert (found.title, [child.text for child in found.controls]) == ("Main", ["OK"])


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ("Main 1", True),
        ("Main", False),
        (Regex(regex="Main .*"), True),
        (Regex(regex="Main"), False),
        ("Main.*", False),
    ],
)
def test_titles_that_fit(wanted: Any, fits: bool) -> None:
    assert title_fits("Main 1", wanted) is fits


def test_waiting_for_the_window_of_a_program() -> None:
    guest = FakeGuest()

    def appear(_command: str) -> None:
        if len(guest.probes) == 3:
            guest.windows = [window("Main")]

    guest.on_probe = appear
    assert wait_for_window(guest, "Main", timeout=LONG).title == "Main"


def test_a_window_that_does_not_come_is_told_with_those_that_are_there() -> None:
    guest = FakeGuest([window("Error"), window("")])
    with pytest.raises(TimeoutError, match=r"'Main' did not appear within 0\.05 s; there were: 'Error'"):
        wait_for_window(guest, "Main", timeout=0.05)
    with pytest.raises(TimeoutError, match="no window"):
        wait_for_window(FakeGuest(), "Main", timeout=0.05)


@pytest.mark.parametrize("broken", [{"torn": 1_000}, {"lost": True}])
def test_windows_that_cannot_be_listed_are_not_none(broken: Mapping[str, Any]) -> None:
    with pytest.raises((Unreadable, GuestLost)):
        wait_for_window(FakeGuest(**broken), "Main", timeout=0.05)
