"""The contract as a whole, with its parameters and limits."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictStr,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.schema.base import Duration, Model, Name, Reason, Scalar, Text, one_or_list
from contracts.schema.effects import Effects
from contracts.schema.observables import Observable
from contracts.schema.returns import Returns
from contracts.schema.stages import Evidence
from contracts.schema.states import GoalState, InitialState

ParameterValue = Annotated[
    Annotated[Scalar, Tag("one")] | Annotated[list[StrictStr], Tag("list")], Discriminator(one_or_list)
]
"""A text, a number, a truth value or a list of texts."""


SHORTEST_SECRET = 4
"""Characters of the shortest text that can be kept out of records without spoiling them."""
TAKEN_OUT = "•••"
"""What stands for a secret in whatever is kept, so also in the stored contract."""


class Parameter(Model):
    """A parameter with more than its value: ``{value: …, secret: true}``."""

    value: ParameterValue
    secret: StrictBool = False
    unchecked: Reason | None = None
    """Why no rule of the contract looks at it."""

    @model_validator(mode="after")
    def _can_be_kept_secret(self) -> Self:
        texts = self.value if isinstance(self.value, list) else [self.value]
        if self.secret and not all(map(_can_be_taken_out, texts)):
            raise PydanticCustomError(
                "secret",
                "a secret is a text of at least {count} characters: what is shorter, or a number, stands in too many places to be "
                "taken out of them; a number in quotes is a text",
                {"count": SHORTEST_SECRET},
            )
        return self


def _can_be_taken_out(value: object) -> bool:
    return isinstance(value, str) and (len(value) >= SHORTEST_SECRET or value == TAKEN_OUT)


def _parameter_tag(value: Any) -> str:
    return "described" if isinstance(value, Mapping | Parameter) else "plain"


AnyParameter = Annotated[
    Annotated[Parameter, Tag("described")] | Annotated[ParameterValue, Tag("plain")], Discriminator(_parameter_tag)
]


class GoalOnFailure(Model):
    """``on_failure: {goal: <why>}``: a run that did everything right is accepted even if it reports a failure."""

    goal: Reason


def _on_failure_tag(value: Any) -> str:
    return "reasoned" if isinstance(value, Mapping | GoalOnFailure) else "word"


OnFailure = Annotated[
    Annotated[Literal["unchanged", "goal"], Tag("word")] | Annotated[GoalOnFailure, Tag("reasoned")],
    Discriminator(_on_failure_tag),
]


class Limits(Model):
    """Bounds of a run."""

    timeout: Duration = 900.0
    """How long the agent may work, in seconds."""
    quiet: Duration = 3.0
    """How long nothing that the contract accounts for may have changed until the state counts as final (CONTRACT.md section 7)."""
    settle: Duration = 15.0
    """How long after the agent was cut off the state is waited for to become quiet; never shorter than :attr:`quiet`."""
    snapshot: Duration = 120.0
    """How long reading one whole snapshot may take, every repetition included."""

    @property
    def settle_within(self) -> float:
        """Seconds after which the state is read, quiet or not."""
        return max(self.settle, self.quiet)


def _integer(value: Any) -> Any:
    if type(value) is not int:  # true and 1.0 are equal to 1
        raise PydanticCustomError("integer", "this must be the number `1`")
    return value


Read = Literal["live", "disk", "shutdown", "power_off"]
"""How files and tables are read: live through the guest; from the disk of the machine, frozen for a moment; from its disk after it
was shut down, or switched off (for guests without an agent that could flush it). Windows and registry are always read live."""


class TaskContract(Model):
    """One task, its initial and goal state, and the rules by which a run of it is judged."""

    schema_: Annotated[Literal[1], BeforeValidator(_integer)] = Field(alias="schema")
    id: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$", max_length=100)]
    title: Text
    application: Text
    domain: Text
    state_changing: StrictBool
    externally_verified: StrictBool = False
    image: Annotated[str, StringConstraints(strict=True, pattern=r"^[a-z0-9]+(?:[.-][a-z0-9]+)*$", max_length=100)]
    instruction: Text
    parameters: dict[Name, AnyParameter] = Field(default_factory=dict, max_length=200)
    initial_state: InitialState
    goal_state: GoalState
    observe: dict[Name, Observable] = Field(min_length=1, max_length=200)
    effects: Effects = Effects()
    on_failure: OnFailure = "unchanged"
    returns: Returns | None = None
    stages: dict[Name, Evidence] = Field(default_factory=dict, max_length=50)
    read: Read = "live"
    """How files and tables are read."""
    limits: Limits = Limits()

    @property
    def accepts_goal_on_failure(self) -> bool:
        """Whether a finished task reported as a failure is a valid failure."""
        return self.on_failure != "unchanged"

    @property
    def parameter_values(self) -> dict[str, bool | int | Decimal | str | list[str]]:
        """Every parameter with its plain value, secrets included."""
        return {k: v.value if isinstance(v, Parameter) else v for k, v in self.parameters.items()}

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that must not appear in any output."""
        values = [p.value for p in self.parameters.values() if isinstance(p, Parameter) and p.secret]
        return tuple(
            item
            for value in values
            for item in (value if isinstance(value, list) else [value])
            if isinstance(item, str)
        )
