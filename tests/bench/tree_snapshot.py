"""Times the after-snapshot of a large file tree of which a few files changed, against hashing the tree.

``python -m tests.bench.tree_snapshot [files]`` prints the figures as JSON. The tree lies in an embedded machine; listing, reading
and comparing are those of a run. Everything is measured with warm caches, which flatters hashing: cold, it reads the whole tree from
the disk. The snapshot is the best of three, hashing the second of two.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from contracts.schema import FileTree
from runner import capture
from runner.machines.base import Tag
from runner.machines.images import find_image
from runner.machines.wine import WineMachine, WineProvider
from validators.files import TreeState, diff_trees

FILES = 20_000
SIZE = 32_768
CHANGED = 5
_ROOT = r"C:\BENCH"
_MAKE = """
import os, sys
files, size = int(sys.argv[1]), int(sys.argv[2])
for number in range(files):
    folder = f"/prefix/drive_c/BENCH/{number // 500:04}"
    if number % 500 == 0:
        os.makedirs(folder)
    with open(f"{folder}/file{number:06}.dat", "wb") as file:
        file.write(number.to_bytes(8, "little") * (size // 8))
"""
_CHANGE = """
import sys
for number in range(0, int(sys.argv[1]), int(sys.argv[1]) // int(sys.argv[2])):
    with open(f"/prefix/drive_c/BENCH/{number // 500:04}/file{number:06}.dat", "ab") as file:
        file.write(b"more")
"""


def measure(files: int = FILES) -> dict[str, Any]:
    """Measures, in seconds and ratios.

    Args:
        files: How many files of 32 KiB the tree holds; its cost grows with it, and so does that of hashing.
    """
    machine = WineProvider().prepare(find_image("dentadesk"), [], [], folder=Path.cwd()).clone(Tag("bench", "tree"))
    try:
        return _measured(machine, files)
    finally:
        machine.discard()


def _measured(machine: WineMachine, files: int) -> dict[str, Any]:
    _inside(machine, _MAKE, files, SIZE)
    spec = FileTree.model_validate({"files": _ROOT})
    full = FileTree.model_validate({"files": _ROOT, "verify": "full"})
    capture.read_tree(machine.guest, full, None)  # warms the caches
    before, hashing = _timed(machine, full, None)
    in_guest = time.perf_counter()
    machine.guest.probe("files", "--hash", _ROOT, timeout=600)
    in_guest = time.perf_counter() - in_guest
    _inside(machine, _CHANGE, files, CHANGED)
    after, snapshot = min((_timed(machine, spec, before) for _ in range(3)), key=lambda one: one[1])
    listing = time.perf_counter()
    machine.guest.probe("files", "--streams", _ROOT, timeout=600)
    listing = time.perf_counter() - listing
    comparing = time.perf_counter()
    found = diff_trees(before, after, spec, observable="tree", owned=lambda _path, _verb: False)
    comparing = time.perf_counter() - comparing
    assert [change.verb for change in found.changes] == ["modified"] * CHANGED, found.changes
    assert after.sample is not None
    return {
        "files": files,
        "file_bytes": SIZE,
        "changed": CHANGED,
        "sampled": after.sample.hashed,
        "snapshot_seconds": snapshot,
        "of_it_listing_seconds": listing,
        "hashing_seconds": hashing,
        "hashing_by_the_probe_seconds": in_guest,
        "compare_seconds": comparing,
        "times_faster": hashing / snapshot,
        "times_faster_than_probe": in_guest / snapshot,
    }


def _timed(machine: WineMachine, spec: FileTree, earlier: TreeState | None) -> tuple[TreeState, float]:
    start = time.perf_counter()
    state = capture.read_tree(machine.guest, spec, earlier, seed="bench")
    return state, time.perf_counter() - start


def _inside(machine: WineMachine, program: str, *arguments: int) -> None:
    assert machine._sandbox is not None
    done = machine._sandbox.run(["/usr/bin/python3", "-c", program, *map(str, arguments)], timeout=600)
    assert done.status == 0, done.stderr


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:])), indent=1))  # noqa: T201
