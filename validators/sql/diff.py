"""Two states of one SQL table to changes and notes.

Decisions where the contract reference leaves room:

* Identity: the contract's key, else the catalogue's primary key, else its smallest unique index without NULLs, else the whole
  row's content. A row is never skipped for want of a key, and never recognised by where it lies.
* A key that was edited is a row deleted and a row inserted: a table has no place by which one could know better.
* A date that no program can mean (``0000-00-00``) is blank, ``infinity`` and dates before Christ are texts of their own kind
  (undecodable), and NaN equals NaN.
* Columns under ``ignore`` are not part of the rows at all; how many rows differ in them is told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from contracts.schema import SqlTable
from validators.changes import Cell, Change, Comparison, ContractFault, Ignored, Kind, Note, Row, Verb
from validators.sql.form import fields_of, key_reader, unescaped
from validators.sql.merge import line_at, unequal_lines
from validators.sql.table import Buffer, Column, LazyRow, Shape, SqlState, key_value, lines_of, row_of, same_value
from validators.values import shown

_ORDER = {verb: number for number, verb in enumerate(Verb)}
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class SqlRows:
    """The rows of both states, decoded as they are looked at."""

    old: tuple[Shape, Buffer]
    new: tuple[Shape, Buffer]

    def before(self) -> Iterable[tuple[Row, bool]]:
        """Every row before the run; all are live."""
        return ((LazyRow(self.old[0], line), True) for line in lines_of(self.old[1]))

    def after(self) -> Iterable[tuple[Row, bool]]:
        """Every row after the run; all are live."""
        return ((LazyRow(self.new[0], line), True) for line in lines_of(self.new[1]))


def diff_sql(before: SqlState, after: SqlState, spec: SqlTable, *, observable: str) -> Comparison:
    """Compares two states of a table.

    Args:
        before: The table before the run.
        after: The same afterwards.
        spec: What the contract says about the table.
        observable: The observable's name, for the changes.

    Raises:
        ContractFault: A key or ignored column does not exist, or the contract's key is not unique before.
    """
    warnings = _findings(before, after)
    if not before.exists and not after.exists:
        absent = f"{shown(spec.table)} is there neither before nor after the run: is the name right?"
        return Comparison(
            observable, warnings=(absent, *warnings), identity="no table", rows=_rows(before, after, spec)
        )
    if not before.exists or not after.exists:
        return _one_sided(before, after, spec, observable, warnings)
    return _Difference(before, after, spec, observable, warnings).compare()


def _findings(before: SqlState, after: SqlState) -> list[str]:
    found = [f"before: {text}" for text in before.findings]
    found += [f"after: {text}" for text in after.findings]
    return list(dict.fromkeys(found))


def _read_notes(*states: SqlState) -> list[Note]:
    return [Note("reading", text) for text in dict.fromkeys(text for state in states for text in state.notes)]


def _hidden(spec: SqlTable) -> frozenset[str]:
    return frozenset(rule.column for rule in spec.ignore)


def _rows(before: SqlState, after: SqlState, spec: SqlTable) -> SqlRows:
    hidden = _hidden(spec)
    return SqlRows((Shape(before.columns, hidden), before.rows), (Shape(after.columns, hidden), after.rows))


def _structure(state: SqlState) -> dict[str, Cell]:
    return {column.name: Cell(Kind.VARTEXT, column.describe()) for column in state.columns}


def _check_columns(state: SqlState, spec: SqlTable) -> None:
    """Raises ContractFault where the contract names a column that the table does not have."""
    names = [column.name for column in state.columns]
    for what, wanted in (("key", spec.key), ("ignore", [rule.column for rule in spec.ignore])):
        for name in wanted:
            if name not in names:
                close = get_close_matches(name, names, 1, 0.6) or [n for n in names if n.casefold() == name.casefold()]
                hint = f"; did you mean {shown(close[0])}?" if close else ""
                raise ContractFault(f"`{what}`: {shown(spec.table)} has no column {shown(name)}{hint}")


class _Identity:
    """How rows are recognised: by columns, or by their whole content where there are none."""

    def __init__(self, state: SqlState, spec: SqlTable) -> None:
        self.columns: tuple[str, ...] = tuple(spec.key)
        self.proven = any(set(key.columns) <= set(self.columns) for key in state.keys)
        """The server itself keeps the key unique."""
        self.label = f"key {', '.join(self.columns)}"
        if not self.columns and state.keys:
            best = state.keys[0]
            self.columns, self.proven = best.columns, True
            self.label = f"key {', '.join(best.columns)} ({best.origin})"
        if not self.columns:
            self.label = "by content"

    def keyed(self, shape: Shape) -> Callable[[bytes], Any]:
        """Reads a line's key."""
        return key_reader([shape.place[name] for name in self.columns])

    def valued(self, shape: Shape) -> Callable[[bytes], Any]:
        """Reads the values of a line's key, whatever their spelling."""
        places = [shape.place[name] for name in self.columns]
        forms = [shape.columns[place].form for place in places]

        def read(line: bytes) -> tuple[Any, ...]:
            parts = line.split(b"\t")
            return tuple(key_value(form, unescaped(parts[place])) for form, place in zip(forms, places, strict=True))

        return read


def _find_partners(
    gone: Sequence[bytes],
    appeared: Sequence[bytes],
    old_key: Callable[[bytes], Any],
    new_key: Callable[[bytes], Any],
    partners: dict[int, int],
) -> None:
    """Adds to the partners which line that is gone became which new one, or -1 where nobody can say: both by number.

    Lines that have a partner already are left alone; so is, with -1, a key that is there more than once.
    """
    by_key: dict[Any, list[int]] = defaultdict(list)
    for index, line in enumerate(gone):
        if index not in partners:
            by_key[old_key(line)].append(index)
    taken = set(partners.values())
    for index, line in enumerate(appeared):
        candidates = by_key.get(new_key(line), []) if index not in taken else []
        if len(candidates) == 1 and candidates[0] not in partners:
            partners[candidates[0]] = index
        elif candidates:
            partners[candidates[0]] = -1


def _one_sided(before: SqlState, after: SqlState, spec: SqlTable, observable: str, warnings: list[str]) -> Comparison:
    """A table that was created or dropped: that, and its rows."""
    state = before if before.exists else after
    _check_columns(state, spec)
    identity = _Identity(state, spec)
    rows = _rows(before, after, spec)
    shape = rows.old[0] if before.exists else rows.new[0]
    subject = _Subject(shape, identity.columns)
    structure = _structure(state)
    if before.exists:
        changes = [Change(observable, Verb.DROPPED, state.name, 0, before=structure)]
    else:
        changes = [Change(observable, Verb.CREATED, state.name, 0, after=structure)]
    for position, line in enumerate(lines_of(state.rows), 1):
        row, name = row_of(shape, line), subject.of(line)
        if before.exists:
            changes.append(Change(observable, Verb.DELETED, name, position, before=row, how="with the table"))
        else:
            changes.append(Change(observable, Verb.INSERTED, name, position, after=row, how="with the table"))
    return Comparison(
        observable,
        tuple(changes),
        tuple(_read_notes(before, after)),
        tuple(warnings),
        identity=identity.label,
        rows=rows,
    )


class _Subject:
    """A row's name for people: its key, or its first fields."""

    def __init__(self, shape: Shape, key: Sequence[str]) -> None:
        self._shape = shape
        self._names = list(key) or list(shape.visible)[:3]
        self._more = "" if key else " …"

    def of(self, line: bytes) -> str:
        """The name of one row."""
        row = LazyRow(Shape(self._shape.columns), line)  # a key may be hidden from the rules and still name the row
        return ", ".join(f"{name}={row[name].display(40)}" for name in self._names) + self._more


@dataclass
class _Difference:
    """One comparison of two tables that exist; collects changes and counts notes."""

    old: SqlState
    new: SqlState
    spec: SqlTable
    observable: str
    warnings: list[str]
    changes: list[Change] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    ignored: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    touched: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = _rows(self.old, self.new, self.spec)
        self._shapes = self._rows.old[0], self._rows.new[0]

    def compare(self) -> Comparison:
        """Finds everything that differs."""
        _check_columns(self.old, self.spec)
        rows = self._rows
        self._restructured()
        identity = _Identity(self.old, self.spec)
        missing = [name for name in identity.columns if name not in rows.new[0].place]
        if missing:
            self.warnings.append(f"the key column {shown(missing[0])} is gone: rows are recognised by content")
            identity.columns, identity.label = (), "by content"
        if not identity.proven and identity.columns:
            self._check_unique(identity, rows)
        # Lines can be compared as they are where they have the same columns; else over the columns that both have.
        as_they_are = [(c.name, c.form) for c in self.old.columns] == [(c.name, c.form) for c in self.new.columns]
        if as_they_are and (identity.columns or not self.spec.ignore):
            self._by_line(rows, identity)
        else:
            self._by_common_columns(rows, identity)
        self.changes.sort(key=lambda change: (change.position, _ORDER[change.verb], change.subject))
        self._made_by_server()
        notes = [Note(kind, text, count) for (kind, text), count in self.counts.items()]
        return Comparison(
            self.observable,
            tuple(self.changes),
            tuple(notes + _read_notes(self.old, self.new)),
            tuple(dict.fromkeys(self.warnings)),
            tuple(self._ignored()),
            identity.label,
            rows,
        )

    # --- structure ------------------------------------------------------------------------------------------------------

    def _restructured(self) -> None:
        one, two = _structure(self.old), _structure(self.new)
        if list(one.items()) == list(two.items()):
            return
        changed = tuple(name for name in {**one, **two} if one.get(name) != two.get(name))
        self.changes.append(
            Change(
                self.observable, Verb.RESTRUCTURED, self.new.name, 0, before=one, after=two, changed=changed,
                how="" if changed else "order of columns",
            )
        )  # fmt: skip

    def _check_unique(self, identity: _Identity, rows: SqlRows) -> None:
        """A key that only the contract knows is looked at in every row."""
        for when, (shape, lines) in (("before", rows.old), ("after", rows.new)):
            twice = _first_twice(identity.keyed(shape), lines)
            if twice is None:
                continue
            name = _Subject(shape, identity.columns).of(twice)
            if when == "before":
                raise ContractFault(
                    f"`key`: {', '.join(identity.columns)} is not unique in {shown(self.spec.table)} before the run: "
                    f"{shown(name)} is there more than once"
                )
            self.warnings.append(f"the key is not unique after the run: {shown(name)} is there more than once")

    # --- rows -----------------------------------------------------------------------------------------------------------

    def _by_line(self, rows: SqlRows, identity: _Identity) -> None:
        (old_shape, old), (_, new) = rows.old, rows.new
        # A difference is left again at the next row of the same order; without one, lines are sorted by their bytes.
        order = self.old.order if self.old.order == self.new.order else ()
        guide = key_reader([old_shape.place[name] for name in order])
        found = unequal_lines(old, new, guide)
        gone = [line_at(old, start) for start in found.gone]
        appeared = [line_at(new, start) for start in found.new]
        self._pair(gone, appeared, identity)

    def _by_common_columns(self, rows: SqlRows, identity: _Identity) -> None:
        """Structure or ignored columns stand in the way of comparing whole lines: those that count are compared."""
        (old_shape, old), (new_shape, new) = rows.old, rows.new
        common = [name for name in old_shape.visible if name in new_shape.visible]
        left = key_reader([old_shape.place[name] for name in common])
        right = key_reader([new_shape.place[name] for name in common])
        waiting: dict[Any, list[bytes]] = defaultdict(list)
        for line in lines_of(old):
            waiting[left(line)].append(line)
        appeared = []
        for line in lines_of(new):
            equals = waiting.get(right(line))
            if equals:
                other = equals.pop(0)
                self._note_ignored(other, line)
            else:
                appeared.append(line)
        gone = [line for lines in waiting.values() for line in lines]
        self._pair(gone, appeared, identity)

    def _pair(self, gone: list[bytes], appeared: list[bytes], identity: _Identity) -> None:
        """Rows of the same key are one row that was edited; the rest came or went."""
        old_shape, new_shape = self._shapes
        partners: dict[int, int] = {}
        if identity.columns:
            _find_partners(gone, appeared, identity.keyed(old_shape), identity.keyed(new_shape), partners)
            # A key that is only spelt differently (1.0 and 1.00) is the same key.
            _find_partners(gone, appeared, identity.valued(old_shape), identity.valued(new_shape), partners)
        old_names, new_names = _Subject(old_shape, identity.columns), _Subject(new_shape, identity.columns)
        used = set(partners.values())
        for index, line in enumerate(gone):
            partner = partners.get(index, -1)
            if partner >= 0:
                self._kept(line, appeared[partner], partner + 1, old_names.of(line))
                continue
            self.changes.append(
                Change(self.observable, Verb.DELETED, old_names.of(line), index + 1, before=row_of(old_shape, line))
            )
        for index, line in enumerate(appeared):
            if index in used:
                continue
            row = row_of(new_shape, line)
            self._touch(line, row)
            self.changes.append(Change(self.observable, Verb.INSERTED, new_names.of(line), index + 1, after=row))

    def _kept(self, before: bytes, after: bytes, position: int, subject: str) -> None:
        """A row that is there on both sides and differs in some way."""
        (old_shape, new_shape), one, two = self._shapes, fields_of(before), fields_of(after)
        changed: list[str] = []
        format_only: list[str] = []
        for name, index in old_shape.visible.items():
            other = new_shape.visible.get(name)
            if other is None or one[index] == two[other]:
                continue
            same = same_value(old_shape.columns[index].form, one[index], two[other])
            (format_only if same else changed).append(name)
        self._note_ignored(before, after, subject)
        if format_only and self.spec.strict_format:
            how = "" if changed else "format only"
            wanted = {*changed, *format_only}
            changed = [name for name in old_shape.visible if name in wanted]
        else:
            how = ""
            if format_only and not changed:
                self.counts["format", "rows whose values are spelt differently and are equal"] += 1
        if not changed:
            return
        for name in changed:
            self._say_made(new_shape.columns[new_shape.place[name]])
        self.changes.append(
            Change(
                self.observable, Verb.UPDATED, subject, position, before=row_of(old_shape, before),
                after=row_of(new_shape, after), changed=tuple(changed), how=how,
            )
        )  # fmt: skip

    # --- what is left out, and what the server does by itself -------------------------------------------------------------

    def _note_ignored(self, before: bytes, after: bytes, subject: str = "") -> None:
        if not self.spec.ignore:
            return
        old_shape, new_shape = self._shapes
        one, two = before.split(b"\t"), after.split(b"\t")
        for rule in self.spec.ignore:
            left, right = old_shape.place.get(rule.column), new_shape.place.get(rule.column)
            if left is not None and right is not None and one[left] != two[right]:
                self.ignored[rule.column].append(subject)

    def _ignored(self) -> Iterable[Ignored]:
        for rule in self.spec.ignore:
            seen = self.ignored.get(rule.column, [])
            examples = tuple(shown(name) for name in seen if name)[:_EXAMPLES]
            yield Ignored(f"column {rule.column}", rule.reason, len(seen), examples)

    def _touch(self, line: bytes, row: Row) -> None:
        shape = self._shapes[1]
        parts = line.split(b"\t")
        for name in row:
            column = shape.columns[shape.place[name]]
            if column.made_by_server and unescaped(parts[shape.place[name]]) is not None:
                self._say_made(column)

    def _say_made(self, column: Column) -> None:
        if column.made_by_server:
            self.touched.setdefault(column.name, column.made_by_server)

    def _made_by_server(self) -> None:
        for name, why in self.touched.items():
            self.warnings.append(
                f"the column {shown(name)} is {why} and changes without the program's doing: if it tells nothing, list it "
                f"under `ignore` with a reason"
            )


def _first_twice(key_of: Callable[[bytes], Any], rows: Buffer) -> bytes | None:
    """The first line whose key was there before, or ``None``."""
    seen: set[Any] = set()
    for line in lines_of(rows):
        key = key_of(line)
        if key in seen:
            return line
        seen.add(key)
    return None
