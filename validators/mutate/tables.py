"""Mutants of tables: of the rows that the task is about, of their neighbours, and of tables beside."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from contracts.schema import DbfTable, Effect, FieldOf, SqlTable, TaskContract
from validators.changes import Cell, Change, Row, Unreadable, Verb
from validators.dbf import TableState
from validators.ledger import Entry
from validators.mutate.dbf_rows import DbfRows
from validators.mutate.golden import Flaw, Golden, Mutant
from validators.mutate.rows import RowEditor
from validators.mutate.sql_rows import SqlRows
from validators.snapshot import Snapshot, State
from validators.sql.table import SqlState
from validators.values import is_empty, series_number, shown

_MOST_FIELDS = 80
"""Fields of a row that are looked at; a wider row shows no other holes."""
_MOST_ROWS = 20_000
"""Rows among which the one most like the right one is sought."""
_FILLED = frozenset({Verb.INSERTED, Verb.UPDATED, Verb.UNDELETED})
Changed = tuple[Entry, Effect]


def editor(golden: Golden, name: str, snapshot: Snapshot) -> RowEditor | None:
    """An editable copy of a table; ``None`` where there is no such table.

    Raises:
        Unreadable: The table contradicts itself.
        ContractFault: The declared encoding is none.
    """
    spec, state = golden.contract.observe.get(name), snapshot.get(name)
    if isinstance(state, TableState) and state.dbf is not None:
        return DbfRows(state, spec.encoding if isinstance(spec, DbfTable) else None)
    if isinstance(state, SqlState) and state.exists:
        return SqlRows(state)
    return None


def table_names(golden: Golden) -> list[str]:
    """The tables of the recorded run, observed or not."""
    return [name for name, state in golden.after.items() if isinstance(state, TableState | SqlState)]


def expected_in_tables(golden: Golden) -> list[Changed]:
    """The expected changes of tables."""
    return [item for item in golden.expected if item[0].change.observable in table_names(golden)]


def mutants_of_tables(golden: Golden) -> Iterator[Mutant]:
    """Every mutant of tables but those in which effects as a whole are missing."""
    for entry, effect in expected_in_tables(golden):
        if entry.change.verb in _FILLED and entry.change.after is not None:
            yield from _Expected(golden, entry, effect).mutants()
    touched = {entry.change.observable for entry, _ in expected_in_tables(golden)}
    for name in table_names(golden):
        yield from _beside(golden, name, same=name in touched)


# --- the rows that the task is about ----------------------------------------------------------------------------------


def _label(effect: Effect) -> str:
    return f"{effect.verb} {effect.observable}" + (f" ({effect.name})" if effect.name else "")


@dataclass(frozen=True)
class _Expected:
    """One expected change of a row, and how it can be wrong."""

    golden: Golden
    entry: Entry
    effect: Effect

    @property
    def _change(self) -> Change:
        return self.entry.change

    @property
    def _row(self) -> Row:
        return self._change.after or {}

    def _edited(self) -> tuple[RowEditor, int]:
        """An editable copy, and the place of the row.

        Raises:
            Unreadable: The row is not there, which the comparison has just seen.
        """
        edit = editor(self.golden, self._change.observable, self.golden.after)
        at = None if edit is None else edit.find(self._row, self._change.position - 1)
        if edit is None or at is None:
            raise Unreadable(f"{self._change.observable}: {self._change.subject} cannot be found again")
        return edit, at

    def _before(self) -> tuple[RowEditor, int] | None:
        """The row before, if it was there."""
        source = editor(self.golden, self._change.observable, self.golden.before)
        if source is None or self._change.before is None:
            return None
        at = source.find(self._change.before, self._change.position - 1)
        return None if at is None else (source, at)

    def mutants(self) -> Iterator[Mutant]:
        """All of them."""
        if self._change.verb is Verb.INSERTED:
            yield from self._other_key()
        for name in itertools.islice(self._row, _MOST_FIELDS):
            yield from self._fields(name)
        if self._change.verb is Verb.INSERTED:
            yield from self._twice()
            yield from self._flagged()
        elif self._change.verb is Verb.UPDATED:
            yield from self._elsewhere()
            yield from self._flagged()

    # --- fields ---

    def _fields(self, name: str) -> Iterator[Mutant]:
        is_expected = name in self.effect.fields or name in self._change.changed
        if self._change.verb is Verb.INSERTED:
            is_expected = is_expected or not is_empty(self._row[name])
        was = self._row[name]

        def bad(now: Cell) -> bool:
            return not self.golden.is_as_right(was, now)

        wrong = Flaw.FIELD_WRONG if is_expected else Flaw.FIELD_BESIDE
        yield from self._one(wrong, name, "is wrong", lambda edit, at: edit.spoil(at, name, bad))
        if not is_expected:
            return
        yield from self._one(Flaw.FIELD_BLANK, name, "is blank", lambda edit, at: edit.clear(at, name))
        yield from self._one(Flaw.MEMO_CUT, name, "is cut in the middle", lambda edit, at: edit.cut(at, name))
        stale = self._before() or self._previous()
        if stale is not None:
            source, place = stale
            words = "is as before" if self._change.before is not None else "is that of the row before it"
            yield from self._one(
                Flaw.FIELD_STALE, name, words, lambda edit, at: edit.take(at, name, source, place, bad)
            )  # fmt: skip

    def _previous(self) -> tuple[RowEditor, int] | None:
        """The live row before a new one: what a form may still have shown."""
        source, at = self._edited()
        rows = list(itertools.takewhile(lambda other: other < at, source.live()))
        return (source, rows[-1]) if rows else None

    def _one(self, flaw: Flaw, name: str, words: str, change: Callable[[RowEditor, int], bool]) -> Iterator[Mutant]:
        edit, at = self._edited()
        if not change(edit, at):
            return
        observable, label = self._change.observable, _label(self.effect)
        if name in self.effect.fields:
            hole = f"the rule of `{label}` for {shown(name, 80)} accepts other values"
            advice = f"write what {shown(name, 80)} must be: a literal, or a matcher that leaves less room"
        elif name in self.effect.where:
            hole = f"`{label}` selects by {shown(name, 80)} and does not look at it afterwards"
            advice = f"name {shown(name, 80)} in `fields` as well"
        else:
            empty = "empty" if self._change.verb is Verb.INSERTED else "unchanged"
            hole = f'`"*"` of `{label}` lets {shown(name, 80)} be anything'
            advice = f'write `"*": {{is: {empty}}}`, or name {shown(name, 80)} in `fields`'
        yield Mutant(
            flaw, f"{observable}: {shown(name, 80)} of {shown(self._change.subject)} {words}",
            self.golden.with_states({observable: edit.state()}), self.golden.returned, hole, advice,
            self.effect.fields.get(name),
        )  # fmt: skip

    # --- rows ---

    def _twice(self) -> Iterator[Mutant]:
        name = self._change.observable
        edit, at = self._edited()
        edit.double(at)
        label = _label(self.effect)
        hole = f"`{label}` claims more rows than one"
        advice = "leave `count` out, or say how many rows the task makes"
        yield Mutant(
            Flaw.ROW_TWICE, f"{name}: {shown(self._change.subject)} is there twice, equal in every field",
            self.golden.with_states({name: edit.state()}), self.golden.returned, hole, advice,
        )  # fmt: skip
        for key in self._series():
            number = series_number(self._row[key])
            assert number is not None
            edit, at = self._edited()
            if edit.number(edit.double(at), key, number + 1):
                states: dict[str, State] = {name: edit.state()}
                follow = _followers(self.golden, self.effect, key, number + 1, states)
                yield Mutant(
                    Flaw.ROW_TWICE, f"{name}: {shown(self._change.subject)} was entered a second time, as {key}={number + 1}",
                    self.golden.with_states(follow), self.golden.returned, hole, advice,
                )  # fmt: skip

    def _flagged(self) -> Iterator[Mutant]:
        name = self._change.observable
        edit, at = self._edited()
        if edit.flag(at):
            yield Mutant(
                Flaw.ROW_FLAGGED, f"{name}: the expected row {shown(self._change.subject)} is marked as deleted",
                self.golden.with_states({name: edit.state()}), self.golden.returned,
                f"`{_label(self.effect)}` is not needed for success", "put it under `expect`, without `count: {min: 0}`",
            )  # fmt: skip

    def _series(self) -> list[str]:
        """The fields of a new row that are numbered: its key, else what the contract says is generated or referred to."""
        spec = self.golden.contract.observe.get(self._change.observable)
        keys = list(spec.key) if isinstance(spec, DbfTable | SqlTable) else []
        referred = [name for name, _ in _references(self.golden.contract, self.effect)]
        names = dict.fromkeys([*keys, *referred])
        return [name for name in names if name in self._row and series_number(self._row[name]) is not None]

    def _other_key(self) -> Iterator[Mutant]:
        """The right row under another number, with everything that follows the number."""
        name = self._change.observable
        for key in self._series():
            number = series_number(self._row[key])
            assert number is not None
            for other in (number + 1, number - 1):
                edit, at = self._edited()
                if not edit.number(at, key, other):
                    continue
                states = _followers(self.golden, self.effect, key, other, {name: edit.state()})
                yield Mutant(
                    Flaw.WRONG_KEY,
                    f"{name}: {shown(self._change.subject)} was stored as {key}={other}, and what refers to it follows",
                    self.golden.with_states(states), _returned_too(self.golden, self.effect, key, number, other),
                    f"the rule of `{_label(self.effect)}` for {key} accepts another key",
                    f"write `{key}: {{generated: next}}`, or the key itself", self.effect.fields.get(key),
                )  # fmt: skip

    def _elsewhere(self) -> Iterator[Mutant]:
        """The right change at the wrong row: instead of the right one, and beside it."""
        was = self._before()
        if was is None:
            return
        source, place = was
        name, label = self._change.observable, _label(self.effect)
        for other in self._confusable():
            for instead in (True, False):
                edit, at = self._edited()
                right, _ = self._edited()
                done = [edit.take(other, field, right, at) for field in self._change.changed]
                if not any(done):
                    continue
                if instead:
                    for field in self._change.changed:
                        edit.take(at, field, source, place)
                which = self._which(edit, other)
                words = f"{which} was changed instead of {shown(self._change.subject)}" if instead else (
                    f"{which} was changed in the same way as {shown(self._change.subject)}"
                )  # fmt: skip
                yield Mutant(
                    Flaw.WRONG_KEY if instead else Flaw.OTHER_ROW, f"{name}: {words}",
                    self.golden.with_states({name: edit.state()}), self.golden.returned,
                    f"`where` of `{label}` fits other rows than the right one" if instead
                    else f"`{label}` claims more rows than the right one",
                    f"add what tells the row from others to `where`: {self._selector()}",
                )  # fmt: skip

    def _confusable(self) -> list[int]:
        """The row most like the right one in what selects it, and the first other row."""
        edit, at = self._edited()
        right = edit.row(at)
        selects = [name for name in (self.effect.where or right) if name in right]
        others = [other for other in itertools.islice(edit.live(), _MOST_ROWS) if other != at]
        if not others:
            return []
        alike = max(others, key=lambda other: sum(edit.row(other)[name].same_value(right[name]) for name in selects))
        return list(dict.fromkeys([alike, others[0]]))

    def _which(self, edit: RowEditor, at: int) -> str:
        return _row_words(self.golden, self._change.observable, edit.row(at), at)

    def _selector(self) -> str:
        spec = self.golden.contract.observe.get(self._change.observable)
        key = list(spec.key) if isinstance(spec, DbfTable | SqlTable) else []
        before = self._change.before or {}
        named = [f"{name}: {shown(before[name].display(60))}" for name in key if name in before]
        return "{" + ", ".join(named) + "}" if named else "the fields that identify it"


def _row_words(golden: Golden, observable: str, row: Row, at: int) -> str:
    spec = golden.contract.observe.get(observable)
    key = [name for name in spec.key if name in row] if isinstance(spec, DbfTable | SqlTable) else []
    return ", ".join(f"{name}={shown(row[name].display(60))}" for name in key) or f"record {at + 1}"


# --- what follows a key -----------------------------------------------------------------------------------------------


def _references(contract: TaskContract, effect: Effect) -> Iterator[tuple[str, tuple[Effect, str]]]:
    """The fields of an effect that other effects refer to, each with the effect and the field that refers."""
    for other in contract.effects.expect:
        for name, matcher in other.fields.items():
            if effect.name and isinstance(matcher, FieldOf) and matcher.effect == effect.name:
                yield matcher.name, (other, name)


def _followers(
    golden: Golden, effect: Effect, key: str, number: int, states: dict[str, State]
) -> dict[str, State]:  # fmt: skip
    """The states in which the rows that refer to a key have its new number."""
    for name, (other, field) in _references(golden.contract, effect):
        for entry, claimed in golden.expected:
            change = entry.change
            if name != key or claimed is not other or change.after is None:
                continue
            edit = editor(golden, change.observable, {**golden.after, **states})
            at = None if edit is None else edit.find(change.after, change.position - 1)
            if edit is not None and at is not None and edit.number(at, field, number):
                states[change.observable] = edit.state()
    return states


def _returned_too(golden: Golden, effect: Effect, key: str, was: int, number: int) -> object:
    """What the agent would return, had the program given another number."""
    returned, rules = golden.returned, golden.contract.returns
    if rules is None or not isinstance(returned, dict):
        return returned
    result = dict(returned)
    for name, rule in rules.expect.items():
        if isinstance(rule, FieldOf) and (rule.effect, rule.name) == (effect.name, key) and name in result:
            value = result[name]
            if isinstance(value, str) and value.isdigit() and int(value) == was:
                result[name] = str(number).zfill(len(value))
            elif value == was and not isinstance(value, bool):
                result[name] = number
    return result


# --- rows that the task is not about ----------------------------------------------------------------------------------


def _beside(golden: Golden, name: str, *, same: bool) -> Iterator[Mutant]:
    """Rows that the task does not touch: in its own tables field by field, in tables beside one of each kind."""
    edit = editor(golden, name, golden.after)
    free = None if edit is None else _untouched(golden, name, edit)
    if edit is None or free is None:
        return
    observed = name in golden.contract.observe
    which = _row_words(golden, name, edit.row(free), free)
    if observed:
        hole = f"rows of {name} that the task is not about may change"
        advice = f"let the effects of {name} name the row that is meant in `where`"
    else:
        hole = f"{name} is not observed: what happens to its rows is not seen"
        advice = f"observe it: `{name}: {{dbf: …}}`"

    def made(flaw: Flaw, words: str, edited: RowEditor) -> Mutant:
        flaw = flaw if same and observed else Flaw.NEIGHBOUR
        return Mutant(
            flaw, f"{name}: {words}", golden.with_states({name: edited.state()}), golden.returned, hole, advice
        )  # fmt: skip

    done = False
    spec = golden.contract.observe.get(name)
    key = spec.key if isinstance(spec, DbfTable | SqlTable) else []
    for field in itertools.islice(sorted(edit.names, key=lambda field: field in key), _MOST_FIELDS):
        changed = editor(golden, name, golden.after)
        assert changed is not None
        if (same or not done) and changed.spoil(free, field):
            done = True
            yield made(Flaw.OTHER_ROW, f"{shown(field, 80)} of {which} was changed", changed)
    for flaw, words, act in _WHOLE_ROW:
        changed = editor(golden, name, golden.after)
        assert changed is not None
        if act(changed, free) is not False:
            yield made(flaw, words.format(which), changed)


_WHOLE_ROW: Sequence[tuple[Flaw, str, Callable[[RowEditor, int], object]]] = (
    (Flaw.ROW_DELETED, "{} was removed from the file", lambda edit, at: edit.remove(at)),
    (Flaw.ROW_FLAGGED, "{} was marked as deleted", lambda edit, at: edit.flag(at)),
    (Flaw.ROW_TWICE, "{} is there twice", lambda edit, at: edit.double(at) >= 0),
)


def _untouched(golden: Golden, name: str, edit: RowEditor) -> int | None:
    """The first live row that nothing happened to."""
    entries = golden.accepted.ledger.entries if golden.accepted.ledger is not None else ()
    touched = {
        edit.find(entry.change.after, entry.change.position - 1)
        for entry in entries
        if entry.change.observable == name and entry.change.after is not None and entry.change.verb in _FILLED
    }
    return next((at for at in edit.live() if at not in touched), None)


# --- effects that are missing -----------------------------------------------------------------------------------------


def reverted_tables(golden: Golden, changes: Iterable[Change]) -> dict[str, State]:
    """The tables as if some of the changes had not happened; only those that differ.

    Raises:
        Unreadable: A row cannot be found again.
    """
    by_table: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        if change.observable in table_names(golden):
            by_table[change.observable].append(change)
    return {name: _reverted(golden, name, members) for name, members in by_table.items()}


def _reverted(golden: Golden, name: str, changes: Sequence[Change]) -> State:
    edit, source = editor(golden, name, golden.after), editor(golden, name, golden.before)
    if edit is None or source is None or any(change.verb not in _FILLED for change in changes):
        return golden.before[name]  # rows that went away come back with the whole table
    gone = []
    for change in changes:
        at = edit.find(change.after or {}, change.position - 1)
        if at is None:
            raise Unreadable(f"{name}: {change.subject} cannot be found again")
        if change.verb is Verb.INSERTED:
            gone.append(at)
        elif change.verb is Verb.UNDELETED:
            edit.flag(at)
        else:
            place = source.find(change.before or {}, change.position - 1)
            for field in change.changed if place is not None else ():
                edit.take(at, field, source, place or 0)
    for at in sorted(gone, reverse=True):
        edit.remove(at)
    return edit.state()
