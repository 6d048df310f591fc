"""The run record: one versioned JSON document per run, complete without the runner that wrote it.

A record names its evidence by content hash (see ``runner/store.py``); together they are all that a verdict rests on. Readers
must accept fields that they do not know; writers raise :data:`VERSION` when a field changes its meaning.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

VERSION = 1

OutcomeName = Literal["valid_success", "invalid_success", "valid_failure", "invalid_failure", "unscored"]
Sha256 = str
"""A blob's name: SHA-256 of its bytes, in hexadecimal."""


class Part(BaseModel):
    """Base of the record's parts."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    our_words: ClassVar[frozenset[str]] = frozenset()
    """The fields that hold words of this program and no free text."""


class ContractRef(Part):
    """The contract as it was used."""

    id: str
    title: str
    sha256: Sha256
    """Of the file's bytes."""
    source: Sha256
    """Blob: the file, secret values blotted out."""
    pictures: dict[str, Sha256] = Field(default_factory=dict)
    """Blobs: the pictures beside it that its rules compare with, by the name that they have there."""
    parameters: dict[str, Any]
    """Values as used; secret ones as ``•••``."""
    state_changing: bool
    application: str
    domain: str
    instruction: str
    goal: str


class AgentRef(Part):
    """The agent and what it said and did."""

    spec: str
    """As given on the command line, e.g. ``scripted:…/golden.yaml``."""
    name: str
    """What tables show: ``scripted golden``."""
    prompt: Literal["expert", "video", "instruction"]
    prompt_text: Sha256
    """Blob: the rendered prompt."""
    status: Literal["success", "failed", "ui_not_as_expected", "timeout", "error", "not_run"] = "not_run"
    message: str = ""
    returned: Any = None
    usage: dict[str, float] = Field(default_factory=dict)
    timeline: list[TimelineEntry] = Field(default_factory=list)


class TimelineEntry(Part):
    """One thing an agent did or noticed, by its own account."""

    t: float
    """Seconds since the agent began."""
    text: str
    screenshot: Sha256 | None = None


class Frame(Part):
    """One picture of the film strip."""

    t: float
    """Seconds since the flight recorder began."""
    image: Sha256
    """Blob: PNG."""
    reason: str = ""


class TypedText(Part):
    """A stretch of text typed, reconstructed from the input log."""

    start: float
    end: float
    text: str


class Recording(Part):
    """What the flight recorder kept."""

    events: Sha256 | None = None
    """Blob: JSON lines, one input event each."""
    keys: int = 0
    """Pressed, whether or not the events are kept; as are all pointer events."""
    pointer: int = 0
    typed: list[TypedText] = Field(default_factory=list)
    """Of the keys that are kept; all of it only if :attr:`typed_is_whole`."""
    frames: list[Frame] = Field(default_factory=list)
    not_kept: dict[str, int] = Field(default_factory=dict)
    """Events that were counted and are not kept, by kind: key, pointer, clipboard. What they were is not known."""
    fault: str = ""
    """Why the log of events is not whole, e.g. a full disk; empty where it is."""

    @property
    def typed_is_whole(self) -> bool:
        """Whether :attr:`typed` is all that was typed."""
        return not self.not_kept.get("key")


class Reading(Part):
    """One observable in one snapshot."""

    kind: Literal["dbf", "files", "windows", "registry", "sql", "unreadable"]
    unreadable: str | None = None
    blobs: dict[str, Sha256 | None] = Field(default_factory=dict)
    """By role: ``dbf``, ``memo``, ``items``, ``rows``; ``None`` where the thing is positively absent."""
    about: dict[str, Any] = Field(default_factory=dict)


class SnapshotRef(Part):
    """The state of all observables at one moment."""

    taken: datetime
    """By the host's clock, UTC."""
    settled: bool = True
    how: str = ""
    """The way it was read, in words; empty: live, through the guest."""
    readings: dict[str, Reading]


class Misfit(Part):
    """One field that kept a change from fitting an expectation."""

    field: str
    expected: str
    found: str
    before: str | None = None


class FieldChange(Part):
    """One field before and after, for people."""

    field: str
    before: str | None
    after: str | None
    changed: bool = True


class LedgerEntry(Part):
    """One change and what accounts for it."""

    our_words = frozenset({"verb", "status"})

    observable: str
    verb: str
    subject: str
    how: str = ""
    status: Literal["expected", "allowed", "forbidden", "unexplained"]
    effect: str | None = None
    """The effect that claims it, in words."""
    because: str = ""
    part_of_task: bool = False
    """After a reported failure: it would have filled an expectation."""
    cause: str | None = None
    """It only follows from a near miss: the effect that was nearly filled, in words. It counts as unexplained all the same."""
    fields: list[FieldChange] = Field(default_factory=list)

    @property
    def effect_name(self) -> str:
        """The effect's own name, without its verb and observable; empty where it has none."""
        return _own_name(self.effect, self.verb, self.observable)


class Missing(Part):
    """An expectation that nothing filled."""

    our_words = frozenset({"verb"})

    effect: str
    observable: str
    verb: str
    count: int = 1
    near_miss: str | None = None
    """Subject of the change that came closest."""
    misfits: list[Misfit] = Field(default_factory=list)
    half_finished: bool = False
    hint: str = ""
    cause: str | None = None
    """It only follows from a near miss: the effect that was nearly filled, in words. It counts as missing all the same."""

    @property
    def effect_name(self) -> str:
        """The effect's own name, without its verb and observable; empty where it has none."""
        return _own_name(self.effect, self.verb, self.observable)


def _own_name(effect: str | None, verb: str, observable: str) -> str:
    """``new_patient`` of ``inserted patients (new_patient)``; other words are given as they are."""
    words, rest = effect or "", (effect or "").removeprefix(f"{verb} {observable}")
    return words if rest == words else rest.removeprefix(" (").removesuffix(")")


class NoteEntry(Part):
    """Something listed that is no change."""

    observable: str
    kind: str
    text: str
    count: int = 1


class IgnoredEntry(Part):
    """What an ignore rule took out of sight."""

    observable: str
    rule: str
    because: str
    count: int
    examples: list[str] = Field(default_factory=list)


class ReturnProblem(Part):
    """Why returned values are not valid."""

    path: str
    expected: str
    found: str
    message: str
    cause: str | None = None
    """It only follows from a near miss: the effect that was nearly filled, in words. The values are not valid all the same."""


class VerdictPart(Part):
    """The judgement."""

    our_words = frozenset({"outcome", "kind", "cause", "side_effects"})

    outcome: OutcomeName
    kind: str | None = None
    cause: str | None = None
    """Of an unscored run: machine, unreadable, precondition, contract, agent_infrastructure, cancelled."""
    reason: str
    """One sentence for someone who knows the practice, not the program."""
    goal_reached: bool | None = None
    state_valid: bool | None = None
    returns_valid: bool | None = None
    side_effects: list[str] = Field(default_factory=list)
    ledger: list[LedgerEntry] = Field(default_factory=list)
    missing: list[Missing] = Field(default_factory=list)
    returns: list[ReturnProblem] = Field(default_factory=list)
    notes: list[NoteEntry] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    ignored: list[IgnoredEntry] = Field(default_factory=list)
    identities: dict[str, str] = Field(default_factory=dict)
    """Observable → how its rows were recognised."""


class StageSeen(Part):
    """One stage of the contract: whether what shows that the run passed it was seen."""

    name: str
    seen: bool | None
    """``None``: it could not be looked for."""
    evidence: str
    """What was looked for."""


class Worked(Part):
    """From when the agent could act until the state was read, by the guest's clock and in its zone.

    Rules about dates and times are judged by it. What a program stores after the agent's end belongs to the run, and bears its own time.
    """

    started: datetime
    ended: datetime


class DiskFile(Part):
    """One file of the machine's disk that differs from the checkpoint."""

    our_words = frozenset({"kind", "what"})

    path: str
    kind: str
    """created, modified, deleted, renamed."""
    what: list[str] = Field(default_factory=list)
    """In what it differs: data, attributes, times, stream, name."""
    old_path: str | None = None
    size: int = 0
    """Bytes now, or before if it is gone."""
    stream: str | None = None


class RegistryGroup(Part):
    """Changed keys of the registry that lie together and that no observable looks at."""

    key: str
    """Where they lie: the first names of their paths."""
    keys: int
    created: int = 0
    modified: int = 0
    deleted: int = 0
    volatile: str = ""
    """Why such keys change by themselves, in words; empty: they do not, as far as is known."""
    examples: list[str] = Field(default_factory=list)
    """Some of them, in words."""


class RegistrySpots(Part):
    """What else changed in the machine's registry."""

    unreadable: str | None = None
    """Why it could not be compared."""
    observed: int = 0
    """Changed keys that the contract observes."""
    groups: list[RegistryGroup] = Field(default_factory=list)
    """Those that no observable looks at; what changes by itself comes last."""
    left_out: int = 0
    """Further such keys, in groups that are not listed."""
    unread: list[str] = Field(default_factory=list)
    """Parts that could not be compared, each with the reason."""
    how: str = ""
    """What people have to know of how it was read."""


class BlindSpots(Part):
    """What else changed on the machine's drives: the answer to what the contract's observables cannot see."""

    how: str = ""
    """How the state got to the disk."""
    unreadable: str | None = None
    """Why the disk could not be looked at."""
    drives: list[str] = Field(default_factory=list)
    """The drives that were compared."""
    left_out_disks: list[str] = Field(default_factory=list)
    """Disks of the machine that were not, because nobody says which drive they hold."""
    observed: int = 0
    """Changed files that the contract observes."""
    system: int = 0
    """Changed files with which the system keeps its own books: the file table, journals, swap."""
    files: list[DiskFile] = Field(default_factory=list)
    """Changed files that no observable looks at."""
    left_out: int = 0
    """Further such files that are not listed."""
    compared_with: str = "the checkpoint"
    """The state since which changes count, in words."""
    unseen: list[str] = Field(default_factory=list)
    """What could not be compared because it lies elsewhere, in words."""
    registry: RegistrySpots | None = None
    """``None`` where nobody looked at it, and in records of versions that did not."""


class Intended(Part):
    """What a script says its run must be classified as."""

    outcome: OutcomeName
    kind: str | None = None


class Stillness(Part):
    """How the machine came to rest after the agent was cut off; times in seconds."""

    asked: float
    """How long nothing was to change (``limits.quiet``)."""
    reached: bool
    """Whether nothing did; otherwise the state was taken as it was at the end of ``limits.settle``."""
    waited: float
    """From the beginning of the waiting, right after the cut, to its end."""
    last_change: float | None = None
    """From the beginning of the waiting to the look that saw the last change; ``None``: none was seen."""
    since_input: float | None = None
    """From the last input to the beginning of the waiting; ``None``: there was no input."""

    @property
    def delay(self) -> float | None:
        """The longest time that the last change can have come after the last input; ``None``: there was no input."""
        return None if self.since_input is None else self.since_input + (self.last_change or 0.0)


class RunRecord(Part):
    """Everything about one run."""

    version: int = VERSION
    run: str
    campaign: str
    trial: int = 1
    attempt: int = 1
    """Counts reruns after faults of the house; every attempt has a record."""
    contract: ContractRef
    agent: AgentRef
    image: str
    provider: str
    freshness: dict[str, Any] | None = None
    machine_notes: list[str] = Field(default_factory=list)
    """How the machine was made, where that is worth telling."""
    started: datetime
    ended: datetime
    worked: Worked | None = None
    """``None`` where the agent was not let in, and in records of versions that did not keep it."""
    stillness: Stillness | None = None
    """``None`` where it did not come to that, and in records of versions that did not keep it."""
    timings: dict[str, float] = Field(default_factory=dict)
    """Seconds per phase: prepare, clone, boot, start, before, agent, settle, after, audit, discard, verdict; ``agent_work`` is the
    part of ``agent`` in which the agent itself worked."""
    before: SnapshotRef | None = None
    after: SnapshotRef | None = None
    recording: Recording = Recording()
    blind_spots: BlindSpots | None = None
    """``None`` where the machine's disk was not looked at as a whole."""
    verdict: VerdictPart
    stages: list[StageSeen] = Field(default_factory=list)
    """How far the run came; empty where the contract names no stages, or the agent was not let in."""
    intended: Intended | None = None
    superseded: bool = False
    """A later attempt replaces it in counts."""
    lasting: bool = False
    """What the agent needs was out in a way that waiting does not mend, such as a refused key: neither this run is made again, nor are
    the agent's others begun."""
    faults: list[str] = Field(default_factory=list)
    """What went wrong beside the verdict: a machine that could not be removed, an agent that did not stop."""

    @property
    def as_intended(self) -> bool | None:
        """Whether the verdict is the one the script names; ``None`` when it names none."""
        if self.intended is None:
            return None
        wanted = self.intended
        return self.verdict.outcome == wanted.outcome and wanted.kind in (None, self.verdict.kind)


AgentRef.model_rebuild()
