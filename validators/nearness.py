"""What came closest to expected effects that are missing, and what follows from it (CONTRACT.md section 4).

For each missing slot the *near miss* is the unexplained change that fits but for the fewest fields. A reference to an effect that
nothing filled is then taken to mean its near miss: of a row with a wrong field and a counter that follows it, only the row is
wrong. What would hold if it were so is a *consequence* of the near miss: the counter's slot, the counter's change, the returned
number. Where nothing came close, no one can tell, and an effect that refers has neither.
"""

from __future__ import annotations

import heapq
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from validators.assignment import Places, assign
from validators.changes import Change
from validators.claiming import levels, runs
from validators.rules import EffectRef, Fitting, Lookup, Misfit, Rule
from validators.values import shown


@dataclass(frozen=True, slots=True)
class NearMiss:
    """An unexplained change that nearly is what an unfilled slot waits for."""

    effect: EffectRef
    change: Change
    misfits: tuple[Misfit, ...]

    @property
    def half_finished(self) -> bool:
        """Whether all that does not fit was simply left empty."""
        return all(misfit.empty for misfit in self.misfits)


@dataclass(frozen=True, slots=True)
class Hint:
    """Something that explains why an expected effect is missing."""

    effect: EffectRef
    text: str
    change: Change


@dataclass(frozen=True)
class Nearness:
    """What came closest, and what follows from it.

    Attributes:
        near_misses: What nearly filled the slots that are missing, in the contract's order.
        supposed: What the names of effects that are missing are taken to mean: the near miss, or the consequence that would fill them.
        causes: For each of these names the effect whose near miss is the cause.
        of_changes: The cause of each change that is a consequence, by the change's identity.
        of_effects: The cause of each effect of which all that is missing is a consequence.
    """

    near_misses: tuple[NearMiss, ...] = ()
    supposed: Mapping[str, Change] = field(default_factory=dict)
    causes: Mapping[str, EffectRef] = field(default_factory=dict)
    of_changes: Mapping[int, EffectRef] = field(default_factory=dict)
    of_effects: Mapping[EffectRef, EffectRef] = field(default_factory=dict)


Lacking = Sequence[tuple[Rule, int]]
"""Expected effects with the number of changes that each lacks."""


def nearness(lacking: Lacking, allowed: Lacking, free: Sequence[Change], fitting: Fitting) -> Nearness:
    """Looks for what came closest, and for its consequences.

    Args:
        lacking: The expected effects that lack changes, in the contract's order.
        allowed: The allowed effects that refer to others, with the number of changes that each could still claim.
        free: The changes that nothing explains, in record order.
        fitting: Asks whether changes fit; its context knows what was claimed.
    """
    return _Search(fitting, free).found(lacking, allowed)


class _Search:
    def __init__(self, fitting: Fitting, free: Sequence[Change]) -> None:
        self._fitting = fitting
        self._free = free
        self._near: list[NearMiss] = []
        self._supposed: dict[str, Change] = {}
        self._causes: dict[str, EffectRef] = {}
        self._of_changes: dict[int, EffectRef] = {}
        self._of_effects: dict[EffectRef, EffectRef] = {}

    def found(self, lacking: Lacking, allowed: Lacking) -> Nearness:
        """Effects are looked at when all that they refer to means something."""
        level_of = levels([rule for rule, _ in lacking])
        for level in sorted(set(level_of.values())):
            known = self._fitting.context.claimed.keys() | self._supposed.keys()
            ready = [(rule, n) for rule, n in lacking if level_of[rule] == level and rule.refers_to <= known]
            fitting = self._supposing()
            left = self._consequences(ready, fitting)
            unclaimed = [change for change in self._free if id(change) not in self._of_changes]
            for miss in _nearest(left, unclaimed, fitting):
                self._near.append(miss)
                self._suppose(miss.effect, miss.change, miss.effect)
        known = self._fitting.context.claimed.keys() | self._supposed.keys()
        self._consequences([(rule, n) for rule, n in allowed if rule.refers_to <= known], self._supposing())
        near = tuple(sorted(self._near, key=lambda miss: miss.effect.index))
        return Nearness(near, self._supposed, self._causes, self._of_changes, self._of_effects)

    def _supposing(self) -> Fitting:
        return self._fitting.meaning({**self._fitting.context.claimed, **self._supposed})

    def _suppose(self, effect: EffectRef, change: Change, cause: EffectRef) -> None:
        if effect.name and effect.name not in self._supposed:
            self._supposed[effect.name] = change
            self._causes[effect.name] = cause

    def _consequences(self, rules: Lacking, fitting: Fitting) -> list[tuple[Rule, int]]:
        """Gives changes to rules that fit only because of what is supposed; returns what is lacking then."""
        following = [(rule, n) for rule, n in rules if not rule.refers_to.isdisjoint(self._supposed)]
        given: dict[Rule, list[Change]] = defaultdict(list)
        told = {*self._of_changes, *(id(miss.change) for miss in self._near)}
        for bucket, changes in runs(change for change in self._free if id(change) not in told):
            here = [(rule, n) for rule, n in following if rule.bucket == bucket]
            if here:
                accepting = [
                    tuple(at for at, (rule, _) in enumerate(here) if fitting.fits(rule, change)) for change in changes
                ]
                chosen = assign(accepting, [Places(n if rule.places.required else 0, n) for rule, n in here])
                for change, at in zip(changes, chosen, strict=True):
                    if at is not None:
                        given[here[at][0]].append(change)
        for rule, count in following:
            cause = min(
                (self._causes[name] for name in rule.refers_to & self._causes.keys()), key=lambda ref: ref.index
            )
            for change in given[rule]:
                self._of_changes[id(change)] = cause
                self._suppose(rule.ref, change, cause)
            if rule.ref.list == "expect" and len(given[rule]) == count:
                self._of_effects[rule.ref] = cause
        return [(rule, n - len(given[rule])) for rule, n in rules if n > len(given[rule])]


def _nearest(lacking: Lacking, free: Sequence[Change], fitting: Fitting) -> list[NearMiss]:
    best: dict[int, list[tuple[int, int]]] = {number: [] for number in range(len(lacking))}
    for number, place in _candidates(lacking, free, same_verb=True):
        rule, wanted = lacking[number]
        found = best[number]
        # Later records lose ties, so they must have fewer misfits than the worst one kept. One without any misfit only waits
        # for what it refers to.
        most = -found[0][0] - 1 if len(found) >= wanted else sys.maxsize
        if most and (wrong := fitting.misfits(rule, free[place], most)):
            keep = heapq.heappush if len(found) < wanted else heapq.heappushpop
            keep(found, (-len(wrong), -place))
    near = []
    for number, (rule, _) in enumerate(lacking):
        for count, place in sorted(best[number], reverse=True):
            change = free[-place]
            wrong = fitting.misfits(rule, change, -count) or []
            near.append(NearMiss(rule.ref, change, tuple(fitting.misfit(rule, change, name) for name in wrong)))
    return near


def hints(lacking: Lacking, free: Sequence[Change], fitting: Fitting) -> Iterator[Hint]:
    """What else may explain that expected effects are missing: the same thing touched by another verb."""
    given: dict[int, int] = {}
    for number, place in _candidates(lacking, free, same_verb=False):
        if number not in given and fitting.touched(lacking[number][0], free[place]):
            given[number] = place
    for number, (rule, _) in enumerate(lacking):
        if number in given:
            change = free[given[number]]
            yield Hint(rule.ref, f"{shown(change.subject)} was {change.verb} instead of {rule.ref.verb}", change)


def _candidates(lacking: Lacking, free: Sequence[Change], *, same_verb: bool) -> Iterator[tuple[int, int]]:
    """Pairs of a lacking rule and a free change that are worth a look, changes in record order."""
    place = 0
    for (observable, verb), members in runs(free):
        lookup = Lookup(either_side=not same_verb)
        spoken_of = False
        for number, (rule, _) in enumerate(lacking):
            if rule.ref.observable == observable and (rule.ref.verb is verb) == same_verb:
                lookup.add(number, rule.near_specs)
                spoken_of = True
        if spoken_of:
            for offset, change in enumerate(members):
                yield from ((number, place + offset) for number in lookup.of(change))
        place += len(members)
