"""What a host cannot do is said before anything is started, in plain words and with the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runner.machines.base import MachineError
from runner.machines.images import LibvirtPart
from runner.machines.virt import preflight
from runner.machines.virt.hypervisor import HypervisorError
from tests.peers.fake_libvirt import FakeHypervisor

PART = LibvirtPart(recipe="none")


@pytest.fixture(autouse=True)
def _bare_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEGACYPROOF_KVM", raising=False)
    monkeypatch.setattr(preflight, "_in_a_virtual_machine", lambda: False)


def without_kvm(call: str, arguments: dict[str, Any]) -> None:
    if call == "capabilities" and arguments["kind"] == "kvm":
        raise HypervisorError("operation", "invalid argument: KVM is not supported by '/usr/bin/qemu-system-x86_64'")


def test_kvm_is_used_on_bare_metal_that_has_it() -> None:
    host = preflight.inspect(FakeHypervisor(), PART)  # type: ignore[arg-type]
    assert (host.accelerator, host.warnings) == ("kvm", ())
    assert host.versions == "libvirt 9.0.0, QEMU 7.2.22"


def test_without_kvm_it_is_emulated_with_a_warning_that_says_how_slow() -> None:
    host = preflight.inspect(FakeHypervisor(on_call=without_kvm), PART)  # type: ignore[arg-type]
    assert host.accelerator == "qemu"
    assert "no usable KVM" in host.warnings[0]
    assert "LEGACYPROOF_KVM=yes" in host.warnings[0]


def test_in_a_virtual_machine_kvm_is_not_believed_unless_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_in_a_virtual_machine", lambda: True)
    assert preflight.inspect(FakeHypervisor(), PART).accelerator == "qemu"  # type: ignore[arg-type]
    monkeypatch.setenv("LEGACYPROOF_KVM", "yes")
    assert preflight.inspect(FakeHypervisor(), PART).accelerator == "kvm"  # type: ignore[arg-type]


def test_kvm_that_is_demanded_and_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_KVM", "yes")
    with pytest.raises(MachineError, match="the host offers no KVM"):
        preflight.inspect(FakeHypervisor(on_call=without_kvm), PART)  # type: ignore[arg-type]
    monkeypatch.setenv("LEGACYPROOF_KVM", "perhaps")
    with pytest.raises(MachineError, match="auto, yes or no"):
        preflight.inspect(FakeHypervisor(), PART)  # type: ignore[arg-type]


def test_a_virtual_machine_is_known_by_its_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n")
    assert preflight._in_a_virtual_machine(file)
    file.write_text("processor\t: 0\nflags\t\t: fpu vme lahf_lm\n")
    assert not preflight._in_a_virtual_machine(file)
    assert preflight._in_a_virtual_machine(tmp_path / "missing")  # not known: KVM is not believed


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ({"firmware": "uefi"}, "install ovmf"),
        ({"tpm": True}, "install swtpm"),
        ({"cpus": 64}, "at most 8"),
    ],
)
def test_what_the_image_asks_for_and_the_host_lacks(part: dict[str, Any], told: str) -> None:
    with pytest.raises(MachineError, match=told):
        preflight.inspect(FakeHypervisor(), LibvirtPart(recipe="none", **part))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "message", "told"),
    [
        ("missing", "libvirt-python is not installed", r"pip install 'legacyproof\[libvirt\]'"),
        (
            "operation",
            "Failed to connect socket to '/var/run/libvirt/libvirt-sock': Permission denied",
            "group `libvirt`",
        ),
        ("permission", "authentication failed: polkit", "group `libvirt`"),
        (
            "operation",
            "Failed to connect socket to '/var/run/libvirt/libvirt-sock': No such file or directory",
            "start libvirtd",
        ),
        ("operation", "Cannot find suitable emulator for x86_64", "QEMU is not installed"),
        ("late", "libvirt did not answer within 90 s", "cannot be used"),
    ],
)
def test_a_connection_that_fails_is_told_with_its_remedy(kind: str, message: str, told: str) -> None:
    def fail(call: str, arguments: dict[str, Any]) -> None:
        raise HypervisorError(kind, message)

    with pytest.raises(MachineError, match=told):
        preflight.inspect(FakeHypervisor(uri="qemu:///system", on_call=fail), PART)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("uri", "remote"),
    [
        ("qemu:///embed", False),
        ("qemu:///system", False),
        ("qemu+unix:///system?socket=/run/libvirt/libvirt-sock", False),
        ("qemu+ssh://user@example.org:2222/system", True),
        ("qemu+ssh://localhost:2222/system", True),  # a forwarded port leads anywhere
        ("qemu+tcp://localhost/system", False),
    ],
)
def test_remote_hosts_are_known_by_their_uri(uri: str, remote: bool) -> None:
    found = preflight.inspect(FakeHypervisor(uri=uri), PART)  # type: ignore[arg-type]
    assert found.remote == remote
    assert (preflight.why_cold(PART, found) is not None) == remote


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+tls://192.0.2.7/system",
        "qemu://192.0.2.7/system",
        "qemu+tcp://example.org/system",
        "qemu+libssh2://h/system",
    ],
)
def test_other_ways_to_another_host_are_refused_before_it_is_asked_anything(uri: str) -> None:
    hypervisor = FakeHypervisor(uri=uri)
    with pytest.raises(MachineError, match=r"through SSH only.*qemu\+ssh://user@host/system"):
        preflight.inspect(hypervisor, PART)  # type: ignore[arg-type]
    assert hypervisor.calls == []
