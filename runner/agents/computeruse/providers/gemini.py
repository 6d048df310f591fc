"""Google Gemini: the tool ``computer_use`` of the Gemini API, through the vendor's SDK.

The model calls predefined functions with places on a grid of 1000 by 1000. Current models operate a desktop; the older computer-use
preview of Gemini 2.5 knows a browser only, so that its browser functions are excluded and what a desktop needs beside is declared as
functions of the same names and arguments. Source: the vendor's page "Computer Use" and the types of the SDK.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from google import genai
from google.genai import errors, types

from runner.agents.computeruse.actions import Proposal, wheel_clicks
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

GRID = 1000
BROWSER_ONLY = ("open_web_browser", "go_back", "go_forward", "search", "navigate")
"""Predefined functions of the browser environment that mean nothing on a Windows desktop."""
DESKTOP, BROWSER = "desktop", "browser"
_LEGACY = "gemini-2.5-computer-use"
_REFUSED = {
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT",
    "MODEL_ARMOR", "ESCALATION",
}  # fmt: skip
_UNUSABLE = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE", "OTHER"}

_PLACE = {
    "y": {"type": "integer", "description": "From the top, 0 to 999."},
    "x": {"type": "integer", "description": "From the left, 0 to 999."},
}


def _at_place(name: str, text: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": _PLACE, "required": ["y", "x"]}
    return {"name": name, "description": text, "parameters_json_schema": schema}


_BESIDE = [
    _at_place("double_click", "Double-clicks with the left button."),
    _at_place("triple_click", "Clicks three times with the left button."),
    _at_place("right_click", "Clicks with the right button."),
    _at_place("middle_click", "Clicks with the middle button."),
    _at_place("mouse_down", "Presses the left button and holds it."),
    _at_place("mouse_up", "Releases the left button."),
    {
        "name": "type",
        "description": "Types text where the keyboard's focus is, without clicking.",
        "parameters_json_schema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "press_enter": {"type": "boolean"}},
            "required": ["text"],
        },
    },
]
"""What the browser environment of the older model lacks."""


class GeminiSession:
    """See :class:`runner.agents.computeruse.providers.base.Session`."""

    grid: int | None = GRID
    picture_on_errors = True

    def __init__(self, asking: Asking) -> None:
        settings = asking.settings
        self._settings = settings
        self._key = settings.key() or ""
        self._environment = settings.tool or (BROWSER if settings.model.startswith(_LEGACY) else DESKTOP)
        declared: list[dict[str, Any]] = [
            {"name": name, "description": text, "parameters_json_schema": schema}
            for name, text, schema in functions(asking.response_schema)
        ]
        computer: dict[str, Any] = {"environment": f"ENVIRONMENT_{self._environment.upper()}"}
        if self._environment == BROWSER:
            computer["excluded_predefined_functions"] = list(BROWSER_ONLY)
            declared += _BESIDE
        self._tools: list[Any] = [{"computer_use": computer}, {"function_declarations": declared}]
        self._client = genai.Client(
            api_key=self._key,
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=settings.url(), api_version="v1beta", retry_options=types.HttpRetryOptions(attempts=1)
            ),
        )
        self.about = f"tool computer_use, environment {self._environment}"

    def ask(self, history: History, *, timeout: float, temperature: float | None) -> Reply:
        """See :meth:`runner.agents.computeruse.providers.base.Session.ask`."""
        config = types.GenerateContentConfig(
            system_instruction=history.system,
            temperature=temperature,
            max_output_tokens=self._settings.max_tokens,
            tools=self._tools,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            http_options=self._within(timeout),
        )
        contents: Any = self._contents(history)
        answer = self._asked(
            lambda: self._client.models.generate_content(model=self._settings.model, contents=contents, config=config)
        )
        with reading((self._key,)):
            return self._reply(answer)

    def look_up(self, timeout: float) -> bool | None:
        """See :meth:`runner.agents.computeruse.providers.base.Session.look_up`."""
        config = types.GetModelConfig(http_options=self._within(timeout))
        try:
            found = self._asked(lambda: self._client.models.get(model=self._settings.model, config=config))
        except ProviderTrouble as trouble:
            if trouble.kind == "model":
                return False
            raise
        if getattr(found, "name", None) is None:
            raise no_reply(found, (self._key,))
        return True

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    def _within(self, timeout: float) -> types.HttpOptions:
        return types.HttpOptions(timeout=max(1, math.ceil(timeout * 1000)))

    def _asked(self, send: Callable[[], Any]) -> Any:
        try:
            return send()
        except errors.APIError as error:
            told = f"{error.status or ''} {error.message or ''}"
            after = getattr(getattr(error, "response", None), "headers", None) or {}
            raise trouble_of_status(
                int(error.code or 0) or 500, told, retry_after=after.get("retry-after"), secrets=(self._key,)
            ) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # Also pydantic's: an answer that is none, which the SDK takes apart itself, or a request that cannot be made.
            raise ProviderTrouble("unavailable", scrubbed(f"no usable answer: {error}", (self._key,))) from None
        except Exception as error:
            # The SDK lets the errors of whichever HTTP library it found through as they are.
            if type(error).__module__.partition(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2", "requests"):
                raise
            raise trouble_of_connection(error, (self._key,)) from None

    def _contents(self, history: History) -> list[Any]:
        first = [types.Part(text=history.task)]
        shown = history.first_shown
        first.append(
            types.Part(inline_data=types.Blob(data=shown.png, mime_type="image/png"))
            if shown
            else types.Part(text=OMITTED)
        )
        contents = [types.Content(role="user", parts=first)]
        for turn, answers in history.numbered():
            if turn.reply.raw is not None:
                contents.append(turn.reply.raw)
            parts = [types.Part(function_response=self._response(answer, shown)) for answer, shown in answers]
            if turn.words or not parts:
                parts.append(types.Part(text=turn.words or "Go on."))
            contents.append(types.Content(role="user", parts=parts))
        return contents

    def _response(self, answer: Answer, shown: Picture | None) -> types.FunctionResponse:
        said: dict[str, Any] = {"error" if answer.error else "output": answer.text}
        if self._environment == BROWSER and answer.call.tool == "computer":
            said["url"] = "about:blank"  # the browser environment wants an address with every result
        if answer.acknowledged:
            said["safety_acknowledgement"] = True
        parts = None
        if shown is not None:
            blob = types.FunctionResponseBlob(data=shown.png, mime_type="image/png")
            parts = [types.FunctionResponsePart(inline_data=blob)]
        elif answer.picture is not None:
            said["screenshot"] = OMITTED
        return types.FunctionResponse(id=answer.call.id or None, name=answer.call.name, response=said, parts=parts)

    def _reply(self, response: types.GenerateContentResponse) -> Reply:
        usage = _usage(response.usage_metadata)
        feedback = response.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            why = f"the request was blocked: {_name(feedback.block_reason)}"
            return Reply(None, "", (), usage, "refused", why)
        if not response.candidates:
            raise no_reply(response, (self._key,))
        candidate = response.candidates[0]
        content = candidate.content if candidate.content is not None and candidate.content.parts else None
        parts = content.parts if content is not None and content.parts else []
        text = "\n".join(part.text for part in parts if part.text and not part.thought)
        calls = tuple(_call(part.function_call) for part in parts if part.function_call is not None)
        reason = _name(candidate.finish_reason) if candidate.finish_reason is not None else "STOP"
        if reason in _REFUSED:
            return Reply(content, text, (), usage, "refused", f"the reply was stopped: {reason}")
        if reason == "MAX_TOKENS":
            return Reply(content, text, calls, usage, "cut")
        if reason in _UNUSABLE and not calls:
            return Reply(content, text, (), usage, "unusable", reason)
        return Reply(content, text, calls, usage)


def _name(value: Any) -> str:
    return str(getattr(value, "value", value))[:60]


def _usage(told: types.GenerateContentResponseUsageMetadata | None) -> Usage:
    if told is None:
        return Usage(known=False)
    taken = (told.prompt_token_count or 0) + (told.tool_use_prompt_token_count or 0)
    given = (told.candidates_token_count or 0) + (told.thoughts_token_count or 0)
    return Usage(taken, given, told.cached_content_token_count or 0)


def _call(call: types.FunctionCall) -> Call:
    identity, name, arguments = call.id or "", call.name or "", dict(call.args or {})
    if name == EXTRACTION:
        return Call(identity, "extraction", name, arguments=arguments)
    if name == MISMATCH:
        return Call(identity, "ui_not_as_expected", name, arguments=arguments)
    decision = arguments.pop("safety_decision", None)
    safety: tuple[SafetyCheck, ...] = ()
    if decision is not None:
        decided = decision if isinstance(decision, Mapping) else {"decision": str(decision)}
        if str(decided.get("decision", "")).lower() not in ("allowed", "regular", ""):
            said = str(decided.get("explanation") or "")[:500]
            safety = (SafetyCheck("", str(decided.get("decision"))[:100], said),)
    if name in BROWSER_ONLY:
        return Call(identity, "unknown", name, trouble="this is a desktop without a browser")
    actions = proposals(name, arguments)
    return Call(identity, "computer" if actions else "unknown", name, actions, safety=safety)


_CLICKS = {
    "click": ("left", 1), "click_at": ("left", 1), "double_click": ("left", 2), "triple_click": ("left", 3),
    "middle_click": ("middle", 1), "right_click": ("right", 1),
}  # fmt: skip


def proposals(name: str, arguments: Mapping[str, Any]) -> tuple[Proposal, ...]:
    """A predefined function as neutral actions, in order; none: there is no such function."""
    left = dict(arguments)
    left.pop("intent", None)  # the model's reason, which the account takes from its words
    taken: dict[str, Any] = {}

    def place(across: str = "x", down: str = "y") -> Any:
        found = [left.pop(across, None), left.pop(down, None)]
        return None if found == [None, None] else found

    def rest(*actions: tuple[str, dict[str, Any]]) -> tuple[Proposal, ...]:
        ignored = tuple(sorted(key for key, value in left.items() if value not in (None, "", [])))
        return tuple(Proposal(kind, args, ignored if n == 0 else ()) for n, (kind, args) in enumerate(actions))

    match name:
        case "click" | "click_at" | "double_click" | "triple_click" | "middle_click" | "right_click":
            button, count = _CLICKS[name]
            at = place()
            return rest(("click", {"at": at if at is not None else (), "button": button, "count": count}))
        case "mouse_down" | "mouse_up":
            return rest((name, {"at": place()}))
        case "move" | "hover_at":
            return rest(("move", {"at": place()}))
        case "type":
            typed = ("type", {"text": left.pop("text", None)})
            return rest(typed, _enter()) if left.pop("press_enter", False) is True else rest(typed)
        case "type_text_at":
            # The older model's function: click, clear the field unless told not to, type, press Enter unless told not to.
            at = place()
            actions: list[tuple[str, dict[str, Any]]] = [("click", {"at": at if at is not None else ()})]
            if left.pop("clear_before_typing", True) is not False:
                actions += [("key", {"keys": "ctrl+a"}), ("key", {"keys": "BackSpace"})]
            actions.append(("type", {"text": left.pop("text", None)}))
            if left.pop("press_enter", True) is not False:
                actions.append(_enter())
            return rest(*actions)
        case "drag_and_drop":
            start = place("start_x", "start_y") or place()
            end = place("end_x", "end_y") or place("destination_x", "destination_y")
            return rest(("drag", {"path": [start or (), end or ()]}))
        case "wait":
            return rest(("wait", {"seconds": left.pop("seconds", 1)}))
        case "wait_5_seconds":
            return rest(("wait", {"seconds": 5}))
        case "press_key":
            return rest(("key", {"keys": left.pop("key", None)}))
        case "key_down" | "key_up":
            return rest((name, {"keys": left.pop("key", None)}))
        case "hotkey" | "key_combination":
            return rest(("key", {"keys": left.pop("keys", None)}))
        case "take_screenshot":
            return rest(("screenshot", {}))
        case "scroll" | "scroll_at" | "scroll_document":
            taken = {"direction": left.pop("direction", None), "at": place()}
            pixels = left.pop("magnitude_in_pixels", None)
            taken["amount"] = wheel_clicks(left.pop("magnitude", 300) if pixels is None else pixels)
            return rest(("scroll", taken))
        case _:
            return ()


def _enter() -> tuple[str, dict[str, Any]]:
    return "key", {"keys": "Return"}
