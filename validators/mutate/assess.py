"""Trying a contract on its mutants: which it rejects, which survive, and where it does not look by decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contracts.schema import Effect, Is
from validators.changes import Comparison, ContractFault, Unreadable
from validators.ledger import Entry, Status
from validators.mutate.catalog import mutants
from validators.mutate.golden import Flaw, Golden, Mutant
from validators.verdict import Claim, Outcome, UnscoredCause, Verdict, unscored


class NotGolden(Exception):
    """The recorded run is no valid success under this contract; the argument says why."""


@dataclass(frozen=True)
class Survivor:
    """A mutant that the contract does not reject.

    Attributes:
        mutant: The bad state.
        verdict: A valid success, or unscored: that is no rejection either.
    """

    mutant: Mutant
    verdict: Verdict


@dataclass(frozen=True)
class Decided:
    """Something the contract does not look at because its author says so.

    Attributes:
        rule: The rule, in words.
        because: Its reason.
        mutants: How many bad states fell under it alone; they count neither as rejected nor as accepted.
    """

    rule: str
    because: str
    mutants: int


@dataclass(frozen=True)
class Assessment:
    """What a contract is worth.

    Attributes:
        made: How many mutants were tried, by flaw, without those that fall under a decision.
        killed: How many of them were rejected, by flaw.
        survivors: Those that were not.
        decided: Where the contract does not look, with the number of mutants there.
        idle_success: The verdict on an agent that does nothing and reports success.
        idle_failure: The verdict on one that does nothing and reports a failure.
        state_changing: Whether the contract says that its task changes something.
    """

    made: Mapping[Flaw, int]
    killed: Mapping[Flaw, int]
    survivors: tuple[Survivor, ...]
    decided: tuple[Decided, ...]
    idle_success: Verdict
    idle_failure: Verdict
    state_changing: bool = True
    faults: tuple[str, ...] = field(default=())
    """What is wrong with how the contract judges an agent that does nothing."""

    @property
    def total(self) -> int:
        """How many mutants were tried."""
        return sum(self.made.values())

    @property
    def rejected(self) -> int:
        """How many were rejected."""
        return sum(self.killed.values())

    @property
    def sound(self) -> bool:
        """Whether every mutant was rejected, and doing nothing is judged rightly."""
        return not self.survivors and not self.faults


def assess(golden: Golden) -> Assessment:
    """Tries a contract on every mutant of a good run.

    Raises:
        NotGolden: The run is no valid success under the contract, so that nothing can be learnt from it.
    """
    try:
        comparisons = golden.comparisons(golden.after)
        if golden.accepted.outcome is not Outcome.VALID_SUCCESS:
            raise NotGolden(golden.accepted.reason)
        known = _Known.of(golden.accepted, comparisons)
        any_values = _any_values(golden)
        made: Counter[Flaw] = Counter()
        killed: Counter[Flaw] = Counter()
        survivors = []
        decided = Counter(dict.fromkeys(_decisions(golden), 0))
        for mutant in mutants(golden):
            verdict, found = _try(golden, mutant)
            rules: set[_Rule] = set()
            if verdict.outcome is Outcome.VALID_SUCCESS:
                rule = any_values.get(id(mutant.rule))
                rules = {rule} if rule is not None else _by_decision(verdict, known, found)
            if rules:
                decided.update(rules)
                continue
            made[mutant.flaw] += 1
            if verdict.outcome in (Outcome.VALID_SUCCESS, Outcome.UNSCORED):
                survivors.append(Survivor(mutant, verdict))
            else:
                killed[mutant.flaw] += 1
        idle = golden.comparisons(golden.before)
        success = golden.verdict(idle, Claim.SUCCESS, None)
        failure = golden.verdict(idle, Claim.FAILED, None)
    except (Unreadable, ContractFault) as error:
        raise NotGolden(f"its states cannot be judged: {error.reason}") from None
    changing = golden.contract.state_changing
    return Assessment(
        made, killed, tuple(survivors),
        tuple(Decided(rule, because, count) for (rule, because), count in decided.items()),
        success, failure, changing, tuple(_idle_faults(success, failure, changing=changing)),
    )  # fmt: skip


def _idle_faults(success: Verdict, failure: Verdict, *, changing: bool) -> Iterable[str]:
    if changing and success.outcome is not Outcome.INVALID_SUCCESS:
        yield f"an agent that does nothing and reports success gets {success.outcome.letters} instead of IS: {success.reason}"
    if failure.outcome is not Outcome.VALID_FAILURE:
        yield f"an agent that does nothing and reports a failure gets {failure.outcome.letters} instead of VF: {failure.reason}"


def _try(golden: Golden, mutant: Mutant) -> tuple[Verdict, tuple[Comparison, ...]]:
    try:
        found = golden.comparisons(mutant.after)
    except Unreadable as error:
        return unscored(UnscoredCause.UNREADABLE, error.reason), ()
    except ContractFault as error:
        return unscored(UnscoredCause.CONTRACT, error.reason), ()
    return golden.verdict(found, Claim.SUCCESS, mutant.returned), found


# --- what the contract leaves out on purpose --------------------------------------------------------------------------

_Rule = tuple[str, str]
"""A rule in words, and its reason."""


def _decisions(golden: Golden) -> Iterable[_Rule]:
    """Every rule of the contract that takes something out of sight, with its reason."""
    for effect in golden.contract.effects.allow:
        yield _allowed(_label(effect), effect.reason)
    yield from _any_values(golden).values()
    for name, spec in golden.contract.observe.items():
        for rule in (*getattr(spec, "ignore", ()), *getattr(getattr(spec, "windows", None), "ignore", ())):
            yield f"ignored in {name}", rule.reason


def _allowed(label: str, because: str) -> _Rule:
    return f"allowed: {label}", because


def _any_values(golden: Golden) -> dict[int, _Rule]:
    """The fields of expected effects of which any value is right, by the identity of their matchers."""
    return {
        id(matcher): (f"any value: {name} of {_label(effect)}", matcher.because or "")
        for effect in golden.contract.effects.expect
        for name, matcher in effect.fields.items()
        if name != "*" and isinstance(matcher, Is) and matcher.is_ == "any"
    }


def _label(effect: Effect) -> str:
    return f"{effect.verb} {effect.observable}" + (f" ({effect.name})" if effect.name else "")


@dataclass(frozen=True)
class _Known:
    """What a run's ledger and comparisons show, so that another one can be set against it."""

    entries: Mapping[tuple[object, ...], Entry]
    ignored: Mapping[_Rule, object]

    @classmethod
    def of(cls, verdict: Verdict, comparisons: Iterable[Comparison]) -> _Known:
        entries = verdict.ledger.entries if verdict.ledger is not None else ()
        return cls(
            {_told(entry): entry for entry in entries},
            {(f"ignored in {c.observable}", i.because): (i.count, i.examples) for c in comparisons for i in c.ignored},
        )


def _told(entry: Entry) -> tuple[object, ...]:
    change = entry.change
    rows = tuple(
        None
        if row is None
        else tuple((name, cell.state, cell.kind, str(cell.value), cell.raw) for name, cell in row.items())
        for row in (change.before, change.after)
    )
    return change.observable, change.verb, change.subject, entry.status, entry.effect, rows


def _by_decision(verdict: Verdict, known: _Known, found: Iterable[Comparison]) -> set[_Rule]:
    """The rules that alone explain why a mutant is accepted; empty when something else does."""
    now = _Known.of(verdict, found)
    differing = [
        entry
        for here, there in ((known.entries, now.entries), (now.entries, known.entries))
        for told, entry in here.items()
        if told not in there
    ]
    if any(entry.status is not Status.ALLOWED or entry.effect is None for entry in differing):
        return set()
    if differing:
        return {_allowed(entry.effect.label, entry.effect.because) for entry in differing if entry.effect is not None}
    return {rule for rule, seen in now.ignored.items() if known.ignored.get(rule) != seen}
