"""Endpoints that speak OpenAI's chat completions (Kimi, vLLM, Ollama and the like): the computer as a function tool.

The function ``computer`` has the actions and arguments of Anthropic's tool, as legacy-use offers them to models without a computer tool of
their own. Pictures are data URLs in messages of the user, for few endpoints take them as a tool's result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runner.agents.computeruse.actions import Malformed, arguments_of, repeatable
from runner.agents.computeruse.history import OMITTED, Call, History, Reply
from runner.agents.computeruse.prices import Usage
from runner.agents.computeruse.providers.anthropic_words import proposal
from runner.agents.computeruse.providers.base import Asking, no_reply, reading
from runner.agents.computeruse.providers.openai import asked, data_url, looked_up, open_client
from runner.agents.computeruse.tools import EXTRACTION, MISMATCH, functions

ACTIONS = (
    "screenshot", "cursor_position", "mouse_move", "left_click", "right_click", "middle_click", "double_click", "triple_click",
    "left_click_drag", "left_mouse_down", "left_mouse_up", "scroll", "key", "type", "hold_key", "wait",
)  # fmt: skip
_KEPT = ("role", "content", "tool_calls", "reasoning_content")
"""What of a reply is sent back; some models want their own reasoning again."""


class CompatibleSession:
    """See :class:`runner.agents.computeruse.providers.base.Session`."""

    grid: int | None = None
    picture_on_errors = True

    def __init__(self, asking: Asking) -> None:
        settings = asking.settings
        self._settings = settings
        self._key = settings.key() or ""
        self._functions = [
            {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
            for name, text, schema in functions(asking.response_schema)
        ]
        # The SDK wants some key; servers without keys ignore it.
        self._client = open_client(self._key or "none", settings.url())
        self.about = "function tool computer"

    def ask(self, history: History, *, timeout: float, temperature: float | None) -> Reply:
        """See :meth:`runner.agents.computeruse.providers.base.Session.ask`."""
        request: dict[str, Any] = {
            "model": self._settings.model,
            "messages": self._messages(history),
            "tools": [_computer(history.view.seen), *self._functions],
            "tool_choice": "auto",
            "max_tokens": self._settings.max_tokens,
            "timeout": timeout,
        }
        if temperature is not None:
            request["temperature"] = temperature
        create: Callable[..., Any] = self._client.chat.completions.create
        answer = asked(lambda: create(**request), self._key)
        with reading((self._key,)):
            return self._reply(answer)

    def look_up(self, timeout: float) -> bool | None:
        """See :meth:`runner.agents.computeruse.providers.base.Session.look_up`."""
        return looked_up(self._client, self._settings.model, self._key, timeout)

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def _messages(self, history: History) -> list[dict[str, Any]]:
        first: list[dict[str, Any]] = [{"type": "text", "text": history.task}]
        first.append(_image(history.first_shown.png) if history.first_shown else {"type": "text", "text": OMITTED})
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": history.system},
            {"role": "user", "content": first},
        ]
        for turn, answers in history.numbered():
            messages.append(turn.reply.raw)
            parts: list[dict[str, Any]] = []
            for answer, shown in answers:
                text = f"{'Error: ' if answer.error else ''}{answer.text}"
                messages.append({"role": "tool", "tool_call_id": answer.call.id, "content": text})
                if shown is not None:
                    parts += [{"type": "text", "text": "The screen now:"}, _image(shown.png)]
                elif answer.picture is not None:
                    parts.append({"type": "text", "text": OMITTED})
            if turn.words or (not parts and not answers):
                parts.append({"type": "text", "text": turn.words or "Go on."})
            if parts:
                messages.append({"role": "user", "content": parts})
        return messages

    def _reply(self, completion: Any) -> Reply:
        if not getattr(completion, "choices", None):
            raise no_reply(completion, (self._key,))
        usage = _usage(completion.usage)
        choice = completion.choices[0]
        message = choice.message.model_dump(mode="json", exclude_none=True)
        raw = {name: message[name] for name in _KEPT if name in message}
        raw.setdefault("content", "")
        if "tool_calls" in raw:
            raw["tool_calls"] = [_repeatable(call) for call in raw["tool_calls"]]
        text = message.get("content") if isinstance(message.get("content"), str) else ""
        calls = tuple(_call(call) for call in message.get("tool_calls") or ())
        refusal = message.get("refusal")
        if choice.finish_reason == "content_filter" or (refusal and not calls):
            return Reply(
                raw, text or "", (), usage, "refused", str(refusal or "the content filter stopped the reply")[:500]
            )
        return Reply(raw, text or "", calls, usage, "cut" if choice.finish_reason == "length" else "done")


def _computer(seen: tuple[int, int]) -> dict[str, Any]:
    width, height = seen
    place = {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 2,
        "maxItems": 2,
        "description": f"[x, y] in pixels of the screenshot: 0 to {width - 1} from the left, 0 to {height - 1} from the top.",
    }
    properties = {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "coordinate": place,
        "start_coordinate": place | {"description": "Where left_click_drag begins; without it at the pointer."},
        "text": {
            "type": "string",
            "description": "What to type; for key and hold_key the keys, such as Return or ctrl+s; for clicks and scroll keys to hold.",
        },
        "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
        "scroll_amount": {"type": "integer", "description": "Wheel clicks."},
        "duration": {"type": "number", "description": "Seconds, for wait and hold_key."},
        "repeat": {"type": "integer", "description": "How often key is pressed."},
    }
    text = f"Does one action on the computer, whose screen is {width} x {height} pixels. The result is followed by a screenshot."
    schema = {"type": "object", "properties": properties, "required": ["action"]}
    return {"type": "function", "function": {"name": "computer", "description": text, "parameters": schema}}


def _image(png: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(png)}}


def _usage(told: Any) -> Usage:
    if told is None:
        return Usage(known=False)
    details = getattr(told, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or getattr(told, "cached_tokens", None) or 0  # Kimi tells it there
    return Usage(told.prompt_tokens or 0, told.completion_tokens or 0, cached if isinstance(cached, int) else 0)


def _repeatable(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return {**call, "function": {**function, "arguments": repeatable(function.get("arguments"))}}


def _call(call: Mapping[str, Any]) -> Call:
    identity = str(call.get("id", ""))
    function = call.get("function") or {}
    name = str(function.get("name", ""))
    tool: Any = {"computer": "computer", EXTRACTION: "extraction", MISMATCH: "ui_not_as_expected"}.get(name, "unknown")
    try:
        arguments, repairs = arguments_of(function.get("arguments"))
    except Malformed as error:
        return Call(identity, tool if tool == "computer" else "unknown", name, trouble=str(error))
    if tool == "computer":
        kind = arguments.pop("action", None)
        return Call(identity, tool, name, (proposal(str(kind), arguments),), repairs=repairs)
    return Call(identity, tool, name, arguments=arguments, repairs=repairs)
