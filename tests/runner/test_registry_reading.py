"""Reading the registry through the probe: what its answers become, and that a fault is never a shorter state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from mmap import mmap
from typing import Any, cast

import pytest

from contracts.schema import RegistryKey
from runner import capture
from runner.guests.base import Guest, GuestLost, Unreadable
from runner.guests.probe import FaultEntry, KeyEntry, ProbeResult, RegistryValue, RootEntry, SkippedKey
from runner.guests.registry import CHANGED, read_registry
from runner.states import keep_state, load_state
from tests.peers.fake_guest import HEADER
from validators.registry import KeyItem, RegistryState, ValueItem
from validators.snapshot import UnreadableState

ROOT = r"HKCU\Software\DSWin"


@dataclass
class Probe:
    """Answers ``registry`` with what it was given, the last answer again and again."""

    answers: Sequence[ProbeResult | Exception]
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def probe(self, *argv: str, timeout: float = 30.0) -> ProbeResult:
        self.asked.append(argv)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def guest(self) -> Guest:
        return cast(Guest, self)


def answer(**about: Any) -> ProbeResult:
    whole = {
        "roots": (RootEntry(0, ROOT, True, "key"),),
        "keys": (KeyEntry(0, ROOT, 5), KeyEntry(0, ROOT + r"\Window", 6, True)),
        "values": (RegistryValue(0, ROOT, "", 1, b"a\0\0\0"), RegistryValue(0, ROOT + r"\Window", "Left", 4, b"\1\0\0\0")),
        "skipped": (SkippedKey(0, ROOT + r"\Perflib", "perflib"),),
        "faults": (),
    }  # fmt: skip
    empty = ProbeResult(header=HEADER, count=0, digest="", elapsed_us=0, roots=(), files=(), windows=(), processes=(), keys=(), values=(), skipped=(), faults=(), data=b"")  # fmt: skip
    return replace(empty, **{**whole, **about})


def fault(key: str, op: str = "open", code: int = 5) -> FaultEntry:
    return FaultEntry(f"{ROOT}\\{key}" if key else ROOT, op, code, "denied", 0)


def spec(*ignore: str, view: int | None = None) -> RegistryKey:
    rules = [{"path": path, "because": "noise"} for path in ignore]
    return RegistryKey.model_validate({"registry": ROOT, "view": view, "ignore": rules})


def read(probe: Probe, wanted: RegistryKey | None = None, within: float = 0.0) -> RegistryState:
    return read_registry(probe.guest, wanted or spec(), within=within)


WHOLE = RegistryState(
    True,
    (KeyItem("", 5), KeyItem("Window", 6, True)),
    (ValueItem("", "", 1, b"a\0\0\0"), ValueItem("Window", "Left", 4, b"\1\0\0\0")),
    (("Perflib", "performance counters, made up at each reading"),),
)


def test_an_answer_becomes_a_state_relative_to_its_key() -> None:
    probe = Probe([answer()])
    assert read(probe) == WHOLE
    assert read(probe, spec(view=32)) == WHOLE
    assert probe.asked == [("registry", "--", ROOT), ("registry", "--view", "32", "--", ROOT)]


def test_a_missing_key_is_positively_missing() -> None:
    missing = answer(roots=(RootEntry(0, ROOT, False, None),), keys=(), values=(), skipped=())
    assert read(Probe([missing])) == RegistryState(exists=False)


@pytest.mark.parametrize(
    "broken",
    [
        answer(roots=()),
        answer(roots=(RootEntry(0, ROOT, None, None),)),
        answer(roots=(RootEntry(0, ROOT, False, None),)),
        answer(keys=()),
        answer(keys=(KeyEntry(0, r"HKCU\Software\Other", 5),)),
        answer(values=(RegistryValue(0, ROOT + "x", "", 1, b""),)),
        answer(faults=(fault(""),)),
        answer(faults=(fault("Window"),)),
        answer(faults=(fault("Window", "value"),)),
    ],
)
def test_what_is_not_whole_is_unreadable(broken: ProbeResult) -> None:
    with pytest.raises(Unreadable):
        read(Probe([broken]))


@pytest.mark.parametrize(
    ("where", "ignore", "readable"),
    [
        (fault("Secret"), r"Secret\**", True),
        (fault("Secret"), "**", True),
        (fault("Secret"), "Secret", False),  # the key alone: what is below it would be lost
        (fault("Secret"), r"Secret\*", False),
        (fault("Secret", "value"), r"Secret\@*", True),
        (fault("Secret", "enum"), r"Secret\@*", False),
        (fault(""), "**", False),  # nothing at all was read
    ],
)
def test_faults_count_unless_all_that_they_hide_is_ignored(where: FaultEntry, ignore: str, readable: bool) -> None:
    probe = Probe([answer(faults=(where,))])
    if readable:
        assert read(probe, spec(ignore)) == WHOLE
    else:
        with pytest.raises(Unreadable, match="denied"):
            read(probe, spec(ignore))


def test_a_key_that_changes_while_it_is_read_is_read_again() -> None:
    busy = answer(faults=(fault("Window", "query", CHANGED),))
    probe = Probe([busy, busy, answer()])
    assert read(probe, within=5.0) == WHOLE
    assert len(probe.asked) == 3
    with pytest.raises(Unreadable, match="denied"):
        read(Probe([busy]), within=0.1)
    lasting = Probe([answer(faults=(fault("Window", "query", CHANGED), fault("Other")))])
    with pytest.raises(Unreadable, match="Other"):
        read(lasting, within=5.0)
    assert len(lasting.asked) == 1


def test_snapshots_hold_the_registry_and_what_could_not_be_read() -> None:
    observe = {"settings": spec()}
    assert capture.take(Probe([answer()]).guest, observe) == {"settings": WHOLE}
    torn = capture.take(Probe([Unreadable("the answer is cut")]).guest, observe)
    assert torn == {"settings": UnreadableState("the answer is cut")}
    with pytest.raises(GuestLost):
        capture.take(Probe([GuestLost("gone")]).guest, observe)


@pytest.mark.parametrize(
    "state",
    [
        WHOLE,
        RegistryState(exists=False),
        RegistryState(
            True, (KeyItem("\ud800", 2**63, None),), (ValueItem("", "\udfff\\\n", 2**32 - 1, bytes(range(256))),)
        ),
    ],
)
def test_evidence_round_trip(state: RegistryState) -> None:
    blobs: dict[str, bytes] = {}

    def keep(data: bytes | mmap) -> str:
        name = str(len(blobs))
        blobs[name] = bytes(data)
        return name

    assert load_state(keep_state(state, keep), blobs.__getitem__) == state


def test_damaged_evidence_is_no_state() -> None:
    reading = keep_state(WHOLE, lambda _data: "x")
    for damaged in (
        b"[]",
        b"{}",
        b'{"keys":[],"values":[["","",1,"?"]],"skipped":[]}',
        b'{"keys":1,"values":[],"skipped":[]}',
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever is wrong
            load_state(reading, {"x": damaged}.__getitem__)
