"""The verdict: what a run is worth, from what the agent claims and what the ledger shows (CONTRACT.md section 5).

*Goal reached* means that no expected effect is missing (final window states included) and the returned values are valid.
After a reported failure "slots" are those the unexplained changes would have filled, and returned values are not judged.
The first rule that holds decides:

==================================================================================  =====================
the agent reports success                                                           outcome
==================================================================================  =====================
nothing missing, nothing unexplained or forbidden, returned values valid            VS
nothing missing, nothing unexplained or forbidden                                   IS · ``wrong_return``
nothing missing                                                                     IS · ``collateral``
missing; a near miss with a wrong value                                             IS · ``wrong_effect``
missing; some slots filled, or a half-finished row                                  IS · ``partial``
missing; something unexplained or forbidden                                         IS · ``wrong_effect``
missing; only allowed changes or none                                               IS · ``phantom``
==================================================================================  =====================

==================================================================================  ================================
the agent reports anything else                                                     outcome
==================================================================================  ================================
every change is allowed                                                             VF · ``gave_up`` (``failed``),
                                                                                    ``safe_stop``
                                                                                    (``ui_not_as_expected``),
                                                                                    ``timeout``,
                                                                                    ``agent_error`` (``error``)
all slots filled, nothing beyond them and the allowed, ``on_failure: goal``         VF · ``completed``
all slots filled, nothing beyond them and the allowed                               IF · ``unreported_completion``
all slots filled, and more                                                          IF · ``collateral``
a near miss with a wrong value                                                      IF · ``wrong_effect``
some slots filled, or a half-finished row                                           IF · ``partial``
otherwise                                                                           IF · ``collateral``
==================================================================================  ================================

*Unscored* comes before all of these: a reading the contract needs is unreadable, a precondition is not met, the contract, the
machine or the agent's provider is at fault, or a person cancelled the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from contracts.schema import DbfTable, FileTree, GoalOnFailure, Observable, RegistryKey, SqlTable, TaskContract, Windows
from validators.changes import Change, Comparison, ContractFault, Unreadable, Verb
from validators.ledger import Entry, Ledger, Slots, Status, account
from validators.matchers import RunContext
from validators.nearness import NearMiss
from validators.returns import ReturnsVerdict, Supposed, UnfitValue, bounded, check_returns
from validators.rules import EffectRef
from validators.values import shown


class Claim(StrEnum):
    """What the agent reports about its own run."""

    SUCCESS = "success"
    FAILED = "failed"
    UI_NOT_AS_EXPECTED = "ui_not_as_expected"
    TIMEOUT = "timeout"
    ERROR = "error"


class Outcome(StrEnum):
    """The four outcomes, and *unscored*."""

    VALID_SUCCESS = "valid_success"
    INVALID_SUCCESS = "invalid_success"
    VALID_FAILURE = "valid_failure"
    INVALID_FAILURE = "invalid_failure"
    UNSCORED = "unscored"

    @property
    def letters(self) -> str:
        """The two letters shown everywhere: VS, IS, VF, IF, and ``--`` for unscored."""
        return {"valid_success": "VS", "invalid_success": "IS", "valid_failure": "VF", "invalid_failure": "IF"}.get(
            self.value, "--"
        )


class Kind(StrEnum):
    """What kind of an outcome it is; a valid success has none."""

    WRONG_RETURN = "wrong_return"
    COLLATERAL = "collateral"
    WRONG_EFFECT = "wrong_effect"
    PARTIAL = "partial"
    PHANTOM = "phantom"
    SAFE_STOP = "safe_stop"
    GAVE_UP = "gave_up"
    TIMEOUT = "timeout"
    AGENT_ERROR = "agent_error"
    COMPLETED = "completed"
    UNREPORTED_COMPLETION = "unreported_completion"


class UnscoredCause(StrEnum):
    """Why a run could not be judged."""

    MACHINE = "machine"
    UNREADABLE = "unreadable"
    PRECONDITION = "precondition"
    CONTRACT = "contract"
    AGENT_INFRASTRUCTURE = "agent_infrastructure"
    CANCELLED = "cancelled"


class SideEffect(StrEnum):
    """Classes of side effects for audits."""

    ROW_ADDED = "row_added"
    ROW_CHANGED = "row_changed"
    ROW_DELETED = "row_deleted"
    TABLE = "table"
    FILE = "file"
    REGISTRY = "registry"
    WINDOW = "window"
    WRONG_RETURN = "wrong_return"
    PARTIAL_PROGRESS = "partial_progress"


_FAILURE_KINDS = {
    Claim.FAILED: Kind.GAVE_UP,
    Claim.UI_NOT_AS_EXPECTED: Kind.SAFE_STOP,
    Claim.TIMEOUT: Kind.TIMEOUT,
    Claim.ERROR: Kind.AGENT_ERROR,
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the outcome depends on.

    Attributes:
        missing: An expected effect lacks something, or a final state does not hold.
        beyond: A change is forbidden, or neither explained nor (after a failure) part of the task.
        filled: At least one slot of an expected effect is filled by a change.
        wrong_near_miss: There is a near miss with a wrong value.
        half_finished: There is a half-finished row.
        returns_valid: The returned values are right; looked at only after reported success.
    """

    missing: bool
    beyond: bool
    filled: bool
    wrong_near_miss: bool = False
    half_finished: bool = False
    returns_valid: bool = True

    @classmethod
    def of(cls, ledger: Ledger, returns: ReturnsVerdict | None) -> Facts:
        """The facts that a ledger and the judgement of the returned values show."""
        return cls(
            missing=bool(ledger.missing),
            beyond=bool(ledger.beyond),
            filled=ledger.filled > 0,
            wrong_near_miss=any(not near.half_finished for near in ledger.near_misses),
            half_finished=any(near.half_finished for near in ledger.near_misses),
            returns_valid=returns is None or returns.valid,
        )


@dataclass(frozen=True)
class Verdict:
    """The judgement of one run.

    Attributes:
        outcome: One of the four outcomes, or unscored.
        kind: Its kind; ``None`` for a valid success and for unscored runs.
        cause: Why the run is unscored; ``None`` for scored runs.
        claim: What the agent reported; ``None`` where that is not known.
        goal_reached: Nothing is missing, and the returned values are valid where they are judged; ``None``: unscored.
        state_valid: The state is as the contract wants it after what the agent reported; ``None``: unscored.
        returns: The judgement of the returned values; ``None`` after a reported failure.
        ledger: The account of the changes; ``None`` where there is none.
        side_effects: The classes of side effects, in the order of :class:`SideEffect`.
        reason: One sentence for the reader of the report.
    """

    outcome: Outcome
    kind: Kind | None
    reason: str
    cause: UnscoredCause | None = None
    claim: Claim | None = None
    goal_reached: bool | None = None
    state_valid: bool | None = None
    returns: ReturnsVerdict | None = None
    ledger: Ledger | None = None
    side_effects: tuple[SideEffect, ...] = ()

    @property
    def scored(self) -> bool:
        """Whether the run counts."""
        return self.outcome is not Outcome.UNSCORED


def unscored(cause: UnscoredCause, reason: str, *, claim: Claim | None = None) -> Verdict:
    """The verdict on a run that cannot be judged, with its cause and the reason in words."""
    return Verdict(Outcome.UNSCORED, None, shown(reason, 1_000), cause=cause, claim=claim)


def decide(claim: Claim, facts: Facts, on_failure_goal: bool) -> tuple[Outcome, Kind | None]:
    """The outcome and its kind: the two tables of this module, line by line."""
    if claim is Claim.SUCCESS:
        return _after_success(facts)
    if not facts.filled and not facts.beyond:
        return Outcome.VALID_FAILURE, _FAILURE_KINDS[claim]
    if not facts.missing and not facts.beyond:
        if on_failure_goal:
            return Outcome.VALID_FAILURE, Kind.COMPLETED
        return Outcome.INVALID_FAILURE, Kind.UNREPORTED_COMPLETION
    if not facts.missing:
        return Outcome.INVALID_FAILURE, Kind.COLLATERAL
    if facts.wrong_near_miss:
        return Outcome.INVALID_FAILURE, Kind.WRONG_EFFECT
    if facts.filled or facts.half_finished:
        return Outcome.INVALID_FAILURE, Kind.PARTIAL
    return Outcome.INVALID_FAILURE, Kind.COLLATERAL


def _after_success(facts: Facts) -> tuple[Outcome, Kind | None]:
    if not facts.missing and not facts.beyond:
        return (Outcome.VALID_SUCCESS, None) if facts.returns_valid else (Outcome.INVALID_SUCCESS, Kind.WRONG_RETURN)
    if not facts.missing:
        return Outcome.INVALID_SUCCESS, Kind.COLLATERAL
    if facts.wrong_near_miss:
        return Outcome.INVALID_SUCCESS, Kind.WRONG_EFFECT
    if facts.filled or facts.half_finished:
        return Outcome.INVALID_SUCCESS, Kind.PARTIAL
    return Outcome.INVALID_SUCCESS, Kind.WRONG_EFFECT if facts.beyond else Kind.PHANTOM


def judge(
    contract: TaskContract,
    comparisons: Sequence[Comparison],
    claim: Claim,
    returned: Any = None,
    *,
    started: datetime,
    ended: datetime,
    pictures: Mapping[str, bytes] | None = None,
) -> Verdict:
    """Judges a run from what was read; pure, so that stored evidence can be judged again.

    Args:
        contract: The task contract, parameters filled in.
        comparisons: What happened to each observable.
        claim: What the agent reports.
        returned: What it returned, parsed from JSON; looked at only after reported success.
        started: When the agent could begin, by the guest's clock and in its zone.
        ended: When it could no longer act, likewise.
        pictures: The pictures beside the contract that its rules compare with, by the name that they have there.

    Returns:
        The verdict; unscored when the contract cannot be applied or something it needs could not be read.
    """
    success = claim is Claim.SUCCESS
    values = _returned_values(returned) if success else {}
    context = RunContext(started, ended, returned=values, pictures=pictures or {})
    try:
        ledger = account(contract.effects, comparisons, success=success, context=context)
        returns = None
        if success:
            rows = {c.observable: c.rows for c in comparisons if c.rows is not None}
            files = {c.observable: c.files for c in comparisons if c.files is not None}
            context = context.with_rows(rows).with_files(files).with_claimed(ledger.claimed)
            returns = check_returns(contract.returns, returned, context, Supposed(ledger.supposed, ledger.causes))
    except Unreadable as error:
        return unscored(UnscoredCause.UNREADABLE, error.reason, claim=claim)
    except ContractFault as error:
        return unscored(UnscoredCause.CONTRACT, error.reason, claim=claim)
    facts = Facts.of(ledger, returns)
    outcome, kind = decide(claim, facts, contract.accepts_goal_on_failure)
    return Verdict(
        outcome=outcome,
        kind=kind,
        reason=_Reason(contract, claim, ledger, returns).sentence(outcome, kind),
        claim=claim,
        goal_reached=not facts.missing and facts.returns_valid,
        state_valid=outcome in (Outcome.VALID_SUCCESS, Outcome.VALID_FAILURE) or kind is Kind.WRONG_RETURN,
        returns=returns,
        ledger=ledger,
        side_effects=_side_effects(contract, ledger, outcome, kind),
    )


def _returned_values(returned: Any) -> Mapping[str, Any]:
    try:
        value = bounded(returned)
    except UnfitValue:
        return {}
    return value if isinstance(value, Mapping) else {}


# --- classes of side effects ------------------------------------------------------------------------------------------


def _side_effects(
    contract: TaskContract, ledger: Ledger, outcome: Outcome, kind: Kind | None
) -> tuple[SideEffect, ...]:  # fmt: skip
    """What the run left behind, for audits; what only follows from a near miss counts as that."""
    if outcome in (Outcome.VALID_SUCCESS, Outcome.VALID_FAILURE):
        return ()
    found = {
        _class_of(entry.change, contract.observe.get(entry.change.observable))
        for entry in ledger.entries
        if entry.status in (Status.FORBIDDEN, Status.UNEXPLAINED) and entry.cause is None
    }
    if kind is Kind.WRONG_RETURN:
        found.add(SideEffect.WRONG_RETURN)
    if kind is Kind.PARTIAL:
        found.add(SideEffect.PARTIAL_PROGRESS)
    return tuple(effect for effect in SideEffect if effect in found)


def _class_of(change: Change, observable: Observable | None) -> SideEffect:
    if isinstance(observable, FileTree):
        return SideEffect.FILE
    if isinstance(observable, Windows):
        return SideEffect.WINDOW
    if isinstance(observable, RegistryKey):
        return SideEffect.REGISTRY
    match change.verb:
        case Verb.INSERTED | Verb.UNDELETED:
            return SideEffect.ROW_ADDED
        case Verb.UPDATED:
            return SideEffect.ROW_CHANGED
        case Verb.DELETED | Verb.PURGED:
            return SideEffect.ROW_DELETED
        case _:
            return SideEffect.TABLE


# --- the sentence -----------------------------------------------------------------------------------------------------

_CLAIMED = {
    Claim.SUCCESS: "The agent reported success",
    Claim.FAILED: "The agent reported a failure",
    Claim.UI_NOT_AS_EXPECTED: "The agent stopped because the program did not look as it expected",
    Claim.TIMEOUT: "The agent ran out of time",
    Claim.ERROR: "The agent ended with an error",
}


@dataclass(frozen=True, slots=True)
class _Reason:
    """Puts the reason for an outcome into one sentence."""

    contract: TaskContract
    claim: Claim
    ledger: Ledger
    returns: ReturnsVerdict | None

    def sentence(self, outcome: Outcome, kind: Kind | None) -> str:
        """The sentence."""
        return f"{_CLAIMED[self.claim]}{self._rest(outcome, kind)}."

    def _rest(self, outcome: Outcome, kind: Kind | None) -> str:
        match kind:
            case None:
                return ", and exactly what the task asks for has happened"
            case Kind.WRONG_RETURN:
                problems = self.returns.problems if self.returns is not None else ()
                return ", and the task was done, but " + (
                    problems[0].message if problems else "the returned values are wrong"
                )
            case Kind.WRONG_EFFECT:
                near = next((near for near in self.ledger.near_misses if not near.half_finished), None)
                return ", but " + (
                    self._near(near) if near is not None else f"{self._missing()}; instead {self._beyond()}"
                )
            case Kind.PARTIAL:
                return f", but {self._partial()}"
            case Kind.PHANTOM:
                return f", but {self._missing()}"
            case Kind.COMPLETED:
                goal = self.contract.on_failure
                why = f" ({shown(goal.goal, 300)})" if isinstance(goal, GoalOnFailure) else ""
                return f", but everything the task asks for was done, which the contract accepts{why}"
            case Kind.UNREPORTED_COMPLETION:
                return ", but everything the task asks for was done; another attempt would do it twice"
            case Kind.COLLATERAL if outcome is Outcome.INVALID_SUCCESS:
                return f", and the task was done, but {self._beyond()}"
            case Kind.COLLATERAL:
                done = "everything the task asks for was done, and " if not self.ledger.missing else ""
                return f", but {done}{self._beyond()}"
            case _:
                allowed = " but allowed changes" if self.ledger.entries else ""
                return f", and nothing was left behind{allowed}"

    def _near(self, near: NearMiss) -> str:
        wrong = [misfit for misfit in near.misfits if not misfit.empty] or list(near.misfits)
        first = wrong[0]
        others = len(near.misfits) - 1
        more = f" ({others} more field{'s differ' if others > 1 else ' differs'})" if others else ""
        subject = self._thing(near.effect, near.change)
        return f"{subject}’s {shown(first.field, 80)} is {shown(first.found)} instead of {shown(first.expected)}{more}"

    def _partial(self) -> str:
        half = next((near for near in self.ledger.near_misses if near.half_finished), None)
        if half is not None:
            fields = shown(", ".join(misfit.field for misfit in half.misfits), 200)
            return f"{self._thing(half.effect, half.change)} is only half finished: nothing was entered in {fields}"
        required = sum(slots.required for slots in self.ledger.slots if not slots.final_state)
        return f"the task is only half done ({self.ledger.filled} of {required} changes): {self._missing()}"

    def _missing(self) -> str:
        missing = [slots for slots in self.ledger.missing if slots.cause is None]
        if not missing:
            return "nothing is missing"
        more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        return self._missing_words(missing[0]) + more

    def _missing_words(self, slots: Slots) -> str:
        if slots.final_state:
            name = slots.effect.name.replace("_", " ") or slots.effect.observable
            seen = f" (there: {', '.join(slots.seen)})" if slots.seen else ""
            state = (
                "is not there" if slots.effect.verb is Verb.PRESENT and slots.filled < slots.required else "is there"
            )
            state += " at the end" if state == "is not there" else " at the end but should not be"
            return f"the window “{name}” {state}{seen}"
        count = f" {slots.missing} times" if slots.missing > 1 else ""
        return f"{self._thing(slots.effect, None)} is missing{count}"

    def _beyond(self) -> str:
        causes = [entry for entry in self.ledger.beyond if entry.cause is None]
        beyond = sorted(causes, key=lambda entry: entry.status is not Status.FORBIDDEN)
        if not beyond:
            return "something else happened"
        more = f", and {len(beyond) - 1} more" if len(beyond) > 1 else ""
        return f"{self._change_words(beyond[0])}{more}"

    def _change_words(self, entry: Entry) -> str:
        change = entry.change
        subject = shown(change.subject, 80)
        forbidden = ", which is forbidden" if entry.status is Status.FORBIDDEN else ""
        match self.contract.observe.get(change.observable):
            case FileTree():
                what = f"the file {subject} was {'changed' if change.verb is Verb.ATTRIBUTES else change.verb}"
            case Windows():
                what = f"the window “{subject}” was {change.verb}"
            case RegistryKey():
                what = f"the registry {_kind_of(change)} {subject} was {change.verb}"
            case DbfTable() | SqlTable() if change.verb in (Verb.CREATED, Verb.DROPPED, Verb.RESTRUCTURED):
                what = f"the table {change.observable} was {change.verb}"
            case _:
                what = f"a row of {change.observable} ({subject}) was {change.verb}"
        return what + forbidden

    def _thing(self, effect: EffectRef, change: Change | None) -> str:
        """What an effect speaks of: by its name, else by what it is."""
        if effect.name:
            return "the " + effect.name.replace("_", " ")
        match self.contract.observe.get(effect.observable):
            case FileTree():
                return f"the {effect.verb} file" + (f" {shown(change.subject, 80)}" if change is not None else "")
            case Windows():
                return f"the {effect.verb} window" + (f" “{shown(change.subject, 80)}”" if change is not None else "")
            case RegistryKey():
                if change is None:
                    return f"the {effect.verb} entry of the registry ({effect.observable})"
                return f"the {effect.verb} registry {_kind_of(change)} {shown(change.subject, 80)}"
            case _:
                state = "new" if effect.verb is Verb.INSERTED else effect.verb
                return f"the {state} row of {effect.observable}"


def _kind_of(change: Change) -> str:
    """Whether a change of the registry is about a key or a value."""
    cell = (change.after or change.before or {}).get("kind")
    return "entry" if cell is None else str(cell.value)
