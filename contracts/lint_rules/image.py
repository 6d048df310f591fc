"""Rules that compare a contract with what is there when a run begins; all but one need an image that was looked at."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.globs import compile_glob
from contracts.lint_rules.base import Hit, Known, Loc, Placed, Rule, View, ignored_paths, references
from contracts.problems import did_you_mean, quoted, shown
from contracts.schema import (
    CountRange,
    DbfTable,
    Effect,
    FileTree,
    FileValue,
    RegistryKey,
    RequireFile,
    RowValue,
    SqlTable,
    Windows,
)

WINDOW_FIELDS = ("title", "class", "program", "hung", "waiting")
"""What can be said of a window (validators/windows.py)."""
_NEEDS_ONE = frozenset({"modified", "deleted", "renamed", "attributes"})
"""Verbs of files and keys that were there before."""


def _unknown_field(view: View) -> Iterator[Hit]:
    for loc, observable, name in _fields(view):
        known = _fields_of(view, observable)
        if known is not None and name not in known:
            hint = did_you_mean(name, known, most=40) or f"its fields are {quoted(known[:40])}"
            yield Hit(loc, f"`{observable}` has no field `{shown(name)}`", hint)


def _fields_of(view: View, observable: str) -> tuple[str, ...] | None:
    if isinstance(view.contract.observe.get(observable), Windows):
        return WINDOW_FIELDS
    known = view.table(observable)
    return tuple(known.fields) if known is not None else None


def _fields(view: View) -> Iterator[tuple[Loc, str, str]]:
    """Every place that names a field of rows or windows: place, observable, field."""
    for name, spec in view.contract.observe.items():
        if isinstance(spec, DbfTable | SqlTable):
            yield from ((("observe", name, "key", index), name, field) for index, field in enumerate(spec.key))
        if isinstance(spec, SqlTable):
            for index, rule in enumerate(spec.ignore):
                yield ("observe", name, "ignore", index, "column"), name, rule.column
    yield from ((item.loc, item.observable, item.field) for item in view.named)
    targets = {placed.effect.name: placed.effect for placed in view.effects if placed.effect.name is not None}
    for loc, reference in references(view):
        if reference.effect in targets:
            yield (*loc, "field"), targets[reference.effect].observable, reference.name
    for loc, value in view.returned:
        if isinstance(value, RowValue):
            yield (*loc, "field"), value.row, value.field


def _key_fault(view: View) -> Iterator[Hit]:
    for name, table in (view.known or Known()).tables.items():
        if table.fault:
            yield Hit(
                ("observe", name, "key"),
                f"the key cannot tell the rows apart: {shown(table.fault, 300)}",
                "add the fields that make it unique, or choose others: `key: […]`",
            )


def _matches_nothing(view: View) -> Iterator[Hit]:
    for index, need in enumerate(view.contract.initial_state.require):
        if isinstance(need, RequireFile):
            least = need.count.min if isinstance(need.count, CountRange) else need.count
            if least and _is_idle(view, need.files, need.path):
                yield _nothing(("initial_state", "require", index, "path"), need.files)
    for placed in view.listed("expect"):
        for loc, pattern in _before(placed):
            if _is_idle(view, placed.effect.observable, pattern) and not _comes_with(view, placed.effect):
                yield _nothing(loc, placed.effect.observable)
    created = {placed.effect.observable for placed in view.effects if placed.effect.verb in ("created", "renamed")}
    for loc, value in view.returned:
        if isinstance(value, FileValue) and value.file not in created and _is_idle(view, value.file, value.path):
            yield _nothing((*loc, "path"), value.file)


def _idle_rule(view: View) -> Iterator[Hit]:
    for name, spec in view.contract.observe.items():
        for index, rule in enumerate(ignored_paths(spec)):
            if rule.noise is None and _is_idle(view, name, rule.path):
                yield Hit(
                    ("observe", name, "ignore", index, "path"),
                    f"nothing in `{name}` fits this when the run begins",
                    "see whether it is written right; it is, if what it means comes into being later",
                )
    for placed in view.listed("allow"):
        for loc, pattern in _before(placed):
            if _is_idle(view, placed.effect.observable, pattern):
                yield Hit(
                    loc,
                    f"nothing in `{placed.effect.observable}` fits this when the run begins, so that nothing of it can be "
                    f"{placed.effect.verb}",
                    "see whether it is written right; what comes into being in the run is `created`",
                )


def _nothing(loc: Loc, observable: str) -> Hit:
    return Hit(
        loc,
        f"nothing in `{observable}` fits this when the run begins",
        f"correct the pattern; it is relative to the root of `{observable}`",
    )


def _before(placed: Placed) -> Iterator[tuple[Loc, str]]:
    """The pattern by which an effect names what was there before the run."""
    effect = placed.effect
    if effect.verb == "renamed":
        if effect.from_ is not None:
            yield (*placed.loc, "from"), effect.from_
    elif effect.verb in _NEEDS_ONE and effect.path is not None:
        yield (*placed.loc, "path"), effect.path


def _comes_with(view: View, effect: Effect) -> bool:
    """Whether what an effect names was renamed to it: attributes are told beside a new name."""
    return effect.verb in ("attributes", "modified") and any(
        other.effect.verb == "renamed" and other.effect.observable == effect.observable
        for other in view.listed("expect")
    )


def _is_idle(view: View, observable: str, pattern: str) -> bool:
    if view.known is None or observable not in view.known.listings:
        return False
    fits = compile_glob(pattern)
    return not any(map(fits, view.known.listings[observable]))


def _not_there(view: View) -> Iterator[Hit]:
    for name in sorted((view.known or Known()).absent):
        spec = view.contract.observe.get(name)
        if spec is None or _comes_into_being(view, name):
            continue
        place = "dbf" if isinstance(spec, DbfTable) else "files" if isinstance(spec, FileTree) else "table"
        place = "registry" if isinstance(spec, RegistryKey) else place
        yield Hit(
            ("observe", name, place),
            f"`{name}` is not there when the run begins, and no effect creates it",
            "see whether its name is written right",
        )


def _comes_into_being(view: View, observable: str) -> bool:
    return any(
        placed.effect.verb == "created" and placed.effect.observable == observable
        for placed in view.listed("expect", "allow")
    )


def _unreadable(view: View) -> Iterator[Hit]:
    for name, reason in (view.known or Known()).unreadable.items():
        if name in view.contract.observe:
            yield Hit(
                ("observe", name),
                f"it cannot be read, so that every run would be unscored: {shown(reason, 300)}",
                "see whether its path and kind are right and whether the image is whole",
            )


RULES = (
    Rule(
        "unknown-field", "error",
        "A field that the table does not have (needs `--image`), or that windows do not have.",
        "The rule cannot be applied: every run would be unscored.",
        "Write the name as the table has it; case counts.",
        _unknown_field,
    ),
    Rule(
        "key-not-unique", "error",
        "A key that two live rows share.",
        "Rows cannot be told apart: every run would be unscored.",
        "Add the fields that make it unique.",
        _key_fault, needs_image=True,
    ),
    Rule(
        "matches-nothing", "error",
        "A path that must be there (required, returned, expected to be modified, deleted or renamed) and is not.",
        "The requirement is never met, or the effect never seen.",
        "Correct the pattern; it is relative to the observable's root.",
        _matches_nothing, needs_image=True,
    ),
    Rule(
        "idle-rule", "warning",
        "A pattern under `ignore`, or of what may be modified or deleted, that fits nothing.",
        "Mostly it is misspelt, and the noise that it means will count as a violation.",
        "See whether it is written right.",
        _idle_rule, needs_image=True,
    ),
    Rule(
        "not-there", "warning",
        "An observed table, folder or key that does not exist, and that no effect creates.",
        "Mostly its name is misspelt, and nothing would ever be seen there.",
        "See whether its name is written right.",
        _not_there, needs_image=True,
    ),
    Rule(
        "unreadable", "error",
        "An observable that could not be read.",
        "Every run would be unscored.",
        "See whether its path and kind are right and whether the image is whole.",
        _unreadable, needs_image=True,
    ),
)  # fmt: skip
