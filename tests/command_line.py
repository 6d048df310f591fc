"""The command line as a test calls it: in its own process, or in this one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner import cli

ROOT = Path(__file__).resolve().parents[1]
"""Where the project lies."""

Call = Callable[..., tuple[int, str, str]]
"""Runs ``legacyproof`` with arguments; its exit status, standard output and standard error."""


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """A way to run the command in this process."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["legacyproof", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            cli.main()
        told = capsys.readouterr()
        return int(left.value.code or 0), told.out, told.err

    return call
