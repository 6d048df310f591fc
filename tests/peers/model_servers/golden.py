"""The scripted model that does a golden path on the real program.

Its acts come from ``recordings/<application>/<task>/golden.yaml``: keys and texts as they stand there. A step that names a control
becomes a click into the control's middle; where that is, and whether what a step waits for is there, it learns from the
guest's list of windows: the side channel, for it sees no pixels. So these runs show that requests, actions, keys and coordinates reach
the program and that reports are judged, and not that a model could find its way by looking.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import regex
from ruamel.yaml import YAML

from prompts.render import fill
from runner.guests.probe import ControlEntry, WindowEntry
from tests.peers.model_servers.base import Act, Seen, act

_PATIENCE = 20.0


class Lost(Exception):
    """What the golden path expects is not there."""


class GoldenModel:
    """Plays one golden path, one reply at a time; what needs no look in between goes into one reply."""

    def __init__(
        self,
        script: Path,
        parameters: Mapping[str, Any],
        windows: Callable[[], tuple[WindowEntry, ...]],
        *,
        batch: int = 1,
    ) -> None:
        """Reads the script.

        Args:
            script: The golden path.
            parameters: The contract's.
            windows: The side channel.
            batch: The most acts of one reply.
        """
        self._steps = list(YAML(typ="safe", pure=True).load(script.read_text(encoding="utf-8"))["steps"])
        self._parameters = parameters
        self._windows = windows
        self._batch = batch
        self._values: dict[str, str] = {}

    def __call__(self, seen: Seen) -> list[Act]:
        acts: list[Act] = []
        try:
            while self._steps and len(acts) < self._batch:
                step = self._steps[0]
                if acts and not ("press" in step or "type" in step):
                    break  # what follows looks at the screen first
                self._steps.pop(0)
                acts += self._act(step)
        except Lost as error:
            return [act("mismatch", reasoning=str(error))]
        return acts or [act("mismatch", reasoning="the script is over")]

    def _act(self, step: Mapping[str, Any]) -> list[Act]:
        ((kind, about),) = step.items()
        match kind:
            case "wait":
                self._wait(about)
                return []
            case "press":
                return [act("key", keys=about)]
            case "type":
                return [act("type", text=self._text(about))]
            case "click":
                x, y = about["at"] if "at" in about else self._middle(about)
                return [act("click", x=x, y=y, count=2 if about.get("double") else 1)]
            case "read":
                self._read(about)
                return []
            case "report":
                assert about == "success", "golden paths succeed"
                return [act("extraction", data=self._values)]
        raise AssertionError(f"the stand-in does not know the step {kind}")

    def _text(self, given: Any) -> str:
        if isinstance(given, str):
            return fill(given, self._parameters)
        return date.fromisoformat(fill(given["date"], self._parameters)).strftime(given["as"])

    def _read(self, about: Mapping[str, Any]) -> None:
        found = self._wait(about)
        text = (found.text if isinstance(found, ControlEntry) else found.title) or "" if found else ""
        if "regex" in about:
            match = regex.search(about["regex"], text, timeout=5)
            if match is None:
                raise Lost(f"{text!r} does not hold {about['regex']}")
            text = match[0]
        if "date" in about:
            text = datetime.strptime(text, about["date"]).date().isoformat()  # noqa: DTZ007 - a date has no zone
        self._values[about["as"]] = text

    def _middle(self, about: Mapping[str, Any]) -> tuple[int, int]:
        found = self._wait(about)
        assert found is not None
        left, top, right, bottom = found.rect
        return (left + right) // 2, (top + bottom) // 2

    def _wait(self, about: Mapping[str, Any]) -> WindowEntry | ControlEntry | None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            there = [entry for entry in self._windows() if self._fits(about["window"], entry.title)]
            found: list[Any] = there
            if "control" in about:
                found = [c for entry in there for c in entry.controls if c.visible and self._is(about["control"], c)]
            if bool(found) != bool(about.get("gone")):
                return found[0] if found else None
            time.sleep(0.02)
        raise Lost(f"{about} did not come true")

    def _is(self, wanted: Mapping[str, Any], control: ControlEntry) -> bool:
        return (
            ("id" not in wanted or wanted["id"] == control.id)
            and ("class" not in wanted or wanted["class"].casefold() == control.class_name.casefold())
            and ("text" not in wanted or self._fits(wanted["text"], control.text or ""))
        )

    def _fits(self, wanted: Any, text: str) -> bool:
        if isinstance(wanted, Mapping):
            return regex.fullmatch(wanted["regex"], text, timeout=5) is not None
        return bool(text == fill(str(wanted), self._parameters))
