"""What can be set about a model and its loop: in the specification, or in a YAML file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictBool, StrictInt
from pydantic_core import PydanticCustomError

from contracts.load import ContractError, read_model
from contracts.schema import Duration, Model, Text
from runner.agents.base import AgentSpecError

ProviderName = Literal["anthropic", "openai", "gemini", "compatible"]
PROVIDERS: tuple[ProviderName, ...] = ("anthropic", "openai", "gemini", "compatible")

KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "compatible": ("LEGACYPROOF_MODEL_KEY",),
}
"""Environment variables that hold a provider's key; the first one that is set."""
URL_VARIABLES: Mapping[str, str] = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
    "compatible": "LEGACYPROOF_MODEL_URL",
}


def address_trouble(address: str) -> str:
    """What is wrong with an endpoint's address, ``""`` for nothing; the words repeat nothing of it, for it may hold a password."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:  # also brackets that are no IPv6 address
        return "its host or port is none; a port is a number up to 65535"
    if not address.isprintable() or " " in address:
        return "it holds a blank or a control character"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it must be like https://host/path or http://host:port/path"
    if port == 0:
        return "its port must not be 0"
    if "@" in address:  # wherever: a password may hold a slash
        return "it must hold no user and no password: the key stands in the environment, see `key_variable`"
    if "?" in address or "#" in address:
        return "it must end with its path, without `?` or `#`"
    return ""


def _is_address(address: str) -> str:
    if trouble := address_trouble(address):
        raise PydanticCustomError("address", "{why}", {"why": trouble})
    return address


class Settings(Model):
    """One model and how it is used. The defaults are those of the LegacyWorld paper, where it has any."""

    provider: ProviderName
    model: Text
    name: Text | None = None
    """What tables show; without it provider and model."""
    base_url: Annotated[Text, AfterValidator(_is_address)] | None = None
    """Another endpoint; without it the provider's environment variable, else the vendor's own. It holds no password and no key."""
    key_variable: Text | None = None
    """The environment variable that holds the key. The key itself never stands in a file."""
    temperature: Annotated[float, Field(ge=0, le=2)] | Literal["default"] = 0.0
    """``default``: none is sent, and the provider takes its own."""
    max_tokens: Annotated[StrictInt, Field(ge=64, le=200_000)] = 4096
    """The longest reply."""
    timeout: Duration = 900.0
    """The longest run; a contract's shorter limit wins."""
    turns: Annotated[StrictInt, Field(ge=1, le=2_000)] = 200
    """The most replies of a run."""
    images: Annotated[StrictInt, Field(ge=1, le=50)] = 3
    """How many screenshots a request holds; as legacy-use."""
    longest_edge: Annotated[StrictInt, Field(ge=256, le=4096)] = 1366
    """Larger screens are shown to the model scaled down to this."""
    tool: Text | None = None
    """The version of the vendor's computer tool, where it is not to follow from the model's name."""
    acknowledge: StrictBool = False
    """Confirm what a provider wants confirmed (safety checks), and go on; otherwise such a run ends as failed."""
    quiet: Duration = 0.3
    """The screen is looked at when it has not changed for so long …"""
    settle: Duration = 2.0
    """… or after so long at the latest."""
    request_timeout: Duration = 180.0
    retries: Annotated[StrictInt, Field(ge=0, le=20)] = 4
    """How often a request that got no reply is sent again."""
    retry_wait: Duration = 2.0
    """The wait before the first repetition; it doubles each time, up to a minute."""
    loop_after: Annotated[StrictInt, Field(ge=2, le=100)] = 3
    """So many equal actions on an unchanged screen are counted as a loop."""
    stop_at_loops: Annotated[StrictInt, Field(ge=0, le=1_000)] = 0
    """End the run as failed at this many loops; 0: never."""
    prices: Text | None = None
    """Another price table; the path is relative to this file."""

    @property
    def shown_name(self) -> str:
        """What tables show."""
        return self.name or f"{self.provider}/{self.model}"

    def key_variables(self) -> tuple[str, ...]:
        """Where the key may stand."""
        return (self.key_variable,) if self.key_variable else KEY_VARIABLES[self.provider]

    def key(self) -> str | None:
        """The key from the environment."""
        return next((value for name in self.key_variables() if (value := os.environ.get(name, "").strip())), None)

    def url(self) -> str | None:
        """The endpoint, where it is not the vendor's own."""
        return self.base_url or os.environ.get(URL_VARIABLES[self.provider], "").strip() or None

    def recorded(self) -> dict[str, float]:
        """The knobs, as the run's record keeps them."""
        knobs = {
            "max_tokens": float(self.max_tokens),
            "images_kept": float(self.images),
            "turn_limit": float(self.turns),
        }
        return knobs | ({} if self.temperature == "default" else {"temperature": float(self.temperature)})


def read_settings(argument: str) -> tuple[Settings, Path]:
    """The settings that ``provider/model`` or a YAML file's path stands for, and the folder that its paths are relative to.

    Raises:
        AgentSpecError: It is neither, or the file is not valid.
    """
    if argument.endswith((".yaml", ".yml")):
        path = Path(argument)
        try:
            return read_model(path, Settings), path.resolve().parent
        except ContractError as error:
            raise AgentSpecError(str(error)) from None
    provider, slash, model = argument.partition("/")
    if not slash or not model or provider not in PROVIDERS:
        raise AgentSpecError(
            f"say which model: computer-use:<{'|'.join(PROVIDERS)}>/<model>, or computer-use:<settings>.yaml; not {argument!r}"
        )
    return Settings.model_validate({"provider": provider, "model": model}), Path.cwd()
