"""What Pydantic found wrong, in words that say what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from contracts.problems import Finding, Loc, did_you_mean, quoted, shown
from contracts.schema import CONTENT_KEYS, MATCHER_KEYS, OBSERVABLE_KEYS
from contracts.shape import Place, Shape, field_names, place

_PATTERNS = {
    r"^[a-z][a-z0-9_]*$": (
        "{found} is no name",
        "names are lower-case letters, digits and `_`, and begin with a letter",
    ),
    r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$": (
        "{found} is no identifier",
        "lower-case letters and digits, with single `.` or `-` between them, such as `dswin.add-new-patient`",
    ),
    r"^[A-Za-z]:[\\/]": ("{found} is no absolute Windows path", r"begin with the drive, such as 'C:\DSWIN'"),
    r"^[0-9a-fA-F]{64}$": ("{found} is no SHA-256", "64 hexadecimal digits are needed"),
    r"^[a-z][a-z0-9_]*\..+$": ("{found} is no reference", "write `effect_name.FIELD`"),
}


def explain(
    error: ValidationError, data: Any, root: Shape, *, is_secret: Callable[[Loc], bool] = lambda _loc: False
) -> list[Finding]:
    """Puts each error of a validation into words.

    Args:
        error: What Pydantic raised.
        data: What was validated.
        root: The shape of the model.
        is_secret: Whether a place holds a value that may not be shown.
    """
    findings = [
        _finding(str(item["type"]), item.get("ctx", {}), item["msg"], place(item["loc"], root, data), is_secret)
        for item in error.errors(include_url=False, include_input=False)
    ]
    # A misspelt name is one mistake: that the right one is missing follows from it.
    meant = {(*item.loc[:-1], item.hint.split("`")[1]) for item in findings if item.hint.startswith("did you mean `")}
    return [item for item in findings if not (item.message == _missing(item.loc) and item.loc in meant)]


def _missing(loc: Loc) -> str:
    return "an entry is missing" if loc and isinstance(loc[-1], int) else f"`{loc[-1]}` is missing" if loc else ""


def _finding(
    kind: str, context: Mapping[str, Any], message: str, at: Place, is_secret: Callable[[Loc], bool]
) -> Finding:
    if kind == "missing":
        return Finding(at.loc, _missing(at.loc))
    if kind == "extra_forbidden":
        return _unknown_field(at)
    found = "a secret value" if is_secret(at.loc) else describe(at.loc[-1] if at.on_key and at.loc else at.value)
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _no_choice(at, found)
    words, hint = _words(kind, context, at, found, secret=is_secret(at.loc))
    return Finding(at.loc, words or message, hint, at.on_key)


def describe(value: object) -> str:
    """What was found, in words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "`true`" if value else "`false`"
        case int() | Decimal():
            return f"the number {value}"
        case str():
            return f"the text `{shown(value)}`" if value else "an empty text"
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"


def _unknown_field(at: Place) -> Finding:
    name = str(at.loc[-1])
    names = field_names(at.around.model) if at.around is not None and at.around.model is not None else []
    if name in MATCHER_KEYS and (kind := next((key for key in MATCHER_KEYS if key in names), None)):
        return Finding(
            at.loc,
            f"a matcher says one thing: here are `{kind}` and `{name}`",
            "combine them: `{all_of: [{…}, {…}]}`",
            on_key=True,
        )
    return Finding(at.loc, f"unknown field `{shown(name)}`", did_you_mean(name, names), on_key=True)


def _no_choice(at: Place, found: str) -> Finding:
    """No member of a union fits, as the key that would tell which is missing."""
    tags = list(at.shape.choices) if at.shape is not None else []
    keys = [key for key in at.value if isinstance(key, str)] if isinstance(at.value, dict) else []
    if "pdf" in tags:
        return _no_content(at, keys, found)
    if "literal" in tags:
        if isinstance(at.value, list):
            return Finding(at.loc, "a list is no matcher", "several values that are right: `{one_of: [a, b]}`")
        if not keys:
            return Finding(at.loc, f"{found} is no matcher", "a matcher is a value or a mapping such as `{is: blank}`")
        hint = (
            _first_suggestion(keys, MATCHER_KEYS) or f"a matcher is a bare value or has one of {quoted(MATCHER_KEYS)}"
        )
        return Finding((*at.loc, keys[0]), f"unknown matcher `{shown(keys[0])}`", hint, on_key=True)
    if "integer" in tags or "one" in tags:
        return Finding(at.loc, f"a text, a number or `true`/`false` is needed, found {found}")
    if not isinstance(at.value, dict):
        example = "{dbf: 'C:\\DATA\\TABLE.DBF'}" if tuple(tags) == OBSERVABLE_KEYS else "{" + " or ".join(tags) + ": …}"
        return Finding(at.loc, f"a mapping is needed, found {found}", f"write `{example}`")
    needed = {"to": "`copy` or `text` with `to`"}
    words = ", ".join(needed.get(tag, f"`{tag}`") for tag in tags)
    return Finding(at.loc, f"one of {words} is needed here", _first_suggestion(keys, tags))


def _no_content(at: Place, keys: list[str], found: str) -> Finding:
    """A rule about a file's content whose kind is misspelt or left out."""
    unknown = [key for key in keys if key not in ("is", "because")]
    if not unknown:
        return Finding(at.loc, f"{found} is no rule about a file's content", f"it has one of {quoted(CONTENT_KEYS)}")
    hint = _first_suggestion(unknown, (*CONTENT_KEYS, *MATCHER_KEYS)) or f"it has one of {quoted(CONTENT_KEYS)}"
    return Finding((*at.loc, unknown[0]), f"`{shown(unknown[0])}` is no kind of content", hint, on_key=True)


def _first_suggestion(found: Iterable[str], names: Iterable[str]) -> str:
    possible = list(names)
    return next(filter(None, (did_you_mean(key, possible, most=0) for key in found)), "")


def _words(kind: str, context: Mapping[str, Any], at: Place, found: str, *, secret: bool) -> tuple[str, str]:
    """Message and hint for an error about one value; an empty message keeps Pydantic's (which is ours for own rules)."""
    match kind:
        case "string_type":
            return f"a text is needed, found {found}", "quote it" if isinstance(at.value, bool | int | Decimal) else ""
        case "int_type" | "int_from_float" | "int_parsing":
            return f"a whole number is needed, found {found}", _unquote(at.value)
        case "number_type" | "decimal_type" | "decimal_parsing" | "float_type":
            return f"a number is needed, found {found}", _unquote(at.value)
        case "bool_type":
            return f"`true` or `false` is needed, found {found}", "write it without quotes" if at.value in (
                "true",
                "false",
            ) else ""
        case "list_type" | "tuple_type":
            return f"a list is needed, found {found}", "write `[a, b]`, or lines that begin with `- `"
        case "dict_type" | "model_type" | "model_attributes_type" | "mapping_type":
            return f"a mapping is needed, found {found}", "write indented `name: value` lines, or `{name: value}`"
        case "literal_error":
            return _literal(str(context.get("expected", "")), at, found, secret=secret)
        case "string_pattern_mismatch":
            words, hint = _PATTERNS.get(
                str(context.get("pattern")), ("{found} does not have the form that is needed", "")
            )
            if isinstance(at.value, str) and any(char < " " for char in at.value):
                hint = r"in double quotes `\t`, `\n` and the like are control characters: use single quotes"
            return words.format(found=found), hint
        case "string_too_short":
            return "a text is needed, found an empty one" if not at.value else f"{found} is too short", _at_least(
                context, "character"
            )
        case "string_too_long":
            return "the text is too long", f"at most {context.get('max_length')} characters"
        case "too_short":
            return f"{found} with too few entries", f"at least {context.get('min_length')}"
        case "too_long":
            return f"{found} with too many entries", f"at most {context.get('max_length')}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            bound = context.get("gt", context.get("ge", context.get("lt", context.get("le"))))
            comparison = {
                "greater_than": "more than",
                "greater_than_equal": "at least",
                "less_than": "less than",
                "less_than_equal": "at most",
            }[kind]
            return f"{found} is out of range", f"{comparison} {bound}"
        case _:
            return "", ""


def _at_least(context: Mapping[str, Any], unit: str) -> str:
    least = context.get("min_length")
    return f"at least {least} {unit}s" if least != 1 else ""


def _unquote(value: object) -> str:
    is_digits = isinstance(value, str) and value.strip().isascii() and value.strip().replace(".", "", 1).isdigit()
    return "write it without quotes" if is_digits else ""


def _literal(expected: str, at: Place, found: str, *, secret: bool) -> tuple[str, str]:
    names = [name.strip("' ") for name in expected.replace(" or ", ", ").split(", ")]
    hint = did_you_mean(at.value, names, most=0) if isinstance(at.value, str) and not secret else ""
    if len(names) == 1:
        return f"this must be `{names[0]}`, found {found}", ""
    return f"one of {quoted(names)} is needed, found {found}", hint
