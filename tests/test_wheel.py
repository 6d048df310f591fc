"""Installed from a wheel into an environment that nobody may write to, the program does its work for another user, in another folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from runner.machines.sandbox import PYTHON

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("contracts", "prompts", "recordings", "runner", "validators", "vm_images")
NOBODY = 65534
"""A user and a group without a name's rights, on every Debian."""
CONTRACT = "contracts/catalog/legacyworld/dswin/open-dswin.yaml"
SCRIPT = "recordings/dswin/open-dswin/golden.yaml"
_ENTER = """
# The environment and what it depends on, read-only for everybody and wherever they lie.
mount --bind "$1" "$2"
mount -o remount,bind,ro "$2"
mount --bind "$3" "$3"
mount -o remount,bind,ro "$3"
cd "$4"
shift 4
exec "$@"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    copied = (
        folder / "source"
    )  # building leaves nothing in the tree, and takes nothing from it that is not the project's
    shutil.copytree(ROOT, copied, ignore=lambda _, names: {n for n in names if n in {"build", "runs"} or n[0] == "."})
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "-w", folder, copied], check=True, timeout=300)
    return next(folder.glob("*.whl"))


def test_everything_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    there = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and not {"build", "__pycache__"} & set(file.parts)
    }
    with zipfile.ZipFile(wheel) as packed:
        inside = set(packed.namelist())
    assert there - inside == set()
    assert {name.split("/")[0] for name in inside - there} == {f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}


class Installed:
    """The program as another user finds it.

    Attributes:
        folder: Everything; the user may only write in ``home``.
        site: Where the packages lie.
    """

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder = folder
        environment, self._dependencies, self.home = (folder / name for name in ("env", "dependencies", "home"))
        for made in (self._dependencies, self.home):
            made.mkdir()
        os.chown(self.home, NOBODY, NOBODY)
        # The system's interpreter: the one that runs the tests may lie where nobody else may look.
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", environment], check=True, timeout=120, umask=0o022)
        pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
        install = [*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)]
        subprocess.run(install, check=True, timeout=120, umask=0o022)
        (self.site,) = environment.glob("lib/python*/site-packages")
        (self.site / "dependencies.pth").write_text(f"{self._dependencies}\n")

    def run(self, *arguments: object, timeout: float = 800) -> subprocess.CompletedProcess[str]:
        """Runs ``legacyproof`` as that user, in that user's home."""
        mine = Path(typer.__file__).parents[1]
        places = [mine, self._dependencies, self.folder / "env", self.home]
        own = ["env", "-i", "PATH=/usr/bin:/bin", f"HOME={self.home}", "LANG=C.UTF-8", "COLUMNS=300"]
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _ENTER, "sh", *places, *user, *own,
             self.folder / "env" / "bin" / "legacyproof", *map(str, arguments)],
            capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Iterator[Installed]:
    # Not below pytest's own folder, which is closed to other users.
    folder = Path(tempfile.mkdtemp(prefix="lp-wheel-"))
    folder.chmod(0o755)
    try:
        yield Installed(folder, wheel)
    finally:
        shutil.rmtree(folder)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
same_python = pytest.mark.skipif(
    subprocess.run([PYTHON, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, check=False)
    .stdout.strip() != str(sys.version_info[:2]),
    reason="what the program depends on is of the tests' own version of Python",
)  # fmt: skip


@needs_root
@same_python
def test_its_images_are_found_and_its_contracts_are_sound(installed: Installed) -> None:
    done = installed.run("image", "list")
    assert done.returncode == 0, done.stderr
    assert "dentadesk" in done.stdout
    done = installed.run("lint", installed.site / "contracts" / "catalog")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.machine
@pytest.mark.timeout(900)
@needs_root
@same_python
def test_it_builds_its_image_says_so_and_runs(installed: Installed) -> None:
    arguments = ["run", installed.site / CONTRACT, "--agent", f"scripted:{installed.site / SCRIPT}", "--trials", "2"]
    done = installed.run(*arguments, "--parallel", "2", "--name", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("building the image dentadesk, once") == 1, done.stderr
    assert "another runner" not in done.stderr
    assert (installed.home / "runs" / "first" / "report" / "index.html").is_file()
    assert {path.name for path in installed.home.iterdir()} == {"runs", ".cache"}
    done = installed.run(*arguments, "--name", "second")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "building" not in done.stderr, "it is there"
