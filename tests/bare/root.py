"""A bare Debian in a folder: made by mmdebstrap, entered in namespaces of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.bare.handed_in import HOME, HandedIn, apt_settings, link_packages, pip_settings

_ENTER = Path(__file__).with_name("enter.sh")
_ARCHIVES = "vm_images/debian-wine/archives"
_PACKAGES = ("ca-certificates", "make")
"""Beside those that every Debian has; what else is needed, the Makefile itself must install."""
_RELEASE = "bookworm"
_BUILD_SECONDS = 900
_COMMAND_SECONDS = 3 * 3600


class Failed(Exception):
    """The bare Debian could not be made, or a command in it failed."""


@dataclass(frozen=True)
class BareRoot:
    """A bare Debian.

    Attributes:
        folder: Its root.
        given: What it is given of this computer.
    """

    folder: Path
    given: HandedIn

    @classmethod
    def build(cls, place: Path, source: Path) -> BareRoot:
        """Makes one that holds the tracked files of a tree, as they lie there now, in ``/src``.

        Args:
            place: An empty folder for everything; to be removed by who gives it.
            source: The tree.

        Raises:
            Failed: It could not be made.
        """
        folder, settings = place / "root", place / "apt.conf"
        settings.write_text(apt_settings())
        given = pip_settings(os.environ, Path.home())
        try:
            archives = _output(["sh", "-eu", str(source / _ARCHIVES)])
            log = place / "mmdebstrap.log"
            with log.open("wb") as said:
                done = subprocess.run(
                    ["mmdebstrap", "--mode=root", "--variant=minbase", "--components=main", f"--include={','.join(_PACKAGES)}",
                     f"--aptopt={settings}", '--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io",
                     _RELEASE, str(folder), "-"],
                    input=archives.encode(), stdout=said, stderr=said, check=False, timeout=_BUILD_SECONDS,
                )  # fmt: skip
            if done.returncode != 0:
                raise Failed(f"mmdebstrap failed: {log.read_text(errors='replace')[-2000:]}")
            names = _output(["git", "-C", str(source), "ls-files", "-z"]).split("\0")
        except FileNotFoundError as error:
            raise Failed(f"{error.filename} is not installed") from None
        for name in filter(None, names):
            if (source / name).exists():  # not removed without a commit
                copy = folder / "src" / name
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, copy, follow_symlinks=False)
        for name, content in given.files.items():
            path = folder / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name in ("resolv.conf", "hosts"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(Path("/etc", name), folder / "etc" / name)
        link_packages(folder)
        return cls(folder, given)

    def run(self, command: str) -> None:
        """Runs a command in ``/src`` to its end; whatever it leaves running is ended then, and when this process dies.

        Raises:
            Failed: It failed.
        """
        environment = {
            "HOME": HOME, "LANG": "C.UTF-8", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "TERM": "dumb", **self.given.variables,
        }  # fmt: skip
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "--pid", "--ipc", "--uts", "--fork",
             "--kill-child", "--", "bash", "-eu", str(_ENTER), str(self.folder), command, *map(str, self.given.folders)],
            env=environment, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            status = process.wait(timeout=_COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{command} did not end within {_COMMAND_SECONDS} s") from None
        finally:
            process.kill()
            process.wait()
        if status != 0:
            raise Failed(f"{command} ended with status {status}")


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise Failed(f"{command[0]} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout


if sys.platform != "linux":
    raise Failed("a bare Debian is made on Linux")
