"""Initial and goal state: set-up steps, programs to start, and what is checked before the agent starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, StrictStr, Tag, model_validator
from pydantic_core import PydanticCustomError

from contracts.schema.base import Count, Duration, Encoding, Model, Name, Text
from contracts.schema.matchers import Fields, Matcher
from contracts.schema.paths import Glob, WindowsPath


class CopyIn(Model):
    """Set-up step: puts a file beside the contract (or given text) into the guest."""

    copy_: Text | None = Field(default=None, alias="copy")
    """A path relative to the contract's file; it may not leave that folder."""
    text: StrictStr | None = None
    encoding: Encoding = "utf-8"
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


def _setup_tag(value: Any) -> str | None:
    if isinstance(value, Mapping):
        return "run" if "run" in value else "to" if {"to", "copy", "text"} & value.keys() else None
    return "run" if isinstance(value, RunProgram) else "to" if isinstance(value, CopyIn) else None


SetupStep = Annotated[Annotated[CopyIn, Tag("to")] | Annotated[RunProgram, Tag("run")], Discriminator(_setup_tag)]


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


def _tag_of(*keys: str) -> Discriminator:
    def tag(value: Any) -> str | None:
        for key in keys:
            if (isinstance(value, Mapping) and key in value) or (isinstance(value, BaseModel) and hasattr(value, key)):
                return key
        return None

    return Discriminator(tag)


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
