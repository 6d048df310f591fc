"""Assignment of changes to rules with limited places: which change is claimed by which effect (CONTRACT.md section 4).

Given is, for every change in record order, the rules that accept it, in the order of the contract. Among all assignments
(each change to at most one rule, no rule beyond its capacity) :func:`assign` finds the one that

1. fills as many required places as possible,
2. leaves the fewest changes over,
3. gives the first change the earliest rule possible, then the second change, and so on; being left over comes last.

The third rule makes the answer unique. The first two never contradict each other: an assignment with as many required
places filled as possible can be extended, by augmenting paths, to one with as many changes placed as possible, and an
augmenting path never empties a place (Mendelsohn and Dulmage, 1958).

Changes accepted by the same rules are interchangeable but for their order, so paths are sought between *groups* of such
changes and rules, and whole groups go to a rule without limit at once. The work grows with the number of changes plus the
number of changes that compete for limited places, not with their product.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Places:
    """What one rule offers: ``required`` places that should be filled, of ``capacity`` in all (``None``: any number)."""

    required: int
    capacity: int | None

    @property
    def limit(self) -> int:
        """The capacity as a number."""
        return _UNLIMITED if self.capacity is None else self.capacity


def assign(accepting: Sequence[tuple[int, ...]], places: Sequence[Places]) -> list[int | None]:
    """Assigns changes to rules, by the three criteria above.

    Args:
        accepting: For each change, in record order, the ascending indexes of the rules that accept it.
        places: What each rule offers.

    Returns:
        For each change the index of its rule, or ``None`` for a change that is left over.
    """
    result: list[int | None] = [None] * len(accepting)
    contested: dict[tuple[int, ...], list[int]] = {}
    for number, rules in enumerate(accepting):
        if rules:
            contested.setdefault(rules, []).append(number)
    counts = [0] * len(places)
    for rules in [key for key in contested if _uncontested(key, places)]:
        members = contested.pop(rules)
        counts[rules[0]] += len(members)
        for number in members:
            result[number] = rules[0]
    if contested:
        _Flow(contested, places, counts).settle(result)
    return result


def _uncontested(rules: tuple[int, ...], places: Sequence[Places]) -> bool:
    """Whether the first rule takes any number and no other one needs the changes: then nothing is gained elsewhere."""
    return places[rules[0]].capacity is None and not any(places[rule].required for rule in rules[1:])


class _Flow:
    """An assignment of groups to rules that is improved step by step until it is the wanted one.

    Beside the rules there is one more node, the *rest*, which accepts every change: those left over are there.
    """

    def __init__(self, groups: dict[tuple[int, ...], list[int]], places: Sequence[Places], counts: list[int]) -> None:
        self._rest = len(places)
        self._members = list(groups.values())
        self._nodes = [(*rules, self._rest) for rules in groups]
        """Where the changes of each group may be, in order of preference."""
        self._places = places
        self._counts = [*counts, 0]
        """How many changes are at each node, settled ones included."""
        self._holding: list[dict[int, int]] = [{} for _ in range(self._rest + 1)]
        """How many unsettled changes of which groups are at each node."""
        self._movers: list[dict[int, dict[int, None]]] = [{} for _ in range(self._rest + 1)]
        """For each node and each other one: the groups that have changes at the first that could be at the second."""
        self._reached: dict[int, frozenset[int]] = {}
        for group, members in enumerate(self._members):
            self._put(group, self._rest, len(members))

    def settle(self, result: list[int | None]) -> None:
        """Fills ``result`` for the changes of all groups."""
        self._fill([place.required for place in self._places])
        self._fill([place.limit for place in self._places])
        order = sorted((number, group) for group, members in enumerate(self._members) for number in members)
        for number, group in order:
            node = next(n for n in self._nodes[group] if group in self._holding[n] or self._make_room(group, n))
            # Settled: it stays and counts, but moves no more.
            self._hold(group, node, -1)
            result[number] = None if node == self._rest else node

    # --- book-keeping ---

    def _hold(self, group: int, node: int, amount: int) -> None:
        holding = self._holding[node]
        before = holding.get(group, 0)
        if before + amount:
            holding[group] = before + amount
            if not before:
                for other in self._nodes[group]:
                    self._movers[node].setdefault(other, {})[group] = None
        else:
            del holding[group]
            for other in self._nodes[group]:
                del self._movers[node][other][group]

    def _put(self, group: int, node: int, amount: int) -> None:
        self._hold(group, node, amount)
        self._counts[node] += amount

    def _shift(self, group: int, source: int, target: int, amount: int) -> None:
        self._put(group, source, -amount)
        self._put(group, target, amount)

    # --- the first two criteria ---

    def _fill(self, limits: list[int]) -> None:
        """Places as many changes as the limits allow; no rule loses any."""
        for group, nodes in enumerate(self._nodes):
            for rule in nodes[:-1]:
                amount = min(self._holding[self._rest].get(group, 0), limits[rule] - self._counts[rule])
                if amount > 0:
                    self._shift(group, self._rest, rule, amount)
        closed: set[int] = set()
        for group in list(self._holding[self._rest]):
            while group in self._holding[self._rest] and self._augment(group, limits, closed):
                pass

    def _augment(self, group: int, limits: list[int], closed: set[int]) -> bool:
        """Places changes of the group by moving others on; rules found to lead nowhere are added to ``closed``."""
        came: dict[int, tuple[int, int]] = {n: (self._rest, group) for n in self._nodes[group][:-1] if n not in closed}
        queue = deque(came)
        while queue:
            rule = queue.popleft()
            if self._counts[rule] < limits[rule]:
                moves = _moves(came, self._rest, rule)
                held = [self._holding[source][mover] for mover, source, _ in moves]
                amount = min(limits[rule] - self._counts[rule], *held)
                for mover, source, target in moves:
                    self._shift(mover, source, target, amount)
                return True
            for other, movers in self._movers[rule].items():
                if movers and other != self._rest and other not in came and other not in closed:
                    came[other] = (rule, next(iter(movers)))
                    queue.append(other)
        closed.update(came)
        return False

    # --- the third criterion ---

    def _make_room(self, group: int, wanted: int) -> bool:
        """Brings one change of the group to the node ``wanted``, if the assignment stays a best one.

        The search starts at ``wanted``, which then has one too many, and ends at a node that has a change of the group to
        give. On the way a node with one too many passes any change on; or it keeps it, if it has a free place, and some
        other node gives up a place that counts as much. Nodes reached in vain are remembered: exchanges among best
        assignments never open a new way (they turn around circles, whose nodes could reach each other before), and
        settling a change only closes some.
        """
        origins = {node for node in self._nodes[group] if group in self._holding[node]}
        if wanted in self._reached and origins.isdisjoint(self._reached[wanted]):
            return False
        came: dict[int, tuple[int, int | None]] = {}
        seen = {wanted}
        queue = deque(seen)
        jumped: set[bool] = set()
        while queue:
            node = queue.popleft()
            if node in origins:
                self._turn(group, wanted, node, came)
                return True
            steps: list[tuple[int, int | None]] = [(n, next(iter(g))) for n, g in self._movers[node].items() if g]
            if node != self._rest and self._counts[node] < self._places[node].limit:
                needed = self._counts[node] < self._places[node].required
                if needed not in jumped:
                    jumped.add(needed)
                    steps += [(n, None) for n in range(self._rest) if self._counts[n] and self._is_needed(n) == needed]
            for other, mover in steps:
                if other not in seen:
                    seen.add(other)
                    came[other] = (node, mover)
                    queue.append(other)
        self._reached[wanted] = frozenset(seen)
        return False

    def _is_needed(self, rule: int) -> bool:
        """Whether the rule would have one required place filled less if it gave up a change."""
        return self._counts[rule] <= self._places[rule].required

    def _turn(self, group: int, wanted: int, origin: int, came: dict[int, tuple[int, int | None]]) -> None:
        moves = [(group, origin, wanted)]
        node = origin
        while node != wanted:
            source, mover = came[node]
            if mover is not None:
                moves.append((mover, source, node))
            node = source
        for mover, source, target in moves:
            self._shift(mover, source, target, 1)


def _moves(came: dict[int, tuple[int, int]], start: int, end: int) -> list[tuple[int, int, int]]:
    """The moves (group, from, to) of the path from ``start`` to ``end``, last move first."""
    moves = []
    while end != start:
        source, mover = came[end]
        moves.append((mover, source, end))
        end = source
    return moves
