"""When the state counts as final, and that a snapshot is of one moment. Time is the tests' own: nothing depends on load."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from contracts.schema import Limits, Observable, Windows, WindowScope
from runner import capture
from runner.guests.base import GuestLost, Unreadable
from runner.guests.timed import Deadline, TimedGuest
from runner.stillness import Stillness, Taken, Watcher, at_one_moment, same, wait_until_quiet
from tests.peers.fake_guest import HEADER, FakeGuest, window
from tests.validators.dbf_files import F, Table
from validators.dbf import TableState
from validators.snapshot import Snapshot, UnreadableState


@dataclass
class Clock:
    """A clock that stands until somebody sleeps or a guest answers, and does what is planned when its time comes."""

    now: float = 1000.0
    began: float = 1000.0
    planned: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        until = self.now + seconds
        while self.planned and self.planned[0][0] <= until:
            self.now, _, act = heapq.heappop(self.planned)
            act()
        self.now = max(self.now, until)

    def at(self, seconds: float, act: Callable[[], None]) -> None:
        """Plans something for so many seconds after the beginning."""
        heapq.heappush(self.planned, (self.began + seconds, next(self._numbers), act))

    @property
    def passed(self) -> float:
        return self.now - self.began


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return with_clock(monkeypatch)


def with_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in ("runner.stillness", "runner.guests.timed", "runner.capture"):
        monkeypatch.setattr(f"{module}.time", made)
    return made


def rows(*numbers: int) -> bytes:
    return Table([F("NR", "C", 3)], [b"%03d" % number for number in numbers]).dbf()


def observing(**specs: Mapping[str, Any]) -> dict[str, Observable]:
    return TypeAdapter(dict[str, Observable]).validate_python(specs)


TABLES = observing(
    patients={"dbf": r"C:\D\PATIENT.DBF", "key": ["NR"]},
    counters={"dbf": r"C:\D\COUNTER.DBF", "key": ["NR"]},
)
DISK = observing(disk={"files": r"C:\D", "ignore": [{"path": "*.TMP", "because": "scratch"}]})
SCREEN: dict[str, Observable] = {"screen": Windows(windows=WindowScope())}
ALL = {**TABLES, **DISK, **SCREEN}


@pytest.fixture
def guest(clock: Clock) -> FakeGuest:
    return machine_of(clock)


def machine_of(clock: Clock) -> FakeGuest:
    """Each answer of it takes ten milliseconds."""
    fake = FakeGuest([window("Patients")])
    fake.put(r"C:\D\PATIENT.DBF", rows(1, 2))
    fake.put(r"C:\D\COUNTER.DBF", rows(2))
    fake.put(r"C:\D\SCRATCH.TMP", b"1")
    fake.on_probe = lambda _command: clock.sleep(0.01)
    fake.on_read = lambda _path: clock.sleep(0.01)
    return fake


def settle(guest: FakeGuest, observe: Mapping[str, Observable] = ALL, **about: float) -> Stillness:
    return wait_until_quiet(Watcher(guest, observe), **{"quiet": 3.0, "within": 15.0, **about})


def snapshot(
    guest: FakeGuest,
    clock: Clock,
    observe: Mapping[str, Observable] = ALL,
    *,
    until: float = 0.0,
    within: float = 120.0,
) -> Snapshot:
    watcher = Watcher(guest, observe)
    watcher.look(Deadline.after(10, "over"))
    machine: Any = SimpleNamespace(guest=guest)
    with at_one_moment(
        machine, "live", observe, watcher, at="after", earlier=None, until=clock.now + until, within=within
    ) as taken:
        assert isinstance(taken, Taken)
        return taken.snapshot


def table(state: object) -> bytes:
    assert isinstance(state, TableState), state
    assert state.dbf is not None
    return bytes(state.dbf)


# --- quiet ------------------------------------------------------------------------------------------------------------


def test_a_machine_at_rest_is_waited_for_as_long_as_it_must_be_quiet_and_not_longer(
    guest: FakeGuest, clock: Clock
) -> None:
    found = settle(guest)
    assert found.quiet
    assert found.last_change is None
    assert 3.0 <= clock.passed < 3.5


WRITES: dict[str, Callable[[FakeGuest], None]] = {
    "a row": lambda guest: guest.put(r"C:\D\PATIENT.DBF", rows(1, 2, 3)),
    "a field": lambda guest: guest.put(r"C:\D\PATIENT.DBF", rows(1, 3), keep_time=True),
    "a file": lambda guest: guest.put(r"C:\D\NEW.TXT", b"new"),
    "a window": lambda guest: guest.windows.append(window("Saved", hwnd=7)),
    "a title": lambda guest: guest.windows.__setitem__(0, window("Patients *")),
}


@pytest.mark.parametrize("delay", [0.05, 0.3, 1.0, 2.5])
@pytest.mark.parametrize("what", WRITES)
def test_what_is_written_later_is_waited_for_and_seen(guest: FakeGuest, clock: Clock, what: str, delay: float) -> None:
    clock.at(delay, lambda: WRITES[what](guest))
    found = settle(guest)
    assert found.quiet
    if found.last_change is not None:  # else it happened before the first look had answered, and is in it
        assert delay <= found.last_change < delay + 1
    assert clock.passed >= delay + 3.0 or found.last_change is None


@given(st.lists(st.floats(0.01, 2.9), max_size=4), st.sampled_from(sorted(WRITES)))
def test_after_the_quiet_nothing_is_left_that_came_within_the_quiet_time(delays: list[float], what: str) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        clock = with_clock(monkeypatch)
        guest = machine_of(clock)
        due = 0.0
        for number, delay in enumerate(delays):
            due += delay
            clock.at(due, lambda number=number: guest.put(r"C:\D\PATIENT.DBF", rows(1, 2, *range(10, 11 + number))))  # type: ignore[misc]
        found = settle(guest, within=60.0)
        assert found.quiet
        assert not clock.planned
        assert clock.passed >= due + (3.0 if found.last_change is not None else 0.0)


def test_several_writes_one_after_the_other_are_all_waited_for(guest: FakeGuest, clock: Clock) -> None:
    for number, moment in enumerate((1.0, 3.5, 6.0, 8.5)):
        clock.at(moment, lambda number=number: guest.put(rf"C:\D\{number}.TXT", b"x"))  # type: ignore[misc]
    found = settle(guest)
    assert found.quiet
    assert found.last_change is not None
    assert 8.5 <= found.last_change <= 9.0
    assert clock.passed >= 11.5


def test_a_program_that_never_rests_is_told_as_such_when_the_time_is_over(guest: FakeGuest, clock: Clock) -> None:
    for number in range(200):
        clock.at(number * 0.5, lambda number=number: guest.put(r"C:\D\BEAT.TXT", b"%d" % number))  # type: ignore[misc]
    found = settle(guest)
    assert not found.quiet
    assert 15.0 <= clock.passed < 16.0


IGNORED: dict[str, tuple[dict[str, Observable], Callable[[FakeGuest, int], None]]] = {
    "a file": (DISK, lambda guest, number: guest.put(r"C:\D\SCRATCH.TMP", b"%d" % number)),
    "a window": (
        observing(
            screen={
                "windows": {"ignore": [{"title": {"regex": "12:.*"}, "because": "a clock"}]},
            }
        ),
        lambda guest, number: setattr(guest, "windows", [window(f"12:{number}")]),
    ),
    "a file that a table owns": (
        {**TABLES, **observing(disk={"files": r"C:\D"})},
        lambda guest, number: guest.put(r"C:\D\PATIENT.NTX", b"%04d" % number),
    ),
    "a window that does not answer for a moment": (
        SCREEN,
        lambda guest, number: setattr(guest, "windows", [window("Patients", hung=bool(number % 2))]),
    ),
    "the date in a table's header": (
        TABLES,
        lambda guest, number: guest.put(
            r"C:\D\PATIENT.DBF", rows(1, 2)[:3] + bytes([1 + number % 28]) + rows(1, 2)[4:]
        ),
    ),
}


@pytest.mark.parametrize("what", IGNORED)
def test_what_the_contract_does_not_account_for_disturbs_no_quiet(guest: FakeGuest, clock: Clock, what: str) -> None:
    observe, act = IGNORED[what]
    guest.put(r"C:\D\PATIENT.NTX", b"0000")
    act(guest, 0)
    for number in range(1, 100):
        clock.at(number * 0.2, lambda number=number: act(guest, number))  # type: ignore[misc]
    found = settle(guest, observe)
    assert found.quiet
    assert clock.passed < 4.0


def test_what_cannot_be_read_is_no_quiet(guest: FakeGuest, clock: Clock) -> None:
    guest.header = replace(HEADER, session=0)  # the screen is not seen: it could change at any moment
    assert not settle(guest, within=5.0).quiet
    assert clock.passed >= 5.0


def test_a_torn_answer_begins_the_quiet_anew(guest: FakeGuest, clock: Clock) -> None:
    clock.at(2.0, lambda: setattr(guest, "torn", 1))
    found = settle(guest)
    assert found.quiet
    assert clock.passed >= 5.0


def test_without_a_time_to_be_quiet_two_looks_that_are_the_same_do(guest: FakeGuest, clock: Clock) -> None:
    assert settle(guest, quiet=0.0).quiet
    assert clock.passed < 0.5


def test_a_look_reads_no_contents_of_files(guest: FakeGuest) -> None:
    guest.put(r"C:\D\LARGE.TXT", b"x" * 1000)
    settle(guest)
    assert not any("LARGE" in path for path in guest.reads)


def test_looking_costs_a_slow_machine_at_most_half_of_its_time(guest: FakeGuest, clock: Clock) -> None:
    spent = 0.0

    def slow(_command: str) -> None:
        nonlocal spent
        spent += 0.5
        clock.sleep(0.5)

    guest.on_probe = slow
    settle(guest)
    assert spent <= 0.6 * clock.passed + 1.5


def test_waiting_is_bounded_although_the_guest_hangs(guest: FakeGuest, clock: Clock) -> None:
    def hang(*_argv: str, timeout: float = 30.0) -> Any:
        clock.sleep(timeout)
        raise Unreadable("no answer")

    guest.probe = hang  # type: ignore[method-assign]
    assert not settle(guest).quiet
    assert clock.passed <= 16.0


def test_a_lost_machine_is_lost(guest: FakeGuest) -> None:
    guest.lost = True
    with pytest.raises(GuestLost):
        settle(guest)


def test_the_time_to_settle_is_never_shorter_than_the_quiet_time() -> None:
    assert Limits().settle_within == 15.0
    assert Limits.model_validate({"quiet": "20s"}).settle_within == 20.0
    assert Limits.model_validate({"settle": "1s", "quiet": "500ms"}).settle_within == 1.0


# --- one moment -------------------------------------------------------------------------------------------------------


def write_both(guest: FakeGuest, number: int) -> None:
    """What a program stores as one: a row, and the counter that goes with it."""
    guest.put(r"C:\D\PATIENT.DBF", rows(*range(1, number + 1)))
    guest.put(r"C:\D\COUNTER.DBF", rows(number))


def test_a_write_between_the_reading_of_two_tables_makes_the_snapshot_be_taken_again(
    guest: FakeGuest, clock: Clock
) -> None:
    looked = False

    def write(path: str) -> None:
        nonlocal looked
        clock.sleep(0.01)
        # In between: the first table of the snapshot was read twice, the second not yet.
        if path.endswith("COUNTER.DBF") and guest.reads[r"C:\D\PATIENT.DBF"] >= 3 and not looked:
            looked = True
            write_both(guest, 3)

    guest.on_read = write
    taken = snapshot(guest, clock, TABLES)
    assert looked
    assert (table(taken["patients"]), table(taken["counters"])) == (rows(1, 2, 3), rows(3))


@given(st.lists(st.floats(0.0, 0.4), max_size=8), st.integers(0, 3))
def test_two_tables_of_different_moments_are_never_given(moments: list[float], extra: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        clock = with_clock(monkeypatch)
        guest = machine_of(clock)
        for number, moment in enumerate(sorted(moments), 3):
            clock.at(moment, lambda number=number: write_both(guest, number))  # type: ignore[misc]
        try:
            taken = snapshot(guest, clock, {**TABLES, **SCREEN}, until=0.1 * extra)
        except Unreadable:
            return
        count = len(table(taken["patients"])) - len(rows())
        assert table(taken["counters"]) == rows(count // 4)


def test_a_state_that_never_rests_is_unreadable_and_says_what_moved(guest: FakeGuest, clock: Clock) -> None:
    for number in range(1, 400):
        clock.at(number * 0.03, lambda number=number: guest.put(r"C:\D\COUNTER.DBF", rows(number % 999)))  # type: ignore[misc]
    with pytest.raises(Unreadable, match=r"counters: changed while it was read, in each of \d+ attempts"):
        snapshot(guest, clock, {**TABLES, **SCREEN})


def test_a_snapshot_is_tried_again_as_long_as_there_is_time_to_settle(guest: FakeGuest, clock: Clock) -> None:
    for number in range(3, 200):
        clock.at(number * 0.03, lambda number=number: write_both(guest, number))  # type: ignore[misc]
    taken = snapshot(guest, clock, TABLES, until=10.0)
    assert table(taken["counters"]) == rows(199)


def test_what_rests_but_for_what_is_no_change_is_of_one_moment(guest: FakeGuest, clock: Clock) -> None:
    """A file that is touched without end looks different at every look; its content, read whole, tells that it is not."""
    for number in range(400):
        clock.at(number * 0.05, lambda: guest.put(r"C:\D\TOUCHED.TXT", b"the same"))
    guest.put(r"C:\D\TOUCHED.TXT", b"the same")
    taken = snapshot(guest, clock)
    assert not any(isinstance(state, UnreadableState) for state in taken.values())


def test_what_stays_unreadable_is_given_as_such_with_its_reason(guest: FakeGuest, clock: Clock) -> None:
    guest.lock(r"C:\D\COUNTER.DBF")
    taken = snapshot(guest, clock, TABLES)
    assert isinstance(taken["counters"], UnreadableState)
    assert "COUNTER.DBF" in taken["counters"].reason
    assert isinstance(taken["patients"], TableState)


def test_what_is_unreadable_for_a_moment_is_read_a_moment_later(guest: FakeGuest, clock: Clock) -> None:
    guest.lock(r"C:\D\COUNTER.DBF")
    clock.at(1.0, lambda: guest.unlock(r"C:\D\COUNTER.DBF"))
    taken = snapshot(guest, clock, TABLES, until=10.0)
    assert table(taken["counters"]) == rows(2)


def test_all_observables_together_have_one_deadline(guest: FakeGuest, clock: Clock) -> None:
    """A guest that hangs costs the time of one snapshot, not that of every observable after the other."""
    watcher = Watcher(guest, ALL)
    watcher.look(Deadline.after(10, "over"))

    def hang(*_argv: Any, timeout: float = 30.0, **_: Any) -> Any:
        clock.sleep(timeout)
        raise Unreadable("no answer")

    guest.probe = hang  # type: ignore[method-assign]
    guest.read = hang  # type: ignore[method-assign]
    begun = clock.now
    machine: Any = SimpleNamespace(guest=guest)
    with at_one_moment(
        machine, "live", ALL, watcher, at="after", earlier=None, until=begun, within=40.0
    ) as taken:  # fmt: skip
        assert all(isinstance(state, UnreadableState) for state in taken.snapshot.values())
    assert clock.now - begun <= 41.0
    reasons = [state.reason for state in taken.snapshot.values() if isinstance(state, UnreadableState)]
    assert any("limits.snapshot" in reason for reason in reasons), (
        "what was not asked any more says why, and what to do"
    )


def test_a_deadline_bounds_every_call_to_what_is_left(guest: FakeGuest, clock: Clock) -> None:
    asked: list[float] = []
    answer = guest.probe

    def probe(*argv: str, timeout: float = 30.0) -> Any:
        asked.append(timeout)
        return answer(*argv, timeout=timeout)

    guest.probe = probe  # type: ignore[method-assign]
    timed = TimedGuest(guest, Deadline.after(5.0, "the time is over"))
    timed.probe("windows")
    clock.sleep(3.0)
    timed.probe("windows")
    clock.sleep(3.0)
    with pytest.raises(Unreadable, match="the time is over"):
        timed.probe("windows")
    assert asked[0] == pytest.approx(5.0)
    assert asked[1] == pytest.approx(1.99)


def test_looks_are_compared_as_runs_are(guest: FakeGuest) -> None:
    first = capture.take(guest, ALL, contents=False)
    again = capture.take(guest, ALL, contents=False)
    assert same(ALL, first, again)
    guest.put(r"C:\D\SCRATCH.TMP", b"22")
    assert same(ALL, first, capture.take(guest, ALL, contents=False))
    guest.put(r"C:\D\OTHER.TXT", b"2")
    assert not same(ALL, first, capture.take(guest, ALL, contents=False))
