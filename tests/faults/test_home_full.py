"""The disk of the home is full, or read-only, while an image is built: told with the place and a remedy, status 3; nothing stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import ROOT

CONTRACT = ROOT / "contracts/catalog/legacyworld/dswin/open-dswin.yaml"
_ON_A_DISK = """
mount -t tmpfs -o "$1" disk "$2"
shift 2
status=0
"$@" || status=$?
find "$LEGACYPROOF_HOME" -name '*.unfinished' -o -name '*.new'
exit "$status"
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


def on_a_disk(options: str, place: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs ``legacyproof`` with its home on a disk of its own, which goes away with it."""
    place.mkdir()
    command = [sys.executable, "-c", "from runner.cli import main; main()", *map(str, arguments)]
    return subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _ON_A_DISK, "sh", options, place, *command],
        env={**os.environ, "LEGACYPROOF_HOME": str(place), "PYTHONPATH": str(ROOT), "COLUMNS": "400"}, cwd=place.parent,
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip


@pytest.mark.machine
@pytest.mark.parametrize("size", ["3m", "60m"], ids=["at once", "while Wine makes its drive"])
def test_a_full_disk_is_named_and_not_what_it_does_to_wine(tmp_path: Path, size: str) -> None:
    done = on_a_disk(f"size={size}", tmp_path / "home", "lint", "--image", CONTRACT)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "the host's disk is full" in done.stderr
    assert str(tmp_path / "home") in done.stderr
    assert "LEGACYPROOF_HOME" in done.stderr
    assert "Traceback" not in done.stderr
    assert ".unfinished" not in done.stdout


@pytest.mark.parametrize(
    "command", [["lint", "--image", CONTRACT], ["image", "build", "debian-wine"]], ids=["wine", "libvirt"]
)
def test_a_read_only_home_is_named(tmp_path: Path, command: list[object]) -> None:
    done = on_a_disk("size=1m,ro", tmp_path / "home", *command)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "read-only" in done.stderr
    assert str(tmp_path / "home") in done.stderr
    assert "Traceback" not in done.stderr
