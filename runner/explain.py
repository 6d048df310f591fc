"""Why a run got its outcome, in plain words, and what a maintainer would write if a change turned out to be legitimate.

Everything comes from the record. Nothing is ever applied: the entries under ``allow`` are text for someone to read, judge, give a
reason and paste. They name what happened as narrowly as the record tells; where it only holds a shortened or unprintable text, the
field is left open and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from contracts.globs import escape
from contracts.parameters import literal
from contracts.writing import flow
from runner.record import FieldChange, LedgerEntry, Missing, RunRecord
from validators.values import shown

BECAUSE = "say here why this change is legitimate"
"""The reason in every suggested entry: whoever pastes it has to find a better one."""
_OUTCOMES = {
    "valid_success": "valid success (VS): the agent says it has done the task, and exactly that has happened",
    "invalid_success": "invalid success (IS): the agent says it has done the task, but that is not what happened",
    "valid_failure": "valid failure (VF): the agent says it has not done the task, and it left no trace",
    "invalid_failure": "invalid failure (IF): the agent says it has not done the task, but it left traces",
    "unscored": "unscored: this run says nothing about the agent",
}
_STATUS = {
    "success": "success", "failed": "a failure", "ui_not_as_expected": "that the program did not look as it expected",
    "timeout": "nothing: its time was over", "error": "nothing: it ended with an error", "not_run": "nothing: it was not let in",
}  # fmt: skip
_ROWS = frozenset({"inserted", "updated", "deleted", "undeleted", "purged"})
_TABLES = frozenset({"created", "dropped", "restructured"})
_MOST = 40
"""Changes of each kind that are told; the others are counted."""
_LINE = 300
_CUT, _STRANGE = "…", re.compile("[�⏎]")
"""What a shortened text ends in, and what stands for line breaks and control characters in a record."""
_POWER = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?E[+-]?\d{1,2}")
"""A number that is shown with a power of ten, which a literal is not read as; or a text that looks like one."""
_SPECIAL = re.compile(r"\((?:undecodable: |\d+ bytes: ).*\)")


def explain(record: RunRecord) -> Iterator[str]:
    """The explanation of a run, line by line; every hostile text in it is on one line and without control characters.

    Args:
        record: The run.
    """
    verdict = record.verdict
    kind = verdict.kind or verdict.cause
    yield f"{record.run}"
    yield f"  {_OUTCOMES[verdict.outcome]}" + (f"; kind: {kind.replace('_', ' ')}" if kind else "")
    yield f"  {shown(verdict.reason, 1_000)}"
    yield ""
    yield "What the agent said"
    said = f": {shown(record.agent.message, _LINE)}" if record.agent.message else ""
    yield f"  It reported {_STATUS[record.agent.status]}{said}"
    if record.agent.returned is not None:
        yield f"  It returned {shown(str(record.agent.returned), _LINE)}"
    yield from _expected(record)
    yield from _missing(record)
    yield from _returned(record)
    yield from _beyond(record)
    yield from _unseen(record)


def _some(entries: list[Any]) -> Iterator[Any]:
    yield from entries[:_MOST]


def _more(entries: list[Any]) -> Iterator[str]:
    if len(entries) > _MOST:
        yield f"  … and {len(entries) - _MOST} more"


def _expected(record: RunRecord) -> Iterator[str]:
    came = [entry for entry in record.verdict.ledger if entry.status == "expected" or entry.part_of_task]
    allowed = [entry for entry in record.verdict.ledger if entry.status == "allowed"]
    if came:
        yield ""
        done = record.agent.status == "success"
        yield (
            "What was expected, and came"
            if done
            else "What belongs to the task, and was done although the agent reports no success"
        )
        for entry in _some(came):
            by = f", as `{shown(entry.effect_name, 120)}` says" if entry.effect_name else ""
            yield f"  ✓ {_change(entry)}{by}"
        yield from _more(came)
    if allowed:
        yield ""
        yield "What is allowed, and happened"
        for entry in _some(allowed):
            yield f"  · {_change(entry)} — {shown(entry.because or 'allowed', _LINE)}"
        yield from _more(allowed)


def _change(entry: LedgerEntry) -> str:
    how = f" ({shown(entry.how, 80)})" if entry.how else ""
    return f"{entry.observable}: {shown(entry.subject, 160)} was {entry.verb}{how}"


def _missing(record: RunRecord) -> Iterator[str]:
    missing = [part for part in record.verdict.missing if part.cause is None]
    if not missing:
        return
    yield ""
    yield (
        "What was expected, and is missing"
        if record.agent.status == "success"
        else "What the task asks for, and was not done"
    )
    for part in _some(missing):
        times = f", {part.count} times" if part.count > 1 else ""
        yield f"  ✗ {shown(part.effect, 160)}{times}"
        yield from _closeness(part)
        yield from _consequences(record, part.effect)
    yield from _more(missing)


def _consequences(record: RunRecord, cause: str) -> Iterator[str]:
    """What only follows from a near miss: told beside it, and nowhere else."""
    verdict = record.verdict
    lines = [f"{_change(entry)}" for entry in verdict.ledger if entry.cause == cause]
    expected = [f"expected, and missing: {part.effect}" for part in verdict.missing if part.cause == cause]
    returned = [problem.message for problem in verdict.returns if problem.cause == cause]
    if lines or expected or returned:
        yield "      What follows from it would be right if that were; it counts as a deviation all the same:"
        told = [*expected, *lines, *returned]
        yield from (f"        ↳ {shown(line, _LINE)}" for line in _some(told))
        yield from (f"      {line}" for line in _more(told))


def _closeness(part: Missing) -> Iterator[str]:
    if part.hint:
        yield f"      {shown(part.hint, _LINE)}"
    if part.near_miss is None:
        if not part.hint:
            yield "      nothing came close to it"
        return
    wrong = len(part.misfits)
    state = "half finished: " if part.half_finished else ""
    fields = "1 field does not fit" if wrong == 1 else f"{wrong} fields do not fit"
    yield f"      closest: {shown(part.near_miss, 160)} — {state}{fields}"
    for misfit in _some(part.misfits):
        before = f" (before: {shown(misfit.before, 80)})" if misfit.before else ""
        yield f"        {shown(misfit.field, 80)}: expected {shown(misfit.expected, 160)}, found {shown(misfit.found, 160)}{before}"
    if not part.half_finished:
        yield "      If what was found is right, it is the expectation that has to be changed, not a change to be allowed."


def _returned(record: RunRecord) -> Iterator[str]:
    problems = [problem for problem in record.verdict.returns if problem.cause is None]
    if problems:
        yield ""
        yield "What is wrong with the returned values"
        for problem in _some(problems):
            yield f"  ✗ {shown(problem.message, _LINE)}"


def _beyond(record: RunRecord) -> Iterator[str]:
    told = [e for e in record.verdict.ledger if e.status in ("unexplained", "forbidden") and not e.part_of_task]
    beyond = [entry for entry in told if entry.cause is None]
    if not beyond:
        return
    near = {
        (part.observable, part.verb, part.near_miss): part.effect for part in record.verdict.missing if part.near_miss
    }
    yield ""
    yield "What else changed"
    for entry in _some(beyond):
        yield f"  ✗ {_change(entry)}"
        for field in entry.fields[:_MOST]:
            if field.changed:
                yield f"      {shown(field.field, 80)}: {_side(field.before)} → {_side(field.after)}"
        effect = near.get((entry.observable, entry.verb, entry.subject))
        if effect is not None:
            yield f"      It comes closest to `{shown(effect, 120)}`, see above."
        elif not any(_about(part, entry) for part in record.verdict.missing):
            yield f"      No rule of the contract that still waits for a change speaks of “{entry.verb} {entry.observable}”."
        if entry.status == "forbidden":
            why = f" ({shown(entry.because, _LINE)})" if entry.because else ""
            yield f"      It is forbidden by `{shown(entry.effect or 'forbid', 120)}`{why}; that comes first, `allow` does not help."
    yield from _more(beyond)
    legitimate = [entry for entry in told if entry.status == "unexplained"]
    if legitimate:
        yield ""
        yield "If such a change is legitimate, this is what to write under `effects` of the contract, with a reason of yours;"
        yield "nothing is applied by itself, and what is allowed is not looked at in any later run"
        yield "  allow:"
        identities = record.verdict.identities
        yield from (f"    - {flow(allow_entry(entry, identities))}" for entry in _some(legitimate))


def _about(part: Missing, entry: LedgerEntry) -> bool:
    return (part.observable, part.verb) == (entry.observable, entry.verb)


def _side(text: str | None) -> str:
    return "(not there)" if text is None else shown(text, 120)


def _unseen(record: RunRecord) -> Iterator[str]:
    verdict = record.verdict
    if verdict.ignored:
        yield ""
        yield "What was not looked at"
        for ignored in _some(verdict.ignored):
            yield f"  · {ignored.observable}: {ignored.count} by `{shown(ignored.rule, 120)}` — {shown(ignored.because, _LINE)}"
    if verdict.warnings or record.faults:
        yield ""
        yield "What to know beside"
        yield from (f"  · {shown(text, _LINE)}" for text in [*verdict.warnings, *record.faults][:_MOST])


# --- what a maintainer would write ------------------------------------------------------------------------------------


def allow_entry(entry: LedgerEntry, identities: Mapping[str, str]) -> dict[str, Any]:
    """An ``allow`` entry that claims a change, as data for YAML.

    Args:
        entry: The change.
        identities: How the rows of each observable were recognised, as the record says.
    """
    found: dict[str, Any] = {entry.verb: entry.observable}
    identity = identities.get(entry.observable, "")
    if identity == "by handle and process":
        found |= _window(entry)
    elif identity in ("by path", "by name"):
        found |= _file(entry, registry=identity == "by name")
    elif entry.verb in _ROWS:
        found |= _row(entry, identity)
    return {**found, "because": BECAUSE}


def _row(entry: LedgerEntry, identity: str) -> dict[str, Any]:
    keys = _keys(entry.subject, identity)
    parts: dict[str, Any] = {}
    if keys:
        parts["where"] = keys
    elif entry.verb != "inserted":
        before = {field.field: field.before for field in entry.fields if field.before is not None}
        parts["where"] = {name: matcher for name, text in before.items() if (matcher := _matcher(text)) is not None}
    if entry.verb in ("inserted", "updated", "undeleted"):
        parts["fields"] = {field.field: _after(field) for field in entry.fields}
    return {name: part for name, part in parts.items() if part}


def _keys(subject: str, identity: str) -> dict[str, Any]:
    """The key's fields and values, out of a subject such as ``PATNR=000104, JAHR=2026``; empty if it cannot be told for sure."""
    if not identity.startswith("key "):
        return {}
    names = identity.removeprefix("key ").split(", ")
    pattern = ", ".join(f"{re.escape(name)}=(.*)" for name in names)
    values = re.fullmatch(pattern, subject, re.DOTALL)
    if values is None or (len(names) > 1 and any(", " in value for value in values.groups())):
        return {}
    matchers = [_matcher(value) for value in values.groups()]
    return {name: matcher for name, matcher in zip(names, matchers, strict=True) if matcher is not None}


def _file(entry: LedgerEntry, *, registry: bool) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if not _unsure(entry.subject):
        parts["path"] = literal(escape(entry.subject))
    if entry.verb == "renamed":
        old = next((field.before for field in entry.fields if field.field == "path"), None)
        if old is not None and not _unsure(old):
            parts["from"] = literal(escape(old))
    if registry and entry.verb in ("created", "modified"):
        fields = {f.field: _after(f) for f in entry.fields if f.field in ("type", "data") and f.after is not None}
        parts |= {"fields": fields} if fields else {}
    return parts


def _window(entry: LedgerEntry) -> dict[str, Any]:
    side = "after" if entry.verb == "opened" else "before"
    values = {field.field: getattr(field, side) for field in entry.fields}
    if "title" not in values:
        values["title"] = entry.subject
    named = {name: values[name] for name in ("title", "class", "program") if values.get(name) is not None}
    where = {name: matcher for name, text in named.items() if (matcher := _matcher(text)) is not None}
    fields = {
        field.field: _after(field) for field in entry.fields if entry.verb == "retitled" and field.field == "title"
    }
    return {name: part for name, part in (("where", where), ("fields", fields)) if part}


def _unsure(text: str) -> bool:
    """Whether a record's text may be another one than the program's: shortened, or with signs that stand for others."""
    return text.endswith(_CUT) or _STRANGE.search(text) is not None


def _matcher(text: str) -> Any:
    """A matcher for a value as the record shows it; ``None`` where that is not enough to tell it."""
    if _SPECIAL.fullmatch(text) or _unsure(text):
        return None
    match text:
        # A state or a logical value, or a text that says so: the record does not tell them apart.
        case "(blank)" | "(null)":
            return {"one_of": [{"is": text.strip("()")}, text]}
        case "00000000":
            # A date of zeros, which has no literal, or a text of zeros.
            return {"all_of": [{"is": "empty"}, {"not": {"is": "blank"}}]}
        case "true" | "false":
            return {"one_of": [text == "true", text]}
        case _ if _POWER.fullmatch(text):
            return {"one_of": [text, {"number": Decimal(text)}]}
        case _:
            return literal(text)


def _after(field: FieldChange) -> Any:
    matcher = None if field.after is None else _matcher(field.after)
    if matcher is None:
        return {"is": "any", "because": "the record does not hold this value whole; say why any value is right"}
    return matcher
