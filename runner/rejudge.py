"""Judging stored runs again, from their evidence alone: the same verdicts, or what another contract makes of them.

What cannot be judged again is told and left as it is: runs that ended before the agent could act, for reasons that no contract
changes, and runs whose contract has secret values, which are nowhere in the evidence (``--contract`` gives them).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from contracts.load import ContractError, LoadedContract, load_contract, load_text
from runner.lifecycle import Learnt
from runner.record import LedgerEntry, Missing, RunRecord, VerdictPart
from runner.spellings import BLOT, blot_part
from runner.store import Campaign, StoreError
from runner.verdict_record import verdict_part
from validators.changes import Comparison, ContractFault, Unreadable
from validators.files import TreeState
from validators.mutate import Golden
from validators.require import unmet
from validators.snapshot import Snapshot, compare
from validators.values import shown
from validators.verdict import Claim, UnscoredCause, Verdict, judge, unscored

_NEVER_AGAIN = ("machine", "agent_infrastructure", "cancelled")
"""Causes of unscored runs that lie outside of what a contract says."""


class NotJudged(Exception):
    """A run that cannot be judged again; the argument says why."""


@dataclass(frozen=True)
class Kept:
    """A stored run: its record, and the campaign that holds its evidence."""

    campaign: Campaign
    record: RunRecord


def runs_at(path: Path) -> list[Kept]:
    """The runs that a path leads to: a record, a run's folder, a campaign, or a folder of campaigns.

    Raises:
        StoreError: There are none, or a record cannot be read.
    """
    if path.name == "record.json":
        path = path.parent
    if (path / "record.json").is_file():
        return [_one(path)]
    campaigns = [path] if (path / "blobs").is_dir() else sorted(p.parent for p in path.glob("*/blobs") if p.is_dir())
    found = [Kept(campaign, record) for campaign in map(Campaign, campaigns) for record in campaign.records()]
    if not found:
        raise StoreError(f"there are no runs at {path}: a campaign's folder is needed, or one run of it")
    return found


def _one(folder: Path) -> Kept:
    campaign = Campaign(folder.parent)
    try:
        record = RunRecord.model_validate_json((folder / "record.json").read_bytes())
    except (OSError, ValidationError) as error:
        raise StoreError(f"{folder / 'record.json'} cannot be read: {error}") from None
    return Kept(campaign, record)


# --- the contract -----------------------------------------------------------------------------------------------------


def contract_of(kept: Kept, file: Path | None = None, overrides: Mapping[str, str] | None = None) -> LoadedContract:
    """The contract of a run, with the parameters that the run had.

    Args:
        kept: The run.
        file: Another text of the contract; the one that the run was judged by unless given.
        overrides: Values that were given on the command line, such as secret ones.

    Raises:
        NotJudged: The contract cannot be used, or its secret values are not known.
        StoreError: The contract's text or pictures are missing or damaged.
    """
    record, campaign = kept.record, kept.campaign
    text = campaign.blob(record.contract.source) if file is None else b""
    pictures = {name: campaign.blob(blob) for name, blob in record.contract.pictures.items()}

    def load(values: Mapping[str, Any]) -> LoadedContract:
        if file is not None:
            return load_contract(file, parameters=values)
        return load_text(text, name=f"{record.run} (contract)", parameters=values, pictures=pictures)

    try:
        declared = load({}).contract
        values = {
            name: value
            for name, value in record.contract.parameters.items()
            if name in declared.parameters and BLOT not in str(value)
        }
        loaded = load({**values, **(overrides or {})})
    except ContractError as error:
        raise NotJudged(f"the contract cannot be used: {error}") from None
    if file is None and any(BLOT in secret for secret in loaded.contract.secrets):
        raise NotJudged("its contract has secret values, which are not kept: give the contract's file with --contract")
    if BLOT in repr(record.agent.returned) and loaded.contract.returns is not None:
        raise NotJudged("the agent returned a secret value, which is not kept")
    return loaded


# --- judging ----------------------------------------------------------------------------------------------------------


def judged(kept: Kept, loaded: LoadedContract) -> VerdictPart:
    """The verdict on a stored run by a contract.

    Raises:
        NotJudged: Nothing there can be judged.
        StoreError: Evidence is missing or damaged.
    """
    verdict, comparisons = _verdict(kept, loaded)
    return blot_part(verdict_part(verdict, comparisons), loaded.contract.secrets)


def _verdict(kept: Kept, loaded: LoadedContract) -> tuple[Verdict, tuple[Comparison, ...]]:
    record, contract = kept.record, loaded.contract
    if record.verdict.cause in _NEVER_AGAIN:
        raise NotJudged(f"it is unscored for a reason that no contract changes ({record.verdict.cause})")
    if record.before is None:
        raise NotJudged("it ended before there was a state to judge")
    before = kept.campaign.snapshot(record.before)
    after = None if record.after is None else kept.campaign.snapshot(record.after)
    started, ended = agents_time(record)
    comparisons: tuple[Comparison, ...] = ()
    try:
        indexes = Learnt().indexes_of(contract, before, record.before)
        same = compare(contract.observe, before, before, indexes=indexes)
        problems = unmet(
            contract.initial_state.require,
            rows={c.observable: c.rows for c in same if c.rows is not None},
            files={name: [item.path for item in tree.items] for name, tree in _trees(before)},
            now=started,
        )
        if problems:
            reason = f"The initial state is not as the contract requires: {'; '.join(problems)}."
            return unscored(UnscoredCause.PRECONDITION, reason), ()
        if after is None or record.agent.status == "not_run":
            raise NotJudged("the agent was not let in; by this contract it would have been")
        comparisons = compare(contract.observe, before, after, indexes=indexes)
        verdict = judge(
            contract, comparisons, Claim(record.agent.status), record.agent.returned,
            started=started, ended=ended, pictures=loaded.pictures,
        )  # fmt: skip
    except ContractFault as error:
        return unscored(UnscoredCause.CONTRACT, f"The contract cannot be applied: {error}."), comparisons
    except Unreadable as error:
        reason = f"A state that the contract needs could not be read: {error}."
        return unscored(UnscoredCause.UNREADABLE, reason), comparisons
    return verdict, comparisons


def _trees(snapshot: Snapshot) -> Iterator[tuple[str, TreeState]]:
    return ((name, state) for name, state in snapshot.items() if isinstance(state, TreeState))


def agents_time(record: RunRecord) -> tuple[datetime, datetime]:
    """When the agent could begin and could no longer act, by the guest's clock and in its zone.

    Records that do not keep it are given the moments of the two snapshots, which lie just outside.
    """
    if record.worked is not None:
        return record.worked.started, record.worked.ended
    about = record.freshness or {}
    zone = timezone(timedelta(seconds=float(about.get("utc_offset") or 0)))
    ahead = timedelta(seconds=float(about.get("clock_offset") or 0))
    first = record.before.taken if record.before is not None else record.started
    last = record.after.taken if record.after is not None else record.ended
    return (first + ahead).astimezone(zone), (last + ahead).astimezone(zone)


def golden_of(kept: Kept, loaded: LoadedContract) -> Golden:
    """A stored run as mutants are made from.

    Raises:
        NotJudged: It has no state before or after.
        StoreError: Evidence is missing or damaged.
    """
    record = kept.record
    if record.before is None or record.after is None:
        raise NotJudged("it has no state before and after")
    started, ended = agents_time(record)
    before, after = (kept.campaign.snapshot(snapshot) for snapshot in (record.before, record.after))
    return Golden(loaded.contract, before, after, record.agent.returned, started, ended, loaded.pictures)


def newest_success(runs: Sequence[Kept], contract: str) -> Kept | None:
    """The last run of a contract that was a valid success."""
    fitting = [k for k in runs if k.record.contract.id == contract and k.record.verdict.outcome == "valid_success"]
    return max(fitting, key=lambda kept: kept.record.started, default=None)


# --- what changed -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Again:
    """One run judged again.

    Attributes:
        kept: The run.
        verdict: The new verdict; ``None`` where it could not be judged again.
        why_not: Why not.
        damaged: It could not because evidence is missing or damaged.
        changes: What is different, each with the rule that makes the difference.
    """

    kept: Kept
    verdict: VerdictPart | None
    why_not: str = ""
    damaged: bool = False
    changes: tuple[str, ...] = ()


def rejudge(
    runs: Sequence[Kept], contracts: Mapping[str, Path] | None, overrides: Mapping[str, str] | None = None
) -> Iterator[Again]:
    """Judges runs again.

    Args:
        runs: The runs.
        contracts: Contract files by id; runs of other contracts are left out. ``None``: by the contracts as they were.
        overrides: Values for parameters.
    """
    for kept in runs:
        file = None if contracts is None else contracts.get(kept.record.contract.id)
        if contracts is not None and file is None:
            continue
        try:
            verdict = judged(kept, contract_of(kept, file, overrides))
        except NotJudged as error:
            yield Again(kept, None, str(error))
        except StoreError as error:
            yield Again(kept, None, str(error), damaged=True)
        else:
            yield Again(kept, verdict, changes=tuple(differences(kept.record.verdict, verdict)))


def differences(old: VerdictPart, new: VerdictPart) -> Iterator[str]:
    """What two verdicts on one run disagree about, in words."""
    if (old.outcome, old.kind, old.cause) != (new.outcome, new.kind, new.cause):
        yield f"{outcome_words(old)} → {outcome_words(new)}"
    was, now = _entries(old), _entries(new)
    for told in dict.fromkeys([*was, *now]):
        before, after = was.get(told), now.get(told)
        one, other = _account(before), _account(after)
        if one != other:
            yield f"{' '.join(told[:3])}: {one} → {other}"
    missing, lacks = ({part.effect: part for part in verdict.missing} for verdict in (old, new))
    for effect in dict.fromkeys([*missing, *lacks]):
        one, other = _lack(missing.get(effect)), _lack(lacks.get(effect))
        if one != other:
            yield f"expected `{effect}`: {one} → {other}"
    faults, finds = ({f"{p.path}: {p.message}" for p in verdict.returns} for verdict in (old, new))
    yield from (f"returned {text} → no longer" for text in sorted(faults - finds))
    yield from (f"returned: newly {text}" for text in sorted(finds - faults))
    rules, other_rules = ({(i.observable, i.rule): i.count for i in verdict.ignored} for verdict in (old, new))
    for rule in dict.fromkeys([*rules, *other_rules]):
        if rules.get(rule, 0) != other_rules.get(rule, 0):
            yield f"ignored in {rule[0]} by `{rule[1]}`: {rules.get(rule, 0)} → {other_rules.get(rule, 0)}"


def outcome_words(verdict: VerdictPart) -> str:
    """Outcome and kind in a few words."""
    return " ".join(filter(None, (verdict.outcome.replace("_", " "), verdict.kind or verdict.cause)))


def _entries(verdict: VerdictPart) -> dict[tuple[str, str, str, int], LedgerEntry]:
    """The ledger's entries by what they tell of; equal ones are numbered."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = {}
    for entry in verdict.ledger:
        about = (entry.observable, entry.verb, entry.subject)
        found[(*about, seen[about])] = entry
        seen[about] += 1
    return found


def _account(entry: LedgerEntry | None) -> str:
    if entry is None:
        return "no change"
    by = f" by `{entry.effect}`" if entry.effect else ""
    part = " (part of the task)" if entry.part_of_task else ""
    because = f" ({shown(entry.because, 80)})" if entry.because else ""
    return f"{entry.status}{by}{because}{part}"


def _lack(missing: Missing | None) -> str:
    if missing is None:
        return "there"
    times = f" {missing.count} times" if missing.count > 1 else ""
    wrong = ", ".join(misfit.field for misfit in missing.misfits)
    return f"missing{times}" + (f" ({wrong} does not fit)" if wrong else "")


# --- for people and machines ------------------------------------------------------------------------------------------


def told(again: Again) -> Iterator[str]:
    """What came out for one run, in lines; nothing where nothing is different."""
    record = again.kept.record
    if again.verdict is None:
        yield f"{record.run}: not judged again: {again.why_not}"
    elif again.changes:
        yield f"{record.run}: {again.changes[0]}" if len(again.changes) == 1 else f"{record.run}:"
        yield from (f"  {change}" for change in again.changes if len(again.changes) > 1)


def summary(found: Sequence[Again]) -> str:
    """All of them in one sentence."""
    done = [again for again in found if again.verdict is not None]
    changed = sum(bool(again.changes) for again in done)
    left = f"; {len(found) - len(done)} could not be judged again" if len(done) < len(found) else ""
    return f"{len(done)} runs judged again: {len(done) - changed} as before, {changed} differ{left}"


def as_data(again: Again) -> dict[str, Any]:
    """What came out for one run, as JSON data."""
    old, new = again.kept.record.verdict, again.verdict
    return {
        "run": again.kept.record.run,
        "contract": again.kept.record.contract.id,
        "was": {"outcome": old.outcome, "kind": old.kind, "cause": old.cause},
        "now": None if new is None else {"outcome": new.outcome, "kind": new.kind, "cause": new.cause},
        "reason": again.why_not if new is None else new.reason,
        "changes": list(again.changes),
    }
