"""What the agent must return, and where the right values stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from contracts.schema.base import Model, Name, Number, Text
from contracts.schema.content import CsvAt, IniAt, JsonAt, XmlAt
from contracts.schema.matchers import FieldOf, Fields, Matcher, Returned
from contracts.schema.paths import Glob


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

Computed.model_rebuild()  # its terms can be computed themselves


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
