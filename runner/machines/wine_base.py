"""The embedded machine's base: a Wine drive built once per image, sealed, and never written again.

A base lies in the cache under the fingerprint of everything that goes into it: manifest, recipes, probe, Wine's version, and
this module's own recipe number.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path, PureWindowsPath

from runner.machines.base import MachineError, home
from runner.machines.images import FOLDER, Image, Program, sources
from runner.machines.recipes import built
from runner.machines.sandbox import Sandbox
from runner.machines.sealing import Seal, sealed

RECIPE = 2
"""Raised whenever this module builds bases differently."""
WINE = Path("/usr/lib/wine/wine64")
WINESERVER = Path("/usr/lib/wine/wineserver64")
PROBE = r"C:\legacyproof\lpprobe.exe"
_INPUT = "unicode_input.so"
"""What brings typed characters to programs; it lies beside drive C."""
_FONTS = Path("/usr/share/wine/fonts")
_SERVICES_OFF = ("PlugPlay", "Spooler", "BITS", "wuauserv", "MSIServer", "FontCache3.0.0.0", "winebus", "nsiproxy")


def environment(image: Image) -> dict[str, str]:
    """The environment of every program in a machine made from the image."""
    return {
        "WINEPREFIX": "/prefix",
        "WINEDEBUG": "-all",
        "WINEDLLOVERRIDES": "winemenubuilder.exe,mscoree,mshtml=d",
        "HOME": "/tmp/home",
        "USER": "praxis",
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "TZ": image.manifest.timezone,
    }


def with_screen(image: Image, display: str) -> dict[str, str]:
    """The environment of every program in a machine that has a screen, whose keyboard has more characters than Wine has keys."""
    return environment(image) | {"DISPLAY": display, "LD_PRELOAD": f"/prefix/{_INPUT}"}


@cache
def wine_version() -> str:
    """What Wine calls itself.

    Raises:
        MachineError: It is not installed; the message says how to install it.
    """
    try:
        done = subprocess.run(
            [WINE, "--version"], capture_output=True, text=True, check=True, timeout=60, start_new_session=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"Wine does not run ({error}); `make setup` installs what is needed") from None
    return done.stdout.strip()


def fingerprint(image: Image) -> str:
    """What the base of an image is kept under."""
    probe = hashlib.sha256()
    for file in [*sources(FOLDER / "probe"), *sources(FOLDER / "wine" / "input")]:
        probe.update(file.name.encode() + b"\0" + file.read_bytes())
    return image.fingerprint(f"recipe {RECIPE}", wine_version(), probe.hexdigest())


def _on_drive(prefix: Path, path: str) -> Path:
    return prefix.joinpath("drive_c", *PureWindowsPath(path).parts[1:])


def _put_program(prefix: Path, image: Image, program: Program) -> None:
    if program.to is None:
        return
    target = _on_drive(prefix, program.to)
    target.mkdir(parents=True, exist_ok=True)
    if program.files is not None:
        if not (image.folder / program.files).is_dir():
            raise MachineError(f"{image.path}: there is no folder {program.files} beside it")
        shutil.copytree(image.folder / program.files, target, dirs_exist_ok=True)
    if program.recipe is not None and program.executable is not None:
        recipe = image.folder / program.recipe
        if (recipe / "seed.py").is_file():
            seed = [sys.executable, "seed.py", str(target)]
            done = subprocess.run(
                seed, cwd=recipe, capture_output=True, text=True, check=False, timeout=120, start_new_session=True
            )
            if done.returncode != 0:
                raise MachineError(f"{recipe / 'seed.py'} failed: {done.stderr.strip()[-2000:]}")
        shutil.copy2(built(recipe, program.executable), target)


def _settings(image: Image) -> str:
    size = image.manifest.display
    services = "".join(
        f'[HKEY_LOCAL_MACHINE\\System\\CurrentControlSet\\Services\\{name}]\n"Start"=dword:00000004\n\n'
        for name in _SERVICES_OFF
    )
    return (
        "REGEDIT4\n\n"
        # A desktop of its own, so that windows have title bars and stay within the screen.
        '[HKEY_CURRENT_USER\\Software\\Wine\\Explorer]\n"Desktop"="shell"\n\n'
        f'[HKEY_CURRENT_USER\\Software\\Wine\\Explorer\\Desktops]\n"shell"="{size.width}x{size.height}"\n\n'
        # A crashed program ends instead of being held by a debugger's window.
        '[HKEY_CURRENT_USER\\Software\\Wine\\WineDbg]\n"ShowCrashDialog"=dword:00000000\n\n'
        f"{services}"
    )


def _wine(sandbox: Sandbox, *argv: str, timeout: float = 180.0) -> None:
    done = sandbox.run([str(WINE), *argv], timeout=timeout)
    if done.status != 0:
        raise MachineError(
            f"{' '.join(argv)} ended with status {done.status}: {done.stderr[-500:].decode(errors='replace')}"
        )


def _own_folders(users: Path) -> None:
    """Makes folders of the links by which Wine leads a user's documents and desktop out of the drive.

    What a program saves there would be lost to every observable and to the audit of the whole drive.
    """
    for link in users.glob("*/*"):
        if link.is_symlink():
            link.unlink()
            link.mkdir()


def build(image: Image, key: str, *, say: Callable[[str], None]) -> tuple[Path, Seal]:
    """The image's base, built if it is not there yet: its drive's folder and its seal.

    Args:
        image: The image.
        key: Its :func:`fingerprint`.
        say: Told what is being done, for a person who waits.

    Raises:
        MachineError: It could not be built, or the base in the cache is damaged.
    """

    def fill(prefix: Path) -> None:
        say(f"building the image {image.manifest.name}, once: about 20 seconds")
        try:
            fill_prefix(prefix, image)
        except TimeoutError as error:
            raise MachineError(f"the image {image.manifest.name} could not be built: {error}") from None

    def waiting() -> None:
        say(f"another runner is building the image {image.manifest.name}: waiting for it")

    about = {"image": image.manifest.name, "key": key}
    return sealed(home() / "images" / key[:32], "prefix", fill, about=about, waiting=waiting)


def fill_prefix(prefix: Path, image: Image) -> None:
    """Makes a new Wine drive with everything that the image's manifest names.

    Args:
        prefix: The folder to make; the log is written beside it.
        image: The image.

    Raises:
        MachineError: Something could not be built or put in place.
        TimeoutError: Wine did not get ready in time.
    """
    probe = built(FOLDER / "probe", "build/x86_64/lpprobe.exe")
    unicode_input = built(FOLDER / "wine" / "input", f"build/{_INPUT}")
    prefix.mkdir()
    log = prefix.with_name("build.log")
    sandbox = Sandbox.open(prefix, environment=environment(image), binds={}, hostname="BUILD", log=log)
    try:
        _wine(sandbox, "wineboot", "--init")
        fonts = prefix / "drive_c" / "windows" / "Fonts"
        for font in _FONTS.glob(
            "*.ttf"
        ):  # Debian's Wine does not look there by itself: Marlett draws the title buttons
            shutil.copy2(font, fonts)
        (prefix / "drive_c" / "settings.reg").write_text(_settings(image))
        _wine(sandbox, "regedit", "/S", r"C:\settings.reg")
        (prefix / "drive_c" / "settings.reg").unlink()
        sandbox.run([str(WINESERVER), "-k"], timeout=30)
        sandbox.run([str(WINESERVER), "-w"], timeout=60)
    finally:
        sandbox.kill()
    for drive in (prefix / "dosdevices").iterdir():
        if drive.name.lower() != "c:":
            drive.unlink()
    _own_folders(prefix / "drive_c" / "users")
    tools = prefix / "drive_c" / "legacyproof"
    tools.mkdir()
    shutil.copy2(probe, tools)
    shutil.copy2(unicode_input, prefix)
    for program in image.manifest.programs.values():
        _put_program(prefix, image, program)
