"""Disk images are read as QEMU reads them, and what is damaged or hostile is refused."""

from __future__ import annotations

import json
import os
import random
import struct
from pathlib import Path

import pytest

from runner.offline.disk import open_disk
from runner.offline.partitions import Partition, partitions
from runner.offline.source import Memory
from tests.offline.volumes import overlay, run
from validators.changes import Unreadable

SIZE = 8 << 20


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raw disk with data, zeros and holes."""
    path = tmp_path_factory.mktemp("raw") / "disk.raw"
    rng = random.Random(5)
    with path.open("wb") as file:
        file.truncate(SIZE)
        for _ in range(40):
            file.seek(rng.randrange(SIZE - 70_000))
            file.write(rng.randbytes(rng.choice((512, 4096, 70_000))) if rng.random() < 0.8 else bytes(5000))
    return path


def whole(path: Path, tmp_path: Path) -> bytes:
    """The disk as QEMU reads it."""
    run("qemu-img", "convert", "-O", "raw", path, tmp_path / "whole.raw")
    return (tmp_path / "whole.raw").read_bytes()


OPTIONS = {
    "usual": ["-O", "qcow2"],
    "small clusters": ["-O", "qcow2", "-o", "cluster_size=512"],
    "large clusters": ["-O", "qcow2", "-o", "cluster_size=2M"],
    "old version": ["-O", "qcow2", "-o", "compat=0.10"],
    "compressed": ["-O", "qcow2", "-c"],
    "compressed, large clusters": ["-O", "qcow2", "-c", "-o", "cluster_size=1M"],
    "preallocated": ["-O", "qcow2", "-o", "preallocation=metadata"],
}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_chain_is_read_as_qemu_reads_it(options: str, raw: Path, tmp_path: Path) -> None:
    base, middle, top = (tmp_path / name for name in ("base.qcow2", "middle.qcow2", "top.qcow2"))
    run("qemu-img", "convert", "-f", "raw", *OPTIONS[options], raw, base)
    overlay(base, "qcow2", middle, cluster=4096)
    run(
        "qemu-io",
        "-f",
        "qcow2",
        "-c",
        "write -P 1 100000 150000",
        "-c",
        "write -z 1048576 65536",
        "-c",
        "write -P 9 0 512",
        middle,
    )
    overlay(middle, "qcow2", top)
    run(
        "qemu-io",
        "-f",
        "qcow2",
        "-c",
        "write -P 2 120000 10",
        "-c",
        "discard 2097152 131072",
        "-c",
        "write -P 3 8388000 608",
        top,
    )
    expected = whole(top, tmp_path)
    with open_disk(top) as disk, open_disk(base) as below, open_disk(middle) as between:
        assert disk.size == SIZE
        assert disk.read(0, SIZE) == expected
        rng = random.Random(1)
        for _ in range(300):
            at = rng.randrange(SIZE)
            length = rng.randrange(min(300_000, SIZE - at) + 1)
            assert disk.read(at, length) == expected[at : at + length]
        # What the files above hold covers all that differs, and is what QEMU tells of them.
        old = below.read(0, SIZE)
        inside = disk.allocated_above(below)
        for at in range(0, SIZE, 512):
            if old[at : at + 512] != expected[at : at + 512]:
                assert any(start <= at < start + length for start, length in inside)
        assert between.allocated_above(below) == mapped(middle)
        assert disk.allocated_above(between) == mapped(top)
        assert disk.allocated_above(disk) == []


def mapped(path: Path) -> list[tuple[int, int]]:
    """The ranges that an overlay holds itself, by ``qemu-img map``."""
    found: list[tuple[int, int]] = []
    for extent in json.loads(run("qemu-img", "map", "-U", "--output=json", path).stdout):
        if extent["depth"] == 0 and extent["present"]:
            if found and sum(found[-1]) == extent["start"]:
                found[-1] = found[-1][0], found[-1][1] + extent["length"]
            else:
                found.append((extent["start"], extent["length"]))
    return found


def test_an_overlay_larger_than_its_base_ends_in_zeros(raw: Path, tmp_path: Path) -> None:
    top = tmp_path / "top.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-b", raw, "-F", "raw", top, str(SIZE + 1_000_448))
    with open_disk(top) as disk:
        assert disk.read(SIZE - 100, 1_000_548) == raw.read_bytes()[-100:] + bytes(1_000_448)


def test_reading_beyond_the_disk_is_refused(raw: Path) -> None:
    with open_disk(raw, "raw") as disk:
        for place, length in ((SIZE, 1), (-1, 1), (0, SIZE + 1), (5, -1)):
            with pytest.raises(Unreadable):
                disk.read(place, length)
        assert disk.read(SIZE, 0) == b""


def test_what_is_not_supported_is_named(raw: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.qcow2"
    for options, what in (
        (["-o", "extended_l2=on"], "not supported"),
        (["-o", f"data_file={tmp_path / 'data'}"], "another file"),
    ):
        run("qemu-img", "create", "-q", "-f", "qcow2", *options, path, "4M")
        with pytest.raises(Unreadable, match=what):
            open_disk(path)
    data = bytearray(path.read_bytes())
    data[35] = 2  # the method of encryption: LUKS
    path.write_bytes(data)
    with pytest.raises(Unreadable, match="encrypted"):
        open_disk(path)
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd", raw, path)
    with open_disk(path) as disk, pytest.raises(Unreadable, match="zlib"):
        disk.read(0, SIZE)


def test_the_format_of_a_backing_file_is_never_guessed(raw: Path, tmp_path: Path) -> None:
    """A guest that writes a qcow2 header to its raw disk would else have any file of the host read as its own."""
    base, top = tmp_path / "base.raw", tmp_path / "top.qcow2"
    base.write_bytes(raw.read_bytes())
    overlay(base, "raw", top)
    inner = tmp_path / "inner.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-b", "/etc/hostname", "-F", "raw", "-u", inner, "1M")
    with base.open("r+b") as file:
        file.write(inner.read_bytes())
    with open_disk(top) as disk:
        assert disk.read(0, 4) == b"QFI\xfb"
    # Without the extension that names it the chain is refused.
    data = bytearray(top.read_bytes())
    at = data.index(struct.pack(">I", 0xE2792ACA))
    data[at : at + 4] = struct.pack(">I", 0x12345678)
    top.write_bytes(data)
    with pytest.raises(Unreadable, match="of what format"):
        open_disk(top)


def test_damaged_files_are_refused(raw: Path, tmp_path: Path) -> None:
    base, path = tmp_path / "base.qcow2", tmp_path / "x.qcow2"
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-c", raw, base)
    good = base.read_bytes()
    rng = random.Random(2)
    for number in range(150):
        data = bytearray(good)
        for _ in range(rng.choice((1, 3))):
            data[rng.randrange(120 if number % 2 else 200_000) % len(data)] = rng.choice(
                (0, 1, 0x7F, 0xFF, rng.randrange(256))
            )
        if number % 10 == 0:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            with open_disk(path) as disk:
                disk.read(0, min(disk.size, 1 << 20))
                list(disk._layers[0].allocated())
        except Unreadable:
            continue


def test_a_chain_in_a_circle_ends(tmp_path: Path) -> None:
    one, two = tmp_path / "one.qcow2", tmp_path / "two.qcow2"
    run("qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", two, "-F", "qcow2", one, "1M")
    run("qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", one, "-F", "qcow2", two, "1M")
    with pytest.raises(Unreadable, match="no end"):
        open_disk(one)
    run("qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", tmp_path / "gone", "-F", "qcow2", one, "1M")
    with pytest.raises(Unreadable, match="gone cannot be opened"):
        open_disk(one)
    run("qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", "nbd://x/y", "-F", "raw", one, "1M")
    with pytest.raises(Unreadable, match="no file"):
        open_disk(one)
    assert len(os.listdir("/proc/self/fd")) < 200


# --- partitions ---

NTFS = b"\xeb\x52\x90NTFS    "


def table(tmp_path: Path, script: str, size: int = 64 << 20) -> bytes:
    path = tmp_path / "disk.raw"
    with path.open("wb") as file:
        file.truncate(size)
    run("sfdisk", "-q", path, input=script)
    data = bytearray(path.read_bytes())
    data[2 << 20 : (2 << 20) + 11] = NTFS
    return bytes(data)


def test_gpt_and_its_copy(tmp_path: Path) -> None:
    data = table(tmp_path, "label: gpt\nsize=2048, start=2048\nstart=4096, size=8192\n")
    expected = (Partition(1, 1 << 20, 1 << 20, False), Partition(2, 2 << 20, 4 << 20, True))
    assert partitions(Memory(data)) == expected
    assert partitions(Memory(data[:512] + bytes(512 * 33) + data[512 * 34 :])) == expected
    broken = data[:512] + bytes(512 * 33) + data[512 * 34 : -512] + bytes(512)
    with pytest.raises(Unreadable, match="damaged"):
        partitions(Memory(broken))


def test_mbr_with_logical_partitions(tmp_path: Path) -> None:
    data = table(
        tmp_path,
        "label: dos\nstart=2048, size=2048, type=c\nstart=4096, size=8192, type=7\nstart=16384, size=65536, type=5\n"
        "start=18432, size=2048, type=7\nstart=22528, size=2048, type=83\n",
    )
    assert partitions(Memory(data)) == (
        Partition(1, 2048 * 512, 2048 * 512, False),
        Partition(2, 4096 * 512, 8192 * 512, True),
        Partition(5, 18432 * 512, 2048 * 512, False),
        Partition(6, 22528 * 512, 2048 * 512, False),
    )


def test_a_volume_without_a_table() -> None:
    assert partitions(Memory(NTFS + bytes(4096))) == (Partition(0, 0, 4107, True),)
    assert partitions(Memory(bytes(4096))) == ()
    with pytest.raises(Unreadable):
        partitions(Memory(bytes(100)))


def test_hostile_tables_are_refused(tmp_path: Path) -> None:
    good = table(tmp_path, "label: dos\nstart=2048, size=2048, type=7\nstart=4096, size=8192, type=5\n", 8 << 20)
    rng = random.Random(3)
    for _ in range(2000):
        data = bytearray(good[:65536] + good[4096 * 512 : 4096 * 512 + 4096])
        for _ in range(rng.choice((1, 4))):
            data[446 + rng.randrange(64)] = rng.randrange(256)
        try:
            for part in partitions(Memory(bytes(data))):
                assert 0 < part.start < part.start + part.size <= len(data)
        except Unreadable:
            continue
