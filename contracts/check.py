"""Rules that need the whole contract: what makes it unusable although each element has the right form.

Names must lead somewhere, verbs must be possible for what they speak of, and every matcher must have what it compares with.
Whether a usable contract is a *good* one, one that can fail, is for lint to say.
"""

from __future__ import annotations

import codecs
import encodings.aliases
import ntpath
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from contracts.globs import compile_glob, fold
from contracts.problems import Finding, Loc, did_you_mean, quoted, shown
from contracts.schema import (
    REGISTRY_FIELDS,
    ROW_VERBS,
    TABLE_VERBS,
    VERBS,
    Computed,
    CopyIn,
    Count,
    CountRange,
    CsvAt,
    DbfTable,
    Effect,
    FieldOf,
    FileText,
    FileTree,
    FileValue,
    Generated,
    ImageContent,
    IniAt,
    Is,
    JsonAt,
    Observable,
    RegistryKey,
    RequireFile,
    RequireRows,
    RequireWindow,
    Returned,
    Returns,
    RowValue,
    SqlTable,
    TaskContract,
    TimeRun,
    Windows,
    XmlAt,
    parts,
)

DBF_ENCODINGS = ("kamenicky", "mazovia")
"""Encodings of DBF files that Python has no codec for; the DBF reader brings them."""

_FINAL_STATES = frozenset({"present", "absent"})
_COMPARES_BEFORE_AND_AFTER = frozenset({"updated", "undeleted", "retitled", "modified"})
"""``modified`` with fields speaks of the registry; files have none."""
_GENERATES = frozenset({"inserted", "updated", "undeleted"})
_HAS_CONTENT = frozenset({"created", "modified", "renamed"})
_HAS_FIELDS = ROW_VERBS | frozenset({"opened", "closed", "retitled", "present"})
_NO_TEXT_CODECS = frozenset(
    {"idna", "mbcs", "oem", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7", "utf-7"}
)
_KINDS = {
    "dbf": "a DBF table", "files": "a file tree", "windows": "windows", "registry": "a registry key",
    "sql": "an SQL table",
}  # fmt: skip
_TABLES = ("dbf", "sql")
"""Kinds of observables that have rows."""
_MAX_SCHEMA_NODES = 2_000
_JSON_SCHEMA = "https://json-schema.org/draft/2020-12/schema"


def check(contract: TaskContract) -> list[Finding]:
    """Finds what makes a contract unusable; an empty list if nothing does."""
    checker = _Checker(contract)
    return [
        *checker.observables(),
        *checker.initial_state(),
        *checker.effects(),
        *checker.returns(),
        *checker.stages(),
    ]


def text_encoding_known(name: str) -> bool:
    """Whether Python has a codec of that name which turns bytes into text."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:-]*", name):
        return False
    try:
        "a".encode(name)  # refuses codecs that are not between bytes and text, unlike codecs.lookup()
        return codecs.lookup(name).name not in _NO_TEXT_CODECS
    except (LookupError, ValueError):
        return False


def _kind(observable: Observable) -> str:
    match observable:
        case DbfTable():
            return "dbf"
        case FileTree():
            return "files"
        case RegistryKey():
            return "registry"
        case SqlTable():
            return "sql"
        case _:
            return "windows"


def _registry_place(spec: RegistryKey) -> str:
    """Where a key lies in the view of 64-bit programs: there it shows what two names, or two views, have in common."""
    key, software = fold(spec.registry) + "\\", "HKLM\\SOFTWARE\\"
    if key.startswith("HKCR\\"):  # a merger of these and the user's own classes
        key = f"{software}CLASSES\\{key[len('HKCR') + 1 :]}"
    if spec.view == 32 and key.startswith(software):
        key = f"{software}WOW6432NODE\\{key.removeprefix(software)}"
    return key.rstrip("\\")


def _encoding(name: str, loc: Loc, extra: tuple[str, ...] = ()) -> Iterator[Finding]:
    if not text_encoding_known(name) and name not in extra:
        names = [*extra, *sorted(set(encodings.aliases.aliases.values()) - _NO_TEXT_CODECS)]
        hint = did_you_mean(name, names) or "use a name that Python knows, such as `cp850` or `cp1252`"
        yield Finding(loc, f"the encoding `{shown(name)}` is not known", hint)


def _matchers(matcher: object, loc: Loc) -> Iterator[tuple[Loc, object]]:
    """A matcher and those within it, with their places."""
    yield loc, matcher
    for where, item in parts(matcher):
        yield from _matchers(item, (*loc, *where))


def _content_places(effect: Effect, loc: Loc) -> Iterator[tuple[Loc, object]]:
    """The rules about a file's content, with their places."""
    for index, rule in enumerate(effect.contents):
        yield (*loc, "content", index) if isinstance(effect.content, list) else (*loc, "content"), rule


def _encoding_of(rule: object, loc: Loc) -> Iterator[Finding]:
    """The encoding that a rule about a file's content declares."""
    if isinstance(rule, FileText | JsonAt | XmlAt | IniAt) and rule.encoding is not None:
        yield from _encoding(rule.encoding, (*loc, "encoding"))
    elif isinstance(rule, CsvAt) and rule.csv.encoding is not None:
        yield from _encoding(rule.csv.encoding, (*loc, "csv", "encoding"))


def _leaves_folder(path: str) -> bool:
    names = path.replace("\\", "/").split("/")
    return path[:1] in ("/", "\\") or path[1:2] == ":" or ".." in names


def _in_fields(fields: Mapping[str, object], loc: Loc) -> Iterator[tuple[Loc, object]]:
    for name, matcher in fields.items():
        yield from _matchers(matcher, (*loc, name))


def _at_most(count: Count | None) -> int | None:
    return count.max if isinstance(count, CountRange) else count


def _is_single(effect: Effect) -> bool:
    count = effect.count
    return count is None or count == 1 or (isinstance(count, CountRange) and count.min == count.max == 1)


class _Checker:
    """The rules, one method for each part of the contract."""

    def __init__(self, contract: TaskContract) -> None:
        self._contract = contract
        self._observe = contract.observe
        effects = contract.effects
        self._lists = (("expect", effects.expect), ("allow", effects.allow), ("forbid", effects.forbid))
        self._named: dict[str, tuple[str, int, Effect]] = {}
        for which, items in self._lists:
            for index, effect in enumerate(items):
                if effect.name is not None:
                    self._named.setdefault(effect.name, (which, index, effect))

    # --- observables ------------------------------------------------------------------------------------------------

    def observables(self) -> Iterator[Finding]:
        """Each thing is observed once, in an encoding that exists."""
        tables: dict[str, str] = {}
        trees: list[tuple[str, str, FileTree]] = []
        scopes: list[tuple[str, Windows]] = []
        keys: list[tuple[str, str, RegistryKey]] = []
        sql: dict[tuple[str, str], str] = {}
        for name, observable in self._observe.items():
            loc: Loc = ("observe", name)
            match observable:
                case DbfTable():
                    if observable.encoding is not None:
                        yield from _encoding(observable.encoding, (*loc, "encoding"), DBF_ENCODINGS)
                    other = tables.setdefault(fold(ntpath.normpath(observable.dbf)), name)
                    if other != name:
                        yield Finding((*loc, "dbf"), f"`{other}` is the same table", "observe it once")
                case FileTree():
                    root = fold(ntpath.normpath(observable.files)).rstrip("\\")
                    for other, other_root, other_tree in trees:
                        yield from self._overlap((*loc, "files"), (root, observable), (other, other_root, other_tree))
                    trees.append((name, root, observable))
                case RegistryKey():
                    key = _registry_place(observable)
                    for other, other_key, other_spec in keys:
                        yield from self._overlap((*loc, "registry"), (key, observable), (other, other_key, other_spec))
                    keys.append((name, key, observable))
                case SqlTable():
                    yield from self._sql(name, observable, sql)
                case Windows():
                    for other, scope in scopes:
                        if scope == observable:
                            yield Finding(loc, f"`{other}` observes the same windows", "observe them once")
                    scopes.append((name, observable))

    @staticmethod
    def _sql(name: str, table: SqlTable, seen: dict[tuple[str, str], str]) -> Iterator[Finding]:
        loc: Loc = ("observe", name)
        other = seen.setdefault((table.sql, table.table), name)
        if other != name:
            yield Finding((*loc, "table"), f"`{other}` is the same table", "observe it once")
        ignored = [rule.column for rule in table.ignore]
        for index, column in enumerate(table.key):
            if column in table.key[:index]:
                yield Finding((*loc, "key", index), f"`{shown(column)}` is named twice")
        for index, column in enumerate(ignored):
            if column in ignored[:index]:
                yield Finding((*loc, "ignore", index, "column"), f"`{shown(column)}` is ignored twice")
            if column in table.key:
                yield Finding(
                    (*loc, "ignore", index, "column"), f"`{shown(column)}` is in the key and cannot be ignored"
                )

    @staticmethod
    def _overlap(
        loc: Loc, this: tuple[str, FileTree | RegistryKey], other: tuple[str, str, FileTree | RegistryKey]
    ) -> Iterator[Finding]:
        root, tree = this
        name, other_root, other_tree = other
        noun = "folder" if isinstance(tree, FileTree) else "key"
        if root == other_root:
            yield Finding(loc, f"`{name}` is the same {noun}", "observe it once")
            return
        for inner, outer, outer_tree in ((root, other_root, other_tree), (other_root, root, tree)):
            if not inner.startswith(outer + "\\"):
                continue
            # A change within both would have to be accounted for twice, unless the outer tree leaves the inner one out.
            relative = inner[len(outer) + 1 :]
            probes = (relative + "\\_", relative + "\\_\\_")
            if not any(all(map(compile_glob(rule.path), probes)) for rule in outer_tree.ignore):
                yield Finding(
                    loc,
                    f"this {noun} and that of `{name}` lie within each other, so that a change would count twice",
                    rf"observe the outer one only, or let it `ignore: [{{path: '{shown(relative)}\**', because: …}}]`",
                )

    def _lookup(self, name: str, loc: Loc, *kinds: str) -> Iterator[Finding]:
        observable = self._observe.get(name)
        if observable is None:
            names = [n for n, o in self._observe.items() if not kinds or _kind(o) in kinds]
            yield Finding(loc, f"nothing is observed as `{name}`", did_you_mean(name, names))
        elif kinds and _kind(observable) not in kinds:
            wanted = " or ".join(_KINDS[kind] for kind in kinds)
            yield Finding(loc, f"`{name}` is {_KINDS[_kind(observable)]}, and {wanted} must be named here")

    # --- initial state ----------------------------------------------------------------------------------------------

    def initial_state(self) -> Iterator[Finding]:
        """Requirements speak of observables, by what is known before the run."""
        state = self._contract.initial_state
        for index, step in enumerate(state.setup):
            if isinstance(step, CopyIn):
                loc: Loc = ("initial_state", "setup", index)
                if step.copy_ is not None and _leaves_folder(step.copy_):
                    yield Finding(
                        (*loc, "copy"),
                        "the path leaves the contract's folder",
                        "name a file beside or below the contract",
                    )
                yield from _encoding(step.encoding, (*loc, "encoding"))
        for index, window in enumerate(state.start):
            for loc, matcher in _matchers(window.window, ("initial_state", "start", index, "window")):
                yield from self._before_the_run(loc, matcher)
        for index, need in enumerate(state.require):
            loc = ("initial_state", "require", index)
            match need:
                case RequireRows():
                    yield from self._lookup(need.rows, (*loc, "rows"), *_TABLES)
                case RequireFile():
                    yield from self._lookup(need.files, (*loc, "files"), "files")
                case RequireWindow():
                    yield from self._lookup(need.windows, (*loc, "windows"), "windows")
            if not isinstance(need, RequireFile):
                yield from self._where(need.where, (*loc, "where"), before_the_run=True)

    @staticmethod
    def _before_the_run(loc: Loc, matcher: object) -> Iterator[Finding]:
        if isinstance(matcher, Returned | FieldOf | TimeRun):
            yield Finding(
                loc, "this is known only after the run", "the initial state is checked before the agent starts"
            )

    def _where(self, where: Mapping[str, object], loc: Loc, *, before_the_run: bool = False) -> Iterator[Finding]:
        if "*" in where:
            yield Finding((*loc, "*"), '`"*"` has no meaning in `where`', "name the fields that select", on_key=True)
        for place, matcher in _in_fields(where, loc):
            if isinstance(matcher, Generated):
                yield Finding(place, "`generated` cannot select", "put it into `fields`")
            elif isinstance(matcher, Is) and matcher.is_ in ("unchanged", "changed"):
                yield Finding(
                    place, f"`{{is: {matcher.is_}}}` cannot select", "`where` looks at one state; put it into `fields`"
                )
            elif before_the_run:
                yield from self._before_the_run(place, matcher)

    # --- effects ----------------------------------------------------------------------------------------------------

    def effects(self) -> Iterator[Finding]:
        """Verbs fit what they speak of, and references lead to one change of an expected effect."""
        for which, items in self._lists:
            for index, effect in enumerate(items):
                loc: Loc = ("effects", which, index)
                yield from self._name(effect, which, index, loc)
                yield from self._verb(effect, loc)
                yield from self._bounds(effect, which, loc)
                yield from self._matching(effect, which, loc)
        yield from self._cycles()

    def _name(self, effect: Effect, which: str, index: int, loc: Loc) -> Iterator[Finding]:
        if effect.name is not None and self._named[effect.name][:2] != (which, index):
            yield Finding((*loc, "name"), f"another effect is named `{effect.name}`", "give each its own name")
        if which == "allow" and not effect.reason:
            yield Finding(loc, "an allowed effect needs `because: …` (or `noise: <list id>`)", "say why it may happen")

    def _verb(self, effect: Effect, loc: Loc) -> Iterator[Finding]:
        place = (*loc, effect.verb)
        observable = self._observe.get(effect.observable)
        if observable is None:
            kinds = [n for n, o in self._observe.items() if effect.verb in o.verbs]
            yield Finding(
                place,
                f"nothing is observed as `{effect.observable}`",
                did_you_mean(effect.observable, kinds or list(self._observe)),
            )
            return
        if effect.verb not in observable.verbs:
            possible = [verb for verb in VERBS if verb in observable.verbs]
            yield Finding(
                place,
                f"`{effect.observable}` is {_KINDS[_kind(observable)]}, which cannot be `{effect.verb}`",
                f"possible: {quoted(possible)}",
                on_key=True,
            )
            return
        is_files, is_registry = isinstance(observable, FileTree), isinstance(observable, RegistryKey)
        for name in ("path", "from_", "content"):
            if getattr(effect, name) is not None and not is_files and not (is_registry and name == "path"):
                only = "files and the registry" if name == "path" else "files"
                yield Finding((*loc, name.rstrip("_")), f"`{name.rstrip('_')}` is for {only} only", on_key=True)
        for name in ("where", "fields"):
            if getattr(effect, name) and (is_files or (effect.verb in TABLE_VERBS and not is_registry)):
                yield Finding(
                    (*loc, name),
                    f"`{name}` is for rows, windows and the registry only",
                    "select files by `path`, judge them by `content`" if is_files else "",
                    on_key=True,
                )
        if is_registry:
            yield from self._registry_effect(effect, loc)
        if is_files:
            yield from self._file_effect(effect, loc)

    @staticmethod
    def _registry_effect(effect: Effect, loc: Loc) -> Iterator[Finding]:
        for part in ("where", "fields"):
            for name in getattr(effect, part):
                place = (*loc, part, name)
                if name == "*" and part == "fields" and effect.verb == "created":
                    yield Finding(
                        place, '`"*"` has no meaning for `created` in the registry', "name the fields", on_key=True
                    )
                elif name != "*" and name not in REGISTRY_FIELDS:
                    hint = did_you_mean(name, REGISTRY_FIELDS)
                    yield Finding(place, f"a change of the registry has no field `{shown(name)}`", hint, on_key=True)

    @staticmethod
    def _file_effect(effect: Effect, loc: Loc) -> Iterator[Finding]:
        if effect.from_ is not None and effect.verb != "renamed":
            yield Finding((*loc, "from"), "`from` is for `renamed` only", "`path` names the file", on_key=True)
        if effect.content is not None and effect.verb not in _HAS_CONTENT:
            yield Finding(
                (*loc, "content"),
                f"`content` is what the file holds afterwards, and `{effect.verb}` leaves none to judge",
                f"possible with {quoted(sorted(_HAS_CONTENT))}",
                on_key=True,
            )
        if isinstance(effect.content, list) and not effect.content:
            yield Finding((*loc, "content"), "an empty list looks at nothing", "leave it out")
        for place, rule in _content_places(effect, loc):
            yield from _encoding_of(rule, place)
            if isinstance(rule, ImageContent) and rule.image.like is not None and _leaves_folder(rule.image.like):
                yield Finding(
                    (*place, "image", "like"),
                    "the path leaves the contract's folder",
                    "name a picture beside or below the contract",
                )

    @staticmethod
    def _bounds(effect: Effect, which: str, loc: Loc) -> Iterator[Finding]:
        if effect.verb in _FINAL_STATES:
            if which != "expect":
                other = "absent" if effect.verb == "present" else "present"
                yield Finding(
                    (*loc, effect.verb),
                    f"`{effect.verb}` is a final state, which can only be expected",
                    "to allow windows that open or close use `opened` or `closed`"
                    if which == "allow"
                    else f"expect `{other}` instead",
                    on_key=True,
                )
            if effect.count is not None:
                yield Finding(
                    (*loc, "count"), f"`{effect.verb}` is a state and has no `count`", "leave it out", on_key=True
                )
        elif which == "expect" and _at_most(effect.count) == 0:
            yield Finding(
                (*loc, "count"), "an expected effect that claims nothing", "what must not happen belongs to `forbid`"
            )
        elif which == "forbid" and effect.count is not None:
            yield Finding(
                (*loc, "count"), "what is forbidden is forbidden once and many times", "leave `count` out", on_key=True
            )

    def _matching(self, effect: Effect, which: str, loc: Loc) -> Iterator[Finding]:
        yield from self._where(effect.where, (*loc, "where"))
        if "*" in effect.fields and effect.verb in ("deleted", "purged"):
            yield Finding(
                (*loc, "fields", "*"), f'`"*"` has no meaning for `{effect.verb}`', "the row is gone", on_key=True
            )
        if effect.fields and effect.verb == "absent":
            yield Finding(
                (*loc, "fields"), "a window that is absent has no fields", "select it by `where`", on_key=True
            )
        for place, matcher in self._all_matchers(effect, loc):
            yield from self._needs_two_states(matcher, place, effect, part=str(place[len(loc)]))
            if isinstance(matcher, FieldOf):
                yield from self._reference(matcher, place, effect, which)
            elif isinstance(matcher, Returned):
                yield from self._returned(matcher.returned, place)

    @staticmethod
    def _needs_two_states(matcher: object, loc: Loc, effect: Effect, *, part: str) -> Iterator[Finding]:
        """`generated`, `changed` and `unchanged` compare with the state before; ``where`` refuses them anyway."""
        if part == "where":
            return
        if isinstance(matcher, Generated) and (part == "content" or effect.verb not in _GENERATES):
            yield Finding(
                loc, "`generated` needs a row that is there afterwards", f"possible with {quoted(sorted(_GENERATES))}"
            )
        if isinstance(matcher, Is) and matcher.is_ in ("unchanged", "changed"):
            if part == "content":
                yield Finding(loc, f"`{{is: {matcher.is_}}}` is not for `content`", "`modified` says that it changed")
            elif effect.verb not in _COMPARES_BEFORE_AND_AFTER:
                yield Finding(
                    loc,
                    f"`{{is: {matcher.is_}}}` needs the states before and after, and `{effect.verb}` has only one",
                    f"possible with {quoted(sorted(_COMPARES_BEFORE_AND_AFTER))}",
                )

    @staticmethod
    def _all_matchers(effect: Effect, loc: Loc) -> Iterator[tuple[Loc, object]]:
        yield from _in_fields(effect.where, (*loc, "where"))
        yield from _in_fields(effect.fields, (*loc, "fields"))
        for place, rule in _content_places(effect, loc):
            yield from _matchers(rule, place)

    def _reference(self, matcher: FieldOf, loc: Loc, source: Effect | None, which: str) -> Iterator[Finding]:
        """A ``{field: effect.FIELD}``; ``source`` is the effect that it stands in, ``None`` for a returned value."""
        place = (*loc, "field")
        if which == "forbid":
            yield Finding(
                place, "a forbidden effect cannot refer to another", "`forbid` is decided before anything is claimed"
            )
            return
        if matcher.effect not in self._named:
            names = [name for name, (where, _, _) in self._named.items() if where == "expect"]
            yield Finding(
                place,
                f"no effect is named `{matcher.effect}`",
                did_you_mean(matcher.effect, names) or "give it with `name: …`",
            )
            return
        where, _, target = self._named[matcher.effect]
        if target is source:
            yield Finding(place, "an effect cannot refer to itself")
        elif where != "expect":
            yield Finding(
                place, f"`{matcher.effect}` stands in `{where}`, and only an expected effect is sure to claim a change"
            )
        elif target.verb not in _HAS_FIELDS and not isinstance(self._observe.get(target.observable), RegistryKey):
            yield Finding(place, f"`{matcher.effect}` speaks of `{target.verb}`, which has no fields")
        elif not _is_single(target):
            yield Finding(
                place,
                f"`{matcher.effect}` may claim several changes",
                "only an effect with `count: 1` can be referred to",
            )
        elif target.when is not None and (source is None or source.when != target.when):
            holds = "success" if source is None else source.when
            if not (target.when == "success" and holds in (None, "success")):
                yield Finding(
                    place, f"`{matcher.effect}` holds for a {target.when} only", "give both effects the same `when`"
                )

    def _cycles(self) -> Iterator[Finding]:
        """Effects that wait for each other; an effect that refers to itself has its own message."""
        edges: dict[str, dict[str, Loc]] = {}
        for name, (which, index, effect) in self._named.items():
            edges[name] = {}
            for place, matcher in self._all_matchers(effect, ("effects", which, index)):
                if isinstance(matcher, FieldOf) and matcher.effect in self._named and matcher.effect != name:
                    edges[name].setdefault(matcher.effect, (*place, "field"))
        try:
            TopologicalSorter(edges).prepare()
        except CycleError as error:
            circle: list[str] = error.args[1]  # each is referred to by the next
            yield Finding(
                edges[circle[1]][circle[0]],
                f"effects refer to each other in a circle: {quoted(sorted(set(circle)))}",
                "remove one of the references",
            )

    # --- returned values --------------------------------------------------------------------------------------------

    def _returned(self, name: str, loc: Loc) -> Iterator[Finding]:
        returns = self._contract.returns
        if returns is None:
            yield Finding((*loc, "returned"), "the contract has no `returns`", "declare what the agent returns")
            return
        declared = self._properties(returns)
        if name not in declared and name not in returns.expect:
            yield Finding(
                (*loc, "returned"),
                f"`{shown(name)}` is not among the returned values",
                did_you_mean(name, sorted({*declared, *returns.expect}))
                or "declare it under `returns.schema.properties`",
            )

    @staticmethod
    def _properties(returns: Returns) -> list[str]:
        properties = returns.schema_.get("properties")
        return list(properties) if isinstance(properties, dict) else []

    def returns(self) -> Iterator[Finding]:
        """The JSON Schema is one, needs nothing from elsewhere, and has what is expected."""
        returns = self._contract.returns
        if returns is None:
            return
        faults = list(_schema_faults(returns.schema_))
        yield from faults
        kind = returns.schema_.get("type", "object")
        if returns.expect and not faults and kind != "object":
            yield Finding(("returns", "schema", "type"), "returned values have names, so the type must be `object`")
        declared = self._properties(returns)
        for name, rule in returns.expect.items():
            loc: Loc = ("returns", "expect", name)
            if declared and name not in declared:
                yield Finding(
                    loc,
                    f"`{shown(name)}` is not a property in `returns.schema`",
                    did_you_mean(name, declared),
                    on_key=True,
                )
            if isinstance(rule, RowValue | FileValue | Computed):
                yield from self._returned_value(rule, loc, name)
            else:
                for place, matcher in _matchers(rule, loc):
                    yield from self._in_returned(matcher, place, name)
                    if isinstance(matcher, Generated):
                        yield Finding(
                            place, "`generated` speaks of a field of a row", "refer to it by `{field: effect.FIELD}`"
                        )
                    elif isinstance(matcher, Is) and matcher.is_ in ("unchanged", "changed"):
                        yield Finding(place, f"`{{is: {matcher.is_}}}` means nothing for a returned value")

    def _returned_value(self, rule: object, loc: Loc, name: str) -> Iterator[Finding]:
        """Where a returned value is to be found, or one of the terms that it is computed from."""
        match rule:
            case RowValue():
                yield from self._lookup(rule.row, (*loc, "row"), *_TABLES)
                yield from self._where(rule.where, (*loc, "where"))
                for place, matcher in _in_fields(rule.where, (*loc, "where")):
                    yield from self._in_returned(matcher, place, name)
            case FileValue():
                yield from self._lookup(rule.file, (*loc, "file"), "files")
                yield from _encoding_of(rule.value, (*loc, "value"))
                if isinstance(rule.value, CsvAt) and isinstance(rule.value.csv.row, dict):
                    yield from self._where(rule.value.csv.row, (*loc, "value", "csv", "row"))
                    for place, matcher in _in_fields(rule.value.csv.row, (*loc, "value", "csv", "row")):
                        yield from self._in_returned(matcher, place, name)
                if rule.as_ is not None and rule.value in ("size", "sha256", "name"):
                    yield Finding((*loc, "as"), f"`as` reads a text, and `{rule.value}` needs no reading", on_key=True)
            case Computed():
                for index, term in enumerate(rule.terms):
                    yield from self._returned_value(term, (*loc, rule.operation, index), name)
            case _:
                yield from self._in_returned(rule, loc, name)

    def _in_returned(self, matcher: object, loc: Loc, name: str) -> Iterator[Finding]:
        if isinstance(matcher, FieldOf):
            yield from self._reference(matcher, loc, None, "returns")
        elif isinstance(matcher, Returned):
            if (
                matcher.returned == name
                and loc[:3] == ("returns", "expect", name)
                and not {"where", "row"} & {*loc[3:]}
            ):
                yield Finding((*loc, "returned"), "a returned value cannot be compared with itself")
            else:
                yield from self._returned(matcher.returned, loc)

    # --- stages -----------------------------------------------------------------------------------------------------

    def stages(self) -> Iterator[Finding]:
        """Evidence speaks of what is observed."""
        for name, evidence in self._contract.stages.items():
            if evidence.changed is not None:
                yield from self._lookup(evidence.changed, ("stages", name, "changed"))


_ALIAS = re.compile(r"(?:^|[\\/])[^\\/.~]{1,6}~[0-9]{1,2}(?:\.[^\\/.]{0,3})?(?=$|[\\/])")
"""A name such as ``PROGRA~1`` or ``BRIEF0~2.TXT``: Windows' short form of a longer one."""


def remarks(contract: TaskContract) -> list[Finding]:
    """What is legal and easily not meant: paths written with 8.3 aliases, since the paths compared are in long names."""
    named: list[tuple[Loc, str | None]] = []
    for name, observable in contract.observe.items():
        match observable:
            case DbfTable():
                named.append((("observe", name, "dbf"), observable.dbf))
            case FileTree():
                named.append((("observe", name, "files"), observable.files))
                named += [
                    (("observe", name, "ignore", index, "path"), rule.path)
                    for index, rule in enumerate(observable.ignore)
                ]
    for index, need in enumerate(contract.initial_state.require):
        if isinstance(need, RequireFile):
            named.append((("initial_state", "require", index, "path"), need.path))
    effects = contract.effects
    for which, items in (("expect", effects.expect), ("allow", effects.allow), ("forbid", effects.forbid)):
        for index, effect in enumerate(items):
            if isinstance(contract.observe.get(effect.observable), FileTree):
                named.append((("effects", which, index, "path"), effect.path))
                named.append((("effects", which, index, "from"), effect.from_))
    for name, rule in contract.returns.expect.items() if contract.returns is not None else ():
        if isinstance(rule, FileValue):
            named.append((("returns", "expect", name, "path"), rule.path))
    return [
        Finding(loc, f"`{shown(found[0].strip(_SEPARATORS))}` looks like the short form of a longer name",
                "paths are compared by their long names: write that, unless the file is really called so")
        for loc, path in named
        if path is not None and (found := _ALIAS.search(path))
    ]  # fmt: skip


_SEPARATORS = "\\/"


def _schema_faults(schema: dict[str, Any]) -> Iterator[Finding]:
    root: Loc = ("returns", "schema")
    nodes = 0
    pending: list[tuple[Loc, Any]] = [(root, schema)]
    references: list[tuple[Loc, str]] = []
    while pending:
        loc, node = pending.pop()
        nodes += 1
        if nodes > _MAX_SCHEMA_NODES:
            yield Finding(root, f"the JSON Schema has more than {_MAX_SCHEMA_NODES} values")
            return
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
                    references.append(((*loc, key), value))
                pending.append(((*loc, key), value))
        elif isinstance(node, list):
            pending.extend(((*loc, index), value) for index, value in enumerate(node))
    if "$schema" in schema and str(schema["$schema"]).rstrip("#") != _JSON_SCHEMA:
        yield Finding((*root, "$schema"), "returned values are judged by JSON Schema 2020-12", "leave `$schema` out")
        return
    remote = [Finding(loc, "a reference to another document is not followed", "put it under `$defs`, `#/$defs/name`")
              for loc, target in references if not target.startswith("#")]  # fmt: skip
    if remote:
        yield from remote
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield Finding((*root, *error.absolute_path), f"no valid JSON Schema: {shown(error.message, 200)}")
        return
    except (RecursionError, OverflowError):
        yield Finding(root, "no usable JSON Schema: it is nested too deep, or holds a pattern that is")
        return
    yield from _unresolved(schema, references)


def _unresolved(schema: dict[str, Any], references: list[tuple[Loc, str]]) -> Iterator[Finding]:
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    resolver = Registry().with_resource("", resource).resolver_with_root(resource)
    targets: dict[str, Any] = {}
    for loc, target in references:
        try:
            targets[target] = resolver.lookup(target).contents
        except (Unresolvable, ValueError, LookupError, TypeError, AttributeError):
            yield Finding(loc, f"`{shown(target)}` is not in the schema", "put it under `$defs`, `#/$defs/name`")
            return
    edges = {id(node): [id(other) for other in _same_place(node, targets)] for node in (schema, *_nested(schema))}
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        yield Finding(
            ("returns", "schema"),
            "the JSON Schema refers to itself without end",
            "let a reference lead into `properties` or `items`",
        )


def _nested(node: Any) -> Iterator[dict[str, Any]]:
    pending = [node]
    while pending:
        node = pending.pop()
        pending.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
        if isinstance(node, dict):
            yield node


def _same_place(node: dict[str, Any], targets: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that judge the same value as ``node`` does; a circle of these never comes to an end."""
    for key in ("$ref", "$dynamicRef", "$recursiveRef"):
        if isinstance(target := node.get(key), str) and target in targets:
            yield targets[target]
    for key in ("not", "if", "then", "else"):
        yield node.get(key)
    for key in ("allOf", "anyOf", "oneOf"):
        yield from node[key] if isinstance(node.get(key), list) else ()
    if isinstance(dependent := node.get("dependentSchemas"), dict):
        yield from dependent.values()
