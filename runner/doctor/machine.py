"""One machine, looked at from the outside and from within."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PureWindowsPath

from runner.conformance.clock import MAX_OFFSET, offset, utc_offset
from runner.conformance.props import cmd, notepad, type_and_save
from runner.display.rfb import RfbClient
from runner.doctor import keyboard
from runner.findings import Finding
from runner.guests.base import Guest
from runner.machines.base import Machine, MachineError, MachineProvider, SetupError, Tag
from runner.machines.images import Image

_FOLDER = PureWindowsPath(r"C:\legacyproof-check")
Look = tuple[str, Callable[[], Finding]]


def make(image: Image, provider: MachineProvider, folder: Path) -> tuple[Machine | None, Finding]:
    """A machine of the image, and whether one could be made."""
    remedy = "do what the message says; `legacyproof conformance machine` looks closer"
    try:
        machine = provider.prepare(image, [], [], folder=folder).clone(Tag("doctor", secrets.token_hex(4)))
    except (MachineError, SetupError) as error:
        return None, Finding("machine", False, str(error), remedy)
    taken = ", ".join(f"{part} {seconds:.1f} s" for part, seconds in machine.timings.items())
    return machine, Finding("machine", True, f"{machine.id} is there and proven fresh ({taken})")


def looks(machine: Machine, image: Image) -> Iterator[Look]:
    """What is looked at, each with its name."""
    yield "guest: channel", lambda: channel(machine.guest)
    yield "guest: session", lambda: session(machine.guest)
    yield "guest: clock", lambda: clock(machine.guest)
    yield "guest: time zone", lambda: zone(machine)
    yield "display: size", lambda: size(machine, image)
    yield "display: picture", lambda: picture(machine)
    yield (
        "keyboard: letters, digits and signs",
        lambda: typing(machine, "keyboard: letters, digits and signs", keyboard.SIGNS),
    )
    yield (
        "keyboard: umlauts and other letters",
        lambda: typing(machine, "keyboard: umlauts and other letters", keyboard.LETTERS),
    )
    yield "keyboard: the rest of the code page", lambda: rest_of_code_page(machine)


def channel(guest: Guest) -> Finding:
    """Files go there and come back, programs run."""
    file = _FOLDER / "Größe.txt"
    data = secrets.token_hex(16).encode()
    guest.write(file, data)
    if guest.read(file, limit=100) != data:
        remedy = "`legacyproof conformance guest` tells what the channel does wrong"
        return Finding("guest: channel", False, "a file that was written does not read back", remedy)
    done = cmd(guest, "exit 3")
    if done.status != 3:
        remedy = "see that programs may be run: user rights, antivirus, blocked programs"
        return Finding(
            "guest: channel", False, f"a program that ends with 3 is said to have ended with {done.status}", remedy
        )
    return Finding("guest: channel", True, "files go there and come back, programs run")


def session(guest: Guest) -> Finding:
    """The probe sees the desktop that has mouse and keyboard."""
    header = guest.probe("version").header
    if header.blindness is not None:
        said, _, remedy = header.blindness.partition("; ")
        return Finding("guest: session", False, said, remedy)
    return Finding("guest: session", True, f"session {header.session}, desktop {header.desktop}, user {header.user}")


def clock(guest: Guest) -> Finding:
    """Guest and host agree about the time."""
    off = offset(guest)
    if abs(off) > MAX_OFFSET:
        remedy = "switch off whatever sets the guest's clock, and see that the host's own is right"
        return Finding("guest: clock", False, f"{off:.1f} s off the host's", remedy)
    return Finding("guest: clock", True, f"{off:+.1f} s off the host's")


def zone(machine: Machine) -> Finding:
    """The zone that dates in tables are in."""
    seconds = utc_offset(machine.guest)
    said = f"{seconds / 3600:+.4g} h from UTC"
    if seconds != machine.freshness.utc_offset:
        remedy = "let nothing change the guest's zone while it runs"
        return Finding(
            "guest: time zone", False, f"{said}, but {machine.freshness.utc_offset / 3600:+.4g} h at the start", remedy
        )
    return Finding("guest: time zone", True, said)


def size(machine: Machine, image: Image) -> Finding:
    """The screen has the size that agents are told."""
    wanted = image.manifest.display
    with RfbClient.connect(machine.display) as screen:
        width, height = screen.size
    if (width, height) != (wanted.width, wanted.height):
        said = f"{width} x {height}, but the manifest says {wanted.width} x {wanted.height}"
        return Finding(
            "display: size", False, said, "set the resolution in the guest, or correct `display:` in the manifest"
        )
    return Finding("display: size", True, f"{width} x {height}")


def picture(machine: Machine) -> Finding:
    """There is something on the screen."""
    with RfbClient.connect(machine.display) as screen:
        colours = screen.screenshot(timeout=30).getcolors(maxcolors=1 << 24) or ()
    if len(colours) < 2:
        remedy = "switch off screen saver and power saving in the guest"
        return Finding("display: picture", False, "the screen is blank", remedy)
    return Finding("display: picture", True, f"{len(colours)} colours")


def rest_of_code_page(machine: Machine) -> Finding:
    """Which of the characters that the guest's programs can store can be typed at all."""
    characters = keyboard.others(machine.guest.probe("version").header.codepage_ansi)
    return typing(machine, "keyboard: the rest of the code page", characters, keyboard.told_of_others)


def typing(
    machine: Machine,
    name: str,
    characters: str,
    tell: Callable[[str, str, Mapping[str, str]], Finding] = keyboard.told,
) -> Finding:
    """Characters typed through the display arrive in a program."""
    file = _FOLDER / f"tastatur-{secrets.token_hex(3)}.txt"
    with notepad(machine.guest, file) as window, RfbClient.connect(machine.display) as screen:
        text = type_and_save(machine.guest, screen, file, window, keyboard.typed(characters))
    return tell(name, characters, keyboard.arrived(characters, text))
