"""What the end of a legacy-use job means: one of the agent's statuses, or a fault of what it needs.

The server says ``paused`` for an unexpected screen, for a machine that is out of reach, for an interrupt and for a used-up
account alike, and ``error`` for what the model did as well as for what its provider did. What they mean stands in the error's
text, in the exchanges with the provider (:mod:`runner.agents.legacyuse.provider`), and, where that is the model's own words, in the job's
log. An error that none of them explains counts against the agent only if the model has spoken, and its account could be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runner.agents.base import Status
from runner.agents.legacyuse.account import LogEntry
from runner.agents.legacyuse.provider import Trouble, last_trouble, trouble_of

FINAL = frozenset({"success", "error", "canceled", "paused"})
"""States from which nothing happens any more; ``paused`` would need somebody to resume the job."""
WAITING = frozenset({"pending", "queued"})

INTERRUPTED = "Job was interrupted by user"
NO_EXTRACTION = "Model ended its turn without providing any extractions"
TOKEN_LIMIT = "Job was automatically terminated: exceeded token limit"  # noqa: S105 - no password
_OUT_OF_REACH = (
    "Timeout waiting for session",
    "Target container at",
    "Could not retrieve container_ip",
    "Health check prerequisites",
    "Session is",
    "Session not found",
)
_OF_THE_SERVER = re.compile(
    r"Lease expired|API '.*' not found|QueuePool limit of size|\((?:psycopg2?|asyncpg|sqlalchemy)\.[\w.]{1,80}\)",
    re.DOTALL,
)
"""The server's worker, a definition that is gone, and its database, as SQLAlchemy tells it."""


@dataclass(frozen=True, slots=True)
class JobState:
    """A job as the server shows it."""

    status: str
    error: str | None = None
    result: Any = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a job beside its state.

    Attributes:
        log: Its log; ``None``: it could not be read.
        exchanges: The contents of its exchanges with the model's provider; ``None``: they could not be read.
        available: Whether the server says that it can use its provider; ``None``: it does not say.
    """

    log: Sequence[LogEntry] | None
    exchanges: Sequence[Mapping[str, Any]] | None = ()
    available: bool | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """What a job's end means.

    Attributes:
        status: The agent's status; ``None``: what it needs was out, and the run must not be counted.
        message: In its own words, or ours.
        lasting: What it needs stays out until somebody acts: it makes no sense to begin with another job.
    """

    status: Status | None
    message: str
    lasting: bool = False


def ending_of(job: JobState, known: Evidence, *, stopped: str | None) -> Ending:
    """What a job's last state means.

    Args:
        job: Its last state.
        known: What else is known of it.
        stopped: Why we have asked it to stop; ``None``: we have not.
    """
    error = job.error or ""
    match job.status:
        case "success":
            return Ending("success", "")
        case "paused":
            return _paused(error, known, stopped)
        case "error":
            return _error(error, known, stopped)
        case "canceled" if stopped is not None:
            return Ending(None, f"the job was still waiting for a worker when {stopped}")
        case "canceled":
            return Ending(None, "somebody else cancelled the job")
        case _ if stopped is not None:
            if (trouble := last_trouble(known.exchanges)) is not None:
                return _troubled(trouble, f"{stopped}, and the job did not stop")
            return Ending("timeout", f"{stopped}; the job did not stop and was left without its session")
        case _:
            return Ending(None, f"the job is in the unknown state {job.status!r}")


def _troubled(trouble: Trouble, error: str) -> Ending:
    message = f"{trouble.meaning}: {error}" if error else trouble.meaning
    return Ending("failed" if trouble.is_the_agents else None, message, lasting=trouble.lasting)


def _paused(error: str, known: Evidence, stopped: str | None) -> Ending:
    log = known.log
    if log is None:
        # Without it nobody knows whether the error is in the model's own words; the exchanges are not.
        if (trouble := last_trouble(known.exchanges)) is not None:
            return _troubled(trouble, error)
        if error == INTERRUPTED and stopped is not None:
            return Ending("timeout", stopped)
        return Ending(None, f"the job was paused ({error}), and its log, which would tell why, could not be read")
    reasoning = _mismatch(log)
    trouble = trouble_of(error, known.exchanges, log)
    # A check of the machine's health comes before each tool; when that fails, the model's last words were not acted upon.
    of_the_server = error.startswith(_OUT_OF_REACH) or error == INTERRUPTED or trouble is not None
    if reasoning is not None and (error == reasoning or not of_the_server):
        return Ending("ui_not_as_expected", error or reasoning)
    if trouble is not None:  # also if we have interrupted it: the model was being waited for in vain
        return _troubled(trouble, error)
    if stopped is not None:  # whatever is said: our interrupt, or a machine that was taken from it meanwhile
        return Ending("timeout", stopped)
    if error == INTERRUPTED:
        return Ending(None, "the job was interrupted by somebody else, or by the server's shutdown")
    return Ending(None, f"the job was paused: {error or 'without a reason'}")


def _error(error: str, known: Evidence, stopped: str | None) -> Ending:
    log = known.log
    if error == NO_EXTRACTION:
        return Ending("failed", "the model ended without returning anything")
    if error.startswith(TOKEN_LIMIT):
        return Ending("error", "the job exceeded the server's token limit")
    if log is not None and (said := _extracted_error(log)) is not None and said == error:
        return Ending("failed", error)
    if _OF_THE_SERVER.match(error):
        return Ending(None, error)
    if (trouble := trouble_of(error, known.exchanges, log)) is not None:
        return _troubled(trouble, error)
    if not error:
        return Ending(None, "the job was ended while it waited for a worker")
    if log is None or known.exchanges is None:
        unread = "log" if log is None else "exchanges with the model's provider"
        return Ending(None, f"{error} (the job's {unread}, which would tell whose error it is, could not be read)")
    if not any(entry.kind == "message" for entry in log):
        keyless = known.available is False
        why = "; the server says that its provider is not available" if keyless else ""
        return Ending(None, f"the job ended before the model had said anything{why}: {error}", lasting=keyless)
    if stopped is not None:
        return Ending("timeout", f"{stopped}; {error}")
    return Ending("error", error)


def _mismatch(log: Sequence[LogEntry]) -> str | None:
    """Why the screen was not as expected, if that is the last thing the model said."""
    for entry in reversed(log):
        if entry.kind == "message":
            content = entry.content
            if isinstance(content, dict) and content.get("name") == "ui_not_as_expected":
                asked = content.get("input")
                return str(asked.get("reasoning", "")) if isinstance(asked, dict) else ""
            return None
    return None


def _extracted_error(log: Sequence[LogEntry]) -> str | None:
    """What the server makes of a last extraction that returns an error."""
    for entry in reversed(log):
        content = entry.content
        if entry.kind == "message" and isinstance(content, dict) and content.get("name") == "extraction":
            asked = content.get("input")
            data = asked.get("data") if isinstance(asked, dict) else None
            result = data.get("result", data) if isinstance(data, dict) else None
            if isinstance(result, dict) and result.get("error"):
                return str(result.get("error_description") or result["error"])
            return None
    return None
