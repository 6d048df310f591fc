"""Documents that programs make: what a PDF holds, and what a picture is.

Both come from the guest and may be anything. A picture's size is known before its pixels are decoded, and only formats that Pillow
reads by itself are tried; a PDF is read in a process of its own with bounds for time and memory (:mod:`validators.pdf_reader`).
Whatever is wrong with a document is a :class:`BadDocument`, which makes a rule not hold and never stops the judgement.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageChops, ImageStat, UnidentifiedImageError

from validators import pdf_reader
from validators.changes import ContractFault, Unreadable
from validators.values import shown

MAX_PIXELS = 30_000_000
"""The largest picture whose pixels are looked at (a screen of 5120 × 2880 has 15 million)."""
FORMATS = ("BMP", "GIF", "ICO", "JPEG", "PCX", "PNG", "PPM", "TGA", "TIFF", "WEBP")
"""What is tried; formats that need a program of their own, such as EPS, are not."""
_WAIT = 120.0
"""Seconds of real time for a PDF: far above its share of the processor, for a machine that is busy."""
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-])(\d\d)'?(\d\d)?'?)?", re.ASCII)
_ALREADY_READ: dict[bytes, PdfFacts | str] = {}
_MOST_KEPT = 64


class BadDocument(Exception):
    """The document is not what it should be, or asks for more than is given: a reason for people, in a few words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class PdfFacts:
    """What a PDF holds.

    Attributes:
        pages: How many pages it has.
        text: Their text, white space as one blank; of at most a thousand pages and a million characters.
        cut: Whether there is more text than that.
        created: When it says it was made; without a zone where it names none. ``None``: it does not say.
    """

    pages: int
    text: str
    cut: bool
    created: datetime | None


def read_pdf(data: bytes) -> PdfFacts:
    """Reads a PDF.

    Raises:
        BadDocument: It is none, is locked, or needs more time or memory than it may have.
        Unreadable: This machine was too busy to read it.
        ContractFault: pypdf is not installed.
    """
    if b"%PDF-" not in data[:1024]:
        raise BadDocument("it is no PDF")
    key = sha256(data).digest()
    if key not in _ALREADY_READ:
        if len(_ALREADY_READ) >= _MOST_KEPT:
            _ALREADY_READ.clear()
        try:
            _ALREADY_READ[key] = _in_own_process(data)
        except BadDocument as error:
            _ALREADY_READ[key] = error.reason
    found = _ALREADY_READ[key]
    if isinstance(found, str):
        raise BadDocument(found)
    return found


def _in_own_process(data: bytes) -> PdfFacts:
    command = [sys.executable, "-P", str(Path(pdf_reader.__file__))]
    try:
        done = subprocess.run(
            command, input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_WAIT, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(f"a PDF of {len(data)} bytes was not read within {_WAIT:g} s") from None
    if done.returncode == pdf_reader.NO_PYPDF:
        raise ContractFault("rules about PDFs need pypdf: install `legacyproof[documents]`")
    if done.returncode != 0:
        limits = f"{pdf_reader.CPU_SECONDS} s or {pdf_reader.MEMORY >> 20} MiB"
        raise BadDocument(f"it cannot be read within {limits}")
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise BadDocument(shown(answer["error"], 200))
    return PdfFacts(answer["pages"], " ".join(answer["text"].split()), answer["cut"], pdf_date(answer["created"]))


def pdf_date(text: str) -> datetime | None:
    """The moment of a PDF date such as ``D:20261129143000+01'00'`` (ISO 32000-1, 7.9.4), or ``None``."""
    found = _DATE.match(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) if part else None for part in found.groups()[:6])
    zone = None
    if found[7]:
        zone = UTC
    elif found[8]:
        offset = timedelta(hours=int(found[9]), minutes=int(found[10] or 0))
        zone = timezone(offset if found[8] == "+" else -offset) if offset < timedelta(days=1) else None
    try:
        return datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=zone)
    except ValueError:
        return None


# --- pictures ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PictureFacts:
    """What a picture is.

    Attributes:
        format: Pillow's name of its format.
        width: Pixels.
        height: Pixels.
        mode: Pillow's name of its kind of pixels.
    """

    format: str
    width: int
    height: int
    mode: str


@contextmanager
def _opened(data: bytes) -> Iterator[Image.Image]:
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(BytesIO(data), formats=FORMATS) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise BadDocument(f"it has {picture.width} × {picture.height} pixels, more than are looked at")
            yield picture
    except BadDocument:
        raise
    except UnidentifiedImageError:
        raise BadDocument("it is no picture of a known format") from None
    except Exception as error:  # decoders of broken files fail in many ways
        raise BadDocument(f"it cannot be decoded ({type(error).__name__}: {shown(str(error), 120)})") from None


@lru_cache(maxsize=16)
def read_picture(data: bytes) -> PictureFacts:
    """What a picture is; its pixels are decoded, so that one that is cut short is found out.

    Raises:
        BadDocument: It is none, is damaged, or has too many pixels.
    """
    with _opened(data) as picture:
        facts = PictureFacts(str(picture.format), picture.width, picture.height, picture.mode)
        picture.load()
        return facts


def is_blank(data: bytes) -> bool:
    """Whether all pixels have one colour.

    Raises:
        BadDocument: As :func:`read_picture`.
    """
    with _opened(data) as picture:
        bands = _on_white(picture).split()
        return all(low == high for low, high in (band.getextrema() for band in bands))


def difference(data: bytes, expected: bytes) -> Decimal:
    """How far a picture is from another of the same size: 0 is equal, 1 black against white.

    The mean over all pixels of how far red, green and blue are apart; what is transparent shows white.

    Raises:
        BadDocument: One of them is no picture, or their sizes differ.
    """
    with _opened(data) as one, _opened(expected) as other:
        if one.size != other.size:
            raise BadDocument(f"it is {one.width} × {one.height} instead of {other.width} × {other.height} pixels")
        means = ImageStat.Stat(ImageChops.difference(_on_white(one), _on_white(other))).mean
    return round(Decimal(sum(means)) / len(means) / 255, 6)


def _on_white(picture: Image.Image) -> Image.Image:
    if picture.mode == "RGB" and "transparency" not in picture.info:
        return picture.copy()
    coloured = picture.convert("RGBA")
    white = Image.new("RGBA", coloured.size, "white")
    return Image.alpha_composite(white, coloured).convert("RGB")
