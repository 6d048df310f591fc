"""Checks of a machine's display: the picture is whole, and keys and pointer reach the programs."""

from __future__ import annotations

from PIL import ImageChops

from runner.conformance.checks import Collection, Failed, expect, expect_raised
from runner.conformance.props import focus, notepad, seen, type_and_save, until
from runner.conformance.scene import Scene
from runner.display.rfb import Box, DisplayAddress, DisplayAuthError, RfbClient
from runner.guests.probe import WindowEntry

DISPLAY = Collection()
_check = DISPLAY.check
_TITLE_BAR = 12
"""Pixels from a window's upper edge to where its title bar can be taken hold of."""


def _connect(scene: Scene) -> RfbClient:
    return RfbClient.connect(scene.machine.display)


@_check(
    "display-size",
    proves="The screen has the size that the image's manifest says.",
    means="Agents that scale their pictures would click beside what they mean.",
    remedy="Set the guest's resolution in the image, or correct the manifest.",
)
def _size(scene: Scene) -> None:
    wanted = scene.image.manifest.display
    with _connect(scene) as screen:
        expect(screen.size == (wanted.width, wanted.height), f"it is {screen.size[0]} x {screen.size[1]}")


@_check(
    "display-frame",
    proves="A new connection gets a whole picture, and it is not blank.",
    means="The agent would be blind; a screen that sleeps or was not painted after a restore looks the same.",
    remedy="Switch the guest's screen saver and power saving off; have the screen painted before a clone is handed out.",
)
def _frame(scene: Scene) -> None:
    with _connect(scene) as screen:
        colours = screen.screenshot(timeout=30).getcolors(maxcolors=1 << 24) or ()
    expect(len(colours) > 1, "every pixel has the same colour")


@_check(
    "display-password",
    proves="A wrong password is refused, and so is none.",
    means="Any program on the host or network could operate the machine during a run.",
    remedy="Give the display a random password, and allow no other way of authentication.",
)
def _password(scene: Scene) -> None:
    address = scene.machine.display
    for password in ("wrong", None):
        guess = DisplayAddress(address.host, address.port, password)
        what = "a wrong password" if password else "no password"
        expect_raised(DisplayAuthError, lambda guess=guess: RfbClient.connect(guess).close(), what)  # type: ignore[misc]


@_check(
    "display-viewers",
    proves="Two connections can look at once, and neither ends the other.",
    means="The flight recorder keeps its pictures by a connection of its own beside the agent's.",
    remedy="Let the server share its screen.",
)
def _viewers(scene: Scene) -> None:
    with _connect(scene) as one, _connect(scene) as two:
        one.screenshot(timeout=30)
        two.screenshot(timeout=30)
        one.screenshot(timeout=30)


@_check(
    "display-reconnect",
    proves="Connections can come and go without end.",
    means="Agents that connect anew for every action would lose the display.",
    remedy="Let the server neither count failed connections nor limit new ones.",
)
def _reconnect(scene: Scene) -> None:
    for _ in range(10):
        _connect(scene).close()
    with _connect(scene) as screen:
        screen.screenshot(timeout=30)


@_check(
    "display-updates",
    proves="What a program draws arrives at a connection that waits for changes.",
    means="The film strip would miss what happened, and agents would act on old pictures.",
    remedy="Look at the server's way of noticing changes; without one it must compare pictures.",
)
def _updates(scene: Scene) -> None:
    with _connect(scene) as screen:
        before = screen.screenshot(timeout=30)
        screen.refresh(timeout=0)
        with notepad(scene.guest, scene.folder("display-updates") / "neues-bild.txt"):
            expect(screen.refresh(timeout=20), "no change came within 20 s of a new window")
            until(
                lambda: screen.refresh(timeout=0.2) or ImageChops.difference(before, screen.image()).getbbox(),
                "the new window is not in the picture",
            )


@_check(
    "display-keys",
    proves="Letters, digits, signs, Return and Ctrl+S that are typed arrive as they are.",
    means="Every agent would store wrong values, through no fault of its own.",
    remedy="Give guest and display the same keyboard layout; `legacyproof doctor` tells which characters do not arrive.",
)
def _keys(scene: Scene) -> None:
    _typed(
        scene,
        "tasten",
        'The quick brown fox, 0123456789\nJUMPS: (over) <the> "lazy" [dog] {x} #1 100% a@b.de \\ ~ ^ | \' ?',
    )


@_check(
    "display-umlauts",
    proves="Umlauts, ß, é and € that are typed arrive as they are.",
    means="Names of people and places could not be entered.",
    remedy="Give guest and display a layout that has them; `legacyproof doctor` tells which ones do not arrive.",
)
def _umlauts(scene: Scene) -> None:
    _typed(scene, "umlaute", "Jürgen Größe, Ährenweg 5, Öhringen Übersee, 20 €, René")


def _typed(scene: Scene, name: str, text: str) -> None:
    file = scene.folder(f"display-{name}") / f"{name}.txt"
    with notepad(scene.guest, file) as window, _connect(scene) as screen:
        got = type_and_save(scene.guest, screen, file, window, text)
    expect(got == text, f"typed {text!r}, arrived {got!r}")


@_check(
    "display-keys-one-window",
    proves="Keys go to the window in front and to no other.",
    means="What an agent types would end up in places that it does not look at.",
    remedy="Let new windows come to the front, and switch off whatever takes the focus by itself.",
)
def _keys_one_window(scene: Scene) -> None:
    folder = scene.folder("display-keys-one-window")
    back, front = folder / "hinten.txt", folder / "vorne.txt"
    with notepad(scene.guest, back), notepad(scene.guest, front) as window, _connect(scene) as screen:
        got = type_and_save(scene.guest, screen, front, window, "in front")
        expect(got == "in front", f"arrived in front: {got!r}")
        expect(scene.guest.read(back, limit=100) == b"\xff\xfe", "the window behind has taken keys, too")


@_check(
    "display-drag",
    proves="Pressing, moving and releasing the pointer's button moves a window.",
    means="Agents could not use the mouse.",
    remedy="Give the guest an absolute pointing device (a tablet), so that places on the screen are the guest's own.",
)
def _drag(scene: Scene) -> None:
    with notepad(scene.guest, scene.folder("display-drag") / "ziehen.txt") as window, _connect(scene) as screen:
        focus(scene.guest, screen, window)
        moved = _dragged(scene, screen, window)
    wanted = _way(window.rect, screen.size)
    got = (moved.rect[0] - window.rect[0], moved.rect[1] - window.rect[1])
    # The pointer may have to travel a few pixels before a drag begins.
    expect(all(abs(a - b) <= 16 for a, b in zip(got, wanted, strict=True)), f"dragged by {wanted}, moved by {got}")


@_check(
    "display-click",
    proves="A click hits what lies under it: it brings a window behind to the front.",
    means="Agents could not use the mouse.",
    remedy="Give the guest an absolute pointing device (a tablet), so that places on the screen are the guest's own.",
)
def _click(scene: Scene) -> None:
    folder = scene.folder("display-click")
    guest = scene.guest
    with (
        notepad(guest, folder / "unten.txt") as below,
        notepad(guest, folder / "oben.txt") as above,
        _connect(scene) as screen,
    ):
        focus(guest, screen, above)
        x, y = _uncovered(scene, below) or (0, 0)
        if (x, y) == (0, 0):
            _dragged(scene, screen, above)
            x, y = _uncovered(scene, below) or (0, 0)
        expect((x, y) != (0, 0), "the title bar of the window behind could not be uncovered")
        screen.click(x, y)
        until(lambda: _is_in_front(scene, below), f"after a click at {x}, {y} the window there is not in front")


def _way(rect: Box, size: tuple[int, int]) -> tuple[int, int]:
    """How far a window can be dragged so that its title bar stays on the screen."""
    _, top, right, _ = rect
    return (120 if right + 120 <= size[0] else -120, 90 if top + 180 <= size[1] else -90)


def _dragged(scene: Scene, screen: RfbClient, window: WindowEntry) -> WindowEntry:
    left, top, right, _ = window.rect
    start = ((left + right) // 2, top + _TITLE_BAR)
    dx, dy = _way(window.rect, screen.size)
    screen.drag(start, (start[0] + dx, start[1] + dy))

    def moved() -> WindowEntry | None:
        now = seen(scene.guest, window)
        return now if now is not None and now.rect != window.rect else None

    until(moved, f"dragged from {start[0]}, {start[1]} by {dx}, {dy}, but the window stays where it was")
    found = seen(scene.guest, window)
    if found is None:
        raise Failed("the window that was dragged is gone")
    return found


def _uncovered(scene: Scene, window: WindowEntry) -> tuple[int, int] | None:
    """A place in a window's title bar that no other window covers."""
    there = [entry for entry in scene.guest.probe("windows").windows if entry.visible and not entry.minimised]
    now = next((entry for entry in there if entry.hwnd == window.hwnd), None)
    if now is None:
        return None
    above = [entry.rect for entry in there if entry.z < now.z]
    left, top, right, _ = now.rect
    y = top + _TITLE_BAR
    # The ends of the bar hold the system menu and the buttons.
    for x in range(left + 60, right - 160, 20):
        if not any(box[0] <= x < box[2] and box[1] <= y < box[3] for box in above):
            return x, y
    return None


def _is_in_front(scene: Scene, window: WindowEntry) -> bool:
    now = seen(scene.guest, window)
    return now is not None and now.foreground
