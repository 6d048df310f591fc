"""Matchers: whether one field's content is what a contract says (CONTRACT.md section 2).

A matcher is asked about a :class:`Subject` (the cell, and what is known around it) within a :class:`RunContext` (when
the run was, what the agent returned, which changes other effects claimed, the rows of the tables). The answer is known
or not: an undecodable cell holds bytes of which nobody can say what they mean, so only ``{is: any}``, ``{is: unchanged}``
and ``{is: changed}`` can hold of it. For everything else the answer is *unknown*, and unknown stays unknown under
``not``: ``{not: {is: blank}}`` does not hold of an undecodable cell either. The one exception is a date field of eight
zeros, which the contract's ``{is: empty}`` names; ``{is: blank}`` does not hold of it, for a blank date has spaces.

Decisions where the contract leaves room:

* A number written as a literal is compared with a text field by its own spelling (``104`` fits ``104``, not ``000104``).
  ``true`` and ``false`` fit logical fields only; ``{boolean: …}`` is the loose form.
* A literal date fits a date-and-time field only at midnight; as a bound of ``between`` a date covers its whole day.
* ``{number: …}`` and ``{between: …}`` with two numbers read plain decimal texts in text fields; ``{date: today}`` and
  ``{time: run}`` read ISO texts there.
* ``{generated: next}`` in a text field counts the records whose text is digits only; an empty table begins at 1.
* ``{generated: unique}`` wants a value: a field left blank was not generated.
* A regular expression is not tried on more than :data:`~validators.values.REGEX_LIMIT` characters; such a value does not match.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from contracts.schema import (
    AllOf,
    Between,
    Boolean,
    DateToday,
    FieldOf,
    Generated,
    Is,
    Matcher,
    Not,
    NumberNear,
    OneOf,
    Regex,
    Returned,
    TextLike,
    TimeRun,
)
from validators.changes import Cell, CellState, Change, ContractFault, Files, Kind, Rows
from validators.clock import OutOfDay, comparable
from validators.values import (
    MOMENTS,
    REGEX_LIMIT,
    as_literal,
    cell_of_json,
    day_in,
    in_utc,
    is_blank,
    is_empty,
    is_text,
    moment_in,
    moment_of,
    normalised,
    number_in,
    number_of,
    safe_fullmatch,
    series_number,
    shown,
    spelled,
    text_of,
)

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_OTHER_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{8}|\d{4}[./]\d{1,2}[./]\d{1,2}", re.ASCII)
_EXACT = Context(prec=2_000)
_TRUE = frozenset({"true", "1", "t", "y", "yes", "j", "ja"})
_FALSE = frozenset({"false", "0", "f", "n", "no", "nein"})


@dataclass(frozen=True)
class RunContext:
    """What matchers may ask about the run.

    Attributes:
        started: When the agent could begin, by the guest's clock and in its zone (aware, or naive and local).
        ended: When it could no longer act, likewise.
        returned: What the agent returned, by name.
        claimed: The change that each named effect claimed, for ``{field: effect.FIELD}``.
        rows: The rows of each observable that has some.
        files: The files of each tree.
        pictures: Expected pictures, by the name that the contract gives.
    """

    started: datetime
    ended: datetime
    returned: Mapping[str, Any] = field(default_factory=dict)
    claimed: Mapping[str, Change] = field(default_factory=dict)
    rows: Mapping[str, Rows] = field(default_factory=dict)
    files: Mapping[str, Files] = field(default_factory=dict)
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    _memo: dict[tuple[str, str, str], Any] = field(default_factory=dict, repr=False, compare=False)
    """Answers that need a walk over a whole table; they depend on ``rows`` alone."""

    def with_claimed(self, claimed: Mapping[str, Change]) -> RunContext:
        """The same run with other claims."""
        return replace(self, claimed=dict(claimed))

    def with_rows(self, rows: Mapping[str, Rows]) -> RunContext:
        """The same run with other rows."""
        return replace(self, rows=dict(rows), _memo={})

    def with_files(self, files: Mapping[str, Files]) -> RunContext:
        """The same run with other files."""
        return replace(self, files=dict(files))

    def rows_of(self, observable: str) -> Rows:
        """The rows of an observable.

        Raises:
            ContractFault: It has none, so that a rule about its rows cannot be applied.
        """
        rows = self.rows.get(observable)
        if rows is None:
            raise ContractFault(f"`{observable}` has no rows that a rule could look at")
        return rows


@dataclass(frozen=True, slots=True)
class Subject:
    """What a matcher is asked about.

    Attributes:
        cell: The cell that must match; ``None`` where the row has no such field.
        before: The same field before the run, ``None`` where there was none.
        after: The same field after the run, likewise.
        changed: Whether the field counts as changed; ``None``: told from ``before`` and ``after``.
        observable: The observable's name, for ``generated``.
        field: The field's name, for ``generated``.
        ordinal: For ``{generated: next}``: the how-manieth new row this is, from 1.
        strict: JSON values: a text is never a number or a date.
    """

    cell: Cell | None
    before: Cell | None = None
    after: Cell | None = None
    changed: bool | None = None
    observable: str = ""
    field: str = ""
    ordinal: int = 1
    strict: bool = False


def matches(matcher: Matcher, subject: Subject, context: RunContext) -> bool:
    """Whether the matcher holds of the subject.

    Raises:
        ContractFault: The matcher cannot be applied: it asks for rows where there are none or for a field that the
            claimed change does not have, or its regular expression does not come to an end.
    """
    return _holds(matcher, subject, context) is True


def is_changed(subject: Subject) -> bool:
    """Whether the field differs between before and after; a field that is on one side only does."""
    if subject.changed is not None:
        return subject.changed
    if subject.before is None or subject.after is None:
        return subject.before is not subject.after
    return not subject.before.same_value(subject.after)


# --- one function for each matcher: True, False, or None for "nobody can tell" ----------------------------------------

_SPECIAL = frozenset({Is, Not, OneOf, AllOf})
_Test = Callable[[Any, Cell, Subject, RunContext], "bool | None"]


def _holds(matcher: Matcher, subject: Subject, context: RunContext) -> bool | None:
    cell = subject.cell
    kind = type(matcher)
    if kind in _SPECIAL:
        if isinstance(matcher, Is):
            if matcher.is_ == "any":
                return True
            if matcher.is_ in ("unchanged", "changed"):
                return is_changed(subject) == (matcher.is_ == "changed")
        elif isinstance(matcher, Not):
            held = _holds(matcher.not_, subject, context)
            return None if held is None else not held
        elif isinstance(matcher, OneOf):
            answers = [_holds(part, subject, context) for part in matcher.one_of]
            return True if True in answers else None if None in answers else False
        elif isinstance(matcher, AllOf):
            answers = [_holds(part, subject, context) for part in matcher.all_of]
            return False if False in answers else None if None in answers else True
    if cell is None:
        return None
    if cell.state is CellState.UNDECODABLE:
        zero_date = isinstance(matcher, Is) and matcher.is_ == "empty" and is_empty(cell)
        return True if zero_date else None
    return _TESTS[kind](matcher, cell, subject, context)


def _literal(literal: bool | int | Decimal | str, cell: Cell, subject: Subject, _: RunContext) -> bool:
    if cell.state is CellState.NULL:
        return False
    if isinstance(literal, bool):
        return cell.kind is Kind.LOGICAL and cell.value is literal
    if is_text(cell):
        if not isinstance(literal, str):
            return not subject.strict and text_of(cell) == str(literal)
        return text_of(cell) == (literal.rstrip(" ") if cell.kind is Kind.TEXT else literal)
    if cell.state is CellState.BLANK:
        return False
    if cell.kind is Kind.NUMBER:
        if isinstance(literal, str):
            number = None if subject.strict else number_of(literal)
            return number is not None and cell.value == number
        return cell.value == literal
    if cell.kind in MOMENTS and isinstance(literal, str):
        moment = moment_of(literal, cell.kind)
        # A moment with a zone, as SQL servers keep it, is meant in UTC where none is written.
        return moment is not None and cell.value in (moment, in_utc(moment))
    return False


def _is(matcher: Is, cell: Cell, _: Subject, __: RunContext) -> bool:
    match matcher.is_:
        case "blank":
            return is_blank(cell)
        case "empty":
            return is_empty(cell)
        case _:
            return cell.state is CellState.NULL


def _regex(matcher: Regex, cell: Cell, subject: Subject, _: RunContext) -> bool:
    text = spelled(cell, strict=subject.strict)
    if text is None or len(text) > REGEX_LIMIT:
        return False
    return safe_fullmatch(matcher.regex, text)


def _number_near(matcher: NumberNear, cell: Cell, subject: Subject, _: RunContext) -> bool:
    number = number_in(cell, strict=subject.strict)
    if number is None:
        return False
    bound = matcher.tolerance or Decimal(0)
    if matcher.relative is not None:
        bound = _EXACT.multiply(matcher.relative, _EXACT.abs(matcher.number))
    return _EXACT.subtract(matcher.number, bound) <= number <= _EXACT.add(matcher.number, bound)


def _between(matcher: Between, cell: Cell, subject: Subject, _: RunContext) -> bool:
    low, high = matcher.between
    if cell.state is not CellState.VALUE and not is_text(cell):
        return False
    if cell.kind is Kind.NUMBER or (isinstance(low, int | Decimal) and isinstance(high, int | Decimal)):
        number = number_in(cell, strict=subject.strict)
        bounds = [number_of(end) if isinstance(end, str) and not subject.strict else end for end in (low, high)]
        if number is None or any(end is None or isinstance(end, str) for end in bounds):
            return False
        return bool(bounds[0] <= number <= bounds[1])  # type: ignore[operator]
    if not isinstance(low, str) or not isinstance(high, str):
        return False
    if is_text(cell):
        text = text_of(cell)
        return text is not None and low <= text <= high
    return cell.kind in MOMENTS and _moment_at_least(cell, low) and _moment_at_most(cell, high)


def _date_today(_: DateToday, cell: Cell, __: Subject, context: RunContext) -> bool:
    day = day_in(cell)
    return day is not None and context.started.date() <= day <= context.ended.date()


def _time_run(_: TimeRun, cell: Cell, __: Subject, context: RunContext) -> bool:
    value = moment_in(cell)
    if value is None:
        return False
    # What a field keeps is cut to its resolution, so the run's ends are cut likewise.
    to_minute = isinstance(cell.value, str) and cell.value.strip().count(":") == 1
    started, ended = (_cut(moment, to_minute=to_minute) for moment in (context.started, context.ended))
    if isinstance(value, datetime):
        if value.tzinfo is not None and started.tzinfo is not None:
            return started <= _cut(value, to_minute=to_minute) <= ended
        local = _cut(value, to_minute=to_minute).replace(tzinfo=None)
        return started.replace(tzinfo=None) <= local <= ended.replace(tzinfo=None)
    if ended - started >= timedelta(days=1):
        return True
    clock = value.replace(microsecond=0, tzinfo=None)
    first, last = started.time(), ended.time()
    if started.date() == ended.date():
        return first <= clock <= last
    return clock >= first or clock <= last


def _text_like(matcher: TextLike, cell: Cell, _: Subject, __: RunContext) -> bool:
    text = text_of(cell)
    if text is None:
        return False
    wanted = matcher.text.rstrip(" ") if cell.kind is Kind.TEXT else matcher.text
    return normalised(text, matcher.normalise) == normalised(wanted, matcher.normalise)


def _boolean(matcher: Boolean, cell: Cell, _: Subject, __: RunContext) -> bool:
    if cell.state is not CellState.VALUE:
        return False
    value = cell.value
    if isinstance(value, bool):
        return value is matcher.boolean
    if isinstance(value, Decimal):
        return value == (1 if matcher.boolean else 0)
    if isinstance(value, str):
        return value.strip().casefold() in (_TRUE if matcher.boolean else _FALSE)
    return False


def _generated(matcher: Generated, cell: Cell, subject: Subject, context: RunContext) -> bool:
    if cell.state is not CellState.VALUE:
        return False
    if matcher.generated == "unique":
        return _live_counts(subject, context)[_unique_key(cell)] <= 1
    highest, spelling = highest_before(subject.observable, subject.field, context)
    number = series_number(cell)
    if number is None or number != highest + subject.ordinal:
        return False
    if not is_text(cell) or spelling is None:
        return True
    return text_of(cell) == _next_spelling(spelling, highest + subject.ordinal)


def _returned(matcher: Returned, cell: Cell, subject: Subject, context: RunContext) -> bool:
    if matcher.returned not in context.returned:
        return False
    return equals(cell_of_json(context.returned[matcher.returned]), cell, subject, context)


def _field_of(matcher: FieldOf, cell: Cell, subject: Subject, context: RunContext) -> bool:
    other = claimed_cell(matcher, context)
    return other is not None and equals(other, cell, subject, context)


def equals(wanted: Cell, cell: Cell, subject: Subject, context: RunContext) -> bool:
    """Whether ``cell`` holds what ``wanted`` holds, compared as a literal would be; the subject tells how strictly."""
    if wanted.state is CellState.UNDECODABLE:
        return False
    if wanted.state is CellState.NULL or cell.state is CellState.NULL:
        return wanted.state is cell.state
    if wanted.state is CellState.BLANK and cell.state is CellState.BLANK:
        return True
    if subject.strict:
        if is_text(wanted) and is_text(cell):
            return text_of(wanted) == text_of(cell)  # without the field's padding, but with all that was returned
        if wanted.kind in MOMENTS and is_text(cell) and wanted.state is CellState.VALUE:
            text = text_of(cell) or ""
            return wanted.value == moment_of(text, wanted.kind)
        return wanted.kind is cell.kind and wanted.state is cell.state and wanted.value == cell.value
    if wanted.kind is cell.kind and not is_text(wanted):
        return wanted.state is cell.state and wanted.value == cell.value
    literal = as_literal(wanted)
    return literal is not None and _literal(literal, cell, subject, context)


_TESTS: dict[type, _Test] = {
    bool: _literal,
    int: _literal,
    Decimal: _literal,
    str: _literal,
    Is: _is,
    Regex: _regex,
    NumberNear: _number_near,
    Between: _between,
    DateToday: _date_today,
    TimeRun: _time_run,
    TextLike: _text_like,
    Boolean: _boolean,
    Generated: _generated,
    Returned: _returned,
    FieldOf: _field_of,
}


# --- reading values -------------------------------------------------------------------------------------------------


def claimed_cell(matcher: FieldOf, context: RunContext) -> Cell | None:
    """The cell that ``{field: effect.FIELD}`` speaks of: after the run, or before it for what is gone.

    Returns:
        ``None`` when no change was claimed by that effect.

    Raises:
        ContractFault: The claimed change has no such field.
    """
    change = context.claimed.get(matcher.effect)
    if change is None:
        return None
    row = change.after if change.after is not None else change.before
    if row is None or matcher.name not in row:
        raise ContractFault(f"`{{field: {matcher.field}}}`: `{change.observable}` has no field {matcher.name}")
    return row[matcher.name]


def _cut(moment: datetime, *, to_minute: bool) -> datetime:
    return moment.replace(microsecond=0, second=0 if to_minute else moment.second)


def _moment_at_least(cell: Cell, text: str) -> bool:
    bound, value = _bound(cell, text)
    return bound is not None and bool(bound <= value)


def _moment_at_most(cell: Cell, text: str) -> bool:
    bound, value = _bound(cell, text)
    return bound is not None and bool(value <= bound)


def _bound(cell: Cell, text: str) -> tuple[Any, Any]:
    """The bound and the value in comparable form; a date as a bound is compared with the value's day."""
    value: Any = cell.value
    if cell.kind is Kind.DATETIME and _DATE.fullmatch(text):
        return moment_of(text, Kind.DATE), value.date()
    bound: Any = moment_of(text, cell.kind)
    if bound is not None and getattr(bound, "tzinfo", None) is None and getattr(value, "tzinfo", None) is not None:
        value = value.replace(tzinfo=None)
    if bound is not None and getattr(bound, "tzinfo", None) is not None and getattr(value, "tzinfo", None) is None:
        bound = bound.replace(tzinfo=None)
    if bound is not None and isinstance(value, OutOfDay) != isinstance(bound, OutOfDay):
        bound, value = comparable(bound), comparable(value)
    return bound, value


# --- generated values -------------------------------------------------------------------------------------------------


def highest_before(observable: str, field: str, context: RunContext) -> tuple[int, str | None]:
    """The highest whole number a field held before the run, deleted records included, and its spelling in a text field.

    Returns:
        ``(0, None)`` when no record holds a number.

    Raises:
        ContractFault: The observable has no rows.
    """
    key = ("next", observable, field)
    if key not in context._memo:
        highest, spelling = 0, None
        for row, _ in context.rows_of(observable).before():
            cell = row.get(field)
            number = None if cell is None else series_number(cell)
            if cell is None or number is None or number < highest:
                continue
            text = text_of(cell)
            if number > highest or spelling is None or (text is not None and len(text) > len(spelling)):
                highest, spelling = number, text
        context._memo[key] = (highest, spelling)
    found: tuple[int, str | None] = context._memo[key]
    return found


def _next_spelling(spelling: str, number: int) -> str:
    """``number`` spelt like ``spelling``: zeros or blanks in front up to the same width."""
    digits = spelling.lstrip(" ")
    padded = str(number).zfill(len(digits)) if digits.startswith("0") else str(number)
    return padded.rjust(len(spelling)) if len(digits) < len(spelling) else padded


def _live_counts(subject: Subject, context: RunContext) -> Counter[Any]:
    """How many live rows hold each value of the field after the run."""
    key = ("unique", subject.observable, subject.field)
    if key not in context._memo:
        rows = context.rows_of(subject.observable).after()
        cells = (row.get(subject.field) for row, live in rows if live)
        context._memo[key] = Counter(_unique_key(cell) for cell in cells if cell is not None)
    counts: Counter[Any] = context._memo[key]
    return counts


def _unique_key(cell: Cell) -> Any:
    if cell.state is not CellState.VALUE:
        return (cell.state, cell.raw)
    text = text_of(cell)
    if text is not None:
        return text
    return str(cell.value) if isinstance(cell.value, Decimal) and not cell.value.is_finite() else cell.value


# --- keys: what literals can be looked up by --------------------------------------------------------------------------


def cell_key(cell: Cell) -> Any:
    """A key such that every literal that holds of the cell has it among its :func:`literal_keys`."""
    if cell.state is CellState.NULL or cell.state is CellState.UNDECODABLE:
        return cell.state
    text = text_of(cell)
    if text is not None:
        return text.rstrip(" ")
    value = cell.value
    if isinstance(value, bool):
        return (value,)
    return value if not isinstance(value, Decimal) or value.is_finite() else CellState.UNDECODABLE


def literal_keys(matcher: Matcher) -> frozenset[Any] | None:
    """The keys of the cells that a matcher can hold of, if it is made of literals; else ``None``."""
    if isinstance(matcher, OneOf):
        parts = [literal_keys(part) for part in matcher.one_of]
        known = [part for part in parts if part is not None]
        return frozenset().union(*known) if len(known) == len(parts) else None
    if isinstance(matcher, AllOf):
        return next((keys for part in matcher.all_of if (keys := literal_keys(part)) is not None), None)
    if isinstance(matcher, bool):
        return frozenset({(matcher,)})
    if isinstance(matcher, int | Decimal):
        return frozenset({Decimal(matcher), str(matcher)})
    if isinstance(matcher, str):
        # A date-and-time with an offset equals the same moment with another one, and hashes alike.
        moments = [moment_of(matcher, kind) for kind in MOMENTS]
        values = [matcher.rstrip(" "), number_of(matcher), *moments, *map(in_utc, moments)]
        return frozenset(value for value in values if value is not None)
    return None


def equal_keys(wanted: Cell) -> frozenset[Any]:
    """The keys (:func:`cell_key`) of the cells that :func:`equals` can call equal to ``wanted``, not strictly compared."""
    if wanted.state is CellState.UNDECODABLE:
        return frozenset()
    keys = {cell_key(wanted)}
    if wanted.state is CellState.BLANK:
        keys |= {"", None}
    literal = as_literal(wanted)
    return frozenset(keys) | ((literal_keys(literal) or frozenset()) if literal is not None else frozenset())


# --- words ------------------------------------------------------------------------------------------------------------


def _quoted(value: bool | int | Decimal | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = shown(str(value))
    return f"“{text}”" if not text or text != text.strip() else text


def describe(matcher: Matcher, subject: Subject | None = None, context: RunContext | None = None) -> str:
    """What the matcher asks for, in a few words for a report; with values where the run tells them.

    Args:
        matcher: The matcher.
        subject: What it was asked about; with ``context``, ``{generated: next}`` names the number.
        context: The run; with it, references name the value they stand for.
    """
    match matcher:
        case Is():
            return {"null": "NULL", "any": "anything"}.get(matcher.is_, matcher.is_)
        case Regex():
            return f"/{shown(matcher.regex)}/"
        case OneOf():
            return shown("one of " + ", ".join(describe(part, subject, context) for part in matcher.one_of), 300)
        case Not():
            return f"not {describe(matcher.not_, subject, context)}"
        case AllOf():
            return shown(" and ".join(describe(part, subject, context) for part in matcher.all_of), 300)
        case NumberNear(tolerance=tolerance, relative=relative):
            margin = f" ± {tolerance}" if tolerance else f" ± {relative} of it" if relative else ""
            return f"{matcher.number}{margin}"
        case Between():
            return f"between {_quoted(matcher.between[0])} and {_quoted(matcher.between[1])}"
        case DateToday():
            days = "" if context is None else _span(str(context.started.date()), str(context.ended.date()))
            return f"a date of the run{days}"
        case TimeRun():
            ends = [] if context is None else [f"{moment:%H:%M:%S}" for moment in (context.started, context.ended)]
            return "a time within the run" + (_span(*ends) if ends else "")
        case TextLike():
            how = f" ({', '.join(matcher.normalise)} normalised)" if matcher.normalise else ""
            return f"{_quoted(matcher.text)}{how}"
        case Boolean():
            return "true or yes" if matcher.boolean else "false or no"
        case Generated():
            return _describe_generated(matcher, subject, context)
        case Returned():
            value = ""
            if context is not None:
                found = context.returned.get(matcher.returned)
                value = f" ({_quoted(str(found))})" if matcher.returned in context.returned else " (nothing returned)"
            return f"the returned {shown(matcher.returned)}{value}"
        case FieldOf():
            other = None if context is None else claimed_cell(matcher, context)
            value = "" if context is None else " (no such change)" if other is None else f" ({shown(other.display())})"
            return f"the {shown(matcher.name)} of {matcher.effect}{value}"
        case _:
            return _quoted(matcher)


def _span(first: str, last: str) -> str:
    return f" ({first})" if first == last else f" ({first} to {last})"


def _describe_generated(matcher: Generated, subject: Subject | None, context: RunContext | None) -> str:
    if matcher.generated == "unique":
        return "a value no other row has"
    if subject is None or context is None or subject.observable not in context.rows:
        return "the next number"
    highest, spelling = highest_before(subject.observable, subject.field, context)
    number = highest + subject.ordinal
    return f"the next number ({_next_spelling(spelling, number) if spelling else number})"


def hint(matcher: Matcher, cell: Cell | None) -> str:
    """What may help a person whose matcher did not hold of the cell; empty when nothing comes to mind."""
    if cell is None:
        return ""
    if cell.state is CellState.UNDECODABLE:
        return cell.hint or "these bytes are no value of the field's type"
    if isinstance(matcher, Regex) and len(spelled(cell, strict=False) or "") > REGEX_LIMIT:
        return f"longer than {REGEX_LIMIT} characters: regular expressions are not tried on that"
    if isinstance(matcher, str) and cell.kind in MOMENTS and moment_of(matcher, cell.kind) is None:
        if cell.kind is Kind.TIME:
            return "times are written 14:30:00, beyond a day 26:30:00 or -00:30:00"
        if cell.kind is Kind.DATETIME:
            return "dates with a time are written 1964-08-12 14:30:00"
        return (
            "dates are written 1964-08-12"
            if _OTHER_DATE.fullmatch(matcher)
            else "a date field; dates are written 1964-08-12"
        )
    if isinstance(matcher, str) and cell.kind is Kind.NUMBER and number_of(matcher) is None:
        return "a numeric field; numbers are written 1234.5"
    if isinstance(matcher, str) and cell.kind is Kind.LOGICAL:
        return "a logical field; write true or false without quotes"
    if isinstance(matcher, bool) and cell.kind is not Kind.LOGICAL:
        return "not a logical field; `{boolean: …}` reads such words"
    if isinstance(matcher, int | Decimal) and is_text(cell) and number_of(text_of(cell) or "") == matcher:
        return "a text field: the number is spelt differently there; quote it as it is stored"
    return ""
