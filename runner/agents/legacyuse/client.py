"""Requests to a legacy-use server over HTTP, and what can come of one.

What only reads, or has the same effect when it is done twice, is tried again; nothing else ever is: the server has no key that
would tell a repeated request from a second one. Connections are not kept: after an internal error the server closes them, and a
request on a closed one would be lost.
"""

from __future__ import annotations

import json
import math
import re
import time
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from runner.agents.legacyuse.configuration import Configuration

MAX_ANSWER = 4 << 20
"""Bytes of an ordinary answer."""
MAX_ACCOUNT = 256 << 20
"""Bytes of a job's logs or exchanges, which hold every screenshot, most of them several times."""
_QUICK = 10.0
"""Seconds for what the server answers from its database; what starts or stops a container, or is long, may take longer."""
_BUSY = frozenset({408, 425, 429})
"""Statuses below 500 with which what stands before the server says: not now."""
_PAUSES = (0.2, 0.5)
"""Seconds before each further attempt."""
_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


class ServerOut(Exception):
    """There was no usable answer; whether the server has done what it was asked to is not known."""


class NoAnswer(ServerOut):
    """Nothing came back, or not to its end in time; the next request would hardly fare better."""


class NotSent(NoAnswer):
    """The request has not reached the server; so it has done nothing."""


class Refusal(Exception):
    """The server said no.

    Attributes:
        status: The HTTP status, 300 to 499 without those of :data:`_BUSY`.
        body: Its answer; JSON, or ``None`` if it was none.
    """

    def __init__(self, status: int, body: Any, request: str) -> None:
        self.status = status
        self.body = body
        super().__init__(f"the server refused {request} with status {status}: {_detail(body)}")

    @property
    def about_tenant(self) -> str | None:
        """``tenant_not_found`` or ``tenant_inactive``, if that is why."""
        kind = self.body.get("error_type") if self.status == 403 and isinstance(self.body, dict) else None
        return kind if kind in ("tenant_not_found", "tenant_inactive") else None

    @property
    def lasting(self) -> bool:
        """Whether it says no until somebody acts: it knows the key or the tenant not, or not any more."""
        return self.status == 401 or self.about_tenant is not None


class Server:
    """A legacy-use server, as one tenant.

    Attributes:
        until: A moment of ``time.monotonic()`` after which no answer is waited for and nothing is tried again; may be moved.
    """

    def __init__(self, configuration: Configuration) -> None:
        """Prepares requests; sends none."""
        settings = configuration.settings
        self.until = math.inf
        self._prefix = settings.prefix
        self._patience = settings.limits.answer
        self._http = httpx.Client(
            base_url=settings.url,
            headers={"Host": settings.tenant, "X-API-Key": configuration.api_key, "Accept-Encoding": "identity"},
            limits=httpx.Limits(max_keepalive_connections=0),
            trust_env=False,  # neither proxies nor other people's credentials
            verify=configuration.trust or True,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, path: str, *, limit: int = MAX_ANSWER) -> Any:
        """Reads something.

        Args:
            path: Below the prefix, exactly as the server spells it: trailing slashes count.
            limit: The most bytes that are taken.

        Raises:
            Refusal: The server said no.
            ServerOut: No usable answer, also after a few attempts.
        """
        return self._repeated("GET", path, limit=limit, seconds=self._patience if limit >= MAX_ACCOUNT else _QUICK)

    def delete(self, path: str) -> None:
        """Removes something; that it is not there is as good.

        Raises:
            Refusal: The server said no.
            ServerOut: No usable answer, also after a few attempts.
        """
        try:
            self._repeated("DELETE", path, seconds=self._patience)
        except Refusal as refusal:
            if refusal.status != 404:
                raise

    def post(self, path: str, body: Any = None, *, quick: bool = False) -> Any:
        """Asks for something once.

        Args:
            path: As for :meth:`get`.
            body: JSON.
            quick: Nobody waits for more than a moment.

        Raises:
            Refusal: The server said no, and has done nothing.
            ServerOut: No usable answer; it may have been done all the same.
        """
        return self._once("POST", path, body=body, seconds=_QUICK if quick else self._patience)

    def _repeated(self, method: str, path: str, **about: Any) -> Any:
        for pause in _PAUSES:
            try:
                return self._once(method, path, **about)
            except ServerOut:
                if time.monotonic() + pause >= self.until:
                    raise
                time.sleep(pause)
        return self._once(method, path, **about)

    def _once(self, method: str, path: str, *, seconds: float, limit: int = MAX_ANSWER, body: Any = None) -> Any:
        what = f"{method} {self._prefix}/{path}"
        began = time.monotonic()
        deadline = min(began + min(seconds, self._patience), self.until)
        seconds = deadline - began
        if seconds <= 0:
            raise NotSent(f"{what}: no time is left")
        timeout = httpx.Timeout(seconds, connect=min(_QUICK, seconds))
        try:
            with self._http.stream(method, f"{self._prefix}/{path}", json=body, timeout=timeout) as response:
                data = bytearray()
                for chunk in response.iter_raw():
                    data += chunk
                    if len(data) > limit:
                        raise ServerOut(f"{what}: the answer holds more than {limit} bytes")
                    if time.monotonic() > deadline:
                        raise NoAnswer(f"{what}: the answer did not end within {seconds:.3g} s")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NotSent(f"{what}: {_words(error)}") from None
        except httpx.HTTPError as error:
            raise NoAnswer(f"{what}: {_words(error)}") from None
        answer, is_json = _parsed(bytes(data))
        if response.status_code >= 500 or response.status_code in _BUSY:
            raise ServerOut(f"{what}: status {response.status_code}: {_detail(answer)}")
        if response.status_code >= 300:
            raise Refusal(response.status_code, answer, what)
        if not is_json:
            raise ServerOut(f"{what}: the answer is no JSON")
        return answer


def _parsed(data: bytes) -> tuple[Any, bool]:
    try:
        return json.loads(data), True
    except (ValueError, RecursionError):
        return data[:500].decode("utf-8", "replace"), False


def _words(error: httpx.HTTPError) -> str:
    match error:
        case httpx.ConnectTimeout() | httpx.ReadTimeout() | httpx.WriteTimeout() | httpx.PoolTimeout():
            return "no answer in time"
        case httpx.ConnectError():
            return f"cannot connect: {error}"
        case _:
            return f"the connection failed: {error or type(error).__name__}"


def _detail(body: Any) -> str:
    """What an answer says of an error, in one line."""
    if isinstance(body, dict):
        detail = body.get("message") or body.get("detail") or body
        if isinstance(detail, dict) and isinstance(detail.get("message"), str):
            detail = detail["message"]
    else:
        detail = body
    text = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)
    return " ".join(text.split())[:500]


def quoted(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def id_in(answer: Any, name: str = "id") -> str:
    """An identifier in an answer, fit to stand in a path.

    Raises:
        ServerOut: There is none.
    """
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, str) or not _ID.fullmatch(found):
        raise ServerOut(f"the server's answer has no usable `{name}`")
    return found


def objects(answer: Any, most: int = 10_000) -> list[dict[str, Any]]:
    """The objects of a list.

    Raises:
        ServerOut: It is no list.
    """
    if not isinstance(answer, list):
        raise ServerOut("the server's answer is no list")
    return [item for item in answer[:most] if isinstance(item, dict)]
