"""What ``legacyproof doctor --agent legacy-use`` looks at, from the server's address to a container that sees our display.

The last check makes a target and a session for a display of ours and removes them, with the display's password and whatever happens
meanwhile; no job is made, nothing is paid for.
"""

from __future__ import annotations

import atexit
import contextlib
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator

from runner.agents.base import AgentInfrastructureError, AgentSpecError
from runner.agents.legacyuse.agent import active_provider, check_listening
from runner.agents.legacyuse.client import Refusal, Server, ServerOut, objects
from runner.agents.legacyuse.configuration import HEIGHT, WIDTH, Configuration
from runner.agents.legacyuse.workplace import IMAGE, NAME, SessionFailed, Workplace
from runner.display.errors import DisplayError
from runner.display.handshake import DisplayAddress, Reception, ServerInit
from runner.display.wire import Stream
from runner.findings import Finding

PATIENCE = 60.0
"""Seconds that the check of the display may take."""
_FOR_TIDYING = 60.0
"""Seconds that removing what it has made may take after that; the doctor waits a little longer for all of it."""


def findings(configuration: Configuration) -> list[Finding]:
    """Looks at everything that a run needs, up to the first thing without which the rest cannot be looked at."""
    with Server(configuration) as server:
        found = [_reachable(server, configuration)]
        if not found[0].ok:
            return found
        found += [_provider(server, configuration), _size(), _leftovers(server)]
        try:
            check_listening(configuration)
        except AgentSpecError as error:
            return [*found, Finding("display", False, str(error), "set `display.listen`")]
        return found + _container(server, configuration)


def _reachable(server: Server, configuration: Configuration) -> Finding:
    settings = configuration.settings
    url = f"{settings.url}{settings.prefix}"
    try:
        server.get("targets/")
    except ServerOut as error:
        return Finding(
            "server", False, f"no legacy-use server answers at {url}: {error}",
            "start it, or set `url` (LEGACY_USE_URL) to where it is",
        )  # fmt: skip
    except Refusal as refusal:
        return _refused(refusal, configuration)
    return Finding("server", True, f"it answers at {url}, and knows tenant and key")


def _refused(refusal: Refusal, configuration: Configuration) -> Finding:
    tenant = configuration.settings.tenant
    match refusal.status, refusal.about_tenant:
        case 403, "tenant_not_found":
            return Finding(
                "tenant", False, f"the server has no tenant with the host {tenant}",
                "set `tenant` (LEGACY_USE_TENANT) to the host that `tenant_manager.py` was given for it",
            )  # fmt: skip
        case 403, "tenant_inactive":
            return Finding(
                "tenant", False, f"the tenant with the host {tenant} is inactive", "activate it on the server"
            )
        case 401, _:
            return Finding(
                "key", False, "the server does not accept the API key",
                "give the tenant's key in `api_key`; the default tenant's was printed when its database was set up",
            )  # fmt: skip
        case 404, _:
            return Finding(
                "server", False, "what answers there is no legacy-use server, or has another path prefix",
                "set `prefix` (LEGACY_USE_PREFIX) to the server's API_SLUG_PREFIX",
            )  # fmt: skip
        case _:
            return Finding("server", False, str(refusal), "look into the server's log")


def _provider(server: Server, configuration: Configuration) -> Finding:
    wanted = configuration.settings.provider
    try:
        active = active_provider(server)
    except (ServerOut, Refusal) as error:
        return Finding("provider", None, f"the server does not say which model it uses: {error}")
    if wanted is not None and configuration.credentials:
        message = f"the server uses {active.name}; the first run of a campaign makes it use {wanted.name} with the credentials given here"
        return Finding("provider", True, message)
    if wanted is not None and active.name != wanted.name:
        return Finding(
            "provider", False, f"the server uses {active.name}, not {wanted.name}",
            "choose it in the server's settings, or give its credentials in `provider.credentials`",
        )  # fmt: skip
    message = f"the server uses {active.name} with {active.model}"
    match active.available:
        case True:
            return Finding("provider", True, message)
        case False:
            return Finding(
                "provider", False, f"{message}, for which it has no key: it says that the provider is not available",
                "give it one in its settings, or here in `provider.credentials`",
            )  # fmt: skip
        case None:
            return Finding("provider", None, f"{message}; it does not say whether it has a key for it")


def _size() -> Finding:
    message = f"targets have {WIDTH}x{HEIGHT} pixels; a machine of another size is refused when its run begins"
    return Finding("size", True, message)


def _leftovers(server: Server) -> Finding:
    try:
        left = [target for target in objects(server.get("targets/")) if str(target.get("name")).startswith(f"{NAME} ")]
    except (ServerOut, Refusal) as error:
        return Finding("leftovers", None, f"the server does not list its targets: {error}")
    if not left:
        return Finding("leftovers", True, "no target of an earlier run is left")
    names = ", ".join(str(target["name"])[:100] for target in left[:5])
    return Finding(
        "leftovers", None, f"targets of runs that still go on, or were cut short: {len(left)} ({names})",
        "if no campaign runs, delete their sessions and then the targets on the server",
    )  # fmt: skip


def _container(server: Server, configuration: Configuration) -> list[Finding]:
    """Whether the server can start a session, and its container can reach a display on this host."""
    settings = configuration.settings
    patience = min(PATIENCE, settings.limits.health)
    deadline = time.monotonic() + patience
    server.until = deadline + _FOR_TIDYING
    ended = threading.Event()

    def over() -> str | None:
        if ended.is_set():
            return "the doctor was ended"
        return "the check has taken long enough" if time.monotonic() >= deadline else None

    with _Display(settings.display.listen, settings.display.port) as display:
        place = Workplace(server, configuration, over, ended.wait, erase=True)
        trouble: Exception | None = None
        try:
            with _closed_at_exit(place, ended):
                place.open(display.address, "doctor")
        except (ServerOut, Refusal, AgentInfrastructureError) as error:
            trouble = error
        finally:
            has_target = place.target is not None
            place.close()
        left = [Finding("tidying", False, f"left on the server: {what}", "delete it there") for what in place.left]
        if not has_target:
            message = f"the server could not make a target: {trouble}"
            return [Finding("target", False, message, "look into its log"), *left]
        if isinstance(trouble, SessionFailed):
            remedy = f"see to it there: `docker image inspect {IMAGE}`"
            return [Finding("session", False, str(trouble), remedy), *left]
        where = f"{configuration.display_host}:{display.address.port}"
        return [
            Finding("session", True, f"the server started a session's container from {IMAGE}"),
            display.finding(where, trouble),
            *left,
        ]


@contextlib.contextmanager
def _closed_at_exit(place: Workplace, ended: threading.Event) -> Iterator[None]:
    """Has a place closed also if the program is ended meanwhile: the doctor looks from a thread that ends with it."""

    def close() -> None:
        ended.set()
        place.close()

    atexit.register(close)
    try:
        yield
    finally:
        atexit.unregister(close)


_PIXELS = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_BLANK = ServerInit(WIDTH, HEIGHT, "", struct.pack(">HH16sI", WIDTH, HEIGHT, _PIXELS, 0))
"""A screen of which no pixel is ever sent."""


class _Display:
    """Listens as the flight recorder would, and lets in who knows the password."""

    def __init__(self, host: str, port: int) -> None:
        self._listener = socket.create_server((host, port))
        self.address = DisplayAddress(host, self._listener.getsockname()[1], secrets.token_urlsafe(6)[:8])
        self._held: list[Stream] = []
        self._came = threading.Event()
        self._settled = threading.Event()  # somebody who came has shown whether he knows the password
        self._knew = False
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="doctor-display", daemon=True)

    def __enter__(self) -> _Display:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10.0)
        for stream in self._held:
            stream.close()

    def finding(self, where: str, trouble: Exception | None) -> Finding:
        """What the container's attempts have shown."""
        if self._came.is_set():
            self._settled.wait(5.0)
        if self._knew:
            return Finding("display", True, f"the session's container reached a display on this host at {where}")
        if self._came.is_set():
            message = f"something connected to {where}, but it was no VNC client that knew the password"
            return Finding("display", False, message, "see what stands between the container and this host")
        return Finding(
            "display", False, f"the session's container did not reach this host at {where}" + (f": {trouble}" if trouble else ""),
            "set `display.listen` to an address that containers can reach, usually that of the Docker bridge "
            "(`ip addr show docker0`), `display.host` to what it is called inside, and let the firewall pass it",
        )  # fmt: skip

    def _serve(self) -> None:
        for connection in self._connections():
            self._came.set()
            stream = Stream(connection)
            self._held.append(stream)  # a connection that stands is what the container calls healthy
            try:
                reception = Reception(stream, 5.0)
                if reception.authenticate(self.address.password or ""):
                    reception.accept(_BLANK)
                    self._knew = True
            except DisplayError:
                continue
            finally:
                self._settled.set()

    def _connections(self) -> Iterator[socket.socket]:
        while not self._over and len(self._held) < 32:
            try:
                yield self._listener.accept()[0]
            except OSError:
                return
