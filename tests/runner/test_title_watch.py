"""The titles that are seen while an agent works: all of them, bounded, and never "none" for "could not look"."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from runner.guests.base import GuestLost, Unreadable
from runner.guests.probe import ProbeResult
from runner.title_watch import MAX_TITLE, MAX_TITLES, TitleWatch
from tests.peers.fake_guest import FakeGuest, window


def until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_windows_that_come_and_go_are_seen() -> None:
    guest = FakeGuest([window("Patients")])
    with TitleWatch(guest) as watch:
        until(lambda: bool(watch.titles))
        guest.windows[:] = [window("New patient")]
        until(lambda: "New patient" in (watch.titles or ()))
        guest.windows[:] = [window("At the end")]
    assert watch.titles == frozenset({"Patients", "New patient", "At the end"})


class _Refusing(FakeGuest):
    def __init__(self, error: Exception) -> None:
        super().__init__([window("Patients")])
        self.error = error
        self.asked = threading.Event()

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        self.asked.set()
        raise self.error


def test_what_cannot_be_listed_is_not_none() -> None:
    for error in (Unreadable("torn"), GuestLost("gone")):
        guest = _Refusing(error)
        with TitleWatch(guest) as watch:
            assert guest.asked.wait(20)
        assert watch.titles is None


def test_hostile_titles_are_bounded() -> None:
    guest = FakeGuest([window("x" * (MAX_TITLE + 1)), *(window(f"{number:06}") for number in range(MAX_TITLES + 50))])
    with TitleWatch(guest) as watch:
        until(lambda: bool(watch.titles))
    titles: Sequence[str] = sorted(watch.titles or ())
    assert len(titles) == MAX_TITLES
    assert max(map(len, titles)) <= MAX_TITLE


def test_a_watch_ends_with_its_block() -> None:
    before = threading.active_count()
    with TitleWatch(FakeGuest([window("Patients")])):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_what_the_agent_itself_has_listed_counts() -> None:
    watch = TitleWatch(FakeGuest())
    assert watch.titles is None
    there = (window("A short one"),)
    assert watch.noted(there) == there
    assert watch.titles == frozenset({"A short one"})
