"""What of the input is kept: movements are joined, each sort is bounded by itself, and what is not kept is counted and told."""

from __future__ import annotations

import errno
import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.display import inputlog
from runner.display.events import InputEvent, typed_text
from runner.display.inputlog import InputLog
from runner.display.keeping import BOUNDS, MERGED_SECONDS, Bounds, Moves, Sort
from runner.display.keysyms import keysym_name
from runner.display.recorder import FlightRecorder
from runner.display.redaction import Redactor
from runner.recording import recording_of
from runner.store import Campaign

TINY: dict[Sort, int] = {"key": 6, "button": 4, "move": 3, "clipboard": 2, "connection": 2}


def key(t: float, character: str, down: bool = True) -> InputEvent:
    return InputEvent(t, "key", 1, down=down, keysym=ord(character), name=keysym_name(ord(character)))


def pointer(t: float, x: int, buttons: int = 0, client: int = 1) -> InputEvent:
    return InputEvent(t, "pointer", client, x=x, y=0, buttons=buttons)


EVENTS = st.one_of(
    st.tuples(st.just("key"), st.sampled_from("ab"), st.booleans()),
    st.tuples(st.just("pointer"), st.integers(0, 9), st.sampled_from([0, 0, 0, 1, 8]), st.integers(1, 2)),
    st.tuples(st.sampled_from(["clipboard", "connected", "cut", "upstream_lost"])),
)


@st.composite
def streams(draw: st.DrawFn) -> list[InputEvent]:
    """Events in the order of their time."""
    t, events = 0.0, []
    for kind, *about in draw(st.lists(EVENTS, max_size=60)):
        t += draw(st.sampled_from([0.001, 0.01, MERGED_SECONDS / 2, 3 * MERGED_SECONDS]))
        match kind:
            case "key":
                events.append(key(t, *about))
            case "pointer":
                events.append(pointer(t, *about))
            case _:
                events.append(InputEvent(t, kind, 1))  # type: ignore[arg-type]
    return events


def joined(events: list[InputEvent]) -> list[InputEvent]:
    moves = Moves()
    return [out for event in events for out in moves.take(event)] + moves.flush()


def without_moves(events: list[InputEvent]) -> list[InputEvent]:
    """What must stay as it is: everything but pointers whose buttons stay as they were."""
    held: dict[int, int] = {}
    kept = []
    for event in events:
        if event.kind != "pointer" or event.buttons != held.get(event.client, 0):
            kept.append(event)
        if event.kind == "pointer":
            held[event.client] = event.buttons or 0
    return kept


@given(streams())
def test_joining_moves_loses_no_count_no_order_and_nothing_else(events: list[InputEvent]) -> None:
    out = joined(events)
    assert without_moves(out) == without_moves(events)
    assert sum(event.moves or 1 for event in out) == len(events)
    assert [event.t for event in out] == sorted(event.t for event in out)
    assert typed_text(out) == typed_text(events)
    for before, after in itertools.pairwise(out):
        if before.moves and after.moves:
            assert after.t - before.t > 0, "what was joined spans a time of its own"


@given(streams())
def test_the_pointer_is_where_it_was_whenever_something_else_happens(events: list[InputEvent]) -> None:
    def places(stream: list[InputEvent]) -> list[tuple[InputEvent, int | None]]:
        at: dict[int, int | None] = {}
        told = []
        others = without_moves(stream)
        for event in stream:
            if event.kind == "pointer":
                at[event.client] = event.x
            if event in others:
                told.append((event, at.get(event.client)))
        return told

    assert places(joined(events)) == places(events)


def test_a_long_way_keeps_places_of_each_moment() -> None:
    out = joined([pointer(n / 1000, n) for n in range(2000)])
    assert 2.0 / MERGED_SECONDS <= len(out) <= 2.0 / MERGED_SECONDS + 2
    assert sum(event.moves or 1 for event in out) == 2000
    assert all(b.t - a.t <= 2 * MERGED_SECONDS for a, b in itertools.pairwise(out))


def test_a_movement_that_nothing_follows_is_kept_in_time() -> None:
    moves = Moves()
    assert moves.take(pointer(1.0, 1)) == []
    assert moves.due(1.0 + MERGED_SECONDS / 2) == []
    assert moves.due(1.0 + 2 * MERGED_SECONDS) == [pointer(1.0, 1)]
    assert moves.due(9.0) == moves.flush() == []


@given(streams())
def test_no_sort_takes_anothers_place(events: list[InputEvent]) -> None:
    bounds = Bounds(TINY)
    out = [kept for event in events for kept in bounds.take(event)]
    marks = [event for event in out if event.kind == "log_full"]
    assert len({mark.reason for mark in marks}) == len(marks), "each sort's end is marked once"
    kept = [event for event in out if event.kind != "log_full"]
    for kind, bound in (("key", 6), ("clipboard", 2), ("connected", 2), ("cut", 99), ("upstream_lost", 99)):
        assert [e for e in kept if e.kind == kind] == [e for e in events if e.kind == kind][:bound]
    buttons = [event for event in without_moves(events) if event.kind == "pointer"]
    assert [event for event in kept if event in buttons][:4] == buttons[:4]
    assert bool(marks) == (len(kept) < len(events))


# --- the log ----------------------------------------------------------------------------------------------------------------


class Bench:
    """A log with a clock of its own."""

    def __init__(self, path: Path, *secrets: str) -> None:
        self.path = path
        self.now = 0.0
        self.log = InputLog(path, {}, Redactor(secrets), lambda: self.now)

    def feed(self, events: list[InputEvent]) -> None:
        for event in events:
            self.log.record(event)
        self.now = events[-1].t if events else self.now

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "input.jsonl")
    yield made
    made.log.close()


def typing(text: str, since: float = 0.0) -> list[InputEvent]:
    return [key(since + n / 1000, character, down) for n, character in enumerate(text) for down in (True, False)]


def told(events: list[InputEvent]) -> str:
    return "".join(text for _, _, text in typed_text(events))


def test_a_flood_of_movements_leaves_keys_and_clicks_as_they_are(bench: Bench) -> None:
    """More than all that used to be kept together."""
    flood = [pointer(n / 10_000, n % 1000) for n in range(120_000)]
    clicks = [pointer(12.5 + n / 10, 5, buttons) for n, buttons in enumerate([1, 0] * 3)]
    bench.feed([*flood, *clicks, *typing("Muster", since=14.0)])
    bench.log.flush()
    recorded = bench.log.recorded()
    assert told(recorded.events) == "Muster"
    assert (recorded.keys, recorded.pointer, recorded.not_kept) == (6, 120_006, {})
    assert len(recorded.events) < 120


@pytest.mark.parametrize("secret", ["", "hunter2"])
def test_what_is_beyond_the_bound_is_counted_marked_and_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setattr(inputlog, "Bounds", lambda: Bounds(TINY))
    bench = Bench(tmp_path / "input.jsonl", secret)
    moves = [pointer(1 + n, n) for n in range(5)]
    bench.feed([*typing("abcdef"), *moves, InputEvent(7.0, "clipboard", 1, text="x"), InputEvent(8.0, "cut")])
    bench.log.flush()
    recorded = bench.log.recorded()
    assert (recorded.keys, recorded.pointer) == (6, 5)
    assert recorded.not_kept == {"key": 6, "pointer": 2}
    assert told(recorded.events) == "abc"
    bench.log.close()
    start, *events, end = bench.lines()
    assert start["record"] == "start"
    assert [event["reason"] for event in events if event["kind"] == "log_full"] == [
        "from here on, keys are counted but not kept", "from here on, movements of the pointer are counted but not kept",
    ]  # fmt: skip
    assert events[-1]["kind"] == "cut"
    assert (end["dropped"], end["not_kept"]) == (8, {"key": 6, "pointer": 2})


def test_movements_do_not_drive_a_secret_out_of_what_is_held_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "input.jsonl", "hunter2")
    begun, rest = typing("hunte", since=0.1), typing("r2", since=1.0)
    bench.feed([*begun, *(pointer(0.2 + n / 100_000, n % 1000) for n in range(30_000)), *rest])
    bench.log.close()
    assert told(bench.log.events) == "•" * 7


def full_disk(*_: object) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


class Unwritable:
    """A file on a disk that has become full."""

    write = flush = full_disk

    def fileno(self) -> int:
        return int(full_disk())

    def close(self) -> None:
        full_disk()


def test_a_log_that_cannot_be_written_is_told_and_counts_stay_right(bench: Bench) -> None:
    bench.feed(typing("before"))
    bench.log.flush()
    file, bench.log._file = bench.log._file, Unwritable()  # type: ignore[assignment]
    bench.feed(typing("after", since=5.0))
    bench.log.close()
    file.close()
    recorded = bench.log.recorded()
    assert bench.log.error == "the input log cannot be written: [Errno 28] No space left on device"
    assert (recorded.keys, told(recorded.events), recorded.not_kept) == (11, "beforeafter", {})


def test_a_log_whose_disk_hangs_is_told_and_what_it_has_not_taken_is_not_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputlog, "_FLUSH_SECONDS", 0.05)
    hangs, goes_on = threading.Event(), threading.Event()

    def write(lines: list[str]) -> None:
        if lines:
            hangs.set()
            goes_on.wait(20)

    monkeypatch.setattr(bench.log, "_write", write)
    bench.feed(typing("a"))
    assert hangs.wait(20)
    bench.feed(typing("bc", since=1.0))
    bench.log.flush()
    recorded = bench.log.recorded()
    assert (recorded.keys, recorded.not_kept) == (3, {"key": 6 - len(recorded.events)})
    assert len(recorded.events) < 6
    assert bench.log.error == "the input log was not written within 0.05 s"
    goes_on.set()


def test_the_bounds_are_those_that_the_record_tells_of() -> None:
    assert set(BOUNDS) == set(TINY)
    assert min(BOUNDS.values()) >= 1_000


# --- the record ---------------------------------------------------------------------------------------------------------------


class Stopped:
    """A recorder that has stopped, with a log of its own."""

    def __init__(self, log: InputLog) -> None:
        self._log = log
        self.recorded = log.recorded

    @property
    def log_error(self) -> str | None:
        return self._log.error

    def frames(self) -> list[object]:
        return []


def kept(bench: Bench, campaign: Campaign, *, recorder: object | None = None) -> Any:
    bench.log.close()
    stopped: FlightRecorder = recorder or Stopped(bench.log)  # type: ignore[assignment]
    return recording_of(stopped, bench.path, campaign)


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    return Campaign.create(tmp_path, "runs")


def test_the_record_says_what_is_not_kept(tmp_path: Path, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputlog, "Bounds", lambda: Bounds(TINY))
    bench = Bench(tmp_path / "input.jsonl")
    bench.feed(typing("abcdef"))
    recording = kept(bench, campaign)
    assert (recording.keys, recording.not_kept, recording.typed_is_whole) == (6, {"key": 6}, False)
    assert (recording.fault, [piece.text for piece in recording.typed]) == ("", ["abc"])


def test_the_record_says_that_the_log_could_not_be_written(bench: Bench, campaign: Campaign) -> None:
    bench.feed(typing("Muster"))
    bench.log.error = "the input log cannot be written: [Errno 28] No space left on device"
    recording = kept(bench, campaign)
    assert (recording.keys, recording.typed_is_whole, recording.fault) == (6, True, bench.log.error)
    assert [piece.text for piece in recording.typed] == ["Muster"]


def test_a_log_that_cannot_be_kept_ends_no_run(
    bench: Bench, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Campaign, "keep", full_disk)
    bench.feed(typing("Muster"))
    recording = kept(bench, campaign)
    assert (recording.events, recording.keys) == (None, 6)
    assert recording.fault == "the input log cannot be kept: No space left on device"
