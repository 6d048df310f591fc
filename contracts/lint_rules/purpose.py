"""Rules about the contract as a whole: what it promises, and whether its parts agree."""

from __future__ import annotations

import ntpath
import re
from collections.abc import Iterator, Mapping

from contracts.globs import SEPARATOR, fold
from contracts.lint_rules.base import STAR, Hit, Loc, Placed, Rule, View, implies, is_literal, same
from contracts.lint_rules.paths import covers, is_exact
from contracts.problems import shown
from contracts.schema import (
    Computed,
    Count,
    CountRange,
    DbfTable,
    Effect,
    FileTree,
    FileValue,
    Observable,
    Parameter,
    RegistryKey,
    RequireFile,
    RequireRows,
    RequireWindow,
    RowValue,
    SqlTable,
    TaskContract,
    Windows,
)

_TELLING = frozenset({"instruction", "title", "application", "domain", "initial_state", "goal_state", "stages"})
"""Parts of a contract whose words judge nothing; of ``initial_state`` only the summary."""
_LIVE_BEFORE = frozenset({"updated", "deleted", "closed", "retitled"})
"""Verbs whose ``where`` selects what is there, and not deleted, before the run."""
_EVERYWHERE = frozenset({"data", "dbf", "software"})
"""Words of many paths that say nothing of what they lead to."""


def _no_expected_change(view: View) -> Iterator[Hit]:
    if not view.contract.state_changing:
        return
    if any(_is_of_data(view, placed) for placed in view.listed("expect") if placed.effect.applies(success=True)):
        return
    yield Hit(
        ("state_changing",),
        "the task is said to change data, and no expected effect speaks of any",
        "observe what the task changes and expect the change, or write `state_changing: false`",
    )


def _nothing_required(view: View) -> Iterator[Hit]:
    if not view.contract.state_changing:
        return
    data = [p for p in view.listed("expect") if _is_of_data(view, p) and p.effect.applies(success=True)]
    if data and all(_needed(placed.effect) == 0 for placed in data):
        yield Hit(
            (*data[0].loc, "count"),
            "every expected change may be missing: a run that does nothing would be a success",
            "let one of them be needed: leave `count` out, or give it a `min` above 0",
        )


def _unexpected_change(view: View) -> Iterator[Hit]:
    if view.contract.state_changing:
        return
    for placed in view.listed("expect"):
        if _is_of_data(view, placed):
            yield Hit(
                placed.loc,
                f"the task is said to change nothing, and expects `{placed.effect.verb}: {placed.effect.observable}`",
                "write `state_changing: true`, or take the effect away",
            )


def _is_of_data(view: View, placed: Placed) -> bool:
    return not isinstance(view.observed(placed), Windows)


def _unchecked_parameter(view: View) -> Iterator[Hit]:
    for name, value in view.contract.parameters.items():
        if isinstance(value, Parameter) and value.unchecked is not None:
            continue
        places = view.loaded.parameter_uses.get(name, ())
        if any(_judges(place) for place in places):
            continue
        where = "is told to the agent, and" if any(place[0] == "instruction" for place in places) else "is given, and"
        yield Hit(
            ("parameters", name),
            f"`{name}` {where} no rule looks at it: a run with another value would pass",
            f'use "{{{{{name}}}}}" in an effect, or say why not: `{{value: …, unchecked: <why>}}`',
        )


def _judges(place: Loc) -> bool:
    if place[0] == "initial_state":
        return len(place) > 1 and place[1] != "summary"
    return place[0] not in _TELLING and place[-1] != "because"


def _goal_without_reason(view: View) -> Iterator[Hit]:
    if view.contract.on_failure == "goal":
        yield Hit(
            ("on_failure",),
            "a run that reports a failure and did everything is accepted, without a reason",
            "give one: `on_failure: {goal: <why>}`",
        )


def _no_stages(view: View) -> Iterator[Hit]:
    if view.contract.state_changing and not view.contract.stages:
        yield Hit(
            ("state_changing",),
            "the contract has no `stages`: the report cannot say how far a run came",
            "e.g. `stages: {commit: {changed: <observable>}}`",
        )


# --- requirements against effects -------------------------------------------------------------------------------------------


def _contradicts(view: View) -> Iterator[Hit]:
    for index, need in enumerate(view.contract.initial_state.require):
        loc: Loc = ("initial_state", "require", index)
        for placed in view.listed("expect"):
            if not placed.effect.applies(success=True):
                continue
            least = _needed(placed.effect)
            match need:
                case RequireRows() if need.rows == placed.effect.observable:
                    why = _against_rows(view, need, placed.effect, least)
                case RequireWindow() if need.windows == placed.effect.observable:
                    why = _too_few(need.where, need.count, placed.effect, least)
                case RequireFile() if need.files == placed.effect.observable:
                    why = _against_files(need, placed.effect, least)
                case _:
                    why = ""
            if why:
                yield Hit(loc, f"{why}; yet {_label(placed)} is expected", "one of the two is wrong: change it")


def _label(placed: Placed) -> str:
    name = f" (`{placed.effect.name}`)" if placed.effect.name else ""
    return f"`{placed.effect.verb}: {placed.effect.observable}`{name}"


def _against_rows(view: View, need: RequireRows, effect: Effect, least: int) -> str:
    key = view.key(need.rows)
    if effect.verb == "inserted" and key and _least(need.count) >= 1:
        new = effect.where | {name: matcher for name, matcher in effect.fields.items() if name != STAR}
        if all(
            name in need.where and name in new and is_literal(new[name]) and same(new[name], need.where[name])
            for name in key
        ):
            return f"a row with this key ({', '.join(map(shown, key))}) must be there before the run"
    return _too_few(need.where, need.count, effect, least)


def _too_few(where: Mapping[str, object], count: Count, effect: Effect, least: int) -> str:
    """Whether fewer are there before the run than the effect needs; what it selects must lie within what is required."""
    if effect.verb not in _LIVE_BEFORE or not implies(effect.where, where):
        return ""
    return _at_most(_most(count), least, "of these")


def _at_most(most: int | None, least: int, what: str) -> str:
    if most is None or most >= least:
        return ""
    return f"{f'at most {most}' if most else 'none'} {what} may be there before the run"


def _against_files(need: RequireFile, effect: Effect, least: int) -> str:
    before = effect.from_ if effect.verb == "renamed" else effect.path
    if before is None:
        return ""
    if effect.verb == "created":
        one = is_exact(need.path) and is_exact(before) and _bare(need.path) == _bare(before)
        return "this file must be there before the run" if one and _least(need.count) >= 1 else ""
    return _at_most(_most(need.count), least, "of these files") if covers(need.path, before) else ""


def _bare(path: str) -> str:
    return fold(path).removeprefix(SEPARATOR)


def _needed(effect: Effect) -> int:
    """How many changes an expected effect needs."""
    return _least(1 if effect.count is None else effect.count)


def _least(count: Count) -> int:
    return count.min if isinstance(count, CountRange) else count


def _most(count: Count) -> int | None:
    return count.max if isinstance(count, CountRange) else count


# --- observables that nobody speaks of --------------------------------------------------------------------------------------


def _unspoken(view: View) -> Iterator[Hit]:
    spoken = set(_spoken(view))
    words = _words(view.contract)
    near = [view.contract.observe[name] for name in spoken if name in view.contract.observe]
    for name, observable in view.contract.observe.items():
        if name in spoken or isinstance(observable, Windows):
            continue  # windows are where the agent works: whatever the task is, it speaks of them
        if any(_belongs(observable, other) for other in near) or words & _names(name, observable):
            continue
        yield Hit(
            ("observe", name),
            f"nothing speaks of `{name}`, and it lies apart from all that is spoken of",
            "take it away, or see whether its path is the one meant",
        )


def _spoken(view: View) -> Iterator[str]:
    for placed in view.effects:
        yield placed.effect.observable
    for need in view.contract.initial_state.require:
        match need:
            case RequireRows():
                yield need.rows
            case RequireFile():
                yield need.files
            case RequireWindow():
                yield need.windows
    for evidence in view.contract.stages.values():
        if evidence.changed is not None:
            yield evidence.changed
    for _, rule in view.returned:
        match rule:
            case RowValue():
                yield rule.row
            case FileValue():
                yield rule.file
            case Computed():
                pass


def _belongs(observable: Observable, other: Observable) -> bool:
    """Whether one lies beside, above or below the other: what goes wrong with the one may go wrong there."""
    if isinstance(observable, SqlTable) or isinstance(other, SqlTable):
        return isinstance(observable, SqlTable) and isinstance(other, SqlTable) and observable.sql == other.sql
    one, two = _folder(observable), _folder(other)
    if one is None or two is None or isinstance(observable, RegistryKey) != isinstance(other, RegistryKey):
        return False
    return f"{one}\\".startswith(f"{two}\\") or f"{two}\\".startswith(f"{one}\\") or _above(one) == _above(two) != ""


def _above(folder: str) -> str:
    """The folder above, unless that is the drive or root itself."""
    above = folder.rpartition(SEPARATOR)[0]
    return above if SEPARATOR in above else ""


def _folder(observable: Observable) -> str | None:
    match observable:
        case DbfTable():
            return fold(ntpath.normpath(ntpath.dirname(observable.dbf))).rstrip(SEPARATOR)
        case FileTree():
            return fold(ntpath.normpath(observable.files)).rstrip(SEPARATOR)
        case RegistryKey():
            return fold(observable.registry)
        case _:
            return None


_WORD = re.compile(r"[^\W_]{3,}")


def _words(contract: TaskContract) -> set[str]:
    """The words of the task."""
    told = (
        contract.title, contract.application, contract.instruction, contract.goal_state.summary,
        contract.initial_state.summary, contract.id,
    )  # fmt: skip
    return {word.casefold() for text in told for word in _WORD.findall(text)}


def _names(name: str, observable: Observable) -> set[str]:
    """The words of an observable's name and place."""
    match observable:
        case DbfTable():
            place = observable.dbf
        case FileTree():
            place = observable.files
        case RegistryKey():
            place = observable.registry.partition(SEPARATOR)[2]
        case SqlTable():
            place = f"{observable.sql} {observable.table}"
        case _:
            place = ""
    return {word.casefold() for word in _WORD.findall(f"{name} {place}".replace("_", " "))} - _EVERYWHERE


RULES = (
    Rule(
        "no-expected-change", "error",
        "`state_changing: true` without an expected effect on rows, files or the registry.",
        "A run that does nothing would be a success.",
        "Observe what the task changes and expect the change.",
        _no_expected_change,
    ),
    Rule(
        "nothing-required", "error",
        "`state_changing: true`, and every expected change of data may be missing (`min: 0`).",
        "A run that does nothing would be a success.",
        "Let at least one be needed: leave its `count` out, or give it a `min` above 0.",
        _nothing_required,
    ),
    Rule(
        "unexpected-change", "error",
        "`state_changing: false` with an expected change to rows, files or the registry.",
        "The task would be counted among those that must leave no trace.",
        "Write `state_changing: true`, or take the effect away.",
        _unexpected_change,
    ),
    Rule(
        "unchecked-parameter", "error",
        "A parameter that is told to the agent and that no effect, requirement, set-up or returned value uses.",
        "A run that uses another value passes.",
        "Use it in an effect, or say why not: `{value: …, unchecked: <why>}`.",
        _unchecked_parameter,
    ),
    Rule(
        "goal-without-reason", "error",
        "`on_failure: goal` without a reason.",
        "An agent that does not know that it has finished would do the task twice; that this is acceptable needs saying.",
        "Write `on_failure: {goal: <why>}`.",
        _goal_without_reason,
    ),
    Rule(
        "require-contradicts", "error",
        "`require` wants a state in which an expected effect cannot happen.",
        "Either the requirement is unmet and the run is unscored, or the effect is always missing.",
        "Change the one of the two that is wrong.",
        _contradicts,
    ),
    Rule(
        "unspoken-observable", "warning",
        "An observable that no effect, requirement, stage, returned value or word of the task speaks of, and that lies apart from "
        "those that something speaks of.",
        "To watch what lies beside the task's data is what the test is for; something elsewhere is mostly left over from another "
        "contract, or its path is misspelt.",
        "Take it away, or correct its path.",
        _unspoken,
    ),
    Rule(
        "no-stages", "warning",
        "A task that changes data has no `stages`.",
        "The report cannot say how far a run came before it went wrong.",
        "Name evidence for the stages, e.g. `stages: {commit: {changed: <observable>}}`.",
        _no_stages,
    ),
)  # fmt: skip
