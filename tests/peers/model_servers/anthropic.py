"""Anthropic's Messages API with the computer tool, as its documentation has it: the toolset and the two older versions.

Beside what ``base.py`` says it checks that the beta header stands where it must and nowhere else, that results of the toolset name it,
that results marked as errors hold text only, that no thinking is sent back after a picture before it was taken out (newer models refuse
it), and that sizes are declared for the older tools only. Not reproduced: streaming, rate-limit headers beside ``retry-after``, images
that are too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.peers.model_servers.base import KEY, Act, ModelServer, check_functions, decoded, need

TOOLSET = "computer_toolset_20260801"
BETAS = {"computer_20251124": "computer-use-2025-11-24", "computer_20250124": "computer-use-2025-01-24"}
_CLICK = {
    ("left", 1): "left_click",
    ("left", 2): "double_click",
    ("left", 3): "triple_click",
    ("right", 1): "right_click",
}


class AnthropicServer(ModelServer):
    """See :class:`tests.peers.model_servers.base.ModelServer`."""

    version = TOOLSET
    """The version of the tool that requests must use."""

    thinks = True
    """Whether replies hold a thinking block with a signature."""

    def authorised(self, headers: Mapping[str, str]) -> bool:
        # SDKs before 2 send the key as x-api-key, later ones as a bearer token; the service takes both.
        return headers.get("x-api-key") == KEY or headers.get("authorization") == f"Bearer {KEY}"

    def route(self, path: str) -> str | None:
        path, _, _ = path.partition("?")  # the beta namespace of SDKs before 2 says so in the query
        if path == "/v1/messages":
            return "reply"
        return f"model:{path.removeprefix('/v1/models/')}" if path.startswith("/v1/models/") else None

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kind.get(status, "api_error"), "message": message}}

    def listed(self, name: str | None) -> dict[str, Any]:
        return {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}

    def read(self, body: dict[str, Any], headers: Mapping[str, str]) -> list[bytes]:
        version = headers.get("anthropic-version")
        # 2026-10-21 refuses a temperature, whatever the model.
        need(
            version in (("2023-06-01",) if "temperature" in body else ("2023-06-01", "2026-10-21")),
            f"version {version}",
        )
        need(
            headers.get("anthropic-beta") == BETAS.get(self.version),
            f"anthropic-beta is {headers.get('anthropic-beta')}",
        )
        need(body["model"] == self.expected.model, f"the model is {body['model']}")
        need(body["max_tokens"] == self.expected.max_tokens, "max_tokens")
        need(body.get("temperature") == self.expected.temperature, f"temperature is {body.get('temperature')}")
        need(body["system"][0]["text"].strip(), "the system text is missing")
        self._tools(body["tools"])
        return self._messages(body["messages"])

    def _tools(self, tools: list[dict[str, Any]]) -> None:
        computer = tools[0]
        width, height = self.expected.size
        if self.version == TOOLSET:
            need(computer == {"type": TOOLSET, "configs": {"zoom": {"enabled": False}}}, f"the toolset is {computer}")
        else:
            wanted = {"type": self.version, "name": "computer", "display_width_px": width, "display_height_px": height}
            need(computer == wanted, f"the tool is {computer}")
        check_functions({tool["name"]: tool["input_schema"] for tool in tools[1:]}, self.expected.returns)

    def _messages(self, messages: list[dict[str, Any]]) -> list[bytes]:
        pictures: list[bytes] = []
        first = messages[0]["content"]
        need(messages[0]["role"] == "user" and first[0]["type"] == "text", "the task must come first")
        gone = first[1]["type"] != "image"
        pictures += self._images(first[1:])
        replies = messages[1::2]
        need(len(messages) == 1 + 2 * len(replies), "the conversation must end with the user")
        need(len(replies) == len(self._sent), "a reply was left out of the conversation")
        for reply, answer, sent in zip(replies, messages[2::2], self._sent, strict=True):
            need((reply["role"], answer["role"]) == ("assistant", "user"), "roles must alternate")
            thinking = [] if gone else [block for block in sent if block["type"] == "thinking"]
            wanted = thinking + [block for block in sent if block["type"] != "thinking"]
            need(reply["content"] == wanted, "a reply was changed")
            gone = gone or self._results(sent, answer["content"])
            pictures += self._images(answer["content"])
        return pictures

    def _results(self, sent: list[dict[str, Any]], content: list[dict[str, Any]]) -> bool:
        calls = [block for block in sent if block["type"] == "tool_use"]
        results = [block for block in content if block["type"] == "tool_result"]
        need(
            [call["id"] for call in calls] == [r["tool_use_id"] for r in results],
            "every call needs one result, in order",
        )
        need(content[: len(results)] == results, "results must come before anything else")
        gone = False
        for call, result in zip(calls, results, strict=True):
            need(result.get("toolset_name") == call.get("toolset_name"), "the result must name the call's toolset")
            kinds = {part["type"] for part in result["content"]}
            need(not result.get("is_error") or kinds == {"text"}, "a result marked as an error may hold text only")
            gone = gone or any("earlier screenshot" in part.get("text", "") for part in result["content"])
        return gone

    def _images(self, content: list[dict[str, Any]]) -> list[bytes]:
        found = []
        for block in content:
            for part in block["content"] if block["type"] == "tool_result" else [block]:
                if part["type"] == "image":
                    need(
                        part["source"]["type"] == "base64" and part["source"]["media_type"] == "image/png",
                        "image source",
                    )
                    found.append(decoded(part["source"]["data"]))
        return found

    def write(self, acts: list[Act]) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if self.thinks:
            content.append({"type": "thinking", "thinking": "", "signature": self.identity("sig")})
        for one in acts:
            content.append(self._block(one))
        self._sent.append(content)
        stop = "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
        return self.message(content, stop)

    def message(self, content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
        """A whole message."""
        usage = {
            "input_tokens": 100, "output_tokens": 50, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 200,
        }  # fmt: skip
        return {
            "id": self.identity("msg"), "type": "message", "role": "assistant", "model": self.expected.model, "content": content,
            "stop_reason": stop, "stop_sequence": None, "usage": usage,
        }  # fmt: skip

    def _block(self, one: Act) -> dict[str, Any]:
        about = one.about
        match one.kind:
            case "say":
                return {"type": "text", "text": about["text"]}
            case "extraction":
                return self._use("extraction", {"data": about["data"]})
            case "mismatch":
                return self._use("ui_not_as_expected", {"reasoning": about["reasoning"]})
            case "click":
                name = _CLICK[about.get("button", "left"), about.get("count", 1)]
                return self._action(name, {"coordinate": [about["x"], about["y"]]})
            case "key":
                return self._action("key", {"text": about["keys"]})
            case "type":
                return self._action("type", {"text": about["text"]})
            case "wait":
                return self._action("wait", {"duration": about.get("seconds", 1)})
            case "screenshot":
                return self._action("screenshot", {})
            case "call":
                return self._use(about["name"], about["arguments"])
        return self._action(one.kind, dict(about))

    def _action(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if self.version == TOOLSET:
            return self._use(name, arguments) | {"toolset_name": "computer"}
        return self._use("computer", {"action": name} | arguments)

    def _use(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"type": "tool_use", "id": self.identity("toolu"), "name": name, "input": arguments}
