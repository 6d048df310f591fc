"""What dead runners left is removed; what belongs to living ones, to other homes or to others altogether is not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.machines import folders
from runner.machines.base import Leftover, MachineError, Tag, lock
from runner.machines.virt import reaper
from runner.machines.virt.domain_xml import Domain, DomainTag, Hardware, Screen, xml_of
from runner.machines.virt.hypervisor import HypervisorError
from runner.machines.virt.lifetime import RunnerFiles, home_id, libvirt_folder, new_token
from tests.peers.fake_libvirt import FakeHypervisor

SYSTEM = "qemu:///system"
OTHER = "qemu+ssh://host/system"
NAME = "libvirt-0123456789ab"


@pytest.fixture(autouse=True)
def daemons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, FakeHypervisor]:
    """Two daemons that this home's machines ran under."""
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))
    made = {uri: FakeHypervisor(uri=uri, embedded=False) for uri in (SYSTEM, OTHER)}
    monkeypatch.setattr(reaper, "hypervisor", made.__getitem__)
    for uri in made:
        reaper.remember(uri)
    return made


@pytest.fixture
def system(daemons: dict[str, FakeHypervisor]) -> FakeHypervisor:
    return daemons[SYSTEM]


def add(daemon: FakeHypervisor, tag: DomainTag, name: str = NAME) -> None:
    daemon.domains[name] = "running"
    daemon.xml[name] = xml_of(Domain(name, tag, Hardware("qemu", "q35", 1, 64), (), Screen(0, "password")))


def dead() -> DomainTag:
    return DomainTag("campaign-1", "run-1", new_token(), home_id())


def silent(call: str, arguments: dict[str, Any]) -> None:
    if call == "tagged":
        raise HypervisorError("connection", "Failed to connect socket: Connection refused")


def dead_machine(uri: str = SYSTEM) -> Leftover:
    folders.MachineFolder("libvirt", Tag("campaign-1", "run-1"), uri=uri).quarantine("its runner was killed")
    (left,) = folders.leftovers("libvirt")
    return left


# -- domains ------------------------------------------------------------------------------------------------------------


def test_a_domain_of_a_dead_runner_is_listed_and_ended(system: FakeHypervisor) -> None:
    add(system, dead())
    (left,) = reaper.leftovers()
    assert (left.name, left.campaign, left.run, left.alive) == (NAME, "campaign-1", "run-1", False)
    reaper.reap(left)
    assert system.domains == {}
    assert reaper.leftovers() == []


def test_a_domain_of_a_living_runner_is_left_alone(system: FakeHypervisor) -> None:
    tag = dead()
    files = RunnerFiles(libvirt_folder(), tag.runner)
    held = files.enter()
    add(system, tag)
    (left,) = reaper.leftovers()
    assert left.alive
    assert left.runner_pid == os.getpid()
    with pytest.raises(MachineError, match=f"in use by the runner {os.getpid()}"):
        reaper.reap(left)
    with pytest.raises(MachineError, match="in use"):  # nor if it was listed before its runner began
        reaper.reap(replace(left, alive=False))
    assert system.domains == {NAME: "running"}
    held.close()
    reaper.reap(left)
    assert system.domains == {}


def test_a_domain_of_another_home_is_not_ours_even_if_its_runner_seems_dead(system: FakeHypervisor) -> None:
    """Another container on the same daemon: neither its processes nor its locks can be seen from here."""
    add(system, replace(dead(), home=new_token()))
    assert reaper.leftovers() == []
    reaper.reap(Leftover(NAME, "campaign-1", "run-1", 0, alive=False, folder=folders.machines() / NAME))
    assert system.domains == {NAME: "running"}


@pytest.mark.parametrize("name", ["..", "libvirt-0123456789ab.bak", "../../somewhere"])
def test_a_domain_whose_name_is_none_of_ours_is_left_alone(system: FakeHypervisor, name: str) -> None:
    add(system, dead(), name)
    assert reaper.leftovers() == []


def test_the_id_of_a_home_stays_and_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = home_id()
    assert home_id() == mine
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "other"))
    assert home_id() != mine
    (libvirt_folder() / "home-id").write_text("../..")
    with pytest.raises(MachineError, match="does not hold the id"):
        home_id()


# -- daemons that do not answer -----------------------------------------------------------------------------------------


def test_a_silent_daemon_keeps_nobody_from_seeing_the_rest(daemons: dict[str, FakeHypervisor]) -> None:
    add(daemons[OTHER], dead())
    daemons[SYSTEM].on_call = silent
    left = dead_machine()
    assert {each.name for each in reaper.leftovers()} == {left.name, NAME}


def test_a_machine_whose_daemon_is_silent_keeps_its_folder(system: FakeHypervisor) -> None:
    """The daemon starts anew at this moment: the domain may still be writing to the disks in there."""
    left = dead_machine()
    add(system, dead(), left.name)
    (left.folder / "vda.qcow2").write_bytes(b"disk")
    system.on_call = silent
    with pytest.raises(MachineError, match="Connection refused"):
        reaper.reap(left)
    assert (left.folder / "vda.qcow2").read_bytes() == b"disk"
    assert "destroy" not in system.calls

    system.on_call = lambda call, arguments: None
    reaper.reap(left)
    assert system.domains == {}
    assert not left.folder.exists()


def test_a_domain_is_not_called_gone_while_a_daemon_is_silent(daemons: dict[str, FakeHypervisor]) -> None:
    add(daemons[SYSTEM], dead())
    (left,) = reaper.leftovers()
    daemons[SYSTEM].on_call = silent
    with pytest.raises(MachineError, match="Connection refused"):
        reaper.reap(left)
    add(daemons[OTHER], dead())
    reaper.reap(left)  # it is found elsewhere
    assert daemons[OTHER].domains == {}


# -- processes ----------------------------------------------------------------------------------------------------------


def test_another_users_process_is_told_and_the_folder_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a daemon's QEMU is, which runs as a user of its own."""
    left = dead_machine()
    command = [sys.executable, "-c", "import time; time.sleep(60)", str(left.folder / "vda.qcow2")]
    with subprocess.Popen(command) as process:

        def refuse(pid: int, number: int) -> None:
            assert pid == process.pid
            raise PermissionError(1, "Operation not permitted")

        end = folders.end_processes_of
        monkeypatch.setattr(folders, "end_processes_of", lambda folder: end(folder, timeout=0.1))
        try:
            with monkeypatch.context() as patched:
                patched.setattr(os, "kill", refuse)
                with pytest.raises(MachineError, match=f"{process.pid}; another user's"):
                    reaper.reap(left)
            assert left.folder.is_dir()
        finally:
            process.kill()
    reaper.reap(left)
    assert not left.folder.exists()


# -- libvirt's own folders ----------------------------------------------------------------------------------------------


def dead_connection() -> RunnerFiles:
    files = RunnerFiles(libvirt_folder(), new_token())
    files.enter().close()
    return files


def test_the_folder_of_sockets_is_short_private_and_found_through_a_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / ("max.mustermann" * 10)))
    files = dead_connection()
    root = files.make_root()
    try:
        assert root.parent == Path("/tmp")
        assert root.stat().st_mode & 0o777 == 0o700
        assert files.root == root
        (left,) = reaper.leftovers()
        assert (left.name, left.runner_pid, left.alive) == (files.link.name, os.getpid(), False)
        reaper.reap(left)
        assert not root.exists()
    finally:
        files.remove()
    assert reaper.leftovers() == []
    assert not files.link.is_symlink()


def test_a_living_connection_is_not_a_leftover() -> None:
    files = RunnerFiles(libvirt_folder(), new_token())
    held = files.enter()
    assert files.alive
    assert reaper.leftovers() == []
    left = Leftover(files.link.name, "libvirt", files.link.name, 0, alive=False, folder=files.link)
    with pytest.raises(MachineError, match="in use"):
        reaper.reap(left)
    assert files.lock.exists()
    held.close()


def test_a_link_that_leads_nowhere_is_simply_removed() -> None:
    files = dead_connection()
    files.make_root().rmdir()
    (left,) = reaper.leftovers()
    reaper.reap(left)
    reaper.reap(left)  # twice is no mistake
    assert list(libvirt_folder().glob("*run-*")) == []
    assert list(libvirt_folder().glob("*.lock")) == []


def test_what_a_link_leads_to_is_spared_unless_it_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "letter.txt").write_text("kept")
    file = tmp_path / "lp-file"
    file.write_text("kept")
    indirect = tmp_path / "lp-indirect"
    indirect.symlink_to(documents)
    for target in (documents, file, indirect):
        files = dead_connection()
        files.link.symlink_to(target)
        assert files.root is None
        (left,) = reaper.leftovers()
        reaper.reap(left)
        assert not files.link.is_symlink()
    assert (documents / "letter.txt").read_text() == file.read_text() == "kept"
    assert indirect.is_symlink()

    foreign = tmp_path / "lp-foreign"
    foreign.mkdir()
    files = dead_connection()
    files.link.symlink_to(foreign)
    assert files.root == foreign
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert files.root is None


def test_what_is_no_token_is_no_connection(tmp_path: Path) -> None:
    for name in ("other.lock", "0123456789abcdeg.lock", "0123456789abcdef0.lock"):
        held = lock(libvirt_folder() / name)
        assert held is not None
        held.close()
    assert reaper.leftovers() == []
