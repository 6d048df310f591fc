"""OpenAI's Responses API with the computer tool, as its documentation has it: ``computer`` and ``computer_use_preview``.

Beside what ``base.py`` says it checks that nothing is stored at the provider, that reasoning comes back with what it belongs to, that every
``computer_call`` is answered with a picture, and that only announced safety checks are acknowledged. Not reproduced: streaming,
``previous_response_id`` (which we do not use), limits on the size of pictures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.peers.model_servers.base import KEY, Act, ModelServer, check_functions, check_repeated, data_url, need


class OpenAIServer(ModelServer):
    """See :class:`tests.peers.model_servers.base.ModelServer`."""

    path = "/v1"
    tool = "computer"
    """The tool that requests must declare."""

    def authorised(self, headers: Mapping[str, str]) -> bool:
        return headers.get("authorization") == f"Bearer {KEY}"

    def route(self, path: str) -> str | None:
        return {"/v1/responses": "reply", "/v1/models": "models"}.get(path)

    def listed(self, name: str | None) -> dict[str, Any]:
        models = [{"id": m, "object": "model", "created": 1, "owned_by": "x"} for m in self.known_models]
        return {"object": "list", "data": models}

    def read(self, body: dict[str, Any], headers: Mapping[str, str]) -> list[bytes]:
        need(body["model"] == self.expected.model, f"the model is {body['model']}")
        need(body["max_output_tokens"] == self.expected.max_tokens, "max_output_tokens")
        need(body.get("temperature") == self.expected.temperature, f"temperature is {body.get('temperature')}")
        need(body["store"] is False and "previous_response_id" not in body, "nothing may be stored at the provider")
        need(body["include"] == ["reasoning.encrypted_content"], "reasoning must come back encrypted")
        need(body["instructions"].strip(), "the instructions are missing")
        width, height = self.expected.size
        preview = {"type": self.tool, "display_width": width, "display_height": height, "environment": "windows"}
        wanted = preview if self.tool == "computer_use_preview" else {"type": self.tool}
        need(body["tools"][0] == wanted, f"the tool is {body['tools'][0]}")
        need((body.get("truncation") == "auto") == (self.tool == "computer_use_preview"), "truncation")
        functions = body["tools"][1:]
        need(all(tool["type"] == "function" for tool in functions), "functions")
        check_functions({tool["name"]: tool["parameters"] for tool in functions}, self.expected.returns)
        return self._input(body["input"])

    def _input(self, items: list[dict[str, Any]]) -> list[bytes]:
        first = items[0]
        need(first["role"] == "user" and first["content"][0]["type"] == "input_text", "the task must come first")
        pictures = [data_url(part["image_url"]) for part in first["content"] if part["type"] == "input_image"]
        rest = items[1:]
        for sent in self._sent:
            repeated, rest = rest[: len(sent)], rest[len(sent) :]
            need(
                [_bare(item) for item in repeated] == [_bare(item) for item in sent], "a reply was changed or left out"
            )
            for item, original in zip(repeated, sent, strict=True):
                if original["type"] == "function_call":
                    check_repeated(item["arguments"], original["arguments"])
            for call in (item for item in sent if item["type"] in ("computer_call", "function_call")):
                need(rest and rest[0].get("call_id") == call["call_id"], "every call needs one output, in order")
                pictures += self._output(call, rest.pop(0))
            while rest and rest[0].get("role") == "user":
                need(all(part["type"] == "input_text" for part in rest.pop(0)["content"]), "notes are text")
        need(not rest, f"{len(rest)} items belong to nothing")
        return pictures

    def _output(self, call: dict[str, Any], output: dict[str, Any]) -> list[bytes]:
        if call["type"] == "function_call":
            need(
                output["type"] == "function_call_output" and isinstance(output["output"], str), "the function's output"
            )
            return []
        need(output["type"] == "computer_call_output", "the call's output")
        need(output["output"]["type"] == "computer_screenshot", "the output must be a screenshot")
        announced = [check["id"] for check in call["pending_safety_checks"]]
        acknowledged = [check["id"] for check in output.get("acknowledged_safety_checks", [])]
        need(acknowledged == announced, f"acknowledged {acknowledged} of {announced}")
        png = data_url(output["output"]["image_url"])
        # What stands for a picture that is no longer shown is small and of one colour.
        return [] if len(png) < 1000 else [png]

    def write(self, acts: list[Act]) -> dict[str, Any]:
        items: list[dict[str, Any]] = [
            {"type": "reasoning", "id": self.identity("rs"), "summary": [], "encrypted_content": "abc="}
        ]
        actions: list[dict[str, Any]] = []
        for one in acts:
            about = one.about
            match one.kind:
                case "say":
                    part = {"type": "output_text", "text": about["text"], "annotations": []}
                    items.append({
                        "type": "message", "id": self.identity("msg"), "role": "assistant", "status": "completed", "content": [part],
                    })  # fmt: skip
                case "extraction":
                    items.append(self._function("extraction", {"data": about["data"]}))
                case "mismatch":
                    items.append(self._function("ui_not_as_expected", {"reasoning": about["reasoning"]}))
                case "call":
                    items.append(self._function(about["name"], about["arguments"]))
                case _:
                    actions.append(self._action(one))
                    if one is acts[-1] or acts[acts.index(one) + 1].kind in ("say", "extraction", "mismatch", "call"):
                        items.append(self.computer_call(actions, about.get("safety", [])))
                        actions = []
        self._sent.append(items)
        return self.response(items)

    def response(self, items: list[dict[str, Any]], **about: Any) -> dict[str, Any]:
        """A whole response."""
        usage = {
            "input_tokens": 320, "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 20}, "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": 370,
        }  # fmt: skip
        return {
            "id": self.identity("resp"), "object": "response", "created_at": 1, "status": "completed", "model": self.expected.model,
            "output": items, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage, "error": None,
            "incomplete_details": None,
        } | about  # fmt: skip

    def computer_call(self, actions: list[dict[str, Any]], safety: list[dict[str, Any]]) -> dict[str, Any]:
        """One call of the tool."""
        call: dict[str, Any] = {
            "type": "computer_call", "id": self.identity("cu"), "call_id": self.identity("call"), "pending_safety_checks": safety,
            "status": "completed",
        }  # fmt: skip
        if self.tool == "computer_use_preview":
            need(len(actions) == 1, "the preview does one action per call")
            return call | {"action": actions[0]}
        return call | {"actions": actions}

    def _function(self, name: str, arguments: Any) -> dict[str, Any]:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        return {
            "type": "function_call", "id": self.identity("fc"), "call_id": self.identity("call"), "name": name, "arguments": text,
            "status": "completed",
        }  # fmt: skip

    def _action(self, one: Act) -> dict[str, Any]:
        about = one.about
        match one.kind:
            case "click":
                if about.get("count", 1) == 2:
                    return {"type": "double_click", "x": about["x"], "y": about["y"]}
                return {"type": "click", "button": about.get("button", "left"), "x": about["x"], "y": about["y"]}
            case "key":
                return {"type": "keypress", "keys": [part.upper() for part in about["keys"].split("+")]}
            case "type":
                return {"type": "type", "text": about["text"]}
            case "wait":
                return {"type": "wait"}
            case "screenshot":
                return {"type": "screenshot"}
        return {"type": one.kind} | {name: value for name, value in about.items() if name != "safety"}


def _bare(item: dict[str, Any]) -> dict[str, Any]:
    """An item without a function's arguments, which are compared by themselves."""
    return {
        name: value for name, value in item.items() if not (item["type"] == "function_call" and name == "arguments")
    }
