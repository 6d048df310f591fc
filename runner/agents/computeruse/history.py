"""What was said so far, and which pictures of it a request still shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from runner.agents.computeruse.actions import Proposal
from runner.agents.computeruse.prices import Usage
from runner.agents.computeruse.view import Picture, View

OMITTED = "[an earlier screenshot, no longer shown]"


@dataclass(frozen=True, slots=True)
class SafetyCheck:
    """Something that the provider wants a person to confirm before an action is done."""

    id: str
    code: str
    message: str


@dataclass(frozen=True)
class Call:
    """One tool call of a reply.

    Attributes:
        id: How the provider pairs its result with it.
        tool: ``computer``, ``extraction``, ``ui_not_as_expected``, or ``unknown``.
        name: The name that the provider used, needed for the result.
        actions: For ``computer``: what is to be done, in order.
        arguments: For the other tools: what they were given, not checked.
        safety: What is to be confirmed first.
        trouble: Why the call cannot be read, if it cannot.
        repairs: What had to be put right to read it.
    """

    id: str
    tool: Literal["computer", "extraction", "ui_not_as_expected", "unknown"]
    name: str
    actions: tuple[Proposal, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)
    safety: tuple[SafetyCheck, ...] = ()
    trouble: str = ""
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply:
    """A model's reply.

    Attributes:
        raw: It in the provider's own form, to be sent back with the next request.
        text: Its words.
        calls: Its tool calls, in order.
        usage: What it cost in tokens.
        stop: ``done``: the model has said what it wanted; ``cut``: the length limit ended it; ``refused``: it declines the task;
            ``unusable``: what came is no reply.
        why: More about ``refused`` and ``unusable``.
    """

    raw: Any
    text: str
    calls: tuple[Call, ...]
    usage: Usage
    stop: Literal["done", "cut", "refused", "unusable"] = "done"
    why: str = ""


@dataclass(frozen=True)
class Answer:
    """The result of one call.

    Attributes:
        call: The call.
        text: The result in words.
        error: The call failed.
        skipped: It was not done because an earlier one of the same reply failed.
        picture: The screen after it.
        acknowledged: Its safety checks were confirmed.
    """

    call: Call
    text: str
    error: bool = False
    skipped: bool = False
    picture: Picture | None = None
    acknowledged: bool = False


@dataclass(frozen=True)
class Turn:
    """A reply, and what it was answered with: results, or words where it called no tool."""

    reply: Reply
    answers: tuple[Answer, ...] = ()
    words: str = ""


@dataclass
class History:
    """A whole conversation. Pictures are bounded: only the newest are sent again, in the place of others a remark.

    Attributes:
        system: What the model is told about its work.
        task: What it has to do.
        first: The screen at the beginning.
        view: How the model's places lie on the screen, now.
        images: How many pictures a request may hold.
        turns: What followed.
    """

    system: str
    task: str
    first: Picture
    view: View
    images: int
    turns: list[Turn] = field(default_factory=list)

    def shown(self) -> frozenset[int]:
        """The numbers of the pictures that the next request shows: 0 is the first one, then those of the answers in order."""
        count = 1 + sum(answer.picture is not None for turn in self.turns for answer in turn.answers)
        return frozenset(range(max(0, count - self.images), count))

    def numbered(self) -> list[tuple[Turn, tuple[tuple[Answer, Picture | None], ...]]]:
        """The turns, each answer with its picture where that is still shown."""
        shown, number, result = self.shown(), 0, []
        for turn in self.turns:
            answers: list[tuple[Answer, Picture | None]] = []
            for answer in turn.answers:
                if answer.picture is not None:
                    number += 1
                answers.append((answer, answer.picture if answer.picture is not None and number in shown else None))
            result.append((turn, tuple(answers)))
        return result

    @property
    def first_shown(self) -> Picture | None:
        """The first picture, while it is still shown."""
        return self.first if 0 in self.shown() else None
