"""The embedded machine passes the conformance suite, but for what does not exist on Wine."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.conformance.scene import Scene
from runner.conformance.suite import CHECKS, What, run
from runner.conformance.told import explained
from runner.machines.images import Image
from runner.machines.wine import WineProvider

pytestmark = pytest.mark.machine
NOT_THERE: dict[What, set[str]] = {
    "machine": set(),
    # Wine hands on a status as POSIX does, and locks no file of its own.
    "guest": {"run-status-large", "read-locked"},
}


@pytest.mark.parametrize("what", ["machine", "guest"])
def test_the_embedded_machine_conforms(what: What, image: Image) -> None:
    warnings: list[str] = []
    results = list(run(CHECKS[what], lambda: Scene(WineProvider(), image, folder=Path.cwd()), warned=warnings.append))
    assert [result.check for result in results] == list(CHECKS[what])
    assert not [result.check.name for result in results if result.outcome == "failed"], "\n".join(explained(results))
    assert {result.check.name for result in results if result.outcome == "not applicable"} == NOT_THERE[what]
    assert warnings == []
