"""Hives of machines that are off: what is read of sound ones, and that nothing else than a reason comes of the others."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.hives import HivePlace, place_of, read_hive
from tests.peers.regf import BASE, NONE, Key, Writer, with_checksum, write
from validators.changes import Unreadable
from validators.registry import KeyItem, RegistryState, ValueItem

ROOT = r"HKLM\SOFTWARE\DSWin"
VALUES = [
    ("", 1, "default\0".encode("utf-16-le")),
    ("text", 1, "Grüße \U0001f600\0".encode("utf-16-le")),
    ("none", 0, b""),
    ("Größe €", 2, b"odd"),
    ("multi", 7, "a\0b\0\0".encode("utf-16-le")),
    ("multi inline", 7, b"a\0\0\0"),
    ("dword", 4, b"\1\2\3\4"),
    ("dword of five", 4, b"\1\2\3\4\5"),
    ("dword of three", 4, b"\1\2\3"),
    ("qword", 11, bytes(range(8))),
    ("qword of two", 11, b"\1\2"),
    ("own", 0x1234_5678, b"xyz"),
    *((f"inline {n}", 3, b"\xaa\xbb\xcc\xdd"[:n]) for n in range(5)),
    ("five", 3, b"12345"),
    ("piece", 3, b"p" * 16_344),
    ("large", 3, bytes(range(256)) * 200),
    ("large text", 1, ("ä" * 20_000 + "\0").encode("utf-16-le")),
]
TREE = Key(
    "root",
    keys=[
        Key(
            "DSWin",
            VALUES,
            [
                Key("Ünter", [("x", 3, b"1")], mtime=5),
                Key("Tief €", keys=[Key("er")]),
                Key("a/b"),
                Key("Z", mtime=2**63),
            ],
            mtime=133_000_000_000_000_000,
        ),
        Key("Other"),
    ],
)


def expected() -> RegistryState:
    keys = (
        KeyItem("", 133_000_000_000_000_000, False), KeyItem("Ünter", 5, False), KeyItem("Tief €", 0, False),
        KeyItem("Tief €\\er", 0, False), KeyItem("a/b", 0, False), KeyItem("Z", 2**63, False),
    )  # fmt: skip
    return RegistryState(True, keys, (*(ValueItem("", *value) for value in VALUES), ValueItem("Ünter", "x", 3, b"1")))


@pytest.mark.parametrize("lists", ["lf", "lh", "li", "ri"])
@pytest.mark.parametrize("minor", [3, 5])
def test_every_kind_of_list_and_value(lists: str, minor: int) -> None:
    assert read_hive(write(TREE, lists=lists, minor=minor), ROOT) == expected()
    assert read_hive(write(TREE, lists=lists), r"HKLM\software\dswin\ünter").values == (ValueItem("", "x", 3, b"1"),)
    assert read_hive(write(TREE, lists=lists), r"HKLM\SOFTWARE\DSWin\None") == RegistryState(exists=False)


def test_the_current_control_set_and_the_32_bit_view_are_found() -> None:
    system = Key("root", keys=[
        Key("Select", [("Current", 4, b"\2\0\0\0"), ("Default", 4, b"\1\0\0\0")]),
        Key("ControlSet001", keys=[Key("Control", [("v", 3, b"old")])]),
        Key("ControlSet002", keys=[Key("Control", [("v", 3, b"now")])]),
    ])  # fmt: skip
    found = read_hive(write(system), r"HKLM\SYSTEM\CurrentControlSet\Control")
    assert found.values == (ValueItem("", "v", 3, b"now"),)
    with pytest.raises(Unreadable, match="Select"):
        read_hive(write(Key("root")), r"HKLM\SYSTEM\CurrentControlSet")
    both = Key("root", keys=[Key("X", [("v", 3, b"64")]), Key("Wow6432Node", keys=[Key("X", [("v", 3, b"32")])])])
    assert [v.data for v in read_hive(write(both), r"HKLM\SOFTWARE\X", view=32).values] == [b"32"]
    assert [v.data for v in read_hive(write(both), r"HKLM\SOFTWARE\X").values] == [b"64"]


@pytest.mark.parametrize(
    ("root", "file", "key"),
    [
        (r"HKCU\Software\DSWin", "NTUSER.DAT", r"Software\DSWin"),
        ("HKCU", "NTUSER.DAT", ""),
        (r"HKCU\Software\Classes\.txt", r"AppData\Local\Microsoft\Windows\UsrClass.dat", ".txt"),
        (r"HKU\S-1-5-21-1-2-3-1000_Classes\x", r"AppData\Local\Microsoft\Windows\UsrClass.dat", "x"),
        (r"HKU\S-1-5-21-1-2-3-1000\Software", "NTUSER.DAT", "Software"),
        (r"HKU\.DEFAULT\Software", r"Windows\System32\config\DEFAULT", "Software"),
        (r"HKLM\software\X", r"Windows\System32\config\SOFTWARE", "X"),
        (r"HKLM\SYSTEM\ControlSet001", r"Windows\System32\config\SYSTEM", "ControlSet001"),
    ],
)
def test_places(root: str, file: str, key: str) -> None:
    assert place_of(root) == HivePlace(file, key)


@pytest.mark.parametrize("root", ["HKLM", "HKU", r"HKLM\HARDWARE", r"HKCR\.txt", "HKCC"])
def test_keys_of_no_single_hive_say_what_to_do(root: str) -> None:
    with pytest.raises(Unreadable, match="observe"):
        read_hive(write(TREE), root)


@pytest.mark.parametrize("root", ["HKLM\\SOFTWARE", r"HKLM\SOFTWARE\Microsoft\X", r"HKCU\Software\Classes\CLSID"])
def test_shared_keys_of_the_32_bit_view_say_what_to_do(root: str) -> None:
    with pytest.raises(Unreadable, match="observe the 64-bit view"):
        place_of(root, 32)


def test_performance_counters_are_skipped_as_the_probe_does() -> None:
    version = Key("CurrentVersion", keys=[Key("Perflib", [("Counter", 7, b"endless")], [Key("009")]), Key("Fonts")])
    microsoft = Key("root", keys=[Key("Microsoft", keys=[Key("Windows NT", keys=[version])])])
    found = read_hive(write(microsoft), r"HKLM\SOFTWARE\Microsoft")
    assert [path for path, _ in found.skipped] == [r"Windows NT\CurrentVersion\Perflib"]
    assert not any("Perflib" in key.path for key in found.keys)
    assert not found.values


# --- another hand's hives -------------------------------------------------------------------------------------------------


def test_hives_written_by_hivex(tmp_path: Path) -> None:
    path = tmp_path / "sw.hiv"
    path.write_bytes(write(Key("root")))
    lines = ["add DSWin", "cd DSWin", "setval 5", "@", "string:standard", "Name", "string:Muster", "Any", "dword:0x12345678",
             "Long", "hex:11:88,77,66,55,44,33,22,11", "Bin", "hex:3:aa,bb,cc", "add Unter", "add Zwei", "cd Unter", "setval 4",
             "One", "hex:3:aa", "Two", "hex:3:aa,bb", "Four", "hex:3:aa,bb,cc,dd", "Multi", "hex:7:61,00,00,00,00,00",
             "commit"]  # fmt: skip
    done = subprocess.run(
        ["hivexsh", "-w", path], input="\n".join(lines).encode(), capture_output=True, timeout=20, check=False
    )
    assert done.returncode == 0, done.stderr
    found = read_hive(path.read_bytes(), ROOT)
    assert [key.path for key in found.keys] == ["", "Unter", "Zwei"]
    assert set(found.values) == {
        ValueItem("", "", 1, "standard\0".encode("utf-16-le")),
        ValueItem("", "Name", 1, "Muster\0".encode("utf-16-le")),
        ValueItem("", "Any", 4, b"\x78\x56\x34\x12"),
        ValueItem("", "Long", 11, bytes.fromhex("8877665544332211")),
        ValueItem("", "Bin", 3, b"\xaa\xbb\xcc"),
        ValueItem("Unter", "One", 3, b"\xaa"),
        ValueItem("Unter", "Two", 3, b"\xaa\xbb"),
        ValueItem("Unter", "Four", 3, b"\xaa\xbb\xcc\xdd"),
        ValueItem("Unter", "Multi", 7, b"a\0\0\0\0\0"),
    }


# --- broken, dirty and hostile ones ---------------------------------------------------------------------------------------

SOUND = write(TREE)


def test_a_dirty_hive_says_what_to_do() -> None:
    with pytest.raises(Unreadable, match=r"transaction logs .* are not applied: shut the machine down"):
        read_hive(write(TREE, sequences=(8, 7)), ROOT)


@pytest.mark.parametrize(
    ("hive", "why"),
    [
        (b"", "0 bytes"),
        (SOUND[:4000], "less than a header"),
        (SOUND[:-1], "cut"),
        (SOUND[: BASE + 100], "cut"),
        (SOUND[:100] + b"x" + SOUND[101:], "checksum"),
        (with_checksum(b"rege" + SOUND[4:]), "damaged"),
        (with_checksum(SOUND[:0x14] + b"\2" + SOUND[0x15:]), "known version"),
        (with_checksum(SOUND[:0x18] + b"\x09" + SOUND[0x19:]), "known version"),
        (with_checksum(SOUND[:0x1C] + b"\6" + SOUND[0x1D:]), "known version"),
        (with_checksum(SOUND[:0x24] + struct.pack("<I", 0xFFFF_FF00) + SOUND[0x28:]), "no place of a cell"),
        (SOUND[:BASE] + b"hxin" + SOUND[BASE + 4 :], "damaged"),
    ],
)  # fmt: skip
def test_what_is_no_whole_hive_is_unreadable(hive: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        read_hive(hive, ROOT)


def crafted(writer: Writer, software: Key | int) -> bytes:
    """A hive with a key ``DSWin`` that a test has prepared."""
    made = software if isinstance(software, int) else writer.key(software)
    root = struct.pack(
        "<2sHQIIIIIIIIII20xHH", b"nk", 0x2C, 0, 0, NONE, 1, 0, writer.list_of([made]), NONE, 0, NONE, NONE, NONE, 1, 0
    )
    return writer.file(writer.cell(root + b"r"))


_LIST = 0x158
"""Where the list of three keys lies that the tests of wrong counts begin with."""


def key_cell(name: bytes, *, keys: tuple[int, int] = (0, NONE), values: tuple[int, int] = (0, NONE)) -> bytes:
    return (
        struct.pack(
            "<2sHQIIIIIIIIII20xHH",
            b"nk",
            0x20,
            0,
            0,
            NONE,
            keys[0],
            0,
            keys[1],
            NONE,
            *values,
            NONE,
            NONE,
            len(name),
            0,
        )
        + name
    )


def test_circles_of_keys_come_to_an_end() -> None:
    writer = Writer()
    at = writer.cell(key_cell(b"DSWin"))
    listed = writer.list_of([at])
    start = at - 0x20
    writer.cells[start + 4 : start + 4 + 0x51] = key_cell(b"DSWin", keys=(1, listed))
    with pytest.raises(Unreadable, match="two ways lead"):
        read_hive(crafted(writer, at), ROOT)


def test_circles_of_lists_come_to_an_end() -> None:
    writer = Writer()
    listed = writer.cell(struct.pack("<2sHI", b"ri", 1, NONE))
    struct.pack_into("<I", writer.cells, listed - 0x20 + 8, listed)
    with pytest.raises(Unreadable, match="circle"):
        read_hive(crafted(writer, writer.cell(key_cell(b"DSWin", keys=(1, listed)))), ROOT)


def test_shared_data_cannot_fill_the_memory() -> None:
    writer = Writer()
    data = writer.cell(bytes(1 << 20))
    values = [
        writer.cell(struct.pack("<2sHIIIHH", b"vk", 4, 1 << 20, data, 3, 1, 0) + f"{n:04}".encode()) for n in range(2000)
    ]  # fmt: skip
    listed = writer.cell(struct.pack(f"<{len(values)}I", *values))
    writer.minor = 3
    with pytest.raises(Unreadable, match="larger than the hive"):
        read_hive(crafted(writer, writer.cell(key_cell(b"DSWin", values=(len(values), listed)))), ROOT)


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ((NONE - 1, _LIST), (0, NONE)), ((2, _LIST), (0, NONE)), ((4, _LIST), (0, NONE)), ((1, 0x40000), (0, NONE)),
        ((0, NONE), (NONE - 1, _LIST)), ((0, NONE), (4, _LIST)), ((0, NONE), (1, 0x24)),
    ],
)  # fmt: skip
def test_counts_that_cannot_be_are_unreadable(keys: tuple[int, int], values: tuple[int, int]) -> None:
    writer = Writer()
    assert writer.list_of([writer.key(Key(name)) for name in "abc"]) == _LIST
    with pytest.raises(Unreadable, match="damaged"):
        read_hive(crafted(writer, writer.cell(key_cell(b"DSWin", keys=keys, values=values))), ROOT)


@pytest.mark.parametrize(("name", "depth", "why"), [(b"x", 600, "512 deep"), (b"x" * 255, 200, "too long")])
def test_trees_too_deep_or_long_are_unreadable(name: bytes, depth: int, why: str) -> None:
    writer = Writer()
    at = writer.cell(key_cell(name))
    for _ in range(depth):
        at = writer.cell(key_cell(name, keys=(1, writer.list_of([at]))))
    with pytest.raises(Unreadable, match=why):
        read_hive(crafted(writer, writer.cell(key_cell(b"DSWin", keys=(1, writer.list_of([at]))))), ROOT)


@pytest.mark.parametrize("keys", [[Key("A"), Key("A")], [Key("DSWin\\x")], [Key("")]])
def test_impossible_names_are_unreadable(keys: list[Key]) -> None:
    with pytest.raises(Unreadable, match=r"named|no name"):
        read_hive(write(Key("root", keys=[Key("DSWin", keys=keys)])), ROOT)
    with pytest.raises(Unreadable, match="two values are named"):
        read_hive(write(Key("root", keys=[Key("DSWin", [("v", 3, b""), ("v", 3, b"")])])), ROOT)


def test_links_are_listed_and_not_followed() -> None:
    link = Key("Link", [("SymbolicLinkValue", 6, "\\REGISTRY".encode("utf-16-le"))], [Key("below")], flags=0x10)
    hive = write(Key("root", keys=[Key("DSWin", keys=[link])]))
    assert [key.path for key in read_hive(hive, ROOT).keys] == ["", "Link"]
    with pytest.raises(Unreadable, match="link"):
        read_hive(hive, ROOT + "\\Link")


SMALL = write(
    Key("root", keys=[Key("DSWin", VALUES[:12], [Key("Sub", [("x", 3, b"0123456789")]), Key("Z €")])]), lists="ri"
)
_USED = BASE + SMALL[BASE:].rstrip(b"\0").__len__()
_EDITS = st.lists(
    st.tuples(
        st.integers(0, _USED - 1) | st.integers(BASE, _USED - 1),
        st.binary(min_size=1, max_size=4)
        | st.sampled_from([b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\0\0\0\0", b"ri", b"nk"]),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=400, deadline=2000)
@given(
    _EDITS, st.sampled_from([ROOT, r"HKLM\SYSTEM\CurrentControlSet", "HKCU"]), st.integers(0, len(SMALL)) | st.none()
)
def test_mutated_hives_are_read_or_unreadable(edits: list[tuple[int, bytes]], root: str, cut: int | None) -> None:
    hive = bytearray(SMALL)
    for place, data in edits:
        hive[place : place + len(data)] = data
    try:
        found = read_hive(with_checksum(bytes(hive))[:cut], root)
    except Unreadable:
        return
    assert isinstance(found, RegistryState)


@given(st.binary(max_size=300), st.booleans())
def test_noise_is_unreadable(noise: bytes, header: bool) -> None:
    hive = SMALL[:BASE] + noise if header else noise
    with pytest.raises(Unreadable):
        read_hive(hive, ROOT)


def test_without_python_registry_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Registry", None)
    with pytest.raises(Unreadable, match=r"legacyproof\[registry\]"):
        read_hive(SOUND, ROOT)
