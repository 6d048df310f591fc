"""The words of Anthropic's computer tool, which legacy-use and most function tools share; no SDK is needed for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runner.agents.computeruse.actions import Proposal

_CLICKS = {
    "left_click": ("left", 1), "right_click": ("right", 1), "middle_click": ("middle", 1), "double_click": ("left", 2),
    "triple_click": ("left", 3),
}  # fmt: skip


def proposal(name: str, arguments: Mapping[str, Any]) -> Proposal:
    """An action in Anthropic's words, which legacy-use and most function tools share, as a neutral one."""
    left = dict(arguments)
    taken: dict[str, Any] = {}

    def take(theirs: str, ours: str) -> None:
        if (value := left.pop(theirs, None)) is not None:
            taken[ours] = value

    kind = name
    match name:
        case "mouse_move":
            kind = "move"
            take("coordinate", "at")
            take("text", "held")
        case "left_click" | "right_click" | "middle_click" | "double_click" | "triple_click":
            kind = "click"
            taken["button"], taken["count"] = _CLICKS[name]
            take("coordinate", "at")
            take("text", "held")
            take("key", "held")
        case "left_click_drag":
            kind = "drag"
            taken["path"] = [left.pop("start_coordinate", None), left.pop("coordinate", None)]
            take("text", "held")
        case "left_mouse_down" | "left_mouse_up":
            kind = name.removeprefix("left_")
            take("coordinate", "at")
        case "scroll":
            take("coordinate", "at")
            take("scroll_direction", "direction")
            take("scroll_amount", "amount")
            take("text", "held")
        case "key":
            take("text", "keys")
            take("repeat", "repeat")
        case "hold_key":
            take("text", "keys")
            take("duration", "seconds")
        case "type":
            take("text", "text")
        case "wait":
            take("duration", "seconds")
        case _:
            pass  # screenshot and cursor_position have no arguments; the check says what is no action
    return Proposal(kind, taken, tuple(sorted(key for key, value in left.items() if value not in (None, "", []))))
