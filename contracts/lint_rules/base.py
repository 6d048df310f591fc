"""What the rules of lint share: a rule, what is known of an image, and a contract seen as places and matchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, Literal

import regex

from contracts.load import LoadedContract
from contracts.problems import Finding as Hit
from contracts.problems import Loc
from contracts.schema import (
    AllOf,
    Computed,
    DbfTable,
    Effect,
    FieldOf,
    FileTree,
    IgnoredPath,
    IgnoredRegistryPath,
    Is,
    Not,
    Observable,
    OneOf,
    Parameter,
    Regex,
    RegistryKey,
    RequireRows,
    RequireWindow,
    RowValue,
    SqlTable,
    TextLike,
    Windows,
    parts,
)

__all__ = ["Hit", "Known", "KnownTable", "Loc", "Named", "Placed", "Rule", "Severity", "View"]

Severity = Literal["error", "warning"]
ListName = Literal["expect", "allow", "forbid"]
STAR = "*"
DATE_KINDS = ("date", "time", "datetime")
"""Kinds of fields in which a literal must be an ISO text."""


@dataclass(frozen=True)
class KnownTable:
    """A table that is there.

    Attributes:
        fields: Its fields' names with the kind of value that they hold (``text``, ``number``, ``date``, ``datetime``, …).
        key: What the catalogue itself identifies rows by; empty where there is no such key.
        fault: Why the contract's key cannot be applied, such as two live rows that share it; empty: it can.
    """

    fields: Mapping[str, str]
    key: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Known:
    """What an image looks like when a run begins, as plain data; each by the observable's name.

    Attributes:
        tables: The tables that are there.
        listings: The paths below each file tree or registry key that is there, as effects see them.
        absent: What is positively not there.
        unreadable: What could not be read, with the reason.
    """

    tables: Mapping[str, KnownTable] = field(default_factory=dict)
    listings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    unreadable: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Placed:
    """An effect with its place."""

    which: ListName
    effect: Effect
    loc: Loc


@dataclass(frozen=True, slots=True)
class Named:
    """A field that the contract names, with the matcher that is asked of it."""

    loc: Loc
    observable: str
    field: str
    matcher: object


class View:
    """A contract as the rules look at it.

    Attributes:
        loaded: The contract with its places.
        contract: The contract.
        known: What is known of the image, if anything.
        measured_quiet: The quiet time, in seconds, that measured delays ask for; ``None``: nobody has measured.
    """

    def __init__(self, loaded: LoadedContract, known: Known | None, measured_quiet: float | None = None) -> None:
        self.loaded = loaded
        self.contract = loaded.contract
        self.known = known
        self.measured_quiet = measured_quiet

    @cached_property
    def effects(self) -> tuple[Placed, ...]:
        """Every effect, in the contract's order."""
        effects = self.contract.effects
        lists: tuple[tuple[ListName, list[Effect]], ...] = (
            ("expect", effects.expect),
            ("allow", effects.allow),
            ("forbid", effects.forbid),
        )
        return tuple(
            Placed(which, effect, ("effects", which, index))
            for which, items in lists
            for index, effect in enumerate(items)
        )

    def listed(self, *which: ListName) -> Iterator[Placed]:
        """The effects of these lists."""
        return (placed for placed in self.effects if placed.which in which)

    def observed(self, placed: Placed) -> Observable:
        """What an effect speaks of."""
        return self.contract.observe[placed.effect.observable]

    def table(self, observable: str) -> KnownTable | None:
        """What is known of a table."""
        return self.known.tables.get(observable) if self.known is not None else None

    def key(self, observable: str) -> tuple[str, ...]:
        """What identifies the rows of a table, as far as one can tell: the contract's key, else the catalogue's."""
        spec = self.contract.observe.get(observable)
        if not isinstance(spec, DbfTable | SqlTable):
            return ()
        known = self.table(observable)
        return tuple(spec.key) or (known.key if known is not None else ())

    @cached_property
    def named(self) -> tuple[Named, ...]:
        """Every field that effects, requirements and returned values name, ``"*"`` left out."""
        return tuple(self._named())

    def _named(self) -> Iterator[Named]:
        for placed in self.effects:
            for part, fields in (("where", placed.effect.where), ("fields", placed.effect.fields)):
                for name, matcher in fields.items():
                    if name != STAR:
                        yield Named((*placed.loc, part, name), placed.effect.observable, name, matcher)
        for index, need in enumerate(self.contract.initial_state.require):
            if isinstance(need, RequireRows | RequireWindow):
                observable = need.rows if isinstance(need, RequireRows) else need.windows
                for name, matcher in need.where.items():
                    yield Named(("initial_state", "require", index, "where", name), observable, name, matcher)
        for loc, value in self.returned:
            if isinstance(value, RowValue):
                for name, matcher in value.where.items():
                    yield Named((*loc, "where", name), value.row, name, matcher)

    @cached_property
    def returned(self) -> tuple[tuple[Loc, object], ...]:
        """Every rule about returned values, and every term within one."""
        returns = self.contract.returns
        rules = returns.expect.items() if returns is not None else ()
        return tuple(found for name, rule in rules for found in _terms(rule, ("returns", "expect", name)))

    @cached_property
    def matchers(self) -> tuple[tuple[Loc, object], ...]:
        """Every matcher, nested ones too."""
        return tuple(found for loc, matcher in self._tops() for found in walk(matcher, loc))

    def _tops(self) -> Iterator[tuple[Loc, object]]:
        for placed in self.effects:
            for part, fields in (("where", placed.effect.where), ("fields", placed.effect.fields)):
                yield from (((*placed.loc, part, name), matcher) for name, matcher in fields.items())
            yield from contents(placed)
        yield from ((item.loc, item.matcher) for item in self.named if item.loc[0] != "effects")
        yield from ((loc, rule) for loc, rule in self.returned if not isinstance(rule, RowValue | Computed))
        for index, start in enumerate(self.contract.initial_state.start):
            if start.window is not None:
                yield ("initial_state", "start", index, "window"), start.window
        for name, spec in self.contract.observe.items():
            for index, rule in enumerate(spec.windows.ignore if isinstance(spec, Windows) else ()):
                for part, matcher in (("title", rule.title), ("class", rule.class_), ("program", rule.program)):
                    if matcher is not None:
                        yield ("observe", name, "windows", "ignore", index, part), matcher

    def is_secret(self, loc: Loc) -> bool:
        """Whether the value at a place holds a secret parameter's."""
        secret = {
            name for name, value in self.contract.parameters.items() if isinstance(value, Parameter) and value.secret
        }
        return any(loc[: len(place)] == place for name in secret for place in self.loaded.parameter_uses.get(name, ()))


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: Its name; never changes.
        severity: Errors refuse a run, warnings are told.
        what: What it finds.
        why: Why that is a fault.
        fix: What to do about it.
        check: Finds the places; ``None``: the contract does not load, so that loading finds them.
        needs_image: Whether it says nothing unless an image was looked at.
    """

    id: str
    severity: Severity
    what: str
    why: str
    fix: str
    check: Callable[[View], Iterator[Hit]] | None = None
    needs_image: bool = False


# --- matchers ---------------------------------------------------------------------------------------------------------------


def walk(matcher: object, loc: Loc) -> Iterator[tuple[Loc, object]]:
    """A matcher or a rule about content, and those within it, with their places."""
    yield loc, matcher
    for where, item in parts(matcher):
        yield from walk(item, (*loc, *where))


def contents(placed: Placed) -> Iterator[tuple[Loc, object]]:
    """The rules about a file's content, with their places."""
    listed = isinstance(placed.effect.content, list)
    for index, rule in enumerate(placed.effect.contents):
        yield (*placed.loc, "content", index) if listed else (*placed.loc, "content"), rule


def ignored_paths(observable: Observable) -> Sequence[IgnoredPath | IgnoredRegistryPath]:
    """The ignore rules of a file tree or registry key; none for what has no paths."""
    return observable.ignore if isinstance(observable, FileTree | RegistryKey) else []


def _terms(rule: object, loc: Loc) -> Iterator[tuple[Loc, object]]:
    yield loc, rule
    if isinstance(rule, Computed):
        for index, term in enumerate(rule.terms):
            yield from _terms(term, (*loc, rule.operation, index))


def references(view: View) -> Iterator[tuple[Loc, FieldOf]]:
    """Every ``{field: effect.FIELD}``."""
    return ((loc, matcher) for loc, matcher in view.matchers if isinstance(matcher, FieldOf))


def plain(matcher: object) -> object:
    """The simplest matcher that says the same."""
    match matcher:
        case TextLike() if not matcher.normalise:
            return matcher.text
        case OneOf() if len(matcher.one_of) == 1:
            return plain(matcher.one_of[0])
        case AllOf() if len(matcher.all_of) == 1:
            return plain(matcher.all_of[0])
        case Not() if isinstance(matcher.not_, Not):
            return plain(matcher.not_.not_)
        case _:
            return matcher


def same(one: Any, other: Any) -> bool:
    """Whether two matchers say the same; ``1`` is not ``true``."""
    one, other = plain(one), plain(other)
    return type(one) is type(other) and bool(one == other)


def is_literal(matcher: object) -> bool:
    """Whether it is a bare value."""
    return isinstance(plain(matcher), str | bool | int | Decimal)


def is_state(matcher: object, *states: str) -> bool:
    """Whether it is ``{is: …}`` with one of these states."""
    return isinstance(matcher, Is) and matcher.is_ in states


def accepts_all(matcher: object) -> bool:
    """Whether it holds of every value, as far as its form tells."""
    match plain(matcher):
        case Is() as found:
            return found.is_ == "any"
        case Regex() as found:
            return matches_everything(found.regex)
        case Not() as found:
            return isinstance(found.not_, Not) and accepts_all(found.not_.not_)
        case OneOf() as found:
            return any(map(accepts_all, found.one_of))
        case AllOf() as found:
            return all(map(accepts_all, found.all_of))
        case _:
            return False


def exists_only(matcher: object) -> bool:
    """Whether it tests no more than that a value is there: ``{not: {is: null}}``, or not even that."""
    match plain(matcher):
        case Not() as found:
            return is_state(found.not_, "null") or accepts_all(found)
        case OneOf() as found:
            return any(map(exists_only, found.one_of))
        case AllOf() as found:
            return all(map(exists_only, found.all_of))
        case found:
            return accepts_all(found)


_EVERY_SIGN = "".join(map(chr, [*range(0x20, 0x7F), *range(0xA1, 0x180)])).replace("\xad", "")
_PROBES = ("", "x", "7", " ", "-", "Müller", "12.08.1964", _EVERY_SIGN, _EVERY_SIGN[::-1])


@lru_cache(maxsize=1024)
def matches_everything(pattern: str) -> bool:
    """Whether a regular expression fits whatever is tried, the empty text included."""
    return all(fits(pattern, probe) for probe in _PROBES)


def fits(pattern: str, text: str) -> bool:
    """Whether a regular expression fits a whole text; one that does not come to an end does not."""
    try:
        return regex.fullmatch(pattern, text, timeout=0.5) is not None
    except (TimeoutError, regex.error, ValueError, RecursionError, MemoryError):
        return False


def implies(narrow: Mapping[str, object], wide: Mapping[str, object]) -> bool:
    """Whether everything that ``narrow`` selects is selected by ``wide`` too, as far as their form tells."""
    return all(
        accepts_all(matcher) or (name in narrow and same(narrow[name], matcher)) for name, matcher in wide.items()
    )
