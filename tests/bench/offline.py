"""Times the whole-disk comparison of a 2 GiB NTFS volume with 10,000 files and 10 changes, against listing both volumes in full.

``python -m tests.bench.offline`` prints the figures as JSON. Both disks are qcow2 files, the later an overlay on the earlier. The
alternatives list both volumes through the same disk reader and compare the two lists; what they list:

* libfsntfs: path, size, times, attributes;
* The Sleuth Kit (pytsk3): path, size, times; the same with names and sizes of all streams;
* our own offline guest, as a run would: all of that, in the probe's records.

None of them can see the file that was written in place and had its times put back: for that, all contents must be read (told as well,
by our own reader). The index of the checkpoint's clusters is made once per checkpoint; its cost is told apart. Everything is measured
with warm caches, best of several.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from runner.guests.offline import OfflineGuest
from runner.offline.changes import changed_files
from runner.offline.disk import Disk, open_disk
from runner.offline.ntfs.volume import Volume
from runner.offline.owners import DiskOwners, ntfs_volumes
from runner.offline.source import Slice
from tests.offline.volumes import BIG, FILES, START, TEN_CHANGES, many_files, ten_changes

REPETITIONS = 20
"""Of the comparison; of what takes long fewer."""


def measure(repetitions: int = REPETITIONS) -> dict[str, Any]:
    """Measures, in seconds and ratios.

    Args:
        repetitions: How often the comparison is timed; the best counts.
    """
    with tempfile.TemporaryDirectory() as scratch:
        before = many_files(Path(scratch))
        return _measured(before, ten_changes(before, Path(scratch)), Path(scratch) / "owners", repetitions)


def _measured(before: Path, after: Path, kept: Path, repetitions: int) -> dict[str, Any]:
    def compared() -> int:
        with open_disk(before) as old, open_disk(after) as new:
            found = changed_files(old, new, owners=DiskOwners.kept(old, kept, "its hash"))
        assert {(c.path, c.kind, c.old_path, c.stream, c.what) for c in found if not c.noise} == TEN_CHANGES
        return len(found)

    with open_disk(before) as disk:
        index = _best(lambda: DiskOwners.of(disk), min(3, repetitions))
    compared()
    diff = _best(compared, repetitions)
    listings: dict[str, Callable[[Disk], set[Any]]] = {
        "libfsntfs": _libfsntfs,
        "sleuthkit": lambda disk: _sleuthkit(disk, streams=False),
        "sleuthkit_with_streams": lambda disk: _sleuthkit(disk, streams=True),
        "own": lambda disk: _own(disk, "--streams"),
        "own_with_contents": lambda disk: _own(disk, "--streams", "--hash"),
    }
    seconds = {
        name: _best(partial(_both, listing, before, after), min(3, repetitions)) for name, listing in listings.items()
    }
    return {
        "files": FILES,
        "changes": len(TEN_CHANGES),
        "volume_bytes": BIG,
        "diff_seconds": diff,
        "index_seconds_once_per_checkpoint": index,
        "listing_seconds": seconds,
        "times_faster": {name: value / diff for name, value in seconds.items()},
    }


def _best(what: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        what()
        found.append(time.perf_counter() - start)
    return min(found)


def _both(listing: Callable[[Disk], set[Any]], before: Path, after: Path) -> None:
    """Lists both volumes and compares the lists."""
    with open_disk(before) as old, open_disk(after) as new:
        one, two = listing(old), listing(new)
    assert len(one) > FILES
    assert one ^ two


def _libfsntfs(disk: Disk) -> set[Any]:
    volume = import_module("pyfsntfs").volume()
    volume.open_file_object(_File(disk))

    def walk(folder: Any, path: str) -> Iterator[Any]:
        for entry in folder.sub_file_entries:
            below = f"{path}\\{entry.name}"
            times = entry.get_modification_time_as_integer(), entry.get_creation_time_as_integer()
            yield below, entry.size, times, entry.file_attribute_flags
            if entry.has_directory_entries_index():
                yield from walk(entry, below)

    return set(walk(volume.get_root_directory(), ""))


class _File(io.RawIOBase):
    """The partition as a file."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        size = min(size, BIG - self._at) if size >= 0 else BIG - self._at
        self._at += size
        return self._disk.read(START + self._at - size, size)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, BIG)[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def get_size(self) -> int:
        return BIG


def _sleuthkit(disk: Disk, *, streams: bool) -> set[Any]:
    pytsk3: Any = import_module("pytsk3")

    class Image(pytsk3.Img_Info):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(url="", type=pytsk3.TSK_IMG_TYPE_EXTERNAL)

        def close(self) -> None: ...

        def read(self, offset: int, size: int) -> bytes:
            return disk.read(offset, size)

        def get_size(self) -> int:
            return disk.size

    def walk(folder: Any, path: bytes) -> Iterator[Any]:
        for entry in folder:
            name, meta = entry.info.name.name, entry.info.meta
            if name in {b".", b".."} or meta is None:
                continue
            below = path + b"\\" + name
            held = (
                tuple((part.info.name, part.info.size) for part in entry if part.info.type == wanted) if streams else ()
            )
            yield below, meta.size, meta.mtime, meta.mtime_nano, meta.crtime, held
            if meta.type == directory and name != b"$OrphanFiles":
                yield from walk(entry.as_directory(), below)

    wanted, directory = pytsk3.TSK_FS_ATTR_TYPE_NTFS_DATA, pytsk3.TSK_FS_META_TYPE_DIR
    filesystem = pytsk3.FS_Info(Image(), offset=START)
    return set(walk(filesystem.open_dir(inode=5), b""))


def _own(disk: Disk, *options: str) -> set[Any]:
    part = ntfs_volumes(disk)[0][0]
    guest = OfflineGuest({"C": Volume(Slice(disk, part.start, part.size))})
    return set(guest.probe("files", *options, "C:\\", timeout=600).files)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))  # noqa: T201
