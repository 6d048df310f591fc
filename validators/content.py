"""What a file holds: whether rules about content hold of it (CONTRACT.md section 2, "Files").

Contents come from the guest and may be anything: what cannot be decoded, parsed or found makes a rule not hold, with the reason in
words, and never an exception. Only a content that was not kept is unreadable, since nobody can tell then.

Decisions where the contract leaves room:

* A path names one value. A key that a JSON object holds twice, an element, row or column that fits several times is none: which of
  them a program would take is its own affair. Of INI files it is known: programs ask Windows, which takes the first.
* Values of JSON files keep their types (a text is no number); those of XML, INI and CSV files are texts.
* How a value is found is each format's own (``validators.formats``).
* In a PDF texts, regular expressions and referenced values are looked for anywhere; white space counts as one blank on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

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
from validators.formats.csv_file import csv_value
from validators.formats.ini_file import ini_value
from validators.formats.json_file import json_value
from validators.formats.text import Absent, NotText, decoded, text_cell
from validators.formats.xml_file import xml_value
from validators.matchers import RunContext, Subject, claimed_cell, describe, hint, matches
from validators.values import cell_of_json, is_empty, normalised, safe_search, shown, spelled


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
            return json_value(place, file.content)
        case XmlAt():
            return text_cell(xml_value(place, file.content))
        case IniAt():
            return text_cell(ini_value(place, file.content))
        case CsvAt():
            return csv_value(place.csv, file.content, context)


def size_of(file: KeptFile) -> Cell:
    """The file's size as a cell."""
    return file.size or Cell(Kind.NUMBER, Decimal(len(file.content)), has_blank=False)


def is_filled(file: KeptFile) -> bool:
    """Whether the file holds anything at all."""
    return not is_empty(size_of(file))


def text_of_file(file: KeptFile, encoding: str) -> Cell:
    """The whole text as a cell; undecodable where it is none."""
    try:
        return text_cell(decoded(file.content, encoding))
    except NotText as error:
        return Cell(Kind.VARTEXT, state=CellState.UNDECODABLE, raw=error.raw, hint=str(error))


def _text_rule(rule: FileText, file: KeptFile) -> tuple[Matcher, Cell]:
    """The matcher over a file's text and the text, with the normalisations applied to both."""
    cell = text_of_file(file, rule.encoding)
    if rule.normalise and isinstance(cell.value, str):
        cell = text_cell(normalised(cell.value, rule.normalise))
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
            return matches(matcher, Subject(text_cell(text)), context)


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
