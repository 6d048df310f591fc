"""One run that is to be made, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contracts.load import LoadedContract
from contracts.schema import Read
from prompts.render import Condition
from runner.agents.base import PlannedAgent


@dataclass(frozen=True)
class RunPlan:
    """One run that is to be made: which agent on which contract under which prompt condition."""

    contract: LoadedContract
    agent: PlannedAgent
    condition: Condition
    trial: int = 1
    attempt: int = 1
    on_image: str | None = None
    """Another image than the contract's."""
    prompts: Path | None = None
    """A folder of prompts that is looked at before all others."""
    read: Read | None = None
    """Another way of reading the state than the contract's."""
    audit: bool = True
    """Whether the whole disk is looked at for changes outside of what the contract observes, where the machine allows it."""

    @property
    def image(self) -> str:
        """The name of the image that the machine is made from."""
        return self.on_image or self.contract.contract.image
