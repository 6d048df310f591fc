"""Google's Gemini API with the computer-use tool, as its documentation has it: the desktop environment and the older browser one.

Beside what ``base.py`` says it checks that thought signatures come back, that the browser environment excludes what a desktop has not and
gets an address with each result, and that confirmations answer only calls that asked for one. Not reproduced: streaming, the
Interactions API, safety policies.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from tests.peers.model_servers.base import KEY, Act, ModelServer, check_functions, decoded, need

_CLICK = {("left", 1): "click", ("left", 2): "double_click", ("left", 3): "triple_click", ("right", 1): "right_click"}


class GeminiServer(ModelServer):
    """See :class:`tests.peers.model_servers.base.ModelServer`."""

    environment = "DESKTOP"

    def authorised(self, headers: Mapping[str, str]) -> bool:
        return headers.get("x-goog-api-key") == KEY

    def route(self, path: str) -> str | None:
        if path == f"/v1beta/models/{self.expected.model}:generateContent":
            return "reply"
        return f"model:{path.removeprefix('/v1beta/models/')}" if path.startswith("/v1beta/models/") else None

    def error(self, status: int, message: str) -> dict[str, Any]:
        kind = {
            400: "INVALID_ARGUMENT",
            401: "UNAUTHENTICATED",
            404: "NOT_FOUND",
            429: "RESOURCE_EXHAUSTED",
            503: "UNAVAILABLE",
        }
        return {"error": {"code": status, "message": message, "status": kind.get(status, "INTERNAL")}}

    def listed(self, name: str | None) -> dict[str, Any]:
        return {"name": f"models/{name}", "displayName": name}

    def read(self, body: dict[str, Any], headers: Mapping[str, str]) -> list[bytes]:
        body = _camel(body)
        config = body["generationConfig"]
        need(config.get("temperature") == self.expected.temperature, f"temperature is {config.get('temperature')}")
        need(config["maxOutputTokens"] == self.expected.max_tokens, "maxOutputTokens")
        need(body["systemInstruction"]["parts"][0]["text"].strip(), "the system instruction is missing")
        computer = body["tools"][0]["computerUse"]
        need(
            computer["environment"] == f"ENVIRONMENT_{self.environment}",
            f"the environment is {computer['environment']}",
        )
        excluded = set(computer.get("excludedPredefinedFunctions", []))
        browser = (
            {"open_web_browser", "navigate", "search", "go_back", "go_forward"}
            if self.environment == "BROWSER"
            else set()
        )
        need(excluded == browser, f"excluded are {sorted(excluded)}")
        declared = {f["name"]: f["parametersJsonSchema"] for f in body["tools"][1]["functionDeclarations"]}
        check_functions(declared, self.expected.returns)
        return self._contents(body["contents"])

    def _contents(self, contents: list[dict[str, Any]]) -> list[bytes]:
        first = contents[0]
        need(first["role"] == "user" and "text" in first["parts"][0], "the task must come first")
        pictures = [self._blob(part["inlineData"]) for part in first["parts"] if "inlineData" in part]
        need(len(contents) == 1 + 2 * len(self._sent), "a reply was left out of the conversation")
        for reply, answer, sent in zip(contents[1::2], contents[2::2], self._sent, strict=True):
            need(_plain(reply) == _plain(sent), "a reply was changed")
            need(answer["role"] == "user", "results come from the user")
            calls = [part["functionCall"] for part in sent["parts"] if "functionCall" in part]
            results = [part["functionResponse"] for part in answer["parts"] if "functionResponse" in part]
            need(
                [(c["id"], c["name"]) for c in calls] == [(r["id"], r["name"]) for r in results],
                "each call needs its result",
            )
            for call, result in zip(calls, results, strict=True):
                pictures += self._result(call, result)
        return pictures

    def _result(self, call: dict[str, Any], result: dict[str, Any]) -> list[bytes]:
        said = result["response"]
        need(("output" in said) != ("error" in said), "a result is an output or an error")
        own = call["name"] in ("extraction", "ui_not_as_expected")
        need(own or self.environment == "DESKTOP" or "url" in said, "the browser environment needs an address")
        asked = call["args"].get("safety_decision", {}).get("decision") == "require_confirmation"
        need((said.get("safety_acknowledgement") is True) == asked, "confirmations answer what asked for one")
        return [self._blob(part["inlineData"]) for part in result.get("parts", [])]

    def _blob(self, blob: dict[str, Any]) -> bytes:
        need(blob["mimeType"] == "image/png", "a picture must be image/png")
        return decoded(_standard(blob["data"]))

    def write(self, acts: list[Act]) -> dict[str, Any]:
        parts = [self._part(one) for one in acts]
        parts[0]["thoughtSignature"] = base64.b64encode(self.identity("sig").encode()).decode()
        content = {"role": "model", "parts": parts}
        self._sent.append(content)
        return self.response(content)

    def response(self, content: dict[str, Any] | None, reason: str = "STOP") -> dict[str, Any]:
        """A whole response."""
        candidate: dict[str, Any] = {"finishReason": reason, "index": 0} | ({"content": content} if content else {})
        usage = {
            "promptTokenCount": 320, "cachedContentTokenCount": 200, "candidatesTokenCount": 20, "thoughtsTokenCount": 30,
            "totalTokenCount": 370,
        }  # fmt: skip
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.expected.model}

    def _part(self, one: Act) -> dict[str, Any]:
        about = one.about
        match one.kind:
            case "say":
                return {"text": about["text"]}
            case "extraction":
                return self._call("extraction", {"data": about["data"]})
            case "mismatch":
                return self._call("ui_not_as_expected", {"reasoning": about["reasoning"]})
            case "click":
                name = _CLICK[about.get("button", "left"), about.get("count", 1)]
                if self.environment == "BROWSER" and name == "click":
                    name = "click_at"
                return self._call(
                    name, {"x": self._grid(about["x"], 0), "y": self._grid(about["y"], 1)} | _safety(about)
                )
            case "key":
                keys: Any = about["keys"]
                if self.environment == "BROWSER":
                    return self._call("key_combination", {"keys": keys})
                return (
                    self._call("hotkey", {"keys": keys.split("+")})
                    if "+" in keys
                    else self._call("press_key", {"key": keys})
                )
            case "type":
                return self._call("type", {"text": about["text"], "press_enter": False})
            case "wait":
                return self._call("wait", {"seconds": about.get("seconds", 1)})
            case "screenshot":
                return self._call("take_screenshot", {})
            case "call":
                return self._call(about["name"], about["arguments"])
        return self._call(one.kind, dict(about))

    def _grid(self, pixel: int, axis: int) -> int:
        return int((pixel + 0.5) * 1000 / self.expected.size[axis])

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"functionCall": {"id": self.identity("fc"), "name": name, "args": arguments}}


_OPAQUE = ("args", "response", "parametersJsonSchema")


def _camel(value: Any) -> Any:
    """The body with all its own names in one spelling: protocol buffers in JSON take both, and the SDK mixes them."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"_([a-z])", lambda match: match[1].upper(), name): item for name, item in value.items()}
    return {name: item if name in _OPAQUE else _camel(item) for name, item in named.items()}


def _plain(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a reply with their signatures in one alphabet."""
    return [
        part | ({"thoughtSignature": _standard(part["thoughtSignature"])} if "thoughtSignature" in part else {})
        for part in content["parts"]
    ]


def _standard(text: str) -> str:
    """Base64 in the alphabet for URLs, which the SDK uses, in the usual one."""
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    return text + "=" * (-len(text) % 4)


def _safety(about: Mapping[str, Any]) -> dict[str, Any]:
    return {"safety_decision": about["safety_decision"]} if "safety_decision" in about else {}
