"""The ``computer-use`` agent: a vendor's model operates the machine through the display, without any other server.

The work is done by :mod:`runner.agents.computeruse`; the vendors' SDKs are extras and loaded only when they are used.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from contracts.load import ContractError
from runner.agents.base import AgentInfrastructureError, AgentReport, AgentSpecError, AgentTask, PlannedAgent
from runner.agents.computeruse.loop import Loop
from runner.agents.computeruse.prices import PriceTable, load_prices
from runner.agents.computeruse.providers.base import (
    EXTRAS,
    Asking,
    ProviderTrouble,
    open_session,
    require_address,
    require_key,
    sdk,
)
from runner.agents.computeruse.settings import URL_VARIABLES, Settings, read_settings
from runner.display.errors import DisplayError
from runner.display.rfb import RfbClient
from runner.findings import Finding

_LOOK_UP_SECONDS = 15.0


class ComputerUseAgent:
    """A model that operates the machine (see :class:`runner.agents.base.Agent`)."""

    def __init__(self, settings: Settings, prices: PriceTable) -> None:
        self.name = f"computer-use {settings.shown_name}"
        self._settings = settings
        self._prices = prices

    def run(self, task: AgentTask) -> AgentReport:
        """See :meth:`runner.agents.base.Agent.run`."""
        try:
            session = open_session(Asking(self._settings, task.response_schema))
        except AgentSpecError as error:  # it was all there when the run was planned
            raise AgentInfrastructureError(str(error)) from None
        with contextlib.closing(session):
            try:
                screen = RfbClient.connect(task.display)
            except DisplayError as error:
                if task.cancelled.is_set() or time.monotonic() >= task.deadline:
                    return AgentReport(
                        "timeout", message="the time was over"
                    )  # the runner itself cuts the display then
                raise AgentInfrastructureError(f"the display cannot be reached: {error}") from None
            with screen:
                return Loop(self._settings, self._prices, session, screen, task).run()


def plan_computer_use(argument: str) -> list[PlannedAgent]:
    """The agent for ``computer-use:<provider>/<model>`` or ``computer-use:<settings>.yaml``.

    Raises:
        AgentSpecError: The argument is not fit; the SDK, the key or the endpoint's address is missing; or the SDK cannot be set up
            with them and the environment's proxies.
    """
    settings, folder = read_settings(argument)
    open_session(Asking(settings, None)).close()
    return [PlannedAgent(f"computer-use:{argument}", ComputerUseAgent(settings, _prices(settings, folder)))]


def _prices(settings: Settings, folder: Path) -> PriceTable:
    try:
        return load_prices(folder / settings.prices if settings.prices else None)
    except ContractError as error:
        raise AgentSpecError(str(error)) from None


def doctor(argument: str) -> list[Finding]:
    """What is in order and what is missing for ``computer-use:<argument>``; asks the provider, but no model.

    Args:
        argument: As for :func:`plan_computer_use`.
    """
    try:
        settings, folder = read_settings(argument)
    except AgentSpecError as error:
        return [Finding("computer-use: specification", False, str(error), "see docs/agents/computer-use.md")]
    who = f"computer-use {settings.shown_name}"
    findings = [_sdk_finding(who, settings)]
    findings.append(_price_finding(who, settings, folder))
    try:
        require_address(settings)
    except AgentSpecError as error:
        remedy = f"set {URL_VARIABLES[settings.provider]}, or base_url in a settings file, to the endpoint's address"
        return [*findings, Finding(f"{who}: endpoint", False, str(error), remedy)]
    try:
        require_key(settings)
    except AgentSpecError as error:
        findings.append(
            Finding(f"{who}: key", False, str(error), "set it in the environment of legacyproof, not in a file")
        )
        return findings
    where = next((name for name in settings.key_variables() if settings.key()), "")
    found = (
        "the key is set"
        if settings.key()
        else f"no key is set ({where or settings.key_variables()[0]}); many self-hosted servers want none"
    )
    findings.append(Finding(f"{who}: key", True if settings.key() else None, found))
    if findings[0].ok:
        findings += _endpoint_findings(who, settings)
    return findings


def _sdk_finding(who: str, settings: Settings) -> Finding:
    module, extra = EXTRAS[settings.provider]
    try:
        found = sdk(settings.provider)
    except AgentSpecError as error:
        return Finding(f"{who}: SDK", False, str(error), f"pip install 'legacyproof[{extra}]'")
    return Finding(f"{who}: SDK", True, f"{module} {getattr(found, '__version__', '')}".strip())


def _price_finding(who: str, settings: Settings, folder: Path) -> Finding:
    try:
        table = _prices(settings, folder)
    except AgentSpecError as error:
        return Finding(f"{who}: price", False, str(error), "correct the price table, or leave `prices` out")
    if table.find(settings.provider, settings.model) is None:
        return Finding(
            f"{who}: price", None, f"the price table of {table.as_of} does not know {settings.model}: runs will have no cost",
            "name a table of your own with `prices:` in a settings file",
        )  # fmt: skip
    return Finding(f"{who}: price", True, f"known, as of {table.as_of}")


def _endpoint_findings(who: str, settings: Settings) -> list[Finding]:
    where = settings.url() or "the vendor's own endpoint"
    try:
        session = open_session(Asking(settings, None))
    except AgentSpecError as error:
        return [Finding(f"{who}: endpoint", False, str(error), "correct what the message names")]
    try:
        known = session.look_up(_LOOK_UP_SECONDS)
    except ProviderTrouble as trouble:
        return [_trouble_finding(who, where, settings, trouble)]
    finally:
        session.close()
    reached = Finding(f"{who}: endpoint", True, f"{where} answers and takes the key")
    if known is None:
        model = Finding(f"{who}: model", None, f"{where} does not tell whether it knows {settings.model}")
    elif known:
        model = Finding(f"{who}: model", True, f"{settings.model} is known")
    else:
        model = Finding(
            f"{who}: model", False, f"{where} does not know {settings.model} for this account",
            "check the spelling, and that the account may use it",
        )  # fmt: skip
    return [reached, model]


def _trouble_finding(who: str, where: str, settings: Settings, trouble: ProviderTrouble) -> Finding:
    if trouble.kind == "auth":
        remedy = f"put the right key into {' or '.join(settings.key_variables())}"
        return Finding(f"{who}: key", False, f"{where} does not take the key: {trouble}", remedy)
    if trouble.kind == "quota":
        return Finding(f"{who}: account", False, f"the account is out of credit or quota: {trouble}", "top it up")
    if trouble.kind in ("unavailable", "rate"):
        remedy = (
            "check the network, the proxy and the address (base_url)"
            if trouble.kind == "unavailable"
            else "try again later"
        )
        return Finding(f"{who}: endpoint", False, f"{where} cannot be used: {trouble}", remedy)
    return Finding(f"{who}: endpoint", None, f"{where} answers, but not as expected: {trouble}")
