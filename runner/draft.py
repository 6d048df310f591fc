"""What is known of a run so far, and the record that can be made of it at any moment.

A record says nothing that is secret: values are blotted out of everything that is told, after they were judged.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from contracts.schema import Evidence
from runner.agents.base import Happening
from runner.agents.supervision import Supervised
from runner.display.recorder import FlightRecorder
from runner.machines.base import Freshness
from runner.pictures import bare_png
from runner.plan import RunPlan
from runner.record import (
    AgentRef,
    BlindSpots,
    ContractRef,
    Recording,
    RunRecord,
    SnapshotRef,
    StageSeen,
    Stillness,
    TimelineEntry,
    VerdictPart,
    Worked,
)
from runner.spellings import blot, blot_part, blot_value
from runner.store import Campaign
from runner.verdict_record import verdict_part
from validators.changes import Comparison
from validators.stages import stages_seen
from validators.verdict import Verdict


@dataclass
class Draft:
    """What is known of a run so far; a record can be made of it at any moment."""

    plan: RunPlan
    run: str
    provider: str
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    timings: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    freshness: Freshness | None = None
    notes: tuple[str, ...] = ()
    prompt: str = ""
    template: str = ""
    supervised: Supervised | None = None
    titles: frozenset[str] | None = None
    """Of the windows that were seen while the agent worked; ``None``: not looked for, or not to be listed."""
    worked: Worked | None = None
    last_input: float | None = None
    """When the last key, pointer or clipboard event came, by :func:`time.monotonic`; ``None``: there was none."""
    stillness: Stillness | None = None
    before: SnapshotRef | None = None
    after: SnapshotRef | None = None
    recording: Recording = field(default_factory=Recording)
    comparisons: tuple[Comparison, ...] = ()
    blind_spots: BlindSpots | None = None

    @contextmanager
    def phase(self, name: str, progress: Callable[[str], None]) -> Iterator[None]:
        """Tells that a phase begins, and notes how long it takes."""
        progress(name)
        begun = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.monotonic() - begun


def new_run_id(plan: RunPlan) -> str:
    """A name for a run that nobody has had yet."""
    agent = re.sub(r"[^a-z0-9]+", "-", plan.agent.agent.name.lower()).strip("-")[:60] or "agent"
    return f"{plan.contract.contract.id}.{agent}.{plan.condition}.{plan.trial}-{secrets.token_hex(3)}"


def last_input(recorder: FlightRecorder) -> float | None:
    """When a client last did something that reached the machine, by :func:`time.monotonic`."""
    times = [event.t for event in recorder.events if event.kind in {"key", "pointer", "clipboard"}]
    return time.monotonic() - (recorder.elapsed() - times[-1]) if times else None


def record_of(draft: Draft, campaign: Campaign, verdict: Verdict) -> RunRecord:
    """The record of a run, as far as it came."""
    loaded, contract = draft.plan.contract, draft.plan.contract.contract
    report = draft.supervised.report if draft.supervised else None
    hidden = contract.secrets
    # An agent's own secrets can be ordinary words: they are blotted out of what it says, and of nothing else.
    spoken = (*hidden, *(report.hidden if report else ()))
    shown = {
        name: blot_value(value if isinstance(value, _PLAIN) else str(value), hidden)
        for name, value in contract.parameter_values.items()
    }
    source = blot(loaded.source.decode("utf-8", "replace"), hidden).encode()
    return RunRecord(
        run=draft.run,
        campaign=campaign.name,
        trial=draft.plan.trial,
        attempt=draft.plan.attempt,
        contract=ContractRef(
            id=contract.id,
            title=blot(contract.title, hidden),
            sha256=loaded.sha256,
            source=campaign.owe(source),
            pictures={name: campaign.owe(data) for name, data in loaded.pictures.items()},
            parameters=shown,
            state_changing=contract.state_changing,
            application=blot(contract.application, hidden),
            domain=blot(contract.domain, hidden),
            instruction=blot(contract.instruction, hidden),
            goal=blot(contract.goal_state.summary, hidden),
        ),
        agent=AgentRef(
            spec=blot(draft.plan.agent.spec, hidden),
            name=blot(draft.plan.agent.agent.name, hidden),
            prompt=draft.plan.condition,
            prompt_text=campaign.owe(blot(draft.prompt, hidden).encode()),
            status=report.status if report else "not_run",
            message=blot(report.message, spoken) if report else "",
            returned=blot_value(report.returned, spoken) if report else None,
            usage=dict(report.usage) if report else {},
            timeline=[_entry(happening, spoken, campaign) for happening in (report.timeline if report else ())],
        ),
        image=draft.plan.image,
        provider=draft.provider or "none",
        freshness=draft.freshness.as_dict() if draft.freshness else None,
        machine_notes=list(draft.notes),
        started=draft.started,
        ended=datetime.now(UTC),
        worked=draft.worked,
        stillness=draft.stillness,
        timings={name: round(seconds, 4) for name, seconds in draft.timings.items()},
        before=draft.before,
        after=draft.after,
        recording=draft.recording,
        blind_spots=draft.blind_spots and blot_part(draft.blind_spots, hidden),
        verdict=_judgement(blot_part(verdict_part(verdict, draft.comparisons), hidden), spoken),
        stages=_stages(draft, hidden) if report else [],
        intended=draft.plan.agent.intended,
        lasting=draft.supervised is not None and draft.supervised.lasting,
        faults=[blot(fault, spoken) for fault in draft.faults],
    )


def _judgement(part: VerdictPart, spoken: tuple[str, ...]) -> VerdictPart:
    """The judgement, without an agent's own secrets in what it says of the returned values."""
    if not part.returns:
        return part
    returns = [blot_part(problem, spoken) for problem in part.returns]
    return part.model_copy(update={"returns": returns, "reason": blot(part.reason, spoken)})


_PLAIN = (str, bool, int, list)


def _stages(draft: Draft, hidden: tuple[str, ...]) -> list[StageSeen]:
    """How far the run came. The log of typed keys shows a dot for each character of a secret, so that is what is looked for."""
    stages = {name: _dotted(evidence, hidden) for name, evidence in draft.plan.contract.contract.stages.items()}
    found = stages_seen(
        stages,
        titles=draft.titles,
        typed=[piece.text for piece in draft.recording.typed],
        typed_is_whole=draft.recording.typed_is_whole,
        comparisons=draft.comparisons,
    )
    return [blot_part(StageSeen(name=stage.name, seen=stage.seen, evidence=stage.evidence), hidden) for stage in found]


def _dotted(evidence: Evidence, hidden: tuple[str, ...]) -> Evidence:
    typed = evidence.typed
    for secret in hidden if typed else ():
        typed = typed and typed.replace(secret, "•" * len(secret))
    return evidence.model_copy(update={"typed": typed})


def _entry(happening: Happening, hidden: tuple[str, ...], campaign: Campaign) -> TimelineEntry:
    picture = bare_png(happening.screenshot) if isinstance(happening.screenshot, bytes) else None
    return TimelineEntry(
        t=float(happening.t),
        text=blot(str(happening.text)[:2000], hidden),
        screenshot=campaign.owe(picture) if picture else None,
    )
