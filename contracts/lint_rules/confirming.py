"""Rows and returned values that confirm each other: both are what the agent says, and nothing says what they should be."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.lint_rules.base import STAR, Hit, Loc, Rule, View, contents, plain, walk
from contracts.problems import shown
from contracts.schema import AllOf, Computed, Effect, FieldOf, FileValue, OneOf, Returned, RowValue

_Place = tuple[str, ...]
"""``("returned", name)``, or ``("field", effect, name)``."""


class _Standing:
    """What stands by itself: returned values and fields of effects that something else than each other says the value of.

    A value stands if its rule does; what a rule refers to must stand. What nothing says, and what only refers to itself in a
    circle, does not.
    """

    def __init__(self, view: View) -> None:
        self._returns = view.contract.returns
        self._expected = view.contract.effects.expect
        self._named = {effect.name: effect for effect in self._expected if effect.name}
        self._standing: set[_Place] = set()
        places: set[_Place] = {("returned", r.returned) for _, r in view.matchers if isinstance(r, Returned)}
        places |= {("returned", name) for name in (self._returns.expect if self._returns is not None else ())}
        places |= {("field", r.effect, r.name) for _, r in view.matchers if isinstance(r, FieldOf)}
        places |= {("field", r.effect, r.name) for _, r in view.returned if isinstance(r, FieldOf)}
        while more := {place for place in places - self._standing if self._stands(place)}:
            self._standing |= more

    def of(self, rule: object) -> bool:
        """Whether a rule says something that it does not take from a value which only confirms it."""
        match plain(rule):
            case Returned() as found:
                return ("returned", found.returned) in self._standing
            case FieldOf() as found:
                return ("field", found.effect, found.name) in self._standing
            case AllOf() as found:
                return any(map(self.of, found.all_of))
            case OneOf() as found:
                return all(map(self.of, found.one_of))
            case Computed() as found:
                return all(map(self.of, found.terms))
            case RowValue() as found:
                written = [e.fields[found.field] for e in self._of_observable(found.row) if found.field in e.fields]
                return all(map(self.of, [*found.where.values(), *written]))
            case FileValue() as found:
                return all(
                    self.of(inner)
                    for e in self._of_observable(found.file)
                    for c in e.contents
                    for _, inner in walk(c, ())
                )
            case _:
                return True

    def _of_observable(self, name: str) -> Iterator[Effect]:
        return (effect for effect in self._expected if effect.observable == name)

    def _stands(self, place: _Place) -> bool:
        if place[0] == "field":
            effect = self._named.get(place[1])
            said = None if effect is None else effect.fields.get(place[2], effect.where.get(place[2]))
            return said is None or self.of(said)
        if self._returns is None:
            return False
        if place[1] in self._returns.expect:
            return self.of(self._returns.expect[place[1]])
        declared = self._returns.schema_.get("properties")
        rule = declared.get(place[1]) if isinstance(declared, dict) else None
        return isinstance(rule, dict) and not rule.keys().isdisjoint(("const", "enum"))


def _confirm_each_other(view: View) -> Iterator[Hit]:
    standing = _Standing(view)
    for loc, rule in _asked(view):
        names = [found.returned for _, found in walk(rule, ()) if isinstance(found, Returned)]
        if names and not standing.of(rule):
            yield Hit(
                loc,
                f"this is right if it is what the agent returns as `{shown(names[0])}`, and nothing else says what that should be",
                "say it without the agent: a literal, `{generated: next}`, or `{all_of: […]}` with something to test",
            )


def _asked(view: View) -> Iterator[tuple[Loc, object]]:
    """The rules that a returned value may decide: of expected effects, and of rows in which returned values are looked up."""
    for placed in view.listed("expect"):
        for part, fields in (("where", placed.effect.where), ("fields", placed.effect.fields)):
            yield from (((*placed.loc, part, name), matcher) for name, matcher in fields.items() if name != STAR)
        yield from contents(placed)
    for loc, rule in view.returned:
        if isinstance(rule, RowValue):
            for name, matcher in rule.where.items():
                found = plain(matcher)
                if not (isinstance(found, Returned) and found.returned == loc[2]):  # looked up by itself: another rule
                    yield (*loc, "where", name), matcher


RULES = (
    Rule(
        "confirm-each-other", "error",
        "A field, or a row, and a returned value that only confirm each other.",
        "Whatever the agent enters is right as long as it returns the same.",
        "Say what the value must be without the agent: a literal, `{generated: next}`, a row that the task names.",
        _confirm_each_other,
    ),
)  # fmt: skip
