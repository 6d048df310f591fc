"""The host: programs, kernel, memory, disk, fonts."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from runner.findings import Finding
from runner.machines.base import home

MIN_DISK = 2 << 30
"""Bytes: an image and a few machines."""
MIN_MEMORY = 1 << 30
"""Bytes: one machine, its programs and the runner."""
_WINE_PROGRAMS = {
    "bwrap": "bubblewrap",
    "unshare": "util-linux",
    "mount": "mount",
    "Xtigervnc": "tigervnc-standalone-server",
    "xkbcomp": "x11-xkb-utils",
    "make": "make",
    "gcc": "gcc libc6-dev",
    "x86_64-w64-mingw32-gcc": "gcc-mingw-w64-x86-64",
}
"""What the embedded machine needs, and the Debian package of each."""
_FONTS = (Path("/usr/share/wine/fonts/marlett.ttf"), Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"))
_FONT_PACKAGES = {"marlett.ttf": "fonts-wine", "DejaVuSans.ttf": "fonts-dejavu-core"}

Look = tuple[str, Callable[[], Finding]]


def looks(provider: str) -> Sequence[Look]:
    """What is looked at for a provider's machines, each with its name."""
    common: list[Look] = [("host: system", system), ("host: memory", memory), ("host: disk", disk)]
    if provider != "wine":
        return common
    return [
        *common,
        ("host: programs", wine_programs),
        ("host: Wine", wine),
        ("host: fonts", fonts),
        ("host: namespaces", namespaces),
        ("host: overlay", overlay),
        ("host: KVM", no_kvm_needed),
    ]


def system() -> Finding:
    """Linux, and a Python that is new enough."""
    about = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    if sys.platform != "linux":
        return Finding("host: system", False, f"{about}: machines are made on Linux only", "use a Linux host")
    return Finding("host: system", True, about)


def memory() -> Finding:
    """Memory that can be had now."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines() if ":" in line)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    said = f"{_size(available)} can be had"
    if available < MIN_MEMORY:
        return Finding("host: memory", False, f"only {said}", f"end other programs; {_size(MIN_MEMORY)} are needed")
    return Finding("host: memory", True, said)


def disk() -> Finding:
    """Room where images and machines are kept, and the right to write there."""
    place = home()
    there = next(folder for folder in (place, *place.parents) if folder.is_dir())
    remedy = "set LEGACYPROOF_HOME to a folder of a file system with room, which you may write to"
    if not os.access(there, os.W_OK | os.X_OK):
        return Finding("host: disk", False, f"{there} may not be written to", remedy)
    free = shutil.disk_usage(there).free
    if free < MIN_DISK:
        more = f"{remedy}; `legacyproof machines reap` removes what killed runners left"
        return Finding("host: disk", False, f"only {_size(free)} are free in {place}", more)
    return Finding("host: disk", True, f"{_size(free)} are free in {place}")


def wine_programs() -> Finding:
    """Programs that the embedded machine is made of."""
    missing = [name for name in _WINE_PROGRAMS if shutil.which(name) is None]
    if missing:
        packages = " ".join(sorted({_WINE_PROGRAMS[name] for name in missing}))
        return Finding("host: programs", False, f"not installed: {', '.join(missing)}", _install(packages))
    return Finding("host: programs", True, f"{len(_WINE_PROGRAMS)} of {len(_WINE_PROGRAMS)} are there")


def wine() -> Finding:
    """Wine itself."""
    from runner.machines import wine_base  # noqa: PLC0415 - refuses to be loaded elsewhere than on Linux
    from runner.machines.base import MachineError  # noqa: PLC0415

    try:
        return Finding("host: Wine", True, wine_base.wine_version())
    except MachineError as error:
        return Finding("host: Wine", False, str(error), _install("wine64 libwine"))


def fonts() -> Finding:
    """Fonts, without which windows have no signs on their buttons."""
    missing = [font.name for font in _FONTS if not font.is_file()]
    if missing:
        packages = " ".join(_FONT_PACKAGES[name] for name in missing)
        return Finding("host: fonts", False, f"not there: {', '.join(missing)}", _install(packages))
    return Finding("host: fonts", True, "they are there")


def namespaces() -> Finding:
    """Whether programs can be shut in as machines are: with every namespace of their own, and memory at the same places."""
    from runner.machines.sandbox import SAME_PLACES  # noqa: PLC0415 - refuses to be loaded elsewhere than on Linux

    command = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--", *SAME_PLACES, "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except FileNotFoundError:
        return Finding("host: namespaces", None, "bwrap is not installed", _install("bubblewrap"))
    if done.returncode == 0:
        return Finding("host: namespaces", True, "programs can be shut in")
    remedy = (
        "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu also "
        "`kernel.apparmor_restrict_unprivileged_userns=0`; in a container, start it with the right to make namespaces and to call personality"
    )
    return Finding("host: namespaces", False, f"bwrap cannot shut programs in: {done.stderr.strip()[-300:]}", remedy)


def overlay() -> Finding:
    """Whether clones are overlays; copies work as well, but take longer and more room."""
    from runner.machines.sandbox import overlay_works  # noqa: PLC0415 - refuses to be loaded elsewhere than on Linux

    place = home()
    there = next(folder for folder in (place, *place.parents) if folder.is_dir())
    try:
        with tempfile.TemporaryDirectory(dir=there) as scratch:
            works = overlay_works(Path(scratch))
    except FileNotFoundError as error:
        return Finding("host: overlay", None, f"{error.filename} is not installed", _install("util-linux mount"))
    if works:
        return Finding("host: overlay", True, "clones are overlays")
    said = f"overlays cannot be mounted in {place}: clones are copies, which take longer and more room"
    return Finding(
        "host: overlay", True, said, "set LEGACYPROOF_HOME to a folder on ext4, xfs or btrfs, not on an overlay"
    )


def no_kvm_needed() -> Finding:
    """Said because it is asked: the embedded machine is no virtual machine."""
    there = "is there" if Path("/dev/kvm").exists() else "is not there"
    return Finding("host: KVM", True, f"/dev/kvm {there}; the embedded machine does not use it")


def _install(packages: str) -> str:
    return f"`make setup` installs what is needed, or: apt-get install {packages}"


def _size(number: int) -> str:
    return f"{number / (1 << 30):.1f} GiB"
