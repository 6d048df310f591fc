"""Mistakes that no contract loads with: told where the file is read, and listed with the rules of lint."""

from __future__ import annotations

from contracts.lint_rules.base import Rule

ODD_VALUE = Rule(
    "odd-value", "warning",
    "A control character that double quotes made of a backslash, a number in an unusual form, or a path with a short (8.3) name.",
    "It is legal and mostly not meant.",
    "Use single quotes for backslashes, quote what is a text, write long names.",
)  # fmt: skip
"""What reading a contract warns of."""

RULES = (
    Rule(
        "cannot-load", "error",
        "A file that is no contract: wrong indentation, an unquoted `*` or `{{`, a number with a leading zero, an unknown name, a value "
        "of the wrong kind.",
        "Nothing can be judged by it.",
        "The message says what to change, with line and column.",
    ),
    Rule(
        "missing-reason", "error",
        "`{is: any}`, `allow` or `ignore` without `because`.",
        "What loosens a contract is shown in every report, with its reason.",
        "Add `because: <why>`, or `noise: <list id>` from a measured noise list.",
    ),
    Rule(
        "bad-reference", "error",
        "`{field: effect.FIELD}` to an effect that does not exist, that may claim several changes, or that waits for this one.",
        "There is no one value to compare with.",
        "Give the effect meant a `name` and leave its `count` at 1.",
    ),
    Rule(
        "unknown-observable", "error",
        "An effect, requirement, stage or returned value that speaks of something that is not observed.",
        "Nothing is read that it could be compared with.",
        "Correct the name, or add it under `observe`.",
    ),
    ODD_VALUE,
)  # fmt: skip
