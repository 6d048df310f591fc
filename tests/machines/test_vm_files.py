"""The disks of virtual machines: nothing is used whose contents are not those recorded; a build goes on where it stopped."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from contracts.load import ContractError, read_model
from runner.commands import image as command
from runner.commands import terminal
from runner.machines import file_hash, vm_files
from runner.machines.base import MachineError, lock
from runner.machines.images import Image, ImageManifest, find_image


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGACYPROOF_HOME", str(tmp_path / "home"))


def manifest(folder: Path, libvirt: str) -> Image:
    path = folder / "box.yaml"
    path.write_text(f"schema: 1\nname: box\nprovider: libvirt\nsummary: A box.\nlibvirt: {libvirt}\n")
    return Image(read_model(path, ImageManifest), path)


def own_disk(folder: Path, content: bytes, named: bytes | None = None, file: str = "disks/win.img") -> Image:
    path = folder / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    digest = hashlib.sha256(content if named is None else named).hexdigest()
    return manifest(folder, f"{{disks: [{{file: {file}, sha256: {digest}, drive: C}}]}}")


STEPS = {
    "1-first.sh": '# the first\necho "$WIDTH" >out.img\necho first >>"$RECIPE/../ran"\n',
    "2-second.sh": '# the second\necho second >>"$RECIPE/../ran"\ntest ! -e "$RECIPE/../fail" || { echo "no luck today"; exit 3; }\n',
}


def recipe(folder: Path, outcome: str = '{"disks": [{"file": "out.img", "target": "vda", "drive": "C"}]}') -> Image:
    steps = folder / "box" / "steps"
    steps.mkdir(parents=True)
    for name, script in STEPS.items():
        (steps / name).write_text(script)
    (folder / "box" / "guest.json").write_text(outcome)
    return manifest(folder, "{recipe: box}")


def ran(folder: Path) -> list[str]:
    return (folder / "ran").read_text().split()


def silent(_: str) -> None:
    pass


def test_a_disk_of_ones_own_lies_beside_the_manifest_or_anywhere(tmp_path: Path) -> None:
    image = own_disk(tmp_path, b"windows")
    made = vm_files.vm_files(image)
    (disk,) = made.disks
    assert (disk.path, disk.target, disk.drive, disk.format) == (tmp_path / "disks/win.img", "vda", "C", "raw")
    assert (made.kernel, made.keymap) == (None, None)
    (tmp_path / "elsewhere").mkdir()
    absolute = manifest(
        tmp_path / "elsewhere",
        f"{{disks: [{{file: {tmp_path}/disks/win.img, sha256: {hashlib.sha256(b'windows').hexdigest()}}}]}}",
    )
    assert vm_files.vm_files(absolute).disks[0].path == tmp_path / "disks/win.img"


def test_a_missing_disk_is_named(tmp_path: Path) -> None:
    image = own_disk(tmp_path, b"windows")
    (tmp_path / "disks/win.img").unlink()
    with pytest.raises(MachineError, match=r"disks/win\.img is missing"):
        vm_files.vm_files(image)


def test_an_altered_disk_is_named_with_its_hash(tmp_path: Path) -> None:
    image = own_disk(tmp_path, b"altered", named=b"windows")
    with pytest.raises(MachineError, match=rf"win\.img was altered: .*{hashlib.sha256(b'altered').hexdigest()}"):
        vm_files.vm_files(image)


def test_a_disk_changed_with_its_times_put_back_is_found(tmp_path: Path) -> None:
    image = own_disk(tmp_path, b"windows")
    vm_files.vm_files(image)
    path = tmp_path / "disks/win.img"
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"W")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(MachineError, match="was altered"):
        vm_files.vm_files(image)


def test_a_disk_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = own_disk(tmp_path, b"windows")
    vm_files.vm_files(image)

    def refuse(*_: object) -> None:
        raise AssertionError("hashed again")

    monkeypatch.setattr("hashlib.file_digest", refuse)
    path = tmp_path / "disks/win.img"
    assert file_hash.sha256(path) == hashlib.sha256(b"windows").hexdigest()
    (tmp_path / "renamed").mkdir()
    os.utime(path)
    with pytest.raises(AssertionError, match="hashed again"):
        file_hash.sha256(path)


def test_a_damaged_hash_cache_is_not_believed(tmp_path: Path) -> None:
    image = own_disk(tmp_path, b"windows")
    vm_files.vm_files(image)
    for kept in (tmp_path / "home/hashes").iterdir():
        kept.write_text('{"state": []')
    assert vm_files.vm_files(image).disks[0].sha256 == hashlib.sha256(b"windows").hexdigest()


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"QFI\xfb\0\0\0\3" + (104).to_bytes(8, "big") + bytes(90), "holds only what differs from another file"),
        (b"QFI\xfb\0\0\0\3" + bytes(71) + b"\4" + bytes(30), "keeps its contents in another file"),
        (b"KDMV" + bytes(100), "neither a qcow2 nor a raw disk"),
        (b"vhdxfile" + bytes(100), "neither a qcow2 nor a raw disk"),
    ],
)
def test_a_disk_whose_hash_would_not_cover_its_contents_is_refused(tmp_path: Path, head: bytes, why: str) -> None:
    with pytest.raises(MachineError, match=why):
        vm_files.vm_files(own_disk(tmp_path, head))


def test_a_whole_qcow2_is_accepted(tmp_path: Path) -> None:
    image = own_disk(tmp_path, b"QFI\xfb\0\0\0\3" + bytes(100))
    assert vm_files.vm_files(image).disks[0].format == "qcow2"


@pytest.mark.parametrize(
    "part",
    [
        "{}",
        "{recipe: box, disks: [{file: a, sha256: " + "0" * 64 + "}]}",
        "{disks: [{file: a, sha256: ABC}]}",
        "{disks: [{file: a}]}",
        "{recipe: ../box}",
    ],
)
def test_a_manifest_that_does_not_say_what_its_disks_are_is_refused(tmp_path: Path, part: str) -> None:
    with pytest.raises(ContractError):
        manifest(tmp_path, part)


def test_an_image_that_is_no_virtual_machine_has_no_disks() -> None:
    with pytest.raises(MachineError, match="no virtual machine"):
        vm_files.vm_files(find_image("dentadesk"))


def test_an_image_that_is_not_built_says_how(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="is not built: run `legacyproof image build box`"):
        vm_files.vm_files(recipe(tmp_path))


def test_a_built_image_is_sealed_and_found(tmp_path: Path) -> None:
    image = recipe(tmp_path)
    said: list[str] = []
    made = vm_files.build(image, said.append)
    assert made == vm_files.vm_files(image)
    assert made.disks[0].path.read_text() == "1024\n"
    assert made.disks[0].path.stat().st_mode & 0o222 == 0
    assert made.disks[0].sha256 == hashlib.sha256(b"1024\n").hexdigest()
    assert said == ["box, step 1 of 2: the first", "box, step 2 of 2: the second"]
    vm_files.build(image, silent)
    assert ran(tmp_path) == ["first", "second"]


def test_a_finished_step_stays_when_the_next_fails(tmp_path: Path) -> None:
    image = recipe(tmp_path)
    (tmp_path / "fail").touch()
    with pytest.raises(MachineError, match=r"2-second\.sh ended with status 3: no luck today"):
        vm_files.build(image, silent)
    with pytest.raises(MachineError, match="is not built"):
        vm_files.vm_files(image)
    (tmp_path / "fail").unlink()
    said: list[str] = []
    vm_files.build(image, said.append)
    assert ran(tmp_path) == ["first", "second", "second"]
    assert said[0] == "box, step 1 of 2: the first: done before"


def test_a_changed_recipe_is_another_image(tmp_path: Path) -> None:
    image = recipe(tmp_path)
    vm_files.build(image, silent)
    (tmp_path / "box/steps/2-second.sh").write_text("# the second, better\ntrue\n")
    with pytest.raises(MachineError, match="was built from other sources"):
        vm_files.vm_files(image)
    vm_files.build(image, silent)
    vm_files.vm_files(image)


@pytest.mark.parametrize("how", ["altered", "missing", "record"])
def test_a_built_image_that_was_tampered_with_is_refused_and_built_anew(tmp_path: Path, how: str) -> None:
    image = recipe(tmp_path)
    disk = vm_files.build(image, silent).disks[0].path
    if how == "altered":
        disk.chmod(0o644)
        disk.write_text("1025\n")
    elif how == "missing":
        disk.unlink()
    else:
        (disk.parent / "image.json").write_text('{"schema": 1}')
    with pytest.raises(
        MachineError, match=r"image\.json cannot be read" if how == "record" else rf"out\.img .*{how}|{how}"
    ):
        vm_files.vm_files(image)
    said: list[str] = []
    vm_files.build(image, said.append)
    assert "builds the image anew" in said[0]
    assert vm_files.vm_files(image).disks[0].path.read_text() == "1024\n"


def test_a_recipe_that_does_not_make_what_it_says_is_refused(tmp_path: Path) -> None:
    image = recipe(tmp_path, '{"disks": [{"file": "other.img", "target": "vda"}]}')
    with pytest.raises(MachineError, match=r"did not make other\.img"):
        vm_files.build(image, silent)


@pytest.mark.parametrize(
    "outcome", ["{}", '{"disks": []}', '{"disks": [{"file": "../x", "target": "vda"}]}', "no json"]
)
def test_a_recipe_that_does_not_say_what_it_makes_is_refused(tmp_path: Path, outcome: str) -> None:
    with pytest.raises(MachineError, match=r"guest\.json"):
        vm_files.build(recipe(tmp_path, outcome), silent)


def test_a_step_that_never_ends_is_stopped_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = recipe(tmp_path)
    (tmp_path / "box/steps/1-first.sh").write_text('# for ever\nsleep 600 & echo $! >"$RECIPE/../pid"\nwait\n')
    monkeypatch.setattr(vm_files, "_STEP_TIMEOUT", 0.2)
    monkeypatch.setattr(vm_files, "_SAY_EVERY", 0.1)
    said: list[str] = []
    with pytest.raises(MachineError, match=r"1-first\.sh did not end"):
        vm_files.build(image, said.append)
    assert any("…" in line for line in said)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_builds_do_not_meet(tmp_path: Path) -> None:
    image = recipe(tmp_path)
    folder = vm_files.built_at(image, vm_files.fingerprint(image))
    folder.parent.mkdir(parents=True)
    held = lock(folder.with_name(f"{folder.name}.lock"))
    assert held is not None
    waits = threading.Event()
    done: list[vm_files.VmFiles] = []
    other = threading.Thread(
        target=lambda: done.append(vm_files.build(image, lambda line: waits.set() if "waiting" in line else None))
    )
    other.start()
    try:
        assert waits.wait(20)
        assert not (tmp_path / "ran").exists()
    finally:
        held.close()
        other.join(30)
    assert done[0].fingerprint == vm_files.fingerprint(image)
    assert ran(tmp_path) == ["first", "second"]


def test_the_list_tells_the_state_of_each_image_and_of_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "schema: 1\nprovider: wine\nsummary: A desk.\n"
    (tmp_path / "desk.yaml").write_text(head + "name: desk\n")
    (tmp_path / "bad.yaml").write_text(head + "name: bad\ncolour: red\n")
    (tmp_path / "save-note.yaml").write_text("schema: 1\nid: a.b\n")
    (tmp_path / "golden.yaml").write_text("steps: []\n")
    monkeypatch.setenv("LEGACYPROOF_IMAGES", str(tmp_path))
    monkeypatch.setattr(terminal.out, "width", 400)
    app = typer.Typer()
    command.add_to(app)
    app.command("other")(lambda: None)  # an application of one command would have no names of commands
    done = CliRunner().invoke(app, ["image", "list"])
    rows = {cells[1]: cells[-2] for line in done.stdout.splitlines() if len(cells := re.split(r"\s*[│|]\s*", line)) > 2}
    assert rows.keys() == {"bad", "debian-wine", "dentadesk", "desk"}
    assert "bad.yaml:5" in rows["bad"]
    assert rows["desk"] == "made when it is first used"
    assert "legacyproof image build" in rows["debian-wine"]


def test_the_recipe_of_the_house_is_complete() -> None:
    image = find_image("debian-wine")
    assert image.manifest.libvirt is not None
    assert (image.manifest.libvirt.runs, image.manifest.programs) == ("wine", find_image("dentadesk").manifest.programs)
    folder = image.folder / "debian-wine"
    symbols = (folder / "xkb/symbols/legacyproof").read_text()
    keys = [line.split() for line in (folder / "vnc-keymap").read_text().splitlines() if not line.startswith("#")]
    for letter in ("adiaeresis", "odiaeresis", "udiaeresis", "Adiaeresis", "ssharp", "EuroSign", "eacute"):
        assert letter in symbols
        assert letter in [key[0] for key in keys]
    assert {key[1] for key in keys if key[0] == "at"} == {"0x03"}
