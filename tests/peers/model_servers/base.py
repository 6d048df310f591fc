"""A stand-in for a model vendor's endpoint: an HTTP server on 127.0.0.1 that checks requests strictly and plays a scripted model.

It proves that the vendors' real SDKs, driven by our code, send requests of the form that *these files* read in the vendors' documentation
of autumn 2026: path, key header, tool declarations, parameters, pictures that are real PNG files of the declared size, at most
as many pictures as agreed, every tool call answered exactly once and in order, replies sent back unchanged (but for arguments that are no
JSON, which some servers refuse in a history); and that replies and errors
of the documented forms are understood. What is not right is refused with HTTP 400 and kept in :attr:`ModelServer.complaints`, which
tests assert to be empty, so that no run can pass on a wrong request.

It does not prove that the vendors accept these requests today, nor that a real model could do a task: the scripted model sees no pixels.
It takes what it needs to know of the screen (where a control is) from a side channel that the test gives it.
"""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from PIL import Image

KEY = "sk-test-0123456789abcdefKEY"
"""The only key that the servers take. It must not turn up in anything that a run stores."""


class Wrong(Exception):
    """A request is not as the vendor's documentation has it."""


def need(condition: object, why: str) -> None:
    """Refuses the request if the condition does not hold."""
    if not condition:
        raise Wrong(why)


@dataclass(frozen=True)
class Act:
    """What the scripted model does next, in neutral words; each server says it in its vendor's.

    Attributes:
        kind: ``click`` (x, y, count, button), ``key`` (keys), ``type`` (text), ``wait``, ``screenshot``, ``extraction`` (data),
            ``mismatch`` (reasoning), ``say`` (text), ``raw`` (body: the vendor's own reply, for what is malformed), ``page`` (text,
            content_type: an answer with status 200 that need not be JSON), ``http`` (status, body, headers), ``drop`` (hang up without
            an answer), ``hang`` (until: an event).
        about: The arguments.
    """

    kind: str
    about: Mapping[str, Any] = field(default_factory=dict)


def act(kind: str, **about: Any) -> Act:
    """Short for :class:`Act`."""
    return Act(kind, about)


@dataclass(frozen=True)
class Seen:
    """What the scripted model is asked with: the pictures of the request, newest last, and how many requests came before."""

    pictures: tuple[Image.Image, ...]
    body: Mapping[str, Any]
    number: int


Model = Callable[[Seen], "list[Act]"]
"""A scripted model: what it replies with, one or more acts in one reply."""


@dataclass
class Expected:
    """What a request must hold.

    Attributes:
        model: The model's name.
        size: The size of every picture.
        images: The most pictures of a request.
        temperature: What is to be sent; ``None``: none.
        max_tokens: The length limit.
        returns: The JSON Schema that ``extraction`` must ask for; ``None``: not looked at.
    """

    model: str
    size: tuple[int, int] = (1024, 768)
    images: int = 3
    temperature: float | None = 0.0
    max_tokens: int = 4096
    returns: Mapping[str, Any] | None = None


class ModelServer:
    """One vendor's endpoint. Subclasses read requests and write replies in the vendor's form."""

    path: ClassVar[str] = ""
    """The path of the SDK's base address."""

    def __init__(self, model: Model, expected: Expected) -> None:
        self.model = model
        self.expected = expected
        self.complaints: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.known_models = [expected.model]
        self.page: str | None = None
        """What stands for another server, such as a captive portal's: every request is answered with this page."""
        self._counter = 0
        self._lock = threading.Lock()
        self._sent: list[Any] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server._serve(self)

            def do_GET(self) -> None:
                server._serve(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The base address for the SDK."""
        return f"http://127.0.0.1:{self._http.server_address[1]}{self.path}"

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def requests(self) -> int:
        """How many requests for a reply came, refused ones included."""
        return len(self.bodies)

    # -- what each vendor's module says ------------------------------------------------------------------------------------

    def authorised(self, headers: Mapping[str, str]) -> bool:
        """Whether the key is there and right."""
        raise NotImplementedError

    def route(self, path: str) -> str | None:
        """``reply``, ``models`` (a list), ``model:<name>``, or ``None``: there is no such path."""
        raise NotImplementedError

    def read(self, body: dict[str, Any], headers: Mapping[str, str]) -> list[bytes]:
        """Checks a request and gives its pictures, oldest first.

        Raises:
            Wrong: It is not as it must be.
        """
        raise NotImplementedError

    def write(self, acts: list[Act]) -> dict[str, Any]:
        """A reply in the vendor's form; what must come back unchanged is put into :attr:`_sent`."""
        raise NotImplementedError

    def error(self, status: int, message: str) -> dict[str, Any]:
        """An error in the vendor's form."""
        return {"error": {"message": message, "type": "error", "code": None}}

    def listed(self, name: str | None) -> dict[str, Any]:
        """One model, or all, in the vendor's form."""
        raise NotImplementedError

    # -- serving -----------------------------------------------------------------------------------------------------------

    def identity(self, prefix: str) -> str:
        """A name that was not used before."""
        self._counter += 1
        return f"{prefix}_{self._counter:04d}"

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length") or 0)
        raw = handler.rfile.read(length)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._lock:
            where = self.route(handler.path)
            if self.page is not None:
                self._send(handler, 200, self.page, {"content-type": "text/html; charset=utf-8"})
            elif where is None:
                self._send(handler, 404, self.error(404, f"no route {handler.path}"))
            elif not self.authorised(headers | {":path": handler.path}):
                told = headers.get("authorization") or headers.get("x-api-key") or headers.get("x-goog-api-key") or ""
                self._send(handler, 401, self.error(401, f"Incorrect API key provided: {told}"))
            elif where != "reply":
                name = where.partition(":")[2] or None
                known = name is None or name in self.known_models
                self._send(
                    handler, 200 if known else 404, self.listed(name) if known else self.error(404, "not_found_error")
                )
            else:
                self._reply(handler, raw, headers)

    def _reply(self, handler: BaseHTTPRequestHandler, raw: bytes, headers: Mapping[str, str]) -> None:
        body = json.loads(raw)
        self.bodies.append(body)
        try:
            pictures = self.read(body, headers)
            need(len(pictures) <= self.expected.images, f"{len(pictures)} pictures, at most {self.expected.images}")
            images = tuple(self._picture(png) for png in pictures)
        except (Wrong, KeyError, IndexError, TypeError, AttributeError) as error:
            self.complaints.append(f"{type(error).__name__}: {error}")
            self._send(handler, 400, self.error(400, f"stand-in: {error}"))
            return
        try:
            acts = self.model(Seen(images, body, len(self.bodies) - 1))
        except Exception as error:
            self.complaints.append(f"the scripted model failed: {error!r}")
            raise
        first = acts[0]
        if first.kind == "drop":
            handler.close_connection = True
            handler.connection.close()
        elif first.kind == "hang":
            first.about["until"].wait(30)
            self._send(handler, 500, self.error(500, "too late"))
        elif first.kind == "http":
            told = first.about.get("body")
            body = told if isinstance(told, dict) else self.error(first.about["status"], str(told or "trouble"))
            self._send(handler, first.about["status"], body, first.about.get("headers"))
        elif first.kind == "raw":
            self._send(handler, 200, first.about["body"])
        elif first.kind == "page":
            self._send(handler, 200, first.about["text"], {"content-type": first.about["content_type"]})
        else:
            self._send(handler, 200, self.write(acts))

    def _picture(self, png: bytes) -> Image.Image:
        need(png.startswith(b"\x89PNG\r\n\x1a\n"), "a picture is no PNG file")
        image = Image.open(io.BytesIO(png))
        image.load()
        need(image.size == self.expected.size, f"a picture has the size {image.size}, not {self.expected.size}")
        need(not image.info, f"a picture carries metadata: {sorted(image.info)}")
        return image

    def _send(
        self,
        handler: BaseHTTPRequestHandler,
        status: int,
        body: dict[str, Any] | str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        try:
            handler.send_response(status)
            handler.send_header("content-length", str(len(data)))
            for name, value in ({"content-type": "application/json"} | dict(headers or {})).items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)
        except OSError:
            handler.close_connection = True  # the client did not wait


def decoded(data: object) -> bytes:
    """Base64, strictly."""
    need(isinstance(data, str), "picture data is no text")
    try:
        return base64.b64decode(str(data), validate=True)
    except ValueError:
        raise Wrong("picture data is no base64") from None


def data_url(url: object) -> bytes:
    """The picture in a data URL."""
    prefix = "data:image/png;base64,"
    need(isinstance(url, str) and url.startswith(prefix), "a picture is no PNG data URL")
    return decoded(str(url)[len(prefix) :])


def check_repeated(arguments: str, sent: str) -> None:
    """Arguments of a function call in a history, as JSON text: those that were sent, unless these are broken.

    Servers that put a history into a model's template read the arguments again, and refuse every request in which they are no object.
    """
    need(_is_object(arguments), f"the arguments of an earlier call are no JSON object: {arguments[:100]}")
    need(arguments == sent or not _is_object(sent), "the arguments of an earlier call were changed")


def _is_object(text: str) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no JSON")

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except ValueError:
        return False


def check_functions(found: Mapping[str, Mapping[str, Any]], returns: Mapping[str, Any] | None) -> None:
    """The two tools beside the computer, by the schema of their arguments."""
    need(set(found) >= {"extraction", "ui_not_as_expected"}, f"the functions are {sorted(found)}")
    data = found["extraction"]["properties"]["data"]
    need(returns is None or data == returns, f"extraction asks for {data}")
    need(found["ui_not_as_expected"]["required"] == ["reasoning"], "ui_not_as_expected must ask for a reason")
