"""Two states of one table to changes and notes: what an effect must account for, and what is only listed.

Decisions where the contract reference leaves room:

* ``before`` is ``None`` for inserted rows, ``after`` for deleted and purged ones, also where the record still lies in the
  file with its flag set. A row that was deleted and overwritten says so in ``how``.
* A deleted record that a program takes for another row is two changes under a key: the old row ``purged``, a new one
  ``inserted``. By position it is ``undeleted``, with every field that differs.
* When a key became ambiguous and none of the rows after equals the row before, that row is ``deleted`` and the others are
  ``inserted``; a warning names the key.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from contracts.schema import DbfTable
from validators.changes import Cell, Change, Comparison, Kind, Note, Row, Unreadable, Verb
from validators.dbf.compare import Delta, MemoComparison, RowComparison, Runs, packed, unequal_records
from validators.dbf.index import KeyIndex, check_key, key_text
from validators.dbf.layout import Dialect
from validators.dbf.pairing import Pairing, by_content, by_key, by_position
from validators.dbf.table import KeyReader, Table, TableState, load_table

_BY_FLAG = "by deletion flag"
_MOVED = ("moved", "rows lie at another record number")
_ORDER = {verb: number for number, verb in enumerate(Verb)}


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of both states, decoded as they are looked at; only good while the files stay open."""

    old: Table | None
    new: Table | None

    def before(self) -> Iterable[tuple[Row, bool]]:
        """Every row before the run, with whether it was live."""
        return self.old.views() if self.old else ()

    def after(self) -> Iterable[tuple[Row, bool]]:
        """Every row after the run, with whether it is live."""
        return self.new.views() if self.new else ()


def diff_tables(
    before: TableState,
    after: TableState,
    spec: DbfTable,
    *,
    observable: str,
    index: KeyIndex | None = None,
) -> Comparison:
    """Compares two states of a table.

    Only records whose bytes differ are decoded; memos are compared by what they hold, not by where they lie. The rows in
    the changes outlive the files; ``Comparison.rows`` does not.

    Args:
        before: The table's files before the run.
        after: The same afterwards.
        spec: What the contract says about the table.
        observable: The observable's name, for the changes.
        index: The before-state's keys, if they were indexed already; else they are, which reads every key once.

    Raises:
        Unreadable: A state could not be read whole, or a memo file is there on one side only while rows need it.
        ContractFault: Unknown encoding, a key field that does not exist, or a key that is not unique before.
        ValueError: ``index`` was made from another state or key.
    """
    old = load_table(before, spec.encoding) if before.dbf is not None else None
    new = load_table(after, spec.encoding) if after.dbf is not None else None
    if old is None and new is None:
        absent = f"{spec.dbf} is there neither before nor after the run: is the path right?"
        return Comparison(observable, warnings=(absent,), identity="no table", rows=TableRows(None, None))
    warnings = [f"before: {text}" for text in (old.warnings if old else ())]
    warnings += [f"after: {text}" for text in (new.warnings if new else ())]
    warnings += _memo_warnings(old, new)
    if old is None or new is None:
        return _one_sided(old, new, spec, observable, tuple(warnings))
    return _Difference(old, new, spec, observable, warnings).compare(index)


def _memo_warnings(old: Table | None, new: Table | None) -> list[str]:
    """Judges missing memo files.

    Raises:
        Unreadable: It is missing on one side only, and live rows need it there.
    """
    tables = [table for table in (old, new) if table is not None]
    lacking = [table for table in tables if table.memo is None and table.needs_memo()]
    if not lacking:
        return []
    if any(table.memo is not None for table in tables):
        side = "before" if lacking[0] is old else "after"
        raise Unreadable(f"{lacking[0].name}: the memo file is missing {side} the run only")
    return ["the memo file is missing: memos are told apart by their pointers only"]


def _structure(table: Table) -> dict[str, Cell]:
    return {field.name: Cell(Kind.VARTEXT, field.describe()) for field in table.fields}


def _subject(reader: KeyReader | None, index: int) -> str:
    return key_text(reader, index) if reader else f"record {index + 1}"


def _one_sided(
    old: Table | None, new: Table | None, spec: DbfTable, observable: str, warnings: tuple[str, ...]
) -> Comparison:
    """A table that was created or dropped: that, and its live rows."""
    table = old or new
    assert table is not None
    check_key(table, spec.key)
    reader = KeyReader(table, spec.key) if spec.key else None
    structure = _structure(table)
    changes = [
        Change(observable, Verb.DROPPED, table.name, 0, before=structure)
        if old
        else Change(observable, Verb.CREATED, table.name, 0, after=structure)
    ]
    deleted = 0
    for index in range(len(table)):
        if not table.live(index):
            deleted += 1
            continue
        row, subject = table.view(index).detach(), _subject(reader, index)
        if old:
            changes.append(Change(observable, Verb.DELETED, subject, index + 1, before=row, how="with the table"))
        else:
            changes.append(Change(observable, Verb.INSERTED, subject, index + 1, after=row, how="with the table"))
    notes = (Note("deleted-rows", "rows marked as deleted in it", deleted),) if deleted else ()
    identity = f"key {', '.join(spec.key)}" if spec.key else "by position"
    return Comparison(observable, tuple(changes), notes, warnings, identity=identity, rows=TableRows(old, new))


class _Difference:
    """One comparison of two readable states; collects changes and counts notes."""

    def __init__(self, old: Table, new: Table, spec: DbfTable, observable: str, warnings: list[str]) -> None:
        self._old, self._new, self._spec, self._observable = old, new, spec, observable
        self._warnings = warnings
        self._changes: list[Change] = []
        self._counts: dict[tuple[str, str], int] = {}
        self._memos = MemoComparison(old, new)
        self._rows = RowComparison(old, new, self._memos)
        self._readers: tuple[KeyReader, KeyReader] | None = None
        self._shifted = False

    def compare(self, index: KeyIndex | None) -> Comparison:
        restructured = self._restructured()
        if index is not None:
            self._check_index(index)
        elif self._spec.key:
            index = KeyIndex(self._old, self._spec.key)
        pairing = self._pair(index, restructured)
        self._housekeeping(restructured)
        for before, after in pairing:
            self._paired(before, after, pairing.identity)
        self._unpaired(pairing)
        self._warnings.extend(pairing.warnings)
        self._changes.sort(key=lambda change: (change.position, _ORDER[change.verb], change.subject))
        notes = tuple(Note(kind, text, count) for (kind, text), count in self._counts.items())
        return Comparison(
            self._observable,
            tuple(self._changes),
            notes,
            tuple(dict.fromkeys(self._warnings)),
            identity=pairing.identity,
            rows=TableRows(self._old, self._new),
        )

    def _note(self, kind: str, text: str, count: int = 1) -> None:
        self._counts[kind, text] = self._counts.get((kind, text), 0) + count

    def _check_index(self, index: KeyIndex) -> None:
        old = self._old
        fits = (len(old), old.header_length, old.record_length, old.encoding)
        if index.names != tuple(self._spec.key) or index.fits != fits:
            raise ValueError("the key index was made from another state or key")

    # --- structure and header -----------------------------------------------------------------------------------------

    def _restructured(self) -> bool:
        old, new = self._old, self._new
        before = [(field.name, *field.shape) for field in old.fields]
        after = [(field.name, *field.shape) for field in new.fields]
        if before == after and old.record_length == new.record_length and old.dialect is new.dialect:
            return False
        one, two = _structure(old), _structure(new)
        changed = [name for name in {**one, **two} if one.get(name) != two.get(name)]
        if old.dialect is new.dialect:
            how = "" if changed else "order of fields or length of the record"
        else:
            how = f"{old.dialect} to {new.dialect}"
        self._changes.append(
            Change(
                self._observable, Verb.RESTRUCTURED, new.name, 0, before=one, after=two, changed=tuple(changed), how=how
            )
        )
        return True

    def _housekeeping(self, restructured: bool) -> None:
        """Notes what differs outside the records."""
        old, new = self._old, self._new
        for when, table in (("before", old), ("after", new)):
            if self._spec.encoding and table.declared and table.declared != table.encoding:
                text = f"the header {when} the run says {table.declared}, the contract {table.encoding}"
                self._note("encoding", text)
        if restructured:
            return
        one, two = old.head[: old.header_length], new.head[: new.header_length]
        if one != two and old.dialect is not Dialect.DBASE2:
            self._header_notes(one, two)
        if old.count != new.count and len(old) == len(new):
            self._note("count", f"the header's record count went from {old.count} to {new.count}, the records stayed")
        if (old.memo is None) != (new.memo is None):
            self._note("memo-file", "the memo file " + ("appeared" if old.memo is None else "vanished"))
        if old.tail()[:1] + old.tail()[1:].rstrip(b"\0\x1a") != new.tail()[:1] + new.tail()[1:].rstrip(b"\0\x1a"):
            self._note("slack", "bytes after the last record differ")

    def _header_notes(self, one: bytes, two: bytes) -> None:
        old, new = self._old, self._new
        start, size, number = old.layout.descriptors
        if one[1:4] != two[1:4]:
            self._note("header-date", "the header's date of last change")
        if old.declared != new.declared or one[29] != two[29]:
            self._note("encoding", f"the header's language driver went from 0x{one[29]:02x} to 0x{two[29]:02x}")
        if one[0] != two[0]:
            self._note("flags", f"the version byte went from 0x{one[0]:02x} to 0x{two[0]:02x}")
        if one[12:29] != two[12:29] or one[30:start] != two[30:start]:
            self._note("flags", "housekeeping flags in the header")
        counter = slice(38, 48) if size == 48 else slice(19, 24)
        others = False
        for at in range(start, start + size * number, size):
            left, right = one[at : at + size], two[at : at + size]
            if left[counter] != right[counter]:
                self._note("autoincrement", "the counter of an autoincrement field")
            others = (
                others or left[: counter.start] + left[counter.stop :] != right[: counter.start] + right[counter.stop :]
            )
        if others:
            self._note("flags", "housekeeping bytes in the field descriptors")
        if one[start + size * number :] != two[start + size * number :]:
            self._note("slack", "bytes of the header after the field descriptors")

    # --- rows ---------------------------------------------------------------------------------------------------------

    def _pair(self, index: KeyIndex | None, restructured: bool) -> Pairing:
        old, new, spec = self._old, self._new, self._spec
        key_kept = all(name in new.by_name for name in spec.key)
        if index is not None and not key_kept:
            self._warnings.append("a key field is gone: rows are recognised by content")
            index = None
        by_bytes = not restructured and (self._memos.identical or not old.memo_fields)
        pairing: Pairing | None = None
        runs: Runs | None = None
        if restructured:
            before, after = array("I", range(len(old))), array("I", range(len(new)))
        else:
            unequal = self._unequal()
            common = min(len(old), len(new))
            before, after = array("I", unequal), array("I", unequal)
            before.extend(range(common, len(old)))
            after.extend(range(common, len(new)))
            shorter = packed(old, new, unequal[0]) if by_bytes and unequal and len(new) < len(old) else None
            if shorter:
                before, after, runs = shorter
            pairing = None if index else by_position(old, new, unequal)
        if index:
            pairing = by_key(self._rows, index, before, after, runs)
        elif pairing is None:
            pairing = by_content(self._rows, before, after, runs, by_bytes=by_bytes)
        if index:
            self._readers = KeyReader(old, index.names), KeyReader(new, index.names)
        self._shifted = len(new) < len(old) or any(one != two for one, two in pairing)
        if pairing.runs.moved:
            self._note(*_MOVED, pairing.runs.moved)
        return pairing

    def _unequal(self) -> Sequence[int]:
        unequal = unequal_records(self._old, self._new)
        memos = self._memos.changed_rows()
        return array("I", sorted({*unequal, *memos})) if memos else unequal

    def _row(self, index: int, *, before: bool) -> Row:
        return (self._old if before else self._new).view(index).detach()

    def _name(self, index: int, *, before: bool) -> str:
        reader = self._readers[0 if before else 1] if self._readers else None
        return _subject(reader, index)

    def _paired(self, before: int, after: int, identity: str) -> None:
        was, is_live = self._old.live(before), self._new.live(after)
        if before != after:
            self._note(*_MOVED)
        delta = self._rows.rows(before, after)
        if not was and not is_live:
            if delta.changed or delta.format_only:
                self._note("deleted-edit", "edits inside deleted rows")
            return
        if was and not is_live:
            overwritten = f"; overwritten in {', '.join(delta.changed)}" if delta.changed else ""
            self._changes.append(
                Change(
                    self._observable, Verb.DELETED, self._name(before, before=True), before + 1,
                    before=self._row(before, before=True), how=_BY_FLAG + overwritten,
                )
            )  # fmt: skip
            return
        if is_live and not was:
            self._changes.append(
                Change(
                    self._observable, Verb.UNDELETED, self._name(after, before=False), after + 1,
                    before=self._row(before, before=True), after=self._row(after, before=False), changed=delta.changed,
                    how=_BY_FLAG,
                )
            )  # fmt: skip
            return
        self._kept(before, after, delta, identity)

    def _kept(self, before: int, after: int, delta: Delta, identity: str) -> None:
        """A row that was live and still is."""
        changed, how = delta.changed, "by position" if identity == "by position" else ""
        flag_differs = self._old.record(before)[:1] != self._new.record(after)[:1]
        if delta.format_only or (flag_differs and not changed):
            if self._spec.strict_format and delta.format_only:
                how = how if changed else "format only"
                wanted = {*changed, *delta.format_only}
                changed = tuple(name for name in self._rows.names if name in wanted)
            elif not changed:
                self._note("format", "rows whose bytes differ and whose values do not")
        if delta.slack:
            self._note("slack", "bytes of a record that belong to no field")
        if delta.relocated and not changed:
            self._note("memo-moved", "memos stored elsewhere, with the same content")
        if changed:
            self._changes.append(
                Change(
                    self._observable, Verb.UPDATED, self._name(before, before=True), after + 1,
                    before=self._row(before, before=True), after=self._row(after, before=False), changed=changed, how=how,
                )
            )  # fmt: skip

    def _unpaired(self, pairing: Pairing) -> None:
        reused = set[int]() if self._shifted else {*pairing.gone} & {*pairing.new}
        for at in pairing.gone:
            how = "by reuse of the record" if at in reused else "by PACK"
            verb = Verb.DELETED if self._old.live(at) else Verb.PURGED
            row = self._row(at, before=True)
            self._changes.append(
                Change(self._observable, verb, self._name(at, before=True), at + 1, before=row, how=how)
            )
        for at in pairing.new:
            if not self._new.live(at):
                self._note("appended-deleted", "rows appended as deleted")
                continue
            how = "in a reused record" if at in reused else ""
            row = self._row(at, before=False)
            self._changes.append(
                Change(self._observable, Verb.INSERTED, self._name(at, before=False), at + 1, after=row, how=how)
            )


__all__ = ["TableRows", "diff_tables"]
