"""Mutants of file trees: the files that the task makes, and every other file added, changed or removed."""

from __future__ import annotations

import hashlib
import ntpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from contracts.schema import DbfTable, Effect, FileTree
from validators.changes import Change, Verb
from validators.dbf import is_owned
from validators.files import HIDDEN, READONLY, FileItem, TreeState
from validators.mutate.golden import Flaw, Golden, Mutant, rewritten
from validators.snapshot import State
from validators.values import shown

_MOST_FILES = 40
"""Files of a tree that are changed and removed one by one."""
_NEW = "NEUE DATEI.TMP"
_UNOBSERVED = "(files)"
"""Stands for a tree that nobody observes."""
_SOME_TIME = 133_000_000_000_000_000


def mutants_of_trees(golden: Golden) -> Iterator[Mutant]:
    """Every mutant of file trees but those in which effects as a whole are missing."""
    trees = {name: state for name, state in golden.after.items() if isinstance(state, TreeState)}
    for name, state in trees.items():
        for entry, effect in golden.expected:
            if entry.change.observable == name and entry.change.after is not None:
                yield from _expected(golden, state, entry.change, effect)
        yield from _beside(golden, name, state)
    if not trees:
        tables = [spec for spec in golden.contract.observe.values() if isinstance(spec, DbfTable)]
        root = ntpath.dirname(tables[0].dbf) if tables else "C:\\…"
        yield Mutant(
            Flaw.FILE_ADDED, f"a file {_NEW} was added, and nobody looks",
            {**golden.after, _UNOBSERVED: TreeState(True, (_file(_NEW),))}, golden.returned,
            "no file tree is observed: files may come, change and go",
            f"observe the program's folder: `program: {{files: '{root}'}}`",
        )  # fmt: skip


def _file(path: str, data: bytes = b"neu\r\n") -> FileItem:
    return FileItem(path, "file", len(data), _SOME_TIME, 0x20, hashlib.sha256(data).hexdigest())


@dataclass(frozen=True)
class _Tree:
    """Makes states of one tree."""

    golden: Golden
    name: str
    state: TreeState

    def with_item(self, path: str, item: FileItem | None, data: bytes | None = None) -> dict[str, State]:
        """The snapshot with one entry replaced, added or left out, and its content where it is known."""
        items = [other for other in self.state.items if other.path != path]
        contents = {key: value for key, value in (self.state.contents or {}).items() if key != path}
        if item is not None:
            items.append(item)
            if data is not None:
                contents[item.path] = data
        return self.golden.with_states({self.name: replace(self.state, items=tuple(items), contents=contents)})

    def mutant(self, flaw: Flaw, words: str, after: dict[str, State], hole: str, advice: str) -> Mutant:
        """A mutant of it."""
        return Mutant(flaw, f"{self.name}: {words}", after, self.golden.returned, hole, advice)


def _expected(golden: Golden, state: TreeState, change: Change, effect: Effect) -> Iterator[Mutant]:
    """The file that the task makes or changes, with other contents."""
    tree = _Tree(golden, change.observable, state)
    item = next((item for item in state.items if item.path == change.subject), None)
    if item is None or item.kind != "file" or change.verb is Verb.ATTRIBUTES:
        return
    label = f"{effect.verb} {effect.observable}"
    hole = f"`{label}` says too little about what {shown(item.path, 80)} holds"
    advice = "add `content: …` with what the file must hold"
    data = change.content
    others = {"holds something else": b"etwas anderes\r\n", "is empty": b""}
    if data:
        others["is cut in the middle"] = data[: len(data) // 2]
        # No digit: what ends in a date of the run could become another one, as right as the first.
        others["has another last sign"] = data[:-1] + (b"Y" if data.endswith(b"X") else b"X")
    for words, other in others.items():
        if other != data:
            after = tree.with_item(item.path, rewritten(item, other), other)
            yield tree.mutant(Flaw.FILE_WRONG, f"{shown(item.path, 80)} {words}", after, hole, advice)
    elsewhere = replace(item, path=_beside_of(item.path))
    yield tree.mutant(
        Flaw.FILE_WRONG, f"{shown(item.path, 80)} was stored as {shown(elsewhere.path, 80)}",
        tree.with_item(item.path, elsewhere, data), f"`path` of `{label}` fits other names", "write the path without wildcards",
    )  # fmt: skip


def _beside_of(path: str) -> str:
    folder, name = ntpath.split(path)
    return ntpath.join(folder, f"ANDERE-{name}")


def _beside(golden: Golden, name: str, state: TreeState) -> Iterator[Mutant]:
    """Files that the task is not about."""
    tree = _Tree(golden, name, state)
    if name in golden.contract.observe:
        hole = f"files of {name} that the task is not about may come, change and go"
        advice = f"narrow the effects and ignore rules of {name} to the files that are meant"
    else:
        hole = f"{name} is not observed: files there may come, change and go"
        advice = f"observe it: `{name}: {{files: '…'}}`"
    folders = ["", *sorted(item.path for item in state.items if item.kind == "dir")[:3]]
    taken = {item.path for item in state.items}
    for folder in folders:
        path = ntpath.join(folder, _NEW)
        if path not in taken:
            after = tree.with_item(path, _file(path), b"neu\r\n")
            yield tree.mutant(Flaw.FILE_ADDED, f"{shown(path, 80)} was added", after, hole, advice)
    meant = {entry.change.subject for entry, _ in golden.expected if entry.change.observable == name}
    files = [item for item in state.items if item.kind == "file" and item.path not in meant]
    for item in sorted(files, key=lambda item: item.path)[:_MOST_FILES]:
        path = shown(item.path, 80)
        if not _told_by_table(golden, name, item.path, Verb.MODIFIED):
            other = b"etwas anderes\r\n"
            changed = rewritten(item, other)
            if changed.sha256 != item.sha256:
                after = tree.with_item(item.path, changed, other)
                yield tree.mutant(Flaw.FILE_CHANGED, f"{path} holds something else", after, hole, advice)
            hidden = replace(item, attributes=item.attributes ^ (HIDDEN | READONLY))
            yield tree.mutant(
                Flaw.FILE_CHANGED, f"{path} has other attributes", tree.with_item(item.path, hidden, _kept(state, item)), hole, advice
            )  # fmt: skip
        if not _told_by_table(golden, name, item.path, Verb.DELETED):
            yield tree.mutant(Flaw.FILE_REMOVED, f"{path} was removed", tree.with_item(item.path, None), hole, advice)


def _kept(state: TreeState, item: FileItem) -> bytes | None:
    return (state.contents or {}).get(item.path)


def _told_by_table(golden: Golden, tree: str, path: str, verb: Verb) -> bool:
    """Whether an observed table tells of such a change: its own mutants are made there."""
    observe = golden.contract.observe
    root = observe.get(tree)
    if not isinstance(root, FileTree):
        return False
    whole = root.files.rstrip("\\/") + "\\" + path
    return any(is_owned(spec, whole, verb) for spec in observe.values() if isinstance(spec, DbfTable))


def reverted_trees(golden: Golden, changes: Iterable[Change]) -> dict[str, State]:
    """The trees as if some of the changes had not happened; only those that differ."""
    states: dict[str, TreeState] = {}
    for change in changes:
        now, was = golden.after.get(change.observable), golden.before.get(change.observable)
        if isinstance(now, TreeState) and isinstance(was, TreeState):
            state = states.get(change.observable, now)
            old = str(change.before["path"].value) if change.before is not None else None
            items = {item.path: item for item in state.items}
            if change.after is not None:
                items.pop(change.subject, None)
            items |= {item.path: item for item in was.items if item.path == old}
            states[change.observable] = replace(state, exists=state.exists or was.exists, items=tuple(items.values()))
    return dict(states)
