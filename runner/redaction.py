"""What each field of a run record carries, and so what becomes of it where a record is handed on without secrets or pictures.

The table is complete: a test holds it against the models, so that a new field cannot leave the house before somebody has decided.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, TypeVar

from contracts.schema import SHORTEST_SECRET
from runner.record import (
    AgentRef,
    BlindSpots,
    ContractRef,
    DiskFile,
    FieldChange,
    Frame,
    IgnoredEntry,
    Intended,
    LedgerEntry,
    Misfit,
    Missing,
    NoteEntry,
    Part,
    Reading,
    Recording,
    RegistryGroup,
    RegistrySpots,
    ReturnProblem,
    RunRecord,
    SnapshotRef,
    StageSeen,
    Stillness,
    TimelineEntry,
    TypedText,
    VerdictPart,
    Worked,
)
from runner.spellings import blot_texts, blot_value

P = TypeVar("P", bound=Part)


class Carries(Enum):
    """What a field holds."""

    FIGURE = auto()
    """Numbers, times, truth values; stay."""
    WORD = auto()
    """A word out of a list that this program has; stays."""
    TEXT = auto()
    """Free text, also within lists and mappings: secrets are blotted out, in names as well."""
    VALUES = auto()
    """Values of the task: as texts; a number that is a secret is blotted out, too."""
    NAMED_FIGURES = auto()
    """Figures under names that somebody else gives: the names are texts."""
    NAME = auto()
    """What folders and files are named by: a secret in it becomes as many ``x``, so that it stays a name."""
    SUM = auto()
    """A sum over something that held the secrets: it tells whoever guesses one whether it is right, and is left out."""
    EVIDENCE = auto()
    """Blobs in which secrets can be found: copied, with secrets blotted out."""
    STATE = auto()
    """Blobs of an observed state: copied, with secrets blotted out as the form of the state demands."""
    OPAQUE = auto()
    """Blobs in which a secret cannot be found (pixels, single keys): copied, or left out where there are secrets."""
    SCREEN = auto()
    """Pictures of the screen, likewise; also left out where no screens are to go along."""
    PARTS = auto()
    """Parts of the record."""


def _all(what: Carries, names: str) -> dict[str, Carries]:
    return dict.fromkeys(names.split(), what)


_F, _W, _T, _N, _P = Carries.FIGURE, Carries.WORD, Carries.TEXT, Carries.NAME, Carries.PARTS
CARRIES: Mapping[type[Part], Mapping[str, Carries]] = {
    RunRecord: {
        **_all(_F, "version trial attempt started ended timings superseded lasting"),
        **_all(_N, "run campaign image provider"),
        **_all(_T, "freshness machine_notes faults"),
        **_all(_P, "contract agent worked stillness before after recording blind_spots verdict stages intended"),
    },
    ContractRef: {
        "id": _N, "sha256": Carries.SUM, "source": Carries.EVIDENCE, "pictures": Carries.OPAQUE, "state_changing": _F,
        "parameters": Carries.VALUES, **_all(_T, "title application domain instruction goal"),
    },
    AgentRef: {
        **_all(_T, "spec name message"), "returned": Carries.VALUES, **_all(_W, "prompt status"), "prompt_text": Carries.EVIDENCE,
        "usage": Carries.NAMED_FIGURES, "timeline": _P,
    },
    TimelineEntry: {"t": _F, "text": _T, "screenshot": Carries.SCREEN},
    Frame: {"t": _F, "image": Carries.SCREEN, "reason": _T},
    TypedText: {**_all(_F, "start end"), "text": _T},
    Recording: {
        "events": Carries.OPAQUE, **_all(_F, "keys pointer"), "not_kept": Carries.NAMED_FIGURES, **_all(_P, "typed frames"),
        "fault": _T,
    },
    Reading: {"kind": _W, "unreadable": _T, "blobs": Carries.STATE, "about": _T},
    SnapshotRef: {**_all(_F, "taken settled"), "how": _T, "readings": _P},
    Misfit: _all(_T, "field expected found before"),
    FieldChange: {**_all(_T, "field before after"), "changed": _F},
    LedgerEntry: {
        **_all(_T, "observable subject how effect because cause"), **_all(_W, "verb status"), "part_of_task": _F, "fields": _P,
    },
    Missing: {
        **_all(_T, "effect observable near_miss hint cause"), "verb": _W, **_all(_F, "count half_finished"), "misfits": _P,
    },
    NoteEntry: {**_all(_T, "observable kind text"), "count": _F},
    IgnoredEntry: {**_all(_T, "observable rule because examples"), "count": _F},
    ReturnProblem: _all(_T, "path expected found message cause"),
    VerdictPart: {
        **_all(_W, "outcome kind cause side_effects"), **_all(_T, "reason warnings identities"),
        **_all(_F, "goal_reached state_valid returns_valid"), **_all(_P, "ledger missing returns notes ignored"),
    },
    StageSeen: {**_all(_T, "name evidence"), "seen": _F},
    Worked: _all(_F, "started ended"),
    DiskFile: {**_all(_T, "path old_path stream"), **_all(_W, "kind what"), "size": _F},
    BlindSpots: {
        **_all(_T, "how unreadable drives left_out_disks compared_with unseen"), **_all(_F, "observed system left_out"),
        **_all(_P, "files registry"),
    },
    RegistrySpots: {**_all(_T, "how unreadable unread"), **_all(_F, "observed left_out"), "groups": _P},
    RegistryGroup: {**_all(_T, "key volatile examples"), **_all(_F, "keys created modified deleted")},
    Stillness: _all(_F, "asked reached waited last_change since_input"),
    Intended: {"outcome": _W, "kind": _T},
}  # fmt: skip
"""What the fields of each part of a record carry."""


class RecordCopy:
    """Makes the copy of a record that is handed on.

    Args:
        secrets: Texts that the copy must not hold, the longest first.
        screens: Whether pictures of the screen go along; with secrets they do not.
        evidence: Copies a blob, secrets blotted out, and gives the copy's name.
        state: Copies the blobs of a reading likewise.
    """

    def __init__(
        self,
        secrets: Sequence[str],
        *,
        screens: bool,
        evidence: Callable[[str], str],
        state: Callable[[Reading], Mapping[str, str | None]],
    ) -> None:
        self._secrets = tuple(secrets)
        self._screens = screens and not secrets
        self._evidence = evidence
        self._state = state

    def of(self, part: P) -> P:
        """The copy of a part of a record."""
        fields = {
            name: self._field(part, carries, getattr(part, name)) for name, carries in CARRIES[type(part)].items()
        }
        return part.model_copy(update=fields)

    def _field(self, part: Part, carries: Carries, value: Any) -> Any:
        match carries:
            case Carries.FIGURE | Carries.WORD:
                return value
            case Carries.PARTS:
                return self._parts(value)
            case Carries.STATE:
                assert isinstance(part, Reading)
                return dict(self._state(part))
            case Carries.EVIDENCE:
                return self._blobs(value)
            case Carries.OPAQUE:
                return self._none(value) if self._secrets else self._blobs(value)
            case Carries.SCREEN:
                return self._blobs(value) if self._screens else self._none(value)
            case _ if not self._secrets:
                return value
            case Carries.TEXT:
                return blot_texts(value, self._secrets)
            case Carries.VALUES:
                return blot_value(value, self._secrets)
            case Carries.NAMED_FIGURES:
                return dict(zip(blot_texts(list(value), self._secrets), value.values(), strict=True))
            case Carries.NAME:
                return without(value, self._secrets)
            case Carries.SUM:
                return ""

    def _parts(self, value: Any) -> Any:
        match value:
            case Part():
                return self.of(value)
            case list():
                return [self.of(item) for item in value if self._screens or not isinstance(item, Frame)]
            case dict():
                names = blot_texts(list(value), self._secrets)
                return {name: self.of(item) for name, item in zip(names, value.values(), strict=True)}
            case _:
                return value

    def _blobs(self, value: Any) -> Any:
        match value:
            case str():
                return self._evidence(value)
            case dict():
                names = blot_texts(list(value), self._secrets)
                return {name: self._evidence(blob) for name, blob in zip(names, value.values(), strict=True)}
            case _:
                return value

    @staticmethod
    def _none(value: Any) -> Any:
        return {} if isinstance(value, dict) else None


def without(name: str, secrets: Sequence[str]) -> str:
    """A name of a folder or file with every secret in it, also as it stands in a name, replaced by as many ``x``."""
    forms = {form for secret in secrets for form in (secret, re.sub(r"[^a-z0-9]+", "-", secret.lower()).strip("-"))}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= SHORTEST_SECRET:
            name = re.sub(re.escape(form), "x" * len(form), name, flags=re.IGNORECASE)
    return name
