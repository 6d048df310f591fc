"""Observed states as evidence, and back: what each kind of observable keeps in a run record and its blobs."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import asdict
from mmap import mmap
from typing import Any

from runner.record import Reading
from validators.dbf import TableState
from validators.files import FileItem, Sample, TreeState
from validators.registry import KeyItem, RegistryState, ValueItem
from validators.snapshot import State, UnreadableState
from validators.sql.form import Form
from validators.sql.table import Column, Key, SqlState
from validators.windows import WindowItem, WindowsState

Keep = Callable[[bytes | mmap], str]
"""Stores a blob and gives its name."""
Blob = Callable[[str], bytes]
"""Gives a blob by its name."""


def keep_state(state: State, keep: Keep) -> Reading:
    """Stores a state; what it names can be read by :func:`load_state`."""
    match state:
        case TableState():
            files = (("dbf", state.dbf), ("memo", state.memo))
            blobs = {role: None if data is None else keep(bytes(data)) for role, data in files}
            return Reading(kind="dbf", blobs=blobs, about={"name": state.name, "memo_kind": state.memo_kind})
        case TreeState():
            items = [
                [i.path, i.kind, i.size, i.mtime, i.attributes, i.sha256, [list(stream) for stream in i.streams], i.short,
                 i.streams_sha256]
                for i in state.items
            ]  # fmt: skip
            contents = [[path, keep(data)] for path, data in (state.contents or {}).items()]
            missing = [[path, why] for path, why in (state.missing or {}).items()]
            sample = state.sample and [state.sample.hashed, state.sample.of, list(state.sample.differed)]
            tree = {"items": items, "contents": contents, "missing": missing, "sample": sample}
            return Reading(kind="files", blobs={"items": keep(_ascii(tree))}, about={"exists": state.exists})
        case WindowsState():
            rows = [[w.handle, w.process, w.program, w.class_name, w.title, w.hung, w.waiting] for w in state.items]
            return Reading(kind="windows", blobs={"items": keep(_ascii(rows))})
        case RegistryState():
            keys = [[key.path, key.mtime, key.volatile] for key in state.keys]
            values = [[v.key, v.name, v.type, b64encode(v.data).decode()] for v in state.values]
            registry = {"keys": keys, "values": values, "skipped": [list(entry) for entry in state.skipped]}
            return Reading(kind="registry", blobs={"items": keep(_ascii(registry))}, about={"exists": state.exists})
        case SqlState():
            about: dict[str, Any] = {
                "name": state.name,
                "exists": state.exists,
                "columns": [asdict(column) for column in state.columns],
                "keys": [asdict(key) for key in state.keys],
                "order": list(state.order),
                "count": state.count,
                "server": state.server,
                "findings": list(state.findings),
                "notes": list(state.notes),
            }
            return Reading(kind="sql", blobs={"rows": keep(state.rows) if state.exists else None}, about=about)
        case UnreadableState():
            reason = state.reason.encode("utf-8", "backslashreplace").decode()
            return Reading(kind="unreadable", unreadable=reason)


def load_state(reading: Reading, blob: Blob) -> State:
    """A state from its evidence.

    Raises:
        ValueError: The evidence is not of the form that the record says.
    """
    try:
        return _load(reading, blob)
    except (TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"no evidence of {reading.kind}: {error}") from None


def _load(reading: Reading, blob: Blob) -> State:
    if reading.unreadable is not None:
        return UnreadableState(reading.unreadable)
    if reading.kind == "dbf":
        table, memo = (None if (name := reading.blobs.get(role)) is None else blob(name) for role in ("dbf", "memo"))
        return TableState(table, memo, reading.about.get("memo_kind"), str(reading.about.get("name", "")))
    if reading.kind == "sql":
        return _sql(reading, blob)
    kept: Any = json.loads(blob(str(reading.blobs.get("items"))))
    if reading.kind == "windows":
        return WindowsState(tuple(WindowItem(*row) for row in _list(kept)))
    if reading.kind == "registry":
        return RegistryState(
            bool(reading.about.get("exists")),
            tuple(KeyItem(path, mtime, volatile) for path, mtime, volatile in _list(kept["keys"])),
            tuple(
                ValueItem(key, name, kind, b64decode(data, validate=True))
                for key, name, kind, data in _list(kept["values"])
            ),
            tuple((path, reason) for path, reason in _list(kept["skipped"])),
        )
    return TreeState(
        bool(reading.about.get("exists")),
        tuple(
            FileItem(
                path, kind, size, mtime, attributes, sha256, tuple((name, length) for name, length in streams), *more
            )
            for path, kind, size, mtime, attributes, sha256, streams, *more in _list(kept["items"])
        ),
        {path: blob(name) for path, name in _list(kept["contents"])},
        dict(_list(kept["missing"])),
        _sample(kept.get("sample")),
    )


def _sample(kept: Any) -> Sample | None:
    if kept is None:
        return None
    hashed, of, differed = _list(kept)
    return Sample(hashed, of, tuple(_list(differed)))


def _sql(reading: Reading, blob: Blob) -> SqlState:
    about, rows = reading.about, reading.blobs.get("rows")
    lines = b"" if rows is None else blob(rows)
    if lines.count(b"\n") != about["count"] or (rows is None) == bool(about["exists"]):
        raise ValueError("the rows are not as many as the record says")
    return SqlState(
        str(about["name"]),
        bool(about["exists"]),
        tuple(Column(**{**column, "form": Form(column["form"])}) for column in _list(about["columns"])),
        tuple(Key(tuple(key["columns"]), str(key["origin"])) for key in _list(about["keys"])),
        tuple(_list(about["order"])),
        lines,
        int(about["count"]),
        str(about["server"]),
        tuple(_list(about["findings"])),
        tuple(_list(about["notes"])),
    )


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a list is needed")
    return value


def _ascii(value: Any) -> bytes:
    # Escapes throughout: lone surrogates, which Windows names may hold, have no UTF-8.
    return json.dumps(value, separators=(",", ":")).encode("ascii")
