"""The film strip: when a picture is taken, and which are kept."""

from __future__ import annotations

import functools
import io
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from runner.display.frames import Frame, FrameSettings, FrameStore, changed_pixels
from runner.display.recorder import FlightRecorder
from runner.display.rfb import DisplayAddress
from tests.peers.rfb_server import FakeRfbServer, wait_until
from tests.runner.display_helpers import tigervnc

SIZE = (200, 100)
BLUE = (37, 111, 149)
WHITE = (255, 255, 255)


@pytest.fixture
def server() -> Iterator[FakeRfbServer]:
    with FakeRfbServer(size=SIZE) as server:
        yield server


@pytest.fixture
def recorder(server: FakeRfbServer, tmp_path: Path) -> Iterator[FlightRecorder]:
    upstream = DisplayAddress("127.0.0.1", server.port)
    settings = FrameSettings(interval=0.01, max_frames=6)
    with FlightRecorder(upstream, log_path=tmp_path / "input.jsonl", password="p", frames=settings) as recorder:
        recorder.start()
        wait_until(recorder.frames)
        yield recorder


def screen(*boxes: tuple[int, int, int, int], size: tuple[int, int] = SIZE) -> Image.Image:
    image = Image.new("RGB", size, BLUE)
    for box in boxes:
        image.paste((255, 255, 255), box)
    return image


def wait_for_pixel(recorder: FlightRecorder, place: tuple[int, int], colour: tuple[int, int, int]) -> None:
    wait_until(lambda: recorder.screenshot().getpixel(place) == colour)


def is_newer(recorder: FlightRecorder, t: float) -> bool:
    return recorder.frames()[-1].t > t


def pictures(recorder: FlightRecorder) -> list[Image.Image]:
    return [Image.open(io.BytesIO(frame.png)).convert("RGB") for frame in recorder.frames()]


def test_a_caret_takes_no_picture_but_text_does(server: FakeRfbServer, recorder: FlightRecorder) -> None:
    caret = (10, 10, 12, 30)
    for number in range(6):
        server.draw(screen(caret) if number % 2 else screen())
        wait_for_pixel(recorder, (10, 10), WHITE if number % 2 else BLUE)
    wait_until(lambda: len(recorder.frames()) == 2)  # the black first one, the blue one
    server.draw(screen(caret, (20, 10, 26, 30)))
    wait_until(lambda: len(recorder.frames()) == 3)
    assert [frame.reason for frame in recorder.frames()] == ["first", "changed", "changed"]
    assert pictures(recorder)[2].tobytes() == screen(caret, (20, 10, 26, 30)).tobytes()


def test_small_changes_add_up(server: FakeRfbServer, recorder: FlightRecorder) -> None:
    server.draw(screen())
    wait_until(lambda: len(recorder.frames()) == 2)
    boxes = []
    for number in range(4):
        boxes.append((number * 10, 0, number * 10 + 4, 5))  # 20 pixels each
        server.draw(screen(*boxes))
        wait_for_pixel(recorder, (number * 10, 0), WHITE)
    wait_until(lambda: len(recorder.frames()) == 3)


def test_another_size_is_a_picture(server: FakeRfbServer, recorder: FlightRecorder) -> None:
    server.draw(screen(size=(300, 150)))
    wait_until(lambda: [frame.reason for frame in recorder.frames()] == ["first", "resized"])
    assert recorder.screenshot().size == (300, 150)


def test_the_cut_and_the_end_have_their_pictures(server: FakeRfbServer, recorder: FlightRecorder) -> None:
    server.draw(screen())
    wait_until(lambda: len(recorder.frames()) == 2)
    server.draw(screen((0, 0, 2, 2)))  # too little for a picture of its own
    wait_for_pixel(recorder, (0, 0), WHITE)
    recorder.cut()
    wait_until(lambda: recorder.frames()[-1].reason == "cut")
    server.draw(screen((0, 0, 3, 2)))
    recorder.stop()
    assert [frame.reason for frame in recorder.frames()] == ["first", "changed", "cut", "last"]
    times = [frame.t for frame in recorder.frames()]
    assert times == sorted(times)


def test_their_number_is_bounded(server: FakeRfbServer, recorder: FlightRecorder) -> None:
    for number in range(12):
        before = recorder.frames()[-1].t
        server.draw(screen((0, 0, 50 + 2 * number, 50)))
        wait_until(functools.partial(is_newer, recorder, before))
    assert len(recorder.frames()) == 6
    assert recorder.frames()[0].reason == "first"
    assert pictures(recorder)[-1].getpixel((70, 10)) == (255, 255, 255)


@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=60),
    max_frames=st.integers(2, 10),
    max_bytes=st.integers(0, 1000),
    gaps=st.lists(st.floats(0.01, 10), min_size=60, max_size=60),
)
def test_any_strip_is_bounded_and_keeps_its_ends(
    sizes: list[int], max_frames: int, max_bytes: int, gaps: list[float]
) -> None:
    store, t = FrameStore(FrameSettings(max_frames=max_frames, max_bytes=max_bytes)), 0.0
    added = []
    for size, gap in zip(sizes, gaps, strict=False):
        t += gap
        added.append(Frame(t, bytes(size), "changed"))
        store.add(added[-1])
        kept = store.all()
        assert (kept[0], kept[-1]) == (added[0], added[-1])
        assert len(kept) <= max_frames
        assert sum(len(frame.png) for frame in kept) <= max_bytes or len(kept) <= 2
        assert [frame for frame in added if frame in kept] == kept


def test_thinning_is_even_in_time_and_spares_the_cut() -> None:
    store = FrameStore(FrameSettings(max_frames=10))
    for number in range(1000):
        store.add(Frame(number, b"x", "cut" if number == 17 else "changed"))
    times = [frame.t for frame in store.all()]
    assert 17 in times
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert max(gaps) <= 300


def test_changed_pixels() -> None:
    assert changed_pixels(screen(), screen()) == 0
    assert changed_pixels(screen(), screen((5, 5, 10, 10))) == 25
    assert changed_pixels(screen(), screen((5, 5, 10, 10)), (0, 0, 7, 100)) == 10
    almost = screen()
    almost.putpixel((0, 0), (BLUE[0], BLUE[1], BLUE[2] + 1))
    assert changed_pixels(screen(), almost) == 1


def test_pictures_of_a_real_screen(tmp_path: Path) -> None:
    with tigervnc(tmp_path, "pw") as (upstream, _):
        with FlightRecorder(upstream, log_path=tmp_path / "input.jsonl", password="p") as recorder:
            recorder.start()
            wait_until(recorder.frames)
        first = Image.open(io.BytesIO(recorder.frames()[0].png))
        assert (first.size, first.format) == ((1024, 768), "PNG")
