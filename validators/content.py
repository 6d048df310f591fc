"""What a file holds: whether rules about content hold of it (CONTRACT.md section 2, "Files").

Contents come from the guest and may be anything: what cannot be decoded, parsed or found makes a rule not hold, with the reason in
words, and never an exception. Only a content that was not kept is unreadable, since nobody can tell then.

Decisions where the contract leaves room:

* A path names one value. A key that a JSON object or INI section holds twice, an element, row or column that fits several times is
  none: which of them a program would take is its own affair.
* Values of JSON files keep their types (a text is no number); those of XML, INI and CSV files are texts.
* INI files are read as the Windows profile functions do: names without case, blanks around names and values cut, one pair of quotes
  around a value removed, lines that begin with ``;`` are comments.
* XML files with a document type declaration are not read: entities of a hostile file have no end.
* In a PDF texts, regular expressions and referenced values are looked for anywhere; white space counts as one blank on both sides.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from io import StringIO
from typing import Any, NoReturn
from xml.parsers import expat

from contracts.places import XmlPlace, ini_place, json_place, xml_place
from contracts.schema import (
    AllOf,
    Content,
    CsvAt,
    CsvPlace,
    CsvValue,
    FieldOf,
    FileSha256,
    FileSize,
    FileText,
    ImageContent,
    ImageRule,
    IniAt,
    IniValue,
    JsonAt,
    JsonValue,
    Matcher,
    Not,
    OneOf,
    PdfContent,
    PdfRule,
    Regex,
    Returned,
    TextLike,
    TimeRun,
    XmlAt,
    XmlValue,
)
from validators import documents
from validators.changes import Cell, CellState, ContractFault, KeptFile, Kind
from validators.matchers import RunContext, Subject, claimed_cell, describe, hint, matches
from validators.values import cell_of_json, is_empty, normalised, safe_search, shown, spelled

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_MAX_DEPTH = 1_000
_MAX_TEXT = 1 << 20
_MAX_DIGITS = 400
_SEVERAL = 2
"""As many hits are enough to know that a place is not one."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one rule says of a file.

    Attributes:
        fits: Whether it holds.
        expected: What it asks for, in words.
        found: What is there, for people, or why nothing is.
        empty: Whether nothing was filled in.
        hint: What may help the contract's author.
    """

    fits: bool
    expected: str
    found: str
    empty: bool = False
    hint: str = ""


class Absent(Exception):
    """There is no such value in the file, or not one alone: the reason in words."""


class NotText(Absent):
    """The bytes are no text of the encoding."""

    def __init__(self, encoding: str, raw: bytes) -> None:
        super().__init__(f"the content is not {encoding} text; declare its `encoding`")
        self.raw = raw[:256]


def check_content(rule: Content, file: KeptFile, context: RunContext) -> list[Check]:
    """What a rule about a file's content says of it; it holds if all of the checks do.

    Args:
        rule: The rule.
        file: The file after the run.
        context: The run.

    Raises:
        Unreadable: The content is needed and was not kept.
        ContractFault: The rule cannot be applied.
    """
    if file.kind != "file":
        what = {"dir": "a folder", "link": "a link"}.get(file.kind, file.kind)
        return [Check(False, "a file", what)]
    match rule:
        case FileSha256():
            found = file.sha256.lower() or hashlib.sha256(file.content).hexdigest()
            fits, empty = found == rule.sha256, not is_filled(file)
            return [Check(fits, f"SHA-256 {rule.sha256}", f"SHA-256 {shown(found)}", empty)]
        case FileSize():
            return [_of_cell(rule.size, size_of(file), context)]
        case FileText():
            matcher, cell = _text_rule(rule, file)
            return [_of_cell(matcher, cell, context)]
        case JsonValue():
            return [_of_place(f"{rule.json_}", rule, rule.is_, file, context)]
        case XmlValue():
            return [_of_place(rule.xml, rule, rule.is_, file, context)]
        case IniValue():
            return [_of_place(rule.ini, rule, rule.is_, file, context)]
        case CsvValue():
            return [_of_place(_csv_words(rule.csv, context), rule, rule.is_, file, context)]
        case PdfContent():
            return list(_pdf(rule.pdf, file, context))
        case ImageContent():
            return list(_image(rule.image, file, context))
        case _:
            return [_of_cell(rule, text_of_file(file, "utf-8"), context)]


def value_at(place: JsonAt | XmlAt | IniAt | CsvAt, file: KeptFile, context: RunContext) -> Cell:
    """The value at a place in a file.

    Raises:
        Absent: There is none, or not one alone.
        Unreadable: The content was not kept.
        ContractFault: A row of a CSV file is selected by a rule that cannot be applied.
    """
    match place:
        case JsonAt():
            return _json(place, file.content)
        case XmlAt():
            return _text(_XmlFinder(xml_place(place.xml)).find(file.content, place.encoding))
        case IniAt():
            return _text(_ini(decoded(file.content, place.encoding), *ini_place(place.ini)))
        case CsvAt():
            return _csv(place.csv, file.content, context)


def size_of(file: KeptFile) -> Cell:
    """The file's size as a cell."""
    return file.size or Cell(Kind.NUMBER, Decimal(len(file.content)), has_blank=False)


def is_filled(file: KeptFile) -> bool:
    """Whether the file holds anything at all."""
    return not is_empty(size_of(file))


def text_of_file(file: KeptFile, encoding: str) -> Cell:
    """The whole text as a cell; undecodable where it is none."""
    try:
        return _text(decoded(file.content, encoding))
    except NotText as error:
        return Cell(Kind.VARTEXT, state=CellState.UNDECODABLE, raw=error.raw, hint=str(error))


def decoded(content: bytes, encoding: str | None) -> str:
    """A content as text; without a declared encoding UTF-8, or what its mark says.

    Raises:
        NotText: It is not text of that encoding.
        ContractFault: There is no such encoding.
    """
    name = encoding or next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    name = "utf-8-sig" if name.lower().replace("_", "-") in ("utf-8", "utf8") else name
    try:
        text, _ = codecs.lookup(name).decode(content, "strict")
    except LookupError:
        raise ContractFault(f"unknown encoding: {shown(name, 40)}") from None
    except (UnicodeError, ValueError):
        raise NotText(encoding or name.removesuffix("-sig"), content) from None
    if not isinstance(text, str):
        raise ContractFault(f"{shown(name, 40)} is not an encoding of text")
    return text


def _text(text: str) -> Cell:
    return Cell(Kind.VARTEXT, text) if text else Cell(Kind.VARTEXT, state=CellState.BLANK)


def _text_rule(rule: FileText, file: KeptFile) -> tuple[Matcher, Cell]:
    """The matcher over a file's text and the text, with the normalisations applied to both."""
    cell = text_of_file(file, rule.encoding)
    if rule.normalise and isinstance(cell.value, str):
        cell = _text(normalised(cell.value, rule.normalise))
    if rule.normalise and isinstance(rule.text, str):
        return TextLike(text=rule.text, normalise=rule.normalise), cell
    return rule.text, cell


def _of_cell(matcher: Matcher, cell: Cell, context: RunContext, *, label: str = "", strict: bool = False) -> Check:
    return Check(
        fits=matches(matcher, Subject(cell, strict=strict), context),
        expected=label + describe(matcher, None, context),
        found=label + cell.display(),
        empty=is_empty(cell),
        hint=hint(matcher, cell),
    )


def _of_place(
    name: str, place: JsonAt | XmlAt | IniAt | CsvAt, matcher: Matcher, file: KeptFile, context: RunContext
) -> Check:
    label = f"{shown(name, 80)}: "
    try:
        cell = value_at(place, file, context)
    except Absent as reason:
        return Check(False, label + describe(matcher, None, context), shown(str(reason), 300), not is_filled(file))
    return _of_cell(matcher, cell, context, label=label, strict=isinstance(place, JsonAt))


# --- JSON -------------------------------------------------------------------------------------------------------------


class _Object(dict[str, Any]):
    """A JSON object that knows which of its keys it holds more than once."""

    __slots__ = ("twice",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: set[str] = set()
        if len(self) < len(pairs):
            seen: set[str] = set()
            self.twice = {key for key, _ in pairs if key in seen or seen.add(key)}  # type: ignore[func-returns-value]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_float=Decimal, parse_constant=_refuse_constant)


def _json(place: JsonAt, content: bytes) -> Cell:
    text = decoded(content, place.encoding)
    try:
        value = _DECODER.decode(text)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Absent(f"the content is no JSON ({shown(str(error), 100)})") from None
    way = "$"
    for step in json_place(place.json_):
        if isinstance(step, int):
            if not isinstance(value, list):
                raise Absent(f"{way} is no list")
            if step >= len(value):
                raise Absent(f"{way} has {len(value)} entries, none of number {step} (counted from 0)")
        elif not isinstance(value, _Object):
            raise Absent(f"{way} is no object")
        elif step in value.twice:
            raise Absent(f"{way} has the key “{shown(step, 60)}” more than once")
        elif step not in value:
            raise Absent(f"{way} has no key “{shown(step, 60)}”" + _there(value))
        value = value[step]
        way += f"[{step}]" if isinstance(step, int) else f".{shown(step, 60)}"
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        number = Decimal(value)
        if abs(number.adjusted()) > _MAX_DIGITS or len(number.as_tuple().digits) > _MAX_DIGITS:
            raise Absent(f"{way} is a number of more than {_MAX_DIGITS} digits")
    return cell_of_json(value)


def _there(names: Sequence[str] | dict[str, Any]) -> str:
    listed = [f"“{shown(name, 40)}”" for name, _ in zip(names, range(8), strict=False)]
    return f"; there: {', '.join(listed)}" if listed else ""


# --- XML --------------------------------------------------------------------------------------------------------------


class _XmlFinder:
    """Looks for one place while the document streams by: memory does not grow with it.

    Of the elements that are open, the first few lead along the path; ``_along`` says how many. Declarations are refused, so that
    there are no entities but the five of XML itself.
    """

    def __init__(self, place: XmlPlace) -> None:
        self._place = place
        self._depth = 0
        self._along = 0
        self._counts: list[int] = [0] * (len(place.steps) + 1)
        self._text: list[str] | None = None
        self._length = 0
        self._hits: list[str] = []
        self._lost = False

    def find(self, content: bytes, encoding: str | None) -> str:
        """The text.

        Raises:
            Absent: There is none or there are several, or the content is no XML.
        """
        if encoding is not None:
            content = decoded(content, encoding).encode("utf-8", "surrogatepass")
        parser = expat.ParserCreate("utf-8" if encoding is not None else None)
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartDoctypeDeclHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        try:
            parser.Parse(content, True)
        except (expat.ExpatError, LookupError, ValueError) as error:
            raise Absent(f"the content is no XML ({shown(str(error), 100)})") from None
        if not self._hits:
            what = "attribute" if self._lost else "element"
            raise Absent(f"there is no such {what}")
        if len(self._hits) >= _SEVERAL:
            raise Absent("there are several such elements; say which, as in `name[1]`")
        return self._hits[0]

    @staticmethod
    def _refuse(*_: object) -> NoReturn:
        raise Absent("the content has a document type declaration, and such files are not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Absent(f"the content is nested deeper than {_MAX_DEPTH} elements")
        steps = self._place.steps
        if self._along != self._depth - 1 or self._along == len(steps):
            return
        step = steps[self._along]
        if name.rpartition(":")[2] != step.name:
            return
        if step.attribute is not None and attributes.get(step.attribute[0]) != step.attribute[1]:
            return
        self._counts[self._along] += 1
        if step.nth not in (None, self._counts[self._along]):
            return
        self._along += 1
        self._counts[self._along] = 0
        if self._along < len(steps):
            return
        if self._place.attribute is None:
            self._text, self._length = [], 0
        elif self._place.attribute in attributes:
            self._hit(attributes[self._place.attribute])
        else:
            self._lost = True

    def _end(self, _name: str) -> None:
        if self._along == self._depth:
            if self._text is not None and self._along == len(self._place.steps):
                self._hit("".join(self._text))
                self._text = None
            self._along -= 1
        self._depth -= 1

    def _characters(self, text: str) -> None:
        if self._text is not None and len(self._hits) < _SEVERAL:
            self._length += len(text)
            if self._length > _MAX_TEXT:
                raise Absent(f"its text is longer than {_MAX_TEXT} characters")
            self._text.append(text)

    def _hit(self, text: str) -> None:
        if len(self._hits) < _SEVERAL:
            self._hits.append(text)


# --- INI --------------------------------------------------------------------------------------------------------------


def _ini(text: str, section: str, key: str) -> str:
    here, there = "", not section
    names: list[str] = []
    found: list[str] = []
    for line in text.replace("\r", "\n").split("\n"):
        line = line.strip()  # noqa: PLW2901 - what stands on it
        if not line or line.startswith(";"):
            continue
        if line.startswith("["):
            here = line[1:].partition("]")[0].strip()
            there = there or _same(here, section)
        elif _same(here, section):
            name, _, value = line.partition("=")
            names.append(name.strip())
            if _same(name.strip(), key):
                found.append(value.strip())
    if not there:
        raise Absent(f"there is no section [{shown(section, 60)}]")
    if not found:
        raise Absent(f"[{shown(section, 60)}] has no key {shown(key, 60)}" + _there(names))
    if len(found) > 1:
        raise Absent(f"[{shown(section, 60)}] has the key {shown(key, 60)} {len(found)} times")
    value = found[0]
    quoted = len(value) >= len("''") and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _same(one: str, other: str) -> bool:
    return one == other or one.lower() == other.lower()


# --- CSV --------------------------------------------------------------------------------------------------------------


def _csv(place: CsvPlace, content: bytes, context: RunContext) -> Cell:
    reader = csv.reader(StringIO(decoded(content, place.encoding), newline=""), delimiter=place.delimiter, strict=True)
    try:
        rows = filter(None, reader)
        header = next(rows, None) if place.header else []
        if header is None:
            raise Absent("the content has no line that names the columns")
        column = _column(place.column, header, place)
        row = _csv_row(place, header, rows, context)
    except csv.Error as error:
        raise Absent(f"line {reader.line_num} is no CSV ({shown(str(error), 80)})") from None
    if column >= len(row):
        raise Absent(f"the row has {len(row)} columns, none of number {column + 1}")
    return _text(row[column])


def _csv_row(place: CsvPlace, header: list[str], rows: Iterator[list[str]], context: RunContext) -> list[str]:
    if isinstance(place.row, int):
        for number, row in enumerate(rows, 1):
            if number == place.row:
                return row
        raise Absent(f"there is no row {place.row}")
    wanted = [(_column(name, header, place), matcher) for name, matcher in place.row.items()]
    found = []
    for row in rows:
        if all(at < len(row) and matches(matcher, Subject(_text(row[at])), context) for at, matcher in wanted):
            found.append(row)
            if len(found) == _SEVERAL:
                raise Absent("several rows fit")
    if not found:
        raise Absent("no row fits")
    return found[0]


def _column(column: str | int, header: list[str], place: CsvPlace) -> int:
    if isinstance(column, int):
        return column - 1
    count = header.count(column)
    if count == 1:
        return header.index(column)
    if count:
        raise Absent(f"{count} columns are named “{shown(column, 60)}”")
    advice = ""
    if len(header) == 1 and (other := next((sign for sign in ";,\t|" if sign in header[0]), None)):
        advice = f"; the lines hold `{shown(other)}`: declare `delimiter`" if other != place.delimiter else ""
    raise Absent(f"there is no column “{shown(column, 60)}”{advice or _there(header)}")


def _csv_words(place: CsvPlace, context: RunContext) -> str:
    if isinstance(place.row, int):
        row = f"row {place.row}"
    else:
        row = "row with " + ", ".join(f"{name} {describe(m, None, context)}" for name, m in place.row.items())
    return f"{row}, column {place.column}"


# --- documents --------------------------------------------------------------------------------------------------------


def _pdf(rule: PdfRule, file: KeptFile, context: RunContext) -> Iterator[Check]:
    try:
        facts = documents.read_pdf(file.content)
    except documents.BadDocument as error:
        yield Check(False, "a PDF that opens", error.reason, not is_filled(file))
        return
    if rule.pages is not None:
        pages = Cell(Kind.NUMBER, Decimal(facts.pages), has_blank=False)
        yield _of_cell(rule.pages, pages, context, label="pages: ")
    for matcher in rule.text if isinstance(rule.text, list) else [] if rule.text is None else [rule.text]:
        more = "only the beginning of the text was looked at" if facts.cut else ""
        none = "" if facts.text else "the document has no text, perhaps only pictures of it"
        yield Check(
            _in_text(matcher, facts.text, context), f"text: {describe(matcher, None, context)}",
            f"text: {shown(facts.text) or '(none)'}", not facts.text, more or none,
        )  # fmt: skip
    if rule.created is not None:
        yield _created(facts.created, context)


def _created(moment: datetime | None, context: RunContext) -> Check:
    made_in_run = TimeRun(time="run")
    label = "created: "
    if moment is None:
        return Check(False, label + describe(made_in_run, None, context), label + "(it does not say)")
    if moment.tzinfo is not None and context.started.tzinfo is not None:
        moment = moment.astimezone(context.started.tzinfo)
    return _of_cell(made_in_run, Cell(Kind.DATETIME, moment), context, label=label)


def _in_text(matcher: Matcher, text: str, context: RunContext) -> bool:
    """Whether a text has somewhere what a matcher speaks of."""
    match matcher:
        case bool():
            return False
        case str() | int() | Decimal():
            return " ".join(str(matcher).split()) in text
        case TextLike():
            how = [*matcher.normalise, "whitespace"]
            return normalised(matcher.text, how) in normalised(text, how)
        case Regex():
            return safe_search(matcher.regex, text)
        case OneOf():
            return any(_in_text(part, text, context) for part in matcher.one_of)
        case AllOf():
            return all(_in_text(part, text, context) for part in matcher.all_of)
        case Not():
            return not _in_text(matcher.not_, text, context)
        case FieldOf():
            return _spelled_in(claimed_cell(matcher, context), text)
        case Returned():
            known = matcher.returned in context.returned
            return known and _spelled_in(cell_of_json(context.returned[matcher.returned]), text)
        case _:
            return matches(matcher, Subject(_text(text)), context)


def _spelled_in(cell: Cell | None, text: str) -> bool:
    wanted = None if cell is None else spelled(cell, strict=False)
    return bool(wanted and wanted.strip()) and " ".join(str(wanted).split()) in text


def _image(rule: ImageRule, file: KeptFile, context: RunContext) -> Iterator[Check]:
    try:
        facts = documents.read_picture(file.content)
        yield from _picture_facts(rule, facts, context)
        if rule.blank is not None:
            words = {True: "one colour only", False: "more than one colour"}
            found = documents.is_blank(file.content)
            yield Check(found is rule.blank, words[rule.blank], words[found], found)
        if rule.like is not None:
            yield _likeness(rule.like, rule.tolerance or Decimal(0), file, context)
    except documents.BadDocument as error:
        yield Check(False, "a picture that opens", error.reason, not is_filled(file))


def _picture_facts(rule: ImageRule, facts: documents.PictureFacts, context: RunContext) -> Iterator[Check]:
    pairs: tuple[tuple[str, Matcher | None, str | int], ...] = (
        ("format", rule.format, facts.format), ("mode", rule.mode, facts.mode),
        ("width", rule.width, facts.width), ("height", rule.height, facts.height),
    )  # fmt: skip
    for name, matcher, found in pairs:
        if matcher is not None:
            yield _of_cell(matcher, cell_of_json(found), context, label=f"{name}: ")


def _likeness(name: str, tolerance: Decimal, file: KeptFile, context: RunContext) -> Check:
    picture = context.pictures.get(name)
    if picture is None:
        raise ContractFault(f"the expected picture {shown(name, 80)} is not at hand")
    try:
        documents.read_picture(picture)
    except documents.BadDocument as error:
        raise ContractFault(f"the expected picture {shown(name, 80)} is of no use: {error.reason}") from None
    expected = f"like {shown(name, 80)}" + (f" (difference at most {tolerance.normalize():f})" if tolerance else "")
    try:
        apart = documents.difference(file.content, picture)
    except documents.BadDocument as error:
        return Check(False, expected, error.reason)
    return Check(apart <= tolerance, expected, f"difference {apart.normalize():f}")
