r"""Places within files: the small paths by which a contract names one value in a JSON, XML or INI file.

==========  ========================================================================================================
JSON        ``$.patient.visits[0].date``; names of letters, digits, ``_`` and ``-`` after a dot, others as ``["any name"]``;
            indices from 0; ``$`` is the whole
XML         ``/export/patient[2]/name`` is the text of an element, ``…/@id`` an attribute; ``patient[@id="7"]`` selects by an
            attribute, ``patient[2]`` the second of those beside it; names without their namespace
INI         ``Section/Key``; the last ``/`` separates; ``/Key`` is one before the first section
==========  ========================================================================================================

Every path names at most one value. Nothing is evaluated: there are no wildcards, functions or expressions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple, TypeVar

T = TypeVar("T", bound=tuple[object, ...])
MAX_STEPS = 64
INI_BLANKS = " \t\n\v\f\r\x1a"
"""What Windows' profile functions cut off around names and values: ASCII's blanks, and the end mark of DOS; no others of Unicode's."""
_JSON_STEP = re.compile(
    r"""\.(?P<name>[^\W\d][\w-]*) | \[(?P<index>\d{1,9})\] | \["(?P<double>(?:[^"\\]|\\["\\])*)"\]
    | \['(?P<single>(?:[^'\\]|\\['\\])*)'\]""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_XML_NAME = r"[^\W\d][\w.-]*"
_XML_STEP = re.compile(
    rf"""(?P<name>{_XML_NAME})
    (?:\[@(?P<attribute>{_XML_NAME})=(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')\])?
    (?:\[(?P<index>[1-9]\d{{0,8}})\])?""",
    re.VERBOSE,
)
_XML_ATTRIBUTE = re.compile(rf"@({_XML_NAME})")


class PlaceError(ValueError):
    """The path cannot be used; the message says what to change."""


class XmlStep(NamedTuple):
    """One element of a path: its name, the attribute it must have, and the how-manieth it is of those beside it, from 1."""

    name: str
    attribute: tuple[str, str] | None = None
    nth: int | None = None


class XmlPlace(NamedTuple):
    """The elements from the root down, and the attribute meant; ``None``: the last element's text."""

    steps: tuple[XmlStep, ...]
    attribute: str | None = None


@lru_cache(maxsize=1024)
def json_place(path: str) -> tuple[str | int, ...]:
    """The names and indices of a JSON path.

    Raises:
        PlaceError: It is none.
    """
    rest = path.removeprefix("$")
    if rest and rest[0] not in ".[":
        if path.startswith("$"):
            raise PlaceError("after `$` follows `.name` or `[0]`")
        rest = "." + rest
    steps: list[str | int] = []
    at = 0
    while at < len(rest):
        found = _JSON_STEP.match(rest, at)
        if found is None:
            raise PlaceError(
                f'`{rest[at : at + 20]}` is no step of a JSON path: write `.name`, `[0]`, or `["any name"]` for other names'
            )
        name, index = found["name"], found["index"]
        quoted = found["double"] if found["double"] is not None else found["single"]
        steps.append(
            int(index) if index is not None else name if name is not None else _ESCAPE.sub(r"\1", quoted or "")
        )
        at = found.end()
    return _bounded(tuple(steps))


@lru_cache(maxsize=1024)
def xml_place(path: str) -> XmlPlace:
    """The steps of an XML path.

    Raises:
        PlaceError: It is none.
    """
    rest = path.removeprefix("/")
    steps: list[XmlStep] = []
    at = 0
    while True:
        attribute = _XML_ATTRIBUTE.fullmatch(rest, at)
        if attribute is not None and steps:
            return XmlPlace(_bounded(tuple(steps)), attribute[1])
        found = _XML_STEP.match(rest, at)
        if found is None or rest[found.end() : found.end() + 1] not in ("", "/"):
            raise PlaceError(
                f'`{rest[at : at + 20]}` is no step of an XML path: write `name`, `name[2]`, `name[@attribute="value"]`, or '
                "`@attribute` at the end"
            )
        value = found["double"] if found["double"] is not None else found["single"]
        selects = (found["attribute"], value or "") if found["attribute"] is not None else None
        steps.append(XmlStep(found["name"], selects, int(found["index"]) if found["index"] else None))
        at = found.end() + 1
        if found.end() == len(rest):
            return XmlPlace(_bounded(tuple(steps)))


def ini_place(path: str) -> tuple[str, str]:
    """Section and key of an INI path.

    Raises:
        PlaceError: It is none.
    """
    section, slash, key = path.rpartition("/")
    if not slash or not key.strip(INI_BLANKS):
        raise PlaceError("a value of an INI file is named `Section/Key`")
    return section.strip(INI_BLANKS), key.strip(INI_BLANKS)


def _bounded(steps: T) -> T:
    if len(steps) > MAX_STEPS:
        raise PlaceError(f"a path has at most {MAX_STEPS} steps")
    return steps
