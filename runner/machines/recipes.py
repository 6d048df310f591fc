"""Building what an image's recipe folders describe: fixture programs, the native probe."""

from __future__ import annotations

import subprocess
from pathlib import Path

from runner.machines.base import MachineError


def built(folder: Path, target: str) -> Path:
    """Builds one file of a recipe and says where it is; not everything, which may need compilers that nobody here uses.

    Raises:
        MachineError: It could not be built.
    """
    done = subprocess.run(
        ["make", "-s", "-C", folder, target], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode != 0:
        raise MachineError(f"make {target} in {folder} failed: {done.stderr.strip()[-2000:]}")
    return folder / target
