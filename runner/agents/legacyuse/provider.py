"""What the model provider did to a job: a fault of its, told from the agent's own failures by structured data wherever there is any.

legacy-use has one word, ``error``, for what the model did and for what became of its requests (and ``paused`` for some of these). Looked
at are, in this order:

1. the last exchange with the provider: its status and body, or the lack of an answer. It is logged for every client that speaks by httpx,
   whatever the error's text then is (an HTML page of a proxy, say, or a status without the body that tells more);
2. the job's error, where it is in the words of a client of a provider: the status of an answer (``Error code: 529 - {…}``), a missing
   key, a used-up account, an endpoint out of reach. The list of these words is bounded, and each says whose it is;
3. the class of the exception with which the job's log ends.

What a status and its body mean is what it means for the built-in loop as well (:func:`trouble_of_status`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.agents.computeruse.providers.base import TroubleKind, trouble_of_status
from runner.agents.legacyuse.account import LogEntry

OUT_OF_CREDITS = "API Credits Exceeded"
"""Of legacy-use's own provider, with HTTP 403: the job's error as a whole, or somewhere in the client's words."""
_LOOKED_AT = 20_000
"""Characters of an error or a body that are looked at."""

_NO_KEY = (
    "Could not resolve authentication method",  # anthropic; with a quotation mark before it
    "api_key client option must be set",  # openai, before version 3
    "Missing credentials. Please pass an `api_key`",  # openai, from version 3 on
    "could not resolve credentials from session",  # anthropic, for Bedrock
    "Unable to locate credentials",  # botocore
    "Partial credentials found",  # botocore
    "You must specify a region",  # botocore
    "default credentials were not found",  # google-auth, for Vertex
    "No region was given",  # anthropic, for Vertex
    "No project_id was given",  # anthropic, for Vertex
)
"""What the providers' clients say when they have nothing to authenticate with; none of them has sent anything then."""
_UNREACHED = (
    "Connection error.",  # anthropic, openai
    "Request timed out",  # anthropic, openai
    "Could not connect to the endpoint URL",  # botocore, as the next three
    "Connect timeout on endpoint URL",
    "Read timeout on endpoint URL",
    "Connection was closed before we received a valid response from endpoint URL",
    "All connection attempts failed",  # httpx
    "Server disconnected without sending a response",  # httpx
)
_STATUS = re.compile(r"Error code: (?P<status>[1-5]\d\d)\b", re.ASCII)
"""How the clients of anthropic and openai begin; what follows is the body, as Python prints it."""
_AWS = re.compile(r"An error occurred \((?P<code>\w{1,100})\) when calling the \w{1,100} operation")
"""How botocore begins, for Bedrock and SageMaker."""
_AWS_DENIED = re.compile(
    r"AccessDenied|UnrecognizedClient|ExpiredToken|InvalidClientTokenId|InvalidSignature|IncompleteSignature|MissingAuthentication|OptInRequired"
)
_CLASS = re.compile(r"(?:anthropic|openai|botocore|boto3|google\.auth|httpx|httpcore)\.(?:\w+\.)*(?P<name>\w+)(?=:|$)")
"""How the last line of a traceback begins when a provider's client, or what it stands on, has raised it."""
_CLASS_DENIED = re.compile(r"Authentication|PermissionDenied|Credential|RefreshError|NoRegion")
_DENIED_FOR_GOOD = (
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "invalid x-api-key",
    "api key not valid",
)
"""What a provider's body says of a key; a bare 403 can come from whatever stands between, and pass."""

_MEANINGS: Mapping[str, str] = {
    "quota": "the model provider's credits or quota are used up",
    "auth": "the model provider does not accept the server's key, or there is none",
    "model": "the model provider does not have the model for this account",
    "rate": "the model provider allows no more requests now",
    "unavailable": "the model provider is overloaded, fails, or cannot be reached",
    "limit": "the conversation is too long for the model",
    "refused": "the provider declined",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a request for the model's next words got none.

    Attributes:
        kind: See :class:`runner.agents.computeruse.providers.base.ProviderTrouble`.
        lasting: It stays so until somebody acts: trying again is in vain.
    """

    kind: TroubleKind
    lasting: bool = False

    @property
    def is_the_agents(self) -> bool:
        """Whether it came of what the agent has sent, and counts: a conversation without end, or one that is declined."""
        return self.kind in ("limit", "refused")

    @property
    def meaning(self) -> str:
        """In words."""
        return _MEANINGS.get(self.kind, "the model provider does not understand the server's request")


def trouble_of(
    error: str, exchanges: Sequence[Mapping[str, Any]] | None, log: Sequence[LogEntry] | None
) -> Trouble | None:
    """What the provider did to a job that ended with an error; ``None``: nothing says that it did anything.

    Args:
        error: The job's error, which must not be the model's own words.
        exchanges: The contents of the exchanges with the provider, the last one last; ``None``: they could not be read.
        log: The job's log; ``None``: it could not be read.
    """
    told = [trouble for trouble in (last_trouble(exchanges), _of_words(error)) if trouble is not None]
    lasting = [
        trouble for trouble in told if trouble.lasting
    ]  # what is said more exactly in one place than in the other
    return next(iter(lasting or told), None) or _of_traceback(log or ())


def last_trouble(exchanges: Sequence[Mapping[str, Any]] | None) -> Trouble | None:
    """What the last exchange with the provider failed by; ``None``: it did not, or there is none."""
    if not exchanges:
        return None
    last = exchanges[-1]
    response, error = last.get("response"), last.get("error")
    status = response.get("status_code") if isinstance(response, Mapping) else None
    if isinstance(response, Mapping) and isinstance(status, int) and not isinstance(status, bool):
        return _of_status(status, _text(response.get("body"))) if status >= 400 else None
    return (_of_words(_text(error)) or Trouble("unavailable")) if error else None


def _text(body: Any) -> str:
    return body[:_LOOKED_AT] if isinstance(body, str) else json.dumps(body, default=str)[:_LOOKED_AT]


def _of_words(error: str) -> Trouble | None:
    error = error[:_LOOKED_AT].lstrip("\"' ")
    if OUT_OF_CREDITS in error:
        return Trouble("quota", lasting=True)
    if error.startswith(_UNREACHED):
        return Trouble("unavailable")
    if (answered := _STATUS.match(error)) is not None:
        return _of_status(int(answered["status"]), error)
    if (refused := _AWS.match(error)) is not None:
        denied = _AWS_DENIED.search(refused["code"]) is not None
        return Trouble("auth", lasting=True) if denied else Trouble("unavailable")
    if any(words in error for words in _NO_KEY):
        return Trouble("auth", lasting=True)
    return None


def _of_status(status: int, words: str) -> Trouble:
    if OUT_OF_CREDITS in words:
        return Trouble("quota", lasting=True)
    kind = trouble_of_status(status, words).kind
    said = words.lower()
    denied = kind == "auth" and (status == 401 or any(sign in said for sign in _DENIED_FOR_GOOD))
    return Trouble(kind, lasting=kind == "quota" or denied)


def _of_traceback(log: Sequence[LogEntry]) -> Trouble | None:
    """By the class of the exception that the server logged after the model's last words."""
    for entry in reversed(log):
        if entry.kind == "message":
            return None
        if entry.kind == "error" and isinstance(entry.content, str) and entry.content.strip():
            line = entry.content.strip().splitlines()[-1]
            if (raised := _CLASS.match(line)) is None:
                return _of_words(line.partition(": ")[2])
            if _CLASS_DENIED.search(raised["name"]) is not None:
                return Trouble("auth", lasting=True)
            return _of_words(line.partition(": ")[2]) or Trouble("unavailable")
    return None
