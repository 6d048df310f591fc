"""What can be missing on a host is told with what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from runner.doctor import host
from runner.findings import Finding

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home" / "not yet there"))


def test_this_host_is_in_order() -> None:
    found = {name: look() for name, look in host.looks("wine")}
    assert {name for name, finding in found.items() if finding.ok is not True} == set()
    assert all(finding.name == name for name, finding in found.items())


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("unshare", "mount", "Xtigervnc", "make", "gcc", "x86_64-w64-mingw32-gcc"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = host.wine_programs()
    assert finding.ok is False
    assert finding.message == "not installed: bwrap, xkbcomp"
    assert finding.remedy.endswith("apt-get install bubblewrap x11-xkb-utils")


def test_without_bwrap_namespaces_cannot_be_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.namespaces() == Finding(
        "host: namespaces",
        None,
        "bwrap is not installed",
        "`make setup` installs what is needed, or: apt-get install bubblewrap",
    )
    assert host.overlay().ok is None


def test_a_kernel_that_refuses_namespaces_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    finding = host.namespaces()
    assert finding.ok is False
    assert "No permissions" in finding.message
    assert "unprivileged_userns_clone" in finding.remedy


def test_a_container_that_does_not_let_memory_lie_at_the_same_places_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = "setarch: failed to set personality to x86_64: Operation not permitted"
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\ncase \"$*\" in *setarch*) echo '{said}' >&2; exit 1;; esac\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    finding = host.namespaces()
    assert finding.ok is False
    assert said in finding.message
    assert "personality" in finding.remedy


def test_no_overlay_is_no_fault_but_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 32\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    finding = host.overlay()
    assert finding.ok is True
    assert "copies" in finding.message
    assert "LEGACYPROOF_HOME" in finding.remedy


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 << 30, 99 << 30, 300 << 20))
    finding = host.disk()
    assert finding.ok is False
    assert "only 0.3 GiB are free" in finding.message
    assert "machines reap" in finding.remedy


def test_a_folder_that_may_not_be_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert host.disk().ok is False
    assert "LEGACYPROOF_HOME" in host.disk().remedy


def test_little_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read = Path.read_text

    def meminfo(path: Path, *given: object, **named: object) -> str:
        if str(path) == "/proc/meminfo":
            return "MemTotal: 4000000 kB\nMemAvailable:  200000 kB\n"
        return read(path, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", meminfo)
    finding = host.memory()
    assert finding.ok is False
    assert "0.2 GiB" in finding.message


def test_missing_fonts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "_FONTS", (tmp_path / "marlett.ttf", tmp_path / "DejaVuSans.ttf"))
    finding = host.fonts()
    assert finding.ok is False
    assert finding.remedy.endswith("fonts-wine fonts-dejavu-core")


def test_missing_wine(monkeypatch: pytest.MonkeyPatch) -> None:
    from runner.machines import wine_base

    def none(*_: object, **__: object) -> object:
        raise FileNotFoundError(2, "No such file", "/usr/lib/wine/wine64")

    wine_base.wine_version.cache_clear()
    monkeypatch.setattr(subprocess, "run", none)
    try:
        finding = host.wine()
    finally:
        wine_base.wine_version.cache_clear()
    assert finding.ok is False
    assert "wine64" in finding.remedy


def test_another_system_than_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert host.system().ok is False


def test_of_other_providers_hosts_only_what_all_need_is_looked_at() -> None:
    assert [name for name, _ in host.looks("a-plug-in")] == ["host: system", "host: memory", "host: disk"]
