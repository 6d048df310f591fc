"""Writing the pages of runs so that a campaign of ten thousand stays small.

As long as all pages together stay below :data:`PLAIN_LIMIT` they are plain HTML. Beyond, each page says its verdict in plain
HTML and carries the rest deflated, which the report's script unfolds in the browser. Pages of a campaign resemble each other,
so they are deflated against a common dictionary.

A browser's ``DecompressionStream`` takes no dictionary. But a raw deflate stream may refer back to whatever was put out
before (RFC 1951 section 3.2.3), so the script inflates the deflated dictionary, which ends on a byte boundary and is not
final, followed by the page's own stream, and drops the dictionary's bytes from the front.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLAIN_LIMIT: Final = 12 * 1024 * 1024
"""The most bytes of plain pages."""

_DICTIONARY: Final = 30 * 1024
"""Bytes; a little less than deflate's window of 32 KiB."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page in parts, each HTML.

    Attributes:
        name: the file's name.
        head: everything up to the verdict.
        body: what may be packed.
        tail: what closes the page.
    """

    name: str
    head: str
    body: str
    tail: str


class PageWriter:
    """Writes pages into a folder, all plain or all packed."""

    def __init__(self, folder: Path, dictionary: Path, plain_limit: int = PLAIN_LIMIT) -> None:
        """Makes the folder.

        Args:
            folder: for the pages.
            dictionary: the script to write in case the pages are packed.
            plain_limit: in bytes.
        """
        folder.mkdir()
        self._folder = folder
        self._dictionary = dictionary
        self._left = plain_limit
        self._waiting: list[RunPage] = []
        self._packer: _Packer | None = None

    def add(self, page: RunPage) -> None:
        """Takes the next page; it is on disk at the latest after :meth:`close`."""
        self._waiting.append(page)
        self._left -= len(page.head) + len(page.body) + len(page.tail)
        if self._left >= 0:
            return
        if self._packer is None:
            self._packer = _Packer(_dictionary([waiting.body for waiting in self._waiting]))
            self._dictionary.write_text(self._packer.script(), encoding="ascii")
        self.close()

    def close(self) -> None:
        """Writes what waits."""
        for page in self._waiting:
            body = page.body if self._packer is None else self._packer.pack(page.body)
            with open(f"{self._folder}/{page.name}", "xb") as file:
                file.write(f"{page.head}{body}{page.tail}".encode())
        self._waiting = []


def _dictionary(bodies: list[str]) -> bytes:
    """Pages of different lengths, and so most likely of different outcomes, as many as there is room for."""
    ordered = sorted(bodies, key=len)
    last = len(ordered) - 1
    sample = [ordered[last * eighth // 8] for eighth in (7, 1, 5, 3, 4)]
    return "".join(sample).encode()[-_DICTIONARY:]


class _Packer:
    def __init__(self, dictionary: bytes) -> None:
        deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._prefix = deflate.compress(dictionary) + deflate.flush(zlib.Z_SYNC_FLUSH)
        self._length = len(dictionary)
        self._primed = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zdict=dictionary)

    def script(self) -> str:
        """Declares the dictionary for the report's script."""
        parts = {"length": self._length, "deflated": base64.b64encode(self._prefix).decode()}
        return f"window.legacyproofDictionary = {json.dumps(parts)};\n"

    def pack(self, body: str) -> str:
        """The body's stand-in: an element with its deflated bytes, and the script with the dictionary."""
        deflate = self._primed.copy()
        packed = base64.b64encode(deflate.compress(body.encode()) + deflate.flush()).decode()
        return (
            '<p class="bare">The details are stored compressed and need JavaScript.</p>'
            f'<div id="packed" hidden>{packed}</div><script src="../data/dictionary.js"></script>'
        )
