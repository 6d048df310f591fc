"""The ledger: every change with the effect that accounts for it, and what is missing (CONTRACT.md section 4).

``forbid`` comes first; the other changes are assigned to ``expect`` and ``allow`` by :mod:`validators.claiming`, which has
the three criteria of the contract. After a reported failure only ``allow`` explains; what is left is matched against the
expectations on the side and marked as part of the task. :mod:`validators.nearness` tells what came closest to what is missing.

Decisions where the contract leaves room (more of them in :mod:`validators.rules`):

* ``count`` of an ``allow`` is only an upper bound (an allowed change need not happen); of a ``forbid`` it means nothing.
* ``present`` and ``absent`` speak of the windows that are there after the run. They fill no slots of the task (a window that
  was there all the time is no progress), but are missing when they do not hold.
* A field that an effect names and the table does not have is a fault of the contract, not a misfit.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from contracts.schema import Effect, Effects
from validators.changes import Change, Comparison, ContractFault, Row, Rows, Unreadable, Verb
from validators.claiming import by_bucket, claim, runs
from validators.matchers import RunContext, Subject, matches
from validators.nearness import Hint, NearMiss, Nearness, hints, nearness
from validators.rules import EffectRef, Fitting, ListName, Rule, exact_lookup
from validators.values import shown

FINAL_STATES = frozenset({Verb.PRESENT, Verb.ABSENT})
"""Verbs that speak of what is there at the end, not of changes."""
_ROW_VERBS = frozenset({Verb.INSERTED, Verb.UPDATED, Verb.DELETED, Verb.UNDELETED, Verb.PURGED})
_SEEN = 5
"""How many windows a missing final state lists."""


class Status(StrEnum):
    """What became of a change."""

    EXPECTED = "expected"
    ALLOWED = "allowed"
    FORBIDDEN = "forbidden"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change and what accounts for it.

    Attributes:
        change: The change.
        status: What became of it.
        effect: The effect that claims (or forbids) it.
        part_of_task: After a reported failure: the expectation that an unexplained change would have filled.
        cause: Of an unexplained change that only follows from a near miss: the effect that was nearly filled.
    """

    change: Change
    status: Status
    effect: EffectRef | None = None
    part_of_task: EffectRef | None = None
    cause: EffectRef | None = None


@dataclass(frozen=True, slots=True)
class Slots:
    """How far one expected effect was filled.

    Attributes:
        effect: The effect.
        required: How many changes (or windows) it needs.
        filled: How many it has.
        missing: How many it lacks; 1 for a window that should be absent or is there too often.
        weight: Its credit.
        final_state: It speaks of windows after the run, not of changes.
        seen: Final states that do not hold: what was there instead.
        cause: If all that is missing only follows from a near miss: the effect that was nearly filled.
    """

    effect: EffectRef
    required: int
    filled: int
    missing: int = 0
    weight: Decimal = Decimal(1)
    final_state: bool = False
    seen: tuple[str, ...] = ()
    cause: EffectRef | None = None


@dataclass(frozen=True)
class Ledger:
    """The account of a run.

    Attributes:
        success: Whether the agent reported success; it decides how expectations count.
        entries: Every change, ordered by observable, verb and place, whatever order they came in.
        slots: Every expected effect that applies, in the contract's order.
        near_misses: What nearly filled the slots that are missing.
        hints: What else is known about them.
        claimed: For each named effect that claimed exactly one change: that change.
        supposed: For named effects that are missing: the change that would be theirs, had the near misses been right.
        causes: For each of these the effect whose near miss is the cause.
    """

    success: bool
    entries: tuple[Entry, ...] = ()
    slots: tuple[Slots, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    hints: tuple[Hint, ...] = ()
    claimed: Mapping[str, Change] = field(default_factory=dict)
    supposed: Mapping[str, Change] = field(default_factory=dict)
    causes: Mapping[str, EffectRef] = field(default_factory=dict)

    @cached_property
    def missing(self) -> tuple[Slots, ...]:
        """The expected effects that lack something."""
        return tuple(slots for slots in self.slots if slots.missing)

    @cached_property
    def filled(self) -> int:
        """How many changes fill slots of expected effects (after a failure: would fill them)."""
        return sum(slots.filled for slots in self.slots if not slots.final_state)

    @cached_property
    def beyond(self) -> tuple[Entry, ...]:
        """The changes that are forbidden, or neither explained nor part of the task."""
        return tuple(
            entry
            for entry in self.entries
            if entry.status is Status.FORBIDDEN
            or (entry.status is Status.UNEXPLAINED and entry.part_of_task is None)
        )  # fmt: skip

    @cached_property
    def credit(self) -> Decimal:
        """The share of the expected effects that was reached, by weight, from 0 to 1; 1 when nothing was expected."""
        total = sum((slots.weight for slots in self.slots), Decimal(0))
        if not total:
            return Decimal(1)
        reached = Decimal(0)
        for slots in self.slots:
            needed = max(slots.required, slots.missing)
            reached += slots.weight * (Decimal(needed - slots.missing) / needed if needed else 1)
        return (reached / total).quantize(Decimal("0.0001"))

    def with_status(self, status: Status) -> tuple[Entry, ...]:
        """The entries of one status."""
        return tuple(entry for entry in self.entries if entry.status is status)


def account(
    effects: Effects, comparisons: Sequence[Comparison], *, success: bool, context: RunContext
) -> Ledger:  # fmt: skip
    """Accounts for every change by the contract's effects.

    Args:
        effects: The contract's effects.
        comparisons: What happened to each observable.
        success: Whether the agent reported success.
        context: The run. Its ``rows`` are completed from the comparisons; its ``claimed`` is not looked at.

    Raises:
        ContractFault: The effects cannot be applied: a field the table does not have, references in a circle, or one
            of the faults that :func:`validators.matchers.matches` tells.
        Unreadable: An effect needs the content of a file that was not kept, or windows that were not read.
    """
    rows = {**context.rows, **{c.observable: c.rows for c in comparisons if c.rows is not None}}
    return _Accounting(effects, comparisons, success, context.with_rows(rows)).ledger()


class _Accounting:
    """One account: rules on the one side, changes in record order on the other."""

    def __init__(self, effects: Effects, comparisons: Sequence[Comparison], success: bool, context: RunContext) -> None:
        self._success = success
        self._changes = _in_order(change for comparison in comparisons for change in comparison.changes)
        self._buckets = dict(runs(self._changes))
        self._fitting = Fitting(context.with_claimed({}), self._buckets)
        self._expect = self._rules(effects.expect, "expect")
        self._allow = self._rules(effects.allow, "allow")
        self._forbid = self._rules(effects.forbid, "forbid")
        self._claims: dict[int, Rule] = {}
        """The rule that claims a change, by the change's identity."""
        _check_fields([*self._expect, *self._allow, *self._forbid], context.rows)

    def _rules(self, effects: Sequence[Effect], list_name: ListName) -> list[Rule]:
        rules: list[Rule] = []
        for index, effect in enumerate(effects):
            if not effect.applies(success=self._success):
                continue
            verb = Verb(effect.verb)
            ref = EffectRef(list_name, index, verb, effect.observable, effect.name or "", effect.reason)
            if verb in FINAL_STATES and list_name != "expect":
                raise ContractFault(f"`{ref.label}` is a final state: it can only be expected")
            rule = Rule(effect, ref)
            if list_name == "forbid" and rule.refers_to:
                raise ContractFault(f"`{ref.label}`: a forbidden effect cannot refer to what another one claims")
            rules.append(rule)
        return rules

    def ledger(self) -> Ledger:
        """Works it out."""
        forbidden = self._forbidden()
        open_changes = [change for change in self._changes if id(change) not in forbidden]
        expected = [rule for rule in self._expect if rule.ref.verb not in FINAL_STATES]
        if self._success:
            self._assign([*expected, *self._allow], open_changes)
        else:
            self._assign(self._allow, open_changes)
            self._assign(expected, [change for change in open_changes if id(change) not in self._claims])
        slots = self._slots()
        lacking = [
            (rule, s.missing) for rule, s in zip(self._expect, slots, strict=True) if s.missing and not s.final_state
        ]
        free = [change for change in open_changes if id(change) not in self._claims]
        near = nearness(lacking, self._could_claim(), free, self._fitting)
        return Ledger(
            success=self._success,
            entries=tuple(self._entry(change, forbidden, near) for change in self._changes),
            slots=tuple(replace(s, cause=near.of_effects.get(s.effect)) for s in slots),
            near_misses=near.near_misses,
            hints=tuple(hints(lacking, free, self._fitting)),
            claimed=dict(self._fitting.context.claimed),
            supposed=near.supposed,
            causes=near.causes,
        )

    def _entry(self, change: Change, forbidden: Mapping[int, Rule], near: Nearness) -> Entry:
        if (rule := forbidden.get(id(change))) is not None:
            return Entry(change, Status.FORBIDDEN, rule.ref)
        if (rule := self._claims.get(id(change))) is None:
            return Entry(change, Status.UNEXPLAINED, cause=near.of_changes.get(id(change)))
        if rule.ref.list == "allow":
            return Entry(change, Status.ALLOWED, rule.ref)
        if self._success:
            return Entry(change, Status.EXPECTED, rule.ref)
        return Entry(change, Status.UNEXPLAINED, part_of_task=rule.ref)

    def _forbidden(self) -> dict[int, Rule]:
        found: dict[int, Rule] = {}
        for bucket, rules in by_bucket(self._forbid).items():
            lookup = exact_lookup(rules)
            for change in self._buckets.get(bucket, ()):
                for number in lookup.of(change):
                    if self._fitting.fits(rules[number], change):
                        found[id(change)] = rules[number]
                        break
        return found

    # --- claiming ---

    def _assign(self, rules: Sequence[Rule], changes: Sequence[Change]) -> None:
        """Lets the rules claim changes; those claimed by named effects are known to ``{field: …}`` from then on."""
        self._claims |= claim(rules, changes, self._fitting)
        by_name: dict[str, list[Change]] = defaultdict(list)
        for change in self._changes:
            rule = self._claims.get(id(change))
            if rule is not None and rule.ref.name:
                by_name[rule.ref.name].append(change)
        self._fitting = self._fitting.meaning({name: found[0] for name, found in by_name.items() if len(found) == 1})

    def _could_claim(self) -> list[tuple[Rule, int]]:
        """The allowed effects that refer to others, with the number of changes that each could still claim."""
        counts = Counter(rule.ref for rule in self._claims.values())
        rules = (rule for rule in self._allow if rule.refers_to)
        return [(rule, rule.places.limit - counts[rule.ref]) for rule in rules]

    # --- what is missing ---

    def _slots(self) -> list[Slots]:
        counts = Counter(rule.ref for rule in self._claims.values())
        return [
            self._final_state(rule)
            if rule.ref.verb in FINAL_STATES
            else Slots(
                rule.ref,
                rule.places.required,
                counts[rule.ref],
                max(0, rule.places.required - counts[rule.ref]),
                rule.effect.weight,
            )
            for rule in self._expect
        ]

    def _final_state(self, rule: Rule) -> Slots:
        rows = self._fitting.context.rows.get(rule.ref.observable)
        if rows is None:
            raise Unreadable(f"the windows of `{rule.ref.observable}` were not read after the run")
        there: list[Row] = []
        others: list[Row] = []
        conditions = [*rule.where, *rule.named.values()]
        for row, live in rows.after():
            if live:
                fits = all(matches(c.matcher, Subject(row.get(c.name)), self._fitting.context) for c in conditions)
                (there if fits else others).append(row)
        least, most = rule.places.required, rule.places.capacity
        if rule.ref.verb is Verb.ABSENT:
            least = most = 0
        elif rule.effect.count is None:
            most = None
        missing = max(0, least - len(there)) or int(most is not None and len(there) > most)
        seen = (there if len(there) > least else [*there, *others]) if missing else []
        return Slots(
            rule.ref,
            least,
            len(there),
            missing,
            rule.effect.weight,
            final_state=True,
            seen=tuple(_window_words(row) for row in seen[:_SEEN]),
        )


_place = operator.attrgetter("observable", "verb", "position", "subject")


def _in_order(changes: Iterable[Change]) -> list[Change]:
    """Record order: by observable, verb, place; equal places by subject and at last by content."""
    ordered = sorted(changes, key=_place)
    places = [_place(change) for change in ordered]
    if any(map(operator.eq, places, places[1:])):
        runs = [list(members) for _, members in itertools.groupby(ordered, _place)]
        ordered = [change for run in runs for change in (sorted(run, key=_fingerprint) if len(run) > 1 else run)]
    if len(set(map(id, ordered))) < len(ordered):
        # Changes are told apart by identity, so one that was handed over twice becomes two.
        ordered = [replace(change) for change in ordered]
    return ordered


def _fingerprint(change: Change) -> str:
    rows = [sorted((name, repr(cell)) for name, cell in (row or {}).items()) for row in (change.before, change.after)]
    return repr((rows, change.changed, change.how, change.content))


def _check_fields(rules: Iterable[Rule], rows: Mapping[str, Rows]) -> None:
    """Refuses effects that name fields a table has neither before nor after the run."""
    known: dict[str, frozenset[str]] = {}
    for rule in rules:
        if rule.ref.verb not in _ROW_VERBS or (table := rows.get(rule.ref.observable)) is None:
            continue
        if rule.ref.observable not in known:
            first = [next(iter(side()), None) for side in (table.before, table.after)]
            known[rule.ref.observable] = frozenset(name for found in first if found is not None for name in found[0])
        fields = known[rule.ref.observable]
        unknown = [name for name in (*rule.effect.where, *rule.named) if name not in fields]
        if fields and unknown:
            raise ContractFault(
                f"`{rule.ref.label}` names the field {shown(unknown[0])}, but {rule.ref.observable} has only "
                + shown(", ".join(sorted(fields)), 300)
            )


def _window_words(row: Row) -> str:
    title = row.get("title")
    return "(window)" if title is None else shown(title.display(80), 80)
