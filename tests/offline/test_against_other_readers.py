"""The NTFS reader tells the same files as The Sleuth Kit and libfsntfs, on volumes of several shapes made by ntfs-3g."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from runner.offline.disk import open_disk
from runner.offline.ntfs.record import DATA, DOS
from runner.offline.ntfs.volume import ROOT, File, Volume
from tests.offline import volumes

SHAPES = {
    "usual": (512, 4096),
    "small clusters": (512, 512),
    "4 KiB sectors and records": (4096, 4096),
    "large clusters": (512, 65536),
}
LIBFSNTFS_CANNOT = {"large clusters"}
"""Of directories whose index blocks are smaller than a cluster libfsntfs lists only the first block (version 20260827)."""
FILETIME_EPOCH = 116_444_736_000_000_000
"""1970-01-01 as FILETIME."""


@dataclass(frozen=True)
class Seen:
    """What a reader tells of a file: size, last write as FILETIME, hash of its content, hashes of its streams."""

    size: int
    mtime: int
    content: str
    streams: tuple[tuple[str, str], ...]


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def fill(top: Path) -> None:
    """Files of every sort."""
    (top / "empty").touch()
    (top / "small.txt").write_bytes(b"resident")
    (top / "big.bin").write_bytes(os.urandom(777_777))
    (top / ("n" * 246 + ".txt")).write_bytes(b"250 characters")
    (top / "Ümläut ß €.txt").write_bytes("Grüße".encode())
    deep = top
    for number in range(30):
        deep = deep / f"folder{number:02}"
    deep.mkdir(parents=True)
    (deep / "x").write_bytes(b"deep")
    (top / "Long file name.text").write_bytes(b"8.3")
    os.setxattr(top / "Long file name.text", "system.ntfs_dos_name", b"LONGFI~1.TEX")
    with (top / "sparse.bin").open("wb") as file:
        file.seek(3_000_000)
        file.write(b"end")
        file.seek(1_000_000)
        file.write(b"middle" * 5000)
        file.truncate(4_000_000)
    (top / "packed").mkdir()
    os.setxattr(top / "packed", "system.ntfs_attrib", (0x810).to_bytes(4, "little"))
    text = b"".join(f"line {number} of a text that packs well\r\n".encode() for number in range(8000))
    (top / "packed" / "text.txt").write_bytes(text)
    (top / "packed" / "noise.bin").write_bytes(os.urandom(200_000))
    (top / "packed" / "both.bin").write_bytes(text[:70_000] + os.urandom(70_000) + bytes(200_000) + text[:5000])
    many = top / "many streams.txt"
    many.write_bytes(b"m" * 3000)
    for number in range(40):
        Path(f"{many}:s{number:02}").write_bytes(bytes([number]) * (number * 997))
    linked = top / "linked.txt"
    linked.write_bytes(b"has many names")
    for number in range(40):
        os.link(linked, top / f"another long name of the same file {number:02}.txt")
    # More runs, and gaps between them, than one record holds.
    with (top / "scattered").open("wb", buffering=0) as file:
        for number in range(500):
            file.seek(number * 131_072)
            file.write(bytes([number % 255 + 1]) * 5000)
    folder = top / "many files"
    folder.mkdir()
    for number in range(300):
        (folder / f"file {number}").write_bytes(bytes([number % 256]) * number)
    for number in range(0, 300, 3):
        (folder / f"file {number}").unlink()
    os.utime(top / "small.txt", ns=(10**18, 10**18 + 123_456_700))


@pytest.fixture(scope="module")
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sector, cluster = SHAPES[request.param]
    scratch = tmp_path_factory.mktemp("shape")
    path = scratch / "volume"
    volumes.format_volume(path, 192 << 20, sector=sector, cluster=cluster)
    options = "streams_interface=windows" + (",compression" if cluster <= 4096 else "")
    with volumes.mounted(path, scratch / "m", options) as top:
        fill(top)
    return path


def ours(image: Path) -> dict[str, Seen]:
    with open_disk(image, "raw") as disk:
        volume = Volume(disk)
        root = volume.file(ROOT)
        assert root is not None
        return dict(_ours(volume, root, ""))


def _ours(volume: Volume, folder: File, path: str) -> Iterator[tuple[str, Seen]]:
    for entry in volume.entries(folder):
        if entry.name.namespace == DOS or (folder.number == ROOT and entry.number < 16):
            continue
        file = volume.file(entry.number, entry.sequence)
        assert file is not None
        below = f"{path}\\{entry.name.name}"
        streams = tuple((name, sha(b"".join(_stream(file, name)))) for name in file.stream_names)
        size = 0 if file.data is None else file.data.size
        content = "" if file.is_directory else sha(b"".join(_stream(file, "")))
        yield below, Seen(size, file.standard.modified, content, streams)
        if file.is_directory:
            yield from _ours(volume, file, below)


def _stream(file: File, name: str) -> Iterator[bytes]:
    stream = file.stream(DATA, name)
    assert stream is not None
    return stream.chunks()


@pytest.mark.parametrize("image", SHAPES, indirect=True)
def test_the_sleuth_kit_tells_the_same(image: Path) -> None:
    pytsk3: Any = import_module("pytsk3")
    filesystem = pytsk3.FS_Info(pytsk3.Img_Info(str(image)))

    def walk(folder: Any, path: str) -> Iterator[tuple[str, Seen]]:
        for entry in folder:
            name = entry.info.name.name.decode()
            flags = int(entry.info.name.flags)
            if (
                name in {".", ".."}
                or name.startswith("$")
                or entry.info.meta is None
                or flags & int(pytsk3.TSK_FS_NAME_FLAG_UNALLOC)
            ):
                continue
            meta = entry.info.meta
            is_folder = meta.type == pytsk3.TSK_FS_META_TYPE_DIR
            streams, content, size = [], "", 0
            for part in entry:
                if part.info.type == pytsk3.TSK_FS_ATTR_TYPE_NTFS_DATA:
                    length = part.info.size
                    data = entry.read_random(0, length, part.info.type, part.info.id) if length else b""
                    if part.info.name and part.info.name != b"$Data":
                        streams.append((part.info.name.decode(), sha(data)))
                    else:
                        content, size = sha(data), length
            if not content and not is_folder:
                content = sha(b"")
            mtime = FILETIME_EPOCH + meta.mtime * 10_000_000 + meta.mtime_nano // 100
            yield f"{path}\\{name}", Seen(size, mtime, content, tuple(sorted(streams)))
            if is_folder:
                yield from walk(entry.as_directory(), f"{path}\\{name}")

    theirs = dict(walk(filesystem.open_dir(inode=5), ""))
    mine = ours(image)
    assert mine.keys() == theirs.keys()
    assert {path: (mine[path], theirs[path]) for path in mine if mine[path] != theirs[path]} == {}
    assert len(mine) == 286


@pytest.mark.parametrize("image", [shape for shape in SHAPES if shape not in LIBFSNTFS_CANNOT], indirect=True)
def test_libfsntfs_tells_the_same(image: Path) -> None:
    pyfsntfs: Any = import_module("pyfsntfs")
    volume = pyfsntfs.volume()
    volume.open(str(image))

    def walk(folder: Any, path: str) -> Iterator[tuple[str, Seen]]:
        for entry in folder.sub_file_entries:
            name = entry.name
            if name.startswith("$"):
                continue
            is_folder = entry.has_directory_entries_index()
            streams = tuple(
                sorted((s.name, sha(s.read(s.size) if s.size else b"")) for s in entry.alternate_data_streams)
            )
            content = "" if is_folder else sha(entry.read_buffer_at_offset(entry.size, 0) if entry.size else b"")
            yield (
                f"{path}\\{name}",
                Seen(0 if is_folder else entry.size, entry.get_modification_time_as_integer(), content, streams),
            )
            if is_folder:
                yield from walk(entry, f"{path}\\{name}")

    theirs = dict(walk(volume.get_root_directory(), ""))
    mine = ours(image)
    assert mine.keys() == theirs.keys()
    assert {path: (mine[path], theirs[path]) for path in mine if mine[path] != theirs[path]} == {}


@pytest.mark.parametrize("image", SHAPES, indirect=True)
def test_what_is_hard_to_read_is_there(image: Path) -> None:
    """The volumes really hold attribute lists, gaps, packed streams, names of 8.3 and records of deleted files."""
    with open_disk(image, "raw") as disk:
        volume = Volume(disk)
        extended = {record.base for record in volume.in_use() if record.extends}
        names = {name.name: number for number in extended for name in volume.file(number).names}  # type: ignore[union-attr]
        assert "linked.txt" in names
        assert "many streams.txt" in names
        sparse = volume.find(["sparse.bin"])
        assert sparse is not None
        assert sparse[0].data is not None
        assert any(run.lcn < 0 for run in sparse[0].data.runs)
        scattered = volume.find(["scattered"])
        assert scattered is not None
        assert scattered[0].data is not None
        assert len(scattered[0].data.runs) >= 999
        assert (len(scattered[0].parts[DATA, ""]) > 1) is (volume.geometry.record == 1024)
        packed = volume.find(["packed", "TEXT.TXT"])
        assert packed is not None
        assert packed[0].data is not None
        assert bool(packed[0].data.unit) is (volume.geometry.cluster <= 4096)
        short = volume.find(["longfi~1.tex"])
        assert short is not None
        assert "Long file name.text" in {name.name for name in short[0].names}
        assert volume.find(["ÜMLÄUT ß €.TXT"]) is not None
        assert volume.find(["umlaut ß €.txt"]) is None
        free = sum(volume.used(number) is None for number in range(64, volume.records))
        assert free >= 100
