"""A contract's set-up steps: what they put into a machine, and doing them through its guest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

from contracts.schema import CopyIn, SetupStep
from runner.guests.base import Guest, Unreadable
from runner.machines.base import SetupError


@dataclass(frozen=True)
class SetUp:
    """Set-up steps with the contents of the files that they copy in.

    Attributes:
        steps: In the order in which they are done.
        contents: What each puts into the guest; empty for steps that run a program.
    """

    steps: tuple[SetupStep, ...]
    contents: tuple[bytes, ...]

    @classmethod
    def of(cls, steps: Sequence[SetupStep], folder: Path) -> SetUp:
        """Reads what the steps copy in.

        Args:
            steps: The contract's steps.
            folder: Where files named by the steps lie.

        Raises:
            SetupError: A file is not there, or lies outside the folder.
        """
        return cls(tuple(steps), tuple(_content(step, folder) for step in steps))

    def digest(self) -> str:
        """SHA-256, in hexadecimal, of the steps and of what they copy in."""
        digest = hashlib.sha256()
        for step, data in zip(self.steps, self.contents, strict=True):
            digest.update(step.model_dump_json(by_alias=True).encode() + b"\0" + hashlib.sha256(data).digest())
        return digest.hexdigest()

    def apply(self, guest: Guest) -> None:
        """Does the steps in a machine.

        Raises:
            SetupError: A step failed.
            GuestLost: The machine is gone.
        """
        for step, data in zip(self.steps, self.contents, strict=True):
            try:
                if isinstance(step, CopyIn):
                    guest.write(PureWindowsPath(step.to), data)
                    continue
                done = guest.run(step.run, timeout=step.timeout)
            except (Unreadable, TimeoutError) as error:
                raise SetupError(f"set-up: {error}") from None
            if done.status != 0:
                raise SetupError(f"set-up: {step.run[0]} ended with status {done.status}")


def _content(step: SetupStep, folder: Path) -> bytes:
    if not isinstance(step, CopyIn):
        return b""
    if step.text is not None:
        return step.text.encode(step.encoding)
    source = (folder / str(step.copy_)).resolve()
    if not source.is_relative_to(folder.resolve()) or not source.is_file():
        raise SetupError(f"set-up: {step.copy_!r} is no file within {folder}")
    return source.read_bytes()
