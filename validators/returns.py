"""Returned values: whether what the agent returned is what the contract expects (CONTRACT.md section 4, ``returns``).

JSON types are strict: ``"104"`` is not ``104``. Texts are compared character by character, also with a field's value, which is
the field's text without its padding: ``"Muster "`` is not what a field of 20 characters holds. The schema is JSON Schema, draft 2020-12, without remote references;
``format`` is not asserted, and additional properties are allowed unless the schema forbids them. Returned values come from
the agent and are bounded before anything looks at them.

An expected value may stand in the contract, in a row or file of the state after the run, or be computed from such values. Where
there is no such row, file or value, or not one alone, nothing returned can be right, and the reason is told.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal, localcontext
from math import isfinite
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable

from contracts.globs import compile_glob
from contracts.schema import Computed, FieldOf, FileValue, Matcher, Returned, ReturnedRule, Returns, RowValue, Term
from validators.changes import Cell, CellState, Change, ContractFault, KeptFile, Kind
from validators.content import size_of, text_of_file, value_at
from validators.formats.text import Absent
from validators.matchers import RunContext, Subject, claimed_cell, describe, equals, hint, matches
from validators.rules import EffectRef, references
from validators.values import cell_of_json, is_text, number_in, safe_search, shown, text_of

MAX_DEPTH = 32
MAX_VALUES = 10_000
MAX_TEXT = 100_000
MAX_DIGITS = 400
_MAX_PROBLEMS = 20
_DIGITS = 2_000
"""Digits with which values are computed: sums and products of bounded numbers are exact."""


@dataclass(frozen=True, slots=True)
class ReturnProblem:
    """One thing that is wrong with the returned values.

    Attributes:
        path: Where, such as ``patient.number`` or ``items[2]``; empty for the whole.
        expected: What was expected, in words.
        found: What was returned, for people; or why it cannot be compared.
        message: Both in one sentence without a full stop, for reports.
        cause: If it only follows from a near miss: the effect that was nearly filled.
    """

    path: str
    expected: str
    found: str
    message: str
    cause: EffectRef | None = None


@dataclass(frozen=True)
class Supposed:
    """What the names of effects that are missing are taken to mean, to tell what only follows from a near miss.

    Attributes:
        changes: The change that each name would mean.
        causes: The effect whose near miss is the cause.
    """

    changes: Mapping[str, Change] = field(default_factory=dict)
    causes: Mapping[str, EffectRef] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReturnsVerdict:
    """Whether the returned values are right, and what is not."""

    valid: bool
    problems: tuple[ReturnProblem, ...] = ()


class UnfitValue(ValueError):
    """A returned value is too large, too deep or no JSON."""


def check_returns(
    returns: Returns | None, returned: Any, context: RunContext, supposed: Supposed | None = None
) -> ReturnsVerdict:
    """Checks what the agent returned.

    Args:
        returns: What the contract says; ``None`` accepts anything.
        returned: The value as it was parsed from JSON (numbers as ``int``, ``float`` or ``Decimal``).
        context: The run, with the claimed changes and the rows.
        supposed: What effects that are missing would have claimed, had their near misses been right.

    Raises:
        ContractFault: The schema is none or refers to something outside it, or a rule cannot be applied.
    """
    if returns is None:
        return ReturnsVerdict(valid=True)
    try:
        value = bounded(returned)
    except UnfitValue as error:
        return _verdict([ReturnProblem("", "a JSON value of moderate size", str(error), str(error))])
    problems = list(_schema_problems(returns.schema_, value))
    if isinstance(value, Mapping):
        for name, rule in returns.expect.items():
            problem: ReturnProblem | None
            if name in value:
                problem = _value_problem(name, rule, value, context)
            else:
                problem = ReturnProblem(name, "a value", "(nothing)", f"{shown(name)} was not returned")
            # One problem for one place: the schema may have spoken of it already.
            if problem is not None and all(problem.path != other.path for other in problems):
                problems.append(_with_cause(problem, name, rule, value, context, supposed or Supposed()))
    elif returns.expect and not problems:
        problems.append(ReturnProblem("", "an object", _words(value), "no object was returned"))
    return _verdict(problems)


def _with_cause(
    problem: ReturnProblem, name: str, rule: ReturnedRule, value: Mapping[str, Any], context: RunContext, supposed: Supposed
) -> ReturnProblem:  # fmt: skip
    """The problem, with its cause if it would be none had the near misses been right."""
    causes = [supposed.causes[r.effect] for r in references(rule) if r.effect in supposed.changes]
    if not causes or name not in value:
        return problem
    other = context.with_claimed({**context.claimed, **supposed.changes})
    right = _value_problem(name, rule, value, other) is None
    return replace(problem, cause=min(causes, key=lambda cause: cause.index)) if right else problem


def bounded(value: Any) -> Any:
    """The value as plain JSON data.

    Raises:
        UnfitValue: It is deeper than :data:`MAX_DEPTH`, has more than :data:`MAX_VALUES` values, texts longer than
            :data:`MAX_TEXT` characters or numbers of more than :data:`MAX_DIGITS` digits, or is no JSON.
    """
    count = 0

    def copy(item: Any, depth: int) -> Any:
        nonlocal count
        count += 1
        if count > MAX_VALUES or depth > MAX_DEPTH:
            raise UnfitValue(f"more than {MAX_VALUES} values or {MAX_DEPTH} levels were returned")
        match item:
            case None | bool():
                return item  # before int(), of which bool is one
            case str():
                if len(item) > MAX_TEXT:
                    raise UnfitValue(f"a text of more than {MAX_TEXT} characters was returned")
                return item
            case int() | float() | Decimal():
                return _bounded_number(item)
            case list() | tuple():
                return [copy(part, depth + 1) for part in item]
            case Mapping():
                return {copy(_key(key), depth): copy(part, depth + 1) for key, part in item.items()}
            case _:
                raise UnfitValue("something that is no JSON value was returned")

    return copy(value, 0)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise UnfitValue("an object with names that are no texts was returned")
    return key


def _bounded_number(number: int | float | Decimal) -> int | float | Decimal:
    if isinstance(number, int):
        if number.bit_length() > MAX_DIGITS * 3:
            raise UnfitValue(f"a number of more than {MAX_DIGITS} digits was returned")
        return number
    if isinstance(number, float):
        if not isfinite(number):
            raise UnfitValue("a number that is not finite was returned")
        return number
    if not number.is_finite() or abs(number.adjusted()) > MAX_DIGITS or len(number.as_tuple().digits) > MAX_DIGITS:
        raise UnfitValue(f"a number that is not finite or has more than {MAX_DIGITS} digits was returned")
    return number


def _verdict(problems: list[ReturnProblem]) -> ReturnsVerdict:
    return ReturnsVerdict(valid=not problems, problems=tuple(problems[:_MAX_PROBLEMS]))


# --- the schema -------------------------------------------------------------------------------------------------------


def _safe_pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not safe_search(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_Validator = extend(Draft202012Validator, {"pattern": _safe_pattern})  # type: ignore[no-untyped-call]


def _schema_problems(schema: dict[str, Any], value: Any) -> Iterator[ReturnProblem]:
    plain_schema, instance = _without_decimals(schema), _without_decimals(value)
    try:
        Draft202012Validator.check_schema(plain_schema)
        _try_property_patterns(plain_schema, instance)
        validator = _Validator(plain_schema, registry=Registry())
        errors = sorted(validator.iter_errors(instance), key=lambda error: [str(part) for part in error.absolute_path])
    except SchemaError as error:
        raise ContractFault(f"`returns.schema` is no JSON Schema: {shown(error.message, 200)}") from None
    except Unresolvable as error:
        raise ContractFault(
            f"`returns.schema` refers to something it does not contain: {shown(str(error), 200)}"
        ) from None
    except RecursionError:
        raise ContractFault("`returns.schema` refers to itself without end") from None
    except re.error as error:
        raise ContractFault(f"`returns.schema` has a pattern that is no regular expression: {error}") from None
    for found in errors[:_MAX_PROBLEMS]:
        yield _schema_problem(found)


def _schema_problem(error: ValidationError) -> ReturnProblem:
    path = _path(error.absolute_path)
    found = _words(error.instance)
    what = f"the returned {path}" if path else "the returned value"
    rule = shown(str(error.validator_value), 80)
    match error.validator:
        case "type":
            kinds = error.validator_value
            expected = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
            message = f"{what} is {found} instead of {_article(expected)}"
        case "required":
            wanted, instance = cast(list[str], error.validator_value), cast(dict[str, Any], error.instance)
            absent = [name for name in wanted if name not in instance]
            expected = "a value"
            path = _path([*error.absolute_path, absent[0]]) if absent else path
            found, message = "(nothing)", f"{path} was not returned"
        case "const" | "enum" | "pattern" | "minimum" | "maximum" | "minLength" | "maxLength" | "additionalProperties":
            expected = f"{error.validator} {rule}"
            message = f"{what} is {found}, but the schema says {expected}"
        case _:
            expected = f"{shown(str(error.validator), 40)} {rule}"
            message = f"{what} is {found}, but the schema says {expected}"
    return ReturnProblem(path, expected, found, message)


def _article(kind: str) -> str:
    return kind if kind == "null" else f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


def _try_property_patterns(schema: Any, instance: Any) -> None:
    """Lets every pattern for property names prove that it comes to an end on the names returned."""
    patterns = set(_property_patterns(schema))
    if patterns:
        for name in _property_names(instance):
            for pattern in patterns:
                safe_search(pattern, name)


def _property_patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        found = schema.get("patternProperties")
        if isinstance(found, Mapping):
            yield from (pattern for pattern in found if isinstance(pattern, str))
        for part in schema.values():
            yield from _property_patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _property_patterns(part)


def _property_names(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield name
            yield from _property_names(part)
    elif isinstance(value, list):
        for part in value:
            yield from _property_names(part)


def _without_decimals(value: Any) -> Any:
    """JSON data with the numbers that the schema library knows; exact comparison is the matchers' business."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {key: _without_decimals(part) for key, part in value.items()}
    return [_without_decimals(part) for part in value] if isinstance(value, list | tuple) else value


# --- the values -------------------------------------------------------------------------------------------------------


def _matcher_problem(
    name: str, matcher: Matcher, value: Mapping[str, Any], context: RunContext
) -> ReturnProblem | None:
    cell = cell_of_json(value[name])
    subject = Subject(cell, field=name, strict=True)
    if matches(matcher, subject, context):
        return None
    expected = describe(matcher, subject, context)
    wanted = claimed_cell(matcher, context) if isinstance(matcher, FieldOf) else None
    return _difference(name, expected, value[name], wanted, hint(matcher, cell))


class _NoValue(Exception):
    """There is nothing that a returned value could be compared with: the reason in words."""


def _value_problem(
    name: str, rule: ReturnedRule, value: Mapping[str, Any], context: RunContext
) -> ReturnProblem | None:
    if not isinstance(rule, RowValue | FileValue | Computed):
        return _matcher_problem(name, rule, value, context)
    expected = _place_words(rule)
    try:
        wanted = _wanted(rule, context)
    except _NoValue as error:
        why = str(error)
        return ReturnProblem(name, expected, why, f"the returned {shown(name)} cannot be right: {why}")
    cell = cell_of_json(value[name])
    if _agrees(rule, wanted, cell, context):
        return None
    return _difference(name, f"{wanted.display()} ({expected})", value[name], wanted, "")


def _agrees(rule: RowValue | FileValue | Computed, wanted: Cell, cell: Cell, context: RunContext) -> bool:
    if isinstance(rule, Computed) and rule.tolerance is not None:
        one, other = number_in(wanted, strict=True), number_in(cell, strict=True)
        if one is None or other is None:
            return False
        with localcontext(prec=_DIGITS):
            return abs(one - other) <= rule.tolerance
    return equals(wanted, cell, Subject(cell, strict=True), context)


def _wanted(rule: Term, context: RunContext) -> Cell:
    """The value that a rule leads to.

    Raises:
        _NoValue: There is none, or not one alone.
        ContractFault: The rule cannot be applied.
        Unreadable: The content of a file is needed and was not kept.
    """
    match rule:
        case RowValue():
            return _of_row(rule, context)
        case FileValue():
            return _of_file(rule, context)
        case Computed():
            return _computed(rule, context)
        case FieldOf():
            cell = claimed_cell(rule, context)
            if cell is None:
                raise _NoValue(f"no change was found for {rule.effect}")
            return cell
        case Returned():
            if rule.returned not in context.returned:
                raise _NoValue(f"{shown(rule.returned)} was not returned")
            return cell_of_json(context.returned[rule.returned])
        case _:
            return cell_of_json(rule)


def _of_row(rule: RowValue, context: RunContext) -> Cell:
    found: list[Cell] = []
    for row, live in context.rows_of(rule.row).after():
        missing = next((field for field in (*rule.where, rule.field) if field not in row), None)
        if missing is not None:
            raise ContractFault(f"`returns`: `{rule.row}` has no field {shown(missing)}")
        if live and all(matches(m, Subject(row[field]), context) for field, m in rule.where.items()):
            found.append(row[rule.field])
            if len(found) > 1:
                raise _NoValue(f"several rows in {rule.row} fit")
    if not found:
        raise _NoValue(f"no row in {rule.row} fits")
    return found[0]


def _of_file(rule: FileValue, context: RunContext) -> Cell:
    files = context.files.get(rule.file)
    if files is None:
        raise ContractFault(f"`returns`: `{rule.file}` has no files that a rule could look at")
    found = list(files.after(compile_glob(rule.path)))
    if len(found) != 1:
        count = "several files fit" if found else "no file fits"
        raise _NoValue(f"{count} {shown(rule.path)} in {rule.file}")
    try:
        cell = _selected(rule, found[0], context)
    except Absent as error:
        raise _NoValue(f"{shown(found[0].path)}: {error}") from None
    if rule.as_ is None:
        return cell
    number = number_in(cell, strict=False)
    if number is None:
        raise _NoValue(f"{shown(found[0].path)} holds no number there, but {cell.display(80)}")
    return _number(number)


def _selected(rule: FileValue, file: KeptFile, context: RunContext) -> Cell:
    match rule.value:
        case "size":
            return size_of(file)
        case "sha256":
            return Cell(Kind.VARTEXT, file.sha256 or hashlib.sha256(file.content).hexdigest())
        case "name":
            return Cell(Kind.VARTEXT, file.path.rpartition("\\")[2])
        case "text":
            cell = text_of_file(file, "utf-8")
            if cell.state is CellState.UNDECODABLE:
                raise Absent(cell.hint)
            return cell
        case _:
            return value_at(rule.value, file, context)


def _computed(rule: Computed, context: RunContext) -> Cell:
    numbers = []
    for term in rule.terms:
        cell = _wanted(term, context)
        number = number_in(cell, strict=False)
        if number is None or abs(number.adjusted()) > MAX_DIGITS or len(number.as_tuple().digits) > MAX_DIGITS:
            raise _NoValue(f"{cell.display(80)} ({_place_words(term)}) is no number to compute with")
        numbers.append(number)
    with localcontext(prec=_DIGITS):
        result = numbers[0]
        for number in numbers[1:]:
            match rule.operation:
                case "sum":
                    result += number
                case "difference":
                    result -= number
                case "product":
                    result *= number
        if abs(result.adjusted()) > MAX_DIGITS:
            raise _NoValue("the result has more digits than are looked at")
        if rule.decimals is not None:
            result = result.quantize(Decimal(1).scaleb(-rule.decimals), rounding=ROUND_HALF_UP)
    return _number(result)


def _number(number: Decimal) -> Cell:
    return Cell(Kind.NUMBER, number, has_blank=False)


def _place_words(rule: Term) -> str:
    match rule:
        case RowValue():
            return f"{shown(rule.field)} of the one row in {rule.row} that fits"
        case FileValue():
            return f"from the one file {shown(rule.path)} in {rule.file}"
        case Computed():
            signs = {"sum": " + ", "difference": " - ", "product": " × "}
            terms = [f"({_place_words(t)})" if isinstance(t, Computed) else _place_words(t) for t in rule.terms]
            return shown(signs[rule.operation].join(terms), 200)
        case FieldOf():
            return f"{shown(rule.name)} of {rule.effect}"
        case Returned():
            return f"the returned {shown(rule.returned)}"
        case _:
            return str(rule)


def _difference(name: str, expected: str, value: Any, wanted: Cell | None, advice: str) -> ReturnProblem:
    found = _words(value)
    if wanted is not None and isinstance(value, str) and is_text(wanted):
        advice = "blanks at its end count" if value.rstrip(" ") == text_of(wanted) else advice
    elif wanted is not None and wanted.state is CellState.VALUE and str(wanted.value) == str(value):
        advice = "the same characters, but of another JSON type"
    message = f"the returned {shown(name)} is {found} instead of {expected}" + (f" ({advice})" if advice else "")
    return ReturnProblem(name, expected, found, message)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return f"“{shown(value)}”"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return (
        {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )


def _path(parts: Any) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{shown(str(part), 80)}"
    return text
