"""Reading the tables of one source as of one moment.

The drivers work in a process of their own (:mod:`runner.sql.child`) with a deadline; rows come back in files, which are mapped
and already unlinked. Whatever fails makes the tables unreadable, in words without a password.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from contracts.schema import SqlTable
from runner.guests.timed import Deadline
from runner.sql.child import MARK
from runner.sql.sources import PREFIX, Source, SourceError, find_source
from validators.changes import Unreadable
from validators.snapshot import UnreadableState
from validators.sql.form import Form
from validators.sql.table import Buffer, Column, Key, SqlState

READ_SECONDS = 600.0
"""How long the reading of one source may take."""
STABLE_WITHIN = 10.0
"""Seconds in which two readings in a row must be equal, where a source has no view of one moment."""
_ROOT = Path(__file__).resolve().parents[2]


def read_tables(
    observe: Mapping[str, SqlTable],
    *,
    within: float = READ_SECONDS,
    fast: Literal["auto", "always", "never"] = "auto",
    deadline: Deadline | None = None,
) -> dict[str, SqlState | UnreadableState]:
    """The state of every table; those of one source are seen as of one moment.

    Args:
        observe: The observables by name.
        within: Seconds for each source.
        fast: Whether proven faster ways are used: for large tables, always, or never.
        deadline: When all of them must have been read.
    """
    by_source: dict[str, list[str]] = {}
    for name, spec in observe.items():
        by_source.setdefault(spec.sql, []).append(name)
    states: dict[str, SqlState | UnreadableState] = {}
    for source_name, names in by_source.items():
        try:
            source = find_source(source_name)
            seconds = within if deadline is None else deadline.left(within)
        except (SourceError, Unreadable) as error:
            states |= {name: UnreadableState(str(error)) for name in names}
            continue
        found = read_source(source, [observe[name].table for name in names], within=seconds, fast=fast)
        states |= dict(zip(names, found, strict=True))
    return states


def read_source(
    source: Source,
    tables: Sequence[str],
    *,
    within: float = READ_SECONDS,
    stable_within: float = STABLE_WITHIN,
    fast: Literal["auto", "always", "never"] = "auto",
) -> list[SqlState | UnreadableState]:
    """The states of these tables of a source, in their order.

    Args:
        source: The source.
        tables: The tables, as contracts name them.
        within: Seconds for everything.
        stable_within: Seconds in which two readings must become equal, where there is no view of one moment.
        fast: Whether proven faster ways are used.
    """
    with tempfile.TemporaryDirectory(prefix="legacyproof-sql-") as folder:
        job = {
            "kind": source.kind, "target": source.target, "tables": list(tables), "folder": folder, "fast": fast,
            "stable_within": stable_within,
        }  # fmt: skip
        answer = _ask(job, within)
        try:
            if "error" in answer:
                return _unreadable(source, tables, str(answer["error"]))
            found = [
                _state(wanted, about, answer, source, Path(folder))
                for wanted, about in zip(tables, answer["tables"], strict=True)
            ]
            return list(found)
        except (KeyError, TypeError, ValueError, OSError) as error:
            return _unreadable(source, tables, f"the reading process gave an answer that cannot be used: {error}")


def _unreadable(source: Source, tables: Sequence[str], reason: str) -> list[SqlState | UnreadableState]:
    text = source.redacted(f"the SQL source {source.name}: {reason}")
    return [UnreadableState(text) for _ in tables]


def _ask(job: dict[str, Any], within: float) -> dict[str, Any]:
    """Starts the reading process, gives it the job, and waits for its answer."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), environment.get("PYTHONPATH", ""))))
    # The process ends, and takes what it has written with it, when this end is closed: also by our own death.
    theirs, ours = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "runner.sql.child"],
            input=json.dumps({**job, "lifeline": theirs}).encode(), capture_output=True, timeout=within, check=False,
            env=environment, pass_fds=(theirs,), start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"it could not be read within {within:g} s"}
    except OSError as error:
        return {"error": f"the reading process could not be started: {error.strerror}"}
    finally:
        os.close(theirs)
        os.close(ours)
    last = done.stdout.decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2]
    if done.returncode or not last.startswith(MARK):
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        return {
            "error": f"the reading process ended without an answer ({how}); a database driver may have brought it down"
        }
    try:
        answer = json.loads(last.removeprefix(MARK))
    except ValueError:
        answer = None
    return answer if isinstance(answer, dict) else {"error": "the reading process gave no answer"}


def _state(wanted: str, about: dict[str, Any], answer: dict[str, Any], source: Source, folder: Path) -> SqlState:
    server = source.redacted(str(answer["server"]))
    findings = tuple(source.redacted(str(text)) for text in answer["findings"])
    if not about["exists"]:
        return SqlState(wanted, exists=False, server=server, findings=findings)
    path = folder / Path(str(about["file"])).name
    findings += tuple(source.redacted(str(text)) for text in about["findings"])
    return SqlState(
        str(about["name"]),
        exists=True,
        columns=tuple(Column(**{**column, "form": Form(column["form"])}) for column in about["columns"]),
        keys=tuple(Key(tuple(key["columns"]), str(key["origin"])) for key in about["keys"]),
        order=tuple(about["order"]),
        rows=_mapped(path),
        count=int(about["count"]),
        notes=tuple(source.redacted(str(text)) for text in about["notes"]),
        server=server,
        findings=findings,
    )


def _mapped(path: Path) -> Buffer:
    """The file's content; the file may go away."""
    if path.stat().st_size == 0:
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
