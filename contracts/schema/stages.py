"""Stages: the evidence that a run came past a point on its way."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from contracts.schema.base import Model, Name, Text
from contracts.schema.paths import TitleGlob


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
