"""A probe that is where no user is, or before a screen that is locked: windows are unreadable, and the message says what helps.

Wine has no session 0, so what such a probe says is written down here as Windows would have it said. That the way from one session
into the other works as such (a probe that starts another one as the user and passes its answer on) is shown under Wine by force.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

import pytest

from contracts.schema import Windows, WindowScope
from runner.capture import read_windows, take
from runner.guests.base import Unreadable
from runner.guests.qga import WINDOWS, QgaGuest
from runner.machines.wine import WineCheckpoint
from tests.peers.fake_agent import FakeAgent, refused, spoken
from tests.peers.guest_agent import channel_to, content_of, running_agent, wine_dialect
from tests.runner.test_probe_protocol import WINDOW
from validators.snapshot import UnreadableState
from validators.windows import WindowsState

SERVICE = {"session": 0, "winsta": "Service-0x0-3e7$", "desktop": "Default", "input_desktop": None, "user": "SYSTEM"}
NOBODY = "session 0: nobody is logged on at the console; have the machine log a user on by itself (autologon)"
SESSION = 0x20000006


def guest(**header: Any) -> QgaGuest:
    """A guest whose probe answers with windows from wherever the header says it is."""
    return QgaGuest(FakeAgent(lambda request: (0, spoken(request, WINDOW, **header))), WINDOWS)


@pytest.mark.parametrize(
    ("header", "remedy"),
    [
        (SERVICE, "autologon"),
        (SERVICE | {"screen": "service", "console_session": 1}, "LocalSystem"),
        ({"screen": "service", "session": 0}, "session 0 is that of services"),
        ({"screen": "locked", "input_desktop": None}, "the screen is locked"),
        ({"screen": "secure", "input_desktop": None}, "PromptOnSecureDesktop"),
        ({"screen": "locked_or_secure", "input_desktop": "Winlogon"}, "lock screen"),
        ({"screen": "screen_saver", "input_desktop": "Screen-saver"}, "screen saver"),
        ({"screen": "other", "input_desktop": "Kiosk"}, "'Kiosk'"),
        ({"screen": "something new"}, "see what is there"),
        ({"input_desktop": "Winlogon"}, "locked, or a secure desktop"),
        ({"desktop": None, "input_desktop": None}, "does not see the windows of the user"),
    ],
)
def test_windows_read_elsewhere_are_unreadable_with_the_remedy(header: dict[str, Any], remedy: str) -> None:
    with pytest.raises(Unreadable) as caught:
        read_windows(guest(**header))
    assert remedy in caught.value.reason
    state = take(guest(**header), {"screen": Windows(windows=WindowScope())})["screen"]
    assert isinstance(state, UnreadableState)


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"screen": "user", "console_session": 1},
        {"screen": "user", "session": 0},  # Windows XP, where the user has it
    ],
)
def test_windows_read_before_the_user_are_windows(header: dict[str, Any]) -> None:
    state = read_windows(guest(**header))
    assert isinstance(state, WindowsState)
    assert len(state.items) == 1


def test_without_anyone_logged_on_the_probe_says_what_to_do() -> None:
    fake = FakeAgent(lambda request: (1, refused(request, SESSION, NOBODY)))
    for act in (
        read_windows,
        lambda g: g.start(["a.exe"]),
        lambda g: g.run(["a.exe"], timeout=5),
        lambda g: g.probe("registry", "HKCU\\Software"),
        lambda g: g.read(PureWindowsPath(r"P:\DATA\PATIENT.DBF"), limit=10),  # on a drive of the user's
    ):
        with pytest.raises(Unreadable, match="autologon"):
            act(QgaGuest(fake, WINDOWS))
    assert len(fake.ran) == 5, "it was asked again, as if that would log somebody on"


# ---- the way into the other session ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, checkpoint: WineCheckpoint) -> Iterator[tuple[QgaGuest, Path]]:
    folder = tmp_path_factory.mktemp("guest")
    with wine_dialect(folder, checkpoint.prefix) as dialect, running_agent(folder) as socket:
        channel = channel_to(socket)
        yield QgaGuest(channel, dialect), Path(dialect.drive)
        channel.close()


@pytest.mark.machine
def test_the_answer_of_a_probe_started_as_the_user_is_passed_on(real: tuple[QgaGuest, Path]) -> None:
    guest, _ = real
    here = guest.probe("registry", "--in-session", "here", r"HKLM\Software\Microsoft\Windows")
    there = guest.probe("registry", "--in-session", "user", r"HKLM\Software\Microsoft\Windows")
    assert here.count > 100
    assert there.digest == here.digest
    assert there.header.pid != here.header.pid
    assert (there.header.screen, there.header.console_session) == ("user", 1)


@pytest.mark.machine
def test_a_large_answer_and_a_refusal_are_passed_on(real: tuple[QgaGuest, Path]) -> None:
    guest, drive = real
    assert guest.probe("registry", "--in-session", "user", r"HKLM\Software", timeout=120).count > 20_000
    assert sum(file.stat().st_size for file in (drive / "legacyproof").glob("answer-*")) > 1 << 20
    with pytest.raises(Unreadable, match="max-entries"):
        guest.probe("registry", "--in-session", "user", "--max-entries", "3", r"HKLM\Software")
    with pytest.raises(Unreadable, match="unknown option"):
        guest.probe("registry", "--in-session", "user", "--hash", r"HKLM\Software")
    with pytest.raises(Unreadable, match="here or user"):
        guest.probe("windows", "--in-session", "0")


@pytest.mark.machine
def test_programs_are_started_from_there_and_their_outcome_is_passed_on(real: tuple[QgaGuest, Path]) -> None:
    guest, drive = real
    run = [
        "run",
        "--token",
        "dort",
        "--in-session",
        "user",
        "--",
        "cmd",
        "/c",
        r"echo hier& echo x>>C:\dort.txt& exit 4",
    ]
    with guest._answering(60) as deadline:
        results = [guest._ask(run, deadline) for _ in range(2)]
        guest._ask(
            ["start", "--token", "los", "--in-session", "user", "--cwd", "C:\\", "--", "cmd", "/c", "echo x> los.txt"],
            deadline,
        )
    assert [(r.ran.status, r.stdout) for r in results if r.ran] == [(4, b"hier\r\n")] * 2
    assert (drive / "dort.txt").read_bytes() == b"x\r\n"
    assert content_of(drive / "los.txt") == b"x\r\n"
