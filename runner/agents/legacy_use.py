"""The ``legacy-use`` agent: a job on a legacy-use server, which works on the machine through the flight recorder.

For each run it makes a target of its own at the recorder's address, a session for it, and one job; the contract's prompt becomes
an API definition, imported once per campaign. What the server calls success, pause or error is translated into a status by its
cause; what is the server's, the provider's or the network's fault makes the run unscored. How to set it up, and what each state
means: ``docs/agents/legacy-use.md``.
"""

from __future__ import annotations

from importlib.util import find_spec

from runner.agents.base import AgentSpecError, PlannedAgent
from runner.agents.legacyuse.configuration import load
from runner.findings import Finding

_MISSING = "the agent legacy-use needs httpx"
_REMEDY = "install legacyproof with the extra `legacy-use`"


def plan_legacy_use(argument: str) -> list[PlannedAgent]:
    """The agent for ``legacy-use`` or ``legacy-use:<configuration file>``.

    Raises:
        AgentSpecError: The configuration cannot be used, this host has not the address that the recorder should listen on, or
            httpx is not installed.
    """
    if find_spec("httpx") is None:
        raise AgentSpecError(f"{_MISSING}; {_REMEDY}")
    from runner.agents.legacyuse.agent import LegacyUseAgent, check_listening  # noqa: PLC0415 - needs httpx

    configuration = load(argument)
    check_listening(configuration)
    return [PlannedAgent(f"legacy-use:{argument}" if argument else "legacy-use", LegacyUseAgent(configuration))]


def doctor(argument: str) -> list[Finding]:
    """Finds out what is missing for the agent to work: asks the server, and lets it connect to a display of ours.

    Args:
        argument: As after ``legacy-use:``.
    """
    if find_spec("httpx") is None:
        return [Finding("httpx", False, f"{_MISSING}, which is not installed", _REMEDY)]
    from runner.agents.legacyuse.checks import findings  # noqa: PLC0415 - needs httpx

    try:
        configuration = load(argument)
    except AgentSpecError as error:
        return [Finding("configuration", False, str(error), "docs/agents/legacy-use.md describes every setting")]
    return findings(configuration)
