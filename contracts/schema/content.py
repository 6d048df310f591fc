"""Rules about a file's content: its text, one value of a structured file, documents and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    StrictBool,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.places import PlaceError, ini_place, json_place, xml_place
from contracts.schema.base import Encoding, Model, Number, Text, one_or_list
from contracts.schema.matchers import AllOf, Fields, Matcher, Normalisation, Not, OneOf, matcher_tag


class FileText(Model):
    """Text content of a file: ``{text: …, encoding: cp850}``; UTF-8 with or without BOM unless declared."""

    text: Matcher
    encoding: Encoding = "utf-8"
    normalise: list[Normalisation] = Field(default_factory=list)


class FileSha256(Model):
    """Content of a file by its SHA-256, in hexadecimal."""

    sha256: Annotated[str, StringConstraints(strict=True, to_lower=True, pattern=r"^[0-9a-fA-F]{64}$")]


class FileSize(Model):
    """Size of a file in bytes, by a matcher."""

    size: Matcher


def _place_of(parse: Callable[[str], object]) -> AfterValidator:
    def check(value: str) -> str:
        try:
            parse(value)
        except PlaceError as error:
            raise PydanticCustomError("place", "{why}", {"why": str(error)}) from None
        return value

    return AfterValidator(check)


class JsonAt(Model):
    """One value of a JSON file: ``{json: '$.patient.visits[0].date'}`` (contracts/places.py)."""

    json_: Annotated[Text, _place_of(json_place)] = Field(alias="json")
    encoding: Encoding | None = None
    """Left out: UTF-8, or UTF-16 or UTF-32 by its mark."""


class JsonValue(JsonAt):
    """``{json: '$.total', is: 12.50}``: one value of a JSON file; types are strict, ``"104"`` is not ``104``."""

    is_: Matcher = Field(alias="is")


class XmlAt(Model):
    """One element's text or one attribute of an XML file: ``{xml: '/export/patient[2]/@id'}``."""

    xml: Annotated[Text, _place_of(xml_place)]
    encoding: Encoding | None = None
    """Left out: as the file declares."""


class XmlValue(XmlAt):
    """``{xml: '/export/count', is: '3'}``: one text of an XML file; files with a DTD are not read."""

    is_: Matcher = Field(alias="is")


class IniAt(Model):
    """One value of an INI file, as Windows reads it: ``{ini: 'Section/Key'}``; names without case, first ``;`` comments."""

    ini: Annotated[Text, _place_of(ini_place)]
    encoding: Encoding | None = None
    """Left out: UTF-8, or UTF-16 by its mark."""


class IniValue(IniAt):
    """``{ini: 'Printer/Port', is: LPT1}``: one value of an INI file."""

    is_: Matcher = Field(alias="is")


_Ordinal = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]


def _ordinal_tag(value: Any) -> str:
    return "number" if isinstance(value, int) else "named"


class CsvPlace(Model):
    """One cell of a CSV file: its row and column."""

    row: Annotated[Annotated[_Ordinal, Tag("number")] | Annotated[Fields, Tag("named")], Discriminator(_ordinal_tag)]
    """The number of a row below the header, from 1, or what the one row that is meant holds: ``{Nr: '000104'}``."""
    column: Annotated[Annotated[_Ordinal, Tag("number")] | Annotated[Text, Tag("named")], Discriminator(_ordinal_tag)]
    """The name of a column as the first line has it, or its number from 1."""
    delimiter: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=1, pattern=r'^[^"\r\n\x00]$')] = (
        ","
    )
    header: StrictBool = True
    """Whether the first line names the columns."""
    encoding: Encoding | None = None
    """Left out: UTF-8, or UTF-16 by its mark."""

    @model_validator(mode="after")
    def _names_need_header(self) -> Self:
        if not self.header and not (isinstance(self.row, int) and isinstance(self.column, int)):
            raise PydanticCustomError("csv", "without a header row and column are given by number")
        if not isinstance(self.row, int) and not self.row:
            raise PydanticCustomError("csv", "`row` says nothing: name at least one column that selects")
        return self


class CsvAt(Model):
    """One cell of a CSV file: ``{csv: {row: {Nr: '000104'}, column: Name, delimiter: ';'}}``."""

    csv: CsvPlace


class CsvValue(CsvAt):
    """``{csv: {row: {Nr: '000104'}, column: Name}, is: Huber}``: one cell of a CSV file."""

    is_: Matcher = Field(alias="is")


class PdfRule(Model):
    """What a PDF holds; every rule given must hold, and none only that it opens."""

    pages: Matcher | None = None
    """The number of pages."""
    text: (
        Annotated[Annotated[Matcher, Tag("one")] | Annotated[list[Matcher], Tag("list")], Discriminator(one_or_list)]
        | None
    ) = None
    """Looked for anywhere in the text of all pages, white space counting as one blank; each of a list."""
    created: Literal["run"] | None = None
    """It says that it was made within the run."""


class PdfContent(Model):
    """``{pdf: {pages: 1, text: [Huber, '12.50'], created: run}}``."""

    pdf: PdfRule


class ImageRule(Model):
    """What a picture is; every rule given must hold, and none only that it opens."""

    format: Literal["BMP", "GIF", "ICO", "JPEG", "PCX", "PNG", "PPM", "TGA", "TIFF", "WEBP"] | None = None
    width: Matcher | None = None
    """In pixels."""
    height: Matcher | None = None
    mode: Literal["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I", "F"] | None = None
    """Kind of pixels, by Pillow's names."""
    like: Text | None = None
    """A picture beside the contract, of the same size in pixels."""
    tolerance: Annotated[Number, Field(ge=0, le=1)] | None = None
    """How far from it: mean difference of the colours, from 0 (equal) to 1 (black against white)."""
    blank: StrictBool | None = None
    """Whether all pixels have one colour."""

    @model_validator(mode="after")
    def _tolerance_of_what(self) -> Self:
        if self.tolerance is not None and self.like is None:
            raise PydanticCustomError("image", "`tolerance` needs a picture to compare with: `like: …`")
        return self


class ImageContent(Model):
    """``{image: {format: PNG, width: 640, like: expected.png, tolerance: 0.02, blank: false}}``."""

    image: ImageRule


CONTENT_KEYS = ("text", "sha256", "size", "json", "xml", "ini", "csv", "pdf", "image")
"""The key that tells what a rule about a file's content is."""


def _content_tag(value: Any) -> str | None:
    if isinstance(value, BaseModel):
        return next((key for key in CONTENT_KEYS if {key, f"{key}_"} & type(value).model_fields.keys()), "matcher")
    if not isinstance(value, Mapping):
        return "matcher"
    known = next((key for key in ("sha256", "size", *CONTENT_KEYS) if key in value), None)
    # `is` with anything else beside it is a value of a file whose kind is misspelt or left out.
    is_value = "is" in value and value.keys() - {"is", "because"}
    return known or ("matcher" if matcher_tag(value) is not None and not is_value else None)


Content = Annotated[
    Annotated[FileText, Tag("text")]
    | Annotated[FileSha256, Tag("sha256")]
    | Annotated[FileSize, Tag("size")]
    | Annotated[JsonValue, Tag("json")]
    | Annotated[XmlValue, Tag("xml")]
    | Annotated[IniValue, Tag("ini")]
    | Annotated[CsvValue, Tag("csv")]
    | Annotated[PdfContent, Tag("pdf")]
    | Annotated[ImageContent, Tag("image")]
    | Annotated[Matcher, Tag("matcher")],
    Discriminator(_content_tag),
]
"""One rule about a file's content; a bare matcher looks at its text (UTF-8)."""


def parts(rule: object) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The matchers directly within a matcher or a rule about content, each with its place therein."""
    match rule:
        case OneOf():
            yield from ((("one_of", index), part) for index, part in enumerate(rule.one_of))
        case AllOf():
            yield from ((("all_of", index), part) for index, part in enumerate(rule.all_of))
        case Not():
            yield ("not",), rule.not_
        case FileText():
            yield ("text",), rule.text
        case FileSize():
            yield ("size",), rule.size
        case JsonValue() | XmlValue() | IniValue():
            yield ("is",), rule.is_
        case CsvAt():
            if isinstance(rule.csv.row, dict):
                yield from ((("csv", "row", name), matcher) for name, matcher in rule.csv.row.items())
            if isinstance(rule, CsvValue):
                yield ("is",), rule.is_
        case PdfContent():
            if rule.pdf.pages is not None:
                yield ("pdf", "pages"), rule.pdf.pages
            if isinstance(rule.pdf.text, list):
                yield from ((("pdf", "text", index), part) for index, part in enumerate(rule.pdf.text))
            elif rule.pdf.text is not None:
                yield ("pdf", "text"), rule.pdf.text
        case ImageContent():
            for name, matcher in (("width", rule.image.width), ("height", rule.image.height)):
                if matcher is not None:
                    yield ("image", name), matcher
        case list():
            yield from (((index,), part) for index, part in enumerate(rule))
        case _:
            pass
