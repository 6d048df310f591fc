r"""YAML to plain data with positions: the YAML 1.2 core schema, without what makes a contract ambiguous.

``NO``, ``on``, ``12:30:45`` and ``2026-11-29`` are texts; numbers are ``int`` or :class:`decimal.Decimal`, exactly as written.
Refused, each with its place: duplicate keys, anchors, aliases, tags, merge keys, directives, several documents, numbers with
a leading zero, infinities, keys that are not texts, and an unquoted ``{{name}}``, which YAML reads as a mapping in a mapping.

The tree is built from the parser's events, without recursion, so that the bounds below hold before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from contracts.problems import ContractError, Loc, Problem, field_path, shown
from contracts.scanning import SeparatingTabs
from contracts.syntax import explain_syntax

MAX_BYTES = 1 << 20
MAX_DEPTH = 40
MAX_NODES = 50_000
MAX_DIGITS = 100

Plain = str | int | Decimal | bool | None | list[Any] | dict[str, Any]
"""What a document consists of."""

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")


class Mark(NamedTuple):
    """Where a value begins and ends: line and column from 1, and offsets into the decoded text."""

    line: int
    column: int
    start: int = 0
    end: int = 0


START = Mark(1, 1)


class NotANumber(ValueError):
    """A plain scalar that looks like a number and may not be written so; ``args`` are message and hint."""


def number(text: str) -> int | Decimal | None:
    """The number that a plain scalar of the YAML 1.2 core schema is, or ``None`` if it is none.

    Raises:
        NotANumber: It has a leading zero, is not finite, or has more than a hundred digits.
    """
    if _NOT_FINITE.fullmatch(text):
        raise NotANumber("infinity and not-a-number are no values", "quote it if it is a text")
    if _BASED.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise NotANumber("the number is too long", "quote it if it is a text")
        return int(text, 0)
    if not _FLOAT.fullmatch(text):
        return None
    if _LEADING_ZERO.match(text):
        raise NotANumber(
            "a number with a leading zero would lose it", "quote it if it is a text, else leave the zero out"
        )
    # A small text such as 1e999999999 is a number that fills the memory when it is written out.
    exponent = re.split(r"[eE]", text)[1:]
    if len(text) > MAX_DIGITS or (exponent and len(exponent[0]) > 4) or abs(Decimal(text).adjusted()) > MAX_DIGITS:
        raise NotANumber("the number is too long", "quote it if it is a text")
    return int(text) if _INTEGER.fullmatch(text) else Decimal(text)


@dataclass
class Document:
    """A parsed file: its data, where everything stands, and what was found wrong or odd on the way.

    Attributes:
        name: The file's name for messages.
        text: The decoded source.
        data: The plain tree. Where a problem was found it holds a stand-in, so that the rest can be judged too.
        values: Position of each value.
        keys: Position of each mapping key.
        problems: What is wrong.
        warnings: What is legal and easily not meant.
    """

    name: str
    text: str = ""
    data: Plain = None
    values: dict[Loc, Mark] = field(default_factory=dict)
    keys: dict[Loc, Mark] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    _faulty: set[Loc] = field(default_factory=set)

    def value_mark(self, loc: Loc) -> Mark:
        """Position of the value at ``loc``, or of the nearest element around it."""
        while loc and loc not in self.values:
            loc = loc[:-1]
        return self.values.get(loc, START)

    def key_mark(self, loc: Loc) -> Mark:
        """Position of the key (or list item) at ``loc``, or of the nearest element around it."""
        return self.keys.get(loc) or self.value_mark(loc)

    def report(self, loc: Loc, message: str, hint: str = "", *, mark: Mark | None = None) -> None:
        """Adds a problem, unless the same place, or one around it, is already known to be wrong."""
        if any(loc[:length] in self._faulty for length in range(1, len(loc) + 1)):
            return
        self._faulty.add(loc)
        self._add(self.problems, loc, message, hint, mark)

    def warn(self, loc: Loc, message: str, hint: str = "", *, mark: Mark | None = None) -> None:
        """Adds a warning."""
        self._add(self.warnings, loc, message, hint, mark)

    def _add(self, to: list[Problem], loc: Loc, message: str, hint: str, mark: Mark | None) -> None:
        at = mark or self.value_mark(loc)
        to.append(Problem(self.name, at.line, at.column, field_path(loc), message, hint))

    def failed(self, message: str, hint: str = "", mark: Mark = START) -> ContractError:
        """The error for something after which nothing more can be read; what was found before goes with it."""
        return ContractError([*self.problems, Problem(self.name, mark.line, mark.column, "", message, hint)])


def parse(source: str | bytes, name: str) -> Document:
    """Reads a YAML file.

    Args:
        source: The file's bytes (UTF-8, a byte order mark is accepted) or its text.
        name: What to call it in messages.

    Raises:
        ContractError: It is too large, not UTF-8, not YAML, empty, or not one mapping; problems that leave the rest
            readable stand in :attr:`Document.problems` instead.
    """
    document = Document(name)
    document.text = _decoded(source, document)
    builder = _Builder(document)
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = SeparatingTabs
    try:
        for event in yaml.parse(document.text):
            builder.take(event)
    except ReaderError as error:
        raise document.failed(
            "a control character stands in the file", "remove it", _mark_at(document.text, error.position)
        ) from None
    except MarkedYAMLError as error:
        problem = explain_syntax(error, document.text)
        if any(known.line == problem.line for known in document.problems):
            raise ContractError(document.problems) from None  # what was said about the line is the cause
        raise document.failed(problem.message, problem.hint, Mark(problem.line, problem.column)) from None
    except (OverflowError, ValueError, IndexError):  # an escape such as \UFFFFFFFF: the library lets chr() fail
        raise document.failed(
            "an escape in double quotes is no character", r"for backslashes use single quotes: 'C:\DSWIN'", builder.last
        ) from None
    if not isinstance(document.data, dict):
        if document.data is None and not document.problems:
            raise document.failed("the file is empty", "a contract begins with `schema: 1`")
        raise document.failed("the file must be a mapping (`name: value` lines)", "see the example in the reference")
    return document


def _decoded(source: str | bytes, document: Document) -> str:
    if isinstance(source, str):
        text = source.removeprefix("\ufeff")
        if len(text) > MAX_BYTES:
            raise document.failed(f"the file is larger than {MAX_BYTES >> 20} MiB", "a contract speaks of one task")
        position = next((i for i, char in enumerate(text) if "\ud800" <= char <= "\udfff"), None)
        if position is not None:
            raise document.failed("the text contains half of a surrogate pair", "remove it", _mark_at(text, position))
        return text
    if len(source) > MAX_BYTES:
        raise document.failed(f"the file is larger than {MAX_BYTES >> 20} MiB", "a contract speaks of one task")
    if source.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise document.failed("the file is UTF-16", "save it as UTF-8")
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig", "replace")
        raise document.failed(
            f"the byte 0x{error.object[error.start]:02X} is not UTF-8",
            "save the file as UTF-8",
            _mark_at(before, len(before)),
        ) from None


def _mark_at(text: str, offset: int) -> Mark:
    before = text[:offset]
    return Mark(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1, offset, offset)


def _mark(event: Event) -> Mark:
    start, end = event.start_mark, event.end_mark
    return Mark(start.line + 1, start.column + 1, start.index, end.index)


@dataclass
class _Open:
    """A collection that is being filled. ``into`` is ``None`` for what is read and thrown away."""

    into: dict[str, Any] | list[Any] | None
    loc: Loc
    is_mapping: bool
    is_flow: bool
    mark: Mark
    key: str | None = None
    awaits_value: bool = False
    keep_value: bool = True
    stand_in: bool = False


class _Builder:
    """Turns events into the document's tree."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._stack: list[_Open] = []
        self._nodes = 0
        self._documents = 0
        self.last = START
        """Where the last event ended."""

    def take(self, event: Event) -> None:
        """Adds one event; raises :class:`ContractError` when a bound is passed."""
        end = event.end_mark
        self.last = Mark(end.line + 1, end.column + 1)
        match event:
            case DocumentStartEvent():
                self._begin_document(event)
            case AliasEvent():
                self._refuse_alias(event)
            case ScalarEvent():
                self._scalar(event)
            case MappingStartEvent() | SequenceStartEvent():
                self._open(event)
            case MappingEndEvent() | SequenceEndEvent():
                self._close()
            case _:
                pass

    def _begin_document(self, event: DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._document.failed(
                "a second document begins here", "one file holds one contract: remove the `---`", _mark(event)
            )
        if event.version or event.tags:
            raise self._document.failed("directives (`%…`) are not used here", "remove the line", START)

    def _count(self, mark: Mark) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._document.failed(f"the file has more than {MAX_NODES} values", "", mark)

    def _awaits_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].is_mapping and not self._stack[-1].awaits_value

    def _place(self) -> tuple[Loc, bool]:
        """Location of the value that comes next, and whether it is kept."""
        if not self._stack:
            return (), True
        top = self._stack[-1]
        if not top.is_mapping:
            return (*top.loc, len(top.into) if top.into is not None else 0), top.into is not None
        return (*top.loc, top.key or ""), top.into is not None and top.keep_value

    def _put(self, loc: Loc, value: Plain, mark: Mark, *, keep: bool) -> None:
        if keep:
            self._document.values[loc] = mark
        if not self._stack:
            self._document.data = value
            return
        top = self._stack[-1]
        if isinstance(top.into, list):
            top.into.append(value)
        elif isinstance(top.into, dict) and keep and top.key is not None:
            top.into[top.key] = value
        top.awaits_value = False

    def _here(self) -> Loc:
        """The location to name for what comes next: for a key, the mapping that it stands in."""
        return self._stack[-1].loc if self._awaits_key() else self._place()[0]

    def _refuse_properties(self, event: ScalarEvent | MappingStartEvent | SequenceStartEvent, mark: Mark) -> None:
        if event.anchor is not None:
            self._document.report(
                self._here(), "anchors (`&name`) are not used here", "write the value out; quote a text that begins with `&`",
                mark=mark,
            )  # fmt: skip
        if event.tag is not None:
            self._document.report(
                self._here(),
                "tags (`!name`) are not used here",
                "remove it; quote a text that begins with `!`",
                mark=mark,
            )

    def _refuse_alias(self, event: AliasEvent) -> None:
        mark = _mark(event)
        self._count(mark)
        self._document.report(
            self._here(), "an unquoted `*` begins an alias, and aliases are not used here",
            "quote the text, such as '*.TMP'; a repeated value is written out", mark=mark,
        )  # fmt: skip
        if self._awaits_key():
            self._key("*", mark, keep=False)
        else:
            loc, keep = self._place()
            self._put(loc, "*", mark, keep=keep)

    def _scalar(self, event: ScalarEvent) -> None:
        mark = _mark(event)
        self._count(mark)
        self._refuse_properties(event, mark)
        plain = not event.style
        text = str(event.value)
        if any("\ud800" <= char <= "\udfff" for char in text):
            text = self._joined_surrogates(text, mark)
        if self._awaits_key():
            self._scalar_key(text, mark, plain=plain)
            return
        loc, keep = self._place()
        if plain and not text:  # nothing stands there: the parser's mark is where the next thing begins
            mark = self._document.keys.get(loc, mark)
        value = self._resolved(text, loc, mark) if plain else text
        if plain and "\t" in text:
            self._document.warn(
                loc,
                "a tab stands inside the unquoted text and belongs to it",
                r'if it is meant, write "\t" in double quotes',
                mark=mark,
            )
        if event.style == '"' and any(char in "\a\b\v\f\x1b\0" for char in text):
            self._document.warn(
                loc,
                "in double quotes a backslash made a control character",
                "use single quotes: 'C:\\DSWIN', '\\bword'",
                mark=mark,
            )
        self._put(loc, value, mark, keep=keep)

    def _joined_surrogates(self, text: str, mark: Mark) -> str:
        """JSON writes characters beyond U+FFFF as two escapes, and JSON is YAML; half a pair is no character."""
        units = text.encode("utf-16-le", "surrogatepass")
        try:
            return units.decode("utf-16-le")
        except UnicodeDecodeError:
            self._document.report(
                self._here(), "the escape is half of a surrogate pair", "write the character itself", mark=mark
            )
            return units.decode("utf-16-le", "replace")

    def _resolved(self, text: str, loc: Loc, mark: Mark) -> Plain:
        if text == "null" and loc[-1:] == ("is",):  # the matcher's word, not a value that is missing
            return text
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        try:
            value = number(text)
        except NotANumber as error:
            self._document.report(loc, error.args[0], error.args[1], mark=mark)
            return text
        if value is None:
            return text
        if text[0] == "+" or _BASED.fullmatch(text) or "e" in text.lower():
            self._document.warn(loc, f"this is read as the number {value:f}", "quote it if it is a text", mark=mark)
        return value

    def _scalar_key(self, text: str, mark: Mark, *, plain: bool) -> None:
        top = self._stack[-1]
        loc = (*top.loc, text)
        if plain and text == "<<":
            self._document.report(loc, "merge keys (`<<`) are not used here", "write the values out", mark=mark)
            self._key(text, mark, keep=False)
            return
        if plain and self._is_no_name(text):
            what = "an empty key" if not text else f"the key `{shown(text)}` is no text"
            self._document.report(loc, what, "quote it" if text else "a name belongs before the `:`", mark=mark)
        if isinstance(top.into, dict) and text in top.into:
            first = self._document.keys[loc].line
            self._document.report(
                loc, f"`{shown(text)}` stands here twice, first in line {first}", "remove one of them", mark=mark
            )
            self._key(text, mark, keep=False)
            return
        if top.into is not None:
            self._document.keys[loc] = mark
            self._document.values[loc] = mark  # until its value comes
            if isinstance(top.into, dict):
                top.into[text] = None
        self._key(text, mark, keep=True)

    def _is_no_name(self, text: str) -> bool:
        try:
            return text in _NULL or text in _TRUE or text in _FALSE or number(text) is not None
        except NotANumber:
            return True

    def _key(self, text: str, _mark: Mark, *, keep: bool) -> None:
        top = self._stack[-1]
        top.key, top.awaits_value, top.keep_value = text, True, keep

    def _open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        mark = _mark(event)
        self._count(mark)
        if len(self._stack) >= MAX_DEPTH:
            raise self._document.failed(f"lists and mappings are nested more than {MAX_DEPTH} deep", "", mark)
        self._refuse_properties(event, mark)
        is_mapping = isinstance(event, MappingStartEvent)
        if self._awaits_key():
            self._refuse_collection_key(mark, is_mapping=is_mapping and bool(event.flow_style))
            self._stack.append(_Open(None, self._stack[-1].loc, is_mapping, bool(event.flow_style), mark))
            return
        loc, keep = self._place()
        into: dict[str, Any] | list[Any] | None = ({} if is_mapping else []) if keep else None
        if keep:
            self._document.values[loc] = mark
        self._stack.append(_Open(into, loc, is_mapping, bool(event.flow_style), mark))

    def _refuse_collection_key(self, mark: Mark, *, is_mapping: bool) -> None:
        outer = self._stack[-1]
        if is_mapping and outer.is_flow and mark.line == outer.mark.line and mark.column == outer.mark.column + 1:
            self._document.report(
                outer.loc, "an unquoted `{{` is read as a mapping", 'quote the text: "{{name}}"', mark=outer.mark
            )
            outer.stand_in = True
        else:
            self._document.report(outer.loc, "a list or mapping cannot be a key", "quote it if it is a text", mark=mark)

    def _close(self) -> None:
        done = self._stack.pop()
        if self._awaits_key():  # it stood where a key belongs, and was reported: its value is thrown away as well
            self._key("", done.mark, keep=False)
            return
        loc, keep = self._place()
        if done.stand_in:
            self._put(loc, "?", done.mark, keep=keep)
        else:
            self._put(loc, done.into if done.into is not None else None, done.mark, keep=keep)


def children(loc: Loc, value: Plain) -> Iterable[tuple[Loc, Plain]]:
    """The elements directly in a list or mapping, with their locations."""
    if isinstance(value, dict):
        return [((*loc, key), item) for key, item in value.items()]
    if isinstance(value, list):
        return [((*loc, index), item) for index, item in enumerate(value)]
    return []
