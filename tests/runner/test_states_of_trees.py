"""Trees as evidence and back, with short names, streams, samples; evidence of older runs."""

from __future__ import annotations

import json
from mmap import mmap

from runner.record import Reading
from runner.states import keep_state, load_state
from validators.files import FileItem, Sample, TreeState


class Blobs(dict[str, bytes]):
    def keep(self, data: bytes | mmap) -> str:
        name = str(len(self))
        self[name] = bytes(data)
        return name


def test_a_tree_comes_back_as_it_was_kept() -> None:
    items = (
        FileItem("Brief 1.txt", "file", 3, 7, 0x20, "ab", ((":zone:$DATA", 26),), "BRIEF1~1.TXT", "cd"),
        FileItem("odd\ud800", "dir", 0, 7, 0x10),
    )
    state = TreeState(True, items, {"Brief 1.txt": b"abc"}, {"x": "too large"}, Sample(3, 9, ("a",)))
    blobs = Blobs()
    assert load_state(keep_state(state, blobs.keep), blobs.__getitem__) == state
    plain = TreeState(True, (), {}, {})
    assert load_state(keep_state(plain, blobs.keep), blobs.__getitem__) == plain


def test_evidence_without_short_names_and_samples_is_read() -> None:
    kept = {"items": [["a", "file", 1, 2, 3, "ab", []]], "contents": [], "missing": []}
    reading = Reading(kind="files", blobs={"items": "x"}, about={"exists": True})
    found = load_state(reading, {"x": json.dumps(kept).encode()}.__getitem__)
    assert found == TreeState(True, (FileItem("a", "file", 1, 2, 3, "ab"),), {}, {})
