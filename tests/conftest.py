"""What every test may use."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from contracts.schema import StartProgram
from runner.machines.images import Image, find_image
from runner.machines.libvirt import LibvirtCheckpoint, LibvirtProvider
from runner.machines.wine import WineCheckpoint, WineProvider
from tests.command_line import Call, caller

# How long an example takes says nothing on a machine that others use as well.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first, so that processes which share a test run end at about the same time."""
    first = ["test_demo.py", "test_computer_use_runs.py", "test_mutate_catalogue.py", "test_readme.py"]
    order = {name: number for number, name in enumerate(first)}
    items.sort(key=lambda item: order.get(item.path.name, len(first)))


@pytest.fixture(scope="session", autouse=True)
def _own_home() -> Iterator[Path]:
    """Images and machines of the tests live in a folder of their own, shared by one test run.

    ``LEGACYPROOF_TEST_HOME`` keeps it, so that a developer does not build the image anew each time. Processes that share a test run
    have a folder each: they would take each other's machines for leftovers.
    """
    kept = os.environ.get("LEGACYPROOF_TEST_HOME")
    home = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="legacyproof-tests-"))
    if kept and os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        home = home.with_name(f"{home.name}-{os.environ['PYTEST_XDIST_WORKER']}")
        home.mkdir(parents=True, exist_ok=True)
    old = os.environ.get("LEGACYPROOF_HOME")
    os.environ["LEGACYPROOF_HOME"] = str(home)
    yield home
    if old is None:
        del os.environ["LEGACYPROOF_HOME"]
    else:
        os.environ["LEGACYPROOF_HOME"] = old
    if not kept:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs ``legacyproof`` in this process; its exit status, standard output and standard error."""
    return caller(monkeypatch, capsys)


@pytest.fixture(scope="session")
def image() -> Image:
    """The demo's image."""
    return find_image("dentadesk")


@pytest.fixture(scope="session")
def checkpoint(image: Image) -> WineCheckpoint:
    """Its base, without any set-up."""
    return WineProvider().prepare(image, [], [], folder=Path.cwd())


@pytest.fixture(scope="session")
def vm_checkpoint() -> LibvirtCheckpoint:
    """A virtual machine's checkpoint with the practice's program running; the image is built if it is not there yet."""
    image = find_image("debian-wine")
    return LibvirtProvider().prepare(image, [], [StartProgram(program="dswin")], folder=Path.cwd())
