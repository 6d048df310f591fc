"""A guest whose programs end with status 0 and say nothing, as stubs do: never "there is nothing", always unreadable."""

from __future__ import annotations

from pathlib import PureWindowsPath

import pytest

from contracts.schema import DbfTable, FileTree, Observable, RegistryKey, Windows, WindowScope
from runner.capture import take
from runner.guests.base import Unreadable
from runner.guests.dialects import WineDialect
from runner.guests.qga import WINDOWS, Dialect, QgaGuest
from tests.peers.fake_agent import FakeAgent
from validators.snapshot import UnreadableState

WINE = WineDialect()
EVERYTHING: dict[str, Observable] = {
    "table": DbfTable(dbf=r"C:\D\T.DBF", key=["NR"], encoding="cp850"),
    "tree": FileTree(files=r"C:\D"),
    "screen": Windows(windows=WindowScope()),
    "settings": RegistryKey(registry=r"HKCU\Software\X"),
}


def silent() -> FakeAgent:
    """Every program of the guest ends well and writes nothing."""
    return FakeAgent(probe=lambda request: (0, b""), other=lambda path, arguments: (0, b""))


@pytest.mark.parametrize("dialect", [WINDOWS, WINE], ids=["windows", "wine"])
def test_nothing_said_is_nothing_read(dialect: Dialect) -> None:
    states = take(QgaGuest(silent(), dialect), EVERYTHING)
    assert {name: type(state) for name, state in states.items()} == dict.fromkeys(EVERYTHING, UnreadableState)


def test_it_is_asked_a_few_times_and_no_more() -> None:
    fake = silent()
    with pytest.raises(Unreadable, match="no end mark"):
        QgaGuest(fake, WINDOWS).probe("version")
    assert len(fake.ran) == 3


def test_silence_is_no_proof_that_a_file_is_missing() -> None:
    with pytest.raises(Unreadable, match="no end mark"):
        QgaGuest(silent(), WINE).read(PureWindowsPath(r"C:\D\T.DBF"), limit=10)


def test_a_program_that_ran_or_not_is_not_taken_to_have_run() -> None:
    guest = QgaGuest(silent(), WINDOWS)
    with pytest.raises(Unreadable):
        guest.run(["a.exe"], timeout=5)
    with pytest.raises(Unreadable):
        guest.start(["a.exe"])
    with pytest.raises(Unreadable):
        guest.write(PureWindowsPath(r"C:\D\T.DBF"), b"x")
