"""A session's container: a viewer that is connected to the target's display."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from runner.display.errors import DisplayError
from runner.display.handshake import DisplayAddress
from runner.display.rfb import RfbClient

IP = "172.17.0.9"
_DOWN = "Remote screen sharing solution is not running (vnc)"


class Container:
    """A viewer connected to the target."""

    def __init__(self, target: Mapping[str, Any], healthy_from: float) -> None:
        self.address = DisplayAddress(target["host"], target["port"] or 5900, target["password"])
        self._from = healthy_from
        self._client: RfbClient | None = None
        self._lock = threading.Lock()
        self._removed = False

    def health(self) -> tuple[bool, str]:
        """What the server makes of its ``/health``: whether the viewer's connection stands; the viewer connects again and again."""
        found = self._trouble()
        return (True, "ok") if found is None else (False, f"Target container at {IP} failed health check: {found}")

    def _trouble(self) -> str | None:
        with self._lock:
            if self._removed:
                return "Request Error [Errno 113] No route to host"
            if time.monotonic() < self._from:
                return _DOWN
            try:
                if self._client is None:
                    self._client = RfbClient.connect(self.address, timeout=2)
                self._client.refresh(timeout=0)
            except DisplayError:
                self._client = None
                return _DOWN
            return None

    @property
    def screen(self) -> RfbClient:
        """The viewer's connection."""
        assert self._client is not None
        return self._client

    def remove(self) -> None:
        """Stops it."""
        with self._lock:
            self._removed = True
            if self._client is not None:
                self._client.close()
