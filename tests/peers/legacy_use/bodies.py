"""What the server takes: the bodies of its requests, checked as the real one checks them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, StrictStr

TargetType = Literal[
    "rdp", "vnc", "teamviewer", "vnc+tailscale", "vnc+wireguard", "rdp_wireguard", "rdp+tailscale", "rdp+openvpn"
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class TargetCreate(_Body):
    name: str
    type: TargetType
    host: str
    password: str
    username: str | None = None
    port: int | None = None
    vpn_config: str | None = None
    vpn_username: str | None = None
    vpn_password: str | None = None
    width: int = 1024
    height: int = 768
    rdp_params: str | None = None


class SessionCreate(_Body):
    name: str
    target_id: str
    description: str | None = None


class JobCreate(_Body):
    api_name: str
    parameters: dict[StrictStr, StrictStr | list[Any]] = {}


class Parameter(_Body):
    name: str
    type: str
    description: str
    default: str | list[Any] | None = None


class Definition(_Body):
    name: str
    description: str
    parameters: list[Parameter]
    prompt: str
    prompt_cleanup: str
    response_example: dict[str, Any]


class Import(_Body):
    api_definition: Definition


class ProviderUpdate(_Body):
    provider: str
    credentials: dict[str, str]
