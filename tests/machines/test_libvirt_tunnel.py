"""The screen of a machine on another host comes here through SSH, and nothing of the way stays when the machine or the runner ends."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.machines.base import MachineError
from runner.machines.virt import tunnel
from runner.machines.virt.domain_xml import Domain, DomainTag, Hardware, Screen
from runner.machines.virt.hypervisor import HypervisorError
from runner.machines.virt.running import RunningDomain
from runner.machines.virt.tunnel import Tunnel, ssh_arguments
from tests.peers import fake_ssh
from tests.peers.fake_libvirt import FakeHypervisor

URI = "qemu+ssh://user@example.org:2222/system"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return fake_ssh.install(monkeypatch, tmp_path)


@pytest.fixture
def screen() -> Iterator[socket.socket]:
    """A server on this host, which is the other host as well."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server


def port_of(server: socket.socket) -> int:
    return int(server.getsockname()[1])


def says_hello(server: socket.socket, port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        taken, _ = server.accept()
        with taken:
            taken.sendall(b"RFB 003.008\n")
            return client.recv(100) == b"RFB 003.008\n"


def refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=20).close()
    except ConnectionRefusedError:
        return True
    return False


def test_the_port_leads_there_until_it_is_closed(notes: Path, screen: socket.socket) -> None:
    opened = Tunnel(URI, port_of(screen))
    assert says_hello(screen, opened.port)
    ((*options, forwarded, dash_p, port, dashes, target, command),) = fake_ssh.calls(notes)
    assert forwarded == f"127.0.0.1:{opened.port}:127.0.0.1:{port_of(screen)}"
    assert (dash_p, port, dashes, target, command) == ("-p", "2222", "--", "user@example.org", "cat")
    assert {"BatchMode=yes", "ExitOnForwardFailure=yes", "ControlPath=none"} <= set(options)
    opened.close()
    opened.close()  # twice is no mistake
    assert refused(opened.port)


@pytest.mark.parametrize(
    ("uri", "arguments"),
    [
        ("qemu+ssh://host/system", ["--", "host"]),
        ("qemu+ssh://a%40b@host/system?keyfile=/keys/id", ["-i", "/keys/id", "--", "a@b@host"]),
        ("qemu+ssh://-oProxyCommand=evil/system", ["--", "-oproxycommand=evil"]),  # after `--` it is no option
        ("qemu+ssh://root@[2001:db8::1]:22/system", ["-p", "22", "--", "root@2001:db8::1"]),
    ],
)
def test_ssh_is_led_where_libvirt_is(uri: str, arguments: list[str]) -> None:
    assert ssh_arguments(uri) == arguments


def test_a_refusal_is_told_in_the_words_of_ssh(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_ssh.REFUSES, "user@example.org: Permission denied (publickey).")
    with pytest.raises(MachineError, match=r"Permission denied \(publickey\).*without asking"):
        Tunnel(URI, 5900)
    assert len(fake_ssh.calls(notes)) == 1


def test_a_host_that_does_not_answer_is_given_up(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_ssh.STALLS, "1")
    port = tunnel.free_port()
    monkeypatch.setattr(tunnel, "free_port", lambda: port)
    with pytest.raises(MachineError, match=r"no answer within 1 s"):
        Tunnel(URI, 5900, timeout=1)
    assert refused(port)


def test_a_port_that_is_taken_meanwhile_is_no_obstacle(
    notes: Path, screen: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = tunnel.free_port
    ports = iter([port_of(screen), free()])
    monkeypatch.setattr(tunnel, "free_port", lambda: next(ports))
    opened = Tunnel(URI, port_of(screen))
    assert len(fake_ssh.calls(notes)) == 2
    assert says_hello(screen, opened.port)
    opened.close()


def test_without_ssh_its_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match="openssh-client"):
        Tunnel(URI, 5900)


def test_it_ends_with_a_runner_that_is_killed(notes: Path, screen: socket.socket) -> None:
    script = (
        "import sys, time\n"
        "from runner.machines.virt.tunnel import Tunnel\n"
        "opened = Tunnel(sys.argv[1], int(sys.argv[2]))\n"
        "print(opened.port, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", script, URI, str(port_of(screen))]
    runner = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    port = int(runner.stdout.readline())
    assert says_hello(screen, port)
    runner.kill()
    runner.wait(20)
    deadline = time.monotonic() + 20
    while not refused(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert refused(port)


def domain() -> Domain:
    tag = DomainTag("tests", "tunnel", "0" * 16, "1" * 16)
    return Domain("libvirt-000000000000", tag, Hardware("qemu", "q35", 1, 64), (), Screen(0, "password"))


def test_a_machine_elsewhere_shows_its_screen_here_and_to_nobody_else(notes: Path, screen: socket.socket) -> None:
    hypervisor = FakeHypervisor(uri=URI, embedded=False, display_port=port_of(screen))
    running = RunningDomain.start(hypervisor, domain())  # type: ignore[arg-type]
    (xml,) = hypervisor.xml.values()
    assert 'listen="127.0.0.1"' in xml
    assert "0.0.0.0" not in xml
    assert running.display.host == "127.0.0.1"
    assert running.display.port != port_of(screen)
    assert says_hello(screen, running.display.port)
    running.destroy()
    assert refused(running.display.port)


def test_a_machine_whose_screen_cannot_be_reached_is_ended(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fake_ssh.REFUSES, "Permission denied (publickey).")
    hypervisor = FakeHypervisor(uri=URI, embedded=False, display_port=5900)
    with pytest.raises(MachineError, match="cannot be reached through SSH"):
        RunningDomain.start(hypervisor, domain())  # type: ignore[arg-type]
    assert hypervisor.domains == {}


def test_the_way_ends_even_if_the_machine_does_not(notes: Path, screen: socket.socket) -> None:
    def stuck(call: str, arguments: object) -> None:
        if call == "destroy":
            raise HypervisorError("operation", "Failed to terminate process 4711")

    hypervisor = FakeHypervisor(uri=URI, embedded=False, display_port=port_of(screen))
    running = RunningDomain.start(hypervisor, domain())  # type: ignore[arg-type]
    hypervisor.on_call = stuck
    with pytest.raises(HypervisorError, match="4711"):
        running.destroy()
    assert refused(running.display.port)
