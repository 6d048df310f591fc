"""libvirt in its own process, for real, with machines that have a firmware and nothing else: no image is needed, each takes a second."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.machines.base import MachineError, home
from runner.machines.folders import end_processes_of, processes_of
from runner.machines.images import LibvirtPart
from runner.machines.libvirt import LibvirtProvider
from runner.machines.virt import preflight
from runner.machines.virt.domain_xml import Domain, DomainTag, Hardware, Memory, Screen
from runner.machines.virt.hypervisor import EMBED, Hypervisor, HypervisorError
from runner.machines.virt.lifetime import home_id
from runner.machines.virt.running import MemoryRefused, NameTaken, RunningDomain, new_password

pytestmark = pytest.mark.vm
ROOT = Path(__file__).resolve().parents[2]
MIB = 64


@pytest.fixture(scope="module")
def libvirt() -> Iterator[Hypervisor]:
    made = Hypervisor(EMBED)
    yield made
    made.close()


@pytest.fixture
def folder(libvirt: Hypervisor, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert processes_of(tmp_path) == []


def firmware(libvirt: Hypervisor, folder: Path, name: str, memory: Memory | None = None) -> Domain:
    """A machine of 64 MiB whose firmware finds nothing to start."""
    machine = preflight.inspect(libvirt, LibvirtPart(recipe="none")).machine
    disk, root = folder / f"{name}.qcow2", libvirt.root
    assert root is not None
    if not disk.exists():
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), "1M"], check=True, timeout=60)
    return Domain(
        name=name,
        tag=DomainTag("tests", "worker", libvirt.runner, home_id()),
        hardware=Hardware("qemu", machine, 1, MIB, windows=False),
        disks=((disk, "vda"),),
        screen=Screen(0, new_password()),
        agent=root / f"{name}.agent",
        memory=memory,
    )


def start(libvirt: Hypervisor, domain: Domain, saved: Path | None = None) -> RunningDomain:
    return RunningDomain.start(libvirt, domain, saved=saved)


def test_a_machine_starts_and_ends_without_leaving_a_zombie(libvirt: Hypervisor, folder: Path) -> None:
    machine = start(libvirt, firmware(libvirt, folder, "libvirt-one"))
    assert machine.state() == "running"
    (pid,) = processes_of(folder)
    machine.destroy()
    # libvirt waits until the process number is free, and an init that reaps orphans late makes that seconds.
    assert not Path(f"/proc/{pid}").exists()
    assert machine.state() == "gone"
    machine.destroy()  # twice is no mistake


def test_a_memory_is_saved_once_and_goes_on_in_several_machines(libvirt: Hypervisor, folder: Path) -> None:
    memory, devices = folder / "memory", folder / "devices"
    first = start(libvirt, firmware(libvirt, folder, "libvirt-gold", Memory(memory, shared=True, awaited=False)))
    first.suspend()
    first.save_memory(devices)
    first.destroy()
    kept = memory.read_bytes(), devices.read_bytes()

    clones = [
        start(libvirt, firmware(libvirt, folder, f"libvirt-{n}", Memory(memory, shared=False, awaited=True)), devices)
        for n in range(2)
    ]
    assert [clone.state() for clone in clones] == ["running", "running"]
    assert len({clone.uuid for clone in clones}) == 2
    assert len({clone.display.port for clone in clones}) == 2
    assert len({clone.display.password for clone in clones}) == 2
    for clone in clones:
        clone.destroy()
    assert (memory.read_bytes(), devices.read_bytes()) == kept


def test_a_state_that_fits_no_machine_is_refused_and_leaves_nothing(libvirt: Hypervisor, folder: Path) -> None:
    (folder / "memory").write_bytes(bytes(MIB << 20))
    (folder / "devices").write_bytes(b"no state of a machine")
    domain = firmware(libvirt, folder, "libvirt-bad", Memory(folder / "memory", shared=False, awaited=True))
    with pytest.raises(MemoryRefused):
        start(libvirt, domain, folder / "devices")
    assert libvirt.call("state", timeout=20, name="libvirt-bad") == "gone"


def test_a_name_that_is_taken_is_told_and_its_domain_lives_on(libvirt: Hypervisor, folder: Path) -> None:
    first = start(libvirt, firmware(libvirt, folder, "libvirt-same"))
    with pytest.raises(NameTaken):
        start(libvirt, firmware(libvirt, folder, "libvirt-same"))
    assert first.state() == "running"
    first.destroy()


def test_a_killed_process_comes_back_and_finds_the_running_machines(libvirt: Hypervisor, folder: Path) -> None:
    machine = start(libvirt, firmware(libvirt, folder, "libvirt-lives"))
    before = libvirt.worker_pid
    os.kill(before, signal.SIGKILL)
    assert machine.state() == "running"
    assert libvirt.worker_pid != before
    machine.suspend()
    machine.resume()
    machine.destroy()


def test_a_call_that_hangs_ends_at_its_deadline_and_harms_no_machine(libvirt: Hypervisor, folder: Path) -> None:
    machine = start(libvirt, firmware(libvirt, folder, "libvirt-hangs"))
    os.kill(libvirt.worker_pid, signal.SIGSTOP)  # as if libvirt blocked for ever
    with pytest.raises(HypervisorError, match="did not answer") as caught:
        libvirt.call("state", timeout=0.5, name=machine.name)
    assert caught.value.kind == "late"
    assert machine.state() == "running"
    os.kill(libvirt.worker_pid, signal.SIGSTOP)
    assert libvirt.call("state", timeout=2.0, again=True, name=machine.name) == "running"  # asked again by itself
    machine.destroy()


def test_what_is_not_offered_is_refused(libvirt: Hypervisor) -> None:
    for call in ("last_will", "open", "__init__", "nonsense"):
        with pytest.raises(HypervisorError, match="there is no call"):
            libvirt.call(call, timeout=20)


def test_machines_end_with_their_runner(tmp_path: Path, libvirt: Hypervisor) -> None:
    """The runner is killed outright: its machines end by themselves, and libvirt's folder and what leads to it with them."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.machines.test_libvirt_worker import Hypervisor, EMBED, firmware, start\n"
        "libvirt = Hypervisor(EMBED)\n"
        "folder = Path(sys.argv[1])\n"
        "start(libvirt, firmware(libvirt, folder, 'libvirt-orphan'))\n"
        "print(libvirt.root, libvirt.runner, flush=True)\n"
        "time.sleep(60)\n"
    )
    runner = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert runner.stdout is not None
    root, token = runner.stdout.readline().split()
    mine = [Path(root), *(home() / "libvirt").glob(f"*{token}*")]
    assert len(mine) == 3
    assert Path(root).stat().st_mode & 0o777 == 0o700
    assert len([pid for pid in processes_of(tmp_path) if pid != runner.pid]) == 1
    runner.kill()
    runner.wait(20)
    deadline = time.monotonic() + 30
    while (
        processes_of(tmp_path) or any(path.is_symlink() or path.exists() for path in mine)
    ) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of(tmp_path) == []
    assert not [path for path in mine if path.is_symlink() or path.exists()]


def test_what_outlives_runner_and_worker_is_found_and_reaped(libvirt: Hypervisor) -> None:
    """Runner and worker are killed at once, as by the host's memory running out: QEMU lives on until it is reaped."""
    script = (
        "import os, time\n"
        "from runner.machines.base import Tag\n"
        "from runner.machines.folders import MachineFolder\n"
        "from tests.machines.test_libvirt_worker import Hypervisor, EMBED, firmware, start\n"
        "libvirt = Hypervisor(EMBED)\n"
        "place = MachineFolder('libvirt', Tag('killed', 'run-1'), uri=EMBED)\n"
        "start(libvirt, firmware(libvirt, place.path, place.id))\n"
        "print(place.id, libvirt.worker_pid, libvirt.root, f'run-{libvirt.runner}', flush=True)\n"
        "time.sleep(60)\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    name, worker, root, link = runner.stdout.readline().split()
    provider = LibvirtProvider()
    mine = [left for left in provider.leftovers() if left.name == name]
    assert [left.alive for left in mine] == [True]
    with pytest.raises(MachineError, match=f"in use by the runner {runner.pid}"):
        provider.reap(mine[0])
    os.kill(runner.pid, signal.SIGSTOP)
    os.kill(int(worker), signal.SIGKILL)
    runner.kill()
    runner.wait(20)
    assert len(processes_of(home() / "machines" / name)) == 1
    left = {each.name: each for each in provider.leftovers() if each.name in (name, link)}
    assert {each.alive for each in left.values()} == {False}
    assert left.keys() == {name, link}
    assert left[link].runner_pid == runner.pid
    for each in left.values():
        provider.reap(each)
    assert processes_of(home() / "machines" / name) == []
    assert not [each for each in provider.leftovers() if each.name in left]
    assert not Path(root).exists()


def test_the_tag_is_in_the_domains_metadata(libvirt: Hypervisor, folder: Path) -> None:
    machine = start(libvirt, firmware(libvirt, folder, "libvirt-tagged"))
    (tagged,) = [each["tag"] for each in libvirt.call("tagged", timeout=20) if each["name"] == machine.name]
    assert tagged == {"campaign": "tests", "run": "worker", "runner": libvirt.runner, "home": home_id()}
    machine.destroy()


def test_a_connection_that_ends_takes_only_its_own_machines_along(tmp_path: Path) -> None:
    """As on a daemon that two containers share, in which two runners may have the same process number."""
    libvirt = Hypervisor(EMBED)
    mine, theirs = (firmware(libvirt, tmp_path, f"libvirt-{whose}") for whose in ("mine", "theirs"))
    start(libvirt, mine)
    start(libvirt, replace(theirs, tag=replace(theirs.tag, runner="f" * 16, home="f" * 16)))
    libvirt.close()
    try:
        assert processes_of(mine.disks[0][0]) == []
        assert len(processes_of(theirs.disks[0][0])) == 1
    finally:
        end_processes_of(tmp_path)


def test_a_home_with_a_long_path_has_room_for_sockets(
    libvirt: Hypervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert libvirt.about
    cache = home() / "libvirt" / "cache"
    place = tmp_path / ("a long name with ü" * 6)
    (place / "libvirt").mkdir(parents=True)
    (place / "libvirt" / "cache").symlink_to(cache)  # else libvirt asks every QEMU anew what it can
    monkeypatch.setenv("LEGACYPROOF_HOME", str(place))
    far = Hypervisor(EMBED)
    try:
        machine = start(far, firmware(far, place, "libvirt-long"))
        assert machine.state() == "running"
        assert len(processes_of(place / "libvirt-long.qcow2")) == 1
        machine.destroy()
    finally:
        far.close()
    assert [each.name for each in (place / "libvirt").iterdir() if each.name not in ("cache", "home-id")] == []


def test_a_socket_does_not_outlive_its_machine(libvirt: Hypervisor, folder: Path) -> None:
    domain = firmware(libvirt, folder, "libvirt-socket")
    machine = start(libvirt, domain)
    assert domain.agent is not None
    assert domain.agent.is_socket()
    machine.destroy()
    assert not domain.agent.exists()


def test_a_connection_that_does_not_exist_is_told_in_plain_words() -> None:
    nowhere = Hypervisor("qemu+unix:///system?socket=/nonexistent/libvirt-sock")
    with pytest.raises(MachineError, match=r"libvirt does not run at .*start libvirtd"):
        preflight.inspect(nowhere, LibvirtPart(recipe="none"))
    nowhere.close()


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "libvirt.py").write_text("raise ImportError('as if it were not installed')\n")
    check = (
        "from runner.machines.images import LibvirtPart\n"
        "from runner.machines.virt import hypervisor, preflight\n"
        "try:\n"
        "    preflight.inspect(hypervisor.hypervisor('qemu:///embed'), LibvirtPart(recipe='none'))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("MachineError")
    assert "legacyproof[libvirt]" in done.stdout


def test_answers_are_json_whatever_the_machine_is_called(libvirt: Hypervisor) -> None:
    with pytest.raises(HypervisorError) as caught:
        libvirt.call("resume", timeout=20, name="no\nsuch\u2028machine")
    assert caught.value.kind == "no_domain"
    assert json.dumps(str(caught.value))
