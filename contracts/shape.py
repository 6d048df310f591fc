"""Which model, list or choice is expected where: the types of ``contracts/schema``, walked along a document.

The models are the one source of what is allowed. From here come the names for "did you mean", the places where a parameter's
value is escaped because a pattern stands there, and the translation of Pydantic's error locations, which contain the tags of
unions, into places in the file.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Discriminator, Tag

from contracts.problems import Loc
from contracts.schema import Syntax


@dataclass(frozen=True)
class Shape:
    """A type with what is annotated on it.

    Attributes:
        type: The bare type: a model class, ``list[…]``, ``dict[…]``, ``tuple[…]``, a union, or a scalar type.
        metadata: What the annotation carries, outermost last.
    """

    type: Any
    metadata: tuple[Any, ...] = ()

    @property
    def model(self) -> type[BaseModel] | None:
        """The model class, if it is one."""
        return self.type if isinstance(self.type, type) and issubclass(self.type, BaseModel) else None

    @property
    def syntax(self) -> Syntax | None:
        """What kind of pattern stands here."""
        return next((item for item in self.metadata if isinstance(item, Syntax)), None)

    @cached_property
    def choices(self) -> dict[str, Shape]:
        """The members of a tagged union by their tags; empty for other types."""
        if self._discriminator is None:
            return {}
        return {tag.tag: shape for shape in self._arguments for tag in shape.metadata if isinstance(tag, Tag)}

    @cached_property
    def _arguments(self) -> tuple[Shape, ...]:
        return tuple(of(argument) for argument in get_args(self.type))

    @property
    def _discriminator(self) -> Discriminator | None:
        return next((item for item in self.metadata if isinstance(item, Discriminator)), None)

    def tag_for(self, value: object) -> str | None:
        """The tag of the member that ``value`` would be read as; ``None`` if there is none or this is no tagged union."""
        found = self._discriminator
        if found is None or not callable(found.discriminator):
            return None
        return typing.cast("str | None", found.discriminator(value))

    def chosen(self, value: object) -> Shape:
        """The shape that ``value`` is read as: unions are left behind."""
        shape = self
        while choices := shape.choices:
            tag = shape.tag_for(value)
            if tag is None or tag not in choices:
                return shape
            shape = choices[tag]
        return shape

    def child(self, key: str | int) -> Shape | None:
        """The shape of a field or item; ``None`` where nothing is known (unknown names, free data)."""
        if self.model is not None:
            return _fields(self.model).get(key) if isinstance(key, str) else None
        origin, arguments = get_origin(self.type), self._arguments
        if origin is dict and len(arguments) == 2:
            return arguments[1]
        if isinstance(key, int):
            if origin is list and arguments:
                return arguments[0]
            if origin is tuple and 0 <= key < len(arguments):
                return arguments[key]
        return None


def of(annotation: Any) -> Shape:
    """The shape of an annotation; ``X | None`` is ``X``, as nothing is left out by writing nothing."""
    metadata: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            metadata += annotation.__metadata__
            annotation = annotation.__origin__
            continue
        if get_origin(annotation) in (Union, UnionType):
            members = [member for member in get_args(annotation) if member is not NoneType]
            if len(members) == 1:
                annotation = members[0]
                continue
        return Shape(annotation, metadata)


@lru_cache(maxsize=256)
def _fields(model: type[BaseModel]) -> dict[str, Shape]:
    hints = typing.get_type_hints(model, include_extras=True)
    return {field.alias or name: of(hints[name]) for name, field in model.model_fields.items()}


def field_names(model: type[BaseModel]) -> list[str]:
    """The names that a model's fields have in a file, in the order of the model."""
    return list(_fields(model))


@dataclass(frozen=True)
class Place:
    """Where an error of Pydantic belongs.

    Attributes:
        loc: The place in the document; for unknown and missing fields it ends in the field's name.
        shape: What was expected there, as far as Pydantic came.
        around: What was expected of the element around it.
        value: What stands there; ``None`` if nothing does.
        on_key: The error is about the key, not its value.
    """

    loc: Loc
    shape: Shape | None
    around: Shape | None
    value: Any
    on_key: bool = False


def place(loc: tuple[str | int, ...], root: Shape, data: Any) -> Place:
    """Translates an error location of Pydantic, removing the tags of unions and its own marks."""
    shape: Shape | None = root
    around: Shape | None = None
    here: list[str | int] = []
    value = data
    on_key = False
    for item in loc:
        if item == "[key]":
            on_key = True
            continue
        if shape is not None and item in (choices := shape.choices):
            shape = choices[str(item)]
            continue
        around, shape = shape, shape.child(item) if shape is not None else None
        if isinstance(value, dict):
            here.append(item)
            value = value.get(item)
        elif isinstance(value, list) and isinstance(item, int):
            here.append(item)
            value = value[item] if item < len(value) else None
        # else the value was turned into a model on the way (a bare text in `start`): the place stays what it is
    return Place(tuple(here), shape, around, value, on_key)
