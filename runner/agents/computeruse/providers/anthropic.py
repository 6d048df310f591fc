"""Anthropic: the computer use tool of the Messages API, through the vendor's SDK.

Three versions of the tool are spoken, chosen by the model (see :func:`tool_version`): the toolset ``computer_toolset_20260801``, whose
actions are tools of their own, several per reply, without a beta header; and the older ``computer_20251124`` and ``computer_20250124``,
one tool with an ``action``, behind their beta headers. Source: the vendor's page "Computer use tool" and the types of the SDK.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import anthropic

from runner.agents.computeruse.actions import Malformed, arguments_of
from runner.agents.computeruse.history import OMITTED, Answer, Call, History, Reply
from runner.agents.computeruse.prices import Usage
from runner.agents.computeruse.providers.anthropic_words import proposal
from runner.agents.computeruse.providers.base import (
    Asking,
    ProviderTrouble,
    no_reply,
    reading,
    trouble_of_connection,
    trouble_of_status,
)
from runner.agents.computeruse.scrub import scrubbed
from runner.agents.computeruse.tools import EXTRACTION, MISMATCH, functions
from runner.agents.computeruse.view import Picture

TOOLSET = "computer_toolset_20260801"
BETAS = {"computer_20251124": "computer-use-2025-11-24", "computer_20250124": "computer-use-2025-01-24"}
WITH_TEMPERATURE = "2023-06-01"
"""The last version of the interface that takes a temperature; models that refuse one answer with an error, and are asked without."""
NOT_EXECUTED = "Not executed: an earlier computer action in this turn failed."
"""The words that the toolset's documentation prescribes for what was skipped."""

_OF_20251124 = re.compile(r"claude-(?:opus-4-[567]|sonnet-4-6)(?:-|$)")
_OF_20250124 = re.compile(r"claude-(?:3|(?:opus|sonnet)-4(?:-[0-1])?(?:-20\d{6})?$|sonnet-4-5|haiku-4-5)")
_THINKING = ("thinking", "redacted_thinking")


def tool_version(model: str) -> str:
    """The version of the computer tool that a model is made for; models that are not known are taken as new."""
    if _OF_20251124.match(model):
        return "computer_20251124"
    return "computer_20250124" if _OF_20250124.match(model) else TOOLSET


class AnthropicSession:
    """See :class:`runner.agents.computeruse.providers.base.Session`."""

    grid: int | None = None
    picture_on_errors = False  # a result marked as an error may hold text only

    def __init__(self, asking: Asking) -> None:
        settings = asking.settings
        self._settings = settings
        self._key = settings.key() or ""
        self._version = settings.tool or tool_version(settings.model)
        if self._version != TOOLSET and self._version not in BETAS:
            # A version of tomorrow: its header carries the same date.
            match = re.fullmatch(r"computer_(\d{4})(\d{2})(\d{2})", self._version)
            self._beta = f"computer-use-{match[1]}-{match[2]}-{match[3]}" if match else ""
        else:
            self._beta = BETAS.get(self._version, "")
        self._functions = [
            {"name": name, "description": text, "input_schema": schema}
            for name, text, schema in functions(asking.response_schema)
        ]
        # The client that the SDK would make itself writes a traceback to the terminal when it cannot be made; this one does not.
        http = anthropic.DefaultHttpxClient()
        self._client = anthropic.Anthropic(api_key=self._key, base_url=settings.url(), max_retries=0, http_client=http)
        self.about = f"tool {self._version}"

    def ask(self, history: History, *, timeout: float, temperature: float | None) -> Reply:
        """See :meth:`runner.agents.computeruse.providers.base.Session.ask`."""
        # The tools and this text are the same in every request of a campaign: worth keeping in the provider's cache.
        system = [{"type": "text", "text": history.system, "cache_control": {"type": "ephemeral"}}]
        request: dict[str, Any] = {
            "model": self._settings.model,
            "max_tokens": self._settings.max_tokens,
            "system": system,
            "tools": [self._computer(history), *self._functions],
            "messages": self._messages(history),
            "timeout": timeout,
        }
        if temperature is not None:
            # Version 2026-10-21 of the interface, which SDKs from 2.0 on send, has no temperature; the one before has it still.
            request["extra_body"] = {"temperature": temperature}
            request["extra_headers"] = {"anthropic-version": WITH_TEMPERATURE}
        create: Callable[..., Any] = self._client.messages.create
        if self._beta:
            create, request["betas"] = self._client.beta.messages.create, [self._beta]
        answer = self._asked(lambda: create(**request))
        with reading((self._key,)):
            return self._reply(answer)

    def look_up(self, timeout: float) -> bool | None:
        """See :meth:`runner.agents.computeruse.providers.base.Session.look_up`."""
        try:
            found = self._asked(lambda: self._client.models.retrieve(self._settings.model, timeout=timeout))
        except ProviderTrouble as trouble:
            if trouble.kind == "model":
                return False
            raise
        if getattr(found, "id", None) is None:
            raise no_reply(found, (self._key,))
        return True

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def _asked(self, send: Callable[[], Any]) -> Any:
        try:
            return send()
        except anthropic.APIStatusError as error:
            after = error.response.headers.get("retry-after")
            raise trouble_of_status(
                error.status_code, str(error.message), retry_after=after, secrets=(self._key,)
            ) from None
        except anthropic.APIConnectionError as error:
            raise trouble_of_connection(error, (self._key,)) from None
        except (anthropic.APIResponseValidationError, json.JSONDecodeError) as error:
            raise ProviderTrouble("unavailable", scrubbed(f"no usable answer: {error}", (self._key,))) from None
        except (anthropic.AnthropicError, ValueError, TypeError) as error:
            raise ProviderTrouble("request", scrubbed(f"{type(error).__name__}: {error}", (self._key,))) from None

    def _computer(self, history: History) -> dict[str, Any]:
        if self._version == TOOLSET:
            return {"type": TOOLSET, "configs": {"zoom": {"enabled": False}}}
        width, height = history.view.seen
        return {"type": self._version, "name": "computer", "display_width_px": width, "display_height_px": height}

    def _messages(self, history: History) -> list[dict[str, Any]]:
        first: list[dict[str, Any]] = [{"type": "text", "text": history.task}]
        first.append(_image(history.first_shown) if history.first_shown else {"type": "text", "text": OMITTED})
        # A thinking block is bound to what stands before it. Once a picture before it was taken out it is worthless, and newer
        # models refuse it: then none is sent back.
        changed = history.first_shown is None
        messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
        for turn, answers in history.numbered():
            blocks = [block for block in turn.reply.raw if _repeatable(block, changed)]
            messages.append({"role": "assistant", "content": blocks or [{"type": "text", "text": "(nothing)"}]})
            changed = changed or any(answer.picture is not None and shown is None for answer, shown in answers)
            results = [self._result(answer, shown) for answer, shown in answers]
            if turn.words:
                results.append({"type": "text", "text": turn.words})
            messages.append({"role": "user", "content": results or [{"type": "text", "text": "Go on."}]})
        return messages

    def _result(self, answer: Answer, shown: Picture | None) -> dict[str, Any]:
        toolset = self._version == TOOLSET and answer.call.tool == "computer"
        text = NOT_EXECUTED if answer.skipped and toolset else answer.text
        content: list[dict[str, Any]] = [{"type": "text", "text": text}]
        if shown is not None:
            content.append(_image(shown))
        elif answer.picture is not None:
            content.append({"type": "text", "text": OMITTED})
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": answer.call.id, "content": content}
        if toolset:
            result["toolset_name"] = "computer"
        if answer.error:
            result["is_error"] = True
        return result

    def _reply(self, message: Any) -> Reply:
        if getattr(message, "content", None) is None:
            raise no_reply(message, (self._key,))
        blocks = [block.model_dump(mode="json", exclude_unset=True) for block in message.content]
        text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        calls = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
        usage = _usage(message.usage)
        match message.stop_reason:
            case "refusal":
                return Reply(blocks, text, (), usage, "refused", "the model declined")
            case "max_tokens" | "model_context_window_exceeded":
                return Reply(blocks, text, calls, usage, "cut")
            case _:
                return Reply(blocks, text, calls, usage)


def _repeatable(block: Mapping[str, Any], changed: bool) -> bool:
    """Whether a block of a reply may be sent back: empty texts are refused, and thinking after a change is (see above)."""
    kind = block.get("type")
    return not (changed and kind in _THINKING) and not (kind == "text" and not str(block.get("text", "")).strip())


def _image(picture: Picture) -> dict[str, Any]:
    data = base64.b64encode(picture.png).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def _usage(told: Any) -> Usage:
    if told is None:
        return Usage(known=False)
    cached, written = told.cache_read_input_tokens or 0, told.cache_creation_input_tokens or 0
    return Usage((told.input_tokens or 0) + cached + written, told.output_tokens or 0, cached, written)


def _call(block: Mapping[str, Any]) -> Call:
    identity, name = str(block.get("id", "")), str(block.get("name", ""))
    try:
        arguments, repairs = arguments_of(block.get("input"))
    except Malformed as error:
        return Call(identity, "computer" if name not in (EXTRACTION, MISMATCH) else "unknown", name, trouble=str(error))
    if name == EXTRACTION:
        return Call(identity, "extraction", name, arguments=arguments, repairs=repairs)
    if name == MISMATCH:
        return Call(identity, "ui_not_as_expected", name, arguments=arguments, repairs=repairs)
    if block.get("toolset_name") == "computer":
        return Call(identity, "computer", name, (proposal(name, arguments),), repairs=repairs)
    if name == "computer":
        kind = arguments.pop("action", None)
        return Call(identity, "computer", name, (proposal(str(kind), arguments),), repairs=repairs)
    return Call(identity, "unknown", name)
