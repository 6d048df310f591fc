"""HTTP as the server speaks it: strict paths, tenants told by the Host header, keys, bodies of errors, and what a test makes go wrong."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from pydantic import ValidationError

from tests.peers.legacy_use.rows import Behaviour, Fault

TENANT = "tenant-default.local.legacy-use.com"
KEY = "tenant-key-0123456789abcdef"


class Peer(Protocol):
    """What is behind it; see :class:`tests.peers.legacy_use_server.LegacyUseServer`."""

    behaviour: Behaviour
    requests: list[tuple[str, str]]
    faults: list[Fault]
    before: Callable[[str, str], None]
    over: threading.Event

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, str]:
        """Does what a request asks for, and gives status and body as they are at this moment."""


class _Unfit(Exception):
    """A part of a path is not what it should be."""


def _check_target(path: str) -> None:
    match = re.match(r"targets/([^/]+)", path)
    if match is not None:
        try:
            uuid.UUID(match[1])
        except ValueError:
            message = "Input should be a valid UUID"
            raise _Unfit(
                {"type": "uuid_parsing", "loc": ["path", "target_id"], "msg": message, "input": match[1]}
            ) from None


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no error."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    peer: Peer

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        parts = urlsplit(self.path)
        prefix = f"{self.peer.behaviour.prefix}/"
        path = parts.path.removeprefix(prefix) if parts.path.startswith(prefix) else ""
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if refused := self._refused(path, query):
            self._send(refused[0], json.dumps(refused[1]))
            return
        self.peer.requests.append((self.command, path))
        self.peer.before(self.command, path)
        fault = self._fault(path)
        if fault == "hung":
            self.peer.over.wait(20)
        if fault in ("silent", "hung"):
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if fault == "broken":
            self._send(500, "")
            return
        try:
            _check_target(path)
            status, body = self.peer.answer(self.command, path, query, json.loads(raw) if raw else None)
        except ValidationError as error:
            status, body = 422, json.dumps({"detail": json.loads(error.json(include_url=False))})
        except _Unfit as error:
            status, body = 422, json.dumps({"detail": [error.args[0]]})
        except ValueError:
            about = {"type": "json_invalid", "loc": ["body"], "msg": "JSON decode error"}
            status, body = 422, json.dumps({"detail": [about]})
        if fault == "lost":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self._send(*((500, "") if fault == "broken_after" else (status, body)))

    do_GET = do_POST = do_DELETE = do_PUT = _handle  # noqa: N815 - names of the library

    def _refused(self, path: str, query: dict[str, str]) -> tuple[int, Any] | None:
        if self.command == "GET" and path == "openapi.json":
            return 200, {"openapi": "3.1.0", "info": {"title": "AI API Gateway"}}
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if host != TENANT:
            message = f"No tenant found for host: {host}"
            return 403, {"detail": "Tenant not found", "error_type": "tenant_not_found", "message": message}
        if not self.peer.behaviour.tenant_active:
            return 403, {
                "detail": "Tenant is inactive",
                "error_type": "tenant_inactive",
                "message": "Tenant is inactive",
            }
        key = self.headers.get("X-API-Key") or query.get("api_key")
        if key is None:
            return 401, {"detail": "API key is missing"}
        return None if key == KEY else (401, {"detail": "Invalid API Key"})

    def _fault(self, path: str) -> str | None:
        for fault in self.peer.faults:
            if fault.times > 0 and fault.method == self.command and re.fullmatch(fault.path, path):
                fault.times -= 1
                return fault.kind
        return None

    def _send(self, status: int, body: str) -> None:
        # Nobody has foreseen an error without a body; one that was foreseen is told in JSON like every other.
        is_json = body not in ("", "null") or status < 500
        data = body.encode() if is_json else b"Internal Server Error"
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if is_json else "text/plain")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(data)
        if not is_json:
            self.close_connection = True  # uvicorn drops the connection without having said so
