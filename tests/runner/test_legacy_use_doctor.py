"""What the doctor says of a legacy-use server: each thing that can be missing, in plain words, and nothing left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import legacy_use
from runner.agents.legacyuse.checks import findings
from runner.agents.legacyuse.configuration import Configuration
from runner.findings import Finding
from tests.peers.legacy_use_server import LegacyUseServer
from tests.runner.legacy_use_helpers import configuration


@pytest.fixture
def server() -> Iterator[LegacyUseServer]:
    with LegacyUseServer() as server:
        yield server


def looked(configured: Configuration) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings(configured)}


def test_a_server_that_has_everything(server: LegacyUseServer, tmp_path: Path) -> None:
    found = looked(configuration(server, tmp_path))
    assert {name: finding.ok for name, finding in found.items()} == dict.fromkeys(
        ["server", "provider", "size", "leftovers", "session", "display"], True
    )
    assert "1024x768" in found["size"].message
    assert not server.jobs
    assert all(session["is_archived"] for session in server.sessions.values())
    assert all(target["is_archived"] for target in server.targets.values())


def test_a_server_that_is_down(server: LegacyUseServer, tmp_path: Path) -> None:
    server.die()
    (finding,) = looked(configuration(server, tmp_path)).values()
    assert (finding.name, finding.ok) == ("server", False)
    assert server.url in finding.message
    assert "LEGACY_USE_URL" in finding.remedy


@pytest.mark.parametrize(
    ("more", "name", "words"),
    [
        ("tenant: other.example\n", "tenant", "no tenant with the host other.example"),
        ("prefix: /elsewhere\n", "server", "another path prefix"),
    ],
)
def test_a_setting_that_the_server_does_not_know(
    server: LegacyUseServer, tmp_path: Path, more: str, name: str, words: str
) -> None:
    (finding,) = looked(configuration(server, tmp_path, more)).values()
    assert (finding.name, finding.ok) == (name, False)
    assert words in finding.message
    assert finding.remedy


def test_an_inactive_tenant(server: LegacyUseServer, tmp_path: Path) -> None:
    server.behaviour.tenant_active = False
    (finding,) = looked(configuration(server, tmp_path)).values()
    assert "inactive" in finding.message


def test_a_wrong_key(server: LegacyUseServer, tmp_path: Path) -> None:
    (finding,) = looked(replace(configuration(server, tmp_path), api_key="another-key")).values()
    assert (finding.name, finding.ok) == ("key", False)
    assert "another-key" not in finding.message


def test_another_provider(server: LegacyUseServer, tmp_path: Path) -> None:
    found = looked(configuration(server, tmp_path, "provider: {name: openai}\n"))
    assert found["provider"].ok is False
    assert "uses anthropic, not openai" in found["provider"].message


def test_a_docker_image_that_is_not_there(server: LegacyUseServer, tmp_path: Path) -> None:
    server.behaviour.has_image = False
    found = looked(configuration(server, tmp_path, health="300ms"))
    assert found["session"].ok is False
    assert "docker image inspect legacy-use-target:local" in found["session"].remedy
    assert all(session["is_archived"] for session in server.sessions.values())


def test_a_display_that_containers_cannot_reach(server: LegacyUseServer, tmp_path: Path) -> None:
    found = looked(configuration(server, tmp_path, "display: {host: 127.0.0.2}\n", health="300ms"))
    assert (found["session"].ok, found["display"].ok) == (True, False)
    assert "127.0.0.2" in found["display"].message
    assert "Docker bridge" in found["display"].remedy


def test_an_address_that_is_none_of_this_hosts(server: LegacyUseServer, tmp_path: Path) -> None:
    found = looked(configuration(server, tmp_path, "display: {listen: 192.0.2.1}\n"))
    assert found["display"].ok is False
    assert "cannot listen on 192.0.2.1" in found["display"].message


def test_targets_that_were_left(server: LegacyUseServer, tmp_path: Path) -> None:
    body = {"name": "legacyproof dswin.x 0123", "type": "vnc", "host": "h", "password": "p"}
    server.answer("POST", "targets/", {}, body)
    found = looked(configuration(server, tmp_path))
    assert found["leftovers"].ok is None
    assert "legacyproof dswin.x 0123" in found["leftovers"].message


def test_a_configuration_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEGACY_USE_API_KEY", raising=False)
    (finding,) = legacy_use.doctor("")
    assert (finding.name, finding.ok) == ("configuration", False)
    assert "LEGACY_USE_API_KEY" in finding.message


def test_certificates_that_are_none(server: LegacyUseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACY_USE_API_KEY", "the-key")
    (tmp_path / "lab.yaml").write_text("schema: 1\nca_file: lab.yaml\n")
    (finding,) = legacy_use.doctor(str(tmp_path / "lab.yaml"))
    assert (finding.name, finding.ok) == ("configuration", False)
    assert "holds no certificates in PEM form" in finding.message


def test_a_target_that_may_have_been_left(server: LegacyUseServer, tmp_path: Path) -> None:
    server.fault("POST", "targets/", "silent")
    found = looked(configuration(server, tmp_path, outage="100ms"))
    assert (found["target"].ok, found["tidying"].ok) == (False, False)
    assert "perhaps the target legacyproof doctor " in found["tidying"].message


def test_httpx_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy_use, "find_spec", lambda name: None)
    (finding,) = legacy_use.doctor("")
    assert (finding.name, finding.ok) == ("httpx", False)
    assert "extra `legacy-use`" in finding.remedy
