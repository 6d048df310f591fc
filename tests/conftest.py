"""What every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from runner.machines.images import Image, find_image
from runner.machines.wine import WineCheckpoint, WineProvider

# How long an example takes says nothing on a machine that others use as well.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(scope="session", autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Images and machines of the tests live in a folder of their own, shared by one test run.

    ``LEGACYPROOF_TEST_HOME`` keeps it, so that a developer does not build the image anew each time.
    """
    kept = os.environ.get("LEGACYPROOF_TEST_HOME")
    home = Path(kept) if kept else tmp_path_factory.mktemp("home")
    old = os.environ.get("LEGACYPROOF_HOME")
    os.environ["LEGACYPROOF_HOME"] = str(home)
    yield home
    if old is None:
        del os.environ["LEGACYPROOF_HOME"]
    else:
        os.environ["LEGACYPROOF_HOME"] = old


@pytest.fixture(scope="session")
def image() -> Image:
    """The demo's image."""
    return find_image("dentadesk")


@pytest.fixture(scope="session")
def checkpoint(image: Image) -> WineCheckpoint:
    """Its base, without any set-up."""
    return WineProvider().prepare(image, [], [], folder=Path.cwd())
