"""Effects: the rules about what a run changes."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from contracts.schema.base import Because, Count, Model, Name, Number, one_or_list
from contracts.schema.content import Content
from contracts.schema.matchers import Fields
from contracts.schema.observables import VERBS
from contracts.schema.paths import Glob


class Effect(Because):
    """One rule about changes: a verb with its observable, and what must hold of the change.

    Exactly one of the verb keys is given; :attr:`verb` and :attr:`observable` tell which.
    """

    inserted: Name | None = None
    updated: Name | None = None
    deleted: Name | None = None
    undeleted: Name | None = None
    purged: Name | None = None
    created: Name | None = None
    dropped: Name | None = None
    restructured: Name | None = None
    modified: Name | None = None
    renamed: Name | None = None
    attributes: Name | None = None
    opened: Name | None = None
    closed: Name | None = None
    retitled: Name | None = None
    present: Name | None = None
    absent: Name | None = None

    name: Name | None = None
    where: Fields = Field(default_factory=dict)
    """Selects the changes spoken of: by the values before for updated, modified, deleted, undeleted, purged, closed and
    retitled; by those after for the rest."""
    fields: Fields = Field(default_factory=dict)
    path: Glob | None = None
    r"""Files: a glob relative to the tree's root; for ``renamed`` the new name. Registry: a glob relative to the observed
    key, values as ``Key\@Name``."""
    from_: Glob | None = Field(default=None, alias="from")
    """``renamed`` only: a glob for the old name."""
    content: (
        Annotated[Annotated[Content, Tag("one")] | Annotated[list[Content], Tag("list")], Discriminator(one_or_list)]
        | None
    ) = None
    """What a file holds afterwards; of a list every rule must hold."""
    count: Count | None = None
    when: Literal["success", "failure"] | None = None
    weight: Annotated[Number, Field(gt=0)] = Decimal(1)

    @model_validator(mode="after")
    def _one_verb(self) -> Self:
        given = [verb for verb in VERBS if getattr(self, verb) is not None]
        if len(given) != 1:
            found = ", ".join(f"`{verb}`" for verb in given) or "none"
            raise PydanticCustomError(
                "verb", "an effect needs exactly one verb with its observable, such as `inserted: patients`; found: {found}",
                {"found": found},
            )  # fmt: skip
        return self

    @property
    def verb(self) -> str:
        """The verb given."""
        return next(verb for verb in VERBS if getattr(self, verb) is not None)

    @property
    def observable(self) -> str:
        """The observable's name beside the verb."""
        return str(getattr(self, self.verb))

    @property
    def contents(self) -> list[Content]:
        """The rules about the content, none, one or several."""
        if self.content is None:
            return []
        return self.content if isinstance(self.content, list) else [self.content]

    def applies(self, *, success: bool) -> bool:
        """Whether the effect holds for a run whose agent reported success (or anything else)."""
        return self.when is None or (self.when == "success") == success


class Effects(Model):
    """The three lists of rules."""

    expect: list[Effect] = Field(default_factory=list, max_length=1_000)
    allow: list[Effect] = Field(default_factory=list, max_length=1_000)
    forbid: list[Effect] = Field(default_factory=list, max_length=1_000)
