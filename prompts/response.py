"""An example of what an agent must return, made from the contract's schema: shape, not values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_EXAMPLES: dict[str, Any] = {"string": "...", "integer": 0, "number": 0.0, "boolean": True, "null": None}
_DEPTH = 8


def example_of(schema: Mapping[str, Any] | None) -> Any:
    """The simplest document of the schema's shape; the same schema always gives the same.

    Keys that are not required are shown, too: an agent that knows them may fill them. What the schema fixes (``const``) or lists
    (``enum``) is not shown, since that could be the answer.

    Args:
        schema: JSON Schema, or ``None``.

    Returns:
        JSON; ``None`` without a schema.
    """
    return None if schema is None else _example(schema, _DEPTH)


def _example(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth == 0:
        return "..."
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    if kind == "object":
        properties = schema.get("properties")
        return (
            {str(k): _example(v, depth - 1) for k, v in properties.items()} if isinstance(properties, Mapping) else {}
        )
    if kind == "array":
        return [_example(schema.get("items"), depth - 1)]
    return _EXAMPLES.get(str(kind), "...")
