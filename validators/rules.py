"""Effects as rules: whether a change fits one, how far it misses, and how to find the rules a change may fit.

Decisions where the contract leaves room:

* The ordinal of ``{generated: next}`` follows the numbers, not the records: of all changes of that verb and table whose
  field rose above the highest value before, the lowest is the first. Equal numbers keep record order, so a number given
  twice fits once.
* ``path`` and ``from`` of a file effect select like ``where``; what selects counts among the named fields of a near miss, and fits:
  a file in the right place with wrong content is one, and so is the right row with its only expected field wrong.
* ``"*"`` counts for rows inserted, updated and undeleted, and for a ``modified`` that names fields (of the registry: files have
  none), so that a value's type cannot change along with its data; for everything else the fields not named are not looked at.
  A ``forbid`` looks at them only if it gives a ``"*"``: it claims no row, and a default would let a forbidden change slip by
  as soon as another field differs as well.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from contracts.globs import compile_glob, fold
from contracts.schema import (
    AllOf,
    Computed,
    CountRange,
    Effect,
    FieldOf,
    FileValue,
    Generated,
    Is,
    Matcher,
    Not,
    OneOf,
    RowValue,
    parts,
)
from validators.assignment import Places
from validators.changes import Change, KeptFile, Row, Verb
from validators.content import Check, check_content
from validators.matchers import (
    RunContext,
    Subject,
    cell_key,
    describe,
    highest_before,
    hint,
    literal_keys,
    matches,
)
from validators.values import is_empty, series_number, shown

_TOTAL = frozenset({Verb.INSERTED, Verb.UPDATED, Verb.UNDELETED})
"""Row verbs whose effects speak of every field."""
_GONE = frozenset({Verb.DELETED, Verb.PURGED, Verb.CLOSED, Verb.DROPPED})
"""Verbs after which there is nothing to look at: fields are those before."""
_SELECT_BEFORE = _GONE | {Verb.UPDATED, Verb.UNDELETED, Verb.RETITLED, Verb.MODIFIED}
"""Verbs whose ``where`` looks at the values before."""
_SIDES = frozenset({"before", "after"})
_STAR = "*"
_EMPTY = Is.model_validate({"is": "empty"})
_UNCHANGED = Is.model_validate({"is": "unchanged"})

ListName = Literal["expect", "allow", "forbid"]


@dataclass(frozen=True, slots=True)
class EffectRef:
    """Which effect of the contract is spoken of.

    Attributes:
        list: The list it stands in.
        index: Its place there, from 0.
        verb: Its verb.
        observable: Its observable.
        name: Its name, or empty.
        because: The reason it gives, or empty.
    """

    list: ListName
    index: int
    verb: Verb
    observable: str
    name: str = ""
    because: str = ""

    @property
    def label(self) -> str:
        """Short words for reports: ``inserted patients (new_patient)``."""
        return f"{self.verb} {self.observable}" + (f" ({self.name})" if self.name else "")


@dataclass(frozen=True, slots=True)
class Misfit:
    """One field that is not as an effect says.

    Attributes:
        field: Its name; ``content`` for a file's content.
        expected: What was expected, in words.
        found: What is there, for people.
        before: What was there before, or empty.
        empty: Whether nothing was filled in: it is empty, and was so before. What was *emptied* holds a wrong value.
        hint: What may help the contract's author.
    """

    field: str
    expected: str
    found: str
    before: str = ""
    empty: bool = False
    hint: str = ""


class _Spec(NamedTuple):
    """A literal by which changes can be looked up: a field before or after, or a part of a file's path."""

    where: Literal["before", "after", "name", "extension", "folder"]
    field: str
    """The field's name; for ``folder`` the number of folders."""
    keys: frozenset[Any]


class _Condition(NamedTuple):
    """What must hold of one field."""

    name: str
    matcher: Matcher
    plain: bool
    """The field's cell alone decides, not what is around it."""
    side: Literal["before", "after"]
    """Where the field is looked at."""

    @classmethod
    def of(cls, name: str, matcher: Matcher, side: Literal["before", "after"]) -> _Condition:
        return cls(name, matcher, not _looks_around(matcher), side)


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A part of a rule that refers to what other effects claim: one condition, the rest of the fields, or the content.

    Attributes:
        condition: The condition; ``None``: the whole of ``"*"``, or of the rules about the content.
        part: Which part of the rule it is.
        references: What it refers to.
    """

    condition: _Condition | None
    part: Literal["condition", "star", "content"]
    references: tuple[FieldOf, ...]

    @property
    def targets(self) -> frozenset[str]:
        """The names of the effects referred to."""
        return frozenset(reference.effect for reference in self.references)

    @property
    def equals(self) -> FieldOf | None:
        """The reference, if the part says only that a field equals it."""
        matcher = self.condition.matcher if self.condition is not None else None
        return matcher if isinstance(matcher, FieldOf) else None


class Rule:
    """One effect, prepared for being asked about many changes."""

    def __init__(self, effect: Effect, ref: EffectRef) -> None:
        self.effect = effect
        self.ref = ref
        self.places = _places(effect, expected=ref.list == "expect")
        self.bucket = (ref.observable, ref.verb)
        where_side: Literal["before", "after"] = "before" if ref.verb in _SELECT_BEFORE else "after"
        self.field_side: Literal["before", "after"] = "before" if ref.verb in _GONE else "after"
        self.where = [_Condition.of(name, matcher, where_side) for name, matcher in effect.where.items()]
        self.named = {n: _Condition.of(n, m, self.field_side) for n, m in effect.fields.items() if n != _STAR}
        is_total = ref.verb in _TOTAL or (ref.verb is Verb.MODIFIED and bool(effect.fields))
        self.star = effect.fields.get(_STAR, _default_star(ref)) if is_total else None
        """What holds of every other field; ``None`` where they are not looked at."""
        self.path = compile_glob(effect.path) if effect.path is not None else None
        self.old_path = compile_glob(effect.from_) if effect.from_ is not None else None
        self.links = tuple(self._links())
        """What refers to other effects; asked last."""
        self.refers_to = frozenset().union(*(link.targets for link in self.links))
        linked = {id(link.condition) for link in self.links}
        free = [condition for condition in self.named.values() if id(condition) not in linked]
        self.free_where = [condition for condition in self.where if id(condition) not in linked]
        self.free_named = sorted(free, key=lambda condition: literal_keys(condition.matcher) is None)
        """The named fields that refer to nothing, those first that are quickly looked at."""
        self.links_star = any(link.part == "star" for link in self.links)
        self.links_content = any(link.part == "content" for link in self.links)

    def _links(self) -> Iterator[Link]:
        for condition in (*self.where, *self.named.values()):
            if found := tuple(references(condition.matcher)):
                yield Link(condition, "condition", found)
        if found := tuple(references(self.star)):
            yield Link(None, "star", found)
        if found := tuple(references(self.effect.content)):
            yield Link(None, "content", found)

    @property
    def named_count(self) -> int:
        """How many things the effect names, for near misses; what selects the change fits, or it would be none."""
        return len(self.named) + len(self.effect.where) + (self.path is not None) + (self.effect.content is not None)

    @cached_property
    def where_specs(self) -> list[_Spec]:
        """Literals of which each must hold of every change that ``where`` and ``path`` select."""
        specs = [
            _Spec(condition.side, condition.name, keys)
            for condition in self.where
            if (keys := literal_keys(condition.matcher)) is not None
        ]
        if self.effect.path is not None:
            specs.extend(_path_specs(self.effect.path))
        return specs

    @cached_property
    def field_specs(self) -> list[_Spec]:
        """Literals among the named fields."""
        return [
            _Spec(condition.side, name, keys)
            for name, condition in self.named.items()
            if (keys := literal_keys(condition.matcher)) is not None
        ]

    @cached_property
    def near_specs(self) -> list[_Spec] | None:
        """Literals of which at least one holds of every near miss, or ``None`` if there need not be one."""
        if self.where_specs:
            return self.where_specs[:1]
        others = self.named_count - len(self.field_specs)
        return None if 2 * others >= self.named_count else self.field_specs


def _default_star(ref: EffectRef) -> Is | None:
    if ref.list == "forbid":
        return None
    return _EMPTY if ref.verb is Verb.INSERTED else _UNCHANGED


def _places(effect: Effect, *, expected: bool) -> Places:
    count = effect.count
    if count is None:
        return Places(1, 1) if expected else Places(0, None)
    least, most = (count.min, count.max) if isinstance(count, CountRange) else (count, count)
    return Places(least if expected else 0, most)


def references(rule: object) -> Iterator[FieldOf]:
    """What a matcher, a rule about content or one about a returned value refers to."""
    match rule:
        case FieldOf():
            yield rule
            return
        case Computed():
            inner: Iterable[object] = rule.terms
        case RowValue():
            inner = rule.where.values()
        case FileValue():
            inner = (rule.value,)
        case _:
            inner = (part for _, part in parts(rule))
    for part in inner:
        yield from references(part)


def _path_specs(pattern: str) -> Iterator[_Spec]:
    r"""The parts of the path that a glob fixes: the whole name or its extension, and the folders it begins with."""
    *folders, last = fold(pattern).removeprefix("\\").split("\\")
    tail = last[max(last.rfind(sign) for sign in "*?[]") + 1 :]
    if not _is_wild(last):
        yield _Spec("name", "", frozenset({last}))
    elif "." in tail:
        yield _Spec("extension", "", frozenset({tail.rpartition(".")[2]}))
    fixed = list(itertools.takewhile(lambda part: not _is_wild(part), folders))
    if fixed and all(fixed):
        yield _Spec("folder", str(len(fixed)), frozenset({tuple(fixed)}))


def _is_wild(part: str) -> bool:
    return any(sign in part for sign in "*?[")


class Lookup:
    """Finds the rules that a change may fit, without asking every rule."""

    def __init__(self, *, either_side: bool = False) -> None:
        self._either = either_side
        self._always: list[int] = []
        self._tables: dict[tuple[str, str], tuple[str, str, dict[Any, list[int]]]] = {}

    def add(self, number: int, specs: Sequence[_Spec] | None) -> None:
        """Adds a rule that fits only changes for which one of ``specs`` holds (``None``: any change)."""
        if specs is None:
            self._always.append(number)
            return
        for spec in specs:
            _, _, table = self._tables.setdefault((spec.where, spec.field), (spec.where, spec.field, {}))
            for key in spec.keys:
                table.setdefault(key, []).append(number)

    def of(self, change: Change) -> list[int]:
        """The numbers of the rules, ascending."""
        found: list[int] | None = None
        path: list[str] = []
        for where, name, table in self._tables.values():
            if where in _SIDES:
                row = _row(change, where, either=self._either)
                cell = row.get(name) if row is not None else None
                hits = table.get(cell_key(cell)) if cell is not None else None
            else:
                path = path or fold(change.subject).split("\\")
                hits = table.get(_path_key(path, where, name))
            if hits:
                found = hits if found is None else [*found, *hits]
        if found is None:
            return self._always
        return sorted({*found, *self._always}) if len(found) > 1 or self._always else found


def _path_key(path: list[str], where: str, name: str) -> Any:
    if where == "folder":
        return tuple(path[: int(name)])
    return path[-1] if where == "name" else path[-1].rpartition(".")[2]


def _row(change: Change, side: str, *, either: bool = False) -> Row | None:
    first, second = (change.before, change.after) if side == "before" else (change.after, change.before)
    return second if first is None and either else first


def exact_lookup(rules: Sequence[Rule]) -> Lookup:
    """A lookup by one literal of each rule: the one that tells it best from the others."""
    variety: dict[tuple[str, str], set[Any]] = defaultdict(set)
    for rule in rules:
        for spec in (*rule.where_specs, *rule.field_specs):
            variety[spec.where, spec.field].update(spec.keys)
    lookup = Lookup()
    for number, rule in enumerate(rules):
        specs = [*rule.where_specs, *rule.field_specs]
        best = max(specs, key=lambda spec: len(variety[spec.where, spec.field]), default=None)
        lookup.add(number, None if best is None else [best])
    return lookup


# --- whether a change fits a rule -----------------------------------------------------------------------------------------


class Fitting:
    """Asks rules about changes, within a run."""

    def __init__(self, context: RunContext, buckets: Mapping[tuple[str, Verb], Sequence[Change]]) -> None:
        self.context = context
        self._buckets = buckets
        self._ordinals: dict[tuple[str, Verb, str], dict[int, int]] = {}

    def meaning(self, claimed: Mapping[str, Change]) -> Fitting:
        """The same questions, where the names of effects mean these changes."""
        other = Fitting(self.context.with_claimed(claimed), self._buckets)
        other._ordinals = self._ordinals  # they do not depend on what is claimed
        return other

    def fits(self, rule: Rule, change: Change) -> bool:
        """Whether the change satisfies everything the rule says.

        Raises:
            Unreadable: The rule looks at the content of a file that was not kept.
            ContractFault: A matcher cannot be applied.
        """
        return self.fits_apart(rule, change) and all(self.linked(rule, link, change) for link in rule.links)

    def fits_apart(self, rule: Rule, change: Change) -> bool:
        """Whether the change satisfies everything the rule says, apart from what refers to other effects.

        Raises:
            Unreadable, ContractFault: As :meth:`fits`.
        """
        return (
            self._at_path(rule, change)
            and all(self._holds(condition, change) for condition in rule.free_where)
            and all(self._holds(condition, change) for condition in rule.free_named)
            and (rule.links_star or next(self._star_misfits(rule, change), None) is None)
            and (rule.links_content or self._content_fits(rule, change))
        )

    def linked(self, rule: Rule, link: Link, change: Change) -> bool:
        """Whether a part of the rule holds that refers to other effects, as far as the run's claims are known.

        Raises:
            Unreadable, ContractFault: As :meth:`fits`.
        """
        if link.condition is not None:
            return self._holds(link.condition, change)
        if link.part == "star":
            return next(self._star_misfits(rule, change), None) is None
        return self._content_fits(rule, change)

    def selected(self, rule: Rule, change: Change) -> bool:
        """Whether ``path``, ``from`` and ``where`` hold."""
        return self._at_path(rule, change) and all(self._holds(condition, change) for condition in rule.where)

    def _at_path(self, rule: Rule, change: Change) -> bool:
        if rule.path is not None and not rule.path(change.subject):
            return False
        if rule.old_path is None:
            return True
        old = change.before.get("path") if change.before is not None else None
        return old is not None and rule.old_path(str(old.value))

    def misfits(self, rule: Rule, change: Change, most: int) -> list[str] | None:
        """The names of the fields of a near miss that do not fit.

        Returns:
            ``None`` when ``where`` does not hold, less than half of what the rule names fits, or more than ``most`` misfit.
        """
        if not self.selected(rule, change):
            return None
        most = min(most, len(change.after or change.before or ()) + rule.named_count)
        allowed = min(most, rule.named_count // 2)
        wrong: list[str] = []
        for condition in rule.named.values():
            if not self._holds(condition, change):
                wrong.append(condition.name)
                if len(wrong) > allowed:
                    return None
        if not self._content_fits(rule, change):
            wrong.append("content")
            if len(wrong) > allowed:
                return None
        wrong.extend(itertools.islice(self._star_misfits(rule, change), most + 1 - len(wrong)))
        return wrong if len(wrong) <= most else None

    def touched(self, rule: Rule, change: Change) -> bool:
        """Whether a change of another verb seems to be about what the rule speaks of."""
        fitting = named = 0
        if rule.path is not None:
            if not rule.path(change.subject):
                return False
            fitting = named = 1
        for condition in rule.where:
            if not condition.plain or not self._cell_holds(condition, change, either=True):
                return False
            fitting += 1
            named += 1
        for condition in rule.named.values():
            if condition.plain:
                named += 1
                fitting += self._cell_holds(condition, change, either=True)
        return fitting > 0 and 2 * fitting >= named

    def misfit(self, rule: Rule, change: Change, name: str) -> Misfit:
        """A misfitting field in words."""
        if name == "content" and name not in rule.named:
            return self._content_misfit(rule, change)
        matcher = rule.named[name].matcher if name in rule.named else rule.star
        if matcher is None:
            raise ValueError(f"{rule.ref.label} says nothing about {name}")
        subject = self._subject(change, rule.field_side, name, matcher)
        cell, before = subject.cell, subject.before
        if isinstance(matcher, Is) and matcher.is_ == "unchanged" and before is not None:
            expected = f"unchanged ({before.display(80)})"
        else:
            expected = describe(matcher, subject, self.context)
        return Misfit(
            field=name,
            expected=expected,
            found="(no such field)" if cell is None else cell.display(),
            before="" if before is None else before.display(),
            empty=cell is not None and is_empty(cell) and (before is None or is_empty(before)),
            hint=hint(matcher, cell),
        )

    def _holds(self, condition: _Condition, change: Change) -> bool:
        if condition.plain:
            return self._cell_holds(condition, change)
        subject = self._subject(change, condition.side, condition.name, condition.matcher)
        return matches(condition.matcher, subject, self.context)

    def _cell_holds(self, condition: _Condition, change: Change, *, either: bool = False) -> bool:
        row = _row(change, condition.side, either=either)
        cell = row.get(condition.name) if row is not None else None
        return matches(condition.matcher, Subject(cell), self.context)

    def _subject(self, change: Change, side: str, name: str, matcher: Matcher) -> Subject:
        before = change.before.get(name) if change.before is not None else None
        after = change.after.get(name) if change.after is not None else None
        both = change.before is not None and change.after is not None
        return Subject(
            cell=before if side == "before" else after,
            before=before,
            after=after,
            changed=name in change.changed if both and change.changed else None,
            observable=change.observable,
            field=name,
            ordinal=self._ordinal(change, name) if _has_next(matcher) else 1,
        )

    def _star_misfits(self, rule: Rule, change: Change) -> Iterator[str]:
        """The fields not named that do not satisfy ``"*"``, in the table's order."""
        star, row = rule.star, change.after
        if star is None or row is None:
            return
        if isinstance(star, Is) and star.is_ == "unchanged" and change.changed:
            yield from (name for name in change.changed if name not in rule.named)
        elif isinstance(star, Is) and star.is_ == "empty":
            yield from (name for name, cell in row.items() if name not in rule.named and not is_empty(cell))
        else:
            rest = (_Condition.of(name, star, rule.field_side) for name in row if name not in rule.named)
            yield from (condition.name for condition in rest if not self._holds(condition, change))

    def _ordinal(self, change: Change, name: str) -> int:
        key = (change.observable, change.verb, name)
        if key not in self._ordinals:
            highest, _ = highest_before(change.observable, name, self.context)
            numbered = []
            for place, other in enumerate(self._buckets[change.observable, change.verb]):
                cell = other.after.get(name) if other.after is not None else None
                number = series_number(cell) if cell is not None else None
                if number is not None and number > highest:
                    numbered.append((number, place, id(other)))
            self._ordinals[key] = {identity: n for n, (_, _, identity) in enumerate(sorted(numbered), start=1)}
        return self._ordinals[key].get(id(change), 1)

    # --- content of files ---

    def _content_checks(self, rule: Rule, change: Change) -> Iterator[Check]:
        file = _file_of(change)
        for content in rule.effect.contents:
            yield from check_content(content, file, self.context)

    def _content_fits(self, rule: Rule, change: Change) -> bool:
        if not rule.effect.contents:
            return True
        return change.after is not None and all(check.fits for check in self._content_checks(rule, change))

    def _content_misfit(self, rule: Rule, change: Change) -> Misfit:
        wrong = [check for check in self._content_checks(rule, change) if not check.fits]
        # What a file held before is not kept: of one that held something nobody can say that this was left empty.
        size = change.before.get("size") if change.before is not None else None
        was_empty = change.before is None or (size is not None and is_empty(size))
        return Misfit(
            "content",
            "; ".join(check.expected for check in wrong),
            "; ".join(check.found for check in wrong),
            empty=was_empty and all(check.empty for check in wrong),
            hint="; ".join(dict.fromkeys(check.hint for check in wrong if check.hint)),
        )


def _file_of(change: Change) -> KeptFile:
    row = change.after or {}
    kind, sha256 = (str(row[name].value or "") if name in row else "" for name in ("kind", "sha256"))
    name = f"{change.observable}: {shown(change.subject)}"
    return KeptFile(
        name, change.subject, kind or "file", row.get("size"), sha256, change.content, change.content_missing
    )


def _looks_around(matcher: Matcher) -> bool:
    """Whether the matcher needs more than the cell itself."""
    if isinstance(matcher, Is):
        return matcher.is_ in ("changed", "unchanged")
    nested = isinstance(matcher, OneOf | AllOf | Not)
    return isinstance(matcher, Generated) or (nested and any(_looks_around(part) for _, part in parts(matcher)))


def _has_next(matcher: Matcher) -> bool:
    if isinstance(matcher, Generated):
        return matcher.generated == "next"
    return isinstance(matcher, OneOf | AllOf | Not) and any(_has_next(part) for _, part in parts(matcher))
