"""Observables: what of the guest is looked at, what of it is ignored, and which verbs speak of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Discriminator, Field, StrictBool, Tag, model_validator
from pydantic_core import PydanticCustomError

from contracts.schema.base import Because, Encoding, Model, Name, Number, Text, needs_reason
from contracts.schema.matchers import Matcher
from contracts.schema.paths import Glob, RegistryPath, WindowsPath

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


class IgnoredPath(Because):
    """Files of a tree that are not looked at: a glob relative to the tree's root."""

    path: Glob

    @model_validator(mode="after")
    def _reason(self) -> Self:
        needs_reason(self, "an ignore rule")
        return self


class IgnoredWindow(Because):
    """Windows that are not looked at: every named property must match."""

    title: Matcher | None = None
    class_: Matcher | None = Field(default=None, alias="class")
    program: Matcher | None = None

    @model_validator(mode="after")
    def _reason(self) -> Self:
        needs_reason(self, "an ignore rule")
        if self.title is None and self.class_ is None and self.program is None:
            raise PydanticCustomError("ignore", "an ignore rule for windows needs `title`, `class` or `program`")
        return self


class DbfTable(Model):
    """One DBF table with its memo and index files."""

    dbf: WindowsPath
    key: list[Text] = Field(default_factory=list)
    """Fields that identify a row; none: position, else content (CONTRACT.md section 3)."""
    encoding: Encoding | None = None
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
        needs_reason(self, "an ignore rule")
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
        needs_reason(self, "an ignore rule")
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
