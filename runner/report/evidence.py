"""Blobs that a report shows: pictures with their thumbnails, and texts. Each is written once, named by its hash."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image, UnidentifiedImageError

Blob = Callable[[str], bytes]
"""Finds a blob by its SHA-256 in hexadecimal; raises OSError or LookupError if it is not there."""

THUMBNAIL: Final = (240, 180)
_MAX_PIXELS: Final = 40_000_000
_SUFFIXES: Final = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp"}
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class MissingEvidence(Exception):
    """A blob that cannot be shown; the message says why, in words for the page."""


def fetch(blob: Blob, sha256: str) -> bytes:
    """The blob's bytes, checked against its name.

    Raises:
        MissingEvidence: it is not there, cannot be read, or is not what its name says.
    """
    if not _HASH.fullmatch(sha256):
        raise MissingEvidence("its name is no hash")
    try:
        data = blob(sha256)
    except (OSError, LookupError, ValueError):
        raise MissingEvidence("it is not among the stored evidence") from None
    if hashlib.sha256(data).hexdigest() != sha256:
        raise MissingEvidence("the stored content does not match its hash")
    return data


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture's files, relative to the report's folder, and the thumbnail's size in pixels."""

    full: str
    thumbnail: str
    width: int
    height: int


class Pictures:
    """The pictures of a report, in ``frames/``."""

    def __init__(self, folder: Path, blob: Blob) -> None:
        self._folder = folder / "frames"
        self._blob = blob
        self._known: dict[str, Picture | str] = {}

    def add(self, sha256: str) -> Picture | str:
        """Writes the picture unless it was written before.

        Returns:
            The picture, or why there is none to show.
        """
        if sha256 not in self._known:
            try:
                self._known[sha256] = self._write(sha256)
            except MissingEvidence as error:
                self._known[sha256] = str(error)
        return self._known[sha256]

    def _write(self, sha256: str) -> Picture:
        data = fetch(self._blob, sha256)
        try:
            with Image.open(io.BytesIO(data), formats=tuple(_SUFFIXES)) as image:
                if image.width * image.height > _MAX_PIXELS:
                    raise MissingEvidence("the picture is too large")
                suffix = _SUFFIXES[image.format or ""]
                small = image.convert("RGB")
        except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError, SyntaxError, KeyError):
            raise MissingEvidence("it is no picture that can be shown") from None
        small.thumbnail(THUMBNAIL, Image.Resampling.BOX, reducing_gap=None)
        self._folder.mkdir(exist_ok=True)
        full, thumbnail = f"{sha256}{suffix}", f"{sha256}.thumb.webp"
        (self._folder / full).write_bytes(data)
        small.save(self._folder / thumbnail, "WEBP", quality=70, method=2)
        return Picture(f"frames/{full}", f"frames/{thumbnail}", small.width, small.height)


class Texts:
    """The texts of a report, each on a page of its own in ``texts/``: prompts and contracts are shared by many runs."""

    def __init__(self, folder: Path, blob: Blob, render: Callable[[str, str], str]) -> None:
        """Takes what it needs.

        Args:
            folder: the report's folder.
            blob: finds blobs.
            render: makes a page of a heading and a text.
        """
        self._folder = folder / "texts"
        self._blob = blob
        self._render = render
        self._known: dict[str, str | None] = {}

    def add(self, sha256: str, heading: str) -> str | None:
        """Writes the text's page unless it was written before.

        Returns:
            The page, relative to the report's folder, or None if there is no such text.
        """
        if sha256 not in self._known:
            try:
                text = fetch(self._blob, sha256).decode("utf-8", "backslashreplace")
            except MissingEvidence:
                self._known[sha256] = None
            else:
                self._folder.mkdir(exist_ok=True)
                page = self._folder / f"{sha256}.html"
                page.write_text(self._render(heading, text), encoding="utf-8")
                self._known[sha256] = f"texts/{page.name}"
        return self._known[sha256]
