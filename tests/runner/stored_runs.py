"""Stored runs of the dental program, as a campaign keeps them, made without a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from contracts.load import load_text
from runner.record import AgentRef, ContractRef, Frame, Recording, RunRecord, StageSeen, TimelineEntry, Worked
from runner.rejudge import Kept
from runner.spellings import blot, blot_part, blot_value
from runner.store import Campaign
from runner.verdict_record import verdict_part
from tests.validators.mutate_runs import ENDED, STARTED, SUITE, golden
from validators.mutate import Golden
from validators.snapshot import State
from validators.verdict import Claim

PICTURE = b"\x89PNG a picture of the screen"


def store(
    campaign: Campaign,
    run: Golden,
    text: str,
    name: str,
    *,
    status: Any = "success",
    after: Mapping[str, State] | None = None,
    returned: Any = None,
    **about: Any,
) -> Kept:
    """Keeps a run with its evidence and its verdict.

    Args:
        campaign: Where it is kept.
        run: The good run that it is made from.
        text: The contract's text.
        name: The run's name.
        status: What the agent reports.
        after: The state after it, if another one.
        returned: What the agent returns, if something else.
        about: More fields of the record.
    """
    loaded = load_text(text, name=name)
    now = run.after if after is None else after
    value = run.returned if returned is None else returned
    comparisons = run.comparisons(now)
    verdict = run.verdict(comparisons, Claim(status), value)
    contract, hidden = loaded.contract, loaded.contract.secrets
    part = verdict_part(verdict, comparisons)
    parts: dict[str, Any] = {
        "run": name,
        "campaign": campaign.name,
        "contract": ContractRef(
            id=contract.id, title=contract.title, sha256=loaded.sha256,
            source=campaign.keep(blot(text, hidden).encode()),
            parameters={key: blot_value(str(item), hidden) for key, item in contract.parameter_values.items()},
            state_changing=contract.state_changing, application=contract.application, domain=contract.domain,
            instruction=blot(contract.instruction, hidden), goal=contract.goal_state.summary,
        ),
        "agent": AgentRef(
            spec="scripted:x.yaml", name="scripted x", prompt="expert", prompt_text=campaign.keep(b"Do it."), status=status,
            returned=blot_value(value, hidden), timeline=[TimelineEntry(t=1.0, text="F2", screenshot=campaign.keep(PICTURE))],
        ),
        "image": "dentadesk", "provider": "wine", "started": STARTED - timedelta(seconds=9), "ended": ENDED,
        "worked": Worked(started=STARTED, ended=ENDED),
        "before": campaign.keep_snapshot(run.before, settled=True), "after": campaign.keep_snapshot(now, settled=True),
        "recording": Recording(
            events=campaign.keep(b'{"kind": "key"}\n'), keys=1, frames=[Frame(t=0.5, image=campaign.keep(PICTURE))]
        ),
        "stages": [blot_part(StageSeen(name="interaction", seen=True, evidence="“1234567890” typed"), hidden)],
        "verdict": blot_part(part, hidden),
    }  # fmt: skip
    record = RunRecord(**(parts | about))
    campaign.finish(record, campaign.begin(name))
    return Kept(campaign, record)


def text_of(task: str, change: Callable[[str], str] = lambda text: text) -> str:
    """The text of one of the suite's contracts."""
    return change((SUITE / f"{task}.yaml").read_text(encoding="utf-8"))


def stored(
    campaign: Campaign, task: str, name: str, *, change: Callable[[str], str] = lambda text: text, **about: Any
) -> Kept:
    """A run of one of the suite's contracts."""
    return store(campaign, golden(task, change), text_of(task, change), name, **about)


def with_state(run: Golden, **states: State) -> dict[str, State]:
    """The state after a good run with other states of some observables."""
    return run.with_states(states)


def campaign_in(folder: Path) -> Campaign:
    """A campaign with six runs: three good ones, an idle one, one with a wrong number and one with a changed neighbour."""
    from tests.validators.mutate_runs import with_fields

    campaign = Campaign.create(folder, "demo")
    for task in ("add-new-patient", "add-billing-code", "update-patient-phone"):
        stored(campaign, task, f"dswin.{task}.good")
    run = golden("add-new-patient")
    wrong = with_fields(run.after["patients"], "patients", 104, {"VERSNR": "4212505"})
    other = with_fields(run.after["patients"], "patients", 7, {"BEMERK": "versehentlich"})
    stored(campaign, "add-new-patient", "dswin.add-new-patient.wrong", after=with_state(run, patients=wrong))
    stored(campaign, "add-new-patient", "dswin.add-new-patient.beside", after=with_state(run, patients=other))
    stored(campaign, "add-new-patient", "dswin.add-new-patient.idle", after=run.before, status="failed")
    return campaign


def without(kept: Kept, **changes: Any) -> Kept:
    """The same run with other fields in its record."""
    return replace(kept, record=kept.record.model_copy(update=changes))
