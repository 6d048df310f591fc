"""What is fuzzed: every reader of bytes that come from a guest or a disk, with small seeds so that a case takes little time."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import PureWindowsPath

from contracts.schema import DbfTable
from runner.guests.base import GuestNotFound
from runner.guests.probe import ProbeError, parse
from runner.guests.qga import WINE, QgaGuest
from runner.hives import read_hive
from runner.offline.ntfs.volume import Volume
from runner.offline.source import Memory
from tests.fuzz.engine import Outcome, Target, run
from tests.peers.fake_agent import FakeAgent
from tests.peers.ntfs import (
    DATA,
    INDEX_ROOT,
    Tiny,
    file_name,
    mapped,
    record,
    resealed,
    resident,
    restart_page,
    root,
    standard,
)
from tests.peers.regf import Key, with_checksum, write
from tests.runner.test_probe_protocol import (
    CONTROL,
    FAULT,
    FILE,
    KEY,
    KEY_ROOT,
    PROCESS,
    ROOT,
    VALUE,
    WINDOW,
    answer,
    end,
)
from tests.validators.dbf_files import Dbt, F, Fpt, Table
from validators.changes import ContractFault, Unreadable
from validators.dbf import MemoKind, TableState, diff_tables, load_table

SPEC = DbfTable(dbf=r"C:\D\T.DBF", key=["NR"], encoding="cp850")
_SEPARATOR = b"\0memo\0"


def _tables() -> list[bytes]:
    """Small tables of every kind, each joined with its memo file."""
    plain = [F("NR", "C", 3), F("SUM", "N", 8, 2), F("DAY", "D", 8), F("OK", "L", 1), F("X", "F", 6, 1)]
    rows = [b"001    1.50" + b"20240131T" + b"  -2.5", b"002  ******" + b"        ?" + b"      "]
    found = [Table(plain, rows), Table(plain, rows, version=0x30), Table(plain, rows, version=0x02)]
    fox = [F("NR", "C", 3), F("I", "I", 4), F("B", "B", 8), F("Y", "Y", 8), F("T", "T", 8), F("V", "V", 6)]
    found.append(Table([*fox, F("_NullFlags", "0", 1)], [b"001" + bytes(range(34)) + b"\0"], version=0x32))
    dbt, fpt = Dbt(), Fpt()
    found.append(
        Table(
            [F("NR", "C", 3), F("M", "M", 10)],
            [b"001" + dbt.add(b"a memo")],
            version=0x83,
            memo=dbt.bytes(),
            kind="dbt",
        )
    )
    found.append(
        Table(
            [F("NR", "C", 3), F("M", "M", 4)], [b"001" + fpt.add(b"a memo")], version=0x30, memo=fpt.bytes(), kind="fpt"
        )
    )
    return [table.dbf() + _SEPARATOR + table.kind.encode() + (table.memo or b"") for table in found]


def _state(data: bytes) -> TableState:
    table, _, memo = data.partition(_SEPARATOR)
    kind: MemoKind = "dbt" if memo[:3] == b"dbt" else "fpt"
    return TableState(table, memo[3:] or None, kind if memo[3:] else None, "T.DBF")


TABLES = _tables()


def read_table(data: bytes) -> None:
    """Decodes every cell of every row."""
    for row, _ in load_table(_state(data), "cp850").views():
        for cell in row.values():
            cell.display()


def compare_tables(data: bytes) -> None:
    """Compares the table with the one it was made from, both ways."""
    for one, two in ((TABLES[0], data), (data, TABLES[0])):
        diff_tables(_state(one), _state(two), SPEC, observable="t")


ANSWERS = [
    answer("files", ROOT, FILE, FAULT),
    answer("windows", WINDOW, CONTROL),
    answer("registry", KEY_ROOT, KEY, VALUE),
    answer("processes", PROCESS),
]


def read_answer(data: bytes) -> None:
    """Parses it as it is, which the digest mostly refuses, and with a digest that fits, as a hostile probe would send it."""
    head, _, rest = data.partition(b"\n")
    body = rest[: rest.rfind(b'{"r":"end"')]
    parse(head + b"\n" + body + end(body), expect_id=None)
    parse(data, expect_id=None)


HIVES = [
    write(Key("root", keys=[Key("X", [("", 1, b"a\0b\0\0\0"), ("n", 4, b"\1\2\3\4")], [Key("Sub")])]), lists=lists)
    for lists in ("lf", "lh", "li", "ri")
]


def read_registry(data: bytes) -> None:
    """Reads it with a checksum that fits, so that more than the header is looked at, and as it is."""
    if len(data) >= 512:
        read_hive(with_checksum(data), r"HKLM\SOFTWARE\X")
    read_hive(data, r"HKLM\SOFTWARE\X")


def _reply(data: bytes) -> bytes:
    return json.dumps({"exited": True, "exitcode": 0, "out-data": base64.b64encode(data).decode()}).encode()


AGENT_REPLIES = [
    _reply(answer("version")),
    _reply(answer("processes", PROCESS)),
    b'{"exited": false}',
    b'{"count": 3, "buf-b64": "YWJj", "eof": true}',
    b'{"position": 3, "eof": false}',
    b"1234",
]


def take_reply(data: bytes) -> None:
    """Gives a guest the same reply to everything that it asks the agent: for a program's end, for a file, for a handle."""
    try:
        reply = json.loads(data)
    except (ValueError, RecursionError):
        raise Unreadable("no JSON: the channel's own reader refuses it") from None
    for name in ("guest-exec", "guest-exec-status", "guest-file-open", "guest-file-seek", "guest-file-read"):
        fake = FakeAgent(script={name: [reply] * 3}, files={"/mnt/c/x": b"abc"})
        guest = QgaGuest(fake, WINE)
        with suppress(Unreadable, GuestNotFound):
            if "exec" in name:
                guest.probe("version")
            else:
                guest.read(PureWindowsPath("C:\\x"), limit=10)


VOLUMES = [
    Tiny({
        2: record(2, standard(), file_name(5, "$LogFile"), mapped(DATA, [(8, 32)], 8192)),
        5: root((20, "a.txt"), (21, "b.bin")),
        20: record(20, standard(), file_name(5, "a.txt"), resident(DATA, b"content"), resident(DATA, b"zone", name="zone")),
        21: record(21, standard(), file_name(5, "b.bin"), mapped(DATA, [(1, 40), (2, None), (1, 44)], 4000, flags=0x8000)),
    }, {32: restart_page(2) + restart_page(1)}).bytes(),
]  # fmt: skip
_HUGE_INDEX = Tiny({
    5: root((20, "folder")),
    20: record(
        20, standard(0x10), file_name(5, "folder"), mapped(INDEX_ROOT, [(1 << 29, None)], 1 << 39, name="$I30"), is_folder=True
    ),
}).bytes()  # fmt: skip
"""A directory whose index root claims 512 GiB: refused, and so are most of its mutations."""
_LOOKED_AT = 48 << 10
"""Bytes of a volume in a case: boot sector, records, a few clusters."""


def read_volume(data: bytes) -> None:
    """Reads all of a volume: records with sequences that fit, so that more than the first is looked at, and as they are."""
    for changed in (resealed(data, VOLUMES[0]), data):
        volume = Volume(Memory(changed.ljust(len(VOLUMES[0]), b"\0")))
        for found in volume.in_use():
            if found.extends:
                continue
            file = volume.assembled(found)
            for stream in file.all_streams():
                stream.read(0, min(stream.size, 1 << 16))
            for link in file.links:
                volume.way(link)
            if file.is_directory:
                list(volume.entries(file))
        volume.find(["A.TXT"])
        volume.is_clean()


def targets() -> list[Target]:
    """All of them."""
    refusals = (Unreadable, ContractFault)
    return [
        Target("dbf: read", TABLES, read_table, refusals),
        Target("dbf: compare", TABLES, compare_tables, refusals),
        Target("probe output", ANSWERS, read_answer, (ProbeError,)),
        Target("registry hive", HIVES, read_registry, refusals),
        Target(
            "ntfs: volume",
            [volume[:_LOOKED_AT] for volume in VOLUMES],
            read_volume,
            refusals,
            [_HUGE_INDEX[:_LOOKED_AT]],
        ),
        Target("agent reply", AGENT_REPLIES, take_reply, refusals),
    ]


def run_named(name: str, cases: int, seed: int) -> Outcome:
    """One chunk of a target's cases, in a process of a pool."""
    return run(next(target for target in targets() if target.name == name), cases, seed)
