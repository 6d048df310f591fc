"""How to reach a legacy-use server and how long to wait for it: a YAML file, environment variables, defaults.

What the file says counts; an environment variable stands in for what it leaves out. Secrets stand in neither: the file names an
environment variable or another file that holds them.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictInt, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from contracts.load import ContractError, read_model
from contracts.schema import Duration, Model, Text
from runner.agents.base import AgentSpecError

WIDTH, HEIGHT = 1024, 768
"""The only size at which legacy-use's clicks hit: its models are always told this one."""

_MAX_SECRET = 16_384
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_PROVIDERS = Literal["anthropic", "bedrock", "vertex", "legacyuse", "openai", "opencua"]
_ENVIRONMENT = {
    "url": "LEGACY_USE_URL",
    "prefix": "LEGACY_USE_PREFIX",
    "tenant": "LEGACY_USE_TENANT",
    "ca_file": "LEGACY_USE_CA_FILE",
}
_ENVIRONMENT_OF_DISPLAY = {"listen": "LEGACY_USE_LISTEN", "host": "LEGACY_USE_DISPLAY_HOST"}


def _refused(message: str) -> PydanticCustomError:
    return PydanticCustomError("legacy_use", "{message}", {"message": message})


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        raise _refused("this is no URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise _refused("a URL such as `http://127.0.0.1:8088` is needed")
    if parts.username is not None or parts.password is not None:
        raise _refused("no user or password stands in the URL; the key goes into `api_key`")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise _refused("nothing follows the port; what comes before all paths is `prefix`")
    return value.rstrip("/")


def _prefix(value: str) -> str:
    stripped = value.strip("/")
    if stripped and not re.fullmatch(r"[A-Za-z0-9._~/-]{1,200}", stripped):
        raise _refused("a path such as `/api` is needed")
    return f"/{stripped}" if stripped else ""


def _host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise _refused("a host's name or address is needed, without port")
    return value


def _address(value: str) -> str:
    try:
        return str(ipaddress.IPv4Address(value))
    except ValueError:
        raise _refused("an IPv4 address of this host is needed, such as `172.17.0.1`") from None


class SecretRef(Model):
    """Where a secret is found; never the secret itself."""

    env: Text | None = None
    """Name of an environment variable."""
    file: Text | None = None
    """A file that holds nothing else; relative to the configuration file."""

    @model_validator(mode="before")
    @classmethod
    def _no_text(cls, value: Any) -> Any:
        if isinstance(value, str):  # it may be the secret, which a message must not repeat
            raise _refused("the secret itself does not stand here, only where it is: `{env: NAME}` or `{file: PATH}`")
        return value

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.env is None) == (self.file is None):
            raise _refused("a secret is given as `{env: NAME}` or `{file: PATH}`")
        return self


class ProviderSettings(Model):
    """Which model provider the server has to use."""

    name: _PROVIDERS
    credentials: dict[Text, SecretRef] = Field(default_factory=dict)
    """Given to the server once per campaign; left out: the server's own are used, and the provider must be active there."""


class DisplaySettings(Model):
    """Where the flight recorder listens, and where legacy-use's session container finds it."""

    listen: Annotated[str, AfterValidator(_address)] = "127.0.0.1"
    host: Annotated[str, AfterValidator(_host)] | None = None
    """The name or address that leads to it from inside the container; ``listen`` unless given."""
    port: Annotated[StrictInt, Field(ge=0, le=65535)] = 0
    """0: any free one. A fixed one allows one machine at a time."""


class Gateway(Model):
    """Something that takes RDP and passes it on to the flight recorder by VNC, with the password that it is given."""

    host: Annotated[str, AfterValidator(_host)]
    port: Annotated[StrictInt, Field(ge=1, le=65535)] = 3389
    username: Text = "legacyproof"


class TargetSettings(Model):
    """How legacy-use connects."""

    type: Literal["vnc", "rdp"] = "vnc"
    gateway: Gateway | None = None

    @model_validator(mode="after")
    def _gateway_for_rdp(self) -> Self:
        if (self.type == "rdp") != (self.gateway is not None):
            raise _refused("the flight recorder speaks VNC: `type: rdp` needs a `gateway`, and only that has one")
        return self


class Limits(Model):
    """How long things may take."""

    health: Duration = 120.0
    """From the session's creation until its container is connected to the display."""
    queue: Duration = 60.0
    """From the job's creation until a worker begins with it."""
    stop: Duration = 20.0
    """From the interrupt until the job has really stopped."""
    reserve: Duration = 30.0
    """What is kept of the contract's time for stopping the job, reading its account and tidying up; at most a quarter."""
    outage: Duration = 30.0
    """How long the server may be out of reach while a job runs, and what may have been created without an answer is looked for."""
    answer: Duration = 60.0
    """For one answer of the server."""
    poll: Duration = 1.0
    """Between two looks at the job."""


class Settings(Model):
    """The configuration file."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    url: Annotated[str, AfterValidator(_url)] = "http://127.0.0.1:8088"
    prefix: Annotated[str, AfterValidator(_prefix)] = "/api"
    """The server's ``API_SLUG_PREFIX``."""
    tenant: Annotated[str, AfterValidator(_host)] = "tenant-default.local.legacy-use.com"
    """The host by which the server tells tenants apart."""
    ca_file: Text | None = None
    """Certificates to trust, for a server with one of its own."""
    api_key: SecretRef = SecretRef(env="LEGACY_USE_API_KEY")
    provider: ProviderSettings | None = None
    display: DisplaySettings = DisplaySettings()
    target: TargetSettings = TargetSettings()
    prompt_cleanup: str = Field(default="", max_length=20_000)
    """What the model is told to do after it has returned its values."""
    history: Literal["keep", "erase"] = "keep"
    """Whether targets are archived with their jobs, or erased with them, when a run is over."""
    limits: Limits = Limits()


@dataclass(frozen=True)
class Configuration:
    """Settings with their secrets.

    Attributes:
        label: What tells this configuration from others in tables; may be empty.
        settings: What the file and the environment say.
        api_key: The tenant's key.
        credentials: The provider's, by name; empty: the server's own.
        trust: The certificates to trust; ``None``: the usual ones.
    """

    label: str
    settings: Settings
    api_key: str = field(repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: ssl.SSLContext | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be stored anywhere."""
        return (self.api_key, *self.credentials.values())

    @property
    def display_host(self) -> str:
        """Where the session container finds the flight recorder."""
        display = self.settings.display
        return display.host or display.listen


def load(argument: str, environment: Mapping[str, str] | None = None) -> Configuration:
    """Reads the configuration.

    Args:
        argument: A YAML file, or empty: environment and defaults only.
        environment: Instead of the process's.

    Raises:
        AgentSpecError: It cannot be used: what, where, and what to do.
    """
    variables = os.environ if environment is None else environment
    path = Path(argument) if argument else None
    try:
        given = Settings() if path is None else read_model(path, Settings)
    except ContractError as error:
        raise AgentSpecError(str(error)) from None
    settings = _completed(given, variables)
    if settings.display.listen == "0.0.0.0" and settings.display.host is None:  # noqa: S104 - it is what is asked about
        raise AgentSpecError(
            "legacy-use: `display.listen` is 0.0.0.0, which is no address to connect to; say in `display.host` "
            "(or LEGACY_USE_DISPLAY_HOST) where the session container finds this host, e.g. host.docker.internal"
        )
    if settings.target.type == "rdp" and settings.display.port == 0:
        raise AgentSpecError("legacy-use: a gateway must know where the recorder listens; give `display.port` a number")
    folder = path.parent if path is not None else Path.cwd()
    provider = settings.provider
    return Configuration(
        label=path.stem if path is not None and path.stem != "legacy-use" else "",
        settings=settings,
        api_key=_secret(settings.api_key, "api_key", folder, variables, header=True),
        credentials={
            name: _secret(reference, f"provider.credentials.{name}", folder, variables)
            for name, reference in (provider.credentials if provider else {}).items()
        },
        trust=_trust(folder / settings.ca_file) if settings.ca_file is not None else None,
    )


def _trust(file: Path) -> ssl.SSLContext:
    if not file.is_file():
        raise AgentSpecError(f"legacy-use: `ca_file`: there is no file {file}")
    try:
        return ssl.create_default_context(cafile=str(file))
    except OSError as error:  # what is no certificate is an ssl.SSLError, which is one
        why = getattr(error, "strerror", None) or str(error)
        raise AgentSpecError(f"legacy-use: `ca_file`: {file} holds no certificates in PEM form: {why}") from None


def _completed(given: Settings, variables: Mapping[str, str]) -> Settings:
    """The settings with environment variables where the file says nothing."""
    data = given.model_dump(exclude_unset=True)
    used = []
    places = (
        (_ENVIRONMENT, given, data),
        (_ENVIRONMENT_OF_DISPLAY, given.display, data.setdefault("display", {})),
    )
    for names, model, into in places:
        for name, variable in names.items():
            if name not in model.model_fields_set and variables.get(variable):
                into[name] = variables[variable]
                used.append(variable)
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][-1])
        variable = {**_ENVIRONMENT, **_ENVIRONMENT_OF_DISPLAY}.get(name, ", ".join(used))
        raise AgentSpecError(f"legacy-use: the environment variable {variable}: {first['msg']}") from None


def _secret(
    reference: SecretRef, where: str, folder: Path, variables: Mapping[str, str], *, header: bool = False
) -> str:
    if reference.env is not None:
        secret, source = variables.get(reference.env, ""), f"the environment variable {reference.env}"
        if not secret:
            raise AgentSpecError(
                f"legacy-use: `{where}`: {source} is not set; set it, or name another place of the secret"
            )
    else:
        path = folder / (reference.file or "")
        source = f"the file {path}"
        try:
            with path.open("rb") as file:
                secret = file.read(_MAX_SECRET + 1).decode().strip()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is no UTF-8 text"
            raise AgentSpecError(f"legacy-use: `{where}`: {source} cannot be read: {why}") from None
    if not secret or len(secret) > _MAX_SECRET:
        raise AgentSpecError(f"legacy-use: `{where}`: {source} is empty or holds more than a secret")
    if header and not re.fullmatch(r"[\x21-\x7e]+", secret):
        raise AgentSpecError(f"legacy-use: `{where}`: {source} holds characters that a key does not have")
    return secret
