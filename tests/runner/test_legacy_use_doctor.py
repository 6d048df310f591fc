"""What the doctor says of a legacy-use server: each thing that can be missing, in plain words, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import legacy_use
from runner.agents.legacyuse.checks import findings
from runner.agents.legacyuse.client import Server
from runner.agents.legacyuse.configuration import Configuration
from runner.agents.legacyuse.workplace import Workplace
from runner.findings import Finding
from tests.peers.legacy_use_server import KEY, LegacyUseServer
from tests.peers.rfb_server import wait_until
from tests.runner.legacy_use_helpers import configuration

ROOT = Path(__file__).resolve().parents[2]


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
    assert nothing_is_left(server)


def nothing_is_left(server: LegacyUseServer) -> bool:
    """No target, archived or not, with its password; and no container that runs."""
    return not server.targets and not server.sessions


@pytest.mark.parametrize("history", ["keep", "erase"])
@pytest.mark.parametrize(
    "trouble",
    [
        lambda server: None,
        lambda server: server.fault("GET", "sessions/[^/]+", "broken", 99),
        lambda server: server.fault("POST", "sessions/", "broken_after"),
        lambda server: server.fault("POST", "targets/", "lost"),
        lambda server: server.fault("DELETE", "targets/[^/]+/hard", "broken"),
        lambda server: setattr(server.behaviour, "has_image", False),
        lambda server: setattr(server.behaviour, "has_docker_network", False),
    ],
    ids=["none", "session-unreadable", "session-broken", "target-lost", "removal-broken", "no-image", "no-network"],
)
def test_whatever_happens_no_password_is_left_on_the_server(
    server: LegacyUseServer, tmp_path: Path, trouble: Callable[[LegacyUseServer], object], history: str
) -> None:
    trouble(server)
    looked(configuration(server, tmp_path, f"history: {history}\n", health="300ms"))
    assert server.count("POST", "targets/") == 1
    assert nothing_is_left(server)


def test_what_nobody_has_foreseen_leaves_nothing_either(
    server: LegacyUseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Workplace) -> None:
        raise RuntimeError

    monkeypatch.setattr(Workplace, "_wait_for_health", broken)
    with pytest.raises(RuntimeError):
        findings(configuration(server, tmp_path))
    assert nothing_is_left(server)


def test_a_doctor_that_is_ended_while_it_looks_leaves_nothing(server: LegacyUseServer, tmp_path: Path) -> None:
    """It looks from a thread that ends with the program."""
    server.behaviour.health_after = 600.0
    configuration(server, tmp_path, health="10m")
    code = (
        "import os, signal, sys\nfrom runner.agents.base import doctor_of\nfrom runner.worker import Worker\n"
        f"Worker().ended(lambda: doctor_of('legacy-use:{tmp_path / 'legacy-use.yaml'}'), 600)"
    )
    environment = {**os.environ, "LEGACY_USE_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.DEVNULL) as doctor:
        wait_until(lambda: server.count("GET", "sessions/[^/]+") > 0, 60)
        doctor.send_signal(signal.SIGINT)
        doctor.wait(60)
    assert nothing_is_left(server)


def test_what_could_not_be_removed_is_told(server: LegacyUseServer, tmp_path: Path) -> None:
    server.fault("DELETE", "targets/[^/]+/hard", "broken", 99)
    found = looked(configuration(server, tmp_path))
    assert found["tidying"].ok is False
    assert f"left on the server: the target {next(iter(server.targets))}" in found["tidying"].message


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


def test_a_provider_for_which_the_server_has_no_key(server: LegacyUseServer, tmp_path: Path) -> None:
    server.provider_credentials.clear()
    finding = looked(configuration(server, tmp_path))["provider"]
    assert finding.ok is False
    assert "no key" in finding.message
    assert "provider.credentials" in finding.remedy


def test_a_key_that_the_first_run_gives_the_server_is_enough(server: LegacyUseServer, tmp_path: Path) -> None:
    server.provider_credentials.clear()
    (tmp_path / "key").write_text("sk-planted-key")
    more = "provider: {name: anthropic, credentials: {api_key: {file: key}}}\n"
    assert looked(configuration(server, tmp_path, more))["provider"].ok is True
    assert server.count("POST", "settings/providers") == 0


@pytest.mark.parametrize("available", [None, "yes", 1])
def test_a_provider_of_which_nothing_is_said_is_not_called_ready(
    server: LegacyUseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available: object
) -> None:
    answer = {"current_provider": "anthropic", "providers": [{"provider": "anthropic", "available": available}]}
    monkeypatch.setattr(Server, "get", lambda self, path, **_: answer if path == "settings/providers" else [])
    monkeypatch.setattr("runner.agents.legacyuse.checks._container", lambda *_: [])
    assert looked(configuration(server, tmp_path))["provider"].ok is None


def test_another_provider(server: LegacyUseServer, tmp_path: Path) -> None:
    found = looked(configuration(server, tmp_path, "provider: {name: openai}\n"))
    assert found["provider"].ok is False
    assert "uses anthropic, not openai" in found["provider"].message


def test_a_docker_image_that_is_not_there(server: LegacyUseServer, tmp_path: Path) -> None:
    server.behaviour.has_image = False
    found = looked(configuration(server, tmp_path, health="300ms"))
    assert found["session"].ok is False
    assert "docker image inspect legacy-use-target:local" in found["session"].remedy


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
