"""A stand-in for a legacy-use server (version 1.2.0), with its session containers and a scripted model.

It follows the facts that were observed on the real server: paths with their prefix and strict trailing slashes, tenants told by the
Host header, bodies of errors, the states of sessions and jobs with what moves them, one running job per target, the workers'
limit, the queue that a failed job blocks for ever, the interrupt that takes effect late and the one that answers 500 after it
has changed the job, results only at the end, growing durations, logs in their order, exchanges with screenshots and keys in clear text
and cached tokens already weighted, what becomes of a job whose provider refuses it or for which there is no key, and definitions with
versions. Times are short, and can be changed. A session's container connects to its target's address by VNC, and a job's model is a
function or a script of this project that acts on the machine through that address: so whole runs can be made, with real changes on a
real program.

It proves that the agent copes with these habits, in the order and with the words in which they were observed. It does not prove
that a real server, its Docker image, its viewer (clipping, keyboard layouts, reconnecting: a capital Ä arrives as ä there) or a model
behaves like this: there is no model, no container and no RDP. A script knows where controls are because the test lends it the guest's
list of windows (``windows``), which no real server has.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.peers.legacy_use.definitions import Definitions
from tests.peers.legacy_use.http import KEY, TENANT, Handler, Listener
from tests.peers.legacy_use.jobs import Jobs
from tests.peers.legacy_use.rows import INTERRUPTED, PROVIDER_KEY, Behaviour, Fault, FaultKind
from tests.peers.legacy_use.work import CREDITS, NO_KEY, Model, Work, plays

__all__ = [
    "CREDITS", "INTERRUPTED", "KEY", "NO_KEY", "PROVIDER_KEY", "TENANT", "FaultKind", "LegacyUseServer", "Model", "Work", "plays",
]  # fmt: skip


class LegacyUseServer(Jobs, Definitions):
    """The server, listening on 127.0.0.1.

    Attributes:
        requests: Every request that came in, as method and path without prefix.
        faults: What goes wrong next.
        before: Called with method and path of each request before it is answered.
    """

    def __init__(self, model: Model = lambda work: work.extract({}), **behaviour: Any) -> None:
        super().__init__(model, Behaviour(**behaviour))
        self.requests: list[tuple[str, str]] = []
        self.faults: list[Fault] = []
        self.before: Callable[[str, str], None] = lambda method, path: None
        self._http: ThreadingHTTPServer | None = None
        self.port = 0
        self.revive()
        threading.Thread(target=self.work, daemon=True).start()

    def __enter__(self) -> LegacyUseServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        for job in self.jobs.values():
            job.abandoned = True
            job.stopping.set()
        for session in self.sessions.values():
            if session.container is not None:
                session.container.remove()
        self._close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- its life ---

    @property
    def is_up(self) -> bool:
        return self._http is not None

    def die(self) -> None:
        """Ends the server's process as SIGKILL does: nothing listens, nothing acts; what it has stored stays."""
        with self.lock:
            for job in self.jobs.values():
                if job.status == "running":
                    job.abandoned = True
                    job.stopping.set()
        self._close()

    def terminate(self) -> None:
        """Ends it as SIGTERM does: connections are refused at once, no job is begun any more, and running ones go on for a while."""
        self._close()

    def revive(self) -> None:
        """Starts the process again, on the same port."""
        server = self

        class Bound(Handler):
            peer = server

        self._http = Listener(("127.0.0.1", self.port), Bound)
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=[0.02], daemon=True).start()

    def _close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            # From a thread of its own: also a model, on whose behalf a request may wait, can end the server.
            threading.Thread(target=http.shutdown, daemon=True).start()
            http.server_close()

    # --- requests ---

    def fault(self, method: str, path: str, kind: FaultKind, times: int = 1) -> None:
        """Has the next requests go wrong."""
        self.faults.append(Fault(method, path, kind, times))

    def count(self, method: str, path: str) -> int:
        """How many requests there were whose path fits a regular expression as a whole."""
        return sum(one == method and re.fullmatch(path, other) is not None for one, other in self.requests)

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, str]:
        """Does what a request asks for, and gives status and body as they are at this moment."""
        for wanted, pattern, function in (*self.TARGET_ROUTES, *self.JOB_ROUTES, *self.DEFINITION_ROUTES):
            match = re.fullmatch(pattern, path)
            if match is not None and wanted == method:
                with self.lock:
                    status, answer = function(self, query, body, *map(unquote, match.groups()))
                    return status, json.dumps(answer)
        return 404, json.dumps({"detail": "Not Found"})
