"""What changed on a disk is told exactly: each way of changing a file, nothing else, and noise apart."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.offline.changes import DiskChange, changed_files
from runner.offline.disk import open_disk
from runner.offline.owners import DiskOwners
from tests.offline import volumes
from tests.offline.conftest import TwoDisks
from validators.changes import Unreadable

SIZE = 32 << 20


def told(changes: tuple[DiskChange, ...]) -> set[tuple[str, str, str, str, tuple[str, ...]]]:
    """What is no noise."""
    return {(c.path, c.kind, c.old_path, c.stream, tuple(map(str, c.what))) for c in changes if not c.noise}


def changes_of(before: Path, after: Path, *, by_wine: bool = False) -> tuple[DiskChange, ...]:
    with open_disk(before) as old, open_disk(after) as new:
        return changed_files(old, new, by_wine=by_wine)


def test_ten_changes_among_ten_thousand_files_are_found_and_nothing_else(two_disks: TwoDisks, tmp_path: Path) -> None:
    with open_disk(two_disks.before) as before, open_disk(two_disks.after) as after:
        owners = DiskOwners.kept(before, tmp_path / "owners", "sha256 of it")
        found = changed_files(before, after, owners=owners)
        again = changed_files(before, after, owners=DiskOwners.kept(before, tmp_path / "owners", "sha256 of it"))
    assert told(found) == volumes.TEN_CHANGES
    assert again == found
    assert len(found) < 40
    assert {c.noise for c in found} <= {"", "file system", "directory", "free space"}
    assert {c.size for c in found if c.path.endswith(("file00000.dat", "new.txt", "file00201.dat"))} == {
        9600,
        3000,
        9000,
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk with a few files of every sort."""
    scratch = tmp_path_factory.mktemp("small")
    volume = scratch / "volume"
    volumes.format_volume(volume, SIZE)
    with volumes.mounted(volume, scratch / "m") as top:
        (top / "data" / "deep" / "er").mkdir(parents=True)
        (top / "other").mkdir()
        (top / "big.bin").write_bytes(os.urandom(300_000))
        (top / "small.txt").write_bytes(b"resident")
        (top / "linked.txt").write_bytes(b"two names")
        os.link(top / "linked.txt", top / "other" / "second.txt")
        (top / "data" / "deep" / "er" / "x.txt").write_bytes(b"x")
        (top / "data" / "Grüße.txt").write_bytes(b"umlauts" * 1000)
        (top / "hidden.txt").write_bytes(b"h")
        (top / "pagefile.sys").write_bytes(bytes(100_000))
        many = top / "many.txt"
        many.write_bytes(b"m" * 100)
        for number in range(60):  # more than a record holds: an attribute list
            Path(f"{many}:stream{number:02}").write_bytes(b"s" * 50)
    volumes.disk_of(volume, scratch / "disk.raw")
    volumes.run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", scratch / "disk.raw", scratch / "disk.qcow2")
    return scratch / "disk.qcow2"


def _replace(top: Path) -> None:
    (top / "new").write_bytes(b"another content")
    (top / "new").replace(top / "small.txt")


def _same_again(top: Path) -> None:
    data = (top / "big.bin").read_bytes()
    (top / "big.bin").write_bytes(data)


def _stream_gone(top: Path) -> None:
    os.unlink(f"{top / 'many.txt'}:stream33")


def _in_place(top: Path) -> None:
    times = (top / "big.bin").stat()
    with (top / "big.bin").open("r+b") as file:
        file.seek(299_990)
        file.write(b"!")
    os.utime(top / "big.bin", ns=(times.st_atime_ns, times.st_mtime_ns))


def _grow_in_list(top: Path) -> None:
    Path(f"{top / 'many.txt'}:stream07").write_bytes(b"t" * 60_000)


def _below_a_renamed_folder(top: Path) -> None:
    (top / "data").rename(top / "moved")
    (top / "moved" / "deep" / "er" / "x.txt").write_bytes(b"yy")


def _junction(top: Path) -> None:
    (top / "jump").mkdir()
    os.setxattr(top / "jump", "system.ntfs_reparse_data", junction(r"C:\data"))


def _made_and_deleted(top: Path) -> None:
    (top / "gone").write_bytes(os.urandom(50_000))
    (top / "gone").unlink()


def _folders(top: Path) -> None:
    (top / "new" / "in").mkdir(parents=True)
    (top / "data" / "deep" / "er" / "x.txt").unlink()
    (top / "data" / "deep" / "er").rmdir()


CASES: dict[str, tuple[Callable[[Path], object], set[tuple[str, str, str, str, tuple[str, ...]]]]] = {
    "saved by writing anew and renaming": (
        _replace, {(r"C:\small.txt", "modified", "", "", ("data", "times"))},
    ),
    "written again with the same content": (_same_again, {(r"C:\big.bin", "modified", "", "", ("times",))}),
    "one byte of a large file, times put back": (_in_place, {(r"C:\big.bin", "modified", "", "", ("data",))}),
    "folder renamed: its files are not told again": (
        lambda top: (top / "data").rename(top / "moved"), {(r"C:\moved", "renamed", r"C:\data", "", ("name",))},
    ),
    "file changed below a renamed folder": (
        _below_a_renamed_folder,
        {
            (r"C:\moved", "renamed", r"C:\data", "", ("name",)),
            (r"C:\moved\deep\er\x.txt", "modified", r"C:\data\deep\er\x.txt", "", ("data", "times")),
        },
    ),
    "a hard link's content": (
        lambda top: (top / "linked.txt").write_bytes(b"changed"),
        {
            (r"C:\linked.txt", "modified", "", "", ("data", "times")),
            (r"C:\other\second.txt", "modified", "", "", ("data", "times")),
        },
    ),
    "a hard link gone": (
        lambda top: (top / "other/second.txt").unlink(), {(r"C:\other\second.txt", "deleted", "", "", ("name",))},
    ),
    "a new hard link": (
        lambda top: os.link(top / "small.txt", top / "third.txt"), {(r"C:\third.txt", "created", "", "", ("name",))},
    ),
    "renamed by case only": (
        lambda top: (top / "small.txt").rename(top / "SMALL.TXT"),
        {(r"C:\SMALL.TXT", "renamed", r"C:\small.txt", "", ("name",))},
    ),
    "a stream of a file with an attribute list gone": (
        _stream_gone, {(r"C:\many.txt", "modified", "", "stream33", ("stream",))},
    ),
    "a stream that becomes large in an attribute list": (
        _grow_in_list, {(r"C:\many.txt", "modified", "", "stream07", ("stream", "times"))},
    ),
    "a file with an attribute list gone": (
        lambda top: (top / "many.txt").unlink(), {(r"C:\many.txt", "deleted", "", "", ("name",))},
    ),
    "a junction made": (
        _junction,
        {(r"C:\jump", "created", "", "", ("name",))},
    ),
    "paging is noise": (lambda top: (top / "pagefile.sys").write_bytes(os.urandom(100_000)), set()),
    "a file made and deleted again": (
        _made_and_deleted, set(),
    ),
    "folders made and deleted": (
        _folders,
        {
            (r"C:\new", "created", "", "", ("name",)),
            (r"C:\new\in", "created", "", "", ("name",)),
            (r"C:\data\deep\er\x.txt", "deleted", "", "", ("name",)),
            (r"C:\data\deep\er", "deleted", "", "", ("name",)),
        },
    ),
    "nothing": (lambda top: None, set()),
}  # fmt: skip


def junction(target: str) -> bytes:
    """A mount point's reparse data ([MS-FSCC] 2.1.2.5)."""
    name, shown = f"\\??\\{target}".encode("utf-16-le"), target.encode("utf-16-le")
    places = [0, len(name), len(name) + 2, len(shown)]
    data = b"".join(place.to_bytes(2, "little") for place in places) + name + b"\0\0" + shown + b"\0\0"
    return (0xA0000003).to_bytes(4, "little") + len(data).to_bytes(2, "little") + b"\0\0" + data


@pytest.mark.parametrize("case", CASES)
def test_each_way_of_changing_is_told(small: Path, case: str, tmp_path: Path) -> None:
    change, expected = CASES[case]
    after = volumes.overlay(small, "qcow2", tmp_path / "after.qcow2")
    with volumes.changing(after, SIZE, tmp_path) as top:
        change(top)
    found = changes_of(small, after)
    assert told(found) == expected
    if case == "paging is noise":
        assert ("paging", r"C:\pagefile.sys") in {(c.noise, c.path) for c in found}


def test_attributes_that_wine_keeps_in_a_stream_are_attributes(small: Path, tmp_path: Path) -> None:
    after = volumes.overlay(small, "qcow2", tmp_path / "after.qcow2")
    with volumes.changing(after, SIZE, tmp_path, "permissions,streams_interface=xattr") as top:
        os.setxattr(top / "hidden.txt", "user.DOSATTRIB", b"0x2")
        (top / "small.txt").chmod(0o444)
    found = told(changes_of(small, after, by_wine=True))
    assert found == {
        (r"C:\hidden.txt", "modified", "", "", ("attributes",)),
        (r"C:\small.txt", "modified", "", "", ("attributes",)),
    }
    assert (r"C:\hidden.txt", "modified", "", "DOSATTRIB", ("stream",)) in told(changes_of(small, after))


def test_changes_in_two_layers_are_told_together(small: Path, tmp_path: Path) -> None:
    middle = volumes.overlay(small, "qcow2", tmp_path / "middle.qcow2")
    with volumes.changing(middle, SIZE, tmp_path) as top:
        (top / "first.txt").write_bytes(b"1")
    after = volumes.overlay(middle, "qcow2", tmp_path / "after.qcow2")
    with volumes.changing(after, SIZE, tmp_path) as top:
        (top / "second.txt").write_bytes(b"2")
    assert {path for path, *_ in told(changes_of(small, after))} == {r"C:\first.txt", r"C:\second.txt"}
    assert {path for path, *_ in told(changes_of(middle, after))} == {r"C:\second.txt"}


def test_what_lies_outside_of_the_volume_is_told(small: Path, tmp_path: Path) -> None:
    after = volumes.overlay(small, "qcow2", tmp_path / "after.qcow2")
    volumes.run("qemu-io", "-f", "qcow2", "-c", "write -P 7 524288 4096", after)
    assert told(changes_of(small, after)) == {("(outside of partitions)", "modified", "", "", ("data",))}


def test_a_disk_without_partitions_is_told_as_one_place(tmp_path: Path) -> None:
    volumes.run("qemu-img", "create", "-q", "-f", "qcow2", tmp_path / "before.qcow2", "8M")
    after = volumes.overlay(tmp_path / "before.qcow2", "qcow2", tmp_path / "after.qcow2")
    volumes.run("qemu-io", "-f", "qcow2", "-c", "write -P 7 524288 8192", after)
    found = changes_of(tmp_path / "before.qcow2", after)
    assert [(change.path, change.size) for change in found] == [("(outside of partitions)", 8192)]


def test_another_partition_table_cannot_be_compared(small: Path, tmp_path: Path) -> None:
    after = volumes.overlay(small, "qcow2", tmp_path / "after.qcow2")
    volumes.run(
        "qemu-io",
        "-f",
        "qcow2",
        "-c",
        "write -P 0 512 512",
        "-c",
        f"write -z {SIZE + volumes.START} {volumes.START}",
        after,
    )
    with pytest.raises(Unreadable, match="partition table"):
        changes_of(small, after)


def test_a_disk_that_does_not_lie_on_the_other_is_refused(small: Path, two_disks: TwoDisks) -> None:
    with pytest.raises(Unreadable, match="does not sit on"):
        changes_of(two_disks.before, small)


def test_an_index_of_another_disk_or_damaged_is_made_anew(small: Path, tmp_path: Path) -> None:
    kept = tmp_path / "owners"
    with open_disk(small) as disk:
        DiskOwners.kept(disk, kept, "a")
        first = kept.read_bytes()
        for damage in (
            b"",
            first[:-8],
            first[:-1] + bytes([first[-1] ^ 1]),
            b"{}\n" + first,
            b"[1]\n",
            first.replace(b'"a"', b'"b"'),
        ):
            kept.write_bytes(damage)
            DiskOwners.kept(disk, kept, "a")
            assert kept.read_bytes() == first
        assert [path.name for path in tmp_path.iterdir()] == ["owners"]
