"""Reading a file tree of a machine through its guest.

A file is hashed where something in the listing differs from an earlier snapshot, unless the tree is small enough to hash it all or the
contract wants it (``verify: full``). Of the files that look unchanged a share is picked by chance and read all the same, so that a
program that puts times back is found out; then everything is read. Where the machine's layers tell what may have changed
(:mod:`runner.layered_trees`), all this concerns the upper layer's entries only.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PureWindowsPath

from contracts.globs import compile_glob, fold
from contracts.schema import FileTree
from runner.guests.base import Guest, GuestNotFound, Unreadable
from runner.guests.probe import FileEntry, ProbeResult
from runner.layered_trees import LayeredTree
from runner.own_files import is_ours
from validators.files import FileItem, Sample, TreeState

MAX_FILE = 2 << 30
"""The largest file that is read, in bytes."""
HASH_ALL = 32 << 20
"""A tree up to this many bytes is hashed whole each time, so that a program that puts a file's time back is still seen."""
SAMPLE_FILES = 1_000
"""How many files that look unchanged are read at most to be sure of it."""
SAMPLE_BYTES = 64 << 20
"""How many bytes of them."""
_ROOTS_AT_ONCE = 100


def read_tree(guest: Guest, spec: FileTree, earlier: TreeState | None, *, seed: str = "") -> TreeState:
    """Lists a tree and hashes what may have changed, and a sample of the rest.

    Args:
        guest: The way into the machine.
        spec: The observable.
        earlier: The tree as it was, with the hashes that are still good where nothing in the listing differs.
        seed: What the sample is picked by.

    Raises:
        Unreadable: The listing is not whole, or a file went away while it was read.
        GuestLost: The machine is gone.
    """
    layered = LayeredTree.of(guest, spec.files)
    partly = layered.read() if layered is not None else None
    if partly is not None:
        listed, sure = partly.asked, partly.known
    else:
        listing = guest.probe("files", "--streams", spec.files, timeout=120.0)
        if not _root_exists(listing, spec):
            return TreeState(exists=False)
        listed, sure = listing.files, ()
    entries = _others(listed, spec)
    whole = spec.verify == "full" or sum(entry.size for entry in entries) <= HASH_ALL
    known = {item.path: item for item in earlier.items} if earlier is not None and not whole else {}
    items = [_item(entry, known.get(entry.path)) for entry in entries]
    try:
        looked, sample = _sample(guest, spec, items, seed) if known else ({}, None)
        if sample is not None and sample.differed:
            items = [_item(entry, None) for entry in entries]
        hashes = looked | _hash(guest, spec.files, _unhashed(items, looked))
        streams = _hash_streams(guest, spec.files, [item.path for item in items if item.streams and not item.sha256])
    except GuestNotFound as error:
        raise Unreadable(f"{error} went away while the tree was read") from None
    done = tuple(
        item
        if item.kind != "file" or item.sha256
        else replace(item, sha256=hashes.get(item.path), streams_sha256=streams.get(item.path, ""))
        for item in items
    )
    if layered is not None and partly is None and not known:
        layered.learn(done)
    return TreeState(True, sure + done, sample=sample)


def list_tree(guest: Guest, spec: FileTree) -> TreeState:
    """A tree without the contents of files that may have changed.

    Raises:
        Unreadable: The listing is not whole.
        GuestLost: The machine is gone.
    """
    layered = LayeredTree.of(guest, spec.files)
    partly = layered.read() if layered is not None else None
    if partly is not None:
        return TreeState(True, partly.known + tuple(_item(entry, None) for entry in _others(partly.asked, spec)))
    listing = guest.probe("files", spec.files, timeout=120.0)
    if not _root_exists(listing, spec):
        return TreeState(exists=False)
    return TreeState(True, tuple(_item(entry, None) for entry in _others(listing.files, spec)))


def _others(listed: Iterable[FileEntry], spec: FileTree) -> list[FileEntry]:
    """Entries that are neither the root itself nor the runner's own files."""
    return [entry for entry in listed if entry.path and not is_ours(PureWindowsPath(spec.files, entry.path))]


def _item(entry: FileEntry, was: FileItem | None) -> FileItem:
    """An entry, with its hashes where the earlier one looks the same; then it is the earlier item itself."""
    streams = tuple((stream.name, stream.size) for stream in entry.streams) if entry.streams else ()
    if (
        was is not None
        and was.sha256 is not None
        and not entry.listed  # the listing of a file that is open may lag behind
        and (was.size, was.mtime, was.attributes, was.kind, was.streams, was.short)
        == (entry.size, entry.mtime, entry.attr, entry.kind, streams, entry.short or "")
    ):
        return was
    return FileItem(entry.path, entry.kind, entry.size, entry.mtime, entry.attr, None, streams, entry.short or "")


def _unhashed(items: Iterable[FileItem], looked: Mapping[str, str]) -> Iterator[str]:
    return (item.path for item in items if item.kind == "file" and not item.sha256 and item.path not in looked)


def _sample(guest: Guest, spec: FileTree, items: Sequence[FileItem], seed: str) -> tuple[dict[str, str], Sample | None]:
    """Reads some of the files whose hashes were taken over.

    Returns:
        Their hashes as they are now, and what they show; ``None`` if no file was taken over or none is to be read.
    """
    taken_over = sorted((item for item in items if item.sha256), key=lambda item: item.path)
    count = min(SAMPLE_FILES, math.ceil(len(taken_over) * spec.sample))
    if not count:
        return {}, None
    chosen = []
    left = SAMPLE_BYTES
    for item in random.Random(f"{seed}\0{spec.files}").sample(taken_over, count):  # noqa: S311 - picks files, keeps no secret
        if item.size <= left:
            chosen.append(item)
            left -= item.size
    now = _hash(guest, spec.files, (item.path for item in chosen))
    differed = tuple(sorted(item.path for item in chosen if now.get(item.path, item.sha256) != item.sha256))
    return now, Sample(len(now), len(taken_over), differed)


def _hash_streams(guest: Guest, root: str, paths: Sequence[str]) -> dict[str, str]:
    """One hash over all alternate streams of each of those files whose streams can be read."""
    hashes: dict[str, str] = {}
    for start in range(0, len(paths), _ROOTS_AT_ONCE):
        some = paths[start : start + _ROOTS_AT_ONCE]
        with contextlib.suppress(Unreadable, ValueError):  # compared by name and size then, with a warning
            answer = guest.probe("files", "--hash", "--streams", *(f"{root}\\{path}" for path in some), timeout=120.0)
            for entry in answer.files:
                streams = [(stream.name, stream.size, stream.sha256) for stream in entry.streams or ()]
                if not entry.path and streams and all(known for _, _, known in streams):
                    hashes[some[entry.root]] = hashlib.sha256(repr(sorted(streams)).encode()).hexdigest()
    return hashes


def _root_exists(listing: ProbeResult, spec: FileTree) -> bool:
    found = listing.roots[0] if len(listing.roots) == 1 else None
    if found is None or found.exists is None:
        why = f": {listing.faults[0].message}" if listing.faults else ""
        raise Unreadable(f"{spec.files}: the probe could not tell whether it exists{why}")
    if found.exists and found.type != "dir":
        raise Unreadable(f"{spec.files} is a {found.type}, not a folder")
    ignored = [compile_glob(rule.path) for rule in spec.ignore]
    for fault in listing.faults:
        inside = _relative(fault.path, spec.files)
        if inside is None or not any(fits(inside) for fits in ignored):
            raise Unreadable(f"{fault.path or spec.files}: {fault.message} (code {fault.code}, while doing {fault.op})")
    return found.exists


def _relative(path: str, root: str) -> str | None:
    """The path below the root; ``None`` for the root itself and for what lies elsewhere."""
    start = fold(root).rstrip("\\") + "\\"
    return path[len(start) :] if fold(path).startswith(start) and len(path) > len(start) else None


def _hash(guest: Guest, root: str, paths: Iterable[str]) -> dict[str, str]:
    """SHA-256 of those files that can be read, by path relative to the root."""
    hashes = {}
    for path in paths:
        # One file that cannot be read does not make the tree unreadable: whether it matters, the comparison decides.
        with contextlib.suppress(Unreadable):
            hashes[path] = hashlib.sha256(guest.read(PureWindowsPath(root, path), limit=MAX_FILE)).hexdigest()
    return hashes
