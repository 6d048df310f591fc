"""The task contract as data: Pydantic models whose words are those of the contract reference.

The models check form: names, types, unknown keys, and rules that one element can break alone. What needs the whole
contract (unknown observables, references between effects) stands in ``contracts/check.py``; reading YAML, parameters and
positions of errors in ``contracts/load.py``. Numbers with a fraction are :class:`decimal.Decimal`, never ``float``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.globs import GlobError, compile_glob, compile_title_glob
from contracts.places import PlaceError, ini_place, json_place, xml_place


class Model(BaseModel):
    """Base of every element: unknown keys are refused, values cannot be changed after loading."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,  # they are what editors show beside a field
    )


class Syntax(Enum):
    """Marks the texts that are patterns: what a parameter's value is escaped for where it is put in."""

    REGEX = "regex"
    GLOB = "glob"


Name = Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""Names of parameters, observables and effects."""
Text = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=20_000)]
Reason = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=3, max_length=2_000)]
"""A ``because``: words for the reader of the report; at least three characters."""


def _windows_path(value: str) -> str:
    unusable = sorted({char for char in value[2:] if char in '<>:"|?*' or char < " "})
    if unusable:
        shown = " ".join(f"`{char}`" if char >= " " else f"U+{ord(char):04X}" for char in unusable)
        hint = (
            r"; in double quotes `\t`, `\n` and the like are control characters: use single quotes"
            if min(unusable) < " "
            else ""
        )
        raise PydanticCustomError(
            "windows_path", "a Windows path cannot contain {found}{hint}", {"found": shown, "hint": hint}
        )
    if {".", ".."} & set(re.split(r"[\\/]", value)):
        raise PydanticCustomError("windows_path", "a path is written without `.` and `..`")
    return value


WindowsPath = Annotated[
    str,
    StringConstraints(strict=True, pattern=r"^[A-Za-z]:[\\/]", max_length=1_000),
    AfterValidator(_windows_path),
]
"""An absolute path in the guest, beginning with a drive."""


_REGISTRY_ROOTS = {
    "HKEY_LOCAL_MACHINE": "HKLM", "HKEY_CURRENT_USER": "HKCU", "HKEY_CLASSES_ROOT": "HKCR", "HKEY_USERS": "HKU",
    "HKEY_CURRENT_CONFIG": "HKCC",
}  # fmt: skip
"""Long and short names of the registry's roots."""
_KEY_NAME = 255
"""The longest name of a key, in characters (Windows, "Registry element size limits")."""


def _registry_path(value: str) -> str:
    root, *names = value.removesuffix("\\").split("\\")
    short = _REGISTRY_ROOTS.get(root.upper(), root.upper())
    if short not in _REGISTRY_ROOTS.values():
        raise PydanticCustomError(
            "registry_path",
            r"a registry key begins with its root ({roots}), such as 'HKCU\Software\DSWin'",
            {"roots": ", ".join(_REGISTRY_ROOTS.values())},
        )
    for name in names:
        if not name or len(name) > _KEY_NAME or min(name) < " ":
            raise PydanticCustomError(
                "registry_path",
                "{found} is no name of a key",
                {"found": f"`{name[:40]!r}`" if name else "what stands between two `\\`"},
            )
    return "\\".join([short, *names])


RegistryPath = Annotated[
    str, StringConstraints(strict=True, min_length=1, max_length=1_000), AfterValidator(_registry_path)
]
r"""A key by its full name; loaded with the root's short name and no ``\`` at the end."""


def _pattern_of(compile_pattern: Callable[[str], object]) -> AfterValidator:
    def check(value: str) -> str:
        try:
            compile_pattern(value)
        except GlobError as error:
            raise PydanticCustomError("glob", "{why}", {"why": str(error)}) from None
        return value

    return AfterValidator(check)


Glob = Annotated[Text, _pattern_of(compile_glob), Syntax.GLOB]
"""A pattern for paths relative to the observable's root (contracts/globs.py)."""
TitleGlob = Annotated[Text, _pattern_of(compile_title_glob), Syntax.GLOB]
"""A pattern for window titles."""


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PydanticCustomError("number_type", "a number is needed here")
    return Decimal(value)


Number = Annotated[Decimal, BeforeValidator(_number)]


def _scalar_tag(value: Any) -> str | None:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case Decimal() | float():
            return "number"
        case str():
            return "text"
        case _:
            return None


Scalar = Annotated[
    Annotated[StrictBool, Tag("boolean")]
    | Annotated[StrictInt, Tag("integer")]
    | Annotated[Decimal, Tag("number")]
    | Annotated[StrictStr, Tag("text")],
    Discriminator(_scalar_tag),
]
"""A bare value of YAML."""

# --- matchers -------------------------------------------------------------------------------------------------------


class Is(Model):
    """``{is: blank}``: what state a field is in, or whether it changed."""

    is_: Literal["blank", "empty", "null", "any", "unchanged", "changed"] = Field(alias="is")
    because: Reason | None = None

    @model_validator(mode="after")
    def _any_has_reason(self) -> Self:
        if self.is_ == "any" and self.because is None:
            raise PydanticCustomError("any_because", "`{is: any}` accepts everything: say `because: …` beside it")
        return self


def _regex(value: str) -> str:
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(value)
    except RecursionError:
        raise PydanticCustomError("regex", "the regular expression is nested too deep") from None
    except (re.error, OverflowError) as error:
        raise PydanticCustomError("regex", "not a regular expression: {why}", {"why": str(error)}) from None
    return value


class Regex(Model):
    """``{regex: …}``: the whole value matches (Python's ``re`` syntax)."""

    regex: Annotated[
        str,
        StringConstraints(strict=True, min_length=1, max_length=2_000),
        AfterValidator(_regex),
        Syntax.REGEX,
    ]


class OneOf(Model):
    """``{one_of: [a, b]}``: at least one of the matchers holds."""

    one_of: list[Matcher] = Field(min_length=1, max_length=200)


class Not(Model):
    """``{not: …}``: the matcher does not hold."""

    not_: Matcher = Field(alias="not")


class AllOf(Model):
    """``{all_of: […]}``: every one of the matchers holds."""

    all_of: list[Matcher] = Field(min_length=1, max_length=200)


class NumberNear(Model):
    """``{number: 12.5, tolerance: 0.01}``: exact decimal arithmetic, bounds included; ``relative`` is a share of the number."""

    number: Number
    tolerance: Annotated[Number, Field(ge=0)] | None = None
    relative: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_tolerance(self) -> Self:
        if self.tolerance is not None and self.relative is not None:
            raise PydanticCustomError("tolerance", "give `tolerance` or `relative`, not both")
        return self


Bound = Annotated[
    Annotated[StrictInt, Tag("integer")] | Annotated[Decimal, Tag("number")] | Annotated[StrictStr, Tag("text")],
    Discriminator(_scalar_tag),
]


class Between(Model):
    """``{between: [a, b]}``: both ends included; numbers, ISO dates or texts."""

    between: tuple[Bound, Bound]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high = self.between
        if isinstance(low, str) != isinstance(high, str):
            raise PydanticCustomError("between", "both ends must be numbers, or both texts or dates")
        if not isinstance(low, str) and not isinstance(high, str) and low > high:
            raise PydanticCustomError("between", "the first end is above the second: nothing lies between them")
        return self


class DateToday(Model):
    """``{date: today}``: a date that the run touched, by the guest's clock and zone."""

    date: Literal["today"]


class TimeRun(Model):
    """``{time: run}``: a moment within the run, by the guest's clock and zone."""

    time: Literal["run"]


Normalisation = Literal["whitespace", "case", "html", "unicode"]


class TextLike(Model):
    """``{text: …, normalise: […]}``: equal after the named normalisations of both sides."""

    text: StrictStr
    normalise: list[Normalisation] = Field(default_factory=list)


class Boolean(Model):
    """``{boolean: true}``: true, 1, T, Y, yes, J, ja (or the opposites), in any case."""

    boolean: StrictBool


class Generated(Model):
    """``{generated: next}`` or ``{generated: unique}``: a value the program makes up itself."""

    generated: Literal["next", "unique"]


class Returned(Model):
    """``{returned: name}``: equal to what the agent returned under that name."""

    returned: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)]


class FieldOf(Model):
    """``{field: effect.FIELD}``: the field in the change that the effect of that name claimed."""

    field: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z][a-z0-9_]*\..+$", max_length=200)]

    @property
    def effect(self) -> str:
        """The name of the effect referred to."""
        return self.field.partition(".")[0]

    @property
    def name(self) -> str:
        """The field's name there."""
        return self.field.partition(".")[2]


MATCHER_KEYS = (
    "is", "regex", "one_of", "not", "all_of", "number", "between", "date", "time", "text", "boolean", "generated",
    "returned", "field",
)  # fmt: skip
"""The key that tells what a matcher is; the loader suggests from these."""


def _matcher_tag(value: Any) -> str | None:
    if isinstance(value, Mapping):
        return next((key for key in MATCHER_KEYS if key in value), None)
    if isinstance(value, BaseModel):
        names = type(value).model_fields
        return next((key for key in MATCHER_KEYS if key in names or f"{key}_" in names), None)
    return None if value is None or isinstance(value, list) else "literal"


Matcher = Annotated[
    Annotated[Scalar, Tag("literal")]
    | Annotated[Is, Tag("is")]
    | Annotated[Regex, Tag("regex")]
    | Annotated[OneOf, Tag("one_of")]
    | Annotated[Not, Tag("not")]
    | Annotated[AllOf, Tag("all_of")]
    | Annotated[NumberNear, Tag("number")]
    | Annotated[Between, Tag("between")]
    | Annotated[DateToday, Tag("date")]
    | Annotated[TimeRun, Tag("time")]
    | Annotated[TextLike, Tag("text")]
    | Annotated[Boolean, Tag("boolean")]
    | Annotated[Generated, Tag("generated")]
    | Annotated[Returned, Tag("returned")]
    | Annotated[FieldOf, Tag("field")],
    Discriminator(_matcher_tag),
]
"""A bare value (a literal), or a mapping that says what it is."""

Fields = dict[Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)], Matcher]
"""Field name to matcher; in ``fields`` the name ``"*"`` stands for every field not named."""


Encoding = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=40)]
"""A codec's name; ``contracts/check.py`` looks whether it is known."""


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


def _list_tag(value: Any) -> str:
    return "list" if isinstance(value, list) else "one"


class PdfRule(Model):
    """What a PDF holds; every rule given must hold, and none only that it opens."""

    pages: Matcher | None = None
    """The number of pages."""
    text: (
        Annotated[Annotated[Matcher, Tag("one")] | Annotated[list[Matcher], Tag("list")], Discriminator(_list_tag)]
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
    return known or ("matcher" if _matcher_tag(value) is not None and not is_value else None)


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


# --- observables ----------------------------------------------------------------------------------------------------


class Because(Model):
    """A rule that loosens the contract: it says why, in words or by the measured noise list it comes from."""

    because: Reason | None = None
    noise: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)] | None = None

    @property
    def reason(self) -> str:
        """What the report shows as the reason."""
        return self.because or (f"noise list {self.noise}" if self.noise else "")


def _needs_reason(rule: Because, what: str) -> None:
    if not rule.reason:
        raise PydanticCustomError("because", "{what} needs `because: …` (or `noise: <list id>`)", {"what": what})


class IgnoredPath(Because):
    """Files of a tree that are not looked at: a glob relative to the tree's root."""

    path: Glob

    @model_validator(mode="after")
    def _reason(self) -> Self:
        _needs_reason(self, "an ignore rule")
        return self


class IgnoredWindow(Because):
    """Windows that are not looked at: every named property must match."""

    title: Matcher | None = None
    class_: Matcher | None = Field(default=None, alias="class")
    program: Matcher | None = None

    @model_validator(mode="after")
    def _reason(self) -> Self:
        _needs_reason(self, "an ignore rule")
        if self.title is None and self.class_ is None and self.program is None:
            raise PydanticCustomError("ignore", "an ignore rule for windows needs `title`, `class` or `program`")
        return self


class DbfTable(Model):
    """One DBF table with its memo and index files."""

    dbf: WindowsPath
    key: list[Text] = Field(default_factory=list)
    """Fields that identify a row; none: position, else content (CONTRACT.md section 3)."""
    encoding: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=40)] | None = None
    """Python codec name, ``kamenicky`` or ``mazovia``; wins over the header's language-driver byte."""
    owns: list[Glob] = Field(default_factory=list)
    """Further index files, names or globs relative to the table's folder."""
    strict_format: StrictBool = False
    """Count format-only differences as changes."""

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs that effects may use with it."""
        return ROW_VERBS | TABLE_VERBS


class FileTree(Model):
    """Every file and folder below one root."""

    files: WindowsPath
    ignore: list[IgnoredPath] = Field(default_factory=list)
    verify: Literal["changed", "full"] = "changed"
    """``full`` reads every file each time; ``changed`` those whose size, time or attributes differ, small trees whole."""
    sample: Annotated[Number, Field(ge=0, le=1)] = Decimal("0.01")
    """The share of the files that look unchanged that is read all the same, picked by chance; a difference makes the whole
    tree be read."""

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs that effects may use with it."""
        return FILE_VERBS


class WindowScope(Model):
    """What of the windows is looked at; empty: every visible top-level window."""

    ignore: list[IgnoredWindow] = Field(default_factory=list)


class Windows(Model):
    """The visible top-level windows of the interactive session."""

    windows: WindowScope

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs that effects may use with it."""
        return WINDOW_VERBS


class IgnoredRegistryPath(Because):
    r"""Keys and values that are not looked at: a glob relative to the observed key, values as ``Key\@Name``."""

    path: Glob

    @model_validator(mode="after")
    def _reason(self) -> Self:
        _needs_reason(self, "an ignore rule")
        return self


class RegistryKey(Model):
    """A registry key with all its values and everything below it."""

    registry: RegistryPath
    view: Literal[32, 64] | None = None
    """Of a 64-bit system: as 32-bit or 64-bit programs see it; left out: the system's own."""
    ignore: list[IgnoredRegistryPath] = Field(default_factory=list)

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs that effects may use with it."""
        return REGISTRY_VERBS


class IgnoredColumn(Because):
    """A column that is not looked at: a row version, a time stamp that every update sets."""

    column: Text

    @model_validator(mode="after")
    def _reason(self) -> Self:
        _needs_reason(self, "an ignore rule")
        return self


class SqlTable(Model):
    """One table of an SQL source, read over ODBC (SQLite by itself)."""

    sql: Name
    """The source's name; what it is connected with comes from the environment, never from the contract."""
    table: Text
    """The table, as the catalogue lists it: its name, or schema and name joined by a dot."""
    key: list[Text] = Field(default_factory=list)
    """Columns that identify a row; none: the primary key, else the smallest unique index, else the row's content."""
    ignore: list[IgnoredColumn] = Field(default_factory=list)
    strict_format: StrictBool = False
    """Count differences of spelling between equal values as changes (``1.10`` and ``1.1``)."""

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs that effects may use with it."""
        return SQL_VERBS


ROW_VERBS = frozenset({"inserted", "updated", "deleted", "undeleted", "purged"})
TABLE_VERBS = frozenset({"created", "dropped", "restructured"})
SQL_VERBS = frozenset({"inserted", "updated", "deleted"}) | TABLE_VERBS
FILE_VERBS = frozenset({"created", "modified", "deleted", "renamed", "attributes"})
REGISTRY_VERBS = frozenset({"created", "modified", "deleted"})
REGISTRY_FIELDS = ("path", "kind", "key", "name", "type", "data", "hex", "volatile")
"""What ``where`` and ``fields`` can name of a registry change (validators/registry.py)."""
WINDOW_VERBS = frozenset({"opened", "closed", "retitled", "present", "absent"})
VERBS = (
    "inserted", "updated", "deleted", "undeleted", "purged", "created", "dropped", "restructured", "modified", "renamed",
    "attributes", "opened", "closed", "retitled", "present", "absent",
)  # fmt: skip
OBSERVABLE_KEYS = ("dbf", "files", "windows", "registry", "sql")


def _observable_tag(value: Any) -> str | None:
    for key in OBSERVABLE_KEYS:
        if (isinstance(value, Mapping) and key in value) or (isinstance(value, BaseModel) and hasattr(value, key)):
            return key
    return None


Observable = Annotated[
    Annotated[DbfTable, Tag("dbf")]
    | Annotated[FileTree, Tag("files")]
    | Annotated[Windows, Tag("windows")]
    | Annotated[RegistryKey, Tag("registry")]
    | Annotated[SqlTable, Tag("sql")],
    Discriminator(_observable_tag),
]

# --- effects --------------------------------------------------------------------------------------------------------


class CountRange(Model):
    """How many changes an effect claims: ``{min: 1, max: 3}``; ``max`` left out means any number above."""

    min: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 0
    max: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max is not None and self.max < self.min:
            raise PydanticCustomError("count", "`max` is below `min`")
        return self


def _count_tag(value: Any) -> str:
    return "range" if isinstance(value, Mapping | CountRange) else "number"


Count = Annotated[
    Annotated[int, Field(strict=True, ge=0, le=1_000_000), Tag("number")] | Annotated[CountRange, Tag("range")],
    Discriminator(_count_tag),
]
"""A number, or ``{min: …, max: …}``."""


class Effect(Because):
    """One rule about changes: a verb with its observable, and what must hold of the change.

    Exactly one of the verb keys is given; :attr:`verb` and :attr:`observable` tell which.
    """

    inserted: Name | None = None
    updated: Name | None = None
    deleted: Name | None = None
    undeleted: Name | None = None
    purged: Name | None = None
    created: Name | None = None
    dropped: Name | None = None
    restructured: Name | None = None
    modified: Name | None = None
    renamed: Name | None = None
    attributes: Name | None = None
    opened: Name | None = None
    closed: Name | None = None
    retitled: Name | None = None
    present: Name | None = None
    absent: Name | None = None

    name: Name | None = None
    where: Fields = Field(default_factory=dict)
    """Selects the changes spoken of: by the values before for updated, modified, deleted, undeleted, purged, closed and
    retitled; by those after for the rest."""
    fields: Fields = Field(default_factory=dict)
    path: Glob | None = None
    r"""Files: a glob relative to the tree's root; for ``renamed`` the new name. Registry: a glob relative to the observed
    key, values as ``Key\@Name``."""
    from_: Glob | None = Field(default=None, alias="from")
    """``renamed`` only: a glob for the old name."""
    content: (
        Annotated[Annotated[Content, Tag("one")] | Annotated[list[Content], Tag("list")], Discriminator(_list_tag)]
        | None
    ) = None
    """What a file holds afterwards; of a list every rule must hold."""
    count: Count | None = None
    when: Literal["success", "failure"] | None = None
    weight: Annotated[Number, Field(gt=0)] = Decimal(1)

    @model_validator(mode="after")
    def _one_verb(self) -> Self:
        given = [verb for verb in VERBS if getattr(self, verb) is not None]
        if len(given) != 1:
            found = ", ".join(f"`{verb}`" for verb in given) or "none"
            raise PydanticCustomError(
                "verb", "an effect needs exactly one verb with its observable, such as `inserted: patients`; found: {found}",
                {"found": found},
            )  # fmt: skip
        return self

    @property
    def verb(self) -> str:
        """The verb given."""
        return next(verb for verb in VERBS if getattr(self, verb) is not None)

    @property
    def observable(self) -> str:
        """The observable's name beside the verb."""
        return str(getattr(self, self.verb))

    @property
    def contents(self) -> list[Content]:
        """The rules about the content, none, one or several."""
        if self.content is None:
            return []
        return self.content if isinstance(self.content, list) else [self.content]

    def applies(self, *, success: bool) -> bool:
        """Whether the effect holds for a run whose agent reported success (or anything else)."""
        return self.when is None or (self.when == "success") == success


class Effects(Model):
    """The three lists of rules."""

    expect: list[Effect] = Field(default_factory=list, max_length=1_000)
    allow: list[Effect] = Field(default_factory=list, max_length=1_000)
    forbid: list[Effect] = Field(default_factory=list, max_length=1_000)


# --- the rest of the contract ---------------------------------------------------------------------------------------


def _value_tag(value: Any) -> str:
    return "list" if isinstance(value, list) else "one"


ParameterValue = Annotated[
    Annotated[Scalar, Tag("one")] | Annotated[list[StrictStr], Tag("list")], Discriminator(_value_tag)
]
"""A text, a number, a truth value or a list of texts."""


class Parameter(Model):
    """A parameter with more than its value: ``{value: …, secret: true}``."""

    value: ParameterValue
    secret: StrictBool = False
    unchecked: Reason | None = None
    """Why no rule of the contract looks at it."""


def _parameter_tag(value: Any) -> str:
    return "described" if isinstance(value, Mapping | Parameter) else "plain"


AnyParameter = Annotated[
    Annotated[Parameter, Tag("described")] | Annotated[ParameterValue, Tag("plain")], Discriminator(_parameter_tag)
]


class CopyIn(Model):
    """Set-up step: puts a file beside the contract (or given text) into the guest."""

    copy_: Text | None = Field(default=None, alias="copy")
    """A path relative to the contract's file; it may not leave that folder."""
    text: StrictStr | None = None
    encoding: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=40)] = "utf-8"
    to: WindowsPath

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.copy_ is None) == (self.text is None):
            raise PydanticCustomError("setup", "give exactly one of `copy` and `text`")
        return self


class RunProgram(Model):
    """Set-up step: runs a program in the guest and waits for its end; a status other than 0 stops the preparation."""

    run: list[StrictStr] = Field(min_length=1, max_length=100)
    timeout: Duration = 60.0


class StartProgram(Model):
    """Starts a program and waits for its window."""

    program: Name
    """A program that the image's manifest names."""
    window: Matcher | None = None
    """Its window's title; left out: as the image's manifest says."""
    timeout: Duration = 30.0


class RequireRows(Model):
    """Checked before the agent starts: how many live rows fit."""

    rows: Name
    where: Fields = Field(default_factory=dict)
    count: Count = 1


class RequireFile(Model):
    """Checked before the agent starts: how many files of a tree fit the glob."""

    files: Name
    path: Glob
    count: Count = 1


class RequireWindow(Model):
    """Checked before the agent starts: how many visible windows fit."""

    windows: Name
    where: Fields = Field(default_factory=dict)
    count: Count = 1


_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)\s*$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _duration(value: Any) -> Any:
    if isinstance(value, float):
        return value
    match = _DURATION.match(value) if isinstance(value, str) else None
    if match is None:
        raise PydanticCustomError("duration", "a duration with its unit is needed, such as `900s`, `15min` or `500ms`")
    return float(match[1]) * _UNITS[match[2]]


Duration = Annotated[
    float,
    BeforeValidator(_duration),
    Field(gt=0, le=86_400),
    WithJsonSchema({"type": "string", "pattern": _DURATION.pattern}, mode="validation"),
]
"""Seconds; written with a unit."""


def _tag_of(*keys: str) -> Discriminator:
    def tag(value: Any) -> str | None:
        for key in keys:
            if (isinstance(value, Mapping) and key in value) or (isinstance(value, BaseModel) and hasattr(value, key)):
                return key
        return None

    return Discriminator(tag)


def _setup_tag(value: Any) -> str | None:
    if isinstance(value, Mapping):
        return "run" if "run" in value else "to" if {"to", "copy", "text"} & value.keys() else None
    return "run" if isinstance(value, RunProgram) else "to" if isinstance(value, CopyIn) else None


SetupStep = Annotated[Annotated[CopyIn, Tag("to")] | Annotated[RunProgram, Tag("run")], Discriminator(_setup_tag)]
Requirement = Annotated[
    Annotated[RequireRows, Tag("rows")]
    | Annotated[RequireFile, Tag("files")]
    | Annotated[RequireWindow, Tag("windows")],
    _tag_of("rows", "files", "windows"),
]


def _start(value: Any) -> Any:
    return {"program": value} if isinstance(value, str) else value


class InitialState(Model):
    """What the run begins with."""

    summary: Text
    setup: list[SetupStep] = Field(default_factory=list, max_length=1_000)
    start: list[Annotated[StartProgram, BeforeValidator(_start)]] = Field(default_factory=list, max_length=20)
    require: list[Requirement] = Field(default_factory=list, max_length=200)


class GoalState(Model):
    """What must hold at the end, in words; the effects say it exactly."""

    summary: Text


class RowValue(Model):
    """Expected returned value: a field of the one live row that fits, after the run."""

    row: Name
    where: Fields
    field: Text


def _selector_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "word"
    keys = ("json", "xml", "ini", "csv")
    if isinstance(value, BaseModel):
        return next((key for key in keys if {key, f"{key}_"} & type(value).model_fields.keys()), None)
    return next((key for key in keys if isinstance(value, Mapping) and key in value), None)


class FileValue(Model):
    r"""Expected returned value: something of the one file that fits, after the run.

    ``{file: export, path: 'OUT\*.csv', value: {csv: {row: 1, column: Betrag}}, as: number}``
    """

    file: Name
    """The file tree."""
    path: Glob
    value: Annotated[
        Annotated[Literal["text", "size", "sha256", "name"], Tag("word")]
        | Annotated[JsonAt, Tag("json")]
        | Annotated[XmlAt, Tag("xml")]
        | Annotated[IniAt, Tag("ini")]
        | Annotated[CsvAt, Tag("csv")],
        Discriminator(_selector_tag),
    ]
    as_: Literal["number"] | None = Field(default=None, alias="as")
    """Reads a text as a plain decimal number."""


_COMPUTED_KEYS = ("sum", "difference", "product")


class Computed(Model):
    """Expected returned value: a sum, difference or product in exact decimal arithmetic.

    ``{sum: [{field: invoice.AMOUNT}, 4.50], tolerance: 0.01}``
    """

    sum: Annotated[list[Term], Field(min_length=1, max_length=100)] | None = None
    difference: Annotated[list[Term], Field(min_length=2, max_length=100)] | None = None
    """The first less all the others."""
    product: Annotated[list[Term], Field(min_length=1, max_length=100)] | None = None
    decimals: Annotated[int, Field(strict=True, ge=0, le=20)] | None = None
    """Rounds the result to so many decimals, halves away from zero."""
    tolerance: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _one_operation(self) -> Self:
        if sum(getattr(self, key) is not None for key in _COMPUTED_KEYS) != 1:
            raise PydanticCustomError("computed", "give exactly one of `sum`, `difference` and `product`")
        return self

    @property
    def operation(self) -> Literal["sum", "difference", "product"]:
        """Which of them it is."""
        return "sum" if self.sum is not None else "difference" if self.difference is not None else "product"

    @property
    def terms(self) -> list[Term]:
        """What is added, subtracted or multiplied."""
        return self.sum or self.difference or self.product or []


def _term_tag(value: Any) -> str | None:
    if isinstance(value, Mapping | BaseModel):
        names = value.keys() if isinstance(value, Mapping) else type(value).model_fields.keys()
        found = next((key for key in ("row", "file", "field", "returned") if key in names), None)
        return found or ("computed" if {*_COMPUTED_KEYS} & names else None)
    return "number"


Term = Annotated[
    Annotated[Number, Tag("number")]
    | Annotated[FieldOf, Tag("field")]
    | Annotated[Returned, Tag("returned")]
    | Annotated[RowValue, Tag("row")]
    | Annotated[FileValue, Tag("file")]
    | Annotated[Computed, Tag("computed")],
    Discriminator(_term_tag),
]
"""A number, or where it stands."""


def _returned_tag(value: Any) -> str:
    if isinstance(value, BaseModel):
        return {RowValue: "row", FileValue: "file", Computed: "computed"}.get(type(value), "matcher")
    if not isinstance(value, Mapping):
        return "matcher"
    keys = {"row": "row", "file": "file"} | dict.fromkeys(_COMPUTED_KEYS, "computed")
    return next((tag for key, tag in keys.items() if key in value), "matcher")


ReturnedRule = Annotated[
    Annotated[RowValue, Tag("row")]
    | Annotated[FileValue, Tag("file")]
    | Annotated[Computed, Tag("computed")]
    | Annotated[Matcher, Tag("matcher")],
    Discriminator(_returned_tag),
]


class Returns(Model):
    """What the agent must return: a JSON Schema, and what the values must be."""

    schema_: dict[str, Any] = Field(alias="schema")
    expect: dict[Text, ReturnedRule] = Field(default_factory=dict)


class WindowSeen(Model):
    """Evidence of a stage: a window was seen."""

    title: TitleGlob


class Evidence(Model):
    """Evidence that a run came past a stage: exactly one of the keys."""

    window: WindowSeen | None = None
    typed: Text | None = None
    changed: Name | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(item is not None for item in (self.window, self.typed, self.changed)) != 1:
            raise PydanticCustomError("stage", "a stage needs exactly one of `window`, `typed` and `changed`")
        return self


class GoalOnFailure(Model):
    """``on_failure: {goal: <why>}``: a run that did everything right is accepted even if it reports a failure."""

    goal: Reason


def _on_failure_tag(value: Any) -> str:
    return "reasoned" if isinstance(value, Mapping | GoalOnFailure) else "word"


OnFailure = Annotated[
    Annotated[Literal["unchanged", "goal"], Tag("word")] | Annotated[GoalOnFailure, Tag("reasoned")],
    Discriminator(_on_failure_tag),
]


class Limits(Model):
    """Bounds of a run."""

    timeout: Duration = 900.0
    """How long the agent may work, in seconds."""
    settle: Duration = 10.0
    """How long the state is given to become still after the agent."""


def _integer(value: Any) -> Any:
    if type(value) is not int:  # true and 1.0 are equal to 1
        raise PydanticCustomError("integer", "this must be the number `1`")
    return value


Read = Literal["live", "disk", "shutdown", "power_off"]
"""How files and tables are read: live through the guest; from the disk of the machine, frozen for a moment; from its disk after it
was shut down, or switched off (for guests without an agent that could flush it). Windows and registry are always read live."""


class TaskContract(Model):
    """One task, its initial and goal state, and the rules by which a run of it is judged."""

    schema_: Annotated[Literal[1], BeforeValidator(_integer)] = Field(alias="schema")
    id: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$", max_length=100)]
    title: Text
    application: Text
    domain: Text
    state_changing: StrictBool
    externally_verified: StrictBool = False
    image: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$", max_length=100)]
    instruction: Text
    parameters: dict[Name, AnyParameter] = Field(default_factory=dict, max_length=200)
    initial_state: InitialState
    goal_state: GoalState
    observe: dict[Name, Observable] = Field(min_length=1, max_length=200)
    effects: Effects = Effects()
    on_failure: OnFailure = "unchanged"
    returns: Returns | None = None
    stages: dict[Name, Evidence] = Field(default_factory=dict, max_length=50)
    read: Read = "live"
    """How files and tables are read."""
    limits: Limits = Limits()

    @property
    def accepts_goal_on_failure(self) -> bool:
        """Whether a finished task reported as a failure is a valid failure."""
        return self.on_failure != "unchanged"

    @property
    def parameter_values(self) -> dict[str, bool | int | Decimal | str | list[str]]:
        """Every parameter with its plain value, secrets included."""
        return {k: v.value if isinstance(v, Parameter) else v for k, v in self.parameters.items()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that must not appear in any output."""
        values = [p.value for p in self.parameters.values() if isinstance(p, Parameter) and p.secret]
        return tuple(str(item) for value in values for item in (value if isinstance(value, list) else [value]))


for _model in (OneOf, Not, AllOf, RunProgram, StartProgram, Limits, Computed):
    _model.model_rebuild()
