"""Rules about effects: each must be able to fail, to be fulfilled, and not be taken out of sight by another rule."""

from __future__ import annotations

import ntpath
from collections.abc import Iterable, Iterator, Mapping

from contracts.globs import SEPARATOR, fold
from contracts.lint_rules.base import (
    STAR,
    Hit,
    Loc,
    Placed,
    Rule,
    View,
    accepts_all,
    exists_only,
    ignored_paths,
    is_literal,
    is_state,
    plain,
    same,
    walk,
)
from contracts.lint_rules.overlap import Overlap, either, of_contents, of_fields, of_matchers, of_paths, together
from contracts.lint_rules.paths import has_wildcard, is_broad
from contracts.problems import shown
from contracts.schema import (
    ROW_VERBS,
    AllOf,
    CsvValue,
    DbfTable,
    Effect,
    FileSize,
    FileText,
    FileTree,
    ImageContent,
    IniValue,
    Is,
    JsonValue,
    NumberNear,
    PdfContent,
    RegistryKey,
    Returned,
    RowValue,
    SqlTable,
    TextLike,
    Windows,
    XmlValue,
    parts,
)

_WHERE_IS_FIELDS = frozenset({"inserted", "created", "opened", "present", "deleted", "purged", "closed"})
"""Verbs whose ``where`` and ``fields`` look at the same state."""
_GONE = frozenset({"deleted", "purged", "closed"})
_TOTAL = frozenset({"inserted", "updated", "undeleted"})
_FINAL_STATES = frozenset({"present", "absent"})
_TABLE_FILES = frozenset({".dbf", ".dbt", ".fpt", ".cdx", ".mdx", ".ntx", ".ndx", ".idx"})
"""What a table owns (CONTRACT.md section 3): such files are not seen by a file tree."""


# --- tests nothing ----------------------------------------------------------------------------------------------------------


def _existence_only(view: View) -> Iterator[Hit]:
    for placed in view.listed("expect"):
        observable = view.observed(placed)
        why = hint = ""
        if isinstance(observable, FileTree):
            why, hint = _file_untested(view, placed)
        elif isinstance(observable, Windows):
            why, hint = _window_untested(placed.effect)
        elif isinstance(observable, RegistryKey):
            why, hint = _registry_untested(placed.effect)
        elif placed.effect.verb in ROW_VERBS:
            why, hint = _row_untested(placed.effect)
        if why:
            yield Hit(placed.loc, why, hint)


def _row_untested(effect: Effect) -> tuple[str, str]:
    if effect.verb in _GONE:
        if _says_something(effect.where) or _says_something(effect.fields):
            return "", ""
        return f"any row that is {effect.verb} would do", "say by `where` which row it is"
    rest = effect.fields.get(STAR)
    if rest is None or not accepts_all(rest) or any(_is_tested(effect, name) for name in effect.fields):
        return "", ""
    return (
        f"a row must be {effect.verb}, and nothing is said of what it holds",
        "name in `fields` what the agent had to enter",
    )


def _is_tested(effect: Effect, name: str) -> bool:
    """Whether a field's matcher can fail for a change that ``where`` selects."""
    matcher = effect.fields[name]
    if name == STAR or exists_only(matcher) or is_state(matcher, "unchanged"):
        return False
    return name not in effect.where or not same(matcher, effect.where[name])


def _file_untested(view: View, placed: Placed) -> tuple[str, str]:
    effect = placed.effect
    if effect.verb in ("created", "modified"):
        if any(_content_is_tested(rule) for rule in effect.contents):
            return "", ""
        if not effect.contents and effect.verb == "created" and _is_folder(view, placed):
            return "", ""
        return (
            f"a file must be {effect.verb}, and its content is not looked at",
            "judge it by `content`, e.g. `content: {text: …}`",
        )
    if effect.path is None and effect.from_ is None:
        return f"any file that is {effect.verb} would do", "say by `path` which file it is"
    return "", ""


def _content_is_tested(rule: object) -> bool:
    inner = [matcher for _, matcher in parts(rule)]
    match rule:
        case PdfContent():
            return rule.pdf.created is not None or any(not exists_only(matcher) for matcher in inner)
        case ImageContent():
            given = rule.image.model_dump(exclude_none=True, exclude={"width", "height"})
            return bool(given) or any(not exists_only(matcher) for matcher in inner)
        case FileText() | FileSize() | JsonValue() | XmlValue() | IniValue():
            return not exists_only(inner[0])
        case CsvValue():
            return not exists_only(rule.is_)
        case _:
            return not exists_only(rule)


def _is_folder(view: View, placed: Placed) -> bool:
    """Whether the path names a folder, as far as one can tell: a folder has no content that could be looked at."""
    path = placed.effect.path
    if path is None or has_wildcard(path):
        return False
    folder = fold(path).removeprefix(SEPARATOR)
    below = (other.effect.path for other in view.effects if other.effect.observable == placed.effect.observable)
    return "." not in folder.rpartition(SEPARATOR)[2] or any(
        fold(other).removeprefix(SEPARATOR).startswith(folder + SEPARATOR) for other in below if other is not None
    )


def _window_untested(effect: Effect) -> tuple[str, str]:
    if effect.verb == "absent":
        return "", ""
    if effect.verb == "retitled":
        if "title" in effect.fields and _is_tested(effect, "title"):
            return "", ""
        return (
            "a window must be retitled, and its new title is not looked at",
            "say it by `fields: {title: …}`; `where` looks at the old one",
        )
    if _says_something(effect.where) or _says_something(effect.fields):
        return "", ""
    state = effect.verb if effect.verb == "present" else f"that is {effect.verb}"
    return f"any window {state} would do", "say by `where: {title: …}` which window it is"


def _registry_untested(effect: Effect) -> tuple[str, str]:
    named = effect.where | effect.fields
    if effect.verb == "deleted":
        if effect.path is not None or _says_something(named):
            return "", ""
        return "any key or value that is deleted would do", "say by `path` which one it is"
    if plain(named.get("kind")) == "key":
        return "", ""
    looked_at = ("data", "hex") if effect.verb == "created" else ("data", "hex", "type", "volatile")
    if any(name in named and not exists_only(named[name]) for name in looked_at):
        return "", ""
    return (
        f"a value must be {effect.verb}, and its data is not looked at",
        "judge it by `fields: {data: …}`; for a key say `where: {kind: key}`",
    )


def _says_something(fields: Mapping[str, object]) -> bool:
    return any(not exists_only(matcher) for name, matcher in fields.items() if name != STAR)


def _repeats_where(view: View) -> Iterator[Hit]:
    for placed in view.listed("expect"):
        effect = placed.effect
        one_state = effect.verb in _WHERE_IS_FIELDS
        rest = effect.fields.get(STAR)
        for name, matcher in effect.fields.items():
            if name not in effect.where or accepts_all(matcher) or not same(matcher, effect.where[name]):
                continue
            if not one_state and (not is_literal(matcher) or (rest is not None and accepts_all(rest))):
                continue  # the same words about the state afterwards do say something
            hint = "leave it out of `where`" if effect.verb == "inserted" else "leave it out of `fields`"
            yield Hit(
                (*placed.loc, "fields", name),
                f"`where` has selected by `{shown(name)}` already: this cannot fail",
                f"{hint}, and test what the agent had to get right",
            )
    yield from _returned_repeats(view)


def _returned_repeats(view: View) -> Iterator[Hit]:
    """A returned value that is looked up by itself: whatever is returned, the row found by it holds it."""
    for loc, rule in view.returned:
        if isinstance(rule, RowValue) and len(loc) == 3:
            asked = plain(rule.where.get(rule.field))
            if isinstance(asked, Returned) and asked.returned == loc[-1]:
                yield Hit(
                    (*loc, "where", rule.field),
                    "the row is looked up by the returned value itself: whatever row it names, this cannot fail",
                    "select the row by what the task says of it",
                )


def _never_fits(view: View) -> Iterator[Hit]:
    for placed in view.listed("expect", "allow"):
        effect = placed.effect
        rest = effect.fields.get(STAR)
        if effect.verb == "updated" or (effect.verb == "modified" and effect.fields):
            held = rest is None or is_state(rest, "unchanged")
            if held and all(is_state(matcher, "unchanged") for matcher in effect.fields.values()):
                yield Hit(
                    placed.loc,
                    f"something must be {effect.verb}, and no field of it may change: nothing can fit",
                    "name in `fields` what changes, and how",
                )
        elif effect.verb == "inserted" and (rest is None or is_state(rest, "empty")):
            for name, matcher in effect.where.items():
                value = plain(matcher)
                if name not in effect.fields and is_literal(value) and value not in ("", 0, False):
                    yield Hit(
                        (*placed.loc, "where", name),
                        f"fields not named under `fields` must be empty, so no row fits that has a value in `{shown(name)}`",
                        "move it from `where` to `fields`",
                    )


# --- taken out of sight -----------------------------------------------------------------------------------------------------


_ENDS = {Overlap.WHOLE: "what", Overlap.PART: "a part of what", Overlap.UNKNOWN: "perhaps a part of what"}


def _covers_expected(view: View) -> Iterator[Hit]:
    yield from (hit for answer, hit in _covering(view) if answer is not Overlap.UNKNOWN)
    for placed in view.listed("expect"):
        observable = view.observed(placed)
        if placed.effect.when != "failure" and isinstance(observable, FileTree):
            yield from _owned(view, placed, observable)
    yield from _ignored_columns(view)


def _may_cover_expected(view: View) -> Iterator[Hit]:
    yield from (hit for answer, hit in _covering(view) if answer is Overlap.UNKNOWN)


def _covering(view: View) -> Iterator[tuple[Overlap, Hit]]:
    """What takes an expected effect, or a part of it, out of sight, or may do so."""
    for placed in view.listed("expect"):
        if placed.effect.when == "failure":
            continue
        yield from _ignored(view, placed)
        if placed.effect.verb in _FINAL_STATES:
            continue
        for other in view.listed("allow", "forbid"):
            answer = _overlap(other, placed.effect) if other.effect.when != "failure" else Overlap.NONE
            if answer is Overlap.NONE:
                continue
            what = f"{_ENDS[answer]} {_label(placed)} expects"
            if other.which == "allow":
                yield (
                    answer,
                    Hit(
                        other.loc,
                        f"this allows {what}: what goes wrong there would be allowed",
                        "narrow it so that it leaves out what is expected",
                    ),
                )
            else:
                yield (
                    answer,
                    Hit(
                        other.loc,
                        f"this forbids {what}, and what is forbidden can fill no expectation",
                        "narrow it so that it leaves out what is expected",
                    ),
                )


def _label(placed: Placed) -> str:
    name = placed.effect.name
    return f"`{name}`" if name else f"`{placed.effect.verb}: {placed.effect.observable}`"


def _ignored(view: View, placed: Placed) -> Iterator[tuple[Overlap, Hit]]:
    effect, observable = placed.effect, view.observed(placed)
    loc: Loc = ("observe", effect.observable)
    for index, rule in enumerate(ignored_paths(observable)):
        paths = [path for path in (effect.path, effect.from_) if path is not None]
        answer = either(of_paths(rule.path, path) for path in paths)
        if answer is not Overlap.NONE:
            yield answer, _out_of_sight(placed, answer, (*loc, "ignore", index, "path"), "narrow the pattern")
    if isinstance(observable, Windows):
        expected = effect.where | {
            name: matcher for name, matcher in effect.fields.items() if effect.verb != "retitled"
        }
        for index, window in enumerate(observable.windows.ignore):
            named = {"title": window.title, "class": window.class_, "program": window.program}
            answer = of_fields({name: m for name, m in named.items() if m is not None}, expected)
            if answer is not Overlap.NONE:
                yield answer, _out_of_sight(placed, answer, (*loc, "windows", "ignore", index), "narrow the rule")


def _out_of_sight(placed: Placed, answer: Overlap, loc: Loc, hint: str) -> Hit:
    return Hit(loc, f"this ignores {_ENDS[answer]} {_label(placed)} expects, which could never be seen", hint)


def _owned(view: View, placed: Placed, tree: FileTree) -> Iterator[Hit]:
    path = placed.effect.path
    if path is None or has_wildcard(path) or placed.effect.verb != "modified":
        return
    root = fold(ntpath.normpath(tree.files)).rstrip(SEPARATOR)
    stem, extension = ntpath.splitext(root + SEPARATOR + fold(path).removeprefix(SEPARATOR))
    for name, table in view.contract.observe.items():
        if isinstance(table, DbfTable) and extension.lower() in _TABLE_FILES:
            own = ntpath.splitext(fold(ntpath.normpath(table.dbf)))[0]
            if own == stem or (SEPARATOR not in path and "/" not in path and ntpath.basename(own) == fold(path)[:-4]):
                yield Hit(
                    (*placed.loc, "path"),
                    f"the file belongs to the table `{name}`, which tells its rows: it is never seen as modified",
                    f"speak of the rows, e.g. `updated: {name}`",
                )


def _ignored_columns(view: View) -> Iterator[Hit]:
    for item in view.named:
        spec = view.contract.observe.get(item.observable)
        if isinstance(spec, SqlTable):
            for index, rule in enumerate(spec.ignore):
                if rule.column == item.field:
                    yield Hit(
                        ("observe", item.observable, "ignore", index, "column"),
                        f"this ignores the column `{shown(item.field)}`, of which a rule speaks",
                        "take one of the two away",
                    )


def _overlap(wide: Placed, narrow: Effect) -> Overlap:
    """What an allowed or forbidden effect has to do with the changes that an expected one would claim."""
    rule = wide.effect
    if (rule.verb, rule.observable) != (narrow.verb, narrow.observable):
        return Overlap.NONE
    is_forbidden = wide.which == "forbid"
    if narrow.verb in _TOTAL:
        names = {STAR, *rule.fields, *narrow.fields}
        fields = together(of_matchers(_asked_of(rule, n, forbidden=is_forbidden), _asked_of(narrow, n)) for n in names)
    else:
        fields = of_fields({n: m for n, m in rule.fields.items() if n != STAR}, _known(narrow, rule.fields))
    return together(
        [
            of_paths(rule.path, narrow.path),
            of_paths(rule.from_, narrow.from_),
            of_contents(rule.contents, narrow.contents),
            of_fields(rule.where, _known(narrow, rule.where) if narrow.verb in _WHERE_IS_FIELDS else narrow.where),
            fields,
        ]
    )


def _known(effect: Effect, names: Iterable[str]) -> dict[str, object]:
    """What an effect says of some fields, by whatever key; of new rows every field is known."""
    selected = effect.where if effect.verb in _WHERE_IS_FIELDS else {}
    said = {n: _asked_of(effect, n) for n in names if effect.verb == "inserted" or n in effect.fields}
    return said | {name: _both(matcher, said.get(name)) for name, matcher in selected.items()}


def _both(one: object, other: object | None) -> object:
    return one if other is None or accepts_all(other) else AllOf.model_construct(all_of=[one, other])


_EMPTY = Is.model_validate({"is": "empty"})
_UNCHANGED = Is.model_validate({"is": "unchanged"})
_ANYTHING = Is.model_validate({"is": "any", "because": "it is not looked at"})


def _asked_of(effect: Effect, name: str, *, forbidden: bool = False) -> object:
    """The matcher of a field, named or not; what is forbidden looks at unnamed fields only where it says so."""
    rest = _EMPTY if effect.verb == "inserted" else _UNCHANGED
    is_total = not forbidden and (effect.verb in _TOTAL or (effect.verb == "modified" and bool(effect.fields)))
    return effect.fields.get(name, effect.fields.get(STAR, rest if is_total else _ANYTHING))


def _broad(view: View) -> Iterator[Hit]:
    for name, observable in view.contract.observe.items():
        for index, rule in enumerate(ignored_paths(observable)):
            if is_broad(rule.path):
                yield Hit(
                    ("observe", name, "ignore", index, "path"),
                    f"nearly everything in `{name}` is ignored",
                    "name the files or folders that are meant",
                )
    for placed in view.listed("expect", "allow"):
        effect, observable = placed.effect, view.observed(placed)
        verb = f"{placed.which} `{effect.verb}: {effect.observable}`"
        if effect.path is not None and is_broad(effect.path):
            yield Hit((*placed.loc, "path"), f"nearly every path fits: {verb} means any", "name the files or folders")
        elif placed.which == "allow" and not _narrows(effect, observable):
            yield Hit(placed.loc, f"nothing narrows this: {verb} means any", _NARROW.get(type(observable), ""))
    for stage, evidence in view.contract.stages.items():
        if evidence.window is not None and not evidence.window.title.strip("*? "):
            yield Hit(
                ("stages", stage, "window", "title"),
                "every window's title fits",
                "name the window that shows the stage",
            )


_NARROW = {
    FileTree: "name the file by `path`",
    RegistryKey: "name the key or value by `path`",
    Windows: "say by `where: {title: …}` which window it is",
    DbfTable: "say by `where` which row it is, or by `fields` what it may hold",
    SqlTable: "say by `where` which row it is, or by `fields` what it may hold",
}


def _narrows(effect: Effect, observable: object) -> bool:
    """Whether an allowed effect says of which changes it speaks."""
    if isinstance(observable, FileTree):
        return effect.path is not None or effect.from_ is not None
    if isinstance(observable, RegistryKey) and effect.path is not None:
        return True
    if _says_something(effect.where) or _says_something(effect.fields):
        return True
    if effect.verb in _TOTAL:
        return STAR not in effect.fields or not accepts_all(effect.fields[STAR])
    return isinstance(observable, DbfTable | SqlTable) and effect.verb not in ROW_VERBS


# --- identity ---------------------------------------------------------------------------------------------------------------


def _no_identity(view: View) -> Iterator[Hit]:
    for placed in view.effects:
        observable = view.observed(placed)
        if placed.effect.verb != "updated" or view.key(placed.effect.observable):
            continue
        known = view.table(placed.effect.observable)
        if isinstance(observable, DbfTable) or (isinstance(observable, SqlTable) and known is not None):
            yield Hit(
                (*placed.loc, "updated"),
                f"nothing tells which row of `{placed.effect.observable}` is which: once rows move there are no updates, "
                "only rows that went away and others that came",
                f"declare under `observe.{placed.effect.observable}` the fields that identify a row: `key: […]`",
            )


def _bad_key(view: View) -> Iterator[Hit]:
    for name, spec in view.contract.observe.items():
        if not isinstance(spec, DbfTable | SqlTable):
            continue
        if "key" in spec.model_fields_set and not spec.key:
            yield Hit(
                ("observe", name, "key"),
                "an empty key identifies nothing: rows are told apart by their place or content, as without one",
                "name the fields that identify a row, or leave `key` out",
            )
        for index, column in enumerate(spec.key):
            if column in spec.key[:index]:
                yield Hit(("observe", name, "key", index), f"`{shown(column)}` is named twice", "name each field once")


def _loose_key(view: View) -> Iterator[Hit]:
    for item in view.named:
        if item.field in view.key(item.observable):
            for loc, matcher in walk(item.matcher, item.loc):
                loose = isinstance(matcher, NumberNear) and (matcher.tolerance or matcher.relative)
                if loose or (isinstance(matcher, TextLike) and matcher.normalise):
                    yield Hit(
                        loc,
                        f"`{shown(item.field)}` identifies a row of `{item.observable}`, and a neighbour's would do as well",
                        "write the exact value",
                    )


RULES = (
    Rule(
        "existence-only", "error",
        "An expected effect tests only that something is there: every field accepts anything, or the content of a file, a "
        "value's data or a window's new title is not looked at.",
        "A run that enters the wrong thing would pass. Such free credit is what makes scores of agents worthless.",
        "Test at least one thing that the agent had to get right: a field, the content, the data.",
        _existence_only,
    ),
    Rule(
        "repeats-where", "error",
        "An expected effect tests by `fields` what its `where` has selected by, or a returned value is looked up by itself.",
        "It holds of every change that is looked at, so that it looks like a test and cannot fail.",
        "Leave one of the two out.",
        _repeats_where,
    ),
    Rule(
        "never-fits", "error",
        "An effect that no change can satisfy: something is updated and no field may change, or a row is inserted with a value in "
        "a field that must be empty.",
        "No run could ever succeed.",
        "Say by `fields` what changes and how; unnamed fields are empty in new rows and unchanged in others.",
        _never_fits,
    ),
    Rule(
        "covers-expected", "error",
        "An `ignore`, `allow` or `forbid` covers what an effect expects or a part of it, or a file tree is expected to show what "
        "belongs to a table.",
        "What is ignored is never seen, and what is forbidden fills no expectation, so that the effect is always missing; what is "
        "allowed may be wrong.",
        "Narrow the pattern so that it leaves out what is expected.",
        _covers_expected,
    ),
    Rule(
        "may-cover-expected", "warning",
        "An `ignore`, `allow` or `forbid` of which nobody can tell without a run whether it covers what an effect expects.",
        "If it does, the effect is missing, or may be wrong, in some runs and not in others.",
        "Say more on both sides, so that they can be told apart: a value, a pattern, a range.",
        _may_cover_expected,
    ),
    Rule(
        "no-identity", "error",
        "`updated` on a table without a key.",
        "Rows are then told apart by their place, or only by their content: an update may be seen as a row gone and another come.",
        "Declare the key of the table.",
        _no_identity,
    ),
    Rule(
        "bad-key", "error",
        "A `key` that is empty, or that names a field twice.",
        "It looks as if rows were identified, and they are not, or not by what was meant.",
        "Name the fields that identify a row, each once.",
        _bad_key,
    ),
    Rule(
        "broad-pattern", "warning",
        "A pattern, or an allowed effect without one, that covers nearly everything.",
        "What an agent must not touch is covered by it too.",
        "Name the files, rows or windows that are meant.",
        _broad,
    ),
    Rule(
        "loose-key", "warning",
        "A tolerance or a normalisation on a field that identifies rows.",
        "The neighbouring row would be accepted in place of the right one.",
        "Write the exact value.",
        _loose_key,
    ),
)  # fmt: skip
