"""Looks for secrets in bytes, in every form that programs store texts in: a tool of the tests, written apart from the code under test.

A secret is found as itself in several encodings, escaped as in JSON or Python, URL-quoted, as hexadecimal digits and in base64 at any
alignment; and in what is packed: zlib and gzip streams, ZIP members, PNG text chunks and other metadata of pictures. What a picture
shows is not read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import re
import struct
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

MAX_DEPTH = 4
"""How often a disguise is looked into within a disguise."""
MAX_UNPACKED = 64 << 20
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}")
_HEX = re.compile(rb"[0-9a-fA-F]{8,}")
_LINE_ENDS = re.compile(rb"\\[rn]|[\r\n]")
_QUOTED = re.compile(rb"%[0-9a-fA-F]{2}")
_ESCAPED = re.compile(rb"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[\"'\\/nrt]")
_SIGNATURES = re.compile(rb"\x89PNG\r\n|\x1f\x8b\x08|PK\x03\x04|\A\x78[\x01\x5e\x9c\xda]")
_PNG = b"\x89PNG\r\n\x1a\n"


def leaks_below(folder: Path, secrets: Mapping[str, str], *, but: Iterable[Path] = ()) -> list[str]:
    """Every secret in every file of a folder, and in the files' names: ``<file>: <name of the secret> (<how>)``."""
    left_out = set(but)
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found += [f"{name}: {leak} (in its name)" for leak in leaks_in(name.encode(), secrets)]
        if path.is_file() and not path.is_symlink() and path not in left_out:
            found += [f"{name}: {leak}" for leak in leaks_in(path.read_bytes(), secrets)]
    return found


def leaks_in(data: bytes, secrets: Mapping[str, str]) -> list[str]:
    """The secrets that bytes hold, as ``<name> (<how>)``, each once per way."""
    wanted = {name: _spelled(text) for name, text in secrets.items()}
    found: dict[str, None] = {}
    for how, piece in _views(data, 0, set()):
        for name, spellings in wanted.items():
            if any(spelling in piece for spelling in spellings):
                found[f"{name} ({how})"] = None
    return list(found)


def _spelled(text: str) -> set[bytes]:
    encodings = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "latin-1", "cp850", "cp1252")
    return {spelled for encoding in encodings if len(spelled := text.encode(encoding, "ignore")) >= 4}


def _views(data: bytes, depth: int, seen: set[bytes]) -> Iterator[tuple[str, bytes]]:
    """The bytes, and everything that they may be a disguise of."""
    yield "as it is", data
    if depth >= MAX_DEPTH:
        return
    pixels_apart, about_pictures = _pictures(data)
    for how, inner in (*about_pictures, *_disguised(pixels_apart)):
        mark = hashlib.sha256(inner).digest()
        if len(inner) >= 4 and mark not in seen:
            seen.add(mark)
            for deeper, piece in _views(inner, depth + 1, seen):
                yield (how if deeper == "as it is" else f"{how}, {deeper}"), piece


def _disguised(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield from _packed(data)
    if _ESCAPED.search(data):
        yield "escaped", _unescaped(data)
        yield "escaped bytes", _unescaped(data, bytewise=True)
    if _QUOTED.search(data):
        yield "URL-quoted", urllib.parse.unquote_to_bytes(data.replace(b"+", b" "))
        yield "URL-quoted", urllib.parse.unquote_to_bytes(data)
    joined = _LINE_ENDS.sub(b"", data)
    for start in range(2):
        digits = (match[0][start:] for match in _HEX.finditer(joined))
        yield "hexadecimal", _texts(binascii.unhexlify(piece[: len(piece) // 2 * 2]) for piece in digits)
    for start in range(4):
        runs = (match[0][start:].translate(bytes.maketrans(b"-_", b"+/")) for match in _BASE64.finditer(joined))
        yield "base64", _texts(_decoded(run) for run in runs)


def _decoded(run: bytes) -> bytes:
    """Base64 that may be cut short at its end."""
    rest = len(run) % 4
    return base64.b64decode(run[: len(run) - (rest == 1)] + b"=" * (-(len(run) - (rest == 1)) % 4))


def _texts(pieces: Iterable[bytes]) -> bytes:
    """What was decoded, together, without what is only words or numbers read as something that they are not."""
    return b"\0".join(piece for piece in pieces if _SIGNATURES.search(piece) or _is_mostly_text(piece))


def _is_mostly_text(piece: bytes) -> bool:
    """Whether a good part of the bytes is text, in one byte or two, with umlauts."""
    plain = len(piece.translate(None, bytes([*range(1, 9), *range(14, 32), *range(127, 160)])))
    return plain * 10 >= len(piece) * 6


def _unescaped(data: bytes, *, bytewise: bool = False) -> bytes:
    """Escapes replaced; ``\\xNN`` stands for a character, or in the literal of bytes for one of them."""

    def character(match: re.Match[bytes]) -> bytes:
        escape = match[0]
        if bytewise and escape[1:2] == b"x":
            return bytes([int(escape[2:], 16)])
        if escape[1:2] in b"ux":
            return chr(int(escape[2:], 16)).encode("utf-8", "surrogatepass")
        return {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(escape[1:2], escape[1:2])

    return _ESCAPED.sub(character, data)


def _packed(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What is packed, wherever it begins in the bytes."""
    whole = memoryview(data)
    for at in _places(data, b"\x1f\x8b\x08"):
        yield "gzip", _inflated(whole[at:], 31)
    for first in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        for at in _places(data, first):
            yield "zlib", _inflated(whole[at:], 15)
    if b"PK\x03\x04" in data:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for entry in archive.infolist():
                    yield "ZIP", entry.filename.encode() + b"\0" + entry.comment + b"\0" + archive.read(entry)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError):
            pass


def _places(data: bytes, mark: bytes) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at
        at = data.find(mark, at + 1)


def _inflated(data: memoryview | bytes, window: int) -> bytes:
    try:
        return zlib.decompressobj(window).decompress(data, MAX_UNPACKED)
    except zlib.error:
        return b""


def _pictures(data: bytes) -> tuple[bytes, list[tuple[str, bytes]]]:
    """The bytes without the pixels of the PNGs in them, and what the PNGs hold packed beside the pixels."""
    kept: list[bytes] = []
    found: list[tuple[str, bytes]] = []
    end = 0
    for start in _places(data, _PNG):
        if start < end:
            continue
        kept.append(data[end : start + 8])
        end = start + 8
        while end + 12 <= len(data):
            length, kind = struct.unpack(">I4s", data[end : end + 8])
            body = data[end + 8 : end + 8 + length]
            if kind != b"IDAT":
                kept.append(kind + body)
                if kind in (b"zTXt", b"iTXt", b"iCCP"):
                    found += [(f"PNG {kind.decode()}", _inflated(body[at:], 15)) for at in _places(body, b"\x78")]
            end += 12 + length
            if kind == b"IEND":
                break
    return b"".join([*kept, data[end:]]), found
