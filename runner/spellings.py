"""How a secret may be spelled in what programs write: as it is, escaped, quoted, or encoded.

An agent's message that holds a request's address, a header or a piece of JSON holds its secrets in such a form. Finding these
is for honest programs: whoever wants to smuggle a text out can always disguise it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from contracts.schema import TAKEN_OUT
from runner.record import Part

P = TypeVar("P", bound=Part)
BLOT = TAKEN_OUT
_SHORTEST = 4
"""Characters of the shortest secret that is looked for in other forms than its own."""
_SHORTEST_ENCODED = 6
"""Characters of the shortest piece of base64 that cannot well be something else."""


def blot(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret, however spelled, replaced by ``•••``, and lone surrogates, which have no UTF-8, written out."""
    for spelling in _all(tuple(secrets)):
        text = text.replace(spelling, BLOT)
    return text.encode("utf-8", "backslashreplace").decode()


@lru_cache(maxsize=64)
def _all(secrets: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        sorted({form for secret in secrets for form in spellings(secret)}, key=lambda form: (-len(form), form))
    )


def blot_value(value: Any, secrets: Collection[str]) -> Any:
    """A JSON value with every secret, however spelled, blotted out of its texts, names and numbers.

    Raises:
        RecursionError: It is nested some hundreds deep.
    """
    match value:
        case str():
            return blot(value, secrets)
        case Mapping():
            return {blot(str(name), secrets): blot_value(item, secrets) for name, item in value.items()}
        case list() | tuple():
            return [blot_value(item, secrets) for item in value]
        case int() | float() if not isinstance(value, bool) and str(value) in secrets:
            return BLOT
        case _:
            return value


def blot_part(part: P, secrets: Collection[str]) -> P:
    """A part of a record with every secret blotted out of its free texts.

    Names of fields, numbers, and the words that are ours (:attr:`runner.record.Part.our_words`) stay, whatever a secret is.
    """
    if not secrets:
        return part
    fields = {name: getattr(part, name) for name in type(part).model_fields if name not in part.our_words}
    return part.model_copy(update={name: blot_texts(value, secrets) for name, value in fields.items()})


def blot_texts(value: Any, secrets: Collection[str]) -> Any:
    """What a field of a record holds, with every secret blotted out of its texts and names; figures stay."""
    match value:
        case Part():
            return blot_part(value, secrets)
        case str():
            return blot(value, secrets)
        case list():
            return [blot_texts(item, secrets) for item in value]
        case dict():
            return {blot(str(name), secrets): blot_texts(item, secrets) for name, item in value.items()}
        case _:
            return value


@lru_cache(maxsize=512)
def spellings(secret: str) -> tuple[str, ...]:
    """The texts that a secret may stand as, longest first; none for the empty text.

    They are: itself; as in a JSON text, also one within another, and in a Python literal; URL-quoted; in hexadecimal and base64, its UTF-8 bytes, in base64
    also as part of a longer text.
    """
    if not secret:
        return ()
    found = {secret}
    if len(secret) >= _SHORTEST:
        raw = secret.encode("utf-8", "surrogatepass")
        found |= {
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            json.dumps(json.dumps(secret)[1:-1])[1:-1],
            json.dumps(json.dumps(secret, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1],
            repr(secret)[1:-1],
            repr(raw)[2:-1],
        }
        found |= {quote(raw, safe=""), quote(raw), quote_plus(raw), _lower_quoted(quote(raw, safe=""))}
        found |= {raw.hex(), raw.hex().upper()}
        for piece in _in_base64(raw):
            found |= {piece, piece.replace("+", "-").replace("/", "_")}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _lower_quoted(quoted: str) -> str:
    """URL-quoting with lower-case digits, which some programs write."""
    pieces = quoted.split("%")
    return pieces[0] + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in pieces[1:])


def _in_base64(raw: bytes) -> Iterable[str]:
    """What of base64 depends on these bytes alone, for each of the three places where they may begin in a longer text.

    A character holds six bits; those at the ends also hold bits of the neighbours and are left out.
    """
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode("ascii")
        whole = (8 * (before + len(raw))) // 6
        piece = encoded[-(-8 * before // 6) : whole]
        if len(piece) >= _SHORTEST_ENCODED:
            yield piece
