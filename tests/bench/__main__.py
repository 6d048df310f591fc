"""``make bench``: every measurement against its target; prints a table and writes ``bench.json``.

Ratios are against a named alternative measured in the same run, since these figures are taken on shared machines.

``--quick`` (``make bench QUICK=1``) takes small sizes and few repetitions: it shows that every measurement works, in minutes, and holds
no figure against its target. Parts are named to have only those.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import (
    dbf_diff,
    ledger_scale,
    libvirt,
    machine_overhead,
    offline,
    recorder_latency,
    sql_diff,
    tree_snapshot,
)


@dataclass(frozen=True)
class Row:
    """One measurement: ``holds`` is ``None`` where a value is told without a target."""

    name: str
    value: float
    unit: str
    against: str
    target: str
    holds: bool | None


def _rows(quick: bool, whole: int) -> int:
    return whole // 50 if quick else whole


def machine(quick: bool) -> Iterator[Row]:
    """Overhead per run on the embedded machine."""
    found = machine_overhead.measure(1, 2) if quick else machine_overhead.measure()
    against = f"the agent's own time in the same runs ({found['agent']:.2f} s)"
    own = found["overhead"] - found["quiet"]
    yield Row("embedded machine: overhead per run, quiet time left out", own, "s", against, "≤ 2 s", own <= 2)
    yield Row("  with the quiet time, one run alone", found["overhead"], "s", against, "", None)
    yield Row(
        f"  with the quiet time, in a campaign of {found['runs']:.0f}, one at work",
        found["campaign"],
        "s",
        against,
        "",
        None,
    )
    for phase in machine_overhead.PHASES:
        yield Row(f"  of it {phase}", found[phase], "s", "", "", None)


def recorder(quick: bool) -> Iterator[Row]:
    """Latency that the flight recorder adds."""
    for screen, found in recorder_latency.measure(40 if quick else recorder_latency.EVENTS).items():
        for part in ("median", "p95"):
            added = found[f"added_{part}"]
            yield Row(
                f"flight recorder: added per event, {screen} screen, {part}", added, "ms",
                f"the same server directly ({found[f'direct_{part}']:.2f} ms)", "< 5 ms", added < 5,
            )  # fmt: skip


def dbf(quick: bool) -> Iterator[Row]:
    """Comparing two tables of a million rows."""
    rows = _rows(quick, dbf_diff.ROWS)
    found = dbf_diff.measure(rows)
    yield Row(
        f"DBF: {rows:,} × 30 table compared, 3 rows changed", found["times_faster_than_dbfread"], "×",
        "reading both with dbfread and comparing", "≥ 300 × faster", found["times_faster_than_dbfread"] >= 300,
    )  # fmt: skip
    yield Row(
        "  against cmp", found["times_cmp"], "×", "cmp of the two files", "≤ 3 × its time", found["times_cmp"] <= 3
    )
    memory = found["memory_mib"]
    yield Row("  memory beyond the mapped files", memory, "MiB", "", "≤ 64 MiB", memory <= 64)


def ledger(quick: bool) -> Iterator[Row]:
    """Accounting for many changes."""
    found = ledger_scale.measure(_rows(quick, ledger_scale.CHANGES))
    yield Row(
        f"ledger: {found['changes']:,} changes × {found['effects']} effects",
        found["seconds"],
        "s",
        "",
        "≤ 2 s",
        found["seconds"] <= 2,
    )
    yield Row("  growth", found["ratio"], "×", "half as many changes", "≤ 2.5 (linear: 2)", found["ratio"] <= 2.5)


def tree(quick: bool) -> Iterator[Row]:
    """Snapshot of a large file tree after a few files changed."""
    found = tree_snapshot.measure(tree_snapshot.FILES // 10 if quick else tree_snapshot.FILES)
    yield Row(
        f"file tree: snapshot of {found['files']:,} files, {found['changed']} changed", found["times_faster"], "×",
        f"reading and hashing every file ({found['hashing_seconds']:.1f} s)", "≥ 100 × faster", found["times_faster"] >= 100,
    )  # fmt: skip
    yield Row(
        "  without layers to ask, by listing it", found["times_faster_by_listing"], "×", "the same", "≥ 10 × faster",
        found["times_faster_by_listing"] >= 10,
    )  # fmt: skip


def sql(quick: bool) -> Iterator[Row]:
    """After-snapshot and comparison of a large SQL table."""
    rows = _rows(quick, sql_diff.ROWS)
    found = sql_diff.measure(rows)
    against = f"pyodbc fetchall of both states and comparing ({found['fetchall_seconds']:.1f} s)"
    ratio, share = found["times_faster_than_fetchall"], found["share_of_fetchall_memory"]
    yield Row(f"SQL: {rows:,} × 20 table read again and compared", ratio, "×", against, "≥ 5 × faster", ratio >= 5)
    yield Row(
        "  memory", found["memory_mib"], "MiB", f"the same ({found['fetchall_memory_mib']:.0f} MiB)", "≤ 1/4 of it",
        share <= 0.25,
    )  # fmt: skip


def virtual(quick: bool) -> Iterator[Row]:
    """Clones of a virtual machine against its cold start, and several at once."""
    found = libvirt.measure(1 if quick else libvirt.REPETITIONS)
    cold = f"a cold start of the same image ({found['cold']:.1f} s)"
    for count, least in ((1, 20), (2, None), (4, 10)):
        times = found["cold"] / found[f"ready_{count}"]
        yield Row(
            f"virtual machine: {count} clone{'s at once' if count > 1 else ''} ready ({found[f'ready_{count}']:.2f} s)", times,
            "×", cold, f"≥ {least} × faster" if least else "", times >= least if least else None,
        )  # fmt: skip
        yield Row("  of it until the processors run", found[f"running_{count}"], "s", "", "", None)
        yield Row("  memory per clone", found[f"pss_{count}"], "MiB", "", "", None)
    yield Row("  discarding a clone", found["discard"], "s", "", "", None)


def disk(quick: bool) -> Iterator[Row]:
    """What changed on a whole disk, from its overlay."""
    found = offline.measure(1 if quick else offline.REPETITIONS)
    faster, listed = found["times_faster"], found["listing_seconds"]
    yield Row(
        f"disk: {found['changes']} changes among {found['files']:,} files on 2 GiB of NTFS found", faster["libfsntfs"], "×",
        f"listing both volumes with libfsntfs and comparing ({listed['libfsntfs']:.2f} s)", "≥ 50 × faster",
        faster["libfsntfs"] >= 50,
    )  # fmt: skip
    for name, what in (
        ("sleuthkit_with_streams", "the same by The Sleuth Kit, streams included"),
        ("sleuthkit", "the same by The Sleuth Kit, names, sizes and times only"),
        ("own", "listing both through our own offline guest"),
        ("own_with_contents", "the same with all contents: no other sees the file written in place"),
    ):
        yield Row("  against other ways", faster[name], "×", f"{what} ({listed[name]:.2f} s)", "", None)
    yield Row("  its time", found["diff_seconds"] * 1000, "ms", "", "", None)
    yield Row("  index of clusters, once per checkpoint", found["index_seconds_once_per_checkpoint"], "s", "", "", None)


PARTS: dict[str, Callable[[bool], Iterator[Row]]] = {
    "machine": machine,
    "recorder": recorder,
    "dbf": dbf,
    "ledger": ledger,
    "tree": tree,
    "sql": sql,
    "disk": disk,
    "libvirt": virtual,
}


def main() -> None:
    """Runs the parts named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--quick", action="store_true", help="small sizes, held against no target")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    given = parser.parse_args()
    if unknown := set(given.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    console = Console()
    table = Table("what", "value", "against", "target", "holds")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("LEGACYPROOF_HOME", home)
        for part in given.parts or PARTS:
            console.print(f"measuring: {part}")
            for measured in PARTS[part](given.quick):
                row = replace(measured, holds=None) if given.quick else measured
                rows.append(row)
                holds = "" if row.holds is None else "yes" if row.holds else "NO"
                table.add_row(row.name, f"{row.value:.3g} {row.unit}", row.against, row.target, holds)
    console.print(table)
    Path("bench.json").write_text(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False) + "\n")
    console.print("written: bench.json")


if __name__ == "__main__":
    main()
