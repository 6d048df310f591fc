"""Volumes that ntfs-3g does not write: split tables are read, circles and damage are refused, and nothing hangs or crashes."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.offline.ntfs import lznt1
from runner.offline.ntfs.geometry import geometry
from runner.offline.ntfs.record import DOS, FileName, mended, reparse_target
from runner.offline.ntfs.runs import SPARSE, Run, decode
from runner.offline.ntfs.volume import ROOT, Volume
from runner.offline.owners import Owners
from runner.offline.source import Memory
from tests.peers.ntfs import (
    CLUSTERS,
    DATA,
    INDEX_ROOT,
    LIST,
    MFT_AT,
    RECORD,
    Tiny,
    file_name,
    folder,
    listed,
    mapped,
    name_key,
    record,
    resident,
    root,
    simple,
    standard,
)
from validators.changes import Unreadable


def opened(tiny: Tiny) -> Volume:
    return Volume(Memory(tiny.bytes()))


def content(volume: Volume, *names: str) -> bytes:
    found = volume.find(names)
    assert found is not None
    assert found[0].data is not None
    return found[0].data.read(0, found[0].data.size)


def split_table() -> Tiny:
    """A table in three parts, told by an attribute list: each part's record lies in the part before."""
    mft = record(
        0, standard(),
        resident(LIST, listed(0x10, 0, 0, 0) + listed(DATA, 0, 0, 3) + listed(DATA, 20, 15, 1) + listed(DATA, 24, 22, 2)),
        file_name(5, "$MFT"), mapped(DATA, [(20, MFT_AT)], 28 * RECORD, instance=3),
    )  # fmt: skip
    second = record(15, mapped(DATA, [(4, 60)], 0, first=20, instance=1), base=0)
    third = record(22, mapped(DATA, [(4, 70)], 0, first=24, instance=2), base=0)
    return Tiny(
        {5: root((26, "last.txt"), (18, "first.txt")), 15: second, 18: simple(18, "first.txt", b"1"), 22: third, 26: simple(26, "last.txt", b"2")},
        mft=mft, parts=((0, 20, MFT_AT), (20, 4, 60), (24, 4, 70)),
    )  # fmt: skip


def test_a_master_file_table_in_several_records_is_read() -> None:
    volume = opened(split_table())
    assert volume.records == 28
    assert content(volume, "LAST.TXT") == b"2"
    assert content(volume, "first.txt") == b"1"
    assert [record.number for record in volume.in_use() if not record.extends] == [0, 5, 18, 26]


def test_a_table_whose_parts_do_not_fit_together_is_refused() -> None:
    tiny = split_table()
    tiny.records[22] = record(22, mapped(DATA, [(4, 70)], 0, first=23, instance=2), base=0)
    with pytest.raises(Unreadable):
        opened(tiny)
    tiny = split_table()
    tiny.records[15] = record(15, mapped(DATA, [(4, 60)], 0, first=20, instance=1), base=9)
    with pytest.raises(Unreadable, match="not a part"):
        opened(tiny)
    tiny = split_table()
    tiny.records[15] = record(
        15, mapped(DATA, [(2, 60)], 0, first=20, instance=1), base=0
    )  # record 22 would lie in itself
    with pytest.raises(Unreadable):
        opened(tiny)


def test_a_record_that_was_not_written_whole_is_refused() -> None:
    torn = bytearray(simple(20, "x.txt"))
    torn[510] ^= 1
    volume = opened(Tiny({5: root((20, "x.txt")), 20: bytes(torn)}))
    with pytest.raises(Unreadable, match="not written whole"):
        volume.find(["x.txt"])
    with pytest.raises(Unreadable, match="not written whole"):
        list(volume.in_use())


def test_directories_that_lie_in_each_other_are_refused() -> None:
    one = record(20, standard(0x10), file_name(21, "one"), folder([(21, name_key(20, "two"))]), is_folder=True)
    two = record(21, standard(0x10), file_name(20, "two"), folder([(20, name_key(21, "one"))]), is_folder=True)
    volume = opened(Tiny({5: root(), 20: one, 21: two, 22: simple(22, "lost.txt", parent=20)}))
    lost = volume.file(22)
    assert lost is not None
    with pytest.raises(Unreadable, match="circle"):
        volume.way(lost.links[0])


def test_a_file_whose_directory_is_gone_has_no_path() -> None:
    volume = opened(
        Tiny({5: root(), 20: simple(20, "x", parent=21), 21: simple(21, "file"), 22: simple(22, "y", parent=25)})
    )
    for number in (20, 22):
        file = volume.file(number)
        assert file is not None
        assert volume.way(file.links[0]) is None
    assert volume.way(FileName(ROOT, 1, "z", 0)) == ("z",)
    assert volume.way(FileName(21, 9, "z", 0)) is None


def test_an_index_that_leads_to_a_used_record_is_refused() -> None:
    volume = opened(Tiny({5: root((20, "x.txt")), 20: record(20, in_use=False)}))
    with pytest.raises(Unreadable, match="not there"):
        volume.find(["x.txt"])
    assert volume.find(["y.txt"]) is None


def test_an_index_root_that_is_not_resident_is_refused_whatever_size_it_claims() -> None:
    """512 GiB of it, all in one gap, would be read into memory."""
    clusters = 1 << 29
    claims = mapped(INDEX_ROOT, [(clusters, None)], clusters * 1024, name="$I30")
    hostile = record(20, standard(0x10), file_name(5, "x"), claims, is_folder=True)
    volume = opened(Tiny({5: root((20, "x")), 20: hostile}))
    with pytest.raises(Unreadable, match="index root is not resident"):
        volume.find(["x", "y"])


def test_run_lists_that_lead_out_of_the_volume_are_refused() -> None:
    for runs in ([(4, CLUSTERS - 2)], [(1, -5)], [(2, 40), (9, 90)]):
        volume = opened(
            Tiny({5: root((20, "x")), 20: record(20, standard(), file_name(5, "x"), mapped(DATA, runs, 1024))})
        )
        with pytest.raises(Unreadable, match="out of the volume"):
            content(volume, "x")


def test_files_that_share_clusters_are_refused() -> None:
    files = {n: record(n, standard(), file_name(5, f"f{n}"), mapped(DATA, [(2, 40 + n - 20)], 2048)) for n in (20, 21)}
    with pytest.raises(Unreadable, match="share clusters"):
        Owners.of(opened(Tiny({5: root(), **files})))


def test_a_content_larger_than_its_clusters_is_refused() -> None:
    volume = opened(
        Tiny({5: root((20, "x")), 20: record(20, standard(), file_name(5, "x"), mapped(DATA, [(2, 40)], 1 << 40))})
    )
    with pytest.raises(Unreadable, match="shorter"):
        content(volume, "x")


def test_an_encrypted_content_is_refused_and_a_gap_reads_as_zeros() -> None:
    secret = record(20, standard(), file_name(5, "x"), mapped(DATA, [(1, 40)], 10, flags=0x4000))
    gap = record(21, standard(), file_name(5, "y"), mapped(DATA, [(1, 41), (1, None), (1, 43)], 3000, flags=0x8000))
    volume = opened(Tiny({5: root((20, "x"), (21, "y")), 20: secret, 21: gap}, {41: b"a" * 1024, 43: b"b" * 1024}))
    with pytest.raises(Unreadable, match="encrypted"):
        content(volume, "x")
    assert content(volume, "y") == b"a" * 1024 + bytes(1024) + b"b" * 952


def test_short_names_are_found_and_not_listed_as_links() -> None:
    file = record(
        20,
        standard(),
        file_name(5, "Long name.txt", namespace=1),
        file_name(5, "LONGNA~1.TXT", namespace=2),
        resident(DATA, b"x"),
    )
    keys = [(20, name_key(5, "Long name.txt", namespace=1)), (20, name_key(5, "LONGNA~1.TXT", namespace=2))]
    top = record(5, standard(0x10), file_name(5, "."), folder(keys), is_folder=True)
    volume = opened(Tiny({5: top, 20: file}))
    assert content(volume, "longna~1.txt") == b"x"
    found = volume.file(20)
    assert found is not None
    assert [name.name for name in found.links] == ["Long name.txt"]
    assert [name.namespace for name in found.names] == [1, DOS]


def test_every_cut_of_a_volume_is_refused() -> None:
    whole = split_table().bytes()
    for length in range(0, len(whole), 509):
        with pytest.raises(Unreadable):
            everything(whole[:length])


def everything(data: bytes) -> None:
    """All that the reader can do with a volume."""
    volume = Volume(Memory(data))
    Owners.of(volume)
    for found in volume.in_use():
        if not found.extends:
            file = volume.assembled(found)
            for stream in file.all_streams():
                stream.read(0, min(stream.size, 1 << 16))
            for link in file.links:
                volume.way(link)
            if file.is_directory:
                list(volume.entries(file))
    volume.find(["first.txt"])


def test_damaged_volumes_are_read_or_refused() -> None:
    whole = split_table().bytes()
    rng = random.Random(4)
    for _ in range(1500):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 2, 8))):
            at = rng.choice(
                (
                    rng.randrange(512),
                    (MFT_AT + rng.choice((0, 5, 15, 18))) * 1024 + rng.randrange(400),
                    62 * 1024 + rng.randrange(200),
                )
            )
            data[at] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        with contextlib.suppress(Unreadable):
            everything(bytes(data))


# --- pure parts ---


def test_run_lists_are_decoded() -> None:
    data = bytes([0x21, 0x18, 0x34, 0x56, 0x01, 0x04, 0x11, 0x02, 0xFE, 0x00])
    assert decode(data, 0, 1 << 20) == [Run(0, 0x5634, 0x18), Run(0x18, SPARSE, 4), Run(0x1C, 0x5632, 2)]
    for bad in (b"", b"\x11", b"\x11\x01", b"\x10\x01", b"\x11\x00\x01\x00", b"\x11\x01\x01", b"\x99" + bytes(30)):
        with pytest.raises(Unreadable):
            decode(bad, 0, 1 << 20)


@given(st.binary(max_size=60), st.integers(0, 1 << 40))
def test_run_lists_never_lead_out_of_the_volume(data: bytes, clusters: int) -> None:
    try:
        runs = decode(data, 0, clusters)
    except Unreadable:
        return
    at = 0
    for run in runs:
        assert run.vcn == at
        assert run.length > 0
        assert run.lcn == SPARSE or 0 <= run.lcn <= clusters - run.length
        at += run.length


def test_lznt1() -> None:
    # The example of [MS-XCA] 3.2.
    text = b"F# F# G A A G F# E D D E F# F# E E F# F# G A A G F# E D D E F# E D D E E F# D E F# G F# D E F# G F# E D E A F# F# G A A G F# E D D E F# E D D\0"
    data = bytes.fromhex(
        "38b08846232000204720410010a24701a045204400084501507900c045200524138805b4024a44ef0358028c091601484500be009e000401189000"
    )
    assert lznt1.decompress(data, 4096)[: len(text)] == text
    assert lznt1.decompress(b"\0\0", 10) == bytes(10)
    assert lznt1.decompress(b"\x02\x30abc\0\0", 5) == b"abc\0\0"
    for bad in (b"\x02\xb0\x01\x05\x05", b"\xff\xbf\x00", b"\x02\x00abc"):
        with pytest.raises(Unreadable):
            lznt1.decompress(bad, 4096)


@given(st.binary(max_size=300))
def test_lznt1_gives_what_was_asked_for_or_refuses(data: bytes) -> None:
    try:
        assert len(lznt1.decompress(data, 16 * 4096)) == 16 * 4096
    except Unreadable:
        return


@given(st.binary(min_size=512, max_size=512))
def test_boot_sectors_are_refused_or_make_sense(data: bytes) -> None:
    boot = data[:3] + b"NTFS    " + data[11:]
    try:
        found = geometry(boot, 1 << 30)
    except Unreadable:
        return
    assert 0 < found.mft < found.clusters
    assert found.clusters * found.cluster <= 1 << 30


def test_a_block_with_another_stride_is_refused() -> None:
    block = bytearray(simple(20, "x"))
    assert mended(bytes(block), b"FILE", 512)
    for count in (0, 1, 2, 4, 0xFFFF):
        struct.pack_into("<H", block, 6, count)
        with pytest.raises(Unreadable):
            mended(bytes(block), b"FILE", 512)
    with pytest.raises(Unreadable, match="INDX"):
        mended(bytes(block), b"INDX", 512)


def test_where_links_lead_is_told() -> None:
    name = "\\??\\C:\\Users".encode("utf-16-le")
    shown = "C:\\Users".encode("utf-16-le")
    places = struct.pack("<HHHH", 0, len(name), len(name), len(shown))
    data = places + name + shown
    assert reparse_target(struct.pack("<IHH", 0xA0000003, len(data), 0) + data) == (0xA0000003, "C:\\Users")
    data = places + struct.pack("<I", 1) + name
    assert reparse_target(struct.pack("<IHH", 0xA000000C, len(data), 0) + data)[0] == 0xA000000C
    assert reparse_target(struct.pack("<IHH", 0x80000017, 0, 0)) == (0x80000017, "")
    with pytest.raises(Unreadable):
        reparse_target(b"\3\0\0\xa0")
