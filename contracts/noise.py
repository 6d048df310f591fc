r"""The noise list as data: what was seen to change on an image while nobody did anything, and the rules that follow from it.

A list is measured by ``legacyproof calibrate`` and kept as ``noise/<id>.yaml`` beside the image's manifest, or beside a contract. A
contract names it in place of a reason: ``{path: '\HEARTBEAT.DAT', noise: <id>}``. It holds for the image whose hash it bears, and only
what it lists may be excused by it: a rule that is wider than those measured is not founded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from contracts.globs import compile_glob, escape, fold
from contracts.load import ContractError, read_model
from contracts.schema import (
    VERBS,
    DbfTable,
    Effect,
    Fields,
    FileTree,
    Glob,
    IgnoredPath,
    IgnoredRegistryPath,
    IgnoredWindow,
    Matcher,
    Model,
    Number,
    Observable,
    RegistryKey,
    SqlTable,
    TaskContract,
    Text,
    Windows,
)
from contracts.writing import comment, flow

ID = re.compile(r"[a-z0-9]+(?:[.-][a-z0-9]+)*")
FOLDER = "noise"
"""The folder, beside an image's manifest or a contract, in which lists lie."""
Kind = Literal["files", "registry", "windows", "dbf", "sql"]
_MAX_ENTRIES = 2_000


def _verb(value: str) -> str:
    if value not in VERBS:
        raise PydanticCustomError("verb", "`{found}` is no verb", {"found": value[:40]})
    return value


class NoiseRule(Model):
    """The narrowest rule that takes an entry out of sight.

    Files and registry: ``path``, for ``ignore``. Windows: ``title``, ``class`` and ``program``, for ``ignore``. Rows: ``where`` and
    ``fields``, for ``allow`` with the entry's verb.
    """

    path: Glob | None = None
    title: Matcher | None = None
    class_: Matcher | None = Field(default=None, alias="class")
    program: Matcher | None = None
    where: Fields = Field(default_factory=dict)
    fields: Fields = Field(default_factory=dict)

    @property
    def plain(self) -> dict[str, Any]:
        """As it stands in a contract, without the reason."""
        return dict(self.model_dump(by_alias=True, exclude_unset=True))


class NoiseEntry(Model):
    """One thing that changes by itself."""

    kind: Kind
    root: Text | None = None
    """The tree's folder, the key, or the table (``source table`` for SQL); windows have none."""
    subject: Annotated[str, StringConstraints(strict=True, max_length=20_000)]
    """What changed: a path relative to the root, a title, a row's key; of several the first that was seen."""
    names: Annotated[int, Field(strict=True, ge=1)] = 1
    """How many different subjects this entry speaks of."""
    verb: Annotated[str, StringConstraints(strict=True), AfterValidator(_verb)]
    runs: Annotated[int, Field(strict=True, ge=1)]
    """In how many of the list's runs it was seen."""
    times: Annotated[int, Field(strict=True, ge=1)]
    """How many looks saw it, in all runs together; a look sees many changes of one subject as one."""
    first: Number
    """Seconds after the start of the earliest look that saw it."""
    rule: NoiseRule | None = None
    no_rule: Text | None = None
    """Why there is none: no narrow one, or it would cover what a contract speaks of."""

    @model_validator(mode="after")
    def _one(self) -> NoiseEntry:
        if (self.rule is None) == (self.no_rule is None):
            raise PydanticCustomError("noise", "an entry has either `rule` or `no_rule`")
        return self


class NoiseRun(Model):
    """One idle control machine."""

    machine: Text
    boot: Text
    started: Text
    contracts: list[Text] = Field(default_factory=list)
    """Whose set-up and programs it had; none: the image as it is."""
    looks: Annotated[int, Field(strict=True, ge=1)]
    changes: Annotated[int, Field(strict=True, ge=0)]
    unreadable: list[Text] = Field(default_factory=list)
    """What some look could not read, and why; what happened there meanwhile was seen by the next one."""


class Watched(Model):
    """One thing that was looked at."""

    kind: Kind
    root: Text | None = None


class Delay(Model):
    """How late the last change of a contract's good runs came, in seconds."""

    contract: Text
    runs: Annotated[int, Field(strict=True, ge=1)]
    """How many were watched."""
    longest: Number
    """From the last input to the last change."""
    quiet: Number
    """The quiet time that follows from it (``limits.quiet``)."""


class NoiseList(Model):
    """A whole list."""

    schema_: Literal[1] = Field(alias="schema")
    id: Annotated[str, StringConstraints(strict=True, pattern=rf"^{ID.pattern}$", max_length=200)]
    image: Text
    image_hash: Annotated[str, StringConstraints(strict=True, min_length=8, max_length=200)]
    """Of the base that the machines were made from; another hash makes the list stale."""
    taken: Text
    """When it was measured, by the host's clock: date, time and zone."""
    seconds: Number
    """How long each machine was watched."""
    every: Number
    """Seconds between two looks."""
    repetitions: Annotated[int, Field(strict=True, ge=1)]
    watched: list[Watched] = Field(max_length=_MAX_ENTRIES)
    runs: list[NoiseRun] = Field(max_length=10_000)
    entries: list[NoiseEntry] = Field(max_length=_MAX_ENTRIES)
    left_out: Annotated[int, Field(strict=True, ge=0)] = 0
    """Entries beyond the most that a list holds; nothing excuses them."""
    delays: list[Delay] = Field(default_factory=list, max_length=_MAX_ENTRIES)
    """What good runs have shown, where some were made."""


class NoiseError(Exception):
    """A noise list cannot be used: it is not there, not valid, or bears another name."""


def read_list(name: str, folders: Sequence[Path]) -> NoiseList:
    """The list of that id, from the first folder that has it.

    Raises:
        NoiseError: There is none, or it is not valid.
    """
    if not ID.fullmatch(name) or len(name) > 200:
        raise NoiseError(f"`{name[:60]}` is no id of a noise list")
    for folder in folders:
        for path in (folder / f"{name}.yaml", folder / f"{name}.json"):
            if path.is_file():
                try:
                    found = read_model(path, NoiseList)
                except ContractError as error:
                    raise NoiseError(str(error)) from None
                if found.id != name:
                    raise NoiseError(
                        f"the file {path.name} holds the noise list `{found.id}`: a list's file bears its id"
                    )
                return found
    raise NoiseError(f"there is no noise list `{name}`: `legacyproof calibrate` measures one")


# --- what a contract cites -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Citation:
    """A rule of a contract that gives a noise list as its reason."""

    noise: str
    where: str
    observable: str
    rule: IgnoredPath | IgnoredRegistryPath | IgnoredWindow | Effect | None


def cited(contract: TaskContract) -> Iterator[Citation]:
    """Every rule of a contract that names a noise list."""
    for name, spec in contract.observe.items():
        rules: Sequence[Any] = spec.windows.ignore if isinstance(spec, Windows) else getattr(spec, "ignore", ())
        for index, rule in enumerate(rules):
            if rule.noise is not None:
                known = rule if isinstance(rule, IgnoredPath | IgnoredRegistryPath | IgnoredWindow) else None
                yield Citation(rule.noise, f"observe.{name}.ignore[{index}]", name, known)
    for which in ("expect", "allow", "forbid"):
        for index, effect in enumerate(getattr(contract.effects, which)):
            if effect.noise is not None:
                yield Citation(effect.noise, f"effects.{which}[{index}]", effect.observable, effect)


def place_of(spec: Observable) -> tuple[Kind, str | None]:
    """Kind and root of an observable, as a list names them."""
    match spec:
        case FileTree():
            return "files", spec.files
        case RegistryKey():
            return "registry", spec.registry
        case DbfTable():
            return "dbf", spec.dbf
        case SqlTable():
            return "sql", f"{spec.sql} {spec.table}"
        case Windows():
            return "windows", None


def is_founded(citation: Citation, contract: TaskContract, noise: NoiseList) -> bool:
    """Whether the list has a rule that is as wide as the one that cites it, or wider."""
    kind, root = place_of(contract.observe[citation.observable])
    entries = [entry for entry in noise.entries if entry.kind == kind and entry.rule is not None]
    rule = citation.rule
    match rule:
        case IgnoredPath() | IgnoredRegistryPath():
            return any(_within(root or "", rule.path, entry) for entry in entries)
        case IgnoredWindow():
            return any(_narrower(rule, entry.rule) for entry in entries if entry.rule is not None)
        case Effect():
            return any(_allowed(rule, root, entry) for entry in entries if entry.verb == rule.verb)
        case _:  # a column of an SQL table: rows are excused one by one, not by column
            return False


def absolute(root: str, pattern: str) -> str:
    r"""A pattern with its root before it; one that holds anywhere gets ``**`` in between."""
    anchored = "\\" in pattern or "/" in pattern
    return escape(root.rstrip("\\/")) + "\\" + ("" if anchored else "**\\") + pattern.lstrip("\\/")


def _within(root: str, pattern: str, entry: NoiseEntry) -> bool:
    """Whether a path pattern takes out no more than the entry's rule does."""
    assert entry.rule is not None
    if entry.rule.path is None or entry.root is None:
        return False
    one, other = fold(absolute(root, pattern)), fold(absolute(entry.root, entry.rule.path))
    if one == other:
        return True
    # Else it must be one exact path that the rule fits; the drive's colon may not stand in a pattern.
    plain = re.sub(r"\[([*?\[])\]", r"\1", one)
    return escape(plain) == one and compile_glob("\\" + other.replace(":", ""))(plain.replace(":", ""))


def _narrower(rule: IgnoredWindow, measured: NoiseRule) -> bool:
    wanted = [("title", measured.title), ("class_", measured.class_), ("program", measured.program)]
    return any(value is not None for _, value in wanted) and all(
        value is None or getattr(rule, name) == value for name, value in wanted
    )


def _allowed(effect: Effect, root: str | None, entry: NoiseEntry) -> bool:
    measured = entry.rule
    assert measured is not None
    if measured.path is not None:
        return effect.path is not None and _within(root or "", effect.path, entry)
    if entry.kind == "windows":
        told = {"title": measured.title, "class": measured.class_, "program": measured.program}
        return all(value is None or effect.where.get(name) == value for name, value in told.items())
    if fold(root or "") != fold(entry.root or ""):
        return False
    same_rows = all(effect.where.get(name) == value for name, value in measured.where.items())
    return same_rows and all(
        effect.fields.get(name) == value or (_is_any(value) and name in effect.fields)
        for name, value in measured.fields.items()
    ) and set(effect.fields) <= set(measured.fields)  # fmt: skip


def _is_any(matcher: object) -> bool:
    return getattr(matcher, "is_", None) == "any"


# --- writing ---------------------------------------------------------------------------------------------------------


def list_text(noise: NoiseList) -> str:
    """The list as a YAML file, with comments for its reader."""
    head = {
        "schema": 1,
        "id": noise.id,
        "image": noise.image,
        "image_hash": noise.image_hash,
        "taken": noise.taken,
        "seconds": noise.seconds,
        "every": noise.every,
        "repetitions": noise.repetitions,
    }
    lines = [
        f"# What changes by itself on the image {comment(noise.image)}, measured by `legacyproof calibrate`.",
        f"# A contract's rule names this list in place of a reason: `noise: {noise.id}`. Another image_hash makes it stale.",
        *(f"{name}: {flow(value)}" for name, value in head.items()),
        *_items("watched", [item.model_dump(exclude_none=True) for item in noise.watched]),
        *_items("runs", [run.model_dump(exclude_defaults=True) for run in noise.runs]),
        *(_items("delays", [delay.model_dump() for delay in noise.delays]) if noise.delays else ()),
        "# verb, in how many runs, how many looks saw it, and seconds after the start when the first did",
    ]
    lines += ["entries:"] if noise.entries else ["entries: []"]
    for entry in noise.entries:
        about = entry.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True, exclude={"rule", "no_rule"})
        lines.append(f"  - {_block(about, '    ')}")
        if entry.rule is not None:
            lines.append(f"    rule: {flow(entry.rule.plain)}")
        else:
            lines.append(f"    no_rule: {flow(entry.no_rule)}")
    if noise.left_out:
        lines.append(f"left_out: {noise.left_out}")
    return "\n".join(lines) + "\n"


def _items(name: str, items: Sequence[dict[str, Any]]) -> list[str]:
    return [f"{name}:", *(f"  - {flow(item)}" for item in items)] if items else [f"{name}: []"]


def _block(values: dict[str, Any], indent: str) -> str:
    return f"\n{indent}".join(f"{name}: {flow(value)}" for name, value in values.items())


def new_id(image: str, taken: datetime, folder: Path) -> str:
    """An id that no list in the folder bears yet: the image and the day, numbered from the second on."""
    name = base = f"{image}-{taken:%Y-%m-%d}"
    number = 1
    while any((folder / f"{name}.{kind}").exists() for kind in ("yaml", "json")):
        number += 1
        name = f"{base}-{number}"
    return name
