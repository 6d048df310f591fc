"""What runs in a bare Debian is shut in there, and leaves neither a process nor a mount behind, however it ends."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.bare.handed_in import HandedIn
from tests.bare.root import BareRoot, Failed

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one folder the root of everything")


@pytest.fixture
def root(tmp_path: Path) -> BareRoot:
    """A root that shows this computer's programs, to save making one; everything else in it is its own."""
    folder, given = tmp_path / "root", tmp_path / "given"
    for name in ("src", "proc", "sys", "dev", "run", "tmp", "root", "usr", "etc", "host"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / name).symlink_to(f"/host/usr/{name}")
    (folder / "usr").rmdir()
    (folder / "usr").symlink_to("host/usr")
    given.mkdir()
    (given / "package").write_text("wheel")
    return BareRoot(folder, HandedIn({"PIP_X": "y"}, {}, (Path("/usr"), given)))


def processes_with(mark: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            found += [folder.name] if mark.encode() in (folder / "environ").read_bytes() else []
        except OSError:
            continue
    return found


def test_the_computers_own_files_are_out_of_reach(root: BareRoot, tmp_path: Path) -> None:
    out = tmp_path / "root/src/out"
    root.run(f"ls / >out; cat /host{tmp_path}/given/package >>out; ls -d {tmp_path} >>out 2>&1 || echo none >>out")
    names = out.read_text().split()
    assert {"src", "host"} <= set(names)
    assert not {"home", "opt", ".computer"} & set(names)
    assert names[-1] == "none"
    assert "wheel" in out.read_text()
    with pytest.raises(Failed, match="status 1"):
        root.run(f"echo more >/host{tmp_path}/given/package")
    assert (tmp_path / "given/package").read_text() == "wheel"


def test_namespaces_can_be_nested_as_machines_do(root: BareRoot) -> None:
    root.run("unshare --mount --propagation private -- true")
    root.run("setpriv --reuid=65534 --regid=65534 --clear-groups unshare --user --map-root-user --mount true")
    root.run(
        "mkdir -p /tmp/a; bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp true"
    )
    root.run("test ! -e /dev/kvm && test -c /dev/fuse && echo x >/dev/null && test -r /dev/urandom")


def test_what_it_leaves_running_ends_with_it(root: BareRoot) -> None:
    mark = f"MARK={root.folder}"
    before = Path("/proc/mounts").read_text()
    root.run(f"export {mark}; setsid sleep 600 >/dev/null 2>&1 & sleep 0.2")
    assert processes_with(mark) == []
    with pytest.raises(Failed, match="status 7"):
        root.run(f"export {mark}; (setsid sleep 600 >/dev/null 2>&1 &); exit 7")
    assert processes_with(mark) == []
    assert Path("/proc/mounts").read_text() == before


def test_a_killed_parent_takes_it_along(root: BareRoot) -> None:
    mark = f"MARK={root.folder}"
    child = os.fork()
    if child == 0:
        try:
            root.run(f"export {mark}; sleep 600")
        finally:
            os._exit(1)
    deadline = time.monotonic() + 60
    while not processes_with(mark):
        assert time.monotonic() < deadline, "it does not start"
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    while processes_with(mark):
        assert time.monotonic() < deadline + 60, "it goes on"
        time.sleep(0.05)
    subprocess.run(["rm", "-r", root.folder / "src"], check=True, timeout=60)
