"""Paths of files and registry keys in the guest, and the patterns for them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from contracts.globs import GlobError, compile_glob, compile_title_glob
from contracts.schema.base import Syntax, Text


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
