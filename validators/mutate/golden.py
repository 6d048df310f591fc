"""What mutants are made from, and what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from ntpath import basename
from typing import Any

from contracts.globs import fold
from contracts.schema import DateToday, DbfTable, Effect, FileTree, Matcher, TaskContract, TimeRun
from validators.changes import Cell, Comparison
from validators.dbf import KeyIndex, TableState
from validators.files import FileItem, TreeState
from validators.ledger import Entry, Status
from validators.matchers import RunContext, Subject, matches
from validators.snapshot import Snapshot, State, compare
from validators.verdict import Claim, Verdict, judge

_CLOCK = (DateToday(date="today"), TimeRun(time="run"))
"""What programs write by their clock."""
_SECOND = 10_000_000
"""In units of 100 ns, as times of files are kept."""


class Flaw(StrEnum):
    """What is bad about a state; the words are those of the report."""

    NOTHING = "nothing done at all"
    HALF = "half of the effects"
    FIELD_WRONG = "expected field wrong"
    FIELD_BLANK = "expected field blank"
    FIELD_STALE = "expected field stale"
    FIELD_BESIDE = "field beside changed"
    MEMO_CUT = "memo cut"
    ROW_MISSING = "row missing"
    ROW_TWICE = "row twice"
    WRONG_KEY = "wrong key"
    OTHER_ROW = "another row changed"
    ROW_DELETED = "another row deleted"
    ROW_FLAGGED = "deletion flag set"
    NEIGHBOUR = "neighbour table touched"
    FILE_WRONG = "expected file wrong"
    FILE_ADDED = "file added"
    FILE_CHANGED = "file changed"
    FILE_REMOVED = "file removed"
    WINDOW_WRONG = "expected window wrong"
    WINDOW_OPEN = "window left open"
    WINDOW_GONE = "window gone"
    REGISTRY_WRONG = "expected registry entry wrong"
    REGISTRY = "registry touched"
    RETURN_WRONG = "returned value wrong"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bad state, made from a good run.

    Attributes:
        flaw: What is bad about it.
        description: The same in words, with names and values. Hostile text.
        after: The state after the run.
        returned: What the agent returns.
        hole: What is wrong with the contract if it accepts this.
        advice: What to add to the contract then.
        rule: The matcher that looks at the value that is wrong, where one names it.
    """

    flaw: Flaw
    description: str
    after: Snapshot
    returned: Any
    hole: str
    advice: str
    rule: Matcher | None = None


@dataclass(frozen=True)
class Golden:
    """One recorded run that did exactly what its contract asks for.

    Attributes:
        contract: The contract.
        before: The state before the run; it may hold observables that the contract does not observe (any more).
        after: The state after it.
        returned: What the agent returned.
        started: When it could begin, by the guest's clock and in its zone.
        ended: When it could no longer act, likewise.
        pictures: The pictures that the contract's rules compare with.
    """

    contract: TaskContract
    before: Snapshot
    after: Snapshot
    returned: Any
    started: datetime
    ended: datetime
    pictures: Mapping[str, bytes] = field(default_factory=dict)

    @cached_property
    def _indexes(self) -> dict[str, KeyIndex]:
        """The keys of the tables before, indexed once for all mutants."""
        return {
            name: KeyIndex.build(state, spec.key, spec.encoding)
            for name, spec in self.contract.observe.items()
            if isinstance(spec, DbfTable)
            and spec.key
            and isinstance(state := self.before.get(name), TableState)
            and state.dbf is not None
        }

    def comparisons(self, after: Snapshot) -> tuple[Comparison, ...]:
        """What happened, if ``after`` were the state after the run.

        Raises:
            Unreadable: A state that the contract observes is missing or contradicts itself.
            ContractFault: The contract does not fit the states.
        """
        return compare(self.contract.observe, self.before, after, indexes=self._indexes)

    def verdict(self, comparisons: Sequence[Comparison], claim: Claim, returned: Any) -> Verdict:
        """The verdict on such a run."""
        return judge(
            self.contract, comparisons, claim, returned, started=self.started, ended=self.ended, pictures=self.pictures
        )  # fmt: skip

    def is_as_right(self, was: Cell, now: Cell) -> bool:
        """Whether another value is as right for this very run: both are dates that it touched, or times within it.

        What a program writes by its clock may be one or the other; a state is bad only if it is so for the run that it is made
        from, at midnight too.
        """
        run = RunContext(self.started, self.ended)
        return any(matches(clock, Subject(was), run) and matches(clock, Subject(now), run) for clock in _CLOCK)

    @cached_property
    def accepted(self) -> Verdict:
        """The verdict on the run itself.

        Raises:
            Unreadable, ContractFault: As :meth:`comparisons`.
        """
        return self.verdict(self.comparisons(self.after), Claim.SUCCESS, self.returned)

    @cached_property
    def expected(self) -> tuple[tuple[Entry, Effect], ...]:
        """The changes that expected effects claim, with those effects."""
        ledger = self.accepted.ledger
        return tuple(
            (entry, self.contract.effects.expect[entry.effect.index])
            for entry in (ledger.entries if ledger is not None else ())
            if entry.status is Status.EXPECTED and entry.effect is not None
        )

    def with_states(self, states: Mapping[str, State]) -> dict[str, State]:
        """The state after the run with other states of some observables.

        A table lies in files: trees that list them list the new ones, as the disk would.
        """
        result: dict[str, State] = {**self.after, **states}
        for name, state in states.items():
            was = self.after.get(name)
            if isinstance(state, TableState) and isinstance(was, TableState):
                for tree, now in list(result.items()):
                    if isinstance(now, TreeState) and tree not in states:
                        result[tree] = self._with_table(tree, now, name, was, state)
        return result

    def _with_table(self, tree: str, now: TreeState, name: str, was: TableState, state: TableState) -> TreeState:
        items = {item.path: item for item in now.items}
        for old, new in ((was.dbf, state.dbf), (was.memo, state.memo)):
            if old is None or new == old:
                continue
            for item in self._files_of(tree, name, was, bytes(old), items.values()):
                if new is None:
                    del items[item.path]
                else:
                    items[item.path] = rewritten(item, bytes(new))
        return replace(now, items=tuple(items.values()))

    def _files_of(
        self, tree: str, name: str, table: TableState, data: bytes, items: Iterator[FileItem] | Any
    ) -> list[FileItem]:
        """The entries of a tree that are a table's file: by its path, or by name and content where the contract has none."""
        spec, root = self.contract.observe.get(name), self.contract.observe.get(tree)
        is_memo = table.memo is not None and data == table.memo
        if isinstance(spec, DbfTable) and isinstance(root, FileTree):
            path = spec.dbf.replace("/", "\\")
            path = f"{path.rpartition('.')[0]}.{table.memo_kind}" if is_memo else path
            start = root.files.replace("/", "\\").rstrip("\\") + "\\"
            return [item for item in items if fold(start + item.path) == fold(path)]
        digest = hashlib.sha256(data).hexdigest()
        stem = fold(table.name).rpartition(".")[0]
        return [
            item for item in items if item.sha256 == digest and fold(basename(item.path)).rpartition(".")[0] == stem
        ]


def rewritten(item: FileItem, data: bytes) -> FileItem:
    """A file's entry after other content was written to it."""
    return replace(
        item, size=len(data), mtime=item.mtime + _SECOND, sha256=hashlib.sha256(data).hexdigest(), kind="file"
    )  # fmt: skip
