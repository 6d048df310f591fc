"""Times the after-snapshot and comparison of a large PostgreSQL table against pyodbc's ``fetchall`` of both states.

``python -m tests.bench.sql_diff [rows]`` prints the figures as JSON. A server is started for it; the table has 20 columns and three
of its rows are changed between the states. Both sides are measured in processes of their own: ours with the process that it
starts for reading; the before-rows are mapped from a file, as they are with a checkpoint. The alternative reads the table twice,
once for each state, keeps dictionaries by key, and compares them.
"""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from contracts.schema import SqlTable
from runner.sql.snapshot import read_source
from runner.sql.sources import Source
from tests.peers.sql_servers import SqlServer, postgres
from validators.sql.diff import diff_sql
from validators.sql.table import SqlState

ROWS = 1_000_000
_TABLE = """
CREATE TABLE big AS SELECT i AS id, 'name ' || i AS name, 'first ' || (i % 1000) AS first, (i % 100000)::numeric(12,2) AS amount,
 date '1950-01-01' + (i % 20000) AS born, timestamp '2020-01-01' + i * interval '1 second' AS created, i % 2 = 0 AS active,
 i::bigint * 1000003 AS number, md5(i::text) AS code, i * 0.37::float8 AS x, 'Straße ' || (i % 500) AS street,
 lpad((i % 99999)::text, 5, '0')::char(5) AS zip, 'City ' || (i % 300) AS city, CASE WHEN i % 10 = 0 THEN NULL ELSE 'note ' || i END AS note,
 (i % 7)::smallint AS small, (i % 1000)::numeric AS n, 'x' || i AS c1, 'y' || i AS c2,
 timestamptz '2021-01-01 00:00:00+01' + i * interval '3 second' AS seen, 'insurance ' || (i % 50) AS insurance
FROM generate_series(1, {rows}) i
"""
_SPEC = SqlTable.model_validate({"sql": "bench", "table": "public.big"})


def measure(rows: int = ROWS) -> dict[str, Any]:
    """Measures, in seconds and MiB.

    Args:
        rows: Rows of the table.
    """
    with postgres() as server, tempfile.TemporaryDirectory() as name:
        server.run(_TABLE.format(rows=rows), "ALTER TABLE big ADD PRIMARY KEY (id)", "VACUUM ANALYZE big")
        folder = Path(name)
        before = _read(server.odbc)
        (folder / "rows").write_bytes(before.rows)
        (folder / "state").write_bytes(pickle.dumps(replace(before, rows=b"")))
        server.run(
            f"UPDATE big SET name = 'changed' WHERE id = {rows // 3 + 1}", f"DELETE FROM big WHERE id = {rows // 2 + 1}",
            f"INSERT INTO big SELECT {rows + 1}, name FROM big WHERE id = 1",
        )  # fmt: skip
        ours = _in_a_process("ours", server, folder)
        theirs = _in_a_process("fetchall", server, folder)
        size = len(before.rows)
    return {
        "rows": rows,
        "columns": len(before.columns),
        "lines_mib": round(size / 2**20, 1),
        "changes": ours["changes"],
        "seconds": ours["seconds"],
        "of_it_diff_seconds": ours["diff_seconds"],
        "memory_mib": ours["memory_mib"],
        "notes": ours["notes"],
        "fetchall_seconds": theirs["seconds"],
        "fetchall_memory_mib": theirs["memory_mib"],
        "times_faster_than_fetchall": theirs["seconds"] / ours["seconds"],
        "share_of_fetchall_memory": ours["memory_mib"] / theirs["memory_mib"],
    }


def _read(odbc: str) -> SqlState:
    (state,) = read_source(Source("bench", "odbc", odbc), [_SPEC.table])
    if not isinstance(state, SqlState):
        raise OSError(state.reason)
    return state


def _in_a_process(which: str, server: SqlServer, folder: Path) -> dict[str, Any]:
    out = subprocess.run(
        [sys.executable, "-m", "tests.bench.sql_diff", which, server.odbc, folder],
        check=True,
        stdout=subprocess.PIPE,
        timeout=900,
    )
    found: dict[str, Any] = json.loads(out.stdout)
    return found


def _ours(odbc: str, folder: Path) -> dict[str, Any]:
    watch = _Memory()
    state = pickle.loads((folder / "state").read_bytes())
    begun = time.perf_counter()
    with (folder / "rows").open("rb") as file:
        before = replace(state, rows=mmap(file.fileno(), 0, access=ACCESS_READ))
    after = _read(odbc)
    read = time.perf_counter()
    found = diff_sql(before, after, _SPEC, observable="big")
    done = time.perf_counter()
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # the reading process, whole
    return {
        "seconds": done - begun, "diff_seconds": done - read, "memory_mib": max(child, 0) + watch.peak(),
        "changes": sorted(change.verb for change in found.changes), "notes": list(after.notes),
    }  # fmt: skip


def _fetchall(odbc: str) -> dict[str, Any]:
    import pyodbc

    begun = time.perf_counter()
    session = pyodbc.connect(odbc)
    states = [{row[0]: row for row in session.execute("SELECT * FROM big").fetchall()} for _ in range(2)]
    # Both readings are of the state after: what it costs does not depend on the three rows.
    old, new = states
    changed = [key for key, row in new.items() if key in old and tuple(old[key]) != tuple(row)]
    came = [key for key in new if key not in old]
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "memory_mib": peak, "differences": len(changed) + len(came)}


class _Memory:
    """Watches the anonymous memory of this process: mapped files are the page cache's."""

    def __init__(self) -> None:
        self._peak, self._done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.005):
            self._peak = max(self._peak, _anonymous())

    def peak(self) -> float:
        self._done.set()
        self._thread.join()
        return max(self._peak, _anonymous())


def _anonymous() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise OSError("no RssAnon in /proc/self/status")


def main() -> None:
    """Prints the figures."""
    if sys.argv[1:2] == ["ours"]:
        print(json.dumps(_ours(sys.argv[2], Path(sys.argv[3]))))  # noqa: T201
    elif sys.argv[1:2] == ["fetchall"]:
        print(json.dumps(_fetchall(sys.argv[2])))  # noqa: T201
    else:
        print(json.dumps(measure(int(sys.argv[1]) if sys.argv[1:] else ROWS), indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
