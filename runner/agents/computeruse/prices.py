"""What a run costs, by a dated price table in a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from contracts.load import read_model
from contracts.schema import Model, Text

TABLE = Path(__file__).with_name("prices.yaml")
_MILLION = 1_000_000
_DATED = re.compile(r"-(?:20\d{6}|20\d{2}-\d{2}-\d{2})$")
Price = Annotated[float, Field(ge=0, le=10_000)]
"""US dollars per million tokens."""


def _is_day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise PydanticCustomError("day", "a day is needed here, such as 2026-11-06") from None


Day = Annotated[Text, AfterValidator(_is_day)]
"""A day of the calendar, as ISO 8601 writes it."""


class _Rates(Model):
    input: Price
    cached: Price | None = None
    """Read from the provider's cache; without it as ``input``."""
    written: Price | None = None
    """Written to the cache; without it as ``input``."""
    output: Price


class Above(_Rates):
    """The prices of a request with a longer input."""

    tokens: Annotated[int, Field(gt=0)]
    """Tokens of input above which they hold."""


class ModelPrice(_Rates):
    """What one model costs."""

    provider: Text
    model: Text
    above: Above | None = None


class PriceTable(Model):
    """Prices and the day on which they were looked up."""

    schema_: Literal[1] = Field(alias="schema")
    as_of: Day
    sources: dict[str, Text] = Field(default_factory=dict)
    models: list[ModelPrice] = Field(max_length=10_000)

    def find(self, provider: str, model: str) -> ModelPrice | None:
        """The prices of a model, also by its name without the date at its end."""
        for name in (model, _DATED.sub("", model)):
            for entry in self.models:
                if entry.provider == provider and entry.model == name:
                    return entry
        return None


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one request.

    Attributes:
        input: All of the input, cached or not.
        output: All of the output, thinking included.
        cached: The part of the input that was read from the provider's cache.
        written: The part of the input that was written to the cache.
        known: The provider told them.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    known: bool = True


def load_prices(path: Path | None = None) -> PriceTable:
    """A price table; without a path the one that comes with the program.

    Raises:
        contracts.load.ContractError: The file is not valid.
    """
    return read_model(path or TABLE, PriceTable)


def cost(price: ModelPrice, usage: Usage) -> float:
    """What one request costs in US dollars."""
    rates: _Rates = price
    if price.above is not None and usage.input > price.above.tokens:
        rates = price.above
    plain = max(0, usage.input - usage.cached - usage.written)
    cached = rates.input if rates.cached is None else rates.cached
    written = rates.input if rates.written is None else rates.written
    dollars = plain * rates.input + usage.cached * cached + usage.written * written + usage.output * rates.output
    return dollars / _MILLION
