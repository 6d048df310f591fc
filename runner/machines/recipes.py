"""Building what an image's recipe folders describe: fixture programs, the native probe.

A recipe is built in a copy of its folder in the home, never beside its sources: these may lie where nobody may write, and belong to
several runners at once. What was built is kept by the hash of all sources, and sealed as bases are.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from runner.machines.base import MachineError, home
from runner.machines.images import sources
from runner.machines.sealing import sealed

_SECONDS = 600.0


def built(folder: Path, target: str) -> Path:
    """Builds one file of a recipe and says where it is; not everything, which may need compilers that nobody here uses.

    Args:
        folder: The recipe's: its ``Makefile`` and all that it needs. It is only read.
        target: The file, relative to the folder; ``make`` is asked for it by that name.

    Raises:
        MachineError: It could not be built, or what was built was changed since.
    """
    key = hashlib.sha256(f"{target}\0".encode())
    for file in sources(folder):
        content = file.read_bytes()
        key.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode() + content)

    def fill(place: Path) -> None:
        for file in sources(folder):
            copy = place / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        try:
            done = subprocess.run(
                ["make", "-s", "-C", place, target],
                capture_output=True, text=True, check=False, timeout=_SECONDS, start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise MachineError(f"{folder} cannot be built: the program make is not installed") from None
        except subprocess.TimeoutExpired:
            raise MachineError(f"make {target} in a copy of {folder} did not end within {_SECONDS:g} s") from None
        if done.returncode != 0:
            raise MachineError(f"make {target} in a copy of {folder} failed: {done.stderr.strip()[-2000:]}")
        if not (place / target).is_file():
            raise MachineError(f"make {target} in a copy of {folder} ended well, but made no such file")

    about = {"recipe": folder.name, "target": target}
    place, _ = sealed(home() / "recipes" / key.hexdigest()[:32], "recipe", fill, about=about)
    return place / target
