"""What the loop knows of a provider: it is asked with a history and replies; its troubles have kinds."""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, Protocol

from runner.agents.base import AgentSpecError
from runner.agents.computeruse.history import History, Reply
from runner.agents.computeruse.scrub import scrubbed
from runner.agents.computeruse.settings import URL_VARIABLES, Settings, address_trouble

TroubleKind = Literal["unavailable", "rate", "quota", "auth", "model", "setting", "limit", "refused", "request"]

EXTRAS: Mapping[str, tuple[str, str]] = {
    "anthropic": ("anthropic", "anthropic"),
    "openai": ("openai", "openai"),
    "gemini": ("google.genai", "gemini"),
    "compatible": ("openai", "openai"),
}
"""For each provider the module of its SDK and the extra that installs it."""


class ProviderTrouble(Exception):
    """A request that got no reply.

    Attributes:
        kind: ``unavailable`` (5xx, no connection, too slow) and ``rate`` may pass when the request is sent again; ``quota``: the account
            is out of money or quota; ``auth``: the key is wrong; ``model``: there is no such model for this account; ``setting``: the
            model does not take the setting named in :attr:`setting`; ``limit``: the conversation is too long for the model; ``refused``:
            the provider declines the content; ``request``: it does not understand the request.
        wait: Seconds after which the provider wants to be asked again, if it says so.
        setting: The name of the setting.
        slow: The provider was reached, and had not answered when our own patience was over.
    """

    def __init__(
        self, kind: TroubleKind, message: str, *, wait: float | None = None, setting: str = "", slow: bool = False
    ) -> None:
        super().__init__(message)
        self.slow = slow
        self.kind: TroubleKind = kind
        self.wait = wait
        self.setting = setting


@dataclass(frozen=True)
class Asking:
    """What stays the same during a run.

    Attributes:
        settings: The model and its knobs.
        response_schema: JSON Schema of what the contract wants returned.
    """

    settings: Settings
    response_schema: Mapping[str, Any] | None


class Session(Protocol):
    """One run's connection to a provider. It keeps no conversation: every request holds the whole history."""

    grid: int | None
    """What the model counts places in; see :class:`runner.agents.computeruse.view.View`."""

    picture_on_errors: bool
    """Whether the result of a failed call may hold a picture."""

    about: str
    """The tool's version and the like, for the account of the run."""

    def ask(self, history: History, *, timeout: float, temperature: float | None) -> Reply:
        """Sends the history and gives the reply. Sending it again does no harm: nothing on the machine depends on it.

        Raises:
            ProviderTrouble: There is no reply.
        """

    def look_up(self, timeout: float) -> bool | None:
        """Whether the provider knows the model; ``None``: it does not tell. For ``doctor``.

        Raises:
            ProviderTrouble: It could not be asked.
        """

    def close(self) -> None:
        """Ends the connection."""


def sdk(provider: str) -> ModuleType:
    """A provider's SDK.

    Raises:
        AgentSpecError: It is not installed; the message names the extra.
    """
    module, extra = EXTRAS[provider]
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise AgentSpecError(
            f"the agent computer-use:{provider} needs the SDK {module!r}: pip install 'legacyproof[{extra}]' ({scrubbed(str(error), limit=200)})"
        ) from None


def open_session(asking: Asking) -> Session:
    """Opens a connection to the provider that the settings name; nothing is sent yet.

    Raises:
        AgentSpecError: The SDK, the key or the address of the endpoint is missing, or the SDK cannot work with what the settings and
            the environment (also its variables for proxies and certificates) say.
    """
    settings = asking.settings
    sdk(settings.provider)
    require_address(settings)
    require_key(settings)
    try:
        return _session(asking)
    except Exception as error:  # an SDK, and the HTTP library below it, may raise anything here
        told = scrubbed(f"{type(error).__name__}: {error}", filter(None, (settings.key(),)))
        raise AgentSpecError(
            f"computer-use:{settings.provider} cannot be set up: {told}; check the endpoint's address, and the environment's variables "
            "for proxies and certificates (HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE)"
        ) from None


def _session(asking: Asking) -> Session:
    provider = asking.settings.provider
    if provider == "anthropic":
        from runner.agents.computeruse.providers.anthropic import AnthropicSession  # noqa: PLC0415 - its SDK is optional

        return AnthropicSession(asking)
    if provider == "openai":
        from runner.agents.computeruse.providers.openai import OpenAISession  # noqa: PLC0415

        return OpenAISession(asking)
    if provider == "gemini":
        from runner.agents.computeruse.providers.gemini import GeminiSession  # noqa: PLC0415

        return GeminiSession(asking)
    from runner.agents.computeruse.providers.compatible import CompatibleSession  # noqa: PLC0415

    return CompatibleSession(asking)


def require_address(settings: Settings) -> None:
    """Makes sure that the endpoint has an address, and a fit one: that of the environment nobody has looked at yet.

    Raises:
        AgentSpecError: It has not.
    """
    url = settings.url()
    if url is None:
        if settings.provider == "compatible":
            raise AgentSpecError(
                "computer-use:compatible needs the endpoint's address: set LEGACYPROOF_MODEL_URL, or base_url in the settings file"
            )
        return
    if trouble := address_trouble(url):
        variable = URL_VARIABLES[settings.provider]
        raise AgentSpecError(f"computer-use:{settings.provider}: the address in {variable} is not fit: {trouble}")


def require_key(settings: Settings) -> None:
    """Makes sure that the environment holds the key, where the provider wants one: many self-hosted servers want none.

    Raises:
        AgentSpecError: It does not.
    """
    if settings.provider != "compatible" and settings.key() is None:
        raise AgentSpecError(
            f"computer-use:{settings.provider} needs a key: set the environment variable {' or '.join(settings.key_variables())}"
        )


_QUOTA = ("insufficient_quota", "billing", "credit balance", "exceeded your current quota", "payment", "out of credits")
_REFUSED = (
    "content_policy",
    "content policy",
    "invalid_prompt",
    "safety system",
    "usage policies",
    "content_filter",
    "policy_violation",
)
_TOO_LONG = (
    "context_length_exceeded",
    "prompt is too long",
    "context window",
    "maximum context length",
    "too many tokens",
)
_NO_MODEL = ("model_not_found", "does not exist", "not_found_error", "is not found", "unknown model", "no such model")


def trouble_of_status(
    status: int, message: str, *, retry_after: str | None = None, secrets: tuple[str, ...] = ()
) -> ProviderTrouble:
    """What an HTTP status and the provider's words mean.

    Args:
        status: The HTTP status.
        message: The provider's words, of any kind.
        retry_after: The header of that name.
        secrets: What must not be repeated: keys.
    """
    words = scrubbed(message, secrets)
    said = message.lower()[:20_000]
    told = f"HTTP {status}: {words}"
    if status == 402 or (status in (400, 403, 429) and any(word in said for word in _QUOTA)):
        return ProviderTrouble("quota", told)
    if status in (401, 403) or (status == 400 and "api key not valid" in said):
        return ProviderTrouble("auth", told)
    if status == 404 or (status == 400 and any(word in said for word in _NO_MODEL)):
        return ProviderTrouble("model", told)
    if status in (408, 409, 425) or status >= 500:
        return ProviderTrouble("unavailable", told, wait=_seconds(retry_after))
    if status == 429:
        return ProviderTrouble("rate", told, wait=_seconds(retry_after))
    if any(word in said for word in _TOO_LONG):
        return ProviderTrouble("limit", told)
    if any(word in said for word in _REFUSED):
        return ProviderTrouble("refused", told)
    if "temperature" in said:
        return ProviderTrouble("setting", told, setting="temperature")
    return ProviderTrouble("request", told)


def trouble_of_connection(error: Exception, secrets: tuple[str, ...] = ()) -> ProviderTrouble:
    """What it means that no answer came: the provider is out, and was only slow if its answer was being waited for.

    Args:
        error: The SDK's error, or that of the HTTP library, which the SDKs give as its cause. All of them call any time-out one, also one
            while connecting; which of them it was, only the library's own name says.
        secrets: What must not be repeated: keys.
    """
    cause = error.__cause__
    told = f"{type(error).__name__}: {error}" + (f"; {type(cause).__name__}: {cause}" if cause is not None else "")
    slow = "ReadTimeout" in (type(error).__name__, type(cause).__name__)
    return ProviderTrouble("unavailable", scrubbed(told, secrets), slow=slow)


def no_reply(answer: object, secrets: tuple[str, ...] = ()) -> ProviderTrouble:
    """What an answer with HTTP status 200 means that holds no reply: a gateway's error, or the page of another server.

    An error that has an HTTP status as its code, as some gateways give it, means what that status means.
    """
    error = getattr(answer, "error", None)
    about = error if isinstance(error, Mapping) else vars(error) if hasattr(error, "__dict__") else {}
    code, message = about.get("code"), str(about.get("message") or error or "")
    if isinstance(code, int) and 400 <= code <= 599:
        return trouble_of_status(code, message, secrets=secrets)
    told = message or (answer if isinstance(answer, str) else "it has none of the fields that a reply has")
    return ProviderTrouble("unavailable", scrubbed(f"HTTP 200, but no reply: {told}", secrets, limit=300))


@contextlib.contextmanager
def reading(secrets: tuple[str, ...] = ()) -> Iterator[None]:
    """While an answer is taken apart: one that has not the vendor's form is the endpoint's trouble, not the model's.

    The SDKs do not check answers, and give what is no JSON as text. What a *model* writes is never read in here unchecked: its
    arguments go through :func:`runner.agents.computeruse.actions.arguments_of` and its actions through ``check``.

    Raises:
        ProviderTrouble: It has not.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        told = f"HTTP 200, but not in the form of a reply: {type(error).__name__}: {error}"
        raise ProviderTrouble("unavailable", scrubbed(told, secrets)) from None


def _seconds(header: str | None) -> float | None:
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return min(max(seconds, 0.0), 300.0) if math.isfinite(seconds) else None
