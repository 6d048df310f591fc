"""What every element is made of: the base model, names, texts, numbers, durations, counts and reasons.

Numbers with a fraction are :class:`decimal.Decimal`, never ``float``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Self

from pydantic import (
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
Encoding = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=40)]
"""A codec's name; ``contracts/check.py`` looks whether it is known."""


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise PydanticCustomError("number_type", "a number is needed here")
    return Decimal(value)


Number = Annotated[Decimal, BeforeValidator(_number)]


def scalar_tag(value: Any) -> str | None:
    """The tag of a bare value; ``None`` for lists, mappings and nothing."""
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
    Discriminator(scalar_tag),
]
"""A bare value of YAML."""


def one_or_list(value: Any) -> str:
    """The tag where one element may stand without the brackets of a list: ``one`` or ``list``."""
    return "list" if isinstance(value, list) else "one"


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


class Because(Model):
    """A rule that loosens the contract: it says why, in words or by the measured noise list it comes from."""

    because: Reason | None = None
    noise: Annotated[str, StringConstraints(strict=True, min_length=1, max_length=200)] | None = None

    @property
    def reason(self) -> str:
        """What the report shows as the reason."""
        return self.because or (f"noise list {self.noise}" if self.noise else "")


def needs_reason(rule: Because, what: str) -> None:
    """Refuses a rule without a reason; ``what`` it is stands in the message."""
    if not rule.reason:
        raise PydanticCustomError("because", "{what} needs `because: …` (or `noise: <list id>`)", {"what": what})
