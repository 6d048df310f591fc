"""SQL sources: what a contract's name for a source stands for, and keeping its password out of every message.

A source is configured by the environment variable ``LEGACYPROOF_SQL_<NAME>``, which holds one of

* an ODBC connection string: ``DRIVER={PostgreSQL Unicode};Server=…;Database=…;UID=…;PWD=…``
* ``sqlite:<path>``: an SQLite database
* ``access:<path>``: an Access database (``.mdb``, ``.accdb``), read through mdbtools
* ``file:<path>``: a file whose content is one of the above, so that the password need not stand in the environment
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from runner.spellings import blot

PREFIX = "LEGACYPROOF_SQL_"
_SECRET = re.compile(r"pwd|pass|secret|token|credential", re.IGNORECASE)
_MOST = 1 << 16
"""The longest content of a source's file, in bytes."""


class SourceError(Exception):
    """A source is not configured, or its configuration cannot be used. The message holds no secret."""


@dataclass(frozen=True)
class Source:
    """Where tables are read from.

    Attributes:
        name: Its name in contracts.
        kind: How it is reached.
        target: The ODBC connection string, or the database's path. Never shown: it may hold a password.
        secrets: The texts that must not appear in any output.
    """

    name: str
    kind: Literal["odbc", "sqlite", "access"]
    target: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False, default=())

    def redacted(self, text: str) -> str:
        """The text without passwords and without the connection string."""
        return blot(text, (*self.secrets, *((self.target,) if self.kind == "odbc" else ())))


def find_source(name: str, environment: Mapping[str, str] | None = None) -> Source:
    """The source of that name.

    Args:
        name: Its name in contracts.
        environment: Instead of the process's environment.

    Raises:
        SourceError: It is not configured, or not in a form that is known.
    """
    variable = PREFIX + name.upper()
    text = (os.environ if environment is None else environment).get(variable, "").strip()
    if not text:
        raise SourceError(
            f"the SQL source {name} is not configured: set {variable} to an ODBC connection string, `sqlite:<path>`, "
            f"`access:<path>` or `file:<path>`"
        )
    if text.startswith("file:"):
        text = _content(text.removeprefix("file:"), variable)
    if text.startswith("file:"):
        raise SourceError(f"the file that {variable} names holds another `file:`")
    for kind in ("sqlite", "access"):
        if text.startswith(f"{kind}:"):
            path = Path(text.removeprefix(f"{kind}:")).absolute()
            if re.search(r"[;{}\0]", str(path)) and kind == "access":
                raise SourceError(f"{variable}: the path of an Access database cannot hold `;` or braces")
            return Source(name, "sqlite" if kind == "sqlite" else "access", str(path))
    pairs = parse_connection(text)
    if not any(key.casefold() in ("driver", "dsn", "filedsn") for key, _ in pairs):
        raise SourceError(
            f"{variable}: neither an ODBC connection string (with DRIVER or DSN) nor `sqlite:`, `access:`, `file:`"
        )
    secrets = tuple(value for key, value in pairs if value and _SECRET.search(key))
    return Source(name, "odbc", text, (*secrets, *(_braced(secret) for secret in secrets)))


def _content(path: str, variable: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise SourceError(f"the file that {variable} names cannot be read: {reason}") from None
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or len(data) > _MOST:
        raise SourceError(f"the file that {variable} names does not hold a connection string in UTF-8")
    return text


# --- connection strings -----------------------------------------------------------------------------------------------------

_PAIR = re.compile(r"\s*([^=;{}]+?)\s*=\s*(\{(?:[^}]|\}\})*\}|[^;]*)\s*(?:;|$)")


def parse_connection(text: str) -> list[tuple[str, str]]:
    """The keywords and values of an ODBC connection string, braces taken off.

    Raises:
        SourceError: It is no connection string.
    """
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(text):
        if text[at] in "; \t":
            at += 1
            continue
        found = _PAIR.match(text, at)
        if found is None:
            raise SourceError("not an ODBC connection string: `keyword=value` pairs parted by `;` are needed")
        key, value = found[1], found[2].strip()
        if value.startswith("{") and value.endswith("}"):
            value = value[1:-1].replace("}}", "}")
        pairs.append((key, value))
        at = found.end()
    return pairs


def build_connection(pairs: Iterable[tuple[str, str]]) -> str:
    """The connection string with these keywords and values."""
    return ";".join(
        f"{key}={_braced(value) if re.search(r'[;{}=]|^ | $', value) or key.casefold() == 'driver' else value}"
        for key, value in pairs
    )


def with_options(text: str, options: Mapping[str, str]) -> str:
    """The connection string with these options instead of what it says about them."""
    names = {name.casefold() for name in options}
    kept = [(key, value) for key, value in parse_connection(text) if key.casefold() not in names]
    return build_connection([*kept, *options.items()])


def _braced(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"
