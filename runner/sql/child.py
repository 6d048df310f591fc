"""The process that reads a source: a job comes in on standard input, lines go to files, an answer to standard output.

The answer is one JSON object on the last line, after a mark; whatever a library prints before is not taken for it. Errors are
told in words, in the answer; the parent takes passwords out of them.
"""

from __future__ import annotations

import codecs
import hashlib
import heapq
import json
import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from runner.sql import fast
from runner.sql.access import Access
from runner.sql.generic import Generic
from runner.sql.mariadb import MariaDb
from runner.sql.postgres import Postgres
from runner.sql.server import CannotRead, FoundTable, Server
from runner.sql.sources import with_options
from runner.sql.sqlite import Sqlite
from runner.sql.sqlserver import SqlServer
from runner.sql.streamed import NotStreamed, Streamed
from validators.sql.form import key_reader, line_writer

MARK = "legacyproof-sql-answer "
MAX_FILE = 16 << 30
"""The largest file of lines that is written, in bytes; more makes the table unreadable."""
_SORT_BYTES = 64 << 20
"""How many bytes of lines are sorted in memory at once."""
_CONNECT_SECONDS = 10
_STABLE_PAUSE = 0.05


def main() -> None:
    """Does the job on standard input."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
    job = json.loads(sys.stdin.buffer.read())
    threading.Thread(target=_end_with_the_parent, args=(job,), daemon=True).start()
    sys.stdout.write("\n" + MARK + json.dumps(answer(job)) + "\n")


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Does a job; its answer, or why there is none under ``error``."""
    try:
        return _answer(job)
    except CannotRead as error:
        return {"error": str(error)}
    except ImportError as error:
        return {"error": f"{error.name} is not installed: install legacyproof[sql]"}
    except Exception as error:  # a driver's errors have no common class
        return {"error": _words(error)}


def _end_with_the_parent(job: Mapping[str, Any]) -> None:
    """Waits for the end of the one who asked; then nobody wants the rows, and they are nobody else's business."""
    while os.read(int(job["lifeline"]), 1):
        pass
    shutil.rmtree(job["folder"], ignore_errors=True)
    os._exit(1)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + float(job["stable_within"])
    folder = Path(job["folder"])
    last: list[str] | None = None
    number = 0
    while True:
        number += 1
        found, digests, consistent = _reading(job, folder, number)
        if consistent or digests == last:
            return found
        if last is not None and time.monotonic() >= deadline:
            raise CannotRead(
                f"no two readings in a row were equal within {job['stable_within']:g} s, and the source shows no view of one moment"
            )
        last = digests
        time.sleep(_STABLE_PAUSE)


def _reading(job: dict[str, Any], folder: Path, number: int) -> tuple[dict[str, Any], list[str], bool]:
    """Reads every table once: the answer, what it holds in short, and whether all of it is of one moment."""
    server, connection = connect_source(job)
    try:
        server.begin()
        found = [(wanted, server.find(wanted)) for wanted in job["tables"]]
        tables = [table for _, table in found if table is not None]
        reader = _Reader(server, connection, job)
        answers: list[dict[str, Any]] = []
        digests: list[str] = []
        for index, (_, table) in enumerate(found):
            if table is None:
                answers.append({"exists": False})
                digests.append("absent")
                continue
            path = folder / f"{number}-{index}"
            answers.append({**reader.read(table, path), "file": path.name})
            digests.append("" if table.consistent else _digest(path))  # only then another reading is compared with it
        reader.close()
        with suppress(Exception):  # the view is over, whatever the driver says to that
            server.end()
        findings = [*server.findings, *server.open_transactions(tables)]
    finally:
        with suppress(Exception):
            server.connection.close()
    product = getattr(server, "product_name", server.product)
    told = {"server": f"{product} {server.version}".strip(), "tables": answers, "findings": findings}
    return told, digests, all(table.consistent for table in tables)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def connect_source(job: Mapping[str, Any]) -> tuple[Server, str]:
    """Connects to a job's source.

    Returns:
        The session, and the connection string with the options that were added.

    Raises:
        CannotRead: It cannot be read in this way.
        Exception: What the driver raises.
    """
    target = str(job["target"])
    if job["kind"] == "sqlite":
        return Sqlite(Path(target)), ""
    import pyodbc  # noqa: PLC0415  (only here: drivers are loaded by it)

    pyodbc.pooling = False
    if job["kind"] == "access":
        path = Path(target)
        if not path.is_file():
            raise CannotRead(f"there is no Access database {path.name}")
        connection = pyodbc.connect(
            f"DRIVER={{MDBTools}};DBQ={path}", timeout=_CONNECT_SECONDS, readonly=True, autocommit=True
        )
        return Access(connection, path), ""
    connection = pyodbc.connect(target, timeout=_CONNECT_SECONDS, autocommit=True)
    kind = _kind(str(connection.getinfo(pyodbc.SQL_DBMS_NAME)), str(connection.getinfo(pyodbc.SQL_DRIVER_NAME)))
    if kind is MariaDb:
        try:
            streamed = Streamed(target)
        except NotStreamed as error:
            not_streamed = str(error)
        else:
            connection.close()
            return MariaDb(streamed), target
    if kind.options:
        connection.close()
        target = with_options(target, kind.options)
        connection = pyodbc.connect(target, timeout=_CONNECT_SECONDS, autocommit=True)
    return (MariaDb(connection, not_streamed) if kind is MariaDb else kind(connection)), target


def _kind(product: str, driver: str) -> type[Server]:
    name = product.casefold()
    if name.startswith("postgres"):
        return Postgres
    if name in ("mariadb", "mysql"):
        return MariaDb
    if "sql server" in name:
        return SqlServer
    if "sqlite" in name or "sqlite" in driver.casefold():
        raise CannotRead("the SQLite driver turns values that do not fit their column into others: use `sqlite:<path>`")
    return Generic


class _Reader:
    """Reads tables of one view, the fast way where it is proven."""

    def __init__(self, server: Server, connection: str, job: dict[str, Any]) -> None:
        self._server, self._connection = server, connection
        self._least = {"auto": fast.WORTH_IT, "always": 0}.get(str(job["fast"]))
        self._fast: fast.Fast | None = None
        self._no_fast: str | None = None

    def close(self) -> None:
        if self._fast is not None:
            self._fast.close()

    def read(self, table: FoundTable, path: Path) -> dict[str, Any]:
        """Writes a table's lines and tells about it."""
        server = self._server
        shown = f"{table.schema}.{table.name}" if table.schema else table.name
        if not table.columns:
            raise CannotRead(f"{shown} has no columns")
        try:
            expected = server.count(table)
            with path.open("wb") as out:
                count, order = self._write(table, out, expected)
            if table.keys:
                _check_each_row_once(path, table, order)
        except CannotRead as error:
            raise CannotRead(f"{shown}: {error}") from None
        except Exception as error:
            raise CannotRead(f"{shown}: {self._why(table, error)}") from error
        if count != expected:
            raise CannotRead(f"{shown}: {count} rows arrived, and the server counts {expected}")
        return {
            "exists": True,
            "name": shown,
            "columns": [
                {key: value for key, value in asdict(column).items() if key != "expression"} for column in table.columns
            ],
            "keys": [{"columns": list(columns), "origin": origin} for columns, origin in table.keys],
            "order": list(order),
            "count": count,
            "notes": table.notes,
            "findings": table.findings,
        }

    def _write(self, table: FoundTable, out: BinaryIO, expected: int) -> tuple[int, tuple[str, ...]]:
        order = table.order if self._server.ordered else ()
        if order and self._least is not None and expected >= self._least:
            try:
                return self._write_fast(table, out, expected), order
            except fast.NotFaster as error:
                table.notes.append(f"read in the ordinary way: {error}")
                out.seek(0)
                out.truncate()
        lines = self._lines(table)
        return (_write_all(lines, out) if order else _write_sorted(lines, out)), order

    def _write_fast(self, table: FoundTable, out: BinaryIO, expected: int) -> int:
        if self._no_fast is not None:
            raise fast.NotFaster(self._no_fast)
        try:
            self._fast = self._fast or fast.fast_way(self._server, self._connection)
        except fast.NotFaster as error:
            self._no_fast = str(error)
            raise
        if self._fast is None:
            raise fast.NotFaster("there is no faster one for this server")
        count = self._fast.write(table, out)
        out.flush()
        expected_start = _encoded(list(map(self._writer(table), self._server.sample(table, fast.PROOF))))
        with open(out.name, "rb") as written:
            if count != expected or written.read(len(expected_start)) != expected_start:
                raise fast.NotFaster("the faster one gave other lines")
        return count

    def _writer(self, table: FoundTable) -> Callable[[Any], str]:
        speller = self._server.speller(table)
        write = line_writer(len(table.columns), as_copy=self._server.as_copy)
        return write if speller is tuple else lambda row: write(speller(row))

    def _lines(self, table: FoundTable) -> Iterator[list[str]]:
        write = self._writer(table)
        for block in self._server.blocks(table):
            yield list(map(write, block))

    def _why(self, table: FoundTable, error: Exception) -> str:
        if not self._server.is_locked(error):
            return _words(error)
        holders: list[str] = []
        with suppress(Exception):  # who it was is worth asking, and no reason to fail otherwise
            self._server.end()
            holders = self._server.blockers(table)
        return "it is locked by another session" + (": " + "; ".join(holders[:5]) if holders else "")


def _original_bytes(error: UnicodeError) -> tuple[bytes, int]:
    """What stands in a text for a byte that is no UTF-8 (PEP 383) becomes that byte again; other surrogates pass as they are."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign = ord(error.object[error.start])
    one = bytes([sign - 0xDC00]) if 0xDC80 <= sign <= 0xDCFF else chr(sign).encode("utf-8", "surrogatepass")
    return one, error.start + 1


codecs.register_error("legacyproof-original-bytes", _original_bytes)


def _encoded(lines: Sequence[str]) -> bytes:
    """The lines as they are kept: the same bytes in whichever way they were read."""
    return ("\n".join(lines) + "\n").encode("utf-8", "legacyproof-original-bytes") if lines else b""


def _check_each_row_once(path: Path, table: FoundTable, order: Sequence[str]) -> None:
    """Proves that the rows of a table with a key are there once each; their number is proven already.

    One statement gives each row once; should a driver repeat some and lose as many, or the catalogue's key not be one, then two
    rows of one key follow each other in the key's order, and two equal lines in the order of their bytes.

    Args:
        path: The table's lines.
        table: The table.
        order: The key that they are in the order of; empty: they are in the order of their bytes.

    Raises:
        CannotRead: Two rows in a row are the same.
    """
    names = [column.name for column in table.columns]
    key_of = key_reader([names.index(name) for name in order])
    last: object = None
    with path.open("rb") as lines:
        for line in lines:
            key = key_of(line.rstrip(b"\n"))
            if key == last:
                what = f"the key {', '.join(order)} is" if order else "a row is"
                raise CannotRead(f"{what} there twice, though the server calls {', '.join(table.keys[0][0])} unique")
            last = key


def _write_all(blocks: Iterator[list[str]], out: BinaryIO) -> int:
    count = 0
    for block in blocks:
        count += len(block)
        out.write(_encoded(block))
    return count


def _write_sorted(blocks: Iterator[list[str]], out: BinaryIO) -> int:
    """Writes lines in the order of their bytes, with bounded memory."""
    runs: list[Path] = []
    lines: list[bytes] = []
    size = count = 0
    try:
        for block in blocks:
            new = [_encoded([line]) for line in block]
            lines += new
            count += len(new)
            size += sum(map(len, new))
            if size >= _SORT_BYTES:
                runs.append(Path(f"{out.name}.{len(runs)}"))
                runs[-1].write_bytes(b"".join(sorted(lines)))
                lines, size = [], 0
        lines.sort()
        if not runs:
            out.writelines(lines)
        else:
            files = [run.open("rb") for run in runs]
            out.writelines(heapq.merge(*files, lines))
            for file in files:
                file.close()
    finally:
        for run in runs:
            run.unlink(missing_ok=True)
    return count


def _words(error: Exception) -> str:
    text = (
        " ".join(str(part) for part in (error.args[1:] if len(error.args) > 1 else error.args)) or type(error).__name__
    )
    return " ".join(text.split())[:500]


if __name__ == "__main__":
    main()
