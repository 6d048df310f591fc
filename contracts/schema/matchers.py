"""Matchers: what a value may be."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.schema.base import Model, Number, Reason, Scalar, Syntax, scalar_tag


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
    Discriminator(scalar_tag),
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


def matcher_tag(value: Any) -> str | None:
    """The key that tells what a matcher is, ``literal`` for a bare value; ``None`` for what is no matcher."""
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
    Discriminator(matcher_tag),
]
"""A bare value (a literal), or a mapping that says what it is."""

for _model in (OneOf, Not, AllOf):  # they hold matchers themselves
    _model.model_rebuild()

Fields = dict[Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)], Matcher]
"""Field name to matcher; in ``fields`` the name ``"*"`` stands for every field not named."""
