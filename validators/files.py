r"""The files observable: two listings of one tree to changes.

Identity is the path, by Windows' rules: another spelling by case is the same file *renamed*. A file that is gone while another with
the same content is new was renamed as well (contents are compared by SHA-256; empty files and contents that occur more than once are
not paired, nothing tells them apart). What else happened to a renamed file is told beside: a file renamed, given a stream and hidden
makes three changes. A file that is renamed into or out of an observed table is gone here and told there, or the reverse.

Times alone are no change: a file touched without a new content is a note, and so is a link that was written again, since a listing
does not say where a link leads.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice, product
from typing import Literal

from contracts.globs import compile_glob, fold
from contracts.schema import FileTree
from validators.changes import Cell, Change, Comparison, Ignored, KeptFile, Kind, Note, Unreadable, Verb

READONLY, HIDDEN, SYSTEM = 0x1, 0x2, 0x4
_ATTRIBUTES = {READONLY: "read-only", HIDDEN: "hidden", SYSTEM: "system"}
"""The attributes that count. The archive bit, compression, and what indexers set are housekeeping."""
_EXAMPLES = 5
_MAX_ALIASES = 64
_UNKNOWN = "content (could not be read)"
_ROOT = "."
"""Subject of a change to the root itself; no pattern can name it, ``*`` and ``**`` fit it."""


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
        short: The 8.3 name, where it differs and the system keeps one.
        streams_sha256: One hash over the contents of all streams; empty where there are none or they could not be read.
    """

    path: str
    kind: Literal["file", "dir", "link"]
    size: int
    mtime: int
    attributes: int
    sha256: str | None = None
    streams: tuple[tuple[str, int], ...] = ()
    short: str = ""
    streams_sha256: str = ""

    def same_metadata(self, other: FileItem) -> bool:
        """Whether nothing that a listing tells has changed (then its content is taken to be the same)."""
        return (self.kind, self.size, self.mtime, self.attributes, self.streams) == (
            other.kind, other.size, other.mtime, other.attributes, other.streams,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sample:
    """What a look into files that seem unchanged has shown.

    Attributes:
        hashed: How many were read, picked by chance.
        of: Of how many that look unchanged by size, time and attributes.
        differed: Those whose content is another one all the same; the whole tree was read then.
    """

    hashed: int
    of: int
    differed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeState:
    """One tree at one moment.

    Attributes:
        exists: Whether the root is there; positively known.
        items: Its entries, in any order.
        contents: Contents of files, by path, as far as they were kept.
        missing: Why a content was not kept, by path.
        sample: The sampled check, where not every file was read.
    """

    exists: bool
    items: tuple[FileItem, ...] = ()
    contents: Mapping[str, bytes] | None = None
    missing: Mapping[str, str] | None = None
    sample: Sample | None = None


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
    root = spec.files.rstrip("\\/")

    def told_elsewhere(path: str, verb: Verb) -> bool:
        return owned(f"{root}\\{path}", verb)

    changes: list[Change] = []
    touched = rewritten = 0
    for path in sorted(old.keys() & new.keys()):
        was, now = old[path], new[path]
        if was == now:
            continue
        found = _differences(observable, was, now, after)
        changes += found
        if was.mtime != now.mtime and was.kind == now.kind:
            touched += now.kind == "file" and not any(change.verb is Verb.MODIFIED for change in found)
            rewritten += now.kind == "link"
    gone = {path: old[path] for path in old.keys() - new.keys()}
    fresh = {path: new[path] for path in new.keys() - old.keys()}
    for source, target in _renames(gone, fresh):
        if told_elsewhere(source, Verb.DELETED) is told_elsewhere(target, Verb.CREATED):
            was, now = gone.pop(source), fresh.pop(target)
            changes.append(_change(observable, Verb.RENAMED, was, now, ("path",), after))
            changes += _differences(observable, was, now, after)
    changes += [_change(observable, Verb.DELETED, item, None, (), after) for item in gone.values()]
    changes += [_change(observable, Verb.CREATED, None, item, (), after) for item in fresh.values()]
    kept = [change for change in changes if not told_elsewhere(change.subject, change.verb)]
    kept.sort(key=lambda change: (fold(change.subject), change.subject))
    kept += _root_change(observable, before, after)
    shown, ignored = _without_ignored(kept, spec)
    for change in shown:
        if _UNKNOWN in change.changed:
            raise Unreadable(f"{change.subject}: its content could not be read, so whether it changed is not known")
    numbered = tuple(replace(change, position=position) for position, change in enumerate(shown, 1))
    notes = _notes(before, after, touched, rewritten)
    files = _Files(observable, after)
    return Comparison(observable, numbered, notes, _warnings(before, after, spec), ignored, "by path", files=files)


@dataclass(frozen=True, slots=True)
class _Files:
    """See :class:`validators.changes.Files`."""

    observable: str
    state: TreeState

    def after(self, fits: Callable[[str], bool]) -> Iterator[KeptFile]:
        contents, missing = self.state.contents or {}, self.state.missing or {}
        for item in self.state.items:
            if item.kind == "file" and fits(item.path):
                size = Cell(Kind.NUMBER, Decimal(item.size), has_blank=False)
                name = f"{self.observable}: {item.path}"
                data, why = contents.get(item.path), missing.get(item.path, "")
                yield KeptFile(name, item.path, item.kind, size, item.sha256 or "", data, why)


def _by_path(state: TreeState) -> dict[str, FileItem]:
    return {item.path: item for item in state.items} if state.exists else {}


def _differences(observable: str, was: FileItem, now: FileItem, after: TreeState) -> list[Change]:
    """What happened to an entry beside its name."""
    found = []
    if altered := _altered(was, now):
        found.append(_change(observable, Verb.MODIFIED, was, now, altered, after))
    if (was.attributes ^ now.attributes) & sum(_ATTRIBUTES):
        found.append(_change(observable, Verb.ATTRIBUTES, was, now, ("attributes",), after))
    return found


def _altered(was: FileItem, now: FileItem) -> tuple[str, ...]:
    found = []
    if was.kind != now.kind:
        found.append("kind")
    if now.kind == "file" and was.kind == "file":
        if was.size != now.size:
            found.append("size")
        if was.sha256 is None or now.sha256 is None:
            # Another size is another content, read or not; else nobody knows unless nothing was written at all.
            if was.size == now.size and not was.same_metadata(now):
                found.append(_UNKNOWN)
        elif was.sha256 != now.sha256:
            found.append("sha256")
    if was.streams != now.streams or (was.streams_sha256 != now.streams_sha256 and not _streams_unread(was, now)):
        found.append("streams")
    return tuple(found)


def _streams_unread(was: FileItem, now: FileItem) -> bool:
    return bool(was.streams and now.streams) and not (was.streams_sha256 and now.streams_sha256)


def _renames(gone: Mapping[str, FileItem], fresh: Mapping[str, FileItem]) -> list[tuple[str, str]]:
    """Pairs of old and new path that are one file under another name."""
    pairs = []
    taken: set[str] = set()
    by_name: dict[str, list[str]] = {}
    for path in sorted(fresh):
        by_name.setdefault(fold(path), []).append(path)
    for path in sorted(gone):  # another spelling of the same name: case, or Unicode normal form
        same = [target for target in by_name.get(fold(path), ()) if target not in taken]
        target = next((target for target in same if _is_same(gone[path], fresh[target])), None)
        if target is not None:
            pairs.append((path, target))
            taken |= {path, target}
    old = Counter(item.sha256 for path, item in gone.items() if path not in taken and item.sha256 and item.size)
    new = Counter(item.sha256 for path, item in fresh.items() if path not in taken and item.sha256 and item.size)
    target_of = {item.sha256: path for path, item in fresh.items() if path not in taken}
    pairs += [
        (path, target_of[item.sha256])
        for path, item in gone.items()
        if path not in taken and item.size and item.sha256 and old[item.sha256] == 1 and new[item.sha256] == 1
    ]
    return pairs


def _is_same(was: FileItem, now: FileItem) -> bool:
    """Whether an entry whose name is spelt otherwise is still the same one.

    By case alone it is, whatever it holds: Windows knows one file of that name. In another normal form it is another file, and
    the same one only if its content is.
    """
    if was.kind != now.kind:
        return False
    if unicodedata.is_normalized("NFC", was.path) == unicodedata.is_normalized("NFC", now.path):
        return True
    return was.kind != "file" or (was.sha256 is not None and was.sha256 == now.sha256)


def _root_change(observable: str, before: TreeState, after: TreeState) -> list[Change]:
    """An empty root that came or went: nothing else would tell of it."""
    if before.exists == after.exists or before.items or after.items:
        return []
    verb = Verb.CREATED if after.exists else Verb.DELETED
    root = cells(FileItem(_ROOT, "dir", 0, 0, 0))
    how = "the folder that is observed"
    return [Change(observable, verb, _ROOT, 0, None if after.exists else root, root if after.exists else None, (), how)]


def _notes(before: TreeState, after: TreeState, touched: int, rewritten: int) -> tuple[Note, ...]:
    notes = []
    if touched:
        notes.append(Note("touched", "files written again with the same content, or whose time was set", touched))
    if rewritten:
        notes.append(Note("link", "links written again; a listing does not say where they lead", rewritten))
    if before.exists != after.exists and (before.items or after.items):
        notes.append(Note("root", f"the observed folder itself was {'created' if after.exists else 'deleted'}"))
    sample = after.sample
    if sample is not None and not sample.differed:
        notes.append(
            Note("sampled", f"of {sample.of} files that look unchanged read all the same: no difference", sample.hashed)
        )
    return tuple(notes)


def _change(
    observable: str, verb: Verb, was: FileItem | None, now: FileItem | None, changed: tuple[str, ...], after: TreeState
) -> Change:
    item = now or was
    assert item is not None
    content = None if now is None else (after.contents or {}).get(now.path)
    missing = ""
    if now is not None and now.kind == "file" and content is None:
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
    found = [*_sample_warnings(after), *_alias_warnings(before, after, spec), *_stream_warnings(before, after)]
    forms = Counter(unicodedata.normalize("NFC", item.path) for item in after.items if not item.path.isascii())
    found += [
        f"{form}: {count} files have this name in different Unicode forms" for form, count in forms.items() if count > 1
    ]
    return tuple(found)


def _sample_warnings(after: TreeState) -> list[str]:
    sample = after.sample
    if sample is None or not sample.differed:
        return []
    return [
        f"{len(sample.differed)} of {sample.hashed} files read on suspicion hold something new although size, time and attributes "
        f"are as before ({_examples(sample.differed)}); the whole tree was read therefore: declare `verify: full`"
    ]


def _stream_warnings(before: TreeState, after: TreeState) -> list[str]:
    old = {item.path: item for item in before.items if item.streams}
    unread = [
        now.path
        for now in after.items
        if now.streams and now.path in old and old[now.path].mtime != now.mtime and _streams_unread(old[now.path], now)
    ]
    return (
        [f"{_examples(unread)}: alternate streams of the same sizes whose contents were not compared"] if unread else []
    )


def _alias_warnings(before: TreeState, after: TreeState, spec: FileTree) -> list[str]:
    """Ignore rules that are written with the 8.3 alias of a name: paths are compared by their long names."""
    rules = [(rule.path, compile_glob(rule.path)) for rule in spec.ignore if "~" in rule.path]
    items = {item.path: item for item in (*before.items, *after.items)} if rules else {}
    found = []
    for pattern, fits in rules:
        for item in items.values():
            if any(map(fits, _aliases(item, items))) and not fits(item.path):
                found.append(f"`{pattern}` is written with a short name; write the long one: {item.path}")
                break
    return found


def _aliases(item: FileItem, items: Mapping[str, FileItem]) -> Iterator[str]:
    """The path with some or all of its names in their short form."""
    parts = item.path.split("\\")
    ways = ["\\".join(parts[: count + 1]) for count in range(len(parts))]
    shorts = [items[way].short if way in items else "" for way in ways]
    choices = [[part, short] if short else [part] for part, short in zip(parts, shorts, strict=True)]
    return ("\\".join(chosen) for chosen in islice(product(*choices), 1, _MAX_ALIASES))


def _examples(paths: Sequence[str]) -> str:
    more = len(paths) - _EXAMPLES
    return ", ".join(paths[:_EXAMPLES]) + (f" and {more} more" if more > 0 else "")
