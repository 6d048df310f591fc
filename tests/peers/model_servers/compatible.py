"""An endpoint that speaks chat completions with function tools, as OpenAI's documentation has it and Kimi and vLLM follow it.

Beside what ``base.py`` says it checks that tool results are text, that pictures come in messages of the user, and that a model's own
reasoning comes back. Not reproduced: streaming, and whatever a certain server does in its own way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.peers.model_servers.base import KEY, Act, ModelServer, check_functions, check_repeated, data_url, need

_CLICK = {
    ("left", 1): "left_click",
    ("left", 2): "double_click",
    ("left", 3): "triple_click",
    ("right", 1): "right_click",
}


class CompatibleServer(ModelServer):
    """See :class:`tests.peers.model_servers.base.ModelServer`."""

    path = "/v1"

    def authorised(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {KEY}"

    def route(self, path: str) -> str | None:
        return {"/v1/chat/completions": "reply", "/v1/models": "models"}.get(path)

    def listed(self, name: str | None) -> dict[str, Any]:
        models = [{"id": m, "object": "model", "created": 1, "owned_by": "x"} for m in self.known_models]
        return {"object": "list", "data": models}

    def read(self, body: dict[str, Any], headers: Mapping[str, str]) -> list[bytes]:
        need(body["model"] == self.expected.model, f"the model is {body['model']}")
        need(body["max_tokens"] == self.expected.max_tokens, "max_tokens")
        need(body.get("temperature") == self.expected.temperature, f"temperature is {body.get('temperature')}")
        tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body["tools"]}
        need(all(tool["type"] == "function" for tool in body["tools"]), "all tools are functions")
        need(
            {"screenshot", "left_click", "type", "key"} <= set(tools["computer"]["properties"]["action"]["enum"]),
            "actions",
        )
        check_functions(tools, self.expected.returns)
        return self._messages(body["messages"])

    def _messages(self, messages: list[dict[str, Any]]) -> list[bytes]:
        need(messages[0]["role"] == "system", "the system message must come first")
        need(messages[1]["role"] == "user" and messages[1]["content"][0]["type"] == "text", "then the task")
        pictures = self._images(messages[1])
        rest = messages[2:]
        for sent in self._sent:
            need(rest and _bare(rest[0]) == _bare(sent), "a reply was changed or left out")
            for again, call in zip(rest.pop(0).get("tool_calls", []), sent.get("tool_calls", []), strict=True):
                check_repeated(again["function"]["arguments"], call["function"]["arguments"])
            for call in sent.get("tool_calls", []):
                need(rest and rest[0]["role"] == "tool", "every call needs a result")
                result = rest.pop(0)
                need(result["tool_call_id"] == call["id"] and isinstance(result["content"], str), "the call's result")
            if rest and rest[0]["role"] == "user":
                pictures += self._images(rest.pop(0))
        need(not rest, f"{len(rest)} messages belong to nothing")
        return pictures

    def _images(self, message: dict[str, Any]) -> list[bytes]:
        return [data_url(part["image_url"]["url"]) for part in message["content"] if part["type"] == "image_url"]

    def write(self, acts: list[Act]) -> dict[str, Any]:
        text = "\n".join(one.about["text"] for one in acts if one.kind == "say")
        calls = [self._call(one) for one in acts if one.kind != "say"]
        message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": "hm"}
        if calls:
            message["tool_calls"] = calls
        self._sent.append(message)
        return self.completion(message, "tool_calls" if calls else "stop")

    def completion(self, message: dict[str, Any], reason: str) -> dict[str, Any]:
        """A whole completion."""
        usage = {
            "prompt_tokens": 320, "completion_tokens": 50, "total_tokens": 370, "prompt_tokens_details": {"cached_tokens": 200},
        }  # fmt: skip
        return {
            "id": self.identity("chat"), "object": "chat.completion", "created": 1, "model": self.expected.model,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}], "usage": usage,
        }  # fmt: skip

    def _call(self, one: Act) -> dict[str, Any]:
        about = one.about
        match one.kind:
            case "extraction":
                return self._function("extraction", {"data": about["data"]})
            case "mismatch":
                return self._function("ui_not_as_expected", {"reasoning": about["reasoning"]})
            case "call":
                return self._function(about["name"], about["arguments"])
            case "click":
                name = _CLICK[about.get("button", "left"), about.get("count", 1)]
                return self._function("computer", {"action": name, "coordinate": [about["x"], about["y"]]})
            case "key":
                return self._function("computer", {"action": "key", "text": about["keys"]})
            case "type":
                return self._function("computer", {"action": "type", "text": about["text"]})
            case "wait":
                return self._function("computer", {"action": "wait", "duration": about.get("seconds", 1)})
        return self._function("computer", {"action": one.kind} | dict(about))

    def _function(self, name: str, arguments: Any) -> dict[str, Any]:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return {"id": self.identity("call"), "type": "function", "function": {"name": name, "arguments": text}}


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """A message without its calls' arguments, which are compared by themselves."""
    calls = [{**call, "function": call["function"]["name"]} for call in message.get("tool_calls", [])]
    return {**message, "tool_calls": calls}
