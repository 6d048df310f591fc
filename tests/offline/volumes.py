"""NTFS volumes for the tests, made with mkntfs and filled through ntfs-3g; disks of them, made with qemu-img.

Nothing is mounted by a loop device: ntfs-3g opens the image as a file. It runs in the foreground, so that it is known to have written
everything when it has ended.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START = 1 << 20
"""Where the partition begins."""
TIMEOUT = 60
_BASIC_DATA = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"


def run(*argv: str | Path, **about: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(arg) for arg in argv], capture_output=True, text=True, timeout=TIMEOUT, check=False, **about
    )  # type: ignore[call-overload]
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done  # type: ignore[no-any-return]


def format_volume(image: Path, size: int, *, sector: int = 512, cluster: int = 4096) -> None:
    """A fresh volume in a file of its own."""
    with image.open("wb") as file:
        file.truncate(size)
    run("mkntfs", "-F", "-Q", "-q", "-L", "TEST", "-p", str(START // sector), "-H", "255", "-S", "63", "-s", str(sector), "-c", str(cluster), image)  # fmt: skip


@contextmanager
def mounted(image: Path, folder: Path, options: str = "streams_interface=windows") -> Iterator[Path]:
    """The volume's files in a folder; on leaving, everything is written and the program has ended."""
    folder.mkdir(exist_ok=True)
    process = subprocess.Popen(
        ["ntfs-3g", "-o", f"no_detach,big_writes,noatime,{options}", str(image), str(folder)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + TIMEOUT
        while not os.path.ismount(folder):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline, "ntfs-3g does not mount"
            time.sleep(0.01)
        yield folder
    finally:
        if os.path.ismount(folder):
            run("umount", folder)
        else:
            process.kill()
        process.communicate(timeout=TIMEOUT)


def disk_of(volume: Path, disk: Path) -> None:
    """A raw disk with a GUID partition table that holds the volume in its first partition."""
    size = volume.stat().st_size
    with disk.open("wb") as file:
        file.truncate(START + size + START)
    table = f"label: gpt\nstart={START // 512}, size={size // 512}, type={_BASIC_DATA}\n"
    run("sfdisk", "-q", disk, input=table)
    with volume.open("rb") as source, disk.open("r+b") as target:
        copy_into(source.fileno(), target.fileno(), START)


def copy_into(source: int, target: int, offset: int) -> None:
    """Copies what a file holds, its holes left out."""
    at, size = 0, os.fstat(source).st_size
    while at < size:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            return
        at = os.lseek(source, begin, os.SEEK_HOLE)
        while begin < at:
            data = os.pread(source, min(4 << 20, at - begin), begin)
            os.pwrite(target, data, offset + begin)
            begin += len(data)


def overlay(disk: Path, kind: str, path: Path, *, cluster: int = 65536) -> Path:
    """An empty overlay on a disk."""
    run("qemu-img", "create", "-q", "-f", "qcow2", "-o", f"cluster_size={cluster}", "-b", disk, "-F", kind, path)
    return path


@contextmanager
def partition_of(disk: Path, size: int, image: Path) -> Iterator[Path]:
    """A qcow2 disk's partition as a file that can be written, through QEMU's storage daemon."""
    image.touch()
    process = subprocess.Popen(
        [
            "qemu-storage-daemon",
            "--blockdev", f"driver=file,node-name=f,filename={disk}",
            "--blockdev", "driver=qcow2,node-name=q,file=f",
            "--blockdev", f"driver=raw,node-name=p,file=q,offset={START},size={size}",
            "--export", f"type=fuse,id=e,node-name=p,mountpoint={image},writable=on",
        ]
    )  # fmt: skip
    try:
        deadline = time.monotonic() + TIMEOUT
        while image.stat().st_size != size:
            assert process.poll() is None, "the storage daemon ended"
            assert time.monotonic() < deadline, "the storage daemon does not export"
            time.sleep(0.01)
        yield image
    finally:
        process.terminate()
        process.wait(TIMEOUT)


@contextmanager
def changing(disk: Path, size: int, scratch: Path, options: str = "streams_interface=windows") -> Iterator[Path]:
    """The files of a qcow2 disk's volume, to be changed."""
    with (
        partition_of(disk, size, scratch / "partition") as image,
        mounted(image, scratch / "mounted", options) as folder,
    ):
        yield folder


# --- ten thousand files and ten changes ---

FILES = 10_000
BIG = (2 << 30) - 2 * START


def many_files(scratch: Path) -> Path:
    """A qcow2 disk of 2 GiB with 10,000 files in 100 folders, two thirds of them resident in their records."""
    volume = scratch / "volume"
    format_volume(volume, BIG)
    with mounted(volume, scratch / "mounted") as top:
        for number in range(FILES):
            folder = top / f"dir{number // 100:03}"
            if number % 100 == 0:
                folder.mkdir()
            (folder / f"file{number:05}.dat").write_bytes(bytes([number % 251]) * (200 if number % 3 else 9000))
    raw, disk = scratch / "disk.raw", scratch / "before.qcow2"
    disk_of(volume, raw)
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, disk)
    raw.unlink()
    volume.unlink()
    return disk


def ten_changes(before: Path, scratch: Path) -> Path:
    """An overlay in which ten files were changed, each in another way."""
    after = overlay(before, "qcow2", scratch / "after.qcow2")
    with changing(after, BIG, scratch) as top:
        with (top / "dir000/file00000.dat").open("ab") as file:
            file.write(b"edited" * 100)
        (top / "dir001/new.txt").write_bytes(b"n" * 3000)
        (top / "dir002/file00201.dat").unlink()
        (top / "dir003/file00301.dat").rename(top / "dir003/renamed.dat")
        Path(f"{top}/dir004/file00401.dat:zone").write_bytes(b"[ZoneTransfer]")
        in_place = top / "dir006/file00600.dat"
        times = in_place.stat()
        with in_place.open("r+b") as file:
            file.seek(5000)
            file.write(b"XYZ")
        os.utime(in_place, ns=(times.st_atime_ns, times.st_mtime_ns))  # as a program that hides its writing
        os.setxattr(top / "dir007/file00701.dat", "system.ntfs_attrib", (0x22).to_bytes(4, "little"))
        os.utime(top / "dir008/file00801.dat", (1e9, 1e9))
        (top / "dir009/file00901.dat").rename(top / "dir010/file00901.dat")
        with (top / "dir011/file01101.dat").open("ab") as file:
            file.write(b"z" * 5000)  # no longer resident
    return after


TEN_CHANGES = {
    (r"C:\dir000\file00000.dat", "modified", "", "", ("data", "times")),
    (r"C:\dir001\new.txt", "created", "", "", ("name",)),
    (r"C:\dir002\file00201.dat", "deleted", "", "", ("name",)),
    (r"C:\dir003\renamed.dat", "renamed", r"C:\dir003\file00301.dat", "", ("name",)),
    (r"C:\dir004\file00401.dat", "modified", "", "zone", ("stream", "times")),
    (r"C:\dir006\file00600.dat", "modified", "", "", ("data",)),
    (r"C:\dir007\file00701.dat", "modified", "", "", ("attributes",)),
    (r"C:\dir008\file00801.dat", "modified", "", "", ("times",)),
    (r"C:\dir010\file00901.dat", "renamed", r"C:\dir009\file00901.dat", "", ("name",)),
    (r"C:\dir011\file01101.dat", "modified", "", "", ("data", "times")),
}
"""Path, kind, old path, stream, what."""
