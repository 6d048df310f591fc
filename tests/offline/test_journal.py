"""Whether a volume was left clean is told from its journal: by the newer restart page, and never guessed from a damaged one."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.offline.disk import open_disk
from runner.offline.ntfs.volume import Volume
from runner.offline.source import Memory
from tests.offline import volumes
from tests.peers.ntfs import DATA, Tiny, file_name, mapped, record, resident, restart_page, root, standard
from validators.changes import Unreadable

CLEAN, IN_USE = restart_page(5), restart_page(5, open_by_client=True)
LEFT_CLEAN = restart_page(5, open_by_client=True, flags=0x0002)
SIZE = 16 * 1024


def with_journal(log: bytes, size: int = SIZE) -> Volume:
    """A volume with this journal, as far as it is told; the rest of it is 0xFF."""
    journal = record(2, standard(), file_name(5, "$LogFile"), mapped(DATA, [(16, 64)], size))
    return Volume(Memory(Tiny({2: journal, 5: root()}, {64: log.ljust(SIZE, b"\xff")}).bytes()))


@pytest.mark.parametrize(
    ("log", "clean"),
    [
        (CLEAN + CLEAN, True),
        (LEFT_CLEAN + LEFT_CLEAN, True),
        (IN_USE + IN_USE, False),
        (restart_page(9, open_by_client=True) + CLEAN, False),
        (restart_page(9) + IN_USE, True),
        (IN_USE + restart_page(9), True),
        (CLEAN + bytes(4096), True),
        (bytes(4096) + IN_USE, False),
        (restart_page(1, open_by_client=True) + restart_page(0, magic=b"CHKD", checked=3), True),
        (restart_page(5, size=8192) + restart_page(9, open_by_client=True), False),
        (b"", True),
    ],
    ids=[
        "nobody has it open", "open, and all written out", "open", "the first page is newer", "the second page is older",
        "the second page is newer", "one page", "one page, the second", "checked since", "larger pages", "emptied",
    ],
)  # fmt: skip
def test_the_newer_restart_page_decides(log: bytes, clean: bool) -> None:
    assert with_journal(log).is_clean() is clean


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (bytes([*CLEAN[:510], 0, *CLEAN[511:]]) + CLEAN, "not written whole"),
        (CLEAN + bytes([*IN_USE[:4094], 0, *IN_USE[4095:]]), "not written whole"),
        (bytes(SIZE), "no restart page"),
        (b"\xff" * (SIZE - 1) + b"\0", "no restart page"),
        (b"RCRD" + bytes(100), "no restart page"),
        (restart_page(5, area=4092), "not lie within"),
        (restart_page(5, area=66), "not lie within"),
        (restart_page(5, area=8), "not lie within"),
        (CLEAN[:16] + struct.pack("<I", 1 << 31) + CLEAN[20:], "restart page of"),
        (CLEAN[:16] + struct.pack("<I", 4097) + CLEAN[20:], "restart page of"),
    ],
)
def test_a_damaged_journal_is_unreadable(log: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        with_journal(log).is_clean()


def test_a_missing_journal_or_one_of_an_impossible_size_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="no journal"):
        Volume(Memory(Tiny({5: root()}).bytes())).is_clean()
    with pytest.raises(Unreadable, match="takes 4096 bytes"):
        with_journal(CLEAN, 4096).is_clean()
    small = record(2, standard(), file_name(5, "$LogFile"), resident(DATA, CLEAN[:100]))
    with pytest.raises(Unreadable, match="takes 100 bytes"):
        Volume(Memory(Tiny({2: small, 5: root()}).bytes())).is_clean()
    huge = record(2, standard(), file_name(5, "$LogFile"), mapped(DATA, [(1 << 29, None)], 1 << 39))
    with pytest.raises(Unreadable, match="takes 549755813888 bytes"):
        Volume(Memory(Tiny({2: huge, 5: root()}).bytes())).is_clean()


@given(st.lists(st.tuples(st.integers(0, 8191), st.binary(min_size=1, max_size=8)), max_size=4))
def test_whatever_stands_in_it_is_understood_or_refused(edits: list[tuple[int, bytes]]) -> None:
    log = bytearray(CLEAN + IN_USE)
    for at, data in edits:
        log[at : at + len(data)] = data
    try:
        assert isinstance(with_journal(bytes(log)).is_clean(), bool)
    except Unreadable:
        return


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    image = tmp_path_factory.mktemp("journal") / "volume"
    volumes.format_volume(image, 16 << 20)
    return image


def test_a_volume_as_mkntfs_and_ntfs_3g_leave_it_is_clean(made: Path, tmp_path: Path) -> None:
    with open_disk(made, "raw") as disk:
        assert Volume(disk).is_clean()
    with volumes.mounted(made, tmp_path / "m") as top:
        (top / "x").write_bytes(b"x" * 10_000)
    with open_disk(made, "raw") as disk:
        assert Volume(disk).is_clean()


@pytest.mark.parametrize(
    ("about", "clean"),
    [({}, True), ({"open_by_client": True}, False), ({"open_by_client": True, "flags": 2}, True)],
    ids=["nobody has it open", "open", "open, and all written out"],
)
def test_ntfs_3g_says_the_same(made: Path, tmp_path: Path, about: dict[str, int], clean: bool) -> None:
    """It mounts a volume that was not left clean for reading only, where it may not recover it, and says why."""
    image = tmp_path / "volume"
    shutil.copyfile(made, image)
    with open_disk(image, "raw") as disk:
        volume = Volume(disk)
        journal = volume.file(2)
        assert journal is not None
        assert journal.data is not None
        place, size = journal.data.runs[0].lcn * volume.geometry.cluster, journal.data.size
    with image.open("r+b") as file:
        file.seek(place)
        file.write(2 * restart_page(5, log_size=size, **about))  # type: ignore[arg-type]
    with open_disk(image, "raw") as disk:
        assert Volume(disk).is_clean() is clean
    (tmp_path / "m").mkdir()
    command = ["ntfs-3g", "-o", "norecover", str(image), str(tmp_path / "m")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    try:
        assert ("unclean file system" in done.stderr, done.stderr == "") == (not clean, clean)
    finally:
        volumes.run("umount", tmp_path / "m")
