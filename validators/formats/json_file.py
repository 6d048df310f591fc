"""One value of a JSON file. A path names one value: a key that an object holds twice is none, since programs differ on which counts."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

from contracts.places import json_place
from contracts.schema import JsonAt
from validators.changes import Cell
from validators.formats.text import Absent, decoded, named
from validators.values import cell_of_json, shown

_MAX_DIGITS = 400


class _Object(dict[str, Any]):
    """A JSON object that knows which of its keys it holds more than once."""

    __slots__ = ("twice",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.twice: set[str] = set()
        if len(self) < len(pairs):
            seen: set[str] = set()
            self.twice = {key for key, _ in pairs if key in seen or seen.add(key)}  # type: ignore[func-returns-value]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_float=Decimal, parse_constant=_refuse_constant)


def json_value(place: JsonAt, content: bytes) -> Cell:
    """The value at a place, with its type.

    Raises:
        Absent: There is none, or the content is no JSON.
        ContractFault: The declared encoding does not exist.
    """
    text = decoded(content, place.encoding)
    try:
        value = _DECODER.decode(text)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Absent(f"the content is no JSON ({shown(str(error), 100)})") from None
    way = "$"
    for step in json_place(place.json_):
        if isinstance(step, int):
            if not isinstance(value, list):
                raise Absent(f"{way} is no list")
            if step >= len(value):
                raise Absent(f"{way} has {len(value)} entries, none of number {step} (counted from 0)")
        elif not isinstance(value, _Object):
            raise Absent(f"{way} is no object")
        elif step in value.twice:
            raise Absent(f"{way} has the key “{shown(step, 60)}” more than once")
        elif step not in value:
            raise Absent(f"{way} has no key “{shown(step, 60)}”" + named(value))
        value = value[step]
        way += f"[{step}]" if isinstance(step, int) else f".{shown(step, 60)}"
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        number = Decimal(value)
        if abs(number.adjusted()) > _MAX_DIGITS or len(number.as_tuple().digits) > _MAX_DIGITS:
            raise Absent(f"{way} is a number of more than {_MAX_DIGITS} digits")
    return cell_of_json(value)
