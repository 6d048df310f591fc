"""Times the comparison of two large DBF tables against dbfread and ``cmp``.

``python -m tests.bench.dbf_diff [rows]`` prints the figures as JSON. Two tables of 30 columns with three changed rows are
written to a temporary folder, everything is measured with warm caches, and memory in a process of its own.
"""

from __future__ import annotations

import json
import mmap
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from contracts.schema import DbfTable
from tests.validators.dbf_files import F, Table
from validators.dbf import KeyIndex, TableState, diff_tables

ROWS = 1_000_000
_DBFREAD_ROWS = 20_000
"""dbfread reads this many of the rows; its time is scaled up linearly, which flatters it (its lists are small)."""
_FIELDS = [
    F("PATNR", "C", 8),
    *(F(f"TEXT{number}", "C", 12) for number in range(15)),
    *(F(f"NUM{number}", "N", 10, 2) for number in range(8)),
    *(F(f"DAY{number}", "D", 8) for number in range(4)),
    *(F(f"FLAG{number}", "L", 1) for number in range(2)),
]
_SPEC = {"dbf": r"C:\D\BIG.DBF", "key": ["PATNR"]}


def build(folder: Path, rows: int) -> tuple[Path, Path]:
    """Writes the two tables.

    Args:
        folder: Where to.
        rows: How many rows.

    Returns:
        The tables before and after.
    """
    head = Table(_FIELDS).header()
    texts = b"".join(b"text %-7d" % number for number in range(15))
    numbers = b"".join(b"%10.2f" % (number * 1.25) for number in range(8))
    rest = texts + numbers + b"20240131" * 4 + b"TF"
    length = 1 + sum(item.length for item in _FIELDS)
    data = bytearray(head[:4] + rows.to_bytes(4, "little") + head[8:])
    for number in range(rows):
        # Numbers are scattered, so that keys do not come sorted.
        data += b" %08d" % (number * 7919 % 100_000_007)
        data += rest
    before = folder / "before.dbf"
    before.write_bytes(data + b"\x1a")
    first = len(head)
    for row, at, byte in ((rows // 3, 20, b"X"), (rows // 2, 0, b"*"), (rows - 1, 30, b"Y")):
        data[first + row * length + at : first + row * length + at + 1] = byte
    after = folder / "after.dbf"
    after.write_bytes(data + b"\x1a")
    return before, after


def measure(rows: int = ROWS) -> dict[str, Any]:
    """Measures, in seconds, ratios and MiB.

    Args:
        rows: Rows of each table.
    """
    with tempfile.TemporaryDirectory() as name:
        before, after = build(Path(name), rows)
        spec = DbfTable.model_validate(_SPEC)
        with before.open("rb") as one, after.open("rb") as two:
            old = TableState(mmap.mmap(one.fileno(), 0, access=mmap.ACCESS_READ), None, None, "before")
            new = TableState(mmap.mmap(two.fileno(), 0, access=mmap.ACCESS_READ), None, None, "after")
            index = KeyIndex.build(old, spec.key)
            found = diff_tables(old, new, spec, observable="big", index=index)
            verbs = sorted(change.verb for change in found.changes)
            ours = _best(lambda: diff_tables(old, new, spec, observable="big", index=index))
            unindexed = _best(lambda: diff_tables(old, new, spec, observable="big"), 2)
            build_index = _best(lambda: KeyIndex.build(old, spec.key), 2)
        # cmp stops at the first difference: it gets equal files, so that it reads both whole.
        copy = before.with_name("copy.dbf")
        shutil.copyfile(before, copy)
        cmp = _best(lambda: subprocess.run(["cmp", "-s", before, copy], check=True))
        small = min(rows, _DBFREAD_ROWS)
        folder = Path(name) / "small"
        folder.mkdir()
        reading = _best(_dbfread(*build(folder, small)), 2) * rows / small
        memory = {label: _memory(before, after, label) for label in ("indexed", "unindexed")}
        size = before.stat().st_size
    return {
        "rows": rows,
        "columns": len(_FIELDS),
        "file_mib": round(size / 2**20, 1),
        "changes": verbs,
        "diff_seconds": ours,
        "diff_without_index_seconds": unindexed,
        "index_seconds": build_index,
        "cmp_equal_files_seconds": cmp,
        "dbfread_seconds_scaled": reading,
        "dbfread_rows_measured": small,
        "times_faster_than_dbfread": reading / ours,
        "times_faster_than_dbfread_without_index": reading / unindexed,
        "times_cmp": ours / cmp,
        "memory_mib": memory["indexed"],
        "memory_without_index_mib": memory["unindexed"],
    }


def _best(work: Callable[[], object], times: int = 3) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def _dbfread(before: Path, after: Path) -> Callable[[], object]:
    from dbfread import DBF

    def compare() -> list[Any]:
        rows = {row["PATNR"]: row for row in DBF(str(before), encoding="cp1252")}
        return [row for row in DBF(str(after), encoding="cp1252") if rows.get(row["PATNR"]) != row]

    return compare


def _memory(before: Path, after: Path, mode: str) -> float:
    """Peak of anonymous memory during the comparison, above that of the idle program, in MiB."""
    out = subprocess.run(
        [sys.executable, "-m", "tests.bench.dbf_diff", "--memory", mode, before, after],
        check=True, capture_output=True, timeout=120, text=True,
    )  # fmt: skip
    return float(out.stdout)


def _measure_memory(mode: str, before: str, after: str) -> float:
    spec = DbfTable.model_validate(_SPEC)
    with open(before, "rb") as one, open(after, "rb") as two:
        old = TableState(mmap.mmap(one.fileno(), 0, access=mmap.ACCESS_READ), None, None, "before")
        new = TableState(mmap.mmap(two.fileno(), 0, access=mmap.ACCESS_READ), None, None, "after")
        idle = _anonymous()
        index = KeyIndex.build(old, spec.key) if mode == "indexed" else None
        peak, done = [0.0], threading.Event()

        def watch() -> None:
            while not done.wait(0.002):
                peak[0] = max(peak[0], _anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        diff_tables(old, new, spec, observable="big", index=index)
        peak[0] = max(peak[0], _anonymous())
        done.set()
        watcher.join()
    return peak[0] - idle


def _anonymous() -> float:
    """This process's resident memory that belongs to no file, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise OSError("no RssAnon in /proc/self/status")


def main() -> None:
    """Prints the figures."""
    if sys.argv[1:2] == ["--memory"]:
        print(_measure_memory(*sys.argv[2:5]))  # noqa: T201
    else:
        print(json.dumps(measure(int(sys.argv[1]) if sys.argv[1:] else ROWS), indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
