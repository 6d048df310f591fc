"""There is a domain of the machine's name already: it is somebody else's and stays; the clone gets another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from runner.machines.base import MachineError, Tag
from tests.peers.fake_libvirt import machine_folders, pretend


def test_another_name_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()
    strangers: list[str] = []

    def take_the_first(call: str, arguments: dict[str, Any]) -> None:
        if call == "create" and not strangers:
            strangers.append(ElementTree.fromstring(arguments["xml"]).findtext("name", ""))
            host.hypervisor.domains[strangers[0]] = "running"

    host.hypervisor.on_call = take_the_first
    machine = checkpoint.clone(Tag("c", "r"))
    assert machine.id not in strangers
    machine.discard()
    assert host.hypervisor.domains == {strangers[0]: "running"}
    assert machine_folders() == []


def test_names_that_are_all_taken_end_in_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = pretend(monkeypatch, tmp_path)
    checkpoint = host.checkpoint()

    def take(call: str, arguments: dict[str, Any]) -> None:
        if call == "create":
            host.hypervisor.domains[ElementTree.fromstring(arguments["xml"]).findtext("name", "")] = "running"

    host.hypervisor.on_call = take
    with pytest.raises(MachineError, match="another domain named"):
        checkpoint.clone(Tag("c", "r"))
    assert machine_folders() == []
    assert set(host.hypervisor.domains.values()) == {"running"}  # none of them was ended
