"""Preconditions: what a contract requires before the agent starts; unmet, the run is unscored, not failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from contracts.globs import compile_glob
from contracts.schema import CountRange, Fields, RequireFile, Requirement, RequireRows, RequireWindow
from validators.changes import ContractFault, Rows, Unreadable
from validators.matchers import RunContext, Subject, describe, matches
from validators.values import shown


def unmet(
    requirements: Sequence[Requirement],
    *,
    rows: Mapping[str, Rows],
    files: Mapping[str, Iterable[str]],
    now: datetime,
) -> list[str]:
    """The requirements that do not hold, each as a sentence.

    Args:
        requirements: What the contract requires.
        rows: The rows of tables and windows; only their state *before* is looked at.
        files: The paths of each file tree, relative to its root.
        now: The guest's clock, for matchers that speak of the run.

    Raises:
        Unreadable: An observable that is spoken of was not read.
        ContractFault: A requirement cannot be applied: an unknown field.
    """
    context = RunContext(now, now, rows=rows)
    problems = []
    for requirement in requirements:
        match requirement:
            case RequireRows():
                found = _count(requirement.rows, requirement.where, rows, context)
                what = (
                    f"{_noun(requirement.count, 'row')} of {requirement.rows}{_conditions(requirement.where, context)}"
                )
            case RequireWindow():
                found = _count(requirement.windows, requirement.where, rows, context)
                what = f"{_noun(requirement.count, 'window')}{_conditions(requirement.where, context)}"
            case RequireFile():
                found = _count_files(requirement, files)
                what = f"{_noun(requirement.count, 'file')} {shown(requirement.path)} in {requirement.files}"
        if not _within(found, requirement.count):
            problems.append(f"required before the run: {what}; found: {found}")
    return problems


def _count(observable: str, where: Fields, rows: Mapping[str, Rows], context: RunContext) -> int:
    if observable not in rows:
        raise Unreadable(f"`{observable}` was not read before the run")
    found = 0
    for row, live in rows[observable].before():
        unknown = next((name for name in where if name not in row), None)
        if unknown is not None:
            raise ContractFault(f"`require`: `{observable}` has no field {shown(unknown)}")
        found += live and all(matches(matcher, Subject(row[name]), context) for name, matcher in where.items())
    return found


def _count_files(requirement: RequireFile, files: Mapping[str, Iterable[str]]) -> int:
    if requirement.files not in files:
        raise Unreadable(f"`{requirement.files}` was not read before the run")
    fits = compile_glob(requirement.path)
    return sum(fits(path) for path in files[requirement.files])


def _within(found: int, count: int | CountRange) -> bool:
    if isinstance(count, int):
        return found == count
    return count.min <= found and (count.max is None or found <= count.max)


def _noun(count: int | CountRange, noun: str) -> str:
    if isinstance(count, int):
        return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
    return f"at least {count.min} {noun}s" if count.max is None else f"{count.min} to {count.max} {noun}s"


def _conditions(where: Fields, context: RunContext) -> str:
    if not where:
        return ""
    return " with " + shown(", ".join(f"{name} {describe(m, None, context)}" for name, m in where.items()), 300)
