"""Times the after-snapshot of a large file tree of which a few files changed, against hashing the tree.

``python -m tests.bench.tree_snapshot [files]`` prints the figures as JSON. The tree lies in the checkpoint of an embedded machine;
listing, reading and comparing are those of a run. Everything is measured with warm caches, which flatters hashing: cold, it reads the
whole tree from the disk. Snapshots are the best of three, hashing the second of two. ``listing`` is the way of machines that have no
layers to ask.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from contracts.schema import FileTree
from runner.capture_trees import read_tree
from runner.guests.base import Guest
from runner.guests.wine import WineGuest
from runner.machines import sealing, wine_base
from runner.machines.base import Tag, home
from runner.machines.images import find_image
from runner.machines.wine import WineCheckpoint, WineMachine, WineProvider
from validators.files import TreeState, diff_trees

FILES = 100_000
SIZE = 4_096
CHANGED = 5
_ROOT = r"C:\BENCH"
_CHANGE = """
import sys
for number in range(0, int(sys.argv[1]), int(sys.argv[1]) // int(sys.argv[2])):
    with open(f"/prefix/drive_c/BENCH/{number // 500:04}/file{number:06}.dat", "ab") as file:
        file.write(b"more")
"""


def measure(files: int = FILES) -> dict[str, Any]:
    """Measures, in seconds and ratios.

    Args:
        files: How many files of 4 KiB the tree holds; the cost of hashing grows with it.
    """
    base = WineProvider().prepare(find_image("dentadesk"), [], [], folder=Path.cwd())

    def fill(layer: Path) -> None:
        for number in range(files):
            folder = layer / "drive_c" / "BENCH" / f"{number // 500:04}"
            if number % 500 == 0:
                folder.mkdir(parents=True)
            (folder / f"file{number:06}.dat").write_bytes(number.to_bytes(8, "little") * (SIZE // 8))

    layer, seal = sealing.sealed(home() / "checkpoints" / f"bench-{files}-{SIZE}", "layer", fill, about={})
    checkpoint = WineCheckpoint(base.image, base.key, base.prefix, base.base, ((layer, seal.contents),))
    machine = checkpoint.clone(Tag("bench", "tree"))
    try:
        return _measured(machine, files)
    finally:
        machine.discard()
        shutil.rmtree(layer.parent)


def _measured(machine: WineMachine, files: int) -> dict[str, Any]:
    spec = FileTree.model_validate({"files": _ROOT})
    full = FileTree.model_validate({"files": _ROOT, "verify": "full"})
    plain = WineGuest(machine._sandbox, loader=str(wine_base.WINE), probe=wine_base.PROBE)  # type: ignore[arg-type]
    before, learning = _timed(machine.guest, full, None)  # warms the caches
    _, hashing = _timed(plain, full, None)
    _inside(machine, _CHANGE, files, CHANGED)
    after, snapshot = min((_timed(machine.guest, full, before) for _ in range(3)), key=lambda one: one[1])
    _, listing = min((_timed(plain, spec, before) for _ in range(3)), key=lambda one: one[1])
    plain.close()
    comparing = time.perf_counter()
    found = diff_trees(before, after, spec, observable="tree", owned=lambda _path, _verb: False)
    comparing = time.perf_counter() - comparing
    assert [change.verb for change in found.changes] == ["modified"] * CHANGED, found.changes
    return {
        "files": files,
        "file_bytes": SIZE,
        "changed": CHANGED,
        "snapshot_seconds": snapshot,
        "snapshot_by_listing_seconds": listing,
        "first_reading_seconds": learning,
        "hashing_seconds": hashing,
        "compare_seconds": comparing,
        "times_faster": hashing / snapshot,
        "times_faster_by_listing": hashing / listing,
    }


def _timed(guest: Guest, spec: FileTree, earlier: TreeState | None) -> tuple[TreeState, float]:
    start = time.perf_counter()
    state = read_tree(guest, spec, earlier, seed="bench")
    return state, time.perf_counter() - start


def _inside(machine: WineMachine, program: str, *arguments: int) -> None:
    assert machine._sandbox is not None
    done = machine._sandbox.run(["/usr/bin/python3", "-c", program, *map(str, arguments)], timeout=600)
    assert done.status == 0, done.stderr


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:])), indent=1))  # noqa: T201
