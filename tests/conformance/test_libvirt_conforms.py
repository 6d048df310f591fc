"""Virtual machines, reached through the QEMU guest agent, pass the conformance suite, but for what does not exist on Wine."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.conformance.scene import Scene
from runner.conformance.suite import What, chosen, run
from runner.conformance.told import explained
from runner.machines.images import find_image
from runner.machines.libvirt import LibvirtCheckpoint, LibvirtProvider

pytestmark = [pytest.mark.vm, pytest.mark.timeout(1200)]
NOT_THERE: dict[What, set[str]] = {"machine": set(), "guest": {"read-locked"}}
"""Wine locks no file of its own."""
HURRIED = {"display-keys", "display-keys-one-window", "display-drag", "display-umlauts", "display-click"}
"""They type and point at a person's pace, with which a machine that is emulated on a busy host does not keep up; the results on a
quiet one stand in the documentation, and whole runs in ``tests/e2e/test_virtual_machine.py`` type and read back as well."""


@pytest.mark.parametrize("what", ["machine", "guest"])
def test_the_virtual_machine_conforms(what: What, vm_checkpoint: LibvirtCheckpoint) -> None:
    checks = [check for check in chosen(what, "*", quick=True) if check.name not in HURRIED]
    assert len(checks) >= 40
    warnings: list[str] = []
    image = find_image("debian-wine")
    results = list(run(checks, lambda: Scene(LibvirtProvider(), image, folder=Path.cwd()), warned=warnings.append))
    assert not [result.check.name for result in results if result.outcome == "failed"], "\n".join(explained(results))
    assert {result.check.name for result in results if result.outcome == "not applicable"} == NOT_THERE[what]
    assert warnings == []
