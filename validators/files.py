r"""The files observable: two listings of one tree to changes.

Identity is the path. A file that is gone while another with the same content is new was *renamed* (contents are compared by
SHA-256; empty files and contents that occur more than once are not paired, nothing tells them apart). Times alone are no change:
a file touched without a new content is a note.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from contracts.globs import compile_glob, fold
from contracts.schema import FileTree
from validators.changes import Cell, Change, Comparison, Ignored, Kind, Note, Unreadable, Verb

READONLY, HIDDEN, SYSTEM = 0x1, 0x2, 0x4
_ATTRIBUTES = {READONLY: "read-only", HIDDEN: "hidden", SYSTEM: "system"}
"""The attributes that count. The archive bit, compression, and what indexers set are housekeeping."""
_EXAMPLES = 5
_UNKNOWN = "content (could not be read)"


@dataclass(frozen=True, slots=True)
class FileItem:
    r"""One entry of a tree.

    Attributes:
        path: Relative to the root, with ``\``; the root itself is not listed.
        kind: ``file``, ``dir`` or ``link`` (a reparse point, never followed).
        size: Bytes.
        mtime: Last write, in 100 ns since 1601-01-01 UTC.
        attributes: Windows attribute bits.
        sha256: Of the content; ``None`` for what has none.
        streams: Names and sizes of alternate data streams; empty where the system has none.
    """

    path: str
    kind: Literal["file", "dir", "link"]
    size: int
    mtime: int
    attributes: int
    sha256: str | None = None
    streams: tuple[tuple[str, int], ...] = ()

    def same_metadata(self, other: FileItem) -> bool:
        """Whether nothing that a listing tells has changed (then its content is taken to be the same)."""
        return (self.kind, self.size, self.mtime, self.attributes, self.streams) == (
            other.kind, other.size, other.mtime, other.attributes, other.streams,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TreeState:
    """One tree at one moment.

    Attributes:
        exists: Whether the root is there; positively known.
        items: Its entries, in any order.
        contents: Contents of files, by path, as far as they were kept.
        missing: Why a content was not kept, by path.
    """

    exists: bool
    items: tuple[FileItem, ...] = ()
    contents: Mapping[str, bytes] | None = None
    missing: Mapping[str, str] | None = None


Owned = Callable[[str, Verb], bool]
"""Whether an absolute path, changed in that way, belongs to an observed table and is told there."""


def diff_trees(before: TreeState, after: TreeState, spec: FileTree, *, observable: str, owned: Owned) -> Comparison:
    """What happened to a tree.

    Args:
        before: The tree before the run.
        after: The tree after it.
        spec: The observable, with what it ignores.
        observable: Its name in the contract.
        owned: Tells files of observed tables.

    Raises:
        Unreadable: A file's content is needed to tell whether it changed, and could not be read.
    """
    old, new = _by_path(before), _by_path(after)
    changes: list[Change] = []
    notes: list[Note] = []
    touched = 0
    for path in sorted(old.keys() & new.keys()):
        was, now = old[path], new[path]
        found = _altered(was, now)
        if found:
            changes.append(_change(observable, Verb.MODIFIED, was, now, found, after))
        if (was.attributes ^ now.attributes) & sum(_ATTRIBUTES):
            changes.append(_change(observable, Verb.ATTRIBUTES, was, now, ("attributes",), after))
        if not found and was.kind == "file" and was.mtime != now.mtime:
            touched += 1
    gone = {path: old[path] for path in old.keys() - new.keys()}
    fresh = {path: new[path] for path in new.keys() - old.keys()}
    for source, target in _renames(gone, fresh):
        changes.append(_change(observable, Verb.RENAMED, gone.pop(source), fresh.pop(target), ("path",), after))
    changes += [_change(observable, Verb.DELETED, item, None, (), after) for item in gone.values()]
    changes += [_change(observable, Verb.CREATED, None, item, (), after) for item in fresh.values()]
    if touched:
        notes.append(Note("touched", "files written again with the same content, or whose time was set", touched))

    root = spec.files.rstrip("\\/")
    kept = [change for change in changes if not owned(f"{root}\\{change.subject}", change.verb)]
    kept.sort(key=lambda change: (fold(change.subject), change.subject))
    shown, ignored = _without_ignored(kept, spec)
    for change in shown:
        if _UNKNOWN in change.changed:
            raise Unreadable(f"{change.subject}: its content could not be read, so whether it changed is not known")
    numbered = tuple(
        Change(
            change.observable, change.verb, change.subject, position, change.before, change.after, change.changed,
            change.how, change.content, change.content_missing,
        )
        for position, change in enumerate(shown, 1)
    )  # fmt: skip
    return Comparison(observable, numbered, tuple(notes), _warnings(before, after, spec), ignored, "by path")


def _by_path(state: TreeState) -> dict[str, FileItem]:
    return {item.path: item for item in state.items} if state.exists else {}


def _altered(was: FileItem, now: FileItem) -> tuple[str, ...]:
    found = []
    if was.kind != now.kind:
        found.append("kind")
    if now.kind == "file" and was.kind == "file":
        if was.size != now.size:
            found.append("size")
        if was.sha256 is None or now.sha256 is None:
            if not was.same_metadata(now):
                found.append(_UNKNOWN)
        elif was.sha256 != now.sha256:
            found.append("sha256")
    if was.streams != now.streams:
        found.append("streams")
    return tuple(found)


def _renames(gone: Mapping[str, FileItem], fresh: Mapping[str, FileItem]) -> list[tuple[str, str]]:
    """Pairs of old and new path that are one file under another name."""
    pairs = []
    by_name = {fold(path): path for path in fresh}
    for path, item in gone.items():  # another spelling of the same name: case, or Unicode normal form
        target = by_name.get(fold(path))
        if target is not None and fresh[target].kind == item.kind and fresh[target].sha256 == item.sha256:
            pairs.append((path, target))
    taken = {name for pair in pairs for name in pair}
    old = Counter(item.sha256 for path, item in gone.items() if path not in taken and item.sha256 and item.size)
    new = Counter(item.sha256 for path, item in fresh.items() if path not in taken and item.sha256 and item.size)
    target_of = {item.sha256: path for path, item in fresh.items() if path not in taken}
    pairs += [
        (path, target_of[item.sha256])
        for path, item in gone.items()
        if path not in taken and item.size and item.sha256 and old[item.sha256] == 1 and new[item.sha256] == 1
    ]
    return pairs


def _change(
    observable: str, verb: Verb, was: FileItem | None, now: FileItem | None, changed: tuple[str, ...], after: TreeState
) -> Change:
    item = now or was
    assert item is not None
    content = None if now is None else (after.contents or {}).get(now.path)
    missing = ""
    if now is not None and content is None:
        missing = (after.missing or {}).get(now.path, f"{now.path}: its content was not kept")
    how = "folder" if item.kind == "dir" else "link" if item.kind == "link" else ""
    return Change(
        observable, verb, item.path, 0, None if was is None else cells(was), None if now is None else cells(now),
        changed, how, content, missing,
    )  # fmt: skip


def cells(item: FileItem) -> dict[str, Cell]:
    """An entry as fields, as effects and reports see it."""
    named = ", ".join(name for bit, name in _ATTRIBUTES.items() if item.attributes & bit)
    row = {
        "path": Cell(Kind.VARTEXT, item.path),
        "kind": Cell(Kind.VARTEXT, item.kind),
        "size": Cell(Kind.NUMBER, Decimal(item.size), has_blank=False),
        "sha256": Cell(Kind.VARTEXT, item.sha256 or ""),
        "attributes": Cell(Kind.VARTEXT, named),
    }
    if item.streams:
        row["streams"] = Cell(Kind.VARTEXT, ", ".join(f"{name} ({size} bytes)" for name, size in item.streams))
    return row


def _without_ignored(changes: list[Change], spec: FileTree) -> tuple[list[Change], tuple[Ignored, ...]]:
    rules = [(rule, compile_glob(rule.path)) for rule in spec.ignore]
    hits: list[list[str]] = [[] for _ in rules]
    shown = []
    for change in changes:
        paths = [change.subject]
        if change.verb is Verb.RENAMED and change.before is not None:
            paths.append(str(change.before["path"].value))
        for hit, (_, fits) in zip(hits, rules, strict=True):
            if all(fits(path) for path in paths):
                hit.append(change.subject)
                break
        else:
            shown.append(change)
    ignored = tuple(
        Ignored(rule.path, rule.reason, len(hit), tuple(hit[:_EXAMPLES]))
        for (rule, _), hit in zip(rules, hits, strict=True)
    )
    return shown, ignored


def _warnings(before: TreeState, after: TreeState, spec: FileTree) -> tuple[str, ...]:
    if not before.exists and not after.exists:
        return (f"{spec.files} is there neither before nor after the run: is the path right?",)
    forms = Counter(unicodedata.normalize("NFC", item.path) for item in after.items)
    return tuple(
        f"{form}: {count} files have this name in different Unicode forms" for form, count in forms.items() if count > 1
    )
