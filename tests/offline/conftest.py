"""Volumes that several tests read; each is made once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.offline.volumes import many_files, ten_changes


@dataclass(frozen=True)
class TwoDisks:
    before: Path
    after: Path


@pytest.fixture(scope="session")
def two_disks(tmp_path_factory: pytest.TempPathFactory) -> TwoDisks:
    """A 2 GiB disk with 10,000 files, and an overlay with ten changes."""
    scratch = tmp_path_factory.mktemp("many")
    before = many_files(scratch)
    return TwoDisks(before, ten_changes(before, scratch))
