"""Which effect claims which change, where effects may refer to each other by ``{field: effect.FIELD}`` (CONTRACT.md section 4).

Without references the observables and verbs are independent of each other, and :mod:`validators.assignment` finds the one best
assignment in each. A reference ties two of them together: which change the effect referred to claims decides which changes the
one that refers may claim. What is tied together is a *knot*; in each knot the best assignment is sought by branch and bound:

* Changes that may be claimed by an effect referred to, and of which the referring effects could claim the same ones, are one
  *meaning* of its name. Nothing is lost by telling these apart only: within a meaning the assignment may choose freely. That
  nothing is claimed is a meaning too.
* An open knot is assigned as if every reference could have each of its meanings at once. That allows at least what is possible,
  so no assignment is better; if it contradicts itself nowhere, it is the best one.
* Where it does contradict itself, one name is given each of its meanings in turn, the most promising first. The search ends with
  an assignment that no open case can exceed by the three criteria of the contract: so the result is the one that a search
  through all assignments finds.

Nearly always the first assignment is free of contradictions. The work is bounded all the same (:data:`MOST_WORK`): contracts and
runs can be made for which every search takes very long. Beyond the bound nothing is judged: :class:`ContractFault`.
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from validators.assignment import Places, assign
from validators.changes import Cell, Change, ContractFault, Verb
from validators.matchers import cell_key, equal_keys
from validators.rules import Fitting, Link, Rule, exact_lookup
from validators.values import shown

MOST_WORK = 5_000_000
"""How many times a change is looked at in the search of one knot; some ten seconds."""

Bucket = tuple[str, Verb]
_bucket_of = operator.attrgetter("observable", "verb")


def by_bucket(rules: Iterable[Rule]) -> dict[Bucket, list[Rule]]:
    """The rules by observable and verb."""
    buckets: dict[Bucket, list[Rule]] = defaultdict(list)
    for rule in rules:
        buckets[rule.bucket].append(rule)
    return buckets


def runs(changes: Iterable[Change]) -> Iterator[tuple[Bucket, list[Change]]]:
    """The changes by observable and verb; they are in record order."""
    return ((bucket, list(members)) for bucket, members in itertools.groupby(changes, _bucket_of))


def levels(rules: Sequence[Rule]) -> dict[Rule, int]:
    """How many effects must claim before each rule can be asked.

    Raises:
        ContractFault: Effects refer to each other in a circle.
    """
    found: dict[Rule, int] = {}
    waiting = list(rules)
    for level in itertools.count():
        names = {rule.ref.name for rule in waiting}
        ready = [rule for rule in waiting if rule.refers_to.isdisjoint(names)]
        if not ready:
            break
        found |= dict.fromkeys(ready, level)
        waiting = [rule for rule in waiting if rule not in found]
    if waiting:
        raise ContractFault(f"`{waiting[0].ref.label}` waits for itself: effects refer to each other in a circle")
    return found


def claim(rules: Sequence[Rule], changes: Sequence[Change], fitting: Fitting) -> dict[int, Rule]:
    """Lets rules claim changes, by the three criteria of the contract.

    Args:
        rules: The rules, in the order of the contract.
        changes: The changes, in record order.
        fitting: Asks whether a change fits a rule; its context is not changed. A name that none of the rules has means what
            the context says.

    Returns:
        The rule that claims a change, by the change's identity.

    Raises:
        ContractFault: A rule cannot be applied, rules refer to each other in a circle or to one that may claim several
            changes, or the search for the best assignment does not come to an end within :data:`MOST_WORK`.
        Unreadable: A rule needs the content of a file that was not kept.
    """
    levels(rules)
    members = dict(runs(changes))
    groups = by_bucket(rules)
    claims: dict[int, Rule] = {}
    for buckets in _knots(rules):
        involved = [rule for rule in rules if rule.bucket in buckets]
        if len(buckets) > 1 or any(not rule.refers_to.isdisjoint(r.ref.name for r in involved) for rule in involved):
            claims |= _Knot(involved, {b: members.get(b, []) for b in sorted(buckets)}, fitting).solved()
        else:
            (bucket,) = buckets
            claims |= _plain(groups[bucket], members.get(bucket, []), fitting)
    return claims


def _plain(rules: Sequence[Rule], changes: Sequence[Change], fitting: Fitting) -> dict[int, Rule]:
    """Claims of one observable and verb that nothing ties to others."""
    lookup = exact_lookup(rules)
    accepting = []
    for change in changes:
        found: list[int] = []
        enough = False
        for number in lookup.of(change):
            places = rules[number].places
            # Behind a rule that takes any number, only rules that need changes are of interest.
            if (not enough or places.required) and fitting.fits(rules[number], change):
                found.append(number)
                enough = enough or places.capacity is None
        accepting.append(tuple(found))
    numbers = assign(accepting, [rule.places for rule in rules])
    return {
        id(change): rules[number] for change, number in zip(changes, numbers, strict=True) if number is not None
    }  # fmt: skip


def _knots(rules: Sequence[Rule]) -> list[frozenset[Bucket]]:
    """The observables and verbs that are tied together by references."""
    named = {rule.ref.name: rule.bucket for rule in rules if rule.ref.name}
    knots: dict[Bucket, frozenset[Bucket]] = {rule.bucket: frozenset({rule.bucket}) for rule in rules}
    for rule in rules:
        for name in rule.refers_to & named.keys():
            joined = knots[rule.bucket] | knots[named[name]]
            knots |= dict.fromkeys(joined, joined)
    return list(dict.fromkeys(knots.values()))


# --- one knot ---------------------------------------------------------------------------------------------------------

_Meaning = int | None
"""What a name means: the number of one of its meanings, or ``None`` for nothing."""


class _Exactly(NamedTuple):
    """The change at this place, and no other, is what the effect of the name claims."""

    place: int


_Choice = _Meaning | _Exactly
_Case = Mapping[str, _Choice]
"""The names that were given a meaning. Of a meaning with several changes the effect may claim any one, or none at all if others
need them all: then a second choice says which it is."""


@dataclass(slots=True)
class _Target:
    """An effect that others refer to.

    Attributes:
        rule: The effect.
        meanings: The places of the changes that it may claim, by what they mean to those that refer.
        of: The meaning of each place.
    """

    rule: Rule
    meanings: list[list[int]] = field(default_factory=list)
    of: dict[int, int] = field(default_factory=dict)

    def meaning(self, choice: _Choice) -> _Meaning:
        """What a choice means to those that refer."""
        return self.of[choice.place] if isinstance(choice, _Exactly) else choice

    def places(self, choice: _Choice) -> list[int]:
        """The places of the changes that it may claim then."""
        if isinstance(choice, _Exactly):
            return [choice.place]
        return [] if choice is None else self.meanings[choice]


@dataclass(frozen=True, slots=True)
class _Solved:
    """The best assignment of one observable and verb in a case.

    Attributes:
        claims: The places of the changes that each rule claims, by the rule's number.
        filled: How many required places are filled.
        ranks: For each change that some rule may claim the number of the rule that does.
    """

    claims: dict[int, list[int]]
    filled: int
    ranks: tuple[int, ...]


_Score = tuple[int, int, tuple[tuple[int, ...], ...]]
"""What a case is worth, the best first: places filled and changes claimed, negative; the ranks."""


class _Knot:
    """Rules that are tied together by references, and the changes that they may claim."""

    def __init__(self, rules: list[Rule], members: Mapping[Bucket, list[Change]], fitting: Fitting) -> None:
        self._rules = rules
        self._members = members
        self._fitting = fitting
        self._work = 0
        self._numbers = {b: [n for n, rule in enumerate(rules) if rule.bucket == b] for b in members}
        self._base = self._fitting_apart()
        named = {rule.ref.name: rule for rule in rules if rule.ref.name}
        wanted = {name for rule in rules for name in rule.refers_to}
        self._targets = {name: _Target(rule) for name, rule in named.items() if name in wanted}
        for target in self._targets.values():
            if target.rule.places != Places(target.rule.places.required, 1):
                raise ContractFault(f"`{target.rule.ref.label}` is referred to and must have `count: 1`")
        self._links = {number: self._tied(rule) for number, rule in enumerate(rules)}
        """The parts of each rule that refer to rules of this knot; what refers to others is decided already."""
        self._held: dict[tuple[int, Link], dict[_Meaning, frozenset[int]]] = {}
        """The places for which a part of a rule holds, by what the one name means to which it refers."""
        self._held_any: dict[tuple[int, Link], frozenset[int]] = {}
        self._give_meanings()
        self._accepted: dict[Hashable, list[int]] = {}
        self._best: dict[Hashable, _Solved] = {}
        self._told: dict[Hashable, bool] = {}

    def _tied(self, rule: Rule) -> tuple[Link, ...]:
        return tuple(link for link in rule.links if not link.targets.isdisjoint(self._targets))

    def _change(self, number: int, place: int) -> Change:
        return self._members[self._rules[number].bucket][place]

    def _fitting_apart(self) -> list[list[int]]:
        """For each rule the places of the changes that fit it, references left aside."""
        base: list[list[int]] = [[] for _ in self._rules]
        names = {rule.ref.name for rule in self._rules if rule.ref.name}
        for bucket, numbers in self._numbers.items():
            rules = [self._rules[number] for number in numbers]
            decided = [[link for link in rule.links if link.targets.isdisjoint(names)] for rule in rules]
            lookup = exact_lookup(rules)
            for place, change in enumerate(self._members[bucket]):
                enough = False
                for at in lookup.of(change):
                    rule = rules[at]
                    if enough and not rule.places.required:
                        continue
                    if self._fitting.fits_apart(rule, change) and all(
                        self._fitting.linked(rule, link, change) for link in decided[at]
                    ):
                        base[numbers[at]].append(place)
                        enough = enough or (rule.places.capacity is None and len(rule.links) == len(decided[at]))
        return base

    # --- what names can mean ---

    def _give_meanings(self) -> None:
        for name, target in self._targets.items():
            links = [(number, link) for number, found in self._links.items() for link in found if name in link.targets]
            alone = [(number, link) for number, link in links if self._targets.keys() & link.targets == {name}]
            values = self._values(name, target, [link for _, link in links])
            held = [self._held_by_value(name, number, link, values) for number, link in alone]
            meanings: dict[Hashable, list[int]] = {}
            for at, (value, places) in enumerate(values):
                # What stands in a condition together with another name cannot be told in advance: each value for itself.
                told = tuple(places_of[at] for places_of in held) if len(alone) == len(links) else value
                meanings.setdefault(told, []).extend(places)
            target.meanings = sorted(map(sorted, meanings.values()))
            target.of = {place: meaning for meaning, places in enumerate(target.meanings) for place in places}
            by_place = {places[0]: at for at, (_, places) in enumerate(values)}
            for (number, link), places_of in zip(alone, held, strict=True):
                found: dict[_Meaning, frozenset[int]] = {}
                for meaning, places in enumerate(target.meanings):
                    found[meaning] = places_of[next(by_place[place] for place in places if place in by_place)]
                nothing = self._meaning({name: None})
                found[None] = frozenset(p for p in self._base[number] if self._holds(nothing, number, link, p))
                self._held[number, link] = found
                self._held_any[number, link] = frozenset().union(*found.values())

    def _values(self, name: str, target: _Target, links: Iterable[Link]) -> list[tuple[Hashable, list[int]]]:
        """The places that a target may claim, by the values of the fields that are referred to."""
        rule = target.rule
        fields = sorted({matcher.name for link in links for matcher in link.references if matcher.effect == name})
        number = self._rules.index(rule)
        values: dict[Hashable, list[int]] = {}
        for place in self._base[number]:
            change = self._change(number, place)
            row = change.after if change.after is not None else change.before or {}
            values.setdefault(tuple(_identity(row.get(field)) for field in fields), []).append(place)
        return list(values.items())

    def _held_by_value(
        self, name: str, number: int, link: Link, values: Sequence[tuple[Hashable, list[int]]]
    ) -> list[frozenset[int]]:
        """For each value of a name the places for which a part of a rule holds."""
        target = self._rules.index(self._targets[name].rule)
        reference = link.equals
        index: dict[object, list[int]] = defaultdict(list)
        if reference is not None and link.condition is not None:
            for place in self._base[number]:
                change = self._change(number, place)
                row = change.before if link.condition.side == "before" else change.after
                cell = row.get(link.condition.name) if row is not None else None
                if cell is not None:
                    index[cell_key(cell)].append(place)
        held = []
        for _, places in values:
            change = self._change(target, places[0])
            candidates: Iterable[int] = self._base[number]
            if reference is not None:
                row = change.after if change.after is not None else change.before or {}
                cell = row.get(reference.name)
                # Without the field the first question says what is wrong with the reference.
                keys = equal_keys(cell) if cell is not None else ()
                found = {place for key in keys for place in index.get(key, ())}
                candidates = sorted(found) if cell is not None else self._base[number][:1]
            fitting = self._meaning({name: change})
            held.append(frozenset(p for p in candidates if self._holds(fitting, number, link, p)))
        return held

    def _meaning(self, meant: Mapping[str, Change | None]) -> Fitting:
        """The same questions, where names mean these changes, or nothing."""
        claimed = {name: change for name, change in self._fitting.context.claimed.items() if name not in meant}
        return self._fitting.meaning({**claimed, **{name: c for name, c in meant.items() if c is not None}})

    def _holds(self, fitting: Fitting, number: int, link: Link, place: int) -> bool:
        self._worked()
        return fitting.linked(self._rules[number], link, self._change(number, place))

    def _worked(self, amount: int = 1) -> None:
        self._work += amount
        if self._work > MOST_WORK:
            names = ", ".join(f"`{name}`" for name in self._targets)
            raise ContractFault(
                f"which changes {shown(names, 200)} and the effects that refer to them claim cannot be found out: there are too "
                "many ways. Name fields that tell the changes apart, so that fewer of them fit"
            )

    # --- what is possible in a case ---

    def _possible(self, case: _Case, number: int, link: Link, place: int) -> bool:
        """Whether a part of a rule can hold; known for sure where every name it refers to has a meaning."""
        names = [name for name in self._targets if name in link.targets]
        meant = {name: self._targets[name].meaning(case[name]) for name in names if name in case}
        if (number, link) in self._held:
            (name,) = names
            held = self._held[number, link][meant[name]] if name in meant else self._held_any[number, link]
            return place in held
        return len(meant) < len(names) or self._together(number, link, place, meant)

    def _together(self, number: int, link: Link, place: int, meant: Mapping[str, _Meaning]) -> bool:
        """Whether a part of a rule that refers to several names holds."""
        key = (number, link, place, *meant.values())
        if key not in self._told:
            changes = {name: self._meant(name, meaning) for name, meaning in meant.items()}
            self._told[key] = self._holds(self._meaning(changes), number, link, place)
        return self._told[key]

    def _meant(self, name: str, meaning: _Meaning) -> Change | None:
        target = self._targets[name]
        return None if meaning is None else self._change(self._rules.index(target.rule), target.meanings[meaning][0])

    def _key(self, case: _Case, number: int) -> Hashable:
        """What of a case matters to a rule."""
        names = {name for link in self._links[number] for name in link.targets}
        if self._is_target(number):
            names.add(self._rules[number].ref.name)
        return number, tuple((name, case[name]) for name in sorted(names) if name in case)

    def _is_target(self, number: int) -> bool:
        target = self._targets.get(self._rules[number].ref.name)
        return target is not None and target.rule is self._rules[number]

    def _accepts(self, case: _Case, number: int) -> list[int]:
        """The places of the changes that a rule may claim in a case."""
        key = self._key(case, number)
        if key not in self._accepted:
            places, name = self._base[number], self._rules[number].ref.name
            if self._is_target(number) and name in case:
                places = self._targets[name].places(case[name])
            links = self._links[number]
            if links:
                self._worked(len(places))
                places = [p for p in places if all(self._possible(case, number, link, p) for link in links)]
            self._accepted[key] = places
        return self._accepted[key]

    def _solve(self, case: _Case, bucket: Bucket) -> _Solved:
        numbers = self._numbers[bucket]
        key = (bucket, tuple(self._key(case, number) for number in numbers))
        if key not in self._best:
            taken = {
                c.place: name for name, c in case.items() if isinstance(c, _Exactly) and self._lies_in(name, bucket)
            }
            accepting: dict[int, list[int]] = defaultdict(list)
            for at, number in enumerate(numbers):
                for place in self._accepts(case, number):
                    if place not in taken or (taken[place] == self._rules[number].ref.name and self._is_target(number)):
                        accepting[place].append(at)
            self._worked(1 + sum(map(len, accepting.values())))
            places = sorted(accepting)
            found = assign([tuple(accepting[p]) for p in places], [self._rules[n].places for n in numbers])
            claims: dict[int, list[int]] = defaultdict(list)
            ranks = dict.fromkeys(self._ranked(bucket), len(numbers))
            for place, chosen in zip(places, found, strict=True):
                if chosen is not None:
                    claims[numbers[chosen]].append(place)
                    ranks[place] = chosen
            filled = sum(min(len(claims[number]), self._rules[number].places.required) for number in numbers)
            self._best[key] = _Solved(dict(claims), filled, tuple(ranks.values()))
        return self._best[key]

    def _lies_in(self, name: str, bucket: Bucket) -> bool:
        return self._targets[name].rule.bucket == bucket

    def _ranked(self, bucket: Bucket) -> list[int]:
        """The places that any rule may claim in any case; all others are left over always."""
        return sorted({place for number in self._numbers[bucket] for place in self._accepts({}, number)})

    # --- the search ---

    def solved(self) -> dict[int, Rule]:
        """The best assignment: the rule that claims a change, by the change's identity."""
        order = itertools.count()
        start: dict[str, _Choice] = {}
        heap: list[tuple[_Score, int, dict[str, _Choice], bool]] = [(self._score(start), next(order), start, True)]
        while True:
            score, _, case, is_exact = heapq.heappop(heap)
            if not is_exact:
                heapq.heappush(heap, (self._score(case), next(order), case, True))
                continue
            claims = {n: places for b in self._members for n, places in self._solve(case, b).claims.items()}
            if self._is_impossible(case, claims):
                continue
            name = self._contradiction(case, claims)
            if name is None:
                return {id(self._change(n, p)): self._rules[n] for n, places in claims.items() for p in places}
            for choice in self._choices(case, name):
                self._worked()
                child = {**case, name: choice}
                heapq.heappush(heap, (self._at_best(score, child, name), next(order), child, False))

    def _is_impossible(self, case: _Case, claims: Mapping[int, Sequence[int]]) -> bool:
        """Whether an effect does not claim the very change that it should in this case."""
        return any(
            isinstance(choice, _Exactly)
            and choice.place not in claims.get(self._rules.index(self._targets[name].rule), ())
            for name, choice in case.items()
        )

    def _choices(self, case: _Case, name: str) -> list[_Choice]:
        target = self._targets[name]
        if name in case:
            return list(map(_Exactly, target.places(case[name])))  # that it claims nothing is a case already
        return [*range(len(target.meanings)), None]

    def _score(self, case: _Case) -> _Score:
        found = [self._solve(case, bucket) for bucket in self._members]
        filled = sum(solved.filled for solved in found)
        claimed = sum(len(places) for solved in found for places in solved.claims.values())
        return -filled, -claimed, tuple(solved.ranks for solved in found)

    def _at_best(self, score: _Score, case: _Case, name: str) -> _Score:
        """A bound on what a case is worth, quickly: not more than the case that it belongs to, nor than is there to fill."""
        meaning = self._targets[name].meaning(case[name])
        filled = 0
        for number, rule in enumerate(self._rules):
            if required := rule.places.required:
                there = len(self._base[number])
                if rule is self._targets[name].rule:
                    there = int(meaning is not None)
                for link in self._links[number]:
                    held = self._held.get((number, link))
                    if held is not None and name in link.targets:
                        there = min(there, len(held[meaning]))
                filled += min(required, there)
        # Where fewer places are filled, the ranks may be better.
        return (score[0], score[1], score[2]) if -filled <= score[0] else (-filled, score[1], ())

    def _contradiction(self, case: _Case, claims: Mapping[int, Sequence[int]]) -> str | None:
        """A name to which one of the claims refers in vain, and of which the case does not say exactly what it means."""
        meant: dict[str, _Meaning] = {}
        for name, target in self._targets.items():
            claimed = claims.get(self._rules.index(target.rule), ())
            meant[name] = target.of[claimed[0]] if claimed else None
        for number, links in self._links.items():
            for link, place in itertools.product(links, claims.get(number, ())):
                if not self._possible(meant, number, link, place):
                    vague = [n for n in meant if n in link.targets and (n not in case or case[n] != meant[n])]
                    vague = [n for n in vague if not isinstance(case.get(n), _Exactly)]
                    return min(vague, key=lambda n: n in case)
        return None


def _identity(cell: Cell | None) -> Hashable:
    """What two cells must share so that every reference to them is answered alike."""
    if cell is None:
        return None
    return (
        cell.kind,
        cell.state,
        type(cell.value),
        str(cell.value),
        cell.raw if cell.value is None else b"",
        cell.has_blank,
    )
