"""The scripted agent: a list of steps in YAML, played on the real program through the display.

It is what golden paths and deliberate misdeeds are written in, and the reference for other agents. It knows where controls are from
the guest's probe, but acts only through the display, like every agent. A step that cannot be done because the screen is not
as the script expects ends the run with the status ``ui_not_as_expected``.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictInt,
    StrictStr,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from contracts.load import ContractError, read_model
from contracts.schema import Duration, Model, Regex, Text
from prompts.render import fill
from runner.agents.base import (
    AgentInfrastructureError,
    AgentReport,
    AgentSpecError,
    AgentTask,
    Happening,
    PlannedAgent,
    Status,
)
from runner.display.keysyms import parse_chord
from runner.display.rfb import RfbClient
from runner.findings import Finding
from runner.guests.base import GuestLost, Unreadable
from runner.guests.probe import ControlEntry, WindowEntry
from runner.record import Intended, OutcomeName

T = TypeVar("T")
_PAUSE = 0.03
_MNEMONIC = re.compile(r"&(.|$)")
_WITH_MNEMONICS = {"button", "static"}
"""Classes whose texts mark a letter with ``&``, which people do not see; ``&&`` is one that they do."""


TitleMatcher = Annotated[
    Annotated[StrictStr, Tag("literal")] | Annotated[Regex, Tag("regex")],
    Discriminator(lambda value: "literal" if isinstance(value, str) else "regex"),
]
"""A text, or ``{regex: …}``: what windows and controls are told by."""


def _chord(value: str) -> str:
    try:
        parse_chord(value)
    except ValueError as error:
        raise PydanticCustomError("press", "{why}", {"why": str(error)}) from None
    return value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise PydanticCustomError("regex", "not a regular expression: {why}", {"why": str(error)}) from None
    return value


class ControlRef(Model):
    """A control of a window: by its text, its number, or its class; what is given must all hold."""

    text: TitleMatcher | None = None
    id: StrictInt | None = None
    class_: Text | None = Field(default=None, alias="class")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.text is None and self.id is None and self.class_ is None:
            raise PydanticCustomError("control", "a control needs `text`, `id` or `class`")
        return self


class WaitStep(Model):
    """Waits for a window, or for a control in it; ``gone`` waits until it is no longer there."""

    window: TitleMatcher
    control: ControlRef | None = None
    gone: bool = False
    timeout: Duration = 10.0


class ClickStep(Model):
    """Clicks on a control's middle, or on a point of the screen."""

    window: TitleMatcher | None = None
    control: ControlRef | None = None
    at: tuple[StrictInt, StrictInt] | None = None
    double: bool = False
    timeout: Duration = 10.0

    @model_validator(mode="after")
    def _one_target(self) -> Self:
        if (self.at is None) == (self.window is None or self.control is None):
            raise PydanticCustomError("click", "give either `at: [x, y]`, or `window` and `control`")
        return self


class DateText(Model):
    """An ISO date typed in another form, e.g. ``{date: '{{birth_date}}', as: '%d.%m.%Y'}``."""

    date: StrictStr
    as_: Text = Field(alias="as")


TypedText = Annotated[
    Annotated[StrictStr, Tag("text")] | Annotated[DateText, Tag("date")],
    Discriminator(lambda value: "text" if isinstance(value, str) else "date"),
]


class ReadStep(Model):
    """Keeps a control's text under a name, to be returned.

    ``regex`` takes its first group, or the whole match; ``date`` reads it as a date of that form, which is kept in ISO form.
    """

    window: TitleMatcher
    control: ControlRef
    as_: Text = Field(alias="as")
    regex: Annotated[Text, AfterValidator(_pattern)] | None = None
    date: Text | None = None
    timeout: Duration = 10.0


class ReportStep(Model):
    """Ends the script."""

    status: Literal["success", "failed", "ui_not_as_expected"]
    message: StrictStr = ""
    returns: dict[str, Any] = Field(default_factory=dict)
    """Values to return beside those that were read."""


class Step(Model):
    """One step: exactly one of the keys."""

    wait: WaitStep | None = None
    press: Annotated[Text, AfterValidator(_chord)] | None = None
    type: TypedText | None = None
    click: ClickStep | None = None
    pause: Duration | None = None
    read: ReadStep | None = None
    report: Annotated[ReportStep, BeforeValidator(lambda v: {"status": v} if isinstance(v, str) else v)] | None = None

    @model_validator(mode="after")
    def _one_action(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise PydanticCustomError(
                "step", "a step needs exactly one of wait, press, type, click, pause, read and report"
            )
        return self


class IntendedOutcome(Model):
    """What the script's run must be classified as."""

    outcome: OutcomeName
    kind: Text | None = None


class Script(Model):
    """A whole script."""

    schema_: Literal[1] = Field(alias="schema")
    contract: Text
    title: Text
    intended: IntendedOutcome
    steps: list[Step] = Field(min_length=1, max_length=1_000)


class _OutOfTime(Exception):
    """The task's time is over, or the run was cancelled."""


class _NotAsExpected(Exception):
    """The screen is not what the script expects."""


class ScriptedAgent:
    """Plays one script (see :class:`runner.agents.base.Agent`)."""

    def __init__(self, script: Script, name: str) -> None:
        self.name = name
        self._script = script

    def run(self, task: AgentTask) -> AgentReport:
        """See :meth:`runner.agents.base.Agent.run`."""
        with RfbClient.connect(task.display) as screen:
            return _Player(task, screen).play(self._script)


class _Player:
    def __init__(self, task: AgentTask, screen: RfbClient) -> None:
        self._task = task
        self._screen = screen
        self._begun = time.monotonic()
        self._timeline: list[Happening] = []
        self._returned: dict[str, Any] = {}

    def play(self, script: Script) -> AgentReport:
        for number, step in enumerate(script.steps, 1):
            if time.monotonic() >= self._task.deadline or self._task.cancelled.is_set():
                return self._report("timeout", f"stopped before step {number}")
            if step.report is not None:
                said = {key: self._filled(value) for key, value in step.report.returns.items()}
                self._returned |= said
                return self._report(step.report.status, self._fill(step.report.message))
            try:
                self._do(step)
            except _OutOfTime:
                return self._report("timeout", f"step {number} was still waiting when the time was over")
            except (Unreadable, GuestLost) as error:
                raise AgentInfrastructureError(f"the machine's windows could not be listed: {error}") from None
            except _NotAsExpected as error:
                self._say(f"step {number}: {error}", screenshot=True)
                return self._report("ui_not_as_expected", f"step {number}: {error}")
        return self._report("failed", "the script ended without a report")

    def _report(self, status: Status, message: str) -> AgentReport:
        return AgentReport(status, self._returned or None, message, {}, tuple(self._timeline))

    def _fill(self, text: str) -> str:
        return fill(text, self._task.parameters)

    def _filled(self, value: Any) -> Any:
        match value:
            case str():
                return self._fill(value)
            case dict():
                return {key: self._filled(item) for key, item in value.items()}
            case list():
                return [self._filled(item) for item in value]
            case _:
                return value

    def _say(self, text: str, *, screenshot: bool = False) -> None:
        picture = None
        if screenshot:
            buffer = io.BytesIO()
            self._screen.screenshot().save(buffer, "PNG")
            picture = buffer.getvalue()
        self._timeline.append(Happening(time.monotonic() - self._begun, text, picture))

    def _do(self, step: Step) -> None:
        if step.wait is not None:
            self._wait(step.wait)
        elif step.press is not None:
            self._say(f"press {step.press}")
            self._screen.press(step.press)
        elif step.type is not None:
            text = self._text(step.type)
            self._say(f"type {text}")
            self._screen.type_text(text)
        elif step.click is not None:
            self._click(step.click)
        elif step.pause is not None:
            time.sleep(min(step.pause, max(0.0, self._task.deadline - time.monotonic())))
        elif step.read is not None:
            self._read(step.read)

    def _text(self, given: str | DateText) -> str:
        if isinstance(given, str):
            return self._fill(given)
        return date.fromisoformat(self._fill(given.date)).strftime(given.as_)

    def _wait(self, step: WaitStep) -> None:
        what = f"window {self._shown(step.window)}"
        self._say(f"wait for {what}{' to go' if step.gone else ''}")
        if step.gone:
            self._until(lambda: not self._found(step.window, step.control), f"{what} is still there", step.timeout)
        else:
            self._locate(step.window, step.control, step.timeout)

    def _click(self, step: ClickStep) -> None:
        if step.at is not None:
            x, y = step.at
        else:
            assert step.window is not None
            left, top, right, bottom = self._locate(step.window, step.control, step.timeout).rect
            x, y = (left + right) // 2, (top + bottom) // 2
        width, height = self._screen.size
        if not (0 <= x < width and 0 <= y < height):
            raise _NotAsExpected(f"the point {x}, {y} is not on the screen of {width} x {height}")
        self._say(f"click at {x}, {y}")
        self._screen.click(x, y, double=step.double)

    def _read(self, step: ReadStep) -> None:
        control = self._locate(step.window, step.control, step.timeout)
        text = control.text if isinstance(control, ControlEntry) else control.title
        if step.regex is not None:
            match = re.search(step.regex, (text or "")[:10_000])
            if match is None:
                raise _NotAsExpected(f"the control's text {text!r} does not hold {step.regex!r}")
            text = match[1] if match.re.groups else match[0]
        if step.date is not None:
            try:
                text = datetime.strptime(text or "", step.date).date().isoformat()  # noqa: DTZ007 - a date has no zone
            except ValueError:
                raise _NotAsExpected(f"the control's text {text!r} is no date of the form {step.date}") from None
        self._returned[step.as_] = text or ""
        self._say(f"read {step.as_}: {text}")

    def _locate(self, window: TitleMatcher, control: ControlRef | None, timeout: float) -> WindowEntry | ControlEntry:
        what = f"window {self._shown(window)}" + (f" with control {self._shown_control(control)}" if control else "")
        return self._until(lambda: self._found(window, control), f"{what} did not appear", timeout)[0]

    def _found(self, window: TitleMatcher, control: ControlRef | None) -> list[WindowEntry | ControlEntry]:
        there = [entry for entry in self._task.windows() if self._fits(window, entry.title)]
        if control is None:
            return list(there)
        return [child for entry in there for child in entry.controls if child.visible and self._is(control, child)]

    def _is(self, wanted: ControlRef, control: ControlEntry) -> bool:
        if wanted.id is not None and control.id != wanted.id:
            return False
        if wanted.class_ is not None and control.class_name.casefold() != wanted.class_.casefold():
            return False
        text = control.text or ""
        if control.class_name.casefold() in _WITH_MNEMONICS:
            text = _MNEMONIC.sub(r"\1", text)
        return wanted.text is None or self._fits(wanted.text, text)

    def _fits(self, wanted: TitleMatcher, text: str) -> bool:
        if isinstance(wanted, Regex):
            return re.fullmatch(wanted.regex, text[:10_000]) is not None
        return text == self._fill(str(wanted))

    def _shown(self, wanted: TitleMatcher) -> str:
        return f"/{wanted.regex}/" if isinstance(wanted, Regex) else repr(self._fill(str(wanted)))

    def _shown_control(self, control: ControlRef) -> str:
        return self._shown(control.text) if control.text is not None else str(control.id or control.class_)

    def _until(self, ask: Callable[[], T | None], otherwise: str, timeout: float) -> T:
        deadline = time.monotonic() + timeout
        while True:
            found = ask()
            if found:
                return found
            if time.monotonic() >= self._task.deadline or self._task.cancelled.is_set():
                raise _OutOfTime
            if time.monotonic() >= deadline:
                raise _NotAsExpected(otherwise)
            time.sleep(_PAUSE)


def plan_scripts(argument: str) -> list[PlannedAgent]:
    """The agents for ``scripted:<file or folder>``; of a folder every script in it and below.

    Raises:
        AgentSpecError: There is no script, or one is not valid.
    """
    if not argument:
        raise AgentSpecError("say which script: scripted:<file or folder>")
    path = Path(argument)
    files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise AgentSpecError(f"there is no script at {argument}")
    planned = []
    for file in files:
        try:
            script = read_model(file, Script)
        except ContractError as error:
            raise AgentSpecError(str(error)) from None
        intended = Intended(outcome=script.intended.outcome, kind=script.intended.kind)
        agent = ScriptedAgent(script, f"scripted {file.stem}")
        planned.append(PlannedAgent(f"scripted:{file}", agent, script.contract, intended))
    return planned


def doctor(argument: str) -> list[Finding]:
    """Whether the scripts can be read."""
    try:
        planned = plan_scripts(argument)
    except AgentSpecError as error:
        return [Finding("agent: scripts", False, str(error), "correct the script, or name another file or folder")]
    contracts = ", ".join(sorted({str(item.contract) for item in planned}))
    return [Finding("agent: scripts", True, f"scripts: {len(planned)}, for {contracts}")]
