"""Checks of a guest: it sees the user's own desktop, clock and registry."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runner.conformance.checks import Collection, NotApplicable, expect, expect_raised
from runner.conformance.clock import MAX_OFFSET, now, offset, utc_offset
from runner.conformance.props import end, notepad, open_notepad, seen, system, until
from runner.conformance.scene import REGISTRY_KEY, Scene
from runner.guests.base import Unreadable

GUEST_DESKTOP = Collection()
_check = GUEST_DESKTOP.check
_TOLERANCE = 0.75
"""Seconds by which two clocks may differ over a short time on a busy host."""


@_check(
    "probe-session",
    proves="The probe runs in the user's session, on the desktop that has mouse and keyboard.",
    means="Windows would be read from a service's session, where none of the user's are, or behind a lock screen.",
    remedy="Let the probe start itself in the active console session; keep the user logged on and the screen unlocked.",
)
def _probe_session(scene: Scene) -> None:
    header = scene.guest.probe("version").header
    expect(header.session is not None, "the probe does not know its session")
    expect(header.blindness is None, str(header.blindness))


@_check(
    "probe-header",
    proves="The probe says which system and which code pages it found, and who is logged on.",
    means="Texts of old programs could not be decoded.",
    remedy="Use the native probe as it is.",
)
def _probe_header(scene: Scene) -> None:
    header = scene.guest.probe("version").header
    expect(header.os.count(".") == 2, f"the system's version is {header.os!r}")
    expect(header.codepage_ansi > 0 and header.codepage_oem > 0, "the code pages are not known")
    expect(header.user and header.computer, "user or computer have no name")


@_check(
    "probe-wrong-request",
    proves="A request that the probe does not know is Unreadable, and the next one is answered.",
    means="A mistake would be taken for an empty answer, or break the channel.",
    remedy="Check the status in the answer's end.",
)
def _probe_wrong_request(scene: Scene) -> None:
    for request in (("no-such-command",), ("files", "--no-such-option", "C:\\")):
        expect_raised(Unreadable, lambda r=request: scene.guest.probe(*r), f"`{' '.join(request)}`")  # type: ignore[misc]
    expect(scene.guest.probe("version").header.command == "version", "the next request is not answered")


@_check(
    "start-window",
    proves="A program that is started shows its window on the user's desktop, and its process is in the user's session.",
    means="The agent would not see the program that it is to operate.",
    remedy="Start programs in the active console session, not in the service's own.",
)
def _start_window(scene: Scene) -> None:
    header = scene.guest.probe("version").header
    with notepad(scene.guest, scene.folder("start-window") / "fenster.txt") as window:
        expect((window.exe or "").casefold() == "notepad.exe", f"the window belongs to {window.exe}")
        process = next((p for p in scene.guest.probe("processes").processes if p.pid == window.pid), None)
        expect(process is not None, "the window's process is not among the processes")
        expect(
            process is not None and process.session == header.session,
            f"it runs in session {process.session if process else None}, the user's is {header.session}",
        )


@_check(
    "windows-titles",
    proves="Titles with umlauts and other letters are listed as they are.",
    means="Windows that a contract names would not be found.",
    remedy="Carry titles in UTF-8 or UTF-16; use no ANSI function.",
)
def _windows_titles(scene: Scene) -> None:
    with notepad(scene.guest, scene.folder("windows-titles") / "Größe Übung äöü ñ.txt") as window:
        expect("Größe Übung äöü ñ" in window.title, f"listed as {window.title!r}")


@_check(
    "windows-controls",
    proves="The controls of a window are listed with their places, within the window.",
    means="Dialogs could not be told apart, and scripts could not find a button.",
    remedy="Pass the probe's answer on whole.",
)
def _windows_controls(scene: Scene) -> None:
    with notepad(scene.guest, scene.folder("windows-controls") / "felder.txt") as window:
        found = next(w for w in scene.guest.probe("windows", "--children").windows if w.hwnd == window.hwnd)
        shown = [control for control in found.controls if control.visible]
        expect(shown, "an editor's window without any control")
        left, top, right, bottom = found.rect
        inside = [
            c for c in shown if left <= c.rect[0] <= c.rect[2] <= right and top <= c.rect[1] <= c.rect[3] <= bottom
        ]
        expect(inside, f"no control lies within its window {found.rect}")


@_check(
    "windows-closed",
    proves="A window whose program has ended is no longer listed, nor is its process.",
    means="Windows would be reported as left open that are not.",
    remedy="List what is there at the moment of asking; keep nothing.",
)
def _windows_closed(scene: Scene) -> None:
    window = open_notepad(scene.guest, scene.folder("windows-closed") / "zu.txt")
    end(scene.guest, window.pid)
    until(lambda: seen(scene.guest, window) is None, "it is still listed")
    until(
        lambda: all(process.pid != window.pid for process in scene.guest.probe("processes").processes),
        "its process is still listed",
    )


@_check(
    "registry-values",
    proves="A value that a program writes is read back with its text, umlauts included.",
    means="Settings could not be observed.",
    remedy="Read the registry in the user's session, so that HKCU is the user's own.",
)
def _registry_values(scene: Scene) -> None:
    key = rf"{REGISTRY_KEY}\Werte"
    done = scene.guest.run([system("reg.exe"), "add", key, "/v", "Größe", "/d", "fünf Äpfel", "/f"], timeout=60)
    expect(done.status == 0, f"reg.exe ended with {done.status}")
    # A program run as another user than the one logged on writes to another HKCU.
    header = scene.guest.probe("version").header
    values = {value.name: value.data for value in scene.guest.probe("registry", key).values}
    expect("Größe" in values, f"the value is not in the registry of {header.user}")
    expect(values["Größe"].decode("utf-16-le").rstrip("\0") == "fünf Äpfel", f"it holds {values['Größe']!r}")


@_check(
    "registry-missing",
    proves="A key that is not there is listed as not there.",
    means="A missing key would be an empty one, or make the whole reading fail.",
    remedy="Pass the probe's answer on whole.",
)
def _registry_missing(scene: Scene) -> None:
    answer = scene.guest.probe("registry", r"HKCU\Software\No such key", r"HKLM\Software\No such key")
    expect([root.exists for root in answer.roots] == [False, False], f"{[root.exists for root in answer.roots]}")


@_check(
    "clock-offset",
    proves="The guest's clock is within five seconds of the host's.",
    means="Dates that a program writes would be wrong, and rules such as `date: today` would fail good runs.",
    remedy="Set the clock when a clone starts; switch off whatever sets it to another time.",
)
def _clock_offset(scene: Scene) -> None:
    off = offset(scene.guest)
    expect(abs(off) <= MAX_OFFSET, f"it is {off:.1f} s off")


@_check(
    "clock-advances",
    proves="The guest's clock goes as fast as the host's.",
    means="Times of a long run would drift away from the recorder's.",
    remedy="Give the machine a clock source that keeps time under load.",
)
def _clock_advances(scene: Scene) -> None:
    outer = time.monotonic()
    first = now(scene.guest)
    inner = time.monotonic()
    time.sleep(1.5)
    inner = time.monotonic() - inner
    second = now(scene.guest)
    outer = time.monotonic() - outer
    # The readings lie somewhere within the two bounds.
    went = second - first
    expect(
        inner - _TOLERANCE <= went <= outer + _TOLERANCE,
        f"{went:.2f} s went by in the guest, between {inner:.2f} and {outer:.2f} s outside",
    )


@_check(
    "clock-zone",
    proves="The guest's time zone is the one that the image's manifest names.",
    means="Local times in tables would be taken for other moments, and `today` would be another day near midnight.",
    remedy="Set the zone in the image, or correct the manifest.",
)
def _clock_zone(scene: Scene) -> None:
    name = scene.image.manifest.timezone
    try:
        wanted = datetime.now(UTC).astimezone(ZoneInfo(name)).utcoffset()
    except (ZoneInfoNotFoundError, ValueError):
        raise NotApplicable(f"this host does not know the time zone {name}") from None
    got = utc_offset(scene.guest)
    expect(wanted is not None and wanted.total_seconds() == got, f"{name} is {wanted} from UTC, the guest is {got} s")
