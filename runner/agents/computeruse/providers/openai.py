"""OpenAI: computer use in the Responses API, through the vendor's SDK.

Current models have the tool ``computer``, whose calls hold several actions; ``computer-use-preview`` has ``computer_use_preview``
with one action per call. Requests are complete in themselves and not stored at the provider (``store`` is false): screenshots show
patients, and pictures that are no longer shown must not be kept on the other side either. Source: the vendor's guide "Computer
use" and the types of the SDK.
"""

from __future__ import annotations

import base64
import functools
import io
import json
from collections.abc import Callable, Mapping
from typing import Any

import openai
from PIL import Image

from runner.agents.computeruse.actions import Malformed, Proposal, arguments_of, repeatable, wheel_clicks
from runner.agents.computeruse.history import OMITTED, Answer, Call, History, Reply, SafetyCheck
from runner.agents.computeruse.prices import Usage
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

_TRANSIENT = ("server_error", "rate_limit_exceeded", "vector_store_timeout")
_REPLIED = ("completed", "incomplete")
"""The states of a response that is a reply; requests that go on in the background are not made."""


class OpenAISession:
    """See :class:`runner.agents.computeruse.providers.base.Session`."""

    grid: int | None = None
    picture_on_errors = True

    def __init__(self, asking: Asking) -> None:
        settings = asking.settings
        self._settings = settings
        self._key = settings.key() or ""
        preview = settings.model.startswith("computer-use-preview")
        self._tool = settings.tool or ("computer_use_preview" if preview else "computer")
        self._functions = [
            {"type": "function", "name": name, "description": text, "parameters": schema, "strict": False}
            for name, text, schema in functions(asking.response_schema)
        ]
        self._client = open_client(self._key, settings.url())
        self.about = f"tool {self._tool}"

    def ask(self, history: History, *, timeout: float, temperature: float | None) -> Reply:
        """See :meth:`runner.agents.computeruse.providers.base.Session.ask`."""
        request: dict[str, Any] = {
            "model": self._settings.model,
            "instructions": history.system,
            "input": self._input(history),
            "tools": [self._computer(history), *self._functions],
            "max_output_tokens": self._settings.max_tokens,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "timeout": timeout,
        }
        if temperature is not None:
            request["temperature"] = temperature
        if self._tool == "computer_use_preview":
            request["truncation"] = "auto"
        create: Callable[..., Any] = self._client.responses.create
        answer = asked(lambda: create(**request), self._key)
        with reading((self._key,)):
            return self._reply(answer)

    def look_up(self, timeout: float) -> bool | None:
        """See :meth:`runner.agents.computeruse.providers.base.Session.look_up`."""
        return looked_up(self._client, self._settings.model, self._key, timeout)

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def _computer(self, history: History) -> dict[str, Any]:
        if self._tool != "computer_use_preview":
            return {"type": self._tool}
        width, height = history.view.seen
        return {"type": self._tool, "display_width": width, "display_height": height, "environment": "windows"}

    def _input(self, history: History) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = [{"type": "input_text", "text": history.task}]
        if history.first_shown is not None:
            content.append({"type": "input_image", "image_url": data_url(history.first_shown.png), "detail": "auto"})
        else:
            content.append({"type": "input_text", "text": OMITTED})
        items: list[dict[str, Any]] = [{"role": "user", "content": content}]
        for turn, answers in history.numbered():
            items += turn.reply.raw
            notes = []
            for answer, shown in answers:
                items.append(self._output(answer, shown))
                if answer.call.tool == "computer" and answer.error:
                    notes.append(answer.text)  # the output of this tool is a picture and nothing else
            if turn.words:
                notes.append(turn.words)
            if notes:
                items.append({"role": "user", "content": [{"type": "input_text", "text": "\n".join(notes)}]})
        return items

    def _output(self, answer: Answer, shown: Picture | None) -> dict[str, Any]:
        call = answer.call
        if call.tool != "computer":
            return {"type": "function_call_output", "call_id": call.id, "output": answer.text}
        png = shown.png if shown is not None else _blank()
        output = {"type": "computer_screenshot", "image_url": data_url(png)}
        item: dict[str, Any] = {"type": "computer_call_output", "call_id": call.id, "output": output}
        if answer.acknowledged:
            item["acknowledged_safety_checks"] = [
                {"id": check.id, "code": check.code, "message": check.message} for check in call.safety
            ]
        return item

    def _reply(self, response: Any) -> Reply:
        if getattr(response, "status", None) == "failed" and response.error is not None:
            code, message = str(response.error.code), scrubbed(str(response.error.message), (self._key,))
            if code in _TRANSIENT:
                raise ProviderTrouble("rate" if code == "rate_limit_exceeded" else "unavailable", f"{code}: {message}")
            refused = "policy" in code or code == "invalid_prompt"
            raise ProviderTrouble("refused" if refused else "request", f"{code}: {message}")
        if getattr(response, "status", None) not in _REPLIED or response.error is not None:
            raise no_reply(response, (self._key,))
        items = [item.model_dump(mode="json", exclude_unset=True, exclude_none=True) for item in response.output or ()]
        usage = _usage(response.usage)
        parts = [part for item in items if item.get("type") == "message" for part in item.get("content") or ()]
        text = "\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "output_text")
        refusals = [str(part.get("refusal", "")) for part in parts if part.get("type") == "refusal"]
        calls = tuple(_call(item) for item in items if item.get("type") in ("computer_call", "function_call"))
        raw = [_repeatable(item) for item in items]
        if refusals and not calls:
            return Reply(raw, text, (), usage, "refused", scrubbed("; ".join(refusals)))
        if response.status == "incomplete":
            reason = getattr(response.incomplete_details, "reason", None)
            if reason == "content_filter":
                return Reply(raw, text, (), usage, "refused", "the content filter stopped the reply")
            return Reply(raw, text, calls, usage, "cut")
        return Reply(raw, text, calls, usage)


def open_client(key: str, url: str | None) -> openai.OpenAI:
    """The SDK's client, for every endpoint of this kind."""
    # The HTTP client that the SDK would make itself writes a traceback to the terminal when it cannot be made; this one does not.
    return openai.OpenAI(api_key=key, base_url=url, max_retries=0, http_client=openai.DefaultHttpxClient())


def asked(send: Callable[[], Any], key: str) -> Any:
    """Sends a request through the SDK and turns its errors into ours; for every endpoint of this kind.

    Raises:
        ProviderTrouble: There is no reply.
    """
    try:
        return send()
    except openai.APIStatusError as error:
        told = f"{error.message} {error.code or ''}"
        raise trouble_of_status(
            error.status_code, told, retry_after=error.response.headers.get("retry-after"), secrets=(key,)
        ) from None
    except openai.APIConnectionError as error:
        raise trouble_of_connection(error, (key,)) from None
    except (openai.APIResponseValidationError, json.JSONDecodeError, AttributeError) as error:
        # The SDK lets what its decoder says through, and stumbles itself over a list that is none.
        raise ProviderTrouble("unavailable", scrubbed(f"no usable answer: {error}", (key,))) from None
    except (openai.OpenAIError, ValueError, TypeError) as error:
        raise ProviderTrouble("request", scrubbed(f"{type(error).__name__}: {error}", (key,))) from None


def looked_up(client: openai.OpenAI, model: str, key: str, timeout: float) -> bool | None:
    """Whether an endpoint lists a model; ``None``: it has no such list.

    Raises:
        ProviderTrouble: It could not be asked.
    """
    try:
        found = asked(lambda: client.models.list(timeout=timeout), key)
    except ProviderTrouble as trouble:
        if trouble.kind == "model":  # 404: an endpoint without a list of models
            return None
        raise
    if getattr(found, "error", None) is not None:
        raise no_reply(found, (key,))
    try:
        return model in {entry.id for entry in found.data or ()}
    except (AttributeError, TypeError):
        return None


def data_url(png: bytes) -> str:
    """A picture as these interfaces take it."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


@functools.cache
def _blank() -> bytes:
    """Stands for a screenshot that is no longer shown: a result of this tool must be a picture, and not too small a one."""
    file = io.BytesIO()
    Image.new("RGB", (256, 192), "grey").save(file, "PNG")
    return file.getvalue()


def _usage(told: Any) -> Usage:
    if told is None:
        return Usage(known=False)
    details = told.input_tokens_details
    cached = getattr(details, "cached_tokens", 0) or 0
    written = getattr(details, "cache_write_tokens", 0) or 0
    return Usage(told.input_tokens or 0, told.output_tokens or 0, cached, written)


def _repeatable(item: Mapping[str, Any]) -> dict[str, Any]:
    function_call = item.get("type") == "function_call"
    return {**item, "arguments": repeatable(item.get("arguments"))} if function_call else dict(item)


def _call(item: Mapping[str, Any]) -> Call:
    identity = str(item.get("call_id", ""))
    if item.get("type") == "computer_call":
        actions = item.get("actions") or ([item["action"]] if item.get("action") else [])
        safety = tuple(
            SafetyCheck(str(check.get("id", "")), str(check.get("code") or ""), str(check.get("message") or "")[:500])
            for check in item.get("pending_safety_checks") or ()
        )
        proposals = tuple(proposal(action) for action in actions if isinstance(action, Mapping))
        trouble = "" if proposals else "the call holds no action"
        return Call(identity, "computer", "computer", proposals, safety=safety, trouble=trouble)
    name = str(item.get("name", ""))
    try:
        arguments, repairs = arguments_of(item.get("arguments"))
    except Malformed as error:
        return Call(identity, "unknown", name, trouble=str(error))
    if name == EXTRACTION:
        return Call(identity, "extraction", name, arguments=arguments, repairs=repairs)
    if name == MISMATCH:
        return Call(identity, "ui_not_as_expected", name, arguments=arguments, repairs=repairs)
    return Call(identity, "unknown", name)


def proposal(action: Mapping[str, Any]) -> Proposal:
    """An action of the computer tool as a neutral one."""
    left = dict(action)
    kind = str(left.pop("type", None))
    place = [left.pop("x"), left.pop("y")] if "x" in left and "y" in left else None
    taken: dict[str, Any] = {} if place is None else {"at": place}
    if kind != "keypress" and (held := left.pop("keys", None)):
        taken["held"] = held
    match kind:
        case "click":
            taken["button"] = left.pop("button", "left")
        case "double_click":
            kind, taken["button"], taken["count"] = "click", left.pop("button", "left"), 2
        case "triple_click":
            kind, taken["button"], taken["count"] = "click", left.pop("button", "left"), 3
        case "drag":
            taken["path"] = left.pop("path", None)
        case "keypress":
            kind, taken["keys"] = "key", left.pop("keys", None)
        case "type":
            taken["text"] = left.pop("text", None)
        case "scroll":
            taken |= _scroll(left.pop("scroll_x", 0), left.pop("scroll_y", 0))
        case "wait":
            taken["seconds"] = 1.0
        case _:
            pass
    return Proposal(kind, taken, tuple(sorted(key for key, value in left.items() if value not in (None, "", []))))


def _scroll(across: Any, down: Any) -> dict[str, Any]:
    """Pixels as wheel clicks; the larger of the two directions."""
    try:
        right, lower = float(across or 0), float(down or 0)
    except (TypeError, ValueError, OverflowError):
        return {"direction": None}
    if abs(right) > abs(lower):
        return {"direction": "right" if right > 0 else "left", "amount": wheel_clicks(right)}
    return {"direction": "down" if lower >= 0 else "up", "amount": wheel_clicks(lower)}
