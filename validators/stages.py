"""How far a run came: what shows that it passed the stages of its contract. Stages never change an outcome."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from contracts.globs import compile_title_glob
from contracts.schema import Evidence
from validators.changes import Comparison
from validators.values import shown


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a run.

    Attributes:
        name: As the contract calls it.
        seen: Whether its evidence was seen; ``None``: it could not be looked for.
        evidence: What was looked for, in words.
    """

    name: str
    seen: bool | None
    evidence: str


def stages_seen(
    stages: Mapping[str, Evidence],
    *,
    titles: Collection[str] | None,
    typed: Iterable[str],
    typed_is_whole: bool = True,
    comparisons: Iterable[Comparison],
) -> tuple[Stage, ...]:
    """Looks for the evidence of each stage, in the contract's order.

    Args:
        stages: The contract's.
        titles: Of the windows that were seen while the agent worked; ``None``: they could not be listed.
        typed: What was typed, in pieces; a text may go on from one to the next.
        typed_is_whole: Whether that is all of it. If not, what does not stand in it is not known.
        comparisons: What happened to each observable; none for a run that could not be compared.
    """
    written = "".join(typed)
    changes = {comparison.observable: bool(comparison.changes) for comparison in comparisons}
    found = []
    for name, evidence in stages.items():
        if evidence.window is not None:
            matches = compile_title_glob(evidence.window.title)
            seen = None if titles is None else any(map(matches, titles))
            about = f"the window “{shown(evidence.window.title, 200)}”"
        elif evidence.typed is not None:
            seen, about = (
                evidence.typed in written or (None if not typed_is_whole else False),
                f"“{shown(evidence.typed, 200)}” typed",
            )
        else:
            assert evidence.changed is not None  # one of the three is given
            seen, about = changes.get(evidence.changed), f"a change of {evidence.changed}"
        found.append(Stage(name, seen, about))
    return tuple(found)
