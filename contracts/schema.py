"""The task contract as data: Pydantic models whose words are those of the contract reference.

The models check form: names, types, unknown keys, and rules that one element can break alone. What needs the whole
contract (unknown observables, references between effects) stands in ``contracts/check.py``; reading YAML, parameters and
positions of errors in ``contracts/load.py``. Numbers with a fraction are :class:`decimal.Decimal`, never ``float``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
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


class FileText(Model):
    """Text content of a file: ``{text: …, encoding: cp850}``; UTF-8 with or without BOM unless declared."""

    text: Matcher
    encoding: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=40)] = "utf-8"
    normalise: list[Normalisation] = Field(default_factory=list)


class FileSha256(Model):
    """Content of a file by its SHA-256, in hexadecimal."""

    sha256: Annotated[str, StringConstraints(strict=True, to_lower=True, pattern=r"^[0-9a-fA-F]{64}$")]


class FileSize(Model):
    """Size of a file in bytes, by a matcher."""

    size: Matcher


def _content_tag(value: Any) -> str:
    for key, tag in (("sha256", "sha256"), ("size", "size"), ("text", "text")):
        if (isinstance(value, Mapping) and key in value) or (isinstance(value, BaseModel) and hasattr(value, key)):
            return tag
    return "matcher"


Content = Annotated[
    Annotated[FileText, Tag("text")]
    | Annotated[FileSha256, Tag("sha256")]
    | Annotated[FileSize, Tag("size")]
    | Annotated[Matcher, Tag("matcher")],
    Discriminator(_content_tag),
]

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


ROW_VERBS = frozenset({"inserted", "updated", "deleted", "undeleted", "purged"})
TABLE_VERBS = frozenset({"created", "dropped", "restructured"})
FILE_VERBS = frozenset({"created", "modified", "deleted", "renamed", "attributes"})
WINDOW_VERBS = frozenset({"opened", "closed", "retitled", "present", "absent"})
VERBS = (
    "inserted", "updated", "deleted", "undeleted", "purged", "created", "dropped", "restructured", "modified", "renamed",
    "attributes", "opened", "closed", "retitled", "present", "absent",
)  # fmt: skip
OBSERVABLE_KEYS = ("dbf", "files", "windows")


def _observable_tag(value: Any) -> str | None:
    for key in OBSERVABLE_KEYS:
        if (isinstance(value, Mapping) and key in value) or (isinstance(value, BaseModel) and hasattr(value, key)):
            return key
    return None


Observable = Annotated[
    Annotated[DbfTable, Tag("dbf")] | Annotated[FileTree, Tag("files")] | Annotated[Windows, Tag("windows")],
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
    """Selects the changes spoken of: by the values before for updated, deleted, undeleted, purged, closed and retitled;
    by those after for the rest."""
    fields: Fields = Field(default_factory=dict)
    path: Glob | None = None
    """Files: a glob relative to the tree's root; for ``renamed`` the new name."""
    from_: Glob | None = Field(default=None, alias="from")
    """``renamed`` only: a glob for the old name."""
    content: Content | None = None
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


def _returned_tag(value: Any) -> str:
    return "row" if (isinstance(value, Mapping) and "row" in value) or isinstance(value, RowValue) else "matcher"


ReturnedRule = Annotated[
    Annotated[RowValue, Tag("row")] | Annotated[Matcher, Tag("matcher")], Discriminator(_returned_tag)
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


for _model in (OneOf, Not, AllOf, RunProgram, StartProgram, Limits):
    _model.model_rebuild()
