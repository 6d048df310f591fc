"""API definitions: the prompt program that legacy-use keeps for a contract.

A definition's name holds the hash of its content. So two campaigns never disturb each other's, a repeated one finds its own, and
a definition under our name that has other content was changed by somebody. The server fills the prompt's parameters in by plain
replacement, looking again at what values contain; a prompt that this would garble is not handed over.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from contracts.parameters import as_text
from prompts.render import PromptError, fill
from runner.agents.base import AgentInfrastructureError, AgentTask
from runner.agents.legacyuse.client import Refusal, Server, ServerOut, id_in, objects, quoted

_TAKEN = frozenset({"error", "error_description", "extraction"})
"""Names of results that the server takes for something else: a result with an ``error`` fails the job."""
_WRAPPER = "value"
_COMPARED = ("prompt", "prompt_cleanup", "response_example")


@dataclass(frozen=True)
class Definition:
    """A definition, ready to be imported.

    Attributes:
        body: What the server is given.
        arguments: The parameters' values for a job: all of them, as texts; the server has no defaults of its own.
        wrapped: The values to return stand in an object under ``value``, because the server takes objects only, or would
            misunderstand one of their names.
        schema: JSON Schema of the values to return, if any are.
    """

    body: Mapping[str, Any]
    arguments: Mapping[str, str]
    wrapped: bool
    schema: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """The definition's name on the server."""
        return str(self.body["name"])

    def returned(self, result: Any) -> Any:
        """The values that a job's result stands for."""
        if self.wrapped and isinstance(result, dict) and _WRAPPER in result:
            return result[_WRAPPER]
        return result

    def lacking(self, result: Any) -> list[str]:
        """The required values that a result lacks: the server checks types, but no names."""
        return _lacking(self.schema, self.returned(result), "")


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a definition that jobs use."""

    id: str
    number: str


def definition_of(task: AgentTask, cleanup: str) -> Definition:
    """The definition for a task.

    Args:
        task: The task.
        cleanup: What the model does after it has returned its values.

    Raises:
        AgentInfrastructureError: The server's replacement of parameters would make another prompt of it.
    """
    values = {name: _text(value) for name, value in task.parameters.items()}
    prompt, used = _template(task, values, cleanup)
    example, wrapped = _example(task.response_example)
    content = {
        "description": f"legacyproof: {task.contract}",
        "parameters": [{"name": name, "type": "string", "description": name, "default": None} for name in sorted(used)],
        "prompt": prompt,
        "prompt_cleanup": cleanup,
        "response_example": example,
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    return Definition(
        {"name": f"legacyproof.{task.contract}.{digest[:16]}", **content}, used, wrapped, task.response_schema
    )


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else as_text(value)


def _template(task: AgentTask, values: Mapping[str, str], cleanup: str) -> tuple[str, dict[str, str]]:
    """The prompt as the server is given it, and the parameters that stand in it or in what is done afterwards."""
    # As a contract writes it, with doubled braces for braces, or laid out for this server, which cannot tell them apart.
    candidates = [task.prompt_template or task.prompt]
    with contextlib.suppress(PromptError):
        candidates.append(fill(task.prompt_template, {name: "{{" + name + "}}" for name in values}))
    for text in candidates:
        used = {name: value for name, value in values.items() if "{" + name + "}" in text + cleanup}
        if as_server_fills(text, used) == task.prompt:
            return text, used
    raise AgentInfrastructureError(
        "legacy-use cannot be given this prompt: its replacement of {name} and {{name}} would make another text of it; "
        "avoid braces around names, and the name `now`, in the prompt and in the parameters' values"
    )


def as_server_fills(text: str, values: Mapping[str, str]) -> str:
    """A prompt as the server makes it: one parameter after the other, ``{{name}}`` before ``{name}``, then ``now``."""
    for name, value in {**values, "now": "(the server's time)"}.items():
        text = text.replace("{{" + name + "}}", value).replace("{" + name + "}", value)
    return text


def _example(example: Any) -> tuple[dict[str, Any], bool]:
    if example is None:
        return {}, False
    if isinstance(example, Mapping) and not _TAKEN & example.keys():
        return dict(example), False
    return {_WRAPPER: example}, True


def _lacking(schema: Any, found: Any, where: str) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    required, properties = schema.get("required", []), schema.get("properties", {})
    if not isinstance(found, Mapping):
        return [where.rstrip(".") or "an object"] if required else []
    lacking = [f"{where}{name}" for name in required if name not in found]
    for name, inner in properties.items():
        if name in found:
            lacking += _lacking(inner, found[name], f"{where}{name}.")
    return lacking


class Definitions:
    """What has been imported in this campaign; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: dict[str, Version] = {}

    def ensure(self, server: Server, definition: Definition) -> Version:
        """The version that jobs of a definition use; imports the definition when it is needed first.

        Raises:
            AgentInfrastructureError: The server has something else under its name.
            Refusal: The server does not accept it.
            ServerOut: No usable answer.
        """
        with self._lock:
            if definition.name not in self._versions:
                self._versions[definition.name] = _imported(server, definition)
            return self._versions[definition.name]

    def forget(self, definition: Definition) -> None:
        """Has a definition imported anew next time, because the server does not know it any more."""
        with self._lock:
            self._versions.pop(definition.name, None)


def _imported(server: Server, definition: Definition) -> Version:
    if (there := _active(server, definition)) is not None:
        return there
    lost: ServerOut | None = None
    try:
        server.post("api/definitions/import", {"api_definition": dict(definition.body)})
    except ServerOut as error:  # it may have been imported all the same
        lost = error
    if (there := _active(server, definition)) is not None:
        return there
    if lost is not None:
        raise lost
    raise AgentInfrastructureError(f"the server does not have the definition {definition.name} as it was imported")


def is_version_of(server: Server, definition: Definition, version: str) -> bool:
    """Whether a version has the definition's content; another campaign may have imported the same at the same time.

    Raises:
        Refusal: The server does not know the definition.
        ServerOut: No usable answer.
    """
    return any(known.get("id") == version and _same(known, definition) for known in _versions(server, definition))


def _active(server: Server, definition: Definition) -> Version | None:
    """The active version, if the server has the definition and its active version is ours."""
    path = f"api/definitions/{quoted(definition.name)}"
    try:
        about = server.get(f"{path}/metadata")
        if isinstance(about, dict) and about.get("is_archived"):  # an import would leave it archived
            server.post(f"{path}/unarchive")
        known = _versions(server, definition)
    except Refusal as refusal:
        if refusal.status == 404:
            return None
        raise
    active = next((version for version in known if version.get("is_active") is True), None)
    if active is None or not _same(active, definition):
        return None
    return Version(id_in(active), str(active.get("version_number", "?"))[:20])


def _versions(server: Server, definition: Definition) -> list[dict[str, Any]]:
    answer = server.get(f"api/definitions/{quoted(definition.name)}/versions")
    return objects(answer.get("versions") if isinstance(answer, dict) else None)


def _same(version: dict[str, Any], definition: Definition) -> bool:
    return all(version.get(name) == definition.body[name] for name in _COMPARED)
