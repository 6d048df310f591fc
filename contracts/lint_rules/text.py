"""Rules about how texts are written: what looks right to a person and never fits, or fits everything."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date, datetime, time

from contracts.document import Plain, children, parse
from contracts.lint_rules.base import DATE_KINDS, Hit, Loc, Rule, View, ignored_paths, matches_everything, walk
from contracts.problems import shown
from contracts.schema import Between, CopyIn, DbfTable, FileTree, FileValue, Regex, RequireFile, SqlTable

_WORDS = frozenset({"title", "domain", "application", "schema", "image", "id"})
"""Parts of a contract that are read by people only, or have their own rules for characters."""
_FOR_PEOPLE = frozenset({"summary", "because", "unchecked", "goal"})


def _texts(view: View) -> Iterator[tuple[Loc, str]]:
    """The texts as the file has them, keys too, with the parameters' values as they are used."""
    written = parse(view.loaded.source, "").data
    assert isinstance(written, dict)  # it was loaded
    values: Plain = {name: value for name, value in view.contract.parameter_values.items()}  # noqa: C416 - of another type
    pending: list[tuple[Loc, Plain]] = [
        ((key,), values if key == "parameters" else value) for key, value in written.items() if key not in _WORDS
    ]
    while pending:
        loc, value = pending.pop()
        if loc[-1] in _FOR_PEOPLE and loc[0] != "parameters":
            continue
        if isinstance(loc[-1], str) and len(loc) > 1:
            yield loc, loc[-1]
        if isinstance(value, str):
            yield loc, value
        pending.extend(children(loc, value))


# --- characters -------------------------------------------------------------------------------------------------------------

_LOOK_ALIKES = dict(
    zip(
        "АВЕЅІЈКМНОРСТУХЗаеіјорсухѕһԁԛԝпΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορυβ",
        "ABESIJKMHOPCTYX3aeijopcyxshdqwnABEZHIKMNOPTYXavopuß",
        strict=True,
    )
)
"""Cyrillic and Greek letters with the Latin ones (and a digit) that they are taken for (Unicode TR 39, confusables)."""
_WORD = re.compile(r"[^\W\d_]+")


def _look_alike(view: View) -> Iterator[Hit]:
    for loc, text in _texts(view):
        if text.isascii():
            continue
        found = [_named(char, "cannot be seen or looks like an ordinary blank") for char in text if _is_invisible(char)]
        found += [_named(char, f"looks like `{_LOOK_ALIKES[char]}`") for char in _foreign(text)]
        if found:
            listed = "; ".join(list(dict.fromkeys(found))[:3])
            yield Hit(
                loc,
                f"a text holds characters that are easily mistaken: {listed}",
                "type the text anew, unless it is meant so",
            )


def _named(char: str, what: str) -> str:
    return f"U+{ord(char):04X} {unicodedata.name(char, 'without a name').lower()} {what}"


def _is_invisible(char: str) -> bool:
    """Formats such as zero-width blanks and soft hyphens, and blanks other than U+0020; tabs and line ends are no such thing."""
    kind = unicodedata.category(char)
    return kind in ("Cf", "Zl", "Zp", "Co", "Cn") or (kind == "Zs" and char != " ")


def _foreign(text: str) -> Iterator[str]:
    """Look-alikes in words with Latin letters, and those of words that consist of nothing else in a text without that script."""
    letters = {char for char in text if char.isalpha()}
    native = any(ord(char) > 0x36F and char not in _LOOK_ALIKES and _script(char) != "LATIN" for char in letters)
    for word in _WORD.findall(text):
        alike = [char for char in word if char in _LOOK_ALIKES]
        if alike and (any(_script(char) == "LATIN" for char in word) or (not native and len(alike) == len(word))):
            yield from alike


def _script(char: str) -> str:
    return unicodedata.name(char, "").partition(" ")[0]


def _decomposed(view: View) -> Iterator[Hit]:
    for loc, text in _texts(view):
        if not text.isascii() and (composed := unicodedata.normalize("NFC", text)) != text:
            char = next(new for old, new in zip(text, composed + "\0", strict=False) if old != new)
            named = f", such as `{char}`" if char.isprintable() and not view.is_secret(loc) else ""
            yield Hit(
                loc,
                f"letters are written in another normal form: as letter and accent, not as one character{named}",
                "type the text anew, or save the file in Unicode normal form C",
            )


def _slash(view: View) -> Iterator[Hit]:
    for loc, path in _paths(view):
        if "/" in path:
            yield Hit(
                loc, "a path is written with `/`", r"Windows' own spelling is `\`, in single quotes: 'C:\DSWIN\DATA'"
            )


def _paths(view: View) -> Iterator[tuple[Loc, str]]:
    for name, spec in view.contract.observe.items():
        loc: Loc = ("observe", name)
        if isinstance(spec, DbfTable):
            yield (*loc, "dbf"), spec.dbf
            yield from (((*loc, "owns", index), path) for index, path in enumerate(spec.owns))
        elif isinstance(spec, FileTree):
            yield (*loc, "files"), spec.files
        yield from (((*loc, "ignore", index, "path"), rule.path) for index, rule in enumerate(ignored_paths(spec)))
    state = view.contract.initial_state
    for index, step in enumerate(state.setup):
        if isinstance(step, CopyIn):
            yield ("initial_state", "setup", index, "to"), step.to
    for index, need in enumerate(state.require):
        if isinstance(need, RequireFile):
            yield ("initial_state", "require", index, "path"), need.path
    for placed in view.effects:
        for name, path in (("path", placed.effect.path), ("from", placed.effect.from_)):
            if path is not None:
                yield (*placed.loc, name), path
    for loc, rule in view.returned:
        if isinstance(rule, FileValue):
            yield (*loc, "path"), rule.path


# --- patterns and dates -----------------------------------------------------------------------------------------------------


def _matches_everything(view: View) -> Iterator[Hit]:
    for loc, matcher in view.matchers:
        if isinstance(matcher, Regex) and matches_everything(matcher.regex):
            yield Hit(
                (*loc, "regex"),
                "the regular expression matches everything",
                "write what the value must look like; what may be anything is `{is: any, because: …}`",
            )


_OTHER_DATE = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4}|\d{2})", re.ASCII)
_BEYOND_A_DAY = re.compile(r"-\d{2,3}|2[4-9]|[3-9]\d|\d{3}", re.ASCII)
"""Hours that no clock shows and SQL's times can have."""


def _clock(text: str) -> time:
    hours, rest = text.split(":", 1)
    return time.fromisoformat(f"00:{rest}" if _BEYOND_A_DAY.fullmatch(hours) else text)


_ISO = {
    "date": (re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII), date.fromisoformat, "1964-08-12"),
    "time": (
        re.compile(r"-?\d{2,3}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?", re.ASCII),
        _clock,
        "14:30:00",
    ),
    "datetime": (
        re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII),
        datetime.fromisoformat,
        "1964-08-12 14:30:00",
    ),
}


def _not_iso(view: View) -> Iterator[Hit]:
    for loc, observable, name, text in _literals(view):
        known = view.table(observable)
        kind = known.fields.get(name, "") if known is not None else ""
        if kind in DATE_KINDS and text:
            form, read, example = _ISO[kind]
            if not (form.fullmatch(text) and _reads(read, text)):
                what = {"date": "dates", "time": "times", "datetime": "dates with times"}[kind]
                hint = _iso(text) if kind == "date" and not view.is_secret(loc) else ""
                yield Hit(
                    loc,
                    f"`{shown(name)}` holds {what}, and this is none in ISO form: it would never match",
                    hint or f"write it like `{example}`",
                )


def _maybe_date(view: View) -> Iterator[Hit]:
    for loc, observable, name, text in _literals(view):
        if view.table(observable) is None and _OTHER_DATE.fullmatch(text):
            hint = "" if view.is_secret(loc) else _iso(text)
            yield Hit(
                loc,
                f"this looks like a date, and if `{shown(name)}` is a date field it would never match",
                (hint or "write dates as year-month-day") + "; with `--image` lint sees what the field holds",
            )


def _literals(view: View) -> Iterator[tuple[Loc, str, str, str]]:
    """Every text that is compared with a field of a table: place, observable, field, text."""
    for item in view.named:
        if isinstance(view.contract.observe.get(item.observable), DbfTable | SqlTable):
            for loc, matcher in walk(item.matcher, item.loc):
                if isinstance(matcher, str):
                    yield loc, item.observable, item.field, matcher
                elif isinstance(matcher, Between):
                    for index, bound in enumerate(matcher.between):
                        if isinstance(bound, str):
                            yield (*loc, "between", index), item.observable, item.field, bound


def _reads(read: object, text: str) -> bool:
    try:
        return callable(read) and read(text) is not None
    except ValueError:
        return False


def _iso(text: str) -> str:
    """The suggestion for a date in another form, where it is clear which date it is: with points the day comes first."""
    found = _OTHER_DATE.fullmatch(text)
    if found is None or found[2] != "." or len(found[4]) != 4:
        return ""
    try:
        return f"write it as `{date(int(found[4]), int(found[3]), int(found[1])).isoformat()}`"
    except ValueError:
        return ""


RULES = (
    Rule(
        "regex-matches-everything", "error",
        "A regular expression that matches everything, such as `.*`.",
        "It looks like a test and cannot fail.",
        "Write what the value must look like, or say that it may be anything, and why: `{is: any, because: …}`.",
        _matches_everything,
    ),
    Rule(
        "date-not-iso", "error",
        "A date or time in another form than ISO, for a field that holds dates or times.",
        "Dates are compared as dates, and only ISO texts are read as such: it would never match.",
        "Write `1964-08-12` for 12.08.1964, whatever the program shows.",
        _not_iso, needs_image=True,
    ),
    Rule(
        "maybe-date", "warning",
        "A text such as `12.08.1964` for a field of which nothing is known.",
        "If the field holds dates it would never match; if it holds texts, all is well.",
        "Write `1964-08-12`, or let lint look at the image (`--image`).",
        _maybe_date,
    ),
    Rule(
        "look-alike", "warning",
        "A text with invisible characters, unusual blanks, or Cyrillic or Greek letters that look like Latin ones.",
        "It looks right and never matches, or the agent is told to type what is not on the keyboard.",
        "Type the text anew.",
        _look_alike,
    ),
    Rule(
        "normal-form", "warning",
        "A text with umlauts or accents in another normal form: `u` and `◌̈` instead of `ü`.",
        "Texts are compared character by character, and Windows programs write one character.",
        "Type the text anew, or save the file in Unicode normal form C.",
        _decomposed,
    ),
    Rule(
        "forward-slash", "warning",
        "A path with `/`.",
        "It means the same as with a backslash here, and nowhere else on Windows; in the report it looks like two paths.",
        "Write backslashes, in single quotes.",
        _slash,
    ),
)  # fmt: skip
