"""One run: show the screen, ask the model, check and do what it wants, show the screen again; until it reports or the time is over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from PIL import Image

from runner.agents.base import AgentInfrastructureError, AgentReport, AgentTask, Happening, Status
from runner.agents.computeruse.actions import Action, Malformed, check
from runner.agents.computeruse.audit import Audit, LoopWatch
from runner.agents.computeruse.hands import Hands, OutOfTime
from runner.agents.computeruse.history import Answer, Call, History, Reply, Turn
from runner.agents.computeruse.prices import ModelPrice, PriceTable, cost
from runner.agents.computeruse.providers.base import ProviderTrouble, Session
from runner.agents.computeruse.scrub import scrubbed
from runner.agents.computeruse.settings import Settings
from runner.agents.computeruse.tools import SYSTEM, extracted
from runner.agents.computeruse.view import OutOfBounds, Picture, View
from runner.display.errors import DisplayError
from runner.display.rfb import RfbClient

_MARGIN = 1.0
"""Seconds before the deadline at which the loop ends by itself, so that its report still arrives."""
_LONGEST_WAIT = 60.0
_PATIENCE = 3
"""Replies in a row that are none, after which the run has failed."""
_SKIPPED = "Not executed: an earlier call in this reply failed."
_CUT = "Your reply was cut off at its length limit and nothing of it was done. Go on with one tool call, without explanations."
_NUDGE = "Your reply could not be used. Go on with a tool call."

_REMEDIES: Mapping[str, str] = {
    "auth": "check the key in {variables}",
    "quota": "the account is out of credit or quota",
    "model": "check the model's name and that the account may use it",
    "rate": "the provider allows no more requests now; run fewer machines at a time",
    "unavailable": "the provider cannot be reached or is overloaded, or its address leads elsewhere",
    "setting": "the model does not take one of the settings",
    "request": "the provider does not understand the request; try another `tool` in a settings file",
}


class _Done(Exception):
    """The run is over, with this report."""

    def __init__(self, status: Status, message: str, returned: Any = None) -> None:
        super().__init__(message)
        self.status: Status = status
        self.returned = returned


@dataclass
class _Totals:
    """What the replies took so far."""

    replies: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    written: int = 0
    untold: int = 0
    dollars: float = 0.0

    def add(self, reply: Reply, price: ModelPrice | None) -> None:
        self.replies += 1
        if not reply.usage.known:
            self.untold += 1
            return
        self.input += reply.usage.input
        self.output += reply.usage.output
        self.cached += reply.usage.cached
        self.written += reply.usage.written
        if price is not None:
            self.dollars += cost(price, reply.usage)


@dataclass
class Loop:
    """One run of a model on one task.

    Attributes:
        settings: The model and its knobs.
        prices: What it costs.
        session: The connection to its provider.
        screen: The display.
        task: What it has to do.
    """

    settings: Settings
    prices: PriceTable
    session: Session
    screen: RfbClient
    task: AgentTask
    _audit: Audit = field(default_factory=Audit)
    _totals: _Totals = field(default_factory=_Totals)
    _timeline: list[Happening] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun = time.monotonic()
        margin = min(_MARGIN, self.task.timeout / 20)
        self._deadline = min(self.task.deadline - margin, self._begun + self.settings.timeout)
        self._hands = Hands(self.screen, self._deadline, self.task.cancelled)
        self._watch = LoopWatch(self.settings.loop_after)
        self._temperature = None if self.settings.temperature == "default" else self.settings.temperature
        self._price = self.prices.find(self.settings.provider, self.settings.model)
        self._secrets = tuple(value for value in (self.settings.key(), *self.task.secrets) if value)
        self._unusable = 0
        self._shot = Image.new("RGB", (1, 1))

    def run(self) -> AgentReport:
        """Does the task.

        Raises:
            AgentInfrastructureError: The provider gave no reply, or the display was lost.
        """
        knobs = ", ".join(f"{name} {value:g}" for name, value in self.settings.recorded().items())
        self._say(f"{self.settings.shown_name}: {self.session.about}; {knobs}")
        try:
            self._work()
        except _Done as done:
            return self._report(done.status, str(done), done.returned)
        except OutOfTime:
            return self._report("timeout", "the time was over")
        except DisplayError as error:
            if self.task.cancelled.is_set() or time.monotonic() >= self._deadline:
                return self._report("timeout", "the time was over")
            raise AgentInfrastructureError(f"the display was lost: {error}{self._so_far()}") from None
        finally:
            self._hands.let_go()

    def _work(self) -> NoReturn:
        picture, view = self._look()
        history = History(SYSTEM, self.task.prompt, picture, view, self.settings.images)
        for _ in range(self.settings.turns):
            reply = self._ask(history)
            self._totals.add(reply, self._price)
            if words := self._clean(reply.text):
                self._say(f"says: {words}")
            history.turns.append(self._turn(reply, history))
        raise _Done("timeout", f"the model did not finish within {self.settings.turns} replies")

    # -- asking ---------------------------------------------------------------------------------------------------------

    def _ask(self, history: History) -> Reply:
        """The model's reply. Sending a request again is harmless: nothing of its reply has been done yet."""
        repeated = 0
        while True:
            self._hands.ensure_time()
            left = self._deadline - time.monotonic()
            timeout = min(self.settings.request_timeout, left)
            try:
                return self.session.ask(history, timeout=timeout, temperature=self._temperature)
            except ProviderTrouble as trouble:
                told = self._clean(str(trouble))
                if trouble.setting == "temperature" and self._temperature is not None:
                    self._temperature = None
                    self._audit.note("settings_dropped")
                    self._say(f"the model takes no temperature; asked without: {told}")
                    continue
                if trouble.kind in ("limit", "refused"):
                    self._say(f"{trouble.kind}: {told}")
                    why = (
                        "the conversation is too long for the model"
                        if trouble.kind == "limit"
                        else "the provider declined"
                    )
                    raise _Done("failed", f"{why}: {told}") from None
                if trouble.slow and not repeated and timeout == left:
                    raise OutOfTime from None  # no outage: the model was at work when the time was over
                wait = trouble.wait if trouble.wait is not None else self.settings.retry_wait * 2**repeated
                wait = min(wait, _LONGEST_WAIT)
                may_pass = trouble.kind in ("unavailable", "rate") and repeated < self.settings.retries
                if not may_pass or time.monotonic() + wait >= self._deadline:
                    raise self._outage(trouble.kind, told) from None
                repeated += 1
                self._audit.note("requests_repeated")
                self._say(f"asked again in {wait:g} s: {told}")
                self._hands.pause(wait)

    def _outage(self, kind: str, told: str) -> AgentInfrastructureError:
        remedy = _REMEDIES[kind].format(variables=" or ".join(self.settings.key_variables()))
        return AgentInfrastructureError(
            f"{self.settings.shown_name}: {told} ({remedy}){self._so_far()}", lasting=kind in ("auth", "quota")
        )

    def _so_far(self) -> str:
        return f"; after {self._totals.replies} replies" if self._totals.replies else ""

    # -- doing ----------------------------------------------------------------------------------------------------------

    def _turn(self, reply: Reply, history: History) -> Turn:
        """Does what a reply wants and gives what it is answered with.

        Raises:
            _Done: The reply ends the run.
        """
        if reply.stop == "refused":
            raise _Done("failed", f"the model refused: {self._clean(reply.why or reply.text)}")
        empty = not reply.calls and not reply.text.strip()
        if reply.stop in ("cut", "unusable") or empty:
            return self._not_usable(reply)
        if not reply.calls:
            raise _Done("failed", f"the model ended without reporting success: {self._clean(reply.text, 2000)}")
        self._unusable = 0
        before, answers, done = self._shot, [], []
        failed = False
        for call in reply.calls:
            answer, actions = self._answer(call, history, skip=failed)
            answers.append(answer)
            done += actions
            failed = failed or answer.error
        self._watch_for_loops(tuple(done), before)
        return Turn(reply, self._with_picture(answers, history))

    def _not_usable(self, reply: Reply) -> Turn:
        """Answers a reply of which nothing can be done."""
        cut = reply.stop == "cut"
        self._audit.note("replies_cut" if cut else "replies_unusable")
        self._say(
            "the reply was cut off" if cut else f"the reply cannot be used: {self._clean(reply.why) or 'it is empty'}"
        )
        self._unusable += 1
        if self._unusable >= _PATIENCE:
            raise _Done("failed", f"{_PATIENCE} replies in a row could not be used")
        for call in reply.calls:
            for _ in call.actions:
                self._audit.action("skipped")
        words = _CUT if cut else _NUDGE
        answers = tuple(Answer(call, words, error=True, skipped=True) for call in reply.calls)
        return Turn(reply, answers, words="" if answers else words)

    def _answer(self, call: Call, history: History, *, skip: bool) -> tuple[Answer, list[Action]]:
        if skip:
            for _ in call.actions:
                self._audit.action("skipped")
            return Answer(call, _SKIPPED, error=True, skipped=True), []
        match call.tool:
            case "computer":
                return self._operate(call, history)
            case "extraction":
                return self._extract(call), []
            case "ui_not_as_expected":
                reasoning = call.arguments.get("reasoning")
                said = reasoning if isinstance(reasoning, str) else "no reason was given"
                raise _Done("ui_not_as_expected", self._clean(said, 2000))
        self._audit.note("unknown_tools")
        why = call.trouble or "there is no such tool"
        self._say(f"unknown tool {self._clean(call.name, 60)!r}: {why}")
        return Answer(call, f"{call.name[:60]!r} cannot be called: {why}", error=True), []

    def _operate(self, call: Call, history: History) -> tuple[Answer, list[Action]]:
        if call.trouble:
            self._audit.action("malformed")
            self._say(f"malformed: {self._clean(call.trouble)}")
            return Answer(call, f"The action failed: {call.trouble}", error=True), []
        acknowledged = self._confirm(call)
        done: list[Action] = []
        texts = []
        for number, proposal in enumerate(call.actions):
            try:
                checked = check(proposal, history.view, self._hands.pointer)
            except (Malformed, OutOfBounds) as error:
                fate = "malformed" if isinstance(error, Malformed) else "out_of_bounds"
                self._audit.action("malformed" if isinstance(error, Malformed) else "out_of_bounds")
                for _ in call.actions[number + 1 :]:
                    self._audit.action("skipped")
                told = self._clean(str(error))
                self._say(f"{fate.replace('_', ' ')}: {self._clean(proposal.kind, 40)}: {told}")
                return Answer(call, f"The action failed: {told}", error=True, acknowledged=acknowledged), done
            action, repairs = checked.action, (*checked.repairs, *(call.repairs if number == 0 else ()))
            self._say(action.shown() + (f" (repaired: {', '.join(repairs)})" if repairs else ""))
            self._hands.do(action)
            self._audit.action("executed", repairs)
            done.append(action)
            if action.kind == "cursor_position":
                texts.append("X={},Y={}".format(*history.view.told(self._hands.pointer)))
        answer = Answer(call, "; ".join(texts) or "OK", acknowledged=acknowledged)
        if done and done[-1].kind == "screenshot":
            answer = replace(answer, picture=self._see(history))
        return answer, done

    def _confirm(self, call: Call) -> bool:
        """Whether safety checks were confirmed; ends the run where they must not be."""
        if not call.safety:
            return False
        self._audit.counts["safety_checks"] += len(call.safety)
        told = self._clean("; ".join(f"{item.code}: {item.message}" for item in call.safety))
        if not self.settings.acknowledge:
            for _ in call.actions:
                self._audit.action("refused")
            raise _Done("failed", f"safety check: {told} (acknowledge: true in a settings file would go on)")
        self._audit.counts["safety_acknowledged"] += len(call.safety)
        self._say(f"safety check acknowledged: {told}")
        return True

    def _extract(self, call: Call) -> Answer:
        values, why, wrapped = extracted(call.arguments, self.task.response_schema)
        if why:
            self._audit.note("extractions_rejected")
            self._say(f"extraction rejected: {self._clean(why)}")
            return Answer(call, f"The values are not as asked for: {why}", error=True)
        if wrapped:
            self._audit.repairs["extraction_unwrapped"] += 1
        raise _Done("success", "the model reports that the task is done", values)

    def _watch_for_loops(self, done: tuple[Action, ...], before: Image.Image) -> None:
        """Counts a loop that is complete with what a whole reply did.

        Raises:
            _Done: The run is to end for it.
        """
        if not self._watch.repeated(done, before):
            return
        self._audit.note("loops")
        self._say(f"loop: the same {self.settings.loop_after} times on the same screen")
        if 0 < self.settings.stop_at_loops <= self._audit.counts["loops"]:
            raise _Done("failed", f"the model repeated itself {self._audit.counts['loops']} times")

    # -- looking --------------------------------------------------------------------------------------------------------

    def _with_picture(self, answers: list[Answer], history: History) -> tuple[Answer, ...]:
        """The answers, the last one of the computer with the screen after all of them."""
        able = [
            number
            for number, answer in enumerate(answers)
            if answer.call.tool == "computer" and (self.session.picture_on_errors or not answer.error)
        ]
        if able and answers[able[-1]].picture is None:
            answers[able[-1]] = replace(answers[able[-1]], picture=self._see(history))
        return tuple(answers)

    def _see(self, history: History) -> Picture:
        """The screen as it is now; also when it has another size than before."""
        picture, view = self._look()
        if view != history.view:
            self._say(f"the screen is now {view.screen[0]} x {view.screen[1]}")
            history.view = view
        return picture

    def _look(self) -> tuple[Picture, View]:
        self._shot = self._hands.look(quiet=self.settings.quiet, within=self.settings.settle)
        view = View.of(self._shot.size, longest=self.settings.longest_edge, grid=self.session.grid)
        return view.picture(self._shot), view

    # -- telling --------------------------------------------------------------------------------------------------------

    def _clean(self, text: str, limit: int = 500) -> str:
        return scrubbed(text, self._secrets, limit=limit)

    def _say(self, text: str) -> None:
        self._timeline.append(Happening(time.monotonic() - self._begun, text))

    def _report(self, status: Status, message: str, returned: Any = None) -> AgentReport:
        counts = self._audit.usage()
        told = ", ".join(f"{name.removeprefix('audit_')} {value:g}" for name, value in counts.items() if value)
        self._say(f"execution audit: {told or 'no action was proposed'}")
        usage = self._usage()
        return AgentReport(status, returned, message, usage | counts, tuple(self._timeline))

    def _usage(self) -> dict[str, float]:
        totals = self._totals
        usage = {
            "turns": float(totals.replies),
            "tokens_in": float(totals.input),
            "tokens_out": float(totals.output),
            "tokens_cached": float(totals.cached),
            "tokens_cache_written": float(totals.written),
        }
        knobs = self.settings.recorded()
        if self._temperature is None:
            knobs.pop("temperature", None)
        if totals.untold:
            usage["replies_without_usage"] = float(totals.untold)
        if self._price is None:
            self._say(
                f"no cost: the price table of {self.prices.as_of} does not know {self.settings.provider}/{self.settings.model}"
            )
        elif totals.untold:
            self._say("no cost: the provider did not tell the tokens of every reply")
        else:
            usage["cost_usd"] = round(totals.dollars, 6)
            self._say(f"cost: about ${totals.dollars:.4f} by the prices of {self.prices.as_of}")
        return usage | knobs
