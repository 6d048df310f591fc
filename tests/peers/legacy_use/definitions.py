"""What the server answers about API definitions and model providers."""

from __future__ import annotations

import uuid
from typing import Any

from tests.peers.legacy_use.bodies import Import, ProviderUpdate
from tests.peers.legacy_use.rows import now, query_flag
from tests.peers.legacy_use.targets import Answer
from tests.peers.legacy_use.workers import Workers

_AWS = ("access_key_id", "secret_access_key", "region")
PROVIDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "anthropic": ("claude-sonnet-4-20250514", ("api_key",)),
    "bedrock": ("eu.anthropic.claude-sonnet-4-20250514-v1:0", _AWS),
    "vertex": ("claude-sonnet-4@20250514", ("project_id", "region")),
    "legacyuse": ("legacy-use-sonnet-4", ("proxy_api_key",)),
    "openai": ("gpt-5", ("api_key",)),
    "opencua": ("opencua-7b-1755605386", _AWS),
}
"""For each its model and the names of its credentials."""


class Definitions(Workers):
    """The paths below ``api/definitions`` and ``settings/``."""

    def _import(self, query: dict[str, str], body: Any) -> Answer:
        given = Import.model_validate(body).api_definition
        known = self.definitions.get(given.name)
        message = f"Created new API '{given.name}'"
        if known is None:
            known = self.definitions[given.name] = {
                "id": str(uuid.uuid4()), "name": given.name, "description": given.description, "is_archived": False,
                "created_at": now(), "updated_at": now(), "versions": [],
            }  # fmt: skip
        else:  # an archived one stays archived
            message = f"Updated existing API '{given.name}' with new version {len(known['versions']) + 1}"
        for version in known["versions"]:
            version["is_active"] = False
        content = given.model_dump(include={"parameters", "prompt", "prompt_cleanup", "response_example"})
        known["versions"].append(
            {"id": str(uuid.uuid4()), "version_number": str(len(known["versions"]) + 1), **content, "created_at": now(),
             "is_active": True}
        )  # fmt: skip
        return 200, {"status": "success", "message": message, "name": given.name}

    def _list_definitions(self, query: dict[str, str], body: Any) -> Answer:
        everything = query_flag(query, "include_archived")
        return 200, [_about(known) for known in self.definitions.values() if everything or not known["is_archived"]]

    def _get_definition(self, query: dict[str, str], body: Any, name: str) -> Answer:
        known = self.definitions.get(name)
        return _unknown(name) if known is None or known["is_archived"] else (200, _about(known))

    def _metadata(self, query: dict[str, str], body: Any, name: str) -> Answer:
        known = self.definitions.get(name)
        if known is None:
            return _unknown(name)
        return 200, {key: value for key, value in known.items() if key != "versions"}

    def _versions(self, query: dict[str, str], body: Any, name: str) -> Answer:
        known = self.definitions.get(name)
        return _unknown(name) if known is None else (200, {"versions": list(reversed(known["versions"]))})

    def _archive_definition(self, query: dict[str, str], body: Any, name: str) -> Answer:
        self.definitions[name]["is_archived"] = True
        return 200, {"status": "success", "message": "archived"}

    def _unarchive_definition(self, query: dict[str, str], body: Any, name: str) -> Answer:
        self.definitions[name]["is_archived"] = False
        return 200, {"status": "success", "message": "unarchived"}

    def _providers(self, query: dict[str, str], body: Any) -> Answer:
        return 200, {"current_provider": self.behaviour.provider, "providers": [
            {"provider": name, "name": name.title(), "default_model": model, "available": name in self.provider_credentials,
             "description": "", "credentials": dict.fromkeys(self.provider_credentials.get(name, {}), "****6789")}
            for name, (model, _) in PROVIDERS.items()
        ]}  # fmt: skip

    def _set_provider(self, query: dict[str, str], body: Any) -> Answer:
        given = ProviderUpdate.model_validate(body)
        if given.provider not in PROVIDERS or not {*PROVIDERS[given.provider][1]} <= given.credentials.keys():
            return 400, {"detail": "unknown provider or missing credential"}
        self.provider_credentials[given.provider] = given.credentials
        self.behaviour.provider = given.provider
        return 200, {"status": "success", "message": f"{given.provider} is active"}

    DEFINITION_ROUTES = (
        ("POST", "api/definitions/import", _import),
        ("GET", "api/definitions", _list_definitions),
        ("GET", "api/definitions/([^/]+)", _get_definition),
        ("GET", "api/definitions/([^/]+)/metadata", _metadata),
        ("GET", "api/definitions/([^/]+)/versions", _versions),
        ("DELETE", "api/definitions/([^/]+)", _archive_definition),
        ("POST", "api/definitions/([^/]+)/unarchive", _unarchive_definition),
        ("GET", "settings/providers", _providers),
        ("POST", "settings/providers", _set_provider),
    )


def _unknown(name: str) -> Answer:
    return 404, {"detail": f"API definition '{name}' not found"}


def _about(known: dict[str, Any]) -> dict[str, Any]:
    active = next(version for version in known["versions"] if version["is_active"])
    about = {name: active[name] for name in ("parameters", "response_example")}
    return {**{name: known[name] for name in ("name", "description", "is_archived")}, **about, "response_schema": {}}
