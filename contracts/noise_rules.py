r"""From changes seen on idle machines to the narrowest rules, and which rules a contract forbids. Pure, no I/O.

A subject that is the same each time gets a rule for exactly itself. Where names vary (a time, a counter or a random number in them)
the varying parts become ``*``, and only those: every part of the path must keep letters of its own, or at least the number of its
digits, so that no rule ever stands for whatever a folder may hold.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from contracts.globs import SEPARATOR, GlobError, compile_glob, escape, fold
from contracts.noise import Kind, NoiseEntry, NoiseRule, absolute, place_of
from contracts.schema import (
    FILE_VERBS,
    REGISTRY_VERBS,
    WINDOW_VERBS,
    Effect,
    Is,
    Matcher,
    Regex,
    TaskContract,
)

BECAUSE = "it differed from one control machine to the next"
_VARYING = re.compile(
    r"(?P<guid>[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12})"
    r"|(?P<hex>(?<![0-9A-Za-z])(?=[A-Fa-f]*[0-9])[0-9A-Fa-f]{6,}(?![0-9A-Za-z]))"
    r"|(?P<digits>[0-9]+)"
)
"""Parts of names that vary: identifiers, random hexadecimal numbers, times and counters."""
_FEWEST_DIGITS = 4
"""A part of a path that keeps no letter is told by its digits, if they are at least so many."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """One change that one look saw.

    Attributes:
        kind: Of the observable.
        root: Of the observable; ``None`` for windows.
        subject: Path below the root, title, or key; hostile text.
        verb: What happened.
        run: Number of the machine.
        after: Seconds after the start.
        old: ``renamed`` only: the name before.
        about: Windows: ``class`` and ``program``. Rows: the fields of the key, as matchers.
        fields: Rows: what the changed (or all) fields hold afterwards, as matchers.
    """

    kind: Kind
    root: str | None
    subject: str
    verb: str
    run: int
    after: float
    old: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)


def propose(sightings: Iterable[Sighting], contracts: Sequence[TaskContract] = ()) -> list[NoiseEntry]:
    """The entries of a noise list: everything seen, each with the narrowest rule or the reason why it has none.

    Args:
        sightings: What the looks saw.
        contracts: A rule that covers what one of these expects or forbids is refused.
    """
    groups: dict[tuple[Any, ...], list[Sighting]] = defaultdict(list)
    for item in sightings:
        groups[_alike(item)].append(item)
    entries: list[NoiseEntry] = []
    for group in groups.values():
        by_subject: dict[str, list[Sighting]] = defaultdict(list)
        for item in group:
            by_subject[item.subject].append(item)
        if group[0].kind in ("dbf", "sql"):
            entries.append(_entry(group, contracts))
            continue
        runs = {item.run for item in group}
        steady = [same for same in by_subject.values() if {item.run for item in same} == runs]
        if len(by_subject) == 1 or (len(runs) > 1 and len(steady) == len(by_subject)):
            entries += [_entry(same, contracts) for same in by_subject.values()]
        elif _narrowest(group)[0] is not None:
            entries.append(_entry(group, contracts))
        else:  # what comes back under its own name can be told by it
            told = steady if len(runs) > 1 else []
            entries += [_entry(same, contracts) for same in told]
            entries.append(_entry([item for item in group if not any(item in same for same in told)], contracts))
    entries.sort(key=lambda entry: (entry.kind, entry.root or "", -entry.runs, entry.subject, entry.verb))
    return entries


def _alike(item: Sighting) -> tuple[Any, ...]:
    """What sightings of one noise have in common."""
    if item.kind in ("dbf", "sql"):
        key = "" if item.verb == "inserted" else item.subject
        return item.kind, item.root, item.verb, key, tuple(sorted(item.fields)) if item.verb == "updated" else ()
    skeleton = _VARYING.sub("0", item.subject if item.kind == "windows" else fold(item.subject))
    old = _VARYING.sub("0", fold(item.old))
    return item.kind, item.root, item.verb, skeleton, old, tuple(sorted(item.about.items()))


def _entry(group: Sequence[Sighting], contracts: Sequence[TaskContract]) -> NoiseEntry:
    first = min(group, key=lambda item: item.after)
    rule, why = _narrowest(group)
    if rule is not None:
        refused = next(filter(None, (covers(first.kind, first.root, first.verb, rule, one) for one in contracts)), None)
        if refused is not None:
            rule, why = None, refused
    return NoiseEntry(
        kind=first.kind,
        root=first.root,
        subject=_clean(first.subject),
        names=len({item.subject for item in group}),
        verb=first.verb,
        runs=len({item.run for item in group}),
        times=len({(item.run, item.after) for item in group}),
        first=Decimal(f"{first.after:.2f}"),
        rule=rule,
        no_rule=None if rule is not None else why,
    )


def _narrowest(group: Sequence[Sighting]) -> tuple[NoiseRule | None, str]:
    first = group[0]
    if first.kind in ("files", "registry"):
        names = sorted({item.subject for item in group} | {item.old for item in group if item.old})
        pattern = path_pattern(names)
        if pattern is None:
            return None, "the names have too little in common for a narrow pattern"
        try:
            compile_glob(pattern)
        except GlobError as error:
            return None, f"no pattern can name it: {error}"
        return NoiseRule(path=pattern), ""
    if first.kind == "windows":
        title = title_matcher(sorted({item.subject for item in group}))
        if title is None:
            return None, "the titles have too little in common for a narrow rule"
        named = {name: value for name, value in (("title", title), *first.about.items()) if value != ""}
        return (NoiseRule.model_validate(named), "") if named else (None, "the window has neither title nor class")
    return _row_rule(group)


def _row_rule(group: Sequence[Sighting]) -> tuple[NoiseRule | None, str]:
    first = group[0]
    if first.verb in ("created", "dropped", "restructured"):
        return None, f"a table that is {first.verb} by itself is more than noise"
    if first.verb != "inserted" and not first.about:
        return None, "without a key the row cannot be named: declare `key` in a contract"
    where = {} if first.verb == "inserted" else dict(first.about)
    fields = {}
    if first.verb in ("inserted", "updated", "undeleted"):
        for name in dict.fromkeys(name for item in group for name in item.fields):
            values = [item.fields.get(name) for item in group]
            same = first.verb == "inserted" and len(values) > 1 and all(value == values[0] for value in values)
            fields[name] = values[0] if same and values[0] is not None else {"is": "any", "because": BECAUSE}
    return NoiseRule.model_validate({"where": where, "fields": fields}), ""


def path_pattern(names: Sequence[str]) -> str | None:
    r"""The narrowest pattern, anchored at the root, that fits all these paths; ``None`` if it would not be narrow.

    Args:
        names: Paths relative to the root that differ in numbers only, as :func:`propose` groups them.
    """
    spelt = list({fold(name): name for name in names}.values())
    if len(spelt) == 1:
        return "\\" + _escaped(spelt[0])
    components = [name.replace("/", SEPARATOR).split(SEPARATOR) for name in spelt]
    if len({len(parts) for parts in components}) != 1:
        return None
    patterns = [_component(column) for column in zip(*components, strict=True)]
    if any(pattern is None for pattern in patterns):
        return None
    return "\\" + SEPARATOR.join(pattern for pattern in patterns if pattern is not None)


def _component(names: Sequence[str]) -> str | None:
    """The pattern of one part of a path, or ``None``."""
    if len({fold(name) for name in names}) == 1:
        return _escaped(names[0])
    rows = [_pieces(name) for name in names]
    if len({tuple(fold(text) for text, varies in row if not varies) for row in rows}) != 1 or len(
        {tuple(varies for _, varies in row) for row in rows}
    ) != 1:  # fmt: skip
        return None
    columns = list(zip(*rows, strict=True))
    fixed = "".join(column[0][0] if len({text for text, _ in column}) == 1 else "\0" for column in columns)
    own = any(char.isalpha() for char in (fixed.rpartition(".")[0] if "." in fixed else fixed))
    pattern = ""
    for column in columns:
        texts = {text for text, _ in column}
        if len({fold(text) for text in texts}) == 1:
            pattern += _escaped(column[0][0])
        elif own:
            pattern += "*"
        else:
            digits = _digits(texts)
            if digits is None:
                return None
            pattern += digits
    return pattern


def _digits(texts: set[str]) -> str | None:
    lengths = {len(text) for text in texts}
    if len(lengths) != 1 or min(lengths) < _FEWEST_DIGITS or not all(text.isdecimal() for text in texts):
        return None
    return "[0-9]" * lengths.pop()


def _pieces(name: str) -> list[tuple[str, bool]]:
    """A name in its fixed and its varying parts, in turn."""
    found: list[tuple[str, bool]] = []
    end = 0
    for match in _VARYING.finditer(name):
        found += [(name[end : match.start()], False), (match[0], True)]
        end = match.end()
    return [*found, (name[end:], False)]


def _escaped(name: str) -> str:
    """A name as a pattern; half a surrogate pair, which no file can hold, fits any one character."""
    return "".join("?" if "\ud800" <= char <= "\udfff" else escape(char) for char in name)


def _clean(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def title_matcher(titles: Sequence[str]) -> str | dict[str, str] | None:
    """The title, or ``{regex: …}`` with what varies as digits; ``None`` if too little is left."""
    if len(titles) == 1:
        return _clean(titles[0])
    rows = [_pieces(title) for title in titles]
    if len({tuple(text for text, varies in row if not varies) for row in rows}) != 1:
        return None
    columns = list(zip(*rows, strict=True))
    if not any(char.isalpha() for column in columns if not column[0][1] for char in column[0][0]):
        return None
    parts = []
    for column in columns:
        texts = {text for text, _ in column}
        parts.append(re.escape(column[0][0]) if len(texts) == 1 else r"[0-9A-Fa-f-]+")
    return {"regex": _clean("".join(parts))}


# --- what a rule would cover -----------------------------------------------------------------------------------------


def covers(kind: Kind, root: str | None, verb: str, rule: NoiseRule, contract: TaskContract) -> str | None:
    """What of a contract a rule would take out of sight: an effect that it expects or forbids, in words.

    Where it cannot be told for sure, the answer is that it would.

    Args:
        kind: Of the entry that the rule is for.
        root: Of that entry.
        verb: Of that entry; what is ignored is so whatever happened, rows are allowed by verb.
        rule: The rule.
        contract: The contract.
    """
    for which in ("expect", "forbid"):
        for index, effect in enumerate(getattr(contract.effects, which)):
            spec = contract.observe.get(effect.observable)
            if spec is None:
                continue
            there, other = place_of(spec)
            if there == kind and _covers(kind, root, verb, rule, other, effect):
                what = f"{effect.verb} {effect.observable}" + (f" ({effect.name})" if effect.name else "")
                how = "expects" if which == "expect" else "forbids"
                return f"it would cover what {contract.id} {how}: effects.{which}[{index}], {what}"
    return None


def _covers(kind: Kind, root: str | None, verb: str, rule: NoiseRule, other: str | None, effect: Effect) -> bool:
    if rule.path is not None:
        mine = absolute(root or "", rule.path)
        verbs = FILE_VERBS if kind == "files" else REGISTRY_VERBS
        if effect.verb not in verbs:
            return False
        theirs = [effect.path or "**", *([effect.from_] if effect.from_ is not None else [])]
        return any(overlap(mine, absolute(other or "", pattern)) for pattern in theirs)
    if kind == "windows":
        if effect.verb not in WINDOW_VERBS:
            return False
        told = (("title", rule.title), ("class", rule.class_), ("program", rule.program))
        return all(
            _may_agree(mine, theirs)
            for name, mine in told
            for theirs in (effect.where.get(name), effect.fields.get(name))
            if mine is not None and theirs is not None
        )
    return (
        fold(root or "") == fold(other or "")
        and effect.verb == verb
        and all(_may_agree(rule.where.get(name), matcher) for name, matcher in effect.where.items())
        and all(
            _may_agree(rule.fields.get(name), matcher)
            for name, matcher in effect.fields.items()
            if name in rule.fields and verb == "inserted"
        )
    )


def _may_agree(one: Matcher | None, other: Matcher | None) -> bool:
    """Whether one value can satisfy both matchers; only what is certain is denied."""
    if one is None or other is None:
        return True
    for mine, theirs in ((one, other), (other, one)):
        if isinstance(mine, str) and isinstance(theirs, Regex):
            return _fits(theirs.regex, mine)
        if isinstance(mine, str) and isinstance(theirs, Is) and theirs.is_ in ("blank", "empty", "null"):
            return not mine.strip()
    plain = (str, int, Decimal)
    if isinstance(one, plain) and isinstance(other, plain):
        return one == other or str(one).strip() == str(other).strip()
    return True


def _fits(pattern: str, text: str) -> bool:
    # Python's engine can take for ever on a hostile pair; a pattern that is not simple is taken to fit.
    if len(text) > 500 or re.search(r"[*+}].*[*+{]", pattern):
        return True
    return re.fullmatch(pattern, text) is not None


_LITERAL, _ONE, _LOOP, _LOOP_ALL, _FOLDERS = range(5)


def overlap(one: str, other: str) -> bool:
    """Whether some path may fit both absolute patterns; a class in brackets counts as any character.

    Both are walked side by side: a state is a place in each, and there are no more states than the product of their lengths.
    """
    mine, theirs = list(_tokens(one)), list(_tokens(other))
    pending = [(0, 0)]
    seen = {(0, 0)}
    while pending:
        i, j = pending.pop()
        if i == len(mine) and j == len(theirs):
            return True
        for state in _next(mine, theirs, i, j):
            if state not in seen:
                seen.add(state)
                pending.append(state)
    return False


_Token = tuple[int, str]


def _next(mine: list[_Token], theirs: list[_Token], i: int, j: int) -> Iterator[tuple[int, int]]:
    for tokens, at, moved in ((mine, i, lambda to: (to, j)), (theirs, j, lambda to: (i, to))):
        if at < len(tokens):
            if tokens[at][0] in (_LOOP, _LOOP_ALL):
                yield moved(at + 1)
            elif tokens[at][0] == _FOLDERS:
                yield moved(at + 1)
                yield moved(at + 3)
    if i < len(mine) and j < len(theirs) and _meet(mine[i], theirs[j]):
        for to in {i + 1, i if mine[i][0] in (_LOOP, _LOOP_ALL) else i + 1}:
            for there in {j + 1, j if theirs[j][0] in (_LOOP, _LOOP_ALL) else j + 1}:
                yield to, there


def _meet(one: _Token, other: _Token) -> bool:
    if _FOLDERS in (one[0], other[0]):
        return False
    if one[0] == _LITERAL and other[0] == _LITERAL:
        return one[1] == other[1]
    literal = one if one[0] == _LITERAL else other if other[0] == _LITERAL else None
    wild = other if literal is one else one
    return literal is None or literal[1] != SEPARATOR or wild[0] == _LOOP_ALL


def _tokens(pattern: str) -> Iterator[_Token]:
    parts = [part for part in fold(pattern).split(SEPARATOR) if part]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**" and not last:
            yield _FOLDERS, ""
        at = 0
        while at < len(part):
            char = part[at]
            if char == "*":
                end = at
                while part[end : end + 1] == "*":
                    end += 1
                yield (_LOOP if end == at + 1 else _LOOP_ALL), ""
                at = end
                continue
            if char == "[":
                start = at + 2 if part.startswith("!", at + 1) else at + 1
                end = part.find("]", start + 1)
                inner = part[at + 1 : end]
                yield (_LITERAL, inner) if len(inner) == 1 else (_ONE, "")
                at = end + 1 if end > 0 else len(part)
                continue
            yield (_ONE, "") if char == "?" else (_LITERAL, char)
            at += 1
        if not last:
            yield _LITERAL, SEPARATOR
